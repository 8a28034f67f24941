// The window algebra, in one dimension: the only place that knows which inputs an output needs.
#pragma once

#include "halogen/core/config.hpp"
#include "halogen/placement/chunk.hpp"
#include "halogen/stencil/halo.hpp"

namespace halogen {

/// Dimensions that a window has: depth, height, width, in this order everywhere. A plane is a volume of depth 1.
inline constexpr int spatial_dimensions = 3;

/// The tiles of the global grid that hold the points.
constexpr Interval whole_tiles(const Interval& points, index_t tile) {
  return {floor_div(points.begin, tile) * tile, ceil_div(points.end, tile) * tile};
}

/// Output o reads inputs o * stride - padding + k * dilation, 0 <= k < kernel (torch.nn.Conv2d, MaxPool2d).
struct Window {
  int kernel = 1, stride = 1, dilation = 1, padding = 0;
  bool periodic = false;

  constexpr bool operator==(const Window&) const = default;

  /// Inputs from the first to the last tap of one output.
  constexpr index_t footprint() const { return index_t{kernel - 1} * dilation + 1; }

  /// floor((input + 2 padding - dilation (kernel - 1) - 1) / stride) + 1, PyTorch's formula; 0 where nothing fits.
  constexpr index_t output_extent(index_t input) const {
    const index_t room = input + 2 * index_t{padding} - footprint();
    return room < 0 ? 0 : room / stride + 1;
  }

  /// Smallest interval of inputs that the outputs need; may leave the field, where the boundary speaks.
  constexpr Interval input_of(const Interval& outputs) const {
    if (outputs.empty()) return {};
    const index_t begin = outputs.begin * stride - padding;
    return {begin, (outputs.end - 1) * stride - padding + footprint()};
  }

  /// The same where outputs of a field of `extent` points are computed in whole tiles on the global grid of multiples
  /// of `tile`. What only outputs beyond the field would read is not needed.
  constexpr Interval input_of_tiles(const Interval& outputs, index_t tile, index_t extent) const {
    if (outputs.empty()) return {};
    return intersect(input_of(whole_tiles(outputs, tile)), input_of({0, extent}));
  }
  constexpr Interval output_of_tiles(const Interval& inputs, index_t tile, index_t extent) const {
    if (inputs.empty()) return {};
    return intersect(output_of(whole_tiles(inputs, tile)), output_of({0, extent}));
  }

  /// The adjoint: an interval that holds all outputs which read any of the inputs, the smallest unless stride and
  /// dilation leave gaps; may leave the output field.
  constexpr Interval output_of(const Interval& inputs) const {
    if (inputs.empty()) return {};
    return {ceil_div(inputs.begin + padding - (footprint() - 1), stride),
            floor_div(inputs.end - 1 + padding, stride) + 1};
  }

  /// Bound of what a rank must read beyond its own piece when the output is cut at ceil(c / stride); the last piece,
  /// which takes outputs beyond ceil(extent / stride), may need more.
  constexpr Halo halo() const {
    const int before = padding;                                     // the first output starts at c or later
    const int after = static_cast<int>(footprint()) - 1 - padding;  // the last output starts at c' - 1 or before
    return {before, after};
  }
};

/// Nearest resampling from `from` to `to` points: output o reads input floor(o * from / to), as PyTorch's `size=`.
/// Extends periodically by itself: o + to reads from + what o reads.
struct Resample {
  index_t from = 1, to = 1;

  constexpr bool operator==(const Resample&) const = default;

  HALOGEN_FUNCTION constexpr index_t source(index_t output) const {
    return from == to ? output : floor_div(output * from, to);
  }

  constexpr Interval input_of(const Interval& outputs) const {
    if (outputs.empty()) return {};
    return {source(outputs.begin), source(outputs.end - 1) + 1};
  }

  /// Outputs that read any of the inputs: o * from / to in [begin, end).
  constexpr Interval output_of(const Interval& inputs) const {
    if (inputs.empty()) return {};
    return {ceil_div(inputs.begin * to, from), ceil_div(inputs.end * to, from)};
  }
};

}  // namespace halogen
