// Gradients of attention to a neighbourhood. Each point gathers: as a query, from the keys of its window; as a key and
// a value, from the queries that see it. There is no sum over ranks.
//   p = exp(scale q k + bias - l), s = p (g v - d), l and d of NeighborhoodSums, g the gradient of the output
//   dq = scale sum of s k    over the window;    dk = scale sum of s q,  dv = sum of p g    over queries that see it
//   of the bias: sum of s    over all queries and keys at the same distance (NeighborhoodBiasSums)
// Accumulation: over the points in row order, in the type of computations.
#pragma once

#include "halogen/kernels/neighborhood_attention.hpp"

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
  PointRun run_from(int group, index_t x, index_t end) const {
    return group < scores.windows.heads ? scores.windows.template run_from<false, T>(x, end)
                                        : scores.windows.template run_from<true, T>(x, end);
  }

  std::size_t scratch_bytes() const {
    const HeadWindows& windows = scores.windows;
    return 2 * Scores::own_bytes() + 2 * scores.line_bytes() +
           2 * Scratch::bytes_of<T>(windows.most_seen() * run_points) + 2 * Scratch::bytes_of<T>(windows.columns());
  }

  void piece(int group, const PointRun& run, T* out, Scratch scratch) const {
    const Parts parts = parts_of(scratch);
    std::fill_n(out, values * run_points, T(0));
    const int heads = scores.windows.heads;
    if (group < heads)
      for_each_row_of_keys(group, run, parts, [&](index_t, index_t, const Rows& keys) {
        add_rows<Width>(run, scores.windows.around[2].dilation, parts.scores, keys, out);
      });
    else
      key_piece(group - heads, run, parts, out);
    for (int f = 0; f < Features; ++f)
      for (index_t i = 0; i < run.count; ++i) out[f * run_points + i] *= scores.scale;
  }

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

  /// Host: scratch of a piece.
  struct Parts {
    T *own, *second_own, *lines, *second_lines, *scores, *products, *logarithm, *product;
  };
  Parts parts_of(Scratch& scratch) const {
    const HeadWindows& windows = scores.windows;
    Parts parts;
    for (T** own : {&parts.own, &parts.second_own}) *own = scratch.take<T>(Features * run_points);
    for (T** lines : {&parts.lines, &parts.second_lines}) *lines = scratch.take<T>(Features * windows.columns());
    for (T** products : {&parts.scores, &parts.products}) *products = scratch.take<T>(windows.most_seen() * run_points);
    for (T** line : {&parts.logarithm, &parts.product}) *line = scratch.take<T>(windows.columns());
    return parts;
  }

  /// Host: calls f(z, y, keys) for each row of keys that the queries of a run see, with s of all columns in at.scores.
  template <class F>
  void for_each_row_of_keys(int head, const PointRun& run, const Parts& at, F f) const {
    const HeadWindows& windows = scores.windows;
    const index_t step = windows.around[2].dilation, first = run.columns.first, width = run.width(step);
    load_own<Features>(scores.input, run, head * Features, scores.scale, at.own);
    load_own<Features>(gradient, run, head * Features, T(1), at.second_own);
    std::fill_n(at.logarithm, run.lanes, T(0));
    std::fill_n(at.product, run.lanes, T(0));
    load_sums(run.sample, head, run.z, run.y, run.x, run.count, at.logarithm, at.product);
    windows.for_each_row<false>(run.z, run.y, [&](index_t z, index_t y) {
      Rows keys, seen;
      const PlaneAt key{run.sample, scores.key_channel(head), z}, value{run.sample, scores.value_channel(head), z};
      keys.load(scores.input, key, y, first, width, at.lines, windows.columns());
      seen.load(scores.input, value, y, first, width, at.second_lines, windows.columns());
      multiply_rows<Width>(run, step, at.own, keys, at.scores);
      multiply_rows<Width>(run, step, at.second_own, seen, at.products);
      scores.template add_bias<false>(head, run, z, y, at.scores);
      for (index_t t = 0; t < run.columns.count; ++t)
        for_each_vector<T>(run.lanes, [&]<class V>(index_t i) {
          T* score = at.scores + t * run_points + i;
          const V weight = exponential<T>(load<V>(score) - load<V>(at.logarithm + i));
          store(score, weight * (load<V>(at.products + t * run_points + i) - load<V>(at.product + i)));
        });
      f(z, y, keys);
    });
  }

  /// Device: the numbers of a query from which its s is computed.
  struct Query {
    T query[Features], gradient[Features], logarithm, product;
  };
  KOKKOS_FUNCTION Query query_at(int head, const PlaneAt& plane, index_t y, index_t x) const {
    Query own;
    scores.load_query(head, plane, y, x, own.query);
    const PlaneAt at{plane.sample, head * Features, plane.z};
    gradient.load_features(at, y, x, T(1), own.gradient);
    own.logarithm = logarithm_at(plane, head, y, x), own.product = product_at(plane, head, y, x);
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
  /// l and d of queries [x, x + count).
  void load_sums(int sample, int head, index_t z, index_t y, index_t x, index_t count, T* logarithm, T* product) const {
    const auto row = [&](int v) { return &sums.tensor.at(PlaneAt{sample, 3 * head + v, z}, y, x); };
    const S *rounded = row(0), *rest = row(1), *d = row(2);
    for (index_t i = 0; i < count; ++i) logarithm[i] = T(rounded[i]) + T(rest[i]), product[i] = T(d[i]);
  }

  void key_piece(int head, const PointRun& run, const Parts& at, T* out) const {
    const HeadWindows& windows = scores.windows;
    const index_t step = windows.around[2].dilation, first = run.columns.first, width = run.width(step);
    load_own<Features>(scores.input, run, scores.key_channel(head), scores.scale, at.own);
    load_own<Features>(scores.input, run, scores.value_channel(head), T(1), at.second_own);
    windows.for_each_row<true>(run.z, run.y, [&](index_t z, index_t y) {
      Rows queries, gradients;
      const PlaneAt query{run.sample, head * Features, z};
      queries.load(scores.input, query, y, first, width, at.lines, windows.columns());
      gradients.load(gradient, query, y, first, width, at.second_lines, windows.columns());
      load_sums(run.sample, head, z, y, first, width, at.logarithm, at.product);
      multiply_rows<Width>(run, step, at.own, queries, at.scores);
      multiply_rows<Width>(run, step, at.second_own, gradients, at.products);
      scores.template add_bias<true>(head, run, z, y, at.scores);
      if (run.shared)
        slopes_of<true>(run, step, at);
      else
        slopes_of<false>(run, step, at);
      if (run.hides && !sums_are_finite(run, at)) return add_seen(run, at, queries, gradients, out);
      add_rows<Width>(run, step, at.scores, queries, out);
      add_rows<Width>(run, step, at.products, gradients, out + Features * run_points);
    });
  }

  /// Host: whether l and d of the queries in the columns are finite. They are not if a query or a gradient is not
  /// finite.
  static bool sums_are_finite(const PointRun& run, const Parts& at) {
    T zero = 0;
    for (index_t t = 0; t < run.columns.count; ++t) zero += at.logarithm[t] * T(0) + at.product[t] * T(0);
    return zero == T(0);
  }
  /// Host: add_rows for both sums, but only of the queries that see a point. The others count 0, but 0 times their NaN
  /// would be NaN.
  void add_seen(const PointRun& run, const Parts& at, const Rows& queries, const Rows& gradients, T* out) const {
    for (index_t i = 0; i < run.count; ++i) {
      const SpacedPoints own = scores.windows.template seen<true>(2, run.x + i);
      for (int f = 0; f < Features; ++f)
        for (index_t t = own.first - run.columns.first; t < own.first + own.count - run.columns.first; ++t) {
          out[f * run_points + i] += at.scores[t * run_points + i] * queries.row[f][t];
          out[(Features + f) * run_points + i] += at.products[t * run_points + i] * gradients.row[f][t];
        }
    }
  }

  /// Host: for a row of queries, writes s in place of scale q k, and p in place of g v. If the points of the run share
  /// the queries, a query that does not see a point counts 0.
  template <bool Shared>
  void slopes_of(const PointRun& run, index_t step, const Parts& at) const {
    for (index_t t = 0; t < run.columns.count; ++t)
      for_each_vector<T>(run.lanes, [&]<class V>(index_t i) {
        T *score = at.scores + t * run_points + i, *product = at.products + t * run_points + i;
        const V l = detail::load_seen<Shared, V>(at.logarithm + t * step, i);
        const V weight = exponential<T>(load<V>(score) - l);
        store(score, weight * (load<V>(product) - detail::load_seen<Shared, V>(at.product + t * step, i)));
        store(product, weight);
      });
    if (run.hides)
      for (index_t i = 0; i < run.count; ++i) {
        const SpacedPoints own = scores.windows.template seen<true>(2, run.x + i);
        for (index_t t = 0; t < run.columns.count; ++t) {
          const index_t column = run.columns.first + t;
          if (column < own.first || column >= own.first + own.count)
            at.scores[t * run_points + i] = at.products[t * run_points + i] = 0;
        }
      }
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
