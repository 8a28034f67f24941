// value_and_grad of what depends on fields, and, where train/value_and_grad.hpp is included, on networks.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "halogen/autograd/gradient.hpp"
#include "halogen/core/philox.hpp"
#include "halogen/core/prepared.hpp"

namespace halogen {
namespace detail {

/// To the next step, or to the one given.
struct SetStep {
  index_t* step;
  index_t number;
  KOKKOS_FUNCTION void operator()(const index_t) const { *step = number < 0 ? *step + 1 : number; }
};

/// The networks of an expression with their plans and memory, in the order in which it calls them: kept from step to
/// step.
struct CalledNetworks {
  Prepared<std::size_t> runs;
  std::size_t called = 0;
  std::uint64_t seed = 0;
  bool keeps_statistics = false;  ///< a forward pass adds to running statistics, as a Trainer's does
  Prepared<int, 1> of_loss;       ///< the network of a loss such as mse, with its plan and memory
  Lasting<Kokkos::View<index_t[1], memory_space>> step;  ///< that layers draw by; allocated when a network draws

  /// For the network that was called last. The first draws as a Trainer's does.
  RandomStream random() {
    if (step.data() == nullptr) set_step(0);
    return {seed, step.data(), static_cast<std::uint32_t>(called > 0 ? called - 1 : 0)};
  }
  void set_step(index_t number) {
    if (step.data() == nullptr) step = Lasting<Kokkos::View<index_t[1], memory_space>>("halogen::random_step");
    launch_range(execution_space{}, "halogen::random_step", 1, SetStep{step.data(), number});
  }
  /// Behind all that draws.
  void next_step() {
    if (step.data() != nullptr) launch_range(execution_space{}, "halogen::random_step", 1, SetStep{step.data(), -1});
  }

  template <class Run>
  std::shared_ptr<Run> next() {
    return runs.template get<Run>(called++, [] { return std::make_shared<Run>(); });
  }
};

/// variable<I>(networks, argument), and of(networks, f(variables...), arguments...), of arguments that are Parameters
/// or fields: train/value_and_grad.hpp.
template <bool Networks>
struct WithNetworks;

}  // namespace detail

/// Made by value_and_grad. Keep it from step to step: of networks it keeps plans and memory.
template <class F>
class ValueAndGrad {
 public:
  explicit ValueAndGrad(F f, std::uint64_t seed = 0) : f_(std::move(f)) { networks_.seed = seed; }

  /// Layers that drop values draw by the seed and the number of the step, from 0, which each call makes one more.
  void set_step(index_t step) { networks_.set_step(step); }

  /// (value, gradient...) of a sum or mean of an expression, one gradient per field, placed as the field.
  template <class... Fields>
    requires(is_sharded<Fields> && ...)
  auto operator()(const Fields&... fields) {
    return value_and_grad_of(f_, fields...);
  }

  /// Of Parameters, or of several and of fields: (loss, gradient...). The gradient of Replicate parameters is Partial;
  /// redistribute<Replicate>(gradient) makes it whole by one all_reduce. That of Shard<0> parameters is Shard<0>,
  /// summed. Collective over the image's mesh. Of an expression in which net(x) stands: a tuple (value, gradient...).
  /// (One argument has an overload of its own: with a pack of one, clang's report of a network that does not fit is
  /// longer than the limit of tests/house.)
  template <class Argument>
    requires(!is_sharded<Argument>)
  auto operator()(const Argument& argument) {
    using With = detail::WithNetworks<(sizeof(Argument) > 0)>;
    const detail::EvaluationScope scope;
    networks_.called = 0;
    auto result = With::of(networks_, f_(With::template variable<0>(networks_, argument)), argument);
    networks_.next_step();
    return result;
  }
  template <class... Arguments>
    requires(sizeof...(Arguments) > 1 && (!is_sharded<Arguments> || ...))
  auto operator()(const Arguments&... arguments) {
    using With = detail::WithNetworks<(sizeof...(Arguments) > 0)>;
    const detail::EvaluationScope scope;
    networks_.called = 0;
    auto result = [&]<std::size_t... I>(std::index_sequence<I...>) {
      return With::of(networks_, f_(With::template variable<static_cast<int>(I)>(networks_, arguments)...),
                      arguments...);
    }(std::index_sequence_for<Arguments...>{});
    networks_.next_step();
    return result;
  }

 private:
  F f_;
  detail::CalledNetworks networks_;
};

/// f takes fields as variables and returns a number made of sums, means and other reductions:
///
///   auto [loss, du, dv] = hg::value_and_grad([&](auto u, auto v) { return hg::mean(u * v); })(u, v);
///
/// Or a network variable, and returns a loss of it or any expression of it:
///
///   auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label, weight); });
///   auto [loss, gradient] = step(parameters);
///   state.step(parameters, hg::redistribute<hg::Replicate>(gradient));
///
/// seed: of what layers draw in each call (layers/dropout.hpp).
template <class F>
ValueAndGrad<F> value_and_grad(F f, std::uint64_t seed = 0) {
  return ValueAndGrad<F>(std::move(f), seed);
}

}  // namespace halogen
