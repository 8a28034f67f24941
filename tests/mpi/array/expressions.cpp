// program: expressions
// The array language on every mesh: values against plain loops to the bit, halos as counted, rebinding, reductions.
//

#include <doctest/doctest.h>

#include <cmath>
#include <halogen/array_language.hpp>
#include <vector>

#include "support/grid.hpp"

namespace test_expressions {

namespace {

using support::Grid;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;

hg::Communicator world() { return support::grid_world(); }
support::Meshes<Grid> meshes() { return support::grids(); }

template <class T>
std::vector<T> numbers(int count, int stream) {
  std::vector<T> values;
  for (int i = 0; i < count; ++i)
    values.push_back(
        static_cast<T>(2 * hg::uniform_at(5, static_cast<std::uint64_t>(stream), static_cast<std::uint64_t>(i)) - 1));
  return values;
}

/// Messages that this rank sends in one exchange of a 5-point stencil: one per other rank that holds a neighbour, or a
/// corner, found by asking for the owner of every point around the piece.
template <class Field>
long expected_messages(const Field& field) {
  std::vector<char> talks(static_cast<std::size_t>(field.mesh().size()), 0);
  const auto pieces = field.decomposition();
  for (int r = 0; r < field.mesh().size(); ++r) {
    if (r == field.mesh().rank()) continue;
    const hg::Interval ys = field.cut(0).piece(pieces.part(r, 0)), xs = field.cut(1).piece(pieces.part(r, 1));
    if (ys.empty() || xs.empty()) continue;
    for (hg::index_t y = ys.begin - 1; y <= ys.end; ++y)
      for (hg::index_t x = xs.begin - 1; x <= xs.end; ++x) {
        if (y < 0 || y >= field.extent(0)) continue;
        const hg::index_t wrapped = (x + field.extent(1)) % field.extent(1);
        if (y >= field.offset(0) && y < field.offset(0) + field.local_extent(0) && wrapped >= field.offset(1) &&
            wrapped < field.offset(1) + field.local_extent(1))
          talks[static_cast<std::size_t>(r)] = 1;
      }
  }
  return std::count(talks.begin(), talks.end(), 1);
}

}  // namespace

TEST_CASE("strips of as many rows as one work item packs") {
  using Line = hg::Mesh<"width">;
  using Field = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Line, hg::Shard<1>>;
  constexpr hg::index_t height = 32, width = 18;
  const auto value = [](hg::index_t y, hg::index_t x) { return static_cast<double>(100 * y + (x + width) % width); };
  std::vector<double> all, expected;
  for (hg::index_t y = 0; y < height; ++y)
    for (hg::index_t x = 0; x < width; ++x) {
      all.push_back(value(y, x));
      expected.push_back(value(y, x - 1) + 2 * value(y, x + 1));
    }
  const auto u = hg::distribute_tensor<Field>(hg::device_mesh<Line>(world(), {-1}), {height, width}, all);
  Field v(u.mesh(), {height, width});
  const auto ring = hg::with_boundary<hg::Zero, hg::Periodic>(u);  // a strip to the left, and one to the right
  v = hg::shift<1, -1>(ring) + 2 * hg::shift<1, 1>(ring);
  CHECK(hg::full_tensor(v) == expected);
}

TEST_CASE("a stencil equals plain loops to the bit and exchanges once a step") {
  constexpr int height = 13, width = 17, steps = 20;
  const float k = 0.1f;
  std::vector<float> now = numbers<float>(height * width, 1), next(now.size());
  const std::vector<float> start = now;
  for (int t = 0; t < steps; ++t) {
    const auto at = [&](int y, int x) {
      return y < 0 || y >= height ? 0.f : now[static_cast<std::size_t>(y * width + (x + width) % width)];
    };
    for (int y = 0; y < height; ++y)
      for (int x = 0; x < width; ++x)
        next[static_cast<std::size_t>(y * width + x)] =
            at(y, x) + k * (at(y + 1, x) + at(y - 1, x) + at(y, x + 1) + at(y, x - 1) - 4.f * at(y, x));
    std::swap(now, next);
  }
  const auto step = [k](auto u) {
    return u + k * (hg::shift<0, 1>(u) + hg::shift<0, -1>(u) + hg::shift<1, 1>(u) + hg::shift<1, -1>(u) - 4.f * u);
  };
  for (const auto& mesh : meshes()) {
    auto u = hg::distribute_tensor<Plane<float>>(mesh, {height, width}, start);
    const Plane<float> older = u;
    const auto before = hg::comm_stats();
    for (int t = 0; t < steps; ++t) u = step(hg::with_boundary<hg::Zero, hg::Periodic>(u));
    const auto spent = hg::comm_stats() - before;
    const std::vector<float> full = hg::full_tensor(u);
    double worst = 0;  // the compiler may contract a * b + c here and there; nothing else may differ
    for (std::size_t i = 0; i < full.size(); ++i)
      worst = std::max(worst, std::abs(static_cast<double>(full[i]) - now[i]));
    CHECK(worst < 1e-6);
    CHECK(hg::full_tensor(older) == start);  // assignment rebinds: older copies keep their values
    CHECK(spent.messages.count == steps * expected_messages(u));
    CHECK(spent.all_reduces.count == 0);
  }
}

TEST_CASE("the same bits on any mesh") {
  const auto run = [](const hg::DeviceMesh<Grid>& mesh) {
    auto u = hg::distribute_tensor<Plane<float>>(mesh, {19, 23}, numbers<float>(19 * 23, 2));
    for (int t = 0; t < 10; ++t) {
      const auto v = hg::with_boundary<hg::Periodic, hg::Zero>(u);
      u = v + 0.1f * (hg::shift<0, 3>(v) - hg::shift<1, -2>(hg::shift<0, -1>(v)) * hg::sin(v)) / (2.f + hg::abs(v));
    }
    return hg::full_tensor(u);
  };
  const auto alone = run(hg::device_mesh<Grid>(hg::Communicator(), {1, 1}));
  for (const auto& mesh : meshes()) CHECK(run(mesh) == alone);
}

TEST_CASE("the Game of Life in integers, torus") {
  constexpr int n = 12;
  std::vector<int> cells(n * n, 0);
  for (int i : {1, n + 2, 2 * n, 2 * n + 1, 2 * n + 2}) cells[static_cast<std::size_t>(i)] = 1;  // a glider
  std::vector<int> moved(n * n, 0);
  for (int y = 0; y < n; ++y)
    for (int x = 0; x < n; ++x)
      moved[static_cast<std::size_t>((y + 3) % n * n + (x + 3) % n)] = cells[static_cast<std::size_t>(y * n + x)];
  for (const auto& mesh : meshes()) {
    auto life = hg::distribute_tensor<Plane<int>>(mesh, {n, n}, cells);
    for (int t = 0; t < 12; ++t) {  // a glider moves one cell down and right in four generations
      const auto u = hg::with_boundary<hg::Periodic, hg::Periodic>(life);
      const auto rows = hg::shift<0, -1>(u) + u + hg::shift<0, 1>(u);
      const auto around = hg::shift<1, -1>(rows) + rows + hg::shift<1, 1>(rows) - u;
      life = hg::where(around == 3 || (u == 1 && around == 2), 1, 0);
    }
    CHECK(hg::full_tensor(life) == moved);
    CHECK(hg::sum(life).item() == 5);
  }
}

TEST_CASE("reductions, coordinates and a reduction inside an expression") {
  constexpr int height = 7, width = 31;
  const std::vector<double> values = numbers<double>(height * width, 3);
  double sum = 0, squares = 0, largest = -2, smallest = 2, weighted = 0;
  for (int i = 0; i < height * width; ++i) {
    const double v = values[static_cast<std::size_t>(i)];
    sum += v, squares += v * v, largest = std::max(largest, v), smallest = std::min(smallest, v);
    weighted += v * (i / width) * (i % width);
  }
  for (const auto& mesh : meshes()) {
    auto u = hg::distribute_tensor<Plane<double>>(mesh, {height, width}, values);
    CHECK(hg::sum(u).item() == doctest::Approx(sum).epsilon(1e-13));
    CHECK(hg::mean(u).item() == doctest::Approx(sum / (height * width)).epsilon(1e-13));
    CHECK(hg::max(u).item() == largest);
    CHECK(hg::min(u).item() == smallest);
    CHECK(hg::norm(u) == doctest::Approx(std::sqrt(squares)).epsilon(1e-13));
    CHECK(hg::dot(u, u).item() == doctest::Approx(squares).epsilon(1e-13));
    CHECK(hg::sum(u * hg::global_index<0>(u) * hg::global_index<1>(u)).item() ==
          doctest::Approx(weighted).epsilon(1e-12));
    const auto before = hg::comm_stats();
    Plane<double> unit = u / hg::sqrt(hg::sum(hg::square(u)));
    CHECK((hg::comm_stats() - before).all_reduces.count == (mesh.size() > 1 ? 1 : 0));
    CHECK(hg::norm(unit) == doctest::Approx(1).epsilon(1e-13));
    auto with_nan = values;
    with_nan[40] = std::nan("");
    CHECK(std::isnan(hg::max(hg::distribute_tensor<Plane<double>>(mesh, {height, width}, with_nan)).item()));
  }
}

TEST_CASE("numbers and fields are assigned through all copies, too") {
  for (const auto& mesh : meshes()) {
    Plane<double> u(mesh, {6, 5});
    const Plane<double> copy = u, v = hg::distribute_tensor<Plane<double>>(mesh, {6, 5}, numbers<double>(30, 4));
    hg::assign(u, 3);
    CHECK(hg::full_tensor(copy) == std::vector<double>(30, 3.0));
    u /= 2;
    CHECK(hg::full_tensor(copy) == std::vector<double>(30, 1.5));
    hg::assign(u, v);
    CHECK(hg::full_tensor(copy) == numbers<double>(30, 4));
    u /= v;
    CHECK(hg::full_tensor(copy) == std::vector<double>(30, 1.0));
    CHECK(hg::full_tensor(v) == numbers<double>(30, 4));
  }
}

TEST_CASE("assign and += write through all copies, boundaries nest") {
  for (const auto& mesh : meshes()) {
    auto u = hg::distribute_tensor<Plane<double>>(mesh, {6, 6}, numbers<double>(36, 4));
    const auto before = hg::full_tensor(u);
    const Plane<double> copy = u;
    u += 1.0;
    hg::assign(u, hg::shift<0, 1>(u));
    const auto after = hg::full_tensor(copy);
    for (std::size_t i = 0; i < 36; ++i) CHECK(after[i] == (i < 30 ? before[i + 6] + 1.0 : 0.0));
    // The value beyond a bounded expression is 0, not the expression of 0.
    const Plane<double> shifted = hg::shift<1, 1>(hg::with_boundary<hg::Zero, hg::Zero>(hg::exp(u)));
    const Plane<double> unbounded = hg::shift<1, 1>(hg::exp(u));
    for (std::size_t i = 5; i < 36; i += 6) {
      CHECK(hg::full_tensor(shifted)[i] == 0.0);
      CHECK(hg::full_tensor(unbounded)[i] == 1.0);
    }
    const Plane<double> there_and_back = hg::shift<0, -2>(hg::with_boundary<hg::Zero, hg::Zero>(hg::shift<0, 2>(u)));
    const auto round_trip = hg::full_tensor(there_and_back), whole = hg::full_tensor(u);
    for (std::size_t i = 0; i < 36; ++i) CHECK(round_trip[i] == (i < 12 ? 0.0 : whole[i]));
  }
}

TEST_CASE("what only the run can know is refused on all ranks alike") {
  for (const auto& mesh : meshes()) {
    const Plane<double> u(mesh, {6, 6}), v(mesh, {6, 7});
    Plane<double> out(mesh, {6, 6});
    CHECK_THROWS_AS(out = u + v, hg::CollectiveError);
  }
}

TEST_CASE("fields of one and three dimensions, cut in any of them, replicated too") {
  using Line = hg::Mesh<"line">;
  const auto mesh = hg::device_mesh<Line>(world(), {-1});
  auto line = hg::distribute_tensor<hg::Sharded<hg::Tensor<double, hg::dyn>, Line, hg::Shard<0>>>(
      mesh, {29}, numbers<double>(29, 6));
  const auto values = hg::full_tensor(line);
  const auto u = hg::with_boundary<hg::Periodic>(line);
  line = hg::shift<0, 2>(u) - u;
  const auto difference = hg::full_tensor(line);
  for (std::size_t i = 0; i < 29; ++i) CHECK(difference[i] == values[(i + 2) % 29] - values[i]);
  using Middle = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn, hg::dyn>, Line, hg::Shard<1>>;
  auto volume = hg::distribute_tensor<Middle>(mesh, {3, 11, 5}, numbers<double>(165, 7));
  const auto solid = hg::full_tensor(volume);
  volume = hg::shift<1, -1>(volume) + hg::shift<2, 1>(hg::shift<0, 1>(volume));
  const auto moved = hg::full_tensor(volume);
  const auto at = [&](int a, int b, int c) {
    return a < 0 || a >= 3 || b < 0 || b >= 11 || c < 0 || c >= 5
               ? 0.0
               : solid[static_cast<std::size_t>((a * 11 + b) * 5 + c)];
  };
  for (int a = 0; a < 3; ++a)
    for (int b = 0; b < 11; ++b)
      for (int c = 0; c < 5; ++c)
        CHECK(moved[static_cast<std::size_t>((a * 11 + b) * 5 + c)] == at(a, b - 1, c) + at(a + 1, b, c + 1));
  using Whole = hg::Sharded<hg::Tensor<double, hg::dyn>, Line, hg::Replicate>;
  auto whole = hg::distribute_tensor<Whole>(mesh, {9}, numbers<double>(9, 8));
  const auto before = hg::comm_stats();
  const double sum = hg::sum(hg::shift<0, 1>(whole)).item();
  CHECK((hg::comm_stats() - before) ==
        hg::CommStatistics{});  // every rank has it all: nothing moves, nothing is added twice
  double expected = 0;
  for (int i = 1; i < 9; ++i) expected += numbers<double>(9, 8)[static_cast<std::size_t>(i)];
  CHECK(sum == doctest::Approx(expected).epsilon(1e-14));
}

}  // namespace test_expressions
