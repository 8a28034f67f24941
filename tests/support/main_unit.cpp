// main of the tests in tests/unit: a single process.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // faults are the access guard's, or say enough
#include <doctest/doctest.h>

#include <cstdlib>
#include <halogen/comm/environment.hpp>
#include <iostream>
#include <optional>

namespace {

/// Counts what the filters let pass: a program that runs nothing proves nothing.
struct Count : doctest::IReporter {
  explicit Count(const doctest::ContextOptions&) {}
  static inline unsigned test_cases = 0;
  void test_run_end(const doctest::TestRunStats& run) override { test_cases = run.numTestCasesPassingFilters; }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_case_start(const doctest::TestCaseData&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("count", 1, Count);

}  // namespace

int main(int argc, char** argv) {
  std::optional<halogen::Environment> environment;
  if (std::getenv("MAKES_ITS_ENVIRONMENT") == nullptr) environment.emplace(argc, argv);  // set for what a test starts
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (Count::test_cases > 0 || context.shouldExit()) return result;
  std::cerr << "no test case passes the filters\n";
  return 1;
}
