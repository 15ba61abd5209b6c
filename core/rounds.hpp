// Rounds one after the other, for any belief, confidence set and rule.
#pragma once

#include <vector>

#include "utility.hpp"

namespace linmed {

// What is played: T rounds of R decisions. Whatever is the same in all rounds (for all decisions) is given once.
struct World {
    Index T, R, K, width;
    bool arms_change, arms_differ, means_change;  // from round to round, from decision to decision
    const double *arms;    // (T or 1, R or 1, K, width), or width + 2: each arm's value and cost behind it
    const double *means;   // (T or 1, R, K) what each arm pays, or null: then nothing is learned
    const double *errors;  // (T, R) to be added to that, or null
    const double *noise;   // (T, R, noise_size)
    Index noise_size;
    Index stride;  // of rows

    bool priced() const { return stride > width; }
    Worth worth(const double *rows) const { return {rows + width, rows + width + 1, stride}; }
    Index set(Index r) const { return arms_differ ? r : 0; }
    const double *offered(Index t, Index r) const {
        return arms + ((arms_change ? t : 0) * (arms_differ ? R : 1) + set(r)) * K * stride;
    }
    double reward(Index t, Index r, Index arm) const {
        const double mean = means[((means_change ? t : 0) * R + r) * K + arm];
        return errors ? mean + errors[t * R + r] : mean;
    }
};

// Called between rounds, often: raises where the user has asked for an end.
extern void (*between_rounds)();

// Writes played (T,R) and, unless it is null, log_p (T,R,K). A belief of one replica may decide for R sets.
//
// As many replicas go through the rounds together as fit into a cache: a round depends on the one before, replicas do
// not depend on each other, so a processor works on several at once.
template <class B, class S, class R>
void play(B &belief, const S &set, const R &rule, const World &world, int64_t *played, double *log_p) {
    constexpr Index LONG = 1 << 12;      // so much work is long enough for a look at whether to go on
    constexpr Index TOGETHER = 1 << 15;  // numbers of arms and state that are gone through again and again, 256 KiB
    const Index K = world.K, d = world.width, room = Arms::room(K, d);
    const bool several = belief.replicas() > 1, moves = belief.moves();
    const Index together = std::clamp(TOGETHER / (room + 3 * d * d + 1), Index(1), world.R);
    const auto scratch = rule.workspace(K, belief.features());
    Buffer blocks((world.arms_differ ? together : 1) * room), moved(moves ? K * d : 0), room_for_lesson(padded(d));
    Utility utility;
    std::vector<Arms> sets(world.arms_differ ? together : 1, Arms{nullptr, K, d, d, nullptr});
    Index work = LONG;
    for (Index group = 0; group < world.R; group += together)
        for (Index t = 0; t < world.T; ++t) {
            work += K * d * d;
            if (work >= LONG) between_rounds(), work = 0;
            set.before_round();
            double betas[LANES];
            const Index last = std::min(group + together, world.R);
            for (Index r = group; r < last; ++r) {
                if (several && (r - group) % LANES == 0) set.squared_radii(belief, r, std::min(LANES, last - r), betas);
                const Index own = several ? r : 0, place = t * world.R + r, held = world.arms_differ ? r - group : 0;
                const double *offered = world.offered(t, r);
                Arms &arms = sets[held];
                if (moves) {
                    belief.move(own, offered, world.stride, K, moved);
                    arms = pack(moved, K, d, d, blocks + held * room);
                } else if (arms.rows != offered) {
                    arms = pack(offered, K, d, world.stride, blocks + held * room);
                }
                const Index s = belief.row(own);
                const double beta = several ? betas[(r - group) % LANES] : std::min(set.squared_radius(belief, s), Set::LARGEST);
                const double *noise = world.noise + place * world.noise_size;
                double *law = log_p ? log_p + place * K : nullptr;
                const Index arm =
                    world.priced() ? rule.decide(utility.over(belief, s, arms, world.worth(offered)), s, beta, arms,
                                                 world.set(r), noise, *scratch, law)
                                   : rule.decide(belief, s, beta, arms, world.set(r), noise, *scratch, law);
                played[place] = arm;
                if (!world.means) continue;
                const double *a = rule.lesson(offered + arm * world.stride, world.set(r), arm, *scratch, room_for_lesson);
                if (const double *along = rule.along(arm, *scratch)) belief.absorb_along(own, a, along, world.reward(t, r, arm));
                else belief.absorb(own, a, world.reward(t, r, arm));
            }
        }
}

// One live agent: the first replica of a belief, a set and a rule, with scratch that is kept between decisions.
class Live {
  public:
    Live(Belief &belief, const Set &set, const Rule &rule) : belief_(belief), set_(set), rule_(rule) {}

    // The arm that `noise` draws among rows (K,width) that are worth this; writes log p (K,).
    Index decide(const double *rows, Index K, const double *noise, double *log_p, const Worth &worth) {
        const Index d = belief_.width();
        if (K != K_) {
            scratch_ = rule_.workspace(K, belief_.features());
            blocks_ = Buffer(Arms::room(K, d));
            moved_ = Buffer(belief_.moves() ? K * d : 0);
            K_ = K;
        }
        if (belief_.moves()) belief_.move(0, rows, d, K, moved_);
        const Arms arms = pack(belief_.moves() ? moved_ : rows, K, d, d, blocks_);
        const Index s = belief_.row(0);
        set_.before_round();
        const double beta = std::min(set_.squared_radius(belief_, s), Set::LARGEST);
        if (!worth) return rule_.decide(belief_, s, beta, arms, 0, noise, *scratch_, log_p);
        return rule_.decide(utility_.over(belief_, s, arms, worth), s, beta, arms, 0, noise, *scratch_, log_p);
    }
    void learn(const double *arm, double reward) { belief_.absorb(0, arm, reward); }
    void learn_at(const double *arm, double reward, double time) { belief_.absorb_at(0, arm, reward, time); }
    Index width() const { return belief_.width(); }
    Index noise_size() const { return rule_.noise_size(belief_.d); }

  private:
    Belief &belief_;
    const Set &set_;
    const Rule &rule_;
    std::unique_ptr<Rule::Scratch> scratch_;
    Buffer blocks_, moved_;
    Utility utility_;
    Index K_ = -1;
};

}  // namespace linmed
