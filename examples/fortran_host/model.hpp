// The network that the Fortran program calls: a correction of height and velocities from their neighbourhood, periodic
// along longitude. It adds a hundredth of what its last convolution makes.
#pragma once

#include <halogen/network.hpp>

struct Hundredth {
  template <class T>
  KOKKOS_FUNCTION T operator()(T y) const {
    return T(0.01) * y;
  }
};

using Correction = hg::Sequential<hg::Conv2d<3, 8, hg::Kernel<3>, hg::Padding<1>, hg::Boundary<hg::Zero, hg::Periodic>>,
                                  hg::GroupNorm<2, 8>, hg::GELU,
                                  hg::Conv2d<8, 3, hg::Kernel<3>, hg::Padding<1>, hg::Boundary<hg::Zero, hg::Periodic>>,
                                  hg::Map<Hundredth>>;
