// A picture of bounded size that the ranks fill together, each with its own piece of a field.
#pragma once

#include <vector>

#include "image.hpp"
#include "planes.hpp"
#include "ranks.hpp"

namespace earth {

// `region` of the grid reduced by whole numbers of pixels until it has at most `at_most` of them.
Grid reduced_size(Box region, Grid at_most);

// Area averages of a field of 3 channels over the cells of a small picture of `region`. Each rank adds the pixels it
// owns as weighted sums; the sums over ranks are the picture, whatever the cut. Memory depends on `at_most` alone.
class Canvas {
 public:
  explicit Canvas(Box region, Grid at_most = {720, 1440});

  // Adds the part of `piece` inside the region; no two ranks may add the same pixel. Columns within [0, width).
  void add(const Planes& piece);
  // Sums over the ranks; collective. Afterwards every rank holds the whole picture.
  void reduce(const Ranks& ranks) { ranks.all_reduce_sum(cells_); }
  // The averages, [0, 1] shown as 0 to 255; values beyond are cut off.
  Image image() const;

 private:
  Box region_;
  Grid size_;
  std::vector<double> cells_;  // per cell: red, green, blue, weight
};

}  // namespace earth
