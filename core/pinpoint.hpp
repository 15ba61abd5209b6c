// Pinpoint's rule: the arm whose reward tells most about whether â is better than its strongest rival.
#pragma once

#include <stdexcept>

#include "med.hpp"
#include "optimism.hpp"
#include "utility.hpp"

namespace linmed {

// LinGapE's greedy rule, and a share `floor` for all arms.
class PinpointRule final : public Rule {
  public:
    double floor;
    explicit PinpointRule(double floor) : floor(floor) {}

    std::unique_ptr<Scratch> workspace(Index K, Index d) const override { return std::make_unique<Room>(K, d); }
    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index, const double *noise, Scratch &scratch,
                 double *log_p) const override {
        auto &room = static_cast<Room &>(scratch);
        const Index K = arms.K, d = arms.d;
        if (!belief.inverse || belief.d != d) throw std::invalid_argument("PinpointRule needs θ̂ and V⁻¹ of the arms' dimension");
        const double *theta = belief.estimate(s), *M = belief.covariance(s);
        const Utility *worth = belief.utility();
        const Index best = worth ? worth->best_of_all(K) : best_arm(arms, d, theta);
        const double length = centre_on(arms.row(best), M, d, room.y, room.ahead);
        OneBlock one(arms);
        for (Index first = 0; first < K; first += LANES) {
            const auto [lengths, gap, distance2] =
                seen_from(arms.block(first, one), d, theta, M, room.y, room.ahead, length, room.difference);
            store(room.leverage + first, lengths);
            store(room.gap + first, gap);
            store(room.distance2 + first, distance2);
        }
        if (worth) {
            worth->apart(s, arms, worth->scales(), best, room.distance2, room.difference);
            for (Index i = 0; i < K; ++i) room.gap[i] = worth->gains()[best] - worth->gains()[i];
        }
        Index arm = best;
        if (K > 1) {
            const Index rival = strongest_rival(best, K, sqrt(beta), room);
            const double first = worth ? worth->scales()[best] : 1.0, second = worth ? worth->scales()[rival] : 1.0;
            for (Index k = 0; k < d; ++k) room.y[k] = first * arms.row(best)[k] - second * arms.row(rival)[k];
            combine_rows(room.y, M, d, room.ahead);
            products(arms, room.ahead, room.score);
            const auto c = belief.intercept(s);
            if (first != second && c.one != 0.0)  // it no longer cancels
                for (Index i = 0; i < K; ++i) room.score[i] += (first - second) * c.corner, room.leverage[i] += c.corner;
            arm = most_telling(K, room);
        }
        return settle_on(arm, room.score, K, floor, noise[0], log_p);
    }

  private:
    struct Room : Scratch {
        Buffer leverage, gap, distance2, score;  // (K,) |a|², Δ̂, |â − a|²
        Buffer y, ahead;                         // (d,) â and V⁻¹â, then y = â − b and V⁻¹y
        Buffer difference;                       // (d,8) a − â of one block
        Room(Index K, Index d)
            : leverage(padded(K)), gap(padded(K)), distance2(padded(K)), score(padded(K)), y(d), ahead(padded(d)),
              difference(LANES * d) {}
    };

    // argmax over a ≠ â of √β|â − a| − Δ̂(a), written to score; an infinite radius outweighs every gap.
    static Index strongest_rival(Index best, Index K, double radius, Room &room) {
        double size = 0.0, lowest = INF;
        for (Index i = 0; i < K; ++i) {
            double width = sqrt(room.distance2[i]), gap = 0.0;
            if (radius < INF) width *= radius, gap = room.gap[i];
            room.score[i] = width - gap;
            size = std::max(size, width + fabs(gap));
            lowest = std::min(lowest, room.score[i]);
        }
        const double slack = TIE * size;
        room.score[best] = lowest - 1.0 - 4.0 * slack;
        return first_largest(room.score, K, slack);
    }

    // argmax_a <a, V⁻¹y>² / (1 + |a|²): what a reward of a takes off |y|².  score holds <a, V⁻¹y>.
    static Index most_telling(Index K, Room &room) {
        double largest = 0.0;
        for (Index i = 0; i < K; ++i) {
            room.score[i] = fabs(room.score[i] / sqrt(1.0 + room.leverage[i]));
            largest = std::max(largest, room.score[i]);
        }
        return first_largest(room.score, K, TIE * largest);
    }
};

}  // namespace linmed
