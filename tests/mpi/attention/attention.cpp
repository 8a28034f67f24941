// transports: mpi nccl nccl_windows
// program: attention
// optimise: 1
// The plain loops beside take a minute at -O0.
//
// Attention over fields whose samples, heads or sequence are cut, beside PyTorch's tensors, plain loops and finite
// differences, on every mesh of the ranks; what it sends against the formula of docs/communication.md.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/array.hpp"
#include "support/kokkos_events.hpp"
#include "support/reference.hpp"
#include "support/refusal.hpp"

namespace test_attention {

using namespace support;

namespace {

using hg::dyn;
using Line = hg::Mesh<"line">;
template <class T, class MeshType, class... P>
using Rows = hg::Sharded<hg::Tensor<T, dyn, dyn, dyn, dyn>, MeshType, P...>;
template <class T>
using Sequence = Rows<T, Line, hg::Shard<2>>;
template <class T>
using Both = Rows<T, Grid, hg::Shard<2>, hg::Shard<2>>;
template <class T>
using BatchSequence = Rows<T, Grid, hg::Shard<0>, hg::Shard<2>>;
template <class T>
using HeadsSequence = Rows<T, Grid, hg::Shard<2>, hg::Shard<1>>;
template <class T>
using BatchHeads = Rows<T, Grid, hg::Shard<1>, hg::Shard<0>>;
template <class T>
using Whole = Rows<T, Grid, hg::Replicate, hg::Shard<2>>;

using Numbers = Array<double, 4>;

/// softmax(scale q k^T) v as its definition has it.
Numbers plain_attention(const Numbers& q, const Numbers& k, const Numbers& v, bool is_causal, double scale = 0) {
  const auto [n, heads, length, embedding] = q.extents;
  const index_t keys = k.extents[2];
  if (scale == 0) scale = 1 / std::sqrt(static_cast<double>(embedding));
  Numbers result({n, heads, length, v.extents[3]}, [](auto) { return 0.0; });
  for_each_index(Index<3>{n, heads, length}, [&](Index<3> i) {
    const index_t seen = is_causal ? std::min(keys, i[2] + 1) : keys;
    std::vector<double> p;
    double largest = -std::numeric_limits<double>::infinity(), sum = 0;
    for (index_t j = 0; j < seen; ++j) {
      double logit = 0;
      for (index_t e = 0; e < q.extents[3]; ++e) logit += q(i[0], i[1], i[2], e) * k(i[0], i[1], j, e);
      p.push_back(scale * logit);
      largest = std::max(largest, p.back());
    }
    for (double& one : p) sum += one = std::exp(one - largest);
    for (index_t e = 0; e < v.extents[3]; ++e)
      for (index_t j = 0; j < seen; ++j)
        result.values[result.offset({i[0], i[1], i[2], e})] +=
            p[static_cast<std::size_t>(j)] / sum * v(i[0], i[1], j, e);
  });
  return result;
}

Numbers stored(const Reference& reference, const std::string& name) {
  const auto shape = reference.shape(name);
  const auto values = reference.values(name);
  std::size_t n = 0;
  return {{shape[0], shape[1], shape[2], shape[3]}, [&](auto) { return values[n++]; }};
}

/// Largest difference of a field from an array, in units of the array's largest value.
template <class Field>
double distance(const Field& field, const Numbers& expected) {
  double largest = 0;
  for (const double value : expected.values) largest = std::max(largest, std::abs(value));
  return error(field, expected.extents, [&](auto i) { return expected(i); }) / largest;
}

/// Result and gradients of sum(result * g), each beside what is expected.
template <template <class> class FieldOf, class T>
void check_beside(const auto& mesh, int way, const Numbers (&given)[4], const Numbers (&expected)[4],
                  const hg::AttentionOptions& options, double tolerance) {
  using Field = FieldOf<T>;
  const auto q = field<Field>(mesh, given[0], way), k = field<Field>(mesh, given[1], way),
             v = field<Field>(mesh, given[2], way), g = field<Field>(mesh, given[3], way);
  const Field y = hg::scaled_dot_product_attention(q, k, v, options);
  CHECK(distance(y, expected[0]) < tolerance);
  const auto [loss, dq, dk, dv] = hg::value_and_grad(
      [&](auto q, auto k, auto v) { return hg::sum(hg::scaled_dot_product_attention(q, k, v, options) * g); })(q, k, v);
  CHECK(distance(dq, expected[1]) < tolerance);
  CHECK(distance(dk, expected[2]) < tolerance);
  CHECK(distance(dv, expected[3]) < tolerance);
}

/// What f() sent.
hg::DeviceMesh<Line> line() { return hg::device_mesh<Line>(grid_world(), {-1}); }

/// Deterministic numbers for (samples, heads, positions, width).
Numbers rows(index_t n, index_t heads, index_t positions, index_t width, int stream) {
  return numbers<double>(Index<4>{n, heads, positions, width}, stream);
}

}  // namespace

TEST_CASE("output and gradients are PyTorch's, whatever is cut") {
  const Reference reference("attention");
  for (int number = 0; number < 7; ++number) {
    CAPTURE(number);
    const std::string name = "case" + std::to_string(number) + ".";
    const auto parameters = reference.values(name + "parameters");
    hg::AttentionOptions options;
    options.is_causal = parameters[0] != 0;
    if (parameters[1] != 0) options.scale = parameters[1] / 1000;
    const Numbers given[4] = {stored(reference, name + "query"), stored(reference, name + "key"),
                              stored(reference, name + "value"), stored(reference, name + "grad_output")};
    const Numbers expected[4] = {stored(reference, name + "output"), stored(reference, name + "grad_query"),
                                 stored(reference, name + "grad_key"), stored(reference, name + "grad_value")};
    everywhere<Line>([&](const auto& mesh, int way) {
      check_beside<Sequence, double>(mesh, way, given, expected, options, 1e-12);
      check_beside<Sequence, float>(mesh, way, given, expected, options, number == 6 ? 1e-3 : 2e-5);
    });
    everywhere<Grid>([&](const auto& mesh, int way) {
      CAPTURE(mesh.extents()[1]);
      check_beside<BatchSequence, double>(mesh, way, given, expected, options, 1e-12);
      check_beside<HeadsSequence, double>(mesh, way, given, expected, options, 1e-12);
      check_beside<BatchHeads, double>(mesh, way, given, expected, options, 1e-12);
      check_beside<Both, double>(mesh, way, given, expected, options, 1e-12);
      check_beside<Whole, double>(mesh, way, given, expected, options, 1e-12);
    });
  }
}

TEST_CASE("several tiles of queries and keys, on every line, beside plain loops") {
  for (const bool is_causal : {false, true})
    for (const auto& [length, keys] : {std::pair<index_t, index_t>{150, 131}, {67, 200}}) {
      const auto q = rows(1, 2, length, 9, 1), k = rows(1, 2, keys, 9, 2), v = rows(1, 2, keys, 17, 3);
      const auto expected = plain_attention(q, k, v, is_causal);
      everywhere<Line>([&](const auto& mesh, int way) {
        using Field = Sequence<double>;
        const Field y = hg::scaled_dot_product_attention(field<Field>(mesh, q, way), field<Field>(mesh, k, way),
                                                         field<Field>(mesh, v, way), {.is_causal = is_causal});
        CHECK(distance(y, expected) < 1e-13);
        using Half = Sequence<hg::bfloat16>;  // stored and sent in two bytes, computed in float
        const auto q2 = field<Half>(mesh, q, way), k2 = field<Half>(mesh, k, way), v2 = field<Half>(mesh, v, way);
        const Sequence<float> rough = hg::scaled_dot_product_attention(q2, k2, v2, {.is_causal = is_causal});
        const Sequence<float> exact =
            hg::scaled_dot_product_attention(Sequence<float>(q2 * 1.0f), Sequence<float>(k2 * 1.0f),
                                             Sequence<float>(v2 * 1.0f), {.is_causal = is_causal});
        CHECK(rough.to_host() == exact.to_host());  // two bytes hold these values: the same bits
        CHECK(distance(rough, expected) < 2e-2);
      });
    }
}

/// Key or value heads once for each head of queries that sees them, as torch.repeat_interleave.
Numbers repeated(const Numbers& a, index_t group) {
  auto extents = a.extents;
  extents[1] *= group;
  return {extents, [&](auto i) { return a(i[0], i[1] / group, i[2], i[3]); }};
}

TEST_CASE("grouped queries: as if keys and values were repeated, which travel once") {
  constexpr index_t group = 3;
  const hg::AttentionOptions options{.enable_gqa = true};
  for (const bool is_causal : {false, true}) {
    hg::AttentionOptions each = options;
    each.is_causal = is_causal;
    const auto q = rows(2, 2 * group, 70, 16, 31), k = rows(2, 2, 59, 16, 32), v = rows(2, 2, 59, 32, 33);
    const auto expected = plain_attention(q, repeated(k, group), repeated(v, group), is_causal);
    everywhere<Line>([&](const auto& mesh, int way) {
      using Field = Sequence<double>;
      const Field y = hg::scaled_dot_product_attention(field<Field>(mesh, q, way), field<Field>(mesh, k, way),
                                                       field<Field>(mesh, v, way), each);
      CHECK(distance(y, expected) < 1e-13);
    });
    const auto small = rows(2, 2 * group, 11, 3, 34), keys = rows(2, 2, 7, 3, 35);
    everywhere<Line>([&](const auto& mesh, int way) {
      using Field = Sequence<double>;
      const auto goal = field<Field>(mesh, rows(2, 2 * group, 11, 3, 36), way);
      const auto loss = [&](auto a, auto b) {
        return hg::mean(hg::square(hg::scaled_dot_product_attention(a, b, hg::sin(b), each) - goal));
      };
      CHECK(gradient_error(maker<Field>(mesh, way), loss, 5, small, keys) < 1e-8);
    });
    everywhere<Grid>([&](const auto& mesh, int) {  // heads cut, where groups end
      using Field = BatchHeads<double>;
      const auto a = field<Field>(mesh, q), b = field<Field>(mesh, k), c = field<Field>(mesh, v);
      const bool fits = a.cut(1) == hg::Cut{[&] {
                          std::vector<index_t> bounds = b.cut(1).bounds;
                          for (index_t& bound : bounds) bound *= group;
                          return bounds;
                        }()};
      if (!fits) {
        CHECK(
            refusal<hg::CollectiveError>([&] { const Field y = hg::scaled_dot_product_attention(a, b, c, each); }) ==
            "attention: query and key have 6 and 2 heads: with enable_gqa those of the query are a multiple, cut where "
            "groups end");
        return;
      }
      const Field y = hg::scaled_dot_product_attention(a, b, c, each);
      CHECK(distance(y, expected) < 1e-13);
    });
  }
  // all gradients by one kernel, or one by one
  const auto q = rows(1, 4, 60, 32, 37), k = rows(1, 2, 60, 32, 38), g = rows(1, 4, 60, 32, 39);
  everywhere<Line>([&](const auto& mesh, int way) {
    using Field = Sequence<double>;
    const auto a = field<Field>(mesh, q, way), b = field<Field>(mesh, k, way), d = field<Field>(mesh, g, way);
    const auto loss = [&](auto x, auto y, auto z) {
      return hg::sum(hg::scaled_dot_product_attention(x, y, z, options) * d);
    };
    const auto [both, dq, dk, dv] = hg::value_and_grad(loss)(a, b, b);
    const Field alone = hg::grad([&](auto y) { return loss(a, y, b); })(b);
    const auto wide = field<Field>(mesh, repeated(k, 2), way);
    const auto plain = [&](auto x, auto y, auto z) { return hg::sum(hg::scaled_dot_product_attention(x, y, z) * d); };
    const auto [all, eq, ek, ev] = hg::value_and_grad(plain)(a, wide, wide);
    const auto numbers_of = [](const auto& field, index_t heads) {
      const auto values = hg::full_tensor(field);
      std::size_t n = 0;
      return Numbers({1, heads, 60, 32}, [&](auto) { return values[n++]; });
    };
    const auto sums_of_pairs = [&](const auto& field) {
      const Numbers each = numbers_of(field, 4);
      return Numbers({1, 2, 60, 32},
                     [&](auto i) { return each(i[0], 2 * i[1], i[2], i[3]) + each(i[0], 2 * i[1] + 1, i[2], i[3]); });
    };
    CHECK(distance(dq, numbers_of(eq, 4)) < 1e-12);
    CHECK(distance(dk, sums_of_pairs(ek)) < 1e-12);
    CHECK(distance(alone, sums_of_pairs(ek)) < 1e-12);
    CHECK(distance(dv, sums_of_pairs(ev)) < 1e-12);
  });
  const auto mesh = line();
  const auto a = field<Sequence<float>>(mesh, rows(1, 6, 48, 5, 40)),
             b = field<Sequence<float>>(mesh, rows(1, 2, 24, 5, 41));
  Sequence<float> y;
  const auto sent = spent([&] { y = hg::scaled_dot_product_attention(a, b, b, options); });
  CHECK(sent.messages.count == mesh.size() - 1);
  CHECK(sent.messages.bytes == 4 * (mesh.size() - 1) * 2 * (24 / mesh.size()) * (5 + 5));
}

TEST_CASE("gradients are finite differences', through expressions and of fields that stand in it several times") {
  const auto a = rows(2, 2, 11, 3, 4), b = rows(2, 2, 6, 3, 5), target = rows(2, 2, 11, 3, 6);
  everywhere<Line>([&](const auto& mesh, int way) {
    using Field = Sequence<double>;
    const auto goal = field<Field>(mesh, target, way);
    for (const bool is_causal : {false, true}) {
      const hg::AttentionOptions options{.is_causal = is_causal};
      const auto cross = [&](auto q, auto k) {
        return hg::mean(hg::square(hg::scaled_dot_product_attention(2.0 * q, k, hg::sin(k), options) - goal));
      };
      CHECK(gradient_error(maker<Field>(mesh, way), cross, 5, a, b) < 1e-8);
      const auto own = [&](auto u) {
        const auto once = hg::scaled_dot_product_attention(u, u, u, options);
        return hg::sum(hg::scaled_dot_product_attention(u, once, once * u, options) * goal);
      };
      CHECK(gradient_error(maker<Field>(mesh, way), own, 7, a) < 1e-7);
    }
    for (const double scale : {-0.5, 0.0}) {
      const hg::AttentionOptions options{.is_causal = true, .scale = scale};
      const auto scaled = [&](auto q, auto k) {
        return hg::sum(hg::scaled_dot_product_attention(q, k, hg::sin(k), options) * goal);
      };
      CHECK(gradient_error(maker<Field>(mesh, way), scaled, 5, a, b) < 1e-8);
    }
    const auto keys_alone = [&](auto k) {  // dq is not asked for
      return hg::sum(hg::scaled_dot_product_attention(goal, k, k));
    };
    CHECK(gradient_error(maker<Field>(mesh, way), keys_alone, 5, b) < 1e-8);
    const auto turned = rows(2, 11, 2, 3, 7);  // whole on every rank, (N, L, H, E)
    const auto queries_alone = [&](auto q) {
      return hg::sum(hg::square(hg::scaled_dot_product_attention(hg::transpose<1, 2>(q), goal, goal)));
    };
    CHECK(gradient_error(maker<Rows<double, Line, hg::Replicate>>(mesh, way), queries_alone, 5, turned) < 1e-8);
  });
}

TEST_CASE("equal keys give the mean of the values, and outputs that are 0 stay 0") {
  everywhere<Line>([&](const auto& mesh, int way) {
    using Field = Sequence<double>;
    const Numbers q = rows(1, 2, 5, 4, 7), k({1, 2, 13, 4}, [](auto i) { return 0.25 * static_cast<double>(i[3]); });
    Numbers v = rows(1, 2, 13, 3, 8);
    for (index_t l = 0; l < 13; ++l) v.values[v.offset({0, 1, l, 2})] = 0;
    const auto queries = field<Field>(mesh, q, way), keys = field<Field>(mesh, k, way),
               values = field<Field>(mesh, v, way);
    const Field y = hg::scaled_dot_product_attention(queries, keys, values);
    CHECK(error(y, {1, 2, 5, 3}, [&](auto i) {
            double mean = 0;
            for (index_t l = 0; l < 13; ++l) mean += v(0, i[1], l, i[3]) / 13;
            return mean;
          }) < 1e-15);
    const auto own = y.to_host();
    for (std::size_t i = own.size() / 2 + 2; i < own.size(); i += 3) CHECK(own[i] == 0.0);  // column 2 of head 1
    // all values 0: the output is 0 everywhere, the gradient of v is not
    const Field zeros(mesh, values.cuts());
    const Field ones = 0.0 * queries + 1.0;
    const auto [loss, dq, dk, dv] = hg::value_and_grad([&](auto q, auto k, auto v) {
      return hg::sum(hg::scaled_dot_product_attention(q, k, v));
    })(queries, keys, zeros);
    CHECK(loss == 0);
    CHECK(error(dq, q.extents, [](auto) { return 0.0; }) == 0);
    CHECK(error(dk, k.extents, [](auto) { return 0.0; }) == 0);
    CHECK(error(dv, v.extents, [](auto) { return 5.0 / 13; }) < 1e-15);
  });
}

TEST_CASE("logits of any size: no overflow, and a query that sees only -infinity gives 0") {
  everywhere<Line>([&](const auto& mesh, int way) {
    using Field = Sequence<float>;
    Numbers q({1, 1, 6, 2}, [](auto) { return 1e4; }), k = rows(1, 1, 9, 2, 9), v = rows(1, 1, 9, 2, 10);
    for (double& one : k.values) one = std::round(8 * one) * 1e3;
    k.values[k.offset({0, 0, 3, 0})] = 2e4;  // the largest logit, by far
    const Field y = hg::scaled_dot_product_attention(field<Field>(mesh, q, way), field<Field>(mesh, k, way),
                                                     field<Field>(mesh, v, way));
    CHECK(error(y, {1, 1, 6, 2}, [&](auto i) { return static_cast<float>(v(0, 0, 3, i[3])); }) == 0);
    using Wide = Sequence<double>;
    const auto far = field<Wide>(mesh, Numbers({1, 1, 9, 2}, [](auto) { return -1e308; }), way);
    const auto queries = field<Wide>(mesh, q, way), values = field<Wide>(mesh, v, way);
    const auto [loss, dq, dv] = hg::value_and_grad(
        [&](auto q, auto v) { return hg::sum(hg::scaled_dot_product_attention(q, far, v)); })(queries, values);
    CHECK(loss == 0);
    CHECK(error(dq, q.extents, [](auto) { return 0.0; }) == 0);
    CHECK(error(dv, v.extents, [](auto) { return 0.0; }) == 0);
  });
}

TEST_CASE("the same bits on every mesh that leaves the sequence whole") {
  const auto q = rows(3, 4, 70, 5, 11), k = rows(3, 4, 66, 5, 12), v = rows(3, 4, 66, 5, 13);
  const auto one = hg::device_mesh<Grid>(hg::Communicator(), {1, 1});
  const auto run = [&](const auto& mesh, int way) {
    using Field = BatchHeads<float>;
    const auto a = field<Field>(mesh, q, way), b = field<Field>(mesh, k, way), c = field<Field>(mesh, v, way);
    const auto [loss, dq, dk, dv] = hg::value_and_grad(
        [](auto q, auto k, auto v) { return hg::sum(hg::square(hg::scaled_dot_product_attention(q, k, v))); })(a, b, c);
    return std::vector<std::vector<float>>{hg::full_tensor(Field(hg::scaled_dot_product_attention(a, b, c))),
                                           hg::full_tensor(dq), hg::full_tensor(dk), hg::full_tensor(dv)};
  };
  const auto alone = run(one, 0);
  everywhere<Grid>([&](const auto& mesh, int way) { CHECK(run(mesh, way) == alone); });
}

TEST_CASE("all gradients by one kernel, or one by one, have the same bits; two bytes are only stored") {
  const auto q = rows(1, 4, 100, 32, 21), k = rows(1, 4, 75, 32, 22), v = rows(1, 4, 75, 64, 23);
  const auto check = [&]<class T>(const auto& mesh, int way, bool is_causal, T) {
    using Field = Sequence<T>;
    const auto a = field<Field>(mesh, q, way), b = field<Field>(mesh, k, way), c = field<Field>(mesh, v, way);
    const auto f = [&](auto q, auto k, auto v) {
      return hg::sum(hg::square(hg::scaled_dot_product_attention(q, k, v, {.is_causal = is_causal})));
    };
    const auto [loss, dq, dk, dv] = hg::value_and_grad(f)(a, b, c);
    const auto query_alone = hg::grad([&](auto q) { return f(q, b, c); })(a);
    const auto [key_alone, value_alone] = hg::grad([&](auto k, auto v) { return f(a, k, v); })(b, c);
    const auto same = [](const auto& one, const auto& other) {
      const auto left = one.to_host(), right = other.to_host();
      return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                        [](auto x, auto y) { return static_cast<double>(x) == static_cast<double>(y); });
    };
    CHECK(same(dq, query_alone));
    CHECK(same(dk, key_alone));
    CHECK(same(dv, value_alone));
    if constexpr (std::is_same_v<T, hg::bfloat16>) {
      using Single = Sequence<float>;
      const auto [single, sq, sk, sv] = hg::value_and_grad(f)(Single(a * 1.0f), Single(b * 1.0f), Single(c * 1.0f));
      CHECK(loss == single);
      CHECK(same(dq, Field(hg::cast<hg::bfloat16>(sq))));
      CHECK(same(dk, Field(hg::cast<hg::bfloat16>(sk))));
      CHECK(same(dv, Field(hg::cast<hg::bfloat16>(sv))));
    }
  };
  everywhere<Line>([&](const auto& mesh, int way) {
    for (const bool is_causal : {false, true}) {
      check(mesh, way, is_causal, float{});
      check(mesh, way, is_causal, double{});
      check(mesh, way, is_causal, hg::bfloat16{});
    }
  });
}

