// LocalResponseNorm<Size, Alpha, Beta, K>: y[n, c, p] = x[n, c, p] / (K + Alpha / Size * the sum of x[n, j, p]^2 over
// the window of c)^Beta, as torch.nn.LocalResponseNorm. The window of c: the Size channels from c - Size / 2 on, of
// which only those that exist are added. The divisor is Size everywhere.
//
//   (N, C, H, W), (N, C, W), (N, C, D, H, W) or vectors (N, C) -> the same
//
//   placements of x                   placements of y   forward and backward
//   Shard<0>, Shard<2> and beyond,    the same          nothing
//   Replicate
//   Shard<1>, Partial                 does not compile: why::channels_are_cut, why::input_is_partial
//
// Halo: none. y is stored. vjp: from x and the gradient of y. Accumulation: over the channels of a window in their
// order. The gradient at a point whose channels of g are all 0 is 0, even if x is NaN there.
#pragma once

#include <ratio>

#include "halogen/kernels/pointwise/local_response_norm.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/run/at.hpp"

namespace halogen {
namespace detail {

struct LocalResponseConstants : Constants {
  int size = 1;
  double alpha = 0, beta = 0, k = 0;
};

template <class S>
kernels::ResponseWindows<compute_type<S>> response_windows(const LaunchAt<S>& at) {
  using T = compute_type<S>;
  const auto& of = at.node().template as<LocalResponseConstants>();
  return {at.node().channels, of.size, static_cast<T>(of.alpha / of.size), static_cast<T>(of.beta),
          static_cast<T>(of.k)};
}

struct LocalResponseForward {
  static constexpr const char* label = "halogen::local_response_norm";
  template <class S, Form>
  static auto point(const LaunchAt<S>& at) {
    return kernels::LocalResponsePoint<S>{at.value(0), response_windows(at), at.node().channels};
  }
};

struct LocalResponseBackward {
  static constexpr const char *label = "halogen::local_response_norm_backward", *suffix = " backward";
  template <class S, Form>
  static auto point(const LaunchAt<S>& at) {
    return kernels::LocalResponseBackwardPoint<S>{at.gradient(0), at.value(1), response_windows(at), at.node().channels,
                                                  at.first_channel()};
  }
};

constexpr void local_response_forward(Planner& planner, const Node& node) {
  planner.emit_forward(node, planner.launch<LocalResponseForward>(node).read(planner.read(node, Pattern::point())));
}

constexpr void local_response_vjp(Planner& planner, const Node& node) {
  const ActivationId reads = planner.gradient_of(node);
  if (reads < 0) return;
  Launch launch = planner.launch<LocalResponseBackward>(node);
  launch.read(planner.gradient(reads, Pattern::point())).read(planner.read_again(node, Pattern::point()));
  planner.emit_input_gradients(launch);
}

inline constexpr Operation local_response_operation{"local_response_norm", local_response_forward, local_response_vjp};

}  // namespace detail

/// LocalResponseNorm<5>, LocalResponseNorm<5, std::ratio<1, 1000>>. Alpha, Beta and K: std::ratio, PyTorch's defaults.
template <int Size, class Alpha = std::ratio<1, 10000>, class Beta = std::ratio<3, 4>, class K = std::ratio<1>>
struct LocalResponseNorm : Module<LocalResponseNorm<Size, Alpha, Beta, K>> {
  static_assert(Size > 0, "LocalResponseNorm<Size>: the window has at least one channel");

  constexpr Traced forward(Traced x) const { return add_layer(x, detail::local_response_operation, &constants); }

 private:
  template <class Ratio>
  static constexpr double number = static_cast<double>(Ratio::num) / static_cast<double>(Ratio::den);
  static constexpr detail::LocalResponseConstants constants{{}, Size, number<Alpha>, number<Beta>, number<K>};
};

}  // namespace halogen
