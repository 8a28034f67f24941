// program: gradients_of_maps
// matmul and einsum beside plain loops, every index whole or cut, what they send, and their gradients beside finite
// differences.
//

#include <doctest/doctest.h>

#include "support/array.hpp"
#include "support/refusal.hpp"

namespace test_array_products {

using namespace support;

namespace {

using hg::dyn;
using hg::Replicate;
using hg::Shard;
template <class T, class... P>
using Matrix = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, P...>;
template <class T, class... P>
using Vector = hg::Sharded<hg::Tensor<T, dyn>, Grid, P...>;
template <class T, class... P>
using Volume = hg::Sharded<hg::Tensor<T, dyn, dyn, dyn>, Grid, P...>;
template <class T>
using Whole = Matrix<T, Replicate, Replicate>;

constexpr double exact = 1e-13, differences = 1e-8;

/// Rows times columns, in double.
template <class A, class B>
auto product_of(const A& a, const B& b) {
  return [&](auto i) {
    double sum = 0;
    for (index_t k = 0; k < a.extents[1]; ++k) sum += static_cast<double>(a(i[0], k)) * static_cast<double>(b(k, i[1]));
    return sum;
  };
}

}  // namespace

TEST_CASE_TEMPLATE("matrices of all sizes, tiles and parts of tiles, whole on every rank", T, float, double, int) {
  using R = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
  for (const Index<3> size :
       {Index<3>{1, 1, 1}, Index<3>{7, 5, 3}, Index<3>{97, 130, 66}, Index<3>{6, 260, 1}, Index<3>{1, 70, 40}}) {
    const auto a = numbers<T>(Index<2>{size[0], size[1]}, 341), b = numbers<T>(Index<2>{size[1], size[2]}, 342);
    const auto bt = Array<T, 2>(Index<2>{size[2], size[1]}, [&](auto i) { return b(i[1], i[0]); });
    const auto mesh = all_meshes<Grid>().front();
    const auto u = field<Whole<T>>(mesh, a), v = field<Whole<T>>(mesh, b), w = field<Whole<T>>(mesh, bt);
    const double tolerance = std::is_same_v<T, float> ? 1e-4 : 1e-12;
    const Whole<R> plain = hg::matmul(u, v), turned = hg::matmul(u, hg::transpose<0, 1>(w)),
                   spelled = hg::einsum<"mk, nk -> mn">(u, w);
    CHECK(error(plain, {size[0], size[2]}, product_of(a, b)) < tolerance);
    CHECK(error(turned, {size[0], size[2]},
                [&](auto i) { return plain.to_host()[static_cast<std::size_t>(i[0] * size[2] + i[1])]; }) == 0);
    CHECK(error(Whole<R>(turned - spelled), {size[0], size[2]}, [](auto) { return 0.0; }) == 0);
  }
}

TEST_CASE("rows, columns and samples cut: nothing moves, and every bit is that of one rank") {
  const auto a = numbers<float>(Index<2>{9, 8}, 343), b = numbers<float>(Index<2>{8, 7}, 344);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto single = field<Whole<float>>(mesh, a), other = field<Whole<float>>(mesh, b);
    const Whole<float> expected = hg::matmul(single, other);
    const auto reference = expected.to_host();
    const auto same = [&](const auto& field) {
      return error(field, {9, 7}, [&](auto i) { return reference[static_cast<std::size_t>(7 * i[0] + i[1])]; }) == 0;
    };
    const auto rows = field<Matrix<float, Shard<0>, Replicate>>(mesh, a, way);
    const auto columns = field<Matrix<float, Replicate, Shard<1>>>(mesh, b, way);
    Matrix<float, Shard<0>, Shard<1>> both;
    const auto sent = spent([&] { both = hg::matmul(rows, columns); });
    CHECK(sent.messages.count + sent.all_reduces.count + sent.all_gathers.count == 0);
    CHECK(same(both));
    const Matrix<float, Shard<0>, Shard<0>> deep =
        hg::matmul(field<Matrix<float, Shard<0>, Shard<0>>>(mesh, a, way), other);
    CHECK(same(deep));
    const Matrix<float, Shard<0>, Shard<1>> more = hg::matmul(2.0f * rows, columns) - hg::matmul(rows, columns);
    CHECK(same(more));
  });
  const auto c = numbers<double>(Index<3>{5, 4, 3}, 345), d = numbers<double>(Index<3>{5, 3, 6}, 346);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Volume<double, Shard<0>, Replicate>>(mesh, c, way);
    const auto v = field<Volume<double, Shard<0>, Shard<2>>>(mesh, d, way);
    const auto of = [&](auto i) {
      double sum = 0;
      for (int k = 0; k < 3; ++k) sum += c(i[0], i[1], k) * d(i[0], k, i[2]);
      return sum;
    };
    const Volume<double, Shard<0>, Shard<2>> samples = hg::matmul(u, v);
    CHECK(error(samples, {5, 4, 6}, of) < exact);
    const Volume<double, Shard<2>, Shard<0>> turned = hg::einsum<"nij,njk->kin">(u, v);
    CHECK(error(turned, {6, 4, 5}, [&](auto i) { return of(Index<3>{i[2], i[1], i[0]}); }) < exact);
    const Matrix<double, Shard<0>, Shard<1>> traces = hg::einsum<"nj,njk->nk">(hg::sum<1>(u), v);
    CHECK(error(traces, {5, 6}, [&](auto i) {
            double sum = 0;
            for (int row = 0; row < 4; ++row) sum += of(Index<3>{i[0], row, i[1]});
            return sum;
          }) < exact);
    // weights between channels, whole on every rank, of fields that are cut in space
    const auto field_of_space = field<Volume<double, Shard<1>, Shard<2>>>(mesh, c, way);
    const auto mixing = numbers<double>(Index<2>{2, 5}, 347);
    const Volume<double, Shard<1>, Shard<2>> mixed =
        hg::einsum<"chw,dc->dhw">(field_of_space, field<Whole<double>>(mesh, mixing));
    CHECK(error(mixed, {2, 4, 3}, [&](auto i) {
            double sum = 0;
            for (int k = 0; k < 5; ++k) sum += mixing(i[0], k) * c(k, i[1], i[2]);
            return sum;
          }) < exact);
    const auto line = numbers<double>(Index<1>{3}, 348);
    const auto vector = field<Vector<double, Replicate, Replicate>>(mesh, line);
    const Matrix<double, Shard<0>, Replicate> applied = hg::matmul(u, vector);
    CHECK(error(applied, {5, 4}, [&](auto i) {
            double sum = 0;
            for (int k = 0; k < 3; ++k) sum += c(i[0], i[1], k) * line(k);
            return sum;
          }) < exact);
    const Matrix<double, Shard<0>, Shard<1>> from_left = hg::matmul(vector, v);
    CHECK(error(from_left, {5, 6}, [&](auto i) {
            double sum = 0;
            for (int k = 0; k < 3; ++k) sum += line(k) * d(i[0], k, i[1]);
            return sum;
          }) < exact);
    const Matrix<double, Replicate, Replicate> outer = hg::einsum<"i,j->ij">(vector, vector);
    CHECK(error(outer, {3, 3}, [&](auto i) { return line(i[0]) * line(i[1]); }) == 0);
  });
}

