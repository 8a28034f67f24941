// When and where buckets of sharded parameters are in memory while a plan runs. Pure arithmetic, for dry runs too.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/plan/plan.hpp"
#include "halogen/run/lifetimes.hpp"
#include "halogen/run/parameters/parameter_buckets.hpp"

namespace halogen::detail {

/// The time in which one whole bucket is in the staging memory.
struct BucketStay {
  int bucket = 0;
  bool gradient = false;
  bool of_points = false;  ///< a table of numbers for each point: its memory is elsewhere (PointMove)
  int last_use = 0;        ///< the last launch that uses it: after it, a gradient is complete
  Block block;  ///< parameters: from the start of their gather; a gradient: until the next one needs its place
};

/// Parameters are gathered for the forward pass and again for the backward pass, one launch ahead. Their memory is free
/// after the last launch of the pass that reads them. The bucket that ends the forward pass stays for the backward pass
/// if that begins with it. A gradient is in memory from its first contribution to its last. Then it is reduced, until
/// the next one begins. In a chain of layers the memory holds two layers' parameters forward, and one layer's
/// parameters and gradient backward. If one launch takes both gradients of a layer, the next layer's parameters are
/// there at the same time.
class ParameterSchedule {
 public:
  static constexpr std::size_t alignment = 64;

  ParameterSchedule() = default;
  ParameterSchedule(const Plan& plan, const ParameterBuckets& buckets, std::size_t value_size);

  const std::vector<BucketStay>& stays() const { return stays_; }
  std::size_t staging_bytes() const { return staging_bytes_; }

  int all_gathers() const { return count(false, false); }
  int reduce_scatters() const { return count(true, false); }
  /// How often tables of numbers for each point are brought, or their gradients taken back.
  int gathers_of_points() const { return count(false, true); }
  int reductions_of_points() const { return count(true, true); }

 private:
  int count(bool gradient, bool of_points) const {
    return static_cast<int>(std::ranges::count_if(
        stays_, [=](const BucketStay& stay) { return stay.gradient == gradient && stay.of_points == of_points; }));
  }
  /// Records a use from `begin` to `last`. Until place() sets the bytes, any bytes mean that the stay happens.
  static void use(std::vector<BucketStay>& stays, int bucket, int begin, int last);

  /// If the bucket that forward reads last is the one that backward reads first, it is not gathered again.
  static void join(std::vector<BucketStay>& forward, std::vector<BucketStay>& backward);

  /// A reduction may run until another gradient begins or is complete.
  void keep_until_reduced(int launches);

  void place(const ParameterBuckets& buckets, std::size_t value_size);

  std::vector<BucketStay> stays_;
  std::size_t staging_bytes_ = 0;
};

#if HALOGEN_BODIES
HALOGEN_INLINE ParameterSchedule::ParameterSchedule(const Plan& plan, const ParameterBuckets& buckets,
                                                    std::size_t value_size) {
  if (buckets.ranks() == 1) return;  // a piece is the whole bucket, and launches read it in the rank's own array
  std::vector<BucketStay> forward(static_cast<std::size_t>(buckets.size())), backward = forward, gradients = forward;
  for (int i = 0; i < plan.launches.size(); ++i) {
    const Launch& launch = plan.launches[i];
    plan.for_each_parameter(launch, [&](int parameter, bool at_end) {
      if (plan.graph.parameters[parameter].buffer) return;
      auto& pass = i < plan.first_backward ? forward : backward;
      use(pass, buckets.bucket_of(parameter), std::max(0, at_end ? i : i - 1), i);
    });
    plan.for_each_parameter_gradient(launch, [&](int parameter, int) {
      if (!plan.graph.parameters[parameter].buffer) use(gradients, buckets.bucket_of(parameter), i, i);
    });
  }
  join(forward, backward);
  for (BucketStay& stay : gradients) stay.gradient = true;
  for (const auto* stays : {&forward, &backward, &gradients})
    for (const BucketStay& stay : *stays)
      if (stay.block.bytes > 0) stays_.push_back(stay);
  keep_until_reduced(plan.launches.size());
  place(buckets, value_size);
}

HALOGEN_INLINE void ParameterSchedule::use(std::vector<BucketStay>& stays, int bucket, int begin, int last) {
  BucketStay& stay = stays[static_cast<std::size_t>(bucket)];
  if (stay.block.bytes == 0) stay = {bucket, false, false, last, {1, begin, last}};
  stay.block.first = std::min(stay.block.first, begin);
  stay.block.last = stay.last_use = last;
}

HALOGEN_INLINE void ParameterSchedule::join(std::vector<BucketStay>& forward, std::vector<BucketStay>& backward) {
  BucketStay *end = nullptr, *begin = nullptr;
  for (BucketStay& stay : forward)
    if (stay.block.bytes > 0 && (end == nullptr || stay.last_use >= end->last_use)) end = &stay;
  for (BucketStay& stay : backward)
    if (stay.block.bytes > 0 && (begin == nullptr || stay.block.first < begin->block.first)) begin = &stay;
  if (end == nullptr || begin == nullptr || end->bucket != begin->bucket) return;
  end->block.last = end->last_use = begin->last_use;
  begin->block.bytes = 0;
}

HALOGEN_INLINE void ParameterSchedule::keep_until_reduced(int launches) {
  for (BucketStay& stay : stays_) {
    if (!stay.gradient) continue;
    int end = launches;
    for (const BucketStay& other : stays_) {
      if (!other.gradient) continue;
      if (other.block.first > stay.last_use) end = std::min(end, other.block.first - 1);
      if (other.last_use > stay.last_use) end = std::min(end, other.last_use);
    }
    stay.block.last = end;
  }
}

HALOGEN_INLINE void ParameterSchedule::place(const ParameterBuckets& buckets, std::size_t value_size) {
  std::vector<Block> blocks;
  for (BucketStay& stay : stays_) {
    stay.of_points = buckets[stay.bucket].table >= 0;
    const auto values = static_cast<std::size_t>(stay.of_points ? 0 : buckets[stay.bucket].piece * buckets.ranks());
    stay.block.bytes = (values * value_size + alignment - 1) / alignment * alignment;
    blocks.push_back(stay.block);
  }
  staging_bytes_ = place_blocks(blocks);
  for (std::size_t i = 0; i < blocks.size(); ++i) stays_[i].block = blocks[i];
}
#endif

}  // namespace halogen::detail
