// SiLU: y = x / (1 + e^-x), as torch.nn.SiLU; also called swish.
//
//   Shapes, placements, storage and vjp: activation.hpp.
#pragma once

#include "halogen/layers/activations/activation.hpp"

namespace halogen {

struct SiLU : detail::ActivationLayer<SiLU, Nonlinearity::Kind::silu> {};

}  // namespace halogen
