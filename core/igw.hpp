// Inverse gap weighting: probabilities that fall like one over the estimated gap. What SquareCB and SpannerIGW share.
#pragma once

#include "belief.hpp"
#include "sampling.hpp"

namespace linmed {

// gap_a = max_b mean_b − mean_a; returns the best arm, the lowest index among equals.  mean, gap (K,).
inline Index gaps_to_best(const double *mean, Index K, double *gap) {
    Index best = 0;
    for (Index i = 1; i < K; ++i)
        if (mean[i] > mean[best]) best = i;
    for (Index i = 0; i < K; ++i) gap[i] = mean[best] - mean[i];
    return best;
}

// The λ > 0 with Σ q_i / (λ + gap_i) = 1, where some q_i > 0 has gap 0.  q, gap (K,), non-negative.
//
// Newton's method on 1/h, h(λ) = Σ q_i / (λ + gap_i): 1/h is increasing and concave, so the iterates climb to the root
// from the start at Σ_{gap 0} q_i, where h ≥ 1.
inline double normaliser(const double *q, const double *gap, Index K) {
    double lam = 0.0;
    for (Index i = 0; i < K; ++i)
        if (gap[i] == 0.0) lam += q[i];
    for (int iteration = 0; iteration < 100; ++iteration) {
        double h = 0.0, slope = 0.0;
        for (Index i = 0; i < K; ++i) {
            const double term = q[i] / (lam + gap[i]);
            h += term;
            slope += term / (lam + gap[i]);
        }
        const double step = h * (h - 1.0) / slope;
        if (!(step > 1e-15 * lam)) break;
        lam += step;
    }
    return lam;
}

// out_a = q_a / (λ + gap_a) with the λ that makes the sum 1.  All (K,).
inline void inverse_gaps(const double *q, const double *gap, Index K, double *out) {
    const double lam = normaliser(q, gap, K);
    for (Index i = 0; i < K; ++i) out[i] = q[i] / (lam + gap[i]);
}

// What these rules write of every arm.
struct GapScratch : Rule::Scratch {
    Buffer mean, gap, share, p;
    explicit GapScratch(Index K) : mean(padded(K)), gap(padded(K)), share(padded(K)), p(padded(K)) {}
};

// A rule with an exploration parameter γ.
class GapRule : public Rule {
  public:
    std::unique_ptr<Scratch> workspace(Index K, Index) const override { return std::make_unique<GapScratch>(K); }
    // γ of row s for K arms in d dimensions.
    virtual double exploration(const Belief &belief, Index s, Index K, Index d) const = 0;
};

}  // namespace linmed
