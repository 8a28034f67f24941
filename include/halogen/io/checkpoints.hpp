// Checkpoints of a run that ends when it must and goes on where it was: folders that each rank writes its share of.
//
//   hg::Checkpoints checkpoints("run/checkpoints", {.keep_last = 3, .asynchronous = true});
//   if (const auto found = checkpoints.load_newest(trainer)) first = found->more["day"];
//   for (...) {
//     trainer.step(...);
//     if (step % 100 == 0) checkpoints.save(trainer, {{"day", day}});
//   }
//   checkpoints.wait();
//
// hg::fit does all of this by its option `checkpoints`. The file system is one that all ranks see.
#pragma once

#include <atomic>
#include <exception>
#include <sstream>
#include <thread>

#include "halogen/io/checkpoint/checkpoint_shares.hpp"

namespace halogen {

struct CheckpointOptions {
  int keep_last = 3;          ///< the newest that stay when another is written; 0: all
  bool asynchronous = false;  ///< save copies to memory and returns; a thread of each rank writes
};

/// A checkpoint that was loaded.
struct LoadedCheckpoint {
  std::filesystem::path folder;
  index_t step = 0;
  nlohmann::ordered_json more;  ///< what save was given
};

/// The checkpoints of one run in a folder, `step-0000000120` and so on: parameters with buffers, the optimiser's
/// moments, the average where the trainer keeps one, the number of steps (by which schedules, dropout and noise go on),
/// the schedule, and what the caller adds. No other settings. Replicated numbers are written in even parts, sharded
/// ones by piece; loading reads by piece, on any mesh, with other sharding. With the same mesh and settings the next
/// steps have the same bits.
///
/// A checkpoint is named by a rename, after its shares, its manifest (sizes and CRC-32 of all) and its folder are on
/// the disk: whatever ends a run leaves the older ones whole. Another process that writes to the same folder is
/// refused. All calls but the constructor are collective over the trainer's mesh. Faults of one rank are
/// CollectiveError on all.
class Checkpoints {
 public:
  explicit Checkpoints(std::filesystem::path folder, CheckpointOptions options = {})
      : folder_(std::move(folder)), options_(options) {
    if (options.keep_last < 0)
      throw Error("Checkpoints: keep_last = " + std::to_string(options.keep_last) + ": give 1 or more, or 0 for all");
  }
  Checkpoints(const Checkpoints&) = delete;
  Checkpoints& operator=(const Checkpoints&) = delete;
  /// Local. A checkpoint that is still being written is lost: call wait() before.
  ~Checkpoints() {
    if (writer_.joinable()) writer_.join();
  }

  const std::filesystem::path& folder() const { return folder_; }

  /// Begins by finishing the one before it. What is stored is the state at this call.
  template <class AnyTrainer>
  void save(const AnyTrainer& trainer, nlohmann::ordered_json more = nlohmann::ordered_json::object()) {
    using Held = std::remove_cvref_t<decltype(trainer.parameters())>;
    using T = typename Held::value_type;
    world_ = trainer.mesh().world();
    wait();
    detail::CheckpointManifest manifest;
    manifest.step = trainer.optimizer_state().steps();
    manifest.dtype = detail::dtype_name<T>();
    manifest.schedule = detail::json_of(RateSchedule(trainer.optimizer_state().settings().schedule));
    manifest.tensors = detail::checkpoint_tensors<typename Held::model_type, T>();
    manifest.more = std::move(more);
    std::vector<detail::CheckpointPiece> pieces;
    detail::for_each_array(trainer, [&](const std::string& array, const auto& values) {
      detail::add_pieces(pieces, array, values, world_, options_.asynchronous);
    });
    begin(std::move(manifest), std::move(pieces));
    if (!options_.asynchronous) wait();
  }

  /// Finishes the checkpoint that is being written once all ranks have written; whether none is left.
  bool poll() {
    if (!pending_) return true;
    int done = written_.load() ? 1 : 0;
    world_.all_reduce(&done, 1, ReduceOp::min);
    if (done != 0) wait();
    return done != 0;
  }

