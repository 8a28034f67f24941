// transports: mpi nccl
// ranks: 1 2 3 4 6
// program: networks
// reads: convolutions
// What one training step sends, as MPI itself sees it, as the statistics count it, as the layout plans it and as a
// formula on paper says; what it allocates: nothing from the second step on.
#include <doctest/doctest.h>

#include "halogen/layers/adaptive_max_pool.hpp"
#include "halogen/layers/batch_norm.hpp"
#include "halogen/layers/expand.hpp"
#include "halogen/layers/global_avg_pool.hpp"
#include "halogen/layers/layer_norm.hpp"
#include "halogen/layers/layer_norm_over.hpp"
#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/heap.hpp"
#include "support/kokkos_events.hpp"
#include "support/over_nccl.hpp"
#include "support/pmpi_counter.hpp"
#include "support/train_once.hpp"

namespace test_traffic {

namespace {

constexpr int in = 3, base = 8, groups = 8;
using Net = hg::UNet<in, 1, base, hg::Boundary<hg::Zero, hg::Periodic>, groups>;
using Pointwise = hg::Sequential<hg::Conv2d<in, 4>, hg::ReLU, hg::Conv2d<4, 1>>;

template <class Model>
struct Training {
  using T = double;
  explicit Training(const hg::DeviceMesh<support::Mesh>& mesh, hg::index_t batch = 1, hg::index_t height = 36,
                    hg::index_t width = 48)
      : image(mesh, {batch, in, height, width}),
        label(mesh, {batch, 1, height, width}),
        weight(mesh, {batch, 1, height, width}),
        trainer(Model{}, hg::AdamW{}, mesh, {.seed = 3}) {
    Kokkos::deep_copy(weight.to_local(), 1.0);
    Kokkos::deep_copy(label.to_local(), 0.5);
    image.copy_from_host(support::numbers<T>(image.to_host().size(), static_cast<std::uint64_t>(mesh.rank())));
  }
  double step() { return trainer.step(hg::mse, image, label, weight).item(); }

  support::Field<T, in> image;
  support::Field<T, 1> label, weight;
  hg::Trainer<Model, hg::AdamW, support::Mesh, T> trainer;
};

/// Counts a step after the first: by the library, and checked against MPI's own. Nothing is set up anew in it.
template <class Model>
hg::CommStatistics second_step(Training<Model>& training) {
  training.step();
#ifdef HALOGEN_WITH_MPI
  const pmpi::Counts start = pmpi::counts;
#endif
  const hg::CommStatistics before = hg::comm_stats();
  training.step();
  const hg::CommStatistics spent = hg::comm_stats() - before;
#ifdef HALOGEN_WITH_MPI
  const pmpi::Counts end = pmpi::counts;
  const auto same = [](const hg::Tally& ours, const pmpi::Tally& a, const pmpi::Tally& b) {
    return ours.count == b.count - a.count && ours.bytes == b.bytes - a.bytes;
  };
  if (!support::is_over_nccl()) {
    CHECK(same(spent.messages, start.messages, end.messages));
    CHECK(same(spent.all_reduces, start.all_reduces, end.all_reduces));
    CHECK(same(spent.all_gathers, start.all_gathers, end.all_gathers));
  }
  CHECK(end.broadcasts.count == start.broadcasts.count);
  CHECK(end.gathers.count == start.gathers.count);
  CHECK(end.scatters.count == start.scatters.count);
  CHECK(end.barriers.count == start.barriers.count);
  CHECK(end.others.count == start.others.count);
  CHECK(end.inits == start.inits);
  CHECK(end.communicators == start.communicators);
#endif
  const hg::TrafficUse planned = training.trainer.bind_step(training.image)->layout().traffic();
  CHECK(spent.messages == hg::Tally{planned.messages, planned.bytes});
  const int of_mesh = spent.all_reduces.count > 0 ? 3 : 0;  // weights, loss, gradient
  CHECK(spent.all_reduces.count == planned.all_reduces + of_mesh);
  return spent;
}

}  // namespace

TEST_CASE("statistics, layout and MPI count the same; sums are as many as the model has") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    Training<Net> training(mesh, 2);
    const hg::CommStatistics spent = second_step(training);
    const bool alone = mesh.size() == 1, plane = mesh.extent(1) * mesh.extent(2) > 1;
    CHECK((spent.messages.count > 0) == plane);
    // Ten norms, gathered forward, summed backward, over the ranks of one sample's plane; weights, loss, gradient over
    // all.
    const std::int64_t samples = 2 / mesh.extent(0);
    CHECK(spent.all_gathers == (plane ? hg::Tally{10, 10 * groups * samples * 3 * 8} : hg::Tally{}));
    const std::int64_t bucket = hg::Parameters<Net, double>::count;
    const hg::Tally of_norms = plane ? hg::Tally{10, 10 * groups * samples * 2 * 8} : hg::Tally{};
    CHECK(spent.all_reduces ==
          (alone ? hg::Tally{} : hg::Tally{of_norms.count + 3, of_norms.bytes + 8 * (2 + bucket)}));
  }
}

