// Confidence sets |θ* − θ̂|² ≤ β in V of ridge estimates.
//
// With ℓ = log(1/δ), D = log(det V/det V₀), RSS and G the two sums of `Ridge`, r = S or, where no bound on |θ*| was
// given, r̄:
//
//     PAPER      β = (σ √(D + 2ℓ) + √λ S)²        noise σ-sub-Gaussian, |θ*| ≤ S (the paper's eq. (beta))
//     MIXTURE    β = λr² + σ² (D + 2ℓ)            the same; never larger
//     EMPIRICAL  β = λr² + 2σ²ℓ + G               the same, σ only an upper bound
//     GAUSSIAN   β = λr² + max(0, R − RSS)        Gaussian noise of any σ
//     STRICT     β = λr² + σ̄² (D + 2 log(2/δ))    strictly sub-Gaussian noise of any σ (E η⁴ ≤ 3σ⁴ follows)
//     LEARNED    β = σ² (d + D + 2ℓ)              no proof: empirical Bayes, λ the likeliest, σ̂ for an unknown σ
//
// The proofs are short. MIXTURE: the likelihood ratio of N(0, σ²/λ)-distributed θ to θ* is a supermartingale. EMPIRICAL:
// Σ½(η² − e²)/σ² is the exponent of one. GAUSSIAN: the ratio of any predictive density to the true one is another; here
// Student's t with a prior scale c, averaged over thirteen of them, whose product telescopes: −log of it is
//     M = ½D + (n/2) log π + log Γ(½) − log Γ((n+1)/2) + ((n+1)/2) log(c² + RSS) − log c,
// and n/2·log(2πe RSS*/n) ≤ M + ℓ bounds RSS* = Σ(y − <a,θ*>)² by R. STRICT: E exp(−uη²/σ²) ≤ exp(−u + 3u²/2) bounds RSS*
// from below, so σ from above. r̄ follows from |θ*| ≤ |θ̂| + √(tr V⁻¹ (λ|θ*|² + β − λr²)). LEARNED is MIXTURE for the θ*
// that the prior N(0, σ²/λ) of the likeliest λ has in mind: λ|θ*|² is dσ² on average.
//
// With an intercept there are n − 1 contrasts, and D, RSS and G are theirs. For independent Gaussian noise of one size the
// contrasts are that again, as long as arms were chosen by contrasts alone. For a fixed δ and a given σ that is not
// needed: predict every reward but the first as if c were N(y₁ − <a₁,θ>, σ²). That density is the contrasts' times n^−½,
// so Σ_{t≥2} η² ≤ RSS + σ²(D + log n + 2 log(2/δ)); and |θ* − θ̂|² + n η̄² = Σ_{t≥1} η² + λ|θ*|² − RSS, with
// η₁² ≤ 2σ² log(4/δ). So D + 2ℓ becomes D + log n + 2 log(2/δ) + 2 log(4/δ), which bounds the intercept's n η̄² too.
#pragma once

#include <stdexcept>

#include "belief.hpp"

