// What attention does to a pair of a query and a key, apart from their product: a bias of the logit, whether the query
// sees the key, and whether dropout keeps the pair's share. A causal query does not see later keys. A bias of -infinity
// also hides a pair. A hidden pair has no effect: not even a NaN passes between its query and key. Backward, all pairs
// of a query that does not count are hidden.
#pragma once

#include <cstdint>
#include <limits>

#include "halogen/kernels/attention/attention_rows.hpp"

namespace halogen::kernels {

/// A number for each pair: data[sample, head, n(query) * query_stride + n(key) * key_stride]. Here n(i) is the number
/// that a list gives to global position i. Without a list it is the position.
///   a mask (N, H, L, S)       query_stride S, key_stride 1; 0 for a dimension of extent 1
///   of relative positions     query_stride 1, key_stride -1, numbers by rows of the table
/// Tokens have the first `tokens` numbers, and no distance. Beside them pairs have one of three other entries:
/// token_entry for a token's query of a point, the next for a point's query of a token, the next for two tokens.
///
/// `of_keys`, if set, is a second mask, a number for each key: of_keys[sample, head, key]. It is added.
template <class T>
struct PairBias {
  T* data = nullptr;  ///< null if there is no bias
  index_t sample_stride = 0, head_stride = 0, query_stride = 0, key_stride = 0;
  const int *query_numbers = nullptr, *key_numbers = nullptr;  ///< for all global positions
  int tokens = 0;
  index_t token_entry = 0, token_stride = 0;
  const std::remove_const_t<T>* of_keys = nullptr;
  index_t of_keys_sample = 0, of_keys_head = 0;
  const int* key_places = nullptr;  ///< the place of each key's number; null: its position

  HALOGEN_FUNCTION T& at(const AttentionShape& shape, index_t sample, index_t head, index_t query, index_t key) const {
    const index_t q = number(query_numbers, shape.query_positions.at(query));
    const index_t k = number(key_numbers, shape.key_positions.at(key));
    return data[sample * sample_stride + head * head_stride + entry(q, k)];
  }
  HALOGEN_FUNCTION index_t entry(index_t q, index_t k) const {
    if (q >= tokens && k >= tokens) return q * query_stride + k * key_stride;
    return token_entry + (q >= tokens ? 1 : k >= tokens ? 0 : 2) * token_stride;
  }
  HALOGEN_FUNCTION static index_t number(const int* numbers, index_t position) {
    return numbers == nullptr ? position : numbers[position];
  }
  /// What is added to the logit: 0 if there is no bias.
  HALOGEN_FUNCTION std::remove_const_t<T> value(const AttentionShape& shape, index_t sample, index_t head,
                                                index_t query, index_t key) const {
    if (data == nullptr) return std::remove_const_t<T>(0);
    const T own = at(shape, sample, head, query, key);
    if (of_keys == nullptr) return own;
    const index_t place = number(key_places, shape.key_positions.at(key));
    return own + of_keys[sample * of_keys_sample + head * of_keys_head + place];
  }
  HALOGEN_FUNCTION static bool hides(T value) {
    return value == -std::numeric_limits<std::remove_const_t<T>>::infinity();
  }

  /// As in HeadRows::member_of_groups.
  PairBias member_of_groups(index_t heads, index_t number) const {
    PairBias member = *this;
    member.data = data == nullptr ? nullptr : data + number * head_stride;
    member.head_stride = heads * head_stride;
    if (of_keys != nullptr) member.of_keys += number * of_keys_head;
    member.of_keys_head = heads * of_keys_head;
    return member;
  }
};

/// Dropout of shares. The share of a pair becomes 0 with some probability, else it is multiplied by `kept`. The random
/// bits of the pair are mixed from bits of the query and bits of the key. So neither of these depends on where the
/// other is.
template <class T>
struct PairDropout {
  const std::uint32_t *queries = nullptr, *keys = nullptr;  ///< of (samples, heads, queries) of this rank; of all keys
  index_t sample_stride = 0, head_stride = 0;
  std::uint32_t below = 0;  ///< a pair with smaller bits is dropped
  T kept = 1;

  HALOGEN_FUNCTION bool draws() const { return queries != nullptr; }
  HALOGEN_FUNCTION T factor(const AttentionShape& shape, index_t sample, index_t head, index_t query,
                            index_t key) const {
    if (!draws()) return T(1);
    const std::uint32_t bits =
        mixed(queries[sample * sample_stride + head * head_stride + query] ^ keys[shape.key_positions.at(key)]);
    return bits < below ? T(0) : kept;
  }
  /// The finaliser of MurmurHash3 (Appleby, 2011). Each bit of its result depends on each bit of its argument.
  HALOGEN_FUNCTION static std::uint32_t mixed(std::uint32_t x) {
    x = (x ^ (x >> 16)) * 0x85EBCA6BU;
    x = (x ^ (x >> 13)) * 0xC2B2AE35U;
    return x ^ (x >> 16);
  }
};

/// What is done to all pairs of an attention.
template <class T>
struct PairTerms {
  PairBias<const T> bias;
  PairDropout<T> dropout;

