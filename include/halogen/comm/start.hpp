// How this process was started.
#pragma once

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "halogen/comm/error.hpp"
#include "halogen/comm/node.hpp"
#include "halogen/core/config.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/core/settings.hpp"

namespace halogen::detail {

/// The number in an environment variable, or `otherwise` where it is not set; throws CollectiveError for what is none.
/// Its decimal sign is a point, whatever the locale is.
inline double number_of(const char* variable, double otherwise, double least, double most) {
  if (!is_set(variable)) return otherwise;
  const std::string text = variable_text(variable), fault = number_fault(variable, text, least, most);
  if (!fault.empty()) throw CollectiveError(fault);
  return *number_in(text);
}
/// The number of a setting, as set or as it holds where it is not set; throws CollectiveError for what is none.
inline double number_of(const Setting& setting) {
  const SettingValues& values = setting.values;
  return number_of(setting.name, values.otherwise, values.least, values.most);
}
inline std::chrono::milliseconds seconds_of(const Setting& setting) {
  return std::chrono::milliseconds(std::llround(1000 * number_of(setting)));
}
/// The text of a setting, empty where it is not set; throws CollectiveError for what it may not be.
inline std::string text_of(const Setting& setting) {
  std::string text = variable_text(setting.name);
  if (!is_set(setting.name)) return text;
  if (const std::string fault = fault_of(setting, text); !fault.empty()) throw CollectiveError(fault);
  return text;
}

/// HALOGEN_TRANSPORT as it stands there, also if it is refused later.
inline std::string asked_transport() { return variable_text(settings::transport.name); }

/// Whether a launcher of MPI programs started this process. Without one MPI stays away, since a program that runs alone
/// should neither need nor pay for it. HALOGEN_TRANSPORT=mpi or self decides for launchers not known here. What srun
/// always sets counts unless the ranks can meet otherwise: without one of the others MPI would find each rank alone.
bool launched_by_mpi(bool can_meet_otherwise);
#if HALOGEN_BODIES
HALOGEN_INLINE bool launched_by_mpi(bool can_meet_otherwise) {
  const std::string wanted = asked_transport();
  if (wanted == "self" || wanted == "mpi") return wanted == "mpi";
  if (is_set(settings::rendezvous.name)) return false;
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "PALS_RANKID",
                               "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE"})
    if (is_set(variable)) return true;
  return is_set("SLURM_PROCID") && !can_meet_otherwise;
}
#endif

/// This process among those that were started together, as its launcher tells without MPI.
struct Launched {
  int rank = 0;
  int size = 1;
};

/// RANK and WORLD_SIZE as torchrun sets them, else SLURM_PROCID and SLURM_NTASKS as srun does; else one process.
Launched launched_in_environment();
#if HALOGEN_BODIES
HALOGEN_INLINE Launched launched_in_environment() {
  for (const auto& [rank, size] : {std::pair{"RANK", "WORLD_SIZE"}, std::pair{"SLURM_PROCID", "SLURM_NTASKS"}}) {
    if (!is_set(rank) || !is_set(size)) continue;
    Launched launched;
    launched.size = static_cast<int>(number_of(size, 1, 1, 1e6));
    launched.rank = static_cast<int>(number_of(rank, 0, 0, launched.size - 1));
    return launched;
  }
  return {};
}
#endif

/// The first host of a Slurm list: "gpu[03-05,09],cpu1" -> "gpu03".
inline std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of(",[");
  std::string host = list.substr(0, end);
  if (end != std::string::npos && list[end] == '[')
    host += list.substr(end + 1, list.find_first_of(",-]", end + 1) - end - 1);
  return host;
}