TEST_CASE("an index that is summed over is cut: a Partial field, or one sum as its target says") {
  const auto a = numbers<double>(Index<2>{6, 11}, 349), b = numbers<double>(Index<2>{11, 8}, 350);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Matrix<double, Replicate, Shard<1>>>(mesh, a, way);
    const auto v = field<Matrix<double, Replicate, Shard<0>>>(mesh, b, way);
    Matrix<double, Replicate, hg::Partial<>> due;
    const auto unsent = spent([&] { due = hg::matmul(u, v); });
    CHECK(unsent.all_reduces.count + unsent.messages.count == 0);
    CHECK(error(hg::redistribute<Whole<double>>(due), {6, 8}, product_of(a, b)) < exact);
    Whole<double> whole;
    const auto reduced = spent([&] { whole = hg::redistribute<Whole<double>>(hg::matmul(u, v)); });
    CHECK(error(whole, {6, 8}, product_of(a, b)) < exact);
    CHECK(reduced.all_reduces.count == (mesh.extent(1) > 1 ? 1 : 0));
    const Matrix<double, Shard<0>, Shard<1>> scattered =
        hg::redistribute<Matrix<double, Shard<0>, Shard<1>>>(hg::matmul(u, 3.0 * v)) - 2.0;
    CHECK(error(scattered, {6, 8}, [&](auto i) { return 3 * product_of(a, b)(i) - 2; }) < 3 * exact);
    const auto w = field<Matrix<double, Shard<0>, Shard<1>>>(mesh, a, way);
    using Rows = Matrix<double, Shard<0>, Replicate>;
    const Rows rows = hg::redistribute<Rows>(hg::matmul(w, v));  // rows cut by one mesh dimension, sums by the other
    CHECK(error(rows, {6, 8}, product_of(a, b)) < exact);
  });
}

