// What a fat binary holds: functions, and variables that lie in the device's memory.
#pragma once

#include <map>
#include <memory>
#include <unordered_map>

#include "machine.hpp"

namespace emulated {

struct Module {
  std::string text;
  std::unordered_map<std::string, std::unique_ptr<Function>> functions;
  std::unordered_map<std::string, Variable> variables;
  u32 shared_bytes = 0;  ///< of all its static shared variables

  explicit Module(std::string ptx);
};

/// Words and signs of PTX. A word has letters, digits, and any of _ $ % .
struct Tokens {
  std::string_view text;
  std::size_t position = 0;
  u32 line = 1;
  std::string_view word;  ///< the current one; empty at the end

  Tokens(std::string_view from, u32 first_line) : text(from), line(first_line) { next(); }
  void next();
  bool is(std::string_view sign) const { return word == sign; }
  bool take(std::string_view sign) {
    if (word != sign) return false;
    next();
    return true;
  }
  std::string_view taken() {
    const auto had = word;
    next();
    return had;
  }
  /// Skips a block whose first brace is the current word, and returns what stands between.
  std::string_view block();
};

/// A declaration behind its space word (.param .align 8 .b8 name[24]): bytes, alignment, name.
Parameter declared(Tokens& tokens);
u32 bytes_of(std::string_view type);  ///< of .b32, f64, ...; 0: no such type
s64 integer(std::string_view word);

}  // namespace emulated
