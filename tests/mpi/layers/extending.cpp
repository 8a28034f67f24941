// program: extending
// ranks: 1 2 4
// Operations of the user's own (examples/extending) inside networks: on every mesh what one rank computes, gradients by
// finite differences, launches counted.
#include "support/composition.hpp"
#include "support/kokkos_events.hpp"
#include "support/own_layers.hpp"
#include "support/refusal.hpp"
#include "support/stored.hpp"

#include "../../../examples/extending/attention.hpp"
#include "../../../examples/extending/bilateral.hpp"
#include "../../../examples/extending/field_norm.hpp"
#include "../../../examples/extending/gate.hpp"
#include "../../../examples/extending/transpose.hpp"
#include "../../../examples/extending/wind_speed.hpp"

namespace test_extending {

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
template <int In, int Out>
using Conv = hg::Conv2d<In, Out, hg::Kernel<3>, hg::Padding<1>, Globe>;

using Gated = hg::Sequential<GatedConv<2, 3>, Conv<3, 2>>;
/// The map is read by a norm, so that a launch writes it.
using Written = hg::Sequential<GatedConv<2, 4>, hg::GroupNorm<2, 4>, Conv<4, 2>, hg::Map<struct Bend>>;
/// Of one value, without a parameter, as the output.
struct Bend {
  template <class T>
  KOKKOS_FUNCTION T operator()(T u) const {
    using Kokkos::sin;
    return u + sin(u) * u;
  }
};
/// Read by a transposed, by a grouped and by a wide convolution, which Winograd's algorithm computes.
struct Readers {
  GatedConv<2, 16> gate;
  hg::Conv2d<16, 16, hg::Kernel<3>, hg::Padding<1>, hg::Groups<8>> grouped;
  Conv<16, 16> wide;
  hg::ConvTranspose2d<16, 2, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>> transposed;
  hg::Conv2d<32, 2> last;
  template <class X>
  constexpr X forward(X x) const {
    const X y = gate(x);
    return hg::add(last(hg::concat(grouped(y), wide(y))), transposed(y));
  }
};

template <class Edges>
using Smoothed = hg::Sequential<hg::Conv2d<2, 3>, BilateralSmoothing<Edges>, hg::ReLU, Conv<3, 2>>;
/// Distances that differ on the four sides, and values that are resampled and concatenated as they are read.
struct Lopsided {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<-2, 1>, hg::At<0, 1>>;
  static constexpr hg::ChannelParameter parameters[] = {{"rate", hg::ParameterShape::Start::uniform}, {"offset"}};
  template <class T>
  KOKKOS_FUNCTION T operator()(T u, T far, T east, T rate, T offset) const {
    return u * east + rate * far * far + offset;
  }
};
using Resampled =
    hg::Sequential<hg::Conv2d<2, 2>,
                   hg::SkipConcat<hg::Sequential<hg::MaxPool2d<2>, hg::ReLU, hg::UpsampleToSkip<hg::Nearest>>>,
                   hg::Stencil<Lopsided, Globe>, hg::Conv2d<4, 2>>;

/// Functions of several values as children with names and frozen: of a map, and of an expression.
struct Blend {
  static constexpr hg::ChannelParameter parameters[] = {{"scale"}, {.name = "offset", .shared = true}};
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b, T scale, T offset) const {
    return scale * a * b + offset * b;
  }
};
struct Product {
  template <class A, class B>
  auto operator()(const A& a, const B& b) const {
    return a * b;
  }
};
template <class Last>
struct Children : hg::Module<Children<Last>> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced a = hg::Conv2d<2, 3>{}(x), b = Conv<2, 3>{}(x);
    const hg::Traced blend = hg::Named<"blend", hg::Map<Blend>>{}(a, b);
    const hg::Traced product = hg::Named<"product", hg::Function<Product>>{}(a, blend);
    return hg::Conv2d<3, 2>{}(Last{}(product, b));
  }
};

using Normalised = hg::Sequential<Conv<2, 4>, hg::ReLU, FieldNorm, Conv<4, 2>, FieldNorm>;

