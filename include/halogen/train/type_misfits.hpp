// Whether a model, an image, a label and a weight fit together: found as a value, lifted to one why:: tag.
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

enum class FitKind {
  fits,
  channels_differ,
  groups_do_not_divide,
  upsample_without_skip,
  levels_differ,
  windows_differ,
  vector_has_no_points,
  weights_differ,
  nothing_is_frozen,
  inputs_differ,
  input_channels_differ,
  input_is_no_index,
  outputs_differ,
  label_channels_differ,
  channels_are_cut,
  input_is_partial,
  rank_differs,
  placements_differ
};

struct Fit {
  FitKind kind = FitKind::fits;
  int a = 0, b = 0, c = 0;
  const char* written = nullptr;  ///< of a model's misfit, as its depth and path
  int depth = 0, path[16]{};
  int output = -1;  ///< whose label or weight does not fit, if the model has several
};

/// The dimensions of fields for a model: (N, C) and those of its windows, where it has any.
template <class ModelType, class Image>
inline constexpr int rank_for = [] {
  constexpr int windows = graph_of<ModelType, input_channels<ModelType>>.windows;
  if (windows != 0) return 2 + windows;
  return Image::rank == 3 || Image::rank == 5 ? Image::rank : 4;
}();

template <int Rank, class Field>
constexpr Fit fit_of_field() {
  if constexpr (Field::rank != Rank) {
    return {FitKind::rank_differs, Rank, Field::rank};
  } else {
    for (int i = 0; i < static_cast<int>(Field::placements.size()); ++i) {
      if (Field::placements[static_cast<std::size_t>(i)] == 1) return {FitKind::channels_are_cut, i, 1};
      if (Field::placements[static_cast<std::size_t>(i)] == partial_code) return {FitKind::input_is_partial, i};
    }
    return {};
  }
}

constexpr Fit fit_of_layer(FitKind kind, const Misfit& misfit) {
  Fit fit{kind, misfit.layer, misfit.first, misfit.second, misfit.written, misfit.depth};
  for (int i = 0; i < misfit.depth; ++i) fit.path[i] = misfit.path[i];
  return fit;
}

template <class ModelType, int Channels>
constexpr Fit fit_of_model() {
  constexpr Misfit misfit = graph_of<ModelType, Channels>.misfit;
  switch (misfit.kind) {
    case Misfit::Kind::none:  // parameters of each channel of an input whose number of channels no layer names
      if (graph_of<ModelType, Channels>.parameter_count !=
          graph_of<ModelType, input_channels<ModelType>>.parameter_count)
        return {FitKind::channels_differ, 0, input_channels<ModelType>, Channels, address_of_type<ModelType>};
      return {};
    case Misfit::Kind::channels_differ:
      return fit_of_layer(FitKind::channels_differ, misfit);
    case Misfit::Kind::groups_do_not_divide:
      return fit_of_layer(FitKind::groups_do_not_divide, misfit);
    case Misfit::Kind::upsample_without_skip:
      return fit_of_layer(FitKind::upsample_without_skip, misfit);
    case Misfit::Kind::levels_differ:
      return fit_of_layer(FitKind::levels_differ, misfit);
    case Misfit::Kind::windows_differ:
      return fit_of_layer(FitKind::windows_differ, misfit);
    case Misfit::Kind::vector_has_no_points:
      return fit_of_layer(FitKind::vector_has_no_points, misfit);
    case Misfit::Kind::weights_differ:
      return fit_of_layer(FitKind::weights_differ, misfit);
    case Misfit::Kind::nothing_is_frozen:
      return fit_of_layer(FitKind::nothing_is_frozen, misfit);
  }
  return {};
}

/// Whether a model's Number-th output is a vector for each sample.
template <class ModelType, int Channels, int Number = 0>
inline constexpr bool makes_vectors =
    graph_of<ModelType, Channels>.is_vector(graph_of<ModelType, Channels>.output[Number]);

/// How vectors of an image's samples are placed by a mesh dimension that places the image so.
constexpr int vector_placement(int of_image) { return of_image == 0 ? 0 : replicate_code; }

