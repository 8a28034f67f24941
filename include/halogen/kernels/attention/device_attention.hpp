// Device part of attention, forward. A team has a block of queries and, if the result is wide, some of its columns.
// Tensor cores compute the logits of 32 keys at a time. Their exponentials go through scratch, and tensor cores
// multiply them with the values. Accumulation: in T. kernels/convolution/device_mma.hpp says how float operands are
// rounded.
#pragma once

#include <limits>

#include "halogen/kernels/attention/device_attention_tile.hpp"

namespace halogen::kernels::device {

template <class T, class S>
struct AttentionForward {
  using Tile = AttentionTile<sizeof(T) == 4 ? 64 : 32, sizeof(T) == 4 ? 64 : 32>;
  static constexpr int rows = Tile::rows, others = Tile::others;

  AttentionShape shape;
  HeadRows<const S> query, key, value;
  PairTerms<T> terms;
  HeadRows<T> output, logsumexp;
  T* state;
  bool is_first, is_last, split;

  static index_t teams(const AttentionShape& shape) {
    return AttentionTask::count(shape, shape.queries, rows) * Tile::parts(shape.value_embedding);
  }
  /// The results before their division. After them, for each part of a result, the largest logit and the sum of
  /// exponentials.
  static index_t state_values(const AttentionShape& shape) {
    return shape.samples * shape.heads * shape.queries *
           (shape.value_embedding + 2 * Tile::parts(shape.value_embedding));
  }
  static constexpr std::size_t values =
      static_cast<std::size_t>(rows + others) * Tile::pitch + static_cast<std::size_t>(rows) * (Tile::pair_pitch + 3);
  static constexpr std::size_t bytes = TeamScratch::bytes_of<T>(values);
  static_assert(bytes <= scratch_limit);

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void run(const Team& team, index_t number) const {
    const int parts = Tile::parts(shape.value_embedding), part = static_cast<int>(number % parts);
    const AttentionTask task(number / parts, shape.heads, shape.queries, rows);
    TeamScratch scratch(team, bytes);
    T* queries = scratch.template take<T>(values);
    T* keys = queries + rows * Tile::pitch;
    T* pairs = keys + others * Tile::pitch;
    T* largest = pairs + rows * Tile::pair_pitch;
    T* total = largest + rows;
    T* shrink = total + rows;
    HeldBlocks<T, Tile::result_blocks, Tile::width / mma_columns> sums;
    begin(team, task, part, largest, total, sums);
    const index_t seen = shape.keys_seen(task.end);
    for (index_t k = 0; k < seen; k += others) {
      logits(team, task, k, seen, queries, keys, pairs);
      team.team_barrier();
      exponentiate(team, task, k, pairs, largest, total, shrink);
      stage_positions<others, Tile::width>(team, value, task.sample, task.head, k, seen - k, part * Tile::width,
                                           shape.value_embedding, T(1), keys);
      team.team_barrier();
      sums.change(team, [&](int row, int, T sum) { return sum * shrink[row]; });
      multiply_seen<Tile>(
          team, split, hides_of_tile(terms.bias, shape, task.begin, k + others - 1), pairs, keys,
          [&](int row, int i) {
            return task.begin + row < task.end && k + i < seen &&
                   sees(terms.bias, shape, task.sample, task.head, task.begin + row, k + i);
          },
          sums);
    }
    team.team_barrier();
    end(team, task, part, largest, total, sums);
  }

 private:
  /// The number of query `row` of a block among all queries of this rank.
  KOKKOS_FORCEINLINE_FUNCTION index_t position(const AttentionTask& task, int row) const {
    return (task.sample * shape.heads + task.head) * shape.queries + task.begin + row;
  }
  KOKKOS_FORCEINLINE_FUNCTION T* kept_sums(index_t position) const { return state + position * shape.value_embedding; }
  KOKKOS_FORCEINLINE_FUNCTION T* kept_rows(index_t position, int part) const {
    return state + shape.samples * shape.heads * shape.queries * shape.value_embedding +
           (position * Tile::parts(shape.value_embedding) + part) * 2;
  }

