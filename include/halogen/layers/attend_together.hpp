// Attention of the points of a field and of tokens (vectors for each sample): each point and token attends to all
// points and tokens. MultiheadAttention of several values uses it.
//
//   qkv: (N, (Heads + 2 KeyHeads) E, H, W), tokens: (N, Count (Heads + 2 KeyHeads) E), one token after the other
//   -> of points (N, Heads E, H, W), of tokens (N, Count Heads E)
//
// Keys and values of the tokens come before those of the points of the first piece, and go round the ring with them.
// Each rank computes a token's logits for its own keys. This needs two all_reduces for the softmax and one for its sum.
// Backward needs the ring, and one all_reduce for each of the tokens' gradients. In deterministic attention all keys
// and values are gathered for the tokens too.
#pragma once

#include <cmath>

#include "halogen/array/attention_traffic.hpp"
#include "halogen/array/statistics.hpp"
#include "halogen/autograd/attention.hpp"
#include "halogen/autograd/concatenated_pieces.hpp"
#include "halogen/autograd/contraction.hpp"
#include "halogen/autograd/pieces.hpp"
#include "halogen/autograd/rearranged.hpp"
#include "halogen/autograd/reshaped.hpp"
#include "halogen/layers/attention_numbers.hpp"
#include "halogen/layers/function.hpp"

namespace halogen::detail {

/// (N, count, L, E) from (N, All E, L), which has All heads one after the other: `count` heads starting at `first`.
template <int All, class Points>
auto some_heads(const Points& points, int first, int count) {
  const index_t width = points.extent(1) / All;
  return transpose<2, 3>(unflatten<1>(slice<1>(points, first * width, (first + count) * width), count, -1));
}
/// (N, channels, Count): tokens side by side, as points.
template <int Count, class Tokens>
auto rows_of(const Tokens& tokens) {
  return stored(transpose<1, 2>(unflatten<1>(tokens, Count, -1)));
}

template <int Heads, int KeyHeads, int Count, AttentionLayerOptions Options>
struct PointsAttend {
  static constexpr int all = Heads + 2 * KeyHeads;

  static TrafficUse traffic(const FunctionPlace& place, bool backward) {
    const Layout& layout = place.layout;
    const auto [queries, rank] = layout.sequence(place.level[0]);
    Cut keys = queries;
    for (int part = 1; part <= keys.parts(); ++part) keys.bounds[static_cast<std::size_t>(part)] += Count;
    const index_t width = place.channels[0] / all;
    return attention_traffic({layout.samples(), Heads, KeyHeads, width, width, queries, keys, rank, false,
                              Options.parallel, layout.value_bytes()},
                             backward);
  }

  template <class Field, class Tokens>
  auto operator()(const Field& qkv, const Tokens& tokens) const {
    constexpr int last = placed_at<Field>::rank - 1;
    const auto points = stored(flatten_pieces<2, last>(qkv));
    const auto both = stored(concatenate_pieces<2>(rows_of<Count>(tokens), points));
    using S = typename stored_of<Field>::type;  // two-byte values are sent as two bytes
    const auto seen = attention_of(
        {.enable_gqa = Heads != KeyHeads, .parallel = Options.parallel}, pair_numbers<Options, Count>(qkv, qkv),
        attention_operands(held<S>(some_heads<all>(points, 0, Heads)), held<S>(some_heads<all>(both, Heads, KeyHeads)),
                           held<S>(some_heads<all>(both, Heads + KeyHeads, KeyHeads))));
    return unflatten_pieces<2, last>(flatten<1, 2>(transpose<2, 3>(seen)), qkv);
  }
};

template <int Heads, int KeyHeads, int Count, AttentionLayerOptions Options>
struct TokensAttend {
  static constexpr int all = Heads + 2 * KeyHeads;

  template <class Tokens, class Field>
  auto operator()(const Tokens& tokens, const Field& qkv) const {
    constexpr int last = placed_at<Field>::rank - 1;
    const auto rows = rows_of<Count>(tokens);
    const auto both = stored(concatenate_pieces<2>(rows, flatten_pieces<2, last>(qkv)));
    if constexpr (Options.parallel == ContextParallel::deterministic)
      return seen_by_all(rows, both, qkv);
    else
      return seen_where_they_lie(rows, both);
  }

 private:
  /// Each rank gathers all keys and values and takes them in their order.
  template <class Rows, class Both, class Field>
  static auto seen_by_all(const Rows& rows, const Both& both, const Field& qkv) {
    using S = typename stored_of<Field>::type;
    const auto gathered = [&](int first) {
      const auto heads = some_heads<all>(both, first, KeyHeads);
      using Cut = typename std::decay_t<decltype(heads)>::placed;
      return redistribute<typename field_of<S, typename placed_instead<2, replicate_code, Cut>::type>::type>(heads);
    };
    const auto seen = attention_of(
        {.enable_gqa = Heads != KeyHeads, .parallel = Options.parallel}, pair_numbers<Options, Count>(qkv, qkv),
        attention_operands(held<S>(some_heads<all>(rows, 0, Heads)), gathered(Heads), gathered(Heads + KeyHeads)));
    return flatten<1, 3>(transpose<1, 2>(seen));  // (N, K, H, E), then (N, K H E)
  }

  template <class Rows, class Both>
  static auto seen_where_they_lie(const Rows& rows, const Both& both) {
    const auto query =
        unflatten<1>(some_heads<all>(rows, 0, Heads), KeyHeads, Heads / KeyHeads);  // (N, G, H / G, K, E)
    const double scale = 1 / std::sqrt(static_cast<double>(query.extent(4)));
    const auto logits = einsum<"nghke,ngle->nghkl">(query, some_heads<all>(both, Heads, KeyHeads));
    const auto share = softmax<4>(logits * static_cast<typename decltype(logits)::value_type>(scale));
    using Whole = field_of_t<std::decay_t<decltype(query)>>;
    const auto seen =
        redistribute<Whole>(einsum<"nghkl,ngle->nghke">(share, some_heads<all>(both, Heads + KeyHeads, KeyHeads)));
    return flatten<1, 3>(transpose<1, 2>(flatten<1, 2>(seen)));
  }
};

}  // namespace halogen::detail
