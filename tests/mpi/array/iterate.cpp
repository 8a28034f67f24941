// transports: mpi nccl
// program: expressions
// iterate<N>: N steps with one exchange are N single steps to the bit, with a N-th of the messages.
//

#include <doctest/doctest.h>

#include <halogen/array_language.hpp>
#include <vector>

#include "support/grid.hpp"

namespace test_iterate {

namespace {

using support::Grid;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

template <class T>
std::vector<T> numbers(int count, int stream) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i)
    values.push_back(
        static_cast<T>(2 * hg::uniform_at(5, static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(i)) - 1));
  return values;
}

template <class... B>
auto diffuse(float k) {
  return [k](const auto& field) {
    const auto u = hg::with_boundary<B...>(field);
    return u + k * (hg::shift<0, 1>(u) + hg::shift<0, -1>(u) + hg::shift<1, 2>(u) + hg::shift<1, -1>(u) - 4.f * u) *
                   hg::cos(0.1f * hg::cast<float>(hg::global_index<1>(field) + hg::global_index<0>(field)));
  };
}

template <int N, class Step>
void check_equal(const hg::DeviceMesh<Grid>& mesh, hg::index_t height, hg::index_t width, Step step) {
  auto u =
      hg::distribute_tensor<Plane<float>>(mesh, {height, width}, numbers<float>(static_cast<int>(height * width), 1));
  auto v = u;
  for (int t = 0; t < N; ++t) u = step(u);
  v = hg::iterate<N>(step, v);
  CHECK(hg::full_tensor(u) == hg::full_tensor(v));
}

}  // namespace

TEST_CASE("to the bit on every mesh, for every boundary") {
  for (const auto& mesh : support::grids()) {
    check_equal<1>(mesh, 24, 28, diffuse<hg::Zero, hg::Periodic>(0.1f));
    check_equal<3>(mesh, 24, 28, diffuse<hg::Zero, hg::Periodic>(0.1f));
    check_equal<4>(mesh, 19, 23, diffuse<hg::Periodic, hg::Periodic>(0.1f));
    check_equal<5>(mesh, 13, 11, diffuse<hg::Zero, hg::Zero>(0.1f));
    check_equal<2>(mesh, 5, 4, diffuse<hg::Periodic, hg::Zero>(0.1f));  // pieces without points, halos past neighbours
  }
}

TEST_CASE("one rank keeps copies: its steps have other buffers and still the exchanges of the others") {
  const auto mesh = hg::device_mesh<Grid>(support::grid_world(), {-1, 1});
  const auto step = diffuse<hg::Zero, hg::Periodic>(0.1f);
  auto u = hg::distribute_tensor<Plane<float>>(mesh, {24, 28}, numbers<float>(672, 1)), v = u;
  std::vector<Plane<float>> kept;
  for (int t = 0; t < 12; ++t) {
    u = step(u);
    if (mesh.rank() == 0) kept.push_back(u);
  }
  v = hg::iterate<12>(step, v);
  CHECK(hg::full_tensor(u) == hg::full_tensor(v));
}

TEST_CASE("one message per peer and N steps") {
  const auto world = support::grid_world();
  const auto mesh = hg::device_mesh<Grid>(world, {-1, 1});
  auto u = hg::distribute_tensor<Plane<float>>(mesh, {60, 16}, numbers<float>(960, 2));
  const auto step = diffuse<hg::Zero, hg::Periodic>(0.1f);
  const auto count = [&](auto run) {
    const auto before = hg::comm_stats();
    run();
    return (hg::comm_stats() - before).messages;
  };
  const auto single = count([&] { u = step(u); });
  const auto deep = count([&] { u = hg::iterate<6>(step, u); });
  CHECK(deep.count == single.count);
  CHECK(deep.bytes >= 6 * single.bytes);
}

