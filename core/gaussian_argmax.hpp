// Which arm is best under θ̃ ~ N(θ̂, s² V⁻¹)? The probabilities behind linear Thompson sampling.
//
// In coordinates z in which θ̃ is N(m, I), arm i is best where <b_i, z> is largest. The best method that fits is taken:
//
//     two arms                      the normal CDF, exact, also in the tails
//     arms in a plane (`planes`)    the best arm depends only on the angle of z, whose density is known: one integral over
//                                   the arm's normal cone
//     other arms (`rays`)           the chance that each arm has on a ray of its own through the points of a Sobol set
//     very many arms (`lines`)      lines that all arms share: rays take the square of the number of arms
//
// No method serves everywhere. At equal time, for arms on a sphere: in 32 dimensions rays have a fifth of the error of lines
// among 100 to 3000 arms; in three from 100 arms on, in eight from 1000 on, lines have less, a tenth in the end; and the
// time of rays grows with the square of the number of arms.
//
// An arm that duplicates an earlier one or lies inside the hull of the others has probability 0; so has, in more than two
// dimensions, one that beats the leader with less than Φ(−9) = 1e-19, and among very many one too rare for any line to
// meet.
//
// Arms may be worth a known number more, `offset` (K,) or null: arm i is best where offset_i + <b_i, z> is largest. Then no
// arm is inside a hull, and rays take the place of the angular integral.
//
// Coordinates stand in rows, so that loops run over the arms. The answer of a replica is the same in any company, and a
// decision starts no threads.
#pragma once

#include <cmath>
#include <numeric>

#include "arms.hpp"
#include "rounds.hpp"
#include "sobol.hpp"
#include "thompson.hpp"

