// Graphs node by node and plans launch by launch, in plain loops over fields of one dimension: what a planner makes is
// compared with what was traced. A plan that breaks its word (what it reads, how long tensors live, what is complete)
// throws. Convolutions take the tap in the middle of their windows, attention a product of sums, functions of fields
// what define_function() says: a planner asks only what is read, and to which level a window leads.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <limits>
#include <map>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <valarray>
#include <vector>

#include "halogen/network.hpp"

namespace support {

namespace hg = halogen;
using Row = std::valarray<double>;
using Field = std::vector<Row>;       ///< [channel][point]
using Parameters = std::vector<Row>;  ///< by their number in the graph; weights are [output][input]

}  // namespace support
namespace halogen {
template <class T>
std::ostream& operator<<(std::ostream& to, PlanId<T> id) {
  return to << id.number;
}
}  // namespace halogen
namespace support {

template <class... Words>
void expect(bool holds, const Words&... words) {
  if (holds) return;
  std::ostringstream text;
  (text << ... << words);
  throw std::runtime_error(text.str());
}

inline int channels_of(const Field& x) { return static_cast<int>(x.size()); }
inline int points_of(const Field& x) { return x.empty() ? 0 : static_cast<int>(x[0].size()); }
inline Field channels_from(int first, int count, const Field& x) {
  expect(first + count <= channels_of(x), count, " channels from ", first, " on of ", channels_of(x));
  return Field(x.begin() + first, x.begin() + first + count);
}
inline void expect_one_shape(const Field& x, const Field& y) {
  expect(channels_of(x) == channels_of(y) && points_of(x) == points_of(y), "fields of two shapes");
}

inline Field added(Field x, const Field& y) {
  expect_one_shape(x, y);
  for (int c = 0; c < channels_of(x); ++c) x[c] += y[c];
  return x;
}

/// f(x) of an activation layer, by its definition.
inline double activated(const hg::Nonlinearity& function, double x) {
  using Kind = hg::Nonlinearity::Kind;
  switch (function.kind) {
    case Kind::relu:
      return x > 0 ? x : 0;
    case Kind::leaky_relu:
      return x > 0 ? x : function.parameter * x;
    case Kind::elu:
      return x > 0 ? x : function.parameter * std::expm1(x);
    case Kind::silu:
      return x / (1 + std::exp(-x));
    case Kind::gelu:
      return x / 2 * std::erfc(-x / std::sqrt(2.));
    case Kind::tanh:
      return std::tanh(x);
    case Kind::sigmoid:
      return 1 / (1 + std::exp(-x));
    default:
      return x;
  }
}
inline double derivative(const hg::Nonlinearity& function, double x) {
  using Kind = hg::Nonlinearity::Kind;
  const double y = activated(function, x);
  switch (function.kind) {
    case Kind::relu:
      return x > 0 ? 1 : 0;
    case Kind::leaky_relu:
      return x > 0 ? 1 : function.parameter;
    case Kind::elu:
      return x > 0 ? 1 : y + function.parameter;
    case Kind::silu:
      return (1 + y * std::exp(-x)) / (1 + std::exp(-x));
    case Kind::gelu:
      return std::erfc(-x / std::sqrt(2.)) / 2 + x * std::exp(-x * x / 2) / std::sqrt(8 * std::atan(1.));
    case Kind::tanh:
      return 1 - y * y;
    case Kind::sigmoid:
      return y * (1 - y);
    default:
      return 1;
  }
}
inline Field activated(const hg::Nonlinearity& function, Field x) {
  for (Row& row : x)
    for (double& point : row) point = activated(function, point);
  return x;
}
inline Field activation_adjoint(const hg::Nonlinearity& function, Field gradient, const Field& x) {
  expect_one_shape(gradient, x);
  for (int c = 0; c < channels_of(x); ++c)
    for (std::size_t i = 0; i < x[c].size(); ++i) gradient[c][i] *= derivative(function, x[c][i]);
  return gradient;
}

/// Each output k of the inputs of its group, weight[k][i].
inline Field convolved(const Field& x, const Row& weight, const Row* bias, int outputs) {
  const int inputs = static_cast<int>(weight.size()) / outputs, groups = channels_of(x) / inputs;
  Field y(outputs, Row(points_of(x)));
  for (int k = 0; k < outputs; ++k) {
    const int first = k / (outputs / groups) * inputs;
    if (bias != nullptr) y[k] = (*bias)[k];
    for (int c = 0; c < inputs; ++c) y[k] += weight[k * inputs + c] * x[first + c];
  }
  return y;
}
inline Field convolution_adjoint(const Field& gradient, const Row& weight, int channels) {
  const int outputs = channels_of(gradient), inputs = static_cast<int>(weight.size()) / outputs;
  const int groups = channels / inputs;
  Field result(channels, Row(points_of(gradient)));
  for (int k = 0; k < outputs; ++k)
    for (int c = 0; c < inputs; ++c)
      result[k / (outputs / groups) * inputs + c] += weight[k * inputs + c] * gradient[k];
  return result;
}

/// Pools and resamplings: shares(c, o, f) calls f(i, share) for the points of channel c that its output o is made of.
template <class Shares>
Field gathered(const Field& x, int points, Shares shares) {
  Field y(x.size(), Row(points));
  for (int c = 0; c < channels_of(x); ++c)
    for (int o = 0; o < points; ++o) shares(c, o, [&](auto i, double share) { y[c][o] += share * x[c][i]; });
  return y;
}
template <class Shares>
Field gather_adjoint(const Field& gradient, int points, Shares shares) {
  Field result(gradient.size(), Row(points));
  for (int c = 0; c < channels_of(gradient); ++c)
    for (int o = 0; o < points_of(gradient); ++o)
      shares(c, o, [&](auto i, double share) { result[c][i] += share * gradient[c][o]; });
  return result;
}

/// The point in the middle of a convolution's window, if the field has it.
inline auto middle(const hg::Window& window, int points) {
  return [=](int, int output, auto f) {
    const int at = window.kernel / 2 * window.dilation - window.padding;
    const int fine = output - at, input = window.transposed ? fine / window.stride : output * window.stride + at;
    if (window.transposed && (fine < 0 || fine % window.stride != 0)) return;
    if (input >= 0 && input < points) f(input, 1.);
  };
}
inline auto average(const hg::Window& window, int points) {
  return [=](int, int output, auto f) {
    for (int k = 0; k < window.kernel; ++k) {
      const int input = output * window.stride - window.padding + k * window.dilation;
      if (input >= 0 && input < points) f(input, 1. / window.kernel);
    }
  };
}
/// The first largest of what each output takes.
template <class Taps>
auto largest_of(Taps taps, const Field& x) {
  return [=](int c, int output, auto f) {
    int at = -1;
    taps(c, output, [&](auto input, double) {
      const int i = static_cast<int>(input);
      at = at < 0 || x[c][i] > x[c][at] ? i : at;
    });
    f(at, 1.);
  };
}
inline auto largest(const hg::Window& window, const Field& x) { return largest_of(average(window, points_of(x)), x); }
inline auto resampling(int from, int to, bool linear, hg::Edge edge = hg::Edge::zero) {
  return [resample = hg::Resample{from, to, linear, edge}, from](int, int output, auto f) {
    if (resample.wraps()) return f((resample.source(output) + from) % from, 1.);
    if (!resample.linear) return f(resample.source(output), 1.);
    const hg::Resample::Between between = resample.between(output);
    const double share = static_cast<double>(between.part) / static_cast<double>(2 * resample.to);
    f(between.first, 1 - share);
    f(between.second, share);
  };
}

/// A dimension that is resampled by weights (stencil/sampling.hpp).
inline auto sampled(const hg::Window& window, int from, int to) {
  return [of = hg::SampledWindow(window, from, to)](int, int output, auto f) { of.for_each<double>(output, f); };
}
/// A crop or a roll.
inline auto moved_by(const hg::Node& node, int points) {
  const int offset = node.as<hg::detail::OffsetConstants>().offset[2];
  return [=, periodic = node.window[2].periodic](int, int output, auto f) {
    const int input = output + offset;
    f(periodic ? (input % points + points) % points : input, 1.);
  };
}
/// One output of all points.
inline auto mean_of(int points) {
  return [=](int, int, auto f) {
    for (int i = 0; i < points; ++i) f(i, 1. / points);
  };
}

/// To twice the points and a quarter of the channels: c[2 i + a] takes channels 4 c + 2 a and 4 c + 2 a + 1.
inline Field shuffled(const Field& x) {
  Field y(x.size() / 4, Row(2 * points_of(x)));
  for (int c = 0; c < channels_of(x); ++c)
    for (int i = 0; i < points_of(x); ++i) y[c / 4][2 * i + c / 2 % 2] += (1 + c % 2) * x[c][i];
  return y;
}
inline Field unshuffled(const Field& x) {
  Field y(4 * x.size(), Row(points_of(x) / 2));
  for (int c = 0; c < channels_of(y); ++c)
    for (int i = 0; i < points_of(y); ++i) y[c][i] = (1 + c % 2) * x[c / 4][2 * i + c / 2 % 2];
  return y;
}

/// In place of attention to a neighbourhood: of queries, keys and values q times the sum over it of k v.
class Neighbors {
 public:
  Neighbors(const hg::Node& node, const Field& x)
      : around_(node.window[2], points_of(x)), count_(channels_of(x) / 3), x_(x) {}
  Field value() const {
    Field y(count_, Row(points_of(x_)));
    for_each([&](int c, int i, int j) { y[c][i] += q(c)[i] * k(c)[j] * v(c)[j]; });
    return y;
  }
  Field adjoint(const Field& slope) const {
    Field result(x_.size(), Row(points_of(x_)));
    for_each([&](int c, int i, int j) {
      result[c][i] += slope[c][i] * k(c)[j] * v(c)[j];
      result[count_ + c][j] += slope[c][i] * q(c)[i] * v(c)[j];
      result[2 * count_ + c][j] += slope[c][i] * q(c)[i] * k(c)[j];
    });
    return result;
  }

