// Beliefs that forget at a rate they were given: every reward fades (D-LinUCB), or only the last ones count (SW-LinUCB).
//
// Both compute V⁻¹ from V again at every reward, O(d³): in the faded one λ is filled up in all directions at once, a window
// drops one arm and takes another. So no error of an inverse outlives its reward. V itself forgets its rounding errors as
// it fades; in a window, where arms are taken off again, it is summed again from the arms kept there every time the window
// has gone by: O(d²) a reward in the mean, and never more than that many roundings.
#pragma once

#include "ridge.hpp"

namespace linmed {

// inverse = V⁻¹ and θ̂ = V⁻¹b. Where V is singular to working precision, a little of its diagonal is added.
inline void solve_ridge(const double *V, const double *b, Index d, double *inverse, double *theta) {
    constexpr double LEAST = 1e-13;
    if (!invert_from_lower(V, d, inverse)) {
        Buffer raised(d * d);
        std::copy(V, V + d * d, static_cast<double *>(raised));
        for (Index k = 0; k < d; ++k) raised[k * d + k] *= 1.0 + LEAST;
        invert_from_lower(raised, d, inverse);
    }
    for (Index j = 0; j < d; ++j) {
        theta[j] = 0.0;
        for (Index k = 0; k < d; ++k) theta[j] += inverse[j * d + k] * b[k];
    }
}

// inverse ← V⁻¹ṼV⁻¹, where it was V⁻¹ and Ṽ is `middle`; symmetric to the last bit.
inline void sandwich(const double *middle, Index d, double *inverse) {
    Buffer half(d * d), whole(d * d);  // half: V⁻¹Ṽ
    for (Index i = 0; i < d; ++i)
        for (Index k = 0; k < d; ++k)
            for (Index j = 0; j < d; ++j) half[i * d + j] += inverse[i * d + k] * middle[k * d + j];
    for (Index i = 0; i < d; ++i)
        for (Index j = 0; j <= i; ++j)
            for (Index k = 0; k < d; ++k) whole[i * d + j] += half[i * d + k] * inverse[j * d + k];
    for (Index i = 0; i < d; ++i)
        for (Index j = 0; j <= i; ++j) inverse[i * d + j] = inverse[j * d + i] = whole[i * d + j];
}

// V = λI + Σγ^{t−s} a a', b = Σγ^{t−s} a y, Ṽ = λI + Σγ^{2(t−s)} a a' after t rewards.
class Faded final : public Belief {
  public:
    Index R;
    int64_t *counts;       // (R,) rewards absorbed
    double *gram_squared;  // (R,d,d) Ṽ; `inverse` is V⁻¹ṼV⁻¹, the covariance of θ̂ over σ²: what widths are measured in
    double *moment;        // (R,d) b
    const double *given;   // (R,2) γ and λ

    Index replicas() const override { return R; }
    double count(Index s) const override { return double(counts[s]); }

    // All fades, λ is filled up again, the arm is added.
    void absorb(Index r, const double *a, double reward) override {
        const double gamma = given[2 * r], lam = given[2 * r + 1], gamma2 = gamma * gamma;
        double *V = gram + r * d * d, *W = gram_squared + r * d * d, *b = moment + r * d;
        for (Index j = 0; j < d; ++j) {
            const double x = a[j];
            b[j] = gamma * b[j] + reward * x;
            for (Index k = 0; k < d; ++k) {
                const double product = x * a[k];
                V[j * d + k] = gamma * V[j * d + k] + product;
                W[j * d + k] = gamma2 * W[j * d + k] + product;
            }
            V[j * d + j] += (1.0 - gamma) * lam;
            W[j * d + j] += (1.0 - gamma2) * lam;
        }
        counts[r] += 1;
        solve_ridge(V, b, d, inverse + r * d * d, theta + r * d);
        sandwich(W, d, inverse + r * d * d);
    }
};

// V = λI + Σ a a' and b = Σ a y over the last w rewards.
class Windowed final : public Belief {
  public:
    Index R, w;
    int64_t *counts;     // (R,) rewards absorbed, those forgotten among them
    double *moment;      // (R,d) b
    const double *lam;   // (R,) λ
    double *vectors;     // (R,w,d) the arms of the last w rewards; the next one goes to count mod w
    double *rewards;     // (R,w)

