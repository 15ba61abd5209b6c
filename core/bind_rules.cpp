#include "bind.hpp"

#include "limits.hpp"
#include "maillard.hpp"
#include "med.hpp"
#include "optimism.hpp"
#include "pinpoint.hpp"
#include "randomised.hpp"
#include "square.hpp"
#include "wrappers.hpp"

namespace linmed {

void bind_rules(nb::module_ &m) {
    m.def("MedRule", &rule<MedRule, double, double, int, bool, bool, bool>, "alpha_emp"_a, "alpha_opt"_a, "version"_a,
          "optimal"_a, "explore"_a, "even_ties"_a = false);
    m.def("OneTrialRule", &rule<OneTrialRule, double, double, int, bool, bool, bool>, "alpha_emp"_a, "alpha_opt"_a,
          "version"_a, "optimal"_a, "explore"_a, "even_ties"_a = false);
    m.def("UniformRule", &rule<UniformRule>);
    m.def("FlooredRule", [](const Held<Rule> &inner, double share) {
        demand(share > 0.0 && share <= 1.0, "share must be above 0 and at most 1");
        return Held<Rule>{std::make_shared<FlooredRule>(inner.object, share), inner.owned};
    }, "rule"_a, "share"_a);
    // Limits for all arms; for those at `places`, which have numbers of groups, −1 for none; and for the mass of groups.
    m.def("LimitedRule", [](const Held<Rule> &inner, double low, double high, InInts<1> places, In<1> lows, In<1> highs,
                            InInts<1> groups, nb::tuple names, In<1> group_lows, In<1> group_highs) {
        const Index n = places.shape(0), G = Index(names.size());
        demand(Index(lows.shape(0)) == n && Index(highs.shape(0)) == n && Index(groups.shape(0)) == n, "limits of arms must be (n,)");
        demand(Index(group_lows.shape(0)) == G && Index(group_highs.shape(0)) == G, "limits of groups must be (G,)");
        Limits limits{low, high, {}, {}};
        for (Index i = 0; i < n; ++i) {
            demand(places.data()[i] >= 0 && groups.data()[i] >= -1 && groups.data()[i] < G, "places must be arms, groups those named");
            limits.named.push_back({Index(places.data()[i]), lows.data()[i], highs.data()[i], Index(groups.data()[i])});
        }
        for (Index g = 0; g < G; ++g)
            limits.groups.push_back({nb::cast<std::string>(names[g]), group_lows.data()[g], group_highs.data()[g]});
        return Held<Rule>{std::make_shared<LimitedRule>(inner.object, std::move(limits)), inner.owned};
    }, "rule"_a, "low"_a, "high"_a, "places"_a.noconvert(), "lows"_a.noconvert(), "highs"_a.noconvert(), "groups"_a.noconvert(),
       "names"_a, "group_lows"_a.noconvert(), "group_highs"_a.noconvert());
    // Limits each of the laws log_p (R,K), and writes by how much an error of p becomes another: p'/p, 0 at a limit.
    m.def("limit", [](const Held<Rule> &rule, Out<2> log_p, Out<2> factor) {
        const auto *limited = dynamic_cast<const LimitedRule *>(rule.object.get());
        const Index R = log_p.shape(0), K = log_p.shape(1);
        demand(limited, "this rule has no limits");
        demand(Index(factor.shape(0)) == R && Index(factor.shape(1)) == K, "factor must be (R, K)");
        Limited one(limited->limits, K);
        for (Index r = 0; r < R; ++r) {
            double *law = log_p.data() + r * K, *out = factor.data() + r * K;
            std::copy(law, law + K, one.law());
            const bool other = one.limit();
            for (Index i = 0; i < K; ++i) {
                out[i] = !other ? 1.0 : one.at_limit(i) || law[i] == -INF ? 0.0 : exp(one.law()[i] - law[i]);
                law[i] = one.law()[i];
            }
        }
    }, "rule"_a, "log_p"_a.noconvert(), "factor"_a.noconvert());
    m.def("OpeningRule", [](const Held<Rule> &first, const Held<Rule> &then) {
        std::vector<nb::object> owned = first.owned;
        owned.insert(owned.end(), then.owned.begin(), then.owned.end());
        return Held<Rule>{std::make_shared<OpeningRule>(first.object, then.object), std::move(owned)};
    }, "first"_a, "then"_a);
    m.def("OfulRule", &rule<OfulRule, double>, "floor"_a);
    m.def("GreedyRule", &rule<GreedyRule, double>, "epsilon"_a);
    m.def("ImedRule", &rule<ImedRule, int, double, double, double>, "version"_a, "C"_a, "log_horizon"_a, "floor"_a);
    m.def("PinpointRule", &rule<PinpointRule, double>, "floor"_a);
    m.def("MaillardRule", &rule<MaillardRule, double>, "sigma"_a);
    m.def("RandomisedRule", [](In<1> grid, In<1> weights, bool coupled, double floor) {
        demand(grid.shape(0) > 0 && grid.shape(0) == weights.shape(0), "grid and weights must be (M,), M at least 1");
        return rule<RandomisedRule>(std::vector<double>(grid.data(), grid.data() + grid.size()),
                                    std::vector<double>(weights.data(), weights.data() + weights.size()), coupled, floor);
    }, "grid"_a, "weights"_a, "coupled"_a, "floor"_a);
    m.def("SquareRule", &rule<SquareRule, bool, bool, double, double, double, double, double, double, double>, "vaw"_a,
          "normalised"_a, "gamma"_a, "horizon"_a, "log_rate"_a, "lam"_a, "bias"_a, "variance"_a, "unit"_a);
    // γ of every replica for K arms.
    m.def("exploration", [](const Held<Belief> &belief, const Held<Rule> &rule, Index arms, Out<1> out) {
        const auto *gaps = dynamic_cast<const GapRule *>(rule.object.get());
        const Index R = belief->replicas();
        demand(gaps, "this rule has no γ");
        demand(Index(out.shape(0)) == R, "out must be (R,)");
        for (Index r = 0; r < R; ++r) out.data()[r] = gaps->exploration(*belief, belief->row(r), arms, belief->d);
    }, "belief"_a, "rule"_a, "arms"_a, "out"_a.noconvert());
}

}  // namespace linmed