/// Launches of one inference with this label.
template <class Model, int In>
int launches(const char* label) {
  const auto alone = support::alone();
  const std::vector<float> parameters(hg::Parameters<Model, float>::count, 0.5f), input(In * 48, 1.f);
  return support::kokkos_events([&] {
           support::infer<Model, In>(alone, {1, 6, 8}, parameters, input);
         })
      .launches[label];
}

template <int Channels>
using Field = support::Field<double, Channels>;

/// Four steps on every mesh: the losses of the first mesh, which this rank alone gets too.
template <class Model, int Out = 2>
void check_training() {
  std::vector<double> losses;
  const auto train = [&](const auto& mesh) {
    const auto x = hg::distribute_tensor<Field<2>>(mesh, {2, 2, 7, 7}, support::numbers<double>(196, 1));
    const auto y = hg::distribute_tensor<Field<Out>>(mesh, {2, Out, 7, 7}, support::numbers<double>(98 * Out, 2));
    hg::Trainer<Model, hg::AdamW, support::Mesh, double> trainer(Model{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 3});
    std::vector<double> own;
    for (int i = 0; i < 4; ++i) own.push_back(trainer.step(hg::mse, x, y).item());
    if (losses.empty()) losses = own;
    CHECK(support::relative_error(own, losses) < 1e-12);
  };
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    train(mesh);
  }
  train(support::alone());
}

}  // namespace

TEST_CASE("the user's own operations train to the same losses on every mesh") {
  check_training<Gated>();
  check_training<Smoothed<Globe>>();
  check_training<Normalised>();
}
TEST_CASE("maps and functions of several values under a name or frozen: names, every mesh, finite differences") {
  using Net = Children<hg::Map<Blend>>;
  using Partly = Children<hg::Frozen<hg::Map<Blend>>>;  // a scale for each of three channels, and an offset
  CHECK(hg::parameter_names<Net>() == std::vector<std::string>{"0.weight", "0.bias", "1.weight", "1.bias",
                                                               "blend.scale", "blend.offset", "4.scale", "4.offset",
                                                               "5.weight", "5.bias"});
  CHECK(hg::Parameters<Partly, double>::trained == hg::Parameters<Net, double>::trained - 4);
  support::check_composition<Net, 2, 2>();
}
TEST_CASE("a map of two values between convolutions: every mesh, finite differences, no launch, no memory") {
  support::check_composition<Gated, 2, 2, true>();
  CHECK(launches<Gated, 2>("halogen::map") == 0);
  constexpr const hg::Plan& plan = hg::plan_of<Gated, 2, hg::PlanKind::inference>;
  static_assert(plan.launches.size() == 3 && plan.maps.size() == 1);
  int written = 0;
  for (const hg::StoredTensor& tensor : plan.tensors) written += tensor.first_launch >= 0;
  CHECK(written == 3);
}
TEST_CASE("a map that others than convolutions read is written") {
  support::check_composition<Written, 2, 2>();
  CHECK(launches<Written, 2>("halogen::map") == 2);
}
TEST_CASE("a map read by grouped, transposed and Winograd's convolutions") {
  support::check_composition<Readers, 2, 2, true>();
}
TEST_CASE("a stencil with a learnable width, every kind of edge") {
  constexpr support::Extents<support::Mesh> few{2, 12, 11};  // 25 neighbours of each, once for each derivative
  support::check_composition<Smoothed<hg::Boundary<hg::Zero, hg::Zero>>, 2, 2, true>(few);
  support::check_composition<Smoothed<Globe>, 2, 2, true>(few);
  support::check_composition<Smoothed<hg::Boundary<hg::Reflect, hg::ReplicateEdge>>, 2, 2, true>(few);
}
TEST_CASE("a lopsided stencil of resampled values") { support::check_composition<Resampled, 2, 2>(); }
TEST_CASE("an operation with a barrier sum of its own") {
  support::check_composition<Normalised, 2, 2>();
  // the definition, computed in plain loops
  const auto alone = support::alone();
  const auto x = support::numbers<double>(2 * 3 * 5 * 7, 5);
  const auto y = support::infer<FieldNorm, 3>(alone, {2, 5, 7}, std::vector<double>{}, x);
  for (int n = 0; n < 2; ++n) {
    double sum = 0;
    for (int i = 0; i < 105; ++i) sum += x[n * 105 + i] * x[n * 105 + i];
    for (int i = 0; i < 105; ++i)
      CHECK(y[n * 105 + i] == doctest::Approx(x[n * 105 + i] / std::sqrt(sum / 105 + 1e-6)).epsilon(1e-13));
  }
}

