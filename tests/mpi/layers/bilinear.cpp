// program: layers
// Upsample and UpsampleToSkip, Bilinear and Nearest: PyTorch's stored tensors, compositions on every mesh, messages.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_bilinear {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;

/// The reference's small field is every Down-th row and Across-th column of the image: a depthwise convolution whose
/// first weight is 1, the others 0, picks it. What is interpolated stands behind the image's own channels.
template <int Channels, int Down, int Across>
using FromEach =
    hg::SkipConcat<hg::Sequential<hg::Conv2d<Channels, Channels, hg::Kernel<Down, Across>, hg::Stride<Down, Across>,
                                             hg::Groups<Channels>, hg::Bias<false>>,
                                  hg::UpsampleToSkip<hg::Bilinear>>>;

template <int Channels, int Down, int Across>
void check_to_skip(int number) {
  using Model = FromEach<Channels, Down, Across>;
  const support::Reference reference("bilinear");
  const std::string name = "case" + std::to_string(number) + ".";
  const auto small = reference.shape(name + "input"), large = reference.shape(name + "output");
  REQUIRE(small[1] == Channels);
  REQUIRE(large[2] / Down == small[2]);
  REQUIRE(large[3] / Across == small[3]);
  std::vector<double> picks(static_cast<std::size_t>(Channels * Down * Across));
  for (std::size_t c = 0; c < Channels; ++c) picks[c * Down * Across] = 1;
  const auto batch = large[0], height = large[2], width = large[3];
  const auto values = reference.values(name + "input"), gradient = reference.values(name + "grad_input"),
             fine = reference.values(name + "output"), cotangent = reference.values(name + "grad_output");
  std::vector<double> image(static_cast<std::size_t>(batch * Channels * height * width)), expected(image.size());
  for (std::int64_t p = 0; p < batch * Channels; ++p)
    for (std::int64_t y = 0; y < small[2]; ++y)
      for (std::int64_t x = 0; x < small[3]; ++x) {
        const auto from = static_cast<std::size_t>((p * small[2] + y) * small[3] + x);
        const auto to = static_cast<std::size_t>((p * height + Down * y) * width + Across * x);
        image[to] = values[from], expected[to] = gradient[from];
      }
  const auto beside = [&](const std::vector<double>& a, const std::vector<double>& b) {
    std::vector<double> both;
    const auto size = static_cast<std::ptrdiff_t>(Channels * height * width);
    for (std::ptrdiff_t n = 0; n < batch; ++n)
      for (const auto* part : {&a, &b})
        both.insert(both.end(), part->begin() + n * size, part->begin() + (n + 1) * size);
    return both;
  };
  CAPTURE(number);
  support::on_meshes<Model, Channels>(std::array{batch, height, width}, [&](const auto& mesh) {
    const auto result = support::unscaled(support::train_once<Model, Channels, 2 * Channels, support::InnerProduct>(
        mesh, {batch, height, width}, picks, image, {height, width},
        beside(std::vector<double>(image.size()), cotangent)));
    CHECK(support::relative_error(result.output, beside(image, fine)) < 1e-14);
    CHECK(support::relative_error(result.input_gradient, expected) < 1e-14);
  });
}

/// Norm and ReLU before the interpolation, read by a periodic window; a ReLU behind it.
using Body = hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, hg::ReLU>;
using UNet =
    hg::Sequential<hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Body, hg::UpsampleToSkip<hg::Bilinear>, hg::ReLU>>,
                   Conv<6, 3>>;
using Raw = hg::Sequential<
    hg::SkipConcat<hg::Sequential<hg::Conv2d<2, 3, hg::Stride<3>>, hg::ReLU, hg::UpsampleToSkip<hg::Bilinear>>>,
    Conv<5, 3>>;
/// A sum with what was interpolated; interpolations on each other.
using Added =
    hg::Sequential<hg::Residual<hg::Sequential<
                       hg::Conv2d<2, 2, hg::Stride<2>>,
                       hg::Residual<hg::Sequential<hg::MaxPool2d<2>, Conv<2, 2>, hg::UpsampleToSkip<hg::Bilinear>>>,
                       hg::UpsampleToSkip<hg::Bilinear>>>,
                   hg::ReLU, Conv<2, 2>>;
