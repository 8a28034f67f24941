#include "grid.hpp"

#include <stdexcept>

namespace earth {

Grid parse_grid(const std::string& spacing) {
  if (spacing == "2") return {90, 180};
  if (spacing == "1") return {180, 360};
  if (spacing == "0.5") return {360, 720};
  if (spacing == "0.25") return {720, 1440};
  if (spacing == "0.1") return {1800, 3600};
  if (spacing == "full") return full_grid;
  throw std::invalid_argument("there is no grid '" + spacing +
                              "': choose 2, 1, 0.5, 0.25 or 0.1 (degrees), or full (2700 x 5400)");
}

}  // namespace earth