 private:
  const Row& q(int c) const { return x_[c]; }
  const Row& k(int c) const { return x_[count_ + c]; }
  const Row& v(int c) const { return x_[2 * count_ + c]; }
  template <class F>
  void for_each(F f) const {
    for (int c = 0; c < count_; ++c)
      for (int i = 0; i < points_of(x_); ++i) {
        const hg::Interval window = around_.input_of({i, i + 1});
        for (hg::index_t j = window.begin; j < window.end; ++j) f(c, i, static_cast<int>(j));
      }
  }

  hg::Neighborhood around_;
  int count_;
  const Field& x_;
};

inline Field softmax(Field x) {
  Row top = x[0], sum(points_of(x));
  for (const Row& row : x) top[row > top] = row[row > top];
  for (Row& row : x) row = std::exp(row - top);
  for (const Row& row : x) sum += row;
  for (Row& row : x) row /= sum;
  return x;
}
inline Field softmax_adjoint(Field gradient, const Field& y) {
  Row sum(points_of(y));
  for (int c = 0; c < channels_of(y); ++c) sum += gradient[c] * y[c];
  for (int c = 0; c < channels_of(y); ++c) gradient[c] = y[c] * (gradient[c] - sum);
  return gradient;
}

/// The channels that take part in channel c, their squares' sum, and what c is divided by.
struct LocalResponse {
  LocalResponse(const hg::Node& node, const Field& x, int c) : of(node.as<hg::detail::LocalResponseConstants>()) {
    begin = std::max(0, c - of.size / 2), end = std::min(channels_of(x), c - of.size / 2 + of.size);
    Row sum(points_of(x));
    for (int j = begin; j < end; ++j) sum += x[j] * x[j];
    base = of.k + of.alpha / of.size * sum;
  }
  const hg::detail::LocalResponseConstants& of;
  int begin, end;
  Row base;
};
inline Field local_response(const hg::Node& node, Field x) {
  const Field given = x;
  for (int c = 0; c < channels_of(x); ++c) {
    const LocalResponse at(node, given, c);
    x[c] *= std::pow(at.base, -at.of.beta);
  }
  return x;
}
/// Each output's derivatives, one after the other.
inline Field local_response_adjoint(const hg::Node& node, const Field& gradient, const Field& x) {
  Field of_x(channels_of(x), Row(points_of(x)));
  for (int c = 0; c < channels_of(x); ++c) {
    const LocalResponse at(node, x, c);
    of_x[c] += gradient[c] * std::pow(at.base, -at.of.beta);
    for (int j = at.begin; j < at.end; ++j)
      of_x[j] -=
          gradient[c] * x[c] * x[j] * std::pow(at.base, -at.of.beta - 1) * (2 * at.of.beta * at.of.alpha / at.of.size);
  }
  return of_x;
}

inline double mean(const Row& row) { return row.sum() / static_cast<double>(row.size()); }
/// The same values in so many rows: one of a group of channels, or of each channel.
inline Field in_rows(const Field& x, int rows) {
  const std::size_t from = x[0].size(), to = from * x.size() / rows;
  Field y(rows, Row(to));
  for (std::size_t i = 0; i < from * x.size(); ++i) y[i / to][i % to] = x[i / from][i % from];
  return y;
}
/// About the mean of each group, in units of its deviation.
inline Field normal(const Field& x, const hg::AffineTable& norm) {
  Field y = in_rows(x, norm.groups);
  for (Row& row : y) row -= mean(row);
  for (Row& row : y) row /= std::sqrt(mean(row * row) + norm.epsilon);
  return in_rows(y, norm.channels);
}
inline Field normalised(const Field& x, const hg::AffineTable& norm, const Parameters& parameters,
                        bool by_buffers = false) {
  Field y = by_buffers ? x : normal(x, norm);
  for (int c = 0; c < norm.channels; ++c) {
    if (by_buffers)
      y[c] = (x[c] - parameters[norm.running][c]) / std::sqrt(parameters[norm.running + 1][c] + norm.epsilon);
    if (norm.parameter >= 0) y[c] = parameters[norm.parameter][c] * y[c] + parameters[norm.parameter + 1][c];
  }
  return y;
}
inline Field norm_adjoint(Field gradient, const Field& x, const hg::AffineTable& norm, const Parameters& parameters) {
  for (int c = 0; c < norm.channels && norm.parameter >= 0; ++c) gradient[c] *= parameters[norm.parameter][c];
  const Field values = in_rows(x, norm.groups), along = in_rows(normal(x, norm), norm.groups);
  gradient = in_rows(gradient, norm.groups);
  for (int g = 0; g < norm.groups; ++g) {
    gradient[g] -= mean(gradient[g]) + mean(gradient[g] * along[g]) * along[g];
    gradient[g] /= std::sqrt(mean(std::pow(values[g] - mean(values[g]), 2.)) + norm.epsilon);
  }
  return in_rows(gradient, norm.channels);
}

/// LayerNorm: about the mean of a point's channels, in units of their deviation.
inline Row mean_of_channels(const Field& x) {
  Row sum(points_of(x));
  for (const Row& row : x) sum += row;
  return sum / static_cast<double>(x.size());
}
inline Field normal_of_channels(Field x, double epsilon, Row* deviation = nullptr) {
  const Row centre = mean_of_channels(x);
  for (Row& row : x) row -= centre;
  Field squares = x;
  for (Row& row : squares) row *= row;
  const Row by = std::sqrt(mean_of_channels(squares) + epsilon);
  for (Row& row : x) row /= by;
  if (deviation != nullptr) *deviation = by;
  return x;
}
inline Field layer_normalised(const Field& x, const Row* parameters, double epsilon) {
  Field y = normal_of_channels(x, epsilon);
  for (int c = 0; c < channels_of(x); ++c) y[c] = parameters[0][c] * y[c] + parameters[1][c];
  return y;
}
inline Field layer_norm_adjoint(Field gradient, const Field& x, const Row& gamma, double epsilon) {
  Row deviation(points_of(x));
  const Field along = normal_of_channels(x, epsilon, &deviation);
  Field products = along;
  for (int c = 0; c < channels_of(x); ++c) gradient[c] *= gamma[c], products[c] *= gradient[c];
  const Row of_gradient = mean_of_channels(gradient), of_products = mean_of_channels(products);
  for (int c = 0; c < channels_of(x); ++c)
    gradient[c] = (gradient[c] - of_gradient - along[c] * of_products) / deviation;
  return gradient;
}
inline double epsilon_of(const hg::Node& norm) {
  const double epsilon = norm.as<hg::detail::ChannelNormConstants>().epsilon;
  return epsilon > 0 ? epsilon : std::numeric_limits<double>::epsilon();
}

/// RMSNorm: in units of the root of the mean square of a point's channels.
inline Row root_of_squares(Field x, double epsilon) {
  for (Row& row : x) row *= row;
  return std::sqrt(mean_of_channels(x) + epsilon);
}
inline Field rms_normalised(Field x, const Row& gamma, double epsilon) {
  const Row by = root_of_squares(x, epsilon);
  for (int c = 0; c < channels_of(x); ++c) x[c] *= gamma[c] / by;
  return x;
}
inline Field rms_norm_adjoint(Field gradient, const Field& x, const Row& gamma, double epsilon) {
  const Row by = root_of_squares(x, epsilon);
  Field products = x;
  for (int c = 0; c < channels_of(x); ++c) gradient[c] *= gamma[c], products[c] *= gradient[c];
  const Row of_products = mean_of_channels(products);
  for (int c = 0; c < channels_of(x); ++c) gradient[c] = (gradient[c] - x[c] * of_products / (by * by)) / by;
  return gradient;
}
inline hg::AffineTable norm_of_node(const hg::Node& node) {
  if (std::string_view(node.operation->name) == "group_norm") {
    const auto& of = node.as<hg::detail::GroupNormConstants>();
    return hg::AffineTable{{}, of.groups, node.channels, node.parameter, of.epsilon};
  }
  const auto& of = node.as<hg::detail::BatchNormConstants>();
  hg::AffineTable norm{{}, node.channels, node.channels, of.affine ? node.parameter : -1, of.epsilon};
  norm.running = node.parameter + of.buffers();
  return norm;
}

/// Points of each level, where the input has so many.
inline std::vector<int> points_of_levels(const hg::Graph& graph, int points) {
  std::vector<int> result{points};
  for (int i = 1; i < graph.levels.size(); ++i) {
    const hg::Level& level = graph.levels[i];
    result.push_back(level.whole ? 1 : static_cast<int>(level.window[2].output_extent(result[level.parent])));
  }
  return result;
}

inline bool has_bias(const hg::Node& convolution) { return convolution.as<hg::detail::ConvolutionConstants>().bias; }

/// Layers of tests, and of users: what their operations are defined to be, of a node and its inputs.
using Definition = std::function<Field(const hg::Node&, const Parameters&, const std::vector<Field>&)>;
inline std::map<const hg::Operation*, Definition>& definitions() {
  static std::map<const hg::Operation*, Definition> map;
  return map;
}
/// And the functors of maps, by their addresses in plans: of a map's values and parameters.
using Functor = std::function<Field(const std::vector<Field>&, const Row* parameters)>;
inline std::map<const char*, Functor>& functors() {
  static std::map<const char*, Functor> map;
  return map;
}

/// f(values..., parameters of the channel...) at each point.
template <class F, int Values>
Field mapped(const F& f, const std::vector<Field>& values, const Row* parameters) {
  constexpr int count = hg::detail::channel_parameters<F>;
  Field result = values[0];
  for (int c = 0; c < channels_of(result); ++c)
    for (int i = 0; i < points_of(result); ++i)
      [&]<int... V, int... Q>(std::integer_sequence<int, V...>, std::integer_sequence<int, Q...>) {
        result[c][i] = f(values[V][c][i]..., parameters[Q][c]...);
      }(std::make_integer_sequence<int, Values>{}, std::make_integer_sequence<int, count>{});
  return result;
}

/// A vector that is a row of a parameter.
inline Field row_of(const hg::Node& node, const Row& parameter) {
  Field y(node.channels, Row(1));
  for (int c = 0; c < node.channels; ++c) y[c] = parameter[hg::detail::VectorRow::begin(node) + c];
  return y;
}

/// What a node's layer is defined to be of its inputs, where its output has so many points. training: norms of a batch
/// by its statistics.
inline Field run_node(const hg::Node& node, const Parameters& parameters, const std::vector<Field>& inputs, int points,
                      bool training) {
  if (const auto found = definitions().find(node.operation); found != definitions().end())
    return found->second(node, parameters, inputs);
  const std::string_view name = node.operation->name;
  const Row* parameter = node.parameter < 0 ? nullptr : &parameters[node.parameter];
  if (name == "vector_row") return row_of(node, *parameter);
  Field x = inputs[0];
  if (name == "layer_norm") return layer_normalised(x, parameter, epsilon_of(node));
  if (name == "global_avg_pool") return gathered(x, 1, mean_of(points_of(x)));
  if (name == "expand") return gathered(x, points, resampling(1, points, false));
  if (name == "interpolate" || name == "adaptive_avg_pool")
    return gathered(x, points, sampled(node.window[2], points_of(x), points));
  if (name == "rms_norm") return rms_normalised(x, *parameter, epsilon_of(node));
  if (name == "conv2d" || name == "conv_transpose2d" || name == "linear")
    return convolved(gathered(x, points, middle(node.window[2], points_of(x))), *parameter,
                     has_bias(node) ? parameter + 1 : nullptr, node.channels);
  if (name == "crop" || name == "roll") return gathered(x, points, moved_by(node, points_of(x)));
  if (name == "pixel_shuffle") return shuffled(x);
  if (name == "pixel_unshuffle") return unshuffled(x);
  if (name == "neighborhood_attention") return Neighbors(node, x).value();
  if (name == "store") return x;
  if (name == "global_max_pool") return gathered(x, 1, largest_of(mean_of(points_of(x)), x));
  if (name == "adaptive_max_pool")
    return gathered(x, points, largest_of(sampled(node.window[2], points_of(x), points), x));
  if (node.operation->forward == hg::detail::activation_forward)
    return activated(node.as<hg::detail::ActivationConstants>().function, x);
  if (name == "group_norm") return normalised(x, norm_of_node(node), parameters);
  if (name == "batch_norm") return normalised(x, norm_of_node(node), parameters, !training);
  if (name == "max_pool2d") return gathered(x, points, largest(node.window[2], x));
  if (name == "avg_pool2d") return gathered(x, points, average(node.window[2], points_of(x)));
  if (name == "softmax") return softmax(x);
  if (name == "local_response_norm") return local_response(node, x);
  if (name == "upsample_nearest" || name == "upsample_bilinear")
    return gathered(x, points, resampling(points_of(x), points, name == "upsample_bilinear"));
  if (name == "pad")
    return gathered(x, points, [&](int, int output, auto f) {
      const int last = points_of(x) - 1, i = output - node.window[2].padding;
      if (node.window[2].pads == hg::Edge::periodic) return f((i + points_of(x)) % points_of(x), 1.);
      if (node.window[2].pads == hg::Edge::reflect) return f(i < 0 ? -i : i > last ? 2 * last - i : i, 1.);
      f(std::clamp(i, 0, last), 1.);
    });
  if (name == "add") return added(x, inputs[1]);
  expect(name == "concat", "a layer that nobody defined: ", name);
  x.insert(x.end(), inputs[1].begin(), inputs[1].end());
  return x;
}

/// The outputs of a graph.
inline std::vector<Field> run_graph(const hg::Graph& graph, const Parameters& parameters, const Field& input,
                                    bool training = true) {
  const std::vector<int> points = points_of_levels(graph, points_of(input));
  std::vector<Field> values{input};
  for (int i = 1; i < graph.nodes.size(); ++i) {
    const hg::Node& node = graph.nodes[i];
    std::vector<Field> inputs;
    for (const int input : node.inputs)
      if (input >= 0) inputs.push_back(values[input]);
    values.push_back(run_node(node, parameters, inputs, points[node.level], training));
  }
  std::vector<Field> outputs;
  for (int i = 0; i < graph.outputs; ++i) outputs.push_back(values[graph.output[i]]);
  return outputs;
}

/// A plan that has run: what its launches left.
class PlanRun {
 public:
  PlanRun(const hg::Plan& plan, const Parameters& parameters, const Field& input, const std::vector<Field>& cotangents)
      : plan_(plan), parameters_(parameters), cotangents_(cotangents) {
    points_ = points_of_levels(plan.graph, points_of(input));
    for (const hg::StoredTensor& tensor : plan.tensors)  // NaN until written
      tensors_.emplace_back(tensor.channels, Row(std::nan(""), points_[tensor.level]));
    tensors_[0] = input;
    for (int i = 0; i < plan.graph.outputs; ++i)
      if (plan.cotangent[i] >= 0) at(plan.cotangent[i]) = cotangents[i];
    for (const Row& parameter : parameters) gradient_.emplace_back(parameter.size());
    written_ = gradient_;
    for (; now_ < plan.launches.size(); ++now_) {
      if (now_ == plan.first_backward) forget_what_is_computed_again();
      try {
        run();
      } catch (const std::runtime_error& fault) {
        throw std::runtime_error("launch " + std::to_string(now_) + ": " + fault.what());
      }
    }
  }

