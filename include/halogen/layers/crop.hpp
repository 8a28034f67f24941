// Crop2d<Top, Bottom, Left, Right>: x without this many points at each side, as torch's x[:, :, Top:-Bottom,
// Left:-Right]; Crop1d and Crop3d do the same for signals and volumes. Roll2d<Down, Right>: y[n, c, i, j] = x[n, c,
// (i - Down) mod H, (j - Right) mod W], as torch.roll(x, (Down, Right), (2, 3)); Roll1d and Roll3d likewise.
//
//   Crop2d: (N, C, H, W) -> (N, C, H - Top - Bottom, W - Left - Right); Roll2d: the same extents
//
//   placements of x       placements of y     forward                            backward
//   Shard<2> and beyond   the same, derived   a halo: Top + Bottom rows after    of y's gradient, the other way
//                                             the piece; Roll |Down| on either
//                                             side
//   Shard<0>, Replicate   the same            nothing                            nothing
//   Shard<1>, Partial     does not compile: why::channels_are_cut, why::input_is_partial
//
// A rank without rows is refused, as on any level. y is stored. Nothing is added, so bits do not depend on the mesh.
#pragma once

#include <array>

#include "halogen/kernels/pointwise/offset.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/layers/offset_constants.hpp"
#include "halogen/layers/pad.hpp"

namespace halogen {
namespace detail {

struct OffsetForward {
  static constexpr const char* label = "halogen::offset";
  template <class S, class Reader>
  static kernels::OffsetRows<S, Reader> rows_of(const LaunchAt<S>& at, const Reader& reader, int sign, int first) {
    kernels::OffsetRows<S, Reader> rows{
        reader, depth_window(Window{}, at.layout().owned(at.launch().level, 0)), {}, first};
    for (int d = 0; d < spatial_dimensions; ++d)
      rows.offset[d] = sign * at.node().template as<OffsetConstants>().offset[d];
    return rows;
  }
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    kernels::ValueReader<S> input = at.value(0);
    for (int d = 0; d < spatial_dimensions; ++d) input.frame.periodic[d] = at.node().window[d].periodic;
    return rows_of(at, input, 1, 0);
  }
};

struct OffsetBackward {
  static constexpr const char *label = "halogen::offset_backward", *suffix = " backward";
  template <class S, Form>
  static auto rows(const LaunchAt<S>& at) {
    return OffsetForward::rows_of(at, at.windowed_gradient(0), -1, at.first_channel());
  }
};

constexpr void offset_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<OffsetForward>(node).read(planner.read(node, Pattern::window())));
}
constexpr void offset_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  planner.emit_input_gradients(planner.launch<OffsetBackward>(node).read(planner.gradient(reads, Pattern::adjoint())));
}

inline constexpr Operation crop_operation{"crop", offset_forward, offset_vjp};
inline constexpr Operation roll_operation{"roll", offset_forward, offset_vjp};

namespace types {
template <class Self, int Dimensions, const Operation& Op>
struct OffsetLayer : Module<Self> {
  constexpr Traced forward(Traced x) const {
    const Window windows[] = {Self::window(0), Self::window(1), Self::window(2)};
    const Traced y = add_layer(goes_on(x, windows), Op, &Self::constants);
    GraphDraft& graph = *x.graph;
    Node& node = graph.nodes[y.node];
    graph.slide(Dimensions, node.layer);
    for (int d = 0; d < spatial_dimensions; ++d) node.window[d] = windows[d];
    node.level = graph.level_through(node.level, node.window);
    return y;
  }
};

/// Points at each side of depth, height and width.
template <class Self, int Dimensions, int... Sides>
struct CropLayer : OffsetLayer<Self, Dimensions, crop_operation> {
  static_assert(sizeof...(Sides) == 2 * Dimensions && ((Sides >= 0) && ...),
                "a crop has a number of points for each side, 0 or more");
  static constexpr std::array<int, sizeof...(Sides)> sides{Sides...};
  static constexpr int before(int d) { return d < spatial_dimensions - Dimensions ? 0 : side(d, 0); }
  static constexpr Window window(int d) {
    if (d < spatial_dimensions - Dimensions) return {};
    return {.kernel = side(d, 0) + side(d, 1) + 1};
  }
  static constexpr OffsetConstants constants{{}, {before(0), before(1), before(2)}};

 private:
  static constexpr int side(int d, int which) {
    return sides[static_cast<std::size_t>(2 * (d - (spatial_dimensions - Dimensions)) + which)];
  }
};

template <class Self, int... Steps>
struct RollLayer : OffsetLayer<Self, static_cast<int>(sizeof...(Steps)), roll_operation> {
  static constexpr int dimensions = static_cast<int>(sizeof...(Steps));
  static constexpr std::array<int, sizeof...(Steps)> steps{Steps...};
  static constexpr int step(int d) {
    constexpr int first = spatial_dimensions - dimensions;
    return d < first ? 0 : steps[static_cast<std::size_t>(d - first)];
  }
  static constexpr Window window(int d) {
    const int reach = step(d) < 0 ? -step(d) : step(d);
    return {.kernel = 2 * reach + 1, .padding = reach, .periodic = reach > 0};
  }
  static constexpr OffsetConstants constants{{}, {-step(0), -step(1), -step(2)}};
};
}  // namespace types

}  // namespace detail

template <int Left, int Right>
struct Crop1d : detail::types::CropLayer<Crop1d<Left, Right>, 1, Left, Right> {};
template <int Top, int Bottom, int Left, int Right>
struct Crop2d : detail::types::CropLayer<Crop2d<Top, Bottom, Left, Right>, 2, Top, Bottom, Left, Right> {};
template <int Front, int Back, int Top, int Bottom, int Left, int Right>
struct Crop3d : detail::types::CropLayer<Crop3d<Front, Back, Top, Bottom, Left, Right>, 3, Front, Back, Top, Bottom,
                                         Left, Right> {};
template <int Right>
struct Roll1d : detail::types::RollLayer<Roll1d<Right>, Right> {};
template <int Down, int Right>
struct Roll2d : detail::types::RollLayer<Roll2d<Down, Right>, Down, Right> {};
template <int Deep, int Down, int Right>
struct Roll3d : detail::types::RollLayer<Roll3d<Deep, Down, Right>, Deep, Down, Right> {};

}  // namespace halogen
