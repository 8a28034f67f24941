// What every kernel over tiles does with its results: it stores or adds them, and sums their rows.
#pragma once

#include "halogen/kernels/tiles/tiles.hpp"

namespace halogen::kernels {

/// The sums of a stored tensor, tile by tile.
template <class S>
struct TileSums {
  TensorView<S> tensor;
  int channels = 0;
  Tiling tiling;
  RowEpilogue<S> epilogue;

  template <class Team>
  KOKKOS_FUNCTION index_t number(const Team& team) const {
    return tiling.number(team.league_rank());
  }
  template <class Team>
  KOKKOS_FUNCTION Tile tile(const Team& team) const {
    return {tiling, number(team)};
  }
  KOKKOS_FUNCTION bool summed() const { return epilogue.kind != RowEpilogue<S>::Kind::none; }

  /// Host: the epilogue of a finished row.
  void sum_row(int n, int c, index_t y, const Interval& columns, RowSums& sums) const {
    if (summed()) epilogue.add_row(n, c, y, columns.begin, columns.size(), &tensor.at(n, c, y, columns.begin), sums);
  }

  /// Stores the sums of all rows of channel c in the team's tile.
  template <class Team>
  KOKKOS_FUNCTION void keep_sums(const Team& team, int c, const RowSums& sums) const {
    if (summed()) epilogue.partial[number(team) * channels + c] = sums;
  }
};

/// The output of a launch. The tensor becomes the computed points or, with `accumulate`, base + the computed points.
/// They are rounded once, when they are stored. Then comes the epilogue, which reads the stored values.
template <class S>
struct TileOutput : TileSums<S> {
  using T = compute_type<S>;
  using TileSums<S>::tensor, TileSums<S>::epilogue, TileSums<S>::summed;

  bool accumulate = false;
  TensorView<S> base;    ///< with accumulate: what is added to, the tensor itself or another
  bool streams = false;  ///< host: rows are stored past the caches, since these are smaller than the tensor

  KOKKOS_FUNCTION void put(int n, int c, index_t y, index_t x, T value) const {
    tensor.at(n, c, y, x) = static_cast<S>(accumulate ? base.at(n, c, y, x) + value : value);
  }

  /// Host: columns [x, x + count) of a row that is summed later.
  void put_row(int n, int c, index_t y, index_t x, index_t count, const T* from) const {
    S* to = &tensor.at(n, c, y, x);
    if (!accumulate) return detail::copy_row(from, count, to);
    add_base(n, c, y, x, count, from, to);
  }

  /// Host: where to compute a row: in the tensor, or in `line`. finish_row() then does the rest.
  T* row(int n, int c, index_t y, index_t x, T* line) const {
    if constexpr (std::is_same_v<S, T>)
      return accumulate || streams ? line : &tensor.at(n, c, y, x);
    else
      return line;
  }
  void finish_row(int n, int c, index_t y, const Interval& columns, T* row, RowSums& sums) const {
    const index_t x = columns.begin, count = columns.size();
    if (accumulate) add_base(n, c, y, x, count, row, row);
    S* to = &tensor.at(n, c, y, x);
    if constexpr (std::is_same_v<S, T>) {
      if (summed()) epilogue.add_row(n, c, y, x, count, row, sums);
      if (streams)
        stream_row(row, count, to);
      else if (row != to)
        detail::copy_row(row, count, to);
    } else {
      detail::copy_row(row, count, to);
      if (summed()) epilogue.add_row(n, c, y, x, count, to, sums);
    }
  }

 private:
  template <class To>
  void add_base(int n, int c, index_t y, index_t x, index_t count, const T* from, To* to) const {
    const S* on = &base.at(n, c, y, x);
    for_each_vector<T>(count, [&]<class V>(index_t i) { store<V>(to + i, load<V>(on + i) + load<V>(from + i)); });
  }
};

}  // namespace halogen::kernels
