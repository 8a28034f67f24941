// DiffusionUNet: the U-Net of diffusion models (Ho et al., 2020; Dhariwal and Nichol, 2021). The noise level of x is an
// input. The network consists of residual blocks. An embedding of the noise level scales and shifts the second norm of
// each block.
//
//   x: (N, In, H, W), conditions: (N, Conditions, H, W) if there are any, noise level: (N, 1) -> y: (N, Out, H, W)
//   any H, W >= 2^(Levels - 1). The levels have Base, 2 Base, 4 Base and so on channels. Groups divides Base, Base is
//   even. Placements in and out: Shard<0>, Shard<2>, Shard<3>, Replicate; the noise level: Shard<0>, Replicate.
//   Collectives: those of its layers.
//
// The sampler defines the noise level: hg::EDM (train/diffusion.hpp) gives ln(sigma) / 4.
#pragma once

#include "halogen/graph/traced_inputs.hpp"
#include "halogen/layers/activations/silu.hpp"
#include "halogen/layers/avg_pool2d.hpp"
#include "halogen/layers/conv2d.hpp"
#include "halogen/layers/expand.hpp"
#include "halogen/layers/functions/map.hpp"
#include "halogen/layers/group_norm.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/residual.hpp"
#include "halogen/layers/time_embedding.hpp"

namespace halogen {

/// (1 + scale) x + shift, followed by SiLU. scale and shift are vectors of each sample (FiLM: Perez et al., 2018).
struct ModulatedSiLU {
  template <class T>
  KOKKOS_FUNCTION T operator()(T x, T scale, T shift) const {
    using Kokkos::exp;
    const T y = (T(1) + scale) * x + shift, small = exp(y > T(0) ? -y : y);  // it never overflows
    return (y > T(0) ? y : y * small) / (T(1) + small);
  }
};

/// x: (N, In, H, W), embedding: (N, Embedding) -> (N, Out, H, W): x plus two convolutions of x, each after a norm and
/// SiLU. If In is not Out, a 1 x 1 convolution takes x to Out channels.
template <int In, int Out, int Embedding, class Edges, int Groups = 8>
struct DiffusionBlock : Module<DiffusionBlock<In, Out, Embedding, Edges, Groups>> {
  template <int From>
  using Window = Conv2d<From, Out, Kernel<3>, Padding<1>, Edges>;

  constexpr Traced forward(Traced x, Traced embedding) const {
    constexpr Named<"norm1", GroupNorm<Groups, In>> norm1;
    constexpr Named<"conv1", Window<In>> conv1;
    constexpr Named<"scale", Linear<Embedding, Out>> scale;
    constexpr Named<"shift", Linear<Embedding, Out>> shift;
    constexpr Named<"norm2", GroupNorm<Groups, Out>> norm2;
    constexpr Named<"conv2", Window<Out>> conv2;
    const Traced h = norm2(conv1(SiLU{}(norm1(x))));
    const Traced by = expand(scale(embedding), h), more = expand(shift(embedding), h);
    const Traced y = conv2(Map<ModulatedSiLU>{}(h, by, more));
    if constexpr (In == Out)
      return y + x;
    else
      return y + Named<"skip", Conv2d<In, Out>>{}(x);
  }
};

namespace detail {

/// A level of Width channels and those below it.
template <int In, int Width, int Embedding, class Edges, int Groups, int Levels>
struct DiffusionLevel : Module<DiffusionLevel<In, Width, Embedding, Edges, Groups, Levels>> {
  template <int From>
  using Block = DiffusionBlock<From, Width, Embedding, Edges, Groups>;

  constexpr Traced forward(Traced x, Traced embedding) const {
    const Traced h = Named<"down", Block<In>>{}(x, embedding);
    if constexpr (Levels == 1) {
      return Named<"middle", Block<Width>>{}(h, embedding);
    } else {
      constexpr Named<"inner", DiffusionLevel<Width, 2 * Width, Embedding, Edges, Groups, Levels - 1>> inner;
      const Traced below = inner(AvgPool2d<2>{}(h), embedding);
      return Named<"up", Block<3 * Width>>{}(concat(h, upsample_to<Nearest>(below, h)), embedding);
    }
  }
};

template <int In, int Conditions>
struct diffusion_inputs {
  using type = std::tuple<FieldInput<In>, FieldInput<Conditions, WithoutGradient>, VectorInput<1, WithoutGradient>>;
};
template <int In>
struct diffusion_inputs<In, 0> {
  using type = std::tuple<FieldInput<In>, VectorInput<1, WithoutGradient>>;
};

}  // namespace detail

template <int In, int Out, int Base = 32, class Edges = Boundary<Zero, Zero>, int Conditions = 0, int Groups = 8,
          int Levels = 3>
struct DiffusionUNet : Module<DiffusionUNet<In, Out, Base, Edges, Conditions, Groups, Levels>> {
  static_assert(Levels >= 2, "a U-Net has at least two levels");
  static_assert(Edges::dimensions == 2, "DiffusionUNet has a Boundary of two edges: height, width");
  using inputs = typename detail::diffusion_inputs<In, Conditions>::type;
  static constexpr int embedding = 4 * Base;

  constexpr Traced forward(Traced x, Traced noise_level) const { return from(x, noise_level); }
  constexpr Traced forward(Traced x, Traced conditions, Traced noise_level) const {
    return from(concat(x, conditions), noise_level);
  }

 private:
  static constexpr Traced from(Traced x, Traced noise_level) {
    constexpr Named<"time",
                    Sequential<TimeEmbedding<Base>, Linear<Base, embedding>, SiLU, Linear<embedding, embedding>, SiLU>>
        time;
    constexpr Named<"input", Conv2d<In + Conditions, Base, Kernel<3>, Padding<1>, Edges>> input;
    constexpr Named<"levels", detail::DiffusionLevel<Base, Base, embedding, Edges, Groups, Levels>> levels;
    constexpr Named<"norm", GroupNorm<Groups, Base>> norm;
    constexpr Named<"output", Conv2d<Base, Out, Kernel<3>, Padding<1>, Edges>> output;
    const Traced embedded = time(noise_level), h = input(x);
    return output(SiLU{}(norm(levels(h, embedded))));
  }
};

}  // namespace halogen
