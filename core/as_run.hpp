// Rules of the authors' public code, where it does otherwise than the paper. Most come after an opening, see wrappers.hpp.
//
// Its design is ApproxDesign in the principal axes of the *centred* arms. Arms lose their components along axes whose
// variance is at most 1e-6, whatever their size, and with them the certificate: leverages are looked at in what is left.
// {(1, 0), (−1, 0), (0, 1e-4)} becomes a line and gets (1/2, 1/2, 0). The list from which the weights are counted is off by
// one: of the arms a₁ … a_m that the greedy loop adds and the a_{m+1} that it would look at next, it holds a₂ … a_{m+1}.
#pragma once

#include "med.hpp"
#include "spanner.hpp"
#include "wrappers.hpp"

namespace linmed {

constexpr double THRESHOLD = 1e-6;  // variances up to this one are taken for zero, whatever the scale of the arms

// The eigenvalues of S (n,n) to `values`, its eigenvectors to Q (n,n) as columns, in the order of LAPACK's dgeev, which
// NumPy calls; false where it finds none that are real. See bind_designs.cpp.
bool eigenvectors_of_lapack(const double *S, Index n, double *values, double *Q);

// One rotation, after which S[i, j] is zero.  S, Q (n,n).
inline void rotate(double *S, double *Q, Index n, Index i, Index j) {
    const double half = (S[j * n + j] - S[i * n + i]) / (2.0 * S[i * n + j]);
    double tangent = 1.0 / (fabs(half) + hypotenuse(half, 1.0));
    if (half < 0.0) tangent = -tangent;
    const double cosine = 1.0 / hypotenuse(tangent, 1.0), sine = tangent * cosine;
    const auto turn = [&](double &one, double &other) {
        const double x = one, y = other;
        one = cosine * x - sine * y, other = sine * x + cosine * y;
    };
    for (Index k = 0; k < n; ++k) {
        turn(S[k * n + i], S[k * n + j]);
        turn(Q[k * n + i], Q[k * n + j]);
    }
    for (Index k = 0; k < n; ++k) turn(S[i * n + k], S[j * n + k]);
    S[i * n + j] = S[j * n + i] = 0.0;
}

// Jacobi's method: the eigenvalues of S (n,n) to its diagonal, the eigenvectors to Q (n,n) as columns.
//
// Every rotation is the smaller of two, so an axis stays where it is if it can: in a plane that is also the order in which
// LAPACK's dgeev has them.
inline void diagonalise(double *S, double *Q, Index n) {
    constexpr int SWEEPS = 60;  // it needs about six
    for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) Q[i * n + j] = i == j ? 1.0 : 0.0;
    for (int sweep = 0; sweep < SWEEPS; ++sweep) {
        between_rounds();
        double outside = 0.0, whole = 0.0;
        for (Index i = 0; i < n; ++i)
            for (Index j = 0; j < n; ++j) {
                const double square = S[i * n + j] * S[i * n + j];
                whole += square;
                outside += i != j ? square : 0.0;
            }
        if (outside <= 1e-32 * whole) break;
        for (Index i = 0; i < n; ++i)
            for (Index j = i + 1; j < n; ++j)
                if (S[i * n + j] != 0.0) rotate(S, Q, n, i, j);
    }
}

// `diagonalise` with the axes in the order in which the public code gets them. Nothing tells that order but dgeev itself;
// where rounding makes a pair of eigenvalues complex, it is Jacobi's order.
inline void diagonalise_as_lapack(double *S, double *Q, Index n) {
    Buffer values(n);
    if (!eigenvectors_of_lapack(S, n, values, Q)) return diagonalise(S, Q, n);
    for (Index i = 0; i < n; ++i)
        for (Index j = 0; j < n; ++j) S[i * n + j] = i == j ? values[i] : 0.0;
}

