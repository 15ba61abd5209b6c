// Eight float64 numbers at once.
//
// A lane is an arm, or one of eight neighbours in a row, so every sum keeps an order of its own, whatever registers
// the eight become: one of AVX-512, two of AVX2, four of SSE or NEON. Only +, -, *, /, sqrt and fma are used, each
// rounded once, and the compiler may not fuse or reorder them (-ffp-contract=off): the same bits on every processor.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

#if defined(__x86_64__)
#include <immintrin.h>
#elif defined(__aarch64__)
#include <arm_neon.h>
#endif

#define LINMED_INLINE [[gnu::always_inline]] inline
#define LINMED_ALWAYS __attribute__((always_inline))  // the same of a lambda
namespace linmed {

using Index = std::ptrdiff_t;
constexpr Index LANES = 8;
constexpr double INF = std::numeric_limits<double>::infinity();

#if defined(__AVX512F__)
constexpr int WIDTH = 8;
#elif defined(__AVX2__)
constexpr int WIDTH = 4;
#else
constexpr int WIDTH = 2;
#endif
constexpr int PARTS = LANES / WIDTH;

template <int n> struct Register {
    typedef double Numbers __attribute__((vector_size(8 * n)));
    typedef long long Words __attribute__((vector_size(8 * n)));
};
using Native = Register<WIDTH>::Numbers;
using Words = Register<WIDTH>::Words;

// A dimension that the compiler knows; functions of a `Dim d` take one of these or an Index and compute the same bits.
template <Index n> using Fixed = std::integral_constant<Index, n>;

// The dimension where the compiler knows it, else 0.
template <class Dim> constexpr Index KNOWN = 0;
template <Index n> constexpr Index KNOWN<Fixed<n>> = n;

// what(d), compiled for two, three and four dimensions and for any: the same bits.
template <class F> LINMED_INLINE decltype(auto) with_dimension(Index d, F &&what) {
    switch (d) {
    case 2: return what(Fixed<2>{});
    case 3: return what(Fixed<3>{});
    case 4: return what(Fixed<4>{});
    default: return what(d);
    }
}

// step(0), …, step(d − 1), unrolled where the compiler knows d.
template <class F> LINMED_INLINE void count_to(Index d, F &&step) {
    for (Index k = 0; k < d; ++k) step(k);
}
template <Index n, class F> LINMED_INLINE void count_to(Fixed<n>, F &&step) {
#pragma GCC unroll 8
    for (Index k = 0; k < n; ++k) step(k);
}
constexpr Index padded(Index n) { return (n + LANES - 1) / LANES * LANES; }  // n rounded up to whole vectors

// ---- what the instruction set decides: fma, and the square root -------------------------------------------------

LINMED_INLINE double fma(double x, double y, double z) { return __builtin_fma(x, y, z); }

#if defined(__AVX512F__)
LINMED_INLINE Native fma(Native x, Native y, Native z) {
    return (Native)_mm512_fmadd_pd((__m512d)x, (__m512d)y, (__m512d)z);
}
LINMED_INLINE Native root(Native x) { return (Native)_mm512_sqrt_pd((__m512d)x); }
#elif defined(__AVX2__) && defined(__FMA__)
LINMED_INLINE Native fma(Native x, Native y, Native z) {
    return (Native)_mm256_fmadd_pd((__m256d)x, (__m256d)y, (__m256d)z);
}
LINMED_INLINE Native root(Native x) { return (Native)_mm256_sqrt_pd((__m256d)x); }
#elif defined(__aarch64__)
LINMED_INLINE Native fma(Native x, Native y, Native z) {
    return (Native)vfmaq_f64((float64x2_t)z, (float64x2_t)x, (float64x2_t)y);
}
LINMED_INLINE Native root(Native x) { return (Native)vsqrtq_f64((float64x2_t)x); }
#else  // x86-64-v2: processors before 2013. The same bits, some ten times slower.
LINMED_INLINE Native root(Native x) { return (Native)_mm_sqrt_pd((__m128d)x); }

// s + lost = x + y, exactly (Knuth).
LINMED_INLINE Native two_sum(Native x, Native y, Native &lost) {
    Native s = x + y, part = s - x;
    lost = (x - (s - part)) + (y - part);
    return s;
}

// Boldo and Melquiond (2008): product and sum without error, what is left over rounded to odd, then one rounding.
inline Native fma(Native x, Native y, Native z) {
    constexpr double SPLIT = 134217729.0;  // 2^27 + 1
    const Native product = x * y;
    const Native size = product < 0.0 ? -product : product;
    const Words fits = ((size > 0x1p-900) | (x == 0.0) | (y == 0.0)) & (size < 0x1p960) & (x * x < INF) & (y * y < INF);
    if (!(fits[0] & fits[1])) return Native{fma(x[0], y[0], z[0]), fma(x[1], y[1], z[1])};
    Native xh = x * SPLIT, yh = y * SPLIT;
    xh = xh - (xh - x), yh = yh - (yh - y);
    const Native xl = x - xh, yl = y - yh;
    const Native below = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl;
    Native low, lower, odd_lost;
    const Native middle = two_sum(z, below, low);
    const Native high = two_sum(product, middle, lower);
    const Native odd = two_sum(low, lower, odd_lost);
    const Words inexact = odd_lost != 0.0, outward = (odd_lost > 0.0) == (odd > 0.0);
    Words bits = (Words)odd;
    const Words even = (bits & 1) == 0;
    bits += (inexact & even) & (outward ? Words{1, 1} : Words{-1, -1});
    return high + (Native)bits;
}
#endif

// x > y ? x : y and x < y ? x : y, for a register of any width: what x86 has an instruction for.
template <class V> LINMED_INLINE V larger(V x, V y) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return (V)_mm512_max_pd((__m512d)x, (__m512d)y);
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return (V)_mm256_max_pd((__m256d)x, (__m256d)y);
#endif
#if defined(__x86_64__)
    if constexpr (sizeof(V) == 16) return (V)_mm_max_pd((__m128d)x, (__m128d)y);
#endif
    return x > y ? x : y;
}
template <class V> LINMED_INLINE V smaller(V x, V y) {
#if defined(__AVX512F__)
    if constexpr (sizeof(V) == 64) return (V)_mm512_min_pd((__m512d)x, (__m512d)y);
#endif
#if defined(__AVX2__)
    if constexpr (sizeof(V) == 32) return (V)_mm256_min_pd((__m256d)x, (__m256d)y);
#endif
#if defined(__x86_64__)
    if constexpr (sizeof(V) == 16) return (V)_mm_min_pd((__m128d)x, (__m128d)y);
#endif
    return x < y ? x : y;
}

