// From the text of a function to instructions, once: registers become places, labels become numbers.
#include <algorithm>
#include <deque>
#include <stdexcept>

#include "forms.hpp"
#include "memory.hpp"
#include "module.hpp"

namespace emulated {
namespace {

/// Constants of all functions: a value in 32 lanes.
struct Constants {
  char* const values = new char[64 << 20];
  u32 used = 0;
  std::unordered_map<u64, u32> places[9];

  u32 place(u64 value, u32 bytes) {
    if (bytes < 8) value &= (u64{1} << (bytes * 8)) - 1;
    const auto [found, is_new] = places[bytes].try_emplace(value, used);
    if (is_new) {
      for (u32 lane = 0; lane < lanes; ++lane) std::memcpy(values + used + lane * bytes, &value, bytes);
      used += bytes * lanes;
      if (used > (64u << 20) - 4096) unknown("too many constants");
    }
    return operand(bank_constants, found->second);
  }
  u32 predicate(bool value) {
    const auto [found, is_new] = places[0].try_emplace(value, used);
    if (is_new) {
      const u32 bits = value ? all_lanes : 0;
      std::memcpy(values + used, &bits, sizeof bits);
      used += 64;
    }
    return operand(bank_constants, found->second);
  }
};
Constants& constants() {
  static Constants one;
  return one;
}

struct Symbol {
  enum Kind { reg, predicate, kernel_parameter, word, local, variable } kind = reg;
  u32 place = 0, bytes = 0;
  const Variable* of = nullptr;
};

struct Term {
  enum Kind { empty, reg, predicate, number, name, address, list } kind = empty;
  u32 place = 0, bytes = 0;
  bool negated = false;
  u64 value = 0;
  s64 offset = 0;
  std::string text;
  const Symbol* symbol = nullptr;
  std::vector<Term> parts;  ///< of a list; of an address: its base
};

u32 round_up(u32 value, u32 to) { return (value + to - 1) / to * to; }

const std::unordered_map<std::string_view, Special> special_names = {{"%tid.x", tid_x},
                                                                     {"%tid.y", tid_y},
                                                                     {"%tid.z", tid_z},
                                                                     {"%ntid.x", ntid_x},
                                                                     {"%ntid.y", ntid_y},
                                                                     {"%ntid.z", ntid_z},
                                                                     {"%ctaid.x", ctaid_x},
                                                                     {"%ctaid.y", ctaid_y},
                                                                     {"%ctaid.z", ctaid_z},
                                                                     {"%nctaid.x", nctaid_x},
                                                                     {"%nctaid.y", nctaid_y},
                                                                     {"%nctaid.z", nctaid_z},
                                                                     {"%laneid", laneid},
                                                                     {"%warpid", warpid},
                                                                     {"%lanemask_eq", lanemask_eq},
                                                                     {"%lanemask_lt", lanemask_lt},
                                                                     {"%lanemask_le", lanemask_le},
                                                                     {"%lanemask_gt", lanemask_gt},
                                                                     {"%lanemask_ge", lanemask_ge},
                                                                     {"%dynamic_smem_size", dynamic_smem},
                                                                     {"%smid", smid},
                                                                     {"%clock", clock_low}};

std::vector<std::string> split(std::string_view name) {
  std::vector<std::string> parts;
  while (!name.empty()) {
    const auto end = name.find('.');
    parts.emplace_back(name.substr(0, end));
    name = end == name.npos ? std::string_view{} : name.substr(end + 1);
  }
  return parts;
}

class Decoder {
 public:
  explicit Decoder(Function& function) : function(function), tokens(function.body, function.first_line) {}

