// A model bound to fields: its evaluations for training and inference, laid out once per shape, in one arena.
#pragma once

#include <array>
#include <memory>
#include <type_traits>

#include "halogen/core/prepared.hpp"
#include "halogen/run/evaluate.hpp"
#include "halogen/run/memory_limit.hpp"
#include "halogen/run/view_of.hpp"
#include "halogen/train/parameters/parameter_access.hpp"
#include "halogen/train/type_misfits.hpp"

namespace halogen {

namespace detail {

/// What the margins of a field of Rank dimensions must hold that a plan reads in place, its input or cotangent: on all
/// ranks as much as on any, so that its memory moves on all of them or on none.
template <int Rank>
std::array<Margin, Rank> margins_of(const Layout& layout, TensorId tensor) {
  const TensorLayout& piece = layout.tensor(tensor);
  std::array<Margin, Rank> margins{};
  for (int d = 2; d < Rank; ++d) margins[static_cast<std::size_t>(d)] = piece.margins[spatial_dimensions - Rank + d];
  return margins;
}

template <class Field>
detail::SubMeshes sub_meshes(const Field& field) {
  const Decomposition pieces = field.decomposition();
  const auto& mesh = field.mesh();
  return {mesh.world(), mesh.communicator(pieces.mask({2, 3, 4})), mesh.communicator(pieces.mask({0, 2, 3, 4}))};
}

/// Vectors of the samples of such an image.
template <class Field, int Channels>
struct vectors_of;
template <class TensorType, class MeshType, class... Placements, int Channels>
struct vectors_of<Sharded<TensorType, MeshType, Placements...>, Channels> {
  using type = Sharded<Tensor<typename TensorType::value_type, dyn, Channels>, MeshType,
                       typename placement_of<vector_placement(placement_code<Placements>)>::type...>;
};

/// Image with other channels.
template <class Field, int Channels>
struct with_channels;
template <class T, int N, int C, int... Space, class MeshType, class... Placements, int Channels>
struct with_channels<Sharded<Tensor<T, N, C, Space...>, MeshType, Placements...>, Channels> {
  using type = Sharded<Tensor<T, dyn, Channels, (static_cast<void>(Space), dyn)...>, MeshType, Placements...>;
};

/// The field of a model's Number-th output.
template <class ModelType, class Image, int Number = 0, int In = Image::tensor_type::extents[1]>
using OutputField =
    typename std::conditional_t<makes_vectors<ModelType, In, Number>,
                                vectors_of<FirstOf<Image>, output_channels<ModelType, In, Number>>,
                                with_channels<FirstOf<Image>, output_channels<ModelType, In, Number>>>::type;

/// That of its only output, or a tuple of all.
template <class ModelType, class Image, class Numbers = std::make_integer_sequence<int, outputs_of<ModelType>>>
struct prediction_of;
template <class ModelType, class Image>
  requires requires { typename Image::tensor_type; }  // an expression has none: infer's refusal speaks, not this
struct prediction_of<ModelType, Image, std::integer_sequence<int, 0>> {
  using type = OutputField<ModelType, Image>;
};
template <class ModelType, class Image, int... I>
  requires(sizeof...(I) > 1)
struct prediction_of<ModelType, Image, std::integer_sequence<int, I...>> {
  using type = std::tuple<OutputField<ModelType, Image, I>...>;
};

/// All that a model is given, as its plan sees it.
template <class Image>
InputViews<typename Image::value_type> views_of(const Image& image) {
  InputViews<typename Image::value_type> views(view_of<FirstOf<Image>>(image));
  for_each_more(image, [&]<class Field>(const Field& field, int input) {
    using V = typename Field::value_type;
    if constexpr (std::is_same_v<V, typename Image::value_type>) {
      views.values[input] = view_of(field);
    } else {
      const TensorView<V> at = view_of(field);
      views.indices[input] = IndexView(TensorView<const V>{at.data, at.sample_stride, at.channel_stride, at.row_stride,
                                                           at.y0, at.x0, at.plane_stride, at.z0, at.planes});
    }
  });
  return views;
}

/// Of a field beside the image: that it lies as the plan's tensor does, an input or a prediction. Collective once for
/// each shape that the program has given.
template <class Other>
void check_same_cut(const Other& other, const Layout& layout, const std::string& what, TensorId tensor) {
  const bool is_input = tensor < layout.plan().graph.inputs;
  const int level = layout.plan().tensors[tensor].level;
  const auto expected = layout.template field_cuts<Other::rank>(level, 1);
  if (other.mesh(what.c_str()).rank() != layout.rank())
    throw Error(what + " lies on a mesh where this rank is " + std::to_string(other.mesh().rank()) +
                ", the image on one where it is " + std::to_string(layout.rank()) + ": use one mesh");
  other.shape()->agree();
  for (int d = 0; d < Other::rank; ++d)
    if (d != 1)
      check_cut_as("", what, d, other.cut(d), is_input ? "the first input" : "the prediction",
                   expected[static_cast<std::size_t>(d)],
                   is_input ? "make it with the first input's cuts"
                            : "make it with the prediction's cuts, or let the model return to its input's points "
                              "(SameExtents, docs/layers/concat.md)");
}

template <class Fields, class Image>
FieldContext<Fields> field_context(const Image& image) {
  if constexpr (std::is_void_v<Fields>)
    return {};
  else
    return {image.mesh()};
}

/// What a loss computes of a point, with the loss's own numbers.
template <class Label, class Loss>
auto kernel_of(const Loss& loss, int channels) {
  if constexpr (requires { loss.template kernel<Label>(channels); })
    return loss.template kernel<Label>(channels);
  else
    return typename Loss::pointwise{};
}
template <class Loss>
LossReduction reduction_of(const Loss& loss) {
  if constexpr (requires { loss.reduction; })
    return loss.reduction;
  else
    return LossReduction::mean;
}

/// A loss of a prediction of so many channels, which is computed in T, beside its label and weight.
template <class T, class Loss, class Label, class Weight>
auto loss_term(const Loss& loss, int channels, const Label& label, const Weight& weight) {
  double factor = 1;
  if constexpr (requires { loss.factor; }) factor = loss.factor;
  const auto kernel = kernel_of<Label>(loss, channels);
  using Kernel = std::remove_const_t<decltype(kernel)>;
  using L = typename Label::value_type;
  if constexpr (std::is_same_v<Weight, NoWeight>)
    return LossTerm<Kernel, L, T>{kernel, reduction_of(loss), factor, view_of(label), {}};
  else
    return LossTerm<Kernel, L, typename Weight::value_type>{kernel, reduction_of(loss), factor, view_of(label),
                                                            view_of(weight)};
}

/// That of an evaluation's Number-th output, once label and weight are seen to lie as it does.
template <int Number, class E, class Loss, class Label, class Weight>
auto loss_of_output(const E& evaluation, const Loss& loss, const Label& label, const Weight& weight) {
  const std::string of = E::plan().graph.outputs > 1 ? " of output " + std::to_string(Number) : "";
  const TensorId tensor = E::plan().prediction[Number];
  check_same_cut(label, evaluation.layout(), "label" + of, tensor);
  if constexpr (!std::is_same_v<Weight, NoWeight>) check_same_cut(weight, evaluation.layout(), "weight" + of, tensor);
  return loss_term<compute_type<typename E::stored_type>>(loss, E::plan().tensors[tensor].channels, label, weight);
}

/// Forward and backward of one evaluation; the gradient of replicated parameters stays this rank's share.
template <class Loss, class E, class T, class Image, class Label, class Weight>
void run_training(E& evaluation, const Loss& loss, T* parameters, T* gradient, const Image& image, const Label& label,
                  const Weight& weight) {
  [&]<int... I>(std::integer_sequence<int, I...>) {
    const auto terms =
        std::tuple(loss_of_output<I>(evaluation, one_of<I>(loss), one_of<I>(label), one_of<I>(weight))...);
    evaluation.forward(views_of(image), parameters);
    evaluation.backward(gradient, std::get<I>(terms)...);
  }(std::make_integer_sequence<int, E::outputs>{});
}

/// The gradients of an evaluation of a vjp plan that has run forward, from those of its predictions.
template <class E, class T, class... Cotangents>
void run_vjp(E& evaluation, T* gradient, const Cotangents&... cotangents) {
  std::array<TensorView<typename E::stored_type>, most_outputs> views;
  int i = 0;
  (check_same_cut(cotangents, evaluation.layout(), "cotangent", E::plan().prediction[i++]), ...);
  i = 0;
  (cotangents.reserve_margin(margins_of<Cotangents::rank>(evaluation.layout(), E::plan().cotangent[i++])), ...);
  i = 0;
  ((views[static_cast<std::size_t>(i++)] = view_of(cotangents)), ...);
  evaluation.backward(views, gradient);
}

}  // namespace detail

/// Evaluations of one model with parameters of T, placed as P, on fields of T or of a type that is computed in T. Not
/// copied: hold it by pointer.
template <class ModelType, class T, Placement P = Replicate>
class Network {
  /// The type of the fields whose expressions the model's launches evaluate; void if they evaluate none.
  template <class Image>
  using FieldsOf =
      std::conditional_t<graph_of<ModelType, Image::tensor_type::extents[1]>.evaluates, detail::FirstOf<Image>, void>;

