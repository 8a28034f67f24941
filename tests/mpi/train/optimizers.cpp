// program: training
// ranks: 1 2 4 6
// SGD, Adam, Lion, LAMB, groups, clipping, averages and schedules against PyTorch's values over five steps; sharded
// parameters beside whole ones; accumulation beside a larger batch; checkpoints in the middle of a schedule.
#include <halogen/files.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <set>

#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/reference.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"

namespace test_optimizers {

namespace {

using support::relative_error;
template <int Channels>
using Field = support::Field<double, Channels>;

/// As the script's: a convolution with bias, a norm.
using Model = hg::Sequential<hg::Conv2d<2, 3, hg::Kernel<2>>, hg::GroupNorm<1, 3>>;
using Parameters = hg::Parameters<Model, double>;
constexpr std::ptrdiff_t values = 33, steps = 5;
static_assert(Parameters::count == values);

const support::Reference& reference() {
  static const support::Reference reference("optimizers");
  return reference;
}
std::vector<double> at_step(const std::vector<double>& all, std::ptrdiff_t step) {
  return {all.begin() + values * step, all.begin() + values * (step + 1)};
}

template <class Optimizer>
void check_steps(const std::string& name, const Optimizer& settings, const hg::OptimizerOptions& options = {}) {
  CAPTURE(name);
  const std::vector<double> gradients = reference().values("gradients"), after = reference().values(name + ".after");
  Parameters parameters, gradient;
  parameters.copy_from_host(reference().values("start"));
  hg::OptimizerState state(settings, parameters, options);
  for (std::ptrdiff_t step = 0; step < steps; ++step) {
    CAPTURE(step);
    gradient.copy_from_host(at_step(gradients, step));
    state.step(parameters, gradient);
    CHECK(relative_error(parameters.to_host(), at_step(after, step)) < 1e-13);
    if (options.average > 0)
      CHECK(relative_error(state.average()->to_host(), at_step(reference().values("average"), step)) < 1e-13);
  }
  // in shards, of ranks that are several mesh dimensions
  const auto over = hg::shard_parameters<"data", "height">;
  Parameters start;
  start.copy_from_host(reference().values("start"));
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto shards = hg::redistribute(start, mesh, over);
    hg::OptimizerState<Model, double, hg::Shard<0>, Optimizer> of_shards(settings, shards, options);
    for (std::ptrdiff_t step = 0; step < steps; ++step) {
      gradient.copy_from_host(at_step(gradients, step));
      of_shards.step(shards, hg::redistribute(gradient, mesh, over));
      CHECK(relative_error(hg::redistribute<hg::Replicate>(shards).to_host(), at_step(after, step)) < 1e-12);
    }
  }
}

void check_rates(const std::string& name, const hg::RateSchedule& schedule, std::size_t until) {
  const std::vector<double> rates = reference().values(name + ".rates");
  for (std::size_t t = 0; t < until; ++t) {
    CAPTURE(name);
    CAPTURE(t);
    CHECK(0.5 * schedule.factor(static_cast<hg::index_t>(t)) == doctest::Approx(rates[t]).epsilon(1e-12));
  }
}

using Net =
    hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 4>, hg::SiLU, hg::Conv2d<4, 1>>;

struct Data {
  Field<2> x;
  Field<1> y;
};
Data data_on(const hg::DeviceMesh<support::Mesh>& mesh, std::uint64_t stream, hg::index_t batch = 2) {
  const auto count = static_cast<std::size_t>(batch * 12 * 11);
  return {hg::distribute_tensor<Field<2>>(mesh, {batch, 2, 12, 11}, support::numbers<double>(2 * count, stream)),
          hg::distribute_tensor<Field<1>>(mesh, {batch, 1, 12, 11}, support::numbers<double>(count, stream + 1))};
}

/// Trained whole and in shards: the same parameters.
template <class Optimizer>
void check_shards(const Optimizer& settings) {
  CAPTURE(Optimizer::name);
  const auto mesh = support::meshes(2).back();
  const Data data = data_on(mesh, 3);
  const hg::TrainerOptions options{.seed = 5, .groups = {hg::without_decay()}, .average = 0.9};
  const auto shards = hg::shard_parameters<"data", "height">;
  hg::Trainer<Net, Optimizer, support::Mesh, double> whole(Net{}, settings, mesh, options);
  hg::Trainer<Net, Optimizer, support::Mesh, double, std::remove_const_t<decltype(shards)>> sharded(
      Net{}, settings, mesh, options, shards);
  for (int i = 0; i < 4; ++i) whole.step(hg::mse, data.x, data.y), sharded.step(hg::mse, data.x, data.y);
  const auto all = hg::redistribute<hg::Replicate>(sharded.parameters());
  CHECK(relative_error(all.to_host(), whole.parameters().to_host()) < 1e-9);
  CHECK(relative_error(hg::redistribute<hg::Replicate>(sharded.averaged_parameters()).to_host(),
                       whole.averaged_parameters().to_host()) < 1e-9);
}

/// The learning rate and the average go on from a file.
template <class Optimizer>
void check_checkpoint(const Optimizer& settings) {
  CAPTURE(Optimizer::name);
  const auto mesh = support::meshes(2).back();
  const Data data = data_on(mesh, 3);
  const hg::TrainerOptions options{.seed = 5, .average = 0.9};
  using Trainer = hg::Trainer<Net, Optimizer, support::Mesh, double>;
  Trainer one(Net{}, settings, mesh, options), other(Net{}, settings, mesh, {.seed = 9, .average = 0.9});
  const auto file = std::filesystem::temp_directory_path() /
                    ("halogen_optimizers_" + support::run_name(support::world().size()) + ".safetensors");
  for (int i = 0; i < 3; ++i) one.step(hg::mse, data.x, data.y);
  hg::save_checkpoint(file, one, support::world());
  hg::load_checkpoint(file, other, support::world());
  CHECK(other.learning_rate() == one.learning_rate());
  for (int i = 0; i < 3; ++i) one.step(hg::mse, data.x, data.y), other.step(hg::mse, data.x, data.y);
  CHECK(other.parameters().to_host() == one.parameters().to_host());
  CHECK(other.averaged_parameters().to_host() == one.averaged_parameters().to_host());
  support::world().barrier();
  if (support::world().rank() == 0) std::filesystem::remove(file);
  // a folder, of parameters in shards, in the middle of the schedule too
  const auto shards = hg::shard_parameters<"data", "height">;
  using Sharded = hg::Trainer<Net, Optimizer, support::Mesh, double, std::remove_const_t<decltype(shards)>>;
  Sharded first(Net{}, settings, mesh, options, shards),
      second(Net{}, settings, mesh, {.seed = 9, .average = 0.9}, shards);
  for (int i = 0; i < 3; ++i) first.step(hg::mse, data.x, data.y);
  hg::Checkpoints checkpoints(file.string() + ".d");
  checkpoints.save(first);
  CHECK(checkpoints.load_newest(second).has_value());
  CHECK(second.learning_rate() == first.learning_rate());
  for (int i = 0; i < 3; ++i) first.step(hg::mse, data.x, data.y), second.step(hg::mse, data.x, data.y);
  CHECK(hg::host_copy(second.parameters().view()) == hg::host_copy(first.parameters().view()));
  CHECK(hg::host_copy(second.averaged_parameters().view()) == hg::host_copy(first.averaged_parameters().view()));
  support::world().barrier();
  if (support::world().rank() == 0) std::filesystem::remove_all(file.string() + ".d");
}

}  // namespace

