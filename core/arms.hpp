// A set of K arms in d dimensions, and the passes over it that rules and designs are made of.
//
// Arms are held in blocks of eight, features before arms: d vectors with the k-th feature of eight arms, then one with 1
// for every arm that is not the zero vector and 0 for one that is and for the places past the last arm, which repeat
// arm 0. A vector runs over arms, so equal arms get equal values wherever they stand. What is given or written for
// every arm is padded to whole blocks. The *vectors* of a set are its arms times `scale`; 0 leaves an arm out.
//
// Sets too large to be held twice have no blocks: each block is filled when it is needed. The numbers are the same.
#pragma once

#include <algorithm>

#include "functions.hpp"
#include "matrices.hpp"

namespace linmed {

constexpr Index KEEP = 1 << 18;  // sets of up to this many numbers, 2 MiB, are held in blocks

constexpr Index NOW_AND_THEN = 1024;  // arms after which a pass over a larger set looks whether it should end

extern void (*between_rounds)();  // see rounds.hpp

constexpr Index block_room(Index d) { return LANES * (d + 1); }

struct Arms {
    const double *rows;  // (K, stride), of which d features count
    Index K, d, stride;
    const double *blocks;  // (padded(K) / 8, d + 1, 8), or null: too many to be held

    static bool held(Index K, Index d) { return K * d <= KEEP; }
    static Index room(Index K, Index d) { return held(K, d) ? padded(K) * (d + 1) : 0; }
    const double *row(Index i) const { return rows + i * stride; }

