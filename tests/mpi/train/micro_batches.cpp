// program: training
// ranks: 1 2 4 6
// A step in micro-batches is the step of the whole batch: every loss, weights, ignored labels, several outputs and
// inputs, random numbers, sharded parameters, two-byte images. It has one loss, one all_reduce of the gradient, and the
// memory of a part.
#include <halogen/files.hpp>

#include <functional>
#include <optional>

#include "support/composition.hpp"
#include "support/kokkos_events.hpp"
#include "support/network.hpp"
#include "support/pmpi_counter.hpp"
#include "support/refusal.hpp"

namespace test_micro_batches {

namespace {

using support::relative_error;
template <int Channels, class T = double>
using Field = support::Field<T, Channels>;
template <class T, int Channels>
using Vector = hg::Sharded<hg::Tensor<T, hg::dyn, Channels>, support::Mesh, hg::Shard<0>, hg::Replicate, hg::Replicate>;
using Classes = support::WithValues<Field<1>, std::int64_t>::type;
template <class Model, class Optimizer = hg::SGD, class T = double>
using Trainer = hg::Trainer<Model, Optimizer, support::Mesh, T>;

constexpr hg::index_t batch = 9, rows = 12, columns = 11;
constexpr hg::SGD settings{.lr = 0.1};

/// A field of the batch, cut into pieces of samples that differ by at most one.
template <class F>
F field_on(const hg::DeviceMesh<support::Mesh>& mesh, const auto& values, hg::index_t samples = batch) {
  std::array<hg::Cut, F::rank> cuts;
  cuts[0] = hg::Cut::balanced(samples, mesh.extent(0));
  cuts[1] = hg::Cut::chunk(F::tensor_type::extents[1], 1);
  if constexpr (F::rank == 4)
    cuts[2] = hg::Cut::chunk(rows, mesh.extent(1)), cuts[3] = hg::Cut::chunk(columns, mesh.extent(2));
  return support::cut_by<F>(mesh, cuts, values);
}
std::vector<double> numbers(hg::index_t channels, std::uint64_t stream, hg::index_t points = rows * columns) {
  return support::numbers<double>(static_cast<std::size_t>(batch * channels * points), stream);
}

struct Data {
  Field<2> x;
  Field<3> y;
  Field<1> weight;  ///< that of a sample is larger than all before it together, and the first ones weigh nothing
  Classes kind;     ///< of the first samples all are ignored, of others some
  Vector<double, 2> vector;
  Vector<double, 3> y_vector;
  Vector<double, 1> w_vector;
};
Data data_on(const hg::DeviceMesh<support::Mesh>& mesh) {
  std::vector<double> weights = numbers(1, 5);
  std::vector<std::int64_t> kinds(weights.size());
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const std::size_t sample = i / (rows * columns);
    weights[i] *= sample < 2 ? 0 : weights[i] * static_cast<double>(1 << sample);
    kinds[i] = sample < 2 || i % 4 == 1 ? -100 : static_cast<std::int64_t>(i * sample % 3);
  }
  std::vector<double> of_samples(batch);
  for (std::size_t n = 0; n < of_samples.size(); ++n) of_samples[n] = static_cast<double>(n * n);
  return {field_on<Field<2>>(mesh, numbers(2, 1)),
          field_on<Field<3>>(mesh, numbers(3, 2)),
          field_on<Field<1>>(mesh, weights),
          field_on<Classes>(mesh, kinds),
          field_on<Vector<double, 2>>(mesh, numbers(2, 3, 1)),
          field_on<Vector<double, 3>>(mesh, numbers(3, 4, 1)),
          field_on<Vector<double, 1>>(mesh, of_samples)};
}

using Net = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 4>, hg::SiLU,
                           hg::Conv2d<4, 3, hg::Kernel<3>, hg::Padding<1>>>;

/// Numbers of parts, for each of which every rank has a sample; parts of one size, of two, and of others on other
/// ranks.
std::vector<int> parts_on(const hg::DeviceMesh<support::Mesh>& mesh) {
  return mesh.extent(0) == 1 ? std::vector{2, 9} : std::vector{mesh.extent(0) == 2 ? 3 : 2};
}

/// step(trainer, data) makes a step and returns its loss.
template <class Model, class Step>
void check_same(Step step) {
  for (const auto& mesh : support::meshes(4)) {
    CAPTURE(support::text(mesh));
    const Data data = data_on(mesh);
    for (const int parts : parts_on(mesh)) {
      CAPTURE(parts);
      Trainer<Model> whole(Model{}, settings, mesh, {.seed = 2}),
          cut(Model{}, settings, mesh, {.seed = 2, .micro_batches = parts});
      for (int i = 0; i < 2; ++i) {
        const double loss = step(whole, data);
        CHECK(std::abs(step(cut, data) - loss) <= 1e-12 * std::abs(loss));
        CHECK(relative_error(cut.parameters().to_host(), whole.parameters().to_host()) < 1e-12);
      }
      CHECK(cut.optimizer_state().steps() == whole.optimizer_state().steps());
    }
  }
}

/// Two inputs, a field and a vector; two outputs, a field and a vector.
struct Two : hg::Module<Two> {
  using inputs = std::tuple<hg::FieldInput<2>, hg::VectorInput<2>>;
  constexpr auto forward(hg::Traced x, hg::Traced vector) const {
    const hg::Traced moved =
        hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>{}(x) + hg::expand(hg::Linear<2, 4>{}(vector), x);
    const hg::Traced trunk = hg::SiLU{}(moved);
    return std::tuple{hg::Conv2d<4, 3>{}(trunk), hg::Linear<4, 3>{}(hg::GlobalAvgPool{}(trunk))};
  }
};

/// Layers that draw random numbers: of points, channels, samples, shares of attention, and in an expression.
struct Noisy {
  template <class X>
  auto operator()(const std::optional<hg::Generator>& draws, const X& x) const {
    return x * hg::rand_like(x, draws.value_or(hg::Generator{}));
  }
};
using Dropping = hg::Sequential<hg::Conv2d<2, 4>, hg::Dropout<std::ratio<1, 4>>, hg::Dropout2d<std::ratio<1, 4>>,
                                hg::Residual<hg::Sequential<hg::SiLU, hg::DropPath<std::ratio<1, 2>>>>,
                                hg::Function<Noisy, hg::Draws>,
                                hg::MultiheadAttention<4, 2, hg::AttentionDropout<std::ratio<1, 4>>>, hg::Conv2d<4, 3>>;

/// A recorder of launches that runs them when they are launched.
struct Recorder {
  static constexpr bool records = true;
  template <class F>
  void record(const hg::execution_space&, F f) {
    launches = f;
  }
  void launch(const hg::execution_space&) const { launches(); }
  std::function<void()> launches;
};

/// A part of `count` samples of each field, from sample `first` on.
template <class F>
F samples_of(const F& field, hg::index_t first, hg::index_t count) {
  const auto whole = hg::full_tensor(field);
  const auto of_sample = static_cast<std::ptrdiff_t>(whole.size() / batch);
  const std::vector<typename F::value_type> values(whole.begin() + first * of_sample,
                                                   whole.begin() + (first + count) * of_sample);
  return field_on<F>(field.mesh(), values, count);
}

}  // namespace

