// What Kokkos does while f runs, by label: counted through its tool callbacks.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace support {

struct KokkosEvents {
  std::map<std::string, std::vector<std::uint64_t>> allocations;  ///< bytes of each
  std::map<std::string, int> launches, fences;

  /// "label:count label:count", empty where there were none.
  template <class Uses>
  static std::string text(const Uses& uses) {
    std::string text;
    for (const auto& use : uses) {
      if constexpr (requires { use.second.size(); })
        text += use.first + ":" + std::to_string(use.second.size()) + " ";
      else
        text += use.first + ":" + std::to_string(use.second) + " ";
    }
    return text;
  }
  std::uint64_t bytes(const std::string& label) const {
    std::uint64_t sum = 0;
    if (const auto found = allocations.find(label); found != allocations.end())
      for (const std::uint64_t one : found->second) sum += one;
    return sum;
  }
};

/// A tool that is loaded sees everything as well.
template <class F>
KokkosEvents kokkos_events(F f) {
  using namespace Kokkos::Tools::Experimental;
  static KokkosEvents events;
  static EventSet before;
  events = {};
  before = get_callbacks();
  set_allocate_data_callback(
      [](Kokkos_Profiling_SpaceHandle space, const char* label, const void* at, std::uint64_t n) {
        if (n > 0) events.allocations[label].push_back(n);  // Kokkos asks for 0 bytes a launch on a GPU
        if (before.allocate_data != nullptr) before.allocate_data(space, label, at, n);
      });
  set_begin_parallel_for_callback([](const char* label, std::uint32_t device, std::uint64_t* id) {
    ++events.launches[label];
    if (before.begin_parallel_for != nullptr) before.begin_parallel_for(label, device, id);
  });
  set_begin_fence_callback([](const char* label, std::uint32_t device, std::uint64_t* id) {
    if (std::string(label).find("Tool Fence") == std::string::npos) ++events.fences[label];  // not those for tools
    if (before.begin_fence != nullptr) before.begin_fence(label, device, id);
  });
  f();
  set_allocate_data_callback(before.allocate_data);
  set_begin_parallel_for_callback(before.begin_parallel_for);
  set_begin_fence_callback(before.begin_fence);
  return events;
}

}  // namespace support