TEST_CASE("five steps as PyTorch's") {
  check_steps("sgd", hg::SGD{.lr = 0.1});
  check_steps("sgd_momentum", hg::SGD{.lr = 0.1, .momentum = 0.9, .dampening = 0.3, .weight_decay = 0.1},
              {.average = 0.8});
  check_steps("sgd_nesterov", hg::SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1, .nesterov = true});
  check_steps("adam", hg::Adam{.lr = 0.1, .weight_decay = 0.1});
  check_steps("clipped_value", hg::AdamW{.lr = 0.1, .max_value = 0.25});
  check_steps("rmsprop", hg::RMSprop{.lr = 0.1, .alpha = 0.9, .weight_decay = 0.1});
  check_steps("rmsprop_momentum", hg::RMSprop{.lr = 0.02, .momentum = 0.9});
  check_steps("adagrad", hg::Adagrad{.lr = 0.1, .lr_decay = 0.2, .weight_decay = 0.1});
  check_steps("lion", hg::Lion{.lr = 0.1, .weight_decay = 0.1});
  check_steps("lamb", hg::LAMB{.lr = 0.1, .weight_decay = 0.1});
}

TEST_CASE("groups of parameters: another rate for the first tensor, no decay for the others") {
  const auto kernels = hg::parameters_named<Model>([](std::string_view name) { return name == "0.weight"; }, 0.2);
  check_steps("groups", hg::AdamW{.lr = 0.1, .weight_decay = 0.2}, {.groups = {kernels, hg::without_decay()}});
}

/// A rule of numbers, as a user may write one, and a choice by name with a state of its own.
template <class T>
struct PlainRule {
  KOKKOS_FUNCTION double rate(double lr, double) const { return lr; }
  KOKKOS_FUNCTION double decay(double, double weight_decay) const { return weight_decay; }
  KOKKOS_FUNCTION double correction(double) const { return 1; }
  KOKKOS_FUNCTION T operator()(T value, T gradient, const hg::kernels::ValueState<T>& of) const {
    return value - of.rate * (gradient + of.decay * value);
  }
};
struct Plain : hg::SGD {
  template <class T>
  PlainRule<T> rule() const {
    return {};
  }
};
struct BeginsWith {
  std::string_view letters{};
  constexpr bool operator()(std::string_view name) const { return name.starts_with(letters); }
};

TEST_CASE("an optimiser of one's own; names that are chosen at run time") {
  const auto groups = [](const hg::ParameterGroup& group) { return hg::OptimizerOptions{.groups = {group}}; };
  const auto first = hg::parameters_named<Model>(BeginsWith{"0."}, 0.2);
  hg::OptimizerState<Model, double, hg::Replicate, Plain> own(Plain{{.lr = 0.1, .weight_decay = 0.3}}, Parameters(),
                                                              groups(first));
  hg::OptimizerState<Model, double, hg::Replicate, hg::SGD> sgd(
      hg::SGD{.lr = 0.1, .weight_decay = 0.3}, Parameters(),
      groups(hg::parameters_named<Model>([](std::string_view name) { return name.starts_with("0."); }, 0.2)));
  Parameters a, b, gradient;
  gradient.copy_from_host(at_step(reference().values("gradients"), 0));
  a.copy_from_host(at_step(reference().values("gradients"), 1));
  b.copy_from_host(a.to_host());
  own.step(a, gradient), sgd.step(b, gradient);
  CHECK(relative_error(a.to_host(), b.to_host()) < 1e-15);
}