/// Other placed and shaped as the output of a model, with `channels` channels: as Image, or as vectors of its samples.
template <class Image, bool Vectors, class Other>
constexpr Fit fit_beside(int channels) {
  if constexpr (std::is_same_v<Other, NoWeight>) {
    return {};
  } else {
    if (constexpr Fit own = fit_of_field < Vectors ? 2 : Image::rank, Other > (); own.kind != FitKind::fits) return own;
    for (std::size_t i = 0; i < Image::placements.size(); ++i)
      if ((Vectors ? vector_placement(Image::placements[i]) : Image::placements[i]) != Other::placements[i])
        return {FitKind::placements_differ, static_cast<int>(i)};
    if (Other::tensor_type::extents[1] != channels)
      return {FitKind::label_channels_differ, Other::tensor_type::extents[1], channels};
    return {};
  }
}

/// How Image is given to the I-th input of a model that names its inputs.
template <class ModelType, class Image, std::size_t I>
constexpr Fit fit_of_input() {
  constexpr const InputShape& shape = std::tuple_element_t<I, typename inputs_of<ModelType>::type>::shape;
  using Field = typename given<Image>::template field<I>;
  constexpr int channels = Field::tensor_type::extents[1], number = static_cast<int>(I);
  if constexpr (I > 0)
    if (const Fit beside = fit_beside<FirstOf<Image>, shape.whole, Field>(channels); beside.kind != FitKind::fits)
      return beside;
  if (channels != shape.channels) return {FitKind::input_channels_differ, number, shape.channels, channels};
  if (shape.integer && !holds_indices<Field>) return {FitKind::input_is_no_index, number};
  return {};
}

template <class ModelType, class Image>
constexpr Fit fit_of_inputs() {
  using Named = typename inputs_of<ModelType>::type;
  constexpr int needed = std::max(1, static_cast<int>(std::tuple_size_v<Named>));
  constexpr int have = static_cast<int>(given<Image>::count);
  Fit fit;
  if constexpr (needed != have)
    return {FitKind::inputs_differ, needed, have};
  else if constexpr (std::tuple_size_v<Named> > 0)
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((fit = fit.kind == FitKind::fits ? fit_of_input<ModelType, Image, I>() : fit), ...);
    }(std::make_index_sequence<std::tuple_size_v<Named>>{});
  return fit;
}

/// How label and weight of the Number-th output fit it.
template <class ModelType, class Image, class Label, class Weight, class Loss, int Number>
constexpr Fit fit_of_output() {
  constexpr int channels = Image::tensor_type::extents[1];
  constexpr bool vectors = makes_vectors<ModelType, channels, Number>;
  Fit fit =
      fit_beside<Image, vectors, Label>(label_channels<Loss, Label>(output_channels<ModelType, channels, Number>));
  if (fit.kind == FitKind::fits) fit = fit_beside<Image, vectors, Weight>(1);
  if (outputs_of<ModelType> > 1) fit.output = Number;
  return fit;
}

template <class ModelType, class Image, class Label, class Weight, class Loss>
constexpr Fit fit_of_outputs() {
  constexpr int needed = outputs_of<ModelType>;
  constexpr int other = [] {
    for (const int have : {count_given<Loss>, count_given<Label>, count_given<Weight>})
      if (have != 0 && have != needed) return have;
    return needed;
  }();
  if constexpr (other != needed) {
    return {FitKind::outputs_differ, needed, other};
  } else {
    Fit fit;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      ((fit = fit.kind == FitKind::fits
                  ? fit_of_output<ModelType, Image, OneOf<I, Label>, OneOf<I, Weight>, OneOf<I, Loss>, I>()
                  : fit),
       ...);
    }(std::make_integer_sequence<int, needed>{});
    return fit;
  }
}

template <class ModelType, class Image, class Label, class Weight, class Loss>
constexpr Fit find_fit() {
  constexpr Fit field = fit_of_field<rank_for<ModelType, Image>, Image>();
  constexpr Fit image = field.kind == FitKind::fits ? fit_of_inputs<ModelType, Image>() : field;
  if constexpr (image.kind != FitKind::fits) {
    return image;
  } else {
    constexpr int channels = Image::tensor_type::extents[1];
    constexpr Fit model = fit_of_model<ModelType, channels>();
    if constexpr (model.kind != FitKind::fits)
      return model;
    else
      return fit_of_outputs<ModelType, Image, Label, Weight, Loss>();
  }
}

