// Graphs of layers drawn at run time, so many and so strange as no test spells out: each plan of them computes what the
// graph says, its gradients are those of finite differences, and it keeps its word on the way
// (support/plan_interpreter.hpp). What fails is printed with its seed and the script of its graph.
#ifndef _GLIBCXX_ASSERTIONS
#define _GLIBCXX_ASSERTIONS  // an index of the planner beyond an array aborts
#endif
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "halogen/core/philox.hpp"
#include "halogen/layers/activations/gelu.hpp"
#include "halogen/layers/activations/leaky_relu.hpp"
#include "halogen/layers/activations/relu.hpp"
#include "halogen/layers/activations/silu.hpp"
#include "halogen/layers/activations/softmax.hpp"
#include "halogen/layers/activations/tanh.hpp"
#include "halogen/layers/adaptive_max_pool.hpp"
#include "halogen/layers/attention/neighborhood_attention.hpp"
#include "halogen/layers/avg_pool2d.hpp"
#include "halogen/layers/batch_norm.hpp"
#include "halogen/layers/chunk.hpp"
#include "halogen/layers/class_token.hpp"
#include "halogen/layers/conv2d.hpp"
#include "halogen/layers/conv_transpose2d.hpp"
#include "halogen/layers/crop.hpp"
#include "halogen/layers/expand.hpp"
#include "halogen/layers/functions/function.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/group_norm.hpp"
#include "halogen/layers/interpolate.hpp"
#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/linear.hpp"
#include "halogen/layers/local_response_norm.hpp"
#include "halogen/layers/max_pool2d.hpp"
#include "halogen/layers/pad.hpp"
#include "halogen/layers/pixel_shuffle.hpp"
#include "halogen/layers/residual.hpp"
#include "halogen/layers/upsample.hpp"
#include "support/own_layers.hpp"
#include "support/plan_interpreter.hpp"

#include "../../examples/extending/field_norm.hpp"

namespace test_random_plans {

namespace hg = halogen;

namespace {

using support::expect;
using support::Field;
using support::Parameters;
using support::Row;

constexpr int graphs = 5000, most_layers = 13, most_failures = 20;
constexpr int input_channels = 8, input_points = 8;
constexpr int most_channels = 32, most_points = 16;  // of a concatenation, of what an upsampling makes

class Draw {
 public:
  explicit Draw(int seed) : seed_(static_cast<std::uint64_t>(seed)) {}

  double unit() { return hg::uniform_at(seed_, 0, drawn_++); }
  double number() { return 2 * unit() - 1; }
  int below(int end) { return static_cast<int>(unit() * end); }
  bool coin() { return below(2) == 1; }

  /// Numbers in the shape of `like`.
  Field numbers(Field like) {
    for (Row& row : like)
      for (double& value : row) value = number();
    return like;
  }