TEST_CASE("schedules as PyTorch's, and in the steps that they rule") {
  check_rates("step", hg::step_rate(4, 0.5), 20);
  // by hand: three steps of a warm-up, then StepLR, which counts from its end
  const double warmed[] = {1. / 3, 2. / 3, 1, 1, 1, 1, 1, .5, .5, .5, .5, .25, .25, .25, .25, .125};
  for (hg::index_t t = 0; t < 16; ++t)
    CHECK(hg::step_rate(4, 0.5, {.warmup = 3}).factor(t) == doctest::Approx(warmed[t]).epsilon(1e-15));
  check_rates("cosine", hg::cosine_rate(12, {.floor = 0.1}), 13);
  check_rates("warm_cosine", hg::cosine_rate(15, {.warmup = 5}), 16);
  check_rates("linear", hg::linear_rate(12, {.floor = 0.1}), 20);
  check_rates("one_cycle", hg::one_cycle_rate(20), 20);
  // OneCycleLR of 25 steps by its formula: the top lies at step 0.3 * 25 - 1 = 6.5, the end at 24
  const double pi = std::acos(-1.0);
  const auto between = [pi](double from, double to, double share) {
    return to + (from - to) / 2 * (1 + std::cos(pi * share));
  };
  const double known[] = {.04, .0950, .2473, .4621, .6902, .8793, .9861, .9980};  // by PyTorch
  for (hg::index_t t = 0; t < 25; ++t) {
    const double at = static_cast<double>(t);
    const double expected = at <= 6.5 ? between(0.04, 1, at / 6.5) : between(1, 4e-6, (at - 6.5) / 17.5);
    CHECK(hg::one_cycle_rate(25).factor(t) == doctest::Approx(expected).epsilon(1e-12));
    if (t < 8) CHECK(std::abs(hg::one_cycle_rate(25).factor(t) - known[t]) < 6e-5);
  }
  // ends: a top before the first step, at it, and at the last one; one step; after the end
  CHECK(hg::one_cycle_rate(4, {.pct_start = 0}).factor(0) == doctest::Approx(between(1, 4e-6, 0.25)).epsilon(1e-12));
  CHECK(hg::one_cycle_rate(4, {.pct_start = 0.25}).factor(0) == 1);
  CHECK(hg::one_cycle_rate(4, {.pct_start = 1}).factor(3) == 1);
  CHECK(hg::one_cycle_rate(1).factor(0) == doctest::Approx(4e-6).epsilon(1e-12));
  CHECK(hg::one_cycle_rate(25).factor(99) == doctest::Approx(4e-6).epsilon(1e-12));
  Parameters a, b, gradient;
  gradient.copy_from_host(at_step(reference().values("gradients"), 0));
  const hg::RateSchedule schedule = hg::cosine_rate(6, {.warmup = 2, .floor = 0.2});
  hg::OptimizerState<Model, double> ruled(hg::AdamW{.lr = 0.1, .schedule = schedule}), by_hand(hg::AdamW{.lr = 0.1});
  for (int t = 0; t < 8; ++t) {
    by_hand.set_learning_rate(0.1 * schedule.factor(t));
    CHECK(ruled.learning_rate() == by_hand.learning_rate());
    ruled.step(a, gradient), by_hand.step(b, gradient);
    CHECK(a.to_host() == b.to_host());
  }
}

TEST_CASE("sharded parameters, with groups and averages") {
  check_shards(hg::SGD{.lr = 0.1, .momentum = 0.9, .weight_decay = 0.1});
  check_shards(hg::Adam{.lr = 0.01, .max_norm = 0.1});
  check_shards(hg::Lion{.lr = 0.01, .weight_decay = 0.1, .max_value = 0.1});
  check_shards(hg::LAMB{.lr = 0.1, .weight_decay = 0.1});
}

TEST_CASE("a checkpoint in the middle of a schedule goes on to the same bits") {
  check_checkpoint(hg::SGD{.lr = 0.1, .momentum = 0.9, .schedule = hg::cosine_rate(8, {.warmup = 2})});
  check_checkpoint(hg::SGD{.lr = 0.1, .schedule = hg::step_rate(2, 0.3)});
  check_checkpoint(hg::RMSprop{.lr = 0.01, .momentum = 0.9});
  check_checkpoint(hg::SGD{.lr = 0.1, .schedule = hg::constant_rate({.warmup = 5})});
  check_checkpoint(hg::SGD{.lr = 0.1, .schedule = hg::linear_rate(7, {.floor = 0.3})});
  check_checkpoint(hg::LAMB{.lr = 0.1, .schedule = hg::one_cycle_rate(9)});
}

