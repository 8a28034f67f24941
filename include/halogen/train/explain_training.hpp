// explain(model, field): the plan of a model on a field, or dry, on a mesh of ranks that do not exist.
#pragma once

#include <string>

#include "halogen/run/explain_plan.hpp"
#include "halogen/run/memory_limit.hpp"
#include "halogen/train/network.hpp"

namespace halogen {

/// The layout of a model on `rank` of a mesh (real or dry) for fields of type Image with the given cuts. Allocates
/// nothing and moves nothing; throws CollectiveError as the run would. With a limit, the plan is chosen as in a run
/// (run/memory_limit.hpp), on a dry mesh by this rank's piece: explain(layout) says what is computed again.
template <class Image, class ModelType>
  requires Fits<ModelType, Image>
Layout layout_of(const ModelType&, const DeviceMesh<typename Image::mesh_type>& mesh,
                 const std::array<Cut, Image::rank>& cuts, PlanKind kind = PlanKind::training,
                 const MemoryLimit& limit = {}) {
  Image::make_shape(mesh, cuts);  // refuses what no such field can be
  const Decomposition pieces(mesh.extents(), Image::placements, Image::mesh_type::names);
  constexpr int channels = Image::tensor_type::extents[1];
  const auto plan = [kind]() -> const Plan& {
    switch (kind) {
      case PlanKind::inference:
        return plan_of<ModelType, channels, PlanKind::inference>;
      case PlanKind::training:
        return plan_of<ModelType, channels, PlanKind::training>;
      case PlanKind::vjp:
        return plan_of<ModelType, channels, PlanKind::vjp>;
      default:
        return plan_of<ModelType, channels, PlanKind::training_with_input_gradient>;
    }
  };
  return detail::layout_within(limit, mesh.world(), plan(),
                               {pieces, mesh.rank(), cuts, ValueBytes::of<typename Image::value_type>()},
                               [](const Layout&) { return std::size_t{0}; });
}

/// The same for fields with the given global extents, cut as torch.chunk.
template <class Image, class ModelType>
  requires Fits<ModelType, Image>
Layout layout_of(const ModelType& model, const DeviceMesh<typename Image::mesh_type>& mesh,
                 const typename Image::Extents& extents, PlanKind kind = PlanKind::training,
                 const MemoryLimit& limit = {}) {
  const Decomposition pieces(mesh.extents(), Image::placements, Image::mesh_type::names);
  detail::check_extents_of_field(extents, sizeof(typename Image::value_type));
  std::array<Cut, Image::rank> cuts;
  for (int d = 0; d < Image::rank; ++d) {
    const auto at = static_cast<std::size_t>(d);
    cuts[at] = Cut::chunk(extents[at], pieces.parts(d));
  }
  return layout_of<Image>(model, mesh, cuts, kind, limit);
}

template <class Image, class ModelType, class Why = WhyNot<ModelType, Image>>
  requires(!Fits<ModelType, Image>)
void layout_of(const ModelType& model, const DeviceMesh<typename Image::mesh_type>& mesh,
               const std::array<Cut, Image::rank>& cuts, PlanKind kind = PlanKind::training) = delete;
template <class Image, class ModelType, class Why = WhyNot<ModelType, Image>>
  requires(!Fits<ModelType, Image>)
void layout_of(const ModelType& model, const DeviceMesh<typename Image::mesh_type>& mesh,
               const typename Image::Extents& extents, PlanKind kind = PlanKind::training) = delete;

/// The plan in words: explain<Field>(UNet{}, dry_mesh<Grid>({8, 8}), {1, 7, 2700, 5400}).
template <class Image, class ModelType>
  requires Fits<ModelType, Image>
std::string explain(const ModelType& model, const DeviceMesh<typename Image::mesh_type>& mesh,
                    const typename Image::Extents& extents, PlanKind kind = PlanKind::training) {
  return explain(layout_of<Image>(model, mesh, extents, kind));
}

/// The same with parameters sharded: explain<Field>(UNet{}, mesh, extents, shard_parameters<"data">).
template <class Image, class ModelType, ShardsParameters Sharding>
  requires Fits<ModelType, Image>
std::string explain(const ModelType& model, const DeviceMesh<typename Image::mesh_type>& mesh,
                    const typename Image::Extents& extents, Sharding sharding, PlanKind kind = PlanKind::training) {
  const auto sharded = sharding.template on<ModelType, compute_type<typename Image::value_type>>(mesh);
  return explain(layout_of<Image>(model, mesh, extents, kind), sharded.get());
}

template <class Image, class ModelType, class... More, class Why = WhyNot<ModelType, Image>>
  requires(!Fits<ModelType, Image>)
void explain(const ModelType& model, const DeviceMesh<typename Image::mesh_type>& mesh,
             const typename Image::Extents& extents, More... sharding_or_kind) = delete;

/// The plan of a training step on this field, cut as it is.
template <class ModelType, class Image>
  requires(detail::is_given<Image> && Fits<ModelType, Image>)
std::string explain(const ModelType& model, const Image& image, PlanKind kind = PlanKind::training) {
  return explain(layout_of<Image>(model, image.mesh("explain"), image.cuts("explain"), kind));
}

template <class ModelType, class Image, class Why = WhyNot<ModelType, Image>>
  requires(detail::is_given<Image> && !Fits<ModelType, Image>)
void explain(const ModelType& model, const Image& image, PlanKind kind = PlanKind::training) = delete;

template <class ModelType, detail::Unstored E, class Why = why::expression_is_no_field>
void explain(const ModelType& model, const E& expression,  // write Image v = u + 1; and give v
             PlanKind kind = PlanKind::training) = delete;

}  // namespace halogen
