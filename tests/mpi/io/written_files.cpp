// program: field_files
// netCDF and HDF5 files that fields are written to, by all ranks at once and by one after the other: the numbers come
// back whatever the cut, the chunks and the compression, points that nobody wrote are missing, and who writes when is
// counted. Compiled twice, for both builds of the libraries (tests/CMakeLists.txt).
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <halogen/io/hdf5_writer.hpp>
#include <halogen/io/netcdf_writer.hpp>
#include <random>

#include "support/full_disk.hpp"
#include "support/meshes.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"

#ifdef HALOGEN_WITH_MPI
namespace test_written_files {
inline int writes_by_mpi = 0;  // of this rank
}
extern "C" int MPI_File_write_at_all(MPI_File file, MPI_Offset at, const void* from, int count, MPI_Datatype type,
                                     MPI_Status* status) {
  ++test_written_files::writes_by_mpi;
  return PMPI_File_write_at_all(file, at, from, count, type, status);
}
#endif

namespace test_written_files {

#ifndef HALOGEN_WITH_MPI
constexpr int writes_by_mpi = 0;
#endif

namespace {

namespace fs = std::filesystem;
using hg::index_t;
using Series = support::Field<float, 2>;

/// A folder of this run's, gone with the object. Its files change all the time: no child process tries them.
/// Collective.
class Folder {
 public:
  Folder() : path_(fs::temp_directory_path() / ("halogen_written_" + name())) {
    if (support::world().rank() == 0) {
      fs::remove_all(path_);
      fs::create_directories(path_);
    }
    support::world().barrier();
    hg::detail::TriedFiles::all().tries = false;
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() {
    support::world().barrier();
    hg::detail::TriedFiles::all().tries = true;
    if (support::world().rank() == 0) fs::remove_all(path_);
  }
  const fs::path& path() const { return path_; }

 private:
  static std::string name() { return support::run_name(support::world().size()); }
  fs::path path_;
};

struct Netcdf {
  using Options = hg::NetcdfOptions;
  using Variable = hg::NetcdfVariable;
  using Out = hg::NetcdfSeries<Series>;
  static constexpr const char* file = "written.nc";
  static void save(const fs::path& path, const std::string& name, const auto& field, Options options = {}) {
    hg::save_netcdf(path, name, field, options);
  }
};
struct Hdf5 {
  using Options = hg::Hdf5Options;
  using Variable = hg::Hdf5Dataset;
  using Out = hg::Hdf5Series<Series>;
  static constexpr const char* file = "written.h5";
  static void save(const fs::path& path, const std::string& name, const auto& field, Options options = {}) {
    hg::save_hdf5(path, name, field, options);
  }
};

/// Whether ranks can write at once in this program, as the build says, not the library.
bool expects_at_once() { return HALOGEN_TEST_AT_ONCE != 0 && support::world().transport_name() == "mpi"; }

template <class Format>
bool holds(const fs::path& path, const std::string& name, const std::vector<index_t>& begin,
           const std::array<index_t, 4>& extents, const std::vector<float>& values) {
  std::vector<float> all(values.size());
  const typename Format::Variable variable(support::world(), path, name);
  variable.read(begin, {extents.begin(), extents.end()}, all.data());
  return std::ranges::equal(all, values, [](float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); });
}

/// Ranks that cut columns, rows and columns, and samples, where some have none of the 3 or 1 that there are.
support::Meshes<support::Mesh> meshes() {
  const hg::Communicator world = support::world();
  support::Meshes<support::Mesh> all{hg::device_mesh<support::Mesh>(world, {1, 1, -1})};
  if (world.size() > 1) all.push_back(hg::device_mesh<support::Mesh>(world, {-1, 1, 1}));
  if (world.size() % 2 == 0) all.push_back(hg::device_mesh<support::Mesh>(world, {1, 2, -1}));
  return all;
}

/// Whole fields of any cut and chunks.
template <class Format>
void check_whole(const fs::path& folder, bool at_once) {
  const fs::path path = folder / Format::file;
  std::mt19937 bits(5);
  const auto below = [&](index_t n) { return static_cast<index_t>(bits() % static_cast<unsigned>(n)); };
  int number = 0;
  for (const auto& mesh : meshes())
    for (int round = 0; round < 3; ++round) {
      const std::array<index_t, 4> extents{3, 2, 1 + below(14), 1 + below(14)};
      typename Format::Options options{.level = round, .at_once = at_once};
      if (round == 2)
        for (const index_t extent : extents) options.chunks.push_back(1 + below(extent));
      CAPTURE(support::text(mesh));
      CAPTURE(hg::detail::text_of(extents));
      const std::string name = (at_once ? "a" : "b") + std::to_string(++number);
      const auto count = static_cast<std::size_t>(extents[0] * extents[1] * extents[2] * extents[3]);
      for (unsigned again = 0; again < 2; ++again) {  // written, and written over
        const auto values = support::numbers<float>(count, static_cast<unsigned>(number) + 100 * again);
        Format::save(path, name, hg::distribute_tensor<Series>(mesh, extents, values), options);
        CHECK(holds<Format>(path, name, {0, 0, 0, 0}, extents, values));
      }
    }
}

/// A series of 5 times, of which 0, 2 and 3 are written, by chunks of 1 to 3 times, in part again by others.
template <class Format>
void check_series(const fs::path& folder, bool at_once) {
  const fs::path path = folder / Format::file;
  const std::array<index_t, 4> extents{5, 2, 9, 7}, one{1, 2, 9, 7}, two{2, 2, 9, 7};
  const std::vector<float> missing(126, std::nanf(""));
  int number = 0;
  for (const auto& mesh : meshes())
    for (const std::vector<index_t>& chunks :
         {std::vector<index_t>{}, std::vector<index_t>{1, 1, 4, 5}, std::vector<index_t>{3, 2, 4, 5}})
      for (const int level : {0, 3}) {
        if (!at_once && level > 0) continue;
        CAPTURE(support::text(mesh));
        CAPTURE(hg::detail::text_of(chunks));
        CAPTURE(level);
        const std::string name = (at_once ? "series" : "turns") + std::to_string(++number);
        const typename Format::Out out(
            path, name, mesh, extents,
            {.chunks = chunks, .level = level, .attributes = {{"units", "K"}}, .at_once = at_once});
        CHECK(out.at_once() == (at_once && expects_at_once()));
        CHECK(holds<Format>(path, name, {4, 0, 0, 0}, one, missing));
        const auto first = support::numbers<float>(126, 1), second = support::numbers<float>(252, 2);
        const int before = writes_by_mpi;
        out.write(0, hg::distribute_tensor<Series>(mesh, one, first));
        CHECK((writes_by_mpi > before) == out.at_once());  // on every rank
        out.write(2, hg::distribute_tensor<Series>(mesh, two, second));
        CHECK(holds<Format>(path, name, {0, 0, 0, 0}, one, first));
        CHECK(holds<Format>(path, name, {1, 0, 0, 0}, one, missing));
        CHECK(holds<Format>(path, name, {2, 0, 0, 0}, two, second));
        CHECK(holds<Format>(path, name, {4, 0, 0, 0}, one, missing));
        // opened again, and written over
        const typename Format::Out again(path, name, mesh, extents, {.at_once = at_once});
        again.write(3, hg::distribute_tensor<Series>(mesh, one, first));
        CHECK(holds<Format>(path, name, {3, 0, 0, 0}, one, first));
        CHECK(holds<Format>(path, name, {4, 0, 0, 0}, one, missing));
        CHECK(typename Format::Variable(path, name).attributes()["units"] == "K");
      }
  // a series that is then saved whole
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 1, -1});
  const auto values = support::numbers<float>(630, 3);
  Format::save(path, at_once ? "series1" : "turns1", hg::distribute_tensor<Series>(mesh, extents, values),
               {.at_once = at_once});
  CHECK(holds<Format>(path, at_once ? "series1" : "turns1", {0, 0, 0, 0}, extents, values));
}

