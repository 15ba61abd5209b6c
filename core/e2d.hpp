// E2D for linear rewards, by a penalised D-optimal design of the arms with a constant put in front.
//
// The program is min_p G(p), G(p) = max_a <θ̂, a − ā> + |a − ā|²/(4γ) in V(p)⁻¹, with ā and V(p) the means of a and a a'
// under p. Let ã = (1, a), w_a = |ã|² in Ṽ(p)⁻¹, r the rank of the ã, c_a = 4γ gap_a. If p maximises
// log det Ṽ(p) − Σ p_a c_a, then w_a − c_a ≤ r − Σ p c for every arm, and since |a − ā|² in V(p)⁻¹ is at most w_a − 1,
// G(p) ≤ (r − 1)/(4γ) ≤ d/(4γ). An excess ε in the first inequality adds ε/(4γ) to the second. For affinely independent
// arms w_a = 1/p_a and p_a = 1/(λ + c_a): inverse gap weighting.
//
// At the optimum w_a ≤ r + c_a, and p_a is about 1/c_a: Ṽ(p) is as ill-conditioned as γ is large. The arms
// ã_a/√(d + 1 + c_a) with weights p_a (d + 1 + c_a) have the same Ṽ(p), and coordinates in which all is about 1. What
// remains is the rounding of w and c themselves, which the certificate counts in.
//
// The optimum keeps some hundred of a thousand arms. Newton steps on the simplex find which (the second-order model is
// maximised by `Quadratic`), and from there each doubles the digits; mass moved from arm to arm takes thousands of steps
// for as many. The start depends on the arms alone, so p is a function of θ̂, γ and the arms.
#pragma once

#include <vector>

#include "design.hpp"
#include "igw.hpp"
#include "rounds.hpp"

