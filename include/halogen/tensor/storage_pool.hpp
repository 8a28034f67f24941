// Buffers of fields that died, kept for new fields of the same shape: their memory is touched and their margins have
// grown, so that from the second step on nothing is allocated.
#pragma once

#include <Kokkos_Core.hpp>

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "halogen/tensor/space.hpp"

namespace halogen {
namespace detail {

/// What empty_cache() has to empty beside free buffers: one function per kind.
inline std::vector<std::function<void()>>& caches() {
  static std::vector<std::function<void()>> all;
  return all;
}

/// All buffers of one type. A buffer is free when nobody but the pool holds it; few free ones are kept. Communication
/// and kernels run on one thread, so there is no lock.
template <class Storage>
class StoragePool {
 public:
  /// A free buffer of this shape, or null.
  template <class Shape>
  static std::shared_ptr<Storage> take(const Shape& shape) {
    for (const std::shared_ptr<Storage>& one : all())
      if (is_free(one) && *one->shape == shape) return one;
    return nullptr;
  }

  static void keep(const std::shared_ptr<Storage>& storage) {
    std::vector<std::shared_ptr<Storage>>& list = all();
    std::size_t free = 0;
    for (const auto& one : list) free += is_free(one);
    for (auto one = list.begin(); free > most_free && one != list.end();)
      one = is_free(*one) ? (--free, list.erase(one)) : one + 1;
    list.push_back(storage);
  }

 private:
  static constexpr std::size_t most_free = 8;

  /// Neither a field holds it nor a view that to_local() gave out.
  static bool is_free(const std::shared_ptr<Storage>& one) {
    return one.use_count() == 1 && one->view.use_count() == 1;
  }

  static std::vector<std::shared_ptr<Storage>>& all() {
    static std::vector<std::shared_ptr<Storage>>& list = *[] {
      require_environment();                                   // before main, Kokkos has no list of hooks yet
      auto* made = new std::vector<std::shared_ptr<Storage>>;  // emptied below, never destroyed after Kokkos
      free_buffers().push_back([made] { std::erase_if(*made, is_free); });
      Kokkos::push_finalize_hook([made] { made->clear(); });
      return made;
    }();
    return list;
  }
};

}  // namespace detail

/// Frees the buffers that are kept for reuse, as torch.cuda.empty_cache(), prepared exchanges included. Call it on all
/// ranks alike where they talk over NCCL: exchanges that are prepared anew compare their lengths.
inline void empty_cache() {
  for (const auto& free : detail::free_buffers()) free();
  for (const auto& empty : detail::caches()) empty();
}

}  // namespace halogen