namespace linmed {

constexpr double PI = 3.141592653589793;
constexpr double UNKNOWN = -1.0;  // stands for S where no bound on |θ*| was given
constexpr int SCALES = 13;        // prior scales of GAUSSIAN: 10^(−3, −2.5, …, 3) times the rewards' own
constexpr double PRIOR_SCALES[SCALES] = {1e-3, 0.0031622776601683794, 1e-2, 0.03162277660168379, 1e-1, 0.31622776601683794, 1.0,
                                         3.1622776601683795, 1e1, 31.622776601683793, 1e2, 316.22776601683796, 1e3};

// Sums over the prior scales c of GAUSSIAN, each as likely as exp(−power·log(c² + RSS) + log c).
struct OfScales {
    double least;       // of power·log(c² + RSS) − log c, taken out so that no exponential is lost
    double total;       // what is then left of the sum
    double logarithms;  // Σ log(c² + RSS) weighed so
};
inline OfScales of_scales(double power, double rss, double scale) {
    OfScales sums{INF, 0.0, 0.0};
    double logarithm[SCALES], cost[SCALES];
    for (int g = 0; g < SCALES; ++g) {
        const double c = scale * PRIOR_SCALES[g];
        logarithm[g] = log(c * c + rss);
        cost[g] = power * logarithm[g] - log(c);
        sums.least = std::min(sums.least, cost[g]);
    }
    for (int g = 0; g < SCALES; ++g) {
        const double share = exp(sums.least - cost[g]);
        sums.total += share;
        sums.logarithms += share * logarithm[g];
    }
    return sums;
}

// M of GAUSSIAN, −log of the density that was predicted for all n rewards together.
inline double surprise(double n, double logdet, double rss, double scale) {
    const double power = 0.5 * (n + 1.0);
    const OfScales sums = of_scales(power, rss, scale);
    const double constant = 0.5 * (n + 1.0) * log(PI) - lgamma(power);  // log Γ(½) = ½ log π
    return 0.5 * logdet + constant + sums.least - log(sums.total / SCALES);
}

// σ̂²: (c² + RSS)/(n + 1) for each scale c of `surprise`, averaged in logarithms as likely as they are. It starts in the
// middle of the scales and is close to RSS/n soon.
inline double likely_variance(double n, double rss, double scale) {
    const OfScales sums = of_scales(0.5 * (n + 1.0), rss, scale);
    return exp(sums.logarithms / sums.total) / (n + 1.0);
}

class RidgeSet final : public Set {
  public:
    enum Kind { PAPER, MIXTURE, EMPIRICAL, GAUSSIAN, STRICT, LEARNED };

    int kind;
    double sigma, log_inverse_delta;  // negative stands for δ = 1/(t+1) after t rewards
    double lam, norm;                 // S, or UNKNOWN
    double scale;                     // of the rewards
    bool centred;                     // whether there is an intercept
    double bias = sqrt(lam) * norm;   // √λ S

    RidgeSet(int kind, double sigma, double log_inverse_delta, double lam, double norm, double scale, bool centred)
        : kind(kind), sigma(sigma), log_inverse_delta(log_inverse_delta), lam(lam), norm(norm), scale(scale), centred(centred) {}

    double squared_radius(const Belief &belief, Index s) const override {
        if (!belief.logdet || (kind != PAPER && !belief.rss)) throw std::invalid_argument("RidgeSet is of ridge estimates");
        if (papers()) return of_paper(belief.count(s), belief.logdet[s]);
        const double n = belief.count(s), l = log_inverse_delta < 0.0 ? log(n + 1.0) : log_inverse_delta;
        double logdet = std::max(belief.logdet[s], 0.0);  // where the past fades, less than λI may be left of V
        if (centred && sigma > 0.0 && log_inverse_delta >= 0.0) logdet += log(n + 1.0) + 2.0 * l + 2.0 * log(8.0);
        if (kind != PAPER) return of_other_kinds(belief, s, n, l, logdet);
        const double root = sigma * sqrt(logdet + 2.0 * l) + bias;
        return root * root;
    }

    // The same bits; the paper's logarithm and roots of eight ridge estimates take no longer than those of one.
    void squared_radii(const Belief &belief, Index first, Index n, double *beta) const override {
        if (!papers() || !belief.logdet || n < LANES) return Set::squared_radii(belief, first, n, beta);
        double after[LANES], logdets[LANES];
        for (Index i = 0; i < LANES; ++i) {
            const Index s = belief.row(first + i);
            after[i] = belief.count(s) + 1.0, logdets[i] = belief.logdet[s];
        }
        const Lanes l = log_inverse_delta < 0.0 ? log(load(after)) : splat(log_inverse_delta);
        const Lanes logdet = larger(splat(0.0), load(logdets)), most = splat(LARGEST);
        const Lanes radius = splat(sigma) * root(logdet + splat(2.0) * l) + splat(bias), squared = radius * radius;
        store(beta, where_greater(squared, most, most, squared));
    }