  const Field& tensor(hg::TensorId index) const { return at(index); }

  // -- for launch types of tests, and of users ---------------------------------------------------------------------
  /// How launches of a type are computed: what they write.
  using Computes = std::function<Field(PlanRun&)>;
  static std::map<const hg::LaunchKind*, Computes>& computed_by() {
    static std::map<const hg::LaunchKind*, Computes> map = computed_by_library();
    return map;
  }
  /// The launch that is computed, and its node.
  const hg::Launch& launch() const { return plan_.launches[now_]; }
  const hg::Node& node() const { return plan_.node_of(launch()); }
  /// What the launch reads i-th, as it sees it.
  Field operand(int i) {
    const hg::Read& what = launch().reads[i];
    using Role = hg::Read::Role;
    if (what.role == Role::gradient) return gradient(what.gradient());
    if (what.role == Role::tensor) return read(what.tensor());
    if (what.role == Role::source) return value(source(), input_level());
    return all_of(plan_.values[what.value()]);
  }
  /// A parameter that it reads.
  const Row& parameter(int use) const {
    const hg::ParameterUse& what = launch().parameters[use];
    expect(use < launch().parameters.size() && !what.gradient, "undeclared parameter");
    return parameters_[what.parameter];
  }
  /// For a backward launch: the channels of the source that it differentiates, of all those of its input.
  int first_channel() const { return plan_.input_of(launch()).channels_before(launch().source); }
  Field of_source(const Field& x) const { return channels_from(first_channel(), source().channels, x); }
  /// A node writes each number once; others add to those of the parameters that they share. again: other activations
  /// of an affine have theirs in it already.
  void add_gradient(int parameter, int at, double value, bool again = false) {
    add_gradient_of(launch().node + 1, parameter, at, value, again);
  }

