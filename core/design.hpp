// The paper's ApproxDesign (Algorithms 4 and 5): Betke and Henk's set, then greedy additions.
//
// A design is made for the vectors v_i = scale_i a_i. It does not change under an invertible map of the arms, so it may
// be made in the coordinates where it is accurate: the arms' own when they are well conditioned, else those of `span`.
#pragma once

#include <vector>

#include "arms.hpp"

namespace linmed {

constexpr double NEGLIGIBLE = 1e-10;        // a component this small relative to its own vector is rounding
constexpr double LARGEST_LEVERAGE = 1e6;    // beyond this the digits that additions to the set need are lost
constexpr double STOP = 1.0 + 1e-9;         // the greedy loop ends when no leverage exceeds this

// ---- passes over the vectors of a set ------------------------------------------------------------------------------

struct Extremes { Found high, low; };

// The vectors of the largest and the smallest <v, x> of a set held in blocks, the lowest on ties.
template <class Dim> LINMED_INLINE Extremes extreme_products(const Arms &arms, Dim d, const double *scale, const double *x) {
    const Lanes nothing = splat(0.0), most = splat(INF), least = splat(-INF);
    Lanes here = steps(), highest = least, top = here, lowest = most, bottom = here;
    const auto look = [&](Index first) LINMED_ALWAYS {
        const Lanes times = load(scale + first), value = times * inner(arms.block(first, nullptr), d, x);
        return std::pair(where_greater(times, nothing, value, least), where_greater(times, nothing, value, most));
    };
    if (arms.K <= 2 * LANES) {  // as in `arg_largest`
        const auto [above, below] = look(0);
        const auto [above2, below2] = arms.K > LANES ? look(LANES) : std::pair(least, most);
        const double high = largest_lane(larger(above2, larger(above, least)));
        const Lanes lesser = where_greater(most, below, below, most);
        const double low = smallest_lane(where_greater(lesser, below2, below2, lesser));
        return {{high, high > -INF ? place_of(high, above, above2) : 0}, {low, low < INF ? place_of(low, below, below2) : 0}};
    }
    for (Index first = 0; first < arms.K; first += LANES) {
        const auto [above, below] = look(first);
        top = where_greater(above, highest, here, top);
        highest = larger(above, highest);
        bottom = where_greater(lowest, below, here, bottom);
        lowest = where_greater(lowest, below, below, lowest);
        here = here + splat(double(LANES));
    }
    return {first_of_largest(highest, top), first_of_smallest(lowest, bottom)};
}

// Extreme products of very many vectors: looked for in single precision and settled in double.
//
// A pass over arms that fit no cache takes as long as memory needs to deliver them, and single precision needs half. Its
// error is bounded, so a look in double precision at the few arms within the bound of the extremes finds the same arms as
// a pass over all in double precision would: with entries up to 1, a unit vector x and u = 2^-24, the two roundings of
// each factor and those of products and sums make at most (d + 4) u sum |v_k x_k| <= (d + 4) u sqrt(d), and the bound below
// is twice as large, which leaves room for what double precision loses.
class Screen {
  public:
    // Copies the vectors as float32, in units of their largest entry, in blocks of as many as a register holds.
    void look_at(const Arms &arms, const double *scale) {
        double largest = 0.0;
        for (Index i = 0; i < arms.K; ++i) {
            if (i % NOW_AND_THEN == 0) between_rounds();
            double entry = 0.0;
            for (Index k = 0; k < arms.d; ++k) entry = std::max(entry, fabs(arms.row(i)[k]));
            largest = std::max(largest, entry * scale[i]);
        }
        const Index places = (arms.K + SINGLES - 1) / SINGLES * SINGLES;
        if (places * (arms.d + 1) > 2 * room_.size()) room_ = Buffer(places * (arms.d + 1) / 2);
        score_ = places * arms.d;
        for (Index i = 0; i < places; ++i) {
            if (i % NOW_AND_THEN == 0) between_rounds();
            const double factor = i < arms.K && scale[i] > 0.0 ? scale[i] / largest : NAN, *a = arms.row(i < arms.K ? i : 0);
            const Index block = i / SINGLES * SINGLES * arms.d + i % SINGLES;
            for (Index k = 0; k < arms.d; ++k) put(block + k * SINGLES, float(a[k] * factor));
        }
    }

