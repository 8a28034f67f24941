// From partial sums to the tables of an affine, which is a scale and a shift of each channel, and to those of its vjp:
// small kernels before and after the one collective.
//   forward:  merge tiles -> all_gather (count, mean, M2) -> merge ranks -> scale, shift, mean, 1 / deviation
//   backward: merge tiles -> all_reduce (sum of gamma g, sum of gamma g xhat) -> slope, offset; gamma's, beta's
//   gradient
#pragma once

#include "halogen/kernels/sums/merge.hpp"

namespace halogen::kernels {

/// The partial moments of group g of sample n, which is i = n * groups + g: all channels of a tile, then those of the
/// next tile.
struct MomentParts {
  using Result = RowSums;
  using Join = JoinMoments;
  const RowSums* partial;  ///< [n * tiles + tile][channel]
  index_t tiles;           ///< per sample
  int channels, groups;

  KOKKOS_FUNCTION index_t count() const { return tiles * (channels / groups); }
  KOKKOS_FUNCTION const RowSums& at(index_t i, index_t k) const {
    const int size = channels / groups;
    return partial[(i / groups * tiles + k / size) * channels + i % groups * size + k % size];
  }
};

/// Tables of one affine over (n, c), as Affine reads them. The mean and the inverse deviation are double.
template <class T>
struct AffineTables {
  T* scale;
  T* shift;
  T* slope;
  T* offset;
  double* mean;
  double* inverse_deviation;
};

/// What is kept of the moments of a batch for inference, as in torch.nn.BatchNorm2d: the mean, and the variance
/// divided by count - 1.
template <class T>
struct RunningMoments {
  T* mean = nullptr;
  T* variance = nullptr;
  double momentum = 0;

  KOKKOS_FUNCTION void add(index_t channel, const RowSums& moments) const {
    if (mean == nullptr) return;
    const double of_batch = moments.third / (moments.first > 1 ? moments.first - 1 : 1);
    mean[channel] = static_cast<T>((1 - momentum) * static_cast<double>(mean[channel]) + momentum * moments.second);
    variance[channel] = static_cast<T>((1 - momentum) * static_cast<double>(variance[channel]) + momentum * of_batch);
  }
};

/// The shift of an affine whose center is the mean, rounded to T.
template <class T>
HALOGEN_FUNCTION T shift_of(double mean, double scale, double beta) {
  return static_cast<T>(beta + scale * (static_cast<double>(static_cast<T>(mean)) - mean));
}

/// Merges the moments of all ranks in the order of the ranks. Gives y = gamma (x - mean) / deviation + beta as scale,
/// center and shift.
template <class T>
struct FinishMoments {
  const RowSums* gathered;  ///< [rank][n * groups + g]
  int ranks;
  index_t count;  ///< samples * groups
  int channels, groups;
  double epsilon;
  const T* gamma;  ///< null: 1
  const T* beta;   ///< null: 0
  AffineTables<T> tables;
  int copies = 1;  ///< how many samples have these moments
  RunningMoments<T> running = {};

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const auto sums = merged<RowSums, JoinMoments>(ranks, [&](index_t r) { return gathered[r * count + i]; });
    running.add(i, sums);
    const double inverse = 1.0 / Kokkos::sqrt(sums.third / sums.first + epsilon);
    const int size = channels / groups, first = static_cast<int>(i % groups) * size;
    for (int n = 0; n < copies; ++n)
      for (int c = first; c < first + size; ++c) {
        const index_t at = (i / groups + n) * channels + c;
        const double scale = gamma == nullptr ? inverse : static_cast<double>(gamma[c]) * inverse;
        tables.mean[at] = sums.second;
        tables.inverse_deviation[at] = inverse;
        tables.scale[at] = static_cast<T>(scale);
        tables.shift[at] = shift_of<T>(sums.second, scale, beta == nullptr ? 0.0 : static_cast<double>(beta[c]));
      }
  }
};

/// The tables of an affine for all samples, from a mean and a variance of each channel.
template <class T>
struct FrozenMoments {
  const T *mean, *variance, *gamma, *beta;  ///< null: gamma is 1, beta 0
  int samples, channels;
  double epsilon;
  AffineTables<T> tables;