TEST_CASE("messages and bytes") {
  const auto mesh = line();
  const int ranks = mesh.size(), rank = mesh.rank();
  const auto q = rows(2, 3, 48, 5, 14), k = rows(2, 3, 24, 5, 15), v = rows(2, 3, 24, 7, 16);
  const index_t piece = 24 / ranks, pairs = 2 * 3 * piece * (5 + 7);
  using Field = Sequence<float>;
  const auto a = field<Field>(mesh, q), b = field<Field>(mesh, k), c = field<Field>(mesh, v);
  Field y;
  const auto forward = spent([&] { y = hg::scaled_dot_product_attention(a, b, c); });
  CHECK(forward.messages.count == ranks - 1);
  CHECK(forward.messages.bytes == 4 * (ranks - 1) * pairs);
  CHECK(forward.all_reduces.count + forward.all_gathers.count + forward.broadcasts.count == 0);

  const auto f = [](auto q, auto k, auto v) { return hg::sum(hg::scaled_dot_product_attention(q, k, v)); };
  const auto backward = spent([&] { static_cast<void>(hg::value_and_grad(f)(a, b, c)); });
  const int sums = ranks > 1 ? ranks : 0;
  CHECK(backward.messages.count == 2 * (ranks - 1) + sums);
  CHECK(backward.messages.bytes == 4 * (2 * (ranks - 1) + sums) * pairs);
  const auto of_query = spent([&] { static_cast<void>(hg::grad([&](auto q) { return f(q, b, c); })(a)); });
  CHECK(of_query.messages.count == 2 * (ranks - 1));

  // values in two bytes travel so, gradients in four
  using Half = Sequence<hg::bfloat16>;
  const auto a2 = field<Half>(mesh, q), b2 = field<Half>(mesh, k), c2 = field<Half>(mesh, v);
  const auto half = spent([&] { static_cast<void>(hg::value_and_grad(f)(a2, b2, c2)); });
  CHECK(half.messages.bytes == 2 * 2 * (ranks - 1) * pairs + 4 * sums * pairs);

  // causal with equal cuts: piece c goes from rank c to the last one, its gradients the same way and home
  Field z;
  const auto own = spent([&] { z = hg::scaled_dot_product_attention(b, b, b, {.is_causal = true}); });
  const index_t square = 2 * 3 * piece * (5 + 5);
  const int passed = rank + 1 < ranks ? rank + 1 : 0;
  CHECK(own.messages.count == passed);
  CHECK(own.messages.bytes == 4 * passed * square);
  const auto pulled = spent([&] {
    static_cast<void>(
        hg::grad([](auto u) { return hg::sum(hg::scaled_dot_product_attention(u, u, u, {.is_causal = true})); })(b));
  });
  const int home = rank + 1 == ranks ? ranks - 1 : 0;
  CHECK(pulled.messages.count == 3 * passed + home);
  CHECK(pulled.messages.bytes == 4 * (3 * passed + home) * square);

  // held beside the fields, made at the first call of these shapes: two pieces of keys and values, four of sums
  hg::empty_cache();
  const auto made = kokkos_events([&] { static_cast<void>(hg::value_and_grad(f)(a, b, c)); });
  const bool are_in_windows = mesh.world().message_memory_bytes() > 0;  // not of Kokkos' making
  const auto held = static_cast<std::uint64_t>(ranks > 1 && !are_in_windows ? 4 * pairs : 0);
  CHECK(made.bytes("halogen::piece") == 2 * held);
  CHECK(made.bytes("halogen::sum") == 3 * held);
  CHECK(made.bytes("halogen::receive") == held);

  // nothing where the sequence is whole
  using Cut = Rows<float, Line, hg::Shard<1>>;
  const auto heads = field<Cut>(mesh, q);
  CHECK(spent([&] { static_cast<void>(hg::value_and_grad(f)(heads, heads, heads)); }).messages.count == 0);
}

