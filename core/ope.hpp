// Off-policy evaluation: sums over a batch, confidence sequences, reward models that predict before they learn.
#pragma once

#include "functions.hpp"
#include "matrices.hpp"
#include "rounds.hpp"

namespace linmed {

// ---- sums over a batch in one pass or two: what would be a dozen passes of array arithmetic -------------------------

// The mean and Σ (x − mean)² of x (n,), n > 0, summed in eight lanes.
struct MeanScatter { double mean, scatter; };
inline MeanScatter moments(const double *x, Index n) {
    const Index whole = n - n % LANES;
    Lanes total = splat(0.0), squares = splat(0.0);
    for (Index t = 0; t < whole; t += LANES) total = total + load(x + t);
    double mean = sum_lanes(total);
    for (Index t = whole; t < n; ++t) mean += x[t];
    mean /= double(n);
    for (Index t = 0; t < whole; t += LANES) {
        const Lanes gap = load(x + t) - splat(mean);
        squares = squares + gap * gap;
    }
    double scatter = sum_lanes(squares);
    for (Index t = whole; t < n; ++t) scatter += (x[t] - mean) * (x[t] - mean);
    return {mean, scatter};
}

// The largest weight; of rewards with a weight how many, the lowest and the highest, how many of each.
//
// weight ≥ 0, reward (n,). Without any weight the lowest is ∞ and the highest −∞.
struct EndsOfRewards { double weight, count, low, at_low, high, at_high; };
inline EndsOfRewards ends_of_rewards(const double *weight, const double *reward, Index n) {
    const Index whole = n - n % LANES;
    const Lanes nothing = splat(0.0), one = splat(1.0), below = splat(INF), above = splat(-INF);
    Lanes top = nothing, lowest = below, highest = above, counted = nothing, lows = nothing, highs = nothing;
    for (Index t = 0; t < whole; t += LANES) {
        const Lanes w = load(weight + t), r = load(reward + t);
        top = larger(w, top);
        counted = counted + where_greater(w, nothing, one, nothing);
        const Lanes small = where_greater(w, nothing, r, below);
        lowest = where_greater(lowest, small, small, lowest);
        highest = larger(where_greater(w, nothing, r, above), highest);
    }
    EndsOfRewards found{largest_lane(top), sum_lanes(counted), smallest_lane(lowest), 0.0, largest_lane(highest), 0.0};
    for (Index t = whole; t < n; ++t) {
        found.weight = std::max(found.weight, weight[t]);
        if (!(weight[t] > 0.0)) continue;
        found.count += 1.0;
        found.low = std::min(found.low, reward[t]), found.high = std::max(found.high, reward[t]);
    }
    const Lanes bottom = splat(found.low), ceiling = splat(found.high);
    for (Index t = 0; t < whole; t += LANES) {
        const Lanes w = load(weight + t), r = load(reward + t);
        lows = lows + where_greater(w, nothing, where_greater(r, bottom, nothing, one), nothing);
        highs = highs + where_greater(w, nothing, where_greater(ceiling, r, nothing, one), nothing);
    }
    found.at_low = sum_lanes(lows), found.at_high = sum_lanes(highs);
    for (Index t = whole; t < n; ++t)
        if (weight[t] > 0.0) found.at_low += reward[t] <= found.low, found.at_high += reward[t] >= found.high;
    return found;
}

// The smallest and the largest of x (n,), n > 0; NaN twice where one of them is NaN or infinite.
struct Ends { double smallest, largest; };
inline Ends ends(const double *x, Index n) {
    const Index whole = n - n % LANES;
    Lanes low = splat(x[0]), high = low, total = splat(0.0);
    for (Index t = 0; t < whole; t += LANES) {
        const Lanes v = load(x + t);
        low = where_greater(low, v, v, low);
        high = larger(v, high);
        total = total + (v - v);  // NaN where v is, or where it is infinite
    }
    double smallest = smallest_lane(low), largest = largest_lane(high), odd = sum_lanes(total);
    for (Index t = whole; t < n; ++t) {
        smallest = std::min(smallest, x[t]), largest = std::max(largest, x[t]);
        odd += x[t] - x[t];
    }
    return odd == 0.0 ? Ends{smallest, largest} : Ends{NAN, NAN};
}

// ---- confidence sequences for a mean, one observation at a time: the sums that bounds are made from -----------------
//
// Lower bounds only: upper bounds are lower bounds of the reflected rewards.

// Gains Σ_t log(1 + γ_j y_t) of 32 bets γ, which fall.
class Betting {
  public:
    static constexpr Index BETS = 32;
    static constexpr double CUT = 0.9;  // of its stake, the most that a bet may lose in a round where a model is cut