TEST_CASE("gradients of products, whatever is cut") {
  const auto a = numbers<double>(Index<2>{4, 5}, 351), b = numbers<double>(Index<2>{5, 3}, 352);
  const auto c = numbers<double>(Index<3>{2, 4, 5}, 353);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto loss = [](const auto& p) { return hg::sum(hg::square(p) * p) + hg::mean(hg::sin(p)); };
    const auto check = [&]<class A, class B>(const A&, const B&, auto f) {
      const auto first = [&](auto x) { return f(x, field<B>(mesh, b, way)); };
      const auto second = [&](auto y) { return f(field<A>(mesh, a, way), y); };
      CHECK(gradient_error(maker<A>(mesh, way), first, 1, a) < differences);
      CHECK(gradient_error(maker<B>(mesh, way), second, 1, b) < differences);
    };
    check(Whole<double>(), Whole<double>(),
          [&](auto x, auto y) { return loss(hg::matmul(x, hg::square(y)) + hg::matmul(hg::sin(x), y)); });
    check(Matrix<double, Shard<0>, Replicate>(), Matrix<double, Replicate, Shard<1>>(),
          [&](auto x, auto y) { return loss(hg::matmul(x * x, hg::shift<0, 1>(y))); });
    check(Matrix<double, Shard<0>, Shard<0>>(), Whole<double>(),
          [&](auto x, auto y) { return loss(hg::shift<0, 1>(hg::matmul(x, y))); });
    check(Matrix<double, Shard<0>, Shard<1>>(), Matrix<double, Replicate, Shard<0>>(), [&](auto x, auto y) {
      using Cut = Matrix<double, Shard<0>, Shard<1>>;
      return loss(hg::redistribute<Cut>(hg::matmul(x, y)) + 1.0);
    });
    check(Matrix<double, Replicate, Shard<1>>(), Matrix<double, Replicate, Shard<0>>(),
          [&](auto x, auto y) { return loss(hg::redistribute<Whole<double>>(hg::matmul(hg::exp(x), y))); });
    const auto both = [&](auto x, auto y) { return loss(hg::einsum<"ki,kj->ij">(hg::transpose<0, 1>(x), y)); };
    check(Matrix<double, Replicate, Shard<0>>(), Whole<double>(), both);
    const auto twice = [&](auto x) { return loss(hg::matmul(x, hg::transpose<0, 1>(x))); };
    CHECK(gradient_error(maker<Whole<double>>(mesh, way), twice, 1, a) < differences);
    const auto w = field<Whole<double>>(mesh, b);
    CHECK(gradient_error(
              maker<Volume<double, Shard<0>, Shard<1>>>(mesh, way), [&](auto x) { return loss(hg::matmul(x, w)); }, 1,
              c) < differences);
    CHECK(gradient_error(
              maker<Whole<double>>(mesh, way),
              [&](auto y) { return loss(hg::matmul(field<Volume<double, Shard<0>, Shard<1>>>(mesh, c, way), y)); }, 1,
              b) < differences);
  });
}

