// How netCDF and HDF5 are written: a variable of one file, to which the ranks write at once where the library is built
// with MPI and the ranks talk over MPI, else one after the other.
//
// A chunk that is not in the file yet is what makes writing at once difficult: HDF5 adds chunks only by calls that all
// ranks make alike. In a file that is opened for all ranks it would add all chunks of a variable when it opens it, and
// fill them: of a series that is most of what will ever be written. So a series has one chunk from the beginning, which
// keeps HDF5 from that, and before a write the chunks that it touches are added (add_chunks).
#pragma once

#include <optional>

#include "halogen/comm/mpi/ranks_of.hpp"
#include "halogen/io/fields.hpp"
#include "halogen/io/libraries/hdf5_lock.hpp"
#include "halogen/io/libraries/library_variable.hpp"

namespace halogen::detail::types {

/// Error where an attribute of a variable of T is no text, no numbers, or says what it cannot be.
template <class T>
void require_attributes(const Json& attributes) {
  cf_numbers(attributes, stored_type<T>());
  for (const auto& item : attributes.items()) {
    const Json& value = item.value();
    const bool is_list = value.is_array() && std::ranges::all_of(value, [](const auto& v) { return v.is_number(); });
    if (marks_missing(item.key()))
      missing_as<T>(item.key(), value);
    else if (!value.is_string() && !value.is_number() && !is_list)
      throw std::runtime_error("its attribute '" + item.key() + "' is no text and no numbers: give one of them");
  }
}

/// What a writer says of a fault. A library does not know why a disk that is full refuses it: that is looked for here.
inline std::string words_of(const std::runtime_error& error, const std::filesystem::path& file) {
  if (dynamic_cast<const LibraryFault*>(&error) == nullptr) return words_of_fault(error, file);
  const std::string words = words_about_space(file.has_parent_path() ? file.parent_path() : ".");
  return words.empty() ? error.what() : words;
}

/// How a variable lies in its file.
struct StoredChunks {
  std::vector<index_t> extents;  ///< of a chunk; empty: it lies in one piece
  bool is_filtered = false;      ///< compressed, or changed in another way
};

/// A variable whose first dimension is filled piece by piece. Format has what the library does, all under hdf5_mutex,
/// where std::runtime_error tells of a fault:
///   - by one rank alone: forget(path); make<T>(path, name, extents, options, is_series), whether the variable is new;
///     put(path, name, box, values);
///   - where the library is built with MPI also chunks(path, name), touch<T>(path, name, points), which writes points
///     anew with their own values, and AtOnce<T>, made of (path, name, MPI_Comm), with touch(points), put(box, values),
///     close(), all collective;
///   - Options with `chunks`, `level` and `at_once`; `user`, the name of the saving function.
template <class Field, class Format>
class LibrarySeries {
  static_assert(is_whole<Field>, "save_of_summands: a Partial field is a sum that is still due: redistribute it first");
  using T = compute_type<typename Field::value_type>;

 public:
  using Options = typename Format::Options;

  LibrarySeries(const std::filesystem::path& file, const std::string& name,
                const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
                Options options = {})
      : LibrarySeries(file, name, mesh, extents, std::move(options), true) {}

  /// Writes field's points at `first` of the first dimension.
  void write(index_t first, const Field& field) const {
    const Communicator& world = mesh_.world();
    require_made("write", field);
    agree(world, [&] {
      const std::vector<index_t> extents = shape_in_file(field);
      if (!(field.mesh() == mesh_) || first < 0 || first + extents[0] > extents_[0] ||
          !std::equal(extents_.begin() + 1, extents_.end(), extents.begin() + 1))
        refuse("a field of " + text_of(extents) + " at " + std::to_string(first) + ", but the variable has " +
               text_of(extents_) + ": give a field of its extents and mesh");
      said([&] { Format::forget(file_); });
    });
    PointBox box = piece_box(field, mesh_.rank());
    box.begin[0] += first;
    const std::vector<T> values = [&] {
      auto stored = field.to_host_array();
      if constexpr (std::is_same_v<decltype(stored), std::vector<T>>)
        return stored;
      else
        return std::vector<T>(stored.begin(), stored.end());
    }();
    const bool writes = is_first_holder(field) && !values.empty();
    if (at_once()) {
      if (!writes) box.extent.assign(box.extent.size(), 0);
      PointBox whole{std::vector<index_t>(extents_.size(), 0), shape_in_file(field)};
      whole.begin[0] = first;
      return write_at_once(whole, box, values);
    }
    for (int turn = 0; turn < mesh_.size(); ++turn)
      agree(world, [&] {
        if (turn == mesh_.rank() && writes) said([&] { Format::put(file_, name_, box, values); });
      });
  }

