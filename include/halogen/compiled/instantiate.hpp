// Reads list.inc with HALOGEN_INSTANTIATION before each entry: `extern template` in programs that link
// halogen::compiled, `template` in the library's own sources. HALOGEN_LISTED_ARRAY or HALOGEN_LISTED_NETWORK say whose
// headers have been read, HALOGEN_LISTED_PART(n) whether the n-th share is wanted. No include guard: it is read anew
// for each of these.
#define HALOGEN_CLASS(...) HALOGEN_INSTANTIATION class __VA_ARGS__;
#define HALOGEN_RANGE(...)                                                                           \
  HALOGEN_INSTANTIATION void launch_range<__VA_ARGS__>(const execution_space&, const char*, index_t, \
                                                       const __VA_ARGS__&);
#define HALOGEN_TILES(...)                                                        \
  HALOGEN_INSTANTIATION void kernels::launch_tiles<execution_space, __VA_ARGS__>( \
      const execution_space&, const char*, index_t, const __VA_ARGS__&, std::size_t, std::size_t);
#define HALOGEN_LAUNCH(S, LaunchType, ...) \
  HALOGEN_INSTANTIATION void run_launch<S, LaunchType, Form{__VA_ARGS__}>(const LaunchAt<S>&);
#define HALOGEN_LOSS(S, ...)                                                                                      \
  HALOGEN_INSTANTIATION void detail::weigh_loss<S, __VA_ARGS__>(const BoundLoss<S>&, const execution_space&, int, \
                                                                const kernels::Tiling&, double*);                 \
  HALOGEN_INSTANTIATION void detail::run_loss<S, __VA_ARGS__>(const BoundLoss<S>&, const execution_space&,        \
                                                              const TensorView<S>&, const TensorView<S>&, int,    \
                                                              const kernels::Tiling&, const double*, double*);
#define HALOGEN_COPY_STORED(S)                                                                                      \
  HALOGEN_INSTANTIATION void copy_stored<S>(const execution_space&, const Plan&, const Layout&, const Operands<S>&, \
                                            TensorId, const TensorView<S>&);
namespace halogen {
#include "halogen/compiled/list.inc"
}  // namespace halogen
#undef HALOGEN_CLASS
#undef HALOGEN_RANGE
#undef HALOGEN_TILES
#undef HALOGEN_LAUNCH
#undef HALOGEN_LOSS
#undef HALOGEN_COPY_STORED
