// Function<F>: a function of fields in the array language as a layer of one to three values, with gradients.
//
//   struct Attend {
//     template <class Q, class K, class V>
//     auto operator()(const Q& q, const K& k, const V& v) const { return ...; }      // an expression of fields
//   };
//   hg::Function<Attend>{}(q, k, v)
//
//   values: (N, C, H, W), or as many dimensions as the model's image has; f takes them as expressions placed as the
//   image -> y: what f makes of them, of the first value's extents and cuts in batch and space, and of its channels, or
//   as many as the option Channels<C> says
//
//   placements: as f has them; y is placed as the image, other results do not compile. Collectives, halo: those of f,
//   forward once, and backward those of f once more and of its gradient. f holds no state.
//
// f reads the stored values and writes the stored y, without a copy; values that are normed, activated, resampled or
// concatenated are written out first. Backward computes f again, and all its gradients at once. Not captured on a
// device: an expression may allocate. Errors: CollectiveError where f makes other extents.
#pragma once

#include "halogen/autograd/gradient.hpp"
#include "halogen/layers/functor.hpp"
#include "halogen/run/evaluate.hpp"
#include "halogen/run/view_of.hpp"

namespace halogen {
namespace detail {

/// Fields of S placed as Image, of any channels.
template <class Image, class S>
struct fields_like;
template <class T, int... Extents, class MeshType, class... P, class S>
struct fields_like<Sharded<Tensor<T, Extents...>, MeshType, P...>, S> {
  using type = Sharded<Tensor<S, (static_cast<void>(Extents), dyn)...>, MeshType, P...>;
};

/// Of a stored tensor of a plan.
template <class Field, class S>
std::shared_ptr<const typename Field::Shape> shape_of_stored(const LaunchAt<S>& at,
                                                             const DeviceMesh<typename Field::mesh_type>& mesh,
                                                             int tensor) {
  const StoredTensor& stored = at.plan().tensors[tensor];
  return Field::make_shape(mesh, at.layout().template field_cuts<Field::rank>(stored.level, stored.channels));
}

/// A stored tensor that lies as a field does.
template <class Field, class S>
Field field_over(const LaunchAt<S>& at, const DeviceMesh<typename Field::mesh_type>& mesh, int tensor) {
  const TensorLayout& layout = at.layout_of(tensor);
  std::array<Margin, Field::rank> margins{};
  for (int d = 5 - Field::rank; d < spatial_dimensions; ++d)
    margins[static_cast<std::size_t>(Field::rank - spatial_dimensions + d)] = {
        layout.owned[d].begin - layout.stored[d].begin, layout.stored[d].end - layout.owned[d].end};
  margins[Field::rank - 1].hi += layout.row_stride - layout.stored[2].size();
  S* first = at.stored_tensor(tensor).data - (layout.owned[0].begin - layout.stored[0].begin) * layout.plane_stride;
  return Field::over(shape_of_stored<Field>(at, mesh, tensor), first, margins);
}

/// What backward has found of a node, until the last of its launches has taken its share.
template <class Field>
struct FunctionGradients {
  std::vector<Field> of;
  int launches = 0;
};

/// The launch types of a function of so many values.
template <class F, int Values>
struct FunctionOf {
  template <class Context, class S>
  using FieldIn = typename fields_like<typename Context::field_type, S>::type;
  using Numbers = std::make_integer_sequence<int, Values>;

  /// The values, from operand `first` on.
  template <class S, class Context>
  static auto values(const LaunchAt<S>& at, const Context& context, int first) {
    using Field = FieldIn<Context, S>;
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return std::array<Field, Values>{field_over<Field>(at, context.mesh, at.tensor_of(first + I))...};
    }(Numbers{});
  }

  struct Forward {
    static constexpr const char* label = "halogen::function";
    static constexpr bool evaluates_fields = true, common_output = false;
    template <class S, class Context>
    static void evaluate(const LaunchAt<S>& at, Context& context) {
      using Field = FieldIn<Context, S>;
      at.hand_over();
      const Field result = field_over<Field>(at, context.mesh, at.launch().output);
      const EvaluationScope scope;
      const auto expression = std::apply(
          [](const auto&... field) { return as_expression(F{}(as_expression(field)...)); }, values(at, context, 0));
      check_result(result, expression);
      write_values(result, result.storage(), expression);
      if (at.launch().statistics < 0) return;
      kernels::MomentsKernel<execution_space, S> moments;
      at.over_tiles(label, moments);
    }
  };

  template <class Field, class E>
  static void check_result(const Field& result, const E& expression) {
    static_assert(std::is_same_v<typename E::placed, typename FieldLeaf<Field>::placed>,
                  "function_is_placed_otherwise: a Function returns an expression placed as the model's image");
    for (int d = 0; d < Field::rank; ++d)
      if (stored_extent(expression, d) != result.extent(d))
        throw CollectiveError(
            "a Function makes " + std::to_string(stored_extent(expression, d)) + " points in dimension " +
            std::to_string(d) + " where " + std::to_string(result.extent(d)) +
            " are expected: return the first value's extents, and say Channels<C> for other channels");
  }

