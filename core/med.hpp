// LinMED's rule (Algorithm 1): from θ̂, V⁻¹ and β to a distribution over arms, and an arm drawn from it.
//
//     p_t ∝ q_t f_t,   q_t = α_opt·(design) + α_emp·1{â} + (1 − α_opt − α_emp)/K,
//     f_t(a) = exp(−Δ̂(a)² / (β |â − a|²)),   Δ̂(a) = <θ̂, â − a>,   norms in V⁻¹.
#pragma once

#include "belief.hpp"
#include "optimal.hpp"

namespace linmed {

constexpr double LOWEST = -1e300;  // log f is never −inf: every arm keeps a finite log-probability
constexpr double TINY = 1e-250;    // squared distances below this have lost digits to underflow
constexpr double VANISHED = 1.0;   // marks such a weight: no log f is positive

// What a decision writes on its way, for every arm (padded to whole blocks) unless said otherwise.
struct MedScratch : Rule::Scratch {
    double alpha_opt;                // 0 where the design is uniform
    bool few;                        // up to eight arms, for which `MedRule` needs no more than registers
    Buffer log_f, root, leverage;    // root: √f; leverage: |a|² in V⁻¹
    Buffer even, q, weight, sums;    // even: what every arm gets of q; weight: q f; sums: of every eight weights
    Buffer design, scale;            // counts, and the scales of the vectors in the design
    Desk desk;
    Index centre = -1;               // the arm that `ahead` is of, or −1
    Buffer best, ahead, difference;  // (d,) â; (d,) V⁻¹â; (d,8) a − â of one block

