// main of the tests in tests/mpi: doctest on every rank. Rank 0 reports, and every rank where something failed; the
// verdict is the worst of all ranks. A failed REQUIRE (or an exception) leaves its test case while the other ranks wait
// in the next collective, so there it ends all ranks. A filter that lets no test case pass is a failure, and so is a
// run whose test cases are all for other numbers of ranks. Without MPI this is a single process.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // the ranks that are ended have nothing to say
#include <doctest/doctest.h>

#include <halogen/comm/environment.hpp>
#include <iostream>
#include <sstream>
#include <string>

#include "support/device_memory.hpp"
#include "support/ran.hpp"

#if HALOGEN_WITH_MPI
#include <mpi.h>
#endif

namespace {

#if HALOGEN_WITH_MPI
int rank_of_world() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int size_of_world() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
int worst_of_world(int result) {
  MPI_Allreduce(MPI_IN_PLACE, &result, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  return result;
}
void barrier_of_world() { MPI_Barrier(MPI_COMM_WORLD); }
void abort_world() { MPI_Abort(MPI_COMM_WORLD, 1); }
#else
int rank_of_world() { return 0; }
int size_of_world() { return 1; }
int worst_of_world(int result) { return result; }
void barrier_of_world() {}
void abort_world() {}
#endif

unsigned test_cases = 0;    // that the filters let pass
unsigned skipped = 0;       // of them, by ONLY_ON_RANKS and FROM_RANKS
std::ostringstream report;  // what this rank's doctest printed

/// Ends all ranks once this one has left a test case that its peers are still in.
struct AbortOnLeaving : doctest::IReporter {
  explicit AbortOnLeaving(const doctest::ContextOptions&) {}

  void leave(const std::string& what) {
    if (size_of_world() == 1) return;  // nobody waits
    std::cerr << "rank " << rank_of_world() << " leaves '" << test_case << "': " << what << '\n'
              << report.str() << std::flush;
    abort_world();
  }

  void log_assert(const doctest::AssertData& assertion) override {
    if (!assertion.m_failed || (assertion.m_at & doctest::assertType::is_require) == 0) return;
    std::ostringstream what;
    what << assertion.m_file << ':' << assertion.m_line << ": " << doctest::assertString(assertion.m_at) << "( "
         << assertion.m_expr << " ) is " << assertion.m_decomp.c_str();
    for (int c = 0; c < get_num_active_contexts(); ++c) get_active_contexts()[c]->stringify(&(what << "\n  with "));
    leave(what.str());
  }
  void test_case_exception(const doctest::TestCaseException& thrown) override { leave(thrown.error_string.c_str()); }
  void log_message(const doctest::MessageData& message) override {
    if ((message.m_severity & doctest::assertType::is_require) != 0) leave(message.m_string.c_str());  // FAIL(...)
  }
  void test_case_start(const doctest::TestCaseData& started) override {
    test_case = started.m_name;
    support::runner.is_skipped = false;
  }
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override { skipped += support::runner.is_skipped; }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats& run) override { test_cases = run.numTestCasesPassingFilters; }
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}

  std::string test_case;
};
REGISTER_LISTENER("abort_on_leaving", 1, AbortOnLeaving);

}  // namespace

int main(int argc, char** argv) {
  halogen::Environment environment(argc, argv);
  support::tell_device_memory_apart();
  doctest::Context context(argc, argv);
  context.setOption("no-colors", true);
  context.setCout(&report);
  support::runner = {.ranks = size_of_world(),
                     .assertions = [] { return static_cast<int>(doctest::detail::g_cs->numAssertsCurrentTest_atomic); },
                     .nothing_ran = [] { FAIL_CHECK("a loop over meshes asserts nothing on this number of ranks"); }};
  int result = context.run();
  if (test_cases == 0 && !context.shouldExit()) {
    report << "no test case passes the filters\n";
    result = 1;
  }
  if (skipped == 1) report << "1 case was skipped: it is for other numbers of ranks\n";
  if (skipped > 1) report << skipped << " cases were skipped: they are for other numbers of ranks\n";
  if (skipped > 0 && skipped == test_cases) {
    report << "no test case is for this number of ranks\n";
    result = 1;
  }
  const int worst = worst_of_world(result);
  for (int rank = 0; rank < size_of_world(); ++rank) {
    if (rank == rank_of_world() && (rank == 0 || result != 0)) {
      std::cout << "rank " << rank << " of " << size_of_world() << ":\n" << report.str() << std::flush;
    }
    barrier_of_world();
  }
  return worst;
}
