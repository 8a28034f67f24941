// The collectives for the sums of a plan. Each runs on the sub-mesh that cuts what is summed.
#pragma once

#include "halogen/comm/agree.hpp"
#include "halogen/kernels/group_norm.hpp"
#include "halogen/run/layout.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// Communicators of the sub-meshes of a field that this rank is in. A sum leaves out mesh dimensions that do not cut
/// it.
struct SubMeshes {
  Communicator world;
  Communicator plane;    ///< ranks that share the points of a sample: norms
  Communicator samples;  ///< these and the ranks of all other samples: losses, gradients
};

/// Moments and gradient sums of norms over all ranks. The buffers are made once, in memory that the transport can read.
template <class T>
class NormCollectives {
 public:
  NormCollectives(const Plan& plan, const Layout& layout, const SubMeshes& meshes);

  /// One all_gather. Every rank merges the moments in the order of the ranks, so all ranks get the same bits.
  void finish_moments(const execution_space& space, NormId index, const kernels::RowSums* partial, index_t tiles,
                      const T* gamma, const T* beta, const kernels::NormTables<T>& tables,
                      const kernels::RunningMoments<T>& running);

  /// One all_reduce of two sums for each group and sample. The gradients of gamma and beta remain this rank's share.
  void finish_sums(const execution_space& space, NormId index, const kernels::RowSums* partial, index_t tiles,
                   const T* gamma, T* gamma_gradient, T* beta_gradient, bool accumulate,
                   const kernels::NormTables<T>& tables, double points);

 private:
  /// The ranks over which a norm sums, and for how many groups each rank has sums.
  const Communicator& ranks_of(const Norm& norm) const { return norm.of_batch ? all_samples_ : plane_; }
  index_t groups_of(const Norm& norm) const { return norm.of_batch ? norm.groups : index_t{samples_} * norm.groups; }
  int copies_of(const Norm& norm) const { return norm.of_batch ? samples_ : 1; }

  const Plan& plan_;
  int samples_;
  Communicator plane_, all_samples_;
  TransportBuffer<kernels::RowSums> own_, gathered_;
  TransportBuffer<double> sums_;
};

template <class T>
NormCollectives<T>::NormCollectives(const Plan& plan, const Layout& layout, const SubMeshes& meshes)
    : plan_(plan), samples_(layout.samples()), plane_(meshes.plane), all_samples_(meshes.samples) {
  index_t groups = 0, gathered = 0;
  for (const Norm& norm : plan.norms) {
    groups = std::max(groups, index_t{norm.groups} * samples_);
    gathered = std::max(gathered, groups_of(norm) * ranks_of(norm).size());
  }
  const Communicator& widest = all_samples_.size() > 1 ? all_samples_ : plane_;
  own_ = {"halogen::moments", groups, Travels::in_collectives, widest};
  gathered_ = {"halogen::all_moments", gathered, Travels::in_collectives, widest};
  sums_ = {"halogen::norm_sums", 2 * groups, Travels::in_collectives, widest};
}

template <class T>
void NormCollectives<T>::finish_moments(const execution_space& space, NormId index, const kernels::RowSums* partial,
                                        index_t tiles, const T* gamma, const T* beta,
                                        const kernels::NormTables<T>& tables,
                                        const kernels::RunningMoments<T>& running) {
  const Norm& norm = plan_.norms[index];
  const Communicator& ranks = ranks_of(norm);
  const index_t count = groups_of(norm);
  kernels::MergeMoments<execution_space>{partial, tiles, norm.channels, norm.groups, own_.data()}.launch(space,
                                                                                                         samples_);
  if (copies_of(norm) > 1)
    launch_range(space, "halogen::norm", count, kernels::MergeSamples{own_.data(), nullptr, samples_, norm.groups});
  const kernels::RowSums* all = own_.data();
  if (ranks.size() > 1) {
    settle(space, ranks, "halogen::merge_moments");
    ranks.all_gather(own_.data(), static_cast<std::size_t>(count) * sizeof(kernels::RowSums), gathered_.data());
    all = gathered_.data();
  }
  launch_range(space, "halogen::norm", count,
               kernels::FinishMoments<T>{all, ranks.size(), count, norm.channels, norm.groups, norm.epsilon, gamma,
                                         beta, tables, copies_of(norm), running});
}

template <class T>
void NormCollectives<T>::finish_sums(const execution_space& space, NormId index, const kernels::RowSums* partial,
                                     index_t tiles, const T* gamma, T* gamma_gradient, T* beta_gradient,
                                     bool accumulate, const kernels::NormTables<T>& tables, double points) {
  const Norm& norm = plan_.norms[index];
  const Communicator& ranks = ranks_of(norm);
  const index_t count = groups_of(norm);
  kernels::MergeNormSums<execution_space, T>{partial, tiles,          samples_,      norm.channels, norm.groups, gamma,
                                             tables,  gamma_gradient, beta_gradient, accumulate,    sums_.data()}
      .launch(space);
  if (copies_of(norm) > 1)
    launch_range(space, "halogen::norm", count, kernels::MergeSamples{nullptr, sums_.data(), samples_, norm.groups});
  if (ranks.size() > 1) {
    settle(space, ranks, "halogen::merge_norm_sums");
    ranks.all_reduce(sums_.data(), static_cast<std::size_t>(2 * count));
  }
  launch_range(space, "halogen::norm", count,
               kernels::FinishNormSums<T>{sums_.data(), points, norm.channels, norm.groups, tables, copies_of(norm)});
}

}  // namespace halogen
