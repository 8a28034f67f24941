// Values on the host, one behind the other in memory, of any value type.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <type_traits>
#include <vector>

namespace halogen::detail {

/// What std::vector is for other types: std::vector<bool> packs bits, which nothing can copy from or into.
class BoolArray {
 public:
  BoolArray() = default;
  explicit BoolArray(std::size_t size) : values_(std::make_unique<bool[]>(size)), size_(size) {}
  explicit BoolArray(const std::vector<bool>& values) : BoolArray(values.size()) {
    std::copy(values.begin(), values.end(), data());
  }

  std::size_t size() const { return size_; }
  bool* data() { return values_.get(); }
  const bool* data() const { return values_.get(); }
  bool& operator[](std::size_t i) { return values_[i]; }
  const bool& operator[](std::size_t i) const { return values_[i]; }

 private:
  std::unique_ptr<bool[]> values_;
  std::size_t size_ = 0;
};

template <class T>
using HostArray = std::conditional_t<std::is_same_v<T, bool>, BoolArray, std::vector<T>>;

/// The same as users hold it.
template <class T>
std::vector<T> as_vector(std::vector<T> values) {
  return values;
}
inline std::vector<bool> as_vector(const BoolArray& values) {
  return std::vector<bool>(values.data(), values.data() + values.size());
}

/// And back, without a copy where there need not be one.
template <class T>
const std::vector<T>& as_array(const std::vector<T>& values) {
  return values;
}
inline BoolArray as_array(const std::vector<bool>& values) { return BoolArray(values); }

/// Makes values of T of bytes that came from elsewhere: of a bool's byte any but 0 is true.
template <class T>
void make_values(HostArray<T>& array) {
  if constexpr (std::is_same_v<T, bool>) {
    auto* bytes = reinterpret_cast<unsigned char*>(array.data());
    for (std::size_t i = 0; i < array.size(); ++i) array[i] = bytes[i] != 0;
  }
}

}  // namespace halogen::detail
