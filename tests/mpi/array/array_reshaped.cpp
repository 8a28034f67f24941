// program: gradients_of_maps
// Broadcasting of extents of 1, select, squeeze, unsqueeze, expand, unflatten and flatten beside plain loops, what they
// send, what they refuse, and their gradients.
//

#include <doctest/doctest.h>

#include "support/array.hpp"
#include "support/refusal.hpp"

namespace test_array_reshaped {

using namespace support;

namespace {

using hg::dyn;
template <class T>
using Plane = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
template <class T>
using RowOfAll = hg::Sharded<hg::Tensor<T, 1, dyn>, Grid, hg::Replicate, hg::Shard<1>>;
template <class T>
using ColumnOfAll = hg::Sharded<hg::Tensor<T, dyn, 1>, Grid, hg::Replicate, hg::Replicate>;
template <class T>
using OnePoint = hg::Sharded<hg::Tensor<T, 1, 1>, Grid, hg::Replicate, hg::Replicate>;
template <class T>
using Whole = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;
template <class T>
using Line = hg::Sharded<hg::Tensor<T, dyn>, Grid, hg::Replicate, hg::Replicate>;
template <class T>
using Volume = hg::Sharded<hg::Tensor<T, dyn, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<2>>;
template <class T>
using Rows = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<0>>;
template <class T>
using Slabs = hg::Sharded<hg::Tensor<T, dyn, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<0>>;

constexpr double exact = 1e-13, differences = 1e-8;

template <class F>
index_t messages_of(F f) {
  return spent(f).messages.count;
}

}  // namespace

TEST_CASE("static extents of 1 broadcast on either side, in one and both dimensions, shifted and reduced") {
  const Index<2> extents{6, 7};
  const auto a = numbers<double>(extents, 321), r = numbers<double>(Index<2>{1, 7}, 322),
             c = numbers<double>(Index<2>{6, 1}, 323), o = numbers<double>(Index<2>{1, 1}, 324);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<double>>(mesh, a, way);
    const auto row = field<RowOfAll<double>>(mesh, r, way);
    const auto column = field<ColumnOfAll<double>>(mesh, c, way);
    const auto one = field<OnePoint<double>>(mesh, o, way);
    Plane<double> v;
    CHECK(messages_of([&] { v = (u + row) * column - one / u + hg::maximum(row, u); }) == 0);
    CHECK(error(v, extents, [&](auto i) {
            return (a(i) + r(0, i[1])) * c(i[0], 0) - o(0, 0) / a(i) + std::max(a(i), r(0, i[1]));
          }) == 0);
    const Plane<double> shifted = u * hg::shift<1, 1>(row) + hg::where(u > one, hg::shift<0, -1>(column), 2.0);
    CHECK(error(shifted, extents,
                [&](auto i) { return a(i) * r(0, i[1] + 1) + (a(i) > o(0, 0) ? c(i[0] - 1, 0) : 2.0); }) == 0);
    const Plane<double> beyond = u + hg::shift<0, 1>(row);  // there is no row 1: 0, at all points
    CHECK(error(beyond, extents, a) == 0);
    const Plane<double> table = row * column + 0.0 * u;  // both are broadcast, to neither's extents
    CHECK(error(table, extents, [&](auto i) { return r(0, i[1]) * c(i[0], 0); }) == 0);
    double expected = 0;
    for_each_index(extents, [&](auto i) { expected += r(0, i[1]) * a(i); });
    CHECK(hg::sum(row * u).item() == doctest::Approx(expected).epsilon(1e-12));
    CHECK(hg::dot(u, row).item() == doctest::Approx(expected).epsilon(1e-12));
    const Plane<double> of_slice = hg::slice<0>(u, 1, 5) - row;
    CHECK(error(of_slice, {4, 7}, [&](auto i) { return a(i[0] + 1, i[1]) - r(0, i[1]); }) == 0);
    const Plane<double> of_maps = u * hg::transpose<0, 1>(hg::transpose<0, 1>(row)) -
                                  hg::squeeze<1>(hg::unsqueeze<1>(row)) * hg::slice<1>(row, 0, 7) +
                                  (row + hg::mean<0>(row, hg::keep_dimensions)) * column;
    CHECK(error(of_maps, extents, [&](auto i) {
            return a(i) * r(0, i[1]) - r(0, i[1]) * r(0, i[1]) + 2 * r(0, i[1]) * c(i[0], 0);
          }) < exact);
    Plane<double> w = u.clone();
    w += row;
    CHECK(error(w, extents, [&](auto i) { return a(i) + r(0, i[1]); }) == 0);
    const RowOfAll<double> alone = row + row;  // nothing to fit: it keeps its point
    CHECK(error(alone, {1, 7}, [&](auto i) { return 2 * r(i); }) == 0);
  });
}

