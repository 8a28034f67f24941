// The first NCCL communicator: whether all ranks can have it, and how they come by its unique id.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <array>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "halogen/comm/first_fault.hpp"
#include "halogen/comm/nccl/transport.hpp"
#include "halogen/comm/start.hpp"
#include "halogen/core/config.hpp"

namespace halogen::detail {

/// What ranks tell each other before there is a communicator.
struct NcclRecord {
  std::array<char, 512> fault{};  // why this rank cannot use NCCL, or nothing
  int version = 0;
  std::array<char, 64> device{};  // the same text for ranks that share one; nothing for none
  ncclUniqueId id{};              // rank 0's
  std::array<char, 256> windows_fault{};
  int window_mib = 0;             // of message memory; 0 where windows are not asked for
  bool windows_optional = false;  // none where they cannot be had
};

/// HALOGEN_NCCL_WINDOWS=auto.
inline bool windows_are_optional() { return text_of(settings::nccl_windows) == "auto"; }

/// HALOGEN_NCCL_WINDOWS=1, or auto, asks for windows, of HALOGEN_NCCL_WINDOW_MIB (256): 0 where it does not.
inline int wanted_window_mib() {
  const std::string wanted = text_of(settings::nccl_windows);
  const double mib = number_of(settings::nccl_window_mib);
  return wanted.empty() || wanted == "0" ? 0 : static_cast<int>(mib);
}

NcclRecord own_nccl_record(int rank);
#if HALOGEN_BODIES
HALOGEN_INLINE NcclRecord own_nccl_record(int rank) {
  NcclRecord record;
  const auto put = [](auto& place, const std::string& text) {
    std::strncpy(place.data(), text.c_str(), place.size() - 1);
  };
  try {
    const NcclLibrary& nccl = NcclLibrary::get();
    record.version = nccl.version();
    put(record.device, device_identity());
    if (rank == 0) NcclHandle::check(nccl.get_unique_id(&record.id), "ncclGetUniqueId");
  } catch (const std::exception& error) {
    put(record.fault, error.what());
  }
  try {
    record.window_mib = wanted_window_mib();
    record.windows_optional = windows_are_optional();
  } catch (const std::exception& error) {
    put(record.windows_fault, error.what());
  }
  return record;
}
#endif

inline bool ranks_may_share_gpus(int version) {
  return variable_text("NCCL_MULTI_RANK_GPU_ENABLE") == "1" && version >= nccl_of_shared_gpus;
}

/// Why these ranks cannot use NCCL together, or nothing; the same on all of them.
std::string why_no_nccl(const std::vector<NcclRecord>& records);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string why_no_nccl(const std::vector<NcclRecord>& records) {
  const int version = records.front().version;
  for (std::size_t r = 0; r < records.size(); ++r) {
    const std::string rank = "rank " + std::to_string(r);
    if (records[r].fault[0] != 0) return rank + ": " + records[r].fault.data();
    if (records[r].version != version)
      return rank + " has NCCL " + nccl_version_text(records[r].version) + ", rank 0 has " +
             nccl_version_text(version) + ": give all ranks one library (HALOGEN_NCCL_LIBRARY)";
  }
  if (ranks_may_share_gpus(version)) return {};
  std::map<std::string, std::size_t> users;
  for (std::size_t r = 0; r < records.size(); ++r) {
    const std::string device = records[r].device.data();
    const auto [known, is_new] = users.emplace(device, r);
    if (!is_new && !device.empty())
      return "ranks " + std::to_string(known->second) + " and " + std::to_string(r) + " share the GPU " + device +
             ", but this is NCCL " + nccl_version_text(version) +
             ": give each rank a GPU of its own, or set NCCL_MULTI_RANK_GPU_ENABLE=1 and NCCL_NVLS_ENABLE=0 with "
             "NCCL " +
             nccl_version_text(nccl_of_shared_gpus) + " or newer, or use HALOGEN_TRANSPORT=mpi";
  }
  return {};
}
#endif

/// Why these ranks cannot use windows though one asked for them, or nothing; the same on all of them.
std::string why_no_windows(const std::vector<NcclRecord>& records, bool has_windows);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string why_no_windows(const std::vector<NcclRecord>& records, bool has_windows) {
  const int mib = records.front().window_mib;
  const bool optional = records.front().windows_optional;
  const auto text = [](const NcclRecord& record) {
    if (record.window_mib == 0) return std::string("no windows");
    return "windows of " + std::to_string(record.window_mib) + " MiB" +
           (record.windows_optional ? " where they can be had" : "");
  };
  for (std::size_t r = 0; r < records.size(); ++r) {
    if (records[r].windows_fault[0] != 0) return records[r].windows_fault.data();
    if (records[r].window_mib != mib || records[r].windows_optional != optional)
      return "rank " + std::to_string(r) + " asks for " + text(records[r]) + ", rank 0 for " + text(records.front()) +
             ": give all ranks one HALOGEN_NCCL_WINDOWS and one HALOGEN_NCCL_WINDOW_MIB";
  }
  if (mib == 0 || has_windows || optional) return {};
  return "HALOGEN_NCCL_WINDOWS=1 needs NCCL " + nccl_version_text(nccl_of_windows) + " or newer, but this is NCCL " +
         nccl_version_text(records.front().version) +
         ": name another with HALOGEN_NCCL_LIBRARY, or set HALOGEN_NCCL_WINDOWS=0";
}
#endif

/// Collective over those whom all_gather(own, bytes, all) reaches; two ranks or more, each with its device chosen. The
/// transport, or null and why there is none, alike on all ranks. Throws CollectiveError where windows are asked for by
/// 1 and cannot be had: nobody who asks so should measure something else; by `auto` messages are then sent.
template <class AllGather>
std::pair<std::shared_ptr<Transport>, std::string> start_nccl(int rank, int size, AllGather&& all_gather) {
  const NcclRecord own = own_nccl_record(rank);
  std::vector<NcclRecord> records(static_cast<std::size_t>(size));
  all_gather(&own, sizeof own, records.data());
  if (std::string why = why_no_nccl(records); !why.empty()) return {nullptr, std::move(why)};
  const NcclLibrary& nccl = NcclLibrary::get();
  // Some may hold what others could not get: all say so before they end.
  const auto on_all_ranks = [&](auto f) {
    const std::string fault = first_fault(size, all_gather, f);
    if (!fault.empty()) throw CollectiveError(fault);
  };
  if (const std::string why = why_no_windows(records, nccl.has_windows()); !why.empty()) throw CollectiveError(why);
  std::shared_ptr<NcclWindowMemory> memory;
  if (own.window_mib > 0 && nccl.has_windows()) {
    const auto allocate = [&] {
      memory = std::make_shared<NcclWindowMemory>(static_cast<std::size_t>(own.window_mib) << 20);
    };
    if (!own.windows_optional)
      on_all_ranks(allocate);
    else if (!first_fault(size, all_gather, allocate).empty())
      memory.reset();
  }
  ncclComm_t comm = nullptr;
  NcclHandle::check(nccl.comm_init_rank(&comm, size, records.front().id, rank), "ncclCommInitRank");
  std::shared_ptr<Transport> transport;
  if (memory == nullptr) return {NcclTransport::adopt(comm, "world", nullptr), ""};
  on_all_ranks([&] {
    transport = NcclTransport::adopt(comm, "world", memory);
    if (transport->message_memory_bytes() == 0 && !own.windows_optional)
      throw Error(
          "HALOGEN_NCCL_WINDOWS=1, but NCCL finds no way for these GPUs to write into each other's memory "
          "(NCCL_DEBUG=INFO prints its reason): set HALOGEN_NCCL_WINDOWS=0");
  });
  return {std::move(transport), ""};
}

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
