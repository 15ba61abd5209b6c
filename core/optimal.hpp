// The G-optimal design (Wolfe–Atwood), and the certificate of any design.
#pragma once

#include "design.hpp"

namespace linmed {

constexpr double OPTIMAL_TOL = 1e-6;  // of the designs that rules make in every round

// The arm of the smallest leverage among those with weight, the lowest on ties.  Both are padded; no weight past K.
inline Index least_of_support(const double *weights, const double *leverage, Index K) {
    Lanes lowest = splat(INF), bottom = splat(0.0), here = steps();
    for (Index first = 0; first < K; first += LANES) {
        const Lanes value = where_greater(load(weights + first), splat(0.0), load(leverage + first), splat(INF));
        bottom = where_greater(lowest, value, here, bottom);
        lowest = where_greater(lowest, value, value, lowest);
        here = here + splat(double(LANES));
    }
    return first_of_smallest(lowest, bottom).place;
}

// G-optimal design of the rows exp(log_scale_i) a_i: Frank–Wolfe with away steps (Todd 2016).  log_scale, out (K,).
//
// Ends when max leverage ≤ (1 + tol)·rank and no arm of the support lies more than tol below: the Kiefer–Wolfowitz
// certificate. Returns max leverage / rank.
[[gnu::noinline]] inline double optimal_design(const Arms &given, const double *log_scale, double tol, double *out) {
    constexpr Index LONGEST = 1000000;  // steps; linear convergence needs thousands
    const Index K = given.K;
    Buffer weights(padded(K)), c(padded(K));
    InSpan span(given, log_scale, weights);
    const double rank = double(span.rank);
    double *leverage = span.leverage, *M = span.desk.M(), *v = span.desk.line(0), *u = span.desk.line(1);
    const Index stride = span.desk.stride;
    double total = 0.0;
    for (Index i = 0; i < K; ++i) {
        if (span.rank == 0) weights[i] = log_scale[i] > -INF ? 1.0 : 0.0;
        total += weights[i];
    }
    for (Index i = 0; i < K; ++i) weights[i] /= total;
    Index high = 0;
    for (Index step = 0; span.rank > 0; ++step) {
        between_rounds();
        if (step % 200 == 0) {  // the rank-one updates below drift
            weighted_inverse(span.arms, span.ones, weights, 0.0, span.desk);
            high = span.measure();
        }
        const Index low = least_of_support(weights, leverage, K);
        const double over = leverage[high] / rank - 1.0, under = 1.0 - leverage[low] / rank;
        if (!(over > tol || under > tol) || step >= LONGEST || span.rank == 1) break;
        Index arm = high;
        double tau = over / (leverage[high] - 1.0);
        if (!(over >= under)) {
            arm = low;
            tau = -weights[low] / (1.0 - weights[low]);  // drops the arm
            if (leverage[low] > 1.0) tau = std::max(-under / (leverage[low] - 1.0), tau);
        }
        const bool dropped = tau < 0.0 && tau == -weights[arm] / (1.0 - weights[arm]);
        for (Index k = 0; k < span.rank; ++k) v[k] = span.arms.row(arm)[k];
        times_line(M, span.rank, stride, v, u);
        products(span.arms, u, c);
        const double shrink = tau / (1.0 - tau + tau * leverage[arm]), rest = 1.0 - tau;
        high = arg_largest(K, [&](Index first) {
            const Lanes along = load(c + first) * load(span.ones + first);  // 0 past the last arm
            const Lanes value = (load(leverage + first) - splat(shrink) * along * along) / splat(rest);
            store(leverage + first, value);
            store(weights + first, load(weights + first) * splat(rest));
            return value;
        });
        for (Index j = 0; j < span.rank; ++j) {
            const Lanes share = splat(-shrink) * splat(u[j]);
            double *row = M + j * stride;
            for (Index k = 0; k < stride; k += LANES)
                store(row + k, fma(share, load(u + k), load(row + k)) * splat(1.0 / rest));
        }
        weights[arm] = dropped ? 0.0 : weights[arm] + tau;
    }
    if (span.rank == 0) {
        std::copy_n(static_cast<const double *>(weights), K, out);
        return 1.0;
    }
    if (span.rank == 1)  // all weight on the longest arm
        for (Index i = 0; i < K; ++i) weights[i] = i == high ? 1.0 : 0.0;
    total = 0.0;
    for (Index i = 0; i < K; ++i) {
        if (weights[i] < 1e-9 / double(K)) weights[i] = 0.0;
        total += weights[i];
    }
    for (Index i = 0; i < K; ++i) out[i] = weights[i] /= total;
    weighted_inverse(span.arms, span.ones, weights, 0.0, span.desk);
    return leverage[span.measure()] / rank;
}

// max_a |a|² in V(π)⁻¹ / rank of the arms; inf if π does not span them.  weights (K,).
inline double certificate(const Arms &given, const double *weights) {
    const Index K = given.K;
    std::vector<Index> pivots;
    Buffer zeros(K), coordinates(K * given.d), ones(padded(K)), leverage(padded(K));
    const Index rank = span_coordinates(given, zeros, coordinates, pivots);
    if (rank == 0) return 1.0;
    for (Index i = 0; i < K; ++i) ones[i] = 1.0;
    Buffer blocks(Arms::room(K, rank));
    const Arms arms = pack(coordinates, K, rank, given.d, blocks);
    Desk desk(rank);
    if (!weighted_inverse(arms, ones, weights, 1e-13, desk)) return INF;
    const Index worst = squared_lengths(arms, arms.d, ones, desk.M(), desk.stride, leverage);
    return adds_up(weights, leverage, K, rank) ? leverage[worst] / double(rank) : INF;
}

}  // namespace linmed
