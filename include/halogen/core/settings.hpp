// All environment variables of the library: their names, what they may be, what holds where they are not set, and what
// they do. docs/settings.md has the same tables (tests/house/settings.py). Only this header reads the environment. What
// is refused is thrown by comm/start.hpp.
#pragma once

#include <cstdlib>
#include <optional>
#include <string>
#include <string_view>

#include "halogen/core/number_text.hpp"

namespace halogen::detail {

/// What the value of a variable may be.
struct SettingValues {
  enum class Kind : signed char { number, seconds, word, path, address };
  Kind kind = Kind::path;
  double least = 0, most = 0, otherwise = 0;  ///< of numbers: the limits, and what holds where the variable is not set
  const char* words[3] = {};                  ///< the words that it may be

  static constexpr SettingValues number(double least, double most, double otherwise) {
    return {Kind::number, least, most, otherwise, {}};
  }
  static constexpr SettingValues seconds(double least, double otherwise) {
    return {Kind::seconds, least, 1e9, otherwise, {}};
  }
  static constexpr SettingValues word(const char* first, const char* second, const char* third = nullptr) {
    return {Kind::word, 0, 0, 0, {first, second, third}};
  }
  static constexpr SettingValues path() { return {}; }
  /// file:/path or tcp://host:port
  static constexpr SettingValues address() { return {Kind::address, 0, 0, 0, {}}; }
};

/// A variable of the library. otherwise: what holds where it is not set; empty for a number, which has it in `values`.
struct Setting {
  const char* name;
  SettingValues values;
  const char* otherwise;
  const char* does;
};

namespace settings {
inline constexpr Setting transport{"HALOGEN_TRANSPORT", SettingValues::word("self", "mpi", "nccl"),
                                   "on GPUs NCCL where all ranks can use it, else MPI",
                                   "what carries fields from rank to rank; self: one process, without MPI"};
inline constexpr Setting rendezvous{"HALOGEN_RENDEZVOUS", SettingValues::address(),
                                    "MASTER_ADDR and MASTER_PORT, else the first node of the Slurm job",
                                    "where processes meet that MPI has not started"};
inline constexpr Setting rendezvous_timeout{"HALOGEN_RENDEZVOUS_TIMEOUT", SettingValues::seconds(0.01, 300), "",
                                            "how long a process waits there for the others"};
inline constexpr Setting wait_warning{"HALOGEN_WAIT_WARNING", SettingValues::seconds(0, 60), "",
                                      "how long a rank waits in one place before it says so; 0: it never does"};
inline constexpr Setting timeout{"HALOGEN_TIMEOUT", SettingValues::seconds(0, 0), "",
                                 "how long a rank waits in one place before it ends all ranks; 0: it never does"};
inline constexpr Setting nccl_timeout{
    "HALOGEN_NCCL_TIMEOUT", SettingValues::seconds(0.01, 600), "",
    "the same for operations of NCCL; where it is not set, HALOGEN_TIMEOUT holds if that is above 0"};
inline constexpr Setting nccl_library{"HALOGEN_NCCL_LIBRARY", SettingValues::path(),
                                      "libnccl.so.2 of the loader, else that which CMake found",
                                      "the NCCL library that is opened"};
inline constexpr Setting nccl_windows{"HALOGEN_NCCL_WINDOWS", SettingValues::word("0", "1", "auto"), "0",
                                      "whether NCCL puts messages into windows of their receivers; auto: where it can"};
inline constexpr Setting nccl_window_mib{"HALOGEN_NCCL_WINDOW_MIB", SettingValues::number(1, 1048576, 256), "",
                                         "MiB of device memory for these windows, on each rank"};
inline constexpr Setting mpi_gpu_aware{"HALOGEN_MPI_GPU_AWARE", SettingValues::word("0", "1"),
                                       "what the MPI library says of itself",
                                       "whether MPI reads and writes device memory"};
inline constexpr Setting try_files{"HALOGEN_TRY_FILES", SettingValues::word("0", "1"), "1",
                                   "whether a child process first reads a netCDF or HDF5 file, which may be damaged"};
inline constexpr Setting as_on_device{"HALOGEN_AS_ON_DEVICE", SettingValues::word("0", "1"), "0",
                                      "whether a CPU build copies fields to and from files as a device's build does"};

inline constexpr const Setting* all[] = {&transport,       &rendezvous,    &rendezvous_timeout, &wait_warning,
                                         &timeout,         &nccl_timeout,  &nccl_library,       &nccl_windows,
                                         &nccl_window_mib, &mpi_gpu_aware, &try_files,          &as_on_device};
}  // namespace settings

/// A variable of others, and what the library does with it.
struct OtherVariable {
  const char *name, *use;
};
inline constexpr OtherVariable other_variables[] = {
    {"OMPI_COMM_WORLD_SIZE", "Open MPI's: started by MPI"},
    {"PMIX_RANK", "PMIx's: started by MPI"},
    {"PMI_RANK", "MPICH's: started by MPI"},
    {"PMI_SIZE", "MPICH's: started by MPI"},
    {"PALS_RANKID", "Cray's: started by MPI"},
    {"MPI_LOCALNRANKS", "MPICH's: started by MPI"},
    {"MV2_COMM_WORLD_SIZE", "MVAPICH's: started by MPI"},
    {"RANK", "torchrun's: number of this process"},
    {"WORLD_SIZE", "torchrun's: number of processes"},
    {"MASTER_ADDR", "torchrun's: host of the first process"},
    {"MASTER_PORT", "torchrun's: port at which processes meet"},
    {"TORCHELASTIC_USE_AGENT_STORE", "torchrun's: True if it listens at that port itself; then the next port is used"},
    {"SLURM_PROCID", "srun's: number of this process"},
    {"SLURM_NTASKS", "srun's: number of processes"},
    {"SLURM_STEP_NODELIST", "srun's: nodes, the first of which is where processes meet"},
    {"SLURM_JOB_ID", "Slurm's: a port is made of it"},
    {"SLURM_STEP_ID", "Slurm's: a port is made of it"},
    {"NCCL_MULTI_RANK_GPU_ENABLE", "NCCL's: 1 if ranks may share a GPU"},
    {"OMP_NUM_THREADS", "threads of a rank; unless set, its share of the node"},
    {"KOKKOS_NUM_THREADS", "threads of a rank; unless set, its share of the node"},
    {"KOKKOS_MAP_DEVICE_ID_BY", "how ranks find their devices; unless set, they go round the ranks of a node"},
    {"KOKKOS_DEVICE_ID", "set while Kokkos starts: the device of this rank"},
    {"KOKKOS_DISABLE_WARNINGS", "set while Kokkos starts: true if the node has more ranks than hardware threads"},
    {"OMP_PROC_BIND", "set while Kokkos starts: false, unless the user has set it"},
};

inline bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }
/// The text of a variable; empty where it is not set.
inline std::string variable_text(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? "" : text;
}