TEST_CASE("a checkpoint of another schedule is refused with both, or taken where that is meant; older ones have none") {
  using Tiny = hg::Conv2d<2, 1>;
  using Trainer = hg::Trainer<Tiny, hg::SGD, support::Mesh, double>;
  const hg::Communicator& world = support::world();
  const auto mesh = support::meshes(2).back();
  const Data data = data_on(mesh, 3);
  const std::vector<hg::RateSchedule> schedules{hg::constant_rate(),
                                                hg::constant_rate({.warmup = 3}),
                                                hg::step_rate(2, 0.3),
                                                hg::step_rate(2, 0.5),
                                                hg::step_rate(3, 0.3),
                                                hg::linear_rate(8, {.floor = 0.1}),
                                                hg::cosine_rate(8, {.floor = 0.1}),
                                                hg::cosine_rate(8, {.warmup = 2, .floor = 0.1}),
                                                hg::cosine_rate(8),
                                                hg::cosine_rate(9),
                                                hg::one_cycle_rate(9),
                                                hg::one_cycle_rate(9, {.div_factor = 24}),
                                                hg::one_cycle_rate(9, {.final_div_factor = 1e3})};
  const auto file = std::filesystem::temp_directory_path() /
                    ("halogen_schedules_" + support::run_name(world.size()) + ".safetensors");
  const auto folder = file.string() + ".d";
  std::vector<Trainer> trainers;
  for (const hg::RateSchedule& schedule : schedules)
    trainers.emplace_back(Tiny{}, hg::SGD{.lr = 0.1, .schedule = schedule}, mesh);
  std::vector<std::string> refusals;
  for (std::size_t stored = 0; stored < schedules.size(); ++stored) {
    hg::save_checkpoint(file, trainers[stored], world);
    for (std::size_t own = 0; own < schedules.size(); ++own) {
      CAPTURE(stored);
      CAPTURE(own);
      const std::string words = support::refusal([&] { hg::load_checkpoint(file, trainers[own], world); });
      CHECK(words.empty() == (own == stored));
      if (own + 1 == stored) refusals.push_back(words);
    }
  }
  CHECK(refusals[0] ==
        "'" + file.string() +
            "' is of a run with the schedule {\"shape\":\"constant\",\"warmup\":3}, but the trainer's is "
            "{\"shape\":\"constant\",\"warmup\":0}: give the trainer that schedule, or load with "
            "{.new_schedule = true}");
  CHECK(refusals[2].find("{\"shape\":\"step\",\"warmup\":0,\"every\":2,\"gamma\":0.5}, but") != std::string::npos);
  CHECK(
      refusals[11].find(
          "{\"shape\":\"one_cycle\",\"steps\":9,\"warmup\":2.6999999999999997,\"floor\":4e-05,\"start\":0.04}, but") !=
      std::string::npos);

  // from the file, and from a folder
  hg::Checkpoints checkpoints(folder);
  Trainer& cosine = trainers[7];
  for (int i = 0; i < 3; ++i) cosine.step(hg::mse, data.x, data.y);
  hg::save_checkpoint(file, cosine, world);
  checkpoints.save(cosine);
  const auto newest = checkpoints.newest(world);
  const auto is_other = [&](std::size_t i) {
    Trainer other(Tiny{}, hg::SGD{.lr = 0.1, .schedule = schedules[i]}, mesh, {.seed = 9});
    const std::vector<double> before = other.parameters().to_host();
    CHECK(support::refusal([&] { checkpoints.load_newest(other); }).find("\"warmup\":2") != std::string::npos);
    CHECK(!support::refusal([&] { hg::load_checkpoint(newest, other, world); }).empty());
    CHECK(!support::refusal([&] { hg::load_checkpoint(file, other, world); }).empty());
    CHECK(other.optimizer_state().steps() == 0);
    CHECK(other.parameters().to_host() == before);
    return other;
  };
  const auto is_loaded = [&](const Trainer& other, std::size_t i) {
    CHECK(other.parameters().to_host() == cosine.parameters().to_host());
    CHECK(other.learning_rate() == 0.1 * schedules[i].factor(3));
    CHECK(other.learning_rate() != cosine.learning_rate());
  };
  Trainer of_file = is_other(2), of_folder = is_other(6), of_newest = is_other(10);
  hg::load_checkpoint(file, of_file, world, {.new_schedule = true});
  hg::load_checkpoint(newest, of_folder, world, {.new_schedule = true});
  checkpoints.load_newest(of_newest, {.new_schedule = true});
  is_loaded(of_file, 2), is_loaded(of_folder, 6), is_loaded(of_newest, 10);

  // as they were before: without a schedule
  world.barrier();
  if (world.rank() == 0) {
    auto tensors = hg::read_safetensors(file);
    CHECK(std::erase_if(tensors, [](const auto& tensor) { return tensor.name == "optimizer.schedule"; }) == 1);
    hg::write_safetensors(file, tensors);
    auto manifest = nlohmann::ordered_json::parse(std::ifstream(newest / "manifest.json"));
    CHECK(manifest["contents"].erase("schedule") == 1);
    const std::string contents = manifest["contents"].dump();
    manifest["crc32"] = hg::detail::crc32_of(contents.data(), contents.size());
    std::ofstream(newest / "manifest.json") << manifest.dump();
  }
  world.barrier();
  Trainer from_file(Tiny{}, hg::SGD{.lr = 0.1}, mesh, {.seed = 9}),
      from_folder(Tiny{}, hg::SGD{.lr = 0.1}, mesh, {.seed = 9});
  hg::load_checkpoint(file, from_file, world);
  CHECK(checkpoints.load_newest(from_folder).has_value());
  is_loaded(from_file, 0), is_loaded(from_folder, 0);

  const auto refusal_of = [&](const std::vector<double>& numbers) {
    world.barrier();
    if (world.rank() == 0) {
      auto tensors = hg::read_safetensors(file);
      std::erase_if(tensors, [](const auto& tensor) { return tensor.name == "optimizer.schedule"; });
      const auto count = static_cast<std::int64_t>(numbers.size());
      tensors.push_back(hg::named_tensor<double>("optimizer.schedule", {count}, numbers));
      hg::write_safetensors(file, tensors);
    }
    world.barrier();
    return support::refusal([&] { hg::load_checkpoint(file, from_file, world, {.new_schedule = true}); });
  };
  const std::string damaged = "'" + file.string() + "': tensor 'optimizer.schedule' is no schedule";
  CHECK(refusal_of({3, 8, 2}) == damaged);
  CHECK(refusal_of({5, 8, 2, 1, 1, 0, 1}) == damaged);
  CHECK(refusal_of({3, -8, 2, 1, 1, 0, 1}) == damaged);
  CHECK(refusal_of({3, 8, std::nan(""), 1, 1, 0, 1}) == damaged);
  CHECK(refusal_of({3, 8, 2, 1, 1, 0, 1}).empty());
  world.barrier();
  if (world.rank() == 0) std::filesystem::remove(file), std::filesystem::remove_all(folder);
}

TEST_CASE("gradients of several batches are one of a larger batch") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 1, support::world().size()});
  using Trainer = hg::Trainer<Net, hg::AdamW, support::Mesh, double>;
  Trainer parts(Net{}, hg::AdamW{.lr = 0.1}, mesh, {.seed = 2}), once(Net{}, hg::AdamW{.lr = 0.1}, mesh, {.seed = 2});
  const Data a = data_on(mesh, 3), b = data_on(mesh, 7), c = data_on(mesh, 11);
  const Field<2> x = hg::concatenate<0>(a.x, b.x, c.x);
  const Field<1> y = hg::concatenate<0>(a.y, b.y, c.y);
  for (int i = 0; i < 3; ++i) {
    parts.accumulate(hg::mse, a.x, a.y);
    parts.accumulate(hg::mse, b.x, b.y);
    parts.step(hg::mse, c.x, c.y);
    once.step(hg::mse, x, y);
    CHECK(relative_error(parts.parameters().to_host(), once.parameters().to_host()) < 1e-11);
  }
  CHECK(parts.optimizer_state().steps() == 3);
}

