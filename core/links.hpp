// Families of rewards with a natural parameter: what a mean of clicks, counts or numbers is to z = c + <a,θ>.
//
// A reward has the loss ℓ(z, y) = m(z) − yz, its mean is μ(z) = m′(z) and its variance μ′(z):
//
//     LOGISTIC   m = log(1 + e^z)    clicks, or fractions of one
//     POISSON    m = e^z             counts
//     GAUSSIAN   m = τz²/2           numbers of variance 1/τ; here ℓ = τ(z − y)²/2, the same but for a constant
//
// kl(z, z + Δ) = m(z + Δ) − m(z) − μ(z)Δ is the Kullback–Leibler divergence between the laws at z and z + Δ. For Gaussian
// rewards it is μ′(z)Δ²/2; by how much it differs from that for the others is `bend`.
#pragma once

#include <algorithm>

#include "confidence.hpp"
#include "functions.hpp"

namespace linmed {

// log(1 + e^z).
LINMED_INLINE double softplus(double z) { return std::max(z, 0.0) + log1p(exp(-fabs(z))); }

struct Family {
    enum Kind { LOGISTIC, POISSON, GAUSSIAN };
    static constexpr double SMALL = 1e-2;  // |Δ| below which kl is taken from its series
    static constexpr double FAR = 30.0;    // |z| beyond which 1 + e^−|z| is 1 for kl, and Δ beyond which e^Δ − 1 is e^Δ
    static constexpr double EDGE = 700.0;  // |z| beyond which e^z, or its inverse, is hardly a number any more
    static constexpr double TOP = 230.3;   // counts are refused beyond e^TOP, so no mean need be larger

    Kind kind;
    double precision;  // τ

    // By the number that stands for a kind in arrays of states.
    static Kind of(double number) { return number == 0.0 ? LOGISTIC : number == 1.0 ? POISSON : GAUSSIAN; }

    // μ(z); for Gaussian rewards z itself, as rewards are, not τz.
    double mean(double z) const {
        if (kind == LOGISTIC) {
            const double e = exp(-fabs(z));
            return (z >= 0.0 ? 1.0 : e) / (1.0 + e);
        }
        return kind == POISSON ? exp(std::min(z, TOP)) : z;
    }

    // μ′(z).
    double variance(double z) const {
        if (kind == LOGISTIC) {
            const double e = exp(-fabs(z));
            return e / ((1.0 + e) * (1.0 + e));
        }
        return kind == POISSON ? exp(std::min(z, TOP)) : precision;
    }

    // ℓ(z, y).
    double loss(double z, double y) const {
        if (kind == LOGISTIC) return softplus(z) - y * z;
        if (kind == POISSON) return exp(std::min(z, TOP)) - y * z;
        return 0.5 * precision * (z - y) * (z - y);
    }

    // −log of the probability that was predicted for y, of which all that matters is that it is one.
    //
    // z is estimated with variance h. Clicks and counts are predicted with z drawn towards 0, as an average of the
    // logistic function over N(z, h) is; Gaussian rewards with the average itself.
    double predictive_loss(double z, double h, double y) const {
        if (kind == GAUSSIAN) {
            const double spread = 1.0 + precision * h;
            return 0.5 * log(spread) + 0.5 * precision * (z - y) * (z - y) / spread;
        }
        const double drawn = z / sqrt(1.0 + PI * h / 8.0);
        return loss(kind == POISSON ? std::min(drawn, TOP) : drawn, y);
    }

