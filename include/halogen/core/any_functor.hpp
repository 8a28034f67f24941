// Functors of any type behind one, so that Kokkos's part of a launch is compiled once for all of them.
#pragma once

namespace Kokkos {
class Serial;
class OpenMP;
class Threads;
}  // namespace Kokkos

namespace halogen::detail {

/// Whether a launch is over when it returns: only then may it point at its functor.
template <class ExecutionSpace>
inline constexpr bool launches_wait = false;
template <>
inline constexpr bool launches_wait<Kokkos::Serial> = true;
template <>
inline constexpr bool launches_wait<Kokkos::OpenMP> = true;
template <>
inline constexpr bool launches_wait<Kokkos::Threads> = true;

/// call(functor, arguments...)
template <class... Arguments>
struct AnyFunctor {
  const void* functor;
  void (*call)(const void*, Arguments...);

  void operator()(Arguments... arguments) const { call(functor, arguments...); }
};

}  // namespace halogen::detail