namespace linmed {

// A buffer that grows: room for n numbers, whatever they were before.
LINMED_INLINE double *room_for(Buffer &buffer, Index n) {
    if (buffer.size() < n) buffer = Buffer(n);
    return buffer;
}

// The place of the largest of n numbers, n a multiple of eight; the lowest among equals.
LINMED_INLINE Index place_of_largest(const double *x, Index n) {
    return arg_largest(n, [&](Index first) { return load(x + first); });
}

// ---- Cholesky, eight columns at a time ------------------------------------------------------------------------------

constexpr double SINGULAR = 1e-11;  // a pivot this small relative to its diagonal is rounding

// Cholesky of the lower triangle of L in place, but for the diagonal: inverse_i = 1/L_ii.
//
// Where a pivot is rounding, inverse_i = 0: solutions leave entry i at 0. L (n,n), n a multiple of eight; panel (n,8) is
// scratch.
inline void factor_in_place(double *L, Index n, double *inverse, double *panel) {
    for (Index i = 0; i < n; ++i) inverse[i] = SINGULAR * L[i * n + i];
    for (Index first = 0; first < n; first += LANES) {  // eight columns; what the columns before take from them …
        between_rounds();
        for (Index lane = 0; lane < LANES; ++lane)
            for (Index k = 0; k < first; ++k) panel[k * LANES + lane] = -L[(first + lane) * n + k];
        for (Index i = first; i < n; i += 4) {
            double *r0 = L + i * n, *r1 = r0 + n, *r2 = r1 + n, *r3 = r2 + n;
            Lanes s0 = load(r0 + first), s1 = load(r1 + first), s2 = load(r2 + first), s3 = load(r3 + first);
            for (Index k = 0; k < first; ++k) {
                const Lanes column = load(panel + k * LANES);
                s0 = fma(splat(r0[k]), column, s0);
                s1 = fma(splat(r1[k]), column, s1);
                s2 = fma(splat(r2[k]), column, s2);
                s3 = fma(splat(r3[k]), column, s3);
            }
            store(r0 + first, s0), store(r1 + first, s1), store(r2 + first, s2), store(r3 + first, s3);
        }
        for (Index i = first; i < n; ++i)  // … and what they take from one another
            for (Index j = first; j < std::min(i + 1, first + LANES); ++j) {
                double rest = L[i * n + j];
                for (Index k = first; k < j; ++k) rest -= L[i * n + k] * L[j * n + k];
                if (j < i) L[i * n + j] = rest * inverse[j];
                else inverse[i] = rest > inverse[i] ? 1.0 / sqrt(rest) : 0.0;
            }
    }
}

// x ← (L L')⁻¹ x for an x (n,) that is zero before `start`.
inline void solve_factored(const double *L, Index n, const double *inverse, Index start, double *x) {
    for (Index i = start - start % LANES; i < n; ++i) {
        const double *row = L + i * n;
        const Index whole = i - i % LANES;
        Lanes s = splat(0.0);
        for (Index k = start - start % LANES; k < whole; k += LANES) s = fma(load(row + k), load(x + k), s);
        double inner = sum_lanes(s);
        for (Index k = whole; k < i; ++k) inner += row[k] * x[k];
        x[i] = (x[i] - inner) * inverse[i];
    }
    for (Index i = n - 1; i >= 0; --i) {
        const double *row = L + i * n, xi = x[i] *= inverse[i];
        const Index whole = i - i % LANES;
        for (Index k = 0; k < whole; k += LANES) store(x + k, load(x + k) - splat(xi) * load(row + k));
        for (Index k = whole; k < i; ++k) x[k] -= xi * row[k];
    }
}

// ---- a concave quadratic on the simplex -------------------------------------------------------------------------------

// max Σ G_i Δ_i − ½ Δ'HΔ over x + Δ ≥ 0, Σ Δ = 0, for a dense H.
//
// Exchanges between two entries find most of the entries that stay positive and cost one row of H each. On the face of
// those that are left the maximum is a system of equations, solved by Cholesky; an entry that would turn negative leaves
// the face, and the solution follows by an update. Vectors have a multiple of eight entries, the rest of which are zeros
// that stay zeros (with a G so low that no mass goes there). No sum depends on the processor: lanes keep their own order.
class Quadratic {
  public:
    // Exchanges until max G − Σ x G/Σ x ≤ within, `most` at the most; x and the gradient G follow.  H (n,n), G, x (n,).
    //
    // Mass moves to the entry of largest G from the one that then gains most, as far as is best.
    void exchange(const double *H, double *G, double *x, Index n, double within, Index most) {
        double *own = room_for(own_, n);
        for (Index i = 0; i < n; ++i) own[i] = H[i * n + i];
        for (Index step = 0; step < most; ++step) {
            const Index high = place_of_largest(G, n);
            if (step % BETWEEN_CHECKS == 0) {
                between_rounds();
                double total = 0.0, mean = 0.0;
                for (Index i = 0; i < n; ++i) {
                    total += x[i];
                    mean += x[i] * G[i];
                }
                if (G[high] - mean / total <= within) return;
            }
            const double *to = H + high * n, top = G[high], own_top = own[high];
            Lanes gained = splat(-INF), from = splat(0.0), here = steps();
            for (Index i = 0; i < n; i += LANES) {
                const Lanes rise = larger(splat(top) - load(G + i), splat(0.0));
                const Lanes bend = larger(splat(own_top) + load(own + i) - splat(2.0) * load(to + i), splat(1e-300));
                const Lanes mass = load(x + i), reach = rise / bend, gain = rise * where_greater(mass, reach, reach, mass);
                from = where_greater(gain, gained, here, from);
                gained = larger(gain, gained);
                here = here + splat(double(LANES));
            }
            const auto [gain, low] = first_of_largest(gained, from);
            if (!(gain > 0.0)) return;
            const double rise = top - G[low], bend = own_top + own[low] - 2.0 * to[low];
            const double amount = rise < x[low] * bend ? rise / bend : x[low];
            x[high] += amount;
            x[low] = amount < x[low] ? x[low] - amount : 0.0;
            const double *away = H + low * n;
            for (Index i = 0; i < n; i += LANES)
                store(G + i, load(G + i) - splat(amount) * (load(to + i) - load(away + i)));
        }
    }