TEST_CASE("a step in micro-batches is one of the whole batch") {
  const auto check = [](auto loss_of) {
    check_same<Net>([&](auto& trainer, const Data& of) { return loss_of(trainer, of).item(); });
  };
  SUBCASE("of points alike") {
    check([](auto& trainer, const Data& of) { return trainer.step(hg::mse, of.x, of.y); });
  }
  SUBCASE("with weights, of which parts have none") {
    check([](auto& trainer, const Data& of) { return trainer.step(0.3 * hg::l1, of.x, of.y, of.weight); });
  }
  SUBCASE("with labels that are ignored, in parts all of them") {
    check([](auto& trainer, const Data& of) { return trainer.step(hg::cross_entropy, of.x, of.kind); });
    const auto classes = hg::class_weights({1, 3, 0.5});
    check([&](auto& trainer, const Data& of) {
      return trainer.step(hg::CrossEntropy({.weight = classes}), of.x, of.kind, of.weight);
    });
  }
  SUBCASE("of other reductions") {
    for (const hg::LossReduction reduction : {hg::LossReduction::sum, hg::LossReduction::batch_mean}) {
      CAPTURE(static_cast<int>(reduction));
      const hg::MeanSquaredError loss({.reduction = reduction});
      check([&](auto& trainer, const Data& of) { return trainer.step(1e-3 * loss, of.x, of.y, of.weight); });
      check([&](auto& trainer, const Data& of) { return trainer.step(1e-3 * loss, of.x, of.y); });
    }
  }
  SUBCASE("of an expression, by samples") {
    const auto loss = hg::expression_loss([](const auto& p, const auto& y) { return hg::mean(hg::square(p - y)); });
    check([&](auto& trainer, const Data& of) { return trainer.step(loss, of.x, of.y); });
  }
  SUBCASE("that is one of several that are accumulated") {
    check([](auto& trainer, const Data& of) {
      trainer.accumulate(hg::huber, of.x, of.y);
      trainer.accumulate(hg::huber, of.x, of.y, of.weight);
      return trainer.step(hg::huber, of.x, of.y, of.weight);
    });
  }
}

