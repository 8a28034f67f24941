// The plan of a U-Net on 64 ranks that do not exist: what it would launch and send, and whether it fits in memory; on
// the Earth's surface, on 2^33 pixels, and on 100 levels of the atmosphere. Nothing is computed or allocated; this
// needs one process and no MPI.
//
// ranks: 0
#include <algorithm>
#include <array>
#include <cstdio>
#include <halogen/halogen.hpp>
#include <vector>

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // poles, longitude
using Net = hg::UNet<7, 3, 16, Globe>;
using Mesh = hg::Mesh<"height", "width">;
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, 7, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;  // (N, 7, H/h, W/w)

using Net3d = hg::UNet3d<7, 3, 16, hg::Boundary<hg::Zero, hg::Zero, hg::Periodic>>;
using Levels = hg::Sharded<hg::Tensor<float, hg::dyn, 7, hg::dyn, hg::dyn, hg::dyn>, Mesh, hg::Shard<3>,
                           hg::Shard<4>>;  // (N, 7, D, H/h, W/w)

using ViTL = hg::PatchTransformer<7, 3, 1024, 24, 16, hg::MultiheadAttention<1024, 16>>;  // ViT-L, patches of 16 x 16

double gib(double bytes) { return bytes / (1024. * 1024 * 1024); }

/// Of a training step by AdamW, the most of any rank: pieces at the poles, and uneven ones, differ.
template <class Image, class Model>
void print_table(const char* title, const typename Image::Extents& extents,
                 const std::vector<std::array<int, 2>>& meshes) {
  std::printf("\n%s, a training step; the most of any rank, memory in GiB\n", title);
  std::puts(
      "mesh     ranks   in all (of 1 rank)   tensors   of it kept   workspace   exchange   functions   parameters   "
      "launches   messages   MiB sent");
  const double parameters = gib(static_cast<double>(hg::parameter_memory<Model, float>().total()));
  double single = 0;
  for (const auto& shape : meshes) {
    double memory = 0, tensors = 0, kept = 0, workspace = 0, exchange = 0, functions = 0, messages = 0, bytes = 0;
    int launches = 0;
    const auto most = [](double& so_far, auto of_rank) { so_far = std::max(so_far, static_cast<double>(of_rank)); };
    for (int rank = 0; rank < shape[0] * shape[1]; ++rank) {
      const hg::Layout layout = hg::layout_of<Image>(Model{}, hg::dry_mesh<Mesh>(shape, rank), extents);
      const hg::MemoryUse& use = layout.memory();
      most(memory, use.total()), most(tensors, use.tensors), most(kept, use.kept), most(workspace, use.workspace);
      most(exchange, use.exchange), most(functions, use.functions);
      most(messages, layout.traffic().messages), most(bytes, layout.traffic().bytes);
      launches = layout.plan().launches.size();
    }
    memory = gib(memory) + parameters;
    if (single == 0) single = memory;
    std::printf(
        "%2d x %-2d  %5d   %10.3f %5.1f %%   %9.3f   %10.3f   %9.3f   %8.3f   %9.3f   %10.3f   %8d   %8.0f   %8.2f\n",
        shape[0], shape[1], shape[0] * shape[1], memory, 100 * memory / single, gib(tensors), gib(kept), gib(workspace),
        gib(exchange), gib(functions), parameters, launches, messages, 1024 * gib(bytes));
  }
}

int main() {
  const Field::Extents extents{1, 7, 2700, 5400};  // the Earth in pixels of 7 km
  std::puts(hg::explain<Field>(Net{}, hg::dry_mesh<Mesh>({8, 8}), extents).c_str());

  print_table<Field, Net>("UNet on 2700 x 5400", extents, {{1, 1}, {2, 2}, {4, 4}, {8, 8}, {16, 4}, {4, 16}});
  print_table<Field, Net>("UNet on 65536 x 131072", {1, 7, 65536, 131072}, {{1, 1}, {2, 2}, {4, 4}, {8, 8}});
  print_table<Levels, Net3d>("UNet3d on 100 x 1440 x 1440", {1, 7, 100, 1440, 1440},
                             {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {4, 4}, {8, 4}, {8, 8}});
  print_table<Field, ViTL>("ViT-L of 2^20 patches, 16384 x 16384", {1, 7, 16384, 16384},
                           {{1, 1}, {2, 1}, {2, 2}, {4, 2}, {4, 4}, {8, 4}, {8, 8}});

  // What does not fit says so, as the real run would on all ranks. Fields are cut as torch.chunk cuts: 63 pieces of
  // 43 rows are more than 2700, and nothing is left for the last.
  try {
    hg::layout_of<Field>(Net{}, hg::dry_mesh<Mesh>({64, 1}), extents);
  } catch (const hg::CollectiveError& refused) {
    std::printf("\nrefused: %s\n", refused.what());
    return 0;
  }
  return 1;
}
