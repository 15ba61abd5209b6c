// Generalised linear models, one reward at a time: an online Newton step that keeps no data.
//
// With the loss ℓ of a family (links.hpp) and z = c + <a,θ̂>, the reward y of arm a moves (c, θ̂) to where
// ½|· − (c, θ̂)|² in H plus ℓ is smallest. With h = |(1, a)|² in H⁻¹ that is where z′ − z + h(μ(z′) − y) = 0, and
//
//     (c, θ̂) −= s u,   s = μ(z′) − y,   u = H⁻¹(1, a),      H += w (1, a)(1, a)'.
//
// The curvature w is μ′(z′), or the smaller one for which the radius has a proof: 2·min b(z′, ±B) with
// b(z, z*) = kl(z, z*)/(z* − z)² and B ≥ |z*|, z* being the truth's. For Gaussian rewards all of this is ridge regression.
//
// The intercept c has a coordinate and a prior of its own. All rewards share it, and it is no feature among others that
// are shrunk alike: at a click rate of 3 % it must reach −3.5. Rules compare arms, and in â − a it cancels: they see θ̂ and
// the block of H⁻¹ that belongs to the features.
//
// Several priors on θ, the weakest first, may stand beside each other. Fixed shares (Herbster & Warmuth 1998) say how
// likely they are: a prior's weight is multiplied by the probability that it gave to the reward, and a share of all
// weights is then spread evenly. So no prior's lead outlasts its reasons: one that did well while a single arm was
// played, or while clicks alone were known, loses it soon after. The weakest prior that is not refuted decides. A prior
// that is too strong hides what the features tell, and arms that would show it are not played; one that is too weak costs
// exploration only.
#pragma once

#include <stdexcept>
#include <vector>

#include "experts.hpp"
#include "links.hpp"
#include "med.hpp"
#include "ridge.hpp"
#include "thompson.hpp"