TEST_CASE("of several inputs and outputs, each with its weight and reduction; of vectors") {
  const auto inputs = [](const Data& of) { return hg::Inputs{of.x, of.vector}; };
  const auto labels = [](const Data& of) { return hg::Labels{of.y, of.y_vector}; };
  check_same<Two>([&](auto& trainer, const Data& of) {
    return trainer.step(hg::Losses{hg::mse, 0.1 * hg::l1}, inputs(of), labels(of), hg::Weights{of.weight, of.w_vector})
        .item();
  });
  check_same<Two>([&](auto& trainer, const Data& of) {
    const hg::MeanSquaredError sum({.reduction = hg::LossReduction::sum}),
        batch_mean({.reduction = hg::LossReduction::batch_mean});
    return trainer.step(hg::Losses{1e-3 * sum, 0.1 * batch_mean}, inputs(of), labels(of)).item();
  });
  check_same<Two>([&](auto& trainer, const Data& of) {
    return trainer
        .step(hg::Losses{hg::cross_entropy, hg::mse}, inputs(of), hg::Labels{of.kind, of.y_vector},
              hg::Weights{hg::no_weight, of.w_vector})
        .item();
  });
  const auto loss = hg::expression_loss([](const auto& field, const auto& vector, const auto& y) {
    return hg::mean(hg::square(field - hg::detail::one_of<0>(y))) + hg::mean(hg::abs(vector));
  });
  check_same<Two>([&](auto& trainer, const Data& of) { return trainer.step(loss, inputs(of), labels(of)).item(); });
}

TEST_CASE("random numbers are those of the sample in the batch") {
  check_same<Dropping>([](auto& trainer, const Data& of) { return trainer.step(hg::mse, of.x, of.y).item(); });
}

TEST_CASE("with sharded parameters, two-byte images, fields over the caller's memory, and captured") {
  for (const auto& mesh : support::meshes(4)) {
    CAPTURE(support::text(mesh));
    const Data of = data_on(mesh);
    Trainer<Net> whole(Net{}, settings, mesh, {.seed = 2}),
        captured(Net{}, settings, mesh, {.seed = 2, .micro_batches = 2}),
        over(Net{}, settings, mesh, {.seed = 2, .micro_batches = 2});
    hg::Trainer<Net, hg::SGD, support::Mesh, double, decltype(hg::shard_parameters<"data">)> sharded(
        Net{}, settings, mesh, {.seed = 2, .micro_batches = 2}, hg::shard_parameters<"data">);
    auto captured_step = captured.capture(hg::mse, of.x, of.y, of.weight);

    // Ghost cells and padding on all sides, of samples too.
    std::array<hg::detail::Margin, 4> margins{{{2, 1}, {1, 2}, {3, 2}, {2, 4}}};
    std::array<std::size_t, 4> extents{};
    for (int d = 0; d < 4; ++d)
      extents[static_cast<std::size_t>(d)] = static_cast<std::size_t>(
          margins[static_cast<std::size_t>(d)].lo + of.x.local_extent(d) + margins[static_cast<std::size_t>(d)].hi);
    const Kokkos::View<double*, hg::memory_space> memory("memory", extents[0] * extents[1] * extents[2] * extents[3]);
    Kokkos::deep_copy(memory, 1e300);
    auto x = Field<2>::over(mesh, of.x.cuts(), memory.data(), margins);
    x.copy_from_host(of.x.to_host());

    for (int i = 0; i < 3; ++i) {
      const double loss = whole.step(hg::mse, of.x, of.y, of.weight).item();
      CHECK(std::abs(captured_step().item() - loss) <= 1e-12 * loss);
      CHECK(std::abs(sharded.step(hg::mse, of.x, of.y, of.weight).item() - loss) <= 1e-12 * loss);
      CHECK(std::abs(over.step(hg::mse, x, of.y, of.weight).item() - loss) <= 1e-12 * loss);
      const auto wanted = whole.parameters().to_host();
      CHECK(relative_error(captured.parameters().to_host(), wanted) < 1e-12);
      CHECK(relative_error(hg::redistribute<hg::Replicate>(sharded.parameters()).to_host(), wanted) < 1e-12);
      CHECK(relative_error(over.parameters().to_host(), wanted) < 1e-12);
    }

    const auto half = field_on<Field<2, hg::bfloat16>>(mesh, support::as<float>(numbers(2, 1)));
    const Field<3, float> y = field_on<Field<3, float>>(mesh, numbers(3, 2));
    Trainer<Net, hg::SGD, float> one(Net{}, settings, mesh, {.seed = 2}),
        two(Net{}, settings, mesh, {.seed = 2, .micro_batches = 2});
    const double loss = one.step(hg::mse, half, y).item();
    CHECK(std::abs(two.step(hg::mse, half, y).item() - loss) < 1e-6 * loss);
    CHECK(relative_error(two.parameters().to_host(), one.parameters().to_host()) < 1e-6);
  }
}