  PairTerms member_of_groups(index_t heads, index_t number) const {
    PairTerms member{bias.member_of_groups(heads, number), dropout};
    if (dropout.draws()) member.dropout.queries += number * dropout.head_stride;
    member.dropout.head_stride = heads * dropout.head_stride;
    return member;
  }
};

/// d of a query whose output has no gradient. Such a query does not count: it is treated as if it saw no key, so that
/// not even its NaN reaches a gradient.
template <class T>
inline constexpr T uncounted_dot = std::numeric_limits<T>::lowest();

namespace detail {

/// A tile of pairs on the host. Its rows are the keys that begin at `key` and its columns the queries that begin at
/// `query`, or the other way round.
template <class T>
struct TilePairs {
  const AttentionShape& shape;
  const PairTerms<T>& terms;
  index_t sample, head, key, query;
  bool keys_are_rows;
  index_t rows, columns;    ///< columns beyond these are not read
  const T* dots = nullptr;  ///< backward: d of the tile's queries

  bool counts(index_t of_tile) const { return dots == nullptr || dots[of_tile] != uncounted_dot<T>; }
  bool all_count() const {
    const index_t queries = keys_are_rows ? columns : rows;
    return dots == nullptr || std::find(dots, dots + queries, uncounted_dot<T>) == dots + queries;
  }
  bool hides_later_keys() const { return shape.hides(query, key + (keys_are_rows ? rows : columns) - 1); }
  bool has_bias() const { return terms.bias.data != nullptr; }
  bool hides() const { return has_bias() || hides_later_keys() || !all_count(); }
  bool sees(index_t i, index_t x) const {
    const index_t k = key + (keys_are_rows ? i : x), q = query + (keys_are_rows ? x : i);
    return counts(keys_are_rows ? x : i) && !shape.hides(q, k) &&
           !terms.bias.hides(terms.bias.value(shape, sample, head, q, k));
  }

  /// tile = scale tile + bias; -infinity where the bias hides a pair. Does nothing without a bias.
  void add_bias(T scale, T* tile) const {
    if (!has_bias()) return;
    each([&](index_t i, index_t x, index_t q, index_t k) {
      const T bias = terms.bias.value(shape, sample, head, q, k);
      T& logit = tile[i * tile_columns<T> + x];
      logit = terms.bias.hides(bias) ? bias : scale * logit + bias;
    });
  }
  /// Multiplies each value by the factor that dropout gives to its pair.
  void drop(T* tile) const {
    if (!terms.dropout.draws()) return;
    each([&](index_t i, index_t x, index_t q, index_t k) {
      tile[i * tile_columns<T> + x] *= terms.dropout.factor(shape, sample, head, q, k);
    });
  }

  /// Writes `hidden` where a causal query does not see a key.
  void hide_later_keys(T hidden, T* tile) const {
    constexpr index_t all = tile_columns<T>;
    for (index_t i = 0; i < rows; ++i) {
      const index_t begin = keys_are_rows ? 0 : std::clamp<index_t>(shape.keys_seen(query + i + 1) - key, 0, all);
      const index_t end = keys_are_rows ? std::clamp<index_t>(shape.first_that_sees(key + i) - query, 0, all) : all;
      if (begin < end) std::fill_n(tile + i * all + begin, end - begin, hidden);
    }
  }
  /// Writes `hidden` where a query does not see a key.
  void hide(T hidden, T* tile) const {
    if (hides_later_keys()) hide_later_keys(hidden, tile);
    if (!all_count())
      for (index_t i = 0; i < rows; ++i)
        for (index_t x = 0; x < columns; ++x)
          if (!counts(keys_are_rows ? x : i)) tile[i * tile_columns<T> + x] = hidden;
    if (!has_bias()) return;
    each([&](index_t i, index_t x, index_t q, index_t k) {
      if (terms.bias.hides(terms.bias.value(shape, sample, head, q, k))) tile[i * tile_columns<T> + x] = hidden;
    });
  }

  /// to[e][x] += sum over rows i of values[i][e] * tile[i][x]. Pairs that are not seen have 0 in the tile. They are
  /// left out if a value is not finite, since 0 times it would not be 0.
  void multiply(const TileRows<T>& values, int width, const T* tile, T* to) const {
    if (!hides() || are_finite(values, rows, width))
      return multiply_tile<true>(width, values.data, 1, values.step, tile, rows, to);
    for (index_t i = 0; i < rows; ++i)
      for (int e = 0; e < width; ++e)
        for (index_t x = 0; x < columns; ++x)
          if (sees(i, x))
            to[e * tile_columns<T> + x] += values.data[i * values.step + e] * tile[i * tile_columns<T> + x];
  }

 private:
  /// Calls f(row, column, query, key) for each pair.
  template <class F>
  void each(F f) const {
    for (index_t i = 0; i < rows; ++i)
      for (index_t x = 0; x < columns; ++x) f(i, x, query + (keys_are_rows ? x : i), key + (keys_are_rows ? i : x));
  }
};

}  // namespace detail
}  // namespace halogen::kernels
