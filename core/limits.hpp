// Floors and caps: of all laws within them the one nearest to a rule's law p.
//
// The nearest in KL(p'‖p) is p'_i = min(cap_i, max(floor_i, τ p_i)) with the τ for which it sums to 1; the sum grows with
// τ. The members of a group whose mass is at a limit have a τ of their own. Their law at the group's floor and their law at
// its cap are then floors and caps of arms, and one τ for all does the rest.
#pragma once

#include <cstdio>
#include <stdexcept>
#include <string>
#include <vector>

#include "belief.hpp"
#include "sampling.hpp"

namespace linmed {

// Between what the probability of every arm may lie, padded to whole blocks; what lies past the last arm is 0.
struct Bounds {
    Buffer low, high, log_low, log_high;
    explicit Bounds(Index n) : low(padded(n)), high(padded(n)), log_low(padded(n)), log_high(padded(n)) {}
    void set(Index i, double least, double most) {
        low[i] = least, log_low[i] = log(least);
        high[i] = most, log_high[i] = log(most);
    }
};

// The nearest law for up to n arms.
class Projection {
  public:
    explicit Projection(Index n) : weight_(padded(n)), leaves_(padded(n)), meets_(padded(n)), breaks_(2 * n) {}

    // Writes the law p, and its logarithms in place of log_p, of n arms within `bounds` that sums to `total`, which these
    // must allow. All arrays are padded, log_p with −inf.
    //
    // Arms may be so improbable that the exponential underflows beside others. Where those cannot hold the whole mass, they
    // are at their caps, and the rest is a law of its own: in the end of arms of probability 0, which are then alike.
    void operator()(double *log_p, const Bounds &bounds, Index n, double total, double *p) {
        double above = INF;  // arms from here on are at their caps
        for (;;) {
            Lanes tops = splat(-INF), leasts = splat(INF), room = splat(0.0);
            for (Index i = 0; i < padded(n); i += LANES) {
                const Lanes x = load(log_p + i);
                tops = larger(where_greater(splat(above), x, x, splat(-INF)), tops);
            }
            const double top = largest_lane(tops);
            for (Index i = 0; i < padded(n); i += LANES) {
                const Lanes x = load(log_p + i), low = load(bounds.low + i), high = load(bounds.high + i);
                const Lanes open = where_greater(splat(above), x, splat(1.0), splat(0.0));
                const Lanes far = top > -INF ? x - splat(top) : splat(0.0), near = where_greater(splat(0.0), far, far, splat(0.0));
                const Lanes w = exp(near) * open, elsewhere = where_greater(open, splat(0.0), splat(INF), splat(-1.0));
                store(weight_ + i, where_greater(w, splat(SMALLEST), w, splat(0.0)));
                store(leaves_ + i, where_greater(w, splat(SMALLEST), low / w, elsewhere));
                store(meets_ + i, where_greater(w, splat(SMALLEST), high / w, elsewhere));
                room = room + where_greater(w, splat(SMALLEST), high, where_greater(open, splat(0.0), low, high));
                const Lanes seen = where_greater(w, splat(SMALLEST), x, splat(INF));
                leasts = where_greater(leasts, seen, seen, leasts);
            }
            const double least = smallest_lane(leasts), capacity = sum_lanes(room);
            if (capacity >= total || least == -INF || top == -INF) {
                settle_at(end_of_segment(bounds, n, total), log_p, top, bounds, n, total, p);
                return;
            }
            above = least;
        }
    }

  private:
    static constexpr double SMALLEST = 0x1p-1021;  // a cap divided by more is finite

    Buffer weight_, leaves_, meets_, breaks_;  // e^(log p − top); the τ at which an arm leaves its floor and meets its cap

    // The smallest of these τ at which the law sums to `total` or more; ∞ without one.
    double end_of_segment(const Bounds &bounds, Index n, double total) {
        Index first = 0, last = 0;
        for (Index i = 0; i < n; ++i) {
            if (leaves_[i] > 0.0 && leaves_[i] < INF) breaks_[last++] = leaves_[i];
            if (meets_[i] >= 0.0 && meets_[i] < INF) breaks_[last++] = meets_[i];
        }
        double *breaks = breaks_, end = INF;
        while (first < last) {
            const Index middle = first + (last - first) / 2;
            std::nth_element(breaks + first, breaks + middle, breaks + last);
            const double tau = breaks[middle];
            Lanes sum = splat(0.0);
            for (Index i = 0; i < padded(n); i += LANES) {
                const Lanes t = splat(tau), free = where_greater(t, load(leaves_ + i), t * load(weight_ + i), load(bounds.low + i));
                sum = sum + where_greater(t, load(meets_ + i), load(bounds.high + i), free);
            }
            if (sum_lanes(sum) >= total) end = tau, last = middle;
            else first = middle + 1;
        }
        return end;
    }

