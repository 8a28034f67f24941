// A probe that lies in halogen::detail and halogen::kernels. An unqualified call that finds it would find every
// function there, of any name.
#pragma once

#include <halogen/halogen.hpp>

namespace halogen::detail {
template <class X>
void probe_of_lookup(const X&) {}
}  // namespace halogen::detail
namespace halogen::kernels {
template <class X>
void probe_of_lookup(const X&) {}
}  // namespace halogen::kernels

namespace {

namespace hg = halogen;

template <class X>
concept FindsDetail = requires(const X& x) { probe_of_lookup(x); };

static_assert(FindsDetail<hg::detail::Margin>, "the probe lies where it should be found");
static_assert(FindsDetail<std::tuple<hg::detail::Margin>>, "and is found through template arguments");

/// Fails in the line of the first type that finds it.
template <class X>
constexpr bool does_not_find_detail() {
  static_assert(!FindsDetail<X>, "a type that users hold is made of types of halogen::detail or halogen::kernels");
  return true;
}
template <class... X>
constexpr bool none_finds_detail() {
  return (does_not_find_detail<X>() && ...);
}
/// The same of values.
template <class... X>
constexpr bool none_of(const X&...) {
  return none_finds_detail<X...>();
}

/// A functor of a user's, with neighbours.
struct East {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, 1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T here, T east) const {
    return east - here;
  }
};

}  // namespace