    // Move x to the maximum on the face of its positive entries, or of those that are left.
    //
    // Where H is singular on the face, the smaller entries stay what they are. With N = H⁻¹, Δ = N G − ν N 1. When entry j
    // leaves, N loses v v' for v = N e_j/√N_jj; the v are kept, N is not.
    void climb_face(const double *H, const double *G, double *x, Index total) {
        find_face(H, x, total);
        const Index m = Index(face_.size()), n = padded(m);
        if (m == 0) return;
        double *L = room_for(L_, n * n), *inverse = room_for(inverse_, n), *panel = room_for(panel_, n * LANES);
        double *y = room_for(y_, n), *ones = room_for(ones_, n), *d = room_for(d_, n), *z = room_for(z_, n);
        double *stays = room_for(stays_, n), *change = room_for(change_, total);
        const double level = G[face_[0]];
        for (Index i = 0; i < n; ++i) {
            const bool on = i < m;
            for (Index k = 0; k <= i; ++k) L[i * n + k] = on ? H[face_[i] * total + face_[k]] : 0.0;
            for (Index k = i + 1; k < padded(i + 1); ++k) L[i * n + k] = 0.0;
            y[i] = on ? G[face_[i]] - level : 0.0;
            ones[i] = on ? 1.0 : 0.0;
            z[i] = on ? x[face_[i]] : 0.0;
            stays[i] = 1.0;
        }
        factor_in_place(L, n, inverse, panel);
        solve_factored(L, n, inverse, 0, y);
        solve_factored(L, n, inverse, 0, ones);
        for (Index leavers = 0; leavers <= MOST_LEAVERS; ++leavers) {
            balance(y, ones, n, d);
            Index j = -1;
            double share = 1.0;
            for (Index i = 0; i < m; ++i)
                if (z[i] + share * d[i] < 0.0) j = i, share = z[i] / -d[i];
            for (Index i = 0; i < m; ++i) z[i] = std::max(z[i] + share * d[i], 0.0);
            if (j < 0) break;
            z[j] = stays[j] = 0.0;
            if (leavers == MOST_LEAVERS) break;
            if (Index(left_.size()) == leavers) left_.emplace_back();
            double *v = room_for(left_[leavers], n);
            for (Index i = 0; i < n; ++i) v[i] = 0.0;
            v[j] = 1.0;
            solve_factored(L, n, inverse, j, v);
            for (Index before = 0; before < leavers; ++before) {
                const double *u = left_[before];
                const Lanes uj = splat(u[j]);
                for (Index i = 0; i < n; i += LANES) store(v + i, load(v + i) - load(u + i) * uj);
            }
            if (!(v[j] > 0.0)) break;
            const double root = sqrt(v[j]), to_y = (1.0 - share) * d[j] / root, to_ones = ones[j] / root;
            for (Index i = 0; i < n; ++i) {
                v[i] = stays[i] * (v[i] / root);
                y[i] = stays[i] * ((1.0 - share) * d[i] - to_y * v[i]);
                ones[i] = stays[i] * (ones[i] - to_ones * v[i]);
            }
        }
        for (Index i = 0; i < total; ++i) change[i] = 0.0;
        for (Index i = 0; i < m; ++i) change[face_[i]] = z[i] - x[face_[i]];
        if (gained(H, G, change, total) > 0.0)  // no rounding of an ill-conditioned H may lead astray
            for (Index i = 0; i < m; ++i) x[face_[i]] = z[i];
    }

  private:
    static constexpr Index BETWEEN_CHECKS = 32;  // exchanges
    static constexpr Index MOST_LEAVERS = 128;

    Buffer own_;                                                        // H_ii
    std::vector<Index> face_;                                           // places of the entries on the face
    Buffer L_, inverse_, panel_, y_, ones_, d_, z_, stays_, change_;    // see `climb_face`
    std::vector<Buffer> left_;                                          // v of the entries that have left

    // Places of the positive x_i, those with the largest x_i √H_ii first.
    void find_face(const double *H, const double *x, Index n) {
        const auto size = [&](Index i) { return x[i] * x[i] * H[i * n + i]; };
        face_.clear();
        for (Index i = 0; i < n; ++i)
            if (x[i] != 0.0) face_.push_back(i);
        for (Index i = 1; i < Index(face_.size()); ++i) {
            const Index entry = face_[i];
            const double own = size(entry);
            Index k = i;
            for (; k > 0 && size(face_[k - 1]) < own; --k) face_[k] = face_[k - 1];
            face_[k] = entry;
        }
    }

    // d = y − ν·ones with Σ d = 0.
    static void balance(const double *y, const double *ones, Index n, double *d) {
        double above = 0.0, below = 0.0;
        for (Index i = 0; i < n; ++i) above += y[i], below += ones[i];
        const double nu = below > 0.0 ? above / below : 0.0;
        for (Index i = 0; i < n; ++i) d[i] = y[i] - nu * ones[i];
    }

