// Files that a test reads, kept as one JSON of base64 texts in tests/reference.
#pragma once

#include <filesystem>
#include <fstream>
#include <halogen/io/zarr_layout.hpp>
#include <nlohmann/json.hpp>

#include "support/network.hpp"

namespace support {

/// Writes the files of HALOGEN_TEST_DATA/NAME into a folder, on rank 0; gone with the object. Collective.
class ReferenceFiles {
 public:
  ReferenceFiles(const std::string& name, std::filesystem::path folder) : folder_(std::move(folder)) {
    namespace fs = std::filesystem;
    if (world().rank() == 0) {
      fs::remove_all(folder_);
      std::ifstream file(fs::path(HALOGEN_TEST_DATA) / name);
      const auto all = nlohmann::json::parse(file);
      for (const auto& [path, text] : all.items()) {
        fs::create_directories((folder_ / path).parent_path());
        const auto bytes = *hg::detail::from_base64(text);
        std::ofstream(folder_ / path, std::ios::binary)
            .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
      }
    }
    world().barrier();
  }
  ReferenceFiles(const ReferenceFiles&) = delete;
  ReferenceFiles& operator=(const ReferenceFiles&) = delete;
  ~ReferenceFiles() {
    world().barrier();
    if (world().rank() == 0) std::filesystem::remove_all(folder_);
  }

 private:
  std::filesystem::path folder_;
};

}  // namespace support