TEST_CASE("a layer that refuses an odd number of components, given an even one: every mesh, the definition") {
  support::check_composition<hg::Sequential<Conv<2, 4>, WindSpeed, Conv<2, 2>>, 2, 2>();
  const auto x = support::numbers<double>(4 * 35, 6);
  const auto y = support::infer<WindSpeed, 4>(support::alone(), {1, 5, 7}, std::vector<double>{}, x);
  REQUIRE(y.size() == 70);
  for (std::size_t i = 0; i < 70; ++i)
    CHECK(y[i] == doctest::Approx(std::sqrt(x[i] * x[i] + x[70 + i] * x[70 + i] + 1e-6)).epsilon(1e-13));
}

/// With a norm and an activation before it; a sum of what it reads and what it makes.
using Mirrored = hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, hg::ReLU, hg::Residual<Transpose>, Conv<4, 3>,
                                Transpose, hg::Tanh, Transpose, hg::Conv2d<3, 2>>;

/// Reads a value that is activated as its readers see it.
struct FetchesTooMuch : hg::Module<FetchesTooMuch> {
  static constexpr void forward(hg::Planner& planner, const hg::Node& node) {
    planner.emit_forward(node,
                         planner.launch<TransposeLaunch<false>>(node).read(planner.read(node, hg::Pattern::point())));
  }
  static constexpr hg::Operation operation{"transpose", forward, Transpose::emit_vjp};
  constexpr hg::Traced forward(hg::Traced x) const { return hg::add_layer(hg::ReLU{}(x), operation); }
};

TEST_CASE("an operation with an exchange of its own: every mesh, finite differences, what a dry run says it sends") {
  support::check_composition<Mirrored, 2, 2>({2, 12, 12});
  const auto said = support::refusal<hg::Error>([] {
    const std::vector<double> none;
    support::infer<FetchesTooMuch, 2>(support::alone(), {1, 6, 6}, none, support::numbers<double>(72, 1));
  });
  CHECK(said.starts_with("launch transpose fetches operand 0, which is not one stored tensor"));
  check_training<Mirrored>();
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    using Image = support::FieldOn<support::Mesh, double, 2>;
    const auto numbers = support::numbers<double>(2 * 2 * 13 * 13, 2);
    const auto x = hg::distribute_tensor<Image>(mesh, {2, 2, 13, 13}, numbers);
    const auto y = support::infer<Transpose, 2>(mesh, {2, 13, 13}, std::vector<double>{}, numbers);
    for (std::size_t plane = 0; plane < 4; ++plane)
      for (std::size_t i = 0; i < 13; ++i)
        for (std::size_t j = 0; j < 13; ++j)
          if (y[(plane * 13 + i) * 13 + j] != numbers[(plane * 13 + j) * 13 + i]) FAIL_CHECK(plane, " ", i, " ", j);
    hg::Trainer<Mirrored, hg::AdamW, support::Mesh, double> trainer(Mirrored{}, hg::AdamW{}, mesh, {.seed = 3});
    trainer.step(hg::mse, x, x).item();
    const hg::CommStatistics before = hg::comm_stats();
    const auto step = trainer.step(hg::mse, x, x);
    step.item();
    const hg::Tally sent = (hg::comm_stats() - before).messages;
    const hg::TrafficUse planned = step.layout().traffic();
    CHECK(sent.count == planned.messages);
    CHECK(sent.bytes == planned.bytes);
  }
}

using Attentive = hg::Sequential<hg::Conv2d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::SiLU,
                                 hg::Residual<SelfAttention<4, 2>>, hg::GroupNorm<2, 4>, hg::Conv2d<4, 1>>;

