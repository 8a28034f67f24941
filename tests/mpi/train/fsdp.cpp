// transports: mpi nccl
// ranks: 1 2 3 4 6
// guard: 1
// timeout: 300
// program: sharded_parameters
// reads: convolutions
// Parameters, gradients and moments sharded over "data": the same training as replicated, 1/N of the bytes, and one
// all_gather a layer and pass, one reduce_scatter a layer, as MPI itself counts them.
#include <doctest/doctest.h>

#include <filesystem>
#include <numeric>

#include "halogen/layers/activations/silu.hpp"
#include "halogen/layers/batch_norm.hpp"
#include "halogen/layers/class_token.hpp"
#include "halogen/layers/expand.hpp"
#include "halogen/layers/frozen.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/layer_norm_over.hpp"
#include "halogen/layers/position_embedding.hpp"
#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/kokkos_events.hpp"
#include "support/over_nccl.hpp"
#include "support/pmpi_counter.hpp"
#include "support/train_once.hpp"

namespace test_fsdp {

namespace {

constexpr int in = 3, base = 8, groups = 4;  // groups of two channels: every bias matters
using Net = hg::UNet<in, 1, base, hg::Boundary<hg::Zero, hg::Periodic>, groups>;
constexpr hg::index_t height = 24, width = 16;

/// One activation read with and without its ReLU, layers without bias, a layer that nobody reads, a norm at the end.
struct Branches : hg::Module<Branches> {
  constexpr hg::Traced forward(hg::Traced x) const {
    hg::Conv2d<in, 5>{}(x);
    const hg::Traced y = hg::GroupNorm<2, 4>{}(hg::Conv2d<in, 4, hg::Kernel<3>, hg::Padding<1>>{}(x));
    const hg::Traced inner =
        hg::GroupNorm<1, 4>{}(hg::Conv2d<4, 4, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>>{}(hg::ReLU{}(y)));
    hg::Conv2d<4, 4>{}(y);
    const hg::Traced z = hg::Conv2d<8, 2, hg::Kernel<1>>{}(hg::concat(y, hg::ReLU{}(inner)));
    return hg::Conv2d<2, 1>{}(hg::GroupNorm<1, 2>{}(z));
  }
};
struct EndsInNorm : hg::Sequential<hg::Conv2d<in, 4>, hg::GroupNorm<2, 4>, hg::Conv2d<4, 2>, hg::GroupNorm<1, 2>,
                                   hg::Conv2d<2, 4>, hg::ReLU, hg::Conv2d<4, 1>> {};
struct OneLayer : hg::Conv2d<in, 1, hg::Kernel<3>, hg::Padding<1>> {};
/// Layers that are not trained, or in part, before and between others; running statistics.
constexpr auto is_weight = [](std::string_view name) { return name.ends_with("weight"); };
struct WithBuffers
    : hg::Sequential<hg::Frozen<hg::Conv2d<in, 4, hg::Kernel<3>, hg::Padding<1>>>, hg::BatchNorm2d<4>, hg::ReLU,
                     hg::Conv2d<4, 5>, hg::Frozen<hg::GroupNorm<1, 5>>, hg::Frozen<hg::Conv2d<5, 4>>,
                     hg::Frozen<hg::BatchNorm2d<4>>, hg::SiLU,
                     hg::Frozen<hg::Sequential<hg::Conv2d<4, 4>, hg::GroupNorm<2, 4>>, is_weight>, hg::Conv2d<4, 1>> {};

/// Numbers for each point, behind a stride as well: tables that lie on fields.
struct OnField
    : hg::Sequential<hg::Conv2d<in, 4, hg::Kernel<3>, hg::Padding<1>>, hg::PositionEmbedding2d<4, height, width>,
                     hg::SiLU, hg::LayerNormOver<4, height, width>, hg::Conv2d<4, 6, hg::Kernel<2>, hg::Stride<2>>,
                     hg::PositionEmbedding2d<6, height / 2, width / 2>, hg::SiLU,
                     hg::ConvTranspose2d<6, 1, hg::Kernel<2>, hg::Stride<2>>> {};
/// A table that is trained beside one that is a buffer.
struct OnFieldInPart : hg::Sequential<hg::Conv2d<in, 4, hg::Kernel<3>, hg::Padding<1>>,
                                      hg::Frozen<hg::LayerNormOver<4, height, width>, is_weight>, hg::Conv2d<4, 1>> {};

/// One table with rows for tokens, and one that is added twice.
struct OnFieldShared : hg::Module<OnFieldShared> {
  using Places = hg::PositionEmbedding2d<4, height, width>::WithTokens<2>;
  hg::Named<"first", hg::Conv2d<in, 4, hg::Kernel<3>, hg::Padding<1>>> first;
  hg::Named<"place", hg::PositionEmbedding2d<4, height, width>> place;
  hg::Named<"last", hg::Conv2d<4, 1>> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced points = hg::SiLU{}(Places::part(place(first(x))));
    const hg::Traced token =
        Places::token<0>(hg::GlobalAvgPool{}(points)) + Places::token<1>(hg::ClassToken<4>::part(x));
    return last(hg::SiLU{}(place(points)) + hg::expand(token, x));
  }
};

/// A layer that is called twice, with others between its calls and around them.
struct Again : hg::Module<Again> {
  hg::Named<"first", hg::Conv2d<in, 4, hg::Kernel<3>, hg::Padding<1>>> first;
  hg::Named<"again", hg::Sequential<hg::Conv2d<4, 4, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 4>>> again;
  hg::Named<"between", hg::Conv2d<4, 4>> between;
  hg::Named<"last", hg::Conv2d<4, 1>> last;
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced y = between(hg::SiLU{}(again(first(x))));
    return last(hg::SiLU{}(again(y)));
  }
};

