// program: training
// ranks: 1 2 4 6
// A body that was trained before: its parameters by name, from a file and from another model; in evaluation, where its
// norms use their running statistics, beside inference and finite differences of it.
#include <halogen/files.hpp>

#include <filesystem>

#include "support/composition.hpp"
#include "support/network.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"

namespace test_transfer_learning {

namespace {

template <int Channels>
using Field = support::Field<double, Channels>;
using support::relative_error;

using Plain = hg::BatchNorm<4, std::ratio<1, 1000>, std::ratio<1, 10>, hg::Affine<false>>;
using Body =
    hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::BatchNorm2d<4>, hg::SiLU, hg::Dropout<>, Plain>;
using Trained = hg::Sequential<Body, hg::Conv2d<4, 3>>;
using New = hg::Sequential<hg::Frozen<hg::InEvaluation<Body>>, hg::Conv2d<4, 1>>;
using Tuned = hg::Sequential<hg::InEvaluation<Body>, hg::Conv2d<4, 1>>;
constexpr std::ptrdiff_t of_body = 2 * 4 * 9 + 4 + 4 + 4, of_head = 5;

template <int Channels>
Field<Channels> field_on(const hg::DeviceMesh<support::Mesh>& mesh, std::uint64_t stream) {
  return hg::distribute_tensor<Field<Channels>>(mesh, {2, Channels, 12, 11},
                                                support::numbers<double>(2 * Channels * 12 * 11, stream));
}

/// Parameters of a Trained that are no first values, running statistics among them.
hg::Parameters<Trained, double> trained() {
  auto values = hg::initial_parameters<Trained, double>(5).to_host();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] += 0.3 + 0.1 * std::cos(static_cast<double>(i));
  hg::Parameters<Trained, double> parameters;
  parameters.copy_from_host(values);
  return parameters;
}
/// The values of all tensors of one name.
template <class P>
std::vector<double> tensor(const P& parameters, const std::string& name) {
  const auto names = hg::parameter_names<typename P::model_type>();
  const auto found = std::ranges::find(names, name);
  REQUIRE(found != names.end());
  return parameters.to_host(static_cast<int>(found - names.begin()));
}
const std::vector<std::string> body_names{"0.0.weight",       "0.0.bias",        "0.1.weight",       "0.1.bias",
                                          "0.1.running_mean", "0.1.running_var", "0.4.running_mean", "0.4.running_var"};

}  // namespace

TEST_CASE("a body in evaluation: the loss of inference, its gradient by finite differences, statistics as they were") {
  hg::Parameters<Tuned, double> parameters;
  hg::copy_parameters(trained(), parameters, {.only = {"0.*"}});
  {
    auto values = parameters.to_host();
    for (std::size_t i = of_body; i < of_body + of_head; ++i) values[i] = 0.4;
    parameters.copy_from_host(values);
  }
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Field<2> x = field_on<2>(mesh, 3);
    const Field<1> y = field_on<1>(mesh, 5);
    const auto loss_at = [&](const std::vector<double>& values) {
      hg::Parameters<Tuned, double> at;
      at.copy_from_host(values);
      return hg::evaluate(hg::mse, hg::infer(at, x), y);
    };
    const std::vector<double> values = parameters.to_host();
    auto of_points = hg::value_and_grad([&](auto net) { return hg::mse(net(x), y); });
    auto of_expression = hg::value_and_grad([&](auto net) { return hg::mean(hg::square(net(x) - y)); });
    const auto [loss, gradient] = of_points(parameters);
    const auto [same_loss, same_gradient] = of_expression(parameters);
    CHECK(loss == doctest::Approx(loss_at(values)).epsilon(1e-13));
    CHECK(same_loss == doctest::Approx(loss).epsilon(1e-13));
    const auto all = hg::redistribute<hg::Replicate>(gradient).to_host();
    REQUIRE(all.size() == of_body + of_head);
    CHECK(relative_error(hg::redistribute<hg::Replicate>(same_gradient).to_host(), all) < 1e-12);
    for (std::size_t i = 0; i < all.size(); i += (i < 70 ? 9 : 1)) {
      CAPTURE(i);
      const auto moved = [&](double by) {
        auto at = values;
        at[i] += by;
        return loss_at(at);
      };
      CHECK(all[i] == doctest::Approx((moved(1e-5) - moved(-1e-5)) / 2e-5).epsilon(1e-6));
    }
    hg::Trainer<Tuned, hg::SGD, support::Mesh, double> trainer(Tuned{}, hg::SGD{.lr = 1e-2}, mesh, {.seed = 1});
    hg::copy_parameters(parameters, trainer.parameters());
    for (int i = 0; i < 3; ++i) {
      const double before = hg::evaluate(hg::mse, trainer.predict(x), y);
      CHECK(trainer.step(hg::mse, x, y).item() == doctest::Approx(before).epsilon(1e-13));
    }
    for (const char* name : {"0.1.running_mean", "0.1.running_var", "0.4.running_mean", "0.4.running_var"})
      CHECK(tensor(trainer.parameters(), name) == tensor(parameters, name));
    CHECK(tensor(trainer.parameters(), "0.0.weight") != tensor(parameters, "0.0.weight"));
  }
}

