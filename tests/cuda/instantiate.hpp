// Of cuda_instantiations, which is cut into sources that are compiled side by side.
#pragma once

#include <cstdio>
#include <halogen/halogen.hpp>

namespace instantiate {

void train_windows(const hg::Environment& env);    ///< windows of every kind, several outputs (instantiate_windows.cpp)
void train_layers(const hg::Environment& env);     ///< other layers, signals, split parameters (instantiate_layers.cpp)
void train_half(const hg::Environment& env);       ///< images of two bytes (instantiate_half.cpp)
void train_attention(const hg::Environment& env);  ///< attention of points in a network (the same)
void train_volumes(const hg::Environment& env);    ///< volumes (the same)
void step_fields(const hg::Environment& env);      ///< the array language, attention, moves (instantiate_arrays.cpp)

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;
using Mesh = hg::Mesh<"data", "height", "width">;
template <class T, int Channels>
using Field =
    hg::Sharded<hg::Tensor<T, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

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

}  // namespace instantiate