namespace linmed {

constexpr double ANGULAR_ERROR = 1e-9;
constexpr double REACH = 9.0;          // beyond ±9 a standard normal has mass 2e-19
constexpr double RARE = 1.0 / 16384;   // nothing is said with more certainty about an arm that has less

// How much is done for an answer.
struct Effort {
    double enough;      // an error that asks for no more points
    double work;        // points are doubled up to so many times the arms …
    Index most_points;  // … and to this number
    Index most_arms;    // beyond, lines that all arms share
    Index lines;        // in each of `lines::BLOCKS` consecutive parts of the Sobol set, a multiple of four
    bool angles = true; // whether arms in a plane are integrated over the angle
};

// Rows of numbers, padded with zeros to whole vectors.
struct Grid {
    Index rows, columns, stride;
    Buffer numbers;
    Grid(Index rows, Index columns)
        : rows(rows), columns(columns), stride(padded(columns)), numbers(rows * stride) {}
    double *operator[](Index row) { return numbers + row * stride; }
    const double *operator[](Index row) const { return numbers + row * stride; }
};

// Whether x comes before y in increasing order; what is no number comes last.
inline bool before(double x, double y) { return x < y || (y != y && x == x); }

// The numbers 0 … n − 1 sorted, equal ones as they stand.
template <class F> std::vector<Index> sorted(Index n, F less) {
    std::vector<Index> order(std::size_t(n), 0);
    std::iota(order.begin(), order.end(), Index(0));
    std::stable_sort(order.begin(), order.end(), less);
    return order;
}
inline std::vector<Index> order_of(const double *key, Index n) {
    return sorted(n, [key](Index i, Index j) { return before(key[i], key[j]); });
}

// ---- a plane: the angle of z ----------------------------------------------------------------------------------------

namespace planes {

// Gauss–Legendre on [−1, 1] with 16 nodes: the positive ones and their weights.
constexpr double NODE[LANES] = {0.9894009349916499, 0.9445750230732326, 0.8656312023878318, 0.755404408355003,
                                0.6178762444026438, 0.45801677765722737, 0.2816035507792589, 0.09501250983763744};
constexpr double WEIGHT[LANES] = {0.027152459411754176, 0.062253523938647456, 0.0951585116824926, 0.12462897125553407,
                                  0.1495959888165767, 0.16915651939500265, 0.18260341504492364, 0.18945061045506864};

// sin x and cos x for |x| ≤ 1, by their series.
struct SinCos { Lanes sin, cos; };
LINMED_INLINE SinCos sin_cos(Lanes x) {
    const Lanes z = x * x * splat(-1.0);
    Lanes s = splat(1.0), c = splat(1.0);
    for (double k = 18.0; k > 0.0; k -= 2.0) {
        s = fma(s * z, splat(1.0 / (k * (k + 1.0))), splat(1.0));
        c = fma(c * z, splat(1.0 / (k * (k - 1.0))), splat(1.0));
    }
    return {s * x, c};
}

// Density of the angle of z ~ N(m, I₂) from m, for z that lies `along` m and `across` it at the distance |m|; least is
// exp(−|m|²/2)/(2π), what is left in all directions.
//
// It is least·(1 + t Φ(t)/φ(t)) with t = along. Behind, where t < 0, that is a small difference; ahead least·Φ(t)/φ(t) is
// Φ(t) exp(−across²/2)/√(2π).
LINMED_INLINE Lanes angle_density(Lanes along, Lanes across, Lanes least) {
    const Lanes zero = splat(0.0), one = splat(1.0), t = larger(along, zero - along), ratio = mills_ratio(t);
    const Lanes behind = least * (one - t * ratio);
    const Lanes below = one - exp(t * t * splat(-0.5)) * splat(1.0 / SQRT_TWO_PI) * ratio;  // Φ(t)
    const Lanes ahead = fma(t * below, exp(across * across * splat(-0.5)) * splat(1.0 / SQRT_TWO_PI), least);
    return where_greater(zero, along, behind, ahead);
}

// Edges in [−π, π], at most 2 apart, between which the density is smooth enough for 16 Gauss–Legendre nodes.
//
// The density peaks at 0 with a width of 1/length; beyond 40 widths it is zero in float64.
inline std::vector<double> panel_edges(double length) {
    const double unit = length > 0.0 ? std::min(1.0, 1.0 / length) : 1.0;
    const double reach = length > 40.0 ? std::min(PI, 40.0 * unit) : PI;
    std::vector<double> edges;
    for (double position = 0.0; position < reach;) {
        position += unit * (position < 12.0 * unit ? 2.0 : 0.3 * position / unit);
        edges.push_back(std::min(position, reach));
    }
    const std::size_t half = edges.size();
    edges.insert(edges.begin(), half + 1, 0.0);
    for (std::size_t i = 0; i < half; ++i) edges[i] = -edges[2 * half - i];
    return edges;
}

// The integral of the density from low to high, both in [−π, π].
inline double angle_integral(double low, double high, double length, const std::vector<double> &edges) {
    const Lanes least = splat(exp(-0.5 * length * length) / TWO_PI), size = splat(length), weight = load(WEIGHT);
    double total = 0.0;
    for (std::size_t panel = 0; panel + 1 < edges.size(); ++panel) {
        const double a = std::max(low, edges[panel]), b = std::min(high, edges[panel + 1]);
        if (!(b > a)) continue;
        const double middle = 0.5 * (a + b), half = 0.5 * (b - a);
        const Lanes s = splat(sin(middle)), c = splat(cos(middle));
        const auto [sines, cosines] = sin_cos(splat(half) * load(NODE));
        const Lanes one_side = angle_density(size * (c * cosines - s * sines), size * (s * cosines + c * sines), least);
        const Lanes other = angle_density(size * (c * cosines + s * sines), size * (s * cosines - c * sines), least);
        total += half * sum_lanes(weight * (one_side + other));
    }
    return total;
}

// The corners of the hull of n points (x, y), counterclockwise, the lowest of equal points.
//
// Monotone chain: the lower hull from left to right, then the upper one back.
inline std::vector<Index> convex_hull(const double *x, const double *y, Index n) {
    const auto same = [&](Index i, Index j) { return x[i] == x[j] && y[i] == y[j]; };
    const auto turn = [&](Index i, Index j, Index k) {  // twice the area of the triangle; positive if it turns to the left
        return (x[j] - x[i]) * (y[k] - y[i]) - (y[j] - y[i]) * (x[k] - x[i]);
    };
    std::vector<Index> order = sorted(n, [&](Index i, Index j) {
        return before(x[i], x[j]) || (!before(x[j], x[i]) && before(y[i], y[j]));
    });
    std::vector<Index> hull;
    for (int half = 0; half < 2; ++half) {
        const std::size_t least = std::max(hull.size() + 2 - std::size_t(half), std::size_t(2));
        for (Index step = half; step < n; ++step) {
            const Index p = order[std::size_t(half == 0 ? step : n - 1 - step)];
            if (!hull.empty() && same(p, hull.back())) {
                hull.back() = std::min(hull.back(), p);
                continue;
            }
            while (hull.size() >= least && turn(hull[hull.size() - 2], hull.back(), p) <= 0.0) hull.pop_back();
            hull.push_back(p);
        }
    }
    if (hull.size() > 1 && same(hull.back(), hull[0])) {
        hull[0] = std::min(hull[0], hull.back());
        hull.pop_back();
    }
    return hull;
}

// Probabilities p (n,) by the angular integral, from the first two rows of B.  m (2,).
//
// A corner of the hull is best for the directions in its normal cone; every other arm has probability zero.
inline void integrate(const Grid &B, const double *m, double *p) {
    const Index n = B.columns;
    double largest = 0.0;
    for (Index i = 0; i < n; ++i) {
        p[i] = 0.0;
        largest = std::max({largest, fabs(B[0][i]), fabs(B[1][i])});
    }
    Buffer x(n), y(n);
    for (Index i = 0; i < n; ++i) {
        x[i] = largest > 0.0 ? B[0][i] / largest : B[0][i];
        y[i] = largest > 0.0 ? B[1][i] / largest : B[1][i];
    }
    const std::vector<Index> hull = convex_hull(x, y, n);
    const std::size_t corners = hull.size();
    if (corners == 1) {
        p[hull[0]] = 1.0;
        return;
    }
    const double length = hypotenuse(m[0], m[1]), towards = atan2(m[1], m[0]);
    const std::vector<double> edges = panel_edges(length);
    std::vector<double> normals(corners);
    for (std::size_t c = 0; c < corners; ++c) {  // outer normal of the edge from corner c to the next
        const Index i = hull[c], j = hull[(c + 1) % corners];
        const double angle = atan2(x[i] - x[j], y[j] - y[i]) - towards;
        normals[c] = angle - 2.0 * PI * floor((angle + PI) / (2.0 * PI));
    }
    double total = 0.0;
    for (std::size_t c = 0; c < corners; ++c) {
        const double low = normals[c > 0 ? c - 1 : corners - 1], high = normals[c];
        double part;
        if (low <= high)
            part = angle_integral(low, high, length, edges);
        else  // the cone holds the direction opposite to m
            part = angle_integral(low, PI, length, edges) + angle_integral(-PI, high, length, edges);
        p[hull[c]] = part;
        total += part;
    }
    for (Index i = 0; i < n; ++i) p[i] /= total;
}

}  // namespace planes

// ---- coordinates ----------------------------------------------------------------------------------------------------

// Coordinates in which θ̃ is N(m, I), with the arms seen from the leader a*, the one with the best mean.
//
// <θ̃, a_i − a*> = <b_i, z>: B (d,n) = s U⁻ᵀ(a − a*), mean (n,) = <θ̂, a − a*> with offsets, m (d,) = Uθ̂/s, for the arms `some` of
// A (K,d), with V = U'U. What is common to all arms changes no argmax, and is taken away before it can round off what
// they differ by.
inline void whiten(const double *A, const std::vector<Index> &some, const double *theta, const double *V, Index d,
                   double smallest, double scale, const double *offset, Grid &B, double *mean, double *m) {
    const Index n = B.columns, stride = padded(d);
    Buffer U(d * stride);
    factor(V, d, smallest, U);
    Index leader = 0;
    double highest = -INF;
    for (Index i = 0; i < n; ++i) {
        const double *a = A + some[std::size_t(i)] * d;
        double value = offset ? offset[some[std::size_t(i)]] : 0.0;
        for (Index k = 0; k < d; ++k) value += a[k] * theta[k];
        if (value > highest) leader = some[std::size_t(i)], highest = value;
        mean[i] = 0.0;
    }
    if (offset)
        for (Index i = 0; i < n; ++i) mean[i] = offset[some[std::size_t(i)]] - offset[leader];
    for (Index j = 0; j < d; ++j) {
        double total = 0.0;
        for (Index k = j; k < d; ++k) total += U[j * stride + k] * theta[k];
        m[j] = total / scale;
        double *row = B[j];
        for (Index i = 0; i < n; ++i) {
            const double difference = A[some[std::size_t(i)] * d + j] - A[leader * d + j];
            mean[i] += theta[j] * difference;
            row[i] = scale * difference;
        }
        for (Index k = 0; k < j; ++k) {
            const double *solved = B[k];
            const Lanes share = splat(U[k * stride + j]);
            for (Index i = 0; i < n; i += LANES) store(row + i, load(row + i) - share * load(solved + i));
        }
        for (Index i = 0; i < n; ++i) row[i] /= U[j * stride + j];
    }
}

// |x|², <x, y> and |y|² of two rows.
//
// Eight partial sums each, which are added up in order: the same digits on every processor.
struct InnerProducts { double xx, xy, yy; };
inline InnerProducts inner_products(const double *x, const double *y, Index n) {
    const Index whole = n - n % LANES;
    Lanes xx = splat(0.0), xy = xx, yy = xx;
    for (Index i = 0; i < whole; i += LANES) {
        const Lanes a = load(x + i), b = load(y + i);
        xx = fma(a, a, xx), xy = fma(a, b, xy), yy = fma(b, b, yy);
    }
    double sums[3][LANES];
    store(sums[0], xx), store(sums[1], xy), store(sums[2], yy);
    for (auto &sum : sums)
        for (Index lane = 1; lane < LANES; ++lane) sum[0] += sum[lane];
    for (Index i = whole; i < n; ++i) {
        sums[0][0] += x[i] * x[i];
        sums[1][0] += x[i] * y[i];
        sums[2][0] += y[i] * y[i];
    }
    return {sums[0][0], sums[1][0], sums[2][0]};
}

// See the arms from their mean, turned until their coordinates are uncorrelated, the widest first; returns the rank, and
// drops the rows beyond it.
//
// One-sided Jacobi on the rows of B (d,n), which small rows keep their own accuracy through; m (d,) turns along. Rows
// shorter than RANK_TOLERANCE of the longest are dropped; two stay in any case, the shorter ones zero.
inline Index principal_axes(Grid &B, double *m) {
    constexpr double RANK_TOLERANCE = 1e-13;  // axes shorter than this share of the longest are rounding
    constexpr double ORTHOGONAL = 1e-14;      // cosine of two rows that need no further turn
    constexpr double NEARLY = 1e-7;           // what is so near to orthogonal before its turn is orthogonal after it
    constexpr double NOISE = 1e-14;           // a row so much shorter than the longest one is rounding
    const Index d = B.rows, n = B.columns;
    double longest = 0.0;
    for (Index j = 0; j < d; ++j) {
        double total = 0.0;
        for (Index i = 0; i < n; ++i) total += B[j][i];
        for (Index i = 0; i < n; ++i) B[j][i] -= total / double(n);
        longest = std::max(longest, inner_products(B[j], B[j], n).xx);
    }
    bool turned = true;
    for (int sweep = 0; turned && sweep < 40; ++sweep) {
        turned = false;
        for (Index j = 0; j < d - 1; ++j)
            for (Index k = j + 1; k < d; ++k) {
                double *x = B[j], *y = B[k];
                const auto [xx, xy, yy] = inner_products(x, y, n);
                if (fabs(xy) <= ORTHOGONAL * sqrt(xx * yy) || std::min(xx, yy) <= NOISE * NOISE * longest) continue;
                turned = turned || fabs(xy) > NEARLY * sqrt(xx * yy);
                const double half = 0.5 * (yy - xx) / xy;
                const double tangent = std::copysign(1.0 / (fabs(half) + hypotenuse(1.0, half)), half);
                const double cosine = 1.0 / hypotenuse(1.0, tangent), sine = cosine * tangent;
                const Lanes c = splat(cosine), s = splat(sine);
                for (Index i = 0; i < n; i += LANES) {
                    const Lanes a = load(x + i), b = load(y + i);
                    store(x + i, c * a - s * b);
                    store(y + i, s * a + c * b);
                }
                const double along = m[j], across = m[k];
                m[j] = cosine * along - sine * across, m[k] = sine * along + cosine * across;
            }
        between_rounds();
    }
    Buffer size(d), before(d);
    for (Index j = 0; j < d; ++j) size[j] = -sqrt(inner_products(B[j], B[j], n).xx), before[j] = m[j];
    const std::vector<Index> order = order_of(size, d);
    Index rank = 0;
    while (rank < std::min(d, n - 1) && -size[order[std::size_t(rank)]] > RANK_TOLERANCE * -size[order[0]]) ++rank;
    Grid widest(std::max(rank, Index(2)), n);
    for (Index j = 0; j < d; ++j) {
        const Index from = order[std::size_t(j)];
        m[j] = before[from];
        if (j < rank) std::copy(B[from], B[from] + n, widest[j]);
    }
    B = std::move(widest);
    return rank;
}

// ---- rays -----------------------------------------------------------------------------------------------------------

// Each arm's own ray through every point of a low-discrepancy set.
//
// The value of arm i is v_i(x) = mean_i + <b_i, x> with x ~ N(0, I_r). Through a point x we draw for every arm a line in
// its own direction u_i = (b_i − c)/|b_i − c|, where c is the mean of the arm that is best. Along it all values are
// straight lines, arm i is best between two crossings, and the probability of that piece given the rest of x is exact:
// Φ(to) − Φ(from). It is the arm's chance to win wherever x lies, small but smooth, where a single line for all arms says 0
// to most of them; its mean over the points is the arm's probability.
//
// All arms share the points. Lanes are points, and a replica's numbers depend on nothing but its own data.
namespace rays {

constexpr Index BLOCKS = 16;              // consecutive parts of the points: their spread gives an error on the safe side
constexpr Index PILOT = BLOCKS * LANES;   // points that tell which arm tends to be best
constexpr double SMALL = 1e-14;           // an arm so close to c, a mean of arms, is no corner of their hull

// The arms whose chances are wanted.
struct Field {
    const double *mean;  // (n,)
    const Grid &b;       // (r,n), with mean 0
    bool offsets;        // whether arms inside the hull may be best
    Index n() const { return b.columns; }
    Index rank() const { return b.rows; }
};

// out[g][i] = the values of arm i, mean_i + <b_i, x>, at the points x = start + 8g, ….
//
// mean (n,), b (r,n) with rows `stride` apart, out (groups,n,8); groups is a multiple of four.
inline void values(const double *mean, const double *b, Index stride, Index n, const Normals &normals, Index start,
                   Index groups, double *out) {
    const Index rank = normals->dim, points = normals->points;
    for (Index i = 0; i < n; ++i)
        for (Index g = 0; g < groups; g += 4) {
            Lanes v0 = splat(mean[i]), v1 = v0, v2 = v0, v3 = v0;
            const double *x = normals->normals + start + g * LANES;
            for (Index k = 0; k < rank; ++k, x += points) {
                const Lanes share = splat(b[k * stride + i]);
                v0 = fma(share, load(x), v0);
                v1 = fma(share, load(x + LANES), v1);
                v2 = fma(share, load(x + 2 * LANES), v2);
                v3 = fma(share, load(x + 3 * LANES), v3);
            }
            double *to = out + (g * n + i) * LANES;
            store(to, v0);
            store(to + n * LANES, v1);
            store(to + 2 * n * LANES, v2);
            store(to + 3 * n * LANES, v3);
        }
}

// c (r,): the mean of the best arm over the first PILOT points, and of all arms with the weight of one point.
//
// Where an arm so near to c may be best, as only offsets make it, c moves away: any direction serves its chances.
inline Buffer centre_of(const Field &field, const Normals &normals) {
    constexpr Index GROUPS = 4;
    const Index n = field.n(), rank = field.rank();
    Grid value(GROUPS, n * LANES);
    Buffer wins(n), centre(rank);
    for (Index start = 0; start < PILOT; start += GROUPS * LANES) {
        values(field.mean, field.b[0], field.b.stride, n, normals, start, GROUPS, value[0]);
        for (Index g = 0; g < GROUPS; ++g) {
            Lanes best = splat(-INF), winner = splat(0.0);
            for (Index i = 0; i < n; ++i) {
                const Lanes here = load(value[g] + i * LANES);
                winner = where_greater(here, best, splat(double(i)), winner);
                best = larger(here, best);
            }
            double who[LANES];
            store(who, winner);
            for (double i : who) wins[Index(i)] += 1.0;
        }
    }
    for (Index k = 0; k < rank; ++k) {
        double total = 0.0;
        for (Index i = 0; i < n; ++i) total += wins[i] * field.b[k][i];
        centre[k] = total / (double(PILOT) + 1.0);
    }
    if (!field.offsets) return centre;
    constexpr double NEAR = 1e-6, STEP = 0.1;
    const auto distances = [&] {
        double nearest = INF, longest = 0.0;
        for (Index i = 0; i < n; ++i) {
            double square = 0.0;
            for (Index k = 0; k < rank; ++k) square += (field.b[k][i] - centre[k]) * (field.b[k][i] - centre[k]);
            nearest = std::min(nearest, sqrt(square)), longest = std::max(longest, sqrt(square));
        }
        return std::pair(nearest, longest);
    };
    const auto [nearest, longest] = distances();
    if (nearest <= NEAR * longest)  // every arm is in the way of one step at most
        for (Index step = 0; step <= n && distances().first <= NEAR * longest; ++step) centre[0] += STEP * longest;
    return centre;
}

// The chances of every arm, summed over the points of each block, in eight parts: (n, BLOCKS, 8).
class Totals {
  public:
    explicit Totals(Index n) : n_(n), numbers_(n * PILOT) {}

