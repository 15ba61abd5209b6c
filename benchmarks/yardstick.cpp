// A yardstick, not an implementation to ship: LinMED-90 (version 0, approximate design, delta = 0.01) on
// fixed arms of unit length, one loop over rounds, one thread, arranged so that the compiler vectorises.
// Usage: yardstick K d replicas rounds   ->   prints "seconds total_regret processor_seconds"
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <random>
#include <vector>

using Vec = std::vector<double>;

struct Uniform {  // xorshift: cheap enough not to be what is measured
    uint64_t s;
    double operator()() {
        s ^= s << 13; s ^= s >> 7; s ^= s << 17;
        return (s >> 11) * 0x1.0p-53;
    }
};

static int K, d;

// out_i = <column i, x> for At (d,K)
static void inner(const double* __restrict At, const double* __restrict x, double* __restrict out) {
    for (int i = 0; i < K; i++) out[i] = 0;
    int k = 0;
    for (; k + 4 <= d; k += 4) {
        const double *a = At + k * K, *b = a + K, *c = b + K, *e = c + K;
        double x0 = x[k], x1 = x[k + 1], x2 = x[k + 2], x3 = x[k + 3];
        for (int i = 0; i < K; i++) out[i] += (x0 * a[i] + x1 * b[i]) + (x2 * c[i] + x3 * e[i]);
    }
    for (; k < d; k++)
        for (int i = 0; i < K; i++) out[i] += x[k] * At[k * K + i];
}

// out_i = v' M v for the columns v of At, in blocks of columns whose image stays in registers
static void lengths(const double* __restrict At, const double* __restrict M, double* __restrict out) {
    constexpr int B = 16;
    int i0 = 0;
    for (; i0 + B <= K; i0 += B) {
        double total[B] = {0};
        for (int j = 0; j < d; j++) {
            double w[B] = {0};
            for (int k = 0; k < d; k++) {
                double m = M[j * d + k];
                const double* a = At + k * K + i0;
                for (int b = 0; b < B; b++) w[b] += m * a[b];
            }
            const double* a = At + j * K + i0;
            for (int b = 0; b < B; b++) total[b] += w[b] * a[b];
        }
        for (int b = 0; b < B; b++) out[i0 + b] = total[b];
    }
    for (int i = i0; i < K; i++) {
        double total = 0;
        for (int j = 0; j < d; j++) {
            double w = 0;
            for (int k = 0; k < d; k++) w += M[j * d + k] * At[k * K + i];
            total += w * At[j * K + i];
        }
        out[i] = total;
    }
}

// Indices of the largest and, if asked, of the smallest entry; blocks of eight keep the branches rare.
template <bool both>
static void extremes(const double* __restrict x, int& top, int& bottom) {
    top = bottom = 0;
    double high = x[0], low = x[0];
    int i = 0;
    for (; i + 8 <= K; i += 8) {
        double h = x[i], l = x[i];
        for (int b = 1; b < 8; b++) {
            h = x[i + b] > h ? x[i + b] : h;
            if (both) l = x[i + b] < l ? x[i + b] : l;
        }
        if (h > high || (both && l < low))
            for (int b = i; b < i + 8; b++) {
                if (x[b] > high) { high = x[b]; top = b; }
                if (both && x[b] < low) { low = x[b]; bottom = b; }
            }
    }
    for (; i < K; i++) {
        if (x[i] > high) { high = x[i]; top = i; }
        if (both && x[i] < low) { low = x[i]; bottom = i; }
    }
}

struct Replica {
    Vec At, theta_star, mean, V1, b, theta;  // arms transposed, V^{-1}
    double logdet = 0, best_mean = 0, regret = 0;
};

