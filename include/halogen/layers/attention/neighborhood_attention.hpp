// NeighborhoodAttention1d, 2d, 3d<Channels, Heads, Kernel<...>, options>: each point of a field attends to the window
// of points around it (Hassani et al. 2023), as natten.NeighborhoodAttention2D of (N, H, W, C):
//
//   q, k, v = qkv(x);  y = proj(o)
//   o[n, h, p] = sum over j of softmax over j of (q[p] k[j] / sqrt(C / Heads)) v[j],  j in the window of p
//
//   x: (N, C, H, W), (N, C, W) or (N, C, D, H, W) -> y: the same
//   qkv.weight: (3 C, C)  qkv.bias: (3 C)  proj.weight: (C, C)  proj.bias: (C)
//
//   placements of x       placements of y   forward               backward
//   Shard<2> and beyond   the same          halo exchange of qkv  halo exchanges of the gradient of o, and of 3 numbers
//                                                                 for each head and point; the bucket
//   Shard<0>              the same          nothing               the bucket
//   Replicate             the same          nothing               nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// NeighborhoodAttend1d, 2d, 3d<Heads, options> is attention without the linear layers: (N, 3 C, ...) -> (N, C, ...),
// query, key and value in this order, each heads by features. An input that is normalised, activated, resampled or
// concatenated is written out first.
//
// Windows have `kernel` points, each `dilation` away from the next, and kernel / 2 of them before the point. At an end
// of the field the window is moved until it is inside. With IsCausal<true> it has the point and the points before it.
// In a Periodic dimension it continues at the other end.
//
// Halo: dilation (kernel / 2) before and dilation ((kernel - 1) / 2) after, and up to dilation (kernel - 1) for points
// within half a kernel of an end (stencil/neighborhood.hpp).
//
// vjp: each point gathers, as a query from its window, as a key from the queries that see it (no halo_reduce). Forward
// keeps qkv, o, and two numbers for each head and point: the logarithm of the softmax's sum.
//
// Accumulation: kernels/neighborhood/neighborhood_attention.hpp. Errors: CollectiveError if an extent is smaller than
// kernel * dilation; why::groups_do_not_divide if heads do not divide channels.
#pragma once

#include <cmath>

#include "halogen/core/config.hpp"
#include "halogen/kernels/neighborhood/neighborhood_bias_sums.hpp"
#include "halogen/kernels/neighborhood/neighborhood_tiles.hpp"
#include "halogen/layers/conv3d.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/signals.hpp"

namespace halogen {

namespace detail {

struct NeighborhoodConstants : Constants {
  int heads = 1;
};

template <bool Biased, class S>
using BiasOf = std::conditional_t<Biased, kernels::RelativeBias<compute_type<S>>, kernels::NoBias>;

/// Numbers of a kernel's type: features of a head, points of a window in width.
struct NeighborhoodForm {
  static constexpr Form form(const Node& node, const Value&, int) {
    return {{node.channels / node.as<NeighborhoodConstants>().heads, node.window[2].kernel}};
  }
};

/// Check that a window fits into the field if it is moved, that a periodic window has each point at most once, and that
/// shifted windows divide a periodic field.
void check_neighborhood(const Node& node, int dimension, index_t extent);
void check_division(const Node& node, int dimension, index_t extent);

#if HALOGEN_BODIES
HALOGEN_INLINE void check_division(const Node& node, int dimension, index_t extent) {
  const Window& window = node.window[dimension];
  const index_t rest = extent % window.kernel;
  if (rest == 0 || !Neighborhood(window, extent).periodic) return;
  throw CollectiveError(layer_text(node) + " shifts windows of " + std::to_string(window.kernel) +
                        " points in a periodic " + spatial_names[dimension] + " of " + std::to_string(extent) +
                        ", which they do not divide: use a window that divides it, or a " + spatial_names[dimension] +
                        " of " + std::to_string(extent - rest) + " or " +
                        std::to_string(extent - rest + window.kernel));
}
HALOGEN_INLINE void check_neighborhood(const Node& node, int dimension, index_t extent) {
  const Window& window = node.window[dimension];
  if (window.ends == WindowEnds::divided) return check_division(node, dimension, extent);
  const index_t least = window.periodic ? window.span() : index_t{window.kernel} * window.dilation;
  if (window.kernel == 1 || extent >= least) return;
  throw CollectiveError(layer_text(node) + " attends to " + std::to_string(window.kernel) + " points with dilation " +
                        std::to_string(window.dilation) + " of a " + spatial_names[dimension] + " of " +
                        std::to_string(extent) + ": it needs at least " + std::to_string(least) +
                        "; use a smaller kernel or dilation, or a larger field");
}
#endif

/// A launch that has a bias uses its table as the first parameter.
template <Form F, bool Biased, class S>
auto window_scores(const LaunchAt<S>& at) {
  kernels::WindowScores<S, F.number[0], F.number[1], BiasOf<Biased, S>> scores;
  scores.input.tensor = at.stored_tensor(at.tensor_of(0));
  scores.windows.planes = at.value(0).depth;
  scores.windows.heads = at.node().template as<NeighborhoodConstants>().heads;
  scores.windows.channels = at.node().channels;
  scores.scale = static_cast<compute_type<S>>(1 / std::sqrt(static_cast<double>(F.number[0])));
  for (int d = 0; d < spatial_dimensions; ++d) {
    const Window& window = at.node().window[d];
    scores.windows.around[d] = Neighborhood(window, at.layout().level(at.node().level).extent(d));
    if constexpr (Biased) scores.bias.kernel[d] = window.kernel;
  }
  if constexpr (Biased) scores.bias.table = at.parameter(0), scores.bias.heads = scores.windows.heads;
  return scores;
}

/// Runs a kernel of heads over the tiles of the launch's output.
template <class S, class Compute>
void over_heads(const LaunchAt<S>& at, const char* label, const Compute& compute) {
  kernels::HeadKernel<execution_space, S, Compute> kernel;
  kernel.compute = compute;
  at.over_tiles(label, kernel);
}

/// The launches of an operation. Biased: a number for the distance of query and key is added to their product.
template <bool Biased>
struct NeighborhoodLaunches {
  struct Forward : NeighborhoodForm {
    static constexpr const char* label = Biased ? "halogen::window_attention" : "halogen::neighborhood_attention";
    static void check(const Node& node, int dimension, index_t input, index_t) {
      check_neighborhood(node, dimension, input);
    }
    template <class S, Form F>
    static void run(const LaunchAt<S>& at) {
      over_heads(at, label,
                 kernels::NeighborhoodAttentionOf<S, F.number[0], F.number[1], BiasOf<Biased, S>>{
                     window_scores<F, Biased>(at), at.kept()});
    }
  };

