// A map's functor that takes float alone: it has no derivative.
// expect: functor_is_no_template
#include <halogen/kernels/rows/dual.hpp>

#ifdef REFUSE
struct Half {
  float operator()(float value) const { return value / 2; }
};
#else
struct Half {
  template <class T>
  T operator()(T value) const {
    return value / 2;
  }
};
#endif

float run(float x) { return halogen::PartialOf<Half, 0>{}(x); }
