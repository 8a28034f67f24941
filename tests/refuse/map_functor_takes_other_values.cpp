// A map whose functor takes fewer values than the map is called with.
// expect: a map's functor is called with
#include <halogen/network.hpp>

struct Product {
  template <class T>
  KOKKOS_FUNCTION T operator()(T a, T b) const {
    return a * b;
  }
};

struct Net : hg::Module<Net> {
  hg::Conv2d<2, 2> first, second;
  constexpr hg::Traced forward(hg::Traced x) const {
#ifdef REFUSE
    return hg::Map<Product>{}(first(x));
#else
    return hg::Map<Product>{}(first(x), second(x));
#endif
  }
};

constexpr int launches = hg::plan_of<Net, 2, hg::PlanKind::inference>.launches.size();
static_assert(launches > 0);
