// Views as strides and a place in the global index space, and copies between them.
#pragma once

#include <cstring>

#include "halogen/tensor/space.hpp"

namespace halogen {

/// A tensor of Rank dimensions as strides, and the global index of its first element.
template <class T, int Rank>
struct StridedView {
  T* data = nullptr;
  index_t stride[Rank] = {}, origin[Rank] = {};
};

/// `count` values, `to_step` and `from_step` apart.
template <class T>
KOKKOS_FUNCTION void copy_row(T* to, index_t to_step, const T* from, index_t from_step, index_t count) {
  KOKKOS_IF_ON_HOST((if (to_step == 1 && from_step == 1) {
    std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(count) * sizeof(T));
    return;
  }))
  for (index_t x = 0; x < count; ++x) to[x * to_step] = from[x * from_step];
}

namespace detail {

/// A Kokkos view's strides, its first element that of global index 0.
template <int Rank, class T, class View>
StridedView<T, Rank> strided_view_of(T* data, const View& view) {
  StridedView<T, Rank> result{data, {}, {}};
  // Unrolled: where d is no constant, g++ 12 with -O2 -mtune=cascadelake makes stride(1) of Kokkos 4.7 stride(2).
  HALOGEN_UNROLL
  for (int d = 0; d < Rank; ++d) result.stride[d] = static_cast<index_t>(view.stride(d));
  return result;
}

/// to = from, all points of both. A work item: on the host a row (or a part of the only one), on a device a point,
/// whose neighbours then share lines of memory.
template <class T, int Rank>
struct CopyPoints {
  StridedView<const T, Rank> from;
  StridedView<T, Rank> to;
  index_t extent[Rank];

  static constexpr index_t part = 1 << 14;
  KOKKOS_FUNCTION index_t points() const {
    const index_t row = extent[Rank - 1];
    return !runs_on_host ? 1 : Rank == 1 && row > part ? part : row;
  }
  index_t items() const {
    index_t rows = 1;
    for (int d = 0; d < Rank - 1; ++d) rows *= extent[d];
    return points() == 0 ? 0 : rows * ceil_div(extent[Rank - 1], points());
  }

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    const index_t width = extent[Rank - 1], count = points(), parts = ceil_div(width, count);
    const index_t a = from.stride[Rank - 1], b = to.stride[Rank - 1], begin = item % parts * count;
    const T* source = from.data + begin * a;
    T* target = to.data + begin * b;
    index_t row = item / parts;
    for (int d = Rank - 2; d >= 0; row /= extent[d--]) {
      source += row % extent[d] * from.stride[d];
      target += row % extent[d] * to.stride[d];
    }
    copy_row(target, b, source, a, begin + count < width ? count : width - begin);
  }
};

}  // namespace detail

/// to = from, views of the same extents in memory_space, ordered on `space`. As Kokkos::deep_copy, but one kernel for
/// all views of a value type and rank, which is far less to compile.
template <class To, class From>
void copy_points(const execution_space& space, const To& to, const From& from) {
  constexpr int rank = static_cast<int>(To::rank());
  using T = typename To::value_type;
  detail::CopyPoints<T, rank> copy{
      detail::strided_view_of<rank, const T>(from.data(), from), detail::strided_view_of<rank>(to.data(), to), {}};
  HALOGEN_UNROLL
  for (int d = 0; d < rank; ++d) copy.extent[d] = static_cast<index_t>(to.extent(d));
  launch_range(space, "halogen::copy", copy.items(), copy);
}

}  // namespace halogen
