// A vector of fixed capacity for constexpr code whose result must outlive the compiler's evaluation.
#pragma once

#include <algorithm>
#include <array>
#include <stdexcept>
#include <type_traits>

namespace halogen {

/// A number of a table of T that is of a type of its own (plan/ids.hpp).
template <class Id, class T>
concept NumberOf = std::is_same_v<typename Id::of, T>;

template <class T, int Capacity>
struct StaticVector {
  T items[Capacity]{};  // no std::array: compilers count each of its calls as steps of a constant expression
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
  template <NumberOf<T> Id>
  constexpr T& operator[](Id id) {
    return items[id.number];
  }
  template <NumberOf<T> Id>
  constexpr const T& operator[](Id id) const {
    return items[id.number];
  }
  constexpr const T& back() const { return items[count - 1]; }
  constexpr T& back() { return items[count - 1]; }
  constexpr T* begin() { return items; }
  constexpr T* end() { return items + count; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + count; }
  constexpr bool operator==(const StaticVector& other) const
    requires requires(const T& item) { item == item; }
  {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
};

/// A table that lies elsewhere, read as a StaticVector is.
template <class T, int = 0>
struct TableView {
  const T* items = nullptr;
  int count = 0;

  constexpr TableView() = default;
  constexpr TableView(const T* first, int size) : items(first), count(size) {}
  template <int Capacity>
  constexpr TableView(const StaticVector<T, Capacity>& table) : items(table.begin()), count(table.size()) {}
  template <std::size_t Size>
  constexpr TableView(const std::array<T, Size>& table) : items(table.data()), count(static_cast<int>(Size)) {}

  constexpr int size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr const T& operator[](int i) const { return items[i]; }
  template <NumberOf<T> Id>
  constexpr const T& operator[](Id id) const {
    return items[id.number];
  }
  constexpr const T& back() const { return items[count - 1]; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + count; }
};

/// The first Size items of a StaticVector, for a static object that is as large as need be.
template <int Size, class T, int Capacity>
constexpr std::array<T, static_cast<std::size_t>(Size)> exact(const StaticVector<T, Capacity>& table) {
  std::array<T, static_cast<std::size_t>(Size)> items{};
  for (int i = 0; i < Size; ++i) items[static_cast<std::size_t>(i)] = table[i];
  return items;
}

}  // namespace halogen
