// Between one host array of the whole field and its pieces: distribute_tensor, from_local, full_tensor.
#pragma once

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <string>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/core/why.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen {
namespace detail {

/// Calls f(global row-major index of the first, how many) for each run of points of `rank`'s piece that also lie one
/// behind the other in the whole field, in the piece's row-major order.
template <class Field, class F>
void for_each_run(const Field& field, int rank, F f) {
  static_assert(Field::rank > 0);
  const Decomposition pieces = field.decomposition();
  std::array<Interval, Field::rank> box;
  for (int d = 0; d < Field::rank; ++d) {
    box[d] = field.cut(d).piece(pieces.part(rank, d));
    if (box[d].empty()) return;
  }
  int along = Field::rank - 1;  // dimensions behind it are whole
  index_t run = box[along].size();
  while (along > 0 && box[along].size() == field.extent(along)) run *= box[--along].size();
  std::array<index_t, Field::rank> at;
  for (int d = 0; d < Field::rank; ++d) at[d] = box[d].begin;
  for (;;) {
    index_t index = 0;
    for (int d = 0; d < Field::rank; ++d) index = index * field.extent(d) + at[d];
    f(index, run);
    int d = along - 1;
    while (d >= 0 && ++at[d] == box[d].end) at[d] = box[d].begin, --d;
    if (d < 0) return;
  }
}

/// Calls f(global row-major index) for each point of `rank`'s piece, in the piece's row-major order.
template <class Field, class F>
void for_each_point(const Field& field, int rank, F f) {
  for_each_run(field, rank, [&](index_t first, index_t count) {
    for (index_t i = first; i < first + count; ++i) f(i);
  });
}

template <class Field>
inline constexpr bool is_whole = first_partial<Field>() < 0;

template <class Field>
std::vector<std::size_t> piece_bytes(const Field& field) {
  const Decomposition pieces = field.decomposition();
  std::vector<std::size_t> bytes(static_cast<std::size_t>(field.mesh().size()), sizeof(typename Field::value_type));
  for (std::size_t r = 0; r < bytes.size(); ++r)
    for (int d = 0; d < Field::rank; ++d)
      bytes[r] *= static_cast<std::size_t>(field.cut(d).piece(pieces.part(static_cast<int>(r), d)).size());
  return bytes;
}

/// Of all ranks' pieces, copies counted as often as they are held.
template <class Field>
std::size_t points_of_all(const Field& field) {
  const std::vector<std::size_t> bytes = piece_bytes(field);
  return std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}) / sizeof(typename Field::value_type);
}

}  // namespace detail

struct DistributeOptions {
  int source_rank = 0;  ///< the rank whose values count
};

/// A field from this rank's own piece, row-major; no communication. Extents are global.
template <class Field>
Field from_local(const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
                 const std::vector<typename Field::value_type>& piece) {
  Field field(mesh, extents);
  field.copy_from_host(piece);
  return field;
}

/// Sizes of the pieces, per dimension; empty for a dimension that is cut as torch.chunk.
template <class Field>
using PieceSizes = std::array<std::vector<index_t>, static_cast<std::size_t>(Field::rank)>;

/// Zeros of the given global extents, cut into pieces of explicit sizes. No communication. Throws CollectiveError where
/// sizes are negative, do not add up to the extent, or are not as many as the mesh has pieces.
template <class Field>
Field with_sizes(const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
                 const PieceSizes<Field>& sizes) {
  const Decomposition pieces(mesh.extents(), Field::placements, Field::mesh_type::names);
  std::array<Cut, Field::rank> cuts;
  for (std::size_t d = 0; d < cuts.size(); ++d) {
    if (sizes[d].empty()) {
      cuts[d] = Cut::chunk(extents[d], pieces.parts(static_cast<int>(d)));
      continue;
    }
    for (const index_t size : sizes[d])
      if (size < 0)
        throw CollectiveError("a piece of dimension " + std::to_string(d) + " has size " + std::to_string(size) +
                              ": give 0 or more");
    cuts[d] = Cut::of_sizes(sizes[d]);
    if (cuts[d].extent() != extents[d])
      throw CollectiveError("explicit sizes of dimension " + std::to_string(d) + " add up to " +
                            std::to_string(cuts[d].extent()) + ", but the field has " + std::to_string(extents[d]) +
                            " points: make them agree");
  }
  return Field(mesh, cuts);
}

/// A field whose extents and cuts follow from what each rank holds, as ShardTensor.from_local(sharding_shapes="infer").
/// `piece` is row-major, of `local_shape`. Collective: one all_gather of the shapes. Throws CollectiveError where ranks
/// that hold the same piece of a dimension differ in its size.
template <class Field>
Field from_local_inferred(const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& local_shape,
                          const std::vector<typename Field::value_type>& piece) {
  const Decomposition pieces(mesh.extents(), Field::placements, Field::mesh_type::names);
  std::vector<typename Field::Extents> shapes(static_cast<std::size_t>(mesh.size()));
  mesh.world().all_gather(&local_shape, sizeof local_shape, shapes.data());
  std::array<Cut, Field::rank> cuts;
  for (int d = 0; d < Field::rank; ++d) {
    std::vector<index_t> sizes(static_cast<std::size_t>(pieces.parts(d)), -1);
    for (int r = 0; r < mesh.size(); ++r) {
      const index_t size = shapes[static_cast<std::size_t>(r)][static_cast<std::size_t>(d)];
      index_t& known = sizes[static_cast<std::size_t>(pieces.part(r, d))];
      if (known >= 0 && known != size)
        throw CollectiveError("ranks that hold the same piece of dimension " + std::to_string(d) + " have " +
                              std::to_string(known) + " and " + std::to_string(size) +
                              " points of it: give them pieces of one size");
      known = size;
    }
    cuts[static_cast<std::size_t>(d)] = Cut::of_sizes(sizes);
  }
  Field field(Field::make_shape(mesh, cuts));  // from what all ranks said
  agree(mesh.world(), [&] { field.copy_from_host(piece); });
  return field;
}