TEST_CASE("a system of fields, with another field and a number in the step") {
  for (const auto& mesh : support::grids()) {
    constexpr int height = 21, width = 18;
    auto h = hg::distribute_tensor<Plane<double>>(mesh, {height, width}, numbers<double>(height * width, 3));
    auto v = hg::distribute_tensor<Plane<double>>(mesh, {height, width}, numbers<double>(height * width, 4));
    const auto depth = hg::distribute_tensor<Plane<double>>(mesh, {height, width}, numbers<double>(height * width, 5));
    const auto step = [&](const auto& height_field, const auto& speed_field) {
      const auto eta = hg::with_boundary<hg::Zero, hg::Periodic>(height_field);
      const auto speed = hg::with_boundary<hg::Zero, hg::Periodic>(speed_field);
      const auto floor = hg::with_boundary<hg::Zero, hg::Periodic>(depth);
      return std::tuple(eta - 0.1 * (hg::shift<1, 1>(floor) * hg::shift<1, 1>(speed) - floor * speed),
                        speed - 0.1 * (eta - hg::shift<1, -1>(eta)) * hg::shift<0, 1>(floor) + 0.01 * depth);
    };
    auto a = h, b = v;
    for (int t = 0; t < 8; ++t) {
      const auto [next_h, next_v] = step(h, v);
      const Plane<double> new_h = next_h, new_v = next_v;
      h = new_h, v = new_v;
    }
    std::tie(a, b) = hg::iterate<4>(step, a, b);
    std::tie(a, b) = hg::iterate<4>(step, a, b);
    CHECK(hg::full_tensor(a) == hg::full_tensor(h));
    CHECK(hg::full_tensor(b) == hg::full_tensor(v));
  }
}

TEST_CASE("vectors along the dimensions, also of periodic images") {
  for (const auto& mesh : support::grids()) {
    using Vector = hg::Sharded<hg::Tensor<float, hg::dyn>, Grid, hg::Replicate, hg::Replicate>;
    const auto rows = hg::distribute_tensor<Vector>(mesh, {14}, numbers<float>(14, 9));
    const auto columns = hg::distribute_tensor<Vector>(mesh, {16}, numbers<float>(16, 10));
    check_equal<3>(mesh, 14, 16, [&](const auto& field) {
      const auto u = hg::with_boundary<hg::Periodic, hg::Periodic>(field);
      const auto v = hg::with_boundary<hg::Periodic>(columns);
      return u + hg::along<0>(rows) * (hg::shift<0, 1>(u) - u) +
             hg::along<1>(hg::shift<0, -1>(v)) * hg::shift<1, -1>(u);
    });
  }
}

TEST_CASE("the gradient through N steps is that of N single ones") {
  for (const auto& mesh : support::grids()) {
    constexpr int height = 9, width = 12;
    const auto u = hg::distribute_tensor<Plane<double>>(mesh, {height, width}, numbers<double>(height * width, 6));
    const auto w = hg::distribute_tensor<Plane<double>>(mesh, {height, width}, numbers<double>(height * width, 7));
    const auto step = [](const auto& field) {
      const auto x = hg::with_boundary<hg::Zero, hg::Periodic>(field);
      return x + 0.2 * hg::sin(hg::shift<0, 1>(x) - hg::shift<1, -1>(x));
    };
    auto loss = [&](auto x) { return hg::dot(hg::iterate<3>(step, x), w); };
    auto f = hg::value_and_grad(loss);
    const auto [value, gradient] = f(u);
    const auto whole = hg::full_tensor(gradient);
    const auto values = hg::full_tensor(u);
    for (std::size_t i : {0, 5, 17, 60, 107}) {
      double moved[2];
      for (int side = 0; side < 2; ++side) {
        auto x = values;
        x[i] += side ? 1e-5 : -1e-5;
        const auto y = hg::iterate<3>(step, hg::distribute_tensor<Plane<double>>(mesh, {height, width}, x));
        moved[side] = hg::dot(y, w).item();
      }
      CHECK(whole[i] == doctest::Approx((moved[1] - moved[0]) / 2e-5).epsilon(1e-6).scale(1));
    }
    CHECK(std::isfinite(value));
  }
}

