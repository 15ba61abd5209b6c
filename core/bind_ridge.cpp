#include "bind_rows.hpp"
#include "confidence.hpp"
#include "experts.hpp"
#include "maillard.hpp"
#include "recent.hpp"

namespace linmed {

// Those of experts begin with the same ten, of R·E rows.
struct OfExperts {
    double *told, *surprise;
    Index R;
    int64_t *leader;
    template <class Rows> auto make(const Rows &rows) const {
        return std::make_unique<Whole<RidgeExperts<Rows>, Rows>>(RidgePriors<Rows>{rows, told, surprise}, R, leader);
    }
};
static OfExperts of_experts(Arrays &arrays, Index rows) {
    OfExperts those{arrays.floats("told", {rows, 3}), arrays.floats("surprise", {rows}), 0, nullptr};
    those.R = arrays.length<int64_t, 1>("leader", 12, 0);
    demand(those.R > 0 && rows > 0 && rows % those.R == 0, "theta must have as many rows for every entry of leader");
    those.leader = arrays.ints("leader", {those.R});
    return those;
}
template <class Count> static Held<Belief> ridge_experts(Arrays &arrays) {
    const auto shared = ridge_rows<Count>(arrays);
    const OfExperts those = of_experts(arrays, shared.rows);
    return of_all_or_items(arrays, shared, [&](const auto &rows) { return hold_belief(those.make(rows), arrays); });
}

// Those of an intercept end with three of their own.
template <class Estimate> static Held<Belief> centred(std::unique_ptr<Estimate> estimate, Arrays &arrays) {
    const Index R = estimate->replicas(), d = estimate->d;
    double *middle = arrays.floats("middle", {R, d}), *level = arrays.floats("level", {R});
    int64_t *seen = arrays.ints("seen", {R});
    return hold_belief(std::make_unique<Centred<Estimate>>(std::move(estimate), middle, level, seen), arrays);
}

// theta and count, with which these begin; returns what shapes depend on.
template <class B> static std::pair<Index, Index> begin_counted(B &belief, Arrays &arrays) {
    const Index R = arrays.length<double, 2>("theta", 0, 0), d = arrays.length<double, 2>("theta", 0, 1);
    belief.R = R, belief.d = d;
    belief.theta = arrays.floats("theta", {R, d});
    belief.counts = arrays.ints("count", {R});
    return {R, d};
}

static Held<Belief> faded(nb::args given) {
    Arrays arrays(given);
    auto belief = std::make_unique<Faded>();
    const auto [R, d] = begin_counted(*belief, arrays);
    belief->inverse = arrays.floats("inverse", {R, d, d});
    belief->gram = arrays.floats("gram", {R, d, d});
    belief->gram_squared = arrays.floats("gram_squared", {R, d, d});
    belief->moment = arrays.floats("moment", {R, d});
    belief->given = arrays.floats("told", {R, 2});
    return hold_belief(std::move(belief), arrays);
}

static Held<Belief> windowed(nb::args given) {
    Arrays arrays(given);
    auto belief = std::make_unique<Windowed>();
    const auto [R, d] = begin_counted(*belief, arrays);
    const Index w = belief->w = arrays.length<double, 3>("vectors", 6, 1);
    demand(w > 0, "vectors must be (R, w, d), w at least 1");
    belief->inverse = arrays.floats("inverse", {R, d, d});
    belief->gram = arrays.floats("gram", {R, d, d});
    belief->moment = arrays.floats("moment", {R, d});
    belief->lam = arrays.floats("lam", {R});
    belief->vectors = arrays.floats("vectors", {R, w, d});
    belief->rewards = arrays.floats("rewards", {R, w});
    return hold_belief(std::move(belief), arrays);
}

static Held<Belief> pulls(nb::args given) {
    Arrays arrays(given);
    auto belief = std::make_unique<Pulls>();
    const auto [R, d] = begin_counted(*belief, arrays);
    demand(d > 0, "theta must be (R, d), d at least 1");
    belief->pulls = arrays.floats("pulls", {R, d});
    belief->totals = arrays.floats("totals", {R, d});
    return hold_belief(std::move(belief), arrays);
}

// A set written in Python: radii() gives β of all replicas (R,), and is called once a round.
class OwnSet final : public Set {
  public:
    explicit OwnSet(nb::callable radii) : radii_(std::move(radii)) {}

