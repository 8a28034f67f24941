// The plan of a U-Net on 64 ranks that do not exist: what it would launch and send, and whether it fits in memory.
// Nothing is computed or allocated; this needs one process and no MPI.
//
// ranks: 0
#include <algorithm>
#include <cstdio>
#include <halogen/halogen.hpp>

using Globe = hg::Boundary<hg::Zero, hg::Periodic>;  // poles, longitude
using Net = hg::UNet<7, 3, 16, Globe>;
using Mesh = hg::Mesh<"height", "width">;
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, 7, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>, hg::Shard<3>>;  // (N, 7, H/h, W/w)

double mib(std::size_t bytes) { return static_cast<double>(bytes) / (1024 * 1024); }

int main() {
  const Field::Extents extents{1, 7, 2700, 5400};  // the Earth in pixels of 7 km
  std::puts(hg::explain<Field>(Net{}, hg::dry_mesh<Mesh>({8, 8}), extents).c_str());

  std::puts("mesh     ranks   MiB per rank   of one rank   messages per rank   MiB sent per rank   (the most of any)");
  const hg::Layout single = hg::layout_of<Field>(Net{}, hg::dry_mesh<Mesh>({1, 1}), extents);
  for (const auto& [height, width] : {std::pair{1, 1}, {2, 2}, {4, 4}, {8, 8}, {16, 4}, {4, 16}}) {
    std::size_t memory = 0;
    hg::index_t messages = 0, bytes = 0;
    for (int rank = 0; rank < height * width; ++rank) {  // pieces at the poles, and uneven ones, differ
      const auto mesh = hg::dry_mesh<Mesh>({height, width}, rank);
      const hg::Layout layout = hg::layout_of<Field>(Net{}, mesh, extents);
      memory = std::max(memory, layout.memory().total());
      messages = std::max(messages, layout.traffic().messages);
      bytes = std::max(bytes, layout.traffic().bytes);
    }
    std::printf("%2d x %-2d  %5d  %13.1f  %11.1f %%  %18lld  %18.2f\n", height, width, height * width, mib(memory),
                100 * mib(memory) / mib(single.memory().total()), static_cast<long long>(messages),
                mib(static_cast<std::size_t>(bytes)));
  }

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
