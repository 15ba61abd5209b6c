// Which arms can still be best: â against every other arm, by the confidence set |θ* − θ̂| ≤ √β in V.
//
// On the event that the set holds, <θ*, â − a> ≥ Δ̂(a) − √β|â − a| in V⁻¹ for all arms and at all times: an arm with
// Δ̂(a) > √β|â − a| is not the best one. Arms are gone through one by one, so that each arm's sums have one order.
#pragma once

#include "rounds.hpp"

namespace linmed {

// A set of arms (K,d) judged by an estimate θ̂ (d,), V⁻¹ (d,d).
class Judged {
  public:
    static constexpr int64_t UNDECIDED = -1, CONTRADICTED = -2;  // in place of a winner
    struct Apart { double gap, distance; };
    struct Look { Index best; double margin; Index left; };

    Judged(const double *theta, const double *inverse, const double *arms, Index K, Index d)
        : theta_(theta), inverse_(inverse), arms_(arms), K_(K), d_(d), x_(d) {}

    // <θ̂, a_i>.
    double mean(Index i) const {
        double mean = 0.0;
        for (Index k = 0; k < d_; ++k) mean += theta_[k] * row(i)[k];
        return mean;
    }

    // <θ̂, a_i − a_j> and |a_i − a_j| in V⁻¹, which is taken as large as rounding allows: what is nearly singular must not
    // look certain.
    Apart apart(Index i, Index j) {
        constexpr double ROUNDING = 8.9e-16;  // four units in the last place, of every term in a squared distance
        constexpr double SHORT = 1e-60;       // differences of arms below this are taken longer first
        between_rounds();
        double longest = 0.0, unit = 1.0;
        for (Index k = 0; k < d_; ++k) {
            x_[k] = row(i)[k] - row(j)[k];
            longest = std::max(longest, fabs(x_[k]));
        }
        if (longest == 0.0) return {0.0, 0.0};
        if (longest < SHORT) {  // its square would vanish
            unit = longest;
            for (Index k = 0; k < d_; ++k) x_[k] /= unit;
        }
        double gap = 0.0, distance2 = 0.0, rounding = 0.0;
        for (Index k = 0; k < d_; ++k) {
            const double *M = inverse_ + k * d_;
            double cross = 0.0;
            gap += theta_[k] * x_[k];
            for (Index m = 0; m < k; ++m) cross += M[m] * x_[m];
            distance2 += x_[k] * (2.0 * cross + M[k] * x_[k]);
            rounding += x_[k] * x_[k] * M[k];
        }
        return {gap * unit, sqrt(std::max(distance2, 0.0) + ROUNDING * double(d_) * rounding) * unit};
    }

    // √β|a − a'|, where an infinite radius leaves equal arms equal.
    static double half_width(double radius, double distance) { return distance > 0.0 ? radius * distance : 0.0; }

    // Drop from possible (K,) what this look rules out: the best arm, its margin, and how many are left.
    //
    // The best arm is the winner where there is one (≥ 0), else the leader of those left. Its margin is the largest
    // √β|best − a| − <θ̂, best − a> over the others that are left; if the best one alone is left, over all others, at most 0.
    // A winner that turns out to be worse by more than ε, which is what had been ruled out, leaves none.
    Look narrow(double radius, Index winner, double epsilon, bool *possible) {
        if (!(radius >= 0.0)) radius = INF;  // not a number: nothing is known
        const Index top = leader(nullptr);
        Index left = 0;
        for (Index i = 0; i < K_; ++i)
            if (possible[i]) {
                const Apart seen = apart(top, i);
                possible[i] = seen.gap <= half_width(radius, seen.distance);
                left += possible[i];
            }
        const Index best = winner >= 0 ? winner : left > 0 ? leader(possible) : top;
        double margin = -INF, behind = -INF;
        for (Index i = 0; i < K_; ++i)
            if (i != best && (possible[i] || left <= 1 || winner >= 0)) {
                const Apart seen = apart(best, i);
                const double width = half_width(radius, seen.distance);
                behind = std::max(behind, -seen.gap - width);
                if (possible[i] || left <= 1) margin = std::max(margin, width - seen.gap);
            }
        if (left == 1 && possible[best]) margin = std::min(margin, 0.0);
        if (winner >= 0 && behind > epsilon) {
            left = 0;
            std::fill(possible, possible + K_, false);
        }
        return {best, margin, left};
    }

  private:
    const double *theta_, *inverse_, *arms_;
    Index K_, d_;
    Buffer x_;

    const double *row(Index i) const { return arms_ + i * d_; }

    // The arm of the largest <θ̂, a>, the lowest on ties, among all or among those that are possible.
    Index leader(const bool *possible) const {
        Index best = -1;
        double highest = -INF;
        for (Index i = 0; i < K_; ++i)
            if (!possible || possible[i]) {
                const double value = mean(i);
                if (value > highest) best = i, highest = value;
            }
        return std::max(best, Index(0));
    }
};

// Observations one after the other; arms (R or 1, K, d), the same all the time, are looked at after each.
struct Hearing {
    const double *arms;
    Index K;
    bool arms_differ;
    const double *features, *rewards;  // (n,d), (n,)
    const int64_t *owners, *times;     // (n,) replica and time of each
    Index n;
    double epsilon;
    bool ends;  // whether a replica absorbs no more once there is a winner or a contradiction
};

// Absorb the observations, and keep possible (R,K), winner and decided (R,) up to date: `decided` is the time at which
// there was a winner, or a contradiction.
inline void follow(Belief &belief, const Set &set, const Hearing &heard, bool *possible, int64_t *winner, int64_t *decided) {
    const Index d = belief.d, K = heard.K;
    for (Index i = 0; i < heard.n; ++i) {
        between_rounds();
        const Index r = heard.owners[i];
        if (heard.ends && winner[r] != Judged::UNDECIDED) continue;
        belief.absorb(r, heard.features + i * d, heard.rewards[i]);
        if (winner[r] == Judged::CONTRADICTED) continue;
        const Index s = belief.row(r);
        Judged judged(belief.estimate(s), belief.covariance(s), heard.arms + (heard.arms_differ ? r : 0) * K * d, K, d);
            set.before_round();
        const auto [best, margin, left] =
            judged.narrow(sqrt(set.squared_radius(belief, s)), winner[r], heard.epsilon, possible + r * K);
        if (left == 0)
            winner[r] = Judged::CONTRADICTED, decided[r] = heard.times[i];
        else if (winner[r] == Judged::UNDECIDED && (left == 1 || margin <= heard.epsilon))
            winner[r] = best, decided[r] = heard.times[i];
    }
}

}  // namespace linmed
