// Device: what the teams of a window's kernels share in scratch: the input region of a tile as its reader sees it, and
// the taps of one phase.
#pragma once

#include "halogen/kernels/convolution/device_mma.hpp"
#include "halogen/kernels/rows/device_rows.hpp"
#include "halogen/kernels/tiles/device_team.hpp"
#include "halogen/kernels/tiles/tap_rows.hpp"

namespace halogen::kernels::device {

/// Divides a team's scratch. Every array begins at a multiple of 16 bytes.
class TeamScratch {
 public:
  template <class Team>
  KOKKOS_FORCEINLINE_FUNCTION TeamScratch(const Team& team, std::size_t bytes)
      : next_(static_cast<char*>(team.team_scratch(0).get_shmem_aligned(bytes, 16))) {}

  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION V* take(std::size_t count) {
    V* result = reinterpret_cast<V*>(next_);
    next_ += bytes_of<V>(count);
    return result;
  }
  template <class V>
  KOKKOS_FORCEINLINE_FUNCTION static constexpr std::size_t bytes_of(std::size_t count) {
    return (count * sizeof(V) + 15) / 16 * 16;
  }

 private:
  char* next_;
};

/// The smallest number from `size` on that is `rest` modulo 32. Channels at this distance are in other banks.
KOKKOS_FORCEINLINE_FUNCTION constexpr int banked(int size, int rest) { return size + (rest - size % 32 + 32) % 32; }

/// The most input points that a tile of outputs reads, and their layout in scratch.
struct Region {
  int rows = 0, columns = 0;
  int channel = 0;  ///< points from one channel to the next

  Region() = default;
  /// For tiles of at most tile_rows x tile_columns outputs; `rest` is as in banked().
  KOKKOS_FORCEINLINE_FUNCTION Region(const TapWindow& window, index_t tile_rows, index_t tile_columns, int rest) {
    rows = most(window, 0, tile_rows), columns = most(window, 1, tile_columns);
    const index_t points = index_t{rows} * columns;
    channel = points > too_many ? too_many : banked(static_cast<int>(points), rest);
  }
  /// Plain rows.
  KOKKOS_FORCEINLINE_FUNCTION static Region lines(int rows, int columns, int channel) {
    Region region;
    region.rows = rows, region.columns = columns, region.channel = channel;
    return region;
  }
  KOKKOS_FORCEINLINE_FUNCTION bool fits() const { return channel < too_many; }

  static constexpr int too_many = 1 << 20;

 private:
  KOKKOS_FORCEINLINE_FUNCTION static int most(const TapWindow& window, int d, index_t tile) {
    const index_t reach = window.shape.span(d) - 1;
    const index_t inputs = window.transposed ? (tile - 1 + reach) / window.shape.stride[d] + 1
                                             : (tile - 1) * window.shape.stride[d] + reach + 1;
    return static_cast<int>(inputs < too_many ? inputs : too_many);
  }
};

/// Which points the words of a region have. Word (c, y, x) begins with channel c * channels and row y * rows. If it has
/// two values, the second is next_channel or next_row further.
struct Pairing {
  int channels = 1, rows = 1;
  int next_channel = 0, next_row = 0;
};

/// Writes to[c][row][column], `count` planes of words, from the reader's channels [first, first + channels). rows and
/// columns are what the tile needs; elsewhere it writes zeros. Each warp takes a row of values.
template <class E, class Team, class Reader>
KOKKOS_FORCEINLINE_FUNCTION void stage(const Team& team, const Reader& reader, const Region& region, int sample,
                                       int first, int channels, int count, const Interval& rows,
                                       const Interval& columns, E* to, const Pairing& pairing = {}) {
  using V = typename WordOf<E>::value_type;
  constexpr int values = WordOf<E>::values;
  const int height = static_cast<int>(rows.size()), width = static_cast<int>(columns.size());
  each_of_warps(team, values * count * region.rows, [&](int i) {
    const int which = i % values, c = i / values / region.rows, y = i / values % region.rows;
    V* line = reinterpret_cast<V*>(to + c * region.channel + y * region.columns) + which;
    const int channel = values == 1 ? c : c * pairing.channels + which * pairing.next_channel;
    const int at_row = values == 1 ? y : y * pairing.rows + which * pairing.next_row;
    if (channel >= channels || at_row >= height)
      return each_of_lanes(region.columns, [&](int x) { line[x * values] = V(0.f); });
    const auto row = row_of(reader, sample, first + channel, rows.begin + at_row, columns.begin);
    transfer_by_lanes<2, V>(
        region.columns, [&](int x) { return x < width ? static_cast<V>(row.at(x)) : V(0.f); },
        [&](int x, V value) { line[x * values] = value; });
  });
}

/// The outputs of one phase in a tile: output step * phases + phase, for steps [begin, begin + count).
struct Steps {
  index_t begin[2];
  int count[2], phases[2], phase[2];

  KOKKOS_FORCEINLINE_FUNCTION Steps(const TapWindow& window, const Tile& tile, int number) {
    const Interval side[2] = {tile.rows, tile.columns};
    phases[0] = window.phases(0), phases[1] = window.phases(1);
    phase[0] = number / phases[1], phase[1] = number % phases[1];
    for (int d = 0; d < 2; ++d) {
      begin[d] = ceil_div(side[d].begin - phase[d], phases[d]);
      const index_t end = ceil_div(side[d].end - phase[d], phases[d]);
      count[d] = static_cast<int>(end > begin[d] ? end - begin[d] : 0);
    }
  }
  KOKKOS_FORCEINLINE_FUNCTION index_t output(int d, int step) const { return (begin[d] + step) * phases[d] + phase[d]; }
};

/// One tap of a phase: where the input of step (0, 0) is in the region, and the number of the tap in the window.
struct Tap {
  int offset, weight;
};

/// Writes the taps of a phase, in row order, and returns how many. One thread does this and tells the others the
/// number.
KOKKOS_FORCEINLINE_FUNCTION int list_taps(const TapWindow& window, const Steps& steps, const Region& region,
                                          const Interval& rows, const Interval& columns, Tap* taps) {
  int count = 0;
  for (int ky = 0; ky < window.shape.kernel[0]; ++ky) {
    index_t y, x;
    if (!window.reads(0, steps.output(0, 0), ky, y)) continue;
    for (int kx = 0; kx < window.shape.kernel[1]; ++kx)
      if (window.reads(1, steps.output(1, 0), kx, x))
        taps[count++] = {static_cast<int>((y - rows.begin) * region.columns + (x - columns.begin)),
                         ky * window.shape.kernel[1] + kx};
  }
  return count;
}

/// The distance in input points from one step to the next.
KOKKOS_FORCEINLINE_FUNCTION int advance(const TapWindow& window, int d) {
  return window.transposed ? 1 : window.shape.stride[d];
}

}  // namespace halogen::kernels::device