    MedScratch(double alpha_emp, double alpha_opt, Index K, Index d, bool few = false)
        : alpha_opt(alpha_opt), few(few), log_f(padded(K)), root(padded(K)), leverage(padded(K)), even(padded(K)), q(padded(K)),
          weight(padded(K)), sums(padded(K) / LANES), design(alpha_opt > 0.0 ? padded(K) : 0),
          scale(alpha_opt > 0.0 ? padded(K) : 0), desk(alpha_opt > 0.0 ? d : 0), best(d), ahead(padded(d)),
          difference(LANES * d) {
        const double share = (1.0 - alpha_emp - alpha_opt) / double(K);
        for (Index i = 0; i < K; ++i) even[i] = share < 1e-12 ? 0.0 : share;  // α_emp + α_opt = 1
    }
};

// Writes â and V⁻¹â; returns |â|² in V⁻¹.
template <class Dim>
LINMED_INLINE double centre_on(const double *a, const double *M, Dim d, double *best, double *ahead) {
    double length = 0.0;
    count_to(d, [&](Index k) LINMED_ALWAYS { best[k] = a[k]; });
    combine_rows(best, M, d, ahead);
    count_to(d, [&](Index k) LINMED_ALWAYS { length += best[k] * ahead[k]; });
    return length;
}

// |a|², Δ̂ and |â − a|², norms in V⁻¹, of the eight arms of a block, seen from â: with x = a − â, which is written to
// `difference`, |a|² = |â|² + 2 <V⁻¹â, x> + |x|².  length = |â|², see `centre_on`.
struct SeenFrom { Lanes lengths, gap, distance2; };
template <class Dim>
LINMED_INLINE SeenFrom seen_from(const double *block, Dim d, const double *theta, const double *M, const double *best,
                                 const double *ahead, double length, double *difference) {
    Lanes lengths = splat(length), gap = splat(0.0);
    count_to(d, [&](Index k) LINMED_ALWAYS {
        const Lanes x = load(block + k * LANES) - splat(best[k]);
        store(difference + k * LANES, x);
        gap = fma(x, splat(-theta[k]), gap);
        lengths = fma(x, splat(2.0 * ahead[k]), lengths);
    });
    const Lanes distance2 = squared_length(difference, d, M, d);
    return {lengths + distance2, gap, distance2};
}

// log f = −Δ̂² / (β |â − a|²) with 0/0 = 0, never −inf, and VANISHED where |â − a|² is too small.  sharpness = 1/√β.
LINMED_INLINE Lanes log_weights(Lanes gap, Lanes distance2, double sharpness) {
    const Lanes ratio = gap * splat(sharpness);
    Lanes value = larger((ratio * ratio) / (distance2 * splat(-1.0)), splat(LOWEST));
    value = where_greater(distance2, splat(TINY), value, splat(VANISHED));
    return where_greater(gap, splat(0.0), value, splat(0.0));
}

// Replace the marks VANISHED: the ratio does not depend on the length of x = â − a, so take it longer.
// best (d,); root may be null.
[[gnu::noinline]] inline void repair(const double *theta, const double *M, double sharpness, const Arms &arms,
                                     const double *best, double *log_f, double *root) {
    const Index d = arms.d;
    Buffer x(d);
    for (Index i = 0; i < arms.K; ++i) {
        if (log_f[i] != VANISHED) continue;
        double longest = 0.0, gap = 0.0, distance2 = 0.0;
        for (Index k = 0; k < d; ++k) longest = std::max(longest, fabs(best[k] - arms.row(i)[k]));
        for (Index j = 0; j < d; ++j) {
            x[j] = (best[j] - arms.row(i)[j]) / longest;
            gap += theta[j] * x[j];
            double cross = 0.0;
            for (Index k = 0; k < j; ++k) cross += M[j * d + k] * x[k];
            distance2 += x[j] * (2.0 * cross + M[j * d + j] * x[j]);
        }
        const double ratio = gap * sharpness;
        log_f[i] = gap > 0.0 && distance2 > TINY ? std::max(-(ratio * ratio) / distance2, LOWEST) : 0.0;
        if (root) root[i] = exp(0.5 * log_f[i]);
    }
}

// |a|² in V⁻¹, log f and √f of every arm; â and the largest |a|².
template <class Dim>
LINMED_INLINE Belief::Weighed weigh_arms(Dim d, const double *theta, const double *M, double sharpness, const Arms &arms,
                                         MedScratch &scratch) {
    constexpr Index small = KNOWN<Dim>;
    double *centre = scratch.best, *ahead = scratch.ahead, *difference = scratch.difference;
    double *leverage = scratch.leverage, *log_f = scratch.log_f, *root = scratch.root;
    double own[small * small + 3 * small + small * LANES + 1];  // what the loop reads, in registers
    if constexpr (small > 0) {
        std::copy(theta, theta + d, own), std::copy(M, M + d * d, own + d);
        theta = own, M = own + d, centre = own + d + d * d, ahead = centre + d, difference = ahead + d;
    }
    const Index best = best_arm(arms, d, theta);
    scratch.centre = small ? -1 : best;
    const double length = centre_on(arms.row(best), M, d, centre, ahead);
    Lanes widest = splat(0.0), marked = splat(LOWEST);
    OneBlock one(arms);
    for (Index first = 0; first < arms.K; first += LANES) {
        const auto [lengths, gap, distance2] = seen_from(arms.block(first, one), d, theta, M, centre, ahead, length, difference);
        const Lanes value = log_weights(gap, distance2, sharpness);
        widest = larger(lengths, widest), marked = larger(value, marked);
        store(leverage + first, lengths);
        store(log_f + first, value);
        store(root + first, exp(value * splat(0.5)));
    }
    if (largest_lane(marked) > 0.0) repair(theta, M, sharpness, arms, arms.row(best), log_f, root);
    return {best, largest_lane(widest)};
}

LINMED_INLINE Belief::Weighed weigh_arms(const double *theta, const double *M, double sharpness, const Arms &arms,
                                         MedScratch &scratch) {
    return with_dimension(arms.d, [&](auto d) LINMED_ALWAYS { return weigh_arms(d, theta, M, sharpness, arms, scratch); });
}

// ApproxDesignAugmented (Algorithm 2) as counts of every arm; returns their sum.
//
// Version 0 rescales the arms by √f, version 1 drops those with f < 1/e.  scale, count, leverage are padded.
inline double augmented_counts(const Arms &arms, const double *log_f, const double *root, int version, bool optimal,
                               double *scale, double *count, double *leverage, Desk &desk) {
    const Index K = arms.K;
    Index members = K;
    std::copy(root, root + K, scale);
    std::fill(scale + K, scale + padded(K), 0.0);
    if (version == 1)
        for (Index i = 0; i < K; ++i) {
            scale[i] = log_f[i] >= -1.0;
            members -= !(log_f[i] >= -1.0);
        }
    if (members <= 2 * arms.d && !optimal) {  // Algorithm 4, line 1: all of them
        for (Index i = 0; i < K; ++i) count[i] = version == 0 ? 1.0 : scale[i];
        return double(members);
    }
    if (!optimal) {
        const double total = approx_counts_here(arms, scale, count, leverage, desk);
        if (total >= 0.0) return total;
    }
    Buffer log_scale(K);
    for (Index i = 0; i < K; ++i) log_scale[i] = version == 0 ? 0.5 * log_f[i] : log_f[i] >= -1.0 ? 0.0 : -INF;
    if (!optimal) return approx_counts_in_span(arms, log_scale, count);
    optimal_design(arms, log_scale, OPTIMAL_TOL, count);
    return 1.0;
}

// The rule; subclasses differ in their design, or in what they do about the mass that q f leaves over.
class Med : public Rule {
  public:
    double alpha_emp, alpha_opt;
    int version;     // how arms that look bad are kept out of the design
    bool optimal;    // the G-optimal design in place of ApproxDesign
    bool explore;    // half of the mass for the arm of largest leverage while one exceeds 1 (the event B_t)
    bool even_ties;  // α_emp goes evenly to all arms while all look equally good; else to the first

