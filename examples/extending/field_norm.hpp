// An operation with kernels and a barrier sum of its own: y = x / sqrt(mean(x^2) + 1e-6), the mean over all channels
// and the whole field of a sample, however it is cut.
#pragma once

#include <halogen/network.hpp>

/// Rows of r x, and backward of r (g - x r^2 mean(g x)), r = 1 / sqrt(mean(x^2) + 1e-6).
template <class S, class Gradient>
struct FieldNormRows {
  using T = hg::compute_type<S>;
  hg::kernels::ValueReader<S> x;
  Gradient g;
  const double* sums;  // of x^2 of each sample, then of g x
  double points;
  int samples, planes, first;

  KOKKOS_FUNCTION T at(int n, int c, hg::index_t i, hg::index_t j) const {
    const double r = 1 / Kokkos::sqrt(sums[n / planes] / points + 1e-6), value = x.at(n, first + c, i, j);
    if constexpr (std::is_same_v<Gradient, int>)
      return static_cast<T>(r * value);
    else
      return static_cast<T>(r * (g.at(n, first + c, i, j) - value * r * r * sums[samples + n / planes] / points));
  }
};

template <bool Backward>
struct FieldNormLaunch : hg::SampleSumLaunch<1 + Backward> {
  static constexpr const char *label = "field_norm", *suffix = Backward ? " backward" : "";

  template <class S, hg::Form>
  static auto rows(const hg::LaunchAt<S>& at) {
    const auto x = at.value(0);
    const int samples = at.layout().samples(), level = at.node().level, planes = at.layout().planes(level);
    const double points = static_cast<double>(at.layout().level(level).points()) * at.node().channels;
    at.sum_samples(x, x, at.rank_sums());
    if constexpr (Backward) at.sum_samples(at.gradient(1), x, at.rank_sums() + samples);
    at.sum_over_ranks((1 + Backward) * samples);
    if constexpr (Backward)
      return FieldNormRows<S, hg::kernels::GradientReader<S>>{x,       at.gradient(1), at.rank_sums(),    points,
                                                              samples, planes,         at.first_channel()};
    else
      return FieldNormRows<S, int>{x, 0, at.rank_sums(), points, samples, planes, 0};
  }
};

struct FieldNorm : hg::Module<FieldNorm> {
  static constexpr void emit_forward(hg::Planner& planner, const hg::Node& node) {
    hg::Launch launch = planner.launch<FieldNormLaunch<false>>(node);
    planner.emit_forward(node, launch.read(planner.read(node, hg::Pattern::point())));
  }
  static constexpr void emit_vjp(hg::Planner& planner, const hg::Node& node) {
    const hg::ActivationId gradient = planner.gradient_of(node);
    if (gradient < 0) return;
    hg::Launch launch = planner.launch<FieldNormLaunch<true>>(node);
    launch.read(planner.read_again(node, hg::Pattern::point())).read(planner.gradient(gradient, hg::Pattern::point()));
    planner.emit_input_gradients(launch);
  }
  static constexpr hg::Operation operation{"field_norm", emit_forward, emit_vjp};
  constexpr hg::Traced forward(hg::Traced x) const { return hg::add_layer(x, operation); }
};
