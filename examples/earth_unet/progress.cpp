#include "progress.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <string>

namespace earth {
namespace {

constexpr int bar_width = 24;

bool on_terminal() {
  winsize size{};
  return isatty(STDOUT_FILENO) && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0;
}

}  // namespace

Progress::Progress(int steps, ProgressStyle style)
    : steps_(steps),
      bar_(style == ProgressStyle::bar || (style == ProgressStyle::automatic && on_terminal())),
      ratio_(std::numeric_limits<double>::quiet_NaN()) {}

Progress::~Progress() {
  if (behind_bar_) std::printf("\n");
  std::fflush(stdout);
}

void Progress::show(int step, double loss, double held_out_ratio, double seconds_per_step) {
  if (!std::isnan(held_out_ratio)) ratio_ = held_out_ratio;
  if (!bar_ && step != 1 && step % 10 != 0 && step != steps_) return;

  char ratio[48] = "";
  if (!std::isnan(ratio_)) std::snprintf(ratio, sizeof ratio, "  held-out ratio %.3f", ratio_);
  char words[160];
  std::snprintf(words, sizeof words, "step %d/%d  loss %.4f%s  %.2f s/step", step, steps_, loss, ratio,
                seconds_per_step);
  if (bar_) {
    const int done = steps_ > 0 ? bar_width * step / steps_ : bar_width;
    const std::string bar =
        std::string(static_cast<std::size_t>(done), '#') + std::string(static_cast<std::size_t>(bar_width - done), '.');
    // Clears what a longer line left behind.
    std::printf("\r[%s] %s\x1b[K", bar.c_str(), words);
    behind_bar_ = step < steps_;
    if (!behind_bar_) std::printf("\n");
  } else {
    std::printf("%s\n", words);
  }
  std::fflush(stdout);
}

}  // namespace earth
