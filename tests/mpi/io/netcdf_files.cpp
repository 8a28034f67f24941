// program: field_files
// netCDF and HDF5 files: what netCDF4 and h5py have written (tests/reference/make_netcdf_references.py), whole and by
// box, every kind and type; dates; what is refused; pieces of fields with and without surroundings, and the bytes that
// each rank reads of them; datasets of a series in one file and in several. What is written: written_files.cpp.
#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <halogen/io/field_dataset.hpp>
#include <halogen/io/hdf5_writer.hpp>
#include <halogen/io/netcdf_writer.hpp>
#include <halogen/io/time_axis.hpp>
#include <halogen/io/zarr.hpp>
#include <halogen/io/zarr_writer.hpp>
#include <random>

#include "support/meshes.hpp"
#include "support/reference_files.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"

namespace test_netcdf_files {

namespace {

namespace fs = std::filesystem;
using hg::index_t;

const fs::path& folder() {
  static const fs::path path =
      fs::temp_directory_path() / ("halogen_netcdf_" + support::run_name(support::world().size()));
  return path;
}

struct Files : support::ReferenceFiles {
  Files() : support::ReferenceFiles("netcdf.json", folder()) {}
};

double value(index_t t, index_t i, index_t j) { return static_cast<double>(35 * t + 7 * i + j - 20); }

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

/// Reads a variable of 2 x 5 x 7 points by boxes; those that are missing are NaN.
template <class V>
bool reads_right(const V& variable, const std::vector<std::array<index_t, 3>>& missing) {
  std::mt19937 bits(static_cast<unsigned>(support::world().rank()));
  bool right = variable.shape() == std::vector<index_t>{2, 5, 7};
  for (int round = 0; right && round < 8; ++round) {
    std::vector<index_t> begin(3), extent = variable.shape();
    for (std::size_t d = 0; d < 3 && round > 0; ++d) {
      begin[d] = static_cast<index_t>(bits() % static_cast<unsigned>(variable.shape()[d]));
      extent[d] = static_cast<index_t>(bits() % static_cast<unsigned>(variable.shape()[d] - begin[d])) + 1;
    }
    std::vector<float> narrow(static_cast<std::size_t>(extent[0] * extent[1] * extent[2]), -1e9f);
    std::vector<double> wide(narrow.size(), -1e9);
    variable.read(begin, extent, narrow.data());
    variable.read(begin, extent, wide.data());
    std::size_t k = 0;
    for (index_t t = begin[0]; t < begin[0] + extent[0]; ++t)
      for (index_t i = begin[1]; i < begin[1] + extent[1]; ++i)
        for (index_t j = begin[2]; j < begin[2] + extent[2]; ++j, ++k) {
          const bool is_missing = std::ranges::find(missing, std::array<index_t, 3>{t, i, j}) != missing.end();
          const double number = is_missing ? std::nan("") : value(t, i, j);
          right = right && same(wide[k], number) && same(narrow[k], number);
        }
  }
  return right;
}

/// Bytes that this process has asked the system for so far (proc(5), io: rchar).
std::uint64_t bytes_of_process() {
  std::ifstream file("/proc/self/io");
  std::string word;
  std::uint64_t bytes = 0;
  file >> word >> bytes;
  return bytes;
}

using Series = support::Field<float, 2>;

/// KiB that this process has held at most since it was last asked (proc(5), clear_refs 5 and VmHWM).
std::size_t most_held() {
  std::ifstream file("/proc/self/status");
  std::string word;
  std::size_t kib = 0;
  while (file >> word && word != "VmHWM:") {
  }
  file >> kib;
  std::ofstream("/proc/self/clear_refs") << 5;
  return kib;
}

struct Netcdf {
  using Variable = hg::NetcdfVariable;
  using Out = hg::NetcdfSeries<Series>;
  static constexpr const char* file = "written.nc";
};
struct Hdf5 {
  using Variable = hg::Hdf5Dataset;
  using Out = hg::Hdf5Series<Series>;
  static constexpr const char* file = "written.h5";
};
struct Zarr {
  using Variable = hg::ZarrArray;
  using Out = hg::ZarrSeries<Series>;
  static constexpr const char* file = "written.zarr";
};

/// 69 GB of numbers, more than a rank has memory: a rank that reads its piece of one time reads the chunks of
/// that piece, and holds no more than them and the piece.
template <class Format>
void check_larger_than_memory() {
  const hg::Communicator world = support::world();
  const fs::path path = folder() / ("large_" + std::string(Format::file));
  constexpr std::array<index_t, 4> extents{1, 2, 1030, 515};
  const auto values = support::numbers<float>(2 * 1030 * 515, 7);
  const auto rows = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  const typename Format::Out out(path, "a", rows, {16384, 2, 1030, 515});
  for (const index_t t : {0, 9000}) out.write(t, hg::distribute_tensor<Series>(rows, extents, values));
  for (const auto& mesh : support::meshes(1)) {
    CAPTURE(support::text(mesh));
    const typename Format::Variable variable(world, path, "a");
    Series field(mesh, extents);
    const auto own = static_cast<std::size_t>(hg::detail::piece_box(field, mesh.rank()).points()) * sizeof(float);
    most_held();
    const std::size_t before = most_held();
    hg::load_variable(variable, field, {9000});
    CHECK(most_held() < before + (2 * own + sizeof(float) * values.size()) / 1024 + 8192);
    CHECK(std::ranges::equal(hg::full_tensor(field), values));
    CHECK(variable.bytes_read() <= sizeof(float) * values.size());  // of one time
    if (mesh.extent(1) == world.size()) {  // its chunks are the pieces, those of Zarr compressed
      CHECK(variable.bytes_read() <= own);
      CHECK(variable.bytes_read() > own / 2);
    }
    hg::load_variable(variable, field, {5});  // never written
    CHECK(std::ranges::all_of(field.to_host(), [](float v) { return std::isnan(v); }));
  }
}

}  // namespace

TEST_CASE("what netCDF4 and h5py have written, whole and by box") {
  const Files files;
  const std::vector<std::array<index_t, 3>> none, one{{1, 2, 3}}, two{{1, 2, 3}, {0, 0, 0}};
  for (const char* name : {"classic.nc", "offset64.nc", "data64.nc", "four.nc"}) {
    const bool is_four = std::string(name) == "four.nc";
    for (const char* variable :
         {"f4", "f8", "i4", "packed", "unsigned", "contiguous", "deflate", "big", "i8", "two_missing", "forecast/f4"}) {
      const bool is_of_four =
          std::string("contiguous deflate big i8 two_missing forecast/f4").find(variable) != std::string::npos;
      if (std::string(variable) != "packed" && is_of_four != is_four) continue;
      if (std::string(variable) == "f4" && is_four) continue;
      CAPTURE(name);
      CAPTURE(variable);
      const hg::NetcdfVariable of(folder() / name, variable);
      CHECK(reads_right(of, std::string(variable) == "packed"        ? one
                            : std::string(variable) == "two_missing" ? two
                                                                     : none));
      CHECK(of.dimension_names() ==
            std::vector<std::string>{std::string(variable) == "contiguous" ? "two" : "time", "y", "x"});
    }
    CHECK(hg::NetcdfVariable(folder() / name, "packed").attributes()["units"] == "K");
    const hg::NetcdfVariable time(folder() / name, "time");
    std::vector<double> hours(2);
    time.read({0}, {2}, hours.data());
    CHECK(hours == std::vector<double>{0, 6});
    CHECK(time.attributes()["units"] == "hours since 2020-01-01 00:00:00");
  }
  CHECK(hg::NetcdfVariable(folder() / "four.nc", "deflate").chunks() == std::vector<index_t>{1, 2, 3});
  CHECK(hg::NetcdfVariable(folder() / "four.nc", "contiguous").chunks().empty());
  for (const char* name : {"f4", "fields/f8", "big", "half", "i1", "i4", "packed", "scaled"}) {
    CAPTURE(name);
    CHECK(reads_right(hg::Hdf5Dataset(folder() / "five.h5", name), std::string(name) == "packed" ? one : none));
  }
  CHECK(hg::Hdf5Dataset(folder() / "five.h5", "scaled").dimension_names() ==
        std::vector<std::string>{"time", "y", "x"});
  CHECK(hg::Hdf5Dataset(folder() / "five.h5", "fields/f8").chunks() == std::vector<index_t>{1, 2, 4});
  CHECK(hg::Hdf5Dataset(folder() / "five.h5", "packed").attributes()["units"] == "K");
  // netCDF-4 is HDF5
  CHECK(reads_right(hg::Hdf5Dataset(folder() / "four.nc", "packed"), one));
  CHECK(hg::Hdf5Dataset(folder() / "four.nc", "packed").dimension_names() ==
        std::vector<std::string>{"time", "y", "x"});
}

TEST_CASE("netCDF and HDF5 read the attributes of one file alike, or refuse them alike") {
  const Files files;
  const hg::Communicator world = support::world();
  const fs::path path = folder() / "attributes.nc";
  if (world.rank() == 0) {
    int file = 0, four = 0, id = 0;
    nc_create(path.c_str(), NC_NETCDF4, &file);
    nc_def_dim(file, "x", 4, &four);
    const auto define = [&](const char* name, nc_type type) { nc_def_var(file, name, type, 1, &four, &id); };
    const double large = 1e20, several[] = {0.5, 2};
    const signed char all_ones = -1;
    const char* text = "0.5";
    define("bytes", NC_BYTE);
    nc_put_att_text(file, id, "_Unsigned", 4, "true");
    nc_put_att(file, id, "_FillValue", NC_BYTE, 1, &all_ones);
    const std::array<int, 4> bytes{-1, 5, 100, -128};
    nc_put_var_int(file, id, bytes.data());
    define("floats", NC_FLOAT);
    nc_put_att_double(file, id, "missing_value", NC_DOUBLE, 1, &large);
    const std::array<float, 4> floats{1, 1e20f, 3, 4};
    nc_put_var_float(file, id, floats.data());
    define("scaled_by_string", NC_SHORT);
    nc_put_att_string(file, id, "scale_factor", 1, &text);
    define("scaled_by_text", NC_SHORT);
    nc_put_att_text(file, id, "scale_factor", 3, text);
    define("scaled_twice", NC_SHORT);
    nc_put_att_double(file, id, "scale_factor", NC_DOUBLE, 2, several);
    define("marked_by_text", NC_SHORT);
    nc_put_att_text(file, id, "missing_value", 4, "none");
    CHECK(nc_close(file) == NC_NOERR);
  }
  world.barrier();
  const auto numbers = [&](auto variable) {
    std::vector<double> all(4);
    variable.read({0}, {4}, all.data());
    for (double& number : all) number = std::isnan(number) ? -12345 : number;
    return all;
  };
  const auto check = [&]<class V>(const V*) {
    CHECK(numbers(V(world, path, "bytes")) == std::vector<double>{-12345, 5, 100, 128});
    CHECK(numbers(V(world, path, "floats")) == std::vector<double>{1, -12345, 3, 4});
    const auto refused = [&](const std::string& name) {
      const std::string said = support::refusal<hg::CollectiveError>([&] { V(world, path, name); });
      return said.substr(std::min(said.size(), said.find("': ") + 3));
    };
    for (const char* name : {"scaled_by_string", "scaled_by_text"})
      CHECK(refused(name) == "its scale_factor is \"0.5\", which is not one number: correct it, or leave it out");
    CHECK(refused("scaled_twice").starts_with("its scale_factor is [0.5,2.0], which is not one number"));
    CHECK(refused("marked_by_text").starts_with("its missing_value is \"none\", which is not a number of int16"));
  };
  check(static_cast<const hg::NetcdfVariable*>(nullptr));
  check(static_cast<const hg::Hdf5Dataset*>(nullptr));
}

TEST_CASE("the time axis: dates as cftime 1.6.6 has them") {
  struct Time {
    const char *units, *calendar;
    double value;
    const char* date;
  };
  for (const Time& time :
       {Time{"hours since 1900-01-01 00:00:0.0", "standard", 1060000, "2020-12-03T16:00:00"},
        {"days since 1850-01-01", "noleap", 60241.25, "2015-01-17T06:00:00"},
        {"days since 2000-02-28 12:00", "360_day", 3.5, "2000-03-02T00:00:00"},
        {"seconds since 1970-01-01T00:00:00Z", "proleptic_gregorian", 1709210096, "2024-02-29T12:34:56"},
        {"minutes since 2011-03-11 05:46:18", "gregorian", -90, "2011-03-11T04:16:18"},
        {"days since 0001-01-01", "proleptic_gregorian", 738000.5, "2021-07-30T12:00:00"},
        {"day since 2004-02-28", "365_day", 1, "2004-03-01T00:00:00"},
        {"hours since 2000-2-30 6:00", "360_day", 24.5, "2000-03-01T06:30:00"},
        {"days since 1600-02-28", "standard", 2, "1600-03-01T00:00:00"}}) {
    const hg::TimeAxis axis({time.value - 1e4, time.value, time.value + 1e4}, time.units, time.calendar);
    CHECK(axis.date(1) == time.date);
    CHECK(axis.index_of(time.date) == 1);
  }
  const Files files;
  const hg::TimeAxis axis(hg::NetcdfVariable(folder() / "classic.nc", "time"));
  CHECK(axis.size() == 2);
  CHECK(axis.date(1) == "2020-01-01T06:00:00");
  CHECK(axis.index_of("2020-01-01") == 0);
  CHECK(axis.index_of("2020-01-01T00:00:01") == 1);
  CHECK(axis.index_of("2021-01-01") == 2);
  const auto said = [](const char* units, const char* calendar) {
    return support::refusal<hg::Error>([&] { hg::TimeAxis({0}, units, calendar); });
  };
  CHECK(said("days since 1-1-1", "standard") ==
        "TimeAxis: 'days since 1-1-1' begins before 1582-10-15, where the calendar 'standard' changes: give "
        "proleptic_gregorian if that is meant");
  CHECK(
      said("months since 1990-01-01", "standard") ==
      "TimeAxis: units of 'months since 1990-01-01': give them as 'hours since 1900-01-01 00:00:00', or seconds, days");
  CHECK(said("days since 2001-02-29", "noleap") ==
        "TimeAxis: '2001-02-29' is no date of the calendar 'noleap': give one as 2018-01-01T06:00:00");
  CHECK(said("days since 1990-01-01", "julian") ==
        "TimeAxis: there is no calendar 'julian' here: standard, proleptic_gregorian, noleap, 360_day are read");
  CHECK(support::refusal<hg::Error>([] {
          hg::TimeAxis({1, 1}, "days since 1990-01-01");
        }) == "TimeAxis: its times do not increase");
}

TEST_CASE("what cannot be read is refused on every rank, with file and variable") {
  const Files files;
  const hg::Communicator world = support::world();
  const auto netcdf = [&](const char* file, const char* name) {
    return support::refusal<hg::CollectiveError>([&] { hg::NetcdfVariable(world, folder() / file, name); });
  };
  const auto hdf5 = [&](const char* file, const char* name) {
    return support::refusal<hg::CollectiveError>([&] { hg::Hdf5Dataset(world, folder() / file, name); });
  };
  const auto begins = [&](const char* name, const char* file) {
    return "cannot read '" + std::string(name) + "' of '" + (folder() / file).string() + "': ";
  };
  CHECK(netcdf("four.nc", "names") == begins("names", "four.nc") + "it holds no numbers: name another variable");
  CHECK(netcdf("four.nc", "f4") == begins("f4", "four.nc") + "it has no variable of this name: name one that it has");
  CHECK(netcdf("absent.nc", "f4") ==
        begins("f4", "absent.nc") + "there is no such file or folder: give the path of one that is there");
  CHECK(hdf5("five.h5", "text") == begins("text", "five.h5") + "it holds no plain numbers: name another dataset");
  CHECK(hdf5("five.h5", "absent") ==
        begins("absent", "five.h5") + "it has no dataset of this name that HDF5 can open: name one that it has");
  CHECK(hdf5("absent.h5", "f4").starts_with(begins("f4", "absent.h5")));
  const hg::NetcdfVariable variable(folder() / "four.nc", "deflate");
  std::vector<float> to(70);
  try {
    variable.read({1, 0, 0}, {2, 5, 7}, to.data());
    CHECK(false);
  } catch (const std::runtime_error& error) {
    CHECK(error.what() == begins("deflate", "four.nc") +
                              "points (1 x 0 x 0) and (2 x 5 x 7) from there on are asked for, but it is (2 x 5 x 7)");
  }
  const auto given_unmade = [](auto f) { return support::refusal<hg::CollectiveError>(f).substr(0, 22); };
  CHECK(given_unmade([&] { hg::save_netcdf(folder() / "never.nc", "u", Series()); }) == "save_netcdf is given a");
  CHECK(given_unmade([&] { hg::save_hdf5(folder() / "never.h5", "u", Series()); }) == "save_hdf5 is given a f");
  // a file cut short, a foreign one: refused, or read where what is lost is not asked for
  for (const char* file : {"classic.nc", "four.nc", "five.h5"}) {
    const fs::path damaged = folder() / ("damaged_" + std::to_string(world.rank()) + "_" + file);
    const std::uintmax_t whole = fs::file_size(folder() / file);
    for (int part = 0; part < 16; ++part) {
      fs::copy_file(folder() / file, damaged, fs::copy_options::overwrite_existing);
      fs::resize_file(damaged, whole * static_cast<std::uintmax_t>(part) / 16);
      const bool is_hdf5 = std::string(file) == "five.h5";
      try {
        if (is_hdf5)
          hg::Hdf5Dataset(damaged, "scaled").read({0, 0, 0}, {2, 5, 7}, to.data());
        else
          hg::NetcdfVariable(damaged, "packed").read({0, 0, 0}, {2, 5, 7}, to.data());
      } catch (const std::runtime_error& error) {
        CHECK(std::string(error.what()).starts_with("cannot read '"));
      }
    }
    fs::remove(damaged);
  }
}

TEST_CASE("a child process tries a file before this one opens it") {
  const Files files;
  const hg::Communicator world = support::world();
  // netCDF 4.9.0 crashes on a classic file of 2.6 billion dimensions
  const fs::path path = folder() / "crash.nc";
  if (world.rank() == 0) {
    fs::copy_file(folder() / "classic.nc", path);
    std::fstream(path, std::ios::in | std::ios::out | std::ios::binary).seekp(12).put(static_cast<char>(0x9e));
  }
  world.barrier();
  for (int again = 0; again < 2; ++again) {
    const std::string said = support::refusal<hg::CollectiveError>([&] { hg::NetcdfVariable(world, path, "f4"); });
    CAPTURE(said);
    CHECK(said.starts_with("cannot read 'f4' of '" + path.string() + "': "));
  }
  CHECK(support::refusal([&] { hg::NetcdfVariable(path, "f4"); }).starts_with("cannot read 'f4' of '"));
  // it replaces one that was sound when it was opened
  const fs::path own = folder() / ("replaced_" + std::to_string(world.rank()) + ".nc");
  fs::copy_file(folder() / "classic.nc", own);
  const hg::NetcdfVariable variable(own, "f4");
  std::vector<float> all(70);
  variable.read({0, 0, 0}, {2, 5, 7}, all.data());
  fs::remove(own);
  fs::copy_file(path, own);
  CHECK(support::refusal([&] {
          variable.read({0, 0, 0}, {2, 5, 7}, all.data());
        }).starts_with("cannot read 'f4' of '"));

  using hg::detail::Child;
  const auto fate = [](auto f) { return Child::fate_of(f, {.cpu_seconds = 1}); };
  CHECK(fate([] { std::raise(SIGSEGV); }).end == "crashes (signal 11)");
  CHECK(fate([] { std::abort(); }).end == "crashes (signal 6)");
  CHECK(fate([] { std::_Exit(0); }).end == "crashes");
  CHECK(fate([] { throw std::runtime_error("no such thing"); }).refusal == "no such thing");
  const Child::Fate well = fate([] { std::puts("nobody sees this"); });
  CHECK(well.end.empty());
  CHECK(well.refusal.empty());
  if (world.rank() != 0) return;
  CHECK(fate([] {
          for (volatile bool goes_on = true; goes_on;) {
          }
        }).end == "does not come back");
  const auto sleeps = Child::fate_of([] { ::pause(); }, {.seconds = 1});  // no verdict
  CHECK(sleeps.end.empty());
#ifndef __SANITIZE_ADDRESS__
  CHECK(fate([] { std::vector<char>(std::size_t{1} << 30); }).refusal == "std::bad_alloc");
#endif
}

TEST_CASE("pieces of a field, with halos; each rank reads its own bytes") {
  const Files files;
  const hg::Communicator world = support::world();
  const hg::NetcdfVariable packed(world, folder() / "four.nc", "packed");
  const hg::Hdf5Dataset scaled(world, folder() / "five.h5", "scaled");
  for (const auto& mesh : support::meshes(1)) {
    support::Field<float, 1> field(mesh, {1, 1, 5, 7}), other(mesh, {1, 1, 5, 7});
    hg::load_variable(packed, field, {1});
    hg::load_variable(scaled, other, {1});
    const auto all = hg::full_tensor(field), same_all = hg::full_tensor(other);
    bool right = true;
    for (index_t k = 0; k < 35; ++k) {
      const auto at = static_cast<std::size_t>(k);
      right = right && same(all[at], k == 17 ? std::nan("") : value(1, k / 7, k % 7));
      right = right && same_all[at] == value(1, k / 7, k % 7);
    }
    CHECK(right);
    const auto own = hg::detail::piece_box(field, mesh.rank());
    const auto piece = hg::read_piece(scaled, field, {0}, {0, 0, 2, 1});
    if (own.points() > 0) {
      CHECK(piece.begin[2] == std::max<index_t>(0, own.begin[2] - 2));
      CHECK(piece.begin[2] + piece.extent[2] == std::min<index_t>(5, own.begin[2] + own.extent[2] + 2));
      CHECK(piece.begin[3] + piece.extent[3] == std::min<index_t>(7, own.begin[3] + own.extent[3] + 1));
      std::size_t k = 0;
      for (index_t i = piece.begin[2]; i < piece.begin[2] + piece.extent[2]; ++i)
        for (index_t j = piece.begin[3]; j < piece.begin[3] + piece.extent[3]; ++j)
          right = right && piece.values[k++] == value(0, i, j);
      CHECK(right);
      CHECK(k == piece.values.size());
    } else {
      CHECK(piece.values.empty());
    }
    CHECK(support::refusal<hg::CollectiveError>([&] {
            hg::read_piece(scaled, field, {0}, {0, -1, 0, 0});
          }) ==
          "read_piece: a halo of (0 x -1 x 0 x 0) for a field of 4 dimensions: give one number of 0 or more for each");
  }
  // 4 MB in one piece: a rank reads its rows and the file's few headers
  using Rows = support::Field<float, 1>;
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  const std::array<index_t, 4> extents{1, 1, 1024, 1000};
  const auto values = support::numbers<float>(1024 * 1000, 3);
  const fs::path path = folder() / "large.nc";
  hg::save_netcdf(path, "a", hg::distribute_tensor<Rows>(mesh, extents, values));
  Rows again(mesh, extents);
  const hg::NetcdfVariable netcdf(world, path, "a");
  const hg::Hdf5Dataset hdf5(world, path, "a");
  const auto own = static_cast<std::uint64_t>(hg::detail::piece_box(again, mesh.rank()).points()) * sizeof(float);
  const auto read_by = [&](auto load) {
    again = Rows(mesh, extents);
    world.barrier();
    const std::uint64_t before = bytes_of_process();
    load();
    const std::uint64_t bytes = bytes_of_process() - before;
    CHECK(std::ranges::equal(hg::full_tensor(again), values));
    return bytes;
  };
  const std::uint64_t by_netcdf = read_by([&] { hg::load_variable(netcdf, again); });
  const std::uint64_t by_hdf5 = read_by([&] { hg::load_variable(hdf5, again); });
  CHECK(netcdf.bytes_read() == own);
  CHECK(hdf5.bytes_read() == own);
  CHECK(by_netcdf >= own);
  CHECK(by_netcdf < own + 100'000);
  CHECK(by_hdf5 >= own);
  CHECK(by_hdf5 < own + 100'000);
}

TEST_CASE("datasets of a series: in netCDF, in HDF5, and in two files") {
  const Files files;
  const hg::Communicator world = support::world();
  using Field = support::Field<double, 1>;
  using Times = support::Field<double, 1>;
  constexpr index_t height = 9, width = 8;
  const auto number = [](index_t t, index_t k) { return static_cast<double>(100 * t + k); };
  const auto mesh_of_files = hg::device_mesh<support::Mesh>(world, {1, -1, 1});
  const auto write = [&](const char* name, index_t first, index_t last) {
    const hg::NetcdfSeries<Times> out(folder() / name, "h", mesh_of_files, {last - first, 1, height, width},
                                      {.level = 2, .dimension_names = {"time", "level", "y", "x"}});
    for (index_t t = first; t < last; ++t) {
      std::vector<double> all;
      for (index_t k = 0; k < height * width; ++k) all.push_back(number(t, k));
      out.write(t - first, hg::distribute_tensor<Times>(mesh_of_files, {1, 1, height, width}, all));
    }
  };
  write("all.nc", 0, 7);
  write("begin.nc", 0, 3);
  write("end.nc", 3, 7);
  const hg::FieldDatasetOptions options{.inputs = {"h"}, .targets = {"h"}, .samples = 2, .seed = 4, .normalise = false};
  for (const auto& mesh : support::meshes(2)) {
    const auto check = [&](const auto& store) {
      const hg::FieldDataset<Field, Field> data(store, mesh, options);
      REQUIRE(data.size() == 3);
      data.prefetch(1);
      for (std::size_t i = 0; i < 3; ++i) {
        const auto batch = data[i];
        const auto image = hg::full_tensor(batch.x), label = hg::full_tensor(batch.y);
        const auto times = data.times(i);
        bool right = true;
        for (index_t s = 0; s < 2; ++s)
          for (index_t k = 0; k < height * width; ++k) {
            const auto at = static_cast<std::size_t>(s * height * width + k);
            right = right && image[at] == number(times[static_cast<std::size_t>(s)], k) &&
                    label[at] == number(times[static_cast<std::size_t>(s)] + 1, k);
          }
        CHECK(right);
      }
    };
    check(hg::NetcdfFile(folder() / "all.nc"));
    check(hg::Hdf5File(folder() / "all.nc"));
    check(
        hg::ConcatenatedStore(std::vector{hg::NetcdfFile(folder() / "begin.nc"), hg::NetcdfFile(folder() / "end.nc")}));
  }
  // two times and what does not change as the image; the one after by the label; in the variables' own units
  using Plane =
      hg::Sharded<hg::Tensor<double, hg::dyn, hg::dyn>, support::Mesh, hg::Replicate, hg::Shard<0>, hg::Shard<1>>;
  hg::save_netcdf(folder() / "all.nc", "land",
                  hg::distribute_tensor<Plane>(mesh_of_files, {height, width}, support::numbers<double>(72, 9)));
  for (const auto& mesh : support::meshes(1)) {
    const hg::FieldDataset<support::Field<double, 3>, Field> data(hg::NetcdfFile(folder() / "all.nc"), mesh,
                                                                  {.inputs = {"h"},
                                                                   .targets = {"h"},
                                                                   .statics = {"land"},
                                                                   .input_times = {-1, 0},
                                                                   .shuffle = false,
                                                                   .statistics_first = 1,
                                                                   .statistics_last = 4});
    REQUIRE(data.size() == 5);
    CHECK(data.statistics("h").mean[0] == doctest::Approx(200 + 71 / 2.0));  // of times 1, 2, 3
    for (std::size_t i = 0; i < 4; ++i) {
      const auto now = data[i], later = data[i + 1];
      CHECK(std::ranges::equal(hg::full_tensor(data.next(now.x, now.y)), hg::full_tensor(later.x)));
      const auto own_units = hg::full_tensor(data.denormalised(now.y));
      bool right = true;
      for (index_t k = 0; k < height * width; ++k)
        right =
            right && std::abs(own_units[static_cast<std::size_t>(k)] - number(static_cast<index_t>(i) + 2, k)) < 1e-9;
      CHECK(right);
    }
  }
  const hg::FieldDataset<Field, Field> two_steps(
      hg::NetcdfFile(folder() / "all.nc"), mesh_of_files,
      {.inputs = {"h"}, .targets = {"h"}, .target_times = {2}, .shuffle = false, .normalise = false});
  CHECK(support::refusal<hg::CollectiveError>([&] {
          const auto batch = two_steps[0];
          two_steps.next(batch.x, batch.y);
        }) ==
        "FieldDataset: there is no next image: the targets must be one step after the last of consecutive input times");
  const hg::ConcatenatedStore differ(
      std::vector{hg::Hdf5File(folder() / "four.nc"), hg::Hdf5File(folder() / "all.nc")});
  CHECK(support::refusal<hg::CollectiveError>([&] {
          differ.variable(world, "h");
        }).starts_with("cannot read 'h' of '" + (folder() / "four.nc").string()));
}

TEST_CASE("a series larger than memory") {
  const Files files;
  check_larger_than_memory<Netcdf>();
  check_larger_than_memory<Hdf5>();
  check_larger_than_memory<Zarr>();
}

TEST_CASE("for xarray: netCDF and HDF5 (tests/files/xarray_test.py)") {
  const char* const where = std::getenv("HALOGEN_XARRAY_STORE");
  if (where == nullptr) return;
  const hg::Communicator world = support::world();
  using Image = support::Field<float, 2>;
  const auto mesh = hg::device_mesh<support::Mesh>(world, {1, 2, -1});
  const fs::path path = std::string(where) + ".nc";
  const auto field = hg::distribute_tensor<Image>(mesh, {3, 2, 9, 7}, support::numbers<float>(378, 3));
  for (const auto& [name, options] : std::map<std::string, hg::NetcdfOptions>{
           {"plain", {}}, {"deflate", {.level = 4}}, {"chunks", {.chunks = {1, 2, 4, 3}}}}) {
    hg::NetcdfOptions named = options;
    named.dimension_names = {"time", "channel", "lat", "lon"};
    named.attributes = {{"units", "K"}, {"long_name", name}};
    hg::save_netcdf(path, name, field, named);
  }
  hg::save_hdf5(std::string(where) + ".h5", "fields/plain", field, {.level = 4, .attributes = {{"units", "K"}}});
  if (world.rank() == 0)
    hg::save_netcdf_coordinate(path, "lat", {-4, -3, -2, -1, 0, 1, 2, 3, 4}, {{"units", "degrees_north"}});
  world.barrier();
}

}  // namespace test_netcdf_files
