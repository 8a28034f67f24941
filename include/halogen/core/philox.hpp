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

/// What random numbers are drawn for. The number is a part of Philox's key, so each purpose has numbers of its own,
/// whatever seed, step and stream are. The first values of parameters, which uniform_at draws, have no such part. The
/// numbers are square roots of primes: the first 32 bits behind the point, as in SHA-256 and SHA-384.
enum class RandomPurpose : std::uint32_t {
  batches = 0x6A09E667,    ///< in which order fit takes them
  samples = 0xBB67AE85,    ///< which of them a batch of a data set has
  uniform = 0x3C6EF372,    ///< rand_like
  normal = 0xA54FF53A,     ///< randn_like
  dropout = 0x510E527F,    ///< layers that drop values
  attention = 0x9B05688C,  ///< dropout of attention's shares
  noise = 0x1F83D9AB,      ///< that noised adds
  levels = 0x5BE0CD19,     ///< of noise
  start = 0xCBBB9D5D,      ///< of a sampler
  own = 0x629A292A,        ///< of one's own
};

/// Where random numbers of a run come from. The numbers of another step or stream are others.
struct Generator {
  std::uint64_t seed = 0;
  std::uint64_t step = 0;
  std::uint32_t stream = 0;
  bool of_layer = false;  ///< made by a network for one of its layers, whose numbers are others too
  index_t samples_before = 0;  ///< of the batch, where the field that is drawn for is a part of it (dimension 0)
};

/// 128 bits at (generator, index).
constexpr std::array<std::uint32_t, 4> random_bits(const Generator& from, std::uint64_t index,
                                                   RandomPurpose purpose = RandomPurpose::own) {
  constexpr std::uint32_t layers = 0x9159015A;
  const std::uint32_t apart = static_cast<std::uint32_t>(purpose) ^ (from.of_layer ? layers : 0);
  return philox4x32({static_cast<std::uint32_t>(index), static_cast<std::uint32_t>(index >> 32), from.stream,
                     static_cast<std::uint32_t>(from.step)},
                    {static_cast<std::uint32_t>(from.seed), static_cast<std::uint32_t>(from.seed >> 32) ^ apart ^
                                                                static_cast<std::uint32_t>(from.step >> 32)});
}

/// The random numbers by which one layer drops values in a step; the number of the step lies where kernels read it.
/// None while `step` is null: the layer does not draw.
struct RandomStream {
  std::uint64_t seed = 0;
  const index_t* step = nullptr;
  std::uint32_t stream = 0;
  index_t samples_before = 0;  ///< where fields are a part of a batch: how much larger a sample's number is in the batch

  HALOGEN_FUNCTION bool draws() const { return step != nullptr; }
  HALOGEN_FUNCTION std::array<std::uint32_t, 4> bits(std::uint64_t index) const {
    return random_bits({seed, static_cast<std::uint64_t>(*step), stream, true}, index, RandomPurpose::dropout);
  }
};

}  // namespace halogen