  /// Finishes the checkpoint that is being written, if any.
  void wait();

  /// The one that this run wrote or loaded last; empty where there is none. The same on all ranks.
  std::filesystem::path newest(const Communicator& world) const {
    return detail::text_of_root(newest_.string(), world);
  }

  /// The newest whole one, or nothing where there is none. Rank 0 says on standard error which ones it passes over, and
  /// why. Throws, with nothing changed, where a whole one is of another model, value type or schedule.
  template <class AnyTrainer>
  std::optional<LoadedCheckpoint> load_newest(AnyTrainer& trainer, const LoadOptions& options = {}) {
    const Communicator& world = trainer.mesh().world();
    std::filesystem::path path;
    const auto manifest = newest_whole(world, path);
    if (!manifest) return std::nullopt;
    detail::set_from_checkpoint(trainer, detail::contents_of_folder(path, *manifest), world, options);
    newest_ = path;
    return LoadedCheckpoint{path, manifest->step, manifest->more};
  }

 private:
  /// Makes the folder for all shares and starts to write this rank's.
  void begin(detail::CheckpointManifest manifest, std::vector<detail::CheckpointPiece> pieces);
  std::optional<detail::CheckpointManifest> newest_whole(const Communicator& world, std::filesystem::path& path) const;
  void lock();
  void remove_older() const;
  std::filesystem::path partial_of(std::int64_t step) const {
    return folder_ / ("." + detail::checkpoint_name(step, 1) + ".partial");
  }

