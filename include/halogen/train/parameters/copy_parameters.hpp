// copy_parameters(from, to, {.only = ..., .skip = ...}): the parameters of one model into another one's, by name.
//
//   hg::copy_parameters(trained, trainer.parameters(), {.only = {"body.*"}});
//
//   from, to: of any models and placements; values are converted  ->  the names that were taken, and those left as they
//   were
//
// Collective where one is sharded, over its mesh. Error, with nothing changed, alike on all ranks: a chosen parameter
// that `from` does not have, or has in another shape, unless {.fitting = true}; a pattern that no name has.
#pragma once

#include <algorithm>

#include "halogen/train/parameters/chosen_parameters.hpp"
#include "halogen/train/parameters/sharded_parameters.hpp"

namespace halogen {
namespace detail {

/// All values, on the host of each rank.
template <class ModelType, class T>
std::vector<T> whole_values(const Parameters<ModelType, T>& parameters) {
  return parameters.to_host();
}
template <class ModelType, class T>
std::vector<T> whole_values(const Parameters<ModelType, T, Shard<0>>& parameters) {
  return redistribute<Replicate>(parameters).to_host();
}
template <class ModelType, class T>
void set_whole_values(Parameters<ModelType, T> parameters, const std::vector<T>& values) {
  parameters.copy_from_host(values);
}
template <class ModelType, class T>
void set_whole_values(Parameters<ModelType, T, Shard<0>> parameters, const std::vector<T>& values) {
  parameters.fill(
      [&](const ParameterBuckets::Bucket&) { return [&](index_t i) { return values[static_cast<std::size_t>(i)]; }; });
}

}  // namespace detail

template <class From, class FromValue, class FromPlacement, class To, class ToValue, class ToPlacement>
TakenParameters copy_parameters(const Parameters<From, FromValue, FromPlacement>& from,
                                const Parameters<To, ToValue, ToPlacement>& to, const ChosenParameters& choice = {}) {
  const std::vector<std::string> names = parameter_names<To>(), theirs = parameter_names<From>();
  const std::vector<char> chosen = detail::chosen_of(names, choice);
  if (!from.has_buffers() || !to.has_buffers())
    throw CollectiveError("copy_parameters: a gradient or a moment is given, which has no buffers: give parameters");
  const std::vector<FromValue> source = detail::whole_values(from);
  std::vector<ToValue> values = detail::whole_values(to);
  TakenParameters result;
  std::string faults;
  for (std::size_t i = 0; i < names.size(); ++i) {
    const ParameterShape& shape = Parameters<To, ToValue>::graph().parameters[static_cast<int>(i)];
    const std::string name = choice.name_in_source ? choice.name_in_source(names[i]) : names[i];
    const auto found = std::ranges::find(theirs, name);
    const ParameterShape* other =
        found == theirs.end()
            ? nullptr
            : &Parameters<From, FromValue>::graph().parameters[static_cast<int>(found - theirs.begin())];
    const bool fits = other != nullptr && other->rank == shape.rank && std::ranges::equal(other->shape, shape.shape);
    if (chosen[i] != 0 && !fits && !choice.fitting)
      faults += (faults.empty() ? "'" : ", '") + name + (other == nullptr ? "' is missing" : "' has another shape");
    if (chosen[i] != 0 && fits)
      std::transform(source.begin() + other->offset, source.begin() + other->offset + other->count,
                     values.begin() + shape.offset, [](FromValue v) { return static_cast<ToValue>(v); });
    (chosen[i] != 0 && fits ? result.taken : result.left).push_back(names[i]);
  }
  if (!faults.empty())
    throw CollectiveError(
        "copy_parameters: of what is to be copied " + faults +
        ": name what is the same by .only or leave out what is not by .skip, or take {.fitting = true}");
  detail::set_whole_values(to, values);
  return result;
}

}  // namespace halogen