  void all() {
    scopes.emplace_back();
    for (const auto& one : function.parameters) {
      if (function.entry)
        scopes[0][one.name] = {Symbol::kernel_parameter, one.place, one.bytes, nullptr};
      else
        parameter_words.push_back(declare_words(one));
    }
    for (const auto& one : function.results) result_words.push_back(declare_words(one));
    while (!tokens.word.empty()) statement();
    Instruction end;
    end.run = handlers::leave;
    end.line = tokens.line;
    function.code.push_back(end);
    for (auto& [index, label] : jumps) {
      const auto found = labels.find(label);
      if (found == labels.end()) fail("no label " + label);
      function.code[index].target = found->second;
    }
    function.frame_bytes = round_up(frame, 256);
    function.shared_bytes = function.module->shared_bytes;
    find_meetings(function);
  }

  std::vector<Symbol> parameter_words, result_words;

 private:
  Function& function;
  Tokens tokens;
  std::vector<std::unordered_map<std::string, Symbol>> scopes;
  std::unordered_map<std::string, u32> labels;
  std::vector<std::pair<u32, std::string>> jumps;
  u32 frame = 0;
  std::string name;                ///< of the instruction
  std::vector<std::string> parts;  ///< of its name
  std::vector<Term> terms;
  Instruction made;

  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(what + "\n  in: " + demangled(function.name) + "\n  line " + std::to_string(made.line) +
                             " of the PTX: " + line_of(*function.module, made.line));
  }

  u32 take_frame(u32 bytes) {
    const u32 place = frame;
    frame += round_up(bytes, 64);
    return operand(bank_frame, place);
  }
  Symbol declare_words(const Parameter& one) {
    const Symbol symbol{Symbol::word, take_frame(round_up(one.bytes, 8) / 8 * 256), one.bytes, nullptr};
    scopes.back()[one.name] = symbol;
    return symbol;
  }

  const Symbol* find(const std::string& symbol) {
    for (auto scope = scopes.rbegin(); scope != scopes.rend(); ++scope)
      if (const auto found = scope->find(symbol); found != scope->end()) return &found->second;
    const auto variable = function.module->variables.find(symbol);
    if (variable == function.module->variables.end()) return nullptr;
    return &(scopes[0][symbol] = {Symbol::variable, 0, 0, &variable->second});
  }
  /// The address of a variable in its own space.
  u64 address_of(const Variable& variable) const {
    if (variable.space != space_shared) return variable.address;
    return variable.dynamic ? dynamic_start : static_start + variable.address;
  }

  // -- statements ----------------------------------------------------------------------------------------------------
  void statement() {
    made = {};
    made.line = tokens.line;
    if (tokens.take("{")) return void(scopes.emplace_back());
    if (tokens.take("}")) return scopes.pop_back();
    if (tokens.take(";")) return;
    if (tokens.word[0] == '.') return directive();
    if (tokens.take("@")) {
      made.negated = tokens.take("!");
      const Symbol* guard = find(std::string(tokens.taken()));
      if (guard == nullptr || guard->kind != Symbol::predicate) fail("an unknown guard");
      made.guard = guard->place;
    }
    made.line = tokens.line;
    const std::string word(tokens.taken());
    if (tokens.take(":")) {
      labels[word] = static_cast<u32>(function.code.size());
      return;
    }
    name = word;
    parts = split(name);
    terms.clear();
    while (!tokens.take(";")) {
      if (tokens.word.empty()) fail("the text ends");
      terms.push_back(term());
      tokens.take(",");
    }
    build();
    if (mistake().wanted(name, mistakes)) make_mistake();
    function.code.push_back(made);
  }

