// The gradient of one batch: forward and backward of a trainer's network, over all samples at once or in parts, and the
// memory in which the gradient lies.
//
//   in parts:  the sums of weights of the whole batch first, then for each part the gradient of the part's losses
//              divided by them. The gradients add up to that of the batch, and so do the losses.
#pragma once

#include <memory>
#include <optional>
#include <tuple>
#include <vector>

#include "halogen/train/evaluate_loss.hpp"
#include "halogen/train/expression_step.hpp"
#include "halogen/train/loss.hpp"
#include "halogen/train/network.hpp"
#include "halogen/train/sample_parts.hpp"

namespace halogen::detail {

/// The evaluations of a batch's parts, and what they share. Parts of the same cut have the same evaluation.
template <class E>
struct PartEvaluations {
  std::vector<std::shared_ptr<E>> of_part;
  std::shared_ptr<LossSum> losses;
  bool counts_vectors;  ///< of the ranks that share samples one counts what all of them have
  Lasting<Kokkos::View<double*, memory_space>> partial_weights{};

  E& of(int part) const { return *of_part[static_cast<std::size_t>(part)]; }

  /// Begins the sums of a step: what the losses of the whole batch are divided by. label and weight are the whole
  /// batch's. Collective, if there are weights; then throws CollectiveError if they sum to nothing.
  template <class Loss, class Label, class Weight>
  void begin_sums(double samples, const Loss& loss, const Label& label, const Weight& weight) {
    using T = compute_type<typename E::stored_type>;
    const execution_space space;
    const Plan& plan = E::plan();
    const Layout& layout = of(0).layout();
    const auto prediction_of = [&](int i) -> const StoredTensor& { return plan.tensors[plan.prediction[i]]; };
    [&]<int... I>(std::integer_sequence<int, I...>) {
      const auto terms =
          std::tuple(loss_term<T>(one_of<I>(loss), prediction_of(I).channels, one_of<I>(label), one_of<I>(weight))...);
      const auto mean_of_output = [&]<int Number>(std::integral_constant<int, Number>) {
        const double points = samples * static_cast<double>(layout.level(prediction_of(Number).level).points());
        return mean_of<T>(std::get<Number>(terms), prediction_of(Number).channels, samples, points);
      };
      const LossMeans means{mean_of_output(std::integral_constant<int, I>{})...};
      losses->begin(space, means);
      (weigh<I>(space, std::get<I>(terms), prediction_of(I), one_of<I>(label)), ...);
    }(std::make_integer_sequence<int, E::outputs>{});
    losses->sum_weights(space);
  }

 private:
  template <int Number, class Term, class Label>
  void weigh(const execution_space& space, const Term& term, const StoredTensor& prediction, const Label& label) {
    if (!losses->means()[Number].weighted) return;
    const kernels::Tiling tiling = tiles_of(label);
    const auto tiles = static_cast<std::size_t>(tiling.count());
    if (partial_weights.size() < tiles)
      partial_weights = Kokkos::View<double*, memory_space>("halogen::weights", tiles);
    launch_weights(space, term, prediction.channels, tiling, partial_weights.data());
    const bool counts = counts_vectors || !of(0).layout().level(prediction.level).whole;
    losses->add_weights(space, Number, partial_weights.data(), counts ? tiling.count() : 0);
  }
};

/// sum = by_sum sum + by_part part.
template <class T>
struct AddPart {
  T* sum;
  const T* part;
  T by_sum, by_part;
  KOKKOS_FUNCTION void operator()(const index_t i) const { sum[i] = by_sum * sum[i] + by_part * part[i]; }
};

/// One network and one gradient, whose memory all batches use. Parameters and gradient are those of ModelType: Held are
/// placed as P, the gradient as gradients of such parameters are.
template <class ModelType, class T, Placement P>
class BatchGradient {
 public:
  using Net = Network<ModelType, T, P>;
  using Held = Parameters<ModelType, T, P>;
  using Gradient = Parameters<ModelType, T, gradient_placement_t<P>>;
  /// The plan that differentiates such a loss.
  template <class Loss>
  static constexpr PlanKind plan = is_expression_loss<Loss> ? PlanKind::vjp : PlanKind::training;

  /// A batch runs in so many parts.
  BatchGradient(const Held& parameters, int parts) : network_(std::make_unique<Net>(parameters)), parts_(parts) {
    if (parts < 1) throw CollectiveError("micro_batches = " + std::to_string(parts) + ": give 1 or more");
  }

