// Tanh: y = tanh(x), as torch.nn.Tanh.
//
//   Shapes, placements, storage and vjp: activation.hpp.
#pragma once

#include "halogen/layers/activations/activation.hpp"

namespace halogen {

struct Tanh : detail::ActivationLayer<Tanh, Nonlinearity::Kind::tanh> {};

}  // namespace halogen