    // As `extreme_products`, to the last bit.
    Extremes extremes(const Arms &arms, const double *scale, const double *x) {
        const Index d = arms.d;
        double norm2 = 0.0;
        for (Index k = 0; k < d; ++k) norm2 += x[k] * x[k];
        const double norm = sqrt(norm2), bound = double(d + 4) * 0x1p-23 * sqrt(double(d)) + UNDERFLOWN;
        float most = -INFINITY, least = INFINITY;
        Singles highest = most - Singles{}, lowest = least - Singles{};
        direction_.resize(d);
        for (Index k = 0; k < d; ++k) direction_[k] = float(x[k] / norm);
        for (Index first = 0; first < arms.K; first += SINGLES) {
            if (first % NOW_AND_THEN == 0) between_rounds();
            Singles even{}, odd{};
            for (Index k = 0; k + 1 < d; k += 2) {
                even += get(first * d + k * SINGLES) * direction_[k];
                odd += get(first * d + (k + 1) * SINGLES) * direction_[k + 1];
            }
            if (d % 2) even += get(first * d + (d - 1) * SINGLES) * direction_[d - 1];
            even += odd;
            std::memcpy(at(score_ + first), &even, sizeof even);
            highest = even > highest ? even : highest;
            lowest = even < lowest ? even : lowest;
        }
        for (Index i = 0; i < SINGLES; ++i) most = std::max(most, highest[i]), least = std::min(least, lowest[i]);
        const float top = most - float(2.5 * bound), bottom = least + float(2.5 * bound);
        Extremes found{{-INF, 0}, {INF, 0}};
        for (Index i = 0; i < arms.K; ++i) {
            float score;
            std::memcpy(&score, at(score_ + i), sizeof score);
            if (!(score >= top || score <= bottom)) continue;
            const double product = scale[i] * inner_row(arms.row(i), d, x);
            if (product > found.high.value) found.high = {product, i};
            if (product < found.low.value) found.low = {product, i};
        }
        return found;
    }

  private:
    static constexpr Index SINGLES = 2 * WIDTH;
    static constexpr double UNDERFLOWN = 1e-30;  // far above what products of numbers up to 1 lose by underflow
    typedef float Singles __attribute__((vector_size(8 * WIDTH)));

    Buffer room_;  // of floats: the vectors, then their scores from `score_` on
    Index score_ = 0;
    std::vector<float> direction_;

