// LinMED with a design that starts from the last one: for arms that do not change, or only a little.
//
// ApproxDesign looks for its first set of arms in every round, with d passes over all of them. The arms of the last design
// are as good a start: one pass tells the largest leverage, and greedy additions follow only where it exceeds 1. With τ
// counts in the end no leverage in V(q) exceeds τ, so this is an ApproxDesign in the sense of Assumptions 2 and 3 with
// C_opt = τ / (d log d), whatever it started from; beyond 4d counts it is made from the beginning.
#pragma once

#include <stdexcept>

#include "med.hpp"
#include "ridge.hpp"

namespace linmed {

// A `Ridge` that remembers the arms of the last design.
class WarmRidge final : public Belief {
  public:
    static constexpr Index ROOM = 4;  // arms to remember for each dimension, and counts of a design

    RidgeRows<int64_t> model;
    int64_t *support;  // (R,4d), −1 where there is none
    double *size;      // (R,) τ: counts of the last design, 0 before the first

    WarmRidge(const RidgeRows<int64_t> &model, int64_t *support, double *size)
        : model(model), support(support), size(size), u_(padded(model.d)) {
        model.show(*this);
    }
    Index replicas() const override { return model.rows; }
    double count(Index s) const override { return double(model.counts[s]); }
    void absorb(Index r, const double *a, double reward) override { model.absorb(r, a, reward, u_); }
    bool correct_by(Index r, const double *a, double more, double squares, double) override {
        model.correct(r, a, more, squares, u_);
        return true;
    }
    Index remembered() const { return ROOM * d; }
    int64_t *support_of(Index s) const { return support + s * remembered(); }

  private:
    Buffer u_;
};

// As `MedRule` with version 0, but the design starts from the last one.
class WarmRule final : public Med {
  public:
    using Med::Med;

  protected:
    double counts(const Belief &belief, Index s, const Arms &arms, MedScratch &scratch) const override {
        const auto *warm = dynamic_cast<const WarmRidge *>(&belief.within());
        if (!warm) throw std::invalid_argument("WarmRule needs a WarmRidge");
        double total = from_last(arms, warm->support_of(s), warm->remembered(), scratch);
        const bool begun = total >= 0.0;
        if (!begun)
            total = augmented_counts(arms, scratch.log_f, scratch.root, 0, false, scratch.scale, scratch.design,
                                     scratch.weight, scratch.desk);
        remember(arms.K, scratch.design, scratch.weight, begun, warm->support_of(s), warm->remembered());
        warm->size[s] = total;
        return total;
    }

  private:
    static constexpr double REMEMBERED = 0.1;  // leverage from which on an arm is worth starting the next design with

    // The design of the arms times √f, begun with those of `support` (n,), as counts; returns their sum, or −1 where that
    // set does not span the arms, or grows too large.
    static double from_last(const Arms &arms, const int64_t *support, Index n, MedScratch &scratch) {
        double *scale = scratch.scale;
        for (Index i = 0; i < padded(arms.K); ++i) scale[i] = i < arms.K ? scratch.root[i] : 0.0;
        leave_out_zero_arms(arms, scale);
        const Index chosen = gather(arms, scale, support, n, scratch.design, scratch.desk);
        if (chosen < arms.d) return -1.0;
        const double total = complete(arms, arms.d, scale, chosen, scratch.design, scratch.weight, scratch.desk);
        return total <= double(WarmRidge::ROOM * arms.d) ? total : -1.0;
    }

    // Note in `support` (n,) the arms of a design; of one that began with the last, those that carry it.
    static void remember(Index K, const double *count, const double *leverage, bool begun, int64_t *support, Index n) {
        Index m = 0;
        for (Index i = 0; i < K && m < n; ++i)
            if (count[i] > 0.0 && (!begun || leverage[i] >= REMEMBERED)) support[m++] = i;
        while (m < n) support[m++] = -1;
    }
};

}  // namespace linmed