  KOKKOS_FUNCTION void operator()(const index_t c) const {
    const double factor = gamma != nullptr ? static_cast<double>(gamma[c]) : 1.0;
    const double scale = factor / Kokkos::sqrt(static_cast<double>(variance[c]) + epsilon);
    for (int n = 0; n < samples; ++n) {
      tables.mean[n * channels + c] = static_cast<double>(mean[c]);
      tables.scale[n * channels + c] = static_cast<T>(scale);
      tables.shift[n * channels + c] = beta != nullptr ? beta[c] : T(0);
    }
  }
};

/// For each channel, the gradients of gamma and beta on this rank, added over samples and, with `accumulate`, over
/// activations. For each (n, g), the two sums that the input's gradient needs. One team for each group.
template <class ExecutionSpace, class T>
struct MergeAffineSums {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  const RowSums* partial;
  index_t tiles;
  int samples, channels, groups;
  const T* gamma;  ///< null: 1
  AffineTables<T> tables;
  T* gamma_gradient;  ///< null: nobody needs it
  T* beta_gradient;   ///< null: nobody needs it
  bool accumulate;
  double* result;  ///< [n * groups + g][2]

  void launch(const ExecutionSpace& space) const {
    launch_tiles(space, "halogen::affine", groups, *this, 0, device::reduce_bytes);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    RowSums* scratch = merge_scratch(team);
    merge(team.league_rank(), writes_merged(team), [&](int n, int c) {
      return merged_by(team, scratch, tiles,
                       [&](index_t tile) -> const RowSums& { return partial[(n * tiles + tile) * channels + c]; });
    });
  }

 private:
  /// sums_of(n, c): the sums over the tiles of a sample. All threads of the team compute them, and one writes.
  template <class SumsOf>
  KOKKOS_FUNCTION void merge(index_t g, bool writes, SumsOf sums_of) const {
    const int size = channels / groups, first = static_cast<int>(g) * size;
    for (int n = 0; writes && n < samples; ++n) result[2 * (n * groups + g)] = result[2 * (n * groups + g) + 1] = 0;
    for (int c = first; c < first + size; ++c) {
      const double scale = gamma == nullptr ? 1.0 : static_cast<double>(gamma[c]);
      double by_gamma = 0, by_beta = 0;
      for (int n = 0; n < samples; ++n) {
        const RowSums sums = sums_of(n, c);
        if (!writes) continue;
        const double along = sums.second * tables.inverse_deviation[n * channels + c];
        by_beta += sums.first;
        by_gamma += along;
        result[2 * (n * groups + g)] += scale * sums.first;
        result[2 * (n * groups + g) + 1] += scale * along;
      }
      if (writes) write(gamma_gradient, c, by_gamma), write(beta_gradient, c, by_beta);
    }
  }
  KOKKOS_FUNCTION void write(T* gradient, int c, double sum) const {
    if (gradient != nullptr) gradient[c] = static_cast<T>(sum + (accumulate ? static_cast<double>(gradient[c]) : 0.0));
  }
};

/// dx = scale g - (s1 + xhat s2) / (deviation count), as scale * g plus slope * (x - center) + offset.
template <class T>
struct FinishAffineSums {
  const double* sums;  ///< [n * groups + g][2], over all ranks
  double count;        ///< points of a group over all ranks
  int channels, groups;
  AffineTables<T> tables;
  int copies = 1;  ///< how many samples have these sums

  KOKKOS_FUNCTION void operator()(const index_t i) const {
    const int size = channels / groups, first = static_cast<int>(i % groups) * size;
    const double s1 = sums[2 * i] / count, s2 = sums[2 * i + 1] / count;
    for (int n = 0; n < copies; ++n)
      for (int c = first; c < first + size; ++c) {
        const index_t at = (i / groups + n) * channels + c;
        const double inverse = tables.inverse_deviation[at];
        const double slope = -inverse * inverse * s2;
        tables.slope[at] = static_cast<T>(slope);
        tables.offset[at] = shift_of<T>(tables.mean[at], slope, -inverse * s1);
      }
  }
};

}  // namespace halogen::kernels
