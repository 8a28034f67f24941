// The stencil of a plane given to a field of four dimensions: it would look along samples and channels.
// expect: why::footprint_differs_in_rank<2, 4>
#include <halogen/array_language.hpp>

using Field = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn, hg::dyn, hg::dyn>, hg::Mesh<"line">, hg::Shard<2>>;

template <class... Neighbours>
struct Difference {
  using footprint = hg::Footprint<Neighbours...>;
  template <class T>
  KOKKOS_FUNCTION T operator()(T centre, T beside) const {
    return beside - centre;
  }
};

void step(const Field& u) {
#ifdef REFUSE
  auto v = hg::stencil(Difference<hg::At<0, 0>, hg::At<0, 1>>{}, u);
#else
  auto v = hg::stencil(Difference<hg::At<0, 0, 0, 0>, hg::At<0, 0, 0, 1>>{}, u);
#endif
  static_cast<void>(v);
}
