// Moves that were prepared before: a program asks for the same ones at every step, and from the second time on they
// cost no allocation and no planning.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "halogen/tensor/storage_pool.hpp"

namespace halogen::detail {

/// The last few moves of one type, by what they move between (Key has ==): of a mesh (DeviceMesh::kept) or of the
/// program. All ranks ask in the same order.
template <class Key, class Move, std::size_t Most = 16>
class KeptMoves {
 public:
  KeptMoves() { all().push_back(this); }
  ~KeptMoves() { std::erase(all(), this); }
  KeptMoves(const KeptMoves&) = delete;
  KeptMoves& operator=(const KeptMoves&) = delete;

  /// asked: a Key, or what one is made from and compared with.
  template <class Asked, class Make>
  Move& get(const Asked& asked, Make make) {
    for (const auto& [known, move] : moves_)
      if (known == asked) return *move;
    if (moves_.size() == Most) moves_.erase(moves_.begin());
    return *moves_.emplace_back(Key(asked), make()).second;
  }

  static KeptMoves& of_program() {
    static KeptMoves& moves = *new KeptMoves;  // emptied with all others, never destroyed after Kokkos
    return moves;
  }

 private:
  static std::vector<KeptMoves*>& all() {
    static std::vector<KeptMoves*>& list = *[] {
      auto* made = new std::vector<KeptMoves*>;
      const auto clear = [made] {
        for (KeptMoves* one : *made) one->moves_.clear();
      };
      caches().push_back(clear);
      Kokkos::push_finalize_hook(clear);
      return made;
    }();
    return list;
  }

  std::vector<std::pair<Key, std::unique_ptr<Move>>> moves_;
};

/// Two shapes, compared by what they say.
template <class From, class To>
struct BetweenShapes {
  std::shared_ptr<const From> from;
  std::shared_ptr<const To> to;
  bool operator==(const BetweenShapes& other) const { return *from == *other.from && *to == *other.to; }
};

}  // namespace halogen::detail
