#include <halogen/export.hpp>

#include "hosts/models.hpp"

struct TrainsSeveral {
  using optimizer = hg::SGD;
  static auto loss() { return hg::Losses{hg::mse, 0.5 * hg::l1}; }
};
HALOGEN_EXPORT(several, hosts::Several, double, TrainsSeveral);
