// A call of a user's function finds no function of halogen::detail or halogen::kernels beside it. A compiler looks for
// an unqualified name in the namespaces of an argument's type too: of its bases and of its template arguments. So no
// type that users hold may be made of types of those namespaces (detail::types is for them). A probe that lies there
// and is found by an unqualified call stands for every function of any name.
#include "../support/names_of_detail.hpp"

namespace {

// -- fields and meshes ----------------------------------------------------------------------------------------------
using Grid = hg::Mesh<"data", "height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Replicate, hg::Shard<0>, hg::Shard<1>>;
using Vector = hg::Sharded<hg::Tensor<float, hg::dyn>, Grid, hg::Replicate, hg::Shard<0>, hg::Replicate>;
using Image =
    hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Replicate>;
using Whole = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Replicate, hg::Replicate, hg::Replicate>;
static_assert(none_finds_detail<Grid, Field, Vector, Image, Whole, hg::DeviceMesh<Grid>, hg::Communicator, hg::Request,
                                hg::Exchange, hg::Environment, hg::Cut, hg::Interval, hg::Decomposition, hg::bfloat16,
                                hg::float16, hg::CommStatistics, hg::Reach<2>, hg::Error, hg::CollectiveError,
                                hg::Redistribution<Whole, Field>, hg::FieldPieces<2>, Field::Extents>());

// -- expressions: one of each kind ----------------------------------------------------------------------------------
struct Plus {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return a + b;
  }
};

