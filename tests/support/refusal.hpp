// The sentence of a refusal.
#pragma once

#include <stdexcept>
#include <string>

namespace support {

/// What f() throws as an Error, in words; empty where it throws none.
template <class Error = std::runtime_error, class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace support
