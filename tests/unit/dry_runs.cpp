// What a training step will need of each rank of machines that are not here: bytes of memory and of halos for fields of
// billions of points, as the layout says and by formulas. Nothing is allocated.
#include <doctest/doctest.h>

#include "support/convolutions.hpp"

#include "support/refusal.hpp"

namespace {

using hg::index_t;
using Grid = hg::Mesh<"depth", "height", "width">;
using Volume = hg::Sharded<hg::Tensor<float, hg::dyn, 7, hg::dyn, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>,
                           hg::Shard<4>>;
using PlaneGrid = hg::Mesh<"height", "width">;
using Plane = hg::Sharded<hg::Tensor<float, hg::dyn, 7, hg::dyn, hg::dyn>, PlaneGrid, hg::Shard<2>, hg::Shard<3>>;
constexpr int base = 16, out = 3;
using Net3d = hg::UNet3d<7, out, base>;
using Net2d = hg::UNet<7, out, base>;
const Volume::Extents levels_of_the_earth{1, 7, 100, 1440, 1440};
const Volume::Extents on_the_grid{1, 7, 128, 1536,
                                  1536};  // cut on the grid of tiles (layers/convolution/winograd_windows.hpp)
const Plane::Extents eight_billion{1, 7, 65536, 131072};  // 2^33 points

/// Values of a channel: rows begin on cache lines, channels an odd number of them apart.
index_t channel(index_t planes, index_t rows, index_t columns) {
  const index_t lines = planes * rows * ((columns + 15) / 16);
  return 16 * (lines + (lines % 2 == 0));
}

/// Bytes that forward keeps for backward: what each of eleven convolutions and two pools wrote, with a margin of
/// `m` but for the last.
index_t kept_bytes(index_t d, index_t h, index_t w, index_t m, bool volume) {
  const auto level = [&](index_t scale, index_t margin) {
    return channel(volume ? d / scale : 1, h / scale + 2 * margin, w / scale + 2 * margin);
  };
  return 4 * (4 * base * level(1, m) + out * level(1, 0) + (1 + 4 * 2) * base * level(2, m) +
              (2 + 2 * 4) * base * level(4, m));
}

/// Bytes that a rank amid others sends: of 13 values and 9 gradients (tests/mpi/comm/traffic.cpp) its rim.
index_t sent_bytes(index_t d, index_t h, index_t w, bool volume) {
  const auto rim = [&](index_t scale) { return (volume ? d / scale : 1) * 2 * (h / scale + w / scale + 2); };
  return 4 * ((7 + 7 * base) * rim(1) + 17 * base * rim(2) + 18 * base * rim(4));
}

}  // namespace

TEST_CASE("a 3-D U-Net on 100 levels of 1440 x 1440, 1 to 64 ranks") {
  const hg::Layout single = hg::layout_of<Volume>(Net3d{}, hg::dry_mesh<Grid>({1, 1, 1}), levels_of_the_earth);
  CHECK(static_cast<index_t>(single.memory().kept) == kept_bytes(100, 1440, 1440, 0, true));
  CHECK(single.traffic().bytes == 0);
  CHECK(single.rank_of_fields() == 5);
  std::size_t last = single.arena_bytes();
  for (const auto& [height, width] : {std::pair{2, 1}, {2, 2}, {4, 2}, {4, 4}, {8, 4}, {8, 8}}) {
    std::size_t arena = 0, kept = 0;
    for (int rank = 0; rank < height * width; ++rank) {
      const auto mesh = hg::dry_mesh<Grid>({1, height, width}, rank);
      const hg::Layout layout = hg::layout_of<Volume>(Net3d{}, mesh, levels_of_the_earth);
      CHECK(layout.memory().kept <= layout.memory().tensors);
      CHECK(layout.arena_bytes() == layout.memory().tensors + layout.memory().workspace);
      arena = std::max(arena, layout.arena_bytes());
      kept += layout.memory().kept;
    }
    CHECK(arena < 0.6 * static_cast<double>(last));  // twice the ranks, about half the bytes on each
    CHECK(kept > single.memory().kept);              // all together: margins more
    CHECK(static_cast<double>(kept) < 1.25 * static_cast<double>(single.memory().kept));
    last = arena;
  }
}

