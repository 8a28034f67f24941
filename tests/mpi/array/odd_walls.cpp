// program: expressions
// Walls of expressions: Odd, u(-i) = -u(i), and ConstantEdge, beside a loop's own indices, on every mesh, pieces
// without points included; gradients, iterate, stencils; and that with Odd a difference of fourth order is of fourth
// order at the wall.
//

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "support/array.hpp"

namespace test_odd_walls {

using namespace support;

namespace {

using hg::dyn, hg::Odd, hg::Periodic, hg::Reflect, hg::ReplicateEdge, hg::Zero;
using Five = hg::ConstantEdge<5>;
using Half = hg::ConstantEdge<-1, 2>;
template <class T>
using PlaneOf = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
using Plane = PlaneOf<double>;
using Line = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Replicate, hg::Shard<0>>;
using Cube = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn>, Grid, hg::Shard<2>, hg::Shard<0>>;

/// What index i of n points means with boundary B: factor * u(index) + added.
struct Seen {
  index_t index;
  double factor, added;
};
template <class B>
Seen seen(index_t i, index_t n) {
  if (i >= 0 && i < n) return {i, 1, 0};
  if constexpr (B::edge == hg::Edge::zero) return {0, 0, B::value};
  if constexpr (B::periodic) return {(i % n + n) % n, 1, 0};
  if constexpr (B::edge == hg::Edge::replicate) return {std::clamp<index_t>(i, 0, n - 1), 1, 0};
  return {i < 0 ? -i : 2 * (n - 1) - i, B::edge == hg::Edge::odd ? -1.0 : 1.0, 0};
}
/// a at any index; of two constants that of the first dimension.
template <class... B, class Numbers>
double at(const Numbers& a, Index<Numbers::rank> i) {
  double factor = 1, added = 0;
  bool outside = false;
  std::size_t d = 0;
  const auto one = [&](const Seen& dimension) {
    if (!outside && dimension.factor == 0) outside = true, added = dimension.added;
    factor *= dimension.factor;
    i[d++] = dimension.index;
  };
  (one(seen<B>(i[d], a.extents[d])), ...);
  return outside ? added : factor * a(i);
}

/// Reads up to three away, both ways, along both dimensions at once too, one of what was shifted.
template <class U>
auto wide(const U& u) {
  return hg::shift<0, -3>(u) - 2.0 * hg::shift<0, 2>(u) + 3.0 * hg::shift<1, 3>(u) - 4.0 * hg::shift<1, -1>(u) +
         5.0 * hg::shift<0, 1>(hg::shift<1, -2>(u)) - 6.0 * hg::shift<1, 2>(hg::shift<0, -1>(u));
}
template <class... B>
void check_values(const hg::DeviceMesh<Grid>& mesh, int way, const Index<2>& extents) {
  const auto a = numbers<double>(extents, 1);
  const Plane v = wide(hg::with_boundary<B...>(field<Plane>(mesh, a, way)));
  CHECK(error(v, extents, [&](auto i) {
          const auto there = [&](index_t y, index_t x) { return at<B...>(a, Index<2>{i[0] + y, i[1] + x}); };
          return there(-3, 0) - 2 * there(2, 0) + 3 * there(0, 3) - 4 * there(0, -1) + 5 * there(1, -2) -
                 6 * there(-1, 2);
        }) < 1e-13);
}

/// Fourth order: u'' along D.
template <int D, class U>
auto second_derivative(const U& u, double h) {
  return (16.0 * (hg::shift<D, 1>(u) + hg::shift<D, -1>(u)) - hg::shift<D, 2>(u) - hg::shift<D, -2>(u) - 30.0 * u) *
         (1 / (12 * h * h));
}
struct Fourth {
  using footprint = hg::Footprint<hg::At<0, -2>, hg::At<0, -1>, hg::At<0, 0>, hg::At<0, 1>, hg::At<0, 2>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T far_west, T west, T here, T east, T far_east) const {
    return 16.0 * (west + east) - far_west - far_east - 30.0 * here;
  }
};

/// Largest error of the Laplacian of sin(pi x) cos(2 pi y) + sin(3 pi x) between walls at x = 0 and x = 1.
template <class Wall>
double laplacian_error(const hg::DeviceMesh<Grid>& mesh, int way, index_t n) {
  const double pi = std::numbers::pi, h = 1 / static_cast<double>(n), k = 1 / 8.0;
  const auto u = [=](auto i, double by_x, double by_y, double third) {
    const double x = static_cast<double>(i[0]) * h, y = static_cast<double>(i[1]) * k;
    return (by_x + by_y) * std::sin(pi * x) * std::cos(2 * pi * y) + third * std::sin(3 * pi * x);
  };
  const Index<2> extents{n + 1, 8};
  const Array<double, 2> a(extents, [&](auto i) { return u(i, 1, 0, 1); });
  const auto w = hg::with_boundary<Wall, Periodic>(field<Plane>(mesh, a, way));
  const Plane found = second_derivative<0>(w, h);
  const double worst = error(found, extents, [&](auto i) { return u(i, -pi * pi, 0, -9 * pi * pi); });
  double all = worst;
  grid_world().all_reduce(&all, 1, hg::ReduceOp::max);
  return all;
}

template <class... B>
auto diffuse = [](const auto& field) {
  const auto u = hg::with_boundary<B...>(field);
  return u + 0.1 * (hg::shift<0, 1>(u) + hg::shift<0, -2>(u) + hg::shift<1, 2>(u) + hg::shift<1, -1>(u) - 4.0 * u) *
                 hg::cos(0.1 * hg::cast<double>(hg::global_index<1>(field)));
};
template <int N, class Step>
void check_iterate(const hg::DeviceMesh<Grid>& mesh, int way, const Index<2>& extents, Step step) {
  auto u = field<Plane>(mesh, numbers<double>(extents, 3), way), v = u;
  for (int t = 0; t < N; ++t) u = step(u);
  v = hg::iterate<N>(step, v);
  CHECK(hg::full_tensor(u) == hg::full_tensor(v));
}

/// Few reads: each is inlined into the gradient of each other.
template <class... B>
auto rough = [](auto v) {
  const auto u = hg::with_boundary<B...>(v);
  const auto along = hg::shift<0, -3>(u) - 2.0 * hg::shift<0, 2>(hg::shift<1, -1>(u));
  return hg::mean(hg::square(along) * hg::exp(0.3 * hg::shift<1, 2>(u)) + v * u);
};

}  // namespace

