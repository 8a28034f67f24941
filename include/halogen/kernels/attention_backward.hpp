// Gradients of attention from its output and logsumexp. With p = exp(scale q k^T - logsumexp), g the gradient of the
// output and d = sum over the embedding of g * output:
//   dv = p^T g,  s = p (g v^T - d),  dq = scale s k,  dk = scale s^T q.
// Accumulation: all in T, one position after the other.
#pragma once

#include <limits>

#include "halogen/kernels/attention_saved.hpp"
#include "halogen/kernels/device/attention_backward.hpp"
#include "halogen/kernels/device/precision.hpp"
#include "halogen/kernels/exponential.hpp"
#include "halogen/kernels/tiles.hpp"

namespace halogen::kernels {

namespace detail {

/// q k^T to p, g v^T to s; a row's logsumexp and dot, or all columns' own. What a causal query does not see is made 0
/// afterwards: scaled, -infinity would be so for scales above 0 alone.
template <class T>
inline void pull_tile(index_t count, T scale, T* logits, T* products, const T* logs, const T* dots, bool by_column) {
  using V = Vector<T>;
  constexpr index_t columns = tile_columns<T>;
  for (index_t i = 0; i < count; ++i)
    for (index_t x = 0; x < columns; x += lanes<T>) {
      const V log = by_column ? load<V>(logs + x) : V{} + logs[i];
      const V dot = by_column ? load<V>(dots + x) : V{} + dots[i];
      const V p = exponential<T>(load<V>(logits + i * columns + x) * scale - log);
      store(logits + i * columns + x, p);
      store(products + i * columns + x, p * (load<V>(products + i * columns + x) - dot));
    }
}

}  // namespace detail

/// dq of this rank's queries from one piece of keys, added to what `result` holds unless is_first.
template <class ExecutionSpace, class T, class S>
struct AttentionQueryGradient {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  AttentionSaved<T, S> saved;
  HeadRows<T> result;
  bool is_first = true;
  index_t first_team = 0;
  bool split = !tf32_is_allowed();

  static index_t teams(const AttentionShape& shape) {
    if constexpr (device::runs_on<ExecutionSpace>)
      return DevicePart::teams(shape);
    else
      return AttentionTask::count(shape, shape.queries, columns);
  }
  void launch(const ExecutionSpace& space, index_t begin, index_t end) const {
    AttentionQueryGradient part = *this;
    part.first_team = begin;
    launch_tiles(space, "halogen::attention_dq", end - begin, part, host_bytes(), DevicePart::bytes);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  static constexpr index_t columns = detail::tile_columns<T>;
  using DevicePart = device::AttentionQueryGradient<T, S>;
  static constexpr bool converts = !std::is_same_v<T, S>;

  static std::size_t values(index_t rows) { return static_cast<std::size_t>(rows * columns); }
  std::size_t room(int width) const { return converts ? static_cast<std::size_t>(detail::tile_rows * width) : 0; }
  std::size_t host_bytes() const {
    const AttentionShape& shape = saved.shape;
    return 2 * Scratch::bytes_of<T>(values(shape.embedding)) + Scratch::bytes_of<T>(values(shape.value_embedding)) +
           2 * Scratch::bytes_of<T>(values(detail::tile_rows)) + Scratch::bytes_of<T>(values(2)) +
           Scratch::bytes_of<T>(room(shape.embedding)) + Scratch::bytes_of<T>(room(shape.value_embedding));
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    const DevicePart part{saved, result, is_first, split};
    part.run(team, first_team + team.league_rank());
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
    T* key_room = scratch.take<T>(room(shape.embedding));
    T* value_room = scratch.take<T>(room(shape.value_embedding));
    const AttentionTask task(first_team + team.league_rank(), shape.heads, shape.queries, columns);
    const index_t own = task.end - task.begin;
    const T factor = static_cast<T>(shape.scale);
    detail::load_columns(saved.query, task.sample, task.head, task.begin, own, shape.embedding, T(1), queries);
    detail::load_columns(saved.gradient, task.sample, task.head, task.begin, own, shape.value_embedding, T(1),
                         gradients);
    std::fill_n(logs, 2 * columns, T(0));
    for (index_t x = 0; x < own; ++x) {
      logs[x] = saved.log_of_sum(task.sample, task.head, task.begin + x);
      dots[x] = saved.dot(task.sample, task.head, task.begin + x);
    }
    std::fill_n(sums, values(shape.embedding), T(0));
    const index_t seen = shape.keys_seen(task.end);
    for (index_t k = 0; k < seen; k += detail::tile_rows) {
      const index_t count = std::min<index_t>(detail::tile_rows, seen - k);
      const auto keys = detail::rows_as(saved.key, task.sample, task.head, k, count, shape.embedding, key_room);
      const auto rows =
          detail::rows_as(saved.value, task.sample, task.head, k, count, shape.value_embedding, value_room);
      detail::multiply_tile<false>(count, keys.data, keys.step, 1, queries, shape.embedding, logits);
      detail::multiply_tile<false>(count, rows.data, rows.step, 1, gradients, shape.value_embedding, products);
      detail::pull_tile(count, factor, logits, products, logs, dots, true);
      const bool hides = shape.hides(task.begin, k + count - 1);
      if (hides)  // only products are read
        detail::hide_queries(shape, task.begin, k, count, T(0), products);
      detail::multiply_seen(keys, shape.embedding, products, count, hides,
                            detail::SeenColumns{shape, k, task.begin, true}, sums);
    }
    for (index_t x = 0; x < own; ++x) {
      T* row = result.row(task.sample, task.head, task.begin + x);
      for (int e = 0; e < shape.embedding; ++e) {
        const T here = factor * sums[e * columns + x];
        row[e] = is_first ? here : row[e] + here;
      }
    }
  }
};

/// dk and dv of one piece of keys from this rank's queries, added to what the results hold unless is_first.
template <class ExecutionSpace, class T, class S>
struct AttentionKeyGradient {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  AttentionSaved<T, S> saved;
  HeadRows<T> key_result, value_result;
  bool is_first = true;
  index_t first_team = 0;
  bool split = !tf32_is_allowed();