template <class Format>
void check_refusals(const fs::path& folder) {
  const fs::path path = folder / Format::file;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 1, -1});
  const typename Format::Out series(path, "series", mesh, {4, 2, 9, 7});
  const auto said = [&](auto f) { return support::refusal<hg::CollectiveError>(f); };
  const std::string begin = "cannot write 'series' of '" + path.string() + "': ";
  CHECK(said([&] {
          series.write(4, Series(mesh, {1, 2, 9, 7}));
        }) == begin +
                  "a field of (1 x 2 x 9 x 7) at 4, but the variable has (4 x 2 x 9 x 7): give a field of its extents "
                  "and mesh");
  CHECK(said([&] {
          typename Format::Out(path, "series", mesh, {5, 2, 9, 7});
        }) ==
        begin +
            "it is there with (4 x 2 x 9 x 7) points, not (5 x 2 x 9 x 7), or of another type, and cannot be removed: "
            "give another name, or remove the file");
  CHECK(said([&] {
          Format::save(path, "series", Series(mesh, {4, 2, 9, 7}), {.chunks = {1, 2, 9}});
        }) == begin + "give as many chunks and names as the field has dimensions, 4");
  CHECK(said([&] {
          Format::save(folder / "absent" / Format::file, "series", Series(mesh, {4, 2, 9, 7}));
        }).starts_with("cannot write 'series' of '" + (folder / "absent" / Format::file).string() + "': "));
}

