// Device part of attention's gradients. For dq, a team has a block of queries and goes through the keys. For dk and dv,
// it has a block of keys and goes through the queries that see it. If embeddings are wide, a team has some columns of
// the result. Tensor cores compute the logits and g v^T, p and s go through scratch, and tensor cores compute their
// products. Accumulation: in T. kernels/convolution/device_mma.hpp says how float operands are rounded. A bias's
// gradient is s, added with atomics where the bias was read.
#pragma once

#include "halogen/kernels/attention/attention_saved.hpp"
#include "halogen/kernels/attention/device_attention_tile.hpp"

namespace halogen::kernels::device {

/// p of a pair, which is 0 if the pair is hidden, and the factor that dropout gives it.
template <class T>
struct PairShare {
  T share, factor;
  bool hidden;

  KOKKOS_FORCEINLINE_FUNCTION T slope(T product, T dot) const {
    return hidden ? T(0) : share * (factor * product - dot);
  }
};
/// The share of a pair, from its scaled logit and the query's logsumexp. `stands` says that the pair is in the tile.
template <class T, class S>
KOKKOS_FORCEINLINE_FUNCTION PairShare<T> share_of(const AttentionSaved<T, S>& saved, bool stands, index_t sample,
                                                  index_t head, index_t query, index_t key, T logit, T log) {
  if (!stands || saved.shape.hides(query, key)) return {T(0), T(0), true};
  const T more = saved.terms.bias.value(saved.shape, sample, head, query, key);
  if (saved.terms.bias.hides(more)) return {T(0), T(0), true};
  return {Kokkos::exp(logit + more - log), saved.terms.dropout.factor(saved.shape, sample, head, query, key), false};
}

/// Whether all queries of a tile count. Every warp checks all dots.
template <int Rows, class T>
KOKKOS_FORCEINLINE_FUNCTION bool all_count(const T* dots) {
  T others = 0;
  each_of_lanes(Rows, [&](int i) { others += dots[i] == uncounted_dot<T> ? T(1) : T(0); });
  return sum_of_lanes(others) == T(0);
}

/// logsumexp and dot of `Rows` queries, beginning with `first`; zeros from `count` on.
template <int Rows, class Team, class T, class S>
KOKKOS_FORCEINLINE_FUNCTION void stage_of_queries(const Team& team, const AttentionSaved<T, S>& saved,
                                                  const AttentionTask& task, index_t first, index_t count, T* logs,
                                                  T* dots) {
  each_of_warps(team, Rows, [&](int i) {
    if (!is_first_lane()) return;
    logs[i] = i < count ? saved.log_of_sum(task.sample, task.head, first + i) : T(0);
    dots[i] = i < count ? saved.dot(task.sample, task.head, first + i) : T(0);
  });
}

/// Writes `by` times a team's sums, which are part `part` of the embedding. Adds them unless this step is the first.
template <class Tile, class Team, class Sums, class T>
KOKKOS_FORCEINLINE_FUNCTION void put_sums(const Team& team, const AttentionTask& task, Sums& sums,
                                          const HeadRows<T>& to, int part, int embedding, T by, bool is_first) {
  const int own = static_cast<int>(task.end - task.begin);
  sums.change(team, [&](int row, int column, T sum) {
    const int e = part * Tile::width + column;
    if (row >= own || e >= embedding) return sum;
    T& at = to.row(task.sample, task.head, task.begin + row)[e];
    at = is_first ? by * sum : at + by * sum;
    return sum;
  });
}

template <class T, class S>
struct AttentionQueryGradient {
  using Tile = AttentionTile<32, sizeof(T) == 4 ? 64 : 32>;
  static constexpr int rows = Tile::rows, others = Tile::others;

  AttentionSaved<T, S> saved;
  HeadRows<T> result;
  bool is_first, split;

