// ranks: 1
// reads: convolutions
// Buckets and schedules of sharded parameters, dry: what a bucket holds, how it is cut, when it is in memory.
#include <doctest/doctest.h>

#include "halogen/layers/layer_norm_over.hpp"
#include "halogen/layers/position_embedding.hpp"
#include "support/convolutions.hpp"
#include "support/train_once.hpp"

namespace {

template <class ModelType>
constexpr const hg::Graph& graph = hg::graph_of<ModelType, hg::input_channels<ModelType>>;
template <class ModelType>
constexpr const hg::Plan& training = hg::plan_of<ModelType, hg::input_channels<ModelType>, hg::PlanKind::training>;

template <int Channels>
using Layer =
    hg::Sequential<hg::Conv2d<Channels, Channels, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, Channels>, hg::ReLU>;
template <int Channels>
using ChainOf = hg::Sequential<Layer<Channels>, Layer<Channels>, Layer<Channels>, Layer<Channels>, Layer<Channels>,
                               Layer<Channels>>;  // ends in a norm
using Chain = ChainOf<8>;
// their parameters (nvcc knows a global norm)
constexpr hg::index_t conv = 9 * 8 * 8 + 8, norms = 2 * 8;

/// The output of one layer read with and without its ReLU, and two layers whose output nobody reads.
struct Branches : hg::Module<Branches> {
  constexpr hg::Traced forward(hg::Traced x) const {
    hg::Conv2d<3, 5>{}(x);
    const hg::Traced y = hg::GroupNorm<2, 4>{}(hg::Conv2d<3, 4>{}(x));
    hg::Conv2d<4, 4>{}(y);
    const hg::Traced inner = hg::GroupNorm<1, 4>{}(hg::Conv2d<4, 4, hg::Bias<false>>{}(hg::ReLU{}(y)));
    return hg::Conv2d<8, 2>{}(hg::concat(y, hg::ReLU{}(inner)));
  }
};

std::vector<hg::index_t> sizes(const hg::ParameterBuckets& buckets) {
  std::vector<hg::index_t> result;
  for (const auto& bucket : buckets) result.push_back(bucket.end - bucket.begin);
  return result;
}

/// Every launch finds what it uses in memory, and no byte belongs to two buckets at a time. A gradient that is complete
/// keeps its memory until the next one begins or is complete: so long may its reduction take.
template <class ModelType>
void check_schedule(const hg::ParameterBuckets& buckets) {
  const hg::Plan& plan = training<ModelType>;
  const hg::detail::ParameterSchedule schedule(plan, buckets, 4);
  const auto here = [&](int bucket, bool gradient, int launch) {
    int found = 0;
    for (const hg::detail::BucketStay& stay : schedule.stays())
      found += stay.bucket == bucket && stay.gradient == gradient && stay.block.first <= launch &&
               launch <= stay.block.last && (!gradient || launch <= stay.last_use);
    return found == 1;
  };
  for (int i = 0; i < plan.launches.size(); ++i) {
    CAPTURE(i);
    plan.for_each_parameter(plan.launches[i], [&](int p, bool) { CHECK(here(buckets.bucket_of(p), false, i)); });
    plan.for_each_parameter_gradient(plan.launches[i], [&](int p, int) { CHECK(here(buckets.bucket_of(p), true, i)); });
  }
  for (const hg::detail::BucketStay& stay : schedule.stays()) {
    if (!stay.gradient) continue;
    int next = plan.launches.size();
    for (const hg::detail::BucketStay& other : schedule.stays())
      if (other.gradient && other.last_use > stay.last_use)
        next = std::min(next, other.block.first > stay.last_use ? other.block.first - 1 : other.last_use);
    CHECK(stay.block.last >= next);
  }
  for (const hg::detail::BucketStay& a : schedule.stays()) {
    CHECK(a.block.offset + a.block.bytes <= schedule.staging_bytes());
    for (const hg::detail::BucketStay& b : schedule.stays())
      if (&a != &b && a.block.lives_with(b.block))
        CHECK((a.block.offset + a.block.bytes <= b.block.offset || b.block.offset + b.block.bytes <= a.block.offset));
  }
}

}  // namespace

TEST_CASE("a bucket is a convolution and the norms before it; the last takes the norms behind it too") {
  CHECK(sizes(hg::ParameterBuckets(graph<Chain>, 3)) ==
        std::vector<hg::index_t>{conv, norms + conv, norms + conv, norms + conv, norms + conv, norms + conv + norms});
  CHECK(sizes(hg::ParameterBuckets(graph<Branches>, 2)) == std::vector<hg::index_t>{20, 16, 8 + 20, 16, 8 + 18});
  CHECK(sizes(hg::ParameterBuckets(graph<hg::GroupNorm<2, 4>>, 2)) == std::vector<hg::index_t>{8});
  CHECK(hg::ParameterBuckets(graph<hg::ReLU>, 2).size() == 0);
}