 public:
  Network()
    requires std::is_same_v<P, Replicate>
  = default;
  explicit Network(const Parameters<ModelType, T, P>& parameters) : access_(parameters) {}

  /// The prediction's type: placed as the image, or vectors of its samples; a tuple of those where there are several.
  template <class Image>
  using Prediction = typename detail::prediction_of<ModelType, Image>::type;

  /// An evaluation of such images.
  template <PlanKind Kind, class Image>
  using EvaluationOf = Evaluation<PlanOf<ModelType, Image::tensor_type::extents[1], Kind>, typename Image::value_type,
                                  typename detail::ParameterAccess<T, P>::type, FieldsOf<Image>>;

  /// Where an image lies. Evaluations serve all images of one key.
  struct Key {
    Decomposition decomposition;
    std::array<Cut, 5> cuts;  ///< of the image, the last unused without depth
    Communicator world;
    bool operator==(const Key&) const = default;
  };
  /// Collective, once for each shape that the program has given.
  template <class Image>
  static Key key_of(const Image& image, const char* user) {
    Key key{image.decomposition(user), {}, image.mesh().world()};
    std::copy(image.cuts().begin(), image.cuts().end(), key.cuts.begin());
    image.shape()->agree();
    return key;
  }

  /// A new evaluation of such images, for a caller that keeps it. All evaluations use one arena; beside: how many
  /// others the caller keeps, of no larger images, whose halo buffers count in the limit of memory. Collective.
  template <PlanKind Kind, class Image>
  std::shared_ptr<EvaluationOf<Kind, Image>> made(const Image& image, int beside = 0) {
    using E = EvaluationOf<Kind, Image>;
    static_assert(plan_of<ModelType, Image::tensor_type::extents[1], Kind>.idle_segment == 0,
                  "nothing_is_recomputed: a Checkpoint<Layer> of this model drops no tensor, because layers outside "
                  "read all that Layer writes, or what it writes takes messages to compute: leave Checkpoint away, or "
                  "put it around more layers");
    ++evaluations_;  // even if it cannot be made: the arena may lie elsewhere then
    Layout layout = detail::layout_within(
        limit_, image.mesh().world(), E::plan(),
        {image.decomposition(), image.mesh().rank(), image.cuts(), ValueBytes::of<typename Image::value_type>()},
        [&](const Layout& of) {
          return access_.staging_bytes(of) + static_cast<std::size_t>(beside) * of.memory().exchange;
        });
    auto access = access_(layout, image);
    return std::make_shared<E>(std::move(layout), detail::sub_meshes(image), arena_, std::move(access),
                               detail::field_context<FieldsOf<Image>>(image));
  }
  /// Throws CollectiveError if the other inputs lie otherwise than the first.
  template <class Image>
  static void check_inputs(const Image& image, const Layout& layout) {
    detail::for_each_more(image, [&](const auto& field, int input) {
      detail::check_same_cut(field, layout, "input " + std::to_string(input), Plan::tensor_of_input(input));
    });
  }
  /// Makes room for the margins that a plan reads beside its inputs.
  template <class Image>
  static void reserve_margins(const Image& image, const Layout& layout) {
    image.reserve_margin(detail::margins_of<Image::rank>(layout, Plan::tensor_of_input(0)));
    detail::for_each_more(image, [&]<class Field>(const Field& field, int input) {
      field.reserve_margin(detail::margins_of<Field::rank>(layout, Plan::tensor_of_input(input)));
    });
  }