  template <int Index>
  struct Backward {
    static constexpr const char *label = "halogen::function_backward", *suffix = " backward";
    static constexpr bool evaluates_fields = true;
    template <class S, class Context>
    static void evaluate(const LaunchAt<S>& at, Context& context) {
      using Field = FieldIn<Context, S>;
      std::any& kept = context.kept[at.launch().node];
      if (!kept.has_value()) kept = gradients<Field>(at, context);
      auto& found = std::any_cast<FunctionGradients<Field>&>(kept);
      const Field& own = found.of[Index];
      at.over_rows(label, kernels::CopyRows<S, kernels::ValueReader<S>>{
                              at.reader_of_field(view_of(own), static_cast<int>(own.extent(1))), at.first_channel()});
      if (--found.launches == 0) kept.reset();
    }
  };

  /// Of all values, by f once more.
  template <class Field, class S, class Context>
  static FunctionGradients<Field> gradients(const LaunchAt<S>& at, const Context& context) {
    at.hand_over();
    const int output = at.plan().activations[at.launch().reads[0].index].tensor;
    const Field cotangent(shape_of_stored<Field>(at, context.mesh, output), Field::Start::unwritten);
    at.write_field("halogen::function_cotangent", kernels::CopyRows<S, kernels::GradientReader<S>>{at.gradient(0), 0},
                   view_of(cotangent), at.plan().tensors[output]);
    const auto fields = values(at, context, 1);
    const EvaluationScope scope;
    const auto expression = [&]<int... I>(std::integer_sequence<int, I...>) {
      return as_expression(F{}(VariableLeaf<I, Field>(fields[static_cast<std::size_t>(I)], "Function")...));
    }(Numbers{});
    return std::apply(
        [&](const auto&... field) {
          Gradients<std::decay_t<decltype(field)>...> sums(field...);
          backward(expression, leaf(cotangent), static_cast<GradientSink&>(sums));
          FunctionGradients<Field> found;
          std::apply([&](const auto&... gradient) { found.of = {gradient...}; }, sums.finish());
          for (const Launch& launch : at.plan().launches)
            found.launches += launch.node == at.launch().node && is_backward(launch);
          return found;
        },
        fields);
  }

  static bool is_backward(const Launch& launch) {
    return [&]<int... I>(std::integer_sequence<int, I...>) { return (launch.is<Backward<I>>() || ...); }(Numbers{});
  }

  static constexpr void forward(Planner& planner, const Node& node) {
    Launch launch;
    for (int i = 0; i < Values; ++i) {
      const Read value = planner.read_field(node, i);
      if (i == 0) launch = planner.launch<Forward>(node);
      launch.read(value);
    }
    planner.emit_forward(node, launch);
    planner.lay_out_as_field(node);
  }

  static constexpr void vjp(Planner& planner, const Node& node) {
    const int reads = planner.gradient_of(node);
    if (reads < 0) return;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      const auto emit = [&](Launch launch) {
        launch.read(planner.gradient(reads, Pattern::point()));
        for (int i = 0; i < Values; ++i) launch.read(planner.read_again(node, Pattern::point(), i));
        planner.emit_input_gradients(launch);
      };
      (emit(planner.launch<Backward<I>>(node, I)), ...);
    }(Numbers{});
  }

  static constexpr Operation operation{"function", forward, vjp};
};

}  // namespace detail

/// Option Channels<C>: as many channels has the result.
template <class F, class... Options>
struct Function : Module<Function<F, Options...>> {
  constexpr Traced forward(Traced x) const { return (*this)(x); }

  /// All of one resolution: why::levels_differ.
  template <class... More>
    requires(sizeof...(More) < 3 && (std::is_same_v<More, Traced> && ...))
  constexpr Traced operator()(Traced first, More... more) const {
    GraphDraft& graph = *first.graph;
    Node node;
    node.operation = &detail::FunctionOf<F, 1 + static_cast<int>(sizeof...(More))>::operation;
    node.layer = graph.next_layer();
    node.level = (*first).level;
    constexpr int named = detail::channels_named<Options...>;
    node.channels = named > 0 ? named : (*first).channels;
    graph.need_points(first, node.layer);
    int i = 0;
    for (const Traced& x : {first, more...}) {
      node.inputs[i++] = x.node;
      if ((*x).level != node.level) graph.refuse(Misfit::Kind::levels_differ, node.layer, node.level, (*x).level);
    }
    graph.evaluates = true;
    return {&graph, graph.add(node)};
  }
};

}  // namespace halogen
