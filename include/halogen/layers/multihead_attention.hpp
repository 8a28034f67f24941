// MultiheadAttention<Channels, Heads>: each point of a field attends to all points (Vaswani et al., 2017), as
// torch.nn.MultiheadAttention of (N, H W, C):
//
//   q, k, v = qkv(x);  y = proj(o),  o[n, h, p] = sum over all points j of softmax_j(q[p] k[j] / sqrt(C / Heads)) v[j]
//
//   x: (N, C, H, W), (N, C, W) or (N, C, D, H, W) -> y: the same; parameters: qkv.weight (3 C, C), qkv.bias (3 C),
//   proj.weight (C, C), proj.bias (C)
//
//   placements of x        placements of y   forward                        backward
//   Shard<2> and beyond    the same          keys and values round the ring twice round the ring; the bucket
//                                            of ranks that share a sample
//   Shard<0>, Replicate    the same          nothing                        the bucket
//   Shard<1>, Partial      does not compile: why::channels_are_cut, why::input_is_partial
//
// A point has no position here: add what depends on it before. The points of a rank are its part of the sequence, so
// nothing is gathered or renumbered, whatever is cut. Halo: none. Backward computes attention again (docs/extending.md,
// Function). Accumulation: docs/attention.md. Errors: why::groups_do_not_divide where heads do not divide channels.
#pragma once

#include "halogen/autograd/attention.hpp"
#include "halogen/autograd/pieces.hpp"
#include "halogen/autograd/reshaped.hpp"
#include "halogen/layers/function.hpp"
#include "halogen/layers/linear.hpp"

namespace halogen {

/// Of query, key and value one after the other in 3 C channels: (N, 3 C, ...) -> (N, C, ...), C a multiple of Heads.
template <int Heads>
struct AttendToAll {
  template <class Field>
  auto operator()(const Field& qkv) const {
    constexpr int last = placed_at<Field>::rank - 1;
    const index_t channels = qkv.extent(1) / 3;
    const auto points = stored(flatten_pieces<2, last>(qkv));  // (N, 3 C, L)
    const auto heads = [&](int which) {                        // (N, Heads, L, C / Heads)
      return transpose<2, 3>(unflatten<1>(slice<1>(points, which * channels, (which + 1) * channels), Heads, -1));
    };
    const auto seen = scaled_dot_product_attention(heads(0), heads(1), heads(2));
    return unflatten_pieces<2, last>(flatten<1, 2>(transpose<2, 3>(seen)), qkv);
  }
};

/// Options: Bias<bool> of qkv (true).
template <int Channels, int Heads, class... Options>
struct MultiheadAttention : Module<MultiheadAttention<Channels, Heads, Options...>> {
  static_assert(Heads > 0, "attention has heads");

  constexpr Traced forward(Traced x) const {
    constexpr Named<"qkv", Linear<Channels, 3 * Channels, Options...>> qkv;
    constexpr Function<AttendToAll<Heads>, halogen::Channels<Channels>> attend;
    constexpr Named<"proj", Linear<Channels, Channels>> proj;
    if (Channels % Heads != 0) x.graph->refuse(Misfit::Kind::groups_do_not_divide, x.graph->layers, Heads, Channels);
    return proj(attend(qkv(x)));
  }
};

}  // namespace halogen
