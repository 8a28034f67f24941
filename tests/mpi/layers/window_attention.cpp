// program: layers
// Attention in windows: PyTorch's stored tensors on every mesh (make_layer_references.py), finite differences of
// networks around it, messages.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_window_attention {

namespace {

using hg::Boundary, hg::Kernel, hg::Periodic, hg::Shifted, hg::Zero;

const char* const file = "window_attention";

/// Attention alone, and its table.
template <class Layer, int In, std::size_t Rank = 3>
void check(const std::string& name) {
  const support::StoredCase<Rank> stored(file, name);
  support::check_named<Layer, In, In / 3, Rank>(file, name, 1e-12, stored["table"], stored["grad_table"]);
}

/// In a network, with windows that reach over several pieces, normed and activated before.
using Globe =
    hg::Sequential<hg::Conv2d<2, 4, Kernel<3>, hg::Same>, hg::GroupNorm<2, 4>, hg::SiLU,
                   hg::Residual<hg::WindowAttention2d<4, 2, Kernel<7, 4>, Boundary<Zero, Periodic>, hg::Bias<false>>>,
                   hg::Residual<hg::WindowAttention2d<4, 2, Kernel<7, 4>, Shifted<3, 2>, Boundary<Zero, Periodic>>>,
                   hg::GroupNorm<2, 4>, hg::Conv2d<4, 2>>;
/// Padded after a norm, in a dimension that is not periodic; the result is added to the field.
using Padded =
    hg::Sequential<hg::Conv2d<2, 4, Kernel<3>, hg::Same>, hg::GroupNorm<2, 4>,
                   hg::Residual<hg::WindowAttention2d<4, 2, Kernel<3, 4>, Shifted<1, 2>, hg::PadToWindows<>>>,
                   hg::Conv2d<4, 2>>;
/// Of two samples, with pads in all dimensions.
using PaddedVolume = hg::Sequential<hg::Conv3d<2, 4>, hg::Tanh,
                                    hg::WindowAttention3d<4, 1, Kernel<2, 3, 4>, Shifted<1, 1, 2>, hg::PadToWindows<>>>;
/// As the first layer, whose input wants no gradient in training: its table does.
using First = hg::Sequential<hg::WindowAttend2d<1, Kernel<3>, Shifted<1>>, hg::Conv2d<2, 2>>;
using Plain = hg::Sequential<hg::Conv2d<2, 6>, hg::WindowAttend2d<1, Kernel<4>, Shifted<2>>, hg::Conv2d<2, 2>>;
using Wave =
    hg::Sequential<hg::Conv1d<2, 4, Kernel<3>, hg::Same>, hg::Tanh, hg::WindowAttention1d<4, 2, Kernel<5>, Shifted<2>>>;
using Volume = hg::Sequential<hg::Conv3d<2, 4>, hg::Tanh, hg::WindowAttention3d<4, 1, Kernel<3, 2, 3>, Shifted<1>>>;

/// Fields of bfloat16 beside fields of float.
template <class S>
support::Result<float> rounded_run(const hg::DeviceMesh<support::Mesh>& mesh) {
  using Layer = hg::Sequential<support::Takes<12>, hg::WindowAttend2d<2, Kernel<5>, Shifted<2>>>;
  const auto held = [](std::size_t count, std::uint64_t stream) {
    return support::as<float>(support::as<hg::bfloat16>(support::numbers<float>(count, stream)));
  };
  return support::train_once<Layer, 12, 4, support::InnerProduct, S>(
      mesh, {1, 12, 16}, held(9 * 9 * 2, 1), held(12 * 12 * 16, 2), {12, 16}, held(4 * 12 * 16, 3));
}

/// With its projections, whose parameters are those of a checkpoint.
template <class Layer>
void check_layer(const std::string& name) {
  const support::Reference reference(file);
  const auto parameters = support::all_parameters<Layer>(reference, name + ".");
  const auto gradient = support::all_parameters<Layer>(reference, name + ".grad.");
  const support::StoredCase<3> stored(file, name);
  support::on_meshes<Layer, 4>(stored.extents("input"), [&](const auto& mesh) {
    const auto result = stored.template run<Layer, 4, 4>(mesh, parameters);
    CHECK(support::relative_error(result.output, stored["output"]) < 1e-12);
    CHECK(support::relative_error(result.input_gradient, stored["grad_input"]) < 1e-12);
    CHECK(support::relative_error(result.parameter_gradient, gradient) < 1e-12);
  });
}

}  // namespace

