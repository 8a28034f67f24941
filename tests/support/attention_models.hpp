// Networks of attention that several tests compare on meshes: with a bias or a mask of keys, a table of distances,
// tokens.
#pragma once

#include <type_traits>

#include <halogen/halogen.hpp>

namespace support {

/// A bias that the network makes, one for each head; grouped queries, turned; beside windows of the field.
template <int Heads = 4, int KeyHeads = 2, class... Options>
struct Between : hg::Module<Between<Heads, KeyHeads, Options...>> {
  static constexpr int channels = 4 * Heads;
  using Attention = hg::MultiheadAttention<channels, Heads, hg::KeyValueHeads<KeyHeads>, hg::Rotary<2>, Options...>;
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"first", hg::Conv2d<2, channels, hg::Kernel<3>, hg::Padding<1>>> first;
    constexpr hg::Named<"bias", hg::Conv2d<2, Heads>> bias;
    constexpr hg::Named<"block", hg::TransformerBlock<channels, Attention>> block;
    constexpr hg::Named<"last", hg::Conv2d<channels, 2, hg::Kernel<3>, hg::Padding<1>>> last;
    return last(block(first(x), hg::KeyBias{bias(x)}));
  }
};
template <int Channels, int Heads, class... Options>
using Relative = hg::Sequential<hg::Conv2d<2, Channels>,
                                hg::MultiheadAttention<Channels, Heads, hg::RelativeBias<14, 13>, Options...>,
                                hg::Conv2d<Channels, 2>>;

/// Two tokens beside points of which some are hidden, or whose logits are changed; grouped heads.
template <class Term, class... Options>
struct Told : hg::Module<Told<Term, Options...>> {
  using Attention = hg::MultiheadAttention<16, 4, hg::KeyValueHeads<2>, hg::Rotary<2>, Options...>;
  hg::Named<"first", hg::Conv2d<2, 16>> first;
  hg::Named<"term", hg::Conv2d<2, std::is_same_v<Term, hg::KeyMask> ? 1 : 4>> term;
  hg::Named<"block", hg::TransformerBlock<16, Attention>> block;
  hg::Named<"register", hg::ClassToken<16>> register_token;
  hg::Named<"last", hg::Conv2d<16, 2>> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    const Term told{hg::ReLU{}(term(x))};  // half of the points, or logits of 0 and more
    const auto seen = block(first(x), told, hg::ClassToken<16>::part(x), register_token(x));
    return last(seen[0]) + hg::expand(hg::Linear<16, 2>{}(seen[1] + seen[2]), x);
  }
};

}  // namespace support
