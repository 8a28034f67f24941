// Random programs of a network's outputs, beside those of random_program.hpp: values and gradients compared alike.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <tuple>
#include <vector>

#include "halogen/halogen.hpp"
#include "support/random_program.hpp"

namespace support {

/// One output, or two, as large as the image.
template <int Outputs>
struct DrawnNetwork : hg::Module<DrawnNetwork<Outputs>> {
  constexpr auto forward(hg::Traced x) const {
    const hg::Traced h = hg::SiLU{}(hg::Conv2d<2, 2, hg::Kernel<3>, hg::Padding<1>>{}(x));
    if constexpr (Outputs == 1)
      return h;
    else
      return std::tuple{h, hg::Conv2d<2, 2, hg::Kernel<1>>{}(h)};
  }
};

/// Whether a difference quotient of a loss, which may have a kink in between, is this derivative.
template <class Loss>
std::string quotient_differs(const char* what, std::vector<double> at, std::size_t i, double derivative, double scale,
                             const Loss& loss) {
  double quotient = 0;
  for (const double h : {1e-5, 1e-6, 1e-4}) {
    auto moved = at;
    moved[i] = at[i] + h;
    const double above = loss(moved);
    moved[i] = at[i] - h;
    quotient = (above - loss(moved)) / (2 * h);
    if (!std::isfinite(derivative) || std::abs(quotient - derivative) <= 1e-4 * scale) return "";
  }
  return std::string("the derivative by ") + what + " " + std::to_string(i) + " is " + std::to_string(derivative) +
         ", by differences " + std::to_string(quotient);
}

/// The loss, its gradients by the parameters and by the image, and, `alone`, what of them differs from differences.
template <class P>
Values evaluate_network(const hg::DeviceMesh<typename P::Image::mesh_type>& mesh, const Case& one, bool alone,
                        std::string& wrong) {
  using Model = DrawnNetwork<P::outputs>;
  Case sized = one;
  sized.extents[1] = 2;
  const auto loss = [&](auto net, const auto& image) {
    if constexpr (P::outputs == 1) {
      const auto output = net(image);
      return P::value(sized.extents, output, output);
    } else {
      const auto [first, second] = net(image);
      return P::value(sized.extents, first, second);
    }
  };
  const auto x = variable<Variable<typename P::Image, -1>>(mesh, sized, 0, P::chunked);
  const auto start = hg::initial_parameters<Model, double>(one.salt);
  auto of_both = hg::value_and_grad(loss);
  const auto [value, by_parameters, by_image] = of_both(start, x);
  const auto whole = hg::redistribute<hg::Replicate>(by_parameters).to_host();
  Values values{{{value}, whole}, {{0}, {}}};
  for (std::size_t i = 0; i < whole.size(); ++i) values.own[1].push_back(static_cast<index_t>(i));
  keep(values, by_image);
  if (!alone || !std::isfinite(value)) return values;
  double scale = 1e-3;
  for (const auto& array : values.arrays)
    for (const double v : array) scale = std::max(scale, std::abs(v));
  const auto numbers = start.to_host();
  const auto pick = [&](std::size_t count, unsigned long long stream) {
    return static_cast<std::size_t>(drawn_below(static_cast<int>(count), one.salt, stream, 0));
  };
  const std::size_t p = pick(numbers.size(), 60), i = pick(values.arrays[2].size(), 61);
  wrong = quotient_differs("parameter", numbers, p, whole[p], scale, [&](const std::vector<double>& at) {
    auto moved = hg::initial_parameters<Model, double>(one.salt);
    moved.copy_from_host(at);
    return std::get<0>(hg::value_and_grad(loss)(moved, x));
  });
  if (wrong.empty())
    wrong = quotient_differs("point", x.to_host(), i, values.arrays[2][i], scale, [&](const std::vector<double>& at) {
      auto moved = x.clone();
      moved.copy_from_host(at);
      return std::get<0>(hg::value_and_grad(loss)(start, moved));
    });
  return values;
}

/// Collective. A mesh that leaves a piece of the network without points refuses it.
template <class P>
Verdict run_network(const hg::Communicator& world, const Case& one) {
  std::string wrong;
  int run = 0;  // the first alone
  Verdict verdict = run_beside_one<typename P::Image::mesh_type>(
      world, one, 1e-10, 1e-9, [&](const auto& mesh) { return evaluate_network<P>(mesh, one, run++ == 0, wrong); });
  if (verdict.what.find("refused with") == 0 && verdict.what.find("alone with \"\"") != std::string::npos)
    verdict.outcome = Outcome::refused;
  if (!wrong.empty()) return {Outcome::differs, wrong};
  return verdict;
}

template <class P>
struct RegisteredNetwork {
  RegisteredNetwork() { programs().push_back({P::number, P::rank, P::periodic, P::text, run_network<P>}); }
};

}  // namespace support
