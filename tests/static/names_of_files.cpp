// As names_of_detail.cpp, of files, as far as their libraries are there.
#include "../support/names_of_detail.hpp"
#if __has_include(<nlohmann/json.hpp>) && __has_include(<zlib.h>)
#include <halogen/files.hpp>
#include <halogen/io/field_dataset.hpp>
#include <halogen/io/time_axis.hpp>
#if __has_include(<zstd.h>) && __has_include(<blosc.h>)
#include <halogen/io/zarr_writer.hpp>
#define HAS_ZARR 1
#endif
#if __has_include(<netcdf.h>)
#include <halogen/io/netcdf_writer.hpp>
#define HAS_NETCDF 1
#endif
#if __has_include(<hdf5.h>)
#include <halogen/io/hdf5_writer.hpp>
#define HAS_HDF5 1
#endif

namespace {

using Grid = hg::Mesh<"data", "height">;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 2, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>>;

static_assert(none_finds_detail<hg::NamedTensor, hg::TensorPlace, hg::NamedField<Image>, hg::LoadOptions,
                                hg::CheckpointOptions, hg::LoadedCheckpoint, hg::Checkpoints>());
static_assert(none_finds_detail<hg::Batch<Image, Image>, hg::StepReport, hg::EpochReport, hg::FitOptions,
                                hg::FitCheckpoints, hg::FitHistory>());
static_assert(none_finds_detail<hg::FieldDatasetOptions, hg::FieldDataset<Image, Image>, hg::TimeAxis,
                                hg::VariablePiece<float>, hg::AnyVariable>());
#ifdef HAS_ZARR
static_assert(none_finds_detail<hg::ZarrArray, hg::ZarrStore, hg::FileStore<hg::ZarrArray>,
                                hg::ConcatenatedStore<hg::ZarrStore>, hg::ZarrOptions, hg::ZarrSeries<Image>>());
#endif
#ifdef HAS_NETCDF
static_assert(none_finds_detail<hg::NetcdfVariable, hg::NetcdfFile, hg::NetcdfOptions, hg::NetcdfSeries<Image>>());
#endif
#ifdef HAS_HDF5
static_assert(none_finds_detail<hg::Hdf5Dataset, hg::Hdf5File, hg::Hdf5Options, hg::Hdf5Series<Image>>());
#endif

[[maybe_unused]] void files(const Image& image) {
  const auto check = [](const auto&... x) { static_assert(none_finds_detail<std::decay_t<decltype(x)>...>()); };
  const auto data = hg::batches(2, [&](hg::index_t) { return hg::Batch{image, image}; });
  check(data, data[0], hg::named_tensor<float>("a", {1}, {1.0f}), hg::read_safetensors_header("a"));
}

}  // namespace
#endif