 private:
  std::uint64_t seed_, drawn_ = 0;
};

/// Maps of one value, of two and of three, with and without parameters.
struct Bend {
  template <class T>
  T operator()(T u) const {
    return u + T(0.25) * u * u;
  }
};
struct Gate {
  static constexpr hg::ChannelParameter parameters[] = {{"scale"}, {"shift"}};
  template <class T>
  T operator()(T a, T b, T scale, T shift) const {
    return scale * a * (b + shift);
  }
};

struct Modulate {
  template <class T>
  T operator()(T u, T scale, T shift) const {
    return (scale + T(1)) * u + shift * shift;
  }
};

/// Functions of fields; what they are of is in support::FieldsJoined.
struct Joined {};

/// Layers of a user's own.
struct OwnLayer {
  const char* name;
  hg::Traced (*call)(hg::Traced x);
};
constexpr OwnLayer own_layers[] = {
    {"field_norm", [](hg::Traced x) { return FieldNorm{}(x); }},
    {"same", [](hg::Traced x) { return support::Same<support::WritesItself>{}(x); }},
};
/// What they are defined to be, and what their launches write.
void define_own_layers() {
  using Run = support::PlanRun;
  const auto rate = [](const Field& x) {
    double sum = 0, values = 0;
    for (const Row& row : x) sum += (row * row).sum(), values += static_cast<double>(row.size());
    return std::pair(1 / std::sqrt(sum / values + 1e-6), values);
  };
  const auto norm = [rate](Field x) {
    const double r = rate(x).first;
    for (Row& row : x) row *= r;
    return x;
  };
  support::definitions()[&FieldNorm::operation] = [norm](const hg::Node&, const Parameters&,
                                                         const std::vector<Field>& x) { return norm(x[0]); };
  Run::computed_by()[hg::kind_of<FieldNormLaunch<false>>()] = [norm](Run& run) { return norm(run.operand(0)); };
  Run::computed_by()[hg::kind_of<FieldNormLaunch<true>>()] = [rate](Run& run) {
    const Field x = run.operand(0);
    Field g = run.operand(1);
    const auto [r, values] = rate(x);
    double product = 0;
    for (std::size_t c = 0; c < x.size(); ++c) product += (x[c] * g[c]).sum();
    for (std::size_t c = 0; c < x.size(); ++c) g[c] = r * (g[c] - x[c] * (r * r * product / values));
    return run.of_source(g);
  };
  support::definitions()[&support::Same<support::WritesItself>::operation] =
      [](const hg::Node&, const Parameters&, const std::vector<Field>& x) { return x[0]; };
  Run::computed_by()[hg::kind_of<support::WritesItself<false>>()] = [](Run& run) { return run.operand(0); };
  Run::computed_by()[hg::kind_of<support::WritesItself<true>>()] = [](Run& run) {
    return run.of_source(run.operand(0));
  };
}

/// f.operator()<C>() for the C channels of a value, which its layers have in their types.
template <class F>
hg::Traced with_channels(hg::Traced x, F f) {
  const int channels = (*x).channels;
  if (channels == 8) return f.template operator()<8>();
  if (channels == 16) return f.template operator()<16>();
  if (channels == 24) return f.template operator()<24>();
  return f.template operator()<most_channels>();
}

/// A 3 x 3 window of these channels sums its weights' gradient beside its input's
/// (layers/convolution/winograd_windows.hpp).
hg::Traced convolution(hg::Traced x, bool wide, bool bias) {
  return with_channels(x, [&]<int C>() {
    using Window = hg::Kernel<3>;
    if (wide && bias) return hg::Conv2d<C, 8, Window, hg::Padding<1>>{}(x);
    if (wide) return hg::Conv2d<C, 8, Window, hg::Padding<1>, hg::Bias<false>>{}(x);
    if (bias) return hg::Conv2d<C, 8>{}(x);
    return hg::Conv2d<C, 8, hg::Bias<false>>{}(x);
  });
}

hg::Traced linear(hg::Traced x, bool bias) {
  return with_channels(x, [&]<int C>() {
    if (bias) return hg::Linear<C, 8>{}(x);
    return hg::Linear<C, 8, hg::Bias<false>>{}(x);
  });
}

hg::Traced group_norm(hg::Traced x, bool single) {
  return with_channels(x, [&]<int C>() { return single ? hg::GroupNorm<1, C>{}(x) : hg::GroupNorm<4, C>{}(x); });
}

/// In units of the batch, with and without gamma and beta, of each channel, and of each point.
hg::Traced other_norm(hg::Traced x, int kind) {
  return with_channels(x, [&]<int C>() {
    using One = std::ratio<1>;
    if (kind == 0) return hg::BatchNorm<C>{}(x);
    if (kind == 1) return hg::BatchNorm<C, One, One, hg::Affine<false>>{}(x);
    if (kind == 2) return hg::InstanceNorm<C>{}(x);
    return hg::RMSNorm<C>{}(x);
  });
}

/// A graph and how it came about.
class RandomGraph {
 public:
  explicit RandomGraph(Draw& draw) : draw_(draw) {
    values_.push_back(hg::Traced{&graph_, 0});
    const int steps = 2 + draw_.below(most_layers - 1);
    for (int i = 0; i < steps || values_.size() == 1; ++i) {
      freeze(draw_.below(6) == 0 ? 1 + draw_.below(3) : 0);
      step();
    }
    freeze(0);
    graph_.output[0] = values_.back().node;
    graph_.outputs = draw_.below(3) == 0 ? 2 + draw_.below(2) : 1;
    for (int i = 1; i < graph_.outputs; ++i) graph_.output[i] = values_[1 + draw_.below(count() - 1)].node;
    for (int i = 0; i < graph_.outputs; ++i)
      script_ += (i == 0 ? "; returns " : ", ") + std::to_string(graph_.output[i]);
  }
  RandomGraph(const RandomGraph&) = delete;  // values point into the graph

