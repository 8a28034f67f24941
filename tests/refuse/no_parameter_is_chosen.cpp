// A group of parameters by a name that none has: by parameters_named.
// expect: why::no_parameter_is_chosen<4>
// expect: parameters_named
#include <halogen/halogen.hpp>

using Model = hg::Sequential<hg::Conv2d<3, 8>, hg::ReLU, hg::Conv2d<8, 1>>;

hg::OptimizerOptions options() {
#ifdef REFUSE
  constexpr auto of_head = [](std::string_view name) { return name.starts_with("head."); };
#else
  constexpr auto of_head = [](std::string_view name) { return name.starts_with("2."); };
#endif
  return {.groups = {hg::parameters_named<Model>(of_head, 0.1)}};
}
