// A variable of a series of fields: an array (time, space), or (time, channel, space); a static one has no time.
#pragma once

#include <cmath>
#include <utility>
#include <vector>

#include "halogen/io/data/file_variable.hpp"

namespace halogen::detail {

/// Points are those of space alone. All calls are local; read() may be called by several threads.
class SeriesVariable {
 public:
  /// `fits` says whether its shape is one.
  SeriesVariable(AnyVariable array, int dimensions_of_space, bool has_time)
      : array_(std::move(array)), dimensions_(dimensions_of_space), has_time_(has_time) {}

  const std::vector<index_t>& shape() const { return array_.shape(); }
  std::uint64_t bytes_read() const { return array_.bytes_read(); }
  /// The dimensions that it has at least: it may have one more, of channels.
  int least_rank() const { return dimensions_ + (has_time_ ? 1 : 0); }
  bool fits() const { return rank() == least_rank() || rank() == least_rank() + 1; }

  bool has_time() const { return has_time_; }
  index_t times() const { return has_time_ ? shape()[0] : 1; }
  bool has_channels() const { return rank() > least_rank(); }
  index_t channels() const { return has_channels() ? shape()[has_time_ ? 1 : 0] : 1; }
  std::vector<index_t> space() const { return {shape().end() - dimensions_, shape().end()}; }

  /// All channels of those points at that time, row-major, missing numbers as NaN.
  template <class T>
  void read(index_t time, const PointBox& points, T* to) const {
    PointBox box{{0}, {channels()}};
    box.begin.insert(box.begin.end(), points.begin.begin(), points.begin.end());
    box.extent.insert(box.extent.end(), points.extent.begin(), points.extent.end());
    read_box(time, box, to);
  }
  /// The same for a box of channels and points.
  template <class T>
  void read_box(index_t time, PointBox box, T* to) const {
    if (rank() == least_rank()) box.begin.erase(box.begin.begin()), box.extent.erase(box.extent.begin());
    if (has_time_) box.begin.insert(box.begin.begin(), time), box.extent.insert(box.extent.begin(), 1);
    array_.read(box.begin, box.extent, to);
  }

 private:
  int rank() const { return static_cast<int>(shape().size()); }

  AnyVariable array_;
  int dimensions_;
  bool has_time_;
};

/// Of all channels of those points whether they are missing at the first, the middle and the last of these times.
inline std::vector<char> always_missing(const SeriesVariable& variable, const PointBox& points, Interval times) {
  std::vector<double> values(static_cast<std::size_t>(variable.channels() * points.points()));
  std::vector<char> missing(values.size(), 1);
  for (const index_t time : {times.begin, times.begin + times.size() / 2, times.end - 1}) {
    if (!values.empty()) variable.read(time, points, values.data());
    for (std::size_t i = 0; i < values.size(); ++i) missing[i] = missing[i] != 0 && std::isnan(values[i]);
  }
  return missing;
}

}  // namespace halogen::detail