    double *at(Index i, Index block) { return numbers_ + (i * BLOCKS + block) * LANES; }
    void forget(Index i) { std::fill(at(i, 0), at(i, 0) + PILOT, 0.0); }

    // Two blocks become one; the other half is for the points that come.
    void merge() {
        for (Index i = 0; i < n_; ++i)
            for (Index b = 0; b < BLOCKS; ++b)
                store(at(i, b), 2 * b < BLOCKS ? load(at(i, 2 * b)) + load(at(i, 2 * b + 1)) : splat(0.0));
    }

    // Probabilities and their standard errors (n,); returns the largest error.
    //
    // The chances are divided by their sum, which is 1 in the mean: what moves all of them alike cancels. What all blocks
    // have in common their spread does not show: the error is no less than one point's share and, if p holds what half as
    // many points said (`again`), than the change; nor less than what one cell of points has far beyond its share, for an
    // arm that few points carry may have as much where no point is. Where half as many points have said nothing, smaller
    // parts are compared, which leaves less of the points' evenness in each.
    double summary(Index points, bool again, double *p, double *error) {
        constexpr double SKEW = 3.0;  // a cell so many times its share, and so many times what it has beyond, are error
        const auto square = [](double x) { return x * x; };
        double cell[BLOCKS][LANES] = {}, block[BLOCKS] = {}, everything = 0.0;
        Buffer sums(n_ * BLOCKS);
        for (Index i = 0; i < n_; ++i)
            for (Index b = 0; b < BLOCKS; ++b) {
                for (Index lane = 0; lane < LANES; ++lane) {
                    cell[b][lane] += at(i, b)[lane];
                    sums[i * BLOCKS + b] += at(i, b)[lane];
                }
                block[b] += sums[i * BLOCKS + b];
            }
        for (double part : block) everything += part;
        double largest = 0.0;
        for (Index i = 0; i < n_; ++i) {
            const double before = p[i], *sum = sums + i * BLOCKS;
            double own = 0.0, biggest = 0.0, squares = 0.0;
            for (Index b = 0; b < BLOCKS; ++b) {
                own += sum[b];
                for (Index lane = 0; lane < LANES; ++lane) biggest = std::max(biggest, at(i, b)[lane]);
            }
            p[i] = own / everything;
            if (again) {
                for (Index b = 0; b < BLOCKS; ++b) squares += square(sum[b] - p[i] * block[b]);
                error[i] = sqrt(squares * double(BLOCKS) / double(BLOCKS - 1)) / everything;
                error[i] = std::max(error[i], fabs(p[i] - before));
            } else {
                for (Index b = 0; b < BLOCKS; ++b)
                    for (Index lane = 0; lane < LANES; ++lane) squares += square(at(i, b)[lane] - p[i] * cell[b][lane]);
                error[i] = sqrt(squares * double(PILOT) / double(PILOT - 1)) / everything;
            }
            error[i] = std::max(error[i], p[i] * (1.0 - p[i]) / double(points));
            error[i] = std::max(error[i], SKEW * (biggest - SKEW * own / double(PILOT)) / everything);
            largest = std::max(largest, error[i]);
        }
        return largest;
    }

