// Experts with different memories beside each other: estimates whose past fades, how they are weighed, and what they do
// about a change.
//
// For every reward (fixed share, Herbster & Warmuth 1998, with one step more):
// 1. each expert says how likely the reward was, and all learn, each with its own rate of forgetting;
// 2. w ∝ w·exp(log-likelihood), then w ← (1 − s)w + s/N;
// 3. adoption: where one memory has come to weigh less than 1/1000 and the heaviest is shorter, it takes over what that
//    one knows, and 1/G of the weight: a long memory forgets a dead past and begins again.
// Experts may differ in their prior too. A memory's weight is then that of all its priors together, and what it takes
// over goes from a prior to the same one. The heaviest expert decides.
//
// Beside them a monitor neither forgets nor adopts. A bettor trusts the mixture Σ w p of the experts and the monitor, each
// as it has predicted, again with a share, which falls as 1/(10⁴ + n). With M = −Σ log of the probability that the bettor
// had for each reward, and L no more than what the rewards cost one who knew θ*,
//     log E = L − M
// is, while θ* is one and the same, at most the logarithm of a supermartingale that starts at 1. So
// P(log E ≥ log 1/α, ever) ≤ α. At an alarm the test begins again. What L is: `RidgeForgetting`, `GlmForgetting`.
//
// On a clock, half-lives are durations: a reward counts 2^(−age/H), age from its decision to the newest one known. The
// prior is given back by the clock alone, to direction k whenever another sixteenth of a half-life has passed, the
// directions in turn. What is known is then a function of what was rewarded and when it was decided, whatever the order in
// which rewards come; of generalised linear models nearly so, as their steps depend a little on the order.
#pragma once

#include <array>
#include <vector>

#include "confidence.hpp"
#include "glm.hpp"
#include "ridge.hpp"

namespace linmed {

// ---- estimates whose past fades -------------------------------------------------------------------------------------

// How an expert forgets.
struct Memory {
    double lam, base;           // λ of every feature, and the prior of the intercept, direction −1; 0 where there is none
    double factor, log_factor;  // γ for every reward
    double seconds;             // the half-life on a clock, or 0

    bool forgets_like(const Memory &other) const { return factor == other.factor && seconds == other.seconds; }
    Index first() const { return base > 0.0 ? -1 : 0; }  // of the directions
    double prior(Index k) const { return k < 0 ? base : lam; }
};

// How an expert takes one reward.
struct Pace {
    double f = 1.0, log_f = 0.0;  // how much of the past is left
    double w = 1.0;               // how often the reward counts
    Index k = 0;                  // the direction to which a part c of its prior is given back
    double c = 0.0;
};

// (high + low)·f in twice the working precision.
LINMED_INLINE void fade_product(double &high, double &low, double f) {
    const double product = high * f;
    low = fma(high, f, -product) + low * f;
    high = product;
}

LINMED_INLINE void fade_products(double *high, double *low, Index n, double f) {
    const Index whole = n - n % LANES;
    for (Index k = 0; k < whole; k += LANES) {
        const Lanes old = load(high + k), product = old * splat(f);
        store(low + k, fma(old, splat(f), product * splat(-1.0)) + load(low + k) * splat(f));
        store(high + k, product);
    }
    for (Index k = whole; k < n; ++k) fade_product(high[k], low[k], f);
}

// n numbers /= f.
LINMED_INLINE void divide(double *x, Index n, double f) {
    const Index whole = n - n % LANES;
    for (Index k = 0; k < whole; k += LANES) store(x + k, load(x + k) / splat(f));
    for (Index k = whole; k < n; ++k) x[k] /= f;
}

// `fade_product`, and then `add_products`, of n numbers: one pass.
inline void fade_and_add_products(double *high, double *low, Index n, const double *x, double y, double f) {
    if (f == 1.0) return add_products(high, low, n, x, y);
    const Index whole = n - n % LANES;
    const Lanes times = splat(y), factor = splat(f), minus = splat(-1.0);
    for (Index k = 0; k < whole; k += LANES) {
        const Lanes old = load(high + k), before = old * factor, numbers = load(x + k), product = numbers * times;
        Lanes lost = fma(load(low + k), factor, fma(old, factor, before * minus));
        lost = lost + fma(numbers, times, product * minus);
        const Lanes total = before + product, part = total - before;
        store(high + k, total);
        store(low + k, lost + ((before - (total - part)) + (product - part)));
    }
    for (Index k = whole; k < n; ++k) {
        fade_product(high[k], low[k], f);
        add_product(high[k], low[k], x[k], y);
    }
}

// row ← (row − shrink·own·u)·factor − back·other·there, all (d,).
inline void fade_row(double *row, Index d, const double *u, double own, double shrink, double factor, const double *there,
                     double other, double back) {
    const Index whole = d - d % LANES;
    for (Index k = 0; k < whole; k += LANES) {
        const Lanes kept = (load(row + k) - (splat(own) * load(u + k)) * splat(shrink)) * splat(factor);
        store(row + k, kept - (splat(other) * load(there + k)) * splat(back));
    }
    for (Index k = whole; k < d; ++k)
        row[k] = (row[k] - (own * u[k]) * shrink) * factor - (other * there[k]) * back;
}

// A row of `n` numbers takes over what another one has.
template <class T> LINMED_INLINE void copy_row(T *array, Index n, Index to, Index from) {
    std::copy(array + from * n, array + (from + 1) * n, array + to * n);
}

// Ridge estimates. With a factor f < 1 for what is known and a weight w for what is new,
//     V ← fV + w a a' + c e_k e_k',    b ← fb + w y a,    n ← fn + w,    θ̂ = V⁻¹b.
// The last term of V gives back a part of λ that has faded, in one direction at a time: V⁻¹ stays bounded where nothing is
// played, and follows by two steps of Sherman–Morrison in one pass, where all of (1 − f)λI would take O(d³). It is an
// observation of size √c along e_k that paid 0, and RSS counts it as one:
//     RSS = min over θ of Σ w(y − <a,θ>)² + θ'Λθ, where Λ is what there is of λI; log det V/det V₀ likewise.
// V and b stay in twice the working precision: f is multiplied into both parts, rounding errors kept.
struct FadingRidge : RidgeRows<double> {
    enum Told { LAMBDA, SIGMA, SCALE, FACTOR, LOG_FACTOR, SECONDS, TOLD };
    double *told;  // (rows,TOLD) λ; σ or 0; the rewards' scale; γ and log γ for every reward; the half-life on a clock, or 0