    void before_round() const override {
        nb::gil_scoped_acquire locked;
        In<1> given;
        if (!nb::try_cast(radii_(), given, true)) throw nb::type_error("squared_radius must return β of every replica, (R,)");
        beta_.assign(given.data(), given.data() + given.shape(0));
        for (double beta : beta_) demand(beta >= 0.0, "squared_radius must return numbers that are not negative");
    }
    double squared_radius(const Belief &, Index s) const override {
        if (s >= Index(beta_.size())) throw std::out_of_range("squared_radius must return β of every replica, (R,)");
        return beta_[s];
    }

  private:
    nb::callable radii_;
    mutable std::vector<double> beta_;
};

void bind_ridge(nb::module_ &m) {
    m.def("Ridge", [](nb::args given) {
        Arrays arrays(given);
        if (fades(arrays, 1))
            return hold_belief(std::make_unique<RidgeBelief<double>>(ridge_rows<double>(arrays)), arrays);
        const auto shared = ridge_rows<int64_t>(arrays);
        if (!arrays.left()) return hold_belief(std::make_unique<Ridge>(shared), arrays);
        const auto rows = item_rows(arrays, shared);
        return hold_belief(std::make_unique<OfItems<OneOfEach<ItemRows<RidgeRows<int64_t>>>>>(rows), arrays);
    });
    m.def("RidgeExperts", [](nb::args given) {
        Arrays arrays(given);
        return fades(arrays, 1) ? ridge_experts<double>(arrays) : ridge_experts<int64_t>(arrays);
    });
    m.def("CentredRidge", [](nb::args given) {
        Arrays arrays(given);
        return centred(std::make_unique<Ridge>(ridge_rows<int64_t>(arrays)), arrays);
    });
    m.def("CentredExperts", [](nb::args given) {
        Arrays arrays(given);
        const auto rows = ridge_rows<int64_t>(arrays);
        return centred(of_experts(arrays, rows.rows).make(rows), arrays);
    });
    m.def("Faded", &faded);
    m.def("Windowed", &windowed);
    m.def("Pulls", &pulls);
    define_set<FadedSet, double, double, double, double, double, double>(m, "FadedSet", "sigma", "log_inverse_delta", "lam", "norm",
                                                                        "longest", "log_gamma");
    define_set<WindowedSet, double, double, double, double, double, double>(m, "WindowedSet", "sigma", "log_inverse_delta", "lam",
                                                                           "norm", "longest", "window");
    define_set<RidgeSet, int, double, double, double, double, double, bool>(m, "RidgeSet", "kind", "sigma", "log_inverse_delta",
                                                                           "lam", "norm", "scale", "centred");
    define_set<FixedSet, double>(m, "FixedSet", "beta");
    m.def("OwnSet", [](nb::callable radii) { return Held<Set>{std::make_shared<OwnSet>(radii), {}}; }, "radii"_a);
    m.def("likely_variances", [](In<1> count, In<1> rss, In<1> scale, Out<1> out) {
        const Index R = out.shape(0);
        demand(Index(count.shape(0)) == R && Index(rss.shape(0)) == R && Index(scale.shape(0)) == R, "all must be (R,)");
        for (Index r = 0; r < R; ++r) out.data()[r] = likely_variance(count.data()[r], rss.data()[r], scale.data()[r]);
    }, "count"_a.noconvert(), "rss"_a.noconvert(), "scale"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace linmed
