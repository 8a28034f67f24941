// Device: the parts of attention's kernels: rows of queries, keys or values in scratch, and products of tiles by the
// warps of a team.
#pragma once

#include "halogen/kernels/attention/attention_pairs.hpp"
#include "halogen/kernels/convolution/device_mma.hpp"
#include "halogen/kernels/convolution/device_staging.hpp"

namespace halogen::kernels::device {

/// `Rows` positions with 32 others, and `Width` values of their embeddings at once. A longer embedding goes through
/// scratch in several parts. A wider result is computed by several teams.
template <int Rows, int Width>
struct AttentionTile {
  static constexpr int rows = Rows, width = Width, others = warp_lanes;
  static constexpr int pitch = Width + 4, pair_pitch = others + 4;  ///< rows of an operand begin in other banks
  static constexpr int pair_blocks = Rows / mma_rows * (others / mma_columns);
  static constexpr int result_blocks = Rows / mma_rows * (Width / mma_columns);

  /// How many parts an embedding has.
  KOKKOS_FORCEINLINE_FUNCTION static constexpr int parts(int embedding) { return (embedding + Width - 1) / Width; }
};

/// How many blocks of 16 x 8 a warp has, if a team has `Blocks`.
template <int Blocks>
inline constexpr int held_blocks = held_lanes == 1 ? (Blocks + team_warps - 1) / team_warps : Blocks;

/// The blocks that a warp has of a tile that is `Columns` blocks wide. They are sums in registers.
template <class T, int Blocks, int Columns>
struct HeldBlocks {
  Sum<T> sum[held_blocks<Blocks>];

  KOKKOS_FORCEINLINE_FUNCTION void clear() {
    HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < held_blocks<Blocks>; ++i) sum[i].clear();
  }

  /// Calls f(sum, first row, first column) for each block.
  template <class Team, class F>
  KOKKOS_FORCEINLINE_FUNCTION void each_block(const Team& team, F f) {
    HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < held_blocks<Blocks>; ++i) {
      const int block = team.team_rank() + i * team.team_size();
      if (block < Blocks) f(sum[i], block / Columns * mma_rows, block % Columns * mma_columns);
    }
  }

  /// Adds left(row, k) * right(k, column) for k in [0, Inner).
  template <int Inner, class Team, class ReadLeft, class ReadRight>
  KOKKOS_FORCEINLINE_FUNCTION void multiply(const Team& team, bool split, ReadLeft read_left, ReadRight read_right) {
    const bool one_column = team.team_size() % Columns == 0;  // all blocks of a warp are in one column
    for (int k = 0; k < Inner; k += mma_inner) {
      Right<T> right;
      HALOGEN_DEVICE_UNROLL
      for (int i = 0; i < held_blocks<Blocks>; ++i) {
        const int block = team.team_rank() + i * team.team_size();
        if (block >= Blocks) continue;
        const int row = block / Columns * mma_rows, column = block % Columns * mma_columns;
        if (i == 0 || !one_column)
          right.load(split, [&](int inner, int c) { return read_right(k + inner, column + c); });
        Left<T> left;
        left.load(split, [&](int r, int inner) { return read_left(row + r, k + inner); });
        multiply_add(left, right, sum[i], split);
      }
    }
  }

  /// Calls f(row, column, value, other's value) for each element.
  template <class Team, class F>
  KOKKOS_FORCEINLINE_FUNCTION void each_with(const Team& team, const HeldBlocks& other, F f) const {
    HALOGEN_DEVICE_UNROLL
    for (int i = 0; i < held_blocks<Blocks>; ++i) {
      const int block = team.team_rank() + i * team.team_size();
      if (block >= Blocks) continue;
      const int row = block / Columns * mma_rows, column = block % Columns * mma_columns;
      each_lane([&](int lane, int slot) {
        HALOGEN_DEVICE_UNROLL
        for (int j = 0; j < 4; ++j)
          f(row + Sum<T>::row(lane, j), column + Sum<T>::column(lane, j), sum[i].value[slot][j],
            other.sum[i].value[slot][j]);
      });
    }
  }

  /// value = f(row, column, value) for each element.
  template <class Team, class F>
  KOKKOS_FORCEINLINE_FUNCTION void change(const Team& team, F f) {
    each_block(team, [&](Sum<T>& one, int row, int column) {
      each_lane([&](int lane, int slot) {
        HALOGEN_DEVICE_UNROLL
        for (int i = 0; i < 4; ++i)
          one.value[slot][i] = f(row + Sum<T>::row(lane, i), column + Sum<T>::column(lane, i), one.value[slot][i]);
      });
    });
  }
};

