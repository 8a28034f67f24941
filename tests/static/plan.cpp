// The graph and the plan of the three-level U-Net, pinned: a change here is a change of what runs.
#include "halogen/layers/crop.hpp"
#include "halogen/layers/frozen.hpp"
#include "halogen/layers/pad.hpp"
#include "halogen/models/resnet.hpp"
#include "halogen/models/unet.hpp"
#include "halogen/plan/trace.hpp"

namespace {

using namespace halogen;
using Globe = Boundary<Zero, Periodic>;

// -- parameters: offsets and counts
// ------------------------------------------------------------------------------------
constexpr index_t block(index_t in, index_t out) { return 9 * in * out + 9 * out * out + 2 * (out + 2 * out); }
constexpr index_t unet(index_t in, index_t out, index_t base) {
  return block(in, base) + block(base, 2 * base) + block(2 * base, 4 * base) + block(6 * base, 2 * base) +
         block(3 * base, base) + base * out + out;
}
/// Of two levels, and of four.
constexpr index_t shallow(index_t in, index_t out, index_t base) {
  return block(in, base) + block(base, 2 * base) + block(3 * base, base) + base * out + out;
}
constexpr index_t deep(index_t in, index_t out, index_t base) {
  return unet(in, out, base) + block(4 * base, 8 * base) + block(12 * base, 4 * base);
}
static_assert(graph_of<UNet<3, 2, 8, Globe, 8, 2>, 3>.parameter_count == shallow(3, 2, 8));
static_assert(graph_of<UNet<3, 2, 8, Globe, 8, 4>, 3>.parameter_count == deep(3, 2, 8));
// torchvision's resnet18, 34 and 50
static_assert(graph_of<ResNet<18>, 3>.parameter_count == 11689512);
static_assert(graph_of<ResNet<34>, 3>.parameter_count == 21797672);
static_assert(graph_of<ResNet<50>, 3>.parameter_count == 25557032);

template <int In, int Out, int Base>
inline constexpr const Graph& graph = graph_of<UNet<In, Out, Base, Globe>, In>;

static_assert(graph<7, 3, 16>.misfit.why == nullptr);
static_assert(graph<7, 3, 16>.parameter_count == unet(7, 3, 16) && unet(7, 3, 16) == 119523);
static_assert(graph<3, 1, 8>.parameter_count == unet(3, 1, 8));
static_assert(graph<7, 3, 16>.parameters.size() == 4 * 2 * 5 + 2);
static_assert(graph<7, 3, 16>.layers == 5 * 6 + 2 + 2 + 1);  // blocks, pools, upsamplings, head
static_assert(input_channels<UNet<7, 3, 16>> == 7);
using Doubled = SkipConcat<Sequential<MaxPool2d<2>, UpsampleToSkip<Nearest>>>;  // twice as many channels, of any number
static_assert(input_channels<Sequential<Doubled, Conv2d<8, 1>>> == 4);
static_assert(input_channels<Doubled> == 1);

// Offsets are constants of a layer's type, which clang++ looks at more closely than g++.
static_assert(graph_of<Sequential<Conv2d<2, 3>, Crop2d<1, 1, 0, 2>, Roll2d<1, -2>>, 2>.misfit.why == nullptr);

/// A window of a padded field leads to the level of one that has as much padding itself.
struct Paddings : Module<Paddings> {
  constexpr Traced forward(Traced x) const {
    using Window = Kernel<3>;
    const Traced padded = ReplicationPad2d<1, 2, 0, 3>{}(x);
    return concat(Conv2d<2, 1, Window, Stride<2>>{}(padded),
                  Conv2d<2, 1, Window, Stride<2>, Padding<1, 0>, PaddingAfter<2, 3>>{}(x));
  }
};
static_assert(graph_of<Paddings, 2>.misfit.why == nullptr);

/// Each tensor begins where the last one ends, and holds the product of its extents.
constexpr bool gapless(const Graph& g) {
  index_t offset = 0;
  for (const ParameterShape& p : g.parameters) {
    index_t count = 1;
    for (int d = 0; d < p.rank; ++d) count *= p.shape[d];
    if (p.offset != offset || p.count != count || (p.rank != 1 && p.rank != 4)) return false;
    offset += count;
  }
  return offset == g.parameter_count;
}
static_assert(gapless(graph<7, 3, 16>) && gapless(graph<3, 1, 8>));

constexpr bool is_weight(const ParameterShape& p, int out, int in, int kernel) {
  return p.rank == 4 && p.shape[0] == out && p.shape[1] == in && p.shape[2] == kernel && p.shape[3] == kernel &&
         p.start == ParameterShape::Start::uniform && p.fan_in == in * kernel * kernel;
}
static_assert(is_weight(graph<7, 3, 16>.parameters[0], 16, 7, 3));    // enc1.0.weight
static_assert(is_weight(graph<7, 3, 16>.parameters[24], 32, 96, 3));  // after the inner skip
static_assert(is_weight(graph<7, 3, 16>.parameters[32], 16, 48, 3));  // dec1.0.weight
static_assert(is_weight(graph<7, 3, 16>.parameters[40], 3, 16, 1));   // head.weight
static_assert(graph<7, 3, 16>.parameters[1].rank == 1 && graph<7, 3, 16>.parameters[1].fan_in == 63);
static_assert(graph<7, 3, 16>.parameters[2].start == ParameterShape::Start::ones);   // gamma
static_assert(graph<7, 3, 16>.parameters[3].start == ParameterShape::Start::zeros);  // beta

// Buffers come after all that is trained. A layer whose weights are trained cannot share them with one that freezes
// them.
using NormFirst = Sequential<BatchNorm<4>, Conv2d<4, 2>>;
static_assert(graph_of<NormFirst, 4>.parameters[2].buffer &&
              graph_of<NormFirst, 4>.parameters[2].offset == 2 * 4 + 2 * 4 + 2);
template <class Second>
inline constexpr const char* shared_with =
    graph_of<Sequential<Named<"conv", Conv2d<4, 4>>, ReLU, Named<"conv", Second>>, 4>.misfit.why;
static_assert(shared_with<Conv2d<4, 4>> == nullptr);
static_assert(shared_with<Frozen<Conv2d<4, 4>>> == refusal<why::weights_differ>());

// -- plan
// ---------------------------------------------------------------------------------------------------------------
inline constexpr const Plan& training = plan_of<UNet<3, 1, 16, Globe>, 3, PlanKind::training>;
inline constexpr const Plan& inference = plan_of<UNet<3, 1, 16, Globe>, 3, PlanKind::inference>;

static_assert(training.graph.levels.size() == 3);
// On the host Winograd's kernels sum the weights' gradients of six convolutions beside their inputs'.
inline constexpr int summed_beside = has_winograd ? 6 : 0;
static_assert(training.launches.size() == 41 - summed_beside && training.first_backward == 13);
static_assert(training.stages == 29);
static_assert(training.tensors.size() == 1 + 13 + 15);  // the image, forward, gradients
static_assert(training.affines.size() == 10 && training.activations.size() == 16);
static_assert(inference.launches.size() == 13 && inference.tensors.size() == 14 && inference.affines.size() == 10);
static_assert(training.input_gradient[0] < 0);

/// Launches of type L.
template <class L>
constexpr int count(const Plan& plan) {
  int n = 0;
  for (const Launch& launch : plan.launches) n += launch.is<L>();
  return n;
}
static_assert(count<detail::ConvolutionForward>(training) == 11 && count<detail::MaxPoolForward>(training) == 2);
// The first, the head, and three of more than 1024 pairs of channels sum their weights' gradients in a launch of their
// own; the others do beside their inputs' gradients, one of them from two sources.
inline constexpr int both = has_winograd ? summed_beside + 1 : 0;
static_assert(count<detail::ConvolutionWeightGradient>(training) == 11 - summed_beside);
static_assert(count<detail::ConvolutionGradients>(training) == both);
static_assert(count<detail::ConvolutionInputGradient>(training) == 12 - both);  // two read two sources, the first none
static_assert(count<detail::MaxPoolBackward>(training) == 2 && count<ResamplingAdjoint>(training) == 2);
static_assert(count<LossLaunch>(training) == 1);
// No norm, ReLU, concatenation or upsampling costs a launch or a tensor of its own.
static_assert(count<StoreValue>(training) == 0 && count<AddGradients>(training) == 0);
static_assert(count<StoreGradient>(training) == 0 && count<StoreValue>(inference) == 0);

/// Every norm's moments are gathered by one forward launch, its sums by one backward launch.
constexpr bool sums_are_complete(const Plan& plan) {
  for (int n = 0; n < plan.affines.size(); ++n) {
    int moments = 0, sums = 0;
    for (const Launch& launch : plan.launches) {
      moments += launch.statistics == AffineTableId(n);
      sums += launch.sums >= 0 && plan.activations[launch.sums].affine == AffineTableId(n);
    }
    if (moments != 1 || (plan.training && sums != 1)) return false;
  }
  return true;
}
static_assert(sums_are_complete(training) && sums_are_complete(inference));

/// A norm of the image reads it where it lies: its moments, then the output; no copy.
inline constexpr const Plan& of_image = plan_of<GroupNorm<2, 4>, 4, PlanKind::inference>;
static_assert(of_image.launches.size() == 2 && of_image.launches[0].is<Moments>());
static_assert(of_image.launches[0].output < 0 && of_image.launches[0].reads[0].tensor() == TensorId(0));
static_assert(of_image.tensors.size() == 2 && sums_are_complete(of_image));
static_assert(sums_are_complete(plan_of<GroupNorm<2, 4>, 4, PlanKind::vjp>));

/// Nobody reads a tensor before it is complete, and nobody after its last launch.
constexpr bool lifetimes_hold(const Plan& plan) {
  for (int i = 0; i < plan.launches.size(); ++i) {
    bool holds = true;
    plan.for_each_read(plan.launches[i], [&](TensorId t) {
      const StoredTensor& tensor = plan.tensors[t];
      const bool adds = plan.launches[i].accumulate && plan.launches[i].output == t;
      if (!tensor.external && !(adds ? tensor.first_launch < i : tensor.last_write < i)) holds = false;
      if (tensor.last_launch < i) holds = false;
    });
    if (!holds) return false;
  }
  return plan.tensors[plan.prediction[0]].last_launch == plan.launches.size();
}
static_assert(lifetimes_hold(training) && lifetimes_hold(inference));

/// Values a fine pixel in sixteenths: alive together at most, and kept from forward for backward.
struct Pixels {
  int peak = 0, kept = 0;
};
constexpr Pixels pixels(const Plan& plan) {
  Pixels use;
  int area[64] = {16};
  for (int l = 1; l < plan.graph.levels.size(); ++l) {
    const Level& level = plan.graph.levels[l];
    area[l] = area[level.parent] / (level.window[1].stride * level.window[2].stride);
  }
  for (int i = 0; i < plan.launches.size(); ++i) {
    int alive = 0;
    for (const StoredTensor& tensor : plan.tensors)
      if (!tensor.external && tensor.first_launch <= i && i <= tensor.last_launch)
        alive += tensor.channels * area[tensor.level];
    use.peak = std::max(use.peak, alive);
  }
  for (const StoredTensor& tensor : plan.tensors)
    if (!tensor.external && tensor.first_launch < plan.first_backward && tensor.last_launch >= plan.first_backward)
      use.kept += tensor.channels * area[tensor.level];
  return use;
}
static_assert(pixels(training).peak == 151 * 16 && pixels(training).kept == 111 * 16);
static_assert(pixels(inference).peak == 40 * 16);  // the skips, and what is at hand

/// A model may have any number of layers: this one has 200, and twice as many parameters.
struct Deep {
  constexpr Traced forward(Traced x) const {
    for (int i = 0; i < 200; ++i) x = Conv2d<4, 4>{}(x);
    return x;
  }
};
static_assert(graph_of<Deep, 4>.nodes.size() == 1 + 200 && graph_of<Deep, 4>.parameters.size() == 2 * 200);
static_assert(plan_of<Deep, 4, PlanKind::training>.tensors.size() == 1 + 2 * 200);

}  // namespace
