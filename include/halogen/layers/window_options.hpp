// The options of windowed layers, in any order: Conv2d<3, 16, Kernel<3>, Stride<2>, Padding<1>, Boundary<Zero,
// Periodic>>.
#pragma once

#include "halogen/stencil/boundary.hpp"
#include "halogen/stencil/window.hpp"

namespace halogen {

template <int Height, int Width = Height>
struct Kernel {
  static_assert(Height > 0 && Width > 0, "a kernel has at least one point");
};
template <int Height, int Width = Height>
struct Stride {
  static_assert(Height > 0 && Width > 0, "a stride is at least 1");
};
template <int Height, int Width = Height>
struct Padding {
  static_assert(Height >= 0 && Width >= 0, "padding is not negative");
};
template <int Height, int Width = Height>
struct Dilation {
  static_assert(Height > 0 && Width > 0, "a dilation is at least 1");
};
template <int Count>
struct Groups {
  static_assert(Count > 0, "channels form at least one group");
};
template <int Height, int Width = Height>
struct OutputPadding {
  static_assert(Height >= 0 && Width >= 0, "output padding is not negative");
};
/// As much output padding as gives the extents of the enclosing SkipConcat's input.
struct OutputToSkip {};
template <bool On>
struct Bias {};

namespace detail {

struct WindowOptions {
  Window window[2];
  int groups = 1;
  bool bias = true;
  bool to_skip = false;
  bool has_stride = false, has_bias = false;

  template <int Height, int Width>
  constexpr void set(Kernel<Height, Width>) {
    window[0].kernel = Height, window[1].kernel = Width;
  }
  template <int Height, int Width>
  constexpr void set(Stride<Height, Width>) {
    window[0].stride = Height, window[1].stride = Width, has_stride = true;
  }
  template <int Height, int Width>
  constexpr void set(Padding<Height, Width>) {
    window[0].padding = Height, window[1].padding = Width;
  }
  template <int Height, int Width>
  constexpr void set(Dilation<Height, Width>) {
    window[0].dilation = Height, window[1].dilation = Width;
  }
  template <class Height, class Width>
  constexpr void set(Boundary<Height, Width>) {
    window[0].periodic = Height::periodic, window[1].periodic = Width::periodic;
  }
  template <int Count>
  constexpr void set(Groups<Count>) {
    groups = Count;
  }
  template <int Height, int Width>
  constexpr void set(OutputPadding<Height, Width>) {
    window[0].output_padding = Height, window[1].output_padding = Width;
  }
  constexpr void set(OutputToSkip) { to_skip = true; }
  template <bool On>
  constexpr void set(Bias<On>) {
    bias = On, has_bias = true;
  }
};

template <class... Options>
constexpr WindowOptions window_options() {
  WindowOptions options;
  (options.set(Options{}), ...);
  return options;
}

}  // namespace detail
}  // namespace halogen
