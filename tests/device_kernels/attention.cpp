// The device parts of attention, run by this machine's threads, against its definition written out here: embeddings of
// one part and of several, fewer positions than a tile and more, causal or not, pieces one after the other; in double,
// in float by three products and by one.
#include <doctest/doctest.h>

#include <cmath>

#include "support/plain_attention.hpp"

namespace {

using namespace support;
using Line = hg::Mesh<"line">;
template <class T>
using Rows = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
using Numbers = Array<double, 4>;

template <class Field>
double distance(const Field& field, const Numbers& expected) {
  double largest = 0;
  for (const double value : expected.values) largest = std::max(largest, std::abs(value));
  return error(field, expected.extents, [&](auto i) { return expected(i); }) / largest;
}

/// The largest error of output and gradients.
template <class T>
double run(const auto& mesh, int way, const Numbers (&given)[4], const AttentionResult& expected, bool is_causal) {
  using Field = Rows<T>;
  const auto q = field<Field>(mesh, given[0], way), k = field<Field>(mesh, given[1], way),
             v = field<Field>(mesh, given[2], way), g = field<Field>(mesh, given[3], way);
  const auto attend = [&](auto q, auto k, auto v) {
    return hg::scaled_dot_product_attention(q, k, v, {.is_causal = is_causal});
  };
  const Field y = attend(q, k, v);
  const auto [loss, dq, dk, dv] =
      hg::value_and_grad([&](auto q, auto k, auto v) { return hg::sum(attend(q, k, v) * g); })(q, k, v);
  return std::max({distance(y, expected.output), distance(dq, expected.query), distance(dk, expected.key),
                   distance(dv, expected.value)});
}

}  // namespace

TEST_CASE("attention's device parts: output and gradients") {
  struct Case {
    index_t length, keys, embedding, width;
    bool is_causal;
  };
  for (const Case& one : {Case{70, 45, 8, 24, false}, Case{40, 70, 70, 5, true}, Case{5, 9, 20, 70, false}}) {
    CAPTURE(one.embedding);
    const Numbers given[4] = {numbers<double>(Index<4>{1, 2, one.length, one.embedding}, 1),
                              numbers<double>(Index<4>{1, 2, one.keys, one.embedding}, 2),
                              numbers<double>(Index<4>{1, 2, one.keys, one.width}, 3),
                              numbers<double>(Index<4>{1, 2, one.length, one.width}, 4)};
    const AttentionResult expected = plain_attention(given[0], given[1], given[2], given[3], one.is_causal);
    for (const int way : {0, 1}) {
      CAPTURE(way);
      const auto mesh = hg::device_mesh<Line>(grid_world(), {-1});
      CHECK(run<double>(mesh, way, given, expected, one.is_causal) < 1e-13);
      CHECK(run<float>(mesh, way, given, expected, one.is_causal) < 1e-5);
      hg::allow_tf32(true);
      const double rough = run<float>(mesh, way, given, expected, one.is_causal);
      hg::allow_tf32(false);
      CHECK(rough < 5e-3);
      if (mesh.size() == 1) CHECK(rough > 2e-5);  // the products are tensor cores'
    }
  }
}
