// transports: mpi nccl
// ranks: 1 2 3 4 6
// label: single
// program: collectives
// Laws of support/ran.hpp: on every number of ranks a loop that passes over all meshes fails its test case, however it
// does so, and a test case for other numbers of ranks is counted.
#include <doctest/doctest.h>

#include <stdexcept>
#include <vector>

#include "support/grid.hpp"

namespace test_empty_loops {

using support::grids;

TEST_CASE("a loop that asserts something on one mesh passes, and one that is left") {
  const auto first = grids().front().extents();
  for (const auto& mesh : grids())
    if (mesh.extents() == first) CHECK(mesh.size() == support::grid_world().size());
  std::vector<int> sizes;
  for (const auto& mesh : grids()) {
    sizes.push_back(mesh.size());
    break;
  }
  CHECK(sizes.size() == 1);
}

TEST_CASE("a loop that goes on before it asserts" * doctest::should_fail()) {
  for (const auto& mesh : grids()) {
    if (mesh.size() > 0) continue;
    CHECK(mesh.size() == 0);
  }
}

TEST_CASE("a loop whose bodies are all refused" * doctest::should_fail()) {
  CHECK(grids().size() > 0);  // what stands before the loop does not count
  for (const auto& mesh : grids()) {
    try {
      if (mesh.size() > 0) throw std::runtime_error("a piece without any row");
      CHECK(mesh.size() == 0);
    } catch (const std::runtime_error&) {
    }
  }
  CHECK(grids().size() > 0);  // nor what stands after it
}

TEST_CASE("a loop over no mesh" * doctest::should_fail()) {
  for (const auto& mesh : support::Meshes<support::Grid>()) CHECK(mesh.size() > 0);
}

TEST_CASE("a loop without assertions" * doctest::should_fail()) {
  int meshes = 0;
  for (const auto& mesh : grids()) meshes += mesh.size() > 0;
  static_cast<void>(meshes);
}

TEST_CASE("on two ranks alone") {
  ONLY_ON_RANKS(2);
  CHECK(support::grid_world().size() == 2);
}

TEST_CASE("on other ranks a test case ends before it asserts, and is counted") {
  const int ranks = support::grid_world().size();
  const auto skips = [](auto test_case) {
    bool ended = true;
    test_case(ended);
    return support::runner.is_skipped && ended;
  };
  CHECK(!skips([&](bool& ended) {
    FROM_RANKS(1);
    ended = false;
  }));
  CHECK(skips([&](bool& ended) {
    FROM_RANKS(100000);
    ended = false;
  }));
  CHECK(skips([&](bool& ended) {
    ONLY_ON_RANKS(ranks + 1, ranks + 2);
    ended = false;
  }));
  CHECK(!skips([&](bool& ended) {
    ONLY_ON_RANKS(ranks + 1, ranks);
    ended = false;
  }));
}

}  // namespace test_empty_loops
