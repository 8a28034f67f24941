// How this process was started.
#pragma once

#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace halogen::detail {

inline bool is_set(const char* variable) { return std::getenv(variable) != nullptr; }

/// Whether a launcher of parallel programs started this process. Without one MPI stays away, since a program that runs
/// alone should neither need nor pay for it. HALOGEN_TRANSPORT=mpi or self decides for launchers not known here.
inline bool launched_by_mpi() {
  if (const char* transport = std::getenv("HALOGEN_TRANSPORT")) return std::string_view(transport) != "self";
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMIX_RANK", "PMI_RANK", "PMI_SIZE", "PALS_RANKID",
                               "MPI_LOCALNRANKS", "MV2_COMM_WORLD_SIZE", "SLURM_PROCID"})
    if (is_set(variable)) return true;
  return false;
}

/// Whether the command line holds an argument that begins so.
inline bool has_argument(int argc, const char* const* argv, std::string_view beginning) {
  for (int i = 1; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with(beginning)) return true;
  return false;
}

/// Moves the arguments that are Kokkos' own out of the command line, behind the program's name and before a null: the
/// others, --help among them, are the program's.
inline std::vector<char*> take_kokkos_arguments(int& argc, char** argv) {
  static char program[] = "halogen";
  std::vector<char*> taken{argc > 0 ? argv[0] : program};
  int kept = std::min(argc, 1);
  for (int i = kept; i < argc; ++i)
    if (std::string_view(argv[i]).starts_with("--kokkos-"))
      taken.push_back(argv[i]);
    else
      argv[kept++] = argv[i];
  argc = kept;
  taken.push_back(nullptr);
  return taken;
}

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