TEST_CASE("extents of 1 that only the run knows: expand, or one sentence on all ranks") {
  const auto a = numbers<float>(Index<2>{6, 7}, 325), b = numbers<float>(Index<2>{1, 7}, 326);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Plane<float>>(mesh, a, way);
    const auto v = field<hg::Sharded<hg::Tensor<float, dyn, dyn>, Grid, hg::Replicate, hg::Shard<1>>>(mesh, b, way);
    const Plane<float> w = u * hg::expand<0>(v);
    CHECK(error(w, {6, 7}, [&](auto i) { return a(i) * b(0, i[1]); }) == 0);
    const auto whole = field<Whole<float>>(mesh, a), narrow = field<Whole<float>>(mesh, b);
    CHECK(refusal<hg::CollectiveError>([&] { static_cast<void>(whole * narrow); }) ==
          "operands of one expression have 6 and 1 points in dimension 0: give them the same extents, or broadcast the "
          "one of 1 point by expand<0>(it)");
    CHECK(refusal<hg::CollectiveError>([&] { static_cast<void>(hg::expand<0>(whole)); }) ==
          "expand of dimension 0 with 6 points: it must have 1; repeat points by concatenate");
  });
}

TEST_CASE("select, squeeze and unsqueeze move nothing") {
  const auto a = numbers<double>(Index<3>{5, 4, 6}, 327);
  using Flat = Plane<double>;
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Volume<double>>(mesh, a, way);
    Flat v, last, thin;
    CHECK(messages_of([&] {
            v = hg::select<1>(u, 2) + hg::sum<1>(u);
            last = hg::select<1>(hg::square(u), -1);
            thin = hg::squeeze<1>(hg::slice<1>(u, 1, 2));
          }) == 0);
    CHECK(error(v, {5, 6}, [&](auto i) {
            double sum = a(i[0], 2, i[1]);
            for (int k = 0; k < 4; ++k) sum += a(i[0], k, i[1]);
            return sum;
          }) < exact);
    CHECK(error(last, {5, 6}, [&](auto i) { return a(i[0], 3, i[1]) * a(i[0], 3, i[1]); }) == 0);
    CHECK(error(thin, {5, 6}, [&](auto i) { return a(i[0], 1, i[1]); }) == 0);
    const Flat shifted = hg::shift<1, 1>(hg::select<1>(u, 0)) - hg::select<1>(hg::shift<1, 1>(u), 3);  // the latter: 0
    CHECK(error(shifted, {5, 6}, [&](auto i) { return a(i[0], 0, i[1] + 1); }) == 0);
    const Volume<double> wide = hg::unsqueeze<1>(v) * u, alone = hg::unsqueeze<1>(v);
    CHECK(error(wide, {5, 4, 6}, [&](auto i) {
            double sum = a(i[0], 2, i[2]);
            for (int k = 0; k < 4; ++k) sum += a(i[0], k, i[2]);
            return sum * a(i);
          }) < exact);
    CHECK(alone.extent(1) == 1);
    CHECK(refusal<hg::CollectiveError>([&] { static_cast<void>(hg::select<1>(u, 4)); }) ==
          "select of index 4 of dimension 1 with 4 points: give -4..3");
    CHECK(refusal<hg::CollectiveError>([&] { static_cast<void>(hg::squeeze<1>(u)); }) ==
          "squeeze of dimension 1 with 4 points: it must have 1; select one of them");
  });
}