  /// CUDA_STANDIN_MISTAKE=drop:bar.sync@2 plants a mistake in every function: its third bar.sync is not there. shift:
  /// the address of an access is one element further on; swap: a product's left operand has two registers exchanged.
  struct Mistake {
    std::string kind, name;
    int number = -1;
    bool wanted(const std::string& instruction, int& count) const {
      return !kind.empty() && instruction.starts_with(name) && (number < 0 || count++ == number);
    }
  };
  static const Mistake& mistake() {
    static const Mistake one = [] {
      Mistake made;
      const char* const text = std::getenv("CUDA_STANDIN_MISTAKE");
      if (text == nullptr) return made;
      const std::string all = text;
      const auto colon = all.find(':'), at_sign = all.find('@');
      made.kind = all.substr(0, colon);
      made.name = all.substr(colon + 1, at_sign - colon - 1);
      if (at_sign != all.npos) made.number = std::atoi(all.c_str() + at_sign + 1);
      return made;
    }();
    return one;
  }
  int mistakes = 0;
  void make_mistake() {
    if (mistake().kind == "drop") made.run = handlers::nothing;
    if (mistake().kind == "shift") made.offset += made.size;
    if (mistake().kind == "swap") {
      auto* const places = static_cast<u32*>(const_cast<void*>(made.more));
      std::swap(places[4], places[5]);
    }
    std::fprintf(stderr, "emulated GPU: mistake %s in line %u of the PTX\n", mistake().kind.c_str(), made.line);
  }

  void directive() {
    const auto word = tokens.taken();
    if (word == ".reg") {
      const bool predicate = tokens.is(".pred");
      const u32 bytes = bytes_of(tokens.taken());
      do {
        const std::string one(tokens.taken());
        u32 count = 0;
        if (tokens.take("<")) count = static_cast<u32>(integer(tokens.taken())), tokens.take(">");
        for (u32 i = 0; i < std::max(count, 1u); ++i)
          scopes.back()[count == 0 ? one : one + std::to_string(i)] = {
              predicate ? Symbol::predicate : Symbol::reg, predicate ? place_of_predicate() : take_frame(bytes * lanes),
              bytes, nullptr};
      } while (tokens.take(","));
    } else if (word == ".param") {
      declare_words(declared(tokens));
    } else if (word == ".local") {
      const auto one = declared(tokens);
      function.local_bytes = round_up(function.local_bytes, std::max(one.align, 8u));
      scopes.back()[one.name] = {Symbol::local, function.local_bytes, one.bytes, nullptr};
      function.local_bytes += one.bytes;
    } else if (word == ".shared") {
      const auto one = declared(tokens);
      auto& module = *function.module;
      module.shared_bytes = round_up(module.shared_bytes, one.align);
      module.variables[one.name] = {one.name, space_shared, module.shared_bytes, one.bytes, one.align, 1, false, {}};
      module.shared_bytes += one.bytes;
    } else if (word == ".pragma" || word == ".loc") {
      const u32 line = tokens.line;
      while (!tokens.is(";") && (word == ".pragma" || tokens.line == line)) tokens.next();
    } else {
      fail("unknown directive " + std::string(word));
    }
    tokens.take(";");
  }
  u32 free_predicates = 0, predicates = 0;
  u32 place_of_predicate() {  // 16 in a line of the cache
    if (free_predicates == 0) predicates = take_frame(64), free_predicates = 16;
    return predicates + 4 * (16 - free_predicates--);
  }

  Term term() {
    Term one;
    if (tokens.take("!")) {
      one = term();
      one.negated = true;
      return one;
    }
    if (tokens.is("[") || tokens.is("{") || tokens.is("(")) {
      const bool address = tokens.is("[");
      const std::string_view end = address ? "]" : tokens.is("{") ? "}" : ")";
      one.kind = address ? Term::address : Term::list;
      tokens.next();
      while (!tokens.take(end)) {
        if (tokens.word.empty()) fail("the text ends");
        one.parts.push_back(term());
        tokens.take(",");
      }
      return one;
    }
    if (tokens.take("_")) return one;
    const bool minus = tokens.take("-");
    const std::string word(tokens.taken());
    if (minus || std::isdigit(static_cast<unsigned char>(word[0]))) {
      one.kind = Term::number;
      if (word.starts_with("0f") || word.starts_with("0F"))
        one.value = std::stoull(word.substr(2), nullptr, 16), one.bytes = 4;
      else if (word.starts_with("0d") || word.starts_with("0D"))
        one.value = std::stoull(word.substr(2), nullptr, 16), one.bytes = 8;
      else
        one.value = static_cast<u64>(minus ? -integer(word) : integer(word));
      return one;
    }
    one.text = word;
    if (const auto special = special_names.find(word); special != special_names.end()) {
      one.kind = Term::reg, one.bytes = 4, one.place = operand(bank_special, special->second * 4 * lanes);
    } else if (word == "WARP_SZ") {
      one.kind = Term::number, one.value = lanes;
    } else if (const Symbol* symbol = find(word)) {
      one.symbol = symbol;
      one.place = symbol->place, one.bytes = symbol->bytes;
      one.kind = symbol->kind == Symbol::reg         ? Term::reg
                 : symbol->kind == Symbol::predicate ? Term::predicate
                                                     : Term::name;
    } else {
      one.kind = Term::name;
      if (word[0] == '%') fail("unknown register " + word);
    }
    if (tokens.take("+")) {
      const bool down = tokens.take("-");
      const s64 by = integer(tokens.taken());
      one.offset = down ? -by : by;
    }
    if (tokens.take("|")) one.parts.push_back(term());
    return one;
  }

