// main of the random programs: draws cases, runs them, makes what fails smaller and prints the line that shows it
// again.
//   random_programs [--cases N, 16 of each program] [--program P] [--case C] [--extents AxB...] [--verbose]
// timeout: 600
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <halogen/comm/environment.hpp>
#include <string>

#include "seed.hpp"
#include "support/random_program.hpp"

namespace {

using namespace support;

/// Extents that break things: 1, fewer than ranks, primes; few points in all.
Case drawn_case(const Program& program, long number, int ranks) {
  Case one;
  one.salt = program_seed * 1000003ull + static_cast<unsigned long long>(program.number) * 1000000007ull +
             static_cast<unsigned long long>(number) * 64 + static_cast<unsigned long long>(ranks);
  static constexpr index_t sizes[] = {1, 2, 3, 4, 5, 5, 6, 7, 8, 9, 11, 13, 17, 24};
  index_t points = 1;
  for (int d = 0; d < program.rank; ++d) {
    const auto i = static_cast<unsigned long long>(d);
    index_t size = sizes[drawn_below(14, one.salt, 40, i)];
    if (program.periodic && size < 5 && drawn(one.salt, 41, i) < 0.8)
      size += 6;  // a halo as wide as the field is refused
    one.extents[static_cast<std::size_t>(d)] = size = std::max<index_t>(1, std::min<index_t>(size, 900 / points));
    points *= size;
  }
  return one;
}

std::string text_of(const Program& program, const Sizes& extents) {
  std::string text;
  for (int d = 0; d < program.rank; ++d) text += (d ? "x" : "") + std::to_string(extents[static_cast<std::size_t>(d)]);
  return text;
}

/// Collective: the verdict of all ranks is the worst one.
Verdict run(const hg::Communicator& world, const Program& program, const Case& one) {
  Verdict verdict = program.run(world, one);
  // A stage of a slice has the slice's cuts, beside which a field of other cuts is refused: on one rank nothing is cut.
  if (verdict.what.find("refused with \"operands of one expression are cut differently") == 0)
    verdict.outcome = Outcome::far;
  auto worst = static_cast<std::int64_t>(verdict.outcome);
  world.all_reduce(&worst, 1, hg::ReduceOp::max);
  verdict.outcome = static_cast<Outcome>(worst);
  return verdict;
}

/// The smallest extents found that still fail.
Case smaller(const hg::Communicator& world, const Program& program, Case one) {
  for (bool again = true; again;) {
    again = false;
    for (int d = 0; d < program.rank; ++d)
      for (index_t size = 1; size < one.extents[static_cast<std::size_t>(d)]; ++size) {
        Case other = one;
        other.extents[static_cast<std::size_t>(d)] = size;
        if (run(world, program, other).outcome != Outcome::differs) continue;
        one = other;
        again = true;
        break;
      }
  }
  return one;
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment environment(argc, argv);
  const hg::Communicator world = environment.world();
  long cases = -1, only_case = -1;
  int only_program = -1;
  bool verbose = false;
  std::string extents;
  for (int i = 1; i < argc; ++i) {
    const auto value = [&] { return i + 1 < argc ? argv[++i] : ""; };
    if (!std::strcmp(argv[i], "--cases")) cases = std::atol(value());
    if (!std::strcmp(argv[i], "--case")) only_case = std::atol(value());
    if (!std::strcmp(argv[i], "--program")) only_program = std::atoi(value());
    if (!std::strcmp(argv[i], "--extents")) extents = value();
    if (!std::strcmp(argv[i], "--verbose")) verbose = true;
  }
  auto all = programs();
  std::sort(all.begin(), all.end(), [](const Program& a, const Program& b) { return a.number < b.number; });
  if (only_program >= 0) std::erase_if(all, [&](const Program& p) { return p.number != only_program; });
  if (all.empty()) return std::fprintf(stderr, "there is no program %d\n", only_program), 2;
  if (cases < 0) cases = 16 * static_cast<long>(all.size());
  const bool speaks = world.rank() == 0;
  if (speaks)
    std::printf("random programs: seed %llu, %zu programs, %ld cases on %d ranks\n", program_seed, all.size(),
                only_case < 0 ? cases : 1, world.size());

  long count[4] = {};
  int failures = 0;
  for (long n = 0; n < (only_case < 0 ? cases : 1); ++n) {
    const Program& program = all[static_cast<std::size_t>(n) % all.size()];
    const long number = only_case < 0 ? n / static_cast<long>(all.size()) : only_case;
    Case one = drawn_case(program, number, world.size());
    if (!extents.empty()) {
      char* at = extents.data();
      for (int d = 0; d < program.rank; ++d, ++at) one.extents[static_cast<std::size_t>(d)] = std::strtol(at, &at, 10);
    }
    if (verbose && speaks)
      std::printf("program %d case %ld %s: %s\n", program.number, number, text_of(program, one.extents).c_str(),
                  program.text),
          std::fflush(stdout);
    const Verdict verdict = run(world, program, one);
    ++count[static_cast<int>(verdict.outcome)];
    if (verbose && speaks && !verdict.what.empty()) std::printf("  %s\n", verdict.what.c_str());
    if (verdict.outcome != Outcome::differs) continue;
    if (extents.empty()) one = smaller(world, program, one);
    const Verdict small = run(world, program, one);
    if (speaks)
      std::printf("./dev fuzz --seed %llu --program %d --case %ld --extents %s --ranks %d   # %s\n", program_seed,
                  program.number, number, text_of(program, one.extents).c_str(), world.size(), program.text);
    std::fflush(stdout);
    world.barrier();
    if (!small.what.empty()) std::printf("  rank %d: %s\n", world.rank(), small.what.c_str());
    std::fflush(stdout);
    world.barrier();
    if (++failures == 5) break;
  }
  if (speaks)
    std::printf("%ld equal, %ld refused alike, %ld cuts too far apart, %ld differ\n", count[0], count[1], count[2],
                count[3]);
  // A run that refuses much proves little.
  return failures > 0 || (only_case < 0 && cases >= 100 && 10 * count[0] < 8 * cases);
}