  private:
    Index n_;
    Buffer numbers_;
};

// Double the points from `start`, once at least, until the largest error is at most `enough` or all are taken; returns how
// many were taken. `add(from, to, block)` adds the chances at these points to the totals, blocks of so many points each.
template <class F>
Index until_enough(Totals &totals, Index start, Index all, double enough, double *p, double *error, F add) {
    for (Index taken = 0, more = start;; more = taken) {
        add(taken, taken + more, (taken + more) / BLOCKS);
        taken += more;
        const double largest = totals.summary(taken, taken > start, p, error);
        if ((largest <= enough && taken > start) || 2 * taken > all) return taken;
        totals.merge();
    }
}

constexpr Index TOGETHER = 16;    // arms that share the points in a cache
constexpr Index HELD = 1 << 14;   // values that such a cache holds
constexpr Index MANY = 1 << 15;   // values that are computed at a time, if that is enough points

// How fast some arms gain on every other along their rays: 1/<u_a, b_a − b_j>, in rows.
struct Rates {
    Grid rising, falling;  // where that is positive, and minus it where it is negative; else NaN
    // Of rows a and a + 1 together, a even: the arms that overtake one of them and, unless there are none, those that fall
    // behind one.
    std::vector<Index> ending[TOGETHER], starting[TOGETHER];
    explicit Rates(Index n) : rising(TOGETHER, n), falling(TOGETHER, n) {}