// How many variances of the vectors scale_i a_i in a plane exceed the threshold: the common case, which needs no axes.
inline Index rank_in_plane(const Arms &arms, const double *scale) {
    const double K = double(arms.K);
    double x = 0.0, y = 0.0, xx = 0.0, xy = 0.0, yy = 0.0;
    for (Index i = 0; i < arms.K; ++i) {
        x += scale[i] * arms.row(i)[0] / K;
        y += scale[i] * arms.row(i)[1] / K;
    }
    for (Index i = 0; i < arms.K; ++i) {
        const double u = scale[i] * arms.row(i)[0] - x, v = scale[i] * arms.row(i)[1] - y;
        xx += u * u / (K - 1.0);
        xy += u * v / (K - 1.0);
        yy += v * v / (K - 1.0);
    }
    const double middle = 0.5 * (xx + yy), spread = hypotenuse(0.5 * (xx - yy), xy);
    return Index(middle + spread > THRESHOLD) + Index(middle - spread > THRESHOLD);
}

// The vectors, not centred, in the axes whose variance exceeds the threshold; returns how many those are.
//
// coordinates (K,d). BH depends on the order of the axes. Where there are fewer arms than dimensions, they come from the
// arms' products, which is much faster, and in an order that need not be LAPACK's.
inline Index principal_coordinates(const Arms &arms, const double *scale, double *coordinates) {
    const Index K = arms.K, d = arms.d, n = std::min(K, d);
    Buffer V(K * d), X(K * d), S(n * n), Q(n * n), axis(d);
    for (Index k = 0; k < d; ++k) {
        double mean = 0.0;
        for (Index i = 0; i < K; ++i) mean += V[i * d + k] = scale[i] * arms.row(i)[k];
        mean /= double(K);
        for (Index i = 0; i < K; ++i) X[i * d + k] = V[i * d + k] - mean;  // a constant feature leaves exact zeros
    }
    for (Index i = 0; i < n; ++i) {
        between_rounds();
        for (Index j = 0; j <= i; ++j) {
            double total = 0.0;
            for (Index k = 0; k < std::max(K, d); ++k)
                total += d <= K ? X[k * d + i] * X[k * d + j] : X[i * d + k] * X[j * d + k];
            S[i * n + j] = S[j * n + i] = total / (double(K) - 1.0);
        }
    }
    if (2 < d && d <= K) diagonalise_as_lapack(S, Q, n);
    else diagonalise(S, Q, n);
    Index rank = 0;
    for (Index j = 0; j < n; ++j) {
        const double variance = S[j * n + j];
        if (!(variance > THRESHOLD)) continue;
        for (Index k = 0; k < d; ++k) {
            axis[k] = d <= K ? Q[k * n + j] : 0.0;
            if (d > K)
                for (Index i = 0; i < K; ++i) axis[k] += X[i * d + k] * Q[i * n + j] / sqrt(variance * (double(K) - 1.0));
        }
        for (Index i = 0; i < K; ++i) {
            double total = 0.0;
            for (Index k = 0; k < d; ++k) total += V[i * d + k] * axis[k];
            coordinates[i * d + rank] = total;
        }
        ++rank;
    }
    return rank;
}

// Algorithms 4 and 5 in the first `rank` of d coordinates (K,d), zero vectors among them, with the list that is off by
// one; returns the sum of the counts (K,).
inline double exchange_in_axes(const double *coordinates, Index K, Index rank, Index d, double *count) {
    Buffer blocks(Arms::room(K, rank)), ones(padded(K)), leverage(padded(K));
    for (Index i = 0; i < K; ++i) ones[i] = 1.0;
    const Arms arms = pack(coordinates, K, rank, d, blocks);
    Desk desk(rank);
    const Index chosen = betke_henk(arms, arms.d, ones, count, desk);
    desk.invert_M(desk.d, 0.0);
    const Index first = squared_lengths(arms, arms.d, ones, desk.M(), desk.stride, leverage);
    const Index added = add_greedily(arms, arms.d, ones, first, leverage, count, desk);
    if (added > 0) {
        Index following = 0;
        for (Index i = 1; i < K; ++i)
            if (leverage[i] > leverage[following]) following = i;
        count[first] -= 1.0;
        count[following] += 1.0;
    }
    return double(chosen + added);
}

