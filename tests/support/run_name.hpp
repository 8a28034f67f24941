// What a run of a test calls its files: runs of one program by other numbers of ranks, over other transports and under
// the access guard may stand beside each other, and those of another build or another checkout too. A run that was
// killed leaves files that the next one of its kind replaces. All ranks of a machine say the same, without a message.
#pragma once

#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

namespace support {

inline std::string run_name(int ranks) {
  std::error_code none;
  std::string kind = std::filesystem::read_symlink("/proc/self/exe", none).string();  // the build's own path
  for (const char* variable : {"KOKKOS_TOOLS_LIBS", "HALOGEN_TRANSPORT", "HALOGEN_NCCL_WINDOWS"})
    if (const char* value = std::getenv(variable)) kind += std::string("\n") + variable + value;
  std::uint64_t hash = 14695981039346656037u;  // FNV-1a
  for (const char c : kind) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  char digits[16];
  return std::to_string(ranks) + "_" + std::string(digits, std::to_chars(digits, digits + 16, hash, 16).ptr);
}

}  // namespace support
