// What all activation layers share: a function of each point, which readers apply as rows enter them.
//
//   (N, C, H, W) or (N, C, D, H, W) -> the same; Shard<0>, Shard<2> and beyond, and Replicate stay as they are. No
//   communication, no storage where x is one or more stored tensors, normalised or not; what is interpolated, or has
//   passed an activation already, is written out first. vjp: g f'(x), computed by the readers of the gradient; nothing
//   is stored for it. Shard<1>, Partial: why::channels_are_cut, why::input_is_partial.
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen::detail {

struct ActivationConstants : Constants {
  Nonlinearity function;
};

constexpr void activation_forward(Planner& planner, const Node& node) {
  const Nonlinearity function = node.as<ActivationConstants>().function;
  Value value = planner.value_of(node.inputs[0]);
  const bool clips = function.kind == Nonlinearity::Kind::relu;  // twice is once
  bool reads = true;
  for (const Source& source : value.sources)
    reads &= !source.linear && (!source.function || (clips && source.function == function));
  if (!reads) value = planner.stored(node, value);
  for (int i = 0; i < value.sources.size(); ++i) value.sources[i].function = function;
  planner.set_value(node, value);
}

template <Nonlinearity::Kind Kind>
inline constexpr Operation activation_operation{name_of(Kind), activation_forward, no_vjp};

namespace types {
/// Base of an activation layer: Self has `static constexpr double parameter`, or none.
template <class Self, Nonlinearity::Kind Kind>
struct ActivationLayer : Module<Self> {
  static constexpr double parameter = 0;

  constexpr Traced forward(Traced x) const { return add_layer(x, activation_operation<Kind>, &constants); }

  static constexpr ActivationConstants constants{{}, {Kind, Self::parameter}};
};
}  // namespace types
using types::ActivationLayer;

}  // namespace halogen::detail