  template <class Team, class Sums>
  KOKKOS_FORCEINLINE_FUNCTION void begin(const Team& team, const AttentionTask& task, int part, T* largest, T* total,
                                         Sums& sums) const {
    const int own = static_cast<int>(task.end - task.begin);
    each_of_warps(team, rows, [&](int row) {
      const bool starts = is_first || row >= own;
      if (!is_first_lane()) return;
      largest[row] = starts ? -std::numeric_limits<T>::infinity() : kept_rows(position(task, row), part)[0];
      total[row] = starts ? T(0) : kept_rows(position(task, row), part)[1];
    });
    sums.clear();
    if (is_first) return;
    sums.change(team, [&](int row, int column, T) {
      const int e = part * Tile::width + column;
      return row < own && e < shape.value_embedding ? kept_sums(position(task, row))[e] : T(0);
    });
  }

  template <class Team, class Sums>
  KOKKOS_FORCEINLINE_FUNCTION void end(const Team& team, const AttentionTask& task, int part, const T* largest,
                                       const T* total, Sums& sums) const {
    const int own = static_cast<int>(task.end - task.begin);
    sums.change(team, [&](int row, int column, T sum) {
      const int e = part * Tile::width + column;
      if (row >= own || e >= shape.value_embedding) return sum;
      if (is_last)
        output.row(task.sample, task.head, task.begin + row)[e] = total[row] == T(0) ? T(0) : sum / total[row];
      else
        kept_sums(position(task, row))[e] = sum;
      return sum;
    });
    each_of_warps(team, own, [&](int row) {
      if (!is_first_lane()) return;
      if (is_last) {
        if (part == 0)
          *logsumexp.row(task.sample, task.head, task.begin + row) = largest[row] + Kokkos::log(total[row]);
      } else {
        T* kept = kept_rows(position(task, row), part);
        kept[0] = largest[row], kept[1] = total[row];
      }
    });
  }

  /// scale q k^T + bias for a block of queries and 32 keys. It is -infinity for pairs that are not seen.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void logits(const Team& team, const AttentionTask& task, index_t k, index_t seen,
                                          T* queries, T* keys, T* pairs) const {
    HeldBlocks<T, Tile::pair_blocks, others / mma_columns> pair;
    add_products<Tile>(team, task, query, key, shape.embedding, static_cast<T>(shape.scale), k, seen, k == 0, split,
                       queries, keys, pair);
    pair.change(team, [&](int row, int column, T logit) {
      const bool hidden = k + column >= seen || shape.hides(task.begin + row, k + column);
      const T more = hidden || task.begin + row >= task.end
                         ? T(0)
                         : terms.bias.value(shape, task.sample, task.head, task.begin + row, k + column);
      pairs[row * Tile::pair_pitch + column] =
          hidden || terms.bias.hides(more) ? -std::numeric_limits<T>::infinity() : logit + more;
      return logit;
    });
  }

  /// As on the host: logits become exponentials of their differences from the largest so far. Each warp has a query,
  /// each lane a key.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void exponentiate(const Team& team, const AttentionTask& task, index_t k, T* pairs,
                                                T* largest, T* total, T* shrink) const {
    each_of_warps(team, rows, [&](int row) {
      T* line = pairs + row * Tile::pair_pitch;
      const T before = largest[row];
      T most = before;
      each_of_lanes(others, [&](int i) { most = most < line[i] ? line[i] : most; });
      most = largest_of_lanes(most);
      const T base = most < std::numeric_limits<T>::lowest() ? std::numeric_limits<T>::lowest() : most;
      T sum = 0;
      each_of_lanes(others, [&](int i) {
        line[i] = Kokkos::exp(line[i] - base);
        sum += line[i];
        if (terms.dropout.draws() && task.begin + row < task.end && k + i < shape.keys)
          line[i] *= terms.dropout.factor(shape, task.sample, task.head, task.begin + row, k + i);
      });
      sum = sum_of_lanes(sum);
      if (!is_first_lane()) return;
      shrink[row] = Kokkos::exp(before - base);
      total[row] = total[row] * shrink[row] + sum;
      largest[row] = most;
    });
  }
};

}  // namespace halogen::kernels::device
