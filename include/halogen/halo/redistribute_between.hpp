// redistribute_between: from a field on some of the ranks to a field on others, fewer or more.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "halogen/comm/mesh_extents.hpp"
#include "halogen/halo/redistribute.hpp"

namespace halogen {
namespace detail {

/// What a rank says of its field: mesh rank (-1 without a field), mesh extents, and a number made of the cuts.
template <class Field>
using FieldRecord = std::array<std::int64_t, Field::mesh_type::rank + 2>;

template <class Field>
FieldRecord<Field> record_of(const Field& field) {
  FieldRecord<Field> record{-1};
  if (field.empty()) return record;
  record[0] = field.mesh().rank();
  for (int i = 0; i < Field::mesh_type::rank; ++i) record[static_cast<std::size_t>(i) + 1] = field.mesh().extent(i);
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const Cut& cut : field.cuts())
    for (const index_t bound : cut.bounds) hash = (hash ^ static_cast<std::uint64_t>(bound)) * 1099511628211u;
  record.back() = static_cast<std::int64_t>(hash >> 1);
  return record;
}

/// Collective: the pieces of a field that some ranks hold, on all ranks of `world`; the others pass an empty field. One
/// all_gather of who and where, one broadcast of the cuts. Throws CollectiveError where the holders are not just the
/// ranks of one mesh. `name` names the field in the sentence.
template <class Field>
FieldPieces<Field::rank> shared_pieces(const Communicator& world, const Field& field, const std::string& name) {
  using Record = FieldRecord<Field>;
  std::vector<Record> records(static_cast<std::size_t>(world.size()));
  const Record own = record_of(field);
  world.all_gather(&own, sizeof own, records.data());

  const Record* first = nullptr;
  int holders = 0, root = 0;
  for (int rank = world.size(); rank-- > 0;)
    if (const Record& record = records[static_cast<std::size_t>(rank)]; record[0] >= 0)
      first = &record, root = rank, ++holders;
  const std::string sentence = "redistribute_between on " + std::to_string(world.size()) + " ranks: ";
  if (first == nullptr)
    throw CollectiveError(sentence + "no rank has a " + name + ": give it on the ranks of its mesh");
  std::array<int, Field::mesh_type::rank> extents;
  for (std::size_t i = 0; i < extents.size(); ++i) extents[i] = static_cast<int>((*first)[i + 1]);
  std::vector<int> ranks(static_cast<std::size_t>(holders), -1);
  bool alike = true;
  for (int rank = 0; rank < world.size(); ++rank) {
    const Record& record = records[static_cast<std::size_t>(rank)];
    if (record[0] < 0) continue;
    alike = alike && record[0] < holders && ranks[static_cast<std::size_t>(record[0])] < 0 &&
            std::equal(record.begin() + 1, record.end(), first->begin() + 1);
    if (alike) ranks[static_cast<std::size_t>(record[0])] = rank;
  }
  int size = 1;
  for (const int extent : extents) size *= extent;
  if (!alike || size != holders)
    throw CollectiveError(sentence + std::to_string(holders) + " have a " + name + ", that of rank " +
                          std::to_string(root) + " on mesh " + mesh_text(extents, Field::mesh_type::names) + " of " +
                          std::to_string(size) + ": give one field, cut alike, on the ranks of its mesh and no other");

  const Decomposition pieces(extents, Field::placements, Field::mesh_type::names);
  std::array<Cut, Field::rank> cuts;
  std::vector<index_t> bounds;
  for (int d = 0; d < Field::rank; ++d) {
    auto& of_cut = cuts[static_cast<std::size_t>(d)].bounds;
    of_cut.resize(static_cast<std::size_t>(pieces.parts(d)) + 1);
    if (!field.empty()) of_cut = field.cut(d).bounds;
    bounds.insert(bounds.end(), of_cut.begin(), of_cut.end());
  }
  world.broadcast(bounds.data(), bounds.size() * sizeof(index_t), root);
  auto next = bounds.begin();
  for (Cut& cut : cuts)
    for (index_t& bound : cut.bounds) bound = *next++;
  return {extents, Field::placements, Field::mesh_type::names, cuts, ranks};
}

}  // namespace detail

/// Collective over `world`, whose ranks hold the source, the target, both or neither: a rank outside a mesh passes an
/// empty (default-made) field. Meshes are made over communicators of any ranks of `world`. Each rank receives what it
/// lacks, as in redistribute. The handle is kept and used as any other, with empty fields where there are none.
/// Throws CollectiveError on all ranks alike for other extents, or where the holders are not the ranks of one mesh.
///
///   const auto some = world.split(world.rank() < 4 ? 0 : -1, world.rank(), "coarse");
///   Rows coarse;
///   if (some) coarse = Rows(device_mesh<Line>(some, {4}), extents);
///   auto move = redistribution_between(world, fine, coarse);
template <class Target, class Source>
  requires detail::Redistributable<Target, Source>
Redistribution<Target, Source> redistribution_between(const Communicator& world, const Source& from, const Target& to) {
  const FieldPieces<Source::rank> source = detail::shared_pieces(world, from, "source");
  const FieldPieces<Source::rank> target = detail::shared_pieces(world, to, "target");
  return Redistribution<Target, Source>(world, from, source, target);
}

/// The same, once: the field's values written into `target`.
template <class Target, class Source>
  requires detail::Redistributable<Target, Source>
Target redistribute_between(const Communicator& world, const Source& field, const Target& target) {
  redistribution_between(world, field, target).move(field, target);
  return target;
}

}  // namespace halogen