  /// Writes what the launch keeps.
  void keep(const Field& field) {
    const hg::TensorId to = launch().kept;
    expect(to >= 0 && plan_.tensors[to].first_launch == now_, "keeps what the plan does not say");
    expect_one_shape(field, at(to));
    at(to) = field;
  }

  /// The launch types of Map<F> with so many values, and what it is defined to be.
  template <class F, int Values>
  static void define_map();

  /// The launch types of hg::Function<F> of so many values, and what it is defined to be (support::FieldsJoined).
  template <class F, int Values, unsigned Vectors = 0, bool MakesVector = false>
  static void define_function();

  /// The launch types of Chunk<Part, Parts>.
  template <int Part, int Parts>
  static void define_chunk();

  const Parameters& gradient_of_parameters() const { return gradient_; }

 private:
  void forget_what_is_computed_again() {
    for (const hg::StoredTensor& tensor : plan_.tensors) {
      if (tensor.origin < 0 || tensor.map >= 0) continue;
      expect(plan_.tensors[tensor.origin].last_launch < now_, "t", tensor.origin, " is kept and computed again");
      for (Row& row : tensors_[static_cast<std::size_t>(tensor.origin)]) row = std::nan("");
    }
  }

  const hg::Source& source() const { return plan_.source_of(launch()); }
  int input_level() const { return plan_.input_of(launch()).level; }

