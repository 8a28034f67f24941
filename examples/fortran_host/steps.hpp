// The shallow-water steps of the Fortran program, in C++.
#pragma once

#include <vector>

inline constexpr int width = 48, height = 32;

/// Height and two velocities; the ends of longitude are neighbours, those of latitude are walls.
struct State {
  std::vector<double> values = std::vector<double>(3 * height * width);
  double& at(int k, int j, int i) { return values[static_cast<std::size_t>((k * height + j) * width + i)]; }
};

State first_state();
void advance(State& state);
