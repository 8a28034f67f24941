// main of the tests in tests/unit: a single process.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <halogen/comm/environment.hpp>

int main(int argc, char** argv) {
  halogen::Environment environment(argc, argv);
  return doctest::Context(argc, argv).run();
}