/// Of a layer's misfit; void of others.
template <Fit F, class Written, class Path>
constexpr auto why_of_layer() {
  if constexpr (F.kind == FitKind::channels_differ)
    return why::channels_differ<F.a, F.b, F.c, Written, Path>{};
  else if constexpr (F.kind == FitKind::groups_do_not_divide)
    return why::groups_do_not_divide<F.a, F.b, F.c, Written, Path>{};
  else if constexpr (F.kind == FitKind::upsample_without_skip)
    return why::upsample_without_skip<F.a, Written, Path>{};
  else if constexpr (F.kind == FitKind::levels_differ)
    return why::levels_differ<F.a, F.b, F.c, Written, Path>{};
  else if constexpr (F.kind == FitKind::windows_differ)
    return why::windows_differ<F.a, F.b, F.c, Written, Path>{};
  else if constexpr (F.kind == FitKind::vector_has_no_points)
    return why::vector_has_no_points<F.a, Written, Path>{};
  else if constexpr (F.kind == FitKind::weights_differ)
    return why::weights_differ<F.a, Written, Path>{};
  else if constexpr (F.kind == FitKind::nothing_is_frozen)
    return why::nothing_is_frozen<F.a, Written, Path>{};
}
template <Fit F, std::size_t... I>
constexpr auto why_of_layer(std::index_sequence<I...>) {
  return why_of_layer<F, type_of_address<F.written>, why::path<F.path[I]...>>();
}

constexpr Fit of_one_output(Fit fit) {
  fit.output = -1;
  return fit;
}

template <Fit F>
constexpr auto why_of() {
  if constexpr (constexpr int number = F.output; number >= 0 && F.kind != FitKind::fits)
    return why::of_output<number, decltype(why_of<of_one_output(F)>())>{};
  else if constexpr (F.written != nullptr)
    return why_of_layer<F>(std::make_index_sequence<F.depth>{});
  else if constexpr (F.kind == FitKind::inputs_differ)
    return why::inputs_differ<F.a, F.b>{};
  else if constexpr (F.kind == FitKind::input_channels_differ)
    return why::input_channels_differ<F.a, F.b, F.c>{};
  else if constexpr (F.kind == FitKind::input_is_no_index)
    return why::input_is_no_index<F.a>{};
  else if constexpr (F.kind == FitKind::outputs_differ)
    return why::outputs_differ<F.a, F.b>{};
  else if constexpr (F.kind == FitKind::label_channels_differ)
    return why::label_channels_differ<F.a, F.b>{};
  else if constexpr (F.kind == FitKind::channels_are_cut)
    return why::channels_are_cut<F.a, F.b>{};
  else if constexpr (F.kind == FitKind::input_is_partial)
    return why::input_is_partial<F.a>{};
  else if constexpr (F.kind == FitKind::rank_differs)
    return why::rank_differs<F.a, F.b>{};
  else if constexpr (F.kind == FitKind::placements_differ)
    return why::placements_differ<F.a>{};
}

}  // namespace detail

namespace detail {

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
  constexpr bool of_several = count_given<Label> > 0 || count_given<Weight> > 0 || count_given<Loss> > 0;
  if constexpr (Unstored<Image> || Unstored<Label> || Unstored<Weight>)
    return why::expression_is_no_field{};
  else if constexpr (!std::is_void_v<typename decltype(input_values_not_taken<ModelType, Image>())::type>)
    return why::field_values_differ<typename Image::value_type,
                                    typename decltype(input_values_not_taken<ModelType, Image>())::type>{};
  else if constexpr (of_several && find_fit<ModelType, Image, Label, Weight, Loss>().kind == FitKind::outputs_differ)
    return why_of<find_fit<ModelType, Image, Label, Weight, Loss>()>();
  else if constexpr (std::is_void_v<ValuesNotTaken<T, Image, Label, Weight, Loss>>)
    return why_of<find_fit<ModelType, Image, Label, Weight, Loss>()>();
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
