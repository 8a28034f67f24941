// The bias of attention: a number for each pair of a query and a key, added to their logit. It is a mask (N, H, L, S),
// whose extents except S may be 1, or a table (N, H, 1, T) of relative positions. This file says how kernels read it,
// which conditions it must meet, and where its gradient is summed.
#pragma once

#include <limits>
#include <string>
#include <tuple>

#include "halogen/array/attention/attention_operands.hpp"
#include "halogen/array/attention/head_rows.hpp"
#include "halogen/array/evaluate/moved.hpp"
#include "halogen/array/evaluate/stored.hpp"
#include "halogen/kernels/attention/attention_pairs.hpp"

namespace halogen::detail {

using PositionTable = Lasting<Kokkos::View<int*, memory_space>>;

/// Positions in the order of their numbers, and the numbers in this order. Empty if this is the order of the sequence.
struct PositionOrder {
  PositionTable positions, numbers;
  bool moves() const { return positions.extent(0) > 0; }
};

/// Which of the two are in the order of their numbers, if they have such an order.
struct InOrder {
  bool queries = false, keys = false;
};

/// The numbers of the positions of all queries and all keys, if the order of the sequences depends on the mesh. If the
/// bias is a table of relative positions, a query at n reads entry n - m + centre for a key at m. The first `tokens`
/// numbers are those of tokens, which have three entries after those of `distances` (kernels::PairBias).
struct PairNumbers {
  PositionTable queries, keys;
  index_t count = 0;  ///< numbers of queries are below it
  bool of_table = false;
  index_t centre = 0;
  int tokens = 0;
  index_t distances = 0;
  PositionOrder query_order, key_order;  ///< for deterministic attention

