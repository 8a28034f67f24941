// Why naive splitting fails: a field in two pieces, each convolved on its own, is wrong on both sides of the cut.
//
//   mpirun -n 2 08_naive_splitting        # writes output/naive_splitting.png
//
// A 3 x 3 convolution of row 511 reads row 512. A piece alone takes zero padding in its place; Halogen sends it.
//
// ranks: 1 2
// links: earth_data
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <halogen/halogen.hpp>
#include <set>
#include <vector>

#include "image.hpp"

using Mesh = hg::Mesh<"height">;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, 8, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;  // (N, 8, H/h, W)
using Net = hg::Conv2d<8, 8, hg::Kernel<3>, hg::Padding<1>>;
using Values = std::vector<float>;  // (8, rows, size), row-major
constexpr hg::index_t channels = 8, size = 1024, cut = size / 2;

/// The convolution of rows [begin, end) of one wavy field, as if there were no others; `mesh` cuts them once more.
Values convolved(const hg::DeviceMesh<Mesh>& mesh, hg::index_t begin, hg::index_t end) {
  Field field(mesh, {1, channels, end - begin, size});
  Values piece;
  for (hg::index_t c = 0; c < channels; ++c)
    for (hg::index_t y = field.owned(2).begin; y < field.owned(2).end; ++y)
      for (hg::index_t x = 0; x < size; ++x)
        piece.push_back(static_cast<float>(1.2 + std::sin(0.3 * static_cast<double>(x + 5 * c)) +
                                           std::cos(0.2 * static_cast<double>(begin + y + 3 * c))));
  field.copy_from_host(piece);
  return hg::full_tensor(hg::infer(hg::initial_parameters<Net, float>(7), field));
}

std::set<hg::index_t> rows_with_errors(const Values& error) {
  std::set<hg::index_t> rows;
  for (std::size_t i = 0; i < error.size(); ++i)
    if (error[i] != 0) rows.insert(static_cast<hg::index_t>(i) / size % size);
  return rows;
}

/// 24 rows and 46 columns around the cut, a square each: orange is too high, blue is too low.
void draw(earth::Image& picture, int top, const char* title, const Values& error) {
  picture.text(top - 20, 16, title, earth::colour::ink);
  for (int i = 0; i < 24 * 46; ++i) {
    const int y = top + i / 46 * 8, x = 16 + i % 46 * 8;
    const float e = error[static_cast<std::size_t>((cut - 12 + i / 46) * size + i % 46)];
    picture.fill(y, x, 7, 7, earth::colour::rule);
    picture.fill(y, x, 7, 7, e > 0 ? earth::colour::orange : earth::colour::blue, std::min(1.f, std::abs(e)));
  }
}

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto one_rank = hg::device_mesh<Mesh>(hg::Communicator(), {1}), all = hg::device_mesh<Mesh>(env.world(), {-1});
  const Values whole = convolved(one_rank, 0, size);
  const Values north = convolved(one_rank, 0, cut), south = convolved(one_rank, cut, size);
  Values naive, halogen = convolved(all, 0, size);
  for (hg::index_t c = 0; c < channels; ++c)
    for (const Values* half : {&north, &south})
      naive.insert(naive.end(), half->begin() + c * cut * size, half->begin() + (c + 1) * cut * size);
  for (std::size_t i = 0; i < whole.size(); ++i) naive[i] -= whole[i], halogen[i] -= whole[i];  // now errors

  const std::set<hg::index_t> wrong = rows_with_errors(naive), none = rows_with_errors(halogen);
  hg::agree(env.world(), [&] {  // one rank draws, and all end if it cannot
    if (!env.is_root()) return;
    for (hg::index_t y : wrong) std::printf("each piece on its own: row %lld is wrong\n", static_cast<long long>(y));
    std::printf("Halogen on %d rank(s): %zu rows are wrong\n", all.size(), none.size());
    earth::Image picture(452, 400);
    draw(picture, 28, "each piece on its own: error", naive);
    draw(picture, 252, "Halogen: error", halogen);
    std::filesystem::create_directories("output");
    picture.write_png("output/naive_splitting.png");
  });
  if (wrong != std::set<hg::index_t>{cut - 1, cut}) throw hg::CollectiveError("wrong are not rows 511 and 512");
  if (!none.empty()) throw hg::CollectiveError("Halogen's output is not that of the whole field");
}
