// The shallow-water equations on the rotating Earth, in the array language. Nothing here knows how the fields are cut.
//
//   d eta/dt = -div(h (u, v))                 eta: height of the surface, h = depth + eta: the column of water
//   d u/dt   =  q v - d(g eta + K)/dx         u: eastward, v: southward, as the rows run; K = (u^2 + v^2) / 2
//   d v/dt   = -q u - d(g eta + K)/dy         q: vorticity of the water and of the Earth
//
// On a C grid: u lives on the east side of a cell, v on its south side, q in its south-east corner. Periodic in
// longitude; walls at the coasts, where depth is 0. Forward-backward in time: the new eta moves u, the new u moves v.
// What leaves one cell enters the next, so volume is kept to rounding.
#pragma once

#include <cmath>
#include <halogen/array_language.hpp>
#include <numbers>

namespace shallow_water {

using Mesh = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<1>>;  // (H/h, W/w)

inline constexpr double degree = std::numbers::pi / 180;
inline constexpr double earth_radius = 6.371e6, gravity = 9.81, earth_rotation = 7.292e-5;  // m, m/s^2, 1/s
inline constexpr double drag = 0.0025;  // of the sea floor, quadratic

auto north(const auto& e) { return hg::shift<0, -1>(e); }
auto south(const auto& e) { return hg::shift<0, 1>(e); }
auto west(const auto& e) { return hg::shift<1, -1>(e); }
auto east(const auto& e) { return hg::shift<1, 1>(e); }

struct Ocean {
  Field depth;
  double spacing, west_end;  // of rows and columns; longitude where the first column begins: in radians
  Field eta = 0.0 * depth, u = 0.0 * depth, v = 0.0 * depth, q{}, k{};

  /// Coordinates need no array. `side` 0.5: of the cells' south sides.
  auto latitude(double side = 0) const {
    return 90 * degree - spacing * (hg::cast<double>(hg::global_index<0>(depth)) + (0.5 + side));
  }
  auto longitude() const { return west_end + spacing * (hg::cast<double>(hg::global_index<1>(depth)) + 0.5); }

  double cell() const { return spacing * spacing * earth_radius * earth_radius; }  // m^2, at the equator
  static auto globe(const Field& field) { return hg::with_boundary<hg::Zero, hg::Periodic>(field); }
  auto cosine(double side = 0) const { return hg::cos(latitude(side)); }

  auto water() const { return globe(depth) + globe(eta); }
  auto water_east() const { return 0.5 * (water() + east(water())); }  // on the cells' east sides
  auto water_south() const { return 0.5 * (water() + south(water())); }
  auto flux_east() const { return water_east() * globe(u); }
  auto flux_south() const { return water_south() * globe(v) * cosine(0.5); }  // with the length of the side
  auto kinetic() const {
    const auto u2 = hg::square(globe(u)), v2 = hg::square(globe(v));
    return 0.25 * (u2 + west(u2) + v2 + north(v2));
  }
  auto vorticity() const {  // clockwise is positive, since v runs southward; the Earth turns the other way
    const auto along = globe(u) * cosine();
    const auto turning = east(globe(v)) - globe(v) - (south(along) - along) / cosine(0.5);
    return turning / (spacing * earth_radius) - 2 * earth_rotation * hg::sin(latitude(0.5));
  }
  auto turned_east() const { return globe(q) * (globe(v) + east(globe(v))); }
  auto turned_south() const { return globe(q) * (globe(u) + south(globe(u))); }

  void step(double seconds) {
    const double rate = seconds / (spacing * earth_radius);
    q = vorticity();
    k = kinetic();
    eta = eta - rate / cosine() * (flux_east() - west(flux_east()) + flux_south() - north(flux_south()));
    const auto head = gravity * globe(eta) + globe(k);
    const auto braked_east = 1.0 + seconds * drag * hg::sqrt(k + east(globe(k))) / water_east();
    u = hg::where(
        depth > 0.0 && east(globe(depth)) > 0.0,
        (u + 0.25 * seconds * (turned_east() + north(turned_east())) - rate / cosine() * (east(head) - head)) /
            braked_east,
        0.0);
    const auto braked_south = 1.0 + seconds * drag * hg::sqrt(k + south(globe(k))) / water_south();
    v = hg::where(
        depth > 0.0 && south(globe(depth)) > 0.0,
        (v - 0.25 * seconds * (turned_south() + west(turned_south())) - rate * (south(head) - head)) / braked_south,
        0.0);
  }

  /// The longest stable step, in seconds: no wave may pass a cell within it.
  double longest_step() const {
    const auto per_second = hg::sqrt(gravity * depth * (1.0 + 1.0 / hg::square(cosine()))) / (spacing * earth_radius);
    return 1 / hg::max(per_second).item();
  }
  double volume() const { return hg::sum(cell() * eta * cosine()); }  // in m^3, above the surface at rest
  double energy() const {                                             // in J per kg/m^3 of density
    const auto twice = gravity * eta * eta * cosine() + flux_east() * u * cosine() + flux_south() * v;
    return hg::sum(0.5 * cell() * twice);
  }
};

}  // namespace shallow_water
