// Function<F>: a layer of one to four values that is a function of fields in the array language, with gradients.
//
//   struct Attend {
//     template <class Q, class K, class V>
//     auto operator()(const Q& q, const K& k, const V& v) const { return ...; }      // an expression of fields
//   };
//   hg::Function<Attend>{}(q, k, v)
//
//   values: (N, C, H, W), or as many dimensions as the model's image has. f takes them as expressions with the
//   placements of the image. Options name the values that are vectors (N, C): they are placed as the image's batch, and
//   Replicate elsewhere. At least one value has points. -> y: the result of f. In batch and space it has the extents
//   and cuts of the first value with points. It has the channels of the first value, or as many as the option
//   Channels<C> says. With ToVector it is a vector (N, C)
//
//   placements: as f has them; y is placed as the image or as a vector, other results do not compile. Collectives and
//   halo: forward those of f; backward those of f again, and those of its gradient. f holds no state.
// With Draws f takes a std::optional<Generator> before the values, for the random numbers of this node in this step. It
// is the same forward and backward and on all ranks. In inference it is empty.
//
// Dry runs count what f sends and allocates if F has static TrafficUse traffic(const FunctionPlace&, bool backward) and
// static index_t memory(const FunctionPlace&). explain adds what static std::string words(const FunctionPlace&) says.
//
// f reads the stored values and writes the stored y, without a copy. Values that are normalised, activated, resampled
// or concatenated are written out first, and so are all vectors. Backward computes f again, and all its gradients at
// once. A Function is not captured on a device, because an expression may allocate. Errors: CollectiveError if the
// result of f has other extents; why::levels_differ if values have other resolutions, or are vectors, and options do
// not say so.
#pragma once

#include <bit>
#include <tuple>

#include "halogen/autograd/gradient.hpp"
#include "halogen/layers/functions/function_fields.hpp"
#include "halogen/layers/functions/function_launches.hpp"
#include "halogen/layers/functions/function_options.hpp"
#include "halogen/layers/functions/functor.hpp"
#include "halogen/run/view_of.hpp"

namespace halogen {

namespace detail {

/// The gradients of a node that backward has computed, kept until the last of its launches has taken its share.
template <class... Fields>
struct FunctionGradients {
  std::tuple<Fields...> of;
  int launches = 0;
};

/// The launch types of a function of this number of values. Vectors: as in FunctionOptions.
template <class F, int Values, unsigned Vectors, bool MakesVector, bool Draws>
struct FunctionOf {
  static_assert(Vectors < (1U << Values) - 1, "TakesVectors: at least one value of a Function has points");
  static constexpr bool is_vector(int value) { return (Vectors >> value & 1U) != 0; }
  static constexpr bool makes_vector = MakesVector;
  /// The first value that has points.
  static constexpr int with_points = std::countr_one(Vectors);

  template <class Context, class S, bool Vector>
  using FieldIn = std::conditional_t<Vector, typename fields_like<typename Context::field_type, S>::vector,
                                     typename fields_like<typename Context::field_type, S>::type>;
  using Numbers = std::make_integer_sequence<int, Values>;

  /// Vectors as a launch reads them, as a field.
  template <class Field, class S, class Reader>
  static Field field_of_vectors(const LaunchAt<S>& at, const DeviceMesh<typename Field::mesh_type>& mesh, int level,
                                int channels, const Reader& reader) {
    const Field field(Field::make_shape(mesh, at.layout().template field_cuts<Field::rank>(level, channels)),
                      Field::Start::unwritten);
    StoredTensor like;
    like.channels = channels, like.level = level;
    at.write_field("halogen::function_vectors", kernels::CopyRows<S, Reader>{reader}, view_of(field), like);
    return field;
  }

