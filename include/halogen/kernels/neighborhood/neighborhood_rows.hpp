// What forward and backward of attention to a neighbourhood share: which points see which, rows of features and their
// products, and the functor that runs a computation over the tiles of its output.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles/device_tile_output.hpp"
#include "halogen/stencil/neighborhood.hpp"

namespace halogen::kernels {

/// The most points of a row that the host computes at once, and the distance of their rows in scratch.
inline constexpr index_t run_points = 64;

/// Points [x, x + count) of a row, at most run_points. `columns` are what the first point sees in the row's dimension.
/// The other points see as many columns, each moved by its distance from the first point. If `shared`, all points see
/// the same columns. Rows of scratch have `lanes` numbers; those from `count` on are not used.
struct PointRun {
  int sample = 0;
  index_t z = 0, y = 0, x = 0, count = 0, lanes = 0;
  SpacedPoints columns;
  bool shared = false;

  /// The number of columns from the first to the last that the points see.
  index_t width(index_t step) const { return (columns.count - 1) * step + (shared ? 1 : count); }
};

/// Channels of a stored tensor as they were written, including the margins. A neighbourhood never leaves the field, or
/// its periodic images are in the margin.
template <class S>
struct StoredRows {
  using T = compute_type<S>;
  TensorView<S> tensor;

  KOKKOS_FUNCTION T at(const PlaneAt& plane, index_t y, index_t x) const { return T(tensor.at(plane, y, x)); }

  /// Host: points [x, x + count) in memory; null if they are stored in another type.
  const T* standing_row(const PlaneAt& plane, index_t y, index_t x, index_t) const {
    if constexpr (std::is_same_v<S, T>)
      return &tensor.at(plane, y, x);
    else
      return nullptr;
  }
  void load_row(const PlaneAt& plane, index_t y, index_t x, index_t count, T* to) const {
    detail::copy_row(&tensor.at(plane, y, x), count, to);
  }

  /// to[f] = scale times feature f of a head. The plane's channel is the first feature.
  template <int Features>
  KOKKOS_FUNCTION void load_features(const PlaneAt& plane, index_t y, index_t x, T scale, T (&to)[Features]) const {
    const S* from = &tensor.at(plane, y, x);
    HALOGEN_DEVICE_UNROLL
    for (int f = 0; f < Features; ++f) to[f] = scale * T(from[f * tensor.channel_stride]);
  }
  /// The sum over features of own[f] times feature f.
  template <int Features>
  KOKKOS_FUNCTION T product(const T (&own)[Features], const PlaneAt& plane, index_t y, index_t x) const {
    const S* with = &tensor.at(plane, y, x);
    T sum = 0;
    HALOGEN_DEVICE_UNROLL
    for (int f = 0; f < Features; ++f) sum += own[f] * T(with[f * tensor.channel_stride]);
    return sum;
  }
  /// to[f] += weight times feature f.
  template <int Features>
  KOKKOS_FUNCTION void add_to(T weight, const PlaneAt& plane, index_t y, index_t x, T (&to)[Features]) const {
    const S* from = &tensor.at(plane, y, x);
    HALOGEN_DEVICE_UNROLL
    for (int f = 0; f < Features; ++f) to[f] += weight * T(from[f * tensor.channel_stride]);
  }
};

/// Which points see which in depth, height and width, and their channels: query, key and value, each with its heads.
struct HeadWindows {
  Neighborhood around[spatial_dimensions];
  DepthWindow planes;           ///< the planes that the launch computes, counted as samples
  int heads = 1, channels = 1;  ///< channels: of all heads of a query, key or value

  /// What a point sees or, OfKeys, which points see it.
  template <bool OfKeys>
  KOKKOS_FUNCTION SpacedPoints seen(int d, index_t point) const {
    return OfKeys ? around[d].queries_of(point) : around[d].keys_of(point);
  }

  /// Host: the points from x on, below `end`, that are computed at once. They are the points whose windows have the
  /// same position relative to them as that of x or, if these are more, the points that share its window.
  template <class T>
  PointRun run_from(index_t x, index_t end) const {
    PointRun run;
    run.x = x, run.columns = seen<false>(2, x);
    const auto count_while = [&](auto holds) {
      index_t i = 1;
      while (i < run_points && x + i < end && holds(i)) ++i;
      return i;
    };
    run.count = run.lanes = count_while([&](index_t i) {
      return seen<false>(2, x + i) == SpacedPoints{run.columns.first + i, run.columns.count};
    });
    const index_t others = count_while([&](index_t i) { return seen<false>(2, x + i) == run.columns; });
    if (others <= run.count) return run;
    run.shared = true;
    run.count = others, run.lanes = ceil_div(others, index_t{kernels::lanes<T>}) * kernels::lanes<T>;
    return run;
  }

