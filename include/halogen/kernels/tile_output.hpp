// What every kernel over tiles does with what it has computed: store it or add it, and sum its rows.
#pragma once

#include "halogen/kernels/tiles.hpp"

namespace halogen::kernels {

/// The output of a launch: tensor = or, with `accumulate`, base + the computed points; then the epilogue.
template <class T>
struct TileOutput {
  TensorView<T> tensor;
  int channels = 0;
  Tiling tiling;
  bool accumulate = false;
  TensorView<T> base;  ///< accumulate: what is added to, the tensor itself or another
  RowEpilogue<T> epilogue;
  bool streams = false;  ///< host: rows go past the caches, which are smaller than the tensor

  template <class Team>
  KOKKOS_FUNCTION index_t number(const Team& team) const {
    return tiling.number(team.league_rank());
  }
  template <class Team>
  KOKKOS_FUNCTION Tile tile(const Team& team) const {
    return {tiling, number(team)};
  }
  KOKKOS_FUNCTION bool summed() const { return epilogue.kind != RowEpilogue<T>::Kind::none; }

  KOKKOS_FUNCTION void put(int n, int c, index_t y, index_t x, T value) const {
    tensor.at(n, c, y, x) = accumulate ? base.at(n, c, y, x) + value : value;
  }

  /// Host: columns [x, x + count) of a row whose sums are taken later.
  void put_row(int n, int c, index_t y, index_t x, index_t count, const T* from) const {
    T* to = &tensor.at(n, c, y, x);
    if (!accumulate) return detail::copy_row(from, count, to);
    add_base(n, c, y, x, count, from, to);
  }

  /// Host: where a row is best computed, in place or on `line`; finish_row() then does all that is left.
  T* row(int n, int c, index_t y, index_t x, T* line) const {
    return accumulate || streams ? line : &tensor.at(n, c, y, x);
  }
  void finish_row(int n, int c, index_t y, const Interval& columns, T* row, RowSums& sums) const {
    const index_t x = columns.begin, count = columns.size();
    if (accumulate) add_base(n, c, y, x, count, row, row);
    if (summed()) epilogue.add_row(n, c, y, x, count, row, sums);
    T* to = &tensor.at(n, c, y, x);
    if (streams)
      stream_row(row, count, to);
    else if (row != to)
      detail::copy_row(row, count, to);
  }

  /// The epilogue of a finished row.
  KOKKOS_FUNCTION void sum_row(int n, int c, index_t y, const Interval& columns, RowSums& sums) const {
    if (summed()) epilogue.add_row(n, c, y, columns.begin, columns.size(), &tensor.at(n, c, y, columns.begin), sums);
  }

  /// The sums of all rows of channel c in the team's tile.
  template <class Team>
  KOKKOS_FUNCTION void keep_sums(const Team& team, int c, const RowSums& sums) const {
    if (summed()) epilogue.partial[number(team) * channels + c] = sums;
  }

 private:
  void add_base(int n, int c, index_t y, index_t x, index_t count, const T* from, T* to) const {
    const T* on = &base.at(n, c, y, x);
    for_each_vector<T>(count, [&]<class V>(index_t i) { store<V>(to + i, load<V>(on + i) + load<V>(from + i)); });
  }
};

}  // namespace halogen::kernels
