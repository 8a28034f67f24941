// Host arrays that Halogen did not compute, and fields beside them: filled and compared point by point, each rank its
// own piece, so that nothing of what is tested has a part in the comparison.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "halogen/array_language.hpp"
#include "support/grid.hpp"

namespace support {

namespace hg = halogen;
using hg::index_t;

template <int Rank>
using Index = std::array<index_t, Rank>;

/// f of every index below `extents`, row-major.
template <std::size_t Rank, class F>
void for_each_index(const std::array<index_t, Rank>& extents, F f) {
  index_t count = 1;
  for (const index_t extent : extents) count *= extent;
  for (index_t n = 0; n < count; ++n) {
    std::array<index_t, Rank> index{};
    index_t rest = n;
    for (std::size_t d = Rank; d-- > 0; rest /= extents[d]) index[d] = rest % extents[d];
    f(index);
  }
}

/// Row-major values; a(i, j) is 0 beyond the ends, as a Zero boundary says.
template <class T, int Rank>
struct Array {
  static constexpr int rank = Rank;
  Index<Rank> extents;
  std::vector<T> values;

  template <class F>
  Array(const Index<Rank>& e, F value) : extents(e) {
    for_each_index(extents, [&](const Index<Rank>& i) { values.push_back(static_cast<T>(value(i))); });
  }
  std::size_t offset(const Index<Rank>& i) const {
    index_t offset = 0;
    for (std::size_t d = 0; d < Rank; ++d) offset = offset * extents[d] + i[d];
    return static_cast<std::size_t>(offset);
  }
  T operator()(const Index<Rank>& i) const {
    for (std::size_t d = 0; d < Rank; ++d)
      if (i[d] < 0 || i[d] >= extents[d]) return T(0);
    return values[offset(i)];
  }
  template <class... I>
    requires(sizeof...(I) == Rank)
  T operator()(I... i) const {
    return (*this)(Index<Rank>{static_cast<index_t>(i)...});
  }
};

/// Numbers in (-1, 1), or whole ones in (-50, 50) for integers; another array for another stream.
template <class T, std::size_t Rank>
Array<T, static_cast<int>(Rank)> numbers(const std::array<index_t, Rank>& extents, int stream) {
  std::uint64_t n = 0;
  return {extents, [&](const auto&) {
            const double u = 2 * hg::uniform_at(11, static_cast<std::uint64_t>(stream), n++) - 1;
            return std::is_integral_v<T> ? std::floor(50 * u) : u;
          }};
}

/// What f() sent.
template <class F>
hg::CommStatistics spent(F f) {
  const auto before = hg::comm_stats();
  f();
  return hg::comm_stats() - before;
}

/// All meshes of this type over the started ranks.
template <class MeshType>
Meshes<MeshType> all_meshes() {
  Meshes<MeshType> meshes;
  typename hg::DeviceMesh<MeshType>::Coordinate extents{};
  const std::function<void(std::size_t, int)> extend = [&](std::size_t i, int ranks) {
    if (i + 1 == extents.size()) {
      extents[i] = ranks;
      meshes.push_back(hg::device_mesh<MeshType>(grid_world(), extents));
      return;
    }
    for (extents[i] = 1; extents[i] <= ranks; ++extents[i])
      if (const int mine = extents[i]; ranks % mine == 0) extend(i + 1, ranks / mine);
  };
  extend(0, grid_world().size());
  return meshes;
}

/// How tests cut: as torch.chunk, or unevenly in ways that differ, some pieces perhaps without a point.
inline constexpr int ways_to_cut = 3;
inline hg::Cut cut(index_t extent, int parts, int way) {
  if (way == 0) return hg::Cut::chunk(extent, parts);
  hg::Cut cut;
  cut.bounds.assign(1, 0);
  for (int p = 1; p < parts; ++p)
    cut.bounds.push_back(std::min(extent, cut.bounds.back() + (p * 5 + way * 3) % 4 * extent / (2 * parts)));
  cut.bounds.push_back(extent);
  return cut;
}

/// f(mesh, way) on every mesh and every way to cut.
template <class MeshType, class F>
void everywhere(F f) {
  for (const auto& mesh : all_meshes<MeshType>())
    for (int way = 0; way < ways_to_cut; ++way) {
      CAPTURE(way);
      CAPTURE(mesh.extents()[0]);
      f(mesh, way);
    }
}

/// A field with the array's values.
template <class Field, class T>
Field field(const hg::DeviceMesh<typename Field::mesh_type>& mesh, const Array<T, Field::rank>& array, int way = 0) {
  const hg::Decomposition pieces(mesh.extents(), Field::placements, Field::mesh_type::names);
  std::array<hg::Cut, Field::rank> cuts;
  for (int d = 0; d < Field::rank; ++d)
    cuts[static_cast<std::size_t>(d)] = cut(array.extents[static_cast<std::size_t>(d)], pieces.parts(d), way);
  Field result(mesh, cuts);
  std::vector<typename Field::value_type> own;
  hg::detail::for_each_point(result, mesh.rank(), [&](index_t i) {
    own.push_back(static_cast<typename Field::value_type>(array.values[static_cast<std::size_t>(i)]));
  });
  result.copy_from_host(own);
  return result;
}

/// Largest |field - expected(index)| over this rank's piece; -1 where the field has not these extents. NaN is 1e300.
template <class Field, class F>
double error(const Field& field, const Index<Field::rank>& extents, F expected) {
  Index<Field::rank> size{};
  for (int d = 0; d < Field::rank; ++d) {
    if (field.extent(d) != extents[static_cast<std::size_t>(d)]) return -1;
    size[static_cast<std::size_t>(d)] = field.local_extent(d);
  }
  const auto own = field.to_host();
  std::size_t n = 0;
  double worst = 0;
  for_each_index(size, [&](Index<Field::rank> i) {
    for (int d = 0; d < Field::rank; ++d) i[static_cast<std::size_t>(d)] += field.offset(d);
    const double difference = std::abs(static_cast<double>(own[n++]) - static_cast<double>(expected(i)));
    worst = std::max(worst, difference <= 1e300 ? difference : 1e300);
  });
  return worst;
}

/// Makes fields of arrays, for gradient_error.
template <class Field, class MeshType>
auto maker(const hg::DeviceMesh<MeshType>& mesh, int way) {
  return [mesh, way](const auto& array) { return field<Field>(mesh, array, way); };
}

/// The whole gradient of f at fields made of `arrays`, compared with central differences of f at every `stride`-th
/// point: largest error. f takes fields (or variables) and returns a number. On more than four ranks, where a value of
/// f takes longest, at every fifth of these points, from another first one at each call.
template <class Make, class F, class... Arrays>
double gradient_error(Make make, F f, int stride, const Arrays&... arrays) {
  const auto evaluate = [&](const auto& tuple) {
    return std::apply([&](const auto&... a) { return static_cast<double>(f(make(a)...).item()); }, tuple);
  };
  auto all = std::tuple(arrays...);
  auto derive = hg::value_and_grad(f);
  const auto result = derive(make(arrays)...);
  double worst = std::abs(std::get<0>(result) - evaluate(all));
  static std::size_t calls = 0;
  const std::size_t share = grid_world().size() > 4 ? 5 : 1, first = calls++ % share * static_cast<std::size_t>(stride);
  const auto one = [&]<std::size_t K>(std::integral_constant<std::size_t, K>) {
    const auto gradient = hg::full_tensor(std::get<K + 1>(result));
    auto& values = std::get<K>(all).values;
    if (gradient.size() != values.size()) worst = 1e300;
    for (std::size_t i = first < values.size() ? first : 0; i < values.size();
         i += share * static_cast<std::size_t>(stride)) {
      const double x = values[i], step = 1e-5;
      values[i] = x + step;
      const double up = evaluate(all);
      values[i] = x - step;
      const double down = evaluate(all);
      values[i] = x;
      const double difference = std::abs((up - down) / (2 * step) - gradient[i]);
      worst = std::max(worst, difference <= 1e300 ? difference : 1e300);
    }
  };
  [&]<std::size_t... K>(std::index_sequence<K...>) {
    (one(std::integral_constant<std::size_t, K>{}), ...);
  }(std::index_sequence_for<Arrays...>{});
  return worst;
}

/// |<f(x), y> - <x, f'(y)>| for a linear f of one field, relative; x and y are random, <., .> on the host.
template <class F, class Field>
double adjoint_error(F f, const Field& x) {
  auto [value, pull] = hg::vjp(f, x);
  auto y = value.clone();
  auto own = y.to_host();
  std::size_t n = 0;
  hg::detail::for_each_point(y, y.mesh().rank(), [&](index_t i) {
    own[n++] =
        static_cast<typename decltype(own)::value_type>(2 * hg::uniform_at(12, 7, static_cast<std::uint64_t>(i)) - 1);
  });
  y.copy_from_host(own);
  const auto gradient = std::get<0>(pull(y));
  const auto dot = [](const auto& a, const auto& b) {
    double sum = 0;
    for (std::size_t i = 0; i < a.size(); ++i) sum += static_cast<double>(a[i]) * static_cast<double>(b[i]);
    return sum;
  };
  const auto xs = hg::full_tensor(x), fx = hg::full_tensor(value), ys = hg::full_tensor(y),
             gs = hg::full_tensor(gradient);
  return std::abs(dot(fx, ys) - dot(xs, gs)) / (1 + std::sqrt(dot(fx, fx) * dot(ys, ys)));
}

}  // namespace support
