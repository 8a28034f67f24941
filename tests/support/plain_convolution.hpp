// A convolution and its three gradients written out in loops: what kernels of any kind are compared with.
#pragma once

#include <vector>

#include "support/train_once.hpp"

namespace support {

/// Of planes; `input` and `output` are what the layer reads and writes.
struct PlainConvolution {
  int in = 1, out = 1, groups = 1, kernel[2] = {1, 1}, stride[2] = {1, 1}, padding[2] = {0, 0}, dilation[2] = {1, 1};
  bool transposed = false, periodic = false;  ///< periodic in width
  hg::index_t batch = 1, input[2] = {1, 1};

  hg::index_t output(int d) const {
    hg::Window window{kernel[d], stride[d], dilation[d], padding[d]};
    window.transposed = transposed;
    return window.output_extent(input[d]);
  }
  std::size_t inputs() const { return static_cast<std::size_t>(batch * in * input[0] * input[1]); }
  std::size_t outputs() const { return static_cast<std::size_t>(batch * out * output(0) * output(1)); }
  std::size_t weights() const { return static_cast<std::size_t>(in / groups * out * kernel[0] * kernel[1]); }

  /// Calls f(x, w, y) with the positions of all products, w as PyTorch lays weights out.
  template <class F>
  void each_product(F f) const {
    const int many = transposed ? in : out, few = (transposed ? out : in) / groups;  // first and second of the weight
    const hg::index_t *fine = input, coarse_of[2] = {output(0), output(1)}, *coarse = coarse_of;
    if (transposed) std::swap(fine, coarse);
    for (hg::index_t n = 0; n < batch; ++n)
      for (int a = 0; a < many; ++a)
        for (int b = 0; b < few; ++b)
          for (int k = 0; k < kernel[0] * kernel[1]; ++k) {
            const int c = a / (many / groups) * few + b;
            const auto w = static_cast<std::size_t>((a * few + b) * kernel[0] * kernel[1] + k);
            for (hg::index_t y = 0; y < coarse[0]; ++y)
              for (hg::index_t x = 0; x < coarse[1]; ++x) {
                const hg::index_t row = y * stride[0] - padding[0] + k / kernel[1] * dilation[0];
                hg::index_t column = x * stride[1] - padding[1] + k % kernel[1] * dilation[1];
                if (periodic) column = hg::floor_mod(column, fine[1]);
                if (row < 0 || row >= fine[0] || column < 0 || column >= fine[1]) continue;
                const auto at_fine =
                    static_cast<std::size_t>(((n * (transposed ? out : in) + c) * fine[0] + row) * fine[1] + column);
                const auto at_coarse = static_cast<std::size_t>(((n * many + a) * coarse[0] + y) * coarse[1] + x);
                transposed ? f(at_coarse, w, at_fine) : f(at_fine, w, at_coarse);
              }
          }
  }

  /// Weights, then a bias for each output.
  Result<double> run(const std::vector<double>& parameters, const std::vector<double>& x,
                     const std::vector<double>& cotangent) const {
    Result<double> result;
    result.output.assign(outputs(), 0);
    result.input_gradient.assign(inputs(), 0);
    result.parameter_gradient.assign(parameters.size(), 0);
    const auto plane = static_cast<std::size_t>(output(0) * output(1));
    for (std::size_t i = 0; i < outputs(); ++i) {
      const std::size_t bias = weights() + i / plane % static_cast<std::size_t>(out);
      result.output[i] = parameters[bias];
      result.parameter_gradient[bias] += cotangent[i];
    }
    each_product([&](std::size_t i, std::size_t w, std::size_t o) {
      result.output[o] += parameters[w] * x[i];
      result.input_gradient[i] += parameters[w] * cotangent[o];
      result.parameter_gradient[w] += x[i] * cotangent[o];
    });
    return result;
  }
};

}  // namespace support
