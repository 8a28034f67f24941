// A layer that refuses a model in its own words: the speed of winds, y = sqrt(u^2 + v^2 + 1e-6). The first half of the
// channels are components u, the second half are the components v in the same order.
#pragma once

#include <halogen/network.hpp>

/// Layer takes pairs of components, but its input has an odd number of channels: Channels.
template <int Layer, int Channels, class Written, class Path>
struct winds_are_pairs_of_channels {};

struct Speed {
  template <class T>
  KOKKOS_FUNCTION T operator()(T u, T v) const {
    using Kokkos::sqrt;
    return sqrt(u * u + v * v + T(1e-6));
  }
};

struct WindSpeed : hg::Module<WindSpeed> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const int channels = (*x).channels;
    if (channels % 2 != 0) x.graph->refuse<winds_are_pairs_of_channels>(x.graph->layers, channels);
    const auto [u, v] = hg::chunk<2>(x);
    return hg::Map<Speed>{}(u, v);
  }
};
