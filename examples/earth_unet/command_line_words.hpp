// What is wrong with a command line, in words of ours. Its dependency is CLI11.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace earth {

/// What app.parse threw: one sentence with the argument and the way out.
inline std::string words_of(const CLI::App& app, const CLI::ParseError& error) {
  const std::string text = error.what();
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr)
    return "'" + text.substr(text.rfind(": ") + 2) + "' is no argument of this program; see --help";
  const std::string name = text.substr(0, text.find_first_of(": "));
  const CLI::Option* const option = app.get_option_no_throw(name);
  if (option == nullptr) return "the arguments are not understood; see --help";
  const std::string about = name + " (" + option->get_description() + ")";
  if (dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) return about + " is missing: give it; see --help";
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr || option->results().size() != 1)
    return about + " needs one value: give it once, with a value after it; see --help";
  return "'" + option->results().front() + "' is no value of " + about + ": give another; see --help";
}

}  // namespace earth
