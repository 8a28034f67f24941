// A model bound to fields: its evaluations for training and inference, laid out once per shape, in one arena.
#pragma once

#include <any>
#include <array>
#include <memory>
#include <type_traits>

#include "halogen/run/evaluate.hpp"
#include "halogen/train/fit.hpp"
#include "halogen/train/parameter_access.hpp"

namespace halogen {

namespace detail {

template <class Field>
TensorView<typename Field::value_type> view_of(const Field& field) {
  const auto& storage = field.storage();
  const auto stride = [&](std::size_t d) { return static_cast<index_t>(storage.view.stride(d)); };
  TensorView<typename Field::value_type> view{
      storage.view.data() + storage.margins[0].lo * stride(0) + storage.margins[1].lo * stride(1), stride(0),
      stride(1)};
  if constexpr (Field::rank == 3) view.x0 = field.offset(2) - storage.margins[2].lo;
  if constexpr (Field::rank > 3) {
    constexpr std::size_t rows = Field::rank - 2;
    view.row_stride = stride(rows);
    view.y0 = field.offset(rows) - storage.margins[rows].lo;
    view.x0 = field.offset(rows + 1) - storage.margins[rows + 1].lo;
  }
  if constexpr (Field::rank == 5) {
    view.plane_stride = stride(2);
    view.data += storage.margins[2].lo * view.plane_stride;
    view.z0 = field.offset(2);
    view.planes = static_cast<int>(field.local_extent(2));
  }
  return view;
}

/// What the margins of a field of Rank dimensions must hold that a plan reads in place, its input or cotangent: on all
/// ranks as much as on any, so that its memory moves on all of them or on none.
template <int Rank>
std::array<Margin, Rank> margins_of(const Layout& layout, int tensor) {
  const TensorLayout& piece = layout.tensor(tensor);
  std::array<Margin, Rank> margins{};
  for (int d = 2; d < Rank; ++d) margins[static_cast<std::size_t>(d)] = piece.margins[spatial_dimensions - Rank + d];
  return margins;
}

template <class Field>
SubMeshes sub_meshes(const Field& field) {
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

template <class ModelType, class Image, int In = Image::tensor_type::extents[1]>
struct prediction_of
    : std::conditional_t<makes_vectors<ModelType, In>, vectors_of<FirstOf<Image>, output_channels<ModelType, In>>,
                         with_channels<FirstOf<Image>, output_channels<ModelType, In>>> {};

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

/// Of a field beside the image: that it lies as the plan's tensor does, by default as the prediction.
template <class Other>
void check_same_cut(const Other& other, const Layout& layout, const std::string& what, int tensor = -1) {
  const bool is_input = tensor >= 0;
  const int level = layout.plan().tensors[is_input ? tensor : layout.plan().prediction].level;
  const auto expected = layout.template field_cuts<Other::rank>(level, 1);
  if (other.mesh(what.c_str()).rank() != layout.rank())
    throw Error(what + " lies on a mesh where this rank is " + std::to_string(other.mesh().rank()) +
                ", the image on one where it is " + std::to_string(layout.rank()) + ": use one mesh");
  for (int d = 0; d < Other::rank; ++d)
    if (d != 1 && other.cut(d) != expected[static_cast<std::size_t>(d)])
      throw CollectiveError(what + " has " + std::to_string(other.extent(d)) + " points in dimension " +
                            std::to_string(d) + ", cut otherwise than the " +
                            (is_input ? "first input's " : "prediction's ") +
                            std::to_string(expected[static_cast<std::size_t>(d)].extent()) + ": give it the " +
                            (is_input ? "first input's" : "prediction's") + " extents and cuts");
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

/// Forward and backward of one evaluation; the gradient of replicated parameters stays this rank's share.
template <class Loss, class E, class T, class Image, class Label, class Weight>
void run_training(E& evaluation, const Loss& loss, T* parameters, T* gradient, const Image& image, const Label& label,
                  const Weight& weight) {
  check_same_cut(label, evaluation.layout(), "label");
  if constexpr (!std::is_same_v<Weight, NoWeight>) check_same_cut(weight, evaluation.layout(), "weight");
  evaluation.forward(views_of(image), parameters);
  const auto kernel = kernel_of<Label>(loss, E::plan().tensors[E::plan().prediction].channels);
  if constexpr (std::is_same_v<Weight, NoWeight>)
    evaluation.backward(kernel, reduction_of(loss), view_of(label),
                        TensorView<compute_type<typename Image::value_type>>{}, gradient);
  else
    evaluation.backward(kernel, reduction_of(loss), view_of(label), view_of(weight), gradient);
}

/// The gradients of an evaluation of a vjp plan that has run forward, from its prediction's.
template <class E, class T, class Cotangent>
void run_vjp(E& evaluation, const Cotangent& cotangent, T* gradient) {
  check_same_cut(cotangent, evaluation.layout(), "cotangent");
  cotangent.reserve_margin(margins_of<Cotangent::rank>(evaluation.layout(), E::plan().cotangent));
  evaluation.backward(view_of(cotangent), gradient);
}

}  // namespace detail

/// Evaluations of one model with parameters of T, placed as P, on fields of T or of a type that is computed in T. Not
/// copied: hold it by pointer.
template <class ModelType, class T, Placement P = Replicate>
class Network {
 public:
  Network()
    requires std::is_same_v<P, Replicate>
  = default;
  explicit Network(const Parameters<ModelType, T, P>& parameters) : access_(parameters) {}

  /// The prediction's type: placed as the image, or vectors of its samples.
  template <class Image>
  using Prediction = typename detail::prediction_of<ModelType, Image>::type;

  /// The evaluation for this image's extents, cuts and mesh; made anew only where they differ from the last.
  template <PlanKind Kind, class Image>
  auto& evaluation(const Image& image, const char* user = "a network") {
    using S = typename Image::value_type;
    constexpr int channels = Image::tensor_type::extents[1];
    using E = Evaluation<PlanOf<ModelType, channels, Kind>, S, typename detail::ParameterAccess<T, P>::type>;
    using Kept = std::shared_ptr<Slot<E>>;
    std::any& kept = slots_[static_cast<std::size_t>(Kind)];
    if (std::any_cast<Kept>(&kept) == nullptr) kept = std::make_shared<Slot<E>>();
    Slot<E>& slot = *std::any_cast<Kept&>(kept);
    auto& evaluation = slot.evaluation;
    Key wanted{image.decomposition(user), {}, image.mesh().world()};
    std::copy(image.cuts().begin(), image.cuts().end(), wanted.cuts.begin());
    if (!evaluation || !(slot.key == wanted)) {
      image.shape()->agree();
      evaluation.reset();
      ++evaluations_;  // even if it cannot be made: the arena may lie elsewhere then
      evaluation = std::make_unique<E>(
          Layout(E::plan(), image.decomposition(), image.mesh().rank(), image.cuts(), ValueBytes::of<S>()),
          detail::sub_meshes(image), arena_, access_(E::plan(), image));
      slot.key = std::move(wanted);
    }
    image.reserve_margin(detail::margins_of<Image::rank>(evaluation->layout(), 0));
    detail::for_each_more(image, [&]<class Field>(const Field& field, int input) {
      detail::check_same_cut(field, evaluation->layout(), "input " + std::to_string(input), input);
      field.reserve_margin(detail::margins_of<Field::rank>(evaluation->layout(), input));
    });
    return *evaluation;
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

  /// How often one was made: while it stays, memory that launches were given stays where it is.
  std::size_t evaluations() const { return evaluations_; }

  /// Bytes in which sharded parameters and their gradients are whole for a while.
  std::size_t staging_bytes() const { return access_.staging_bytes(); }

  /// A copy of the evaluation's output as a field.
  template <class Image, class E>
  static Prediction<Image> prediction(const Image& image, const E& evaluation) {
    return copy_of<Prediction<Image>>(image, evaluation, E::plan().prediction);
  }

  /// A copy of the gradient of the I-th input, after a backward of training_with_input_gradient or vjp; zeros where the
  /// model does not read it.
  template <std::size_t I = 0, class Image, class E>
  static auto input_gradient(const Image& image, const E& evaluation) {
    using Field = typename detail::given<Image>::template field<I>;
    const int tensor = E::plan().input_gradient[I];
    if (tensor >= 0) return copy_of<Field>(image, evaluation, tensor);
    const StoredTensor& input = E::plan().tensors[static_cast<int>(I)];
    return Field(Field::make_shape(image.mesh(),
                                   evaluation.layout().template field_cuts<Field::rank>(input.level, input.channels)));
  }

 private:
  template <class Field, class Image, class E>
  static Field copy_of(const Image& image, const E& evaluation, int tensor) {
    const StoredTensor& stored = E::plan().tensors[tensor];
    const auto cuts = evaluation.layout().template field_cuts<Field::rank>(stored.level, stored.channels);
    Field result(Field::make_shape(image.mesh(), cuts), Field::Start::unwritten);
    evaluation.copy_tensor(tensor, detail::view_of(result));
    return result;
  }

  struct Key {
    Decomposition decomposition;
    std::array<Cut, 5> cuts;  ///< of the image, the last unused without depth
    Communicator world;
    bool operator==(const Key&) const = default;
  };

  template <class E>
  struct Slot {
    std::unique_ptr<E> evaluation;
    Key key;
  };

  detail::ParameterAccess<T, P> access_;
  std::shared_ptr<Arena> arena_ = std::make_shared<Arena>();
  std::size_t evaluations_ = 0;
  std::array<std::any, 4> slots_;  ///< one per PlanKind; the evaluation's type depends on the image's channels
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
