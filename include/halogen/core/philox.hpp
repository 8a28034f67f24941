// Philox4x32-10 (Salmon et al., SC 2011): random numbers as a function of (seed, stream, index), so that they do not
// depend on the mesh, the number of threads or the order of drawing.
#pragma once

#include <array>
#include <cstdint>

#include "halogen/core/config.hpp"

namespace halogen {

/// Four 32-bit numbers of a 128-bit counter under a 64-bit key.
constexpr std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter,
                                                  std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t a = std::uint64_t{0xD2511F53} * counter[0], b = std::uint64_t{0xCD9E8D57} * counter[2];
    counter = {static_cast<std::uint32_t>(b >> 32) ^ counter[1] ^ key[0], static_cast<std::uint32_t>(b),
               static_cast<std::uint32_t>(a >> 32) ^ counter[3] ^ key[1], static_cast<std::uint32_t>(a)};
    key[0] += 0x9E3779B9;
    key[1] += 0xBB67AE85;
  }
  return counter;
}

/// In [0, 1), of two words.
constexpr double unit_of(std::uint32_t high, std::uint32_t low) {
  return static_cast<double>((std::uint64_t{high} << 21) ^ (low >> 11)) * 0x1p-53;
}

/// Uniform in [0, 1), 53 bits, at (seed, stream, index).
constexpr double uniform_at(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  const std::array<std::uint32_t, 4> bits =
      philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32),
                  static_cast<std::uint32_t>(stream), static_cast<std::uint32_t>(stream >> 32)},
                 {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)});
  return unit_of(bits[0], bits[1]);
}

/// Where random numbers of a run come from. The numbers of another step or stream are others.
struct Generator {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t stream = 0;
};

/// 128 bits at (generator, index). Other bits than those of the first values of parameters, which uniform_at draws.
constexpr std::array<std::uint32_t, 4> random_bits(const Generator& from, std::uint64_t index) {
  constexpr std::uint32_t apart = 0x6A09E667;
  return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), from.stream,
                     static_cast<std::uint32_t>(from.step)},
                    {static_cast<std::uint32_t>(from.seed), static_cast<std::uint32_t>(from.seed >> 32) ^ apart ^
                                                                static_cast<std::uint32_t>(from.step >> 32)});
}

/// The random numbers of one layer in a step; the number of the step lies where kernels read it. None while `step` is
/// null: the layer does not draw.
struct RandomStream {
  std::uint64_t seed = 0;
  const index_t* step = nullptr;
  std::uint32_t stream = 0;

  HALOGEN_FUNCTION bool draws() const { return step != nullptr; }
  HALOGEN_FUNCTION std::array<std::uint32_t, 4> bits(std::uint64_t index) const {
    return random_bits({seed, static_cast<std::uint64_t>(*step), stream}, index);
  }
};

}  // namespace halogen
