// timeout: 400
// guard: no
// What comm/environment.hpp promises of a whole process, so the tests start processes: this executable again, with one
// of the skipped test cases ("child ...") and other environment variables, alone or under mpirun.
#include "halogen/comm/environment.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "halogen/comm/device_mesh.hpp"
#include "support/processes.hpp"

namespace hg = halogen;
using support::count, support::Ended, support::shell, support::this_executable;

namespace {

const std::string own = "MAKES_ITS_ENVIRONMENT=1 ";  ///< no Environment around that of the test case

/// Runs the test case "child <name>" with `before` (variables, launcher) and further arguments.
Ended child(const std::string& name, const std::string& before = "", const std::string& arguments = "") {
  const std::string clean = "env -u OMP_NUM_THREADS -u OMP_PROC_BIND -u KOKKOS_NUM_THREADS -u HALOGEN_TRANSPORT ";
  return shell(clean + before + " " + this_executable() + " --no-skip '--test-case=child " + name + "' " + arguments);
}

/// Open MPI's mpirun may hang after all its processes have ended (PMIx_server_finalize waits for a lock): such a start
/// is killed and tried again, three times at most.
Ended children(int ranks, const std::string& name, const std::string& before = "") {
  const std::string start =
      "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
      "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none "
      "OMPI_MCA_mpi_yield_when_idle=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe " +
      before + " timeout -s KILL 30 mpirun -n " + std::to_string(ranks);
  Ended ended;
  for (int times = 0; times < 3; ++times) {
    ended = child(name, start);
    if (ended.status != 128 + SIGKILL) break;
  }
  return ended;
}

bool mpi_can_run() {
#ifdef HALOGEN_WITH_MPI
  return std::system("command -v mpirun >/dev/null 2>&1") == 0;
#else
  return false;
#endif
}

std::string threads(int n) {
  const bool has_threads = Kokkos::DefaultHostExecutionSpace().concurrency() > 1 || n == 1;
  return " threads=" + std::to_string(has_threads ? n : 1) + " ";
}

/// Leaves through std::terminate, as an exception out of main does; doctest would catch it.
template <class Exception>
[[noreturn]] void end_with(const char* sentence) noexcept {
  std::rethrow_exception(std::make_exception_ptr(Exception(sentence)));
}

}  // namespace

