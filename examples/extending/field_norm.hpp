// An operation with launches, a kernel and a barrier sum of its own: y = x / sqrt(mean(x^2) + 1e-6), the mean over all
// channels and the whole field of a sample, however it is cut.
#pragma once

#include <halogen/network.hpp>

struct FieldNormOf {
  /// Rows of y = r x, and backward of r (g - x r^2 mean(g x)), where r = 1 / sqrt(mean(x^2) + 1e-6).
  template <class S, class Gradient>
  struct Rows {
    using T = hg::compute_type<S>;
    hg::kernels::ValueReader<S> x;
    Gradient gradient;
    const double* sums;  // of x^2 of each sample, then of g x
    int samples, planes, first;
    double points;

    KOKKOS_FUNCTION T at(int n, int c, hg::index_t i, hg::index_t j) const {
      const double r = 1 / Kokkos::sqrt(sums[n / planes] / points + 1e-6), value = x.at(n, first + c, i, j);
      if constexpr (std::is_same_v<Gradient, int>)
        return static_cast<T>(r * value);
      else
        return static_cast<T>(r *
                              (gradient.at(n, first + c, i, j) - value * r * r * sums[samples + n / planes] / points));
    }
    hg::index_t scratch_size(hg::index_t) const { return 0; }
    void row(int n, int c, hg::index_t i, hg::index_t j, hg::index_t count, T* out, T*) const {
      for (hg::index_t k = 0; k < count; ++k) out[k] = at(n, c, i, j + k);
    }
  };

  template <class S, class Gradient>
  static void run(const hg::LaunchAt<S>& at, const char* label, int value, const Gradient& gradient) {
    constexpr bool backward = !std::is_same_v<Gradient, int>;
    const auto x = at.value(value);
    const int samples = at.layout().samples(), level = at.node().level;
    at.sum_samples(x, x, at.rank_sums());
    if constexpr (backward) at.sum_samples(gradient, x, at.rank_sums() + samples);
    at.sum_over_ranks((1 + backward) * samples);
    const double points = static_cast<double>(at.layout().level(level).points()) * at.node().channels;
    at.over_rows(label, Rows<S, Gradient>{x, gradient, at.rank_sums(), samples, at.layout().planes(level),
                                          backward ? at.first_channel() : 0, points});
  }

  struct Forward : hg::SampleSumLaunch<1> {
    static constexpr const char* label = "field_norm";
    template <class S, hg::Form>
    static void run(const hg::LaunchAt<S>& at) {
      FieldNormOf::run(at, label, 0, 0);
    }
  };
  struct Backward : hg::SampleSumLaunch<2> {
    static constexpr const char *label = "field_norm_backward", *suffix = " backward";
    template <class S, hg::Form>
    static void run(const hg::LaunchAt<S>& at) {
      FieldNormOf::run(at, label, 1, at.gradient(0));
    }
  };

  static constexpr void forward(hg::Planner& planner, const hg::Node& node) {
    planner.emit_forward(node, planner.launch<Forward>(node).read(planner.read(node, hg::Pattern::point())));
  }
  static constexpr void vjp(hg::Planner& planner, const hg::Node& node) {
    const int gradient = planner.gradient_of(node);
    if (gradient < 0) return;
    hg::Launch launch = planner.launch<Backward>(node);
    launch.read(planner.gradient(gradient, hg::Pattern::point())).read(planner.read_again(node, hg::Pattern::point()));
    planner.emit_input_gradients(launch);
  }
  static constexpr hg::Operation operation{"field_norm", forward, vjp};
};

struct FieldNorm : hg::Module<FieldNorm> {
  constexpr hg::Traced forward(hg::Traced x) const { return hg::add_layer(x, FieldNormOf::operation); }
};
