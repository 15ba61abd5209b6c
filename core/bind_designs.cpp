#include "bind.hpp"
#include "bind_rows.hpp"

#include "as_run.hpp"
#include "exp2.hpp"
#include "warm.hpp"

namespace linmed {

bool eigenvectors_of_lapack(const double *S, Index n, double *values, double *Q) {
    nb::gil_scoped_acquire locked;
    const nb::object linalg = nb::module_::import_("numpy.linalg");
    try {
        const nb::ndarray<nb::numpy, const double> matrix(S, {std::size_t(n), std::size_t(n)});
        const nb::tuple found = nb::tuple(linalg.attr("eig")(matrix));
        nb::ndarray<const double, nb::ndim<1>, nb::device::cpu> numbers;
        nb::ndarray<const double, nb::ndim<2>, nb::device::cpu> vectors;
        if (!nb::try_cast(found[0], numbers, false) || !nb::try_cast(found[1], vectors, false)) return false;  // complex
        for (Index i = 0; i < n; ++i) {
            values[i] = numbers(i);
            for (Index j = 0; j < n; ++j) Q[i * n + j] = vectors(i, j);
        }
        return true;
    } catch (nb::python_error &error) {
        if (!error.matches(linalg.attr("LinAlgError"))) throw;
        return false;
    }
}

// Arms read where they stand, without blocks.
static Arms arms_of(const In<2> &arms) {
    demand(arms.shape(0) > 0 && arms.shape(1) > 0, "arms must be (K, d), with at least one of each");
    return {arms.data(), Index(arms.shape(0)), Index(arms.shape(1)), Index(arms.shape(1)), nullptr};
}

static void bind_their_rules(nb::module_ &m) {
    m.def("SpannerRule", &rule<SpannerRule, double, double, double, double, double, bool, double>, "C_opt"_a, "gamma"_a,
          "horizon"_a, "log_rate"_a, "regression_regret"_a, "optimal"_a, "floor"_a);
    m.def("LaggingSpannerRule", &rule<LaggingSpannerRule, double, double, double, double, double, bool, double>, "C_opt"_a,
          "gamma"_a, "horizon"_a, "log_rate"_a, "regression_regret"_a, "optimal"_a, "floor"_a);
    m.def("EvenByNormalRule", &rule<EvenByNormalRule>);
    m.def("ArmZeroRule", &rule<ArmZeroRule>);
    m.def("CentredDesignRule", &rule<CentredDesignRule>);
    m.def("CentredMedRule", &rule<CentredMedRule, double, double>, "alpha_emp"_a, "alpha_opt"_a);
    m.def("WarmRule", &rule<WarmRule, double, double, int, bool, bool, bool>, "alpha_emp"_a, "alpha_opt"_a, "version"_a,
          "optimal"_a, "explore"_a, "even_ties"_a = false);
    m.def("WarmRidge", [](nb::args given) {
        Arrays arrays(given);
        const RidgeRows<int64_t> model = ridge_rows<int64_t>(arrays);
        int64_t *support = arrays.ints("support", {model.rows, WarmRidge::ROOM * model.d});
        double *size = arrays.floats("size", {model.rows});
        return hold_belief(std::make_unique<WarmRidge>(model, support, size), arrays);
    });
}

// ---- EXP2 ------------------------------------------------------------------------------------------------------------

static Geometry geometry_of(const Out<2> &design, const Out<3> &coordinates, const OutInts<1> &rank, const Out<3> &lift) {
    const Index n = design.shape(0), K = design.shape(1), d = coordinates.shape(2);
    demand(Index(coordinates.shape(0)) == n && Index(coordinates.shape(1)) == K && Index(rank.shape(0)) == n &&
               Index(lift.shape(0)) == n && Index(lift.shape(1)) == d && Index(lift.shape(2)) == d,
           "design must be (n, K), coordinates (n, K, d), rank (n,), lift (n, d, d)");
    return {n, K, d, design.data(), coordinates.data(), rank.data(), lift.data()};
}

static const Exp2Rule &as_exp2(const Held<Rule> &rule) {
    const auto *own = dynamic_cast<const Exp2Rule *>(rule.object.get());
    demand(own, "rule must be an Exp2Rule");
    return *own;
}

static void bind_exp2(nb::module_ &m) {
    m.def("Totals", [](nb::args given) {
        Arrays arrays(given);
        const Index R = arrays.length<double, 2>("theta", 0, 0), d = arrays.length<double, 2>("theta", 0, 1);
        double *theta = arrays.floats("theta", {R, d});
        int64_t *count = arrays.ints("count", {R});
        double *total = arrays.floats("total", {R, d});
        arrays.ints("arm_set", {R});  // fingerprint of the arms, 0 before the first decision: Python's affair
        return hold_belief(std::make_unique<Totals>(R, d, theta, count, total), arrays);
    });
    m.def("Exp2Rule", [](double horizon, double eta, double gamma, Out<2> design, Out<3> coordinates, OutInts<1> rank,
                         Out<3> lift) {
        const Geometry geometry = geometry_of(design, coordinates, rank, lift);
        for (Index p = 0; p < geometry.n; ++p)
            demand(rank.data()[p] > 0 && rank.data()[p] <= std::min(geometry.K, geometry.d), "rank must be from 1 to d");
        return Held<Rule>{std::make_shared<Exp2Rule>(horizon, eta, gamma, geometry),
                          {nb::cast(design), nb::cast(coordinates), nb::cast(rank), nb::cast(lift)}};
    }, "horizon"_a, "eta"_a, "gamma"_a, "design"_a.noconvert(), "coordinates"_a.noconvert(), "rank"_a.noconvert(),
       "lift"_a.noconvert());
    m.def("exp2_rates", [](const Held<Rule> &rule, double count, Index rank, Index arms) {
        const auto [eta, gamma] = as_exp2(rule).rates(count, double(rank), double(arms));
        return std::tuple(eta, gamma);
    }, "rule"_a, "count"_a, "rank"_a, "arms"_a);
    // A number other than 0 for each set of arms (FNV-1a over the bits).  arms (n,K,d), out (n,).
    m.def("fingerprint", [](In<3> arms, OutInts<1> out) {
        const Index n = arms.shape(0), K = arms.shape(1), numbers = K * arms.shape(2);
        demand(Index(out.shape(0)) == n, "out must be (n,)");
        for (Index p = 0; p < n; ++p) {
            uint64_t state = 0xCBF29CE484222325;
            for (Index i = 0; i < numbers; ++i) {
                uint64_t bits;
                std::memcpy(&bits, arms.data() + p * numbers + i, sizeof bits);
                state = (state ^ bits) * 0x100000001B3;
                state ^= state >> 32;
            }
            out.data()[p] = int64_t((state ^ uint64_t(K)) | 1);
        }
    }, "arms"_a.noconvert(), "out"_a.noconvert());
    // The G-optimal design and coordinates of the span, for each set of arms (n,K,d).
    m.def("geometries", [](In<3> arms, Out<2> design, Out<3> coordinates, OutInts<1> rank, Out<3> lift) {
        const Geometry geometry = geometry_of(design, coordinates, rank, lift);
        const Index n = arms.shape(0), K = arms.shape(1), d = arms.shape(2);
        demand(n == geometry.n && K == geometry.K && d == geometry.d,
               "arms must be (n, K, d), as coordinates");
        Unlocked unlocked;
        geometry.make(arms.data());
    }, "arms"_a.noconvert(), "design"_a.noconvert(), "coordinates"_a.noconvert(), "rank"_a.noconvert(),
       "lift"_a.noconvert());
    // Q⁻¹a of the arms just played.  arms (n,K,d), n = R or 1; played (R,), out (R,d).
    m.def("estimators", [](const Held<Belief> &belief, const Held<Rule> &rule, In<3> arms, InInts<1> played, Out<2> out) {
        const Exp2Rule &own = as_exp2(rule);
        const Index n = arms.shape(0), K = arms.shape(1), d = arms.shape(2), R = played.shape(0);
        demand(d == belief->d && K > 0 && (n == R || n == 1), "arms must be (R or 1, K, d)");
        demand(belief->replicas() == R || belief->replicas() == 1, "state and decisions differ in replicas");
        demand(Index(out.shape(0)) == R && Index(out.shape(1)) == d, "out must be (R, d)");
        for (Index r = 0; r < R; ++r) demand(played.data()[r] >= 0 && played.data()[r] < K, "played must be arms");
        Unlocked unlocked(R * K * d * d);
        Exp2Rule::Room scratch(K);
        Buffer blocks(Arms::room(K, d));
        for (Index r = 0; r < R; ++r) {
            const Index p = n > 1 ? r : 0;
            own.mix(*belief, belief->replicas() > 1 ? r : 0, pack(arms.data() + p * K * d, K, d, d, blocks), p, scratch);
            own.lesson(nullptr, p, played.data()[r], scratch, out.data() + r * d);
        }
    }, "belief"_a, "rule"_a, "arms"_a.noconvert(), "played"_a.noconvert(), "out"_a.noconvert());
}

// ---- pieces, for tests -------------------------------------------------------------------------------------------------

static void bind_pieces(nb::module_ &m) {
    // `held`: in blocks, or read where they stand.
    nb::module_ pieces = m.def_submodule("designs", "Pieces of designs, for tests.");
    // Extreme <v, x> of the vectors: (top, bottom, highest, lowest).
    pieces.def("extremes", [](In<2> rows, In<1> scale, In<1> x, bool held) {
        Arms arms = arms_of(rows);
        demand(Index(scale.shape(0)) == padded(arms.K) && Index(x.shape(0)) == arms.d, "scale must be padded, x (d,)");
        Buffer blocks(held ? Arms::room(arms.K, arms.d) : 0);
        if (held) arms = pack(arms.rows, arms.K, arms.d, arms.stride, blocks);
        Screen screen;
        if (!arms.blocks) screen.look_at(arms, scale.data());
        const auto [high, low] = arms.blocks ? extreme_products(arms, arms.d, scale.data(), x.data())
                                             : screen.extremes(arms, scale.data(), x.data());
        return std::tuple(high.place, low.place, high.value, low.value);
    }, "arms"_a.noconvert(), "scale"_a.noconvert(), "x"_a.noconvert(), "held"_a);
    // Algorithm 4: count (K,) becomes 1 on its arms.
    pieces.def("betke_henk", [](In<2> rows, Out<1> count) {
        Arms arms = arms_of(rows);
        demand(Index(count.shape(0)) == arms.K, "count must be (K,)");
        Buffer blocks(Arms::room(arms.K, arms.d)), scale(padded(arms.K));
        for (Index i = 0; i < arms.K; ++i) scale[i] = 1.0;
        Desk desk(arms.d);
        betke_henk(pack(arms.rows, arms.K, arms.d, arms.stride, blocks), arms.d, scale, count.data(), desk);
    }, "arms"_a.noconvert(), "count"_a.noconvert());
    // ApproxDesign as counts, of which it returns the sum; −1 where the arms are ill-conditioned.
    pieces.def("approx_counts", [](In<2> rows, In<1> scale, bool held, Out<1> count) {
        Arms arms = arms_of(rows);
        const Index n = padded(arms.K);
        demand(Index(scale.shape(0)) == n && Index(count.shape(0)) == n, "scale and count must be padded");
        Buffer blocks(held ? Arms::room(arms.K, arms.d) : 0), times(n), leverage(n);
        if (held) arms = pack(arms.rows, arms.K, arms.d, arms.stride, blocks);
        std::copy_n(scale.data(), n, static_cast<double *>(times));
        Desk desk(arms.d);
        return approx_counts_here(arms, times, count.data(), leverage, desk);
    }, "arms"_a.noconvert(), "scale"_a.noconvert(), "held"_a, "count"_a.noconvert());
    // log f and √f of every arm for θ̂ (d,), V⁻¹ (d,d) and β; returns â.
    pieces.def("weigh", [](In<2> rows, In<1> theta, In<2> inverse, double beta, bool held, Out<1> log_f, Out<1> root) {
        Arms arms = arms_of(rows);
        const Index d = arms.d;
        demand(Index(theta.shape(0)) == d && Index(inverse.shape(0)) == d && Index(inverse.shape(1)) == d,
               "theta must be (d,), inverse (d, d)");
        demand(Index(log_f.shape(0)) == arms.K && Index(root.shape(0)) == arms.K, "log_f and root must be (K,)");
        Buffer blocks(held ? Arms::room(arms.K, d) : 0);
        if (held) arms = pack(arms.rows, arms.K, d, d, blocks);
        MedScratch scratch(0.0, 0.0, arms.K, d);
        const Index best = weigh_arms(d, theta.data(), inverse.data(), 1.0 / sqrt(beta), arms, scratch).best;
        std::copy_n(static_cast<const double *>(scratch.log_f), arms.K, log_f.data());
        std::copy_n(static_cast<const double *>(scratch.root), arms.K, root.data());
        return best;
    }, "arms"_a.noconvert(), "theta"_a.noconvert(), "inverse"_a.noconvert(), "beta"_a, "held"_a, "log_f"_a.noconvert(),
       "root"_a.noconvert());
    // ApproxDesignAugmented as counts (K,), of which it returns the sum.
    pieces.def("augmented_counts", [](In<2> rows, In<1> log_f, In<1> root, int version, Out<1> count) {
        Arms arms = arms_of(rows);
        const Index K = arms.K;
        demand(Index(log_f.shape(0)) == K && Index(root.shape(0)) == K && Index(count.shape(0)) == K, "all must be (K,)");
        Buffer blocks(Arms::room(K, arms.d)), scale(padded(K)), leverage(padded(K));
        Desk desk(arms.d);
        arms = pack(arms.rows, K, arms.d, arms.stride, blocks);
        return augmented_counts(arms, log_f.data(), root.data(), version, false, scale, count.data(), leverage, desk);
    }, "arms"_a.noconvert(), "log_f"_a.noconvert(), "root"_a.noconvert(), "version"_a, "count"_a.noconvert());
}

void bind_designs(nb::module_ &m) {
    m.def("approx_design", [](In<2> rows, In<1> log_scale, Out<1> weights) {
        const Arms arms = arms_of(rows);
        const Index K = arms.K, d = arms.d;
        demand(Index(log_scale.shape(0)) == K && Index(weights.shape(0)) == K, "log_scale and weights must be (K,)");
        Unlocked unlocked(K * d * d);
        Buffer blocks(Arms::room(K, d));
        approx_design(pack(arms.rows, K, d, d, blocks), log_scale.data(), weights.data());
    }, "arms"_a.noconvert(), "log_scale"_a.noconvert(), "weights"_a.noconvert());
    // These two return max leverage / rank.
    m.def("optimal_design", [](In<2> rows, In<1> log_scale, double tol, Out<1> weights) {
        const Arms arms = arms_of(rows);
        const Index K = arms.K;
        demand(Index(log_scale.shape(0)) == K && Index(weights.shape(0)) == K, "log_scale and weights must be (K,)");
        Unlocked unlocked(K * arms.d * arms.d);
        return optimal_design(arms, log_scale.data(), tol, weights.data());
    }, "arms"_a.noconvert(), "log_scale"_a.noconvert(), "tol"_a, "weights"_a.noconvert());
    m.def("certificate", [](In<2> rows, In<1> weights) {
        const Arms arms = arms_of(rows);
        demand(Index(weights.shape(0)) == arms.K, "weights must be (K,)");
        Unlocked unlocked(arms.K * arms.d * arms.d);
        return certificate(arms, weights.data());
    }, "arms"_a.noconvert(), "weights"_a.noconvert());
    // The centred designs of whole sets.  arms (n,K,d), weights (n,K).
    m.def("centred_design", [](In<3> arms, Out<2> weights) {
        const Index n = arms.shape(0), K = arms.shape(1), d = arms.shape(2);
        demand(Index(weights.shape(0)) == n && Index(weights.shape(1)) == K, "weights must be (n, K)");
        Unlocked unlocked(n * K * d * d);
        Buffer ones(K);
        for (Index i = 0; i < K; ++i) ones[i] = 1.0;
        for (Index p = 0; p < n; ++p) {
            double *own = weights.data() + p * K;
            const double total = centred_counts({arms.data() + p * K * d, K, d, d, nullptr}, ones, own);
            for (Index i = 0; i < K; ++i) own[i] /= total;
        }
    }, "arms"_a.noconvert(), "weights"_a.noconvert());
    bind_their_rules(m);
    bind_exp2(m);
    bind_pieces(m);
}

}  // namespace linmed
