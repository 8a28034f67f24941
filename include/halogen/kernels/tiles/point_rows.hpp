// Host: the points of a tile for kernels of one point, whose convolutions are products of matrices.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles/window_rows.hpp"

namespace halogen::kernels {

/// Reads the rows of a strip of a tile as a window of one point sees them: one row directly after the other, so that
/// vectors are full however narrow the rows are.
template <class T, class Reader>
class PointRows {
 public:
  PointRows(const Reader& reader, const PlaneWindow& shape, index_t columns)
      : reader_(reader), shape_(shape), line_size_((columns - 1) * shape.stride[1] + 1) {}

  std::size_t bytes() const { return Scratch::bytes_of<T>(line_size()); }
  void take(Scratch& scratch) { line_ = scratch.take<T>(line_size()); }

  /// Writes the points of channel c that the outputs in these rows and columns read.
  void load(int sample, int c, Interval rows, Interval columns, T* to) const {
    const index_t first = shape_.first_input(1, columns.begin), count = columns.size();
    for (index_t y = rows.begin; y < rows.end; ++y, to += count) {
      const index_t row = shape_.first_input(0, y);
      if (shape_.stride[1] == 1) {
        reader_.load_row(sample, c, row, first, count, to);
        continue;
      }
      reader_.load_row(sample, c, row, first, (count - 1) * shape_.stride[1] + 1, line_);
      for (index_t i = 0; i < count; ++i) to[i] = line_[i * shape_.stride[1]];
    }
  }

 private:
  std::size_t line_size() const { return shape_.stride[1] == 1 ? 0 : static_cast<std::size_t>(line_size_); }

  const Reader& reader_;
  const PlaneWindow& shape_;
  index_t line_size_;
  T* line_ = nullptr;
};

/// How many rows of a tile make a strip: as many as keep its points of all channels in L2.
inline index_t strip_rows(const Tiling& tiling, index_t channels, std::size_t value_bytes) {
  const index_t row_bytes = channels * tiling.tile_columns * static_cast<index_t>(value_bytes);
  return std::clamp<index_t>(1600 * 1024 / row_bytes, 1, tiling.tile_rows);
}

}  // namespace halogen::kernels
