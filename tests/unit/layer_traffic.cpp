// What each layer exchanges with a neighbour: messages and bytes of a training step, by its window's formula. A rank in
// the middle of four that cut the width holds 8 of 32 columns.
#include <doctest/doctest.h>

#include <halogen/halogen.hpp>

namespace test_layer_traffic {

namespace {

using hg::Boundary, hg::Conv2d, hg::Kernel, hg::Padding, hg::Periodic, hg::Stride, hg::Zero;
using Grid = hg::Mesh<"height", "width">;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 4, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
constexpr hg::index_t samples = 2, rows = 24, columns = 32;

/// Columns that a rank needs of its neighbours: of the layer's input before and behind its own, and of the gradient of
/// its output.
struct Halo {
  int before = 0, behind = 0, gradient_before = 0, gradient_behind = 0;
};

/// Behind a convolution of one point, which asks the layer for its input's gradient. Channels of input and output; rows
/// of the output.
template <class Layer, int In = 4, int Out = 4>
void check(const std::string& name, const Halo& halo, hg::index_t output_rows = rows) {
  CAPTURE(name);
  using Model = hg::Sequential<Conv2d<4, In>, Layer>;
  const auto layout = hg::layout_of<Image>(Model{}, hg::dry_mesh<Grid>({1, 4}, 1), {samples, 4, rows, columns});
  const int messages = (halo.before > 0) + (halo.behind > 0) + (halo.gradient_before > 0) + (halo.gradient_behind > 0);
  const hg::index_t values = samples * (In * rows * (halo.before + halo.behind) +
                                        Out * output_rows * (halo.gradient_before + halo.gradient_behind));
  CHECK(layout.traffic().messages == messages);
  CHECK(layout.traffic().bytes == 4 * values);
}

/// Points of a quarter of the resolution attend to all points, or the other way round, told by a mask.
template <bool FromFine>
struct OfTwoResolutions : hg::Module<OfTwoResolutions<FromFine>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"first", Conv2d<4, 4>> first;
    constexpr hg::Named<"coarse", Conv2d<4, 4, Kernel<4>, Stride<4>>> coarse;
    constexpr hg::Named<"attn", hg::CrossAttention<4, 2, 4>> attention;
    const hg::Traced fine = first(x), few = coarse(fine);
    const hg::Traced seen = FromFine ? attention(fine, few, hg::KeyMask{hg::ReLU{}(hg::chunk<4>(few)[0])})
                                     : attention(few, fine, hg::KeyMask{hg::ReLU{}(hg::chunk<4>(fine)[0])});
    return hg::upsample_to(seen, x);
  }
};

using Mirror = Boundary<hg::Reflect, hg::Reflect>;
using Globe = Boundary<Zero, Periodic>;

}  // namespace

TEST_CASE("layers of points exchange nothing") {
  check<hg::Linear<4, 4>>("Linear", {});
  check<hg::ReLU>("ReLU", {});
  check<hg::Mish>("Mish", {});
  check<hg::PReLU<4>>("PReLU", {});
  check<hg::Softmax>("Softmax", {});
  check<hg::GroupNorm<2, 4>>("GroupNorm", {});
  check<hg::BatchNorm2d<4>>("BatchNorm", {});
  check<hg::InstanceNorm2d<4>>("InstanceNorm", {});
  check<hg::LayerNorm<4>>("LayerNorm", {});
  check<hg::RMSNorm<4>>("RMSNorm", {});
  check<hg::LocalResponseNorm<3>>("LocalResponseNorm", {});
  check<hg::LayerNormOver<4, 24, 32>>("LayerNormOver", {});
  check<hg::PositionEmbedding2d<4, 24, 32>>("PositionEmbedding", {});
  check<hg::SinusoidalEmbedding2d<>>("SinusoidalEmbedding", {});
  check<hg::RotaryEmbedding2d<1>>("RotaryEmbedding", {});
  check<hg::Chunk<0, 2>, 4, 2>("Chunk", {});
  check<hg::GLU, 4, 2>("GLU", {});
  check<hg::Dropout<>>("Dropout", {});
  check<hg::DropPath<std::ratio<1, 2>>>("DropPath", {});
  check<hg::PixelShuffle<2>, 4, 1>("PixelShuffle", {});
  check<hg::PixelUnshuffle<2>, 4, 16>("PixelUnshuffle", {});
  check<hg::GlobalAvgPool>("GlobalAvgPool", {});
  check<hg::GlobalMaxPool>("GlobalMaxPool", {});
  check<hg::MaxPool2d<2>>("MaxPool of whole windows", {});
  check<hg::AvgPool2d<2>>("AvgPool of whole windows", {});
  check<hg::LpPool2d<2, 2>>("LpPool of whole windows", {});
  check<hg::Upsample<2>>("Upsample, nearest", {});
  check<hg::ReflectionPad2d<2>>("ReflectionPad", {});
}

