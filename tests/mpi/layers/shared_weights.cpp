// program: extending
// ranks: 1 2 4
// Layers that a model calls more than once: PyTorch's stored tensors on every mesh (make_layer_references.py), finite
// differences of every kind of launch that sums gradients of parameters.
#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_shared_weights {

namespace {

/// A block that reads what it wrote, and one that computes points and their mean.
struct Twice : hg::Module<Twice> {
  using Block = hg::Sequential<hg::Named<"conv", hg::Conv2d<3, 3, hg::Kernel<3>, hg::Padding<1>>>,
                               hg::Named<"norm", hg::GroupNorm<1, 3>>, hg::SiLU>;
  hg::Named<"block", Block> block;
  hg::Named<"norm", hg::LayerNorm<3>> norm;
  hg::Named<"fc", hg::Linear<3, 3>> fc;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced first = block(x);
    const hg::Traced y = block(first + x);
    const hg::Traced mean = fc(norm(hg::GlobalAvgPool{}(y)));
    return fc(norm(y)) + hg::expand(mean, y);
  }
};

/// scale * tanh(x)
struct Scaled {
  static constexpr hg::ChannelParameter parameters[] = {{"scale"}};
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T scale) const {
    using Kokkos::tanh;
    return scale * tanh(x);
  }
};
struct Recurrent : hg::Module<Recurrent> {
  using Step = hg::Sequential<hg::Named<"conv", hg::Conv2d<4, 4, hg::Kernel<3>, hg::Padding<1>>>,
                              hg::Named<"norm", hg::BatchNorm2d<4>>, hg::Named<"map", hg::Map<Scaled>>>;
  hg::Named<"step", Step> step;
  hg::Named<"last", hg::Conv2d<4, 2>> last;
  hg::Named<"first", hg::Conv2d<2, 4>> first;
  constexpr hg::Traced forward(hg::Traced x) const {
    hg::Traced y = first(x);
    for (int i = 0; i < 3; ++i) y = step(y);
    return last(y);
  }
};
/// Of two sources, whose shares of the weights' gradient are two launches.
struct OfTwo : hg::Module<OfTwo> {
  hg::Named<"conv", hg::Conv2d<16, 8, hg::Kernel<3>, hg::Padding<1>>> conv;
  hg::Conv2d<2, 8> first, second;
  hg::Conv2d<8, 2> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced a = hg::Tanh{}(first(x));
    const hg::Traced b = hg::Tanh{}(conv(hg::concat(a, second(x))));
    return last(conv(hg::concat(b, a)));
  }
};
/// Two kinds of norms of one name: one is summed by a launch, one behind another launch.
struct TwoKinds : hg::Module<TwoKinds> {
  hg::Named<"norm", hg::LayerNorm<4>> of_points;
  hg::Named<"norm", hg::GroupNorm<2, 4>> of_groups;
  hg::Conv2d<2, 4> first;
  hg::Conv2d<4, 4> second;
  hg::Conv2d<4, 2> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced y = of_points(first(x));
    return last(hg::Tanh{}(of_groups(second(y))));
  }
};
/// Attention and numbers of each point.
struct Attends : hg::Module<Attends> {
  hg::Named<"place", hg::PositionEmbedding2d<2, 12, 11>> place;
  hg::Named<"attend", hg::WindowAttention2d<2, 1, hg::Kernel<3>>> attend;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced first = attend(place(x));
    return attend(place(first));
  }
};

}  // namespace

TEST_CASE("a layer called twice has one set of weights, whose gradient is the sum") {
  support::check_with_parameters<Twice, 3, 3>("shared_weights", "twice",
                                              {"block.conv.weight", "block.conv.bias", "block.norm.weight",
                                               "block.norm.bias", "norm.weight", "norm.bias", "fc.weight", "fc.bias"});
}
TEST_CASE("other parts of transformers: SwiGLU, sinusoidal embeddings") {
  const char* file = "shared_weights";
  support::check_with_parameters<hg::SwiGLU<3, 5>, 3, 3>(
      file, "swiglu", {"fc1_g.weight", "fc1_g.bias", "fc1_x.weight", "fc1_x.bias", "fc2.weight", "fc2.bias"});
  support::check_named<hg::SinusoidalEmbedding1d<>, 6, 6, 2>(file, "sines1d");
  support::check_named<hg::SinusoidalEmbedding2d<100>, 8, 8>(file, "sines2d");
  support::check_named<hg::SinusoidalEmbedding3d<>, 6, 6, 4>(file, "sines3d");
}
TEST_CASE("every mesh as one rank, finite differences") {
  support::check_composition<Twice, 3, 3>();
  support::check_composition<Recurrent, 2, 2>();
  support::check_composition<OfTwo, 2, 2>({2, 12, 11});
  support::check_composition<TwoKinds, 2, 2>({2, 12, 11});
  support::check_composition<Attends, 2, 2>({2, 12, 11});
}
TEST_CASE("names and sizes are those of one call") {
  CHECK(hg::parameter_names<Recurrent>() ==
        std::vector<std::string>{"first.weight", "first.bias", "step.conv.weight", "step.conv.bias", "step.norm.weight",
                                 "step.norm.bias", "step.norm.running_mean", "step.norm.running_var", "step.map.scale",
                                 "last.weight", "last.bias"});
  static_assert(hg::Parameters<Recurrent, double>::trained == 12 + 148 + 8 + 4 + 10);
}

}  // namespace test_shared_weights