[[maybe_unused]] void expressions(const Field& u, const Vector& v, const Image& q, const Whole& whole) {
  const auto check = [](const auto&... e) {
    static_assert(none_finds_detail<std::decay_t<decltype(e)>...>(), "an expression is made of types of detail");
  };
  check(hg::stored(u + 1.f), hg::stored(u + 1.f) * u);
  check(u + 1.0f, -u, u * u / u, u < u, u && u, !u, hg::where(u > 0.0f, u, u), hg::cast<double>(u));
  check(hg::square(u), hg::sqrt(u), hg::rsqrt(u), hg::pow(u, 2), hg::hypot(u, u), hg::exp(u), hg::expm1(u), hg::log(u),
        hg::log1p(u), hg::log10(u), hg::erf(u), hg::abs(u), hg::sign(u), hg::sin(u), hg::cos(u), hg::tan(u),
        hg::asin(u), hg::acos(u), hg::atan(u), hg::atan2(u, u), hg::sinh(u), hg::cosh(u), hg::tanh(u), hg::asinh(u),
        hg::acosh(u), hg::atanh(u), hg::log2(u), hg::exp2(u), hg::erfc(u), hg::reciprocal(u), hg::sigmoid(u),
        hg::detach(u), hg::relu(u), hg::maximum(u, u), hg::minimum(u, u), hg::max(u, u), hg::min(u, u),
        hg::clamp(u, 0.0f, 1.0f));
  check(hg::floor(u), hg::ceil(u), hg::trunc(u), hg::round(u), hg::remainder(u, 2.0f), hg::fmod(u, 2.0f),
        hg::floor_divide(u, 2.0f), hg::logical_xor(u, u), hg::isnan(u), hg::isinf(u), hg::isfinite(u),
        hg::apply(Plus{}, u, u + u));
  check(hg::shift<0, 1>(u), hg::shift<0, 1>(u + u), hg::with_boundary<hg::Zero, hg::Periodic>(u),
        hg::with_boundary<hg::Reflect, hg::ReplicateEdge>(u), hg::with_boundary<hg::Zero, hg::Zero>(u + u),
        hg::stencil(East{}, u), hg::global_index<0>(u));
  check(hg::slice<0>(u, 0, 1), hg::slice<0>(u, 0, 4, 2), hg::pad<0>(u, 1, 0), hg::permute<1, 0>(u),
        hg::transpose<0, 1>(u), hg::along<0>(v), hg::along<0>(v) + u, hg::concatenate<0>(u, u),
        hg::redistribute<Whole>(u + u), hg::redistribute_to(u, u));
  check(hg::flip<0>(u), hg::roll<1>(u + u, 3), hg::select<0>(whole, 1), hg::squeeze<0>(hg::unsqueeze<0>(u)),
        hg::expand<0>(whole), hg::unflatten<0>(u, 2, -1), hg::flatten<0, 1>(whole), hg::flatten_pieces<2, 3>(q),
        hg::unflatten_pieces<2, 3>(hg::flatten_pieces<2, 3>(q), q), hg::concatenate_pieces<0>(whole, whole),
        hg::rand_like(u, hg::Generator{1}), hg::randn_like(u + u, hg::Generator{1}));
  check(hg::matmul(whole, whole + whole), hg::einsum<"mk,nk->mn">(whole, whole), hg::var(u), hg::std(u), hg::var<1>(u),
        hg::std<1>(u), hg::logsumexp<1>(u), hg::softmax<1>(u), hg::log_softmax<1>(u), hg::dice(q, q),
        hg::dice_each(q, q));
  static_assert(none_finds_detail<hg::FieldOf<decltype(u + u)>>());
  check(hg::sum(u), hg::mean(u), hg::max(u), hg::min(u), hg::norm(u), hg::dot(u, u), hg::sum(u) / hg::max(u),
        hg::argmax(u), hg::prod(u), hg::prod<0>(u), hg::argmin(u), hg::argmin<0>(u), hg::allclose(u, u));
  check(hg::lerp(u, u, 0.5f), hg::logaddexp(u, u), hg::softplus(u), hg::logit(u), hg::isclose(u, u),
        hg::nan_to_num(u, hg::NanToNumOptions{}), hg::full_like(u, 2), hg::zeros_like(u), hg::ones_like(u),
        hg::softmin<1>(u), hg::normalize<1>(u), hg::cosine_similarity(u, u), hg::cosine_similarity<1>(u, u),
        hg::gradient<0>(u), hg::cut_as(u + u, u));
  check(hg::sum<0>(u), hg::mean<0>(u), hg::max<0>(u), hg::min<0>(u), hg::norm<0>(u), hg::argmax<0>(u),
        hg::sum<0>(u, hg::keep_dimensions), hg::mean<0>(u, hg::keep_dimensions), hg::max<0>(u, hg::keep_dimensions),
        hg::norm<0>(u, hg::keep_dimensions), hg::cumulative_sum<0>(u));
  check(hg::scaled_dot_product_attention(q, q, q), hg::scaled_dot_product_attention(q, q, q, {.is_causal = true}),
        hg::iterate<2>([](const auto& s) { return s + 1.0f; }, u + u));
  check(hg::Constant<float>(1.0f) + u, hg::as_expression(u), hg::explain(u + u), hg::cost_of(u + u));
  check(hg::value_and_grad([](auto s) { return hg::mean(s); }), hg::grad([](auto s) { return hg::mean(s); }),
        hg::vjp([](auto s) { return 2.0f * s; }, u).first);
  hg::value_and_grad([&](auto s) {
    check(s, s + u, hg::shift<0, 1>(s), hg::mean(s));
    check(hg::flip<0>(s), hg::softmax<1>(s), hg::stored(s * s), hg::var(s),
          hg::shift<0, 1>(hg::with_boundary<hg::Reflect, hg::Periodic>(s)));
    return hg::mean(s);
  })(u);
}

// -- training -------------------------------------------------------------------------------------------------------
using Three = hg::Kernel<3>;
using One = hg::Padding<1>;
using Net = hg::Sequential<hg::Conv2d<2, 2, Three, One>, hg::GroupNorm<1, 2>, hg::ReLU>;
static_assert(
    none_finds_detail<hg::AdamW, hg::SGD, hg::Adam, hg::RMSprop, hg::Adagrad, hg::Lion, hg::LAMB, hg::TrainerOptions,
                      hg::ChosenParameters, hg::TakenParameters, hg::OptimizerOptions, hg::ParameterGroup,
                      hg::RateSchedule, hg::ScheduleOptions, hg::OneCycleOptions, hg::ParameterMemory, hg::EDM,
                      hg::NoisedBatch<Image>, hg::EnsembleScores, hg::Inputs<Image>, hg::Inputs<Image, Image>,
                      hg::Labels<Image, Image>, hg::Weights<Image, hg::NoWeight>, hg::ShardParameters<"data">,
                      hg::GradientNorm, hg::PlainLoss, hg::Graph, hg::Plan, hg::Layout>());
