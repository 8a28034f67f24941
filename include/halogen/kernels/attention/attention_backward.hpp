// Gradients of attention from its output and logsumexp. With p = exp(scale q k^T + bias - logsumexp), g the gradient of
// the output, and d = sum over the embedding of g * output:
//   dv = p^T g,  s = p (g v^T - d),  dq = scale s k,  dk = scale s^T q,  dbias = s.
// Dropout multiplies p by m in dv and g v^T by m in s. A query whose g is 0 adds nothing, whatever its numbers are.
// Accumulation: all in T, one position after the other.
#pragma once

#include <limits>

#include "halogen/kernels/attention/attention_saved.hpp"
#include "halogen/kernels/attention/device_attention_backward.hpp"
#include "halogen/kernels/tiles/device_precision.hpp"
#include "halogen/kernels/tiles/tiles.hpp"
#include "halogen/kernels/vector/exponential.hpp"

namespace halogen::kernels {

namespace detail {

/// Turns scale q k^T + bias into p (times m), and g v^T into s. Both are 0 where a query does not see a key. logs and
/// dots have one number for each row, or one for each column if keys are rows. Hidden pairs are set to 0 afterwards,
/// because -infinity stays -infinity only if it is scaled by a positive number.
template <class T>
inline void pull_tile(const TilePairs<T>& pairs, T scale, T* logits, T* products, const T* logs, const T* dots) {
  using V = Vector<T, wide_lanes<T>>;
  constexpr index_t columns = tile_columns<T>;
  if (pairs.has_bias()) {
    pairs.add_bias(scale, logits);
    scale = T(1);
  }
  pairs.drop(products);
  for (index_t i = 0; i < pairs.rows; ++i)
    for (index_t x = 0; x < columns; x += wide_lanes<T>) {
      const V log = pairs.keys_are_rows ? load<V>(logs + x) : V{} + logs[i];
      const V dot = pairs.keys_are_rows ? load<V>(dots + x) : V{} + dots[i];
      const V p = exponential<T>(load<V>(logits + i * columns + x) * scale - log);
      store(logits + i * columns + x, p);
      store(products + i * columns + x, p * (load<V>(products + i * columns + x) - dot));
    }
  if (pairs.hides())
    for (T* tile : {logits, products}) pairs.hide(T(0), tile);
  pairs.drop(logits);
}

/// A block of queries on the host. It computes p and s of their pairs with some keys at a time.
template <class T, class S>
class QueryBlock {
 public:
  static constexpr index_t most = tile_columns<T>;  ///< most queries

  static std::size_t bytes(const AttentionShape& shape) {
    return Scratch::bytes_of<T>(values(shape.embedding)) + Scratch::bytes_of<T>(values(shape.value_embedding)) +
           2 * Scratch::bytes_of<T>(values(tile_rows)) + Scratch::bytes_of<T>(values(2)) +
           Scratch::bytes_of<T>(room(shape.embedding)) + Scratch::bytes_of<T>(room(shape.value_embedding));
  }
  QueryBlock(const AttentionSaved<T, S>& saved, Scratch& scratch)
      : saved_(saved),
        queries_(scratch.take<T>(values(saved.shape.embedding))),
        gradients_(scratch.take<T>(values(saved.shape.value_embedding))),
        shares_(scratch.take<T>(values(tile_rows))),
        slopes_(scratch.take<T>(values(tile_rows))),
        logs_(scratch.take<T>(values(2))),
        key_room_(scratch.take<T>(room(saved.shape.embedding))),
        value_room_(scratch.take<T>(room(saved.shape.value_embedding))) {}

  /// Loads queries [begin, begin + count).
  void load(index_t sample, index_t head, index_t begin, index_t count) {
    sample_ = sample, head_ = head, begin_ = begin, count_ = count;
    load_columns(saved_.query, sample, head, begin, count, saved_.shape.embedding, T(1), queries_);
    load_columns(saved_.gradient, sample, head, begin, count, saved_.shape.value_embedding, T(1), gradients_);
    std::fill_n(logs_, 2 * most, T(0));
    for (index_t x = 0; x < count; ++x) {
      logs_[x] = saved_.log_of_sum(sample, head, begin + x);
      logs_[most + x] = saved_.dot(sample, head, begin + x);
    }
  }

