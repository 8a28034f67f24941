// All strips of a tensor into one buffer and back: one launch each, whatever the number of faces.
#pragma once

#include <vector>

#include "halogen/core/tensor_view.hpp"
#include "halogen/halo/boxes.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// One strip's rows in the buffer: channels and samples outside, points of a strip row by row inside.
struct PackedStrip {
  index_t y, x, columns, rows;  ///< first point and size
  index_t first_row;            ///< rows of the strips before it, over all channels and samples
  index_t offset;               ///< of its first value in the buffer
};

/// Copies rows between a tensor and the buffer. One work item a row.
template <class T, bool Pack>
struct CopyStrips {
  TensorView<T> tensor;
  const PackedStrip* strips;
  int count, channels;
  T* buffer;

  KOKKOS_FUNCTION void operator()(const index_t row) const {
    int s = 0;
    while (s + 1 < count && strips[s + 1].first_row <= row) ++s;
    const PackedStrip& strip = strips[s];
    const index_t within = row - strip.first_row;
    const index_t y = within % strip.rows, plane = within / strip.rows;
    const int c = static_cast<int>(plane % channels), n = static_cast<int>(plane / channels);
    T* points = &tensor.at(n, c, strip.y + y, strip.x);
    T* packed = buffer + strip.offset + within * strip.columns;
    for (index_t x = 0; x < strip.columns; ++x)
      if constexpr (Pack)
        packed[x] = points[x];
      else
        points[x] = packed[x];
  }
};

/// The strips of one side of an exchange, where kernels can read them.
class StripTable {
 public:
  StripTable() = default;
  StripTable(const std::vector<Strip>& strips, bool receiving, int samples, int channels) {
    const index_t planes = index_t{samples} * channels;
    std::vector<PackedStrip> rows;
    for (const Strip& strip : strips) {
      const Box& box = receiving ? strip.to : strip.from;
      rows.push_back({box.y.begin, box.x.begin, box.x.size(), box.y.size(), rows_, values_});
      rows_ += planes * box.y.size();
      values_ += planes * box.points();
    }
    table_ = Kokkos::View<PackedStrip*, memory_space>("halogen::strips", rows.size());
    auto host = Kokkos::create_mirror_view(table_);
    std::copy(rows.begin(), rows.end(), host.data());
    Kokkos::deep_copy(table_, host);
  }

  index_t values() const { return values_; }

  template <bool Pack, class T>
  void copy(const execution_space& space, const TensorView<T>& tensor, int channels, T* buffer) const {
    if (rows_ == 0) return;
    const CopyStrips<T, Pack> functor{tensor, table_.data(), static_cast<int>(table_.extent(0)), channels, buffer};
    Kokkos::parallel_for(Pack ? "halogen::pack" : "halogen::unpack",
                         Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index_t>>(space, 0, rows_), functor);
  }

 private:
  Kokkos::View<PackedStrip*, memory_space> table_;
  index_t rows_ = 0, values_ = 0;
};

}  // namespace halogen