  static index_t teams(const AttentionShape& shape) {
    return AttentionTask::count(shape, shape.queries, rows) * Tile::parts(shape.embedding);
  }
  static constexpr std::size_t values = static_cast<std::size_t>(2 * rows + others) * Tile::pitch +
                                        static_cast<std::size_t>(rows) * (Tile::pair_pitch + 2);
  static constexpr std::size_t bytes = TeamScratch::bytes_of<T>(values);
  static_assert(bytes <= scratch_limit);

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void run(const Team& team, index_t number) const {
    const AttentionShape& shape = saved.shape;
    const int parts = Tile::parts(shape.embedding), part = static_cast<int>(number % parts);
    const AttentionTask task(number / parts, shape.heads, shape.queries, rows);
    const int own = static_cast<int>(task.end - task.begin);
    TeamScratch scratch(team, bytes);
    T* queries = scratch.template take<T>(values);
    T* gradients = queries + rows * Tile::pitch;
    T* keys = gradients + rows * Tile::pitch;
    T* pairs = keys + others * Tile::pitch;
    T* logs = pairs + rows * Tile::pair_pitch;
    T* dots = logs + rows;
    stage_of_queries<rows>(team, saved, task, task.begin, own, logs, dots);
    HeldBlocks<T, Tile::result_blocks, Tile::width / mma_columns> sums;
    sums.clear();
    using Pairs = HeldBlocks<T, Tile::pair_blocks, others / mma_columns>;
    const T factor = static_cast<T>(shape.scale);
    const index_t seen = shape.keys_seen(task.end);
    for (index_t k = 0; k < seen; k += others) {
      Pairs logits, products;
      add_products<Tile>(team, task, saved.query, saved.key, shape.embedding, factor, k, seen, k == 0, split, queries,
                         keys, logits);
      add_products<Tile>(team, task, saved.gradient, saved.value, shape.value_embedding, T(1), k, seen, k == 0, split,
                         gradients, keys, products);
      logits.each_with(team, products, [&](int row, int column, T logit, T product) {
        const bool stands = row < own && k + column < seen && dots[row] != uncounted_dot<T>;
        pairs[row * Tile::pair_pitch + column] =
            share_of(saved, stands, task.sample, task.head, task.begin + row, k + column, logit, logs[row])
                .slope(product, dots[row]);
      });
      team.team_barrier();
      stage_positions<others, Tile::width>(team, saved.key, task.sample, task.head, k, seen - k, part * Tile::width,
                                           shape.embedding, T(1), keys);
      team.team_barrier();
      multiply_seen<Tile>(
          team, split, hides_of_tile(saved.terms.bias, shape, task.begin, k + others - 1) || !all_count<rows>(dots),
          pairs, keys,
          [&](int row, int i) {
            return row < own && k + i < seen && dots[row] != uncounted_dot<T> &&
                   sees(saved.terms.bias, shape, task.sample, task.head, task.begin + row, k + i);
          },
          sums);
    }
    put_sums<Tile>(team, task, sums, result, part, shape.embedding, factor, is_first);
  }
};

/// A team has a block of queries and goes through the keys, as for dq.
template <class T, class S>
struct AttentionBiasGradient {
  using Tile = AttentionTile<32, sizeof(T) == 4 ? 64 : 32>;
  static constexpr int rows = Tile::rows, others = Tile::others;

  AttentionSaved<T, S> saved;
  PairBias<T> result;
  bool split;

  static index_t teams(const AttentionShape& shape) { return AttentionTask::count(shape, shape.queries, rows); }
  static constexpr std::size_t values = static_cast<std::size_t>(2 * rows + others) * Tile::pitch + 2 * rows;
  static constexpr std::size_t bytes = TeamScratch::bytes_of<T>(values);

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void run(const Team& team, index_t number) const {
    const AttentionShape& shape = saved.shape;
    const AttentionTask task(number, shape.heads, shape.queries, rows);
    const int own = static_cast<int>(task.end - task.begin);
    TeamScratch scratch(team, bytes);
    T* queries = scratch.template take<T>(values);
    T* gradients = queries + rows * Tile::pitch;
    T* keys = gradients + rows * Tile::pitch;
    T* logs = keys + others * Tile::pitch;
    T* dots = logs + rows;
    stage_of_queries<rows>(team, saved, task, task.begin, own, logs, dots);
    using Pairs = HeldBlocks<T, Tile::pair_blocks, others / mma_columns>;
    const index_t seen = shape.keys_seen(task.end);
    for (index_t k = 0; k < seen; k += others) {
      Pairs logits, products;
      add_products<Tile>(team, task, saved.query, saved.key, shape.embedding, static_cast<T>(shape.scale), k, seen,
                         k == 0, split, queries, keys, logits);
      add_products<Tile>(team, task, saved.gradient, saved.value, shape.value_embedding, T(1), k, seen, k == 0, split,
                         gradients, keys, products);
      logits.each_with(team, products, [&](int row, int column, T logit, T product) {
        const bool stands = row < own && k + column < seen && dots[row] != uncounted_dot<T>;
        const auto p = share_of(saved, stands, task.sample, task.head, task.begin + row, k + column, logit, logs[row]);
        if (!p.hidden)
          Kokkos::atomic_add(&result.at(shape, task.sample, task.head, task.begin + row, k + column),
                             p.slope(product, dots[row]));
      });
    }
  }
};

template <class T, class S>
struct AttentionKeyGradient {
  using Tile = AttentionTile<32, sizeof(T) == 4 ? 64 : 16>;
  static constexpr int rows = Tile::rows, others = Tile::others;

  AttentionSaved<T, S> saved;
  HeadRows<T> key_result, value_result;
  bool is_first, split;

