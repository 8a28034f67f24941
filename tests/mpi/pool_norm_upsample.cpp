// MaxPool2d, GroupNorm with ReLU, and UpsampleToSkip<Nearest> against PyTorch's stored tensors, on every mesh.
#include <doctest/doctest.h>

#include "support/network.hpp"
#include "support/reference.hpp"

namespace {

using support::relative_error;

/// Passes its input on and says how many channels it takes, which a pool or an upsampling alone leaves open.
template <int Channels>
struct Takes : hg::Module<Takes<Channels>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    if ((*x).channels != Channels) x.graph->refuse(hg::Misfit::Kind::channels_differ, 0, Channels, (*x).channels);
    return x;
  }
};

/// Calls check(mesh) on every mesh that leaves no piece empty; how many those were.
template <class Check>
int on_all_meshes(int batch, Check check) {
  int ran = 0;
  for (const auto& mesh : support::meshes(batch)) {
    CAPTURE(support::text(mesh));
    try {
      check(mesh);
      ++ran;
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
    }
  }
  return ran;
}

/// Gradients of sum(output * y), of which train_once's InnerProduct takes the mean.
support::Result<double> unscaled(support::Result<double> result) {
  for (double& g : result.input_gradient) g *= static_cast<double>(result.output.size());
  for (double& g : result.parameter_gradient) g *= static_cast<double>(result.output.size());
  return result;
}

template <int Channels, class Pool>
void check_pool(int number) {
  using Model = hg::Sequential<Takes<Channels>, Pool>;
  const support::Reference reference("maxpool");
  const std::string name = "case" + std::to_string(number) + ".";
  const auto in = reference.shape(name + "input"), out = reference.shape(name + "output");
  REQUIRE(in[1] == Channels);
  CAPTURE(number);
  const int ran = on_all_meshes(2, [&](const auto& mesh) {
    // Given as multiples of 1/64: exact, in float too.
    const auto in_float =
        support::infer<Model, Channels>(mesh, {in[0], in[2], in[3]}, {}, reference.values<float>(name + "input"));
    CHECK(in_float == reference.values<float>(name + "output"));
    const auto result = unscaled(support::train_once<Model, Channels, Channels, support::InnerProduct>(
        mesh, {in[0], in[2], in[3]}, {}, reference.values(name + "input"), {out[2], out[3]},
        reference.values(name + "grad_output")));
    CHECK(result.output == reference.values(name + "output"));
    CHECK(relative_error(result.input_gradient, reference.values(name + "grad_input")) < 1e-14);
  });
  CHECK((ran > 0 || support::world().size() % 3 == 0));  // 3 rows of 7 cut as chunk cuts leave the third rank none
}

template <int Groups, int Channels>
void check_norm(int number, double tolerance) {
  using Model = hg::Sequential<hg::GroupNorm<Groups, Channels>, hg::ReLU>;
  const support::Reference reference("groupnorm");
  const std::string name = "case" + std::to_string(number) + ".";
  const auto in = reference.shape(name + "input");
  REQUIRE(in[1] == Channels);
  REQUIRE(reference.values(name + "parameters")[0] == Groups);
  std::vector<double> parameters = reference.values(name + "gamma");
  const std::vector<double> beta = reference.values(name + "beta");
  parameters.insert(parameters.end(), beta.begin(), beta.end());
  CAPTURE(number);
  const int ran = on_all_meshes(2, [&](const auto& mesh) {
    const auto result = unscaled(support::train_once<Model, Channels, Channels, support::InnerProduct>(
        mesh, {in[0], in[2], in[3]}, parameters, reference.values(name + "input"), {in[2], in[3]},
        reference.values(name + "grad_output")));
    const std::vector<double> gamma(result.parameter_gradient.begin(), result.parameter_gradient.begin() + Channels);
    const std::vector<double> shift(result.parameter_gradient.begin() + Channels, result.parameter_gradient.end());
    CHECK(relative_error(result.output, reference.values(name + "output")) < tolerance);
    CHECK(relative_error(result.input_gradient, reference.values(name + "grad_input")) < tolerance);
    CHECK(relative_error(gamma, reference.values(name + "grad_gamma")) < tolerance);
    CHECK(relative_error(shift, reference.values(name + "grad_beta")) < tolerance);
  });
  CHECK(ran > 0);
}

/// The reference's coarse field comes out of a pool: it stands in the even rows and columns of the image, far below it
/// is everything else. Behind the image's own channels stands what was upsampled, and only that has a cotangent.
template <int Channels>
void check_upsample(int number) {
  using Model = hg::SkipConcat<hg::Sequential<Takes<Channels>, hg::MaxPool2d<2>, hg::UpsampleToSkip<hg::Nearest>>>;
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
  const int ran = on_all_meshes(static_cast<int>(batch), [&](const auto& mesh) {
    const auto result = unscaled(support::train_once<Model, Channels, 2 * Channels, support::InnerProduct>(
        mesh, {batch, height, width}, {}, image, {height, width}, label));
    CHECK(result.output == output);
    CHECK(relative_error(result.input_gradient, image_gradient) < 1e-14);
  });
  CHECK(ran > 0);
}

}  // namespace

TEST_CASE("max pooling: whole windows, overlaps, gaps, ties, negative fields") {
  check_pool<2, hg::MaxPool2d<2>>(0);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<2>>>(1);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<1>>>(2);
  check_pool<1, hg::MaxPool2d<2, hg::Stride<3>>>(3);
  check_pool<1, hg::MaxPool2d<2>>(4);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<1>>>(5);
  check_pool<1, hg::MaxPool2d<3, hg::Stride<2>>>(6);
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
