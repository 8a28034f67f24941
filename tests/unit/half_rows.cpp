// Rows of bfloat16 read and written as vectors of float: each lane as the number by itself.
#include <doctest/doctest.h>

#include <halogen/kernels/vector/simd.hpp>
#include <initializer_list>

namespace {

using halogen::bfloat16;
using namespace halogen::kernels;

}  // namespace

TEST_CASE("vectors are rounded to nearest even, with infinities, subnormals and NaN, and widened") {
  constexpr int count = lanes<float>;
  constexpr std::uint32_t step = 4003;  // odd: all halves and neighbours of halves come
  long wrong_bits = 0, wrong_back = 0;
  std::uint32_t word = 0;
  for (std::uint32_t done = 0; done < 1u << 20; done += count) {
    float values[count];
    bfloat16 halves[count];
    for (float& value : values) value = __builtin_bit_cast(float, word += step);
    store<Vector<float>>(halves, load<Vector<float>>(values));
    const auto back = load<Vector<float>>(halves);
    for (int l = 0; l < count; ++l) {
      wrong_bits += halves[l].bits != bfloat16(values[l]).bits;
      const float lane = back[l];
      wrong_back += __builtin_bit_cast(std::uint32_t, lane) != std::uint32_t{halves[l].bits} << 16;
    }
  }
  CHECK(wrong_bits == 0);
  CHECK(wrong_back == 0);
}
TEST_CASE("halves between two numbers") {
  for (std::uint32_t upper = 0; upper < 1u << 16; ++upper)
    for (const std::uint32_t lower : {0x7fffu, 0x8000u, 0x8001u}) {
      Vector<float> all{};
      all = all + 1.f;
      all[1] = __builtin_bit_cast(float, upper << 16 | lower);
      bfloat16 halves[lanes<float>];
      store(halves, all);
      REQUIRE(halves[1].bits == bfloat16(__builtin_bit_cast(float, upper << 16 | lower)).bits);
      REQUIRE(halves[0].bits == 0x3f80);
    }
}
