// Interpolate<To, Mode, Options...>: y = x at other extents, as torch.nn.functional.interpolate, in the modes nearest,
// nearest-exact, bilinear, trilinear and bicubic, up and down. AdaptiveAvgPool2d<H, W>, AdaptiveAvgPool3d<D, H, W>: the
// mean over windows that differ by one point if the extents do not divide, as torch's layers and its mode "area".
//
//   To is Size<H, W>, Size<D, H, W>, or a factor. ScaleFactor<S> (planes) and ScaleFactor<D, H, W> (volumes) scale up
//   by whole numbers. ScaleRatio<std::ratio<3, 2>> scales up or down to floor(H 3 / 2), with one ratio or one for each
//   dimension; positions follow from the ratio as in torch (along a periodic dimension from the extents).
//   interpolate_to<Mode, Options...>(x, like) goes to the extents and cuts of a value. Modes: Nearest, NearestExact,
//   Bilinear, Trilinear, Bicubic, Area (AdaptiveAvgPool). Options: AlignCorners<> (Bilinear, Trilinear, Bicubic),
//   Antialias<> (Bilinear, Bicubic), Boundary<...> (what linear and cubic taps read beyond the ends).
//
//   placements of x       placements of y     forward                            backward
//   Shard<2> and beyond   the same, derived   halo: what taps read across a      the same of y's gradient, the other
//                                             cut                                way
//   Shard<0>, Replicate   the same            nothing                            nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// The cut of an output with h points follows from the cut of the input: the rank with piece [b, e) of H input points
// has the outputs [ceil(b h / H), ceil(e h / H)). It is refused if a rank would have none, as on any level. y is
// stored. Upsample (layers/upsample.hpp) stores nothing. Accumulation: over planes and rows times their weights, then
// over the points of a row, in their order, so bits do not depend on the mesh. Weights are in the value type, computed
// from exact positions.
#pragma once

#include <ratio>

#include "halogen/kernels/pointwise/sample.hpp"
#include "halogen/layers/pad.hpp"
#include "halogen/layers/upsample.hpp"
#include "halogen/run/at.hpp"

namespace halogen {

template <int... Extents>
struct Size {
  static_assert(sizeof...(Extents) >= 1 && sizeof...(Extents) <= 3,
                "a size has a width, a height before it, or depth before both");
  static_assert(((Extents > 0) && ...), "a size has points");
};
template <int... Factors>
struct ScaleFactor {
  static_assert(sizeof...(Factors) >= 1 && sizeof...(Factors) <= 3,
                "a factor has one number, or one for each dimension");
  static_assert(
      ((Factors > 0) && ...),
      "a scale factor is a whole number; give ScaleRatio<std::ratio<...>> or Size<...> to make a field smaller");
};
template <class... Ratios>
struct ScaleRatio {
  static_assert(sizeof...(Ratios) >= 1 && sizeof...(Ratios) <= 3, "one std::ratio, or one for each dimension");
  static_assert(((Ratios::num > 0 && Ratios::num <= 1000 && Ratios::den <= 1000) && ...),
                "a ratio is positive, of numbers up to 1000");
};

/// Interpolation modes in addition to Nearest and Bilinear.
struct NearestExact {};
struct Linear1d {};  ///< torch's mode="linear", for signals
struct Trilinear {};
struct Bicubic {};
struct Area {};

template <bool On = true>
struct AlignCorners {};
template <bool On = true>
struct Antialias {};

namespace detail {

struct SampleForward {
  static constexpr const char* label = "halogen::interpolate";
  template <class S>
  static kernels::Samples samples(const LaunchAt<S>& at) {
    kernels::Samples samples;
    const Layout& layout = at.layout();
    const int input = at.plan().input_of(at.launch()).level;
    for (int d = 0; d < spatial_dimensions; ++d)
      samples.of[d] =
          SampledWindow(at.node().window[d], layout.level(input).extent(d), layout.level(at.node().level).extent(d));
    samples.depth = depth_window(Window{}, layout.owned(at.launch().level, 0));
    return samples;
  }
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::SampleRows<S>{at.windowed_value(0), samples(at)};
  }
};

struct SampleBackward {
  static constexpr const char *label = "halogen::interpolate_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    kernels::GradientReader<S> gradient = at.gradient(0);
    for (int d = 0; d < spatial_dimensions; ++d) gradient.frame.periodic[d] = at.node().window[d].periodic;
    return kernels::SampleBackwardRows<S>{gradient, at.first_channel(), SampleForward::samples(at)};
  }
};

