// Attention of each point to the points of its window (Hassani et al. 2023), forward, and the numbers of each query
// that backward needs. o = sum over the window of p v, where p = softmax(scale q k + bias). The bias depends on the
// distance of q from k, or there is none. Accumulation: products over features in their order, sums over the window in
// row order, in the type of computations. The largest product is subtracted first.
#pragma once

#include "halogen/kernels/attention/kept_logarithms.hpp"
#include "halogen/kernels/attention/relative_bias.hpp"
#include "halogen/kernels/neighborhood/neighborhood_rows.hpp"
#include "halogen/kernels/vector/exponential.hpp"

namespace halogen::kernels {

/// The products of a query with the keys of its window, with a bias. Width is the number of points of a window in
/// width.
template <class S, int Features, int Width, class Bias = NoBias>
struct WindowScores {
  using T = compute_type<S>;
  using Rows = FeatureRows<T, Features>;
  StoredRows<S> input;  ///< query, key, value
  HeadWindows windows;
  Bias bias;
  T scale = 1;

  KOKKOS_FUNCTION int key_channel(int head) const { return windows.channels + head * Features; }
  KOKKOS_FUNCTION int value_channel(int head) const { return 2 * windows.channels + head * Features; }

  std::size_t score_bytes() const { return Scratch::bytes_of<T>(windows.window_points() * run_points); }
  std::size_t line_bytes() const { return Scratch::bytes_of<T>(Features * windows.columns()); }
  static std::size_t own_bytes() { return Scratch::bytes_of<T>(Features * run_points); }

  /// Host: writes scores[tap][i] for the run's points, and returns the number of taps.
  index_t scores_of(int head, const PointRun& run, const T* query, T* scores, T* lines) const {
    const index_t step = windows.around[2].dilation;
    index_t taps = 0;
    windows.for_each_row<false>(run.z, run.y, [&](index_t z, index_t y) {
      Rows keys;
      keys.load(input, {run.sample, key_channel(head), z}, y, run.columns.first, run.width(step), lines,
                windows.columns());
      multiply_rows<Width>(run, step, query, keys, scores + taps * run_points);
      add_bias(head, run, z, y, scores + taps * run_points);
      taps += run.columns.count;
    });
    return taps;
  }

  /// Host: adds the bias to scores[t][i], for a run's queries and the keys of a row.
  void add_bias(int head, const PointRun& run, index_t z, index_t y, T* scores) const {
    if constexpr (Bias::adds)
      for_each_distance(head, run, z, y,
                        [&](index_t t, index_t i, index_t place) { scores[t * run_points + i] += bias.table[place]; });
  }
  /// Host: calls f(t, i, place) for each column t and each point i of the run. `place` is the index in the bias's
  /// table.
  template <class F>
  void for_each_distance(int head, const PointRun& run, index_t z, index_t y, F f) const {
    const index_t step = windows.around[2].dilation;
    const index_t beside = run.shared ? bias.heads : 0;  // from one point of the run to the next
    for (index_t t = 0; t < run.columns.count; ++t) {
      const index_t place = bias.place(head, run.z - z, run.y - y, run.x - run.columns.first - t * step);
      for (index_t i = 0; i < run.count; ++i) f(t, i, place + i * beside);
    }
  }
  /// The product of a query and a key at this distance, plus the bias.
  KOKKOS_FUNCTION T biased(T product, int head, index_t planes, index_t rows, index_t columns) const {
    if constexpr (Bias::adds)
      return product + bias.table[bias.place(head, planes, rows, columns)];
    else
      return product;
  }

  /// Host: scores become exponentials of their differences from the largest of each point.
  static void exponentials_of(index_t taps, index_t lanes, T* scores, T* largest, T* sum) {
    std::copy_n(scores, lanes, largest);
    for (index_t t = 1; t < taps; ++t)
      for (index_t i = 0; i < lanes; ++i) largest[i] = std::max(largest[i], scores[t * run_points + i]);
    std::fill_n(sum, lanes, T(0));
    for (index_t t = 0; t < taps; ++t)
      for_each_vector<T>(lanes, [&]<class V>(index_t i) {
        const V one = exponential<T>(load<V>(scores + t * run_points + i) - load<V>(largest + i));
        store(scores + t * run_points + i, one);
        store(sum + i, load<V>(sum + i) + one);
      });
  }

  KOKKOS_FUNCTION void load_query(int head, PlaneAt plane, index_t y, index_t x, T (&query)[Features]) const {
    plane.channel = head * Features;
    input.load_features(plane, y, x, scale, query);
  }
  /// The score of the query at plane, y, x and a key.
  KOKKOS_FUNCTION T score(int head, const T (&query)[Features], const PlaneAt& plane, index_t y, index_t x,
                          index_t key_z, index_t key_y, index_t key_x) const {
    const PlaneAt key{plane.sample, key_channel(head), key_z};
    const T product = input.product(query, key, key_y, key_x);
    return biased(product, head, plane.z - key_z, y - key_y, x - key_x);
  }
};

/// Computes one head of the output.
template <class S, int Features, int Width, class Bias = NoBias>
struct NeighborhoodAttentionOf {
  using Scores = WindowScores<S, Features, Width, Bias>;
  using T = compute_type<S>;
  static constexpr int values = Features;
  Scores scores;
  TensorView<S> kept;  ///< of all heads, or nothing

