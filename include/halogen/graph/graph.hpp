// The flat graph that a model's forward makes: ordinary constexpr values, one node for each call of a layer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <string_view>

#include "halogen/core/static_vector.hpp"
#include "halogen/core/tensor_view.hpp"
#include "halogen/graph/misfit.hpp"
#include "halogen/graph/point_numbers.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen {

/// One resolution of a network. Its extents and cuts are those of the level `parent`, seen through a window in depth,
/// height and width. Windows that make the same extents and cuts of any input make the same level of one parent.
///
/// A level that is `whole` has no points: a tensor of it is a vector for each sample, equal on all ranks that share the
/// sample's points. The gradient of a vector is complete on each of these ranks too.
struct Level {
  int parent = -1;
  Window window[spatial_dimensions];
  bool whole = false;
};

class Planner;
struct Node;

/// What a layer's file tells the planner: how to compute the layer and its adjoint. Anybody may make one. An operation
/// without an adjoint does not compile.
struct Operation {
  using Emits = void (*)(Planner&, const Node&);

  constexpr Operation(const char* called, Emits emits_forward, Emits emits_vjp, bool with_next = false,
                      bool maps = false)
      : name(called), forward(emits_forward), vjp(emits_vjp), read_with_next(with_next), reads_maps(maps) {}

  const char* name;
  Emits forward, vjp;
  bool read_with_next;  ///< the layers that read its result compute it, so its parameters are read together with theirs
  bool reads_maps;      ///< its launches can compute a map of points as they read rows (LaunchAt::windowed_value<F>)
};

/// Base of what an operation needs to know of one of its layers, in addition to windows and channels. An operation
/// derives its own type from this one. The layer's type has a static object of that type, and the node holds the
/// object's address.
struct Constants {};

/// One input of a model's forward: how many channels it has and what they mean (graph/traced_inputs.hpp).
struct InputShape {
  int channels = 0;
  bool whole = false;    ///< a vector for each sample
  bool integer = false;  ///< indices, so no arithmetic is done with them and they have no gradient
  bool gradient = true;  ///< whether the plan computes its gradient, if it computes gradients of inputs
};

struct Node {
  const Operation* operation = nullptr;  ///< null for the graph's inputs
  const Constants* constants = nullptr;
  int index = 0;
  int inputs[4] = {-1, -1, -1, -1};
  int channels = 0;
  int level = 0;
  int layer = -1;              ///< the layer's number in forward order, for messages
  int parameter = -1;          ///< the first of its parameters (weight, bias)
  bool in_evaluation = false;  ///< it computes in training what it computes in inference (layers/in_evaluation.hpp)
  int segment = 0;             ///< of which Checkpoint it is part, from 1 on; 0: of none (layers/checkpoint.hpp)
  Window window[spatial_dimensions];

  /// The operation's own constants.
  template <class Own>
  constexpr const Own& as() const {
    return static_cast<const Own&>(*constants);
  }
};

/// One named tensor in the flat array of parameters.
struct ParameterShape {
  index_t offset = 0, count = 0;
  int shape[2 + spatial_dimensions] = {};
  int rank = 0;
  enum class Start { uniform, normal, ones, zeros, constant } start = Start::uniform;
  int fan_in = 1;
  double constant = 0;    ///< the value of each element at the start, for Start::constant
  double deviation = 1;   ///< for Start::normal
  bool buffer = false;    ///< kept and stored like a parameter, but no optimiser trains it; the model may write it
  PointNumbers points{};  ///< if it lies on a field

  constexpr bool is_like(const ParameterShape& other) const {
    return rank == other.rank && buffer == other.buffer && std::ranges::equal(shape, other.shape) &&
           (points == other.points || !points.stand() || !other.points.stand());
  }
};

/// A learned number for each channel that a functor of points reads (layers/functions/map.hpp,
/// layers/functions/stencil.hpp).
struct ChannelParameter {
  const char* name;
  ParameterShape::Start start = ParameterShape::Start::ones;  ///< uniform: in [-1, 1)
  double value = 0;                                           ///< for Start::constant
  int trailing = 0;     ///< extents of 1 after the channels in its shape, as files of other libraries have them
  bool shared = false;  ///< one number for all channels
};

/// One step of the path that names a parameter: a name, or an index if the step has no name.
struct PathStep {
  std::string_view name;
  int index = 0;
  int children = 0;               ///< how many children were named by the order of their calls so far
  int layer = -1;                 ///< the layer that last added or took a parameter here
  bool takes = false;             ///< this layer takes the parameters that an earlier layer of the same name added
  const char* written = nullptr;  ///< identifies the layer's type (core/type_of.hpp)
};