    Memory memory(Index s) const {
        const double *own = told + s * TOLD;
        return {own[LAMBDA], 0.0, own[FACTOR], own[LOG_FACTOR], own[SECONDS]};
    }

    // <a,θ̂> and h = |a|² in V⁻¹ of row s; u = V⁻¹a.
    struct Looked { double predicted, h; };
    using Step = Looked;
    Looked look(Index s, const double *a, double *u) const {
        const double h = look_along(a, inverse + s * d * d, d, u);
        double predicted = 0.0;
        for (Index k = 0; k < d; ++k) predicted += a[k] * theta[s * d + k];
        return {predicted, h};
    }

    // log of the density that row s has for a reward: of N(0, σ²(1+h)), or of Student's t, at the error.
    //
    // t has n + 1 degrees of freedom and the scale (1 + h)(c² + RSS)/(n + 1), for each c of `surprise` in confidence.hpp,
    // weighed as likely as n rewards with this RSS have made it.
    double log_density(Index s, const Looked &looked, double reward) const {
        const double sigma = told[s * TOLD + SIGMA], scale = told[s * TOLD + SCALE], h = looked.h;
        const double error = reward - looked.predicted;
        if (sigma > 0.0) {
            const double variance = sigma * sigma * (1.0 + h);
            return -0.5 * (log(2.0 * PI * variance) + error * error / variance);
        }
        const double n = counts[s], seen = rss[s], power = 0.5 * (n + 1.0), more = error * error / (1.0 + h);
        const auto squared = [&](int g) { return (scale * PRIOR_SCALES[g]) * (scale * PRIOR_SCALES[g]); };
        const double least = squared(0);  // Σ c (c² + RSS)^(−power), in units of its first term: no overflow
        double share = 0.0, share_after = 0.0;
        for (int g = 0; g < SCALES; ++g) {
            const double ratio = PRIOR_SCALES[g] / PRIOR_SCALES[0];
            const double after = (squared(g) + seen + more) / (least + seen + more);
            const double one = ratio * exp(-power * log((squared(g) + seen) / (least + seen)));
            const double other = ratio * exp(-(power + 0.5) * log(after));
            share += one, share_after += other;
            if (one < 1e-18 * share && other < 1e-18 * share_after) break;  // so are those of all larger c
        }
        double constant = half_step(power) - 0.5 * log(PI * (1.0 + h));
        constant += power * log(least + seen) - (power + 0.5) * log(least + seen + more);
        return constant + log(share_after / share);
    }

    // The update above in row s, from what `look` says; where f = 1, c must be 0. Returns whether V⁻¹ has become too steep
    // to be followed, and must be computed again. Functions before it have nothing to do: see `FadingGlm`, `ItemRows`.
    void catch_up(Index, const double *, const Memory &, double) {}
    Step forget(Index, const Looked &looked, double, const Pace &, double, double *) const { return looked; }
    static void find(Step *, Index) {}
    bool learn(Index s, const double *a, double reward, const Pace &pace, const Looked &looked, const double *u) {
        const auto [f, log_f, w, k, c] = pace;
        double *estimate = theta + s * d, *M = inverse + s * d * d, *V = gram + s * d * d, *V_low = gram_low + s * d * d;
        const double h = looked.h, error = reward - looked.predicted;
        const double leverage = w * h / f;  // of the new observation, once the past has faded
        const double shrink = w / (f + w * h), gain = error * shrink;
        for (Index j = 0; j < d; ++j) estimate[j] += gain * u[j];
        fade_and_add_products(moment + s * d, moment_low + s * d, d, a, w * reward, f);
        for (Index j = 0; j < d; ++j) fade_and_add_products(V + j * d, V_low + j * d, j + 1, a, w * a[j], f);
        double seen = error * gain * f, given = 0.0;  // given: the leverage of what is given back
        if (f == 1.0 || d == 0) {
            for (Index j = 0; j < d; ++j) subtract_outer_row(M + j * d, d, u, u[j], shrink);
        } else {
            double *row = M + k * d;
            const double known = estimate[k];
            fade_row(row, d, u, u[k], shrink, 1.0 / f, row, 0.0, 0.0);
            given = c * row[k];
            const double back = c / (1.0 + given);
            for (Index j = 0; j < d; ++j) {
                estimate[j] -= known * back * row[j];
                if (j != k) fade_row(M + j * d, d, u, u[j], shrink, 1.0 / f, row, row[j], back);
            }
            subtract_outer_row(row, d, row, row[k], back);  // last: the others are made from it
            add_product(V[k * d + k], V_low[k * d + k], c, 1.0);
            seen += c * known * known / (1.0 + given);
        }
        logdet[s] += double(d) * log_f + log1p(leverage + given + leverage * given);
        rss[s] = f * rss[s] + seen;
        leveraged[s] = f * leveraged[s] + error * gain * w * h;
        counts[s] = f * counts[s] + w;
        return leverage > STEEP || given > STEEP;
    }

