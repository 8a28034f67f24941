// GroupNorm: y = gamma[c] * (x - mean[n, g]) / sqrt(variance[n, g] + epsilon) + beta[c], as torch.nn.GroupNorm;
// mean and (biased) variance are those of the group's channels and the *whole* field of sample n, on any cut.
//
//   x: (N, C, H, W) or (N, C, D, H, W) -> y: the same  gamma, beta: (C)
//
//   placements of x       placements of y   forward                           backward
//   Shard<2> and beyond   the same          all_gather of (count, mean, M2)   all_reduce of two sums a group
//   Shard<0>, Replicate   the same          nothing                           nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. Nothing is stored if x is one stored tensor, for example the output of a convolution or pool; otherwise x
// is written out first. The launch that writes x gathers the moments while it writes rows, and the launches that read x
// normalise rows while they read them. Accumulation: the moments of a row are summed about the row's first value, then
// merged as (count, mean, M2) in double (Chan, Golub, LeVeque 1983) in a fixed order, over ranks in rank order.
// E[x^2] - E[x]^2 is never used. The gradients of gamma and beta are the same sums, in the bucket. Errors:
// CollectiveError for groups of one value, in training and in inference, as PyTorch refuses an instance of one point.
#pragma once

#include <type_traits>

#include "halogen/layers/module.hpp"

namespace halogen {
namespace detail {

struct GroupNormConstants : Constants {
  int groups = 1;
  double epsilon = 0;
};

constexpr void group_norm_forward(Planner& planner, const Node& node) {
  Value value = planner.value_of(node.inputs[0]);
  if (!planner.is_plain(value)) value = planner.stored(node, value);
  Source& source = value.sources[0];
  const auto& norm = node.as<GroupNormConstants>();
  source.affine = planner.add_affine({source.tensor, norm.groups, node.channels, node.parameter, norm.epsilon}, node);
  planner.set_value(node, value);
}

inline constexpr Operation group_norm_operation{"group_norm", group_norm_forward, no_vjp, true};

}  // namespace detail

/// Whether a norm has a gamma and a beta.
template <bool HasParameters>
struct Affine {};

namespace detail {
template <class Option>
inline constexpr bool is_affine_option = false;
template <bool HasParameters>
inline constexpr bool is_affine_option<Affine<HasParameters>> = true;
}  // namespace detail

/// Options: Affine<bool> (true).
template <int Groups, int Channels, class... Options>
struct GroupNorm : Module<GroupNorm<Groups, Channels, Options...>> {
  static_assert(Groups > 0 && Channels > 0, "a norm has groups and channels");
  static_assert((detail::is_affine_option<Options> && ...), "GroupNorm takes Affine<bool> beside groups and channels");
  static constexpr double epsilon = 1e-5;
  static constexpr bool affine = !(std::is_same_v<Options, Affine<false>> || ...);

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    Node node;
    node.operation = &detail::group_norm_operation;
    node.layer = graph.next_layer();
    if ((*x).channels != Channels) graph.refuse<why::channels_differ>(node.layer, Channels, (*x).channels);
    if (Channels % Groups != 0) graph.refuse<why::groups_do_not_divide>(node.layer, Groups, Channels);
    graph.need_points(x, node.layer);
    node.inputs[0] = x.node;
    node.channels = Channels;
    node.level = (*x).level;
    node.constants = &constants;
    if (affine) {
      using Start = ParameterShape::Start;
      node.parameter = graph.add_parameter("weight", {.shape = {Channels}, .rank = 1, .start = Start::ones});
      graph.add_parameter("bias", {.shape = {Channels}, .rank = 1, .start = Start::zeros});
    }
    return {&graph, graph.add(node)};
  }

 private:
  static constexpr detail::GroupNormConstants constants{{}, Groups, epsilon};
};

/// A GroupNorm with one channel a group, as torch.nn.InstanceNorm2d and 3d. It has no parameters unless Affine<true> is
/// given.
template <int Channels, class... Options>
struct InstanceNorm
    : GroupNorm<Channels, Channels,
                std::conditional_t<(std::is_same_v<Options, Affine<true>> || ...), Affine<true>, Affine<false>>> {
  static_assert((detail::is_affine_option<Options> && ...), "InstanceNorm takes Affine<bool> beside channels");
};
template <int Channels, class... Options>
using InstanceNorm2d = InstanceNorm<Channels, Options...>;
template <int Channels, class... Options>
using InstanceNorm3d = InstanceNorm<Channels, Options...>;

}  // namespace halogen