TEST_CASE("a recorded step runs all parts, and its loss is that of the batch") {
  if (Kokkos::Tools::profileLibraryLoaded()) return;  // the access guard is a tool: nothing is recorded
  const auto mesh = support::alone();
  const Data of = data_on(mesh), other = data_on(mesh);
  Trainer<Net> whole(Net{}, settings, mesh, {.seed = 2}), parts(Net{}, settings, mesh, {.seed = 2, .micro_batches = 4});
  hg::CapturedStep<Trainer<Net>, hg::MeanSquaredError, Field<2>, Field<3>, Field<1>, Recorder> step(
      parts, hg::mse, other.x, other.y, other.weight);
  for (int i = 0; i < 6; ++i) {
    const double loss = whole.step(hg::mse, of.x, of.y, of.weight).item();
    CHECK(std::abs(step().item() - loss) <= 1e-12 * loss);
    if (i == 3) {
      whole.predict(of.x), parts.predict(of.x);  // the arena grows
    }
  }
  CHECK(step.recordings() == 2);
  CHECK(relative_error(parts.parameters().to_host(), whole.parameters().to_host()) < 1e-12);
}

TEST_CASE("labels 1 of weight 9 and -3 of weight 1, in two parts: the gradient is 2 (9 b - 9 + b + 3) / 10") {
  using Constant = hg::Sequential<hg::Conv2d<1, 1>>;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 1, support::world().size()});
  const auto of = [&](double first, double second) {
    std::vector<double> values(2 * rows * columns, first);
    std::fill(values.begin() + rows * columns, values.end(), second);
    return field_on<Field<1>>(mesh, values, 2);
  };
  Trainer<Constant> trainer(Constant{}, hg::SGD{.lr = 0.25}, mesh, {.micro_batches = 2});
  hg::Parameters<Constant, double> zeros;
  zeros.copy_from_host(std::vector<double>(2));
  Kokkos::deep_copy(trainer.parameters().view(), zeros.view());
  CHECK(trainer.step(hg::mse, of(0, 0), of(1, -3), of(9, 1)).item() == doctest::Approx(1.8).epsilon(1e-14));
  CHECK(trainer.parameters().to_host()[1] == doctest::Approx(0.3).epsilon(1e-14));  // a mean of means would give -0.5
}

TEST_CASE("accumulate and step are a step of all samples, in parts too") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data of = data_on(mesh);
    Trainer<Net> whole(Net{}, settings, mesh, {.seed = 2}),
        parts(Net{}, settings, mesh, {.seed = 2, .micro_batches = 2});
    const auto on = [&](hg::index_t first, hg::index_t count, auto call) {
      return call(samples_of(of.x, first, count), samples_of(of.y, first, count), samples_of(of.weight, first, count));
    };
    for (int i = 0; i < 2; ++i) {
      whole.step(hg::mse, of.x, of.y, of.weight);
      on(0, 5, [&](auto... fields) { parts.accumulate(hg::mse, fields...); });
      on(5, 4, [&](auto... fields) { parts.step(hg::mse, fields...); });
      CHECK(relative_error(parts.parameters().to_host(), whole.parameters().to_host()) < 1e-12);
    }
  }
}

