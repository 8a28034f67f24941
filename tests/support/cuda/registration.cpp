// Fat binaries, the functions and variables in them, and launches.
#include "registration.hpp"

#include <cuda_runtime_api.h>
#include <zstd.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <unordered_map>

#include "memory.hpp"
#include "module.hpp"

namespace emulated {
namespace {

constexpr u32 wrapper_magic = 0x466243b1, fat_magic = 0xba55ed50;
constexpr u64 zstd_flag = 0x8000, lz4_flag = 0x2000;

struct Wrapper {
  u32 magic, version;
  const char* data;
  void* more;
};
struct Header {
  u32 magic;
  u16 version, header_bytes;
  u64 bytes;
};
struct Part {
  u16 kind, version;  // kind 1: PTX
  u32 header_bytes;
  u64 bytes;
  u32 compressed_bytes, unused;
  u16 minor, major;
  u32 architecture, name_place, name_bytes;
  u64 flags, zero, whole_bytes;
};

/// The text of the PTX in a fat binary. Of other code nothing is known here.
std::string ptx_of(const char* data) {
  Header header;
  std::memcpy(&header, data, sizeof header);
  if (header.magic != fat_magic) unknown("a fat binary of another kind");
  std::string text;
  for (u64 place = header.header_bytes; place < header.header_bytes + header.bytes;) {
    Part part;
    std::memcpy(&part, data + place, sizeof part);
    const char* const from = data + place + part.header_bytes;
    if (part.kind == 1) {
      if (part.flags & lz4_flag) unknown("PTX compressed by LZ4: give nvcc -compress-mode=none");
      if (part.flags & zstd_flag) {
        text.resize(part.whole_bytes);
        if (ZSTD_isError(ZSTD_decompress(text.data(), text.size(), from, part.compressed_bytes)))
          unknown("PTX that zstd cannot decompress");
      } else {
        text.assign(from, part.bytes);
      }
    }
    place += part.header_bytes + part.bytes;
  }
  if (const char* end = std::strchr(text.c_str(), '\0')) text.resize(static_cast<std::size_t>(end - text.c_str()));
  return text;
}

struct Binary {
  const char* data = nullptr;
  std::unique_ptr<Module> read;
  Module& module() {
    if (!read) {
      std::string text = ptx_of(data);
      if (text.empty()) unknown("a fat binary without PTX: compile for compute_90, not for sm_90 alone");
      read = std::make_unique<Module>(std::move(text));
    }
    return *read;
  }
};

struct Named {
  Binary* binary = nullptr;
  std::string name;
  Kernel kernel;
};
std::unordered_map<const void*, Named>& functions() {
  static auto* const all = new std::unordered_map<const void*, Named>;
  return *all;
}
std::unordered_map<const void*, Named>& variables() {
  static auto* const all = new std::unordered_map<const void*, Named>;
  return *all;
}

struct Configuration {
  dim3 grid, block;
  std::size_t shared;
  cudaStream_t stream;
};
thread_local std::vector<Configuration> configurations;

}  // namespace

Kernel* kernel_of(const void* host_function) {
  const auto found = functions().find(host_function);
  if (found == functions().end()) return nullptr;
  Named& named = found->second;
  if (named.kernel.function == nullptr) {
    auto& all = named.binary->module().functions;
    const auto function = all.find(named.name);
    if (function == all.end()) unknown("no kernel " + demangled(named.name) + " in the PTX");
    named.kernel.function = function->second.get();
  }
  return &named.kernel;
}

u64 variable_of(const void* host_variable) {
  const auto found = variables().find(host_variable);
  if (found == variables().end()) return 0;
  auto& all = found->second.binary->module().variables;
  const auto variable = all.find(found->second.name);
  return variable == all.end() ? 0 : variable->second.address;
}

}  // namespace emulated

using emulated::Binary;

extern "C" {

void** __cudaRegisterFatBinary(void* wrapped) {
  const auto* const wrapper = static_cast<const emulated::Wrapper*>(wrapped);
  if (wrapper->magic != emulated::wrapper_magic) emulated::unknown("a fat binary of another kind");
  auto* const binary = new Binary;
  binary->data = wrapper->data;
  return reinterpret_cast<void**>(binary);
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
char __cudaInitModule(void**) { return 1; }

void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  auto& named = emulated::functions()[host];
  named.binary = reinterpret_cast<Binary*>(handle), named.name = name;
}
void __cudaRegisterVar(void** handle, char* host, char*, const char* name, int, std::size_t, int, int) {
  auto& named = emulated::variables()[host];
  named.binary = reinterpret_cast<Binary*>(handle), named.name = name;
}

unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, std::size_t shared, cudaStream_t stream) {
  emulated::configurations.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, std::size_t* shared, void* stream) {
  const auto& last = emulated::configurations.back();
  *grid = last.grid, *block = last.block, *shared = last.shared;
  *static_cast<cudaStream_t*>(stream) = last.stream;
  emulated::configurations.pop_back();
  return cudaSuccess;
}
}
