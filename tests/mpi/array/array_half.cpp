// program: arrays
// Two-byte storage: the conversions against arithmetic in double, and fields of them in every operation.
//

#include <doctest/doctest.h>

#include <cstring>
#include <limits>

#include "support/array.hpp"

namespace test_array_half {

using namespace support;

namespace {

using hg::dyn;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
template <class T>
using Rows = hg::Sharded<hg::Tensor<T, dyn>, Grid, hg::Shard<0>, hg::Replicate>;

/// The number that `bits` mean: sign, exponent of `exponent_bits`, the rest mantissa.
double meaning(unsigned bits, int exponent_bits) {
  const int mantissa_bits = 15 - exponent_bits;
  const int exponent = static_cast<int>(bits >> mantissa_bits) & ((1 << exponent_bits) - 1);
  const double mantissa = (bits & ((1u << mantissa_bits) - 1)) / std::ldexp(1.0, mantissa_bits);
  const int bias = (1 << (exponent_bits - 1)) - 1;
  const double sign = bits & 0x8000u ? -1 : 1;
  if (exponent == 2 * bias + 1) return mantissa == 0 ? sign * INFINITY : NAN;
  return sign * (exponent == 0 ? std::ldexp(mantissa, 1 - bias) : std::ldexp(1 + mantissa, exponent - bias));
}

template <class Half>
constexpr int exponent_bits = std::is_same_v<Half, hg::bfloat16> ? 8 : 5;

/// value rounded to the nearest number that Half has, the even one of two equally near.
template <class Half>
double nearest(double value) {
  const int mantissa_bits = 15 - exponent_bits<Half>, bias = (1 << (exponent_bits<Half> - 1)) - 1;
  if (value == 0 || !std::isfinite(value)) return value;
  int exponent = 0;
  std::frexp(value, &exponent);
  const double unit = std::ldexp(1.0, std::max(exponent - 1, 1 - bias) - mantissa_bits);
  const double rounded = std::nearbyint(value / unit) * unit;  // to even
  return std::abs(rounded) >= std::ldexp(1.0, bias + 1) ? std::copysign(INFINITY, value) : rounded;
}

}  // namespace

TEST_CASE_TEMPLATE("all 65536 numbers mean what their bits say and come back", Half, hg::bfloat16, hg::float16) {
  int wrong = 0;
  for (unsigned bits = 0; bits < 65536; ++bits) {
    Half half;
    half.bits = static_cast<std::uint16_t>(bits);
    const double expected = meaning(bits, exponent_bits<Half>), value = static_cast<float>(half);
    if (std::isnan(expected)) {
      wrong += !std::isnan(value) || !std::isnan(static_cast<float>(Half(static_cast<float>(value))));
    } else {
      wrong += value != expected || std::signbit(value) != std::signbit(expected);
      wrong += Half(static_cast<float>(value)).bits != bits;
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE_TEMPLATE("rounding is to nearest even, with infinities and subnormals", Half, hg::bfloat16, hg::float16) {
  int wrong = 0;
  for (std::uint32_t word = 0; word < 0x7f800000u; word += 9973) {
    float value = 0;
    std::memcpy(&value, &word, sizeof value);
    for (const float v : {value, -value}) wrong += static_cast<float>(Half(v)) != nearest<Half>(v);
  }
  for (unsigned bits = 0; bits < 0x7bffu; ++bits) {  // exactly between two neighbours, and a little to either side
    const double a = meaning(bits, exponent_bits<Half>), b = meaning(bits + 1, exponent_bits<Half>);
    if (!std::isfinite(b)) break;
    const auto middle = static_cast<float>((a + b) / 2);
    for (const float v : {middle, std::nextafter(middle, 0.f), std::nextafter(middle, 1e30f)})
      wrong += static_cast<float>(Half(v)) != nearest<Half>(v);
  }
  CHECK(wrong == 0);
  CHECK(std::isinf(static_cast<float>(Half(std::numeric_limits<float>::infinity()))));
  CHECK(std::isinf(static_cast<float>(Half(std::numeric_limits<float>::max()))));
}

TEST_CASE_TEMPLATE("random numbers are rounded down: below 1 in every type, and never another one", T, hg::bfloat16,
                   hg::float16, float, double) {
  const Index<2> extents{256, 256};
  const int digits = std::is_same_v<T, hg::bfloat16> ? 8 : std::is_same_v<T, hg::float16> ? 11 : 24;
  const auto mesh = all_meshes<Grid>().front();
  const Plane<T> like(mesh, extents);
  const Plane<float> floats(mesh, extents);
  Plane<T> drawn(mesh, extents);
  drawn = hg::rand_like(like, {.seed = 3});
  Plane<T> by_expression(mesh, extents);
  by_expression = hg::rand_like(like + like, {.seed = 3});
  Plane<float> all(mesh, extents);
  all = hg::rand_like(floats, {.seed = 3});
  const auto found = drawn.to_host(), also = by_expression.to_host();
  const auto exact = all.to_host();
  int ones = 0, others = 0, above = 0;
  double sum = 0;
  for (std::size_t i = 0; i < found.size(); ++i) {
    const double x = static_cast<double>(found[i]), y = static_cast<double>(exact[i]);
    ones += x >= 1 || static_cast<double>(also[i]) >= 1;
    above += !std::is_same_v<T, double> && (x > y || static_cast<double>(also[i]) > y);
    others += !std::is_same_v<T, double> && x != 0 && y - x >= std::ldexp(x, 1 - digits);
    sum += x;
  }
  CHECK(ones == 0);
  CHECK(above == 0);
  CHECK(others == 0);
  if (!found.empty()) CHECK(std::abs(sum / static_cast<double>(found.size()) - 0.5) < 0.02);
  Plane<float> of_integers(mesh, extents);
  of_integers = hg::rand_like(Plane<int>(mesh, extents), {.seed = 3});
  CHECK(of_integers.to_host() == exact);
}

TEST_CASE_TEMPLATE("fields of two bytes: computed in float, rounded when stored, half the bytes sent", Half,
                   hg::bfloat16, hg::float16) {
  const Index<2> extents{9, 14};
  const Array<float, 2> a(extents,
                          [raw = numbers<float>(extents, 50)](auto i) { return static_cast<float>(Half(raw(i))); });
  const auto stored = [](float v) { return static_cast<double>(static_cast<float>(Half(v))); };
  for (const auto& mesh : all_meshes<Grid>())
    for (int way = 0; way < ways_to_cut; ++way) {
      auto u = field<Plane<Half>>(mesh, a, way);
      const auto wide = field<Plane<float>>(mesh, a, way);
      CHECK(error(u, extents, a) == 0);
      const auto w = hg::with_boundary<hg::Zero, hg::Periodic>(u);
      auto before = hg::comm_stats();
      const Plane<Half> sum = w + hg::shift<1, 1>(w) + hg::shift<0, -1>(w);
      const auto spent = hg::comm_stats() - before;
      const auto ww = hg::with_boundary<hg::Zero, hg::Periodic>(wide);
      before = hg::comm_stats();
      const Plane<float> in_float = ww + hg::shift<1, 1>(ww) + hg::shift<0, -1>(ww);
      const auto spent_wide = hg::comm_stats() - before;
      CHECK(spent.messages.count == spent_wide.messages.count);
      CHECK(2 * spent.messages.bytes == spent_wide.messages.bytes);
      const auto expected = [&](auto i) { return a(i) + a(i[0], (i[1] + 1) % 14) + a(i[0] - 1, i[1]); };
      CHECK(error(in_float, extents, expected) == 0);
      CHECK(error(sum, extents, [&](auto i) { return stored(expected(i)); }) == 0);
      const Plane<Half> mixed =
          hg::cast<Half>(hg::slice<1>(u, 0, 14, 3) * 0.5f + hg::cast<float>(hg::slice<1>(wide, 0, 14, 3)));
      CHECK(error(mixed, {9, 5}, [&](auto i) { return stored(1.5f * a(i[0], 3 * i[1])); }) == 0);
      const Rows<float> most = hg::max<1>(u);
      CHECK(error(most, {9}, [&](auto i) {
              float most = -2;
              for (int x = 0; x < 14; ++x) most = std::max(most, a(i[0], x));
              return most;
            }) == 0);
      const Rows<Half> total = hg::sum<1>(u);
      CHECK(error(total, {9}, [&](auto i) {
              double sum = 0;
              for (int x = 0; x < 14; ++x) sum += a(i[0], x);
              return stored(static_cast<float>(sum));
            }) == 0);
      const Plane<Half> joined = hg::concatenate<0>(u, u * 2.0f);
      CHECK(error(joined, {18, 14}, [&](auto i) { return i[0] < 9 ? a(i) : stored(2 * a(i[0] - 9, i[1])); }) == 0);
      using Turned = hg::Sharded<hg::Tensor<Half, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>>;
      const Turned turned = hg::redistribute<Turned>(u + 1.0f);
      CHECK(error(turned, extents, [&](auto i) { return stored(a(i) + 1); }) == 0);
      u += 1.0f;
      CHECK(error(u, extents, [&](auto i) { return stored(a(i) + 1); }) == 0);
      auto derive = hg::value_and_grad([](auto v) { return hg::sum(hg::square(v)) + hg::sum(hg::slice<0>(v, 1, 9)); });
      const auto [value, gradient] = derive(u);
      static_cast<void>(value);
      CHECK(error(gradient, extents, [&](auto i) {  // one rounding for each term
              const double twice = stored(static_cast<float>(2 * stored(a(i) + 1)));
              return stored(static_cast<float>(twice + (i[0] > 0)));
            }) == 0);
    }
}

}  // namespace test_array_half