    Index replicas() const override { return R; }
    double count(Index s) const override { return double(counts[s]); }

    // The observation takes the place of the oldest.
    void absorb(Index r, const double *a, double reward) override {
        double *V = gram + r * d * d, *b = moment + r * d;
        const Index place = Index(uint64_t(counts[r]) % uint64_t(w));
        counts[r] += 1;
        double *oldest = vectors + (r * w + place) * d;
        const bool full = counts[r] > w;
        const double dropped = full ? rewards[r * w + place] : 0.0;
        for (Index j = 0; j < d; ++j) {
            const double x = a[j], old = full ? oldest[j] : 0.0;
            b[j] += reward * x - dropped * old;
            for (Index k = 0; k < d; ++k) V[j * d + k] += x * a[k] - old * (full ? oldest[k] : 0.0);
        }
        std::copy(a, a + d, oldest);
        rewards[r * w + place] = reward;
        if (place == w - 1) sum_again(r);
        solve_ridge(V, b, d, inverse + r * d * d, theta + r * d);
    }

  private:
    // V and b of a full window.
    void sum_again(Index r) {
        const double *A = vectors + r * w * d, *y = rewards + r * w;
        double *V = gram + r * d * d, *b = moment + r * d;
        for (Index j = 0; j < d; ++j) {
            b[j] = 0.0;
            for (Index s = 0; s < w; ++s) b[j] += A[s * d + j] * y[s];
            for (Index k = 0; k <= j; ++k) {
                double total = j == k ? lam[r] : 0.0;
                for (Index s = 0; s < w; ++s) total += A[s * d + j] * A[s * d + k];
                V[j * d + k] = V[k * d + j] = total;
            }
        }
    }
};

// What both sets are given.
class RecentSet : public Set {
  public:
    double sigma, log_inverse_delta;  // negative stands for δ = 1/(t+1) after t rewards
    double lam, norm, longest;        // λ, S, L
    RecentSet(double sigma, double log_inverse_delta, double lam, double norm, double longest)
        : sigma(sigma), log_inverse_delta(log_inverse_delta), lam(lam), norm(norm), longest(longest) {}

  protected:
    double level(double t) const { return log_inverse_delta >= 0.0 ? log_inverse_delta : log(t + 1.0); }
    double squared(double inside) const {  // (√λ S + σ √inside)²
        const double root = sqrt(lam) * norm + sigma * sqrt(inside);
        return root * root;
    }
};

// √β = √λ S + σ √(2 log(1/δ) + d log(1 + L²(1 − γ^{2t}) / (λd(1 − γ²)))) after t rewards.
//
// Russac, Vernade & Cappé (2019), Theorem 1 and Algorithm 1.
class FadedSet final : public RecentSet {
  public:
    double log_gamma;
    FadedSet(double sigma, double log_inverse_delta, double lam, double norm, double longest, double log_gamma)
        : RecentSet(sigma, log_inverse_delta, lam, norm, longest), log_gamma(log_gamma) {}

    double squared_radius(const Belief &belief, Index s) const override {
        const double t = belief.count(s), d = double(belief.d);
        const double weight = expm1(2.0 * t * log_gamma) / expm1(2.0 * log_gamma);  // Σγ^{2s}, s < t
        return squared(2.0 * level(t) + d * log1p(longest * longest * weight / (lam * d)));
    }
};

// √β = √λ S + σ √(d log((1 + wL²/λ)/δ)).  Cheung, Simchi-Levi & Zhu (2019), Theorem 2.
class WindowedSet final : public RecentSet {
  public:
    double window;  // w
    WindowedSet(double sigma, double log_inverse_delta, double lam, double norm, double longest, double window)
        : RecentSet(sigma, log_inverse_delta, lam, norm, longest), window(window) {}

    double squared_radius(const Belief &belief, Index s) const override {
        return squared(double(belief.d) * (log1p(window * longest * longest / lam) + level(belief.count(s))));
    }
};

}  // namespace linmed
