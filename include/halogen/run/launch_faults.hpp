// Refusals of launch types that do not do what they declare. Each sentence names the launch, the numbers and the fix.
#pragma once

#include <string>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"
#include "halogen/plan/plan.hpp"

namespace halogen::detail {

[[noreturn]] void refuse_pattern(const Plan& plan, const Launch& launch, int operand, const char* called,
                                 const char* wanted);
[[noreturn]] void refuse_rank_sums(const Plan& plan, const Launch& launch, index_t sums, index_t most);
[[noreturn]] void refuse_partials(const Plan& plan, const Launch& launch, std::size_t bytes, std::size_t most);
/// Refuses a launch whose output the plan wants added, masked or summed, and which wrote it itself. wrote: LaunchAt
/// wrote the output; sums: and the sums of its tiles.
void check_output(const Plan& plan, const Launch& launch, bool wrote, bool sums);

#if HALOGEN_BODIES
HALOGEN_INLINE void refuse_pattern(const Plan& plan, const Launch& launch, int operand, const char* called,
                                   const char* wanted) {
  throw Error("launch " + plan.name_of(launch) + " calls " + called + "(" + std::to_string(operand) +
              "), and reads that operand by another pattern: read it with " + wanted);
}
HALOGEN_INLINE void refuse_rank_sums(const Plan& plan, const Launch& launch, index_t sums, index_t most) {
  throw Error("launch " + plan.name_of(launch) + " sums " + std::to_string(sums) +
              " numbers over ranks, and its workspace() says " + std::to_string(most) +
              ": return as many as rank_sums there");
}
HALOGEN_INLINE void refuse_partials(const Plan& plan, const Launch& launch, std::size_t bytes, std::size_t most) {
  throw Error("launch " + plan.name_of(launch) + " needs " + std::to_string(bytes) +
              " bytes for the sums of its blocks, and its workspace() says " + std::to_string(most) +
              ": derive it from ChannelSumLaunch, SampleSumLaunch or VectorSumLaunch, or return as many as partials");
}
HALOGEN_INLINE void check_output(const Plan& plan, const Launch& launch, bool wrote, bool sums) {
  const bool is_summed = launch.statistics >= 0 || launch.sums >= 0;
  const bool is_changed = launch.accumulate || launch.mask >= 0;
  if (launch.output < 0 || !((is_summed && !sums) || (is_changed && !wrote))) return;
  const char* const wanted = wrote               ? "summed"
                             : launch.accumulate ? "added to another"
                             : launch.mask >= 0  ? "multiplied by a derivative"
                                                 : "summed";
  throw Error("launch " + plan.name_of(launch) + " writes its output itself, but the plan wants it " + wanted +
              ": write it by over_tiles, over_rows or over_points" +
              (launch.accumulate ? "" : ", or say common_output = false"));
}
#endif

}  // namespace halogen::detail
