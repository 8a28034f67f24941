// Moves that were prepared before: a program asks for the same ones at every step, and from the second time on they
// cost no allocation and no planning.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "halogen/core/prepared.hpp"
#include "halogen/tensor/decomposition.hpp"
#include "halogen/tensor/storage_pool.hpp"

namespace halogen::detail {

/// The last few moves of one type, by what they were prepared for: of a mesh (DeviceMesh::kept), whose ranks all ask in
/// the same order.
template <class Key, class Move, std::size_t Most = 32>
class KeptMoves {
 public:
  KeptMoves() { all().push_back(this); }
  ~KeptMoves() { std::erase(all(), this); }
  KeptMoves(const KeptMoves&) = delete;
  KeptMoves& operator=(const KeptMoves&) = delete;

  /// asked: what a Key is compared with and made from. make(): a std::unique_ptr<Move>.
  template <class Asked, class Make>
  Move& get(const Asked& asked, Make make) {
    return *moves_.template get<Move>(asked, make);
  }

 private:
  static std::vector<KeptMoves*>& all() {
    static std::vector<KeptMoves*>& list = *[] {
      auto* made = new std::vector<KeptMoves*>;  // emptied below, never destroyed after Kokkos
      const auto clear = [made] {
        for (KeptMoves* one : *made) one->moves_.clear();
      };
      caches().push_back(clear);
      Kokkos::push_finalize_hook(clear);
      return made;
    }();
    return list;
  }

  Prepared<Key, Most> moves_;
};

/// How a field lies, without its type.
template <int Rank>
struct FieldPlace {
  const Decomposition& pieces;
  const std::array<Cut, Rank>& cuts;
  std::shared_ptr<const void> mesh;  ///< where it need not be that which keeps
};

/// The same, to be kept: a mesh is only known again.
template <int Rank>
struct FieldPlaceKey {
  Decomposition pieces;
  std::array<Cut, Rank> cuts;
  std::weak_ptr<const void> mesh;

  explicit FieldPlaceKey(const FieldPlace<Rank>& place) : pieces(place.pieces), cuts(place.cuts), mesh(place.mesh) {}
  bool operator==(const FieldPlace<Rank>& place) const {
    return pieces == place.pieces && cuts == place.cuts && !mesh.owner_before(place.mesh) &&
           !place.mesh.owner_before(mesh);
  }
};

/// Two of them: the mesh of the first keeps.
template <int Rank>
struct Between {
  FieldPlace<Rank> from, to;
};
template <int Rank>
struct BetweenKey {
  FieldPlaceKey<Rank> from, to;

  explicit BetweenKey(const Between<Rank>& asked) : from(asked.from), to(asked.to) {}
  bool operator==(const Between<Rank>& asked) const { return from == asked.from && to == asked.to; }
};

template <class Field>
FieldPlace<Field::rank> place_of(const Field& field, const char* user = "a field") {
  return {field.decomposition(user), field.cuts(), nullptr};
}
template <class From, class To>
Between<From::rank> between(const From& from, const To& to, const char* user) {
  return {place_of(from, user), {to.decomposition(user), to.cuts(), to.mesh().identity()}};
}

}  // namespace halogen::detail