    Med(double alpha_emp, double alpha_opt, int version, bool optimal, bool explore, bool even_ties)
        : alpha_emp(alpha_emp), alpha_opt(alpha_opt), version(version), optimal(optimal), explore(explore), even_ties(even_ties) {}

    std::unique_ptr<Scratch> workspace(Index K, Index d) const override {
        const bool uniform = K <= 2 * d && version == 0 && !optimal;  // so ApproxDesign is
        const bool few = uniform && K <= LANES && !even_ties && d >= 2 && d <= 4;
        return std::make_unique<MedScratch>(alpha_emp, uniform ? 0.0 : alpha_opt, K, d, few);
    }

    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<MedScratch &>(room);
        const double sharpness = 1.0 / sqrt(beta);
        const auto [best, largest] = belief.plain ? weigh_arms(belief.estimate(s), belief.covariance(s), sharpness, arms, scratch)
                                                  : belief.weigh_all(s, arms, sharpness, scratch);
        double share = 0.0;
        if (!belief.plain) belief.by_divergence(s, arms, best, scratch);
        if (scratch.alpha_opt > 0.0) share = scratch.alpha_opt / counts(belief, s, arms, scratch);
        return conclude(best, share, largest, arms.K, noise, scratch, log_p);
    }

    // The rest of a decision among K arms, once f and the design are in `scratch`, which gets `share` for each of its counts.
    Index conclude(Index best, double share, double largest, Index K, const double *noise, MedScratch &scratch,
                   double *log_p) const {
        mix(best, share, K, scratch);
        double total = settle_mass(best, K, scratch);
        Index extra = -1;
        if (explore && largest > EXPLORE) {
            extra = 0;
            while (extra < K - 1 && scratch.leverage[extra] * EQUAL < largest) ++extra;
            scratch.weight[extra] += total;
            scratch.sums[extra / LANES] += total;
            total += total;
        }
        if (log_p) logarithms(K, total, extra, scratch, log_p);
        return draw(scratch, noise[0] * total);
    }

    const double *along(Index arm, const Scratch &room) const override {
        const auto &scratch = static_cast<const MedScratch &>(room);
        return arm == scratch.centre ? static_cast<const double *>(scratch.ahead) : nullptr;
    }

    static constexpr double EXPLORE = 1.0 + 1e-9;  // B_t: leverages above 1, but not because of a last bit
    static constexpr double EQUAL = 1.0 + 1e-12;   // leverages within this factor are equal

