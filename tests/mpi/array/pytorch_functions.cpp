// program: expressions
// Every row of docs/pytorch_functions.md that says `here` or `spelled` is computed here, and its value compared with
// plain loops. A row without a line below, or a line without a row, is a failure: the table cannot go stale.
//
// ranks: 2

#include <doctest/doctest.h>

#include <fstream>
#include <numeric>
#include <set>

#include "support/array.hpp"

namespace test_pytorch_functions {

using namespace support;

namespace {

using hg::dyn;
using Field = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
using Whole = hg::Sharded<hg::Tensor<double, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;
using Line = hg::Sharded<hg::Tensor<double, dyn>, Grid, hg::Replicate, hg::Replicate>;
using Heads = hg::Sharded<hg::Tensor<double, dyn, dyn, dyn, dyn>, Grid, hg::Shard<2>, hg::Shard<1>>;

constexpr Index<2> extents{6, 5};
constexpr double tolerance = 1e-12;

struct Sum {
  template <class A, class B>
  KOKKOS_FUNCTION auto operator()(A a, B b) const {
    return a + 2 * b;
  }
};

/// Names of the lines below, by what they are computed in.
std::set<std::string>& computed() {
  static std::set<std::string> names;
  return names;
}

/// Rows of the table that have a computation.
std::set<std::string> rows() {
  std::ifstream table(HALOGEN_TEST_DATA "/../../docs/pytorch_functions.md");
  REQUIRE(table.good());
  std::set<std::string> names;
  for (std::string line; std::getline(table, line);)
    for (const std::string state : {" | here | ", " | spelled | "})
      if (const auto at = line.find(state); line.rfind("| ", 0) == 0 && at != std::string::npos)
        names.insert(line.substr(2, at - 2));
  return names;
}

Array<double, 2> values(int stream) {
  return {extents, [n = std::uint64_t{0}, stream](auto) mutable {
            return 0.1 + 0.8 * hg::uniform_at(17, static_cast<std::uint64_t>(stream), n++);
          }};
}

double squares_of_row(const Array<double, 2>& a, index_t row) {
  double sum = 0;
  for (index_t x = 0; x < extents[1]; ++x) sum += a(row, x) * a(row, x);
  return sum;
}

struct Fixture {
  hg::DeviceMesh<Grid> mesh = hg::device_mesh<Grid>(grid_world(), {-1, 1});
  Array<double, 2> a = values(1), b = values(2);
  Field u = field<Field>(mesh, a), v = field<Field>(mesh, b);
  Whole whole = field<Whole>(mesh, a);
};

}  // namespace

#define POINT(name, expression, value)                        \
  computed().insert(name);                                    \
  {                                                           \
    INFO(name);                                               \
    const Field result = expression;                          \
    const double worst = error(result, extents, [&](auto i) { \
      [[maybe_unused]] const double x = a(i), y = b(i);       \
      return static_cast<double>(value);                      \
    });                                                       \
    CHECK(worst >= 0);                                        \
    CHECK(worst < tolerance);                                 \
  }
#define FIELD(name, expression, value)                                 \
  computed().insert(name);                                             \
  {                                                                    \
    INFO(name);                                                        \
    const Field result = expression;                                   \
    CHECK(error(result, extents, [&](auto i) { return value; }) == 0); \
  }
#define SAME(name, expression) FIELD(name, expression, a(i))
#define NUMBER(name, expression, value)                         \
  computed().insert(name);                                      \
  {                                                             \
    INFO(name);                                                 \
    const double result = (expression).item();                  \
    CHECK(result == doctest::Approx(value).epsilon(tolerance)); \
  }

TEST_CASE_FIXTURE(Fixture, "functions of values, point by point") {
  POINT("sin", (hg::sin(u)), std::sin(x));
  POINT("cos", (hg::cos(u)), std::cos(x));
  POINT("tan", (hg::tan(u)), std::tan(x));
  POINT("asin", (hg::asin(u)), std::asin(x));
  POINT("acos", (hg::acos(u)), std::acos(x));
  POINT("atan", (hg::atan(u)), std::atan(x));
  POINT("sinh", (hg::sinh(u)), std::sinh(x));
  POINT("cosh", (hg::cosh(u)), std::cosh(x));
  POINT("tanh", (hg::tanh(u)), std::tanh(x));
  POINT("asinh", (hg::asinh(u)), std::asinh(x));
  POINT("atanh", (hg::atanh(u)), std::atanh(x));
  POINT("exp", (hg::exp(u)), std::exp(x));
  POINT("exp2", (hg::exp2(u)), std::exp2(x));
  POINT("expm1", (hg::expm1(u)), std::expm1(x));
  POINT("log", (hg::log(u)), std::log(x));
  POINT("log2", (hg::log2(u)), std::log2(x));
  POINT("log10", (hg::log10(u)), std::log10(x));
  POINT("log1p", (hg::log1p(u)), std::log1p(x));
  POINT("sqrt", (hg::sqrt(u)), std::sqrt(x));
  POINT("erf", (hg::erf(u)), std::erf(x));
  POINT("erfc", (hg::erfc(u)), std::erfc(x));
  POINT("abs", (hg::abs(u)), std::abs(x));
  POINT("floor", (hg::floor(u)), std::floor(x));
  POINT("ceil", (hg::ceil(u)), std::ceil(x));
  POINT("trunc", (hg::trunc(u)), std::trunc(x));
  POINT("acosh", (hg::acosh(u + 1.0)), std::acosh(x + 1));
  POINT("rsqrt", (hg::rsqrt(u)), 1 / std::sqrt(x));
  POINT("square", (hg::square(u)), x * x);
  POINT("sign", (hg::sign(u - 0.5)), (x > 0.5) - (x < 0.5));
  POINT("round", (hg::round(4.0 * u)), std::nearbyint(4 * x));
  POINT("sigmoid", (hg::sigmoid(u)), 1 / (1 + std::exp(-x)));
  POINT("relu", (hg::relu(u - 0.5)), std::max(x - 0.5, 0.0));
  POINT("reciprocal", (hg::reciprocal(u)), 1 / x);
  POINT("neg", (-u), -x);
  POINT("add, sub, mul, div", ((u + v) * u / v - u), (x + y) * x / y - x);
  POINT("pow", (hg::pow(u, v)), std::pow(x, y));
  POINT("atan2", (hg::atan2(u, v)), std::atan2(x, y));
  POINT("hypot", (hg::hypot(u, v)), std::hypot(x, y));
  POINT("remainder", (hg::remainder(-u, v)), -x - y * std::floor(-x / y));
  POINT("fmod", (hg::fmod(-u, v)), std::fmod(-x, y));
  POINT("maximum, minimum", (hg::maximum(u, v) - hg::minimum(u, v)), std::abs(x - y));
  POINT("clamp", (hg::clamp(u, 0.3, 0.6)), std::clamp(x, 0.3, 0.6));
  POINT("where", (hg::where(u > v, u, 2.0 * v)), x > y ? x : 2 * y);
  POINT("eq, ne, lt, le, gt, ge", (hg::cast<double>(u < v) + hg::cast<double>(u != v)), (x < y) + (x != y));
  POINT("logical_and, logical_or, logical_not", (hg::cast<double>((u > 0.5 && v > 0.5) || !(u > 0.2))),
        ((x > 0.5 && y > 0.5) || !(x > 0.2)));
  POINT("logical_xor", (hg::cast<double>(hg::logical_xor(u > 0.5, v > 0.5))), (x > 0.5) != (y > 0.5));
  POINT("isnan, isfinite, isinf", (hg::cast<double>(hg::isfinite(u) && !hg::isnan(u) && !hg::isinf(u))), 1);
  POINT("Tensor.to, type, float, double", (hg::cast<int>(4.0 * u) + 0.0), std::trunc(4 * x));
  POINT("Tensor.detach", (hg::detach(u)), x);
  POINT("frac", (u - hg::trunc(u)), x - std::trunc(x));
  POINT("floor_divide", (hg::floor_divide(-u, v)), std::floor(-x / y));
  POINT("lerp", (hg::lerp(u, v, 0.25)), x + 0.25 * (y - x));
  POINT("addcmul, addcdiv", (u + 0.5 * v * u + (v - 0.5 * u / v)), x + 0.5 * y * x + y - 0.5 * x / y);
  POINT("logaddexp", (hg::logaddexp(u, v)), std::log(std::exp(x) + std::exp(y)));
  POINT("softplus", (hg::softplus(u)), std::log1p(std::exp(x)));
  POINT("silu", (u * hg::sigmoid(u)), x / (1 + std::exp(-x)));
  POINT("gelu", (0.5 * u * (1.0 + hg::erf(std::sqrt(0.5) * u))), 0.5 * x * (1 + std::erf(std::sqrt(0.5) * x)));
  POINT("leaky_relu, elu", (hg::where(u > 0.5, u, hg::expm1(u))), x > 0.5 ? x : std::expm1(x));
  POINT("nan_to_num", (hg::nan_to_num(u)), x);
  POINT("masked_fill", (hg::where(u > v, 7.0, u)), x > y ? 7 : x);
  POINT("isclose", (hg::cast<double>(hg::isclose(u, v, 0.1, 0.1))), std::abs(x - y) <= 0.1 + 0.1 * y);
  POINT("deg2rad, rad2deg", (u * 0.017453292519943295), x * 0.017453292519943295);
  POINT("logit", (hg::logit(u)), std::log(x / (1 - x)));
  POINT("any function of values (vmap over points)", (hg::apply(Sum{}, u, v)), x + 2 * y);
  POINT("full_like, ones_like, zeros_like", (hg::full_like(u, 2) + hg::ones_like(u) + hg::zeros_like(v)), 3);
  POINT("gradient", (hg::gradient<0>(u)),
        (a(std::min<index_t>(i[0] + 1, 5), i[1]) - a(std::max<index_t>(i[0] - 1, 0), i[1])) /
            (i[0] == 0 || i[0] == 5 ? 1.0 : 2.0));
  POINT("normalize", (hg::normalize<1>(u)), x / std::sqrt(squares_of_row(a, i[0])));
}

TEST_CASE_FIXTURE(Fixture, "functions that move points") {
  FIELD("flip", (hg::flip<0>(u)), a(5 - i[0], i[1]));
  FIELD("roll", (hg::roll<1>(u, 1)), a(i[0], (i[1] + 4) % 5));
  SAME("permute", (hg::permute<1, 0>(hg::permute<1, 0>(u))));
  SAME("transpose, swapaxes", (hg::transpose<0, 1>(hg::transpose<0, 1>(u))));
  SAME("cat, concatenate", (hg::slice<0>(hg::concatenate<0>(u, v), 0, 6)));
  SAME("narrow, u[a:b:s]", (hg::concatenate<1>(hg::slice<1>(u, 0, 3), hg::slice<1>(u, 3, 5))));
  SAME("nn.functional.pad with zeros", (hg::slice<0>(hg::pad<0>(u, 2, 1), 2, 8)));
  SAME("expand, broadcast_to", (u + 0.0 * hg::expand<0>(hg::slice<0>(whole, 0, 1))));
  SAME("broadcasting of a vector", (u + 0.0 * hg::along<1>(hg::redistribute<Line>(hg::sum<0>(u)))));
  SAME("chunk, split, unbind, tensor_split", (hg::concatenate<0>(hg::slice<0>(u, 0, 3), hg::slice<0>(u, 3, 6))));
  SAME("rot90", (hg::transpose<0, 1>(hg::flip<0>(hg::flip<0>(hg::transpose<0, 1>(u))))));
  SAME("movedim", (hg::permute<1, 0>(hg::permute<1, 0>(u))));
  SAME("DTensor.redistribute", (hg::redistribute<Field>(hg::redistribute<Whole>(u))));
}

TEST_CASE_FIXTURE(Fixture, "functions whose result is a number, or is summed to one") {
  const double rows = 6, columns = 5, count = 30;
  double sum = 0, sum_of_squares = 0, sum_of_powers = 0, squares = 0, product = 1, most = -1, least = 2, lower = 0,
         trace = 0, first_column = 0, first_row = 0, last_row = 0, gram = 0, gram_of_columns = 0, matrix_vector = 0,
         covariance = 0, trapezoid = 0, furthest = 0, furthest_least = 0;
  std::vector<double> row(6), column(5);
  for_each_index(extents, [&](auto i) {
    const double x = a(i);
    sum += x, sum_of_squares += x * x, sum_of_powers += std::exp(x), product *= x;
    most = std::max(most, x), least = std::min(least, x);
    if (i[1] <= i[0]) lower += x;
    if (i[0] == i[1]) trace += x;
    if (i[1] == 0) first_column += x;
    row[static_cast<std::size_t>(i[0])] += x, column[static_cast<std::size_t>(i[1])] += x;
  });
  first_row = row[0], last_row = row[5];
  for (int y = 0; y < 5; ++y) trapezoid += row[static_cast<std::size_t>(y)] + row[static_cast<std::size_t>(y) + 1];
  for_each_index(extents, [&](auto i) { squares += (a(i) - sum / count) * (a(i) - sum / count); });
  for (const double c : column) gram += c * c;
  for (const double r : row) gram_of_columns += r * r;
  for (index_t y = 0; y < 6; ++y) {
    index_t largest = 0, smallest = 0;
    for (index_t x = 0; x < 5; ++x) {
      matrix_vector += a(y, x) * column[static_cast<std::size_t>(x)];
      if (a(y, x) > a(y, largest)) largest = x;
      if (a(y, x) < a(y, smallest)) smallest = x;
    }
    furthest = std::max(furthest, static_cast<double>(largest));
    furthest_least = std::max(furthest_least, static_cast<double>(smallest));
  }
  for (index_t x = 0; x < 5; ++x) {
    double deviation = 0;
    for (index_t y = 0; y < 6; ++y) deviation += a(y, x) - row[static_cast<std::size_t>(y)] / columns;
    covariance += deviation * deviation / 4;
  }
  const Heads heads(mesh, {1, 2, 4, 3});
  NUMBER("sum", (hg::sum(hg::sum<0>(u))), sum)
  NUMBER("mean", (hg::mean(hg::mean<1>(u))), sum / count)
  NUMBER("var", (hg::var(u)), squares / (count - 1))
  NUMBER("std", (hg::std(u, 0)), std::sqrt(squares / count))
  NUMBER("amax, max", (hg::max(hg::max<0>(u))), most)
  NUMBER("amin, min", (hg::min(hg::min<1>(u))), least)
  NUMBER("argmax", (hg::max(hg::cast<double>(hg::argmax<1>(u)))), furthest)
  NUMBER("norm, linalg.vector_norm", (hg::norm(u)), std::sqrt(sum_of_squares))
  NUMBER("dot, vdot", (hg::dot(u, u)), sum_of_squares)
  NUMBER("logsumexp", (hg::logsumexp(u)), std::log(sum_of_powers))
  NUMBER("keepdim=True", (hg::sum(u - hg::mean<1>(u, hg::keep_dimensions)) + 1.0), 1)
  NUMBER("argmin", (hg::max(hg::cast<double>(hg::argmin<1>(u)))), furthest_least)
  NUMBER("all", (hg::min(hg::cast<int>(u > 0.0)) + 0.0), 1)
  NUMBER("any", (hg::max(hg::cast<int>(u > 2.0)) + 0.0), 0)
  NUMBER("count_nonzero", (hg::sum(hg::cast<int>(u != 0.0)) + 0.0), count)
  NUMBER("prod", (hg::prod(u)), product)
  NUMBER("nansum, nanmean", (hg::sum(hg::where(hg::isnan(u), 0.0, u)) / hg::sum(hg::cast<int>(!hg::isnan(u))) * count),
         sum)
  NUMBER("var_mean, std_mean", (hg::var(u) + hg::mean(u)), squares / (count - 1) + sum / count)
  NUMBER("linalg.norm of order 1 and infinity", (hg::sum(hg::abs(u)) + hg::max(hg::abs(u))), sum + most)
  NUMBER("allclose", (hg::allclose(u, u) + 0.0 * hg::sum(u)), 1)
  NUMBER("aminmax", (hg::max(u) - hg::min(u)), most - least)
  NUMBER("cosine_similarity", (hg::cosine_similarity(u, u)), 1)
  NUMBER("mse_loss, l1_loss of fields", (hg::mean(hg::square(u - 0.0))), sum_of_squares / count)
  NUMBER("cumsum", (hg::max(hg::cumulative_sum<0>(hg::sum<1>(u)))), sum)
  NUMBER("softmax", (hg::sum(hg::softmax<1>(u))), rows)
  NUMBER("log_softmax", (hg::sum(hg::exp(hg::log_softmax<0>(u)))), columns)
  NUMBER("softmin", (hg::sum(hg::softmin<1>(u))), rows)
  NUMBER("layer_norm",
         (hg::sum((u - hg::mean<1>(u, hg::keep_dimensions)) * hg::rsqrt(hg::var<1>(u, hg::keep_dimensions, 0) + 1e-5)) +
          1.0),
         1)
  NUMBER("trapezoid", (hg::sum(hg::slice<0>(hg::sum<1>(u) + hg::shift<0, 1>(hg::sum<1>(u)), 0, 5))), trapezoid)
  NUMBER("einsum of one operand", (hg::sum(hg::permute<1, 0>(u))), sum)
  NUMBER("select, u[:, i]", (hg::sum(hg::select<1>(whole, 0)) + 0.0 * hg::sum(u)), first_column)
  NUMBER("squeeze", (hg::sum(hg::squeeze<1>(hg::slice<1>(whole, 0, 1)))), first_column)
  NUMBER("unsqueeze", (hg::sum(hg::unsqueeze<0>(u))), sum)
  NUMBER("unflatten", (hg::sum(hg::unflatten<0>(u, 3, 2))), sum)
  NUMBER("flatten", (hg::sum(hg::flatten<0, 1>(whole))), sum)
  NUMBER("stack", (hg::sum(hg::concatenate<0>(hg::unsqueeze<0>(u), hg::unsqueeze<0>(u)))), 2 * sum)
  NUMBER("repeat, tile", (hg::sum(hg::concatenate<1>(u, u))), 2 * sum)
  NUMBER("reshape, view", (hg::sum(hg::unflatten<0>(hg::flatten<0, 1>(whole), 10, 3))), sum)
  NUMBER("diff", (hg::sum(hg::slice<0>(hg::shift<0, 1>(u) - u, 0, 5))), last_row - first_row)
  NUMBER("nn.functional.pad with images", (hg::sum(hg::shift<0, 1>(hg::with_boundary<hg::Periodic, hg::Periodic>(u)))),
         sum)
  NUMBER("tril, triu", (hg::sum(hg::where(hg::global_index<1>(u) <= hg::global_index<0>(u), u, 0.0))), lower)
  NUMBER("index of every point (meshgrid, arange beside u)", (hg::max(hg::global_index<0>(u) + 0.0 * u)), 5)
  NUMBER("linspace", (hg::max(0.5 + hg::global_index<1>(u) * 0.25 + 0.0 * u)), 1.5)
  NUMBER("eye", (hg::sum(hg::cast<double>(hg::global_index<0>(u) == hg::global_index<1>(u)) + 0.0 * u)), columns)
  NUMBER("trace, diagonal sums", (hg::sum(hg::where(hg::global_index<0>(u) == hg::global_index<1>(u), u, 0.0))), trace)
  NUMBER("nn.functional.one_hot", (hg::sum(hg::cast<double>(hg::global_index<1>(u) == 2) + 0.0 * u)), rows)
  NUMBER("rand_like, randn_like, bernoulli",
         (hg::sum(hg::cast<double>(hg::rand_like(u, hg::Generator{1}) < 1.0) +
                  0.0 * hg::randn_like(u, hg::Generator{1}) + 0.0 * u)),
         count)
  NUMBER("index_select of a few rows", (hg::sum(hg::concatenate<0>(hg::slice<0>(u, 5, 6), hg::slice<0>(u, 0, 1)))),
         first_row + last_row)
  NUMBER("matmul, mm, bmm", (hg::sum(hg::matmul(whole, hg::transpose<0, 1>(whole)))), gram)
  NUMBER("mv", (hg::sum(hg::matmul(whole, hg::sum<0>(whole)))), matrix_vector)
  NUMBER("einsum of two operands", (hg::sum(hg::einsum<"ij,kj->ik">(whole, whole))), gram)
  NUMBER("nn.functional.scaled_dot_product_attention",
         (hg::sum(hg::scaled_dot_product_attention(heads, heads, heads) + 0.0 * heads) + 1.0), 1)
  NUMBER("outer", (hg::sum(hg::einsum<"i,j->ij">(hg::sum<0>(whole), hg::sum<1>(whole)))), sum * sum)
  NUMBER("tensordot", (hg::sum(hg::einsum<"ij,ik->jk">(whole, whole))), gram_of_columns)
  NUMBER("nn.functional.linear", (hg::sum(hg::matmul(whole, hg::transpose<0, 1>(whole)) + 1.0)), gram + 36)
  NUMBER("cov",
         (hg::sum(hg::einsum<"in,jn->ij">(whole - hg::mean<1>(whole, hg::keep_dimensions),
                                          whole - hg::mean<1>(whole, hg::keep_dimensions)) /
                  4.0)),
         covariance)
  NUMBER("cross", (hg::sum(u * v - v * u) + 1.0), 1)
  NUMBER("kron", (hg::sum(hg::flatten<0, 1>(hg::einsum<"ij,kl->ikjl">(whole, whole)))), sum * sum)
  NUMBER("DTensor.full_tensor", (0.0 * hg::sum(u) + static_cast<double>(hg::full_tensor(u).size())), count)
  NUMBER("autograd.grad, func.grad", (hg::sum(hg::grad([](auto w) { return hg::sum(hg::square(w)); })(u))), 2 * sum)
  NUMBER("func.grad_and_value", (hg::sum(std::get<1>(hg::value_and_grad([](auto w) { return hg::sum(w * w); })(u)))),
         2 * sum)
  NUMBER("func.vjp", (hg::sum(std::get<0>(hg::vjp([](auto w) { return 3.0 * w; }, u).second(u)))), 3 * sum)
}

/// A field whose points are these values, again and again.
Field repeated(const hg::DeviceMesh<Grid>& mesh, const std::vector<double>& values) {
  return field<Field>(mesh, Array<double, 2>(extents, [&](auto i) {
                        return values[static_cast<std::size_t>(i[0] * extents[1] + i[1]) % values.size()];
                      }));
}

/// |found - expected|, of NaN and infinities too.
bool alike(double found, double expected) {
  return std::isnan(expected) ? std::isnan(found) : found == expected || std::abs(found - expected) < 1e-12;
}

TEST_CASE_FIXTURE(Fixture, "what is spelled holds at 0, below it, beside infinities and NaN, and so do its gradients") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const auto check = [&](const std::string& name, const std::vector<double>& x, const std::vector<double>& expected,
                         const std::vector<double>& slopes, auto f) {
    CAPTURE(name);
    const auto [value, pull] = hg::vjp(f, repeated(mesh, x));
    const Field ones = hg::ones_like(value), slope = std::get<0>(pull(ones));
    const auto found = value.to_host(), found_slope = slope.to_host();
    const auto at = repeated(mesh, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}).to_host();
    for (std::size_t n = 0; n < found.size(); ++n) {
      const std::size_t k = static_cast<std::size_t>(at[n]) % x.size();
      CAPTURE(x[k]);
      CAPTURE(found[n]);
      CAPTURE(found_slope[n]);
      CHECK(alike(found[n], expected[k]));
      CHECK(alike(found_slope[n], slopes[k]));
    }
  };
  const std::vector<double> x{0, -1.5, 1000, nan, -1000};  // 15 points repeat them
  const auto logistic = [](double t) { return 1 / (1 + std::exp(-t)); };
  const double s = logistic(-1.5), e = std::exp(-1.5), pi = 3.141592653589793;
  check("frac", x, {0, -0.5, 0, nan, 0}, {1, 1, 1, 1, 1}, [](auto w) { return w - hg::trunc(w); });
  check("addcdiv", x, {2, 0.5, 1002, nan, -998}, {1, 1, 1, 1, 1},
        [](auto w) { return w + 0.5 * 8.0 / hg::full_like(w, 2); });
  check("silu", x, {0, -1.5 * s, 1000, nan, 0}, {0.5, s - 1.5 * s * (1 - s), 1, nan, 0},
        [](auto w) { return w * hg::sigmoid(w); });
  const double phi = 0.5 * std::erfc(1.5 / std::sqrt(2.0)), density = std::exp(-1.125) / std::sqrt(2 * pi);
  check("gelu", x, {0, -1.5 * phi, 1000, nan, 0}, {0.5, phi - 1.5 * density, 1, nan, 0},
        [](auto w) { return 0.5 * w * (1.0 + hg::erf(0.7071067811865476 * w)); });
  check("leaky_relu", x, {0, -0.15, 1000, nan, -100}, {0.1, 0.1, 1, 0.1, 0.1},
        [](auto w) { return hg::where(w > 0.0, w, 0.1 * w); });
  check("elu", x, {0, 2 * (e - 1), 1000, nan, -2}, {2, 2 * e, 1, nan, 0},
        [](auto w) { return hg::where(w > 0.0, w, 2.0 * hg::expm1(w)); });
  check("masked_fill", x, {0, 7, 1000, nan, 7}, {1, 0, 1, 1, 0}, [](auto w) { return hg::where(w < 0.0, 7.0, w); });
  const std::vector<double> y{0, -infinity, infinity, nan, -2};
  check("deg2rad", y, {0, -infinity, infinity, nan, -2 * pi / 180}, std::vector<double>(5, pi / 180),
        [](auto w) { return w * 0.017453292519943295; });
  check("leaky_relu", y, {0, -infinity, infinity, nan, -0.2}, {0.1, 0.1, 1, 0.1, 0.1},
        [](auto w) { return hg::where(w > 0.0, w, 0.1 * w); });
  check("elu", y, {0, -1, infinity, nan, std::expm1(-2)}, {1, 0, 1, nan, std::exp(-2)},
        [](auto w) { return hg::where(w > 0.0, w, hg::expm1(w)); });
  check("tril", y, {0, -infinity, infinity, nan, -2}, {1, 1, 1, 1, 1},
        [](auto w) { return hg::where(hg::global_index<1>(w) >= hg::index_t{0}, w, 0.0); });

  const Field special = repeated(mesh, y), signs = repeated(mesh, {0, -1, 2, -3, 0});
  CHECK((hg::min(hg::cast<int>(special > -3.0)) == 1).item() == false);
  CHECK((hg::max(hg::cast<int>(hg::isnan(special))) == 1).item());
  CHECK(hg::sum(hg::cast<int>(special != 0.0)).item() == 24);  // NaN is not 0
  CHECK(hg::sum(hg::cast<int>(signs != 0.0)).item() == 18);
  const auto mean_of_numbers = [](auto w) {
    return hg::sum(hg::where(hg::isnan(w), 0.0, w)) / hg::sum(hg::cast<int>(!hg::isnan(w)));
  };
  const Field holes = repeated(mesh, {1, nan, 2, 4, 9});
  CHECK(mean_of_numbers(holes).item() == 4);
  const Field slope = hg::grad([&](auto w) { return mean_of_numbers(w); })(holes);
  const auto value = holes.to_host(), slopes = slope.to_host();
  for (std::size_t n = 0; n < value.size(); ++n) CHECK(alike(slopes[n], std::isnan(value[n]) ? 0 : 1 / 24.0));
  CHECK(std::isnan((hg::max(hg::abs(special))).item()));
  CHECK((hg::sum(hg::abs(signs)) + hg::max(hg::abs(signs))).item() == 6 * 6 + 3);
  CHECK(std::isinf(hg::sum(hg::abs(hg::where(hg::isnan(special), 0.0, special))).item()));
  CHECK(hg::mean(hg::square(signs - 1.0)).item() == doctest::Approx((1 + 4 + 1 + 16 + 1) / 5.0));
  const Field line = hg::zeros_like(special) + hg::global_index<1>(special);
  CHECK(hg::sum(line).item() == 60);
  const Field layer = (signs - hg::mean<1>(signs, hg::keep_dimensions)) *
                      hg::rsqrt(hg::var<1>(0.0 * signs, hg::keep_dimensions, 0) + 0.25);
  CHECK(hg::max(hg::abs(hg::mean<1>(layer))).item() < 1e-12);
}

