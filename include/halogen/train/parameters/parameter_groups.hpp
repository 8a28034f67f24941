// Groups of parameters, chosen by name: each with its own share of the learning rate and the weight decay.
#pragma once

#include <algorithm>
#include <functional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "halogen/core/number_text.hpp"
#include "halogen/core/why.hpp"
#include "halogen/kernels/training/optimizers.hpp"
#include "halogen/train/parameters/sharded_parameters.hpp"

namespace halogen {

/// A parameter belongs to the first group that holds it, and with the factors 1 to none. holds(p, shape): p as
/// graph().parameters counts.
struct ParameterGroup {
  std::function<bool(int p, const ParameterShape& shape)> holds;
  double lr_factor = 1, decay_factor = 1;
};

namespace detail {

/// Whether a functor takes each parameter of a model.
template <class ModelType, class Chosen>
constexpr auto parameters_taken() {
  constexpr int count = graph_of<ModelType, input_channels<ModelType>>.parameters.size();
  StaticVector<bool, (count > 0 ? count : 1)> taken;
  for_each_parameter_name<ModelType>([&](std::string_view name) { taken.push(Chosen{}(name)); });
  return taken;
}

/// A functor without state, such as a lambda without captures, that can tell while the program is compiled.
template <class Chosen, class ModelType>
concept ChoosesWhenCompiled = std::is_empty_v<Chosen> && std::is_default_constructible_v<Chosen> && requires {
  typename std::bool_constant<(parameters_taken<ModelType, Chosen>().size() >= 0)>;
};

template <class ModelType, class Chosen>
constexpr bool takes_none() {
  if constexpr (ChoosesWhenCompiled<Chosen, ModelType>) {
    constexpr auto taken = parameters_taken<ModelType, Chosen>();
    return std::find(taken.begin(), taken.end(), true) == taken.end();
  }
  return false;
}

}  // namespace detail

/// Those of a model whose name, as parameter_names() has it, is chosen: by a lambda without captures while the program
/// is compiled, which refuses one that takes none (why::no_parameter_is_chosen), and by another function when it is
/// called. A program that asks for no names has no code that makes them.
template <class ModelType, class Chosen>
  requires(!detail::takes_none<ModelType, Chosen>())
ParameterGroup parameters_named(Chosen chosen, double lr_factor = 1, double decay_factor = 1) {
  if constexpr (detail::ChoosesWhenCompiled<Chosen, ModelType>) {
    static constexpr auto taken = detail::parameters_taken<ModelType, Chosen>();
    return {[](int p, const ParameterShape&) { return taken[p]; }, lr_factor, decay_factor};
  } else {
    return {[chosen = std::move(chosen), names = parameter_names<ModelType>()](int p, const ParameterShape&) -> bool {
              return chosen(std::string_view(names[static_cast<std::size_t>(p)]));
            },
            lr_factor, decay_factor};
  }
}
template <class ModelType, class Chosen,
          class Why = why::no_parameter_is_chosen<graph_of<ModelType, input_channels<ModelType>>.parameters.size()>>
  requires(detail::takes_none<ModelType, Chosen>())
ParameterGroup parameters_named(Chosen chosen, double lr_factor = 1, double decay_factor = 1) = delete;

/// Biases and the weights of norms, all tensors of one dimension, do not decay.
inline ParameterGroup without_decay() {
  return {[](int, const ParameterShape& shape) { return shape.rank <= 1; }, 1, 0};
}

/// groups: see above. average: the share of the old value in a moving average of the parameters (EMA), such as 0.999;
/// 0: none is kept.
struct OptimizerOptions {
  std::vector<ParameterGroup> groups{};
  double average = 0;
};

namespace detail {

template <class ModelType, class T>
Communicator shards_of(const Parameters<ModelType, T>&) {
  return {};
}
template <class ModelType, class T>
Communicator shards_of(const Parameters<ModelType, T, Shard<0>>& parameters) {
  return parameters.sharding()->group;
}

/// For each value that this rank trains the number of its tensor, as graph().parameters counts; that of no tensor where
/// a shard is filled up.
inline constexpr unsigned short no_tensor = 0xffff;

template <class ModelType, class T>
std::vector<unsigned short> tensors_of_values(const Parameters<ModelType, T>& parameters) {
  std::vector<unsigned short> tensors(static_cast<std::size_t>(parameters.trained_values()), no_tensor);
  const auto& shapes = parameters.graph().parameters;
  for (int p = 0; p < shapes.size(); ++p)
    if (!shapes[p].buffer)
      std::fill_n(tensors.begin() + shapes[p].offset, shapes[p].count, static_cast<unsigned short>(p));
  return tensors;
}
template <class ModelType, class T>
std::vector<unsigned short> tensors_of_values(const Parameters<ModelType, T, Shard<0>>& parameters) {
  std::vector<unsigned short> own(static_cast<std::size_t>(parameters.trained_values()), no_tensor);
  for (const ParameterBuckets::Bucket& bucket : parameters.sharding()->buckets) {
    const index_t first = bucket.begin + bucket.piece * parameters.sharding()->group.rank();
    int p = 0;
    for (index_t i = 0; i < bucket.piece && first + i < bucket.end; ++i) {
      p = parameters.graph().parameter_at(first + i, p);
      own[static_cast<std::size_t>(bucket.offset + i)] = static_cast<unsigned short>(p);
    }
  }
  return own;
}

}  // namespace detail

/// The groups of a model's parameters, where kernels read them.
template <class ModelType, class T, Placement P>
class GroupsOfParameters {
 public:
  /// by_tensor: kernels need to know tensors even where all are in one group. Throws CollectiveError for factors that
  /// are none, and for a group that holds no parameter.
  GroupsOfParameters(const Parameters<ModelType, T, P>& parameters, const std::vector<ParameterGroup>& groups,
                     bool by_tensor) {
    if (groups.empty() && !by_tensor) return;
    const std::vector<unsigned char> group_of = chosen(groups);
    tensors_ = detail::tensors_of_values(parameters);
    std::vector<unsigned short> known = tensors_;
    for (unsigned short& tensor : known)
      if (tensor == detail::no_tensor) tensor = 0;  // such values stay 0, whatever is done to them
    tensor_of_value_ = {"halogen::tensors", known.size()};
    group_of_tensor_ = {"halogen::groups", group_of.size()};
    copy_to_view(tensor_of_value_, known);
    copy_to_view(group_of_tensor_, group_of);
  }

