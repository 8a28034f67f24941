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

template <class T, int Capacity>
struct StaticVector {
  T items[Capacity]{};  // no std::array: compilers count each of its calls as steps of a constant expression
  int count = 0;

  constexpr int push(const T& item) {
    if (count == Capacity) throw std::length_error("this needs a larger StaticVector");
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

/// A table that grows as items are pushed, also while the compiler evaluates. A push may move all items, so no
/// reference to an item outlives it.
template <class T>
class GrowingTable {
 public:
  static_assert(std::is_trivially_destructible_v<T>);

  constexpr GrowingTable() = default;
  constexpr explicit GrowingTable(int size) {
    reserve(size);
    while (count_ < size) push(T{});
  }
  constexpr GrowingTable(const GrowingTable& other) {
    reserve(other.count_);
    for (const T& item : other) push(item);
  }
  constexpr GrowingTable(GrowingTable&& other) noexcept { swap(other); }
  constexpr GrowingTable& operator=(GrowingTable other) noexcept {
    swap(other);
    return *this;
  }
  constexpr ~GrowingTable() {
    if (items_ != nullptr) std::allocator<T>().deallocate(items_, static_cast<std::size_t>(room_));
  }

  constexpr int push(const T& item) {
    if (count_ == room_) {
      const T moved = item;  // it may be one of the table's own
      reserve(room_ == 0 ? 8 : 2 * room_);
      std::construct_at(items_ + count_, moved);
    } else {
      std::construct_at(items_ + count_, item);
    }
    return count_++;
  }
  /// The item of this number. If the table is shorter it grows, by items that are T{}.
  constexpr T& reach(int i) {
    while (count_ <= i) push(T{});
    return items_[i];
  }
  constexpr int size() const { return count_; }
  constexpr bool empty() const { return count_ == 0; }
  constexpr void pop() { --count_; }
  constexpr T& operator[](int i) { return items_[i]; }
  constexpr const T& operator[](int i) const { return items_[i]; }
  template <NumberOf<T> Id>
  constexpr T& operator[](Id id) {
    return items_[id.number];
  }
  template <NumberOf<T> Id>
  constexpr const T& operator[](Id id) const {
    return items_[id.number];
  }
  constexpr const T& back() const { return items_[count_ - 1]; }
  constexpr T& back() { return items_[count_ - 1]; }
  constexpr T* begin() { return items_; }
  constexpr T* end() { return items_ + count_; }
  constexpr const T* begin() const { return items_; }
  constexpr const T* end() const { return items_ + count_; }

 private:
  constexpr void reserve(int room) {
    if (room == 0) return;
    GrowingTable larger;
    larger.items_ = std::allocator<T>().allocate(static_cast<std::size_t>(room));
    larger.room_ = room;
    for (; larger.count_ < count_; ++larger.count_)
      std::construct_at(larger.items_ + larger.count_, items_[larger.count_]);
    swap(larger);
  }
  constexpr void swap(GrowingTable& other) noexcept {
    std::swap(items_, other.items_);
    std::swap(count_, other.count_);
    std::swap(room_, other.room_);
  }

  T* items_ = nullptr;
  int count_ = 0, room_ = 0;
};

/// A table that lies elsewhere, read as a StaticVector is.
template <class T>
struct TableView {
  const T* items = nullptr;
  int count = 0;

  constexpr TableView() = default;
  constexpr TableView(const T* first, int size) : items(first), count(size) {}
  constexpr TableView(const GrowingTable<T>& table) : items(table.begin()), count(table.size()) {}
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

/// The items of a table of that size, for a static object that is as large as need be.
template <int Size, class T>
constexpr std::array<T, static_cast<std::size_t>(Size)> exact(const GrowingTable<T>& table) {
  std::array<T, static_cast<std::size_t>(Size)> items{};
  for (int i = 0; i < Size; ++i) items[static_cast<std::size_t>(i)] = table[i];
  return items;
}

}  // namespace halogen
