// Normalisation over the channels of each point, with (LayerNorm) and without (RMSNorm) their mean, and its adjoint. If
// a value has more channels than the norm, each head is normalised by itself. Accumulation: over the channels in their
// order, in the value type within channels_at_once channels and in double across these. If there is a mean, deviations
// from the first channel are summed. Sums over points are in the value type within a piece of a row, and in double
// across pieces. Backward, a point without a gradient adds nothing, even if it is infinite or NaN.
#pragma once

#include "halogen/kernels/rows/views.hpp"
#include "halogen/kernels/tiles/device_tile_output.hpp"
#include "halogen/kernels/tiles/point_kernel.hpp"

namespace halogen::kernels {

/// How many channels of a point are summed in the value type.
inline constexpr int channels_at_once = 16;

/// The moments by which a point is normalised.
template <class T>
struct ChannelMoments {
  T origin{}, mean{}, inverse{};  ///< x[0] or 0, the mean of x - origin, 1 / sqrt(variance + epsilon)
  KOKKOS_FUNCTION T normal(T x) const { return (x - origin - mean) * inverse; }
};

template <class T, bool Centred>
struct ChannelNorm {
  int channels = 0;
  T epsilon{};

  /// The moments of the values x(c) of one point.
  template <class Values>
  KOKKOS_FUNCTION ChannelMoments<T> moments(Values x) const {
    ChannelMoments<T> result;
    if constexpr (Centred) {
      result.origin = x(0);
      result.mean = static_cast<T>(sum([&](int c) { return x(c) - result.origin; })) / T(channels);
    }
    const double squares = sum([&](int c) {
      const T deviation = x(c) - result.origin - result.mean;
      return deviation * deviation;
    });
    result.inverse = inverse_of(squares);
    return result;
  }
  /// Host: the same for columns of rows that are `pitch` apart. The rows become normal, and `inverse` becomes 1 /
  /// sqrt(variance + epsilon).
  void normalise(T* x, T* inverse, index_t pitch, index_t count) const {
    double sums[most_points_at_once];
    if constexpr (Centred) {
      T origin[most_points_at_once], mean[most_points_at_once];
      std::copy_n(x, count, origin);
      sum_rows(x, pitch, count, sums, [&](T& value, index_t i) { return value -= origin[i]; });
      for (index_t i = 0; i < count; ++i) mean[i] = static_cast<T>(sums[i]) / T(channels);
      for (int c = 0; c < channels; ++c)
        for (index_t i = 0; i < count; ++i) x[c * pitch + i] -= mean[i];
    }
    sum_rows(x, pitch, count, sums, [](T& value, index_t) { return value * value; });
    for (index_t i = 0; i < count; ++i) inverse[i] = inverse_of(sums[i]);
    for (int c = 0; c < channels; ++c)
      for (index_t i = 0; i < count; ++i) x[c * pitch + i] *= inverse[i];
  }
  /// Host: makes the columns 0 that have no gradient and are infinite or NaN or too large to square.
  void drop_uncounted(const T* g, T* x, T* inverse, index_t pitch, index_t count) const {
    int others = 0;
    for (index_t i = 0; i < count; ++i) others |= !(inverse[i] > T(0));
    for (index_t i = 0; others != 0 && i < count; ++i) {
      if (inverse[i] > T(0)) continue;
      bool counts = false;
      for (int c = 0; c < channels; ++c) counts |= g[c * pitch + i] != T(0);
      if (counts) continue;
      inverse[i] = T(0);
      for (int c = 0; c < channels; ++c) x[c * pitch + i] = T(0);
    }
  }

 private:
  KOKKOS_FUNCTION T inverse_of(double squares) const {
    return T(1) / Kokkos::sqrt(static_cast<T>(squares) / T(channels) + epsilon);
  }
  /// The sum of term(c) over the channels.
  template <class Term>
  KOKKOS_FUNCTION double sum(Term term) const {
    double total = 0;
    for (int first = 0; first < channels; first += channels_at_once) {
      const int end = first + channels_at_once < channels ? first + channels_at_once : channels;
      T some = 0;
      for (int c = first; c < end; ++c) some += term(c);
      total += static_cast<double>(some);
    }
    return total;
  }
  /// Host: the same for columns of rows, of term(x, column).
  template <class Term>
  void sum_rows(T* x, index_t pitch, index_t count, double* sums, Term term) const {
    T some[most_points_at_once];
    std::fill_n(sums, count, 0.0);
    for (int first = 0; first < channels; first += channels_at_once) {
      std::fill_n(some, count, T(0));
      for (int c = first; c < std::min(first + channels_at_once, channels); ++c)
        for (index_t i = 0; i < count; ++i) some[i] += term(x[c * pitch + i], i);
      for (index_t i = 0; i < count; ++i) sums[i] += static_cast<double>(some[i]);
    }
  }
};

/// y[c] = gamma[c] x'[c] + beta[c], where x' is the normalised point. A null beta is 0. All heads have the same gamma
/// and beta.
template <class S, bool Centred>
struct ChannelNormPoint {
  using T = compute_type<S>;
  ValueReader<S> input;
  ChannelNorm<T, Centred> norm;
  const T *gamma = nullptr, *beta = nullptr;
  int channels = 0, first = 0;

