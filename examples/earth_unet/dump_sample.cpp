// Writes the whole Earth's sample as raw floats, for reference_torch.py:  dump_sample DATA GRID FILE
//
// float32 in the machine's byte order: input (7), label (3), weight (1), truth (3), baseline (3), each channel by
// channel, row by row; then sigma (3 numbers).
#include <cstdio>
#include <exception>
#include <fstream>
#include <span>
#include <stdexcept>

#include "sample.hpp"

int main(int argc, char** argv) try {
  if (argc != 4) throw std::invalid_argument("usage: dump_sample DATA GRID FILE");
  const earth::Grid grid = earth::parse_grid(argv[2]);
  const earth::Sample sample = earth::load_sample(argv[1], grid, earth::whole(grid), earth::Ranks{});
  std::ofstream file(argv[3], std::ios::binary);
  const auto write = [&file](std::span<const float> values) {
    file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size_bytes()));
  };
  for (const auto* planes : {&sample.input, &sample.label, &sample.weight, &sample.truth, &sample.baseline})
    write(planes->values);
  write(sample.sigma);
  file.close();
  if (!file) throw std::runtime_error("cannot write " + std::string(argv[3]));
  return 0;
} catch (const std::exception& error) {
  std::fprintf(stderr, "dump_sample: %s\n", error.what());
  return 1;
}
