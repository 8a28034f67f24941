// LeakyReLU: y = x above 0, else Slope x, as torch.nn.LeakyReLU; its derivative at 0 is Slope. Slope is a std::ratio,
// negative_slope in PyTorch: LeakyReLU<> or LeakyReLU<std::ratio<1, 5>>.
//
//   Shapes, placements, storage and vjp: activation.hpp.
#pragma once

#include <ratio>

#include "halogen/layers/activations/activation.hpp"

namespace halogen {

template <class Slope = std::ratio<1, 100>>
struct LeakyReLU : detail::ActivationLayer<LeakyReLU<Slope>, Nonlinearity::Kind::leaky_relu> {
  static constexpr double parameter = static_cast<double>(Slope::num) / static_cast<double>(Slope::den);
};

}  // namespace halogen
