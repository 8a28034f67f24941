// The first NCCL communicator: whether all ranks can have it, and how they come by its unique id.
#pragma once

#ifdef HALOGEN_WITH_NCCL

#include <array>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "halogen/comm/nccl/transport.hpp"

namespace halogen::detail {

/// The outermost Environment's, for those inside it.
inline std::weak_ptr<Transport> nccl_world;

/// What ranks tell each other before there is a communicator.
struct NcclRecord {
  std::array<char, 512> fault{};  // why this rank cannot use NCCL, or nothing
  int version = 0;
  std::array<char, 64> device{};  // the same text for ranks that share one; nothing for none
  ncclUniqueId id{};              // rank 0's
};

inline NcclRecord own_nccl_record(int rank) {
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
  return record;
}

inline bool ranks_may_share_gpus(int version) {
  const char* text = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return text != nullptr && std::string_view(text) == "1" && version >= nccl_of_shared_gpus;
}

/// Why these ranks cannot use NCCL together, or nothing; the same on all of them.
inline std::string why_no_nccl(const std::vector<NcclRecord>& records) {
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

/// Collective over those whom all_gather(own, bytes, all) reaches; two ranks or more, each with its device chosen. The
/// transport, or null and why there is none, alike on all ranks.
template <class AllGather>
std::pair<std::shared_ptr<Transport>, std::string> start_nccl(int rank, int size, AllGather&& all_gather) {
  const NcclRecord own = own_nccl_record(rank);
  std::vector<NcclRecord> records(static_cast<std::size_t>(size));
  all_gather(&own, sizeof own, records.data());
  if (std::string why = why_no_nccl(records); !why.empty()) return {nullptr, std::move(why)};
  ncclComm_t comm = nullptr;
  NcclHandle::check(NcclLibrary::get().comm_init_rank(&comm, size, records.front().id, rank), "ncclCommInitRank");
  return {NcclTransport::adopt(comm, "world"), ""};
}

}  // namespace halogen::detail

#endif  // HALOGEN_WITH_NCCL
