// What fit() says about a loss that is not finite: which field of the batch, and which parameter, holds such a number.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "halogen/train/trainer.hpp"

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
    field.mesh().world().all_reduce(&place, 1, ReduceOp::min);
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
template <class Batch>
std::string words_about_batch(const Batch& batch) {
  return words_about_inputs(batch.x) + words_about_each("the label", batch.y) +
         words_about_each("the weight", batch.weight);
}

/// The first parameter tensor that holds a number which is not finite, in words. Collective over the trainer's mesh:
/// ranks may hold other values.
template <class AnyTrainer>
std::string words_about_parameters(const AnyTrainer& trainer) {
  using Held = std::remove_cvref_t<decltype(trainer.parameters())>;
  const std::vector<typename Held::value_type> own = host_copy(trainer.parameters().view());
  const std::vector<unsigned short> tensors = tensors_of_values(trainer.parameters());
  const auto& shapes = Held::graph().parameters;
  int first = shapes.size();
  const auto look = [&](index_t begin, index_t end, auto tensor_of) {
    for (index_t i = begin; i < end; ++i)
      if (!std::isfinite(static_cast<double>(own[static_cast<std::size_t>(i)]))) first = std::min(first, tensor_of(i));
  };
  look(0, static_cast<index_t>(tensors.size()), [&](index_t i) { return int{tensors[static_cast<std::size_t>(i)]}; });
  for (int p = 0; p < shapes.size(); ++p) {
    if (!shapes[p].buffer) continue;  // each rank has them, behind what is trained
    const index_t begin = static_cast<index_t>(tensors.size()) + shapes[p].offset - Held::graph().parameter_count;
    look(begin, begin + shapes[p].count, [p](index_t) { return p; });
  }
  trainer.mesh().world().all_reduce(&first, 1, ReduceOp::min);
  if (first == shapes.size()) return "all parameters are finite after it";
  return "parameter '" + parameter_names<typename Held::model_type>()[static_cast<std::size_t>(first)] +
         "' is the first that is not finite after it";
}

}  // namespace halogen::detail
