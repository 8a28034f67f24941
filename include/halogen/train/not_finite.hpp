// Where numbers that are not finite come from, in words: the field of a batch, the parameter, the layer, and the point.
// For TrainerOptions::check, and for fit where a loss is not finite.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "halogen/core/number_text.hpp"
#include "halogen/train/network.hpp"
#include "halogen/train/parameters/parameter_groups.hpp"

namespace halogen::detail {

/// "; the image is not finite at (0, 2, 10, 0)" for the first such point, or nothing. Collective over the field's mesh.
template <class Field>
std::string words_about_field(const char* name, const Field& field) {
  if constexpr (!is_sharded<Field>) {
    return "";
  } else if constexpr (!std::is_floating_point_v<compute_type<typename Field::value_type>>) {
    return "";
  } else {
    const std::vector<typename Field::value_type> own = field.to_host();
    constexpr auto none = std::numeric_limits<std::int64_t>::max();
    std::int64_t place = none;  // row-major in the whole field
    for (std::size_t i = 0; i < own.size() && place == none; ++i) {
      if (std::isfinite(static_cast<double>(own[i]))) continue;
      auto rest = static_cast<index_t>(i);
      index_t stride = 1;
      place = 0;
      for (int d = Field::rank; d-- > 0;) {
        place += (field.offset(d) + rest % field.local_extent(d)) * stride;
        rest /= field.local_extent(d), stride *= field.extent(d);
      }
    }
    place = least_of_ranks(field.mesh().world(), place);
    if (place == none) return "";
    std::string at;
    for (int d = Field::rank; d-- > 0; place /= field.extent(d))
      at = std::to_string(place % field.extent(d)) + (at.empty() ? "" : ", ") + at;
    return std::string("; ") + name + " is not finite at (" + at + ")";
  }
}
template <class Image>
std::string words_about_inputs(const Image& image) {
  std::string words = words_about_field("the image", static_cast<const FirstOf<Image>&>(image));
  for_each_more(image, [&](const auto& field, int number) {
    words += words_about_field(("input " + std::to_string(number)).c_str(), field);
  });
  return words;
}
/// Of labels or weights, one or one for each output.
template <class Fields>
std::string words_about_each(const char* name, const Fields& fields) {
  if constexpr (count_given<Fields> > 0)
    return std::apply([&](const auto&... one) { return (words_about_field(name, one) + ...); }, fields.each);
  else
    return words_about_field(name, fields);
}
template <class Image, class Label, class Weight>
std::string words_about_fields(const Image& image, const Label& label, const Weight& weight) {
  return words_about_inputs(image) + words_about_each("the label", label) + words_about_each("the weight", weight);
}

/// The first parameter tensor whose number in `values`, laid out as the parameters or as those of them that are
/// trained, is not finite, on any rank; the number of tensors where all are finite. Collective: ranks may hold other
/// values.
template <class Held>
int first_tensor_not_finite(const Held& parameters, const auto& values, const Communicator& world) {
  const std::vector<typename Held::value_type> own = host_copy(values);
  const std::vector<unsigned short> tensors = tensors_of_values(parameters);
  const auto& shapes = Held::graph().parameters;
  int first = shapes.size();
  const auto look = [&](index_t begin, index_t end, auto tensor_of) {
    for (index_t i = begin; i < std::min(end, static_cast<index_t>(own.size())); ++i)
      if (!std::isfinite(static_cast<double>(own[static_cast<std::size_t>(i)]))) first = std::min(first, tensor_of(i));
  };
  look(0, static_cast<index_t>(tensors.size()), [&](index_t i) { return int{tensors[static_cast<std::size_t>(i)]}; });
  for (int p = 0; p < shapes.size(); ++p) {
    if (!shapes[p].buffer) continue;  // each rank has them, behind what is trained
    const index_t begin = static_cast<index_t>(tensors.size()) + shapes[p].offset - Held::graph().parameter_count;
    look(begin, begin + shapes[p].count, [p](index_t) { return p; });
  }
  return least_of_ranks(world, first);
}
template <class Held>
std::string tensor_name(int tensor) {
  return "'" + parameter_names<typename Held::model_type>()[static_cast<std::size_t>(tensor)] + "'";
}

/// The first parameter tensor that holds a number which is not finite. Collective over the trainer's mesh.
template <class AnyTrainer>
std::string words_about_parameters(const AnyTrainer& trainer) {
  using Held = std::remove_cvref_t<decltype(trainer.parameters())>;
  const int first = first_tensor_not_finite(trainer.parameters(), trainer.parameters().view(), trainer.mesh().world());
  if (first == Held::graph().parameters.size()) return "all parameters are finite after it";
  return "parameter " + tensor_name<Held>(first) + " is the first that is not finite after it";
}

/// A number that is not finite in what a launch has written: the launch, and the point (N, C, D, H, W).
using FaultyPoint = std::array<index_t, 6>;

/// The first on this rank in what launch i has written; nothing where all is finite. samples_before: how much larger
/// the number of a sample is in the batch.
template <class E>
std::optional<FaultyPoint> first_fault_of(const E& evaluation, int i, index_t samples_before) {
  const Plan& plan = E::plan();
  const TensorId tensor = plan.launches[i].output;
  if (tensor < 0 || plan.tensors[tensor].map >= 0) return std::nullopt;
  const Layout& layout = evaluation.layout();
  const auto values = evaluation.values_of(tensor);
  for (std::size_t k = 0; k < values.size(); ++k) {
    if (std::isfinite(static_cast<double>(values[k]))) continue;
    FaultyPoint at{i};
    auto rest = static_cast<index_t>(k);
    for (int d = spatial_dimensions; d-- > 0;) {
      const Interval owned = layout.tensor(tensor).owned[d];
      at[static_cast<std::size_t>(3 + d)] = owned.begin + rest % owned.size();
      rest /= owned.size();
    }
    at[2] = rest % plan.tensors[tensor].channels;
    at[1] = rest / plan.tensors[tensor].channels + layout.first_sample() + samples_before;
    return at;
  }
  return std::nullopt;
}

/// Collective: runs forward once more, and looks for the first layer whose result is not finite where it is stored;
/// nothing where all are finite. for_each_part: that of BatchGradient. layout: of an evaluation of E.
template <class ModelType, class E, class T, class ForEachPart>
std::string words_about_layers(const Layout& layout, T* parameters, const Communicator& world,
                               ForEachPart for_each_part) {
  using Names = Parameters<ModelType, T>;
  std::optional<FaultyPoint> found;
  for_each_part([&](E& evaluation, const auto& image, index_t samples_before) {
    std::optional<FaultyPoint> of_part;
    evaluation.watch_launches([&](int i) {
      if (!of_part && i < E::plan().first_backward) of_part = first_fault_of(evaluation, i, samples_before);
    });
    evaluation.forward(views_of(image), parameters);
    evaluation.watch_launches({});
    if (of_part && (!found || *of_part < *found)) found = of_part;
  });
  FaultyPoint first{};
  for (std::size_t k = 0; k < first.size(); ++k) {  // the least in the order of launches, then of points
    const bool is_among =
        found && std::equal(first.begin(), first.begin() + static_cast<std::ptrdiff_t>(k), found->begin());
    first[k] = least_of_ranks(world, is_among ? (*found)[k] : std::numeric_limits<index_t>::max());
  }
  if (first[0] == std::numeric_limits<index_t>::max()) return "";
  const Plan& plan = E::plan();
  const Launch& launch = plan.launches[static_cast<int>(first[0])];
  const Node& node = plan.graph.nodes[launch.node];
  std::string text = "; layer " + std::to_string(node.layer) + " (" + node.operation->name;
  if (node.parameter >= 0) text += " with " + tensor_name<Names>(node.parameter);
  text +=
      ") is the first whose result is not finite, at (" + std::to_string(first[1]) + ", " + std::to_string(first[2]);
  if (!layout.level(plan.tensors[launch.output].level).whole)
    for (int d = 2 + spatial_dimensions - layout.rank_of_fields(); d < spatial_dimensions; ++d)
      text += ", " + std::to_string(first[static_cast<std::size_t>(3 + d)]);
  return text + ")";
}

/// Looks at a step before anything is updated. Running statistics, which the forward pass updates, are put back.
template <class Held>
class StepCheck {
  using View = Kokkos::View<typename Held::value_type*, memory_space>;

