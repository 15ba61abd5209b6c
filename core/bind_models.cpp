#include "bind_rows.hpp"
#include "catalogue.hpp"
#include "item_models.hpp"
#include "verdict.hpp"

namespace linmed {

static void bind_item_models(nb::module_ &m) {
    // The largest number of a model in column 0 of arms (n,d); −1 − i where row i has none below `most`.
    m.def("highest_model", [](In<2> arms, double most) {
        demand(arms.shape(1) > 0 && most <= 0x1p52, "arms must have a column for the number of the model");
        return highest_model(arms.data(), Index(arms.shape(0)), Index(arms.shape(1)), most);
    }, "arms"_a.noconvert(), "most"_a);
    // <θ̂, a> of the arms of every set, and of every two a V⁻¹ a', or where gram is (R,K,1) |a|² of each; those with the
    // intercept, where there is one.
    m.def("look_at_models", [](const Held<Belief> &belief, In<3> arms, Out<2> mean, Out<3> gram) {
        const auto *models = dynamic_cast<const Pairs *>(belief.object.get());
        demand(models, "belief must be of models of items");
        const Index R = mean.shape(0), K = arms.shape(1), d = belief->width(), pairs = gram.shape(2);
        demand((Index(arms.shape(0)) == R || arms.shape(0) == 1) && Index(arms.shape(2)) == d, "arms must be (R or 1, K, d)");
        demand(belief->replicas() == R || belief->replicas() == 1, "state and decisions differ in replicas");
        demand(Index(mean.shape(1)) == K && Index(gram.shape(0)) == R && Index(gram.shape(1)) == K &&
                   (pairs == K || pairs == 1), "mean must be (R, K), gram (R, K, K) or (R, K, 1)");
        Unlocked unlocked(R * K * d * d);
        Buffer means(padded(K)), lengths(padded(K));
        for (Index r = 0; r < R; ++r) {
            between_rounds();
            const Index s = belief->row(belief->replicas() > 1 ? r : 0);
            const double *rows = arms.data() + (arms.shape(0) > 1 ? r : 0) * K * d;
            if (pairs == K && K > 1) {
                models->look_at_pairs(s, rows, K, mean.data() + r * K, gram.data() + r * K * K);
            } else {
                belief->look_at(s, Arms{rows, K, d, d, nullptr}, means, lengths, nullptr);
                std::copy(means + 0, means + K, mean.data() + r * K);
                std::copy(lengths + 0, lengths + K, gram.data() + r * K);
            }
        }
    }, "belief"_a, "arms"_a.noconvert(), "mean"_a.noconvert(), "gram"_a.noconvert());
    // Arms with the same means and products where V = λI, for rules that have to multiply a θ̂ with arms.
    m.def("coordinates", [](In<3> arms, Out<2> mean, Out<3> gram, double lam, Out<3> out, Out<2> theta) {
        const Index R = mean.shape(0), K = mean.shape(1), d = arms.shape(2);
        const auto square = [&](const Out<3> &a) {
            return Index(a.shape(0)) == R && Index(a.shape(1)) == K && Index(a.shape(2)) == K;
        };
        demand((Index(arms.shape(0)) == R || arms.shape(0) == 1) && Index(arms.shape(1)) == K, "arms must be (R or 1, K, d)");
        demand(square(gram) && square(out) && Index(theta.shape(0)) == R && Index(theta.shape(1)) == K,
               "gram and out must be (R, K, K), theta (R, K)");
        Unlocked unlocked(R * K * K);
        for (Index r = 0; r < R; ++r)
            coordinates(arms.data() + (arms.shape(0) > 1 ? r : 0) * K * d, K, d, mean.data() + r * K, gram.data() + r * K * K,
                        lam, out.data() + r * K * K, theta.data() + r * K);
    }, "arms"_a.noconvert(), "mean"_a.noconvert(), "gram"_a.noconvert(), "lam"_a, "out"_a.noconvert(), "theta"_a.noconvert());
}

// ---- catalogues ------------------------------------------------------------------------------------------------------

template <class Real>
static void scan_block(Array<const float, 2> scores, Array<const Real, 2> rows, InBools<1> live, int64_t first, In<2> queries,
                       In<1> reach, OutInts<2> places, Out<2> values) {
    const Index B = scores.shape(0), n = scores.shape(1), d = rows.shape(1), k = places.shape(1);
    demand(Index(rows.shape(0)) == n && Index(live.shape(0)) == n, "rows must be (n, d), live (n,) for scores (B, n)");
    demand(Index(queries.shape(0)) == B && Index(queries.shape(1)) == d && Index(reach.shape(0)) == B,
           "queries must be (B, d), reach (B,)");
    demand(Index(places.shape(0)) == B && Index(values.shape(0)) == B && Index(values.shape(1)) == k && k > 0,
           "places and values must be (B, k), k at least 1");
    Unlocked unlocked(B * n);
    for (Index b = 0; b < B; ++b)
        enter_best(scores.data() + b * n, rows.data(), n, d, live.data(), first, queries.data() + b * d,
                   doubt(d, reach.data()[b]), k, places.data() + b * k, values.data() + b * k);
}

template <class Real> static void bind_scan(nb::module_ &m) {
    // Enter the items of a block, rows (n,d) at `first` + 0, 1, …, into the best of each query by their scores (B,n).
    m.def("scan_block", &scan_block<Real>, "scores"_a.noconvert(), "rows"_a.noconvert(), "live"_a.noconvert(), "first"_a,
          "queries"_a.noconvert(), "reach"_a.noconvert(), "places"_a.noconvert(), "values"_a.noconvert());
    m.def("longest_row", [](Array<const Real, 2> rows) {
        Unlocked unlocked(Index(rows.size()));
        return longest_row(rows.data(), Index(rows.shape(0)), Index(rows.shape(1)));
    }, "rows"_a.noconvert());
}

static void bind_catalogue(nb::module_ &m) {
    bind_scan<float>(m);
    bind_scan<double>(m);
    // Writes B'θ̂ (de,), M = B'V⁻¹B (de,de) and B'V⁻¹c (de,); returns c'V⁻¹c.
    m.def("see_items", [](In<1> theta, In<2> inverse, In<2> B, In<1> c, Out<1> item_theta, Out<2> M, Out<1> cross) {
        const Index d = B.shape(0), de = B.shape(1);
        demand(Index(theta.shape(0)) == d && Index(inverse.shape(0)) == d && Index(inverse.shape(1)) == d &&
                   Index(c.shape(0)) == d, "theta and c must be (d,), inverse (d, d), for B (d, de)");
        demand(Index(item_theta.shape(0)) == de && Index(M.shape(0)) == de && Index(M.shape(1)) == de &&
                   Index(cross.shape(0)) == de, "item_theta and cross must be (de,), M (de, de), for B (d, de)");
        Unlocked unlocked(d * d);
        return see_items(theta.data(), inverse.data(), d, B.data(), de, c.data(), item_theta.data(), M.data(), cross.data());
    }, "theta"_a.noconvert(), "inverse"_a.noconvert(), "B"_a.noconvert(), "c"_a.noconvert(), "item_theta"_a.noconvert(),
       "M"_a.noconvert(), "cross"_a.noconvert());
    // Writes log f and |a|² of items (m,de), seen from the best one.
    m.def("weigh_items", [](In<2> items, In<1> best, In<1> theta, In<2> M, In<1> cross, double constant, double sharpness,
                            Out<1> log_f, Out<1> leverage) {
        const Index n = items.shape(0), de = items.shape(1);
        demand(Index(best.shape(0)) == de && Index(theta.shape(0)) == de && Index(M.shape(0)) == de &&
                   Index(M.shape(1)) == de && Index(cross.shape(0)) == de, "best, theta and cross must be (de,), M (de, de)");
        demand(Index(log_f.shape(0)) == n && Index(leverage.shape(0)) == n, "log_f and leverage must be (m,)");
        Unlocked unlocked(n * de * de);
        Buffer weights(padded(n)), lengths(padded(n));
        weigh_items(Arms{items.data(), n, de, de, nullptr}, best.data(), theta.data(), M.data(), cross.data(), constant,
                    sharpness, weights, lengths);
        std::copy(weights + 0, weights + n, log_f.data());
        std::copy(lengths + 0, lengths + n, leverage.data());
    }, "items"_a.noconvert(), "best"_a.noconvert(), "theta"_a.noconvert(), "M"_a.noconvert(), "cross"_a.noconvert(),
       "constant"_a, "sharpness"_a, "log_f"_a.noconvert(), "leverage"_a.noconvert());
    m.def("most_levered", [](In<1> leverage) { return most_levered(leverage.data(), Index(leverage.shape(0))); },
          "leverage"_a.noconvert());
    m.def("raise_item", [](In<1> item, In<2> B, In<1> c, Out<1> arm) {
        const Index d = B.shape(0), de = B.shape(1);
        demand(Index(item.shape(0)) == de && Index(c.shape(0)) == d && Index(arm.shape(0)) == d,
               "item must be (de,), c and arm (d,), for B (d, de)");
        raise_item(item.data(), B.data(), d, de, c.data(), arm.data());
    }, "item"_a.noconvert(), "B"_a.noconvert(), "c"_a.noconvert(), "arm"_a.noconvert());
    m.def("take_out", [](Out<2> P, In<1> x) {
        const Index d = x.shape(0);
        demand(Index(P.shape(0)) == d && Index(P.shape(1)) == d, "P must be (d, d), x (d,)");
        return take_out(P.data(), d, x.data());
    }, "P"_a.noconvert(), "x"_a.noconvert());
    // Whether each proposal is kept: its uniform (n,) is below f of the item that it belongs to, which[i] of log_f (m,).
    m.def("kept", [](In<1> uniforms, In<1> log_f, InInts<1> which, OutBools<1> out) {
        const Index n = out.shape(0), m = log_f.shape(0);
        demand(Index(uniforms.shape(0)) == n && Index(which.shape(0)) == n, "uniforms and which must be (n,)");
        for (Index i = 0; i < n; ++i) {
            const int64_t item = which.data()[i];
            demand(item >= 0 && item < m, "which must be places of log_f");
            out.data()[i] = uniforms.data()[i] < exp(log_f.data()[item]);
        }
    }, "uniforms"_a.noconvert(), "log_f"_a.noconvert(), "which"_a.noconvert(), "out"_a.noconvert());
    m.def("log_of_routes", [](In<1> q, In<1> log_f, bool explore, InBools<1> explored, Out<1> out) {
        const Index n = out.shape(0);
        demand(Index(q.shape(0)) == n && Index(log_f.shape(0)) == n && Index(explored.shape(0)) == n, "all must be (n,)");
        for (Index i = 0; i < n; ++i)
            out.data()[i] = log_of_routes(q.data()[i], log_f.data()[i], explore, explored.data()[i]);
    }, "q"_a.noconvert(), "log_f"_a.noconvert(), "explore"_a, "explored"_a.noconvert(), "out"_a.noconvert());
}

// ---- verdicts --------------------------------------------------------------------------------------------------------

static Judged judged(In<1> theta, In<2> inverse, In<2> arms) {
    const Index K = arms.shape(0), d = arms.shape(1);
    demand(Index(theta.shape(0)) == d && Index(inverse.shape(0)) == d && Index(inverse.shape(1)) == d && K > 0,
           "theta must be (d,), inverse (d, d), arms (K, d)");
    return Judged(theta.data(), inverse.data(), arms.data(), K, d);
}

static void follow_arrays(const Held<Belief> &belief, const Held<Set> &set, In<3> arms, In<2> features, In<1> rewards,
                          InInts<1> owners, InInts<1> times, double epsilon, bool ends, OutBools<2> possible,
                          OutInts<1> winner, OutInts<1> decided) {
    const Index R = belief->replicas(), K = arms.shape(1), d = belief->d, n = features.shape(0);
    demand(belief->width() == d && belief->features() == d, "verdicts after every reward are for one model of all arms");
    demand((Index(arms.shape(0)) == R || arms.shape(0) == 1) && K > 0 && Index(arms.shape(2)) == d, "arms must be (R or 1, K, d)");
    demand(Index(features.shape(1)) == d && Index(rewards.shape(0)) == n && Index(owners.shape(0)) == n &&
               Index(times.shape(0)) == n, "features must be (n, d), rewards, owners and times (n,)");
    demand(Index(possible.shape(0)) == R && Index(possible.shape(1)) == K && Index(winner.shape(0)) == R &&
               Index(decided.shape(0)) == R, "possible must be (R, K), winner and decided (R,)");
    for (Index i = 0; i < n; ++i) demand(owners.data()[i] >= 0 && owners.data()[i] < R, "owners must be replicas of the state");
    for (Index r = 0; r < R; ++r)
        demand(winner.data()[r] >= Judged::CONTRADICTED && winner.data()[r] < K, "winner must be arms, −1 or −2");
    const Hearing heard{arms.data(), K, arms.shape(0) > 1, features.data(), rewards.data(), owners.data(), times.data(), n,
                        epsilon, ends};
    Unlocked unlocked(n * K * d * d);
    follow(*belief, *set, heard, possible.data(), winner.data(), decided.data());
}

static void bind_verdict(nb::module_ &m) {
    // <θ̂, a> of arms (K,d).
    m.def("estimate_arms", [](In<1> theta, In<2> arms, Out<1> out) {
        const Index K = arms.shape(0), d = arms.shape(1);
        demand(Index(theta.shape(0)) == d && Index(out.shape(0)) == K, "theta must be (d,), out (K,), for arms (K, d)");
        const Judged all(theta.data(), nullptr, arms.data(), K, d);
        for (Index i = 0; i < K; ++i) out.data()[i] = all.mean(i);
    }, "theta"_a.noconvert(), "arms"_a.noconvert(), "out"_a.noconvert());
    // Arm `first` against every arm: gaps <θ̂, a_first − a> and half-widths √β|a_first − a|, (K,) each.
    m.def("compare_arms", [](In<1> theta, In<2> inverse, double radius, In<2> arms, Index first, Out<1> gaps, Out<1> widths) {
        const Index K = arms.shape(0);
        Judged all = judged(theta, inverse, arms);
        demand(first >= 0 && first < K, "first must be one of the arms");
        demand(Index(gaps.shape(0)) == K && Index(widths.shape(0)) == K, "gaps and widths must be (K,)");
        Unlocked unlocked(K * Index(arms.shape(1)) * Index(arms.shape(1)));
        for (Index i = 0; i < K; ++i) {
            const Judged::Apart seen = all.apart(first, i);
            gaps.data()[i] = seen.gap, widths.data()[i] = Judged::half_width(radius, seen.distance);
        }
    }, "theta"_a.noconvert(), "inverse"_a.noconvert(), "radius"_a, "arms"_a.noconvert(), "first"_a, "gaps"_a.noconvert(),
       "widths"_a.noconvert());
    // Drops from possible (K,) what is ruled out; the best arm, its margin, and how many are left.
    m.def("look_once", [](In<1> theta, In<2> inverse, double radius, In<2> arms, Index winner, double epsilon,
                          OutBools<1> possible) {
        const Index K = arms.shape(0);
        Judged all = judged(theta, inverse, arms);
        demand(Index(possible.shape(0)) == K && winner < K, "possible must be (K,), winner one of the arms or negative");
        Unlocked unlocked(K * Index(arms.shape(1)) * Index(arms.shape(1)));
        const auto [best, margin, left] = all.narrow(radius, winner, epsilon, possible.data());
        return std::make_tuple(best, margin, left);
    }, "theta"_a.noconvert(), "inverse"_a.noconvert(), "radius"_a, "arms"_a.noconvert(), "winner"_a, "epsilon"_a,
       "possible"_a.noconvert());
    // Absorb n observations into a belief, and look at the arms after each of them.
    m.def("follow", &follow_arrays, "belief"_a, "set"_a, "arms"_a.noconvert(), "features"_a.noconvert(), "rewards"_a.noconvert(),
          "owners"_a.noconvert(), "times"_a.noconvert(), "epsilon"_a, "ends"_a, "possible"_a.noconvert(), "winner"_a.noconvert(),
          "decided"_a.noconvert());
}

void bind_models(nb::module_ &m) {
    bind_item_models(m);
    bind_catalogue(m);
    bind_verdict(m);
}

}  // namespace linmed
