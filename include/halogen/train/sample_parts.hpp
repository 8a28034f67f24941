// A batch in parts: each rank cuts its own samples, and the fields of a part lie in the memory of the batch's.
#pragma once

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "halogen/tensor/field_size.hpp"
#include "halogen/train/field_inputs.hpp"
#include "halogen/train/type_misfits.hpp"

namespace halogen::detail {

/// How the samples of a batch are cut into parts. On each rank the last part is the largest.
class SampleParts {
 public:
  /// Throws CollectiveError if a part would have no sample on a rank.
  SampleParts(const Cut& samples, int count) : samples_(samples), count_(count) {
    index_t least = samples.extent();
    for (int piece = 0; piece < samples.parts(); ++piece) least = std::min(least, samples.piece(piece).size());
    if (least < count)
      throw CollectiveError("micro_batches = " + std::to_string(count) + ", but a rank has " + std::to_string(least) +
                            " of the batch's " + std::to_string(samples.extent()) +
                            " samples: each part needs one on each rank, so give " +
                            (least > 0 ? "at most " + std::to_string(least) + ", " : "") +
                            "a larger batch, or use fewer ranks for the batch");
  }

  int count() const { return count_; }
  /// The samples of all ranks in a part.
  Cut cut(int part) const {
    std::vector<index_t> sizes;
    for (int piece = 0; piece < samples_.parts(); ++piece) sizes.push_back(begin(piece, part + 1) - begin(piece, part));
    return Cut::of_sizes(sizes);
  }
  /// Where a part begins among the samples of a piece.
  index_t begin(int piece, int part) const {
    const index_t samples = samples_.piece(piece).size(), small = count_ - samples % count_;
    return part * (samples / count_) + std::max(index_t{0}, part - small);
  }
  /// How much larger the number of a sample of this piece is in the batch than in the part.
  index_t samples_before(int piece, int part) const {
    return samples_.piece(piece).begin + begin(piece, part) - cut(part).piece(piece).begin;
  }

  /// The samples of a part of a field, which is cut as the batch. Nothing is copied, and margins are those of the
  /// field, which must outlive what is returned. Throws CollectiveError if it is cut otherwise.
  template <class Field>
  Field of_field(const Field& field, int part, const std::string& what) const {
    constexpr int samples = Field::tensor_type::extents[0];
    if (samples != dyn)
      throw CollectiveError("micro_batches: the type of " + what + " says " + std::to_string(samples) +
                            " samples, so it has no parts: write hg::dyn instead");
    const auto shape = field.shape(what.c_str());
    shape->agree();
    check_cut_as("micro_batches: ", what, 0, shape->cut(0), "the first input", samples_,
                 "make it with the first input's cuts");
    auto cuts = shape->cuts();
    cuts[0] = cut(part);
    const auto& storage = field.storage();
    auto margins = storage.margins;
    const index_t first = margins[0].lo + begin(shape->decomposition().part(shape->mesh().rank(), 0), part);
    margins[0] = {};
    return Field::over_copied(Field::make_shape(shape->mesh(), cuts),
                              storage.view.data() + first * static_cast<index_t>(storage.view.stride(0)), margins);
  }

  /// The same of all that is given to a step: of a field, of inputs, of labels or weights. What has no samples, such as
  /// no_weight, stays.
  template <class X>
  X of(const X& x, int part, const std::string& what) const {
    if constexpr (is_sharded<X>)
      return of_field(x, part, what);
    else if constexpr (count_given<X> > 0)
      return std::apply([&](const auto&... one) { return X(of(one, part, what)...); }, x.each);
    else if constexpr (is_given<X>)
      return std::apply(
          [&](const auto&... more) {
            return X(of_field(static_cast<const FirstOf<X>&>(x), part, what), of_field(more, part, "an input")...);
          },
          x.more);
    else if constexpr (Unstored<X>)
      throw CollectiveError("micro_batches: " + what + " is an expression, which has no parts: assign it to a field");
    else
      return x;
  }

 private:
  Cut samples_;
  int count_;
};

}  // namespace halogen::detail
