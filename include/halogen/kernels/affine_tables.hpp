// From partial sums to the tables of an affine, which is a scale and a shift of each channel, and to those of its vjp:
// small kernels before and after the one collective.
//   forward:  merge tiles -> all_gather (count, mean, M2) -> merge ranks -> scale, shift, mean, 1 / deviation
//   backward: merge tiles -> all_reduce (sum of gamma g, sum of gamma g xhat) -> slope, offset; gamma's, beta's
//   gradient
#pragma once

#include "halogen/kernels/device/reduce.hpp"
#include "halogen/kernels/tiles.hpp"

namespace halogen::kernels {

/// Moments of group g of sample n on this rank, over tiles and channels in a fixed order. One team for each (n, g).
template <class ExecutionSpace>
struct MergeMoments {
  using Team = typename Kokkos::TeamPolicy<ExecutionSpace>::member_type;
  const RowSums* partial;  ///< [n * tiles + tile][channel]
  index_t tiles;           ///< per sample
  int channels, groups;
  RowSums* result;  ///< [n * groups + g]

  void launch(const ExecutionSpace& space, index_t samples) const {
    launch_tiles(space, "halogen::affine", samples * groups, *this, 0, device::reduce_bytes);
  }

  KOKKOS_FUNCTION void operator()(const Team& team) const {
    HALOGEN_HOST_PART(run_on_host(team.league_rank());)
    HALOGEN_DEVICE_PART(run_on_device(team, team.league_rank());)
  }

 private:
  /// Value k of group i: all channels of a tile, then those of the next tile.
  KOKKOS_FUNCTION const RowSums& value(index_t i, index_t k) const {
    const int size = channels / groups;
    return partial[(i / groups * tiles + k / size) * channels + i % groups * size + k % size];
  }
  KOKKOS_FUNCTION index_t values() const { return tiles * (channels / groups); }

  void run_on_host(index_t i) const {
    RowSums sums;
    for (index_t k = 0; k < values(); ++k) sums.merge_moments(value(i, k));
    result[i] = sums;
  }

  KOKKOS_FUNCTION void run_on_device(const Team& team, index_t i) const {
    const auto merge = [](RowSums& sums, const RowSums& other) { sums.merge_moments(other); };
    const RowSums sums = device::reduce(
        team, device::reduce_scratch(team), values(), [&](index_t k, RowSums& own) { own.merge_moments(value(i, k)); },
        merge);
    if (device::is_first_thread(team)) result[i] = sums;
  }
};

/// Tables of one affine over (n, c). The mean and the inverse deviation are double.
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

/// Merges the moments of all ranks in the order of the ranks. Gives y = gamma (x - mean) / deviation + beta as scale
/// and shift.
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
    RowSums sums;
    for (int r = 0; r < ranks; ++r) sums.merge_moments(gathered[r * count + i]);
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
        tables.shift[at] = static_cast<T>((beta == nullptr ? 0.0 : static_cast<double>(beta[c])) - scale * sums.second);
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
    const double shift = (beta != nullptr ? static_cast<double>(beta[c]) : 0.0) - scale * static_cast<double>(mean[c]);
    for (int n = 0; n < samples; ++n) {
      tables.scale[n * channels + c] = static_cast<T>(scale);
      tables.shift[n * channels + c] = static_cast<T>(shift);
    }
  }
};

/// For an affine of the whole batch: merges the values of all samples, in their order, into those of the first sample.
struct MergeSamples {
  RowSums* moments;  ///< [n * groups + g]; if null, `sums` are merged
  double* sums;      ///< [n * groups + g][2]
  int samples, groups;

  KOKKOS_FUNCTION void operator()(const index_t g) const {
    for (int n = 1; n < samples; ++n) {
      const index_t from = index_t{n} * groups + g;
      if (moments != nullptr) {
        moments[g].merge_moments(moments[from]);
      } else {
        sums[2 * g] += sums[2 * from];
        sums[2 * g + 1] += sums[2 * from + 1];
      }
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
    const auto partial_of = [this](int n, index_t tile, int c) -> const RowSums& {
      return partial[(n * tiles + tile) * channels + c];
    };
    HALOGEN_HOST_PART(merge(team.league_rank(), true, [&](int n, int c) {
                        RowSums sums;
                        for (index_t tile = 0; tile < tiles; ++tile) sums.add(partial_of(n, tile, c));
                        return sums;
                      });)
    HALOGEN_DEVICE_PART(RowSums* scratch = device::reduce_scratch(team);
                        merge(team.league_rank(), device::is_first_thread(team), [&](int n, int c) {
                          return device::sum(team, scratch, tiles,
                                             [&](index_t tile, RowSums& own) { own.add(partial_of(n, tile, c)); });
                        });)
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

/// dx = scale g - (s1 + xhat s2) / (deviation count), as scale * g plus slope * x + offset.
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
        tables.offset[at] = static_cast<T>(-inverse * s1 - slope * tables.mean[at]);
      }
  }
};

}  // namespace halogen::kernels
