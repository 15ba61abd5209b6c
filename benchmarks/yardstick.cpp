// A yardstick near the physical limit: one LinMED round (Algorithm 1, version 0, of the paper)
// for a FIXED arm set on the unit sphere.  No Eigen / BLAS; GCC vector extensions only.
//   g++ -O3 -march=native -std=c++17 -o yardstick yardstick.cpp
//   ./yardstick K d rounds FILE      prints the processor time of a round in seconds, writes the arms to FILE
// Leverages ||a||^2_{V^-1} and means are recomputed every round, O(K d^2). The dimensions that are measured are known
// to the compiler.
// lambda = sigma^2/S^2 = 1, sigma = S = 1, delta_t = 1/(t+1), alpha_emp = .90, alpha_opt = .05 ("LinMED-90").
// Exact shortcut: for K <= 2d Algorithm 4 returns A_0 = A, then every leverage w.r.t. Vbar = sum_{a in A}
// abar abar^T is a diagonal entry of a projection matrix, hence <= 1, so the greedy loop never runs and q_opt
// is uniform on A. That case is taken without any linear algebra.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <time.h>
#include <vector>
typedef double v4 __attribute__((vector_size(32)));
typedef long long i4 __attribute__((vector_size(32)));
static inline v4 bc(double x) {
  return v4{x, x, x, x};
}
static inline double cpu() {
  timespec z;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &z);
  return z.tv_sec + 1e-9 * z.tv_nsec;
}
struct Rng { // xoshiro256+
  uint64_t s[4];
  static uint64_t sm(uint64_t &x) {
    uint64_t z = (x += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
  }
  explicit Rng(uint64_t seed) {
    for (int i = 0; i < 4; i++)
      s[i] = sm(seed);
  }
  static uint64_t rotl(uint64_t x, int k) { return (x << k) | (x >> (64 - k)); }
  uint64_t next() {
    uint64_t r = s[0] + s[3], t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotl(s[3], 45);
    return r;
  }
  double u() { return (next() >> 11) * 0x1.0p-53; }
  bool has = false;
  double sp = 0;
  double gauss() {
    if (has) {
      has = false;
      return sp;
    }
    double a, b, q;
    do {
      a = 2 * u() - 1;
      b = 2 * u() - 1;
      q = a * a + b * b;
    } while (q >= 1 || q == 0);
    double m = std::sqrt(-2 * std::log(q) / q);
    sp = b * m;
    has = true;
    return a * m;
  }
};

// exp for x<=0, 4 lanes, ~1 ulp-ish; 0 below -700
static inline v4 vexp(v4 x) {
  const v4 L2E = bc(1.4426950408889634074), C1 = bc(6.93145751953125e-1), C2 = bc(1.42860682030941723212e-6),
           MG = bc(6755399441055744.0);
  i4 ok = x > bc(-700.0);
  v4 xc = ok ? x : bc(-700.0);
  v4 nf = xc * L2E + MG;
  i4 ni = (i4)nf;
  nf = nf - MG;
  v4 r = xc - nf * C1;
  r = r - nf * C2;
  v4 p = bc(1.0 / 479001600.0);
  p = p * r + bc(1.0 / 39916800.0);
  p = p * r + bc(1.0 / 3628800.0);
  p = p * r + bc(1.0 / 362880.0);
  p = p * r + bc(1.0 / 40320.0);
  p = p * r + bc(1.0 / 5040.0);
  p = p * r + bc(1.0 / 720.0);
  p = p * r + bc(1.0 / 120.0);
  p = p * r + bc(1.0 / 24.0);
  p = p * r + bc(1.0 / 6.0);
  p = p * r + bc(0.5);
  p = p * r + bc(1.0);
  p = p * r + bc(1.0);
  i4 e = (ni + 1023) << 52; // low bits of magic number hold n
  v4 y = p * (v4)e;
  return ok ? y : bc(0.0);
}

template <int D> struct Lin {
  const int K, d, nb, Kp;
  std::vector<double> Xs;
  double *X;               // [nb][d][8], padded with copies of arm 0
  std::vector<double> row; // K x d row major, for single-arm access
  double *mu, *lev, *c, *f, *sf, *q, *p, *lb, *wun, *val;
  std::vector<double> buf;
  std::vector<double> Vi, th, w, u, tmp;
  double logdet = 0;
  long t = 0;
  std::vector<double> U, M, Mi, H, b;
  std::vector<int> A0;
  std::vector<int> touched;
  std::vector<double> qopt;
  std::vector<double> thstar, meanr;
  Rng rng;
  double aemp = .90, aopt = .05;
  long guards = 0;
  int dd() const { return D ? D : d; }
  Lin(int K_, int d_, uint64_t seed)
      : K(K_), d(d_), nb((K_ + 7) / 8), Kp(nb * 8), rng(seed + 77) {
    const int d = dd();
    Rng g(seed);
    row.resize((size_t)K * d);
    for (int a = 0; a < K; a++) {
      double s = 0;
      for (int j = 0; j < d; j++) {
        double z = g.gauss();
        row[(size_t)a * d + j] = z;
        s += z * z;
      }
      s = 1 / std::sqrt(s);
      for (int j = 0; j < d; j++)
        row[(size_t)a * d + j] *= s;
    }
    thstar.resize(d);
    {
      double s = 0;
      for (auto &z : thstar) {
        z = g.gauss();
        s += z * z;
      }
      s = 1 / std::sqrt(s);
      for (auto &z : thstar)
        z *= s;
    }
    meanr.resize(K);
    for (int a = 0; a < K; a++) {
      double s = 0;
      for (int j = 0; j < d; j++)
        s += row[(size_t)a * d + j] * thstar[j];
      meanr[a] = s;
    }
    Xs.resize((size_t)Kp * d + 8);
    X = (double *)(((uintptr_t)Xs.data() + 63) & ~(uintptr_t)63);
    for (int a = 0; a < Kp; a++) {
      int src = a < K ? a : 0;
      for (int j = 0; j < d; j++)
        X[(size_t)(a / 8) * d * 8 + j * 8 + (a % 8)] = row[(size_t)src * d + j];
    }
    buf.resize((size_t)Kp * 10 + 8, 0.0);
    double *z = (double *)(((uintptr_t)buf.data() + 63) & ~(uintptr_t)63);
    mu = z;
    z += Kp;
    lev = z;
    z += Kp;
    c = z;
    z += Kp;
    f = z;
    z += Kp;
    sf = z;
    z += Kp;
    q = z;
    z += Kp;
    p = z;
    z += Kp;
    lb = z;
    z += Kp;
    wun = z;
    z += Kp;
    val = z;
    z += Kp;
    Vi.assign((size_t)d * d, 0);
    for (int i = 0; i < d; i++)
      Vi[(size_t)i * d + i] = 1.0;
    th.assign(d, 0);
    w.assign(d, 0);
    u.assign(d, 0);
    tmp.assign(d, 0);
    for (int a = 0; a < Kp; a++) {
      double s = 0;
      for (int j = 0; j < d; j++) {
        double x = X[(size_t)(a / 8) * d * 8 + j * 8 + (a % 8)];
        s += x * x;
      }
      lev[a] = s;
      wun[a] = a < K ? (1 - aemp - aopt) / K : 0.0;
      mu[a] = 0;
    }
    U.resize((size_t)d * d);
    M.resize((size_t)d * d);
    Mi.resize((size_t)d * d);
    H.resize((size_t)d * (d + 4));
    b.resize(d);
    qopt.assign(K, 0);
    if (K <= 2 * d)
      for (int a = 0; a < K; a++)
        qopt[a] = 1.0 / K;
  }
  // out[a] = x_a . v  for all arms
  inline void passdot(const double *v, double *out) {
    const int d = dd();
    for (int k = 0; k < nb; k++) {
      const v4 *x = (const v4 *)(X + (size_t)k * d * 8);
      v4 s0 = bc(0), s1 = bc(0), r0 = bc(0), r1 = bc(0);
      int j = 0;
      for (; j + 1 < d; j += 2) {
        v4 b0 = bc(v[j]), b1 = bc(v[j + 1]);
        s0 += b0 * x[2 * j];
        s1 += b0 * x[2 * j + 1];
        r0 += b1 * x[2 * j + 2];
        r1 += b1 * x[2 * j + 3];
      }
      if (j < d) {
        v4 b0 = bc(v[j]);
        s0 += b0 * x[2 * j];
        s1 += b0 * x[2 * j + 1];
      }
      v4 *o = (v4 *)(out + k * 8);
      o[0] = s0 + r0;
      o[1] = s1 + r1;
    }
  }
  // out[a] = x_a^T S x_a with S symmetric d x d (uses packed half matrix, d^2/2 FMA per arm)
  inline void quad(const double *S, double *out) {
    const int d = dd();
    const int ld = d + 4;
    for (int i = 0; i < d; i++) {
      for (int j = 0; j < i; j++)
        H[(size_t)i * ld + j] = 2 * S[(size_t)i * d + j];
      H[(size_t)i * ld + i] = S[(size_t)i * d + i];
      for (int j = i + 1; j < ld; j++)
        H[(size_t)i * ld + j] = 0;
    }
    for (int k = 0; k < nb; k++) {
      const v4 *x = (const v4 *)(X + (size_t)k * d * 8);
      v4 o0 = bc(0), o1 = bc(0);
      int i = 0;
      for (; i + 3 < d; i += 4) {
        v4 a0 = bc(0), a1 = bc(0), b0 = bc(0), b1 = bc(0), c0 = bc(0), c1 = bc(0), e0 = bc(0), e1 = bc(0);
        const double *h0 = &H[(size_t)i * ld], *h1 = h0 + ld, *h2 = h1 + ld, *h3 = h2 + ld;
        for (int j = 0; j < i + 4; j++) {
          v4 y0 = x[2 * j], y1 = x[2 * j + 1];
          v4 t0 = bc(h0[j]);
          a0 += t0 * y0;
          a1 += t0 * y1;
          v4 t1 = bc(h1[j]);
          b0 += t1 * y0;
          b1 += t1 * y1;
          v4 t2 = bc(h2[j]);
          c0 += t2 * y0;
          c1 += t2 * y1;
          v4 t3 = bc(h3[j]);
          e0 += t3 * y0;
          e1 += t3 * y1;
        }
        o0 += a0 * x[2 * i] + b0 * x[2 * i + 2] + c0 * x[2 * i + 4] + e0 * x[2 * i + 6];
        o1 += a1 * x[2 * i + 1] + b1 * x[2 * i + 3] + c1 * x[2 * i + 5] + e1 * x[2 * i + 7];
      }
      for (; i < d; i++) {
        v4 a0 = bc(0), a1 = bc(0);
        const double *h = &H[(size_t)i * ld];
        for (int j = 0; j <= i; j++) {
          v4 t0 = bc(h[j]);
          a0 += t0 * x[2 * j];
          a1 += t0 * x[2 * j + 1];
        }
        o0 += a0 * x[2 * i];
        o1 += a1 * x[2 * i + 1];
      }
      v4 *o = (v4 *)(out + k * 8);
      o[0] = o0;
      o[1] = o1;
    }
  }
  static inline int argmax(const double *z, int Kp) {
    const v4 *y = (const v4 *)z;
    v4 m = y[0];
    i4 mi = {0, 1, 2, 3}, id = {0, 1, 2, 3};
    for (int k = 1; k < Kp / 4; k++) {
      id += 4;
      i4 g = y[k] > m;
      m = g ? y[k] : m;
      mi = g ? id : mi;
    }
    double bm = m[0];
    long long bi = mi[0];
    for (int l = 1; l < 4; l++)
      if (m[l] > bm || (m[l] == bm && mi[l] < bi)) {
        bm = m[l];
        bi = mi[l];
      }
    return (int)bi;
  }
  // argmax and argmin of sf[a]*(x_a.v)
  inline void passext(const double *v, int &im, int &in) {
    const int d = dd();
    v4 M0 = bc(-1e300), M1 = M0, N0 = bc(1e300), N1 = N0;
    i4 a = {0, 1, 2, 3}, i0 = a, i1 = a + 4, Mi0 = i0, Mi1 = i1, Ni0 = i0, Ni1 = i1;
    for (int k = 0; k < nb; k++) {
      const v4 *x = (const v4 *)(X + (size_t)k * d * 8);
      v4 s0 = bc(0), s1 = bc(0), r0 = bc(0), r1 = bc(0);
      int j = 0;
      for (; j + 1 < d; j += 2) {
        v4 b0 = bc(v[j]), b1 = bc(v[j + 1]);
        s0 += b0 * x[2 * j];
        s1 += b0 * x[2 * j + 1];
        r0 += b1 * x[2 * j + 2];
        r1 += b1 * x[2 * j + 3];
      }
      if (j < d) {
        v4 b0 = bc(v[j]);
        s0 += b0 * x[2 * j];
        s1 += b0 * x[2 * j + 1];
      }
      const v4 *g = (const v4 *)(sf + k * 8);
      s0 = (s0 + r0) * g[0];
      s1 = (s1 + r1) * g[1];
      i4 z = s0 > M0;
      M0 = z ? s0 : M0;
      Mi0 = z ? i0 : Mi0;
      z = s0 < N0;
      N0 = z ? s0 : N0;
      Ni0 = z ? i0 : Ni0;
      z = s1 > M1;
      M1 = z ? s1 : M1;
      Mi1 = z ? i1 : Mi1;
      z = s1 < N1;
      N1 = z ? s1 : N1;
      Ni1 = z ? i1 : Ni1;
      i0 += 8;
      i1 += 8;
    }
    double bm = -1e300, bn = 1e300;
    im = 0;
    in = 0;
    for (int l = 0; l < 8; l++) {
      double m = l < 4 ? M0[l] : M1[l - 4];
      int mi = l < 4 ? (int)Mi0[l] : (int)Mi1[l - 4];
      if (m > bm || (m == bm && mi < im)) {
        bm = m;
        im = mi;
      }
      double n = l < 4 ? N0[l] : N1[l - 4];
      int ni = l < 4 ? (int)Ni0[l] : (int)Ni1[l - 4];
      if (n < bn || (n == bn && ni < in)) {
        bn = n;
        in = ni;
      }
    }
  }
  void design() {
    const int d = dd();
    for (int a : touched)
      qopt[a] = 0;
    touched.clear();
    A0.clear();
    // ---- BH (projector form of the Gram-Schmidt of Algorithm 4: b_i = P e_i, v_perp = P v, P <- P - u u^T)
    constexpr int DM = D ? D : 128;
    alignas(64) double vv[DM], tp[DM];
    double *__restrict P = U.data();
    double *__restrict Q = Mi.data();
    for (int i = 0; i < d * d; i++)
      P[i] = 0.0;
    for (int i = 0; i < d; i++)
      P[i * d + i] = 1.0;
    for (int i = 0; i < d; i++) {
      int im, in;
      passext(P + (size_t)i * d, im, in);
      if (qopt[im] == 0) {
        qopt[im] = 1;
        touched.push_back(im);
        A0.push_back(im);
      }
      if (qopt[in] == 0) {
        qopt[in] = 1;
        touched.push_back(in);
        A0.push_back(in);
      }
      if (i == d - 1)
        break;
      const double *xp = &row[(size_t)im * d], *xq = &row[(size_t)in * d];
      const double sp = sf[im], sq = sf[in];
      double n0 = 0, n1 = 0;
      for (int l = 0; l < d; l++) {
        vv[l] = sp * xp[l] - sq * xq[l];
        tp[l] = 0;
      }
      for (int j = 0; j < d; j++) {
        const double vj = vv[j];
        const double *pj = P + (size_t)j * d;
        for (int l = 0; l < d; l++)
          tp[l] += vj * pj[l];
      }
      for (int l = 0; l < d; l++) {
        n0 += vv[l] * vv[l];
        n1 += tp[l] * tp[l];
      }
      if (!(n1 > 1e-20 * n0) || n1 < 1e-280) {
        guards++;
        continue;
      }
      n1 = 1 / n1;
      for (int j = 0; j < d; j++) {
        const double s = n1 * tp[j];
        double *pj = P + (size_t)j * d;
        for (int l = 0; l < d; l++)
          pj[l] -= s * tp[l];
      }
    }
    double ntot = (double)A0.size();
    // ---- Vbar and its inverse (symmetric Gauss-Jordan sweeps, contiguous row updates)
    for (int i = 0; i < d * d; i++)
      Q[i] = 0.0;
    {
      const int n0 = (int)A0.size();
      int s = 0;
      for (; s + 3 < n0; s += 4) {
        const int a0 = A0[s], a1 = A0[s + 1], a2 = A0[s + 2], a3 = A0[s + 3];
        const double *x0 = &row[(size_t)a0 * d], *x1 = &row[(size_t)a1 * d], *x2 = &row[(size_t)a2 * d],
                     *x3 = &row[(size_t)a3 * d];
        const double f0 = f[a0], f1 = f[a1], f2 = f[a2], f3 = f[a3];
        for (int i = 0; i < d; i++) {
          const double s0 = f0 * x0[i], s1 = f1 * x1[i], s2 = f2 * x2[i], s3 = f3 * x3[i];
          double *m = Q + (size_t)i * d;
          for (int j = 0; j < d; j++)
            m[j] += (s0 * x0[j] + s1 * x1[j]) + (s2 * x2[j] + s3 * x3[j]);
        }
      }
      for (; s < n0; s++) {
        const int a0 = A0[s];
        const double *x0 = &row[(size_t)a0 * d];
        const double f0 = f[a0];
        for (int i = 0; i < d; i++) {
          const double s0 = f0 * x0[i];
          double *m = Q + (size_t)i * d;
          for (int j = 0; j < d; j++)
            m[j] += s0 * x0[j];
        }
      }
    }
    double tr = 0;
    for (int i = 0; i < d; i++)
      tr += Q[i * d + i];
    for (int k = 0; k < d; k++) {
      double *qk = Q + (size_t)k * d;
      double pv = qk[k];
      if (!(pv > 1e-13 * tr / d)) {
        guards++;
        pv = 1e-13 * tr / d;
      }
      const double r = 1 / pv;
      for (int l = 0; l < d; l++)
        tp[l] = qk[l] * r;
      tp[k] = r;
      for (int i = 0; i < d; i++) {
        double *qi = Q + (size_t)i * d;
        const double s = qi[k];
        qi[k] = 0;
        for (int l = 0; l < d; l++)
          qi[l] -= s * tp[l];
      }
      for (int l = 0; l < d; l++)
        qk[l] = tp[l];
    }
    quad(Mi.data(), lb);
    {
      v4 *z = (v4 *)lb;
      const v4 *g = (const v4 *)f;
      for (int k = 0; k < Kp / 4; k++)
        z[k] *= g[k];
    }
    int st = 0;
    while (true) {
      int a = argmax(lb, Kp);
      double L = lb[a];
      if (!(L > 1.0 + 1e-9) || st > 100000)
        break;
      if (qopt[a] == 0)
        touched.push_back(a);
      qopt[a] += 1;
      ntot += 1;
      st++;
      const double *x = &row[(size_t)a * d];
      const double s0 = sf[a];
      for (int i = 0; i < d; i++)
        tp[i] = 0;
      for (int j = 0; j < d; j++) {
        const double xj = s0 * x[j];
        const double *m = Q + (size_t)j * d;
        for (int i = 0; i < d; i++)
          tp[i] += xj * m[i];
      }
      const double r = 1 / (1 + L);
      for (int i = 0; i < d; i++) {
        const double s = r * tp[i];
        double *m = Q + (size_t)i * d;
        for (int l = 0; l < d; l++)
          m[l] -= s * tp[l];
      }
      passdot(tp, val);
      {
        v4 *z = (v4 *)lb;
        const v4 *g = (const v4 *)f;
        const v4 *y = (const v4 *)val;
        v4 rr = bc(r);
        for (int k = 0; k < Kp / 4; k++)
          z[k] -= rr * g[k] * y[k] * y[k];
      }
    }
    double r = 1 / ntot;
    for (int a : touched)
      qopt[a] *= r;
  }
  void matvec(const double *__restrict S, const double *__restrict x, double *__restrict o) {
    const int d = dd();
    constexpr int DM = D ? D : 128;
    alignas(64) double tp[DM];
    for (int i = 0; i < d; i++)
      tp[i] = 0;
    for (int j = 0; j < d; j++) {
      const double xj = x[j];
      const double *m = S + (size_t)j * d;
      for (int i = 0; i < d; i++)
        tp[i] += xj * m[i];
    }
    for (int i = 0; i < d; i++)
      o[i] = tp[i];
  }
  // decision: fills p[], returns arm
  int decide(double &prop) {
    const int d = dd();
    passdot(th.data(), mu);
    int ah = argmax(mu, Kp);
    quad(Vi.data(), lev);
    matvec(Vi.data(), &row[(size_t)ah * d], u.data());
    passdot(u.data(), c);
    double sb = std::sqrt(std::max(0.0, logdet + 2 * std::log((double)(t + 1)))) + 1.0;
    double beta = sb * sb; // delta_{t}=1/(t+1), here t = rounds done
    {
      v4 m = bc(mu[ah]), la = bc(lev[ah]), hb = bc(-0.5 / beta);
      const v4 *M_ = (const v4 *)mu, *L_ = (const v4 *)lev, *C_ = (const v4 *)c;
      v4 *F = (v4 *)f, *S = (v4 *)sf;
      for (int k = 0; k < Kp / 4; k++) {
        v4 De = m - M_[k];
        v4 s = la + L_[k];
        v4 q_ = s - 2 * C_[k];
        v4 fl = bc(1e-14) * s;
        q_ = q_ > fl ? q_ : fl;
        v4 e = vexp(hb * De * De / q_);
        S[k] = e;
        F[k] = e * e;
      }
    }
    if (K > 2 * d)
      design();
    // q, p'
    double tot = 0;
    {
      const v4 *W = (const v4 *)wun, *F = (const v4 *)f;
      v4 *P = (v4 *)p;
      v4 s = bc(0);
      if (K <= 2 * d) {
        const v4 un = bc(aopt / K);
        v4 one = bc(0);
        (void)one;
        for (int k = 0; k < Kp / 4; k++) {
          i4 real = W[k] > bc(0.0);
          v4 qq = real ? (W[k] + un) : bc(0.0);
          P[k] = qq * F[k];
          s += P[k];
        }
        tot = s[0] + s[1] + s[2] + s[3];
      } else {
        for (int k = 0; k < Kp / 4; k++) {
          P[k] = W[k] * F[k];
          s += P[k];
        }
        tot = s[0] + s[1] + s[2] + s[3];
        for (int a : touched) {
          double z = aopt * qopt[a] * f[a];
          p[a] += z;
          tot += z;
        }
      }
      double z = aemp * f[ah];
      p[ah] += z;
      tot += z;
    }
    int Bt = -1;
    {
      int a = argmax(lev, Kp);
      if (lev[a] > 1.0 + 1e-12)
        Bt = a;
    }
    double inv = 1 / tot;
    if (Bt >= 0)
      inv *= 0.5;
    // sample by block-wise inverse CDF on unnormalised p
    double U01 = rng.u();
    int arm = -1;
    if (Bt >= 0) {
      if (U01 < 0.5)
        arm = Bt;
      else
        U01 = 2 * U01 - 1;
    }
    if (arm < 0) {
      double x = U01 * tot, acc = 0;
      int k = 0;
      for (; k < nb; k++) {
        const v4 *P = (const v4 *)(p + k * 8);
        v4 s = P[0] + P[1];
        double bs = s[0] + s[1] + s[2] + s[3];
        if (acc + bs > x)
          break;
        acc += bs;
      }
      if (k == nb)
        arm = ah;
      else {
        int a = k * 8;
        for (int l = 0; l < 8; l++, a++) {
          acc += p[a];
          if (acc > x)
            break;
        }
        arm = a < k * 8 + 8 ? a : k * 8 + 7;
        if (arm >= K)
          arm = ah;
      }
    }
    prop = p[arm] * inv + ((Bt == arm) ? 0.5 : 0.0);
    return arm;
  }
  void update(int arm, double y) {
    const int d = dd();
    const double *x = &row[(size_t)arm * d];
    matvec(Vi.data(), x, w.data());
    double s = 0, m = 0;
    for (int i = 0; i < d; i++) {
      s += x[i] * w[i];
      m += x[i] * th[i];
    }
    double den = 1 + s, r = 1 / den, g = (y - m) * r;
    {
      double *__restrict V = Vi.data();
      const double *__restrict ww = w.data();
      double *__restrict T = th.data();
      for (int i = 0; i < d; i++) {
        const double z = r * ww[i];
        double *v = V + (size_t)i * d;
        for (int l = 0; l < d; l++)
          v[l] -= z * ww[l];
      }
      for (int i = 0; i < d; i++)
        T[i] += g * ww[i];
    }
    logdet += std::log(den);
    t++;
  }
};

template <int D> double run(int K, int d, long n, const char *file) {
  double spent = 0, chances = 0;
  long done = 0;
  do { // as many whole runs as a tenth of a second has, after one that is not counted
    Lin<D> L(K, d, 1);
    if (FILE *out = done ? nullptr : fopen(file, "wb")) {
      fwrite(L.row.data(), 8, (size_t)K * d, out);
      fclose(out);
    }
    const double began = cpu();
    for (long t = 0; t < n; t++) {
      double p;
      const int a = L.decide(p);
      chances += p;
      L.update(a, L.meanr[a] + L.rng.gauss());
    }
    spent += done ? cpu() - began : 0;
    done += n;
  } while (spent < 0.1);
  return chances < 0 ? 0 : spent / (done - n); // which nobody but the compiler doubts
}
int main(int argc, char **argv) {
  if (argc != 5) {
    fprintf(stderr, "usage: yardstick K d rounds FILE\n");
    return 1;
  }
  const int K = atoi(argv[1]), d = atoi(argv[2]);
  const long n = atol(argv[3]);
  double spent = 0;
  switch (d) {
  case 2: spent = run<2>(K, d, n, argv[4]); break;
  case 4: spent = run<4>(K, d, n, argv[4]); break;
  case 20: spent = run<20>(K, d, n, argv[4]); break;
  case 32: spent = run<32>(K, d, n, argv[4]); break;
  case 50: spent = run<50>(K, d, n, argv[4]); break;
  default: spent = run<0>(K, d, n, argv[4]);
  }
  printf("%.6g\n", spent);
}
