// How products of float run on tensor cores.
#pragma once

namespace halogen {
namespace detail {
inline bool tf32_allowed = false;
}  // namespace detail

/// Whether convolutions of float may round their operands to tf32 (10 bits of mantissa; relative error of a product at
/// most 2^-10), like torch.backends.cudnn.allow_tf32. The default is true there and false here. By default each operand
/// is split in two and multiplied in three products, whose relative error is at most 2^-21. It applies to launches made
/// afterwards. Set it to the same value on all ranks. Sums are in float in both cases. Double and the host are not
/// affected.
inline void allow_tf32(bool allowed) { detail::tf32_allowed = allowed; }
inline bool tf32_is_allowed() { return detail::tf32_allowed; }

}  // namespace halogen
