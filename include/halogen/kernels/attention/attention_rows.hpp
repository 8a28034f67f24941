// What the kernels of attention share: the layout of queries, keys and values in memory, which keys a causal query
// sees, and the product of small matrices of which the host's tiles are made.
#pragma once

#include <algorithm>
#include <limits>
#include <type_traits>

#include "halogen/core/half.hpp"
#include "halogen/kernels/vector/simd.hpp"
#include "halogen/placement/cut.hpp"

namespace halogen::kernels {

/// Rows of E neighbouring values, one for each sample, head and position of this rank.
template <class T>
struct HeadRows {
  T* data = nullptr;
  index_t sample_stride = 0, head_stride = 0, row_stride = 0;

  HALOGEN_FUNCTION T* row(index_t sample, index_t head, index_t position) const {
    return data + sample * sample_stride + head * head_stride + position * row_stride;
  }
  HALOGEN_FUNCTION HeadRows<const T> read_only() const { return {data, sample_stride, head_stride, row_stride}; }

  /// Heads come in groups of `heads` neighbouring ones. These are the rows of the `number`-th head of each group.
  HeadRows member_of_groups(index_t heads, index_t number) const {
    return {data + number * head_stride, sample_stride, heads * head_stride, row_stride};
  }

  /// Rows without gaps: `positions` rows of `width` values for each head.
  static HeadRows packed(T* data, index_t heads, index_t positions, index_t width) {
    return {data, heads * positions * width, positions * width, width};
  }
};

/// The global positions of rows: `count` of them, in order. The first `front` are neighbours, and the rest are
/// neighbours too.
struct Positions {
  index_t first = 0, count = 0;
  index_t front = 0, second = 0;  ///< the rest begin at position `second`; there is no rest if front is count

  static Positions of(const Interval& rows) { return {rows.begin, rows.size(), rows.size(), rows.end}; }
  static Positions of(const Interval& rows, const Interval& rest) {
    return {rows.begin, rows.size() + rest.size(), rows.size(), rest.begin};
  }

  HALOGEN_FUNCTION index_t at(index_t row) const { return row < front ? first + row : second + row - front; }
  /// How many of the rows have a smaller position.
  HALOGEN_FUNCTION index_t before(index_t position) const {
    return clamped(position - first, front) + clamped(position - second, count - front);
  }

 private:
  HALOGEN_FUNCTION static index_t clamped(index_t rows, index_t most) {
    return rows < 0 ? 0 : rows < most ? rows : most;
  }
};

/// One launch: the queries of a rank with one piece of keys.
struct AttentionShape {
  index_t samples = 0, heads = 0, queries = 0, keys = 0;
  int embedding = 0, value_embedding = 0;
  Positions query_positions, key_positions;
  bool is_causal = false;  ///< query i sees keys 0..i
  double scale = 1;

  /// How many keys of the piece queries [0, end) see. These are its first keys.
  HALOGEN_FUNCTION index_t keys_seen(index_t end) const {
    return is_causal ? key_positions.before(query_positions.at(end - 1) + 1) : keys;
  }
  /// The first of this rank's queries that sees key `key` of the piece.
  HALOGEN_FUNCTION index_t first_that_sees(index_t key) const {
    return is_causal ? query_positions.before(key_positions.at(key)) : 0;
  }
  /// Whether some query of [query, ...) does not see some key of [..., last_key].
  HALOGEN_FUNCTION bool hides(index_t query, index_t last_key) const {
    return is_causal && key_positions.at(last_key) > query_positions.at(query);
  }
};

/// The sample, the head and the block of positions of a team. In a causal triangle neighbouring teams have a long and a
/// short block, so that threads with equally many teams have equally much work.
struct AttentionTask {
  index_t sample, head, begin, end;