    // The law where τ is in the segment that ends at `end`: its τ, found from sums in the order of arms.
    void settle_at(double end, double *log_p, double top, const Bounds &bounds, Index n, double total, double *p) {
        double fixed = 0.0, mass = 0.0;
        for (Index i = 0; i < n; ++i) {
            if (end > meets_[i]) fixed += bounds.high[i];
            else if (end > leaves_[i]) mass += weight_[i];
            else fixed += bounds.low[i];
        }
        const double tau = mass > 0.0 ? std::max(total - fixed, 0.0) / mass : 0.0, log_tau = log(tau);
        for (Index i = 0; i < n; ++i) {
            const double value = tau * weight_[i];
            const bool high = end > meets_[i] || value > bounds.high[i];
            if (high || (weight_[i] > 0.0 ? value < bounds.low[i] || end <= leaves_[i] : bounds.low[i] > 0.0)) {
                p[i] = (high ? bounds.high : bounds.low)[i];
                log_p[i] = (high ? bounds.log_high : bounds.log_low)[i];
            } else {
                p[i] = value;
                log_p[i] = top > -INF ? log_tau + (log_p[i] - top) : log_tau;
            }
        }
    }
};

// What is asked of sets of any size: limits for all arms, for some by their place, and for groups of those.
struct Limits {
    struct Named { Index arm; double low, high; Index group; };  // group: −1 for none
    struct Group { std::string name; double low, high; };
    double low, high;
    std::vector<Named> named;
    std::vector<Group> groups;
};

// The limits of K arms. Members of groups that are not among them play no part.
class Limited {
  public:
    Limited(const Limits &limits, Index K)
        : K_(K), own_(K), tight_(limits.groups.empty() ? 0 : K), some_(limits.groups.empty() ? 0 : K), project_(K),
          law_(padded(K)), p_(padded(K)), part_(some_.low.size()), mass_(some_.low.size()) {
        for (Index i = 0; i < K; ++i) own_.set(i, limits.low, limits.high);
        groups_.resize(limits.groups.size());
        std::vector<bool> grouped(K);
        for (const auto &one : limits.named) {
            if (one.arm >= K) continue;
            own_.set(one.arm, one.low, one.high);
            if (one.group >= 0) groups_[one.group].members.push_back(one.arm), grouped[one.arm] = true;
        }
        double least = 0.0, most = 0.0;
        for (Index i = 0; i < K; ++i)
            if (!grouped[i]) least += own_.low[i], most += own_.high[i];
        for (std::size_t g = 0; g < groups_.size(); ++g) {
            const auto &wanted = limits.groups[g];
            auto &group = groups_[g];
            for (Index i : group.members) group.least += own_.low[i], group.most += own_.high[i];
            if (group.members.empty()) continue;
            const std::string its = " of group '" + wanted.name + "' sum to ";
            demand(wanted.low <= group.most + ROUNDING, "floors: the caps" + its, group.most, ", below its floor of ", wanted.low);
            demand(group.least <= wanted.high + ROUNDING, "caps: the floors" + its, group.least, ", above its cap of ", wanted.high);
            group.floors = wanted.low > group.least, group.caps = wanted.high < group.most;
            group.least = std::max(group.least, wanted.low), group.most = std::min(group.most, wanted.high);
            least += group.least, most += group.most;
        }
        const std::string of = (K == 1 ? " of the one arm" : " of these " + std::to_string(K) + " arms") + " sum to ";
        demand(least <= 1.0 + ROUNDING, "floors" + of, least, ": they must sum to at most ", 1.0);
        demand(most >= 1.0 - ROUNDING, "caps" + of, most, ": they must sum to at least ", 1.0);
        for (Index i = 0; i < K; ++i)  // a cap of 1 is none: rounding must not meet it
            if (own_.high[i] >= 1.0) own_.high[i] = INF;
        std::fill(law_ + K, law_ + padded(K), -INF);
    }

    double *law() { return law_; }        // log p (padded(K),), to be written before `limit`
    const double *p() const { return p_; }
    bool at_limit(Index i) const { return p_[i] == own_.low[i] || p_[i] == own_.high[i]; }

