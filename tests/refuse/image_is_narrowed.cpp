// expect: values_are_narrowed<double, float>
#include <halogen/halogen.hpp>
using Grid = halogen::Mesh<"height">;
using Image =
    halogen::Sharded<halogen::Tensor<double, halogen::dyn, 1, halogen::dyn, halogen::dyn>, Grid, halogen::Shard<2>>;
using Net = halogen::Conv2d<1, 1>;
double mean(const halogen::Parameters<Net, float>& parameters, const Image& image) {
#ifdef REFUSE
  return halogen::mean(halogen::infer(parameters, 2 * image));
#else
  return halogen::mean(halogen::infer(parameters, halogen::cast<float>(2 * image)));
#endif
}