    // The past of row s counts f times what it did; λ too, until it is given back.
    void fade(Index s, double f) {
        fade_products(moment + s * d, moment_low + s * d, d, f);
        for (Index j = 0; j < d; ++j) fade_products(gram + (s * d + j) * d, gram_low + (s * d + j) * d, j + 1, f);
        divide(inverse + s * d * d, d * d, f);
        logdet[s] += double(d) * log(f);
        rss[s] *= f, leveraged[s] *= f, counts[s] *= f;
    }

    // V += c e_k e_k' in row s: a part of λ that has faded. Returns whether V⁻¹ has become too steep to be followed.
    bool give_back(Index s, Index k, double c, double * /* u */) {
        double *estimate = theta + s * d, *M = inverse + s * d * d, *row = M + k * d;
        const double h = c * row[k], shrink = c / (1.0 + h), known = estimate[k];
        for (Index j = 0; j < d; ++j) estimate[j] -= known * shrink * row[j];
        logdet[s] += log1p(h);
        rss[s] += c * known * known / (1.0 + h);
        for (Index j = 0; j < d; ++j)
            if (j != k) subtract_outer_row(M + j * d, d, row, row[j], shrink);
        subtract_outer_row(row, d, row, row[k], shrink);  // last: the others are made from it
        const Index place = (s * d + k) * d + k;
        add_product(gram[place], gram_low[place], c, 1.0);
        return h > STEEP;
    }

    void take_over(Index to, Index from) {
        copy_row(theta, d, to, from), copy_row(counts, 1, to, from);
        copy_row(gram, d * d, to, from), copy_row(gram_low, d * d, to, from), copy_row(inverse, d * d, to, from);
        copy_row(moment, d, to, from), copy_row(moment_low, d, to, from);
        copy_row(logdet, 1, to, from), copy_row(rss, 1, to, from), copy_row(leveraged, 1, to, from);
    }

    // P, by which RSS exceeds Σ(y − <a,θ*>)² at most: λS² or, without a bound on |θ*|, the least over all θ.
    double penalty(Index s, double norm) const {
        const double lam = told[s * TOLD + LAMBDA];
        if (norm != UNKNOWN) return lam * norm * norm;
        double length2 = 0.0, trace = 0.0;
        for (Index k = 0; k < d; ++k) {
            length2 += theta[s * d + k] * theta[s * d + k];
            trace += inverse[(s * d + k) * d + k];
        }
        return 0.0 <= lam * trace && lam * trace < 1.0 ? lam * length2 / (1.0 - lam * trace) : INF;
    }

    // Row s as before any reward.
    void restart(Index s) {
        const double lam = told[s * TOLD + LAMBDA];
        for (Index j = 0; j < d; ++j) {
            theta[s * d + j] = moment[s * d + j] = moment_low[s * d + j] = 0.0;
            for (Index k = 0; k < d; ++k) {
                const Index place = (s * d + j) * d + k;
                gram[place] = j == k ? lam : 0.0, gram_low[place] = 0.0, inverse[place] = j == k ? 1.0 / lam : 0.0;
            }
        }
        counts[s] = logdet[s] = rss[s] = leveraged[s] = 0.0;
    }

  private:
    // log Γ(x + ½) − log Γ(x), by its series where x is large: it is off by 3e-14 at most.
    static double half_step(double x) {
        if (x < 16.0) return lgamma(x + 0.5) - lgamma(x);
        const double y = 1.0 / (x * x);
        return 0.5 * log(x) - (0.125 - y * (1.0 / 192 - y * (1.0 / 640 - y * (17.0 / 14336)))) / x;
    }
};

// Generalised linear models. Before its step (glm.hpp) the past of a model with the factor f counts f times what it did,
// and afterwards a part of a prior that has faded is given back, to the intercept and the features in turn:
//     H ← fH;   (c, θ̂) moves to where ½|· − (c, θ̂)|² in H plus ℓ is smallest, H += w (1, a)(1, a)';
//     H += c e_k e_k', an observation along e_k that paid 0.
// For Gaussian rewards that is `FadingRidge`.
struct FadingGlm : GlmRows<double> {
    enum Forgets { LAMBDA, BASE, FACTOR, SECONDS, FORGETS };
    double *memories;  // (rows,FORGETS) λ; the intercept's own, or 0; γ for every reward; the half-life on a clock, or 0

