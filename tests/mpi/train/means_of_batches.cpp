// program: training
// ranks: 1 2 4 6
// What is a mean over several batches is that of all their points: gradients of a step with accumulate, the held-out
// loss of fit. Beside one batch of all points, and closed formulas.
#include <halogen/files.hpp>

#include <limits>

#include "support/composition.hpp"
#include "support/refusal.hpp"

namespace test_means_of_batches {

namespace {

using support::relative_error;
template <int Channels>
using Field = support::Field<double, Channels>;
using Classes = support::WithValues<Field<1>, std::int64_t>::type;

using Net = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::SiLU, hg::Conv2d<4, 3>>;
using Trainer = hg::Trainer<Net, hg::AdamW, support::Mesh, double>;
constexpr hg::AdamW settings{.lr = 0.1};

struct Data {
  Field<2> x;
  Field<3> y;
  Field<1> weight;
  Classes kind;  ///< some ignored, of the larger batches more
};
Data data_on(const hg::DeviceMesh<support::Mesh>& mesh, std::uint64_t stream, hg::index_t batch) {
  const auto points = static_cast<std::size_t>(batch * 12 * 11);
  std::vector<double> weights = support::numbers<double>(points, stream + 2);
  for (double& weight : weights) weight = static_cast<double>(stream) * weight * weight;
  std::vector<std::int64_t> kinds(points);
  for (std::size_t i = 0; i < points; ++i)
    kinds[i] = i % 4 < static_cast<std::size_t>(batch) ? -100 : static_cast<std::int64_t>(i % 3);
  return {hg::distribute_tensor<Field<2>>(mesh, {batch, 2, 12, 11}, support::numbers<double>(2 * points, stream)),
          hg::distribute_tensor<Field<3>>(mesh, {batch, 3, 12, 11}, support::numbers<double>(3 * points, stream + 1)),
          hg::distribute_tensor<Field<1>>(mesh, {batch, 1, 12, 11}, weights),
          hg::distribute_tensor<Classes>(mesh, {batch, 1, 12, 11}, kinds)};
}

hg::DeviceMesh<support::Mesh> columns_mesh() {
  return hg::device_mesh<support::Mesh>(support::world(), {1, 1, support::world().size()});
}

/// A step of three batches, of 1, 3 and 2 samples, beside one of a single batch, four times over. step(trainer, data,
/// waits) calls accumulate or step.
void check_step(auto step) {
  const auto mesh = columns_mesh();
  const Data a = data_on(mesh, 3, 1), b = data_on(mesh, 7, 3), c = data_on(mesh, 11, 2);
  const Data all{hg::concatenate<0>(a.x, b.x, c.x), hg::concatenate<0>(a.y, b.y, c.y),
                 hg::concatenate<0>(a.weight, b.weight, c.weight), hg::concatenate<0>(a.kind, b.kind, c.kind)};
  Trainer parts(Net{}, settings, mesh, {.seed = 2}), once(Net{}, settings, mesh, {.seed = 2});
  for (int i = 0; i < 4; ++i) {
    step(parts, a, true), step(parts, b, true), step(parts, c, false);
    step(once, all, false);
    CHECK(relative_error(parts.parameters().to_host(), once.parameters().to_host()) < 1e-10);
  }
  CHECK(parts.optimizer_state().steps() == 4);
}
void accumulate_or_step(Trainer& trainer, bool waits, const auto&... given) {
  if (waits)
    trainer.accumulate(given...);
  else
    trainer.step(given...);
}

/// One number, b, whatever the image is.
using Constant = hg::Sequential<hg::Conv2d<1, 1>>;

}  // namespace

TEST_CASE("a step of several batches is one of a batch of all their points") {
  SUBCASE("of points alike") {
    check_step([](Trainer& trainer, const Data& data, bool waits) {
      accumulate_or_step(trainer, waits, hg::mse, data.x, data.y);
    });
  }
  SUBCASE("with weights") {
    check_step([](Trainer& trainer, const Data& data, bool waits) {
      accumulate_or_step(trainer, waits, hg::l1, data.x, data.y, data.weight);
    });
  }
  SUBCASE("with labels that are ignored") {
    check_step([](Trainer& trainer, const Data& data, bool waits) {
      accumulate_or_step(trainer, waits, hg::cross_entropy, data.x, data.kind);
    });
  }
  SUBCASE("of other reductions") {
    for (const hg::LossReduction reduction : {hg::LossReduction::sum, hg::LossReduction::batch_mean}) {
      CAPTURE(static_cast<int>(reduction));
      check_step([&](Trainer& trainer, const Data& data, bool waits) {
        accumulate_or_step(trainer, waits, hg::MeanSquaredError({.reduction = reduction}), data.x, data.y, data.weight);
      });
    }
  }
  SUBCASE("of an expression, by samples") {
    const auto loss = hg::expression_loss([](const auto& p, const auto& y) { return hg::mean(hg::square(p - y)); });
    check_step([&](Trainer& trainer, const Data& data, bool waits) {
      accumulate_or_step(trainer, waits, loss, data.x, data.y);
    });
  }
}

TEST_CASE("labels 1 of weight 3 and -3 of weight 1: the gradient at 0 is 0, and the held-out loss 3") {
  const auto mesh = columns_mesh();
  hg::Trainer<Constant, hg::SGD, support::Mesh, double> trainer(Constant{}, hg::SGD{.lr = 0.25}, mesh);
  hg::Parameters<Constant, double> zeros;
  zeros.copy_from_host(std::vector<double>(2));
  Kokkos::deep_copy(trainer.parameters().view(), zeros.view());
  const auto of = [&](double value) {
    return hg::distribute_tensor<Field<1>>(mesh, {1, 1, 12, 11}, std::vector<double>(12 * 11, value));
  };
  const Field<1> image = of(0);
  trainer.accumulate(hg::mse, image, of(1), of(3));
  trainer.step(hg::mse, image, of(-3), of(1));
  CHECK(std::abs(trainer.parameters().to_host()[1]) < 1e-15);  // a mean of means would move it by -0.5
  trainer.accumulate(hg::mse, image, of(1));                   // alike: the mean is -1, and the gradient 2
  trainer.step(hg::mse, image, of(-3));
  CHECK(trainer.parameters().to_host()[1] == doctest::Approx(-0.5).epsilon(1e-14));
  Kokkos::deep_copy(trainer.parameters().view(), zeros.view());
  trainer.accumulate(hg::mse, image, of(1), of(3));  // nothing counts in the second batch: no step is taken
  CHECK(support::refusal<hg::CollectiveError>([&] {
          trainer.step(hg::mse, image, of(-3), of(0));
        }).find("weights sum to 0") != std::string::npos);
  CHECK(trainer.parameters().to_host()[1] == 0);

  using Batch = hg::Batch<Field<1>, Field<1>, Field<1>>;
  const std::vector<Batch> batches{{image, of(1), of(3)}, {image, of(-3), of(1)}};
  CHECK(hg::detail::held_out_loss(hg::mse, batches, trainer.parameters()) == doctest::Approx(3).epsilon(1e-14));
  const std::vector<Batch> masked{{image, of(1), of(3)}, {image, of(-3), of(0)}};  // nothing counts in one of them
  CHECK(hg::detail::held_out_loss(hg::mse, masked, trainer.parameters()) == doctest::Approx(1).epsilon(1e-14));
  const std::vector<Batch> nothing{{image, of(1), of(0)}, {image, of(-3), of(0)}};
  CHECK(support::refusal<hg::CollectiveError>([&] {
          hg::detail::held_out_loss(hg::mse, nothing, trainer.parameters());
        }) == "the loss weights sum to 0: at least one must be positive, none NaN");
}

TEST_CASE("the held-out loss is that of all points, of a smaller last batch too") {
  const auto mesh = columns_mesh();
  const Data a = data_on(mesh, 3, 3), b = data_on(mesh, 7, 1);
  const auto parameters = hg::initial_parameters<Net, double>(2);
  const Field<2> x = hg::concatenate<0>(a.x, b.x);
  const Field<3> y = hg::concatenate<0>(a.y, b.y), prediction = hg::infer(parameters, x);
  const auto same = [&](const auto& loss, const auto& batches, const auto&... beside) {
    CHECK(hg::detail::held_out_loss(loss, batches, parameters) ==
          doctest::Approx(hg::evaluate(loss, prediction, beside...)).epsilon(1e-13));
  };
  const std::vector<hg::Batch<Field<2>, Field<3>>> plain{{a.x, a.y}, {b.x, b.y}};
  same(hg::mse, plain, y);
  same(0.5 * hg::l1, plain, y);
  same(hg::expression_loss([](const auto& p, const auto& l) { return hg::mean(hg::abs(p - l)); }), plain, y);
  const std::vector<hg::Batch<Field<2>, Field<3>, Field<1>>> weighted{{a.x, a.y, a.weight}, {b.x, b.y, b.weight}};
  same(hg::huber, weighted, y, Field<1>(hg::concatenate<0>(a.weight, b.weight)));
  const std::vector<hg::Batch<Field<2>, Classes>> classes{{a.x, a.kind}, {b.x, b.kind}};
  same(hg::cross_entropy, classes, Classes(hg::concatenate<0>(a.kind, b.kind)));
}

TEST_CASE("a batch that counts more in one output than in another is refused, and the next step is right") {
  struct Two : hg::Module<Two> {
    constexpr auto forward(hg::Traced x) const { return std::tuple{hg::Conv2d<2, 3>{}(x), hg::Conv2d<2, 3>{}(x)}; }
  };
  const auto mesh = columns_mesh();
  const Data a = data_on(mesh, 3, 1), b = data_on(mesh, 7, 2),
             all{hg::concatenate<0>(a.x, b.x), hg::concatenate<0>(a.y, b.y), a.weight, a.kind};
  hg::Trainer<Two, hg::AdamW, support::Mesh, double> parts(Two{}, settings, mesh, {.seed = 2}),
      once(Two{}, settings, mesh, {.seed = 2});
  parts.accumulate(hg::mse, a.x, hg::Labels{a.y, a.y}, hg::Weights{a.weight, hg::no_weight});
  CHECK(support::refusal<hg::CollectiveError>([&] {
          parts.step(hg::mse, b.x, hg::Labels{b.y, b.y}, hg::Weights{b.weight, hg::no_weight});
        }).find(" 2 times in output 1, but a step has one gradient for all outputs") != std::string::npos);
  CHECK(support::refusal<hg::CollectiveError>([&] {
          parts.step(hg::Losses{hg::mse, hg::MeanSquaredError({.reduction = hg::LossReduction::sum})}, b.x,
                     hg::Labels{b.y, b.y});
        }).find("of which one is a sum") != std::string::npos);
  hg::Trainer<Two, hg::AdamW, support::Mesh, double> fresh(Two{}, settings, mesh, {.seed = 2});
  fresh.accumulate(hg::Losses{hg::mse, hg::l1}, a.x, hg::Labels{a.y, a.y});
  fresh.step(hg::Losses{hg::mse, hg::l1}, b.x, hg::Labels{b.y, b.y});
  once.step(hg::Losses{hg::mse, hg::l1}, all.x, hg::Labels{all.y, all.y});
  CHECK(relative_error(fresh.parameters().to_host(), once.parameters().to_host()) < 1e-10);
  const std::vector<hg::Batch<Field<2>, hg::Labels<Field<3>, Field<3>>>> batches{{a.x, hg::Labels{a.y, a.y}},
                                                                                 {b.x, hg::Labels{b.y, b.y}}};
  CHECK(hg::detail::held_out_loss(hg::mse, batches, once.parameters()) ==
        doctest::Approx(hg::evaluate(hg::mse, once.predict(all.x), hg::Labels{all.y, all.y})).epsilon(1e-13));
}

TEST_CASE("fit of as many epochs or steps as a number can say goes on until it is told to end") {
  const auto mesh = columns_mesh();
  const Data a = data_on(mesh, 3, 2), b = data_on(mesh, 7, 2);
  const std::vector<hg::Batch<Field<2>, Field<3>>> batches{{a.x, a.y}, {b.x, b.y}};
  constexpr auto most = std::numeric_limits<hg::index_t>::max();
  for (const auto& [epochs, steps] : {std::pair{most, hg::index_t{0}}, {most / 2 + 1, 0}, {hg::index_t{1}, most}}) {
    Trainer trainer(Net{}, settings, mesh);
    const auto history = hg::fit(trainer, hg::mse, batches,
                                 {.epochs = epochs,
                                  .steps = steps,
                                  .progress = hg::Progress::none,
                                  .after_step = [](const hg::StepReport& report) { return report.step < 5; }});
    REQUIRE(history.size() == 3);
    CHECK(history.back().step == 5);
  }
}

TEST_CASE("what one rank alone answers, throws or was given ends fit on all ranks alike") {
  const auto mesh = columns_mesh();
  const Data a = data_on(mesh, 3, 2), b = data_on(mesh, 7, 2);
  const std::vector<hg::Batch<Field<2>, Field<3>>> batches{{a.x, a.y}, {b.x, b.y}};
  const int rank = mesh.rank(), last = mesh.size() - 1;
  const auto run = [&](hg::FitOptions options) {
    Trainer trainer(Net{}, settings, mesh);
    options.progress = hg::Progress::none;
    return hg::fit(trainer, hg::mse, batches, options).back();
  };
  CHECK(run({.epochs = 9, .after_step = [&](const hg::StepReport& of) { return rank != last || of.step < 5; }}).step ==
        5);
  CHECK(run({.epochs = 9, .after_epoch = [&](const hg::EpochReport& of) { return rank != 0 || of.epoch < 3; }}).step ==
        6);
  hg::FitOptions alone{.epochs = 9};  // a call that only one rank was given
  if (rank == last) alone.after_step = [](const hg::StepReport& of) { return of.step < 3; };
  CHECK(run(alone).step == 3);

  struct Pruned {};  // thrown on all ranks: to each its own
  CHECK_THROWS_AS(run({.epochs = 9, .after_step = [](const hg::StepReport&) -> bool { throw Pruned(); }}), Pruned);
  if (last == 0) return;
  alone.after_step = nullptr;
  if (rank == last)
    alone.after_epoch = [](const hg::EpochReport& of) {
      if (of.epoch == 2) throw std::runtime_error("no more");
      return true;
    };
  CHECK(support::refusal<hg::CollectiveError>([&] { run(alone); }) == "no more");
  CHECK(support::refusal<hg::CollectiveError>([&] { run({.epochs = rank == 0 ? 2 : 3}); }) ==
        "fit: epochs: 2 on one rank and 3 on another: give all ranks the same data and options");
  CHECK(
      support::refusal<hg::CollectiveError>([&] { run({.checkpoints = {.folder = rank == 0 ? "" : "f"}}); }) ==
      "fit: checkpoints (1: with a folder): 0 on one rank and 1 on another: give all ranks the same data and options");
}

}  // namespace test_means_of_batches
