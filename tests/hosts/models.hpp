// The models that the tests of hosts export, and that a C++ program computes beside them.
#pragma once

#include <halogen/network.hpp>
#include <tuple>

namespace hosts {

/// A field to a field: halos, norms over all ranks, two levels.
using Small = hg::UNet<3, 2, 4, hg::Boundary<hg::Zero, hg::Periodic>, 2, 2>;

struct Product {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return a * b;
  }
};

/// Three inputs of three kinds, and two outputs: a signal and a vector of each sample.
struct Several : hg::Module<Several> {
  using inputs = std::tuple<hg::FieldInput<2>, hg::VectorInput<1>, hg::FieldInput<1, hg::Indices>>;
  hg::Conv1d<2, 6, hg::Kernel<3>, hg::Padding<1>> first;
  hg::TimeEmbedding<8> time;
  hg::Linear<8, 6> scale;
  hg::Embedding<5, 6> kinds;
  hg::Map<Product> times;
  hg::Conv1d<6, 3, hg::Kernel<3>, hg::Padding<1>> last;
  hg::GlobalAvgPool pool;
  constexpr auto forward(hg::Traced x, hg::Traced t, hg::TracedIndices kind) const {
    const hg::Traced h = first(x) + kinds(kind);
    return std::tuple{last(times(h, hg::expand(hg::SiLU{}(scale(time(t))), h))), pool(h)};
  }
};

}  // namespace hosts
