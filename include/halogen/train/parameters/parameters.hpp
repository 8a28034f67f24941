// Parameters<Model, T>: all weights of a model in one flat array, offsets known when it compiles.
#pragma once

#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "halogen/comm/communicator.hpp"
#include "halogen/core/config.hpp"
#include "halogen/core/philox.hpp"
#include "halogen/placement/placement.hpp"
#include "halogen/plan/trace.hpp"
#include "halogen/tensor/transport_copy.hpp"

namespace halogen {

/// Replicate: one truth, equal on all ranks. Gradients are Parameters with placement Partial, the dual; both share
/// the layout, so that a gradient is one message and an optimiser one kernel. Copies are shallow; clone() is deep.
template <class ModelType, class T, Placement P = Replicate>
class Parameters {
 public:
  using model_type = ModelType;
  using value_type = T;
  using placement = P;
  /// Values that an optimiser trains, and all: those of buffers stand behind them.
  static constexpr index_t trained = graph_of<ModelType, input_channels<ModelType>>.parameter_count;
  static constexpr index_t count = trained + graph_of<ModelType, input_channels<ModelType>>.buffer_count;

  /// Offsets and shapes, in the order of parameter_names<ModelType>().
  static constexpr const Graph& graph() { return graph_of<ModelType, input_channels<ModelType>>; }

  /// Zeros. Partial ones are a sum over the ranks of `summed_over`, and have no buffers.
  explicit Parameters(const std::string& label = "halogen::parameters", Communicator summed_over = {})
      : Parameters(label, std::move(summed_over), std::is_same_v<P, Replicate> ? count : trained) {}
  explicit Parameters(Kokkos::View<T*, memory_space> values) : values_(std::move(values)) {}

  const Communicator& summed_over() const { return summed_over_; }

  index_t trained_values() const { return trained; }
  /// Values that it holds: a gradient's and a moment's are those that are trained, the first ones.
  index_t size() const { return static_cast<index_t>(values_.extent(0)); }
  bool has_buffers() const { return size() == count; }
  T* data() const { return values_.data(); }
  const Kokkos::View<T*, memory_space>& view() const { return values_; }

  bool is_laid_out_as(const Parameters&) const { return true; }
  /// Zeros of the same layout without buffers, and a sum over the same ranks: a gradient's, a moment's.
  Parameters zeros(const std::string& label) const { return Parameters(label, summed_over_, trained); }
  Parameters clone() const {
    Parameters copy("halogen::parameters", summed_over_, size());
    Kokkos::deep_copy(copy.values_, values_);
    return copy;
  }

  /// One tensor on the host; `index` counts as graph().parameters and parameter_names() do. Errors: of a buffer, where
  /// there are none.
  std::vector<T> to_host(int index) const {
    const std::vector<T> all = to_host();
    const ParameterShape& shape = graph().parameters[index];
    if (shape.offset + shape.count > size())
      throw Error("tensor " + std::to_string(index) +
                  " is a buffer, or of a frozen layer, and a gradient or moment has values of trained ones alone: ask "
                  "the parameters for it");
    return {all.begin() + shape.offset, all.begin() + shape.offset + shape.count};
  }
  std::vector<T> to_host() const { return host_copy(values_); }
  void copy_from_host(const std::vector<T>& all) {
    if (static_cast<index_t>(all.size()) != size())
      throw Error("this model has " + std::to_string(size()) + " parameters, but " + std::to_string(all.size()) +
                  " were given");
    copy_to_view(values_, all);
  }

 private:
  Parameters(const std::string& label, Communicator summed_over, index_t values)
      : values_((detail::require_environment(), label), static_cast<std::size_t>(values)),
        summed_over_(std::move(summed_over)) {}

  detail::Lasting<Kokkos::View<T*, memory_space>> values_;
  Communicator summed_over_;
};

/// PyTorch's start of parameter `p`, drawn by (seed, tensor, element): the same on any mesh.
double initial_value(const Graph& graph, std::uint64_t seed, int p, index_t element);
#if HALOGEN_BODIES
HALOGEN_INLINE double initial_value(const Graph& graph, std::uint64_t seed, int p, index_t element) {
  const ParameterShape& shape = graph.parameters[p];
  using Start = ParameterShape::Start;
  if (shape.start == Start::constant) return shape.constant;
  if (shape.start == Start::ones || shape.start == Start::zeros) return shape.start == Start::ones ? 1.0 : 0.0;
  const auto unit_at = [&](index_t i) {
    return uniform_at(seed, static_cast<std::uint64_t>(p), static_cast<std::uint64_t>(i));
  };
  if (shape.start == Start::normal)  // Box and Muller, "A Note on the Generation of Random Normal Deviates", 1958
    return shape.deviation * std::sqrt(-2 * std::log(1 - unit_at(2 * element))) *
           std::cos(2 * std::numbers::pi * unit_at(2 * element + 1));
  const double unit = unit_at(element);
  return (2 * unit - 1) * (1.0 / std::sqrt(static_cast<double>(shape.fan_in)));
}
#endif

/// All of them, float a rounding of double.
template <class ModelType, class T>
Parameters<ModelType, T> initial_parameters(std::uint64_t seed) {
  Parameters<ModelType, T> parameters;
  std::vector<T> values(static_cast<std::size_t>(parameters.count));
  for (int p = 0; p < parameters.graph().parameters.size(); ++p) {
    const ParameterShape& shape = parameters.graph().parameters[p];
    for (index_t i = 0; i < shape.count; ++i)
      values[static_cast<std::size_t>(shape.offset + i)] =
          static_cast<T>(initial_value(parameters.graph(), seed, p, i));
  }
  parameters.copy_from_host(values);
  return parameters;
}

/// Partial -> Replicate: one all_reduce of the whole bucket, in place; staged where the transport does not take device
/// memory, in `copy`, which allocates at the first call alone. `gradient` and the result share their memory: once.
template <class To, class ModelType, class T>
  requires std::is_same_v<To, Replicate>
Parameters<ModelType, T> redistribute(const Parameters<ModelType, T, Partial<Sum>>& gradient, TransportCopy<T>& copy) {
  const Communicator& ranks = gradient.summed_over();
  if (ranks.size() > 1) {
    const execution_space space;
    const auto count = static_cast<std::size_t>(Parameters<ModelType, T>::trained);
    copy.reserve("halogen::gradient_copy", count, ranks);
    copy.put(space, gradient.data(), 0, count);
    sum_over_ranks(space, ranks, "halogen::gradient", copy.at(gradient.data(), 0), static_cast<index_t>(count));
    copy.get(space, gradient.data(), 0, count);
  }
  return Parameters<ModelType, T>(gradient.view());
}
template <class To, class ModelType, class T>
  requires std::is_same_v<To, Replicate>
Parameters<ModelType, T> redistribute(const Parameters<ModelType, T, Partial<Sum>>& gradient) {
  TransportCopy<T> copy;
  return redistribute<To>(gradient, copy);
}

}  // namespace halogen
