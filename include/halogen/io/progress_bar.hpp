// A bar on standard error that tells how far a run is. hg::fit shows it; a loop of one's own can show it too:
//
//   if (hg::shows_progress(hg::Progress::automatic)) hg::show_progress(step, steps, "loss " + std::to_string(loss));
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>

#include "halogen/core/config.hpp"

namespace halogen {

enum class Progress { automatic, none, bar };  ///< automatic: a bar where standard error is a terminal

/// Local: whether a bar is shown.
inline bool shows_progress(Progress progress) {
  return progress == Progress::bar || (progress == Progress::automatic && isatty(STDERR_FILENO) != 0);
}

/// Local, for one rank: overwrites the bar's line. `done` of `all` (1 or more) steps are done; the words stand after
/// the bar. The line ends with the last step.
inline void show_progress(index_t done, index_t all, const std::string& words) {
  constexpr index_t cells = 24;
  const auto full = static_cast<std::size_t>(std::clamp<index_t>(cells * done / all, 0, cells));
  const std::string bar = std::string(full, '#') + std::string(static_cast<std::size_t>(cells) - full, '.');
  std::fprintf(stderr, "\r[%s] %s\x1b[K%s", bar.c_str(), words.c_str(), done >= all ? "\n" : "");
}

}  // namespace halogen
