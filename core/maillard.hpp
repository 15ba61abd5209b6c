// Maillard sampling: independent arms, known by the place of the 1 in their one-hot rows.
#pragma once

#include <stdexcept>
#include <vector>

#include "belief.hpp"
#include "sampling.hpp"
#include "utility.hpp"

namespace linmed {

// Pulls and reward sums of each arm in every replica; θ̂ holds the means, 0 without a pull. Arms have no features and there
// is no V⁻¹: rules that look at it are refused.
class Pulls final : public Belief {
  public:
    Index R;
    int64_t *counts;          // (R,) rewards absorbed
    double *pulls, *totals;   // (R,d)

    Pulls() { plain = false; }
    Index replicas() const override { return R; }
    double count(Index s) const override { return double(counts[s]); }
    Index width() const override { return d; }
    Index features() const override { return 0; }
    void look_at(Index, const Arms &, double *, double *, double *) const override { refuse(); }
    Weighed weigh_all(Index, const Arms &, double, MedScratch &) const override { refuse(); }
    void absorb(Index r, const double *a, double reward) override {
        const Index k = r * d + place(a, d, 0);
        pulls[k] += 1.0;
        totals[k] += reward;
        theta[k] = totals[k] / pulls[k];
        counts[r] += 1;
    }

    // Where the 1 of a one-hot row stands, looked for from `first` on.
    static Index place(const double *a, Index d, Index first) {
        Index k = first;
        for (Index step = 1; step < d && a[k] == 0.0; ++step) k = k + 1 < d ? k + 1 : 0;
        return k;
    }

  private:
    [[noreturn]] static void refuse() { throw std::invalid_argument("Pulls have no lengths of arms, which this rule looks at"); }
};

// p(a) ∝ exp(−N_a Δ̂_a² / (2σ²)); while an offered arm has no pull, those without share the mass.
class MaillardRule final : public Rule {
  public:
    double sigma;
    explicit MaillardRule(double sigma) : sigma(sigma) {}

    bool asks() const override { return true; }  // what is no Pulls is refused below

    std::unique_ptr<Scratch> workspace(Index K, Index) const override { return std::make_unique<Room>(K); }
    Index decide(const Belief &any, Index s, double, const Arms &arms, Index, const double *noise, Scratch &scratch,
                 double *log_p) const override {
        const auto *belief = dynamic_cast<const Pulls *>(&any.within());
        if (!belief) throw std::invalid_argument("MaillardRule decides by Pulls alone");
        auto &room = static_cast<Room &>(scratch);
        const Utility *worth = any.utility();
        const double *mean = belief->estimate(s), *pulls = belief->pulls + s * arms.d;
        const auto gain = [&](Index i, Index k) { return worth ? worth->gains()[i] : mean[k]; };
        double best = -INF, total = 0.0;
        bool fresh = false;
        for (Index i = 0; i < arms.K; ++i) {
            const Index k = room.place[i] = Pulls::place(arms.row(i), arms.d, i % arms.d);  // there if all are offered, in order
            best = std::max(best, gain(i, k));
            fresh = fresh || pulls[k] == 0.0;
        }
        for (Index i = 0; i < arms.K; ++i) {
            const Index k = room.place[i];
            const double ratio = (best - gain(i, k)) / (worth ? sigma * worth->scales()[i] : sigma);
            room.log_f[i] = !fresh ? -0.5 * pulls[k] * (ratio * ratio) : pulls[k] == 0.0 ? 0.0 : -INF;
            room.weight[i] = exp(room.log_f[i]);
            total += room.weight[i];
        }
        if (log_p) {
            const double log_total = log(total);
            for (Index i = 0; i < arms.K; ++i) log_p[i] = room.log_f[i] - log_total;
        }
        return invert_cdf(room.weight, arms.K, noise[0] * total);
    }

  private:
    struct Room : Scratch {
        std::vector<Index> place;
        Buffer log_f, weight;
        explicit Room(Index K) : place(K), log_f(K), weight(K) {}
    };
};

}  // namespace linmed
