// program: field_files
// Fields to and from a file, each rank its own piece: the bytes that write_safetensors writes of the whole, read by any
// mesh and cut; what is refused, on all ranks alike; no rank takes memory for more than its piece.
#include <doctest/doctest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <halogen/io/fields.hpp>

#include "support/array.hpp"
#include "support/heap.hpp"
#include "support/refusal.hpp"

namespace test_field_files {

namespace {

using namespace support;

using Grid = hg::Mesh<"rows", "columns">;
template <class T, class... P>
using Cube = hg::Sharded<hg::Tensor<T, hg::dyn, hg::dyn, hg::dyn>, Grid, P...>;
template <class T>
using Plane = Cube<T, hg::Shard<1>, hg::Shard<2>>;

/// One name for all ranks, another for each run.
std::filesystem::path file_of(const std::string& name) {
  auto run = static_cast<std::int64_t>(getpid());
  grid_world().broadcast(&run, sizeof run, 0);
  return std::filesystem::temp_directory_path() /
         ("halogen_fields_" + std::to_string(run) + "_" + name + ".safetensors");
}

void remove_file(const std::filesystem::path& path) {
  grid_world().barrier();
  if (grid_world().rank() == 0) std::filesystem::remove(path);
}

std::vector<char> bytes_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

template <class Field>
void check_copies(const hg::DeviceMesh<Grid>& mesh, int way) {
  const auto u = numbers<double>(Index<3>{3, 13, 17}, 1), v = numbers<double>(Index<3>{2, 5, 4}, 2);
  const auto path = file_of("copies"), plain = file_of("plain");
  using Wide = Plane<double>;
  hg::save_fields(path, hg::NamedField{"u", field<Field>(mesh, u, way)},
                  hg::NamedField{"v", field<Wide>(mesh, v, way)});

  using T = typename Field::value_type;
  std::vector<T> values;
  for (const double value : u.values) values.push_back(static_cast<T>(value));
  if (grid_world().rank() == 0) {
    hg::write_safetensors(plain,
                          {hg::named_tensor("u", {3, 13, 17}, values), hg::named_tensor("v", {2, 5, 4}, v.values)});
    CHECK(bytes_of(path) == bytes_of(plain));
  }
  grid_world().barrier();

  const auto by_chunks = hg::load_field<Field>(plain, "u", mesh);
  CHECK(hg::full_tensor(by_chunks) == values);
  auto otherwise = field<Field>(mesh, numbers<double>(Index<3>{3, 13, 17}, 3), 1 - way % 2);
  const auto cuts = otherwise.cuts();
  hg::load_field(path, "u", otherwise);
  CHECK(hg::full_tensor(otherwise) == values);
  CHECK(otherwise.cuts() == cuts);
  CHECK(hg::full_tensor(hg::load_field<Wide>(path, "v", mesh)) == v.values);
  remove_file(path), remove_file(plain);
}

}  // namespace

TEST_CASE("the file of the whole, from and to any pieces") {
  everywhere<Grid>([](const auto& mesh, int way) {
    check_copies<Plane<float>>(mesh, way);
    check_copies<Cube<double, hg::Shard<0>, hg::Shard<0>>>(mesh, way);
    check_copies<Cube<hg::bfloat16, hg::Replicate, hg::Shard<2>>>(mesh, way);
    check_copies<Cube<int, hg::Replicate, hg::Replicate>>(mesh, way);
  });
}

TEST_CASE("no rank takes memory for more than its piece") {
  const auto mesh = hg::device_mesh<Grid>(grid_world(), {-1, 1});
  const Plane<double> u(mesh, {1, 1024, 64});
  const auto path = file_of("large");
  support::heap.largest = 0;
  hg::save_fields(path, hg::NamedField{"u", u});
  const auto back = hg::load_field<Plane<double>>(path, "u", mesh);
  const std::size_t piece = static_cast<std::size_t>(u.local_extent(1)) * 64 * sizeof(double);
  CHECK(support::heap.largest >= piece);  // it is the heap that is measured
  CHECK(support::heap.largest <= piece + 70'000);
  CHECK(back.extent(1) == 1024);
  remove_file(path);
}

TEST_CASE("what does not fit is refused on all ranks with a sentence, and leaves file and field as they were") {
  const auto mesh = hg::device_mesh<Grid>(grid_world(), {-1, 1});
  const auto a = numbers<double>(Index<3>{2, 24, 4}, 5);
  auto u = field<Plane<double>>(mesh, a);
  const auto path = file_of("kept"), nowhere = std::filesystem::path("/nowhere/u.safetensors");
  hg::save_fields(path, hg::NamedField{"u", u});
  const auto before = bytes_of(path);
  using hg::CollectiveError;
  const auto cannot = [](const std::filesystem::path& file, const std::string& why) {
    return "cannot write '" + file.string() + "': " + why;
  };
  CHECK(refusal<CollectiveError>([&] {
          hg::save_fields(path, hg::NamedField{"u", u}, hg::NamedField{"u", u});
        }) == cannot(path, "the name 'u' is taken"));
  CHECK(refusal<CollectiveError>([&] {
          hg::save_fields(nowhere, hg::NamedField{"u", u});
        }) == cannot(nowhere, "there is no folder '/nowhere': make it, or give another path"));
  CHECK(refusal<CollectiveError>([&] {
          hg::save_fields(path, hg::NamedField{"\xff", u});
        }) == cannot(path, "the name of a tensor is not UTF-8"));
  CHECK(bytes_of(path) == before);

  const std::string at = "'" + path.string() + "': ";
  auto narrow = field<Plane<float>>(mesh, a);
  auto short_one = field<Plane<double>>(mesh, numbers<double>(Index<3>{2, 24, 3}, 6));
  const auto kept = short_one.to_host();
  CHECK(refusal<CollectiveError>([&] { hg::load_field(path, "w", u); }) == at + "there is no tensor 'w'");
  CHECK(refusal<CollectiveError>([&] { hg::load_field(path, "u", narrow); }) ==
        at + "tensor 'u' is F64 (2 x 24 x 4), but the field is F32 (2 x 24 x 4): load it into a field of its type and "
             "extents, and cast that");
  CHECK(refusal<CollectiveError>([&] { hg::load_field(path, "u", short_one); }) ==
        at + "tensor 'u' is F64 (2 x 24 x 4), but the field is F64 (2 x 24 x 3): load it into a field of its type and "
             "extents");
  using Volume = hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;
  Volume with_one(u.mesh(), {1, 2, 24, 4});  // the same numbers
  hg::load_field(path, "u", with_one);
  CHECK(hg::full_tensor(with_one) == hg::full_tensor(u));
  CHECK(refusal<CollectiveError>([&] { hg::load_field<Plane<float>>(path, "u", u.mesh()); }) ==
        at + "tensor 'u' is F64 (2 x 24 x 4), but the field is F32 of 3 dimensions: load it into a field of its type "
             "and extents, and cast that");
  CHECK(short_one.to_host() == kept);
  CHECK(refusal<CollectiveError>([&] { hg::load_field(nowhere, "u", u); }).starts_with("cannot read '/nowhere/"));
  grid_world().barrier();
  if (grid_world().rank() == grid_world().size() - 1) std::filesystem::resize_file(path, before.size() - 8);
  grid_world().barrier();
  CHECK(refusal<CollectiveError>([&] { hg::load_field(path, "u", u); }).starts_with("cannot read '" + path.string()));
  CHECK(u.to_host() == field<Plane<double>>(mesh, a).to_host());
  remove_file(path);

  Plane<double> dry(hg::dry_mesh<Grid>({2, 1}), {2, 24, 4});
  CHECK(refusal<hg::Error>([&] { hg::load_field(path, "u", dry); }) ==
        "load_field: the ranks of a dry mesh are not there to write or read their pieces");
  CHECK(refusal<hg::Error>([&] { hg::save_fields(path, hg::NamedField{std::string("u"), dry}); }).starts_with("save_"));
}

}  // namespace test_field_files
