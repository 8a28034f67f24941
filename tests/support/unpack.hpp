// Files that are kept as one JSON of base64 texts in tests/reference.
#pragma once

#include <filesystem>
#include <fstream>
#include <halogen/io/zarr/zarr_layout.hpp>
#include <nlohmann/json.hpp>

namespace support {

/// Writes the files of HALOGEN_TEST_DATA/NAME into a folder that is empty then.
inline void unpack(const std::string& name, const std::filesystem::path& folder) {
  namespace fs = std::filesystem;
  fs::remove_all(folder);
  std::ifstream file(fs::path(HALOGEN_TEST_DATA) / name);
  const auto all = nlohmann::json::parse(file);
  for (const auto& [path, text] : all.items()) {
    fs::create_directories((folder / path).parent_path());
    const auto bytes = *halogen::detail::from_base64(text);
    std::ofstream(folder / path, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  }
}

}  // namespace support