/// By heads beside plain loops, and its gradients beside the ring's.
template <class Field, class MeshType>
void check_by_heads(const hg::DeviceMesh<MeshType>& mesh, int way, const hg::AttentionOptions& ring,
                    index_t key_heads) {
  const auto q = rows(2, 12, 31, 5, 24), k = rows(2, key_heads, 26, 5, 25), v = rows(2, key_heads, 26, 3, 26);
  const auto a = field<Field>(mesh, q, way), b = field<Field>(mesh, k, way), c = field<Field>(mesh, v, way);
  const auto w = field<Field>(mesh, rows(2, 12, 31, 3, 27), way);
  hg::AttentionOptions by_heads = ring;
  by_heads.parallel = hg::ContextParallel::all_to_all;
  const Field y = hg::scaled_dot_product_attention(a, b, c, by_heads);
  Numbers each_k({2, 12, 26, 5}, [&](auto i) { return k(i[0], i[1] * key_heads / 12, i[2], i[3]); }),
      each_v({2, 12, 26, 3}, [&](auto i) { return v(i[0], i[1] * key_heads / 12, i[2], i[3]); });
  CHECK(distance(y, plain_attention(q, each_k, each_v, ring.is_causal)) < 1e-13);
  const auto gradients = [&](const hg::AttentionOptions& options) {
    return hg::value_and_grad([&](auto one, auto two, auto three) {
      return hg::sum(w * hg::scaled_dot_product_attention(one, two, three, options));
    })(a, b, c);
  };
  const auto expected = gradients(ring), found = gradients(by_heads);
  const auto compare = [&](const auto& one, const auto& other) {
    CHECK(hg::max(hg::abs(one - other)).item() < 1e-12 * hg::max(hg::abs(one)).item());
  };
  compare(std::get<1>(expected), std::get<1>(found));
  compare(std::get<2>(expected), std::get<2>(found));
  compare(std::get<3>(expected), std::get<3>(found));
}

