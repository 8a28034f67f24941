// Winograd's F(4 x 4, 3 x 3) needs 36 products instead of 144 for 16 outputs of a 3 x 3 window. F(2 x 2, 5 x 5), with
// the same transform of the inputs, needs 36 products instead of 100 for 4 outputs. Lavin and Gray (2016): y = A^T [(G
// w G^T) . (B^T d B)] A. Here the points are 0, +-1/sqrt(2), +-sqrt(2), infinity, which lose about half as many digits
// as 0, +-1, +-2. The adjoint for the weights: dw = G^T [(A g A^T) . (B^T d B)] G.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles/tiles.hpp"
#include "halogen/kernels/vector/shuffle.hpp"
#include "halogen/stencil/winograd_tile.hpp"

namespace halogen::kernels {

inline constexpr int winograd_products = winograd_points * winograd_points;  ///< for each tile and pair of channels

namespace detail {

template <class T>
struct WinogradPoints {
  static constexpr T a = T(0.70710678118654752440), b = T(1.41421356237309504880);
  static constexpr T a2 = T(0.5), b2 = T(2), a3 = a / 2, b3 = 2 * b, a4 = T(0.25), b4 = T(4), ab = T(2.5);
};

/// v = B^T d, for the inputs of a tile
template <class T, class V>
inline void to_products(const V (&d)[6], V (&v)[6]) {
  using P = WinogradPoints<T>;
  v[0] = d[0] + (d[4] - P::ab * d[2]);
  const V even_a = d[4] - P::b2 * d[2], odd_a = d[3] - P::b2 * d[1];
  v[1] = even_a + P::a * odd_a;
  v[2] = even_a - P::a * odd_a;
  const V even_b = d[4] - P::a2 * d[2], odd_b = d[3] - P::a2 * d[1];
  v[3] = even_b + P::b * odd_b;
  v[4] = even_b - P::b * odd_b;
  v[5] = d[1] + (d[5] - P::ab * d[3]);
}

/// y = A^T m
template <class T, class V, int Tile>
inline void transform_output(const V (&m)[6], V (&y)[Tile]) {
  using P = WinogradPoints<T>;
  const V sum_a = m[1] + m[2], difference_a = m[1] - m[2];
  const V sum_b = m[3] + m[4], difference_b = m[3] - m[4];
  y[0] = (m[0] + sum_a) + sum_b;
  if constexpr (Tile == 4) {
    y[1] = P::a * difference_a + P::b * difference_b;
    y[2] = P::a2 * sum_a + P::b2 * sum_b;
    y[3] = (m[5] + P::a3 * difference_a) + P::b3 * difference_b;
  } else {
    y[1] = (m[5] + P::a * difference_a) + P::b * difference_b;
  }
}

/// h = A g, for the gradients of a tile: the adjoint of transform_output
template <class T, class V>
inline void to_products(const V (&g)[2], V (&h)[6]) {
  using P = WinogradPoints<T>;
  h[0] = g[0];
  h[1] = g[0] + P::a * g[1];
  h[2] = g[0] - P::a * g[1];
  h[3] = g[0] + P::b * g[1];
  h[4] = g[0] - P::b * g[1];
  h[5] = g[1];
}
template <class T, class V>
inline void to_products(const V (&g)[4], V (&h)[6]) {
  using P = WinogradPoints<T>;
  h[0] = g[0];
  const V even_a = g[0] + P::a2 * g[2], odd_a = g[1] + P::a2 * g[3];
  h[1] = even_a + P::a * odd_a;
  h[2] = even_a - P::a * odd_a;
  const V even_b = g[0] + P::b2 * g[2], odd_b = g[1] + P::b2 * g[3];
  h[3] = even_b + P::b * odd_b;
  h[4] = even_b - P::b * odd_b;
  h[5] = g[3];
}

/// u = G w
template <class T, class V, int Window>
inline void transform_weights(const V (&w)[Window], V (&u)[6]) {
  using P = WinogradPoints<T>;
  V even_a = w[0] + P::a2 * w[2], even_b = w[0] + P::b2 * w[2], odd_a = w[1], odd_b = w[1];
  if constexpr (Window == 5) {
    even_a += P::a4 * w[4], even_b += P::b4 * w[4];
    odd_a += P::a2 * w[3], odd_b += P::b2 * w[3];
  }
  const V sum_a = even_a / T(-1.5), sum_b = even_b / T(6);
  u[0] = w[0];
  u[1] = sum_a + (P::a / T(-1.5)) * odd_a;
  u[2] = sum_a - (P::a / T(-1.5)) * odd_a;
  u[3] = sum_b + (P::b / T(6)) * odd_b;
  u[4] = sum_b - (P::b / T(6)) * odd_b;
  u[5] = w[Window - 1];
}

/// w = G^T u, the adjoint of transform_weights
template <class T, class V, int Window>
inline void transform_weight_gradient(const V (&u)[6], V (&w)[Window]) {
  using P = WinogradPoints<T>;
  const V sum_a = (u[1] + u[2]) / T(-1.5), sum_b = (u[3] + u[4]) / T(6);
  const V odd_a = (P::a / T(-1.5)) * (u[1] - u[2]), odd_b = (P::b / T(6)) * (u[3] - u[4]);
  w[0] = u[0] + (sum_a + sum_b);
  w[1] = odd_a + odd_b;
  w[2] = P::a2 * sum_a + P::b2 * sum_b;
  if constexpr (Window == 5) {
    w[3] = P::a2 * odd_a + P::b2 * odd_b;
    w[4] = P::a4 * sum_a + P::b4 * sum_b;
  }
  w[Window - 1] = u[5] + w[Window - 1];
}

/// columns[i][x] = the transform, down the columns, of points from[...][offset + x], for a vector of channels.
template <class T, int Lanes, int Points>
[[gnu::noinline]] void transform_columns(const T* const (&from)[Points], index_t offset, index_t points, T* columns) {
  using V = Vector<T, Lanes>;
  const T* row[Points];
  for (int i = 0; i < Points; ++i) row[i] = from[i] + offset;
  const index_t pitch = points * Lanes;
  for (index_t x = 0; x < points; ++x) {
    V d[Points], v[6];
    HALOGEN_UNROLL
    for (int i = 0; i < Points; ++i) d[i] = load<V>(row[i] + x * Lanes);
    to_products<T>(d, v);
    HALOGEN_UNROLL
    for (int i = 0; i < 6; ++i) store(columns + i * pitch + x * Lanes, v[i]);
  }
}

/// to[6 i + j][tile] = the transform of columns[i][Tile tile + (0 .. Points - 1)] across.
template <class T, int Lanes, int Tile, int Points>
[[gnu::noinline]] void transform_rows(const T* columns, index_t points, index_t tiles, T* to, index_t width,
                                      index_t pitch) {
  using V = Vector<T, Lanes>;
  for (int i = 0; i < 6; ++i)
    for (index_t t = 0; t < tiles; ++t) {
      const T* from = columns + (i * points + t * Tile) * Lanes;
      V d[Points], v[6];
      HALOGEN_UNROLL
      for (int j = 0; j < Points; ++j) d[j] = load<V>(from + j * Lanes);
      to_products<T>(d, v);
      HALOGEN_UNROLL
      for (int j = 0; j < 6; ++j) store(to + (6 * i + j) * pitch + t * width, v[j]);
    }
}

inline constexpr index_t tiles_in_cache =
    8;  ///< how many tiles at a time have transforms that fit into L1, for one line of channels

/// to[product][tile][channel] = the transforms of `tiles` tiles, beginning with tile `first`, of rows y .. y + Points -
/// 1 of ChannelRows. A side has Points = 6 inputs or Points = Tile gradients.
template <int Tile, int Points, class T, class Rows>
void transform_tiles(const Rows& rows, index_t y, index_t first, index_t tiles, T* to, index_t pitch) {
  const T* from[Points];
  for (int i = 0; i < Points; ++i) from[i] = rows.row(y + i);
  const index_t width = rows.width();
  constexpr index_t overlap = Points - Tile;
  alignas(wide_vector_bytes) T columns[6 * (tiles_in_cache * Tile + overlap) * wide_lanes<T>];
  for (index_t t = 0; t < tiles; t += tiles_in_cache) {
    const index_t count = std::min(tiles_in_cache, tiles - t), points = count * Tile + overlap;
    for_each_lanes<T>(width, [&]<int Lanes>(index_t c) {
      transform_columns<T, Lanes>(from, c * rows.columns() + (first + t) * Tile * Lanes, points, columns);
      transform_rows<T, Lanes, Tile, Points>(columns, points, count, to + t * width + c, width, pitch);
    });
  }
}

/// A place in a field of S: a point, and the strides to the next row and the next channel.
template <class S>
struct Lines {
  S* at;
  index_t row_stride, channel_stride;
  bool streams = false;  ///< vectors stored there fill cache lines and are stored past the caches
};

/// How many columns a block of tiles has: they fill vectors of so many lanes, and a cache line.
template <class T, int Lanes, int Tile>
inline constexpr int block_columns = std::max({Lanes, Tile, cache_line / static_cast<int>(sizeof(T))});

/// Moments of as many channels as a vector has lanes, in registers. Vectors go through memory, because they are widened
/// when they are loaded.
template <class T, int Lanes>
class ChannelMoments {
 public:
  /// first(values) gives a value of each channel. It is called if no value has been seen.
  template <class First>
  void begin(const LaneMoments<T>* from, First first) {
    T values[Lanes];
    if (from->count == 0) first(values);
    for (int i = 0; i < count; ++i)
      about_[i] = from->count == 0 ? wide(values, i) : load<D>(of(from, i).about + part(i));
  }
  void add(const T* values) {
    HALOGEN_UNROLL
    for (int i = 0; i < count; ++i) {
      const D d = wide(values, i) - about_[i];
      first_[i] += d;
      second_[i] += d * d;
    }
  }
  void keep(LaneMoments<T>* to, index_t points) const {
    for (int i = 0; i < count; ++i) {
      LaneMoments<T>& moments = of(to, i);
      store(moments.about + part(i), about_[i]);
      store(moments.first + part(i), load<D>(moments.first + part(i)) + first_[i]);
      store(moments.second + part(i), load<D>(moments.second + part(i)) + second_[i]);
      if (part(i) == 0) moments.count += points;
    }
  }