  /// Calls f(z, y) for the rows that have what the points of a row see.
  template <bool OfKeys, class F>
  KOKKOS_FUNCTION void for_each_row(index_t z, index_t y, F f) const {
    const SpacedPoints planes = seen<OfKeys>(0, z), rows = seen<OfKeys>(1, y);
    for (index_t i = 0; i < planes.count; ++i)
      for (index_t j = 0; j < rows.count; ++j)
        f(planes.first + i * around[0].dilation, rows.first + j * around[1].dilation);
  }
  /// Calls f(z, y, x) for all points that the point sees.
  template <bool OfKeys, class F>
  KOKKOS_FUNCTION void for_each(index_t z, index_t y, index_t x, F f) const {
    const SpacedPoints columns = seen<OfKeys>(2, x);
    for_each_row<OfKeys>(z, y, [&](index_t at_z, index_t at_y) {
      for (index_t k = 0; k < columns.count; ++k) f(at_z, at_y, columns.first + k * around[2].dilation);
    });
  }

  /// Host: the most columns of a row that a run sees, from the first to the last.
  index_t columns() const { return run_points + 2 * index_t{around[2].kernel} * around[2].dilation; }
  index_t window_points() const { return index_t{around[0].kernel} * around[1].kernel * around[2].kernel; }
};

/// Host: rows of the features of a head, in their own memory or in scratch.
template <class T, int Features>
struct FeatureRows {
  const T* row[Features];

