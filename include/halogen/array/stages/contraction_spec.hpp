// The indices of a contraction as letters, and the rules for its placements. Values only, no types.
//
//   a mesh dimension cuts                        of the other operand it holds     the result there is
//   an index of both operands and the result     the same pieces                   Shard of that index
//   an index of one operand and the result       all                               Shard of that index
//   an index that is summed over                 the same pieces                   Partial<Sum>
//   nothing                                      all                               Replicate
#pragma once

#include <string_view>

#include "halogen/array/expression/expression.hpp"
#include "halogen/core/fixed_string.hpp"

namespace halogen {

/// Letters of the dimensions of two operands and the result. Each list ends with 0.
struct ContractionSpec {
  char first[max_rank + 1]{}, second[max_rank + 1]{}, result[max_rank + 1]{};
  bool is_valid = true;

  static constexpr int position(const char (&letters)[max_rank + 1], char letter) {
    for (int d = 0; d < max_rank && letters[d] != 0; ++d)
      if (letters[d] == letter) return d;
    return -1;
  }
  static constexpr int rank(const char (&letters)[max_rank + 1]) {
    int rank = 0;
    while (letters[rank] != 0) ++rank;
    return rank;
  }
  /// Every letter occurs at most once in an operand, and in at least two of the three.
  constexpr bool is_product() const {
    return is_valid && rank(result) > 0 && each_has_partner(first, second, result) &&
           each_has_partner(second, first, result) && each_has_partner(result, first, second);
  }
  constexpr ContractionSpec first_gradient() const { return of(result, second, first); }
  constexpr ContractionSpec second_gradient() const { return of(first, result, second); }

  static constexpr ContractionSpec of(const char (&a)[max_rank + 1], const char (&b)[max_rank + 1],
                                      const char (&c)[max_rank + 1]) {
    ContractionSpec spec;
    for (int d = 0; d <= max_rank; ++d) spec.first[d] = a[d], spec.second[d] = b[d], spec.result[d] = c[d];
    return spec;
  }

 private:
  static constexpr bool each_has_partner(const char (&letters)[max_rank + 1], const char (&one)[max_rank + 1],
                                         const char (&other)[max_rank + 1]) {
    for (int d = 0; letters[d] != 0; ++d)
      if (position(letters, letters[d]) != d || (position(one, letters[d]) < 0 && position(other, letters[d]) < 0))
        return false;
    return true;
  }
};

namespace detail {

/// "ij,jk->ik"; spaces are ignored.
constexpr ContractionSpec parse_contraction(std::string_view text) {
  ContractionSpec spec;
  char* letters[] = {spec.first, spec.second, spec.result};
  int part = 0, length = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == ' ') continue;
    if (text[i] == ',' || text[i] == '-') {
      spec.is_valid = spec.is_valid && part == (text[i] == ',' ? 0 : 1) &&
                      (text[i] == ',' || (i + 1 < text.size() && text[i + 1] == '>'));
      i += text[i] == '-';
      ++part, length = 0;
    } else if (part < 3 && length < max_rank) {
      letters[part][length++] = text[i];
    } else {
      spec.is_valid = false;
    }
  }
  spec.is_valid = spec.is_valid && part == 2;
  return spec;
}

/// The letters of torch.matmul: the last two dimensions are matrices, a vector has one; dimensions before them count
/// samples.
constexpr ContractionSpec matmul_spec(int first, int second) {
  ContractionSpec spec;
  const int samples = (first > second ? first : second) - 2;
  int result = 0;
  for (int s = 0; s < samples; ++s) spec.result[result++] = static_cast<char>('a' + s);
  for (int d = 0; d < first - 2; ++d) spec.first[d] = static_cast<char>('a' + d + samples - (first - 2));
  for (int d = 0; d < second - 2; ++d) spec.second[d] = static_cast<char>('a' + d + samples - (second - 2));
  if (first > 1) spec.first[first - 2] = spec.result[result++] = 'i';
  spec.first[first - 1] = 'k';
  if (second > 1) spec.second[second - 2] = 'k';
  spec.second[second > 1 ? second - 1 : 0] = second > 1 ? 'j' : 'k';
  if (second > 1) spec.result[result++] = 'j';
  return spec;
}

namespace types {
// Contractions as types, because class types as template arguments cause an internal error of g++ 12.
template <fixed_string Letters>
struct Spelled {
  static constexpr ContractionSpec value = parse_contraction(Letters.view());
};
template <int First, int Second>
struct MatrixProduct {
  static constexpr ContractionSpec value = matmul_spec(First, Second);
};
template <class Spec>
struct FirstGradientOf {
  static constexpr ContractionSpec value = Spec::value.first_gradient();
};
template <class Spec>
struct SecondGradientOf {
  static constexpr ContractionSpec value = Spec::value.second_gradient();
};
}  // namespace types
using types::Spelled, types::MatrixProduct, types::FirstGradientOf, types::SecondGradientOf;

/// The first mesh dimension that does not fit: which operand has placement `have` and should have `to`; -1 if all fit.
struct ContractionMisfit {
  int mesh_dimension = -1, have = 0, to = 0;
};
template <std::size_t Count>
constexpr ContractionMisfit contraction_misfit(const ContractionSpec& spec, const std::array<int, Count>& first,
                                               const std::array<int, Count>& second) {
  for (std::size_t i = 0; i < Count; ++i) {
    const int mesh = static_cast<int>(i), a = first[i], b = second[i];
    if (a >= 0) {
      const int there = spec.position(spec.second, spec.first[a]), needed = there < 0 ? replicate_code : there;
      if ((b < 0 ? replicate_code : b) != needed) return {mesh, b < 0 ? replicate_code : b, needed};
    } else if (b >= 0) {
      const int there = spec.position(spec.first, spec.second[b]);
      if (there >= 0) return {mesh, replicate_code, there};
    }
  }
  return {};
}

/// Placement code of the result, if those of the operands fit.
constexpr int contracted_code(const ContractionSpec& spec, int first, int second) {
  if (first < 0 && second < 0) return replicate_code;
  const int there = spec.position(spec.result, first >= 0 ? spec.first[first] : spec.second[second]);
  return there < 0 ? partial_code : there;
}

}  // namespace detail
}  // namespace halogen