  static std::map<const hg::LaunchKind*, Computes> computed_by_library() {
    namespace of = hg::detail;
    const auto same_points = [](PlanRun& run, const Field& slope) {
      expect(points_of(slope) == run.points_[run.input_level()], "level of its gradient");
      return slope;
    };
    return {
        {hg::kind_of<of::ConvolutionForward>(), [](PlanRun& run) { return run.convolution(); }},
        {hg::kind_of<of::ConvolutionInputGradient>(), [](PlanRun& run) { return run.convolution_gradient(false); }},
        {hg::kind_of<of::ConvolutionGradients>(), [](PlanRun& run) { return run.convolution_gradient(true); }},
        {hg::kind_of<of::MaxPoolForward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0);
           return gathered(x, run.points_[run.node().level], largest(run.node().window[2], x));
         }},
        {hg::kind_of<of::MaxPoolBackward>(),
         [](PlanRun& run) {
           const Field x = run.operand(1);
           return run.of_source(gather_adjoint(run.operand(0), points_of(x), largest(run.node().window[2], x)));
         }},
        {hg::kind_of<of::AvgPoolForward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0);
           return gathered(x, run.points_[run.node().level], average(run.node().window[2], points_of(x)));
         }},
        {hg::kind_of<of::AvgPoolBackward>(),
         [](PlanRun& run) {
           const int points = run.points_[run.input_level()];
           return run.of_source(gather_adjoint(run.operand(0), points, average(run.node().window[2], points)));
         }},
        {hg::kind_of<of::SampleForward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0);
           const int points = run.points_[run.node().level];
           return gathered(x, points, sampled(run.node().window[2], points_of(x), points));
         }},
        {hg::kind_of<of::SampleBackward>(),
         [](PlanRun& run) {
           const int from = run.points_[run.input_level()], to = run.points_[run.node().level];
           return run.of_source(gather_adjoint(run.operand(0), from, sampled(run.node().window[2], from, to)));
         }},
        {hg::kind_of<of::AdaptiveMaxPoolForward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0);
           const int points = run.points_[run.node().level];
           return gathered(x, points, largest_of(sampled(run.node().window[2], points_of(x), points), x));
         }},
        {hg::kind_of<of::AdaptiveMaxPoolBackward>(),
         [](PlanRun& run) {
           const Field slope = run.operand(0), x = run.operand(1);
           const Field own = channels_from(run.first_channel(), channels_of(x), slope);
           return gather_adjoint(own, points_of(x),
                                 largest_of(sampled(run.node().window[2], points_of(x), points_of(slope)), x));
         }},
        {hg::kind_of<of::GlobalMaxPoolForward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0);
           return gathered(x, 1, largest_of(mean_of(points_of(x)), x));
         }},
        {hg::kind_of<of::GlobalMaxPoolBackward>(),
         [](PlanRun& run) {
           const Field slope = run.operand(0), x = run.operand(1), result = run.operand(2);
           const Field own = channels_from(run.first_channel(), channels_of(x), slope);
           expect(points_of(result) == 1, "a vector of maxima");
           return gather_adjoint(own, points_of(x), largest_of(mean_of(points_of(x)), x));
         }},
        {hg::kind_of<of::OffsetForward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0);
           return gathered(x, run.points_[run.node().level], moved_by(run.node(), points_of(x)));
         }},
        {hg::kind_of<of::OffsetBackward>(),
         [](PlanRun& run) {
           const int points = run.points_[run.input_level()];
           return run.of_source(gather_adjoint(run.operand(0), points, moved_by(run.node(), points)));
         }},
        {hg::kind_of<of::PixelShuffleOf<2, true>::Forward>(), [](PlanRun& run) { return shuffled(run.operand(0)); }},
        {hg::kind_of<of::PixelShuffleOf<2, true>::Backward>(),
         [](PlanRun& run) { return run.of_source(unshuffled(run.operand(0))); }},
        {hg::kind_of<of::PixelShuffleOf<2, false>::Forward>(), [](PlanRun& run) { return unshuffled(run.operand(0)); }},
        {hg::kind_of<of::PixelShuffleOf<2, false>::Backward>(),
         [](PlanRun& run) { return run.of_source(shuffled(run.operand(0))); }},
        {hg::kind_of<of::NeighborhoodLaunches<false>::Forward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0);
           if (run.launch().kept >= 0) run.keep(Field(run.at(run.launch().kept).size(), Row(points_of(x))));
           return Neighbors(run.node(), x).value();
         }},
        {hg::kind_of<of::NeighborhoodLaunches<false>::Sums>(),
         [](PlanRun& run) {
           const Field slope = run.operand(0), result = run.operand(1), kept = run.operand(2);
           return Field(run.at(run.launch().output).size(), Row(points_of(slope)));
         }},
        {hg::kind_of<of::NeighborhoodLaunches<false>::Backward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0), again = run.operand(1), slope = run.operand(2), sums = run.operand(3);
           return run.of_source(Neighbors(run.node(), x).adjoint(slope));
         }},
        {hg::kind_of<of::FrozenBatchNorm>(),
         [](PlanRun& run) {
           const auto& of_norm = run.node().as<of::BatchNormConstants>();
           for (int i = 0; i < 2 + of_norm.buffers(); ++i) run.parameter(i);
           for (int n = 0; n < run.plan_.affines.size(); ++n)
             if (run.plan_.affines[n].node == run.node().index) run.affines_with_moments_.insert(n);
           return Field{};
         }},
        {hg::kind_of<of::ChannelNormOf<false>::Forward>(),
         [](PlanRun& run) { return rms_normalised(run.operand(0), run.parameter(0), epsilon_of(run.node())); }},
        {hg::kind_of<of::ChannelNormOf<false>::Backward>(),
         [=](PlanRun& run) {
           const Field slope = same_points(run, run.operand(0));
           return run.of_source(rms_norm_adjoint(slope, run.operand(1), run.parameter(0), epsilon_of(run.node())));
         }},
        {hg::kind_of<of::ChannelNormOf<false>::Gradients>(),
         [](PlanRun& run) {
           run.compute_as<of::ChannelNormOf<false>::ParameterGradients>();
           return run.compute_as<of::ChannelNormOf<false>::Backward>();
         }},
        {hg::kind_of<of::ChannelNormOf<false>::ParameterGradients>(),
         [](PlanRun& run) {
           const Field slope = run.operand(0), x = run.operand(1);
           const Row by = root_of_squares(x, epsilon_of(run.node()));
           for (int c = 0; c < channels_of(slope); ++c)
             run.add_gradient(run.launch().parameters[1].parameter, c, (slope[c] * x[c] / by).sum());
           return Field{};
         }},
        {hg::kind_of<of::GlobalAvgPoolForward>(),
         [](PlanRun& run) {
           const Field x = run.operand(0);
           expect(run.points_[run.launch().level] == points_of(x), "level of the points that it sums");
           return gathered(x, 1, mean_of(points_of(x)));
         }},
        {hg::kind_of<of::GlobalAvgPoolBackward>(),
         [](PlanRun& run) {
           const int points = run.points_[run.input_level()];
           return run.of_source(gather_adjoint(run.operand(0), points, mean_of(points)));
         }},
        {hg::kind_of<hg::ExpandAdjoint>(),
         [=](PlanRun& run) {
           const Field slope = same_points(run, run.operand(0));
           expect(run.points_[run.launch().level] == points_of(slope), "level of the points that it sums");
           return gather_adjoint(slope, 1, resampling(1, points_of(slope), false));
         }},
        {hg::kind_of<of::SoftmaxForward>(), [](PlanRun& run) { return softmax(run.operand(0)); }},
        {hg::kind_of<of::SoftmaxBackward>(),
         [=](PlanRun& run) {
           return run.of_source(softmax_adjoint(same_points(run, run.operand(0)), run.operand(1)));
         }},
        {hg::kind_of<of::LocalResponseForward>(),
         [](PlanRun& run) { return local_response(run.node(), run.operand(0)); }},
        {hg::kind_of<of::LocalResponseBackward>(),
         [=](PlanRun& run) {
           const Field slope = same_points(run, run.operand(0));
           return run.of_source(local_response_adjoint(run.node(), slope, run.operand(1)));
         }},
        {hg::kind_of<of::ChannelNormOf<true>::Forward>(),
         [](PlanRun& run) {
           const Row parameters[] = {run.parameter(0), run.parameter(1)};
           return layer_normalised(run.operand(0), parameters, epsilon_of(run.node()));
         }},
        {hg::kind_of<of::ChannelNormOf<true>::Backward>(),
         [=](PlanRun& run) {
           const Field slope = same_points(run, run.operand(0));
           return run.of_source(layer_norm_adjoint(slope, run.operand(1), run.parameter(0), epsilon_of(run.node())));
         }},
        {hg::kind_of<of::ChannelNormOf<true>::Gradients>(),
         [](PlanRun& run) {
           run.compute_as<of::ChannelNormOf<true>::ParameterGradients>();
           return run.compute_as<of::ChannelNormOf<true>::Backward>();
         }},
        {hg::kind_of<of::ChannelNormOf<true>::ParameterGradients>(),
         [](PlanRun& run) {
           const Field slope = run.operand(0), along = normal_of_channels(run.operand(1), epsilon_of(run.node()));
           for (int c = 0; c < channels_of(slope); ++c) {
             run.add_gradient(run.launch().parameters[1].parameter, c, (slope[c] * along[c]).sum());
             run.add_gradient(run.launch().parameters[2].parameter, c, slope[c].sum());
           }
           return Field{};
         }},
        {hg::kind_of<of::VectorRow::Forward>(), [](PlanRun& run) { return row_of(run.node(), run.parameter(0)); }},
        {hg::kind_of<of::VectorRow::Sums>(),
         [](PlanRun& run) {
           const Field slope = run.operand(0);
           const int first = static_cast<int>(of::VectorRow::begin(run.node()));
           for (int c = 0; c < channels_of(slope); ++c)
             run.add_gradient(run.launch().parameters[0].parameter, first + c, slope[c].sum());
           return Field{};
         }},
        {hg::kind_of<of::AddForward>(), [](PlanRun& run) { return added(run.operand(0), run.operand(1)); }},
        {hg::kind_of<hg::StoreValue>(), [](PlanRun& run) { return run.operand(0); }},
        {hg::kind_of<hg::StoreGradient>(),
         [=](PlanRun& run) { return run.of_source(same_points(run, run.operand(0))); }},
        {hg::kind_of<hg::AddGradients>(), [](PlanRun& run) { return run.operand(0); }},
        {hg::kind_of<hg::ResamplingAdjoint>(),
         [=](PlanRun& run) {
           const hg::Source& of_source = run.source();
           const int fine = run.points_[run.input_level()],
                     coarse = run.points_[run.plan_.tensors[run.launch().output].level];
           return gather_adjoint(same_points(run, run.operand(0)), coarse,
                                 resampling(coarse, fine, of_source.linear, of_source.pads[2]));
         }},
        {hg::kind_of<hg::LossLaunch>(),
         [](PlanRun& run) { return run.operand(0), run.cotangents_[run.now_ - run.plan_.first_backward]; }}};
  }

  /// What a launch of type L with the same operands computes.
  template <class L>
  Field compute_as() {
    return computed_by().at(hg::kind_of<L>())(*this);
  }

  void run() {
    if (launch().is<hg::detail::ConvolutionWeightGradient>()) {
      sum_weights(operand(1), operand(0), 0);
    } else if (!launch().is<hg::Moments>() && !launch().is<hg::GradientSums>()) {
      const auto known = computed_by().find(launch().kind);
      expect(known != computed_by().end(), "a launch that nobody defined: ", launch().kind->name);
      const Field result = known->second(*this);
      if (launch().output >= 0) store(result);
    }
    const bool asked = launch().mask >= 0 || launch().statistics >= 0 || launch().sums >= 0;
    expect(launch().kind->common_output || !asked, "a mask or sums of a launch that writes its output itself");
    if (launch().statistics >= 0) gather_moments(plan_.affines[launch().statistics]);
    if (launch().sums >= 0) gather_sums(plan_.activations[launch().sums]);
  }

  /// So many things that the launch reads, as it sees them.
  std::vector<Field> operands(int first, int count) {
    std::vector<Field> values;
    for (int i = 0; i < count; ++i) values.push_back(operand(first + i));
    return values;
  }

  /// What the outputs of a convolution take of its input.
  Field taken(const Field& x) const {
    return gathered(x, points_[node().level], middle(node().window[2], points_of(x)));
  }
  Field convolution() {
    const Row& weight = parameter(0);
    return convolved(taken(operand(0)), weight, has_bias(node()) ? &parameter(1) : nullptr, node().channels);
  }
  Field convolution_gradient(bool both) {
    const Field slope = operand(0);
    const int points = points_[input_level()], channels = plan_.input_of(launch()).channels();
    expect(points_of(slope) == points_[node().level], "level of its gradient");
    if (both) sum_weights(slope, operand(1), first_channel());
    return of_source(
        gather_adjoint(convolution_adjoint(slope, parameter(0), channels), points, middle(node().window[2], points)));
  }

  /// partial: what it adds to, complete with itself at the earliest.
  const Field& read(hg::TensorId tensor, bool partial = false) const {
    bool declared = false;
    plan_.for_each_read(launch(), [&](hg::TensorId each) { declared |= each == tensor; });
    expect(declared, "undeclared read of t", tensor);
    const hg::StoredTensor& stored = plan_.tensors[tensor];
    if (stored.external) return at(tensor);
    const bool lives = stored.first_launch >= 0 && stored.first_launch <= now_ && now_ <= stored.last_launch;
    expect(lives, "reads t", tensor, " outside its lifetime");
    expect(partial || stored.last_write < now_, "reads t", tensor, " before it is complete");
    return at(tensor);
  }

  const hg::AffineTable& affine_of(hg::TensorId tensor, hg::AffineTableId affine) const {
    expect(affines_with_moments_.count(affine.number) > 0, "reads affine", affine, " before its statistics");
    const int origin = plan_.tensors[tensor].origin;  // the table of what is computed again is that of the first time
    expect(plan_.affines[affine].tensor.number == (origin < 0 ? tensor.number : origin), "affine", affine,
           " is not of t", tensor);
    return plan_.affines[affine];
  }

  Field value(const hg::Source& source, int level) const {
    if (const int map = plan_.tensors[source.tensor].map; map >= 0) return mapped_value(plan_.maps[map]);
    Field x = read(source.tensor);
    expect(channels_of(x) == source.channels, "channels of t", source.tensor);
    if (source.affine >= 0) {
      const hg::AffineTable& affine = affine_of(source.tensor, source.affine);
      x = normalised(x, affine, parameters_, affine.of_batch && !plan_.training);
    }
    x = activated(source.function, x);
    if (source.resampled)
      return gathered(x, points_[level], resampling(points_of(x), points_[level], source.linear, source.pads[2]));
    expect(plan_.tensors[source.tensor].level == level, "level of t", source.tensor);
    return x;
  }
  Field all_of(const hg::Value& value_of_node) const {
    Field result;
    for (const hg::Source& source : value_of_node.sources)
      for (const Row& row : value(source, value_of_node.level)) result.push_back(row);
    return result;
  }

  /// What nobody writes: the launch reads what it is made of.
  Field mapped_value(const hg::PointMap& map) const {
    std::vector<Field> values;
    for (int i = 0; i < map.count; ++i) values.push_back(all_of(plan_.values[map.inputs[i]]));
    for (int i = 0; i < map.parameters; ++i) {
      bool declared = false;
      plan_.for_each_parameter(launch(), [&](int parameter, bool) { declared |= parameter == map.parameter + i; });
      expect(declared && launch().form.map == map.functor, "a map that the launch does not declare");
    }
    return functors().at(map.functor)(values, map.parameters > 0 ? &parameters_[map.parameter] : nullptr);
  }

  /// Of the stored tensor, from that of an activation of it.
  Field gradient(hg::ActivationId index) const {
    const hg::Activation& activation = plan_.activations[index];
    expect(activation.gradient >= 0, "activation ", index, " has no gradient");
    Field result = read(activation.gradient);
    if (activation.affine < 0 && !activation.function) return result;
    const Field& x = read(activation.tensor);
    if (activation.affine < 0) return activation_adjoint(activation.function, result, x);
    expect(sums_.count(index.number) > 0, "reads the sums of activation ", index, " before they are there");
    const hg::AffineTable& affine = affine_of(activation.tensor, activation.affine);
    result = activation_adjoint(activation.function, result, normalised(x, affine, parameters_));
    return norm_adjoint(result, x, affine, parameters_);
  }

  Field& at(hg::TensorId tensor) { return tensors_[tensor.number]; }
  const Field& at(hg::TensorId tensor) const { return tensors_[tensor.number]; }

  void store(Field field) {
    const hg::TensorId to = launch().output, addend = launch().addend >= 0 ? launch().addend : to;
    const bool adds_to_output = launch().accumulate && addend == to;
    expect(!plan_.tensors[to].external, "writes the user's field");
    expect(adds_to_output || plan_.tensors[to].first_launch == now_, "overwrites t", to);
    expect_one_shape(field, at(to));
    if (launch().accumulate) field = added(field, read(addend, adds_to_output));
    if (launch().mask >= 0) field = activation_adjoint(launch().mask_function, field, read(launch().mask));
    at(to) = field;
  }

  void add_gradient_of(int owner, int parameter, int at, double value, bool again) {
    bool declared = false;
    plan_.for_each_parameter_gradient(launch(), [&](int each, int) { declared |= each == parameter; });
    expect(declared, "undeclared gradient of parameter ", parameter);
    expect(again || written_[parameter][at] != owner, "gradient of parameter ", parameter, " written twice");
    written_[parameter][at] = owner;
    gradient_[parameter][at] += value;
  }

  /// Of inputs from `first` on; with the first ones the bias's.
  void sum_weights(const Field& slope, const Field& input, int first) {
    const Field x = taken(input);
    const int weight = node().parameter, outputs = node().channels;
    const int inputs = static_cast<int>(parameters_[weight].size()) / outputs;
    const int groups = plan_.input_of(launch()).channels() / inputs;
    for (int k = 0; k < outputs; ++k) {
      const int of_group = k / (outputs / groups) * inputs;
      for (int c = 0; c < channels_of(x); ++c)
        if (const int of = first + c - of_group; of >= 0 && of < inputs)
          add_gradient(weight, k * inputs + of, (slope[k] * x[c]).sum());
      if (has_bias(node()) && first == 0) add_gradient(weight + 1, k, slope[k].sum());
    }
  }

  /// Whether the launch gathers sums of this tensor: it writes it, or it only reads it.
  bool sums(hg::TensorId tensor) const {
    return launch().output == tensor || (launch().output < 0 && launch().reads[0].tensor() == tensor);
  }
  void gather_moments(const hg::AffineTable& affine) {
    const hg::StoredTensor& stored = plan_.tensors[affine.tensor];
    expect(sums(affine.tensor) && stored.channels == affine.channels,
           "an affine that is neither of its output nor of what it reads");
    expect(stored.external || (launch().output < 0 ? stored.last_write < now_ : stored.last_write == now_),
           "statistics before t", affine.tensor, " is complete");
    affines_with_moments_.insert(launch().statistics.number);
  }

  /// Those of gamma and beta; norm_adjoint computes the sums over groups again.
  void gather_sums(const hg::Activation& activation) {
    const hg::AffineTable& affine = affine_of(activation.tensor, activation.affine);
    const int written = plan_.tensors[activation.gradient].last_write;
    expect(sums(activation.gradient), "sums of another gradient than t", activation.gradient);
    expect(launch().output < 0 ? written < now_ : written == now_, "sums before t", activation.gradient,
           " is complete");
    expect(sums_.insert(launch().sums.number).second, "sums of activation ", launch().sums, " twice");
    const Field& x = read(activation.tensor);
    const Field along = normal(x, affine);
    Field slope = at(activation.gradient);
    slope = activation_adjoint(activation.function, slope, normalised(x, affine, parameters_));
    const bool again = !affines_with_gradient_.insert(activation.affine.number).second;
    if (affine.parameter < 0) return;
    for (int c = 0; c < affine.channels; ++c) {
      add_gradient_of(affine.node + 1, affine.parameter, c, (slope[c] * along[c]).sum(), again);
      add_gradient_of(affine.node + 1, affine.parameter + 1, c, slope[c].sum(), again);
    }
  }

  hg::Plan plan_;  // views: what they look at outlives the run
  const Parameters& parameters_;
  const std::vector<Field>& cotangents_;
  std::vector<int> points_;  ///< of each level
  int now_ = 0;              ///< the launch that runs
  std::vector<Field> tensors_;
  std::set<int> affines_with_moments_, affines_with_gradient_, sums_;  ///< sums_: of activations
  Parameters gradient_, written_;                                      ///< written_: 1 + the node that wrote last
};

