// EXP2: exponential weights over estimated totals, mixed with a design, and the unbiased estimate Q⁻¹a y.
//
// Everything but the scores <Θ, a> happens in coordinates u of the arms in their own span, where Q = Σ P(a) u u' is
// positive definite whenever the design spans.
#pragma once

#include <stdexcept>

#include "optimal.hpp"
#include "sampling.hpp"

namespace linmed {

// The sum of the estimates Q⁻¹a·y in every replica; θ̂ is their mean.
class Totals final : public Belief {
  public:
    Index R;
    int64_t *counts;  // (R,)
    double *total;    // (R,d) Θ

    Totals(Index R, Index width, double *mean, int64_t *counts, double *total) : R(R), counts(counts), total(total) {
        d = width, theta = mean;
    }
    Index replicas() const override { return R; }
    double count(Index s) const override { return double(counts[s]); }

    // Θ += Q⁻¹a·y, where `a` holds Q⁻¹a.
    void absorb(Index r, const double *a, double reward) override {
        counts[r] += 1;
        for (Index k = 0; k < d; ++k) {
            total[r * d + k] += a[k] * reward;
            theta[r * d + k] = total[r * d + k] / double(counts[r]);
        }
    }
};

// What depends on the arms alone, for each of n sets, or for one that all replicas share.
struct Geometry {
    Index n, K, d;
    double *design;       // (n,K) G-optimal
    double *coordinates;  // (n,K,d) of the arms in their span, of which rank[p] count
    int64_t *rank;        // (n,)
    double *lift;         // (n,d,d) from coordinates back to vectors

    // Of arms (n,K,d).
    void make(const double *arms) const {
        constexpr double TOL = 1e-9;
        Buffer zeros(K);
        std::vector<Index> pivots;
        for (Index p = 0; p < n; ++p) {
            const Arms one{arms + p * K * d, K, d, d, nullptr};
            rank[p] = span_coordinates(one, zeros, coordinates + p * K * d, pivots, lift + p * d * d);
            optimal_design(one, zeros, TOL, design + p * K);
        }
    }
};

// P(a) = γ π(a) + (1 − γ) exp(score_a), and Q⁻¹a of the arm played.
class Exp2Rule final : public Rule {
  public:
    bool prices() const override { return false; }
    double horizon;  // 0 stands for the current round and one more
    double eta;      // 0 stands for the formula
    double gamma;    // 0 stands for r η
    Geometry geometry;

    Exp2Rule(double horizon, double eta, double gamma, const Geometry &geometry)
        : horizon(horizon), eta(eta), gamma(gamma), geometry(geometry) {}

    struct Room : Scratch {
        Buffer score, p;
        explicit Room(Index K) : score(padded(K)), p(padded(K)) {}
    };
    std::unique_ptr<Scratch> workspace(Index K, Index) const override { return std::make_unique<Room>(K); }

    // η = √(log K / (3 r n)), at most 1/(2r), and γ = r η, at most 1/2, after t rewards, for K arms of this rank.
    struct Rates { double eta, gamma; };
    Rates rates(double t, double rank, double K) const {
        const double n = horizon > 0.0 ? horizon : t + 2.0;
        const double h = eta > 0.0 ? eta : std::min(sqrt(log(K) / (3.0 * rank * n)), 0.5 / rank);
        return {h, gamma > 0.0 ? gamma : std::min(rank * h, 0.5)};
    }

    // log P(a) is finite also where exp(score) underflows and π has no weight.
    Index decide(const Belief &belief, Index s, double, const Arms &arms, Index p, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<Room &>(room);
        const double share = mix(belief, s, arms, p, scratch);
        if (log_p)
            for (Index i = 0; i < arms.K; ++i)
                log_p[i] = geometry.design[p * arms.K + i] > 0.0 ? log(scratch.p[i]) : log1p(-share) + scratch.score[i];
        return invert_cdf(scratch.p, arms.K, noise[0]);
    }

    // score_a = η<Θ, a> − log Σ exp(η<Θ, ·>), the log of the exponential weights, and P(a) of set p; returns γ.
    double mix(const Belief &belief, Index s, const Arms &arms, Index p, Room &scratch) const {
        const auto *known = dynamic_cast<const Totals *>(&belief);
        if (!known) throw std::invalid_argument("Exp2Rule needs Totals");
        if (p >= geometry.n || arms.K != geometry.K || arms.d != geometry.d)
            throw std::invalid_argument("arms are not those that the geometry of Exp2Rule was made of");
        const Index K = arms.K;
        double *score = scratch.score, highest = -INF, mass = 0.0;
        const auto [rate, share] = rates(belief.count(s), double(geometry.rank[p]), double(K));
        products(arms, known->total + s * arms.d, score);
        for (Index i = 0; i < K; ++i) highest = std::max(highest, score[i] *= rate);
        for (Index i = 0; i < K; ++i) mass += exp(score[i] - highest);
        const double log_mass = log(mass);
        for (Index i = 0; i < K; ++i) {  // first the highest: beside a large one log_mass would be lost to rounding
            score[i] = (score[i] - highest) - log_mass;
            scratch.p[i] = share * geometry.design[p * K + i] + (1.0 - share) * exp(score[i]);
        }
        return share;
    }

    // Q⁻¹a with the probabilities of the decision, so that Q⁻¹a·y is an unbiased estimate of θ* on the span.
    const double *lesson(const double *, Index p, Index arm, Scratch &room, double *a) const override {
        const Index rank = geometry.rank[p], K = geometry.K, d = geometry.d;
        const Arms span{geometry.coordinates + p * K * d, K, rank, d, nullptr};
        Buffer ones(K);
        Desk desk(rank);
        for (Index i = 0; i < K; ++i) ones[i] = 1.0;
        weighted_inverse(span, ones, static_cast<Room &>(room).p, 0.0, desk);
        for (Index k = 0; k < d; ++k) {
            double total = 0.0;
            for (Index i = 0; i < rank; ++i) {
                double x = 0.0;
                for (Index j = 0; j < rank; ++j) x += desk.M()[i * desk.stride + j] * span.row(arm)[j];
                total += geometry.lift[(p * d + k) * d + i] * x;
            }
            a[k] = total;
        }
        return a;
    }
};

}  // namespace linmed
