// ranks: 1 3 4
// program: sharded_parameters
// reads: convolutions
// Sharded::over: a field over the caller's array with ghost cells reads what the caller writes, writes the caller's
// array and fills its ghost cells; a reader that needs more of them is refused by all ranks.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "support/convolutions.hpp"
#include "support/refusal.hpp"

namespace test_over {

namespace hg = halogen;

namespace {

using Line = hg::Mesh<"x">;
using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;

constexpr hg::index_t rows = 13, columns = 5;

hg::DeviceMesh<Line> line() { return hg::device_mesh<Line>(hg::Environment().world(), {-1}); }

double value(hg::index_t i, hg::index_t j) {
  return static_cast<double>(100 * ((i + rows) % rows) + (j + columns) % columns);
}

/// A solver's array of this rank's rows, `above` and `below` more rows, and `beside` columns on either side.
struct Array {
  Array(const hg::DeviceMesh<Line>& mesh, hg::index_t above, hg::index_t below, hg::index_t beside)
      : cut(hg::Cut::balanced(rows, mesh.size())),
        own(cut.piece(mesh.rank())),
        above(above),
        beside(beside),
        margins{{{above, below}, {beside, beside}}},
        stride(columns + 2 * beside),
        memory("array", static_cast<std::size_t>((above + own.size() + below) * stride)) {
    Kokkos::deep_copy(memory, -1.0);
  }
  /// By global indices; ghost cells lie beyond own and the columns. Of the host, as the solver sees it.
  template <class F>
  void each_own(F f) const {
    auto host = Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), memory);
    for (hg::index_t i = own.begin; i < own.end; ++i)
      for (hg::index_t j = 0; j < columns; ++j) f(host(place(i, j)), i, j);
    Kokkos::deep_copy(memory, host);
  }
  double at(hg::index_t i, hg::index_t j) const {
    return Kokkos::create_mirror_view_and_copy(Kokkos::HostSpace(), memory)(place(i, j));
  }
  std::size_t place(hg::index_t i, hg::index_t j) const {
    return static_cast<std::size_t>((i - own.begin + above) * stride + j + beside);
  }
  Plane field(const hg::DeviceMesh<Line>& mesh) const {
    return Plane::over(mesh, {cut, hg::Cut::chunk(columns, 1)}, memory.data(), margins);
  }

  hg::Cut cut;
  hg::Interval own;
  hg::index_t above, beside;
  Plane::Margins margins;
  hg::index_t stride;
  Kokkos::View<double*, hg::memory_space> memory;
};

/// The sum of the two neighbours along both dimensions.
auto neighbours(const Plane& u) {
  const auto p = hg::with_boundary<hg::Periodic, hg::Periodic>(u);
  return hg::shift<0, 1>(p) + hg::shift<0, -1>(p) + hg::shift<1, 1>(p) + hg::shift<1, -1>(p);
}
double neighbours(hg::index_t i, hg::index_t j) {
  return value(i + 1, j) + value(i - 1, j) + value(i, j + 1) + value(i, j - 1);
}

}  // namespace

TEST_CASE("a field over the caller's array reads what the caller writes, and fills the ghost cells") {
  const auto mesh = line();
  const Array array(mesh, 2, 1, 1);
  const Plane u = array.field(mesh);
  CHECK(u.is_over());
  Plane v(mesh, {array.cut, hg::Cut::chunk(columns, 1)});
  for (const double factor : {1.0, 3.0}) {  // the second time into the same exchange, long after the field was made
    array.each_own([&](double& x, hg::index_t i, hg::index_t j) { x = factor * value(i, j); });
    v = neighbours(u);
    const std::vector<double> got = v.to_host();
    std::size_t next = 0;
    array.each_own([&](double& x, hg::index_t i, hg::index_t j) {
      CHECK(got[next++] == factor * neighbours(i, j));
      CHECK(x == factor * value(i, j));
    });
    for (hg::index_t j = 0; j < columns; ++j) {
      CHECK(array.at(array.own.begin - 1, j) == factor * value(array.own.begin - 1, j));
      CHECK(array.at(array.own.end, j) == factor * value(array.own.end, j));
      CHECK(array.at(array.own.begin - 2, j) == -1);  // nothing read it
    }
  }
  CHECK(u.margin_growths() == 0);
}

TEST_CASE("assignments write the caller's array, for all copies of the field") {
  const auto mesh = line();
  const Array array(mesh, 1, 1, 1);
  Plane u = array.field(mesh);
  const Plane copy = u;
  array.each_own([](double& x, hg::index_t i, hg::index_t j) { x = value(i, j); });
  u = 2.0 * u;
  u = neighbours(u);
  u += 1.0;
  array.each_own([](double& x, hg::index_t i, hg::index_t j) { CHECK(x == 2 * neighbours(i, j) + 1); });
  hg::assign(u, 0.0 * u);
  CHECK(copy.to_host() == std::vector<double>(copy.to_host().size(), 0.0));
  Plane own = u.clone();
  CHECK_FALSE(own.is_over());
  own = own + 5.0;
  array.each_own([](double& x, hg::index_t, hg::index_t) { CHECK(x == 0); });
}

