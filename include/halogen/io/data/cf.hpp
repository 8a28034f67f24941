// What the attributes of a variable say of its numbers: the CF conventions, section 8.1 "Packed data" and 2.5.1
// "Missing data", https://cfconventions.org; `_Unsigned`: the NetCDF Users' Guide, appendix "Attribute conventions".
// Zarr, netCDF and HDF5 are read by this one decoder. What it does not know it refuses.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "halogen/core/half.hpp"
#include "halogen/io/json.hpp"

namespace halogen::detail {

/// The numbers of a variable as they are stored.
struct StoredType {
  char kind = 'f';  ///< f, i, u
  int bytes = 4;
  std::string name() const {
    return (kind == 'f' ? "float" : kind == 'i' ? "int" : "uint") + std::to_string(8 * bytes);
  }
};
template <class T>
constexpr StoredType stored_type() {
  return {std::is_floating_point_v<T> ? 'f' : std::is_unsigned_v<T> ? 'u' : 'i', static_cast<int>(sizeof(T))};
}

/// f(S()) with the type of the stored numbers, which is no half.
template <class F>
auto with_stored_type(const StoredType& type, F f) {
  const auto of_bytes = [&]<class S1, class S2, class S4, class S8>(S1, S2, S4, S8) {
    return type.bytes == 1 ? f(S1()) : type.bytes == 2 ? f(S2()) : type.bytes == 4 ? f(S4()) : f(S8());
  };
  if (type.kind == 'f') return type.bytes == 4 ? f(float()) : f(double());
  if (type.kind == 'i') return of_bytes(std::int8_t(), std::int16_t(), std::int32_t(), std::int64_t());
  return of_bytes(std::uint8_t(), std::uint16_t(), std::uint32_t(), std::uint64_t());
}

/// value = stored * scale + offset; stored numbers equal to one of `missing` are NaN. wrap: what is added before to
/// signed numbers that are meant as unsigned (wrap > 0), or to unsigned ones meant as signed (< 0).
struct CfNumbers {
  double scale = 1, offset = 0, wrap = 0;
  std::vector<double> missing;

  /// Whether stored numbers are the values.
  bool is_plain() const { return missing.empty() && scale == 1 && offset == 0 && wrap == 0; }
  double wrapped(double stored) const {
    return (wrap > 0 && stored < 0) || (wrap < 0 && stored >= -wrap / 2) ? stored + wrap : stored;
  }
  double value_of(double stored) const {
    stored = wrapped(stored);
    for (const double number : missing)
      if (stored == number) return std::numeric_limits<double>::quiet_NaN();
    return scale == 1 && offset == 0 ? stored : stored * scale + offset;
  }
};

/// The bytes of a base64 text; nothing where it is none.
inline std::optional<std::vector<std::byte>> from_base64(const std::string& text) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  const std::size_t end = std::min(text.size(), text.find('='));
  if (text.empty() || text.size() % 4 != 0 || text.size() - end > 2 ||
      text.find_first_not_of('=', end) != std::string::npos || text.find_first_not_of(digits) < end)
    return std::nullopt;
  std::vector<std::byte> bytes;
  std::uint32_t bits = 0;
  int count = 0;
  for (std::size_t i = 0; i < end; ++i) {
    bits = bits << 6 | static_cast<std::uint32_t>(digits.find(text[i]));
    if ((count += 6) >= 8) bytes.push_back(static_cast<std::byte>(bits >> (count -= 8) & 255));
  }
  return bytes;
}

/// The base64 text of a float64, as xarray spells a `_FillValue`.
inline std::string base64_of(double value) {
  constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::uint8_t bytes[9] = {};
  std::memcpy(bytes, &value, sizeof value);
  std::string text;
  for (int i = 0; i < 9; i += 3)
    for (int digit = 0; digit < 4; ++digit)
      text += digits[(bytes[i] << 16 | bytes[i + 1] << 8 | bytes[i + 2]) >> (18 - 6 * digit) & 63];
  text.back() = '=';
  return text;
}

/// A number in an attribute or a fill value: JSON's own, a word, the bits of the type ("0x7fc00000"), or base64 of a
/// float64, as xarray writes it for floats of any width, or of the type's bytes. Nothing for all else.
inline std::optional<double> cf_number(const Json& value, const StoredType& type) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return std::nullopt;
  const std::string text = value;
  if (text == "NaN") return std::numeric_limits<double>::quiet_NaN();
  if (text == "Infinity") return std::numeric_limits<double>::infinity();
  if (text == "-Infinity") return -std::numeric_limits<double>::infinity();
  const auto from_bytes = [&](const void* bytes) {
    return with_stored_type(type, [&]<class S>(S number) {
      std::memcpy(&number, bytes, sizeof(S));
      return static_cast<double>(number);
    });
  };
  const auto width = static_cast<std::size_t>(type.bytes);
  if (text.starts_with("0x")) {
    if (text.size() != 2 + 2 * width || text.find_first_not_of("0123456789abcdefABCDEF", 2) != std::string::npos)
      return std::nullopt;
    const std::uint64_t bits = std::stoull(text, nullptr, 16);
    return from_bytes(&bits);
  }
  const auto bytes = from_base64(text);
  if (bytes && bytes->size() == width) return from_bytes(bytes->data());
  if (!bytes || bytes->size() != sizeof(double) || type.kind != 'f') return std::nullopt;
  double wide = 0;
  std::memcpy(&wide, bytes->data(), sizeof wide);
  return wide;
}