  protected:
    // Writes the design as counts; returns their sum.
    virtual double counts(const Belief &belief, Index s, const Arms &arms, MedScratch &scratch) const {
        if (!belief.plain) return belief.design_counts(s, arms, version, optimal, scratch);
        return augmented_counts(arms, scratch.log_f, scratch.root, version, optimal, scratch.scale, scratch.design,
                                scratch.weight, scratch.desk);
    }

    // Z = Σ q f, by which all probabilities will be divided.
    virtual double settle_mass(Index best, Index K, MedScratch &scratch) const {
        return scratch.q[best] == 0.0 ? renormalise(K, scratch) : sum_of(scratch.sums);
    }

    static double sum_of(const Buffer &sums) {
        double total = 0.0;
        for (Index i = 0; i < sums.size(); ++i) total += sums[i];
        return total;
    }

  private:
    // Writes q = even + share·count + α_emp·1{â} and weight = q f, with sums of every eight.
    //
    // Where no arm is worse than â and ties are even, every one gets α_emp/K: its mean over an â drawn among them.
    LINMED_INLINE void mix(Index best, double share, Index K, MedScratch &scratch) const {
        double *q = scratch.q, *weight = scratch.weight, *sums = scratch.sums;
        for (Index first = 0; first < K; first += LANES) {
            Lanes part = load(scratch.even + first);
            if (share > 0.0) part = fma(splat(share), load(scratch.design + first), part);
            const Lanes root = load(scratch.root + first), product = part * (root * root);
            store(q + first, part);
            store(weight + first, product);
            sums[first / LANES] = sum_lanes(product);
        }
        if (even_ties && all_tied(scratch.log_f, K)) {
            for (Index i = 0; i < K; ++i) {
                q[i] += alpha_emp / double(K);
                weight[i] = q[i];
            }
            for (Index first = 0; first < K; first += LANES) sums[first / LANES] = sum_lanes(load(weight + first));
        } else {
            q[best] += alpha_emp;
            weight[best] = q[best] * (scratch.root[best] * scratch.root[best]);
            sums[best / LANES] = sum_lanes(load(weight + best / LANES * LANES));
        }
    }

    static bool all_tied(const double *log_f, Index K) {
        Index i = 0;
        while (i < K && log_f[i] == 0.0) ++i;
        return i == K;
    }

    // Where q is 0 at the arm with f = 1, shift log f so that the sum of q f cannot vanish; returns it.
    [[gnu::noinline]] static double renormalise(Index K, MedScratch &scratch) {
        double largest = -INF, total = 0.0;
        for (Index i = 0; i < K; ++i)
            if (scratch.q[i] > 0.0) largest = std::max(largest, scratch.log_f[i]);
        for (Index first = 0; first < K; first += LANES) {
            double part = 0.0;
            for (Index i = first; i < std::min(first + LANES, K); ++i) {
                scratch.log_f[i] -= largest;
                scratch.weight[i] = scratch.q[i] > 0.0 ? scratch.q[i] * exp(scratch.log_f[i]) : 0.0;
                part += scratch.weight[i];
            }
            scratch.sums[first / LANES] = part;
            total += part;
        }
        return total;
    }

    // log p_t of every arm; `extra` is the arm of the half-step, −1 without one.
    static void logarithms(Index K, double total, Index extra, const MedScratch &scratch, double *out) {
        constexpr double NORMAL = std::numeric_limits<double>::min();  // below, the logarithm of lanes is not right
        const double log_total = log(total);
        double values[LANES];
        for (Index first = 0; first < K; first += LANES) {
            const Lanes q = load(scratch.q + first), safe = where_greater(q, splat(0.0), q, splat(1.0));
            const Lanes value = log(safe) + load(scratch.log_f + first) - splat(log_total);
            store(values, where_greater(q, splat(0.0), value, splat(-INF)));
            for (unsigned odd = greater(splat(NORMAL), safe); odd; odd &= odd - 1) {
                const Index i = lowest_bit(odd);
                values[i] = log(scratch.q[first + i]) + scratch.log_f[first + i] - log_total;
            }
            std::memcpy(out + first, values, sizeof(double) * std::size_t(std::min(LANES, K - first)));
        }
        if (extra >= 0) out[extra] = log(scratch.weight[extra]) - log_total;
    }

