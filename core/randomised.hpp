// RandUCB: a random width in place of the confidence radius, on a grid, so that its law can be summed.
#pragma once

#include <vector>

#include "optimism.hpp"
#include "rounds.hpp"

namespace linmed {

// argmax_a <θ̂, a> + Z|a|, where Z takes the value grid_m √β with probability weights_m.
class RandomisedRule final : public Rule {
  public:
    std::vector<double> grid, weights;  // (M,) increasing; (M,)
    std::vector<double> below;          // (M+1,) the running totals of the weights, the last of them 1
    bool coupled;
    double floor;

    RandomisedRule(std::vector<double> values, std::vector<double> probabilities, bool coupled, double floor)
        : grid(std::move(values)), weights(std::move(probabilities)), below(grid.size() + 1), coupled(coupled), floor(floor) {
        for (std::size_t m = 0; m < grid.size(); ++m) below[m + 1] = below[m] + weights[m];
        below.back() = 1.0;
    }

    bool asks() const override { return true; }
    std::unique_ptr<Scratch> workspace(Index K, Index) const override {
        return std::make_unique<Room>(K, coupled ? 0 : Index(grid.size()));
    }
    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index, const double *noise, Scratch &scratch,
                 double *log_p) const override {
        auto &room = static_cast<Room &>(scratch);
        double *width = room.leverage;
        belief.look_at(s, arms, room.mean, width, room.score);
        const Lanes radius = splat(sqrt(beta));
        for (Index first = 0; first < arms.K; first += LANES) store(width + first, radius * root(load(width + first)));
        if (coupled) one_for_all(arms.K, room);
        else one_for_each(arms.K, room);
        return settle(room.p, arms.K, floor, noise[0], log_p);
    }

  private:
    struct Room : ArmScratch {
        Buffer p;
        Buffer scores, beaten;  // (K,M) and (M,), none where Z is coupled
        Room(Index K, Index M) : ArmScratch(K), p(K), scores(K * M), beaten(M) {}
    };

    // One Z for all arms: weight m goes to the arm of the largest mean + grid_m width.
    void one_for_all(Index K, Room &room) const {
        const double *mean = room.mean, *width = room.leverage;
        for (Index i = 0; i < K; ++i) room.p[i] = 0.0;
        for (std::size_t m = 0; m < grid.size(); ++m) {
            Lanes size = splat(0.0);
            for (Index first = 0; first < K; first += LANES) {
                const Lanes center = load(mean + first), bonus = splat(grid[m]) * load(width + first);
                store(room.score + first, center + bonus);
                size = larger(magnitude(center) + magnitude(bonus), size);
            }
            room.p[first_largest(room.score, K, TIE * largest_lane(size))] += weights[m];
        }
    }

    // A Z for each arm: p_i = Σ_m w_m Π_{j≠i} P(score_j < score_im), ≤ for j > i.
    //
    // Both score_im and the scores of arm j increase with m, so one pass over the two grids suffices.
    void one_for_each(Index K, Room &room) const {
        double *mean = room.mean, *width = room.leverage, size = 0.0;
        const Index M = Index(grid.size());
        for (Index i = 0; i < K; ++i) size = std::max(size, fabs(mean[i]) + width[i]);
        for (Index i = 0; i < K; ++i)  // arms that differ by rounding alone tie exactly: the lowest index wins
            for (Index j = 0; j < i; ++j)
                if (std::max(fabs(mean[i] - mean[j]), fabs(width[i] - width[j])) <= TIE * size) {
                    mean[i] = mean[j], width[i] = width[j];
                    break;
                }
        for (Index i = 0; i < K; ++i)
            for (Index m = 0; m < M; ++m) room.scores[i * M + m] = mean[i] + grid[m] * width[i];
        for (Index i = 0; i < K; ++i) {
            if (i % LANES == 0) between_rounds();
            const double *own = room.scores + i * M;
            for (Index m = 0; m < M; ++m) room.beaten[m] = weights[m];
            for (Index j = 0; j < K; ++j) {
                const double *other = room.scores + j * M;
                if (j == i || own[0] > other[M - 1]) continue;  // i beats j whatever happens
                Index n = 0;
                for (Index m = 0; m < M; ++m) {
                    while (n < M && (other[n] < own[m] || (other[n] == own[m] && j > i))) ++n;
                    room.beaten[m] *= below[n];
                }
            }
            double total = 0.0;
            for (Index m = 0; m < M; ++m) total += room.beaten[m];
            room.p[i] = total;
        }
    }
};

}  // namespace linmed
