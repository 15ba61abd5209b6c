// Linear Thompson sampling: the draw θ̃ ~ N(θ̂, s² V⁻¹), and the pieces that its probabilities are made of.
#pragma once

#include <stdexcept>

#include "belief.hpp"
#include "confidence.hpp"
#include "normal.hpp"
#include "rounds.hpp"

namespace linmed {

// V = U'U by Cholesky, from the lower triangle of V (d,d); U has rows of padded(d) numbers, of which those left of the
// diagonal and past the last mean nothing.
//
// V ≥ λI, so no pivot is below λ: where rounding says otherwise, `smallest`, which is λ, is right. Where it is 0, λ has a
// unit that nobody told, and a pivot that is next to nothing beside its diagonal entry is rounding. Row after row of U is
// finished and taken off all that are left, eight numbers at a time, which do not wait for each other; few are taken one
// by one. The bits are the same.
inline void factor(const double *V, Index d, double smallest, double *U) {
    constexpr double ROUNDING = 1e-15;
    const Index stride = padded(d);
    for (Index i = 0; i < d; ++i)
        for (Index j = 0; j <= i; ++j) U[j * stride + i] = V[i * d + j];
    for (Index j = 0; j < d; ++j) {
        double *row = U + j * stride;
        const double least = smallest > 0.0 ? smallest : ROUNDING * V[j * d + j];
        const double pivot = sqrt(std::max(row[j], least));
        if (d < LANES)
            for (Index i = j + 1; i < d; ++i) row[i] /= pivot;
        else
            for (Index i = j / LANES * LANES; i < d; i += LANES) store(row + i, load(row + i) / splat(pivot));
        row[j] = pivot;
        for (Index k = j + 1; k < d; ++k) {
            double *other = U + k * stride;
            if (d < LANES)
                for (Index i = k; i < d; ++i) other[i] -= row[i] * row[k];
            else
                for (Index i = k / LANES * LANES; i < d; i += LANES)
                    store(other + i, load(other + i) - load(row + i) * splat(row[k]));
        }
    }
}

// draw = θ̂ + s U⁻¹z ~ N(θ̂, s² V⁻¹).  theta, draw, z (d,); z is overwritten.
inline void perturb(const double *theta, const double *U, Index d, double scale, double *z, double *draw) {
    const Index stride = padded(d);
    for (Index k = d - 1; k >= 0; --k) {
        z[k] /= U[k * stride + k];
        for (Index j = 0; j < k; ++j) z[j] -= U[j * stride + k] * z[k];
    }
    for (Index j = 0; j < d; ++j) draw[j] = theta[j] + scale * z[j];
}

// argmax_a <θ̃, a> with θ̃ ~ N(θ̂, s² V⁻¹), or with probability `floor` an arm drawn evenly.
//
// The noise of a decision is d standard normals, and one more with a floor. It only draws: the probabilities take longer
// (gaussian_argmax.hpp), and NaN stands for them.
class ThompsonRule final : public Rule {
  public:
    enum Kind { FREQUENTIST, SQUARED_RADIUS, NUMBER, AGRAWAL_GOYAL };

    int kind;     // which scale s: √β, β, a number, or σ√(9 d log(t/δ)), with a horizon σ√(24 d log(n) log(1/δ))
    double size;  // the number, or σ; minus the rewards' scale where σ is unknown
    double horizon;            // 0 stands for t
    double log_inverse_delta;  // negative stands for δ = 1/(n+1)
    double lam, floor;         // λ, which V is no smaller than

    ThompsonRule(int kind, double size, double horizon, double log_inverse_delta, double lam, double floor)
        : kind(kind), size(size), horizon(horizon), log_inverse_delta(log_inverse_delta), lam(lam), floor(floor) {}

    // The scale s of a row; t is the number of rewards absorbed, at least 1.
    double spread(const Belief &belief, Index s, double beta) const {
        if (kind == FREQUENTIST) return sqrt(beta);
        if (kind == SQUARED_RADIUS) return beta;
        double sigma = size;
        if (size < 0.0 && belief.rss) {
            const double scale = belief.reward_scale(s, -size);
            sigma = sqrt(likely_variance(belief.count(s), belief.rss[s], scale));
        }
        if (kind == NUMBER) return sigma;
        const double t = std::max(belief.count(s), 1.0), n = horizon > 0.0 ? horizon : t, d = double(belief.d);
        const double l = log_inverse_delta >= 0.0 ? log_inverse_delta : log(n + 1.0);
        const double variance = horizon > 0.0 ? 24.0 * d * log(n) * l : 9.0 * d * (log(t) + l);
        return sigma * sqrt(std::max(variance, std::numeric_limits<double>::min()));  // δ = 1 leaves no randomness at t = 1
    }

    bool prices() const override { return false; }  // `draw_worth` does it
    std::unique_ptr<Scratch> workspace(Index, Index d) const override { return std::make_unique<Draw>(d); }
    Index noise_size(Index d) const override { return floor > 0.0 ? d + 1 : d; }

    Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<Draw &>(room);
        const Index d = arms.d;
        if (belief.d != d || scratch.z.size() != d)
            throw std::invalid_argument("ThompsonRule needs a belief in the dimensions of the arms");
        if (log_p) std::fill(log_p, log_p + arms.K, NAN);
        if (floor > 0.0) {
            const double uniform = lower_tail(noise[d]);
            if (uniform < floor) return even_arm(uniform / floor, arms.K);
        }
        std::copy(noise, noise + d, scratch.z + 0);
        belief.factor_precision(s, lam, scratch.U);
        perturb(belief.estimate(s), scratch.U, d, spread(belief, s, beta), scratch.z, scratch.draw);
        return best_arm(arms, d, scratch.draw);
    }

    // The arm that a share of the even part stands for, in [0, 1).
    static Index even_arm(double share, Index K) { return std::min(Index(share * double(K)), K - 1); }

  private:
    struct Draw : Scratch {
        Buffer U, z, draw;  // (d,padded(d)), (d,), (d,)
        explicit Draw(Index d) : U(d * padded(d)), z(d), draw(d) {}
    };
};

// The arm of the largest <draw, a> + offset, the lowest among equals.
inline Index best_worth(const Arms &arms, const double *draw, const double *offset) {
    Index best = 0;
    double highest = -INF;
    for (Index i = 0; i < arms.K; ++i) {
        const double value = inner_row(arms.row(i), arms.d, draw) + offset[i];
        if (value > highest) best = i, highest = value;
    }
    return best;
}

// How often `draws` new decisions of the same rule would play the arm `played` of arms.
//
// The numbers come from the bits of the decision's own noise, so that a replica's depend on its own stream alone.
inline int64_t count_repeats(const Arms &arms, const double *theta, const double *V, double smallest, double scale,
                             double floor, HashedDraws random, Index played, Index draws, const double *offset = nullptr) {
    const Index d = arms.d;
    Buffer U(d * padded(d)), z(d + d % 2), draw(d);
    factor(V, d, smallest, U);
    int64_t hits = 0;
    for (Index n = 0; n < draws; ++n) {
        if (n % 64 == 0) between_rounds();
        if (floor > 0.0) {
            const double uniform = random.uniform();
            if (uniform < floor) {
                hits += played == ThompsonRule::even_arm(uniform / floor, arms.K);
                continue;
            }
        }
        for (Index k = 0; k < d; k += 2) random.pair(z[k], z[k + 1]);
        perturb(theta, U, d, scale, z, draw);
        hits += played == (offset ? best_worth(arms, draw, offset) : best_arm(arms, d, draw));
    }
    return hits;
}

}  // namespace linmed