  /// Points [x, x + count) of Features channels, beginning with the plane's. `lines` has Features times `pitch`
  /// numbers.
  template <class S>
  void load(const StoredRows<S>& reader, PlaneAt plane, index_t y, index_t x, index_t count, T* lines, index_t pitch) {
    for (int f = 0; f < Features; ++f, ++plane.channel) {
      row[f] = reader.standing_row(plane, y, x, count);
      if (row[f] != nullptr) continue;
      reader.load_row(plane, y, x, count, lines + f * pitch);
      row[f] = lines + f * pitch;
    }
  }
};

namespace detail {

/// Points [i, i + lanes) of a row or, if Shared, one point in all lanes.
template <bool Shared, class V, class T>
V load_seen(const T* row, index_t i) {
  if constexpr (Shared)
    return V{} + *row;
  else
    return load<V>(row + i);
}

/// Calls f with a vector type and where it begins, for lanes [0, lanes): wide vectors as long as they fit, then
/// vectors. The last vector begins earlier where it would reach beyond. Rows shorter than a vector are numbers.
template <class T, class F>
void each_of_overlapping(index_t lanes, F f) {
  index_t i = 0;
  if constexpr (wide_lanes<T> > kernels::lanes<T>)
    for (; i + wide_lanes<T> <= lanes; i += wide_lanes<T>) f.template operator()<Vector<T, wide_lanes<T>>>(i);
  for (; i + kernels::lanes<T> <= lanes; i += kernels::lanes<T>) f.template operator()<Vector<T>>(i);
  if (i < lanes && lanes >= kernels::lanes<T>)
    f.template operator()<Vector<T>>(lanes - kernels::lanes<T>);
  else
    for (; i < lanes; ++i) f.template operator()<T>(i);
}

template <int Taps, bool Shared, int Features, class T>
void multiply_features(const T* own, index_t own_pitch, const FeatureRows<T, Features>& seen, index_t first,
                       index_t step, index_t lanes, T* to) {
  each_of_overlapping<T>(lanes, [&]<class V>(index_t i) {
    V sum[Taps];
    HALOGEN_UNROLL
    for (int t = 0; t < Taps; ++t) sum[t] = V{};
    for (int f = 0; f < Features; ++f) {
      const V mine = load<V>(own + f * own_pitch + i);
      const T* row = seen.row[f] + first;
      HALOGEN_UNROLL
      for (int t = 0; t < Taps; ++t) sum[t] += mine * load_seen<Shared, V>(row + t * step, i);
    }
    HALOGEN_UNROLL
    for (int t = 0; t < Taps; ++t) store(to + t * run_points + i, sum[t]);
  });
}

/// Weights of taps, each `pitch` from the one before, which may be negative.
template <class T>
struct TapWeights {
  const T* of;
  index_t pitch;
};

/// to[f][i], as it was, and the weighted columns, for the lanes of V from i on.
template <class V, int Taps, bool Shared, int Features, class T, class Put>
void sum_features(TapWeights<T> weights, const FeatureRows<T, Features>& seen, index_t first, index_t step, index_t i,
                  const T* to, index_t pitch, Put put) {
  V weight[Taps];
  HALOGEN_UNROLL
  for (int t = 0; t < Taps; ++t) weight[t] = load<V>(weights.of + t * weights.pitch + i);
  for (int f = 0; f < Features; ++f) {
    V sum = load<V>(to + f * pitch + i);
    const T* row = seen.row[f] + first;
    HALOGEN_UNROLL
    for (int t = 0; t < Taps; ++t) sum += weight[t] * load_seen<Shared, V>(row + t * step, i);
    put(f, sum);
  }
}

template <int Taps, bool Shared, int Features, class T>
void add_features(TapWeights<T> weights, const FeatureRows<T, Features>& seen, index_t first, index_t step,
                  index_t lanes, T* to, index_t pitch) {
  constexpr index_t vector = kernels::lanes<T>;
  T last[Features * vector];  // a vector that overlaps the one before is summed before that one is stored
  const bool overlaps = lanes % vector != 0 && lanes > vector;
  if (overlaps)
    sum_features<Vector<T>, Taps, Shared>(weights, seen, first, step, lanes - vector, to, pitch,
                                          [&](int f, Vector<T> sum) { store(last + f * vector, sum); });
  each_of_overlapping<T>(overlaps ? lanes / vector * vector : lanes, [&]<class V>(index_t i) {
    sum_features<V, Taps, Shared>(weights, seen, first, step, i, to, pitch,
                                  [&](int f, V sum) { store(to + f * pitch + i, sum); });
  });
  if (overlaps)
    for (int f = 0; f < Features; ++f) store(to + f * pitch + lanes - vector, load<Vector<T>>(last + f * vector));
}

/// Calls f<Taps>(tap) until `taps` are done, with Width taps at once as long as so many are left.
template <int Width, class F>
void each_taps(index_t taps, F f) {
  index_t t = 0;
  for (; t + Width <= taps; t += Width) f.template operator()<Width>(t);
  for (; t < taps; ++t) f.template operator()<1>(t);
}

}  // namespace detail

/// Host: to[t][i] = the sum over features of own[f][i] * seen[f][i + t * step], for all columns t of a run. If the
/// columns are shared, it reads seen[f][t * step]. Rows of `own` are `own_pitch` apart.
template <int Width, int Features, class T>
void multiply_rows(const PointRun& run, index_t step, const T* own, const FeatureRows<T, Features>& seen, T* to,
                   index_t own_pitch = run_points) {
  detail::each_taps<Width>(run.columns.count, [&]<int Taps>(index_t t) {
    T* const at = to + t * run_points;
    if (run.shared)
      detail::multiply_features<Taps, true>(own, own_pitch, seen, t * step, step, run.lanes, at);
    else
      detail::multiply_features<Taps, false>(own, own_pitch, seen, t * step, step, run.lanes, at);
  });
}

/// Host: to[f][i] += weights[t][i] * seen[f][i + t * step], or seen[f][t * step] if shared. Columns are added in their
/// order. Rows of weights are `pitch` apart.
template <int Width, int Features, class T>
void add_rows(const PointRun& run, index_t step, const T* weights, const FeatureRows<T, Features>& seen, T* to,
              index_t pitch = run_points) {
  detail::each_taps<Width>(run.columns.count, [&]<int Taps>(index_t t) {
    const detail::TapWeights<T> of{weights + t * pitch, pitch};
    if (run.shared)
      detail::add_features<Taps, true>(of, seen, t * step, step, run.lanes, to, run_points);
    else
      detail::add_features<Taps, false>(of, seen, t * step, step, run.lanes, to, run_points);
  });
}

/// Host: rows of a head at the run's own points, multiplied by `scale`, to [Features][pitch].
template <int Features, class T, class S>
void load_own(const StoredRows<S>& reader, const PointRun& run, int channel, T scale, T* to,
              index_t pitch = run_points) {
  for (int f = 0; f < Features; ++f) {
    T* row = to + f * pitch;
    reader.load_row(PlaneAt{run.sample, channel + f, run.z}, run.y, run.x, run.count, row);
    std::fill(row + run.count, row + run.lanes, T(0));
    for_each_vector<T>(run.lanes, [&]<class V>(index_t i) { store(row + i, load<V>(row + i) * scale); });
  }
}

/// Runs a computation over groups of channels, for example those of a head. Compute has
///
///   static constexpr int values                                   how many numbers a point has in a group
///   int groups, channel(group, value)                             the output's channel; none if negative or too large
///   HeadWindows windows()
///   host, or none: run_from(group, x, end); piece(group, run, T* [values][run_points], Scratch); scratch_bytes()
///   device: point(group, PlaneAt, y, x, T (&)[values])
template <class ExecutionSpace, class S, class Compute>
struct HeadKernel {
  using T = compute_type<S>;
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;