TEST_CASE("blocks that are in use at one launch lie apart, those of other times take their place") {
  using Blocks = std::vector<hg::detail::Block>;
  const auto place = [](Blocks blocks) {
    const std::size_t end = hg::detail::place_blocks(blocks);
    for (const auto& a : blocks) {
      CHECK(a.offset + a.bytes <= end);
      for (const auto& b : blocks) {
        const bool together = &a != &b && std::max(a.first, b.first) <= std::min(a.last, b.last);
        CHECK((!together || a.offset + a.bytes <= b.offset || b.offset + b.bytes <= a.offset));
      }
    }
    return end;
  };
  CHECK(place({{4, 0, 1}, {4, 2, 3}}) == 4);
  CHECK(place({{4, 0, 2}, {4, 2, 3}}) == 8);                         // both at launch 2
  CHECK(place({{8, 0, 9}, {6, 0, 1}, {5, 0, 9}, {3, 2, 9}}) == 19);  // the last where the second was
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Blocks blocks(12);
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      const auto below = [&](int end, int n) { return static_cast<int>(end * hg::uniform_at(seed, 0, 3 * i + n)); };
      const int first = below(8, 0);
      blocks[i] = {static_cast<std::size_t>(1 + below(9, 1)), first, first + below(4, 2)};
    }
    place(blocks);
  }
}

TEST_CASE("a rank amid 64: what it keeps, sends to the 8 around") {
  const hg::Layout layout = hg::layout_of<Volume>(Net3d{}, hg::dry_mesh<Grid>({1, 8, 8}, 3 * 8 + 4), on_the_grid);
  CHECK(static_cast<index_t>(layout.memory().kept) == kept_bytes(128, 192, 192, 1, true));
  CHECK(layout.traffic().bytes == sent_bytes(128, 192, 192, true));
  CHECK(layout.traffic().messages == 8 * (13 + 9));
}

TEST_CASE("levels cut over ranks too: messages to the 26 ranks around") {
  const auto mesh = hg::dry_mesh<Grid>({4, 4, 4}, (1 * 4 + 2) * 4 + 1);
  const hg::Layout layout = hg::layout_of<Volume>(Net3d{}, mesh, on_the_grid);
  CHECK(layout.traffic().messages == 26 * (13 + 9));
  const auto shell = [](index_t scale) {
    const index_t d = 32 / scale, h = 384 / scale;
    return (d + 2) * (h + 2) * (h + 2) - d * h * h;
  };
  CHECK(layout.traffic().bytes == 4 * ((7 + 7 * base) * shell(1) + 17 * base * shell(2) + 18 * base * shell(4)));
}

TEST_CASE("a 2-D U-Net on 2^33 points") {
  const hg::Layout single = hg::layout_of<Plane>(Net2d{}, hg::dry_mesh<PlaneGrid>({1, 1}), eight_billion);
  CHECK(static_cast<index_t>(single.memory().kept) == kept_bytes(1, 65536, 131072, 0, false));
  CHECK(single.rank_of_fields() == 4);
  const hg::Layout layout = hg::layout_of<Plane>(Net2d{}, hg::dry_mesh<PlaneGrid>({8, 8}, 3 * 8 + 4), eight_billion);
  CHECK(static_cast<index_t>(layout.memory().kept) == kept_bytes(1, 8192, 16384, 1, false));
  CHECK(layout.traffic().bytes == sent_bytes(1, 8192, 16384, false));
}

TEST_CASE("explain follows a field's own cuts, and names no collective of one rank") {
  using Line = hg::Mesh<"height">;
  using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Line, hg::Shard<2>>;
  const auto mesh = hg::dry_mesh<Line>({4}, 1);
  using Model = hg::Sequential<hg::Conv2d<3, 8, hg::Kernel<3>, hg::Padding<1>>, hg::GroupNorm<2, 8>, hg::ReLU>;
  CHECK_THROWS_AS(hg::layout_of<Rows>(Model{}, mesh, {1, 3, 9, 40}), hg::CollectiveError);  // chunks of 3, 3, 3, 0
  const std::array<hg::Cut, 4> cuts{hg::Cut::chunk(1, 1), hg::Cut::chunk(3, 1), hg::Cut::balanced(9, 4),
                                    hg::Cut::chunk(40, 1)};
  const hg::Layout layout = hg::layout_of<Rows>(Model{}, mesh, cuts);
  CHECK(layout.owned(0, 1) == hg::Interval{3, 5});
  const std::string cut = hg::explain(layout);
  const std::string whole = hg::explain<Rows>(Model{}, hg::dry_mesh<Line>({1}), {1, 3, 9, 40});
  for (const char* words : {"all_gather moments", "all_reduce sums", "one all_reduce of the gradient"}) {
    CHECK(cut.find(words) != std::string::npos);
    CHECK(whole.find(words) == std::string::npos);
  }
}

