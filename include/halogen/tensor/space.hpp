// Where fields live and kernels run, and where the transport can read.
#pragma once

#include <Kokkos_Core.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/core/any_functor.hpp"
#include "halogen/core/config.hpp"
#include "halogen/core/host_array.hpp"
#include "halogen/core/launched.hpp"

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace halogen {

using execution_space = Kokkos::DefaultExecutionSpace;
using memory_space = execution_space::memory_space;

inline constexpr bool runs_on_host = Kokkos::SpaceAccessibility<Kokkos::HostSpace, memory_space>::accessible;

/// Buffers of transports that take no device memory: plain host memory, or pinned host memory that device kernels write
/// directly.
#if defined(KOKKOS_ENABLE_CUDA) || defined(KOKKOS_ENABLE_HIP)
using transport_space = std::conditional_t<runs_on_host, Kokkos::HostSpace, Kokkos::SharedHostPinnedSpace>;
#else
using transport_space = Kokkos::HostSpace;
#endif

namespace detail {
/// Before anything is allocated or launched: throws CollectiveError where Kokkos does not run.
inline void require_environment() {
  if (!Kokkos::is_initialized())
    throw CollectiveError(
        "there is no halogen::Environment: make one first in main, halogen::Environment env(argc, argv), and use "
        "fields "
        "and parameters only while it lives");
}

/// One function per kind of buffer that is kept for reuse, which frees those that nobody holds.
inline std::vector<std::function<void()>>& free_buffers() {
  static std::vector<std::function<void()>> all;
  return all;
}
}  // namespace detail

/// make(), which allocates `bytes`; where the memory is refused once more without the buffers that are only kept for
/// reuse, then throws Error, naming what they hold and what helps.
template <class Make>
auto allocated(std::size_t bytes, const std::string& holds, const std::string& advice, Make make) {
  detail::require_environment();
  try {
    return make();
  } catch (const std::exception&) {
    for (const auto& free : detail::free_buffers()) free();
  }
  try {
    return make();
  } catch (const std::exception&) {
    throw Error("this rank's " + holds + " need " + std::to_string(bytes >> 20) + " MiB, which the " +
                (runs_on_host ? "system" : "device") + " refuses: " + advice);
  }
}

/// The same policy, its functor passed as the kernel's arguments, which hold 4 KiB. Otherwise Kokkos would put a
/// functor of more than 512 bytes into constant memory, and the host would wait there for the launch before.
template <class Policy>
auto by_arguments(const Policy& policy) {
  return Kokkos::Experimental::require(policy, Kokkos::Experimental::WorkItemProperty::HintLightWeight);
}

namespace detail {
/// Whether a launch has so few points that other threads would start too late to help.
template <class Functor>
bool is_small([[maybe_unused]] const Functor& functor) {
  if constexpr (requires { functor.all_points(); })
    return functor.all_points() <= 2048;
  else
    return false;
}
}  // namespace detail

/// functor(i) for i of [0, count), ordered on `space`. A functor with `host_alone` is never launched on a device.
template <class Functor>
HALOGEN_NOINLINE void launch_range(const execution_space& space, const char* label, index_t count,
                                   const Functor& functor) {
  detail::require_environment();
  using Policy = Kokkos::RangePolicy<execution_space, Kokkos::IndexType<index_t>>;
  if constexpr (detail::launches_wait<execution_space>) {
    struct Parts {
      const Functor& functor;
      index_t count, parts;
    } const all{functor, count, detail::is_small(functor) ? 1 : std::min<index_t>(count, space.concurrency())};
    const detail::AnyFunctor<index_t> any{&all, [](const void* from, index_t part) {
                                            const Parts& of = *static_cast<const Parts*>(from);
                                            const index_t end = of.count * (part + 1) / of.parts;
                                            const index_t begin = of.count * part / of.parts;
                                            if constexpr (requires { of.functor.run(begin, end); })
                                              of.functor.run(begin, end);
                                            else
                                              for (index_t i = begin; i < end; ++i) of.functor(i);
                                          }};
    if (all.parts == 1 && !Kokkos::Tools::profileLibraryLoaded()) return any(0);  // a tool is to see all launches
    Kokkos::parallel_for(label, Policy(space, 0, all.parts), any);
  } else if constexpr (requires { Functor::host_alone; }) {
    throw std::logic_error(std::string(label) + ": a kernel of the host was launched on a device");
  } else {
    Kokkos::parallel_for(label, by_arguments(Policy(space, 0, count)), functor);
    detail::check_launched(label);
  }
}

namespace detail {

/// Puts a view aside that outlives Kokkos, as those of a global variable do: its memory then ends with the process.
/// Kokkos would abort it.
template <class View>
void end_with_process(const View& view) {
  if (!Kokkos::is_finalized() || view.data() == nullptr) return;
  static std::vector<View>& kept = *new std::vector<View>;  // never destroyed
  kept.push_back(view);
}

/// A view that may outlive Kokkos. For members, not for kernels.
template <class View>
struct Lasting : View {
  using View::View;
  Lasting() = default;
  Lasting(const View& view) : View(view) {}  // NOLINT: is one
  Lasting(const Lasting&) = default;
  Lasting(Lasting&&) = default;
  Lasting& operator=(const Lasting&) = default;
  Lasting& operator=(Lasting&&) = default;
  ~Lasting() { end_with_process<View>(*this); }
};

}  // namespace detail

/// `count` values of the host as a view, to copy from or into: unlike a mirror never the device's own memory.
template <class T>
Kokkos::View<T*, Kokkos::HostSpace, Kokkos::MemoryUnmanaged> host_view(T* values, std::size_t count) {
  return {values, count};
}

/// A copy of a view, of contiguous values, for the host to read.
template <class View>
detail::HostArray<typename View::non_const_value_type> host_copy(const View& view) {
  detail::require_environment();
  detail::HostArray<typename View::non_const_value_type> values(view.size());
  Kokkos::deep_copy(
      host_view(values.data(), values.size()),
      Kokkos::View<typename View::const_value_type*, typename View::memory_space, Kokkos::MemoryUnmanaged>(
          view.data(), view.size()));
  return values;
}

/// And the other way: `values` are as many as the view has.
template <class View, class Values>
void copy_to_view(const View& view, const Values& values) {
  detail::require_environment();
  Kokkos::deep_copy(Kokkos::View<typename View::value_type*, typename View::memory_space, Kokkos::MemoryUnmanaged>(
                        view.data(), view.size()),
                    host_view(std::data(values), std::size(values)));
}

/// Asks for huge pages before memory is touched: first touch of 4 KiB pages costs more than a convolution on them.
/// Does nothing where the system has none, or the memory is a device's.
inline void advise_huge_pages([[maybe_unused]] const void* data, [[maybe_unused]] std::size_t bytes) {
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  constexpr std::uintptr_t page = 1 << 21;
  if (!runs_on_host || bytes < 2 * page) return;
  const auto begin = (reinterpret_cast<std::uintptr_t>(data) + page - 1) / page * page;
  const auto end = (reinterpret_cast<std::uintptr_t>(data) + bytes) / page * page;
  madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
#endif
}

}  // namespace halogen
