// explain(): the plan that Evaluation runs, in words: stages, launches, halos, messages, bytes, memory by kind.
#pragma once

#include <cstdio>
#include <string>

#include "halogen/core/config.hpp"
#include "halogen/core/number_text.hpp"
#include "halogen/run/layout.hpp"
#include "halogen/run/parameters/parameter_schedule.hpp"
#include "halogen/run/parameters/parameter_sharding.hpp"
#include "halogen/run/parameters/point_transfers.hpp"

namespace halogen {
namespace detail {

/// "relu(affine0(t3))^": ^ marks what is resampled as it is read.
inline std::string source_name(const Plan& plan, const Source& source) {
  std::string text = "t" + std::to_string(source.tensor.number);
  if (plan.tensors[source.tensor].map >= 0) {
    text = "map(";
    plan.for_each_source(source,
                         [&](const Source& of) { text += (text.back() == '(' ? "" : ", ") + source_name(plan, of); });
    text += ")";
  }
  if (source.affine >= 0) text = "affine" + std::to_string(source.affine.number) + "(" + text + ")";
  if (source.function) text = name_of(source.function.kind) + ("(" + text + ")");
  return text + (source.resampled ? "^" : "");
}

/// "d t4 through affine0, relu(affine0(t3))^ t5, + t6": what each operand is read from, then the tensor that is added
/// to the rows that the launch writes.
std::string operand_names(const Plan& plan, const Launch& launch);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string operand_names(const Plan& plan, const Launch& launch) {
  std::string text;
  for (const Read& operand : launch.reads) {
    std::string one;
    if (operand.role == Read::Role::gradient) {
      const Activation& a = plan.activations[operand.gradient()];
      one = " d t" + std::to_string(a.gradient.number);
      if (a.affine >= 0) one += " through affine" + std::to_string(a.affine.number);
    } else if (operand.role == Read::Role::tensor) {
      one = " t" + std::to_string(operand.tensor().number);
    } else if (operand.role == Read::Role::source) {
      one = " " + source_name(plan, plan.source_of(launch));
    } else {
      for (const Source& source : plan.values[operand.value()].sources) one += " " + source_name(plan, source);
    }
    text += (text.empty() ? "" : ",") + one;
  }
  if (launch.addend >= 0) text += ", + t" + std::to_string(launch.addend.number);
  return text.empty() ? text : text.substr(1);
}
#endif

template <class... Values>
std::string format(const char* pattern, Values... values) {
  char line[512];
  std::snprintf(line, sizeof line, pattern, values...);
  return line;
}

/// The messages of sharded parameters that a launch starts or completes.
std::string parameter_traffic(const detail::ParameterSchedule& schedule, int launch, bool reduces);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string parameter_traffic(const detail::ParameterSchedule& schedule, int launch, bool reduces) {
  std::string text;
  for (const detail::BucketStay& stay : schedule.stays()) {
    const bool gathers = !stay.gradient && stay.block.first == launch;
    const bool completes = stay.gradient && stay.last_use == launch;
    if (gathers)
      text += format(stay.of_points ? "; gather points of bucket %d" : "; all_gather bucket %d", stay.bucket);
    if (completes && reduces)
      text += format(stay.of_points ? "; reduce points of bucket %d" : "; reduce_scatter bucket %d", stay.bucket);
  }
  return text;
}
#endif

inline std::string mib(std::size_t bytes) {
  return number_text(static_cast<double>(bytes) / (1024.0 * 1024.0), std::chars_format::fixed, 2);
}

#if HALOGEN_BODIES
/// "; halo rows 1+1, 2 messages, 64 values": what this rank's piece holds of others, from dimension `first` on.
HALOGEN_INLINE std::string halo_text(const TensorLayout& piece, int first, int rank) {
  const Strips::Traffic traffic = piece.strips.traffic(rank);
  std::string text = "; halo";
  for (int d = first; d < spatial_dimensions; ++d)
    text += format(" %ss %lld+%lld", spatial_points[d],
                   static_cast<long long>(piece.owned[d].begin - piece.stored[d].begin),
                   static_cast<long long>(piece.stored[d].end - piece.owned[d].end));
  return text + format(", %lld messages, %lld values", static_cast<long long>(traffic.messages),
                       static_cast<long long>(traffic.points));
}

/// "t5 (1, 8, 16, 16)": this rank's piece of a tensor, and its halo if `with_halo`.
HALOGEN_INLINE std::string piece_text(const Layout& layout, TensorId number, bool with_halo) {
  const TensorLayout& piece = layout.tensor(number);
  const int first = 2 + spatial_dimensions - layout.rank_of_fields();
  std::string text = format("t%d (%d, %d", number.number, layout.samples(), layout.plan().tensors[number].channels);
  for (int d = first; d < spatial_dimensions; ++d)
    text += format(", %lld", static_cast<long long>(piece.owned[d].size()));
  text += ")";
  if (with_halo && piece.has_halo()) text += halo_text(piece, first, layout.rank());
  return text;
}
/// " -> t5 (1, 8, 16, 16)": what a launch writes, with the halo where this write is the last.
HALOGEN_INLINE std::string output_text(const Layout& layout, const Launch& launch, int number) {
  return (launch.accumulate && launch.addend < 0 ? " -> += " : " -> ") +
         piece_text(layout, launch.output, layout.plan().tensors[launch.output].last_write == number) +
         (launch.kept >= 0 ? ", keeps " + piece_text(layout, launch.kept, true) : "");
}
/// "      cotangent 1   t3 (1, 8, 16, 16)": a tensor that the caller gives or gets. `number`: of how many.
HALOGEN_INLINE std::string callers_text(const Layout& layout, const char* what, int number, int count, TensorId tensor,
                                        bool with_halo) {
  const std::string name = count > 1 ? format("%s %d", what, number) : what;
  return format("%5s  %-24s %s\n", "", name.c_str(), piece_text(layout, tensor, with_halo).c_str());
}
/// What the caller gives: inputs, and cotangents of a vjp. Halos of inputs are exchanged before the first launch.
HALOGEN_INLINE std::string given_text(const Layout& layout) {
  const Plan& plan = layout.plan();
  std::string text;
  for (int i = 0; i < plan.graph.inputs; ++i)
    text += callers_text(layout, "input", i, plan.graph.inputs, TensorId(i), true);
  for (int i = 0; i < plan.graph.outputs; ++i)
    if (plan.cotangent[i] >= 0)
      text += callers_text(layout, "cotangent", i, plan.graph.outputs, plan.cotangent[i], true);
  return text;
}
/// What the caller gets: outputs, and gradients of inputs.
HALOGEN_INLINE std::string results_text(const Layout& layout) {
  const Plan& plan = layout.plan();
  std::string text;
  for (int i = 0; i < plan.graph.outputs; ++i)
    text += callers_text(layout, "output", i, plan.graph.outputs, plan.prediction[i], false);
  for (int i = 0; i < plan.graph.inputs; ++i)
    if (plan.input_gradient[i] >= 0)
      text += callers_text(layout, "input gradient", i, plan.graph.inputs, plan.input_gradient[i], false);
  return text;
}

/// What a launch sends by itself, and the collectives of the affines whose sums it gathers.
HALOGEN_INLINE std::string traffic_text(const Layout& layout, int number) {
  const Plan& plan = layout.plan();
  const Launch& launch = plan.launches[number];
  const TrafficUse sent = layout.launch_traffic(number);
  std::string text;
  if (sent.messages > 0)
    text += format("; sends %lld messages, %lld bytes", static_cast<long long>(sent.messages),
                   static_cast<long long>(sent.bytes));
  if (launch.kind->remark != nullptr) text += launch.kind->remark(launch.form);
  if (launch.kind->words != nullptr)
    if (const std::string words = launch.kind->words(layout, launch); !words.empty()) text += "; " + words;
  index_t others = sent.all_reduces;
  if (const int sums = layout.summed_over_ranks(number); sums > 0)
    --others, text += format("; all_reduce of %d numbers", sums);
  if (launch.statistics >= 0 && layout.crosses_ranks(launch.statistics))
    text += format("; all_gather moments of affine%d", launch.statistics.number);
  if (launch.sums >= 0 && layout.crosses_ranks(plan.activations[launch.sums].affine))
    --others, text += format("; all_reduce sums of affine%d", plan.activations[launch.sums].affine.number);
  if (others > 0) text += format("; %lld all_reduces", static_cast<long long>(others));
  return text;
}

/// Memory by kind, and what a step sends: halos, then what functions of fields send themselves.
HALOGEN_INLINE std::string memory_text(const Layout& layout) {
  const MemoryUse& memory = layout.memory();
  const ValueBytes& bytes = layout.value_bytes();
  std::string text;
  if (bytes.stored != bytes.computed)
    text += format("fields of %zu bytes a value, computed in %zu, as parameters are\n", bytes.stored, bytes.computed);
  text += "memory per rank: tensors " + mib(memory.tensors) + " MiB (kept for backward " + mib(memory.kept) +
          "), workspace " + mib(memory.workspace) + " MiB, exchange " + mib(memory.exchange) + " MiB\n";
  if (memory.functions > 0) text += "memory of functions of fields: " + mib(memory.functions) + " MiB\n";
  if (const ChosenPlan* chosen = layout.chosen()) {
    text += format("to keep to the limit %d launches run again, %.1f %% more work; with all kept: tensors ",
                   chosen->again(), 100 * chosen->more_work) +
            mib(chosen->tensors) + " MiB (kept for backward " + mib(chosen->kept) + ")\n";
  }
  const TrafficUse traffic = layout.halo_traffic(), all = layout.traffic();
  text += format("halo exchange per rank: %lld messages, %lld bytes\n", static_cast<long long>(traffic.messages),
                 static_cast<long long>(traffic.bytes));
  if (all.messages > traffic.messages)
    text += format("functions of fields per rank: %lld messages, %lld bytes\n",
                   static_cast<long long>(all.messages - traffic.messages),
                   static_cast<long long>(all.bytes - traffic.bytes));
  return text;
}

/// Where the parameters of a plan lie and what is sent of them.
class ParameterText {
 public:
  ParameterText(const Layout& layout, const ParameterSharding* sharding) : layout_(layout), sharding_(sharding) {
    const Decomposition& pieces = layout.decomposition();
    const unsigned samples = pieces.mask({0, 2, 3, 4});
    sums_ = layout.plan().training && pieces.size(samples) > 1;
    if (sharding == nullptr) return;
    schedule_ = detail::ParameterSchedule(layout.plan(), sharding->buckets, layout.value_bytes().computed);
    shards_ = sharding->buckets.ranks() > 1;
    reduces_ = pieces.size(sharding->mesh_mask & samples) > 1;
    for (const detail::PointTransfers& table : detail::point_transfers(layout, *sharding)) {
      points_ += table.needed();
      for (const detail::PointTransfers::Part& part : table.goes())
        if (part.rank != table.number() && part.count > 0) ++points_sent_.messages, points_sent_.bytes += part.count;
    }
    points_sent_.bytes *= static_cast<index_t>(layout.value_bytes().computed);
  }

