// SpannerIGW: inverse gap weighting over a design.
#pragma once

#include "igw.hpp"
#include "optimal.hpp"

namespace linmed {

// p(a) = q(a)/(λ + η gap_a), q half on the best arm, half on a design of the arms a/√(1 + η gap_a).
class SpannerRule : public GapRule {
  public:
    double C_opt;
    double gamma;              // 0 stands for the formula
    double horizon;            // 0 stands for the current round
    double log_rate;           // log(2/δ); negative stands for δ = 1/(n+1)
    double regression_regret;  // 0 stands for d log n
    bool optimal;
    double floor;

    SpannerRule(double C_opt, double gamma, double horizon, double log_rate, double regression_regret, bool optimal,
                double floor)
        : C_opt(C_opt), gamma(gamma), horizon(horizon), log_rate(log_rate), regression_regret(regression_regret),
          optimal(optimal), floor(floor) {}

    // γ for n rounds, or for the current one.
    double exploration(const Belief &belief, Index s, Index, Index d) const override {
        if (gamma > 0.0) return gamma;
        return rate(horizon > 0.0 ? horizon : belief.count(s) + 1.0, d);
    }

    Index decide(const Belief &belief, Index s, double, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<GapScratch &>(room);
        double *gap = scratch.gap, *q = scratch.share;
        const double eta = exploration(belief, s, arms.K, arms.d) / (C_opt * double(arms.d));
        belief.expect(s, arms, scratch.mean);
        const Index best = gaps_to_best(scratch.mean, arms.K, gap);
        for (Index i = 0; i < arms.K; ++i) gap[i] *= eta;
        design(belief, s, arms, gap, scratch.p, q);
        for (Index i = 0; i < arms.K; ++i) q[i] *= 0.5;
        q[best] += 0.5;
        inverse_gaps(q, gap, arms.K, scratch.p);
        return settle(scratch.p, arms.K, floor, noise[0], log_p);
    }

  protected:
    // γ = √(C_opt d n / (Reg_Sq + 32 log(2/δ))).
    double rate(double n, Index d) const {
        const double l = log_rate >= 0.0 ? log_rate : log(2.0 * (n + 1.0));
        const double regret = regression_regret > 0.0 ? regression_regret : double(d) * log(n);
        return sqrt(C_opt * double(d) * n / (regret + 32.0 * l));
    }

    // Writes the design of the arms a/√(1 + gap_a) to q; `gap` is η times the gaps, `scale` is scratch.  All (K,).
    virtual void design(const Belief &, Index, const Arms &arms, const double *gap, double *scale, double *q) const {
        for (Index i = 0; i < arms.K; ++i) scale[i] = -0.5 * log1p(gap[i]);
        if (optimal) optimal_design(arms, scale, OPTIMAL_TOL, q);
        else approx_design(arms, scale, q);
    }
};

}  // namespace linmed
