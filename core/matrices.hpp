// Small symmetric matrices, their rows padded with zeros to whole vectors (`stride` apart), and lines beside them.
#pragma once

#include <new>

#include "lanes.hpp"

namespace linmed {

// Numbers on a cache line's boundary.
class Buffer {
  public:
    explicit Buffer(Index n = 0)
        : size_(n), data_(n ? static_cast<double *>(::operator new(sizeof(double) * std::size_t(n), ALIGNED)) : nullptr) {
        for (Index i = 0; i < n; ++i) data_[i] = 0.0;
    }
    Buffer(Buffer &&other) noexcept : size_(std::exchange(other.size_, 0)), data_(std::exchange(other.data_, nullptr)) {}
    Buffer &operator=(Buffer &&other) noexcept { std::swap(size_, other.size_), std::swap(data_, other.data_); return *this; }
    ~Buffer() { if (data_) ::operator delete(data_, ALIGNED); }
    operator double *() { return data_; }
    operator const double *() const { return data_; }
    Index size() const { return size_; }

  private:
    static constexpr std::align_val_t ALIGNED{64};
    Index size_;
    double *data_;
};

LINMED_INLINE void clear(double *M, Index numbers) {
    for (Index k = 0; k < numbers; k += LANES) store(M + k, splat(0.0));
}

// <x, y> of two lines.
LINMED_INLINE double dot(const double *x, const double *y, Index stride) {
    Lanes total = splat(0.0);
    for (Index k = 0; k < stride; k += LANES) total = fma(load(x + k), load(y + k), total);
    return sum_lanes(total);
}

// out = M x, a line.
LINMED_INLINE void times_line(const double *M, Index d, Index stride, const double *x, double *out) {
    for (Index k = 0; k < stride; k += LANES) {
        Lanes total = splat(0.0);
        for (Index j = 0; j < d; ++j) total = fma(splat(x[j]), load(M + j * stride + k), total);
        store(out + k, total);
    }
}

// M += factor x x'.
LINMED_INLINE void add_outer(double *M, Index d, Index stride, const double *x, double factor) {
    for (Index j = 0; j < d; ++j) {
        const Lanes share = splat(factor) * splat(x[j]);
        double *row = M + j * stride;
        for (Index k = 0; k < stride; k += LANES) store(row + k, fma(share, load(x + k), load(row + k)));
    }
}

// M <- M^-1 from its lower triangle; false if a pivot falls below its share of the diagonal.
//
// The symmetric sweep (Gauss-Jordan on one triangle): after the k-th, the first k + 1 rows and columns hold minus the
// inverse of the leading block. `diagonal` and `column` are scratch, lines that end with zeros.
inline bool invert(double *M, Index d, Index stride, double smallest_pivot, double *diagonal, double *column) {
    for (Index k = 0; k < d; ++k) diagonal[k] = M[k * stride + k];
    for (Index k = 0; k < d; ++k) {
        double *row = M + k * stride;
        const double pivot = row[k];
        if (!(pivot > smallest_pivot * diagonal[k])) return false;
        for (Index i = 0; i < k; ++i) column[i] = row[i];
        for (Index i = k; i < d; ++i) column[i] = M[i * stride + k];
        const double inverse = 1.0 / pivot;
        for (Index i = 0; i < d; ++i) {
            double *other = M + i * stride;
            const Lanes share = splat(-(column[i] * inverse));
            for (Index c = 0; c <= i; c += LANES) store(other + c, fma(share, load(column + c), load(other + c)));
        }
        for (Index i = 0; i < k; ++i) row[i] = column[i] * inverse;
        for (Index i = k + 1; i < d; ++i) M[i * stride + k] = column[i] * inverse;
        row[k] = -inverse;
    }
    for (Index i = 0; i < d; ++i)
        for (Index j = 0; j <= i; ++j) M[i * stride + j] = M[j * stride + i] = -M[i * stride + j];
    return true;
}

// out = sum_k x_k (row k of M), for rows of just d numbers.
template <class Dim> LINMED_INLINE void combine_rows(const double *x, const double *M, Dim d, double *out) {
    const Index whole = in_vectors(d);
    for (Index j = 0; j < whole; j += LANES) {
        Lanes total = splat(0.0);
        for (Index k = 0; k < d; ++k) total = fma(splat(x[k]), load(M + k * d + j), total);
        store(out + j, total);
    }
    rest_of(d, [&](Index j) LINMED_ALWAYS {
        double rest = 0.0;
        count_to(d, [&](Index k) LINMED_ALWAYS { rest = fma(x[k], M[k * d + j], rest); });
        out[j] = rest;
    });
}

}  // namespace linmed
