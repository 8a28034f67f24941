// program: weights
// ranks: 1 2 4 6
// Models under torchvision's names with weights that PyTorch wrote: load_parameters, output in training and by running
// statistics, all gradients, and the buffers after a step, on every mesh.
#include <halogen/io/checkpoint.hpp>

#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/reference.hpp"

namespace test_weights {

namespace {

constexpr int classes = 5;

/// The formula of make_model_references.py.
std::vector<double> values(std::size_t count) {
  std::vector<double> values;
  for (std::uint64_t i = 0; i < count; ++i)
    values.push_back(static_cast<double>((i * 2654435761u + 12345u) % (std::uint64_t{1} << 32)) / 0x1p31 - 1);
  return values;
}

std::vector<double> each(const std::vector<double>& all, std::size_t stride) {
  std::vector<double> some;
  for (std::size_t i = 0; i < all.size(); i += stride) some.push_back(all[i]);
  return some;
}

/// Stride: of the outputs that the file holds. name_in_file: of a parameter, where the file has other names.
template <class Model>
void check_model(const std::string& name, support::Extents<support::Mesh> extents, std::size_t stride = 1,
                 const std::function<std::string(std::string)>& name_in_file = {}) {
  const support::Reference expected(name + "_run");
  auto names = hg::parameter_names<Model>();
  if (name_in_file) std::ranges::transform(names, names.begin(), name_in_file);
  const auto input = values(3 * support::points_of(extents));
  const std::size_t outputs = classes * support::output_points<Model, 3>(extents);
  const auto cotangent = stride == 1 ? expected.values("grad_output") : values(outputs);
  hg::Parameters<Model, double> parameters;
  const auto unexpected = hg::load_parameters(support::Reference::folder() + "/" + name + ".safetensors", parameters,
                                              support::world(), name_in_file);
  CHECK(unexpected.empty());
  const std::vector<double> start = parameters.to_host();
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    if (support::leaves_a_piece_empty<Model, support::Field<double, 3>>(mesh, support::with_channels(extents, 3)))
      continue;
    CHECK(support::relative_error(each(support::infer<Model, 3>(mesh, extents, start, input), stride),
                                  expected.values("evaluation.output")) < 1e-11);
    const auto result = support::train_once<Model, 3, classes, support::InnerProduct>(
        mesh, extents, start, input, support::output_space<Model, 3>(extents), cotangent);
    CHECK(support::relative_error(each(result.output, stride), expected.values("training.output")) < 1e-10);
    std::vector<double> of_input = each(result.input_gradient, 371);
    for (double& v : of_input) v *= static_cast<double>(outputs);
    CHECK(support::relative_error(of_input, expected.values("input_gradient")) < 1e-9);
    for (std::size_t i = 0; i < names.size(); ++i) {
      CAPTURE(names[i]);
      const hg::ParameterShape& shape = hg::Parameters<Model, double>::graph().parameters[static_cast<int>(i)];
      const auto of = [&](const std::vector<double>& all, double scale) {
        std::vector<double> part(all.begin() + shape.offset, all.begin() + shape.offset + shape.count);
        for (double& v : part) v *= scale;
        return part;
      };
      if (shape.buffer)
        CHECK(support::relative_error(of(result.parameters_after, 1), expected.values("after." + names[i])) < 1e-10);
      else
        CHECK(support::relative_error(of(result.parameter_gradient, static_cast<double>(outputs)),
                                      expected.values("gradient." + names[i])) < 2e-6);
    }
  }
}

/// Convolution, norm, ReLU, twice.
template <int In, int Out>
using Double = hg::Sequential<hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>>, hg::BatchNorm2d<Out>,
                              hg::ReLU, hg::Conv2d<Out, Out, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>>,
                              hg::BatchNorm2d<Out>, hg::ReLU>;
/// A U-Net with batch norms and bilinear upsampling; its children are named as their author named them.
struct BilinearUNet {
  hg::Named<"down1", Double<3, 4>> down1;
  hg::Named<"down2", Double<4, 8>> down2;
  hg::Named<"bottom", Double<8, 16>> bottom;
  hg::Named<"up2", Double<24, 8>> up2;
  hg::Named<"up1", Double<12, 4>> up1;
  hg::Named<"head", hg::Conv2d<4, classes>> head;
  hg::MaxPool2d<2> pool;
  template <class X>
  constexpr X forward(X x) const {
    const X a = down1(x), b = down2(pool(a));
    const X c = hg::concat(b, hg::upsample_to<hg::Bilinear>(bottom(pool(b)), b));
    return head(up1(hg::concat(a, hg::upsample_to<hg::Bilinear>(up2(c), a))));
  }
};

/// Of a tensor of the first values: within [-bound, bound] up to both ends, of mean 0 and variance bound^2 / 3, as
/// drawn by torch.nn.init.uniform_.
void check_uniform(const std::vector<double>& drawn, double bound) {
  double sum = 0, squares = 0, most = 0, least = 0;
  for (const double v : drawn) sum += v, squares += v * v, most = std::max(most, v), least = std::min(least, v);
  const auto n = static_cast<double>(drawn.size());
  CHECK(most <= bound);
  CHECK(least >= -bound);
  CHECK(most > bound * (1 - 20 / n));
  CHECK(least < -bound * (1 - 20 / n));
  CHECK(std::abs(sum / n) < 5 * bound / std::sqrt(3 * n));
  CHECK(std::abs(squares / n * 3 / (bound * bound) - 1) < 5 * std::sqrt(0.8 / n));
}

/// weight and bias of a layer, drawn within 1 / sqrt(fan_in), as reset_parameters() of PyTorch's has it.
template <class Layer>
void check_drawn(double fan_in) {
  const auto parameters = hg::initial_parameters<hg::Sequential<Layer>, double>(3);
  for (int i = 0; i < parameters.graph().parameters.size(); ++i)
    check_uniform(parameters.to_host(i), 1 / std::sqrt(fan_in));
}

}  // namespace

