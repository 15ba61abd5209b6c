#include "bind.hpp"

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