TEST_CASE("child describes" * doctest::skip()) {
  hg::Environment env;
  if (env.is_root()) std::cout << env.describe() << std::endl;
  for (const char* variable : {"OMP_PROC_BIND", "KOKKOS_NUM_THREADS", "KOKKOS_DISABLE_WARNINGS"})
    if (std::getenv(variable) && env.is_root()) std::cout << "set: " << variable << std::endl;
#ifdef KOKKOS_ENABLE_OPENMP
  int members = 0;
#pragma omp parallel reduction(+ : members)
  ++members;
  if (env.is_root()) std::cout << "a region of " << members << " threads" << std::endl;
#endif
}
TEST_CASE("child throws on the last rank" * doctest::skip()) {
  hg::Environment env;
  if (env.world().rank() == env.world().size() - 1) end_with<std::runtime_error>("this one broke");
  env.world().barrier();
}
TEST_CASE("child throws on all ranks alike" * doctest::skip()) {
  hg::Environment env;
  end_with<hg::CollectiveError>("all broke alike");
}
TEST_CASE("child throws a collective error on the first rank only" * doctest::skip()) {
  hg::Environment env;
  if (env.is_root()) end_with<hg::CollectiveError>("a lonely collective error");
  env.world().barrier();
}
TEST_CASE("child throws a collective error on a sub-mesh without rank 0" * doctest::skip()) {
  hg::Environment env;
  if (env.world().rank() > 0) end_with<hg::CollectiveError>("all of a sub-mesh broke alike");
  env.world().barrier();
}
TEST_CASE("child throws in a thread" * doctest::skip()) {
  hg::Environment env;
  std::thread([] { throw std::runtime_error("a thread broke"); }).join();
}
TEST_CASE("child unwinds past a request that nobody answers" * doctest::skip()) {
  hg::Environment env;
  double x = 0;
  if (env.world().rank() == 0) {
    hg::Request request = env.world().all_reduce_async(&x, 1);
    throw std::runtime_error("left with a request");
  }
  std::this_thread::sleep_for(std::chrono::seconds(60));
}
TEST_CASE("child makes a second environment" * doctest::skip()) {
  [&]() noexcept {
    { hg::Environment first; }
    hg::Environment second;
  }();
}
TEST_CASE("child leaves main on the last rank" * doctest::skip()) {
  hg::Environment env;
  if (env.world().rank() + 1 < env.world().size()) env.world().barrier();
}
TEST_CASE("child catches outside of the environment" * doctest::skip()) {
  try {
    hg::Environment env;
    if (env.world().rank() == env.world().size() - 1) throw std::runtime_error("this one broke");
    env.world().barrier();
  } catch (const std::exception& error) {
    std::cout << "caught: " << error.what() << std::endl;
    std::exit(3);
  }
}
TEST_CASE("child stops on the last rank" * doctest::skip()) {
  hg::Environment env;
  if (env.world().rank() == env.world().size() - 1) raise(SIGSTOP);
  env.world().split(0, 0, "later");
}
TEST_CASE("child waits for a message of rank 1" * doctest::skip()) {
  hg::Environment env;
  double from_1 = 0, from_2 = 0, own = 0;
  const hg::Transfer receives[] = {{1, &from_1, 8}, {2, &from_2, 8}}, sends[] = {{0, &own, 8}};
  if (env.world().rank() == 1) std::this_thread::sleep_for(std::chrono::seconds(30));
  hg::Exchange exchange =
      env.is_root() ? env.world().prepare(receives, {}, "halo of u") : env.world().prepare({}, sends, "halo of u");
  exchange.start();
  exchange.wait();
}
TEST_CASE("child goes round a ring for a minute" * doctest::skip()) {  // tests/faults/two_hosts_test.py
  hg::Environment env;
  const int size = env.world().size(), rank = env.world().rank();
  std::vector<double> here(1000), there(1000);
  const hg::Transfer receives[] = {{(rank + size - 1) % size, here.data(), 8000}};
  const hg::Transfer sends[] = {{(rank + 1) % size, there.data(), 8000}};
  hg::Exchange ring = env.world().prepare(receives, sends, "ring");
  const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
  if (env.is_root()) std::cout << "the ring begins" << std::endl;
  for (int goes_on = 1; goes_on == 1;) {
    ring.start();
    ring.wait();
    goes_on = std::chrono::steady_clock::now() < end ? 1 : 0;
    env.world().all_reduce(&goes_on, 1, hg::ReduceOp::min);
  }
}
#ifdef HALOGEN_WITH_MPI
/// The ranks of MPI_COMM_WORLD but the first, which serves them, in reverse order.
TEST_CASE("child is served by a rank without an environment" * doctest::skip()) {
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm model = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 0 ? MPI_UNDEFINED : 1, -rank, &model);
  if (rank > 0) {
    {
      hg::Environment env(model);
      hg::Environment inner;
      double sum = rank;
      inner.world().all_reduce(&sum, 1);
      if (env.is_root()) std::cout << env.describe() << "\nsum " << sum << " by rank " << rank << std::endl;
      const bool throws = std::getenv("THROW_ON") != nullptr;
      if (throws && std::stoi(std::getenv("THROW_ON")) == env.world().rank()) end_with<hg::Error>("a part broke");
      if (std::getenv("THROW_ALL") != nullptr) end_with<hg::CollectiveError>("all of a part broke");
      env.world().barrier();
    }
    MPI_Comm_free(&model);
  }
  MPI_Finalize();
}
TEST_CASE("child makes an environment on rank 0 alone" * doctest::skip()) {
  MPI_Init(nullptr, nullptr);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) hg::Environment env;
  std::this_thread::sleep_for(std::chrono::seconds(rank == 0 ? 0 : 30));
}
TEST_CASE("child makes an environment without ranks" * doctest::skip()) {
  MPI_Init(nullptr, nullptr);
  [&]() noexcept { hg::Environment env(MPI_COMM_NULL); }();
}
TEST_CASE("child starts MPI itself" * doctest::skip()) {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  [&]() noexcept {  // a refusal ends the process, as out of main
    hg::Environment env;
    std::cout << env.describe() << std::endl;
  }();
  MPI_Finalize();
}
#endif
TEST_CASE("a device that this build does not run on is refused in one sentence") {
  const int compiled[] = {800, 900};
  for (const int runs : {800, 890, 900}) CHECK_NOTHROW(hg::detail::check_architecture(compiled, runs, "device 0 (A)"));
  for (const int other : {750, 1000}) CHECK_THROWS_AS(hg::detail::check_architecture(compiled, other, ""), hg::Error);
  CHECK_THROWS_WITH(
      hg::detail::check_architecture(compiled, 1030, "device 1 (B)"),
      "this program was compiled for GPUs of compute capability 8.0, 9.0, but device 1 (B) has 10.3: build "
      "it and Kokkos with -DCMAKE_CUDA_ARCHITECTURES=103, or hide that device with CUDA_VISIBLE_DEVICES");
}

