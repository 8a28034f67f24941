// program: layers
// AvgPool2d: PyTorch's stored tensors, a composition on every mesh.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_avg_pool2d {

namespace {

using Net = hg::Sequential<
    hg::Conv2d<2, 3>,
    hg::SkipConcat<hg::Sequential<hg::AvgPool2d<3, hg::Stride<2>>, hg::ReLU, hg::UpsampleToSkip<hg::Bilinear>>>>;

}  // namespace

TEST_CASE("PyTorch's: whole windows, overlaps, gaps, padding") {
  support::check_stored<hg::AvgPool2d<2>, 2>("avgpool", 0);
  support::check_stored<hg::AvgPool2d<2, hg::Stride<3>>, 1>("avgpool", 3);
  support::check_stored<hg::AvgPool2d<3, hg::Stride<2>, hg::Padding<1>>, 1>("avgpool", 4);
  support::check_stored<hg::AvgPool2d<1, hg::Kernel<3, 2>, hg::Stride<1, 2>, hg::Padding<1, 0>>, 1>("avgpool", 5);
}
TEST_CASE("PyTorch's: outputs that have no piece for every rank of three") {
  ONLY_ON_RANKS(1, 2, 4);
  support::check_stored<hg::AvgPool2d<3, hg::Stride<2>>, 1>("avgpool", 1);
  support::check_stored<hg::AvgPool2d<1, hg::Kernel<3, 2>, hg::Stride<1>>, 1>("avgpool", 2);
}
TEST_CASE("overlapping windows: to the bit") { support::check_composition<Net, 2, 6, true>(); }
TEST_CASE("across a date line every column counts, of the rows those in the field alone: by plain loops") {
  using Pool =
      hg::AvgPool2d<3, hg::Stride<1>, hg::Padding<1>, hg::CountIncludePad<false>, hg::Boundary<hg::Zero, hg::Periodic>>;
  using Model = hg::Sequential<support::Takes<1>, Pool>;
  constexpr int height = 18, width = 12, points = 2 * height * width;
  const auto x = support::numbers<double>(points, 1), slope = support::numbers<double>(points, 2);
  std::vector<double> y(points), gradient(points);
  for (int o = 0; o < points; ++o) {
    const int row = o / width % height, rows = row == 0 || row == height - 1 ? 2 : 3;
    for (int down = -1; down <= 1; ++down)
      for (int across = -1; across <= 1; ++across) {
        if (row + down < 0 || row + down >= height) continue;
        const int from = (o / width + down) * width + (o % width + across + width) % width;
        y[static_cast<std::size_t>(o)] += x[static_cast<std::size_t>(from)] / (3 * rows);
        gradient[static_cast<std::size_t>(from)] += slope[static_cast<std::size_t>(o)] / (3 * rows);
      }
  }
  support::on_meshes<Model, 1>(std::array<hg::index_t, 3>{2, height, width}, [&](const auto& mesh) {
    const auto result = support::unscaled(support::train_once<Model, 1, 1, support::InnerProduct>(
        mesh, {2, height, width}, {}, x, {height, width}, slope));
    CHECK(support::relative_error(result.output, y) < 1e-14);
    CHECK(support::relative_error(result.input_gradient, gradient) < 1e-14);
  });
}

}  // namespace test_avg_pool2d
