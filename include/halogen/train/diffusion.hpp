// Diffusion as Karras et al. 2022 set it out ("Elucidating the Design Space of Diffusion-Based Generative Models"): the
// preconditioning of a network, its training batches, and Heun's sampler.
//
//   noisy x = clean + sigma noise;  denoised(x, sigma) = skip(sigma) x + out(sigma) network(in(sigma) x, level(sigma))
//
//   const hg::EDM edm{.sigma_data = 1};
//   const auto batch = hg::noised(edm, clean, {.seed = 7, .step = step});
//   trainer.step(hg::mse, hg::Inputs{batch.image, conditions, batch.level}, batch.target);
//   auto drawn = hg::sample_heun(edm, like, {.seed = 8}, 18, [&](const auto& x, const auto& level) {
//     return trainer.predict(hg::Inputs{x, conditions, level});
//   });
//
//   clean, like: (N, C, H, W), or with depth; placements in and out: Shard<0>, Shard<2> and beyond, Replicate.
//   Collectives: none but those of the network. Random numbers depend on the generator and the global index alone, so
//   a sample does not depend on the mesh but for the network's own rounding.
#pragma once

#include <array>
#include <cmath>
#include <string>

#include "halogen/array/expression/functions.hpp"
#include "halogen/array/random.hpp"
#include "halogen/array/stages/reshaped.hpp"
#include "halogen/train/network.hpp"

namespace halogen {

/// The paper's numbers, its table 1. sigma_data: the deviation of clean values. log_mean, log_deviation: of the levels
/// that are trained on. sigma_min, sigma_max, rho: of the sampler's steps.
struct EDM {
  double sigma_data = 0.5;
  double log_mean = -1.2, log_deviation = 1.2;
  double sigma_min = 0.002, sigma_max = 80, rho = 7;

  KOKKOS_FUNCTION double variance(double sigma) const { return sigma * sigma + sigma_data * sigma_data; }
  KOKKOS_FUNCTION double skip(double sigma) const { return sigma_data * sigma_data / variance(sigma); }
  KOKKOS_FUNCTION double out(double sigma) const { return sigma * sigma_data / Kokkos::sqrt(variance(sigma)); }
  KOKKOS_FUNCTION double in(double sigma) const { return 1 / Kokkos::sqrt(variance(sigma)); }
  /// What the network is told of sigma.
  KOKKOS_FUNCTION double level(double sigma) const { return Kokkos::log(sigma) / 4; }

