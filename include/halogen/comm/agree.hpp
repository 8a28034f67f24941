// Local faults made common: all ranks succeed, or all throw the same sentence.
#pragma once

#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>

#include "halogen/comm/communicator.hpp"
#include "halogen/core/config.hpp"

namespace halogen {

namespace detail {

/// Collective. `failed` and its sentence are this rank's; throws the lowest failing rank's sentence everywhere.
void agree_on(const Communicator& comm, bool failed, std::string sentence);
#if HALOGEN_BODIES
HALOGEN_INLINE void agree_on(const Communicator& comm, bool failed, std::string sentence) {
  int lowest = failed ? comm.rank() : comm.size();
  comm.all_reduce(&lowest, 1, ReduceOp::min);
  if (lowest == comm.size()) return;
  auto length = static_cast<std::int64_t>(sentence.size());
  comm.broadcast(&length, sizeof length, lowest);
  sentence.resize(static_cast<std::size_t>(length));
  comm.broadcast(sentence.data(), sentence.size(), lowest);
  throw CollectiveError(sentence);
}
#endif

/// Collective over a's ranks, unless both are handles to one mesh. Throws CollectiveError where two meshes of as many
/// ranks do not number the same ranks alike.
template <class A, class B>
void require_same_ranks(const A& a, const B& b, const std::string& what) {
  if constexpr (std::is_same_v<A, B>)
    if (a == b) return;
  agree_on(a.world(), a.rank() != b.rank(),
           what + ": the rank that is " + std::to_string(a.rank()) + " of one mesh is " + std::to_string(b.rank()) +
               " of the other: make both over communicators that number the ranks alike");
}

}  // namespace detail

/// Collective. Runs f() on every rank and returns its value (by value) where no rank failed; otherwise every rank
/// throws the same CollectiveError with the sentence of the lowest rank that did. What one rank alone can find out (a
/// file that it cannot read, a value that is not finite) thus ends all ranks in one clear way. f itself must not leave
/// a collective on `comm` half done: the others would wait in it.
///
///   auto piece = agree(env.world(), [&] { return read_piece(path, region); });
template <std::invocable F>
auto agree(const Communicator& comm, F&& f) {
  using Result = std::remove_cvref_t<std::invoke_result_t<F>>;
  using Kept = std::conditional_t<std::is_void_v<Result>, bool, Result>;
  std::optional<Kept> result;
  std::string sentence;
  try {
    if constexpr (std::is_void_v<Result>)
      std::invoke(std::forward<F>(f)), result = true;
    else
      result.emplace(std::invoke(std::forward<F>(f)));
  } catch (const std::exception& error) {
    sentence = error.what();
  } catch (...) {
    sentence = "an exception that is no std::exception";
  }
  detail::agree_on(comm, !result, std::move(sentence));
  if constexpr (!std::is_void_v<Result>) return std::move(*result);
}

}  // namespace halogen