TEST_CASE(
    "frozen layers: no launch, message or memory; the others' gradients as they were; names and first values too") {
  using Trunk = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 4>, hg::SiLU>;
  using Head = hg::Conv2d<4, 1, hg::Kernel<3>, hg::Padding<1>>;
  using Whole = hg::Sequential<hg::Sequential<Trunk, Head>>;
  using Half = hg::Sequential<hg::Sequential<hg::Frozen<Trunk>, Head>>;
  using Behind = hg::Sequential<hg::Sequential<Trunk, hg::Frozen<Head>>>;
  constexpr auto in_trunk = [](std::string_view name) { return name.starts_with("0.0."); };
  constexpr auto is_weight = [](std::string_view name) { return name.ends_with(".weight"); };
  using ByName = hg::Frozen<Whole, in_trunk>;
  using Biases = hg::Sequential<hg::Frozen<hg::Sequential<Trunk, Head>, is_weight>>;
  // trained on both sides: eight channels, whose weights' gradient is summed beside the input's where it is wanted
  using Middle = hg::Sequential<hg::Conv2d<8, 8, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 8>, hg::SiLU>;
  using Around = hg::Sequential<hg::Conv2d<2, 8>, Middle, hg::Conv2d<8, 1>>;
  using Between = hg::Sequential<hg::Conv2d<2, 8>, hg::Frozen<Middle>, hg::Conv2d<8, 1>>;
  CHECK(hg::parameter_names<Half>() == hg::parameter_names<Whole>());
  static_assert(hg::Parameters<Half, double>::trained == 4 * 9 + 1 &&
                hg::Parameters<Half, double>::count == 4 * 9 + 1 + 84);
  constexpr auto launches = []<class M>(M, hg::PlanKind kind) {
    return hg::make_plan(hg::graph_of<M, 2>, kind).launches.size();
  };
  CHECK(launches(Half{}, hg::PlanKind::training) == launches(Half{}, hg::PlanKind::inference) + 2);  // loss, weights
  CHECK(launches(ByName{}, hg::PlanKind::training) == launches(Half{}, hg::PlanKind::training));
  static_assert(hg::Parameters<ByName, double>::trained == 37 && hg::Parameters<Biases, double>::trained == 9);
  constexpr auto is_none = [](std::string_view name) { return name.starts_with("head"); };
  static_assert(hg::trace<hg::Frozen<Whole, is_none>>(2).misfit.why == hg::refusal<hg::why::nothing_is_frozen>());
  CHECK(launches(Behind{}, hg::PlanKind::training) == launches(Whole{}, hg::PlanKind::training) - 1);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data data = data_on(mesh, 3);
    const auto gradients = [&]<class M>(M) {
      const auto parameters = hg::initial_parameters<M, double>(4);
      const hg::CommStatistics before = hg::comm_stats();
      const auto [loss, share] = hg::value_and_grad([&](auto net) { return hg::mse(net(data.x), data.y); })(parameters);
      const auto gradient = hg::redistribute<hg::Replicate>(share);
      const hg::CommStatistics traffic = hg::comm_stats() - before;
      std::vector<std::vector<double>> named;
      for (int i = 0; i < parameters.graph().parameters.size(); ++i)
        named.push_back(parameters.graph().parameters[i].buffer ? std::vector<double>() : gradient.to_host(i));
      return std::tuple(loss, named, traffic);
    };
    const auto [loss, all, traffic] = gradients(Whole{});
    const auto [same, of_head, less] = gradients(Half{});
    const auto [again, of_trunk, behind] = gradients(Behind{});
    const auto by_name = gradients(ByName{});
    CHECK(std::get<0>(by_name) == loss);
    CHECK(std::get<1>(by_name) == of_head);
    const auto [once_more, of_biases, with_biases] = gradients(Biases{});
    CHECK(once_more == loss);
    for (std::size_t i = 0; i < 6; ++i)
      CHECK((i % 2 == 0 ? of_biases[i].empty() : relative_error(of_biases[i], all[i]) < 1e-13));
    CHECK(same == loss);
    CHECK(again == loss);
    const auto [loss_around, around, more] = gradients(Around{});
    const auto [loss_between, between, fewer] = gradients(Between{});
    CHECK(loss_between == loss_around);
    for (const std::size_t i : {0, 1, 6, 7}) CHECK(relative_error(between[i], around[i]) < 1e-12);
    for (std::size_t i = 0; i < 6; ++i) {
      CHECK((i < 4 ? of_head[i].empty() : relative_error(of_head[i], all[i]) < 1e-13));
      CHECK((i >= 4 ? of_trunk[i].empty() : relative_error(of_trunk[i], all[i]) < 1e-13));
    }
    // Counted: a frozen trunk sends what inference sends, then the loss and the gradient of what is trained. Where the
    // head or the weights are frozen, the gradient is shorter by their values, and nothing else changes.
    const auto before = hg::comm_stats();
    hg::infer(hg::initial_parameters<Half, double>(4), data.x);
    const auto shorter = [&](const hg::CommStatistics& of, std::int64_t values) {
      hg::CommStatistics expected = of;
      if (support::world().size() > 1) expected.all_reduces.bytes -= values * std::int64_t{sizeof(double)};
      return expected;
    };
    hg::CommStatistics of_half = shorter(hg::comm_stats() - before, -(37 + 1));
    if (support::world().size() > 1) of_half.all_reduces.count += 2;
    of_half.checks = less.checks;
    CHECK(less == of_half);
    CHECK(behind == shorter(traffic, 37));
    CHECK(with_biases == shorter(traffic, 121 - 9));
    const auto memory = [&]<class M>(M) { return hg::layout_of<Field<2>>(M{}, mesh, {2, 2, 12, 11}).memory().tensors; };
    CHECK(memory(Half{}) < memory(Whole{}));
    // gradient, moments and average hold what is trained; a frozen layer in the middle too
    const hg::Trainer half(Half{}, hg::AdamW{}, mesh, {.average = 0.9});
    CHECK(half.optimizer_state().bytes() == 3 * 37 * sizeof(float));
    CHECK(hg::parameter_memory<Half, float>() == hg::ParameterMemory{484, 4 * 37, 8 * 37, 0});
    const auto over_height = hg::shard_parameters<"height">;
    const auto pieces =
        (37 + static_cast<std::size_t>(mesh.extents()[1]) - 1) / static_cast<std::size_t>(mesh.extents()[1]);
    const auto memory_of = hg::parameter_memory<Half, float>(mesh, over_height);
    CHECK(memory_of.parameters == 4 * (84 + pieces));
    CHECK(memory_of.gradient == 4 * pieces);
    CHECK(memory_of.optimizer == 8 * pieces);
    hg::Trainer sharded(Half{}, hg::AdamW{}, mesh, {.average = 0.9}, over_height);
    CHECK(sharded.optimizer_state().bytes() == 3 * 4 * pieces);
    auto whole_gradient = hg::initial_parameters<Half, float>(4).zeros("gradient");
    whole_gradient.copy_from_host(std::vector<float>(37, 2));
    const auto in_pieces = hg::redistribute(whole_gradient, mesh, over_height);
    CHECK(!in_pieces.has_buffers());
    CHECK(hg::redistribute<hg::Replicate>(in_pieces).size() == 37);
    CHECK(hg::redistribute<hg::Replicate>(in_pieces).to_host(5) == std::vector<float>(1, 2));
    // applied twice: the gradients of both calls, without what is frozen
    const auto whole_of = [](auto share) { return hg::redistribute<hg::Replicate>(share).to_host(); };
    const auto start = hg::initial_parameters<Half, double>(4);
    const auto one =
        std::get<1>(hg::value_and_grad([&](auto net) { return hg::mean(hg::square(net(data.x))); })(start));
    const auto other = std::get<1>(hg::value_and_grad([&](auto net) { return hg::mean(net(data.x)); })(start));
    const auto both = std::get<1>(hg::value_and_grad(
        [&](auto net) { return hg::mean(hg::square(net(data.x))) + hg::mean(net(2.0 * data.x - data.x)); })(start));
    auto sum = whole_of(one);
    const auto rest = whole_of(other);
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += rest[i];
    CHECK(relative_error(whole_of(both), sum) < 1e-12);
  }
}

