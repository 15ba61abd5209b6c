// Small symmetric matrices, their rows padded with zeros to whole vectors (`stride` apart), and lines beside them.
#pragma once

#include <algorithm>
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

// How far apart the rows of a matrix of d columns are, where they are padded: known to the compiler if d is.
constexpr Index stride_of(Index d) { return padded(d); }
template <Index n> constexpr Fixed<padded(n)> stride_of(Fixed<n>) { return {}; }

LINMED_INLINE void clear(double *M, Index numbers) {
    for (Index k = 0; k < numbers; k += LANES) store(M + k, splat(0.0));
}

// <x, y> of two lines.
template <class Stride> LINMED_INLINE double dot(const double *x, const double *y, Stride stride) {
    Lanes total = splat(0.0);
    for (Index k = 0; k < stride; k += LANES) total = fma(load(x + k), load(y + k), total);
    return sum_lanes(total);
}

// |x|², in the same order: what a short line ends with is zero, and needs no lanes.
template <class Dim> LINMED_INLINE double squares(const double *x, Dim d) {
    if constexpr (KNOWN<Dim> == 0) return dot(x, x, stride_of(d));
    else {
        double sum[LANES];
        count_to(d, [&](Index k) LINMED_ALWAYS { sum[k] = x[k] * x[k]; });
        if (d > 2) sum[0] += sum[2];
        if (d > 3) sum[1] += sum[3];
        return sum[0] + sum[1];
    }
}

// M += factor x x'.
template <class Dim, class Stride> LINMED_INLINE void add_outer(double *M, Dim d, Stride stride, const double *x, double factor) {
    count_to(d, [&](Index j) LINMED_ALWAYS {
        const Lanes share = splat(factor) * splat(x[j]);
        double *row = M + j * stride;
        for (Index k = 0; k < stride; k += LANES) store(row + k, fma(share, load(x + k), load(row + k)));
    });
}

// Eight columns of out = sum_k x_k (row k of M) from each of n places on. Sums of several places do not wait for each other.
template <int n, class Dim, class Stride>
LINMED_INLINE void combine_columns(const double *x, const double *M, Dim d, Stride stride, const Index (&at)[n], double *out) {
    Lanes total[n];
    count_to(Fixed<n>{}, [&](Index c) LINMED_ALWAYS { total[c] = splat(0.0); });
    count_to(d, [&](Index k) LINMED_ALWAYS {
        const Lanes share = splat(x[k]);
        count_to(Fixed<n>{}, [&](Index c) LINMED_ALWAYS { total[c] = fma(share, load(M + k * stride + at[c]), total[c]); });
    });
    count_to(Fixed<n>{}, [&](Index c) LINMED_ALWAYS { store(out + at[c], total[c]); });
}

// out = sum_k x_k (row k of M): d rows of `width` numbers, `stride` apart. The last eight may overlap those before.
[[gnu::noinline]] inline void combine_wide(const double *x, const double *M, Index d, Index width, Index stride, double *out) {
    const auto at = [width](Index j) { return std::min(j, width - LANES); };
    Index j = 0;
    for (; j + 3 * LANES < width; j += 4 * LANES)
        combine_columns<4>(x, M, d, stride, {at(j), at(j + LANES), at(j + 2 * LANES), at(j + 3 * LANES)}, out);
    if (j + 2 * LANES < width) combine_columns<3>(x, M, d, stride, {at(j), at(j + LANES), at(j + 2 * LANES)}, out);
    else if (j < width) combine_columns<2>(x, M, d, stride, {at(j), at(j + LANES)}, out);
}

// The same for rows of just d numbers.
template <class Dim> LINMED_INLINE void combine_rows(const double *x, const double *M, Dim d, double *out) {
    if (d >= LANES) return combine_wide(x, M, d, d, d, out);
    count_to(d, [&](Index j) LINMED_ALWAYS {
        double total = 0.0;
        count_to(d, [&](Index k) LINMED_ALWAYS { total = fma(x[k], M[k * d + j], total); });
        out[j] = total;
    });
}

// out = M x, a line, for a symmetric M.
template <class Dim, class Stride> LINMED_INLINE void times_line(const double *M, Dim d, Stride stride, const double *x, double *out) {
    if (stride == LANES) combine_columns<1>(x, M, d, stride, {0}, out);
    else combine_wide(x, M, d, stride, stride, out);
}

// M <- M^-1 from its lower triangle; false if a pivot falls below its share of the diagonal.
//
// The symmetric sweep (Gauss-Jordan on one triangle): after the k-th, the first k + 1 rows and columns hold minus the
// inverse of the leading block. `diagonal` and `column` are scratch, lines that end with zeros. Small matrices stay in
// registers.
template <class Dim, class Stride>
LINMED_INLINE bool invert(double *M, Dim d, Stride stride, double smallest_pivot, double *diagonal, double *column) {
    constexpr bool small = !std::is_same_v<Dim, Index>;
    count_to(d, [&](Index k) LINMED_ALWAYS { diagonal[k] = M[k * stride + k]; });
    bool sound = true;
    count_to(d, [&](Index k) LINMED_ALWAYS {
        double *row = M + k * stride;
        const double pivot = row[k];
        sound = sound && pivot > smallest_pivot * diagonal[k];
        if (!sound) return;
        count_to(d, [&](Index i) LINMED_ALWAYS { column[i] = i < k ? row[i] : M[i * stride + k]; });
        const double inverse = 1.0 / pivot;
        count_to(d, [&](Index i) LINMED_ALWAYS {
            double *other = M + i * stride;
            const double share = -(column[i] * inverse);
            if constexpr (small) count_to(d, [&](Index c) LINMED_ALWAYS { if (c <= i) other[c] = fma(share, column[c], other[c]); });
            else
                for (Index c = 0; c <= i; c += LANES) store(other + c, fma(splat(share), load(column + c), load(other + c)));
        });
        count_to(d, [&](Index i) LINMED_ALWAYS { (i < k ? row[i] : M[i * stride + k]) = column[i] * inverse; });
        row[k] = -inverse;
    });
    if (!sound) return false;
    count_to(d, [&](Index i) LINMED_ALWAYS {
        count_to(d, [&](Index j) LINMED_ALWAYS { if (j <= i) M[i * stride + j] = M[j * stride + i] = -M[i * stride + j]; });
    });
    return true;
}

}  // namespace linmed
