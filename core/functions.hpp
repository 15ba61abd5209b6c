// exp, log and their relatives, of our own: those of the C library differ in the last bit from one system to the next.
//
// Inside this namespace exp(x), log(x), … are the functions below: nothing in the core may call the C library's (a test
// looks at the symbols of the module). sqrt, fma, floor, fabs, ldexp and frexp are exact everywhere and may be std's.
//
// Every function uses only +, -, *, /, fma and operations on bits, in a fixed order, so it has the same bits on every
// processor. Its comment states its largest error in units in the last place (ulp), as measured against mpmath in
// tests/core/test_functions.py. NaN gives NaN. Polynomials are those of least error, computed by tools/minimax.py.
#pragma once

#include <algorithm>
#include <bit>

#include "lanes.hpp"

namespace linmed {

using std::fabs;
using std::floor;
using std::frexp;
using std::isfinite;
using std::ldexp;
using std::sqrt;

constexpr double LN2_HIGH = 0.6931471805599453, LN2_LOW = 2.3190468138462996e-17;  // log 2 = high + low
constexpr double LOG2_E = 1.4426950408889634, LOG2_E_LOW = 2.0355273740931033e-17;
constexpr double SHIFT = 0x1.8p52;  // what is added to it is rounded to a whole number, which its last bits then hold

typedef uint64_t Bits __attribute__((vector_size(8 * WIDTH)));  // of a part; sums without overflow, whatever it holds

// A constant, as a number or in every lane: scalar and vector functions are the same template, hence the same bits.
template <class V> LINMED_INLINE V all(double c) {
    if constexpr (std::is_same_v<V, double>) return c;
    else return splat(c);
}

// c₀ + c₁ x + … by pairs, pairs of pairs, … (Estrin): a chain of log n fused steps in place of n.
template <std::size_t n, class V> LINMED_INLINE V join_pairs(V *term, V power) {
    if constexpr (n == 1) {
        return term[0];
    } else {
        [&]<std::size_t... i>(std::index_sequence<i...>) LINMED_ALWAYS {
            ((term[i] = fma(power, term[2 * i + 1], term[2 * i])), ...);
        }(std::make_index_sequence<n / 2>{});
        if constexpr (n % 2 == 1) term[n / 2] = term[n - 1];
        return join_pairs<(n + 1) / 2>(term, power * power);
    }
}
template <class V, std::size_t n> LINMED_INLINE V polynomial(V x, const double (&c)[n]) {
    V term[n];
    [&]<std::size_t... i>(std::index_sequence<i...>) LINMED_ALWAYS { ((term[i] = all<V>(c[i])), ...); }(
        std::make_index_sequence<n>{});
    return join_pairs<n>(term, x);
}

// exp(r) - 1 - r, divided by r², for |r| <= log(2)/2: with it both exp and expm1 are good to 2^-59.
template <class V> LINMED_INLINE V exp_rest(V r) {
    return polynomial(r, {0.5, 0.16666666666666677, 0.04166666666666651, 0.008333333333321691, 0.0013888888888962405,
                          0.00019841269885965667, 2.4801587172464423e-05, 2.7557244374455874e-06, 2.755740270461556e-07,
                          2.5108978786099137e-08, 2.0875312056645333e-09});
}

// 2^n for n from -1022 to 1023, and the n of SHIFT + n.
LINMED_INLINE double power_of_two(int64_t n) { return std::bit_cast<double>(uint64_t(n + 1023) << 52); }
LINMED_INLINE int64_t whole_part(double shifted) { return std::bit_cast<int64_t>(shifted) - std::bit_cast<int64_t>(SHIFT); }

// y 2^n for y near 1 and |n| <= 2000, rounded once; subnormal where it must be.
LINMED_INLINE double scaled(double y, int64_t n) { return y * power_of_two(n >> 1) * power_of_two(n - (n >> 1)); }

// exp(x + low) for x between -800 and 800 and a low below 2^-40.
LINMED_INLINE double exp_of_sum(double x, double low) {
    const double shifted = fma(x, LOG2_E, SHIFT), n = shifted - SHIFT;
    const double first = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x)), r = first + low, lost = (first - r) + low;
    return scaled(1.0 + (r + fma(r * r, exp_rest(r), lost)), whole_part(shifted));
}