TEST_CASE("frozen by name: layers of which one tensor is trained, weights or biases") {
  using All = hg::Sequential<hg::LayerNorm<2>, hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::BatchNorm2d<4>,
                             hg::ConvTranspose2d<4, 4, hg::Kernel<2>, hg::Stride<2>>, hg::SiLU,
                             hg::Conv2d<4, 8, hg::Kernel<3>, hg::Padding<1>, hg::Groups<4>>, hg::GlobalAvgPool,
                             hg::Linear<8, 1>>;
  constexpr auto is_weight = [](std::string_view name) { return name.ends_with(".weight"); };
  constexpr auto is_bias = [](std::string_view name) { return name.ends_with(".bias"); };
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data data = data_on(mesh, 3);
    const auto target = hg::infer(hg::initial_parameters<All, double>(5), data.x);
    const auto gradients = [&]<class M>(M) {
      const auto of = hg::initial_parameters<M, double>(4);
      auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(data.x), target); });
      return hg::redistribute<hg::Replicate>(std::get<1>(step(of)));
    };
    const auto all = gradients(All{});
    const auto of_biases = gradients(hg::Frozen<All, is_weight>{});
    const auto of_weights = gradients(hg::Frozen<All, is_bias>{});
    int p = 0;
    hg::for_each_parameter_name<All>([&](std::string_view name) {
      CAPTURE(name);
      if (is_bias(name)) CHECK(relative_error(of_biases.to_host(p), all.to_host(p)) < 1e-12);
      if (is_weight(name)) CHECK(relative_error(of_weights.to_host(p), all.to_host(p)) < 1e-12);
      ++p;
    });
  }
}

