// program: gradients_of_stages
// flip and roll beside plain loops, in all dimensions, cut or not, with the messages that they send and their adjoints.
//

#include <doctest/doctest.h>

#include "support/array.hpp"

namespace test_array_rearranged {

using namespace support;

namespace {

using hg::dyn;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
template <class T>
using Long = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<0>>;
template <class T>
using Volume = hg::Sharded<hg::Tensor<T, dyn, dyn, dyn>, Grid, hg::Replicate, hg::Shard<1>>;

/// Messages of this rank, and their points.
template <class F>
std::pair<index_t, index_t> sent(F f) {
  const auto messages = spent(f).messages;
  return {messages.count, messages.bytes / 8};
}

}  // namespace

TEST_CASE_TEMPLATE("flip and roll of planes, to the bit, by any amount", T, float, double, int) {
  for (const Index<2> extents : {Index<2>{9, 7}, Index<2>{2, 1}}) {
    const auto a = numbers<T>(extents, 311);
    const index_t h = extents[0], w = extents[1];
    everywhere<Grid>([&](const auto& mesh, int way) {
      const auto u = field<Plane<T>>(mesh, a, way);
      const Plane<T> down = hg::flip<0>(u), right = hg::flip<1>(u), both = hg::flip<0>(hg::flip<1>(u + u));
      CHECK(error(down, extents, [&](auto i) { return a(h - 1 - i[0], i[1]); }) == 0);
      CHECK(error(right, extents, [&](auto i) { return a(i[0], w - 1 - i[1]); }) == 0);
      CHECK(error(both, extents, [&](auto i) { return 2 * a(h - 1 - i[0], w - 1 - i[1]); }) == 0);
      for (const index_t by : {0, 1, -1, 4, 7, 13, -30}) {
        const Plane<T> rows = hg::roll<0>(u, by), columns = hg::roll<1>(u, by);
        CHECK(error(rows, extents, [&](auto i) { return a(hg::floor_mod(i[0] - by, h), i[1]); }) == 0);
        CHECK(error(columns, extents, [&](auto i) { return a(i[0], hg::floor_mod(i[1] - by, w)); }) == 0);
        const Plane<T> beside = hg::shift<0, 1>(hg::roll<0>(u, by)) - u;
        CHECK(error(beside, extents, [&](auto i) {
                return static_cast<T>((i[0] + 1 < h ? a(hg::floor_mod(i[0] + 1 - by, h), i[1]) : T(0)) - a(i));
              }) == 0);
      }
    });
  }
}

TEST_CASE("flip and roll of a dimension that two mesh dimensions cut, and of volumes beside a replica") {
  const auto a = numbers<float>(Index<2>{11, 3}, 312);
  const auto b = numbers<hg::bfloat16>(Index<3>{3, 8, 2}, 313);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Long<float>>(mesh, a, way);
    const Long<float> mirrored = hg::flip<0>(u), rolled = hg::roll<0>(u, 5);
    CHECK(error(mirrored, {11, 3}, [&](auto i) { return a(10 - i[0], i[1]); }) == 0);
    CHECK(error(rolled, {11, 3}, [&](auto i) { return a(hg::floor_mod(i[0] - 5, 11), i[1]); }) == 0);
    const auto v = field<Volume<hg::bfloat16>>(mesh, b, way);
    const Volume<hg::bfloat16> turned = hg::flip<1>(hg::roll<2>(v, 1));
    CHECK(error(turned, {3, 8, 2},
                [&](auto i) { return static_cast<float>(b(i[0], 7 - i[1], hg::floor_mod(i[2] - 1, 2))); }) == 0);
  });
}

TEST_CASE("a roll by one row sends one row to one rank, a flip each point once, an uncut dimension nothing") {
  using Line = hg::Mesh<"line">;
  using Rows = hg::Sharded<hg::Tensor<double, dyn, dyn>, Line, hg::Shard<0>>;
  const auto a = numbers<double>(Index<2>{24, 5}, 314);
  const auto mesh = hg::device_mesh<Line>(grid_world(), {-1});
  const auto u = field<Rows>(mesh, a);
  const index_t ranks = mesh.size(), rows = u.local_extent(0);
  Rows v;
  using Sent = std::pair<index_t, index_t>;
  CHECK(sent([&] { v = hg::roll<0>(u, 1); }) == (ranks > 1 ? Sent{1, 5} : Sent{0, 0}));
  CHECK(sent([&] { v = hg::roll<0>(u, 24); }) == Sent{0, 0});
  CHECK(sent([&] { v = hg::roll<1>(u, 2); }) == Sent{0, 0});
  CHECK(sent([&] { v = hg::flip<1>(u); }) == Sent{0, 0});
  if (24 % ranks == 0) {
    const bool middle = 2 * mesh.rank() + 1 == ranks;
    CHECK(sent([&] { v = hg::flip<0>(u); }) == (middle ? Sent{0, 0} : Sent{1, 5 * rows}));
  }
  CHECK(hg::explain(hg::roll<0>(u + 1.0, 3)).find("flip or roll") != std::string::npos);
}

TEST_CASE("flip and roll give every point of a cotangent back") {
  const auto a = numbers<double>(Index<2>{5, 6}, 315);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<double>>(mesh, a, way);
    CHECK(adjoint_error([](auto v) { return hg::flip<0>(v) + hg::flip<1>(hg::shift<0, 1>(v)); }, u) < 1e-13);
    CHECK(adjoint_error([](auto v) { return hg::roll<0>(v, 2) - hg::shift<1, -1>(hg::roll<1>(2.0 * v, -1)); }, u) <
          1e-13);
    CHECK(gradient_error(
              maker<Plane<double>>(mesh, way),
              [](auto v) {
                const auto mean = hg::roll<1>(hg::mean<1>(v, hg::keep_dimensions) * hg::square(v), 4);
                return hg::sum(hg::sin(mean) * hg::flip<0>(v)) + hg::mean(hg::square(hg::roll<0>(hg::flip<0>(v), 3)));
              },
              1, a) < 1e-8);
  });
}

}  // namespace test_array_rearranged
