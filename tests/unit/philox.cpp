// Philox4x32-10 against the known answers of its authors (Random123 1.14, kat_vectors), and what is drawn from it.
#include "halogen/core/philox.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <set>
#include <vector>

namespace {

using Counter = std::array<std::uint32_t, 4>;
using halogen::philox4x32;
using halogen::uniform_at;

constexpr std::uint32_t all = 0xffffffff;
static_assert(philox4x32({0, 0, 0, 0}, {0, 0}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
static_assert(philox4x32({all, all, all, all}, {all, all}) == Counter{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
static_assert(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
              Counter{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});

}  // namespace

TEST_CASE("the known answers, at run time too") {
  volatile std::uint32_t zero = 0;  // keeps the compiler from knowing the answer
  CHECK(philox4x32({zero, zero, zero, zero}, {zero, zero}) == Counter{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
}

TEST_CASE("uniform_at takes the top 53 bits of the first two words of counter (index, stream) and key seed") {
  const std::uint64_t seed = 0x299f31d0a4093822, stream = 0x0370734413198a2e, index = 0x85a308d3243f6a88;
  const std::uint64_t bits = (std::uint64_t{0xd16cfe09} << 32 | 0x94fdcceb) >> 11;
  CHECK(uniform_at(seed, stream, index) == std::ldexp(static_cast<double>(bits), -53));
}

TEST_CASE("in [0, 1), with the moments and the spread of a uniform distribution") {
  constexpr int count = 100000, bins = 100;
  double sum = 0, squares = 0, products = 0, previous = 0.5;
  std::vector<int> histogram(bins);
  for (int i = 0; i < count; ++i) {
    const double u = uniform_at(7, 3, static_cast<std::uint64_t>(i));
    REQUIRE(u >= 0);
    REQUIRE(u < 1);
    sum += u, squares += u * u, products += (u - 0.5) * (previous - 0.5);
    previous = u;
    ++histogram[static_cast<std::size_t>(u * bins)];
  }
  // Five standard deviations: sqrt(1 / 12), sqrt(4 / 45) and 1 / 12 over sqrt(count).
  const double root = std::sqrt(static_cast<double>(count));
  CHECK(std::abs(sum / count - 0.5) < 5 * std::sqrt(1.0 / 12) / root);
  CHECK(std::abs(squares / count - 1.0 / 3) < 5 * std::sqrt(4.0 / 45) / root);
  CHECK(std::abs(products / count) < 5 * (1.0 / 12) / root);
  double chi_squared = 0;
  for (const int n : histogram)
    chi_squared += (n - count / bins) * (n - count / bins) / static_cast<double>(count / bins);
  CHECK(chi_squared < bins - 1 + 5 * std::sqrt(2.0 * (bins - 1)));
  CHECK(chi_squared > bins - 1 - 5 * std::sqrt(2.0 * (bins - 1)));
}

TEST_CASE("purposes, layers, steps and streams each have numbers of their own, and so do the first parameters") {
  using halogen::RandomPurpose;
  std::set<std::uint32_t> seen;
  int count = 0;
  for (const auto purpose : {RandomPurpose::batches, RandomPurpose::samples, RandomPurpose::uniform,
                             RandomPurpose::normal, RandomPurpose::dropout, RandomPurpose::attention,
                             RandomPurpose::noise, RandomPurpose::levels, RandomPurpose::start, RandomPurpose::own})
    for (const bool of_layer : {false, true})
      for (const std::uint64_t step : {0ull, 1ull, 1ull << 32})
        for (const std::uint32_t stream : {0u, 1u}) {
          const auto bits = halogen::random_bits({7, step, stream, of_layer}, 5, purpose);
          seen.insert(bits.begin(), bits.end());
          count += 4;
        }
  for (const std::uint64_t stream : {0ull, 1ull}) {
    seen.insert(static_cast<std::uint32_t>(std::ldexp(uniform_at(7, stream, 5), 32)));
    ++count;
  }
  CHECK(static_cast<int>(seen.size()) == count);
  // fit's order of batches is that of all versions
  CHECK(halogen::random_bits({7, 3, 2}, 5, RandomPurpose::batches) == philox4x32({5, 0, 2, 3}, {7, 0x6A09E667}));
}

TEST_CASE("seed, stream and index, low and high words, all count") {
  std::set<double> seen;
  for (const std::uint64_t seed : {0ull, 1ull, 1ull << 32})
    for (const std::uint64_t stream : {0ull, 1ull, 1ull << 32})
      for (const std::uint64_t index : {0ull, 1ull, 1ull << 32, 1ull << 63})
        seen.insert(uniform_at(seed, stream, index));
  CHECK(seen.size() == 3 * 3 * 4);
}
