// Every layer and kernel once, forward and vjp, for the default execution space: what compiles and links here for CUDA
// is what a GPU would run. Started on a GPU it trains one step of each model and prints the losses.
#include <cstdio>
#include <halogen/halogen.hpp>

namespace {

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
using Mesh = hg::Mesh<"data", "height", "width">;
template <class T, int Channels>
using Field =
    hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

/// Norm of the input (store), strided and dilated windows, overlapping pools, a pool of a norm (store and its vjp),
/// a tensor with two readers that see it differently (gradient sum), an output that is no convolution.
struct Mixed : hg::Module<Mixed> {
  constexpr hg::Traced forward(hg::Traced x) const {
    x = hg::GroupNorm<1, 4>{}(x);
    const auto y = hg::Conv2d<4, 4, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>{}(x);
    const auto both = hg::concat(y, hg::ReLU{}(y));
    x = hg::SkipConcat<hg::Sequential<hg::MaxPool2d<3, hg::Stride<2>>,
                                      hg::Conv2d<8, 4, hg::Kernel<3, 1>, hg::Padding<2, 0>, hg::Dilation<2, 1>>,
                                      hg::UpsampleToSkip<hg::Nearest>>>{}(both);
    return hg::ReLU{}(x);
  }
};

/// Groups, transposed windows, strided gradients, sums, interpolations, softmax.
template <int C>
using Block = hg::Sequential<
    hg::Residual<hg::Sequential<hg::Conv2d<C, C, hg::Kernel<3>, hg::Padding<1>, hg::Groups<C>, Globe>,
                                hg::GroupNorm<2, C>, hg::ReLU, hg::Conv2d<C, C, hg::Groups<2>>, hg::GroupNorm<2, C>>>,
    hg::ReLU>;
using Windows = hg::Sequential<
    hg::Conv2d<3, 4>, Block<4>,
    hg::SkipConcat<hg::Sequential<
        hg::MaxPool2d<2>, hg::ConvTranspose2d<4, 4, hg::Kernel<4>, hg::Stride<2>, hg::Padding<1>, hg::OutputToSkip>>>,
    hg::SkipConcat<hg::Sequential<hg::Conv2d<8, 4, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>,
                                  hg::UpsampleToSkip<hg::Bilinear>>>,
    hg::Upsample<2, hg::Nearest>, hg::AvgPool2d<2>, hg::Conv2d<12, 4>, hg::Softmax>;

/// With images of T, and labels and weights of what it is computed in.
template <class T, class ModelType, int In, int Out>
void train_one_step(const hg::Environment& env, hg::index_t height, hg::index_t width, hg::index_t out_height,
                    hg::index_t out_width) {
  auto mesh = hg::device_mesh<Mesh>(env.world(), {1, -1, 1});
  const Field<T, In> image(mesh, {2, In, height, width});
  using Computed = hg::compute_type<T>;
  const Field<Computed, Out> label(mesh, {2, Out, out_height, out_width});
  const Field<Computed, 1> weight(mesh, {2, 1, out_height, out_width});
  Kokkos::deep_copy(image.storage().view, T(1.f));
  Kokkos::deep_copy(weight.storage().view, Computed(1));
  hg::Trainer<ModelType, hg::AdamW, Mesh, Computed> trainer(ModelType{}, hg::AdamW{}, mesh, {.seed = 1});
  const double loss = trainer.step(hg::mse, image, label, weight).item();
  auto by_hand = hg::value_and_grad([&](auto net) { return hg::mse(net(image), label); });
  const double unweighted = by_hand(trainer.parameters()).first;
  hg::Network<ModelType, Computed> network;
  network.template evaluation<hg::PlanKind::training_with_input_gradient>(image);
  const auto output = trainer.predict(image).to_host();
  if (env.is_root()) std::printf("loss %.9g, unweighted %.9g, output[0] %.9g\n", loss, unweighted, double(output[0]));
}

/// A network of volumes: a step of a trainer, and captured ones.
void train_on_volumes(const hg::Environment& env) {
  using Grid = hg::Mesh<"depth", "height">;
  using Volume =
      hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
  using Net = hg::Sequential<
      hg::Conv3d<2, 4, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 4>, hg::ReLU,
      hg::SkipConcat<hg::Sequential<hg::MaxPool3d<2>, hg::Conv3d<4, 2>, hg::UpsampleToSkip<hg::Nearest>>>,
      hg::Conv3d<6, 2, hg::Kernel<3, 1, 1>, hg::Padding<1, 0, 0>>>;
  auto mesh = hg::device_mesh<Grid>(env.world(), {-1, 1});
  const Volume image(mesh, {1, 2, 8, 12, 14}), label(mesh, {1, 2, 8, 12, 14});
  Kokkos::deep_copy(label.storage().view, 1.f);
  hg::Trainer trainer(Net{}, hg::AdamW{}, mesh, {.seed = 1});
  const double loss = trainer.step(hg::mse, image, label).item();
  auto captured = trainer.capture(hg::mse, image, label);
  captured(), captured();
  const double fourth = captured().item();
  if (env.is_root()) std::printf("loss of volumes %.9g, of the fourth step %.9g\n", loss, fourth);
}

/// A stencil of declared neighbours, differentiated by dual numbers.
struct Upwind {
  using footprint = hg::Footprint<hg::At<0, 0>, hg::At<0, -1>, hg::At<0, 1>>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T centre, T west, T east) const {
    return centre > T(0) ? centre * (centre - west) : centre * (east - centre);
  }
};