    // The first arm whose running total exceeds `target`; arms of weight 0 are never drawn.
    LINMED_INLINE static Index draw(const MedScratch &scratch, double target) {
        const double *weight = scratch.weight, *sums = scratch.sums;
        double running = 0.0;
        Index i = 0;
        while (i < scratch.sums.size() - 1 && running + sums[i] <= target) running += sums[i++];
        Index arm = LANES * i;
        for (Index j = 0; j < LANES; ++j) running += weight[LANES * i + j], arm += running <= target;
        if (arm == LANES * (i + 1))  // rounding led past the last arm of positive weight
            while (arm > 0 && !(weight[--arm] > 0.0)) {}
        return arm;
    }
};

class MedRule final : public Med {
  public:
    using Med::Med;
    bool asks() const override { return true; }

    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index p, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<MedScratch &>(room);
        if (scratch.few && !log_p && belief.plain) {
            const double *theta = belief.estimate(s), *inverse = belief.covariance(s);
            const Index arm = with_dimension(arms.d, [&](auto d) LINMED_ALWAYS -> Index {
                if constexpr (std::is_same_v<decltype(d), Index>) return -1;  // `few` says otherwise
                else return decide_in_block(d, theta, inverse, 1.0 / sqrt(beta), arms, noise[0], scratch);
            });
            if (arm >= 0) return arm;
        }
        return Med::decide(belief, s, beta, arms, p, noise, room, log_p);
    }

  private:
    // `decide` among up to eight arms without a design and without log p, in registers, from θ̂ and V⁻¹: the same bits. −1
    // where something is out of the ordinary.
    template <class Dim>
    LINMED_INLINE Index decide_in_block(Dim d, const double *theta, const double *M, double sharpness, const Arms &arms,
                                        double uniform, MedScratch &scratch) const {
        const double *block = arms.block(0, nullptr);
        const Lanes mean = inner(block, d, theta);
        const unsigned top = equal(mean, splat(largest_lane(mean)));
        if (!top) return -1;  // not a number
        const Index best = lowest_bit(top);
        double centre[d], ahead[d], difference[d * LANES];
        const double length = centre_on(arms.row(best), M, d, centre, ahead);
        const auto [lengths, gap, distance2] = seen_from(block, d, theta, M, centre, ahead, length, difference);
        const Lanes log_f = log_weights(gap, distance2, sharpness);
        if (greater(log_f, splat(0.0)) || scratch.even[best] + alpha_emp == 0.0) return -1;
        const Lanes root = exp(log_f * splat(0.5)), even = load(scratch.even);
        const Lanes q = where_equal(steps(), splat(double(best)), even + splat(alpha_emp), even);
        alignas(64) double weight[LANES];
        const Lanes qf = q * (root * root);
        store(weight, qf);
        double total = sum_lanes(qf);
        if (explore && greater(lengths, splat(EXPLORE))) {
            const unsigned smaller = greater(splat(largest_lane(lengths)), lengths * splat(EQUAL));
            weight[lowest_bit(~smaller)] += total;
            total += total;
        }
        const double target = uniform * total;
        double running = 0.0;
        Index arm = 0;
        for (Index i = 0; i < arms.K; ++i) running += weight[i], arm += running <= target;
        return arm < arms.K ? arm : -1;
    }
};

// q f as it stands, and what is missing to 1 for â: one trial of the rejection that p ∝ q f asks for.
//
// A proposal from q is played with probability f, and else â, whose own f is 1. So q f is the probability of every other
// arm, whatever the others are.
class OneTrialRule final : public Med {
  public:
    using Med::Med;
    bool asks() const override { return true; }

  protected:
    double settle_mass(Index best, Index, MedScratch &scratch) const override {
        const double rejected = std::max(0.0, 1.0 - sum_of(scratch.sums));
        scratch.q[best] += rejected;
        scratch.weight[best] += rejected;
        scratch.sums[best / LANES] += rejected;
        return sum_of(scratch.sums);
    }
};

}  // namespace linmed
