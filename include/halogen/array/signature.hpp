// What tells whether two expressions of one type are made of the same parts: the fields, stages and numbers in them.
// Parts that hold numbers of their own which are not known here, as functors with state, are told from all others.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "halogen/array/regrid.hpp"

namespace halogen::detail {

/// Addresses of parts, and bits of numbers, in the order in which they stand.
using Signature = std::vector<std::uint64_t>;

inline std::uint64_t address_bits(const void* part) {
  return static_cast<std::uint64_t>(reinterpret_cast<std::uintptr_t>(part));
}
template <class T>
std::uint64_t number_bits(T value) {
  if constexpr (std::is_integral_v<T>)
    return static_cast<std::uint64_t>(value);
  else
    return std::bit_cast<std::uint64_t>(static_cast<double>(value));
}

/// Adds the parts of an expression; false where it cannot be told from others.
template <class E>
bool sign(const E& e, Signature& signature) {
  if constexpr (requires { e.identity.key(); }) {
    signature.push_back(address_bits(e.identity.key()));
    return true;
  } else if constexpr (requires {
                         typename E::Field;
                         e.field;
                       }) {
    signature.push_back(address_bits(&e.field.storage()));
    signature.push_back(address_bits(e.field.shape().get()));
    return true;
  } else {
    return false;
  }
}
template <class T>
bool sign(const Constant<T>& e, Signature& signature) {
  signature.push_back(number_bits(e.value));
  return true;
}
template <class E, class... B>
bool sign(const Bounded<E, B...>& e, Signature& signature) {
  return sign(e.inner, signature);
}
template <int Dim, int Offset, class E>
bool sign(const Shift<Dim, Offset, E>& e, Signature& signature) {
  return sign(e.inner, signature);
}
template <class E, unsigned Mask>
bool sign(const Broadcast<E, Mask>& e, Signature& signature) {
  return sign(e.inner, signature);
}
template <class E, int Rank, int... Dims>
bool sign(const Mapped<E, Rank, Dims...>& e, Signature& signature) {
  return sign(e.inner, signature);
}
template <class F, class... A>
bool sign(const Pointwise<F, A...>& e, Signature& signature) {
  if constexpr (std::is_empty_v<F>)
    return e.args.apply([&](const A&... a) { return (sign(a, signature) && ...); });
  else
    return false;
}

/// Records that somebody still holds, by what they are made of.
template <class Record>
class SignedRecords {
 public:
  template <class Make>
  std::shared_ptr<const Record> find(const Signature& signature, Make make) {
    std::erase_if(records_, [](const auto& one) { return one.second.expired(); });
    for (const auto& [parts, record] : records_)
      if (parts == signature)
        if (auto found = record.lock()) return found;
    std::shared_ptr<const Record> made = make();
    records_.emplace_back(signature, made);
    return made;
  }

 private:
  std::vector<std::pair<Signature, std::weak_ptr<const Record>>> records_;
};

}  // namespace halogen::detail
