// transports: mpi nccl
// program: expressions
// Fields that reflect or replicate at their edges: a loop's own indices, finite differences, the adjoint identity,
// iterate, messages; on every mesh, pieces thinner than the shifts and without points included.
//

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <halogen/array_language.hpp>
#include <string>
#include <vector>

#include "support/grid.hpp"
#include "support/meshes.hpp"

namespace test_edges {

namespace {

using hg::Periodic;
using hg::Reflect;
using hg::ReplicateEdge;
using hg::Zero;
using support::Grid;
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

using Turned = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;

using support::numbers;

/// The field on the host, read as numpy's pad has it.
struct Host {
  int height, width;
  std::vector<double> values;

  template <class B>
  static int inside(int i, int n) {
    if (i >= 0 && i < n) return i;
    if (std::is_same_v<B, Zero>) return -1;
    if (std::is_same_v<B, Periodic>) return (i % n + n) % n;
    if (std::is_same_v<B, ReplicateEdge>) return std::clamp(i, 0, n - 1);
    return i < 0 ? -i : 2 * (n - 1) - i;
  }
  template <class B0, class B1>
  double at(int y, int x) const {
    y = inside<B0>(y, height), x = inside<B1>(x, width);
    return y < 0 || x < 0 ? 0 : values[static_cast<std::size_t>(y * width + x)];
  }
};

/// Shifts of up to three, both ways, along both dimensions at once too, one of what was shifted.
template <class U>
auto wide(const U& u) {
  return hg::shift<0, -3>(u) - 2.0 * hg::shift<0, 2>(u) + 3.0 * hg::shift<1, 3>(u) - 4.0 * hg::shift<1, -1>(u) +
         5.0 * hg::shift<0, 1>(hg::shift<1, -2>(u)) - 6.0 * hg::shift<1, 2>(hg::shift<0, -1>(u));
}
template <class B0, class B1>
double wide(const Host& u, int y, int x) {
  const auto at = [&](int i, int j) { return u.at<B0, B1>(y + i, x + j); };
  return at(-3, 0) - 2 * at(2, 0) + 3 * at(0, 3) - 4 * at(0, -1) + 5 * at(1, -2) - 6 * at(-1, 2);
}

template <class B0, class B1>
void check_values(const hg::DeviceMesh<Grid>& mesh, int height, int width) {
  CAPTURE(height);
  const Host host{height, width, numbers<double>(height * width, 1)};
  const auto u = hg::distribute_tensor<Plane>(mesh, {height, width}, host.values);
  const Plane result = wide(hg::with_boundary<B0, B1>(u));
  const std::vector<double> full = hg::full_tensor(result);
  double worst = 0;
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      worst = std::max(worst, std::abs(full[static_cast<std::size_t>(y * width + x)] - wide<B0, B1>(host, y, x)));
  CHECK(worst < 1e-14);
}

template <class Loss>
double worst_difference(const hg::DeviceMesh<Grid>& mesh, int height, int width, Loss loss) {
  const std::vector<double> values = numbers<double>(height * width, 2);
  const auto field = [&](const std::vector<double>& of) {
    return hg::distribute_tensor<Plane>(mesh, {height, width}, of);
  };
  auto f = hg::value_and_grad(loss);
  const auto [value, slope] = f(field(values));
  const std::vector<double> gradient = hg::full_tensor(slope);
  double worst = std::isfinite(value) ? 0 : 1e300;
  for (std::size_t i = 0; i<values.size(); i += values.size()> 30 ? 3 : 1) {
    double moved[2];
    for (int side = 0; side < 2; ++side) {
      std::vector<double> x = values;
      x[i] += side == 0 ? -1e-5 : 1e-5;
      const auto u = field(x);
      moved[side] = loss(u).item();
    }
    worst = std::max(worst, std::abs((moved[1] - moved[0]) / 2e-5 - gradient[i]));
  }
  return worst;
}

/// Few reads: each is inlined into the gradient of each other, and a device compiler takes minutes for more.
template <class B0, class B1>
auto rough = [](auto v) {
  const auto u = hg::with_boundary<B0, B1>(v);
  const auto along = hg::shift<0, -3>(u) - 2.0 * hg::shift<0, 2>(hg::shift<1, -1>(u));
  return hg::mean(hg::square(along) * hg::exp(0.3 * hg::shift<1, 2>(u)) + v * u);
};

template <class B0, class B1>
auto diffuse = [](const auto& field) {
  const auto u = hg::with_boundary<B0, B1>(field);
  return u + 0.1 * (hg::shift<0, 1>(u) + hg::shift<0, -1>(u) + hg::shift<1, 2>(u) + hg::shift<1, -1>(u) - 4.0 * u) *
                 hg::cos(0.1 * hg::cast<double>(hg::global_index<1>(field)));
};
template <class B0, class B1>
auto upwind = [](const auto& field) {
  const auto u = hg::with_boundary<B0, B1>(field);
  return u - 0.3 * (u - hg::shift<0, -2>(u)) - 0.2 * (u - hg::shift<1, 1>(u));
};

template <int N, class Step>
void check_iterate(const hg::DeviceMesh<Grid>& mesh, int height, int width, Step step) {
  auto u = hg::distribute_tensor<Plane>(mesh, {height, width}, numbers<double>(height * width, 3)), v = u;
  for (int t = 0; t < N; ++t) u = step(u);
  v = hg::iterate<N>(step, v);
  CHECK(hg::full_tensor(u) == hg::full_tensor(v));
}

}  // namespace

TEST_CASE("values: what numpy's pad reads") {
  for (const auto& mesh : support::grids())
    for (const auto& [height, width] : {std::pair{9, 11}, std::pair{4, 5}, std::pair{24, 23}}) {
      check_values<Reflect, ReplicateEdge>(mesh, height, width);
      check_values<ReplicateEdge, Reflect>(mesh, height, width);
      check_values<Reflect, Reflect>(mesh, height, width);
      check_values<ReplicateEdge, Periodic>(mesh, height, width);
      check_values<Zero, Reflect>(mesh, height, width);
    }
}

TEST_CASE("one field with three boundaries in one expression, slices of it, permuted") {
  constexpr int n = 12;
  const Host host{n, n, numbers<double>(n * n, 4)};
  for (const auto& mesh : support::grids()) {
    const auto u = hg::distribute_tensor<Plane>(mesh, {n, n}, host.values);
    const auto mirror = hg::with_boundary<Reflect, Reflect>(u);
    const auto walls = hg::with_boundary<ReplicateEdge, ReplicateEdge>(u);
    const Plane result = hg::shift<0, 2>(mirror) + 3.0 * hg::shift<0, 2>(walls) - hg::shift<0, 2>(u);
    const std::vector<double> full = hg::full_tensor(result);
    double worst = 0;
    for (int y = 0; y < n; ++y)
      for (int x = 0; x < n; ++x)
        worst =
            std::max(worst, std::abs(full[static_cast<std::size_t>(y * n + x)] - host.at<Reflect, Reflect>(y + 2, x) -
                                     3 * host.at<ReplicateEdge, Zero>(y + 2, x) + host.at<Zero, Zero>(y + 2, x)));
    CHECK(worst < 1e-14);
    const auto part = hg::slice<0>(hg::shift<0, -2>(mirror), 0, 7);
    const Plane piece = part;
    const std::vector<double> sliced = hg::full_tensor(piece);
    CHECK(sliced[0] == host.at<Reflect, Zero>(-2, 0));
    CHECK(sliced[6 * n + 3] == host.at<Reflect, Zero>(4, 3));
    const Turned turned = hg::transpose<0, 1>(hg::shift<1, 3>(mirror)) * 2.0;
    CHECK(hg::full_tensor(turned)[11 * n + 2] == 2 * host.at<Reflect, Reflect>(2, 14));
  }
}

TEST_CASE("gradients are those of finite differences") {
  for (const auto& mesh : support::grids())
    for (const auto& [height, width] : {std::pair{9, 11}, std::pair{4, 5}}) {
      CHECK(worst_difference(mesh, height, width, rough<Reflect, ReplicateEdge>) < 1e-8);
      CHECK(worst_difference(mesh, height, width, rough<ReplicateEdge, Reflect>) < 1e-8);
      CHECK(worst_difference(mesh, height, width, rough<Reflect, Periodic>) < 1e-8);
      CHECK(worst_difference(mesh, height, width, rough<Zero, ReplicateEdge>) < 1e-8);
    }
}

TEST_CASE("gradients through steps, stored between and not") {
  for (const auto& mesh : support::grids()) {
    CHECK(worst_difference(mesh, 9, 11, [](auto v) {
            return hg::mean(hg::square(hg::iterate<3>(diffuse<Reflect, ReplicateEdge>, v)));
          }) < 1e-9);
    CHECK(worst_difference(mesh, 9, 11, [](auto v) {
            const auto u = hg::with_boundary<Reflect, Reflect>(hg::iterate<2>(upwind<ReplicateEdge, Periodic>, v));
            return hg::sum(hg::square(hg::shift<0, 1>(u) - hg::shift<1, -2>(u)) * v);
          }) < 1e-8);
  }
}

/// dot(shift<0, S>(v), shift<0, T>(w)) by v, for each a boundary: what stands beside v in the product moves on its own.
template <int S, class B, int T, class C>
void check_pair(const hg::DeviceMesh<Grid>& mesh, int height) {
  constexpr int width = 3;
  const Host v{height, width, numbers<double>(height * width, 8)}, w{height, width, numbers<double>(height * width, 9)};
  const auto field = [&](const Host& host) { return hg::distribute_tensor<Plane>(mesh, {height, width}, host.values); };
  const Plane weight = field(w);
  auto f = hg::value_and_grad([&](auto u) {
    return hg::dot(hg::shift<0, S>(hg::with_boundary<B, Zero>(u)), hg::shift<0, T>(hg::with_boundary<C, Zero>(weight)));
  });
  const auto [value, slope] = f(field(v));
  std::vector<double> expected(v.values.size());
  for (int y = 0; y < height; ++y)
    for (int x = 0; x < width; ++x)
      if (const int to = Host::inside<B>(y + S, height); to >= 0)
        expected[static_cast<std::size_t>(to * width + x)] += w.at<C, Zero>(y + T, x);
  const std::vector<double> gradient = hg::full_tensor(slope);
  double worst = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) worst = std::max(worst, std::abs(gradient[i] - expected[i]));
  CAPTURE(S);
  CAPTURE(T);
  CHECK(worst < 1e-13);
}

