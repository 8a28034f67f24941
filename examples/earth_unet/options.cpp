#include "options.hpp"

#include <CLI/CLI.hpp>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <stdexcept>
#include <system_error>

#include "command_line_words.hpp"

namespace earth {
namespace {

// The whole of `text` as a number, or nothing.
template <class Number>
std::optional<Number> number(const std::string& text) {
  Number value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value);
  if (error != std::errc{} || stop != end) return {};
  return value;
}

std::string mesh_name(int height, int width) { return std::to_string(height) + "x" + std::to_string(width); }

// The mesh nearest to a square, no higher than wide.
void choose_mesh(int ranks, int& height, int& width) {
  height = 1;
  for (int h = 1; h * h <= ranks; ++h)
    if (ranks % h == 0) height = h;
  width = ranks / height;
}

void read_mesh(const std::string& text, int ranks, Options& options) {
  const auto cross = text.find('x');
  const int height = number<int>(text.substr(0, cross)).value_or(-1);
  const int width = cross == std::string::npos ? -1 : number<int>(text.substr(cross + 1)).value_or(-1);
  int fit_height = 1, fit_width = 1;
  choose_mesh(ranks, fit_height, fit_width);
  const std::string fit = mesh_name(fit_height, fit_width);
  if (height < 0 || width < 0 || (height == 0) != (width == 0))
    throw std::invalid_argument("--mesh " + text + " is no mesh: give rows x columns of ranks, such as " + fit +
                                ", or 0x0 to have it chosen");
  options.mesh_height = height == 0 ? fit_height : height;
  options.mesh_width = height == 0 ? fit_width : width;
  const std::int64_t needed = std::int64_t{options.mesh_height} * options.mesh_width;
  if (needed != ranks)
    throw std::invalid_argument("--mesh " + text + " needs " + std::to_string(needed) +
                                (needed == 1 ? " rank" : " ranks") + " and " + std::to_string(ranks) +
                                (ranks == 1 ? " is" : " are") + " running: start mpirun -np " + std::to_string(needed) +
                                ", or give --mesh " + fit);
}

int read_steps(const std::string& text) {
  const auto steps = number<int>(text);
  if (!steps || *steps < 1)
    throw std::invalid_argument("--steps " + text + " is no number of steps: give a whole number from 1 to " +
                                std::to_string(std::numeric_limits<int>::max()));
  return *steps;
}

int read_members(const std::string& text) {
  const auto members = number<int>(text);
  if (!members || *members < 2) throw std::invalid_argument("--members " + text + " is no ensemble: give 2 or more");
  return *members;
}

std::uint64_t read_seed(const std::string& text) {
  const auto seed = number<std::uint64_t>(text);
  if (!seed)
    throw std::invalid_argument("--seed " + text + " is no seed: give a whole number from 0 to " +
                                std::to_string(std::numeric_limits<std::uint64_t>::max()));
  return *seed;
}

std::size_t read_memory_limit(const std::string& text) {
  if (text == "0") return 0;
  std::string digits = text;
  double unit = 0;
  for (const auto& [name, bytes] : {std::pair{"MiB", 1048576.}, std::pair{"GiB", 1073741824.}})
    if (text.ends_with(name)) digits = text.substr(0, text.size() - 3), unit = bytes;
  while (digits.ends_with(' ')) digits.pop_back();
  const auto value = number<double>(digits);
  if (unit == 0 || !value || !(*value > 0) || !(*value * unit < 1e18))
    throw std::invalid_argument("--memory-limit " + text +
                                " is no memory: give a number with MiB or GiB, such as 512MiB");
  return static_cast<std::size_t>(*value * unit);
}

double read_learning_rate(const std::string& text) {
  const auto rate = number<double>(text);
  if (!rate || !(*rate > 0) || !std::isfinite(*rate))
    throw std::invalid_argument("--learning-rate " + text +
                                " is no learning rate: give a number above 0, such as 5e-3");
  return *rate;
}

Precision read_precision(const std::string& text) {
  if (text == "float") return Precision::single;
  if (text == "double") return Precision::doubled;
  throw std::invalid_argument("--precision " + text + " is not known: choose float or double");
}

ProgressStyle read_progress(const std::string& text) {
  if (text == "auto") return ProgressStyle::automatic;
  if (text == "bar") return ProgressStyle::bar;
  if (text == "lines") return ProgressStyle::lines;
  throw std::invalid_argument("--progress " + text + " is not known: choose auto, bar or lines");
}

std::string default_data() {
  if (const char* data = std::getenv("HALOGEN_DATA")) return data;
  if (const char* cache = std::getenv("XDG_CACHE_HOME"); cache && *cache) return std::string(cache) + "/halogen/data";
  const char* home = std::getenv("HOME");
  return std::string(home ? home : ".") + "/.cache/halogen/data";
}

}  // namespace