  Compute compute;
  TileOutput<S> output;

  void launch(const ExecutionSpace& space, const char* label) const {
    launch_tiles(space, label, output.tiling.tiles_run(), *this, host_bytes(), 0);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(if constexpr (runs_on_host) run_on_host(team);)
    HALOGEN_DEVICE_PART(run_on_device(team);)
  }

 private:
  static constexpr int values = Compute::values;
  static constexpr bool runs_on_host = requires(const Compute& of) { of.run_from(0, index_t{}, index_t{}); };

  KOKKOS_FUNCTION bool has(int channel) const { return channel >= 0 && channel < output.channels; }
  KOKKOS_FUNCTION bool writes(int group) const {
    for (int v = 0; v < values; ++v)
      if (has(compute.channel(group, v))) return true;
    return false;
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team) const {
    const index_t number = output.number(team);
    const Tile tile(output.tiling, number);
    const int rows = static_cast<int>(tile.rows.size()), columns = static_cast<int>(tile.columns.size());
    const PlaneAt plane = compute.windows().planes.input(tile.sample, 0);
    device::each_of_warps(team, compute.groups() * rows, [&](int i) {
      const int group = i / rows;
      if (!writes(group)) return;
      const index_t y = tile.rows.begin + i % rows;
      device::each_of_lanes(columns, [&](int column) {
        const index_t x = tile.columns.begin + column;
        T value[values];
        compute.point(group, plane, y, x, value);
        HALOGEN_DEVICE_UNROLL
        for (int v = 0; v < values; ++v) {
          const int c = compute.channel(group, v);
          if (has(c)) output.tensor.at(tile.sample, c, y, x) = device::finished(output, tile.sample, c, y, x, value[v]);
        }
      });
    });
    device::sum_tile(team, output, tile, number, 0, output.channels);
  }

  std::size_t outputs() const { return static_cast<std::size_t>(output.channels); }
  std::size_t host_bytes() const {
    return Scratch::bytes_of<T>(values * run_points) + Scratch::bytes_of<RowSums>(outputs()) + compute.scratch_bytes();
  }

  void run_on_host(const Team& team) const {
    Scratch scratch = Scratch::of(team, 1, host_bytes());
    T* rows = scratch.take<T>(values * run_points);
    RowSums* sums = scratch.take<RowSums>(outputs());
    std::fill_n(sums, output.channels, RowSums{});
    const Tile tile = output.tile(team);
    for (index_t y = tile.rows.begin; y < tile.rows.end; ++y) {
      for (int group = 0; group < compute.groups(); ++group)
        if (writes(group)) run_row(tile, group, y, rows, scratch);
      for (int o = 0; o < output.channels; ++o) output.sum_row(tile.sample, o, y, tile.columns, sums[o]);
    }
    for (int o = 0; o < output.channels; ++o) output.keep_sums(team, o, sums[o]);
  }

  void run_row(const Tile& tile, int group, index_t y, T* rows, const Scratch& scratch) const {
    const PlaneAt plane = compute.windows().planes.input(tile.sample, 0);
    for (index_t x = tile.columns.begin; x < tile.columns.end;) {
      PointRun run = compute.run_from(group, x, tile.columns.end);
      run.sample = plane.sample, run.z = plane.z, run.y = y;
      compute.piece(group, run, rows, scratch);
      for (int v = 0; v < values; ++v) {
        const int c = compute.channel(group, v);
        if (has(c)) output.put_row(tile.sample, c, y, x, run.count, rows + v * run_points);
      }
      x += run.count;
    }
  }
};

}  // namespace halogen::kernels
