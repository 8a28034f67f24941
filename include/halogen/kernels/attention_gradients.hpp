// All three gradients of attention on the host by one kernel: each logit is computed once, where the two kernels of
// attention_backward.hpp compute it twice. A team has all queries of a head.
// Accumulation: as those, product for product in the same order: the same bits.
#pragma once

#include "halogen/kernels/attention_backward.hpp"

namespace halogen::kernels {

/// dq added to what `query_result` holds unless is_first; dk and dv summed over launches from one that begins the keys'
/// sums to one that ends them.
template <class ExecutionSpace, class T, class S>
struct AttentionGradients {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  AttentionSaved<T, S> saved;
  HeadRows<T> query_result, key_result, value_result;
  bool is_first = true, begins_keys = true, ends_keys = true;
  index_t first_team = 0;

  static index_t teams(const AttentionShape& shape) { return shape.samples * shape.heads; }
  /// Where heads keep the threads busy, and embeddings are so many vectors that sums can stay in their rows.
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
  static constexpr int vectors = vector_registers >= 32 ? 4 : 2, width = vectors * lanes<T>;
  static constexpr bool converts = !std::is_same_v<T, S>;

  static std::size_t values(index_t rows) { return static_cast<std::size_t>(rows * columns); }
  std::size_t room(index_t rows, int embedding) const {
    return converts ? static_cast<std::size_t>(rows * embedding) : 0;
  }
  std::size_t host_bytes() const {
    const AttentionShape& shape = saved.shape;
    return 2 * Scratch::bytes_of<T>(values(shape.embedding)) + Scratch::bytes_of<T>(values(shape.value_embedding)) +
           2 * Scratch::bytes_of<T>(values(detail::tile_rows)) + Scratch::bytes_of<T>(values(2)) +
           Scratch::bytes_of<T>(room(detail::tile_rows, shape.embedding)) +
           Scratch::bytes_of<T>(room(detail::tile_rows, shape.value_embedding)) +
           Scratch::bytes_of<T>(room(columns, shape.embedding));
  }

  void run_on_host(const Team& team) const {
    const AttentionShape& shape = saved.shape;
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* queries = scratch.take<T>(values(shape.embedding));
    T* sums = scratch.take<T>(values(shape.embedding));
    T* gradients = scratch.take<T>(values(shape.value_embedding));
    T* logits = scratch.take<T>(values(detail::tile_rows));
    T* products = scratch.take<T>(values(detail::tile_rows));
    T* logs = scratch.take<T>(values(2));
    T* dots = logs + columns;
    T* key_room = scratch.take<T>(room(detail::tile_rows, shape.embedding));
    T* value_room = scratch.take<T>(room(detail::tile_rows, shape.value_embedding));
    T* query_room = scratch.take<T>(room(columns, shape.embedding));
    const index_t number = first_team + team.league_rank();
    const index_t sample = number / shape.heads, head = number % shape.heads;
    const T factor = static_cast<T>(shape.scale);
    for (index_t k = 0; begins_keys && k < shape.keys; ++k) {
      std::fill_n(key_result.row(sample, head, k), shape.embedding, T(0));
      std::fill_n(value_result.row(sample, head, k), shape.value_embedding, T(0));
    }
    for (index_t q = 0; q < shape.queries; q += columns) {
      const index_t own = std::min(columns, shape.queries - q);
      detail::load_columns(saved.query, sample, head, q, own, shape.embedding, T(1), queries);
      detail::load_columns(saved.gradient, sample, head, q, own, shape.value_embedding, T(1), gradients);
      const auto query_rows = detail::rows_as(saved.query, sample, head, q, own, shape.embedding, query_room);
      const detail::TileRows<T> gradient_rows{saved.gradient.row(sample, head, q), saved.gradient.row_stride};
      std::fill_n(logs, 2 * columns, T(0));
      for (index_t x = 0; x < own; ++x) {
        logs[x] = saved.log_of_sum(sample, head, q + x);
        dots[x] = saved.dot(sample, head, q + x);
      }
      std::fill_n(sums, values(shape.embedding), T(0));
      const index_t seen = shape.keys_seen(q + own);
      for (index_t k = 0; k < seen; k += detail::tile_rows) {
        const index_t count = std::min<index_t>(detail::tile_rows, seen - k);
        const auto keys = detail::rows_as(saved.key, sample, head, k, count, shape.embedding, key_room);
        const auto rows = detail::rows_as(saved.value, sample, head, k, count, shape.value_embedding, value_room);
        detail::multiply_tile<false>(count, keys.data, keys.step, 1, queries, shape.embedding, logits);
        detail::multiply_tile<false>(count, rows.data, rows.step, 1, gradients, shape.value_embedding, products);
        detail::pull_tile(count, factor, logits, products, logs, dots, true);
        const bool hides = shape.hides(q, k + count - 1);
        const detail::SeenColumns seen_by{shape, k, q, true};
        if (hides)
          for (T* tile : {logits, products}) detail::hide_queries(shape, q, k, count, T(0), tile);
        detail::multiply_seen(keys, shape.embedding, products, count, hides, seen_by, sums);
        add_rows(count, logits, gradient_rows, own, shape.value_embedding, hides, seen_by,
                 value_result.row(sample, head, k), value_result.row_stride);
        add_rows(count, products, query_rows, own, shape.embedding, hides, seen_by, key_result.row(sample, head, k),
                 key_result.row_stride);
      }
      for (index_t x = 0; x < own; ++x) {
        T* row = query_result.row(sample, head, q + x);
        for (int e = 0; e < shape.embedding; ++e) {
          const T here = factor * sums[e * columns + x];
          row[e] = is_first ? here : row[e] + here;
        }
      }
    }
    for (index_t k = 0; ends_keys && k < shape.keys; ++k) {
      T* row = key_result.row(sample, head, k);
      for (int e = 0; e < shape.embedding; ++e) row[e] *= factor;
    }
  }

  /// to[k][e] += sum over the block's queries of tile[k][query] * rows[query][e]; as multiply_seen where pairs are
  /// hidden.
  static void add_rows(index_t count, const T* tile, const detail::TileRows<T>& rows, index_t queries, int embedding,
                       bool hides, const detail::SeenColumns& seen, T* to, index_t pitch) {
    if (hides && !detail::are_finite(rows, queries, embedding)) {
      for (index_t k = 0; k < count; ++k)
        for (index_t q = seen.begin(k); q < queries; ++q)
          for (int e = 0; e < embedding; ++e) to[k * pitch + e] += tile[k * columns + q] * rows.data[q * rows.step + e];
      return;
    }
    for (int e = 0; e < embedding; e += width)
      detail::multiply_columns<true, vectors>(count, tile, columns, 1, rows.data + e, rows.step, queries, to + e,
                                              pitch);
  }
};

}  // namespace halogen::kernels
