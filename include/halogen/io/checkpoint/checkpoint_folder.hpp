// A checkpoint is a folder: of each rank a share of the training's numbers (a safetensors file), and a manifest that
// names all of them with sizes and checksums. It takes its name by one rename, when all of it is on the disk. Nothing
// here is collective or knows a model. Opt-in: needs nlohmann-json and zlib.
#pragma once

#include <charconv>
#include <cstdio>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"
#include "halogen/io/crc32.hpp"
#include "halogen/io/safetensors.hpp"
#include "halogen/io/text.hpp"

namespace halogen::detail {

inline constexpr const char* manifest_file = "manifest.json";
inline constexpr std::uint64_t longest_manifest = 100'000'000;

/// Numbers [begin, end) of one of a training's flat arrays: "parameters", "optimizer.exp_avg", ...
struct CheckpointPiece {
  std::string array;
  index_t begin = 0, end = 0;
  std::span<const std::byte> bytes;
  std::shared_ptr<const void> owner{};  ///< of a copy; none: the bytes stay where they are until they are written
};

/// Where a parameter tensor lies in the flat arrays.
struct CheckpointTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  index_t offset = 0, count = 0;
};

struct CheckpointShare {
  std::string file;
  std::uint64_t bytes = 0;
  std::uint64_t crc32 = 0;
};

/// Numbers [begin, end) of an array lie in a share from that byte on.
struct CheckpointPlace {
  std::string array;
  index_t begin = 0, end = 0;
  std::size_t share = 0;
  std::uint64_t at = 0;
};

struct CheckpointManifest {
  std::int64_t step = 0;
  std::string dtype;
  std::vector<CheckpointTensor> tensors;
  std::vector<CheckpointShare> shares;
  std::vector<CheckpointPlace> places;
  Json schedule{};             ///< checkpoint_schedule.hpp; null: of a checkpoint without one
  Json more = Json::object();  ///< the caller's
};

/// The first of many, and how many more there are.
inline std::string in_one_line(const std::vector<std::string>& parts, const char* between) {
  constexpr std::size_t most = 8;
  std::string text;
  for (std::size_t i = 0; i < std::min(parts.size(), most); ++i) text += (i > 0 ? between : "") + parts[i];
  return text + (parts.size() > most ? " and " + std::to_string(parts.size() - most) + " more" : "");
}
/// 'a', 'b' and 3 more
inline std::string listed(const std::vector<std::string>& names) {
  std::vector<std::string> quoted;
  for (const std::string& name : names) quoted.push_back("'" + name + "'");
  return in_one_line(quoted, ", ");
}

/// Where the file system can: names in it are on the disk then.
inline void synchronise_folder(const fs::path& folder) {
  const int descriptor = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  const int status = descriptor < 0 ? -1 : ::fsync(descriptor);
  const int error = errno;
  if (descriptor >= 0) ::close(descriptor);
  if (status != 0 && error != EINVAL && error != ENOTSUP)
    throw std::runtime_error("'" + folder.string() + "': " + words_of_system(error, folder));
}

/// Writes a rank's share and waits until it is on the disk; returns its part of the manifest. std::runtime_error says
/// what the system refuses.
inline Json write_share(const fs::path& folder, int rank, const std::string& dtype,
                        const std::vector<CheckpointPiece>& pieces) try {
  std::vector<NamedTensor> tensors;
  std::vector<std::uint64_t> bytes;
  for (const CheckpointPiece& piece : pieces) {
    tensors.push_back({piece.array + "[" + std::to_string(piece.begin) + ":" + std::to_string(piece.end) + "]",
                       dtype,
                       {piece.end - piece.begin},
                       {}});
    bytes.push_back(piece.bytes.size());
  }
  const SafetensorsLayout layout = safetensors_layout(tensors, bytes);
  char name[32];
  std::snprintf(name, sizeof name, "share-%05d.safetensors", rank);
  const PlacedFile file(folder / name, O_WRONLY | O_CREAT | O_TRUNC);
  file.write(layout.header.data(), layout.header.size(), 0);
  std::uint64_t crc = crc32_of(layout.header.data(), layout.header.size());
  Json places = Json::array();
  for (std::size_t i = 0; i < pieces.size(); ++i) {  // all of one dtype, so in this order
    constexpr std::uint64_t block = 1 << 20;         // is in the cache when it is written
    for (std::uint64_t at = 0; at < bytes[i]; at += block) {
      const std::span<const std::byte> part = pieces[i].bytes.subspan(at, std::min(block, bytes[i] - at));
      crc = crc32_of(part.data(), part.size(), crc);
      file.write(part.data(), part.size(), layout.begin[i] + at);
    }
    places.push_back({pieces[i].array, pieces[i].begin, pieces[i].end, layout.begin[i]});
  }
  file.synchronise();
  return {{"file", name}, {"bytes", layout.end}, {"crc32", crc}, {"pieces", places}};
} catch (const std::exception& error) {
  throw std::runtime_error("the share of rank " + std::to_string(rank) + ": " + error.what());
}

