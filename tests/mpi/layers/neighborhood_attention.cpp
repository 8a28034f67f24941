// program: layers
// Attention to a neighbourhood: PyTorch's stored tensors on every mesh (make_layer_references.py), finite differences
// of networks around it, messages.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_neighborhood_attention {

namespace {

using hg::Boundary, hg::IsCausal, hg::Dilation, hg::Kernel, hg::Periodic, hg::Zero;

const char* const file = "neighborhood_attention";

/// Attention alone.
template <class Layer, int In, std::size_t Rank = 3>
void check(const std::string& name) {
  support::check_named<Layer, In, In / 3, Rank>(file, name);
}

/// In a network, with windows that reach over several pieces, normed and activated before.
using Globe = hg::Sequential<
    hg::Conv2d<2, 4, Kernel<3>, hg::Same>, hg::GroupNorm<2, 4>, hg::SiLU,
    hg::Residual<hg::NeighborhoodAttention2d<4, 2, Kernel<9, 7>, Boundary<Zero, Periodic>, hg::Bias<false>>>,
    hg::GroupNorm<2, 4>, hg::Conv2d<4, 2>>;
/// Of query, key and value made apart, two of them from an activated value and one resampled: three gradients.
struct Apart {
  hg::Conv2d<2, 2> query, key;
  hg::MaxPool2d<2> pool;
  hg::NeighborhoodAttend2d<1, Kernel<3, 4>, Dilation<2, 1>> attend;
  hg::Conv2d<2, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X k = hg::SiLU{}(key(x));
    const X v = hg::interpolate_to<hg::Nearest>(pool(k), x);
    return last(hg::ReLU{}(attend(hg::concat(hg::concat(query(x), k), v))));
  }
};
/// Of a normed value, and read plain, normed and in a sum: its gradient is that of several views.
struct Viewed {
  hg::Conv2d<2, 6> first;
  hg::GroupNorm<2, 6> norm;
  hg::NeighborhoodAttend2d<2, Kernel<5, 3>> attend;
  hg::GroupNorm<1, 2> second;
  hg::Conv2d<4, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X y = attend(norm(first(x)));
    return last(hg::concat(hg::SiLU{}(second(y)), hg::add(y, x)));
  }
};
using Normed = hg::Sequential<hg::Conv2d<2, 6>, hg::NeighborhoodAttend2d<1, Kernel<3>>, hg::GroupNorm<1, 2>>;
using Wave = hg::Sequential<hg::Conv1d<2, 4, Kernel<3>, hg::Same>, hg::Tanh,
                            hg::NeighborhoodAttention1d<4, 2, Kernel<5>, Dilation<2>>>;
using Volume = hg::Sequential<hg::Conv3d<2, 4>, hg::Tanh,
                              hg::NeighborhoodAttention3d<4, 1, Kernel<3, 2, 3>, IsCausal<true, false, false>>>;

/// Fields of bfloat16 beside fields of float.
template <class S>
support::Result<float> rounded_run(const hg::DeviceMesh<support::Mesh>& mesh) {
  using Layer = hg::Sequential<support::Takes<12>, hg::NeighborhoodAttend2d<2, Kernel<5>>>;
  const auto held = [](std::size_t count, std::uint64_t stream) {
    return support::as<float>(support::as<hg::bfloat16>(support::numbers<float>(count, stream)));
  };
  auto input = held(12 * 12 * 16, 2);
  for (float& value : input) value *= 4;  // so that the logarithms that are stored are not small
  return support::train_once<Layer, 12, 4, support::InnerProduct, S>(mesh, {1, 12, 16}, {}, input, {12, 16},
                                                                     held(4 * 12 * 16, 3));
}

/// Gradients in float, of queries, keys and values: the same bits on every mesh.
template <class Layer>
void check_bits(hg::index_t height, hg::index_t width) {
  using Model = hg::Sequential<support::Takes<6>, Layer>;
  const auto points = static_cast<std::size_t>(height * width);
  const auto run = [&](const hg::DeviceMesh<support::Mesh>& mesh) {
    return support::train_once<Model, 6, 2, support::InnerProduct>(
               mesh, {1, height, width}, {}, support::numbers<float>(6 * points, 2), {height, width},
               support::numbers<float>(2 * points, 3))
        .input_gradient;
  };
  const auto alone = run(support::alone<support::Mesh>());
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    CHECK(run(mesh) == alone);
  }
}

}  // namespace