  static constexpr int operands = 1;
  void load(int n, int c, index_t y, index_t x0, index_t count, T* to, T*) const {
    input.load_row(n, c, y, x0, count, to);
  }
  void compute(T* x, T*, T* sums, index_t pitch, index_t count) const {
    for (T* head = x; head != x + channels * pitch; head += norm.channels * pitch) {
      norm.normalise(head, sums, pitch, count);
      for (int c = 0; c < norm.channels; ++c) {
        const T shift = beta == nullptr ? T(0) : beta[c];
        for (index_t i = 0; i < count; ++i) head[c * pitch + i] = head[c * pitch + i] * gamma[c] + shift;
      }
    }
  }
  KOKKOS_FUNCTION T at(int n, int o, index_t y, index_t x) const {
    const int own = o % norm.channels, head = o - own;
    const ChannelMoments<T> of = norm.moments([&](int c) { return input.at(n, head + c, y, x); });
    return of.normal(input.at(n, o, y, x)) * gamma[own] + (beta == nullptr ? T(0) : beta[own]);
  }
};

/// Host: along += the sum of g x; sum += the sum of g, unless sum is null.
template <class T>
void add_products(const T* g, const T* x, index_t count, double& along, double* sum) {
  constexpr int many = lanes<T>;
  Vector<T> products{}, values{};
  index_t i = 0;
  for (; i + many <= count; i += many) {
    const Vector<T> v = load<Vector<T>>(g + i);
    products += v * load<Vector<T>>(x + i), values += v;
  }
  T rest_along = 0, rest = 0;
  for (; i < count; ++i) rest_along += g[i] * x[i], rest += g[i];
  along += static_cast<double>(sum_of_lanes<T>(products) + rest_along);
  if (sum != nullptr) *sum += static_cast<double>(sum_of_lanes<T>(values) + rest);
}

/// dx[c] = (h[c] - mean of h - x'[c] mean of h x') / sqrt(variance + epsilon), where h = gamma g. Without Centred the
/// mean of h is left out. For channels from `first` on.
template <class S, bool Centred>
struct ChannelNormBackwardPoint {
  using T = compute_type<S>;
  GradientReader<S> gradient;
  ValueReader<S> input;
  ChannelNorm<T, Centred> norm;
  const T* gamma = nullptr;
  int channels = 0, first = 0;

  static constexpr int operands = 2;
  void load(int n, int c, index_t y, index_t x0, index_t count, T* to, T* second) const {
    gradient.load_row(n, c, y, x0, count, to);
    input.load_row(n, c, y, x0, count, second);
  }
  void compute(T* g, T* x, T* inverse, index_t pitch, index_t count, double* sums = nullptr) const {
    for (index_t begin = 0; begin < channels * pitch; begin += norm.channels * pitch)
      compute_head(g + begin, x + begin, inverse, pitch, count, sums);
  }
  KOKKOS_FUNCTION T at(int n, int o, index_t y, index_t x) const {
    const int own = (first + o) % norm.channels, head = first + o - own;
    const ChannelMoments<T> of = norm.moments([&](int c) { return input.at(n, head + c, y, x); });
    T mean = 0, along = 0;
    bool counts = false;
    for (int c = 0; c < norm.channels; ++c) {
      const T h = gradient.at(n, head + c, y, x) * gamma[c];
      counts |= h != T(0);
      if (Centred) mean += h;
      along += h * of.normal(input.at(n, head + c, y, x));
    }
    if (!counts) return T(0);
    const T normal = of.normal(input.at(n, first + o, y, x));
    return (gradient.at(n, first + o, y, x) * gamma[own] - (mean + normal * along) / T(norm.channels)) * of.inverse;
  }

 private:
  /// If `sums` is not null, the gradients of the parameters are added there: first of gamma, the sums of g x', then of
  /// beta, the sums of g.
  void compute_head(T* g, T* x, T* inverse, index_t pitch, index_t count, double* sums) const {
    norm.normalise(x, inverse, pitch, count);
    norm.drop_uncounted(g, x, inverse, pitch, count);
    for (int c = 0; sums != nullptr && c < norm.channels; ++c)
      add_products(g + c * pitch, x + c * pitch, count, sums[c], Centred ? &sums[norm.channels + c] : nullptr);
    T mean[most_points_at_once], along[most_points_at_once];
    std::fill_n(mean, count, T(0));
    std::fill_n(along, count, T(0));
    for (int c = 0; c < norm.channels; ++c)
      for (index_t i = 0; i < count; ++i) {
        const T h = g[c * pitch + i] *= gamma[c];
        if (Centred) mean[i] += h;
        along[i] += h * x[c * pitch + i];
      }
    for (index_t i = 0; i < count; ++i) mean[i] /= T(norm.channels), along[i] /= T(norm.channels);
    for (int c = 0; c < norm.channels; ++c)
      for (index_t i = 0; i < count; ++i)
        g[c * pitch + i] = (g[c * pitch + i] - (mean[i] + x[c * pitch + i] * along[i])) * inverse[i];
  }
};

/// The same, and in the same pass the sums of ChannelNormSums for each tile: [tile][partial_size()]. Host.
template <class S, bool Centred>
struct ChannelNormGradientsPoint : ChannelNormBackwardPoint<S, Centred> {
  double* partial = nullptr;
  int blocks = 1;  ///< how many tiles there are

