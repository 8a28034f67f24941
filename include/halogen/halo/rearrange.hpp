// rearrange: runs of a field along one dimension in another order, or all points in the opposite one. Each rank
// receives exactly the points it lacks, one message per rank that has some.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/halo/field_halo.hpp"
#include "halogen/halo/prepared_by_mesh.hpp"
#include "halogen/halo/strip_move.hpp"

namespace halogen {

/// Points [from, from + count) of the source become points [to, to + count) of the result; mirrored: the last first.
struct LineRun {
  index_t from, to, count;
  bool mirrored = false;
  bool operator==(const LineRun&) const = default;
};

namespace detail {

/// What a rearrangement is prepared for; source and result lie alike.
template <int Rank>
struct RearrangementAsked {
  FieldPlace<Rank> field;
  int dimension;
  const std::vector<LineRun>& runs;
};
template <int Rank>
struct RearrangementKey {
  FieldPlaceKey<Rank> field;
  int dimension;
  std::vector<LineRun> runs;

  explicit RearrangementKey(const RearrangementAsked<Rank>& asked)
      : field(asked.field), dimension(asked.dimension), runs(asked.runs) {}
  bool operator==(const RearrangementAsked<Rank>& asked) const {
    return dimension == asked.dimension && runs == asked.runs && field == asked.field;
  }
};

/// Each rank's own points of a field in the opposite order along one dimension.
template <class T, int Rank>
struct MirrorRows {
  StridedView<T, Rank> from, to;
  index_t begin[Rank], size[Rank];
  int dimension;

  KOKKOS_FUNCTION index_t points() const { return runs_on_host ? size[Rank - 1] : 1; }  ///< of a work item
  index_t items() const {
    index_t points_of_piece = 1;
    for (int d = 0; d < Rank; ++d) points_of_piece *= size[d];
    return points_of_piece == 0 ? 0 : points_of_piece / points();
  }
  KOKKOS_FUNCTION void operator()(const index_t item) const {
    index_t rest = item * points(), source = 0, target = 0;
    for (int d = Rank - 1; d >= 0; --d) {
      const index_t i = rest % size[d];
      rest /= size[d];
      source += (begin[d] + (d == dimension ? size[d] - 1 - i : i) - from.origin[d]) * from.stride[d];
      target += (begin[d] + i - to.origin[d]) * to.stride[d];
    }
    const index_t step = dimension == Rank - 1 ? -from.stride[Rank - 1] : from.stride[Rank - 1];
    copy_row(to.data + target, to.stride[Rank - 1], from.data + source, step, points());
  }
};

template <class Field>
void mirror_pieces(const execution_space& space, const Field& from, const Field& to, int dimension) {
  MirrorRows<typename Field::value_type, Field::rank> kernel{strided_view(from), strided_view(to), {}, {}, dimension};
  for (int d = 0; d < Field::rank; ++d) {
    kernel.begin[d] = from.offset(d);
    kernel.size[d] = from.local_extent(d);
  }
  launch_range(space, "halogen::mirror", kernel.items(), kernel);
}

/// What `receiver` takes of each holder, in one order on all ranks. A mirrored run is read from pieces that are
/// mirrored, each in itself.
template <int Rank, class F>
void each_strip(const RearrangementAsked<Rank>& asked, int receiver, F f) {
  const auto along = static_cast<std::size_t>(asked.dimension);
  const Decomposition& pieces = asked.field.pieces;
  const Cut& cut = asked.field.cuts[along];
  Box<Rank> box;
  for (int d = 0; d < Rank; ++d)
    box.side[static_cast<std::size_t>(d)] =
        asked.field.cuts[static_cast<std::size_t>(d)].piece(pieces.part(receiver, d));
  const Interval own = box.side[along];
  for (const LineRun& run : asked.runs)
    for (int part = 0; part < cut.parts(); ++part) {
      const Interval held = cut.piece(part);
      // Points of the result that piece `part` of the source has, and where it keeps them.
      const index_t shift = run.mirrored ? held.begin + held.end - (run.to + run.from + run.count) : run.from - run.to;
      const Interval lent = intersect(held, {run.from, run.from + run.count});
      const Interval there =
          run.mirrored ? Interval{held.begin + held.end - lent.end, held.begin + held.end - lent.begin} : lent;
      Strip<Rank> strip{pieces.with_part(receiver, asked.dimension, part), box, box};
      const Interval to = intersect(own, {there.begin - shift, there.end - shift});
      strip.to.side[along] = to;
      strip.from.side[along] = {to.begin + shift, to.end + shift};
      if (!lent.empty() && !to.empty() && strip.to.points() > 0) f(strip);
    }
}

/// What rank `own` sends and receives.
template <int Rank>
HaloStrips<Rank> rearrangement_strips(const RearrangementAsked<Rank>& asked, int ranks, int own) {
  HaloStrips<Rank> strips;
  for (int receiver = 0; receiver < ranks; ++receiver)
    each_strip(asked, receiver, [&](const Strip<Rank>& strip) {
      if (receiver == own) strips.receives.push_back(strip);
      if (strip.peer == own) strips.sends.push_back({receiver, strip.from, strip.to});
    });
  for (auto* list : {&strips.receives, &strips.sends})
    std::stable_sort(list->begin(), list->end(),
                     [](const Strip<Rank>& a, const Strip<Rank>& b) { return a.peer < b.peer; });
  return strips;
}

}  // namespace detail

/// Collective. The field whose points along `dimension` are the source's in the order of the runs, which are all
/// mirrored or none and cover it once. Where the dimension is not cut nothing is sent. Prepared once for fields of
/// these pieces and these runs.
template <class Field>
Field rearranged(const Field& source, int dimension, const std::vector<LineRun>& runs) {
  using Move = detail::StripMove<typename Field::value_type, Field::rank>;
  const Field result(source.shape(), Field::Start::unwritten);
  const bool moves = source.cut(dimension).parts() > 1;
  if (moves && source.mesh().is_dry())
    throw Error("points of a field on a dry mesh are moved between ranks: no rank holds what lies elsewhere");
  Field from = source;
  if (runs.front().mirrored) {
    const execution_space space;
    if (moves) from = Field(source.shape(), Field::Start::unwritten);
    detail::mirror_pieces(space, source, moves ? from : result, dimension);
    space.fence("halogen::mirror");
    if (!moves) return result;
  }
  const detail::RearrangementAsked<Field::rank> asked{detail::place_of(source), dimension, runs};
  source.mesh()
      .template prepared<detail::PreparedByMesh<detail::RearrangementKey<Field::rank>, Move>>()
      .get(asked,
           [&] {
             const Communicator& world = source.mesh().world();
             return std::make_unique<Move>(world, detail::rearrangement_strips(asked, world.size(), world.rank()),
                                           "rearrange");
           })
      .run(detail::strided_view(from), detail::strided_view(result), "halogen::rearrange");
  return result;
}

}  // namespace halogen