  const hg::GraphDraft& graph() const { return graph_; }
  const std::string& script() const { return script_; }

 private:
  void step() {
    const int at = draw_.below(3) > 0 ? recent() : draw_.below(count());
    const hg::Traced x = values_[at];
    switch (draw_.below(34)) {
      case 0:
      case 1: {
        const bool wide = draw_.coin() && !is_vector(at), bias = draw_.coin();
        const std::string name = wide ? "conv3x3" : "conv1x1";
        return keep(bias ? name : name + "_without_bias", {at}, convolution(x, wide, bias));
      }
      case 2:
      case 3:
        return activation(at);
      case 4:
      case 5: {
        const bool single = draw_.coin();
        if (is_vector(at)) return;
        return keep(single ? "norm1" : "norm4", {at}, group_norm(x, single));
      }
      case 6:
        return pool(at);
      case 7:
        return upsample(at);
      case 8:
        return upsample_to_skip(at);
      case 9:
        switch (draw_.below(3)) {
          case 0:
            return keep("softmax", {at}, hg::Softmax{}(x));
          case 1:
            return keep("local_response", {at}, hg::LocalResponseNorm<4, std::ratio<2>>{}(x));
          default:
            return;
        }
      case 10:
        return sum_of_a_sum(at);
      case 12:
        return map(at);
      case 13:
        return concat(at);
      case 14:
        return pad(at);
      case 15:
        return pooled_block(at);
      case 16:
      case 17:
        return vector_of(at);
      case 18:
        return expand(at);
      case 19: {
        const bool bias = draw_.coin();
        return keep(bias ? "linear" : "linear_without_bias", {at}, linear(x, bias));
      }
      case 20:
        return interpolate(at);
      case 21:
        return keep("layer_norm", {at}, with_channels(x, [&]<int C>() { return hg::LayerNorm<C>{}(x); }));
      case 22:
        return chunk(at);
      case 23:
        keep("class_token", {at}, hg::ClassToken<8>{}(x));
        if (draw_.coin()) keep("linear", {count() - 1}, linear(values_.back(), true));
        return;
      case 24:
        return shared(at);
      case 25:
      case 26: {
        const int kind = draw_.below(4);
        constexpr const char* names[] = {"batch_norm", "batch_norm_without_affine", "instance_norm", "rms_norm"};
        if (kind == 3 || !is_vector(at)) keep(names[kind], {at}, other_norm(x, kind));
        return;
      }
      case 27:
        return move(at);
      case 28:
        return other_convolution(at);
      case 29:
        return attend(at);
      case 30:
        return function(at);
      case 31:
        if (is_vector(at)) return;
        if (draw_.coin()) return keep("global_max_pool", {at}, hg::GlobalMaxPool{}(x));
        return keep("adaptive_max_pool5", {at}, hg::AdaptiveMaxPool2d<5>{}(x));
      case 32: {
        const OwnLayer& own = own_layers[draw_.below(static_cast<int>(std::size(own_layers)))];
        if (!is_vector(at)) keep(own.name, {at}, own.call(x));
        return;
      }
      default:
        return add(at);
    }
  }

  int count() const { return static_cast<int>(values_.size()); }
  int recent() { return count() - 1 - draw_.below(std::min(3, count())); }
  int points(int at) const { return support::points_of_levels(graph_, input_points)[(*values_[at]).level]; }

  void keep(const std::string& layer, std::initializer_list<int> of, hg::Traced result) {
    script_ += " v" + std::to_string(count()) + " = " + layer + "(";
    for (const int value : of) script_ += (script_.back() == '(' ? "v" : ", v") + std::to_string(value);
    script_ += ");";
    values_.push_back(result);
  }

  void pool(int at) {
    if (points(at) % 2 != 0 || points(at) < 4) return;
    const hg::Traced x = values_[at];
    switch (draw_.below(4)) {
      case 0:
        return keep("max_pool", {at}, hg::MaxPool2d<2>{}(x));
      case 1:
        return keep("avg_pool", {at}, hg::AvgPool2d<2>{}(x));
      case 2:
        return keep("max_pool_of_level", {at}, hg::MaxPool2d<3, hg::Stride<1>, hg::Padding<1>>{}(x));
      default:
        return keep("avg_pool_overlapping", {at}, hg::AvgPool2d<3, hg::Stride<2>, hg::Padding<1>>{}(x));
    }
  }

