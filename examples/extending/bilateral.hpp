// Bilateral smoothing (Tomasi and Manduchi 1998) of 5 x 5 points: a mean of the neighbours, weighted by how near their
// values are, with a width that each channel learns.
#pragma once

#include <halogen/network.hpp>

struct Bilateral {
  using footprint = hg::SquareFootprint<2>;  // 25 neighbours, row by row; the halo follows from it
  static constexpr hg::ChannelParameter parameters[] = {{"width"}};

  // The neighbours' values, then the width.
  template <class T, class... More>
  KOKKOS_FUNCTION T operator()(T first, More... more) const {
    using Kokkos::exp;
    const T u[] = {first, more...};
    const T centre = u[12], width = u[25];
    T sum(0), weights(0);
    for (int i = 0; i < 25; ++i) {
      const T distance = (u[i] - centre) / width;
      const T weight = exp(-distance * distance);
      sum += weight * u[i];
      weights += weight;
    }
    return sum / weights;
  }
};

template <class Edges = hg::Boundary<hg::Zero, hg::Zero>>
using BilateralSmoothing = hg::Stencil<Bilateral, Edges>;
