// What a program registered when it started.
#pragma once

#include "machine.hpp"

namespace emulated {

struct Kernel {
  Function* function = nullptr;
  int shared_limit = 48 * 1024;  ///< what a launch may ask for; cudaFuncSetAttribute raises it
};

/// Null: nothing is registered by that address.
Kernel* kernel_of(const void* host_function);
/// The address on the device, or 0.
u64 variable_of(const void* host_variable);

}  // namespace emulated