template <class T>
using CutOf = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
template <class T>
using WholeOf = hg::Sharded<hg::Tensor<T, dyn, dyn>, Grid, hg::Replicate, hg::Replicate>;

/// visit(name, f) of rows that move points and write 0 elsewhere. T: the operand's values.
template <class T, class Visit>
void rows_of_cut_fields(Visit visit) {
  visit("flip", [](auto w) { return hg::flip<0>(w); });
  visit("roll", [](auto w) { return hg::roll<0>(w, -2); });
  visit("permute", [](auto w) { return hg::permute<1, 0>(w); });
  visit("transpose, swapaxes", [](auto w) { return hg::transpose<0, 1>(w); });
  visit("cat, concatenate", [](auto w) { return hg::concatenate<0>(w, hg::flip<1>(w)); });
  visit("narrow, u[a:b:s]", [](auto w) { return hg::slice<0>(w, 1, 6, 2); });
  visit("nn.functional.pad with zeros", [](auto w) { return hg::pad<0>(w, 2, 1); });
  visit("unsqueeze", [](auto w) { return hg::unsqueeze<0>(w); });
  visit("unflatten", [](auto w) { return hg::unflatten<0>(w, 3, 2); });
  visit("stack", [](auto w) { return hg::concatenate<0>(hg::unsqueeze<0>(w), hg::unsqueeze<0>(w)); });
  visit("chunk", [](auto w) { return hg::concatenate<0>(hg::slice<0>(w, 3, 6), hg::slice<0>(w, 0, 3)); });
  visit("repeat, tile", [](auto w) { return hg::concatenate<1>(w, w); });
  visit("rot90", [](auto w) { return hg::flip<0>(hg::transpose<0, 1>(w)); });
  visit("nn.functional.pad with images",
        [](auto w) { return hg::shift<0, 2>(hg::with_boundary<hg::Reflect, hg::ReplicateEdge>(w)); });
  visit("tril, triu",
        [](auto w) { return hg::where(hg::global_index<1>(w) <= hg::global_index<0>(w), w, hg::zeros_like(w)); });
  visit("index_select", [](auto w) { return hg::concatenate<0>(hg::slice<0>(w, 5, 6), hg::slice<0>(w, 0, 1)); });
  visit("DTensor.redistribute", [](auto w) { return hg::redistribute<WholeOf<T>>(w); });
}
template <class Visit>
void rows_of_whole_fields(Visit visit) {
  visit("select, u[:, i]", [](auto w) { return hg::select<1>(w, 2); });
  visit("squeeze", [](auto w) { return hg::squeeze<1>(hg::slice<1>(w, 4, 5)); });
  visit("flatten", [](auto w) { return hg::flatten<0, 1>(w); });
  visit("reshape, view", [](auto w) { return hg::unflatten<0>(hg::flatten<0, 1>(w), 10, 3); });
  visit("expand, broadcast_to", [](auto w) {
    return hg::where(hg::global_index<0>(w) == hg::index_t{2}, hg::zeros_like(w), hg::expand<0>(hg::slice<0>(w, 3, 4)));
  });
  visit("broadcasting of a vector", [](auto w) {
    return hg::where(hg::global_index<0>(w) == hg::index_t{1}, hg::zeros_like(w), hg::along<1>(hg::select<0>(w, 1)));
  });
}

