// Rows stored past the caches: every offset from a cache line, every length, neighbours untouched.
#include <doctest/doctest.h>

#include <algorithm>
#include <halogen/kernels/vector/simd.hpp>
#include <vector>

namespace {

template <class T>
void check_rows() {
  constexpr halogen::index_t most = 70, room = 100;
  std::vector<T> from(most);
  for (std::size_t i = 0; i < most; ++i) from[i] = static_cast<T>(i + 1);
  for (halogen::index_t offset = 0; offset < 20; ++offset)
    for (halogen::index_t count = 0; count <= most; ++count) {
      std::vector<T> to(room, T(-1)), expected(room, T(-1));
      std::copy_n(from.begin(), count, expected.begin() + offset);
      halogen::kernels::stream_row(from.data(), count, to.data() + offset);
      halogen::kernels::stream_fence();
      CAPTURE(offset);
      CAPTURE(count);
      CHECK(to == expected);
    }
}

}  // namespace

TEST_CASE("float") { check_rows<float>(); }
TEST_CASE("double") { check_rows<double>(); }
