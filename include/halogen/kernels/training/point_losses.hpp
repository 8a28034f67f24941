// The losses of points: functors of a prediction and a label, with the derivative with respect to the prediction.
//
//   for each channel: value(p, y), slope(p, y)
//   for all channels of a point: point(channels, p, y, scale, gradient) returns the loss and writes scale * its
//   derivative. If labels have different weights, also weight(label, channels). If the mean counts more than one number
//   of a point, also counted(channels).
#pragma once

#include <Kokkos_Core.hpp>

#include "halogen/core/config.hpp"

namespace halogen::kernels {

/// (p - y)^2 and its derivative by p.
struct SquaredError {
  template <class T>
  KOKKOS_FUNCTION static T value(T p, T y) {
    return (p - y) * (p - y);
  }
  template <class T>
  KOKKOS_FUNCTION static T slope(T p, T y) {
    return T(2) * (p - y);
  }
};

/// |p - y|. The derivative is 0 where they are equal, as in PyTorch.
struct AbsoluteError {
  template <class T>
  KOKKOS_FUNCTION static T value(T p, T y) {
    return Kokkos::abs(p - y);
  }
  template <class T>
  KOKKOS_FUNCTION static T slope(T p, T y) {
    return static_cast<T>(p > y) - static_cast<T>(p < y);
  }
};

/// With d = |p - y|: scale * d^2 / 2 where d < width, else scale * width * (d - width / 2).
struct HuberError {
  double width = 1, scale = 1;

  template <class T>
  KOKKOS_FUNCTION T value(T p, T y) const {
    const T d = Kokkos::abs(p - y), w = static_cast<T>(width);
    return static_cast<T>(scale) * (d < w ? d * d / T(2) : w * (d - w / T(2)));
  }
  template <class T>
  KOKKOS_FUNCTION T slope(T p, T y) const {
    const T d = p - y, w = static_cast<T>(width);
    return static_cast<T>(scale) * (d > w ? w : d < -w ? -w : d);
  }
};

/// -w y log(s) - (1 - y) log(1 - s), where s = 1 / (1 + e^-p) and w is the weight of positives. It neither overflows
/// nor loses small s or 1 - s: with e = e^-|p|, the smaller of these is e / (1 + e), and -log of the larger is
/// log1p(e).
struct CrossEntropyOfLogit {
  double positive_weight = 1;

  template <class T>
  KOKKOS_FUNCTION T value(T p, T y) const {
    const T positive = static_cast<T>(positive_weight) * y, negative = T(1) - y;
    return (positive + negative) * Kokkos::log1p(Kokkos::exp(-Kokkos::abs(p))) + (p < T(0) ? -positive : negative) * p;
  }
  template <class T>
  KOKKOS_FUNCTION T slope(T p, T y) const {
    const T e = Kokkos::exp(-Kokkos::abs(p)), larger = T(1) / (T(1) + e), smaller = e * larger;
    const T positive = static_cast<T>(positive_weight) * y, negative = T(1) - y;
    return p < T(0) ? negative * smaller - positive * larger : negative * larger - positive * smaller;
  }
};

/// y (log y - p), where y is a probability and p the logarithm of another one. It is 0 if y is 0, and NaN if y is no
/// probability.
struct KullbackLeibler {
  template <class T>
  KOKKOS_FUNCTION static T value(T p, T y) {
    return y == T(0) ? T(0) : y * (Kokkos::log(y) - p);
  }
  template <class T>
  KOKKOS_FUNCTION static T slope(T, T y) {
    return -y;
  }
};

/// Of a count y, whose logarithm of the mean is p if `of_logarithm`, else whose mean is p: e^p - y p, or p - y log(p +
/// eps). If `full`, Stirling's approximation of log y! is added where y > 1.
struct PoissonLikelihood {
  bool of_logarithm = true, full = false;
  double eps = 1e-8;

  template <class T>
  KOKKOS_FUNCTION T value(T p, T y) const {
    const T own = of_logarithm ? Kokkos::exp(p) - y * p : p - y * Kokkos::log(p + static_cast<T>(eps));
    if (!full || !(y > T(1))) return own;
    return own + y * Kokkos::log(y) - y + Kokkos::log(static_cast<T>(2 * Kokkos::numbers::pi) * y) / T(2);
  }
  template <class T>
  KOKKOS_FUNCTION T slope(T p, T y) const {
    return of_logarithm ? Kokkos::exp(p) - y : T(1) - y / (p + static_cast<T>(eps));
  }
};

/// q (y - p) if the label is larger, (1 - q) (p - y) if it is smaller. It is least at the q-quantile of the label.
struct PinballError {
  double quantile = 0.5;

