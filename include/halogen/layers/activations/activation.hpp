// What all activation layers share: a function of each point. The launches that read the tensor apply it to rows as
// they read them.
//
//   (N, C, H, W) or (N, C, D, H, W) -> the same; Shard<0>, Shard<2> and beyond, and Replicate stay as they are. No
//   communication. No storage if x is one or more stored tensors, normalised or not. A value that is interpolated or is
//   the output of an activation is written out first. vjp: g f'(x). The readers of the gradient compute it; nothing is
//   stored for it. Shard<1>, Partial: why::channels_are_cut, why::input_is_partial.
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen::detail {

struct ActivationConstants : Constants {
  Nonlinearity function;
};

constexpr void activation_forward(Planner& planner, const Node& node) {
  const Nonlinearity function = node.as<ActivationConstants>().function;
  Value value = planner.value_of(node.inputs[0]);
  const bool clips = function.kind == Nonlinearity::Kind::relu;  // relu(relu(x)) is relu(x)
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
/// Base of an activation layer. Self may have `static constexpr double parameter`.
template <class Self, Nonlinearity::Kind Kind>
struct ActivationLayer : Module<Self> {
  static constexpr double parameter = 0;

  constexpr Traced forward(Traced x) const { return add_layer(x, activation_operation<Kind>, &constants); }

  static constexpr ActivationConstants constants{{}, {Kind, Self::parameter}};
};
}  // namespace types
using types::ActivationLayer;

}  // namespace halogen::detail
