// Reads rows of attention as the channels of a field. A row holds the features of a head at one point side by side. The
// points of a rank are numbered row by row, plane by plane.
#pragma once

#include "halogen/core/config.hpp"
#include "halogen/kernels/attention/attention_rows.hpp"

namespace halogen::kernels {

/// The points that a rank owns on one level.
struct OwnedPoints {
  Interval rows, columns;
  int planes = 1;  ///< of a sample

  HALOGEN_FUNCTION index_t number(int n, index_t y, index_t x) const {
    return ((n % planes) * rows.size() + y - rows.begin) * columns.size() + x - columns.begin;
  }
};

/// Rows of several groups of heads as the channels of a field, one group after the other. It reads as a value
/// (kernels/rows/views.hpp). A group without memory reads as 0.
template <class T, class V>
struct RowsAsChannels {
  struct Group {
    HeadRows<const V> rows;
    int channels = 0, width = 1;
  };
  static constexpr int most = 3;
  Group groups[most];
  OwnedPoints points;

  KOKKOS_FUNCTION void load_row(int n, int c, index_t y, index_t x, index_t count, T* out) const {
    const Group& group = groups[group_of(c)];
    const V* from = group.rows.data == nullptr ? nullptr : value_of(group, n, c, y, x);
    for (index_t i = 0; i < count; ++i)
      out[i] = from == nullptr ? T(0) : static_cast<T>(from[i * group.rows.row_stride]);
  }
  KOKKOS_FUNCTION T at(int n, int c, index_t y, index_t x) const {
    const Group& group = groups[group_of(c)];
    return group.rows.data == nullptr ? T(0) : static_cast<T>(*value_of(group, n, c, y, x));
  }

 private:
  /// The group of a channel, which is then counted in the group.
  KOKKOS_FUNCTION int group_of(int& c) const {
    int group = 0;
    while (group + 1 < most && c >= groups[group].channels) c -= groups[group++].channels;
    return group;
  }
  KOKKOS_FUNCTION const V* value_of(const Group& group, int n, int c, index_t y, index_t x) const {
    return group.rows.row(n / points.planes, c / group.width, points.number(n, y, x)) + c % group.width;
  }
};

}  // namespace halogen::kernels
