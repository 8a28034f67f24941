// The halo of a free-standing field: one prepared exchange per buffer, made anew only when wider margins are needed.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/halo/exchange.hpp"
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

/// One prepared exchange of a buffer. A buffer keeps the last few, since several expressions read it.
template <class T, int Rank>
struct FieldHalo {
  Reach<Rank> reach;                                 ///< what it was made for, where that is enough to tell
  std::array<std::vector<Interval>, Rank> needed{};  ///< and where it is not: each piece's needs
  TransportBuffer<T> send, receive;
  HaloExchange<T, Rank> exchange;  // ends before its buffers do
};
template <class T, int Rank>
struct FieldHalos {
  static constexpr std::size_t most = 4;
  std::vector<std::unique_ptr<FieldHalo<T, Rank>>> made;
};

inline void check_halo_fits(index_t lo, index_t hi, index_t extent, int dimension) {
  if (std::max(lo, hi) > extent)
    throw CollectiveError("a periodic halo of " + std::to_string(std::max(lo, hi)) +
                          " points is wider than the whole dimension " + std::to_string(dimension) + " of " +
                          std::to_string(extent) + ": use a larger field or smaller shifts");
}

/// The exchange for which fits(halo) holds, or a new one for needs(); margins grow where they must.
template <class Field, class Fits, class Needs, class Name>
void exchange_halo(const execution_space& space, const Field& field, Fits fits, Needs needs, Name name) {
  using T = typename Field::value_type;
  using Halo = FieldHalo<T, Field::rank>;
  using Halos = FieldHalos<T, Field::rank>;
  if (!field.storage().halo) field.storage().halo = std::make_shared<Halos>();
  auto& made = static_cast<Halos*>(field.storage().halo.get())->made;
  Halo* halo = nullptr;
  for (const auto& one : made)
    if (fits(*one)) halo = one.get();
  if (halo == nullptr) {
    const HaloNeeds<Field::rank> all = needs();
    const Decomposition& pieces = field.decomposition();
    std::array<Margin, Field::rank> margins;
    for (int d = 0; d < Field::rank; ++d) {
      const Interval need = all.needed_by(d, pieces.part(field.mesh().rank(), d)), own = field.owned(d);
      margins[static_cast<std::size_t>(d)] = {own.begin - need.begin, need.end - own.end};
    }
    field.reserve_margin(margins);
    auto fresh = std::make_unique<Halo>();
    name(*fresh);
    fresh->exchange =
        HaloExchange<T, Field::rank>(HaloStrips<Field::rank>(all, pieces, field.mesh().rank()), field.mesh().rank());
    const auto buffer = [&](const char* label) {
      return TransportBuffer<T>(label, fresh->exchange.values(), Travels::in_messages, field.mesh().world());
    };
    fresh->send = buffer("halogen::send");
    fresh->receive = buffer("halogen::receive");
    fresh->exchange.connect(field.mesh().world(), fresh->send.data(), fresh->receive.data(), "halo of a field");
    if (made.size() == Halos::most) made.erase(made.begin());
    halo = made.emplace_back(std::move(fresh)).get();
  }
  if (halo->exchange.empty()) return;
  const StridedView<T, Field::rank> view = strided_view(field);
  halo->exchange.start(space, view);
  halo->exchange.copy_own(space, view, view);
  halo->exchange.finish(space, view);
}

}  // namespace detail

/// What every piece of a field needs so that readers may reach so far. Throws CollectiveError where a periodic halo is
/// wider than the whole field.
template <class Field>
HaloNeeds<Field::rank> halo_needs(const Field& field, const Reach<Field::rank>& reach) {
  HaloNeeds<Field::rank> needs;
  for (std::size_t d = 0; d < Field::rank; ++d) {
    const Cut& cut = field.cut(static_cast<int>(d));
    if (reach.periodic[d]) detail::check_halo_fits(reach.lo[d], reach.hi[d], cut.extent(), static_cast<int>(d));
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
/// where nothing is needed. From the second call for a buffer on nothing is allocated.
template <class Field>
void halo_exchange(const execution_space& space, const Field& field, const Reach<Field::rank>& reach) {
  detail::exchange_halo(
      space, field, [&](const auto& halo) { return halo.needed[0].empty() && halo.reach == reach; },
      [&] { return halo_needs(field, reach); }, [&](auto& halo) { halo.reach = reach; });
}

/// The same where pieces need different amounts: needed[d][p] holds piece p's own points and what readers want.
template <class Field>
void halo_exchange(const execution_space& space, const Field& field, const HaloNeeds<Field::rank>& needs) {
  detail::exchange_halo(
      space, field, [&](const auto& halo) { return halo.needed == needs.needed; }, [&] { return needs; },
      [&](auto& halo) { halo.needed = needs.needed; });
}

}  // namespace halogen