  const kernels::GroupFactors& factors() const { return factors_; }
  const unsigned short* tensor_of_value() const { return tensor_of_value_.data(); }
  const unsigned char* group_of_tensor() const { return group_of_tensor_.data(); }
  /// On the host, as detail::tensors_of_values.
  const std::vector<unsigned short>& tensors_of_values() const { return tensors_; }

 private:
  std::vector<unsigned char> chosen(const std::vector<ParameterGroup>& groups) {
    if (static_cast<int>(groups.size()) >= kernels::most_groups)
      throw CollectiveError(std::to_string(groups.size()) + " groups of parameters: give at most " +
                            std::to_string(kernels::most_groups - 1));
    const auto& shapes = Parameters<ModelType, T, P>::graph().parameters;
    std::vector<unsigned char> group_of(static_cast<std::size_t>(shapes.size()), 0);
    std::vector<bool> is_used(groups.size());
    for (std::size_t p = 0; p < group_of.size(); ++p)
      for (std::size_t g = 0; g < groups.size() && group_of[p] == 0; ++g)
        if (groups[g].holds(static_cast<int>(p), shapes[static_cast<int>(p)])) {
          group_of[p] = static_cast<unsigned char>(g + 1);
          is_used[g] = true;
        }
    factors_.groups = static_cast<int>(groups.size()) + 1;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const double factor : {groups[g].lr_factor, groups[g].decay_factor})
        if (!(factor >= 0 && factor < 1e300))
          throw CollectiveError("group " + std::to_string(g) + " of parameters: a factor of " +
                                detail::number_text(factor) + ": give a finite number of 0 or more");
      if (!is_used[g])
        throw CollectiveError("group " + std::to_string(g) +
                              " of parameters holds none that an earlier group does not hold: look at "
                              "parameter_names() of the model");
      factors_.rate[g + 1] = groups[g].lr_factor;
      factors_.decay[g + 1] = groups[g].decay_factor;
    }
    return group_of;
  }

  kernels::GroupFactors factors_;
  std::vector<unsigned short> tensors_;
  detail::Lasting<Kokkos::View<unsigned short*, memory_space>> tensor_of_value_;
  detail::Lasting<Kokkos::View<unsigned char*, memory_space>> group_of_tensor_;
};

}  // namespace halogen
