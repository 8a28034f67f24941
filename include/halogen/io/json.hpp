// JSON as the files of this room hold it: NaN and the infinities are kept, and what a hostile file nests deeply, or
// names a hundred thousand times, costs neither the stack nor hours. Opt-in: needs nlohmann-json.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace halogen::detail {

using Json = nlohmann::ordered_json;

inline constexpr std::size_t deepest_json = 100;  ///< lists and objects within each other

/// A text that is no JSON, or a value that cannot be written as such.
struct JsonFault : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// A number that JSON does not know, as Python's json module spells it, and a spelling of a number that nobody uses,
/// which stands for it while nlohmann's reader goes over the text.
struct JsonWord {
  std::string_view word, stand_in;
  double value;
};
inline constexpr JsonWord json_words[] = {
    {"NaN", "0.00e-00000000000000001", std::numeric_limits<double>::quiet_NaN()},
    {"Infinity", "0.00e-00000000000000002", std::numeric_limits<double>::infinity()}};

/// The text with stand-ins for the words outside of strings.
inline std::string with_stand_ins(std::string_view text) {
  const auto is_part = [&](std::size_t i) {
    return i < text.size() && (std::isalnum(static_cast<unsigned char>(text[i])) != 0 || text[i] == '.');
  };
  std::string replaced;
  std::size_t copied = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (in_string && text[i] == '\\')
      ++i;
    else if (text[i] == '"')
      in_string = !in_string;
    else if (!in_string)
      for (const JsonWord& known : json_words)
        if (text[i] == known.word[0] && text.substr(i).starts_with(known.word) && !is_part(i + known.word.size()) &&
            (i == 0 || !is_part(i - 1))) {
          replaced.append(text, copied, i - copied).append(known.stand_in);
          i += known.word.size() - 1;
          copied = i + 1;
          break;
        }
  }
  return replaced.append(text, copied);
}

/// What nlohmann's reader tells of, one value after the other, becomes a Json here: its own builder looks for each name
/// among all before it, which takes quadratic time.
class JsonBuilder {
 public:
  Json result;

  bool null() { return put(nullptr); }
  bool boolean(bool value) { return put(value); }
  bool number_integer(std::int64_t value) { return put(value); }
  bool number_unsigned(std::uint64_t value) { return put(value); }
  bool number_float(double value, std::string_view text) {
    for (const JsonWord& known : json_words)
      if (text.ends_with(known.stand_in)) value = text[0] == '-' ? -known.value : known.value;
    return put(value);
  }
  bool string(std::string& value) { return put(std::move(value)); }
  bool binary(Json::binary_t&) { return false; }
  bool key(std::string& name) {
    open_.back()->get_ref<Json::object_t&>().emplace_back(std::move(name), nullptr);
    return true;
  }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_array() { return open_.pop_back(), true; }
  bool end_object() {
    std::vector<std::string_view> names;
    for (const auto& [name, value] : open_.back()->get_ref<const Json::object_t&>()) names.push_back(name);
    std::ranges::sort(names);
    if (const auto twice = std::ranges::adjacent_find(names); twice != names.end())
      throw JsonFault("it names " + Json(*twice).dump() + " twice");
    return end_array();
  }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) {
    throw JsonFault("it is no JSON");
  }

 private:
  bool put(Json value) { return place(std::move(value)), true; }
  bool open(Json value) {
    if (open_.size() == deepest_json)
      throw JsonFault("it is nested deeper than the " + std::to_string(deepest_json) + " levels allowed");
    open_.push_back(place(std::move(value)));
    return true;
  }
  Json* place(Json value) {
    if (open_.empty()) return &(result = std::move(value));
    if (open_.back()->is_array()) {
      open_.back()->push_back(std::move(value));
      return &open_.back()->back();
    }
    Json& last = open_.back()->get_ref<Json::object_t&>().back().second;
    return &(last = std::move(value));
  }

  std::vector<Json*> open_;
};

/// Reads a text, in which NaN, Infinity and -Infinity are numbers. JsonFault: no JSON, a name twice in one object, more
/// than deepest_json levels.
inline Json parse_json(std::string_view text) {
  const std::string plain = with_stand_ins(text);
  JsonBuilder builder;
  Json::sax_parse(plain, &builder);
  return std::move(builder.result);
}

/// A number; NaN for null, which versions of before wrote for one that is not finite.
inline double number_of(const Json& json) {
  return json.is_null() ? std::numeric_limits<double>::quiet_NaN() : json.get<double>();
}

inline void append_json(std::string& text, const Json& json, int indent, std::size_t level) {
  if (json.is_number_float() && !std::isfinite(json.get<double>())) {
    text += std::isnan(json.get<double>()) ? "NaN" : json.get<double>() < 0 ? "-Infinity" : "Infinity";
    return;
  }
  if (json.is_structured() && level == deepest_json)
    throw JsonFault("it is nested deeper than the " + std::to_string(deepest_json) + " levels allowed");
  if (!json.is_structured() || json.empty()) {
    text += json.dump();
    return;
  }
  const auto line = [&](std::size_t levels) {
    if (indent >= 0) text.append("\n").append(levels * static_cast<std::size_t>(indent), ' ');
  };
  const char* between = "";
  text += json.is_array() ? '[' : '{';
  for (const auto& item : json.items()) {
    text += std::exchange(between, ",");
    line(level + 1);
    if (json.is_object()) text += Json(item.key()).dump() + (indent >= 0 ? ": " : ":");
    append_json(text, item.value(), indent, level + 1);
  }
  line(level);
  text += json.is_array() ? ']' : '}';
}

/// As json.dump(indent), but NaN, Infinity and -Infinity stand in it as these words, which Python's json module,
/// zarr-python and parse_json read. JsonFault: more than deepest_json levels, a text that is not UTF-8.
inline std::string json_text(const Json& json, int indent = -1) try {
  std::string text;
  append_json(text, json, indent, 0);
  return text;
} catch (const Json::exception&) {
  throw JsonFault("a text in it is not UTF-8");
}

/// The beginning of a value's text, for a sentence.
inline std::string short_text(const Json& json) {
  const std::string text = json_text(json);
  return text.size() > 60 ? text.substr(0, 60) + " ..." : text;
}

/// A whole number, or a list of such, which nothing rounds. JsonFault where it is none.
template <class T>
T whole_number(const Json& json) {
  if (!json.is_number_integer()) throw JsonFault(short_text(json) + " stands where a whole number belongs");
  return json.get<T>();
}
template <class T>
std::vector<T> whole_numbers(const Json& list) {
  if (!list.is_array()) throw JsonFault(short_text(list) + " stands where whole numbers belong");
  std::vector<T> numbers;
  for (const Json& number : list) numbers.push_back(whole_number<T>(number));
  return numbers;
}

}  // namespace halogen::detail