    // Σ G_i Δ_i − ½ Δ'HΔ.
    static double gained(const double *H, const double *G, const double *change, Index n) {
        double total = 0.0;
        for (Index i = 0; i < n; ++i)
            if (change[i] != 0.0) {
                Lanes bend = splat(0.0);
                for (Index k = 0; k < n; k += LANES) bend = fma(load(H + i * n + k), load(change + k), bend);
                total += change[i] * (G[i] - 0.5 * sum_lanes(bend));
            }
        return total;
    }
};

// ---- the program ------------------------------------------------------------------------------------------------------

// The program for sets of K arms in d dimensions, and what it works with. The answer is left in p.
class E2dProgram {
  public:
    Buffer p;  // (K,)

    E2dProgram(Index K, Index d)
        : p(K), K_(K), d_(d), lifted_(K * (d + 1)), B_(K * (d + 1)), c_(K), g_(K), log_scale_(K), ones_(padded(K)),
          weight_(K), w_(padded(K)), change_(K), start_(K), best_(K), pivots_(d + 1) {
        for (Index i = 0; i < padded(K); ++i) ones_[i] = 1.0;
    }

    // p until the excess is at most tol·d; returns an upper bound on 4γ G(p).  theta (d,).
    // `gains` (K,) are û where these are not <θ̂, a>.
    double solve(const Arms &arms, const double *theta, double gamma, double tol, const double *gains = nullptr) {
        const double lost = lift(arms, theta, gamma, gains);
        for (Index i = 0; i < K_; ++i) {
            g_[i] = double(d_) + 1.0 + c_[i];
            log_scale_[i] = -0.5 * log(g_[i]);
        }
        const Arms lifted{lifted_, K_, d_ + 1, d_ + 1, nullptr};
        const Index rank = span_coordinates(lifted, log_scale_, B_, pivots_);
        if (rank != rank_) desk_ = Desk(rank_ = rank);
        const Arms B = pack(B_, K_, rank, d_ + 1, room_for(blocks_, Arms::room(K_, rank)));
        const double over = maximise(B, tol * double(d_));
        return double(rank) - 1.0 + std::max(over, 0.0) + 2.0 * lost;
    }

  private:
    static constexpr double ROUNDING = 1.8e-15;  // of w and c for each coordinate: eight units in the last place
    static constexpr int FIRST_STEPS = 10;       // majorise–minimise
    static constexpr int MOST_STEPS = 200;       // Newton; five or six are usual
    static constexpr int MOST_HALVINGS = 30;
    static constexpr Index MOST_EXCHANGES = 3000;  // in one model …
    static constexpr double HANDOVER = 0.03;  // … or until its excess is this share of the objective's: the rest is for
                                              // equations to solve
    static constexpr double CLOSE = 1e-11;    // Newton's estimate of twice what is still to be gained, from where no step
                                              // need be shortened
    static constexpr Index SMALLEST = 64, LARGEST = 2048;  // arms in a model, if there are as many; between them r (r + 1)

    Index K_, d_, rank_ = 0;
    Buffer lifted_, B_, blocks_;                  // (K,d+1) ã; (K,d+1) coordinates of ã_a/√g_a, of which r count
    Buffer c_, g_, log_scale_;                    // (K,) 4γ gap_a; d + 1 + c_a; −½ log g_a
    Buffer ones_, weight_, w_;                    // weight: p g, and p w; w: |ã|² in Ṽ(p)⁻¹
    Buffer change_, start_, best_;                // (K,) of p: the step, where it begins, the best one so far
    std::vector<Index> pivots_, members_;         // members: the arms of a model
    Desk desk_{0};
    Quadratic quadratic_;
    Buffer H_, G_, x_, C_, inverse_, panel_, images_, columns_, height_;  // of a model, see `curvature`
    std::vector<char> marked_;