  template <class T>
  KOKKOS_FUNCTION T value(T p, T y) const {
    const T q = static_cast<T>(quantile), d = y - p;
    return d > T(0) ? q * d : (q - T(1)) * d;
  }
  template <class T>
  KOKKOS_FUNCTION T slope(T p, T y) const {
    const T q = static_cast<T>(quantile);
    return y > p ? -q : y < p ? T(1) - q : T(0);
  }
};

/// The channels of one point of a stored tensor.
template <class S>
struct ChannelsAt {
  S* data;
  index_t stride;
  KOKKOS_FUNCTION S& operator[](int c) const { return data[c * stride]; }
  /// Rounds the value to the stored type.
  template <class T>
  KOKKOS_FUNCTION void put(int c, T value) const {
    data[c * stride] = static_cast<S>(value);
  }
};

/// The logarithms of the softmax values of a point. A value near 1 loses no digits of its distance from 1.
template <class T>
struct LogSoftmax {
  T most, rest = 0;  ///< the largest score, and the logarithm of the sum of e^(p - most)

  template <class P>
  KOKKOS_FUNCTION LogSoftmax(int channels, const P& p) : most(static_cast<T>(p[0])) {
    int largest = 0;
    for (int c = 1; c < channels; ++c)
      if (static_cast<T>(p[c]) > most) most = static_cast<T>(p[c]), largest = c;
    for (int c = 0; c < channels; ++c)
      if (c != largest) rest += Kokkos::exp(static_cast<T>(p[c]) - most);
    rest = Kokkos::log1p(rest);
  }
  KOKKOS_FUNCTION T of(T score) const { return (score - most) - rest; }
};

/// Weights of classes. They are 1 if there are none.
struct ClassWeights {
  const double* weight = nullptr;

  KOKKOS_FUNCTION double of(index_t c) const { return weight == nullptr ? 1.0 : weight[c]; }
  KOKKOS_FUNCTION double sum(int channels) const {
    double sum = channels;
    if (weight != nullptr) {
      sum = 0;
      for (int c = 0; c < channels; ++c) sum += weight[c];
    }
    return sum;
  }
};

/// Classes as labels: how much one counts.
struct ClassLabels {
  ClassWeights classes;
  index_t ignored = -100;

  /// In the mean: 0 if it is ignored, NaN if it is not a class.
  KOKKOS_FUNCTION double weight(index_t label, int channels) const {
    if (label == ignored) return 0;
    return label >= 0 && label < channels ? classes.of(label) : Kokkos::Experimental::quiet_NaN_v<double>;
  }
  /// Not if only the weight of its class counts, and that is 0.
  KOKKOS_FUNCTION bool counts(index_t label, int channels, bool others_count) const {
    return label != ignored && label >= 0 && label < channels && (others_count || classes.of(label) != 0);
  }
};

/// -w[y] p[y], where p is the logarithm of the probabilities of classes and y is a class.
struct LikelihoodOfClass : ClassLabels {
  template <class T, class P, class Y, class G>
  KOKKOS_FUNCTION double point(int channels, const P& p, const Y& y, T scale, const G& gradient) const {
    const auto label = static_cast<index_t>(y[0]);
    for (int c = 0; c < channels; ++c) gradient.put(c, 0);
    if (!counts(label, channels, false)) return 0;
    const int own = static_cast<int>(label);
    const T factor = static_cast<T>(classes.of(label));
    gradient.put(own, -scale * factor);
    return -static_cast<double>(factor * static_cast<T>(p[own]));
  }
};

/// For K values y[k], of normal distributions with mean p[k] and variance v = p[K + k], summed over k: (log v + (p -
/// y)^2 / v) / 2, plus log(2 pi) / 2 if `full`. Variances below eps count as eps; their derivative is that at eps.
struct NormalLikelihood {
  int values = 1;
  bool full = false;
  double eps = 1e-6;

  int counted(int) const { return values; }

  template <class T, class P, class Y, class G>
  KOKKOS_FUNCTION double point(int, const P& p, const Y& y, T scale, const G& gradient) const {
    double loss = full ? values * Kokkos::log(2 * Kokkos::numbers::pi) / 2 : 0;
    for (int k = 0; k < values; ++k) {
      const T v = Kokkos::max(static_cast<T>(p[values + k]), static_cast<T>(eps));
      const T error = static_cast<T>(p[k]) - static_cast<T>(y[k]), share = error / v;
      loss += static_cast<double>((Kokkos::log(v) + error * share) / T(2));
      gradient.put(k, scale * share);
      gradient.put(values + k, scale * (T(1) / v - share * share) / T(2));
    }
    return loss;
  }
};

/// -(1 - e) w[y] log s[y] - e / C sum of w[c] log s[c], where s = softmax(p) and y is a class. e smooths the label.
struct CrossEntropyOfClass : ClassLabels {
  double smoothing = 0;

