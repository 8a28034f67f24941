// Signatures say whether two expressions of one type have the same parts: the same fields, stages and numbers. A part
// with numbers that are not known here, for example a functor with state, differs from all others. Reductions of the
// same parts are one stage.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "halogen/array/regrid.hpp"
#include "halogen/array/stage.hpp"

namespace halogen::detail {

/// Addresses of parts, and bits of numbers, in the order of the expression.
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

/// The parts by which an expression differs from others of its type, in the order of the expression. `known` is false
/// if they are not known.
template <class E>
struct signed_parts {
  static constexpr bool has_key = requires(const E& e) { e.identity.key(); };
  static constexpr bool known = has_key || requires(const E& e) {
    typename E::Field;
    e.field;
  };
  static void sign(const E& e, Signature& signature) {
    if constexpr (has_key) {
      signature.push_back(address_bits(e.identity.key()));
    } else if constexpr (known) {
      signature.push_back(address_bits(&e.field.storage()));
      signature.push_back(address_bits(e.field.shape().get()));
    }
  }
};
template <class T>
struct signed_parts<Constant<T>> {
  static constexpr bool known = true;
  static void sign(const Constant<T>& e, Signature& signature) { signature.push_back(number_bits(e.value)); }
};
/// A node whose type says everything except the parts of its operand.
template <class Node, class E>
struct signed_parts_of_inner {
  static constexpr bool known = signed_parts<E>::known;
  static void sign(const Node& e, Signature& signature) { signed_parts<E>::sign(e.inner, signature); }
};
template <class E, class... B>
struct signed_parts<Bounded<E, B...>> : signed_parts_of_inner<Bounded<E, B...>, E> {};
template <int Dim, int Offset, class E>
struct signed_parts<Shift<Dim, Offset, E>> : signed_parts_of_inner<Shift<Dim, Offset, E>, E> {};
template <class E, unsigned Mask>
struct signed_parts<Broadcast<E, Mask>> : signed_parts_of_inner<Broadcast<E, Mask>, E> {};
template <class E, int Rank, int... Dims>
struct signed_parts<Mapped<E, Rank, Dims...>> : signed_parts_of_inner<Mapped<E, Rank, Dims...>, E> {};
template <class F, class... A>
struct signed_parts<Pointwise<F, A...>> {
  static constexpr bool known = std::is_empty_v<F> && (signed_parts<A>::known && ...);
  static void sign(const Pointwise<F, A...>& e, Signature& signature) {
    e.args.apply([&](const A&... a) { (signed_parts<A>::sign(a, signature), ...); });
  }
};

template <class E>
Signature signature_of(const E& e) {
  Signature signature;
  signed_parts<E>::sign(e, signature);
  return signature;
}

/// Records that are still in use, by their parts.
template <class Record>
class SignedRecords {
 public:
  template <class Make>
  std::shared_ptr<Record> find(const Signature& signature, Make make) {
    std::erase_if(records_, [](const auto& one) { return one.second.expired(); });
    for (const auto& [parts, record] : records_)
      if (parts == signature)
        if (auto found = record.lock()) return found;
    std::shared_ptr<Record> made = make();
    records_.emplace_back(signature, made);
    return made;
  }

 private:
  std::vector<std::pair<Signature, std::weak_ptr<Record>>> records_;
};

/// The result that all stages of this type share if they read an expression with these parts.
template <class Stage, class Result, class E>
StageResult<Result> shared_result(const E& read) {
  if constexpr (signed_parts<E>::known) {
    static SignedRecords<typename StageResult<Result>::State> results;
    return results.find(signature_of(read), [] { return std::make_shared<typename StageResult<Result>::State>(); });
  } else {
    return {};
  }
}

}  // namespace halogen::detail
