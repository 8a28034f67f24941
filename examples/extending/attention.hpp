// Attention over all points of a field that is cut in any way: three 1 x 1 convolutions, and a function of the array
// language. Keys and values go round the ranks that share a sample.
#pragma once

#include <halogen/halogen.hpp>

/// (N, C, H, W) of query, key and value, each channel a feature of one of Heads heads.
template <int Heads>
struct Attend {
  template <class Field>
  static auto tokens(const Field& field) {  // (N, Heads, H W, C / Heads): a rank's points are its part of the sequence
    return hg::transpose<2, 3>(hg::unflatten<1>(hg::flatten_pieces<2, 3>(field), Heads, -1));
  }

  template <class Query, class Key, class Value>
  auto operator()(const Query& query, const Key& key, const Value& value) const {
    const auto seen = hg::scaled_dot_product_attention(tokens(query), tokens(key), tokens(value));
    return hg::unflatten_pieces<2, 3>(hg::flatten<1, 2>(hg::transpose<2, 3>(seen)), query);
  }
};

template <int Channels, int Heads>
struct SelfAttention : hg::Module<SelfAttention<Channels, Heads>> {
  hg::Conv2d<Channels, Channels> query, key, value, project;

  template <class X>
  constexpr X forward(X x) const {
    return project(hg::Function<Attend<Heads>>{}(query(x), key(x), value(x)));
  }
};
