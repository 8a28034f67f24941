// Sharded parameters as launches see them. A bucket is gathered before the launches that read it, and its gradient is
// reduced after the launches that write it (full sharding in torch.distributed.fsdp).
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "halogen/run/arena.hpp"
#include "halogen/run/parameters/parameter_schedule.hpp"
#include "halogen/run/parameters/parameter_sharding.hpp"
#include "halogen/run/parameters/point_move.hpp"
#include "halogen/tensor/transport_copy.hpp"

namespace halogen {

/// Each bucket has one all_gather for the forward pass and one for the backward pass, which start one launch ahead. It
/// has one reduce_scatter, which runs until the next gradient begins. At the end one all_reduce sums this rank's 1/N of
/// the gradient over the ranks GradientSum::rest. Each rank's arrays have the order of the buckets' pieces. A group of
/// one rank reads and writes them in place. Of a table of numbers for each point, a rank has those of its own points
/// (PointMove) in place of the whole.
template <class T>
class GatheredParameters {
 public:
  GatheredParameters(const Layout& layout, std::shared_ptr<const ParameterSharding> sharding, GradientSum sum,
                     std::shared_ptr<Arena> staging)
      : plan_(&layout.plan()),
        sharding_(std::move(sharding)),
        sum_(std::move(sum)),
        staging_(std::move(staging)),
        schedule_(layout.plan(), buckets(), sizeof(T)),
        transfers_(detail::point_transfers(layout, *sharding_)),
        bytes_of_each_(static_cast<std::size_t>(buckets().ranks())),
        counts_(bytes_of_each_.size()),
        places_(static_cast<std::size_t>(buckets().size())),
        moves_(places_.size()) {}

  void reserve();

  /// `values` and `gradient` are this rank's arrays.
  void begin(T* values);

  void begin_backward(T* gradient);

  void before(int launch);

  void after(int launch);

  /// After this, `gradient` holds this rank's piece of the sum over all ranks.
  void finish();

  const T* value(int parameter);
  /// Buffers are not sharded: each rank holds all of them.
  T* buffer(int parameter) const { return values_ + buckets().offset_of_buffer(shape(parameter)); }
  T* gradient(int parameter);
  /// Whether these are the values of this rank's points alone, and how many values a launch sees.
  bool is_piece(int parameter) const { return !shape(parameter).buffer && moves_of_parameter(parameter) != nullptr; }
  index_t values_of(int parameter) const {
    return is_piece(parameter) ? moves_of_parameter(parameter)->needed() : shape(parameter).count;
  }

  const detail::ParameterSchedule& schedule() const { return schedule_; }

 private:
  /// Where a bucket is now; null if it is not in memory.
  struct Place {
    const T* value = nullptr;
    T* gradient = nullptr;
    const detail::BucketStay* arriving = nullptr;
    Request request;
  };

  const ParameterBuckets& buckets() const { return sharding_->buckets; }
  bool alone() const { return buckets().ranks() == 1; }
  Place& place(int bucket) { return places_[static_cast<std::size_t>(bucket)]; }
  index_t within(int parameter, int bucket) const { return shape(parameter).offset - buckets()[bucket].begin; }
  const ParameterShape& shape(int parameter) const { return plan_->graph.parameters[parameter]; }

  void gather(const detail::BucketStay& stay);

  void arrive(int bucket);

  /// Sets the gradient to zeros, since a layer on which the output does not depend adds nothing.
  void open(const detail::BucketStay& stay);

  void reduce(const detail::BucketStay& stay);
  /// Completes the reduction that is under way.
  void end_reduction();

  detail::PointMove<T>* moves_of(int bucket) const { return moves_[static_cast<std::size_t>(bucket)].get(); }
  detail::PointMove<T>* moves_of_parameter(int parameter) const { return moves_of(buckets().bucket_of(parameter)); }