  struct Sums {
    static constexpr const char *label = Biased ? "halogen::window_sums" : "halogen::neighborhood_sums",
                                *suffix = " sums";
    template <class S, Form>
    static auto rows(const LaunchAt<S>& at) {
      const auto gradient = at.gradient(0);
      const int heads = at.node().template as<NeighborhoodConstants>().heads;
      return kernels::NeighborhoodSums<S>{
          {at.tensor(2)}, {gradient.gradient}, {at.tensor(1)}, gradient.depth, at.node().channels / heads};
    }
  };

  struct Backward : NeighborhoodForm {
    static constexpr const char *label = Biased ? "halogen::window_attention_backward"
                                                : "halogen::neighborhood_attention_backward",
                                *suffix = " backward";
    static constexpr index_t most_columns = 256;  ///< of a tile, so that the gradients of its keys stay in L2

    static kernels::Tiling tiling(const LaunchPlace& at) {
      kernels::Tiling tiles = TileSizes::of_rows(at);
      if (TileSizes::on_device || tiles.tile_columns <= most_columns) return tiles;
      return {at.rows, at.columns, at.planes, tiles.tile_rows, most_columns};
    }
    template <class S, Form F>
    static void run(const LaunchAt<S>& at) {
      using Bias = BiasOf<Biased, S>;
      const kernels::NeighborhoodGradients<S, F.number[0], F.number[1], Bias> gradients{
          window_scores<F, Biased>(at), {at.gradient(2).gradient}, {at.tensor(3)}, at.first_channel()};
      if constexpr (TileSizes::on_device) {
        over_heads(at, label, gradients);
      } else {
        kernels::NeighborhoodTiles<execution_space, S, F.number[0], F.number[1], Bias> kernel{gradients, {}};
        at.over_tiles(label, kernel);
      }
    }
  };
};

/// The gradient of the bias's table: each rank sums over its own queries.
struct BiasGradient : NeighborhoodForm {
  static constexpr const char *label = "halogen::window_bias_gradient", *suffix = " bias gradient";
  static constexpr std::size_t most_bytes = std::size_t{32} << 20;  ///< limit of the blocks' tables; one may need more

