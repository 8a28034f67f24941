// The halo of a free-standing field: exchanges are prepared once for fields of the same pieces and kept by their mesh.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/halo/halo_exchange.hpp"
#include "halogen/halo/prepared_by_mesh.hpp"
#include "halogen/tensor/sharded.hpp"

namespace halogen {

/// How far readers reach beyond a field's owned points, per dimension, and where its other end continues it.
template <int Rank>
struct Reach {
  std::array<index_t, Rank> lo{}, hi{};
  std::array<bool, Rank> periodic{};

  void widen(const Reach& other) {
    for (std::size_t d = 0; d < Rank; ++d) {
      lo[d] = std::max(lo[d], other.lo[d]);
      hi[d] = std::max(hi[d], other.hi[d]);
      periodic[d] = periodic[d] || other.periodic[d];
    }
  }
  bool operator==(const Reach&) const = default;
};

namespace detail {

/// A buffer of the field's shape as strides and the global index of its first point, margins included.
template <class Field>
StridedView<typename Field::value_type, Field::rank> strided_view(const Field& field,
                                                                  const typename Field::Storage& buffer) {
  auto view = strided_view_of<Field::rank>(buffer.view.data(), buffer.view);
  for (int d = 0; d < Field::rank; ++d)
    view.origin[d] = field.offset(d) - buffer.margins[static_cast<std::size_t>(d)].lo;
  return view;
}
template <class Field>
StridedView<typename Field::value_type, Field::rank> strided_view(const Field& field) {
  return strided_view(field, field.storage());
}

/// What a halo is prepared for: pieces, and how far readers reach, or else what each piece needs.
template <int Rank>
struct HaloAsked {
  FieldPlace<Rank> field;
  const Reach<Rank>& reach;
  const std::array<std::vector<Interval>, Rank>& needed;
};
template <int Rank>
struct HaloKey {
  FieldPlaceKey<Rank> field;
  Reach<Rank> reach;
  std::array<std::vector<Interval>, Rank> needed;

  explicit HaloKey(const HaloAsked<Rank>& asked) : field(asked.field), reach(asked.reach), needed(asked.needed) {}
  bool operator==(const HaloAsked<Rank>& asked) const {
    return reach == asked.reach && field == asked.field && needed == asked.needed;
  }
};

/// One prepared exchange, for all fields of a mesh that have these pieces.
template <class T, int Rank>
struct FieldHalo {
  std::array<Margin, Rank> margins{};  // of the rank that needs most: fields' memory moves on all ranks or on none
  bool reaches_other_pieces = false;   // any rank's, alike on all ranks
  TransportBuffer<T> send, receive;
  HaloExchange<T, Rank> exchange;  // ends before its buffers do

  FieldHalo(const Communicator& world, const Decomposition& pieces, const HaloNeeds<Rank>& needs);
};

template <class T, int Rank>
FieldHalo<T, Rank>::FieldHalo(const Communicator& world, const Decomposition& pieces, const HaloNeeds<Rank>& needs)
    : exchange(HaloStrips<Rank>(needs, pieces, world.rank()), world.rank()) {
  for (std::size_t d = 0; d < Rank; ++d) {
    for (int part = 0; part < needs.cut[d].parts(); ++part)
      margins[d].widen(needs.cut[d].piece(part), needs.needed[d][static_cast<std::size_t>(part)]);
    reaches_other_pieces |= needs.cut[d].parts() > 1 && (margins[d].lo > 0 || margins[d].hi > 0);
  }
  const auto buffer = [&](const char* label) {
    return TransportBuffer<T>(label, exchange.values(), Travels::in_messages, world);
  };
  send = buffer("halogen::send");
  receive = buffer("halogen::receive");
  exchange.connect(world, send.data(), receive.data(), "halo of a field");
}

/// The exchange that was prepared for what is asked, or a new one for needs(); margins grow where they must.
template <class Field, class Needs>
void exchange_halo(const execution_space& space, const Field& field, const Reach<Field::rank>& reach,
                   const std::array<std::vector<Interval>, Field::rank>& needed, Needs needs,
                   const char* user = "halo_exchange") {
  using Halo = FieldHalo<typename Field::value_type, Field::rank>;
  using Halos = PreparedByMesh<HaloKey<Field::rank>, Halo, 64>;
  if (field.mesh(user).is_dry())
    throw Error("a field on a dry mesh is read beyond its piece: no rank holds what lies there");
  const HaloAsked<Field::rank> asked{place_of(field), reach, needed};
  Halo& halo = field.mesh().template prepared<Halos>().get(
      asked, [&] { return std::make_unique<Halo>(field.mesh().world(), field.decomposition(), needs()); });
  if (halo.reaches_other_pieces) field.shape()->agree_between_pieces();
  field.reserve_margin(halo.margins);
  if (halo.exchange.empty()) return;
  const auto view = strided_view(field);
  halo.exchange.start(space, view);
  halo.exchange.copy_own(space, view, view);
  halo.exchange.finish(space, view);
}

}  // namespace detail

/// What every piece of a field needs so that readers may reach so far.
template <class Field>
HaloNeeds<Field::rank> halo_needs(const Field& field, const Reach<Field::rank>& reach) {
  HaloNeeds<Field::rank> needs;
  for (std::size_t d = 0; d < Field::rank; ++d) {
    const Cut& cut = field.cut(static_cast<int>(d), "halo_needs");
    needs.dimension[d] = static_cast<int>(d);
    needs.cut[d] = cut;
    for (int p = 0; p < cut.parts(); ++p) {
      const Interval piece = cut.piece(p);
      Interval wide{piece.begin - reach.lo[d], piece.end + reach.hi[d]};
      if (!reach.periodic[d]) wide = intersect(wide, {0, cut.extent()});
      needs.needed[d].push_back(piece.empty() ? piece : wide);
    }
  }
  return needs;
}

/// Collective: fills the margins so that readers may reach so far. One message per intersecting peer; nothing at all
/// where nothing is needed. From the second call on, for fields of the same pieces, nothing is allocated but a margin;
/// all such calls are given one stream.
template <class Field>
void halo_exchange(const execution_space& space, const Field& field, const Reach<Field::rank>& reach) {
  detail::exchange_halo(space, field, reach, {}, [&] { return halo_needs(field, reach); });
}

/// The same where pieces need different amounts: needed[d][p] holds piece p's own points and what readers want.
template <class Field>
void halo_exchange(const execution_space& space, const Field& field, const HaloNeeds<Field::rank>& needs) {
  detail::exchange_halo(space, field, {}, needs.needed, [&]() -> const auto& { return needs; });
}

}  // namespace halogen
