// Upsample<Scale, Mode>: from n to Scale n points, as torch.nn.Upsample(scale_factor=). UpsampleToSkip<Mode>: to the
// skip's m points, as torch.nn.functional.interpolate(size=skip's).
//   Nearest: y[o] = x[floor(o n / m)]
//   Bilinear (align_corners=False): y[o] between the two points around (o + 1/2) n / m - 1/2, clamped, in both
//   dimensions
//
//   x: (N, C, h, w) -> y: (N, C, Scale h, Scale w), cuts Scale c; or extents and cuts of the enclosing SkipConcat's or
//   Residual's input, where Nearest takes depth too
//
//   placements of x       placements of y           forward and backward
//   Shard<2> and beyond   the skip's, or Scale c    Bilinear a halo of 1; Nearest where m is no multiple of n or cuts
//                                                   are odd, else nothing
//   Shard<0>, Replicate   the same                  nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// Nothing is stored: readers look up coarse rows, after norm and activation. The result is written out if an activation
// follows Bilinear, or if a second resampling follows. vjp: the launch that computes the gradient at the fine level
// stores it. Then the owner of each coarse point adds the gradients of the fine points that read it, row by row.
#pragma once

#include "halogen/layers/module.hpp"

namespace halogen {

/// Interpolation mode: the value of the one point at floor(o * n / m).
struct Nearest {};
/// Interpolation mode: between the two points around, in each dimension.
struct Bilinear {};

namespace detail {

template <bool Linear>
constexpr void upsample_forward(Planner& planner, const Node& node) {
  Value value = planner.value_of(node.inputs[0]);
  bool resampled = false;
  for (const Source& source : value.sources) resampled |= source.resampled;
  if (resampled && value.level != node.level) value = planner.stored(node, value);
  if (value.level != node.level)
    for (int i = 0; i < value.sources.size(); ++i) value.sources[i].resampled = true, value.sources[i].linear = Linear;
  value.level = node.level;
  planner.set_value(node, value);
}

inline constexpr Operation upsample_nearest{"upsample_nearest", upsample_forward<false>, no_vjp};
inline constexpr Operation upsample_bilinear{"upsample_bilinear", upsample_forward<true>, no_vjp};

template <class Mode>
constexpr Node upsample_node(Traced x) {
  static_assert(std::is_same_v<Mode, Nearest> || std::is_same_v<Mode, Bilinear>,
                "Upsample is Nearest or Bilinear; write Interpolate<ScaleFactor<S>, Bicubic> for another mode");
  Node node;
  node.operation = std::is_same_v<Mode, Bilinear> ? &upsample_bilinear : &upsample_nearest;
  node.layer = x.graph->next_layer();
  x.graph->need_points(x, node.layer);
  if (std::is_same_v<Mode, Bilinear>) x.graph->slide(2, node.layer);
  node.inputs[0] = x.node;
  node.channels = (*x).channels;
  node.level = (*x).level;
  return node;
}

}  // namespace detail

template <int Scale, class Mode = Nearest>
struct Upsample : Module<Upsample<Scale, Mode>> {
  static_assert(Scale > 0, "an upsampling has a whole factor");

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    Node node = detail::upsample_node<Mode>(x);
    graph.slide(2, node.layer);
    const Window times{.kernel = Scale, .stride = Scale, .transposed = true};  // for its extents and cuts
    node.level = graph.level_through(node.level, {Window{}, times, times});
    return {&graph, graph.add(node)};
  }
};

/// x at the extents and cuts of `like`, as torch's interpolate(x, size=like.shape[2:]).
template <class Mode = Nearest>
constexpr Traced upsample_to(Traced x, Traced like) {
  Node node = detail::upsample_node<Mode>(x);
  node.level = (*like).level;
  x.graph->need_points(like, node.layer);
  return {x.graph, x.graph->add(node)};
}

template <class Mode>
struct UpsampleToSkip : Module<UpsampleToSkip<Mode>> {
  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    Node node = detail::upsample_node<Mode>(x);
    node.level = detail::level_of_skip(graph, node.layer);
    return {&graph, graph.add(node)};
  }
};

}  // namespace halogen
