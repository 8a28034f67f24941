// Gradients of attention to a neighbourhood. Each point gathers: as a query, from the keys of its window; as a key and
// a value, from the queries that see it. There is no sum over ranks. On the host a tile is computed at once
// (neighborhood_tiles.hpp), on a device each point.
//   p = exp(scale q k + bias - l), s = p (g v - d), l and d of NeighborhoodSums, g the gradient of the output
//   dq = scale sum of s k    over the window;    dk = scale sum of s q,  dv = sum of p g    over queries that see it
//   of the bias: sum of s    over all queries and keys at the same distance (NeighborhoodBiasSums)
// A query whose g is 0 adds nothing to any of them, though it or a key that it sees be NaN.
// Accumulation: over the points in row order, in the type of computations.
#pragma once

#include "halogen/kernels/neighborhood/neighborhood_attention.hpp"

namespace halogen::kernels {

template <class S, int Features, int Width, class Bias = NoBias>
struct NeighborhoodGradients {
  using Scores = WindowScores<S, Features, Width, Bias>;
  using T = compute_type<S>;
  using Rows = FeatureRows<T, Features>;
  static constexpr int values = 2 * Features;  ///< for a key: its own gradient and that of its value
  Scores scores;
  StoredRows<S> gradient;  ///< of o
  StoredRows<S> sums;      ///< as NeighborhoodSums wrote them
  int first = 0;           ///< the first of the channels of query, key and value that the output has

  /// Queries by head, then keys by head.
  KOKKOS_FUNCTION int groups() const { return 2 * scores.windows.heads; }
  KOKKOS_FUNCTION int channel(int group, int v) const {
    const int heads = scores.windows.heads;
    if (group < heads) return v < Features ? group * Features + v - first : -1;
    const int head = group - heads;
    return (v < Features ? scores.key_channel(head) + v : scores.value_channel(head) + v - Features) - first;
  }
  KOKKOS_FUNCTION const HeadWindows& windows() const { return scores.windows; }

  KOKKOS_FUNCTION void point(int group, PlaneAt plane, index_t y, index_t x, T (&out)[values]) const {
    T first_half[Features], second_half[Features];
    HALOGEN_DEVICE_UNROLL
    for (int f = 0; f < Features; ++f) first_half[f] = second_half[f] = 0;
    if (group < scores.windows.heads)
      query_point(group, plane, y, x, first_half);
    else
      key_point(group - scores.windows.heads, plane, y, x, first_half, second_half);
    HALOGEN_DEVICE_UNROLL
    for (int f = 0; f < Features; ++f) out[f] = scores.scale * first_half[f], out[Features + f] = second_half[f];
  }

  // -- host: the numbers of a run of queries -----------------------------------------------------------------------
  /// Rows of a run with zeros before and after them, as many as its window is wider than one point.
  struct PaddedRows {
    T* of = nullptr;
    index_t pad = 0, pitch = 0;

    T* row(index_t r) const { return of + r * pitch + pad; }
    void end(index_t rows, index_t count) const {
      for (index_t r = 0; r < rows; ++r) std::fill_n(row(r) + count, pad, T(0));
    }
  };
  struct Parts {
    PaddedRows query, gradient;  ///< [Features]: scaled q, and g
    PaddedRows slopes, weights;  ///< [column]: s, and p, of the last row of keys
    Rows keys, values;           ///< of that row
    T *lines, *second_lines, *scores, *products, *logarithm, *product;
    bool* counts;  ///< whether a query has a gradient
    bool all_count = true;
  };
  index_t pad() const { return index_t{scores.windows.around[2].kernel - 1} * scores.windows.around[2].dilation; }
  index_t pitch() const { return run_points + 2 * pad(); }
  index_t most_columns() const { return scores.windows.around[2].kernel; }

