// Host: input rows as a reader sees them, turned over so that the channels of a point stand side by side.
#pragma once

#include <algorithm>

#include "halogen/kernels/shuffle.hpp"
#include "halogen/kernels/tiles.hpp"

namespace halogen::kernels {

/// A ring of `slots` rows [vector of channels][x][lane], channels padded with zeros to whole vectors, which are those
/// of for_each_lanes(): each lies by itself, so that a line of the cache is filled, and read, at once.
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

  index_t width() const { return width_; }      ///< channels, those of padding too
  index_t columns() const { return columns_; }  ///< the vector that begins at channel c begins at c * columns()
  std::size_t bytes() const {
    return Scratch::bytes_of<T>(static_cast<std::size_t>(slots_ * columns_ * width_)) +
           Scratch::bytes_of<T>(static_cast<std::size_t>(most * columns_));
  }

  /// Points outside stand as 0, whatever the reader holds there.
  void set_readable(const Interval& rows, const Interval& columns) { readable_[0] = rows, readable_[1] = columns; }

  void take(Scratch& scratch) {
    rows_ = scratch.take<T>(static_cast<std::size_t>(slots_ * columns_ * width_));
    lines_ = scratch.take<T>(static_cast<std::size_t>(most * columns_));
  }

  /// Reads row y of a sample from column `first` on; visit(channel, x, line, count) sees the readable points of each
  /// line, which begin at column x, before it is turned.
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
  /// Of the channels [c, c + Lanes), as many as there are; columns `inside` can be read.
  template <int Lanes, class Visit>
  void read_lines(int sample, int c, index_t y, const Interval& inside, index_t first, index_t count, T* to,
                  Visit& visit) {
    const Interval present = {inside.begin - first, inside.end - first};
    const int lines_here = std::min(Lanes, channels_ - c);
    // Whole vectors of rows that stand somewhere are turned from there; the rest goes through lines of our own.
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
    turn(edges, 0, whole.begin, to);
    turn(lines, whole.begin, whole.end, to);
    turn(edges, whole.end, count, to);
  }

  /// Points [begin, end) of as many lines as a vector has lanes, whole vectors of them.
  template <int Lanes>
  [[gnu::noinline]] void turn(const T* const (&lines)[Lanes], index_t begin, index_t end, T* to) const {
    using V = Vector<T, Lanes>;
    for (index_t x = begin; x < end; x += Lanes) {
      V block[Lanes];
      HALOGEN_UNROLL
      for (int l = 0; l < Lanes; ++l) block[l] = load<V>(lines[l] + x);
      transpose<T>(block);
      HALOGEN_UNROLL
      for (int l = 0; l < Lanes; ++l) store(to + (x + l) * Lanes, block[l]);
    }
  }

  const Reader& reader_;
  int channels_, slots_;
  index_t columns_, width_;
  Interval readable_[2];
  T* rows_ = nullptr;
  T* lines_ = nullptr;
};

}  // namespace halogen::kernels
