// A model of two inputs that is given one, and numbers for its indices.
// expect: inputs_differ<2, 1>
// expect: input_is_no_index<1>
//
#include <halogen/halogen.hpp>

using Grid = hg::Mesh<"data", "height", "width">;
template <int Channels>
using Field =
    hg::Sharded<hg::Tensor<float, hg::dyn, Channels, hg::dyn, hg::dyn>, Grid, hg::Shard<0>, hg::Shard<2>, hg::Shard<3>>;
template <class T>
using Vector = hg::Sharded<hg::Tensor<T, hg::dyn, 1>, Grid, hg::Shard<0>, hg::Replicate, hg::Replicate>;

struct Classed : hg::Module<Classed> {
  using inputs = std::tuple<hg::FieldInput<2>, hg::VectorInput<1, hg::Indices>>;
  hg::Embedding<4, 3> table;
  constexpr hg::Traced forward(hg::Traced x, hg::TracedIndices i) const { return hg::expand(table(i), x); }
};

void run(const Field<2>& x, const Vector<int>& i, const Vector<float>& numbers) {
  hg::Trainer trainer(Classed{}, hg::AdamW{}, x.mesh());
  trainer.predict(hg::Inputs{x, i});
#ifdef REFUSE
  trainer.predict(x);
  trainer.predict(hg::Inputs{x, numbers});
#endif
}
