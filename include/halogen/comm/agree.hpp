// Local faults made common: all ranks succeed, or all throw the same sentence.
#pragma once

#include <concepts>
#include <cstdint>
#include <exception>
#include <functional>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "halogen/comm/communicator.hpp"
#include "halogen/core/config.hpp"

namespace halogen {

namespace detail {

/// Collective. Throws the sentence of rank `lowest` on all ranks.
[[noreturn]] void throw_sentence_of(const Communicator& comm, int lowest, std::string sentence);
/// Collective. `failed` and its sentence are this rank's; throws the lowest failing rank's sentence everywhere.
void agree_on(const Communicator& comm, bool failed, std::string sentence);
#if HALOGEN_BODIES
HALOGEN_INLINE void agree_on(const Communicator& comm, bool failed, std::string sentence) {
  int lowest = failed ? comm.rank() : comm.size();
  comm.all_reduce(&lowest, 1, ReduceOp::min);
  if (lowest < comm.size()) throw_sentence_of(comm, lowest, std::move(sentence));
}
HALOGEN_INLINE void throw_sentence_of(const Communicator& comm, int lowest, std::string sentence) {
  auto length = static_cast<std::int64_t>(sentence.size());
  comm.broadcast(&length, sizeof length, lowest);
  sentence.resize(static_cast<std::size_t>(length));
  comm.broadcast(sentence.data(), sentence.size(), lowest);
  throw CollectiveError(sentence);
}
#endif

/// What an exception says.
inline std::string sentence_of(const std::exception_ptr& thrown) {
  try {
    std::rethrow_exception(thrown);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

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
  std::exception_ptr thrown;
  try {
    if constexpr (std::is_void_v<Result>)
      std::invoke(std::forward<F>(f)), result = true;
    else
      result.emplace(std::invoke(std::forward<F>(f)));
  } catch (...) {
    thrown = std::current_exception();
  }
  detail::agree_on(comm, !result, thrown ? detail::sentence_of(thrown) : "");
  if constexpr (!std::is_void_v<Result>) return std::move(*result);
}

/// Collective, one all_reduce of three numbers. Runs f() on every rank; true where it returns true on all of them.
/// Where it throws on all ranks, each throws what its own f threw; where on some, all throw the CollectiveError that
/// agree does.
template <std::predicate F>
bool all_agree(const Communicator& comm, F&& f) {
  std::exception_ptr thrown;
  bool own = false;
  try {
    own = std::invoke(std::forward<F>(f));
  } catch (...) {
    thrown = std::current_exception();
  }
  int least[3] = {thrown ? comm.rank() : comm.size(), thrown ? 1 : 0, own ? 1 : 0};
  comm.all_reduce(least, 3, ReduceOp::min);
  if (least[1] != 0) std::rethrow_exception(thrown);
  if (least[0] < comm.size()) detail::throw_sentence_of(comm, least[0], thrown ? detail::sentence_of(thrown) : "");
  return least[2] != 0;
}

}  // namespace halogen
