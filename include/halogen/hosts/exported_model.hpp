// A model behind the C interface of halogen/model.h: fields of its own in the host's decomposition, and one copy of
// each array in and out of them.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "halogen/hosts/exported_types.hpp"
#include "halogen/hosts/host_array.hpp"
#include "halogen/hosts/host_mesh.hpp"
#include "halogen/io/checkpoint.hpp"
#include "halogen/train/explain_training.hpp"
#include "halogen/train/trainer.hpp"

namespace halogen::detail {

/// Sets the setting of an optimiser that has this name, and returns whether there is one.
template <class Optimizer>
bool set_option(Optimizer& optimizer, std::string_view name, double value) {
#define HALOGEN_OPTION(member)                        \
  if constexpr (requires { optimizer.member = 1.0; }) \
    if (name == #member) return optimizer.member = value, true;
  HALOGEN_OPTION(lr)
  HALOGEN_OPTION(weight_decay)
  HALOGEN_OPTION(beta1)
  HALOGEN_OPTION(beta2)
  HALOGEN_OPTION(eps)
  HALOGEN_OPTION(momentum)
  HALOGEN_OPTION(alpha)
  HALOGEN_OPTION(max_norm)
  HALOGEN_OPTION(max_value)
#undef HALOGEN_OPTION
  return false;
}

template <class ModelType, class T, class Training>
class ExportedModel {
  static constexpr int dimensions = dimensions_of_model<ModelType>;
  using Each = typename HostInputs<ModelType, T>::each;
  using Given = typename GivenOf<Each>::type;
  using MeshType = typename HostMesh<dimensions>::type;
  using Net = Network<ModelType, T>;
  using Held = Parameters<ModelType, T>;
  static constexpr int inputs = static_cast<int>(std::tuple_size_v<Each>), outputs = outputs_of<ModelType>;
  static constexpr int first_channels = std::tuple_element_t<0, Each>::channels;
  template <int I>
  using Input = std::tuple_element_t<static_cast<std::size_t>(I), Each>;
  template <int I>
  using Output = HostField<T, dimensions, makes_vectors<ModelType, first_channels, I>, false,
                           output_channels<ModelType, first_channels, I>>;
  using AllInputs = std::make_integer_sequence<int, inputs>;
  using AllOutputs = std::make_integer_sequence<int, outputs>;
  static constexpr auto optimizer_of_training = [] {
    if constexpr (trains<Training>)
      return std::type_identity<typename Training::optimizer>{};
    else
      return std::type_identity<SGD>{};
  }();
  using Optimizer = typename decltype(optimizer_of_training)::type;
  using AnyTrainer = Trainer<ModelType, Optimizer, MeshType, T>;

 public:
  static constexpr int tensors = Held::graph().parameters.size();

  static halogen_about about(const char* exported) {
    halogen_about about{};
    about.abi = HALOGEN_MODEL_ABI, about.type = host_type_of<T>, about.dimensions = dimensions;
    about.inputs = inputs, about.outputs = outputs, about.parameters = tensors;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      ((about.input_kind[I] = Input<I>::kind, about.input_channels[I] = Input<I>::channels), ...);
    }(AllInputs{});
    [&]<int... I>(std::integer_sequence<int, I...>) {
      ((about.output_kind[I] = Output<I>::kind, about.output_channels[I] = Output<I>::channels), ...);
      if constexpr (trains<Training>)
        ((about.label_kind[I] = Label<I>::kind, about.label_channels[I] = Label<I>::channels), ...);
    }(AllOutputs{});
    about.trains = trains<Training> ? 1 : 0;
    about.threads = Kokkos::is_initialized() ? Kokkos::num_threads() : 0;
    about.exported = exported, about.mpi = "", about.optimizer = trains<Training> ? Optimizer::name : "";
#ifdef HALOGEN_WITH_MPI
    static const std::string version = version_of_mpi();
    about.mpi = version.c_str();
#endif
    return about;
  }

  /// Collective over the setup's communicator.
  explicit ExportedModel(const halogen_setup& setup) : ExportedModel(setup, host_decomposition(setup, dimensions)) {}

  void load(const char* path) {
    agree(mesh_.world(), [&] { require(path != nullptr, "load: the path is null: name a safetensors file"); });
    load_parameters(path, parameters_, mesh_.world());
    if constexpr (trains<Training>) {
      int has_state = agree(mesh_.world(), [&] {
        return mesh_.rank() == 0 && contents_of_file(path).find(steps_name) != nullptr ? 1 : 0;
      });
      mesh_.world().broadcast(&has_state, sizeof has_state, 0);
      if (has_state == 0) return;
      load_checkpoint(path, trainer(), mesh_.world());
      parameters_ = trainer_->parameters();
    }
  }

  void save(const char* path) const {
    agree(mesh_.world(), [&] { require(path != nullptr, "save: the path is null: name a safetensors file"); });
    if (trainer_)
      save_checkpoint(path, *trainer_, mesh_.world());
    else
      save_parameters(path, parameters_, mesh_.world());
  }

  void output(std::int32_t i, halogen_array* shape, std::int64_t* begin) {
    agree(mesh_.world(), [&] {
      require(i >= 0 && i < outputs, "output: " + std::to_string(i) + " is no output of " + std::to_string(outputs));
      require(shape != nullptr, "output: shape is null");
    });
    const HostPiece piece = output_piece(i);
    *shape = halogen_array{nullptr, host_type_of<T>, piece.rank, {}, {}};
    for (int d = 0; d < piece.rank; ++d) {
      shape->extent[d] = piece.dimension(d).size();
      if (begin != nullptr) begin[d] = piece.dimension(d).begin;
    }
  }

  void infer(const halogen_array* in, std::int32_t given, const halogen_array* out, std::int32_t wanted, bool keep) {
    if (keep)
      run<PlanKind::vjp>(in, given, out, wanted);
    else
      run<PlanKind::inference>(in, given, out, wanted);
    kept_ = keep;
  }

  void vjp(const halogen_array* cotangents, std::int32_t given, const halogen_array* gradients, std::int32_t wanted) {
    if (!kept_)
      throw CollectiveError(
          "vjp: nothing is kept: call infer with keep 1 before, and no other call that computes between");
    auto& evaluation = this->template evaluation<PlanKind::vjp>();
    std::array<HostArray5, outputs> of_outputs;
    std::array<HostArray5, inputs> of_inputs;
    agree(mesh_.world(), [&] {
      check("vjp", "cotangent", given, cotangents, of_outputs, false, [&](int i) { return output_piece(i); });
      check("vjp", "gradient", wanted, gradients, of_inputs, true, [&](int i) { return input_piece(i); });
      for (int i = 0; i < inputs; ++i)
        require(!holds_indices_at(i) || of_inputs[static_cast<std::size_t>(i)].data == nullptr,
                "vjp: input " + std::to_string(i) + " holds indices, which have no gradient: give null for it");
    });
    kept_ = false;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      const auto fields = std::tuple(beside_output<OutputField<ModelType, Given, I>>(I)...);
      (put(std::get<I>(fields), output_piece(I), of_outputs[static_cast<std::size_t>(I)]), ...);
      run_vjp(evaluation, gradient().data(), std::get<I>(fields)...);
    }(AllOutputs{});
    redistribute<Replicate>(gradient(), gradient_copy_);
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (take_gradient<I>(evaluation, of_inputs[static_cast<std::size_t>(I)]), ...);
    }(AllInputs{});
  }

  /// The i-th tensor of the parameters, or of the last vjp's gradient.
  void parameter(std::int32_t i, const char** name, halogen_array* values, bool of_gradient) {
    agree(mesh_.world(), [&] {
      const std::string what = of_gradient ? "gradient: " : "parameter: ";
      require(i >= 0 && i < tensors, what + std::to_string(i) + " is no tensor of " + std::to_string(tensors));
      require(name != nullptr && values != nullptr, what + "name or values is null");
      require(!of_gradient || gradient_, "gradient: there is none: call vjp before");
      require(runs_on_host, what + "they lie on the device: use load and save");
    });
    const ParameterShape& shape = Held::graph().parameters[i];
    const bool is_there = !of_gradient || shape.offset + shape.count <= Held::trained;
    T* const data = of_gradient ? gradient_->data() : parameters_.data();
    *name = names_[static_cast<std::size_t>(i)].c_str();
    *values = halogen_array{is_there ? data + shape.offset : nullptr, host_type_of<T>, shape.rank, {}, {}};
    std::int64_t stride = 1;
    for (int d = shape.rank - 1; d >= 0; --d) {
      values->extent[d] = shape.shape[d], values->stride[d] = stride;
      stride *= shape.shape[d];
    }
  }

  void set(const char* option, double value) {
    if constexpr (!trains<Training>) {
      throw CollectiveError(no_training("set"));
    } else {
      const std::string name = option == nullptr ? "" : option;
      if (name == "lr" && trainer_) return trainer_->set_learning_rate(value);
      if (trainer_)
        throw CollectiveError("set: option '" + name + "' is set before the first step; only lr at any time");
      if (!set_option(optimizer_, name, value))
        throw CollectiveError(
            "set: " + std::string(Optimizer::name) + " has no option '" + name +
            "': lr, weight_decay, beta1, beta2, eps, momentum, alpha, max_norm and max_value are those of "
            "optimisers");
    }
  }

  double step(const halogen_array* in, std::int32_t given, const halogen_array* label, std::int32_t labels,
              const halogen_array* weight, std::int32_t weights) {
    if constexpr (!trains<Training>) {
      throw CollectiveError(no_training("step"));
    } else {
      std::array<HostArray5, inputs> of_inputs;
      std::array<HostArray5, outputs> of_labels, of_weights;
      const bool weighs = weights > 0;
      agree(mesh_.world(), [&] {
        check("step", "input", given, in, of_inputs, false, [&](int i) { return input_piece(i); });
        check("step", "label", labels, label, of_labels, false, [&](int i) { return label_piece(i); });
        if (weights != 0)
          check("step", "weight", weights, weight, of_weights, false,
                [&](int i) { return with_one_channel(output_piece(i)); });
      });
      agree_on_weights(weighs);
      kept_ = false;
      make_labels();
      put_inputs(of_inputs);
      return [&]<int... I>(std::integer_sequence<int, I...>) {
        (put(std::get<I>(*labels_), label_piece(I), of_labels[static_cast<std::size_t>(I)]), ...);
        if (!weighs) return step_with(by_output<Labels>(std::get<I>(*labels_)...), no_weight);
        (put(std::get<I>(*weights_), with_one_channel(output_piece(I)), of_weights[static_cast<std::size_t>(I)]), ...);
        return step_with(by_output<Labels>(std::get<I>(*labels_)...), by_output<Weights>(std::get<I>(*weights_)...));
      }(AllOutputs{});
    }
  }

  /// Bytes of this rank: parameters, gradient, optimiser, fields and the arena of what has run.
  std::int64_t memory() const {
    std::size_t bytes = parameters_.view().size() * sizeof(T) + arena_bytes_ + bytes_of_inputs(AllInputs{});
    if (gradient_) bytes += gradient_->view().size() * sizeof(T);
    if (trainer_) {
      const ParameterMemory memory = trainer_->parameter_memory();
      bytes += memory.gradient + memory.optimizer + training_bytes_;
    }
    return static_cast<std::int64_t>(bytes);
  }

  const char* explain() {
    text_ = halogen::explain(ModelType{}, given_, trains<Training> ? PlanKind::training : PlanKind::inference);
    return text_.c_str();
  }

 private:
  template <int I>
  using Label = typename HostLabel<Training, I, Output<I>>::field;
  template <int I>
  using Weight = HostField<T, dimensions, Output<I>::vectors, false, 1>;
  template <class Indices>
  struct BesideOutputs;
  template <int... I>
  struct BesideOutputs<std::integer_sequence<int, I...>> {
    using labels = std::tuple<typename Label<I>::type...>;
    using weights = std::tuple<typename Weight<I>::type...>;
  };

  ExportedModel(const halogen_setup& setup, const HostDecomposition& host)
      : mesh_(host.ranks, mesh_extents(host), host.ranks.rank()),
        given_(made_inputs(host.cuts, AllInputs{})),
        layout_(layout_of<Given>(ModelType{}, mesh_, first().cuts(), PlanKind::inference)),
        parameters_(initial_parameters<ModelType, T>(static_cast<std::uint64_t>(setup.seed))),
        seed_(static_cast<std::uint64_t>(setup.seed)),
        names_(parameter_names<ModelType>()) {
    wait_as_others_of_node(mesh_.world());
    if (setup.memory_limit > 0) check_limit(setup.memory_limit);
  }

  static typename DeviceMesh<MeshType>::Coordinate mesh_extents(const HostDecomposition& host) {
    typename DeviceMesh<MeshType>::Coordinate extents{};
    std::copy(host.mesh.begin(), host.mesh.end(), extents.begin());
    return extents;
  }

  static void require(bool holds, const std::string& sentence) {
    if (!holds) throw Error(sentence);
  }
  static std::string no_training(const char* user) {
    return std::string(user) +
           ": this library was exported without training: HALOGEN_EXPORT(name, Model, float, hg::mse, hg::AdamW)";
  }

  template <int... I>
  Given made_inputs(const std::vector<Cut>& of_host, std::integer_sequence<int, I...>) const {
    return Given(made_input<I>(of_host)...);
  }
  template <int I>
  auto made_input(const std::vector<Cut>& of_host) const {
    using Field = typename Input<I>::type;
    std::array<Cut, Field::rank> cuts;
    cuts[0] = of_host[0], cuts[1] = Cut::chunk(Input<I>::channels, 1);
    for (std::size_t d = 2; d < cuts.size(); ++d) cuts[d] = of_host[d - 1];
    return Field(mesh_, cuts);
  }
  template <int... I>
  std::size_t bytes_of_inputs(std::integer_sequence<int, I...>) const {
    return (
        (input_of<static_cast<std::size_t>(I)>(given_).storage().view.span() * sizeof(typename Input<I>::value_type)) +
        ... + 0);
  }
  const FirstOf<Given>& first() const { return input_of<0>(given_); }

  void check_limit(std::int64_t limit) const {
    const std::size_t bytes = layout_.arena_bytes() + parameters_.view().size() * sizeof(T);
    agree(mesh_.world(), [&] {
      require(bytes <= static_cast<std::size_t>(limit),
              "create: inference takes " + std::to_string(bytes) + " bytes on rank " + std::to_string(mesh_.rank()) +
                  ", but memory_limit is " + std::to_string(limit) + ": raise it, or cut the field over more ranks");
    });
  }

  template <PlanKind Kind>
  auto& evaluation() {
    auto& evaluation = network_.template evaluation<Kind>(given_, "infer");
    arena_bytes_ = std::max(arena_bytes_, evaluation.layout().arena_bytes());
    return evaluation;
  }

  HostPiece input_piece(int i) const {
    HostPiece piece;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (static_cast<void>(i == I && (piece = piece_of(input_of<static_cast<std::size_t>(I)>(given_)), true)), ...);
    }(AllInputs{});
    return piece;
  }
  template <class Field>
  static HostPiece piece_of(const Field& field) {
    HostPiece piece{Field::rank, {}};
    piece.owned.fill({0, 1});
    for (int d = 0; d < Field::rank; ++d)
      piece.owned[static_cast<std::size_t>(d < 2 ? d : d + 5 - Field::rank)] = field.owned(d);
    return piece;
  }
  HostPiece output_piece(int i) const {
    const TensorId tensor = layout_.plan().prediction[i];
    HostPiece piece{2, {}};
    piece.owned.fill({0, 1});
    piece.owned[0] = first().owned(0);
    piece.owned[1] = {0, layout_.plan().tensors[tensor].channels};
    if (is_vector(i)) return piece;
    piece.rank = 2 + dimensions;
    for (std::size_t d = 0; d < 3; ++d) piece.owned[2 + d] = layout_.tensor(tensor).owned[d];
    return piece;
  }
  static bool is_vector(int i) {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return ((i == I && Output<I>::vectors) || ...);
    }(AllOutputs{});
  }
  HostPiece label_piece(int i) const {
    HostPiece piece = output_piece(i);
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (static_cast<void>(i == I && (piece.owned[1] = {0, Label<I>::channels}, true)), ...);
    }(AllOutputs{});
    return piece;
  }
  static bool holds_indices_at(int i) {
    return [&]<int... I>(std::integer_sequence<int, I...>) {
      return ((i == I && Input<I>::kind % 2 == 1) || ...);
    }(AllInputs{});
  }
  static HostPiece with_one_channel(HostPiece piece) {
    piece.owned[1] = {0, 1};
    return piece;
  }

  /// Throws Error where arrays do not fit the pieces.
  template <std::size_t Count, class PieceOf>
  static void check(const char* user, const char* what, std::int32_t count, const halogen_array* arrays,
                    std::array<HostArray5, Count>& result, bool optional, PieceOf piece_of) {
    if (optional && count == 0) return;
    require(count == static_cast<std::int32_t>(Count) && arrays != nullptr,
            std::string(user) + " is given " + std::to_string(arrays == nullptr ? 0 : count) + " arrays as " + what +
                ": this model takes " + std::to_string(Count));
    std::string fault;
    for (std::size_t i = 0; i < Count && fault.empty(); ++i)
      result[i] = host_array_beside(piece_of(static_cast<int>(i)), arrays[i],
                                    std::string(user) + ": " + what + " " + std::to_string(i), optional, fault);
    require(fault.empty(), fault);
  }
  void agree_on_weights(bool weighs) const {
    int counts[] = {weighs ? 1 : 0, weighs ? -1 : 0};
    mesh_.world().all_reduce(counts, 2, ReduceOp::min);
    if (counts[0] != -counts[1])
      throw CollectiveError("step: some ranks give weights and some give none: let all ranks give them, or none");
  }

  /// One copy from the host's array into the field.
  template <class Field>
  static void put(const Field& field, const HostPiece& piece, const HostArray5& array) {
    using V = typename Field::value_type;
    if constexpr (runs_on_host) {
      copy_into(view_of(field), piece, array);
    } else {
      std::vector<V> staged(static_cast<std::size_t>(piece.points()));
      copy_into(packed_view(staged.data(), piece), piece, array);
      Field(field).copy_from_host(staged);
    }
  }
  void put_inputs(const std::array<HostArray5, inputs>& arrays) const {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (put(input_of<static_cast<std::size_t>(I)>(given_), input_piece(I), arrays[static_cast<std::size_t>(I)]), ...);
    }(AllInputs{});
  }
  /// One copy from a stored tensor into the host's array.
  template <class E>
  static void take(const E& evaluation, TensorId tensor, const TensorView<T>& view, const HostPiece& piece,
                   const HostArray5& array) {
    if (array.data == nullptr) return;
    if constexpr (runs_on_host) {
      copy_out(view, piece, array);
    } else {
      std::vector<T> staged = evaluation.values_of(tensor);
      copy_out(packed_view(staged.data(), piece), piece, array);
    }
  }

  template <PlanKind Kind>
  void run(const halogen_array* in, std::int32_t given, const halogen_array* out, std::int32_t wanted) {
    auto& evaluation = this->template evaluation<Kind>();
    using E = std::remove_reference_t<decltype(evaluation)>;
    std::array<HostArray5, inputs> of_inputs;
    std::array<HostArray5, outputs> of_outputs;
    agree(mesh_.world(), [&] {
      check("infer", "input", given, in, of_inputs, false, [&](int i) { return input_piece(i); });
      check("infer", "output", wanted, out, of_outputs, true, [&](int i) { return output_piece(i); });
    });
    put_inputs(of_inputs);
    if constexpr (Held::graph().draws && Kind == PlanKind::vjp) {
      if (!draws_) draws_.emplace("halogen::draws");
      Kokkos::deep_copy(*draws_, calls_++);
      evaluation.set_random({seed_, draws_->data(), 0});
    }
    evaluation.forward(views_of(given_), parameters_.data());
    execution_space().fence("halogen::infer");
    for (int i = 0; i < outputs; ++i)
      take(evaluation, E::plan().prediction[i], evaluation.prediction(i), output_piece(i),
           of_outputs[static_cast<std::size_t>(i)]);
  }

  /// A field that lies as an output does, of as many channels unless others are given.
  template <class Field>
  Field beside_output(int i, index_t channels = 0) const {
    const StoredTensor& stored = layout_.plan().tensors[layout_.plan().prediction[i]];
    return Field(Field::make_shape(
        mesh_, layout_.template field_cuts<Field::rank>(stored.level, channels > 0 ? channels : stored.channels)));
  }

  template <int I, class E>
  void take_gradient(const E& evaluation, const HostArray5& array) const {
    if (array.data == nullptr) return;
    if constexpr (std::is_same_v<typename Input<I>::value_type, T>) {
      const auto gradient = Net::template input_gradient<static_cast<std::size_t>(I)>(given_, evaluation);
      execution_space().fence("halogen::vjp");
      if constexpr (runs_on_host) {
        copy_out(view_of(gradient), input_piece(I), array);
      } else {
        std::vector<T> staged = gradient.to_host();
        copy_out(packed_view(staged.data(), input_piece(I)), input_piece(I), array);
      }
    }
  }

  Parameters<ModelType, T, Partial<Sum>>& gradient() {
    if (!gradient_) gradient_.emplace("halogen::gradient", sub_meshes(first()).samples);
    return *gradient_;
  }

  AnyTrainer& trainer() {
    if (!trainer_) {
      trainer_ = std::make_unique<AnyTrainer>(ModelType{}, optimizer_, mesh_, TrainerOptions{.seed = seed_});
      Kokkos::deep_copy(trainer_->parameters().view(), parameters_.view());
      parameters_ = trainer_->parameters();  // one memory from here on
    }
    return *trainer_;
  }
  void make_labels() {
    if (labels_) return;
    [&]<int... I>(std::integer_sequence<int, I...>) {
      labels_.emplace(beside_output<typename Label<I>::type>(I, Label<I>::channels)...);
      weights_.emplace(beside_output<typename Weight<I>::type>(I, 1)...);
    }(AllOutputs{});
  }
  template <template <class...> class Group, class... Fields>
  static auto by_output(const Fields&... fields) {
    if constexpr (sizeof...(Fields) == 1)
      return (fields, ...);
    else
      return Group<Fields...>(fields...);
  }
  template <class Label, class Weight>
  double step_with(const Label& label, const Weight& weight) {
    const auto result = trainer().step(Training::loss(), given_, label, weight);
    training_bytes_ = result.layout().arena_bytes();
    return result.item();
  }

  DeviceMesh<MeshType> mesh_;
  Given given_;
  Layout layout_;  ///< of inference: what this rank owns of the outputs
  Held parameters_;
  std::uint64_t seed_;
  std::vector<std::string> names_;
  Net network_;
  std::optional<Parameters<ModelType, T, Partial<Sum>>> gradient_;
  TransportCopy<T> gradient_copy_;
  Optimizer optimizer_{};
  std::unique_ptr<AnyTrainer> trainer_;
  std::optional<typename BesideOutputs<AllOutputs>::labels> labels_;  ///< of a step, made in the first one
  std::optional<typename BesideOutputs<AllOutputs>::weights> weights_;
  std::optional<Kokkos::View<index_t, memory_space>> draws_;
  index_t calls_ = 0;
  bool kept_ = false;
  std::size_t arena_bytes_ = 0, training_bytes_ = 0;
  std::string text_;
};

}  // namespace halogen::detail
