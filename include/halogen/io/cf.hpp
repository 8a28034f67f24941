// What the attributes of a variable say of its numbers: the CF conventions, section 8.1 "Packed data" and 2.5.1
// "Missing data". https://cfconventions.org
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

namespace halogen::detail {

/// value = stored * scale + offset; stored numbers equal to one of `missing` are NaN.
struct CfNumbers {
  double scale = 1, offset = 0;
  std::vector<double> missing;

  /// Whether stored numbers are the values.
  bool is_plain() const { return missing.empty() && scale == 1 && offset == 0; }
  double value_of(double stored) const {
    for (const double number : missing)
      if (stored == number) return std::numeric_limits<double>::quiet_NaN();
    return scale == 1 && offset == 0 ? stored : stored * scale + offset;
  }
};

}  // namespace halogen::detail
