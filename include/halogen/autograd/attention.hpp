// The gradient of attention: from its result and logsumexp, the logits computed again tile by tile.
#pragma once

#include "halogen/array/attention/attention.hpp"
#include "halogen/autograd/contraction.hpp"
#include "halogen/autograd/gradient.hpp"

namespace halogen::detail {

/// The gradients of a call's operands, from its pass and the gradient of the result. Empty ones where nobody asks.
template <class Q, class K, class V, class... Bias, class Pass, class Owed>
auto gradients_of_call(const AttentionCall<Q, K, V, Bias...>&, Pass& pass, const Owed& owed) {
  return pass.template backward < has_variable<Q>, has_variable<K> || has_variable<V>,
         (has_variable<Bias> || ...) > (owed);
}
/// The gradient of the bias passes on to what the bias is made of, if a gradient is asked of it.
template <class Q, class K, class V, class... Bias, class Found, class All>
void pull_bias(const AttentionCall<Q, K, V, Bias...>& call, const Found& found, All& gradients) {
  if constexpr ((has_variable<Bias> || ...)) pull_operand(std::get<3>(call.parts), found.bias, gradients);
}
template <class Q, class K, class V, class... Bias, class Pass, class Owed, class All>
void pull_call(const AttentionCall<Q, K, V, Bias...>& call, Pass& pass, const Owed& owed, All& gradients) {
  const auto found = gradients_of_call(call, pass, owed);
  if constexpr (has_variable<Q>) backward_from(std::get<0>(call.parts), found.query, gradients);
  if constexpr (has_variable<K>) backward_from(std::get<1>(call.parts), found.key, gradients);
  if constexpr (has_variable<V>) backward_from(std::get<2>(call.parts), found.value, gradients);
  pull_bias(call, found, gradients);
}

template <class Q, class K, class V, class... Bias, class C, class All>
void pull(const Attention<Q, K, V, Bias...>& node, const C& cotangent, All& gradients) {
  using Gradient = typename Attention<Q, K, V, Bias...>::Result;
  static_cast<void>(node.field());  // which makes the pass
  if constexpr (std::is_same_v<typename C::value_type, typename Gradient::value_type>)
    pull_call(node.call, **node.pass, cotangent, gradients);
  else  // in the type that is computed in
    pull_call(node.call, **node.pass,
              computed<Gradient>(Gradient::make_shape(cotangent.mesh(), cotangent.cuts()), leaf(cotangent)), gradients);
}

}  // namespace halogen::detail