/// Where the disk is full all ranks say the same sentence, and go on.
template <class Format>
void check_full_disk(const fs::path& folder) {
  const hg::Communicator world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  const std::array<index_t, 4> extents{1, 2, 300, 700};
  const auto field = hg::distribute_tensor<Series>(mesh, extents, support::numbers<float>(2 * 300 * 700, 4));
  for (const int level : {0, 1}) {
    const fs::path path = folder / (std::to_string(level) + Format::file);
    std::string said;
    {
      const support::FullDisk full(400'000);
      said = support::refusal<hg::CollectiveError>([&] { Format::save(path, "a", field, {.level = level}); });
    }
    CAPTURE(said);
    CHECK(said.starts_with("cannot write 'a' of '" + path.string() + "': "));
    std::uint64_t sum = 0;
    for (const char c : said) sum = 31 * sum + static_cast<unsigned char>(c);
    std::vector<std::uint64_t> sums(static_cast<std::size_t>(world.size()));
    world.all_gather(&sum, sizeof sum, sums.data());
    CHECK(std::ranges::count(sums, sum) == world.size());
    const fs::path next = folder / (std::to_string(level) + "next_" + Format::file);
    Format::save(next, "a", field, {.level = level});
    CHECK(holds<Format>(next, "a", {0, 0, 0, 0}, extents, support::numbers<float>(2 * 300 * 700, 4)));
  }
}

/// What a write costs: as many agreements as ranks where they take turns, else a number that does not depend on them.
template <class Format>
void check_turns(const fs::path& folder) {
  const hg::Communicator world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, 1, -1});
  const Series field = hg::distribute_tensor<Series>(mesh, {1, 2, 9, 7}, support::numbers<float>(126, 1));
  for (const bool at_once : {true, false}) {
    const typename Format::Out out(folder / Format::file, at_once ? "at_once" : "in_turn", mesh, {4, 2, 9, 7},
                                   {.at_once = at_once});
    out.write(0, field);
    const auto before = hg::comm_stats();
    out.write(1, field);
    const auto all_reduces = (hg::comm_stats() - before).all_reduces.count;
    CHECK(all_reduces == (world.size() == 1 ? 0 : at_once && expects_at_once() ? 6 : 1 + world.size()));
  }
}

template <class Format>
void check_written() {
  const Folder folder;
  for (const bool at_once : {true, false}) {
    check_whole<Format>(folder.path(), at_once);
    check_series<Format>(folder.path(), at_once);
  }
  check_refusals<Format>(folder.path());
  check_turns<Format>(folder.path());
}

}  // namespace

TEST_CASE("fields come back from netCDF and HDF5, whatever the cut and the chunks") {
  check_written<Netcdf>();
  check_written<Hdf5>();
}