  index_t partial_size() const { return index_t{1 + Centred} * this->norm.channels; }
  double* tile_sums(index_t tile) const {
    double* const sums = partial + tile * partial_size();
    std::fill_n(sums, partial_size(), 0.0);
    return sums;
  }
};

/// Sums over the points of blocks of tiles: first for gamma's gradient, of g x', then for beta's, of g. Partial
/// results: [block][partial_size()].
template <class ExecutionSpace, class S, bool Centred>
struct ChannelNormSums {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  ChannelNormBackwardPoint<S, Centred> point;
  bool bias = false;
  Tiling tiling;
  int blocks = 1, first_block = 0, last_block = 1;
  double* partial = nullptr;

  KOKKOS_FUNCTION index_t partial_size() const { return index_t{1 + bias} * point.norm.channels; }

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, last_block - first_block, *this, host_bytes(), 0);
  }
  KOKKOS_FUNCTION void operator()(const Team& team) const {
    const int block = first_block + static_cast<int>(team.league_rank());
    double* sums = partial + block * partial_size();
    HALOGEN_HOST_PART(run_on_host(team, block, sums);)
    HALOGEN_DEVICE_PART(run_on_device(team, block, sums);)
  }

 private:
  index_t piece_size() const { return points_at_once_of<T>(point.channels); }
  std::size_t values() const { return static_cast<std::size_t>(point.channels * piece_size()); }
  std::size_t host_bytes() const { return 2 * Scratch::bytes_of<T>(values()); }

  void run_on_host(const Team& team, int block, double* sums) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* const g = scratch.take<T>(values());
    T* const x = scratch.take<T>(values());
    std::fill_n(sums, partial_size(), 0.0);
    const index_t piece = piece_size();
    const Interval tiles = tiling.of_block(block, blocks);
    for (index_t t = tiles.begin; t < tiles.end; ++t) {
      const Tile tile(tiling, t);
      for (index_t y = tile.rows.begin; y < tile.rows.end; ++y)
        for (index_t at = tile.columns.begin; at < tile.columns.end; at += piece)
          add_points(tile.sample, y, at, std::min(piece, tile.columns.end - at), piece, g, x, sums);
    }
  }
  void add_points(int n, index_t y, index_t x0, index_t count, index_t piece, T* g, T* x, double* sums) const {
    T inverse[most_points_at_once];
    for (int c = 0; c < point.channels; ++c) point.load(n, c, y, x0, count, g + c * piece, x + c * piece);
    const int width = point.norm.channels;
    for (int head = 0; head < point.channels; head += width) {
      point.norm.normalise(x + head * piece, inverse, piece, count);
      point.norm.drop_uncounted(g + head * piece, x + head * piece, inverse, piece, count);
    }
    for (int c = 0; c < point.channels; ++c)
      add_products(g + c * piece, x + c * piece, count, sums[c % width], bias ? &sums[width + c % width] : nullptr);
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team, int block, double* sums) const {
    const Interval tiles = tiling.of_block(block, blocks);
    const int width = point.norm.channels;
    device::each_of_warps(team, width, [&](int c) {
      double along = 0, sum = 0;
      for (index_t t = tiles.begin; t < tiles.end; ++t) {
        const Tile tile(tiling, t);
        for (index_t y = tile.rows.begin; y < tile.rows.end; ++y)
          device::each_of_lanes(static_cast<int>(tile.columns.size()), [&](int i) {
            const index_t x = tile.columns.begin + i;
            for (int head = 0; head < point.channels; head += width) {
              const ChannelMoments<T> of =
                  point.norm.moments([&](int k) { return point.input.at(tile.sample, head + k, y, x); });
              const T g = point.gradient.at(tile.sample, head + c, y, x);
              if (g != T(0)) along += static_cast<double>(g * of.normal(point.input.at(tile.sample, head + c, y, x)));
              sum += static_cast<double>(g);
            }
          });
      }
      device::sum_over_lanes(along, sum);
      if (!device::is_first_lane()) return;
      sums[c] = along;
      if (bias) sums[width + c] = sum;
    });
  }
};

}  // namespace halogen::kernels