  std::string of_launch(int launch) const { return shards_ ? parameter_traffic(schedule_, launch, reduces_) : ""; }

  std::string of_all() const {
    const auto parameters = static_cast<long long>(layout_.plan().graph.parameter_count);
    if (sharding_ == nullptr)
      return format("parameters %lld, gradient and two moments as many%s\n", parameters,
                    sums_ ? "; one all_reduce of the gradient" : "");
    const ParameterBuckets& buckets = sharding_->buckets;
    const auto own = static_cast<std::size_t>(buckets.values_per_rank());
    return format("parameters %lld over %d ranks: %zu on this one (%s MiB), gradient and two moments as many\n",
                  parameters, buckets.ranks(), own, mib(own * layout_.value_bytes().computed).c_str()) +
           format("sharded parameters: %d all_gathers, %d reduce_scatters, staging %s MiB\n",
                  shards_ ? schedule_.all_gathers() : 0, reduces_ ? schedule_.reduce_scatters() : 0,
                  mib(schedule_.staging_bytes()).c_str()) +
           of_points();
  }

 private:
  std::string of_points() const {
    if (points_ == 0) return "";
    return format(
        "tables of points: %lld values for this rank's points, %d gathers, %d reductions; to gather all once %lld "
        "messages, %lld bytes\n",
        static_cast<long long>(points_), schedule_.gathers_of_points(), reduces_ ? schedule_.reductions_of_points() : 0,
        static_cast<long long>(points_sent_.messages), static_cast<long long>(points_sent_.bytes));
  }

