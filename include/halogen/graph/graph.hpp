// The flat graph that a model appends itself to: ordinary constexpr values, one node a layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "halogen/core/static_vector.hpp"
#include "halogen/core/tensor_view.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen {

#ifndef HALOGEN_GRAPH_CAPACITY
#define HALOGEN_GRAPH_CAPACITY 384
#endif
/// Most nodes, and half of the most parameters, of one model; a larger model defines HALOGEN_GRAPH_CAPACITY.
inline constexpr int graph_capacity = HALOGEN_GRAPH_CAPACITY;

/// One resolution: extents and cuts of `parent` seen through a window in depth, height and width.
/// Windows on one parent that make the same extents and cuts of any input make one level.
/// Or none at all: a tensor of a `whole` level is a vector for each sample, equal on all ranks that share the sample's
/// points. So is its gradient, which is complete on each of them.
struct Level {
  int parent = -1;
  Window window[spatial_dimensions];
  bool whole = false;
};

class Planner;
struct Node;

/// What a layer's file says of its layer: how the planner computes it, and its adjoint. Anybody may make one. Without
/// an adjoint it does not compile.
struct Operation {
  using Emits = void (*)(Planner&, const Node&);

  constexpr Operation(const char* called, Emits emits_forward, Emits emits_vjp, bool with_next = false,
                      bool maps = false)
      : name(called), forward(emits_forward), vjp(emits_vjp), read_with_next(with_next), reads_maps(maps) {}

  const char* name;
  Emits forward, vjp;
  bool read_with_next;  ///< its readers compute it, so its parameters are read together with theirs
  bool reads_maps;      ///< its launches can compute a map of points as rows enter them (LaunchAt::windowed_value<F>)
};

/// Base of what an operation knows of one of its layers beside its windows and channels. An operation derives a type of
/// its own; a static object of it belongs to the layer's type, and the node holds its address.
struct Constants {};

/// What a model is given in one place of its forward (graph/inputs.hpp).
struct InputShape {
  int channels = 0;
  bool whole = false;    ///< a vector for each sample
  bool integer = false;  ///< indices: no arithmetic, no gradient
  bool gradient = true;  ///< where the plan wants those of inputs
};

struct Node {
  const Operation* operation = nullptr;  ///< null for the graph's inputs
  const Constants* constants = nullptr;
  int index = 0;
  int inputs[3] = {-1, -1, -1};
  int channels = 0;
  int level = 0;
  int layer = -1;      ///< position in forward order, for messages
  int parameter = -1;  ///< first of its parameters (weight, bias)
  Window window[spatial_dimensions];

  /// The operation's own constants.
  template <class Own>
  constexpr const Own& as() const {
    return static_cast<const Own&>(*constants);
  }
};

/// One named tensor inside the flat parameter array.
struct ParameterShape {
  index_t offset = 0, count = 0;
  int shape[2 + spatial_dimensions] = {};
  int rank = 0;
  enum class Start { uniform, normal, ones, zeros, constant } start = Start::uniform;
  int fan_in = 1;
  double constant = 0;   ///< all of them start as it
  double deviation = 1;  ///< of Start::normal
  bool buffer = false;   ///< kept and stored as a parameter, but no optimiser trains it: the model writes it, or nobody

  constexpr bool is_like(const ParameterShape& other) const {
    return rank == other.rank && buffer == other.buffer && std::ranges::equal(shape, other.shape);
  }
};

/// A number for each channel that a functor of points learns (layers/map.hpp, layers/stencil.hpp).
struct ChannelParameter {
  const char* name;
  ParameterShape::Start start = ParameterShape::Start::ones;  ///< uniform: in [-1, 1)
  double value = 0;                                           ///< of Start::constant
  int trailing = 0;  ///< extents of 1 behind the channels in its shape, as files of other libraries have them
};

/// The first thing in a model that does not fit, as a value; lifted to a why:: tag at the model's use.
struct Misfit {
  enum class Kind {
    none,
    channels_differ,
    groups_do_not_divide,
    upsample_without_skip,
    levels_differ,
    windows_differ,
    vector_has_no_points,
    weights_differ,
    nothing_is_frozen
  } kind{};
  int layer = 0, first = 0, second = 0;
  const char* written = nullptr;  ///< stands for the layer's type (core/type_of.hpp)
  int depth = 0, path[16]{};      ///< positions in the containers around it, the outermost first
};

/// One step of the path that names a parameter: a name, or an index where there is none.
struct PathStep {
  std::string_view name;
  int index = 0;
  int children = 0;               ///< how many were named by their order of call so far
  int layer = -1;                 ///< that added or took a parameter last
  bool takes = false;             ///< that layer takes those which another of its name added
  const char* written = nullptr;  ///< stands for the layer's type (core/type_of.hpp)
};

