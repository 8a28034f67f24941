// attention_{forward,backward}: scaled_dot_product_attention of 8 heads of 64, 4096 queries and keys (or --size), not
// causal; backward is forward and the gradients of all three, from a given gradient of the output.
#include "protocol.hpp"

namespace {

using Rows = hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn, hg::dyn, 64>, bench::Mesh, hg::Shard<2>, hg::Shard<1>>;

bool run(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
  const bool backward = options.name == "attention_backward";
  if (!backward && options.name != "attention_forward") return false;
  if (!options.parameters.empty()) return static_cast<bool>(std::ofstream(options.parameters));  // there are none
  const Rows::Extents extents{1, 8, options.size[0] == 0 ? 4096 : options.size[0], 64};
  const auto count = static_cast<std::uint32_t>(extents[1] * extents[2] * extents[3]);
  const auto make = [&](std::uint32_t i) { return bench::numbers<Rows>(mesh, extents, i * count); };
  const Rows query = make(0), key = make(1), value = make(2);
  if (!backward) {
    Rows output = query;
    bench::measure(
        options, mesh.world(), [&] { output = hg::scaled_dot_product_attention(query, key, value); },
        [&] { return std::vector{bench::root_mean_square(mesh.world(), output.to_host())}; });
    return true;
  }
  const Rows gradient = make(3);
  auto derive = hg::value_and_grad(
      [&](auto q, auto k, auto v) { return hg::sum(hg::scaled_dot_product_attention(q, k, v) * gradient); });
  auto result = derive(query, key, value);
  bench::measure(
      options, mesh.world(), [&] { result = derive(query, key, value); },
      [&] {
        const Rows output = hg::scaled_dot_product_attention(query, key, value);
        std::vector<float> gradients;
        std::apply(
            [&](double, const auto&... each) {
              (...,
               [&](const auto& own) { gradients.insert(gradients.end(), own.begin(), own.end()); }(each.to_host()));
            },
            result);
        return std::vector{bench::root_mean_square(mesh.world(), output.to_host()),
                           bench::root_mean_square(mesh.world(), gradients)};
      });
  return true;
}

}  // namespace

int main(int argc, char** argv) { return bench::run_main(argc, argv, run); }