TEST_CASE("threads are this process's processors, unless the user says otherwise") {
  const auto all = static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN));
  const Ended one = child("describes", "taskset -c 0");
  CHECK(count(one.output, "halogen: transport=self ranks=1 (1 on this node) execution_space=") == 1);
  CHECK(count(one.output, " threads=1 ") == 1);
  CHECK(count(child("describes").output, threads(all)) == 1);
  CHECK(count(child("describes", "OMP_NUM_THREADS=3").output, threads(3)) == 1);
  CHECK(count(child("describes", "KOKKOS_NUM_THREADS=4").output, threads(4)) == 1);
  CHECK(count(child("describes", "", "--kokkos-num-threads=5").output, threads(5)) == 1);
  CHECK(count(child("describes", "KOKKOS_NUM_THREADS=4", "--kokkos-num-threads=5").output, threads(5)) == 1);
#ifdef KOKKOS_ENABLE_OPENMP
  CHECK(count(one.output, "a region of 1 threads") == 1);
  CHECK(count(child("describes").output, "a region of " + std::to_string(all) + " threads") == 1);
#endif
}

TEST_CASE("no more threads than Kokkos has places for, whoever asks") {
#ifdef KOKKOS_ENABLE_OPENMP
  for (const std::string variable : {"OMP_NUM_THREADS", "KOKKOS_NUM_THREADS"})
    CHECK(count(child("describes", variable + "=600").output, " threads=512 ") == 1);
  CHECK(count(child("describes", "KOKKOS_NUM_THREADS=3", "--kokkos-num-threads=600").output, " threads=512 ") == 1);
  CHECK(count(child("describes", "KOKKOS_NUM_THREADS=600", "--kokkos-num-threads=3").output, " threads=3 ") == 1);
#endif
}

TEST_CASE("a transport that the program was built without is refused") {
#ifndef HALOGEN_WITH_MPI
  const Ended mpi = child("describes", "HALOGEN_TRANSPORT=mpi");
  CHECK(mpi.status != 0);
  CHECK(count(mpi.output, "HALOGEN_TRANSPORT=mpi, but this program was built without MPI") == 1);
#endif
#ifndef HALOGEN_WITH_NCCL
  const std::string without_nccl = "error: HALOGEN_TRANSPORT=nccl, but this program was built without NCCL";
  const Ended nccl = child("describes", "HALOGEN_TRANSPORT=nccl");
  CHECK(nccl.status != 0);
  CHECK(count(nccl.output, without_nccl) == 1);
  if (mpi_can_run()) {  // ranks that MPI connects say it once
    const Ended ranks = children(2, "describes", "HALOGEN_TRANSPORT=nccl");
    CHECK(ranks.status != 0);
    CHECK(count(ranks.output, without_nccl) == 1);
    CHECK(count(ranks.output, "halogen: transport=") == 0);
  }
#endif
}