/// The number that a variable of that type holds for it; nothing where it can hold none.
inline std::optional<double> as_stored(double value, const StoredType& type) {
  if (type.kind == 'f') {
    const double stored = type.bytes == 2 ? static_cast<double>(static_cast<float>(float16(static_cast<float>(value))))
                          : type.bytes == 4 ? static_cast<double>(static_cast<float>(value))
                                            : value;
    return std::isfinite(value) && !std::isfinite(stored) ? std::nullopt : std::optional(stored);
  }
  const double end = std::ldexp(1.0, 8 * type.bytes - (type.kind == 'i' ? 1 : 0));
  const bool is_below = type.bytes == 8 ? value <= end : value < end;  // as a double the largest int64 is 2^63
  return value == std::trunc(value) && value >= (type.kind == 'i' ? -end : 0) && is_below ? std::optional(value)
                                                                                          : std::nullopt;
}

/// std::runtime_error: a fill value or an attribute that cannot be what its name says.
[[noreturn]] inline void refuse_number(const std::string& name, const Json& value, const std::string& needed) {
  throw std::runtime_error("its " + name + " is " + short_text(value) + ", which is not " + needed +
                           ": correct it, or leave it out");
}

/// Of what a writer may say about missing points, too.
inline bool marks_missing(const std::string& name) { return name == "_FillValue" || name == "missing_value"; }

/// The attributes whose values change what a stored number means.
inline bool is_cf_name(const std::string& name) {
  return marks_missing(name) || name == "scale_factor" || name == "add_offset" || name == "_Unsigned";
}

/// The numbers of an attribute that marks missing points. A null is none: what older versions wrote for NaN.
inline std::vector<Json> missing_in(const Json& value) {
  std::vector<Json> all = value.is_array() ? value.get<std::vector<Json>>() : std::vector<Json>{value};
  std::erase_if(all, [](const Json& one) { return one.is_null(); });
  return all;
}

/// Reads CF's attributes of a variable; std::runtime_error where one has no meaning that is known here.
inline CfNumbers cf_numbers(const Json& attributes, const StoredType& type) {
  if (!attributes.is_object()) throw std::runtime_error("its attributes are no object");
  CfNumbers numbers;
  const auto factor = [&](const char* name, double& to) {
    if (!attributes.contains(name)) return;
    const Json& value = attributes[name];
    const Json& number = value.is_array() && value.size() == 1 ? value[0] : value;
    if (!number.is_number() || !std::isfinite(number.get<double>())) refuse_number(name, value, "one number");
    to = number.get<double>();
  };
  factor("scale_factor", numbers.scale);
  factor("add_offset", numbers.offset);
  if (attributes.contains("_Unsigned") && type.kind != 'f') {
    const Json& value = attributes["_Unsigned"];
    const bool is_unsigned = value == "true" || value == true;
    if (!is_unsigned && value != "false" && value != false) refuse_number("_Unsigned", value, "\"true\" or \"false\"");
    if (is_unsigned != (type.kind == 'u')) numbers.wrap = std::ldexp(is_unsigned ? 1.0 : -1.0, 8 * type.bytes);
  }
  const StoredType meant{numbers.wrap > 0 ? 'u' : numbers.wrap < 0 ? 'i' : type.kind, type.bytes};
  for (const char* name : {"missing_value", "_FillValue"})
    if (attributes.contains(name))
      for (const Json& value : missing_in(attributes[name])) {
        const auto number = cf_number(value, type);
        if (!number) refuse_number(name, attributes[name], "a number of " + type.name());
        if (std::isnan(*number) || (type.kind != 'f' && std::isinf(*number))) continue;  // no stored number equals it
        auto stored = as_stored(*number, type);
        if (!stored) stored = as_stored(*number, meant);
        if (!stored) refuse_number(name, attributes[name], "a number of " + type.name());
        numbers.missing.push_back(numbers.wrapped(*stored));
      }
  return numbers;
}

/// For a writer: the numbers of T that an attribute marks as missing; std::runtime_error where T does not hold them.
template <class T>
std::vector<T> missing_as(const std::string& name, const Json& attribute) {
  std::vector<T> numbers;
  for (const Json& value : missing_in(attribute)) {
    const auto number = cf_number(value, stored_type<T>());
    const auto stored = number ? as_stored(*number, stored_type<T>()) : std::nullopt;
    if (!stored) refuse_number(name, attribute, "a number of " + stored_type<T>().name());
    constexpr T largest = std::numeric_limits<T>::max();
    if (std::is_integral_v<T> && value.is_number_unsigned()) {  // as a double it may be another
      if (value.get<std::uint64_t>() > static_cast<std::uint64_t>(largest))
        refuse_number(name, attribute, "a number of " + stored_type<T>().name());
      numbers.push_back(static_cast<T>(value.get<std::uint64_t>()));
    } else if (std::is_integral_v<T> && value.is_number_integer()) {
      numbers.push_back(static_cast<T>(value.get<std::int64_t>()));
    } else {
      const bool is_end = std::is_integral_v<T> && *stored >= static_cast<double>(largest);
      numbers.push_back(is_end ? largest : static_cast<T>(*stored));
    }
  }
  if (numbers.empty() || (name == "_FillValue" && numbers.size() != 1))
    refuse_number(name, attribute, name == "_FillValue" ? "one number" : "one number or several");
  return numbers;
}

/// The `_FillValue` among a writer's attributes, which points have that are not written; else `otherwise`.
template <class T>
T fill_among(const Json& attributes, T otherwise) {
  return attributes.contains("_FillValue") ? missing_as<T>("_FillValue", attributes["_FillValue"])[0] : otherwise;
}

}  // namespace halogen::detail
