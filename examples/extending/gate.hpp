// A point function of two values, with a scale that each channel learns: y = scale * a * tanh(b).
#pragma once

#include <halogen/network.hpp>

struct Gate {
  static constexpr hg::ChannelParameter parameters[] = {{"scale"}};  // one number for each channel, which starts as 1

  // A template of the values' type: derivatives are found by calling it with dual numbers.
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b, T scale) const {
    using Kokkos::tanh;
    return scale * a * tanh(b);
  }
};

/// Two convolutions of x, one gated by the other. A convolution that follows computes the gate while it reads, without
/// a launch.
template <int In, int Out>
struct GatedConv : hg::Module<GatedConv<In, Out>> {
  hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>> value;
  hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>> gate;

  constexpr hg::Traced forward(hg::Traced x) const { return hg::Map<Gate>{}(value(x), gate(x)); }
};
