// program: field_files
// Paths that the system refuses: every reader and writer says on all ranks, in one sentence, what is wrong and what to
// do. No words of a library's are among it.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <filesystem>
#include <fstream>
#include <halogen/io/fields.hpp>
#include <halogen/io/hdf5_writer.hpp>
#include <halogen/io/netcdf_writer.hpp>
#include <halogen/io/zarr_writer.hpp>

#include "support/meshes.hpp"
#include "support/refusal.hpp"
#include "support/run_name.hpp"

namespace test_refused_paths {

namespace {

namespace fs = std::filesystem;
using Plane = support::Field<float, 1>;

/// A folder with a file in it, the same of all ranks, gone with the object. Collective.
struct Folder {
  fs::path path = fs::temp_directory_path() / ("halogen_refused_" + support::run_name(support::world().size()));
  Folder() {
    if (support::world().rank() == 0) {
      fs::remove_all(path);
      fs::create_directories(path);
      std::ofstream(path / "file") << "x";
      fs::create_symlink(path / "circle", path / "circle");
    }
    support::world().barrier();
  }
  ~Folder() {
    support::world().barrier();
    if (support::world().rank() == 0) fs::remove_all(path);
  }
};

}  // namespace

TEST_CASE("each writer and reader of files says what is wrong with a path, and what to do") {
  const Folder folder;
  const auto mesh = hg::device_mesh<support::Mesh>(support::world(), {1, 1, -1});
  const Plane plane(mesh, {1, 1, 2, 8});
  const std::string long_name(300, 'n'), in = folder.path.string();
  const auto check = [&](const fs::path& path, const std::string& words, auto f) {
    CAPTURE(path.string());
    const std::string said = support::refusal<hg::CollectiveError>([&] { f(path); });
    CAPTURE(said);
    CHECK(said.starts_with("cannot "));
    CHECK(said.find("'" + path.string()) != std::string::npos);
    CHECK(said.ends_with(words));
    for (const char* foreign : {"filesystem error", "No such file", "ot a directory", "NetCDF:", "too long"})
      CHECK(said.find(foreign) == std::string::npos);
  };
  const std::string no_folder = ": there is no folder '" + in + "/none': make it, or give another path",
                    no_file = ": there is no such file or folder: give the path of one that is there",
                    is_file = ": '" + in + "/file' is no folder: remove it, or give another path",
                    is_long =
                        ": a name in it has 300 characters, more than the 255 that the system takes: give a "
                        "shorter path",
                    is_folder = ": it is a folder, which a file must not replace: give the path of a regular file",
                    circle = ": its symbolic links lead to each other: correct them, or give another path";
  const auto save_fields = [&](const fs::path& path) { hg::save_fields(path, hg::NamedField{"u", plane}); };
  const auto load_field = [&](const fs::path& path) { hg::load_field<Plane>(path, "u", mesh); };
  const auto save_netcdf = [&](const fs::path& path) { hg::save_netcdf(path, "u", plane); };
  const auto load_netcdf = [&](const fs::path& path) { hg::NetcdfVariable(support::world(), path, "u"); };
  const auto save_hdf5 = [&](const fs::path& path) { hg::save_hdf5(path, "u", plane); };
  const auto load_hdf5 = [&](const fs::path& path) { hg::Hdf5Dataset(support::world(), path, "u"); };
  const auto written = [&](auto save) {
    check(folder.path / "none" / "x", no_folder, save);
    check(folder.path / "file" / "x", is_file, save);
    check(folder.path, is_folder, save);
    check(folder.path / "circle", circle, save);
  };
  written(save_fields), written(save_netcdf), written(save_hdf5);
  check(folder.path / (std::string(250, 'n')),
        ": a name in it has 258 characters, more than the 255 that the system "
        "takes: give a shorter path",
        save_fields);  // with ".partial"
  const auto read = [&](auto load) {
    check(folder.path / "none", no_file, load);
    check(folder.path / "none" / "x", no_folder, load);
    check(folder.path / "file" / "x", is_file, load);
    check(folder.path / long_name, is_long, load);
    check(folder.path / "circle", circle, load);
  };
  read(load_field), read(load_netcdf), read(load_hdf5);
  check(folder.path / "file" / "x", is_file, [&](const fs::path& path) { hg::save_zarr(path, "u", plane); });
  check(folder.path / long_name, is_long, [&](const fs::path& path) { hg::save_zarr(path, "u", plane); });
  check(folder.path / "none", ": there is no such folder: give the path of a store that is there",
        [&](const fs::path& path) { hg::ZarrArray(support::world(), path, "u"); });
}

TEST_CASE("what the system refuses has a sentence that ends with what to do") {
  using hg::detail::words_of_system;
  for (const int error : {ENOENT,       ENOTDIR, EACCES, EPERM,  ENOSPC, EDQUOT, EROFS,   EISDIR, EEXIST, ENOTEMPTY,
                          ENAMETOOLONG, ELOOP,   EFBIG,  EMFILE, ENFILE, EBUSY,  ETXTBSY, EIO,    ENOMEM, EPROTO}) {
    const std::string words = words_of_system(error, "/nowhere/x");
    CAPTURE(words);
    CHECK(words.find(": ") != std::string::npos);
    CHECK((words.find(std::strerror(error)) != std::string::npos) == (error == EPROTO));
  }
  CHECK(words_of_system(ENOENT, "none/x").starts_with("there is no folder 'none': "));
  CHECK(words_of_system(EACCES).find("user " + std::to_string(::geteuid())) != std::string::npos);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  CHECK(words_of_system(EMFILE).find("ulimit -n, " + hg::detail::limit_text(RLIMIT_NOFILE)) != std::string::npos);
}

}  // namespace test_refused_paths