// e^x, below 1 ulp; subnormal results too.
//
// x = n log 2 + r with n whole and |r| <= log(2)/2.
LINMED_INLINE double exp(double x) {
    x = x < -746.0 ? -746.0 : x;  // e^-746 rounds to 0, e^710 to infinity; NaN passes
    x = x > 710.0 ? 710.0 : x;
    const double shifted = fma(x, LOG2_E, SHIFT), n = shifted - SHIFT;
    const double r = fma(n, -LN2_LOW, fma(n, -LN2_HIGH, x));  // the inner fma is exact
    return scaled(1.0 + fma(r * r, exp_rest(r), r), whole_part(shifted));
}

// e^x for x <= 0 in every lane, the same bits as exp(double); 0 below -708.
LINMED_INLINE Lanes exp(Lanes x) {
    const Lanes floor = splat(-708.0), bounded = larger(x, floor);
    const Lanes shifted = fma(bounded, splat(LOG2_E), splat(SHIFT)), n = shifted - splat(SHIFT);
    const Lanes r = fma(n, splat(-LN2_LOW), fma(n, splat(-LN2_HIGH), bounded));
    const Lanes y = splat(1.0) + fma(r * r, exp_rest(r), r);
    const Lanes power = each([&](int i) { return (Native)(((Bits)shifted.part[i] + 1023) << 52); });  // 2^n
    return where_greater(x, floor, y * power, splat(0.0));
}

// 2^x, below 1 ulp; exact for whole x.
inline double exp2(double x) {
    x = x < -1080.0 ? -1080.0 : x;
    x = x > 1025.0 ? 1025.0 : x;
    const double shifted = x + SHIFT, part = x - (shifted - SHIFT);
    const double r = part * LN2_HIGH, low = fma(part, LN2_HIGH, -r) + part * LN2_LOW;
    return scaled(1.0 + (r + fma(r * r, exp_rest(r), low)), whole_part(shifted));
}

// e^x - 1, below 1.2 ulp.
//
// With x = n log 2 + r it is 2^n - 1 + 2^n (e^r - 1).
inline double expm1(double x) {
    if (x > 60.0) return exp(x);  // 1 is less than its last bit
    if (x == 0.0) return x;
    x = x < -60.0 ? -60.0 : x;
    const double shifted = fma(x, LOG2_E, SHIFT), n = shifted - SHIFT;
    const double reduced = fma(n, -LN2_HIGH, x), r = fma(n, -LN2_LOW, reduced), low = fma(n, -LN2_LOW, reduced - r);
    const double power = power_of_two(whole_part(shifted));
    // (2^n − 1 + 2^n r) without loss, then what is smaller
    const double first = power - 1.0, second = power * r, sum = first + second;
    const bool ordered = fabs(first) >= fabs(second);
    const double lost = ordered ? second - (sum - first) : first - (sum - second);
    return sum + (lost + power * fma(r * r, exp_rest(r), low));
}

// e^x - 1 for -60 <= x <= 60 in every lane, the same bits as expm1(double).
LINMED_INLINE Lanes expm1(Lanes x) {
    const Lanes shifted = fma(x, splat(LOG2_E), splat(SHIFT)), n = shifted - splat(SHIFT);
    const Lanes reduced = fma(n, splat(-LN2_HIGH), x), r = fma(n, splat(-LN2_LOW), reduced);
    const Lanes low = fma(n, splat(-LN2_LOW), reduced - r);
    const Lanes power = each([&](int i) { return (Native)(((Words)shifted.part[i] + 1023) << 52); });  // 2^n
    const Lanes first = power - splat(1.0), second = power * r, sum = first + second, minus = splat(-1.0);
    const Lanes lost = where_greater(larger(second, second * minus), larger(first, first * minus), first - (sum - second),
                                     second - (sum - first));
    return where_greater(x * x, splat(0.0), sum + (lost + power * fma(r * r, exp_rest(r), low)), x);
}

// log(1 + f), f between sqrt(1/2) - 1 and sqrt(2) - 1, is f - s (f - R(s²)) with s = f/(2 + f): this is s (f - R).
//
// For log(1 + f) = 2 artanh(s), whose series begins with 2 s = f - s f.
template <class V> LINMED_INLINE V log_rest(V f) {
    const V s = f / (all<V>(2.0) + f), z = s * s;
    const V Q = polynomial(z, {0.6666666666666734, 0.3999999999941393, 0.28571428742566374, 0.22222198553461675,
                               0.18183565422844697, 0.15314020694799024, 0.1479626592060378});
    return s * (f - z * Q);
}

