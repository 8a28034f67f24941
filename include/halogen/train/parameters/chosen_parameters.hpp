// Parameters that are chosen by name, to be loaded from a file (io/checkpoint.hpp) or copied from another model.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "halogen/comm/error.hpp"

namespace halogen {

/// Patterns of names, in which * stands for any letters: {.only = {"encoder.*"}, .skip = {"*.running_*"}}. Those of
/// `only` are taken (none: all), but for those of `skip`. A pattern that no name of the model has is refused.
struct ChosenParameters {
  std::vector<std::string> only{}, skip{};
  /// What is missing at the source, or has another shape there, stays as it is; else it is refused.
  bool fitting = false;
  /// What the source calls a parameter of the model; by default the same.
  std::function<std::string(std::string)> name_in_source{};
};

/// Of a call, in the order of the model's parameters: the names of those that were set, and of those that stayed as
/// they were, chosen or not.
struct TakenParameters {
  std::vector<std::string> taken, left;
};

namespace detail {

/// Whether a name has a pattern.
inline bool has_pattern(std::string_view name, std::string_view pattern) {
  const std::size_t star = pattern.find('*');
  if (star == std::string_view::npos) return name == pattern;
  if (!name.starts_with(pattern.substr(0, star))) return false;
  name.remove_prefix(star), pattern.remove_prefix(star + 1);
  for (std::size_t i = 0; i <= name.size(); ++i)
    if (has_pattern(name.substr(i), pattern)) return true;
  return false;
}

/// Of each name whether it is chosen. CollectiveError: a pattern that none has.
inline std::vector<char> chosen_of(const std::vector<std::string>& names, const ChosenParameters& choice) {
  std::vector<char> chosen(names.size(), choice.only.empty() ? 1 : 0);
  const auto set = [&](const std::vector<std::string>& patterns, char to) {
    for (const std::string& pattern : patterns) {
      bool any = false;
      for (std::size_t i = 0; i < names.size(); ++i)
        if (has_pattern(names[i], pattern)) chosen[i] = to, any = true;
      if (!any)
        throw CollectiveError("no parameter of the model has a name like '" + pattern + "': the names are those of " +
                              "parameter_names<Model>(), such as '" + (names.empty() ? "" : names.front()) + "'");
    }
  };
  set(choice.only, 1);
  set(choice.skip, 0);
  return chosen;
}

}  // namespace detail

}  // namespace halogen
