// A list: arms drawn one position after the other, without replacement, each by the rule's own law over the arms left.
//
// The law of position j looks for â among the arms left. MED's design is that of all arms, computed once; at later
// positions it is restricted to the arms left and made to sum to one, and where it has none of them, its share α_opt goes
// to all of them alike. The half-step of B_t is the first position's. Other rules are asked again about the arms left.
#pragma once

#include "med.hpp"
#include "rounds.hpp"
#include "wrappers.hpp"

namespace linmed {

class ListLaw {
  public:
    ListLaw(const Belief &belief, const Set &set, const Rule &rule, const double *rows, Index K)
        : belief_(belief), rule_(rule), floored_(dynamic_cast<const FlooredRule *>(&rule)),
          med_(dynamic_cast<const Med *>(floored_ ? floored_->rule.get() : &rule)), s_(belief.row(0)),
          moved_(belief.moves() ? K * belief.width() : 0), blocks_(Arms::room(K, belief.width())) {
        const Index d = belief.width();
        if (belief.moves()) belief.move(0, rows, d, K, moved_), rows = moved_;
        arms_ = pack(rows, K, d, d, blocks_);
        set.before_round();
        beta_ = std::min(set.squared_radius(belief, s_), Set::LARGEST);
    }

    Index arms() const { return arms_.K; }
    Index noise_size() const { return rule_.noise_size(belief_.d); }

    // The place among `left` (n,), rising numbers of arms, of the arm that `noise` draws; writes log p (n,).
    Index draw(const int64_t *left, Index n, bool first, const double *noise, double *log_p) {
        if (!med_) {
            Buffer rows, blocks;
            const Arms rest = among(left, n, rows, blocks);
            return rule_.decide(belief_, s_, beta_, rest, 0, noise, *rule_.workspace(n, belief_.features()), log_p);
        }
        const auto decide = [&](const double *own, double *out) {
            return first && n == arms_.K ? decide_whole(own, out) : decide_rest(left, n, first, own, out);
        };
        if (!floored_) return decide(noise, log_p);
        Buffer room(noise_size());
        return floored_->around(noise, n, 1, room, log_p, decide);
    }

  private:
    static constexpr double NEAR = 1e-4;  // share of |a − c|² + |b − c|² below which |a − b|² is computed by itself

    const Belief &belief_;
    const Rule &rule_;
    const FlooredRule *floored_;
    const Med *med_;  // what decides, or null: some other rule
    Index s_;
    double beta_;
    Buffer moved_, blocks_;
    Arms arms_;
    std::unique_ptr<Rule::Scratch> whole_;  // of MED's decision about all arms, with its design
    Index centre_ = -1;                     // c, the best of all arms …
    Buffer from_centre_, mean_;             // … and of every arm |a − c|² and <θ̂, a>

    Index decide_whole(const double *noise, double *log_p) {
        whole_ = med_->workspace(arms_.K, belief_.features());
        return med_->decide(belief_, s_, beta_, arms_, 0, noise, *whole_, log_p);
    }

    // These arms alone, as a set; `rows` and `blocks` are made for it.
    Arms among(const int64_t *left, Index n, Buffer &rows, Buffer &blocks) const {
        const Index d = arms_.d;
        if (n == arms_.K) return arms_;
        rows = Buffer(n * d), blocks = Buffer(Arms::room(n, d));
        for (Index i = 0; i < n; ++i) std::copy(arms_.row(left[i]), arms_.row(left[i]) + d, rows + i * d);
        return pack(rows, n, d, d, blocks);
    }