TEST_CASE("gradients beside another field, shifts as long as the field and longer") {
  for (const auto& mesh : support::grids()) {
    for (const int height : {4, 5, 7, 12}) {
      CAPTURE(height);
      check_pair<-3, Reflect, 0, Reflect>(mesh, height);
      check_pair<3, Reflect, 0, Reflect>(mesh, height);
      check_pair<-3, Reflect, 1, Reflect>(mesh, height);
      check_pair<2, Reflect, 1, Periodic>(mesh, height);
      check_pair<-2, ReplicateEdge, -1, Periodic>(mesh, height);
      check_pair<2, ReplicateEdge, 1, Periodic>(mesh, height);
      check_pair<-3, ReplicateEdge, 3, Reflect>(mesh, height);
    }
    check_pair<-5, ReplicateEdge, 1, ReplicateEdge>(mesh, 4);
    check_pair<4, ReplicateEdge, -1, ReplicateEdge>(mesh, 4);
    check_pair<4, ReplicateEdge, 1, Periodic>(mesh, 4);
  }
}

TEST_CASE("long shifts, wide fields: nothing is read that is not there") {
  for (const auto& mesh : support::grids()) {
    const Host host{32, 3000, numbers<double>(32 * 3000, 10)};
    const auto u = hg::distribute_tensor<Plane>(mesh, {32, 3000}, host.values);
    const Plane far = hg::shift<0, 20>(hg::with_boundary<Reflect, Zero>(u)),
                zero = hg::shift<0, -25>(hg::with_boundary<Zero, Reflect>(u));
    const std::vector<double> mirrored = hg::full_tensor(far), beside = hg::full_tensor(zero);
    for (const int y : {0, 11, 12, 31})
      for (const int x : {0, 1499, 2999}) {
        const auto i = static_cast<std::size_t>(y * 3000 + x);
        CHECK(mirrored[i] == host.at<Reflect, Zero>(y + 20, x));
        CHECK(beside[i] == host.at<Zero, Reflect>(y - 25, x));
      }
  }
}

