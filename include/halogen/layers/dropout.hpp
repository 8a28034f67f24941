// Dropout<P>: in training each value is 0 with probability P, else x / (1 - P), as torch.nn.Dropout; in inference x.
// Dropout1d, 2d and 3d drop whole channels of a sample; DropPath<P> whole samples, as torchvision's StochasticDepth in
// mode "row".
//
//   (N, C), (N, C, W), (N, C, H, W) or (N, C, D, H, W) -> the same
//
//   placements of x                                 placements of y   forward and backward
//   Shard<0>, Shard<2> and beyond, Replicate        the same          nothing
//   Shard<1>, Partial                               does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. The dropped values depend on the trainer's seed, the number of the step, the layer's place in the model
// and the value's index in the whole field, but not on the mesh. Nothing is stored for backward, which draws the same
// numbers. A step of Trainer draws; predict and infer do not. In value_and_grad, net(x) of variable parameters draws;
// infer does not. One launch forward and one backward in training, none in inference.
// Random numbers: Philox4x32-10 (core/philox.hpp). Srivastava et al., JMLR 15, 2014; Huang et al., ECCV 2016.
#pragma once

#include <ratio>

#include "halogen/kernels/pointwise/dropout.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct DropoutConstants : Constants {
  kernels::DroppedUnit unit{};
  double probability = 0;
};

/// Dropout of values or gradients that a launch reads, starting at channel `first`.
template <class S, class Reader>
kernels::DropoutRows<S, Reader> dropout_rows(const LaunchAt<S>& at, const Reader& reader, int first) {
  const auto& of = at.node().template as<DropoutConstants>();
  return {reader, first, at.whole_field(), at.random(), of.unit, of.probability};
}

struct DropoutForward {
  static constexpr const char* label = "halogen::dropout";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return dropout_rows(at, at.value(0), 0);
  }
};

struct DropoutBackward {
  static constexpr const char *label = "halogen::dropout_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return dropout_rows(at, at.gradient(0), at.first_channel());
  }
};

constexpr void dropout_forward(Planner& planner, const Node& node) {
  if (!planner.is_training() || node.in_evaluation) return planner.set_value(node, planner.value_of(node.inputs[0]));
  planner.emit_forward(node, planner.launch<DropoutForward>(node).read(planner.read(node, Pattern::point())));
}

constexpr void dropout_vjp(Planner& planner, const Node& node) {
  if (node.in_evaluation) return;  // its value is its input's
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<DropoutBackward>(node);
  planner.emit_input_gradients(launch.read(planner.gradient(reads, Pattern::point())));
}

inline constexpr Operation dropout_operation{"dropout", dropout_forward, dropout_vjp};

namespace types {
template <class P, kernels::DroppedUnit Unit, int Dimensions>
struct DropoutLayer : Module<DropoutLayer<P, Unit, Dimensions>> {
  static constexpr double probability = static_cast<double>(P::num) / P::den;
  static_assert(probability >= 0 && probability < 1, "a probability of dropping is 0 or more and less than 1");

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    const Traced y = add_layer(x, dropout_operation, &constants);
    graph.draws = true;
    if (Dimensions > 0 && !graph.is_vector(y.node)) graph.slide(Dimensions, graph.nodes[y.node].layer);
    return y;
  }

 private:
  static constexpr DropoutConstants constants{{}, Unit, probability};
};
}  // namespace types
using types::DropoutLayer;

}  // namespace detail

/// P: std::ratio, the probability that a value is set to 0.
template <class P = std::ratio<1, 2>>
struct Dropout : detail::DropoutLayer<P, kernels::DroppedUnit::point, 0> {};
template <class P = std::ratio<1, 2>>
struct Dropout1d : detail::DropoutLayer<P, kernels::DroppedUnit::channel, 1> {};
template <class P = std::ratio<1, 2>>
struct Dropout2d : detail::DropoutLayer<P, kernels::DroppedUnit::channel, 2> {};
template <class P = std::ratio<1, 2>>
struct Dropout3d : detail::DropoutLayer<P, kernels::DroppedUnit::channel, 3> {};
/// On a Residual's branch: Residual<Sequential<..., DropPath<std::ratio<1, 10>>>>.
template <class P>
struct DropPath : detail::DropoutLayer<P, kernels::DroppedUnit::sample, 0> {};

}  // namespace halogen
