// A model for every item and one that all share: ridge regression on [z; e_m ⊗ x], without the zeros.
//
// An arm is (m, z, x): the number of its model, shared features and features of its own. V of all models together is an
// arrow: blocks A_m = λI + Σ x x', a border C_m = Σ z x', a corner A₀ = λI + Σ z z'. Eliminating the blocks leaves a small
// problem. Every model regresses the rewards *and* the shared features on its own, φ = A⁻¹ Σ x y and W = C A⁻¹; with
// h = |x|² in A⁻¹ and the remainder w = z − Wx, what all models share is ridge regression on
//
//     w/√(1 + h)  with the reward  (y − <φ,x>)/√(1 + h),      S = λI + Σ w w'/(1 + h) = A₀ − Σ C A⁻¹ C',
//
// so one reward changes one model and S, whatever the number of models (this is Li et al.'s hybrid LinUCB; the disjoint one
// has no z). Of V⁻¹ and θ̂ everything follows that a rule looks at:
//
//     <θ̂, a> = <φ,x> + <θ₀,w>      a V⁻¹ a' = w S⁻¹ w' + 1{m = m'} x A⁻¹ x'      det V = det S · Π det A_m.
//
// The numbers stay true as those of `Ridge` do: sums in twice the working precision, V⁻¹ and θ̂ polished.
#pragma once

#include <numeric>
#include <stdexcept>
#include <vector>

#include "med.hpp"
#include "ridge.hpp"
#include "rounds.hpp"

namespace linmed {

// The arrays of n models in each of R replicas. Row r·n is the prior, which every model has that was never learned from;
// model i is row r·n + 1 + i, if there is one.
struct ModelRows {
    Index n, m, c;                     // rows of a replica, shared features, features of each model
    int64_t *pulls;                    // (R·n,) rewards absorbed
    double *own;                       // (R·n,1+m,c) φ, then the rows of W
    double *gram, *gram_low;           // (R·n,c,c) A, lower triangle, and what it has lost to rounding
    double *inverse;                   // (R·n,c,c) A⁻¹
    double *moment, *moment_low;       // (R·n,1+m,c) Σ x y, then the rows of C
};

class ItemModels final : public Belief {
  public:
    RidgeRows<int64_t> shared;  // (R,m) θ₀, S and S⁻¹; its sums and determinants are those of all models
    ModelRows models;

    ItemModels(const RidgeRows<int64_t> &shared, const ModelRows &models)
        : shared(shared), models(models), u_(models.c), w_(models.m), v_(padded(models.m)) {
        shared.show(*this);
        plain = false;
    }

    Index replicas() const override { return shared.rows; }
    double count(Index s) const override { return double(shared.counts[s]); }
    Index width() const override { return 1 + models.m + models.c; }
    Index features() const override { return models.m + models.c; }  // all but the number of the model

    // One observation of replica r, whose model must have a row.
    void absorb(Index r, const double *a, double reward) override {
        const auto [n, m, c, pulls, own, gram, gram_low, inverse, moment, moment_low] = models;
        const Index i = place(r, a[0]);
        if (i == r * n) throw std::invalid_argument("features: the state has no room for the model of this arm");
        const double *x = a + 1 + m;
        const double h = look_along(x, inverse + i * c * c, c, u_), shrink = 1.0 / (1.0 + h);
        double error = 0.0;
        for (Index o = 0; o <= m; ++o) {
            const double target = o == 0 ? reward : a[o], left = left_over(i, o, target, x);
            if (o == 0) error = left;
            else w_[o - 1] = left * sqrt(shrink);
            const Index at = (i * (1 + m) + o) * c;
            for (Index k = 0; k < c; ++k) own[at + k] += left * shrink * u_[k];
            add_products(moment + at, moment_low + at, c, x, target);
        }
        add_direction(gram + i * c * c, gram_low + i * c * c, inverse + i * c * c, c, x, u_, shrink);
        pulls[i] += 1;
        if (pulls[i] % REFRESH == 0 || h > STEEP)
            newton_step(gram + i * c * c, gram_low + i * c * c, c, inverse + i * c * c, moment + i * (1 + m) * c,
                        moment_low + i * (1 + m) * c, own + i * (1 + m) * c, 1 + m);
        // What this reward adds to the two sums: e²/(1 + q) is that of the shared part, and with its leverage g,
        // 1 + q = (1 + h)(1 + g) is that of the arm.
        const double before = rss[r], leveraged_before = leveraged[r];
        rss[r] = leveraged[r] = 0.0;
        shared.absorb(r, w_, error * sqrt(shrink), v_);
        leveraged[r] = leveraged_before + (rss[r] * h + leveraged[r] * (1.0 + h));
        rss[r] += before;
        logdet[r] += log1p(h);
    }

