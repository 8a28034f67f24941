// The collectives that a plan's sums need, on the sub-mesh that cuts what is summed.
#pragma once

#include "halogen/comm/agree.hpp"
#include "halogen/kernels/group_norm.hpp"
#include "halogen/run/layout.hpp"
#include "halogen/tensor/transport_buffer.hpp"

namespace halogen {

/// Communicators of a field's sub-meshes through this rank: a sum leaves out mesh dimensions that do not cut it.
struct SubMeshes {
  Communicator world;
  Communicator plane;    ///< ranks that share a sample's plane: norms
  Communicator samples;  ///< and all samples: losses, gradients
};

/// Moments and gradient sums of norms over all ranks. Buffers are made once, where the transport can read.
template <class T>
class NormCollectives {
 public:
  NormCollectives(const Plan& plan, const Layout& layout, Communicator plane);

  /// One all_gather; every rank merges in rank order and so ends with the same bits.
  void finish_moments(const execution_space& space, int index, const kernels::RowSums* partial, index_t tiles,
                      const T* gamma, const T* beta, const kernels::NormTables<T>& tables);

  /// One all_reduce of two sums a group and sample; gamma's and beta's gradients stay this rank's share.
  void finish_sums(const execution_space& space, int index, const kernels::RowSums* partial, index_t tiles,
                   const T* gamma, T* gamma_gradient, T* beta_gradient, bool accumulate,
                   const kernels::NormTables<T>& tables, double points);

 private:
  const Plan& plan_;
  int samples_;
  Communicator plane_;
  TransportBuffer<kernels::RowSums> own_, gathered_;
  TransportBuffer<double> sums_;
};

template <class T>
NormCollectives<T>::NormCollectives(const Plan& plan, const Layout& layout, Communicator plane)
    : plan_(plan), samples_(layout.samples()), plane_(std::move(plane)) {
  index_t groups = 0;
  for (const Norm& norm : plan.norms) groups = std::max(groups, index_t{norm.groups} * samples_);
  own_ = {"halogen::moments", groups, Travels::in_collectives, plane_};
  gathered_ = {"halogen::all_moments", groups * plane_.size(), Travels::in_collectives, plane_};
  sums_ = {"halogen::norm_sums", 2 * groups, Travels::in_collectives, plane_};
}

template <class T>
void NormCollectives<T>::finish_moments(const execution_space& space, int index, const kernels::RowSums* partial,
                                        index_t tiles, const T* gamma, const T* beta,
                                        const kernels::NormTables<T>& tables) {
  const Norm& norm = plan_.norms[index];
  const index_t count = index_t{samples_} * norm.groups;
  kernels::MergeMoments<execution_space>{partial, tiles, norm.channels, norm.groups, own_.data()}.launch(space,
                                                                                                         samples_);
  const kernels::RowSums* all = own_.data();
  if (plane_.size() > 1) {
    settle(space, plane_, "halogen::merge_moments");
    plane_.all_gather(own_.data(), static_cast<std::size_t>(count) * sizeof(kernels::RowSums), gathered_.data());
    all = gathered_.data();
  }
  launch_range(space, "halogen::norm", count,
               kernels::FinishMoments<T>{all, plane_.size(), count, norm.channels, norm.groups, norm.epsilon, gamma,
                                         beta, tables});
}

template <class T>
void NormCollectives<T>::finish_sums(const execution_space& space, int index, const kernels::RowSums* partial,
                                     index_t tiles, const T* gamma, T* gamma_gradient, T* beta_gradient,
                                     bool accumulate, const kernels::NormTables<T>& tables, double points) {
  const Norm& norm = plan_.norms[index];
  const index_t count = index_t{samples_} * norm.groups;
  kernels::MergeNormSums<execution_space, T>{partial, tiles,          samples_,      norm.channels, norm.groups, gamma,
                                             tables,  gamma_gradient, beta_gradient, accumulate,    sums_.data()}
      .launch(space);
  if (plane_.size() > 1) {
    settle(space, plane_, "halogen::merge_norm_sums");
    plane_.all_reduce(sums_.data(), static_cast<std::size_t>(2 * count));
  }
  launch_range(space, "halogen::norm", count,
               kernels::FinishNormSums<T>{sums_.data(), points, norm.channels, norm.groups, tables});
}

}  // namespace halogen
