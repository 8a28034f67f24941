// redistribute between every pair of placements on meshes of one, two and three dimensions: values, and bytes against
// the lower bound: the points that a rank must hold and does not.
#include <doctest/doctest.h>

#include <halogen/halogen.hpp>
#include <numeric>
#include <tuple>
#include <vector>

namespace {

hg::Communicator world() {
  static hg::Environment environment;
  return environment.world();
}

constexpr hg::index_t rows = 7, columns = 11;

std::vector<double> ramp() {
  std::vector<double> values(static_cast<std::size_t>(rows * columns));
  std::iota(values.begin(), values.end(), 1.0);
  return values;
}

/// Whether `rank` owns (y, x).
template <class Field>
bool owns(const Field& field, int rank, hg::index_t y, hg::index_t x) {
  const auto pieces = field.decomposition();
  const hg::Interval ys = field.cut(0).piece(pieces.part(rank, 0)), xs = field.cut(1).piece(pieces.part(rank, 1));
  return y >= ys.begin && y < ys.end && x >= xs.begin && x < xs.end;
}

template <class Source, class Target>
void check(const Source& source, const Target& target) {
  const auto before = hg::comm_stats();
  const Target moved = hg::redistribute_to(source, target);
  std::int64_t sent = (hg::comm_stats() - before).messages.bytes;
  world().all_reduce(&sent, 1);
  std::int64_t lacking = 0;
  for (int r = 0; r < world().size(); ++r)
    for (hg::index_t y = 0; y < rows; ++y)
      for (hg::index_t x = 0; x < columns; ++x) lacking += owns(target, r, y, x) && !owns(source, r, y, x);
  CHECK(sent == lacking * static_cast<std::int64_t>(sizeof(double)));
  CHECK((hg::comm_stats() - before).messages.count <= world().size() - 1);
  CHECK(hg::full_tensor(moved) == ramp());
}

template <class Mesh, class... P>
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Mesh, P...>;

using R = hg::Replicate;
using S0 = hg::Shard<0>;
using S1 = hg::Shard<1>;

/// Every pair of a list of placements, each a type list.
template <class... P>
struct Placements {};

template <class Mesh, class... P, class... Q>
void check_pair(const hg::DeviceMesh<Mesh>& mesh, Placements<P...>, Placements<Q...>) {
  const auto source = hg::distribute_tensor<Plane<Mesh, P...>>(mesh, {rows, columns}, ramp());
  check(source, Plane<Mesh, Q...>(mesh, {rows, columns}));
}
template <class Mesh, class... All>
void check_all(const hg::DeviceMesh<Mesh>& mesh, std::tuple<All...>) {
  const auto from = [&](auto first) { (check_pair(mesh, first, All{}), ...); };
  (from(All{}), ...);
}

}  // namespace

TEST_CASE("one mesh dimension") {
  const auto mesh = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  check_all(mesh, std::tuple<Placements<R>, Placements<S0>, Placements<S1>>{});
}

TEST_CASE("two mesh dimensions, both may cut one") {
  for (int a = 1; a <= world().size(); ++a) {
    if (world().size() % a != 0) continue;
    const auto mesh = hg::device_mesh<hg::Mesh<"a", "b">>(world(), {a, -1});
    check_all(
        mesh,
        std::tuple<Placements<S0, S1>, Placements<S1, S0>, Placements<S0, S0>, Placements<R, S1>, Placements<R, R>>{});
  }
}

TEST_CASE("three mesh dimensions, another mesh shape, explicit cuts") {
  const int two = world().size() % 2 == 0 ? 2 : 1;
  const auto cube = hg::device_mesh<hg::Mesh<"a", "b", "c">>(world(), {1, two, -1});
  const auto line = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  const auto source = hg::distribute_tensor<Plane<hg::Mesh<"a", "b", "c">, S0, R, S1>>(cube, {rows, columns}, ramp());
  check(source, Plane<hg::Mesh<"a">, S1>(line, {rows, columns}));
  hg::Cut uneven;  // all columns but the last few on the first rank
  uneven.bounds.assign(1, 0);
  for (int r = 0; r < world().size(); ++r)
    uneven.bounds.push_back(r + 1 == world().size() ? columns : std::min<hg::index_t>(columns - 1, 6 + r));
  const Plane<hg::Mesh<"a">, S1> explicit_cuts(line, {hg::Cut::chunk(rows, 1), uneven});
  check(source, explicit_cuts);
}

TEST_CASE("prepared once, used again, with work in between") {
  const auto mesh = hg::device_mesh<hg::Mesh<"a">>(world(), {-1});
  auto by_rows = hg::distribute_tensor<Plane<hg::Mesh<"a">, S0>>(mesh, {rows, columns}, ramp());
  const Plane<hg::Mesh<"a">, S1> by_columns(mesh, {rows, columns});
  hg::Redistribution<Plane<hg::Mesh<"a">, S1>, Plane<hg::Mesh<"a">, S0>> redistribution(by_rows, by_columns);
  for (int round = 1; round <= 3; ++round) {
    redistribution.start(by_rows);
    by_rows += 1.0;  // what has been packed may be written again
    redistribution.finish(by_columns);
    std::vector<double> expected = ramp();
    for (double& value : expected) value += round - 1;
    CHECK(hg::full_tensor(by_columns) == expected);
  }
  const Plane<hg::Mesh<"a">, S1> shorter(mesh, {rows, columns - 1});
  CHECK_THROWS_AS(hg::redistribute_to(by_rows, shorter), hg::CollectiveError);
}