    Memory memory(Index s) const {
        const double *own = memories + s * FORGETS;
        return {own[LAMBDA], own[BASE], own[FACTOR], 0.0, own[SECONDS]};
    }

    using GlmRows::look;
    Looked look(Index s, const double *a, double *u) const { return GlmRows::look(d, s, a, u); }
    void catch_up(Index, const double *, const Memory &, double) {}

    double log_density(Index s, const Looked &looked, double reward) const {
        return -family(s).predictive_loss(looked.z, looked.h, reward);
    }

    // A reward that was foreseen with this loss: the past fades, and u with it; then the roots of all rows are found; then
    // the step is taken, and the prior given back, for which u is changed. Returns as that of `FadingRidge`.
    Step forget(Index s, Looked looked, double reward, const Pace &pace, double foreseen, double *u) {
        if (pace.f < 1.0) {
            fade(s, pace.f);
            looked.h /= pace.f, looked.own /= pace.f;
            divide(u, d, pace.f);
        }
        return prepare(s, looked, reward, pace.w, foreseen);
    }
    static void find(Step *steps, Index n) { settle(steps, n); }
    bool learn(Index s, const double *a, double reward, const Pace &pace, const Step &step, double *u) {
        bool steep = take(d, s, a, reward, pace.w, step, u);
        if (pace.c > 0.0) steep = give_back(s, pace.k, pace.c, u) || steep;
        counts[s] += pace.w;
        return steep;
    }

    // The past of row s counts f times what it did; the priors too, until they are given back.
    void fade(Index s, double f) {
        const Index D = d + 1, first = constant(s) > 0.0 ? 0 : 1;
        for (Index j = first; j < D; ++j) {
            const Index row = (s * D + j) * D + first;
            fade_products(gram + row, gram_low + row, j + 1 - first, f);
        }
        divide(inverse + s * d * d, d * d, f);
        divide(cross + s * d, d, f);
        if (first == 0) corner[s] /= f;
        logdet[s] += double(D - first) * log(f);
        excess[s] *= f, surprise[s] *= f, counts[s] *= f;
    }

    // H += c along feature k, or the intercept for k = −1. Returns whether that is too steep to be followed. u is changed.
    bool give_back(Index s, Index k, double c, double *u) {
        const double own = k < 0 ? corner[s] : cross[s * d + k], known = k < 0 ? intercept[s] : theta[s * d + k];
        const double *row = k < 0 ? cross + s * d : inverse + (s * d + k) * d;
        std::copy(row, row + d, u);
        const double h = c * (k < 0 ? own : u[k]), shrink = c / (1.0 + h);
        move(d, s, u, own, known * shrink);
        logdet[s] += log1p(h);
        const Index D = d + 1, place = (s * D + k + 1) * D + k + 1;
        add_product(gram[place], gram_low[place], c, 1.0);
        subtract_outer(d, s, u, own, shrink);
        return h > STEEP;
    }

    void take_over(Index to, Index from) {
        const Index D = d + 1;
        copy_row(theta, d, to, from), copy_row(intercept, 1, to, from), copy_row(counts, 1, to, from);
        copy_row(gram, D * D, to, from), copy_row(gram_low, D * D, to, from), copy_row(inverse, d * d, to, from);
        copy_row(cross, d, to, from), copy_row(corner, 1, to, from), copy_row(logdet, 1, to, from);
        copy_row(excess, 1, to, from), copy_row(surprise, 1, to, from);
    }

    // Row s as before any reward.
    void restart(Index s) {
        const Index D = d + 1;
        const double lam = memories[s * FORGETS + LAMBDA], base = memories[s * FORGETS + BASE];
        double *H = gram + s * D * D;
        for (Index j = 0; j < D * D; ++j) H[j] = gram_low[s * D * D + j] = 0.0;
        for (Index j = 0; j < d; ++j) {
            theta[s * d + j] = cross[s * d + j] = 0.0;
            for (Index k = 0; k < d; ++k) inverse[(s * d + j) * d + k] = j == k ? 1.0 / lam : 0.0;
            H[(j + 1) * D + j + 1] = lam;
        }
        H[0] = base > 0.0 ? base : 1.0;
        corner[s] = 1.0 / H[0];
        intercept[s] = counts[s] = logdet[s] = excess[s] = surprise[s] = 0.0;
    }
};

// ---- several of them, and the test ------------------------------------------------------------------------------------

// What stands beside the estimates in R replicas of N experts.
struct Weights {
    static constexpr Index KEPT = 16;  // adoptions and alarms that are remembered
    enum Rules { SHARE, LEVEL, OWN, RULES };

