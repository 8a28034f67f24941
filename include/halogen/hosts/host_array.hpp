// Arrays of a host program (halogen_array): what they must be beside a field's piece, and one copy in or out.
#pragma once

#include <Kokkos_Core.hpp>
#include <algorithm>
#include <array>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

#include "halogen/core/tensor_view.hpp"
#include "halogen/model.h"
#include "halogen/placement/cut.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen::detail {

/// What a rank owns of a field, as (N, C, D, H, W): dimensions that the field has not are of extent 1.
struct HostPiece {
  int rank = 2;  ///< of the field: 2, a vector of each sample, to 5
  std::array<Interval, 5> owned{};

  index_t points() const {
    index_t points = 1;
    for (const Interval& interval : owned) points *= interval.size();
    return points;
  }
  /// The interval of the field's own dimension d.
  const Interval& dimension(int d) const { return owned[static_cast<std::size_t>(d < 2 ? d : d + 5 - rank)]; }
};

/// An array by dimensions of a HostPiece.
struct HostArray5 {
  void* data = nullptr;
  std::int32_t type = HALOGEN_FLOAT32;
  std::array<std::int64_t, 5> stride{};
};

template <class V>
inline constexpr std::int32_t host_type_of = std::is_same_v<V, double>         ? HALOGEN_FLOAT64
                                             : std::is_same_v<V, std::int32_t> ? HALOGEN_INT32
                                             : std::is_same_v<V, std::int64_t> ? HALOGEN_INT64
                                                                               : HALOGEN_FLOAT32;

/// "(1, 7, 30, 40)"
inline std::string extents_text(const std::int64_t* extents, int rank) {
  std::string text = "(";
  for (int d = 0; d < rank; ++d) text += (d > 0 ? ", " : "") + std::to_string(extents[d]);
  return text + ")";
}

/// The array beside the piece. `fault` gets a sentence that begins with `what` where it does not fit. optional: data
/// may be null.
inline HostArray5 host_array_beside(const HostPiece& piece, const halogen_array& array, const std::string& what,
                                    bool optional, std::string& fault) {
  HostArray5 result{array.data, array.type, {}};
  if (optional && array.data == nullptr) return result;
  std::array<std::int64_t, 5> wanted{};
  for (int d = 0; d < piece.rank; ++d) wanted[static_cast<std::size_t>(d)] = piece.dimension(d).size();
  int left_out = 0;  // dimensions of extent 1 that the array may do without
  while (left_out < 2 && left_out < piece.rank - array.rank && wanted[static_cast<std::size_t>(left_out)] == 1)
    ++left_out;
  const bool fits = array.rank == piece.rank - left_out &&
                    std::equal(array.extent, array.extent + array.rank, wanted.begin() + left_out);
  if (!fits)
    fault = what + " has extents " +
            (array.rank >= 0 && array.rank <= 6 ? extents_text(array.extent, array.rank)
                                                : "of " + std::to_string(array.rank) + " dimensions") +
            ", but this rank's piece has " + extents_text(wanted.data(), piece.rank) +
            ": give the owned points, in the order (sample, channel, space); ghost cells are skipped by strides";
  else if (array.type < HALOGEN_FLOAT32 || array.type > HALOGEN_INT64)
    fault = what + " has type " + std::to_string(array.type) + ": give 0 (float), 1 (double), 2 (int32) or 3 (int64)";
  else if (array.data == nullptr && piece.points() > 0)
    fault = what + " has no data (null) for " + std::to_string(piece.points()) + " values";
  if (!fault.empty()) return result;
  for (int d = left_out; d < piece.rank; ++d)
    result.stride[static_cast<std::size_t>(d < 2 ? d : d + 5 - piece.rank)] = array.stride[d - left_out];
  return result;
}