constexpr void sample_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<SampleForward>(node).read(planner.read(node, Pattern::window())));
}
constexpr void sample_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  planner.emit_input_gradients(planner.launch<SampleBackward>(node).read(planner.gradient(reads, Pattern::adjoint())));
}

inline constexpr Operation interpolate_operation{"interpolate", sample_forward, sample_vjp};
inline constexpr Operation adaptive_avg_pool_operation{"adaptive_avg_pool", sample_forward, sample_vjp};

/// A mode's window in one dimension, and the number of dimensions in which the mode works; 0: any.
template <class Mode>
struct ModeOf;
template <Sampling Kind, int Dimensions>
struct ModeIs {
  static constexpr Sampling sampling = Kind;
  static constexpr int dimensions = Dimensions;
};
template <>
struct ModeOf<Nearest> : ModeIs<Sampling::nearest, 0> {};
template <>
struct ModeOf<NearestExact> : ModeIs<Sampling::nearest_exact, 0> {};
template <>
struct ModeOf<Linear1d> : ModeIs<Sampling::linear, 1> {};
template <>
struct ModeOf<Bilinear> : ModeIs<Sampling::linear, 2> {};
template <>
struct ModeOf<Trilinear> : ModeIs<Sampling::linear, 3> {};
template <>
struct ModeOf<Bicubic> : ModeIs<Sampling::cubic, 2> {};
template <>
struct ModeOf<Area> : ModeIs<Sampling::adaptive, 0> {};

template <class Option>
inline constexpr bool is_sampling_boundary = false;
template <class... Edges>
inline constexpr bool is_sampling_boundary<Boundary<Edges...>> = ((Edges::edge != Edge::odd) && ...);

/// Sets what the taps of a node that samples read beyond the ends.
template <int Dimensions, class Option>
constexpr void set_edges(Node&, Option) {}
template <int Dimensions, class... Edges>
constexpr void set_edges(Node& node, Boundary<Edges...>) {
  static_assert(sizeof...(Edges) == Dimensions, "a Boundary has one edge for each dimension of the size");
  int d = spatial_dimensions - Dimensions;
  const auto set = [&](Edge edge, double value) {
    Window& window = node.window[d++];
    window.periodic = edge == Edge::periodic;
    if (!window.periodic) window.beyond = edge, window.value = value;
  };
  (set(Edges::edge, Edges::value), ...);
}

template <class Mode, class... Options>
constexpr Window sampling_window() {
  constexpr bool corners = (std::is_same_v<Options, AlignCorners<true>> || ...),
                 antialiases = (std::is_same_v<Options, Antialias<true>> || ...);
  constexpr bool known = ((std::is_same_v<Options, AlignCorners<>> || std::is_same_v<Options, AlignCorners<false>> ||
                           std::is_same_v<Options, Antialias<>> || std::is_same_v<Options, Antialias<false>> ||
                           is_sampling_boundary<Options>)&&...);
  static_assert(known, "an interpolation takes AlignCorners, Antialias, and a Boundary without Odd");
  static_assert(!corners || !(is_sampling_boundary<Options> || ...),
                "AlignCorners puts points on both ends of a field: it reads nothing beyond them");
  static_assert(!corners || ModeOf<Mode>::dimensions != 0, "AlignCorners belongs to Bilinear, Trilinear and Bicubic");
  static_assert(!antialiases || ModeOf<Mode>::dimensions == 2, "Antialias belongs to Bilinear and Bicubic");
  static_assert(!(corners && antialiases), "an interpolation has AlignCorners or Antialias, not both");
  return {.sampling = ModeOf<Mode>::sampling, .corners = corners, .antialiases = antialiases};
}

