// A stored tensor as pointers and strides: what kernels, packing and plans hand to each other.
#pragma once

#include <cstdint>

#include "halogen/core/config.hpp"

namespace halogen {

/// One plane of one channel of one sample, at global depth z; z = 0 in a field without depth.
struct PlaneAt {
  int sample = 0, channel = 0;
  index_t z = 0;
};

/// One stored tensor (N, C, H, W) or (N, C, D, H, W) on this rank, margins included; rows are contiguous. Kernels are
/// two-dimensional: their sample n is owned plane z0 + n % planes of sample n / planes.
template <class T>
struct TensorView {
  T* data = nullptr;  ///< element (z0, y0, x0); margin planes lie before it
  index_t sample_stride = 0, channel_stride = 0, row_stride = 0;
  index_t y0 = 0, x0 = 0;  ///< global position of the first row and column, margins included
  index_t plane_stride = 0, z0 = 0;
  int planes = 1;  ///< owned

  /// The element at global x = x0 of a row; element x stands at [x - x0].
  HALOGEN_FUNCTION T* row(int n, int c, index_t y) const {
    int plane = 0;
    if (planes > 1) plane = n % planes, n /= planes;
    return data + n * sample_stride + c * channel_stride + plane * plane_stride + (y - y0) * row_stride;
  }
  HALOGEN_FUNCTION T& at(int n, int c, index_t y, index_t x) const { return row(n, c, y)[x - x0]; }

  /// The same by position in the volume, in the margins too.
  HALOGEN_FUNCTION T* row(const PlaneAt& plane, index_t y) const {
    return data + plane.sample * sample_stride + plane.channel * channel_stride + (plane.z - z0) * plane_stride +
           (y - y0) * row_stride;
  }
  HALOGEN_FUNCTION T& at(const PlaneAt& plane, index_t y, index_t x) const { return row(plane, y)[x - x0]; }

  HALOGEN_FUNCTION int sample_of(int n) const { return planes > 1 ? n / planes : n; }
};

/// A tensor of integers, of four or eight bytes each.
struct IndexView {
  TensorView<const std::int32_t> narrow;
  TensorView<const std::int64_t> wide;

  constexpr IndexView() = default;
  constexpr explicit IndexView(const TensorView<const std::int32_t>& view) : narrow(view) {}
  constexpr explicit IndexView(const TensorView<const std::int64_t>& view) : wide(view) {}

  HALOGEN_FUNCTION index_t at(int n, index_t y, index_t x) const {
    return wide.data != nullptr ? static_cast<index_t>(wide.at(n, 0, y, x))
                                : static_cast<index_t>(narrow.at(n, 0, y, x));
  }
};

inline constexpr int most_inputs = 4;   ///< fields that a model is given
inline constexpr int most_outputs = 4;  ///< and that it returns

/// These, in their order: numbers or indices.
template <class S>
struct InputViews {
  TensorView<S> values[most_inputs];
  IndexView indices[most_inputs];

  constexpr InputViews() = default;
  constexpr InputViews(const TensorView<S>& only) : values{only} {}  // NOLINT: most models take one
};

}  // namespace halogen
