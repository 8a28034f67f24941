// program: layers
// What windows read beyond an edge that reflects or replicates, and pads alone: PyTorch's stored tensors, compositions
// on every mesh beside finite differences, messages, launches.
#include "support/composition.hpp"
#include "support/stored.hpp"
#include "support/windows.hpp"

namespace test_pads {

namespace {

using hg::Periodic;
using hg::Reflect;
using hg::ReplicateEdge;
using hg::Zero;

template <int In, int Out, class Edges, int K = 3>
using Conv = hg::Conv2d<In, Out, hg::Kernel<K>, hg::Padding<K / 2>, Edges>;
using Mirror = hg::Boundary<Reflect, Reflect>;
using Walls = hg::Boundary<ReplicateEdge, ReplicateEdge>;
using Globe = hg::Boundary<Reflect, Periodic>;

template <class Layer, int In, int Out>
void check_case(int number) {
  support::check_window<Layer, In, Out>(support::Reference("padded_conv2d"), number);
}

/// Behind norm and activation, sums around it, one tensor read with three boundaries.
using Blocks = hg::Sequential<Conv<2, 4, Globe>, hg::GroupNorm<2, 4>, hg::GELU,
                              Conv<4, 4, hg::Boundary<ReplicateEdge, Reflect>, 5>,
                              hg::Residual<hg::Sequential<hg::ReLU, Conv<4, 4, Mirror>>>, Conv<4, 3, Walls>>;
struct Readers : hg::Module<Readers> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto a = hg::SiLU{}(Conv<2, 3, Mirror>{}(x));
    return hg::concat(Conv<3, 2, Mirror>{}(a),
                      hg::concat(Conv<3, 2, Walls>{}(a), Conv<3, 2, hg::Boundary<Zero, Periodic>>{}(a)));
  }
};
/// By Winograd's tiles; concatenated; what is pooled and upsampled is padded too.
using UNet = hg::Sequential<Conv<2, 8, Mirror>, hg::GroupNorm<2, 8>, hg::ReLU,
                            hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, Conv<8, 8, Mirror>,
                                                          hg::UpsampleToSkip<hg::Nearest>, Conv<8, 8, Walls>>>,
                            Conv<16, 8, Globe>, Conv<8, 2, Mirror>>;
using Padded = hg::Sequential<hg::Conv2d<2, 3>, hg::Tanh, hg::ReflectionPad2d<2, 1, 3, 2>,
                              hg::MaxPool2d<3, hg::Stride<1>>, hg::ReplicationPad2d<1>, hg::GroupNorm<3, 3>,
                              hg::ReflectionPad2d<1>, hg::ReplicationPad2d<2, 1, 0, 3>>;
using Volume =
    hg::Sequential<hg::Conv3d<1, 2, hg::Kernel<3>, hg::Padding<1>, hg::Boundary<ReplicateEdge, Reflect, Periodic>>,
                   hg::ReLU,
                   hg::Conv3d<2, 2, hg::Kernel<3>, hg::Padding<1>, hg::Boundary<Reflect, Zero, ReplicateEdge>>>;

/// Strides over a ring, sums of a level that another window makes, a pad of what is padded.
using Ring = hg::Boundary<Periodic, Periodic>;
template <int In, int Out, int K, class... Options>
using Strided = hg::Conv2d<In, Out, hg::Kernel<K>, hg::Stride<2>, hg::Padding<K / 2>, Options...>;
struct Rings : hg::Module<Rings> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto a = hg::GELU{}(hg::GroupNorm<2, 4>{}(hg::Conv2d<2, 4>{}(x)));
    const auto b = hg::concat(Strided<4, 3, 3, Ring>{}(a), Strided<4, 2, 5, hg::Boundary<Periodic, Reflect>>{}(a));
    const auto c = hg::SiLU{}(hg::concat(b, Strided<4, 1, 1>{}(a)));
    return Conv<6, 2, Ring>{}(hg::CircularPad2d<2, 1>{}(hg::ReflectionPad2d<1>{}(c)));
  }
};

template <class Model, int In>
constexpr hg::Plan plan_of = hg::PlanOf<Model, In, hg::PlanKind::training>::plan();

}  // namespace

