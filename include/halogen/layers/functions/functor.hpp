// What layers with a user's functor share: the parameters that the functor names. Each has a number for each channel,
// or if it is `shared` one number for all.
//
//   struct Gate {
//     static constexpr hg::ChannelParameter parameters[] = {{"scale"}};     // optional
//     template <class T> KOKKOS_FUNCTION T operator()(T a, T b, T scale) const { ... }
//   };
//
// operator() takes the values, then the parameters. It is a template of their type, because derivatives are computed by
// calling it with dual numbers (kernels/rows/dual.hpp). The functor holds no state: it is constructed where it is
// called, also on a device.
#pragma once


#include "halogen/kernels/rows/functor_rows.hpp"
#include "halogen/layers/module.hpp"
#include "halogen/layers/window_options.hpp"
#include "halogen/run/at.hpp"

namespace halogen {

namespace detail {

/// The number of channels in the option Channels; 0 without it.
template <class... Options>
inline constexpr int channels_named = 0;
template <int Count, class... Options>
inline constexpr int channels_named<Channels<Count>, Options...> = Count;
template <class Option, class... Options>
inline constexpr int channels_named<Option, Options...> = channels_named<Options...>;

/// Checks that a layer with `named` channels (0: any number) gets as many.
constexpr void check_channels(GraphDraft& graph, int layer, int named, int have) {
  if (named != 0 && named != have) graph.refuse<why::channels_differ>(layer, named, have);
}

template <class F>
inline constexpr int channel_parameters = [] {
  if constexpr (requires { F::parameters; })  // std::size: nvcc does not know the extent of a class template's array
    return static_cast<int>(sizeof(F::parameters) / sizeof(ChannelParameter));
  else
    return 0;
}();

/// Adds the functor's parameters to the graph, and returns the first.
template <class F>
constexpr int add_channel_parameters(GraphDraft& graph, int channels) {
  int first = -1;
  if constexpr (channel_parameters < F >> 0)
    for (const ChannelParameter& parameter : F::parameters) {
      ParameterShape shape{
          .shape = {parameter.shared ? 1 : channels}, .rank = 1 + parameter.trailing, .start = parameter.start};
      shape.constant = parameter.value;
      for (int i = 1; i < shape.rank; ++i) shape.shape[i] = 1;
      const int added = graph.add_parameter(parameter.name, shape);
      if (first < 0) first = added;
    }
  return first;
}

/// The launch reads the functor's parameters.
template <class F>
constexpr Launch& use_channel_parameters(Launch& launch, const Node& node) {
  for (int i = 0; i < channel_parameters<F>; ++i) launch.use(node.parameter + i);
  return launch;
}

/// The same for kernels, starting at a launch's use `first`.
template <class F, class S>
auto channel_values(const LaunchAt<S>& at, int first = 0) {
  kernels::ChannelValues<compute_type<S>, channel_parameters<F>> values;
  if constexpr (channel_parameters < F >> 0)
    for (int i = 0; i < channel_parameters<F>; ++i)
      values.of[i] = at.parameter(first + i), values.step[i] = F::parameters[i].shared ? 0 : 1;
  return values;
}

/// Sums a parameter's gradient, which `reader` reads for each channel and point.
template <class F, int Index, class S, class Reader>
void sum_parameter(const LaunchAt<S>& at, const char* label, const Reader& reader, compute_type<S>* to) {
  if (!F::parameters[Index].shared) return at.sum_channels(label, reader, at.tiling(), to);
  at.sum_channels(label, reader, at.tiling(), at.partials());  // to where the first block's sums lay
  at.add_blocks(at.partials(), 1, at.node().channels, 1, to);
}

template <class F>
constexpr const char* label_of(const char* otherwise) {
  if constexpr (requires { F::label; })
    return F::label;
  else
    return otherwise;
}

/// Whether the functor can be called with this number of values and its parameters.
template <class F, class T, int... I>
constexpr bool callable_with(std::integer_sequence<int, I...>) {
  return requires(const F& f) { f((static_cast<void>(I), T{})...); };
}
template <class F, int Values, class T = double>
inline constexpr bool can_be_called =
    callable_with<F, T>(std::make_integer_sequence<int, Values + channel_parameters<F>>{});

}  // namespace detail
}  // namespace halogen