template <class F, int Values>
void PlanRun::define_map() {
  using Of = hg::detail::MapOf<F, Values>;
  constexpr int count = Of::parameters;
  definitions()[&Of::operation] = [](const hg::Node& node, const Parameters& parameters, const std::vector<Field>& x) {
    return mapped<F, Values>(F{}, x, count > 0 ? &parameters[node.parameter] : nullptr);
  };
  functors()[hg::detail::address_of_type<Of>] = [](const std::vector<Field>& x, const Row* parameters) {
    return mapped<F, Values>(F{}, x, parameters);
  };
  const auto parameters = [](PlanRun& run) { return count > 0 ? &run.parameter(0) : nullptr; };
  computed_by()[hg::kind_of<typename Of::Forward>()] = [=](PlanRun& run) {
    return mapped<F, Values>(F{}, run.operands(0, Values), parameters(run));
  };
  const auto slope = [=]<int I>(PlanRun& run, std::integral_constant<int, I>) {
    Field owed = run.operand(0);
    const auto partial = [](auto... x) { return hg::PartialOf<F, I>{}(x...); };
    const std::vector<Field> at = run.operands(1, Values);
    const Row* const of = parameters(run);
    for (int c = 0; c < channels_of(owed); ++c)
      for (int i = 0; i < points_of(owed); ++i)
        [&]<int... V, int... Q>(std::integer_sequence<int, V...>, std::integer_sequence<int, Q...>) {
          owed[c][i] *= partial(at[V][c][i]..., of[Q][c]...);
        }(std::make_integer_sequence<int, Values>{}, std::make_integer_sequence<int, count>{});
    return owed;
  };
  [&]<int... I>(std::integer_sequence<int, I...>) {
    ((computed_by()[hg::kind_of<typename Of::template Backward<I>>()] =
          [=](PlanRun& run) { return run.of_source(slope(run, std::integral_constant<int, I>{})); }),
     ...);
  }(std::make_integer_sequence<int, Values>{});
  [&]<int... Q>(std::integer_sequence<int, Q...>) {
    ((computed_by()[hg::kind_of<typename Of::template ParameterGradient<Q>>()] =
          [=](PlanRun& run) {
            const Field owed = slope(run, std::integral_constant<int, Values + Q>{});
            const int parameter = run.launch().parameters[count].parameter;
            for (int c = 0; c < channels_of(owed); ++c) run.add_gradient(parameter, c, owed[c].sum());
            return Field{};
          }),
     ...);
  }(std::make_integer_sequence<int, count>{});
}

