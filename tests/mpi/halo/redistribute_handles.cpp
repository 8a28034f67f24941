// program: redistribution
// A kept Redistribution: used again it allocates and sets up nothing, and between start and finish there may be work,
// polling and other collectives.
#include <doctest/doctest.h>

#include <vector>

#include "halogen/halo/redistribute.hpp"
#include "halogen/tensor/distribute.hpp"
#include "support/heap.hpp"
#include "support/kokkos_events.hpp"
#include "support/pmpi_counter.hpp"
#include "support/redistribution.hpp"

namespace test_redistribute_handles {

namespace {

namespace hg = halogen;
using support::columns, support::rows;

hg::Communicator world() { return support::redistribution_world(); }

using Line = hg::Mesh<"a">;
using Grid = hg::Mesh<"a", "b">;
template <class Mesh, class... P>
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Mesh, P...>;
using R = hg::Replicate;
using S0 = hg::Shard<0>;
using S1 = hg::Shard<1>;
using P = hg::Partial<hg::Sum>;

/// Everything that a warm call must not do.
long set_up() {
#ifdef HALOGEN_WITH_MPI
  return support::heap.of_data +
         static_cast<long>(pmpi::counts.inits + pmpi::counts.communicators + pmpi::counts.others.count);
#else
  return support::heap.of_data;
#endif
}

template <class Source, class Target>
void check_warm(const hg::DeviceMesh<typename Source::mesh_type>& mesh) {
  const Source source(mesh, {rows, columns});
  const Target target(mesh, {rows, columns});
  hg::Redistribution<Target, Source> move(source, target);
  const auto use = [&] {
    move.start(source);
    move.finish(target);
    move.move(source, target);
  };
  use();
  const long before = set_up();
  for (int i = 0; i < 5; ++i) use();
  CHECK((set_up() == before || support::heap_serves_a_tool()));
  CHECK(support::kokkos_events(use).allocations.empty());
}

}  // namespace

TEST_CASE("used again it allocates and sets up nothing") {
  const auto line = hg::device_mesh<Line>(world(), {-1});
  check_warm<Plane<Line, S0>, Plane<Line, S1>>(line);
  check_warm<Plane<Line, P>, Plane<Line, S1>>(line);
  check_warm<Plane<Line, P>, Plane<Line, R>>(line);
  check_warm<Plane<Line, R>, Plane<Line, P>>(line);
  const auto grid = hg::device_mesh<Grid>(world(), {world().size() % 2 == 0 ? 2 : 1, -1});
  check_warm<Plane<Grid, P, P>, Plane<Grid, S0, R>>(grid);
  check_warm<Plane<Grid, P, S0>, Plane<Grid, S1, P>>(grid);
}

TEST_CASE("between start and finish: work on the source, polling, other collectives in one order") {
  const auto grid = hg::device_mesh<Grid>(world(), {world().size() % 2 == 0 ? 2 : 1, -1});
  Plane<Grid, P, P> summands(grid, {rows, columns});
  const Plane<Grid, S0, R> sums(grid, {rows, columns});
  const Plane<Grid, S1, S0> others(grid, {rows, columns});
  hg::Redistribution<Plane<Grid, S0, R>, Plane<Grid, P, P>> add(summands, sums);
  hg::Redistribution<Plane<Grid, S1, S0>, Plane<Grid, S0, R>> move(sums, others);
  for (int round = 1; round <= 3; ++round) {
    std::vector<double> values(static_cast<std::size_t>(rows * columns));
    for (std::size_t i = 0; i < values.size(); ++i) values[i] = double(i) * round + world().rank();
    summands.copy_from_host(values);
    add.start(summands);
    move.start(sums);  // the sums of the round before
    summands.copy_from_host(std::vector<double>(values.size(), -1));
    if (world().rank() % 2 == 0)
      while (!add.test()) {
      }
    double rank = world().rank();
    grid.communicator_of<"a">().all_reduce(&rank, 1);  // on the very ranks of the second sum
    grid.communicator_of<"b">().all_reduce(&rank, 1);
    move.finish(others);
    add.finish(sums);
    const double ranks = world().size(), of_ranks = ranks * (ranks - 1) / 2;
    CHECK(rank == of_ranks);
    const std::vector<double> now = hg::full_tensor(sums), before = hg::full_tensor(others);
    for (std::size_t i = 0; i < values.size(); ++i) {
      REQUIRE(now[i] == double(i) * round * ranks + of_ranks);
      REQUIRE(before[i] == (round == 1 ? 0 : double(i) * (round - 1) * ranks + of_ranks));
    }
  }
}

}  // namespace test_redistribute_handles