// The design of the vectors scale_i a_i as counts of every arm; returns their sum.  scale, count (K,).
//
// Where no axis is left, and the public code ends with an error, the arms count alike.
inline double centred_counts(const Arms &arms, const double *scale, double *count) {
    const Index K = arms.K, d = arms.d;
    Buffer coordinates;
    Index rank = K;
    if (K > 1 && !(d == 2 && K <= 2 * rank_in_plane(arms, scale))) {
        coordinates = Buffer(K * d);
        rank = principal_coordinates(arms, scale, coordinates);
    }
    if (K > 2 * rank && rank > 0) return exchange_in_axes(coordinates, K, rank, d, count);
    for (Index i = 0; i < K; ++i) count[i] = 1.0;  // all arms, whose leverages then are at most 1
    return double(K);
}

// ---- the rules -------------------------------------------------------------------------------------------------------

// Every arm with probability 1/K, drawn by the first of a decision's standard normals: ⌊Φ(z)K⌋.
class EvenByNormalRule final : public Rule {
  public:
    std::unique_ptr<Scratch> workspace(Index, Index) const override { return std::make_unique<Scratch>(); }
    Index decide(const Belief &, Index, double, const Arms &arms, Index, const double *noise, Scratch &,
                 double *log_p) const override {
        if (log_p) std::fill(log_p, log_p + arms.K, -log(double(arms.K)));
        return even_arm(0.5 * erfc(-noise[0] * 0.7071067811865476), arms.K);
    }
};

// 1 on arm 0.
class ArmZeroRule final : public Rule {
  public:
    struct Room : Scratch {
        Buffer p;
        explicit Room(Index K) : p(K) {}
    };
    std::unique_ptr<Scratch> workspace(Index K, Index) const override { return std::make_unique<Room>(K); }
    Index decide(const Belief &, Index, double, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        return settle_on(0, static_cast<Room &>(room).p, arms.K, 0.0, noise[0], log_p);
    }
};

// The centred design of the arms.
class CentredDesignRule final : public Rule {
  public:
    struct Room : Scratch {
        Buffer ones, p;
        explicit Room(Index K) : ones(padded(K)), p(padded(K)) {
            for (Index i = 0; i < K; ++i) ones[i] = 1.0;
        }
    };
    std::unique_ptr<Scratch> workspace(Index K, Index) const override { return std::make_unique<Room>(K); }
    Index decide(const Belief &, Index, double, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        auto &scratch = static_cast<Room &>(room);
        const double total = centred_counts(arms, scratch.ones, scratch.p);
        for (Index i = 0; i < arms.K; ++i) scratch.p[i] /= total;
        return settle(scratch.p, arms.K, 0.0, noise[0], log_p);
    }
};

// As `MedRule` with version 0, but with the centred design: one that need not be uniform for few arms, so `optimal` is set,
// which has it made in every round.
class CentredMedRule final : public Med {
  public:
    CentredMedRule(double alpha_emp, double alpha_opt) : Med(alpha_emp, alpha_opt, 0, true, false, false) {}

  protected:
    double counts(const Belief &, Index, const Arms &arms, MedScratch &scratch) const override {
        return centred_counts(arms, scratch.root, scratch.design);
    }
};

// As `SpannerRule`, but with the centred design; and without a horizon γ is that of the next round, while the arms of the
// design are still shrunk by the η of this one.
class LaggingSpannerRule final : public SpannerRule {
  public:
    using SpannerRule::SpannerRule;

    // γ for t + 1 in round t.
    double exploration(const Belief &belief, Index s, Index, Index d) const override {
        if (gamma > 0.0) return gamma;
        return rate(horizon > 0.0 ? horizon : belief.count(s) + 2.0, d);
    }

  protected:
    void design(const Belief &belief, Index s, const Arms &arms, const double *gap, double *scale,
                double *q) const override {
        double lag = 1.0;
        if (gamma == 0.0 && horizon == 0.0) {
            const double now = belief.count(s) + 1.0;
            lag = rate(now, arms.d) / rate(now + 1.0, arms.d);
        }
        for (Index i = 0; i < arms.K; ++i) scale[i] = 1.0 / sqrt(1.0 + lag * gap[i]);
        const double total = centred_counts(arms, scale, q);
        for (Index i = 0; i < arms.K; ++i) q[i] /= total;
    }
};

}  // namespace linmed
