// The halo of a free-standing field: one prepared exchange per buffer, made anew only when wider margins are needed.
#pragma once

#include <array>
#include <memory>
#include <string>

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
  StridedView<typename Field::value_type, Field::rank> view{buffer.view.data(), {}, {}};
  for (int d = 0; d < Field::rank; ++d) {
    view.stride[d] = static_cast<index_t>(buffer.view.stride(d));
    view.origin[d] = field.offset(d) - buffer.margins[static_cast<std::size_t>(d)].lo;
  }
  return view;
}
template <class Field>
StridedView<typename Field::value_type, Field::rank> strided_view(const Field& field) {
  return strided_view(field, field.storage());
}

template <class T, int Rank>
struct FieldHalo {
  Reach<Rank> reach;
  HaloExchange<T, Rank> exchange;
  Kokkos::View<T*, transport_space> send, receive;
};

}  // namespace detail

/// What every piece of a field needs so that readers may reach so far. Throws CollectiveError where a periodic halo is
/// wider than the whole field.
template <class Field>
HaloNeeds<Field::rank> halo_needs(const Field& field, const Reach<Field::rank>& reach) {
  HaloNeeds<Field::rank> needs;
  for (std::size_t d = 0; d < Field::rank; ++d) {
    const Cut& cut = field.cut(static_cast<int>(d));
    if (reach.periodic[d] && std::max(reach.lo[d], reach.hi[d]) > cut.extent())
      throw CollectiveError("a periodic halo of " + std::to_string(std::max(reach.lo[d], reach.hi[d])) +
                            " points is wider than the whole dimension " + std::to_string(d) + " of " +
                            std::to_string(cut.extent()) + ": use a larger field or smaller shifts");
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
  using T = typename Field::value_type;
  using Halo = detail::FieldHalo<T, Field::rank>;
  auto* halo = static_cast<Halo*>(field.storage().halo.get());
  if (halo == nullptr || !(halo->reach == reach)) {
    const HaloNeeds<Field::rank> needs = halo_needs(field, reach);
    const Decomposition pieces = field.decomposition();
    std::array<detail::Margin, Field::rank> margins;
    for (int d = 0; d < Field::rank; ++d) {
      const Interval need = needs.needed_by(d, pieces.part(field.mesh().rank(), d)), own = field.owned(d);
      margins[static_cast<std::size_t>(d)] = {own.begin - need.begin, need.end - own.end};
    }
    field.reserve_margin(margins);
    auto made = std::make_shared<Halo>();
    made->reach = reach;
    made->exchange = HaloExchange<T, Field::rank>(HaloStrips<Field::rank>(needs, pieces, field.mesh().rank()));
    const auto buffer = [&](const std::string& label) {
      return Kokkos::View<T*, transport_space>(Kokkos::view_alloc(label, Kokkos::WithoutInitializing),
                                               made->exchange.values());
    };
    made->send = buffer("halogen::send");
    made->receive = buffer("halogen::receive");
    made->exchange.connect(field.mesh().world(), made->send.data(), made->receive.data(), "halo of a field");
    field.storage().halo = made;
    halo = made.get();
  }
  if (halo->exchange.empty()) return;
  const StridedView<T, Field::rank> view = detail::strided_view(field);
  halo->exchange.start(space, view);
  halo->exchange.finish(space, view);
}

}  // namespace halogen