TEST_CASE("the adjoint identity") {
  for (const auto& mesh : support::grids()) {
    const auto x = hg::distribute_tensor<Plane>(mesh, {9, 11}, numbers<double>(99, 5)),
               y = hg::distribute_tensor<Plane>(mesh, {9, 11}, numbers<double>(99, 6));
    auto f = hg::value_and_grad([&](auto v) { return hg::dot(wide(hg::with_boundary<Reflect, ReplicateEdge>(v)), y); });
    const auto [forward, adjoint] = f(x);
    CHECK(hg::dot(x, adjoint).item() == doctest::Approx(forward).epsilon(1e-12));
  }
}

TEST_CASE("iterate: to the bit") {
  for (const auto& mesh : support::grids()) {
    check_iterate<3>(mesh, 24, 28, diffuse<Reflect, ReplicateEdge>);
    check_iterate<4>(mesh, 13, 11, diffuse<ReplicateEdge, Reflect>);
    check_iterate<2>(mesh, 5, 4, diffuse<Reflect, Reflect>);
    check_iterate<3>(mesh, 24, 28, upwind<Reflect, Reflect>);
    check_iterate<3>(mesh, 7, 6, upwind<Reflect, ReplicateEdge>);
    check_iterate<3>(mesh, 7, 12, upwind<ReplicateEdge, Periodic>);
    for (const auto& [height, width] : {std::pair{8, 8}, std::pair{8, 9}}) {  // beside a field with other boundaries
      const auto c = hg::distribute_tensor<Plane>(mesh, {height, width}, numbers<double>(height * width, 11));
      check_iterate<3>(mesh, height, width, [&](const auto& field) {
        const auto p = hg::with_boundary<Zero, Periodic>(field);
        const auto k = hg::with_boundary<Reflect, ReplicateEdge>(c);
        return p + 0.1 * (hg::shift<1, 1>(p) - p) * (k + hg::shift<0, 1>(k));
      });
    }
  }
}