TEST_CASE("layers join up to a number of values, never beyond it unless alone") {
  const auto of = [](hg::index_t most) { return sizes(hg::ParameterBuckets(graph<Chain>, 2, most)); };
  const hg::index_t two = 2 * conv + norms;
  CHECK(of(two) == std::vector<hg::index_t>{two, norms + conv, norms + conv, norms + conv, norms + conv + norms});
  CHECK(of(two + norms) == std::vector<hg::index_t>{two, two + norms, norms + conv, norms + conv + norms});
  CHECK(of(two + 2 * norms) == std::vector<hg::index_t>{two, two + norms, two + 2 * norms});
  CHECK(of(two - 1) == of(0));
  CHECK(of(1 << 20) == std::vector<hg::index_t>{graph<Chain>.parameter_count});
}

TEST_CASE("pieces are equal on all ranks, cover their bucket and lie side by side") {
  for (const int ranks : {1, 2, 3, 4, 7, 64, 1000}) {
    CAPTURE(ranks);
    const hg::ParameterBuckets buckets(graph<Branches>, ranks);
    hg::index_t flat = 0, own = 0;
    for (const auto& bucket : buckets) {
      CHECK(bucket.begin == flat);
      CHECK(bucket.offset == own);
      CHECK(bucket.piece * ranks >= bucket.end - bucket.begin);
      CHECK((bucket.piece - 1) * ranks < bucket.end - bucket.begin);
      flat = bucket.end, own += bucket.piece;
    }
    CHECK(flat == graph<Branches>.parameter_count);
    CHECK(own == buckets.values_per_rank());
    for (int p = 0; p < graph<Branches>.parameters.size(); ++p) {
      const auto& bucket = buckets[buckets.bucket_of(p)];
      const hg::ParameterShape& shape = graph<Branches>.parameters[p];
      CHECK((bucket.begin <= shape.offset && shape.offset + shape.count <= bucket.end));
    }
  }
}

TEST_CASE("what launches use is in memory, whatever the model and the buckets") {
  for (const hg::index_t most : {0, 40, 1500, 100000}) {
    check_schedule<Chain>(hg::ParameterBuckets(graph<Chain>, 3, most));
    check_schedule<Branches>(hg::ParameterBuckets(graph<Branches>, 2, most));
    check_schedule<hg::UNet<3, 1, 8>>(hg::ParameterBuckets(graph<hg::UNet<3, 1, 8>>, 4, most));
  }
}

/// The most layers of a chain that are staged at a time, the last one and its two norms taken for each.
template <int Channels>
double staged_layers() {
  const hg::ParameterBuckets buckets(graph<ChainOf<Channels>>, 2);
  const hg::detail::ParameterSchedule schedule(training<ChainOf<Channels>>, buckets, 4);
  constexpr hg::index_t layer = 9 * Channels * Channels + Channels + 4 * Channels;
  return static_cast<double>(schedule.staging_bytes()) / static_cast<double>((layer * 4 + 63) / 64 * 64);
}

TEST_CASE("a chain of equal layers stages two or three of them, however many; no image gradient, no first gather") {
  const hg::ParameterBuckets buckets(graph<Chain>, 2);
  const hg::detail::ParameterSchedule schedule(training<Chain>, buckets, 4);
  const auto bytes = [](hg::index_t values) { return static_cast<std::size_t>(values * 4 + 63) / 64 * 64; };
  // Three where one launch takes a layer's parameters and leaves their gradient, and the next layer's are on the way.
  const int layers =
      training<Chain>.launches[training<Chain>.launches.size() - 2].is<hg::detail::ConvolutionGradients>() ? 3 : 2;
  CHECK(staged_layers<8>() <= layers);
  CHECK(schedule.staging_bytes() >= layers * bytes(conv + norms));
  CHECK(staged_layers<40>() <= 2);
  CHECK(schedule.all_gathers() == 6 + 5 - 1);  // forward, backward but the first, the last stays in between
  CHECK(schedule.reduce_scatters() == 6);
  const hg::Plan& inference = hg::plan_of<Chain, 8, hg::PlanKind::inference>;
  CHECK(hg::detail::ParameterSchedule(inference, buckets, 4).all_gathers() == 6);
  CHECK(hg::detail::ParameterSchedule(inference, buckets, 4).reduce_scatters() == 0);
  CHECK(hg::detail::ParameterSchedule(training<Chain>, hg::ParameterBuckets(graph<Chain>, 1), 4).staging_bytes() == 0);
}

