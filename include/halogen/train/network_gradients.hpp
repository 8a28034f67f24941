// What an expression of networks and fields owes its arguments: parameters and fields, in the order in which they were
// given.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "halogen/train/network_output.hpp"

namespace halogen::detail {

/// What is collected for an argument, and what it ends as.
template <class Argument>
struct GradientOf {
  using type = Argument;
  static Argument finished(const Argument& argument, const Argument& sum) {
    return sum.empty() ? Argument(argument.shape()) : sum;
  }
};
template <class ModelType, class T>
struct GradientOf<Parameters<ModelType, T>> {
  using Share = Parameters<ModelType, T, Partial<Sum>>;
  using type = std::optional<Share>;
  static Share finished(const Parameters<ModelType, T>&, const std::optional<Share>& sum) {
    return sum ? *sum : Share("halogen::gradient");
  }
};

/// Adds to the gradient of the parameters that are the Index-th argument.
template <int Index, class Share>
void add_parameters(GradientSink& gradients, const Share& share) {
  auto& sum = gradients.sum_of<std::optional<Share>>(Index);
  if (!sum) {
    sum = share;
    return;
  }
  if (!(sum->summed_over() == share.summed_over()))
    throw CollectiveError(
        "one network is applied to images that different mesh dimensions cut: its gradients are sums over different "
        "ranks; give the images the same placements");
  const execution_space space;
  launch_range(space, "halogen::add_gradients", sum->trained_values(),
               kernels::AddArrays<typename Share::value_type>{sum->data(), share.data()});
  space.fence("halogen::add_gradients");
}

/// Networks run backward as all stages do: when all that reads their output is known, each once.
template <class... Arguments>
class NetworkGradients final : public GradientSink {
 public:
  std::tuple<typename GradientOf<Arguments>::type...> sums;

  explicit NetworkGradients(const Arguments&... arguments) : arguments_(arguments...) {}

  std::tuple<decltype(GradientOf<Arguments>::finished(std::declval<const Arguments&>(), {}))...> finish() {
    run_deferred();
    return finished(std::index_sequence_for<Arguments...>{});
  }

 private:
  template <std::size_t... I>
  auto finished(std::index_sequence<I...>) const {
    return std::tuple(GradientOf<Arguments>::finished(std::get<I>(arguments_), std::get<I>(sums))...);
  }

  Slot slot_of(int index) override { return slot_among(index, arguments_, sums); }

  std::tuple<Arguments...> arguments_;
};

}  // namespace halogen::detail
