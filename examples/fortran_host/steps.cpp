// Compiled without fused multiply-adds, as the Fortran program is: both round alike.
#include "steps.hpp"

namespace {

constexpr double gravity = 9.81, depth = 100, dx = 1000, dt = 4, twice = 1 / (2 * dx);

double near(State& state, int k, int j, int i) {
  const double wall = k == 2 ? -1.0 : 1.0;
  i = (i + width) % width;
  if (j < 0) return wall * state.at(k, 0, i);
  return j == height ? wall * state.at(k, height - 1, i) : state.at(k, j, i);
}
double slope_along_longitude(State& state, int k, int j, int i) {
  return (near(state, k, j, i + 1) - near(state, k, j, i - 1)) * twice;
}
double slope_along_latitude(State& state, int k, int j, int i) {
  return (near(state, k, j + 1, i) - near(state, k, j - 1, i)) * twice;
}

template <class Point>
void each_point(Point point) {
  for (int j = 0; j < height; ++j)
    for (int i = 0; i < width; ++i) point(j, i);
}

}  // namespace

State first_state() {
  State state;
  each_point([&](int j, int i) {
    const int y = j + 1, x = i + 1;
    if ((x - 20) * (x - 20) + (y - 12) * (y - 12) < 36) state.at(0, j, i) = 1 + double((x * 5 + y * 3) % 7) / 16;
  });
  return state;
}

void advance(State& state) {
  each_point([&](int j, int i) {
    state.at(1, j, i) = state.at(1, j, i) - dt * gravity * slope_along_longitude(state, 0, j, i);
    state.at(2, j, i) = state.at(2, j, i) - dt * gravity * slope_along_latitude(state, 0, j, i);
  });
  each_point([&](int j, int i) {
    state.at(0, j, i) =
        state.at(0, j, i) - dt * depth * (slope_along_longitude(state, 1, j, i) + slope_along_latitude(state, 2, j, i));
  });
}