    // 2 kl(z, z + Δ) / (μ′(z) Δ²) for a gap Δ of either sign: 1 for Gaussian rewards; may be infinite.
    double bend(double z, double gap) const {
        if (kind == GAUSSIAN) return 1.0;
        if (kind == POISSON)
            return fabs(gap) < SMALL ? series(gap, 1.0, 1.0, 1.0, 1.0) : 2.0 * (expm1(gap) - gap) / gap / gap;
        if (gap < 0.0) z = -z, gap = -gap;  // no click is a click at −z
        const double e = exp(-fabs(z)), small = e / (1.0 + e), v = small / (1.0 + e);  // small: the rarer of click and none
        if (gap < SMALL) {
            const double skew = tanh(-0.5 * z);  // 1 − 2μ
            return series(gap, skew, 1.0 - 6.0 * v, skew * (1.0 - 12.0 * v), 1.0 - 30.0 * v + 120.0 * v * v);
        }
        double divergence;
        if (z >= 0.0)
            divergence = z > FAR ? gap + expm1(-gap) : (small * gap + log1p(small * expm1(-gap))) / v;
        else if (z + gap < -FAR)
            divergence = expm1(gap) - gap;
        else if (z < -FAR)
            divergence = softplus(z + gap) * exp(-z) - 1.0 - gap;
        else if (gap < FAR)
            divergence = (log1p(small * expm1(gap)) - small * gap) / v;
        else
            divergence = (softplus(z + gap) - softplus(z) - small * gap) / v;
        return 2.0 * divergence / gap / gap;
    }

    // `bend` of clicks or counts where SMALL ≤ Δ < FAR and, for clicks, |z| ≤ FAR, in every lane.
    Lanes bend(Lanes z, Lanes gap) const {
        Lanes divergence;
        if (kind == POISSON) {
            divergence = expm1(gap) - gap;
        } else {
            const Lanes one = splat(1.0), minus = splat(-1.0), sign = where_greater(splat(0.0), z, minus, one);
            const Lanes e = exp(larger(z, z * minus) * minus), small = e / (one + e), v = small / (one + e);
            divergence = (sign * (small * gap) + log1p(small * expm1(sign * gap * minus))) / v;
        }
        return splat(2.0) * divergence / gap / gap;
    }
    bool ordinary(double z, double gap) const {
        return SMALL <= gap && gap < FAR && (kind == POISSON || fabs(z) <= FAR);
    }

    // 2·min b(z, z*) over z* in [low, high], b(z, z*) = kl(z, z*)/(z* − z)²: how much ℓ is bent, at least.
    //
    // b rises up to one z* and falls from there, so its least is at an end. Beyond ±EDGE, where μ′(z) is no number to
    // multiply by, kl is what it tends to; 0 is never too much.
    double least_curvature(double z, double low, double high) const {
        if (kind == LOGISTIC && fabs(z) > EDGE) {  // −log of the probability that the truth gives what z is sure of
            const double bound = z > 0.0 ? high : -low, nearest = fabs(z) - bound;
            return nearest > FAR ? 2.0 * softplus(-bound) / nearest / nearest : 0.0;
        }
        if (kind == POISSON && z < -EDGE) {
            const double nearest = low - z;
            return nearest > FAR ? 2.0 * exp(low) / nearest / nearest : 0.0;
        }
        return variance(z) * std::min(bend(z, high - z), bend(z, low - z));
    }

    // All that is asked at the root z′ = `after` of `Root`, with one exponential.
    struct There {
        double residual;  // μ(z′) − y; for Gaussian rewards τ(z′ − y)
        double variance;  // μ′(z′)
        double loss;      // ℓ(z′, y)
    };

    // The residual is also (z − z′)/h: the one is taken that has lost less to rounding. Where h is large a sure click leaves
    // of 1 − μ nothing, and that nothing is to move z by log h.
    There there(double z, double h, double y, double after) const {
        if (kind == GAUSSIAN) return {precision * (after - y), precision, loss(after, y)};
        There found;
        double predicted;
        if (kind == LOGISTIC) {
            const double e = exp(-fabs(after));
            predicted = (after >= 0.0 ? 1.0 : e) / (1.0 + e);
            found.variance = e / ((1.0 + e) * (1.0 + e));
            found.loss = std::max(after, 0.0) + log1p(e) - y * after;
        } else {
            predicted = found.variance = exp(std::min(after, TOP));
            found.loss = predicted - y * after;
        }
        const bool large = h * std::max(predicted, y) > std::max(fabs(z), fabs(after));
        found.residual = large ? (z - after) / h : predicted - y;
        return found;
    }

    struct Moments { double mean, variance; };

    // `mean` and `variance` of clicks or counts with one exponential.
    LINMED_INLINE Moments mean_and_variance(double z) const {
        if (kind == LOGISTIC) {
            const double e = exp(-fabs(z));
            return {(z >= 0.0 ? 1.0 : e) / (1.0 + e), e / ((1.0 + e) * (1.0 + e))};
        }
        const double rate = exp(std::min(z, TOP));
        return {rate, rate};
    }

