// A call of a user's function finds no function of halogen::detail or halogen::kernels beside it. A compiler looks for
// an unqualified name in the namespaces of an argument's type too: of its bases and of its template arguments. So no
// type that users hold may be made of types of those namespaces (detail::types is for them). A probe that lies there
// and is found by an unqualified call stands for every function of any name.
#include <halogen/halogen.hpp>

namespace halogen::detail {
template <class X>
void probe_of_lookup(const X&) {}
}  // namespace halogen::detail
namespace halogen::kernels {
template <class X>
void probe_of_lookup(const X&) {}
}  // namespace halogen::kernels

namespace {

namespace hg = halogen;

template <class X>
concept FindsDetail = requires(const X& x) { probe_of_lookup(x); };

static_assert(FindsDetail<hg::detail::Margin>, "the probe lies where it should be found");
static_assert(FindsDetail<std::tuple<hg::detail::Margin>>, "and is found through template arguments");

template <class... X>
constexpr bool none_finds_detail() {
  return !(FindsDetail<X> || ...);
}
/// The same of values.
template <class... X>
constexpr bool none_of(const X&...) {
  return none_finds_detail<X...>();
}

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
struct Laplacian {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, 1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T here, T east) const {
    return east - here;
  }
};

[[maybe_unused]] void expressions(const Field& u, const Vector& v, const Image& q) {
  const auto check = [](const auto&... e) {
    static_assert(none_finds_detail<std::decay_t<decltype(e)>...>(), "an expression is made of types of detail");
  };
  check(hg::stored(u + 1.f), hg::stored(u + 1.f) * u);
  check(u + 1.0f, -u, u * u / u, u < u, u && u, !u, hg::where(u > 0.0f, u, u), hg::cast<double>(u));
  check(hg::square(u), hg::sqrt(u), hg::rsqrt(u), hg::pow(u, 2), hg::hypot(u, u), hg::exp(u), hg::expm1(u), hg::log(u),
        hg::log1p(u), hg::log10(u), hg::erf(u), hg::abs(u), hg::sign(u), hg::sin(u), hg::cos(u), hg::tan(u),
        hg::asin(u), hg::acos(u), hg::atan(u), hg::atan2(u, u), hg::sinh(u), hg::cosh(u), hg::tanh(u), hg::sigmoid(u),
        hg::relu(u), hg::maximum(u, u), hg::minimum(u, u), hg::max(u, u), hg::min(u, u), hg::clamp(u, 0.0f, 1.0f));
  check(hg::floor(u), hg::ceil(u), hg::trunc(u), hg::round(u), hg::remainder(u, 2.0f), hg::isnan(u), hg::isfinite(u));
  check(hg::shift<0, 1>(u), hg::shift<0, 1>(u + u), hg::with_boundary<hg::Zero, hg::Periodic>(u),
        hg::with_boundary<hg::Reflect, hg::ReplicateEdge>(u), hg::with_boundary<hg::Zero, hg::Zero>(u + u),
        hg::stencil(Laplacian{}, u), hg::global_index<0>(u));
  check(hg::slice<0>(u, 0, 1), hg::slice<0>(u, 0, 4, 2), hg::pad<0>(u, 1, 0), hg::permute<1, 0>(u),
        hg::transpose<0, 1>(u), hg::along<0>(v), hg::along<0>(v) + u, hg::concatenate<0>(u, u),
        hg::redistribute<Whole>(u + u));
  check(hg::sum(u), hg::mean(u), hg::max(u), hg::min(u), hg::norm(u), hg::dot(u, u), hg::sum(u) / hg::max(u),
        hg::argmax(u));
  check(hg::sum<0>(u), hg::mean<0>(u), hg::max<0>(u), hg::min<0>(u), hg::norm<0>(u), hg::argmax<0>(u),
        hg::sum<0>(u, hg::keep_dimensions), hg::mean<0>(u, hg::keep_dimensions), hg::max<0>(u, hg::keep_dimensions),
        hg::norm<0>(u, hg::keep_dimensions), hg::cumulative_sum<0>(u));
  check(hg::scaled_dot_product_attention(q, q, q), hg::iterate<2>([](const auto& s) { return s + 1.0f; }, u + u));
  check(hg::as_expression(u), hg::explain(u + u), hg::cost_of(u + u));
  check(hg::value_and_grad([](auto s) { return hg::mean(s); }), hg::vjp([](auto s) { return 2.0f * s; }, u).first);
  hg::value_and_grad([&](auto s) {
    check(s, s + u, hg::shift<0, 1>(s), hg::mean(s));
    return hg::mean(s);
  })(u);
}