  static kernels::Tiling tiling(const LaunchPlace& at) { return TileSizes::of_sums(at); }
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling& tiling) {
    const Node& node = at.node();
    std::size_t table = sizeof(double) * static_cast<std::size_t>(node.as<NeighborhoodConstants>().heads);
    for (const Window& window : node.window) table *= static_cast<std::size_t>(2 * window.kernel - 1);
    const int blocks = std::clamp(static_cast<int>(most_bytes / table), 1, TileSizes::blocks(tiling));
    return {.partials = table * static_cast<std::size_t>(blocks), .blocks = blocks};
  }
  template <class S, Form F>
  static void run(const LaunchAt<S>& at) {
    using Gradients = kernels::NeighborhoodGradients<S, F.number[0], F.number[1], BiasOf<true, S>>;
    kernels::NeighborhoodBiasSums<execution_space, S, Gradients> sums;
    sums.gradients = Gradients{window_scores<F, true>(at), {at.gradient(1).gradient}, {at.tensor(2)}, 0};
    at.over_blocks(label, sums, at.parameter_gradient(1), sums.partial_size());
  }
};

/// Neighbourhoods read a stored tensor without norm or activation, because kernels read each point many times.
constexpr void store_for_neighbors(Planner& planner, const Node& node) {
  const Value value = planner.value_of(node.inputs[0]);
  const Source& source = value.sources[0];
  const bool stands = value.sources.size() == 1 && source.affine < 0 && !source.function && !source.resampled;
  planner.set_value(node, stands && !planner.is_map(value) ? value : planner.stored(node, value));
}

inline constexpr Operation store_for_neighbors_operation{"store", store_for_neighbors, no_vjp};

/// x for a layer that reads neighbourhoods.
constexpr Traced stands(Traced x) {
  Node node;
  node.operation = &store_for_neighbors_operation;
  node.layer = x.graph->layers - 1;
  node.inputs[0] = x.node;
  node.channels = (*x).channels;
  node.level = (*x).level;
  return {x.graph, x.graph->add(node)};
}

template <bool Biased, class L>
constexpr Launch neighborhood_launch(Planner& planner, const Node& node) {
  Launch launch = planner.launch<L>(node);
  if (Biased) launch.use(node.parameter);
  return launch;
}

template <bool Biased>
constexpr void neighborhood_forward(Planner& planner, const Node& node) {
  Launch launch = neighborhood_launch<Biased, typename NeighborhoodLaunches<Biased>::Forward>(planner, node);
  launch.read(planner.read(node, Pattern::window()).with_halo_from(node.channels));  // keys and values
  planner.keep(launch, kernels::kept_of_head * node.as<NeighborhoodConstants>().heads, node.level);
  planner.emit_forward(node, launch);
}

/// qkv is read with two patterns: the keys of a point's window, and the queries that see a point. So its halo is the
/// hull of both.
template <bool Biased>
constexpr void neighborhood_vjp(Planner& planner, const Node& node) {
  ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  reads = planner.unmasked(reads);
  using Launches = NeighborhoodLaunches<Biased>;
  Launch sums = planner.launch<typename Launches::Sums>(node);
  sums.read(planner.gradient(reads, Pattern::point())).read(planner.result(node));
  const TensorId written = planner.emit_tensor(sums.read(planner.kept(node, Pattern::point())),
                                               3 * node.as<NeighborhoodConstants>().heads, node.level);
  if constexpr (Biased) {
    Launch table = neighborhood_launch<true, BiasGradient>(planner, node);
    table.level = node.level;
    table.read(planner.read_again(node, Pattern::window())).read(planner.gradient(reads, Pattern::point()));
    planner.emit(table.read(Planner::tensor(written, Pattern::point())).sum_gradient_of(node.parameter));
  }
  Launch launch = neighborhood_launch<Biased, typename Launches::Backward>(planner, node);
  launch.read(planner.read_again(node, Pattern::window())).read(planner.read_again(node, Pattern::adjoint()));
  launch.read(planner.gradient(reads, Pattern::adjoint())).read(Planner::tensor(written, Pattern::adjoint()));
  planner.emit_input_gradients(launch);
}

inline constexpr Operation neighborhood_operation{"neighborhood_attention", neighborhood_forward<false>,
                                                  neighborhood_vjp<false>};

/// Options of an operation that keeps the extents and pads nothing.
template <int Dimensions>
struct AttendedOptions : WindowOptions<Dimensions> {
  constexpr bool are_plain() const {
    bool plain = this->has_own_extent() && !this->has_stride && !this->same && this->groups == 1 && !this->pads();
    for (const int points : this->after) plain = plain && points < 0;
    for (const Window& window : this->window) plain = plain && window.padding == 0;
    return plain;
  }
};

template <int Dimensions>
struct NeighborhoodOptions : AttendedOptions<Dimensions> {
  using WindowOptions<Dimensions>::set;
  template <bool... On>
  constexpr void set(IsCausal<On...>) {
    const auto end = [](Window& w, bool on) { w.ends = on ? WindowEnds::causal : WindowEnds::shifted; };
    if constexpr (sizeof...(On) == 0)
      this->template each<true>(end);
    else
      this->template each<On...>(end);
  }