/// Where processes meet: "file:PATH" or "tcp://HOST:PORT". Under torchrun its own store listens at MASTER_PORT, so we
/// take the next. Throws CollectiveError where nothing says.
std::string rendezvous_address(const Launched& launched);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string rendezvous_address(const Launched& launched) {
  if (std::string chosen = text_of(settings::rendezvous); !chosen.empty()) return chosen;
  if (is_set("MASTER_ADDR") && is_set("MASTER_PORT")) {
    const bool taken = variable_text("TORCHELASTIC_USE_AGENT_STORE") == "True";
    const int port = static_cast<int>(number_of("MASTER_PORT", 0, 1, 65534)) + (taken ? 1 : 0);
    return "tcp://" + variable_text("MASTER_ADDR") + ":" + std::to_string(port);
  }
  if (is_set("SLURM_STEP_NODELIST") && is_set("SLURM_JOB_ID")) {
    const auto job = static_cast<long long>(number_of("SLURM_JOB_ID", 0, 0, 1e15));
    const auto step = static_cast<long long>(number_of("SLURM_STEP_ID", 0, 0, 1e15));
    return "tcp://" + first_host(variable_text("SLURM_STEP_NODELIST")) + ":" +
           std::to_string(20000 + (job * 31 + step) % 12000);  // below those that systems give out
  }
  throw CollectiveError(std::to_string(launched.size) + " processes were started, but nothing says where they meet: " +
                        "set MASTER_ADDR and MASTER_PORT, or HALOGEN_RENDEZVOUS=file:/path or tcp://host:port");
}
#endif

/// Whether the command line holds an argument that begins so.
inline bool has_argument(int argc, const char* const* argv, std::string_view beginning) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with(beginning)) return true;
  return false;
}

/// Moves the arguments that are Kokkos' own out of the command line, behind the program's name and before a null: the
/// others, --help among them, are the program's.
std::vector<char*> take_kokkos_arguments(int& argc, char** argv);
#if HALOGEN_BODIES
HALOGEN_INLINE std::vector<char*> take_kokkos_arguments(int& argc, char** argv) {
  static char program[] = "halogen";
  std::vector<char*> taken{argc > 0 ? argv[0] : program};
  int kept = std::min(argc, 1);
  for (int i = kept; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with("--kokkos-"))
      taken.push_back(argv[i]);
    else
      argv[kept++] = argv[i];
  if (kept < argc) argv[kept] = nullptr;
  argc = kept;
  taken.push_back(nullptr);
  return taken;
}
#endif

/// What the user asks Kokkos for beyond most_threads, by variable or argument, is held to them.
void hold_threads(std::vector<char*>& kokkos_arguments);
#if HALOGEN_BODIES
HALOGEN_INLINE void hold_threads(std::vector<char*>& kokkos_arguments) {
  static char most[] = "--kokkos-num-threads=512";
  static_assert(most_threads == 512);
  std::string asked = variable_text("KOKKOS_NUM_THREADS");
  const auto asks = [&asked](const char* argument) {
    if (argument == nullptr) return false;
    const std::string_view text(argument);
    if (!text.starts_with("--kokkos-num-threads=") && !text.starts_with("--kokkos-threads=")) return false;
    asked = text.substr(text.find('=') + 1);
    return true;
  };
  const auto other = std::stable_partition(kokkos_arguments.begin(), kokkos_arguments.end() - 1,
                                           [&](const char* argument) { return !asks(argument); });
  if (number_in(asked).value_or(0) <= most_threads) return;
  kokkos_arguments.erase(other, kokkos_arguments.end() - 1);
  kokkos_arguments.insert(kokkos_arguments.end() - 1, most);
}
#endif

/// Sets an environment variable for the time being, unless the user has set it.
class TemporaryVariable {
 public:
  TemporaryVariable(const char* name, const std::string& value) : name_(name), ours_(!is_set(name)) {
    if (ours_) setenv(name, value.c_str(), 0);
  }
  TemporaryVariable(const TemporaryVariable&) = delete;
  TemporaryVariable& operator=(const TemporaryVariable&) = delete;
  ~TemporaryVariable() {
    if (ours_) unsetenv(name_);
  }

 private:
  const char* name_;
  bool ours_;
};

}  // namespace halogen::detail