using Sharding = hg::ShardParameters<"data">;
using ShardingOverTwo = hg::ShardParameters<"data", "height">;
template <class Model, class S = Sharding>
using Sharded = hg::Trainer<Model, hg::AdamW, support::Mesh, double, S>;
template <class Model>
using Replicated = hg::Trainer<Model, hg::AdamW, support::Mesh, double>;

/// Each rank makes its own samples, and nobody ever holds all: `batch` of them, uneven over three or four ranks.
struct Samples {
  explicit Samples(const hg::DeviceMesh<support::Mesh>& mesh, hg::index_t batch = 11)
      : image(mesh, {batch, in, height, width}),
        label(mesh, {batch, 1, height, width}),
        weight(mesh, {batch, 1, height, width}) {
    fill(image, 1);
    fill(label, 2);
    Kokkos::deep_copy(weight.to_local(), 0.7);
  }
  support::Field<double, in> image;
  support::Field<double, 1> label, weight;

 private:
  template <class Field>
  static void fill(Field field, std::uint64_t stream) {
    std::vector<double> piece;
    hg::index_t i = 0;
    hg::detail::for_each_point(field, field.mesh().rank(), [&](hg::index_t at) {
      i = at;
      piece.push_back(2 * hg::uniform_at(11, stream, static_cast<std::uint64_t>(i)) - 1);
    });
    field.copy_from_host(piece);
  }
};

/// Runs f on every mesh of the world that leaves no piece of the U-Net empty.
template <class F>
void on_meshes(F f) {
  for (const auto& mesh : support::meshes(6)) {
    CAPTURE(support::text(mesh));
    try {
      hg::layout_of<support::Field<double, in>>(Net{}, mesh, {11, in, height, width});
    } catch (const hg::CollectiveError& error) {
      if (!support::leaves_a_piece_empty(error)) throw;
      continue;
    }
    f(mesh);
  }
}

constexpr hg::AdamW adamw{.lr = 5e-3};

