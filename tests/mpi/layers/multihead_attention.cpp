// Attention of all points to all, rotary embedding and flip as layers: PyTorch's stored tensors on every mesh
// (make_layer_references.py), finite differences of networks around them, messages.
#include <map>

#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/stored.hpp"

namespace test_multihead_attention {

namespace {

const char* const file = "multihead_attention";

template <class Layer, int In, int Out, std::size_t Rank = 3>
void check(const std::string& name) {
  support::check_named<Layer, In, Out, Rank>(file, name);
}
template <class Layer, int In, int Out>
void check_layer(const std::string& name, const std::vector<std::string>& names) {
  support::check_with_parameters<Layer, In, Out>(file, name, names);
}

/// The first third of the channels looks at the others.
struct Cross : hg::Module<Cross> {
  constexpr hg::Traced forward(hg::Traced x) const {
    constexpr hg::Named<"attn", hg::CrossAttention<4, 2, 8, hg::QueryKeyNorm<hg::RMSNorm>>> attend;
    const auto parts = hg::chunk<3>(x);
    return attend(parts[0], hg::concat(parts[1], parts[2]));
  }
};

/// Behind a value that is normed and activated and has other readers, one of them earlier in the graph.
struct Turned : hg::Module<Turned> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced wide = hg::SiLU{}(hg::GroupNorm<2, 4>{}(hg::Conv2d<2, 4>{}(x)));
    const hg::Traced plain = hg::Conv2d<4, 2>{}(wide);
    const hg::Traced turned = hg::RotaryEmbedding2d<1>{}(hg::concat(wide, wide));
    const hg::Traced y = hg::concat(turned, hg::Flip<2>{}(wide));
    return hg::Conv2d<12, 2, hg::Kernel<3>, hg::Padding<1>>{}(y) + plain;
  }
};
using Normed = hg::Sequential<hg::Conv2d<2, 6>, hg::SiLU, hg::LayerNormOfHeads<2, 3>, hg::Conv2d<6, 6>,
                              hg::RMSNormOfHeads<3, 2>, hg::Conv2d<6, 2>>;
using Wave =
    hg::Sequential<hg::Linear<2, 4>, hg::MultiheadAttention<4, 2, hg::IsCausal<>, hg::Rotary<1>>, hg::Linear<4, 2>>;
using Volume = hg::Sequential<hg::Linear<2, 12>, hg::MultiheadAttention<12, 2, hg::Rotary<3, 20>, hg::Bias<false>>,
                              hg::Linear<12, 2>>;

/// Points and two tokens, with all options; a sample's branch is dropped for all of them.
template <class Drop = std::ratio<0>>
struct WithTokens : hg::Module<WithTokens<Drop>> {
  using Attention = hg::MultiheadAttention<16, 4, hg::KeyValueHeads<2>, hg::QueryKeyNorm<>, hg::Rotary<2>>;
  using Places = hg::PositionEmbedding2d<16, 12, 11>::WithTokens<2>;
  hg::Named<"first", hg::Conv2d<2, 16>> first;
  hg::Named<"block", hg::TransformerBlock<16, Attention, Drop>> block;
  hg::Named<"register", hg::ClassToken<16>> register_token;
  hg::Named<"last", hg::Conv2d<16, 2>> last;
  hg::Named<"from_tokens", hg::Linear<16, 2>> from_tokens;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced points = Places::part(first(x));
    const hg::Traced one = Places::token<0>(hg::ClassToken<16>::part(x));
    const hg::Traced other = Places::token<1>(register_token(x));
    const auto seen = block(points, one, other);
    const hg::Traced sum = from_tokens(seen[1]) + from_tokens(seen[2]);
    return last(seen[0]) + hg::expand(sum, x);
  }
};
/// The token alone goes on, of a volume.
struct OnlyToken : hg::Module<OnlyToken> {
  hg::Named<"first", hg::Conv3d<2, 4>> first;
  hg::Named<"attn", hg::MultiheadAttention<4, 2>> attention;
  hg::Named<"head", hg::Linear<4, 2>> head;
  constexpr hg::Traced forward(hg::Traced x) const {
    const auto seen = attention(first(x), hg::ClassToken<4>::part(x));
    return head(seen[1]);
  }
};

}  // namespace

