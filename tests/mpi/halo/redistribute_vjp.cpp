// program: redistribution
// redistribute_vjp: placements of the gradient, and <f(x), y> = <x, vjp(y)> over all ranks. Whole numbers: exact.
#include "halogen/halo/redistribute_vjp.hpp"

#include <doctest/doctest.h>

#include <numeric>
#include <tuple>
#include <type_traits>
#include <vector>

#include "support/redistribution.hpp"

namespace test_redistribute_vjp {

namespace {

namespace hg = halogen;
using support::columns, support::rows;

hg::Communicator world() { return support::redistribution_world(); }

template <class Mesh, class... P>
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Mesh, P...>;
using Line = hg::Mesh<"a">;
using Grid = hg::Mesh<"a", "b">;
using R = hg::Replicate;
using S0 = hg::Shard<0>;
using S1 = hg::Shard<1>;
using P = hg::Partial<hg::Sum>;

static_assert(std::is_same_v<hg::gradient_field_t<Plane<Grid, R, S1>>, Plane<Grid, P, S1>>);
static_assert(std::is_same_v<hg::gradient_field_t<hg::gradient_field_t<Plane<Grid, P, R>>>, Plane<Grid, P, R>>);

/// Unevenly cut; equal on replicas, any summands.
template <class Field>
Field filled(const hg::DeviceMesh<typename Field::mesh_type>& mesh, int seed) {
  const hg::Decomposition pieces(mesh.extents(), Field::placements, Field::mesh_type::names);
  Field field(mesh, {support::uneven(rows, pieces.parts(0), 1), support::uneven(columns, pieces.parts(1), 2)});
  const int k = hg::pieces_of(field).position(mesh.rank(), pieces.mask({hg::partial_code}));
  std::vector<double> values;
  support::for_each_point([&](const support::Point& x) {
    if (support::holds(hg::pieces_of(field).box(mesh.rank()), x)) values.push_back(support::summand(seed + k, x));
  });
  field.copy_from_host(values);
  return field;
}

template <class A, class B>
double sum_of_products(const A& a, const B& b) {
  const std::vector<double> u = a.to_host(), v = b.to_host();
  double sum = std::inner_product(u.begin(), u.end(), v.begin(), 0.0);
  world().all_reduce(&sum, 1);
  return sum;
}

template <class Source, class Target>
void check(const hg::DeviceMesh<typename Source::mesh_type>& mesh) {
  const Source x = filled<Source>(mesh, 0);
  const Target target = filled<Target>(mesh, 7);
  const auto y = filled<hg::gradient_field_t<Target>>(mesh, 13);
  hg::redistribute_to(x, target);
  const hg::gradient_field_t<Source> gradient = hg::redistribute_vjp(y, x);
  CHECK(gradient.cuts() == x.cuts());
  CHECK(sum_of_products(target, y) == sum_of_products(x, gradient));
  CHECK(sum_of_products(target, y) != 0);
}

template <class Mesh, class... P>
struct All {
  template <class F>
  static void for_each(F f) {
    (f(Plane<Mesh, P>()), ...);
  }
};

}  // namespace

TEST_CASE("all pairs on a line") {
  const auto mesh = hg::device_mesh<Line>(world(), {-1});
  using Fields = All<Line, R, S0, S1, P>;
  Fields::for_each([&]<class Source>(const Source&) {
    Fields::for_each([&]<class Target>(const Target&) { check<Source, Target>(mesh); });
  });
}

TEST_CASE("pairs on grids, and what they send") {
  for (int a = 1; a <= world().size(); ++a) {
    if (world().size() % a != 0) continue;
    const auto mesh = hg::device_mesh<Grid>(world(), {a, -1});
    check<Plane<Grid, P, S0>, Plane<Grid, S0, R>>(mesh);
    check<Plane<Grid, S1, R>, Plane<Grid, P, S1>>(mesh);
    check<Plane<Grid, R, P>, Plane<Grid, S0, S0>>(mesh);
    check<Plane<Grid, S0, S0>, Plane<Grid, S1, P>>(mesh);
    check<Plane<Grid, P, P>, Plane<Grid, S1, R>>(mesh);
    check<Plane<Grid, R, S1>, Plane<Grid, P, P>>(mesh);
  }
}

TEST_CASE("the gradient of a gather is one reduce_scatter, of a slice nothing") {
  const auto mesh = hg::device_mesh<Line>(world(), {-1});
  const bool alone = world().size() == 1;
  const auto bytes = static_cast<std::int64_t>(rows * columns * sizeof(double));
  const auto spent = [&](const auto& cotangent, const auto& source) {
    const hg::CommStatistics before = hg::comm_stats();
    hg::redistribute_vjp(cotangent, source);
    return hg::comm_stats() - before;
  };
  const auto sharded = filled<Plane<Line, S0>>(mesh, 0);
  hg::CommStatistics gather = spent(filled<Plane<Line, P>>(mesh, 1), sharded);  // of Shard<0> -> Replicate
  CHECK(gather.reduce_scatters == (alone ? hg::Tally{} : hg::Tally{1, bytes}));
  CHECK(gather.messages == hg::Tally{});
  const auto replicated = filled<Plane<Line, R>>(mesh, 0);
  hg::CommStatistics slice = spent(filled<Plane<Line, S0>>(mesh, 1), replicated);  // of Replicate -> Shard<0>
  slice.local_copies = {};
  CHECK(slice == hg::CommStatistics{});
}

}  // namespace test_redistribute_vjp