TEST_CASE("a window that does not fit is named as its layer has it") {
  const auto refused = [](auto model) {
    return support::refusal([&] { hg::layout_of<Plane>(model, hg::dry_mesh<PlaneGrid>({1, 1}), {1, 7, 2, 40}); });
  };
  CHECK(refused(hg::ConvTranspose2d<7, 1, hg::Kernel<2>, hg::Padding<3>>{}) ==
        "layer 0 (conv_transpose2d): a window of 2 points does not fit a height of 2 with padding 3: use a larger "
        "field, or a model that makes it less coarse before this layer");
  CHECK(refused(hg::Sequential<hg::Conv2d<7, 8, hg::Kernel<3>, hg::Padding<1>>,
                               hg::Conv2d<8, 8, hg::Kernel<3>, hg::Dilation<2>, hg::Padding<1>>>{}) ==
        "layer 1 (conv2d): a window of 5 points does not fit a height of 2 with padding 1: use a larger field, or a "
        "model that makes it less coarse before this layer");
}

TEST_CASE("pieces without a row: the sentence names a cut that has none, and it does") {
  using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 1, hg::dyn, hg::dyn>, hg::Mesh<"data", "width">, hg::Shard<0>,
                            hg::Shard<3>>;
  using Pools = hg::Sequential<hg::MaxPool2d<2>, hg::MaxPool2d<2>, hg::MaxPool2d<2>>;
  const auto refused = []<class Model>(Model model, std::array<int, 2> ranks, hg::index_t batch, hg::index_t width) {
    return support::refusal<hg::CollectiveError>([&] {
      hg::layout_of<Image>(model, hg::dry_mesh<hg::Mesh<"data", "width">>(ranks), {batch, 1, 8, width});
    });
  };
  const auto fits = []<class Model>(Model model, std::array<int, 2> ranks, const hg::Cut& batch, const hg::Cut& width) {
    hg::layout_of<Image>(model, hg::dry_mesh<hg::Mesh<"data", "width">>(ranks),
                         {batch, hg::Cut::chunk(1, 1), hg::Cut::chunk(8, 1), width});
  };
  const auto whole = [](hg::index_t extent) { return hg::Cut::chunk(extent, 1); };
  const std::string of_four = "mesh 1 x 4 (data x width) leaves piece 3 of 4 without any column on level ";
  const std::string fewer = "use fewer ranks in width, a larger field, or fewer levels";
  CHECK(refused(hg::Conv2d<1, 1>{}, {1, 4}, 1, 9) ==
        of_four + "0 of 8 x 9: cut the width with Cut::balanced(9, 4), " + fewer);
  CHECK_NOTHROW(fits(hg::Conv2d<1, 1>{}, {1, 4}, whole(1), hg::Cut::balanced(9, 4)));
  CHECK(refused(Pools{}, {1, 4}, 1, 41) == of_four + "3 of 1 x 5: cut the width with Cut::balanced(41, 4), " + fewer);
  CHECK_NOTHROW(fits(Pools{}, {1, 4}, whole(1), hg::Cut::balanced(41, 4)));
  CHECK(refused(Pools{}, {1, 4}, 1, 43) ==
        of_four + "3 of 1 x 5: cut the width with Cut::of_sizes({16, 8, 8, 11}), " + fewer);  // balanced would not do
  CHECK_THROWS_AS(fits(Pools{}, {1, 4}, whole(1), hg::Cut::balanced(43, 4)), hg::CollectiveError);
  CHECK_NOTHROW(fits(Pools{}, {1, 4}, whole(1), hg::Cut::of_sizes({16, 8, 8, 11})));
  CHECK(refused(hg::Conv2d<1, 1>{}, {1, 4}, 1, 3) == of_four + "0 of 8 x 3: " + fewer);  // no cut does
  const std::string samples = "mesh 4 x 1 (data x width) leaves a rank without any sample of a batch of ";
  CHECK(refused(hg::Conv2d<1, 1>{}, {4, 1}, 5, 8) ==
        samples + "5: cut the batch with Cut::balanced(5, 4), or use fewer ranks for the batch");
  CHECK_NOTHROW(fits(hg::Conv2d<1, 1>{}, {4, 1}, hg::Cut::balanced(5, 4), whole(8)));
  CHECK(refused(hg::Conv2d<1, 1>{}, {4, 1}, 3, 8) == samples + "3: use fewer ranks for the batch");
}

