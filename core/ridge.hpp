// Ridge regression, one observation at a time: V = λI + Σ a a', b = Σ a y, θ̂ = V⁻¹b.
//
// Three things keep the numbers true after millions of updates:
// - V and b are summed in twice the working precision (a high and a low part). A million copies of one arm would
//   otherwise leave an error of 1e-6 in the directions never played, where V is still λ.
// - V⁻¹ follows by Sherman–Morrison and θ̂ by recursive least squares, both of which forget their own rounding errors in
//   a direction as that direction is played again.
// - Every REFRESH updates a Newton step, V⁻¹ ← V⁻¹ + V⁻¹(I − V V⁻¹), and one step of iterative refinement for θ̂ remove
//   what is left, with residuals in twice the working precision. A fresh Cholesky factorisation, with its error of
//   ε·cond(V), would be worse than what it replaces. Only where an arm is so long that Sherman–Morrison leaves nothing to
//   polish (|a|² > 10⁸ in V⁻¹), V⁻¹ is computed again from V.
#pragma once

#include "belief.hpp"

namespace linmed {

constexpr int64_t REFRESH = 1024;
constexpr double STEEP = 1e8;            // a leverage beyond which few digits of V⁻¹ are left along the arm
constexpr double NOTHING_NEW = 8.9e-16;  // four units in the last place: leverages below their rounding errors

// ---- pieces that other beliefs are made of too; M, V (d,d), u, a (d,) --------------------------------------------

// u = M a, which may be known; returns a'Ma. Both are 0 where there is nothing but rounding: this direction is known.
template <class Dim>
LINMED_INLINE double look_along(const double *a, const double *M, Dim d, double *u, const double *known = nullptr) {
    if (known) std::copy(known, known + d, u);
    else combine_rows(a, M, d, u);
    double h = 0.0, rounding = 0.0;
    count_to(d, [&](Index k) LINMED_ALWAYS {
        h += a[k] * u[k];
        rounding += a[k] * a[k] * M[k * d + k];
    });
    if (h > NOTHING_NEW * double(d) * rounding) return h;
    for (Index k = 0; k < d; ++k) u[k] = 0.0;
    return 0.0;
}

// high + low += x y for n numbers of x, in twice the working precision.
LINMED_INLINE void add_products(double *high, double *low, Index n, const double *x, double y) {
    struct Sum { Lanes high, low; };
    update(n, [&](Index k) LINMED_ALWAYS {
        Sum sum{load(high + k), load(low + k)};
        add_product(sum.high, sum.low, load(x + k), splat(y));
        return sum;
    }, [&](Index k, Sum sum) LINMED_ALWAYS { store(high + k, sum.high), store(low + k, sum.low); },
       [&](Index k) LINMED_ALWAYS { add_product(high[k], low[k], x[k], y); });
}

// A row of M −= shrink u u', where u is `factor`: in this order M stays symmetric to the last bit.
template <class Dim> LINMED_INLINE void subtract_outer_row(double *row, Dim d, const double *u, double factor, double shrink) {
    update(d, [&](Index k) LINMED_ALWAYS { return load(row + k) - (splat(factor) * load(u + k)) * splat(shrink); },
           [&](Index k, Lanes x) LINMED_ALWAYS { store(row + k, x); },
           [&](Index k) LINMED_ALWAYS { row[k] -= (factor * u[k]) * shrink; });
}

// V += a a' and M −= shrink u u', for u of `look_along`.
template <class Dim>
LINMED_INLINE void add_direction(double *V, double *V_low, double *M, Dim d, const double *a, const double *u, double shrink) {
    count_to(d, [&](Index j) LINMED_ALWAYS {
        subtract_outer_row(M + j * d, d, u, u[j], shrink);
        add_products(V + j * d, V_low + j * d, j + 1, a, a[j]);
    });
}

// high + low − (V x)_i in twice the working precision, for one x or eight; V by its lower triangle, x(k) the k-th entry.
template <class N, class F>
LINMED_INLINE N residual(const double *V, const double *V_low, Index d, Index i, N high, N low, F &&x) {
    for (Index k = 0; k < d; ++k) {
        const Index place = i >= k ? i * d + k : k * d + i;
        const N entry = x(k);
        add_product(high, low, all<N>(-V[place]), entry);
        low = low - all<N>(V_low[place]) * entry;
    }
    return high + low;
}

// out = V⁻¹ by Cholesky, from the lower triangle; false, and out unchanged, if V is singular.
//
// Rows of very different size do no harm: they are divided by the roots of the diagonal first.
inline bool invert_from_lower(const double *V, Index d, double *out) {
    Buffer L(d * d), columns(d * d), scale(d);
    for (Index j = 0; j < d; ++j) scale[j] = sqrt(V[j * d + j]);
    for (Index j = 0; j < d; ++j) {
        double pivot = 1.0;
        for (Index k = 0; k < j; ++k) pivot -= L[j * d + k] * L[j * d + k];
        if (!(pivot > 1e-14)) return false;
        L[j * d + j] = sqrt(pivot);
        for (Index i = j + 1; i < d; ++i) {
            double total = V[i * d + j] / scale[i] / scale[j];
            for (Index k = 0; k < j; ++k) total -= L[i * d + k] * L[j * d + k];
            L[i * d + j] = total / L[j * d + j];
        }
    }
    for (Index j = 0; j < d; ++j)  // L⁻¹, column by column
        for (Index i = j; i < d; ++i) {
            double total = i == j ? 1.0 : 0.0;
            for (Index k = j; k < i; ++k) total -= L[i * d + k] * columns[k * d + j];
            columns[i * d + j] = total / L[i * d + i];
        }
    for (Index i = 0; i < d; ++i)
        for (Index j = 0; j <= i; ++j) {
            double total = 0.0;
            for (Index k = i; k < d; ++k) total += columns[k * d + i] * columns[k * d + j];
            out[i * d + j] = out[j * d + i] = total / scale[i] / scale[j];
        }
    return true;
}

enum class Polished { NOT, AS_IT_WAS, ANEW };

// Newton steps for X = V⁻¹, one unless it was far off.
inline Polished polish(const double *V, const double *V_low, Index d, double *X) {
    Buffer lost(d * d), step(d * d);
    Polished outcome = Polished::AS_IT_WAS;
    for (int attempt = 0; attempt < 4; ++attempt) {
        double norm2 = 0.0;
        for (Index i = 0; i < d; ++i)  // lost = I − V X
            update(d, [&](Index j) LINMED_ALWAYS {
                const Lanes one = where_equal(steps(), splat(double(i - j)), splat(1.0), splat(0.0));
                return residual(V, V_low, d, i, one, splat(0.0), [&](Index k) LINMED_ALWAYS { return load(X + k * d + j); });
            }, [&](Index j, Lanes x) LINMED_ALWAYS { store(lost + i * d + j, x); },
               [&](Index j) LINMED_ALWAYS {
                lost[i * d + j] = residual(V, V_low, d, i, i == j ? 1.0 : 0.0, 0.0, [&](Index k) { return X[k * d + j]; });
            });
        for (Index place = 0; place < d * d; ++place) norm2 += lost[place] * lost[place];
        if (!(norm2 <= 0.25)) {  // Newton would not contract: compute it again, or keep what we have
            if (attempt > 0 || !invert_from_lower(V, d, X)) return Polished::NOT;
            outcome = Polished::ANEW;
            continue;
        }
        for (Index i = 0; i < d; ++i) {
            for (Index j = 0; j < d; ++j) step[i * d + j] = 0.0;
            for (Index k = 0; k < d; ++k)
                for (Index j = 0; j < d; ++j) step[i * d + j] += X[i * d + k] * lost[k * d + j];
        }
        for (Index i = 0; i < d; ++i)
            for (Index j = 0; j <= i; ++j) {
                X[i * d + j] += 0.5 * (step[i * d + j] + step[j * d + i]);
                X[j * d + i] = X[i * d + j];
            }
        if (norm2 <= 1e-16) break;
    }
    return outcome;
}

// One refinement of x = V⁻¹b, where X is V⁻¹; `anew` starts from X b itself.
inline void refine(const double *V, const double *V_low, Index d, const double *X, const double *b, const double *b_low,
                   bool anew, double *x) {
    Buffer lost(d);
    if (anew)
        for (Index i = 0; i < d; ++i) {
            x[i] = 0.0;
            for (Index k = 0; k < d; ++k) x[i] += X[i * d + k] * b[k];
        }
    for (Index i = 0; i < d; ++i) lost[i] = residual(V, V_low, d, i, b[i], b_low[i], [&](Index k) { return x[k]; });
    for (Index k = 0; k < d; ++k)
        for (Index i = 0; i < d; ++i) x[i] += X[k * d + i] * lost[k];
}

// Remove what rounding has left in X = V⁻¹ and in `each` rows of x = V⁻¹b.
[[gnu::noinline]] inline void newton_step(const double *V, const double *V_low, Index d, double *X, const double *b,
                                          const double *b_low, double *x, Index each = 1) {
    if (d == 0) return;
    const Polished outcome = polish(V, V_low, d, X);
    if (outcome == Polished::NOT) return;
    for (Index e = 0; e < each; ++e)
        refine(V, V_low, d, X, b + e * d, b_low + e * d, outcome == Polished::ANEW, x + e * d);
}

// ---- the estimate, and the belief that consists of it alone ---------------------------------------------------------

// Ridge estimates in `rows` rows. Beliefs are made of it: one row for each replica, or one for each expert of it. Where
// the past fades, Count is double: what is left of the number of rewards.
template <class Count> struct RidgeRows {
    Index rows, d;
    double *theta;                    // (rows,d) θ̂
    Count *counts;                    // (rows,) rewards absorbed
    double *gram, *gram_low;          // (rows,d,d) V, lower triangle, and what it has lost to rounding
    double *inverse;                  // (rows,d,d) V⁻¹
    double *moment, *moment_low;      // (rows,d) b, and what it has lost to rounding
    double *logdet;                   // (rows,) log(det V / det V₀)
    double *rss, *leveraged;          // (rows,) Σ e²/(1+h), which is the minimum over θ of Σ(y − <a,θ>)² + λ|θ|², and
                                      // Σ e²h/(1+h), with h = |a|² in V⁻¹ and e = y − <a,θ̂> before each reward

    // One observation of row s; u (padded(d),) is scratch; `along` is V⁻¹a where it is known.
    void absorb(Index s, const double *a, double reward, double *u, const double *along = nullptr) {
        with_dimension(d, [&](auto n) LINMED_ALWAYS { absorb_in(n, s, a, reward, u, along); });
    }

    // An arm that row s absorbed paid so much more, and Σy² is so much larger: b += more·a, and what follows from it. Only
    // `leveraged` stays, which is a sum over the order of rewards.
    void correct(Index s, const double *a, double more, double squares, double *u) {
        const double h = look_along(a, inverse + s * d * d, d, u);
        double predicted = 0.0;
        for (Index k = 0; k < d; ++k) predicted += a[k] * theta[s * d + k];
        for (Index k = 0; k < d; ++k) theta[s * d + k] += more * u[k];
        add_products(moment + s * d, moment_low + s * d, d, a, more);
        rss[s] = std::max(rss[s] + (squares - 2.0 * more * predicted - more * more * h), 0.0);
    }

    // What beliefs ask that have rows of this or another kind: how much scratch one takes, |a|² of an arm, and V = λI.
    Index scratch() const { return padded(d); }
    double squared(const double *a) const {
        double length2 = 0.0;
        for (Index k = 0; k < d; ++k) length2 += a[k] * a[k];
        return length2;
    }
    void begin_with(Index s, double lam) {
        for (Index k = 0; k < d; ++k) gram[(s * d + k) * d + k] = lam, inverse[(s * d + k) * d + k] = 1.0 / lam;
    }

    // Remove what rounding has left in row s.
    void refresh(Index s) {
        newton_step(gram + s * d * d, gram_low + s * d * d, d, inverse + s * d * d, moment + s * d, moment_low + s * d,
                    theta + s * d);
    }

    // What rules and sets see of the belief.
    void show(Belief &belief) const {
        belief.d = d;
        belief.theta = theta, belief.inverse = inverse, belief.gram = gram;
        belief.logdet = logdet, belief.rss = rss, belief.leveraged = leveraged;
    }

    template <class Dim>
    LINMED_INLINE void absorb_in(Dim n, Index s, const double *a, double reward, double *u, const double *along) {
        double *M = inverse + s * n * n, *estimate = theta + s * n;
        const double h = look_along(a, M, n, u, along);
        double predicted = 0.0;
        count_to(n, [&](Index k) LINMED_ALWAYS { predicted += a[k] * estimate[k]; });
        const double shrink = 1.0 / (1.0 + h), error = reward - predicted, gain = error * shrink;
        count_to(n, [&](Index k) LINMED_ALWAYS { estimate[k] += gain * u[k]; });
        add_products(moment + s * n, moment_low + s * n, n, a, reward);
        add_direction(gram + s * n * n, gram_low + s * n * n, M, n, a, u, shrink);
        logdet[s] += log1p(h);
        rss[s] += error * gain;
        leveraged[s] += error * gain * h;
        counts[s] += 1;
        if (int64_t(counts[s]) % REFRESH == 0 || h > STEEP) refresh(s);
    }
};

template <class Count> class RidgeBelief final : public Belief {
  public:
    RidgeRows<Count> model;

    explicit RidgeBelief(const RidgeRows<Count> &model) : model(model), u_(padded(model.d)) { model.show(*this); }
    Index replicas() const override { return model.rows; }
    double count(Index s) const override { return double(model.counts[s]); }
    void absorb(Index r, const double *a, double reward) override { model.absorb(r, a, reward, u_); }
    void absorb_along(Index r, const double *a, const double *along, double reward) override {
        model.absorb(r, a, reward, u_, along);
    }
    bool correct_by(Index r, const double *a, double more, double squares, double) override {
        if constexpr (!std::is_same_v<Count, int64_t>) return false;  // the past fades: how much it counts is not known
        model.correct(r, a, more, squares, u_);
        return true;
    }

  private:
    Buffer u_;
};
using Ridge = RidgeBelief<int64_t>;

}  // namespace linmed
