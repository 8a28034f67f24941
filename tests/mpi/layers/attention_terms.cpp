// program: attention_layers
// Attention layers with a bias of distances, a mask or a bias of keys, and dropout of shares: PyTorch's stored tensors
// on every mesh (make_layer_references.py), networks around them on every mesh as on one rank and beside finite
// differences.
#include "support/attention_models.hpp"
#include "support/composition.hpp"
#include "support/kokkos_events.hpp"
#include "support/refusal.hpp"
#include "support/stored.hpp"

namespace test_attention_terms {

namespace {

using support::Between, support::Relative, support::Told;

const char* const file = "attention_terms";

/// Attends with the first half of eight channels; the second tells of the keys.
template <class... Options>
struct Masked : hg::Module<Masked<Options...>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"attn", hg::MultiheadAttention<4, 2, Options...>> attention;
    const hg::Traced mask = hg::ReLU{}(hg::chunk<8>(x)[4]);
    return attention(hg::chunk<2>(x)[0], hg::KeyMask{mask});
  }
};
struct Biased : hg::Module<Biased> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"attn", hg::MultiheadAttention<4, 2>> attention;
    return attention(hg::chunk<2>(x)[0], hg::KeyBias{hg::chunk<4>(x)[2]});
  }
};
struct CrossMasked : hg::Module<CrossMasked> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"attn", hg::CrossAttention<4, 2, 3>> attention;
    const auto parts = hg::chunk<8>(x);
    const hg::Traced context = hg::concat(hg::concat(parts[4], parts[5]), parts[6]);
    return attention(hg::chunk<2>(x)[0], context, hg::KeyMask{hg::ReLU{}(parts[7])});
  }
};

/// Keys of half the resolution.
struct CrossCoarse : hg::Module<CrossCoarse> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"attn", hg::CrossAttention<4, 4, 3, hg::KeyValueHeads<2>>> attention;
    const hg::Traced coarse = hg::AvgPool2d<2>{}(hg::chunk<2>(x)[1]);
    const auto parts = hg::chunk<4>(coarse);
    const hg::Traced context = hg::concat(hg::concat(parts[0], parts[1]), parts[2]);
    return attention(hg::chunk<2>(x)[0], context, hg::KeyMask{hg::ReLU{}(parts[3])});
  }
};
/// A coarse field looks at a fine one, turned and normed.
template <class... Options>
struct LooksBack : hg::Module<LooksBack<Options...>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"fine", hg::Conv2d<2, 8, hg::Kernel<3>, hg::Padding<1>>> fine;
    constexpr hg::Named<"coarse", hg::Conv2d<8, 8, hg::Kernel<2>, hg::Stride<2>>> coarse;
    constexpr hg::Named<"attn", hg::CrossAttention<8, 2, 8, hg::QueryKeyNorm<>, hg::Rotary<2>, Options...>> attention;
    constexpr hg::Named<"last", hg::Conv2d<16, 2>> last;
    const hg::Traced points = fine(x);
    const hg::Traced seen = attention(coarse(points), points);
    return last(hg::concat(hg::upsample_to(seen, points), points));
  }
};

using RelativeVolume =
    hg::Sequential<hg::Linear<2, 4>, hg::MultiheadAttention<4, 2, hg::RelativeBias<6, 6, 7>>, hg::Linear<4, 2>>;
template <class... Options>
using Dropping =
    hg::Sequential<hg::Conv2d<2, 8>, hg::MultiheadAttention<8, 4, hg::KeyValueHeads<2>, Options...>, hg::Conv2d<8, 2>>;