  std::filesystem::path folder_;
  CheckpointOptions options_;
  std::filesystem::path newest_;  ///< rank 0's
  Communicator world_;
  std::optional<detail::PlacedFile> lock_;  ///< rank 0's
  std::optional<detail::CheckpointManifest> pending_;
  detail::Json share_;  ///< of this rank, once it is written
  std::exception_ptr fault_;
  std::atomic<bool> written_ = false;
  std::thread writer_;
};

inline void Checkpoints::lock() {
  if (lock_) return;
  std::filesystem::create_directories(folder_);
  const std::filesystem::path name = folder_ / ".lock";
  lock_.emplace(name, O_RDWR | O_CREAT);
  if (!lock_->try_lock() && errno == EWOULDBLOCK) {
    lock_.reset();
    throw Error("another process writes checkpoints to '" + folder_.string() + "': give this run a folder of its own");
  }
  detail::remove_unfinished(folder_);
}

inline void Checkpoints::begin(detail::CheckpointManifest manifest, std::vector<detail::CheckpointPiece> pieces) {
  const std::filesystem::path partial = partial_of(manifest.step);
  agree(world_, [&] {
    if (world_.rank() != 0) return;
    try {
      lock();
      detail::json_text(manifest.more);  // what cannot be written is told before anything is
      std::filesystem::remove_all(partial);
      std::filesystem::create_directory(partial);
    } catch (const std::exception& error) {
      throw Error("cannot write checkpoints to '" + folder_.string() + "': " + detail::words_of_fault(error, folder_));
    }
  });
  share_ = detail::no_share();
  fault_ = nullptr;
  written_ = false;
  const auto write = [this, partial, rank = world_.rank(), dtype = manifest.dtype, pieces = std::move(pieces)] {
    try {
      if (!pieces.empty()) share_ = detail::write_share(partial, rank, dtype, pieces);
    } catch (...) {
      fault_ = std::current_exception();
    }
    written_ = true;
  };
  pending_ = std::move(manifest);
  if (options_.asynchronous)
    writer_ = std::thread(write);
  else
    write();
}

inline void Checkpoints::wait() {
  if (!pending_) return;
  if (writer_.joinable()) writer_.join();
  const detail::CheckpointManifest manifest = *std::exchange(pending_, std::nullopt);
  const std::filesystem::path partial = partial_of(manifest.step);
  const auto shares = [&] {
    std::vector<detail::Json> all;
    for (const std::string& text : detail::texts_of_all(share_.dump(), world_))
      all.push_back(detail::Json::parse(text));
    return all;
  }();
  try {
    agree(world_, [&] {
      if (fault_) std::rethrow_exception(fault_);
    });
    agree(world_, [&] {
      if (world_.rank() != 0) return;
      const std::string text = detail::manifest_text(manifest, shares);
      newest_ = detail::in_own_words([&] { return detail::publish_checkpoint(partial, manifest.step, text); });
    });
  } catch (const CollectiveError& error) {
    std::error_code none;
    if (world_.rank() == 0) std::filesystem::remove_all(partial, none);
    throw CollectiveError("the checkpoint of step " + std::to_string(manifest.step) + " in '" + folder_.string() +
                          "' is not written: " + error.what());
  }
  if (world_.rank() == 0) try {
      remove_older();
    } catch (const std::exception& error) {  // they are in nobody's way
      std::fprintf(stderr, "older checkpoints stay: %s\n", detail::words_of_fault(error).c_str());
    }
}

/// Those that cannot be read do not count: the newest whole ones stay.
inline void Checkpoints::remove_older() const {
  if (options_.keep_last == 0) return;
  int kept = 0;
  for (const std::filesystem::path& path : detail::checkpoints_in(folder_)) {
    if (kept >= options_.keep_last) {
      detail::remove_checkpoint(path);
      continue;
    }
    try {
      detail::parse_manifest(detail::text_in(path / detail::manifest_file, detail::longest_manifest));
      ++kept;
    } catch (const std::exception&) {  // load_newest says so
    }
  }
}

inline std::optional<detail::CheckpointManifest> Checkpoints::newest_whole(const Communicator& world,
                                                                           std::filesystem::path& path) const {
  const std::string names =
      detail::text_of_root(agree(world,
                                 [&] {
                                   std::string all;
                                   if (world.rank() == 0)
                                     for (const std::filesystem::path& found : detail::checkpoints_in(folder_))
                                       all += found.filename().string() + "\n";
                                   return all;
                                 }),
                           world);
  std::istringstream lines(names);
  for (std::string name; std::getline(lines, name);) {
    path = folder_ / name;
    try {
      return detail::whole_manifest(path, world);
    } catch (const CollectiveError& error) {
      if (world.rank() == 0) std::fprintf(stderr, "checkpoint '%s' is passed over: %s\n", path.c_str(), error.what());
    }
  }
  return std::nullopt;
}

/// Local: writes the parameters of a checkpoint to one safetensors file under PyTorch's names, for load_state_dict.
/// Throws std::runtime_error where the checkpoint is not whole or the file cannot be written.
///
///   hg::export_safetensors("run/checkpoints/step-0000000120", "model.safetensors");
inline void export_safetensors(const std::filesystem::path& checkpoint, const std::filesystem::path& file) {
  const detail::CheckpointContents contents = detail::contents_of_folder(
      checkpoint,
      detail::parse_manifest(detail::text_in(checkpoint / detail::manifest_file, detail::longest_manifest)));
  const detail::CheckpointManifest& manifest = contents.manifest;
  std::vector<NamedTensor> tensors;
  std::vector<std::uint64_t> bytes;
  const std::uint64_t width = detail::dtype_bytes(manifest.dtype);
  for (const detail::CheckpointShare& share : manifest.shares) detail::check_share(checkpoint, share);
  for (const detail::CheckpointTensor& tensor : manifest.tensors) {
    tensors.push_back({tensor.name, manifest.dtype, tensor.shape, {}});
    bytes.push_back(static_cast<std::uint64_t>(tensor.count) * width);
  }
  const detail::SafetensorsLayout layout = detail::safetensors_layout(tensors, bytes);
  detail::CheckpointReader reader(contents);
  detail::Replacement replacement(file);
  replacement.file().write(layout.header.data(), layout.header.size(), 0);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const detail::CheckpointTensor& tensor = manifest.tensors[i];
    std::vector<std::byte> numbers(bytes[i]);
    reader.read_bytes("parameters", width, tensor.offset, tensor.offset + tensor.count, numbers.data());
    replacement.file().write(numbers.data(), bytes[i], layout.begin[i]);
  }
  replacement.take_name();
}

}  // namespace halogen