/// to[i][e] = factor * values [column, column + Width) of position first + i. Positions from `count` on are 0, and so
/// are values after the embedding's end. Each warp takes a position.
template <int Rows, int Width, class T, class Team, class S>
KOKKOS_FORCEINLINE_FUNCTION void stage_positions(const Team& team, const HeadRows<const S>& rows, index_t sample,
                                                 index_t head, index_t first, index_t count, int column, int embedding,
                                                 T factor, T* to) {
  each_of_warps(team, Rows, [&](int i) {
    T* line = to + i * (Width + 4);
    if (i >= count) return each_of_lanes(Width, [&](int e) { line[e] = T(0); });
    const S* from = rows.row(sample, head, first + i) + column;
    transfer_by_lanes<2, T>(
        Width, [&](int e) { return column + e < embedding ? factor * static_cast<T>(from[e]) : T(0); },
        [&](int e, T value) { line[e] = value; });
  });
}

/// products = a b^T for a block of positions (factor * a, in `own`) and the 32 positions from `first` on, below `end`
/// (b, in `other`). The sum is over the whole embedding. `own` is staged if `starts` is true, or if the embedding has
/// several parts.
template <class Tile, class T, class Team, class A, class B, class Products>
KOKKOS_FORCEINLINE_FUNCTION void add_products(const Team& team, const AttentionTask& task, const HeadRows<const A>& a,
                                              const HeadRows<const B>& b, int embedding, T factor, index_t first,
                                              index_t end, bool starts, bool split, T* own, T* other,
                                              Products& products) {
  const int parts = Tile::parts(embedding);
  products.clear();
  HALOGEN_DEVICE_ROLLED
  for (int part = 0; part < parts; ++part) {
    team.team_barrier();  // nobody reads the old contents any more
    if (parts > 1 || starts)
      stage_positions<Tile::rows, Tile::width>(team, a, task.sample, task.head, task.begin, task.end - task.begin,
                                               part * Tile::width, embedding, factor, own);
    stage_positions<Tile::others, Tile::width>(team, b, task.sample, task.head, first, end - first, part * Tile::width,
                                               embedding, T(1), other);
    team.team_barrier();
    products.template multiply<Tile::width>(
        team, split, [&](int row, int e) { return own[row * Tile::pitch + e]; },
        [&](int e, int column) { return other[column * Tile::pitch + e]; });
  }
}

/// Whether no staged value of `Rows` positions is infinite or NaN. Every warp checks all values.
template <int Rows, int Width, class T>
KOKKOS_FORCEINLINE_FUNCTION bool are_finite(const T* staged) {
  T zero = 0;
  each_of_lanes(Rows * Width, [&](int i) { zero += staged[i / Width * (Width + 4) + i % Width] * T(0); });
  return sum_of_lanes(zero) == T(0);
}

/// Whether some pair of a tile may be hidden. The tile has queries from `query` on and keys up to `last_key`.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION bool hides_of_tile(const PairBias<const T>& bias, const AttentionShape& shape,
                                               index_t query, index_t last_key) {
  return bias.data != nullptr || shape.hides(query, last_key);
}
/// Whether a query sees a key.
template <class T>
KOKKOS_FORCEINLINE_FUNCTION bool sees(const PairBias<const T>& bias, const AttentionShape& shape, index_t sample,
                                      index_t head, index_t query, index_t key) {
  return !shape.hides(query, key) && !bias.hides(bias.value(shape, sample, head, query, key));
}

/// sums += pairs * staged for a tile: pairs[row][i], staged[i][column]. If the tile hides pairs, these are 0 in
/// `pairs`. They are left out if a staged value is not finite, since 0 times it would not be 0. is_seen(row, i).
template <class Tile, class T, class Team, class IsSeen, class Sums>
KOKKOS_FORCEINLINE_FUNCTION void multiply_seen(const Team& team, bool split, bool hides, const T* pairs,
                                               const T* staged, IsSeen is_seen, Sums& sums) {
  if (hides && !are_finite<Tile::others, Tile::width>(staged)) {
    sums.change(team, [&](int row, int column, T sum) {
      HALOGEN_DEVICE_ROLLED
      for (int i = 0; i < Tile::others; ++i)
        if (is_seen(row, i)) sum += pairs[row * Tile::pair_pitch + i] * staged[i * Tile::pitch + column];
      return sum;
    });
    return;
  }
  sums.template multiply<Tile::others>(
      team, split, [&](int row, int i) { return pairs[row * Tile::pair_pitch + i]; },
      [&](int i, int column) { return staged[i * Tile::pitch + column]; });
}

}  // namespace halogen::kernels::device