/// Where a rank has nothing to write.
inline Json no_share() { return nullptr; }

/// The text of a manifest; `shares` as write_share returned them.
inline std::string manifest_text(const CheckpointManifest& manifest, const std::vector<Json>& shares) {
  Json contents{{"halogen_checkpoint", 1}, {"step", manifest.step}, {"dtype", manifest.dtype}};
  if (!manifest.schedule.is_null()) contents["schedule"] = manifest.schedule;
  for (const CheckpointTensor& tensor : manifest.tensors)
    contents["tensors"].push_back({{"name", tensor.name}, {"shape", tensor.shape}, {"offset", tensor.offset}});
  for (const Json& share : shares)
    if (!share.is_null()) contents["shares"].push_back(share);
  contents["more"] = manifest.more;
  const std::string text = json_text(contents);
  return json_text({{"crc32", crc32_of(text.data(), text.size())}, {"contents", std::move(contents)}}, 1) + "\n";
}

inline constexpr index_t most_values = INT64_MAX / 16;  ///< of a tensor that a manifest may name

inline void check_manifest(bool is_sound, const char* what) {
  if (!is_sound) throw std::runtime_error(what);
}

/// Adds a share that a manifest names, and where its pieces lie. width: bytes of a value.
inline void add_share(CheckpointManifest& manifest, const Json& entry, std::uint64_t width) {
  const CheckpointShare share{entry.at("file"), whole_number<std::uint64_t>(entry.at("bytes")),
                              whole_number<std::uint64_t>(entry.at("crc32"))};
  check_manifest(!share.file.empty() && share.file.find('/') == std::string::npos && share.file[0] != '.',
                 "a share's name leads out of the folder");
  for (const Json& piece : entry.at("pieces")) {
    const CheckpointPlace place{piece.at(0), whole_number<index_t>(piece.at(1)), whole_number<index_t>(piece.at(2)),
                                manifest.shares.size(), whole_number<std::uint64_t>(piece.at(3))};
    check_manifest(place.begin >= 0 && place.begin <= place.end && place.end <= most_values &&
                       place.at <= share.bytes &&
                       static_cast<std::uint64_t>(place.end - place.begin) <= (share.bytes - place.at) / width,
                   "a piece does not lie in its share");
    manifest.places.push_back(place);
  }
  manifest.shares.push_back(share);
}

/// Reads what manifest_text wrote; std::runtime_error for everything else. Nothing is allocated that the text is not
/// long enough for.
inline CheckpointManifest parse_manifest(const std::string& text) try {
  const Json all = parse_json(text);
  const Json& contents = all.at("contents");
  const std::string summed = json_text(contents);
  check_manifest(whole_number<std::uint64_t>(all.at("crc32")) == crc32_of(summed.data(), summed.size()),
                 "its checksum is another: it has been changed");
  check_manifest(contents.at("halogen_checkpoint") == 1, "it is of another version of Halogen: load it with that one");
  CheckpointManifest manifest;
  manifest.step = whole_number<std::int64_t>(contents.at("step"));
  manifest.dtype = contents.at("dtype");
  manifest.more = contents.at("more");
  if (contents.contains("schedule")) manifest.schedule = contents["schedule"];
  const std::uint64_t width = dtype_bytes(manifest.dtype);
  check_manifest(manifest.step >= 0 && width > 0, "its step or dtype is none");
  if (contents.contains("tensors"))
    for (const Json& entry : contents["tensors"]) {
      CheckpointTensor tensor{entry.at("name"), whole_numbers<std::int64_t>(entry.at("shape")),
                              whole_number<index_t>(entry.at("offset")), 1};
      for (const std::int64_t extent : tensor.shape) {
        check_manifest(extent >= 0 && (extent == 0 || tensor.count <= most_values / extent),
                       "a tensor has no possible shape");
        tensor.count *= extent;
      }
      check_manifest(tensor.offset >= 0 && tensor.offset <= most_values, "a tensor has no possible offset");
      manifest.tensors.push_back(std::move(tensor));
    }
  if (contents.contains("shares"))
    for (const Json& entry : contents["shares"]) add_share(manifest, entry, width);
  return manifest;
} catch (const nlohmann::json::exception&) {
  throw std::runtime_error("it is no manifest of a checkpoint");
} catch (const JsonFault& fault) {
  throw std::runtime_error(std::string("it is no manifest of a checkpoint: ") + fault.what());
}