  /// The evaluation for this image's extents, cuts and mesh. It is made anew only if they differ from the last image's,
  /// and replaces that one. Hold a std::weak_ptr of it to use it again without a search. Collective.
  template <PlanKind Kind, class Image>
  std::shared_ptr<EvaluationOf<Kind, Image>> bind(const Image& image, const char* user = "a network") {
    using E = EvaluationOf<Kind, Image>;
    const auto evaluation = bound_[static_cast<std::size_t>(Kind)].template get<E>(
        key_of(image, user), [&] { return this->template made<Kind>(image); });
    check_inputs(image, evaluation->layout());
    reserve_margins(image, evaluation->layout());
    return evaluation;
  }
  template <PlanKind Kind, class Image>
  EvaluationOf<Kind, Image>& evaluation(const Image& image, const char* user = "a network") {
    return *this->template bind<Kind>(image, user);
  }

  template <class Image, class Why = WhyNot<ModelType, Image, NoWeight, NoWeight, T>>
    requires(!Fits<ModelType, Image, NoWeight, NoWeight, T>)
  void infer(const Parameters<ModelType, T, P>& parameters,  // an expression? write Image v = u + 1; and give v
             const Image& image) = delete;

  /// The model's output for an image: forward only, and from the second image of these extents and cuts on without any
  /// allocation but the output's. Placements and collectives as infer below.
  template <class Image>
    requires Fits<ModelType, Image, NoWeight, NoWeight, T>
  Prediction<Image> infer(const Parameters<ModelType, T, P>& parameters, const Image& image) {
    auto& evaluation = this->template evaluation<PlanKind::inference>(image, "infer");
    evaluation.forward(detail::views_of(image), parameters.data());
    return prediction(image, evaluation);
  }