    char *at(Index i) { return reinterpret_cast<char *>(static_cast<double *>(room_)) + sizeof(float) * std::size_t(i); }
    void put(Index i, float x) { std::memcpy(at(i), &x, sizeof x); }
    Singles get(Index i) {
        Singles x;
        std::memcpy(&x, at(i), sizeof x);
        return x;
    }
};

// <a, x> of the eight arms from `first` on, the first arm's past the last.
template <class Dim> LINMED_INLINE Lanes inner_at(const Arms &arms, Dim d, Index first, const double *x) {
    if (arms.blocks) return inner(arms.block(first, nullptr), d, x);
    if (first % NOW_AND_THEN == 0) between_rounds();
    double values[LANES];
    for (Index i = 0; i < LANES; ++i) values[i] = inner_row(arms.row(first + i < arms.K ? first + i : 0), arms.d, x);
    return load(values);
}

// lengths_i = v'Mv; returns the arm of the largest.
template <class Dim>
LINMED_INLINE Index squared_lengths(const Arms &arms, Dim d, const double *scale, const double *M, Index stride, double *lengths) {
    OneBlock one(arms);
    return arg_largest(arms.K, [&](Index first) {
        const Lanes times = load(scale + first);
        const Lanes length = (times * times) * squared_length(arms.block(first, one), d, M, stride);
        store(lengths + first, length);
        return length;
    });
}

// lengths_i -= shrink <v_i, u>^2, not below 0: the lengths v'Mv after M -= shrink u u'. Returns the arm of the largest.
template <class Dim>
LINMED_INLINE Index lower_lengths(const Arms &arms, Dim d, const double *scale, const double *u, double shrink, double *lengths) {
    return arg_largest(arms.K, [&](Index first) {
        const Lanes product = load(scale + first) * inner_at(arms, d, first, u);
        const Lanes length = larger(fma(product * product, splat(-shrink), load(lengths + first)), splat(0.0));
        store(lengths + first, length);
        return length;
    });
}

// ---- Algorithms 4 and 5 --------------------------------------------------------------------------------------------

// What a design works with: two matrices and four lines, and a screen.
struct Desk {
    Index d, stride;
    Buffer room;
    Screen screen;  // of sets too large to be held
    explicit Desk(Index d) : d(d), stride(padded(d)), room((2 * d + 4) * padded(d)) {}
    double *P() { return room; }
    double *M() { return room + d * stride; }
    double *line(Index i) { return room + (2 * d + i) * stride; }
    template <class Dim> bool invert_M(Dim n, double smallest_pivot) {
        return invert(M(), n, stride_of(n), smallest_pivot, line(2), line(3));
    }
};

// line = vector i. A short one is written whole, as it is read: what is written number by number must first reach the cache.
template <class Dim> LINMED_INLINE void take(const Arms &arms, Dim d, Index i, double scale, double *line) {
    if constexpr (KNOWN<Dim> > 0) store(line, splat(scale) * load_first<KNOWN<Dim>>(arms.row(i)));
    else count_to(d, [&](Index k) LINMED_ALWAYS { line[k] = scale * arms.row(i)[k]; });
}

// Vector i to a line of the desk and, if it is new, into the set: count and M. Returns 1 if it joined.
template <class Dim>
LINMED_INLINE Index join(const Arms &arms, Dim d, Index i, const double *scale, double *count, Desk &desk, double *line) {
    take(arms, d, i, scale[i], line);
    if (count[i] > 0.0) return 0;
    count[i] = 1.0;
    add_outer(desk.M(), d, stride_of(d), line, 1.0);
    return 1;
}

// Algorithm 4: sets count to 1 on the chosen arms, M = sum v v' over them; returns how many they are.
//
// P projects onto the complement of the directions found so far, so row i of P is b_i, the part of axis i that they do
// not explain. Where all arms have the same inner product with b_i (a hyperplane off the origin), the difference of the
// two extreme arms vanishes; one arm alone then takes its place.
template <class Dim> Index betke_henk(const Arms &arms, Dim d, const double *scale, double *count, Desk &desk) {
    const auto stride = stride_of(d);
    double *v = desk.line(0), *rest = desk.line(1);
    clear(desk.room, desk.room.size());
    for (Index i = 0; i < arms.K; ++i) count[i] = 0.0;
    for (Index k = 0; k < d; ++k) desk.P()[k * stride + k] = 1.0;
    if (!arms.blocks) desk.screen.look_at(arms, scale);
    Index chosen = 0;
    for (Index axis = 0; axis < d; ++axis) {
        const double *b = desk.P() + axis * stride;
        if (squares(b, d) < NEGLIGIBLE * NEGLIGIBLE) continue;  // the axis lies in their span already
        const auto [high, low] = arms.blocks ? extreme_products(arms, d, scale, b) : desk.screen.extremes(arms, scale, b);
        if (high.value == -INF) break;  // no arm takes part
        chosen += join(arms, d, high.place, scale, count, desk, v);
        if (high.value - low.value > NEGLIGIBLE * std::max(fabs(high.value), fabs(low.value))) {
            chosen += join(arms, d, low.place, scale, count, desk, rest);
            for (Index k = 0; k < stride; k += LANES) store(v + k, load(v + k) - load(rest + k));
        }
        if (axis < d - 1) {
            times_line(desk.P(), d, stride, v, rest);
            const double length2 = squares(rest, d);
            if (length2 > NEGLIGIBLE * NEGLIGIBLE * squares(v, d))
                add_outer(desk.P(), d, stride, rest, -1.0 / length2);
        }
    }
    return chosen;
}

// Sets count to 1 on the arms in `support` (n,) that take part, M = sum v v'; returns their number.
inline Index gather(const Arms &arms, const double *scale, const int64_t *support, Index n, double *count, Desk &desk) {
    clear(desk.room, desk.room.size());
    for (Index i = 0; i < arms.K; ++i) count[i] = 0.0;
    Index chosen = 0;
    for (Index m = 0; m < n; ++m)
        if (const Index i = support[m]; 0 <= i && i < arms.K && scale[i] > 0.0)
            chosen += join(arms, arms.d, i, scale, count, desk, desk.line(0));
    return chosen;
}

// The loop of Algorithm 5: add the arm of largest leverage, `worst`, until none exceeds 1; returns how many were added.
//
// M = (sum count_i v_i v_i')^-1, leverage_i = v_i' M v_i. Each addition at least doubles det V, and n of them make it at
// most (1 + n L/d)^d times as large, L the largest leverage at first. So n <= d log2(1 + n L/d), which is below 2000 d for
// every L that float64 can hold; only rounding could lead further.
template <class Dim>
Index add_greedily(const Arms &arms, Dim d, const double *scale, Index worst, double *leverage, double *count, Desk &desk) {
    Index added = 0;
    double *v = desk.line(0), *u = desk.line(1);
    for (; leverage[worst] > STOP && added < 2000 * d; ++added) {
        count[worst] += 1.0;
        take(arms, d, worst, scale[worst], v);
        times_line(desk.M(), d, stride_of(d), v, u);
        const double shrink = 1.0 / (1.0 + leverage[worst]);
        add_outer(desk.M(), d, stride_of(d), u, -shrink);
        worst = lower_lengths(arms, d, scale, u, shrink, leverage);
    }
    return added;
}

// scale becomes 0 for zero arms, and past the last arm.
inline void leave_out_zero_arms(const Arms &arms, double *scale) {
    if (!arms.blocks) {
        const auto zero = [](double x) { return x == 0.0; };
        for (Index i = 0; i < padded(arms.K); ++i)
            if (i >= arms.K || std::all_of(arms.row(i), arms.row(i) + arms.d, zero)) scale[i] = 0.0;
        return;
    }
    for (Index first = 0; first < arms.K; first += LANES)
        store(scale + first, load(arms.block(first, nullptr) + arms.d * LANES) * load(scale + first));
}

// Greedy additions to a set of `chosen` vectors with M = sum v v'; returns how many they are in the end, or -1 where the
// set is too ill-conditioned for that.
template <class Dim>
double complete(const Arms &arms, Dim d, const double *scale, Index chosen, double *count, double *leverage, Desk &desk) {
    if (!desk.invert_M(d, 1e-7)) return -1.0;
    const Index worst = squared_lengths(arms, d, scale, desk.M(), stride_of(d), leverage);
    if (!(leverage[worst] < LARGEST_LEVERAGE)) return -1.0;
    return double(chosen + add_greedily(arms, d, scale, worst, leverage, count, desk));
}

// ApproxDesign in the arms' own coordinates, as counts; returns their sum, or -1 where they are ill-conditioned.
inline double approx_counts_here(const Arms &arms, double *scale, double *count, double *leverage, Desk &desk) {
    leave_out_zero_arms(arms, scale);
    return with_dimension(arms.d, [&](auto d) {
        return complete(arms, d, scale, betke_henk(arms, d, scale, count, desk), count, leverage, desk);
    });
}

// ---- arms that do not span the space, are nearly dependent, or whose scales are far apart --------------------------

// Well-conditioned coordinates B (K,d) of exp(log_scale_i) a_i in their span, of which the first r columns are filled;
// returns the rank r.
//
// Gram-Schmidt that always takes the arm with the largest remainder as the next direction and measures along it in units
// of that remainder: all coordinates are at most 1, however far apart the scales are. An arm's remainder counts as zero
// when it is below 1e-10 of the arm itself. `lift` (d,d), unless it is null, takes coordinates back:
// <lift x, a_i> = <x, b_i> where log_scale_i = 0.
inline Index span_coordinates(const Arms &arms, const double *log_scale, double *B, std::vector<Index> &pivots,
                              double *lift = nullptr) {
    const Index K = arms.K, d = arms.d;
    pivots.resize(d);
    Buffer rest(K * d), size(K), log_norm(K), directions(d * d);  // rest: unit arms minus what is explained; size: its norm
    for (Index i = 0; i < K; ++i) {
        double largest = 0.0, total = 0.0;
        for (Index k = 0; k < d; ++k) largest = std::max(largest, fabs(arms.row(i)[k]));
        log_norm[i] = -INF;
        if (largest == 0.0 || log_scale[i] == -INF) continue;
        for (Index k = 0; k < d; ++k) {
            const double x = rest[i * d + k] = arms.row(i)[k] / largest;
            total += x * x;
        }
        const double norm = sqrt(total);
        for (Index k = 0; k < d; ++k) rest[i * d + k] /= norm;
        log_norm[i] = log(largest) + log(norm) + log_scale[i];
        size[i] = 1.0;
    }
    for (Index rank = 0; rank < d; ++rank) {
        Index best = -1;
        double log_unit = 0.0;
        for (Index i = 0; i < K; ++i)
            if (size[i] > NEGLIGIBLE) {
                const double value = log_norm[i] + log(size[i]);
                if (best < 0 || value > log_unit) best = i, log_unit = value;
            }
        if (best < 0) return rank;
        pivots[rank] = best;
        double *q = directions + rank * d, total = 0.0;
        for (Index k = 0; k < d; ++k) q[k] = rest[best * d + k] / size[best];
        for (Index j = 0; j < rank; ++j) {  // once more, against the rounding of the first pass
            double share = 0.0;
            for (Index k = 0; k < d; ++k) share += directions[j * d + k] * q[k];
            for (Index k = 0; k < d; ++k) q[k] -= share * directions[j * d + k];
        }
        for (Index k = 0; k < d; ++k) total += q[k] * q[k];
        const double norm = sqrt(total);
        for (Index k = 0; k < d; ++k) {
            q[k] /= norm;
            if (lift) lift[k * d + rank] = q[k] * exp(-log_unit);
        }
        for (Index i = 0; i < K; ++i) {
            if (i % NOW_AND_THEN == 0) between_rounds();
            B[i * d + rank] = 0.0;
            if (!(size[i] > 0.0)) continue;
            double along = 0.0, left = 0.0, *x = rest + i * d;
            for (Index k = 0; k < d; ++k) along += x[k] * q[k];
            B[i * d + rank] = along * exp(log_norm[i] - log_unit);
            for (Index k = 0; k < d; ++k) {
                x[k] -= along * q[k];
                left += x[k] * x[k];
            }
            size[i] = sqrt(left);
            if (size[i] <= NEGLIGIBLE || i == best) size[i] = 0.0;
        }
    }
    return d;
}

// M = (sum count_i v_i v_i')^-1; false if a pivot falls below its share of the diagonal.
inline bool weighted_inverse(const Arms &arms, const double *scale, const double *count, double smallest_pivot, Desk &desk) {
    clear(desk.M(), (desk.d + 4) * desk.stride);
    for (Index i = 0; i < arms.K; ++i)
        if (count[i] > 0.0) {
            for (Index k = 0; k < arms.d; ++k) desk.line(0)[k] = scale[i] * arms.row(i)[k];
            add_outer(desk.M(), arms.d, desk.stride, desk.line(0), count[i]);
        }
    return desk.invert_M(desk.d, smallest_pivot);
}

// Whether sum weight_i leverage_i is the rank, as it is unless rounding has eaten the inverse.
inline bool adds_up(const double *weight, const double *leverage, Index K, Index rank) {
    double total = 0.0;
    for (Index i = 0; i < K; ++i) total += weight[i] * leverage[i];
    return fabs(total - double(rank)) <= 1e-6 * double(rank);
}

// A set of arms in the coordinates of its span, where every design can be made.
struct InSpan {
    std::vector<Index> pivots;
    Buffer coordinates;     // (K,d), of which `rank` count
    Index rank;
    Buffer blocks;
    Arms arms;              // with these coordinates
    Buffer ones, leverage;  // ones: 1 for every arm that takes part; both are padded
    Desk desk;