template <class... Options>
struct WithToken : hg::Module<WithToken<Options...>> {
  hg::Named<"first", hg::Conv2d<2, 4>> first;
  hg::Named<"attn", hg::MultiheadAttention<4, 1, Options...>> attention;
  hg::Named<"last", hg::Conv2d<4, 2>> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto seen = attention(first(x), hg::ClassToken<4>::part(x));
    return last(seen[0]) + hg::expand(hg::Linear<4, 2>{}(seen[1]), x);
  }
};
/// As BEiT: the token has entries of its own in the table of distances.
struct SeenWithToken : hg::Module<SeenWithToken> {
  hg::Named<"attn", hg::MultiheadAttention<4, 2, hg::RelativeBias<8, 7>>> attention;
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto seen = attention(x, hg::ClassToken<4>::part(x));
    return seen[0] + hg::expand(seen[1], x);
  }
};
/// Eight channels; the fifth tells of the keys.
struct SeenWithTokenMasked : hg::Module<SeenWithTokenMasked> {
  hg::Named<"attn", hg::MultiheadAttention<4, 2, hg::RelativeBias<6, 5>>> attention;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced points = hg::chunk<2>(x)[0], mask = hg::ReLU{}(hg::chunk<8>(x)[4]);
    const auto seen = attention(points, hg::KeyMask{mask}, hg::ClassToken<4>::part(points));
    return seen[0] + hg::expand(seen[1], points);
  }
};
/// Nearer keys count more, those to the right of the query more than those to the left, those far up and down nothing.
struct Nearness {
  float operator()(int head, std::array<int, 2> offset) const {
    if (std::abs(offset[0]) > 4) return -std::numeric_limits<float>::infinity();
    const int apart = std::abs(offset[0]) + 2 * std::max(offset[1], 0);
    return (head == 0 ? -0.5f : -0.25f) * static_cast<float>(apart);
  }
};
struct NoNumber {
  float operator()(int, std::array<int, 2> offset) const { return offset[1] == 2 ? std::nanf("") : 0.0f; }
};
/// A token, a mask and a bias of distances; keys of one head for two heads of queries.
template <class... Options>
struct NearAndMasked : hg::Module<NearAndMasked<Options...>> {
  hg::Named<"first", hg::Conv2d<2, 4>> first;
  hg::Named<"attn", hg::MultiheadAttention<4, 2, hg::KeyValueHeads<1>, hg::DistanceBias<Nearness, 12, 11>, Options...>>
      attention;
  hg::Named<"last", hg::Conv2d<4, 2>> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::KeyMask mask{hg::ReLU{}(hg::chunk<2>(x)[0])};
    const auto seen = attention(first(x), mask, hg::ClassToken<4>::part(x));
    return last(seen[0] + attention(seen[0], mask)) + hg::expand(hg::Linear<4, 2>{}(seen[1]), x);
  }
};
/// Two tokens in a field that is smaller than the table.
template <class Distances, class... Options>
struct TwoTokens : hg::Module<TwoTokens<Distances, Options...>> {
  hg::Named<"first", hg::Conv2d<2, 4>> first;
  hg::Named<"attn", hg::MultiheadAttention<4, 2, Distances, Options...>> attention;
  hg::Named<"last", hg::Conv2d<4, 2>> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"register", hg::ClassToken<4>> more;
    const auto seen = attention(attention(first(x), hg::ClassToken<4>::part(x), more(x)));
    return last(seen[0]) + hg::expand(hg::Linear<8, 2>{}(hg::concat(seen[1], seen[2])), x);
  }
};
/// A block of a transformer whose layers all pass over hidden points.
struct MaskedBlock : hg::Module<MaskedBlock> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"attn", hg::MultiheadAttention<4, 2, hg::QueryKeyNorm<>>> attention;
    const hg::KeyMask mask{hg::ReLU{}(hg::chunk<8>(x)[4])};
    const hg::Traced points = hg::chunk<2>(x)[0];
    const hg::Traced seen = points + attention(hg::LayerNorm<4>{}(points), mask);
    return seen + hg::Sequential<hg::LayerNorm<4>, hg::Linear<4, 24>, hg::GELU, hg::Linear<24, 24>, hg::Mish,
                                 hg::Linear<24, 4>>{}(seen);
  }
};
template <hg::ContextParallel Way>
using Wave = hg::Sequential<hg::Linear<2, 5>, hg::MultiheadAttention<5, 5, hg::IsCausal<>, hg::ParallelBy<Way>>,
                            hg::Linear<5, 2>>;

}  // namespace

