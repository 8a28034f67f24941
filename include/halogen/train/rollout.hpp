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

/// Without a gradient, where the network takes more than its state, or several times of it: next(image, state) makes
/// the image of the step after, as FieldDataset::next does. Calls each(step, state), step from 1, as each state is
/// done, to write it for one. Collective over the field's mesh.
///
///   hg::rollout(trainer.parameters(), image, 20, [&](hg::index_t i, const Field& state) { out.write(i - 1, state); },
///               [&](const Image& now, const Field& state) { return data.next(now, state); });
template <class Held, class Image, class Each, class Next>
void rollout(const Held& parameters, const Image& first, index_t steps, Each each, Next next) {
  if (steps < 1) throw CollectiveError("rollout: " + std::to_string(steps) + " steps: give 1 or more");
  Network<typename Held::model_type, typename Held::value_type, typename Held::placement> network(parameters);
  Image image = first.clone();
  for (index_t step = 1; step <= steps; ++step) {
    const auto state = network.infer(parameters, image).clone();  // a prediction is the network's memory
    each(step, state);
    if (step < steps) image = next(std::as_const(image), state);
  }
}

/// The same for a network that takes its state alone; returns the last one.
///
///   hg::rollout(trainer.parameters(), now, 20, [&](hg::index_t i, const Field& state) { out.write(i - 1, state); });
template <class Held, class Field, class Each>
Field rollout(const Held& parameters, const Field& first, index_t steps, Each each) {
  Field last = first;
  rollout(
      parameters, first, steps,
      [&](index_t step, const auto& state) {
        last = state;
        each(step, std::as_const(last));
      },
      [](const Field&, const auto& state) -> Field { return state; });
  return last;
}

}  // namespace halogen
