#include "bind.hpp"

#include "e2d.hpp"

namespace linmed {

static const E2dRule &as_e2d(const Held<Rule> &rule) {
    const auto *own = dynamic_cast<const E2dRule *>(rule.object.get());
    demand(own, "rule must be an E2dRule");
    return *own;
}

void bind_e2d(nb::module_ &m) {
    m.def("E2dRule", &rule<E2dRule, double, double, double, double, double, double, double>, "gamma"_a, "horizon"_a, "tol"_a,
          "lam"_a, "bias"_a, "unit"_a, "floor"_a);
    // p before any floor, and an upper bound on 4γ G(p), for one decision of every replica, or for every set of arms.
    m.def("e2d_program", [](const Held<Belief> &belief, const Held<Rule> &rule, In<3> arms, Out<2> p, Out<1> bound) {
        const E2dRule &own = as_e2d(rule);
        const Index n = p.shape(0), K = arms.shape(1), d = arms.shape(2), R = belief->replicas(), sets = arms.shape(0);
        demand(d == belief->d && K > 0 && (sets == n || sets == 1), "arms must be (R or 1, K, d)");
        demand(R == n || R == 1, "state and decisions differ in replicas");
        demand(Index(p.shape(1)) == K && Index(bound.shape(0)) == n, "p must be (R, K), bound (R,)");
        Unlocked unlocked;
        E2dProgram program(K, d);
        for (Index r = 0; r < n; ++r) {
            const Index s = belief->row(R > 1 ? r : 0);
            const double *rows = arms.data() + (sets > 1 ? r : 0) * K * d;
            const double gamma = own.exploration(*belief, s, K, d);
            bound.data()[r] = program.solve(Arms{rows, K, d, d, nullptr}, belief->estimate(s), gamma, own.tol);
            std::copy(program.p + 0, program.p + K, p.data() + r * K);
        }
    }, "belief"_a, "rule"_a, "arms"_a.noconvert(), "p"_a.noconvert(), "bound"_a.noconvert());

    nb::module_ simplex = m.def_submodule("simplex", "Pieces of E2D's program, for tests.");
    const auto square = [](Index rows, Index columns) {
        demand(rows == columns && rows % LANES == 0 && rows > 0, "the matrix must be (n, n), n a multiple of eight");
        return rows;
    };
    simplex.def("normaliser", [](In<1> q, In<1> gap) {
        demand(q.shape(0) == gap.shape(0), "q and gap must be (K,)");
        return normaliser(q.data(), gap.data(), Index(q.shape(0)));
    }, "q"_a.noconvert(), "gap"_a.noconvert());
    simplex.def("factor", [square](Out<2> L, Out<1> inverse) {
        const Index n = square(L.shape(0), L.shape(1));
        demand(Index(inverse.shape(0)) == n, "inverse must be (n,)");
        factor_in_place(L.data(), n, inverse.data(), Buffer(n * LANES));
    }, "L"_a.noconvert(), "inverse"_a.noconvert());
    simplex.def("solve", [square](In<2> L, In<1> inverse, Index start, Out<1> x) {
        const Index n = square(L.shape(0), L.shape(1));
        demand(Index(inverse.shape(0)) == n && Index(x.shape(0)) == n && start >= 0,
               "inverse and x must be (n,), start ≥ 0");
        solve_factored(L.data(), n, inverse.data(), start, x.data());
    }, "L"_a.noconvert(), "inverse"_a.noconvert(), "start"_a, "x"_a.noconvert());
    simplex.def("exchange", [square](In<2> H, Out<1> G, Out<1> x, double within, Index most) {
        const Index n = square(H.shape(0), H.shape(1));
        demand(Index(G.shape(0)) == n && Index(x.shape(0)) == n, "G and x must be (n,)");
        Quadratic().exchange(H.data(), G.data(), x.data(), n, within, most);
    }, "H"_a.noconvert(), "G"_a.noconvert(), "x"_a.noconvert(), "within"_a, "most"_a);
    simplex.def("climb_face", [square](In<2> H, In<1> G, Out<1> x) {
        const Index n = square(H.shape(0), H.shape(1));
        demand(Index(G.shape(0)) == n && Index(x.shape(0)) == n, "G and x must be (n,)");
        Quadratic().climb_face(H.data(), G.data(), x.data(), n);
    }, "H"_a.noconvert(), "G"_a.noconvert(), "x"_a.noconvert());
}

}  // namespace linmed