  /// Whether these parameters are laid out as those that it was made for.
  bool serves(const Parameters<ModelType, T, P>& parameters) const { return access_.serves(parameters); }

  /// From now on evaluations keep to this limit. Those that are made are dropped.
  void limit_memory(const MemoryLimit& limit) {
    if (limit == limit_) return;
    limit_ = limit;
    for (auto& bound : bound_) bound.clear();
  }

  /// How often one was made: while it stays, memory that launches were given stays where it is.
  std::size_t evaluations() const { return evaluations_; }

  /// Bytes in which sharded parameters and their gradients are whole for a while.
  std::size_t staging_bytes() const { return access_.staging_bytes(); }

  /// A copy of the evaluation's output as a field on the image's mesh, or of its outputs.
  template <class Image, class MeshType, class E>
  static Prediction<Image> prediction_on(const DeviceMesh<MeshType>& mesh, const E& evaluation) {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return Prediction<Image>(
          copy_of<detail::OutputField<ModelType, Image, I>>(mesh, evaluation, E::plan().prediction[I])...);
    }(std::make_integer_sequence<int, outputs_of<ModelType>>{});
  }
  template <class Image, class E>
  static Prediction<Image> prediction(const Image& image, const E& evaluation) {
    return prediction_on<Image>(image.mesh(), evaluation);
  }

  /// A copy of the gradient of the I-th input, after a backward of training_with_input_gradient or vjp; zeros if the
  /// model does not read it.
  template <std::size_t I = 0, class Image, class E>
  static auto input_gradient(const Image& image, const E& evaluation) {
    using Field = typename detail::given<Image>::template field<I>;
    const TensorId tensor = E::plan().input_gradient[I];
    if (tensor >= 0) return copy_of<Field>(image.mesh(), evaluation, tensor);
    const StoredTensor& input = E::plan().tensors[static_cast<int>(I)];
    return Field(Field::make_shape(image.mesh(),
                                   evaluation.layout().template field_cuts<Field::rank>(input.level, input.channels)));
  }

 private:
  template <class Field, class MeshType, class E>
  static Field copy_of(const DeviceMesh<MeshType>& mesh, const E& evaluation, TensorId tensor) {
    const StoredTensor& stored = E::plan().tensors[tensor];
    const auto cuts = evaluation.layout().template field_cuts<Field::rank>(stored.level, stored.channels);
    Field result(Field::make_shape(mesh, cuts), Field::Start::unwritten);
    evaluation.copy_tensor(tensor, detail::view_of(result));
    return result;
  }

  detail::ParameterAccess<T, P> access_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  MemoryLimit limit_;
  std::size_t evaluations_ = 0;
  std::array<detail::Prepared<Key, 1>, 4> bound_;  ///< the last evaluation of each PlanKind
};

/// The model's output for an image: forward only, nothing kept. Placements of the image in and out; collectives: the
/// halos and norms of its layers. Allocates its arena anew; Trainer::predict and Network::infer do not.
template <class ModelType, class T, class P, class Image>
  requires(detail::is_given<Image> && Fits<ModelType, Image, NoWeight, NoWeight, T>)
auto infer(const Parameters<ModelType, T, P>& parameters, const Image& image) {
  return Network<ModelType, T, P>(parameters).infer(parameters, image);
}
template <class ModelType, class T, class P, class Image, class Why = WhyNot<ModelType, Image, NoWeight, NoWeight, T>>
  requires(detail::is_given<Image> && !Fits<ModelType, Image, NoWeight, NoWeight, T>)
void infer(const Parameters<ModelType, T, P>& parameters, const Image& image) = delete;

}  // namespace halogen
