// A window in depth, rows and columns, from outputs to inputs.
#pragma once

#include "halogen/kernels/rows/views.hpp"

namespace halogen::kernels {

/// The windows of all dimensions, of a field of so many outputs.
struct SpaceWindow {
  Window window[spatial_dimensions];
  index_t outputs[spatial_dimensions];  ///< extents of the output

  HALOGEN_FUNCTION int kernel(int d) const { return window[d].kernel; }
  HALOGEN_FUNCTION int stride(int d) const { return window[d].stride; }
  HALOGEN_FUNCTION int dilation(int d) const { return window[d].dilation; }
  HALOGEN_FUNCTION index_t input(int d, index_t output, int tap) const {
    return output * stride(d) - window[d].padding + index_t{tap} * dilation(d);
  }
  /// The number of inputs from the first tap of the first to the last tap of the last of `count` outputs side by side.
  HALOGEN_FUNCTION index_t inputs(int d, index_t count) const { return (count - 1) * stride(d) + window[d].span(); }

  /// An interval of outputs that has all outputs whose window reads an input of [begin, end) in dimension d. If the
  /// dimension is periodic, it may have images of outputs too.
  HALOGEN_FUNCTION Interval holding(int d, index_t begin, index_t end) const {
    const Interval all = window[d].output_of({begin, end});
    return window[d].periodic ? all : intersect(all, {0, outputs[d]});
  }
  /// The tap of `output` that reads `input`. If none does, it is negative or beyond the kernel.
  HALOGEN_FUNCTION index_t tap(int d, index_t input_point, index_t output) const {
    const index_t along = input_point - input(d, output, 0);
    return along % dilation(d) == 0 ? along / dilation(d) : -1;
  }
};
using NodeWindows [[deprecated("it is called SpaceWindow")]] = SpaceWindow;

}  // namespace halogen::kernels
