// Layers of a user's own that no example needs.
#pragma once

#include "halogen/network.hpp"

namespace support {

/// y = x. The launches write their outputs by a kernel of their own, so other launches must gather the sums of norms
/// before and after it.
template <bool Backward>
struct WritesItself {
  static constexpr const char *label = "writes_itself", *suffix = Backward ? " backward" : "";
  static constexpr bool common_output = false;

  template <class S, halogen::Form>
  static void run(const halogen::LaunchAt<S>& at) {
    const halogen::StoredTensor& like = at.plan().tensors[at.launch().output];
    const auto write = [&](const auto& reader, int first) {
      at.write_field(label, halogen::kernels::CopyRows<S, std::decay_t<decltype(reader)>>{reader, first},
                     at.stored_tensor(at.launch().output), like);
    };
    if constexpr (Backward)
      write(at.gradient(0), at.first_channel());
    else
      write(at.value(0), 0);
  }
};

/// The layer. Launch<Backward>: its launch types, WritesItself or another that computes the same.
template <template <bool> class Launch>
struct Same : halogen::Module<Same<Launch>> {
  static constexpr void emit_forward(halogen::Planner& planner, const halogen::Node& node) {
    halogen::Launch launch = planner.launch<Launch<false>>(node);
    planner.emit_forward(node, launch.read(planner.read(node, halogen::Pattern::point())));
  }
  static constexpr void emit_vjp(halogen::Planner& planner, const halogen::Node& node) {
    const halogen::ActivationId gradient = planner.gradient_of(node);
    if (gradient < 0) return;
    halogen::Launch launch = planner.launch<Launch<true>>(node);
    planner.emit_input_gradients(launch.read(planner.gradient(gradient, halogen::Pattern::point())));
  }
  static constexpr halogen::Operation operation{"same", emit_forward, emit_vjp};
  constexpr halogen::Traced forward(halogen::Traced x) const { return halogen::add_layer(x, operation); }
};

}  // namespace support
