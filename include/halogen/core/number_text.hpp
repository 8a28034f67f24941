// Numbers as text that no locale changes: a decimal point, no groups of digits.
#pragma once

#include <array>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace halogen::detail {

/// A number with so many digits, as "%.3g" (general) or "%.1f" (fixed) have it where the decimal sign is a point.
inline std::string number_text(double number, std::chars_format format, int digits) {
  std::array<char, 400> text;  // 1e308 as fixed has 309 digits before the point
  return {text.data(), std::to_chars(text.data(), text.data() + text.size(), number, format, digits).ptr};
}

/// At most six digits: "60", "0.5", "1e+09".
inline std::string number_text(double number) { return number_text(number, std::chars_format::general, 6); }

/// The number that the whole text is, or nothing.
inline std::optional<double> number_in(std::string_view text) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  double number = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (fault != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace halogen::detail