TEST_CASE("a training step on 3 x 512 x 512 takes at most 160 MiB, 115 of them kept for backward; ranks divide both") {
  using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, PlaneGrid, hg::Shard<2>, hg::Shard<3>>;
  const auto layout = [](int height, int width, int rank) {
    return hg::layout_of<Image>(hg::UNet<3, 3, base>{}, hg::dry_mesh<PlaneGrid>({height, width}, rank),
                                {1, 3, 512, 512});
  };
  constexpr std::size_t mib = 1 << 20;
  const hg::Layout single = layout(1, 1, 0);
  CHECK(single.arena_bytes() <= 160 * mib);
  CHECK(single.memory().kept <= 115 * mib);
  for (const auto& [height, width] : {std::pair{2, 1}, {1, 2}, {2, 2}, {4, 2}})
    for (int rank = 0; rank < height * width; ++rank) {
      const hg::Layout piece = layout(height, width, rank);
      CHECK(static_cast<index_t>(piece.memory().kept) <= kept_bytes(1, 512 / height, 512 / width, 1, false));
      // All that is stored grows by its margins as what is kept does. The places of a whole field leave no gap, those
      // of a piece with margins few.
      const double grown = static_cast<double>(piece.memory().kept) / static_cast<double>(single.memory().kept);
      CHECK(static_cast<double>(piece.memory().tensors) <= 1.06 * grown * static_cast<double>(single.memory().tensors));
    }
}

TEST_CASE("explain prints what the layout says") {
  const auto mesh = hg::dry_mesh<Grid>({1, 8, 8}, 3 * 8 + 4);
  const std::string text = hg::explain<Volume>(Net3d{}, mesh, levels_of_the_earth);
  const hg::Layout layout = hg::layout_of<Volume>(Net3d{}, mesh, levels_of_the_earth);
  const auto has = [&](const std::string& words) { return text.find(words) != std::string::npos; };
  CHECK(has("mesh 1 x 8 x 8 (depth x height x width), rank 28"));
  CHECK(has(
      "conv3d                   t0 -> t1 (1, 16, 100, 180, 180); halo planes 0+0 rows 1+1 columns 1+1, 8 messages"));
  // 3 channels of 3 planes each are nine to Winograd's kernel
  CHECK(has(hg::has_winograd ? "; Winograd; all_gather moments of affine0" : "; all_gather moments of affine0"));
  CHECK(has("max_pool3d backward"));
  CHECK(has("conv3d weight gradient"));
  CHECK(has("halo exchange per rank: " + std::to_string(layout.traffic().messages) + " messages, " +
            std::to_string(layout.traffic().bytes) + " bytes"));
  CHECK(has("input                    t0 (1, 7, 100, 180, 180); halo planes 0+0 rows 1+1 columns 1+1, 8 messages"));
  index_t messages = 0, values = 0;  // the lines add up to the totals
  for (std::size_t at = text.find("; halo "); at != std::string::npos; at = text.find("; halo ", at + 1)) {
    const std::size_t counts = text.find(", ", at) + 2;
    messages += std::stoll(text.substr(counts));
    values += std::stoll(text.substr(text.find("messages, ", counts) + 10));
  }
  CHECK(messages == layout.halo_traffic().messages);
  CHECK(4 * values == layout.halo_traffic().bytes);
  const std::string flat = hg::explain<Plane>(Net2d{}, hg::dry_mesh<PlaneGrid>({8, 8}, 28), eight_billion);
  CHECK(flat.find("conv2d                   t0 -> t1 (1, 16, 8192, 16384); halo rows 1+1 columns 1+1, 8 messages") !=
        std::string::npos);
}