TEST_CASE("attention over all points: every mesh trains to the same losses; finite differences") {
  const auto start = hg::initial_parameters<Attentive, double>(3);
  std::vector<double> first;
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto x = hg::distribute_tensor<Field<2>>(mesh, {2, 2, 7, 7}, support::numbers<double>(196, 1));
    const auto y = hg::distribute_tensor<Field<1>>(mesh, {2, 1, 7, 7}, support::numbers<double>(98, 2));
    auto step = hg::value_and_grad([&](auto net) { return hg::mse(net(x), y); });
    const auto gradient = hg::redistribute<hg::Replicate>(step(start).second).to_host();
    const auto at = [&](std::size_t i, double by) {
      std::vector<double> moved = start.to_host();
      moved[i] += by;
      hg::Parameters<Attentive, double> parameters;
      parameters.copy_from_host(moved);
      return step(parameters).first;
    };
    if (first.empty()) {
      first = gradient;
      for (std::size_t i = 0; i < gradient.size(); i += 9)
        CHECK(gradient[i] == doctest::Approx((at(i, 1e-5) - at(i, -1e-5)) / 2e-5).epsilon(1e-5).scale(0.01));
    }
    CHECK(support::relative_error(gradient, first) < 1e-11);
  }
  check_training<Attentive, 1>();
}

/// Norms before and after launches that write their outputs themselves: others gather the sums.
template <template <bool> class Launch>
using Between =
    hg::Sequential<Conv<2, 4>, hg::GroupNorm<2, 4>, hg::ReLU, support::Same<Launch>, hg::GroupNorm<2, 4>, Conv<4, 2>>;

/// Does not say that it writes its output itself.
template <bool Backward>
struct Careless : support::WritesItself<Backward> {
  static constexpr bool common_output = true;
};
/// Reads neighbours of what it declared point by point.
template <bool Backward>
struct Narrow {
  static constexpr const char* label = "narrow";
  template <class S, hg::Form>
  static auto rows(const hg::LaunchAt<S>& at) {
    const auto reader = at.windowed_value(0);
    return hg::kernels::CopyRows<S, std::decay_t<decltype(reader)>>{reader, 0};
  }
};
/// Sums without memory for the sums: of this rank's blocks, or over ranks.
template <bool OfBlocks>
struct Summing : hg::SampleSumLaunch<1> {
  static constexpr const char* label = "summing";
  static hg::WorkspaceUse workspace(const hg::LaunchPlace& at, const hg::kernels::Tiling& tiling) {
    hg::WorkspaceUse use = hg::SampleSumLaunch<1>::workspace(at, tiling);
    if (OfBlocks)
      use.partials = 16;
    else
      use.rank_sums = 1;
    return use;
  }
  template <class S, hg::Form>
  static auto rows(const hg::LaunchAt<S>& at) {
    const auto x = at.value(0);
    at.sum_samples(x, x, at.rank_sums());
    at.sum_over_ranks(at.layout().samples());
    return hg::kernels::CopyRows<S, std::decay_t<decltype(x)>>{x, 0};
  }
};
/// y = x. The launch of one direction also asks for what it does not declare.
template <class Ask>
struct Asking {
  template <bool Backward>
  struct Launch {
    static constexpr const char *label = "asking", *suffix = Backward ? " backward" : "";
    template <class S, hg::Form>
    static auto rows(const hg::LaunchAt<S>& at) {
      if constexpr (Ask::backward == Backward) Ask::of(at);
      if constexpr (Backward)
        return hg::kernels::CopyRows<S, hg::kernels::GradientReader<S>>{at.gradient(0), at.first_channel()};
      else
        return hg::kernels::CopyRows<S, hg::kernels::ValueReader<S>>{at.value(0), 0};
    }
  };
};
#define ASKS(Name, Backward, ...)                                      \
  struct Name {                                                        \
    static constexpr bool backward = Backward;                         \
    static void of(const auto& at) { static_cast<void>(__VA_ARGS__); } \
  }
ASKS(ValueInVjp, true, at.value(1));
ASKS(GradientAsValue, true, at.value(0));
ASKS(GradientInForward, false, at.gradient(0));
ASKS(NegativeOperand, false, at.windowed_value(-1));
ASKS(ResultInVjp, true, at.tensor(1));
ASKS(Fetched, false, at.fetch(1, [](const hg::SpaceBox& box) { return box; }));
ASKS(Weight, false, at.parameter(0));
ASKS(WeightGradient, true, at.parameter_gradient(0));
ASKS(OtherTensor, true, at.stored_tensor(at.plan().tensor_of_input(0)));
ASKS(TalksAgain, false, (at.sum_over_ranks(0), 0));
#undef ASKS