  static index_t teams(const AttentionShape& shape) {
    if constexpr (device::runs_on<ExecutionSpace>)
      return DevicePart::teams(shape);
    else
      return AttentionTask::count(shape, shape.keys, columns);
  }
  void launch(const ExecutionSpace& space, index_t begin, index_t end) const {
    AttentionKeyGradient part = *this;
    part.first_team = begin;
    launch_tiles(space, "halogen::attention_dkdv", end - begin, part, host_bytes(), DevicePart::bytes);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  static constexpr index_t columns = detail::tile_columns<T>;
  using DevicePart = device::AttentionKeyGradient<T, S>;
  static constexpr bool converts = !std::is_same_v<T, S>;

  static std::size_t values(index_t rows) { return static_cast<std::size_t>(rows * columns); }
  std::size_t room() const {
    return converts ? static_cast<std::size_t>(detail::tile_rows * saved.shape.embedding) : 0;
  }
  std::size_t host_bytes() const {
    const AttentionShape& shape = saved.shape;
    return 2 * Scratch::bytes_of<T>(values(shape.embedding)) + 2 * Scratch::bytes_of<T>(values(shape.value_embedding)) +
           2 * Scratch::bytes_of<T>(values(detail::tile_rows)) + Scratch::bytes_of<T>(2 * detail::tile_rows) +
           Scratch::bytes_of<T>(room());
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    const DevicePart part{saved, key_result, value_result, is_first, split};
    part.run(team, first_team + team.league_rank());
  }

  void run_on_host(const Team& team) const {
    const AttentionShape& shape = saved.shape;
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* keys = scratch.take<T>(values(shape.embedding));
    T* key_sums = scratch.take<T>(values(shape.embedding));
    T* value_columns = scratch.take<T>(values(shape.value_embedding));
    T* value_sums = scratch.take<T>(values(shape.value_embedding));
    T* logits = scratch.take<T>(values(detail::tile_rows));
    T* products = scratch.take<T>(values(detail::tile_rows));
    T* logs = scratch.take<T>(2 * detail::tile_rows);
    T* dots = logs + detail::tile_rows;
    T* converted = scratch.take<T>(room());
    const AttentionTask task(first_team + team.league_rank(), shape.heads, shape.keys, columns);
    const index_t own = task.end - task.begin;
    const T factor = static_cast<T>(shape.scale);
    detail::load_columns(saved.key, task.sample, task.head, task.begin, own, shape.embedding, T(1), keys);
    detail::load_columns(saved.value, task.sample, task.head, task.begin, own, shape.value_embedding, T(1),
                         value_columns);
    std::fill_n(key_sums, values(shape.embedding), T(0));
    std::fill_n(value_sums, values(shape.value_embedding), T(0));
    for (index_t q = shape.first_that_sees(task.begin); q < shape.queries; q += detail::tile_rows) {
      const index_t count = std::min<index_t>(detail::tile_rows, shape.queries - q);
      for (index_t i = 0; i < count; ++i) {
        logs[i] = saved.log_of_sum(task.sample, task.head, q + i);
        dots[i] = saved.dot(task.sample, task.head, q + i);
      }
      const auto queries = detail::rows_as(saved.query, task.sample, task.head, q, count, shape.embedding, converted);
      const auto rows = detail::rows_as(saved.gradient, task.sample, task.head, q, count, shape.value_embedding,
                                        static_cast<T*>(nullptr));
      detail::multiply_tile<false>(count, queries.data, queries.step, 1, keys, shape.embedding, logits);
      detail::multiply_tile<false>(count, rows.data, rows.step, 1, value_columns, shape.value_embedding, products);
      detail::pull_tile(count, factor, logits, products, logs, dots, false);
      const bool hides = shape.hides(q, task.end - 1);
      const detail::SeenColumns seen{shape, task.begin, q, false};
      if (hides)
        for (T* tile : {logits, products}) detail::hide_keys(shape, task.begin, q, count, T(0), tile);
      detail::multiply_seen(rows, shape.value_embedding, logits, count, hides, seen, value_sums);
      detail::multiply_seen(queries, shape.embedding, products, count, hides, seen, key_sums);
    }
    const auto store = [&](auto adds) {
      detail::store_columns<decltype(adds)::value>(key_sums, own, shape.embedding, key_result, task.sample, task.head,
                                                   task.begin, [factor](index_t) { return factor; });
      detail::store_columns<decltype(adds)::value>(value_sums, own, shape.value_embedding, value_result, task.sample,
                                                   task.head, task.begin, [](index_t) { return T(1); });
    };
    is_first ? store(std::false_type()) : store(std::true_type());
  }
};

}  // namespace halogen::kernels
