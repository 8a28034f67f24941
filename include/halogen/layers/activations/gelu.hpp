// GELU: y = x Phi(x), Phi the normal distribution function (not its approximation by tanh), as torch.nn.GELU().
//
//   Shapes, placements, storage and vjp: activation.hpp.
#pragma once

#include "halogen/layers/activations/activation.hpp"

namespace halogen {

struct GELU : detail::ActivationLayer<GELU, Nonlinearity::Kind::gelu> {};

}  // namespace halogen
