// The normal distribution: accurate in its tails, eight tails at once, quantiles, and draws from hashed bits.
#pragma once

#include <algorithm>

#include "functions.hpp"

namespace linmed {

constexpr double SQRT_HALF = 0.7071067811865476, SQRT_TWO_PI = 2.5066282746310002, LOG_SQRT_TWO_PI = 0.9189385332046727;
constexpr double TWO_PI = 6.283185307179586;
constexpr double FAR = 25.0;  // from here on the asymptotic series of `mills_deficit` is good to 1e-13

// Φ(x).
inline double lower_tail(double x) { return 0.5 * erfc(-x * SQRT_HALF); }

// 1 − x Φ(−x)/φ(x) for x ≥ 0, by its asymptotic series where the difference would cancel.
inline double mills_deficit(double x) {
    if (x < FAR) return 1.0 - x * lower_tail(-x) * exp(0.5 * x * x + LOG_SQRT_TWO_PI);
    const double y = 1.0 / (x * x);
    double series = 1.0 - 13.0 * y;
    for (double odd : {11.0, 9.0, 7.0, 5.0}) series = 1.0 - odd * y * series;
    return y * (1.0 - 3.0 * y * series);
}

// log Φ(x), finite however far x is in the tail.
inline double log_cdf(double x) {
    if (x > 0.0) return log1p(-lower_tail(-x));
    if (x > -FAR) return log(lower_tail(x));
    // Φ(x) = φ(x)/|x| · (1 − the deficit)
    return log1p(-mills_deficit(-x)) - 0.5 * x * x - log(-x) - LOG_SQRT_TWO_PI;
}

// Φ⁻¹(u) for 1e-15 < u < 1, to about one unit in the last place of the larger of 1 and |Φ⁻¹(u)|.
//
// Abramowitz & Stegun 26.2.23 is right to 4.5e-4; each of Halley's steps for Φ(x) = u makes that the third power.
inline double quantile(double u) {
    const double tail = std::min(u, 1.0 - u), t = sqrt(-2.0 * log(tail));
    double x = t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
    for (int step = 0; step < 2; ++step) {  // 1 − Φ(x) = tail
        const double ratio = (lower_tail(-x) - tail) * SQRT_TWO_PI * exp(0.5 * x * x);
        x += ratio / (1.0 - 0.5 * x * ratio);
    }
    return u < 0.5 ? -x : x;
}

// 1 − Φ(x) in every lane, to 3e-8 of itself up to x = 37 and constant from there on (1e-300).
//
// exp(x²/2) (1 − Φ(x)) (x + c), x ≥ 0, as a function of y = (x − c)/(x + c) is interpolated at ten Chebyshev points.
LINMED_INLINE Lanes upper_tail(Lanes x) {
    constexpr double FARTHEST = 37.0, CENTRE = 3.2;
    const Lanes one = splat(1.0), farthest = splat(FARTHEST);
    Lanes a = larger(x, x * splat(-1.0));
    a = where_greater(a, farthest, farthest, a);
    const Lanes share = one / (a + splat(CENTRE));
    const Lanes y = fma(share, splat(-2.0 * CENTRE), one), y2 = y * y, y4 = y2 * y2;
    const Lanes t0 = fma(y, splat(-0.5338043223775493), splat(0.7358878857057768));
    const Lanes t2 = fma(y, splat(-0.07403134532137647), splat(0.265840204446541));
    Lanes t4 = fma(y, splat(8.2667217399261e-03), splat(-1.618066826741253e-03));
    const Lanes t6 = fma(y, splat(-1.0924277435284985e-03), splat(-7.332167971885364e-04));
    const Lanes t8 = fma(y, splat(1.3320200632528238e-04), splat(9.499664456559093e-05));
    t4 = fma(y4, t8, fma(y2, t6, t4));
    const Lanes ratio = fma(y4, t4, fma(y2, t2, t0));
    const Lanes tail = (share * ratio) * exp((a * a) * splat(-0.5));
    return where_greater(splat(0.0), x, one - tail, tail);
}

// Φ(−x)/φ(x) for x ≥ 0 in every lane (Mills' ratio), to 3e-15 of itself.
//
// Times x + c it is a smooth function of y = (x − c)/(x + c), which is interpolated at 22 Chebyshev points.
LINMED_INLINE Lanes mills_ratio(Lanes x) {
    constexpr double CENTRE = 4.0;
    constexpr double EVEN[] = {
        1.893219063308483, 0.970409554868127, 0.15139176229082396, -0.008722294934670206, 0.00033424187000875746,
        -4.770245141370666e-06, 1.7576622866877578e-06, -1.504020858052661e-06, 5.888136419758956e-07,
        -1.4192274407094445e-07, 1.6941044496128486e-08};
    constexpr double ODD[] = {
        -1.5237709108199833, -0.4675409629983191, -0.018900450862729047, 0.004087855699923973, -0.0005792694653014752,
        8.8096507875331e-05, -1.4845580970857103e-05, 2.5731047677420953e-06, -4.0574430520271746e-07,
        4.865441022034113e-08, -3.126368774356563e-09};
    const Lanes share = splat(1.0) / (x + splat(CENTRE)), y = fma(share, splat(-2.0 * CENTRE), splat(1.0)), y2 = y * y;
    Lanes even = splat(EVEN[10]), odd = splat(ODD[10]);
    for (int k = 9; k >= 0; --k) even = fma(even, y2, splat(EVEN[k])), odd = fma(odd, y2, splat(ODD[k]));
    return share * fma(y, odd, even);
}

// Bits, uniforms and normals without end from one state (SplitMix64).
struct HashedDraws {
    uint64_t state;

    uint64_t bits() {
        state += 0x9E3779B97F4A7C15u;
        uint64_t z = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9u;
        z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
        return z ^ (z >> 31);
    }
    double uniform() { return (double(bits() >> 11) + 0.5) * 0x1p-53; }  // in (0, 1)

    // Two standard normals (Box–Muller).
    void pair(double &first, double &second) {
        const double length = sqrt(-2.0 * log(uniform())), angle = TWO_PI * uniform();
        first = length * cos(angle), second = length * sin(angle);
    }

    // A state that depends on every bit of n words.
    static HashedDraws from(const uint64_t *words, Index n) {
        uint64_t seed = 0;
        for (Index k = 0; k < n; ++k) seed = HashedDraws{seed ^ words[k]}.bits();
        return {seed};
    }
};

}  // namespace linmed
