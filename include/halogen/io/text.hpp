// Small files of text and JSON, whole, and texts that go from rank to rank. Opt-in: needs nlohmann-json.
#pragma once

#include <cstdint>
#include <filesystem>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "halogen/comm/agree.hpp"
#include "halogen/io/json.hpp"
#include "halogen/io/placed_file.hpp"

namespace halogen::detail {

namespace fs = std::filesystem;

/// A small file's text.
inline std::string text_in(const fs::path& path, std::uint64_t most) {
  std::error_code error;
  const std::uint64_t bytes = fs::file_size(path, error);
  if (error) throw std::runtime_error("'" + path.string() + "': " + words_of_system(error.value(), path));
  if (bytes > most)
    throw std::runtime_error("'" + path.string() + "' has " + std::to_string(bytes) + " bytes, more than the " +
                             std::to_string(most) + " allowed");
  std::string text(bytes, ' ');
  PlacedFile(path, O_RDONLY).read(text.data(), bytes, 0);
  return text;
}

/// A small file of JSON, whole or as it was.
inline void write_json(const fs::path& path, const Json& json) {
  const std::string text = json_text(json, 2) + "\n";
  Replacement replacement(path);
  replacement.file().write(text.data(), text.size(), 0);
  replacement.take_name();
}

/// Collective: a text of rank 0's on all.
inline std::string text_of_root(std::string text, const Communicator& world) {
  auto length = static_cast<std::int64_t>(text.size());
  world.broadcast(&length, sizeof length, 0);
  text.resize(static_cast<std::size_t>(length));
  world.broadcast(text.data(), text.size(), 0);
  return text;
}

/// Collective: the texts of all ranks, in their order, on all.
inline std::vector<std::string> texts_of_all(const std::string& text, const Communicator& world) {
  const auto own = static_cast<std::int64_t>(text.size());
  std::vector<std::int64_t> length(static_cast<std::size_t>(world.size()));
  world.all_gather(&own, sizeof own, length.data());
  std::vector<std::size_t> bytes(length.begin(), length.end());
  std::string all(std::accumulate(bytes.begin(), bytes.end(), std::size_t{0}), ' ');
  world.all_gather_v(text.data(), text.size(), all.data(), bytes);
  std::vector<std::string> texts;
  std::size_t at = 0;
  for (const std::size_t count : bytes) texts.push_back(all.substr(std::exchange(at, at + count), count));
  return texts;
}

}  // namespace halogen::detail