TEST_CASE("HALOGEN_TRANSPORT that is no transport, or self where the program has MPI already, is refused once") {
  if (!mpi_can_run()) return;
  const Ended other = children(2, "describes", "HALOGEN_TRANSPORT=ucx");
  CHECK(other.status != 0);
  CHECK(count(other.output, "error: HALOGEN_TRANSPORT=ucx is none of self, mpi and nccl") == 1);
  const Ended self = children(2, "starts MPI itself", own + "HALOGEN_TRANSPORT=self");
  CHECK(self.status != 0);
  CHECK(count(self.output, "error: HALOGEN_TRANSPORT=self, but this program has initialised MPI, with 2 ranks") == 1);
  const Ended alone = children(1, "starts MPI itself", own + "HALOGEN_TRANSPORT=self");
  CHECK(alone.status == 0);
  CHECK(count(alone.output, "halogen: transport=self ranks=1 ") == 1);
}

TEST_CASE("numbers in variables have a decimal point, whatever the locale says") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  for (const char* name : {"C", "de_DE.UTF-8", "fr_FR.UTF-8"}) {  // those that this system has
    std::setlocale(LC_NUMERIC, name);
    setenv("HALOGEN_A_NUMBER", "0.25", 1);
    CHECK(hg::detail::number_of("HALOGEN_A_NUMBER", 0, 0, 1) == 0.25);
    CHECK(hg::detail::seconds_text(std::chrono::milliseconds(2500)) == "2.5 s");
    for (const char* wrong : {"0,25", "", " 0.25", "0.25s", "nan", "2", "-1"}) {
      setenv("HALOGEN_A_NUMBER", wrong, 1);
      CHECK_THROWS_WITH_AS(hg::detail::number_of("HALOGEN_A_NUMBER", 0, 0.5, 1.5),
                           (std::string("HALOGEN_A_NUMBER=") + wrong + " is no number from 0.5 to 1.5").c_str(),
                           hg::CollectiveError);
    }
  }
  unsetenv("HALOGEN_A_NUMBER");
  std::setlocale(LC_NUMERIC, before.c_str());
}

TEST_CASE("what a variable may not be is refused in one sentence, which says what it may be") {
  using hg::detail::fault_of;
  namespace settings = hg::detail::settings;
  CHECK(fault_of(settings::transport, "tcp") == "HALOGEN_TRANSPORT=tcp is none of self, mpi and nccl");
  CHECK(fault_of(settings::nccl_windows, "yes") == "HALOGEN_NCCL_WINDOWS=yes is none of 0, 1 and auto");
  CHECK(fault_of(settings::try_files, "no") == "HALOGEN_TRY_FILES=no is neither 0 nor 1");
  CHECK(fault_of(settings::nccl_window_mib, "0") == "HALOGEN_NCCL_WINDOW_MIB=0 is no number from 1 to 1.04858e+06");
  CHECK(fault_of(settings::timeout, "") == "HALOGEN_TIMEOUT= is no number from 0 to 1e+09");
  for (const char* wrong : {"/tmp/x", "file:", "tcp://", "tcp://host", "tcp://host:", "tcp://:5"})
    CHECK(fault_of(settings::rendezvous, wrong) ==
          std::string("HALOGEN_RENDEZVOUS=") + wrong + " is neither file:/path nor tcp://host:port");
  for (const char* right : {"file:/tmp/x", "tcp://host:5", "tcp://[::1]:5"})
    CHECK(fault_of(settings::rendezvous, right).empty());
  for (const hg::detail::Setting* setting : settings::all) {
    CAPTURE(setting->name);
    for (const char* word : setting->values.words)
      if (word != nullptr) CHECK(fault_of(*setting, word).empty());
    using Kind = hg::detail::SettingValues::Kind;
    const bool counts = setting->values.kind == Kind::number || setting->values.kind == Kind::seconds;
    CHECK(fault_of(*setting, "").empty() == !counts);
    CHECK(!(counts && setting->values.least > setting->values.otherwise));
  }
  const Ended odd = child("describes", "HALOGEN_MPI_GPU_AWARE=yes");
  CHECK(odd.status != 0);
  CHECK(count(odd.output, "error: HALOGEN_MPI_GPU_AWARE=yes is neither 0 nor 1") == 1);
  CHECK(child("describes", "HALOGEN_AS_ON_DEVICE=0").status == 0);
}

