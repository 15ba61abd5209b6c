// Several estimates beside each other in every replica, each with a prior of its own, of which one decides.
//
// All of them learn from every reward; the one that leads is asked. It is chosen before the arm is drawn, from rewards of
// the past alone, so the probability of the arm is that expert's, exactly.
#pragma once

#include "confidence.hpp"
#include "ridge.hpp"

namespace linmed {

// E experts in every replica: row r·E + e is expert e of replica r. Model holds the rows; of it are asked
//     rows, d, counts           and show(belief), as of `RidgeRows`
//     take_units(first, E, a, reward)   before the E experts from row `first` on learn
//     learn(first, E, a, reward, u)     one observation of all of them; u (E,scratch()) is scratch
//     lead(first, E)                    which of them decides from now on
template <class Model> class Experts : public Belief {
  public:
    Model model;
    Index R, E;
    int64_t *leader;  // (R,) the expert that decides

    // R·E = model.rows.
    Experts(const Model &model, Index R, int64_t *leader)
        : model(model), R(R), E(R > 0 ? model.rows / R : 0), leader(leader), u_(E * model.scratch()) {
        this->model.show(*this);
    }
    Index replicas() const override { return R; }
    Index row(Index r) const override { return r * E + std::clamp(Index(leader[r]), Index(0), E - 1); }
    double count(Index s) const override { return double(model.counts[s]); }
    void absorb(Index r, const double *a, double reward) override {
        const Index first = r * E;
        model.take_units(first, E, a, reward);
        model.learn(first, E, a, reward, u_);
        leader[r] = model.lead(first, E);
    }
    bool correct_by(Index r, const double *a, double more, double squares, double after) override {
        if constexpr (requires(double *u) { model.correct_each(r, E, a, more, squares, after, u); }) {
            if (!model.correct_each(r * E, E, a, more, squares, after, u_)) return false;
            if constexpr (Model::LEADS_AGAIN) leader[r] = model.lead(r * E, E);
            return true;
        }
        return false;
    }

  private:
    Buffer u_;
};

// Ridge estimates with different λ, of which the likeliest decides.
//
// λ is a prior on θ*, N(0, σ²/λ), and how likely the rewards were under it is known in closed form. With σ given, −log of
// their density is D/2 + RSS/2σ² and what all experts have in common; without, it is M of `surprise`. The λ are in units
// of |a|² and, where σ is unknown, the prior scales of σ in units of the rewards, each the first that is not 0: neither
// features nor rewards have to be of order one.
template <class Rows> struct RidgePriors : Rows {
    using Rows::counts, Rows::logdet, Rows::rss;
    static constexpr double SMALLEST = 1e-200;  // what is not larger is no unit

    double *given;      // (rows,3) λ, σ or 0, and the rewards' scale. Minus λ is in units of |a|² that are not known yet,
                        // minus the scale stands for one that is not.
    double *surprises;  // (rows,) −log of the density of the rewards so far, up to what all have in common

    double &lam(Index s) const { return given[3 * s]; }
    double sigma(Index s) const { return given[3 * s + 1]; }
    double &scale(Index s) const { return given[3 * s + 2]; }

    // Bring λ and the rewards' scale of a replica's experts into the units of what is seen, once.
    //
    // θ̂ and D are 0 until then: all features so far were 0, and so is what V has beyond λI.
    void take_units(Index first, Index E, const double *a, double reward) {
        if (lam(first) < 0.0) {
            const double length2 = Rows::squared(a);
            if (length2 > SMALLEST)
                for (Index s = first; s < first + E; ++s) {
                    lam(s) = -lam(s) * length2;
                    Rows::begin_with(s, lam(s));
                }
        }
        if (scale(first) < 0.0 && fabs(reward) > SMALLEST)
            for (Index s = first; s < first + E; ++s) scale(s) = fabs(reward);
    }

    void learn(Index first, Index E, const double *a, double reward, double *u) {
        for (Index s = first; s < first + E; ++s) {
            Rows::absorb(s, a, reward, u);
            weigh(s);
        }
    }
    void weigh(Index s) {
        surprises[s] = sigma(s) > 0.0 ? 0.5 * (logdet[s] + rss[s] / (sigma(s) * sigma(s)))
                                      : surprise(double(counts[s]), logdet[s], rss[s], fabs(scale(s)));
    }

    static constexpr bool LEADS_AGAIN = true;
    bool correct_each(Index first, Index E, const double *a, double more, double squares, double after, double *u)
        requires std::is_same_v<Rows, RidgeRows<int64_t>>
    {
        take_units(first, E, a, after);
        for (Index s = first; s < first + E; ++s) {
            Rows::correct(s, a, more, squares, u);
            weigh(s);
        }
        return true;
    }

    // The likeliest, the first among equals.
    Index lead(Index first, Index E) const {
        Index best = first;
        for (Index s = first; s < first + E; ++s)
            if (surprises[s] < surprises[best]) best = s;
        return best - first;
    }
};

template <class Rows> class RidgeExperts : public Experts<RidgePriors<Rows>> {
  public:
    using Experts<RidgePriors<Rows>>::Experts;
    double reward_scale(Index s, double) const override { return fabs(this->model.scale(s)); }  // of the rewards seen
};

// An intercept for ridge estimates: y = c + <a,θ*> + noise, with a flat prior on c.
//
// The n-th reward is compared with the mean of those before it (Helmert's contrasts):
//
//     a' = √((n−1)/n) (a − ā),   y' = √((n−1)/n) (y − ȳ),
//
// and the pair (a', y') is what ridge regression learns from; the first reward only sets ā and ȳ. Then
// V = λI + Σ(a − ā)(a − ā)', and θ̂ is what ridge regression on (1, a) finds if c is not shrunk: no number added to all
// rewards changes it. Rules see the arms as a − ā: how much better than the mean arm each is.
//
// Estimate is the belief that learns from the contrasts, of which there is one fewer than rewards.
template <class Estimate> class Centred final : public Belief {
  public:
    std::unique_ptr<Estimate> of_contrasts;
    double *middle;  // (R,d) ā
    double *level;   // (R,) ȳ
    int64_t *seen;   // (R,) n, rewards

    Centred(std::unique_ptr<Estimate> estimate, double *middle, double *level, int64_t *seen)
        : of_contrasts(std::move(estimate)), middle(middle), level(level), seen(seen), contrast_(padded(of_contrasts->d)) {
        of_contrasts->model.show(*this);
    }
    Index replicas() const override { return of_contrasts->replicas(); }
    Index row(Index r) const override { return of_contrasts->row(r); }
    double count(Index s) const override { return of_contrasts->count(s); }  // contrasts
    double reward_scale(Index s, double given) const override { return of_contrasts->reward_scale(s, given); }

    void absorb(Index r, const double *a, double reward) override {
        seen[r] += 1;
        const double n = double(seen[r]), root = sqrt((n - 1.0) / n);
        for (Index k = 0; k < d; ++k) {
            const double apart = a[k] - middle[r * d + k];
            contrast_[k] = root * apart;
            middle[r * d + k] += apart / n;
        }
        const double apart = reward - level[r];
        level[r] += apart / n;
        if (seen[r] > 1) of_contrasts->absorb(r, contrast_, root * apart);
    }

    // Σ(y − ȳ)² and Σ(a − ā)(y − ȳ) are those of the rewards as they are now, whatever their order.
    bool correct(Index r, const double *a, double before, double after) override {
        const double n = double(seen[r]), more = after - before, left = level[r];
        if (n < 1.0) return false;
        for (Index k = 0; k < d; ++k) contrast_[k] = a[k] - middle[r * d + k];
        const double squares = more * ((before - left) + (after - left)) - more * more / n;
        if (!of_contrasts->correct_by(r, contrast_, more, squares, after)) return false;
        level[r] += more / n;
        return true;
    }

    bool moves() const override { return true; }
    void move(Index r, const double *rows, Index stride, Index K, double *out) const override {  // a − ā
        for (Index i = 0; i < K; ++i)
            for (Index k = 0; k < d; ++k) out[i * d + k] = rows[i * stride + k] - middle[r * d + k];
    }
    // ȳ is independent of the contrasts: its share of V⁻¹ is 1/n, before any reward that of one.
    Intercept intercept(Index s) const override {
        const Index r = s / (of_contrasts->model.rows / replicas());
        return {1.0, level[r], 1.0 / double(std::max(seen[r], int64_t(1)))};
    }

  private:
    Buffer contrast_;
};

}  // namespace linmed
