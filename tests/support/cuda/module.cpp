#include "module.hpp"

#include <cxxabi.h>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "memory.hpp"

namespace emulated {
namespace {

bool in_word(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '$' || c == '%' || c == '.';
}

}  // namespace

void Tokens::next() {
  for (;;) {
    while (position < text.size() &&
           (std::isspace(static_cast<unsigned char>(text[position])) || text[position] == '\0')) {
      if (text[position] == '\n') ++line;
      ++position;
    }
    if (text.substr(position, 2) == "//") {
      while (position < text.size() && text[position] != '\n') ++position;
    } else if (text.substr(position, 2) == "/*") {
      while (text.substr(position, 2) != "*/") line += text[position++] == '\n';
      position += 2;
    } else {
      break;
    }
  }
  if (position >= text.size()) {
    word = {};
    return;
  }
  std::size_t end = position;
  if (in_word(text[end])) {
    while (end < text.size() && (in_word(text[end]) || text.substr(end, 2) == "::" || text.substr(end - 1, 2) == "::"))
      ++end;
  } else if (text[end] == '"') {
    end = text.find('"', end + 1) + 1;
  } else {
    ++end;
  }
  word = text.substr(position, end - position);
  position = end;
}

std::string_view Tokens::block() {
  const std::size_t begin = position;
  int depth = 1;
  for (; position < text.size(); ++position) {
    const char c = text[position];
    line += c == '\n';
    depth += (c == '{') - (c == '}');
    if (depth == 0) break;
  }
  const auto inside = text.substr(begin, position - begin);
  ++position;
  next();
  return inside;
}

u32 bytes_of(std::string_view type) {
  if (!type.empty() && type[0] == '.') type.remove_prefix(1);
  if (type == "pred") return 4;
  if (type == "bf16" || type == "f16") return 2;
  if (type == "bf16x2" || type == "f16x2" || type == "tf32") return 4;
  if (type.size() < 2 || std::string_view("bsuf").find(type[0]) == std::string_view::npos) return 0;
  const auto bits = type.substr(1);
  return bits == "8" ? 1 : bits == "16" ? 2 : bits == "32" ? 4 : bits == "64" ? 8 : bits == "128" ? 16 : 0;
}

s64 integer(std::string_view word) {
  std::string text(word);
  while (!text.empty() && (text.back() == 'U' || text.back() == 'u')) text.pop_back();
  return static_cast<s64>(std::strtoull(text.c_str(), nullptr, 0));
}

Parameter declared(Tokens& tokens) {
  Parameter one;
  u32 element = 0;
  for (; tokens.word.starts_with('.'); tokens.next()) {
    if (tokens.is(".align"))
      tokens.next(), one.align = static_cast<u32>(integer(tokens.word));
    else if (const u32 bytes = bytes_of(tokens.word))
      element = bytes;
    else if (tokens.is(".ptr"))
      continue;
  }
  one.name = tokens.taken();
  one.bytes = one.element = element;
  if (one.align < element) one.align = element;
  if (tokens.take("[")) {
    one.bytes = tokens.is("]") ? 0 : element * static_cast<u32>(integer(tokens.taken()));
    tokens.take("]");
  }
  return one;
}

namespace {

std::vector<Parameter> list_of_parameters(Tokens& tokens) {
  std::vector<Parameter> all;
  if (!tokens.take("(")) return all;
  while (!tokens.take(")")) {
    if (tokens.take(".param"))
      all.push_back(declared(tokens));
    else
      tokens.next();  // a comma
  }
  return all;
}

u32 round_up(u32 value, u32 to) { return (value + to - 1) / to * to; }

void read_function(Module& module, Tokens& tokens, bool entry) {
  auto results = list_of_parameters(tokens);
  const std::string name(tokens.taken());
  auto& function = module.functions[name];
  if (!function) function = std::make_unique<Function>();
  function->name = name;
  function->module = &module;
  function->entry = entry;
  function->results = std::move(results);
  function->parameters = list_of_parameters(tokens);
  u32 place = 0;
  for (auto& one : function->parameters) {
    place = round_up(place, one.align);
    one.place = place;
    place += one.bytes;
  }
  function->parameter_bytes = place;
  for (; !tokens.word.empty() && !tokens.is("{") && !tokens.is(";"); tokens.next())
    if (tokens.is(".maxntid")) tokens.next(), function->max_threads = static_cast<int>(integer(tokens.word));
  if (tokens.is("{")) {
    function->first_line = tokens.line;
    function->body = tokens.block();
  } else {
    tokens.take(";");
  }
}

void read_variable(Module& module, Tokens& tokens, Space space, bool external) {
  const Parameter one = declared(tokens);
  Variable variable{one.name, space, 0, one.bytes, one.align, one.element, external && one.bytes == 0, {}};
  if (tokens.take("=")) {
    const std::size_t begin = static_cast<std::size_t>(tokens.word.data() - tokens.text.data());
    while (!tokens.is(";")) {
      if (tokens.is("{"))
        tokens.block();
      else
        tokens.next();
    }
    variable.initial =
        tokens.text.substr(begin, static_cast<std::size_t>(tokens.word.data() - tokens.text.data()) - begin);
  }
  if (space == space_shared && !variable.dynamic) {
    module.shared_bytes = round_up(module.shared_bytes, one.align);
    variable.address = module.shared_bytes;
    module.shared_bytes += one.bytes;
  }
  module.variables[one.name] = variable;
}

/// Numbers between braces, or one. What names another variable is not known.
void initialise(const Variable& variable) {
  char* to = memory().data(variable.address);
  Tokens tokens(variable.initial, 1);
  for (u64 place = 0; !tokens.word.empty(); tokens.next()) {
    if (tokens.is("{") || tokens.is("}") || tokens.is(",")) continue;
    if (!std::isdigit(static_cast<unsigned char>(tokens.word[0])))
      throw std::runtime_error("the initial value of " + variable.name +
                               " is not known: " + std::string(variable.initial));
    s64 value = integer(tokens.word);
    if (tokens.word.starts_with("0f") || tokens.word.starts_with("0d"))
      value = static_cast<s64>(std::strtoull(std::string(tokens.word.substr(2)).c_str(), nullptr, 16));
    std::memcpy(to + place, &value, variable.element);
    place += variable.element;
  }
}

}  // namespace

Module::Module(std::string ptx) : text(std::move(ptx)) {
  Tokens tokens(text, 1);
  bool external = false;
  while (!tokens.word.empty()) {
    const auto word = tokens.taken();
    if (word == ".func" || word == ".entry") {
      read_function(*this, tokens, word == ".entry");
    } else if (word == ".global" || word == ".const") {
      read_variable(*this, tokens, space_device, external);
    } else if (word == ".shared") {
      read_variable(*this, tokens, space_shared, external);
    } else if (word == ".pragma" || word == ".file" || word == ".section") {
      while (!tokens.word.empty() && !tokens.is(";") && word == ".pragma") tokens.next();
    }
    external = word == ".extern";
  }
  for (auto& [name, variable] : variables) {
    if (variable.space != space_device) continue;
    variable.address = memory().allocate(space_device, variable.bytes, "variable " + demangled(name));
    memory().mark_written(variable.address, variable.bytes);
    if (!variable.initial.empty()) initialise(variable);
  }
}

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

std::string line_of(const Module& module, u32 line) {
  std::string_view text = module.text;
  for (u32 i = 1; i < line && !text.empty(); ++i) text.remove_prefix(text.find('\n') + 1);
  return std::string(text.substr(0, text.find('\n')));
}

}  // namespace emulated
