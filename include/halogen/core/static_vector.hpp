// A vector of fixed capacity for constexpr code whose result must outlive the compiler's evaluation.
#pragma once

#include <array>
#include <stdexcept>

namespace halogen {

template <class T, int Capacity>
struct StaticVector {
  std::array<T, Capacity> items{};
  int count = 0;

  constexpr int push(const T& item) {
    if (count == Capacity) throw std::length_error("this model needs a larger StaticVector capacity");
    items[count] = item;
    return count++;
  }
  constexpr int size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr void pop() { --count; }
  constexpr T& operator[](int i) { return items[i]; }
  constexpr const T& operator[](int i) const { return items[i]; }
  constexpr const T& back() const { return items[count - 1]; }
  constexpr T& back() { return items[count - 1]; }
  constexpr const T* begin() const { return items.data(); }
  constexpr const T* end() const { return items.data() + count; }
};

}  // namespace halogen
