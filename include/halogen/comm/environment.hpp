// Start and end of a program: transport, execution space, threads and device per rank, and the last words.
#pragma once

#include <Kokkos_Core.hpp>

#ifdef KOKKOS_ENABLE_OPENMP
#include <omp.h>
#endif

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "halogen/comm/communicator.hpp"
#include "halogen/comm/device.hpp"
#include "halogen/comm/first_fault.hpp"
#include "halogen/comm/node.hpp"
#include "halogen/comm/rendezvous/meet.hpp"
#include "halogen/comm/start.hpp"
#include "halogen/comm/terminate.hpp"
#include "halogen/core/config.hpp"

#ifdef HALOGEN_WITH_MPI
#include "halogen/comm/mpi/from_mpi.hpp"
#endif
#ifdef HALOGEN_WITH_NCCL
#include "halogen/comm/nccl/start.hpp"
#endif

namespace halogen {
namespace detail {

/// That of the outermost Environment, for those inside it.
inline const Communicator* outer_world = nullptr;

/// HALOGEN_WAIT_WARNING and HALOGEN_TIMEOUT. What is no number is refused when the ranks have found each other.
inline void begin_patience() {
  try {
    set_patience(seconds_of(settings::wait_warning), seconds_of(settings::timeout));
  } catch (const CollectiveError&) {
    set_patience(std::chrono::seconds(60), std::chrono::seconds(0));
  }
}

}  // namespace detail

/// First object of main. Finds the other ranks: by MPI (where built in and launched by it), else for NCCL by what
/// torchrun or srun set (rendezvous/meet.hpp). Initialises MPI and Kokkos unless they already are, and finalises only
/// what it initialised. Fields travel over NCCL where the program has it, runs on GPUs, and all ranks can use it, else
/// over MPI; HALOGEN_TRANSPORT=self|mpi|nccl decides otherwise, and what is then impossible is a CollectiveError.
/// HALOGEN_NCCL_WINDOWS=1 lets NCCL put halos into windows of their receivers (docs/gpu.md).
/// Threads per rank are this rank's share of the node's hardware threads, devices go round the ranks of a node, unless
/// the user said otherwise: OMP_NUM_THREADS, KOKKOS_NUM_THREADS, KOKKOS_DEVICE_ID or --kokkos-... on the command line.
/// Throws CollectiveError where this build needs a GPU and a rank finds none, or one of an architecture that it was not
/// built for. While it lives, an exception that nobody catches ends all ranks (terminate.hpp). One inside another
/// shares its ranks. Fields, parameters and trainers may outlive it, as global variables do, but not be used then:
/// their memory ends with the process.
///
///   int main(int argc, char** argv) { halogen::Environment env(argc, argv); ... }
///
/// Where only a part of MPI's ranks runs Halogen (beside servers of output, or other models), the program initialises
/// MPI itself and gives the communicator of that part (docs/embedding.md). MPI stays the program's, which finalises it.
///
///   halogen::Environment env(ocean_comm);
class Environment {
 public:
  Environment(int& argc, char** argv);
  /// For libraries and tests within a program that may or may not have one already.
  Environment() : Environment(no_arguments_, nullptr) {}
#ifdef HALOGEN_WITH_MPI
  /// The ranks of `comm`, collective over them; it is duplicated and stays the caller's. Throws Error where MPI does
  /// not run, or `comm` has no ranks or two groups of them.
  Environment(MPI_Comm comm, int& argc, char** argv);
  explicit Environment(MPI_Comm comm) : Environment(comm, no_arguments_, nullptr) {}
#endif
  Environment(const Environment&) = delete;
  Environment& operator=(const Environment&) = delete;

  /// Waits for the other ranks to arrive here as well. During an exception they are given 5 s, then all are ended: when
  /// main ends, in 5 s more at the latest, so that whoever catches the exception outside can say what it was.
  ~Environment();

  const Communicator& world() const { return world_; }
  bool is_root() const { return world_.rank() == 0; }

  /// The start-up line: transport, ranks, execution space, threads of this rank, memory space, windows and device.
  const std::string& describe() const { return text_; }

 private:
  using Space = Kokkos::DefaultExecutionSpace;
#ifdef HALOGEN_WITH_NCCL
  static constexpr bool with_nccl = true;
#else
  static constexpr bool with_nccl = false;
#endif