  const Layout& layout_;
  const ParameterSharding* sharding_;
  detail::ParameterSchedule schedule_;
  index_t points_ = 0;                     ///< numbers of this rank's points in tables that lie on a field
  TrafficUse points_sent_;                 ///< to gather all of these tables once
  bool sums_ = false;                      ///< an all_reduce of the gradient, where parameters are whole
  bool shards_ = false, reduces_ = false;  ///< over more than one rank, whose gradients differ
};
#endif

}  // namespace detail

/// One line for what the caller gives, for each launch and for what the caller gets, then the memory and the traffic of
/// this rank. Pass `sharding` if parameters are sharded.
std::string explain(const Layout& layout, const ParameterSharding* sharding = nullptr);
#if HALOGEN_BODIES
HALOGEN_INLINE std::string explain(const Layout& layout, const ParameterSharding* sharding) {
  using detail::format;
  const Plan& plan = layout.plan();
  const detail::ParameterText parameters(layout, sharding);
  std::string text = format("plan: %s, %d stages, %d launches, %d stored tensors, mesh %s, rank %d\n",
                            plan.training ? "forward and backward" : "inference", plan.stages, plan.launches.size(),
                            plan.tensors.size(), layout.decomposition().text().c_str(), layout.rank());
  text += detail::given_text(layout);
  for (int i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    text += format("%5d  %-24s %s", launch.stage, plan.name_of(launch).c_str(),
                   detail::operand_names(plan, launch).c_str());
    if (launch.output >= 0) text += detail::output_text(layout, launch, i);
    text += detail::traffic_text(layout, i) + parameters.of_launch(i) + "\n";
  }
  return text + detail::results_text(layout) + detail::memory_text(layout) + parameters.of_all();
}
#endif

}  // namespace halogen