TEST_CASE("fit: the steps that it says, held-out losses by the average, metrics, early ends") {
  using Trainer = hg::Trainer<Net, hg::AdamW, support::Mesh, double>;
  const auto mesh = support::meshes(2).back();
  const hg::AdamW settings{.lr = 1e-2, .schedule = hg::cosine_rate(12)};
  Trainer trainer(Net{}, settings, mesh, {.seed = 2, .average = 0.5}),
      by_hand(Net{}, settings, mesh, {.seed = 2, .average = 0.5});
  std::vector<hg::Batch<Field<2>, Field<1>>> batches;
  for (std::uint64_t i = 0; i < 3; ++i) batches.emplace_back(data_on(mesh, 2 * i).x, data_on(mesh, 2 * i).y);
  const auto held_out = hg::batches(1, [&](hg::index_t) { return hg::Batch{data_on(mesh, 9).x, data_on(mesh, 9).y}; });
  const auto folder = std::filesystem::temp_directory_path();
  const std::string name = "halogen_fit_" + support::run_name(support::world().size());
  const hg::FitOptions options{.epochs = 4,
                               .evaluate_every = 3,
                               .seed = 5,
                               .metrics = folder / (name + ".jsonl"),
                               .progress = hg::Progress::none};
  const auto history = hg::fit(trainer, hg::huber, batches, options, held_out);
  REQUIRE(history.size() == 4);
  std::vector<std::vector<hg::index_t>> orders;
  for (hg::index_t epoch = 0; epoch < 4; ++epoch) {
    const hg::EpochReport& report = history[static_cast<std::size_t>(epoch)];
    orders.push_back(hg::detail::own_order(3));
    hg::detail::shuffle(orders.back(), 5, epoch);
    double sum = 0;
    for (const hg::index_t i : orders.back()) {
      CHECK(by_hand.learning_rate() >= report.rate);
      const auto& batch = batches[static_cast<std::size_t>(i)];
      sum += by_hand.step(hg::huber, batch.x, batch.y).item() / 3;
    }
    CHECK(report.loss == doctest::Approx(sum).epsilon(1e-14));
    CHECK(report.step == 3 * (epoch + 1));
    CHECK(report.held_out.has_value() == (epoch >= 2));
  }
  CHECK(std::set(orders.begin(), orders.end()).size() > 1);
  CHECK(trainer.parameters().to_host() == by_hand.parameters().to_host());
  const Field<1> prediction = hg::infer(by_hand.averaged_parameters(), held_out[0].x),
                 error = prediction - held_out[0].y;
  const double expected = hg::mean(hg::where(hg::abs(error) < 1.0, 0.5 * error * error, hg::abs(error) - 0.5)).item();
  CHECK(*history.back().held_out == doctest::Approx(expected).epsilon(1e-12));
  if (support::world().rank() == 0) {
    std::ifstream lines(options.metrics);
    std::string line;
    int count = 0;
    while (std::getline(lines, line)) {
      const auto report = nlohmann::json::parse(line);
      CHECK(report["loss"].get<double>() == history[static_cast<std::size_t>(count)].loss);
      CHECK(report.contains("held_out") == (count++ >= 2));
    }
    CHECK(count == 4);
  }
  int seen = 0;
  const hg::FitOptions short_run{.epochs = 9, .after_epoch = [&](const hg::EpochReport&) { return ++seen < 2; }};
  CHECK(hg::fit(trainer, hg::mse, batches, short_run).size() == 2);

  // by steps, in the middle of an epoch, with a bar; and a call after each step that ends the run
  std::vector<hg::StepReport> reports;
  const auto bar_file = folder / (name + ".bar");
  std::fflush(stderr);
  const int terminal = ::dup(STDERR_FILENO), file = ::open(bar_file.c_str(), O_CREAT | O_TRUNC | O_WRONLY, 0644);
  if (support::world().rank() == 0) ::dup2(file, STDERR_FILENO);
  const auto by_steps = hg::fit(trainer, hg::mse, batches,
                                {.steps = 5, .progress = hg::Progress::bar, .after_step = [&](const hg::StepReport& r) {
                                   reports.push_back(r);
                                   return true;
                                 }});
  std::fflush(stderr);
  ::dup2(terminal, STDERR_FILENO);
  ::close(terminal), ::close(file);
  REQUIRE(by_steps.size() == 2);
  REQUIRE(reports.size() == 5);
  CHECK(by_steps[1].step == by_steps[0].step + 2);
  CHECK(by_steps[1].loss == doctest::Approx((reports[3].loss + reports[4].loss) / 2).epsilon(1e-14));
  CHECK(reports[4].epoch == 2);
  if (support::world().rank() == 0) {
    std::ifstream shown(bar_file);
    const std::string text{std::istreambuf_iterator<char>(shown), {}};
    CHECK(text.find("] epoch 2/2  step 2/3  loss ") != std::string::npos);
    for (const char* word : {"rate ", "samples/s", " s left", "[########################]", "[####...."})
      CHECK(text.find(word) != std::string::npos);
    std::filesystem::remove(bar_file);
  }
  seen = 0;
  const hg::FitOptions ended{.epochs = 9, .after_step = [&](const hg::StepReport&) { return ++seen < 4; }};
  CHECK(hg::fit(trainer, hg::mse, batches, ended).size() == 2);
  CHECK(seen == 4);
  // ended in the middle of an epoch: called again it tells the same, with more steps it goes on in that epoch
  const auto run_folder = folder / (name + ".run");
  const auto again = [&](hg::index_t number_of_steps, hg::index_t of_schedule = 12, bool is_meant = false) {
    Trainer fresh(Net{}, {.lr = 1e-2, .schedule = hg::cosine_rate(of_schedule)}, mesh, {.seed = 2});
    return hg::fit(fresh, hg::mse, batches,
                   {.steps = number_of_steps, .checkpoints = {.folder = run_folder, .new_schedule = is_meant}});
  };
  const auto ended_early = again(2), told_again = again(2), went_on = again(4);
  REQUIRE(ended_early.size() == 1);
  REQUIRE(told_again.size() == 1);
  REQUIRE(went_on.size() == 2);
  CHECK(told_again[0].loss == ended_early[0].loss);
  CHECK(told_again[0].step == 2);
  CHECK(went_on[0].step == 3);
  CHECK(went_on[1].step == 4);
  CHECK_THROWS_WITH_AS(again(5, 15), doctest::Contains("\"steps\":12"), hg::CollectiveError);
  CHECK(again(5, 15, true).back().step == 5);
  support::world().barrier();
  if (support::world().rank() == 0) std::filesystem::remove_all(run_folder);

  Field<2> broken = batches[1].x.clone();
  broken = broken / 0.0;
  batches[1].x = broken;
  CHECK_THROWS_WITH_AS(hg::fit(trainer, hg::mse, batches, {.shuffle = false}),
                       doctest::Contains("the loss of step 29 (epoch 1, batch 1) is"), hg::CollectiveError);
  using Head = hg::Sequential<hg::Frozen<hg::Conv2d<2, 4>>, hg::Conv2d<4, 1>>;  // of which no update reaches "0.weight"
  hg::Trainer<Head, hg::AdamW, support::Mesh, double> head(Head{}, settings, mesh);
  CHECK_THROWS_WITH_AS(hg::fit(head, hg::mse, batches, {.shuffle = false}),
                       doctest::Contains("; the image is not finite at (0, 0, 0, 0); parameter '1.weight' is the first "
                                         "that is not finite after it"),
                       hg::CollectiveError);
  CHECK_THROWS_WITH_AS(hg::fit(trainer, hg::mse, batches, {.shuffle = false}),
                       doctest::Contains("; parameter '0.weight' is the first that is not finite after it"),
                       hg::CollectiveError);
  CHECK_THROWS_AS(hg::fit(trainer, hg::mse, batches, {.metrics = "/no/such/folder/run.jsonl"}), hg::CollectiveError);
  support::world().barrier();
  if (support::world().rank() == 0) std::filesystem::remove(options.metrics);
}

