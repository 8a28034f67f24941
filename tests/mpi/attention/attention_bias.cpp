// ranks: 1 2 3
// Attention with a mask or a bias of pairs, whatever is cut: beside plain loops, their gradients and finite
// differences.

#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "support/plain_attention.hpp"
#include "support/refusal.hpp"

namespace test_attention_bias {

using namespace support;

namespace {

constexpr bool on_device = HALOGEN_DEVICE_KERNELS > 0;  // threads in its place take their time
constexpr double infinity = std::numeric_limits<double>::infinity();

using Line = hg::Mesh<"line">;
template <class T, class MeshType, class... P>
using Rows = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn, hg::dyn, hg::dyn>, MeshType, P...>;
using Numbers = Array<double, 4>;

Numbers rows(index_t n, index_t heads, index_t positions, index_t width, int stream) {
  return numbers<double>(Index<4>{n, heads, positions, width}, stream);
}
/// An array beside (N, H, L, S), as if an extent of 1 were repeated.
double repeated(const Numbers& bias, Index<4> i) {
  for (int d = 0; d < 4; ++d)
    if (bias.extents[static_cast<std::size_t>(d)] == 1) i[static_cast<std::size_t>(d)] = 0;
  return bias(i);
}
/// The sum over what an extent of 1 is repeated for.
Numbers summed(const Numbers& all, const Index<4>& extents) {
  Numbers result(extents, [](auto) { return 0.0; });
  for_each_index(all.extents, [&](Index<4> i) {
    const double here = all(i);
    for (int d = 0; d < 4; ++d)
      if (extents[static_cast<std::size_t>(d)] == 1) i[static_cast<std::size_t>(d)] = 0;
    result.values[result.offset(i)] += here;
  });
  return result;
}

template <class Field>
double distance(const Field& field, const Numbers& expected) {
  double largest = 1e-3;
  for (const double value : expected.values) largest = std::max(largest, std::abs(value));
  return error(field, expected.extents, [&](auto i) { return expected(i); }) / largest;
}

/// Output and gradients of attend(query, key, value) for the cotangent, in this order given, beside what is expected.
template <class Field>
void check_beside(const auto& mesh, int way, const Numbers (&given)[4], const AttentionResult& expected,
                  double tolerance, auto attend) {
  const auto [output, pull] = hg::vjp(attend, field<Field>(mesh, given[0], way), field<Field>(mesh, given[1], way),
                                      field<Field>(mesh, given[2], way));
  const auto [dq, dk, dv] = pull(field<Field>(mesh, given[3], way));
  CHECK(distance(output, expected.output) < tolerance);
  CHECK(distance(dq, expected.query) < tolerance);
  CHECK(distance(dk, expected.key) < tolerance);
  CHECK(distance(dv, expected.value) < tolerance);
}

struct Case {
  Numbers q, k, v, g, bias;
  bool is_causal;
};
Case made(index_t heads, index_t length, index_t keys, index_t width, const Index<4>& bias, bool is_causal,
          bool hides) {
  const auto numbers = rows(bias[0], bias[1], bias[2], bias[3], 5);
  return {rows(2, heads, length, width, 1),
          rows(2, heads, keys, width, 2),
          rows(2, heads, keys, 8, 3),
          rows(2, heads, length, 8, 4),
          {bias, [&](auto i) { return hides && (i[2] + 3 * i[3]) % 4 == 0 && i[3] > 0 ? -infinity : 2 * numbers(i); }},
          is_causal};
}

template <class Field, class BiasField>
void check(const auto& mesh, int way, const Case& each, double tolerance, hg::ContextParallel parallel = {}) {
  const hg::AttentionOptions options{.is_causal = each.is_causal, .parallel = parallel};
  const auto expected = plain_attention(
      each.q, each.k, each.v, each.g, each.is_causal, [&](auto i) { return repeated(each.bias, i); },
      [](auto) { return 1.0; });
  const auto q = field<Field>(mesh, each.q, way), k = field<Field>(mesh, each.k, way),
             v = field<Field>(mesh, each.v, way), g = field<Field>(mesh, each.g, way);
  const auto bias = field<BiasField>(mesh, each.bias, way);
  const auto [output, pull] =
      hg::vjp([&](auto q, auto k, auto v, auto b) { return hg::scaled_dot_product_attention(q, k, v, b, options); }, q,
              k, v, bias);
  const auto [dq, dk, dv, dbias] = pull(g);
  CHECK(distance(output, expected.output) < tolerance);
  CHECK(distance(dq, expected.query) < tolerance);
  CHECK(distance(dk, expected.key) < tolerance);
  CHECK(distance(dv, expected.value) < tolerance);
  CHECK(distance(dbias, summed(expected.bias, each.bias.extents)) < tolerance);
}

}  // namespace

TEST_CASE("a bias of any extents, beside plain loops, whatever is cut") {
  for (const bool is_causal : {false, true})
    for (const bool hides : {false, true}) {
      CAPTURE(is_causal);
      CAPTURE(hides);
      if (on_device && is_causal != hides) continue;
      const Case of_keys = made(4, 70, 67, 32, {2, 1, 1, 67}, is_causal, hides);
      const Case of_pairs = made(2, 40, 67, 5, {1, 2, 40, 67}, is_causal, hides);
      everywhere<Line>([&](const auto& mesh, int way) {
        using Cut = Rows<double, Line, hg::Shard<2>>;
        using Whole = Rows<double, Line, hg::Replicate>;
        check<Cut, Whole>(mesh, way, of_keys, 1e-12);
        check<Cut, Whole>(mesh, way, of_pairs, 1e-12);
        check<Cut, Cut>(mesh, way, of_pairs, 1e-12);
        check<Cut, Whole>(mesh, way, of_keys, 1e-12, hg::ContextParallel::deterministic);
        check<Cut, Whole>(mesh, way, of_pairs, 1e-12, hg::ContextParallel::deterministic);
      });
      if (on_device) continue;
      everywhere<Grid>([&](const auto& mesh, int way) {
        check<Rows<double, Grid, hg::Shard<0>, hg::Shard<2>>, Rows<double, Grid, hg::Shard<0>, hg::Replicate>>(
            mesh, way, of_keys, 1e-12);
        check<Rows<double, Grid, hg::Shard<2>, hg::Shard<1>>, Rows<double, Grid, hg::Replicate, hg::Shard<1>>>(
            mesh, way, of_pairs, 1e-12);
        check<Rows<double, Grid, hg::Shard<2>, hg::Shard<2>>, Rows<double, Grid, hg::Shard<2>, hg::Shard<2>>>(
            mesh, way, of_pairs, 1e-12);
      });
    }
}

TEST_CASE("by heads as by the ring, where the bias is at hand") {
  if (on_device) return;  // no other kernels
  const Case each = made(12, 30, 33, 8, {2, 12, 1, 33}, true, true);
  everywhere<Line>([&](const auto& mesh, int way) {
    if (way == 0)
      check<Rows<double, Line, hg::Shard<2>>, Rows<double, Line, hg::Replicate>>(mesh, way, each, 1e-12,
                                                                                 hg::ContextParallel::all_to_all);
  });
}

TEST_CASE("zigzag: causal rows are moved, so that all ranks compute as much") {
  for (const bool grouped : {false, true}) {
    Case each = made(4, 83, 83, 8, {2, 4, 83, 83}, true, true);
    if (grouped) each = made(4, 6, 6, 8, {1, 1, 1, 6}, true, false);  // parts without rows
    everywhere<Line>([&](const auto& mesh, int way) {
      check<Rows<double, Line, hg::Shard<2>>, Rows<double, Line, hg::Replicate>>(mesh, way, each, 1e-12,
                                                                                 hg::ContextParallel::zigzag);
    });
  }
  // grouped queries, other lengths, embeddings that all gradients take by one kernel
  const Numbers q = rows(1, 6, 90, 32, 1), k = rows(1, 2, 101, 32, 2), v = rows(1, 2, 101, 32, 3),
                g = rows(1, 6, 90, 32, 4);
  const auto each_head = [](const Numbers& a) {
    return Numbers({1, 6, a.extents[2], 32}, [&](auto i) { return a(i[0], i[1] / 3, i[2], i[3]); });
  };
  const auto of_heads = [](const Numbers& a) {
    return Numbers({1, 2, a.extents[2], 32}, [&](auto i) {
      return a(i[0], 3 * i[1], i[2], i[3]) + a(i[0], 3 * i[1] + 1, i[2], i[3]) + a(i[0], 3 * i[1] + 2, i[2], i[3]);
    });
  };
  AttentionResult expected = plain_attention(q, each_head(k), each_head(v), g, true);
  expected.key = of_heads(expected.key), expected.value = of_heads(expected.value);
  everywhere<Line>([&](const auto& mesh, int way) {
    check_beside<Rows<double, Line, hg::Shard<2>>>(
        mesh, way, {q, k, v, g}, expected, 1e-12, [](auto q, auto k, auto v) {
          return hg::scaled_dot_product_attention(
              q, k, v, {.is_causal = true, .enable_gqa = true, .parallel = hg::ContextParallel::zigzag});
        });
  });
}

TEST_CASE("bytes of a zigzag ring: what explain and docs/communication.md say") {
  using Field = Rows<float, Line, hg::Shard<2>>;
  const auto mesh = hg::device_mesh<Line>(grid_world(), {-1});
  const index_t ranks = grid_world().size(), length = 144;
  const auto q = field<Field>(mesh, rows(2, 6, length, 8, 1)), k = field<Field>(mesh, rows(2, 3, length, 8, 2)),
             v = field<Field>(mesh, rows(2, 3, length, 4, 3));
  const hg::AttentionOptions options{.is_causal = true, .enable_gqa = true, .parallel = hg::ContextParallel::zigzag};
  const auto run = [&] {
    const Field y = hg::scaled_dot_product_attention(q, k, v, options);
    static_cast<void>(y);
  };
  run();
  const hg::CommStatistics before = hg::comm_stats();
  run();
  index_t sent = static_cast<index_t>((hg::comm_stats() - before).messages.bytes);
  grid_world().all_reduce(&sent, 1);
  index_t stay = 0;  // of twice as many parts as ranks, of which rank r has 2 r and 2 r + 1 before
  for (index_t r = 0; r < ranks; ++r)
    for (const index_t part : {2 * r, 2 * r + 1}) stay += part == r || part == 2 * ranks - 1 - r;
  const index_t moved = length / (2 * ranks) * (2 * ranks - stay);
  CHECK(sent == 2 * 4 * ((6 + 3) * moved + 3 * length * (ranks - 1)) * (8 + 4));
  if (ranks > 1)
    CHECK(hg::explain(hg::scaled_dot_product_attention(q, k, v, options)).find(std::to_string(sent) + " bytes") !=
          std::string::npos);
}

/// Of a ring whose ranks have the pieces of cut_of(length, ranks): all pairs are counted once, and the largest rank has
/// at most 1.05 of the mean and one block of a kernel.
template <class CutOf>
void check_balance(bool is_causal, CutOf cut_of) {
  for (const index_t length : {1, 7, 64, 2999, 3000, 65536})
    for (const int ranks : {1, 2, 3, 4, 6, 7, 64}) {
      CAPTURE(length);
      CAPTURE(ranks);
      const hg::Cut cut = cut_of(length, ranks);
      index_t largest = 0, all = 0;
      for (int r = 0; r < ranks; ++r) {
        const index_t work = hg::RingSchedule{r, cut, cut, is_causal, is_causal}.work(r);
        largest = std::max(largest, work), all += work;
      }
      CHECK(all == (is_causal ? length * (length + 1) / 2 : length * length));
      const index_t block = 48 * 64;
      CHECK(static_cast<double>(largest) <= 1.05 * static_cast<double>(all) / ranks + static_cast<double>(block));
    }
}
TEST_CASE("counted work: the largest rank's is at most 1.05 of the mean and one block, zigzag or not causal") {
  check_balance(true, hg::RingSchedule::zigzag);
  check_balance(false, [](index_t length, int ranks) { return hg::Cut::chunk(length, ranks); });
}

TEST_CASE("a mask of bool hides keys, even NaN; a query that sees none has 0") {
  everywhere<Line>([&](const auto& mesh, int way) {
    using Field = Rows<float, Line, hg::Shard<2>>;
    using Mask = Rows<bool, Line, hg::Replicate>;
    const double nan = std::numeric_limits<double>::quiet_NaN();
    const auto is_sea = [](index_t sample, index_t key) {
      return sample == 0 ? key % 3 != 1 : sample == 1 && key > 40;
    };
    const auto spoilt = [&](const Numbers& from) {
      return Numbers(from.extents, [&](auto i) { return is_sea(i[0], i[2]) ? from(i) : i[3] % 2 ? nan : infinity; });
    };
    const Numbers q = rows(3, 2, 50, 32, 1), k = rows(3, 2, 61, 32, 2), v = rows(3, 2, 61, 32, 3),
                  g = rows(3, 2, 50, 32, 4);
    const auto expected = plain_attention(
        q, k, v, g, false, [&](auto i) { return is_sea(i[0], i[3]) ? 0 : -infinity; }, [](auto) { return 1.0; });
    const auto mask =
        field<Mask>(mesh, Numbers({3, 1, 1, 61}, [&](auto i) { return is_sea(i[0], i[3]) ? 1.0 : 0.0; }), way);
    check_beside<Field>(mesh, way, {q, spoilt(k), spoilt(v), g}, expected, 1e-5,
                        [&](auto q, auto k, auto v) { return hg::scaled_dot_product_attention(q, k, v, mask); });
  });
}

TEST_CASE("dropout: shares are 0 or divided by what is kept, alike on every mesh and by all ways") {
  const double p = 0.3;
  constexpr index_t heads = on_device ? 3 : 12;
  const Numbers q = rows(2, heads, 31, 8, 1), k = rows(2, heads, 37, 8, 2), v = rows(2, heads, 37, 8, 3),
                g = rows(2, heads, 31, 8, 4);
  // What is dropped is read off from values that are one at one key each.
  const auto kept_of = [&](const auto& options) {
    using One = Rows<double, Line, hg::Shard<2>>;
    const auto alone = hg::device_mesh<Line>(hg::Communicator(), {1});
    const auto zero = [&](index_t positions) {
      return field<One>(alone, Numbers({2, heads, positions, 1}, [](auto) { return 0.0; }));
    };
    const One shares = hg::scaled_dot_product_attention(
        zero(31), zero(37),
        field<One>(alone, Numbers({2, heads, 37, 37}, [](auto i) { return i[2] == i[3] ? 37.0 : 0.0; })), options);
    const auto all = hg::full_tensor(shares);
    std::size_t n = 0;
    return Numbers({2, heads, 31, 37}, [&](auto) { return all[n++]; });
  };
  const hg::AttentionOptions options{.dropout_p = p, .generator = {.seed = 5, .step = 3}};
  const Numbers kept = kept_of(options);
  double dropped = 0;
  for (const double factor : kept.values) {
    CHECK((std::abs(factor) < 1e-12 || std::abs(factor - 1 / (1 - p)) < 1e-12));
    dropped += factor == 0;
  }
  const double count = static_cast<double>(kept.values.size());
  CHECK(std::abs(dropped / count - p) < 4 * std::sqrt(p * (1 - p) / count));
  hg::AttentionOptions next = options;
  next.generator.step = 4;
  CHECK(kept_of(next).values != kept.values);
  for (const bool is_causal : {false, true}) {
    const auto expected = plain_attention(
        q, k, v, g, is_causal, [](auto) { return 0.0; }, [&](auto i) { return kept(i); });
    everywhere<Line>([&](const auto& mesh, int way) {
      for (const auto parallel :
           {hg::ContextParallel::ring, hg::ContextParallel::zigzag, hg::ContextParallel::automatic}) {
        hg::AttentionOptions each = options;
        each.is_causal = is_causal, each.parallel = parallel;
        check_beside<Rows<double, Line, hg::Shard<2>>>(mesh, way, {q, k, v, g}, expected, 1e-12, [&](auto... operands) {
          return hg::scaled_dot_product_attention(operands..., each);
        });
      }
    });
  }
}

TEST_CASE("a bias with static extents is the same bias, values and gradients") {
  everywhere<Line>([&](const auto& mesh, int way) {
    using Field = Rows<double, Line, hg::Shard<2>>;
    using Whole = Rows<double, Line, hg::Replicate>;
    using OfHeads = hg::Sharded<hg::Tensor<double, hg::dyn, 3, 1, hg::dyn>, Line, hg::Replicate>;
    const auto q = field<Field>(mesh, rows(2, 3, 10, 4, 1), way), k = field<Field>(mesh, rows(2, 3, 10, 4, 2), way);
    const auto numbers = rows(2, 3, 1, 10, 5);
    const auto attention = [&](auto bias) { return hg::sum(hg::scaled_dot_product_attention(q, k, k, bias) * q); };
    const auto [value, slope] = hg::value_and_grad(attention)(field<Whole>(mesh, numbers));
    const auto [same, of_static] = hg::value_and_grad(attention)(field<OfHeads>(mesh, numbers));
    CHECK(value == same);
    CHECK(hg::full_tensor(slope) == hg::full_tensor(of_static));
  });
}

TEST_CASE("a bias that does not fit is refused alike on all ranks") {
  everywhere<Line>([&](const auto& mesh, int) {
    using Field = Rows<double, Line, hg::Shard<2>>;
    using Whole = Rows<double, Line, hg::Replicate>;
    const auto q = field<Field>(mesh, rows(2, 12, 24, 4, 1)), k = field<Field>(mesh, rows(2, 12, 36, 4, 2));
    const auto said = [&](const auto& bias, const hg::AttentionOptions& options = {}) {
      return refusal<hg::CollectiveError>(
          [&] { const Field y = hg::scaled_dot_product_attention(q, k, k, bias, options); });
    };
    CHECK(said(field<Whole>(mesh, rows(2, 1, 1, 24, 5))) ==
          "attention: the bias has 24 points in dimension 3 beside 36 keys: give it 36");
    CHECK(said(field<Whole>(mesh, rows(1, 1, 1, 36, 5)), {.dropout_p = 1}) ==
          "attention: dropout_p is 1: give it a probability of 0 or more and less than 1");
    CHECK(said(field<Whole>(mesh, rows(2, 5, 1, 36, 5))) ==
          "attention: the bias has 5 points in dimension 1 beside 12 heads: give it 1 or 12");
    if (mesh.size() > 1)
      CHECK(
          said(field<Field>(mesh, rows(1, 1, 24, 36, 5)), {.parallel = hg::ContextParallel::all_to_all}) ==
          "attention: the bias is cut along queries or heads, so a rank lacks what its new rows or heads ask: give it "
          "Replicate there, or use ContextParallel::ring");
  });
}

}  // namespace test_attention_bias
