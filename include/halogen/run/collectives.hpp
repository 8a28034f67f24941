// The collectives for the sums of a plan. Each runs on the sub-mesh that cuts what is summed.
#pragma once

#include "halogen/comm/agree.hpp"
#include "halogen/kernels/sums/affine_tables.hpp"
#include "halogen/run/layout.hpp"
#include "halogen/tensor/rank_sums.hpp"

namespace halogen::detail {

/// Communicators of the sub-meshes of a field that this rank is in. A sum leaves out mesh dimensions that do not cut
/// it.
struct SubMeshes {
  Communicator world;
  Communicator plane;    ///< ranks that share the points of a sample: affines
  Communicator samples;  ///< these and the ranks of all other samples: losses, gradients
};

/// Moments and gradient sums of affines over all ranks. The buffers are made once, in memory that the transport can
/// read.
template <class T>
class AffineCollectives {
 public:
  AffineCollectives(const Plan& plan, const Layout& layout, const SubMeshes& meshes);

  /// One all_gather. Every rank merges the moments in the order of the ranks, so all ranks get the same bits.
  void finish_moments(const execution_space& space, AffineTableId index, const kernels::RowSums* partial, index_t tiles,
                      const T* gamma, const T* beta, const kernels::AffineTables<T>& tables,
                      const kernels::RunningMoments<T>& running);

  /// One all_reduce of two sums for each group and sample. The gradients of gamma and beta remain this rank's share.
  void finish_sums(const execution_space& space, AffineTableId index, const kernels::RowSums* partial, index_t tiles,
                   const T* gamma, T* gamma_gradient, T* beta_gradient, bool accumulate,
                   const kernels::AffineTables<T>& tables, double points);

 private:
  /// The ranks over which an affine sums, and for how many groups each rank has sums.
  const Communicator& ranks_of(const AffineTable& affine) const { return affine.of_batch ? all_samples_ : plane_; }
  index_t groups_of(const AffineTable& affine) const {
    return affine.of_batch ? affine.groups : index_t{samples_} * affine.groups;
  }
  int copies_of(const AffineTable& affine) const { return affine.of_batch ? samples_ : 1; }

  /// For an affine of the whole batch: joins the `count` sums of all samples, in their order, to those of the first
  /// sample.
  template <class Join, class Sum>
  void merge_samples(const execution_space& space, index_t count, Sum* sums) const {
    launch_range(space, label, count, kernels::Merge<Sum, Sum, Join>{sums, count, samples_, sums});
  }

  static constexpr const char* label = "halogen::affine";

  const Plan& plan_;
  int samples_;
  Communicator plane_, all_samples_;
  TransportBuffer<kernels::RowSums> own_, gathered_;
  TransportBuffer<double> sums_;
};

template <class T>
AffineCollectives<T>::AffineCollectives(const Plan& plan, const Layout& layout, const SubMeshes& meshes)
    : plan_(plan), samples_(layout.samples()), plane_(meshes.plane), all_samples_(meshes.samples) {
  index_t groups = 0, gathered = 0;
  for (const AffineTable& affine : plan.affines) {
    groups = std::max(groups, index_t{affine.groups} * samples_);
    gathered = std::max(gathered, groups_of(affine) * ranks_of(affine).size());
  }
  const Communicator& widest = all_samples_.size() > 1 ? all_samples_ : plane_;
  own_ = {"halogen::moments", groups, Travels::in_collectives, widest};
  gathered_ = {"halogen::all_moments", gathered, Travels::in_collectives, widest};
  sums_ = {"halogen::affine_sums", 2 * groups, Travels::in_collectives, widest};
}

template <class T>
void AffineCollectives<T>::finish_moments(const execution_space& space, AffineTableId index,
                                          const kernels::RowSums* partial, index_t tiles, const T* gamma, const T* beta,
                                          const kernels::AffineTables<T>& tables,
                                          const kernels::RunningMoments<T>& running) {
  const AffineTable& affine = plan_.affines[index];
  const Communicator& ranks = ranks_of(affine);
  const index_t count = groups_of(affine);
  using Own = kernels::MergeByTeams<execution_space, kernels::MomentParts>;
  Own{{partial, tiles, affine.channels, affine.groups}, own_.data()}.launch(space, label,
                                                                            index_t{samples_} * affine.groups);
  if (copies_of(affine) > 1) merge_samples<kernels::JoinMoments>(space, count, own_.data());
  const kernels::RowSums* all = partials_of_ranks(space, ranks, label, own_.data(), count, gathered_.data());
  launch_range(space, label, count,
               kernels::FinishMoments<T>{all, ranks.size(), count, affine.channels, affine.groups, affine.epsilon,
                                         gamma, beta, tables, copies_of(affine), running});
}

template <class T>
void AffineCollectives<T>::finish_sums(const execution_space& space, AffineTableId index,
                                       const kernels::RowSums* partial, index_t tiles, const T* gamma,
                                       T* gamma_gradient, T* beta_gradient, bool accumulate,
                                       const kernels::AffineTables<T>& tables, double points) {
  const AffineTable& affine = plan_.affines[index];
  const Communicator& ranks = ranks_of(affine);
  const index_t count = groups_of(affine);
  kernels::MergeAffineSums<execution_space, T>{partial,       tiles,      samples_,    affine.channels,
                                               affine.groups, gamma,      tables,      gamma_gradient,
                                               beta_gradient, accumulate, sums_.data()}
      .launch(space);
  if (copies_of(affine) > 1) merge_samples<kernels::Add>(space, 2 * count, sums_.data());
  sum_over_ranks(space, ranks, label, sums_.data(), 2 * count);
  launch_range(
      space, label, count,
      kernels::FinishAffineSums<T>{sums_.data(), points, affine.channels, affine.groups, tables, copies_of(affine)});
}

}  // namespace halogen::detail
