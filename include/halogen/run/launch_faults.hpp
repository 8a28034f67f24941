// Refusals of launch types that do not do what they declare. Each sentence names the launch, the numbers and the fix.
#pragma once

#include <string>

#include "halogen/comm/error.hpp"
#include "halogen/core/config.hpp"
#include "halogen/plan/plan.hpp"

namespace halogen::detail {

/// How a launch asks LaunchOperands for an operand: by which function, which roles it takes, and how such an operand is
/// declared.
struct AskedOperand {
  const char* called;
  Read::Role role, other;
  const char* declare;
};
namespace asked {
using Role = Read::Role;
inline constexpr const char* how_values = "planner.read(node, pattern), in a vjp planner.read_again(node, pattern)";
inline constexpr AskedOperand value{"value", Role::value, Role::source, how_values},
    windowed_value{"windowed_value", Role::value, Role::source, how_values},
    indices{"indices", Role::value, Role::source, how_values},
    tensor_of{"tensor_of", Role::value, Role::source,
              "planner.read_field(node), in a vjp planner.read_field_again(node)"},
    gradient{"gradient", Role::gradient, Role::gradient, "planner.gradient(planner.gradient_of(node), pattern)"},
    windowed_gradient{"windowed_gradient", Role::gradient, Role::gradient, gradient.declare},
    tensor{"tensor", Role::tensor, Role::tensor, "planner.result(node) or planner.kept(node, pattern)"};
}  // namespace asked
/// The launch's operand of this number. Throws a CollectiveError if the launch lists none, or another that cannot be
/// read so.
const Read& declared_operand(const Plan& plan, const Launch& launch, int operand, const AskedOperand& as);
/// Throws a CollectiveError if the launch neither writes the tensor nor reads an operand from it.
void expect_tensor(const Plan& plan, const Launch& launch, TensorId tensor);
/// Throws a CollectiveError if the launch does not list this use of a parameter's value or gradient.
void expect_parameter(const Plan& plan, const Launch& launch, int use, bool gradient);
/// Throws a CollectiveError if the launch lists no operand of this number.
void expect_operand(const Plan& plan, const Launch& launch, int operand, const char* called, const char* declare);
/// Refuses a launch that ran a kernel before the halo that it reads had arrived.
[[noreturn]] void refuse_early_kernel(const Plan& plan, const Launch& launch);
[[noreturn]] void refuse_pattern(const Plan& plan, const Launch& launch, int operand, const char* called,
                                 const char* wanted);
/// Throws a CollectiveError if the launch runs again in the backward pass, where it may send nothing.
void expect_first_run(const Plan& plan, const Launch& launch, const char* called);
[[noreturn]] void refuse_rank_sums(const Plan& plan, const Launch& launch, index_t sums, index_t most);
[[noreturn]] void refuse_partials(const Plan& plan, const Launch& launch, std::size_t bytes, std::size_t most);
/// Refuses a launch whose output the plan wants added, masked or summed, and which wrote it itself. wrote: LaunchAt
/// wrote the output; sums: and the sums of its tiles.
void check_output(const Plan& plan, const Launch& launch, bool wrote, bool sums);

#if HALOGEN_BODIES
/// "launch same backward calls tensor(1), ": how a refusal of what a launch asks for begins.
HALOGEN_INLINE std::string asks_for(const Plan& plan, const Launch& launch, const char* called, int number) {
  return "launch " + plan.name_of(launch) + " calls " + called + "(" + std::to_string(number) + "), ";
}
HALOGEN_INLINE void expect_operand(const Plan& plan, const Launch& launch, int operand, const char* called,
                                   const char* declare) {
  const int count = launch.reads.size();
  if (operand >= 0 && operand < count) return;
  throw CollectiveError(asks_for(plan, launch, called, operand) + "and declares " + std::to_string(count) +
                        (count == 1 ? " operand" : " operands") +
                        ", counted from 0: where it is emitted, declare this one by launch.read(), with " + declare);
}
HALOGEN_INLINE const Read& declared_operand(const Plan& plan, const Launch& launch, int operand,
                                            const AskedOperand& as) {
  expect_operand(plan, launch, operand, as.called, as.declare);
  const Read& read = launch.reads[operand];
  if (read.role == as.role || read.role == as.other) return read;
  const char* const is = read.role == Read::Role::gradient ? "gradient"
                         : read.role == Read::Role::tensor ? "tensor"
                                                           : "value";
  throw CollectiveError(asks_for(plan, launch, as.called, operand) + "and declares that operand as a " + is +
                        ": call " + is + "(" + std::to_string(operand) +
                        "), or declare another operand, where it is emitted, by launch.read(), with " + as.declare);
}
HALOGEN_INLINE void expect_tensor(const Plan& plan, const Launch& launch, TensorId tensor) {
  bool found = tensor == launch.output || tensor == launch.kept;
  plan.for_each_read(launch, [&](TensorId read) { found = found || read == tensor; });
  if (!found)
    throw CollectiveError(asks_for(plan, launch, "stored_tensor", tensor.number) +
                          "and neither writes that tensor nor declares an operand that is read from it: where it is "
                          "emitted, declare it by launch.read(), with Planner::tensor(number, pattern)");
}
HALOGEN_INLINE void expect_parameter(const Plan& plan, const Launch& launch, int use, bool gradient) {
  const int count = launch.parameters.size();
  const bool is_listed = use >= 0 && use < count;
  if (is_listed && launch.parameters[use].gradient == gradient) return;
  const std::string have = !is_listed ? std::to_string(count) + " parameters, counted from 0"
                           : gradient ? "that it reads that parameter"
                                      : "that it sums that parameter's gradient";
  throw CollectiveError(asks_for(plan, launch, gradient ? "parameter_gradient" : "parameter", use) + "and declares " +
                        have + ": where it is emitted, declare this one by launch." +
                        (gradient ? "sum_gradient_of(node.parameter)" : "use(node.parameter)"));
}
HALOGEN_INLINE void refuse_early_kernel(const Plan& plan, const Launch& launch) {
  throw Error("launch " + plan.name_of(launch) +
              " reads points of other ranks, and ran its kernel before they had arrived: run it by over_tiles, "
              "over_rows, over_points or over_blocks, or call wait_for_halos() before it");
}
HALOGEN_INLINE void refuse_pattern(const Plan& plan, const Launch& launch, int operand, const char* called,
                                   const char* wanted) {
  throw CollectiveError(asks_for(plan, launch, called, operand) +
                        "and reads that operand by another pattern: read it with " + wanted);
}
HALOGEN_INLINE void expect_first_run(const Plan& plan, const Launch& launch, const char* called) {
  if (launch.origin >= 0)
    throw CollectiveError("launch " + plan.name_of(launch) + " calls " + called +
                          ", but a launch that runs again in the backward pass may send nothing: say static constexpr "
                          "bool talks = true in its type, so that what it writes is kept");
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