TEST_CASE("starting says nothing else and leaves no variables behind") {
  const Ended ended = child("describes");
  CHECK(ended.status == 0);
  CHECK(count(ended.output, "WARNING") == 0);
  CHECK(count(ended.output, "set: ") == 0);
}

TEST_CASE("an inner environment finalises nothing") {
  { hg::Environment inner; }
  CHECK(Kokkos::is_initialized());
  CHECK_FALSE(Kokkos::is_finalized());
  CHECK((std::get_terminate() == hg::detail::terminate_all_ranks));
  hg::Environment again;
  CHECK(again.world().rank() == 0);
  CHECK(again.describe().starts_with("halogen: transport=self ranks=1 (1 on this node) execution_space="));
}

TEST_CASE("an exception that nobody catches is said once, and ends the process") {
  for (const auto& [name, sentence] : {std::pair{"throws on the last rank", "error: this one broke\n"},
                                       std::pair{"throws on all ranks alike", "error: all broke alike\n"},
                                       std::pair{"throws in a thread", "error: a thread broke\n"}}) {
    const Ended ended = child(name);
    CHECK(ended.status == 1);
    CHECK(count(ended.output, sentence) == 1);
    CHECK(ended.seconds < 5);
  }
}

TEST_CASE("threads of ranks that share a node") {
  if (!mpi_can_run()) return;
  const Ended four = children(4, "describes", "HALOGEN_TRANSPORT=mpi");
  const int each = std::max(1, static_cast<int>(sysconf(_SC_NPROCESSORS_ONLN)) / 4);
  CHECK(count(four.output, "halogen: transport=mpi ranks=4 (4 on this node) execution_space=") == 1);
  CHECK(count(four.output, threads(each)) == 1);
  CHECK(count(four.output, "WARNING") == 0);
  CHECK(count(children(2, "describes", "OMP_NUM_THREADS=1").output, " threads=1 ") == 1);
  CHECK(count(children(2, "describes", "HALOGEN_TRANSPORT=self").output, "transport=self ranks=1 (1 on") == 2);
  CHECK(count(children(1, "describes").output, "transport=self ranks=1 (1 on this node)") == 1);
}

TEST_CASE("an exception on one rank ends all ranks, one of all is said once") {
  if (!mpi_can_run()) return;
  const Ended one = children(4, "throws on the last rank");
  CHECK(one.status != 0);
  CHECK(count(one.output, "error on rank 3: this one broke\n") == 1);
  CHECK(count(one.output, "this one broke") == 1);
  CHECK(one.seconds < 10);
  const Ended all = children(4, "throws on all ranks alike");
  CHECK(all.status != 0);
  CHECK(count(all.output, "error: all broke alike\n") == 1);
  CHECK(count(all.output, "all broke alike") == 1);
  CHECK(all.seconds < 10);
  const Ended lonely = children(3, "throws a collective error on the first rank only");
  CHECK(lonely.status != 0);
  CHECK(count(lonely.output, "error: a lonely collective error\n") == 1);
  CHECK(lonely.seconds < 10);
  const Ended some = children(3, "throws a collective error on a sub-mesh without rank 0");
  CHECK(some.status != 0);
  CHECK(count(some.output, "error on rank 1: all of a sub-mesh broke alike\n") == 1);
  CHECK(some.seconds < 10);
  const Ended unwound = children(2, "unwinds past a request that nobody answers");
  CHECK(unwound.status != 0);
  CHECK(count(unwound.output, "error on rank 0: left by an exception while") == 1);
  CHECK(unwound.seconds < 15);
}

TEST_CASE("a second environment after the first's end is refused with its remedy, once") {
  const std::string remedy = " and cannot start again in this process: make one Environment for the whole program";
  const Ended alone = child("makes a second environment", own);
  CHECK(alone.status == 1);
  CHECK(count(alone.output, "error: Kokkos has been finalized" + remedy) == 1);
  if (!mpi_can_run()) return;
  const Ended ranks = children(3, "makes a second environment", own);
  CHECK(ranks.status != 0);
  CHECK(count(ranks.output, "error: MPI has been finalized" + remedy) == 1);
  CHECK(count(ranks.output, "finalized") == 1);
  CHECK(ranks.seconds < 10);
}

