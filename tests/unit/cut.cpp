// Cuts: chunk as torch.chunk, balanced, and derived; the law for which derived cuts exist.
#include <doctest/doctest.h>

#include "halogen/core/philox.hpp"
#include "halogen/placement/cut.hpp"
#include "halogen/stencil/window.hpp"

namespace {

using halogen::Cut;
using halogen::index_t;
using halogen::Interval;
using halogen::Window;
using Bounds = std::vector<index_t>;

int draw(std::uint64_t stream, int i, int low, int high) {
  return low + static_cast<int>(halogen::uniform_at(1, stream, static_cast<std::uint64_t>(i)) * (high - low + 1));
}

bool is_cut(const Cut& cut, int parts, index_t extent) {
  bool rises = cut.bounds.front() == 0 && cut.bounds.back() == extent && cut.parts() == parts && cut.extent() == extent;
  for (int part = 0; part < parts; ++part) rises = rises && cut.bounds[part] <= cut.bounds[part + 1];
  return rises;
}

/// How far any piece of a 2 x 2 pool's output reaches beyond the piece of its input on the same rank.
index_t reach(const Cut& input, const Cut& output) {
  const Window pool{.kernel = 2, .stride = 2};
  index_t farthest = 0;
  for (int part = 0; part < input.parts(); ++part) {
    const Interval read = pool.input_of(output.piece(part)), own = input.piece(part);
    if (!read.empty()) farthest = std::max({farthest, own.begin - read.begin, read.end - own.end});
  }
  return farthest;
}

}  // namespace

TEST_CASE("chunk is torch.chunk, empty pieces at the end; balanced pieces differ by one") {
  CHECK(Cut::chunk(10, 4).bounds == Bounds{0, 3, 6, 9, 10});
  CHECK(Cut::chunk(5, 4).bounds == Bounds{0, 2, 4, 5, 5});
  CHECK(Cut::chunk(5, 4).first_empty_piece() == 3);
  CHECK(Cut::chunk(10, 4).first_empty_piece() == -1);
  CHECK(Cut::balanced(10, 4).bounds == Bounds{0, 3, 6, 8, 10});
  CHECK(Cut::balanced(5, 4).bounds == Bounds{0, 2, 3, 4, 5});
  CHECK(Cut::chunk(7, 1).bounds == Bounds{0, 7});
  CHECK(Cut::chunk(10, 4).piece(3) == Interval{9, 10});
  CHECK(Cut::chunk(10, 4) == Cut::chunk(10, 4));
  CHECK_FALSE(Cut::chunk(10, 4) == Cut::balanced(10, 4));
}

TEST_CASE("derived: ceil(bound / stride), the end clamped to the output") {
  CHECK(Cut::chunk(45, 2).bounds == Bounds{0, 23, 45});
  CHECK(Cut::chunk(45, 2).derived(2, 22).bounds == Bounds{0, 12, 22});
  CHECK(Cut::chunk(45, 3).derived(2, 22).bounds == Bounds{0, 8, 15, 22});
  CHECK(Cut::chunk(9, 3).derived(1, 11).bounds == Bounds{0, 3, 6, 11});  // a window that pads beyond keeping
  CHECK(Cut::chunk(9, 3).derived(1, 7).bounds == Bounds{0, 3, 6, 7});
  CHECK(Cut::chunk(9, 3).derived(4, 2).bounds == Bounds{0, 1, 2, 2});
}

TEST_CASE("with derived cuts a 2 x 2 pool reaches at most one row away, on every level, for 2 to 64 ranks") {
  index_t farthest = 0, anew = 0;
  for (int i = 0; i < 3000; ++i) {
    const int parts = draw(1, i, 2, 64);
    index_t extent = draw(2, i, parts, 4000);
    Cut cut = i % 2 == 0 ? Cut::chunk(extent, parts) : Cut::balanced(extent, parts);
    REQUIRE(is_cut(cut, parts, extent));
    for (int level = 0; level < 8 && extent >= 2; ++level) {
      extent /= 2;
      const Cut coarse = cut.derived(2, extent);
      REQUIRE(is_cut(coarse, parts, extent));
      farthest = std::max(farthest, reach(cut, coarse));
      anew = std::max(anew, reach(cut, Cut::chunk(extent, parts)));
      cut = coarse;
    }
  }
  CHECK(farthest == 1);
  CHECK(anew > 30);  // what a new chunk on each level would cost
}
