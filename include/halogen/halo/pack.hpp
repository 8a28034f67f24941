// All strips of a tensor into one buffer and back: one launch each, whatever the number of faces.
#pragma once

#include <array>
#include <vector>

#include "halogen/halo/boxes.hpp"
#include "halogen/tensor/space.hpp"

namespace halogen {

/// A tensor of Rank dimensions as packing sees it: strides, and the global index of its first element.
template <class T, int Rank>
struct StridedView {
  T* data = nullptr;
  index_t stride[Rank] = {}, origin[Rank] = {};
};

/// One strip's place in the tensor and in the buffer.
template <int Rank>
struct PackedStrip {
  index_t begin[Rank], size[Rank];  ///< first point and extents
  index_t first_row;                ///< rows (along the last dimension) of the strips before it
  index_t offset;                   ///< of its first value in the buffer
};

/// Copies rows between a tensor and the buffer. One work item a row.
template <class T, int Rank, bool Pack>
struct CopyStrips {
  StridedView<T, Rank> tensor;
  const PackedStrip<Rank>* strips;
  int count;
  T* buffer;

  KOKKOS_FUNCTION void operator()(const index_t row) const {
    int s = 0;
    while (s + 1 < count && strips[s + 1].first_row <= row) ++s;
    const PackedStrip<Rank>& strip = strips[s];
    const index_t within = row - strip.first_row;
    index_t offset = (strip.begin[Rank - 1] - tensor.origin[Rank - 1]) * tensor.stride[Rank - 1];
    index_t rest = within;
    for (int d = Rank - 2; d >= 0; --d) {
      offset += (strip.begin[d] + rest % strip.size[d] - tensor.origin[d]) * tensor.stride[d];
      rest /= strip.size[d];
    }
    const index_t columns = strip.size[Rank - 1], step = tensor.stride[Rank - 1];
    T* points = tensor.data + offset;
    T* packed = buffer + strip.offset + within * columns;
    for (index_t x = 0; x < columns; ++x)
      if constexpr (Pack)
        packed[x] = points[x * step];
      else
        points[x * step] = packed[x];
  }
};

/// The strips of one side of an exchange, where kernels can read them.
template <int Rank>
class StripTable {
 public:
  StripTable() = default;
  StripTable(const std::vector<Strip<Rank>>& strips, bool receiving) {
    std::vector<PackedStrip<Rank>> packed;
    for (const Strip<Rank>& strip : strips) {
      const Box<Rank>& box = receiving ? strip.to : strip.from;
      PackedStrip<Rank> one{};
      index_t rows = 1;
      for (int d = 0; d < Rank; ++d) {
        one.begin[d] = box.side[static_cast<std::size_t>(d)].begin;
        one.size[d] = box.side[static_cast<std::size_t>(d)].size();
        if (d + 1 < Rank) rows *= one.size[d];
      }
      one.first_row = rows_;
      one.offset = values_;
      rows_ += rows;
      values_ += box.points();
      packed.push_back(one);
    }
    table_ = Kokkos::View<PackedStrip<Rank>*, memory_space>("halogen::strips", packed.size());
    auto host = Kokkos::create_mirror_view(table_);
    std::copy(packed.begin(), packed.end(), host.data());
    Kokkos::deep_copy(table_, host);
  }

  index_t values() const { return values_; }

  template <bool Pack, class T>
  void copy(const execution_space& space, const StridedView<T, Rank>& tensor, T* buffer) const {
    if (rows_ == 0) return;
    const CopyStrips<T, Rank, Pack> functor{tensor, table_.data(), static_cast<int>(table_.extent(0)), buffer};
    Kokkos::parallel_for(Pack ? "halogen::pack" : "halogen::unpack",
                         Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index_t>>(space, 0, rows_), functor);
  }

 private:
  Kokkos::View<PackedStrip<Rank>*, memory_space> table_;
  index_t rows_ = 0, values_ = 0;
};

}  // namespace halogen
