// Sums over pixels: their error does not grow with the field. Four million points in float, against closed formulas.
#include <doctest/doctest.h>

#include <numeric>

#include "support/convolutions.hpp"

namespace {

using Mesh = hg::Mesh<"line">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;
constexpr hg::index_t height = 2048, width = 2048;

struct Linear : hg::Sequential<hg::Conv2d<1, 1>> {};
struct Normed : hg::Sequential<hg::GroupNorm<1, 1>> {};

template <class T>
Kokkos::View<T*, hg::memory_space> on_device(const std::vector<T>& values) {
  Kokkos::View<T*, hg::memory_space> view("test", values.size());
  hg::copy_to_view(view, values);
  return view;
}

double relative(double value, double expected) { return std::abs(value / expected - 1); }

}  // namespace

TEST_CASE("loss, weight gradient and bias gradient of a large constant field") {
  const hg::Environment environment;
  const auto mesh = hg::device_mesh<Mesh>(hg::Communicator(), {1});
  const Field image(mesh, {1, 1, height, width}), label(mesh, {1, 1, height, width});
  Kokkos::deep_copy(image.storage().view, 0.1f);
  hg::Parameters<Linear, float> parameters;
  parameters.copy_from_host({0.3f, 0.7f});  // weight, bias
  auto f = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label); });
  const auto [loss, gradient] = f(parameters);
  const double prediction = static_cast<double>(0.3f) * static_cast<double>(0.1f) + static_cast<double>(0.7f);
  CHECK(relative(loss, prediction * prediction) < 2e-7);  // a plain float sum would be off by percents
  CHECK(relative(gradient.to_host()[0], 2 * prediction * static_cast<double>(0.1f)) <
        1e-5);                                                    // 512 terms a lane in float, then double
  CHECK(relative(gradient.to_host()[1], 2 * prediction) < 2e-7);  // double throughout
}

TEST_CASE("mean and norm statistics about a large mean") {
  const hg::Environment environment;
  const auto mesh = hg::device_mesh<Mesh>(hg::Communicator(), {1});
  using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>>;
  const Plane plane(mesh, {height, width});
  Kokkos::deep_copy(plane.storage().view, 0.1f);
  CHECK(relative(hg::mean(plane).item(), static_cast<double>(0.1f)) < 1e-13);

  // x = 1000 + (-1)^column: mean 1000, variance 1; E[x^2] - E[x]^2 in float would be noise of the size of the variance
  const Field image(mesh, {1, 1, 256, 256});
  std::vector<float> values(256 * 256);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = i % 2 == 0 ? 1001.f : 999.f;
  Field copy = image;
  copy.copy_from_host(values);
  const auto output = hg::infer(hg::initial_parameters<Normed, float>(0), image).to_host();
  CHECK(output[0] == doctest::Approx(1 / std::sqrt(1 + 1e-5)).epsilon(1e-5));
  CHECK(output[1] == doctest::Approx(-1 / std::sqrt(1 + 1e-5)).epsilon(1e-5));
}

TEST_CASE("a norm behind a convolution between many channels: moments taken as its outputs are computed") {
  const hg::Environment environment;
  const auto mesh = hg::device_mesh<Mesh>(hg::Communicator(), {1});
  constexpr int channels = 24;                    // 16 + 8: a wide vector and a narrow one
  constexpr hg::index_t rows = 37, columns = 59;  // whole blocks of tiles, and parts of them
  using Image = hg::Sharded<hg::Tensor<float, hg::dyn, channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;
  struct Net : hg::Sequential<hg::Conv2d<channels, channels, hg::Kernel<3>, hg::Padding<1>>,
                              hg::GroupNorm<channels, channels>> {};
  std::vector<float> numbers(channels * channels * 9), image(channels * rows * columns);
  for (int c = 0; c < channels; ++c) numbers[(c * channels + c) * 9 + 4] = 1;              // each channel is kept
  for (int c = 0; c < channels; ++c) numbers.push_back(static_cast<float>(500 - 40 * c));  // and lifted
  numbers.resize(numbers.size() + channels, 1.f);                                          // gamma
  numbers.resize(numbers.size() + channels, 0.f);                                          // beta
  for (std::size_t i = 0; i < image.size(); ++i)
    image[i] = static_cast<float>(i % (7 + i / (rows * columns))) + (i % 59 == 3 ? 9.f : 0.f);
  hg::Parameters<Net, float> parameters;
  parameters.copy_from_host(numbers);
  Image field(mesh, {1, channels, rows, columns});
  field.copy_from_host(image);
  const auto output = hg::infer(parameters, field).to_host();
  double worst = 0;
  for (std::size_t c = 0; c < channels; ++c) {
    const std::size_t points = rows * columns;
    double mean = 0, variance = 0;
    for (std::size_t i = 0; i < points; ++i) mean += image[c * points + i] / static_cast<double>(points);
    for (std::size_t i = 0; i < points; ++i)
      variance += std::pow(image[c * points + i] - mean, 2) / static_cast<double>(points);
    for (std::size_t i = 0; i < points; ++i) {
      const double expected = (image[c * points + i] - mean) / std::sqrt(variance + 1e-5);
      const double error = std::abs(output[c * points + i] - expected);
      if (!(error <= worst)) worst = error;  // NaN too
    }
  }
  CHECK(worst < 1e-3);  // the convolution's own rounding, of values up to 520, over deviations of 2 and more
}