    // Rates of four arms, from row `row` on: across[a] holds u_a and, at the end, <u_a, b_a>.
    void gain(const Grid &b, const Grid &across, Index row) {
        const Index rank = b.rows;
        const Lanes one = splat(1.0);
        for (Index j = 0; j < b.columns; j += LANES) {
            Lanes e = splat(across[0][rank]), f = splat(across[1][rank]);
            Lanes g = splat(across[2][rank]), h = splat(across[3][rank]);
            for (Index k = 0; k < rank; ++k) {
                const Lanes column = load(b[k] + j);
                e = fma(splat(-across[0][k]), column, e);
                f = fma(splat(-across[1][k]), column, f);
                g = fma(splat(-across[2][k]), column, g);
                h = fma(splat(-across[3][k]), column, h);
            }
            store(rising[row] + j, one / e);
            store(rising[row + 1] + j, one / f);
            store(rising[row + 2] + j, one / g);
            store(rising[row + 3] + j, one / h);
        }
        for (Index a = row; a < row + 4; ++a) std::fill(rising[a] + b.columns, rising[a] + b.stride, 0.0);
    }

    // Sets those apart that start and those that end a piece of rows a and a + 1, where some do.
    void sort_out(Index a) {
        const Index n = rising.columns;
        std::vector<Index> &ends = ending[a], &starts = starting[a];
        ends.clear(), starts.clear();
        Lanes least = splat(0.0);
        for (Index row = a; row < a + 2; ++row)
            for (Index j = 0; j < n; j += LANES) {
                const Lanes rate = load(rising[row] + j);
                least = where_greater(least, rate, rate, least);
            }
        if (smallest_lane(least) == 0.0) return;
        for (Index row = a; row < a + 2; ++row)
            for (Index j = 0; j < n; j += LANES) {
                const Lanes rate = load(rising[row] + j), zero = splat(0.0), none = splat(NAN);
                store(falling[row] + j, where_greater(zero, rate, zero - rate, none));
                store(rising[row] + j, where_greater(zero, rate, none, rate));
            }
        ends.resize(std::size_t(n)), starts.resize(std::size_t(n));
        std::size_t many = 0, few = 0;
        for (Index j = 0; j < n; ++j) {
            starts[many] = ends[few] = j;
            many += int(rising[a][j] >= 0.0) | int(rising[a + 1][j] >= 0.0);
            few += int(falling[a][j] > 0.0) | int(falling[a + 1][j] > 0.0);
        }
        ends.resize(few), starts.resize(many);
    }
};

struct Pair { Lanes first, second; };

// The largest (v_j − v)·rate_j over n arms j = place(0), …, for two arms that have the values v at eight points.
//
// A maximum waits for the one before: there are two for each arm.
template <class Place>
LINMED_INLINE Pair last_crossing(const double *value, Lanes v_0, Lanes v_1, const double *rate_0, const double *rate_1,
                                 Index n, Place place) {
    Lanes even_0 = splat(-INF), odd_0 = even_0, even_1 = even_0, odd_1 = even_0;
    for (Index e = 0; e + 1 < n; e += 2) {
        const Index i = place(e), j = place(e + 1);
        const Lanes v_i = load(value + i * LANES), v_j = load(value + j * LANES);
        even_0 = larger((v_i - v_0) * splat(rate_0[i]), even_0);
        even_1 = larger((v_i - v_1) * splat(rate_1[i]), even_1);
        odd_0 = larger((v_j - v_0) * splat(rate_0[j]), odd_0);
        odd_1 = larger((v_j - v_1) * splat(rate_1[j]), odd_1);
    }
    if (n % 2) {
        const Index i = place(n - 1);
        const Lanes v_i = load(value + i * LANES);
        even_0 = larger((v_i - v_0) * splat(rate_0[i]), even_0);
        even_1 = larger((v_i - v_1) * splat(rate_1[i]), even_1);
    }
    return {larger(even_0, odd_0), larger(even_1, odd_1)};
}

// Points at which the values of all arms are known.
struct Batch {
    const double *value, *inner;  // (groups,n,8), (groups,8): <c, x>
    Index groups, first, block;   // the first is that of point `first`; the totals' blocks have so many points
};

// Add the chances of the arms i and i + 1 at the points of groups begin … end − 1 to the totals.
//
// Their rates are in rows a and a + 1. If i is the last arm, row a + 1 is a copy and not added.
inline void chances(const Field &field, const double *length, const Batch &batch, Index begin, Index end, Index i,
                    const Rates &rates, Index a, Totals &totals) {
    const Index n = field.n(), second = std::min(i + 1, n - 1);
    const Lanes mean_0 = splat(field.mean[i]), mean_1 = splat(field.mean[second]);
    const Lanes unit_0 = splat(1.0 / length[i]), unit_1 = splat(1.0 / length[second]);
    const double *rising_0 = rates.rising[a], *rising_1 = rates.rising[a + 1];
    const double *falling_0 = rates.falling[a], *falling_1 = rates.falling[a + 1];
    const Index starts = Index(rates.starting[a].size()), ends = Index(rates.ending[a].size());
    const auto any = [](Index e) { return e; };
    const auto starting = [at = rates.starting[a].data()](Index e) { return at[e]; };
    const auto ending = [at = rates.ending[a].data()](Index e) { return at[e]; };
    for (Index g = begin; g < end; ++g) {
        const double *here = batch.value + g * n * LANES;
        const Lanes v_0 = load(here + i * LANES), v_1 = load(here + second * LANES), across = load(batch.inner + g * LANES);
        const Lanes own_0 = ((v_0 - mean_0) - across) * unit_0, own_1 = ((v_1 - mean_1) - across) * unit_1;  // <u_i, x>
        // The last crossing with an arm that falls behind: max_j (v_j − v_i)/<u_i, b_i − b_j>.
        const Pair low = ends == 0 ? last_crossing(here, v_0, v_1, rising_0, rising_1, n, any)
                                   : last_crossing(here, v_0, v_1, rising_0, rising_1, starts, starting);
        Lanes chance_0 = upper_tail(low.first + own_0), chance_1 = upper_tail(low.second + own_1);
        if (ends > 0) {  // minus the first crossing with an arm that overtakes
            const Pair high = last_crossing(here, v_0, v_1, falling_0, falling_1, ends, ending);
            chance_0 = larger(chance_0 - upper_tail(own_0 - high.first), splat(0.0));
            chance_1 = larger(chance_1 - upper_tail(own_1 - high.second), splat(0.0));
        }
        const Index place = (batch.first + g * LANES) / batch.block;
        store(totals.at(i, place), chance_0 + load(totals.at(i, place)));
        if (second > i) store(totals.at(second, place), chance_1 + load(totals.at(second, place)));
    }
}

// Add every arm's chances at the points of a batch to the totals.
inline void gather(const Field &field, const double *centre, const Batch &batch, Rates &rates, Totals &totals) {
    const Index n = field.n(), rank = field.rank();
    Grid across(4, rank + 1);
    Buffer length(n);
    double longest = 0.0;
    for (Index i = 0; i < n; ++i) {
        for (Index k = 0; k < rank; ++k) length[i] += (field.b[k][i] - centre[k]) * (field.b[k][i] - centre[k]);
        length[i] = sqrt(length[i]);
        longest = std::max(longest, length[i]);
    }
    const double shortest = SMALL * longest;
    const Index held = std::max(Index(1), HELD / (n * LANES));
    for (Index start = 0; start < n; start += TOGETHER) {
        between_rounds();
        const Index some = std::min(TOGETHER, n - start);
        for (Index a = 0; a < some; a += 4) {
            for (Index e = 0; e < 4; ++e) {
                const Index i = std::min(start + a + e, n - 1);
                across[e][rank] = 0.0;
                for (Index k = 0; k < rank; ++k) {
                    across[e][k] = (field.b[k][i] - centre[k]) / std::max(length[i], shortest);
                    across[e][rank] += across[e][k] * field.b[k][i];
                }
            }
            rates.gain(field.b, across, a);
        }
        for (Index a = 0; a < some; a += 2) {
            rates.rising[a][start + a] = rates.rising[a + 1][std::min(start + a + 1, n - 1)] = NAN;  // an arm and itself
            rates.sort_out(a);
        }
        for (Index begin = 0; begin < batch.groups; begin += held)
            for (Index a = 0; a < some; a += 2)
                chances(field, length, batch, begin, std::min(begin + held, batch.groups), start + a, rates, a, totals);
    }
    for (Index i = 0; i < n; ++i)
        if (length[i] <= shortest) totals.forget(i);
}

// Probabilities and standard errors (n,) by up to `all` points that all arms share; returns how many were taken.
//
// start and all are PILOT times powers of two.
inline Index shared_points(const Field &field, Index start, Index all, double enough, double *p, double *error) {
    const Index n = field.n();
    const Normals normals = sobol_normals(field.rank(), all);
    const Buffer centre = centre_of(field, normals);
    Index some = start;
    while (some * n < MANY && 2 * some <= all) some *= 2;
    Buffer value(some * n), inner(some);
    const double nothing = 0.0;
    Rates rates(n);
    Totals totals(n);
    return until_enough(totals, start, all, enough, p, error, [&](Index from, Index to, Index block) {
        for (Index first = from; first < to; first += some) {
            const Index groups = std::min(some, to - first) / LANES;
            values(field.mean, field.b[0], field.b.stride, n, normals, first, groups, value);
            values(&nothing, centre, 1, 1, normals, first, groups, inner);
            gather(field, centre, {value, inner, groups, first, block}, rates, totals);
        }
    });
}

}  // namespace rays

// ---- lines ----------------------------------------------------------------------------------------------------------

// All coordinates but the first are averaged over a low-discrepancy set, and along the first one, where every arm's value
// is a straight line, the answer is exact.
namespace lines {

constexpr Index BLOCKS = 8;      // consecutive parts of the Sobol set
constexpr Index HELD = 1 << 16;  // heights of arms above lines that are held at a time

// out[l][i] = mean_i + <b_i, y_l> for the lines l from `first` on, eight arms above four lines at a time.
//
// b (r,n), of which the first row, the slopes, is left out; out has a multiple of four rows.
inline void heights(const double *mean, const Grid &b, const Normals &normals, Index first, Index lines, Grid &out) {
    const Index points = normals->points;
    for (Index i = 0; i < b.columns; i += LANES)
        for (Index l = 0; l < lines; l += 4) {
            Lanes h0 = load(mean + i), h1 = h0, h2 = h0, h3 = h0;
            const double *y = normals->normals + first + l;
            for (Index k = 1; k < b.rows; ++k, y += points) {
                const Lanes column = load(b[k] + i);
                h0 = fma(splat(y[0]), column, h0);
                h1 = fma(splat(y[1]), column, h1);
                h2 = fma(splat(y[2]), column, h2);
                h3 = fma(splat(y[3]), column, h3);
            }
            store(out[l] + i, h0);
            store(out[l + 1] + i, h1);
            store(out[l + 2] + i, h2);
            store(out[l + 3] + i, h3);
        }
}

// Lists all lines value_i + slope_i x that may be the highest one within ±REACH, and some more; returns how many.
//
// Slopes are in increasing order. Of two lines that are highest somewhere, one lies below the other on either side of their
// crossing: a third with a slope in between that is not above them there is never the highest. The two at the ends, ±REACH,
// leave some, and the highest of those at their crossing leaves a few.  value, slope, chosen (n,).
inline Index thin_out(const double *value, const double *slope, Index n, Index *chosen) {
    Index first = 0, last = 0;
    double left = -INF, right = -INF;
    for (Index i = 0; i < n; ++i) {
        const double reach = REACH * slope[i];
        if (value[i] - reach > left) first = i, left = value[i] - reach;
        if (value[i] + reach >= right) last = i, right = value[i] + reach;
    }
    double x = (value[first] - value[last]) / (slope[last] - slope[first]);
    Index middle = first;
    double level = value[first] + x * slope[first];
    for (Index i = first + 1; i < last; ++i)
        if (value[i] + x * slope[i] > level) middle = i, level = value[i] + x * slope[i];
    Index count = 0, low = first, high = middle;
    for (int half = 0; half < 2; ++half) {
        if (low < high) {
            x = (value[low] - value[high]) / (slope[high] - slope[low]);
            level = value[low] + x * slope[low];
            chosen[count++] = low;
            for (Index i = low + 1; i < high; ++i) {
                chosen[count] = i;
                count += value[i] + x * slope[i] > level;
            }
        }
        low = middle, high = last;
    }
    chosen[count] = last;
    return count + 1;
}

// Add to out[index_i] the probability that height_i + slope_i x is the highest of `count` lines at x ~ N(0, 1).
//
// Slopes are in increasing order: we walk along the highest line from one crossing to the next. run (count,) is scratch.
inline void along_line(const double *height, const double *slope, double *run, const Index *index, Index count,
                       double *out) {
    Index a = 0;
    double highest = -INF;
    for (Index i = 0; i < count; ++i)
        if (height[i] - REACH * slope[i] > highest) a = i, highest = height[i] - REACH * slope[i];
    double x = -REACH, before = 0.0;
    bool before_left = true;
    while (true) {
        const double here = height[a], start = x;
        for (Index i = a + 1; i < count; ++i) run[i] = 1.0 / (slope[i] - slope[a]);
        Index b = -1;
        x = REACH;
        for (Index i = a + 1; i < count; ++i) {
            const double crossing = (here - height[i]) * run[i];
            if (crossing < x) x = crossing, b = i;
        }
        // A piece from x to y has probability Φ(y) − Φ(x), taken from the nearer tails.
        x = x < start ? start : x;
        const double after = b >= 0 ? lower_tail(-fabs(x)) : 0.0;
        const bool after_left = b >= 0 && x < 0.0;
        out[index[a]] += before_left == after_left ? fabs(after - before) : (1.0 - before) - after;
        if (b < 0) return;
        a = b, before = after, before_left = after_left;
    }
}

// Probabilities and standard errors (n,) from BLOCKS times `points` lines.  mean (n,), b (r,n).
inline void average(const double *mean, const Grid &b, Index points, double *p, double *error) {
    const Index n = b.columns;
    const Normals normals = sobol_normals(b.rows - 1, BLOCKS * points);
    const std::vector<Index> order = order_of(b[0], n);
    Grid sorted(b.rows, n);
    Buffer base(padded(n)), total(padded(n)), height(n), slope(n), run(n);
    for (Index i = 0; i < n; ++i) {
        const Index from = order[std::size_t(i)];
        base[i] = mean[from];
        for (Index k = 0; k < b.rows; ++k) sorted[k][i] = b[k][from];
    }
    const Index together = std::min(points, std::max(HELD / n, Index(8)) / 4 * 4);
    Grid value(together, n), estimates(BLOCKS, n);
    std::vector<Index> chosen(std::size_t(n), 0);
    for (Index block = 0; block < BLOCKS; ++block) {
        clear(total, n);
        for (Index start = 0; start < points; start += together) {
            between_rounds();
            const Index some = std::min(together, points - start);
            heights(base, sorted, normals, block * points + start, some, value);
            for (Index l = 0; l < some; ++l) {
                const Index count = thin_out(value[l], sorted[0], n, chosen.data());
                for (Index c = 0; c < count; ++c) {
                    const Index i = chosen[std::size_t(c)];
                    height[c] = value[l][i], slope[c] = sorted[0][i];
                }
                along_line(height, slope, run, chosen.data(), count, total);
            }
        }
        for (Index i = 0; i < n; ++i) estimates[block][order[std::size_t(i)]] = total[i] / double(points);
    }
    double everything = 0.0;
    for (Index i = 0; i < n; ++i) {
        double sum = 0.0, squares = 0.0;
        for (Index block = 0; block < BLOCKS; ++block) sum += estimates[block][i];
        p[i] = sum / double(BLOCKS);
        for (Index block = 0; block < BLOCKS; ++block) {
            const double off = estimates[block][i] - p[i];
            squares += off * off;
        }
        error[i] = sqrt(squares / double(BLOCKS - 1)) / sqrt(double(BLOCKS));
        everything += p[i];
    }
    for (Index i = 0; i < n; ++i) p[i] /= everything;
}

}  // namespace lines

// ---- the best method that fits --------------------------------------------------------------------------------------

// Probabilities and errors (n,) of arms with coordinates b (rank,n), by points whose number fits n; returns how many.
inline Index by_rays(const rays::Field &field, const Effort &effort, double *p, double *error) {
    Index most = rays::PILOT;
    while (double(most) < std::min(double(effort.most_points), effort.work / double(field.n()))) most *= 2;
    return rays::shared_points(field, std::max(rays::PILOT, std::min(most / 2, Index(512))), most, effort.enough, p, error);
}

// Probabilities and errors (n,) of arms with coordinates B (d,n), which are turned here; see `contend`.
inline void of_contenders(Grid &B, const double *mean, double *m, const double *bound, const Effort &effort, double *p,
                          double *error) {
    constexpr double SHARE = 0.1;        // of a point: nothing is said with more certainty about an arm that has less
    constexpr double NEGLIGIBLE = 1e-5;  // the arms that have so much together may be left out for more points on the others
    const Index n = B.columns, rank = principal_axes(B, m);
    std::fill(error, error + n, ANGULAR_ERROR);
    if (n == 1 || (rank <= 2 && effort.angles)) return planes::integrate(B, m, p);
    double rare = RARE;
    if (n > effort.most_arms)
        lines::average(mean, B, effort.lines, p, error);
    else
        rare = std::max(rare, SHARE / double(by_rays({mean, B, !effort.angles}, effort, p, error)));
    const double largest = *std::max_element(error, error + n);
    const std::vector<double> own(error, error + n);
    // What is hardly ever met may have as much as that, if the leader leaves it that.
    for (Index i = 0; i < n; ++i) error[i] = std::max(error[i], std::min(bound[i], rare - p[i]));
    const Index several = std::count_if(p, p + n, [](double x) { return x > NEGLIGIBLE; });
    if (!(largest > effort.enough && 2 * several <= n && n <= effort.most_arms)) return;
    std::vector<bool> kept(std::size_t(n), true);
    double rest = 0.0, running = 0.0, squares = 0.0;
    for (Index i : order_of(p, n)) {
        running += p[i];
        kept[std::size_t(i)] = !(running <= NEGLIGIBLE);
    }
    std::vector<Index> some;
    for (Index i = 0; i < n; ++i) {
        if (kept[std::size_t(i)]) {
            some.push_back(i);
            continue;
        }
        rest += p[i];
        squares += own[std::size_t(i)] * own[std::size_t(i)];
    }
    const Index left = Index(some.size());
    if (2 * left > n || left == 0) return;
    Grid among(rank, left);  // their number of points at least doubles
    Buffer their_mean(padded(left)), their_bound(left), their_p(left), their_error(left);
    for (Index c = 0; c < left; ++c) {
        const Index i = some[std::size_t(c)];
        for (Index k = 0; k < rank; ++k) among[k][c] = B[k][i];
        their_mean[c] = mean[i], their_bound[c] = bound[i];
    }
    of_contenders(among, their_mean, m, their_bound, effort, their_p, their_error);
    for (Index c = 0; c < left; ++c) {
        const Index i = some[std::size_t(c)];
        p[i] = their_p[c] * (1.0 - rest);
        error[i] = their_error[c] + (rest + sqrt(squares));
    }
}

// Probabilities and errors (K,) of the arms `some` of A (K,d) in more than two dimensions; the others have none.
//
// Arm i beats the leader with probability bound_i = Φ(mean_i/|b_i|), and is best with no more. Where that is less than
// Φ(−REACH), it is left out.
inline void contend(const double *A, Index K, const std::vector<Index> &some, const double *theta, const double *V, Index d,
                    double smallest, double scale, const double *offset, const Effort &effort, double *p, double *error) {
    const Index n = Index(some.size());
    Grid B(d, n);
    Buffer mean(padded(n)), m(d), norm2(padded(n)), bound(n);
    whiten(A, some, theta, V, d, smallest, scale, offset, B, mean, m);
    double largest = 0.0;
    for (Index j = 0; j < d; ++j)
        for (Index i = 0; i < n; ++i) largest = std::max(largest, fabs(B[j][i]));
    const Lanes unit = splat(largest > 0.0 ? largest : 1.0);  // keeps all squares within range
    for (Index i = 0; i < n; i += LANES) {
        Lanes squares = splat(0.0);
        store(mean + i, load(mean + i) / unit);
        for (Index j = 0; j < d; ++j) {
            const Lanes x = load(B[j] + i) / unit;
            store(B[j] + i, x);
            squares = squares + x * x;
        }
        store(norm2 + i, squares);
    }
    const double least = lower_tail(-REACH);
    Index left = 0;
    std::vector<Index> who;
    for (Index i = 0; i < n; ++i) {
        const double chance = norm2[i] > 0.0 ? lower_tail(mean[i] / sqrt(norm2[i])) : mean[i] < 0.0 ? 0.0 : 1.0;
        if (!(chance >= least)) continue;
        who.push_back(i);
        bound[left] = chance, mean[left] = mean[i];
        ++left;
    }
    std::fill(p, p + K, 0.0);
    std::fill(error, error + K, 0.0);
    if (left == 0) return;
    Grid closer(d, left);
    for (Index j = 0; j < d; ++j)
        for (Index c = 0; c < left; ++c) closer[j][c] = B[j][who[std::size_t(c)]];
    B = std::move(closer);
    Buffer means(padded(left)), their_p(left), their_error(left);
    std::copy(mean + 0, mean + left, means + 0);
    of_contenders(B, means, m, bound, effort, their_p, their_error);
    for (Index c = 0; c < left; ++c) {
        const Index i = some[std::size_t(who[std::size_t(c)])];
        p[i] = their_p[c], error[i] = their_error[c];
    }
}

// The arms of A (K,d) that equal no earlier one, in order.
//
// Equal arms have equal inner products with any vector: only those that share one are compared.
inline std::vector<Index> distinct(const double *A, Index K, Index d, const double *offset = nullptr) {
    Buffer weights(d), key(K);
    HashedDraws draws{0};
    for (Index k = 0; k < d; ++k) weights[k] = draws.uniform();
    for (Index i = 0; i < K; ++i) key[i] = inner_row(A + i * d, d, weights);
    const std::vector<Index> order = order_of(key, K);
    std::vector<bool> fresh(std::size_t(K), true);
    Index start = 0;
    for (Index n = 1; n < K; ++n) {
        const Index i = order[std::size_t(n)];
        if (key[i] != key[order[std::size_t(start)]]) start = n;
        for (Index other = start; other < n; ++other) {
            const Index j = order[std::size_t(other)];
            if (fresh[std::size_t(j)] && std::equal(A + i * d, A + (i + 1) * d, A + j * d) &&
                (!offset || offset[i] == offset[j])) {
                fresh[std::size_t(i)] = false;
                break;
            }
        }
    }
    std::vector<Index> rows;
    for (Index i = 0; i < K; ++i)
        if (fresh[std::size_t(i)]) rows.push_back(i);
    return rows;
}

// log P(arm 0), log P(arm 1) = log Φ(±<θ̂, a₀ − a₁> / (s |a₀ − a₁|)) for two arms A (2,d), the norm in V⁻¹.
inline void two_arms(const double *A, const double *theta, const double *V, Index d, double smallest, double scale,
                     const double *offset, double *log_p) {
    double longest = 0.0, norm2 = 0.0;
    for (Index k = 0; k < d; ++k) longest = std::max(longest, fabs(A[k] - A[d + k]));
    if (longest == 0.0) {  // duplicates: the lowest index, or the one that is worth more
        const Index best = offset && offset[1] > offset[0];
        log_p[best] = 0.0, log_p[1 - best] = -INF;
        return;
    }
    double gap = offset ? (offset[0] - offset[1]) / longest : 0.0;
    const Index stride = padded(d);
    Buffer U(d * stride), x(d);
    factor(V, d, smallest, U);
    for (Index j = 0; j < d; ++j) {  // the ratio does not depend on the length of a₀ − a₁
        double difference = (A[j] - A[d + j]) / longest;
        gap += theta[j] * difference;
        for (Index k = 0; k < j; ++k) difference -= U[k * stride + j] * x[k];
        x[j] = difference / U[j * stride + j];
        norm2 += x[j] * x[j];
    }
    const double ratio = gap / (scale * sqrt(norm2));
    log_p[0] = log_cdf(ratio), log_p[1] = log_cdf(-ratio);
}

// log P(arm is best) and the probability's standard error (K,) of the arms A (K,d), `some` of which are all that differ.
inline void best_arm_probabilities(const double *A, Index K, const std::vector<Index> &some, const double *theta,
                                   const double *V, Index d, double smallest, double scale, const double *offset,
                                   const Effort &effort, double *log_p, double *error) {
    std::fill(log_p, log_p + K, 0.0);
    std::fill(error, error + K, 0.0);
    if (K == 1) return;
    if (K == 2) return two_arms(A, theta, V, d, smallest, scale, offset, log_p);
    if (d > 2 || offset) {
        contend(A, K, some, theta, V, d, smallest, scale, offset, effort, log_p, error);
    } else {
        std::vector<Index> all(std::size_t(K), 0);
        std::iota(all.begin(), all.end(), Index(0));
        Grid B(2, K);
        Buffer mean(padded(K));
        double m[2] = {};
        whiten(A, all, theta, V, d, smallest, scale, nullptr, B, mean, m);
        planes::integrate(B, m, log_p);
        std::fill(error, error + K, ANGULAR_ERROR);
    }
    for (Index i = 0; i < K; ++i) log_p[i] = log_p[i] == 0.0 ? -INF : log(log_p[i]);
}

// Turns log_p (K,) into the law that a decision for the arm `played` reports.
//
// An arm that was played is possible. Where its number is zero, it gets half of RARE; where that is below its own error,
// that error, half of RARE at the most; and the others that much less: a weight 1/p must not come from digits that nobody
// knows.
inline void report_played(double *log_p, double *error, Index K, Index played) {
    const double p = exp(log_p[played]), least = p > 0.0 ? std::min(error[played], 0.5 * RARE) : 0.5 * RARE;
    if (!(p < least)) return;
    const double less = log1p(-least) - log1p(-p);
    for (Index i = 0; i < K; ++i) log_p[i] += less;
    log_p[played] = log(least);
    error[played] = std::max(error[played], least);
}

}  // namespace linmed
