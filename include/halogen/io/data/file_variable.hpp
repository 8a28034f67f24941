// Variables: arrays of a file that are read by box, whatever the format, and what is read from them into fields.
//
//   hg::load_variable(t2m, field, {17});      // the 18th time into (1, 1, H, W), each rank its own piece
//
// ZarrArray (zarr.hpp), NetcdfVariable (netcdf.hpp) and Hdf5Dataset (hdf5.hpp) are some. A format of one's own is a
// type with the functions that these two concepts name.
#pragma once

#include <concepts>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/core/half.hpp"
#include "halogen/io/data/point_box.hpp"
#include "halogen/io/data/shared_chunks.hpp"
#include "halogen/io/in_place.hpp"
#include "halogen/tensor/distribute.hpp"

namespace halogen {

/// read(begin, extent, to): local; the numbers of a box, row-major, missing ones as NaN. std::runtime_error names file,
/// variable and fault. It may be called by several threads. bytes_read(): by this process so far. decoded_chunks(),
/// where it has them: the extents of what is decoded as a whole, empty where points are read alone.
template <class V>
concept Variable = requires(const V& variable, const std::vector<index_t>& box, float* to, double* to_double) {
  { variable.name() } -> std::convertible_to<std::string>;
  { variable.shape() } -> std::convertible_to<std::vector<index_t>>;
  { variable.dimension_names() } -> std::convertible_to<std::vector<std::string>>;
  { variable.bytes_read() } -> std::convertible_to<std::uint64_t>;
  variable.read(box, box, to);
  variable.read(box, box, to_double);
};

/// variable(world, name): collective, CollectiveError on all ranks where it cannot be read.
template <class S>
concept VariableStore = requires(const S& store, const Communicator& world, const std::string& name) {
  { store.path() } -> std::convertible_to<std::filesystem::path>;
  { store.variable(world, name) } -> Variable;
};

/// A file or a folder as a store of variables of a type that is made of (world, path, name).
template <Variable V>
class FileStore {
 public:
  explicit FileStore(std::filesystem::path path) : path_(std::move(path)) {}
  const std::filesystem::path& path() const { return path_; }
  V variable(const Communicator& world, const std::string& name) const { return {world, path_, name}; }

 private:
  std::filesystem::path path_;
};

/// A variable of any format.
class AnyVariable {
 public:
  template <Variable V>
  explicit AnyVariable(V variable) : reader_(std::make_shared<const ReaderOf<V>>(std::move(variable))) {}

  std::string name() const { return reader_->name(); }
  const std::vector<index_t>& shape() const { return reader_->shape; }
  const std::vector<std::string>& dimension_names() const { return reader_->dimension_names; }
  std::uint64_t bytes_read() const { return reader_->bytes_read(); }
  template <class T>
  void read(const std::vector<index_t>& begin, const std::vector<index_t>& extent, T* to) const {
    reader_->read(begin, extent, to);
  }

 private:
  struct Reader {
    std::vector<index_t> shape;
    std::vector<std::string> dimension_names;
    virtual ~Reader() = default;
    virtual std::string name() const = 0;
    virtual std::uint64_t bytes_read() const = 0;
    virtual void read(const std::vector<index_t>&, const std::vector<index_t>&, float*) const = 0;
    virtual void read(const std::vector<index_t>&, const std::vector<index_t>&, double*) const = 0;
  };
  template <class V>
  struct ReaderOf final : Reader {
    V variable;
    explicit ReaderOf(V v) : variable(std::move(v)) {
      this->shape = variable.shape();
      this->dimension_names = variable.dimension_names();
    }
    std::string name() const override { return variable.name(); }
    std::uint64_t bytes_read() const override { return variable.bytes_read(); }
    void read(const std::vector<index_t>& begin, const std::vector<index_t>& extent, float* to) const override {
      variable.read(begin, extent, to);
    }
    void read(const std::vector<index_t>& begin, const std::vector<index_t>& extent, double* to) const override {
      variable.read(begin, extent, to);
    }
  };
  std::shared_ptr<const Reader> reader_;
};

/// A series that lies in several files, one time after the other: the variables whose first dimension is `along` are
/// joined along it, the others are read from the first file.
///
///   hg::ConcatenatedStore days({hg::NetcdfFile("1979.nc"), hg::NetcdfFile("1980.nc")}, "time");
template <VariableStore Store>
class ConcatenatedStore {
 public:
  explicit ConcatenatedStore(std::vector<Store> stores, std::string along = "time")
      : stores_(std::move(stores)), along_(std::move(along)) {
    if (stores_.empty()) throw Error("ConcatenatedStore: no files are named: name one or more");
  }

  std::filesystem::path path() const { return stores_.front().path(); }

