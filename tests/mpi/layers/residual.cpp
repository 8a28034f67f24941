// program: layers
// Residual and add: every way in which a sum's terms can share its gradient, on every mesh, beside finite differences;
// launches and messages of a residual block.
#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_residual {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;

/// ResNet: relu(x + norm(conv(relu(norm(conv(x))))))
template <int C>
using Block = hg::Sequential<
    hg::Residual<hg::Sequential<Conv<C, C>, hg::GroupNorm<2, C>, hg::ReLU, Conv<C, C>, hg::GroupNorm<2, C>>>, hg::ReLU>;
using ResNet = hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, hg::ReLU, Block<4>, Block<4>, hg::Conv2d<4, 3>>;

using Wide = hg::Sequential<Conv<2, 8>, Block<8>, Block<8>, Conv<8, 2>>;  // by Winograd's tiles

/// Norm and ReLU before the convolutions: sums without ReLU, on each other.
template <int C>
using Before =
    hg::Residual<hg::Sequential<hg::GroupNorm<1, C>, hg::ReLU, Conv<C, C>, hg::GroupNorm<1, C>, hg::ReLU, Conv<C, C>>>;
using PreActivation = hg::Sequential<Conv<2, 3>, Before<3>, Before<3>, hg::GroupNorm<1, 3>, hg::ReLU>;

/// Without norms; of the image itself first; the output is a sum.
using Enhance = hg::Sequential<hg::Residual<hg::Sequential<Conv<2, 3>, hg::ReLU, Conv<3, 2>>>, hg::Residual<Conv<2, 2>>,
                               hg::ReLU, hg::Residual<hg::Sequential<hg::ReLU, Conv<2, 2>>>>;

/// A shortcut of its own, as torchvision's: two norms meet in the sum, both branches change channels and extents.
struct Shortcut : hg::Module<Shortcut> {
  constexpr hg::Traced forward(hg::Traced x) const {
    using Body = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>, hg::GroupNorm<2, 4>>;
    using Projection = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<1>, hg::Stride<2>>, hg::GroupNorm<2, 4>>;
    return hg::ReLU{}(hg::add(Body{}(x), Projection{}(x)));
  }
};
using Projected = hg::SkipConcat<hg::Sequential<Shortcut, Block<4>, hg::UpsampleToSkip<hg::Nearest>>>;

/// The same value twice, a ReLU of what is also raw, a concatenation, something looked up, a pool of a sum.
struct Odd : hg::Module<Odd> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto a = Conv<2, 4>{}(x);
    const auto twice = hg::add(a, a);
    const auto both = hg::add(hg::concat(x, hg::Conv2d<4, 2>{}(twice)), hg::ReLU{}(twice));
    const auto down =
        hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::Conv2d<4, 4>, hg::UpsampleToSkip<hg::Nearest>>>{}(both);
    return hg::add(hg::ReLU{}(down), hg::concat(both, hg::ReLU{}(a)));
  }
};

/// Two branches of one value, neither the other's, and a sum of three.
struct Branches : hg::Module<Branches> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto a = hg::ReLU{}(Conv<2, 2>{}(x)), b = hg::ReLU{}(Conv<2, 2>{}(a)), c = Conv<2, 2>{}(a);
    const auto sum = hg::ReLU{}(b + c + a);
    return hg::concat(hg::add(sum, hg::GroupNorm<1, 2>{}(Conv<2, 2>{}(b))), hg::add(c, sum));
  }
};

/// A norm of a sum, and the sum itself.
struct NormOfSum : hg::Module<NormOfSum> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto sum = hg::add(Conv<2, 2>{}(x), hg::GroupNorm<2, 2>{}(Conv<2, 2>{}(x)));
    return hg::add(hg::ReLU{}(hg::GroupNorm<1, 2>{}(sum)), hg::Conv2d<2, 2>{}(sum));
  }
};

/// Convolutions that write a sum, behind it functions whose derivative depends on the value; one reads its own sum.
using Smooth = hg::Sequential<Conv<2, 3>, hg::Residual<Conv<3, 3>>, hg::GELU,
                              hg::Residual<hg::Sequential<Conv<3, 3>, hg::SiLU, Conv<3, 3>>>, hg::Tanh, Conv<3, 2>>;

/// Two convolutions in one sum, of which the later adds the earlier; one of two readers, which adds nothing; a sum of a
/// sum; a term that is written after the convolution.
struct Terms : hg::Module<Terms> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto a = hg::ELU{}(Conv<2, 3>{}(x) + hg::Conv2d<2, 3>{}(x));
    const auto twice = Conv<3, 3>{}(a), late = Conv<3, 3>{}(a);
    const auto sum = Conv<3, 3>{}(hg::GELU{}(twice)) + twice;
    return hg::SiLU{}(late + hg::MaxPool2d<3, hg::Stride<1>, hg::Padding<1>>{}(sum)) +
           Conv<3, 3>{}(sum + Conv<3, 3>{}(sum));
  }
};

template <class Model, int In>
constexpr hg::Plan plan_of = hg::PlanOf<Model, In, hg::PlanKind::training>::plan();

/// x + relu(x + conv(x)): the sum's ReLU shares the gradient that is given.
using Global = hg::Residual<hg::Sequential<hg::Residual<Conv<4, 4>>, hg::ReLU>>;

