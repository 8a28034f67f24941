// expect: boundary_of_expressions<halogen::Odd, halogen::Periodic>
#include <halogen/halogen.hpp>
template <class... Edges>
using Layer = halogen::Conv2d<1, 1, halogen::Kernel<3>, halogen::Padding<1>, halogen::Boundary<Edges...>>;
#ifdef REFUSE
using Net = Layer<halogen::Odd, halogen::Periodic>;
#else
using Net = Layer<halogen::Reflect, halogen::Periodic>;
#endif
static_assert(Net::options.bias);