TEST_CASE("a bias of distances, a mask and a bias of keys: PyTorch's") {
  const std::vector<std::string> projections{"attn.qkv.weight", "attn.qkv.bias", "attn.proj.weight", "attn.proj.bias"};
  const std::vector<std::string> with_table{"attn.qkv.weight", "attn.qkv.bias", "attn.relative_position_bias_table",
                                            "attn.proj.weight", "attn.proj.bias"};
  using Plane = hg::Named<"attn", hg::MultiheadAttention<4, 2, hg::RelativeBias<8, 7>>>;
  using Signal = hg::Named<"attn", hg::MultiheadAttention<4, 2, hg::RelativeBias<17>>>;
  support::check_with_parameters<hg::Sequential<Plane>, 4, 4>(file, "relative", with_table);
  support::check_with_parameters<hg::Sequential<Signal>, 4, 4, 2>(file, "relative_signal", with_table);
  support::check_with_parameters<SeenWithToken, 4, 4>(
      file, "relative_token",
      {"cls_token", "attn.qkv.weight", "attn.qkv.bias", "attn.relative_position_bias_table", "attn.proj.weight",
       "attn.proj.bias"});
  support::check_with_parameters<SeenWithTokenMasked, 8, 4>(
      file, "relative_token_masked",
      {"cls_token", "attn.qkv.weight", "attn.qkv.bias", "attn.relative_position_bias_table", "attn.proj.weight",
       "attn.proj.bias"});
  using Near = hg::Named<"attn", hg::MultiheadAttention<4, 2, hg::DistanceBias<Nearness, 9, 8>>>;
  support::check_with_parameters<hg::Sequential<Near>, 4, 4>(file, "by_distance", projections);
  support::check_with_parameters<Masked<>, 8, 4>(file, "masked", projections);
  support::check_with_parameters<Masked<hg::RelativeBias<8, 7>>, 8, 4>(file, "relative_masked", with_table);
  support::check_with_parameters<Biased, 8, 4>(file, "biased", projections);
  support::check_with_parameters<CrossMasked, 8, 4>(
      file, "cross_masked",
      {"attn.q.weight", "attn.q.bias", "attn.kv.weight", "attn.kv.bias", "attn.proj.weight", "attn.proj.bias"});
  support::check_with_parameters<CrossCoarse, 8, 4>(
      file, "cross_coarse",
      {"attn.q.weight", "attn.q.bias", "attn.kv.weight", "attn.kv.bias", "attn.proj.weight", "attn.proj.bias"});
}

TEST_CASE("in networks: every mesh as one rank, finite differences") {
  support::check_composition<Between<>, 2, 2>({2, 12, 11});
  support::check_composition<LooksBack<>, 2, 2>({2, 12, 24});
  support::check_composition<Relative<12, 12>, 2, 2>({2, 12, 11});  // by heads where there are three ranks or more
  support::check_composition<RelativeVolume, 2, 2, false, support::VolumeMesh>({1, 6, 6, 7});
  support::check_composition<Told<hg::KeyBias>, 2, 2>({2, 12, 11});
  support::check_composition<TwoTokens<hg::RelativeBias<12, 12>>, 2, 2>({2, 12, 11});
  support::check_composition<NearAndMasked<>, 2, 2>({2, 12, 11});
  support::check_composition<NearAndMasked<hg::ParallelBy<hg::ContextParallel::deterministic>>, 2, 2>({2, 12, 11});
  support::check_composition<TwoTokens<hg::DistanceBias<Nearness, 12, 11>>, 2, 2>({2, 12, 11});
}

TEST_CASE("dropout of shares: finite differences, the same on every mesh, anew at each step, none in inference") {
  const auto check = []<class Model, class Kept>(Model, Kept) {
    static std::vector<double> first;  // on the first mesh, one rank's
    const auto parameters = support::numbers<double>(hg::Parameters<Model, double>::count, 1);
    const auto all = support::meshes(2);
    for (const auto& mesh : all) {
      CAPTURE(support::text(mesh));
      using Image = support::FieldOn<support::Mesh, double, 2>;
      const auto x = hg::distribute_tensor<Image>(mesh, {2, 2, 12, 11}, support::numbers<double>(2 * 2 * 12 * 11, 2));
      hg::Parameters<Model, double> start;
      start.copy_from_host(parameters);
      auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(x), x); }, 17);
      const auto [loss, share] = step(start);
      const std::vector<double> gradient = hg::redistribute<hg::Replicate>(share).to_host();
      if (first.empty()) first = gradient;
      CHECK(support::relative_error(gradient, first) < 1e-12);
      CHECK(step(start).first != loss);
      hg::Parameters<Kept, double> same;
      same.copy_from_host(parameters);
      CHECK(hg::full_tensor(hg::infer(start, x)) == hg::full_tensor(hg::infer(same, x)));
      if (mesh.extents() != all.front().extents()) continue;
      const auto loss_of = [&](const std::vector<double>& p) {
        hg::Parameters<Model, double> moved;
        moved.copy_from_host(p);
        step.set_step(0);
        return step(moved).first;
      };
      CHECK(support::slope_error(loss_of, parameters, gradient, support::numbers<double>(parameters.size(), 3)) < 1e-6);
    }
  };
  using Drop = hg::AttentionDropout<std::ratio<1, 4>>;
  check(Dropping<Drop>{}, Dropping<>{});
  check(Dropping<Drop, hg::RelativeBias<12, 12>>{}, Dropping<hg::RelativeBias<12, 12>>{});
  check(Told<hg::KeyBias, Drop>{}, Told<hg::KeyBias>{});
}

