#include "bind.hpp"

#include "glm.hpp"
#include "ope.hpp"

namespace linmed {

// Decisions whose arms stand in a list of `size` places and whose `chosen` are below `most`; none has more arms than
// `widest`.
static Decisions decisions(InInts<1> offsets, InInts<1> chosen, In<1> rewards, Index size, Index most, Index widest) {
    const Index n = rewards.shape(0);
    demand(Index(offsets.shape(0)) == n + 1 && Index(chosen.shape(0)) == n,
           "offsets must be (n + 1,), chosen and rewards (n,)");
    bool rise = offsets.data()[0] >= 0 && offsets.data()[n] <= size, within = true;
    for (Index t = 0; t < n; ++t) {
        const int64_t from = offsets.data()[t], to = offsets.data()[t + 1];
        rise = rise && from >= 0 && to >= from && to - from <= widest;
        within = within && chosen.data()[t] >= 0 && chosen.data()[t] < most;
    }
    demand(rise, "offsets must rise to the number of arms, by at most as many as there are parameters");
    demand(within, "chosen must be arms that were there");
    return {n, offsets.data(), chosen.data(), rewards.data()};
}

static void predict_learn(const Held<Belief> &belief, In<2> arms, InInts<1> offsets, InInts<1> chosen, In<1> rewards,
                          Out<1> out) {
    const Index size = arms.shape(0), d = arms.shape(1);
    demand(belief->replicas() == 1 && d == belief->width() && d == belief->d,
           "arms must be (ΣK, d), for a belief of one replica");
    demand(Index(out.shape(0)) == size, "out must be (ΣK,)");
    const Decisions log = decisions(offsets, chosen, rewards, size, size, size);
    const auto *glm = dynamic_cast<const GlmBelief<GlmRows<int64_t>> *>(belief.object.get());
    if (!glm && !dynamic_cast<const Ridge *>(belief.object.get())) throw nb::type_error("belief must be a Ridge or a Glm");
    const auto learn_by = [&](auto expected) {
        predict_then_learn(BeliefModel<decltype(expected)>{*belief, expected, arms.data(), d}, log, out.data());
    };
    Unlocked unlocked(size * d);
    if (glm) learn_by([&](const double *a) { return glm->model.predict(glm->row(0), a); });
    else learn_by([&](const double *a) {
        double predicted = 0.0;
        for (Index k = 0; k < d; ++k) predicted += a[k] * belief->theta[k];
        return predicted;
    });
}

void bind_ope(nb::module_ &m) {
    m.def("moments", [](In<1> x) {
        demand(x.shape(0) > 0, "x must not be empty");
        const auto [mean, scatter] = moments(x.data(), Index(x.shape(0)));
        return std::make_tuple(mean, scatter);
    }, "x"_a);
    m.def("ends_of_rewards", [](In<1> weight, In<1> reward) {
        demand(weight.shape(0) == reward.shape(0), "weight and reward must be (n,)");
        const auto found = ends_of_rewards(weight.data(), reward.data(), Index(weight.shape(0)));
        return std::make_tuple(found.weight, found.count, found.low, found.at_low, found.high, found.at_high);
    }, "weight"_a, "reward"_a);
    m.def("ends", [](In<1> x) {
        demand(x.shape(0) > 0, "x must not be empty");
        const auto [smallest, largest] = ends(x.data(), Index(x.shape(0)));
        return std::make_tuple(smallest, largest);
    }, "x"_a);

    m.attr("CUT") = Betting::CUT;
    const auto same_bets = [](Index gains, Index bets) {
        demand(gains == Betting::BETS && bets == Betting::BETS, "gains and bets must be (32,)");
    };
    m.def("betting", [same_bets](Out<1> gains, In<1> bets, In<1> x, In<1> shift) {
        same_bets(gains.shape(0), bets.shape(0));
        demand(x.shape(0) == shift.shape(0), "x and shift must be (n,)");
        Unlocked unlocked(Index(x.shape(0)));
        Betting(gains.data(), bets.data()).add(x.data(), shift.data(), Index(x.shape(0)));
    }, "gains"_a.noconvert(), "bets"_a, "x"_a, "shift"_a);
    m.def("cut_betting", [same_bets](Out<1> gains, In<1> bets, In<1> x, In<1> shift, In<1> mass, In<1> guard,
                                     In<1> probability, InInts<1> offsets, InInts<1> chosen) {
        same_bets(gains.shape(0), bets.shape(0));
        const Index size = mass.shape(0);
        demand(x.shape(0) == shift.shape(0) && x.shape(0) == probability.shape(0), "x, shift and probability must be (n,)");
        demand(Index(guard.shape(0)) == size, "mass and guard must be (ΣK,)");
        decisions(offsets, chosen, x, size, size, size);
        Unlocked unlocked(size);
        Betting(gains.data(), bets.data()).add_cut(x.data(), shift.data(), Index(x.shape(0)), mass.data(), guard.data(),
                                                   probability.data(), offsets.data(), chosen.data());
    }, "gains"_a.noconvert(), "bets"_a, "x"_a, "shift"_a, "mass"_a, "guard"_a, "probability"_a, "offsets"_a, "chosen"_a);
    const auto same_length = [](In<1> gains, In<1> bets, In<1> log_prior) {
        demand(gains.shape(0) == bets.shape(0) && gains.shape(0) == log_prior.shape(0),
               "gains, bets and log_prior must be (J,)");
        return Index(gains.shape(0));
    };
    m.def("log_wealth", [same_length](In<1> gains, In<1> bets, In<1> log_prior, double count, double mean) {
        const Index J = same_length(gains, bets, log_prior);
        return log_wealth(gains.data(), bets.data(), log_prior.data(), J, count, mean, Buffer(J)).value;
    }, "gains"_a, "bets"_a, "log_prior"_a, "count"_a, "mean"_a);
    m.def("betting_lower", [same_length](In<1> gains, In<1> bets, In<1> log_prior, double count, double log_level,
                                         double lowest) {
        const Index J = same_length(gains, bets, log_prior);
        return betting_lower(gains.data(), bets.data(), log_prior.data(), J, count, log_level, lowest);
    }, "gains"_a, "bets"_a, "log_prior"_a, "count"_a, "log_level"_a, "lowest"_a);

    m.def("stable_sums", [](Out<1> state, Out<1> sums, In<1> score, In<1> proxy) {
        demand(state.shape(0) == 4 && sums.shape(0) == 5 && score.shape(0) == proxy.shape(0),
               "state must be (4,), sums (5,), score and proxy (n,)");
        Unlocked unlocked(Index(score.shape(0)));
        stable_sums(state.data(), sums.data(), score.data(), proxy.data(), Index(score.shape(0)));
    }, "state"_a.noconvert(), "sums"_a.noconvert(), "score"_a, "proxy"_a);

    m.def("predict_learn", &predict_learn, "belief"_a, "arms"_a, "offsets"_a, "chosen"_a, "rewards"_a, "out"_a.noconvert());
    // Where arms have no features; `chosen` are their numbers.  sums, counts (K,).
    m.def("means_predict_learn", [](Out<1> sums, Out<1> counts, double lam, bool drawn, InInts<1> offsets, InInts<1> chosen,
                                    In<1> rewards, Out<1> out) {
        const Index K = sums.shape(0);
        demand(Index(counts.shape(0)) == K, "sums and counts must be (K,)");
        const Decisions log = decisions(offsets, chosen, rewards, Index(out.shape(0)), K, K);
        Unlocked unlocked(Index(out.shape(0)));
        predict_then_learn(MeansModel(sums.data(), counts.data(), lam, drawn, K), log, out.data());
    }, "sums"_a.noconvert(), "counts"_a.noconvert(), "lam"_a, "drawn"_a, "offsets"_a, "chosen"_a, "rewards"_a,
       "out"_a.noconvert());
}

}  // namespace linmed
