// What is prepared once and used again and again: plans with their memory, exchanges, tables.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "halogen/core/type_of.hpp"

namespace halogen::detail {

/// Objects of any type, each made once for a key and kept until their owner goes, or empties this. Most: how many are
/// kept; 0: all. Keys are few, so a search looks at each.
template <class Key, std::size_t Most = 0>
class Prepared {
 public:
  /// The object of this key. If there is none, or one of another type, that one goes first, and make() makes it:
  /// a std::unique_ptr or std::shared_ptr<T>. If there are Most, the oldest goes. asked: what a Key is compared with
  /// and made from.
  template <class T, class Asked, class Make>
  std::shared_ptr<T> get(const Asked& asked, Make make) {
    const auto found = find(asked);
    if (found != all_.end() && found->type == address_of_type<T>) return std::static_pointer_cast<T>(found->object);
    if (found != all_.end())
      all_.erase(found);
    else if (Most > 0 && all_.size() == Most)
      all_.erase(all_.begin());  // its memory may serve the new one
    std::shared_ptr<T> made = make();
    all_.push_back({Key(asked), address_of_type<T>, made});
    return made;
  }
  template <class Asked>
  void drop(const Asked& asked) {
    if (const auto found = find(asked); found != all_.end()) all_.erase(found);
  }
  void clear() { all_.clear(); }

 private:
  struct One {
    Key key;
    const char* type;
    std::shared_ptr<void> object;
  };
  template <class Asked>
  auto find(const Asked& asked) {
    auto one = all_.begin();
    while (one != all_.end() && !(one->key == asked)) ++one;
    return one;
  }

  std::vector<One> all_;
};

}  // namespace halogen::detail