    void expect(Index s, const Arms &arms, double *mean) const override {
        Buffer x(models.c), w(models.m);
        for (Index i = 0; i < arms.K; ++i) mean[i] = project(s, arms.row(i), nullptr, 1.0, x, w).mean;
        for (Index i = arms.K; i < padded(arms.K); ++i) mean[i] = mean[0];
    }

    void look_at(Index s, const Arms &arms, double *mean, double *leverage, double *) const override {
        Buffer x(models.c), w(models.m);
        for (Index i = 0; i < arms.K; ++i) {
            const Seen seen = project(s, arms.row(i), nullptr, 1.0, x, w);
            mean[i] = seen.mean, leverage[i] = seen.own + common(s, w);
        }
        for (Index i = arms.K; i < padded(arms.K); ++i) mean[i] = mean[0], leverage[i] = leverage[0];
    }

    Weighed weigh_all(Index s, const Arms &arms, double sharpness, MedScratch &scratch) const override {
        const Index K = arms.K, m = models.m;
        double *mean = scratch.weight, *own = scratch.q;
        Buffer x(models.c), w(m), centre(m);
        Index best = 0;
        double largest = 0.0;
        for (Index i = 0; i < K; ++i) {
            const Seen seen = project(s, arms.row(i), nullptr, 1.0, x, w);
            mean[i] = seen.mean, own[i] = seen.own;
            scratch.leverage[i] = own[i] + common(s, w);
            largest = std::max(largest, scratch.leverage[i]);
            if (mean[i] > mean[best]) best = i;
        }
        const double *first = arms.row(best);
        project(s, first, nullptr, 1.0, x, centre);
        for (Index i = 0; i < K; ++i) {
            const double *a = arms.row(i);
            double gap = mean[best] - mean[i], distance2 = own[best] + own[i];
            if (a[0] == first[0]) {
                const Seen seen = project(s, a, first, 1.0, x, w);
                gap = -seen.mean, distance2 = seen.own + common(s, w);
            } else if (m > 0) {
                project(s, a, nullptr, 1.0, x, w);
                for (Index k = 0; k < m; ++k) w[k] -= centre[k];
                distance2 += common(s, w);
            }
            if (gap > 0.0 && !(distance2 > TINY)) {
                const Apart closer = seen_closely(s, a, first, x, w);
                gap = closer.gap, distance2 = closer.distance2;
            }
            const double ratio = gap * sharpness;
            scratch.log_f[i] = gap > 0.0 && distance2 > TINY ? std::max(-(ratio * ratio) / distance2, LOWEST) : 0.0;
            scratch.root[i] = exp(0.5 * scratch.log_f[i]);
        }
        for (Index i = K; i < padded(K); ++i) scratch.leverage[i] = scratch.log_f[i] = scratch.root[i] = 0.0;
        return {best, largest};
    }

