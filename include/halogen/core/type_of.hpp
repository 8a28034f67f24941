// From the address of an object that stands for a type back to the type: a constexpr value can hold the address alone.
#pragma once

#include <type_traits>

namespace halogen::detail {

// Compilers ask whether a friend that is no template is meant: it is.
#if defined(__CUDACC__)
#pragma nv_diagnostic push
#pragma nv_diag_suppress 1301
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wnon-template-friend"
#endif
/// Declares a function that the template which makes the address defines.
template <const char* Address>
struct TypeKey {
  friend constexpr auto type_at(TypeKey);
};
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
#if defined(__CUDACC__)
#pragma nv_diagnostic pop
#endif

template <class T>
struct TypeMark {
  static constexpr char mark = 0;
  friend constexpr auto type_at(TypeKey<&TypeMark::mark>) { return std::type_identity<T>{}; }
};

/// Stands for T.
template <class T>
inline constexpr const char* address_of_type = &TypeMark<T>::mark;

/// The type whose address this is.
template <const char* Address>
using type_of_address = typename decltype(type_at(TypeKey<Address>{}))::type;

}  // namespace halogen::detail
