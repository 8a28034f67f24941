// All strips of a tensor into one buffer and back: one launch each, whatever the number of faces.
#pragma once

#include <array>
#include <cstring>
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

/// The strip that a work item's row lies in, and the row's place within it.
template <int Rank>
KOKKOS_FUNCTION const PackedStrip<Rank>& strip_of(const PackedStrip<Rank>* strips, int count, index_t& row) {
  int s = 0;
  while (s + 1 < count && strips[s + 1].first_row <= row) ++s;
  row -= strips[s].first_row;
  return strips[s];
}

/// Row `row` of a strip, in the tensor.
template <class T, int Rank>
KOKKOS_FUNCTION T* row_of_strip(const StridedView<T, Rank>& tensor, const PackedStrip<Rank>& strip, index_t row) {
  index_t offset = (strip.begin[Rank - 1] - tensor.origin[Rank - 1]) * tensor.stride[Rank - 1];
  for (int d = Rank - 2; d >= 0; --d) {
    offset += (strip.begin[d] + row % strip.size[d] - tensor.origin[d]) * tensor.stride[d];
    row /= strip.size[d];
  }
  return tensor.data + offset;
}

/// `count` values, `to_step` and `from_step` apart.
template <class T>
KOKKOS_FUNCTION void copy_row(T* to, index_t to_step, const T* from, index_t from_step, index_t count) {
  KOKKOS_IF_ON_HOST((if (to_step == 1 && from_step == 1) {
    std::memcpy(static_cast<void*>(to), from, static_cast<std::size_t>(count) * sizeof(T));
    return;
  }))
  for (index_t x = 0; x < count; ++x) to[x * to_step] = from[x * from_step];
}

/// Copies rows between a tensor and the buffer. One work item a row.
template <class T, int Rank, bool Pack>
struct CopyStrips {
  StridedView<T, Rank> tensor;
  const PackedStrip<Rank>* strips;
  int count;
  T* buffer;

  KOKKOS_FUNCTION void operator()(index_t row) const {
    const PackedStrip<Rank>& strip = strip_of(strips, count, row);
    const index_t columns = strip.size[Rank - 1], step = tensor.stride[Rank - 1];
    T* points = row_of_strip(tensor, strip, row);
    T* packed = buffer + strip.offset + row * columns;
    if constexpr (Pack)
      copy_row(packed, 1, points, step, columns);
    else
      copy_row(points, step, packed, 1, columns);
  }
};

/// Copies rows from strips of one tensor to as many of another (or of itself). One work item a row.
template <class T, int Rank>
struct CopyAcross {
  StridedView<T, Rank> from, to;
  const PackedStrip<Rank>* from_strips;
  const PackedStrip<Rank>* to_strips;
  int count;

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    index_t row = item, same_row = item;
    const PackedStrip<Rank>& source = strip_of(from_strips, count, row);
    const PackedStrip<Rank>& target = strip_of(to_strips, count, same_row);
    copy_row(row_of_strip(to, target, row), to.stride[Rank - 1], row_of_strip(from, source, row), from.stride[Rank - 1],
             source.size[Rank - 1]);
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

  /// From these strips of one tensor to `target`'s, as many and as large, of another.
  template <class T>
  void copy_across(const execution_space& space, const StridedView<T, Rank>& from, const StripTable& target,
                   const StridedView<T, Rank>& to) const {
    if (rows_ == 0) return;
    const CopyAcross<T, Rank> functor{from, to, table_.data(), target.table_.data(),
                                      static_cast<int>(table_.extent(0))};
    Kokkos::parallel_for("halogen::copy_own",
                         Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index_t>>(space, 0, rows_), functor);
  }

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