  /// Calls f(first key, pairs, shares, slopes, keys) for the keys that the queries see, some at a time. shares is p and
  /// slopes is s, both with keys as rows.
  template <class F>
  void each_tile(F f) {
    const AttentionShape& shape = saved_.shape;
    const index_t seen = shape.keys_seen(begin_ + count_);
    for (index_t k = 0; k < seen; k += tile_rows) {
      const index_t count = std::min<index_t>(tile_rows, seen - k);
      const auto keys = rows_as(saved_.key, sample_, head_, k, count, shape.embedding, key_room_);
      const auto rows = rows_as(saved_.value, sample_, head_, k, count, shape.value_embedding, value_room_);
      multiply_tile<false>(count, keys.data, keys.step, 1, queries_, shape.embedding, shares_);
      multiply_tile<false>(count, rows.data, rows.step, 1, gradients_, shape.value_embedding, slopes_);
      const TilePairs<T> pairs{shape, saved_.terms, sample_, head_, k, begin_, true, count, count_, logs_ + most};
      pull_tile(pairs, static_cast<T>(shape.scale), shares_, slopes_, logs_, logs_ + most);
      f(k, pairs, static_cast<const T*>(shares_), static_cast<const T*>(slopes_), keys);
    }
  }

 private:
  static std::size_t values(index_t rows) { return static_cast<std::size_t>(rows * most); }
  static std::size_t room(int width) { return std::is_same_v<T, S> ? 0 : static_cast<std::size_t>(tile_rows * width); }

  const AttentionSaved<T, S>& saved_;
  T *queries_, *gradients_, *shares_, *slopes_, *logs_, *key_room_, *value_room_;
  index_t sample_ = 0, head_ = 0, begin_ = 0, count_ = 0;
};

/// result[e] (+)= factor * sums[e][x] for each of `count` queries, beginning with query `begin`.
template <class T>
inline void store_query_gradients(const T* sums, index_t sample, index_t head, index_t begin, index_t count, int width,
                                  T factor, bool adds, const HeadRows<T>& result) {
  for (index_t x = 0; x < count; ++x) {
    T* row = result.row(sample, head, begin + x);
    for (int e = 0; e < width; ++e) {
      const T here = factor * sums[e * tile_columns<T> + x];
      row[e] = adds ? row[e] + here : here;
    }
  }
}

}  // namespace detail

/// dq of this rank's queries from one piece of keys. It is added to `result`, unless is_first.
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
  using Block = detail::QueryBlock<T, S>;

  std::size_t values() const { return static_cast<std::size_t>(saved.shape.embedding * columns); }
  std::size_t host_bytes() const { return Block::bytes(saved.shape) + Scratch::bytes_of<T>(values()); }

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    const DevicePart part{saved, result, is_first, split};
    part.run(team, first_team + team.league_rank());
  }

  void run_on_host(const Team& team) const {
    const AttentionShape& shape = saved.shape;
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    Block block(saved, scratch);
    T* sums = scratch.take<T>(values());
    const AttentionTask task(first_team + team.league_rank(), shape.heads, shape.queries, columns);
    block.load(task.sample, task.head, task.begin, task.end - task.begin);
    std::fill_n(sums, values(), T(0));
    block.each_tile([&](index_t, const auto& pairs, const T*, const T* slopes, const auto& keys) {
      pairs.multiply(keys, shape.embedding, slopes, sums);
    });
    detail::store_query_gradients(sums, task.sample, task.head, task.begin, task.end - task.begin, shape.embedding,
                                  static_cast<T>(shape.scale), !is_first, result);
  }
};

/// dk and dv of one piece of keys from this rank's queries. They are added to the results, unless is_first.
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
      const detail::TilePairs<T> pairs{shape, saved.terms, task.sample, task.head, task.begin,
                                       q,     false,       count,       own,       dots};
      detail::pull_tile(pairs, factor, logits, products, logs, dots);
      pairs.multiply(rows, shape.value_embedding, logits, value_sums);
      pairs.multiply(queries, shape.embedding, products, key_sums);
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
