// The Fortran program's twin in C++, on one process: the same steps, the network by hg::infer. It compares its state
// with files that the Fortran program wrote on other numbers of ranks, bit by bit.
//
//   same_in_cpp FILE...
#include <cstdio>
#include <fstream>
#include <halogen/halogen.hpp>
#include <vector>

#include "model.hpp"
#include "steps.hpp"

State computed() {
  using Line = hg::Mesh<"rows">;
  using Field = hg::Sharded<hg::Tensor<float, 1, 3, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
  const auto parameters = hg::initial_parameters<Correction, float>(1);
  Field field(hg::device_mesh<Line>(hg::Communicator(), {1}), {1, 3, height, width});
  State state = first_state();
  for (int step = 1; step <= 40; ++step) {
    advance(state);
    if (step % 10 != 0) continue;
    field.copy_from_host(std::vector<float>(state.values.begin(), state.values.end()));
    const std::vector<float> change = hg::infer(parameters, field).to_host();
    for (std::size_t p = 0; p < change.size(); ++p) state.values[p] += static_cast<double>(change[p]);
  }
  return state;
}

int main(int argc, char** argv) {
  halogen::Environment env(argc, argv);
  const State state = computed();
  for (int f = 1; f < argc; ++f) {
    std::vector<double> read(state.values.size());
    std::ifstream file(argv[f], std::ios::binary);
    file.read(reinterpret_cast<char*>(read.data()), static_cast<std::streamsize>(read.size() * sizeof(double)));
    if (!file) throw hg::Error(std::string(argv[f]) + " holds no state of the Fortran program");
    std::size_t differ = 0;
    for (std::size_t p = 0; p < read.size(); ++p) differ += read[p] != state.values[p];
    if (differ > 0) throw hg::Error(std::string(argv[f]) + " differs in " + std::to_string(differ) + " values");
    std::printf("%s: the bits of the C++ program\n", argv[f]);
  }
}
