// transports: mpi nccl
// program: redistribution
// redistribute between every pair of placements on meshes of one and two dimensions: every value, and every byte
// against the least that there must be. tests/mpi/halo/redistribute_cubes.cpp does the same on three.
//

#include "halogen/halo/redistribute.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <optional>
#include <tuple>
#include <vector>

#include "halogen/halo/copy_block.hpp"
#include "halogen/tensor/distribute.hpp"
#include "support/redistribution.hpp"

namespace test_redistribute {

namespace {

namespace hg = halogen;
using support::columns, support::rows;

hg::Communicator world() { return support::redistribution_world(); }

template <class Mesh, class... P>
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Mesh, P...>;

using R = hg::Replicate;
using S0 = hg::Shard<0>;
using S1 = hg::Shard<1>;
using P = hg::Partial<hg::Sum>;

/// A field cut as torch.chunk, or with pieces of all sizes, some empty.
template <class Field>
Field field_on(const hg::DeviceMesh<typename Field::mesh_type>& mesh, int salt) {
  if (salt == 0) return Field(mesh, {rows, columns});
  const hg::Decomposition pieces(mesh.extents(), Field::placements, Field::mesh_type::names);
  return Field(mesh,
               {support::uneven(rows, pieces.parts(0), salt), support::uneven(columns, pieces.parts(1), salt + 1)});
}

template <class Source, class Target>
void check(const Source& source, const Target& target) {
  const support::RedistributionLaw law(support::placed(source), support::placed(target));
  law.check(source, target, [&] { hg::redistribute_to(source, target); });
}

/// A list of placements.
template <class... All>
struct Placements {};

template <class Mesh, class... From, class... To>
void check_pair(const hg::DeviceMesh<Mesh>& mesh, Placements<From...>, Placements<To...>) {
  for (int salt : {0, 1})
    check(field_on<Plane<Mesh, From...>>(mesh, salt), field_on<Plane<Mesh, To...>>(mesh, 2 * salt));
}

template <class Mesh, class... All>
void check_all(const hg::DeviceMesh<Mesh>& mesh, std::tuple<All...>) {
  const auto from = [&](auto first) { (check_pair(mesh, first, All{}), ...); };
  (from(All{}), ...);
}

using Pairs = std::tuple<Placements<R, R>, Placements<R, S0>, Placements<R, S1>, Placements<R, P>,  //
                         Placements<S0, R>, Placements<S0, S0>, Placements<S0, S1>, Placements<S0, P>,
                         Placements<S1, R>, Placements<S1, S0>, Placements<S1, S1>, Placements<S1, P>, Placements<P, R>,
                         Placements<P, S0>, Placements<P, S1>, Placements<P, P>>;

}  // namespace

TEST_CASE("one mesh dimension: all 16 pairs") {
  const auto mesh = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  check_all(mesh, std::tuple<Placements<R>, Placements<S0>, Placements<S1>, Placements<P>>{});
}

TEST_CASE("two mesh dimensions: all 256 pairs") {
  for (int a = 1; a <= world().size(); ++a)
    if (world().size() % a == 0) check_all(hg::device_mesh<hg::Mesh<"a", "b">>(world(), {a, -1}), Pairs{});
}

TEST_CASE("another mesh shape of the same ranks") {
  const int two = world().size() % 2 == 0 ? 2 : 1;
  using Cube = hg::Mesh<"a", "b", "c">;
  const auto cube = hg::device_mesh<Cube>(world(), {1, two, -1});
  const auto line = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  for (int salt : {0, 1}) {
    const auto to_line = [&](const auto& source) {
      check(source, field_on<Plane<hg::Mesh<"a">, S1>>(line, salt));
      check(source, field_on<Plane<hg::Mesh<"a">, R>>(line, salt));
      check(source, field_on<Plane<hg::Mesh<"a">, P>>(line, salt));
    };
    to_line(field_on<Plane<Cube, S0, R, S1>>(cube, salt));
    to_line(field_on<Plane<Cube, P, R, S1>>(cube, salt));
    to_line(field_on<Plane<Cube, S0, P, P>>(cube, salt));
  }
}

TEST_CASE("redistribute chunks the target on the source's mesh") {
  const auto mesh = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  std::vector<double> values(rows * columns);
  std::iota(values.begin(), values.end(), 1.0);
  const auto by_rows = hg::distribute_tensor<Plane<hg::Mesh<"a">, S0>>(mesh, {rows, columns}, values);
  const auto by_columns = hg::redistribute<Plane<hg::Mesh<"a">, S1>>(by_rows);
  CHECK(by_columns.cut(1) == hg::Cut::chunk(columns, world().size()));
  CHECK(hg::full_tensor(by_columns) == values);
  CHECK(hg::full_tensor(hg::redistribute<Plane<hg::Mesh<"a">, R>>(by_columns)) == values);
}

TEST_CASE("strips that begin where a work item of their copy begins") {
  const hg::index_t tall = hg::rows_per_item * world().size();
  const auto mesh = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  std::vector<double> values(static_cast<std::size_t>(tall * columns));
  std::iota(values.begin(), values.end(), 1.0);
  const auto by_rows = hg::distribute_tensor<Plane<hg::Mesh<"a">, S0>>(mesh, {tall, columns}, values);
  CHECK(hg::full_tensor(hg::redistribute<Plane<hg::Mesh<"a">, S1>>(by_rows)) == values);
}

TEST_CASE("what some of the ranks redistribute meanwhile does not change what all of them keep") {
  // On the mesh of all ranks more shapes than are kept, and again those that just still are. Ranks that prepared one of
  // these anew while others kept theirs would wait for them.
  using Mesh = hg::Mesh<"a">;
  const auto some = world().split(world().rank() < 2 ? 0 : -1, world().rank(), "some");
  const auto all = hg::device_mesh<Mesh>(world(), {-1});
  std::optional<hg::DeviceMesh<Mesh>> part;
  if (some) part = hg::device_mesh<Mesh>(some, {-1});
  const auto moves = [](const hg::DeviceMesh<Mesh>& mesh, hg::index_t extent) {
    std::vector<double> values(static_cast<std::size_t>(rows * extent));
    std::iota(values.begin(), values.end(), 1.0);
    const auto by_rows = hg::distribute_tensor<Plane<Mesh, S0>>(mesh, {rows, extent}, values);
    const auto by_columns = hg::redistribute<Plane<Mesh, S1>>(by_rows);
    Plane<Mesh, S0> block(mesh, {rows, extent});
    hg::copy_block(by_columns, block, {0, 0}, {0, 0}, {rows, extent});
    return hg::full_tensor(block) == values;
  };
  for (hg::index_t extent = 3; extent < 3 + 50; ++extent) {
    CHECK(moves(all, extent));
    if (part && extent % 3 == 0) CHECK(moves(*part, extent));
    for (const hg::index_t before : {14, 30}) CHECK(moves(all, std::max<hg::index_t>(3, extent - before)));
  }
}

TEST_CASE("any value type that is not added, and every one that is") {
  const auto mesh = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  const auto cut = [&]<class T>(T) {
    using Rows = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, hg::Mesh<"a">, S0>;
    using Columns = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, hg::Mesh<"a">, S1>;
    std::vector<T> values(rows * columns);
    std::iota(values.begin(), values.end(), T(1));
    CHECK(hg::full_tensor(hg::redistribute<Columns>(hg::distribute_tensor<Rows>(mesh, {rows, columns}, values))) ==
          values);
  };
  cut(std::int16_t{}), cut(char{}), cut(float{}), cut(std::int64_t{});
  const auto added = [&]<class T>(T) {
    using Summands = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, hg::Mesh<"a">, P>;
    using Columns = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, hg::Mesh<"a">, S1>;
    std::vector<T> values(rows * columns);
    std::iota(values.begin(), values.end(), T(1));
    const auto sum = hg::redistribute<Columns>(hg::from_local<Summands>(mesh, {rows, columns}, values));
    for (T& value : values) value *= T(world().size());
    CHECK(hg::full_tensor(sum) == values);
  };
  added(float{}), added(double{}), added(std::int64_t{}), added(int{});
}

TEST_CASE("other extents are refused on all ranks, before anything moves") {
  const auto mesh = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  const Plane<hg::Mesh<"a">, S0> by_rows(mesh, {rows, columns});
  const Plane<hg::Mesh<"a">, S1> shorter(mesh, {rows, columns - 1});
  const hg::CommStatistics before = hg::comm_stats();
  CHECK_THROWS_WITH_AS(hg::redistribute_to(by_rows, shorter),
                       "redistribute from 11 to 10 points in dimension 1: a field keeps its extents",
                       hg::CollectiveError);
  hg::CommStatistics spent = hg::comm_stats() - before;
  spent.checks = {};  // that all ranks mean the same fields
  CHECK(spent == hg::CommStatistics{});
}

TEST_CASE("meshes that number their ranks otherwise are refused on all ranks, before anything moves") {
  FROM_RANKS(2);
  const auto turned = world().split(0, -world().rank(), "turned");
  const auto mesh = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  const auto other = hg::device_mesh<hg::Mesh<"a">>(turned, {-1});
  const Plane<hg::Mesh<"a">, S0> by_rows(mesh, {rows, columns});
  const Plane<hg::Mesh<"a">, S1> elsewhere(other, {rows, columns});
  const auto before = hg::comm_stats().messages;
  const std::string sentence = "redistribute: the rank that is 0 of one mesh is " + std::to_string(world().size() - 1) +
                               " of the other: make both over communicators that number the ranks alike";
  CHECK_THROWS_WITH_AS(hg::redistribute_to(by_rows, elsewhere), sentence.c_str(), hg::CollectiveError);
  CHECK_THROWS_AS(
      hg::copy_block(by_rows, Plane<hg::Mesh<"a">, S0>(other, {rows, columns}), {0, 0}, {0, 0}, {rows, columns}),
      hg::CollectiveError);
  CHECK(hg::comm_stats().messages == before);
}

}  // namespace test_redistribute
