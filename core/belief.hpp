// The three seams: what a policy believes, how sure it is, and how it decides.
//
//   Belief   learns from rewards; rules look at its θ̂ and V⁻¹ and ask a few questions
//   Set      a confidence set |θ* − θ̂|² ≤ β in V, of which rules see β alone
//   Rule     draws an arm and says how probable each was
//
// Arrays belong to the caller. A *replica* is one bandit of R; a *row* is where an estimate stands, which is the
// replica's own number unless it has several experts, of which one decides.
#pragma once

#include <memory>

#include "arms.hpp"

namespace linmed {

struct MedScratch;

class Belief {
  public:
    Index d = 0;                                                 // dimensions of θ̂
    double *theta = nullptr, *inverse = nullptr;                 // (rows,d) θ̂, (rows,d,d) V⁻¹
    double *gram = nullptr;                                      // (rows,d,d) V, lower triangle, where there is one
    double *logdet = nullptr, *rss = nullptr, *leveraged = nullptr;  // (rows,) what confidence sets read, see `Ridge`
    double *excess = nullptr;                                    // (rows,) the same of generalised linear models, see glm.hpp
    bool plain = true;  // all that rules ask follows from θ̂ and V⁻¹: no question below has an answer of its own

    Belief() = default;
    Belief(const Belief &) = delete;
    Belief &operator=(const Belief &) = delete;
    virtual ~Belief() = default;

    const double *estimate(Index s) const { return theta + s * d; }
    const double *covariance(Index s) const { return inverse + s * d * d; }

    virtual Index replicas() const = 0;
    virtual Index row(Index r) const { return r; }      // of the estimate that decides in replica r
    virtual double count(Index s) const = 0;            // rewards absorbed by row s
    virtual Index width() const { return d; }           // numbers of an arm …
    virtual Index features() const { return width(); }  // … of which so many are features
    virtual double dimensions(Index) const { return double(d); }  // of all θ of row s together
    // One observation of replica r: an arm (width,) and its reward; `absorb_at` where it is known when it was decided.
    virtual void absorb(Index r, const double *a, double reward) = 0;
    virtual void absorb_at(Index r, const double *a, double reward, double) { absorb(r, a, reward); }
    // The reward of an arm that was absorbed as `before` is `after`. False, and nothing changed, where that cannot be followed:
    // the past fades, or what was learned depends on the order of rewards.
    virtual bool correct(Index r, const double *a, double before, double after) {
        return correct_by(r, a, after - before, (after - before) * (after + before), after);
    }
    // The same where y is so much more, and Σy² so much larger.
    virtual bool correct_by(Index, const double * /* a */, double /* more */, double /* squares */, double /* after */) {
        return false;
    }
    virtual void absorb_along(Index r, const double *a, const double * /* V⁻¹a */, double reward) { absorb(r, a, reward); }

    // Where rules see arms from elsewhere than where they stand: writes them to out (K,d).
    virtual bool moves() const { return false; }
    virtual void move(Index, const double * /* rows (K,stride) */, Index /* stride */, Index /* K */, double * /* out */) const {}

    // Questions of rules, answered for row s. What is written for every arm is padded to whole blocks.
    virtual void expect(Index s, const Arms &arms, double *mean) const;  // <θ̂, a>
    virtual void look_at(Index s, const Arms &arms, double *mean, double *leverage, double *scratch) const;  // and |a|²
    struct Weighed { Index best; double largest; };
    virtual Weighed weigh_all(Index s, const Arms &arms, double sharpness, MedScratch &scratch) const;      // see med.hpp
    virtual void by_divergence(Index, const Arms &, Index /* best */, MedScratch &) const {}                // see glm.hpp
    virtual double design_counts(Index s, const Arms &arms, int version, bool optimal, MedScratch &scratch) const;
    virtual void factor_precision(Index s, double smallest, double *U) const;  // U'U = V, (d,padded(d)); see thompson.hpp
    virtual double reward_scale(Index, double told) const { return told; }     // what rewards are about as large as
    virtual void forecast(Index s, const Arms &arms, double *mean, double *room, double *scratch) const;  // see square.hpp

    // Asked where arms have values and costs, see utility.hpp: of the intercept c in z = c + <θ̂, a>, of which an arm has
    // `one`, the estimate and its share of V⁻¹; μ(z) and μ′(z), false where μ(z) is z; and |scale_i a_i − scale_b a_b|² of
    // every arm i from arm b, the intercept counted in. All (K,), padded; room (8d,).
    struct Intercept { double one = 0.0, value = 0.0, corner = 0.0; const double *cross = nullptr; };
    virtual Intercept intercept(Index) const { return {}; }
    virtual bool link(Index, Index /* K */, double * /* z */, double * /* slope */) const { return false; }
    virtual void apart(Index s, const Arms &arms, const double *scale, Index best, double *distance2, double *room) const;
    virtual const Belief &within() const { return *this; }  // what `Utility` is around
    virtual const class Utility *utility() const { return nullptr; }
};

class Set {
  public:
    static constexpr double LARGEST = 1e120;  // what rules are told where β is infinite: what they compute stays finite

    virtual ~Set() = default;
    virtual void before_round() const {}  // of all replicas: a set written in Python computes its radii here
    virtual double squared_radius(const Belief &belief, Index s) const = 0;  // β of row s
    // β of `n` replicas from `first` on, at most eight and LARGEST; see `RidgeSet` for why several at once.
    virtual void squared_radii(const Belief &belief, Index first, Index n, double *beta) const {
        for (Index i = 0; i < n; ++i) beta[i] = std::min(squared_radius(belief, belief.row(first + i)), LARGEST);
    }
};

class Rule {
  public:
    // What a decision writes on its way, made once for sets of K arms in d dimensions.
    struct Scratch {
        virtual ~Scratch() = default;
    };

    virtual ~Rule() = default;
    // Whether it looks at arms by the questions of a belief alone: then it needs no θ̂ that all arms share.
    virtual bool asks() const { return false; }
    virtual bool prices() const { return true; }  // whether arms may have values and costs
    virtual std::unique_ptr<Scratch> workspace(Index K, Index d) const = 0;
    // The arm that `noise` draws from the p-th set for row s; writes log p (K,) unless log_p is null.
    virtual Index decide(const Belief &belief, Index s, double beta, const Arms &arms, Index p, const double *noise,
                         Scratch &scratch, double *log_p) const = 0;
    // What is learned from the arm just decided for, (width,): its features, or what is then written to `room`.
    virtual const double *lesson(const double *features, Index /* p */, Index /* arm */, Scratch &, double * /* room */) const {
        return features;
    }
    // V⁻¹a of the arm just decided for, if it was computed on the way.
    virtual const double *along(Index /* arm */, const Scratch &) const { return nullptr; }
    virtual Index noise_size(Index /* d */) const { return 1; }  // draws that one decision takes
};

}  // namespace linmed