  class Joined {
   public:
    std::string name() const { return parts_.front().name(); }
    const std::vector<index_t>& shape() const { return shape_; }
    const std::vector<std::string>& dimension_names() const { return parts_.front().dimension_names(); }
    std::uint64_t bytes_read() const {
      std::uint64_t bytes = 0;
      for (const AnyVariable& part : parts_) bytes += part.bytes_read();
      return bytes;
    }
    template <class T>
    void read(const std::vector<index_t>& begin, const std::vector<index_t>& extent, T* to) const {
      if (parts_.size() == 1) return parts_.front().read(begin, extent, to);
      index_t first = 0, row = 1;
      for (std::size_t d = 1; d < extent.size(); ++d) row *= extent[d];
      for (const AnyVariable& part : parts_) {
        const index_t last = first + part.shape()[0];
        const index_t from = std::max(first, begin[0]), end = std::min(last, begin[0] + extent[0]);
        if (from < end) {
          std::vector<index_t> of_part = begin, length = extent;
          of_part[0] = from - first;
          length[0] = end - from;
          part.read(of_part, length, to + (from - begin[0]) * row);
        }
        first = last;
      }
    }

   private:
    friend class ConcatenatedStore;
    std::vector<AnyVariable> parts_;
    std::vector<index_t> shape_;
  };

  /// Collective. CollectiveError: a file lacks it, or has another shape beside the first dimension.
  Joined variable(const Communicator& world, const std::string& name) const {
    Joined joined;
    for (const Store& store : stores_) {
      joined.parts_.emplace_back(store.variable(world, name));
      const std::vector<index_t>& shape = joined.parts_.back().shape();
      const std::vector<std::string>& names = joined.parts_.back().dimension_names();
      if (joined.parts_.size() == 1) {
        joined.shape_ = shape;
        if (names.empty() || names.front() != along_) return joined;
        continue;
      }
      agree(world, [&] {
        if (shape.size() != joined.shape_.size() ||
            !std::equal(shape.begin() + 1, shape.end(), joined.shape_.begin() + 1))
          throw Error("ConcatenatedStore: '" + name + "' of '" + store.path().string() + "' is " +
                      detail::text_of(shape) + ", but in '" + path().string() + "' " +
                      detail::text_of(joined.parts_.front().shape()) + ": they may differ along '" + along_ +
                      "' alone");
      });
      joined.shape_[0] += shape[0];
    }
    return joined;
  }