    // The paper's set without an intercept, after n rewards with D = `logdet`.
    bool papers() const { return kind == PAPER && !centred; }
    LINMED_INLINE double of_paper(double n, double logdet) const {
        const double l = log_inverse_delta < 0.0 ? log(n + 1.0) : log_inverse_delta;
        const double root = sigma * sqrt(std::max(logdet, 0.0) + 2.0 * l) + bias;
        return root * root;
    }

  private:
    static constexpr double KURTOSIS = 3.0;                        // E η⁴ ≤ 3σ⁴ of STRICT
    static constexpr int POINTS = 32;                              // its u: so many, evenly in logarithms …
    static constexpr double LOWEST = 0.005, HIGHEST = 4.0;         // … between these

    [[gnu::noinline]] double of_other_kinds(const Belief &belief, Index s, double n, double l, double logdet) const {
        const double seen = belief.reward_scale(s, scale), rss = belief.rss[s];
        if (kind == LEARNED) {
            const double variance = sigma > 0.0 ? sigma * sigma : likely_variance(n, rss, seen);
            return variance * (belief.dimensions(s) + logdet + 2.0 * l);
        }
        double beyond = INF;
        if (kind == MIXTURE) {
            beyond = sigma * sigma * (logdet + 2.0 * l);
        } else if (kind == EMPIRICAL) {
            beyond = 2.0 * sigma * sigma * l + belief.leveraged[s];
        } else if (kind == GAUSSIAN) {
            if (n > 0.0) {
                double exponent = 2.0 / n * (surprise(n, logdet, rss, seen) + l);
                exponent += log(n / (2.0 * PI)) - 1.0;
                beyond = std::max(0.0, exp(std::min(exponent, 600.0)) - rss);
            }
        } else {
            // Rewards that are all alike would leave no noise at all: as little as the smallest scale has is seen.
            const double least = (1e-3 * seen) * (1e-3 * seen);
            const double variance = largest_variance(n, logdet, std::max(rss, least), l + log(2.0));
            beyond = variance * (logdet + 2.0 * (l + log(2.0)));
        }
        const double r = norm == UNKNOWN ? largest_norm(belief, s, beyond) : norm;
        return lam * r * r + beyond;
    }

    // σ̄² of STRICT: σ² (c_n − D − 2ℓ) ≤ RSS, where RSS* ≥ σ² c_n for the best u of the grid.
    static double largest_variance(double n, double logdet, double rss, double l) {
        double c = -INF;
        for (int i = 0; i < POINTS; ++i) {
            const double u = LOWEST * exp(double(i) / (POINTS - 1.0) * log(HIGHEST / LOWEST));
            c = std::max(c, n * (1.0 - 0.5 * KURTOSIS * u) - (l + log(double(POINTS))) / u);
        }
        const double left = c - logdet - 2.0 * l;
        return left > 0.0 ? rss / left : INF;
    }

    // r̄; infinite as long as λ tr V⁻¹ ≥ 1, where some direction is hardly explored.
    double largest_norm(const Belief &belief, Index s, double beyond) const {
        const Index d = belief.d;
        double length2 = 0.0, trace = 0.0;
        for (Index k = 0; k < d; ++k) {
            const double x = belief.estimate(s)[k];
            length2 += x * x;
            trace += belief.covariance(s)[k * d + k];
        }
        const double shrunk = lam * trace;
        if (!(0.0 <= shrunk && shrunk < 1.0)) return INF;
        const double root = sqrt(shrunk * length2 + (1.0 - shrunk) * trace * beyond);
        return (sqrt(length2) + root) / (1.0 - shrunk);
    }
};

// β is a number, whatever has been seen.
class FixedSet final : public Set {
  public:
    double beta;
    explicit FixedSet(double beta) : beta(beta) {}
    double squared_radius(const Belief &, Index) const override { return beta; }
};

}  // namespace linmed
