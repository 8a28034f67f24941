// redistribute: a field placed otherwise. Each rank receives exactly the points it lacks, one message per rank that has
// some; summands are added up first, with as few bytes as the target needs.
//
//   from \ to      Replicate           Shard<b>                      Partial
//   Replicate      nothing             nothing: each keeps its part  nothing: coordinate 0 keeps it, zeros elsewhere
//   Shard<a>       all pieces to all   the intersections of pieces   nothing: each keeps its piece, zeros elsewhere
//   Partial        one all_reduce      one reduce_scatter            nothing: summands stay
//
// The table is per mesh dimension; tuples compose: first the sums (reduce_scatter, then all_reduce of its pieces, then
// only of points that somebody takes), then one exchange. Several mesh dimensions may cut one tensor dimension, cuts
// may be uneven. Where several ranks hold a point (Replicate), it comes from the one that shares the receiver's
// coordinate there, so replicas serve disjoint receivers. The target may lie on a mesh of another shape, or of fewer or
// more ranks (halo/redistribute_between.hpp); summands are then made on coordinate 0. Any value type is moved; summands
// are Partial<Sum> of float, double, int, int64 or uint64, others do not compile (why::partial_is_a_sum).
#pragma once

#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "halogen/comm/agree.hpp"
#include "halogen/core/why.hpp"
#include "halogen/halo/field_halo.hpp"
#include "halogen/halo/prepared_by_mesh.hpp"
#include "halogen/halo/prepared_redistribution.hpp"

namespace halogen {
namespace detail {

/// Whether the field's summands are of a kind that transports add.
template <class Field>
inline constexpr bool adds = false;
template <class TensorType, class MeshType, class... Placements>
inline constexpr bool adds<Sharded<TensorType, MeshType, Placements...>> =
    ((placement_code<Placements> != partial_code ||
      (std::is_same_v<Placements, Partial<Sum>> && Reducible<typename TensorType::value_type>)) &&
     ...);

template <class Target, class Source>
concept Redistributable =
    is_sharded<Target> && is_sharded<Source> && Target::rank == Source::rank &&
    std::is_same_v<typename Target::value_type, typename Source::value_type> && adds<Target> && adds<Source>;

/// Whether points may move between ranks: not where each rank has what its piece of the target is made of.
template <class Source, class Target>
constexpr bool may_move() {
  if constexpr (Source::placements.size() != Target::placements.size()) return true;
  for (std::size_t i = 0; i < Source::placements.size(); ++i) {
    const int from = Source::placements[i], to = Target::placements[i % Target::placements.size()];
    if (from != replicate_code && to != partial_code) return true;
  }
  return false;
}

/// Collective: ranks that are about to move points compare the fields that they were given.
template <class Source, class Target>
void agree_on_fields(const Source& from, const Target& to, const char* user) {
  const auto& source = *from.shape(user);
  const auto& target = *to.shape(user);
  if constexpr (may_move<Source, Target>()) source.agree(), target.agree();
}

template <class Field>
using PreparedFor = PreparedRedistribution<typename Field::value_type, Field::rank>;

/// Collective over the source's mesh. Throws CollectiveError where extents differ, or the meshes have other ranks.
template <class Source, class Target>
PreparedFor<Source> prepare_redistribution(const Source& from, const Target& to, const char* user) {
  agree_on_fields(from, to, user);
  if (from.mesh(user).size() != to.mesh(user).size())
    throw CollectiveError("redistribute from " + std::to_string(from.mesh().size()) + " to " +
                          std::to_string(to.mesh().size()) +
                          " ranks: both meshes must have the same ranks, or use redistribute_between");
  require_same_ranks(from.mesh(), to.mesh(), "redistribute");
  return prepare_redistribution<typename Source::value_type, Source::rank>(from.mesh().world(), pieces_of(from),
                                                                           pieces_of(to), from.mesh().communicators());
}

}  // namespace detail

/// A prepared move from fields like one to fields like another; used again and again it allocates nothing. start()
/// packs and posts, finish() waits and unpacks; `from` may be written again after start, `to` is valid after finish.
/// Between them other collectives of the same ranks may run, if on all alike. move() is both at once.
template <class Target, class Source>
  requires detail::Redistributable<Target, Source>
class Redistribution {
 public:
  /// Collective over the source's mesh. Throws CollectiveError where extents differ, or the meshes have other ranks.
  Redistribution(const Source& from, const Target& to)
      : prepared_(detail::prepare_redistribution(from, to, "Redistribution")) {}

