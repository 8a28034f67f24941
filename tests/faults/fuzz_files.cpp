// fuzz_files [--cases N] [--seed S] [--case K] [--library L]: files that somebody has damaged, under the sanitizers.
// Each case changes one file of a format that Halogen reads by itself (safetensors, the manifest of a checkpoint, Zarr
// of both versions with their codecs and shards), or that a library reads for it (netCDF of all kinds, HDF5), or the
// units of a time axis, and reads it. It is read, or refused by a std::runtime_error; nothing else may happen, and
// nothing may be allocated that is much larger than the files. One case in L (40) is of a library's file: each starts a
// child process.
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <halogen/io/checkpoint/checkpoint_folder.hpp>
#include <halogen/io/time_axis.hpp>
#if HALOGEN_TEST_LIBRARIES
#include <halogen/io/hdf5.hpp>
#include <halogen/io/netcdf.hpp>
#endif
#include <halogen/io/zarr.hpp>
#include <random>

#include "support/unpack.hpp"

extern "C" void __sanitizer_set_death_callback(void (*)());
extern "C" const char* __asan_default_options() {
  return "detect_leaks=0:max_allocation_size_mb=256:allocator_may_return_null=1";
}

namespace {

namespace fs = std::filesystem;
using halogen::index_t;
using Bits = std::mt19937_64;

std::uint64_t seed = 1, number = 0, one_in_library = 40;

void write(const fs::path& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

/// What damage does to bytes, and to the numbers and words of JSON.
std::string damaged(std::string bytes, Bits& bits) {
  static const char* const words[] = {"-1",
                                      "0",
                                      "1e99",
                                      "18446744073709551615",
                                      "9223372036854775807",
                                      "[]",
                                      "null",
                                      "4294967296",
                                      "\"\"",
                                      "{}",
                                      "1.5",
                                      "true",
                                      "1000000000000",
                                      "[[[[[[[[",
                                      "\"bytes\""};
  const int times = bits() % 4 == 0 ? 3 : 1;
  for (int i = 0; i < times && !bytes.empty(); ++i) {
    const std::size_t at = bits() % bytes.size();
    switch (bits() % 6) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes[at] = static_cast<char>(bits());
        break;
      case 2:
        bytes.insert(at, bytes.substr(bits() % bytes.size(), bits() % 64));
        break;
      case 3:
        bytes.erase(at, 1 + bits() % 16);
        break;
      case 4: {  // a number or a word becomes another
        const std::size_t first = bytes.find_first_of("0123456789", at);
        if (first == std::string::npos) break;
        const std::size_t last = bytes.find_first_not_of("0123456789", first);
        bytes.replace(first, last == std::string::npos ? bytes.size() - first : last - first,
                      words[bits() % std::size(words)]);
        break;
      }
      default:
        bytes[at] ^= static_cast<char>(1 << bits() % 8);
    }
  }
  return bytes;
}

/// Each format as a way to damage something and read it.
class Formats {
 public:
  explicit Formats(const fs::path& folder) : folder_(folder) {
    support::unpack("zarr.json", folder_ / "zarr");
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder_ / "zarr"))
      if (entry.is_regular_file()) files_.push_back(entry.path());
    std::ranges::sort(files_);
    const std::vector<halogen::NamedTensor> tensors{halogen::named_tensor<float>("weight", {2, 3}, {1, 2, 3, 4, 5, 6}),
                                                    halogen::named_tensor<double>("of.a.layer", {2}, {7, 8}),
                                                    halogen::named_tensor<std::int64_t>("step", {}, {9}),
                                                    halogen::named_tensor<float>("none", {0, 4}, {})};
#if HALOGEN_TEST_LIBRARIES
    support::unpack("netcdf.json", folder_ / "library");
    for (const char* name : {"classic.nc", "offset64.nc", "data64.nc", "four.nc", "five.h5"})
      library_files_[name] = halogen::detail::text_in(folder_ / "library" / name, 1 << 20);
    halogen::detail::TriedFiles::all().limits.cpu_seconds = 1;
#endif
    halogen::write_safetensors(tensors_, tensors);
    safetensors_ = halogen::detail::text_in(tensors_, 1 << 20);
    halogen::detail::CheckpointManifest manifest;
    manifest.step = 120, manifest.dtype = "F32";
    manifest.tensors = {{"0.weight", {2, 3}, 0, 6}, {"0.bias", {3}, 6, 3}};
    manifest.more = {{"epoch", 3}};
    contents_ = halogen::detail::Json::parse(
                    halogen::detail::manifest_text(
                        manifest, {{{"file", "share-00000.safetensors"},
                                    {"bytes", 300},
                                    {"crc32", 77},
                                    {"pieces", {{"parameters", 0, 5, 100}, {"optimizer.exp_avg", 0, 9, 140}}}}}))
                    .at("contents")
                    .dump();
  }

  /// Whether what was damaged could be read.
  bool run(Bits& bits) const {
    try {
#if HALOGEN_TEST_LIBRARIES
      if (bits() % one_in_library == 0) return read_by_library(bits), true;
#endif
      switch (bits() % 4) {
        case 0:
          read_safetensors(bits);
          break;
        case 1:
          read_manifest(bits);
          break;
        case 2:
          read_time(bits);
          break;
        default:
          read_zarr(bits);
      }
      return true;
    } catch (const std::runtime_error&) {
      return false;
    }
  }

 private:
  void read_safetensors(Bits& bits) const {
    write(tensors_, damaged(safetensors_, bits));
    halogen::read_safetensors(tensors_);
  }

  /// With a checksum that is right, or else nothing behind it would ever be looked at.
  void read_manifest(Bits& bits) const {
    using halogen::detail::Json;
    const std::string contents = damaged(contents_, bits);
    const Json parsed = Json::parse(contents, nullptr, false);
    const std::string text = parsed.is_discarded() ? contents : parsed.dump(-1, ' ', false, ignored);
    halogen::detail::parse_manifest(
        "{\"crc32\":" + std::to_string(halogen::detail::crc32_of(text.data(), text.size())) + ",\"contents\":" + text +
        "}");
  }

  void read_time(Bits& bits) const {
    const halogen::TimeAxis time({0, 6, 12, 1e9}, damaged("hours since 1979-01-01 06:30:00", bits),
                                 bits() % 4 == 0 ? damaged("proleptic_gregorian", bits) : "standard");
    for (index_t i = 0; i < time.size(); ++i) time.date(i);
    time.index_of(damaged("2018-01-01T06:00:00", bits));
  }

  void read_zarr(Bits& bits) const {
    const fs::path& file = files_[bits() % files_.size()];
    const Restored restored(file);
    write(file, damaged(restored.bytes, bits));
    const fs::path inside = fs::relative(file, folder_ / "zarr");
    const fs::path store = folder_ / "zarr" / *inside.begin();
    fs::path name = *std::next(inside.begin());
    if (!fs::is_directory(store / name)) name = store.filename().string().starts_with("cf") ? "t2m" : "float32";
    const halogen::ZarrArray array(store, name);
    read_all(array);
  }

