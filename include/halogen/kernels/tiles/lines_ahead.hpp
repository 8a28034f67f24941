// Host: prefetches the rows that come next while products are summed, a few cache lines at a time. If all were
// prefetched at once, they would fill the queue of misses, and the next load would wait for them.
#pragma once

#include <cstddef>

#include "halogen/kernels/tiles/tiles.hpp"

namespace halogen::kernels {

/// Rows of fields. Each is prefetched in as many steps as there are groups of tiles across.
class LinesAhead {
 public:
  explicit LinesAhead(index_t most_rows) : most_rows_(most_rows) {}

  std::size_t bytes() const { return Scratch::bytes_of<Row>(static_cast<std::size_t>(most_rows_)); }
  void take(Scratch& scratch) { rows_ = scratch.take<Row>(static_cast<std::size_t>(most_rows_)); }

  /// Sets the rows: rows_of_channel of each channel, one after the other. locate(row, x, writes) is the address where
  /// point x of the row will be read or written. It is null, for any x, if there is none. Groups begin at points x0, x0
  /// + group, ..., at the same points in all rows of a channel.
  template <class Locate>
  void aim(index_t rows_of_channel, index_t x0, index_t group, Locate locate) {
    count_ = 0;
    for (index_t r = 0; r < most_rows_;) {
      std::ptrdiff_t step = 0;
      for (const index_t end = r + rows_of_channel, first = count_; r < end; ++r) {
        bool writes = false;
        const char* at = static_cast<const char*>(locate(r, x0, writes));
        if (at == nullptr) continue;
        if (count_ == first) step = static_cast<const char*>(locate(r, x0 + group, writes)) - at;
        rows_[count_++] = {at, step, writes};
      }
    }
  }

  /// Prepares to prefetch the lines of the rows in group g, of which `bytes` are used. They are spread over so many
  /// calls of next().
  void start(index_t g, index_t bytes, index_t calls) {
    group_ = g;
    lines_ = ceil_div(bytes, cache_line);
    share_ = static_cast<int>(ceil_div(count_ * lines_, calls));
    row_ = line_ = 0;
  }

  void next() {
    for (int left = share_; left > 0 && row_ < count_;) {
      const Row& row = rows_[row_];
      const char* at = row.at + group_ * row.step;
      const index_t end = std::min(lines_, line_ + left);
      left -= static_cast<int>(end - line_);
      if (row.writes)
        for (; line_ < end; ++line_) __builtin_prefetch(at + line_ * cache_line, 1, 2);
      else
        for (; line_ < end; ++line_) __builtin_prefetch(at + line_ * cache_line, 0, 2);
      if (line_ == lines_) line_ = 0, ++row_;
    }
  }

 private:
  struct Row {
    const char* at;
    std::ptrdiff_t step;  ///< to the next group
    bool writes;
  };
  index_t most_rows_, count_ = 0, group_ = 0, lines_ = 0, row_ = 0, line_ = 0;
  int share_ = 0;
  Row* rows_ = nullptr;
};

}  // namespace halogen::kernels