TEST_CASE("losses that are expressions: beside those of points, beside value_and_grad, with statistics and shards") {
  struct Normed : hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::BatchNorm2d<4>, hg::SiLU,
                                 hg::Conv2d<4, 1>> {};
  const auto square = hg::expression_loss([](const auto& p, const auto& y) { return hg::mean(hg::square(p - y)); });
  const auto overlap = hg::expression_loss(
      [](const auto& p, const auto& y) { return hg::dice(hg::sigmoid(p), hg::where(y > 0.0, 1.0, 0.0)); });
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data one = data_on(mesh, 3), two = data_on(mesh, 5);
    const Field<2>&x = one.x, &x2 = two.x;
    const Field<1>&y = one.y, &y2 = two.y;
    const hg::Adam settings{.lr = 1e-2};
    hg::Trainer<Normed, hg::Adam, support::Mesh, double> by_points(Normed{}, settings, mesh),
        by_expression(Normed{}, settings, mesh), of_overlap(Normed{}, settings, mesh);
    hg::Trainer<Normed, hg::Adam, support::Mesh, double, hg::ShardParameters<"data">> sharded(
        Normed{}, settings, mesh, {}, hg::shard_parameters<"data">);
    for (int i = 0; i < 3; ++i) {
      by_points.accumulate(hg::mse, x2, y2);
      by_expression.accumulate(square, x2, y2);
      sharded.accumulate(square, x2, y2);
      const double loss = by_points.step(hg::mse, x, y).item();
      const auto step = by_expression.step(square, x, y);
      CHECK(step.item() == doctest::Approx(loss).epsilon(1e-12));
      CHECK(hg::evaluate(square, step.prediction(), y) == doctest::Approx(loss).epsilon(1e-12));
      CHECK(sharded.step(square, x, y).item() == doctest::Approx(loss).epsilon(1e-12));
    }
    const auto expected = by_points.parameters().to_host();  // running statistics too
    constexpr double rounding = 1e-9;                        // Adam divides small gradients by themselves
    CHECK(support::relative_error(by_expression.parameters().to_host(), expected) < rounding);
    CHECK(support::relative_error(hg::redistribute<hg::Replicate>(sharded.parameters()).to_host(), expected) <
          rounding);

    hg::Parameters<Normed, double> parameters = of_overlap.parameters().clone();
    hg::OptimizerState<Normed, double, hg::Replicate, hg::Adam> state(settings, parameters);
    auto by_hand = hg::value_and_grad([&](auto net) { return overlap.f(net(x), y); });
    for (int i = 0; i < 2; ++i) {
      const auto [loss, gradient] = by_hand(parameters);
      CHECK(of_overlap.step(overlap, x, y).item() == doctest::Approx(loss).epsilon(1e-12));
      state.step(parameters, hg::redistribute<hg::Replicate>(gradient));
    }
    auto trained = of_overlap.parameters().to_host(), hands = parameters.to_host();
    trained.resize(hg::Parameters<Normed, double>::trained), hands.resize(trained.size());  // by hand no statistics
    CHECK(support::relative_error(trained, hands) < rounding);
    std::vector<hg::Batch<Field<2>, Field<1>>> batches;
    batches.emplace_back(x, y), batches.emplace_back(x2, y2);
    const auto history = hg::fit(of_overlap, overlap, batches, {.epochs = 8, .progress = hg::Progress::none}, batches);
    CHECK(*history.back().held_out < *history.front().held_out);
  }
}

TEST_CASE("settings that are none end with one sentence") {
  using Fails = hg::CollectiveError;
  const auto make = [](const auto& settings, const hg::OptimizerOptions& options = {}) {
    using State = hg::OptimizerState<Model, double, hg::Replicate, std::remove_cvref_t<decltype(settings)>>;
    State(settings, Parameters(), options);
  };
  CHECK_THROWS_WITH_AS(make(hg::SGD{.nesterov = true}),
                       "SGD: nesterov with momentum = 0: give a positive momentum, and dampening 0", Fails);
  CHECK_THROWS_WITH_AS(
      make(hg::Adam{.schedule = hg::cosine_rate(5, {.warmup = 5})}),
      "Adam: its schedule ends after 5 steps, and its warm-up after 5: give a schedule with more steps than its "
      "warm-up",
      Fails);
  CHECK_THROWS_WITH_AS(make(hg::SGD{.schedule = hg::step_rate(0, 0.5)}),
                       "SGD: steps after which its schedule falls = 0: give 1 or more", Fails);
  CHECK_THROWS_WITH_AS(make(hg::SGD{.schedule = hg::one_cycle_rate(10, {.pct_start = 2})}),
                       "SGD: pct_start * steps of its schedule = 20: give a pct_start of 0 to 1, which is a share "
                       "of the steps",
                       Fails);
  CHECK_THROWS_AS(make(hg::SGD{.schedule = hg::one_cycle_rate(10, {.div_factor = 0})}), Fails);
  const std::string head = "head";
  const auto none = hg::parameters_named<Model>([head](std::string_view name) { return name == head; });
  CHECK_THROWS_AS(make(hg::AdamW{}, {.groups = {none}}), Fails);
  CHECK_THROWS_AS(make(hg::AdamW{}, {.average = 1}), Fails);
  CHECK_THROWS_AS(make(hg::Lion{.beta1 = 1}), Fails);
  CHECK_THROWS_AS(make(hg::RMSprop{.alpha = 1}), Fails);
  CHECK_THROWS_AS(make(hg::Adagrad{.lr_decay = -1}), Fails);
}

}  // namespace test_optimizers