  /// Collective over `world`, between fields on meshes of some of its ranks (halo/redistribute_between.hpp).
  Redistribution(const Communicator& world, const Source& from, const FieldPieces<Source::rank>& source,
                 const FieldPieces<Source::rank>& target)
      : prepared_(detail::prepare_redistribution<typename Source::value_type, Source::rank>(
            world, source, target, from.empty() ? std::span<const Communicator>() : from.mesh().communicators())),
        has_source_(!from.empty()),
        has_target_(target.mesh_rank_of(world.rank()) >= 0) {}

  void start(const Source& from) { prepared_.start(view(from, has_source_)); }
  /// Makes the transport move; true once what start() posted has arrived.
  bool test() { return prepared_.test(); }
  void finish(const Target& to) { prepared_.finish(view(to, has_target_)); }
  void move(const Source& from, const Target& to) { prepared_.move(view(from, has_source_), view(to, has_target_)); }

 private:
  /// Of nothing on a rank that has none.
  template <class Field>
  static StridedView<typename Source::value_type, Source::rank> view(const Field& field, bool has_one) {
    if (field.empty() && has_one) detail::refuse_unmade("Redistribution");
    if (field.empty()) return {};
    return detail::strided_view(field);
  }

  detail::PreparedFor<Source> prepared_;
  bool has_source_ = true, has_target_ = true;
};

/// The field's values written into `target`, which says mesh and cuts. Prepared once for fields of these shapes.
template <class Target, class Source>
  requires detail::Redistributable<Target, Source>
Target redistribute_to(const Source& field, const Target& target) {
  using Prepared = detail::PreparedFor<Source>;
  detail::agree_on_fields(field, target, "redistribute_to");
  field.mesh()
      .template prepared<detail::PreparedByMesh<detail::BetweenKey<Source::rank>, Prepared>>()
      .get(detail::between(field, target, "redistribute_to"),
           [&] { return std::make_unique<Prepared>(detail::prepare_redistribution(field, target, "redistribute_to")); })
      .move(detail::strided_view(field), detail::strided_view(target));
  return target;
}

/// The field's values placed as Target, on the same mesh, cut as torch.chunk. Collective; placements as the table
/// above.
template <class Target, class Source>
  requires detail::Redistributable<Target, Source>
Target redistribute(const Source& field) {
  const Decomposition pieces(field.mesh("redistribute").extents(), Target::placements, Target::mesh_type::names);
  std::array<Cut, Target::rank> cuts;
  for (int d = 0; d < Target::rank; ++d)
    cuts[static_cast<std::size_t>(d)] = Cut::chunk(field.extent(d), pieces.parts(d));
  return redistribute_to(field, Target(Target::make_shape(field.mesh(), cuts)));
}

template <class Target, class Source,
          class Why = why::partial_is_a_sum<detail::first_partial<Source>(), detail::first_partial<Target>()>>
  requires(is_sharded<Target> && is_sharded<Source> && !detail::Redistributable<Target, Source>)
Target redistribute(const Source& field) = delete;

template <class Target, class Source,
          class Why = why::partial_is_a_sum<detail::first_partial<Source>(), detail::first_partial<Target>()>>
  requires(is_sharded<Target> && is_sharded<Source> && !detail::Redistributable<Target, Source>)
Target redistribute_to(const Source& field, const Target& target) = delete;

template <class Target, detail::Unstored E, class Why = why::expression_is_no_field>
  requires is_sharded<Target>
Target redistribute_to(const E& expression, const Target& target) = delete;  // write Source v = u + 1; and give v

}  // namespace halogen