  /// Whether all ranks write at once; else one after the other.
  bool at_once() const { return ranks_ != nullptr; }

  /// Collective over the field's mesh: a variable of the field's extents, written whole.
  static void save(const std::filesystem::path& file, const std::string& name, const Field& field, Options options) {
    require_made(Format::user, field);
    typename Field::Extents extents;
    for (int d = 0; d < Field::rank; ++d) extents[static_cast<std::size_t>(d)] = field.extent(d);
    const bool is_made = field.mesh().rank() == 0 && !MadeFile::has_bytes(file);
    try {
      LibrarySeries(file, name, field.mesh(), extents, std::move(options), false).write(0, field);
    } catch (...) {  // what is left of a file that is not whole would stop the next run
      std::error_code none;
      if (is_made && std::filesystem::is_regular_file(file, none)) std::filesystem::remove(file, none);
      throw;
    }
  }

 private:
  LibrarySeries(const std::filesystem::path& file, const std::string& name,
                const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
                Options options, bool is_series)
      : mesh_(mesh), file_(file), name_(name), extents_(extents.begin(), extents.end()) {
    if (options.chunks.empty() && (is_series || options.level > 0)) {
      typename Field::Extents part = extents;
      if (is_series) part[0] = 1;
      const Field piece(mesh, part);
      for (int d = 0; d < Field::rank; ++d)
        options.chunks.push_back(std::max<index_t>(1, std::min(piece.cut(d).piece(0).size(), piece.extent(d))));
    }
    agree(mesh_.world(), [&] {
      check(options);
      said([&] { Format::forget(file_); });
    });
    if (options.at_once) find_ranks();
    int is_new = 0;
    agree(mesh_.world(), [&] {
      if (mesh_.rank() != 0) return;
      said([&] { is_new = Format::template make<T>(file_, name_, extents_, options, is_series); });
    });
    if constexpr (has_at_once)
      if (at_once()) {
        mesh_.world().broadcast(&is_new, sizeof is_new, 0);
        adds_chunks_ = is_series || is_new == 0;
        const std::vector<index_t> corner(extents_.size(), 0);
        agree(mesh_.world(), [&] {
          if (mesh_.rank() == 0 && adds_chunks_ && std::ranges::find(extents_, 0) == extents_.end())
            said([&] { Format::template touch<T>(file_, name_, {corner}); });
        });
      }
  }

#ifdef HALOGEN_WITH_MPI
  using Ranks = MpiHandle;
#else
  struct Ranks {
    int comm() const;
  };
#endif
  using Points = std::vector<std::vector<index_t>>;
  static constexpr bool has_at_once = requires { typename Format::template AtOnce<T>; };

  void find_ranks() {
#ifdef HALOGEN_WITH_MPI
    if constexpr (has_at_once) ranks_ = mpi_ranks_of(mesh_.world());
#endif
  }

  /// Each rank its own box, which may be empty, of the box that all write. Where a rank fails all know it before they
  /// make the library's next call together.
  void write_at_once([[maybe_unused]] const PointBox& whole, [[maybe_unused]] const PointBox& own,
                     [[maybe_unused]] const std::vector<T>& values) const {
    if constexpr (has_at_once) {
      const Communicator& world = mesh_.world();
      const auto together = [&](auto f) { agree(world, [&] { said(f); }); };
      const Points alike = adds_chunks_ ? add_chunks(whole) : Points{};
      std::optional<typename Format::template AtOnce<T>> file;
      try {
        together([&] { file.emplace(file_, name_, ranks_->comm()); });
        if (!alike.empty()) together([&] { file->touch(alike); });
        together([&] { file->put(own, values); });
        together([&] { file->close(); });
      } catch (...) {
        const std::lock_guard lock(hdf5_mutex());
        file.reset();
        throw;
      }
    }
  }

