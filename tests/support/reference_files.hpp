// Files that a test reads, while it runs.
#pragma once

#include "support/meshes.hpp"
#include "support/unpack.hpp"

namespace support {

/// The files of HALOGEN_TEST_DATA/NAME in a folder, written by rank 0; gone with the object. Collective.
class ReferenceFiles {
 public:
  ReferenceFiles(const std::string& name, std::filesystem::path folder) : folder_(std::move(folder)) {
    if (world().rank() == 0) unpack(name, folder_);
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