/// In place of a function of fields: of the first value with points, in the opposite order, times 1 and the means of
/// the others; or the mean of its squares, where it makes a vector.
template <unsigned Vectors, bool MakesVector>
struct FieldsJoined {
  static constexpr int own = std::countr_one(Vectors);
  const std::vector<Field>& of;

  double factor(int c) const {
    double sum = 1;
    for (int v = 0; v < static_cast<int>(of.size()); ++v)
      if (v != own) sum += mean(of[v][c]);
    return sum;
  }
  Row turned(int c) const {
    Row row = of[own][c];
    std::reverse(std::begin(row), std::end(row));
    return row;
  }
  Field value() const {
    Field y;
    for (int c = 0; c < channels_of(of[own]); ++c)
      y.push_back(MakesVector ? Row(mean(of[own][c] * of[own][c]), 1) : factor(c) * turned(c));
    return y;
  }
  Field gradient(const Field& slope, int value) const {
    Field result = of[value];
    for (int c = 0; c < channels_of(result); ++c) {
      if (MakesVector) {
        result[c] *= 2 * slope[c][0] / points_of(result);
      } else if (value != own) {
        result[c] = (slope[c] * turned(c)).sum() / points_of(result);
      } else {
        result[c] = factor(c) * slope[c];
        std::reverse(std::begin(result[c]), std::end(result[c]));
      }
    }
    return result;
  }
};

