// What a training step takes of memory: by the plan, and by what the process grows.
#pragma once

#include "protocol.hpp"

namespace bench {

/// MiB of a line of /proc/self/status, 0 where there is none.
inline double status_mib(const std::string& key) {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(key + ":")) return std::stod(line.substr(key.size() + 1)) / 1024;
  return 0;
}

/// MiB that the process holds, or has held at most: of the host, or of its device,
/// which gives nothing back in the course of steps.
inline double used_mib([[maybe_unused]] const std::string& of_host) {
#ifdef KOKKOS_ENABLE_CUDA
  std::size_t free = 0, total = 0;
  Kokkos::fence("bench::memory");
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) throw std::runtime_error("cudaMemGetInfo failed");
  return static_cast<double>(total - free) / (1 << 20);
#else
  return status_mib(of_host);
#endif
}

/// planned_mib: arena and exchange buffers; kept_mib: of it kept for backward; growth_mib: peak of the steps above what
/// the process held before the first (parameters, moments, image and label were there), the gradient's buffer excluded.
template <class Step, class Trainer, class Image>
void print_memory(const Options& options, const hg::Communicator& world, Step&& step, Trainer& trainer,
                  const Image& image) {
  constexpr double mib = 1 << 20;
  const double before = used_mib("VmRSS");
  std::ofstream("/proc/self/clear_refs") << 5;  // the peak starts anew
  for (int i = 0; i < options.steps; ++i) step();
  const double growth = used_mib("VmHWM") - before - static_cast<double>(trainer.parameter_memory().gradient) / mib;
  const hg::MemoryUse& memory = trainer.bind_step(image)->layout().memory();
  print_line(options, world,
             "\"planned_mib\": " + std::to_string(static_cast<double>(memory.total()) / mib) +
                 ", \"kept_mib\": " + std::to_string(static_cast<double>(memory.kept) / mib) +
                 ", \"growth_mib\": " + std::to_string(growth));
}

}  // namespace bench