static_assert(none_finds_detail<
              hg::Parameters<Net, float>, hg::Parameters<Net, float, hg::Shard<0>>, hg::OptimizerState<Net, float>,
              hg::Network<Net, float>, hg::Trainer<Net, hg::AdamW, Grid>, hg::NetworkVariable<Net, float>,
              hg::GroupsOfParameters<Net, float, hg::Replicate>, hg::LayerScales<Net, float, hg::Replicate>>());
static_assert(none_finds_detail<hg::Trainer<Net, hg::LAMB, Grid, double, hg::ShardParameters<"data">>>());
static_assert(
    none_finds_detail<hg::LossOptions, hg::HuberOptions, hg::SmoothL1Options, hg::BinaryCrossEntropyOptions,
                      hg::QuantileOptions, hg::CrossEntropyOptions, hg::CRPSOptions, hg::PoissonNLLOptions,
                      hg::GaussianNLLOptions, hg::NLLOptions, hg::DiceOptions, hg::MeanSquaredError,
                      hg::MeanAbsoluteError, hg::HuberLoss, hg::SmoothL1Loss, hg::BinaryCrossEntropyWithLogits,
                      hg::KLDivergence, hg::QuantileLoss, hg::CrossEntropy, hg::CRPS, hg::PoissonNLLLoss,
                      hg::GaussianNLLLoss, hg::NLLLoss, hg::LossFunction<hg::CRPS>, hg::ScaledLoss<hg::HuberLoss>,
                      hg::Losses<hg::CRPS, hg::HuberLoss>, hg::NoWeight>());
static_assert(none_of(hg::mse, hg::l1, hg::huber, hg::bce_with_logits, hg::no_weight));

[[maybe_unused]] void training(const hg::Parameters<Net, float>& parameters, const Image& image,
                               hg::Trainer<Net, hg::AdamW, Grid>& trainer) {
  const auto check = [](const auto&... x) { static_assert(none_finds_detail<std::decay_t<decltype(x)>...>()); };
  check(hg::infer(parameters, image), trainer.step(hg::mse, image, image), trainer.capture(hg::mse, image, image),
        trainer.parameters(), trainer.optimizer_state(), trainer.predict(image));
  const auto loss = hg::expression_loss([](auto p, const auto& y) { return hg::mean(hg::square(p - y)); });
  check(hg::constant_rate({}), hg::step_rate(10, 0.5), hg::linear_rate({}), hg::cosine_rate({}), hg::one_cycle_rate({}),
        hg::without_decay(), hg::shard_parameters<"data">);
  check(loss, 0.5 * hg::mse, trainer.step(loss, image, image));
  check(hg::noised(hg::EDM(), image, hg::Generator{1}), hg::parameter_memory<Net, float>(),
        hg::layout_of<Image>(Net(), hg::dry_mesh<Grid>({1, 1, 1}), {1, 2, 8, 8}),
        hg::parameters_named<Net>([](std::string_view) { return true; }), hg::initial_parameters<Net, float>(1));
  hg::value_and_grad([&](auto net) {
    check(net, net(image), hg::square(net(image)), hg::mse(net(image), image), hg::rollout<2>(net, image));
    return hg::mse(net(image), image);
  })(parameters);
  hg::value_and_grad([&](auto x) {
    check(hg::infer(parameters, x));
    return hg::mean(hg::infer(parameters, x));
  })(image);
}

/// Two outputs.
struct Twins : hg::Module<Twins> {
  constexpr auto forward(hg::Traced x) const {
    return std::tuple(hg::Named<"a", hg::Conv2d<2, 2>>()(x), hg::Named<"b", hg::Conv2d<2, 2>>()(x));
  }
};
[[maybe_unused]] void several_outputs(const hg::Parameters<Twins, float>& parameters, const Image& image) {
  const auto check = [](const auto&... x) { static_assert(none_finds_detail<std::decay_t<decltype(x)>...>()); };
  hg::value_and_grad([&](auto net) {
    const auto [a, b] = net(image);
    check(net(image), a, b, a * b);
    return hg::mean(a * b);
  })(parameters);
}