constexpr uint64_t ONE_BITS = 0x3ff0000000000000, ROOT_HALF_BITS = 0x3fe6a09e667f3bcd, MANTISSA = 0x000fffffffffffff;
constexpr double LN2_FIRST = 0x1.62e42fefap-1, LN2_SECOND = 0x1.cf79abc9e3b3ap-40;  // k times the first is exact

// high + low = log(2^k (1 + f)), low far below high; what is lost is below a quarter of high's ulp.
struct Pair { double high, low; };
LINMED_INLINE Pair log_parts(double k, double f) {
    const double whole = k * LN2_FIRST, high = whole + f, lost = (whole - high) + f;
    return {high, fma(k, LN2_SECOND, lost - log_rest(f))};
}

// x = 2^k (1 + f) for a positive normal x, 1 + f between sqrt(1/2) and sqrt(2).
LINMED_INLINE double split(double x, double &k) {
    const uint64_t bits = std::bit_cast<uint64_t>(x) + (ONE_BITS - ROOT_HALF_BITS);  // the exponent now changes at sqrt(1/2)
    k = double(int64_t(bits >> 52) - 1023);
    return std::bit_cast<double>((bits & MANTISSA) + ROOT_HALF_BITS) - 1.0;
}

// log x where x is no positive normal number.
[[gnu::noinline, gnu::cold]] inline double log_of_odd(double x, double (*log_of_normal)(double, double)) {
    if (x == INF) return INF;
    return x == 0.0 ? -INF : x > 0.0 ? log_of_normal(x * 0x1p54, -54.0) : NAN;
}
LINMED_INLINE bool positive_normal(double x) { return x >= 0x1p-1022 && x < INF; }

// log(x 2^shift)
inline double log_of_normal(double x, double shift) {
    double k;
    const double f = split(x, k);
    const Pair log = log_parts(k + shift, f);
    return log.high + log.low;
}

// log x, below 1 ulp; of 0 it is -inf, of x < 0 NaN.
LINMED_INLINE double log(double x) {
    return positive_normal(x) ? log_of_normal(x, 0.0) : log_of_odd(x, log_of_normal);
}

// `split` in every lane.
LINMED_INLINE void split(Lanes x, Lanes &k, Lanes &f) {
    for (int i = 0; i < PARTS; ++i) {
        const Bits bits = (Bits)x.part[i] + (ONE_BITS - ROOT_HALF_BITS);
        k.part[i] = (Native)((bits >> 52) + std::bit_cast<uint64_t>(SHIFT));
        f.part[i] = (Native)((bits & MANTISSA) + ROOT_HALF_BITS);
    }
    k = k - splat(SHIFT + 1023.0), f = f - splat(1.0);
}

// log x in every lane, all positive and normal: the same bits as log(double).
LINMED_INLINE Lanes log(Lanes x) {
    Lanes k, f;
    split(x, k, f);
    const Lanes whole = k * splat(LN2_FIRST), high = whole + f, lost = (whole - high) + f;
    return high + fma(k, splat(LN2_SECOND), lost - log_rest(f));
}

// log(1 + x), below 1 ulp, for x > -1; of -1 it is -inf, below NaN.
inline double log1p(double x) {
    if (x > -0.29289321881345 && x < 0.41421356237309) return x - log_rest(x);
    const double sum = 1.0 + x;
    if (!positive_normal(sum)) return log(sum);
    const double lost = x > 1.0 ? 1.0 - (sum - x) : x - (sum - 1.0);  // 1 + x = sum + lost
    double k;
    const double f = split(sum, k);
    const Pair log = log_parts(k, f);
    return log.high + (log.low + lost / sum);
}

// log(1 + x) in every lane, 1 + x positive and normal: the same bits as log1p(double).
LINMED_INLINE Lanes log1p(Lanes x) {
    const Lanes one = splat(1.0), sum = one + x, small = x - log_rest(x);
    const Lanes lost = where_greater(x, one, one - (sum - x), x - (sum - one));
    Lanes k, f;
    split(sum, k, f);
    const Lanes whole = k * splat(LN2_FIRST), high = whole + f;
    const Lanes low = fma(k, splat(LN2_SECOND), ((whole - high) + f) - log_rest(f));
    const Lanes large = high + (low + lost / sum);
    return where_greater(x, splat(-0.29289321881345), where_greater(splat(0.41421356237309), x, small, large), large);
}