TEST_CASE("a batch that is cut unevenly: a mask lies as the samples do") {
  ONLY_ON_RANKS(2);
  using Image = support::FieldOn<support::Mesh, double, 2>;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {2, 1, 1});
  const auto values = support::numbers<double>(3 * 2 * 12 * 11, 2);
  const auto usual = hg::distribute_tensor<Image>(mesh, {3, 2, 12, 11}, values);
  Image uneven(mesh, {hg::Cut::of_sizes({1, 2}), usual.cut(1), usual.cut(2), usual.cut(3)});
  hg::redistribute_to(usual, uneven);
  const auto parameters = hg::initial_parameters<Between<>, double>(1);
  const auto gradient = [&](const Image& x) {
    auto step = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(net(x))); });
    return hg::redistribute<hg::Replicate>(std::get<1>(step(parameters))).to_host();
  };
  CHECK(support::relative_error(gradient(uneven), gradient(usual)) < 1e-12);
}

TEST_CASE("a field that is larger than the table of distances is refused alike on all ranks") {
  using Small = hg::Sequential<hg::Attend<1, hg::RelativeBias<12, 8>>>;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, support::world().size(), 1});
  const auto x = hg::distribute_tensor<support::FieldOn<support::Mesh, double, 3>>(
      mesh, {1, 3, 12, 11}, support::numbers<double>(3 * 12 * 11, 2));
  const auto parameters = hg::initial_parameters<Small, double>(1);
  CHECK(
      support::refusal<hg::CollectiveError>([&] { hg::infer(parameters, x); }) ==
      "attention: the field has 11 points in dimension 3, RelativeBias is of 8: give RelativeBias the largest extents "
      "of the level");
  using Broken = hg::Sequential<hg::Attend<1, hg::DistanceBias<NoNumber, 12, 11>>>;
  CHECK(support::refusal<hg::CollectiveError>([&] {
          hg::infer(hg::initial_parameters<Broken, double>(1), x);
        }).starts_with("DistanceBias: the functor gives nan for head 0 and offset (-11, 2): give a finite number"));
}

TEST_CASE("what attention sends is what a dry run says") {
  const auto check = []<class Model, class T = double>(Model, hg::index_t height, hg::index_t width, T = {},
                                                       const char* way = "; attention, ") {
    for (const auto& mesh : support::meshes(2)) {
      CAPTURE(support::text(mesh));
      using Image = support::FieldOn<support::Mesh, T, 2>;
      const auto x = hg::distribute_tensor<Image>(mesh, {2, 2, height, width},
                                                  support::numbers<T>(static_cast<std::size_t>(4 * height * width), 2));
      hg::Trainer<Model, hg::AdamW, support::Mesh, hg::compute_type<T>> trainer(Model{}, hg::AdamW{}, mesh,
                                                                                {.seed = 3});
      trainer.step(hg::mse, x, x).item();
      const hg::CommStatistics before = hg::comm_stats();
      const auto step = trainer.step(hg::mse, x, x);
      step.item();
      const hg::TrafficUse planned = step.layout().traffic();
      const hg::CommStatistics spent = hg::comm_stats() - before;
      CHECK(spent.messages.count == planned.messages);
      CHECK(spent.messages.bytes == planned.bytes);
      const int of_mesh = mesh.size() > 1 ? 2 : 0;  // loss, gradient
      CHECK(spent.all_reduces.count == planned.all_reduces + of_mesh);
      const bool is_cut = mesh.extent(1) * mesh.extent(2) > 1;
      CHECK((hg::explain(step.layout()).find(way) != std::string::npos) == is_cut);
    }
  };
  using hg::ContextParallel;
  check(Dropping<hg::ParallelBy<ContextParallel::ring>>{}, 12, 11, 0.0,
        "; attention, keys and values go round the ranks that cut the sequence (");
  check(Dropping<hg::ParallelBy<ContextParallel::deterministic>>{}, 12, 11);
  check(WithToken<hg::ParallelBy<ContextParallel::deterministic>>{}, 12, 11);
  check(Dropping<>{}, 12, 12);
  check(LooksBack<>{}, 12, 24);
  check(Between<>{}, 12, 12);
  check(WithToken<>{}, 12, 11);
  check(TwoTokens<hg::RelativeBias<12, 12>>{}, 12, 11);
  check(Told<hg::KeyBias>{}, 12, 11);
  check(Between<>{}, 12, 12, hg::bfloat16());
}
TEST_CASE("what attention of causal signals sends is what a dry run says") {
  const auto check = []<class Model>(Model) {
    using Image = support::FieldOn<support::SignalMesh, double, 2>;
    const auto mesh = hg::device_mesh<support::SignalMesh>(support::world(), {1, support::world().size()});
    const auto x = hg::distribute_tensor<Image>(mesh, {2, 2, 400}, support::numbers<double>(4 * 400, 2));
    hg::Trainer<Model, hg::AdamW, support::SignalMesh, double> trainer(Model{}, hg::AdamW{}, mesh, {.seed = 3});
    trainer.step(hg::mse, x, x).item();
    const hg::CommStatistics before = hg::comm_stats();
    const auto step = trainer.step(hg::mse, x, x);
    step.item();
    const hg::TrafficUse planned = step.layout().traffic();
    const hg::Tally sent = (hg::comm_stats() - before).messages;
    CHECK(sent.count == planned.messages);
    CHECK(sent.bytes == planned.bytes);
  };
  check(Wave<hg::ContextParallel::ring>{});
  check(Wave<hg::ContextParallel::zigzag>{});
  check(Wave<hg::ContextParallel::automatic>{});
}