// -- what lies below: a type that a program can name -----------------------------------------------------------------
static_assert(
    none_finds_detail<hg::fixed_string<2>, hg::ValueBytes, hg::Nonlinearity, hg::Generator, hg::RandomPurpose,
                      hg::RandomStream, hg::StaticVector<int, 2>, hg::Table<hg::detail::types::FixedItems<int, 3>>,
                      hg::GrowingTable<int>, hg::TableView<int>, hg::PlaneAt, hg::TensorView<float>, hg::IndexView,
                      hg::InputViews<float>, hg::Dual<double>, hg::Tally, hg::Transfer>());
static_assert(none_finds_detail<hg::Sum, hg::Partial<>, hg::placement_of<-1>, hg::gradient_placement<hg::Replicate>,
                                hg::RingSchedule, hg::RowRun, hg::TrafficUse, hg::Halo, hg::SpacedPoints,
                                hg::Neighborhood, hg::SampledWindow, hg::Window, hg::Resample>());
static_assert(none_finds_detail<hg::AllGatherV<float, 2>, hg::Box<2>, hg::Strip<2>, hg::HaloNeeds<2>, hg::HaloStrips<2>,
                                hg::HaloExchange<float, 2>, hg::GatherV<float, 2>, hg::IndexedAllToAllV<float, 2>,
                                hg::PackedStrip<2>, hg::RowCursor<float, 2>, hg::CopyStrips<float, 2, true>,
                                hg::CopyAcross<float, 2>, hg::StripTable<2>, hg::PartialSums<float, 2>,
                                hg::PiecesAlong<float, 2, 0>, hg::LineRun, hg::PlacementMoves, hg::RedistributePlan<2>,
                                hg::ReduceScatterV<float, 2>, hg::ScatterV<float, 2>>());
static_assert(none_finds_detail<hg::DistributeOptions, hg::LaunchGraph, hg::StridedView<float, 2>,
                                hg::TransportBuffer<float>, hg::TransportCopy<float>, hg::Arena>());
static_assert(
    none_finds_detail<hg::Access, hg::NotPlaced, hg::Placed<Grid, 2, -1, 0, 1>, hg::NoPartial, hg::Where,
                      hg::Cast<float>, hg::Clamp, hg::KeepDimensions, hg::AttentionOptions, hg::ExpressionCost>());
static_assert(
    none_finds_detail<hg::Level, hg::Operation, hg::Constants, hg::InputShape, hg::ParameterShape, hg::PointNumbers,
                      hg::ChannelParameter, hg::Misfit, hg::PathStep, hg::FrozenNames, hg::ParameterNames,
                      hg::GraphNumbers, hg::BasicGraph<hg::TableView>, hg::GraphDraft, hg::Planner, hg::Node>());
static_assert(none_finds_detail<
              hg::LaunchAt<float>, hg::LaunchOperands<float>, hg::StoreValue, hg::StoreGradient, hg::AddGradients,
              hg::ResamplingAdjoint, hg::ExpandAdjoint, hg::Moments, hg::GradientSums, hg::TensorSums, hg::LossLaunch,
              hg::Source, hg::Value, hg::Read, hg::ParameterUse, hg::Form, hg::PlanId<int>, hg::TensorId,
              hg::AffineTableId, hg::ActivationId, hg::ValueId, hg::LaunchPlace, hg::WorkspaceUse, hg::Launch,
              hg::LaunchKind, hg::Pattern, hg::StoredTensor, hg::AffineTable, hg::PointMap, hg::Activation,
              hg::PlanNumbers, hg::PlanDraft, hg::PlanForward, hg::PlanGradients, hg::PlanValues>());
static_assert(
    none_finds_detail<hg::LaunchParameters<float>, hg::RankSums, hg::SpaceBox, hg::FetchedBoxes<float>,
                      hg::ChannelSumLaunch<>, hg::SampleSumLaunch<1>, hg::VectorSumLaunch, hg::FieldContext<Image>,
                      hg::GatheredParameters<float>, hg::TileSizes, hg::TensorLayout, hg::MemoryUse, hg::LossMean,
                      hg::LossSum, hg::LossTotal, hg::LossDivisors, hg::LevelLayout, hg::Operands<float>>());
static_assert(none_finds_detail<hg::ParameterBuckets, hg::ParameterSharding, hg::GradientSum, hg::LaunchTable<float>,
                                hg::BoundLoss<float>, hg::StepLosses<float>, hg::LaunchExtras<float>, hg::ChosenPlan,
                                hg::MemoryLimit, hg::WholeParameters<float>, hg::Workspace>());

}  // namespace
