// Reading a field by piece beside dd, which reads as many bytes, writing a checkpoint beside plain writes that
// are synchronised, and steps that are saved while they go on beside steps alone (see beside_mpi.hpp). Files lie in
// HALOGEN_BENCH_FOLDER, or in the temporary one; 1 GB at most, and as much in memory.
//
//   mpirun -n 4 bench_files [NAME]...
#include <halogen/files.hpp>
#include <halogen/io/hdf5.hpp>
#include <halogen/io/netcdf_writer.hpp>
#include <halogen/io/zarr_writer.hpp>

#include "beside_mpi.hpp"

namespace {

namespace fs = std::filesystem;
using Mesh = hg::Mesh<"height">;
using Field = hg::Sharded<hg::Tensor<float, 1, 1, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;
constexpr hg::index_t rows = 16384, columns = 16384;  // 1 GiB

fs::path folder() {
  const char* named = std::getenv("HALOGEN_BENCH_FOLDER");
  return (named != nullptr ? fs::path(named) : fs::temp_directory_path()) / "halogen_bench_files";
}

/// What one writes by hand: this rank's part of a file of plain bytes.
class PlainFile {
 public:
  PlainFile(const hg::Communicator& world, std::size_t bytes)
      : path_(folder() / ("plain_" + std::to_string(world.rank()))), data_(bytes / sizeof(float), 1.5f) {}
  void write() const {
    const hg::detail::PlacedFile file(path_, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(data_.data(), data_.size() * sizeof(float), 0);
    file.synchronise();
  }
  void read() const {
    const std::string command = "dd if='" + path_.string() + "' of=/dev/null bs=1M status=none";
    if (std::system(command.c_str()) != 0) throw hg::Error("cannot run: " + command);
  }

 private:
  fs::path path_;
  std::vector<float> data_;
};

template <class Open>
void read(const hg::Environment& env, const std::string& name, Open open) {
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1});
  Field field(mesh, {1, 1, rows, columns});
  PlainFile plain(env.world(), static_cast<std::size_t>(field.local_extent(2) * columns) * sizeof(float));
  plain.write();
  const auto variable = open(field);
  bench::compare(
      env, name, 1, [&] { hg::load_variable(variable, field); }, [&] { plain.read(); });
}

/// 89 million numbers, with two moments each: 1.07 GB.
using Wide = hg::Sequential<hg::Conv2d<4096, 4096>, hg::Conv2d<4096, 4096>, hg::Conv2d<4096, 4096>,
                            hg::Conv2d<4096, 4096>, hg::Conv2d<4096, 5500>>;
void save_checkpoint(const hg::Environment& env) {
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1});
  const hg::Trainer trainer(Wide{}, hg::AdamW{}, mesh, {.seed = 1});
  const std::size_t bytes = 3 * sizeof(float) * static_cast<std::size_t>(hg::Parameters<Wide, float>::count);
  const PlainFile plain(env.world(), bytes / static_cast<std::size_t>(env.world().size()));
  hg::Checkpoints checkpoints(folder() / "checkpoints", {.keep_last = 1});
  bench::compare(
      env, "save_checkpoint", 1, [&] { checkpoints.save(trainer); }, [&] { plain.write(); });
}

/// Ten steps, the first of which begins a checkpoint, beside ten steps.
void save_while_training(const hg::Environment& env) {
  using Net = hg::UNet<3, 3, 32>;
  using Image = hg::Sharded<hg::Tensor<float, 1, 3, hg::dyn, hg::dyn>, Mesh, hg::Shard<2>>;
  const auto mesh = hg::device_mesh<Mesh>(env.world(), {-1});
  Image x(mesh, {1, 3, 256, 256}), y(mesh, {1, 3, 256, 256});
  x = hg::randn_like(x, {.seed = 1});
  y = 0.5f * x;
  hg::Trainer trainer(Net{}, hg::AdamW{}, mesh, {.seed = 1});
  hg::Checkpoints checkpoints(folder() / "training", {.keep_last = 1, .asynchronous = true});
  const auto steps = [&] {
    for (int i = 0; i < 10; ++i) trainer.step(hg::mse, x, y);
  };
  bench::compare(
      env, "save_while_training", 1,
      [&] {
        checkpoints.save(trainer);
        steps();
      },
      steps);
  checkpoints.wait();
}

}  // namespace

int main(int argc, char** argv) {
  hg::Environment env(argc, argv);
  const auto clear = [&] {
    env.world().barrier();
    if (env.is_root()) fs::remove_all(folder());
    env.world().barrier();
  };
  const auto with_files = [&](const char* name, auto run) {
    if (!bench::wanted(argc, argv, name)) return;
    clear();
    if (env.is_root()) fs::create_directories(folder());
    env.world().barrier();
    run();
    clear();
  };
  const fs::path netcdf = folder() / "field.nc", zarr = folder() / "field.zarr";
  with_files("read_netcdf", [&] {
    read(env, "read_netcdf", [&](const Field& field) {
      hg::save_netcdf(netcdf, "a", field);
      return hg::NetcdfVariable(env.world(), netcdf, "a");
    });
  });
  with_files("read_hdf5", [&] {
    read(env, "read_hdf5", [&](const Field& field) {
      hg::save_netcdf(netcdf, "a", field);
      return hg::Hdf5Dataset(env.world(), netcdf, "a");
    });
  });
  with_files("read_zarr", [&] {
    read(env, "read_zarr", [&](const Field& field) {
      hg::save_zarr(zarr, "a", field, {.compression = hg::ZarrCompression::none});
      return hg::ZarrArray(env.world(), zarr, "a");
    });
  });
  with_files("save_checkpoint", [&] { save_checkpoint(env); });
  with_files("save_while_training", [&] { save_while_training(env); });
}
