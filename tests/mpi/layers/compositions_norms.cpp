// program: compositions
// Norms where one does not expect them: of the input, after a pool, as the output, several views of one tensor.
#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_compositions_norms {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;
using Up = hg::UpsampleToSkip<hg::Nearest>;

using OfInput = hg::Sequential<hg::GroupNorm<2, 4>, Conv<4, 2>>;
using OfPool = hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::GroupNorm<2, 4>, Up>>;
using OfOutput = hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>>;

/// A tensor read raw, normed, and normed through ReLU: three views, so three gradients, of which two are one norm's.
struct ThreeViews {
  Conv<2, 4> first;
  hg::GroupNorm<2, 4> norm;
  hg::ReLU relu;
  Conv<12, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X raw = first(x), normed = norm(raw);
    return last(hg::concat(hg::concat(raw, relu(normed)), normed));
  }
};

/// Two norms of one tensor, and the norm of their concatenation.
struct NormsOfOne {
  Conv<2, 4> first;
  hg::GroupNorm<4, 4> four;
  hg::GroupNorm<1, 4> one;
  hg::GroupNorm<2, 8> joined;
  hg::ReLU relu;
  template <class X>
  constexpr X forward(X x) const {
    const X raw = first(x);
    return relu(joined(hg::concat(four(raw), relu(one(raw)))));
  }
};

}  // namespace

TEST_CASE("a norm of the input itself") { support::check_composition<OfInput, 4, 2>(); }
TEST_CASE("a norm of what was pooled, then up, without a convolution") { support::check_composition<OfPool, 4, 8>(); }
TEST_CASE("a norm as the output, three samples") { support::check_composition<OfOutput, 2, 4>({3, 11, 12}); }
TEST_CASE("one tensor raw, normed, and normed through ReLU") { support::check_composition<ThreeViews, 2, 2>(); }
TEST_CASE("two norms of one tensor, normed together") { support::check_composition<NormsOfOne, 2, 8>(); }

}  // namespace test_compositions_norms
