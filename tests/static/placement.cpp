// Placements and their gradients; chunks and intervals; 64-bit indices. (Cuts: tests/unit/cut.cpp.)
#include "halogen/placement/placement.hpp"

#include <array>
#include <type_traits>

#include "halogen/placement/cut.hpp"

namespace {

using namespace halogen;

// -- placements and their duals --------------------------------------------------------------------------------------
template <class P, class Dual>
inline constexpr bool dual =
    std::is_same_v<gradient_placement_t<P>, Dual> && std::is_same_v<gradient_placement_t<Dual>, P>;  // its own inverse
static_assert(dual<Replicate, Partial<Sum>>);
static_assert(dual<Shard<0>, Shard<0>> && dual<Shard<1>, Shard<1>> && dual<Shard<3>, Shard<3>>);

static_assert(placement_code<Replicate> == replicate_code && placement_code<Partial<>> == partial_code);
static_assert(placement_code<Shard<0>> == 0 && placement_code<Shard<3>> == 3);
static_assert(Placement<Replicate> && Placement<Shard<7>> && Placement<Partial<Sum>>);
static_assert(!Placement<int> && !Placement<Sum>);

// -- integer division as halos need it
// ---------------------------------------------------------------------------------
constexpr bool division() {
  for (index_t b = 1; b <= 7; ++b)
    for (index_t a = -30; a <= 30; ++a) {
      const index_t floor = floor_div(a, b), ceil = ceil_div(a, b), mod = floor_mod(a, b);
      if (!(floor * b <= a && a < (floor + 1) * b)) return false;
      if (!((ceil - 1) * b < a && a <= ceil * b)) return false;
      if (mod < 0 || mod >= b || floor * b + mod != a) return false;
    }
  return true;
}
static_assert(division());

// -- chunks: torch.chunk(torch.arange(extent), parts)
// -------------------------------------------------------------------
template <int Parts>
constexpr bool chunks(index_t extent, std::array<index_t, Parts + 1> bounds) {
  for (int part = 0; part <= Parts; ++part)
    if (chunk_offset(extent, Parts, part) != bounds[static_cast<std::size_t>(part)]) return false;
  return true;
}
static_assert(chunks<4>(8, {0, 2, 4, 6, 8}));
static_assert(chunks<4>(10, {0, 3, 6, 9, 10}));
static_assert(chunks<4>(5, {0, 2, 4, 5, 5}));  // torch.chunk gives 3 pieces: the fourth rank has none
static_assert(chunks<3>(45, {0, 15, 30, 45}) && chunks<3>(1, {0, 1, 1, 1}) && chunks<1>(7, {0, 7}));
static_assert(chunk_offset((index_t{1} << 33) + 1, 2, 1) == (index_t{1} << 32) + 1);
static_assert(chunk_offset((index_t{1} << 33) + 1, 2, 2) == (index_t{1} << 33) + 1);
static_assert(chunk_offset(index_t{3} << 33, 64, 63) == (index_t{3} << 27) * 63);

constexpr bool covers() {
  for (index_t extent = 1; extent <= 40; ++extent)
    for (int parts = 1; parts <= 12; ++parts) {
      if (chunk_offset(extent, parts, 0) != 0 || chunk_offset(extent, parts, parts) != extent) return false;
      if (balanced_offset(extent, parts, 0) != 0 || balanced_offset(extent, parts, parts) != extent) return false;
      for (int part = 0; part < parts; ++part) {
        const index_t chunk = chunk_offset(extent, parts, part + 1) - chunk_offset(extent, parts, part);
        const index_t balanced = balanced_offset(extent, parts, part + 1) - balanced_offset(extent, parts, part);
        if (chunk < 0 || chunk > ceil_div(extent, parts)) return false;
        if (balanced != extent / parts && balanced != extent / parts + 1) return false;
      }
    }
  return true;
}
static_assert(covers());

// -- intervals
// -----------------------------------------------------------------------------------------------------------
static_assert(Interval{2, 5}.size() == 3 && Interval{5, 2}.size() == 0 && Interval{5, 2}.empty() &&
              Interval{2, 2}.empty());
static_assert(hull(Interval{2, 5}, Interval{7, 9}) == Interval{2, 9} &&
              hull(Interval{}, Interval{7, 9}) == Interval{7, 9});
static_assert(hull(Interval{7, 9}, Interval{4, 4}) == Interval{7, 9});
static_assert(intersect(Interval{2, 5}, Interval{4, 9}) == Interval{4, 5} &&
              intersect(Interval{2, 4}, Interval{6, 9}).empty());

}  // namespace