  KOKKOS_FUNCTION int groups() const { return scores.windows.heads; }
  KOKKOS_FUNCTION int channel(int head, int f) const { return head * Features + f; }
  KOKKOS_FUNCTION const HeadWindows& windows() const { return scores.windows; }
  PointRun run_from(int, index_t x, index_t end) const { return scores.windows.template run_from<T>(x, end); }

  std::size_t scratch_bytes() const {
    return Scores::own_bytes() + scores.score_bytes() + scores.line_bytes() + Scratch::bytes_of<T>(2 * run_points);
  }

  void piece(int head, const PointRun& run, T* out, Scratch scratch) const {
    const HeadWindows& around = scores.windows;
    T* query = scratch.take<T>(Features * run_points);
    T* weights = scratch.take<T>(around.window_points() * run_points);
    T* lines = scratch.take<T>(Features * around.columns());
    T *largest = scratch.take<T>(2 * run_points), *sum = largest + run_points;
    load_own<Features>(scores.input, run, head * Features, scores.scale, query);
    const index_t taps = scores.scores_of(head, run, query, weights, lines);
    Scores::exponentials_of(taps, run.lanes, weights, largest, sum);
    std::fill_n(out, Features * run_points, T(0));
    const index_t step = around.around[2].dilation;
    index_t tap = 0;
    around.for_each_row<false>(run.z, run.y, [&](index_t z, index_t y) {
      FeatureRows<T, Features> seen;
      seen.load(scores.input, {run.sample, scores.value_channel(head), z}, y, run.columns.first, run.width(step), lines,
                around.columns());
      add_rows<Width>(run, step, weights + tap * run_points, seen, out);
      tap += run.columns.count;
    });
    for (int f = 0; f < Features; ++f)
      for (index_t i = 0; i < run.count; ++i) out[f * run_points + i] /= sum[i];
    for (index_t i = 0; kept.data != nullptr && i < run.count; ++i)
      keep({run.sample, head * kept_of_head, run.z}, run.y, run.x + i, largest[i] + Kokkos::log(sum[i]));
  }

  /// Subtracts the largest product so far. When a larger one comes, the older sums are multiplied by a factor.
  KOKKOS_FUNCTION void point(int head, PlaneAt plane, index_t y, index_t x, T (&out)[values]) const {
    T query[Features], largest = 0, sum = 0;
    scores.load_query(head, plane, y, x, query);
    HALOGEN_DEVICE_UNROLL
    for (int f = 0; f < Features; ++f) out[f] = 0;
    scores.windows.template for_each<false>(plane.z, y, x, [&](index_t at_z, index_t at_y, index_t at_x) {
      const T score = scores.score(head, query, plane, y, x, at_z, at_y, at_x);
      const bool first = sum == T(0);
      if (first || largest < score) {
        const T back = first ? T(0) : Kokkos::exp(largest - score);
        sum *= back, largest = score;
        HALOGEN_DEVICE_UNROLL
        for (int f = 0; f < Features; ++f) out[f] *= back;
      }
      const T weight = Kokkos::exp(score - largest);
      sum += weight;
      scores.input.add_to(weight, {plane.sample, scores.value_channel(head), at_z}, at_y, at_x, out);
    });
    HALOGEN_DEVICE_UNROLL
    for (int f = 0; f < Features; ++f) out[f] /= sum;
    if (kept.data != nullptr) keep({plane.sample, head * kept_of_head, plane.z}, y, x, largest + Kokkos::log(sum));
  }

 private:
  KOKKOS_FUNCTION void keep(PlaneAt at, index_t y, index_t x, T logarithm) const {
    const auto parts = KeptLogarithm<S>::of(logarithm);
    kept.at(at, y, x) = parts.rounded;
    ++at.channel;
    kept.at(at, y, x) = parts.rest;
  }
};

/// What backward reads of each query and head, at the query and at all keys that it sees: what forward kept, and the
/// sum d over features of o times its gradient.
template <class S>
struct NeighborhoodSums {
  using T = compute_type<S>;
  static constexpr int values = 3;
  StoredRows<S> kept, gradient, result;  ///< of NeighborhoodAttentionOf, gradient of o, and o
  DepthWindow planes;
  int features;

  index_t scratch_size(index_t columns) const { return columns; }
  void row(int n, int c, index_t y, index_t x0, index_t count, T* out, T* scratch) const {
    PlaneAt plane = planes.input(n, 0);
    if (is_kept(c)) {
      plane.channel = kept_channel(c);
      return kept.load_row(plane, y, x0, count, out);
    }
    plane.channel = c / values * features;
    std::fill_n(out, count, T(0));
    for (int f = 0; f < features; ++f, ++plane.channel) {
      gradient.load_row(plane, y, x0, count, scratch);
      const S* o = &result.tensor.at(plane, y, x0);
      for (index_t i = 0; i < count; ++i) out[i] += scratch[i] * T(o[i]);
    }
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    PlaneAt plane = planes.input(n, 0);
    if (is_kept(c)) {
      plane.channel = kept_channel(c);
      return kept.at(plane, y, x);
    }
    plane.channel = c / values * features;
    T sum = 0;
    for (int f = 0; f < features; ++f, ++plane.channel) sum += gradient.at(plane, y, x) * result.at(plane, y, x);
    return sum;
  }

 private:
  KOKKOS_FUNCTION static bool is_kept(int c) { return c % values < kept_of_head; }
  KOKKOS_FUNCTION static int kept_channel(int c) { return c / values * kept_of_head + c % values; }
};

}  // namespace halogen::kernels