template <class Model, class S>
void check_same_training(const hg::DeviceMesh<support::Mesh>& mesh, S sharding, int steps = 4,
                         const hg::AdamW& settings = adamw) {
  const Samples samples(mesh);
  Replicated<Model> replicated(Model{}, settings, mesh, {.seed = 7});
  Sharded<Model, S> sharded(Model{}, settings, mesh, {.seed = 7}, sharding);
  CHECK(hg::redistribute<hg::Replicate>(sharded.parameters()).to_host() == replicated.parameters().to_host());
  for (int step = 0; step < steps; ++step) {
    CAPTURE(step);
    const double expected = replicated.step(hg::mse, samples.image, samples.label, samples.weight).item();
    const double loss = sharded.step(hg::mse, samples.image, samples.label, samples.weight).item();
    CHECK(std::abs(loss - expected) <= 1e-12 * expected);
    const auto parameters = hg::redistribute<hg::Replicate>(sharded.parameters()).to_host();
    CHECK(support::relative_error(parameters, replicated.parameters().to_host()) < 1e-12);
  }
  const auto prediction = hg::full_tensor(sharded.predict(samples.image));
  CHECK(support::relative_error(prediction, hg::full_tensor(replicated.predict(samples.image))) < 1e-12);
  CHECK(hg::full_tensor(hg::infer(sharded.parameters(), samples.image)) == prediction);
}

/// Values of the U-Net's buckets, on paper: the first convolution; a norm and the convolution behind it; the head.
std::vector<std::int64_t> unet_buckets() {
  const int channels[][2] = {{in, base},           {base, base},         {base, 2 * base},     {2 * base, 2 * base},
                             {2 * base, 4 * base}, {4 * base, 4 * base}, {6 * base, 2 * base}, {2 * base, 2 * base},
                             {3 * base, base},     {base, base}};
  std::vector<std::int64_t> buckets;
  std::int64_t norm = 0;
  for (const auto& [from, to] : channels) {
    buckets.push_back(norm + 9 * from * to + to);
    norm = 2 * to;
  }
  buckets.push_back(norm + base + 1);
  return buckets;
}

std::int64_t pieces(const std::vector<std::int64_t>& buckets, int ranks) {
  return std::accumulate(buckets.begin(), buckets.end(), std::int64_t{0},
                         [&](std::int64_t sum, std::int64_t values) { return sum + (values + ranks - 1) / ranks; });
}

template <class F>
hg::CommStatistics spent_by(F f) {
#ifdef HALOGEN_WITH_MPI
  const pmpi::Counts start = pmpi::counts;
#endif
  const hg::CommStatistics before = hg::comm_stats();
  f();
  const hg::CommStatistics spent = hg::comm_stats() - before;
#ifdef HALOGEN_WITH_MPI
  const auto same = [](const hg::Tally& ours, const pmpi::Tally& a, const pmpi::Tally& b) {
    return ours.count == b.count - a.count && ours.bytes == b.bytes - a.bytes;
  };
  if (support::is_over_nccl()) return spent;
  CHECK(same(spent.all_gathers, start.all_gathers, pmpi::counts.all_gathers));
  CHECK(same(spent.reduce_scatters, start.reduce_scatters, pmpi::counts.reduce_scatters));
  CHECK(same(spent.all_reduces, start.all_reduces, pmpi::counts.all_reduces));
  CHECK(pmpi::counts.others.count == start.others.count);
#endif
  return spent;
}

}  // namespace

TEST_CASE("double: losses, parameters and predictions are the replicated ones, on every mesh") {
  on_meshes([](const auto& mesh) { check_same_training<Net>(mesh, Sharding{}); });
}

TEST_CASE("the same for models that branch, for one layer, and for buckets of several layers") {
  on_meshes([](const auto& mesh) {
    check_same_training<Branches>(mesh, Sharding{});
    check_same_training<EndsInNorm>(mesh, Sharding{});
    check_same_training<OneLayer>(mesh, Sharding{});
    check_same_training<Branches>(mesh, Sharding{.bucket_bytes = 500});
    check_same_training<EndsInNorm>(mesh, Sharding{.bucket_bytes = 1 << 20});
  });
}

TEST_CASE("the same where some parameters are buffers, which every rank holds") {
  on_meshes([](const auto& mesh) {
    check_same_training<WithBuffers>(mesh, Sharding{});
    check_same_training<WithBuffers>(mesh, Sharding{.bucket_bytes = 400}, 3, {.lr = 5e-3, .max_norm = 1e-2});
  });
}

