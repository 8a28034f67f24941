// program: compositions
// Unusual compositions without norms: what is read raw and through ReLU, many sources side by side. Models are structs
// with layers as members and a forward() of the user's own.
#include "support/composition.hpp"
#include "support/network.hpp"

namespace test_compositions {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;

using ReluOfInput = hg::Sequential<hg::ReLU, Conv<2, 3>, hg::ReLU>;  // and a ReLU as the output

/// A convolution read raw and through ReLU, beside the input: the output is a concatenation.
struct RawAndRelu {
  Conv<2, 3> first;
  Conv<6, 2> second;
  hg::ReLU relu;
  template <class X>
  constexpr X forward(X x) const {
    const X raw = first(x);
    return hg::concat(second(hg::concat(relu(raw), raw)), hg::concat(x, relu(raw)));
  }
};

/// More sources than one reader takes (4), the input twice among them.
struct FiveSources {
  Conv<2, 2> first, second;
  hg::Conv2d<10, 2, hg::Kernel<1>> last;
  hg::ReLU relu;
  template <class X>
  constexpr X forward(X x) const {
    const X a = first(x), b = second(a);
    return last(hg::concat(hg::concat(a, relu(b)), hg::concat(x, hg::concat(b, relu(x)))));
  }
};

/// One tensor twice side by side, and a convolution that nobody reads: its gradient is 0.
struct TwiceAndUnused {
  Conv<2, 2> first, unused;
  Conv<4, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X a = first(x);
    unused(a);
    return last(hg::concat(a, a));
  }
};

}  // namespace

TEST_CASE("ReLU of the input, ReLU as the output") { support::check_composition<ReluOfInput, 2, 3, true>(); }
TEST_CASE("a convolution read raw and through ReLU, a concatenation as the output") {
  support::check_composition<RawAndRelu, 2, 7, true>();
}
TEST_CASE("five sources, three samples") { support::check_composition<FiveSources, 2, 2, true>({3, 11, 12}); }
TEST_CASE("one tensor twice, and a layer that nobody reads") {
  support::check_composition<TwiceAndUnused, 2, 2, true>();
}

}  // namespace test_compositions