template <class F, int Values, unsigned Vectors, bool MakesVector>
void PlanRun::define_function() {
  using Of = hg::detail::FunctionOf<F, Values, Vectors, MakesVector, false>;
  using Joined = FieldsJoined<Vectors, MakesVector>;
  definitions()[&Of::operation] = [](const hg::Node&, const Parameters&, const std::vector<Field>& x) {
    return Joined{x}.value();
  };
  computed_by()[hg::kind_of<typename Of::Forward>()] = [=](PlanRun& run) {
    return Joined{run.operands(0, Values)}.value();
  };
  [&]<int... I>(std::integer_sequence<int, I...>) {
    ((computed_by()[hg::kind_of<typename Of::template Backward<I>>()] =
          [=](PlanRun& run) {
            const Field slope = run.operand(0);
            const std::vector<Field> at = run.operands(1, Values);
            return run.of_source(Joined{at}.gradient(slope, I));
          }),
     ...);
  }(std::make_integer_sequence<int, Values>{});
}

template <int Part, int Parts>
void PlanRun::define_chunk() {
  using Of = hg::detail::ChunkOf<Part, 1, Parts>;
  definitions()[&Of::operation] = [](const hg::Node& node, const Parameters&, const std::vector<Field>& x) {
    return channels_from(Part * node.channels, node.channels, x[0]);
  };
  computed_by()[hg::kind_of<typename Of::Forward>()] = [](PlanRun& run) {
    return channels_from(Part * run.node().channels, run.node().channels, run.operand(0));
  };
  computed_by()[hg::kind_of<typename Of::Backward>()] = [](PlanRun& run) {
    const Field slope = run.operand(0);
    Field all(Parts * slope.size(), Row(points_of(slope)));
    std::copy(slope.begin(), slope.end(), all.begin() + Part * channels_of(slope));
    return run.of_source(all);
  };
}

}  // namespace support
