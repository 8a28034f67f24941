// PixelShuffle<R>: y[n, c, R i + a, R j + b] = x[n, (c R + a) R + b, i, j], as torch.nn.PixelShuffle; PixelUnshuffle<R>
// is its inverse.
//
//   PixelShuffle:   (N, R R C, H, W) -> (N, C, R H, R W)
//   PixelUnshuffle: (N, C, R H, R W) -> (N, R R C, H, W); other extents are refused by a CollectiveError
//
//   placements of x                           placements of y     forward                  backward
//   Shard<0>, Shard<2>, Shard<3>, Replicate   the same, derived   nothing; PixelUnshuffle  the same
//                                                                 a halo of R - 1 where a
//                                                                 cut is no multiple of R
//   Shard<1>, Partial                         does not compile: why::channels_are_cut, why::input_is_partial
//
// y is stored. vjp: the other layer, applied to y's gradient. Nothing is added, so bits do not depend on the mesh.
#pragma once

#include <string>

#include "halogen/kernels/pointwise/pixel_shuffle.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

/// Shuffles: whether it makes more points. The adjoint does the opposite. Order: of channels
/// (kernels/pointwise/pixel_shuffle.hpp).
template <int R, bool Shuffles, class Order = kernels::ChannelsOutside<R>>
struct PixelShuffleOf {
  template <class S, class Reader>
  using Up = kernels::ChannelsToPoints<S, R, Order, Reader>;
  template <class S, class Reader>
  using Down = kernels::PointsToChannels<S, R, Order, Reader>;
  template <class S>
  static Order order_at(const LaunchAt<S>& at) {
    if constexpr (std::is_empty_v<Order>)
      return {};
    else
      return {at.node().channels / (R * R)};
  }

  struct Forward {
    static constexpr const char* label = Shuffles ? "halogen::pixel_shuffle" : "halogen::pixel_unshuffle";
    static void check(const Node& node, int d, index_t input, index_t) {
      if (!Shuffles && node.window[d].kernel > 1 && input % R != 0)
        throw CollectiveError((std::is_empty_v<Order> ? "PixelUnshuffle<" + std::to_string(R) + ">" : "PatchMerging") +
                              " has a field of " + std::to_string(input) + " points in " + spatial_names[d] +
                              ": give a multiple of " + std::to_string(R));
    }
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      using Reader = kernels::ValueReader<S>;
      return std::conditional_t<Shuffles, Up<S, Reader>, Down<S, Reader>>{at.windowed_value(0), order_at(at)};
    }
  };
  struct Backward {
    static constexpr const char *label =
                                    Shuffles ? "halogen::pixel_shuffle_backward" : "halogen::pixel_unshuffle_backward",
                                *suffix = " backward";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      using Reader = kernels::GradientReader<S>;
      return std::conditional_t<Shuffles, Down<S, Reader>, Up<S, Reader>>{at.gradient(0), order_at(at),
                                                                          at.first_channel()};
    }
  };

  static constexpr void forward(Planner& planner, const Node& node) {
    planner.emit_forward(node, planner.launch<Forward>(node).read(planner.read(node, Pattern::window())));
  }
  static constexpr void vjp(Planner& planner, const Node& node) {
    const ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    planner.emit_input_gradients(planner.launch<Backward>(node).read(planner.gradient(reads, Pattern::adjoint())));
  }
  static constexpr Operation operation{Shuffles ? "pixel_shuffle" : "pixel_unshuffle", forward, vjp};
};

namespace types {
template <class Self, int R, bool Shuffles, class Order = kernels::ChannelsOutside<R>>
struct PixelShuffleLayer : Module<Self> {
  static_assert(R > 0, "a shuffle has a whole factor");

  constexpr Traced forward(Traced x) const {
    const Traced y = add_layer(x, PixelShuffleOf<R, Shuffles, Order>::operation);
    GraphDraft& graph = *x.graph;
    Node& node = graph.nodes[y.node];
    graph.slide(2, node.layer);
    if (Shuffles && node.channels % (R * R) != 0)
      graph.refuse<why::groups_do_not_divide>(node.layer, R * R, node.channels);
    node.channels = Shuffles ? node.channels / (R * R) : node.channels * (R * R);
    for (int d = 1; d < spatial_dimensions; ++d) node.window[d] = {.kernel = R, .stride = R, .transposed = Shuffles};
    node.level = graph.level_through(node.level, node.window);
    return y;
  }
};
/// The first half of PatchMerging (layers/patch_merging.hpp).
struct PatchChannels : PixelShuffleLayer<PatchChannels, 2, false, kernels::PointsOutside<2>> {};
}  // namespace types

}  // namespace detail

template <int R>
struct PixelShuffle : detail::types::PixelShuffleLayer<PixelShuffle<R>, R, true> {};
template <int R>
struct PixelUnshuffle : detail::types::PixelShuffleLayer<PixelUnshuffle<R>, R, false> {};

}  // namespace halogen
