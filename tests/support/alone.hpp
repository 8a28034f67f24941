// What one rank alone computes, beside which every mesh is put, and directional derivatives to compare gradients with.
#pragma once

#include <numeric>

#include "support/train_once.hpp"

namespace support {

/// A mesh of this rank alone, on every rank of any world: its results are the unsharded ones.
template <class MeshType = Mesh>
hg::DeviceMesh<MeshType> alone() {
  typename hg::DeviceMesh<MeshType>::Coordinate ones;
  ones.fill(1);
  return hg::device_mesh<MeshType>(hg::Communicator(), ones);
}

inline double dot(const std::vector<double>& a, const std::vector<double>& b) {
  return std::inner_product(a.begin(), a.end(), b.begin(), 0.0);
}

/// values + step * direction
inline std::vector<double> moved(std::vector<double> values, double step, const std::vector<double>& direction) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += step * direction[i];
  return values;
}

/// |central difference of f at x along the direction - <gradient, direction>|, relative to the larger of the latter and
/// what a random direction gives: a direction by chance nearly orthogonal to the gradient proves nothing otherwise.
template <class F>
double slope_error(F f, const std::vector<double>& x, const std::vector<double>& gradient,
                   const std::vector<double>& direction, double step = 1e-6) {
  if (gradient.size() != x.size()) return 1e300;
  if (x.empty()) return 0;
  const double difference = (f(moved(x, step, direction)) - f(moved(x, -step, direction))) / (2 * step);
  const double expected = dot(gradient, direction);
  const double usual = std::sqrt(dot(gradient, gradient) * dot(direction, direction) / static_cast<double>(x.size()));
  const double error = std::abs(difference - expected) / std::max(std::abs(expected), usual);
  return error >= 0 ? error : 1e300;
}

}  // namespace support