// -- layers, models, training ---------------------------------------------------------------------------------------
using Three = hg::Kernel<3>;
using One = hg::Padding<1>;
using Net = hg::Sequential<hg::Conv2d<2, 2, Three, One>, hg::GroupNorm<1, 2>, hg::ReLU>;
static_assert(none_finds_detail<hg::Conv2d<2, 2, Three, One>, hg::ConvTranspose2d<2, 2, hg::Kernel<2>, hg::Stride<2>>,
                                hg::Conv3d<2, 2, Three, One>, hg::GroupNorm<1, 2>, hg::MaxPool2d<2>, hg::MaxPool3d<2>,
                                hg::AvgPool2d<2>, hg::Upsample<2, hg::Nearest>, hg::UpsampleToSkip<hg::Nearest>,
                                hg::UpsampleToSkip<hg::Bilinear>, hg::ReflectionPad2d<1>, hg::ReplicationPad2d<1>,
                                hg::ReflectionPad3d<1>, hg::ReplicationPad3d<1>, hg::Softmax>());
static_assert(none_finds_detail<hg::ReLU, hg::LeakyReLU<>, hg::ELU<>, hg::SiLU, hg::GELU, hg::Tanh, hg::Sigmoid>());
static_assert(
    none_finds_detail<hg::Interpolate<hg::Size<2, 2>>, hg::Interpolate<hg::ScaleFactor<2>, hg::Bicubic>,
                      hg::Interpolate<hg::ScaleRatio<std::ratio<1, 2>>>, hg::Interpolate1d<hg::Size<2>>,
                      hg::AdaptiveAvgPool2d<2>, hg::AdaptiveMaxPool2d<2>, hg::Dropout<>, hg::DropPath<std::ratio<1, 2>>,
                      hg::Frozen<Net>, hg::LayerNorm<2>, hg::BatchNorm2d<2>, hg::Linear<2, 2>, hg::FieldInput<1>,
                      hg::VectorInput<1>, hg::VectorInput<1, hg::Indices>>());
static_assert(none_finds_detail<hg::SGD, hg::Adam, hg::Lion, hg::LAMB, hg::TrainerOptions, hg::ParameterGroup>());
static_assert(none_finds_detail<Net, hg::Residual<Net>, hg::SkipConcat<Net>, hg::Named<"a", Net>, hg::UNet<2, 1, 8>,
                                hg::Traced, hg::Graph>());
static_assert(none_finds_detail<hg::AdamW, hg::Parameters<Net, float>, hg::Parameters<Net, float, hg::Shard<0>>,
                                hg::OptimizerState<Net, float>, hg::Network<Net, float>,
                                hg::Trainer<Net, hg::AdamW, Grid>, hg::NetworkVariable<Net, float>>());
static_assert(none_of(hg::mse, hg::l1, hg::huber, hg::bce_with_logits, hg::no_weight));

[[maybe_unused]] void training(const hg::Parameters<Net, float>& parameters, const Image& image,
                               hg::Trainer<Net, hg::AdamW, Grid>& trainer) {
  const auto check = [](const auto&... x) { static_assert(none_finds_detail<std::decay_t<decltype(x)>...>()); };
  check(hg::infer(parameters, image), trainer.step(hg::mse, image, image), trainer.capture(hg::mse, image, image));
  hg::value_and_grad([&](auto net) {
    check(net, net(image), hg::mse(net(image), image));
    return hg::mse(net(image), image);
  })(parameters);
  hg::value_and_grad([&](auto x) {
    check(hg::infer(parameters, x));
    return hg::mean(hg::infer(parameters, x));
  })(image);
}

}  // namespace
