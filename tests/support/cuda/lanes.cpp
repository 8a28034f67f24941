// What lanes of a warp do together: shuffles, votes, bar.warp.sync, products of matrices.
#include <cmath>

#include "forms.hpp"
#include "memory.hpp"
#include "shared.hpp"

namespace emulated {
namespace {

/// All lanes that the mask names and that have not ended must be here.
void check_mask(Warp& warp, const Instruction& i, const u32* masks, const char* what) {
  for (u32 rest = warp.mask; rest != 0; rest &= rest - 1) {
    const int lane = __builtin_ctz(rest);
    const u32 wanted = masks[lane] & warp.live;
    if ((wanted & ~warp.mask) != 0)
      return finding(warp, i, lane,
                     std::string(what) + " in a divergent branch: its mask names lane " +
                         std::to_string(__builtin_ctz(wanted & ~warp.mask)) + ", which is not here");
    if ((masks[lane] >> lane & 1) == 0)
      return finding(warp, i, lane, std::string(what) + " by a lane that its mask does not name");
  }
}

}  // namespace

void handlers::shuffle(Warp& warp, const Instruction& i) {
  const u32 *const a = at<u32>(warp, i.o[1]), *const b = at<u32>(warp, i.o[2]), *const c = at<u32>(warp, i.o[3]);
  check_mask(warp, i, at<u32>(warp, i.o[4]), "a shuffle");
  u32 got[lanes], inside = 0;
  for (int lane = 0; lane < lanes; ++lane) {
    const int limit = static_cast<int>(c[lane] & 31), segment = static_cast<int>(c[lane] >> 8 & 31);
    const int by = static_cast<int>(b[lane] & 31);
    const int highest = (lane & segment) | (limit & ~segment), lowest = lane & segment;
    int from = lane;
    bool in = true;
    switch (i.kind) {
      case 0:
        from = lane - by, in = from >= highest;
        break;
      case 1:
        from = lane + by, in = from <= highest;
        break;
      case 2:
        from = lane ^ by, in = from <= highest;
        break;
      default:
        from = lowest | (by & ~segment), in = from <= highest;
    }
    if (!in) from = lane;
    if (in && (warp.mask >> lane & 1) != 0 && (warp.mask >> from & 1) == 0)
      finding(warp, i, lane, "a shuffle reads lane " + std::to_string(from) + ", which takes no part in it");
    got[lane] = a[from];
    inside |= u32{in} << lane;
  }
  if (warp.mask == warp.live) shared().exchange(warp);
  u32* const d = at<u32>(warp, i.o[0]);
  each_lane(warp.mask, [&](int lane) { d[lane] = got[lane]; });
  if (i.o[5] != none) {
    u32& to = *at<u32>(warp, i.o[5]);
    to = (to & ~warp.mask) | (inside & warp.mask);
  }
}

void handlers::vote(Warp& warp, const Instruction& i) {
  const u32* const masks = at<u32>(warp, i.o[2]);
  check_mask(warp, i, masks, "a vote");
  const u32 of = masks[__builtin_ctz(warp.mask)] & warp.mask;
  const u32 yes = (*at<u32>(warp, i.o[1]) ^ (i.is_signed ? all_lanes : 0)) & of;
  if (i.kind == 3) {
    u32* const d = at<u32>(warp, i.o[0]);
    each_lane(warp.mask, [&](int lane) { d[lane] = yes; });
    return;
  }
  const bool holds = i.kind == 0 ? yes == of : i.kind == 1 ? yes != 0 : yes == 0 || yes == of;
  u32& to = *at<u32>(warp, i.o[0]);
  to = (to & ~warp.mask) | (holds ? warp.mask : 0);
}

void handlers::active_lanes(Warp& warp, const Instruction& i) {
  u32* const d = at<u32>(warp, i.o[0]);
  each_lane(warp.mask, [&](int lane) { d[lane] = warp.mask; });
}

void handlers::warp_barrier(Warp& warp, const Instruction& i) {
  check_mask(warp, i, at<u32>(warp, i.o[0]), "bar.warp.sync");
  if (warp.mask == warp.live) shared().meet(warp);  // among fewer lanes nothing is taken to be ordered
}

// -- products of matrices
// ----------------------------------------------------------------------------------------------
//
// Lanes are 8 groups of 4. In a 16 x k left operand, a lane's first register is of row `group`, the second of row
// `group + 8`; further registers are further columns. In a k x 8 right operand a lane has column `group`. In a 16 x 8
// sum it has columns 2 t and 2 t + 1, t its place in the group, of rows `group` and `group + 8`. (PTX ISA, "Matrix
// fragments".)

namespace {

template <class T>
T value_in(Warp& warp, u32 place, int lane) {
  return at<T>(warp, place)[lane];
}

/// A tf32 operand: only 10 bits of its mantissa are read.
float tf32(Warp& warp, u32 place, int lane) {
  const u32 bits = value_in<u32>(warp, place, lane) & 0xffffe000u;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

void check_whole(Warp& warp, const Instruction& i) {
  if (warp.mask != all_lanes)
    finding(warp, i, __builtin_ctz(~warp.mask), "a product of matrices in a divergent branch: this lane is not here");
}

/// Rows x 8 sums of T: D = A B + C. read_a(row, k), read_b(k, column) find their lanes.
template <class T, int Rows, int Inner, class ReadA, class ReadB>
void product(Warp& warp, const u32* places, u32 first_c, ReadA read_a, ReadB read_b) {
  T sum[Rows][8];
  const auto lane_of = [](int row, int column) { return row % 8 * 4 + column / 2; };
  const auto register_of = [](int row, int column) { return static_cast<u32>(row / 8 * 2 + column % 2); };
  for (int row = 0; row < Rows; ++row)
    for (int column = 0; column < 8; ++column) {
      T value = at<T>(warp, places[first_c + register_of(row, column)])[lane_of(row, column)];
      for (int k = 0; k < Inner; ++k) value += static_cast<T>(read_a(row, k)) * static_cast<T>(read_b(k, column));
      sum[row][column] = value;
    }
  for (int row = 0; row < Rows; ++row)
    for (int column = 0; column < 8; ++column)
      at<T>(warp, places[register_of(row, column)])[lane_of(row, column)] = sum[row][column];
}

// places: of D, A, B, C one after the other
void tf32_m16n8k8(Warp& warp, const Instruction& i) {
  check_whole(warp, i);
  const u32* const places = static_cast<const u32*>(i.more);
  product<float, 16, 8>(
      warp, places, 10,
      [&](int row, int k) { return tf32(warp, places[4 + row / 8 + k / 4 * 2], row % 8 * 4 + k % 4); },
      [&](int k, int column) { return tf32(warp, places[8 + k / 4], column * 4 + k % 4); });
}
void f64_m16n8k8(Warp& warp, const Instruction& i) {
  check_whole(warp, i);
  const u32* const places = static_cast<const u32*>(i.more);
  product<double, 16, 8>(
      warp, places, 10,
      [&](int row, int k) { return value_in<double>(warp, places[4 + row / 8 + k / 4 * 2], row % 8 * 4 + k % 4); },
      [&](int k, int column) { return value_in<double>(warp, places[8 + k / 4], column * 4 + k % 4); });
}
void f64_m8n8k4(Warp& warp, const Instruction& i) {
  check_whole(warp, i);
  const u32* const places = static_cast<const u32*>(i.more);
  product<double, 8, 4>(
      warp, places, 4, [&](int row, int k) { return value_in<double>(warp, places[2], row * 4 + k); },
      [&](int k, int column) { return value_in<double>(warp, places[3], column * 4 + k); });
}
float bfloat(Warp& warp, u32 place, int lane, int half) {
  const u32 bits = (value_in<u32>(warp, place, lane) >> (16 * half)) << 16;
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
void bf16_m16n8k16(Warp& warp, const Instruction& i) {
  check_whole(warp, i);
  const u32* const places = static_cast<const u32*>(i.more);
  product<float, 16, 16>(
      warp, places, 10,
      [&](int row, int k) { return bfloat(warp, places[4 + row / 8 + k / 8 * 2], row % 8 * 4 + k % 8 / 2, k % 2); },
      [&](int k, int column) { return bfloat(warp, places[8 + k / 8], column * 4 + k % 8 / 2, k % 2); });
}

}  // namespace

Handler handlers::multiply_matrices(const std::string& form, u32& a, u32& b, u32& c) {
  if (form == "mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64") return a = 1, b = 1, c = 2, f64_m8n8k4;
  a = 4, b = 2, c = 4;
  if (form == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32") return tf32_m16n8k8;
  if (form == "mma.sync.aligned.m16n8k8.row.col.f64.f64.f64.f64") return f64_m16n8k8;
  if (form == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32") return bf16_m16n8k16;
  return nullptr;
}

}  // namespace emulated
