// Integers, bits, predicates' comparisons and selections; sums with a carry.
#include <limits>
#include <type_traits>

#include "forms.hpp"

namespace emulated {
namespace {

template <class T>
using Wide = std::conditional_t<
    std::is_signed_v<T>, std::conditional_t<sizeof(T) == 2, s32, std::conditional_t<sizeof(T) == 4, s64, __int128>>,
    std::conditional_t<sizeof(T) == 2, u32, std::conditional_t<sizeof(T) == 4, u64, unsigned __int128>>>;

template <class T>
T quotient(T a, T b) {
  if (b == 0) return static_cast<T>(~T(0));
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return static_cast<T>(0 - static_cast<std::make_unsigned_t<T>>(a));
  return static_cast<T>(a / b);
}
template <class T>
T remainder(T a, T b) {
  if (b == 0) return a;
  if constexpr (std::is_signed_v<T>)
    if (b == -1) return 0;
  return static_cast<T>(a % b);
}
template <class T>
T to_right(T a, u32 by) {
  constexpr u32 bits = sizeof(T) * 8;
  if (by >= bits) return std::is_signed_v<T> && a < 0 ? T(-1) : T(0);
  return static_cast<T>(a >> by);
}

template <class T>
void arithmetic(const std::string& type) {
  using U = std::make_unsigned_t<T>;
  add_form<T, T, T>("add." + type, [](T a, T b) { return static_cast<T>(U(a) + U(b)); });
  add_form<T, T, T>("sub." + type, [](T a, T b) { return static_cast<T>(U(a) - U(b)); });
  add_form<T, T, T>("mul.lo." + type, [](T a, T b) { return static_cast<T>(u64(U(a)) * u64(U(b))); });
  add_form<T, T, T>("mul.hi." + type,
                    [](T a, T b) { return static_cast<T>(Wide<T>(a) * Wide<T>(b) >> (sizeof(T) * 8)); });
  add_form<T, T, T, T>("mad.lo." + type,
                       [](T a, T b, T c) { return static_cast<T>(u64(U(a)) * u64(U(b)) + u64(U(c))); });
  add_form<T, T, T, T>("mad.hi." + type, [](T a, T b, T c) {
    return static_cast<T>(U(static_cast<T>(Wide<T>(a) * Wide<T>(b) >> (sizeof(T) * 8))) + U(c));
  });
  if constexpr (sizeof(T) < 8) {
    using W = Wide<T>;
    add_form<W, T, T>("mul.wide." + type, [](T a, T b) { return static_cast<W>(W(a) * W(b)); });
    add_form<W, T, T, W>("mad.wide." + type, [](T a, T b, W c) {
      return static_cast<W>(std::make_unsigned_t<W>(W(a) * W(b)) + std::make_unsigned_t<W>(c));
    });
  }
  add_form<T, T, T>("div." + type, [](T a, T b) { return quotient(a, b); });
  add_form<T, T, T>("rem." + type, [](T a, T b) { return remainder(a, b); });
  add_form<T, T, T>("min." + type, [](T a, T b) { return b < a ? b : a; });
  add_form<T, T, T>("max." + type, [](T a, T b) { return a < b ? b : a; });
  add_form<T, T>("neg." + type, [](T a) { return static_cast<T>(U(0) - U(a)); });
  add_form<T, T>("abs." + type, [](T a) { return a < T(0) ? static_cast<T>(U(0) - U(a)) : a; });
  add_form<T, T, u32>("shr." + type, [](T a, u32 by) { return to_right(a, by); });
}

template <class T>
void bits(const std::string& type) {
  constexpr u32 width = sizeof(T) * 8;
  add_form<T, T, T>("and." + type, [](T a, T b) { return static_cast<T>(a & b); });
  add_form<T, T, T>("or." + type, [](T a, T b) { return static_cast<T>(a | b); });
  add_form<T, T, T>("xor." + type, [](T a, T b) { return static_cast<T>(a ^ b); });
  add_form<T, T>("not." + type, [](T a) { return static_cast<T>(~a); });
  add_form<T, T, u32>("shl." + type, [](T a, u32 by) { return by >= width ? T(0) : static_cast<T>(a << by); });
  add_form<T, T, u32>("shr." + type, [](T a, u32 by) { return to_right(a, by); });
}

template <class T>
void wide_bits(const std::string& type) {
  constexpr u32 width = sizeof(T) * 8;
  add_form<u32, T>("clz." + type, [](T a) {
    return a == 0 ? width : static_cast<u32>(sizeof(T) == 8 ? __builtin_clzll(a) : __builtin_clz(static_cast<u32>(a)));
  });
  add_form<u32, T>("popc." + type, [](T a) { return static_cast<u32>(__builtin_popcountll(a)); });
  add_form<T, T>("brev." + type, [](T a) {
    T to = 0;
    for (u32 i = 0; i < width; ++i) to = static_cast<T>(to << 1 | (a >> i & 1));
    return to;
  });
  add_form<T, T, T, u32, u32>("bfi." + type, [](T a, T b, u32 position, u32 length) {
    position &= 0xff, length &= 0xff;
    T mask = 0;
    for (u32 i = 0; i < length && position + i < width; ++i) mask |= T(1) << (position + i);
    return static_cast<T>((b & ~mask) | (position < width ? (a << position) & mask : 0));
  });
}

template <class T>
void field(const std::string& type) {
  constexpr u32 width = sizeof(T) * 8;
  add_form<T, T, u32, u32>("bfe." + type, [](T a, u32 position, u32 length) {
    position &= 0xff, length &= 0xff;
    using U = std::make_unsigned_t<T>;
    U to = 0;
    const u32 last =
        std::is_signed_v<T> && length > 0
            ? static_cast<u32>(U(a) >> (position + length - 1 < width ? position + length - 1 : width - 1) & 1)
            : 0u;
    for (u32 i = 0; i < width; ++i) {
      const bool inside = i < length && position + i < width;
      to |= U(inside ? U(a) >> (position + i) & 1 : U(last)) << i;
    }
    return static_cast<T>(to);
  });
}

template <class T>
void compare(const std::string& type) {
  const auto add = [&](const char* how, auto f) {
    forms()[std::string("setp.") + how + "." + type] = {run_compare<decltype(f), T>, 3, {0, sizeof(T), sizeof(T)}};
  };
  add("eq", [](T a, T b) { return a == b; });
  add("ne", [](T a, T b) { return a != b; });
  add("lt", [](T a, T b) { return a < b; });
  add("le", [](T a, T b) { return a <= b; });
  add("gt", [](T a, T b) { return a > b; });
  add("ge", [](T a, T b) { return a >= b; });
  if constexpr (std::is_unsigned_v<T>) {
    add("lo", [](T a, T b) { return a < b; });
    add("ls", [](T a, T b) { return a <= b; });
    add("hi", [](T a, T b) { return a > b; });
    add("hs", [](T a, T b) { return a >= b; });
  }
}

template <class T>
void moves(const std::string& type) {
  add_form<T, T>("mov." + type, [](T a) { return a; });
  add_form<T, T, T, Pred>("selp." + type, [](T a, T b, bool first) { return first ? a : b; });
}

/// add, sub, mad, their parts that take the carry in and give one out. kind: 0 add, 1 sub, 2 mad.lo, 3 mad.hi;
/// count: bit 0 takes it in, bit 1 gives it out.
template <class T>
void with_carry(Warp& warp, const Instruction& i) {
  T* const d = at<T>(warp, i.o[0]);
  const T *const a = at<T>(warp, i.o[1]), *const b = at<T>(warp, i.o[2]);
  for (u32 rest = warp.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const T in = i.count & 1 ? warp.carry >> lane & 1 : 0;
    unsigned __int128 sum = 0;
    bool out = false;
    if (i.kind == 1) {
      sum = static_cast<unsigned __int128>(a[lane]) - b[lane] - in;
      out = static_cast<unsigned __int128>(b[lane]) + in > a[lane];
    } else {
      T first = a[lane], second = b[lane];
      if (i.kind >= 2) {
        const auto product = static_cast<unsigned __int128>(a[lane]) * b[lane];
        first = static_cast<T>(i.kind == 2 ? product : product >> (sizeof(T) * 8));
        second = at<T>(warp, i.o[3])[lane];
      }
      sum = static_cast<unsigned __int128>(first) + second + in;
      out = sum >> (sizeof(T) * 8) != 0;
    }
    d[lane] = static_cast<T>(sum);
    if (i.count & 2) warp.carry = (warp.carry & ~(1u << lane)) | u32{out} << lane;
  }
}

}  // namespace

std::unordered_map<std::string, Form>& forms() {
  static std::unordered_map<std::string, Form>* const all = [] { return new std::unordered_map<std::string, Form>; }();
  return *all;
}

void handlers::carry(Warp& warp, const Instruction& i) {
  if (i.size == 4)
    with_carry<u32>(warp, i);
  else
    with_carry<u64>(warp, i);
}

void handlers::move_predicate(Warp& warp, const Instruction& i) {
  u32& to = *at<u32>(warp, i.o[0]);
  to = (to & ~warp.mask) | (*at<u32>(warp, i.o[1]) & warp.mask);
}

void handlers::predicate_logic(Warp& warp, const Instruction& i) {
  const u32 a = *at<u32>(warp, i.o[1]);
  const u32 b = i.o[2] == none ? 0 : *at<u32>(warp, i.o[2]);
  const u32 bits = i.kind == 0 ? ~a : i.kind == 1 ? a & b : i.kind == 2 ? a | b : a ^ b;
  u32& to = *at<u32>(warp, i.o[0]);
  to = (to & ~warp.mask) | (bits & warp.mask);
}

/// mov.b64 d, {a, b}, and back; size: bytes of a part.
void handlers::pack(Warp& warp, const Instruction& i) {
  each_lane(warp.mask, [&](int lane) {
    u64 whole = 0;
    for (u32 part = 0; part < i.count; ++part) {
      u64 value = 0;
      std::memcpy(&value, at<char>(warp, i.o[1 + part]) + lane * i.size, i.size);
      whole |= value << (part * i.size * 8);
    }
    std::memcpy(at<char>(warp, i.o[0]) + lane * i.width, &whole, i.width);
  });
}
void handlers::unpack(Warp& warp, const Instruction& i) {
  each_lane(warp.mask, [&](int lane) {
    u64 whole = 0;
    std::memcpy(&whole, at<char>(warp, i.o[4]) + lane * i.width, i.width);
    for (u32 part = 0; part < i.count; ++part) {
      const u64 value = whole >> (part * i.size * 8);
      if (i.o[part] != none) std::memcpy(at<char>(warp, i.o[part]) + lane * i.size, &value, i.size);
    }
  });
}

void add_integer_forms() {
  arithmetic<s16>("s16"), arithmetic<u16>("u16"), arithmetic<s32>("s32"), arithmetic<u32>("u32");
  arithmetic<s64>("s64"), arithmetic<u64>("u64");
  bits<u16>("b16"), bits<u32>("b32"), bits<u64>("b64");
  wide_bits<u32>("b32"), wide_bits<u64>("b64");
  field<u32>("u32"), field<s32>("s32"), field<u64>("u64"), field<s64>("s64");
  for (const auto* type : {"u16", "b16"}) compare<u16>(type), moves<u16>(type);
  for (const auto* type : {"u32", "b32"}) compare<u32>(type), moves<u32>(type);
  for (const auto* type : {"u64", "b64"}) compare<u64>(type), moves<u64>(type);
  compare<s16>("s16"), compare<s32>("s32"), compare<s64>("s64");
  moves<s16>("s16"), moves<s32>("s32"), moves<s64>("s64"), moves<float>("f32"), moves<double>("f64");
  add_form<u32, u32, u32, u32>("prmt.b32", [](u32 a, u32 b, u32 how) {
    const u64 bytes = u64{b} << 32 | a;
    u32 to = 0;
    for (u32 i = 0; i < 4; ++i) {
      const u32 one = how >> (4 * i) & 0xf;
      u32 byte = static_cast<u32>(bytes >> ((one & 7) * 8) & 0xff);
      if (one & 8) byte = byte & 0x80 ? 0xff : 0;
      to |= byte << (8 * i);
    }
    return to;
  });
  const auto funnel = [](const std::string& name, auto f) { add_form<u32, u32, u32, u32>(name, f); };
  funnel("shf.l.wrap.b32", [](u32 a, u32 b, u32 c) { return static_cast<u32>((u64{b} << 32 | a) << (c & 31) >> 32); });
  funnel("shf.r.wrap.b32", [](u32 a, u32 b, u32 c) { return static_cast<u32>((u64{b} << 32 | a) >> (c & 31)); });
  funnel("shf.l.clamp.b32",
         [](u32 a, u32 b, u32 c) { return c >= 32 ? a : static_cast<u32>((u64{b} << 32 | a) << c >> 32); });
  funnel("shf.r.clamp.b32",
         [](u32 a, u32 b, u32 c) { return c >= 32 ? b : static_cast<u32>((u64{b} << 32 | a) >> c); });
}

}  // namespace emulated