    // Rows (1, a − a*) with a* the arm of the best mean, in a unit of their own, and c_a = 4γ gap_a.
    //
    // The design depends on neither origin nor unit of the arms; seen from a*, arms and gaps keep the digits in which they
    // differ. Returns what c may have lost.
    double lift(const Arms &arms, const double *theta, double gamma, const double *gains) {
        Index leader = 0;
        for (Index i = 0; i < K_; ++i) {
            c_[i] = gains ? gains[i] : 0.0;
            for (Index k = 0; k < d_ && !gains; ++k) c_[i] += arms.row(i)[k] * theta[k];
            if (c_[i] > c_[leader]) leader = i;
        }
        const double *best = arms.row(leader);
        double largest = 0.0, size = 0.0;
        for (Index i = 0; i < K_; ++i) {
            double *row = lifted_ + i * (d_ + 1), gap = 0.0, total = 0.0;
            row[0] = 1.0;
            for (Index k = 0; k < d_; ++k) {
                const double difference = row[k + 1] = best[k] - arms.row(i)[k], part = difference * theta[k];
                gap += part;
                total += fabs(part);
                largest = std::max(largest, fabs(difference));
            }
            if (gains) gap = gains[leader] - gains[i], total = fabs(gap);
            c_[i] = 4.0 * gamma * std::max(gap, 0.0);
            size = std::max(size, total);
        }
        for (Index i = 0; i < K_; ++i)
            for (Index k = 1; k <= d_; ++k) {
                double &entry = lifted_[i * (d_ + 1) + k];
                entry = largest > 0.0 ? entry / largest : 0.0;
            }
        return ROUNDING * double(d_) * 4.0 * gamma * size;
    }

    // Maximise log det Σ p ã ã' − Σ p c over the simplex until the excess is at most tol; returns the excess.
    //
    // Majorise–minimise steps from p_a ∝ 1/g_a, the first of which is the answer for affinely independent arms; then Newton
    // steps with the simplex kept: p goes where the second-order model is largest, or halfway there as often as the
    // objective has fallen again by then.
    double maximise(const Arms &B, double tol) {
        const Index rank = B.d;
        for (Index i = 0; i < K_; ++i) p[i] = 1.0;
        refresh(B, ones_);
        bool spans = true;
        for (int step = 0; step < FIRST_STEPS; ++step) {
            majorise_minimise();
            spans = refresh(B, g_);
            if (excess(rank).over <= tol) break;
        }
        copy(p, best_);
        double least = INF, before = INF, rise = INF;
        Index most = std::clamp(rank * (rank + 1), SMALLEST, LARGEST), wanted_before = K_;
        for (int step = 0; step < MOST_STEPS; ++step) {
            const auto [over, high, low, kappa] = excess(rank);
            if (over < least && spans) {
                least = over;
                copy(p, best_);
            }
            Index wanted = choose_members(kappa, most);
            // So close to the optimum a Newton step improves until rounding is all there is.
            if (over >= before && rise < CLOSE && (most >= wanted || most == LARGEST)) break;
            if (over > 0.5 * before && 4 * (wanted_before - wanted) < most) {
                most = std::min(2 * most, LARGEST);
                wanted = choose_members(kappa, most);
            }
            before = over, wanted_before = wanted;
            const double apart = w_[high] - c_[high] - w_[low] + c_[low];
            if (members_.empty() || over <= tol || apart <= ROUNDING * double(rank) * (w_[high] + c_[high])) break;
            climb_model(B, kappa, HANDOVER * over);
            rise = slope();
            copy(p, start_);
            double share = 1.0;
            for (int halving = 0; halving < MOST_HALVINGS; ++halving) {
                between_rounds();
                for (Index i = 0; i < K_; ++i) p[i] = std::max(start_[i] + share * change_[i], 0.0);
                spans = refresh(B, g_);
                if (spans && (rise < CLOSE || slope() >= -0.5 * rise)) break;
                share *= 0.5;
            }
        }
        copy(best_, p);
        return least;
    }

    void copy(const double *from, double *to) const { std::copy(from, from + K_, to); }

    // Σ p = 1, M = (Σ p g b b')⁻¹ on the desk and w_i = g_i b_i'M b_i again; false if too few are in use.
    bool refresh(const Arms &B, const double *g) {
        double total = 0.0;
        for (Index i = 0; i < K_; ++i) total += p[i];
        for (Index i = 0; i < K_; ++i) {
            p[i] /= total;
            weight_[i] = p[i] * g[i];
        }
        const bool spans = weighted_inverse(B, ones_, weight_, 0.0, desk_);
        squared_lengths(B, B.d, ones_, desk_.M(), desk_.stride, w_);
        for (Index i = 0; i < K_; ++i) w_[i] *= g[i];
        return spans;
    }

