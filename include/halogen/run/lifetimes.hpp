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

/// Sets all offsets, and returns how many bytes all need together. It takes one block after the other, the largest first,
/// and puts each at the lowest offset that is free while the block lives. Where that needs more than the blocks that
/// live at one time, it tries again some times, with those that end highest taken earlier, and keeps the best.
std::size_t place_blocks(std::vector<Block>& blocks);
#if HALOGEN_BODIES
/// Places the blocks in this order. Returns the end of the highest.
HALOGEN_INLINE std::size_t place_in_order(std::vector<Block>& blocks, const std::vector<std::size_t>& order) {
  std::size_t end = 0;
  std::vector<const Block*> placed, others;
  for (const std::size_t b : order) {
    Block& block = blocks[b];
    others.clear();
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

/// The most bytes that live at one time: no placement needs less.
HALOGEN_INLINE std::size_t most_living(const std::vector<Block>& blocks) {
  std::size_t most = 0;
  for (const Block& at : blocks) {
    std::size_t living = 0;
    for (const Block& block : blocks)
      if (block.first <= at.first && at.first <= block.last) living += block.bytes;
    most = std::max(most, living);
  }
  return most;
}

HALOGEN_INLINE std::size_t place_blocks(std::vector<Block>& blocks) {
  constexpr int most_tries = 24;
  std::vector<std::size_t> order(blocks.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, std::ranges::greater{}, [&](std::size_t b) { return blocks[b].bytes; });
  const std::size_t least = most_living(blocks);
  std::vector<Block> tried = blocks;
  std::size_t end = 0;
  for (int i = 0; i < most_tries; ++i) {
    const std::size_t now = place_in_order(tried, order);
    if (i == 0 || now < end) end = now, blocks = tried;
    if (end <= least) break;
    std::stable_partition(order.begin(), order.end(),
                          [&](std::size_t b) { return tried[b].offset + tried[b].bytes == now; });
  }
  return end;
}
#endif

}  // namespace halogen::detail