    // `augmented_counts` of the arms [z; e ⊗ x], with as many blocks as models are offered.
    //
    // Up to twice as many arms as dimensions take part all alike, and so do linearly independent ones in a G-optimal
    // design: where all models differ, no block is written.
    double design_counts(Index, const Arms &arms, int version, bool optimal, MedScratch &scratch) const override {
        const Index K = arms.K, m = models.m, c = models.c;
        const auto number = [&](Index i) { return arms.row(i)[0] > 0.0 ? arms.row(i)[0] : 0.0; };
        std::vector<Index> order(K), block(K);
        std::iota(order.begin(), order.end(), Index(0));
        std::sort(order.begin(), order.end(), [&](Index i, Index j) { return number(i) < number(j); });
        Index last = 0;
        for (Index j = 0; j < K; ++j) {
            last += j > 0 && number(order[j]) != number(order[j - 1]);
            block[order[j]] = last;
        }
        const Index d = m + (last + 1) * c;
        Index members = 0;
        bool independent = last + 1 == K;
        for (Index i = 0; i < K; ++i) {
            const bool kept = version == 0 || scratch.log_f[i] >= -1.0;
            scratch.design[i] = kept ? 1.0 : 0.0;
            members += kept;
            const double *x = arms.row(i) + 1 + m;
            independent = independent && std::any_of(x, x + c, [](double feature) { return feature != 0.0; });
        }
        if ((members <= 2 * d && !optimal) || independent) return double(members);
        Buffer written(K * d), blocks(Arms::room(K, d));
        for (Index i = 0; i < K; ++i) {
            const double *a = arms.row(i);
            std::copy(a + 1, a + 1 + m, written + i * d);
            std::copy(a + 1 + m, a + 1 + m + c, written + i * d + m + block[i] * c);
        }
        Desk desk(d);
        return augmented_counts(pack(written, K, d, d, blocks), scratch.log_f, scratch.root, version, optimal, scratch.scale,
                                scratch.design, scratch.weight, desk);
    }

    // <θ̂, a> of every arm of a set (K,1+m+c), and a V⁻¹ a' of every two of them, gram (K,K), or of each one with itself,
    // gram (K,), where `distances` is false.
    void look_at_pairs(Index s, const double *rows, Index K, bool distances, double *mean, double *gram) const {
        const Index m = models.m, c = models.c, d = width();
        Buffer x((distances ? K : 1) * c), w((distances ? K : 1) * m), u(distances ? K * m : 0);
        for (Index i = 0; i < K; ++i) {
            double *w_i = w + (distances ? i : 0) * m;
            const Seen seen = project(s, rows + i * d, nullptr, 1.0, x + (distances ? i : 0) * c, w_i);
            mean[i] = seen.mean;
            if (!distances) gram[i] = seen.own + common(s, w_i);
            else
                for (Index k = 0; k < m; ++k) u[i * m + k] = plain_dot(covariance(s) + k * m, w_i, m);
        }
        for (Index i = 0; distances && i < K; ++i) {
            between_rounds();
            const double *A = models.inverse + place(s, rows[i * d]) * c * c;
            for (Index j = 0; j <= i; ++j) {
                double total = plain_dot(w + i * m, u + j * m, m);
                if (rows[i * d] == rows[j * d])
                    for (Index k = 0; k < c; ++k)
                        for (Index e = 0; e < c; ++e) total += x[i * c + k] * A[k * c + e] * x[j * c + e];
                gram[i * K + j] = gram[j * K + i] = total;
            }
        }
    }

  private:
    Buffer u_, w_, v_;  // scratch of `absorb`

    struct Seen { double mean, own; };  // <θ̂, a>, and the model's share x A⁻¹ x of |a|²
    struct Apart { double gap, distance2; };

    static double plain_dot(const double *x, const double *y, Index n) {
        double total = 0.0;
        for (Index k = 0; k < n; ++k) total += x[k] * y[k];
        return total;
    }

    // The row of a model in replica s: the prior's, where there is none.
    Index place(Index s, double number) const {
        return s * models.n + (number >= 0.0 && number + 1.0 < double(models.n) ? Index(number) + 1 : 0);
    }

    // target − <row o of φ and W, x>; of W's rows 0 where there is nothing but rounding.
    double left_over(Index i, Index o, double target, const double *x) const {
        const Index c = models.c;
        const double *row = models.own + (i * (1 + models.m) + o) * c;
        double predicted = 0.0, size = fabs(target);
        for (Index k = 0; k < c; ++k) {
            const double product = row[k] * x[k];
            predicted += product;
            size += fabs(product);
        }
        const double left = target - predicted;
        return o == 0 || fabs(left) > NOTHING_NEW * double(c + 1) * size ? left : 0.0;
    }

