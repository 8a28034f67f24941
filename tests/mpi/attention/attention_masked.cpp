// program: attention
// optimise: 1
// ranks: 1 3 4
// Causal attention of positions some of which are NaN or infinite: a query takes nothing from keys and values that it
// does not see, nor they from it, however the sequence is cut. Beside plain loops over what is seen.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/plain_attention.hpp"

namespace test_attention_masked {

using namespace support;

namespace {

using Line = hg::Mesh<"line">;
template <class T>
using Sequence = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
using Numbers = Array<double, 4>;

constexpr bool on_device = HALOGEN_DEVICE_KERNELS > 0;  // threads in its place take their time
/// On the host in one kernel, or several; on a device in several parts.
const std::vector<index_t> widths = on_device ? std::vector<index_t>{40} : std::vector<index_t>{32, 7};

/// Largest difference where the expected value is finite; 1e300 where one of both is and the other is not.
template <class Field>
double beside(const Field& field, const Numbers& expected) {
  const auto all = hg::full_tensor(field);
  double worst = 0;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const double found = static_cast<double>(all[i]);
    if (std::isfinite(found) != std::isfinite(expected.values[i])) return 1e300;
    if (std::isfinite(found)) worst = std::max(worst, std::abs(found - expected.values[i]));
  }
  return worst;
}

template <class T>
void check(const auto& mesh, int way, const Numbers (&given)[4], double tolerance) {
  using Field = Sequence<T>;
  const auto expected = plain_attention(given[0], given[1], given[2], given[3], true);
  const auto q = field<Field>(mesh, given[0], way), k = field<Field>(mesh, given[1], way),
             v = field<Field>(mesh, given[2], way);
  const auto g = field<Sequence<hg::compute_type<T>>>(mesh, given[3], way);
  const auto attention = [](auto q, auto k, auto v) {
    return hg::scaled_dot_product_attention(q, k, v, {.is_causal = true});
  };
  const auto [output, pull] = hg::vjp(attention, q, k, v);
  const auto [dq, dk, dv] = pull(g);
  CHECK(beside(output, expected.output) < tolerance);
  CHECK(beside(dq, expected.query) < tolerance);
  CHECK(beside(dk, expected.key) < tolerance);
  CHECK(beside(dv, expected.value) < tolerance);
  const auto [same, pull_query] = hg::vjp([&](auto q) { return attention(q, k, v); }, q);  // by a kernel of its own
  CHECK(beside(std::get<0>(pull_query(g)), expected.query) < tolerance);
  const auto [again, pull_keys] = hg::vjp([&](auto k, auto v) { return attention(q, k, v); }, k, v);
  CHECK(beside(std::get<0>(pull_keys(g)), expected.key) < tolerance);
  CHECK(beside(std::get<1>(pull_keys(g)), expected.value) < tolerance);
}

}  // namespace

TEST_CASE("what is NaN or infinite reaches only those that see it") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  // Which of query, key, value and cotangent, at which position, is what.
  struct Spot {
    int which;
    index_t position;
    double value;
  };
  for (const index_t width : widths) {
    const Index<4> extents{1, 3, 83, width};
    for (const Spot& spot : {Spot{1, 61, nan}, Spot{2, 40, infinity}, Spot{0, 20, nan}, Spot{3, 33, nan},
                             Spot{1, 82, nan}, Spot{2, 0, nan}}) {
      CAPTURE(width);
      CAPTURE(spot.which);
      CAPTURE(spot.position);
      Numbers given[4] = {numbers<double>(extents, 1), numbers<double>(extents, 2), numbers<double>(extents, 3),
                          numbers<double>(extents, 4)};
      for (Numbers& one : given)
        for (double& value : one.values) value = std::round(64 * value) / 64;  // two bytes hold them
      given[spot.which].values[given[spot.which].offset({0, 1, spot.position, 3})] = spot.value;
      everywhere<Line>([&](const auto& mesh, int way) {
        if (on_device && way > 0) return;
        check<double>(mesh, way, given, 1e-12);
        check<float>(mesh, way, given, 1e-4);
        if (way == 0 && !on_device) check<hg::bfloat16>(mesh, way, given, 2e-1);
      });
    }
  }
}

}  // namespace test_attention_masked