TEST_CASE("values: odd images, and constants, beside each other boundary") {
  for (const Index<2>& extents : {Index<2>{9, 11}, Index<2>{4, 5}})
    everywhere<Grid>([&](const auto& mesh, int way) {
      check_values<Odd, Odd>(mesh, way, extents);
      check_values<Odd, Periodic>(mesh, way, extents);
      check_values<Reflect, Odd>(mesh, way, extents);
      check_values<Odd, Zero>(mesh, way, extents);
      check_values<Five, Odd>(mesh, way, extents);
      check_values<Odd, Half>(mesh, way, extents);
      check_values<Five, Half>(mesh, way, extents);
      check_values<Half, Periodic>(mesh, way, extents);
      check_values<ReplicateEdge, Five>(mesh, way, extents);
    });
}

TEST_CASE("one dimension and three, other value types, slices and permutations of what lies beyond") {
  const auto a = numbers<double>(Index<1>{13}, 2);
  const auto b = numbers<double>(Index<3>{5, 4, 7}, 3);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = hg::with_boundary<Odd>(field<Line>(mesh, a, way));
    const Line v = hg::shift<0, 4>(u) - 3.0 * hg::shift<0, -2>(u);
    CHECK(error(v, {13}, [&](auto i) { return at<Odd>(a, Index<1>{i[0] + 4}) - 3 * at<Odd>(a, Index<1>{i[0] - 2}); }) <
          1e-15);
    const auto w = hg::with_boundary<Odd, Half, Odd>(field<Cube>(mesh, b, way));
    const Cube moved = hg::shift<0, -2>(hg::shift<2, 3>(w)) + hg::shift<1, 1>(w);
    CHECK(error(moved, {5, 4, 7}, [&](auto i) {
            return at<Odd, Half, Odd>(b, Index<3>{i[0] - 2, i[1], i[2] + 3}) +
                   at<Odd, Half, Odd>(b, Index<3>{i[0], i[1] + 1, i[2]});
          }) < 1e-15);
    const Array<int, 2> n = numbers<int>(Index<2>{6, 7}, 4);
    const Array<double, 2> same(n.extents, [&](auto i) { return n(i); });
    const PlaneOf<int> whole = hg::shift<0, -2>(hg::with_boundary<Odd, Five>(field<PlaneOf<int>>(mesh, n, way))) +
                               hg::shift<1, 1>(hg::with_boundary<Odd, Five>(field<PlaneOf<int>>(mesh, n, way)));
    CHECK(error(whole, n.extents, [&](auto i) {
            return at<Odd, Five>(same, Index<2>{i[0] - 2, i[1]}) + at<Odd, Five>(same, Index<2>{i[0], i[1] + 1});
          }) == 0);
    const auto c = numbers<double>(Index<2>{9, 8}, 5);
    const auto walls = hg::with_boundary<Odd, Odd>(field<Plane>(mesh, c, way));
    using Turned = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;
    const auto corners = hg::with_boundary<Five, Half>(field<Plane>(mesh, c, way));
    const Turned turned = hg::transpose<0, 1>(hg::shift<0, -2>(hg::shift<1, 1>(corners)));
    CHECK(error(turned, {8, 9}, [&](auto i) { return at<Five, Half>(c, Index<2>{i[1] - 2, i[0] + 1}); }) == 0);
    const Plane part = hg::slice<0>(hg::shift<0, -2>(walls), 0, 7);
    CHECK(error(part, {7, 8}, [&](auto i) { return at<Odd, Odd>(c, Index<2>{i[0] - 2, i[1]}); }) == 0);
    const auto number = hg::sum(hg::shift<0, 1>(walls) * hg::shift<1, -1>(walls)).item();
    double expected = 0;
    for_each_index(c.extents, [&](auto i) {
      expected += at<Odd, Odd>(c, Index<2>{i[0] + 1, i[1]}) * at<Odd, Odd>(c, Index<2>{i[0], i[1] - 1});
    });
    CHECK(number == doctest::Approx(expected).epsilon(1e-13));
  });
}