TEST_CASE("by heads: plain loops, the ring's gradients, on every mesh whose ranks divide them") {
  for (const bool is_causal : {false, true}) {
    const hg::AttentionOptions options{.is_causal = is_causal, .parallel = hg::ContextParallel::ring};
    everywhere<Line>([&](const auto& mesh, int way) {
      if (12 % mesh.size() == 0) check_by_heads<Sequence<double>>(mesh, way, options, 12);
    });
    everywhere<Grid>([&](const auto& mesh, int way) {
      if (12 % mesh.size() != 0) return;
      check_by_heads<Both<double>>(mesh, way, options, 12);
      check_by_heads<BatchSequence<double>>(mesh, way, options, 12);
      check_by_heads<HeadsSequence<double>>(mesh, way, options, 12);
    });
  }
  const hg::AttentionOptions grouped{.enable_gqa = true, .parallel = hg::ContextParallel::ring};
  const index_t key_heads = grid_world().size() == 4 ? 4 : 6;
  everywhere<Line>([&](const auto& mesh, int way) {
    if (key_heads % mesh.size() == 0) check_by_heads<Sequence<double>>(mesh, way, grouped, key_heads);
  });
}

TEST_CASE("by heads or by the ring: what sends fewer bytes, as explain says; what does not divide is refused") {
  const auto mesh = line();
  const int ranks = mesh.size();
  using Field = Sequence<float>;
  const auto a = field<Field>(mesh, rows(2, 12, 48, 5, 28));
  const auto sent_by = [&](const hg::AttentionOptions& options) {
    Field y;
    const auto attend = [&] { y = hg::scaled_dot_product_attention(a, a, a, options); };
    attend();
    return spent(attend);
  };
  const index_t all = 2 * 12 * 48 * 10;  // values of keys and values; as many of queries and results
  if (12 % ranks == 0) {
    const auto heads = sent_by({.parallel = hg::ContextParallel::all_to_all});
    CHECK(heads.messages.bytes == 4 * 2 * all / ranks * (ranks - 1) / ranks);
    const auto chosen = sent_by({}), ring = sent_by({.parallel = hg::ContextParallel::ring});
    CHECK(ring.messages.bytes == 4 * (ranks - 1) * all / ranks);
    CHECK(chosen.messages.bytes == std::min(heads.messages.bytes, ring.messages.bytes));
    using All = Rows<float, Line, hg::Replicate>;  // every rank computes all of it
    const auto whole = field<All>(mesh, rows(2, 12, 48, 5, 28));
    const All alone = hg::scaled_dot_product_attention(whole, whole, whole);
    const Field by_heads = hg::scaled_dot_product_attention(a, a, a, {.parallel = hg::ContextParallel::all_to_all});
    CHECK(hg::full_tensor(by_heads) == alone.to_host());
    const auto words = hg::explain(hg::scaled_dot_product_attention(a, a, a));
    CHECK((words.find("attention, by heads") != std::string::npos) == (ranks > 2));
    CHECK(words.find(std::to_string(4 * std::min(all * (ranks - 1), 2 * all * (ranks - 1) / ranks)) + " bytes") !=
          std::string::npos);
  }
  const auto odd = field<Field>(mesh, rows(1, 7, 48, 5, 29));
  const auto said = refusal<hg::CollectiveError>([&] {
    const Field y = hg::scaled_dot_product_attention(odd, odd, odd, {.parallel = hg::ContextParallel::all_to_all});
  });
  if (7 % ranks != 0) CHECK(said.starts_with("attention by heads: " + std::to_string(ranks) + " ranks would share 7"));
}

