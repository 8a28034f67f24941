// Whether a model, an image, a label and a weight fit together: the first reason why they do not, as a type.
#pragma once

#include <array>
#include <cstddef>
#include <utility>

#include "halogen/core/half.hpp"
#include "halogen/core/type_of.hpp"
#include "halogen/core/why.hpp"
#include "halogen/train/expression_loss.hpp"
#include "halogen/train/field_inputs.hpp"

namespace halogen {

/// No weight: every point counts alike.
struct NoWeight {};
inline constexpr NoWeight no_weight{};

/// A loss that compares channel by channel.
struct PlainLoss {};

namespace detail {

/// Whether a field holds integers, such as classes.
template <class Field>
inline constexpr bool holds_indices = [] {
  if constexpr (requires { typename Field::value_type; })
    return std::is_same_v<typename Field::value_type, std::int32_t> ||
           std::is_same_v<typename Field::value_type, std::int64_t>;
  else
    return false;
}();

/// Whether labels of a loss may be the indices of classes.
template <class Loss>
inline constexpr bool takes_classes = [] {
  if constexpr (requires { Loss::takes_classes; })
    return Loss::takes_classes;
  else
    return false;
}();

/// The channels that a loss wants of such a label, of a prediction of so many.
template <class Loss, class Label>
constexpr int label_channels(int channels) {
  if constexpr (requires { Loss::template label_channels<Label>(channels); })
    return Loss::template label_channels<Label>(channels);
  else
    return channels;
}

// Each why_... below returns the first reason as an object of its type, and nothing (void) if there is none.

/// The dimensions of fields for a model: (N, C) and those of its windows, where it has any.
template <class ModelType, class Image>
inline constexpr int rank_for = [] {
  constexpr int windows = graph_of<ModelType, input_channels<ModelType>>.windows;
  if (windows != 0) return 2 + windows;
  return Image::rank == 3 || Image::rank == 5 ? Image::rank : 4;
}();

template <int Rank, class Field>
constexpr auto why_no_field() {
  if constexpr (Field::rank != Rank) {
    return why::rank_differs<Rank, Field::rank>{};
  } else {
    constexpr int bad = [] {  // the first mesh dimension that cuts channels, or holds summands
      for (std::size_t i = 0; i < Field::placements.size(); ++i)
        if (Field::placements[i] == 1 || Field::placements[i] == partial_code) return static_cast<int>(i);
      return -1;
    }();
    if constexpr (bad >= 0) {
      if constexpr (Field::placements[bad] == 1)
        return why::channels_are_cut<bad, 1>{};
      else
        return why::input_is_partial<bad>{};
    }
  }
}

/// The refusal of a layer of the model.
template <class ModelType, int Channels, std::size_t... I>
constexpr auto why_no_layer(std::index_sequence<I...>) {
  constexpr Misfit misfit = graph_of<ModelType, Channels>.misfit;
  using Refusal = type_of_address<misfit.why>;
  return typename Refusal::template type<misfit.layer, misfit.first, misfit.second, type_of_address<misfit.written>,
                                         why::path<misfit.path[I]...>>{};
}

/// The second refusal is of parameters for each channel of an input, where no layer says how many channels it takes.
template <class ModelType, int Channels>
constexpr auto why_no_model() {
  constexpr int named = input_channels<ModelType>;
  if constexpr (graph_of<ModelType, Channels>.misfit.why != nullptr)
    return why_no_layer<ModelType, Channels>(std::make_index_sequence<graph_of<ModelType, Channels>.misfit.depth>{});
  else if constexpr (graph_of<ModelType, Channels>.parameter_count != graph_of<ModelType, named>.parameter_count)
    return why::channels_differ<0, named, Channels, ModelType, why::path<>>{};
}

/// Whether a model's Number-th output is a vector for each sample.
template <class ModelType, int Channels, int Number = 0>
inline constexpr bool makes_vectors =
    graph_of<ModelType, Channels>.is_vector(graph_of<ModelType, Channels>.output[Number]);

/// How vectors of an image's samples are placed by a mesh dimension that places the image so.
constexpr int vector_placement(int of_image) { return of_image == 0 ? 0 : replicate_code; }

/// The first mesh dimension that places Other differently than an output of a model, which is placed as Image or, of
/// Vectors, as vectors of its samples. -1: there is none.
template <class Image, bool Vectors, class Other>
inline constexpr int placed_differently = [] {
  for (std::size_t i = 0; i < Image::placements.size(); ++i)
    if ((Vectors ? vector_placement(Image::placements[i]) : Image::placements[i]) != Other::placements[i])
      return static_cast<int>(i);
  return -1;
}();

/// Other beside the output of a model, with as many channels: it has the dimensions and placements of Image, or of
/// vectors of its samples.
template <class Image, bool Vectors, class Other, int Channels>
constexpr auto why_not_beside() {
  if constexpr (!std::is_same_v<Other, NoWeight>) {
    constexpr int rank = Vectors ? 2 : Image::rank;
    using Own = decltype(why_no_field<rank, Other>());
    if constexpr (!std::is_void_v<Own>)
      return Own{};
    else if constexpr (placed_differently<Image, Vectors, Other> >= 0)
      return why::placements_differ<placed_differently<Image, Vectors, Other>>{};
    else if constexpr (Other::tensor_type::extents[1] != Channels)
      return why::label_channels_differ<Other::tensor_type::extents[1], Channels>{};
  }
}

/// Image as the I-th input of a model that names its inputs.
template <class ModelType, class Image, std::size_t I>
constexpr auto why_no_input() {
  constexpr const InputShape& shape = std::tuple_element_t<I, typename inputs_of<ModelType>::type>::shape;
  using Field = typename given<Image>::template field<I>;
  constexpr int channels = Field::tensor_type::extents[1];
  using Beside =
      decltype(why_not_beside<FirstOf<Image>, shape.whole, std::conditional_t<I == 0, NoWeight, Field>, channels>());
  if constexpr (!std::is_void_v<Beside>)
    return Beside{};
  else if constexpr (channels != shape.channels)
    return why::input_channels_differ<static_cast<int>(I), shape.channels, channels>{};
  else if constexpr (shape.integer && !holds_indices<Field>)
    return why::input_is_no_index<static_cast<int>(I)>{};
}

/// The inputs of a model that names them, from the I-th on.
template <class ModelType, class Image, std::size_t I = 0>
constexpr auto why_no_inputs() {
  constexpr std::size_t named = std::tuple_size_v<typename inputs_of<ModelType>::type>;
  constexpr int needed = std::max(1, static_cast<int>(named)), have = static_cast<int>(given<Image>::count);
  if constexpr (needed != have) {
    return why::inputs_differ<needed, have>{};
  } else if constexpr (I < named) {
    using Why = decltype(why_no_input<ModelType, Image, I>());
    if constexpr (std::is_void_v<Why>)
      return why_no_inputs<ModelType, Image, I + 1>();
    else
      return Why{};
  }
}

/// Label and weight of the Number-th output.
template <class ModelType, class Image, class Label, class Weight, class Loss, int Number>
constexpr auto why_no_output() {
  constexpr int channels = Image::tensor_type::extents[1];
  constexpr bool vectors = makes_vectors<ModelType, channels, Number>;
  constexpr int of_label = label_channels<Loss, Label>(output_channels<ModelType, channels, Number>);
  using OfLabel = decltype(why_not_beside<Image, vectors, Label, of_label>());
  if constexpr (std::is_void_v<OfLabel>)
    return why_not_beside<Image, vectors, Weight, 1>();
  else
    return OfLabel{};
}

/// For how many outputs losses, labels and weights are given, if not for all `needed`.
template <class Loss, class Label, class Weight>
constexpr int outputs_given(int needed) {
  for (const int have : {count_given<Loss>, count_given<Label>, count_given<Weight>})
    if (have != 0 && have != needed) return have;
  return needed;
}

/// Labels and weights of the outputs from the Number-th on.
template <class ModelType, class Image, class Label, class Weight, class Loss, int Number = 0>
constexpr auto why_no_outputs() {
  constexpr int needed = outputs_of<ModelType>, have = outputs_given<Loss, Label, Weight>(needed);
  if constexpr (have != needed) {
    return why::outputs_differ<needed, have>{};
  } else if constexpr (Number < needed) {
    using Why = decltype(why_no_output<ModelType, Image, OneOf<Number, Label>, OneOf<Number, Weight>,
                                       OneOf<Number, Loss>, Number>());
    if constexpr (std::is_void_v<Why>)
      return why_no_outputs<ModelType, Image, Label, Weight, Loss, Number + 1>();
    else if constexpr (needed > 1)
      return why::of_output<Number, Why>{};
    else
      return Why{};
  }
}

/// Model, fields and their counts; value types are not compared.
template <class ModelType, class Image, class Label, class Weight, class Loss>
constexpr auto why_shapes_do_not_fit() {
  using OfImage = decltype(why_no_field<rank_for<ModelType, Image>, Image>());
  if constexpr (!std::is_void_v<OfImage>) {
    return OfImage{};
  } else {
    using OfInputs = decltype(why_no_inputs<ModelType, Image>());
    if constexpr (!std::is_void_v<OfInputs>) {
      return OfInputs{};
    } else {
      using OfModel = decltype(why_no_model<ModelType, Image::tensor_type::extents[1]>());
      if constexpr (!std::is_void_v<OfModel>)
        return OfModel{};
      else
        return why_no_outputs<ModelType, Image, Label, Weight, Loss>();
    }
  }
}

/// Whether a network with parameters of T takes fields of S: everything is computed in T, what is stored is rounded.
template <class T, class S>
inline constexpr bool takes_values = std::is_same_v<S, T> || (std::is_same_v<T, float> && std::is_same_v<S, bfloat16>);

/// The first of Fields whose values it does not take; void where it takes all.
template <class T, class... Fields>
struct values_not_taken {
  using type = void;
};
template <class T, class... Fields>
struct values_not_taken<T, NoWeight, Fields...> : values_not_taken<T, Fields...> {};  // or classes
template <class T, class Field, class... Fields>
struct values_not_taken<T, Field, Fields...>
    : std::conditional_t<takes_values<T, typename Field::value_type>, values_not_taken<T, Fields...>,
                         std::type_identity<typename Field::value_type>> {};

/// The first of an image's further inputs whose numbers are not of the image's type; void where there is none.
template <class ModelType, class Image, std::size_t I = 1>
constexpr auto input_values_not_taken() {
  using Named = typename inputs_of<ModelType>::type;
  if constexpr (I >= given<Image>::count || I >= std::tuple_size_v<Named>) {
    return std::type_identity<void>{};
  } else {
    using V = typename given<Image>::template field<I>::value_type;
    if constexpr (std::tuple_element_t<I, Named>::shape.integer || std::is_same_v<V, typename Image::value_type>)
      return input_values_not_taken<ModelType, Image, I + 1>();
    else
      return std::type_identity<V>{};
  }
}

/// A label whose values a network of such values need not take: classes.
template <class Loss, class Label>
using Compared = std::conditional_t<takes_classes<Loss> && holds_indices<Label>, NoWeight, Label>;

/// The first label or weight whose values it does not take; void where it takes all.
template <class T, class Image, class Label, class Weight, class Loss, int... I>
auto values_of_outputs_not_taken(std::integer_sequence<int, I...>) ->
    typename values_not_taken<T, Image, Compared<OneOf<I, Loss>, OneOf<I, Label>>..., OneOf<I, Weight>...>::type;
template <class T, class Image, class Label, class Weight, class Loss>
using ValuesNotTaken = decltype(values_of_outputs_not_taken<T, Image, Label, Weight, Loss>(
    std::make_integer_sequence<int, std::max({1, count_given<Loss>, count_given<Label>, count_given<Weight>})>{}));

template <class ModelType, class Image, class Label, class Weight, class T, class Loss>
constexpr auto why_fields_do_not_fit() {
  if constexpr (Unstored<Image> || Unstored<Label> || Unstored<Weight>)
    return why::expression_is_no_field{};
  else if constexpr (!std::is_void_v<typename decltype(input_values_not_taken<ModelType, Image>())::type>)
    return why::field_values_differ<typename Image::value_type,
                                    typename decltype(input_values_not_taken<ModelType, Image>())::type>{};
  else if constexpr (outputs_given<Loss, Label, Weight>(outputs_of<ModelType>) != outputs_of<ModelType>)
    return why_shapes_do_not_fit<ModelType, Image, Label, Weight, Loss>();
  else if constexpr (std::is_void_v<ValuesNotTaken<T, Image, Label, Weight, Loss>>)
    return why_shapes_do_not_fit<ModelType, Image, Label, Weight, Loss>();
  else
    return why::field_values_differ<T, ValuesNotTaken<T, Image, Label, Weight, Loss>>{};
}

template <class ModelType, class Image, class Label, class Weight, class T, class Loss>
constexpr auto why_not() {
  if constexpr (is_expression_loss<Loss>)  // it reads label and weight as it likes
    return why_fields_do_not_fit<ModelType, Image, NoWeight, NoWeight, T, PlainLoss>();
  else
    return why_fields_do_not_fit<ModelType, Image, Label, Weight, T, Loss>();
}

template <class ModelType, class Image, class Label, class Weight, class T, class Loss>
using WhyNotOf = decltype(why_not<ModelType, Image, Label, Weight, T, Loss>());

}  // namespace detail

/// The why:: tag of what does not fit; void where all does. T: the value type of the parameters.
template <class ModelType, class Image, class Label = NoWeight, class Weight = NoWeight,
          class T = compute_type<typename Image::value_type>, class Loss = PlainLoss>
using WhyNot = detail::WhyNotOf<ModelType, Image, Label, Weight, T, Loss>;

template <class ModelType, class Image, class Label = NoWeight, class Weight = NoWeight,
          class T = compute_type<typename Image::value_type>, class Loss = PlainLoss>
concept Fits = std::is_void_v<WhyNot<ModelType, Image, Label, Weight, T, Loss>>;

}  // namespace halogen
