// Sigmoid: y = 1 / (1 + e^-x), as torch.nn.Sigmoid.
//
//   Shapes, placements, storage and vjp: activation.hpp.
#pragma once

#include "halogen/layers/activations/activation.hpp"

namespace halogen {

struct Sigmoid : detail::ActivationLayer<Sigmoid, Nonlinearity::Kind::sigmoid> {};

}  // namespace halogen