namespace linmed {

// Models in `rows` rows, H = (1 + d, 1 + d) with the intercept first. Where the past fades, Count is double: what is left
// of the number of rewards.
template <class Count> struct GlmRows {
    // What a model was told: its family, τ, 1 with an intercept and else 0, which w, S, and a bound on the intercept. w is
    // μ′(z′) by 0 and the certified one by 1. A larger number is ρ + 2 log 1/δ of the certified set itself, outside which
    // z* is not looked for: all w are proved together, with probability 1 − δ, each set by those before it.
    enum Told { FAMILY, PRECISION, CONSTANT, CERTIFIED, NORM, REACH, TOLD };

    Index rows, d;
    double *theta, *intercept;        // (rows,d) θ̂, (rows,) c
    Count *counts;                    // (rows,) rewards absorbed
    double *gram, *gram_low;          // (rows,d+1,d+1) H, lower triangle, the intercept first, and what it lost to rounding
    double *inverse;                  // (rows,d,d) the features' block of H⁻¹
    double *cross, *corner;           // (rows,d) the intercept's row of it, and (rows,) its own entry
    double *logdet;                   // (rows,) log(det H / det H₀)
    double *excess;                   // (rows,) 2Σ(m − ℓ(z′)) − Σs²h: what the certified radius sums, m of `predictive_loss`
    double *surprise;                 // (rows,) −log of the prior's weight; where there is one prior alone Σm
    double *told;                     // (rows,TOLD)

    Family family(Index s) const { return {Family::of(told[s * TOLD + FAMILY]), told[s * TOLD + PRECISION]}; }
    double constant(Index s) const { return told[s * TOLD + CONSTANT]; }

    // μ(z): what arm a is expected to pay by row s.
    double predict(Index s, const double *a) const {
        double z = constant(s) * intercept[s];
        for (Index k = 0; k < d; ++k) z += a[k] * theta[s * d + k];
        return family(s).mean(z);
    }

    // What is known of a reward in one row while it is learned.
    struct Looked { double z, h, own; };
    struct Step : Root {
        Looked looked;
        double predicted;  // the loss with which the reward was foreseen
    };

    // What beliefs ask that have rows of this or another kind, as of `RidgeRows`; here λ is multiplied.
    Index scratch() const { return padded(d); }
    double squared(const double *a) const {
        double length2 = 0.0;
        for (Index k = 0; k < d; ++k) length2 += a[k] * a[k];
        return length2;
    }
    void multiply_prior(Index s, double unit) {
        for (Index k = 0; k < d; ++k) {
            gram[(s * (d + 1) + k + 1) * (d + 1) + k + 1] *= unit;
            inverse[(s * d + k) * d + k] /= unit;
        }
    }

    // z and h of arm a, and the intercept's entry of u = H⁻¹(1, a), of which the others are written to u (padded(d),).
    //
    // Where h is nothing but rounding, h and u are 0: this direction is known already.
    template <class Dim> LINMED_INLINE Looked look(Dim n, Index s, const double *a, double *u) const {
        return look(n, s, a, constant(s), u);
    }
    // The reward of an arm that row s absorbed was so much more: its loss, of which H has the curvature w, goes, and one with
    // the same gradient less `more` comes, so that z moves by the Δ with Δ(1/h − w) + μ(z + Δ) − μ(z) = more. Where much is
    // known Δ is h·more. The sums of losses stay as they were.
    void correct(Index s, const double *a, double more, double *u) {
        const Looked looked = look(d, s, a, u);
        const Family rewards = family(s);
        const double z = looked.z, h = looked.h;
        if (h == 0.0) return;
        const auto [mean, variance] = rewards.mean_and_variance(z);
        const double rest = std::max(1.0 / h - variance, LEAST_REST / h);
        double near = 0.0, far = more / rest;  // the root lies between, for μ increases
        if (rewards.kind == Family::GAUSSIAN) near = far = rewards.precision * more * h;
        for (int halvings = 0; halvings < 60 && near != far; ++halvings) {
            const double middle = 0.5 * (near + far);
            const double left = more - middle * rest - (rewards.mean(z + middle) - mean);
            (left * more > 0.0 ? near : far) = middle;
        }
        move(d, s, u, looked.own, -near / h);
    }
    static constexpr double LEAST_REST = 0.01;  // of 1/h: what others have told of an arm, beside the reward itself
    // The same for (one, a).
    template <class Dim> LINMED_INLINE Looked look(Dim n, Index s, const double *a, double one, double *u) const {
        const double *M = inverse + s * n * n, *beside = cross + s * n, *estimate = theta + s * n;
        combine_rows(a, M, n, u);
        double z = one * intercept[s], own = one * corner[s], h = 0.0, rounding = 0.0;
        for (Index k = 0; k < n; ++k) {
            own += beside[k] * a[k];
            u[k] += one * beside[k];
            z += a[k] * estimate[k];
            h += a[k] * u[k];
            rounding += a[k] * a[k] * fabs(M[k * n + k]);
        }
        h += own * one;
        rounding += one * one * fabs(corner[s]);
        if (h > NOTHING_NEW * double(n) * rounding) return {z, h, own};
        for (Index k = 0; k < n; ++k) u[k] = 0.0;
        return {z, 0.0, 0.0};
    }

    // Before the step above, for a reward that counts `times`.
    LINMED_INLINE Step prepare(Index s, const Looked &looked, double reward, double times, double predicted) const {
        return {Root(family(s), looked.z, times * looked.h, reward), looked, predicted};
    }

    // The step, once its root is found; all but n follows. Returns whether H⁻¹ has become too steep to be followed.
    template <class Dim>
    LINMED_INLINE bool take(Dim n, Index s, const double *a, double reward, double times, const Step &step,
                            const double *u) {
        const auto [by, weight] = sum_up(s, squared(a), reward, times, step, step.looked, step.predicted);
        const double h = step.looked.h, own = step.looked.own;
        move(n, s, u, own, by);
        add(n, s, a, constant(s), weight);
        subtract_outer(n, s, u, own, weight / (1.0 + weight * h));
        return weight * h > STEEP;
    }

    // By what u goes into (c, θ̂), and the weight with which the reward goes into H; the sums of row s go on.
    struct Taken { double by, weight; };
    LINMED_INLINE Taken sum_up(Index s, double length2, double reward, double times, const Root &root, const Looked &looked,
                               double predicted) {
        const Family rewards = family(s);
        const double z = looked.z, h = looked.h, after = root.value();
        const auto [error, variance, loss] = rewards.there(z, times * h, reward, after);
        const bool proved = told[s * TOLD + CERTIFIED] > 0.0;
        const double weight = times * (proved ? certified(s, rewards, length2, z, h, after) : variance);
        surprise[s] += predicted;
        excess[s] += 2.0 * (predicted - loss) - error * error * h;
        logdet[s] += log1p(weight * h);
        return {times * error, weight};
    }

    // H += weight (one, a)(one, a)'.
    template <class Dim> LINMED_INLINE void add(Dim n, Index s, const double *a, double one, double weight) {
        const Index D = n + 1;
        double *H = gram + s * D * D, *H_low = gram_low + s * D * D;
        if (one != 0.0) add_product(H[0], H_low[0], weight * one, one);
        for (Index j = 0; j < n; ++j) {
            const double part = weight * a[j];
            const Index row = (j + 1) * D;
            if (one != 0.0) add_product(H[row], H_low[row], part, one);
            add_products(H + row + 1, H_low + row + 1, j + 1, a, part);
        }
    }

    // (c, θ̂) −= by·(own, u).
    template <class Dim> LINMED_INLINE void move(Dim n, Index s, const double *u, double own, double by) {
        for (Index k = 0; k < n; ++k) theta[s * n + k] -= by * u[k];
        intercept[s] -= by * own;
    }

    // H⁻¹ −= shrink·(own, u)(own, u)'.
    template <class Dim> LINMED_INLINE void subtract_outer(Dim n, Index s, const double *u, double own, double shrink) {
        corner[s] -= own * own * shrink;
        for (Index j = 0; j < n; ++j) {
            cross[s * n + j] -= own * u[j] * shrink;
            subtract_outer_row(inverse + (s * n + j) * n, n, u, u[j], shrink);
        }
    }

    // Remove what rounding has left in H⁻¹ of row s.
    //
    // `polish` looks at I − H H⁻¹ as a whole. The intercept's 1 may stand beside features of any size, so rows are brought
    // to one size first, by powers of two: nothing is rounded.
    [[gnu::noinline]] void refresh(Index s) {
        const Index D = d + 1;
        const double *from = gram + s * D * D, *from_low = gram_low + s * D * D;
        double *M = inverse + s * d * d, *beside = cross + s * d;
        Buffer H(D * D), low(D * D), X(D * D), size(D);
        for (Index j = 0; j < D; ++j) {
            int exponent;
            std::frexp(from[j * D + j], &exponent);
            size[j] = ldexp(1.0, exponent >> 1);
            for (Index k = 0; k <= j; ++k) {
                H[j * D + k] = from[j * D + k] / size[j] / size[k];
                low[j * D + k] = from_low[j * D + k] / size[j] / size[k];
                const double entry = k > 0 ? M[(j - 1) * d + k - 1] : j > 0 ? beside[j - 1] : corner[s];
                X[j * D + k] = X[k * D + j] = entry * size[j] * size[k];
            }
        }
        if (polish(H, low, D, X) == Polished::NOT) return;
        corner[s] = X[0] / size[0] / size[0];
        for (Index j = 1; j < D; ++j) {
            beside[j - 1] = X[j * D] / size[j] / size[0];
            for (Index k = 1; k < D; ++k) M[(j - 1) * d + k - 1] = X[j * D + k] / size[j] / size[k];
        }
    }

    // ---- what rules ask, see belief.hpp ----

    // log f = −Δ²/(β|â − a|²) becomes −2 kl(z_a, z_â)/(β μ′(z_a) |â − a|²), and root its √f.
    void by_divergence(Index s, const Arms &arms, Index best, MedScratch &scratch) const {
        if (family(s).kind == Family::GAUSSIAN) return;
        products(arms, theta + s * d, scratch.q);
        bend(s, arms.K, best, scratch);
    }

    // The same, with <θ̂, a> in scratch.q.
    void bend(Index s, Index K, Index best, MedScratch &scratch) const {
        const Family rewards = family(s);
        double *z = scratch.q, *log_f = scratch.log_f;
        const double level = constant(s) * intercept[s], top = z[best];
        for (Index first = 0; first < K; first += LANES) {
            const Lanes before = load(log_f + first), own = load(z + first), gap = larger(splat(top) - own, splat(0.0));
            double factor[LANES];
            store(factor, rewards.bend(splat(level) + own, gap));
            for (Index i = first; i < std::min(first + LANES, K); ++i) {
                const double at = level + z[i], below = std::max(top - z[i], 0.0);
                if (log_f[i] < 0.0 && !rewards.ordinary(at, below)) factor[i - first] = rewards.bend(at, below);
            }
            Lanes value = larger(before * load(factor), splat(LOWEST));
            value = where_greater(splat(0.0), before, value, before);
            // Nothing is known past the last arm.
            value = where_greater(splat(double(K - first)), steps(), value, before);
            store(log_f + first, value);
            store(scratch.root + first, exp(value * splat(0.5)));
        }
    }

    // c + <θ̂, a> and |(1, a)|² in H⁻¹ of every arm.
    void look_at(Index s, const Arms &arms, double *mean, double *leverage, double *apart) const {
        const double one = constant(s);
        products(arms, cross + s * d, leverage);
        for (Index i = 0; i < arms.K; ++i) mean[i] = one * (2.0 * leverage[i] + one * corner[s]);
        products_and_lengths(arms, theta + s * d, inverse + s * d * d, apart, leverage);
        for (Index i = 0; i < arms.K; ++i) {
            leverage[i] = std::max(leverage[i] + mean[i], 0.0);
            mean[i] = one * intercept[s] + apart[i];
        }
    }

    Belief::Intercept level(Index s) const { return {constant(s), constant(s) * intercept[s], corner[s], cross + s * d}; }

    // z becomes μ(z), slope is multiplied by μ′(z); false where μ(z) is z.
    bool link(Index s, Index K, double *z, double *slope) const {
        if (family(s).kind == Family::GAUSSIAN) return false;
        for (Index i = 0; i < K; ++i) {
            const auto [mean, variance] = family(s).mean_and_variance(z[i]);
            z[i] = mean, slope[i] *= variance;
        }
        return true;
    }

    // L L' is the inverse of the features' block of H⁻¹.
    void factor_precision(Index s, double lam, double *L) const {
        Buffer precision(d * d);
        features_precision(gram + s * (d + 1) * (d + 1), d, precision);
        factor(precision, d, lam, L);
    }

    // What rules and sets see of the belief.
    void show(Belief &belief) const {
        belief.d = d;
        belief.theta = theta, belief.inverse = inverse;
        belief.logdet = logdet, belief.excess = excess;
        belief.plain = false;
    }

    // out = H_xx − h h'/H₀₀, lower triangle: H without what the intercept explains.  H (d+1,d+1), out (d,d).
    static void features_precision(const double *H, Index d, double *out) {
        const Index D = d + 1;
        for (Index j = 0; j < d; ++j) {
            const double share = H[(j + 1) * D] / H[0];
            for (Index k = 0; k <= j; ++k) out[j * d + k] = H[(j + 1) * D + k + 1] - share * H[(k + 1) * D];
        }
    }

  private:
    // The least curvature at z′ = `after` over where z* may be, for an arm with |a|² = length2.
    [[gnu::noinline]] double certified(Index s, const Family &rewards, double length2, double z, double h,
                                       double after) const {
        const double bound = told[s * TOLD + NORM] * sqrt(length2) + constant(s) * told[s * TOLD + REACH];
        double low = -bound, high = bound;
        if (told[s * TOLD + CERTIFIED] > 1.0) {
            const double reach = sqrt(std::max(told[s * TOLD + CERTIFIED] + excess[s], 0.0) * h);
            low = std::min(std::max(z - reach, -bound), bound), high = std::max(std::min(z + reach, bound), -bound);
        }
        return rewards.least_curvature(after, low, high);
    }
};

// Models with different priors; see `Experts`.
template <class Rows> struct GlmPriors : Rows {
    using Rows::d, Rows::counts, Rows::surprise;
    static constexpr double SHARE = 1e-3;                 // of all weights, spread evenly over the priors with every reward
    static constexpr double REFUTED = 2.995732273553991;  // log 20: a refuted prior is less likely than the likeliest by this
    static constexpr double UNIT = 4.0, FURTHEST = 800.0;  // units are powers of 2^UNIT within 2^±FURTHEST

    std::vector<typename Rows::Step> steps;

    // Before the first reward: λ of several priors in units of |a|² of the first arm learned from. Nothing is rounded.
    void take_units(Index first, Index E, const double *a, double) {
        if (E == 1 || counts[first] != 0) return;
        const double length2 = Rows::squared(a);
        if (!(length2 > 0.0)) return;
        const double power = UNIT * std::nearbyint(log2(length2) / UNIT);
        const double unit = ldexp(1.0, int(std::clamp(power, -FURTHEST, FURTHEST)));
        for (Index s = first; s < first + E; ++s) Rows::multiply_prior(s, unit);
    }

    void learn(Index first, Index E, const double *a, double reward, double *u) {
        steps.resize(std::size_t(E));
        with_dimension(d, [&](auto n) LINMED_ALWAYS { learn_in(n, first, E, a, reward, u); });
    }
    template <class Dim>
    LINMED_INLINE void learn_in(Dim n, Index first, Index E, const double *a, double reward, double *u) {
        const Index stride = Rows::scratch();
        for (Index e = 0; e < E; ++e) {
            const auto looked = Rows::look(n, first + e, a, u + e * stride);
            const double predicted = Rows::family(first + e).predictive_loss(looked.z, looked.h, reward);
            steps[e] = Rows::prepare(first + e, looked, reward, 1.0, predicted);
        }
        settle(steps.data(), E);
        for (Index e = 0; e < E; ++e) {
            const Index s = first + e;
            const bool steep = Rows::take(n, s, a, reward, 1.0, steps[e], u + e * stride);
            counts[s] += 1;
            if (int64_t(counts[s]) % REFRESH == 0 || steep) Rows::refresh(s);
        }
    }

    static constexpr bool LEADS_AGAIN = false;  // which prior leads rests on what was foreseen
    bool correct_each(Index first, Index E, const double *a, double more, double, double, double *u)
        requires std::is_same_v<Rows, GlmRows<int64_t>>
    {
        if (Rows::told[first * Rows::TOLD + Rows::CERTIFIED] > 0.0) return false;  // whose radius sums losses
        for (Index s = first; s < first + E; ++s) Rows::correct(s, a, more, u);
        return true;
    }

    // Fixed shares, where there are several; the first that is not refuted.
    Index lead(Index first, Index E) const {
        if (E == 1) return 0;
        double *own = surprise + first, least = own[0], total = 0.0, top = INF;
        for (Index e = 1; e < E; ++e) least = std::min(least, own[e]);
        for (Index e = 0; e < E; ++e) {
            own[e] = exp(least - own[e]);
            total += own[e];
        }
        for (Index e = 0; e < E; ++e) {
            own[e] = -log((1.0 - SHARE) * (own[e] / total) + SHARE / double(E));
            top = std::min(top, own[e]);
        }
        Index leader = 0;
        while (leader < E - 1 && own[leader] > top + REFUTED) ++leader;
        return leader;
    }
};

template <class Rows> class GlmBelief : public Experts<GlmPriors<Rows>> {
  public:
    using Experts<GlmPriors<Rows>>::Experts, Experts<GlmPriors<Rows>>::model;

    void by_divergence(Index s, const Arms &arms, Index best, MedScratch &scratch) const override {
        model.by_divergence(s, arms, best, scratch);
    }
    void look_at(Index s, const Arms &arms, double *mean, double *leverage, double *apart) const override {
        model.look_at(s, arms, mean, leverage, apart);
    }
    Belief::Intercept intercept(Index s) const override { return model.level(s); }
    bool link(Index s, Index K, double *z, double *slope) const override { return model.link(s, K, z, slope); }
    void factor_precision(Index s, double lam, double *L) const override { model.factor_precision(s, lam, L); }
};

// How sure a generalised linear model is: β = ρ + 2ℓ + log(det H/det H₀), or with its own sum in the place of the last.
//
// ρ is the prior's part: λS², and as much for the intercept where there is one. The first is the quadratic model of a
// likelihood ratio's set and has no proof; the second has one (docs/clicks.md).
class GlmSet final : public Set {
  public:
    bool certified;
    double log_inverse_delta;  // negative stands for δ = 1/(t+1) after t rewards
    double prior;

    GlmSet(bool certified, double log_inverse_delta, double prior)
        : certified(certified), log_inverse_delta(log_inverse_delta), prior(prior) {}

    double squared_radius(const Belief &belief, Index s) const override {
        if (!belief.excess) throw std::invalid_argument("belief must be a generalised linear model for this confidence set");
        const double l = log_inverse_delta < 0.0 ? log(belief.count(s) + 1.0) : log_inverse_delta;
        const double seen = certified ? belief.excess[s] : std::max(belief.logdet[s], 0.0);
        return std::max(prior + 2.0 * l + seen, 0.0);
    }
};

}  // namespace linmed
