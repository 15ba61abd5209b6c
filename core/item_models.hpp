// A model for every item and one that all share, without the zeros: estimates on [z; e_m ⊗ x].
//
// An arm is (m, z, x): the number of its model, shared features and features of its own. H of all models together is an
// arrow: blocks A_m = λI + Σ w x x', a border C_m = Σ w z x', a corner A₀ = λI + Σ w z z', where w weighs each reward: 1 for
// ridge regression, the curvature of its loss for generalised linear models, whose z begins with a 1 for the intercept.
// Eliminating the blocks leaves a small problem. Every model regresses the shared features on its own, W = C A⁻¹; with
// h = |x|² in A⁻¹ and the remainder q = z − Wx,
//
//     S = A₀ − Σ C A⁻¹ C' = λI + Σ w q q'/(1 + wh),       det H = det S · Π det A_m,
//     a H⁻¹ a' = q S⁻¹ q' + 1{m = m'} x A⁻¹ x',           <θ̂, a> = <φ,x> + <θ₀,q>,       φ = θ + W'θ₀,
//
// so one reward changes one model and S, whatever the number of models (this is Li et al.'s hybrid LinUCB; the disjoint one
// has no z). A ridge estimate regresses the rewards too: φ = A⁻¹ Σ x y, and what all models share is ridge regression on
// q/√(1 + h) with the reward (y − <φ,x>)/√(1 + h). The step of a generalised linear model, (c, θ̂) −= s H⁻¹a (glm.hpp), is
//
//     θ₀ −= s S⁻¹q,    θ −= s (A⁻¹x − W'S⁻¹q),    W += w q (A⁻¹x)'/(1 + wh),    so   φ += (w <q,θ₀>/(1 + wh) − s) A⁻¹x
//
// with θ₀ after the step: the θ of all other models go with θ₀, and their φ stay.
//
// Models that forget (forgetting.hpp) count a reward 2^(−k/H) that is k rewards of *its item* old, or on a clock 2^(−age/H),
// age up to the newest decision with a reward, also of items that were not played since: they fade when they are learned
// from or looked at. The law of θ given θ₀ fades and gets the whole prior back, A ← fA + (1 − f)λI: all is a function of A⁻¹,
// for B = fI + (1 − f)λA⁻¹ commutes with it,
//
//     A⁻¹ ← B⁻¹A⁻¹,    φ ← f B⁻¹φ,    W ← f W B⁻¹,    log det A += log det B.
//
// What all share, n and RSS fade with every reward, as those of one model for all.
//
// The numbers stay true as those of `Ridge` do: sums in twice the working precision, inverses and φ, W polished.
#pragma once

#include <numeric>
#include <stdexcept>
#include <vector>

#include "forgetting.hpp"
#include "med.hpp"
#include "rounds.hpp"

namespace linmed {

// The arrays of n models beside each of R estimates of what they share. Row r·n is the prior, which every model has that was
// never learned from; model i is row r·n + 1 + i, if there is one.
struct ModelRows {
    Index n, m, c;                     // rows beside an estimate, numbers of q, features of each model
    int64_t *known;                    // (R,) models that were learned from
    int64_t *pulls;                    // (R·n,) rewards absorbed
    double *own;                       // (R·n,1+m,c) φ, then the rows of W
    double *gram, *gram_low;           // (R·n,c,c) A, lower triangle, and what it has lost to rounding
    double *inverse;                   // (R·n,c,c) A⁻¹
    double *moment, *moment_low;       // (R·n,1+m,c) Σ w x y, then the rows of C
    double *stamp;                     // (R·n,) on a clock, the time up to which a row has faded; null where nothing fades

