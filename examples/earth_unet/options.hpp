// What the user may say on the command line.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "grid.hpp"

namespace earth {

// automatic: a bar where standard error is a terminal, else lines
enum class ProgressStyle { automatic, bar, lines };

enum class Precision { single, doubled };  // --precision float, double

struct Options {
  int mesh_height = 0, mesh_width = 0;  // never 0 once parsed: their product is the number of ranks
  Grid grid{360, 720};
  int steps = 60;
  std::uint64_t seed = 0;
  Precision precision = Precision::single;
  double learning_rate = 5e-3;
  std::filesystem::path data;    // the folder of bmng.jpg, etopo1.jpg and globe_combined_mask_compressed.npz
  std::filesystem::path output;  // the folder for pictures and weights
  ProgressStyle progress = ProgressStyle::automatic;
  int members = 0;               // of an ensemble, where the program draws one
  std::size_t memory_limit = 0;  // bytes that a rank may hold, 0: any
};

// What differs between the programs that take these options. members "0": it draws no ensemble. doubles: it takes
// --precision. limits: and --memory-limit.
struct Program {
  const char* name = "earth_unet";
  const char* about = "Trains a U-Net to downscale the whole Earth, cut over a mesh of MPI ranks";
  const char* mesh = "rows x columns of ranks";
  const char *grid = "0.5", *steps = "60", *learning_rate = "5e-3", *members = "0";
  bool doubles = true, limits = true;
  bool draws() const { return members[0] != '0'; }
};

// Options to run with; or none, and then a text for one rank to print (the help, or one sentence about the first thing
// that is wrong: the value, the limit, and what to do) and the exit status (0 for --help).
struct CommandLine {
  std::optional<Options> options;
  std::string message;
  int exit_status = 0;
};

// Prints nothing and comes to the same result on every rank. Without --mesh, or with 0x0, the mesh of `ranks` ranks is
// the one nearest to a square that is no higher than wide, as the Earth's image is. Without --data it is
// $HALOGEN_DATA, else halogen/data in the user's cache ($XDG_CACHE_HOME, else ~/.cache).
CommandLine parse_command_line(int argc, const char* const* argv, int ranks, const Program& program = {});

// Makes `folder` if need be and tries that a file can be written in it; for the rank that will write. Throws
// std::runtime_error with a sentence that names the folder and the cause.
void prepare_output(const std::filesystem::path& folder);

}  // namespace earth