/// f(the array's first value, of its type)
template <class F>
void with_host_type(const HostArray5& array, F f) {
  switch (array.type) {
    case HALOGEN_FLOAT64:
      return f(static_cast<double*>(array.data));
    case HALOGEN_INT32:
      return f(static_cast<std::int32_t*>(array.data));
    case HALOGEN_INT64:
      return f(static_cast<std::int64_t*>(array.data));
    default:
      return f(static_cast<float*>(array.data));
  }
}

/// row(n, c, z, y, the row's first value in the array) for each row of the piece, with as many threads as kernels take.
template <class H, class Row>
void each_row(const HostPiece& piece, H* data, const std::array<std::int64_t, 5>& stride, Row row) {
  const auto extent = [&](std::size_t d) { return piece.owned[d].size(); };
  const index_t rows = extent(0) * extent(1) * extent(2) * extent(3);
  if (rows == 0 || extent(4) == 0) return;
  Kokkos::parallel_for(
      "halogen::host_rows", Kokkos::RangePolicy<Kokkos::DefaultHostExecutionSpace>(0, rows), [=](index_t i) {
        const index_t y = i % extent(3), z = i / extent(3) % extent(2), c = i / (extent(3) * extent(2)) % extent(1),
                      n = i / (extent(3) * extent(2) * extent(1));
        row(n, c, z, y, data + n * stride[0] + c * stride[1] + z * stride[2] + y * stride[3]);
      });
  Kokkos::DefaultHostExecutionSpace().fence("halogen::host_rows");
}

/// The address of a row of a tensor that lies in host memory; n, c, z, y count from the piece's first point.
template <class V>
V* row_of(const TensorView<V>& tensor, const HostPiece& piece, index_t n, index_t c, index_t z, index_t y) {
  const PlaneAt plane{static_cast<int>(n), static_cast<int>(c), piece.owned[2].begin + z};
  return tensor.row(plane, piece.owned[3].begin + y) + (piece.owned[4].begin - tensor.x0);
}

/// One copy, converted; the tensor lies in host memory.
template <class V>
void copy_into(const TensorView<V>& tensor, const HostPiece& piece, const HostArray5& array) {
  with_host_type(array, [&]<class H>(const H* data) {
    const index_t count = piece.owned[4].size(), step = array.stride[4];
    each_row(piece, data, array.stride, [=](index_t n, index_t c, index_t z, index_t y, const H* from) {
      V* const to = row_of(tensor, piece, n, c, z, y);
      if (step == 1)
        for (index_t x = 0; x < count; ++x) to[x] = static_cast<V>(from[x]);
      else
        for (index_t x = 0; x < count; ++x) to[x] = static_cast<V>(from[x * step]);
    });
  });
}
template <class V>
void copy_out(const TensorView<V>& tensor, const HostPiece& piece, const HostArray5& array) {
  if (array.data == nullptr) return;
  with_host_type(array, [&]<class H>(H* data) {
    const index_t count = piece.owned[4].size(), step = array.stride[4];
    each_row(piece, data, array.stride, [=](index_t n, index_t c, index_t z, index_t y, H* to) {
      const V* const from = row_of(tensor, piece, n, c, z, y);
      if (step == 1)
        for (index_t x = 0; x < count; ++x) to[x] = static_cast<H>(from[x]);
      else
        for (index_t x = 0; x < count; ++x) to[x * step] = static_cast<H>(from[x]);
    });
  });
}

/// Row-major memory of a piece as a tensor: what lies on a device passes through one.
template <class V>
TensorView<V> packed_view(V* data, const HostPiece& piece) {
  const auto size = [&](std::size_t d) { return piece.owned[d].size(); };
  const index_t row = size(4), plane = size(3) * row, channel = size(2) * plane;
  return {data,  size(1) * channel,    channel,
          row,   piece.owned[3].begin, piece.owned[4].begin,
          plane, piece.owned[2].begin, static_cast<int>(std::max<index_t>(size(2), 1))};
}

}  // namespace halogen::detail