    // With M on the desk for a set of arms in `count` (K,) that spans. `count` may come with a set found elsewhere, which
    // is kept at full rank and completed if need be.
    InSpan(const Arms &given, const double *log_scale, double *count)
        : coordinates(given.K * given.d), rank(span_coordinates(given, log_scale, coordinates, pivots)),
          blocks(Arms::room(given.K, rank)), arms(pack(coordinates, given.K, rank, given.d, blocks)), ones(padded(given.K)),
          leverage(padded(given.K)), desk(rank) {
        if (rank == 0) return;
        double known = 0.0;
        for (Index i = 0; i < arms.K; ++i) {
            ones[i] = log_scale[i] > -INF ? 1.0 : 0.0;
            known += count[i];
        }
        leave_out_zero_arms(arms, ones);
        if (rank < given.d || known == 0.0) betke_henk(arms, arms.d, ones, count, desk);
        bool spanning = weighted_inverse(arms, ones, count, 1e-9, desk);
        if (spanning)  // a set found where rounding decides may span by its smallest arms alone
            spanning = leverage[measure()] < LARGEST_LEVERAGE && adds_up(count, leverage, arms.K, rank);
        if (!spanning) {
            for (Index k = 0; k < rank; ++k) count[pivots[k]] = 1.0;
            weighted_inverse(arms, ones, count, 0.0, desk);
        }
    }

