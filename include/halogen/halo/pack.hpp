// All strips of a tensor into one buffer and back: one launch each, whatever the number of faces.
#pragma once

#include <array>
#include <vector>

#include "halogen/halo/boxes.hpp"
#include "halogen/tensor/strided_view.hpp"

namespace halogen {

/// One strip's place in the tensor and in the buffer.
template <int Rank>
struct PackedStrip {
  index_t begin[Rank], size[Rank];  ///< first point and extents
  index_t first_row;                ///< rows (along the last dimension) of the strips before it
  index_t offset;                   ///< of its first value in the buffer
};

/// Walks the rows of all strips of a tensor, one after the other: divides once, then only adds.
template <class T, int Rank>
class RowCursor {
 public:
  KOKKOS_FUNCTION RowCursor(const StridedView<T, Rank>& tensor, const PackedStrip<Rank>* strips, int count, index_t row)
      : tensor_(tensor), strip_(strips), last_(strips + count - 1) {
    while (strip_ < last_ && strip_[1].first_row <= row) ++strip_;
    within_ = row - strip_->first_row;
    find();
  }

  KOKKOS_FUNCTION T* points() const { return points_; }
  KOKKOS_FUNCTION const PackedStrip<Rank>& strip() const { return *strip_; }
  KOKKOS_FUNCTION index_t within() const { return within_; }  ///< rows of this strip before this one

  KOKKOS_FUNCTION void next() {
    ++within_;
    for (int d = Rank - 2; d >= 0; --d) {
      points_ += tensor_.stride[d];
      if (++index_[d] < strip_->size[d]) return;
      points_ -= strip_->size[d] * tensor_.stride[d];
      index_[d] = 0;
    }
    if (strip_ == last_) return;
    ++strip_;
    within_ = 0;
    find();
  }

 private:
  KOKKOS_FUNCTION void find() {
    index_t rest = within_;
    points_ = tensor_.data + (strip_->begin[Rank - 1] - tensor_.origin[Rank - 1]) * tensor_.stride[Rank - 1];
    for (int d = Rank - 2; d >= 0; --d) {
      index_[d] = rest % strip_->size[d];
      rest /= strip_->size[d];
      points_ += (strip_->begin[d] + index_[d] - tensor_.origin[d]) * tensor_.stride[d];
    }
  }

  const StridedView<T, Rank>& tensor_;
  const PackedStrip<Rank>* strip_;
  const PackedStrip<Rank>* last_;
  index_t within_;
  index_t index_[Rank] = {};
  T* points_ = nullptr;
};

/// Row `row` of one strip, found alone.
template <class T, int Rank>
KOKKOS_FUNCTION T* row_of_strip(const StridedView<T, Rank>& tensor, const PackedStrip<Rank>& strip, index_t row) {
  T* points = tensor.data + (strip.begin[Rank - 1] - tensor.origin[Rank - 1]) * tensor.stride[Rank - 1];
  for (int d = Rank - 2; d >= 0; --d) {
    points += (strip.begin[d] + row % strip.size[d] - tensor.origin[d]) * tensor.stride[d];
    row /= strip.size[d];
  }
  return points;
}

/// Rows that one work item copies.
inline constexpr index_t rows_per_item = runs_on_host ? 32 : 1;

/// Copies rows between a tensor and the buffer.
template <class T, int Rank, bool Pack>
struct CopyStrips {
  StridedView<T, Rank> tensor;
  const PackedStrip<Rank>* strips;
  int count;
  index_t rows;
  T* buffer;

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    const index_t begin = item * rows_per_item, end = begin + rows_per_item < rows ? begin + rows_per_item : rows;
    RowCursor<T, Rank> row(tensor, strips, count, begin);
    for (index_t i = begin; i < end; ++i, row.next()) {
      const index_t columns = row.strip().size[Rank - 1], step = tensor.stride[Rank - 1];
      T* packed = buffer + row.strip().offset + row.within() * columns;
      if constexpr (Pack)
        copy_row(packed, 1, row.points(), step, columns);
      else
        copy_row(row.points(), step, packed, 1, columns);
    }
  }
};

/// Copies rows from strips of one tensor to as many, of the same sizes, of another (or of itself).
template <class T, int Rank>
struct CopyAcross {
  StridedView<T, Rank> from, to;
  const PackedStrip<Rank>* from_strips;
  const PackedStrip<Rank>* to_strips;
  int count;
  index_t rows;

  KOKKOS_FUNCTION void operator()(const index_t item) const {
    const index_t begin = item * rows_per_item, end = begin + rows_per_item < rows ? begin + rows_per_item : rows;
    RowCursor<T, Rank> source(from, from_strips, count, begin), target(to, to_strips, count, begin);
    for (index_t i = begin; i < end; ++i, source.next(), target.next())
      copy_row(target.points(), to.stride[Rank - 1], source.points(), from.stride[Rank - 1],
               source.strip().size[Rank - 1]);
  }
};

/// What is small is copied at once on the host: starting threads would take longer.
template <class Functor>
void launch_copy(const char* label, const execution_space& space, index_t values, const Functor& functor) {
  const index_t items = ceil_div(functor.rows, rows_per_item);
  if constexpr (runs_on_host) {
    if (values <= 16384 && !Kokkos::Tools::profileLibraryLoaded()) {  // a tool is to see all launches
      for (index_t i = 0; i < items; ++i) functor(i);
      return;
    }
  }
  launch_range(space, label, items, functor);
}

/// The strips of one side of an exchange, where kernels can read them.
template <int Rank>
class StripTable {
 public:
  StripTable() = default;
  StripTable(const std::vector<Strip<Rank>>& strips, bool receiving);

  index_t values() const { return values_; }

  /// From these strips of one tensor to `target`'s, as many and as large, of another.
  template <class T>
  void copy_across(const execution_space& space, const StridedView<T, Rank>& from, const StripTable& target,
                   const StridedView<T, Rank>& to) const;

  template <bool Pack, class T>
  void copy(const execution_space& space, const StridedView<T, Rank>& tensor, T* buffer) const;

 private:
  detail::Lasting<Kokkos::View<PackedStrip<Rank>*, memory_space>> table_;
  index_t rows_ = 0, values_ = 0;
};

template <int Rank>
StripTable<Rank>::StripTable(const std::vector<Strip<Rank>>& strips, bool receiving) {
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
  copy_to_view(table_, packed);
}

template <int Rank>
template <class T>
void StripTable<Rank>::copy_across(const execution_space& space, const StridedView<T, Rank>& from,
                                   const StripTable& target, const StridedView<T, Rank>& to) const {
  if (rows_ == 0) return;
  const CopyAcross<T, Rank> functor{from, to, table_.data(), target.table_.data(), static_cast<int>(table_.extent(0)),
                                    rows_};
  launch_copy("halogen::own", space, values_, functor);
}

template <int Rank>
template <bool Pack, class T>
void StripTable<Rank>::copy(const execution_space& space, const StridedView<T, Rank>& tensor, T* buffer) const {
  if (rows_ == 0) return;
  const CopyStrips<T, Rank, Pack> functor{tensor, table_.data(), static_cast<int>(table_.extent(0)), rows_, buffer};
  launch_copy(Pack ? "halogen::pack" : "halogen::unpack", space, values_, functor);
}

}  // namespace halogen
