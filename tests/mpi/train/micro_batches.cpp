// program: training
// ranks: 1 2 4 6
// A step in micro-batches is the step of the whole batch: every loss, weights, ignored labels, several outputs and
// inputs, random numbers, sharded parameters, two-byte images. It has one loss, one all_reduce of the gradient, and the
// memory of a part.
#include <halogen/files.hpp>

#include "support/composition.hpp"
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

/// The parts into which the samples of each rank can be cut.
std::vector<int> parts_on(const hg::DeviceMesh<support::Mesh>& mesh) {
  return mesh.extent(0) == 1 ? std::vector<int>{2, 4, 9} : mesh.extent(0) <= 2 ? std::vector<int>{2, 3, 4} : std::vector<int>{2};
}

/// step(trainer, data) is a step, or several, of which the loss of the last is returned.
template <class Model, class Options, class Step>
void check_same(const Options& options, Step step) {
  for (const auto& mesh : support::meshes(4)) {
    CAPTURE(support::text(mesh));
    const Data data = data_on(mesh);
    for (const int parts : parts_on(mesh)) {
      CAPTURE(parts);
      hg::TrainerOptions in_parts = options;
      in_parts.micro_batches = parts;
      Trainer<Model> whole(Model{}, settings, mesh, options), cut(Model{}, settings, mesh, in_parts);
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
    const hg::Traced moved = hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>{}(x) + hg::expand(hg::Linear<2, 4>{}(vector), x);
    const hg::Traced trunk = hg::SiLU{}(moved);
    return std::tuple{hg::Conv2d<4, 3>{}(trunk), hg::Linear<4, 3>{}(hg::GlobalAvgPool{}(trunk))};
  }
};

}  // namespace

TEST_CASE("a step in micro-batches is one of the whole batch") {
  const hg::TrainerOptions options{.seed = 2};
  SUBCASE("of points alike") {
    check_same<Net>(options, [](auto& trainer, const Data& of) { return trainer.step(hg::mse, of.x, of.y).item(); });
  }
  SUBCASE("with weights, of which parts have none") {
    check_same<Net>(options,
                    [](auto& trainer, const Data& of) { return trainer.step(0.3 * hg::l1, of.x, of.y, of.weight).item(); });
  }
  SUBCASE("with labels that are ignored, in parts all of them") {
    check_same<Net>(options, [](auto& trainer, const Data& of) {
      return trainer.step(hg::cross_entropy, of.x, of.kind).item();
    });
  }
}

}  // namespace test_micro_batches