    // Row i learns x with weight w: output o, which left `left[o]` of `target[o]`. shrink = w/(1 + wh), u = A⁻¹x.
    void learn_output(Index i, Index o, const double *x, const double *u, double left, double target, double w, double shrink) {
        const Index at = (i * (1 + m) + o) * c;
        for (Index k = 0; k < c; ++k) own[at + k] += left * shrink * u[k];
        add_products(moment + at, moment_low + at, c, x, w * target);
    }
    // … and what does not depend on outputs. Those before `first` have no moments.
    void learn_row(Index r, Index i, const double *x, const double *u, double h, double w, double shrink, Index first) {
        double *A = gram + i * c * c, *low = gram_low + i * c * c, *M = inverse + i * c * c;
        for (Index j = 0; j < c; ++j) {
            subtract_outer_row(M + j * c, c, u, u[j], shrink);
            add_products(A + j * c, low + j * c, j + 1, x, w * x[j]);
        }
        known[r] += pulls[i] == 0;
        pulls[i] += 1;
        if (pulls[i] % REFRESH == 0 || h * w > STEEP) refresh(i, first);
    }
    void refresh(Index i, Index first) {
        const Index at = (i * (1 + m) + first) * c;
        newton_step(gram + i * c * c, gram_low + i * c * c, c, inverse + i * c * c, moment + at, moment_low + at, own + at,
                    1 + m - first);
    }

    void begin_with(Index i, double lam) {
        for (Index k = 0; k < c; ++k) gram[(i * c + k) * c + k] = lam, inverse[(i * c + k) * c + k] = 1.0 / lam;
    }

    // A⁻¹ (c,c) and outputs (1+m,c) once the past counts f times what it did; returns by how much log det A grows.
    double fade(double f, double lam, double *M, double *outputs) const {
        Buffer B(c * c), L(c * c), column(c);
        double logdet = 0.0;
        for (Index k = 0; k < c * c; ++k) B[k] = (1.0 - f) * lam * M[k] + (k % (c + 1) == 0 ? f : 0.0);
        for (Index j = 0; j < c; ++j)
            for (Index i = j; i < c; ++i) {
                double total = B[i * c + j];
                for (Index k = 0; k < j; ++k) total -= L[i * c + k] * L[j * c + k];
                L[i * c + j] = i == j ? sqrt(std::max(total, std::numeric_limits<double>::min())) : total / L[j * c + j];
            }
        const auto solve = [&](double *x, double times) {  // x ← times·B⁻¹x
            for (Index j = 0; j < c; ++j) {
                for (Index k = 0; k < j; ++k) x[j] -= L[j * c + k] * x[k];
                x[j] /= L[j * c + j];
            }
            for (Index j = c; j-- > 0;) {
                for (Index k = j + 1; k < c; ++k) x[j] -= L[k * c + j] * x[k];
                x[j] /= L[j * c + j];
            }
            for (Index j = 0; j < c; ++j) x[j] *= times;
        };
        for (Index j = 0; j < c; ++j) logdet += 2.0 * log(L[j * c + j]), solve(M + j * c, 1.0);
        for (Index j = 0; j < c; ++j)
            for (Index k = 0; k < j; ++k) M[j * c + k] = M[k * c + j] = 0.5 * (M[j * c + k] + M[k * c + j]);
        for (Index o = 0; o <= m; ++o) solve(outputs + o * c, f);
        return logdet;
    }
    double fade(Index i, double f, double lam, Index first) {
        const double more = fade(f, lam, inverse + i * c * c, own + i * (1 + m) * c);
        for (Index j = 0; j < c; ++j) {
            const Index row = (i * c + j) * c;
            fade_products(gram + row, gram_low + row, j + 1, f);
            add_product(gram[row + j], gram_low[row + j], 1.0 - f, lam);
        }
        fade_products(moment + i * (1 + m) * c, moment_low + i * (1 + m) * c, (1 + m) * c, f);
        if (f < 0.5) refresh(i, first);
        return more;
    }