TEST_CASE("what marks missing points is of the variable's type") {
  const Folder folder;
  const hg::Communicator world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, 1, -1});
  const std::array<index_t, 4> two{2, 1, 1, 12}, one{1, 1, 1, 12};
  using Line =
      hg::Sharded<hg::Tensor<float, hg::dyn, 1, 1, hg::dyn>, support::Mesh, hg::Replicate, hg::Replicate, hg::Shard<3>>;
  using Counts = hg::Sharded<hg::Tensor<std::int32_t, hg::dyn, 1, 1, hg::dyn>, support::Mesh, hg::Replicate,
                             hg::Replicate, hg::Shard<3>>;
  const nlohmann::ordered_json marks{
      {"_FillValue", -999.9}, {"missing_value", {1e20, -2}}, {"valid_max", std::nan("")}};
  const std::vector<float> values{1, -999.9f, 1e20f, -2, 5, 6, 7, 8, 9, 10, 11, 12};
  const auto missing = [&](auto variable) {
    std::vector<float> read(24);
    variable.read({0, 0, 0, 0}, {2, 1, 1, 12}, read.data());
    std::vector<int> at;
    for (int i = 0; i < 24; ++i)
      if (std::isnan(read[static_cast<std::size_t>(i)])) at.push_back(i);
    const auto attributes = variable.attributes();
    CHECK(attributes["_FillValue"] == static_cast<double>(-999.9f));
    CHECK(attributes["missing_value"] == std::vector<double>{static_cast<double>(1e20f), -2});
    CHECK(std::isnan(attributes["valid_max"].template get<double>()));
    return at;
  };
  const std::vector<int> expected{1,  2,  3,  12, 13, 14, 15, 16,
                                  17, 18, 19, 20, 21, 22, 23};  // the second is not written
  const fs::path nc = folder.path() / "marks.nc", h5 = folder.path() / "marks.h5";
  for (int again = 0; again < 2; ++again) {
    hg::NetcdfSeries<Line>(nc, "a", mesh, two, {.attributes = marks})
        .write(0, hg::distribute_tensor<Line>(mesh, one, values));
    hg::Hdf5Series<Line>(h5, "a", mesh, two, {.attributes = marks})
        .write(0, hg::distribute_tensor<Line>(mesh, one, values));
    CHECK(missing(hg::NetcdfVariable(world, nc, "a")) == expected);
    CHECK(missing(hg::Hdf5Dataset(world, nc, "a")) == expected);
    CHECK(missing(hg::Hdf5Dataset(world, h5, "a")) == expected);
  }
  hg::save_netcdf(nc, "counts", hg::distribute_tensor<Counts>(mesh, one, std::vector<std::int32_t>(12, -5)),
                  {.attributes = {{"_FillValue", -5}}});
  std::vector<double> counts(12);
  hg::NetcdfVariable(world, nc, "counts").read({0, 0, 0, 0}, {1, 1, 1, 12}, counts.data());
  CHECK(std::ranges::all_of(counts, [](double n) { return std::isnan(n); }));
  const auto refused = [&](const nlohmann::ordered_json& attributes) {
    const auto sentence = [](const std::string& said) { return said.substr(said.find("': ") + 3); };
    const std::string said = support::refusal<hg::CollectiveError>(
        [&] { hg::save_hdf5(folder.path() / "never.h5", "a", Counts(mesh, one), {.attributes = attributes}); });
    CHECK(sentence(said) == sentence(support::refusal<hg::CollectiveError>([&] {
            hg::save_netcdf(folder.path() / "never.nc", "a", Counts(mesh, one), {.attributes = attributes});
          })));
    return sentence(said);
  };
  CHECK(refused({{"_FillValue", 1.5}}) ==
        "its _FillValue is 1.5, which is not a number of int32: correct it, or leave it out");
  CHECK(refused({{"missing_value", 3e9}})
            .starts_with("its missing_value is 3000000000.0, which is not a number of int32"));
  CHECK(refused({{"_FillValue", {1, 2}}}).starts_with("its _FillValue is [1,2], which is not one number"));
  CHECK(refused({{"scale_factor", "0.1"}}).starts_with("its scale_factor is \"0.1\", which is not one number"));
  CHECK(refused({{"levels", true}}) == "its attribute 'levels' is no text and no numbers: give one of them");
  CHECK(!fs::exists(folder.path() / "never.h5"));
  CHECK(!fs::exists(folder.path() / "never.nc"));
}

