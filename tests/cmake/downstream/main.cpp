// A program outside Halogen, with its own model.
#include <cstdio>
#include <halogen/halogen.hpp>

int main(int argc, char** argv) {
  halogen::Environment environment(argc, argv);
  std::printf("downstream: %d rank(s)\n", environment.world().size());
}