// log(x 2^shift)/log(2)
inline double log2_of_normal(double x, double shift) {
    double k;
    const double f = split(x, k), rest = log_rest(f), high = f - rest, low = (f - high) - rest;
    const double product = high * LOG2_E, below = fma(high, LOG2_E, -product) + fma(high, LOG2_E_LOW, low * LOG2_E);
    k += shift;
    const double sum = k + product;
    return sum + (((k - sum) + product) + below);
}

// log x to base 2, below 1 ulp; exact for powers of two.
inline double log2(double x) {
    return positive_normal(x) ? log2_of_normal(x, 0.0) : log_of_odd(x, log2_of_normal);
}

// tanh x, below 2 ulp.
inline double tanh(double x) {
    const double size = fabs(x);
    if (size < 0x1p-28) return x;
    const double e = expm1(size > 20.0 ? 40.0 : 2.0 * size);  // from 20 on tanh rounds to 1
    const double d = e + 2.0, d_low = e - (d - 2.0), y = e / d;
    // the error of sum and quotient, by Newton's method with 1/(e + 2) = (1 - y)/2; far out it is not worth it
    const double z = size < 1.0 ? fma(fma(-y, d, e) - y * d_low, 0.5 * (1.0 - y), y) : 1.0 - 2.0 / d;
    return std::copysign(z, x);
}

// Stirling's series for log Γ(x), x >= 8, without log Γ's first terms: Σ B₂ₖ / (2k (2k-1) x^(2k-1)).
inline double stirling_rest(double x) {
    const double y = 1.0 / x;
    return y * polynomial(y * y, {1.0 / 12, -1.0 / 360, 1.0 / 1260, -1.0 / 1680, 1.0 / 1188, -691.0 / 360360, 1.0 / 156,
                                  -3617.0 / 122400, 43867.0 / 244188});
}

// log Γ(1 + t) and log Γ(3/2 + t) for |t| <= 1/4, log Γ(2 + t) for t from -1/4 to 1.
inline double lgamma_near_1(double t) {
    return fma(t, -0.5772156649015329, t * t * polynomial(t, {0.8224670334241133, -0.4006856343865115, 0.270580808427667,
                                                              -0.20738555103712983, 0.16955717702752665,
                                                              -0.14404989538753496, 0.12550966599119376,
                                                              -0.11133437870017422, 0.1000996831896673,
                                                              -0.09094885467263718, 0.08334535033295669,
                                                              -0.07707058265551071, 0.0716259297827518,
                                                              -0.06453782579313032, 0.059910833842208445,
                                                              -0.07612270114770811, 0.07412409405822185}));
}
inline double lgamma_near_1_5(double t) {
    return -0.125 + polynomial(t, {0.004217762364754777, 0.03648997397857653, 0.4674011002723414, -0.13813277403905683,
                                   0.05871212641620741, -0.028952081888132107, 0.015435484240178472,
                                   -0.00862260400380119, 0.004965724492528137, -0.002920966570205357,
                                   0.0017451799816552496, -0.0010550307057044196, 0.0006410320019616032,
                                   -0.00039383796482617866, 0.00027038387819562073, -0.00016941442169415169});
}
inline double lgamma_near_2(double t) {
    return fma(t, 0.42278433509846713, t * t * polynomial(t, {0.32246703342411326, -0.06735230105319863,
                                                              0.02058080842777507, -0.007385551028590676,
                                                              0.0028905103312408453, -0.0011927539167457474,
                                                              0.0005096695205909264, -0.00022315462865632436,
                                                              9.945725499785946e-05, -4.492732452579139e-05,
                                                              2.0512808663984712e-05, -9.445612886556691e-06,
                                                              4.3554145987858345e-06, -1.9543212670429304e-06,
                                                              7.952715504494515e-07, -2.608627902970683e-07,
                                                              5.8088763580867176e-08, -6.3321555266944675e-09}));
}

