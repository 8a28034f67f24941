// main of the tests in tests/unit: a single process.
#define DOCTEST_CONFIG_IMPLEMENT
#define DOCTEST_CONFIG_NO_POSIX_SIGNALS  // faults are the access guard's, or say enough
#include <doctest/doctest.h>

#include <halogen/comm/environment.hpp>

int main(int argc, char** argv) {
  halogen::Environment environment(argc, argv);
  return doctest::Context(argc, argv).run();
}