TEST_CASE("a full disk without any space: that it is full is said, no file is left, and the next run writes it") {
  // run alone: after a file could not be closed HDF5 1.10.8 ends the program when it ends (docs/known_defects.md)
  if (std::getenv("HALOGEN_TEST_FULL_DISK") == nullptr) return;
  const Folder folder;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 1, -1});
  const auto check = [&]<class Format>(Format) {
    const fs::path path = folder.path() / Format::file;
    {
      const support::FullDisk full(0);
      const std::string said = support::refusal<hg::CollectiveError>([&] {
        Format::save(path, "a", Series(mesh, {1, 2, 3, 7}));
      });
      CAPTURE(said);
      CHECK(said.starts_with("cannot write 'a' of '" + path.string() + "': a file there may not be so large, "));
      CHECK(said.find("HDF5") == std::string::npos);
    }
    support::world().barrier();
    CHECK(fs::is_empty(folder.path()));
    support::world().barrier();
    if (support::world().rank() == 0) std::ofstream(path) << "";  // as older versions left it
    support::world().barrier();
    Format::save(path, "a", Series(mesh, {1, 2, 3, 7}));
    CHECK(holds<Format>(path, "a", {0, 0, 0, 0}, {1, 2, 3, 7}, std::vector<float>(42)));
    support::world().barrier();
    if (support::world().rank() == 0) fs::remove(path);
    support::world().barrier();
  };
  check(Netcdf());
  check(Hdf5());
}

TEST_CASE("a full disk") {
  // run alone: after a file could not be closed HDF5 1.10.8 ends the program when it ends (docs/known_defects.md)
  if (std::getenv("HALOGEN_TEST_FULL_DISK") == nullptr) return;
  const Folder folder;
  check_full_disk<Netcdf>(folder.path());
  check_full_disk<Hdf5>(folder.path());
}

TEST_CASE("names of dimensions, groups, whole numbers and replicas") {
  const Folder folder;
  const hg::Communicator world = support::world();
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, 1, -1});
  hg::save_netcdf(folder.path() / Netcdf::file, "first", Series(mesh, {3, 2, 9, 7}));
  CHECK(support::refusal<hg::CollectiveError>([&] {
          hg::save_netcdf(folder.path() / Netcdf::file, "third", Series(mesh, {4, 2, 9, 7}),
                          {.dimension_names = {"first_0", "c", "y", "x"}});
        }) == "cannot write 'third' of '" + (folder.path() / Netcdf::file).string() +
                  "': its dimension 'first_0' has 3 points, not 4: give it another name");
  // groups are made; whole numbers and replicas
  using Counts = hg::Sharded<hg::Tensor<std::int64_t, hg::dyn, hg::dyn>, support::Mesh, hg::Replicate, hg::Shard<1>,
                             hg::Replicate>;
  const std::vector<std::int64_t> counts{1, -2, std::int64_t{1} << 60, 4, 5, 6};
  const fs::path path = folder.path() / Hdf5::file;
  const auto cut = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  hg::save_hdf5(path, "deep/er/counts", hg::distribute_tensor<Counts>(cut, {2, 3}, counts),
                {.attributes = {{"levels", {1, 2.5}}}});
  const hg::Hdf5Dataset written(world, path, "deep/er/counts");
  std::vector<double> all(6);
  written.read({0, 0}, {2, 3}, all.data());
  CHECK(std::ranges::equal(all, counts, {}, {}, [](std::int64_t n) { return static_cast<double>(n); }));
  CHECK(written.attributes()["levels"] == std::vector<double>{1, 2.5});
  CHECK(
      support::refusal<hg::CollectiveError>([&] {
        hg::save_hdf5(path, "deep/er/counts", Series(mesh, {1, 2, 3, 1}), {});
      })
          .ends_with("it is there with (2 x 3) points, not (1 x 2 x 3 x 1), or of another type, and cannot be removed: "
                     "give another name, or remove the file"));
}

}  // namespace test_written_files
