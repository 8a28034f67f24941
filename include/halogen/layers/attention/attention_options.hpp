// The options that attention layers share.
#pragma once

#include <array>
#include <ratio>
#include <type_traits>

#include "halogen/attention/way.hpp"
#include "halogen/core/type_of.hpp"
#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/window_options.hpp"

namespace halogen {

/// A point attends to itself and to the points before it. Only for signals (N, C, W): planes and volumes have no order.
template <bool On = true>
struct IsCausal {};
/// Queries and keys are turned as RotaryEmbedding1d, 2d or 3d does.
template <int Dimensions, int Base = 10000>
struct Rotary {};
/// Queries and keys are first normalised over the channels of each head by LayerNorm or RMSNorm, as timm's qk_norm.
template <template <int, class> class Norm = LayerNorm>
struct QueryKeyNorm {};
/// How ranks that share a sample share the work (attention/way.hpp). The default is automatic.
template <ContextParallel Way>
struct ParallelBy {};
/// Grouped queries (Ainslie et al. 2023): keys and values have Count heads. The number of heads is a multiple of Count.
template <int Count>
struct KeyValueHeads {};
/// A learned bias for each head and each distance of two points along all dimensions, for fields of at most these
/// extents: relative_position_bias_table ((2 E_0 - 1) (2 E_1 - 1) ..., Heads), as BEiT (Bao et al. 2022) and Swin have
/// it. With tokens the table has three more rows, as BEiT's: a token's query of a point, a point's query of a token,
/// and two tokens. Every rank holds the table, and 4 bytes for each point.
template <int... Extents>
struct RelativeBias {};
/// A fixed bias of each pair of points, for fields of at most these extents: F{}(head, offset) is a float, where offset
/// is the std::array of the query's indices minus the key's in the whole field. -infinity hides the pair: an additive
/// mask. Every rank holds (2 E_0 - 1) (2 E_1 - 1) ... numbers for each head, and 4 bytes for each point. A token's bias
/// is 0.
template <class F, int... Extents>
struct DistanceBias {};
/// In training, each value of the softmax is set to 0 with probability P (std::ratio), as by
/// torch.nn.MultiheadAttention's dropout. The dropped values depend on the seed, the step, the layer and the two
/// points, but not on the mesh.
template <class P>
struct AttentionDropout {};

namespace detail {

struct AttentionLayerOptions {
  bool bias = true, is_causal = false;
  int rotary = 0, base = 0;  ///< dimensions; 0: not turned
  bool normed = false, centred = false;
  int key_heads = 0;  ///< 0: as many as heads
  ContextParallel parallel = ContextParallel::automatic;
  std::array<int, spatial_dimensions> grid{};  ///< of relative positions
  int grid_dimensions = 0;                     ///< 0: no such bias
  const char* of_distance = nullptr;           ///< the functor of a fixed bias (core/type_of.hpp); null: it is learned
  std::intmax_t dropped = 0, dropped_of = 1;   ///< the probability

  constexpr bool draws() const { return dropped > 0; }
  constexpr bool learns_bias() const { return grid_dimensions > 0 && of_distance == nullptr; }
  /// Whether it needs numbers of points that do not depend on the mesh.
  constexpr bool numbers_points() const {
    return grid_dimensions > 0 || draws() || parallel == ContextParallel::deterministic;
  }
  /// How many distances two points of the grid may have.
  constexpr int distances() const {
    int count = 1;
    for (int d = 0; d < grid_dimensions; ++d) count *= 2 * grid[static_cast<std::size_t>(d)] - 1;
    return count;
  }

  template <bool On>
  constexpr void set(Bias<On>) {
    bias = On;
  }
  template <bool On>
  constexpr void set(IsCausal<On>) {
    is_causal = On;
  }
  template <int Dimensions, int Base>
  constexpr void set(Rotary<Dimensions, Base>) {
    static_assert(Dimensions >= 1 && Dimensions <= spatial_dimensions && Base > 1, "Rotary<Dimensions (1 to 3), Base>");
    rotary = Dimensions, base = Base;
  }
  constexpr void set(QueryKeyNorm<LayerNorm>) { normed = centred = true; }
  constexpr void set(QueryKeyNorm<RMSNorm>) { normed = true; }
  template <ContextParallel Way>
  constexpr void set(ParallelBy<Way>) {
    parallel = Way;
  }
  template <int Count>
  constexpr void set(KeyValueHeads<Count>) {
    static_assert(Count > 0, "keys and values have heads");
    key_heads = Count;
  }
  template <int... Extents>
  constexpr void set(RelativeBias<Extents...>) {
    static_assert(sizeof...(Extents) >= 1 && sizeof...(Extents) <= spatial_dimensions && ((Extents > 0) && ...),
                  "RelativeBias<Extents...> of one to three dimensions");
    set_grid<Extents...>();
  }
  template <class F, int... Extents>
  constexpr void set(DistanceBias<F, Extents...>) {
    constexpr std::size_t dimensions = sizeof...(Extents);
    static_assert(dimensions >= 1 && dimensions <= spatial_dimensions && ((Extents > 0) && ...),
                  "DistanceBias<F, Extents...> of one to three dimensions");
    static_assert(
        std::is_invocable_r_v<float, const F&, int, std::array<int, dimensions>>,
        "DistanceBias's functor is called with a head and a std::array of as many offsets as there are extents");
    set_grid<Extents...>();
    of_distance = address_of_type<F>;
  }
  template <int... Extents>
  constexpr void set_grid() {
    if (grid_dimensions > 0) throw "attention takes one RelativeBias or one DistanceBias";
    ((grid[static_cast<std::size_t>(grid_dimensions++)] = Extents), ...);
  }
  template <class P>
  constexpr void set(AttentionDropout<P>) {
    static_assert(P::num >= 0 && P::num < P::den, "a probability of dropping is 0 or more and less than 1");
    dropped = P::num, dropped_of = P::den;
  }
};
template <class... Options>
constexpr AttentionLayerOptions attention_options() {
  AttentionLayerOptions options;
  (options.set(Options{}), ...);
  return options;
}

}  // namespace detail
}  // namespace halogen
