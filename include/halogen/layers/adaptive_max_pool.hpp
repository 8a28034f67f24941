// AdaptiveMaxPool1d, 2d, 3d: y[n, c, o] = max of x[n, c, i] over floor(o H / Ho) <= i < ceil((o + 1) H / Ho), as
// torch.nn's; and GlobalMaxPool: y[n, c] = max of x[n, c] over the whole field, a vector.
//
//   AdaptiveMaxPool2d<Ho, Wo>: x (N, C, H, W) -> y (N, C, Ho, Wo);  GlobalMaxPool: x -> y (N, C)
//
//   placements of x        AdaptiveMaxPool: y, messages          GlobalMaxPool: y, forward, backward
//   Shard<2> and beyond    the same; halos where an interval     Replicate; an all_reduce of 2 N C doubles, an
//                          crosses a cut, of x again backward    all_reduce of N C
//   Shard<0>, Replicate    the same; nothing                     the same; nothing
//   Shard<1>, Partial      do not compile: why::channels_are_cut, why::input_is_partial
//
// vjp: the gradient of an output goes to its largest point, the first in row order of the whole field if there are
// several, as in PyTorch. A NaN counts as larger than all numbers. Bits do not depend on the mesh.
#pragma once

#include "halogen/kernels/pointwise/largest.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/interpolate.hpp"

namespace halogen {
namespace detail {

struct AdaptiveMaxPoolForward {
  static constexpr const char* label = "halogen::adaptive_max_pool";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::AdaptiveMaxRows<S>{at.value(0), SampleForward::samples(at)};
  }
};

struct AdaptiveMaxPoolBackward {
  static constexpr const char *label = "halogen::adaptive_max_pool_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return kernels::AdaptiveMaxBackwardRows<S>{at.value(1), at.gradient(0), at.first_channel(),
                                               SampleForward::samples(at)};
  }
};

constexpr void adaptive_max_pool_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<AdaptiveMaxPoolForward>(node).read(planner.read(node, Pattern::window())));
}
constexpr void adaptive_max_pool_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<AdaptiveMaxPoolBackward>(node);
  launch.read(planner.gradient(reads, Pattern::adjoint())).read(Planner::own_source(Pattern::neighbours()));
  planner.emit_input_gradients(launch);
}

inline constexpr Operation adaptive_max_pool_operation{"adaptive_max_pool", adaptive_max_pool_forward,
                                                       adaptive_max_pool_vjp};

template <class S>
kernels::FieldPoints field_points(const LaunchAt<S>& at) {
  const Layout& layout = at.layout();
  const int level = at.launch().level;
  return {layout.owned(level, 1),       layout.owned(level, 2),        layout.planes(level),
          layout.owned(level, 0).begin, layout.level(level).extent(1), layout.level(level).extent(2)};
}

struct GlobalMaxPoolForward {
  static constexpr const char* label = "halogen::global_max_pool";
  static constexpr bool common_output = false, talks = true;
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling&) {
    return {.rank_sums = 2 * at.samples * at.node().channels};
  }
  template <class S, Form>
  static void run(const LaunchAt<S>& at) {
    at.wait_for_halos();
    const int samples = at.layout().samples(), channels = at.node().channels;
    kernels::PointMaxima<execution_space, S>{at.value(0), field_points(at), samples, channels, at.rank_sums()}.launch(
        at.space(), label);
    at.sum_over_ranks(index_t{2} * samples * channels, ReduceOp::max);
    at.write_vectors(label, kernels::MaximumRows<S>{at.rank_sums(), channels, samples});
  }
};

struct GlobalMaxPoolBackward {
  static constexpr const char *label = "halogen::global_max_pool_backward", *suffix = " backward";
  static WorkspaceUse workspace(const LaunchPlace& at, const kernels::Tiling&) {
    return {.rank_sums = at.samples * at.plan.tensors[at.launch.output].channels};
  }
  template <class S, Form>
  static void run(const LaunchAt<S>& at) {
    at.wait_for_halos();
    const int samples = at.layout().samples(), channels = at.plan().tensors[at.launch().output].channels;
    const kernels::FieldPoints points = field_points(at);
    kernels::FirstLargest<execution_space, S>{at.value(1), at.tensor(2), at.first_channel(), points,
                                              samples,     channels,     at.rank_sums()}
        .launch(at.space(), label);
    at.sum_over_ranks(index_t{samples} * channels, ReduceOp::min);
    at.over_rows(label,
                 kernels::FirstLargestRows<S>{at.gradient(0), points, at.first_channel(), channels, at.rank_sums()});
  }
};

constexpr void global_max_pool_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Read result = planner.result(node);
  result.pattern = Pattern::vector();
  Launch launch = planner.launch<GlobalMaxPoolBackward>(node);
  launch.read(planner.gradient(reads, Pattern::vector())).read(Planner::own_source(Pattern::point())).read(result);
  planner.emit_input_gradients(launch);
}

inline constexpr Operation global_max_pool_operation{"global_max_pool", pool_to_vector<GlobalMaxPoolForward>,
                                                     global_max_pool_vjp};

}  // namespace detail

/// One extent for all dimensions, or one for each.
template <int W>
struct AdaptiveMaxPool1d
    : detail::types::AdaptivePoolLayer<AdaptiveMaxPool1d<W>, detail::adaptive_max_pool_operation, Size<W>> {};
template <int H, int W = H>
struct AdaptiveMaxPool2d
    : detail::types::AdaptivePoolLayer<AdaptiveMaxPool2d<H, W>, detail::adaptive_max_pool_operation, Size<H, W>> {};
template <int D, int H = D, int W = H>
struct AdaptiveMaxPool3d
    : detail::types::AdaptivePoolLayer<AdaptiveMaxPool3d<D, H, W>, detail::adaptive_max_pool_operation, Size<D, H, W>> {
};

struct GlobalMaxPool : detail::types::VectorPoolLayer<GlobalMaxPool, detail::global_max_pool_operation> {};

}  // namespace halogen
