// The rule that looks at no arm, and rules that hold other rules.
#pragma once

#include "belief.hpp"

namespace linmed {

// ⌊uK⌋ for a uniform u; whatever else u is, one of the K arms.
LINMED_INLINE Index even_arm(double u, Index K) {
    const double place = u * double(K);
    return place < double(K - 1) ? (place > 0.0 ? Index(place) : 0) : (place >= 0.0 ? K - 1 : 0);
}

// Every arm with probability 1/K.
class UniformRule final : public Rule {
  public:
    bool asks() const override { return true; }
    std::unique_ptr<Scratch> workspace(Index, Index) const override { return std::make_unique<Scratch>(); }
    Index decide(const Belief &, Index, double, const Arms &arms, Index, const double *noise, Scratch &,
                 double *log_p) const override {
        if (log_p) std::fill(log_p, log_p + arms.K, -log(double(arms.K)));
        return even_arm(noise[0], arms.K);
    }
};

// A share of the mass for all arms alike, before a rule that knows no floor.
//
// One uniform, the first of the noise, says whether all arms are alike: below `share` it draws among them, u/share being
// uniform again; else (u − share)/(1 − share) is, and the rule decides with that. The rule is asked either way, because
// it may learn something from having been asked.
class FlooredRule final : public Rule {
  public:
    std::shared_ptr<const Rule> rule;
    double share;
    FlooredRule(std::shared_ptr<const Rule> rule, double share) : rule(std::move(rule)), share(share) {}

    bool asks() const override { return rule->asks(); }
    bool prices() const override { return rule->prices(); }
    std::unique_ptr<Scratch> workspace(Index K, Index d) const override {
        return std::make_unique<Room>(rule->workspace(K, d));
    }
    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index p, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &own = static_cast<Room &>(room);
        const Index K = arms.K, draws = rule->noise_size(belief.d);
        if (own.noise.size() < draws) own.noise = Buffer(draws);
        return around(noise, K, draws, own.noise, log_p, [&](const double *inner, double *out) {
            return rule->decide(belief, s, beta, arms, p, inner, *own.inner, out);
        });
    }
    // What `decide(noise, log_p)` draws and says, with the share for all K arms alike; room (draws,).
    template <class F>
    Index around(const double *noise, Index K, Index draws, double *room, double *log_p, F decide) const {
        std::copy(noise, noise + draws, room);
        const double uniform = noise[0];
        const bool evenly = uniform < share;
        if (draws > 0) room[0] = evenly ? 0.0 : std::min((uniform - share) / (share < 1.0 ? 1.0 - share : 1.0), BELOW_ONE);
        const Index arm = decide(room, log_p);
        if (log_p) {
            const double rest = share < 1.0 ? log1p(-share) : -INF, even = log(share / double(K));
            for (Index i = 0; i < K; ++i) log_p[i] = log_of_sum(rest + log_p[i], even);
        }
        return evenly ? even_arm(uniform / share, K) : arm;
    }
    const double *lesson(const double *row, Index p, Index arm, Scratch &room, double *a) const override {
        return rule->lesson(row, p, arm, *static_cast<Room &>(room).inner, a);
    }
    Index noise_size(Index d) const override { return std::max(rule->noise_size(d), Index(1)); }

  private:
    static constexpr double BELOW_ONE = 0x1.fffffffffffffp-1;

    struct Room : Scratch {
        std::unique_ptr<Scratch> inner;
        Buffer noise;  // what the rule is given
        explicit Room(std::unique_ptr<Scratch> inner) : inner(std::move(inner)) {}
    };

    // log(exp(x) + exp(y)) for a finite y.
    static double log_of_sum(double x, double y) {
        return x > y ? x + log1p(exp(y - x)) : y + log1p(exp(x - y));
    }
};

// `first` as long as no reward is known, `then` from the first one on. Both take the same noise.
class OpeningRule final : public Rule {
  public:
    std::shared_ptr<const Rule> first, then;
    OpeningRule(std::shared_ptr<const Rule> first, std::shared_ptr<const Rule> then)
        : first(std::move(first)), then(std::move(then)) {}

    bool asks() const override { return first->asks() && then->asks(); }
    bool prices() const override { return first->prices() && then->prices(); }
    std::unique_ptr<Scratch> workspace(Index K, Index d) const override {
        return std::make_unique<Room>(first->workspace(K, d), then->workspace(K, d));
    }
    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index p, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &own = static_cast<Room &>(room);
        own.opening = belief.count(s) == 0.0;
        return asked(own)->decide(belief, s, beta, arms, p, noise, scratch_of(own), log_p);
    }
    const double *lesson(const double *row, Index p, Index arm, Scratch &room, double *a) const override {
        auto &own = static_cast<Room &>(room);
        return asked(own)->lesson(row, p, arm, scratch_of(own), a);
    }
    Index noise_size(Index d) const override { return std::max(first->noise_size(d), then->noise_size(d)); }

  private:
    struct Room : Scratch {
        std::unique_ptr<Scratch> first, then;
        bool opening = true;  // which of the two was asked last
        Room(std::unique_ptr<Scratch> first, std::unique_ptr<Scratch> then) : first(std::move(first)), then(std::move(then)) {}
    };
    const Rule *asked(const Room &room) const { return (room.opening ? first : then).get(); }
    static Scratch &scratch_of(const Room &room) { return *(room.opening ? room.first : room.then); }
};

}  // namespace linmed
