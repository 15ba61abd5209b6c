// Rounds of LinMED among up to eight arms that stay the same, in two to four dimensions: the loop of `play` without what it
// need not ask again in every round. The bits are the same.
#pragma once

#include "confidence.hpp"
#include "med.hpp"
#include "ridge.hpp"
#include "rounds.hpp"

namespace linmed {

inline bool few_arms(const Ridge &belief, const RidgeSet &set, const MedRule &rule, const World &world) {
    return set.papers() && rule.among_few(world.K, world.width) && !world.arms_change && !world.arms_differ && world.means &&
           belief.replicas() == world.R && belief.plain;
}

// Writes played (T,R).
inline void play_few(Ridge &belief, const RidgeSet &set, const MedRule &rule, const World &world, int64_t *played) {
    const Index K = world.K, R = world.R;
    Buffer blocks(Arms::room(K, world.width)), u(padded(world.width));
    const Arms arms = pack(world.arms, K, world.width, world.width, blocks);
    const auto scratch = rule.workspace(K, world.width);
    auto &room = static_cast<MedScratch &>(*scratch);
    auto &model = belief.model;
    with_dimension(world.width, [&](auto d) {
        if constexpr (std::is_same_v<decltype(d), Index>) return;  // among_few says otherwise
        else
            for (Index t = 0; t < world.T; ++t) {
                between_rounds();
                const double *means = world.means + (world.means_change ? t * R * K : 0), *noise = world.noise + t * R * world.noise_size;
                for (Index r = 0; r < R; ++r) {
                    const double beta = std::min(set.of_paper(double(model.counts[r]), model.logdet[r]), Set::LARGEST);
                    const double uniform = noise[r * world.noise_size];
                    Index arm = rule.decide_in_block(d, model.theta + r * d, model.inverse + r * d * d, 1.0 / sqrt(beta), arms,
                                                     uniform, room);
                    if (arm < 0) arm = rule.decide(belief, r, beta, arms, 0, &uniform, room, nullptr);
                    played[t * R + r] = arm;
                    const double mean = means[r * K + arm];
                    model.absorb_in(d, r, arms.row(arm), world.errors ? mean + world.errors[t * R + r] : mean, u);
                }
            }
    });
}

}  // namespace linmed