TEST_CASE("a reader that needs more ghost cells is refused by all ranks, and the field stays where it is") {
  const auto mesh = line();
  const Array array(mesh, 1, 1, 0);
  Plane u = array.field(mesh), v;
  array.each_own([](double& x, hg::index_t i, hg::index_t j) { x = value(i, j); });
  const auto twice = [](const Plane& field) {
    const auto p = hg::with_boundary<hg::Periodic, hg::Periodic>(field);
    return hg::shift<0, 2>(p) + hg::shift<0, -2>(p);
  };
  const std::string sentence =
      "a field over the caller's array has margins of (1+1 x 0+0) points (before+behind, by dimension), but a reader "
      "needs (2+2 x 0+0): give the array that many ghost cells, or read field.clone()";
  CHECK(support::refusal<hg::CollectiveError>([&] { v = twice(u); }) == sentence);
  CHECK(support::refusal<hg::CollectiveError>([&] { u = twice(u); }) == sentence);
  CHECK(support::refusal<hg::CollectiveError>([&] { u.reserve_margin({{{2, 2}, {0, 0}}}); }) == sentence);
  v = twice(u.clone());
  const std::vector<double> got = v.to_host();
  std::size_t next = 0;
  array.each_own([&](double& x, hg::index_t i, hg::index_t j) {
    CHECK(got[next++] == value(i + 2, j) + value(i - 2, j));
    CHECK(x == value(i, j));
    x = 7;  // and what the owner writes is seen
  });
  CHECK(u.to_host() == std::vector<double>(u.to_host().size(), 7.0));
}

TEST_CASE("an array that cannot be one is refused by all ranks alike") {
  const auto mesh = line();
  const Array array(mesh, 1, 1, 1);
  const bool last = mesh.rank() == mesh.size() - 1;
  const auto said = [&](double* memory, hg::index_t above) {
    return support::refusal<hg::CollectiveError>([&] {
      Plane::over(mesh, {array.cut, hg::Cut::chunk(columns, 1)}, memory, {{{above, 1}, {1, 1}}});
    });
  };
  CHECK(said(array.memory.data(), 1) == "");
  CHECK(said(last ? nullptr : array.memory.data(), 1) ==
        "Sharded::over: rank " + std::to_string(mesh.size() - 1) + " gives no array (null) for its " +
            std::to_string(array.cut.piece(mesh.size() - 1).size() * columns) + " points");
  const std::string other = ": give all ranks the same, 0 or more";
  CHECK(said(array.memory.data(), -1) ==
        "Sharded::over: the margin of dimension 0 has -1 points on one rank and -1 on another" + other);
  if (mesh.size() > 1)
    CHECK(said(array.memory.data(), last ? 2 : 1) ==
          "Sharded::over: the margin of dimension 0 has 1 points on one rank and 2 on another" + other);
}

TEST_CASE("a network reads the caller's array in place") {
  using Net = hg::Conv2d<1, 1, hg::Kernel<3>, hg::Padding<1>>;
  const auto mesh = line();
  const auto parameters = hg::initial_parameters<Net, float>(1);
  const hg::Cut cut = hg::Cut::balanced(rows, mesh.size());
  const hg::index_t own = cut.piece(mesh.rank()).size(), stride = columns + 2;
  const Kokkos::View<float*, hg::memory_space> array("array", static_cast<std::size_t>((own + 2) * stride));
  const hg::Cut one = hg::Cut::chunk(1, 1), wide = hg::Cut::chunk(columns, 1);
  const Image image = Image::over(mesh, {one, one, cut, wide}, array.data(), {{{0, 0}, {0, 0}, {1, 1}, {1, 1}}});
  Image same(mesh, {one, one, cut, wide});
  for (const float shift : {0.0f, 2.5f}) {
    std::vector<float> values(static_cast<std::size_t>(own * columns));
    for (std::size_t k = 0; k < values.size(); ++k) values[k] = shift + static_cast<float>(k * k % 17);
    Image writer = image;
    writer.copy_from_host(values);
    same.copy_from_host(values);
    CHECK(hg::infer(parameters, image).to_host() == hg::infer(parameters, same).to_host());
  }
  using Wide = hg::Conv2d<1, 1, hg::Kernel<5>, hg::Padding<2>>;
  if (mesh.size() > 1)
    CHECK(support::refusal<hg::CollectiveError>([&] {
            hg::infer(hg::initial_parameters<Wide, float>(1), image);
          }).starts_with("a field over the caller's array has margins of (0+0 x 0+0 x 1+1 x 1+1) points"));
}

}  // namespace test_over