#if HALOGEN_TEST_LIBRARIES
  /// A variable of a file, in which some bytes are others, or too many or too few.
  void read_by_library(Bits& bits) const {
    struct Of {
      const char *file, *variable;
    };
    static constexpr Of all[] = {{"classic.nc", "f4"},       {"classic.nc", "packed"}, {"offset64.nc", "f8"},
                                 {"data64.nc", "unsigned"},  {"data64.nc", "packed"},  {"four.nc", "deflate"},
                                 {"four.nc", "forecast/f4"}, {"four.nc", "big"},       {"five.h5", "f4"},
                                 {"five.h5", "fields/f8"},   {"five.h5", "packed"},    {"five.h5", "scaled"}};
    const Of& of = all[bits() % std::size(all)];
    std::string bytes = library_files_.at(of.file);
    if (bits() % 4 == 0) {
      bytes = damaged(bytes, bits);
    } else {
      for (std::uint64_t i = 0; i < 1 + bits() % 3; ++i) {
        const std::size_t at = bits() % (bytes.size() - 4);
        for (std::size_t k = at; k < at + 1 + bits() % 4; ++k)
          bytes[k] = static_cast<char>(bits() % 3 == 0 ? 255 : bits() % 2 == 0 ? 0 : bits());
      }
    }
    const Temporary file(folder_ / "library" / std::to_string(number), bytes);
    if (std::string_view(of.file).ends_with("h5"))
      read_all(halogen::Hdf5Dataset(file.path, of.variable));
    else
      read_all(halogen::NetcdfVariable(file.path, of.variable));
  }
  struct Temporary {
    fs::path path;
    Temporary(fs::path to, const std::string& bytes) : path(std::move(to)) { write(path, bytes); }
    ~Temporary() { fs::remove(path); }
  };
