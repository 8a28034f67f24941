// The function of each point that a reader applies, after a scale and a shift: an activation layer, as plans and
// kernels know it.
#pragma once

#include "halogen/core/config.hpp"

namespace halogen {

struct Nonlinearity {
  enum class Kind : signed char { none, relu, leaky_relu, elu, silu, gelu, tanh, sigmoid };
  Kind kind = Kind::none;
  double parameter = 0;  ///< leaky_relu: the slope below 0; elu: alpha

  HALOGEN_FUNCTION constexpr explicit operator bool() const { return kind != Kind::none; }
  constexpr bool operator==(const Nonlinearity&) const = default;
};

/// Its name, as torch.nn.functional's.
constexpr const char* name_of(Nonlinearity::Kind kind) {
  constexpr const char* names[] = {"", "relu", "leaky_relu", "elu", "silu", "gelu", "tanh", "sigmoid"};
  return names[static_cast<int>(kind)];
}

}  // namespace halogen