/// "NAME=5 is no number from 0 to 1", or nothing if the text is such a number. Its decimal sign is a point, whatever
/// the locale is.
inline std::string number_fault(const char* name, const std::string& text, double least, double most) {
  const std::optional<double> number = number_in(text);
  if (number && *number >= least && *number <= most) return {};
  return std::string(name) + "=" + text + " is no number from " + number_text(least) + " to " + number_text(most);
}

inline bool is_address(std::string_view text) {
  if (text.starts_with("file:")) return text.size() > 5;
  const std::size_t colon = text.rfind(':');
  return text.starts_with("tcp://") && colon > 6 && colon + 1 < text.size();
}

/// Why the text is no value of the setting, or nothing. An empty text is none, but for a number.
inline std::string fault_of(const Setting& setting, const std::string& text) {
  using Kind = SettingValues::Kind;
  const SettingValues& values = setting.values;
  if (values.kind == Kind::number || values.kind == Kind::seconds)
    return number_fault(setting.name, text, values.least, values.most);
  if (text.empty() || values.kind == Kind::path) return {};
  const std::string begins = std::string(setting.name) + "=" + text + " is ";
  if (values.kind == Kind::address) return is_address(text) ? "" : begins + "neither file:/path nor tcp://host:port";
  for (const char* word : values.words)
    if (word != nullptr && text == word) return {};
  const auto& [first, second, third] = values.words;
  if (third == nullptr) return begins + "neither " + first + " nor " + second;
  return begins + "none of " + first + ", " + second + " and " + third;
}

}  // namespace halogen::detail
