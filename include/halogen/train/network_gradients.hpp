// What an expression of networks and fields owes its arguments: parameters and fields, in the order in which they were
// given.
#pragma once

#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "halogen/train/network_output.hpp"

namespace halogen::detail {

/// sum += term, of as many numbers.
template <class T>
struct AddArrays {
  T* sum;
  const T* term;
  KOKKOS_FUNCTION void operator()(const index_t i) const { sum[i] += term[i]; }
};

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

/// Networks run backward when all other gradients are known, the last one in the expression first: each once, whatever
/// its output is used for.
template <class... Arguments>
class NetworkGradients {
  struct Deferred {
    std::uint64_t order;
    const void* node;
    virtual void run(NetworkGradients& gradients) const = 0;
    virtual ~Deferred() = default;
    Deferred(std::uint64_t o, const void* n) : order(o), node(n) {}
  };
  template <class Node, class C>
  struct DeferredNetwork : Deferred {
    Node network;
    C cotangent;
    DeferredNetwork(const Node& n, const C& c)
        : Deferred(n.made.number(), n.identity.key()), network(n), cotangent(c) {}
    void run(NetworkGradients& gradients) const override { pull_network(network, cotangent, gradients); }
  };

 public:
  std::tuple<typename GradientOf<Arguments>::type...> sums;

  explicit NetworkGradients(const Arguments&... arguments) : arguments_(arguments...) {}

  template <int Index, class E>
  void add(const E& term) {
    auto& sum = std::get<Index>(sums);
    using Field = std::decay_t<decltype(sum)>;
    if (sum.empty())
      sum = computed<Field>(std::get<Index>(arguments_).shape(), as_expression(term));
    else
      sum = sum + term;
  }

  template <int Index, class Share>
  void add_parameters(const Share& share) {
    auto& sum = std::get<Index>(sums);
    if (!sum) {
      sum = share;
      return;
    }
    if (!(sum->summed_over() == share.summed_over()))
      throw CollectiveError(
          "one network is applied to images that different mesh dimensions cut: its gradients are sums over different "
          "ranks; give the images the same placements");
    const execution_space space;
    launch_range(space, "halogen::add_gradients", sum->count,
                 AddArrays<typename Share::value_type>{sum->data(), share.data()});
    space.fence("halogen::add_gradients");
  }

  template <class Node, class C>
  void defer(const Node& node, const C& cotangent) {
    for (const auto& one : deferred_)
      if (one->node == node.identity.key()) {  // the same node, and so of the same type
        C& sum = static_cast<DeferredNetwork<Node, C>&>(*one).cotangent;
        sum = sum + cotangent;
        return;
      }
    deferred_.push_back(std::make_unique<DeferredNetwork<Node, C>>(node, cotangent));
  }

  /// A network's input may be another's output: that was made before it.
  std::tuple<decltype(GradientOf<Arguments>::finished(std::declval<const Arguments&>(), {}))...> finish() {
    while (!deferred_.empty()) {
      const auto last = std::max_element(deferred_.begin(), deferred_.end(),
                                         [](const auto& a, const auto& b) { return a->order < b->order; });
      const std::unique_ptr<Deferred> network = std::move(*last);
      deferred_.erase(last);
      network->run(*this);
    }
    return finished(std::index_sequence_for<Arguments...>{});
  }

 private:
  template <std::size_t... I>
  auto finished(std::index_sequence<I...>) const {
    return std::tuple(GradientOf<Arguments>::finished(std::get<I>(arguments_), std::get<I>(sums))...);
  }

  std::tuple<Arguments...> arguments_;
  std::vector<std::unique_ptr<Deferred>> deferred_;
};

template <class... Arguments>
inline constexpr bool defers_networks<NetworkGradients<Arguments...>> = true;

}  // namespace halogen::detail