TEST_CASE("gradients are the same bits on every mesh: long rows, pieces narrower than a dilation, wide windows") {
  check_bits<hg::NeighborhoodAttend2d<1, Kernel<3, 5>>>(12, 300);
  check_bits<hg::NeighborhoodAttend2d<1, Kernel<1, 5>, Dilation<1, 3>>>(12, 150);
  check_bits<hg::NeighborhoodAttend2d<1, Kernel<1, 3>, Dilation<1, 4>>>(12, 17);
  check_bits<hg::NeighborhoodAttend2d<1, Kernel<1, 70>>>(12, 150);
}
TEST_CASE("planes: kernels, dilations, causal heights, date lines") {
  check<hg::NeighborhoodAttend2d<1, Kernel<3>>, 6>("three");
  check<hg::NeighborhoodAttend2d<2, Kernel<5, 3>>, 12>("rectangle");
  check<hg::NeighborhoodAttend2d<2, Kernel<4>>, 6>("even");
  check<hg::NeighborhoodAttend2d<1, Kernel<3>, Dilation<2, 3>>, 6>("dilated");
  check<hg::NeighborhoodAttend2d<1, Kernel<3, 5>, IsCausal<true, false>>, 6>("causal");
  check<hg::NeighborhoodAttend2d<2, Kernel<2, 3>, Dilation<3, 2>, IsCausal<false, true>>, 6>("causal_dilated");
  check<hg::NeighborhoodAttend2d<1, Kernel<5>, Boundary<Zero, Periodic>>, 6>("globe");
  check<hg::NeighborhoodAttend2d<1, Kernel<3, 4>, Dilation<2>, IsCausal<true, false>, Boundary<Zero, Periodic>>, 6>(
      "globe_dilated");
}
TEST_CASE("signals and volumes") {
  check<hg::NeighborhoodAttend1d<1, Kernel<5>, Dilation<2>>, 6, 2>("signal");
  check<hg::NeighborhoodAttend1d<2, Kernel<4>, IsCausal<true>>, 6, 2>("signal_even");
  check<hg::NeighborhoodAttend1d<1, Kernel<6>, Dilation<2>, Boundary<Periodic>>, 6, 2>("ring");
  check<hg::NeighborhoodAttend3d<1, Kernel<3, 2, 5>>, 6, 4>("volume");
  check<hg::NeighborhoodAttend3d<1, Kernel<2, 3, 3>, Dilation<2, 1, 1>, IsCausal<true, false, false>,
                                 Boundary<Zero, Zero, Periodic>>,
        6, 4>("volume_causal");
}
TEST_CASE("with its projections, as a checkpoint names them") {
  using Layer = hg::NeighborhoodAttention2d<4, 2, Kernel<5, 3>, Boundary<Zero, Periodic>>;
  const support::Reference reference(file);
  CHECK(hg::parameter_names<Layer>() == std::vector<std::string>{"qkv.weight", "qkv.bias", "proj.weight", "proj.bias"});
  const auto parameters = support::all_parameters<Layer>(reference, "layer.");
  const auto gradient = support::all_parameters<Layer>(reference, "layer.grad.");
  const support::StoredCase<3> stored(file, "layer");
  support::on_meshes<Layer, 4>(stored.extents("input"), [&](const auto& mesh) {
    const auto result = stored.template run<Layer, 4, 4>(mesh, parameters);
    CHECK(support::relative_error(result.output, stored["output"]) < 1e-12);
    CHECK(support::relative_error(result.input_gradient, stored["grad_input"]) < 1e-12);
    CHECK(support::relative_error(result.parameter_gradient, gradient) < 1e-12);
  });
}
TEST_CASE("in networks: every mesh as one rank, finite differences, the same bits in float") {
  support::check_composition<Globe, 2, 2>({2, 12, 11});
  support::check_composition<Apart, 2, 2, true>({2, 12, 23});
  support::check_composition<Viewed, 2, 2>({2, 12, 11});
  support::check_composition<Normed, 2, 2>({2, 12, 11});
  support::check_composition<Wave, 2, 4, true, support::SignalMesh>({2, 29});
  support::check_composition<Volume, 2, 4, true, support::VolumeMesh>({1, 6, 6, 11});
}
TEST_CASE("queries without a gradient add nothing to those of parameters, though they or their keys be NaN") {
  using Layer = hg::NeighborhoodAttention2d<4, 2, Kernel<3>>;
  support::check_uncounted<Layer, 4, 4>({1, 9, 40}, {20, 22}, {19, 23}, {9, 40});
}
TEST_CASE("a NaN of a query reaches the keys and values that it sees, and no others") {
  using Layer = hg::NeighborhoodAttend1d<1, Kernel<5>>;
  const support::Extents<support::SignalMesh> extents{1, 40};
  std::vector<double> input = support::numbers<double>(3 * 40, 2);
  for (const int query : {5, 36}) input[static_cast<std::size_t>(query)] = std::nan("");
  for (const auto& mesh : support::meshes_of<support::SignalMesh>(1)) {
    const auto result = support::run_composition<Layer, 3, 1>(mesh, extents, {}, input);
    for (std::size_t x = 0; x < 40; ++x) {
      CAPTURE(x);
      const bool is_seen = (x >= 3 && x <= 7) || (x >= 34 && x <= 38), is_query = x == 5 || x == 36;
      CHECK(std::isnan(result.output[x]) == is_query);
      CHECK(std::isnan(result.input_gradient[x]) == is_query);
      CHECK(std::isnan(result.input_gradient[40 + x]) == is_seen);
      CHECK(std::isnan(result.input_gradient[80 + x]) == is_seen);
    }
  }
}