 private:
  static constexpr int together = summed_lanes<T>, count = Lanes / together;
  using D = Vector<double, together>;

  static D wide(const T* values, int i) { return widen<T>(load<Vector<T, together>>(values + i * together)); }
  /// Vector i is a part of the vectors of lanes<T> channels, beginning with number part(i).
  template <class M>
  static M& of(M* moments, int i) {
    return moments[i * together / lanes<T>];
  }
  static constexpr int part(int i) { return i * together % lanes<T>; }

  D about_[count], first_[count] = {}, second_[count] = {};
};

enum class Then { nothing, add, sum };  ///< what a transform does with its outputs: adds other values, takes moments

/// across[i][first + x] = start + output (i, x) of the tile whose products stand at from[product * pitch].
template <class T, int Lanes, int Tile, int Columns>
[[gnu::always_inline]] inline void transform_tile(const T* from, index_t pitch, const Vector<T, Lanes>& start,
                                                  T (&across)[Tile][Columns][Lanes], int first) {
  using V = Vector<T, Lanes>;
  const T* row[6];  // advanced column by column, because 36 addresses would not fit into the registers
  for (int i = 0; i < 6; ++i) row[i] = from + 6 * i * pitch;
  V half[Tile][6];
  HALOGEN_UNROLL
  for (int j = 0; j < 6; ++j) {
    V m[6], down[Tile];
    HALOGEN_UNROLL
    for (int i = 0; i < 6; ++i) {
      m[i] = load<V>(row[i]);
      row[i] += pitch;
      HALOGEN_OPAQUE(row[i]);
    }
    transform_output<T>(m, down);
    HALOGEN_UNROLL
    for (int i = 0; i < Tile; ++i) half[i][j] = down[i];
  }
  HALOGEN_UNROLL
  for (int i = 0; i < Tile; ++i) {
    V y[Tile];
    transform_output<T>(half[i], y);
    HALOGEN_UNROLL
    for (int x = 0; x < Tile; ++x) store(across[i][first + x], y[x] + start);
  }
}

/// Stores a row of a block. y has a vector of channels for each point; memory has the points of a channel side by side,
/// those of the first channel from `line` on. add: on top of what stands from `under` on.
template <class T, int Lanes, Then then, int Columns, class S>
[[gnu::always_inline]] inline void put_row(const Vector<T, Lanes> (&y)[Columns], S* line, const S* under,
                                           const Lines<S>& to, const Lines<S>& on) {
  using V = Vector<T, Lanes>;
  constexpr int vectors = Columns / Lanes;
  V block[vectors][Lanes];
  HALOGEN_UNROLL
  for (int v = 0; v < vectors; ++v) {
    HALOGEN_UNROLL
    for (int l = 0; l < Lanes; ++l) block[v][l] = y[v * Lanes + l];
    transpose<T>(block[v]);
  }
  const bool streams = std::is_same_v<S, T> && then != Then::add && to.streams;
  if (streams) {
    HALOGEN_UNROLL
    for (int l = 0; l < Lanes; ++l, line += to.channel_stride) HALOGEN_UNROLL
    for (int v = 0; v < vectors; ++v) stream(line + v * Lanes, block[v][l]);
    return;
  }
  HALOGEN_UNROLL
  for (int l = 0; l < Lanes; ++l, line += to.channel_stride, under += on.channel_stride) HALOGEN_UNROLL
  for (int v = 0; v < vectors; ++v)
    store<V>(line + v * Lanes, then == Then::add ? load<V>(under + v * Lanes) + block[v][l] : block[v][l]);
}

/// to = start + the outputs of `blocks` blocks of Tile x Tile tiles side by side, for one vector of outputs. A block
/// has block_columns columns. With add, the values at `on` are added. With sum, moments are taken too, for each
/// lanes<T> outputs. from[product * pitch + tile * width].
template <class T, int Lanes, int Tile, Then then, class S>
[[gnu::noinline]] void transform_products(const T* from, index_t width, index_t pitch, index_t blocks,
                                          const Vector<T, Lanes>& start, const Lines<S>& to, const Lines<S>& on,
                                          LaneMoments<T>* moments) {
  using V = Vector<T, Lanes>;
  constexpr int columns = block_columns<T, Lanes, Tile>, tiles = columns / Tile;
  struct Nothing {};
  std::conditional_t<then == Then::sum, ChannelMoments<T, Lanes>, Nothing> sums;
  if constexpr (then == Then::sum)
    sums.begin(moments, [&](T* values) {
      V first = start;  // A^T begins with a row of ones, except for the last
      for (int p = 0; p < 30; ++p)
        if (p % 6 != 5) first += load<V>(from + p * pitch);
      store(values, first);
    });
  for (index_t x0 = 0; x0 < blocks * columns; x0 += columns) {
    alignas(wide_vector_bytes) T across[Tile][columns][Lanes];
    for (int t = 0; t < tiles; ++t, from += width)
      transform_tile<T, Lanes, Tile, columns>(from, pitch, start, across, t * Tile);
    S* line = to.at + x0;
    const S* under = on.at + x0;
    for (int i = 0; i < Tile; ++i, line += to.row_stride, under += on.row_stride) {
      V y[columns];
      HALOGEN_UNROLL
      for (int x = 0; x < columns; ++x) y[x] = load<V>(across[i][x]);
      if constexpr (then == Then::sum) {
        HALOGEN_OPAQUE_MEMORY(across);
        HALOGEN_UNROLL
        for (int x = 0; x < columns; ++x) sums.add(across[i][x]);
      }
      put_row<T, Lanes, then>(y, line, under, to, on);
    }
  }
  if constexpr (then == Then::sum) sums.keep(moments, blocks * columns * Tile);
}

}  // namespace detail
}  // namespace halogen::kernels