    Betting(double *gains, const double *bets) : gains_(gains), bets_(bets) {
        for (double &one : factor_) one = 1.0;
    }

    // y = x − s.  x ≥ 0, shift s ≥ 0 (n,).
    //
    // A bet that could lose CUT/2 of its stake or more ends with nothing, for good: its gain is −∞.
    void add(const double *x, const double *shift, Index n) {
        if (!begin(shift, n)) return;
        double moved[BLOCK];
        const Lanes one = splat(1.0);
        const Lanes g0 = load(bets_), g1 = load(bets_ + 8), g2 = load(bets_ + 16), g3 = load(bets_ + 24);
        Lanes f0 = one, f1 = one, f2 = one, f3 = one;
        const auto keep = [&](Lanes a, Lanes b, Lanes c, Lanes d) {
            store(factor_, a), store(factor_ + 8, b), store(factor_ + 16, c), store(factor_ + 24, d);
            bank();
        };
        const double boldest = bets_[first_];
        double largest = 1.0;  // no factor is larger, nor smaller than its inverse
        for (Index begin = 0; begin < n; begin += BLOCK) {
            between_rounds();
            Index count = 0;
            for (Index t = begin; t < std::min(begin + BLOCK, n); ++t) {
                const double y = std::min(x[t] - shift[t], LARGEST_GAIN);
                moved[count] = y;
                count += y != 0.0;  // without a branch: which of two sides a reward moves is anybody's guess
            }
            for (Index t = 0; t < count; ++t) {
                const Lanes y = splat(moved[t]);
                f0 = f0 * (g0 * y + one);
                f1 = f1 * (g1 * y + one);
                f2 = f2 * (g2 * y + one);
                f3 = f3 * (g3 * y + one);
                largest *= std::max(1.0 + boldest * moved[t], 2.0);
                if (largest > RENORM) {
                    keep(f0, f1, f2, f3);
                    f0 = f1 = f2 = f3 = one;
                    largest = 1.0;
                }
            }
        }
        keep(f0, f1, f2, f3);
    }

    // The same with a reward model q: y = x − s + Σ_a m(a) − m(a_t)/p_t,  m(a) = min(π(a) q(a), k c(a)).
    //
    // k = CUT/γ − s cuts the model where its weight is large: m(a_t)/p_t ≤ k, so no bet loses more than CUT of its stake.
    // c(a) > 0 is at most the logged probability of a; Σ_a m(a) is the mean of m(a_t)/p_t, so the model changes the variance
    // of y and not its mean.  x, shift s, probability p, chosen (n,); offsets (n+1,); mass π q, guard c (ΣK,).
    void add_cut(const double *x, const double *shift, Index n, const double *mass, const double *guard,
                 const double *probability, const int64_t *offsets, const int64_t *chosen) {
        if (!begin(shift, n)) return;
        double limits[BETS];
        for (Index j = 0; j < BETS; ++j) limits[j] = CUT / bets_[j];
        const Lanes one = splat(1.0);
        double largest = 1.0;  // as above
        const auto smaller = [](Lanes u, Lanes v) { return where_greater(u, v, v, u); };
        const auto gain = [&](Index j, Lanes y) { store(factor_ + j, load(factor_ + j) * (load(bets_ + j) * y + one)); };
        for (Index t = 0; t < n; ++t) {
            if (t % BLOCK == 0) between_rounds();
            double expected = 0.0, ratio = 0.0, highest = 0.0;  // ratio: the largest π q / c
            for (Index i = offsets[t]; i < offsets[t + 1]; ++i) {
                expected += mass[i];
                if (mass[i] > ratio * guard[i]) ratio = guard[i] > 0.0 ? mass[i] / guard[i] : INF;
            }
            const double base = x[t] - shift[t], inverse = 1.0 / probability[t];
            const Index own = chosen[t];
            Index uncut = 0;
            while (uncut < BETS && limits[uncut] - shift[t] < ratio) uncut += LANES;
            for (Index j = 0; j < uncut; j += LANES) {  // bets for which an arm, or more, is cut, and their neighbours
                const Lanes k = load(limits + j) - splat(shift[t]);
                Lanes kept = splat(0.0);
                for (Index i = offsets[t]; i < offsets[t + 1]; ++i)
                    kept = kept + smaller(splat(mass[i]), k * splat(guard[i]));
                const Lanes played = smaller(splat(mass[own]), k * splat(guard[own]));
                const Lanes y = smaller((splat(base) + kept) - played * splat(inverse), splat(LARGEST_GAIN));
                highest = std::max(highest, largest_lane(y));
                gain(j, y);
            }
            const double common = std::min(base + expected - mass[own] * inverse, LARGEST_GAIN);
            highest = std::max(highest, common);
            for (Index j = uncut; j < BETS; j += LANES) gain(j, splat(common));
            largest *= std::max(1.0 + bets_[first_] * highest, 1.0 / (1.0 - CUT));
            if (largest > RENORM) {
                bank();
                largest = 1.0;
            }
        }
        bank();
    }