  std::size_t group_rank() const { return static_cast<std::size_t>(sharding_->group.rank()); }
  std::size_t own_count() const { return static_cast<std::size_t>(buckets().values_per_rank()); }
  std::size_t whole_count(const detail::BucketStay& stay) const {
    return static_cast<std::size_t>(buckets()[stay.bucket].piece * buckets().ranks());
  }
  static std::size_t offset(const detail::BucketStay& stay) { return stay.block.offset / sizeof(T); }
  T* staging() const { return staging_->at<T>(0); }

  const Plan* plan_;
  std::shared_ptr<const ParameterSharding> sharding_;
  GradientSum sum_;
  std::shared_ptr<Arena> staging_;
  detail::ParameterSchedule schedule_;
  std::vector<detail::PointTransfers> transfers_;  ///< until reserve() makes the moves
  std::vector<std::size_t> bytes_of_each_, counts_;
  execution_space space_;
  TransportCopy<T> staging_copy_, gradient_copy_;
  std::vector<Place> places_;                                 // declared after the buffers, so that requests end first
  std::vector<std::unique_ptr<detail::PointMove<T>>> moves_;  ///< by bucket, null for those that are gathered whole
  Request reduction_;
  int reduced_points_ = -1;  ///< the bucket whose PointMove are taking the gradient back
  T* values_ = nullptr;
  T* gradient_ = nullptr;
};

template <class T>
void GatheredParameters<T>::reserve() {
  staging_->reserve(schedule_.staging_bytes());
  staging_copy_.reserve("halogen::staging_copy", schedule_.staging_bytes() / sizeof(T), sharding_->group);
  gradient_copy_.reserve("halogen::gradient_copy", own_count(), sharding_->group, sum_.rest);
  for (detail::PointTransfers& transfers : std::exchange(transfers_, {})) {
    const auto bucket = static_cast<std::size_t>(transfers.bucket());
    moves_[bucket] = std::make_unique<detail::PointMove<T>>(std::move(transfers), sharding_->group, sum_.over_group);
  }
}

template <class T>
void GatheredParameters<T>::begin(T* values) {
  values_ = values;
  for (int b = 0; b < buckets().size(); ++b) place(b).value = alone() ? values + buckets()[b].offset : nullptr;
}

template <class T>
void GatheredParameters<T>::begin_backward(T* gradient) {
  gradient_ = gradient;
  for (int b = 0; b < buckets().size(); ++b) place(b).gradient = alone() ? gradient + buckets()[b].offset : nullptr;
}

template <class T>
void GatheredParameters<T>::before(int launch) {
  for (const detail::BucketStay& stay : schedule_.stays())
    if (stay.gradient && stay.block.first == launch) open(stay);
  for (const detail::BucketStay& stay : schedule_.stays())
    if (!stay.gradient && stay.block.first == launch) gather(stay);
}

template <class T>
void GatheredParameters<T>::after(int launch) {
  for (const detail::BucketStay& stay : schedule_.stays()) {
    if (stay.gradient && stay.last_use == launch) reduce(stay);
    if (!stay.gradient && stay.last_use == launch) place(stay.bucket).value = nullptr;
  }
}

template <class T>
void GatheredParameters<T>::finish() {
  end_reduction();
  if (alone()) gradient_copy_.put(space_, gradient_, 0, own_count());
  sum_over_ranks(space_, sum_.rest, "halogen::gradient", gradient_copy_.at(gradient_, 0),
                 static_cast<index_t>(own_count()));
  gradient_copy_.get(space_, gradient_, 0, own_count());
}

template <class T>
const T* GatheredParameters<T>::value(int parameter) {
  if (shape(parameter).buffer) return buffer(parameter);
  const int b = buckets().bucket_of(parameter);
  arrive(b);
  return place(b).value + within(parameter, b);
}

template <class T>
T* GatheredParameters<T>::gradient(int parameter) {
  const int b = buckets().bucket_of(parameter);
  return place(b).gradient + within(parameter, b);
}

template <class T>
void GatheredParameters<T>::gather(const detail::BucketStay& stay) {
  const ParameterBuckets::Bucket& bucket = buckets()[stay.bucket];
  if (detail::PointMove<T>* points = moves_of(stay.bucket)) {
    points->gather(space_, values_ + bucket.offset);
    place(stay.bucket).arriving = &stay;
    place(stay.bucket).value = points->values();
    return;
  }
  const auto piece = static_cast<std::size_t>(bucket.piece);
  T* const whole = staging_copy_.at(staging(), offset(stay));
  const T* own = values_ + bucket.offset;
  if (staging_copy_.needed()) {
    staging_copy_.put(space_, own, offset(stay) + piece * group_rank(), piece);
    own = whole + piece * group_rank();
  }
  settle(space_, sharding_->group,
         "halogen::gather");  // earlier launches may still read the memory, or write this piece
  std::ranges::fill(bytes_of_each_, piece * sizeof(T));
  Place& place = this->place(stay.bucket);
  place.request = sharding_->group.all_gather_v_async(own, piece * sizeof(T), whole, bytes_of_each_);
  place.arriving = &stay;
  place.value = staging() + offset(stay);
}

template <class T>
void GatheredParameters<T>::arrive(int bucket) {
  Place& place = this->place(bucket);
  if (place.arriving == nullptr) return;
  const detail::BucketStay& stay = *std::exchange(place.arriving, nullptr);
  if (detail::PointMove<T>* points = moves_of(bucket)) return points->arrive();
  place.request.wait();
  staging_copy_.get(space_, staging() + offset(stay), offset(stay), whole_count(stay));
}

template <class T>
void GatheredParameters<T>::open(const detail::BucketStay& stay) {
  if (detail::PointMove<T>* points = moves_of(stay.bucket)) {
    launch_range(space_, "halogen::no_gradient", points->needed(), kernels::SetZero<T>{points->gradient()});
    place(stay.bucket).gradient = points->gradient();
    return;
  }
  end_reduction();
  T* const whole = staging() + offset(stay);
  Kokkos::deep_copy(space_, Kokkos::View<T*, memory_space, Kokkos::MemoryUnmanaged>(whole, whole_count(stay)), T(0));
  place(stay.bucket).gradient = whole;
}

template <class T>
void GatheredParameters<T>::reduce(const detail::BucketStay& stay) {
  const ParameterBuckets::Bucket& bucket = buckets()[stay.bucket];
  const auto piece = static_cast<std::size_t>(bucket.piece);
  place(stay.bucket).gradient = nullptr;
  end_reduction();
  if (detail::PointMove<T>* points = moves_of(stay.bucket)) {
    points->reduce(space_);
    reduced_points_ = stay.bucket;
    return;
  }
  staging_copy_.put(space_, staging() + offset(stay), offset(stay), whole_count(stay));
  const T* const whole = staging_copy_.at(staging(), offset(stay));
  T* const own = gradient_copy_.at(gradient_, static_cast<std::size_t>(bucket.offset));
  if (!sum_.over_group) {
    settle(space_, sharding_->group, "halogen::gradient");
    detail::copy_bytes(own, whole + piece * group_rank(), piece * sizeof(T));
    return;
  }
  std::ranges::fill(counts_, piece);
  reduction_ = start_scattered_sum(space_, sharding_->group, "halogen::reduce_scatter", whole, own, counts_);
}

template <class T>
void GatheredParameters<T>::end_reduction() {
  reduction_.wait();
  const int points = std::exchange(reduced_points_, -1);
  if (points < 0) return;
  const ParameterBuckets::Bucket& bucket = buckets()[points];
  const auto offset = static_cast<std::size_t>(bucket.offset);
  moves_of(points)->finish(space_, gradient_ + offset, bucket.piece);
  gradient_copy_.put(space_, gradient_ + offset, offset, static_cast<std::size_t>(bucket.piece));
}

}  // namespace halogen
