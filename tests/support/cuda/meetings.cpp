// Where the lanes that a branch divides meet again: at the immediate post-dominator of its block. Lanes that end or
// leave early are out of it: only the last way out of a function counts as one, so that the others meet behind the
// branch.
#include <set>

#include "forms.hpp"

namespace emulated {
namespace {

bool is_branch(const Instruction& one) { return one.run == handlers::branch; }
bool ends(const Instruction& one) {
  return one.run == handlers::leave || one.run == handlers::exit || one.run == handlers::trap;
}

/// Blocks of instructions that are carried out one after the other. The last number, `exit`, is the function's end.
struct Blocks {
  std::vector<u32> start, block_of;
  std::vector<std::vector<u32>> next, before;
  u32 exit = 0;

  /// leaves_early: a condition that leads to the function's end, or to a `ret` before the last, is no way on.
  Blocks(const std::vector<Instruction>& code, bool leaves_early) : block_of(code.size()) {
    const u32 end = static_cast<u32>(code.size());
    std::set<u32> starts = {0};
    for (u32 i = 0; i < end; ++i) {
      if (is_branch(code[i])) starts.insert(code[i].target);
      if ((is_branch(code[i]) || ends(code[i])) && i + 1 < end) starts.insert(i + 1);
    }
    start.assign(starts.begin(), starts.end());
    exit = static_cast<u32>(start.size());
    start.push_back(end);
    next.resize(exit + 1), before.resize(exit + 1);
    for (u32 b = 0; b < exit; ++b)
      for (u32 i = start[b]; i < start[b + 1]; ++i) block_of[i] = b;
    u32 way_out = end - 1;  // the instruction that decode() adds, or what makes it superfluous
    while (way_out > 0 && code[way_out - 1].run == handlers::leave && code[way_out - 1].guard == none) --way_out;
    for (u32 b = 0; b < exit; ++b) {
      const u32 last = start[b + 1] - 1;
      const Instruction& one = code[last];
      const bool goes_on = (!is_branch(one) && !ends(one)) || one.guard != none;
      const bool chooses = is_branch(one) && goes_on && leaves_early;
      const bool jump_leaves = chooses && leads_out(code, one.target),
                 other_leaves = chooses && leads_out(code, last + 1);
      if (is_branch(one) && (!jump_leaves || other_leaves)) add(b, block_of[one.target]);
      if (last == way_out || (ends(one) && !leaves_early)) add(b, exit);
      if (goes_on && (!other_leaves || jump_leaves)) add(b, last + 1 < end ? block_of[last + 1] : exit);
    }
  }

  /// Whether nothing but jumps stands between here and the function's end.
  static bool leads_out(const std::vector<Instruction>& code, u32 i) {
    for (int jumps = 0; i < code.size() && jumps < 8; ++jumps) {
      if (code[i].run == handlers::leave) return true;
      if (!is_branch(code[i]) || code[i].guard != none) return false;
      i = code[i].target;
    }
    return i >= code.size();
  }

  /// All from which the exit is reached, each behind those that only it leads to.
  std::vector<u32> backward() const {
    std::vector<u32> order, stack = {exit}, child(exit + 1, 0);
    std::vector<bool> seen(exit + 1, false);
    seen[exit] = true;
    while (!stack.empty()) {
      const u32 b = stack.back();
      if (child[b] == before[b].size()) {
        order.push_back(b);
        stack.pop_back();
      } else if (const u32 to = before[b][child[b]++]; !seen[to]) {
        seen[to] = true;
        stack.push_back(to);
      }
    }
    return order;
  }

 private:
  void add(u32 from, u32 to) { next[from].push_back(to), before[to].push_back(from); }
};

/// Immediate post-dominators, by the iteration of Cooper, Harvey and Kennedy.
std::vector<u32> dominators(const Blocks& blocks) {
  const auto order = blocks.backward();
  std::vector<u32> number(blocks.exit + 1, none), dominator(blocks.exit + 1, none);
  for (u32 i = 0; i < order.size(); ++i) number[order[i]] = i;
  dominator[blocks.exit] = blocks.exit;
  for (bool changed = true; changed;) {
    changed = false;
    for (auto b = order.rbegin(); b != order.rend(); ++b) {
      if (*b == blocks.exit) continue;
      u32 joined = none;
      for (u32 to : blocks.next[*b]) {
        if (number[to] == none || dominator[to] == none) continue;
        if (joined == none) joined = to;
        while (to != joined) {
          while (number[to] < number[joined]) to = dominator[to];
          while (number[joined] < number[to]) joined = dominator[joined];
        }
      }
      if (joined != dominator[*b]) dominator[*b] = joined, changed = true;
    }
  }
  return dominator;
}

}  // namespace

void find_meetings(Function& function) {
  Blocks blocks(function.code, true);
  auto dominator = dominators(blocks);
  if (dominator[0] == none) {  // there is no other way out
    blocks = Blocks(function.code, false);
    dominator = dominators(blocks);
  }
  for (u32 i = 0; i < function.code.size(); ++i) {
    if (!is_branch(function.code[i])) continue;
    const u32 meets = dominator[blocks.block_of[i]];
    function.code[i].meets = meets == none || meets == blocks.exit ? none : blocks.start[meets];
  }
}

}  // namespace emulated