using Twice = hg::Sequential<hg::Conv2d<2, 2>, hg::ReLU, hg::Upsample<2, hg::Bilinear>, Conv<2, 2>,
                             hg::Upsample<3, hg::Nearest>, hg::Upsample<2, hg::Bilinear>, hg::ReLU>;
/// Down to the skip's extent.
using Down = hg::Sequential<hg::SkipConcat<hg::Sequential<hg::ConvTranspose2d<2, 2, hg::Kernel<5>, hg::Stride<3>>,
                                                          hg::ReLU, hg::UpsampleToSkip<hg::Bilinear>>>,
                            Conv<4, 2>>;
/// A transposed convolution and an upsampling by the same factor are of one level.
struct Beside : hg::Module<Beside> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto learned = hg::ConvTranspose2d<2, 1, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>>{}(x);
    return hg::concat(hg::Upsample<2, hg::Bilinear>{}(x), learned);
  }
};

}  // namespace

TEST_CASE("PyTorch's: by whole factors, to any extent") {
  check_to_skip<2, 2, 2>(0);
  check_to_skip<1, 3, 3>(3);
  support::check_stored<hg::Upsample<2, hg::Bilinear>, 2>("bilinear", 0);
  support::check_stored<hg::Upsample<3, hg::Bilinear>, 1>("bilinear", 3);
}
TEST_CASE("PyTorch's: to extents that are no multiple") {
  check_to_skip<1, 2, 2>(1);
  check_to_skip<1, 2, 2>(2);  // rows by 2, columns not
}

TEST_CASE("behind norm and ReLU, before a ReLU") { support::check_composition<UNet, 2, 3>(); }
TEST_CASE("strides of three: to the bit") { support::check_composition<Raw, 2, 3, true>({2, 24, 35}); }
TEST_CASE("in sums, on each other: to the bit") { support::check_composition<Added, 2, 2, true>({1, 48, 47}); }
TEST_CASE("factors on factors: to the bit") {
  support::check_resizing<Twice, 2, 2, true>({1, 11, 11}, 11 * 12, 11 * 12);
}
TEST_CASE("to the resolution that it has, behind an upsampling") {
  using Again = hg::Sequential<hg::Conv2d<2, 3>, hg::Upsample<2, hg::Nearest>, hg::Upsample<1, hg::Nearest>>;
  support::check_resizing<Again, 2, 3, true>({1, 12, 17}, 24, 34);
  using Smooth = hg::Sequential<hg::Conv2d<2, 3>, hg::Upsample<2, hg::Bilinear>, hg::Upsample<1, hg::Bilinear>>;
  support::check_resizing<Smooth, 2, 3, true>({1, 12, 17}, 24, 34);
}
TEST_CASE("down: to the bit") { support::check_composition<Down, 2, 2, true>({1, 12, 17}); }
TEST_CASE("beside a transposed convolution") { support::check_resizing<Beside, 2, 3, true>({1, 12, 17}, 24, 34); }

TEST_CASE("what is exchanged is one coarse point deep; nearest by a whole factor sends nothing") {
  const auto traffic = []<class Mode>(const auto& mesh, Mode) {
    using Model = hg::Sequential<hg::Conv2d<1, 1>, hg::Upsample<2, Mode>>;
    const auto image =
        hg::distribute_tensor<support::Field<double, 1>>(mesh, {1, 1, 12, 24}, support::numbers<double>(288, 1));
    const auto parameters = hg::initial_parameters<Model, double>(7);
    const hg::CommStatistics before = hg::comm_stats();
    hg::infer(parameters, image);
    return (hg::comm_stats() - before).messages;
  };
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    CHECK(traffic(mesh, hg::Nearest{}) == hg::Tally{});
    const auto sent = traffic(mesh, hg::Bilinear{});
    CHECK((sent.count > 0) == (mesh.size() > 1));
    // Rows in the middle send one up and one down.
    if (mesh.extent(2) != 1 || mesh.size() == 1) continue;
    const int sides = (mesh.coordinate(1) > 0) + (mesh.coordinate(1) + 1 < mesh.extent(1));
    CHECK(sent == hg::Tally{sides, sides * 24 * 8});
  }
}

}  // namespace test_bilinear