  static index_t teams(const AttentionShape& shape) {
    return AttentionTask::count(shape, shape.keys, rows) * parts_of(shape);
  }
  static constexpr std::size_t values = static_cast<std::size_t>(2 * rows + 2 * others) * Tile::pitch +
                                        static_cast<std::size_t>(2 * rows) * Tile::pair_pitch + 2 * others;
  static constexpr std::size_t bytes = TeamScratch::bytes_of<T>(values);
  static_assert(bytes <= scratch_limit);

  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void run(const Team& team, index_t number) const {
    const AttentionShape& shape = saved.shape;
    const int parts = parts_of(shape), part = static_cast<int>(number % parts);
    const AttentionTask task(number / parts, shape.heads, shape.keys, rows);
    const int own = static_cast<int>(task.end - task.begin);
    TeamScratch scratch(team, bytes);
    T* keys = scratch.template take<T>(values);
    T* value_rows = keys + rows * Tile::pitch;
    T* queries = value_rows + rows * Tile::pitch;
    T* gradients = queries + others * Tile::pitch;
    T* shares = gradients + others * Tile::pitch;
    T* slopes = shares + rows * Tile::pair_pitch;
    T* logs = slopes + rows * Tile::pair_pitch;
    T* dots = logs + others;
    HeldBlocks<T, Tile::result_blocks, Tile::width / mma_columns> key_sums, value_sums;
    key_sums.clear();
    value_sums.clear();
    using Pairs = HeldBlocks<T, Tile::pair_blocks, others / mma_columns>;
    const T factor = static_cast<T>(shape.scale);
    // Whole blocks: the groups in which products are added must not depend on where the piece begins.
    const index_t start = shape.first_that_sees(task.begin) / others * others;
    for (index_t q = start; q < shape.queries; q += others) {
      Pairs logits, products;
      add_products<Tile>(team, task, saved.key, saved.query, shape.embedding, factor, q, shape.queries, q == start,
                         split, keys, queries, logits);
      add_products<Tile>(team, task, saved.value, saved.gradient, shape.value_embedding, T(1), q, shape.queries,
                         q == start, split, value_rows, gradients, products);
      stage_of_queries<others>(team, saved, task, q, shape.queries - q, logs, dots);
      team.team_barrier();
      logits.each_with(team, products, [&](int row, int column, T logit, T product) {
        const bool stands = row < own && q + column < shape.queries && dots[column] != uncounted_dot<T>;
        const auto p =
            share_of(saved, stands, task.sample, task.head, q + column, task.begin + row, logit, logs[column]);
        shares[row * Tile::pair_pitch + column] = p.share * p.factor;
        slopes[row * Tile::pair_pitch + column] = p.slope(product, dots[column]);
      });
      stage_part(team, task, q, part, queries, gradients);
      team.team_barrier();
      const bool hides = hides_of_tile(saved.terms.bias, shape, q, task.begin + rows - 1) || !all_count<others>(dots);
      const auto is_seen = [&](int row, int i) {
        return row < own && q + i < shape.queries && dots[i] != uncounted_dot<T> &&
               sees(saved.terms.bias, shape, task.sample, task.head, q + i, task.begin + row);
      };
      multiply_seen<Tile>(team, split, hides, shares, gradients, is_seen, value_sums);
      multiply_seen<Tile>(team, split, hides, slopes, queries, is_seen, key_sums);
    }
    put_sums<Tile>(team, task, key_sums, key_result, part, shape.embedding, factor, is_first);
    put_sums<Tile>(team, task, value_sums, value_result, part, shape.value_embedding, T(1), is_first);
  }

 private:
  KOKKOS_FORCEINLINE_FUNCTION static int parts_of(const AttentionShape& shape) {
    const int keys = Tile::parts(shape.embedding), values = Tile::parts(shape.value_embedding);
    return keys > values ? keys : values;
  }

  /// Stages the columns that the team sums of queries and gradients, from q on. Scratch already holds those of an
  /// embedding of one part.
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION void stage_part(const Team& team, const AttentionTask& task, index_t q, int part,
                                              T* queries, T* gradients) const {
    const AttentionShape& shape = saved.shape;
    if (Tile::parts(shape.embedding) > 1)
      stage_positions<others, Tile::width>(team, saved.query, task.sample, task.head, q, shape.queries - q,
                                           part * Tile::width, shape.embedding, T(1), queries);
    if (Tile::parts(shape.value_embedding) > 1)
      stage_positions<others, Tile::width>(team, saved.gradient, task.sample, task.head, q, shape.queries - q,
                                           part * Tile::width, shape.value_embedding, T(1), gradients);
  }
};

}  // namespace halogen::kernels::device