TEST_CASE("partial sums: groups, places, moments, results in one go and one by one") {
  const hg::Environment environment;
  const hg::execution_space space;
  constexpr hg::index_t blocks = 5, stride = 211, results = 203, row = 7, pitch = 9;
  std::vector<double> partial(blocks * stride);
  for (std::size_t i = 0; i < partial.size(); ++i)
    partial[i] = std::ldexp(1.0 + static_cast<double>(i % 97), static_cast<int>(i % 31));
  const auto expected = [&](hg::index_t first) {  // of integers below 2^53, in any order
    double sum = 0;
    for (hg::index_t k = blocks; k-- > 0;) sum += partial[static_cast<std::size_t>(first + k * stride)];
    return sum;
  };
  namespace kernels = hg::kernels;
  const auto numbers = on_device(partial);
  const auto sums_there = on_device(std::vector<float>(results));
  const auto placed_there = on_device(std::vector<float>(results / row * pitch, -1.f));
  hg::launch_range(space, "test", results, kernels::Merge<float>{numbers.data(), stride, blocks, sums_there.data()});
  hg::launch_range(space, "test", results,
                   kernels::Merge<float>{numbers.data(), stride, blocks, placed_there.data(), {}, {row, pitch}});
  const auto sums = hg::host_copy(sums_there), placed = hg::host_copy(placed_there);
  for (hg::index_t i = 0; i < results; ++i) {
    CHECK(sums[static_cast<std::size_t>(i)] == static_cast<float>(expected(i)));
    CHECK(placed[static_cast<std::size_t>(i / row * pitch + i % row)] == static_cast<float>(expected(i)));
  }
  CHECK(placed[row] == -1.f);  // nothing between the groups

  const auto grouped_there = on_device(std::vector<double>(4 * 3));  // 4 samples: `blocks` blocks of 3 channels each
  hg::launch_range(space, "test", 12,
                   kernels::Merge<double>{numbers.data(), 3, blocks, grouped_there.data(), {3, 3 * blocks}});
  const auto grouped = hg::host_copy(grouped_there);
  for (std::size_t n = 0; n < 4; ++n)
    for (std::size_t c = 0; c < 3; ++c) {
      double sum = 0;
      for (std::size_t k = 0; k < blocks; ++k) sum += partial[(n * blocks + k) * 3 + c];
      CHECK(grouped[3 * n + c] == sum);
    }

  using Moments = kernels::RowSums;
  std::vector<Moments> of_sets(3 * 70);  // three disjoint sets, 70 times; then all of them, in the first one's memory
  for (std::size_t k = 0; k < 3; ++k)
    for (std::size_t i = 0; i < 70; ++i) {
      const double mean = static_cast<double>(i + 4 * k);
      of_sets[k * 70 + i] = k == 1 && i == 5 ? Moments{} : Moments{2, mean, 2};  // mean - 1 and mean + 1, or nothing
    }
  const auto sets = on_device(of_sets);
  hg::launch_range(space, "test", 70,
                   kernels::Merge<Moments, Moments, kernels::JoinMoments>{sets.data(), 70, 3, sets.data()});
  of_sets = hg::host_copy(sets);
  CHECK(of_sets[6].first == 6);
  CHECK(of_sets[6].second == doctest::Approx(6 + 4).epsilon(1e-15));
  CHECK(of_sets[6].third == doctest::Approx(6 + 2 * 16 * 2).epsilon(1e-15));
  CHECK(of_sets[5].first == 4);
  CHECK(of_sets[5].second == doctest::Approx(5 + 4).epsilon(1e-15));

  const auto all = on_device(std::vector<double>(2));
  kernels::sum_arrays(space, "test", numbers.data(), 450, all.data(), 2);
  CHECK(hg::host_copy(all)[0] == std::accumulate(partial.begin(), partial.begin() + 450, 0.0));
  CHECK(hg::host_copy(all)[1] == std::accumulate(partial.begin() + 450, partial.begin() + 900, 0.0));
}
