// Windows of any kind as lists of taps: groups of channels, strides in the forward pass, and transposed windows by
// their phases. Output o, of phase o mod phases, reads the inputs floor(o / phases) * step + offset, one for each tap
// of the phase.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles/window_rows.hpp"

namespace halogen::kernels {

/// Channels that belong together: group g's outputs [g * outputs, ...) read inputs [g * inputs, ...).
struct ChannelGroups {
  int count = 1, outputs = 1, inputs = 1;  ///< outputs, inputs: of one group
};

/// A PlaneWindow, forward or transposed. Transposed, output i * stride - padding + k * dilation reads
/// input i.
struct TapWindow {
  PlaneWindow shape;
  bool transposed = false;

  HALOGEN_FUNCTION int taps() const { return shape.kernel[0] * shape.kernel[1]; }
  HALOGEN_FUNCTION int phases(int d) const { return transposed ? shape.stride[d] : 1; }

  /// Whether output o reads an input with tap k, and which.
  HALOGEN_FUNCTION bool reads(int d, index_t output, int k, index_t& input) const {
    if (!transposed) return input = shape.input(d, output, k), true;
    const index_t at = output + shape.padding[d] - index_t{k} * shape.dilation[d];
    input = floor_div(at, shape.stride[d]);
    return input * shape.stride[d] == at;
  }

  /// The first and the last input that output o may read.
  HALOGEN_FUNCTION index_t first_input(int d, index_t output) const {
    if (!transposed) return shape.first_input(d, output);
    return ceil_div(output + shape.padding[d] - (shape.span(d) - 1), shape.stride[d]);
  }
  HALOGEN_FUNCTION index_t last_input(int d, index_t output) const {
    if (!transposed) return shape.first_input(d, output) + shape.span(d) - 1;
    return floor_div(output + shape.padding[d], shape.stride[d]);
  }
  HALOGEN_FUNCTION Interval inputs_of(int d, const Interval& outputs) const {
    return {first_input(d, outputs.begin), last_input(d, outputs.end - 1) + 1};
  }

  /// The window of a ring of rows. It has all phases of a step together.
  PlaneWindow ring() const {
    if (!transposed) return shape;
    PlaneWindow all;
    for (int d = 0; d < 2; ++d) {
      const index_t first = first_input(d, 0);
      all.kernel[d] = static_cast<int>(last_input(d, shape.stride[d] - 1) - first) + 1;
      all.padding[d] = -first;
    }
    return all;
  }
};

/// Reads another reader inside `rows` and `columns`, and 0 elsewhere. The reader's memory may end there, while a ring
/// of phases reaches beyond what any output needs. Channels begin at `first_channel`.
template <class Reader>
struct ReaderWithin {
  const Reader& reader;
  Interval rows, columns;
  int first_channel = 0;

  template <class T>
  void load_row(int n, int c, index_t y, index_t x0, index_t count, T* out) const {
    const index_t end = x0 + count, a = std::clamp(columns.begin, x0, end), b = std::clamp(columns.end, a, end);
    if (y < rows.begin || y >= rows.end || a == b) return (void)std::memset(out, 0, count * sizeof(T));
    std::fill(out, out + (a - x0), T(0));
    reader.load_row(n, first_channel + c, y, a, b - a, out + (a - x0));
    std::fill(out + (b - x0), out + count, T(0));
  }
};

/// Planes with zeros between them, which a window with a stride in depth gathers from when it is transposed. Rows and
/// columns have no such zeros, because lists of taps skip them.
template <class Reader>
struct StuffedPlanes {
  using T = typename Reader::T;
  using stored_type = typename Reader::stored_type;
  static constexpr bool computes_points = true;
  Reader reader;
  DepthWindow depth;  ///< counts the zero planes too
  int stride = 1;

  HALOGEN_FUNCTION bool unstuff(PlaneAt& plane) const {
    if (floor_mod(plane.z, stride) != 0) return false;
    plane.z = floor_div(plane.z, stride);
    return true;
  }
  HALOGEN_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    PlaneAt plane = depth.input(n, c);
    return unstuff(plane) ? reader.at(plane, y, x) : T(0);
  }
  void load_row(int n, int c, index_t y, index_t x0, index_t count, T* out) const {
    PlaneAt plane = depth.input(n, c);
    if (!unstuff(plane)) return (void)std::memset(out, 0, static_cast<std::size_t>(count) * sizeof(T));
    reader.load_row(plane, y, x0, count, out);
  }
};

/// The taps of one output row and one phase of columns: where they are in the ring, and the weight of each.
class TapList {
 public:
  static std::size_t bytes(const TapWindow& window) {
    const auto taps = static_cast<std::size_t>(window.taps());
    return 2 * Scratch::bytes_of<index_t>(taps) + 2 * Scratch::bytes_of<Tap>(taps);
  }

  /// Finds which phase each row and column of the window belongs to, and where it is in the ring.
  template <class Ring>
  TapList(Scratch& scratch, const TapWindow& window, const Ring& ring) {
    const auto taps = static_cast<std::size_t>(window.taps());
    offset = scratch.take<index_t>(taps);
    weight = scratch.take<index_t>(taps);
    for (int d = 0; d < 2; ++d) {
      side_[d] = scratch.take<Tap>(taps);
      kernel_[d] = window.shape.kernel[d];
      for (int k = 0; k < kernel_[d]; ++k) {
        const index_t before = index_t{k} * window.shape.dilation[d] - window.shape.padding[d];
        const int phase = static_cast<int>(floor_mod(before, window.phases(d)));
        index_t input = 0;
        window.reads(d, phase, k, input);
        const int tap = window.transposed ? static_cast<int>(input - window.first_input(d, 0)) : k;
        side_[d][k] = {window.transposed ? phase : 0, d == 0 ? tap : ring.tap(tap)};
      }
    }
  }

  /// Lists the taps of output row step * phases + phase_y, relative to `base`, a row of the ring. Weights are `outputs`
  /// apart.
  template <class Ring, class T>
  void fill(const Ring& ring, const T* base, index_t step, int phase_y, int phase_x, int outputs) {
    count = 0;
    for (int ky = 0; ky < kernel_[0]; ++ky) {
      if (side_[0][ky].phase != phase_y) continue;
      const index_t row = ring.row(0, step, static_cast<int>(side_[0][ky].place)) - base;
      for (int kx = 0; kx < kernel_[1]; ++kx) {
        if (side_[1][kx].phase != phase_x) continue;
        offset[count] = row + side_[1][kx].place;
        weight[count++] = index_t{ky * kernel_[1] + kx} * outputs;
      }
    }
  }

  index_t* offset;
  index_t* weight;
  int count = 0;

 private:
  struct Tap {
    int phase;
    index_t place;
  };
  Tap* side_[2];
  int kernel_[2];
};

}  // namespace halogen::kernels
