// An operation with an exchange of its own: y[n, c, i, j] = x[n, c, j, i] of square fields, however they are cut. A
// rank with rows r and columns c of y brings rows c and columns r of x.
#pragma once

#include <halogen/network.hpp>

template <class S>
struct TransposedRows {
  hg::TensorView<S> x;
  hg::kernels::DepthWindow planes;
  int first;

  KOKKOS_FUNCTION hg::compute_type<S> at(int n, int c, hg::index_t i, hg::index_t j) const {
    return x.at(planes.input(n, first + c), j, i);
  }
};

template <bool Backward>
struct TransposeLaunch {
  static constexpr const char *label = "transpose", *suffix = Backward ? " backward" : "";

  static hg::SpaceBox transposed(hg::SpaceBox box) {
    std::swap(box.side[1], box.side[2]);
    return box;
  }
  static hg::TrafficUse traffic(const hg::Layout& layout, const hg::Launch& launch) {
    return hg::fetch_traffic(layout, launch, 0, transposed);
  }
  template <class S, hg::Form>
  static auto rows(const hg::LaunchAt<S>& at) {
    const auto& level = at.layout().level(at.launch().level);
    if (level.extent(1) != level.extent(2)) throw hg::CollectiveError("Transpose: give it a square field");
    const auto planes = hg::depth_window(hg::Window{}, at.layout().owned(at.launch().level, 0));
    return TransposedRows<S>{at.fetch(0, transposed), planes, Backward ? at.first_channel() : 0};
  }
};

struct Transpose : hg::Module<Transpose> {
  static constexpr void emit_forward(hg::Planner& planner, const hg::Node& node) {
    planner.emit_forward(node, planner.launch<TransposeLaunch<false>>(node).read(planner.read_field(node, 0)));
  }
  static constexpr void emit_vjp(hg::Planner& planner, const hg::Node& node) {
    const hg::ActivationId reads = planner.gradient_of(node);
    if (reads < 0) return;
    hg::Launch launch = planner.launch<TransposeLaunch<true>>(node);
    launch.input = planner.read_field_again(node, 0).value();
    launch.read(planner.gradient(planner.unmasked(reads), hg::Pattern::point()));
    planner.emit_input_gradients(launch);
  }
  static constexpr hg::Operation operation{"transpose", emit_forward, emit_vjp};

  constexpr hg::Traced forward(hg::Traced x) const {
    x.graph->evaluates = true;  // its messages are no part of a captured step
    return hg::add_layer(x, operation);
  }
};