  /// An encoder's step: a convolution, norm and activation or not, a pool, and who reads that.
  void pooled_block(int at) {
    if (points(at) % 2 != 0 || points(at) < 4) return;
    const auto last = [&] { return count() - 1; };
    keep("conv3x3", {at}, convolution(values_[at], true, true));
    if (draw_.coin()) keep("norm4", {last()}, group_norm(values_.back(), false));
    if (draw_.below(3) > 0) activation(last());
    keep("max_pool", {last()}, hg::MaxPool2d<2>{}(values_.back()));
    const int pool = last();
    if (draw_.coin()) activation(pool);
    keep("conv3x3", {last()}, convolution(values_.back(), true, true));
    if (draw_.below(3) == 0) keep("conv1x1", {pool}, convolution(values_[pool], false, true));
  }

  void activation(int at) {
    const hg::Traced x = values_[at];
    switch (draw_.below(8)) {
      case 6:
        return keep("silu", {at}, hg::SiLU{}(x));
      case 7:
        return keep("tanh", {at}, hg::Tanh{}(x));
      case 0:
        return keep("gelu", {at}, hg::GELU{}(x));
      case 1:
        return keep("leaky_relu", {at}, hg::LeakyReLU<std::ratio<1, 5>>{}(x));
      case 2:
        return keep("leakier_relu", {at}, hg::LeakyReLU<std::ratio<1, 2>>{}(x));
      default:
        return keep("relu", {at}, hg::ReLU{}(x));
    }
  }

  void upsample(int at) {
    if (2 * points(at) > most_points || is_vector(at)) return;
    const hg::Traced x = values_[at];
    switch (draw_.below(4)) {
      case 0:
        return keep("nearest2", {at}, hg::Upsample<2, hg::Nearest>{}(x));
      case 1:
        return keep("bilinear2", {at}, hg::Upsample<2, hg::Bilinear>{}(x));
      case 2:
        return keep("nearest1", {at}, hg::Upsample<1, hg::Nearest>{}(x));
      default:
        return keep("bilinear1", {at}, hg::Upsample<1, hg::Bilinear>{}(x));
    }
  }

  bool is_vector(int at) const { return graph_.levels[(*values_[at]).level].whole; }

  /// The mean, and half of the time a vector more that is made of it.
  void vector_of(int at) {
    if (is_vector(at)) return;
    keep("global_avg_pool", {at}, hg::GlobalAvgPool{}(values_[at]));
    if (draw_.coin()) keep("linear", {count() - 1}, linear(values_.back(), true));
    if (draw_.coin()) activation(count() - 1);
  }
  /// A vector, if there is one, where some value has points.
  void expand(int at) {
    if (is_vector(at)) return;
    const int vector = drawn([&](int i) { return is_vector(i); });
    if (vector >= 0) keep("expand", {vector, at}, hg::expand(values_[vector], values_[at]));
  }
  void interpolate(int at) {
    if (is_vector(at)) return;
    const hg::Traced x = values_[at];
    switch (draw_.below(4)) {
      case 0:
        return keep("bicubic7", {at}, hg::Interpolate<hg::Size<7, 7>, hg::Bicubic>{}(x));
      case 1:
        return keep("adaptive_avg_pool5", {at}, hg::AdaptiveAvgPool2d<5>{}(x));
      case 2:
        return keep("antialias3", {at}, hg::Interpolate<hg::Size<3, 3>, hg::Bilinear, hg::Antialias<>>{}(x));
      default: {
        const int like = draw_.below(count());
        if (!is_vector(like))
          keep("corners_to", {at, like}, hg::interpolate_to<hg::Bilinear, hg::AlignCorners<>>(x, values_[like]));
      }
    }
  }