  HALOGEN_FUNCTION AttentionTask(index_t team, index_t heads, index_t positions, index_t block) {
    const index_t blocks = (positions + block - 1) / block, i = team % blocks;
    const index_t number = i % 2 == 0 ? i / 2 : blocks - 1 - i / 2;
    sample = team / blocks / heads;
    head = team / blocks % heads;
    begin = number * block;
    end = begin + block < positions ? begin + block : positions;
  }
  HALOGEN_FUNCTION static index_t count(const AttentionShape& shape, index_t positions, index_t block) {
    return shape.samples * shape.heads * ((positions + block - 1) / block);
  }
};

namespace detail {

// -- host ------------------------------------------------------------------------------------------------------------
// The matrices of a tile have one of the positions as columns, side by side in memory and one register block wide. The
// other operand is read value by value where it is. So nothing is transposed in the inner loops, and sums and maxima
// over the other position go down the columns.

inline constexpr int tile_vectors = vector_registers >= 32 ? 6 : 3;
template <class T>
inline constexpr int tile_columns = tile_vectors * wide_lanes<T>;
inline constexpr int tile_rows = 64;

/// to[i][x] (+)= sum over k of left(i, k) * right[k][x], for `Rows` rows of `Vectors` wide vectors. left(i, k) is
/// left[i * row_step + k * inner_step]. Products are added one after the other, from k = 0 on.
template <bool Accumulate, int Rows, int Vectors, class T>
inline void multiply_rows(const T* left, index_t row_step, index_t inner_step, const T* right, index_t right_pitch,
                          index_t inner, T* to, index_t to_pitch) {
  constexpr int wide = wide_lanes<T>;
  using V = Vector<T, wide>;
  V sum[Rows][Vectors];
  HALOGEN_UNROLL
  for (int i = 0; i < Rows; ++i) HALOGEN_UNROLL
  for (int v = 0; v < Vectors; ++v) sum[i][v] = Accumulate ? load<V>(to + i * to_pitch + v * wide) : V{};
  for (index_t k = 0; k < inner; ++k) {
    V column[Vectors];
    HALOGEN_UNROLL
    for (int v = 0; v < Vectors; ++v) column[v] = load<V>(right + k * right_pitch + v * wide);
    HALOGEN_UNROLL
    for (int i = 0; i < Rows; ++i) {
      const V value = V{} + left[i * row_step + k * inner_step];
      HALOGEN_UNROLL
      for (int v = 0; v < Vectors; ++v) sum[i][v] += value * column[v];
    }
  }
  HALOGEN_UNROLL
  for (int i = 0; i < Rows; ++i) HALOGEN_UNROLL
  for (int v = 0; v < Vectors; ++v) store(to + i * to_pitch + v * wide, sum[i][v]);
}

/// The same for any number of rows.
template <bool Accumulate, int Vectors, class T>
inline void multiply_columns(index_t rows, const T* left, index_t row_step, index_t inner_step, const T* right,
                             index_t right_pitch, index_t inner, T* to, index_t to_pitch) {
  constexpr int at_once = vector_registers >= 32 && Vectors <= 2 ? 8 : 4;  // sums enough to hide a product's latency
  index_t i = 0;
  for (; i + at_once <= rows; i += at_once)
    multiply_rows<Accumulate, at_once, Vectors>(left + i * row_step, row_step, inner_step, right, right_pitch, inner,
                                                to + i * to_pitch, to_pitch);
  for (; i < rows; ++i)
    multiply_rows<Accumulate, 1, Vectors>(left + i * row_step, row_step, inner_step, right, right_pitch, inner,
                                          to + i * to_pitch, to_pitch);
}

/// The same for the columns of a tile.
template <bool Accumulate, class T>
inline void multiply_tile(index_t rows, const T* left, index_t row_step, index_t inner_step, const T* right,
                          index_t inner, T* to) {
  multiply_columns<Accumulate, tile_vectors>(rows, left, row_step, inner_step, right, tile_columns<T>, inner, to,
                                             tile_columns<T>);
}

/// to[e][x] = factor * rows[x][e]; columns from `count` on are 0.
template <class T, class S>
inline void load_columns(const HeadRows<const S>& rows, index_t sample, index_t head, index_t first, index_t count,
                         int width, T factor, T* to) {
  for (index_t x = 0; x < tile_columns<T>; ++x) {
    if (x < count) {
      const S* row = rows.row(sample, head, first + x);
      for (int e = 0; e < width; ++e) to[e * tile_columns<T> + x] = factor * static_cast<T>(row[e]);
    } else {
      for (int e = 0; e < width; ++e) to[e * tile_columns<T> + x] = T(0);
    }
  }
}

/// rows[x][e] = to[e][x] * factor[x], or += if Add.
template <bool Add = false, class T, class Factor>
inline void store_columns(const T* from, index_t count, int width, const HeadRows<T>& rows, index_t sample,
                          index_t head, index_t first, Factor factor) {
  for (index_t x = 0; x < count; ++x) {
    T* row = rows.row(sample, head, first + x);
    const T by = factor(x);
    for (int e = 0; e < width; ++e) {
      const T value = from[e * tile_columns<T> + x] * by;
      row[e] = Add ? row[e] + value : value;
    }
  }
}

/// Some rows as values of T: in their own memory, or converted into `room` if they are stored in two bytes.
template <class T>
struct TileRows {
  const T* data;
  index_t step;
};

/// Whether no value of the rows is infinite or NaN.
template <class T>
inline bool are_finite(const TileRows<T>& rows, index_t count, int width) {
  using V = Vector<T>;
  V zeros{};
  T zero = 0;
  for (index_t i = 0; i < count; ++i) {
    const T* row = rows.data + i * rows.step;
    int e = 0;
    for (; e + lanes<T> <= width; e += lanes<T>) zeros += load<V>(row + e) * T(0);
    for (; e < width; ++e) zero += row[e] * T(0);
  }
  for (int l = 0; l < lanes<T>; ++l) zero += zeros[l];
  return zero == T(0);
}

/// `count` rows, beginning with `first`.
template <class T, class S>
inline TileRows<T> rows_as(const HeadRows<const S>& rows, index_t sample, index_t head, index_t first, index_t count,
                           int width, [[maybe_unused]] T* room) {
  if constexpr (std::is_same_v<T, S>) {
    return {rows.row(sample, head, first), rows.row_stride};
  } else {
    for (index_t i = 0; i < count; ++i) {
      const S* row = rows.row(sample, head, first + i);
      for (int e = 0; e < width; ++e) room[i * width + e] = static_cast<T>(row[e]);
    }
    return {room, width};
  }
}

}  // namespace detail
}  // namespace halogen::kernels
