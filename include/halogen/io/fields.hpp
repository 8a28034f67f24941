// Fields to and from a safetensors file, each rank its own piece: nobody ever holds a whole field. Opt-in: needs
// nlohmann-json, and a file system that all ranks see.
#pragma once

#include <optional>
#include <tuple>
#include <utility>

#include "halogen/io/placed_file.hpp"
#include "halogen/io/safetensors.hpp"
#include "halogen/tensor/distribute.hpp"

namespace halogen {

/// A field and its name in a file: NamedField{"sst", u}.
template <class Field>
struct NamedField {
  std::string name;
  Field field;
};
template <class Field>
NamedField(std::string, Field) -> NamedField<Field>;

namespace detail {

/// Whether this rank is the one of those that hold its piece which writes it.
template <class Field>
bool is_first_holder(const Field& field) {
  for (int d = 0; d < Field::mesh_type::rank; ++d)
    if (Field::placements[static_cast<std::size_t>(d)] == replicate_code && field.mesh().coordinate(d) != 0)
      return false;
  return true;
}

template <class Field>
std::vector<std::int64_t> shape_in_file(const Field& field) {
  std::vector<std::int64_t> shape;
  for (int d = 0; d < Field::rank; ++d) shape.push_back(field.extent(d));
  return shape;
}

template <class Field>
void write_piece(const PlacedFile& file, std::uint64_t begin, const Field& field) {
  constexpr std::uint64_t width = sizeof(typename Field::value_type);
  if (!is_first_holder(field)) return;
  const auto piece = field.to_host_array();
  std::size_t at = 0;
  for_each_run(field, field.mesh().rank(), [&](index_t first, index_t count) {
    file.write(&piece[at], static_cast<std::uint64_t>(count) * width,
               begin + static_cast<std::uint64_t>(first) * width);
    at += static_cast<std::size_t>(count);
  });
}

template <class MeshHandle>
void refuse_dry_mesh(const MeshHandle& mesh, const std::string& call) {
  if (mesh.is_dry()) throw Error(call + ": the ranks of a dry mesh are not there to write or read their pieces");
}

/// The place of a tensor whose dtype is T's and whose shape fits: has those extents but for some of 1, or where they
/// are not given so many dimensions.
template <class T>
TensorPlace place_of(const std::filesystem::path& path, const std::string& name, std::size_t dimensions,
                     const std::vector<std::int64_t>* extents = nullptr) {
  for (const TensorPlace& place : read_safetensors_header(path)) {
    if (place.tensor.name != name) continue;
    if (place.tensor.dtype == dtype_name<T>() && (extents == nullptr ? place.tensor.shape.size() == dimensions
                                                                     : same_but_for_ones(place.tensor.shape, *extents)))
      return place;
    throw std::runtime_error(
        "'" + path.string() + "': tensor '" + name + "' is " + place.tensor.dtype + " " + text_of(place.tensor.shape) +
        ", but the field is " + dtype_name<T>() + " " +
        (extents == nullptr ? "of " + std::to_string(dimensions) + " dimensions" : text_of(*extents)) +
        ": load it into a field of its type and extents" +
        (place.tensor.dtype == dtype_name<T>() ? "" : ", and cast that"));
  }
  throw std::runtime_error("'" + path.string() + "': there is no tensor '" + name + "'");
}

}  // namespace detail

/// Collective over the ranks of the fields' meshes, which number the same ranks alike. Writes one file that
/// write_safetensors might have written: each rank its own pieces where they belong (of copies the first rank's),
/// through a copy of the piece in host memory; no field is gathered. The bytes go to `path` + ".partial", are
/// synchronised and renamed (behind symbolic links): a write that ends early leaves an older file as it was. Pieces
/// that are cut along the last dimensions are written row by row; cut along the first, at once. Throws CollectiveError
/// on all ranks with one sentence: a name twice or reserved, a file that some rank cannot open or write. A Partial
/// field does not compile: redistribute it first.
///
///   hg::save_fields("state.safetensors", hg::NamedField{"u", u}, hg::NamedField{"v", v});
template <class... Fields>
  requires(sizeof...(Fields) > 0 && !(detail::Unstored<Fields> || ...))
void save_fields(const std::filesystem::path& path, const NamedField<Fields>&... named) {
  static_assert((detail::is_whole<Fields> && ...),
                "save_fields_of_summands: a Partial field is a sum that is still due: redistribute it first");
  const auto& mesh = std::get<0>(std::tie(named...)).field.mesh("save_fields");
  detail::refuse_dry_mesh(mesh, "save_fields");
  (detail::require_same_ranks(mesh, named.field.mesh("save_fields"), "save_fields"), ...);
  (named.field.shape()->agree(), ...);
  const Communicator& world = mesh.world();
  const auto on_all = [&](auto f) {
    return agree(world, [&]() -> decltype(f()) {
      try {
        return f();
      } catch (const std::exception& error) {
        throw Error("cannot write '" + path.string() + "': " + detail::words_of_fault(error, path));
      }
    });
  };
  const detail::SafetensorsLayout layout = on_all([&] {
    std::vector<NamedTensor> tensors;
    std::vector<std::uint64_t> bytes;
    const auto describe = [&]<class Field>(const NamedField<Field>& one) {
      using T = typename Field::value_type;
      tensors.push_back({one.name, detail::dtype_name<T>(), detail::shape_in_file(one.field), {}});
      std::uint64_t size = sizeof(T);
      for (const std::int64_t extent : tensors.back().shape) size *= static_cast<std::uint64_t>(extent);
      bytes.push_back(size);
    };
    (describe(named), ...);
    return detail::safetensors_layout(tensors, bytes);
  });
  std::optional<detail::Replacement> replacement;  // rank 0's; removed where the write ends early
  on_all([&] {
    if (world.rank() != 0) return;
    replacement.emplace(path);
    replacement->file().write(layout.header.data(), layout.header.size(), 0);
    replacement->file().resize(layout.end);
  });
  on_all([&] {
    const detail::PlacedFile file(detail::partial_of(detail::target_of(path)), O_WRONLY);
    std::size_t i = 0;
    (detail::write_piece(file, layout.begin[i++], named.field), ...);
    file.synchronise();
  });
  on_all([&] {
    if (replacement) replacement->take_name();
  });
}

template <class... Fields, class Why = why::expression_is_no_field>
  requires(detail::Unstored<Fields> || ...)
void save_fields(const std::filesystem::path& path,  // write Field v = u + 1; and NamedField{"v", v}
                 const NamedField<Fields>&... named) = delete;

/// Collective over the field's mesh: each rank reads its own piece of that tensor, however the file was written and the
/// field is cut; their shapes may differ by extents of 1. Throws CollectiveError on all ranks with one sentence, the
/// field unchanged: no such file or tensor, another dtype or shape.
template <class Field>
void load_field(const std::filesystem::path& path, const std::string& name, Field& field) {
  static_assert(detail::is_whole<Field>, "load_field_of_summands: load it as Replicate or Shard, then redistribute it");
  detail::refuse_dry_mesh(field.mesh("load_field"), "load_field");
  using T = typename Field::value_type;
  const auto piece = agree(field.mesh().world(), [&] {
    const std::vector<std::int64_t> extents = detail::shape_in_file(field);
    const TensorPlace place = detail::place_of<T>(path, name, Field::rank, &extents);
    const detail::PlacedFile file(path, O_RDONLY);
    std::size_t points = 1, at = 0;
    for (int d = 0; d < Field::rank; ++d) points *= static_cast<std::size_t>(field.local_extent(d));
    detail::HostArray<T> values(points);
    detail::for_each_run(field, field.mesh().rank(), [&](index_t first, index_t count) {
      file.read(&values[at], static_cast<std::uint64_t>(count) * sizeof(T),
                place.begin + static_cast<std::uint64_t>(first) * sizeof(T));
      at += static_cast<std::size_t>(count);
    });
    detail::make_values<T>(values);
    return values;
  });
  field.copy_from_host(piece.data(), piece.size());
}

/// The same into a new field of the file's extents, cut as torch.chunk cuts:
///   auto u = hg::load_field<Field>("state.safetensors", "u", mesh);
template <class Field>
Field load_field(const std::filesystem::path& path, const std::string& name,
                 const DeviceMesh<typename Field::mesh_type>& mesh) {
  detail::refuse_dry_mesh(mesh, "load_field");
  const auto shape = agree(
      mesh.world(), [&] { return detail::place_of<typename Field::value_type>(path, name, Field::rank).tensor.shape; });
  typename Field::Extents extents;
  std::copy(shape.begin(), shape.end(), extents.begin());
  Field field(mesh, extents);
  load_field(path, name, field);
  return field;
}

}  // namespace halogen