  /// Points or channels that change places.
  void move(int at) {
    const hg::Traced x = values_[at];
    if (is_vector(at)) return;
    switch (draw_.below(4)) {
      case 0:
        return keep("roll", {at}, hg::Roll2d<1, -2>{}(x));
      case 1:
        if (points(at) > 4) keep("crop", {at}, hg::Crop2d<0, 1, 2, 1>{}(x));
        return;
      case 2:
        if ((*x).channels == most_channels && 2 * points(at) <= most_points)
          keep("pixel_shuffle", {at}, hg::PixelShuffle<2>{}(x));
        return;
      default:
        if ((*x).channels == 8 && points(at) % 2 == 0) keep("pixel_unshuffle", {at}, hg::PixelUnshuffle<2>{}(x));
    }
  }
  /// With strides, of each channel alone, transposed, of what is reflected.
  void other_convolution(int at) {
    const hg::Traced x = values_[at];
    if (is_vector(at) || (*x).channels != 8) return;
    using hg::Conv2d, hg::Kernel, hg::Stride, hg::Padding;
    switch (draw_.below(5)) {
      case 0:
        if (points(at) >= 4) keep("strided", {at}, Conv2d<8, 16, Kernel<3>, Stride<2>, Padding<1>>{}(x));
        return;
      case 1: {
        using Ring = hg::Boundary<hg::Periodic, hg::Periodic>;
        if (points(at) >= 4) keep("strided_ring", {at}, Conv2d<8, 16, Kernel<3>, Stride<2>, Padding<2>, Ring>{}(x));
        return;
      }
      case 2:
        return keep("depthwise", {at}, Conv2d<8, 8, Kernel<3>, Padding<1>, hg::Groups<8>>{}(x));
      case 3:
        if (2 * points(at) <= most_points)
          keep("transposed", {at}, hg::ConvTranspose2d<8, 8, Kernel<2>, Stride<2>>{}(x));
        return;
      default:
        if (points(at) < 2) return;
        keep("reflecting", {at},
             Conv2d<8, 24, Kernel<3>, Padding<1>, hg::Boundary<hg::Reflect, hg::ReplicateEdge>>{}(x));
    }
  }
  /// Queries, keys and values by a convolution, where there are none.
  void attend(int at) {
    if (is_vector(at) || points(at) < 3) return;
    if ((*values_[at]).channels == 8) {
      keep("qkv", {at}, hg::Conv2d<8, 24>{}(values_[at]));
      at = count() - 1;
    }
    if ((*values_[at]).channels != 24) return;
    keep("attend", {at}, hg::NeighborhoodAttend2d<2, hg::Kernel<3>>{}(values_[at]));
  }
  /// Of one value, of two, of a map and a vector, of two resolutions, to a vector.
  void function(int at) {
    if (is_vector(at)) return;
    const hg::Traced x = values_[at];
    const auto of_channels = [&](bool vectors) {
      return drawn([&](int i) { return is_vector(i) == vectors && (*values_[i]).channels == (*x).channels; });
    };
    switch (draw_.below(5)) {
      case 0:
        return keep("function", {at}, hg::Function<Joined>{}(x));
      case 1: {
        const int other = partner(at, [&](int others) { return others == (*x).channels; });
        return keep("function", {at, other}, hg::Function<Joined>{}(x, values_[other]));
      }
      case 2:
        if (const int vector = of_channels(true); vector >= 0)
          keep("function", {vector, at}, hg::Function<Joined, hg::TakesVectors<0>>{}(values_[vector], x));
        return;
      case 3: {
        const int other = of_channels(false);
        return keep("function", {at, other}, hg::Function<Joined, hg::TakesAnyResolution<1>>{}(x, values_[other]));
      }
      default:
        return keep("function_to_vector", {at}, hg::Function<Joined, hg::ToVector>{}(x));
    }
  }

  /// Parts of a multiple of 8 channels.
  void chunk(int at) {
    const hg::Traced x = values_[at];
    switch ((*x).channels) {
      case 16:
        return draw_.coin() ? keep("chunk0of2", {at}, hg::Chunk<0, 2>{}(x))
                            : keep("chunk1of2", {at}, hg::Chunk<1, 2>{}(x));
      case 24:
        return keep("chunk2of3", {at}, hg::Chunk<2, 3>{}(x));
      case most_channels:
        return keep("chunk1of2", {at}, hg::Chunk<1, 2>{}(x));
      default:
        return;
    }
  }

