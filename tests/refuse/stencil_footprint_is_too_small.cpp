// A stencil whose functor takes more neighbours than its footprint has.
// expect: a stencil's functor is called with
#include <halogen/network.hpp>

struct Slope {
#ifdef REFUSE
  using footprint = hg::Footprint<hg::At<0, 0>>;
#else
  using footprint = hg::Footprint<hg::At<0, -1>, hg::At<0, 1>>;
#endif
  template <class T>
  KOKKOS_FUNCTION T operator()(T west, T east) const {
    return east - west;
  }
};

hg::Stencil<Slope> layer;