TEST_CASE("PyTorch's convolutions: any kernel, stride, dilation and mixture of edges") {
  check_case<Conv<2, 3, hg::Boundary<Reflect, ReplicateEdge>>, 2, 3>(0);
  check_case<Conv<1, 2, hg::Boundary<ReplicateEdge, Reflect>, 5>, 1, 2>(1);
  check_case<hg::Conv2d<2, 2, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>, Globe>, 2, 2>(2);
  check_case<hg::Conv2d<1, 2, hg::Kernel<3, 5>, hg::Padding<2>, hg::Dilation<2, 1>, hg::Boundary<Reflect, Zero>>, 1, 2>(
      3);
  check_case<
      hg::Conv2d<2, 1, hg::Kernel<4, 3>, hg::Stride<3, 2>, hg::Padding<3, 2>, hg::Boundary<Reflect, ReplicateEdge>>, 2,
      1>(7);
}
TEST_CASE("PyTorch's: pieces thinner than the padding") {
  check_case<hg::Conv2d<1, 2, hg::Kernel<7, 3>, hg::Padding<3, 1>, hg::Boundary<ReplicateEdge, Reflect>>, 1, 2>(5);
  check_case<hg::Conv2d<1, 2, hg::Kernel<7, 3>, hg::Padding<3, 1>, hg::Boundary<Reflect, ReplicateEdge>>, 1, 2>(6);
}
TEST_CASE("PyTorch's: eight channels") {  // by Winograd's tiles, whose sums are rounded otherwise
  using Layer = Conv<8, 8, Mirror>;
  const support::StoredCase<3> stored("padded_conv2d", 4);
  std::vector<double> parameters = stored["weight"], gradient = stored["grad_weight"];
  for (const auto& [all, name] : {std::pair{&parameters, "bias"}, std::pair{&gradient, "grad_bias"}}) {
    const auto bias = stored[name];
    all->insert(all->end(), bias.begin(), bias.end());
  }
  support::on_meshes<Layer, 8>(stored.extents("input"), [&](const auto& mesh) {
    const auto result = stored.run<Layer, 8, 8>(mesh, parameters);
    CHECK(support::relative_error(result.output, stored["output"]) < 1e-14);
    CHECK(support::relative_error(result.input_gradient, stored["grad_input"]) < 1e-14);
    CHECK(support::relative_error(result.parameter_gradient, gradient) < 1e-14);
  });
}
TEST_CASE("PyTorch's ReflectionPad and ReplicationPad") {
  support::check_stored<hg::ReflectionPad2d<1, 2>, 2>("pads", 0);
  support::check_stored<hg::ReplicationPad2d<2, 3>, 1>("pads", 1);
  support::check_stored<hg::ReflectionPad3d<1, 2, 1>, 1, 4>("pads", 2);
  support::check_stored<hg::ReplicationPad3d<1, 2, 3>, 2, 4>("pads", 3);
}

TEST_CASE("behind norms and activations, in sums") { support::check_composition<Blocks, 2, 3>(); }
TEST_CASE("one tensor, three boundaries: to the bit") { support::check_composition<Readers, 2, 6, true>(); }
TEST_CASE("levels, concatenations, Winograd's tiles") { support::check_composition<UNet, 2, 2>(); }
TEST_CASE("pads of pads, of pools, before a norm") { support::check_resizing<Padded, 2, 3>({2, 12, 11}, 20, 21); }
TEST_CASE("rings and strides, sums of their levels") { support::check_resizing<Rings, 2, 2>({2, 17, 23}, 15, 16); }
TEST_CASE("what is padded or upsampled, read by layers that extents alone place") {
  using Pooled = hg::Sequential<hg::ReflectionPad2d<2, 3>, hg::AdaptiveMaxPool2d<9, 10>>;
  using Resampled = hg::Sequential<hg::Upsample<2, hg::Bilinear>, hg::Interpolate<hg::Size<17, 19>, hg::Bicubic>>;
  support::check_resizing<Pooled, 2, 2>({2, 12, 11}, 9, 10);
  support::check_resizing<Resampled, 2, 2>({2, 12, 11}, 17, 19);
}
/// Behind a pad a window that keeps no extent returns to where the pad began; strided it is of one level with its
/// zero-padded twin. Readers of one pad share what is written out for it.
struct Idiom : hg::Module<Idiom> {
  constexpr hg::Traced forward(hg::Traced x) const {
    using Body = hg::Sequential<hg::ReflectionPad2d<1>, hg::Conv2d<2, 2, hg::Kernel<3>>, hg::ReLU,
                                hg::ReplicationPad2d<2>, hg::Conv2d<2, 2, hg::Kernel<3>, hg::Dilation<2>>>;
    using Down = hg::Conv2d<2, 3, hg::Kernel<3>, hg::Stride<2>>;
    const auto y = hg::Residual<Body>{}(x);
    const auto strided = hg::Sequential<hg::ReflectionPad2d<1>, Down>{}(y) + hg::Conv2d<2, 3, hg::Stride<2>>{}(y);
    return hg::Residual<
        hg::Sequential<hg::ReplicationPad2d<1, 2>, Conv<3, 3, Mirror>, hg::Conv2d<3, 3, hg::Kernel<3, 5>>>>{}(strided);
  }
};