  /// Of the layers that come 0: nothing, 1: all, 2: the weights, 3: what is no weight.
  void freeze(int kind) {
    static constexpr bool (*chosen[])(std::string_view) = {
        [](std::string_view) { return true; }, [](std::string_view name) { return name.ends_with("weight"); },
        [](std::string_view name) { return !name.ends_with("weight"); }};
    graph_.frozen = {};
    if (kind > 0) graph_.frozen.push({chosen[kind - 1], 1});
    if (kind > 0 && kind != frozen_) script_ += " frozen" + std::to_string(kind) + ":";
    frozen_ = kind;
  }

  /// Layers that have been called before, by their names: trained or not as then.
  void shared(int at) {
    if ((*values_[at]).channels != 8) return;
    const int frozen = frozen_;
    freeze(shared_frozen_ < 0 ? frozen : shared_frozen_);
    shared_frozen_ = frozen_;
    const bool norms = draw_.coin() && !is_vector(at);
    if (draw_.coin() || norms) {
      keep("shared_linear", {at}, hg::Named<"linear", hg::Linear<8, 8>>{}(values_[at]));
    } else {
      keep("shared_layer_norm", {at}, hg::Named<"layer_norm", hg::LayerNorm<8>>{}(values_[at]));
    }
    if (norms) keep("shared_norm4", {count() - 1}, hg::Named<"norm", hg::GroupNorm<4, 8>>{}(values_.back()));
    freeze(frozen);
  }

  void pad(int at) {
    if (points(at) < 2 || points(at) + 4 > most_points) return;
    switch (draw_.below(3)) {
      case 0:
        return keep("reflect1", {at}, hg::ReflectionPad2d<1>{}(values_[at]));
      case 1:
        return keep("circular2", {at}, hg::CircularPad2d<2>{}(values_[at]));
      default:
        keep("replicate2", {at}, hg::ReplicationPad2d<2>{}(values_[at]));
    }
  }

  void upsample_to_skip(int at) {
    const int like = draw_.below(count());
    if (is_vector(at) || is_vector(like)) return;
    graph_.skips.push(values_[like].node);
    if (draw_.coin())
      keep("bilinear_to_skip", {at, like}, hg::UpsampleToSkip<hg::Bilinear>{}(values_[at]));
    else
      keep("nearest_to_skip", {at, like}, hg::UpsampleToSkip<hg::Nearest>{}(values_[at]));
    graph_.skips.pop();
  }

  /// A value with which `fits` holds; -1: none.
  template <class Fits>
  int partner(int at, Fits fits) {
    return drawn([&](int i) { return (*values_[i]).level == (*values_[at]).level && fits((*values_[i]).channels); });
  }
  /// One of the values that fit, -1: there is none.
  template <class Fits>
  int drawn(Fits fits) {
    std::vector<int> fitting;
    for (int i = 0; i < count(); ++i)
      if (fits(i)) fitting.push_back(i);
    return fitting.empty() ? -1 : fitting[draw_.below(static_cast<int>(fitting.size()))];
  }

  void add(int at) {
    const int channels = (*values_[at]).channels;
    const int other = partner(at, [&](int others) { return others == channels; });
    join("add", hg::add, at, other);
  }
  /// A function between: the terms of the second sum share one gradient, which only the first is to multiply.
  void sum_of_a_sum(int at) {
    add(at);
    activation(count() - 1);
    add(count() - 1);
    keep("conv1x1", {count() - 1}, convolution(values_.back(), false, true));
  }
  /// Half of them behind convolutions and before one, which computes the map as it reads.
  void map(int at) {
    const int channels = (*values_[at]).channels;
    const auto fits = [&](int others) { return others == channels; };
    const int kind = draw_.below(4);
    if (kind == 0) return keep("bend", {at}, hg::Map<Bend>{}(values_[at]));
    if (kind == 1) {
      const int scale = partner(at, fits), shift = partner(at, fits);
      keep("modulate", {at, scale, shift}, hg::Map<Modulate>{}(values_[at], values_[scale], values_[shift]));
    } else {
      join(
          "gate", [](hg::Traced a, hg::Traced b) { return hg::Map<Gate>{}(a, b); }, at, partner(at, fits));
    }
    if (draw_.coin()) keep("conv1x1", {count() - 1}, convolution(values_.back(), false, true));
  }
  void concat(int at) {
    const int channels = (*values_[at]).channels;
    const int other = partner(at, [&](int others) { return others + channels <= most_channels; });
    if (other >= 0) join("concat", hg::concat, at, other);
  }
  void join(const char* layer, hg::Traced (*of)(hg::Traced, hg::Traced), int first, int second) {
    if (draw_.coin()) std::swap(first, second);
    keep(layer, {first, second}, of(values_[first], values_[second]));
  }

