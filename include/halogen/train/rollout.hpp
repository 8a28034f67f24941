// rollout: a network that makes the next state of a field, applied again and again.
#pragma once

#include <utility>

#include "halogen/train/value_and_grad.hpp"

namespace halogen {

/// In value_and_grad: net(net(...net(x))), Steps times, an expression whose gradient goes through all of them. Each
/// call keeps what its own backward pass wants: memory grows with Steps.
///
///   auto step = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(hg::rollout<3>(net, x) - y)); });
///   const auto [loss, gradient] = step(trainer.parameters());
template <int Steps, class Net, class X>
auto rollout(const Net& net, const X& x) {
  static_assert(Steps >= 1, "rollout<Steps> applies a network once or more");
  if constexpr (Steps == 1)
    return net(x);
  else
    return rollout<Steps - 1>(net, net(x));
}

/// Without a gradient: calls each(step, state), step from 1, as each state is done, to write it for one; returns the
/// last one. Collective over the field's mesh.
///
///   hg::rollout(trainer.parameters(), now, 20, [&](hg::index_t i, const Field& state) { out.write(i - 1, state); });
template <class Held, class Field, class Each>
Field rollout(const Held& parameters, const Field& first, index_t steps, Each each) {
  if (steps < 1) throw CollectiveError("rollout: " + std::to_string(steps) + " steps: give 1 or more");
  Network<typename Held::model_type, typename Held::value_type, typename Held::placement> network(parameters);
  Field state = first.clone();
  for (index_t step = 1; step <= steps; ++step) {
    state = typename Held::value_type(1) *
            network.infer(parameters, state);  // a copy: a prediction is the network's memory
    each(step, std::as_const(state));
  }
  return state;
}

}  // namespace halogen
