#include "bind.hpp"

#include "confidence.hpp"
#include "lists.hpp"
#include "med.hpp"
#include "ridge.hpp"
#include "rounds.hpp"
#include "sampling.hpp"

namespace linmed {

constexpr double LARGEST_ENTRY = 1e100;  // of a feature or a reward: its square is still far from overflow

constexpr Index WORTH = 2;               // columns behind the features: value and cost

static bool all_within(const double *x, Index n, double bound) {
    int outside = 0;
    for (Index i = 0; i < n; ++i) outside |= !(fabs(x[i]) <= bound);
    return !outside;
}

// Whether values (n,) are above 0 and costs not below, entries `stride` apart.
static bool sensible(const Worth &worth, Index n) {
    int wrong = 0;
    for (Index i = 0; i < n; ++i) {
        if (worth.value) wrong |= !(worth.value[i * worth.stride] > 0.0 && worth.value[i * worth.stride] <= LARGEST_ENTRY);
        if (worth.cost) wrong |= !(worth.cost[i * worth.stride] >= 0.0 && worth.cost[i * worth.stride] <= LARGEST_ENTRY);
    }
    return !wrong;
}

// A belief whose arms are more than their features has no θ̂ for a rule to multiply with them.
static bool suits(const Rule &rule, const Belief &belief) { return rule.asks() || belief.features() == belief.width(); }

static void play_arrays(const Held<Belief> &belief, const Held<Set> &set, const Held<Rule> &rule, In<4> arms, In<3> means,
                        In<2> errors, In<3> noise, OutInts<2> played, Out<3> log_p) {
    const Index T = played.shape(0), R = played.shape(1), K = arms.shape(2), stride = arms.shape(3), width = belief->width();
    const auto fits = [](Index n, Index whole) { return n == whole || n == 1; };
    demand(stride == width || stride == width + WORTH, "arms and state differ in dimension");
    demand(suits(*rule, *belief), "this rule cannot decide by models of items");
    demand(stride == width || rule->prices(), "this rule takes no values and costs");
    demand(belief->replicas() == R || belief->replicas() == 1, "state and decisions differ in replicas");
    demand(fits(arms.shape(0), T) && fits(arms.shape(1), R) && K > 0, "arms must be (T or 1, R or 1, K, d)");
    demand(means.shape(0) == 0 || (fits(means.shape(0), T) && Index(means.shape(1)) == R && Index(means.shape(2)) == K),
           "rewards must be (T or 1, R, K), or T = 0");
    demand(errors.shape(0) == 0 || (Index(errors.shape(0)) == T && Index(errors.shape(1)) == R), "errors must be (T, R), or T = 0");
    demand(Index(noise.shape(0)) == T && Index(noise.shape(1)) == R && Index(noise.shape(2)) >= rule->noise_size(belief->d),
           "noise must be (T, R, noise_size)");
    demand(log_p.shape(0) == 0 || (Index(log_p.shape(0)) == T && Index(log_p.shape(1)) == R && Index(log_p.shape(2)) == K),
           "log_p must be (T, R, K), or T = 0");
    const World world{T, R, K, width, arms.shape(0) > 1, arms.shape(1) > 1, means.shape(0) > 1, arms.data(),
                      means.shape(0) ? means.data() : nullptr, errors.shape(0) ? errors.data() : nullptr, noise.data(),
                      Index(noise.shape(2)), stride};
    demand(!world.priced() || sensible(world.worth(arms.data()), Index(arms.size()) / stride), "values must be above 0, costs not below");
    double *laws = log_p.shape(0) ? log_p.data() : nullptr;
    Unlocked unlocked(T * R * K * width);
    auto *ridge = dynamic_cast<Ridge *>(belief.object.get());
    auto *radius = dynamic_cast<const RidgeSet *>(set.object.get());
    auto *med = dynamic_cast<const MedRule *>(rule.object.get());
    if (ridge && radius && med)  // the commonest combination by far, compiled as one
        play(*ridge, *radius, *med, world, played.data(), laws);
    else
        play<Belief, Set, Rule>(*belief, *set, *rule, world, played.data(), laws);
}

static void observe_arrays(const Held<Belief> &belief, In<2> features, In<1> rewards, InInts<1> owners,
                           std::optional<In<1>> times) {
    const Index n = features.shape(0), width = features.shape(1), R = belief->replicas();
    demand(width == belief->width() && Index(rewards.shape(0)) == n && Index(owners.shape(0)) == n &&
               (!times || Index(times->shape(0)) == n), "features must be (m, d), rewards, replicas and times (m,)");
    for (Index i = 0; i < n; ++i) demand(owners.data()[i] >= 0 && owners.data()[i] < R, "replicas must be those of the state");
    Unlocked unlocked(n * width * width);
    for (Index i = 0; i < n; ++i) {
        between_rounds();
        const double *a = features.data() + i * width;
        if (times) belief->absorb_at(owners.data()[i], a, rewards.data()[i], times->data()[i]);
        else belief->absorb(owners.data()[i], a, rewards.data()[i]);
    }
}

constexpr size_t ROWS_NOTED = 256;

// One more reward of a row of features, by its bytes: [its first reward, how many more, Σ(y − first), Σ(y − first)²]. The first
// ROWS_NOTED rows are kept; see linmed.insight.assumptions.
static void note(nb::dict rows, nb::bytes key, double reward) {
    if (!rows.contains(key)) {
        if (rows.size() >= ROWS_NOTED) return;
        nb::list row;
        for (const double x : {reward, 0.0, 0.0, 0.0}) row.append(x);
        rows[key] = row;
        return;
    }
    const auto row = nb::cast<nb::list>(rows[key]);
    const double apart = reward - nb::cast<double>(row[0]), more[] = {1.0, apart, apart * apart};
    for (int i = 0; i < 3; ++i) row[i + 1] = nb::cast<double>(row[i + 1]) + more[i];
}

// Random numbers of decisions to come (T,1,size): an array that is looked at once and not for every decision.
struct Noise {
    In<3> rows;
    Index size() const { return Index(rows.shape(2)); }
};

// A live agent, and what it works on.
struct Bound {
    Held<Belief> belief;
    Held<Set> set;
    Held<Rule> rule;
    Live live;
    Bound(Held<Belief> b, Held<Set> s, Held<Rule> r) : belief(b), set(s), rule(r), live(*belief, *set, *rule) {
        demand(belief->replicas() > 0, "the state must have a replica");
    }
    Worth worth(const std::optional<In<1>> &values, const std::optional<In<1>> &costs, Index K) const {
        if (!values && !costs) return {nullptr, nullptr, 1};
        demand(rule->prices(), "this rule takes no values and costs");
        demand((!values || Index(values->shape(0)) == K) && (!costs || Index(costs->shape(0)) == K), "values and costs must be (K,)");
        return {values ? values->data() : nullptr, costs ? costs->data() : nullptr, 1};
    }
};

// The law of a list, and what it works on.
struct BoundList {
    Held<Belief> belief;
    Held<Set> set;
    Held<Rule> rule;
    In<2> rows;
    ListLaw law;
    BoundList(const Bound &bound, In<2> arms)
        : belief(bound.belief), set(bound.set), rule(bound.rule), rows(arms),
          law(*belief, *set, *rule, arms.data(), Index(arms.shape(0))) {}
};

void bind_rounds(nb::module_ &m) {
    m.def("play", &play_arrays, "belief"_a, "set"_a, "rule"_a, "arms"_a.noconvert(), "rewards"_a.noconvert(),
          "errors"_a.noconvert(), "noise"_a.noconvert(), "played"_a.noconvert(), "log_p"_a.noconvert());
    m.def("observe", &observe_arrays, "belief"_a, "features"_a.noconvert(), "rewards"_a.noconvert(), "replicas"_a.noconvert(),
          "times"_a.noconvert() = nb::none());
    // Whether the belief could follow that the first replica's reward of an arm (d,) was `after`, not `before`.
    m.def("correct", [](const Held<Belief> &belief, In<1> arm, double before, double after) {
        demand(Index(arm.shape(0)) == belief->width() && belief->replicas() == 1, "arm must be (d,), and the state of one replica");
        return belief->correct(0, arm.data(), before, after);
    }, "belief"_a, "arm"_a.noconvert(), "before"_a, "after"_a);
    m.def("radii", [](const Held<Belief> &belief, const Held<Set> &set, Out<1> out) {
        const Index R = belief->replicas();
        demand(Index(out.shape(0)) == R, "out must be (R,)");
        set->before_round();
        for (Index r = 0; r < R; ++r) out.data()[r] = sqrt(set->squared_radius(*belief, belief->row(r)));
    }, "belief"_a, "set"_a, "out"_a.noconvert());
    // Of arms (R or 1, K, width + 2) in every replica: û (R,K), v μ′(z) (R,K), and the features that rules see (R,K,width).
    m.def("utilities", [](const Held<Belief> &belief, In<3> arms, Out<2> gains, Out<2> scales, Out<3> seen) {
        const Index R = gains.shape(0), K = arms.shape(1), stride = arms.shape(2), d = belief->width();
        demand(stride == d + WORTH && K > 0, "arms must be (R or 1, K, d + 2)");
        demand((belief->replicas() == R || belief->replicas() == 1) && (Index(arms.shape(0)) == R || arms.shape(0) == 1) &&
                   Index(gains.shape(1)) == K && scales.size() == gains.size() && Index(seen.size()) == R * K * d,
               "gains and scales must be (R, K), seen (R, K, d)");
        Utility utility;
        Buffer blocks(Arms::room(K, d));
        for (Index r = 0; r < R; ++r) {
            const Index own = belief->replicas() > 1 ? r : 0;
            const double *rows = arms.data() + (arms.shape(0) > 1 ? r : 0) * K * stride;
            double *moved = seen.data() + r * K * d;
            if (belief->moves()) belief->move(own, rows, stride, K, moved);
            else
                for (Index i = 0; i < K; ++i) std::copy(rows + i * stride, rows + i * stride + d, moved + i * d);
            utility.show(*belief, belief->row(own), pack(moved, K, d, d, blocks), {rows + d, rows + d + 1, stride});
            std::copy(utility.gains(), utility.gains() + K, gains.data() + r * K);
            std::copy(utility.scales(), utility.scales() + K, scales.data() + r * K);
        }
    }, "belief"_a, "arms"_a.noconvert(), "gains"_a.noconvert(), "scales"_a.noconvert(), "seen"_a.noconvert());
    nb::class_<Noise>(m, "Noise").def("__init__", [](Noise *noise, In<3> rows) { new (noise) Noise{rows}; }, "rows"_a.noconvert());
    nb::class_<Bound>(m, "Live")
        .def(nb::init<Held<Belief>, Held<Set>, Held<Rule>>())
        // The arm, or −1 where some entry is not acceptable; writes log_p (K,).
        .def("decide", [](Bound &bound, In<2> arms, In<3> noise, Index t, Out<1> log_p, std::optional<In<1>> values,
                          std::optional<In<1>> costs) {
            const Index K = arms.shape(0), width = arms.shape(1);
            demand(width == bound.live.width() && K > 0 && Index(log_p.shape(0)) == K, "arms must be (K, d), log_p (K,)");
            demand(t >= 0 && t < Index(noise.shape(0)) && Index(noise.shape(2)) >= bound.live.noise_size(), "noise must be (T, 1, size)");
            demand(suits(*bound.rule, *bound.belief), "this rule cannot decide by models of items");
            const Worth worth = bound.worth(values, costs, K);
            if (!all_within(arms.data(), K * width, LARGEST_ENTRY) || !sensible(worth, K)) return Index(-1);
            Unlocked unlocked(K * width);
            return bound.live.decide(arms.data(), K, noise.data() + t * noise.shape(2), log_p.data(), worth);
        }, "arms"_a.noconvert(), "noise"_a.noconvert(), "t"_a, "log_p"_a.noconvert(), "values"_a.noconvert() = nb::none(),
           "costs"_a.noconvert() = nb::none())
        // The same as (arm, log p of it, log_p of all, the arm's vector), both as bytes; None where an entry is not acceptable.
        .def("draw", [](Bound &bound, In<2> arms, const Noise &noise, Index t, std::optional<In<1>> values,
                        std::optional<In<1>> costs) -> nb::object {
            const Index K = arms.shape(0), width = arms.shape(1);
            demand(width == bound.live.width() && K > 0, "arms must be (K, d)");
            demand(t >= 0 && t < Index(noise.rows.shape(0)) && noise.size() >= bound.live.noise_size(), "noise must be (T, 1, size)");
            demand(suits(*bound.rule, *bound.belief), "this rule cannot decide by models of items");
            const Worth worth = bound.worth(values, costs, K);
            if (!all_within(arms.data(), K * width, LARGEST_ENTRY) || !sensible(worth, K)) return nb::none();
            nb::bytes law(nullptr, sizeof(double) * size_t(K));
            double *log_p = reinterpret_cast<double *>(PyBytes_AsString(law.ptr()));
            Index arm;
            {
                Unlocked unlocked(K * width);
                arm = bound.live.decide(arms.data(), K, noise.rows.data() + t * noise.size(), log_p, worth);
            }
            const double chance = log_p[arm];
            nb::bytes vector(arms.data() + arm * width, sizeof(double) * size_t(width));
            return nb::make_tuple(arm, chance, std::move(law), std::move(vector));
        }, "arms"_a.noconvert(), "noise"_a, "t"_a, "values"_a.noconvert() = nb::none(), "costs"_a.noconvert() = nb::none())
        // One reward. The decision that it is for, named in the dictionary of those that wait, waits no longer, and the reward is
        // noted among its row's: in one step, which Ctrl-C cannot part.
        .def("learn", [](Bound &bound, nb::bytes features, double reward, std::optional<double> time,
                         std::optional<nb::dict> waiting, nb::handle name, std::optional<nb::dict> rows) {
            demand(features.size() == sizeof(double) * size_t(bound.live.width()), "features must be (d,)");
            const auto *arm = static_cast<const double *>(features.data());
            if (time) bound.live.learn_at(arm, reward, *time);
            else bound.live.learn(arm, reward);
            if (waiting) nb::del((*waiting)[name]);
            if (rows) note(*rows, features, reward);
        }, "features"_a, "reward"_a, "time"_a = nb::none(), "waiting"_a = nb::none(), "name"_a = nb::none(),
             "rows"_a = nb::none());
    m.def("note", &note, "rows"_a, "features"_a, "reward"_a);
    nb::class_<BoundList>(m, "ListLaw")
        .def("__init__", [](BoundList *list, const Bound &bound, In<2> arms) {
            demand(Index(arms.shape(1)) == bound.live.width() && arms.shape(0) > 0, "arms must be (K, d)");
            demand(suits(*bound.rule, *bound.belief), "this rule cannot decide by models of items");
            new (list) BoundList(bound, arms);
        }, "live"_a, "arms"_a.noconvert())
        // The place among `left` of the arm that is drawn; writes log_p of each.
        .def("draw", [](BoundList &list, InInts<1> left, bool first, In<1> noise, Out<1> log_p) {
            const Index n = left.shape(0), K = list.law.arms();
            demand(n > 0 && Index(log_p.shape(0)) == n && Index(noise.shape(0)) >= list.law.noise_size(),
                   "left and log_p must be (n,), noise (size,)");
            for (Index i = 0; i < n; ++i)
                demand(left.data()[i] >= (i ? left.data()[i - 1] + 1 : 0) && left.data()[i] < K, "left must be rising numbers of arms");
            Unlocked unlocked(n * list.rows.shape(1));
            return list.law.draw(left.data(), n, first, noise.data(), log_p.data());
        }, "left"_a.noconvert(), "first"_a, "noise"_a.noconvert(), "log_p"_a.noconvert());
    m.def("all_within", [](In<2> array, double bound) { return all_within(array.data(), Index(array.size()), bound); },
          "array"_a.noconvert(), "bound"_a);
    // One arm per row by the uniforms in noise (R,1); the sum of the first row that is no law, else 1.
    m.def("sample", [](In<2> log_probabilities, In<2> noise, OutInts<1> out) {
        const Index R = log_probabilities.shape(0), K = log_probabilities.shape(1);
        demand(Index(noise.shape(0)) == R && noise.shape(1) > 0 && Index(out.shape(0)) == R, "noise must be (R, 1), out (R,)");
        Buffer weights(K);
        for (Index r = 0; r < R; ++r) {
            double total = 0.0;
            for (Index i = 0; i < K; ++i) {
                weights[i] = exp(log_probabilities.data()[r * K + i]);
                total += weights[i];
            }
            if (!(fabs(total - 1.0) <= 1e-6)) return total;  // an integral's error; a rule that forgot to normalise is further off
            out.data()[r] = invert_cdf(weights, K, noise.data()[r * noise.shape(1)] * total);
        }
        return 1.0;
    }, "log_probabilities"_a.noconvert(), "noise"_a.noconvert(), "out"_a.noconvert());
    // One arm per row from the floored probabilities (R,K) by the uniforms in noise (R,1).
    m.def("draw", [](In<2> probabilities, double floor, In<2> noise, OutInts<1> out) {
        const Index R = probabilities.shape(0), K = probabilities.shape(1);
        demand(Index(noise.shape(0)) == R && noise.shape(1) > 0 && Index(out.shape(0)) == R, "noise must be (R, 1), out (R,)");
        Buffer weights(K);
        for (Index r = 0; r < R; ++r) {
            for (Index i = 0; i < K; ++i) weights[i] = floored(probabilities.data()[r * K + i], floor, K);
            out.data()[r] = invert_cdf(weights, K, noise.data()[r * noise.shape(1)]);
        }
    }, "probabilities"_a.noconvert(), "floor"_a, "noise"_a.noconvert(), "out"_a.noconvert());
    // log p (K,) becomes log(share·q + (1 − share)·p), for log q (K,).
    m.def("mix", [](Out<1> log_p, In<1> log_q, double share) {
        demand(log_p.shape(0) == log_q.shape(0), "both laws must be (K,)");
        const double own = log1p(-share), other = log(share);
        for (Index i = 0; i < Index(log_p.shape(0)); ++i) {
            const double x = own + log_p.data()[i], y = other + log_q.data()[i], top = std::max(x, y);
            log_p.data()[i] = top > -INF ? top + log1p(exp(std::min(x, y) - top)) : -INF;
        }
    }, "log_p"_a.noconvert(), "log_q"_a.noconvert(), "share"_a);
}

}  // namespace linmed