struct Shared : hg::Module<Shared> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto up = hg::Upsample<2>{}(hg::Conv2d<2, 3>{}(x));
    return hg::concat(Conv<3, 2, Mirror>{}(up), Conv<3, 2, Mirror>{}(up));
  }
};

/// The channels that are written out forward.
template <class Model, int In>
int stored_channels() {
  constexpr auto& plan = plan_of<Model, In>;
  int channels = 0;
  for (const hg::Launch& launch : plan.launches)
    if (launch.is<hg::StoreValue>()) channels += plan.tensors[launch.output].channels;
  return channels;
}

TEST_CASE("of a skip beside what is upsampled the latter alone is written out") {
  using Level = hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::Conv2d<4, 3>, hg::UpsampleToSkip<hg::Nearest>>>;
  CHECK(stored_channels<hg::Sequential<hg::Conv2d<2, 4>, Level, Conv<7, 2, Mirror>>, 2>() == 3);
}

TEST_CASE("PyTorch's idiom, a pad and a window without padding, in sums and strided") {
  support::check_resizing<Idiom, 2, 3>({2, 24, 23}, 12, 12);
  constexpr auto& shared = plan_of<Shared, 2>;
  int stores = 0;
  for (const hg::Launch& launch : shared.launches) stores += launch.is<hg::StoreValue>();
  CHECK(stores == 2);  // what is upsampled, once for both; the output
}
TEST_CASE("volumes: to the bit") { support::check_composition<Volume, 1, 2, true, support::VolumeMesh>(); }

TEST_CASE("a mirror image ends before the field does") {
  for (const auto& mesh : support::meshes(1)) {
    try {
      support::infer<hg::ReflectionPad2d<1, 6>, 1>(mesh, {1, 24, 6}, {}, support::numbers<double>(24 * 6, 1));
      CHECK(false);
    } catch (const hg::CollectiveError& error) {
      if (support::leaves_a_piece_empty(error)) continue;
      CHECK(std::string(error.what()).find("reflects 6 points at the ends of a width of 6") != std::string::npos);
    }
  }
}

TEST_CASE("no pass and no tensor forward; backward one launch more") {
  constexpr auto& padded = plan_of<hg::Sequential<Conv<2, 4, Mirror>, Conv<4, 2, Mirror>>, 2>;
  constexpr auto& plain =
      plan_of<hg::Sequential<Conv<2, 4, hg::Boundary<Zero, Zero>>, Conv<4, 2, hg::Boundary<Zero, Zero>>>, 2>;
  CHECK(padded.first_backward == plain.first_backward);
  CHECK(padded.launches.size() == plain.launches.size() + 1);
}

TEST_CASE("it sends what zero padding sends") {
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto traffic = [&]<class Edges>(Edges) {
      using Model = hg::Sequential<Conv<2, 3, Edges>, hg::Tanh, Conv<3, 2, Edges>>;
      const auto parameters = support::numbers<double>(hg::Parameters<Model, double>::count, 1);
      return support::run_composition<Model, 2, 2>(mesh, {1, 24, 23}, parameters,
                                                   support::numbers<double>(2 * 24 * 23, 2))
          .traffic;
    };
    CHECK(traffic(Mirror{}) == traffic(hg::Boundary<Zero, Zero>{}));
    CHECK(traffic(Walls{}) == traffic(hg::Boundary<Zero, Zero>{}));
  }
}

}  // namespace test_pads