/// Reads neighbours, and does not wait for those of other ranks.
struct Hasty : hg::Module<Hasty> {
  struct Launch {
    static constexpr const char* label = "hasty";
    static constexpr bool common_output = false;
    template <class S, hg::Form>
    static void run(const hg::LaunchAt<S>& at) {
      using Reader = hg::kernels::ValueReader<S>;
      const hg::TensorId output = at.launch().output;
      at.write_field(label, hg::kernels::CopyRows<S, Reader>{at.windowed_value(0), 0}, at.stored_tensor(output),
                     at.plan().tensors[output]);
    }
  };
  static constexpr void emit_forward(hg::Planner& planner, const hg::Node& node) {
    planner.emit_forward(node, planner.launch<Launch>(node).read(planner.read(node, hg::Pattern::window())));
  }
  static constexpr void emit_vjp(hg::Planner&, const hg::Node&) {}
  static constexpr hg::Operation operation{"hasty", emit_forward, emit_vjp};
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced y = hg::add_layer(x, operation);
    for (int d = 1; d < hg::spatial_dimensions; ++d) x.graph->nodes[y.node].window[d] = {.kernel = 3, .padding = 1};
    return y;
  }
};

template <bool>
using SummingBlocks = Summing<true>;
template <bool>
using SummingRanks = Summing<false>;

TEST_CASE("launches that write their outputs themselves, between norms; what launches may not do") {
  support::check_composition<Between<support::WritesItself>, 2, 2>();
  const auto said = []<class Model>(Model) {
    return support::refusal<hg::Error>([] {
      const std::vector<double> none;
      support::infer<Model, 4>(support::alone(), {2, 6, 6}, none, support::numbers<double>(288, 1));
    });
  };
  using Norm = hg::InstanceNorm2d<4>;
  CHECK(said(hg::Sequential<support::Same<Careless>, Norm>{}) ==
        "launch same writes its output itself, but the plan wants it summed: write it by over_tiles, over_rows or "
        "over_points, or say common_output = false");
  CHECK(said(support::Same<Narrow>{}) ==
        "launch same calls windowed_value(0), and reads that operand by another pattern: read it with "
        "Pattern::window()");
  CHECK(said(support::Same<SummingBlocks>{})
            .ends_with("bytes for the sums of its blocks, and its workspace() says 16: derive it from "
                       "ChannelSumLaunch, SampleSumLaunch or VectorSumLaunch, or return as many as partials"));
  CHECK(said(support::Same<SummingRanks>{}) ==
        "launch same sums 2 numbers over ranks, and its workspace() says 1: return as many as rank_sums there");
}

/// What all ranks are told alike by a step of a layer that asks for what it does not declare; between convolutions, so
/// that its launches have neighbours in the plan, and in a Checkpoint, so that they run again.
template <class Ask>
void check_asking(const std::string& expected) {
  using Model = hg::Sequential<
      hg::Checkpoint<hg::Sequential<hg::Conv2d<2, 2>, support::Same<Asking<Ask>::template Launch>, hg::Conv2d<2, 2>>>,
      hg::Conv2d<2, 2>>;
  CAPTURE(expected);
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto said = support::refusal<hg::CollectiveError>([&] {
      support::run_composition<Model, 2, 2>(mesh, {2, 12, 11}, support::numbers<double>(18, 1),
                                            support::numbers<double>(528, 2));
    });
    CHECK(said == expected);
  }
}