/// A node that samples the last Dimensions of x by the window. Its level is still that of x.
template <int Dimensions>
constexpr Node sampling_node(Traced x, const Operation& operation, const Window& window) {
  Node node;
  node.operation = &operation;
  node.layer = x.graph->next_layer();
  x.graph->need_points(x, node.layer);
  x.graph->slide(Dimensions, node.layer);
  node.channels = (*x).channels;
  node.level = (*x).level;
  node.inputs[0] = x.node;
  for (int d = spatial_dimensions - Dimensions; d < spatial_dimensions; ++d) node.window[d] = window;
  return node;
}
template <int Dimensions, class Mode, class... Options>
constexpr Node sampling_node(Traced x, const Operation& operation) {
  Node node = sampling_node<Dimensions>(x, operation, sampling_window<Mode, Options...>());
  constexpr Sampling sampling = ModeOf<Mode>::sampling;  // other modes never read beyond an end
  if constexpr (sampling == Sampling::linear || sampling == Sampling::cubic)
    (set_edges<Dimensions>(node, Options{}), ...);
  node.inputs[0] = goes_on(x, node.window).node;
  return node;
}

/// How many numbers a factor has; 1 if To is not a factor.
template <class To>
inline constexpr int factors_given = 1;
template <int... Factors>
inline constexpr int factors_given<ScaleFactor<Factors...>> = static_cast<int>(sizeof...(Factors));
template <class... Ratios>
inline constexpr int factors_given<ScaleRatio<Ratios...>> = static_cast<int>(sizeof...(Ratios));

/// A ratio in the i-th dimension of a layer: outputs are up / down times as dense as inputs. 0 if To is not a ratio.
struct UpDown {
  int up = 0, down = 0;
};
template <class To>
constexpr UpDown ratio_of(int, To) {
  return {};
}
template <class... Ratios>
constexpr UpDown ratio_of(int i, ScaleRatio<Ratios...>) {
  constexpr UpDown all[] = {{static_cast<int>(Ratios::num), static_cast<int>(Ratios::den)}...};
  return all[sizeof...(Ratios) == 1 ? 0 : i];
}

/// The level with the given extents, for any input.
template <int... Extents>
constexpr int add_size(GraphDraft& graph, int parent, int, Size<Extents...>) {
  Window windows[spatial_dimensions];
  int d = spatial_dimensions - static_cast<int>(sizeof...(Extents));
  ((windows[d++].outputs = Extents), ...);
  return graph.level_through(parent, windows);
}
/// The level with `up` times as many points, of which every `down`-th is taken.
template <class... Ratios>
constexpr int add_size(GraphDraft& graph, int parent, int dimensions, ScaleRatio<Ratios...>) {
  Window up[spatial_dimensions], down[spatial_dimensions];
  for (int d = spatial_dimensions - dimensions; d < spatial_dimensions; ++d) {
    const auto [more, less] = ratio_of(d - (spatial_dimensions - dimensions), ScaleRatio<Ratios...>{});
    up[d] = {.kernel = more, .stride = more, .transposed = true};
    down[d] = {.kernel = less, .stride = less};
  }
  return graph.level_through(graph.level_through(parent, up), down);
}
template <int... Factors>
constexpr int add_size(GraphDraft& graph, int parent, int dimensions, ScaleFactor<Factors...>) {
  return add_size(graph, parent, dimensions, ScaleRatio<std::ratio<Factors>...>{});
}