/// An enclosing layer whose parameters are not trained if `chosen` takes their names, which begin at path[from].
struct FrozenNames {
  bool (*chosen)(std::string_view) = nullptr;
  int from = 0;
  bool holds = false;  ///< some parameter so far
};

/// Where the names of parameters go while a model is traced, each behind the last and ended by a 0. Without `text` they
/// are counted alone.
struct ParameterNames {
  char* text = nullptr;
  std::size_t size = 0;

  constexpr void push(char letter) {
    if (text != nullptr) text[size] = letter;
    ++size;
  }
};

/// What a graph is beside its tables.
struct GraphNumbers {
  int outputs = 1;
  int output[most_outputs] = {};  ///< nodes
  int inputs = 1;                 ///< its first nodes
  InputShape input[most_inputs];
  int layers = 0;
  int windows = 0;              ///< dimensions of its windows, 1 to 3; 0 where it has none and takes any field
  index_t parameter_count = 0;  ///< values that are trained, the first of the flat array
  index_t buffer_count = 0;     ///< values behind them
  bool draws = false;           ///< some layer draws random numbers in training
  bool evaluates = false;       ///< some layer evaluates expressions of fields
  Misfit misfit;
};

/// Table is StaticVector where a graph is made, and TableView where it stands at its exact size.
template <template <class, int> class Table>
struct BasicGraph : GraphNumbers {
  Table<Node, graph_capacity> nodes;
  Table<Level, 64> levels;
  Table<ParameterShape, 2 * graph_capacity> parameters;

  /// The parameter tensor of a value of the flat array; `near` is looked at first.
  constexpr int parameter_at(index_t value, int near = 0) const {
    const auto holds = [&](int p) {
      return value >= parameters[p].offset && value < parameters[p].offset + parameters[p].count;
    };
    if (!holds(near))
      for (near = 0; !holds(near);) ++near;
    return near;
  }
  constexpr bool is_vector(int node) const { return levels[nodes[node].level].whole; }
  constexpr bool is_output(int node) const { return std::find(output, output + outputs, node) != output + outputs; }
};

/// The graph of a model: views of static tables (trace.hpp), or of a draft's.
using Graph = BasicGraph<TableView>;

struct Traced;

/// A graph while a model appends itself to it.
struct GraphDraft : BasicGraph<StaticVector> {
  StaticVector<PathStep, 32> path;
  StaticVector<int, 32> skips;                             ///< enclosing SkipConcats' inputs
  StaticVector<std::uint64_t, 2 * graph_capacity> hashes;  ///< of the parameters' names
  StaticVector<FrozenNames, 8> frozen;                     ///< the layers around what comes
  ParameterNames* names = nullptr;                         ///< where they are wanted

  constexpr operator Graph() const& {  // NOLINT: a draft is read as any graph, while it lives
    return {*this, nodes, levels, parameters};
  }
  operator Graph() const&& = delete;

  constexpr explicit GraphDraft(int input_channels) {
    levels.push({});
    path.push({});
    inputs = 0;
    add_input({input_channels});
  }

  /// Before any layer. On the points of the first, or a vector for each of its samples.
  constexpr int add_input(const InputShape& shape) {
    input[inputs++] = shape;
    Node node;
    node.channels = shape.channels;
    node.level = shape.whole ? vectors() : 0;
    return add(node);
  }

  constexpr int next_layer() { return layers++; }

  constexpr int add(Node node) {
    node.index = nodes.size();
    return nodes.push(node);
  }

  constexpr void refuse(Misfit::Kind kind, int layer, int first = 0, int second = 0) {
    if (misfit.kind != Misfit::Kind::none) return;
    misfit = {kind, layer, first, second, path.back().written};
    for (int i = 1; i < path.size() && misfit.depth < 16; ++i) misfit.path[misfit.depth++] = path[i].index;
  }

  /// `layer` has windows of so many dimensions, as all of a model must.
  constexpr void slide(int dimensions, int layer) {
    if (windows == 0) windows = dimensions;
    if (windows != dimensions) refuse(Misfit::Kind::windows_differ, layer, dimensions, windows);
  }