  private:
    // 2 kl / (μ′Δ²) for small Δ, given the next four cumulants divided by μ′.
    static double series(double gap, double skew, double third, double fourth, double fifth) {
        return 1.0 + gap * (skew / 3.0 + gap * (third / 12.0 + gap * (fourth / 60.0 + gap * (fifth / 360.0))));
    }
};

// The root z′ of z′ − z + h(μ(z′) − y), with τ(z′ − y) for Gaussian rewards: where one reward takes z.
//
// The function increases, so there is one. Newton's method within a bracket, which is halved where that would leave it or
// go to and fro. A step waits for the one before: `settle` takes those of several roots in turn, so a processor works on
// all of them at once.
class Root {
  public:
    Root() = default;
    Root(const Family &family, double z, double h, double y) : family_(family), z_(z), h_(h), y_(y) {
        found_ = family.kind == Family::GAUSSIAN || h == 0.0;
        if (family.kind == Family::GAUSSIAN) x_ = z + family.precision * h / (1.0 + family.precision * h) * (y - z);
        else if (h == 0.0) x_ = z;
        else begin();
    }
    bool found() const { return found_; }
    double value() const { return mirrored_ ? -x_ : x_; }

    LINMED_INLINE void step() {
        const auto [mean, variance] = family_.mean_and_variance(x_);
        const double g = x_ - z_ + h_ * (mean - y_), slope = 1.0 + h_ * variance;
        (g > 0.0 ? high_ : low_) = x_;
        double by = g / slope, following = x_ - by;
        // What g has lost to rounding moves x by as much.
        double slack = std::max(std::max(1.0, fabs(x_)), fabs(z_) / slope);
        if (!(low_ <= following && following <= high_) || 2.0 * fabs(by) > last_) {
            following = 0.5 * (low_ + high_);
            by = x_ - following;
            slack = std::max(1.0, fabs(x_));
        }
        x_ = following, last_ = fabs(by);
        found_ = last_ <= 1e-15 * slack;
    }

  private:
    Family family_;
    double z_, h_, y_, low_, high_, x_, last_ = INF;
    bool mirrored_ = false, found_ = true;

    void begin() {
        // 1 − μ(z) is μ(−z), of which small values keep their digits.
        mirrored_ = family_.kind == Family::LOGISTIC && y_ > 0.5;
        if (mirrored_) z_ = -z_, y_ = 1.0 - y_;
        const double reach = -log(h_);
        const auto [mean, variance] = family_.mean_and_variance(z_);
        if (family_.kind == Family::LOGISTIC) {  // h(μ − y) is at most h, and at −log h or below at most 1
            low_ = std::max(z_ - h_ * (1.0 - y_), std::min(z_ - 1.0, reach));
            high_ = std::min(z_ + h_ * y_, std::max(z_ + 1.0, -reach));
        } else {
            // Between z and log y the function changes its sign; at −log h it is 1 − hy − (z + log h).
            const double target = y_ > 0.0 ? log(y_) : -INF;
            high_ = std::min(std::max(z_, target), z_ + h_ * y_);
            low_ = std::max(std::min(z_, target), z_ - h_ * mean);
            if (reach <= z_ - 1.0) low_ = std::max(low_, reach);
            if (z_ > target)  // h(e^x − y) is z − x, at most what it is at the lower end
                high_ = std::min(high_, std::max(log(y_ + (z_ - low_) / h_) + 1e-12, low_));
        }
        const double x = z_ - h_ * (mean - y_) / (1.0 + h_ * variance);
        x_ = isfinite(x) ? std::min(std::max(x, low_), high_) : 0.5 * (low_ + high_);
    }
};

// Finds n roots.
template <class R> inline void settle(R *roots, Index n) {
    for (int attempt = 0, open = 1; attempt < 200 && open; ++attempt) {
        open = 0;
        for (Index i = 0; i < n; ++i)
            if (!roots[i].found()) roots[i].step(), open += !roots[i].found();
    }
}

}  // namespace linmed