  private:
    static constexpr double LARGEST_GAIN = 1e29;  // one round's gain is cut here, which only makes the bound more cautious
    static constexpr double RENORM = 1e250;  // logarithms are taken before a product of factors could leave float64's range
    static constexpr Index BLOCK = 4096;     // rounds looked at together

    double *gains_;
    const double *bets_;
    Index first_ = 0;            // the first bet that still has something to stake
    alignas(64) double factor_[BETS];

    // End the bets that a shift could cost too much; whether one still has something to stake.
    bool begin(const double *shift, Index n) {
        Lanes several = splat(0.0);
        Index t = 0;
        for (; t + LANES <= n; t += LANES) several = larger(load(shift + t), several);
        double farthest = largest_lane(several);
        for (; t < n; ++t) farthest = std::max(farthest, shift[t]);
        while (first_ < BETS && (gains_[first_] == -INF || bets_[first_] * farthest >= 0.5 * CUT)) gains_[first_++] = -INF;
        return first_ < BETS;
    }

    // Turn the factors of the bets that are alive into gains, and begin again.
    void bank() {
        for (Index j = first_; j < BETS; ++j) gains_[j] += log(factor_[j]);
        for (double &one : factor_) one = 1.0;
    }
};

// log Σ_j prior_j Π_t (1 + γ_j y_t)/(1 + γ_j m), and its derivative in m.  gains, bets γ, log_prior (J,); values (J,) is
// scratch.
struct LogWealth { double value, slope; };
inline LogWealth log_wealth(const double *gains, const double *bets, const double *log_prior, Index J, double count,
                            double mean, double *values) {
    double largest = -INF, total = 0.0, slope = 0.0;
    for (Index j = 0; j < J; ++j) {
        values[j] = gains[j] > -INF ? log_prior[j] + gains[j] - count * log1p(bets[j] * mean) : -INF;
        largest = std::max(largest, values[j]);
    }
    if (largest == -INF) return {largest, 0.0};
    for (Index j = 0; j < J; ++j)
        if (gains[j] > -INF) {
            const double share = exp(values[j] - largest);
            total += share;
            slope -= share * count * bets[j] / (1.0 + bets[j] * mean);
        }
    return {largest + log(total), slope / total};
}

// The smallest mean from `lowest` on with wealth below 1/α; above 1 it is not looked for exactly.
//
// The log-wealth is convex and decreasing in the mean, so Newton's steps from the left approach from the left: stopping
// early only makes the bound more cautious.
inline double betting_lower(const double *gains, const double *bets, const double *log_prior, Index J, double count,
                            double log_level, double lowest) {
    Buffer values(J);
    double mean = lowest;
    for (int attempt = 0; attempt < 200; ++attempt) {
        const auto [value, slope] = log_wealth(gains, bets, log_prior, J, count, mean, values);
        if (value < log_level || slope >= 0.0) break;
        const double step = (value - log_level) / -slope;
        mean += step;
        if (mean > 1.0 || step < 1e-13) break;
    }
    return mean;
}

// Weights h_t = m_t^{−1/2}, m_t the average of proxies before t, over about the last hundred, from 1 on.
//
// Adds Σh, ΣhΓ, Σh², Σh²Γ, Σh²Γ² to sums (5,).  state (4,) = count, m, m after a hundred decisions, and its largest since;
// score Γ, proxy (n,).
inline void stable_sums(double *state, double *sums, const double *score, const double *proxy, Index n) {
    double count = state[0], average = state[1], early = state[2], highest = state[3];
    double s0 = sums[0], s1 = sums[1], s2 = sums[2], s3 = sums[3], s4 = sums[4];
    for (Index t = 0; t < n; ++t) {
        if (t % 4096 == 0) between_rounds();
        const double h = 1.0 / sqrt(std::max(average, 1e-300)), g = score[t];
        s0 += h, s1 += h * g, s2 += h * h, s3 += h * h * g, s4 += h * h * g * g;
        count += 1.0;
        average += (proxy[t] - average) * std::max(1.0 / (count + 1.0), 0.01);
        if (count <= 100.0) early = highest = average;
        highest = std::max(highest, average);
    }
    state[0] = count, state[1] = average, state[2] = early, state[3] = highest;
    sums[0] = s0, sums[1] = s1, sums[2] = s2, sums[3] = s3, sums[4] = s4;
}

// ---- reward models that predict a decision before they learn from it ------------------------------------------------

// n decisions, one after the other: the arms of decision t stand at offsets[t], …, offsets[t+1] − 1 of a flat list.
struct Decisions {
    Index n;
    const int64_t *offsets;  // (n+1,)
    const int64_t *chosen;   // (n,) the arm played: its place in the list, or its number, as the model takes it
    const double *rewards;   // (n,)
};

// Predict every arm of decision t with what the model has learned from decisions before t, then let it learn from t.
template <class Model> void predict_then_learn(Model &&model, const Decisions &log, double *out) {
    for (Index t = 0; t < log.n; ++t) {
        if (t % 64 == 0) between_rounds();
        model.predict(log.offsets[t], log.offsets[t + 1] - log.offsets[t], out + log.offsets[t]);
        model.learn(log.chosen[t], log.rewards[t]);
    }
}

// A belief of one replica, whose `expected(a)` says what arm a pays; places of the list are rows of arms.
template <class Expected> struct BeliefModel {
    Belief &belief;
    Expected expected;
    const double *arms;  // (ΣK,d)
    Index d;
    void predict(Index first, Index K, double *out) const {
        for (Index a = 0; a < K; ++a) out[a] = expected(arms + (first + a) * d);
    }
    void learn(Index i, double reward) { belief.absorb(0, arms + i * d, reward); }
};

// One parameter per arm: the arm's mean reward so far, shrunk by λ towards 0 or, if `drawn`, towards the mean of all arms so
// far, which begins at 1/2.  sums, counts (K,).
struct MeansModel {
    double *sums, *counts, lam;
    bool drawn;
    double total = 0.0, count = 0.0;
    MeansModel(double *sums, double *counts, double lam, bool drawn, Index K)
        : sums(sums), counts(counts), lam(lam), drawn(drawn) {
        for (Index a = 0; a < K; ++a) total += sums[a], count += counts[a];
    }
    void predict(Index, Index K, double *out) const {
        const double base = drawn ? lam * ((total + 0.5) / (count + 1.0)) : 0.0;
        Index a = 0;
        for (; a + LANES <= K; a += LANES)
            store(out + a, (load(sums + a) + splat(base)) / (load(counts + a) + splat(lam)));
        for (; a < K; ++a) out[a] = (sums[a] + base) / (counts[a] + lam);
    }
    void learn(Index a, double reward) {
        sums[a] += reward, counts[a] += 1.0;
        total += reward, count += 1.0;
    }
};

}  // namespace linmed