/// Which points a row moves where is found with the points' numbers, from 1.
template <class T, template <class> class FieldOf>
struct MovedPoints {
  const hg::DeviceMesh<Grid>& mesh;
  std::vector<T> specials;

  T special(T number) const { return specials[static_cast<std::size_t>(number) % specials.size()]; }
  FieldOf<T> numbers(bool are_special) const {
    return field<FieldOf<T>>(mesh, Array<T, 2>(extents, [&](auto i) {
                               const T number = static_cast<T>(i[0] * extents[1] + i[1] + 1);
                               return are_special ? special(number) : number;
                             }));
  }
  /// As bits, but for which NaN it is.
  static bool is_same(T a, T b) {
    if constexpr (std::is_floating_point_v<T>)
      return std::isnan(b) ? std::isnan(a) : a == b && std::signbit(a) == std::signbit(b);
    else
      return a == b;
  }
  template <class F>
  void operator()(const std::string& name, F f) const {
    CAPTURE(name);
    const auto field = numbers(false), special_field = numbers(true);
    using Result = hg::FieldOf<hg::expression_of<decltype(f(field))>>;
    const Result places = f(field), found = f(special_field);
    const auto from = places.to_host(), values = found.to_host();
    for (std::size_t n = 0; n < from.size(); ++n) {
      CAPTURE(from[n]);
      CHECK(is_same(values[n], from[n] == T(0) ? T(0) : special(from[n])));
    }
    if constexpr (std::is_floating_point_v<T>) check_gradient(f, field);
  }
  /// Each point gets what its images get, infinities and NaN too, and nothing where it has none.
  template <class F>
  void check_gradient(F f, const FieldOf<T>& field) const {
    const auto [places, pull] = hg::vjp(f, field);
    auto given = places.to_host();
    for (double& value : given) value = value == 0 ? special(0) : special(value);
    auto cotangent = places;
    cotangent.copy_from_host(given);
    const std::decay_t<decltype(places)> ones = hg::ones_like(places);
    const FieldOf<T> images = std::get<0>(pull(ones)), slope = std::get<0>(pull(cotangent));
    const auto number = field.to_host(), count = images.to_host(), found = slope.to_host();
    for (std::size_t n = 0; n < number.size(); ++n) {
      CAPTURE(number[n]);
      CAPTURE(found[n]);
      CHECK(alike(found[n], count[n] == 0 ? 0 : count[n] * special(number[n])));
    }
  }
};

