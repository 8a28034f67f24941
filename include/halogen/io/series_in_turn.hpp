// How netCDF and HDF5 are written: a variable of one file, to which the ranks write one after the other.
#pragma once

#include "halogen/io/fields.hpp"
#include "halogen/io/hdf5_lock.hpp"
#include "halogen/io/library_variable.hpp"

namespace halogen::detail::types {

/// A variable whose first dimension is filled piece by piece. Format has what the library does, all under hdf5_mutex:
/// forget(path), make<T>(path, name, extents, options, is_series) by one rank and put(path, name, box, values) by one
/// rank at a time, where std::runtime_error tells of a fault; Options with `chunks` and `level`; `user`, the name of
/// the saving function.
template <class Field, class Format>
class SeriesInTurn {
  static_assert(is_whole<Field>, "save_of_summands: a Partial field is a sum that is still due: redistribute it first");
  using T = compute_type<typename Field::value_type>;

 public:
  using Options = typename Format::Options;

  SeriesInTurn(const std::filesystem::path& file, const std::string& name,
               const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
               Options options = {})
      : SeriesInTurn(file, name, mesh, extents, std::move(options), true) {}

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
    for (int turn = 0; turn < mesh_.size(); ++turn)
      agree(world, [&] {
        if (turn == mesh_.rank() && is_first_holder(field) && !values.empty())
          said([&] { Format::put(file_, name_, box, values); });
      });
  }

  /// Collective over the field's mesh: a variable of the field's extents, written whole.
  static void save(const std::filesystem::path& file, const std::string& name, const Field& field, Options options) {
    require_made(Format::user, field);
    typename Field::Extents extents;
    for (int d = 0; d < Field::rank; ++d) extents[static_cast<std::size_t>(d)] = field.extent(d);
    SeriesInTurn(file, name, field.mesh(), extents, std::move(options), false).write(0, field);
  }

 private:
  SeriesInTurn(const std::filesystem::path& file, const std::string& name,
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
    agree(mesh_.world(), [&] {
      if (mesh_.rank() == 0) said([&] { Format::template make<T>(file_, name_, extents_, options, is_series); });
    });
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
      refuse(error.what());
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
  }

  DeviceMesh<typename Field::mesh_type> mesh_;
  std::filesystem::path file_;
  std::string name_;
  std::vector<index_t> extents_;
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
