// Whether a process has been told to end by SIGTERM, as batch systems do before they kill a job.
#pragma once

#include <csignal>

namespace halogen::detail {

/// While it lives SIGTERM does not end the process, but is_set() says that it came. A handler that the program had
/// installed before is called too; it is in its place again afterwards. Several may live at once: one thread makes
/// them, and the last goes first.
class StopSignal {
 public:
  StopSignal() {
    caught_ = 0;
    ::sigaction(SIGTERM, nullptr, &before_);
    if (!is_own(before_)) of_program_ = before_;  // before ours, which calls it
    struct sigaction action {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_RESTART | SA_SIGINFO;
    ::sigaction(SIGTERM, &action, nullptr);
  }
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  ~StopSignal() { ::sigaction(SIGTERM, &before_, nullptr); }
  bool is_set() const { return caught_ != 0; }

 private:
  static void handle(int signal, siginfo_t* about, void* context) {
    caught_ = 1;
    const struct sigaction& former = of_program_;
    if ((former.sa_flags & SA_SIGINFO) != 0)
      former.sa_sigaction(signal, about, context);
    else if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN)
      former.sa_handler(signal);
  }
  static bool is_own(const struct sigaction& action) {
    return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == handle;
  }

  inline static volatile std::sig_atomic_t caught_ = 0;
  inline static struct sigaction of_program_ {};
  struct sigaction before_ {};
};

}  // namespace halogen::detail