/// Deterministic: the bits that one rank finds, which is every rank of a mesh where nothing is cut.
template <class Field, class Whole, class MeshType>
void check_deterministic(const hg::DeviceMesh<MeshType>& mesh, int way, hg::AttentionOptions options, index_t heads,
                         index_t key_heads, index_t width, index_t value_width) {
  options.parallel = hg::ContextParallel::deterministic;
  const auto q = rows(2, heads, 83, width, 34), k = rows(2, key_heads, 79, width, 35);
  const auto v = rows(2, key_heads, 79, value_width, 36), w = rows(2, heads, 83, value_width, 37);
  const auto bits = [&]<class F>(F, int cut) {
    const auto weights = field<F>(mesh, w, cut);
    const auto attend = [&](auto a, auto b, auto c) { return hg::scaled_dot_product_attention(a, b, c, options); };
    const auto a = field<F>(mesh, q, cut), b = field<F>(mesh, k, cut), c = field<F>(mesh, v, cut);
    const F y = attend(a, b, c);
    const auto found = hg::value_and_grad([&](auto... each) { return hg::sum(weights * attend(each...)); })(a, b, c);
    return std::array{hg::full_tensor(y), hg::full_tensor(std::get<1>(found)), hg::full_tensor(std::get<2>(found)),
                      hg::full_tensor(std::get<3>(found))};
  };
  CHECK(bits(Field{}, way) == bits(Whole{}, 0));
  if (options.dropout_p > 0) return;
  const Field y = hg::scaled_dot_product_attention(field<Field>(mesh, q, way), field<Field>(mesh, k, way),
                                                   field<Field>(mesh, v, way), options);
  const auto each = [&](const Numbers& of, index_t e) {
    return Numbers({2, heads, 79, e}, [&](auto i) { return of(i[0], i[1] * key_heads / heads, i[2], i[3]); });
  };
  const double tolerance = std::is_same_v<typename Field::value_type, float> ? 1e-6 : 1e-13;
  CHECK(distance(y, plain_attention(q, each(k, width), each(v, value_width), options.is_causal)) < tolerance);
}