    // <θ̂, a> and x A⁻¹ x of an arm, or of its difference to another one of the same model, in the given unit; x (c,) and
    // the remainder w (m,) are written.
    Seen project(Index s, const double *a, const double *other, double unit, double *x, double *w) const {
        const Index m = models.m, c = models.c, i = place(s, a[0]);
        const double *phi = models.own + i * (1 + m) * c, *A = models.inverse + i * c * c;
        const auto entry = [&](Index k) { return (other ? a[k] - other[k] : a[k]) / unit; };
        double mean = 0.0, own = 0.0;
        for (Index k = 0; k < c; ++k) {
            x[k] = entry(1 + m + k);
            mean += phi[k] * x[k];
            own += x[k] * (2.0 * plain_dot(A + k * c, x, k) + A[k * c + k] * x[k]);
        }
        for (Index k = 0; k < m; ++k) {
            w[k] = left_over(i, 1 + k, entry(1 + k), x);
            mean += theta[s * m + k] * w[k];
        }
        return {mean, std::max(own, 0.0)};
    }

    // w S⁻¹ w: the share of |a|² that all models have in common.
    double common(Index s, const double *w) const {
        const Index m = models.m;
        const double *M = covariance(s);
        double total = 0.0;
        for (Index k = 0; k < m; ++k) total += w[k] * (2.0 * plain_dot(M + k * m, w, k) + M[k * m + k] * w[k]);
        return std::max(total, 0.0);
    }

    // Δ̂ and |â − a|² of arms so short that the square vanishes, in a unit in which they do not: the ratio that matters
    // does not depend on it.
    Apart seen_closely(Index s, const double *a, const double *best, double *x, double *w) const {
        const bool same = a[0] == best[0];
        double unit = 0.0;
        for (Index k = 1; k < width(); ++k)
            unit = same ? std::max(unit, fabs(best[k] - a[k])) : std::max({unit, fabs(best[k]), fabs(a[k])});
        if (unit == 0.0) return {0.0, 0.0};
        if (same) {
            const Seen seen = project(s, a, best, unit, x, w);
            return {-seen.mean, seen.own + common(s, w)};
        }
        Buffer centre(models.m);
        const Seen ahead = project(s, best, nullptr, unit, x, centre), seen = project(s, a, nullptr, unit, x, w);
        for (Index k = 0; k < models.m; ++k) w[k] -= centre[k];
        return {ahead.mean - seen.mean, ahead.own + seen.own + common(s, w)};
    }
};

// The largest number of a model in column 0 of rows (n,d), or −1 − i where row i has none below `most`.
inline Index highest_model(const double *rows, Index n, Index d, double most) {
    Index highest = 0;
    for (Index i = 0; i < n; ++i) {
        const double number = rows[i * d];
        if (!(0.0 <= number && number < most && number == floor(number))) return -1 - i;
        highest = std::max(highest, Index(number));
    }
    return highest;
}

// Arms with the same means and products where V = λI: L L'/λ = a V⁻¹ a' and <theta, L_i> = <θ̂, a_i>.
//
// By Cholesky with the largest pivot first; what is left of an arm in the span of others is rounding.  rows (K,d),
// mean (K,), gram (K,K), both of which are overwritten, L (K,K), theta (K,).
inline void coordinates(const double *rows, Index K, Index d, double *mean, double *gram, double lam, double *L, double *theta) {
    const double root = sqrt(lam);
    double enough = 0.0;
    std::fill(L, L + K * K, 0.0);
    std::fill(theta, theta + K, 0.0);
    for (Index i = 0; i < K; ++i) enough = std::max(enough, gram[i * K + i]);
    Buffer column(K);
    for (Index step = 0; step < K; ++step) {
        Index best = 0;
        for (Index i = 0; i < K; ++i)
            if (gram[i * K + i] > gram[best * K + best]) best = i;
        if (!(gram[best * K + best] > 1e-14 * enough)) break;
        const double pivot = sqrt(gram[best * K + best]), value = mean[best] / pivot;
        for (Index i = 0; i < K; ++i) column[i] = gram[i * K + best] / pivot;
        for (Index i = 0; i < K; ++i) {
            between_rounds();
            mean[i] -= value * column[i];
            subtract_outer_row(gram + i * K, K, column, column[i], 1.0);
            L[i * K + step] = column[i] * root;
        }
        gram[best * K + best] = 0.0;
        theta[step] = value / root;
    }
    for (Index i = 0; i < K; ++i) {  // equal arms are equal to the last bit: the first of them is played
        between_rounds();
        Index j = 0;
        while (j < i && !std::equal(rows + i * d, rows + (i + 1) * d, rows + j * d)) ++j;
        if (j < i) std::copy(L + j * K, L + (j + 1) * K, L + i * K);
    }
}

}  // namespace linmed
