// Floating point: sums, products, functions, comparisons, conversions with their rounding.
//
// Where PTX allows an error (ex2.approx and others), the result here is the nearest value, which is within it.
#include <cfenv>
#include <cmath>
#include <limits>

#include "forms.hpp"

namespace emulated {
namespace {

template <class T>
T flushed(T a) {
  return std::fpclassify(a) == FP_SUBNORMAL ? std::copysign(T(0), a) : a;
}

/// f computed in this rounding mode of the processor.
template <int Mode, class F>
auto rounded(F f) {
  std::fesetround(Mode);
  const auto value = f();
  std::fesetround(FE_TONEAREST);
  return value;
}

template <class T>
T smaller(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
T larger(T a, T b) {
  if (std::isnan(a)) return b;
  if (std::isnan(b)) return a;
  if (a == b) return std::signbit(a) ? b : a;
  return a < b ? b : a;
}

/// add, sub, mul, fma in a rounding mode other than to nearest. Volatile: the compiler must not compute it elsewhere.
template <class T, int Mode>
void directed(const std::string& round, const std::string& type) {
  add_form<T, T, T>("add." + round + "." + type, [](T a, T b) {
    return rounded<Mode>([=] {
      volatile T x = a, y = b;
      volatile T z = x + y;
      return T(z);
    });
  });
  add_form<T, T, T>("sub." + round + "." + type, [](T a, T b) {
    return rounded<Mode>([=] {
      volatile T x = a, y = b;
      volatile T z = x - y;
      return T(z);
    });
  });
  add_form<T, T, T>("mul." + round + "." + type, [](T a, T b) {
    return rounded<Mode>([=] {
      volatile T x = a, y = b;
      volatile T z = x * y;
      return T(z);
    });
  });
  add_form<T, T, T, T>("fma." + round + "." + type, [](T a, T b, T c) {
    return rounded<Mode>([=] {
      volatile T x = a, y = b, w = c;
      volatile T z = std::fma(T(x), T(y), T(w));
      return T(z);
    });
  });
}

template <class T>
void arithmetic(const std::string& type) {
  for (const std::string round : {"", "rn."}) {
    add_form<T, T, T>("add." + round + type, [](T a, T b) { return a + b; });
    add_form<T, T, T>("sub." + round + type, [](T a, T b) { return a - b; });
    add_form<T, T, T>("mul." + round + type, [](T a, T b) { return a * b; });
    add_form<T, T, T, T>("fma." + round + type, [](T a, T b, T c) { return std::fma(a, b, c); });
    add_form<T, T, T, T>("mad." + round + type, [](T a, T b, T c) { return std::fma(a, b, c); });
  }
  for (const std::string how : {"rn.", "full.", "approx."}) {
    add_form<T, T, T>("div." + how + type, [](T a, T b) { return a / b; });
    add_form<T, T>("rcp." + how + type, [](T a) { return T(1) / a; });
    add_form<T, T>("sqrt." + how + type, [](T a) { return std::sqrt(a); });
    add_form<T, T>("rsqrt." + how + type, [](T a) { return T(1) / std::sqrt(a); });
  }
  // operands and results that are too small become zero
  add_form<T, T, T>("add.ftz." + type, [](T a, T b) { return flushed(flushed(a) + flushed(b)); });
  add_form<T, T, T>("mul.ftz." + type, [](T a, T b) { return flushed(flushed(a) * flushed(b)); });
  add_form<T, T>("rcp.approx.ftz." + type, [](T a) { return flushed(T(1) / flushed(a)); });
  add_form<T, T>("sqrt.approx.ftz." + type, [](T a) { return flushed(std::sqrt(flushed(a))); });
  add_form<T, T>("rsqrt.approx.ftz." + type, [](T a) { return flushed(T(1) / std::sqrt(flushed(a))); });
  add_form<T, T>("ex2.approx.ftz." + type, [](T a) { return flushed(std::exp2(flushed(a))); });
  add_form<T, T>("lg2.approx.ftz." + type, [](T a) { return flushed(std::log2(flushed(a))); });
  add_form<T, T>("ex2.approx." + type, [](T a) { return std::exp2(a); });
  add_form<T, T>("lg2.approx." + type, [](T a) { return std::log2(a); });
  add_form<T, T>("sin.approx." + type, [](T a) { return std::sin(a); });
  add_form<T, T>("cos.approx." + type, [](T a) { return std::cos(a); });
  add_form<T, T>("tanh.approx." + type, [](T a) { return std::tanh(a); });
  directed<T, FE_TOWARDZERO>("rz", type), directed<T, FE_DOWNWARD>("rm", type), directed<T, FE_UPWARD>("rp", type);
  add_form<T, T>("neg." + type, [](T a) { return -a; });
  add_form<T, T>("abs." + type, [](T a) { return std::fabs(a); });
  add_form<T, T, T>("min." + type, [](T a, T b) { return smaller(a, b); });
  add_form<T, T, T>("max." + type, [](T a, T b) { return larger(a, b); });
  add_form<T, T, T>("copysign." + type, [](T sign, T size) { return std::copysign(size, sign); });
}

template <class T>
void compare(const std::string& type) {
  const auto add = [&](const char* how, auto f) {
    forms()[std::string("setp.") + how + "." + type] = {run_compare<decltype(f), T>, 3, {0, sizeof(T), sizeof(T)}};
  };
  add("eq", [](T a, T b) { return a == b; });
  add("ne", [](T a, T b) { return a < b || a > b; });
  add("lt", [](T a, T b) { return a < b; });
  add("le", [](T a, T b) { return a <= b; });
  add("gt", [](T a, T b) { return a > b; });
  add("ge", [](T a, T b) { return a >= b; });
  add("equ", [](T a, T b) { return !(a < b || a > b); });
  add("neu", [](T a, T b) { return a != b; });
  add("ltu", [](T a, T b) { return !(a >= b); });
  add("leu", [](T a, T b) { return !(a > b); });
  add("gtu", [](T a, T b) { return !(a <= b); });
  add("geu", [](T a, T b) { return !(a < b); });
  add("num", [](T a, T b) { return a == a && b == b; });
  add("nan", [](T a, T b) { return a != a || b != b; });
}

// -- conversions ---------------------------------------------------------------------------------------------------

/// An integer or a real number that is read from a register.
struct Number {
  bool real = false, negative = false;
  u64 whole = 0;
  double value = 0;
};

template <class T>
T bits_as(u64 bits) {
  T value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
template <class T>
u64 as_bits(T value) {
  u64 bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  return bits;
}

double half_value(u64 bits) {
  const int exponent = static_cast<int>(bits >> 10 & 31);
  const double mantissa = static_cast<double>(bits & 1023);
  const double size = exponent == 31  ? (mantissa != 0 ? std::nan("") : INFINITY)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return bits & 0x8000 ? -size : size;
}

Number read(Type type, u64 bits, bool flush) {
  const auto whole = [](s64 value) { return Number{false, value < 0, static_cast<u64>(value), 0}; };
  const auto real = [](double value) { return Number{true, std::signbit(value), 0, value}; };
  switch (type) {
    case Type::u8_:
      return {false, false, u8(bits), 0};
    case Type::u16_:
      return {false, false, u16(bits), 0};
    case Type::u32_:
      return {false, false, u32(bits), 0};
    case Type::u64_:
      return {false, false, bits, 0};
    case Type::s8_:
      return whole(s8(bits));
    case Type::s16_:
      return whole(s16(bits));
    case Type::s32_:
      return whole(s32(bits));
    case Type::s64_:
      return whole(s64(bits));
    case Type::f16:
      return real(half_value(bits & 0xffff));
    case Type::bf16:
      return real(bits_as<float>((bits & 0xffff) << 16));
    case Type::f32:
    case Type::tf32:
      return real(flush ? flushed(bits_as<float>(bits)) : bits_as<float>(bits));
    case Type::f64:
      return real(bits_as<double>(bits));
  }
  return {};
}

double to_whole(double value, Conversion::Round round) {
  switch (round) {
    case Conversion::zero:
      return std::trunc(value);
    case Conversion::down:
      return std::floor(value);
    case Conversion::up:
      return std::ceil(value);
    default:
      return std::nearbyint(value);
  }
}

u64 integer_of(const Number& from, Type type, const Conversion& how) {
  const bool is_signed = type == Type::s8_ || type == Type::s16_ || type == Type::s32_ || type == Type::s64_;
  const int width = type == Type::u8_ || type == Type::s8_     ? 8
                    : type == Type::u16_ || type == Type::s16_ ? 16
                    : type == Type::u32_ || type == Type::s32_ ? 32
                                                               : 64;
  const __int128 low = is_signed ? -(__int128(1) << (width - 1)) : 0;
  const __int128 high = is_signed ? (__int128(1) << (width - 1)) - 1 : (__int128(1) << width) - 1;
  __int128 value;
  if (from.real) {
    if (std::isnan(from.value)) return width == 64 ? u64(1) << 63 : 0;
    const double whole = to_whole(from.value, how.round);
    value = whole >= 1e30 ? high : whole <= -1e30 ? low : static_cast<__int128>(whole);
    value = value < low ? low : value > high ? high : value;
  } else {
    value = from.negative ? __int128(static_cast<s64>(from.whole)) : __int128(from.whole);
    if (how.saturate) value = value < low ? low : value > high ? high : value;
  }
  // what a register has beyond the type is the sign, or zeros
  u64 bits = static_cast<u64>(value);
  if (width < 64)
    bits = is_signed ? static_cast<u64>(static_cast<s64>(bits << (64 - width)) >> (64 - width))
                     : bits & ((u64(1) << width) - 1);
  return bits;
}

template <class T>
T float_of(const Number& from, Conversion::Round round) {
  const auto cast = [&] {
    volatile double real = from.value;
    volatile u64 whole = from.whole;
    volatile T value = from.real       ? static_cast<T>(real)
                       : from.negative ? static_cast<T>(static_cast<s64>(whole))
                                       : static_cast<T>(whole);
    return T(value);
  };
  switch (round) {
    case Conversion::zero:
      return rounded<FE_TOWARDZERO>(cast);
    case Conversion::down:
      return rounded<FE_DOWNWARD>(cast);
    case Conversion::up:
      return rounded<FE_UPWARD>(cast);
    default:
      return cast();
  }
}

/// The upper bits of a float, of which `dropped` are rounded off.
u32 shortened(float value, int dropped, Conversion::Round round) {
  const u32 bits = static_cast<u32>(as_bits(value));
  if (std::isnan(value)) return 0x7fffffffu >> dropped << dropped;
  if (std::isinf(value)) return bits;
  const u32 rest = bits & ((1u << dropped) - 1), half = 1u << (dropped - 1), kept = bits >> dropped << dropped;
  bool more = false;
  switch (round) {
    case Conversion::zero:
      break;
    case Conversion::away:
      more = rest >= half;
      break;
    case Conversion::down:
      more = rest != 0 && (bits >> 31) != 0;
      break;
    case Conversion::up:
      more = rest != 0 && (bits >> 31) == 0;
      break;
    default:
      more = rest > half || (rest == half && (kept >> dropped & 1) != 0);
  }
  return kept + (more ? 1u << dropped : 0u);
}

u32 half_bits(float value) {
  _Float16 half = static_cast<_Float16>(value);
  return static_cast<u32>(as_bits(half));
}

u64 converted(const Conversion& how, u64 bits) {
  Number from = read(how.from, bits, how.flush);
  if (how.to <= Type::s64_) return integer_of(from, how.to, how);
  if (how.to_integer && from.real) from.value = to_whole(from.value, how.round);
  if (how.saturate && from.real) from.value = from.value >= 1 ? 1 : from.value > 0 ? from.value : 0;
  switch (how.to) {
    case Type::f64:
      return as_bits(float_of<double>(from, how.round));
    case Type::f32: {
      const float value = float_of<float>(from, how.to_integer ? Conversion::nearest : how.round);
      return as_bits(how.flush ? flushed(value) : value);
    }
    case Type::tf32:
      return shortened(float_of<float>(from, Conversion::nearest), 13, how.round);
    case Type::bf16:
      return shortened(float_of<float>(from, Conversion::nearest), 16, how.round) >> 16;
    case Type::f16:
      return half_bits(float_of<float>(from, Conversion::nearest));
    default:
      return 0;
  }
}

}  // namespace

void handlers::convert(Warp& warp, const Instruction& i) {
  const Conversion& how = *static_cast<const Conversion*>(i.more);
  char* const d = at<char>(warp, i.o[0]);
  const char* const a = at<char>(warp, i.o[1]);
  for (u32 rest = warp.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    u64 bits = 0;
    std::memcpy(&bits, a + lane * how.from_bytes, how.from_bytes);
    bits = converted(how, bits);
    std::memcpy(d + lane * how.to_bytes, &bits, how.to_bytes);
  }
}

void add_float_forms() {
  arithmetic<float>("f32"), arithmetic<double>("f64");
  compare<float>("f32"), compare<double>("f64");
  // conversions that loops are full of, by vectors
  add_form<s64, s32>("cvt.s64.s32", [](s32 a) { return s64(a); });
  add_form<u64, u32>("cvt.u64.u32", [](u32 a) { return u64(a); });
  add_form<u32, u64>("cvt.u32.u64", [](u64 a) { return u32(a); });
  add_form<u16, u32>("cvt.u16.u32", [](u32 a) { return u16(a); });
  add_form<u32, u16>("cvt.u32.u16", [](u16 a) { return u32(a); });
  add_form<s32, s16>("cvt.s32.s16", [](s16 a) { return s32(a); });
  add_form<double, float>("cvt.f64.f32", [](float a) { return double(a); });
  add_form<float, double>("cvt.rn.f32.f64", [](double a) { return float(a); });
  add_form<float, s32>("cvt.rn.f32.s32", [](s32 a) { return float(a); });
  add_form<double, s64>("cvt.rn.f64.s64", [](s64 a) { return double(a); });
  add_form<float, s64>("cvt.rn.f32.s64", [](s64 a) { return float(a); });
}

}  // namespace emulated