    // Writes the leverages b'Mb; returns the arm of the largest.
    Index measure() { return squared_lengths(arms, arms.d, ones, desk.M(), desk.stride, leverage); }
};

// ApproxDesign of exp(log_scale_i) a_i as counts, for whatever arms; returns their sum. BH's set may be given in `count`.
[[gnu::noinline]] inline double approx_counts_in_span(const Arms &arms, const double *log_scale, double *count) {
    InSpan span(arms, log_scale, count);
    double total = 0.0;
    if (span.rank > 0) add_greedily(span.arms, span.arms.d, span.ones, span.measure(), span.leverage, count, span.desk);
    for (Index i = 0; i < arms.K; ++i) {
        if (span.rank == 0) count[i] = log_scale[i] > -INF ? 1.0 : 0.0;
        total += count[i];
    }
    return total;
}

// ApproxDesign (Algorithm 5) of the rows exp(log_scale_i) a_i, as shares of every arm.  log_scale, weights (K,).
//
// Algorithm 4, line 1: up to 2d arms are all taken, and their leverages then are at most 1.
inline void approx_design(const Arms &arms, const double *log_scale, double *weights) {
    const Index K = arms.K;
    Index members = 0;
    double top = -INF, total = 0.0;
    for (Index i = 0; i < K; ++i) members += log_scale[i] > -INF, top = std::max(top, log_scale[i]);
    Buffer count(padded(K)), scale(padded(K)), leverage(padded(K));
    if (members <= 2 * arms.d) {
        for (Index i = 0; i < K; ++i) count[i] = log_scale[i] > -INF ? 1.0 : 0.0;
        total = double(members);
    } else {
        Desk desk(arms.d);
        for (Index i = 0; i < K; ++i) scale[i] = exp(log_scale[i] - top);
        total = approx_counts_here(arms, scale, count, leverage, desk);
        if (total < 0.0) total = approx_counts_in_span(arms, log_scale, count);
    }
    for (Index i = 0; i < K; ++i) weights[i] = count[i] / total;
}

}  // namespace linmed
