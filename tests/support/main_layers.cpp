// main of ./dev fuzz layers: drawn models against PyTorch's numbers, on every mesh of the ranks and drawn cuts.
//   fuzz_layers --data FOLDER [--seed S] [--model M] [--case C] [--each 1]
// --each: a line for every model too.
#define DOCTEST_CONFIG_IMPLEMENT  // headers of the tests use it
#include <cstdlib>
#include <cstring>

#include "seed.hpp"
#include "support/layer_cases.hpp"

int main(int argc, char** argv) {
  std::string data;
  int only = -1;
  support::CaseChoice choice;
  bool each = false;
  for (int i = 1; i + 1 < argc; i += 2) {
    if (std::strcmp(argv[i], "--data") == 0) data = argv[i + 1];
    if (std::strcmp(argv[i], "--seed") == 0) choice.seed = std::strtoull(argv[i + 1], nullptr, 10);
    if (std::strcmp(argv[i], "--model") == 0) only = std::atoi(argv[i + 1]);
    if (std::strcmp(argv[i], "--each") == 0) each = std::atoi(argv[i + 1]) != 0;
    if (std::strcmp(argv[i], "--case") == 0) choice.only = std::atoi(argv[i + 1]);
  }
  setenv("HALOGEN_TEST_DATA", data.c_str(), 1);
  const hg::Communicator world = support::world();
  support::CaseCounts all;
  auto models = support::DrawnModel::all();
  std::ranges::sort(models, {}, &support::DrawnModel::number);
  for (const support::DrawnModel* model : models) {
    if (only >= 0 && model->number != only) continue;
    const std::string name = "model" + std::to_string(model->number);
    support::CaseCounts counts;
    try {
      counts = model->run(name, support::Reference(name), choice);
    } catch (const std::exception& error) {
      ++counts.wrong;
      if (world.rank() == 0) std::printf("%s: %s\n", name.c_str(), error.what());
    }
    if (counts.wrong + counts.refused > 0 && world.rank() == 0)
      std::printf("  %s\n  again: ./dev fuzz layers --seed %llu --model %d --ranks %d\n", model->text, choice.seed,
                  model->number, world.size());
    if (each && world.rank() == 0)
      std::printf("%d: %ld right, %ld wrong, %ld refused\n", model->number, counts.right, counts.wrong, counts.refused);
    all.right += counts.right, all.wrong += counts.wrong;
    all.too_small += counts.too_small, all.refused += counts.refused;
  }
  if (world.rank() == 0)
    std::printf(
        "%d ranks, %d of %d models: %ld cases right, %ld wrong, %ld refused; %ld fields too small for their "
        "mesh\n",
        world.size(), only >= 0 ? 1 : static_cast<int>(models.size()), models_drawn, all.right, all.wrong, all.refused,
        all.too_small);
  return all.wrong + all.refused == 0 ? 0 : 1;
}