TEST_CASE("convolutions: what the window reaches, backward its mirror image") {
  check<Conv2d<4, 4, Kernel<3>, Padding<1>>>("3 x 3", {1, 1, 1, 1});
  check<Conv2d<4, 6, Kernel<3>, Padding<1>>, 4, 6>("3 x 3, wider", {1, 1, 1, 1});
  check<Conv2d<4, 4, Kernel<5>, hg::Same>>("5 x 5", {2, 2, 2, 2});
  check<Conv2d<4, 4, Kernel<4>, hg::Same>>("4 x 4", {1, 2, 2, 1});
  check<Conv2d<4, 4, Kernel<1, 7>, Padding<0, 3>, hg::Groups<4>>>("depthwise 1 x 7", {3, 3, 3, 3});
  check<Conv2d<4, 4, Kernel<3>, Padding<2>, hg::Dilation<2>>>("dilated", {2, 2, 2, 2});
  check<Conv2d<4, 4, Kernel<3>, Padding<1>, Globe>>("a date line", {1, 1, 1, 1});
  check<Conv2d<4, 4, Kernel<3>, Padding<1>, Stride<2>>>("stride 2", {1, 0, 0, 1}, 12);
  check<Conv2d<4, 4, Kernel<2>, Stride<2>>>("whole windows", {});
  check<Conv2d<4, 4, Kernel<3>, Padding<0, 2>, hg::PaddingAfter<2, 0>>>("other sides", {2, 0, 0, 2});
  check<hg::ConvTranspose2d<4, 4, Kernel<2>, Stride<2>>>("transposed, whole windows", {});
  check<hg::ConvTranspose2d<4, 4, Kernel<4>, Stride<2>, Padding<1>>>("transposed", {1, 1, 1, 1}, 48);
}

TEST_CASE("pools, resampling, moves") {
  check<hg::AvgPool2d<3, Stride<1>, Padding<1>>>("AvgPool", {1, 1, 1, 1});
  check<hg::MaxPool2d<3, Stride<1>, Padding<1>>>("MaxPool, which looks for the largest again", {2, 2, 1, 1});
  check<hg::Upsample<2, hg::Bilinear>>("Upsample, bilinear", {1, 1, 1, 1}, 48);
  check<hg::Interpolate<hg::ScaleFactor<2>, hg::Bicubic>>("Interpolate, bicubic", {2, 2, 3, 3}, 48);
  check<hg::Roll2d<0, 2>>("Roll, to either side", {2, 2, 2, 2});
  check<hg::Crop2d<0, 0, 3, 2>>("Crop, both sides behind", {0, 5, 5, 0});
  check<hg::ConstantPad2d<std::ratio<1>, 2>>("ConstantPad, whose pieces begin before", {2, 0, 0, 2}, 28);
}

/// A layer of query, key and value after a convolution, on a rank of a mesh.
template <class Layer, int In = 12>
hg::TrafficUse sent(const std::array<int, 2>& mesh, int rank, hg::PlanKind kind = hg::PlanKind::training) {
  using Model = hg::Sequential<Conv2d<4, In>, Layer>;
  return hg::layout_of<Image>(Model{}, hg::dry_mesh<Grid>(mesh, rank), {samples, 4, rows, columns}, kind).traffic();
}

