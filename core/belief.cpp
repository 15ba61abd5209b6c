// What every belief answers that has no answer of its own.
#include "belief.hpp"

#include "med.hpp"
#include "rounds.hpp"
#include "thompson.hpp"
#include "utility.hpp"

namespace linmed {

void (*between_rounds)() = [] {};

void Belief::expect(Index s, const Arms &arms, double *mean) const { products(arms, estimate(s), mean); }

void Belief::look_at(Index s, const Arms &arms, double *mean, double *leverage, double *) const {
    products_and_lengths(arms, estimate(s), covariance(s), mean, leverage);
}

Belief::Weighed Belief::weigh_all(Index s, const Arms &arms, double sharpness, MedScratch &scratch) const {
    return weigh_arms(estimate(s), covariance(s), sharpness, arms, scratch);
}

double Belief::design_counts(Index, const Arms &arms, int version, bool optimal, MedScratch &scratch) const {
    return augmented_counts(arms, scratch.log_f, scratch.root, version, optimal, scratch.scale, scratch.design,
                            scratch.weight, scratch.desk);
}

void Belief::factor_precision(Index s, double smallest, double *U) const { factor(gram + s * d * d, d, smallest, U); }

void Belief::forecast(Index s, const Arms &arms, double *mean, double *room, double *scratch) const {
    look_at(s, arms, mean, room, scratch);
    for (Index i = 0; i < arms.K; ++i) mean[i] /= 1.0 + room[i];
}

void Belief::apart(Index s, const Arms &arms, const double *scale, Index best, double *distance2, double *room) const {
    const Index d = arms.d;
    const Intercept c = intercept(s);
    OneBlock one(arms);
    for (Index first = 0; first < arms.K; first += LANES) {
        const double *a = arms.block(first, one), *b = arms.row(best);
        const Lanes own = load(scale + first), more = (own - splat(scale[best])) * splat(c.one);
        Lanes cross = splat(0.0);
        for (Index k = 0; k < d; ++k) {
            const Lanes x = load(a + k * LANES) * own - splat(b[k] * scale[best]);
            store(room + k * LANES, x);
            if (c.cross) cross = fma(x, splat(c.cross[k]), cross);
        }
        const Lanes whole = squared_length(room, d, covariance(s), d) + more * (splat(2.0) * cross + more * splat(c.corner));
        store(distance2 + first, larger(whole, splat(0.0)));
    }
}

// ---- what arms are worth --------------------------------------------------------------------------------------------

bool Utility::show(const Belief &inner, Index s, const Arms &arms, const Worth &worth) {
    const Index K = arms.K, n = padded(K);
    if (gain_.size() != n) value_ = Buffer(n), cost_ = Buffer(n), scale_ = Buffer(n), gain_ = Buffer(n);
    if (best_.size() != arms.d) room_ = Buffer(LANES * arms.d), ahead_ = Buffer(padded(arms.d)), best_ = Buffer(arms.d);
    bool free = true;  // of cost
    flat_ = true;
    for (Index i = 0; i < n; ++i) {
        const Index from = (i < K ? i : 0) * worth.stride;
        value_[i] = worth.value ? worth.value[from] : 1.0, cost_[i] = worth.cost ? worth.cost[from] : 0.0;
        flat_ = flat_ && value_[i] == 1.0, free = free && cost_[i] == 0.0;
    }
    inner_ = &inner;
    d = inner.d, theta = inner.theta, inverse = inner.inverse, gram = inner.gram;
    logdet = inner.logdet, rss = inner.rss, leveraged = inner.leveraged, excess = inner.excess;
    inner.expect(s, arms, gain_);
    std::fill(gain_ + K, gain_ + n, gain_[0]);
    const double level = inner.intercept(s).value;
    if (level != 0.0)
        for (Index i = 0; i < n; ++i) gain_[i] += level;
    std::copy(value_ + 0, value_ + n, scale_ + 0);
    const bool nothing = flat_ && free;
    if (inner.link(s, n, gain_, scale_)) flat_ = false;
    for (Index i = 0; i < n; ++i) gain_[i] = value_[i] * gain_[i] - cost_[i];
    return !nothing;
}

Belief::Weighed Utility::weigh_all(Index s, const Arms &arms, double sharpness, MedScratch &scratch) const {
    const Index K = arms.K, best = best_of_all(K);
    double *distance2 = scratch.q, largest;
    if (flat_ && inner_->plain) {  // in one pass
        const double length = centre_on(arms.row(best), covariance(s), d, best_, ahead_);
        Lanes widest = splat(0.0);
        OneBlock one(arms);
        for (Index first = 0; first < K; first += LANES) {
            const auto seen = seen_from(arms.block(first, one), d, estimate(s), covariance(s), best_, ahead_, length, room_);
            widest = larger(seen.lengths, widest);
            store(scratch.leverage + first, seen.lengths);
            store(distance2 + first, seen.distance2);
        }
        largest = largest_lane(widest);
    } else {
        largest = inner_->weigh_all(s, arms, sharpness, scratch).largest;
        inner_->apart(s, arms, scale_, best, distance2, room_);
    }
    scratch.centre = -1;
    for (Index first = 0; first < K; first += LANES) {
        const Lanes gap = larger(splat(gain_[best]) - load(gain_ + first), splat(0.0));
        Lanes value = log_weights(gap, load(distance2 + first), sharpness);
        value = where_greater(value, splat(0.0), splat(LOWEST), value);  // the same features, and dearer
        store(scratch.log_f + first, value);
        store(scratch.root + first, exp(value * splat(0.5)));
    }
    return {best, largest};
}

Index Utility::best_of_all(Index K) const {
    return arg_largest(K, [&](Index first) { return load(gain_ + first); });
}

}  // namespace linmed
