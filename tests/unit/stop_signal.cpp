// SIGTERM, caught: it is told, it ends nothing, and a handler that was there before is called.
#include <doctest/doctest.h>

#include <halogen/io/stop_signal.hpp>
#include <initializer_list>

namespace {

using halogen::detail::StopSignal;
int plain = 0, informed = 0;

struct sigaction action_of(void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  return action;
}
void count_plain(int) { ++plain; }
void count_informed(int signal, siginfo_t* about, void*) { informed += about->si_signo == signal; }

/// Installs an action for SIGTERM and checks what one signal does; `calls` of its handler.
void check(const struct sigaction& action, const int& calls) {
  const int before = calls;
  struct sigaction usual {};
  ::sigaction(SIGTERM, &action, &usual);
  {
    const StopSignal stop;
    CHECK_FALSE(stop.is_set());
    std::raise(SIGTERM);
    CHECK(stop.is_set());
    CHECK(calls == before + 1);
    {
      const StopSignal inner;
      CHECK_FALSE(inner.is_set());
      std::raise(SIGTERM);
      CHECK(inner.is_set());
      CHECK(calls == before + 2);
    }
    std::raise(SIGTERM);
    CHECK(calls == before + 3);
  }
  std::raise(SIGTERM);
  CHECK(calls == before + 4);
  ::sigaction(SIGTERM, &usual, nullptr);
}

}  // namespace

TEST_CASE("a handler that was there before is called, and is in its place again afterwards") {
  check(action_of(count_plain), plain);
  struct sigaction action {};
  action.sa_sigaction = count_informed;
  action.sa_flags = SA_SIGINFO;
  check(action, informed);
}

TEST_CASE("where none was there, or the signal was ignored, the process goes on") {
  for (void (*const handler)(int) : {SIG_DFL, SIG_IGN}) {
    const struct sigaction action = action_of(handler);
    struct sigaction usual {
    }, after{};
    ::sigaction(SIGTERM, &action, &usual);
    {
      const StopSignal stop;
      std::raise(SIGTERM);
      CHECK(stop.is_set());
    }
    ::sigaction(SIGTERM, &usual, &after);
    CHECK((after.sa_handler == handler));
  }
}