TEST_CASE("the same for losses of other kinds") {
  using Model = hg::Sequential<hg::Conv2d<in, 4, hg::Kernel<3>, hg::Padding<1>>, hg::SiLU, hg::Conv2d<4, 4>>;
  using Classes = support::Field<std::int64_t, 1>;
  on_meshes([](const auto& mesh) {
    const Samples samples(mesh);
    const auto target = hg::infer(hg::initial_parameters<Model, double>(3), samples.image);
    std::vector<std::int64_t> numbers(11 * height * width);
    for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i * i % 4);
    const auto classes = hg::distribute_tensor<Classes>(mesh, {11, 1, height, width}, numbers);
    const auto check = [&](const auto& loss, const auto& label, const auto&... weight) {
      Replicated<Model> replicated(Model{}, adamw, mesh, {.seed = 7});
      Sharded<Model> sharded(Model{}, adamw, mesh, {.seed = 7}, hg::shard_parameters<"data">);
      for (int step = 0; step < 3; ++step)
        CHECK(sharded.step(loss, samples.image, label, weight...).item() ==
              doctest::Approx(replicated.step(loss, samples.image, label, weight...).item()).epsilon(1e-12));
    };
    check(hg::HuberLoss({.delta = 0.3}), target, samples.weight);
    check(hg::BinaryCrossEntropyWithLogits{}, target, samples.weight);
    check(hg::expression_loss([](const auto& p, const auto& y) { return hg::dice(hg::sigmoid(p), y); }), target);
    check(hg::QuantileLoss({.q = 0.9}), target);
    check(hg::CRPS{}, target);
    check(hg::CrossEntropy({.label_smoothing = 0.1}), classes, samples.weight);
  });
}

TEST_CASE("the same with numbers for each point, of which a rank has those of its own points") {
  on_meshes([](const auto& mesh) {
    check_same_training<OnField>(mesh, Sharding{});
    check_same_training<OnField>(mesh, hg::shard_parameters<"height", "width">);
    check_same_training<OnField>(mesh, hg::shard_parameters<"data", "height", "width">, 3,
                                 {.lr = 5e-3, .max_norm = 1e-2});
    check_same_training<OnField>(mesh, hg::ShardParameters<"width", "data">{.bucket_bytes = 1 << 20}, 2);
    check_same_training<OnFieldInPart>(mesh, hg::shard_parameters<"height", "width">, 2);
    check_same_training<OnFieldShared>(mesh, hg::shard_parameters<"height", "width">, 3);
    check_same_training<OnFieldShared>(mesh, Sharding{}, 3);
  });
}

TEST_CASE("tables of numbers for each point are never whole: a step brings this rank's, and allocates nothing") {
  on_meshes([](const auto& mesh) {
    const Samples samples(mesh);
    Sharded<OnField, hg::ShardParameters<"height", "width">> trainer(OnField{}, adamw, mesh, {}, {});
    const auto step = [&] { trainer.step(hg::mse, samples.image, samples.label).item(); };
    step();
    hg::CommStatistics spent;
    CHECK(support::kokkos_events([&] { spent = spent_by(step); }).allocations.empty());
    const bool plane = mesh.extent(1) * mesh.extent(2) > 1;
    // Three convolutions, forward and backward, but for the first, whose input needs no gradient, and the last, which
    // is still there; the norm's moments.
    CHECK(spent.all_gathers.count == (plane ? 3 + 1 + 1 : 0));
    CHECK(spent.reduce_scatters.count == (plane ? 3 : 0));
    auto allocated = support::kokkos_events([&] {
                       Sharded<OnField, hg::ShardParameters<"height", "width">> another(OnField{}, adamw, mesh, {}, {});
                       another.step(hg::mse, samples.image, samples.label);
                     }).allocations;
    const auto own = [&](hg::index_t scale) {
      const auto shape = samples.image.local_shape();
      return 8 * static_cast<std::uint64_t>(shape[2] / scale * (shape[3] / scale));
    };
    if (plane && own(2) * 4 == own(1)) {  // the pieces of the coarse level are halves
      auto& of_points = allocated["halogen::values_of_points"];
      std::sort(of_points.begin(), of_points.end());
      std::vector<std::uint64_t> expected = {4 * own(1), 4 * own(1), 4 * own(1), 6 * own(2)};
      std::sort(expected.begin(), expected.end());
      CHECK(of_points == expected);
    }
  });
}

