// Decisions among a catalogue: what they compute of single items, and which items have the largest inner products.
//
// A decision plays an item by one of three *routes*, ways in which it comes to be played (linmed/routes.py): the proposal
// that was kept, the item of largest leverage, or â where the proposal was not kept. An arm is a = B e + c, where e (de,) is
// the encoded item and B, c depend on the context alone. So with θ_e = B'θ̂ and M = B'V⁻¹B, an item's
//
//     Δ̂ = <θ_e, ê − e>,   |â − a|² = (ê − e)' M (ê − e),   |a|² = e'Me + 2 <B'V⁻¹c, e> + c'V⁻¹c:
//
// all is computed in the items' own space.
#pragma once

#include <vector>

#include "med.hpp"
#include "rounds.hpp"

namespace linmed {

// ---- what the belief says of items ---------------------------------------------------------------------------------

// Writes θ_e (de,), M (de,de) and B'V⁻¹c (de,); returns c'V⁻¹c.
//
// theta (d,), inverse (d,d), B (d,de), c (d,). Most of B is zero: that of outer products has d entries.
inline double see_items(const double *theta, const double *inverse, Index d, const double *B, Index de, const double *c,
                        double *item_theta, double *M, double *cross) {
    struct Entry { Index row, column; double value; };
    std::vector<Entry> entries;
    for (Index i = 0; i < d; ++i)
        for (Index k = 0; k < de; ++k)
            if (B[i * de + k] != 0.0) entries.push_back({i, k, B[i * de + k]});
    std::fill(item_theta, item_theta + de, 0.0);
    std::fill(M, M + de * de, 0.0);
    std::fill(cross, cross + de, 0.0);
    Buffer line(de);  // row i of V⁻¹B
    double constant = 0.0;
    auto entry = entries.begin();
    for (Index i = 0; i < d; ++i) {
        const double *row = inverse + i * d;
        double ahead = 0.0;
        for (Index j = 0; j < d; ++j) ahead += row[j] * c[j];
        constant += c[i] * ahead;
        if (entry == entries.end() || entry->row != i) continue;
        std::fill(line + 0, line + de, 0.0);
        for (const Entry &other : entries) line[other.column] += row[other.row] * other.value;
        for (; entry != entries.end() && entry->row == i; ++entry) {
            item_theta[entry->column] += entry->value * theta[i];
            cross[entry->column] += entry->value * ahead;
            double *out = M + entry->column * de;
            for (Index l = 0; l < de; ++l) out[l] += entry->value * line[l];
        }
    }
    return constant;
}

// log f and |a|² of every item, seen from ê = `best` (de,); see `weigh_arms`.  log_f, leverage (m,), padded.
inline void weigh_items(const Arms &items, const double *best, const double *theta, const double *M, const double *cross,
                        double constant, double sharpness, double *log_f, double *leverage) {
    const Index de = items.d;
    Buffer centre(de), ahead(padded(de)), difference(LANES * de), one(block_room(de));
    double length = constant + centre_on(best, M, de, centre, ahead);  // |â|², and ahead = B'V⁻¹â
    for (Index k = 0; k < de; ++k) {
        length += 2.0 * best[k] * cross[k];
        ahead[k] += cross[k];
    }
    bool vanished = false;
    for (Index first = 0; first < items.K; first += LANES) {
        between_rounds();
        const auto [lengths, gap, distance2] = seen_from(items.fill(first, one), de, theta, M, best, ahead, length, difference);
        const Lanes value = log_weights(gap, distance2, sharpness);
        store(log_f + first, value);
        store(leverage + first, lengths);
        vanished = vanished || largest_lane(value) > 0.0;
    }
    if (vanished) repair(theta, M, sharpness, items, best, log_f, nullptr);
}

// The first item whose leverage is the largest but for rounding; −1 where none exceeds 1 (the event B_t is not there).
inline Index most_levered(const double *leverage, Index n) {
    double largest = 0.0;
    for (Index i = 0; i < n; ++i) largest = std::max(largest, leverage[i]);
    Index i = 0;
    while (i < n && leverage[i] * Med::EQUAL < largest) ++i;
    return largest > Med::EXPLORE && i < n ? i : -1;
}

// arm = B e + c.  item (de,), B (d,de), c, arm (d,).
inline void raise_item(const double *item, const double *B, Index d, Index de, const double *c, double *arm) {
    for (Index i = 0; i < d; ++i) {
        double total = 0.0;
        for (Index k = 0; k < de; ++k) total += B[i * de + k] * item[k];
        arm[i] = total + c[i];
    }
}

// P projects onto the complement of some directions: take Px out of it too.  P (d,d), x (d,). False where x had no part
// in that complement.
inline bool take_out(double *P, Index d, const double *x) {
    Buffer line(d);
    double length2 = 0.0, part2 = 0.0;
    for (Index i = 0; i < d; ++i) {
        for (Index k = 0; k < d; ++k) line[i] += P[i * d + k] * x[k];
        length2 += x[i] * x[i];
        part2 += line[i] * line[i];
    }
    if (!(part2 > 1e-20 * length2)) return false;
    for (Index i = 0; i < d; ++i)
        for (Index k = 0; k < d; ++k) P[i * d + k] -= line[i] * line[k] / part2;
    return true;
}

// The logarithm of the probability of playing an item by any route but the last: q f or, where half of the decisions
// `explore`, ½ q f + ½·1{the item is the one that they play}.
inline double log_of_routes(double q, double log_f, bool explore, bool explored) {
    const double proposed = q > 0.0 ? log(q) + log_f : -INF;
    if (!explore) return proposed;
    return (explored ? log1p(q * exp(log_f)) : proposed) + log(0.5);
}

// ---- the best items by inner product: looked for in single precision, settled in double -----------------------------
//
// Scores of single precision may come from any BLAS. An item is left out only where its score is further below the k-th best
// than single precision can be wrong, so the items found are those of a pass in double precision, on every processor.

constexpr double SINGLE = 0x1p-23;       // twice the unit roundoff of single precision
constexpr double UNDERFLOW_LOSS = 1e-30;  // far above what products lose by underflow
constexpr Index STRETCH = 64;            // scores looked at before one of them is

// How far a score may be off, where |a||x| is at most `reach`: one rounding of each factor and any order of the d products
// and sums are (d + 2) u |a||x|, here more than doubled.
inline double doubt(Index d, double reach) { return double(d + 4) * SINGLE * reach + UNDERFLOW_LOSS; }

// A number of single precision no larger than x, and hardly smaller.
inline float at_most(double x) {
    constexpr double LARGEST = 3e38;
    return x > -LARGEST ? float(std::min(x - fabs(x) * SINGLE, LARGEST)) : -std::numeric_limits<float>::infinity();
}

inline bool all_below(const float *scores, Index n, float bar) {
    int above = 0;
    if (n == STRETCH)
        for (Index i = 0; i < STRETCH; ++i) above |= !(scores[i] < bar);
    else
        for (Index i = 0; i < n; ++i) above |= !(scores[i] < bar);
    return !above;
}

// Enter the items of a block into the k best of one query, the lower place on ties.
//
// scores (n,) of single precision; rows (n,d) of any precision; live (n,); the items stand at `first` + 0, 1, …; query (d,).
// places, values (k,) hold the best so far, −1 and −inf where none is.
template <class Real>
void enter_best(const float *scores, const Real *rows, Index n, Index d, const bool *live, int64_t first, const double *query,
                double slack, Index k, int64_t *places, double *values) {
    for (Index start = 0; start < n; start += STRETCH) {
        const Index end = std::min(start + STRETCH, n);
        const float bar = at_most(values[k - 1] - slack);
        if (all_below(scores + start, end - start, bar)) continue;
        between_rounds();
        for (Index i = start; i < end; ++i) {
            if (scores[i] < bar || !live[i]) continue;
            double value = 0.0;
            for (Index j = 0; j < d; ++j) value += double(rows[i * d + j]) * query[j];
            if (value <= values[k - 1]) continue;
            Index at = k - 1;
            for (; at > 0 && value > values[at - 1]; --at) values[at] = values[at - 1], places[at] = places[at - 1];
            values[at] = value, places[at] = first + i;
        }
    }
}

// The largest norm of a row (n,d).
template <class Real> double longest_row(const Real *rows, Index n, Index d) {
    double largest = 0.0;
    for (Index i = 0; i < n; ++i) {
        double length2 = 0.0;
        for (Index j = 0; j < d; ++j) length2 += double(rows[i * d + j]) * double(rows[i * d + j]);
        largest = std::max(largest, length2);
    }
    return sqrt(largest);
}

}  // namespace linmed