  std::size_t scratch_bytes() const {
    const std::size_t padded = Scratch::bytes_of<T>(Features * pitch()),
                      tap = Scratch::bytes_of<T>(most_columns() * pitch());
    return 2 * padded + 2 * tap + 2 * scores.line_bytes() + 2 * Scratch::bytes_of<T>(most_columns() * run_points) +
           2 * Scratch::bytes_of<T>(run_points) + Scratch::bytes_of<bool>(run_points);
  }
  Parts parts_of(Scratch& scratch) const {
    Parts parts;
    const auto take = [&](index_t rows) {
      const index_t count = rows * pitch();
      return PaddedRows{std::fill_n(scratch.take<T>(count), count, T(0)) - count, pad(), pitch()};
    };
    for (PaddedRows* own : {&parts.query, &parts.gradient}) *own = take(Features);
    for (PaddedRows* tap : {&parts.slopes, &parts.weights}) *tap = take(most_columns());
    for (T** lines : {&parts.lines, &parts.second_lines}) *lines = scratch.take<T>(Features * scores.windows.columns());
    for (T** products : {&parts.scores, &parts.products}) *products = scratch.take<T>(most_columns() * run_points);
    for (T** line : {&parts.logarithm, &parts.product}) *line = scratch.take<T>(run_points);
    parts.counts = scratch.take<bool>(run_points);
    return parts;
  }

  /// Loads what belongs to the queries alone.
  void load_queries(int head, const PointRun& run, Parts& at) const {
    load_own<Features>(scores.input, run, head * Features, scores.scale, at.query.row(0), pitch());
    load_own<Features>(gradient, run, head * Features, T(1), at.gradient.row(0), pitch());
    at.query.end(Features, run.count), at.gradient.end(Features, run.count);
    std::fill_n(at.logarithm, run.lanes, T(0));
    std::fill_n(at.product, run.lanes, T(0));
    const auto row = [&](int v) { return &sums.tensor.at(PlaneAt{run.sample, 3 * head + v, run.z}, run.y, run.x); };
    const S *rounded = row(0), *rest = row(1), *d = row(2);
    for (index_t i = 0; i < run.count; ++i) at.logarithm[i] = T(rounded[i]) + T(rest[i]), at.product[i] = T(d[i]);
    find_counted(run, at);
  }
  /// Queries without a gradient become zeros.
  static void find_counted(const PointRun& run, Parts& at) {
    std::fill_n(at.counts, run.lanes, false);
    for (int f = 0; f < Features; ++f)
      for (index_t i = 0; i < run.count; ++i) at.counts[i] |= at.gradient.row(f)[i] != T(0);
    at.all_count = std::all_of(at.counts, at.counts + run.count, [](bool counts) { return counts; });
    set_uncounted_zero(run, at, at.query, Features);
  }
  static void set_uncounted_zero(const PointRun& run, const Parts& at, const PaddedRows& rows, index_t number) {
    if (at.all_count) return;
    for (index_t r = 0; r < number; ++r)
      for (index_t i = 0; i < run.count; ++i)
        if (!at.counts[i]) rows.row(r)[i] = T(0);
  }

  /// s and p of the queries and a row of keys.
  void row_of_keys(int head, const PointRun& run, index_t z, index_t y, Parts& at) const {
    const HeadWindows& windows = scores.windows;
    const index_t step = windows.around[2].dilation, first = run.columns.first, width = run.width(step);
    at.keys.load(scores.input, {run.sample, scores.key_channel(head), z}, y, first, width, at.lines, windows.columns());
    at.values.load(scores.input, {run.sample, scores.value_channel(head), z}, y, first, width, at.second_lines,
                   windows.columns());
    multiply_rows<Width>(run, step, at.query.row(0), at.keys, at.scores, pitch());
    multiply_rows<Width>(run, step, at.gradient.row(0), at.values, at.products, pitch());
    scores.add_bias(head, run, z, y, at.scores);
    for (index_t t = 0; t < run.columns.count; ++t)
      for_each_vector<T>(run.lanes, [&]<class V>(index_t i) {
        const index_t from = t * run_points + i;
        const V weight = exponential<T>(load<V>(at.scores + from) - load<V>(at.logarithm + i));
        store(at.slopes.row(t) + i, weight * (load<V>(at.products + from) - load<V>(at.product + i)));
        store(at.weights.row(t) + i, weight);
      });
    for (const PaddedRows* rows : {&at.slopes, &at.weights}) {
      set_uncounted_zero(run, at, *rows, run.columns.count);
      rows->end(run.columns.count, run.count);
    }
  }