template <class To>
inline constexpr int dimensions_of_size = 2;
template <class D, class H, class W>
inline constexpr int dimensions_of_size<ScaleRatio<D, H, W>> = 3;
template <int... Extents>
inline constexpr int dimensions_of_size<Size<Extents...>> = static_cast<int>(sizeof...(Extents));
template <int D, int H, int W>
inline constexpr int dimensions_of_size<ScaleFactor<D, H, W>> = 3;

namespace types {
template <class Self, int Dimensions, class To, class Mode, class... Options>
struct InterpolateLayer : Module<Self> {
  static_assert(
      ModeOf<Mode>::dimensions == 0 || ModeOf<Mode>::dimensions == Dimensions,
      "Bilinear and Bicubic have a size of height and width, Trilinear one of depth, height and width, Linear1d "
      "one of width");
  static_assert(factors_given<To> == 1 || factors_given<To> == Dimensions,
                "a factor has one number, or one a dimension");

  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    Node node = sampling_node<Dimensions, Mode, Options...>(x, interpolate_operation);
    for (int i = 0; i < Dimensions; ++i) {
      Window& window = node.window[spatial_dimensions - Dimensions + i];
      const UpDown ratio = ratio_of(i, To{});
      window.up = ratio.up, window.down = ratio.down;
    }
    node.level = add_size(graph, node.level, Dimensions, To{});
    return {&graph, graph.add(node)};
  }
};
}  // namespace types

}  // namespace detail

/// For planes and volumes, by how many numbers To has. One number: a factor of both dimensions of a plane, or a width.
template <class To, class Mode = Nearest, class... Options>
struct Interpolate
    : detail::types::InterpolateLayer<Interpolate<To, Mode, Options...>,
                                      detail::ModeOf<Mode>::dimensions == 1 ? 1 : detail::dimensions_of_size<To>, To,
                                      Mode, Options...> {};
/// For signals.
template <class To, class Mode = Nearest, class... Options>
struct Interpolate1d : detail::types::InterpolateLayer<Interpolate1d<To, Mode, Options...>, 1, To, Mode, Options...> {};

/// x at the extents and cuts of `like`. Planes; volumes with Trilinear, signals with Linear1d.
template <class Mode, class... Options>
constexpr Traced interpolate_to(Traced x, Traced like) {
  constexpr int of_mode = detail::ModeOf<Mode>::dimensions, dimensions = of_mode == 0 ? 2 : of_mode;
  Node node = detail::sampling_node<dimensions, Mode, Options...>(x, detail::interpolate_operation);
  x.graph->need_points(like, node.layer);
  node.level = (*like).level;
  return {x.graph, x.graph->add(node)};
}

namespace detail::types {
template <class Self, const Operation& Op, class Extents>
struct AdaptivePoolLayer : Module<Self> {
  constexpr Traced forward(Traced x) const {
    GraphDraft& graph = *x.graph;
    constexpr int dimensions = dimensions_of_size<Extents>;
    Node node = sampling_node<dimensions>(x, Op, {.sampling = Sampling::adaptive});
    node.level = add_size(graph, node.level, dimensions, Extents{});
    return {&graph, graph.add(node)};
  }
};
}  // namespace detail::types

/// One extent for all dimensions, or one for each. To get a vector use GlobalAvgPool.
template <int W>
struct AdaptiveAvgPool1d
    : detail::types::AdaptivePoolLayer<AdaptiveAvgPool1d<W>, detail::adaptive_avg_pool_operation, Size<W>> {};
template <int H, int W = H>
struct AdaptiveAvgPool2d
    : detail::types::AdaptivePoolLayer<AdaptiveAvgPool2d<H, W>, detail::adaptive_avg_pool_operation, Size<H, W>> {};
template <int D, int H = D, int W = H>
struct AdaptiveAvgPool3d
    : detail::types::AdaptivePoolLayer<AdaptiveAvgPool3d<D, H, W>, detail::adaptive_avg_pool_operation, Size<D, H, W>> {
};

}  // namespace halogen