TEST_CASE("the same where a layer is called twice") {
  on_meshes([](const auto& mesh) {
    check_same_training<Again>(mesh, Sharding{});
    check_same_training<Again>(mesh, Sharding{.bucket_bytes = 400}, 3);
  });
}

TEST_CASE("the same with gradients clipped: the norm is that of all shards") {
  on_meshes([](const auto& mesh) {
    check_same_training<EndsInNorm>(mesh, Sharding{}, 3, {.lr = 5e-3, .max_norm = 1e-3});
    check_same_training<EndsInNorm>(mesh, hg::shard_parameters<"data", "height">, 3, {.lr = 5e-3, .max_norm = 1e-3});
  });
}

TEST_CASE("the same sharded over other mesh dimensions, or over several") {
  on_meshes([](const auto& mesh) {
    check_same_training<EndsInNorm>(mesh, hg::shard_parameters<"height">, 2);
    check_same_training<EndsInNorm>(mesh, hg::shard_parameters<"width", "data">, 2);
    check_same_training<EndsInNorm>(mesh, hg::shard_parameters<"data", "height", "width">, 2);
  });
}

TEST_CASE("ranks that see the same samples may share parameters too: their gradients are the same, not summed") {
  const int ranks = support::world().size();
  using Plane = hg::Sharded<hg::Tensor<double, hg::dyn, in, hg::dyn, hg::dyn>, support::Mesh, hg::Replicate,
                            hg::Shard<2>, hg::Shard<3>>;
  using Label = hg::Sharded<hg::Tensor<double, hg::dyn, 1, hg::dyn, hg::dyn>, support::Mesh, hg::Replicate,
                            hg::Shard<2>, hg::Shard<3>>;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {-1, ranks % 2 == 0 && ranks > 2 ? 2 : 1, 1});
  const Plane image = hg::distribute_tensor<Plane>(mesh, {2, in, 8, 8}, support::numbers<double>(2 * in * 64, 1));
  const Label label = hg::distribute_tensor<Label>(mesh, {2, 1, 8, 8}, support::numbers<double>(2 * 64, 2));
  Replicated<EndsInNorm> replicated(EndsInNorm{}, adamw, mesh, {.seed = 7});
  Sharded<EndsInNorm> sharded(EndsInNorm{}, adamw, mesh, {.seed = 7});
  for (int step = 0; step < 3; ++step) {
    const double expected = replicated.step(hg::mse, image, label).item();
    CHECK(sharded.step(hg::mse, image, label).item() == doctest::Approx(expected).epsilon(1e-12));
  }
  CHECK(support::relative_error(hg::redistribute<hg::Replicate>(sharded.parameters()).to_host(),
                                replicated.parameters().to_host()) < 1e-12);
  const auto loss_of = [&](auto net) { return hg::mse(net(image), label); };  // AdamW hides a factor
  const auto expected = hg::value_and_grad(loss_of)(replicated.parameters()).second;
  const auto shards = hg::redistribute(replicated.parameters(), mesh, hg::shard_parameters<"data">);
  const auto gradient = hg::value_and_grad(loss_of)(shards).second;
  CHECK(support::relative_error(hg::redistribute<hg::Replicate>(gradient).to_host(),
                                hg::redistribute<hg::Replicate>(expected).to_host()) < 1e-12);
  Sharded<EndsInNorm, ShardingOverTwo> both(EndsInNorm{}, adamw, mesh, {.seed = 7});
  if (mesh.extent(0) > 1 && mesh.extent(1) > 1)
    CHECK_THROWS_WITH_AS(both.step(hg::mse, image, label), doctest::Contains("some cut the image and some do not"),
                         hg::CollectiveError);
}