  // -- instructions --------------------------------------------------------------------------------------------------
  bool has(std::string_view part) const { return std::find(parts.begin(), parts.end(), part) != parts.end(); }
  const std::string& type() const { return parts.back(); }

  /// The place of an operand that has so many bytes (0: a predicate).
  u32 place(const Term& one, u32 bytes) {
    switch (one.kind) {
      case Term::number:
        if (bytes == 0) return constants().predicate(one.value != 0);
        return constants().place(one.value, bytes);
      case Term::predicate:
        if (bytes != 0) fail("a predicate where a number stands");
        if (one.negated) fail("a negated operand");
        return one.place;
      case Term::reg:
        if (one.bytes != bytes)
          fail("an operand of " + std::to_string(one.bytes) + " bytes for " + std::to_string(bytes));
        return one.place;
      case Term::name:
        if (one.symbol != nullptr && one.symbol->kind == Symbol::variable)
          return constants().place(address_of(*one.symbol->of) + static_cast<u64>(one.offset), bytes);
        if (one.symbol != nullptr && one.symbol->kind == Symbol::kernel_parameter)
          return constants().place(base_of(space_params) + one.symbol->place + static_cast<u64>(one.offset), bytes);
        [[fallthrough]];
      default:
        fail("an operand that is not known");
    }
  }

  bool by_form(const std::string& form) {
    const auto found = forms().find(form);
    if (found == forms().end()) return false;
    const Form& known = found->second;
    if (terms.size() != known.operands) fail("operands of " + form);
    made.run = known.run;
    for (u32 i = 0; i < known.operands; ++i) made.o[i] = place(terms[i], known.size[i]);
    return true;
  }

  void build() {
    const std::string& what = parts[0];
    if (what == "bra") return jump();
    if (what == "call") return call();
    if (what == "ld" || what == "st" || what == "ldu") return access();
    if (what == "mov" && move()) return;
    if (what == "setp") return set_predicate();
    if (what == "cvt") return convert();
    if (what == "cvta") return to_space();
    if (what == "atom" || what == "red") return atomic();
    if (what == "shfl") return shuffle();
    if (what == "vote" || what == "activemask") return vote();
    if (what == "mma") return multiply();
    if (what == "ret") return void(made.run = handlers::leave);
    if (what == "exit") return void(made.run = handlers::exit);
    if (what == "trap" || what == "brkpt") return void(made.run = handlers::trap);
    if (what == "membar" || what == "fence" || what == "nanosleep" || what == "prefetch" || what == "prefetchu")
      return void(made.run = handlers::nothing);
    if (what == "bar" || what == "barrier") return barrier();
    if (what == "isspacep") {
      made.run = handlers::is_in_space;
      made.space = space_named(parts[1]);
      made.o[0] = place(terms[0], 0), made.o[1] = place(terms[1], 8);
      return;
    }
    if (type() == "pred") return logic();
    if (has("cc") || what == "addc" || what == "subc" || what == "madc") return with_carry();
    if (what == "selp" && terms[3].negated) std::swap(terms[1], terms[2]), terms[3].negated = false;
    if (by_form(name)) return;
    fail("unknown instruction " + name);
  }

