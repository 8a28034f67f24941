// compiled: no
// guard: no
// Plans stay what they are: launches, stages, stored tensors, messages, bytes and explain's words of many models, in
// all four kinds of plan, on every rank of meshes that are not here, beside tests/reference/plans.txt.
// device_kernels_plans is the same program for plans of a GPU, beside tests/reference/plans_device.txt.
//
// HALOGEN_WRITE=1 writes that file anew, of the plans as they are. HALOGEN_PLAN_TEXTS=folder writes what the hashes are
// made of into a folder: numbers and explain of every rank, one file for each model and kind (docs/testing.md).
//
// Header-only, since plans depend on the widths of vectors (layers/convolution/winograd_windows.hpp), which are set
// here for all machines.
#define HALOGEN_VECTOR_BYTES 32
#define HALOGEN_WIDE_VECTOR_BYTES 64
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "support/plan_prints.hpp"
#include "support/planned_models.hpp"

namespace test_plan_fingerprints {

namespace {

namespace hg = halogen;
namespace planned = support::planned;
using support::PlanMesh;
using support::PlanPrint;
using support::PlanPrints;

using Grid = hg::Mesh<"data", "height", "width">;
using Slabs = hg::Mesh<"data", "depth", "width">;
template <int Channels, class T = float>
using Image =
    hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
template <int Channels>
using Volume = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn, hg::dyn>, Grid, hg::Shard<0>,
                           hg::Shard<3>, hg::Shard<4>>;
template <int Channels>
using DeepVolume = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn, hg::dyn>, Slabs, hg::Shard<0>,
                               hg::Shard<2>, hg::Shard<4>>;

const support::PlannedModel models[] = {
    support::plan_model<Image<3>, planned::UNetGlobe>("unet_globe"),
    support::plan_model<Image<3, hg::bfloat16>, planned::UNetZero>("unet_zero_bfloat16"),
    support::plan_model<Image<2, double>, planned::UNetThin>("unet_thin_double"),
    support::plan_model<Volume<2>, planned::UNetVolume>("unet_volume"),
    support::plan_model<Image<2>, planned::UNetMirrored>("unet_mirrored"),
    support::plan_model<Image<1>, planned::UNetTransposed>("unet_transposed"),
    support::plan_model<Image<1>, planned::NestedSkips>("nested_skips"),
    support::plan_model<Image<2>, planned::ResNet>("resnet"),
    support::plan_model<Image<2>, planned::Projected>("projected"),
    support::plan_model<Image<2>, planned::OddSums>("odd_sums"),
    support::plan_model<Image<2>, planned::Terms>("terms"),
    support::plan_model<Image<2>, planned::Boundaries>("boundaries"),
    support::plan_model<Image<2>, planned::Strides>("strides"),
    support::plan_model<Image<1>, planned::Grouped>("grouped"),
    support::plan_model<Image<2>, planned::Transposed>("transposed"),
    support::plan_model<Image<3>, planned::Winograd>("winograd"),
    support::plan_model<Image<3>, planned::Pointwise>("pointwise"),
    support::plan_model<DeepVolume<1>, planned::Volumes>("volumes"),
    support::plan_model<Image<2>, planned::Pools>("pools"),
    support::plan_model<Image<4>, planned::Norms>("norms"),
    support::plan_model<Image<2>, planned::Activations>("activations"),
    support::plan_model<Image<2>, planned::Upsamplings>("upsamplings"),
    support::plan_model<Image<2>, planned::Softmaxes>("softmaxes"),
    support::plan_model<Image<2>, planned::Pads>("pads"),
    support::plan_model<Image<1>, planned::Weightless>("weightless"),
};

/// Attention in windows keeps its logarithms beside its result.
using Neighbors =
    hg::Sequential<hg::Conv2d<2, 8>, hg::Repeat<hg::NeighborhoodAttention2d<8, 8, hg::Kernel<3>>, 6>, hg::Conv2d<8, 2>>;

const PlanMesh meshes[] = {{"one", {1, 1, 1}},
                           {"h2", {1, 2, 1}},
                           {"w3", {1, 1, 3}},
                           {"h2w2", {1, 2, 2}},
                           {"h2w2_uneven", {1, 2, 2}, true},
                           {"n2h2", {2, 2, 1}, false, true}};

constexpr bool on_device = hg::kernels::device::runs_on<hg::execution_space>;

struct Planned {
  PlanPrints prints;
  std::string texts;  ///< all that hashes are made of
};

/// All plans as they are.
const Planned& planned_now() {
  static const Planned planned = [] {
    Planned result;
    const char* folder = std::getenv("HALOGEN_PLAN_TEXTS");
    if (folder != nullptr) std::filesystem::create_directories(folder);
    for (const support::PlannedModel& model : models)
      for (const auto& [kind, kind_name] : support::plan_kinds) {
        std::string all;
        for (const bool odd : {false, true}) {
          if (on_device && !odd) continue;  // half of a host's tell of a device's kernels
          for (const PlanMesh& mesh : meshes) {
            const std::string field = std::string(odd ? "odd " : "even ") + mesh.name;
            std::string texts;
            const PlanPrint print = plan_print(model, kind, mesh, odd, texts);
            result.prints.add(std::string(model.name) + " " + kind_name, field, print);
            all += "== " + field + "\n" + texts;
          }
        }
        if (folder != nullptr) std::ofstream(std::string(folder) + "/" + model.name + "." + kind_name + ".txt") << all;
        result.texts += all;
      }
    return result;
  }();
  return planned;
}

/// Where the tests were built, or $HALOGEN_TEST_DATA on another machine (docs/gpu.md). A device's plans are others.
std::string reference_file() {
  const char* elsewhere = std::getenv("HALOGEN_TEST_DATA");
  return std::string(elsewhere != nullptr ? elsewhere : HALOGEN_TEST_DATA) +
         (on_device ? "/plans_device.txt" : "/plans.txt");
}

}  // namespace

static_assert(support::fnv1a("") == 0xcbf29ce484222325 && support::fnv1a("a") == 0xaf63dc4c8601ec8c &&
              support::fnv1a("foobar") == 0x85944171f73967e8);

TEST_CASE("plans are those of tests/reference/plans.txt") {
  const PlanPrints& now = planned_now().prints;
  if (std::getenv("HALOGEN_WRITE") != nullptr) now.write(reference_file());
  const PlanPrints then = PlanPrints::read(reference_file());
  int faults = 0, of_numbers = 0;
  std::map<std::string, int> faults_of;
  const auto fault = [&](const std::string& plan, const std::string& field, const std::string& differences) {
    ++faults;
    if (++faults_of[plan] <= 2) FAIL_CHECK((plan + ", " + field + ": " + differences));  // and tell of other plans too
  };
  for (const auto& [plan, rows] : now.plans())
    for (const auto& [field, print] : rows) {
      const PlanPrint* known = then.find(plan, field);
      if (known == nullptr) {
        fault(plan, field, "not in the file");
      } else if (const std::string differences = plan_differences(print, *known); !differences.empty()) {
        of_numbers += !print.same_numbers(*known);
        fault(plan, field, differences);
      }
    }
  for (const auto& [plan, rows] : then.plans())
    for (const auto& [field, print] : rows)
      if (now.find(plan, field) == nullptr) fault(plan, field, "in the file, but no longer planned");
  CHECK_MESSAGE(faults == 0, faults, " rows differ, ", of_numbers,
                " in numbers; HALOGEN_PLAN_TEXTS=folder writes what their hashes are made of");
}

TEST_CASE(
    "what a search says of a plan is what the plan is: launches that run again, and the most that lives together") {
  int compared = 0, wrong = 0;
  std::vector<support::PlannedModel> all(std::begin(models), std::end(models));
  all.push_back(support::plan_model<Image<2>, Neighbors>("a launch that writes a second tensor"));
  for (const support::PlannedModel& model : all) {
    CAPTURE(model.name);
    const hg::Layout layout = model.layout(hg::PlanKind::training, {"one", {1, 1, 1}}, 0, false, {});
    const hg::Plan& plan = layout.plan();
    hg::detail::PlanTrial trial(plan, std::vector<double>(static_cast<std::size_t>(plan.launches.size()), 1.));
    const auto compare = [&](const std::vector<bool>& keep) {
      const hg::ChosenPlan chosen(plan, keep);
      std::vector<hg::detail::Block> blocks;
      std::vector<double> sizes;
      for (const hg::StoredTensor& tensor : chosen.plan().tensors) {
        const bool has_memory = tensor.map < 0 && !tensor.external;
        const auto values = static_cast<std::size_t>(tensor.channels * layout.level(tensor.level).points());
        if (tensor.first_launch >= 0 && has_memory) blocks.push_back({values, tensor.first_launch, tensor.last_launch});
        if (sizes.size() < keep.size()) sizes.push_back(has_memory ? static_cast<double>(values) : 0);
      }
      trial.run(keep);
      CHECK(trial.work() == chosen.again());
      CHECK(trial.peak(sizes) == static_cast<double>(hg::detail::most_living(blocks)));
      for (std::size_t t = 0; t < keep.size(); ++t) {  // and of each tensor by itself: it, its copy, or both at a time
        std::vector<double> alone(keep.size());
        alone[t] = sizes[t] > 0 ? 1 : 0;
        std::vector<hg::detail::Block> lives;
        for (int i = 0; i < chosen.plan().tensors.size() && alone[t] > 0; ++i)
          if (const hg::StoredTensor& tensor = chosen.plan().tensors[i];
              (i == static_cast<int>(t) || tensor.origin == static_cast<int>(t)) && tensor.first_launch >= 0)
            lives.push_back({1, tensor.first_launch, tensor.last_launch});
        wrong += trial.peak(alone) != static_cast<double>(hg::detail::most_living(lives));
      }
      ++compared;
      return trial.peak(sizes);
    };
    const hg::GrowingTable<bool> droppable = hg::droppable_tensors(hg::PlanDraft(plan));
    std::vector<bool> all_dropped;
    for (const bool can_be_dropped : droppable) all_dropped.push_back(!can_be_dropped);
    compare(all_dropped);
    const auto choices = hg::detail::plan_choices(plan, layout.levels());
    for (std::size_t i = 0; i < choices.size(); i += 1 + choices.size() / 5) {
      CHECK(choices[i].peak == compare(choices[i].keep));
    }
  }
  CHECK(compared > 50);
  CHECK(wrong == 0);
}

TEST_CASE("memory limits: what is chosen keeps to them, and less memory takes no less work") {
  const PlanMesh quarter{"h2w2", {1, 2, 2}};
  constexpr auto kind = hg::PlanKind::training;
  int chosen = 0, refused = 0;
  for (std::size_t i = 0; i < std::size(models); i += 2) {  // a search takes a while in a program that is not optimised
    CAPTURE(models[i].name);
    const std::size_t all = hg::detail::held_by(models[i].layout(kind, quarter, 0, false, {}));
    double work = 0;
    std::size_t held = all;
    bool is_refused = false;
    for (const double share : {1., 0.97, 0.9, 0.8, 0.65, 0.2}) {
      const hg::MemoryLimit limit{static_cast<std::size_t>(share * static_cast<double>(all)) + 1000, 1000};
      CAPTURE(share);
      try {
        const hg::Layout layout = models[i].layout(kind, quarter, 0, false, limit);
        const double more = layout.chosen() == nullptr ? 0 : layout.chosen()->more_work;
        CHECK(!is_refused);
        CHECK(hg::detail::held_by(layout) + 1000 <= limit.bytes);
        CHECK((layout.chosen() == nullptr) == (share == 1.));
        CHECK(more >= work);
        CHECK(hg::detail::held_by(layout) <= held);
        work = more, held = hg::detail::held_by(layout);
        chosen += share < 1;
      } catch (const hg::CollectiveError& error) {
        is_refused = true, ++refused;
        CHECK(std::string(error.what()).find("a step of this model needs at least ") == 0);
      }
    }
    CHECK(is_refused);
  }
  CHECK(chosen > 20);
  MESSAGE(chosen, " plans chosen, ", refused, " limits refused");
}

TEST_CASE("between them they have every kind of launch and note of explain, and few meshes are refused") {
  const auto printed = [](const std::string& words) { return planned_now().texts.find(words) != std::string::npos; };
  const char* launches[] = {"conv2d",
                            "conv2d weight gradient",
                            "conv2d input gradient",
                            "conv3d",
                            "conv3d weight gradient",
                            "conv3d input gradient",
                            "conv_transpose2d",
                            "conv_transpose2d weight gradient",
                            "conv_transpose2d input gradient",
                            "max_pool2d",
                            "max_pool2d backward",
                            "max_pool3d",
                            "max_pool3d backward",
                            "avg_pool2d",
                            "avg_pool2d backward",
                            "softmax",
                            "softmax backward",
                            "sum",
                            "store",
                            "moments",
                            "store backward",
                            "resampling backward",
                            "gradient sum",
                            "loss"};
  for (const char* launch : launches) {
    std::string column = launch;
    column.resize(std::max(column.size(), std::size_t{24}), ' ');
    CHECK_MESSAGE(printed("  " + column + " "), std::string(launch));
  }
  for (const char* note :
       {"; halo ", "; all_gather moments of affine", "; all_reduce sums of affine", " through affine", "^ ",
        " -> += ", ", + t", "; all_gather bucket ", "; reduce_scatter bucket ", "fields of 2 bytes"})
    CHECK_MESSAGE(printed(note), std::string(note));
  CHECK(printed("conv2d gradients ") != on_device);
  CHECK(printed("; Winograd") != on_device);
  int rows = 0, refused = 0;
  for (const auto& [plan, all] : planned_now().prints.plans())
    for (const auto& [field, print] : all) ++rows, refused += print.refused;
  CHECK(rows == (on_device ? 6 : 12) * 4 * static_cast<int>(std::size(models)));
  CHECK(refused > 0);  // sentences are pinned too
  CHECK(refused < rows / 20);
}

}  // namespace test_plan_fingerprints