  /// Value I. It is the launch's operand `first` + I.
  template <int I, class S, class Context>
  static auto value(const LaunchAt<S>& at, const Context& context, int first) {
    using Field = FieldIn<Context, S, is_vector(I)>;
    if constexpr (is_vector(I)) {
      const Value& value = at.plan().values[at.launch().reads[first + I].value()];
      return field_of_vectors<Field>(at, context.mesh, value.level, value.channels(), at.value(first + I));
    } else {
      return field_over<Field>(at, context.mesh, at.tensor_of(first + I));
    }
  }
  /// All values, starting at operand `first`.
  template <class S, class Context>
  static auto values(const LaunchAt<S>& at, const Context& context, int first) {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return std::tuple(value<I>(at, context, first)...);
    }(Numbers{});
  }

  /// The result of f for values.
  template <class S, class... E>
  static auto called(const LaunchAt<S>& at, const E&... e) {
    if constexpr (Draws)
      return as_expression(F{}(generator_of(at.random()), e...));
    else
      return as_expression(F{}(e...));
  }

  /// The place of a launch. Its operands are the values, starting at operand `first`.
  static FunctionPlace place_of(const Layout& layout, const Launch& launch, int first) {
    FunctionPlace place{layout, {}, {}};
    for (int i = 0; i < Values; ++i) {
      const Value& value = layout.plan().values[launch.reads[first + i].value()];
      place.level[static_cast<std::size_t>(i)] = value.level;
      place.channels[static_cast<std::size_t>(i)] = value.channels();
    }
    return place;
  }
  /// What f sends forward, or its gradients backward, as F says; nothing if F does not say it.
  static TrafficUse traffic_of(const FunctionPlace& place, bool backward) {
    if constexpr (requires { F::traffic(place, backward); })
      return F::traffic(place, backward);
    else
      return {};
  }

  static index_t memory_of(const FunctionPlace& place) {
    if constexpr (requires { F::memory(place); }) return F::memory(place);
    return 0;
  }
  static std::string words_of(const FunctionPlace& place) {
    if constexpr (requires { F::words(place); }) return F::words(place);
    return {};
  }

  struct Forward {
    static std::string words(const Layout& layout, const Launch& launch) {
      return words_of(place_of(layout, launch, 0));
    }
    static TrafficUse traffic(const Layout& layout, const Launch& launch) {
      return traffic_of(place_of(layout, launch, 0), false);
    }
    static index_t memory(const Layout& layout, const Launch& launch) { return memory_of(place_of(layout, launch, 0)); }
    static constexpr const char* label = "halogen::function";
    static constexpr bool common_output = false;
    template <class S, class Context>
    static void evaluate(const LaunchAt<S>& at, Context& context) {
      at.hand_over();
      const auto fields = values(at, context, 0);
      const EvaluationScope scope;
      const auto expression = std::apply(
          [&](const auto&... field) {
            return called(at, FieldLeaf<std::decay_t<decltype(field)>>(field, "Function")...);
          },
          fields);
      if constexpr (MakesVector)
        write_vector(at, context, label, expression);
      else
        write_checked(field_over<FieldIn<Context, S, false>>(at, context.mesh, at.launch().output), expression);
    }
  };

  /// Writes the output, a vector of each sample.
  template <class S, class Context, class E>
  static void write_vector(const LaunchAt<S>& at, const Context& context, const char* label, const E& expression) {
    using Field = FieldIn<Context, S, true>;
    const Field result(
        Field::make_shape(context.mesh, at.layout().template field_cuts<2>(at.node().level, at.node().channels)),
        Field::Start::unwritten);
    write_checked(result, expression);
    at.write_vectors(label, vectors_of(at, result, 0));
  }

  /// Vectors of a field as rows, starting at a channel.
  template <class S, class Field>
  static auto vectors_of(const LaunchAt<S>& at, const Field& field, int first) {
    return kernels::CopyRows<S, kernels::ValueReader<S>>{
        at.reader_of_vectors(view_of(field), static_cast<int>(field.extent(1))), first};
  }

