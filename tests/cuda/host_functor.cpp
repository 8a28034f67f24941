// A functor that a kernel calls must run on the device. nvcc alone knows whether it does.
// expect: calling a __host__ function from a __host__ __device__ function is not allowed
// expect: F=Squared
#include <halogen/kernels/rows/functor_rows.hpp>

struct Squared {
  template <class T>
#ifndef REFUSE
  KOKKOS_FUNCTION
#endif
      T
      operator()(T value) const {
    return value * value;
  }
};

KOKKOS_FUNCTION float run(float x) { return halogen::kernels::ChannelValues<float, 0>{}.call(Squared{}, 0, x); }
