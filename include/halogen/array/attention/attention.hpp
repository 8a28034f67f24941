// scaled_dot_product_attention(query, key, value): softmax(scale q k^T) v of each sample and head.
//
//   query (N, H, L, E), key (N, H, S, E), value (N, H, S, V) -> (N, H, L, V), as PyTorch's; with enable_gqa key and
//   value may have H / G heads, each shared by G neighbouring heads of the query
//
//   placement of all three  result      moves on that mesh dimension
//   Shard<0>, Shard<1>      the same    nothing: samples and heads are whole
//   Shard<2>                Shard<2>    keys and values travel round a ring, ranks - 1 messages a rank, balanced where
//                                       causal (attention/zigzag.hpp); or all goes by heads, two
//                                       all-to-alls (attention/way.hpp); or, deterministic,
//                                       all_gathers of keys and values, backward of queries too
//   Replicate               Replicate   nothing
//
// Several mesh dimensions may cut the sequence; their ranks are one ring. Refused: Shard<3>, Partial, different
// placements of the operands. Kept for backward: the result and one number for each query and head, log(sum of
// exp(logits)).
// Source: Milakov and Gimelshein 2018 (online softmax), Dao et al. 2022 (tiles, backward), Liu et al. 2023 (ring).
#pragma once

#include "halogen/array/attention/attention_stage.hpp"

namespace halogen {

/// softmax(scale query key^T) value of each sample and head, causal if options say so; in the value type (float for
/// two-byte types). Collective if the sequence is cut. Placements: see the table above.
///
///   Field y = hg::scaled_dot_product_attention(q, k, v, {.is_causal = true});
template <FieldOperand Q, FieldOperand K, FieldOperand V>
  requires detail::Attends<Q, K, V>
auto scaled_dot_product_attention(const Q& query, const K& key, const V& value, const AttentionOptions& options = {}) {
  detail::require_made("scaled_dot_product_attention", query, key, value);
  return detail::attention_of(detail::attention_call(options, nullptr, detail::attention_operands(query, key, value)));
}
template <FieldOperand Q, FieldOperand K, FieldOperand V, class Why = detail::WhyNoAttention<Q, K, V>>
  requires(!detail::Attends<Q, K, V>)
void scaled_dot_product_attention(const Q& query, const K& key, const V& value,
                                  const AttentionOptions& options = {}) = delete;

/// With a mask as PyTorch's attn_mask: (N, H, L, S), where N, H and L may be 1. Numbers are added to the logits; in a
/// mask of bool, true means that the key takes part. Where the mask is -infinity or false, the key has no effect on the
/// query, even if it is NaN. The result of a query that sees no key is 0 (PyTorch: NaN). Placements: along each mesh
/// dimension as the query, or Replicate; S is not cut. A mask that differs between queries has a number for each pair.
/// Its gradient is s of docs/attention.md, with an all_reduce if it is Replicate and the queries are cut.
///
///   Field y = hg::scaled_dot_product_attention(q, k, v, is_sea);  // (N, 1, 1, S), bool
template <FieldOperand Q, FieldOperand K, FieldOperand V, FieldOperand Mask>
  requires detail::Attends<Q, K, V> && detail::Masks<Mask, Q, K, V>
auto scaled_dot_product_attention(const Q& query, const K& key, const V& value, const Mask& attn_mask,
                                  const AttentionOptions& options = {}) {
  detail::require_made("scaled_dot_product_attention", query, key, value, attn_mask);
  return detail::attention_of(detail::attention_call(
      options, nullptr,
      std::tuple_cat(detail::attention_operands(query, key, value),
                     std::tuple(detail::mask_operand<detail::computed_of<Q, K, V>>(attn_mask)))));
}
template <FieldOperand Q, FieldOperand K, FieldOperand V, FieldOperand Mask,
          class Why = detail::WhyNoMask<detail::placed_of<expression_of<Q>, expression_of<K>, expression_of<V>>, Mask>>
  requires detail::Attends<Q, K, V> && (!detail::Masks<Mask, Q, K, V>)
void scaled_dot_product_attention(const Q& query, const K& key, const V& value, const Mask& attn_mask,
                                  const AttentionOptions& options = {}) = delete;

}  // namespace halogen