  /// Over MPI, or at a rendezvous; else there is one.
  void find_ranks([[maybe_unused]] int& argc, [[maybe_unused]] char**& argv);
#ifdef HALOGEN_WITH_MPI
  void take_ranks(MPI_Comm comm);
#endif

  /// All that follows once the ranks are known.
  void start(int& argc, char** argv);

  /// Throws where a variable asks for what cannot be had. The ranks are found by then, so that all end alike.
  void check_variables() const;

  /// Calls use(rank, size, all_gather), where all_gather reaches all ranks whether or not there is a transport yet.
  template <class Use>
  void all_gather(Use&& use);

  void choose_nccl();

  std::string why_others_are_missing() const;

  /// What we choose goes through Kokkos' own variables, set only for the time of the call, so that each of the user's
  /// choices, by variable or argument, wins over ours. OMP_PROC_BIND=false is what libgomp does by default; saying so
  /// stops Kokkos from recommending a binding, which would put all ranks of a node on the same core.
  void start_kokkos(int& argc, char** argv, const detail::NodeShare& node);

  inline static int no_arguments_ = 0;
  std::unique_ptr<detail::Rendezvous> meeting_;  // where there is no MPI
  Communicator world_;
  std::string text_;
  std::terminate_handler previous_ = nullptr;
  detail::Unwinding unwinding_;
  bool owns_mpi_ = false;
  bool owns_all_ranks_ = false;
  bool is_outermost_ = false;
  bool owns_kokkos_ = false;
};

template <class Use>
void Environment::all_gather(Use&& use) {
  if (meeting_)
    return use(meeting_->rank(), meeting_->size(),
               [this](const void* own, std::size_t bytes, void* all) { meeting_->all_gather(own, bytes, all); });
  use(world_.rank(), world_.size(),
      [this](const void* own, std::size_t bytes, void* all) { world_.all_gather(own, bytes, all); });
}

#if HALOGEN_BODIES
HALOGEN_INLINE Environment::Environment(int& argc, char** argv) {
  previous_ = std::set_terminate(detail::terminate_all_ranks);
  detail::begin_patience();
  find_ranks(argc, argv);
  start(argc, argv);
}

#ifdef HALOGEN_WITH_MPI
HALOGEN_INLINE Environment::Environment(MPI_Comm comm, int& argc, char** argv) {
  previous_ = std::set_terminate(detail::terminate_all_ranks);
  detail::begin_patience();
  take_ranks(comm);
  start(argc, argv);
}
#endif

HALOGEN_INLINE void Environment::start(int& argc, char** argv) {
  all_gather([this](int, int size, auto&& gather) {
    const std::string fault = detail::first_fault(size, gather, [this] { check_variables(); });
    if (!fault.empty()) throw CollectiveError(fault);
  });
  detail::NodeShare node;
  all_gather([&](int rank, int size, auto&& gather) { node = detail::share_of_node(rank, size, gather); });
  if (node.oversubscribed) detail::patient_polls = 0;
  start_kokkos(argc, argv, node);
  choose_nccl();
  text_ = "halogen: transport=" + std::string(world_.transport_name()) + " ranks=" + std::to_string(world_.size()) +
          " (" + std::to_string(node.ranks) + " on this node)" + " execution_space=" + Space::name() +
          " threads=" + std::to_string(Kokkos::num_threads()) + " memory_space=" + Space::memory_space::name();
  if (const std::size_t bytes = world_.message_memory_bytes(); bytes > 0)
    text_ += " nccl_windows=" + std::to_string(bytes >> 20) + "MiB";
  if (Kokkos::num_devices() > 0) text_ += " device=" + std::to_string(Kokkos::device_id());
  is_outermost_ = detail::outer_world == nullptr;
  if (is_outermost_) detail::outer_world = &world_;
}

HALOGEN_INLINE Environment::~Environment() {
  if (owns_mpi_ || meeting_ || (owns_all_ranks_ && unwinding_)) {
    using namespace std::chrono_literals;
    if (!detail::all_ranks_arrive(unwinding_ ? std::optional(5000ms) : std::nullopt)) {
      detail::say("error on " + detail::self_name() + ": " + why_others_are_missing());
      if (!unwinding_) detail::leave(false);
      new Communicator(world_);  // its end would wait for the others
      detail::leave_soon();
      return;
    }
  }
  if (is_outermost_) detail::outer_world = nullptr;
  if (owns_all_ranks_) {
    detail::launched_rank = detail::all_ranks->rank();
    detail::all_ranks.reset();
  }
  world_ = Communicator();
  if (owns_kokkos_) Kokkos::finalize();
  std::set_terminate(previous_);
#ifdef HALOGEN_WITH_MPI
  if (owns_mpi_) detail::has_mpi = false, MPI_Finalize();
#endif
}

HALOGEN_INLINE void Environment::find_ranks([[maybe_unused]] int& argc, [[maybe_unused]] char**& argv) {
  const std::string wanted = detail::asked_transport();
  [[maybe_unused]] const bool can_meet = with_nccl && (wanted == "nccl" || (wanted.empty() && detail::has_stream));
#ifndef HALOGEN_WITH_MPI
  if (wanted == "mpi")
    throw CollectiveError(
        "HALOGEN_TRANSPORT=mpi, but this program was built without MPI: link halogen::mpi, and configure "
        "Halogen with -DHALOGEN_ENABLE_MPI=ON");
#endif
  if (detail::outer_world != nullptr) {
    world_ = detail::outer_world->split(0, detail::outer_world->rank(), "world");
    return;
  }
#ifdef HALOGEN_WITH_MPI
  int initialized = 0;
  detail::check_mpi(MPI_Initialized(&initialized), "MPI_Initialized", "world");
  int finalized = 0;
  detail::check_mpi(MPI_Finalized(&finalized), "MPI_Finalized", "world");
  if (finalized)
    throw CollectiveError(
        "MPI has been finalized and cannot start again in this process: make one Environment for "
        "the whole program, in main");
  if (!initialized && detail::launched_by_mpi(can_meet)) {
    int provided = 0;  // MPI calls come from one thread only, so that even less than asked for will do
    detail::check_mpi(MPI_Init_thread(&argc, &argv, MPI_THREAD_FUNNELED, &provided), "MPI_Init_thread", "world");
    initialized = owns_mpi_ = true;
  }
  if (initialized) return take_ranks(MPI_COMM_WORLD);
#endif
#ifdef HALOGEN_WITH_NCCL
  if (can_meet)
    if (const detail::Launched launched = detail::launched_in_environment(); launched.size > 1) {
      detail::launched_rank = launched.rank;
      detail::have_met = false;
      meeting_ = detail::meet(launched);
      detail::have_met = true;
    }
#endif
}

#ifdef HALOGEN_WITH_MPI
HALOGEN_INLINE void Environment::take_ranks(MPI_Comm comm) {
  detail::require_group_of_mpi(comm, "Environment");
  if (comm == MPI_COMM_NULL)
    throw Error("Environment: MPI_COMM_NULL has no ranks: let those ranks make one that are in the communicator");
  detail::has_mpi = true;
  owns_all_ranks_ = !detail::all_ranks;
  if (owns_all_ranks_) {
    int& size = detail::launched_size;
    int size_of_world = 0;
    MPI_Comm_rank(comm, &detail::launched_rank), MPI_Comm_size(comm, &size);
    MPI_Comm_rank(MPI_COMM_WORLD, &detail::world_rank), MPI_Comm_size(MPI_COMM_WORLD, &size_of_world);
    if (size == size_of_world) detail::world_rank = -1;
    detail::MpiTransport::meet(
        comm, "all " + std::to_string(size) + " ranks to make an Environment" +
                  (comm == MPI_COMM_WORLD && !owns_mpi_ ? " (where some ranks of MPI_COMM_WORLD make none, give it the "
                                                          "communicator of those that do: Environment(comm))"
                                                        : ""));
    detail::all_ranks = detail::MpiTransport::duplicate(comm, "all ranks");
  }
  world_ = from_mpi(comm, "world");
}
#endif

HALOGEN_INLINE void Environment::check_variables() const {
  using namespace detail::settings;
  for (const detail::Setting* time : {&wait_warning, &timeout}) detail::number_of(*time);
  for (const detail::Setting* word : {&mpi_gpu_aware, &try_files, &as_on_device}) detail::text_of(*word);
  const std::string wanted = detail::text_of(transport);
  if (wanted == "nccl" && !with_nccl)
    throw CollectiveError(
        "HALOGEN_TRANSPORT=nccl, but this program was built without NCCL: configure Halogen with a "
        "Kokkos for CUDA and -DHALOGEN_WITH_NCCL=ON");
  if (wanted == "self" && world_.size() > 1)
    throw CollectiveError("HALOGEN_TRANSPORT=self, but this program has initialised MPI, with " +
                          std::to_string(world_.size()) +
                          " ranks: leave MPI to halogen::Environment, start one process, or unset the variable");
}

HALOGEN_INLINE void Environment::choose_nccl() {
#ifdef HALOGEN_WITH_NCCL
  const std::string wanted = detail::text_of(detail::settings::transport);
  if (wanted == "self" || wanted == "mpi" || (wanted.empty() && !detail::has_stream)) return;
  if (world_.transport_name() == "nccl") return;  // the outer Environment's
  all_gather([&](int rank, int size, auto&& gather) {
    if (size == 1) return;
    auto [transport, why_not] = detail::start_nccl(rank, size, gather);
    if (!transport && (meeting_ || !wanted.empty())) throw CollectiveError(why_not);
    if (!transport) return;
    owns_all_ranks_ = owns_all_ranks_ || !detail::all_ranks;
    if (!detail::all_ranks) {
      detail::all_ranks = transport->split(0, rank, "all ranks");
      Communicator(detail::all_ranks).barrier();  // connects them now: its waits must be bounded when it is needed
    }
    world_ = Communicator(std::move(transport));
  });
#endif
}

HALOGEN_INLINE std::string Environment::why_others_are_missing() const {
  try {
    world_.check_health();
  } catch (const Error& error) {
    return error.what();
  }
  return "left by an exception while other ranks were at work; ending all";
}

HALOGEN_INLINE void Environment::start_kokkos(int& argc, char** argv, const detail::NodeShare& node) {
  if (Kokkos::is_initialized()) return;
  all_gather([](int, int size, auto&& gather) {
    const std::string fault = detail::first_fault(size, gather, [] {
      if (Kokkos::is_finalized())
        throw Error(
            "Kokkos has been finalized and cannot start again in this process: make one Environment for the whole "
            "program, in main");
      detail::check_devices();
    });
    if (!fault.empty()) throw CollectiveError(fault);
  });
  using detail::has_argument, detail::is_set;
  detail::TemporaryVariable binding("OMP_PROC_BIND", "false");
  std::optional<detail::TemporaryVariable> threads, warnings, device;
  if (!is_set("OMP_NUM_THREADS") && !is_set("KOKKOS_NUM_THREADS") &&
      !has_argument(argc, argv, "--kokkos-num-threads") && !has_argument(argc, argv, "--kokkos-threads")) {
    threads.emplace("KOKKOS_NUM_THREADS", std::to_string(node.threads));
#ifdef KOKKOS_ENABLE_OPENMP
    omp_set_num_threads(node.threads);  // before Kokkos runs its first parallel region, with every hardware thread
#endif
    if (node.oversubscribed) warnings.emplace("KOKKOS_DISABLE_WARNINGS", "true");  // one thread each is the least
  }
  if (Kokkos::num_devices() > 0 && !is_set("KOKKOS_MAP_DEVICE_ID_BY") &&
      !has_argument(argc, argv, "--kokkos-device-id") && !has_argument(argc, argv, "--kokkos-map-device-id-by"))
    device.emplace("KOKKOS_DEVICE_ID", std::to_string(node.rank % Kokkos::num_devices()));
  std::vector<char*> own = detail::take_kokkos_arguments(argc, argv);
#ifdef KOKKOS_ENABLE_OPENMP
  if (omp_get_max_threads() > detail::most_threads) omp_set_num_threads(detail::most_threads);
  detail::hold_threads(own);
#endif
  int count = static_cast<int>(own.size()) - 1;
  Kokkos::initialize(count, own.data());
  owns_kokkos_ = true;
}
#endif

}  // namespace halogen