    Index R, N;
    double *weight;                // (R,N)
    double *score;                 // (R,N+1) log-likelihood of the last reward
    double *rules;                 // (R,RULES) what all have in common: s; log 1/α; and one number of a kind
    int64_t *leader, *rewards;     // (R,) the expert that decides, the first among equals; rewards absorbed so far
    double *clock;                 // (R,) time of the newest decision that was rewarded, 0 where nobody told
    double *trust, *loss, *evidence;  // (R,) of the bettor in the monitor; M since the test began; log E
    int64_t *happened;             // (R,2) adoptions and alarms so far
    double *adoptions;             // (R,KEPT,4) of the last ones: number of the reward, time, who took over, from whom
    double *alarms;                // (R,KEPT,3) number of the reward, time, log E
};

// N experts and a monitor in every replica: row r·(N+1) + e. Experts are in order of memory, the longest first, those of
// one memory in order of λ.
template <class Model> class Forgetting : public Belief, public Weights {
  public:
    Model model;

    Forgetting(const Model &model, const Weights &weights)
        : Weights(weights), model(model), looked_(std::size_t(N)), steps_(std::size_t(N)), paces_(std::size_t(N)),
          before_(N), u_(N * model.scratch()) {
        this->model.show(*this);
    }
    Index replicas() const override { return R; }
    Index row(Index r) const override { return r * (N + 1) + std::clamp(Index(leader[r]), Index(0), N - 1); }
    double count(Index s) const override { return model.counts[s]; }
    void absorb(Index r, const double *a, double reward) override { absorb_at(r, a, reward, clock[r]); }

    void absorb_at(Index r, const double *a, double reward, double time) override {
        const Index first = r * (N + 1), stride = model.scratch();
        const bool begun = rewards[r] > 0;
        const double before = begun ? clock[r] : time, now = std::max(before, time);
        due_ = (rewards[r] + 1) % REFRESH == 0;
        for (Index e = 0; e < N; ++e) {
            const Index s = first + e;
            const Memory memory = model.memory(s);
            double *u = u_ + e * stride;
            model.catch_up(s, a, memory, now);
            auto looked = looked_[e] = model.look(s, a, u);
            score[s] = model.log_density(s, looked, reward);
            Pace &pace = paces_[e] = Pace{};
            if (memory.seconds > 0.0) {
                if (!begun) begin(s, memory, now, u);
                else if (now > before) pass_time(s, memory, before, now, u);
                pace.w = exp2((time - now) / memory.seconds);
                looked = model.look(s, a, u);
            } else if (memory.factor < 1.0) {  // give back what has faded of the prior of the direction whose turn it is
                const Index turns = d - memory.first();
                pace.f = memory.factor, pace.log_f = memory.log_factor;
                if (turns > 0) pace.k = memory.first() + Index(uint64_t(rewards[r]) % uint64_t(turns));
                if (turns > 0) pace.c = double(turns) * (1.0 - pace.f) * memory.prior(pace.k);
            }
            steps_[e] = model.forget(s, looked, reward, pace, -score[s], u);
        }
        model.find(steps_.data(), N);
        for (Index e = 0; e < N; ++e)
            if (model.learn(first + e, a, reward, paces_[e], steps_[e], u_ + e * stride) || due_) model.refresh(first + e);
        rewards[r] += 1;
        clock[r] = now;
        std::copy(weight + r * N, weight + (r + 1) * N, before_ + 0);
        const double mixture = weigh(r);
        adopt(r);
        watch(r, a, reward, time, mixture);
    }

  protected:
    std::vector<typename Model::Looked> looked_;  // (N,) what each saw of the last arm before it learned
    std::vector<typename Model::Step> steps_;     // (N,) and what follows from it
    std::vector<Pace> paces_;
    Buffer before_;                               // (N,) the weights before the last reward
    Buffer u_;                                    // (N,padded(d))
    bool due_ = false;                            // whether it is time to remove what rounding has left

    // The monitor of replica r learns, and the test goes on; `mixture` is the experts' log-density of the reward.
    virtual void watch(Index r, const double *a, double reward, double time, double mixture) = 0;

    // M goes on in replica r, whose monitor has seen n rewards. Returns by how much.
    double bet(Index r, double n, double mixture) {
        constexpr double PATIENCE = 1e4;  // rewards until the bettor's share is half of what it was
        const double own = score[r * (N + 1) + N], best = std::max(own, mixture), trusted = trust[r] * exp(own - best);
        const double total = trusted + (1.0 - trust[r]) * exp(mixture - best), share = 1.0 / (PATIENCE + n);
        trust[r] = (1.0 - share) * (trusted / total) + 0.5 * share;
        const double more = -(best + log(total));
        loss[r] += more;
        return more;
    }

    // log E of replica r from L; where it is enough, an alarm is noted and the bettor begins again.
    bool alarmed(Index r, double least, double time) {
        evidence[r] = least - loss[r];
        if (!(evidence[r] >= rules[r * RULES + LEVEL])) return false;
        double *note = next(alarms + r * KEPT * 3, 3, happened[r * 2 + 1]);
        note[0] = double(rewards[r]), note[1] = time, note[2] = evidence[r];
        loss[r] = evidence[r] = 0.0, trust[r] = 0.5;
        return true;
    }

  private:
    static constexpr double PARTS = 16.0;  // how often in a half-life λ is given back to a direction, on a clock

    // The place of a ring (KEPT,n) that comes next, by the number of those so far, which is counted on.
    static double *next(double *ring, Index n, int64_t &happened) {
        return ring + Index(uint64_t(happened++) % uint64_t(KEPT)) * n;
    }

    // Step 2: weights of replica r ∝ weight·exp(score), a share spread evenly; returns log of the mixture's density.
    double weigh(Index r) {
        double *own = weight + r * N, share = rules[r * RULES + SHARE], total = 0.0;
        const double *likely = score + r * (N + 1), best = *std::max_element(likely, likely + N);
        for (Index e = 0; e < N; ++e) {
            own[e] *= exp(likely[e] - best);
            total += own[e];
        }
        for (Index e = 0; e < N; ++e) own[e] = (1.0 - share) * (own[e] / total) + share / double(N);
        return best + log(total);
    }

    // Step 3 in replica r, and who decides from now on.
    void adopt(Index r) {
        constexpr double NEGLIGIBLE = 1e-3;  // the weight below which a memory gives up its own past
        const Index first = r * (N + 1);
        double *own = weight + r * N;
        Index alike = 1, heaviest = 0;  // alike: experts of one memory
        while (alike < N && model.memory(first).forgets_like(model.memory(first + alike))) ++alike;
        const auto of_memory = [&](Index g) {
            double total = 0.0;
            for (Index e = g; e < std::min(g + alike, N); ++e) total += own[e];
            return total;
        };
        double top = -1.0;
        for (Index g = 0; g < N; g += alike)
            if (const double total = of_memory(g); total > top) heaviest = g, top = total;
        bool changed = false;
        for (Index g = 0; g < heaviest; g += alike) {  // memories longer than the heaviest
            if (!(of_memory(g) < NEGLIGIBLE)) continue;
            changed = true;
            for (Index e = 0; e < std::min(alike, N - heaviest); ++e) {
                model.take_over(first + g + e, first + heaviest + e);
                own[g + e] = own[heaviest + e] / top * double(alike) / double(N);
            }
            double *note = next(adoptions + r * KEPT * 4, 4, happened[r * 2]);
            note[0] = double(rewards[r]), note[1] = clock[r];
            note[2] = double(g / alike), note[3] = double(heaviest / alike);
        }
        if (changed) {
            double total = 0.0;
            for (Index e = 0; e < N; ++e) total += own[e];
            for (Index e = 0; e < N; ++e) own[e] /= total;
        }
        leader[r] = std::max_element(own, own + N) - own;
    }

    // What there is of a prior at a time: it was whole when the direction's turn came last.
    static double standing(double prior, double half_life, Index turn, Index turns, double time) {
        const double since = time - double(turn) * half_life / (PARTS * double(turns)), part = half_life / PARTS;
        return prior * exp2(-(since - part * floor(since / part)) / half_life);
    }

    // Row s before any reward, at the time of the first.
    void begin(Index s, const Memory &memory, double time, double *u) {
        const Index first = memory.first();
        for (Index k = first; k < d; ++k) {
            const double whole = memory.prior(k);
            model.give_back(s, k, standing(whole, memory.seconds, k - first, d - first, time) - whole, u);
        }
    }

    // The clock goes on: the past of row s fades, and priors are given back where their turn has come.
    //
    // A long silence passes in steps, none of which is so steep that V⁻¹ could not follow.
    void pass_time(Index s, const Memory &memory, double before, double now, double *u) {
        constexpr double STRIDE = 8.0, REACH = 64.0;  // half-lives that fade in one step, and beyond which nothing is left
        const double half_life = memory.seconds, part = half_life / PARTS;
        const Index first = memory.first(), turns = d - first;
        before = std::max(before, now - REACH * half_life);
        while (before < now) {
            double after = std::min(now, before + STRIDE * half_life);
            if (!(after > before)) after = now;  // a half-life that is less than the rounding of the time
            const double f = exp2((before - after) / half_life);
            model.fade(s, f);
            for (Index k = first; k < d; ++k) {
                const double shift = double(k - first) * part / double(turns), whole = memory.prior(k);
                if (!(floor((after - shift) / part) > floor((before - shift) / part))) continue;
                const double had = f * standing(whole, half_life, k - first, turns, before);
                model.give_back(s, k, std::max(standing(whole, half_life, k - first, turns, after) - had, 0.0), u);
            }
            before = after;
        }
    }
};

// Ridge estimates that forget. An expert's density of a reward is N(<a,θ̂>, σ²(1 + h)), Student's t where σ is unknown.
//
// The test, for noise that is σ-sub-Gaussian and σ told. The least that the rewards can have cost is, with the monitor's
// RSS,
//     L = (n/2) log 2πσ² + (RSS − P)/2σ²
// since Σ(y − <a,θ*>)² ≥ RSS − P, where P = λS² or, without a bound on |θ*|, λ|θ̂|²/(1 − λ tr V⁻¹): the least over all θ.
// The experts' densities are mixtures over θ of N(<a,θ>, σ²): log E is at most the logarithm of a supermartingale.
//
// The test where σ is unknown (`wager`). Every bet is made as if the noise had a size s, known before the reward, that is
// no less than σ: the monitor learns with weights 1/s² and the experts' densities are N(<a,θ̂>, s²(1 + h)), so the sum
// above is Σ(y − <a,θ*>)²/s² and the rest is as if σ = s had been told.
//     s² = Σe²/κ,    κ = max over u of n log(1 + 2u)/2u − log(8/δ)/u,    u = 1, ½, …, 1/128,    δ = α/10
// where e is the error of a prediction made beforehand, the mean of the experts'. For Gaussian noise and any such
// prediction E exp(−ue²/σ²) ≤ (1 + 2u)^−½, as if it had been right: P(s < σ, ever) ≤ δ. The other 9/10 of α are the test's,
// hence log 9/10 in log E.
//
// So far one large reward can decide a bet that was made by chance, and s misses tails that it has not seen. Therefore
// rewards are clipped at CLIP·s on both sides of what the monitor predicts (the experts, while it knows little), and no bet
// is farther than MOST·s from that. Of Gaussian rewards the first moves one in 16,000 and the mean by 2e-5 s, which the
// proof leaves out; of a Gaussian, a clipped one is as sub-Gaussian, clipping being 1-Lipschitz. For other noise the level
// is not proved but measured (benchmarks/drift.py --only tails). Where experts know little, h > VAGUE, nothing is bet, nor
// while s² is more than twice the mean of e²: for the first hundred rewards. The unit of rewards plays no part.
template <class Rows> class RidgeForgetting : public Forgetting<Rows> {
    using Base = Forgetting<Rows>;
    using Base::rules, Base::score, Base::RULES, Base::LEVEL, Base::OWN, Base::evidence, Base::looked_, Base::before_;
    using Base::due_, Base::bet, Base::alarmed, Base::u_;

  public:
    using Base::model, Base::N;
    static constexpr double CLIP = 4.0;
    // Of `spread`: Σe² and how many; s² at the first bet; rewards that were clipped, and how many of them when log E was
    // last ≤ 0. Where σ is told none is clipped: they are those farther than CLIP·σ from every expert.
    enum Spread { SQUARES, SEEN, UNIT, CLIPPED, QUIET, SPREAD };
    double *spread;  // (R,SPREAD) how large the test takes the noise to be, and how often it was larger

    RidgeForgetting(const Rows &model, const Weights &weights, double *spread)
        : Base(model, weights), spread(spread), bets_(N) {}

  private:
    static constexpr double UNPROVED = 0.1;  // the share of an alarm's level for the case that s < σ
    static constexpr double MOST = 1.0, VAGUE = 0.5;
    static constexpr Index NORM = OWN;       // of `rules`: S or UNKNOWN, which it always is where σ is unknown

    Buffer bets_;  // (N,) the logarithms of the densities with which the experts bet

    void watch(Index r, const double *a, double reward, double time, double mixture) override {
        const Index s = r * (N + 1) + N;
        const double sigma = model.told[s * FadingRidge::TOLD + FadingRidge::SIGMA];
        if (!(sigma > 0.0)) return wager(r, s, a, reward, time);
        const auto looked = model.look(s, a, u_);
        score[s] = model.log_density(s, looked, reward);
        if (model.learn(s, a, reward, {}, looked, u_) || due_) model.refresh(s);
        bet(r, model.counts[s], mixture);
        const auto far = [&](const auto &one) { return fabs(reward - one.predicted) / sqrt(1.0 + one.h); };
        double nearest = far(looked);
        for (const auto &one : looked_) nearest = std::min(nearest, far(one));
        if (nearest > CLIP * sigma) spread[r * SPREAD + CLIPPED] += 1.0;
        const double seen = least_squares(s, rules[r * RULES + NORM]);
        conclude(r, s, 0.5 * (model.counts[s] * log(2.0 * PI * sigma * sigma) + seen / (sigma * sigma)), time);
    }

    // An alarm, or not yet.
    bool conclude(Index r, Index s, double least, double time) {
        double *own = spread + r * SPREAD;
        const bool alarm = alarmed(r, least, time);
        if (alarm) {
            model.restart(s);
            own[CLIPPED] = own[QUIET];
        } else if (evidence[r] <= 0.0) {
            own[QUIET] = own[CLIPPED];
        }
        return alarm;
    }

    // log E of replica r where σ is unknown, and its monitor, row s, learns; weights are those before the reward.
    //
    // The terms ½ log 2πs² of L and M are left out of both.
    void wager(Index r, Index s, const double *a, double reward, double time) {
        double *own = spread + r * SPREAD, centre = 0.0, vague = 0.0;
        for (Index e = 0; e < N; ++e) {
            centre += before_[e] * looked_[e].predicted;
            vague += before_[e] * looked_[e].h;
        }
        if (!(vague <= VAGUE)) return;
        const double kappa = least_chi_square(own[SEEN], rules[r * RULES + LEVEL] + log(RATES / UNPROVED));
        const double s2 = 2.0 * kappa >= std::max(own[SEEN], 1.0) ? own[SQUARES] / kappa : 0.0;
        double error = reward - centre;
        if (0.0 < s2 && s2 < INF) {
            if (own[UNIT] == 0.0) own[UNIT] = s2;
            const double size = sqrt(s2), w = own[UNIT] / s2;
            const auto looked = model.look(s, a, u_);
            const double middle = w * looked.h <= VAGUE ? looked.predicted : centre;
            const double clipped = std::min(std::max(reward, middle - CLIP * size), middle + CLIP * size);
            if (clipped != reward) own[CLIPPED] += 1.0;
            double best = -INF, total = 0.0;
            centre = 0.0;
            for (Index e = 0; e < N; ++e) {
                const double mean = std::min(std::max(looked_[e].predicted, middle - MOST * size), middle + MOST * size);
                centre += before_[e] * mean;
                bets_[e] = -standard_loss(clipped - mean, s2, looked_[e].h);
                best = std::max(best, bets_[e]);
            }
            for (Index e = 0; e < N; ++e) total += before_[e] * exp(bets_[e] - best);
            score[s] = -standard_loss(clipped - looked.predicted, s2, w * looked.h);
            bet(r, model.counts[s], best + log(total));
            if (model.learn(s, a, clipped, {.w = w}, looked, u_) || due_) model.refresh(s);
            error = clipped - centre;
            const double least = 0.5 * least_squares(s, UNKNOWN) / own[UNIT];
            if (conclude(r, s, least + log1p(-UNPROVED), time)) {
                own[SQUARES] = own[SEEN] = own[UNIT] = 0.0;
                return;
            }
        }
        own[SQUARES] += error * error;
        own[SEEN] += 1.0;
    }

    // −log of the density of N(0, s²(1+h)) at `error`, but for ½ log 2πs².
    static double standard_loss(double error, double s2, double h) {
        return 0.5 * (log1p(h) + error * error / (s2 * (1.0 + h)));
    }

    static constexpr double RATES = 8.0;  // how many u there are

    // κ: what Σe²/σ² of n errors is at least, for every n at once, with probability 1 − δ.
    static double least_chi_square(double n, double log_inverse_delta) {
        static const auto slopes = [] {
            std::array<double, std::size_t(RATES)> slopes;
            double u = 1.0;
            for (double &slope : slopes) slope = log1p(2.0 * u) / (2.0 * u), u *= 0.5;
            return slopes;
        }();
        double most = 0.0, u = 1.0;
        for (const double slope : slopes) {
            most = std::max(most, n * slope - log_inverse_delta / u);
            u *= 0.5;
        }
        return most;
    }

    // RSS − P of row s, no more than Σ(y − <a,θ*>)²; LEAST where nothing is known of it.
    double least_squares(Index s, double norm) const {
        constexpr double LEAST = 1e-300;
        return std::max(model.rss[s] - model.penalty(s, norm), LEAST);
    }
};

// Generalised linear models that forget: clicks and counts in a world that changes.
//
// The test. The monitor takes its steps with the certified curvature, for which (docs/clicks.md), for every θ* with
// |θ*| ≤ S and an intercept c* of at most 5,
//     Σℓ(z*) ≥ Σ(ℓ(z′) + s²h/2) − (λS² + λ₀·5²)/2 =: L,
// each step being the minimum of a quadratic function plus a loss that is bent at least as much as w says: the sum of
// their optimality conditions telescopes. So L is no more than what the rewards cost one who knew θ*, in O(d²) and without
// keeping a reward. w is the least curvature over where the monitor's own certified set says that z* is, with the bettor's
// predictions for m: which is so for all rewards with probability 1 − α/10. The other 9/10 of α are the test's, hence
// log 9/10 in log E. A click, or a fraction of one, has E[(p/μ)^y ((1 − p)/(1 − μ))^(1 − y)] ≤ 1 for any p foretold (the
// function is convex in y), and a count the like: exp(Σℓ(z*) − M) is a supermartingale.
template <class Rows> class GlmForgetting : public Forgetting<Rows> {
    using Base = Forgetting<Rows>;
    using Base::score, Base::rules, Base::loss, Base::RULES, Base::OWN, Base::due_, Base::u_, Base::bet, Base::alarmed;

  public:
    using Base::Base, Base::model, Base::N;

    void by_divergence(Index s, const Arms &arms, Index best, MedScratch &scratch) const override {
        model.by_divergence(s, arms, best, scratch);
    }
    void look_at(Index s, const Arms &arms, double *mean, double *leverage, double *apart) const override {
        model.look_at(s, arms, mean, leverage, apart);
    }
    Belief::Intercept intercept(Index s) const override { return model.level(s); }
    bool link(Index s, Index K, double *z, double *slope) const override { return model.link(s, K, z, slope); }
    void factor_precision(Index s, double, double *L) const override { model.factor_precision(s, 0.0, L); }

  private:
    static constexpr Index PRIOR = OWN;  // of `rules`: λS² + λ₀·5² − 2 log 9/10

    void watch(Index r, const double *a, double reward, double time, double mixture) override {
        const Index s = r * (N + 1) + N;
        const auto looked = model.look(s, a, u_);
        score[s] = model.log_density(s, looked, reward);
        const double foreseen = bet(r, model.counts[s] + 1.0, mixture);  // the monitor's m is the bettor's
        auto step = model.forget(s, looked, reward, {}, foreseen, u_);
        model.find(&step, 1);
        if (model.learn(s, a, reward, {}, step, u_) || due_) model.refresh(s);
        if (alarmed(r, loss[r] - 0.5 * (model.excess[s] + rules[r * RULES + PRIOR]), time)) model.restart(s);
    }
};

}  // namespace linmed