/// An enclosing layer that freezes parameters: those whose names `chosen` takes are not trained. The names that it sees
/// begin at path[from].
struct FrozenNames {
  bool (*chosen)(std::string_view) = nullptr;
  int from = 0;
  bool holds = false;  ///< it has chosen some parameter so far
};

/// Receives the names of the parameters while a model is traced, one after the other, each ended by a 0. Without `text`
/// only their size is counted.
struct ParameterNames {
  char* text = nullptr;
  std::size_t size = 0;

  constexpr void push(char letter) {
    if (text != nullptr) text[size] = letter;
    ++size;
  }
};

/// What a graph has in addition to its tables.
struct GraphNumbers {
  int outputs = 1;
  int output[most_outputs] = {};  ///< nodes
  int inputs = 1;                 ///< the inputs are the first nodes
  InputShape input[most_inputs];
  int layers = 0;
  int windows = 0;              ///< how many dimensions its windows have, 1 to 3; 0: it has none and takes any field
  index_t parameter_count = 0;  ///< values that are trained; they come first in the flat array
  index_t buffer_count = 0;     ///< values of buffers; they come after the trained ones
  bool draws = false;           ///< some layer draws random numbers in training
  bool evaluates = false;       ///< some layer evaluates expressions of fields
  int segments = 0;             ///< how many Checkpoints it has (Node::segment)
  Misfit misfit;
};

/// Table is GrowingTable while a graph is made, and TableView for a finished graph with tables of exact size.
template <template <class> class Table>
struct BasicGraph : GraphNumbers {
  Table<Node> nodes;
  Table<Level> levels;
  Table<ParameterShape> parameters;

  /// The parameter tensor that holds this value of the flat array. `near` is tried first.
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

/// The graph of a model: views of static tables (trace.hpp) or of a draft's tables.
using Graph = BasicGraph<TableView>;

struct Traced;

/// A graph while a model's forward adds nodes to it.
struct GraphDraft : BasicGraph<GrowingTable> {
  GrowingTable<PathStep> path;
  GrowingTable<int> skips;             ///< the inputs of the enclosing SkipConcats
  GrowingTable<std::uint64_t> hashes;  ///< of the parameters' names
  GrowingTable<FrozenNames> frozen;    ///< the enclosing layers that freeze parameters
  bool in_evaluation = false;          ///< the nodes that are added are (Node::in_evaluation)
  int segment = 0;                     ///< of the nodes that are added (Node::segment)
  ParameterNames* names = nullptr;     ///< where the names go; null if nobody wants them

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

  /// Call this before any layer is added. The new input has the points of the first input, or it is a vector for each
  /// sample of the first.
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
    node.in_evaluation = in_evaluation;
    node.segment = segment;
    return nodes.push(node);
  }

  /// Refuses the model: the layer that is called now makes a mistake, which the type Why names (graph/misfit.hpp). Why
  /// has the layer's number and as many more numbers as are given. Only the first mistake of a model is kept.
  template <template <int, class, class> class Why>
  constexpr void refuse(int layer) {
    note(refusal<Why>(), layer, 0, 0);
  }
  template <template <int, int, class, class> class Why>
  constexpr void refuse(int layer, int first) {
    note(refusal<Why>(), layer, first, 0);
  }
  template <template <int, int, int, class, class> class Why>
  constexpr void refuse(int layer, int first, int second) {
    note(refusal<Why>(), layer, first, second);
  }

  /// Notes that `layer` has windows of so many dimensions. All windows of a model must have equally many.
  constexpr void slide(int dimensions, int layer) {
    if (windows == 0) windows = dimensions;
    if (windows != dimensions) refuse<why::windows_differ>(layer, dimensions, windows);
  }