  void jump() {
    made.run = handlers::branch;
    if (terms.size() != 1) fail("unknown branch");
    jumps.emplace_back(static_cast<u32>(function.code.size()), terms[0].text);
  }

  void call() {
    auto* const made_call = new Call;
    std::size_t at_term = 0;
    const auto places = [&](const Term& list, std::vector<u32>& to) {
      for (const auto& one : list.parts) {
        if (one.symbol == nullptr || one.symbol->kind != Symbol::word) fail("an argument that is no .param");
        to.push_back(one.symbol->place);
      }
    };
    if (terms.at(0).kind == Term::list) places(terms[at_term++], made_call->result_places);
    made_call->name = terms.at(at_term).text;
    if (terms[at_term].kind != Term::name) fail("a call by address");
    if (++at_term < terms.size()) places(terms[at_term], made_call->argument_places);
    const auto found = function.module->functions.find(made_call->name);
    if (found == function.module->functions.end() || found->second->body.empty())
      fail("no function " + made_call->name);
    made_call->function = found->second.get();
    made.run = handlers::call;
    made.more = made_call;
  }

  u8 space_named(std::string_view word) const {
    if (word == "global" || word == "const") return space_device;
    if (word.starts_with("shared")) return space_shared;
    if (word == "local") return space_local;
    if (word.starts_with("param")) return space_params;
    return 0;
  }

  void access() {
    const bool loads = parts[0] != "st";
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      if (const u8 space = space_named(parts[i])) made.space = space;
      if (parts[i] == "v2") made.count = 2;
      if (parts[i] == "v4") made.count = 4;
      if (parts[i] == "v8") fail("an access of 8");
    }
    made.size = static_cast<u8>(bytes_of(type()));
    if (made.size == 0) fail("an unknown type");
    made.is_signed = type()[0] == 's';
    const Term& address = terms.at(loads ? 1 : 0);
    const Term& value = terms.at(loads ? 0 : 1);
    if (address.kind != Term::address || address.parts.size() != 1) fail("no address");
    const auto& list = value.kind == Term::list ? value.parts : std::vector<Term>{value};
    if (list.size() != made.count) fail("another number of values");
    for (const auto& one : list) {
      if (one.kind == Term::empty) continue;
      if (one.kind == Term::reg) made.register_bytes = static_cast<u8>(one.bytes);
    }
    if (made.register_bytes == 0) made.register_bytes = std::max<u8>(made.size, 2);
    if (made.register_bytes < made.size) fail("a register that is too small");
    for (u32 i = 0; i < made.count; ++i)
      if (list[i].kind != Term::empty) made.o[1 + i] = place(list[i], made.register_bytes);
    const Term& base = address.parts[0];
    made.offset = base.offset;
    if (base.symbol != nullptr && base.symbol->kind == Symbol::word) {
      made.run = loads ? handlers::load_word : handlers::store_word;
      made.o[0] = base.symbol->place;
      if (base.offset + made.size * made.count > round_up(base.symbol->bytes, 8)) fail("beyond a parameter's end");
    } else if (base.symbol != nullptr && base.symbol->kind == Symbol::kernel_parameter) {
      made.run = handlers::load_parameter;
      made.offset += base.symbol->place;
    } else {
      made.run = loads ? handlers::load : handlers::store;
      if (base.kind == Term::reg) {
        made.o[0] = base.place, made.width = static_cast<u8>(base.bytes);
      } else if (base.symbol != nullptr && base.symbol->kind == Symbol::local) {
        fail("a variable of local memory as an address");
      } else {
        Term start = base;
        start.offset = 0;
        made.o[0] = place(start, 8);
      }
    }
  }

