// What agree() does where there is no communicator yet.
#pragma once

#include <array>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

namespace halogen::detail {

/// Collective: all_gather(own, bytes, all) is called once. The sentence of the lowest rank on which f() throws, the
/// same on all ranks, or nothing. Sentences are cut at 1 KiB.
template <class AllGather, class F>
std::string first_fault(int size, AllGather&& all_gather, F&& f) {
  using Sentence = std::array<char, 1024>;
  Sentence own{};
  try {
    f();
  } catch (const std::exception& error) {
    std::strncpy(own.data(), error.what(), own.size() - 1);
  }
  std::vector<Sentence> all(static_cast<std::size_t>(size));
  all_gather(&own, sizeof own, all.data());
  for (const Sentence& sentence : all)
    if (sentence[0] != 0) return sentence.data();
  return {};
}

}  // namespace halogen::detail
