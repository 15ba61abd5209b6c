// What arms are worth: u_i = v_i μ(z_i) − c_i, with the value v_i of a unit of reward and a cost c_i, both known.
//
// Rules see a belief through `Utility`, which answers their questions with û, and with lengths and distances of
// g_i = v_i μ′(z_i) a_i, by which u_i moves with θ: for linear rewards exactly, for others to first order. What is learned,
// the design and |a|, by which arms are explored, stay those of the arms. So no rule is written twice.
#pragma once

#include "med.hpp"

namespace linmed {

// Values and costs of arms, those of arm i at i·stride. Without values all are 1, without costs 0.
struct Worth {
    const double *value, *cost;
    Index stride;
    explicit operator bool() const { return value || cost; }
};

class Utility final : public Belief {
  public:
    Utility() { plain = false; }

    // What rules see of row s of a belief: this, or the belief itself where all values are 1 and all costs 0.
    const Belief &over(const Belief &inner, Index s, const Arms &arms, const Worth &worth) {
        return show(inner, s, arms, worth) ? *this : inner;
    }
    // False where it is the belief.
    bool show(const Belief &inner, Index s, const Arms &arms, const Worth &worth);

    const double *gains() const { return gain_; }    // (K,) û
    const double *scales() const { return scale_; }  // (K,) v μ′(z)
    const double *costs() const { return cost_; }    // (K,)
    Index best_of_all(Index K) const;

    void expect(Index, const Arms &arms, double *mean) const override { std::copy(gain_ + 0, gain_ + padded(arms.K), mean); }
    void look_at(Index s, const Arms &arms, double *mean, double *leverage, double *scratch) const override {
        inner_->look_at(s, arms, mean, leverage, scratch);
        for (Index i = 0; i < padded(arms.K); ++i) mean[i] = gain_[i], leverage[i] *= scale_[i] * scale_[i];
    }
    Weighed weigh_all(Index s, const Arms &arms, double sharpness, MedScratch &scratch) const override;
    void forecast(Index s, const Arms &arms, double *mean, double *room, double *scratch) const override {
        inner_->forecast(s, arms, mean, room, scratch);
        const double level = inner_->intercept(s).value;
        for (Index i = 0; i < arms.K; ++i) mean[i] = value_[i] * (level + mean[i]) - cost_[i];
    }
    void apart(Index s, const Arms &arms, const double *, Index best, double *distance2, double *) const override {
        inner_->apart(s, arms, scale_, best, distance2, room_);
    }
    double design_counts(Index s, const Arms &arms, int version, bool optimal, MedScratch &scratch) const override {
        return inner_->design_counts(s, arms, version, optimal, scratch);
    }
    Intercept intercept(Index s) const override { return inner_->intercept(s); }
    const Belief &within() const override { return *inner_; }
    const Utility *utility() const override { return this; }

    Index replicas() const override { return inner_->replicas(); }
    Index row(Index r) const override { return inner_->row(r); }
    double count(Index s) const override { return inner_->count(s); }
    Index width() const override { return inner_->width(); }
    Index features() const override { return inner_->features(); }
    double dimensions(Index s) const override { return inner_->dimensions(s); }
    double reward_scale(Index s, double told) const override { return inner_->reward_scale(s, told); }
    void absorb(Index, const double *, double) override {}  // rules do not learn

  private:
    const Belief *inner_ = nullptr;
    bool flat_ = true;  // all values are 1, and μ(z) is z
    Buffer value_, cost_, scale_, gain_;
    mutable Buffer room_, ahead_, best_;
};

}  // namespace linmed