/// Collective: throws CollectiveError on all ranks where a value is NaN or infinite, naming the field and one point.
template <class Field>
  requires(!detail::Unstored<Field>)
void require_finite(const Field& field, const std::string& name) {
  field.shape("require_finite")->agree();
  agree(field.mesh().world(), [&] {
    const auto values = field.to_host();
    std::size_t i = 0;
    detail::for_each_point(field, field.mesh().rank(), [&](index_t global) {
      const double value = static_cast<double>(values[i++]);
      if (std::isfinite(value)) return;
      std::string at;
      for (int d = Field::rank - 1; d >= 0; --d) {
        at = std::to_string(global % field.extent(d)) + (at.empty() ? "" : ", ") + at;
        global /= field.extent(d);
      }
      throw Error(name + " is " + detail::number_text(value) + " at (" + at + "): check the data or the time step");
    });
  });
}

/// Collective: cuts the whole field, row-major on the source rank (empty elsewhere), into pieces. One scatter_v.
template <class Field>
Field distribute_tensor(const DeviceMesh<typename Field::mesh_type>& mesh, const typename Field::Extents& extents,
                        const std::vector<typename Field::value_type>& values, DistributeOptions options = {}) {
  static_assert(detail::is_whole<Field>,
                "distribute_tensor_of_summands: distribute the values as Replicate or Shard, then redistribute them");
  using T = typename Field::value_type;
  Field field(mesh, extents);
  field.shape()->agree();
  const index_t count = std::accumulate(extents.begin(), extents.end(), index_t{1}, std::multiplies<>());
  if (options.source_rank < 0 || options.source_rank >= mesh.size())
    throw CollectiveError("distribute_tensor from rank " + std::to_string(options.source_rank) + " of " +
                          std::to_string(mesh.size()) + ": give one of the mesh's ranks");
  agree(mesh.world(), [&] {
    if (mesh.rank() == options.source_rank && static_cast<index_t>(values.size()) != count)
      throw Error("distribute_tensor needs " + std::to_string(count) + " values on rank " +
                  std::to_string(options.source_rank) + ", but has " + std::to_string(values.size()));
  });
  std::size_t at = 0;
  detail::HostArray<T> ordered(mesh.rank() == options.source_rank ? detail::points_of_all(field) : 0);
  if (mesh.rank() == options.source_rank)
    for (int r = 0; r < mesh.size(); ++r)
      detail::for_each_point(field, r, [&](index_t i) { ordered[at++] = values[static_cast<std::size_t>(i)]; });
  const std::vector<std::size_t> bytes = detail::piece_bytes(field);
  detail::HostArray<T> piece(bytes[static_cast<std::size_t>(mesh.rank())] / sizeof(T));
  mesh.world().scatter_v(ordered.data(), bytes, piece.data(), piece.size() * sizeof(T), options.source_rank);
  field.copy_from_host(piece.data(), piece.size());
  return field;
}

template <detail::Unstored E, class Why = why::expression_is_no_field>
void require_finite(const E& expression,  // write Field v = u + 1; require_finite(v, "v")
                    const std::string& name) = delete;

/// Collective: the whole field on every rank, row-major. One all_gather_v; for small fields and tests (large ones go to
/// a file piece by piece: io/fields.hpp).
template <class Field>
  requires(!detail::Unstored<Field>)
std::vector<typename Field::value_type> full_tensor(const Field& field) {
  static_assert(detail::is_whole<Field>,
                "full_tensor_of_summands: a Partial field is a sum that is still due: redistribute it first");
  using T = typename Field::value_type;
  field.shape("full_tensor")->agree();
  const Communicator& world = field.mesh().world();
  const detail::HostArray<T> piece = field.to_host_array();
  const std::vector<std::size_t> bytes = detail::piece_bytes(field);
  detail::HostArray<T> gathered(detail::points_of_all(field));
  world.all_gather_v(piece.data(), piece.size() * sizeof(T), gathered.data(), bytes);
  index_t count = 1;
  for (int d = 0; d < Field::rank; ++d) count *= field.extent(d);
  std::vector<T> full(static_cast<std::size_t>(count));
  std::size_t at = 0;
  for (int r = 0; r < field.mesh().size(); ++r)
    detail::for_each_point(field, r, [&](index_t i) { full[static_cast<std::size_t>(i)] = gathered[at++]; });
  return full;
}

template <detail::Unstored E, class Why = why::expression_is_no_field>
void full_tensor(const E& expression) = delete;  // write Field v = u + 1; full_tensor(v)

}  // namespace halogen