// ---- eight of them ------------------------------------------------------------------------------------------------

struct Lanes {
    Native part[PARTS];
};

template <class F> LINMED_INLINE Lanes each(F &&f) {
    return [&]<int... i>(std::integer_sequence<int, i...>) __attribute__((always_inline)) {
        return Lanes{{f(i)...}};
    }(std::make_integer_sequence<int, PARTS>{});
}

LINMED_INLINE Lanes splat(double x) { return each([&](int) { return x - Native{}; }); }
LINMED_INLINE Lanes load(const double *at) {
    return each([&](int i) { Native v; std::memcpy(&v, at + i * WIDTH, sizeof v); return v; });
}
LINMED_INLINE void store(double *at, Lanes x) {
    for (int i = 0; i < PARTS; ++i) std::memcpy(at + i * WIDTH, &x.part[i], sizeof(Native));
}
// n numbers, up to eight, and zeros behind them.
template <Index n> LINMED_INLINE Lanes load_first(const double *at) {
    return each([&](int i) {
        return [&]<int... k>(std::integer_sequence<int, k...>) LINMED_ALWAYS {
            return Native{(i * WIDTH + k < n ? at[i * WIDTH + k] : 0.0)...};
        }(std::make_integer_sequence<int, WIDTH>{});
    });
}
LINMED_INLINE Lanes steps() {  // 0, 1, ..., 7
    constexpr double numbers[LANES] = {0, 1, 2, 3, 4, 5, 6, 7};
    return load(numbers);
}

LINMED_INLINE Lanes operator+(Lanes x, Lanes y) { return each([&](int i) { return x.part[i] + y.part[i]; }); }
LINMED_INLINE Lanes operator-(Lanes x, Lanes y) { return each([&](int i) { return x.part[i] - y.part[i]; }); }
LINMED_INLINE Lanes operator*(Lanes x, Lanes y) { return each([&](int i) { return x.part[i] * y.part[i]; }); }
LINMED_INLINE Lanes operator/(Lanes x, Lanes y) { return each([&](int i) { return x.part[i] / y.part[i]; }); }
LINMED_INLINE Lanes fma(Lanes x, Lanes y, Lanes z) {
    return each([&](int i) { return fma(x.part[i], y.part[i], z.part[i]); });
}
LINMED_INLINE Lanes root(Lanes x) { return each([&](int i) { return root(x.part[i]); }); }