  /// Device: the numbers of a query from which its s is computed.
  struct Query {
    T query[Features], gradient[Features], logarithm, product;
    bool counts;
  };
  KOKKOS_FUNCTION Query query_at(int head, const PlaneAt& plane, index_t y, index_t x) const {
    Query own;
    scores.load_query(head, plane, y, x, own.query);
    const PlaneAt at{plane.sample, head * Features, plane.z};
    gradient.load_features(at, y, x, T(1), own.gradient);
    own.logarithm = logarithm_at(plane, head, y, x), own.product = product_at(plane, head, y, x);
    own.counts = has_gradient(own.gradient);
    return own;
  }
  /// Device: s of the query at plane, y, x and a key that it sees.
  KOKKOS_FUNCTION T slope(int head, const Query& own, const PlaneAt& plane, index_t y, index_t x, index_t key_z,
                          index_t key_y, index_t key_x) const {
    const PlaneAt value{plane.sample, scores.value_channel(head), key_z};
    const T score = scores.score(head, own.query, plane, y, x, key_z, key_y, key_x);
    return Kokkos::exp(score - own.logarithm) * (scores.input.product(own.gradient, value, key_y, key_x) - own.product);
  }

 private:
  /// Whether a query with this gradient counts.
  KOKKOS_FUNCTION static bool has_gradient(const T (&of_query)[Features]) {
    bool counts = false;
    HALOGEN_DEVICE_UNROLL
    for (int f = 0; f < Features; ++f) counts |= of_query[f] != T(0);
    return counts;
  }
  KOKKOS_FUNCTION T logarithm_at(PlaneAt plane, int head, index_t y, index_t x) const {
    plane.channel = 3 * head;
    const T rounded = sums.at(plane, y, x);
    ++plane.channel;
    return rounded + sums.at(plane, y, x);
  }
  KOKKOS_FUNCTION T product_at(PlaneAt plane, int head, index_t y, index_t x) const {
    plane.channel = 3 * head + 2;
    return sums.at(plane, y, x);
  }

  KOKKOS_FUNCTION void query_point(int head, const PlaneAt& plane, index_t y, index_t x, T (&out)[Features]) const {
    const Query own = query_at(head, plane, y, x);
    if (!own.counts) return;
    scores.windows.template for_each<false>(plane.z, y, x, [&](index_t at_z, index_t at_y, index_t at_x) {
      const PlaneAt key{plane.sample, scores.key_channel(head), at_z};
      scores.input.add_to(slope(head, own, plane, y, x, at_z, at_y, at_x), key, at_y, at_x, out);
    });
  }

  KOKKOS_FUNCTION void key_point(int head, PlaneAt plane, index_t y, index_t x, T (&out)[Features],
                                 T (&of_value)[Features]) const {
    T key[Features], value[Features];
    scores.input.load_features({plane.sample, scores.key_channel(head), plane.z}, y, x, scores.scale, key);
    scores.input.load_features({plane.sample, scores.value_channel(head), plane.z}, y, x, T(1), value);
    scores.windows.template for_each<true>(plane.z, y, x, [&](index_t at_z, index_t at_y, index_t at_x) {
      const PlaneAt query{plane.sample, head * Features, at_z};
      T own[Features];
      gradient.load_features(query, at_y, at_x, T(1), own);
      if (!has_gradient(own)) return;
      const T logarithm = logarithm_at(query, head, at_y, at_x), d = product_at(query, head, at_y, at_x);
      const T product = scores.input.product(key, query, at_y, at_x);
      const T score = scores.biased(product, head, at_z - plane.z, at_y - y, at_x - x);
      const T weight = Kokkos::exp(score - logarithm);
      const T slope = weight * (gradient.product(value, query, at_y, at_x) - d);
      scores.input.add_to(slope, query, at_y, at_x, out);
      gradient.add_to(weight, query, at_y, at_x, of_value);
    });
  }
};

}  // namespace halogen::kernels