 private:
  std::vector<Store> stores_;
  std::string along_;
};

namespace detail {

/// std::runtime_error where a box reaches out of a variable.
inline void require_inside(const PointBox& box, const std::vector<index_t>& shape) {
  bool is_inside = box.begin.size() == shape.size() && box.extent.size() == shape.size();
  for (std::size_t d = 0; is_inside && d < shape.size(); ++d)
    is_inside = box.begin[d] >= 0 && box.extent[d] >= 0 && box.begin[d] + box.extent[d] <= shape[d];
  if (!is_inside)
    throw std::runtime_error("points " + text_of(box.begin) + " and " + text_of(box.extent) +
                             " from there on are asked for, but it is " + text_of(shape));
}

/// A box of a field in the points of a variable, whose first dimensions have the indices `at`, and whose others are the
/// field's last ones. Error where the shapes differ.
template <class Field, Variable V>
PointBox box_in(const V& variable, const Field& field, const std::vector<index_t>& at, const PointBox& own,
                const char* who) {
  const std::vector<index_t> shape = variable.shape();
  PointBox box{at, std::vector<index_t>(at.size(), 1)};
  std::vector<index_t> needed;
  const std::size_t others = shape.size() - std::min(shape.size(), at.size());
  bool fits = at.size() <= shape.size() && others <= static_cast<std::size_t>(Field::rank);
  for (int d = 0; d < Field::rank; ++d) {
    needed.push_back(field.extent(d));
    if (const int of_array = d - Field::rank + static_cast<int>(others); of_array < 0) {
      fits = fits && field.extent(d) == 1;
    } else {
      fits = fits && field.extent(d) == shape[at.size() + static_cast<std::size_t>(of_array)];
      box.begin.push_back(own.begin[static_cast<std::size_t>(d)]);
      box.extent.push_back(own.extent[static_cast<std::size_t>(d)]);
    }
  }
  if (!fits)
    throw Error(std::string(who) + ": '" + variable.name() + "' is " + text_of(shape) + ", " +
                std::to_string(at.size()) + " indices are given, but the field is " + text_of(needed));
  return box;
}

/// The chunks that a variable decodes as a whole, along the field's dimensions; empty where it has none.
template <Variable V, class Field>
std::vector<index_t> chunks_along(const V& variable, const Field&) {
  if constexpr (requires { variable.decoded_chunks(); }) {
    const std::vector<index_t> all = variable.decoded_chunks();
    if (all.empty()) return {};
    std::vector<index_t> chunk(static_cast<std::size_t>(Field::rank), 1);
    for (std::size_t d = 0; d < std::min(all.size(), chunk.size()); ++d)
      chunk[chunk.size() - 1 - d] = std::max<index_t>(1, all[all.size() - 1 - d]);
    return chunk;
  } else {
    return {};
  }
}

}  // namespace detail

/// Collective over the field's mesh: each rank reads its own piece; of chunks that are decoded as a whole and that
/// several ranks need, each is read by one, which sends the others their parts (shared_chunks.hpp). `at` are indices of
/// the variable's first dimensions; the others are the field's last ones, before which it has extents of 1. On the host
/// a piece in one block is read in place. Throws CollectiveError on all ranks: another shape, the field unchanged; what
/// cannot be read, the field's values then undefined.
template <Variable V, class Field>
void load_variable(const V& variable, Field& field, const std::vector<index_t>& at = {}) {
  static_assert(detail::is_whole<Field>,
                "load_variable_of_summands: load it as Replicate or Shard, then redistribute it");
  using T = typename Field::value_type;
  const Communicator& world = field.mesh("load_variable").world();
  const detail::PointBox own = detail::piece_box(field, field.mesh().rank());
  const detail::PointBox box = agree(world, [&] { return detail::box_in(variable, field, at, own, "load_variable"); });
  if (const std::vector<index_t> chunk = detail::chunks_along(variable, field); !chunk.empty() && world.size() > 1)
    if (const detail::SharedChunks shared(field, chunk); shared.any()) {
      const detail::PointBox& part = shared.own_read();
      const auto values = agree(world, [&] {
        std::vector<compute_type<T>> values(static_cast<std::size_t>(part.points()));
        const detail::PointBox of_part = detail::box_in(variable, field, at, part, "load_variable");
        if (!values.empty()) variable.read(of_part.begin, of_part.extent, values.data());
        return values;
      });
      const auto needed = shared.exchanged(world, values);
      const std::vector<T> stored(needed.begin(), needed.end());
      return field.copy_from_host(stored.data(), stored.size());
    }
  const auto local = field.to_local();
  const bool in_place = detail::host_in_place() && std::is_same_v<T, compute_type<T>> && local.span_is_contiguous();
  const auto piece = agree(world, [&]() -> std::vector<T> {
    if constexpr (runs_on_host && std::is_same_v<T, compute_type<T>>)
      if (in_place) {
        if (own.points() > 0) variable.read(box.begin, box.extent, local.data());
        return {};
      }
    std::vector<compute_type<T>> values(static_cast<std::size_t>(own.points()));
    if (!values.empty()) variable.read(box.begin, box.extent, values.data());
    return std::vector<T>(values.begin(), values.end());
  });
  if (!in_place) field.copy_from_host(piece.data(), piece.size());
}

/// A rank's piece with its surroundings, in the field's points, row-major. Empty where the rank holds none.
template <class T>
struct VariablePiece {
  std::vector<index_t> begin, extent;
  std::vector<T> values;
};

/// As load_variable, but to the host, with `halo[d]` points more on either side along each of the field's dimensions,
/// as far as the variable goes: what a stencil code fills its own ghost points with, without an exchange.
template <Variable V, class Field>
VariablePiece<compute_type<typename Field::value_type>> read_piece(const V& variable, const Field& field,
                                                                   const std::vector<index_t>& at,
                                                                   const std::vector<index_t>& halo) {
  static_assert(detail::is_whole<Field>,
                "load_variable_of_summands: load it as Replicate or Shard, then redistribute it");
  return agree(field.mesh("read_piece").world(), [&] {
    detail::PointBox own = detail::piece_box(field, field.mesh().rank());
    VariablePiece<compute_type<typename Field::value_type>> piece;
    if (halo.size() != static_cast<std::size_t>(Field::rank) ||
        std::ranges::any_of(halo, [](index_t h) { return h < 0; }))
      throw Error("read_piece: a halo of " + detail::text_of(halo) + " for a field of " + std::to_string(Field::rank) +
                  " dimensions: give one number of 0 or more for each");
    if (own.points() > 0)
      for (std::size_t d = 0; d < halo.size(); ++d) {
        const index_t end = std::min(own.begin[d] + own.extent[d] + halo[d], field.extent(static_cast<int>(d)));
        own.begin[d] = std::max<index_t>(0, own.begin[d] - halo[d]);
        own.extent[d] = end - own.begin[d];
      }
    const detail::PointBox box = detail::box_in(variable, field, at, own, "read_piece");
    piece.values.resize(static_cast<std::size_t>(own.points()));
    if (!piece.values.empty()) variable.read(box.begin, box.extent, piece.values.data());
    piece.begin = own.begin;
    piece.extent = own.extent;
    return piece;
  });
}

}  // namespace halogen