int main(int argc, char** argv) {
    if (argc != 5) return 1;
    K = atoi(argv[1]); d = atoi(argv[2]);
    const int R = atoi(argv[3]), n = atoi(argv[4]);
    std::mt19937_64 seed(1);
    std::normal_distribution<double> normal;
    std::vector<Replica> replicas(R);
    auto unit = [&](double* x, int stride) {
        double norm = 0;
        for (int k = 0; k < d; k++) { x[k * stride] = normal(seed); norm += x[k * stride] * x[k * stride]; }
        for (int k = 0; k < d; k++) x[k * stride] /= std::sqrt(norm);
    };
    for (auto& r : replicas) {
        r.At.resize(d * K); r.theta_star.resize(d); r.mean.resize(K);
        r.V1.assign(d * d, 0); r.b.assign(d, 0); r.theta.assign(d, 0);
        for (int k = 0; k < d; k++) r.V1[k * d + k] = 1;
        for (int i = 0; i < K; i++) unit(&r.At[i], K);
        unit(r.theta_star.data(), 1);
        inner(r.At.data(), r.theta_star.data(), r.mean.data());
        r.best_mean = r.mean[0];
        for (double m : r.mean) r.best_mean = std::max(r.best_mean, m);
    }
    Vec noise(1 << 16);
    for (double& z : noise) z = normal(seed);
    Uniform uniform{88172645463325252ull};
    Vec mu(K), D(d * K), S(d * K), dist(K), lev(K), logf(K), f(K), q(K), w(K), gap(K), in(K), cnt(K), sc(K), c(K);
    Vec u(d), toward(d), bb(d), v(d * d), n2(d), M(d * d), row(d);
    const double log_inv_delta = std::log(100.0);

    auto start = std::chrono::steady_clock::now();
    const std::clock_t busy = std::clock();
    for (int t = 0; t < n; t++) {
        for (int ri = 0; ri < R; ri++) {
            Replica& r = replicas[ri];
            const double* At = r.At.data();
            const double rad = std::sqrt(r.logdet + 2 * log_inv_delta) + 1, beta = rad * rad;
            inner(At, r.theta.data(), mu.data());
            int best = 0;
            for (int i = 1; i < K; i++) if (mu[i] > mu[best]) best = i;
            for (int k = 0; k < d; k++) {
                double a = At[k * K + best];
                for (int i = 0; i < K; i++) D[k * K + i] = At[k * K + i] - a;
            }
            double best_lev = 0;
            for (int j = 0; j < d; j++) {
                toward[j] = 0;
                for (int k = 0; k < d; k++) toward[j] += r.V1[j * d + k] * At[k * K + best];
                best_lev += toward[j] * At[j * K + best];
            }
            inner(D.data(), r.theta.data(), gap.data());
            inner(D.data(), toward.data(), in.data());
            lengths(D.data(), r.V1.data(), dist.data());
            int widest = 0; double highest = 0;
            for (int i = 0; i < K; i++) {
                double l = best_lev + 2 * in[i] + dist[i];
                if (l > highest) { highest = l; widest = i; }
                logf[i] = gap[i] < 0 ? -gap[i] * gap[i] / (beta * dist[i]) : 0;
            }
            for (int i = 0; i < K; i++) f[i] = std::exp(logf[i]);
            if (K <= 2 * d) {
                for (int i = 0; i < K; i++) q[i] = 0.1 / K;
            } else {
                for (int i = 0; i < K; i++) { sc[i] = std::sqrt(f[i]); cnt[i] = 0; }
                for (int k = 0; k < d; k++)
                    for (int i = 0; i < K; i++) S[k * K + i] = sc[i] * At[k * K + i];
                for (int axis = 0; axis < d; axis++) {  // Betke-Henk
                    for (int k = 0; k < d; k++) bb[k] = 0;
                    bb[axis] = 1;
                    for (int j = 0; j < axis; j++) {
                        double s = v[j * d + axis] / n2[j];
                        for (int k = 0; k < d; k++) bb[k] -= s * v[j * d + k];
                    }
                    inner(S.data(), bb.data(), c.data());
                    int top, bottom;
                    extremes<true>(c.data(), top, bottom);
                    cnt[top] = cnt[bottom] = 1;
                    double* vi = &v[axis * d];
                    for (int k = 0; k < d; k++) vi[k] = S[k * K + top] - S[k * K + bottom];
                    for (int j = 0; j < axis; j++) {
                        double s = 0;
                        for (int k = 0; k < d; k++) s += v[j * d + k] * vi[k];
                        s /= n2[j];
                        for (int k = 0; k < d; k++) vi[k] -= s * v[j * d + k];
                    }
                    n2[axis] = 0;
                    for (int k = 0; k < d; k++) n2[axis] += vi[k] * vi[k];
                }
                std::fill(M.begin(), M.end(), 0.0);
                double tau = 0;
                for (int i = 0; i < K; i++)
                    if (cnt[i] > 0) {
                        tau += 1;
                        for (int k = 0; k < d; k++) row[k] = S[k * K + i];
                        for (int j = 0; j < d; j++)
                            for (int k = 0; k < d; k++) M[j * d + k] += row[j] * row[k];
                    }
                for (int k = 0; k < d; k++) {  // Gauss-Jordan
                    double p = 1 / M[k * d + k];
                    M[k * d + k] = 1;
                    for (int j = 0; j < d; j++) M[k * d + j] *= p;
                    for (int i = 0; i < d; i++)
                        if (i != k) {
                            double s = M[i * d + k];
                            M[i * d + k] = 0;
                            for (int j = 0; j < d; j++) M[i * d + j] -= s * M[k * d + j];
                        }
                }
                lengths(S.data(), M.data(), lev.data());
                for (;;) {  // greedy additions
                    int worst, unused;
                    extremes<false>(lev.data(), worst, unused);
                    if (!(lev[worst] > 1 + 1e-9)) break;
                    cnt[worst] += 1; tau += 1;
                    for (int j = 0; j < d; j++) u[j] = 0;
                    for (int k = 0; k < d; k++)
                        for (int j = 0; j < d; j++) u[j] += S[k * K + worst] * M[k * d + j];
                    inner(S.data(), u.data(), c.data());
                    double shrink = 1 / (1 + lev[worst]);
                    for (int i = 0; i < K; i++) lev[i] -= c[i] * c[i] * shrink;
                    for (int j = 0; j < d; j++)
                        for (int k = 0; k < d; k++) M[j * d + k] -= u[j] * u[k] * shrink;
                }
                for (int i = 0; i < K; i++) q[i] = 0.05 * cnt[i] / tau + 0.05 / K;
            }
            q[best] += 0.9;
            double total = 0;
            for (int i = 0; i < K; i++) { w[i] = q[i] * f[i]; total += w[i]; }
            if (highest > 1 + 1e-9) { w[widest] += total; total += total; }
            double target = uniform() * total, run = 0;
            int arm = K - 1;
            for (int i = 0; i < K; i++) { run += w[i]; if (run > target) { arm = i; break; } }
            r.regret += r.best_mean - r.mean[arm];
            double y = r.mean[arm] + noise[(t * R + ri) & 0xffff], s = 0, predicted = 0;
            for (int j = 0; j < d; j++) u[j] = 0;
            for (int k = 0; k < d; k++)
                for (int j = 0; j < d; j++) u[j] += At[k * K + arm] * r.V1[k * d + j];
            for (int k = 0; k < d; k++) { s += At[k * K + arm] * u[k]; predicted += At[k * K + arm] * r.theta[k]; }
            r.logdet += std::log1p(s);
            for (int k = 0; k < d; k++) {
                r.theta[k] += u[k] * (y - predicted) / (1 + s);
                r.b[k] += y * At[k * K + arm];
            }
            for (int j = 0; j < d; j++)
                for (int k = 0; k < d; k++) r.V1[j * d + k] -= u[j] * u[k] / (1 + s);
        }
    }
    double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    double processor = double(std::clock() - busy) / CLOCKS_PER_SEC;
    double regret = 0;
    for (auto& r : replicas) regret += r.regret / R;
    printf("%.6f %.6f %.6f\n", seconds, regret, processor);
}