// In every lane: `then` if x > y, else (or if either is NaN) `otherwise`.
LINMED_INLINE Lanes where_greater(Lanes x, Lanes y, Lanes then, Lanes otherwise) {
    return each([&](int i) { return x.part[i] > y.part[i] ? then.part[i] : otherwise.part[i]; });
}
LINMED_INLINE Lanes where_equal(Lanes x, Lanes y, Lanes then, Lanes otherwise) {
    return each([&](int i) { return x.part[i] == y.part[i] ? then.part[i] : otherwise.part[i]; });
}
LINMED_INLINE Lanes larger(Lanes x, Lanes y) { return each([&](int i) { return larger(x.part[i], y.part[i]); }); }

// One number of the lanes, halves first: (0..3) with (4..7), then (0,1) with (2,3), then 0 with 1.
template <class V, class F> LINMED_INLINE double fold(V x, F combine) {
    if constexpr (sizeof(V) == 64)
        return fold(combine(__builtin_shufflevector(x, x, 0, 1, 2, 3), __builtin_shufflevector(x, x, 4, 5, 6, 7)), combine);
    else if constexpr (sizeof(V) == 32)
        return fold(combine(__builtin_shufflevector(x, x, 0, 1), __builtin_shufflevector(x, x, 2, 3)), combine);
    else
        return combine(double(x[0]), double(x[1]));
}
template <class F> LINMED_INLINE double fold(Lanes x, F combine) {
    for (int n = PARTS / 2; n > 0; n /= 2)
        for (int i = 0; i < n; ++i) x.part[i] = combine(x.part[i], x.part[i + n]);
    return fold<Native, F>(x.part[0], combine);
}
LINMED_INLINE double sum_lanes(Lanes x) { return fold(x, [](auto low, auto high) { return low + high; }); }
LINMED_INLINE double largest_lane(Lanes x) { return fold(x, [](auto low, auto high) { return larger(high, low); }); }
LINMED_INLINE double smallest_lane(Lanes x) { return fold(x, [](auto low, auto high) { return smaller(high, low); }); }

// Which lanes of x are greater than (equal to) those of y, a bit for each.
LINMED_INLINE unsigned bits_of(Words mask) {
#if defined(__AVX512F__)
    return _mm512_test_epi64_mask((__m512i)mask, (__m512i)mask);
#elif defined(__AVX2__)
    return unsigned(_mm256_movemask_pd((__m256d)mask));
#elif defined(__x86_64__)
    return unsigned(_mm_movemask_pd((__m128d)mask));
#else
    return unsigned(mask[0] & 1) | unsigned(mask[1] & 2);
#endif
}
template <class F> LINMED_INLINE unsigned gather_bits(F &&compare) {
    unsigned bits = 0;
    for (int i = 0; i < PARTS; ++i) bits |= bits_of(compare(i)) << (i * WIDTH);
    return bits;
}
LINMED_INLINE unsigned greater(Lanes x, Lanes y) { return gather_bits([&](int i) { return Words(x.part[i] > y.part[i]); }); }
LINMED_INLINE unsigned equal(Lanes x, Lanes y) { return gather_bits([&](int i) { return Words(x.part[i] == y.part[i]); }); }
LINMED_INLINE Index lowest_bit(unsigned bits) { return __builtin_ctz(bits); }

// n numbers changed in place: put(k, get(k)) for eight of them from k on, one(k) where they are fewer. The last eight may
// overlap those before, so they are computed first.
template <class Dim, class Get, class Put, class One> LINMED_INLINE void update(Dim n, Get &&get, Put &&put, One &&one) {
    if (n < LANES) return count_to(n, one);
    const Index end = n - LANES;
    const auto last = get(end);
    for (Index k = 0; k < end; k += LANES) put(k, get(k));
    put(end, last);
}

struct Found { double value; Index place; };

// The lowest of the places that the bits stand for.
LINMED_INLINE Index lowest_place(Lanes places, unsigned bits) {
    double place[LANES];
    store(place, places);
    bits |= !bits;  // not a number
    double lowest = place[lowest_bit(bits)];
    for (bits &= bits - 1; bits; bits &= bits - 1) lowest = smaller(place[lowest_bit(bits)], lowest);
    return Index(lowest);
}

// The lowest place at which one of two vectors, of which the second may be none, holds `number`.
LINMED_INLINE Index place_of(double number, Lanes first, Lanes second) {
    return lowest_bit(equal(first, splat(number)) | equal(second, splat(number)) << LANES);
}

// The largest (smallest) number of a vector and its place, the lowest where several are equal.
LINMED_INLINE Found first_of_largest(Lanes values, Lanes places) {
    const double highest = largest_lane(values);
    return {highest, lowest_place(places, equal(values, splat(highest)))};
}
LINMED_INLINE Found first_of_smallest(Lanes values, Lanes places) {
    const double lowest = smallest_lane(values);
    return {lowest, lowest_place(places, equal(values, splat(lowest)))};
}

}  // namespace linmed