TEST_CASE("first values are drawn as PyTorch's") {
  using hg::Kernel;
  check_drawn<hg::Conv2d<8, 256, Kernel<3, 2>>>(8 * 6);
  check_drawn<hg::Conv2d<64, 256, Kernel<5>, hg::Groups<16>>>(4 * 25);
  check_drawn<hg::Conv1d<16, 256, Kernel<7>>>(16 * 7);
  check_drawn<hg::Conv3d<4, 256, Kernel<3>>>(4 * 27);
  check_drawn<hg::ConvTranspose2d<8, 256, Kernel<3>>>(256 * 9);  // PyTorch takes the second extent of the weight
  check_drawn<hg::ConvTranspose2d<64, 512, Kernel<2>, hg::Groups<4>>>(128 * 4);
  check_drawn<hg::Sequential<hg::GlobalAvgPool, hg::Linear<24, 256>>>(24);
  const auto constant = [](auto layer, double first, double second) {
    const auto parameters = hg::initial_parameters<hg::Sequential<decltype(layer)>, double>(3);
    CHECK(parameters.to_host(0) == std::vector<double>(8, first));
    CHECK(parameters.to_host(1) == std::vector<double>(8, second));
  };
  constant(hg::BatchNorm2d<8>{}, 1, 0);
  constant(hg::GroupNorm<2, 8>{}, 1, 0);
  constant(hg::LayerNorm<8>{}, 1, 0);
}
TEST_CASE("ResNet-18") { check_model<hg::ResNet<18, classes, 3, 2>>("resnet18", {2, 197, 229}); }
TEST_CASE("ResNet-50") { check_model<hg::ResNet<50, classes, 3, 1>>("resnet50", {2, 197, 229}); }
TEST_CASE("ConvNeXt") { check_model<hg::ConvNeXt<classes, 3, std::array{4, 6, 8, 10}>>("convnext", {2, 197, 229}); }
TEST_CASE("U-Net with batch norms and bilinear upsampling") {
  check_model<BilinearUNet>("unet_bilinear", {2, 29, 37}, 37);
}
TEST_CASE("FieldTransformer, with rows that patches do not divide") {
  check_model<hg::FieldTransformer<3, classes, 12, 2, 3, 2, hg::Boundary<hg::Zero, hg::Periodic>, 5>>(
      "field_transformer", {2, 25, 36}, 37);
}
TEST_CASE("a transformer of full attention, rows and columns cut") {
  check_model<hg::PatchTransformer<3, classes, 12, 2, 2, hg::MultiheadAttention<12, 3>>>("full_transformer",
                                                                                         {2, 25, 36}, 37);
}
TEST_CASE("a transformer of windows, shifted in turn") {
  using Windows = hg::Alternating<hg::WindowAttention2d<12, 3, hg::Kernel<4>>,
                                  hg::WindowAttention2d<12, 3, hg::Kernel<4>, hg::Shifted<2>>>;
  check_model<hg::PatchTransformer<3, classes, 12, 2, 2, Windows>>("window_transformer", {2, 25, 40}, 37);
}
TEST_CASE("VisionTransformer: positions, attention to all, a mean") {
  check_model<hg::VisionTransformer<3, classes, 20, 28, 4, 12, 2, 3>>("vision_transformer", {2, 20, 28});
}
TEST_CASE("VisionTransformer with a class token, of a file with torchvision's names") {
  check_model<hg::VisionTransformer<3, classes, 20, 28, 4, 12, 2, 3, std::ratio<0>, hg::WithClassToken>>(
      "class_token_transformer", {2, 20, 28}, 1, hg::torchvision_vit_name);
}
TEST_CASE("SwinTransformer: shifted windows, patches merged") {
  check_model<hg::SwinTransformer<3, classes, 8, 2, 4, 2, std::ratio<0>, 2, 2>>("swin_transformer", {2, 48, 32});
  check_model<hg::PaddedSwinTransformer<3, classes, 8, 2, 4, 2, std::ratio<0>, 2, 2>>("padded_swin_transformer",
                                                                                      {2, 44, 28});
}

}  // namespace test_weights