    // The block of the arms from `first` on; `one` (block_room) is filled where none is held.
    const double *block(Index first, double *one) const {
        if (blocks) return blocks + first * (d + 1);
        if (first % NOW_AND_THEN == 0) between_rounds();
        return fill(first, one);
    }
    const double *fill(Index first, double *block) const {
        const double *a[LANES];
        for (Index i = 0; i < LANES; ++i) a[i] = row(first + i < K ? first + i : 0);
        Lanes largest = splat(0.0);
        for (Index k = 0; k < d; ++k) {
            const double numbers[LANES] = {a[0][k], a[1][k], a[2][k], a[3][k], a[4][k], a[5][k], a[6][k], a[7][k]};
            const Lanes x = load(numbers);
            store(block + k * LANES, x);
            largest = larger(larger(x, x * splat(-1.0)), largest);
        }
        const Lanes places = steps() + splat(double(first)), there = where_greater(splat(double(K)), places, splat(1.0), splat(0.0));
        store(block + d * LANES, where_greater(largest, splat(0.0), there, splat(0.0)));
        return block;
    }
};

// The set with its blocks written to `blocks`, which has Arms::room(K, d).
inline Arms pack(const double *rows, Index K, Index d, Index stride, double *blocks) {
    Arms arms{rows, K, d, stride, nullptr};
    if (!Arms::held(K, d)) return arms;
    for (Index first = 0; first < K; first += LANES) arms.fill(first, blocks + first * (d + 1));
    arms.blocks = blocks;
    return arms;
}

// Room for one block where the set holds none.
struct OneBlock : Buffer {
    explicit OneBlock(const Arms &arms) : Buffer(arms.blocks ? 0 : block_room(arms.d)) {}
};

// <a, x> for the eight arms of a block.
template <class Dim> LINMED_INLINE Lanes inner(const double *block, Dim d, const double *x) {
    Lanes even = splat(0.0), odd = splat(0.0);
    for (Index k = 0; k + 1 < d; k += 2) {
        even = fma(load(block + k * LANES), splat(x[k]), even);
        odd = fma(load(block + (k + 1) * LANES), splat(x[k + 1]), odd);
    }
    if (d % 2) even = fma(load(block + (d - 1) * LANES), splat(x[d - 1]), even);
    return even + odd;
}

// <a, x> of one arm, in the order of `inner`: the same bits.
LINMED_INLINE double inner_row(const double *a, Index d, const double *x) {
    double even = 0.0, odd = 0.0;
    for (Index k = 0; k + 1 < d; k += 2) {
        even = fma(a[k], x[k], even);
        odd = fma(a[k + 1], x[k + 1], odd);
    }
    if (d % 2) even = fma(a[d - 1], x[d - 1], even);
    return even + odd;
}

// a'Ma for the eight arms of a block; M symmetric, its rows `stride` apart.
//
// sum_j a_j (2 sum_{k<j} M_jk a_k + M_jj a_j), four rows j at a time, after the first few.
template <class Dim> LINMED_INLINE Lanes squared_length(const double *block, Dim d, const double *M, Index stride) {
    const Lanes two = splat(2.0);
    const auto x = [&](Index k) { return load(block + k * LANES); };
    const auto at = [&](Index j, Index k) { return splat(M[j * stride + k]); };
    Lanes total = splat(0.0);
    const Index few = d % 4;
    if (few > 0) {  // without loops: where d is small, they are all there is
        const Lanes x0 = x(0);
        total = x0 * (at(0, 0) * x0);
        if (few > 1) {
            const Lanes x1 = x(1), s1 = at(1, 0) * x0;
            total = fma(x1, fma(two, s1, at(1, 1) * x1), total);
            if (few > 2) {
                const Lanes x2 = x(2), s2 = fma(at(2, 1), x1, at(2, 0) * x0);
                total = fma(x2, fma(two, s2, at(2, 2) * x2), total);
            }
        }
    }
    for (Index j = few; j < d; j += 4) {
        Lanes s0 = splat(0.0), s1 = s0, s2 = s0, s3 = s0;
        for (Index k = 0; k < j; ++k) {
            const Lanes xk = x(k);
            s0 = fma(at(j, k), xk, s0);
            s1 = fma(at(j + 1, k), xk, s1);
            s2 = fma(at(j + 2, k), xk, s2);
            s3 = fma(at(j + 3, k), xk, s3);
        }
        const Lanes x0 = x(j), x1 = x(j + 1), x2 = x(j + 2), x3 = x(j + 3);
        s1 = fma(at(j + 1, j), x0, s1);
        s2 = fma(at(j + 2, j + 1), x1, fma(at(j + 2, j), x0, s2));
        s3 = fma(at(j + 3, j + 2), x2, fma(at(j + 3, j + 1), x1, fma(at(j + 3, j), x0, s3)));
        total = fma(x0, fma(two, s0, at(j, j) * x0), total);
        total = fma(x1, fma(two, s1, at(j + 1, j + 1) * x1), total);
        total = fma(x2, fma(two, s2, at(j + 2, j + 2) * x2), total);
        total = fma(x3, fma(two, s3, at(j + 3, j + 3) * x3), total);
    }
    return larger(total, splat(0.0));
}

// The arm of the largest value(first), eight at a time, the lowest among equals.
template <class F> LINMED_INLINE Index arg_largest(Index K, F value) {
    Lanes highest = splat(-INF), best = splat(0.0), here = steps();
    if (K <= 2 * LANES) {  // where no lane has to remember which block it was
        const Lanes one = value(0), two = K > LANES ? value(LANES) : highest;
        const double top = largest_lane(larger(two, larger(one, highest)));
        return top > -INF ? place_of(top, one, two) : 0;
    }
    for (Index first = 0; first < K; first += LANES) {
        const Lanes v = value(first);
        best = where_greater(v, highest, here, best);
        highest = larger(v, highest);
        here = here + splat(double(LANES));
    }
    return first_of_largest(highest, best).place;
}

// out_i = <a_i, x>; out is padded.
LINMED_INLINE void products(const Arms &arms, const double *x, double *out) {
    if (!arms.blocks) {
        for (Index i = 0; i < arms.K; ++i) out[i] = inner_row(arms.row(i), arms.d, x);
        return;
    }
    for (Index first = 0; first < arms.K; first += LANES) store(out + first, inner(arms.block(first, nullptr), arms.d, x));
}

// out_i = <a_i, x> and lengths_i = a_i'Ma_i; both are padded.
inline void products_and_lengths(const Arms &arms, const double *x, const double *M, double *out, double *lengths) {
    OneBlock one(arms);
    for (Index first = 0; first < arms.K; first += LANES) {
        const double *block = arms.block(first, one);
        store(out + first, inner(block, arms.d, x));
        store(lengths + first, squared_length(block, arms.d, M, arms.d));
    }
}

// The arm of the largest <a, x>, the lowest on ties.
template <class Dim> LINMED_INLINE Index best_arm(const Arms &arms, Dim d, const double *x) {
    if (arms.blocks) return arg_largest(arms.K, [&](Index first) { return inner(arms.block(first, nullptr), d, x); });
    Index best = 0;
    double highest = -INF;
    for (Index i = 0; i < arms.K; ++i) {
        const double value = inner_row(arms.row(i), arms.d, x);
        if (value > highest) best = i, highest = value;
    }
    return best;
}

}  // namespace linmed