TEST_CASE("an environment of a part of MPI's ranks") {
  if (!mpi_can_run()) return;
  const std::string name = "is served by a rank without an environment";
  const Ended four = children(4, name, own);
  CAPTURE(four.output);
  CHECK(four.status == 0);
  CHECK(count(four.output, "halogen: transport=mpi ranks=3 ") == 1);
  CHECK(count(four.output, "\nsum 6 by rank 3\n") == 1);
  const Ended two = children(2, name, own);
  CHECK(two.status == 0);
  CHECK(count(two.output, "halogen: transport=self ranks=1 ") == 1);
  const Ended one = children(3, name, own + "THROW_ON=1");
  CHECK(one.status != 0);
  CHECK(count(one.output, "error on rank 1 (rank 1 of MPI_COMM_WORLD): a part broke\n") == 1);
  CHECK(one.seconds < 10);
  const Ended all = children(3, name, own + "THROW_ALL=1");
  CHECK(all.status != 0);
  CHECK(count(all.output, "error: all of a part broke\n") == 1);
  CHECK(count(all.output, "broke") == 1);
  CHECK(all.seconds < 10);
  const Ended lonely = children(2, "makes an environment on rank 0 alone", own + "HALOGEN_TIMEOUT=2");
  CHECK(lonely.status != 0);
  CHECK(count(lonely.output,
              "error on rank 0: all 2 ranks to make an Environment (where some ranks of MPI_COMM_WORLD make none, give "
              "it the communicator of those that do: Environment(comm)): no answer within 2 s (HALOGEN_TIMEOUT)") == 1);
  CHECK(lonely.seconds < 15);
  const Ended none = children(1, "makes an environment without ranks", own);
  CHECK(none.status != 0);
  CHECK(count(none.output, "error: Environment: MPI_COMM_NULL has no ranks") == 1);
}

TEST_CASE("an exception that is caught outside of the environment is told, and ends all ranks") {
  if (!mpi_can_run()) return;
  const Ended ended = children(3, "catches outside of the environment", own);
  CAPTURE(ended.output);
  CHECK(ended.status != 0);
  CHECK(count(ended.output, "error on rank 2: left by an exception while other ranks were at work") == 1);
  CHECK(count(ended.output, "caught: this one broke") == 1);
  CHECK(ended.seconds < 15);
}

TEST_CASE("a rank that waits long says for what and for whom, and ends the job where a limit is set") {
  if (!mpi_can_run()) return;
  const std::string limits = own + "HALOGEN_WAIT_WARNING=1 HALOGEN_TIMEOUT=3.5 ";
  const auto ends = [&](const std::string& name, const std::string& rank_0_waits) {
    const Ended ended = children(3, name, limits);
    CAPTURE(ended.output);
    CHECK(ended.status != 0);
    CHECK(count(ended.output, "halogen: rank 0 has waited 1 s for " + rank_0_waits + ": a peer computes long") == 1);
    CHECK(count(ended.output, "halogen: rank 0 has waited 3 s for " + rank_0_waits) == 1);
    CHECK(count(ended.output, "error on rank ") >= 1);
    CHECK(count(ended.output, ": no answer within 3.5 s (HALOGEN_TIMEOUT): a peer has ended") >= 1);
    CHECK(ended.seconds < 15);
    return ended.output;
  };
  const std::string left = ends("leaves main on the last rank", "barrier on \"world\" of 3 ranks");
  CHECK(count(left, "rank 2 has waited 1 s for the other ranks at the end of its Environment (has it left main") == 1);
  ends("stops on the last rank", "split on \"world\" of 3 ranks");
  ends("waits for a message of rank 1", "halo of u on \"world\", peer 1");
  const Ended odd = children(2, "describes", "HALOGEN_WAIT_WARNING=soon");
  CHECK(odd.status != 0);
  CHECK(count(odd.output, "error: HALOGEN_WAIT_WARNING=soon is no number from 0 to 1e+09") == 1);
}
