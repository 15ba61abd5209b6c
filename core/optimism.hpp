// Rules that look at <θ̂, a> and |a| in V⁻¹ and play one arm: OFUL, LinIMED and, without a bonus, greed.
#pragma once

#include "belief.hpp"
#include "sampling.hpp"

namespace linmed {

constexpr double TIE = 1e-12;  // values this close, relative to the size of their terms, are equal: the lowest index wins

// What these rules write of every arm.
struct ArmScratch : Rule::Scratch {
    Buffer mean, leverage, score;
    explicit ArmScratch(Index K) : mean(padded(K)), leverage(padded(K)), score(padded(K)) {}
};

LINMED_INLINE Lanes magnitude(Lanes x) { return larger(x, x * splat(-1.0)); }

// The lowest index whose value is within `slack` of the maximum.
inline Index first_largest(const double *values, Index K, double slack) {
    const Index whole = K - K % LANES;
    Lanes largest = splat(-INF);
    for (Index first = 0; first < whole; first += LANES) largest = larger(load(values + first), largest);
    double highest = largest_lane(largest);
    for (Index i = whole; i < K; ++i) highest = std::max(highest, values[i]);
    Index i = 0;
    while (i < K - 1 && values[i] < highest - slack) ++i;
    return i;
}

// The lowest position whose index is the smallest but for rounding; +inf ties with itself alone.
inline Index first_smallest(const double *index, Index K) {
    double lowest = index[0];
    for (Index i = 1; i < K; ++i) lowest = std::min(lowest, index[i]);
    const double slack = lowest < INF ? TIE * (1.0 + fabs(lowest)) : 0.0;
    Index arm = 0;
    while (arm < K - 1 && index[arm] > lowest + slack) ++arm;
    return arm;
}

// ucb_a = <θ̂, a> + √β |a|; returns the arm of the largest one.  All (K,), padded.
inline Index upper_bounds(const double *mean, const double *leverage, Index K, double radius, double *ucb) {
    Lanes size = splat(0.0);
    for (Index first = 0; first < K; first += LANES) {
        const Lanes m = load(mean + first), bonus = splat(radius) * root(load(leverage + first));
        store(ucb + first, m + bonus);
        size = larger(magnitude(m) + bonus, size);
    }
    return first_largest(ucb, K, TIE * largest_lane(size));
}

// argmax_a <θ̂, a> + √β |a|.
class OfulRule final : public Rule {
  public:
    double floor;
    explicit OfulRule(double floor) : floor(floor) {}

    bool asks() const override { return true; }
    std::unique_ptr<Scratch> workspace(Index K, Index) const override { return std::make_unique<ArmScratch>(K); }
    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<ArmScratch &>(room);
        belief.look_at(s, arms, scratch.mean, scratch.leverage, scratch.score);
        const Index arm = upper_bounds(scratch.mean, scratch.leverage, arms.K, sqrt(beta), scratch.score);
        return settle_on(arm, scratch.score, arms.K, floor, noise[0], log_p);
    }
};

// argmax_a <θ̂, a>, and a share ε for all arms alike.
class GreedyRule final : public Rule {
  public:
    double epsilon;
    explicit GreedyRule(double epsilon) : epsilon(epsilon) {}

    bool asks() const override { return true; }
    std::unique_ptr<Scratch> workspace(Index K, Index) const override { return std::make_unique<Room>(K); }
    Index decide(const Belief &belief, Index s, double, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        double *mean = static_cast<Room &>(room).mean, size = 0.0;
        belief.expect(s, arms, mean);
        for (Index i = 0; i < arms.K; ++i) size = std::max(size, fabs(mean[i]));
        return settle_on(first_largest(mean, arms.K, TIE * size), mean, arms.K, epsilon, noise[0], log_p);
    }

  private:
    struct Room : Scratch {
        Buffer mean;
        explicit Room(Index K) : mean(padded(K)) {}
    };
};

// argmin_a I(a) with one of LinIMED's three indices.
class ImedRule final : public Rule {
  public:
    int version;
    double C;
    double log_horizon;  // negative stands for the current round
    double floor;
    ImedRule(int version, double C, double log_horizon, double floor)
        : version(version), C(C), log_horizon(log_horizon), floor(floor) {}

    bool asks() const override { return true; }
    std::unique_ptr<Scratch> workspace(Index K, Index) const override { return std::make_unique<ArmScratch>(K); }
    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<ArmScratch &>(room);
        belief.look_at(s, arms, scratch.mean, scratch.leverage, scratch.score);
        const double cap = log_horizon < 0.0 ? log(belief.count(s) + 1.0) : log_horizon;
        indices(scratch.mean, scratch.leverage, arms.K, sqrt(beta), cap, scratch.score);
        const Index arm = first_smallest(scratch.score, arms.K);
        return settle_on(arm, scratch.score, arms.K, floor, noise[0], log_p);
    }

  private:
    // The index of LinIMED-1, -2 or -3 of every arm, to be minimised.  mean, leverage, index (K,).
    //
    // I(a) = D(a)² / (β|a|²) − log(β|a|²), where D is the gap between means (versions 1 and 2) or between upper confidence
    // bounds (version 3); the leading arm's index is capped in versions 2 and 3. An arm without leverage (the zero vector)
    // has index +inf.
    void indices(const double *mean, const double *leverage, Index K, double radius, double cap, double *index) const {
        Index best = 0;
        if (version == 3) {
            best = upper_bounds(mean, leverage, K, radius, index);
        } else {
            std::copy(mean, mean + K, index);
            for (Index i = 1; i < K; ++i)
                if (mean[i] > mean[best]) best = i;
        }
        const double top = index[best];
        double widest = 0.0;
        for (Index i = 0; i < K; ++i) {
            const double gap = std::max(top - index[i], 0.0), width = radius * sqrt(leverage[i]), ratio = gap / width;
            widest = std::max(widest, gap);
            index[i] = width > 0.0 ? ratio * ratio - 2.0 * log(width) : INF;
        }
        if (version == 2) index[best] = std::min(cap, index[best]);
        if (version == 3 && widest > 0.0) index[best] = std::min(log(C) - 2.0 * log(widest), index[best]);
    }
};

}  // namespace linmed
