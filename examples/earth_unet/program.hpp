// What the programs on the Earth's data begin and end with.
#pragma once

#include <halogen/halogen.hpp>
#include <halogen/io/progress_bar.hpp>
#include <iostream>

#include "options.hpp"
#include "ranks.hpp"

namespace earth {

/// Sums and agreements over these ranks, which must outlive it.
inline Ranks ranks_of(const hg::Communicator& world) {
  return {[&world](std::span<double> sums) { world.all_reduce(sums.data(), sums.size()); },
          [&world](const std::function<void()>& action) { hg::agree(world, action); }};
}

inline hg::Progress progress_of(const Options& options) {
  return options.progress == ProgressStyle::bar     ? hg::Progress::bar
         : options.progress == ProgressStyle::lines ? hg::Progress::none
                                                    : hg::Progress::automatic;
}

/// A main(): reads the command line and calls run(env, options). Rank 0 says what is wrong, in one sentence.
template <class Run>
int run_program(int argc, char** argv, const Program& program, const Run& run) {
  hg::Environment env(argc, argv);
  const CommandLine command = parse_command_line(argc, argv, env.world().size(), program);
  if (!command.options) {
    if (env.is_root()) (command.exit_status == 0 ? std::cout : std::cerr) << command.message << std::endl;
    return command.exit_status;
  }
  try {
    run(env, *command.options);
    return 0;
  } catch (const hg::CollectiveError& error) {
    if (env.is_root()) std::cerr << "error: " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace earth