#endif

  template <class V>
  static void read_all(const V& variable) {
    const std::vector<index_t> begin(variable.shape().size(), 0), extent = variable.shape();
    index_t points = 1;
    for (const index_t length : extent)
      points = std::min<index_t>(points, 1 << 30) * std::min<index_t>(length, 1 << 30);
    if (points > 100'000) return;  // a field of the caller's
    std::vector<float> all(static_cast<std::size_t>(points));
    variable.read(begin, extent, all.data());
  }

  /// A file that gets its bytes back.
  struct Restored {
    fs::path file;
    std::string bytes;
    explicit Restored(const fs::path& of) : file(of), bytes(halogen::detail::text_in(of, 1 << 20)) {}
    ~Restored() { write(file, bytes); }
  };

  static constexpr auto ignored = nlohmann::json::error_handler_t::ignore;
  fs::path folder_, tensors_ = folder_ / "tensors.safetensors";
  std::vector<fs::path> files_;
  std::map<std::string, std::string> library_files_;
  std::string safetensors_, contents_;
};

std::uint64_t count_of(const char* text) {
  std::uint64_t value = 0;
  const char* const end = text + std::strlen(text);
  if (std::from_chars(text, end, value).ptr != end) throw std::runtime_error(std::string(text) + " is no count");
  return value;
}

}  // namespace

int main(int argc, char** argv) try {
  std::uint64_t cases = 10'000, only = UINT64_MAX;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string option = argv[i];
    (option == "--cases"     ? cases
     : option == "--seed"    ? seed
     : option == "--library" ? one_in_library
                             : only) = std::max<std::uint64_t>(option == "--library", count_of(argv[i + 1]));
  }
  __sanitizer_set_death_callback([] {
    std::fprintf(stderr, "fuzz_files: this shows it again: --seed %llu --library %llu --case %llu\n",
                 static_cast<unsigned long long>(seed), static_cast<unsigned long long>(one_in_library),
                 static_cast<unsigned long long>(number));
  });
  const fs::path memory = "/dev/shm";
  const fs::path folder = (fs::is_directory(memory) ? memory : fs::temp_directory_path()) /
                          ("halogen_fuzz_files_" + std::to_string(::getpid()));
  fs::create_directories(folder);
  std::uint64_t read = 0, refused = 0;
  try {
    const Formats formats(folder);
    for (number = only == UINT64_MAX ? 0 : only; number < (only == UINT64_MAX ? cases : only + 1); ++number) {
      std::seed_seq sequence{seed, number};
      Bits bits(sequence);
      ++(formats.run(bits) ? read : refused);
    }
  } catch (...) {
    fs::remove_all(folder);
    throw;
  }
  fs::remove_all(folder);
  std::printf("%llu files refused, %llu read\n", static_cast<unsigned long long>(refused),
              static_cast<unsigned long long>(read));
  return only != UINT64_MAX || (refused > cases / 10 && read > cases / 20) ? 0 : 1;
} catch (const std::exception& error) {
  std::fprintf(stderr, "fuzz_files: %s; this shows it again: --seed %llu --library %llu --case %llu\n", error.what(),
               static_cast<unsigned long long>(seed), static_cast<unsigned long long>(one_in_library),
               static_cast<unsigned long long>(number));
  return 1;
}