CommandLine parse_command_line(int argc, const char* const* argv, int ranks, const Program& program) {
  // Taken as text and read below, so that every refusal is a sentence of ours.
  std::string mesh = "0x0", grid = program.grid, steps = program.steps, seed = "0", precision = "float",
              rate = program.learning_rate, members = program.members, limit = "0";
  std::string data = default_data(), output = std::string(program.name) + "_output", progress = "auto";
  CLI::App app(program.about, program.name);
  const auto add = [&app](const char* name, std::string& value, const std::string& words, const char* type) {
    app.add_option(name, value, words)->capture_default_str()->type_name(type);
  };
  add("--mesh", mesh, program.mesh + std::string("; 0x0: chosen, nearly square"), "HxW");
  add("--grid", grid, "spacing in degrees: 2, 1, 0.5, 0.25, 0.1, or full for 2700 x 5400", "DEGREES");
  add("--steps", steps, "steps of the optimiser", "N");
  add("--seed", seed, program.draws() ? "of the initial weights and the noise" : "of the initial weights", "N");
  if (program.draws()) add("--members", members, "of the ensemble", "N");
  if (program.doubles) add("--precision", precision, "float or double", "TYPE");
  if (program.limits) add("--memory-limit", limit, "that a rank may hold, such as 512MiB or 2GiB; 0: any", "BYTES");
  add("--learning-rate", rate, "of AdamW", "RATE");
  add("--data", data, "folder of bmng.jpg, etopo1.jpg and globe_combined_mask_compressed.npz", "DIR");
  add("--output", output, "folder for pictures and weights", "DIR");
  add("--progress", progress, "auto, bar or lines", "STYLE");
  try {
    app.parse(argc, argv);
    Options options;
    read_mesh(mesh, ranks, options);
    options.grid = parse_grid(grid);
    options.steps = read_steps(steps);
    options.seed = read_seed(seed);
    options.precision = read_precision(precision);
    options.learning_rate = read_learning_rate(rate);
    options.memory_limit = read_memory_limit(limit);
    options.data = data;
    options.output = output;
    options.progress = read_progress(progress);
    if (program.draws()) options.members = read_members(members);
    return {options, "", 0};
  } catch (const CLI::CallForHelp&) {
    return {{}, app.help(), 0};
  } catch (const CLI::ParseError& error) {
    return {{}, program.name + std::string(": ") + words_of(app, error), 2};
  } catch (const std::invalid_argument& error) {
    return {{}, program.name + std::string(": ") + error.what(), 2};
  }
}

void prepare_output(const std::filesystem::path& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error)
    throw std::runtime_error("cannot make the output folder " + folder.string() +
                             ": a part of its path is a file or may not be written; choose another with --output");
  const std::filesystem::path trial = folder / ".writable";
  std::ofstream(trial) << "x";
  const bool written = std::filesystem::file_size(trial, error) == 1 && !error;
  std::filesystem::remove(trial, error);
  if (!written)
    throw std::runtime_error("cannot write in the output folder " + folder.string() +
                             "; choose another with --output, or change its permissions");
}

}  // namespace earth