TEST_CASE("points that see no key: the result is that of the bias alone, gradients are finite") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, support::world().size(), 1});
  const auto check = [&]<class T>(T) {
    using Image = support::FieldOn<support::Mesh, T, 8>;
    Image x(mesh, {1, 8, 12, 3});
    x = hg::cast<float>(hg::global_index<1>(x)) - 9.0f;  // all channels are negative, so the mask hides all keys
    auto parameters = hg::initial_parameters<Masked<>, hg::compute_type<T>>(1);
    auto step = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(net(x) - 1.0f)); });
    const auto [loss, gradient] = step(parameters);
    CHECK(std::isfinite(static_cast<double>(loss)));
    const auto values = hg::redistribute<hg::Replicate>(gradient).to_host();
    double of_values = 0;
    for (const auto value : values) {
      CHECK(std::isfinite(value));
      of_values += std::abs(static_cast<double>(value));
    }
    CHECK(of_values > 0);  // of the last bias
  };
  check(0.0);
  check(hg::bfloat16());
}
/// Gradients of all parameters by a field whose hidden points are NaN in channels [first, last), with weight 0 there if
/// they are queries too, beside those of a field that is 0.5 there.
template <class Net, class T>
void check_hidden(int mask, int first, int last, bool are_queries, double tolerance) {
  using Image = support::FieldOn<support::Mesh, T, 8>;
  using Out = support::FieldOn<support::Mesh, T, 4>;
  using Weight = support::FieldOn<support::Mesh, T, 1>;
  constexpr std::size_t points = 12 * 5;
  const auto values = support::numbers<T>(2 * 8 * points, 1), labels = support::numbers<T>(2 * 4 * points, 2);
  const auto hidden = [&](std::size_t n, std::size_t p) { return values[(8 * n + mask) * points + p] <= 0; };
  std::vector<T> weights(2 * points, T(1));
  for (std::size_t i = 0; i < weights.size(); ++i)
    if (are_queries && hidden(i / points, i % points)) weights[i] = 0;
  const auto parameters = hg::initial_parameters<Net, T>(1);
  for (const auto& mesh :
       {support::alone(), hg::device_mesh<support::Mesh>(support::world(), {1, support::world().size(), 1})}) {
    CAPTURE(support::text(mesh));
    const auto gradient = [&](T at_hidden) {
      auto x = values;
      for (std::size_t i = 0; i < x.size(); ++i) {
        const int channel = static_cast<int>(i / points % 8);
        if (channel >= first && channel < last && hidden(i / points / 8, i % points)) x[i] = at_hidden;
      }
      const auto image = hg::distribute_tensor<Image>(mesh, {2, 8, 12, 5}, x);
      const auto y = hg::distribute_tensor<Out>(mesh, {2, 4, 12, 5}, labels);
      const auto w = hg::distribute_tensor<Weight>(mesh, {2, 1, 12, 5}, weights);
      auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(image), y, w); });
      return hg::redistribute<hg::Replicate>(std::get<1>(step(parameters))).to_host();
    };
    const auto expected = gradient(T(0.5));
    CHECK(support::relative_error(gradient(std::numeric_limits<T>::quiet_NaN()), expected) < tolerance);
    CHECK(support::relative_error(gradient(std::numeric_limits<T>::infinity()), expected) < tolerance);
  }
}