  Net& network() { return *network_; }
  const Net& network() const { return *network_; }
  int parts() const { return parts_; }

  /// The evaluation of such a batch or of its last part, which is the largest. After compute() it has the loss of the
  /// batch. Collective.
  template <PlanKind Kind, class Image>
  std::shared_ptr<typename Net::template EvaluationOf<Kind, Image>> bind(const Image& image, const char* user) {
    if (parts_ == 1) return network_->template bind<Kind>(image, user);
    return parts_of<Kind>(image, user)->of_part.back();
  }

  /// Forward and backward of an evaluation that was bound to the image. Afterwards of(parameters, image) holds the
  /// gradient.
  template <class Loss, class E, class Image, class Label, class Weight>
  void compute(E& evaluation, const RandomStream& random, const Loss& loss, Held& parameters, const Image& image,
               const Label& label, const Weight& weight) {
    random_ = random;
    T* const gradient = of(parameters, image).data();
    if (parts_ > 1) {
      compute_parts(loss, parameters, image, label, weight);
    } else {
      evaluation.set_random(random);
      expression_value_ = run(evaluation, loss, parameters.data(), gradient, image, label, weight);
    }
  }

  /// Calls f(evaluation, image, samples) for each part of the batch that was computed last. samples: how much larger
  /// the number of this rank's first sample is in the batch than in the part.
  template <class Loss, class Image, class F>
  void for_each_part(const Image& image, F f) {
    if (parts_ == 1) return f(*network_->template bind<plan<Loss>>(image), image, index_t{0});
    const auto evaluations = parts_of<plan<Loss>>(image, "a step");
    const SampleParts parts(image.cut(0), parts_);
    for (int k = 0; k < parts_; ++k)
      f(begun(*evaluations, image, parts, k), parts.of(image, k, "the image"), samples_before(image, parts, k));
  }

  /// The loss of the last batch. Waits for the device.
  template <class Loss>
  double loss_value(auto& evaluation) const {
    if constexpr (is_expression_loss<Loss>)
      return expression_value_;
    else
      return evaluation.loss();
  }
  /// The loss of the last batch with an expression loss.
  double expression_value() const { return expression_value_; }

  /// What the last batch counts in a mean over several. With an expression loss it counts by its samples.
  template <class Loss, class Image>
  static LossDivisors divisors(const auto& evaluation, const Image& image) {
    if constexpr (is_expression_loss<Loss>)
      return {1, {LossMean{.divisor = static_cast<double>(image.extent(0))}}, {}};
    else
      return evaluation.loss_divisors();
  }

  /// The gradient's memory, made if there is none for images that are placed so.
  template <class Image>
  Gradient& of(const Held& parameters, const Image& image) {
    if constexpr (!std::is_same_v<P, Replicate>) {
      if (!gradient_) gradient_.emplace(parameters.zeros("halogen::gradient"));
    } else {
      const Communicator ranks = sub_meshes(image).samples;
      if (!gradient_ || !(gradient_->summed_over() == ranks)) {
        gradient_.emplace("halogen::gradient", ranks);
        ++made_;
      }
    }
    if (parts_ > 1 && !part_) part_.emplace(gradient_->zeros("halogen::part_gradient"));
    return *gradient_;
  }

  /// How often memory was made for gradients of whole parameters.
  std::size_t made() const { return made_; }
  /// Bytes of the gradient on this rank, and of a part's; 0 before the first batch.
  std::size_t bytes() const {
    return gradient_ ? gradient_->view().size() * sizeof(T) * (parts_ > 1 ? 2 : 1) : std::size_t{0};
  }

 private:
  template <PlanKind Kind, class Image>
  using PartsOf = PartEvaluations<typename Net::template EvaluationOf<Kind, Image>>;

  struct Key {
    typename Net::Key image;
    PlanKind kind;
    bool operator==(const Key&) const = default;
  };