TEST_CASE("by hand: value_and_grad of sharded parameters gives the sharded gradient") {
  on_meshes([](const auto& mesh) {
    const Samples samples(mesh);
    auto step =
        hg::value_and_grad([&](auto net) { return hg::mse(net(samples.image), samples.label, samples.weight); });
    auto step_of_shards =
        hg::value_and_grad([&](auto net) { return hg::mse(net(samples.image), samples.label, samples.weight); });
    const auto whole = hg::initial_parameters<Branches, double>(3);
    const auto shards = hg::redistribute(whole, mesh, hg::shard_parameters<"data">);
    hg::OptimizerState state(adamw, shards);
    const auto [expected, partial] = step(whole);
    const auto [loss, gradient] = step_of_shards(shards);
    CHECK(loss == doctest::Approx(expected).epsilon(1e-12));
    CHECK(support::relative_error(hg::redistribute<hg::Replicate>(gradient).to_host(),
                                  hg::redistribute<hg::Replicate>(partial).to_host()) < 1e-12);
    const auto before = shards.clone();
    state.step(shards, gradient);
    CHECK(hg::redistribute<hg::Replicate>(before).to_host() == whole.to_host());
    CHECK(hg::redistribute<hg::Replicate>(shards).to_host() != whole.to_host());
  });
}

TEST_CASE("each rank holds 1/N of parameters, gradient and moments, and stages at most three layers") {
  on_meshes([](const auto& mesh) {
    const int ranks = mesh.extent(0);
    const Samples samples(mesh);
    hg::ParameterMemory memory;
    auto allocated = support::kokkos_events([&] {
                       Sharded<Net> trainer(Net{}, adamw, mesh);
                       trainer.step(hg::mse, samples.image, samples.label);
                       trainer.predict(samples.image);
                       memory = trainer.parameter_memory();
                     }).allocations;
    const std::vector<std::int64_t> buckets = unet_buckets();
    const std::int64_t all = std::accumulate(buckets.begin(), buckets.end(), std::int64_t{0});
    CHECK(all == hg::Parameters<Net, double>::count);
    const auto share = static_cast<std::size_t>(8 * pieces(buckets, ranks));
    CHECK(memory.parameters == share);
    CHECK(memory.gradient == share);
    CHECK(memory.optimizer == 2 * share);
    CHECK(share < static_cast<std::size_t>(8 * (all / ranks + 11 + 1)));  // rounded up once a bucket
    std::int64_t largest = 0;                                             // of one bucket, filled up to equal pieces
    for (const std::int64_t values : buckets) largest = std::max(largest, (values + ranks - 1) / ranks * ranks);
    // The parameters and the gradient of a layer, and the next one's parameters beside the launch of both gradients.
    CHECK(memory.staging <= static_cast<std::size_t>(3 * (8 * largest + 64)));
    CHECK((memory.staging > 0) == (ranks > 1));
    CHECK(hg::parameter_memory<Net, double>(mesh, Sharding{}) == memory);
    const auto dry = hg::dry_mesh<support::Mesh>(mesh.extents(), mesh.rank());
    CHECK(hg::parameter_memory<Net, double>(dry, Sharding{}) == memory);

    using Bytes = std::vector<std::uint64_t>;  // what Kokkos says, each allocated once
    CHECK(allocated["halogen::parameters"] == Bytes{share});
    CHECK(allocated["halogen::gradient"] == Bytes{share});
    CHECK(allocated["halogen::first_moment"] == Bytes{share});
    CHECK(allocated["halogen::second_moment"] == Bytes{share});
    CHECK(allocated["halogen::staging"] == (ranks > 1 ? Bytes{memory.staging} : Bytes{}));
  });
  hg::ParameterMemory replicated = hg::parameter_memory<Net, double>();
  Replicated<Net> trainer(Net{}, adamw, support::alone());
  const Samples samples(support::alone(), 1);
  trainer.step(hg::mse, samples.image, samples.label);
  CHECK(trainer.parameter_memory() == replicated);
}