TEST_CASE("hidden points that are NaN or infinite reach no gradient: not even of the projections that read them") {
  if (!hg::runs_on_host) return;  // on a device weight gradients multiply such points by 0
  check_hidden<Masked<>, double>(4, 0, 4, true, 1e-12);
  check_hidden<Masked<hg::RelativeBias<12, 5>>, double>(4, 0, 4, true, 1e-12);
  check_hidden<CrossMasked, double>(7, 4, 7, false, 1e-12);
  check_hidden<MaskedBlock, double>(4, 0, 4, true, 1e-12);
  check_hidden<MaskedBlock, float>(4, 0, 4, true, 1e-4);
}

TEST_CASE("attention is computed once in a training step") {
  const auto mesh = support::alone<support::Mesh>();  // a ring polls between parts of a kernel, which are launches too
  using Model = hg::Sequential<hg::Conv2d<2, 8>, hg::MultiheadAttention<8, 4>, hg::Conv2d<8, 2>>;
  support::FieldOn<support::Mesh, float, 2> x(mesh, {1, 2, 12, 8});
  hg::Trainer<Model, hg::AdamW, support::Mesh, float> trainer(Model{}, hg::AdamW{}, mesh, {.seed = 3});
  const auto kernels = [&](const auto& f) {
    auto events = support::kokkos_events(f);
    return std::pair(events.launches["halogen::attention"], events.launches["halogen::channels_to_rows"]);
  };
  const auto [in_training, rows_in_training] = kernels([&] { trainer.step(hg::mse, x, x).item(); });
  const auto [in_inference, rows_in_inference] = kernels([&] { hg::infer(trainer.parameters(), x); });
  CHECK(in_inference > 0);
  CHECK(in_training == in_inference);
  CHECK(rows_in_inference == 3);     // query, key, value
  CHECK(rows_in_training == 3 + 5);  // backward the same, the result, its gradient
}
TEST_CASE("what attention allocates is what a dry run says, about") {
  const auto check = []<class Model, class MeshType, class Extents>(Model, const hg::DeviceMesh<MeshType>& mesh,
                                                                    const Extents& extents) {
    using Image = support::FieldOn<MeshType, float, 2>;
    Image x(mesh, extents);
    hg::Trainer<Model, hg::AdamW, MeshType, float> trainer(Model{}, hg::AdamW{}, mesh, {.seed = 3});
    hg::empty_cache();
    const auto events = support::kokkos_events([&] { trainer.step(hg::mse, x, x).item(); });
    double allocated = 0;
    for (const char* label : {"field", "piece", "sum", "send", "receive", "zigzag", "attention"})
      allocated += static_cast<double>(events.bytes(std::string("halogen::") + label));
    const hg::MemoryUse& planned = trainer.bind_step(x)->layout().memory();
    CHECK(allocated < 1.1 * static_cast<double>(planned.functions));
    CHECK(allocated > 0.8 * static_cast<double>(planned.functions));
    CHECK(planned.total() == planned.tensors + planned.workspace + planned.exchange + planned.functions);
  };
  const int ranks = support::world().size();
  const auto rows = hg::device_mesh<support::Mesh>(support::world(), {1, ranks, 1});
  const auto both = [&](auto... options) {
    using Layer = hg::MultiheadAttention<64, 4, decltype(options)...>;
    check(hg::Sequential<hg::Conv2d<2, 64>, Layer, hg::Conv2d<64, 2>>{}, rows,
          support::FieldOn<support::Mesh, float, 2>::Extents{1, 2, 48, 32});
  };
  both();
  both(hg::ParallelBy<hg::ContextParallel::ring>{}, hg::KeyValueHeads<2>{});
  if (ranks > 1 && 4 % ranks != 0) both(hg::ParallelBy<hg::ContextParallel::deterministic>{});
  const auto line = hg::device_mesh<support::SignalMesh>(support::world(), {1, ranks});
  using Layer = hg::MultiheadAttention<64, 4, hg::IsCausal<>, hg::ParallelBy<hg::ContextParallel::zigzag>>;
  using Signal = support::FieldOn<support::SignalMesh, float, 2>;
  check(hg::Sequential<hg::Linear<2, 64>, Layer, hg::Linear<64, 2>>{}, line, Signal::Extents{1, 2, 1536});
}

}  // namespace test_attention_terms