TEST_CASE("one all_reduce of the gradient, of the loss and of the weights, and the arena of the largest part") {
  using Pointwise = hg::Sequential<hg::Conv2d<2, 4>, hg::SiLU, hg::Conv2d<4, 3>>;  // sends nothing itself
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data of = data_on(mesh);
    for (const int parts : parts_on(mesh)) {
      CAPTURE(parts);
      const hg::TrainerOptions options{.seed = 2, .micro_batches = parts};
      Trainer<Pointwise, hg::AdamW> trainer(Pointwise{}, hg::AdamW{}, mesh, options);
      const auto step = [&] { return trainer.step(hg::mse, of.x, of.y, of.weight); };
      step(), step().item();
      const hg::CommStatistics before = hg::comm_stats();
#ifdef HALOGEN_WITH_MPI
      const pmpi::Counts start = pmpi::counts;
#endif
      const auto result = step();
      result.item();
      const hg::CommStatistics spent = hg::comm_stats() - before;
      const std::int64_t values = hg::Parameters<Pointwise, double>::count;
      hg::CommStatistics wanted;
      if (mesh.size() > 1) wanted.all_reduces = {3, 8 * (2 + values)};
      wanted.local_copies = spent.local_copies;
      CHECK(spent == wanted);
#ifdef HALOGEN_WITH_MPI
      CHECK(pmpi::counts.all_reduces.count - start.all_reduces.count == wanted.all_reduces.count);
      CHECK(pmpi::counts.all_reduces.bytes - start.all_reduces.bytes == wanted.all_reduces.bytes);
      CHECK(pmpi::counts.messages.count == start.messages.count);
#endif
      std::array<hg::Cut, 4> cuts = of.x.cuts();
      std::vector<hg::index_t> largest;
      for (int piece = 0; piece < cuts[0].parts(); ++piece)
        largest.push_back(hg::ceil_div(cuts[0].piece(piece).size(), hg::index_t{parts}));
      cuts[0] = hg::Cut::of_sizes(largest);
      const hg::Layout of_part = hg::layout_of<Field<2>>(Pointwise{}, mesh, cuts);
      CHECK(result.layout().arena_bytes() == of_part.arena_bytes());
      CHECK(result.layout().arena_bytes() < hg::layout_of<Field<2>>(Pointwise{}, mesh, of.x.cuts()).arena_bytes());
      CHECK(trainer.parameter_memory().gradient == 2 * values * sizeof(double));
    }
  }
}

TEST_CASE("the arena that is allocated is that of a part, and from the second step on nothing is") {
  const auto mesh = support::alone();
  const Data of = data_on(mesh);
  for (const int parts : {3, 4}) {  // 4: of two sizes
    CAPTURE(parts);
    Trainer<Net> trainer(Net{}, settings, mesh, {.seed = 2, .micro_batches = parts});
    const auto step = [&] { return trainer.step(hg::cross_entropy, of.x, of.kind, of.weight); };
    const auto first = support::kokkos_events([&] { step(); });
    CHECK(first.bytes("halogen::arena") == step().layout().arena_bytes());
    const auto second = support::kokkos_events([&] { step(), step(); });
    CHECK(second.text(second.fences) == "");
    CHECK(second.text(second.allocations) == "");
    CHECK(second.launches.at("halogen::optimizer") == 2);
    CHECK(second.launches.at("halogen::add_part") == 2 * (parts - 1));
  }
}

TEST_CASE("a checked step names the sample by its number in the batch, and changes nothing") {
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data of = data_on(mesh);
    std::vector<double> values = numbers(2, 1);
    const hg::index_t sample = 6;
    values[static_cast<std::size_t>(((sample * 2 + 1) * rows + 7) * columns + 9)] =
        std::numeric_limits<double>::quiet_NaN();
    const auto bad = field_on<Field<2>>(mesh, values);
    using Pointwise = hg::Sequential<hg::Conv2d<2, 4>, hg::BatchNorm2d<4>, hg::SiLU, hg::Conv2d<4, 3>>;
    Trainer<Pointwise> trainer(Pointwise{}, settings, mesh, {.seed = 2, .check = true, .micro_batches = 2});
    const auto before = trainer.parameters().to_host();
    const std::string wanted =
        "step 1: the loss is nan; the image is not finite at (6, 1, 7, 9); layer 0 (conv2d with '0.weight') "
        "is the "
        "first whose result is not finite, at (6, 0, 7, 9); nothing has been updated";
    CHECK(support::refusal<hg::CollectiveError>([&] { trainer.step(hg::mse, bad, of.y); }) == wanted);
    const auto loss = hg::expression_loss([](const auto& p, const auto& y) { return hg::mean(hg::square(p - y)); });
    CHECK(support::refusal<hg::CollectiveError>([&] { trainer.step(loss, bad, of.y); }) == wanted);
    CHECK(trainer.parameters().to_host() == before);
    trainer.step(hg::mse, of.x, of.y);
    CHECK(trainer.optimizer_state().steps() == 1);
  }
}

