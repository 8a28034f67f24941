// Copies channels of a field to the rows of attention, which hold the features of a head at one point side by side.
// kernels/attention/rows_as_channels.hpp reads them back. Another copy keeps the logarithms of attention's sums in a
// field.
#pragma once

#include "halogen/array/stages/flattened_pieces.hpp"
#include "halogen/attention/head_rows.hpp"
#include "halogen/core/tensor_view.hpp"
#include "halogen/kernels/attention/kept_logarithms.hpp"
#include "halogen/kernels/attention/rows_as_channels.hpp"

namespace halogen::detail {

/// rows = channels [first, first + heads width) of a field. One work item: some columns of a head, on a device a value.
template <class From, class To>
struct ChannelsToRows {
  TensorView<From> field;
  kernels::HeadRows<To> rows;
  kernels::OwnedPoints points;
  int first, heads, width;

  static constexpr index_t block = runs_on_host ? 16 : 1;
  index_t items(index_t samples) const {
    const index_t blocks = (points.columns.size() + block - 1) / block;
    return samples * points.planes * heads * points.rows.size() * blocks * (runs_on_host ? 1 : width);
  }
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t blocks = (points.columns.size() + block - 1) / block;
    const index_t begin = item % blocks * block;
    item /= blocks;
    int feature = 0;
    if constexpr (!runs_on_host) feature = static_cast<int>(item % width), item /= width;
    const index_t y = points.rows.begin + item % points.rows.size();
    item /= points.rows.size();
    const int head = static_cast<int>(item % heads), n = static_cast<int>(item / heads);
    const index_t left = points.columns.size() - begin, count = left < block ? left : block;
    const index_t x = points.columns.begin + begin;
    To* to = rows.row(n / points.planes, head, points.number(n, y, x));
    const int last = runs_on_host ? width : feature + 1;
    for (int e = feature; e < last; ++e) {
      const From* from = field.row(n, first + head * width + e, y) + (x - field.x0);
      for (index_t i = 0; i < count; ++i) to[i * rows.row_stride + e] = static_cast<To>(from[i]);
    }
  }
};

/// One number for each head and query, stored as two values of S (kernels/attention/kept_logarithms.hpp), or read
/// again.
template <class S, class T, bool Again>
struct KeepLogarithms {
  TensorView<S> kept;
  kernels::HeadRows<T> rows;
  kernels::OwnedPoints points;
  int heads;

  index_t items(index_t samples) const {
    return samples * points.planes * heads * points.rows.size() * points.columns.size();
  }
  KOKKOS_FUNCTION void operator()(index_t item) const {
    const index_t x = points.columns.begin + item % points.columns.size();
    item /= points.columns.size();
    const index_t y = points.rows.begin + item % points.rows.size();
    item /= points.rows.size();
    const int head = static_cast<int>(item % heads), n = static_cast<int>(item / heads);
    T& logarithm = *rows.row(n / points.planes, head, points.number(n, y, x));
    S &rounded = kept.at(n, head * kernels::kept_of_head, y, x),
      &rest = kept.at(n, head * kernels::kept_of_head + 1, y, x);
    if constexpr (Again) {
      logarithm = kernels::KeptLogarithm<S>{rounded, rest}.whole();
    } else {
      const auto parts = kernels::KeptLogarithm<S>::of(logarithm);
      rounded = parts.rounded, rest = parts.rest;
    }
  }
};

/// The place of rows of heads (samples, heads, points, features) whose points are those of a field, piece by piece.
template <class Where>
struct rows_place;
template <class M, int Rank, int... Codes>
struct rows_place<Placed<M, Rank, Codes...>> {
  using joined = typename pieces_flattened<2, Rank - 1, Placed<M, Rank, Codes...>>::type;
  template <class Flat>
  struct with_features;
  template <int... Flat>
  struct with_features<Placed<M, 3, Flat...>> {
    using type = Placed<M, 4, Flat...>;
  };
  using type = typename with_features<joined>::type;
};
template <class T, class Field>
using rows_beside = typename field_of<T, typename rows_place<placed_at<Field>>::type>::type;

/// Rows for the points of a field.
template <class T, class Field>
rows_beside<T, Field> empty_rows(const Field& field, int heads, int width) {
  using Rows = rows_beside<T, Field>;
  const Cut points = cut_of_pieces<2, Field::rank - 1>(*field.shape());
  return Rows(Rows::make_shape(field.mesh(), {field.cut(0), Cut::chunk(heads, 1), points, Cut::chunk(width, 1)}),
              Rows::Start::unwritten);
}

/// Copies channels of a field, starting at `first`, to rows.
template <class S, class Rows>
void copy_to_rows(const execution_space& space, const TensorView<S>& from, const kernels::OwnedPoints& points,
                  int first, const Rows& to) {
  const ChannelsToRows<S, typename Rows::value_type> copy{
      from, head_rows(to), points, first, static_cast<int>(to.extent(1)), static_cast<int>(to.extent(3))};
  launch_range(space, "halogen::channels_to_rows", copy.items(to.local_extent(0)), copy);
}

}  // namespace halogen::detail
