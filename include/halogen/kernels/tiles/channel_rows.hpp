// Host: input rows as a reader sees them, transposed so that the channels of a point are side by side.
#pragma once

#include <algorithm>

#include "halogen/kernels/tiles/tiles.hpp"
#include "halogen/kernels/vector/shuffle.hpp"

namespace halogen::kernels {

/// A ring of `slots` rows [vector of channels][x][lane]. Channels are padded with zeros to whole vectors, which are
/// those of for_each_lanes(). Each vector has its own memory, so that a cache line is filled, and read, at once.
template <class T, class Reader>
class ChannelRows {
 public:
  static constexpr int vector = lanes<T>, most = wide_lanes<T>;

  ChannelRows(const Reader& reader, int channels, index_t columns, int slots)
      : reader_(reader),
        channels_(channels),
        slots_(slots),
        columns_(ceil_div(columns, most) * most),
        width_(ceil_div(channels, vector) * vector) {}

  index_t width() const { return width_; }      ///< channels, including those of padding
  index_t columns() const { return columns_; }  ///< the vector that begins at channel c begins at c * columns()
  std::size_t bytes() const {
    return Scratch::bytes_of<T>(static_cast<std::size_t>(slots_ * columns_ * width_)) +
           Scratch::bytes_of<T>(static_cast<std::size_t>(most * columns_));
  }

  /// Points outside of these rows and columns are read as 0, whatever the reader has there.
  void set_readable(const Interval& rows, const Interval& columns) { readable_[0] = rows, readable_[1] = columns; }

  void take(Scratch& scratch) {
    rows_ = scratch.take<T>(static_cast<std::size_t>(slots_ * columns_ * width_));
    lines_ = scratch.take<T>(static_cast<std::size_t>(most * columns_));
  }

  /// Reads row y of a sample, beginning with column `first`. Calls visit(channel, x, line, count) with the readable
  /// points of each line, which begin at column x, before the line is transposed.
  template <class Visit>
  void read(int sample, index_t y, index_t first, index_t count, Visit visit) {
    T* to = rows_ + floor_mod(y, slots_) * columns_ * width_;
    const Interval inside = reader_.frame.columns_inside(intersect(readable_[1], {first, first + count}));
    if (y < readable_[0].begin || y >= readable_[0].end || inside.empty())
      return (void)std::memset(to, 0, static_cast<std::size_t>(columns_ * width_) * sizeof(T));
    for_each_lanes<T>(width_, [&]<int Lanes>(index_t c) {
      read_lines<Lanes>(sample, static_cast<int>(c), y, inside, first, count, to + c * columns_, visit);
    });
  }
  void read(int sample, index_t y, index_t first, index_t count) {
    read(sample, y, first, count, [](int, index_t, const T*, index_t) {});
  }

  const T* row(index_t y) const { return rows_ + floor_mod(y, slots_) * columns_ * width_; }

 private:
  /// Reads the channels [c, c + Lanes), or fewer if there are not so many. Columns `inside` can be read.
  template <int Lanes, class Visit>
  void read_lines(int sample, int c, index_t y, const Interval& inside, index_t first, index_t count, T* to,
                  Visit& visit) {
    const Interval present = {inside.begin - first, inside.end - first};
    const int lines_here = std::min(Lanes, channels_ - c);
    // Whole vectors are transposed where the row is in memory, if it is. The rest is copied to lines of our own first.
    Interval whole = {ceil_div(present.begin, Lanes) * Lanes, present.end / Lanes * Lanes};
    const T *lines[Lanes], *edges[Lanes];
    bool stand = !whole.empty();
    for (int l = 0; l < lines_here && stand; ++l) {
      lines[l] = reader_.standing_row(reader_.depth.input(sample, c + l), y, inside.begin, inside.size());
      stand = lines[l] != nullptr;
    }
    if (!stand) whole = {0, 0};
    for (int l = 0; l < Lanes; ++l) {
      T* line = lines_ + l * columns_;
      edges[l] = line;
      if (l >= lines_here) {
        std::memset(line, 0, static_cast<std::size_t>(columns_) * sizeof(T));
        lines[l] = line;
        continue;
      }
      std::fill(line, line + present.begin, T(0));
      std::fill(line + present.end, line + columns_, T(0));
      if (stand) {
        lines[l] -= present.begin;
        std::copy(lines[l] + present.begin, lines[l] + whole.begin, line + present.begin);
        std::copy(lines[l] + whole.end, lines[l] + present.end, line + whole.end);
      } else {
        reader_.load_row(sample, c + l, y, inside.begin, inside.size(), line + present.begin);
        lines[l] = line;
      }
      visit(c + l, inside.begin, lines[l] + present.begin, present.size());
    }
    transpose_lines(edges, 0, whole.begin, to);
    transpose_lines(lines, whole.begin, whole.end, to);
    transpose_lines(edges, whole.end, count, to);
  }

  const Reader& reader_;
  int channels_, slots_;
  index_t columns_, width_;
  Interval readable_[2];
  T* rows_ = nullptr;
  T* lines_ = nullptr;
};

}  // namespace halogen::kernels
