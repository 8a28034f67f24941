// program: windows
// reads: convolutions
// Conv3d against PyTorch's stored tensors and against plain loops, on every mesh of batch, depth, height and width;
// what it sends, by a formula.
#include "support/alone.hpp"
#include "support/convolutions.hpp"
#include "support/stored.hpp"

namespace test_conv3d {

namespace {

using support::relative_error;
using Depth = hg::Boundary<hg::Periodic, hg::Zero, hg::Zero>;
using DepthWidth = hg::Boundary<hg::Periodic, hg::Zero, hg::Periodic>;

/// Forward in float and double to the bit, and the vjp: the reference's results are exact in float.
template <class Layer, int In, int Out>
void check_case(int number) {
  const support::StoredCase<4> stored("conv3d", number);
  REQUIRE(stored.channels("input") == In);
  REQUIRE(stored.channels("output") == Out);
  const auto joined = [&](const std::string& a, const std::string& b) {
    std::vector<double> all = stored[a];
    const std::vector<double> more = stored[b];
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
  const std::vector<double> parameters = joined("weight", "bias"), gradient = joined("grad_weight", "grad_bias");
  const std::vector<float> single(parameters.begin(), parameters.end());
  CAPTURE(number);
  support::on_meshes<Layer, In>(stored.extents("input"), [&](const auto& mesh) {
    CHECK(support::infer<Layer, In>(mesh, stored.extents("input"), single, stored.as<float>("input")) ==
          stored.as<float>("output"));
    const auto result = stored.run<Layer, In, Out>(mesh, parameters);
    CHECK(result.output == stored["output"]);
    CHECK(relative_error(result.input_gradient, stored["grad_input"]) < 1e-14);
    CHECK(relative_error(result.parameter_gradient, gradient) < 1e-14);
  });
}

// -- plain loops
// --------------------------------------------------------------------------------------------------------

struct Axis {
  int extent, kernel, stride, padding, dilation;
  bool periodic;
  int outputs() const { return (extent + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1; }
  /// The input of output o through tap k, or -1 outside.
  int input(int o, int k) const {
    const int i = o * stride - padding + k * dilation;
    return periodic ? static_cast<int>(hg::floor_mod(i, extent)) : i < extent ? i : -1;
  }
};

/// f(output index, weight index, input index) for every product of the convolution.
template <class F>
void for_each_product(int batch, int in, int out, const Axis (&axis)[3], F f) {
  const auto& [d, h, w] = axis;
  for (int n = 0; n < batch; ++n)
    for (int k = 0; k < out; ++k)
      for (int z = 0; z < d.outputs(); ++z)
        for (int y = 0; y < h.outputs(); ++y)
          for (int x = 0; x < w.outputs(); ++x)
            for (int c = 0; c < in; ++c)
              for (int kz = 0; kz < d.kernel; ++kz)
                for (int ky = 0; ky < h.kernel; ++ky)
                  for (int kx = 0; kx < w.kernel; ++kx) {
                    const int iz = d.input(z, kz), iy = h.input(y, ky), ix = w.input(x, kx);
                    if (iz < 0 || iy < 0 || ix < 0) continue;
                    f((((n * out + k) * d.outputs() + z) * h.outputs() + y) * w.outputs() + x,
                      (((k * in + c) * d.kernel + kz) * h.kernel + ky) * w.kernel + kx,
                      (((n * in + c) * d.extent + iz) * h.extent + iy) * w.extent + ix);
                  }
}

template <class Layer, int in, int out>
void check_loops(const Axis (&axes)[3]) {
  constexpr int batch = 2;
  const Axis &d = axes[0], &h = axes[1], &w = axes[2];
  const support::Extents<support::VolumeMesh> extents{batch, d.extent, h.extent, w.extent};
  const auto planes = static_cast<std::size_t>(d.outputs() * h.outputs() * w.outputs());
  const auto parameters = support::numbers<double>(hg::Parameters<Layer, double>::count, 1);
  const auto input = support::numbers<double>(static_cast<std::size_t>(batch * in * d.extent * h.extent * w.extent), 2);
  const std::size_t points = batch * out * planes, weights = parameters.size() - out;
  const auto cotangent = support::numbers<double>(points, 3);
  std::vector<double> output(points), input_gradient(input.size()), gradient(parameters.size());
  for (std::size_t i = 0; i < points; ++i) {
    const std::size_t k = i / planes % out;
    output[i] = parameters[weights + k];
    gradient[weights + k] += cotangent[i] / static_cast<double>(points);
  }
  for_each_product(batch, in, out, axes, [&](int o, int v, int i) {
    const auto at = [](int index) { return static_cast<std::size_t>(index); };
    output[at(o)] += parameters[at(v)] * input[at(i)];
    input_gradient[at(i)] += parameters[at(v)] * cotangent[at(o)] / static_cast<double>(points);
    gradient[at(v)] += input[at(i)] * cotangent[at(o)] / static_cast<double>(points);
  });
  support::on_meshes<Layer, in>(extents, [&](const auto& mesh) {
    const auto result = support::train_once<Layer, in, out, support::InnerProduct>(
        mesh, extents, parameters, input, {d.outputs(), h.outputs(), w.outputs()}, cotangent);
    CHECK(relative_error(result.output, output) < 1e-12);
    CHECK(relative_error(result.input_gradient, input_gradient) < 1e-12);
    CHECK(relative_error(result.parameter_gradient, gradient) < 1e-12);
  });
}

constexpr int in = 3, out = 5;
constexpr Axis axes[3] = {{12, 3, 2, 1, 1, false}, {11, 3, 1, 2, 2, true}, {18, 5, 1, 2, 1, true}};
using Layer = hg::Conv3d<in, out, hg::Kernel<3, 3, 5>, hg::Stride<2, 1, 1>, hg::Padding<1, 2, 2>, hg::Dilation<1, 2, 1>,
                         hg::Boundary<hg::Zero, hg::Periodic, hg::Periodic>>;

}  // namespace

TEST_CASE("same windows, zero and periodic") {
  check_case<hg::Conv3d<2, 3, hg::Kernel<3>, hg::Padding<1>>, 2, 3>(0);
  check_case<hg::Conv3d<1, 2, hg::Kernel<3>, hg::Padding<1>, DepthWidth>, 1, 2>(1);
  check_case<hg::Conv3d<3, 2>, 3, 2>(2);
}
TEST_CASE("even kernels, boxes, dilations") {
  check_case<hg::Conv3d<2, 1, hg::Kernel<2, 1, 3>, hg::Padding<0, 0, 1>>, 2, 1>(3);
  check_case<hg::Conv3d<1, 1, hg::Kernel<3>, hg::Padding<2, 1, 1>, hg::Dilation<2, 1, 1>,
                        hg::Boundary<hg::Periodic, hg::Periodic, hg::Zero>>,
             1, 1>(5);
}
TEST_CASE("strides") {
  check_case<hg::Conv3d<1, 2, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>>, 1, 2>(4);
  check_case<hg::Conv3d<2, 2, hg::Kernel<5, 3, 3>, hg::Stride<3, 2, 1>, hg::Padding<2, 1, 1>,
                        hg::Boundary<hg::Zero, hg::Zero, hg::Periodic>>,
             2, 2>(6);
  check_case<hg::Conv3d<1, 1, hg::Kernel<3>, hg::Stride<2>, hg::Padding<1>,
                        hg::Boundary<hg::Periodic, hg::Periodic, hg::Periodic>>,
             1, 1>(7);
}
TEST_CASE("a kernel deeper than the field") {
  check_case<hg::Conv3d<1, 2, hg::Kernel<5, 3, 3>, hg::Padding<2, 1, 1>, Depth>, 1, 2>(8);
}

TEST_CASE("plain loops: output, input gradient, weight and bias gradient") { check_loops<Layer, in, out>(axes); }
TEST_CASE("plain loops: strides within planes that padding surrounds") {
  check_loops<hg::Conv3d<in, out, hg::Kernel<1, 3, 3>, hg::Stride<1, 2, 2>, hg::Padding<1>>, in, out>(
      {{12, 1, 1, 1, 1, false}, {11, 3, 2, 1, 1, false}, {18, 3, 2, 1, 1, false}});
}

TEST_CASE("halos wider than the whole periodic field: it is passed more than once") {
  using Wide = hg::Conv3d<in, out, hg::Kernel<5, 3, 3>, hg::Dilation<2, 1, 3>, hg::Padding<4, 1, 3>, DepthWidth>;
  check_loops<Wide, in, out>({{3, 5, 1, 4, 2, true}, {12, 3, 1, 1, 1, false}, {2, 3, 1, 3, 3, true}});
  check_loops<Wide, in, out>({{1, 5, 1, 4, 2, true}, {12, 3, 1, 1, 1, false}, {1, 3, 1, 3, 3, true}});
}

TEST_CASE("planes without a rank: the sentence says so") {
  const auto mesh = hg::dry_mesh<support::VolumeMesh>({1, 4, 1, 1}, 0);
  CHECK_THROWS_WITH_AS((hg::layout_of<support::Volume<float, 1>>(hg::Conv3d<1, 1>{}, mesh, {1, 1, 3, 8, 9})),
                       "mesh 1 x 4 x 1 x 1 (data x depth x height x width) leaves piece 3 of 4 without any plane on "
                       "level 0 of 3 x 8 x 9: use fewer ranks in depth, a larger field, or fewer levels",
                       hg::CollectiveError);
}

TEST_CASE("halo bytes are those of the faces, edges and corners") {
  using Same = hg::Conv3d<2, 3, hg::Kernel<3>, hg::Padding<1>, DepthWidth>;
  constexpr hg::index_t depth = 12, height = 12, width = 24;
  std::vector<float> parameters(hg::Parameters<Same, float>::count, 0.5f);
  for (const auto& mesh : support::volume_meshes(1)) {
    CAPTURE(support::text(mesh));
    const auto image = hg::distribute_tensor<support::Volume<float, 2>>(
        mesh, {2, 2, depth, height, width}, std::vector<float>(2 * 2 * depth * height * width, 1.f));
    hg::Parameters<Same, float> values;
    values.copy_from_host(parameters);
    hg::Network<Same, float> network;
    auto& evaluation = network.evaluation<hg::PlanKind::inference>(image);
    const hg::CommStatistics before = hg::comm_stats();
    evaluation.forward(hg::detail::view_of(image), values.data());
    const hg::CommStatistics spent = hg::comm_stats() - before;
    // A margin of 1 around the piece, without what lies beyond a zero edge; of that, what this rank holds is its own.
    const auto sides = [&](int d, hg::index_t extent, bool periodic) {
      const int parts = mesh.extent(d), part = mesh.coordinate(d);
      const hg::index_t own = extent / parts;
      const hg::index_t margin = periodic ? 2 : (part > 0) + (part + 1 < parts);
      return std::array<hg::index_t, 2>{own + margin, own + (parts == 1 ? margin : 0)};
    };
    const auto d = sides(1, depth, true), h = sides(2, height, false), w = sides(3, width, true);
    CHECK(spent.messages.bytes == 4 * 2 * 2 * (d[0] * h[0] * w[0] - d[1] * h[1] * w[1]));
    CHECK(spent.messages.bytes == evaluation.layout().traffic().bytes);
  }
}

}  // namespace test_conv3d