/// That the share is on the disk as it was written; std::runtime_error says what is wrong with it.
inline void check_share(const fs::path& folder, const CheckpointShare& share) {
  const fs::path path = folder / share.file;
  const auto refuse = [&](const std::string& what) { throw std::runtime_error("'" + path.string() + "': " + what); };
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error) refuse(words_of_system(error.value(), path));
  if (bytes != share.bytes) refuse(std::to_string(bytes) + " bytes instead of " + std::to_string(share.bytes));
  const PlacedFile file(path, O_RDONLY);
  std::vector<std::byte> part(std::min<std::uint64_t>(bytes, 1 << 20));
  std::uint64_t crc = 0;
  for (std::uint64_t at = 0; at < bytes; at += part.size()) {
    const std::uint64_t now = std::min<std::uint64_t>(part.size(), bytes - at);
    file.read(part.data(), now, at);
    crc = crc32_of(part.data(), now, crc);
  }
  if (crc != share.crc32) refuse("its checksum is another: it has been changed");
}

/// "step-0000000120", or "step-0000000120.2" where a restarted run comes to step 120 a second time.
inline std::string checkpoint_name(std::int64_t step, std::int64_t attempt) {
  char name[64];
  std::snprintf(name, sizeof name, "step-%010lld", static_cast<long long>(step));
  return attempt == 1 ? name : name + ("." + std::to_string(attempt));
}

/// Step and attempt of such a name; nothing where it is another.
inline std::optional<std::array<std::int64_t, 2>> read_checkpoint_name(const std::string& name) {
  std::array<std::int64_t, 2> read{0, 1};
  if (!name.starts_with("step-")) return std::nullopt;
  const char* const end = name.data() + name.size();
  const auto step = std::from_chars(name.data() + 5, end, read[0]);
  if (step.ec == std::errc() && step.ptr != end && *step.ptr == '.') std::from_chars(step.ptr + 1, end, read[1]);
  if (step.ec != std::errc() || checkpoint_name(read[0], read[1]) != name) return std::nullopt;
  return read;
}

/// The folders that are named as checkpoints, newest first; none where `folder` is not there.
inline std::vector<fs::path> checkpoints_in(const fs::path& folder) {
  std::map<std::array<std::int64_t, 2>, fs::path, std::greater<>> found;
  in_own_words([&] {
    if (!fs::is_directory(folder)) return;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (const auto name = read_checkpoint_name(entry.path().filename().string()); name && entry.is_directory())
        found[*name] = entry.path();
  });
  std::vector<fs::path> paths;
  for (const auto& [name, path] : found) paths.push_back(path);
  return paths;
}

/// Removes what no run has named or what one was about to remove when it was killed: hidden folders.
inline void remove_unfinished(const fs::path& folder) {
  std::vector<fs::path> hidden;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder))
    if (entry.path().filename().string().starts_with(".step-")) hidden.push_back(entry.path());
  for (const fs::path& path : hidden) fs::remove_all(path);
}

/// Takes the checkpoint its name away, so that nobody reads it half removed, and removes it.
inline void remove_checkpoint(const fs::path& path) {
  const fs::path hidden = path.parent_path() / ("." + path.filename().string() + ".removed");
  fs::rename(path, hidden);
  fs::remove_all(hidden);
}

/// Writes the manifest into the folder `partial`, which holds all shares, and gives it its name once everything is on
/// the disk.
inline fs::path publish_checkpoint(const fs::path& partial, std::int64_t step, const std::string& manifest) {
  {
    const PlacedFile file(partial / manifest_file, O_WRONLY | O_CREAT | O_TRUNC);
    file.write(manifest.data(), manifest.size(), 0);
    file.synchronise();
  }
  synchronise_folder(partial);
  const fs::path folder = partial.parent_path();
  std::int64_t attempt = 1;
  while (fs::exists(folder / checkpoint_name(step, attempt))) ++attempt;
  const fs::path path = folder / checkpoint_name(step, attempt);
  fs::rename(partial, path);
  synchronise_folder(folder);
  return path;
}

}  // namespace halogen::detail