  template <class Field, class E>
  static void write_checked(const Field& result, const E& expression) {
    if constexpr (std::is_same_v<typename E::placed, typename FieldLeaf<Field>::placed>) {
      check_extents(result, expression);
      write_values(result, result.storage(), expression);
    } else {
      static_assert(sizeof(E) == 0,
                    "function_is_placed_otherwise: a Function returns an expression placed as the model's image, or "
                    "with ToVector as a vector of each sample");
    }
  }
  template <class Field, class E>
  static void check_extents(const Field& result, const E& expression) {
    for (int d = 0; d < Field::rank; ++d)
      if (stored_extent(expression, d) != result.extent(d))
        throw CollectiveError(
            "a Function makes " + std::to_string(stored_extent(expression, d)) + " points in dimension " +
            std::to_string(d) + " where " + std::to_string(result.extent(d)) +
            " are expected: return the first value's extents, and say Channels<C> for other channels");
  }

  template <int Index>
  struct Backward {
    using All = BackwardLaunches<Values, Backward>;
    /// The first of a node's launches computes everything: f again, then the gradients.
    static TrafficUse traffic(const Layout& layout, const Launch& launch) {
      if (!All::is_first(layout.plan(), launch)) return {};
      const FunctionPlace place = place_of(layout, launch, 1);
      TrafficUse use = traffic_of(place, false);
      use += traffic_of(place, true);
      return use;
    }
    static constexpr const char *label = "halogen::function_backward", *suffix = " backward";
    template <class S, class Context>
    static void evaluate(const LaunchAt<S>& at, Context& context) {
      All::take_share(
          at, context, [&] { return gradients(at, context); },
          [&](const auto& found) { write_gradient<Index>(at, label, std::get<Index>(found.of)); });
    }
  };

  /// Writes the gradient of value Index, or the launch's source of it.
  template <int Index, class S, class Field>
  static void write_gradient(const LaunchAt<S>& at, const char* label, const Field& gradient) {
    if constexpr (is_vector(Index))
      at.write_vectors(label, vectors_of(at, gradient, at.first_channel()));
    else
      at.over_rows(
          label, kernels::CopyRows<S, kernels::ValueReader<S>>{
                     at.reader_of_field(view_of(gradient), static_cast<int>(gradient.extent(1))), at.first_channel()});
  }

  /// The gradient of the result, as a field.
  template <class S, class Context>
  static auto cotangent_of(const LaunchAt<S>& at, const Context& context) {
    using Field = FieldIn<Context, S, MakesVector>;
    kernels::GradientReader<S> reader = at.gradient(0);
    const StoredTensor& output = at.plan().tensors[at.plan().activations[at.launch().reads[0].gradient()].tensor];
    reader.depth = depth_window(Window{}, at.layout().owned(output.level, 0));  // the launch may be of another level
    if constexpr (MakesVector) {
      return field_of_vectors<Field>(at, context.mesh, output.level, output.channels, reader);
    } else {
      const Field cotangent(
          Field::make_shape(context.mesh, at.layout().template field_cuts<Field::rank>(output.level, output.channels)),
          Field::Start::unwritten);
      at.write_field("halogen::function_cotangent", kernels::CopyRows<S, kernels::GradientReader<S>>{reader, 0},
                     view_of(cotangent), output);
      return cotangent;
    }
  }

  /// The gradients of all values; computes f again.
  template <class S, class Context>
  static auto gradients(const LaunchAt<S>& at, const Context& context) {
    at.hand_over();
    const auto cotangent = cotangent_of(at, context);
    const auto fields = values(at, context, 1);
    const EvaluationScope scope;
    const auto expression = [&]<int... I>(std::integer_sequence<int, I...>) {
      return called(at, VariableLeaf<I, std::tuple_element_t<I, std::decay_t<decltype(fields)>>>(std::get<I>(fields),
                                                                                                 "Function")...);
    }(Numbers{});
    return std::apply(
        [&](const auto&... field) {
          Gradients<std::decay_t<decltype(field)>...> sums(field...);
          backward(expression, leaf(cotangent), static_cast<GradientSink&>(sums));
          FunctionGradients<std::decay_t<decltype(field)>...> found;
          std::apply([&](const auto&... gradient) { found.of = {gradient...}; }, sums.finish());
          return found;
        },
        fields);
  }

