// program: layers
// Softmax over channels: PyTorch's stored tensors, compositions on every mesh; it sends nothing.
#include "support/composition.hpp"
#include "support/stored.hpp"

namespace test_softmax {

namespace {

template <int Channels>
void check_case(int number) {
  support::check_stored<hg::Softmax, Channels, 3>(
      "softmax", number, [](const auto& stored, const auto&, const auto& result) {
        CHECK(support::relative_error(result.output, stored["output"]) < 1e-14);
        const auto expected = stored["grad_input"];
        double error = 0;  // of one channel the gradient is 0
        for (std::size_t i = 0; i < expected.size(); ++i)
          error = std::max(error, std::abs(result.input_gradient[i] - expected[i]));
        CHECK(error < 1e-13);
        CHECK(result.traffic.messages == hg::Tally{});
      });
}

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;
/// Of a norm, read by a window; of a value from two levels; of the input itself.
using Behind = hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, hg::Softmax, Conv<4, 3>, hg::ReLU>;
using Levels = hg::Sequential<
    hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Conv<2, 3>, hg::GroupNorm<1, 3>, hg::UpsampleToSkip<hg::Bilinear>>>,
    hg::Softmax>;
using Gate = hg::Residual<hg::Sequential<hg::Softmax, hg::Conv2d<2, 2>>>;

}  // namespace

TEST_CASE("PyTorch's: few and many channels, one, large values") {
  check_case<3>(0);
  check_case<5>(1);
  check_case<1>(2);
  check_case<19>(3);
}
TEST_CASE("one channel far above the others, whichever it is") {
  std::vector<double> input(3 * 4 * 5, -800), expected(3 * 4 * 5, 0);
  for (std::size_t point = 0; point < 20; ++point) {
    const std::size_t largest = point % 3 * 20 + point;
    input[largest] = 800, expected[largest] = 1;
  }
  CHECK(support::infer<hg::Softmax, 3>(support::alone(), {1, 4, 5}, {}, input) == expected);
}
TEST_CASE("between a norm and a window") { support::check_composition<Behind, 2, 3>(); }
TEST_CASE("over two levels") { support::check_composition<Levels, 2, 5>(); }
TEST_CASE("points without a gradient add nothing to those of weights, though they be NaN") {
  using Points = hg::Sequential<hg::Conv2d<2, 5>, hg::Softmax, hg::Conv2d<5, 2>>;
  support::check_uncounted<Points, 2, 2>({1, 12, 20}, {7, 9}, {7, 9}, {12, 20});
}
TEST_CASE("of the image, in a sum: to the bit") { support::check_composition<Gate, 2, 2, true>({1, 24, 300}); }

}  // namespace test_softmax
