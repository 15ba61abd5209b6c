#include "bind.hpp"

#include "gaussian_argmax.hpp"
#include "thompson.hpp"

namespace linmed {

using InWords = Array<const uint64_t, 2>;

// Normal laws of θ, one or one for each of R decisions, and sets of arms, one or one for each.
struct Laws {
    const double *theta, *gram, *scale, *arms;
    Index R, S, P, K, d;

    Laws(const In<2> &theta, const In<3> &gram, const In<1> &scale, const In<3> &arms, Index R)
        : theta(theta.data()), gram(gram.data()), scale(scale.data()), arms(arms.data()), R(R), S(theta.shape(0)),
          P(arms.shape(0)), K(arms.shape(1)), d(arms.shape(2)) {
        demand(Index(theta.shape(1)) == d && Index(gram.shape(0)) == S && Index(gram.shape(1)) == d &&
                   Index(gram.shape(2)) == d && Index(scale.shape(0)) == S,
               "theta must be (R, d), gram (R, d, d), scale (R,) for arms of d features");
        demand((S == R || S == 1) && (P == R || P == 1) && K > 0, "theta and arms must have the replicas of out, or one");
    }
    Index law(Index r) const { return S > 1 ? r : 0; }
    Index set(Index r) const { return P > 1 ? r : 0; }
    const double *mean(Index r) const { return theta + law(r) * d; }
    const double *precision(Index r) const { return gram + law(r) * d * d; }
    const double *offered(Index r) const { return arms + set(r) * K * d; }
};

// What arms are worth besides, (R,K); null where that is nothing.
struct OffsetRows {
    const double *rows = nullptr;
    Index K;
    OffsetRows(const std::optional<In<2>> &given, const Laws &laws) : K(laws.K) {
        demand(!given || (Index(given->shape(0)) == laws.R && Index(given->shape(1)) == K), "offsets must be (R, K)");
        if (given) rows = given->data();
    }
    const double *of(Index r) const { return rows ? rows + r * K : nullptr; }
};

static const ThompsonRule &thompson(const Held<Rule> &rule) {
    auto *one = dynamic_cast<const ThompsonRule *>(rule.object.get());
    demand(one, "rule must be a ThompsonRule");
    return *one;
}

void bind_thompson(nb::module_ &m) {
    m.def("ThompsonRule", &rule<ThompsonRule, int, double, double, double, double, double>, "kind"_a, "size"_a, "horizon"_a,
          "log_inverse_delta"_a, "lam"_a, "floor"_a);
    // out (R,) = the scale s of every replica.
    m.def("spreads", [](const Held<Belief> &belief, const Held<Set> &set, const Held<Rule> &rule, Out<1> out) {
        demand(Index(out.shape(0)) == belief->replicas(), "out must be (R,)");
        const ThompsonRule &draws = thompson(rule);
        for (Index r = 0; r < belief->replicas(); ++r) {
            const Index s = belief->row(r);
            out.data()[r] = draws.spread(*belief, s, std::min(set->squared_radius(*belief, s), Set::LARGEST));
        }
    }, "belief"_a, "set"_a, "rule"_a, "out"_a.noconvert());
    // law (2,R,K) = log P(arm is best) under N(theta, scale² gram⁻¹), and the probability's standard error.
    // Offsets (R,K) are what arms are worth beside <θ̃, a>.
    m.def("best_arm_probabilities", [](In<2> theta, In<3> gram, double smallest, In<1> scale, In<3> arms, Out<3> law,
                                       double enough, double work, Index most_points, Index most_arms, Index lines,
                                       std::optional<In<2>> offsets) {
        const Laws laws(theta, gram, scale, arms, law.shape(1));
        const OffsetRows worth(offsets, laws);
        const Index R = laws.R, K = laws.K, d = laws.d;
        demand(law.shape(0) == 2 && Index(law.shape(2)) == K, "law must be (2, R, K)");
        demand(most_points <= 1 << 30 && lines > 0 && lines <= 1 << 26 && lines % 4 == 0,
               "most_points must be at most 2**30, lines at most 2**26 and a multiple of four");
        const Effort effort{enough, work, most_points, most_arms, lines, !offsets};
        Unlocked unlocked(R * K * (K + d * d));
        std::vector<Index> some;
        for (Index r = 0; r < R; ++r) {
            between_rounds();
            if (K > 2 && (d > 2 || offsets) && (r == 0 || laws.P > 1 || offsets))
                some = distinct(laws.offered(r), K, d, worth.of(r));
            best_arm_probabilities(laws.offered(r), K, some, laws.mean(r), laws.precision(r), d, smallest,
                                   laws.scale[laws.law(r)], worth.of(r), effort, law.data() + r * K, law.data() + (R + r) * K);
        }
    }, "theta"_a.noconvert(), "gram"_a.noconvert(), "smallest"_a, "scale"_a.noconvert(), "arms"_a.noconvert(),
       "law"_a.noconvert(), "enough"_a, "work"_a, "most_points"_a, "most_arms"_a, "lines"_a, "offsets"_a.noconvert() = nb::none());
    // out (R,) = the arms of the largest <θ̃, a> + offset, with θ̃ made of the normals in noise (R,d), and one more for a floor.
    m.def("draw_worth", [](In<2> theta, In<3> gram, double smallest, In<1> scale, In<3> arms, In<2> offsets, double floor,
                           In<2> noise, OutInts<1> out) {
        const Laws laws(theta, gram, scale, arms, out.shape(0));
        const OffsetRows worth(offsets, laws);
        const Index d = laws.d, K = laws.K, wide = noise.shape(1);
        demand(noise.shape(0) == out.shape(0) && wide >= d + (floor > 0.0), "noise must be (R, d), d + 1 with a floor");
        Buffer U(d * padded(d)), z(d), draw(d);
        for (Index r = 0; r < laws.R; ++r) {
            const double *own = noise.data() + r * wide, even = floor > 0.0 ? lower_tail(own[wide - 1]) : 1.0;
            if (even < floor) {
                out.data()[r] = ThompsonRule::even_arm(even / floor, K);
                continue;
            }
            std::copy(own, own + d, z + 0);
            factor(laws.precision(r), d, smallest, U);
            perturb(laws.mean(r), U, d, laws.scale[laws.law(r)], z, draw);
            out.data()[r] = best_worth(Arms{laws.offered(r), K, d, d, nullptr}, draw, worth.of(r));
        }
    }, "theta"_a.noconvert(), "gram"_a.noconvert(), "smallest"_a, "scale"_a.noconvert(), "arms"_a.noconvert(),
       "offsets"_a.noconvert(), "floor"_a, "noise"_a.noconvert(), "out"_a.noconvert());
    // log_p (R,K) becomes the law that decisions for the arms `played` (R,) report, see there; so does error (R,K).
    m.def("report_played", [](Out<2> log_p, Out<2> error, InInts<1> played) {
        const Index R = log_p.shape(0), K = log_p.shape(1);
        demand(Index(error.shape(0)) == R && Index(error.shape(1)) == K && Index(played.shape(0)) == R,
               "log_p and error must be (R, K), played (R,)");
        for (Index r = 0; r < R; ++r) {
            const Index arm = played.data()[r];
            demand(arm >= 0 && arm < K, "played must be arms of log_p");
            report_played(log_p.data() + r * K, error.data() + r * K, K, arm);
        }
    }, "log_p"_a.noconvert(), "error"_a.noconvert(), "played"_a.noconvert());
    // out (R,) = how often so many new draws, seeded by the bits of `noise` (R,·), play the arm `played` (R,).
    m.def("count_repeats", [](In<2> theta, In<3> gram, double smallest, In<1> scale, In<3> arms, double floor, InWords noise,
                              InInts<1> played, Index draws, OutInts<1> out, std::optional<In<2>> offsets) {
        const Laws laws(theta, gram, scale, arms, out.shape(0));
        const OffsetRows worth(offsets, laws);
        const Index R = laws.R, K = laws.K, d = laws.d, words = noise.shape(1);
        demand(Index(noise.shape(0)) == R && Index(played.shape(0)) == R, "noise must be (R, n), played (R,)");
        Unlocked unlocked(R * draws * K * d);
        Buffer blocks(Arms::room(K, d));
        for (Index r = 0; r < R; ++r) {
            const Arms offered = pack(laws.offered(r), K, d, d, blocks);
            const HashedDraws random = HashedDraws::from(noise.data() + r * words, words);
            out.data()[r] = count_repeats(offered, laws.mean(r), laws.precision(r), smallest, laws.scale[laws.law(r)], floor,
                                          random, played.data()[r], draws, worth.of(r));
        }
    }, "theta"_a.noconvert(), "gram"_a.noconvert(), "smallest"_a, "scale"_a.noconvert(), "arms"_a.noconvert(), "floor"_a,
       "noise"_a.noconvert(), "played"_a.noconvert(), "draws"_a, "out"_a.noconvert(), "offsets"_a.noconvert() = nb::none());
    // out (R,n) = as many normals as are wanted from the bits of a decision's noise (R,·).
    m.def("more_normals", [](InWords noise, Out<2> out) {
        const Index R = out.shape(0), n = out.shape(1), words = noise.shape(1);
        demand(Index(noise.shape(0)) == R, "noise and out must have the same replicas");
        double spare;
        for (Index r = 0; r < R; ++r) {
            HashedDraws random = HashedDraws::from(noise.data() + r * words, words);
            double *row = out.data() + r * n;
            for (Index k = 0; k < n; k += 2) random.pair(row[k], k + 1 < n ? row[k + 1] : spare);
        }
    }, "noise"_a.noconvert(), "out"_a.noconvert());

    nb::module_ normal = m.def_submodule("normal", "The normal distribution and points for integrals over it, for tests.");
    normal.def("log_cdf", &log_cdf);
    normal.def("mills_deficit", &mills_deficit);
    normal.def("quantile", &quantile);
    normal.def("upper_tails", [](In<1> x, Out<1> out) {
        demand(x.size() == out.size() && x.size() % LANES == 0, "x and out must be (n,), n a multiple of eight");
        for (Index i = 0; i < Index(x.size()); i += LANES) store(out.data() + i, upper_tail(load(x.data() + i)));
    }, "x"_a.noconvert(), "out"_a.noconvert());
    normal.def("sobol_normals", [](Out<2> out) {
        const Index dim = out.shape(0), points = out.shape(1);
        demand(dim > 0 && points > 0 && points <= 1 << 30, "out must be (dim, points)");
        Unlocked unlocked;
        sobol::fill(out.data(), dim, points);
    }, "out"_a.noconvert());
    // The arms (K,d) that equal no earlier one; returns how many, whose numbers are written to out (K,).
    normal.def("distinct", [](In<2> arms, OutInts<1> out) {
        demand(out.size() == arms.shape(0), "out must be (K,)");
        const std::vector<Index> rows = distinct(arms.data(), arms.shape(0), arms.shape(1));
        std::copy(rows.begin(), rows.end(), out.data());
        return rows.size();
    }, "arms"_a.noconvert(), "out"_a.noconvert());
}

}  // namespace linmed