TEST_CASE("fit trains in micro-batches") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 1, support::world().size()});
  const Data of = data_on(mesh);
  const std::vector<hg::Batch<Field<2>, Field<3>, Field<1>>> batches{{of.x, of.y, of.weight}};
  const auto fitted = [&](int parts) {
    Trainer<Net> trainer(Net{}, settings, mesh, {.seed = 2, .micro_batches = parts});
    const auto history = hg::fit(trainer, hg::mse, batches, {.epochs = 3, .progress = hg::Progress::none}, batches);
    return std::pair(trainer.parameters().to_host(), history.back());
  };
  const auto [wanted, whole] = fitted(1);
  const auto [found, parts] = fitted(3);
  CHECK(relative_error(found, wanted) < 1e-12);
  CHECK(parts.loss == doctest::Approx(whole.loss).epsilon(1e-12));
  CHECK(parts.held_out.value() == doctest::Approx(whole.held_out.value()).epsilon(1e-12));
}

TEST_CASE("a part's samples: each rank cuts its own, the larger parts last") {
  const hg::detail::SampleParts parts(hg::Cut::of_sizes({7, 3, 5}), 3);
  CHECK(parts.cut(0) == hg::Cut::of_sizes({2, 1, 1}));
  CHECK(parts.cut(1) == hg::Cut::of_sizes({2, 1, 2}));
  CHECK(parts.cut(2) == hg::Cut::of_sizes({3, 1, 2}));
  CHECK(parts.begin(0, 2) == 4);
  CHECK(parts.samples_before(1, 2) == 7 + 2 - 3);
  CHECK(parts.samples_before(2, 1) == 10 + 1 - 3);
}

TEST_CASE("what has no parts is refused, on all ranks alike") {
  const auto said = [](auto f) { return support::refusal<hg::CollectiveError>(f); };
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const Data of = data_on(mesh);
    const auto trainer_of = [&](int parts) {
      return std::make_unique<Trainer<Net>>(Net{}, settings, mesh,
                                            hg::TrainerOptions{.seed = 2, .micro_batches = parts});
    };
    CHECK(said([&] { trainer_of(0); }) == "micro_batches = 0: give 1 or more");
    const auto many = trainer_of(10);
    const std::string least = std::to_string(batch / mesh.extent(0));
    for (int i = 0; i < 2; ++i)
      CHECK(said([&] { many->step(hg::mse, of.x, of.y); }) ==
            "micro_batches = 10, but a rank has " + least +
                " of the batch's 9 samples: each part needs one on each rank, so give at most " + least +
                ", a larger batch, or use fewer ranks for the batch");
    const auto two = trainer_of(2);
    CHECK(said([&] { two->step([&](auto net) { return hg::mse(net(of.x), of.y); }); }) ==
          "step(loss_of) does not know which samples make micro-batches: call step(loss, x, y)");
    const auto result = two->step(hg::mse, of.x, of.y);
    CHECK(support::refusal<hg::Error>([&] { result.prediction(); }) ==
          "prediction() of a step in 2 micro-batches, which keeps those of the last one alone: call "
          "predict(image)");
    CHECK(said([&] { two->step(hg::mse, of.x, samples_of(of.y, 0, 8)); }) ==
          "micro_batches: the label has 8 points in dimension 0, the first input has 9: give it the extents "
          "of the first "
          "input");
    const auto loss = hg::expression_loss([](const auto& p, const auto& y) { return hg::mean(hg::square(p - y)); });
    CHECK(said([&] { two->step(loss, of.x, 2.0 * of.y); }) ==
          "micro_batches: the label is an expression, which has no parts: assign it to a field");
    using Fixed = hg::Sharded<hg::Tensor<double, 2, 1>, support::Mesh, hg::Replicate, hg::Replicate, hg::Replicate>;
    const hg::detail::SampleParts halves(hg::Cut::of_sizes({2}), 2);
    CHECK(said([&] {
            halves.of(Fixed(mesh, {2, 1}), 0, "the label");
          }) == "micro_batches: the type of the label says 2 samples, so it has no parts: write hg::dyn instead");
    const Field<1> nothing = 0.0 * of.weight;
    CHECK(said([&] { two->step(hg::mse, of.x, of.y, nothing); }) ==
          "the loss weights sum to 0: at least one must be positive, none NaN");
  }
}

}  // namespace test_micro_batches