// log Γ(x) for x > 0, below 2 ulp, also beside its zeros 1 and 2; of 0 it is inf, of x < 0 NaN.
//
// Up to 3 by polynomials and Γ(1 + x) = x Γ(x), up to 8 by that product, from there on by Stirling's series.
inline double lgamma(double x) {
    if (!(x > 0.0)) return x == 0.0 ? INF : NAN;
    if (x < 0.25) return lgamma_near_1(x) - log(x);
    if (x < 0.75) return lgamma_near_1_5(x - 0.5) - log(x);
    if (x < 1.25) return lgamma_near_1(x - 1.0);
    if (x < 1.75) return lgamma_near_1_5(x - 1.5);
    if (x < 3.0) return lgamma_near_2(x - 2.0);
    if (x < 8.0) {
        double product = 1.0;
        while (x >= 3.0) x -= 1.0, product *= x;
        return log(product) + lgamma_near_2(x - 2.0);
    }
    if (x > 2.6e305) return INF;
    // (x - 1/2) (log x - 1) + (log 2π - 1)/2 + the series
    double k;
    const double f = split(x, k), factor = x - 0.5;
    const Pair log = log_parts(k, f);
    const double less = log.high - 1.0, low = ((log.high - less) - 1.0) + log.low, product = factor * less;
    const double below = fma(factor, less, -product) + factor * low;
    return product + (below + (0.4189385332046727 + stirling_rest(x)));
}

// The complementary error function 1 - erf(x), below 2 ulp while it exceeds 1e-300, however far in its tail.
//
// From 0.45 on it is exp(-x²) F(t)/(1 + 2x) with t = (x - 3)/(x + 3), which is between -1 and 1, and F a smooth function
// between 1 and 1.3 (Shepherd and Laframboise 1981).
inline double erfc(double x) {
    const double size = fabs(x);
    if (size < 0.45) {
        const double z = x * x;
        return fma(-x, polynomial(z, {1.1283791670955126, -0.376126389031837, 0.11283791670948218, -0.02686617064162121,
                                      0.005223977536053611, -0.0008548314225345791, 0.00012054254952611172,
                                      -1.487255817702982e-05, 1.5040699540917307e-06}), 1.0);
    }
    const double far = size < 27.5 ? size : 27.5;  // erfc(27.5) rounds to 0
    const double square = far * far, low = fma(far, far, -square);
    const double t = (far - 3.0) / (far + 3.0);
    const double P = polynomial(t, {0.0030080582697296536, -0.13562110612458123, -0.047562294353451565,
                                    0.12964515870276822, -0.11927366341524902, 0.06830802734368685,
                                    -0.023770514920295038, 0.002529391821382103, 0.001888690381597752,
                                    -0.0007798323275758046, -0.00010515997051135872, 0.00012509971595296043,
                                    4.950267605115508e-06, -2.010213557313542e-05, -7.337286354901461e-07,
                                    3.4769303904009947e-06, 3.606219316848333e-07, -6.252546338559764e-07,
                                    -1.4498230172060055e-07, 1.1227530481677127e-07, 4.235975370057496e-08,
                                    -2.055219894289096e-08, -7.011172944451406e-09, 3.181589431792858e-09});
    // F/(1 + 2x) = (F + F_low) (v + v_low)
    const double F = 1.25 + P, F_low = (1.25 - F) + P, d = 1.0 + 2.0 * far, d_low = 2.0 * far - (d - 1.0);
    const double v = 1.0 / d, v_low = v * (fma(-v, d, 1.0) - v * d_low), quotient = F * v;
    const double below = fma(F, v, -quotient) + fma(F, v_low, F_low * v), power = exp_of_sum(-square, -low);
    const double tail = fma(power, quotient, power * below);
    return size == size ? x > 0.0 ? tail : 2.0 - tail : x;
}

// x = n π/2 + high + low with |high| <= π/4 (1 + 1e-6), exact to 2^-110; the last two bits of n.
//
// For |x| < 1e9 the fma is exact: n times the 53 bits of π/2 and x are both whole multiples of 2^-53, as is their
// difference, which is below 1.
LINMED_INLINE int reduce(double x, double &high, double &low) {
    constexpr double TWO_OVER_PI = 0.6366197723675814, FIRST = 1.5707963267948966, SECOND = 6.123233995736766e-17,
                     THIRD = -1.4973849048591698e-33;  // their sum is π/2
    const double shifted = fma(x, TWO_OVER_PI, SHIFT), n = shifted - SHIFT;
    const double r = fma(-n, FIRST, x), product = n * SECOND;
    high = r - product;
    const double part = high - r, lost = (r - (high - part)) - (product + part);
    low = lost - fma(n, THIRD, fma(n, SECOND, -product));
    return int(std::bit_cast<uint64_t>(shifted) & 3);
}