TEST_CASE("deterministic: one rank's bits on every mesh, whether its ranks divide the heads or not") {
  using All = Rows<float, Line, hg::Replicate>;
  using AllOfGrid = Rows<double, Grid, hg::Replicate, hg::Replicate>;
  for (const bool is_causal : {false, true}) {
    const hg::AttentionOptions options{.is_causal = is_causal, .enable_gqa = true};
    hg::AttentionOptions dropping = options;
    dropping.dropout_p = 0.25, dropping.generator = {.seed = 5};
    everywhere<Line>([&](const auto& mesh, int way) {
      check_deterministic<Sequence<float>, All>(mesh, way, options, 5, 5, 32, 32);  // gradients by one kernel
      check_deterministic<Sequence<float>, All>(mesh, way, dropping, 6, 3, 5, 3);
    });
    everywhere<Grid>([&](const auto& mesh, int way) {
      check_deterministic<Both<double>, AllOfGrid>(mesh, way, options, 5, 5, 5, 3);
      check_deterministic<BatchSequence<double>, AllOfGrid>(mesh, way, dropping, 12, 6, 16, 16);
    });
  }
}

TEST_CASE("from the second evaluation on nothing is allocated; one stage, computed once") {
  const auto mesh = line();
  using Field = Sequence<double>;
  const auto a = field<Field>(mesh, rows(1, 2, 24, 4, 17));
  const auto target = field<Field>(mesh, rows(1, 2, 24, 4, 18));
  Field y = a;
  auto derive = hg::value_and_grad([&](auto q) {
    const auto once = hg::scaled_dot_product_attention(q, q, q, {.is_causal = true});
    return hg::mean(hg::square(once - target) + once);
  });
  const auto step = [&] {
    y = hg::scaled_dot_product_attention(a, a, a);
    if (2 % mesh.size() == 0)
      y = hg::scaled_dot_product_attention(a, a, a, {.parallel = hg::ContextParallel::all_to_all});
    static_cast<void>(derive(a));
  };
  for (int t = 0; t < 3; ++t) step();
  const auto events = kokkos_events([&] { step(), step(); });
  CHECK(KokkosEvents::text(events.allocations) == "");
  const auto once = hg::scaled_dot_product_attention(a, a, a);
  CHECK(hg::cost_of(once + once).stages == 1);
  CHECK(hg::explain(once).find("attention") != std::string::npos);
}