  /// The level that `parent` becomes through these windows. It is the parent itself if no extent can change. Windows
  /// that make the same extents and cuts of any input lead to one level. So a window after a pad leads to the same
  /// level as a window that has as much padding itself.
  constexpr int level_through(int parent, const Window (&windows)[spatial_dimensions]) {
    Level level;
    level.parent = parent;
    bool keeps = true, plain = true;
    Window wider[spatial_dimensions];  // if parent is padded: windows and pad together, as seen from what was padded
    for (int d = 0; d < spatial_dimensions; ++d) {
      const Window& window = windows[d];
      keeps = keeps && window.outputs == 0 && window.stride == 1 &&
              window.padding_of_both() == window.span() - 1 + window.output_padding;
      plain = plain && window.outputs == 0 && !window.transposed && !window.is_pad() && !window.ceil;
      level.window[d] = window.of_extents();
      wider[d] = window;
      wider[d].padding += levels[parent].window[d].padding;
      wider[d].more_padding += levels[parent].window[d].more_padding;
    }
    if (levels[parent].whole && (!keeps || std::ranges::any_of(windows, [](const Window& w) { return w.kernel > 1; })))
      refuse<why::vector_has_no_points>(layers - 1);
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

  /// The level of vectors. A model has only one.
  constexpr int vectors() {
    for (int i = 0; i < levels.size(); ++i)
      if (levels[i].whole) return i;
    Level level;
    level.parent = 0;
    level.whole = true;
    return levels.push(level);
  }

  /// Refuses x if it is a vector, because `layer` reads points.
  constexpr void need_points(Traced x, int layer);

  /// Adds a parameter tensor, named by the layer and its role. If a layer of the same name added this tensor before, it
  /// is shared, as in torch.nn.Module when a module is called twice. The two layers must then share all their tensors,
  /// with the same shapes; else the model is refused.
  constexpr int add_parameter(const char* role, ParameterShape parameter) {
    for (FrozenNames& names_of : frozen) parameter.buffer |= freezes(names_of, role);
    parameter.count = 1;
    for (int i = 0; i < parameter.rank; ++i) parameter.count *= parameter.shape[i];
    const std::uint64_t hash = spell(role, 1, nullptr);
    const std::uint64_t* found = hashes.begin();  // by hand: a call of std::find takes compilers many steps
    while (found != hashes.end() && *found != hash) ++found;
    const auto same = static_cast<int>(found - hashes.begin());
    PathStep& step = path.back();
    const bool takes = same < hashes.size();
    if ((step.layer == layers && takes != step.takes) || (takes && !parameters[same].is_like(parameter)))
      refuse<why::weights_differ>(layers - 1);
    step.layer = layers, step.takes = takes;
    if (takes && parameter.points.stand()) parameters[same].points = parameter.points;  // a token may have come first
    if (takes) return same;
    hashes.push(hash);
    index_t& before = parameter.buffer ? buffer_count : parameter_count;
    parameter.offset = before;
    before += parameter.count;
    if (names != nullptr) spell(role, 1, names);
    return parameters.push(parameter);
  }

  /// Moves the buffers to the end of the flat array, after all parameters.
  constexpr void place_buffers() {
    for (ParameterShape& parameter : parameters)
      if (parameter.buffer) parameter.offset += parameter_count;
  }

 private:
  constexpr void note(const char* why, int layer, int first, int second) {
    if (misfit.why != nullptr) return;
    misfit = {why, layer, first, second, path.back().written};
    for (int i = 1; i < path.size() && misfit.depth < 16; ++i) misfit.path[misfit.depth++] = path[i].index;
  }

  /// Whether the level belongs to a padded field.
  constexpr bool is_pad(int level) const { return std::ranges::any_of(levels[level].window, &Window::is_pad); }

  constexpr bool freezes(FrozenNames& by, std::string_view role) {
    ParameterNames name;
    spell(role, by.from, &name);  // only counts the letters
    char text[256]{};
    if (name.size > sizeof text) throw std::length_error("a parameter's name has over 255 characters");
    name = {text};
    spell(role, by.from, &name);
    const bool is_chosen = by.chosen(std::string_view(text, name.size - 1));
    by.holds |= is_chosen;
    return is_chosen;
  }

  /// Spells the name of a parameter of the current layer, beginning at path[from]. Writes it to `to` unless that is
  /// null, and returns its hash (FNV-1a).
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

/// A value while a model is traced: it names a node of the graph. Layers take such values and return one.
struct Traced {
  GraphDraft* graph;
  int node;

  constexpr const Node& operator*() const { return graph->nodes[node]; }
};

/// The same for an input that holds integers. Only Embedding and TimeEmbedding take it; both return a Traced.
struct TracedIndices {
  GraphDraft* graph;
  int node;

  constexpr const Node& operator*() const { return graph->nodes[node]; }
};

constexpr void GraphDraft::need_points(Traced x, int layer) {
  if (levels[(*x).level].whole) refuse<why::vector_has_no_points>(layer);
}

}  // namespace halogen
