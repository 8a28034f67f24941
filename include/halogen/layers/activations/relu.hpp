// ReLU: y = max(x, 0), as torch.nn.ReLU; its derivative at 0 is 0. A NaN stays NaN, and its gradient passes.
//
//   Shapes, placements, storage and vjp: activation.hpp.
#pragma once

#include "halogen/layers/activations/activation.hpp"

namespace halogen {

struct ReLU : detail::ActivationLayer<ReLU, Nonlinearity::Kind::relu> {};

}  // namespace halogen