TEST_CASE("iterate refuses images beyond a periodic state's end") {
  for (const auto& mesh : support::grids()) {
    const auto u = hg::distribute_tensor<Plane>(mesh, {8, 8}, numbers<double>(64, 12)), c = u;
    const auto step = [&](const auto& field) {
      const auto p = hg::with_boundary<Zero, Periodic>(field);
      return p + hg::shift<1, 1>(p) * hg::shift<1, 1>(hg::with_boundary<Zero, Reflect>(c));
    };
    try {
      hg::iterate<2>(step, u);
      CHECK(false);
    } catch (const hg::CollectiveError& error) {
      CHECK(std::string(error.what()).find("reads a field with Reflect, Odd or ReplicateEdge at a distance") !=
            std::string::npos);
    }
  }
}

TEST_CASE("it sends what a zero boundary sends") {
  const auto mesh = hg::device_mesh<Grid>(support::grid_world(), {-1, 1});
  const auto u = hg::distribute_tensor<Plane>(mesh, {60, 16}, numbers<double>(960, 7));
  const auto traffic = [&](auto e) {
    const auto before = hg::comm_stats();
    const Plane result = e;
    return (hg::comm_stats() - before).messages;
  };
  const auto zero = traffic(wide(hg::with_boundary<Zero, Zero>(u)));
  CHECK(traffic(wide(hg::with_boundary<Reflect, Reflect>(u))) == zero);
  CHECK(traffic(wide(hg::with_boundary<ReplicateEdge, ReplicateEdge>(u))) == zero);
}

TEST_CASE("a mirror image ends before the field does") {
  for (const auto& mesh : support::grids()) {
    const auto u = hg::distribute_tensor<Plane>(mesh, {3, 12}, numbers<double>(36, 8));
    try {
      const Plane result = hg::shift<0, -3>(hg::with_boundary<Reflect, Zero>(u));
      CHECK(false);
    } catch (const hg::CollectiveError& error) {
      CHECK(std::string(error.what()).find("reads 3 points beyond the ends of dimension 0 with 3") !=
            std::string::npos);
    }
    CHECK_THROWS_AS(hg::sum(hg::slice<0>(hg::shift<0, 4>(hg::with_boundary<Reflect, Zero>(u)), 0, 3)).item(),
                    hg::CollectiveError);
  }
}

}  // namespace test_edges
