// What is prepared for fields that lie alike, by what it was prepared for: exchanges, moves, tables of numbers. A
// program needs the same ones in every step, and from the second time on they cost no allocation and no planning.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "halogen/core/prepared.hpp"
#include "halogen/tensor/decomposition.hpp"
#include "halogen/tensor/storage_pool.hpp"

namespace halogen::detail {

/// The last few objects of one type that a mesh keeps (DeviceMesh::prepared). All its ranks ask in the same order.
/// empty_cache() and the end of Kokkos empty it.
template <class Key, class T, std::size_t Most = 32>
class PreparedByMesh {
 public:
  PreparedByMesh() { all().push_back(this); }
  ~PreparedByMesh() { std::erase(all(), this); }
  PreparedByMesh(const PreparedByMesh&) = delete;
  PreparedByMesh& operator=(const PreparedByMesh&) = delete;

  /// asked: what a Key is compared with and made from. make(): a std::unique_ptr<T>.
  template <class Asked, class Make>
  T& get(const Asked& asked, Make make) {
    return *prepared_.template get<T>(asked, make);
  }

 private:
  static std::vector<PreparedByMesh*>& all() {
    static std::vector<PreparedByMesh*>& list = *[] {
      auto* made = new std::vector<PreparedByMesh*>;  // emptied below, never destroyed after Kokkos
      const auto clear = [made] {
        for (PreparedByMesh* one : *made) one->prepared_.clear();
      };
      caches().push_back(clear);
      Kokkos::push_finalize_hook(clear);
      return made;
    }();
    return list;
  }

  Prepared<Key, Most> prepared_;
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
