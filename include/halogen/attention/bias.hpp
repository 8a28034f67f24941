// The bias of attention: a number for each pair of a query and a key, added to their logit. It is a mask (N, H, L, S),
// whose extents except S may be 1, or a table (N, H, 1, T) of relative positions. This file says how kernels read it
// and which extents and cuts it must have.
#pragma once

#include <string>

#include "halogen/attention/pair_numbers.hpp"
#include "halogen/comm/error.hpp"
#include "halogen/kernels/attention/attention_pairs.hpp"

namespace halogen::detail {

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

}  // namespace halogen::detail