TEST_CASE("a launch reads what it declares, as what it declares it: one sentence on all ranks") {
  const std::string counted = ", counted from 0: where it is emitted, declare this one by launch.";
  const std::string values = "planner.read(node, pattern), in a vjp planner.read_again(node, pattern)";
  const std::string tensors = "planner.result(node) or planner.kept(node, pattern)";
  check_asking<ValueInVjp>("launch same backward calls value(1), and declares 1 operand" + counted + "read(), with " +
                           values);
  check_asking<GradientAsValue>(
      "launch same backward calls value(0), and declares that operand as a gradient: call gradient(0), or declare "
      "another operand, where it is emitted, by launch.read(), with " +
      values);
  check_asking<GradientInForward>(
      "launch same calls gradient(0), and declares that operand as a value: call value(0), or declare another operand, "
      "where it is emitted, by launch.read(), with planner.gradient(planner.gradient_of(node), pattern)");
  check_asking<NegativeOperand>("launch same calls windowed_value(-1), and declares 1 operand" + counted +
                                "read(), with " + values);
  check_asking<ResultInVjp>("launch same backward calls tensor(1), and declares 1 operand" + counted + "read(), with " +
                            tensors);
  check_asking<Fetched>("launch same calls fetch(1), and declares 1 operand" + counted +
                        "read(), with planner.read_field(node), in a vjp planner.read_field_again(node)");
  check_asking<Weight>("launch same calls parameter(0), and declares 0 parameters" + counted + "use(node.parameter)");
  check_asking<WeightGradient>("launch same backward calls parameter_gradient(0), and declares 0 parameters" + counted +
                               "sum_gradient_of(node.parameter)");
  check_asking<OtherTensor>(
      "launch same backward calls stored_tensor(0), and neither writes that tensor nor declares an operand that is "
      "read from it: where it is emitted, declare it by launch.read(), with Planner::tensor(number, pattern)");
  check_asking<TalksAgain>(
      "launch same again calls sum_over_ranks, but a launch that runs again in the backward pass may send nothing: say "
      "static constexpr bool talks = true in its type, so that what it writes is kept");
}
TEST_CASE("a kernel of a launch that reads points of other ranks runs when they are there") {
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, -1, 1});
  const auto said = support::refusal<hg::Error>([&] {
    support::infer<Hasty, 2>(mesh, {1, 12, 11}, std::vector<double>{}, support::numbers<double>(264, 1));
  });
  CHECK(said == (support::world().size() == 1
                     ? ""
                     : "launch hasty reads points of other ranks, and ran its kernel before they had arrived: run it "
                       "by over_tiles, over_rows, over_points or over_blocks, or call wait_for_halos() before it"));
}

/// Neighbours, a mean over the field, and three values; one that is normed, one that is concatenated, the image itself.
struct Mixture {
  template <class A, class B, class C>
  auto operator()(const A& a, const B& b, const C& c) const {
    const auto periodic = hg::with_boundary<hg::Zero, hg::Zero, hg::Zero, hg::Periodic>(c);
    return hg::shift<2, 1>(a) * b + hg::tanh(hg::shift<3, -2>(periodic)) * hg::mean(b) - 0.5 * a;
  }
};
struct Doubled {
  template <class A>
  auto operator()(const A& a) const {
    return hg::concatenate<1>(a, a * a);
  }
};
struct Functions : hg::Module<Functions> {
  constexpr hg::Traced forward(hg::Traced x) const {
    const hg::Traced wide = hg::Function<Doubled, hg::Channels<4>>{}(x);
    const hg::Traced a = hg::SiLU{}(hg::GroupNorm<2, 4>{}(hg::Conv2d<4, 4>{}(wide)));
    const hg::Traced b = hg::concat(x, hg::Conv2d<2, 2>{}(x));
    const hg::Traced y = hg::GroupNorm<1, 4>{}(hg::Function<Mixture>{}(a, b, wide));
    return hg::Conv2d<4, 2, hg::Kernel<3>, hg::Padding<1>>{}(hg::ReLU{}(y) + a);
  }
};
/// More channels than it says.
using Wrong = hg::Sequential<hg::Conv2d<2, 2>, hg::Function<Doubled>>;

TEST_CASE("functions of the array language with halos, sums and other channels; what they may not make") {
  support::check_composition<Functions, 2, 2, false>();
  const auto mesh = support::meshes(2).back();
  const auto x =
      hg::distribute_tensor<support::Field<double, 2>>(mesh, {2, 2, 9, 11}, support::numbers<double>(396, 1));
  CHECK_THROWS_WITH_AS(
      hg::infer(hg::initial_parameters<Wrong, double>(1), x),
      "a Function makes 4 points in dimension 1 where 2 are expected: return the first value's extents, "
      "and say Channels<C> for other channels",
      hg::CollectiveError);
}

}  // namespace test_extending
