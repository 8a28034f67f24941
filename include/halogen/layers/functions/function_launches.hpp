// The backward launches of a Function: there is one for each value, and the first of a node computes the gradients of
// all.
#pragma once

#include <memory>
#include <utility>

#include "halogen/plan/planner.hpp"
#include "halogen/run/at.hpp"

namespace halogen::detail {

/// The backward launches of a node, at most one for each value. The first that runs computes all gradients.
template <int Values, template <int> class Backward>
struct BackwardLaunches {
  /// Whether `other` is one of them, of the node of `launch`.
  static bool shares(const Launch& launch, const Launch& other) {
    return other.node == launch.node && [&]<int... I>(std::integer_sequence<int, I...>) {
      return (other.is<Backward<I>>() || ...);
    }(std::make_integer_sequence<int, Values>{});
  }
  static bool is_first(const Plan& plan, const Launch& launch) {
    for (const Launch& other : plan.launches)
      if (shares(launch, other)) return &other == &launch;
    return false;
  }
  /// Calls write(found). compute() runs for the node's first launch, and what it has found is kept until the last one
  /// has written its share.
  template <class S, class Context, class Compute, class Write>
  static void take_share(const LaunchAt<S>& at, Context& context, Compute compute, Write write) {
    const int node = at.launch().node;
    using Found = decltype(compute());
    const auto found = context.kept.template get<Found>(node, [&] {
      auto made = std::make_shared<Found>(compute());
      for (const Launch& other : at.plan().launches) made->launches += shares(at.launch(), other);
      return made;
    });
    write(*found);
    if (--found->launches == 0) context.kept.drop(node);
  }
  /// Emits them. more(launch): reads after those of the values.
  template <class Of, class More>
  static constexpr void emit(Planner& planner, const Node& node, More more) {
    const ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      const auto emit_one = [&]<int Number>(std::integral_constant<int, Number>) {
        Launch launch = planner.launch<Backward<Number>>(node, Number);
        launch.level =
            Of::is_vector(Number) ? Of::level_of_points(planner, node) : planner.value_of(node.inputs[Number]).level;
        launch.read(planner.gradient(reads, Of::makes_vector ? Pattern::vector() : Pattern::point()));
        for (int i = 0; i < Values; ++i) launch.read(Of::read_again(planner, node, i));
        more(launch);
        launch.input = launch.reads[1 + Number].value();
        planner.emit_input_gradients(launch);
      };
      (emit_one(std::integral_constant<int, I>()), ...);
    }(std::make_integer_sequence<int, Values>{});
  }
};

}  // namespace halogen::detail