    // Models of one estimate take over those of another, or are forgotten.
    void copy(Index to, Index from) {
        copy_row(own, (1 + m) * c, to, from), copy_row(gram, c * c, to, from), copy_row(gram_low, c * c, to, from);
        copy_row(inverse, c * c, to, from), copy_row(moment, (1 + m) * c, to, from);
        copy_row(moment_low, (1 + m) * c, to, from), copy_row(pulls, 1, to, from), copy_row(stamp, 1, to, from);
    }
    void take_over(Index r, Index from) {
        known[r] = known[from];
        for (Index i = 0; i < n; ++i) copy(r * n + i, from * n + i);
    }
    void restart(Index r) {
        known[r] = 0;
        for (Index i = 1; i < n; ++i) copy(r * n + i, r * n);
    }
};

// Estimates of what models share, in Rows, and the models of each. Of Rows the dimension is that of the shared features.
template <class Rows> struct ItemRows : Rows {
    using Rows::d;
    static constexpr bool LINKED = requires(Rows rows) { rows.intercept; };  // generalised linear models
    static constexpr bool FADES = requires(Rows rows) { rows.memory(0); };
    static constexpr Index FIRST = LINKED ? 1 : 0;  // outputs that are no sums, and numbers of q before the features

    ModelRows models;

    ItemRows(const Rows &shared, const ModelRows &models) : Rows(shared), models(models) {}

    Index width() const { return 1 + d + models.c; }
    Index scratch() const { return padded(models.c) + 2 * padded(models.m); }
    double squared(const double *a) const {
        double length2 = 0.0;
        for (Index k = 1; k < width(); ++k) length2 += a[k] * a[k];
        return length2;
    }
    void begin_with(Index s, double lam) requires(!LINKED) {
        Rows::begin_with(s, lam);
        for (Index i = s * models.n; i < (s + 1) * models.n; ++i) models.begin_with(i, lam);
    }
    void multiply_prior(Index s, double unit) requires(LINKED) {
        Rows::multiply_prior(s, unit);
        const double lam = models.gram[s * models.n * models.c * models.c] * unit;
        for (Index i = s * models.n; i < (s + 1) * models.n; ++i) models.begin_with(i, lam);
    }
    void show(Belief &belief) const {
        Rows::show(belief);
        belief.plain = false;
    }

    // ---- looking: what rules ask of arms -----------------------------------------------------------------------------

    // The row of a model beside estimate s: the prior's, where there is none.
    Index place(Index s, double number) const {
        const Index n = models.n;
        return s * n + (number >= 0.0 && number + 1.0 < double(n) ? Index(number) + 1 : 0);
    }

    // What is known of a model now: φ with the rows of W, and A⁻¹.
    struct Known { const double *own, *inverse; };
    Known known_of(Index s, double number, double now, Buffer &room) const {
        const Index i = place(s, number), c = models.c, m = models.m;
        const Known all{models.own + i * (1 + m) * c, models.inverse + i * c * c};
        if constexpr (FADES) {
            const double f = models.pulls[i] > 0 ? left_of(i, Rows::memory(s), now) : 1.0;
            if (f == 1.0) return all;
            if (room.size() == 0) room = Buffer((1 + m + c) * c);
            double *own = room, *inverse = room + (1 + m) * c;
            std::copy(all.own, all.own + (1 + m) * c, own);
            std::copy(all.inverse, all.inverse + c * c, inverse);
            models.fade(f, Rows::memory(s).lam, inverse, own);
            return {own, inverse};
        }
        return all;
    }

    struct Seen { double mean, own; };  // <θ̂, a>, and the model's share x A⁻¹ x of |a|²

    // The same of an arm, or of its difference to another one of the same model, in the given unit, with `one` for the
    // intercept; x (c,) and the remainder q (m,) are written.
    Seen project(Index s, const Known &known, const double *a, const double *other, double unit, double one, double *x,
                 double *q) const {
        const Index m = models.m, c = models.c;
        const auto entry = [&](Index k) { return (other ? a[k] - other[k] : a[k]) / unit; };
        double mean = 0.0, own = 0.0;
        for (Index k = 0; k < c; ++k) {
            x[k] = entry(1 + d + k);
            mean += known.own[k] * x[k];
            own += x[k] * (2.0 * plain_dot(known.inverse + k * c, x, k) + known.inverse[k * c + k] * x[k]);
        }
        for (Index k = 0; k < m; ++k) {
            q[k] = left_over(known.own + (1 + k) * c, true, k < FIRST ? one : entry(1 + k - FIRST), x);
            mean += lead(s, k) * q[k];
        }
        return {mean, std::max(own, 0.0)};
    }

    // Number k of θ₀, and an entry of S⁻¹, the intercept first.
    double lead(Index s, Index k) const {
        if constexpr (LINKED)
            if (k == 0) return Rows::intercept[s];
        return Rows::theta[s * d + k - FIRST];
    }
    double spread(Index s, Index j, Index k) const {
        if constexpr (LINKED) {
            if (j == 0 && k == 0) return Rows::corner[s];
            if (j == 0 || k == 0) return Rows::cross[s * d + j + k - 1];
        }
        return Rows::inverse[(s * d + j - FIRST) * d + k - FIRST];
    }

    // q S⁻¹ q: the share of |a|² that all models have in common.
    double common(Index s, const double *q) const {
        double total = 0.0;
        for (Index k = 0; k < models.m; ++k) {
            double before = 0.0;
            for (Index j = 0; j < k; ++j) before += spread(s, k, j) * q[j];
            total += q[k] * (2.0 * before + spread(s, k, k) * q[k]);
        }
        return std::max(total, 0.0);
    }

    static double plain_dot(const double *x, const double *y, Index n) {
        double total = 0.0;
        for (Index k = 0; k < n; ++k) total += x[k] * y[k];
        return total;
    }

    // ---- learning ------------------------------------------------------------------------------------------------------

    // One observation of row s, whose model must have a row, for ridge estimates that forget nothing.
    void absorb(Index s, const double *a, double reward, double *u) requires(!LINKED && !FADES) {
        const Index i = learner(s, a), m = models.m;
        const double *x = a + 1 + d;
        double *q = u + padded(models.c), *v = q + padded(m);
        const double h = look_along(x, models.inverse + i * models.c * models.c, models.c, u), shrink = 1.0 / (1.0 + h);
        double error = 0.0;
        for (Index o = 0; o <= m; ++o) {
            const double target = o == 0 ? reward : a[o], left = left_over(row(i, o), o > 0, target, x);
            if (o == 0) error = left;
            else q[o - 1] = left * sqrt(shrink);
            models.learn_output(i, o, x, u, left, target, 1.0, shrink);
        }
        models.learn_row(s, i, x, u, h, 1.0, shrink, 0);
        // What this reward adds to the two sums: e²/(1 + g) is that of the shared part, and with its leverage g,
        // (1 + h)(1 + g) is 1 + that of the arm.
        const double before = Rows::rss[s], leveraged_before = Rows::leveraged[s];
        Rows::rss[s] = Rows::leveraged[s] = 0.0;
        Rows::absorb(s, q, error * sqrt(shrink), v);
        Rows::leveraged[s] = leveraged_before + (Rows::rss[s] * h + Rows::leveraged[s] * (1.0 + h));
        Rows::rss[s] += before;
        Rows::logdet[s] += log1p(h);
    }

    // What is known of a reward while it is learned: as of Rows, and its parts. u is A⁻¹x, q and S⁻¹q one behind the other.
    struct Looked : Rows::Looked {
        Index i;                       // the model's row
        double h_own, mean_own;        // h and <φ,x>
        typename Rows::Looked common;  // of q

        std::tuple<Index, double, double, typename Rows::Looked> parts() const { return {i, h_own, mean_own, common}; }
    };

    Looked look(Index s, const double *a, double *u) const { return look(d, s, a, u); }
    template <class Dim> Looked look(Dim, Index s, const double *a, double *u) const {
        const Index i = learner(s, a), m = models.m, c = models.c;
        const double *x = a + 1 + d;
        double *q = u + padded(c), *v = q + padded(m);
        Looked looked{};
        looked.i = i;
        looked.h_own = look_along(x, models.inverse + i * c * c, c, u);
        looked.mean_own = plain_dot(row(i, 0), x, c);
        for (Index k = 0; k < m; ++k) q[k] = left_over(row(i, 1 + k), true, target(s, a, k), x);
        if constexpr (LINKED) {
            looked.common = Rows::look(d, s, q + 1, q[0], v);
            looked.z = looked.mean_own + looked.common.z;
        } else {
            looked.common = Rows::look(s, q, v);
            looked.predicted = looked.mean_own + looked.common.predicted;
        }
        looked.h = looked.h_own + looked.common.h;
        return looked;
    }

    // As of `GlmRows`, with the parts above.
    struct LinkedStep : Root {
        Looked looked;
        double predicted;
    };
    using Step = std::conditional_t<LINKED, LinkedStep, Looked>;
    Step prepare(Index s, const Looked &looked, double reward, double times, double predicted) const requires(LINKED) {
        return {Root(Rows::family(s), looked.z, times * looked.h, reward), looked, predicted};
    }
    template <class Dim>
    bool take(Dim, Index s, const double *a, double reward, double times, const Step &step, double *u) requires(LINKED) {
        const auto [i, h, mean, common] = step.looked.parts();
        const double *x = a + 1 + d;
        double *q = u + padded(models.c), *v = q + padded(models.m);
        const auto [by, weight] = Rows::sum_up(s, squared(a), reward, times, step, step.looked, step.predicted);
        const double shrink = weight / (1.0 + weight * h);
        Rows::move(d, s, v, common.own, by);
        Rows::add(d, s, q + 1, q[0], shrink);
        Rows::subtract_outer(d, s, v, common.own, shrink / (1.0 + shrink * common.h));
        double along = 0.0;
        for (Index k = 0; k < models.m; ++k) along += q[k] * lead(s, k);
        double *phi = models.own + i * (1 + models.m) * models.c;
        for (Index k = 0; k < models.c; ++k) phi[k] += (shrink * along - by) * u[k];
        for (Index k = 0; k < models.m; ++k) models.learn_output(i, 1 + k, x, u, q[k], target(s, a, k), weight, shrink);
        models.learn_row(s, i, x, u, h, weight, shrink, FIRST);
        return shrink * common.h > STEEP;
    }

    // ---- forgetting, see `Forgetting` ------------------------------------------------------------------------------------

    // What is left at a time of what row i knew when it was learned from last.
    double left_of(Index i, const Memory &memory, double now) const {
        if (!(memory.seconds > 0.0)) return 1.0;
        return exp2(-std::clamp((now - models.stamp[i]) / memory.seconds, 0.0, 64.0));
    }

    // Before a reward is looked at: the past of its item fades.
    void catch_up(Index s, const double *a, const Memory &memory, double now) requires(FADES) {
        const Index i = learner(s, a);
        const double f = memory.seconds > 0.0 ? left_of(i, memory, now) : memory.factor;
        if (models.pulls[i] > 0 && f < 1.0) Rows::logdet[s] += models.fade(i, f, memory.lam, FIRST);
        models.stamp[i] = now;
    }
    Step forget(Index s, Looked looked, double reward, const Pace &pace, double foreseen, double *u) requires(FADES) {
        if constexpr (!LINKED) {
            return looked;
        } else {
            if (pace.f < 1.0) {
                Rows::fade(s, pace.f);
                looked.common.h /= pace.f, looked.common.own /= pace.f;
                divide(u + padded(models.c) + padded(models.m), d, pace.f);
                looked.h = looked.h_own + looked.common.h;
            }
            return prepare(s, looked, reward, pace.w, foreseen);
        }
    }
    static void find([[maybe_unused]] Step *steps, [[maybe_unused]] Index n) {
        if constexpr (LINKED) settle(steps, n);
    }
    bool learn(Index s, const double *a, double reward, const Pace &pace, const Step &step, double *u) requires(FADES) {
        const auto [f, log_f, w, k, back] = pace;
        double *q = u + padded(models.c), *v = q + padded(models.m);
        if constexpr (LINKED) {
            bool steep = take(d, s, a, reward, w, step, u);
            if (back > 0.0) steep = Rows::give_back(s, k, back, v) || steep;
            Rows::counts[s] += w;
            return steep;
        } else {
            const auto [i, h, mean, common] = step.parts();
            const double *x = a + 1 + d, left = reward - mean, grown = 1.0 + w * h, root = 1.0 / sqrt(grown);
            const double shrink = w / grown, error = reward - step.predicted, all = w * (h + common.h / f);
            models.learn_output(i, 0, x, u, left, reward, w, shrink);
            for (Index o = 1; o <= models.m; ++o) {
                models.learn_output(i, o, x, u, q[o - 1], a[o], w, shrink);
                q[o - 1] *= root, v[o - 1] *= root;
            }
            models.learn_row(s, i, x, u, h, w, shrink, FIRST);
            const double leveraged = f * Rows::leveraged[s] + w * error * error * all / (1.0 + all);
            const bool steep = Rows::learn(s, q, left * root, pace, {common.predicted * root, common.h / grown}, v);
            Rows::leveraged[s] = leveraged;
            Rows::logdet[s] += log1p(w * h);
            return steep;
        }
    }
    void take_over(Index to, Index from) requires(FADES) {
        Rows::take_over(to, from);
        models.take_over(to, from);
    }
    void restart(Index s) requires(FADES) {
        Rows::restart(s);
        models.restart(s);
    }
    // There may always be another item of which nothing is known.
    double penalty(Index s, double norm) const requires(FADES && !LINKED) {
        return norm == UNKNOWN ? INF : Rows::penalty(s, norm);
    }

  private:
    const double *row(Index i, Index o) const { return models.own + (i * (1 + models.m) + o) * models.c; }
    double target(Index s, const double *a, Index k) const {
        if constexpr (LINKED)
            if (k == 0) return Rows::constant(s);
        return a[1 + k - FIRST];
    }
    Index learner(Index s, const double *a) const {
        const Index i = place(s, a[0]);
        if (i == s * models.n) throw std::invalid_argument("features: the state has no room for the model of this arm");
        return i;
    }

    // target − <output, x>; of rows of W 0 where there is nothing but rounding.
    double left_over(const double *output, bool shared, double target, const double *x) const {
        const Index c = models.c;
        double predicted = 0.0, size = fabs(target);
        for (Index k = 0; k < c; ++k) {
            const double product = output[k] * x[k];
            predicted += product;
            size += fabs(product);
        }
        const double left = target - predicted;
        return !shared || fabs(left) > NOTHING_NEW * double(c + 1) * size ? left : 0.0;
    }
};

// Ridge estimates in one row for each replica.
template <class Rows> class OneOfEach : public Belief {
  public:
    Rows model;
    explicit OneOfEach(const Rows &model) : model(model), u_(model.scratch()) { this->model.show(*this); }
    Index replicas() const override { return model.rows; }
    double count(Index s) const override { return double(model.counts[s]); }
    void absorb(Index r, const double *a, double reward) override { model.absorb(r, a, reward, u_); }

  private:
    Buffer u_;
};

// What is computed of arms by pairs, for rules that know nothing of models.
class Pairs {
  public:
    virtual ~Pairs() = default;
    // <θ̂, a> of every arm of a set (K,width), and a V⁻¹ a' of every two of them, gram (K,K), in row s.
    virtual void look_at_pairs(Index s, const double *rows, Index K, double *mean, double *gram) const = 0;
};

// A belief whose model is `ItemRows`, and what rules ask of it.
template <class Base> class OfItems final : public Base, public Pairs {
  public:
    using Base::Base, Base::model;

    Index width() const override { return model.width(); }
    Index features() const override { return width() - 1; }  // all but the number of the model
    // So many as the models that are known have together, and always one.
    double dimensions(Index s) const override {
        return double(model.d + model.models.c * std::max<int64_t>(model.models.known[s], 1));
    }

    void expect(Index s, const Arms &arms, double *mean) const override {
        View view(*this, s);
        for (Index i = 0; i < arms.K; ++i) mean[i] = view.at(arms.row(i), view.q).mean;
        for (Index i = arms.K; i < padded(arms.K); ++i) mean[i] = mean[0];
    }

    void look_at(Index s, const Arms &arms, double *mean, double *leverage, double *) const override {
        View view(*this, s);
        double one = 0.0;
        if constexpr (LINKED) one = model.constant(s);
        for (Index i = 0; i < arms.K; ++i) {
            const auto seen = view.at(arms.row(i), view.q, nullptr, 1.0, one);
            mean[i] = seen.mean, leverage[i] = seen.own + model.common(s, view.q);
        }
        for (Index i = arms.K; i < padded(arms.K); ++i) mean[i] = mean[0], leverage[i] = leverage[0];
    }

    Belief::Weighed weigh_all(Index s, const Arms &arms, double sharpness, MedScratch &scratch) const override {
        const Index K = arms.K, m = model.models.m;
        double *mean = scratch.weight, *own = scratch.q;
        View view(*this, s);
        Buffer centre(m);
        Index best = 0;
        double largest = 0.0;
        for (Index i = 0; i < K; ++i) {
            const auto seen = view.at(arms.row(i), view.q);
            mean[i] = seen.mean, own[i] = seen.own;
            scratch.leverage[i] = own[i] + model.common(s, view.q);
            largest = std::max(largest, scratch.leverage[i]);
            if (mean[i] > mean[best]) best = i;
        }
        const double *first = arms.row(best);
        view.at(first, centre);
        for (Index i = 0; i < K; ++i) {
            const double *a = arms.row(i);
            double gap = mean[best] - mean[i], distance2 = own[best] + own[i];
            if (a[0] == first[0]) {
                const auto seen = view.at(a, view.q, first);
                gap = -seen.mean, distance2 = seen.own + model.common(s, view.q);
            } else if (m > 0) {
                view.at(a, view.q);
                for (Index k = 0; k < m; ++k) view.q[k] -= centre[k];
                distance2 += model.common(s, view.q);
            }
            if (gap > 0.0 && !(distance2 > TINY)) {
                const Apart closer = seen_closely(view, a, first);
                gap = closer.gap, distance2 = closer.distance2;
            }
            const double ratio = gap * sharpness;
            scratch.log_f[i] = gap > 0.0 && distance2 > TINY ? std::max(-(ratio * ratio) / distance2, LOWEST) : 0.0;
            scratch.root[i] = exp(0.5 * scratch.log_f[i]);
        }
        for (Index i = K; i < padded(K); ++i) scratch.leverage[i] = scratch.log_f[i] = scratch.root[i] = 0.0;
        return {best, largest};
    }

    void apart(Index s, const Arms &arms, const double *scale, Index best, double *distance2, double *) const override {
        const Index m = model.models.m, d = width();
        double one = 0.0;
        if constexpr (LINKED) one = model.constant(s);
        View view(*this, s);
        Buffer centre(m), scaled(d), first(d);
        const auto times = [&](Index i, double *out) {
            for (Index k = 0; k < d; ++k) out[k] = arms.row(i)[k] * (k > 0 ? scale[i] : 1.0);
        };
        times(best, first);
        const double own = view.at(first, centre, nullptr, 1.0, one * scale[best]).own;
        for (Index i = 0; i < arms.K; ++i) {
            times(i, scaled);
            const bool same = scaled[0] == first[0];
            double total = same ? 0.0 : own;
            total += view.at(scaled, view.q, same ? first + 0 : nullptr, 1.0, one * (scale[i] - (same ? scale[best] : 0.0))).own;
            if (!same)
                for (Index k = 0; k < m; ++k) view.q[k] -= centre[k];
            distance2[i] = total + model.common(s, view.q);
        }
        std::fill(distance2 + arms.K, distance2 + padded(arms.K), distance2[0]);
    }

    void by_divergence(Index s, const Arms &arms, Index best, MedScratch &scratch) const override {
        if constexpr (LINKED) {
            if (model.family(s).kind == Family::GAUSSIAN) return;
            expect(s, arms, scratch.q);
            model.bend(s, arms.K, best, scratch);
        }
    }

    // `augmented_counts` of the arms [z; e ⊗ x], with as many blocks as models are offered.
    //
    // Up to twice as many arms as dimensions take part all alike, and so do linearly independent ones in a G-optimal
    // design: where all models differ, no block is written.
    double design_counts(Index, const Arms &arms, int version, bool optimal, MedScratch &scratch) const override {
        const Index K = arms.K, m = model.d, c = model.models.c;
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

    void look_at_pairs(Index s, const double *rows, Index K, double *mean, double *gram) const override {
        const Index m = model.models.m, c = model.models.c, d = width();
        View view(*this, s);
        Buffer x(K * c), q(K * m), u(K * m);
        for (Index i = 0; i < K; ++i) {
            mean[i] = view.at(rows + i * d, q + i * m).mean;
            std::copy(view.x + 0, view.x + c, x + i * c);
            for (Index k = 0; k < m; ++k)
                for (Index j = 0; j < m; ++j) u[i * m + k] += model.spread(s, k, j) * q[i * m + j];
        }
        for (Index i = 0; i < K; ++i) {
            between_rounds();
            const double *A = view.known(rows + i * d).inverse;
            for (Index j = 0; j <= i; ++j) {
                double total = Model::plain_dot(q + i * m, u + j * m, m);
                if (rows[i * d] == rows[j * d])
                    for (Index k = 0; k < c; ++k)
                        for (Index e = 0; e < c; ++e) total += x[i * c + k] * A[k * c + e] * x[j * c + e];
                gram[i * K + j] = gram[j * K + i] = total;
            }
        }
    }

  private:
    using Model = decltype(Base::model);
    static constexpr bool LINKED = Model::LINKED;
    struct Apart { double gap, distance2; };

    // Looking at arms by row s, at the time of the newest decision that was rewarded.
    struct View {
        const OfItems &belief;
        Index s;
        double now = 0.0;
        Buffer x, q, room;

        View(const OfItems &belief, Index s)
            : belief(belief), s(s), x(belief.model.models.c), q(belief.model.models.m) {
            if constexpr (Model::FADES) now = belief.clock[s / (belief.N + 1)];
        }
        typename Model::Known known(const double *a) { return belief.model.known_of(s, a[0], now, room); }
        typename Model::Seen at(const double *a, double *q, const double *other = nullptr, double unit = 1.0, double one = 0.0) {
            return belief.model.project(s, known(a), a, other, unit, one, x, q);
        }
    };

    // Δ̂ and |â − a|² of arms so short that the square vanishes, in a unit in which they do not: the ratio that matters
    // does not depend on it.
    Apart seen_closely(View &view, const double *a, const double *best) const {
        const bool same = a[0] == best[0];
        double unit = 0.0;
        for (Index k = 1; k < width(); ++k)
            unit = same ? std::max(unit, fabs(best[k] - a[k])) : std::max({unit, fabs(best[k]), fabs(a[k])});
        if (unit == 0.0) return {0.0, 0.0};
        if (same) {
            const auto seen = view.at(a, view.q, best, unit);
            return {-seen.mean, seen.own + model.common(view.s, view.q)};
        }
        Buffer centre(model.models.m);
        const auto ahead = view.at(best, centre, nullptr, unit), seen = view.at(a, view.q, nullptr, unit);
        for (Index k = 0; k < model.models.m; ++k) view.q[k] -= centre[k];
        return {ahead.mean - seen.mean, ahead.own + seen.own + model.common(view.s, view.q)};
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