TEST_CASE("RotaryEmbedding: signals, planes, volumes") {
  check<hg::RotaryEmbedding1d<2>, 8, 8, 2>("turned_signal");
  check<hg::RotaryEmbedding2d<1, 100>, 8, 8>("turned_plane");
  check<hg::RotaryEmbedding3d<2>, 12, 12, 4>("turned_volume");
}
TEST_CASE("Flip: signals, planes, volumes") {
  check<hg::Flip<2, 3>, 2, 2>("flip");
  check<hg::Flip<3>, 2, 2>("flip_columns");
  check<hg::Flip<2>, 2, 2, 2>("flip_signal");
  check<hg::Flip<2, 4>, 1, 1, 4>("flip_volume");
}
TEST_CASE("attention: causal, with turned queries and keys") {
  check<hg::Attend<2, hg::IsCausal<>>, 12, 4, 2>("causal");
  check<hg::Attend<2, hg::Rotary<2, 50>>, 24, 8>("attend_turned");
  check<hg::Attend<4, hg::IsCausal<>, hg::KeyValueHeads<2>>, 8, 4, 2>("grouped");
}
TEST_CASE("attention: causal and turned, 13 points of one sample, which leave the last of six ranks nothing") {
  ONLY_ON_RANKS(1, 2, 3, 4);
  check<hg::Attend<1, hg::IsCausal<>, hg::Rotary<1>>, 12, 4, 2>("causal_turned");
}
TEST_CASE("with projections and norms of the heads: itself, and another value") {
  check_layer<hg::MultiheadAttention<8, 2, hg::Rotary<2>, hg::QueryKeyNorm<>>, 8, 8>(
      "layer", {"qkv.weight", "qkv.bias", "q_norm.weight", "q_norm.bias", "k_norm.weight", "k_norm.bias", "proj.weight",
                "proj.bias"});
  check_layer<hg::MultiheadAttention<6, 3, hg::KeyValueHeads<1>, hg::QueryKeyNorm<>>, 6, 6>(
      "grouped_layer", {"qkv.weight", "qkv.bias", "q_norm.weight", "q_norm.bias", "k_norm.weight", "k_norm.bias",
                        "proj.weight", "proj.bias"});
  check_layer<Cross, 12, 4>("cross",
                            {"attn.q.weight", "attn.q.bias", "attn.kv.weight", "attn.kv.bias", "attn.q_norm.weight",
                             "attn.k_norm.weight", "attn.proj.weight", "attn.proj.bias"});
}
TEST_CASE("in networks: every mesh as one rank, finite differences") {
  support::check_composition<Turned, 2, 2>({2, 12, 11});
  support::check_composition<Normed, 2, 2, true>({2, 12, 11});
  support::check_composition<Wave, 2, 2, false, support::SignalMesh>({2, 29});
  support::check_composition<Volume, 2, 2, false, support::VolumeMesh>({1, 6, 6, 7});
}
TEST_CASE("with tokens: every mesh as one rank, finite differences, names, one draw for a sample") {
  support::check_composition<WithTokens<>, 2, 2>({2, 12, 11});
  support::check_composition<OnlyToken, 2, 2, false, support::VolumeMesh>({2, 6, 6, 7});
  CHECK(hg::parameter_names<OnlyToken>() ==
        std::vector<std::string>{"first.weight", "first.bias", "cls_token", "attn.qkv.weight", "attn.qkv.bias",
                                 "attn.proj.weight", "attn.proj.bias", "head.weight", "head.bias"});
  using Dropped = WithTokens<std::ratio<1, 2>>;
  constexpr auto& nodes = hg::graph_of<Dropped, 2>.nodes;
  std::map<int, int> draws;  // by the number that a layer draws by
  for (const hg::Node& node : nodes)
    if (node.operation != nullptr && node.operation->name == std::string("dropout")) ++draws[node.layer];
  CHECK(draws.size() == 2);
  for (const auto& [layer, count] : draws) CHECK(count == 3);
}
TEST_CASE("launches of a block: bias, GELU and residual sums ride") {
  using Block = hg::TransformerBlock<8, hg::MultiheadAttention<8, 2>>;
  using Two = hg::Sequential<Block, Block>;
  using Three = hg::Sequential<Block, Block, Block>;
  constexpr auto launches = []<class Model>(Model, hg::PlanKind kind) {
    return hg::make_plan(hg::graph_of<Model, 8>, kind).launches.size();
  };
  constexpr auto of_block = [=](hg::PlanKind kind) { return launches(Three{}, kind) - launches(Two{}, kind); };
  CHECK(of_block(hg::PlanKind::inference) == 7);  // two norms, four Linear, attention
  constexpr int of_norm = hg::TileSizes::on_device ? 2 : 1;
  CHECK(of_block(hg::PlanKind::vjp) == 7 + 9 + 2 * of_norm);  // two for each Linear, one for attention
}
TEST_CASE("two models of other heads on one mesh, step by step: each as if alone") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const auto numbers = support::numbers<double>(2 * 2 * 12 * 11, 2);
  const auto image = hg::distribute_tensor<support::FieldOn<support::Mesh, double, 2>>(mesh, {2, 2, 12, 11}, numbers);
  const auto losses = [&]<class... Models>(const Models&... models) {
    std::tuple trainers{
        hg::Trainer<Models, hg::AdamW, support::Mesh, double>(models, {.lr = 0.1}, mesh, {.seed = 3})...};
    std::vector<std::vector<double>> all(sizeof...(Models));
    for (int step = 0; step < 3; ++step)
      std::apply(
          [&](auto&... trainer) {
            int model = 0;
            (..., all[static_cast<std::size_t>(model++)].push_back(trainer.step(hg::mse, image, image).item()));
          },
          trainers);
    return all;
  };
  using Two = hg::Sequential<hg::Linear<2, 8>, hg::MultiheadAttention<8, 2>, hg::Linear<8, 2>>;
  using Four = hg::Sequential<hg::Linear<2, 8>, hg::MultiheadAttention<8, 4>, hg::Linear<8, 2>>;
  const auto both = losses(Two{}, Four{});
  CHECK(both[0] == losses(Two{})[0]);
  CHECK(both[1] == losses(Four{})[0]);
  CHECK(both[0] != both[1]);
}
TEST_CASE("bfloat16: a block of points and tokens, near float on every mesh") {
  using Model = WithTokens<>;
  const auto held = [](std::size_t count, std::uint64_t stream) {
    return support::as<float>(support::as<hg::bfloat16>(support::numbers<float>(count, stream)));
  };
  std::vector<float> parameters = held(hg::Parameters<Model, float>::count, 1);
  for (float& value : parameters) value *= 0.25f;
  const auto run = [&]<class S>(const hg::DeviceMesh<support::Mesh>& mesh, S) {
    return support::train_once<Model, 2, 2, support::InnerProduct, S>(mesh, {1, 12, 11}, parameters, held(2 * 132, 2),
                                                                      {12, 11}, held(2 * 132, 3));
  };
  const auto error = [](const std::vector<float>& a, const std::vector<float>& b) {
    return support::relative_error(support::as<double>(a), support::as<double>(b));
  };
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto half = run(mesh, hg::bfloat16()), single = run(mesh, 0.0f);
    CHECK(error(half.output, single.output) < 1. / 64);
    CHECK(error(half.input_gradient, single.input_gradient) < 1. / 32);
    CHECK(error(half.parameter_gradient, single.parameter_gradient) < 1. / 32);
  }
}
TEST_CASE("messages: a token costs two all_reduces forward") {
  ONLY_ON_RANKS(2);
  const auto mesh = hg::device_mesh<support::VolumeMesh>(support::world(), {1, 1, 2, 1});
  const auto image = hg::distribute_tensor<support::FieldOn<support::VolumeMesh, double, 2>>(
      mesh, {1, 2, 6, 6, 7}, support::numbers<double>(2 * 6 * 6 * 7, 2));
  const auto spent_by = [&]<class Model>(Model) {
    const auto parameters = hg::initial_parameters<Model, double>(7);
    hg::infer(parameters, image);
    const hg::CommStatistics before = hg::comm_stats();
    hg::infer(parameters, image);
    return hg::comm_stats() - before;
  };
  const auto with = spent_by(OnlyToken{}), without = spent_by(hg::Conv3d<2, 2>{});
  CHECK(with.all_reduces.count == 2 + without.all_reduces.count);
  CHECK(with.messages.count == 0);  // nobody reads what the points see
}
TEST_CASE("messages: turning and norms of heads send nothing") {
  ONLY_ON_RANKS(2);
  using Model = hg::Sequential<support::Takes<8>, hg::RotaryEmbedding2d<2>, hg::LayerNormOfHeads<2, 4>>;
  const auto values = support::numbers<double>(8 * 9 * 7, 2);
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 2, 1});
  const std::vector<double> parameters{1, 2, 3, 4, 5, 6, 7, 8};
  const auto result =
      support::train_once<Model, 8, 8, support::InnerProduct>(mesh, {1, 9, 7}, parameters, values, {9, 7}, values);
  CHECK(result.traffic.messages.count == 0);
}

}  // namespace test_multihead_attention
