// Offsets for blocks of memory that are in use at different times.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <vector>

#include "halogen/core/config.hpp"

namespace halogen::detail {

/// A block of bytes that is in use from launch `first` to launch `last`, both included.
struct Block {
  std::size_t bytes = 0;
  int first = 0, last = 0;
  std::size_t offset = 0;  ///< set by place_blocks

  bool lives_with(const Block& other) const { return first <= other.last && other.first <= last; }
};

/// Sets all offsets. It takes the largest block first, and puts each at the lowest offset that is free while the block
/// lives. Returns how many bytes all need together.
std::size_t place_blocks(std::vector<Block>& blocks);
#if HALOGEN_BODIES
HALOGEN_INLINE std::size_t place_blocks(std::vector<Block>& blocks) {
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t b) { return blocks[b].bytes; });
  std::size_t end = 0;
  std::vector<const Block*> placed;
  for (const std::size_t b : order) {
    Block& block = blocks[b];
    std::vector<const Block*> others;
    std::ranges::copy_if(placed, std::back_inserter(others),
                         [&](const Block* other) { return block.lives_with(*other); });
    std::ranges::sort(others, {}, &Block::offset);
    block.offset = 0;
    for (const Block* other : others) {
      if (block.offset + block.bytes <= other->offset) break;
      block.offset = std::max(block.offset, other->offset + other->bytes);
    }
    end = std::max(end, block.offset + block.bytes);
    placed.push_back(&block);
  }
  return end;
}
#endif

}  // namespace halogen::detail
