// Training of the examples that use hg::fit: a bar on a terminal, else a line now and then, and a file of the losses.
#pragma once

#include <algorithm>
#include <halogen/halogen.hpp>
#include <halogen/io/fit.hpp>
#include <iostream>
#include <string>

#include "program.hpp"

namespace earth {

/// Epochs of so many steps each, told of by the rank that is root.
inline hg::FitOptions fit_options(const Options& options, const std::string& name, hg::index_t epochs,
                                  hg::index_t steps, bool root) {
  hg::FitOptions fit{
      .epochs = epochs, .metrics = options.output / (name + "_loss.jsonl"), .progress = progress_of(options)};
  fit.after_epoch = [=](const hg::EpochReport& report) {
    if (root && (report.epoch % 5 == 0 || report.epoch == epochs))
      std::cout << name << ": step " << report.step << " of " << steps * epochs << ", loss " << report.loss << ", "
                << report.samples_per_second << " maps/s" << std::endl;
    return true;
  };
  return fit;
}

/// So many steps by mean squares; make(i) returns a batch.
template <class Trainer, class Make>
void train(Trainer& trainer, const Options& options, const char* name, int all, const Make& make) {
  const hg::index_t steps = std::min(all, 20), epochs = (all + steps - 1) / steps;
  hg::fit(trainer, hg::mse, hg::batches(steps, make),
          fit_options(options, name, epochs, steps, trainer.mesh().world().rank() == 0));
}

}  // namespace earth