TEST_CASE("a formula on paper: 32 rows on 2 x 2, periodic in width, cuts on the grid of tiles and beside it") {
  ONLY_ON_RANKS(4);
  // Exchanged is what a 3 x 3 convolution reads: the image, what each of the ten wrote (nine are read by the next one,
  // and by the backward of their own; the last by its own alone) and both pools' outputs: 13. And, for the gradients of
  // their inputs, the gradients behind all but the first: 9. Upsampled tensors are exchanged coarse.
  const std::int64_t fine = in + 4 * base + 3 * base;                  // 1 + 4 values, 3 gradients
  const std::int64_t middle = base + 4 * 2 * base + 4 * 2 * base;      // 1 + 4 values, 4 gradients
  const std::int64_t coarse = 2 * base + 2 * 4 * base + 2 * 4 * base;  // 1 + 2 values, 2 gradients
  // A piece of h x w sends, for margins of 1: a row to the one rank above or below, a column each way around the globe
  // to the rank beside it, two corners to the one across: three messages.
  const auto ring = [](std::int64_t h, std::int64_t w) { return w + 2 * h + 2; };
  // Where the width is cut at 6, between two tiles of 4, both ranks compute the tile [4, 8): they need 3 columns of
  // each other on this side.
  const auto beside = [](std::int64_t h, std::int64_t w) { return w + 4 * h + 4; };
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 2, 2});
  for (const hg::index_t width : {64, 48}) {
    CAPTURE(width);
    Training<Net> training(mesh, 1, 32, width);
    const hg::CommStatistics spent = second_step(training);
    const std::int64_t w = width / 2;
    CHECK(spent.messages.count == 3 * (13 + 9));
    CHECK(spent.messages.bytes == 8 * (fine * ring(16, w) + middle * ring(8, w / 2) +
                                       coarse * (width == 64 ? ring(4, w / 4) : beside(4, w / 4))));
  }
}

TEST_CASE("tiles that need no halo run before it is waited for") {
  ONLY_ON_RANKS(2);
  const auto convolutions = [](const hg::DeviceMesh<support::Mesh>& mesh) {
    Training<Net> training(mesh, 1, 256, 32);
    training.step();
    return support::kokkos_events([&] { training.step(); }).launches.at("halogen::conv2d");
  };
  CHECK(convolutions(support::alone()) == 11);
  // The interior of each but the 1 x 1 head, in one part or more with a poll after each, and what lies at the cut. (On
  // the coarsest level all tiles lie there.)
  CHECK(convolutions(hg::device_mesh<support::Mesh>(support::world(), {1, 2, 1})) >= 11 + 8);
}

TEST_CASE("one kernel a launch that explain names, and what prepares weights and finishes sums") {
  Training<Net> training(support::alone());
  training.step();
  const auto launches = support::kokkos_events([&] { training.step(); }).launches;
  const auto kernels = [&](const std::string& name) {
    const auto found = launches.find("halogen::" + name);
    return found == launches.end() ? 0 : found->second;
  };
  const hg::Layout& layout = training.trainer.bind_step(training.image)->layout();
  const hg::Plan& plan = layout.plan();
  namespace of = hg::detail;
  int convolutions = 0, weight_gradients = 0, affines = 0;
  for (const hg::Launch& launch : plan.launches) {
    const bool both = launch.is<of::ConvolutionGradients>();
    convolutions += launch.is<of::ConvolutionForward>() || launch.is<of::ConvolutionInputGradient>() || both;
    weight_gradients += launch.is<of::ConvolutionWeightGradient>();
    if (both)  // and the bias's own
      weight_gradients += launch.source == 0 && plan.node_of(launch).as<of::ConvolutionConstants>().bias ? 2 : 1;
    affines += (launch.statistics >= 0) + (launch.sums >= 0);
  }
  int stages = 0;
  for (const char* name : {"conv2d", "conv2d_gradients", "conv2d_input_gradient", "conv2d_weight_gradient", "max_pool",
                           "max_pool_backward", "resampling_backward", "loss", "gradient_store"})
    stages += kernels(name);
  CHECK(stages == plan.launches.size());
  CHECK(hg::explain(layout).find(", " + std::to_string(stages) + " launches,") != std::string::npos);
  CHECK(kernels("pack_weights") == convolutions);
  CHECK(kernels("reduce_weight_gradient") == weight_gradients);
  CHECK(kernels("affine") == 2 * affines);
  CHECK(kernels("sum") + kernels("weight_sum") == 3);
}

