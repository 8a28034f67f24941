// program: attention_layers
// Deterministic attention in networks has one rank's bits on every mesh: output and the input's gradient.
#include "support/attention_models.hpp"
#include "support/composition.hpp"

namespace test_attention_same_bits {

namespace {

using SameBits = hg::ParallelBy<hg::ContextParallel::deterministic>;
using Drop = hg::AttentionDropout<std::ratio<1, 4>>;

template <class Model>
void check(hg::index_t height, hg::index_t width) {
  const std::array<hg::index_t, 3> extents{2, height, width};
  const auto parameters = support::numbers<float>(hg::Parameters<Model, float>::count, 1);
  const auto input = support::numbers<float>(2 * 2 * height * width, 2);
  const auto label = support::numbers<float>(2 * 2 * height * width, 3);
  const auto run = [&](const auto& mesh) {
    return support::train_once<Model, 2, 2, support::InnerProduct>(mesh, extents, parameters, input, {height, width},
                                                                   label);
  };
  const auto one = run(support::alone());
  for (const auto& mesh : support::meshes(2)) {
    CAPTURE(support::text(mesh));
    const auto result = run(mesh);
    CHECK(result.output == one.output);
    CHECK(result.input_gradient == one.input_gradient);
  }
}

}  // namespace

TEST_CASE("with a bias of keys, turned: gathered, since no ranks here divide 5 heads") {
  check<support::Between<5, 5, SameBits>>(12, 11);
}
TEST_CASE("with a table of distances and dropout") { check<support::Relative<10, 5, SameBits, Drop>>(12, 11); }
TEST_CASE("with tokens, a mask and dropout, by heads on two ranks") {
  check<support::Told<hg::KeyMask, SameBits, Drop>>(12, 11);
}

}  // namespace test_attention_same_bits
