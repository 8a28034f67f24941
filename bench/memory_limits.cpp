// What a training step takes in memory and time within a memory limit: models, and for each the plan that keeps all,
// some limits, and the least that is possible. Times are medians of steps, in turns.
//
//   bench_memory_limits [SIZE [STEPS]]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <halogen/halogen.hpp>
#include <memory>
#include <string>
#include <vector>

namespace {

using Mesh = hg::Mesh<"height", "width">;
template <int Channels>
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;

template <template <class> class Around>
using Transformer =
    hg::Sequential<hg::Conv2d<3, 64, hg::Kernel<8>, hg::Stride<8>>,
                   hg::Repeat<Around<hg::TransformerBlock<64, hg::MultiheadAttention<64, 4>>>, 24>, hg::Conv2d<64, 3>>;
template <class Layer>
using Kept = Layer;
template <class Layer>
using Again = hg::Checkpoint<Layer>;

/// One trainer of a model, within a limit.
template <class Model>
struct Run {
  using Trainer = hg::Trainer<Model, hg::AdamW, Mesh, float>;
  std::string words;
  std::unique_ptr<Trainer> trainer;
  std::size_t bytes = 0;
  double work = 0;
  std::vector<double> seconds;
};

template <class Model>
class Case {
 public:
  Case(const char* name, const hg::DeviceMesh<Mesh>& mesh, hg::index_t size) : name_(name), mesh_(mesh) {
    image_ = std::make_unique<Field<3>>(mesh, typename Field<3>::Extents{1, 3, size, size});
    const hg::Layout layout = hg::layout_of<Field<3>>(Model{}, mesh, image_->cuts());
    const hg::TensorId prediction = layout.plan().prediction[0];
    label_ =
        std::make_unique<Field<3>>(mesh, layout.template field_cuts<4>(layout.plan().tensors[prediction].level, 3));
  }

  void add(const std::string& words, std::size_t limit) {
    Run<Model> run{words, std::make_unique<typename Run<Model>::Trainer>(
                              Model{}, hg::AdamW{}, mesh_, hg::TrainerOptions{.seed = 1, .memory_limit = limit})};
    const auto step = run.trainer->step(hg::mse, *image_, *label_);
    const hg::Layout& layout = step.layout();
    run.bytes = layout.memory().total();
    run.work = layout.chosen() == nullptr ? 0 : layout.chosen()->more_work;
    runs_.push_back(std::move(run));
  }
  /// What all kept takes, beside parameters, with what a trainer reserves.
  std::size_t all() const { return runs_[0].bytes; }
  std::size_t reserved() const { return 5 * runs_[0].trainer->parameter_memory().parameters; }

  void measure(int steps) {
    for (int i = 0; i < steps; ++i)
      for (Run<Model>& run : runs_) {
        const auto start = std::chrono::steady_clock::now();
        run.trainer->step(hg::mse, *image_, *label_).item();
        run.seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
      }
    for (Run<Model>& run : runs_) std::ranges::sort(run.seconds);
    const double first = runs_[0].seconds[runs_[0].seconds.size() / 2];
    for (const Run<Model>& run : runs_)
      std::printf("| %s | %s | %.1f | %.0f %% | %.1f %% | %.3f |\n", name_, run.words.c_str(),
                  static_cast<double>(run.bytes) / (1 << 20),
                  100 * static_cast<double>(run.bytes) / static_cast<double>(all()), 100 * run.work,
                  run.seconds[run.seconds.size() / 2] / first);
  }

 private:
  const char* name_;
  hg::DeviceMesh<Mesh> mesh_;
  std::unique_ptr<Field<3>> image_, label_;
  std::vector<Run<Model>> runs_;
};

template <class Model>
void limits(const char* name, const hg::DeviceMesh<Mesh>& mesh, hg::index_t size, int steps) {
  Case<Model> of(name, mesh, size);
  of.add("all kept", 0);
  for (const int percent : {90, 80, 70, 60, 50, 40, 30}) try {
      of.add("limit " + std::to_string(percent) + " %",
             of.all() * static_cast<std::size_t>(percent) / 100 + of.reserved());
    } catch (const hg::CollectiveError&) {
      break;
    }
  of.measure(steps);
}

}  // namespace

int main(int argc, char** argv) {
  const hg::Environment env(argc, argv);
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1, 1});
  const hg::index_t size = argc > 1 ? std::stoi(argv[1]) : 256;
  const int steps = argc > 2 ? std::stoi(argv[2]) : 5;
  std::printf(
      "| model | how | activations, MiB | of all kept | more work, by the plan | time, of all kept "
      "|\n|---|---|---|---|---|---|\n");
  limits<hg::UNet<3, 3, 16>>("UNet<3, 3, 16>", mesh, size, steps);
  limits<Transformer<Kept>>("24 transformer blocks", mesh, size, steps);
  Case<Transformer<Again>> again("24 transformer blocks, each in a Checkpoint", mesh, size);
  again.add("as it is", 0);
  again.measure(steps);
}