  /// sigma before step i of so many; 0 after the last.
  double sigma_at(int i, int steps) const {
    if (i >= steps) return 0;
    const double high = std::pow(sigma_max, 1 / rho), low = std::pow(sigma_min, 1 / rho);
    return std::pow(high + i / std::max(1.0, steps - 1.0) * (low - high), rho);
  }
};

namespace detail {

/// The noise level of a sample, by its global index.
struct SigmaOf {
  EDM edm;
  Generator generator;
  template <class Index>
  KOKKOS_FUNCTION double operator()(Index sample) const {
    const auto bits = random_bits(generator, static_cast<std::uint64_t>(sample), RandomPurpose::levels);
    return Kokkos::exp(edm.log_mean + edm.log_deviation * Normal::of<double>(bits));
  }
};

enum class NoiseNumber { skip, out, in, level };
/// A number of sigma, by the name of EDM's function: nvcc 13 cannot name a kernel by a pointer to it.
template <NoiseNumber Number>
struct OfSigma {
  EDM edm;
  template <class T>
  KOKKOS_FUNCTION double operator()(T sigma) const {
    if constexpr (Number == NoiseNumber::skip)
      return edm.skip(sigma);
    else if constexpr (Number == NoiseNumber::out)
      return edm.out(sigma);
    else if constexpr (Number == NoiseNumber::in)
      return edm.in(sigma);
    else
      return edm.level(sigma);
  }
};

/// A vector's one channel beside fields of Rank dimensions.
template <int Rank, class Vector>
auto beside_points(const Vector& vector) {
  if constexpr (Rank == 2)
    return as_expression(vector);
  else
    return unsqueeze<2>(beside_points<Rank - 1>(vector));
}

template <class Field>
using LevelsOf = typename vectors_of<Field, 1>::type;

}  // namespace detail

/// What a step of training takes: network(image, level) is compared with target, by the mean of squares. Targets have
/// a deviation of about 1 whatever the noise, so the levels need no weights.
template <class Field>
struct NoisedBatch {
  Field image;                    ///< in(sigma) (clean + sigma noise)
  detail::LevelsOf<Field> level;  ///< (N, 1): level(sigma) of each sample
  Field target;                   ///< (clean - skip(sigma) (clean + sigma noise)) / out(sigma)
};

/// Each sample gets a sigma of its own, drawn from the log-normal distribution, and noise. The numbers of both are
/// others than those that randn_like draws by this generator.
template <class Field>
NoisedBatch<Field> noised(const EDM& edm, const Field& clean, const Generator& generator) {
  using T = typename Field::value_type;
  detail::require_made("noised", clean);
  detail::LevelsOf<Field> sigma(detail::LevelsOf<Field>::make_shape(clean.mesh(), {clean.cut(0), Cut::chunk(1, 1)}));
  sigma = cast<T>(halogen::apply(detail::SigmaOf{edm, generator}, global_index<0>(sigma)));
  using enum detail::NoiseNumber;
  const auto of = [&]<detail::NoiseNumber Number>(detail::OfSigma<Number> function) {
    return cast<T>(halogen::apply(function, detail::beside_points<Field::rank>(sigma)));
  };
  const Field noisy = clean + detail::beside_points<Field::rank>(sigma) *
                                  detail::random_like<detail::Normal>(clean, generator, RandomPurpose::noise);
  const Field image = of(detail::OfSigma<in>{edm}) * noisy;
  const Field target = (clean - of(detail::OfSigma<skip>{edm}) * noisy) / of(detail::OfSigma<out>{edm});
  sigma = cast<T>(halogen::apply(detail::OfSigma<level>{edm}, sigma));
  return {image, sigma, target};
}

/// Draws one field for each sample of `like`, whose extents, cuts and mesh it takes, in `steps` steps of Heun's method
/// (the paper's algorithm 1). network(image, level), the arguments as NoisedBatch has them, returns a field; it is
/// asked 2 steps - 1 times.
template <class Field, class Answer>
Field sample_heun(const EDM& edm, const Field& like, const Generator& generator, int steps, const Answer& network) {
  using T = typename Field::value_type;
  detail::require_made("sample_heun", like);
  if (steps < 1) throw CollectiveError("sample_heun: " + std::to_string(steps) + " steps: give 1 or more");
  detail::LevelsOf<Field> level(detail::LevelsOf<Field>::make_shape(like.mesh(), {like.cut(0), Cut::chunk(1, 1)}));
  // dx / dsigma = (x - denoised) / sigma
  const auto slope = [&](const Field& x, double sigma) {
    const Field image = static_cast<T>(edm.in(sigma)) * x;
    level = static_cast<T>(edm.level(sigma)) + 0 * level;
    const Field seen = network(image, std::as_const(level));
    const Field result =
        static_cast<T>((1 - edm.skip(sigma)) / sigma) * x - static_cast<T>(edm.out(sigma) / sigma) * seen;
    return result;
  };
  Field x(like.shape(), Field::Start::unwritten);
  x = static_cast<T>(edm.sigma_at(0, steps)) *
      detail::random_like<detail::Normal>(like, generator, RandomPurpose::start);
  for (int i = 0; i < steps; ++i) {
    const double sigma = edm.sigma_at(i, steps), next = edm.sigma_at(i + 1, steps);
    const Field first = slope(x, sigma);
    const Field trial = x + static_cast<T>(next - sigma) * first;
    if (next > 0)
      x = x + static_cast<T>((next - sigma) / 2) * (first + slope(trial, next));
    else
      x = trial;
  }
  return x;
}

}  // namespace halogen
