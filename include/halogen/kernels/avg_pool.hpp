// Average pooling of planes and its adjoint, any kernel, stride and padding, whose zeros count. Sums in row order, then
// times 1 / (KH KW).
#pragma once

#include "halogen/kernels/node_windows.hpp"
#include "halogen/kernels/row_kernels.hpp"

namespace halogen::kernels {

/// y[o] = mean over the window.
template <class S>
struct AvgPoolRows {
  using T = compute_type<S>;
  ValueReader<S> input;
  NodeWindows windows;

  index_t scratch_size(index_t columns) const { return windows.inputs(2, columns); }
  KOKKOS_FUNCTION T scale() const { return T(1) / static_cast<T>(windows.kernel(1) * windows.kernel(2)); }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    for (int ky = 0; ky < windows.kernel(1); ++ky) {
      input.load_row(n, c, windows.input(1, y, ky), windows.input(2, x0, 0), windows.inputs(2, count), scratch);
      for (index_t i = 0; i < count; ++i) {
        T sum = ky == 0 ? T(0) : out[i];
        for (int kx = 0; kx < windows.kernel(2); ++kx) sum += scratch[i * windows.stride(2) + kx];
        out[i] = sum;
      }
    }
    for (index_t i = 0; i < count; ++i) out[i] *= scale();
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    T sum = 0;
    for (int ky = 0; ky < windows.kernel(1); ++ky)
      for (int kx = 0; kx < windows.kernel(2); ++kx)
        sum += input.at(n, c, windows.input(1, y, ky), windows.input(2, x, kx));
    return sum * scale();
  }
};

/// The gradient of an input point: the sum over the windows that hold it, over their size.
template <class S>
struct AvgPoolBackwardRows {
  using T = compute_type<S>;
  GradientReader<S> gradient;  ///< of the pooled tensor
  int first = 0;               ///< first input channel of the source that is differentiated
  NodeWindows windows;
  KOKKOS_FUNCTION T scale() const { return T(1) / static_cast<T>(windows.kernel(1) * windows.kernel(2)); }

  index_t scratch_size(index_t columns) const { return columns / windows.stride(2) + windows.kernel(2) + 1; }

  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    std::fill_n(out, count, T(0));
    const Interval down = windows.holding(1, y, y + 1), across = windows.holding(2, x0, x0 + count);
    if (across.empty()) return;
    for (index_t o = down.begin; o < down.end; ++o) {
      gradient.load_row(n, first + c, o, across.begin, across.size(), scratch);
      for (index_t i = 0; i < across.size(); ++i) {
        const index_t x = windows.input(2, across.begin + i, 0) - x0,
                      end = std::min<index_t>(count, x + windows.kernel(2));
        for (index_t k = std::max<index_t>(x, 0); k < end; ++k) out[k] += scratch[i];
      }
    }
    for (index_t i = 0; i < count; ++i) out[i] *= scale();
  }

  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const Interval down = windows.holding(1, y, y + 1), across = windows.holding(2, x, x + 1);
    T sum = 0;
    for (index_t oy = down.begin; oy < down.end; ++oy)
      for (index_t ox = across.begin; ox < across.end; ++ox) sum += gradient.at(n, first + c, oy, ox);
    return sum * scale();
  }
};

}  // namespace halogen::kernels