/// Behind a 1 x 1 convolution of stride 2.
template <class... Options>
constexpr int level_of() {
  hg::GraphDraft graph(2);
  hg::Conv2d<2, 4, hg::Kernel<1>, hg::Stride<2>>{}(hg::Traced{&graph, 0});
  return (*hg::Conv2d<2, 4, Options...>{}(hg::Traced{&graph, 0})).level;
}

/// Launches of type L.
template <class L>
int count(const hg::Plan& plan) {
  int all = 0;
  for (const hg::Launch& launch : plan.launches) all += launch.is<L>();
  return all;
}

}  // namespace

TEST_CASE("ResNet blocks") { support::check_composition<ResNet, 2, 3>(); }
TEST_CASE("ResNet blocks of more channels") { support::check_composition<Wide, 2, 2>(); }
TEST_CASE("norms and ReLUs before convolutions") { support::check_composition<PreActivation, 2, 3>(); }
TEST_CASE("without norms, of the image, as the output: to the bit") {
  support::check_composition<Enhance, 2, 2, true>({3, 11, 17});
}
TEST_CASE("smooth functions of sums that convolutions write") { support::check_composition<Smooth, 2, 2>(); }
TEST_CASE("which convolution writes a sum") { support::check_composition<Terms, 2, 3>(); }
TEST_CASE("a shortcut with a norm of its own, strided") { support::check_composition<Projected, 2, 6>(); }
TEST_CASE("one value twice, concatenations and levels under a sum") { support::check_composition<Odd, 2, 8, true>(); }
TEST_CASE("branches, sums of sums") { support::check_composition<Branches, 2, 4>(); }
TEST_CASE("a norm of a sum") { support::check_composition<NormOfSum, 2, 2>(); }
TEST_CASE("a ReLU of a sum beside what it is added to is the output") {
  support::check_composition<hg::Sequential<Conv<2, 4>, Global>, 2, 4>();
}
TEST_CASE("one extent is one level: 3 x 3 with padding 1 and 1 x 1, strided; another stride or margin is none") {
  CHECK(level_of<hg::Kernel<3>, hg::Padding<1>, hg::Stride<2>>() == level_of<hg::Kernel<1>, hg::Stride<2>>());
  CHECK(level_of<hg::Kernel<3>, hg::Padding<2>, hg::Dilation<2>, hg::Stride<2>>() ==
        level_of<hg::Kernel<1>, hg::Stride<2>>());
  CHECK(level_of<hg::Kernel<2>, hg::Stride<2>>() != level_of<hg::Kernel<1>, hg::Stride<2>>());
  CHECK(level_of<hg::Kernel<3>, hg::Padding<1>, hg::Stride<3>>() != level_of<hg::Kernel<1>, hg::Stride<2>>());
}

TEST_CASE("a block's backward has no launch but its convolutions'; forward it stores one sum") {
  using Plain = hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, hg::ReLU, hg::Conv2d<4, 3>>;
  const auto& with = plan_of<ResNet, 2>;
  const auto& without = plan_of<Plain, 2>;
  CHECK(count<hg::detail::AddForward>(with) == 2);
  CHECK(count<hg::AddGradients>(with) == 0);
  CHECK(count<hg::StoreGradient>(with) == 0);
  CHECK(with.launches.size() == without.launches.size() + 2 * (1 + 2 * 3));  // a sum, two convolutions of three
  // A norm of what others read too: one launch for its gradient, added to theirs. One store is the output's.
  CHECK(count<hg::AddGradients>(plan_of<PreActivation, 2>) == 3);
  CHECK(count<hg::StoreGradient>(plan_of<PreActivation, 2>) == 1);
}

TEST_CASE("a convolution's output is not stored where it adds the other term itself") {
  const auto adders = [](const hg::Plan& plan) {
    int all = 0;
    for (const hg::Launch& launch : plan.launches)
      all += launch.is<hg::detail::ConvolutionForward>() && launch.addend >= 0;
    return all;
  };
  const auto forward = [](const hg::Plan& plan) { return plan.first_backward; };
  CHECK(adders(plan_of<ResNet, 2>) == 0);  // a norm stands between
  CHECK(adders(plan_of<PreActivation, 2>) == 2);
  CHECK(forward(plan_of<PreActivation, 2>) == 1 + 2 * 2 + 1);  // convolutions, the store of the output
  CHECK(adders(plan_of<Smooth, 2>) == 1);                      // the second adds to a GELU of what is stored
  CHECK(adders(plan_of<Terms, 2>) == 3);
  CHECK(count<hg::detail::AddForward>(plan_of<Terms, 2>) == 2);
}

TEST_CASE("a sum sends what one tensor sends") {
  using Sum = hg::Sequential<hg::Residual<hg::Conv2d<2, 2>>, Conv<2, 2>>;
  using Alone = hg::Sequential<hg::Conv2d<2, 2>, Conv<2, 2>>;
  const auto input = support::numbers<double>(2 * 24 * 23, 2);
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto traffic = [&]<class Model>(const Model&) {
      const auto parameters = support::numbers<double>(hg::Parameters<Model, double>::count, 1);
      return support::run_composition<Model, 2, 2>(mesh, {1, 24, 23}, parameters, input).traffic.messages;
    };
    CHECK(traffic(Sum{}) == traffic(Alone{}));
  }
}

}  // namespace test_residual