TEST_CASE("a frozen body in evaluation: its head alone is trained, and nothing of it changes") {
  const auto source = trained();
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Field<2> x = field_on<2>(mesh, 3);
    const Field<1> y = field_on<1>(mesh, 5);
    hg::Trainer<New, hg::Adam, support::Mesh, double> trainer(New{}, hg::Adam{.lr = 1e-2}, mesh);
    const auto copied = hg::copy_parameters(source, trainer.parameters(), {.skip = {"1.*"}});
    CHECK(copied.taken == body_names);
    CHECK(copied.left == std::vector<std::string>{"1.weight", "1.bias"});
    const double before = hg::evaluate(hg::mse, trainer.predict(x), y);
    const double first = trainer.step(hg::mse, x, y).item();
    CHECK(first == doctest::Approx(before).epsilon(1e-13));
    double last = first;
    for (int i = 0; i < 20; ++i) last = trainer.step(hg::mse, x, y).item();
    CHECK(last < first);
    for (const std::string& name : body_names) CHECK(tensor(trainer.parameters(), name) == tensor(source, name));
    static_assert(hg::Parameters<New, double>::trained == of_head);

    // the same with parameters in shards, copied there and from there
    const auto shards = hg::shard_parameters<"data">;
    hg::Trainer<New, hg::Adam, support::Mesh, double, std::remove_const_t<decltype(shards)>> sharded(
        New{}, hg::Adam{.lr = 1e-2}, mesh, {}, shards);
    hg::copy_parameters(source, sharded.parameters(), {.skip = {"1.*"}});
    CHECK(sharded.step(hg::mse, x, y).item() == doctest::Approx(first).epsilon(1e-12));
    hg::Parameters<Trained, double> back;
    hg::copy_parameters(sharded.parameters(), back, {.only = {"0.*"}});
    for (const std::string& name : body_names) CHECK(tensor(back, name) == tensor(source, name));
    CHECK(tensor(back, "1.weight") == std::vector<double>(12));
  }
}

TEST_CASE("from a file: what is chosen, what fits, and refusals that change nothing") {
  const hg::Communicator world = support::world();
  const auto file =
      std::filesystem::temp_directory_path() / ("halogen_transfer_" + support::run_name(world.size()) + ".safetensors");
  const auto source = trained();
  hg::save_parameters(file, source, world);
  hg::Parameters<New, double> parameters = hg::initial_parameters<New, double>(9);
  const auto start = parameters.to_host();
  const auto said = [&](auto f) { return support::refusal<hg::CollectiveError>(f); };
  CHECK(
      said([&] { hg::load_parameters(file, parameters, world, {.only = {"*"}}); }) ==
      "'" + file.string() +
          "': tensor '1.weight' is F64 (3 x 4 x 1 x 1), but the model's is F64 (1 x 4 x 1 x 1); tensor '1.bias' is F64 "
          "(3), but the model's is F64 (1): give a file of this model and value type");
  CHECK(said([&] { hg::load_parameters(file, parameters, world, {.skip = {"head.*"}}); }) ==
        "no parameter of the model has a name like 'head.*': the names are those of parameter_names<Model>(), such as "
        "'0.0.weight'");
  CHECK(said([&] {
          hg::load_parameters(file, parameters, world, {.only = {"1.*"}, .name_in_source = [](const std::string& name) {
                                                          return "old." + name;
                                                        }});
        }) == "'" + file.string() +
                  "': there is no tensor 'old.1.weight', 'old.1.bias': give a file of this model and value type");
  CHECK(
      said([&] { hg::copy_parameters(source, parameters); }) ==
      "copy_parameters: of what is to be copied '1.weight' has another shape, '1.bias' has another shape: name what is "
      "the same by .only or leave out what is not by .skip, or take {.fitting = true}");
  CHECK(said([&] { hg::copy_parameters(source, hg::Parameters<New, double>("gradient").zeros("gradient")); }) ==
        "copy_parameters: a gradient or a moment is given, which has no buffers: give parameters");
  CHECK(parameters.to_host() == start);

  const auto check = [&](const hg::TakenParameters& result) {
    CHECK(result.taken == body_names);
    CHECK(result.left == std::vector<std::string>{"1.weight", "1.bias"});
    for (const std::string& name : body_names) CHECK(tensor(parameters, name) == tensor(source, name));
    CHECK(tensor(parameters, "1.bias")[0] == start[4]);  // the head is what is trained: it comes first
    parameters.copy_from_host(start);
  };
  check(hg::load_parameters(file, parameters, world, {.skip = {"1.*"}}));
  check(hg::load_parameters(file, parameters, world, {.fitting = true}));
  check(hg::copy_parameters(source, parameters, {.fitting = true}));
  const auto some =
      hg::load_parameters(file, parameters, world, {.only = {"0.*"}, .skip = {"*.running_*", "0.0.bias"}});
  CHECK(some.taken == std::vector<std::string>{"0.0.weight", "0.1.weight", "0.1.bias"});
  CHECK(tensor(parameters, "0.1.running_var") == std::vector<double>(4, 1));
  hg::Parameters<New, float> narrow;
  hg::copy_parameters(source, narrow, {.only = {"0.1.bias"}});
  CHECK(narrow.to_host().size() == start.size());
  CHECK(static_cast<float>(tensor(source, "0.1.bias")[1]) == narrow.to_host(3)[1]);
  world.barrier();
  if (world.rank() == 0) std::filesystem::remove(file);
}

}  // namespace test_transfer_learning
