#include "bind_rows.hpp"

namespace linmed {

template <class Count> static Held<Belief> glm_belief(Arrays &arrays) {
    const GlmRows<Count> shared = glm_rows<Count>(arrays);
    const Index R = arrays.length<int64_t, 1>("leader", 12, 0);
    demand(R > 0 ? shared.rows >= R && shared.rows % R == 0 : shared.rows == 0,
           "theta must have as many rows in every replica");
    int64_t *leader = arrays.ints("leader", {R});
    return of_all_or_items(arrays, shared, [&]<class Rows>(const Rows &rows) {
        return hold_belief(std::make_unique<Whole<GlmBelief<Rows>, Rows>>(GlmPriors<Rows>{rows, {}}, R, leader), arrays);
    });
}

// The arrays behind those of estimates that forget, of which each replica has as many as experts, and the monitor.
static Weights weights_of(Arrays &arrays, std::size_t place, Index rows) {
    const Index R = arrays.length<double, 2>("weight", place, 0), N = arrays.length<double, 2>("weight", place, 1);
    demand(N > 0 && rows == R * (N + 1), "theta must have a row for each weight and one more in every replica");
    Weights w{};
    w.R = R, w.N = N;
    w.weight = arrays.floats("weight", {R, N});
    w.score = arrays.floats("score", {R, N + 1});
    w.rules = arrays.floats("rules", {R, Index(Weights::RULES)});
    w.leader = arrays.ints("leader", {R});
    w.rewards = arrays.ints("rewards", {R});
    w.clock = arrays.floats("clock", {R});
    w.trust = arrays.floats("trust", {R});
    w.loss = arrays.floats("loss", {R});
    w.evidence = arrays.floats("evidence", {R});
    w.happened = arrays.ints("happened", {R, 2});
    w.adoptions = arrays.floats("adoptions", {R, Weights::KEPT, 4});
    w.alarms = arrays.floats("alarms", {R, Weights::KEPT, 3});
    return w;
}

// out_i = f(family, x_i, y_i, z_i), for tests of links.hpp.
template <class F> static void each_link(int kind, In<1> x, In<1> y, In<1> z, Out<1> out, F f) {
    const Index n = out.shape(0);
    demand(kind >= 0 && kind <= Family::GAUSSIAN, "family must be 0, 1 or 2");
    demand(Index(x.shape(0)) == n && Index(y.shape(0)) == n && Index(z.shape(0)) == n, "all must be (n,)");
    const Family family{Family::Kind(kind), 1.0};
    for (Index i = 0; i < n; ++i) out.data()[i] = f(family, x.data()[i], y.data()[i], z.data()[i]);
}

void bind_glm(nb::module_ &m) {
    m.def("Glm", [](nb::args given) {
        Arrays arrays(given);
        return fades(arrays, 2) ? glm_belief<double>(arrays) : glm_belief<int64_t>(arrays);
    });
    define_set<GlmSet, bool, double, double>(m, "GlmSet", "certified", "log_inverse_delta", "prior");
    m.def("Forgetting", [](nb::args given) {
        Arrays arrays(given);
        FadingRidge model{ridge_rows<double>(arrays), nullptr};
        model.told = arrays.floats("told", {model.rows, Index(FadingRidge::TOLD)});
        const Weights weights = weights_of(arrays, 11, model.rows);
        double *spread = arrays.floats("spread", {weights.R, Index(RidgeForgetting<FadingRidge>::SPREAD)});
        return of_all_or_items(arrays, model, [&]<class Rows>(const Rows &rows) {
            return hold_belief(std::make_unique<Whole<RidgeForgetting<Rows>, Rows>>(rows, weights, spread), arrays);
        });
    });
    m.def("GlmForgetting", [](nb::args given) {
        Arrays arrays(given);
        FadingGlm model{glm_rows<double>(arrays), nullptr};
        model.memories = arrays.floats("memory", {model.rows, Index(FadingGlm::FORGETS)});
        const Weights weights = weights_of(arrays, 13, model.rows);
        return of_all_or_items(arrays, model, [&]<class Rows>(const Rows &rows) {
            return hold_belief(std::make_unique<Whole<GlmForgetting<Rows>, Rows>>(rows, weights), arrays);
        });
    });
    // H without what the intercept explains, both triangles.  gram (R,d+1,d+1), out (R,d,d).
    m.def("precisions", [](In<3> gram, Out<3> out) {
        const Index R = out.shape(0), d = out.shape(1), D = d + 1;
        demand(Index(out.shape(2)) == d && Index(gram.shape(0)) == R && Index(gram.shape(1)) == D &&
                   Index(gram.shape(2)) == D,
               "gram must be (R, d + 1, d + 1), out (R, d, d)");
        for (Index r = 0; r < R; ++r) {
            double *P = out.data() + r * d * d;
            GlmRows<int64_t>::features_precision(gram.data() + r * D * D, d, P);
            for (Index j = 0; j < d; ++j)
                for (Index k = 0; k < j; ++k) P[k * d + j] = P[j * d + k];
        }
    }, "gram"_a.noconvert(), "out"_a.noconvert());
    m.attr("FAMILIES") = nb::make_tuple("logistic", "poisson", "gaussian");
    m.def("link_settle", [](int family, In<1> z, In<1> h, In<1> y, Out<1> out) {
        each_link(family, z, h, y, out, [](Family f, double z, double h, double y) {
            Root root(f, z, h, y);
            settle(&root, 1);
            return root.value();
        });
    }, "family"_a, "z"_a.noconvert(), "h"_a.noconvert(), "y"_a.noconvert(), "out"_a.noconvert());
    m.def("link_bend", [](int family, In<1> z, In<1> gap, Out<1> out) {
        each_link(family, z, gap, gap, out, [](Family f, double z, double gap, double) { return f.bend(z, gap); });
    }, "family"_a, "z"_a.noconvert(), "gap"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace linmed