    // p_a ∝ p_a w_a/(κ + c_a): log det Ṽ is convex in log p, so the objective rises.
    void majorise_minimise() {
        for (Index i = 0; i < K_; ++i) weight_[i] = p[i] * w_[i];
        const double kappa = normaliser(weight_, c_, K_);
        for (Index i = 0; i < K_; ++i) p[i] = weight_[i] / (kappa + c_[i]);
    }

    // max_a (w_a − c_a) − κ, rounded up; the arm of the maximum, the lowest arm in use, κ = rank − Σ p c.
    struct Excess { double over; Index high, low; double kappa; };
    Excess excess(Index rank) const {
        Index high = 0, low = -1;
        double cost = 0.0, most = -INF;
        for (Index i = 0; i < K_; ++i) {
            const double height = w_[i] - c_[i];
            cost += p[i] * c_[i];
            most = std::max(most, height + ROUNDING * double(rank) * (w_[i] + c_[i]));
            if (height > w_[high] - c_[high]) high = i;
            if (p[i] > 0.0 && (low < 0 || height < w_[low] - c_[low])) low = i;
        }
        const double kappa = double(rank) - cost;
        return {most - kappa, high, std::max(low, Index(0)), kappa};
    }

    // d/dt of log det Ṽ(p + t·change) − Σ (p + t·change) c at the p of w.
    double slope() const {
        double total = 0.0;
        for (Index i = 0; i < K_; ++i) total += (w_[i] - c_[i]) * change_[i];
        return total;
    }

    // Arms in use and arms that should be, w − c > κ; of more than `most`, the highest and the lowest. Returns how many
    // there were.
    Index choose_members(double kappa, Index most) {
        double *height = room_for(height_, K_);
        members_.clear();
        for (Index i = 0; i < K_; ++i)
            if (p[i] > 0.0 || w_[i] - c_[i] > kappa) {
                height[members_.size()] = w_[i] - c_[i];
                members_.push_back(i);
            }
        const Index wanted = Index(members_.size());
        if (wanted <= most) return wanted;
        marked_.assign(wanted, 0);
        for (double sign : {1.0, -1.0}) mark_largest(height, sign, most / 2);
        Index few = 0;
        for (Index i = 0; i < wanted; ++i)
            if (marked_[i]) members_[few++] = members_[i];
        members_.resize(few);
        return wanted;
    }

    // Mark the `number` largest of sign·x, those of lower index among equals.
    void mark_largest(const double *x, double sign, Index number) {
        const Index m = Index(marked_.size());
        double low = INF, high = -INF;
        for (Index i = 0; i < m; ++i) low = std::min(low, sign * x[i]), high = std::max(high, sign * x[i]);
        for (int step = 0; step < 60; ++step) {  // at most `number` are above `high`, at least as many are not below `low`
            const double middle = low + 0.5 * (high - low);
            Index above = 0;
            for (Index i = 0; i < m; ++i) above += sign * x[i] > middle;
            (above > number ? low : high) = middle;
        }
        for (Index i = 0; i < m; ++i)
            if (sign * x[i] > high) marked_[i] = 1, --number;
        for (Index i = 0; i < m; ++i)
            if (number > 0 && low <= sign * x[i] && sign * x[i] <= high) marked_[i] = 1, --number;
    }

    // The change of p to where the second-order model of the members is largest, but for `within`.
    void climb_model(const Arms &B, double kappa, double within) {
        const Index m = Index(members_.size()), n = padded(m);
        double *H = room_for(H_, n * n), *G = room_for(G_, n), *x = room_for(x_, n);
        curvature(B, n, H);
        for (Index i = 0; i < n; ++i) {
            G[i] = i < m ? w_[members_[i]] - c_[members_[i]] - kappa : -1e300;
            x[i] = i < m ? p[members_[i]] : 0.0;
        }
        quadratic_.exchange(H, G, x, n, within, MOST_EXCHANGES);
        quadratic_.climb_face(H, G, x, n);
        for (Index i = 0; i < K_; ++i) change_[i] = 0.0;
        for (Index i = 0; i < m; ++i) change_[members_[i]] = x[i] - p[members_[i]];
    }

