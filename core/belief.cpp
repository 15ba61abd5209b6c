// What every belief answers that has no answer of its own.
#include "belief.hpp"

#include "med.hpp"
#include "rounds.hpp"
#include "thompson.hpp"

namespace linmed {

void (*between_rounds)() = [] {};

void Belief::expect(Index s, const Arms &arms, double *mean) const { products(arms, estimate(s), mean); }

void Belief::look_at(Index s, const Arms &arms, double *mean, double *leverage, double *) const {
    products_and_lengths(arms, estimate(s), covariance(s), mean, leverage);
}

Belief::Weighed Belief::weigh_all(Index s, const Arms &arms, double sharpness, MedScratch &scratch) const {
    return weigh_arms(estimate(s), covariance(s), sharpness, arms, scratch);
}

double Belief::design_counts(Index, const Arms &arms, int version, bool optimal, MedScratch &scratch) const {
    return augmented_counts(arms, scratch.log_f, scratch.root, version, optimal, scratch.scale, scratch.design,
                            scratch.weight, scratch.desk);
}

void Belief::factor_precision(Index s, double smallest, double *U) const { factor(gram + s * d * d, d, smallest, U); }

}  // namespace linmed
