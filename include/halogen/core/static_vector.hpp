// Tables for constexpr code: of fixed capacity, where the result must outlive the compiler's evaluation, and growing
// ones.
#pragma once

#include <algorithm>
#include <array>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace halogen {

/// A number of a table of T that is of a type of its own (plan/ids.hpp).
template <class Id, class T>
concept NumberOf = std::is_same_v<typename Id::of, T>;

namespace detail {
namespace types {

/// The items of a StaticVector.
template <class T, int Capacity>
struct FixedItems {
  using item_type = T;
  T items[Capacity]{};  // no std::array: compilers count each of its calls as steps of a constant expression
  int count = 0;

  static constexpr int room = Capacity;
  static constexpr void grow() { throw std::length_error("this needs a larger StaticVector"); }
};

/// The items of a GrowingTable.
template <class T>
struct GrowingItems {
  static_assert(std::is_trivially_destructible_v<T>);
  using item_type = T;
  T* items = nullptr;
  int count = 0, room = 0;

  constexpr GrowingItems() = default;
  constexpr explicit GrowingItems(int size) {
    reserve(size);
    for (; count < size; ++count) std::construct_at(items + count);
  }
  constexpr GrowingItems(const GrowingItems& other) {
    reserve(other.count);
    for (; count < other.count; ++count) std::construct_at(items + count, other.items[count]);
  }
  constexpr GrowingItems(GrowingItems&& other) noexcept { swap(other); }
  constexpr GrowingItems& operator=(GrowingItems other) noexcept {
    swap(other);
    return *this;
  }
  constexpr ~GrowingItems() {
    if (items != nullptr) std::allocator<T>().deallocate(items, static_cast<std::size_t>(room));
  }

  constexpr void grow() { reserve(room == 0 ? 8 : 2 * room); }
  constexpr void reserve(int size) {
    if (size == 0) return;
    GrowingItems larger;
    larger.items = std::allocator<T>().allocate(static_cast<std::size_t>(size));
    larger.room = size;
    for (; larger.count < count; ++larger.count) std::construct_at(larger.items + larger.count, items[larger.count]);
    swap(larger);
  }
  constexpr void swap(GrowingItems& other) noexcept {
    std::swap(items, other.items);
    std::swap(count, other.count);
    std::swap(room, other.room);
  }
};

/// The items of a TableView, which lie elsewhere.
template <class T>
struct ViewedItems {
  using item_type = const T;
  const T* items = nullptr;
  int count = 0;

  constexpr ViewedItems() = default;
  constexpr ViewedItems(const T* first, int size) : items(first), count(size) {}
  constexpr ViewedItems(const GrowingItems<T>& table) : items(table.items), count(table.count) {}
  template <std::size_t Size>
  constexpr ViewedItems(const std::array<T, Size>& table) : items(table.data()), count(static_cast<int>(Size)) {}
};

}  // namespace types
}  // namespace detail

/// What all tables have beside their items.
template <class Items>
struct Table : Items {
  using Items::Items, Items::items, Items::count;
  using T = typename Items::item_type;  // const in a view
  using value_type = std::remove_const_t<T>;

  constexpr int size() const { return count; }
  constexpr bool empty() const { return count == 0; }
  constexpr T* begin() { return items; }
  constexpr T* end() { return items + count; }
  constexpr const T* begin() const { return items; }
  constexpr const T* end() const { return items + count; }
  constexpr T& operator[](int i) { return items[i]; }
  constexpr const T& operator[](int i) const { return items[i]; }
  template <NumberOf<value_type> Id>
  constexpr T& operator[](Id id) {
    return items[id.number];
  }
  template <NumberOf<value_type> Id>
  constexpr const T& operator[](Id id) const {
    return items[id.number];
  }
  constexpr T& back() { return items[count - 1]; }
  constexpr const T& back() const { return items[count - 1]; }

  /// Returns the item's number.
  constexpr int push(const T& item) {
    if (count == this->room) {
      const T kept = item;  // it may be one of the table's own, which move now
      this->grow();
      std::construct_at(items + count, kept);
    } else {
      std::construct_at(items + count, item);
    }
    return count++;
  }
  constexpr void pop() { --count; }
  /// The item of this number. If the table is shorter it grows, by items that are T{}.
  constexpr T& reach(int i) {
    while (count <= i) push(T{});
    return items[i];
  }

  constexpr bool operator==(const Table& other) const
    requires requires(const T& item) { item == item; }
  {
    return std::equal(begin(), end(), other.begin(), other.end());
  }
};

/// A table of at most Capacity items.
template <class T, int Capacity>
using StaticVector = Table<detail::types::FixedItems<T, Capacity>>;

/// A table that grows as items are pushed, also while the compiler evaluates. A push may move all items, so no
/// reference to an item outlives it.
template <class T>
using GrowingTable = Table<detail::types::GrowingItems<T>>;

/// A table that lies elsewhere, read as a StaticVector is.
template <class T>
using TableView = Table<detail::types::ViewedItems<T>>;

/// The items of a table of that size, for a static object that is as large as need be.
template <int Size, class T>
constexpr std::array<T, static_cast<std::size_t>(Size)> exact(const GrowingTable<T>& table) {
  std::array<T, static_cast<std::size_t>(Size)> items{};
  for (int i = 0; i < Size; ++i) items[static_cast<std::size_t>(i)] = table[i];
  return items;
}

}  // namespace halogen