    // The same among some of the arms.
    Index decide_rest(const int64_t *left, Index n, bool first, const double *noise, double *log_p) {
        const double sharpness = 1.0 / sqrt(beta_), nothing = 0.0;
        if (!whole_) {
            Buffer unused(arms_.K);
            decide_whole(&nothing, unused);
        }
        auto &all = static_cast<MedScratch &>(*whole_);
        MedScratch own(med_->alpha_emp, all.alpha_opt, n, belief_.features());
        Belief::Weighed weighed{0, 0.0};
        if (belief_.plain && !first) {
            weighed.best = weigh_rest(left, n, sharpness, own);
        } else {
            Buffer rows, blocks;
            const Arms rest = among(left, n, rows, blocks);
            weighed = belief_.plain ? weigh_arms(belief_.estimate(s_), belief_.covariance(s_), sharpness, rest, own)
                                    : belief_.weigh_all(s_, rest, sharpness, own);
            if (!belief_.plain) belief_.by_divergence(s_, rest, weighed.best, own);
        }
        double total = 0.0;
        if (own.alpha_opt > 0.0)
            for (Index i = 0; i < n; ++i) total += own.design[i] = all.design[left[i]];
        if (own.alpha_opt > 0.0 && !(total > 0.0))
            std::fill_n(static_cast<double *>(own.even), n, (1.0 - med_->alpha_emp) / double(n));
        const double share = total > 0.0 ? own.alpha_opt / total : 0.0;
        return med_->conclude(weighed.best, share, first ? weighed.largest : 0.0, n, noise, own, log_p);
    }

    // log f and √f of the arms left, in O(d) for every arm; returns the best. |a − b|² = |a − c|² + |b − c|² −
    // 2 <V⁻¹(b − c), a − c>, but where a and b are so near to each other that this would lose digits.
    Index weigh_rest(const int64_t *left, Index n, double sharpness, MedScratch &own) {
        const double *theta = belief_.estimate(s_), *M = belief_.covariance(s_);
        const Index d = arms_.d;
        if (centre_ < 0) measure(theta, M);
        Index best = 0;
        for (Index i = 1; i < n; ++i)
            if (mean_[left[i]] > mean_[left[best]]) best = i;
        const double *b = arms_.row(left[best]), *c = arms_.row(centre_);
        Buffer away(d), ahead(padded(d)), log_f(padded(arms_.K));
        for (Index k = 0; k < d; ++k) away[k] = b[k] - c[k];
        combine_rows(away, M, d, ahead);
        const Lanes length = splat(from_centre_[left[best]]);
        Lanes marked = splat(LOWEST);
        OneBlock one(arms_);
        for (Index first = 0; first < arms_.K; first += LANES) {
            const double *block = arms_.block(first, one);
            Lanes gap = splat(0.0), cross = splat(0.0);
            for (Index k = 0; k < d; ++k) {
                const Lanes a = load(block + k * LANES);
                gap = fma(a - splat(b[k]), splat(-theta[k]), gap);
                cross = fma(a - splat(c[k]), splat(ahead[k]), cross);
            }
            const Lanes sum = load(from_centre_ + first) + length, distance2 = fma(cross, splat(-2.0), sum);
            const Lanes safe = where_greater(distance2, sum * splat(NEAR), distance2, splat(0.0));
            const Lanes value = log_weights(gap, safe, sharpness);
            marked = larger(value, marked);
            store(log_f + first, value);
        }
        if (largest_lane(marked) > 0.0) repair(theta, M, sharpness, arms_, b, log_f, nullptr);
        for (Index i = 0; i < padded(n); ++i) own.log_f[i] = log_f[left[i < n ? i : 0]];
        for (Index first = 0; first < n; first += LANES) store(own.root + first, exp(load(own.log_f + first) * splat(0.5)));
        return best;
    }

    // <θ̂, a> and |a − c|² of every arm, c the best of all.
    void measure(const double *theta, const double *M) {
        const Index d = arms_.d, K = arms_.K;
        centre_ = best_arm(arms_, d, theta);
        mean_ = Buffer(padded(K)), from_centre_ = Buffer(padded(K));
        products(arms_, theta, mean_);
        const double *c = arms_.row(centre_);
        Buffer difference(d * LANES);
        OneBlock one(arms_);
        for (Index first = 0; first < K; first += LANES) {
            const double *block = arms_.block(first, one);
            for (Index k = 0; k < d; ++k) store(difference + k * LANES, load(block + k * LANES) - splat(c[k]));
            store(from_centre_ + first, squared_length(difference, d, M, d));
        }
    }
};

}  // namespace linmed
