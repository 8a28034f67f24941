// Parameters frozen by a name that none has: by infer.
// expect: why::nothing_is_frozen<2,
// expect: Frozen<
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, 4, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;

struct IsOfBody {
  constexpr bool operator()(std::string_view name) const {
#ifdef REFUSE
    return name.starts_with("body.");
#else
    return name.starts_with("0.");
#endif
  }
};
using Model = hg::Frozen<hg::Sequential<hg::Conv2d<4, 4>, hg::ReLU, hg::Conv2d<4, 2>>, IsOfBody{}>;

void run(const hg::Parameters<Model, float>& parameters, const Field& image) { hg::infer(parameters, image); }