  Draw& draw_;
  hg::GraphDraft graph_{input_channels};
  std::vector<hg::Traced> values_;
  std::string script_;
  int frozen_ = 0;          ///< of the layers that come: see freeze()
  int shared_frozen_ = -1;  ///< frozen as the shared layers are; -1: none has been called
};

double dot(const Field& x, const Field& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += (x[i] * y[i]).sum();
  return sum;
}

using Fields = std::vector<Field>;
double dot(const Fields& x, const Fields& y) {
  double sum = 0;
  for (std::size_t i = 0; i < x.size(); ++i) sum += dot(x[i], y[i]);
  return sum;
}

Field moved(Field x, const Field& direction, double step) {
  for (std::size_t i = 0; i < x.size(); ++i) x[i] += step * direction[i];
  return x;
}

bool are_close(double a, double b) { return std::abs(a - b) < 1e-4 * (1 + std::abs(a) + std::abs(b)); }

/// The derivative at 0 by differences; none where two steps disagree: something is clipped between them.
template <class F>
std::optional<double> slope(F loss) {
  const auto over = [&](double step) { return (loss(step) - loss(-step)) / (2 * step); };
  const double result = over(1e-6);
  if (!are_close(result, over(1e-7))) return {};
  return result;
}

Parameters draw_parameters(const hg::GraphDraft& graph, Draw& draw) {
  Parameters parameters;
  for (const hg::ParameterShape& shape : graph.parameters) {
    const int inputs = shape.rank > 1 ? shape.shape[1] : 1;
    const int values =
        shape.rank == 3 ? static_cast<int>(shape.count) : shape.shape[0] * inputs;  // one tap of a window
    parameters.push_back(draw.numbers(Field{Row(values)})[0] / std::sqrt(inputs));
    if (shape.start == hg::ParameterShape::Start::ones)  // about 1 or -1
      for (double& gamma : parameters.back())
        gamma = (draw.coin() || shape.buffer ? 1 : -1) * (1 + 0.3 * gamma);  // a buffer may be a variance
  }
  return parameters;
}

/// Numbers for a graph, and what it makes of them by its definition.
struct Sample {
  Sample(const hg::GraphDraft& of, Draw& draw) : graph(of) {
    parameters = draw_parameters(graph, draw);
    input = draw.numbers(Field(input_channels, Row(input_points)));
    outputs = support::run_graph(graph, parameters, input);
    inferred = support::run_graph(graph, parameters, input, false);
    for (const Field& output : outputs) cotangents.push_back(draw.numbers(output));
    along_parameters = draw.numbers(parameters);
    for (int p = 0; p < graph.parameters.size(); ++p)
      if (graph.parameters[p].buffer) along_parameters[static_cast<std::size_t>(p)] = 0.;
    along_input = draw.numbers(input);
    slope_of_parameters = slope([&](double step) {
      return dot(support::run_graph(graph, moved(parameters, along_parameters, step), input), cotangents);
    });
    slope_of_input = slope([&](double step) {
      return dot(support::run_graph(graph, parameters, moved(input, along_input, step)), cotangents);
    });
  }

