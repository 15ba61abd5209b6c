// From probabilities to an arm, with a share `floor` of the mass spread evenly over all arms.
#pragma once

#include "functions.hpp"

namespace linmed {

// The first arm whose running total exceeds `target`; arms of weight 0 are never drawn.
inline Index invert_cdf(const double *weights, Index K, double target) {
    double running = 0.0;
    Index last = 0;
    for (Index i = 0; i < K; ++i)
        if (weights[i] > 0.0) {
            running += weights[i], last = i;
            if (running > target) break;
        }
    return last;
}

LINMED_INLINE double floored(double p, double floor, Index K) { return (1.0 - floor) * p + floor / double(K); }

// The arm that a uniform draws from the floored p (K,), which takes its place; writes log_p (K,) unless it is null.
inline Index settle(double *p, Index K, double floor, double uniform, double *log_p) {
    if (floor > 0.0)
        for (Index i = 0; i < K; ++i) p[i] = floored(p[i], floor, K);
    if (log_p)
        for (Index i = 0; i < K; ++i) log_p[i] = p[i] > 0.0 ? log(p[i]) : -INF;
    return invert_cdf(p, K, uniform);
}

// `settle` where a rule plays one arm; p (K,) is scratch.
inline Index settle_on(Index arm, double *p, Index K, double floor, double uniform, double *log_p) {
    if (floor == 0.0 && !log_p) return arm;
    for (Index i = 0; i < K; ++i) p[i] = 0.0;
    p[arm] = 1.0;
    return settle(p, K, floor, uniform, log_p);
}

}  // namespace linmed