  bool move() {
    if (type() == "pred") {
      made.run = handlers::move_predicate;
      made.o[0] = place(terms[0], 0), made.o[1] = place(terms[1], 0);
      return true;
    }
    const u32 bytes = bytes_of(type());
    if (terms[0].kind == Term::list || terms[1].kind == Term::list) {
      const bool packs = terms[1].kind == Term::list;
      const auto& list = packs ? terms[1].parts : terms[0].parts;
      made.run = packs ? handlers::pack : handlers::unpack;
      made.count = static_cast<u8>(list.size());
      made.width = static_cast<u8>(bytes);
      made.size = static_cast<u8>(bytes / list.size());
      if (made.size == 1 || list.size() > 4) fail("parts of a byte");
      if (packs) {
        made.o[0] = place(terms[0], bytes);
        for (u32 i = 0; i < made.count; ++i) made.o[1 + i] = place(list[i], made.size);
      } else {
        made.o[4] = place(terms[1], bytes);
        for (u32 i = 0; i < made.count; ++i)
          if (list[i].kind != Term::empty) made.o[i] = place(list[i], made.size);
      }
      return true;
    }
    if (terms[1].symbol != nullptr && terms[1].symbol->kind == Symbol::local) {
      made.run = handlers::local_address;
      made.offset = terms[1].symbol->place + terms[1].offset;
      made.o[0] = place(terms[0], bytes), made.width = static_cast<u8>(bytes);
      return true;
    }
    return false;
  }

  void set_predicate() {
    std::string form = parts[0] + "." + parts.at(1) + "." + type();
    for (std::size_t i = 2; i + 1 < parts.size(); ++i) {
      if (parts[i] == "and")
        made.kind = 1;
      else if (parts[i] == "or")
        made.kind = 2;
      else if (parts[i] == "xor")
        made.kind = 3;
      else
        fail("unknown comparison " + name);
    }
    const auto found = forms().find(form);
    if (found == forms().end()) fail("unknown comparison " + name);
    made.run = found->second.run;
    made.o[0] = place(terms[0], 0);
    if (!terms[0].parts.empty()) made.o[4] = place(terms[0].parts[0], 0);
    made.o[1] = place(terms[1], found->second.size[1]), made.o[2] = place(terms[2], found->second.size[2]);
    if (made.kind != 0) {
      made.is_signed = terms.at(3).negated;  // of a comparison: that the second predicate is negated
      terms[3].negated = false;
      made.o[3] = place(terms[3], 0);
    }
  }

  Type type_named(const std::string& word) const {
    static const std::unordered_map<std::string, Type> all = {
        {"u8", Type::u8_},   {"s8", Type::s8_},   {"u16", Type::u16_}, {"s16", Type::s16_}, {"u32", Type::u32_},
        {"s32", Type::s32_}, {"u64", Type::u64_}, {"s64", Type::s64_}, {"f16", Type::f16},  {"bf16", Type::bf16},
        {"f32", Type::f32},  {"f64", Type::f64},  {"tf32", Type::tf32}};
    const auto found = all.find(word);
    if (found == all.end()) fail("unknown type " + word);
    return found->second;
  }

  void convert() {
    const auto known = forms().find(name);
    if (known != forms().end() && terms[0].kind == Term::reg && terms[1].kind == Term::reg &&
        terms[0].bytes == known->second.size[0] && terms[1].bytes == known->second.size[1] && by_form(name))
      return;
    auto* const how = new Conversion;
    if (parts.size() < 3) fail("unknown conversion");
    how->to = type_named(parts[parts.size() - 2]), how->from = type_named(parts.back());
    for (std::size_t i = 1; i + 2 < parts.size(); ++i) {
      const std::string& part = parts[i];
      static const std::unordered_map<std::string, Conversion::Round> rounds = {
          {"rn", Conversion::nearest}, {"rz", Conversion::zero},  {"rm", Conversion::down},
          {"rp", Conversion::up},      {"rna", Conversion::away}, {"rni", Conversion::nearest},
          {"rzi", Conversion::zero},   {"rmi", Conversion::down}, {"rpi", Conversion::up}};
      if (const auto round = rounds.find(part); round != rounds.end())
        how->round = round->second, how->to_integer = part.back() == 'i';
      else if (part == "sat")
        how->saturate = true;
      else if (part == "ftz")
        how->flush = true;
      else
        fail("unknown conversion " + name);
    }
    how->to_bytes = static_cast<u8>(terms[0].bytes);
    how->from_bytes = terms[1].kind == Term::reg ? static_cast<u8>(terms[1].bytes) : 8;
    made.run = handlers::convert;
    made.more = how;
    made.o[0] = place(terms[0], how->to_bytes), made.o[1] = place(terms[1], how->from_bytes);
  }

