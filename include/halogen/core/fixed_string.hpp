// A string that can be a template parameter: mesh dimension names, layer names.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace halogen {

template <std::size_t Size>
struct fixed_string {
  char text[Size]{};

  consteval fixed_string(const char (&literal)[Size]) { std::copy_n(literal, Size, text); }  // NOLINT: implicit

  constexpr std::string_view view() const { return {text, Size - 1}; }

  template <std::size_t OtherSize>
  constexpr bool operator==(const fixed_string<OtherSize>& other) const {
    return view() == other.view();
  }
};

}  // namespace halogen
