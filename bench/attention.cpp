// attention_{forward,backward}: scaled_dot_product_attention of 8 heads of 64, 4096 queries and keys (or --size), not
// causal; backward is forward and the gradients of all three, from a given gradient of the output.
// attention_{heads32,heads128,1024,16384}_{forward,backward}: 16 heads of 32, 4 of 128; so many queries and keys.
// attention_exchange_{forward,backward}: the same on 2 ranks, keys and values round the ring; how much of it is hidden
// (see exchange.hpp).
#include "exchange.hpp"
#include "protocol.hpp"

namespace {

template <int Width>
using RowsOf =
    hg::Sharded<hg::Tensor<float, hg::dyn, hg::dyn, hg::dyn, Width>, bench::Mesh, hg::Shard<2>, hg::Shard<1>>;
using Rows = RowsOf<64>;
constexpr hg::index_t features = 512;  // of all heads

/// Each rank's queries and all keys on a mesh of its own: the work of a rank without the ring.
bool exchange(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
  const bool backward = options.name == "attention_exchange_backward";
  if (!backward && options.name != "attention_exchange_forward") return false;
  const hg::index_t length = options.size[0] == 0 ? 4096 : options.size[0];
  const Rows::Extents all{1, 8, length, 64}, own{1, 8, length / 2, 64};
  const auto attend = [](const auto& q, const auto& k, const auto& v) {
    return hg::scaled_dot_product_attention(q, k, v, {.parallel = hg::ContextParallel::ring});
  };
  const auto step = [&](const auto& on, const Rows::Extents& queries) {
    const auto query = bench::numbers<Rows>(on, queries), gradient = query;
    const auto key = bench::numbers<Rows>(on, all, 1), value = bench::numbers<Rows>(on, all, 2);
    return [=, output = query, derive = hg::value_and_grad([=](auto q, auto k, auto v) {
                                 return hg::sum(attend(q, k, v) * gradient);
                               })]() mutable {
      if (backward)
        derive(query, key, value);
      else
        output = attend(query, key, value);
    };
  };
  const auto self = hg::device_mesh<bench::Mesh>(hg::Communicator(), {1, 1});
  bench::print_exchange(options, mesh.world(), step(mesh, all), step(self, own));
  return true;
}

/// Attention of heads of Width, `length` queries and keys unless options say it, if `base` is the bench's name.
template <int Width>
bool attend(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh, const std::string& base,
            hg::index_t length) {
  using Rows = RowsOf<Width>;
  const bool backward = options.name == base + "_backward";
  if (!backward && options.name != base + "_forward") return false;
  if (!options.parameters.empty()) return static_cast<bool>(std::ofstream(options.parameters));  // there are none
  const typename Rows::Extents extents{1, features / Width, options.size[0] == 0 ? length : options.size[0], Width};
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

bool run(const bench::Options& options, const hg::DeviceMesh<bench::Mesh>& mesh) {
  return exchange(options, mesh) || attend<64>(options, mesh, "attention", 4096) ||
         attend<32>(options, mesh, "attention_heads32", 4096) ||
         attend<128>(options, mesh, "attention_heads128", 4096) || attend<64>(options, mesh, "attention_1024", 1024) ||
         attend<64>(options, mesh, "attention_16384", 16384);
}

}  // namespace

int main(int argc, char** argv) { return bench::run_main(argc, argv, run); }