  /// An address in a space, and one that is valid everywhere, are apart by a constant.
  void to_space() {
    const bool from_generic = parts[1] == "to";
    const u8 space = space_named(parts[from_generic ? 2 : 1]);
    const u64 base = space == space_shared || space == space_local ? base_of(static_cast<Space>(space)) : 0;
    Term distance;
    distance.kind = Term::number;
    distance.value = from_generic ? 0 - base : base;
    if (terms[1].symbol != nullptr && terms[1].symbol->kind == Symbol::local) fail("a variable of local memory");
    terms.push_back(distance);
    if (!by_form("add.u64")) fail("unknown");
  }

  void atomic() {
    static const std::vector<std::string> names = {"add", "min",  "max", "and", "or",
                                                   "xor", "exch", "cas", "inc", "dec"};
    const std::string& kind = type();
    for (std::size_t i = 1; i + 1 < parts.size(); ++i) {
      if (const u8 space = space_named(parts[i])) made.space = space;
      const auto found = std::find(names.begin(), names.end(), parts[i]);
      if (found != names.end()) made.kind = static_cast<u8>(1 + (found - names.begin()));
    }
    made.size = static_cast<u8>(bytes_of(kind));
    if (made.kind == 0 || made.size < 4 || made.size > 8) fail("unknown atomic operation " + name);
    made.run = handlers::atomic;
    made.is_signed = kind[0] == 's';
    made.is_real = kind[0] == 'f';
    const std::size_t first = parts[0] == "red" ? 0 : 1;
    if (first == 1 && terms[0].kind != Term::empty) made.o[0] = place(terms[0], made.size);
    const Term& base = terms.at(first).parts.at(0);
    made.offset = base.offset;
    if (base.kind != Term::reg) fail("an atomic operation at a name");
    made.o[1] = base.place, made.width = static_cast<u8>(base.bytes);
    made.o[2] = place(terms.at(first + 1), made.size);
    if (terms.size() > first + 2) made.o[3] = place(terms[first + 2], made.size);
  }

  void shuffle() {
    static const std::vector<std::string> names = {"up", "down", "bfly", "idx"};
    made.run = handlers::shuffle;
    made.kind = static_cast<u8>(std::find(names.begin(), names.end(), parts.at(2)) - names.begin());
    if (parts[1] != "sync" || made.kind > 3) fail("unknown shuffle " + name);
    made.o[0] = place(terms[0], 4);
    if (!terms[0].parts.empty()) made.o[5] = place(terms[0].parts[0], 0);
    for (u32 i = 1; i < 5; ++i) made.o[i] = place(terms.at(i), 4);
  }

  void vote() {
    if (parts[0] == "activemask") {
      made.run = handlers::active_lanes;
      made.o[0] = place(terms[0], 4);
      return;
    }
    static const std::vector<std::string> names = {"all", "any", "uni", "ballot"};
    made.run = handlers::vote;
    made.kind = static_cast<u8>(std::find(names.begin(), names.end(), parts.at(2)) - names.begin());
    if (parts[1] != "sync" || made.kind > 3) fail("unknown vote " + name);
    made.negated = false;
    made.is_signed = terms.at(1).negated;
    terms[1].negated = false;
    made.o[0] = place(terms[0], made.kind == 3 ? 4 : 0);
    made.o[1] = place(terms[1], 0), made.o[2] = place(terms.at(2), 4);
  }

