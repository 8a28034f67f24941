// A model of one's own, trained on one field that is cut over all ranks: it learns the slope of a wavy field.
//
//   mpirun -n 4 02_train_a_model
#include <cmath>
#include <cstdio>
#include <halogen/halogen.hpp>
#include <numbers>
#include <vector>

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // the edges of height and width

// Layers as members, and a forward() that says how they follow each other. Parameters live in the trainer.
struct Model : hg::Module<Model> {
  hg::Conv2d<1, 16, hg::Kernel<3>, hg::Padding<1>, Globe> first;
  hg::GroupNorm<4, 16> norm;
  hg::ReLU relu;
  hg::Conv2d<16, 1, hg::Kernel<3>, hg::Padding<1>, Globe> last;
  constexpr hg::Traced forward(hg::Traced x) const { return last(relu(norm(first(x)))); }
};

using Mesh = hg::Mesh<"height", "width">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

// Each rank computes (or reads) its own piece, and nobody ever holds the whole: (N, C, H/h, W/w), row-major.
template <class Value>
void fill(Field field, Value value) {  // copies are shallow, as torch.Tensor's
  const auto shape = field.local_shape();
  std::vector<float> piece;
  for (hg::index_t y = field.offset(2); y < field.offset(2) + shape[2]; ++y)
    for (hg::index_t x = field.offset(3); x < field.offset(3) + shape[3]; ++x)
      piece.push_back(static_cast<float>(value(2 * std::numbers::pi * static_cast<double>(y) / 64,
                                               2 * std::numbers::pi * static_cast<double>(x) / 64)));
  field.copy_from_host(piece);
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  auto mesh = hg::device_mesh<Mesh>(env.world(), {-1, 1});
  Field image(mesh, {1, 1, 64, 128}), label(mesh, {1, 1, 64, 128});
  fill(image, [](double y, double x) { return std::sin(5 * x) * std::cos(3 * y); });
  fill(label, [](double y, double x) { return std::cos(5 * x) * std::cos(3 * y); });  // d/dx, scaled

  hg::Trainer trainer(Model{}, hg::AdamW{.lr = 1e-2}, mesh, {.seed = 1});
  double first = 0, last = 0;
  for (int step = 0; step < 60; ++step) {
    auto result = trainer.step(hg::mse, image, label);  // halos, sums and the gradients' all_reduce are in here
    last = result.item();                               // the same number on every rank
    if (step == 0) first = last;
    if (step % 10 == 0 && env.is_root()) std::printf("step %2d: loss %.4f\n", step, last);
  }
  const Field prediction = trainer.predict(image);  // placed as the image
  const std::vector<float> whole = hg::full_tensor(prediction);
  if (env.is_root())
    std::printf("loss %.4f -> %.4f, prediction in the middle: %.3f, should be -1\n", first, last,
                static_cast<double>(whole[32 * 128 + 64]));
  if (!(last < 0.2 * first)) throw hg::CollectiveError("it did not learn: loss " + std::to_string(last));
}
