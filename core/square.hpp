// SquareCB: inverse gap weighting over all arms.
#pragma once

#include <stdexcept>

#include "igw.hpp"

namespace linmed {

// p(a) = 1/(K + γ gap_a), the rest on the best arm; or, normalised, p(a) = 1/(λ' + 2γ gap_a).
class SquareRule final : public GapRule {
  public:
    bool vaw, normalised;
    double gamma;     // 0 stands for the formula
    double horizon;   // 0 stands for the current round
    double log_rate;  // log(2/δ); negative stands for δ = 1/(n+1)
    double lam;       // λ
    double bias;      // λS²
    double variance;  // σ²
    double unit;      // σ² + S²

    SquareRule(bool vaw, bool normalised, double gamma, double horizon, double log_rate, double lam, double bias,
               double variance, double unit)
        : vaw(vaw), normalised(normalised), gamma(gamma), horizon(horizon), log_rate(log_rate), lam(lam), bias(bias),
          variance(variance), unit(unit) {}

    bool asks() const override { return true; }
    // γ = √(K n / (Reg_Sq + log(2/δ))).
    double exploration(const Belief &belief, Index s, Index K, Index d) const override {
        if (gamma > 0.0) return gamma;
        double n = horizon, regret;
        if (horizon > 0.0) {
            regret = variance * double(d) * log1p(n / (double(d) * lam));
        } else {
            if (!belief.logdet) throw std::invalid_argument("SquareRule needs gamma, a horizon or a ridge estimate");
            n = belief.count(s) + 1.0;
            regret = bias + unit * belief.logdet[s];
        }
        return sqrt(double(K) * n / (regret + (log_rate >= 0.0 ? log_rate : log(2.0 * (n + 1.0)))));
    }

    Index decide(const Belief &belief, Index s, double, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<GapScratch &>(room);
        double *mean = scratch.mean, *gap = scratch.gap, *p = scratch.p;
        const Index K = arms.K;
        const double rate = exploration(belief, s, K, arms.d);
        if (vaw) {  // the Vovk–Azoury–Warmuth forecaster: <θ̂, a> / (1 + |a|²)
            belief.forecast(s, arms, mean, gap, p);
        } else {
            belief.expect(s, arms, mean);
        }
        const Index best = gaps_to_best(mean, K, gap);
        if (normalised) {
            for (Index i = 0; i < K; ++i) gap[i] *= 2.0 * rate, scratch.share[i] = 1.0;
            inverse_gaps(scratch.share, gap, K, p);
        } else {
            double rest = 1.0;
            for (Index i = 0; i < K; ++i)
                if (i != best) {
                    p[i] = 1.0 / (double(K) + rate * gap[i]);
                    rest -= p[i];
                }
            p[best] = rest;
        }
        return settle(p, K, 0.0, noise[0], log_p);
    }
};

}  // namespace linmed