TEST_CASE("across a date line to the one neighbour on both sides: a message has both strips") {
  const hg::TrafficUse use = sent<Conv2d<12, 4, Kernel<3>, Padding<1>, Globe>>({1, 2}, 0);
  CHECK(use.messages == 2);  // forward and backward
  CHECK(use.bytes == 4 * samples * rows * 2 * (12 + 4));
}

TEST_CASE("attention to neighbourhoods and windows: keys and values of what others see; in training three tensors") {
  using hg::NeighborhoodAttend2d, hg::Shifted, hg::WindowAttend2d;
  // In training queries go too, for the gradients of keys: with them the result's gradient, and three numbers.
  const auto check_sent = [](auto layer, const std::array<int, 2>& mesh, int rank, int peers, hg::index_t points) {
    using Layer = decltype(layer);
    const hg::TrafficUse training = sent<Layer>(mesh, rank);
    CHECK(training.messages == 3 * peers);
    CHECK(training.bytes == 4 * samples * points * (12 + 4 + 3));
    const hg::TrafficUse inference = sent<Layer>(mesh, rank, hg::PlanKind::inference);
    CHECK(inference.messages == peers);
    CHECK(inference.bytes == 4 * samples * points * 8);
  };
  check_sent(NeighborhoodAttend2d<1, Kernel<3, 5>>{}, {1, 4}, 1, 2, rows * (2 + 2));
  check_sent(WindowAttend2d<1, Kernel<4>>{}, {1, 4}, 1, 0, 0);
  check_sent(WindowAttend2d<1, Kernel<4>, Shifted<2>>{}, {1, 4}, 1, 2, rows * (2 + 2));  // [6, 10) and [14, 18)
  check_sent(WindowAttend2d<1, Kernel<4, 5>>{}, {1, 4}, 1, 2, rows * (2 + 1));           // [5, 10) and [15, 20)
  check_sent(WindowAttend2d<1, Kernel<4>, Shifted<2>>{}, {1, 4}, 0, 1, rows * 2);
  check_sent(WindowAttend2d<1, Kernel<4>, Shifted<2>, Globe>{}, {1, 4}, 0, 2, rows * (2 + 2));  // [30, 34) too
  check_sent(WindowAttend2d<1, Kernel<5>>{}, {2, 2}, 0, 3, 2 * 16 + 12 * 1 + 2 * 1);  // rows [10, 15), columns [15, 20)
}
TEST_CASE("windows of a padded field: the field comes to where windows begin, and the result back") {
  // Of 32 columns 35 are made, cut at 10, 20 and 25. Rank 1 sends columns 8 and 9 before it, the result's 16 to 19
  // after it, and their gradients likewise.
  const hg::TrafficUse use = sent<hg::WindowAttention2d<4, 1, Kernel<4, 5>, hg::PadToWindows<>>, 4>({1, 4}, 1);
  CHECK(use.messages == 4);
  CHECK(use.bytes == 4 * samples * rows * 4 * 2 * (2 + 4));
}

TEST_CASE("attention across two resolutions: no stored tensor has a margin or a halo") {
  const auto check_layouts = [](auto model) {
    for (const std::array<int, 2> mesh : {std::array{1, 1}, std::array{1, 4}, std::array{2, 2}})
      for (int rank = 0; rank < mesh[0] * mesh[1]; ++rank) {
        const auto layout = hg::layout_of<Image>(model, hg::dry_mesh<Grid>(mesh, rank), {samples, 4, rows, columns});
        CHECK(layout.halo_traffic().messages == 0);
        for (int t = 0; t < layout.plan().tensors.size(); ++t) {
          CAPTURE(t);
          const hg::TensorLayout& tensor = layout.tensor(hg::TensorId(t));
          CHECK(!tensor.has_halo());
          for (int d = 0; d < hg::spatial_dimensions; ++d) CHECK(tensor.stored[d] == tensor.owned[d]);
        }
      }
  };
  check_layouts(OfTwoResolutions<false>{});
  check_layouts(OfTwoResolutions<true>{});
}

}  // namespace test_layer_traffic