TEST_CASE("a Laplacian of fourth order is of fourth order at an odd wall, and of no order at a zero one") {
  everywhere<Grid>([&](const auto& mesh, int way) {
    const double coarse = laplacian_error<Odd>(mesh, way, 32), fine = laplacian_error<Odd>(mesh, way, 64);
    CHECK(coarse / fine > 15);
    CHECK(coarse / fine < 17);
    CHECK(laplacian_error<Zero>(mesh, way, 32) / laplacian_error<Zero>(mesh, way, 64) < 1.1);
    const Index<2> extents{6, 33};  // as a stencil of the user's
    const Array<double, 2> a(extents,
                             [](auto i) { return std::sin(std::numbers::pi * static_cast<double>(i[1]) / 32); });
    const auto u = field<Plane>(mesh, a, way);
    const Plane by_functor = hg::stencil(Fourth{}, hg::with_boundary<Zero, Odd>(u));
    const Plane by_shifts = second_derivative<1>(hg::with_boundary<Zero, Odd>(u), std::sqrt(1 / 12.0));
    CHECK(error(hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>(by_functor - by_shifts),
                extents, [](auto) { return 0.0; }) < 1e-14);
  });
}

TEST_CASE("gradients are those of finite differences, and linear ones the adjoint") {
  const auto a = numbers<double>(Index<2>{7, 8}, 6), b = numbers<double>(Index<2>{4, 4}, 7);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto make = maker<Plane>(mesh, way);
    CHECK(gradient_error(make, rough<Odd, Odd>, 5, a) < 1e-8);
    CHECK(gradient_error(make, rough<Odd, Periodic>, 5, a) < 1e-8);
    CHECK(gradient_error(make, rough<Five, Odd>, 5, a) < 1e-8);
    CHECK(gradient_error(make, rough<Half, Periodic>, 5, a) < 1e-8);
    CHECK(gradient_error(make, rough<Odd, ReplicateEdge>, 3, b) < 1e-8);
    CHECK(gradient_error(
              make,
              [](auto v) {
                const auto stepped = hg::with_boundary<Odd, Five>(hg::iterate<2>(diffuse<Odd, Periodic>, v));
                return hg::mean(hg::square(hg::stencil(Fourth{}, stepped) - hg::shift<0, 1>(stepped)));
              },
              7, a) < 1e-7);
    CHECK(adjoint_error([](auto v) { return wide(hg::with_boundary<Odd, Reflect>(v)); }, field<Plane>(mesh, a, way)) <
          1e-13);
    CHECK(adjoint_error([](auto v) { return wide(hg::with_boundary<Odd, Odd>(v)); }, field<Plane>(mesh, b, way)) <
          1e-13);
  });
}

TEST_CASE("iterate: to the bit") {
  everywhere<Grid>([&](const auto& mesh, int way) {
    check_iterate<3>(mesh, way, {24, 13}, diffuse<Odd, Reflect>);
    check_iterate<2>(mesh, way, {5, 4}, diffuse<Odd, Odd>);
    check_iterate<3>(mesh, way, {7, 12}, diffuse<Odd, Periodic>);
    check_iterate<3>(mesh, way, {7, 12}, diffuse<Five, Odd>);
    check_iterate<2>(mesh, way, {12, 7}, diffuse<Half, Periodic>);
  });
}

TEST_CASE("an odd image ends before the field does") {
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane>(mesh, numbers<double>(Index<2>{3, 12}, 8), way);
    CHECK_THROWS_WITH_AS(Plane(hg::shift<0, -3>(hg::with_boundary<Odd, Zero>(u))),
                         "an expression reads 3 points beyond the ends of dimension 0 with 3, which reflects: a mirror "
                         "image has at most 2; shift less",
                         hg::CollectiveError);
  });
}

}  // namespace test_odd_walls
