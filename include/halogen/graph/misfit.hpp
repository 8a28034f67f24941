// Refusals of layers: the first mistake in a model is found as a value and leads back to a type, whose name and numbers
// the compiler prints.
//
// A refusal is a struct template with a layer's number, up to two more numbers, and the types Written and Path. It is
// declared in the file of the layer that refuses, which need not be one of Halogen's:
//
//   template <int Layer, int Channels, class Written, class Path>
//   struct channels_are_no_pairs {};
//   ...
//   if (channels % 2 != 0) graph.refuse<channels_are_no_pairs>(layer, channels);
//
// Layer is the layer's position in forward order, from 0. Written is the layer's type as the model's author wrote it,
// or the type of the container that joins two values. Path says where it stands. The refusals below are those of the
// graph itself, and those that many layers share.
#pragma once

#include "halogen/core/type_of.hpp"

namespace halogen {

namespace why {

/// The place of a layer in its model: its position in the outermost container, in the container within, and so on, as
/// PyTorch's names of parameters count.
template <int... Positions>
struct path {};

/// Layer takes Needed channels, but its input has Have.
template <int Layer, int Needed, int Have, class Written, class Path>
struct channels_differ {};

/// Layer divides Channels channels into Groups groups, but Groups does not divide Channels.
template <int Layer, int Groups, int Channels, class Written, class Path>
struct groups_do_not_divide {};

/// Layer joins tensors of different resolution: one of level First, one of level Second.
template <int Layer, int First, int Second, class Written, class Path>
struct levels_differ {};

/// Layer has windows of Needed dimensions, layers before it have windows of Have. A model is of signals (1), planes (2)
/// or volumes (3).
template <int Layer, int Needed, int Have, class Written, class Path>
struct windows_differ {};

/// Layer reads points of a field, but its input is a vector for each sample. Fix: put it before the layer that makes
/// the vector, or take a layer of vectors.
template <int Layer, class Written, class Path>
struct vector_has_no_points {};

/// Layer has the name of an earlier layer, whose parameters it would take. But it has another number of them, or other
/// shapes, or one of the two layers is Frozen. Fix: another name.
template <int Layer, class Written, class Path>
struct weights_differ {};

}  // namespace why

namespace detail {

// A type for the template of a refusal, by the count of its numbers beside the layer's. A type has an address.
template <template <int, class, class> class Why>
struct RefusalOf0 {
  template <int Layer, int, int, class Written, class Path>
  using type = Why<Layer, Written, Path>;
};
template <template <int, int, class, class> class Why>
struct RefusalOf1 {
  template <int Layer, int First, int, class Written, class Path>
  using type = Why<Layer, First, Written, Path>;
};
template <template <int, int, int, class, class> class Why>
struct RefusalOf2 {
  template <int Layer, int First, int Second, class Written, class Path>
  using type = Why<Layer, First, Second, Written, Path>;
};

}  // namespace detail

/// The address that stands for a refusal (core/type_of.hpp).
template <template <int, class, class> class Why>
constexpr const char* refusal() {
  return detail::address_of_type<detail::RefusalOf0<Why>>;
}
template <template <int, int, class, class> class Why>
constexpr const char* refusal() {
  return detail::address_of_type<detail::RefusalOf1<Why>>;
}
template <template <int, int, int, class, class> class Why>
constexpr const char* refusal() {
  return detail::address_of_type<detail::RefusalOf2<Why>>;
}

/// The first mistake that was found in a model, as a value. train/type_misfits.hpp turns it into the refusal's type.
struct Misfit {
  const char* why = nullptr;  ///< refusal<...>() of the mistake; null: there is none
  int layer = 0, first = 0, second = 0;
  const char* written = nullptr;  ///< identifies the layer's type (core/type_of.hpp)
  int depth = 0, path[16]{};      ///< positions in the containers around the layer, the outermost first
};

}  // namespace halogen
