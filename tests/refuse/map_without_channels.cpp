// A map with parameters as a model's first layer, which does not say how many channels it takes: by infer.
// expect: why::channels_differ<0, 1, 3,
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"height", "width">;
using Image = hg::Sharded<hg::Tensor<float, hg::dyn, 3, hg::dyn, hg::dyn>, Grid, hg::Shard<2>, hg::Shard<3>>;

struct Scale {
  static constexpr hg::ChannelParameter parameters[] = {{"scale"}};
  template <class T>
  KOKKOS_FUNCTION T operator()(T u, T scale) const {
    return scale * u;
  }
};

#ifdef REFUSE
using Model = hg::Map<Scale>;
#else
using Model = hg::Map<Scale, hg::Channels<3>>;
#endif

void run(const hg::Parameters<Model, float>& parameters, const Image& image) { hg::infer(parameters, image); }
