// ranks: 1 3
// program: expressions
// Fields of bool: to and from the host, files, halos, moves and reductions, beside a plain loop over the whole field.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <halogen/array_language.hpp>
#include <halogen/io/fields.hpp>
#include <string>
#include <vector>

#include "support/run_name.hpp"

namespace test_masks {

namespace hg = halogen;

namespace {

using Line = hg::Mesh<"x">;
using Mask = hg::Sharded<hg::Tensor<bool, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
using Columns = hg::Sharded<hg::Tensor<bool, hg::dyn, hg::dyn>, Line, hg::Shard<1>>;
using Whole = hg::Sharded<hg::Tensor<bool, hg::dyn, hg::dyn>, Line, hg::Replicate>;
using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn>, Line, hg::Shard<0>>;
using Counts = hg::Sharded<hg::Tensor<std::int64_t, hg::dyn>, Line, hg::Replicate>;
using Bools = std::vector<bool>;

constexpr int rows = 7, columns = 5;
bool is_set(int i, int j) { return (3 * i + 5 * j) % 7 < 3; }

template <class F>
Bools all(F f, int height = rows, int width = columns) {
  Bools values;
  for (int i = 0; i < height; ++i)
    for (int j = 0; j < width; ++j) values.push_back(f(i, j));
  return values;
}

hg::DeviceMesh<Line> line() { return hg::device_mesh<Line>(hg::Environment().world(), {-1}); }
Mask masked(const hg::DeviceMesh<Line>& mesh) {
  return hg::distribute_tensor<Mask>(mesh, {rows, columns}, mesh.rank() == 0 ? all(is_set) : Bools());
}

}  // namespace

TEST_CASE("masks: distributed, gathered, copied piece by piece") {
  const auto mesh = line();
  const Mask mask = masked(mesh);
  CHECK(hg::full_tensor(mask) == all(is_set));
  const Bools piece = mask.to_host();
  REQUIRE(static_cast<hg::index_t>(piece.size()) == mask.local_extent(0) * columns);
  for (std::size_t i = 0; i < piece.size(); ++i)
    CHECK(piece[i] ==
          is_set(static_cast<int>(mask.offset(0)) + static_cast<int>(i) / columns, static_cast<int>(i) % columns));
  const Mask local = hg::from_local<Mask>(mesh, {rows, columns}, piece);
  CHECK(hg::full_tensor(local) == all(is_set));
  CHECK(hg::full_tensor(hg::from_local_inferred<Mask>(mesh, mask.local_shape(), piece)) == all(is_set));
  Mask copy = mask.clone();
  copy.copy_from_host(Bools(piece.size(), true));
  CHECK(hg::full_tensor(copy) == Bools(rows * columns, true));
  CHECK(hg::full_tensor(mask) == all(is_set));
  CHECK_NOTHROW(hg::require_finite(mask, "mask"));
}

TEST_CASE("masks in expressions, beyond their pieces and their ends") {
  const auto mesh = line();
  const Mask mask = masked(mesh);
  const auto set = [](int i, int j) { return i >= 0 && i < rows && j >= 0 && j < columns && is_set(i, j); };
  Mask m = hg::shift<0, 1>(mask) || hg::shift<0, -2>(mask);
  CHECK(hg::full_tensor(m) == all([&](int i, int j) { return set(i + 1, j) || set(i - 2, j); }));
  m = hg::shift<0, 1>(hg::with_boundary<hg::Periodic, hg::Zero>(mask)) && !hg::shift<1, 1>(mask);
  CHECK(hg::full_tensor(m) == all([&](int i, int j) { return is_set((i + 1) % rows, j) && !set(i, j + 1); }));
  m = hg::iterate<3>([](const auto& s) { return s || hg::shift<0, -1>(s); }, mask);
  CHECK(hg::full_tensor(m) ==
        all([&](int i, int j) { return set(i, j) || set(i - 1, j) || set(i - 2, j) || set(i - 3, j); }));
  Field u(mesh, {rows, columns});
  u = hg::cast<float>(hg::global_index<0>(mask));
  m = u >= 2.0f && u < 5.0f;
  CHECK(hg::full_tensor(m) == all([](int i, int) { return i >= 2 && i < 5; }));
  u = hg::where(mask, u, -1.0f);
  std::vector<float> chosen;
  for (int i = 0; i < rows; ++i)
    for (int j = 0; j < columns; ++j) chosen.push_back(is_set(i, j) ? static_cast<float>(i) : -1.0f);
  CHECK(hg::full_tensor(u) == chosen);
  const auto [value, gradient] = hg::value_and_grad([&](auto x) { return hg::sum(hg::where(mask, x, 0.0f)); })(u);
  const Mask passed = gradient == 1.0f, stopped = gradient == 0.0f;
  CHECK(hg::full_tensor(passed) == all(is_set));
  CHECK(hg::full_tensor(stopped) == all([](int i, int j) { return !is_set(i, j); }));
  double expected = 0;
  for (const float one : chosen) expected += one >= 0 ? one : 0;
  CHECK(value == expected);
}

TEST_CASE("masks moved: redistributed, cut out, joined, turned") {
  const auto mesh = line();
  const Mask mask = masked(mesh);
  CHECK(hg::redistribute<Whole>(mask).to_host() == all(is_set));
  CHECK(hg::full_tensor(hg::redistribute<Columns>(mask)) == all(is_set));
  CHECK(hg::full_tensor(hg::redistribute<Mask>(hg::redistribute<Columns>(mask))) == all(is_set));
  const Mask cut = hg::slice<0>(mask, 1, 6);
  CHECK(hg::full_tensor(cut) == all([](int i, int j) { return is_set(i + 1, j); }, 5));
  const Mask padded = hg::pad<1>(mask, 0, 2);
  CHECK(hg::full_tensor(padded) == all([](int i, int j) { return j < columns && is_set(i, j); }, rows, columns + 2));
  const Mask twice = hg::concatenate<0>(mask, !mask);
  CHECK(hg::full_tensor(twice) ==
        all([](int i, int j) { return i < rows ? is_set(i, j) : !is_set(i - rows, j); }, 2 * rows));
  const Columns turned = hg::transpose<0, 1>(mask);
  CHECK(hg::full_tensor(turned) == all([](int i, int j) { return is_set(j, i); }, columns, rows));
}

TEST_CASE("masks reduced: how many, whether any, whether all") {
  const auto mesh = line();
  const Mask mask = masked(mesh);
  std::vector<std::int64_t> in_column(columns), largest(columns), running;
  std::int64_t count = 0;
  for (int j = 0; j < columns; ++j)
    for (int i = 0; i < rows; ++i) {
      in_column[static_cast<std::size_t>(j)] += is_set(i, j);
      largest[static_cast<std::size_t>(j)] |= is_set(i, j);
      count += is_set(i, j);
    }
  CHECK(hg::sum(mask).item() == count);
  CHECK(hg::mean(mask).item() == doctest::Approx(static_cast<double>(count) / (rows * columns)));
  CHECK(hg::max(mask).item() == 1);
  CHECK(hg::min(mask).item() == 0);
  CHECK(hg::max(mask && !mask).item() == 0);
  CHECK(hg::min(mask || !mask).item() == 1);
  const Counts sums = hg::sum<0>(mask), any = hg::max<0>(mask);
  CHECK(sums.to_host() == in_column);
  CHECK(any.to_host() == largest);
}

TEST_CASE("masks in files, as BOOL") {
  const auto mesh = line();
  const Mask mask = masked(mesh);
  const std::filesystem::path file =
      std::filesystem::temp_directory_path() / ("masks_" + support::run_name(mesh.size()) + ".safetensors");
  hg::save_fields(file, hg::NamedField{"mask", mask});
  CHECK(hg::full_tensor(hg::load_field<Columns>(file, "mask", mesh)) == all(is_set));
  if (mesh.rank() == 0) {
    const auto tensors = hg::read_safetensors(file);
    CHECK(tensors[0].dtype == "BOOL");
    CHECK(tensors[0].as<bool>() == all(is_set));
    hg::write_safetensors(file, {hg::named_tensor<bool>("mask", {rows, columns}, all(is_set)),
                                 {"odd", "BOOL", {1, 3}, {std::byte{0}, std::byte{1}, std::byte{2}}}});
  }
  mesh.world().barrier();
  Mask again(mesh, {rows, columns});
  hg::load_field(file, "mask", again);
  CHECK(hg::full_tensor(again) == all(is_set));
  CHECK(hg::load_field<Whole>(file, "odd", mesh).to_host() == Bools{false, true, true});  // any bit counts
  mesh.world().barrier();
  if (mesh.rank() == 0) std::filesystem::remove(file);
}

}  // namespace test_masks