/// The array language: stencils, index maps, stages, deep halos, two-byte storage, gradients.
void step_a_field(const hg::Environment& env) {
  using Grid = hg::Mesh<"height", "width">;
  using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
  auto mesh = hg::device_mesh<Grid>(env.world(), {-1, 1});
  auto u = hg::distribute_tensor<Plane>(mesh, {16, 24}, std::vector<float>(16 * 24, 1.f));
  const auto step = [](auto v) { return v + 0.1f * (hg::shift<0, 1>(v) + hg::shift<1, -1>(v) - 2.f * v); };
  u = step(hg::with_boundary<hg::Zero, hg::Periodic>(u));
  u = u / hg::max(u);
  auto [loss, du] = hg::value_and_grad([&](auto v) { return hg::dot(hg::shift<0, 1>(v), u); })(u);
  const double slope = hg::norm(du).item();
  Plane v = hg::pad<0>(hg::slice<0>(u, 1, 15), 1, 1) - hg::mean<1>(u, hg::keep_dimensions);
  v = hg::stencil(Upwind{}, hg::with_boundary<hg::Zero, hg::Periodic>(v)) + hg::cumulative_sum<0>(u);
  v = hg::iterate<2>([&](const auto& w) { return step(hg::with_boundary<hg::Zero, hg::Periodic>(w)); }, v);
  const auto both = hg::concatenate<0>(u, hg::slice<0>(v, 0, 16, 2));
  using Half = hg::Sharded<hg::Tensor<hg::bfloat16, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<1>>;
  const Half half = v * hg::along<1>(hg::max<0>(u));
  auto [total, dv] = hg::value_and_grad([&](auto w) {
    return hg::sum(hg::stencil(Upwind{}, w) / hg::norm(w)) + hg::sum(hg::square(hg::slice<1>(w, 0, 20, 3)));
  })(v);
  const double sum = hg::sum(half).item() + hg::sum(both).item() + static_cast<double>(hg::argmax(v));
  const double all = hg::sum(dv).item();
  if (env.is_root())
    std::printf("expression loss %.9g, gradient norm %.9g, %.9g %.9g %.9g\n", loss, slope, sum, total, all);
}

/// Attention over a cut sequence, forward and backward, in each stored type.
template <class T>
void attend(const hg::Environment& env) {
  using Line = hg::Mesh<"sequence">;
  using Rows = hg::Sharded<hg::Tensor<T, hg::dyn, 2, hg::dyn, 24>, Line, hg::Shard<2>>;
  const Rows u(hg::device_mesh<Line>(env.world(), {-1}), {1, 2, 100, 24});
  const auto [loss, gradient] = hg::value_and_grad([](auto v) {
    return hg::sum(hg::square(hg::scaled_dot_product_attention(v + 1.f, v, v + 1.f, {.is_causal = true})));
  })(u);
  const double sum = hg::sum(gradient).item();
  if (env.is_root()) std::printf("attention %.9g, gradient %.9g\n", loss, sum);
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  if (env.is_root()) std::puts(env.describe().c_str());
  train_one_step<float, hg::UNet<7, 3, 16, Globe>, 7, 3>(env, 36, 70, 36, 70);
  train_one_step<double, Mixed, 4, 12>(env, 37, 54, 19, 27);
  train_one_step<float, Windows, 3, 4>(env, 36, 54, 36, 54);
  train_one_step<hg::bfloat16, hg::UNet<7, 3, 16, Globe>, 7, 3>(env, 36, 70, 36, 70);
  train_on_volumes(env);
  step_a_field(env);
  attend<float>(env);
  attend<double>(env);
  attend<hg::bfloat16>(env);
}
