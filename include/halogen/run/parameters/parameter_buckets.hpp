// The buckets of a model's flat parameters. Each is cut evenly over the ranks that share it. Pure arithmetic.
#pragma once

#include <algorithm>
#include <vector>

#include "halogen/core/config.hpp"
#include "halogen/graph/graph.hpp"

namespace halogen {

/// A bucket is a range of the flat array that is gathered as one, and whose gradient is reduced as one. It has the
/// parameters of one layer and of the layers before it that are read together with it (Operation::read_with_next). It
/// has several such layers in a row if they fit `most_values`. A table of numbers for each point is a bucket of its own
/// (point_transfers.hpp). Each rank keeps one piece of every bucket. All pieces
/// have ceil(values / ranks) values; zeros fill up the last ones. After its pieces each rank keeps all buffers, which
/// are in no bucket.
class ParameterBuckets {
 public:
  struct Bucket {
    index_t begin = 0, end = 0;  ///< in the flat array
    index_t piece = 0;           ///< values that each rank keeps
    index_t offset = 0;          ///< of the piece in each rank's own array
    int table = -1;              ///< the parameter, if it lies on a field
    bool operator==(const Bucket&) const = default;
  };

  ParameterBuckets(const Graph& graph, int ranks, index_t most_values = 0);

  int ranks() const { return ranks_; }
  int size() const { return static_cast<int>(buckets_.size()); }
  const Bucket& operator[](int b) const { return buckets_[static_cast<std::size_t>(b)]; }
  auto begin() const { return buckets_.begin(); }
  auto end() const { return buckets_.end(); }

  /// The bucket of a parameter that is not a buffer. `parameter` is an index of Graph::parameters.
  int bucket_of(int parameter) const { return bucket_of_[static_cast<std::size_t>(parameter)]; }
  index_t values_per_rank() const { return values_per_rank_; }
  /// All buffers, as a bucket of one piece.
  Bucket buffers() const { return buffers_; }
  /// Where a buffer begins in each rank's own array.
  index_t offset_of_buffer(const ParameterShape& shape) const {
    return buffers_.offset + shape.offset - buffers_.begin;
  }
  bool operator==(const ParameterBuckets&) const = default;

 private:
  /// Where the layers end in the flat array. A layer ends after a node whose parameters are not read with the next
  /// layer's. Nodes after the last such node belong to the last layer.
  static std::vector<index_t> layer_ends(const Graph& graph);

  int bucket_at(index_t offset) const;

  int ranks_;
  std::vector<Bucket> buckets_;
  std::vector<int> bucket_of_;
  index_t values_per_rank_ = 0;
  Bucket buffers_;
};

#if HALOGEN_BODIES
HALOGEN_INLINE ParameterBuckets::ParameterBuckets(const Graph& graph, int ranks, index_t most_values) : ranks_(ranks) {
  index_t begin = 0;
  const auto close = [&](index_t end, int table = -1) {
    if (end == begin) return;
    const index_t piece = ceil_div(end - begin, ranks);
    buckets_.push_back({begin, end, piece, values_per_rank_, table});
    values_per_rank_ += piece;
    begin = end;
  };
  const std::vector<index_t> ends = layer_ends(graph);
  for (std::size_t layer = 0; layer < ends.size(); ++layer) {
    for (int p = 0; p < graph.parameters.size(); ++p) {
      const ParameterShape& shape = graph.parameters[p];
      if (shape.buffer || !shape.points.stand() || shape.offset < begin || shape.offset >= ends[layer]) continue;
      close(shape.offset);
      close(shape.offset + shape.count, p);
    }
    if (layer + 1 == ends.size() || ends[layer + 1] - begin > most_values) close(ends[layer]);
  }
  for (const ParameterShape& shape : graph.parameters)
    bucket_of_.push_back(shape.buffer ? -1 : bucket_at(shape.offset));
  const index_t trained = graph.parameter_count, buffers = graph.buffer_count;
  buffers_ = {trained, trained + buffers, buffers, values_per_rank_};
}

HALOGEN_INLINE std::vector<index_t> ParameterBuckets::layer_ends(const Graph& graph) {
  std::vector<index_t> ends;
  bool complete = false;
  int last = -1;
  for (const Node& node : graph.nodes) {
    if (node.parameter <= last || graph.parameters[node.parameter].buffer) continue;  // none, or an earlier layer's
    last = node.parameter;
    if (complete) ends.push_back(graph.parameters[node.parameter].offset);
    complete = !node.operation->read_with_next;
  }
  if (!complete && !ends.empty()) ends.pop_back();
  if (graph.parameter_count > 0) ends.push_back(graph.parameter_count);
  return ends;
}

HALOGEN_INLINE int ParameterBuckets::bucket_at(index_t offset) const {
  const auto after = std::ranges::upper_bound(buckets_, offset, {}, &Bucket::begin);
  return static_cast<int>(after - buckets_.begin()) - 1;
}
#endif

}  // namespace halogen
