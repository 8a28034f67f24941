// All three gradients of attention on the host in one kernel. It computes each logit once, while the two kernels of
// attention_backward.hpp compute it twice. A team has all queries of a head. Accumulation: the same products in the
// same order as in those kernels, so the bits are the same.
#pragma once

#include "halogen/kernels/attention/attention_backward.hpp"

namespace halogen::kernels {

/// dq is added to `query_result`, unless is_first. dk and dv are summed over several launches. The first of these has
/// begins_keys, the last has ends_keys.
template <class ExecutionSpace, class T, class S>
struct AttentionGradients {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  AttentionSaved<T, S> saved;
  HeadRows<T> query_result, key_result, value_result;
  bool is_first = true, begins_keys = true, ends_keys = true;
  index_t first_team = 0;

  static index_t teams(const AttentionShape& shape) { return shape.samples * shape.heads; }
  /// Whether there are enough heads to keep the threads busy, and embeddings are multiples of `width`, so that sums
  /// can stay in their rows.
  static bool suits(const ExecutionSpace& space, const AttentionShape& shape) {
    if constexpr (device::runs_on<ExecutionSpace>) return false;
    const index_t threads = space.concurrency(), rounds = (teams(shape) + threads - 1) / threads;
    return shape.embedding % width == 0 && shape.value_embedding % width == 0 &&
           7 * teams(shape) >= 5 * rounds * threads;
  }
  void launch(const ExecutionSpace& space, index_t begin, index_t end) const {
    AttentionGradients part = *this;
    part.first_team = begin;
    launch_tiles(space, "halogen::attention_gradients", end - begin, part, host_bytes(), 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    static_cast<void>(team);
  }

 private:
  static constexpr index_t columns = detail::tile_columns<T>;
  static constexpr int width = (vector_registers >= 32 ? 4 : 2) * lanes<T>, vectors = width / wide_lanes<T>;

  using Block = detail::QueryBlock<T, S>;

  std::size_t values() const { return static_cast<std::size_t>(saved.shape.embedding * columns); }
  std::size_t room() const { return std::is_same_v<T, S> ? 0 : values(); }
  std::size_t host_bytes() const {
    return Block::bytes(saved.shape) + Scratch::bytes_of<T>(values()) + Scratch::bytes_of<T>(room());
  }

  void run_on_host(const Team& team) const {
    const AttentionShape& shape = saved.shape;
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    Block block(saved, scratch);
    T* sums = scratch.take<T>(values());
    T* query_room = scratch.take<T>(room());
    const index_t number = first_team + team.league_rank();
    const index_t sample = number / shape.heads, head = number % shape.heads;
    const T factor = static_cast<T>(shape.scale);
    for (index_t k = 0; begins_keys && k < shape.keys; ++k) {
      std::fill_n(key_result.row(sample, head, k), shape.embedding, T(0));
      std::fill_n(value_result.row(sample, head, k), shape.value_embedding, T(0));
    }
    for (index_t q = 0; q < shape.queries; q += columns) {
      const index_t own = std::min(columns, shape.queries - q);
      block.load(sample, head, q, own);
      const auto queries = detail::rows_as(saved.query, sample, head, q, own, shape.embedding, query_room);
      const detail::TileRows<T> gradients{saved.gradient.row(sample, head, q), saved.gradient.row_stride};
      std::fill_n(sums, values(), T(0));
      block.each_tile([&](index_t k, const auto& pairs, const T* shares, const T* slopes, const auto& keys) {
        pairs.multiply(keys, shape.embedding, slopes, sums);
        add_rows(pairs, shares, gradients, shape.value_embedding, value_result.row(sample, head, k),
                 value_result.row_stride);
        add_rows(pairs, slopes, queries, shape.embedding, key_result.row(sample, head, k), key_result.row_stride);
      });
      detail::store_query_gradients(sums, sample, head, q, own, shape.embedding, factor, !is_first, query_result);
    }
    for (index_t k = 0; ends_keys && k < shape.keys; ++k) {
      T* row = key_result.row(sample, head, k);
      for (int e = 0; e < shape.embedding; ++e) row[e] *= factor;
    }
  }

  /// to[k][e] += sum over the block's queries of tile[k][query] * rows[query][e]. Hidden pairs are treated as in
  /// TilePairs::multiply.
  static void add_rows(const detail::TilePairs<T>& pairs, const T* tile, const detail::TileRows<T>& rows, int embedding,
                       T* to, index_t pitch) {
    if (pairs.hides() && !detail::are_finite(rows, pairs.columns, embedding)) {
      for (index_t k = 0; k < pairs.rows; ++k)
        for (index_t q = 0; q < pairs.columns; ++q)
          if (pairs.sees(k, q))
            for (int e = 0; e < embedding; ++e)
              to[k * pitch + e] += tile[k * columns + q] * rows.data[q * rows.step + e];
      return;
    }
    for (int e = 0; e < embedding; e += width)
      detail::multiply_columns<true, vectors>(pairs.rows, tile, columns, 1, rows.data + e, rows.step, pairs.columns,
                                              to + e, pitch);
  }
};

}  // namespace halogen::kernels
