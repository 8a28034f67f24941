// The driver functions that Kokkos calls, looked up when they are called: a program linked with these starts on a
// machine without a driver and can say so (comm/device.hpp), where else the loader would end it.
#include <cuda.h>
#include <dlfcn.h>

#include <cstdio>
#include <cstdlib>

namespace {

template <class Function>
Function driver(const char* name, Function) {
  static void* const library = dlopen("libcuda.so.1", RTLD_NOW);
  if (void* found = library == nullptr ? nullptr : dlsym(library, name)) return reinterpret_cast<Function>(found);
  std::fprintf(stderr, "error: libcuda.so.1 with %s was not found: install the driver of this machine's GPU\n", name);
  std::exit(EXIT_FAILURE);
}

}  // namespace

// Hidden, so that the driver itself does not find these.
#define HALOGEN_HIDDEN extern "C" __attribute__((visibility("hidden")))
#undef cuCtxPushCurrent
#undef cuStreamGetCtx

HALOGEN_HIDDEN CUresult CUDAAPI cuCtxGetDevice(CUdevice* device) {
  return driver("cuCtxGetDevice", &cuCtxGetDevice)(device);
}
HALOGEN_HIDDEN CUresult CUDAAPI cuCtxPushCurrent_v2(CUcontext context) {
  return driver("cuCtxPushCurrent_v2", &cuCtxPushCurrent_v2)(context);
}
HALOGEN_HIDDEN CUresult CUDAAPI cuStreamGetCtx(CUstream stream, CUcontext* context) {
  return driver("cuStreamGetCtx", &cuStreamGetCtx)(stream, context);
}