  void barrier() {
    if (has("warp")) {
      made.run = handlers::warp_barrier;
      made.o[0] = place(terms.at(0), 4);
      return;
    }
    made.run = handlers::barrier;
    if (has("red")) {
      made.kind = has("and") ? 1 : has("or") ? 2 : 3;
      if (terms.size() != 3) fail("unknown barrier " + name);
      made.o[1] = place(terms[0], made.kind == 3 ? 4 : 0), made.o[0] = place(terms[1], 4);
      made.is_signed = terms[2].negated, terms[2].negated = false;
      made.o[2] = place(terms[2], 0);
      return;
    }
    if (!has("sync") || terms.size() != 1) fail("unknown barrier " + name);
    made.o[0] = place(terms[0], 4);
  }

  void logic() {
    static const std::vector<std::string> names = {"not", "and", "or", "xor"};
    made.kind = static_cast<u8>(std::find(names.begin(), names.end(), parts[0]) - names.begin());
    if (made.kind > 3) fail("unknown instruction " + name);
    made.run = handlers::predicate_logic;
    for (u32 i = 0; i < terms.size(); ++i) made.o[i] = place(terms[i], 0);
  }

  void with_carry() {
    made.run = handlers::carry;
    const std::string& what = parts[0];
    made.size = static_cast<u8>(bytes_of(type()));
    made.kind = what.starts_with("add") ? 0 : what.starts_with("sub") ? 1 : has("lo") ? 2 : 3;
    made.count = static_cast<u8>((what.back() == 'c' ? 1 : 0) + (has("cc") ? 2 : 0));
    for (u32 i = 0; i < terms.size(); ++i) made.o[i] = place(terms[i], made.size);
  }

  void multiply() {
    u32 a = 0, b = 0, c = 0;
    made.run = handlers::multiply_matrices(name, a, b, c);
    if (made.run == nullptr) fail("unknown product of matrices " + name);
    auto* const places = new std::vector<u32>;
    const u32 counts[] = {c, a, b, c};
    const bool wide = parts.back() == "f64";
    for (u32 i = 0; i < 4; ++i) {
      const auto& list = terms.at(i).kind == Term::list ? terms[i].parts : std::vector<Term>{terms[i]};
      if (list.size() != counts[i]) fail("operands of " + name);
      for (const auto& one : list) places->push_back(place(one, wide ? 8 : 4));
    }
    made.more = places->data();
  }
};

void decode_one(Function& function) {
  Decoder decoder(function);
  decoder.all();
  function.decoded = true;
  for (u32 i = 0; i < function.parameters.size() && !function.entry; ++i)
    function.parameters[i].place = decoder.parameter_words[i].place;
  for (u32 i = 0; i < function.results.size(); ++i) function.results[i].place = decoder.result_words[i].place;
}

}  // namespace

void decode(Function& function) {
  if (function.decoded) return;
  if (forms().empty()) add_integer_forms(), add_float_forms();
  decode_one(function);
  for (auto& instruction : function.code) {
    if (instruction.run != handlers::call) continue;
    auto& call = *static_cast<Call*>(const_cast<void*>(instruction.more));
    decode(*call.function);
    const auto pair = [&](const std::vector<u32>& places, const std::vector<Parameter>& to,
                          std::vector<Call::Copy>& copies) {
      if (places.size() != to.size()) unknown("a call of " + demangled(call.name) + " has another number of arguments");
      for (u32 i = 0; i < places.size(); ++i) copies.push_back({places[i], to[i].place, round_up(to[i].bytes, 8) / 8});
    };
    pair(call.argument_places, call.function->parameters, call.arguments);
    pair(call.result_places, call.function->results, call.results);
  }
}

char* constant_values() { return constants().values; }

}  // namespace emulated