TEST_CASE("what only the run can know is refused on all ranks with a sentence") {
  const auto mesh = line();
  using Field = Sequence<double>;
  const auto make = [&](index_t n, index_t heads, index_t length, index_t width, int way = 0) {
    return field<Field>(mesh, rows(n, heads, length, width, 19), way);
  };
  const auto q = make(1, 2, 24, 4);
  const auto say = [&](const auto& k, const auto& v) {
    return refusal<hg::CollectiveError>([&] { const Field y = hg::scaled_dot_product_attention(q, k, v); });
  };
  CHECK(say(make(1, 2, 24, 5), q).find("query and key have 4 and 5 points in dimension 3") != std::string::npos);
  CHECK(say(make(1, 3, 24, 4), q).find("2 and 3 points in dimension 1") != std::string::npos);
  CHECK(say(q, make(1, 2, 25, 4)).find("key and value have 24 and 25 points in dimension 2") != std::string::npos);
  if (mesh.size() > 1) CHECK(say(q, make(1, 2, 24, 4, 1)).find("cut differently") != std::string::npos);
  const auto other = hg::device_mesh<Line>(grid_world(), {-1});
  CHECK(say(q, field<Field>(other, rows(1, 2, 24, 4, 20))).find("different meshes") != std::string::npos);
}

}  // namespace test_attention