TEST_CASE_FIXTURE(Fixture,
                  "rows that move points keep infinities, NaN and extreme integers, and so do their gradients") {
  const double infinity = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  const std::vector<double> reals{nan, infinity, -3, -infinity, 0, -0.0, 1e300};
  rows_of_cut_fields<double>(MovedPoints<double, CutOf>{mesh, reals});
  rows_of_whole_fields(MovedPoints<double, WholeOf>{mesh, reals});
  using Integer = long long;  // of 64 bits, and moved by this program alone (house.compiled_list)
  const std::vector<Integer> integers{std::numeric_limits<Integer>::min(), -1, std::numeric_limits<Integer>::max()};
  rows_of_cut_fields<Integer>(MovedPoints<Integer, CutOf>{mesh, integers});
  rows_of_whole_fields(MovedPoints<Integer, WholeOf>{mesh, integers});
}

TEST_CASE_FIXTURE(Fixture, "gradients of the functions that no other test differentiates") {
  CHECK(gradient_error(
            maker<Field>(mesh, 0),
            [](auto x, auto y) {
              return hg::sum(hg::exp2(x) * hg::log2(y) + hg::asinh(x) * hg::acosh(y + 1.0) +
                             hg::atanh(x) * hg::erfc(y)) +
                     hg::sum(hg::reciprocal(0.5 + x) * y + hg::fmod(7.3 + x, 2.0 + 0.1 * y));
            },
            1, a, b) < 1e-6);  // third derivatives near the ends are large
}

TEST_CASE("the table has a row for every computation, and a computation for every row") {
  const std::set<std::string> said = rows();
  CHECK(said.size() > 100);
  for (const std::string& name : said) {
    INFO(name);
    CHECK(computed().contains(name));
  }
  for (const std::string& name : computed()) {
    INFO(name);
    CHECK(said.contains(name));
  }
}

#undef POINT
#undef FIELD
#undef SAME
#undef NUMBER

}  // namespace test_pytorch_functions