  const int* of_queries(InOrder in) const {
    return (in.queries && query_order.moves() ? query_order.numbers : queries).data();
  }
  const int* of_keys(InOrder in) const { return (in.keys && key_order.moves() ? key_order.numbers : keys).data(); }
};

/// Why a bias does not fit operands with the placements Where; void if it fits. Along a mesh dimension it must have
/// their placement or be Replicate.
template <class Where, class Own>
constexpr auto bias_place_misfit() {
  if constexpr (Own::rank != 4) {
    return why::rank_differs<4, Own::rank>{};
  } else if constexpr (Own::codes.size() != Where::codes.size()) {
    return why::operands_differ_in_rank<static_cast<int>(Own::codes.size()), static_cast<int>(Where::codes.size())>{};
  } else {
    constexpr int first = [] {
      for (std::size_t i = 0; i < Own::codes.size(); ++i)
        if (Own::codes[i] != replicate_code && Own::codes[i] != Where::codes[i]) return static_cast<int>(i);
      return -1;
    }();
    if constexpr (first >= 0)
      return why::redistribute_operand<first, typename placement_of<Own::codes[first]>::type, Replicate>{};
  }
}
template <class Where, class Bias>
constexpr auto bias_misfit() {
  if constexpr (FieldOperand<Bias>)
    return bias_place_misfit<Where, placed_at<Bias>>();
  else
    return why::rank_differs<4, 0>{};
}

/// Whether a rank that gets all points of some heads may lack rows of the bias, because they belong to other queries or
/// heads.
template <class Own>
inline constexpr bool bias_is_cut = [] {
  for (std::size_t i = 0; i < Own::codes.size(); ++i)
    if (Own::codes[i] == 1 || Own::codes[i] == 2) return true;
  return false;
}();

/// Throws CollectiveError if, in some dimension, the extent of a bias is neither 1 nor that of the operands.
template <class Bias, class Query, class Key>
void check_bias(const Bias& bias, const Query& query, const Key& key, bool is_table) {
  constexpr const char* beside[] = {"samples", "heads", "queries", "keys"};
  const auto wrong = [&](int d, index_t asked) {
    throw CollectiveError("attention: the bias has " + std::to_string(bias.extent(d)) + " points in dimension " +
                          std::to_string(d) + " beside " + std::to_string(asked) + " " + beside[d] + ": give it " +
                          (d < 3 ? "1 or " : "") + std::to_string(asked));
  };
  if (!(bias.mesh() == query.mesh()))
    throw CollectiveError("attention: the bias lies on another mesh than the query: distribute them on one");
  for (int d = 0; d < 3; ++d) {
    const index_t asked = d == 2 && is_table ? 1 : query.extent(d);
    if (bias.extent(d) != 1 && bias.extent(d) != asked) wrong(d, asked);
    if (bias.cut(d).parts() > 1 && bias.cut(d) != query.cut(d))
      throw CollectiveError("attention: the bias and the query are cut differently in dimension " + std::to_string(d) +
                            " of " + std::to_string(query.extent(d)) +
                            " points: give them the same cuts, by cut_as(one, the other) "
                            "where their extents are equal, or the bias Replicate where it has 1 point");
  }
  if (!is_table && bias.extent(3) != key.extent(2)) wrong(3, key.extent(2));
}

/// How kernels read this rank's part of a bias for these queries. A mask is in the order of the sequences.
template <class T, class Bias, class Query>
kernels::PairBias<T> pair_bias(const Bias& bias, const Query& query, const PairNumbers* numbers, InOrder in) {
  const auto view = strided_view(bias);
  kernels::PairBias<T> pairs;
  pairs.data = view.data;
  const auto stride = [&](int d, index_t first) {  // for a dimension whose first point here is that of the query
    const bool is_one = bias.extent(d) == 1;
    pairs.data += ((is_one ? 0 : first) - view.origin[d]) * view.stride[d];
    return is_one ? 0 : view.stride[d];
  };
  pairs.sample_stride = stride(0, query.offset(0));
  pairs.head_stride = stride(1, query.offset(1));
  pairs.query_stride = stride(2, 0);
  pairs.key_stride = stride(3, 0);
  if (numbers == nullptr) return pairs;
  if (numbers->of_table) {
    pairs.data += numbers->centre * view.stride[3];
    pairs.query_stride = view.stride[3], pairs.key_stride = -view.stride[3];
    pairs.tokens = numbers->tokens;
    pairs.token_entry = (numbers->distances - numbers->centre) * view.stride[3], pairs.token_stride = view.stride[3];
    pairs.query_numbers = numbers->of_queries(in), pairs.key_numbers = numbers->of_keys(in);
  } else {
    if (in.queries) pairs.query_numbers = numbers->query_order.positions.data();
    if (in.keys) pairs.key_numbers = numbers->key_order.positions.data();
  }
  return pairs;
}

/// Adds a mask of keys, (N or 1, H or 1, 1, S), to what kernels read of a bias.
template <class T, class Mask, class Query>
void add_key_mask(kernels::PairBias<const T>& pairs, const Mask& mask, const Query& query, const PairNumbers* numbers,
                  InOrder in) {
  const kernels::PairBias<const T> keys = pair_bias<const T>(mask, query, nullptr, in);
  pairs.of_keys = keys.data, pairs.of_keys_sample = keys.sample_stride, pairs.of_keys_head = keys.head_stride;
  if (numbers != nullptr && in.keys) pairs.key_places = numbers->key_order.positions.data();
}

/// The place of a bias's gradient: Partial where the bias is whole and the queries are cut, because each rank has a
/// part of the sum.
template <class Where, class Own>
struct bias_gradient_place;
template <class M, int Rank, int... Codes, class M2, int Rank2, int... Own>
struct bias_gradient_place<Placed<M, Rank, Codes...>, Placed<M2, Rank2, Own...>> {
  using type = Placed<M, Rank, (Own == replicate_code && Codes != replicate_code ? partial_code : Own)...>;
};

/// The field of the I-th of some biases, in T; no field if there are fewer.
template <class T, std::size_t I, class... Bias>
struct attention_bias_field {
  struct type {};
};
template <class T, std::size_t I, class... Bias>
  requires(I < sizeof...(Bias))
struct attention_bias_field<T, I, Bias...> {
  using Part = std::tuple_element_t<I, std::tuple<Bias...>>;
  using type = decltype(operand_field<T, typename Part::placed>(std::declval<const Part&>()));
};

template <class Where, class Mask>
using WhyNoMask = decltype(bias_misfit<Where, Mask>());
template <class Mask, class Q, class K, class V>
concept Masks = std::is_void_v<WhyNoMask<placed_of<expression_of<Q>, expression_of<K>, expression_of<V>>, Mask>>;

template <class... E>
using computed_of = std::common_type_t<typename expression_of<E>::value_type...>;

/// A mask as a bias of T.
template <class T, class Mask>
auto mask_operand(const Mask& mask) {
  if constexpr (std::is_same_v<typename expression_of<Mask>::value_type, bool>)
    return held<T>(where(mask, T(0), -std::numeric_limits<T>::infinity()));
  else
    return held<T>(as_expression(mask));
}

}  // namespace halogen::detail