    // Limits the law; false where it is within the limits and stays as it is.
    bool limit() {
        if (within()) return false;
        const Bounds *bounds = &own_;
        if (!groups_.empty()) bounds = &tightened();
        project_(law_, *bounds, K_, 1.0, p_);
        return true;
    }

  private:
    static constexpr double ROUNDING = 1e-12;  // floors of a tenth for ten arms are 1
    struct Group {
        std::vector<Index> members;
        double least = 0.0, most = 0.0;     // mass
        bool floors = false, caps = false;  // whether it is limited by more than its members are
    };

    Index K_;
    Bounds own_, tight_, some_;
    Projection project_;
    std::vector<Group> groups_;
    Buffer law_, p_, part_, mass_;

    static void demand(bool holds, const std::string &what, double sum, const char *than, double limit) {
        char text[64];
        std::snprintf(text, sizeof text, "%.9g%s%.9g", sum, than, limit);
        if (!holds) throw std::invalid_argument(what + text);
    }

    bool within() {
        unsigned outside = 0;
        for (Index i = 0; i < padded(K_); i += LANES) {
            const Lanes p = exp(load(law_ + i));
            store(p_ + i, p);
            outside |= greater(load(own_.low + i), p) | greater(p, load(own_.high + i));
        }
        for (const Group &group : groups_) {
            double mass = 0.0;
            for (Index i : group.members) mass += p_[i];
            outside |= (group.floors && mass < group.least) || (group.caps && mass > group.most);
        }
        return !outside;
    }

    // Bounds of arms by which groups keep to theirs.
    const Bounds &tightened() {
        for (auto part : {&Bounds::low, &Bounds::high, &Bounds::log_low, &Bounds::log_high})
            std::copy(own_.*part + 0, own_.*part + padded(K_), static_cast<double *>(tight_.*part));
        for (const Group &group : groups_) {
            if (group.floors) share(group, group.least, tight_.low, tight_.log_low);
            if (group.caps) share(group, group.most, tight_.high, tight_.log_high);
        }
        return tight_;
    }

    // The members' law where the group has this mass.
    void share(const Group &group, double mass, double *bound, double *log_bound) {
        const Index n = Index(group.members.size());
        std::fill(part_ + 0, part_ + padded(n), -INF);
        for (Index j = 0; j < n; ++j) {
            const Index i = group.members[j];
            part_[j] = law_[i];
            some_.low[j] = own_.low[i], some_.high[j] = own_.high[i];
            some_.log_low[j] = own_.log_low[i], some_.log_high[j] = own_.log_high[i];
        }
        for (Index j = n; j < padded(n); ++j) some_.low[j] = some_.high[j] = 0.0;
        project_(part_, some_, n, mass, mass_);
        for (Index j = 0; j < n; ++j) bound[group.members[j]] = mass_[j], log_bound[group.members[j]] = part_[j];
    }
};

// A rule within limits. Where its law is within them already, the arm is the one that it drew.
class LimitedRule final : public Rule {
  public:
    std::shared_ptr<const Rule> rule;
    Limits limits;
    LimitedRule(std::shared_ptr<const Rule> rule, Limits limits) : rule(std::move(rule)), limits(std::move(limits)) {}

    bool asks() const override { return rule->asks(); }
    bool prices() const override { return rule->prices(); }
    std::unique_ptr<Scratch> workspace(Index K, Index d) const override {
        return std::make_unique<Room>(rule->workspace(K, d), Limited(limits, K));
    }
    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index p, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &own = static_cast<Room &>(room);
        double *law = own.limited.law();
        const Index arm = rule->decide(belief, s, beta, arms, p, noise, *own.inner, law);
        const bool other = own.limited.limit();
        if (log_p) std::copy(law, law + arms.K, log_p);
        return other ? invert_cdf(own.limited.p(), arms.K, noise[0]) : arm;
    }
    const double *lesson(const double *row, Index p, Index arm, Scratch &room, double *a) const override {
        return rule->lesson(row, p, arm, *static_cast<Room &>(room).inner, a);
    }
    const double *along(Index arm, const Scratch &room) const override {
        return rule->along(arm, *static_cast<const Room &>(room).inner);
    }
    Index noise_size(Index d) const override { return std::max(rule->noise_size(d), Index(1)); }

  private:
    struct Room : Scratch {
        std::unique_ptr<Scratch> inner;
        Limited limited;
        Room(std::unique_ptr<Scratch> inner, Limited limited) : inner(std::move(inner)), limited(std::move(limited)) {}
    };
};

}  // namespace linmed