  /// The level seen from `parent` through the windows; the parent itself where no extent can change. Windows that make
  /// the same extents and cuts of any input lead to one level; one behind a pad to that of a window which pads as much.
  constexpr int level_through(int parent, const Window (&windows)[spatial_dimensions]) {
    Level level;
    level.parent = parent;
    bool keeps = true, plain = true;
    Window wider[spatial_dimensions];  // where parent is padded, the same seen from what was padded
    for (int d = 0; d < spatial_dimensions; ++d) {
      const Window& window = windows[d];
      keeps = keeps && window.outputs == 0 && window.stride == 1 &&
              window.padding_of_both() == window.footprint() - 1 + window.output_padding;
      plain = plain && window.outputs == 0 && !window.transposed && !window.is_pad() && !window.ceil;
      level.window[d] = window.of_extents();
      wider[d] = window;
      wider[d].padding += levels[parent].window[d].padding;
      wider[d].more_padding += levels[parent].window[d].more_padding;
    }
    if (levels[parent].whole && (!keeps || std::ranges::any_of(windows, [](const Window& w) { return w.kernel > 1; })))
      refuse(Misfit::Kind::vector_has_no_points, layers - 1);
    if (keeps) return parent;
    if (plain && is_pad(parent)) return level_through(levels[parent].parent, wider);
    const auto is_same = [&](const Level& other) {
      bool same = other.parent == parent;
      for (int d = 0; d < spatial_dimensions; ++d) same = same && other.window[d].makes_extents_of(level.window[d]);
      return same;
    };
    for (int i = 1; i < levels.size(); ++i)
      if (is_same(levels[i])) return i;
    return levels.push(level);
  }

  /// The level of vectors, one for all that a model makes.
  constexpr int vectors() {
    for (int i = 0; i < levels.size(); ++i)
      if (levels[i].whole) return i;
    Level level;
    level.parent = 0;
    level.whole = true;
    return levels.push(level);
  }

  /// A layer that reads points, of a value that has some.
  constexpr void need_points(Traced x, int layer);

  /// Under the name of the layer and its role. A second call of that name takes the tensor that the first added, as
  /// torch.nn.Module does where it is called twice: all tensors of the layer, of the same shapes, or it is refused.
  constexpr int add_parameter(const char* role, ParameterShape parameter) {
    for (FrozenNames& names_of : frozen) parameter.buffer |= freezes(names_of, role);
    parameter.count = 1;
    for (int i = 0; i < parameter.rank; ++i) parameter.count *= parameter.shape[i];
    const std::uint64_t hash = spell(role, 1, nullptr);
    const auto same = static_cast<int>(std::find(hashes.begin(), hashes.end(), hash) - hashes.begin());
    PathStep& step = path.back();
    const bool takes = same < hashes.size();
    if ((step.layer == layers && takes != step.takes) || (takes && !parameters[same].is_like(parameter)))
      refuse(Misfit::Kind::weights_differ, layers - 1);
    step.layer = layers, step.takes = takes;
    if (takes) return same;
    hashes.push(hash);
    index_t& before = parameter.buffer ? buffer_count : parameter_count;
    parameter.offset = before;
    before += parameter.count;
    if (names != nullptr) spell(role, 1, names);
    return parameters.push(parameter);
  }

  /// Buffers stand behind all parameters.
  constexpr void place_buffers() {
    for (ParameterShape& parameter : parameters)
      if (parameter.buffer) parameter.offset += parameter_count;
  }

 private:
  /// Whether a level is that of a padded field.
  constexpr bool is_pad(int level) const { return std::ranges::any_of(levels[level].window, &Window::is_pad); }

  constexpr bool freezes(FrozenNames& by, std::string_view role) {
    ParameterNames name;
    spell(role, by.from, &name);  // counted
    char text[256]{};
    if (name.size > sizeof text) throw std::length_error("a parameter's name has over 255 characters");
    name = {text};
    spell(role, by.from, &name);
    const bool is_chosen = by.chosen(std::string_view(text, name.size - 1));
    by.holds |= is_chosen;
    return is_chosen;
  }

  /// The name of a parameter of the layer at hand, from path[from] on, written where it is wanted; returns its hash
  /// (FNV-1a).
  constexpr std::uint64_t spell(std::string_view role, int from, ParameterNames* to) const {
    std::uint64_t hash = 14695981039346656037U;
    const auto put = [&hash, to](char letter) {
      hash = (hash ^ static_cast<std::uint64_t>(letter)) * 1099511628211U;
      if (to != nullptr) to->push(letter);
    };
    for (int i = from; i < path.size(); ++i) {
      int digit = 1;
      while (path[i].index / digit >= 10) digit *= 10;
      for (; path[i].name.empty() && digit > 0; digit /= 10) put(static_cast<char>('0' + path[i].index / digit % 10));
      for (const char letter : path[i].name) put(letter);
      put('.');
    }
    for (const char letter : role) put(letter);
    if (to != nullptr) to->push('\0');
    return hash;
  }
};

/// A value while a model is traced: a node of the graph. Layers take one and return one.
struct Traced {
  GraphDraft* graph;
  int node;

  constexpr const Node& operator*() const { return graph->nodes[node]; }
};

/// The same of an input that holds integers: Embedding and TimeEmbedding make a Traced of it, and nothing else does.
struct TracedIndices {
  GraphDraft* graph;
  int node;

  constexpr const Node& operator*() const { return graph->nodes[node]; }
};

constexpr void GraphDraft::need_points(Traced x, int layer) {
  if (levels[(*x).level].whole) refuse(Misfit::Kind::vector_has_no_points, layer);
}

}  // namespace halogen
