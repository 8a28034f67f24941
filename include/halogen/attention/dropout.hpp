// Dropout of attention's softmax values. Random bits of each query and each key depend on the numbers of samples, heads
// and positions in the whole field. So the dropped values do not depend on the mesh.
#pragma once

#include <cmath>

#include "halogen/attention/pair_numbers.hpp"
#include "halogen/core/philox.hpp"
#include "halogen/kernels/attention/attention_pairs.hpp"

namespace halogen::detail {

/// Random bits for (samples, heads, positions), one work item each. The number of a position is from a table, or its
/// global index.
struct FillRandomBits {
  std::uint32_t* to;
  Generator generator;
  std::uint64_t offset = 0;  ///< separates the bits of keys from those of queries
  index_t heads = 1, positions = 0;
  index_t first_sample = 0, first_head = 0, all_heads = 1, all_positions = 0;
  kernels::Positions at;
  const int* numbers;

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const index_t position = at.at(i % positions), head = i / positions % heads, sample = i / positions / heads;
    const index_t number = numbers == nullptr ? position : numbers[position];
    const index_t row = (first_sample + sample) * all_heads + first_head + head;
    const std::uint64_t pair = offset + static_cast<std::uint64_t>(row * all_positions + number);
    to[i] = random_bits(generator, pair, RandomPurpose::attention)[0];
  }
};

/// The random bits of one pass, and dropout by them.
class RandomPairs {
 public:
  /// Draws for queries at these positions of a field's samples and heads, and for all keys. Draws nothing if
  /// `probability` is 0.
  template <class T, class Query, class Key>
  kernels::PairDropout<T> beside(const Query& query, const kernels::Positions& at, const Key& key, double probability,
                                 const Generator& generator, const PairNumbers* numbers, InOrder in) {
    kernels::PairDropout<T> dropout;
    if (probability == 0) return dropout;
    const index_t all = numbers == nullptr ? query.extent(2) : numbers->count;
    const FillRandomBits of_queries{.to = nullptr,
                                    .generator = generator,
                                    .heads = query.local_extent(1),
                                    .positions = at.count,
                                    .first_sample = query.offset(0) + generator.samples_before,
                                    .first_head = query.offset(1),
                                    .all_heads = query.extent(1),
                                    .all_positions = all,
                                    .at = at,
                                    .numbers = numbers == nullptr ? nullptr : numbers->of_queries(in)};
    const FillRandomBits of_keys{.to = nullptr,
                                 .generator = generator,
                                 .offset = std::uint64_t{1} << 63,
                                 .positions = key.extent(2),
                                 .at = kernels::Positions::of({0, key.extent(2)}),
                                 .numbers = numbers == nullptr ? nullptr : numbers->of_keys(in)};
    queries_ = filled(of_queries, query.local_extent(0) * of_queries.heads * of_queries.positions);
    keys_ = filled(of_keys, key.extent(2));
    dropout.queries = queries_.data(), dropout.keys = keys_.data();
    dropout.sample_stride = of_queries.heads * of_queries.positions, dropout.head_stride = of_queries.positions;
    dropout.below = static_cast<std::uint32_t>(std::min(std::round(probability * 0x1p32), 0x1p32 - 1));
    dropout.kept = static_cast<T>(1 / (1 - probability));
    return dropout;
  }

 private:
  using Bits = Lasting<Kokkos::View<std::uint32_t*, memory_space>>;
  static Bits filled(FillRandomBits fill, index_t count) {
    const Bits bits(Kokkos::View<std::uint32_t*, memory_space>(
        Kokkos::view_alloc("halogen::random_bits", Kokkos::WithoutInitializing), static_cast<std::size_t>(count)));
    fill.to = bits.data();
    launch_range(execution_space{}, "halogen::random_bits", count, fill);
    return bits;
  }

  Bits queries_, keys_;
};

}  // namespace halogen::detail