TEST_CASE("a step gathers each layer forward and again backward, reduces each gradient once; nothing is allocated") {
  on_meshes([](const auto& mesh) {
    const int ranks = mesh.extent(0);
    const bool shared = ranks > 1, plane = mesh.extent(1) * mesh.extent(2) > 1, alone = mesh.size() == 1;
    const Samples samples(mesh);
    Sharded<Net> trainer(Net{}, adamw, mesh);
    const auto step = [&] { trainer.step(hg::mse, samples.image, samples.label, samples.weight).item(); };
    step();
    hg::CommStatistics spent;
    CHECK(support::kokkos_events([&] { spent = spent_by(step); }).allocations.empty());

    const std::vector<std::int64_t> buckets = unet_buckets();
    const std::int64_t local = samples.image.local_shape()[0], share = pieces(buckets, ranks);
    // Forward all 11; backward all but the head, which is still there, and the first, whose input needs no gradient.
    const std::int64_t backward = pieces({buckets.begin() + 1, buckets.end() - 1}, ranks);
    hg::Tally gathers, scatters, reduces;
    if (shared) gathers = {11 + 9, 8 * (share + backward)};
    if (shared) scatters = {11, 8 * share * ranks};
    if (plane) gathers = {gathers.count + 10, gathers.bytes + 10 * groups * local * 3 * 8};  // ten norms' moments
    if (plane) reduces = {10, 10 * groups * local * 2 * 8};
    if (!alone) reduces = {reduces.count + 2, reduces.bytes + 2 * 8};  // the sum of the weights, the loss
    if (plane) reduces = {reduces.count + 1, reduces.bytes + 8 * share};
    CHECK(spent.all_gathers == gathers);
    CHECK(spent.reduce_scatters == scatters);
    CHECK(spent.all_reduces == reduces);

    trainer.predict(samples.image);
    spent = spent_by([&] { trainer.predict(samples.image); });
    CHECK(spent.all_gathers.count == (shared ? 11 : 0) + (plane ? 10 : 0));
    CHECK(spent.reduce_scatters == hg::Tally{});
  });
}

TEST_CASE("weights that sum to nothing are refused between the passes; the next step is right") {
  on_meshes([](const auto& mesh) {
    Samples samples(mesh);
    Sharded<Net> trainer(Net{}, adamw, mesh, {.seed = 7}), other(Net{}, adamw, mesh, {.seed = 7});
    support::Field<double, 1> nothing(mesh, {11, 1, height, width});
    CHECK_THROWS_AS(trainer.step(hg::mse, samples.image, samples.label, nothing), hg::CollectiveError);
    CHECK(trainer.step(hg::mse, samples.image, samples.label).item() ==
          other.step(hg::mse, samples.image, samples.label).item());
    CHECK(hg::redistribute<hg::Replicate>(trainer.parameters()).to_host() ==
          hg::redistribute<hg::Replicate>(other.parameters()).to_host());
  });
}

TEST_CASE("an image on another mesh than the shards is refused, alike on all ranks") {
  FROM_RANKS(2);
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {-1, 1, 1});
  const auto twin = hg::device_mesh<support::Mesh>(support::world(), {-1, 1, 1});
  Sharded<OneLayer> trainer(OneLayer{}, adamw, mesh);
  const Samples samples(twin);
  CHECK_THROWS_WITH_AS(trainer.predict(samples.image), doctest::Contains("lies on another mesh"), hg::CollectiveError);
}

TEST_CASE("value_and_grad follows parameters of other buckets; an optimiser's moments refuse them") {
  on_meshes([](const auto& mesh) {
    const Samples samples(mesh);
    const auto layers = hg::initial_parameters<Net, double>(7, mesh, hg::shard_parameters<"data">);
    const auto whole = hg::initial_parameters<Net, double>(7, mesh, Sharding{.bucket_bytes = std::size_t{1} << 20});
    auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(samples.image), samples.label); });
    const auto [loss, gradient] = step(layers);
    const auto [same, other] = step(whole);
    CHECK(loss == same);
    CHECK(hg::redistribute<hg::Replicate>(gradient).to_host() == hg::redistribute<hg::Replicate>(other).to_host());
    hg::OptimizerState<Net, double, hg::Shard<0>> state(adamw, layers);
    CHECK_THROWS_WITH_AS(state.step(layers, other), doctest::Contains("sharded otherwise than those that its moments"),
                         hg::CollectiveError);
    state.step(layers, gradient);
  });
}

}  // namespace test_fsdp