  /// Sees to it that all chunks that the box touches are in the file. One rank adds those that have to be filled or
  /// compressed. Others take no more than a place in the file, since all of their points are written soon: a point of
  /// each, which is what this returns, all ranks have to write alike.
  Points add_chunks(const PointBox& whole) const {
    const Communicator& world = mesh_.world();
    std::vector<index_t> found(extents_.size() + 1, 0);  // the extents of a chunk, and whether it is filtered
    agree(world, [&] {
      if (mesh_.rank() != 0) return;
      said([&] {
        const StoredChunks chunks = Format::chunks(file_, name_);
        std::ranges::copy(chunks.extents, found.begin());
        found.back() = chunks.is_filtered;
      });
    });
    world.broadcast(found.data(), found.size() * sizeof(index_t), 0);
    if (found.front() == 0) return {};  // in one piece
    const bool is_filtered = found.back() != 0;
    found.pop_back();
    Points points;
    for_each_chunk(whole, found, [&](const std::vector<index_t>& at) {
      points.push_back(common(chunk_box(at, found), whole).begin);
    });
    const index_t end = whole.begin[0] + whole.extent[0];
    const bool is_covered = whole.begin[0] % found[0] == 0 && (end % found[0] == 0 || end == extents_[0]);
    if (!is_filtered && is_covered) return points;
    agree(world, [&] {
      if (mesh_.rank() == 0) said([&] { Format::template touch<T>(file_, name_, points); });
    });
    return {};
  }

  [[noreturn]] void refuse(const std::string& what) const {
    throw Error("cannot write '" + name_ + "' of '" + file_.string() + "': " + what);
  }
  template <class F>
  void said(F f) const {
    try {
      const std::lock_guard lock(hdf5_mutex());
      f();
    } catch (const std::runtime_error& error) {
      refuse(words_of(error, file_));
    }
  }

  void check(const Options& options) const {
    const auto rank = static_cast<std::size_t>(Field::rank);
    bool fits = options.chunks.empty() || options.chunks.size() == rank;
    if constexpr (requires { options.dimension_names; })
      fits = fits && (options.dimension_names.empty() || options.dimension_names.size() == rank);
    if (!fits) refuse("give as many chunks and names as the field has dimensions, " + std::to_string(rank));
    if (std::ranges::any_of(options.chunks, [](index_t c) { return c < 1; }) || options.level < 0 || options.level > 9)
      refuse("chunks of " + text_of(options.chunks) + " points, level " + std::to_string(options.level) +
             ": give chunks of 1 or more and a level from 0 to 9");
    said([&] { require_attributes<T>(options.attributes); });
  }

  DeviceMesh<typename Field::mesh_type> mesh_;
  std::filesystem::path file_;
  std::string name_;
  std::vector<index_t> extents_;
  std::shared_ptr<const Ranks> ranks_;  ///< those that write at once; else null
  bool adds_chunks_ = false;            ///< whether chunks of it may be missing when it is written
};

/// The library's chunks for extents: none larger than the variable, none empty.
template <class Length>
std::vector<Length> chunks_within(const std::vector<index_t>& chunks, const std::vector<index_t>& extents) {
  std::vector<Length> within;
  for (std::size_t d = 0; d < chunks.size(); ++d)
    within.push_back(static_cast<Length>(std::min(chunks[d], std::max<index_t>(1, extents[d]))));
  return within;
}

/// What is there already with other extents or of another type.
inline void require_same_variable(bool is_same, const std::vector<index_t>& there, const std::vector<index_t>& wanted) {
  if (!is_same)
    throw std::runtime_error("it is there with " + text_of(there) + " points, not " + text_of(wanted) +
                             ", or of another type, and cannot be removed: give another name, or remove the file");
}

}  // namespace halogen::detail::types