    // H_ij = (ã_i'Ṽ⁻¹ã_j)² for the members, minus the second derivative of log det.  H (n,n), zero beyond.
    //
    // With M = C C' the products are those of the vectors √g_i C'b_i, which lose no digits to cancellation beyond their own
    // lengths.
    void curvature(const Arms &B, Index n, double *H) {
        const Index m = Index(members_.size()), rank = B.d, stride = desk_.stride;
        double *C = room_for(C_, stride * stride), *inverse = room_for(inverse_, stride);
        double *images = room_for(images_, n * rank), *columns = room_for(columns_, n * rank);  // (n,r) and (n/8,r,8)
        clear(C, stride * stride);
        for (Index k = 0; k < rank; ++k)
            for (Index j = 0; j <= k; ++j) C[k * stride + j] = desk_.M()[k * stride + j];
        factor_in_place(C, stride, inverse, room_for(panel_, stride * LANES));
        clear(images, n * rank);
        for (Index i = 0; i < m; ++i) {
            const double root = sqrt(g_[members_[i]]), *b = B.row(members_[i]);
            double *image = images + i * rank;
            for (Index k = 0; k < rank; ++k) {
                const double x = root * b[k], *row = C + k * stride;
                for (Index j = 0; j < k; ++j) image[j] += x * row[j];
                image[k] += inverse[k] > 0.0 ? x / inverse[k] : 0.0;
            }
        }
        for (Index i = 0; i < n; ++i)
            for (Index k = 0; k < rank; ++k) columns[(i / LANES * rank + k) * LANES + i % LANES] = images[i * rank + k];
        for (Index block = 0; block < n / LANES; ++block) {
            between_rounds();
            for (Index i = 0; i < n; i += 4) {
                const double *r0 = images + i * rank, *r1 = r0 + rank, *r2 = r1 + rank, *r3 = r2 + rank;
                Lanes s0 = splat(0.0), s1 = s0, s2 = s0, s3 = s0;
                for (Index k = 0; k < rank; ++k) {
                    const Lanes x = load(columns + (block * rank + k) * LANES);
                    s0 = fma(splat(r0[k]), x, s0);
                    s1 = fma(splat(r1[k]), x, s1);
                    s2 = fma(splat(r2[k]), x, s2);
                    s3 = fma(splat(r3[k]), x, s3);
                }
                double *at = H + i * n + block * LANES;
                store(at, s0 * s0), store(at + n, s1 * s1), store(at + 2 * n, s2 * s2), store(at + 3 * n, s3 * s3);
            }
        }
    }
};

// ---- the rule -----------------------------------------------------------------------------------------------------------

class E2dRule final : public GapRule {
  public:
    double gamma;       // γ; 0 stands for the formula
    double horizon;     // n; 0 stands for the current round
    double tol;         // how far G may exceed d/(4γ), relatively
    double lam;         // λ
    double bias, unit;  // λS², σ² + S²
    double floor;

    E2dRule(double gamma, double horizon, double tol, double lam, double bias, double unit, double floor)
        : gamma(gamma), horizon(horizon), tol(tol), lam(lam), bias(bias), unit(unit), floor(floor) {}

    // γ = √(d n/(4 Est)) of row s: with a horizon n, Est = λS² + (σ² + S²) d log(1 + n/(dλ)); without one, n is the current
    // round t = rewards absorbed + 1 and Est = λS² + (σ² + S²) log(det V/det V₀).
    double exploration(const Belief &belief, Index s, Index, Index dim) const override {
        if (gamma > 0.0) return gamma;
        const double d = double(dim), n = horizon > 0.0 ? horizon : belief.count(s) + 1.0;
        const double information = horizon > 0.0 ? d * log1p(n / (d * lam)) : std::max(belief.logdet[s], 0.0);
        return sqrt(d * n / (4.0 * (bias + unit * information)));
    }

    struct Room : Scratch {
        E2dProgram program;
        Room(Index K, Index d) : program(K, d) {}
    };
    std::unique_ptr<Scratch> workspace(Index K, Index d) const override { return std::make_unique<Room>(K, d); }
    Index decide(const Belief &belief, Index s, double, const Arms &arms, Index, const double *noise, Scratch &room,
                 double *log_p) const override {
        E2dProgram &program = static_cast<Room &>(room).program;
        program.solve(arms, belief.estimate(s), exploration(belief, s, arms.K, arms.d), tol,
                      belief.utility() ? belief.utility()->gains() : nullptr);
        return settle(program.p, arms.K, floor, noise[0], log_p);
    }
};

}  // namespace linmed
