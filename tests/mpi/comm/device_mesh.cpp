// transports: mpi nccl
// ranks: 1 2 3 4 6
// label: single
// program: collectives
// Laws of comm/device_mesh.hpp: coordinates, every sub-mesh against a brute-force list of its members, and refusals.
#include "halogen/comm/device_mesh.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "halogen/comm/environment.hpp"
#include "support/over_nccl.hpp"
#include "support/pmpi_counter.hpp"
#include "support/ran.hpp"

namespace test_device_mesh {

namespace hg = halogen;
using Line = hg::Mesh<"height">;
using Plane = hg::Mesh<"height", "width">;
using Space = hg::Mesh<"data", "height", "width">;

namespace {

/// Ranks (of the mesh, row-major) whose coordinates equal `rank`'s in every dimension outside `mask`, by enumeration.
template <std::size_t Rank>
std::vector<int> members(int rank, const std::array<int, Rank>& extents, unsigned mask) {
  int size = 1;
  for (const int extent : extents) size *= extent;
  const auto coordinate = [&](int r, std::size_t dimension) {
    for (std::size_t i = Rank - 1; i > dimension; --i) r /= extents[i];
    return r % extents[dimension];
  };
  std::vector<int> found;
  for (int other = 0; other < size; ++other) {
    bool same = true;
    for (std::size_t i = 0; i < Rank; ++i)
      if (!(mask >> i & 1) && coordinate(other, i) != coordinate(rank, i)) same = false;
    if (same) found.push_back(other);
  }
  return found;
}

template <class MeshType>
void check_mesh(const hg::Communicator& world, typename hg::DeviceMesh<MeshType>::Coordinate extents) {
  const auto mesh = hg::device_mesh<MeshType>(world, extents);
  const int rank = world.rank();
  CHECK(mesh.rank() == rank);
  CHECK(mesh.size() == world.size());
  CHECK(mesh.rank_of(mesh.coordinates()) == rank);
  CHECK(mesh.world().size() == world.size());
  CHECK_FALSE(mesh.is_dry());
  const auto dry = hg::dry_mesh<MeshType>(extents, rank);
  CHECK(dry.coordinates() == mesh.coordinates());
  CHECK(dry.extents() == mesh.extents());
  for (unsigned mask = 0; mask < 1u << MeshType::rank; ++mask) {
    CAPTURE(mask);
    const hg::Communicator& comm = mesh.communicator(mask);
    const std::vector<int> expected = members(rank, extents, mask);
    REQUIRE(comm.size() == int(expected.size()));
    CHECK(expected[comm.rank()] == rank);
    std::vector<int> found(comm.size());
    comm.all_gather(&rank, sizeof rank, found.data());
    CHECK(found == expected);
    CHECK(comm.transport_name() == (comm.size() == 1 ? "self" : support::is_over_nccl() ? "nccl" : "mpi"));
    CHECK_FALSE(dry.communicator(mask));
  }
}

}  // namespace

TEST_CASE("every sub-mesh of every mesh that fits") {
  hg::Environment env;
  const int size = env.world().size();
  check_mesh<Line>(env.world(), {size});
  for (int a = 1; a <= size; ++a) {
    if (size % a != 0) continue;
    check_mesh<Plane>(env.world(), {a, size / a});
    for (int b = 1; b <= size / a; ++b)
      if (size / a % b == 0) check_mesh<Space>(env.world(), {a, b, size / a / b});
  }
}

TEST_CASE("a mesh on a communicator whose ranks are not those of the world") {
  hg::Environment env;
  const int size = env.world().size(), rank = env.world().rank();
  const hg::Communicator reversed = env.world().split(0, -rank, "reversed");
  CHECK(reversed.rank() == size - 1 - rank);
  if (size % 2 == 0) check_mesh<Plane>(reversed, {2, size / 2});
  check_mesh<Plane>(reversed, {size, 1});
}

TEST_CASE("neighbours along a mesh dimension are not the next ranks of the world") {
  ONLY_ON_RANKS(2, 4, 6, 8);
  hg::Environment env;
  const int size = env.world().size(), rank = env.world().rank();
  const int columns = size / 2;
  const auto mesh = hg::device_mesh<Plane>(env.world(), {2, -1});
  CHECK(mesh.extents() == std::array<int, 2>{2, columns});
  CHECK(mesh.coordinate(0) == rank / columns);
  CHECK(mesh.coordinate(1) == rank % columns);
  const hg::Communicator& along = mesh.communicator_of<"height">();
  const int other = 1 - along.rank();
  int met = -1, own = rank;
  const hg::Transfer send[] = {{other, &own, sizeof own}}, receive[] = {{other, &met, sizeof met}};
  hg::Exchange exchange = along.prepare(receive, send, "up and down");
  exchange.start(), exchange.wait();
  CHECK(met == (rank + columns) % size);
  CHECK(mesh.rank_of({1 - mesh.coordinate(0), mesh.coordinate(1)}) == met);
}

TEST_CASE("names, masks, identity") {
  hg::Environment env;
  const auto mesh = hg::device_mesh<Space>(env.world(), {1, -1, 1});
  static_assert(decltype(mesh)::index_of<"width"> == 2 && decltype(mesh)::dimensions == 3);
  CHECK(mesh.extent(1) == env.world().size());
  CHECK(mesh.communicator_of<"height">() == mesh.communicator(2));
  CHECK(mesh.communicator_of<"data", "width">() == mesh.communicator(5));
  CHECK(mesh.communicator_of<>() == mesh.communicator(0));
  CHECK(mesh.communicator(7) == mesh.world());
  CHECK(mesh.communicator(7) == mesh.communicator(2));  // data and width have nobody else
  if (env.world().size() > 1) CHECK(mesh.communicator(3).label() == "mesh height");
  const auto copy = mesh;
  CHECK(copy == mesh);
  CHECK(copy != hg::device_mesh<Space>(env.world(), {1, -1, 1}));
#ifdef HALOGEN_WITH_MPI
  const auto before = pmpi::counts.communicators;
  hg::device_mesh<Space>(env.world(), {1, -1, 1});
  if (!support::is_over_nccl()) CHECK(pmpi::counts.communicators - before == (env.world().size() > 1 ? 1 : 0));
#endif
}

TEST_CASE("a mesh that does not fit is refused on all ranks in the same words") {
  hg::Environment env;
  const int size = env.world().size();
  const std::string n = std::to_string(size), started = n + (size == 1 ? " was" : " were") + " started";
  const auto refusal = [&]<class MeshType>(MeshType, typename hg::DeviceMesh<MeshType>::Coordinate extents) {
    try {
      hg::device_mesh<MeshType>(env.world(), extents);
    } catch (const hg::CollectiveError& error) {
      return std::string(error.what());
    }
    return std::string("it was made");
  };
  CHECK(refusal(Plane{}, {5, 7}) == "mesh 5 x 7 (height x width) needs 35 ranks, but " + started +
                                        ": use mpirun -n 35, or a mesh whose extents multiply to " + n);
  CHECK(refusal(Plane{}, {-1, 7}) == "mesh -1 x 7 (height x width) needs a multiple of 7 ranks, but " + started +
                                         ": use mpirun -n 7, or a mesh whose extents multiply to " + n);
  if (size > 1)
    CHECK(refusal(Line{}, {1}) == "mesh 1 (height) needs 1 rank, but " + started +
                                      ": use mpirun -n 1, or a mesh whose extents multiply to " + n);
  CHECK(refusal(Space{}, {1, 0, 2}) ==
        "mesh 1 x 0 x 2 (data x height x width) has extent 0 in height: use positive "
        "extents, or -1 for the one to be inferred");
  CHECK(refusal(Plane{}, {1, -3}) ==
        "mesh 1 x -3 (height x width) has extent -3 in width: use positive extents, or -1 "
        "for the one to be inferred");
  CHECK(refusal(Plane{}, {-1, -1}) ==
        "mesh -1 x -1 (height x width) leaves two extents to be inferred: at most one may be -1");
  CHECK(refusal(Space{}, {2000000000, 2000000000, 2000000000})
            .ends_with("needs more ranks than can be counted: use "
                       "smaller extents"));
  if (size > 1)
    CHECK(refusal(Plane{}, {env.world().rank() == 0 ? 1 : size, -1}) ==
          "mesh extent 0 is 1 on one rank and " + n + " on another: give all ranks the same mesh");
}

TEST_CASE("a dry mesh has any number of ranks and no communicators") {
  const auto mesh = hg::dry_mesh<Space>({8, 64, 128}, 64 * 128 + 3 * 128 + 5);
  CHECK(mesh.coordinates() == std::array<int, 3>{1, 3, 5});
  CHECK(mesh.size() == 65536);
  CHECK(mesh.is_dry());
  CHECK(mesh.world().size() == 0);
  CHECK_THROWS_WITH_AS(hg::dry_mesh<Line>({3}, 3), "rank 3 is not in a mesh of 3 ranks", hg::Error);
  CHECK_THROWS_WITH_AS(hg::dry_mesh<Line>({-1}),
                       "mesh -1 (height) leaves an extent to be inferred, but there are no "
                       "ranks to count",
                       hg::CollectiveError);
}

}  // namespace test_device_mesh