  static constexpr Read read_value(Planner& planner, const Node& node, int i) {
    return is_vector(i) ? planner.read(node, Pattern::point(), i) : planner.read_field(node, i);
  }
  static constexpr Read read_again(Planner& planner, const Node& node, int i) {
    return is_vector(i) ? planner.read_again(node, Pattern::point(), i) : planner.read_field_again(node, i);
  }
  static constexpr int level_of_points(const Planner& planner, const Node& node) {
    return planner.value_of(node.inputs[with_points]).level;
  }

  /// A forward launch that reads the values.
  template <class L>
  static constexpr Launch forward_launch(Planner& planner, const Node& node) {
    Launch launch = planner.launch<L>(node);
    for (int i = 0; i < Values; ++i) launch.read(read_value(planner, node, i));
    launch.input = launch.reads[0].value();
    launch.level = level_of_points(planner, node);
    return launch;
  }
  static constexpr void forward(Planner& planner, const Node& node) {
    planner.emit_forward(node, forward_launch<Forward>(planner, node));
    if (!MakesVector) planner.lay_out_as_field(node);
  }
  static constexpr void vjp(Planner& planner, const Node& node) {
    BackwardLaunches<Values, Backward>::template emit<FunctionOf>(planner, node, [](Launch&) {});
  }

  static constexpr Operation operation{"function", forward, vjp};
};

/// The launches of a function; attention has others (layers/attention/function_of_heads.hpp).
template <class F, int Values, unsigned Vectors, bool MakesVector, bool Draws>
struct chosen_function {
  using type = FunctionOf<F, Values, Vectors, MakesVector, Draws>;
};

}  // namespace detail

/// Options: Channels<C> of the result, TakesVectors<I...>, TakesAnyResolution<I...>, ToVector, Draws.
template <class F, class... Options>
struct Function : Module<Function<F, Options...>> {
  static constexpr detail::FunctionOptions options = detail::function_options<Options...>();

  /// As a child of Named, Frozen or Sequential.
  template <class... More>
  constexpr Traced forward(Traced x, More... more) const {
    return (*this)(x, more...);
  }

  template <std::size_t Count>
  constexpr Traced operator()(const std::array<Traced, Count>& all) const {
    return std::apply([&](auto... one) { return (*this)(one...); }, all);
  }

  /// All values have points of one resolution, unless options say otherwise: why::levels_differ.
  template <class... More>
    requires(sizeof...(More) < 4 && (std::is_same_v<More, Traced> && ...))
  constexpr Traced operator()(Traced first, More... more) const {
    using Of = typename detail::chosen_function<F, 1 + static_cast<int>(sizeof...(More)), options.vectors,
                                                options.to_vector, options.draws>::type;
    GraphDraft& graph = *first.graph;
    const Traced values[] = {first, more...};
    Node node;
    node.operation = &Of::operation;
    node.layer = graph.next_layer();
    const int points = (*values[Of::with_points]).level;
    node.level = options.to_vector ? graph.vectors() : points;
    node.channels = options.channels > 0 ? options.channels : (*first).channels;
    graph.need_points(values[Of::with_points], node.layer);
    int i = 0;
    for (const Traced& x : values) {
      const int level = (*x).level;
      const bool fits = options.is_vector(i) ? graph.levels[level].whole
                                             : level == points || (options.is_free(i) && !graph.levels[level].whole);
      if (!fits) graph.refuse<why::levels_differ>(node.layer, points, level);
      node.inputs[i++] = x.node;
    }
    graph.evaluates = true;
    graph.draws |= options.draws;
    return {&graph, graph.add(node)};
  }
};

}  // namespace halogen
