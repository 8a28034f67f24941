// Attention of one rank's queries to one piece of keys and values: softmax(scale q k^T) v by tiles, without the matrix
// of all pairs. Several pieces may follow one another. Between their launches each query keeps its largest logit, the
// sum of exponentials and the result before its division. Accumulation: all in T, one key after the other. If a later
// tile has a larger logit, the older sums are scaled.
#pragma once

#include <limits>

#include "halogen/kernels/attention/attention_pairs.hpp"
#include "halogen/kernels/attention/device_attention.hpp"
#include "halogen/kernels/tiles/device_precision.hpp"
#include "halogen/kernels/tiles/tiles.hpp"
#include "halogen/kernels/vector/exponential.hpp"

namespace halogen::kernels {

/// T is the type of computations, S the type of stored values. is_first says that the launch is the first of a rank's
/// queries, and is_last that it is the last. The last writes output and logsumexp = log(sum of exp(logits)).
template <class ExecutionSpace, class T, class S>
struct AttentionForward {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  AttentionShape shape;
  HeadRows<const S> query, key, value;
  PairTerms<T> terms;
  HeadRows<T> output;
  HeadRows<T> logsumexp;  ///< rows of 1 value
  T* state = nullptr;     ///< state_values(shape) numbers that launches share; null if one launch is first and last
  bool is_first = true, is_last = true;
  index_t first_team = 0;
  bool split = !tf32_is_allowed();

  static index_t teams(const AttentionShape& shape) {
    if constexpr (on_device)
      return DevicePart::teams(shape);
    else
      return AttentionTask::count(shape, shape.queries, columns);
  }
  static index_t state_values(const AttentionShape& shape) {
    if constexpr (on_device)
      return DevicePart::state_values(shape);
    else
      return teams(shape) * (shape.value_embedding + 2) * columns;
  }

  /// Launches teams [begin, end) only.
  void launch(const ExecutionSpace& space, index_t begin, index_t end) const {
    AttentionForward part = *this;
    part.first_team = begin;
    launch_tiles(space, "halogen::attention", end - begin, part, host_bytes(), DevicePart::bytes);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  static constexpr index_t columns = detail::tile_columns<T>;
  static constexpr bool converts = !std::is_same_v<T, S>;
  static constexpr bool on_device = device::runs_on<ExecutionSpace>;
  using DevicePart = device::AttentionForward<T, S>;
  static constexpr int wide = wide_lanes<T>;
  using V = Vector<T, wide>;

  std::size_t values(index_t rows) const { return static_cast<std::size_t>(rows * columns); }
  std::size_t room() const {
    return converts ? static_cast<std::size_t>(detail::tile_rows * std::max(shape.embedding, shape.value_embedding))
                    : 0;
  }
  std::size_t host_bytes() const {
    return Scratch::bytes_of<T>(values(shape.embedding)) + Scratch::bytes_of<T>(values(shape.value_embedding)) +
           Scratch::bytes_of<T>(values(detail::tile_rows)) + Scratch::bytes_of<T>(values(3)) +
           Scratch::bytes_of<T>(room());
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    const DevicePart part{shape, query, key, value, terms, output, logsumexp, state, is_first, is_last, split};
    part.run(team, first_team + team.league_rank());
  }

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* queries = scratch.take<T>(values(shape.embedding));
    T* sums = scratch.take<T>(values(shape.value_embedding));
    T* tile = scratch.take<T>(values(detail::tile_rows));
    T* largest = scratch.take<T>(values(3));
    T* total = largest + columns;
    T* shrink = total + columns;
    T* converted = scratch.take<T>(room());
    const index_t number = first_team + team.league_rank();
    const AttentionTask task(number, shape.heads, shape.queries, columns);
    T* kept = is_first && is_last ? nullptr : state + number * (shape.value_embedding + 2) * columns;
    if (is_first) {
      std::fill_n(sums, values(shape.value_embedding), T(0));
      std::fill_n(largest, columns, -std::numeric_limits<T>::infinity());
      std::fill_n(total, columns, T(0));
    } else {
      std::copy_n(kept, 2 * columns, largest);
      std::copy_n(kept + 2 * columns, values(shape.value_embedding), sums);
    }
    detail::load_columns(query, task.sample, task.head, task.begin, task.end - task.begin, shape.embedding,
                         static_cast<T>(shape.scale), queries);
    const index_t seen = shape.keys_seen(task.end);
    for (index_t k = 0; k < seen; k += detail::tile_rows) {
      const index_t count = std::min<index_t>(detail::tile_rows, seen - k);
      const auto keys = detail::rows_as(key, task.sample, task.head, k, count, shape.embedding, converted);
      detail::multiply_tile<false>(count, keys.data, keys.step, 1, queries, shape.embedding, tile);
      const detail::TilePairs<T> pairs{shape, terms, task.sample,          task.head, k, task.begin,
                                       true,  count, task.end - task.begin};
      pairs.add_bias(T(1), tile);
      if (pairs.hides_later_keys()) pairs.hide_later_keys(-std::numeric_limits<T>::infinity(), tile);
      if (exponentiate(count, tile, largest, total, shrink))
        for (int e = 0; e < shape.value_embedding; ++e) scale(sums + e * columns, shrink);
      pairs.drop(tile);
      const auto rows = detail::rows_as(value, task.sample, task.head, k, count, shape.value_embedding, converted);
      pairs.multiply(rows, shape.value_embedding, tile, sums);
    }
    if (is_last)
      finish(task, sums, largest, total);
    else {
      std::copy_n(largest, 2 * columns, kept);
      std::copy_n(sums, values(shape.value_embedding), kept + 2 * columns);
    }
  }

  /// Replaces logits by the exponentials of their differences from the largest so far. Returns whether that has grown;
  /// older sums are then multiplied by `shrink`. A query that has only seen -infinity gets 0.
  static bool exponentiate(index_t count, T* tile, T* largest, T* total, T* shrink) {
    bool grows = false;
    for (int v = 0; v < detail::tile_vectors; ++v) {
      const index_t x = v * wide;
      const V before = load<V>(largest + x);
      V most = before;
      for (index_t i = 0; i < count; ++i) most = larger_of<T>(most, load<V>(tile + i * columns + x));
      store(largest + x, most);
      const V base = larger_of<T>(most, V{} + std::numeric_limits<T>::lowest());
      const V factor = exponential<T>(before - base);
      store(shrink + x, factor);
      V sum = load<V>(total + x) * factor;
      for (index_t i = 0; i < count; ++i) {
        const V one = exponential<T>(load<V>(tile + i * columns + x) - base);
        store(tile + i * columns + x, one);
        sum += one;
      }
      store(total + x, sum);
      for (int l = 0; l < wide; ++l) grows |= shrink[x + l] != T(1);
    }
    return grows;
  }

  static void scale(T* row, const T* by) {
    for (index_t x = 0; x < columns; x += wide) store(row + x, load<V>(row + x) * load<V>(by + x));
  }

  void finish(const AttentionTask& task, const T* sums, const T* largest, const T* total) const {
    detail::store_columns(sums, task.end - task.begin, shape.value_embedding, output, task.sample, task.head,
                          task.begin, [total](index_t x) { return total[x] == T(0) ? T(0) : T(1) / total[x]; });
    for (index_t x = 0; x < task.end - task.begin; ++x)
      *logsumexp.row(task.sample, task.head, task.begin + x) = largest[x] + Kokkos::log(total[x]);
  }
};

}  // namespace halogen::kernels