TEST_CASE("messages: a step exchanges qkv, the gradient of the output, and three numbers for each head") {
  ONLY_ON_RANKS(2);
  using Model = hg::Sequential<support::Takes<12>, hg::NeighborhoodAttend2d<2, Kernel<3, 5>>>;
  const auto input = support::numbers<double>(12 * 10 * 8, 2), label = support::numbers<double>(4 * 10 * 8, 3);
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 2, 1});
  const auto result =
      support::train_once<Model, 12, 4, support::InnerProduct>(mesh, {1, 10, 8}, {}, input, {10, 8}, label);
  CHECK(result.traffic.messages == hg::Tally{3, (12 + 4 + 6) * 8 * 8});  // a row of 8 points each
}
TEST_CASE("bfloat16: the sums of a softmax lose nothing of their logarithms") {
  const auto alone = rounded_run<hg::bfloat16>(support::alone<support::Mesh>());
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto half = rounded_run<hg::bfloat16>(mesh), single = rounded_run<float>(mesh);
    CHECK(half.output == alone.output);
    CHECK(half.input_gradient == alone.input_gradient);
    CHECK(support::relative_error(support::as<double>(half.output), support::as<double>(single.output)) < 1. / 256);
    CHECK(support::relative_error(support::as<double>(half.input_gradient),
                                  support::as<double>(single.input_gradient)) < 1. / 128);
  }
}
TEST_CASE("a field that holds no window is refused on all ranks") {
  using Model = hg::NeighborhoodAttention2d<2, 1, Kernel<3, 7>, Dilation<1, 2>>;
  const auto mesh = support::meshes(1).back();
  const auto x =
      hg::distribute_tensor<support::Field<double, 2>>(mesh, {1, 2, 12, 13}, support::numbers<double>(312, 1));
  CHECK_THROWS_WITH_AS(hg::infer(hg::initial_parameters<Model, double>(1), x),
                       "layer 1 (neighborhood_attention) attends to 7 points with dilation 2 of a width of 13: it "
                       "needs at least 14; use a smaller kernel or dilation, or a larger field",
                       hg::CollectiveError);
}

}  // namespace test_neighborhood_attention