  const hg::GraphDraft& graph;
  Parameters parameters, along_parameters;
  Field input, along_input;
  Fields outputs, inferred, cotangents;  ///< inferred: norms of a batch by their buffers
  std::optional<double> slope_of_parameters, slope_of_input;
};

void check_slope(const char* of, const Field& gradient, const Field& along, std::optional<double> by_differences) {
  const double planned = dot(gradient, along);
  expect(std::isfinite(planned), "gradient of ", of, ": ", planned);
  if (!by_differences.has_value()) return;
  expect(are_close(planned, *by_differences), "gradient of ", of, ": ", planned, ", by differences ", *by_differences);
}

/// Drops tensors of the plan at random, more or fewer; returns how many launches it runs again.
int drop_some(hg::PlanDraft& plan, Draw& draw) {
  const double share = draw.unit();
  const int before = plan.launches.size();
  hg::GrowingTable<bool> keep(plan.tensors.size());
  const hg::GrowingTable<bool> droppable = hg::droppable_tensors(plan);
  for (int t = 0; t < keep.size(); ++t) keep[t] = !droppable[t] || draw.unit() > share;
  hg::recompute(plan, keep);
  return plan.launches.size() - before;
}

/// With `draw`: of the plan that computes some tensors again. Returns how many launches do.
int check_plan(const Sample& sample, hg::PlanKind kind, Draw* draw = nullptr) {
  const auto plan = std::make_unique<hg::PlanDraft>(hg::make_plan(sample.graph, kind));
  const int again = draw == nullptr ? 0 : drop_some(*plan, *draw);
  const support::PlanRun run(*plan, sample.parameters, sample.input, sample.cotangents);
  for (int i = 0; i < plan->graph.outputs; ++i) {
    const Field& prediction = run.tensor(plan->prediction[i]);
    const Field& output = (kind == hg::PlanKind::inference ? sample.inferred : sample.outputs)[i];
    support::expect_one_shape(prediction, output);
    const Field difference = moved(prediction, output, -1);
    const double error = std::sqrt(dot(difference, difference) / (1 + dot(output, output)));
    expect(error < 1e-12, "prediction ", i, " is wrong by ", error);  // NaN too
  }
  if (kind == hg::PlanKind::inference) return again;
  check_slope("parameters", run.gradient_of_parameters(), sample.along_parameters, sample.slope_of_parameters);
  if (!plan->input_gradient_wanted) return again;
  if (plan->input_gradient[0] < 0) {  // all outputs are made of parameters
    expect(sample.slope_of_input.value_or(0) == 0, "no gradient of the input, which has one");
    return again;
  }
  support::expect_one_shape(run.tensor(plan->input_gradient[0]), sample.input);
  check_slope("the input", run.tensor(plan->input_gradient[0]), sample.along_input, sample.slope_of_input);
  return again;
}

/// What is planned now. An assertion in the planner aborts; then the test ends with these words.
std::string subject;
void print_subject(int) { std::fprintf(stderr, "%s\n", subject.c_str()); }

/// Slopes to compare with, of two.
int check_graph(int seed, int& launches_again) {
  Draw draw(seed);
  const RandomGraph random(draw);
  expect(random.graph().misfit.why == nullptr, "a misfit was drawn:", random.script());
  const Sample sample(random.graph(), draw);
  constexpr std::pair<hg::PlanKind, const char*> kinds[] = {
      {hg::PlanKind::inference, "inference"},
      {hg::PlanKind::training, "training"},
      {hg::PlanKind::training_with_input_gradient, "training with the input's gradient"},
      {hg::PlanKind::vjp, "vjp"}};
  for (const auto& [kind, name] : kinds) {
    subject = "seed " + std::to_string(seed) + ", " + name + ":" + random.script();
    check_plan(sample, kind);
    if (kind == hg::PlanKind::inference) continue;
    subject += ", some of it computed again";
    launches_again += check_plan(sample, kind, &draw);
  }
  return sample.slope_of_parameters.has_value() + sample.slope_of_input.has_value();
}

}  // namespace

TEST_CASE("plans of random graphs compute what the graphs say") {
  std::signal(SIGABRT, print_subject);
  support::PlanRun::define_map<Bend, 1>();
  support::PlanRun::define_map<Gate, 2>();
  support::PlanRun::define_map<Modulate, 3>();
  support::PlanRun::define_function<Joined, 1>();
  support::PlanRun::define_function<Joined, 2>();
  support::PlanRun::define_function<Joined, 2, 1>();
  support::PlanRun::define_function<Joined, 1, 0, true>();
  support::PlanRun::define_chunk<0, 2>();
  support::PlanRun::define_chunk<1, 2>();
  support::PlanRun::define_chunk<2, 3>();
  define_own_layers();
  int failures = 0, slopes = 0, launches_again = 0;
  for (int seed = 0; seed < graphs && failures < most_failures; ++seed) {
    subject = "seed " + std::to_string(seed);
    try {
      slopes += check_graph(seed, launches_again);
    } catch (const std::exception& fault) {
      ++failures;
      FAIL_CHECK((subject + "\n" + fault.what()));
    }
  }
  CHECK(slopes > 1.9 * graphs);  // most are not at a kink
  CHECK(launches_again > graphs);
}

}  // namespace test_random_plans