TEST_CASE("tables of numbers for each point: each value goes to the ranks whose points need it") {
  using Table = hg::Sequential<hg::Conv2d<3, 4, hg::Kernel<2>, hg::Stride<2>>, hg::PositionEmbedding2d<4, 23, 17>,
                               hg::LayerNormOver<4, 23, 17>>;
  for (const auto& extents : {std::array{2, 3, 2}, std::array{1, 5, 1}, std::array{4, 1, 1}}) {
    const int ranks = extents[0] * extents[1] * extents[2];
    const auto on = [&](int rank) { return hg::dry_mesh<support::Mesh>(extents, rank); };
    const hg::ShardParameters<"data", "width"> sharding;
    std::vector<std::vector<hg::detail::PointTransfers>> all;
    for (int rank = 0; rank < ranks; ++rank) {
      const auto layout = hg::layout_of<support::Field<float, 3>>(Table{}, on(rank), {8, 3, 46, 34});
      all.push_back(hg::detail::point_transfers(layout, *sharding.on<Table, float>(on(rank))));
    }
    const int group = extents[0] * extents[2];
    for (int rank = 0; rank < ranks; ++rank) {
      const auto& tables = all[static_cast<std::size_t>(rank)];
      CHECK(tables.size() == (group > 1 ? 3 : 0));
      const auto layout = hg::layout_of<support::Field<float, 3>>(Table{}, on(rank), {8, 3, 46, 34});
      for (std::size_t t = 0; t < tables.size(); ++t) {
        CHECK(tables[t].needed() == 4 * layout.box(1, rank).points());
        for (const auto& part : tables[t].comes()) {
          const int peer = layout.decomposition().with_number(rank, 0b101, part.rank);
          CHECK(all[static_cast<std::size_t>(peer)][t].goes()[static_cast<std::size_t>(tables[t].number())].count ==
                part.count);
        }
      }
    }
  }
  const auto text = hg::explain<support::Field<float, 3>>(Table{}, hg::dry_mesh<support::Mesh>({1, 2, 2}),
                                                          {2, 3, 46, 34}, hg::shard_parameters<"height", "width">);
  CHECK(text.find("; gather points of bucket 1") != std::string::npos);
  CHECK(text.find("; reduce points of bucket 1") != std::string::npos);
  CHECK(text.find("tables of points: " + std::to_string(3 * 4 * 12 * 9) + " values for this rank's points, ") !=
        std::string::npos);
}

TEST_CASE("a layer that the output does not depend on is not gathered and has no gradient to reduce") {
  const hg::detail::ParameterSchedule schedule(training<Branches>, hg::ParameterBuckets(graph<Branches>, 2), 4);
  for (const hg::detail::BucketStay& stay : schedule.stays()) CHECK(stay.bucket != 0);
  CHECK(schedule.reduce_scatters() == 4);  // the other such layer shares its bucket with the norm before it
}

TEST_CASE("explain says when buckets move, dry, and what a rank holds") {
  using Net = hg::UNet<3, 1, 8>;
  const auto mesh = hg::dry_mesh<support::Mesh>({8, 2, 1});
  const auto text = hg::explain<support::Field<float, 3>>(Net{}, mesh, {8, 3, 64, 64}, hg::shard_parameters<"data">);
  const auto count = [&](const std::string& words) {
    int found = 0;
    for (std::size_t at = text.find(words); at != std::string::npos; at = text.find(words, at + 1)) ++found;
    return found;
  };
  CHECK(count("; all_gather bucket ") == 11 + 9);
  CHECK(count("; reduce_scatter bucket ") == 11);
  const auto line_with = [&](const std::string& words) {
    const std::size_t at = text.find(words), begin = text.rfind('\n', at) + 1;
    return text.substr(begin, text.find('\n', at) - begin);
  };
  CHECK(line_with("; all_gather bucket 0").find("conv2d ") != std::string::npos);
  CHECK(line_with("; reduce_scatter bucket 10").find("conv2d input gradient") != std::string::npos);
  CHECK(line_with("; reduce_scatter bucket 0").find("conv2d weight gradient") != std::string::npos);
  CHECK(count("20 all_gathers, 11 reduce_scatters") == 1);
  const auto memory = hg::parameter_memory<Net, float>(mesh, hg::shard_parameters<"data">);
  CHECK(count("over 8 ranks: " + std::to_string(memory.parameters / 4) + " on this one") == 1);
  CHECK(count("one all_reduce of the gradient") == 0);
}
