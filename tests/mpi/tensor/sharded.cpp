// transports: mpi nccl
// label: single
// program: collectives
// Sharded fields: pieces and the whole, copies that share and clones that do not, margins, refusals. On 2-D meshes with
// uneven and hierarchical cuts.
#include "halogen/tensor/sharded.hpp"

#include <doctest/doctest.h>

#include <numeric>

#include "halogen/tensor/distribute.hpp"
#include "support/grid.hpp"
#include "support/refusal.hpp"

namespace test_sharded {

namespace hg = halogen;

namespace {

using support::Grid;
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, 3>, Grid, hg::Shard<0>, hg::Shard<0>>;  // both cut dimension 0
using Columns = hg::Sharded<hg::Tensor<double, 2, hg::dyn>, Grid, hg::Replicate, hg::Shard<1>>;

hg::Communicator world() { return support::grid_world(); }
support::Meshes<Grid> meshes() { return support::grids(); }

template <class T>
std::vector<T> counted(std::size_t n, int from = 0) {
  std::vector<T> values(n);
  std::iota(values.begin(), values.end(), static_cast<T>(from));
  return values;
}

/// Each owned point has the value of its global row-major index, and the pieces are torch.chunk's.
template <class Field>
void check_piece(const Field& field, hg::index_t first) {
  const std::vector<typename Field::value_type> piece = field.to_host();
  const auto shape = field.local_shape();
  REQUIRE(static_cast<hg::index_t>(piece.size()) == shape[0] * shape[1]);
  bool right = true;
  for (hg::index_t i = 0; i < shape[0]; ++i)
    for (hg::index_t j = 0; j < shape[1]; ++j)
      right = right && piece[static_cast<std::size_t>(i * shape[1] + j)] ==
                           static_cast<double>(first + (field.offset(0) + i) * field.extent(1) + field.offset(1) + j);
  CHECK(right);
}

bool says(const std::string& sentence, const std::string& words) { return sentence.find(words) != std::string::npos; }

}  // namespace

TEST_CASE("distribute_tensor gives each rank its chunk, full_tensor puts them together again") {
  for (const auto& mesh : meshes())
    for (int source = 0; source < world().size(); source += 2) {
      CAPTURE(mesh.extent(0));
      CAPTURE(source);
      const bool speaks = world().rank() == source;  // what others pass does not count
      const Plane plane =
          hg::distribute_tensor<Plane>(mesh, {11, 13}, counted<double>(speaks ? 143 : 0, 5), {.source_rank = source});
      for (int d = 0; d < 2; ++d) {
        CHECK(plane.offset(d) == hg::chunk_offset(plane.extent(d), mesh.extent(d), mesh.coordinate(d)));
        CHECK(plane.local_extent(d) ==
              hg::chunk_offset(plane.extent(d), mesh.extent(d), mesh.coordinate(d) + 1) - plane.offset(d));
      }
      check_piece(plane, 5);
      CHECK(hg::full_tensor(plane) == counted<double>(143, 5));
    }
}

TEST_CASE("two mesh dimensions cut one tensor dimension; a replicated one cuts nothing") {
  for (const auto& mesh : meshes()) {
    CAPTURE(mesh.extent(0));
    const Rows rows = hg::distribute_tensor<Rows>(mesh, {14, 3}, counted<float>(42));
    CHECK(rows.offset(0) == hg::chunk_offset(14, world().size(), world().rank()));  // row-major over the mesh
    CHECK(rows.local_extent(1) == 3);
    check_piece(rows, 0);
    CHECK(hg::full_tensor(rows) == counted<float>(42));
    const Columns columns = hg::distribute_tensor<Columns>(mesh, {2, 13}, counted<double>(26));
    CHECK(columns.local_extent(0) == 2);
    CHECK(columns.offset(1) == hg::chunk_offset(13, mesh.extent(1), mesh.coordinate(1)));
    check_piece(columns, 0);
    CHECK(hg::full_tensor(columns) == counted<double>(26));
  }
}

TEST_CASE("from_local takes this rank's piece as it is, without communication") {
  for (const auto& mesh : meshes()) {
    const auto before = hg::comm_stats();
    const Plane expected(mesh, {11, 13});
    const auto points = static_cast<std::size_t>(expected.local_extent(0) * expected.local_extent(1));
    const Plane plane = hg::from_local<Plane>(mesh, {11, 13}, counted<double>(points, 100 * mesh.rank()));
    CHECK(hg::comm_stats() == before);
    CHECK(plane.to_host() == counted<double>(points, 100 * mesh.rank()));
    CHECK(says(support::refusal<hg::Error>([&] {
                 hg::from_local<Plane>(mesh, {11, 13}, counted<double>(points + 1));
               }),
               std::to_string(points) + " points, but " + std::to_string(points + 1)));
  }
}

TEST_CASE("explicit cuts, however uneven; pieces may be empty") {
  const auto mesh = hg::device_mesh<Grid>(world(), {1, -1});
  std::array<hg::Cut, 2> cuts;
  cuts[0].bounds = {0, 4};
  cuts[1].bounds.assign(static_cast<std::size_t>(world().size()), 0);  // the last rank has all
  cuts[1].bounds.push_back(9);
  Plane plane(mesh, cuts);
  CHECK(plane.local_extent(1) == (world().rank() + 1 == world().size() ? 9 : 0));
  const auto points = static_cast<std::size_t>(4 * plane.local_extent(1));
  plane.copy_from_host(counted<double>(points));
  CHECK(hg::full_tensor(plane) == counted<double>(36));
}

TEST_CASE("copies share, clones do not, assignment rebinds") {
  const auto mesh = meshes().front();
  Plane a = hg::distribute_tensor<Plane>(mesh, {11, 13}, counted<double>(143));
  Plane shared = a;
  const Plane deep = a.clone();
  const std::vector<double> zeros(a.to_host().size());
  shared.copy_from_host(zeros);
  CHECK(a.to_host() == zeros);  // written through the other handle
  check_piece(deep, 0);
  a = deep;
  check_piece(a, 0);
  CHECK(shared.to_host() == zeros);  // what a was before
  Kokkos::deep_copy(a.to_local(), 7.0);
  CHECK(deep.to_host() == std::vector<double>(zeros.size(), 7.0));  // to_local is no copy
}

TEST_CASE("memory that a view of a field shows is not given to the next field") {
  const auto mesh = meshes().front();
  const auto view_of_a_field = [&] {
    return hg::distribute_tensor<Plane>(mesh, {11, 13}, counted<double>(143)).to_local();
  };
  const auto shown = view_of_a_field();
  const Plane next(mesh, {11, 13});
  CHECK(next.to_local().data() != shown.data());
}

TEST_CASE("a margin grows once, for all copies, and keeps the values") {
  for (const auto& mesh : meshes()) {
    const Plane plane = hg::distribute_tensor<Plane>(mesh, {11, 13}, counted<double>(143));
    const Plane copy = plane;
    const auto height = plane.local_extent(0), width = plane.local_extent(1);
    plane.reserve_margin({{{1, 2}, {3, 0}}});
    CHECK(plane.margin_growths() == 1);
    CHECK(copy.margin_growths() == 1);
    CHECK(static_cast<hg::index_t>(copy.storage().view.extent(0)) == 1 + height + 2);
    CHECK(static_cast<hg::index_t>(copy.storage().view.extent(1)) == 3 + width);
    check_piece(copy, 0);
    plane.reserve_margin({{{1, 1}, {2, 0}}});  // there is room already
    CHECK(plane.margin_growths() == 1);
    plane.reserve_margin({{{0, 0}, {0, 4}}});  // never shrinks on the other sides
    CHECK(copy.margin_growths() == 2);
    CHECK(copy.storage().margins[0].lo == 1);
    CHECK(copy.storage().margins[0].hi == 2);
    CHECK(copy.storage().margins[1].lo == 3);
    CHECK(copy.storage().margins[1].hi == 4);
    check_piece(plane, 0);
    const Plane clone = plane.clone();  // has its own, none
    CHECK(clone.margin_growths() == 0);
    check_piece(clone, 0);
    CHECK(hg::full_tensor(plane) == counted<double>(143));
  }
}

TEST_CASE("what only the run can know is refused with its numbers, before anything is allocated") {
  const auto mesh = meshes().front();
  CHECK(says(support::refusal<hg::Error>([&] { Plane(mesh, {0, 13}); }), "extent 0 of dimension 0 is not positive"));
  CHECK(says(support::refusal<hg::Error>([&] { Plane(mesh, {4, -13}); }), "extent -13 of dimension 1"));
  CHECK(says(support::refusal<hg::Error>([&] {
               Rows(mesh, {14, 4});
             }),
             "dimension 1 has 4 points, but its type says 3"));
  std::array<hg::Cut, 2> cuts{hg::Cut::chunk(40, world().size() + 1), hg::Cut::chunk(13, mesh.extent(1))};
  CHECK(says(support::refusal<hg::Error>([&] { Plane(mesh, cuts); }),
             "cut into " + std::to_string(world().size() + 1) + " pieces"));
  cuts = {hg::Cut::chunk(40, mesh.extent(0)), hg::Cut::chunk(13, mesh.extent(1))};
  cuts[0].bounds.front() = -1;
  CHECK(says(support::refusal<hg::Error>([&] { Plane(mesh, cuts); }), "a cut of dimension 0 has bounds that do not"));
  cuts[0] = hg::Cut::of_sizes(std::vector<hg::index_t>(static_cast<std::size_t>(mesh.extent(0)), 0));
  CHECK(says(support::refusal<hg::Error>([&] { Plane(mesh, cuts); }), "extent 0 of dimension 0 is not positive"));
  CHECK(says(support::refusal<hg::Error>([&] { hg::with_sizes<Plane>(mesh, {0, 13}, {}); }), "extent 0 of dimension"));
  CHECK(says(support::refusal<hg::Error>([&] {
               hg::distribute_tensor<Plane>(mesh, {11, 13}, counted<double>(143), {.source_rank = world().size()});
             }),
             "distribute_tensor from rank " + std::to_string(world().size()) + " of"));
  const std::string short_of = support::refusal<hg::Error>([&] {
    hg::distribute_tensor<Plane>(mesh, {11, 13}, counted<double>(142));
  });
  CHECK(says(short_of, "needs 143 values on rank 0, but has 142"));  // and so on every rank
  Plane plane(mesh, {11, 13});
  const auto points = plane.to_host().size();
  CHECK(says(support::refusal<hg::Error>([&] { plane.copy_from_host(counted<double>(points + 1)); }),
             std::to_string(points) + " points"));
}

TEST_CASE("explicit and inferred sizes, and what does not add up") {
  using Line = hg::Mesh<"line">;
  using Rows = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
  const auto world = support::grid_world();
  const auto mesh = hg::device_mesh<Line>(world, {-1});
  std::vector<hg::index_t> sizes;
  hg::index_t rows = 0;
  for (int r = 0; r < world.size(); ++r) rows += sizes.emplace_back(r % 3);  // the first has none
  sizes.back() += 2;
  rows += 2;
  const auto explicit_sizes = hg::with_sizes<Rows>(mesh, {rows, 3}, {sizes, {}});
  CHECK(explicit_sizes.local_extent(0) == sizes[static_cast<std::size_t>(world.rank())]);
  const auto own = static_cast<std::size_t>(3 * sizes[static_cast<std::size_t>(world.rank())]);
  const auto inferred = hg::from_local_inferred<Rows>(mesh, {sizes[static_cast<std::size_t>(world.rank())], 3},
                                                      std::vector<double>(own, world.rank() + 1.0));
  CHECK(inferred.cuts() == explicit_sizes.cuts());
  CHECK(inferred.extent(0) == rows);
  CHECK_THROWS_WITH_AS(hg::with_sizes<Rows>(mesh, {rows + 1, 3}, {sizes, {}}),
                       ("explicit sizes of dimension 0 add up to " + std::to_string(rows) + ", but the field has " +
                        std::to_string(rows + 1) + " points: make them agree")
                           .c_str(),
                       hg::CollectiveError);
  sizes.push_back(0);
  CHECK_THROWS_AS(hg::with_sizes<Rows>(mesh, {rows, 3}, {sizes, {}}), hg::CollectiveError);
  if (world.size() > 1) {
    CHECK_THROWS_WITH_AS(
        hg::from_local_inferred<Rows>(mesh, {2, 3 + world.rank()}, {}),
        "ranks that hold the same piece of dimension 1 have 3 and 4 points of it: give them pieces of one size",
        hg::CollectiveError);
    sizes.pop_back();
    if (world.rank() == 0) std::swap(sizes.front(), sizes.back());
    CHECK_THROWS_WITH_AS(hg::full_tensor(hg::with_sizes<Rows>(mesh, {rows, 3}, {sizes, {}})),
                         "a field is cut otherwise on one rank than on another: give all ranks the same cuts",
                         hg::CollectiveError);
  }
  CHECK_NOTHROW(hg::require_finite(inferred, "rows"));
  auto broken = inferred.clone();
  std::vector<double> piece = broken.to_host();
  if (world.rank() == world.size() - 1) piece.back() = std::nan("");
  broken.copy_from_host(piece);
  CHECK_THROWS_WITH_AS(
      hg::require_finite(broken, "rows"),
      ("rows is nan at (" + std::to_string(rows - 1) + ", 2): check the data or the time step").c_str(),
      hg::CollectiveError);
}

}  // namespace test_sharded
