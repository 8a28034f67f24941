// Forms of instructions: what carries an instruction out, and how many bytes each of its operands has.
#pragma once

#include <cstring>
#include <string>
#include <unordered_map>

#include "machine.hpp"

namespace emulated {

struct Pred {};  ///< an operand that is a predicate

struct Form {
  Handler run = nullptr;
  u8 operands = 0;
  u8 size[6] = {};  ///< bytes of each; a predicate: 0
};

/// By name, as "add.s32"; what changes no result (.uni, .rn of add) is not part of it.
std::unordered_map<std::string, Form>& forms();

template <class T>
inline constexpr u8 size_of = sizeof(T);
template <>
inline constexpr u8 size_of<Pred> = 0;

/// One value of an operand.
template <class T>
inline __attribute__((always_inline)) T value_of(const T* values, int lane) {
  return values[lane];
}
template <class T>
struct Reads {
  const T* values;
  Reads(Warp& warp, u32 place) : values(at<T>(warp, place)) {}
  T operator[](int lane) const { return values[lane]; }
};
template <>
struct Reads<Pred> {
  u32 bits;
  Reads(Warp& warp, u32 place) : bits(*at<u32>(warp, place)) {}
  bool operator[](int lane) const { return bits >> lane & 1; }
};

template <class F, class D, class A>
void run_unary(Warp& warp, const Instruction& i) {
  D* const d = at<D>(warp, i.o[0]);
  const Reads<A> a(warp, i.o[1]);
  each_lane(warp.mask, [&](int lane) { d[lane] = F{}(a[lane]); });
}
template <class F, class D, class A, class B>
void run_binary(Warp& warp, const Instruction& i) {
  D* const d = at<D>(warp, i.o[0]);
  const Reads<A> a(warp, i.o[1]);
  const Reads<B> b(warp, i.o[2]);
  each_lane(warp.mask, [&](int lane) { d[lane] = F{}(a[lane], b[lane]); });
}
template <class F, class D, class A, class B, class C>
void run_ternary(Warp& warp, const Instruction& i) {
  D* const d = at<D>(warp, i.o[0]);
  const Reads<A> a(warp, i.o[1]);
  const Reads<B> b(warp, i.o[2]);
  const Reads<C> c(warp, i.o[3]);
  each_lane(warp.mask, [&](int lane) { d[lane] = F{}(a[lane], b[lane], c[lane]); });
}
template <class F, class D, class A, class B, class C, class E>
void run_quaternary(Warp& warp, const Instruction& i) {
  D* const d = at<D>(warp, i.o[0]);
  const Reads<A> a(warp, i.o[1]);
  const Reads<B> b(warp, i.o[2]);
  const Reads<C> c(warp, i.o[3]);
  const Reads<E> e(warp, i.o[4]);
  each_lane(warp.mask, [&](int lane) { d[lane] = F{}(a[lane], b[lane], c[lane], e[lane]); });
}
/// The bits of a comparison.
template <class F, class A>
void run_compare(Warp& warp, const Instruction& i) {
  const Reads<A> a(warp, i.o[1]), b(warp, i.o[2]);
  alignas(64) u8 holds[lanes];
#pragma GCC ivdep
  for (int lane = 0; lane < lanes; ++lane) holds[lane] = F{}(a[lane], b[lane]);
  u32 bits = 0;
  for (int part = 0; part < 4; ++part) {  // bit 0 of 8 bytes
    u64 word;
    std::memcpy(&word, holds + part * 8, 8);
    bits |= static_cast<u32>((word * 0x0102040810204080ull) >> 56) << (part * 8);
  }
  // i.kind: how the result is joined with a second predicate
  const auto other = [&] { return *at<u32>(warp, i.o[3]) ^ (i.is_signed ? all_lanes : 0u); };
  u32 second = ~bits;
  if (i.kind != 0) {
    const u32 more = other();
    second = i.kind == 1 ? second & more : i.kind == 2 ? second | more : second ^ more;
    bits = i.kind == 1 ? bits & more : i.kind == 2 ? bits | more : bits ^ more;
  }
  u32& to = *at<u32>(warp, i.o[0]);
  to = (to & ~warp.mask) | (bits & warp.mask);
  if (i.o[4] != none) {
    u32& to_second = *at<u32>(warp, i.o[4]);
    to_second = (to_second & ~warp.mask) | (second & warp.mask);
  }
}

template <class D, class A, class F>
void add_form(const std::string& name, F) {
  forms()[name] = {run_unary<F, D, A>, 2, {size_of<D>, size_of<A>}};
}
template <class D, class A, class B, class F>
void add_form(const std::string& name, F) {
  forms()[name] = {run_binary<F, D, A, B>, 3, {size_of<D>, size_of<A>, size_of<B>}};
}
template <class D, class A, class B, class C, class F>
void add_form(const std::string& name, F) {
  forms()[name] = {run_ternary<F, D, A, B, C>, 4, {size_of<D>, size_of<A>, size_of<B>, size_of<C>}};
}
template <class D, class A, class B, class C, class E, class F>
void add_form(const std::string& name, F) {
  forms()[name] = {run_quaternary<F, D, A, B, C, E>, 5, {size_of<D>, size_of<A>, size_of<B>, size_of<C>, size_of<E>}};
}

void add_integer_forms();
void add_float_forms();

/// Handlers that the decoder chooses itself.
namespace handlers {
void convert(Warp&, const Instruction&);
void load(Warp&, const Instruction&);
void store(Warp&, const Instruction&);
void atomic(Warp&, const Instruction&);
void load_parameter(Warp&, const Instruction&);  ///< of a kernel: alike in all lanes
void load_word(Warp&, const Instruction&);       ///< of a call: in the frame
void store_word(Warp&, const Instruction&);
void local_address(Warp&, const Instruction&);
void move_predicate(Warp&, const Instruction&);
void predicate_logic(Warp&, const Instruction&);
void pack(Warp&, const Instruction&);
void unpack(Warp&, const Instruction&);
void carry(Warp&, const Instruction&);
void is_in_space(Warp&, const Instruction&);
void branch(Warp&, const Instruction&);
void call(Warp&, const Instruction&);
void leave(Warp&, const Instruction&);
void exit(Warp&, const Instruction&);
void trap(Warp&, const Instruction&);
void barrier(Warp&, const Instruction&);
void warp_barrier(Warp&, const Instruction&);
void nothing(Warp&, const Instruction&);
void shuffle(Warp&, const Instruction&);
void vote(Warp&, const Instruction&);
void active_lanes(Warp&, const Instruction&);
Handler multiply_matrices(const std::string& form, u32& a, u32& b, u32& c);  ///< registers of each; null: not known
}  // namespace handlers

/// Types of a conversion, and how it rounds.
enum class Type : u8 { u8_, s8_, u16_, s16_, u32_, s32_, u64_, s64_, f16, bf16, f32, f64, tf32 };
struct Conversion {
  Type to, from;
  enum Round : u8 { nearest, zero, down, up, away, none } round = none;
  bool to_integer = false;  ///< rni, rzi, rmi, rpi
  bool saturate = false, flush = false;
  u8 to_bytes = 0, from_bytes = 0;  ///< of the registers
};

}  // namespace emulated
