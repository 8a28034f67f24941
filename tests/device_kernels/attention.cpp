// The device parts of attention, run by this machine's threads, against its definition written out here: embeddings of
// one part and of several, fewer positions than a tile and more, causal or not, pieces one after the other; in double,
// in float by three products and by one.
#include <doctest/doctest.h>

#include <cmath>

#include "support/array.hpp"

namespace {

using namespace support;
using Line = hg::Mesh<"line">;
template <class T>
using Rows = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
using Numbers = Array<double, 4>;

struct Result {
  Numbers output, query, key, value;
};

/// Output and gradients of sum(output * g).
Result plain(const Numbers& q, const Numbers& k, const Numbers& v, const Numbers& g, bool is_causal) {
  const auto zeros = [](const Numbers& like) { return Numbers(like.extents, [](auto) { return 0.0; }); };
  Result result{zeros(g), zeros(q), zeros(k), zeros(v)};
  const auto [n, heads, length, embedding] = q.extents;
  const index_t keys = k.extents[2], width = v.extents[3];
  const double scale = 1 / std::sqrt(static_cast<double>(embedding));
  for_each_index(Index<3>{n, heads, length}, [&, embedding = embedding](Index<3> i) {
    const auto at = [&](const Numbers& a, index_t position, index_t e) { return a.offset({i[0], i[1], position, e}); };
    const auto seen = static_cast<std::size_t>(is_causal ? std::min(keys, i[2] + 1) : keys);
    std::vector<double> p(seen), slope(seen);
    double sum = 0, dot = 0;
    for (std::size_t j = 0; j < seen; ++j) {
      const auto key = static_cast<index_t>(j);
      for (index_t e = 0; e < embedding; ++e) p[j] += scale * q.values[at(q, i[2], e)] * k.values[at(k, key, e)];
      sum += p[j] = std::exp(p[j]);
    }
    for (std::size_t j = 0; j < seen; ++j) {
      const auto key = static_cast<index_t>(j);
      p[j] /= sum;
      for (index_t e = 0; e < width; ++e) {
        result.output.values[at(g, i[2], e)] += p[j] * v.values[at(v, key, e)];
        result.value.values[at(v, key, e)] += p[j] * g.values[at(g, i[2], e)];
        slope[j] += g.values[at(g, i[2], e)] * v.values[at(v, key, e)];
      }
      dot += p[j] * slope[j];
    }
    for (std::size_t j = 0; j < seen; ++j)
      for (index_t e = 0; e < embedding; ++e) {
        const auto key = static_cast<index_t>(j);
        const double share = scale * p[j] * (slope[j] - dot);
        result.query.values[at(q, i[2], e)] += share * k.values[at(k, key, e)];
        result.key.values[at(k, key, e)] += share * q.values[at(q, i[2], e)];
      }
  });
  return result;
}

template <class Field>
double distance(const Field& field, const Numbers& expected) {
  double largest = 0;
  for (const double value : expected.values) largest = std::max(largest, std::abs(value));
  return error(field, expected.extents, [&](auto i) { return expected(i); }) / largest;
}

/// The largest error of output and gradients.
template <class T>
double run(const auto& mesh, int way, const Numbers (&given)[4], const Result& expected, bool is_causal) {
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
    const Result expected = plain(given[0], given[1], given[2], given[3], one.is_causal);
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