  template <class T, class P, class Y, class G>
  KOKKOS_FUNCTION double point(int channels, const P& p, const Y& y, T scale, const G& gradient) const {
    const auto label = static_cast<index_t>(y[0]);
    if (!counts(label, channels, smoothing > 0)) {
      for (int c = 0; c < channels; ++c) gradient.put(c, 0);
      return 0;
    }
    const LogSoftmax<T> logs(channels, p);
    const T of_label = static_cast<T>((1 - smoothing) * classes.of(label));
    const double each = smoothing / channels;
    const T of_all = static_cast<T>(smoothing > 0 ? each * classes.sum(channels) : 0);
    double loss = 0;
    for (int c = 0; c < channels; ++c) {
      const T value = logs.of(static_cast<T>(p[c]));
      T slope = of_all * Kokkos::exp(value);
      if (c == label) {
        slope += of_label * Kokkos::expm1(value);
        if (of_label != T(0)) loss -= static_cast<double>(of_label * value);
      } else {
        slope += of_label * Kokkos::exp(value);
      }
      const T smoothed = static_cast<T>(smoothing > 0 ? each * classes.of(c) : 0);
      slope -= smoothed;
      if (smoothed != T(0)) loss -= static_cast<double>(smoothed * value);
      gradient.put(c, scale * slope);
    }
    return loss;
  }
};

/// - sum of w[c] y'[c] log s[c], where s = softmax(p) and y is a distribution over classes; y' = (1 - e) y + e / C.
struct CrossEntropyOfDistribution {
  ClassWeights classes;
  double smoothing = 0;

  template <class T, class P, class Y, class G>
  KOKKOS_FUNCTION double point(int channels, const P& p, const Y& y, T scale, const G& gradient) const {
    const LogSoftmax<T> logs(channels, p);
    const auto wanted = [&](int c) {
      return static_cast<T>(classes.of(c) * ((1 - smoothing) * static_cast<double>(y[c]) + smoothing / channels));
    };
    T factor = 0;
    for (int c = 0; c < channels; ++c) factor += wanted(c);
    double loss = 0;
    for (int c = 0; c < channels; ++c) {
      const T value = logs.of(static_cast<T>(p[c])), here = wanted(c);
      if (here != T(0)) loss -= static_cast<double>(here * value);
      gradient.put(c, scale * (factor * Kokkos::exp(value) - here));
    }
    return loss;
  }
};

/// For an ensemble of M members p[m * K + k] and K values y[k], summed over k: the mean of |p - y| minus the sum of |p
/// - p'| over pairs / (2 M^2), or / (2 M (M - 1)) if `fair`.
struct RankedProbabilityScore {
  int values = 1;
  bool fair = false;

  /// How many numbers of a point count in the mean.
  int counted(int) const { return values; }

  template <class T, class P, class Y, class G>
  KOKKOS_FUNCTION double point(int channels, const P& p, const Y& y, T scale, const G& gradient) const {
    const int members = channels / values;
    const double pairs = static_cast<double>(members) * (fair ? members - 1 : members);
    const T one = T(1) / static_cast<T>(members), pair = static_cast<T>(pairs > 0 ? 1 / pairs : 0);
    double loss = 0;
    for (int k = 0; k < values; ++k)
      for (int m = 0; m < members; ++m) {
        const T member = static_cast<T>(p[m * values + k]), error = member - static_cast<T>(y[k]);
        T distance = 0;
        int above = 0;  // how many more members are below this one than above it
        for (int other = 0; other < members; ++other) {
          const T d = member - static_cast<T>(p[other * values + k]);
          distance += Kokkos::abs(d);
          above += static_cast<int>(d > T(0)) - static_cast<int>(d < T(0));
        }
        loss += static_cast<double>(one * Kokkos::abs(error) - pair * distance / T(2));
        const T sign = static_cast<T>(error > T(0)) - static_cast<T>(error < T(0));
        gradient.put(m * values + k, scale * (one * sign - pair * static_cast<T>(above)));
      }
    return loss;
  }
};

}  // namespace halogen::kernels