TEST_CASE("one rank sends nothing") {
  Training<Net> training(support::alone());
  CHECK(training.step() > 0);
  const hg::CommStatistics spent = second_step(training);
  CHECK(spent.messages == hg::Tally{});
  CHECK(spent.all_reduces == hg::Tally{});
  CHECK(spent.all_gathers == hg::Tally{});
  CHECK(spent.local_copies.count > 0);  // its own periodic images
}

TEST_CASE("a model of radius 0 sends no halos on any mesh") {
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    Training<Pointwise> training(mesh);
    const hg::CommStatistics spent = second_step(training);
    CHECK(spent.messages == hg::Tally{});
    CHECK(spent.local_copies == hg::Tally{});
    CHECK(spent.all_gathers == hg::Tally{});
    CHECK(spent.all_reduces.count == (mesh.size() > 1 ? 3 : 0));
  }
}

/// A norm between two convolutions; a vector of all points that every point sees.
template <class Norm>
using Normed = hg::Sequential<hg::Conv2d<in, 4>, Norm, hg::ReLU, hg::Conv2d<4, 1>>;
template <class Pool>
struct Seen : hg::Module<Seen<Pool>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced first = hg::Conv2d<in, 4>{}(x);
    const hg::Traced vector = Pool{}(first);
    return hg::Conv2d<4, 1>{}(first + hg::expand(vector, first));
  }
};
/// Sums of one step beside those of weights, loss and gradient: all_gathers, and all_reduces.
template <class Model>
void check_sums(const hg::DeviceMesh<support::Mesh>& mesh, bool sends, int all_gathers, int all_reduces) {
  Training<Model> training(mesh, 2);
  const hg::CommStatistics spent = second_step(training);
  CHECK(spent.messages == hg::Tally{});
  CHECK(spent.all_gathers.count == (sends ? all_gathers : 0));
  CHECK(spent.all_reduces.count == (mesh.size() > 1 ? 3 : 0) + (sends ? all_reduces : 0));
}

TEST_CASE("one message of a norm and direction; of a vector of all points one forward, and one of what sees it") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const bool plane = mesh.extent(1) * mesh.extent(2) > 1;
    check_sums<Normed<hg::BatchNorm2d<4>>>(mesh, mesh.size() > 1, 1, 1);
    check_sums<Normed<hg::GroupNorm<2, 4>>>(mesh, plane, 1, 1);
    check_sums<Normed<hg::InstanceNorm2d<4>>>(mesh, plane, 1, 1);
    check_sums<Normed<hg::LayerNormOver<4, 36, 48>>>(mesh, plane, 1, 1);
    check_sums<Normed<hg::LayerNorm<4>>>(mesh, plane, 0, 0);
    check_sums<Seen<hg::GlobalAvgPool>>(mesh, plane, 0, 2);
    check_sums<Seen<hg::GlobalMaxPool>>(mesh, plane, 0, 3);
  }
}

TEST_CASE("nothing is allocated from the second step on") {
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    Training<Net> training(mesh);
    training.step();
    CHECK(support::kokkos_events([&] { training.step(); }).allocations.empty());
    support::heap.largest = 0;
    training.step();
    const std::size_t largest = support::heap.largest;
    CHECK(largest < 256);  // labels as std::string, which Kokkos asks for, and lists of a few bounds; no data
  }
}

TEST_CASE("what is allocated is what the layout says") {
  auto meshes = support::meshes(1);
  meshes.push_back(support::alone());
  for (const auto& mesh : meshes) {
    CAPTURE(support::text(mesh));
    hg::MemoryUse use;
    const auto made = support::kokkos_events([&] {
      Training<Net> training(mesh);
      training.step();
      use = training.trainer.bind_step(training.image)->layout().memory();
    });
    CHECK(made.allocations.at("halogen::arena") == std::vector<std::uint64_t>{use.tensors + use.workspace});
    CHECK(made.bytes("halogen::arena") + made.bytes("halogen::send") + made.bytes("halogen::receive") == use.total());
    CHECK(use.kept <= use.tensors);
  }
}

}  // namespace test_traffic