TEST_CASE("a cotangent of 0 adds nothing to the gradient of a product, though the other operand be NaN or infinite") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto spoilt = [](Array<double, 2> of, int dimension, index_t from, double number) {
    for_each_index(of.extents, [&](auto i) {
      if (i[dimension] >= from) of.values[static_cast<std::size_t>(i[0] * of.extents[1] + i[1])] = number;
    });
    return of;
  };
  // c = a b counts in its first rows and columns, whose values do not depend on the spoilt ones.
  const auto check = [&]<class A, class B>(const A&, const B&, const auto& mesh, int way, Index<3> size, auto product) {
    const auto a = numbers<double>(Index<2>{size[0], size[1]}, 356),
               b = numbers<double>(Index<2>{size[1], size[2]}, 357);
    const index_t rows = size[0] - 1, columns = std::max<index_t>(1, size[2] - 1);
    const auto gradients = [&](double number) {
      auto derive = hg::value_and_grad([&](auto x, auto y) {
        const auto c = product(x, y);
        return hg::sum(hg::where(hg::global_index<0>(c) < rows && hg::global_index<1>(c) < columns, c * c, 0.0));
      });
      const auto [value, of_a, of_b] =
          derive(field<A>(mesh, spoilt(a, 0, rows, number), way), field<B>(mesh, spoilt(b, 1, columns, number), way));
      auto all = hg::full_tensor(of_a);
      for (const double g : hg::full_tensor(of_b)) all.push_back(g);
      all.push_back(value);
      return all;
    };
    CAPTURE(size[0]);
    const auto expected = gradients(0.5);
    for (const double number : {nan, infinity}) {
      const auto found = gradients(number);
      std::size_t far = 0;
      for (std::size_t i = 0; i < found.size(); ++i)
        far += !(std::abs(found[i] - expected[i]) < exact * static_cast<double>(size[1]));
      CHECK(far == 0);
    }
  };
  const auto matmul = [](auto x, auto y) { return hg::matmul(x, y); };
  everywhere<Grid>([&](const auto& mesh, int way) {
    for (const Index<3> size : {Index<3>{7, 5, 6}, Index<3>{100, 70, 66}, Index<3>{9, 8, 1}, Index<3>{3, 1, 4}})
      check(Whole<double>(), Whole<double>(), mesh, way, size, matmul);
    check(Matrix<double, Shard<0>, Replicate>(), Matrix<double, Replicate, Shard<1>>(), mesh, way, {9, 5, 8}, matmul);
    check(Matrix<double, Replicate, Shard<1>>(), Matrix<double, Replicate, Shard<0>>(), mesh, way, {9, 8, 7},
          [](auto x, auto y) { return hg::redistribute<Whole<double>>(hg::matmul(x, y)); });
  });
}

TEST_CASE("what only the run knows of a product is refused in a sentence") {
  const auto a = numbers<double>(Index<2>{4, 6}, 354), b = numbers<double>(Index<2>{5, 3}, 355);
  everywhere<Grid>([&](const auto& mesh, int way) {
    const auto u = field<Whole<double>>(mesh, a), v = field<Whole<double>>(mesh, b);
    CHECK(
        refusal<hg::CollectiveError>([&] { static_cast<void>(hg::matmul(u, v)); }) ==
        "a product's operands have 6 points in dimension 1 of the first and 5 in dimension 0 of the second: they must "
        "be equal");
    const auto x = field<Matrix<double, Replicate, Shard<1>>>(mesh, a, 0);
    const auto y = field<Matrix<double, Replicate, Shard<1>>>(mesh, a, 1);
    const bool differ = x.cut(1) != y.cut(1);
    const std::string said = refusal<hg::CollectiveError>(
        [&] { const Matrix<double, Replicate, hg::Partial<>> p = hg::einsum<"ik,jk->ij">(x, y); });
    CHECK(said == (differ
                       ? "a product's operands are cut differently in dimension 1 of the first and 1 of the second, of "
                         "6 points: redistribute one to the other's cuts"
                       : ""));
    static_cast<void>(way);
  });
  const auto meshes = all_meshes<Grid>();
  const auto u = field<Whole<double>>(meshes.front(), a), v = field<Whole<double>>(meshes.front(), a);
  CHECK(hg::explain(hg::matmul(u, hg::transpose<0, 1>(v))).find("product, summed over ranks") != std::string::npos);
  const auto elsewhere = field<Whole<double>>(all_meshes<Grid>().front(), a);
  CHECK(refusal<hg::CollectiveError>([&] { const Whole<double> w = hg::matmul(u, hg::transpose<0, 1>(elsewhere)); }) ==
        "the operands of a product lie on different meshes: distribute them on one");
}

}  // namespace test_array_products