TEST_CASE("planes: shifted or not, of any extent, across a date line") {
  check<hg::WindowAttend2d<1, Kernel<3, 4>>, 6>("plain");
  check<hg::WindowAttend2d<2, Kernel<3, 4>, Shifted<1, 2>>, 12>("shifted");
  check<hg::WindowAttend2d<2, Kernel<4, 3>>, 6>("ragged");
  check<hg::WindowAttend2d<1, Kernel<4, 3>, Shifted<1, 2>>, 6>("ragged_shifted");
  check<hg::WindowAttend2d<2, Kernel<3, 4>, Shifted<1, 2>, Boundary<Zero, Periodic>>, 12>("globe");
}
TEST_CASE("a dimension that one window holds is not shifted") {
  check<hg::WindowAttend2d<1, Kernel<5, 4>, Shifted<2, 1>>, 6>("small");
  check<hg::WindowAttend2d<1, Kernel<3, 6>, Shifted<1, 2>, Boundary<Zero, Periodic>>, 6>("one_globe");
}
TEST_CASE("signals and volumes") {
  check<hg::WindowAttend1d<1, Kernel<5>, Shifted<2>>, 6, 2>("signal");
  check<hg::WindowAttend3d<1, Kernel<2, 3, 3>, Shifted<1, 1, 2>, Boundary<Zero, Zero, Periodic>>, 6, 4>("volume");
}
TEST_CASE("with its projections, as a checkpoint names them; padded to whole windows as torchvision does") {
  using Layer = hg::WindowAttention2d<4, 2, Kernel<4, 3>, Shifted<2, 1>>;
  CHECK(hg::parameter_names<Layer>() ==
        std::vector<std::string>{"qkv.weight", "qkv.bias", "relative_position_bias_table", "proj.weight", "proj.bias"});
  check_layer<Layer>("layer");
  check_layer<hg::WindowAttention2d<4, 2, Kernel<4, 3>, Shifted<2, 1>, hg::PadToWindows<>>>("padded");
}
TEST_CASE("in networks: every mesh as one rank, finite differences, the same bits in float") {
  support::check_composition<Globe, 2, 2>({2, 10, 8});
  support::check_composition<Padded, 2, 2, true>({2, 10, 13});
  support::check_composition<PaddedVolume, 2, 4, true, support::VolumeMesh>({2, 11, 8, 11});
  support::check_composition<First, 6, 2, true>({2, 9, 10});
  support::check_composition<Plain, 2, 2, true>({2, 9, 10});
  support::check_composition<Wave, 2, 4, true, support::SignalMesh>({2, 24});
  support::check_composition<Volume, 2, 4, true, support::VolumeMesh>({1, 7, 6, 8});
}
/// Messages of a step on two pieces of 6 rows.
template <class Layer>
hg::Tally messages_of_step() {
  using Model = hg::Sequential<support::Takes<12>, Layer>;
  const auto input = support::numbers<double>(12 * 12 * 8, 2), label = support::numbers<double>(4 * 12 * 8, 3);
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 2, 1});
  const std::vector<double> table(hg::Parameters<Model, double>::count);
  return support::train_once<Model, 12, 4, support::InnerProduct>(mesh, {1, 12, 8}, table, input, {12, 8}, label)
      .traffic.messages;
}
TEST_CASE("messages: what crosses a cut, and nothing where a window ends there") {
  ONLY_ON_RANKS(2);
  const hg::Tally ends = messages_of_step<hg::WindowAttend2d<2, Kernel<3, 4>>>();
  // Windows [4, 8): two rows of 8 points each way, of qkv, the gradient and three numbers for each head.
  const hg::Tally crosses = messages_of_step<hg::WindowAttend2d<2, Kernel<4>>>();
  CHECK(ends == hg::Tally{0, 0});
  CHECK(crosses == hg::Tally{3, (12 + 4 + 6) * 2 * 8 * 8});
}
TEST_CASE("bfloat16: the same bits on every mesh, near float") {
  const auto alone = rounded_run<hg::bfloat16>(support::alone<support::Mesh>());
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto half = rounded_run<hg::bfloat16>(mesh), single = rounded_run<float>(mesh);
    CHECK(half.output == alone.output);
    CHECK(half.input_gradient == alone.input_gradient);
    CHECK(support::relative_error(support::as<double>(half.output), support::as<double>(single.output)) < 1. / 256);
    CHECK(support::relative_error(support::as<double>(half.input_gradient),
                                  support::as<double>(single.input_gradient)) < 1. / 128);
    CHECK(support::relative_error(support::as<double>(half.parameter_gradient),
                                  support::as<double>(single.parameter_gradient)) < 1. / 128);
  }
}
TEST_CASE("padded windows: a field that is shorter than a window") {
  using Model = hg::WindowAttention2d<4, 1, Kernel<4>, hg::PadToWindows<>>;
  const auto parameters = hg::initial_parameters<Model, double>(5);
  const auto numbers = support::numbers<double>(4 * 3 * 9, 1);
  const auto alone = support::alone();
  const auto y = support::infer<Model, 4>(alone, {1, 3, 9}, parameters.to_host(), numbers);
  std::vector<double> padded(4 * 4 * 12);  // with the zeros written out, windows divide it
  for (std::size_t c = 0; c < 4; ++c)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 9; ++j) padded[(c * 4 + i) * 12 + j] = numbers[(c * 3 + i) * 9 + j];
  const auto of_padded =
      support::infer<hg::WindowAttention2d<4, 1, Kernel<4>>, 4>(alone, {1, 4, 12}, parameters.to_host(), padded);
  for (std::size_t c = 0; c < 4; ++c)
    for (std::size_t i = 0; i < 3; ++i)
      for (std::size_t j = 0; j < 9; ++j)
        CHECK(y[(c * 3 + i) * 9 + j] == doctest::Approx(of_padded[(c * 4 + i) * 12 + j]).epsilon(1e-13));
}
TEST_CASE("padded windows: fewer of them than ranks are refused") {
  ONLY_ON_RANKS(2);
  using Model = hg::WindowAttention2d<4, 1, Kernel<4>, hg::PadToWindows<>>;
  const auto parameters = hg::initial_parameters<Model, double>(5);
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 2, 1});
  const support::Field<double, 4> x(mesh, {1, 4, 3, 9});
  CHECK_THROWS_WITH_AS(
      hg::infer(parameters, x),
      "mesh 1 x 2 x 1 (data x height x width) leaves piece 1 of 2 without any row on level 1 of 1 x 3: "
      "use fewer ranks in height, a larger field, or fewer levels",
      hg::CollectiveError);
}
TEST_CASE("windows that do not divide a periodic field are refused on all ranks where they are shifted") {
  using Model = hg::WindowAttention2d<2, 1, Kernel<3, 5>, Shifted<1>, Boundary<Zero, Periodic>>;
  const auto mesh = support::meshes(1).back();
  const auto x =
      hg::distribute_tensor<support::Field<double, 2>>(mesh, {1, 2, 12, 13}, support::numbers<double>(312, 1));
  CHECK_THROWS_WITH_AS(hg::infer(hg::initial_parameters<Model, double>(1), x),
                       "layer 1 (window_attention) shifts windows of 5 points in a periodic width of 13, which they do "
                       "not divide: use a window that divides it, or a width of 10 or 15",
                       hg::CollectiveError);
}

}  // namespace test_window_attention