TEST_CASE_TEMPLATE("unflatten and flatten of what is not cut, and of the first part of what is", T, float, double,
                   int) {
  const auto a = numbers<T>(Index<2>{12, 10}, 328);
  const auto b = numbers<T>(Index<3>{5, 3, 4}, 329);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Rows<T>>(mesh, a, way);
    Slabs<T> columns, groups;
    CHECK(messages_of([&] { columns = hg::unflatten<1>(u + u, 5, 2); }) == 0);
    CHECK(error(columns, {12, 5, 2}, [&](auto i) { return 2 * a(i[0], 2 * i[1] + i[2]); }) == 0);
    groups = hg::unflatten<0>(u, -1, 3);
    CHECK(error(groups, {4, 3, 10}, [&](auto i) { return a(3 * i[0] + i[1], i[2]); }) == 0);
    Rows<T> back;
    CHECK(messages_of([&] { back = hg::flatten<0, 1>(groups); }) == 0);
    CHECK(error(back, {12, 10}, a) == 0);
    const Rows<T> pairs = hg::flatten<1, 2>(hg::shift<0, 1>(field<Slabs<T>>(mesh, b, way)));
    CHECK(error(pairs, {5, 12}, [&](auto i) { return i[0] + 1 < 5 ? b(i[0] + 1, i[1] / 4, i[1] % 4) : T(0); }) == 0);
    using Line = hg::Sharded<hg::Tensor<T, dyn>, Grid, hg::Shard<0>, hg::Shard<0>>;
    const Line line = hg::flatten<0, 2>(field<Slabs<T>>(mesh, b, way));
    CHECK(error(line, {60}, [&](auto i) { return b(i[0] / 12, i[0] / 4 % 3, i[0] % 4); }) == 0);
    using Five = hg::Sharded<hg::Tensor<T, dyn, dyn, dyn, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<0>>;
    const Five five = hg::unflatten<0>(line, 5, 1, 3, 2, 2);
    CHECK(error(five, {5, 1, 3, 2, 2}, [&](auto i) { return b(i[0], i[2], 2 * i[3] + i[4]); }) == 0);
    CHECK(refusal<hg::CollectiveError>([&] { static_cast<void>(hg::unflatten<1>(u, 5, 3)); }) ==
          "unflatten of dimension 1 with 10 points into 5 x 3: give sizes whose product is 10, one of them perhaps -1");
    constexpr hg::index_t many = hg::index_t{1} << 32;  // squared it is 0, of 64 bits
    CHECK(refusal<hg::CollectiveError>([&] {
            static_cast<void>(hg::unflatten<1>(u, many, many, -1));
          }).starts_with("unflatten of dimension 1 with 10 points into 4294967296 x 4294967296 x -1: "));
  });
}

TEST_CASE("flatten_pieces: the points of each piece in turn, back again, and its adjoint; nothing moves") {
  using Cube = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn, dyn>, Grid, hg::Shard<3>, hg::Shard<2>>;
  using Flat = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn>, Grid, hg::Shard<2>, hg::Shard<2>>;
  const Index<4> extents{2, 3, 5, 7};
  const auto a = numbers<double>(extents, 341);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Cube>(mesh, a, way);
    Flat flat;
    CHECK(messages_of([&] { flat = hg::flatten_pieces<2, 3>(2.0 * u); }) == 0);
    CHECK(flat.extent(2) == 35);
    const hg::Interval rows = u.owned(2), columns = u.owned(3);
    const std::vector<double> own = flat.to_host();
    std::size_t at = 0;
    for (index_t i = 0; i < 6; ++i)
      for (index_t y = rows.begin; y < rows.end; ++y)
        for (index_t x = columns.begin; x < columns.end; ++x) CHECK(own[at++] == 2 * a(i / 3, i % 3, y, x));
    CHECK(at == own.size());
    const hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<0>> of_three =
        hg::flatten_pieces<0, 2>(2.0 * u);
    CHECK(of_three.extent(1) == 7);
    CHECK(of_three.to_host() == own);
    CHECK(u.decomposition().joined(0, 2).part(mesh.rank(), 1) == u.decomposition().part(mesh.rank(), 3));
    Cube back;
    CHECK(messages_of([&] { back = hg::unflatten_pieces<2, 3>(0.5 * flat, u); }) == 0);
    CHECK(error(back, extents, a) == 0);
    const hg::Sharded<hg::Tensor<double, dyn, dyn, dyn>, Grid, hg::Shard<2>, hg::Shard<1>> joined =
        hg::flatten_pieces<0, 1>(u);
    CHECK(error(joined, {6, 5, 7}, [&](auto i) { return a(i[0] / 3, i[0] % 3, i[1], i[2]); }) == 0);
    CHECK(adjoint_error([](auto v) { return hg::flatten_pieces<2, 3>(hg::shift<2, 1>(v)); }, u) < exact);
    CHECK(adjoint_error([&](auto v) { return hg::unflatten_pieces<2, 3>(v, u) * u; }, flat) < exact);
    const hg::Sharded<hg::Tensor<double, dyn, dyn, dyn>, Grid, hg::Shard<2>, hg::Shard<2>> short_one =
        hg::slice<1>(hg::flatten_pieces<2, 3>(u), 0, 2);
    CHECK(short_one.extent(1) == 2);
    const auto other = field<Cube>(mesh, numbers<double>(Index<4>{2, 3, 6, 7}, 342));
    CHECK(refusal<hg::CollectiveError>([&] {
            const Cube none = hg::unflatten_pieces<2, 3>(flat, other);
          }).starts_with("unflatten_pieces: the argument has 35 points in dimension 2, `like` in pieces has 42: "));
  });
}

