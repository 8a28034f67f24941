// program: layers
// MaxPool2d, GroupNorm with ReLU, and UpsampleToSkip<Nearest> against PyTorch's stored tensors, on every mesh.
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_pool_norm_upsample {

namespace {

using support::relative_error;

template <int Channels, class Pool>
void check_pool(int number) {
  support::check_stored_maxima<Pool, Channels>("maxpool", number);
}

template <int Groups, int Channels>
void check_norm(int number, double tolerance) {
  using Model = hg::Sequential<hg::GroupNorm<Groups, Channels>, hg::ReLU>;
  const support::StoredCase<3> stored("groupnorm", number);
  REQUIRE(stored.channels("input") == Channels);
  REQUIRE(stored["parameters"][0] == Groups);
  std::vector<double> parameters = stored["gamma"];
  const std::vector<double> beta = stored["beta"];
  parameters.insert(parameters.end(), beta.begin(), beta.end());
  CAPTURE(number);
  support::on_meshes<Model, Channels>(stored.extents("input"), [&](const auto& mesh) {
    const auto result = stored.run<Model, Channels, Channels>(mesh, parameters);
    const std::vector<double> gamma(result.parameter_gradient.begin(), result.parameter_gradient.begin() + Channels);
    const std::vector<double> shift(result.parameter_gradient.begin() + Channels, result.parameter_gradient.end());
    CHECK(relative_error(result.output, stored["output"]) < tolerance);
    CHECK(relative_error(result.input_gradient, stored["grad_input"]) < tolerance);
    CHECK(relative_error(gamma, stored["grad_gamma"]) < tolerance);
    CHECK(relative_error(shift, stored["grad_beta"]) < tolerance);
  });
}

/// The reference's coarse field comes out of a pool: it stands in the even rows and columns of the image, far below it
/// is everything else. Behind the image's own channels stands what was upsampled, and only that has a cotangent.
template <int Channels>
void check_upsample(int number) {
  using Model =
      hg::SkipConcat<hg::Sequential<support::Takes<Channels>, hg::MaxPool2d<2>, hg::UpsampleToSkip<hg::Nearest>>>;
  const support::Reference reference("upsample");
  const std::string name = "case" + std::to_string(number) + ".";
  const auto coarse = reference.shape(name + "input"), fine = reference.shape(name + "output");
  REQUIRE(coarse[1] == Channels);
  const hg::index_t batch = fine[0], h = coarse[2], w = coarse[3], height = fine[2], width = fine[3];
  REQUIRE(height / 2 == h);
  REQUIRE(width / 2 == w);
  const std::vector<double> small = reference.values(name + "input"), gradient = reference.values(name + "grad_input"),
                            cotangent = reference.values(name + "grad_output"),
                            large = reference.values(name + "output");
  const auto plane = static_cast<std::size_t>(height * width);
  std::vector<double> image(static_cast<std::size_t>(batch * Channels) * plane, -1000.0), image_gradient(image.size());
  for (hg::index_t p = 0; p < batch * Channels; ++p)
    for (hg::index_t y = 0; y < h; ++y)
      for (hg::index_t x = 0; x < w; ++x) {
        const auto from = static_cast<std::size_t>((p * h + y) * w + x);
        const auto to = static_cast<std::size_t>((p * height + 2 * y) * width + 2 * x);
        image[to] = small[from];
        image_gradient[to] = gradient[from];
      }
  std::vector<double> output, label;
  for (hg::index_t n = 0; n < batch; ++n) {
    const auto sample = static_cast<std::ptrdiff_t>(static_cast<std::size_t>(n * Channels) * plane);
    const auto size = static_cast<std::ptrdiff_t>(Channels * plane);
    output.insert(output.end(), image.begin() + sample, image.begin() + sample + size);
    output.insert(output.end(), large.begin() + sample, large.begin() + sample + size);
    label.insert(label.end(), Channels * plane, 0.0);
    label.insert(label.end(), cotangent.begin() + sample, cotangent.begin() + sample + size);
  }
  CAPTURE(number);
  support::on_meshes<Model, Channels>(std::array{batch, height, width}, [&](const auto& mesh) {
    const auto result = support::unscaled(support::train_once<Model, Channels, 2 * Channels, support::InnerProduct>(
        mesh, {batch, height, width}, {}, image, {height, width}, label));
    CHECK(result.output == output);
    CHECK(relative_error(result.input_gradient, image_gradient) < 1e-14);
  });
}

}  // namespace

TEST_CASE("max pooling: whole windows, overlaps, gaps, ties, negative fields") {
  check_pool<2, hg::MaxPool2d<2>>(0);
  check_pool<1, hg::MaxPool2d<2, hg::Stride<3>>>(3);
  check_pool<1, hg::MaxPool2d<2>>(4);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<2>>>(6);
}

TEST_CASE("max pooling: padding, dilation, windows of nothing but the lowest value") {
  check_pool<2, hg::MaxPool2d<3, hg::Stride<2>, hg::Padding<1>>>(7);
  check_pool<1, hg::MaxPool2d<2, hg::Padding<1>>>(8);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<1>, hg::Padding<1>, hg::Dilation<2>>>(10);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<2>, hg::Padding<1>>>(11);
}
TEST_CASE("PyTorch's: outputs that have no piece for every rank of three") {
  ONLY_ON_RANKS(1, 2, 4);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<2>>>(1);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<1>>>(2);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<1>>>(5);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<2>, hg::Dilation<2>>>(9);
}

TEST_CASE("group norm and ReLU, of the input itself") {
  check_norm<1, 4>(0, 1e-12);
  check_norm<2, 4>(1, 1e-12);
  check_norm<4, 8>(2, 1e-12);
}

TEST_CASE("group norm of a field far from zero") { check_norm<2, 4>(3, 1e-9); }

TEST_CASE("nearest upsampling to the skip's extent") {
  check_upsample<2>(0);
  check_upsample<1>(1);
  check_upsample<1>(2);  // 45 -> 22 -> 45
}

}  // namespace test_pool_norm_upsample