TEST_CASE("deep halos wider than the field, which periodic ones pass more than once") {
  for (const auto& mesh : support::grids()) {
    check_equal<4>(mesh, 6, 7, diffuse<hg::Zero, hg::Periodic>(0.1f));
    check_equal<9>(mesh, 4, 7, diffuse<hg::Zero, hg::Periodic>(0.1f));
    check_equal<7>(mesh, 2, 3, diffuse<hg::Periodic, hg::Periodic>(0.1f));
    check_equal<5>(mesh, 3, 1, diffuse<hg::Periodic, hg::Periodic>(0.1f));
    check_equal<6>(mesh, 2, 3, diffuse<hg::Zero, hg::Zero>(0.1f));
  }
}

TEST_CASE("steps that cannot share a deep halo are refused on all ranks") {
  for (const auto& mesh : support::grids()) {
    auto u = hg::distribute_tensor<Plane<float>>(mesh, {6, 7}, numbers<float>(42, 8));
    CHECK_THROWS_AS(hg::iterate<2>([](const auto& x) { return x - hg::pad<0>(hg::slice<0>(x, 1, 6), 0, 1); }, u),
                    hg::CollectiveError);
    // another field read through a slice along the periodic dimension: its images are not where the step's are
    const auto wide = hg::distribute_tensor<Plane<float>>(mesh, {6, 9}, numbers<float>(54, 11));
    const auto sliced = [&](const auto& x) {
      const auto p = hg::with_boundary<hg::Zero, hg::Periodic>(x);
      return hg::shift<1, 1>(p) - hg::slice<1>(wide, 1, 8);
    };
    const Plane<float> once = sliced(u);  // a single step has no images
    CHECK(hg::full_tensor(hg::iterate<1>(sliced, u)) == hg::full_tensor(once));
    CHECK_THROWS_WITH_AS(hg::iterate<2>(sliced, u),
                         "iterate: along dimension 1, where the step's own field of 7 points is periodic, it reads a "
                         "part of a field of 9 through a slice or a pad: assign that part to a field before",
                         hg::CollectiveError);
    const auto pair = [](const auto& x, const auto& y) { return std::tuple(x + hg::shift<0, 1>(x), y * 2.f); };
    CHECK_THROWS_WITH_AS(hg::iterate<2>(pair, u, wide),
                         "iterate: its fields have 7 and 9 points in dimension 1: give them the same extents",
                         hg::CollectiveError);
  }
}

TEST_CASE("another field through a slice along a dimension without images") {
  for (const auto& mesh : support::grids()) {
    const auto tall = hg::distribute_tensor<Plane<float>>(mesh, {15, 12}, numbers<float>(180, 12));
    const auto rows = hg::distribute_tensor<Plane<float>>(mesh, {13, 12}, numbers<float>(156, 13));
    const hg::index_t first = mesh.extent(0) == 1 ? 2 : 1;  // what a cut leaves within reach
    check_equal<2>(mesh, 13, 12, [&](const auto& field) {
      const auto u = hg::with_boundary<hg::Zero, hg::Periodic>(field);
      return u +
             0.1f * hg::shift<1, 1>(u) *
                 hg::slice<0>(hg::with_boundary<hg::Zero, hg::Periodic>(tall), first, first + 13) +
             hg::shift<0, 1>(u) * rows;
    });
    const auto faces = hg::distribute_tensor<Plane<float>>(mesh, {14, 12}, numbers<float>(168, 14));  // no boundary
    check_equal<2>(mesh, 13, 12, [&](const auto& field) {
      const auto u = hg::with_boundary<hg::Zero, hg::Periodic>(field);
      return u + 0.1f * (hg::shift<1, 1>(u) - u) - (hg::slice<0>(faces, 1, 14) - hg::slice<0>(faces, 0, 13));
    });
  }
}

TEST_CASE("indices of periodic images through a slice with a step") {
  for (const auto& mesh : support::grids()) {
    const Plane<float> fine(mesh, {13, 24});
    check_equal<3>(mesh, 13, 12, [&](const auto& field) {
      const auto u = hg::with_boundary<hg::Zero, hg::Periodic>(field);
      return u + 0.1f * hg::shift<1, -1>(u) + hg::cast<float>(hg::slice<1>(hg::global_index<1>(fine), 1, 24, 2));
    });
  }
}

}  // namespace test_iterate