TEST_CASE("concatenate_pieces: rows that all ranks have before the first piece, and its adjoint; nothing moves") {
  using Flat = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn>, Grid, hg::Shard<1>, hg::Shard<1>>;
  using First = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;
  const auto a = numbers<double>(Index<3>{2, 13, 3}, 351), b = numbers<double>(Index<3>{2, 2, 3}, 352);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Flat>(mesh, a, way);
    const auto rows = field<First>(mesh, b);
    Flat both;
    CHECK(messages_of([&] { both = hg::concatenate_pieces<1>(rows, 2.0 * u); }) == 0);
    CHECK(error(both, {2, 15, 3},
                [&](auto i) { return i[1] < 2 ? b(i[0], i[1], i[2]) : 2 * a(i[0], i[1] - 2, i[2]); }) == 0);
    CHECK(both.owned(1).size() == u.owned(1).size() + (u.decomposition().part(mesh.rank(), 1) == 0 ? 2 : 0));
    const Flat w = hg::sin(3.0 * both);
    CHECK(adjoint_error([&](auto v) { return hg::concatenate_pieces<1>(0.0 * rows, v) * w; }, u) < exact);
    CHECK(adjoint_error([&](auto v) { return hg::concatenate_pieces<1>(v, 0.0 * u) * w; }, rows) < exact);
    const auto other = field<First>(mesh, numbers<double>(Index<3>{2, 2, 4}, 354));
    CHECK(refusal<hg::CollectiveError>([&] {
            const Flat none = hg::concatenate_pieces<1>(other, u);
          }).starts_with("concatenate_pieces: dimension 2 has 4 points of the rows and 3 of the field"));
  });
}

TEST_CASE("gradients of what is broadcast, of select, squeeze, unsqueeze, unflatten and flatten") {
  const auto a = numbers<double>(Index<2>{4, 6}, 330), r = numbers<double>(Index<2>{1, 6}, 331),
             c = numbers<double>(Index<2>{4, 1}, 332), o = numbers<double>(Index<2>{1, 1}, 333);
  const auto v = numbers<double>(Index<3>{4, 3, 2}, 334);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto make = [&](const auto& array) {
      if constexpr (std::decay_t<decltype(array)>::rank == 3)
        return field<Volume<double>>(mesh, array, way);
      else
        return field<Plane<double>>(mesh, array, way);
    };
    const auto of = [&]<class Field>(const Field&, const auto& array, auto f) {
      return gradient_error(maker<Field>(mesh, way), f, 1, array);
    };
    const auto u = field<Plane<double>>(mesh, a, way);
    CHECK(of(RowOfAll<double>(), r, [&](auto x) {
            return hg::sum(hg::square(u * x + hg::shift<1, 1>(x)) * u) + hg::sum(hg::square(x)) * hg::mean(x);
          }) < differences);
    CHECK(of(ColumnOfAll<double>(), c, [&](auto x) {
            return hg::sum(hg::sin(u + x) * hg::shift<0, 1>(x)) + hg::sum(hg::sum<1>(u * hg::square(x)));
          }) < differences);
    CHECK(of(OnePoint<double>(), o, [&](auto x) { return hg::sum(hg::exp(u * x)) * hg::sum(x); }) < differences);
    const auto row = field<RowOfAll<double>>(mesh, r, way);
    CHECK(gradient_error(
              make, [&](auto x) { return hg::sum(hg::square(x * row - hg::shift<0, 1>(x) * row)); }, 1, a) <
          differences);
    CHECK(gradient_error(
              make,
              [&](auto x) {
                const auto one = hg::select<1>(hg::square(x), 2);
                const auto thin = hg::squeeze<1>(hg::slice<1>(x, 0, 1));
                return hg::sum(hg::square(one) * hg::shift<0, 1>(thin)) +
                       hg::sum(hg::square(hg::unsqueeze<1>(one) * x));
              },
              1, v) < differences);
    const auto volume = field<Volume<double>>(mesh, v, way);
    CHECK(of(Line<double>(), numbers<double>(Index<1>{3}, 335), [&](auto x) {
            return hg::sum(hg::square(volume * hg::unsqueeze<2>(hg::unsqueeze<0>(x)) + hg::sin(volume)));
          }) < differences);
    CHECK(of(Slabs<double>(), v, [&](auto x) {
            const auto flat = hg::flatten<0, 1>(x * x);
            return hg::sum(hg::square(flat) * hg::shift<0, 1>(flat)) +
                   hg::sum(hg::sin(hg::flatten<1, 2>(x)) * hg::flatten<1, 2>(hg::shift<0, -1>(x)));
          }) < differences);
    CHECK(of(Rows<double>(), a, [&](auto x) {
            const auto groups = hg::unflatten<0>(hg::square(x), 2, 2);
            const auto pairs = hg::unflatten<1>(x, 2, 3);
            return hg::sum(hg::square(groups) * hg::shift<1, 1>(groups)) + hg::sum(pairs * hg::square(pairs));
          }) < differences);
  });
}

}  // namespace test_array_reshaped