// sin and cos of high + low.
LINMED_INLINE double sin_part(double high, double low) {
    const double z = high * high;
    const double S = polynomial(z, {-0.16666666666666632, 0.008333333333322415, -0.0001984126982980798,
                                    2.7557313691937977e-06, -2.505075811541566e-08, 1.5896795581605703e-10});
    return high + fma(high * z, S, fma(-0.5 * z, low, low));
}
LINMED_INLINE double cos_part(double high, double low) {
    const double z = high * high, half = 0.5 * z, y = 1.0 - half;
    const double C = polynomial(z, {0.0416666666666666, -0.0013888888888874125, 2.4801587289482035e-05,
                                    -2.7557314352277083e-07, 2.0875723264407054e-09, -1.1359647299908761e-11});
    return y + (((1.0 - y) - half) + fma(z * z, C, -high * low));
}

// sin x and cos x, below 1 ulp, for |x| <= 1e9; NaN beyond.
inline double sin(double x) {
    if (!(fabs(x) <= 1e9)) return NAN;
    double high, low;
    const int quarter = reduce(x, high, low);
    if (x == 0.0) return x;
    const double y = quarter & 1 ? cos_part(high, low) : sin_part(high, low);
    return quarter & 2 ? -y : y;
}
inline double cos(double x) {
    if (!(fabs(x) <= 1e9)) return NAN;
    double high, low;
    const int quarter = reduce(x, high, low);
    const double y = quarter & 1 ? sin_part(high, low) : cos_part(high, low);
    return quarter == 1 || quarter == 2 ? -y : y;
}

// The angle of the point (x, y), between -π and π, below 2 ulp; zeros and infinities as in IEEE 754.
//
// Of the smaller and the larger side a, b the angle is atan(a/b), or π/4 + atan((a - b)/(a + b)) from π/8 on.
inline double atan2(double y, double x) {
    constexpr double QUARTER = 0.7853981633974483, QUARTER_LOW = 3.061616997868383e-17;  // π/4
    if (!(x == x && y == y)) return NAN;
    double a = fabs(y), b = fabs(x);
    const bool steep = a > b;
    if (steep) std::swap(a, b);
    if (b > 0x1p1000) a *= 0x1p-100, b *= 0x1p-100;
    if (a == INF) a = b = 1.0;
    if (b == 0.0) b = 1.0;
    const bool beyond = a > 0.41421356237309503 * b;
    const double u = beyond ? (a - b) / (a + b) : a / b, z = u * u;
    const double A = polynomial(z, {-0.33333333333333326, 0.1999999999999769, -0.14285714285390505, 0.11111111088333492,
                                    -0.09090908150150309, 0.07692282885888233, -0.06666228637849032,
                                    0.058770402291387025, -0.052185231416181845, 0.04504032743468052,
                                    -0.033485719505110145, 0.015206602702191156});
    const double rest = u * z * A;  // atan u = u + rest
    // ± (u + rest) + n π/4
    double sign = 1.0, n = beyond ? 1.0 : 0.0;
    if (steep) sign = -sign, n = 2.0 - n;
    if (std::signbit(x)) sign = -sign, n = 4.0 - n;
    const double whole = n * QUARTER, sum = whole + sign * u, lost = (whole - sum) + sign * u;
    return std::copysign(sum + (lost + fma(n, QUARTER_LOW, sign * rest)), y);
}

// high + low += x*y in twice the working precision: the product's rounding error, and Knuth's sum.
template <class V> LINMED_INLINE void add_product(V &high, V &low, V x, V y) {
    const V product = x * y, total = high + product, part = total - high;
    low = low + (fma(x, y, product * all<V>(-1.0)) + ((high - (total - part)) + (product - part)));
    high = total;
}

// √(x² + y²), also where the squares overflow.
inline double hypotenuse(double x, double y) {
    const double longer = std::max(fabs(x), fabs(y)), shorter = std::min(fabs(x), fabs(y));
    if (!(longer > 0.0)) return longer;
    const double ratio = shorter / longer;
    return longer * sqrt(1.0 + ratio * ratio);
}

}  // namespace linmed