  /// The evaluations of the image's parts, made if there are none, and room for the margins that they read.
  template <PlanKind Kind, class Image>
  std::shared_ptr<PartsOf<Kind, Image>> parts_of(const Image& image, const char* user) {
    const auto found = prepared_.template get<PartsOf<Kind, Image>>(Key{Net::key_of(image, user), Kind}, [&] {
      const SampleParts parts(image.cut(0), parts_);
      const SubMeshes meshes = sub_meshes(image);
      auto made = std::make_shared<PartsOf<Kind, Image>>();
      made->losses = std::make_shared<LossSum>(meshes.samples, outputs_of<ModelType>, true);
      made->counts_vectors = meshes.plane.rank() == 0;
      int cuts = 0;
      for (int k = 0; k < parts_; ++k) cuts += k == 0 || parts.cut(k) != parts.cut(k - 1);
      made->of_part.resize(static_cast<std::size_t>(parts_));
      for (int k = parts_; k-- > 0;) {  // the largest first, which the arena must hold
        auto& evaluation = made->of_part[static_cast<std::size_t>(k)];
        if (k + 1 < parts_ && parts.cut(k) == parts.cut(k + 1))
          evaluation = made->of_part[static_cast<std::size_t>(k) + 1];
        else
          evaluation = network_->template made<Kind>(parts.of(image, k, "the image"), cuts - 1);
        evaluation->sum_losses_in(made->losses);
      }
      return made;
    });
    Net::reserve_margins(image, found->of_part.back()->layout());
    return found;
  }

  static index_t samples_before(const auto& image, const SampleParts& parts, int k) {
    return parts.samples_before(image.decomposition().part(image.mesh().rank(), 0), k);
  }
  /// The evaluation of part k, which will draw the random numbers of the batch's samples.
  template <class E>
  E& begun(const PartEvaluations<E>& evaluations, const auto& image, const SampleParts& parts, int k) const {
    RandomStream random = random_;
    random.samples_before = samples_before(image, parts, k);
    evaluations.of(k).set_random(random);
    return evaluations.of(k);
  }

  /// Forward and backward of one evaluation; returns the loss if it is an expression.
  template <class Loss, class E, class Image, class Label, class Weight>
  static double run(E& evaluation, const Loss& loss, T* parameters, T* gradient, const Image& image, const Label& label,
                    const Weight& weight) {
    if constexpr (is_expression_loss<Loss>) {
      return run_expression_loss<Net>(evaluation, loss, parameters, gradient, image, label, weight);
    } else {
      run_training(evaluation, loss, parameters, gradient, image, label, weight);
      return 0;
    }
  }

  template <class Loss, class Image, class Label, class Weight>
  void compute_parts(const Loss& loss, Held& parameters, const Image& image, const Label& label, const Weight& weight) {
    const auto evaluations = parts_of<plan<Loss>>(image, "a step");
    const SampleParts parts(image.cut(0), parts_);
    const auto samples = static_cast<double>(image.extent(0));
    const execution_space space;
    if constexpr (!is_expression_loss<Loss>) {
      check_labels(evaluations->of(0), loss, parts.of(label, 0, "the label"), parts.of(weight, 0, "the weight"));
      evaluations->begin_sums(samples, loss, label, weight);
    }
    expression_value_ = 0;
    for (int k = 0; k < parts_; ++k) {
      const auto share_of = [&](int part) {  // an expression's loss counts by its samples, others are divided already
        return is_expression_loss<Loss> ? static_cast<double>(parts.cut(part).extent()) / samples : 1;
      };
      auto& evaluation = begun(*evaluations, image, parts, k);
      const Image part = parts.of(image, k, "the image");
      Net::check_inputs(part, evaluation.layout());
      expression_value_ += share_of(k) * run(evaluation, loss, parameters.data(), (k == 0 ? *gradient_ : *part_).data(),
                                             part, parts.of(label, k, "the label"), parts.of(weight, k, "the weight"));
      if (k > 0)
        launch_range(space, "halogen::add_part", gradient_->trained_values(),
                     AddPart<T>{gradient_->data(), part_->data(), static_cast<T>(k == 1 ? share_of(0) : 1),
                                static_cast<T>(share_of(k))});
    }
    if constexpr (!is_expression_loss<Loss>) evaluations->losses->sum_losses(space);
  }

  /// Throws CollectiveError if a label or weight lies otherwise than its output.
  template <class E, class Loss, class Label, class Weight>
  static void check_labels(const E& evaluation, const Loss& loss, const Label& label, const Weight& weight) {
    [&]<int... I>(std::integer_sequence<int, I...>) {
      (loss_of_output<I>(evaluation, one_of<I>(loss), one_of<I>(label), one_of<I>(weight)), ...);
    }(std::make_integer_sequence<int, E::outputs>{});
  }

  std::unique_ptr<Net> network_;
  int parts_;
  Prepared<Key, 2> prepared_;  ///< evaluations in parts: those of the last batches
  std::optional<Gradient> gradient_, part_;
  std::size_t made_ = 0;
  double expression_value_ = 0;
  RandomStream random_;
};

}  // namespace halogen::detail
