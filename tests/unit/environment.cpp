// timeout: 120
// guard: no
// What comm/environment.hpp promises of a whole process, so the tests start processes: this executable again, with one
// of the skipped test cases ("child ...") and other environment variables, alone or under mpirun.
#include "halogen/comm/environment.hpp"

#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <thread>

#include "halogen/comm/device_mesh.hpp"
#include "support/processes.hpp"

namespace hg = halogen;
using support::count, support::Ended, support::shell, support::this_executable;

namespace {

/// Runs the test case "child <name>" with `before` (variables, launcher) and further arguments.
Ended child(const std::string& name, const std::string& before = "", const std::string& arguments = "") {
  const std::string clean = "env -u OMP_NUM_THREADS -u OMP_PROC_BIND -u KOKKOS_NUM_THREADS -u HALOGEN_TRANSPORT ";
  return shell(clean + before + " " + this_executable() + " --no-skip '--test-case=child " + name + "' " + arguments);
}

Ended children(int ranks, const std::string& name, const std::string& before = "") {
  return child(name, "OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 " +
                         std::string("OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none ") +
                         "OMPI_MCA_mpi_yield_when_idle=1 PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe " +
                         before + " mpirun -n " + std::to_string(ranks));
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
#ifdef HALOGEN_WITH_MPI
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
  const Ended self = children(2, "starts MPI itself", "HALOGEN_TRANSPORT=self");
  CHECK(self.status != 0);
  CHECK(count(self.output, "error: HALOGEN_TRANSPORT=self, but this program has initialised MPI, with 2 ranks") == 1);
  const Ended alone = children(1, "starts MPI itself", "HALOGEN_TRANSPORT=self");
  CHECK(alone.status == 0);
  CHECK(count(alone.output, "halogen: transport=self ranks=1 ") == 1);
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