  constexpr bool have_beginnings() const {
    return std::ranges::none_of(this->window,
                                [](const Window& w) { return w.periodic && w.ends == WindowEnds::causal; });
  }
};

template <int Dimensions, class... Options>
constexpr NeighborhoodOptions<Dimensions> neighborhood_options() {
  NeighborhoodOptions<Dimensions> options;
  for (int d = spatial_dimensions - Dimensions; d < spatial_dimensions; ++d)
    options.window[d].ends = WindowEnds::shifted;
  (options.set(Options{}), ...);
  return options;
}

template <int Dimensions>
constexpr Traced add_neighborhood(Traced x, const WindowOptions<Dimensions>& options,
                                  const NeighborhoodConstants& constants, const Operation& operation) {
  GraphDraft& graph = *x.graph;
  const Traced y = add_layer(stands(x), operation, &constants);
  Node& node = graph.nodes[y.node];
  graph.slide(Dimensions, node.layer);
  graph.need_points(x, node.layer);
  const int channels = node.channels;
  node.channels = channels / 3;
  for (int d = 0; d < spatial_dimensions; ++d) node.window[d] = options.window[d];
  if (channels % 3 != 0) graph.refuse<why::groups_do_not_divide>(node.layer, 3, channels);
  if (node.channels % constants.heads != 0)
    graph.refuse<why::groups_do_not_divide>(node.layer, constants.heads, node.channels);
  return y;
}

namespace types {

template <int Dimensions, int Heads, class... Options>
struct NeighborhoodOf {
  static_assert(Heads > 0, "attention has heads");
  static constexpr auto options = neighborhood_options<Dimensions, Options...>();
  static_assert(options.are_plain(),
                "attention to a neighbourhood takes Kernel, Dilation, IsCausal, and Boundary of Zero, which moves the "
                "window inside, or Periodic");
  static_assert(options.have_beginnings(), "a causal dimension has a beginning: it is not Periodic");
  static constexpr NeighborhoodConstants constants{{}, Heads};
};

template <class Self, int Dimensions, int Heads, class... Options>
struct NeighborhoodAttendLayer : Module<Self> {
  using Of = NeighborhoodOf<Dimensions, Heads, Options...>;
  static_assert(!Of::options.has_bias, "Bias is that of qkv, and attention alone has none");

  constexpr Traced forward(Traced x) const {
    return add_neighborhood<Dimensions>(x, Of::options, Of::constants, neighborhood_operation);
  }
};

/// Qkv and Project: layers that work on each point.
template <class Self, int Dimensions, int Heads, class Qkv, class Project, class... Options>
struct NeighborhoodAttentionLayer : Module<Self> {
  using Of = NeighborhoodOf<Dimensions, Heads, Options...>;
  Named<"qkv", Qkv> qkv;
  Named<"proj", Project> proj;

  constexpr Traced forward(Traced x) const {
    return proj(add_neighborhood<Dimensions>(qkv(x), Of::options, Of::constants, neighborhood_operation));
  }
};

}  // namespace types
}  // namespace detail

/// Options in any order: Kernel<W>, Dilation (1), IsCausal (false), Boundary<Width> (Zero).
template <int Heads, class... Options>
struct NeighborhoodAttend1d
    : detail::types::NeighborhoodAttendLayer<NeighborhoodAttend1d<Heads, Options...>, 1, Heads, Options...> {};
/// The same by height and width, and by depth, height and width.
template <int Heads, class... Options>
struct NeighborhoodAttend2d
    : detail::types::NeighborhoodAttendLayer<NeighborhoodAttend2d<Heads, Options...>, 2, Heads, Options...> {};
template <int Heads, class... Options>
struct NeighborhoodAttend3d
    : detail::types::NeighborhoodAttendLayer<NeighborhoodAttend3d<Heads, Options...>, 3, Heads, Options...> {};

/// The same with the linear layers. One more option: Bias<bool> (true), of qkv.
template <int Channels, int Heads, class... Options>
struct NeighborhoodAttention1d
    : detail::types::NeighborhoodAttentionLayer<
          NeighborhoodAttention1d<Channels, Heads, Options...>, 1, Heads,
          Linear<Channels, 3 * Channels, Bias<detail::neighborhood_options<1, Options...>().bias>>,
          Linear<Channels, Channels>, Options...> {};
template <int Channels, int Heads, class... Options>
struct NeighborhoodAttention2d
    : detail::types::NeighborhoodAttentionLayer<
          NeighborhoodAttention2d<Channels, Heads, Options...>, 2, Heads,
          Linear<Channels, 3 * Channels, Bias<detail::neighborhood_options<2, Options...>().bias>>,
          Linear<Channels, Channels>, Options...> {};
template <int Channels, int Heads, class... Options>
struct NeighborhoodAttention3d
    : detail::types::NeighborhoodAttentionLayer<
          NeighborhoodAttention3d<Channels, Heads, Options...>, 3, Heads,
          Linear<Channels, 3 * Channels, Bias<detail::neighborhood_options<3, Options...>().bias>>,
          Linear<Channels, Channels>, Options...> {};

}  // namespace halogen
