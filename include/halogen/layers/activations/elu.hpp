// ELU: y = x above 0, else Alpha (e^x - 1), as torch.nn.ELU. Alpha is a std::ratio, 1 where it is not given: ELU<>.
//
//   Shapes, placements, storage and vjp: activation.hpp.
#pragma once

#include <ratio>

#include "halogen/layers/activations/activation.hpp"

namespace halogen {

template <class Alpha = std::ratio<1>>
struct ELU : detail::ActivationLayer<ELU<Alpha>, Nonlinearity::Kind::elu> {
  static constexpr double parameter = static_cast<double>(Alpha::num) / static_cast<double>(Alpha::den);
};

}  // namespace halogen