 public:
  /// Before the step.
  explicit StepCheck(const Held& parameters) : parameters_(parameters) {
    const auto trained = static_cast<std::size_t>(parameters.trained_values()), all = parameters.view().extent(0);
    if (all > trained) {
      buffers_ = Kokkos::subview(parameters.view(), std::pair(trained, all));
      before_ = View("halogen::buffers", all - trained);
      Kokkos::deep_copy(before_, buffers_);
    }
  }

  /// Collective: throws CollectiveError where the loss or a gradient is not finite. words_about_rest() are words about
  /// the step's fields and layers.
  template <class Gradient, class Words>
  void after(const std::string& step, double loss, const Gradient& gradient, const Communicator& world,
             Words words_about_rest) const {
    int tensor = first_tensor_not_finite(parameters_, gradient.view(), world);
    const int tensors = Held::graph().parameters.size();
    if (std::isfinite(loss) && tensor == tensors) return;
    put_back();
    std::string text = std::isfinite(loss)
                           ? "the gradient of " + tensor_name<Held>(tensor) + " is the first that is not finite"
                           : "the loss is " + (std::isnan(loss) ? "nan" : number_text(loss));
    if (const int held = first_tensor_not_finite(parameters_, parameters_.view(), world); held != tensors)
      text += "; parameter " + tensor_name<Held>(held) + " is the first that is not finite before it";
    text += words_about_rest();
    put_back();
    throw CollectiveError(step + ": " + text + "; nothing has been updated");
  }

 private:
  void put_back() const {
    if (before_.extent(0) > 0) Kokkos::deep_copy(buffers_, before_);
  }

  const Held& parameters_;
  View buffers_, before_;
};

}  // namespace halogen::detail
