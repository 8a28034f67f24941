// HALOGEN_EXPORT: the functions of halogen/model.h for one model, so that programs in C, Fortran and Python call it.
#pragma once

#include <exception>
#include <string>
#include <utility>

#include "halogen/hosts/exported_model.hpp"

namespace halogen::detail {

template <class ModelType, class T>
ExportedModel<ModelType, T, NoTraining> exported();
template <class ModelType, class T, class Training>
ExportedModel<ModelType, T, Training> exported();
template <class ModelType, class T, auto Loss, class Optimizer>
ExportedModel<ModelType, T, TrainedBy<Loss, Optimizer>> exported();

/// Of the last call of this thread that failed.
inline thread_local std::string hosts_error;

/// Calls f() and returns a code. Nothing that is thrown goes on to the host.
template <class F>
std::int32_t coded(F&& f) noexcept {
  std::int32_t code = HALOGEN_FAILED;
  try {
    std::forward<F>(f)();
    return HALOGEN_OK;
  } catch (const CollectiveError&) {
    code = HALOGEN_REFUSED;
    hosts_error = sentence_of(std::current_exception());
  } catch (...) {
    hosts_error = sentence_of(std::current_exception());
  }
  return code;
}
/// The same of a model, which a host may have forgotten to make.
template <class Handle, class F>
std::int32_t coded(Handle* handle, const char* user, F&& f) noexcept {
  return coded([&] {
    if (handle == nullptr) throw CollectiveError(std::string(user) + ": the model is null: make one with create");
    f(handle->model);
  });
}

}  // namespace halogen::detail

/// HALOGEN_EXPORT(unet, UNet<7, 3, 16>, float) in one file makes unet_create, unet_infer and the other functions of
/// HALOGEN_MODEL(unet), in a library that halogen_export(unet unet.cpp) of CMake builds (docs/hosts.md). It infers, and
/// gives gradients. With a loss and an optimiser it trains as well: HALOGEN_EXPORT(unet, UNet<7, 3, 16>, float,
/// hg::mse, hg::AdamW). A loss that is no template argument, as hg::Losses of several outputs, is named by a type:
///
///   struct Training {
///     using optimizer = hg::AdamW;
///     static auto loss() { return hg::Losses{hg::mse, 0.1 * hg::cross_entropy}; }
///   };
///   HALOGEN_EXPORT(heads, Heads, float, Training)
#define HALOGEN_EXPORT(prefix, ...)                                                                                 \
  extern "C" {                                                                                                      \
  struct prefix##_model {                                                                                           \
    using type = decltype(halogen::detail::exported<__VA_ARGS__>());                                                \
    type model;                                                                                                     \
  };                                                                                                                \
  HALOGEN_EXPORTED const halogen_about* prefix##_about(void) {                                                      \
    static thread_local halogen_about about;                                                                        \
    about = prefix##_model::type::about(#__VA_ARGS__);                                                              \
    return &about;                                                                                                  \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_create(prefix##_model** model, const halogen_setup* setup) {               \
    return halogen::detail::coded([&] {                                                                             \
      if (model == nullptr || setup == nullptr) throw halogen::CollectiveError("create: model or setup is null");   \
      *model = nullptr;                                                                                             \
      halogen::detail::start_as_guest(setup->threads > 0 ? setup->threads : 1);                                     \
      *model = new prefix##_model{prefix##_model::type(*setup)};                                                    \
    });                                                                                                             \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_load(prefix##_model* model, const char* path) {                            \
    return halogen::detail::coded(model, "load", [&](auto& m) { m.load(path); });                                   \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_save(prefix##_model* model, const char* path) {                            \
    return halogen::detail::coded(model, "save", [&](auto& m) { m.save(path); });                                   \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_output(prefix##_model* model, std::int32_t i, halogen_array* shape,        \
                                                std::int64_t* begin) {                                              \
    return halogen::detail::coded(model, "output", [&](auto& m) { m.output(i, shape, begin); });                    \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_infer(prefix##_model* model, const halogen_array* in, std::int32_t inputs, \
                                               const halogen_array* out, std::int32_t outputs, std::int32_t keep) { \
    return halogen::detail::coded(model, "infer", [&](auto& m) { m.infer(in, inputs, out, outputs, keep != 0); });  \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_vjp(prefix##_model* model, const halogen_array* cotangents,                \
                                             std::int32_t outputs, const halogen_array* gradients,                  \
                                             std::int32_t inputs) {                                                 \
    return halogen::detail::coded(model, "vjp", [&](auto& m) { m.vjp(cotangents, outputs, gradients, inputs); });   \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_parameter(prefix##_model* model, std::int32_t i, const char** name,        \
                                                   halogen_array* values) {                                         \
    return halogen::detail::coded(model, "parameter", [&](auto& m) { m.parameter(i, name, values, false); });       \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_gradient(prefix##_model* model, std::int32_t i, const char** name,         \
                                                  halogen_array* values) {                                          \
    return halogen::detail::coded(model, "gradient", [&](auto& m) { m.parameter(i, name, values, true); });         \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_set(prefix##_model* model, const char* option, double value) {             \
    return halogen::detail::coded(model, "set", [&](auto& m) { m.set(option, value); });                            \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int32_t prefix##_step(prefix##_model* model, const halogen_array* in, std::int32_t inputs,  \
                                              const halogen_array* label, std::int32_t labels,                      \
                                              const halogen_array* weight, std::int32_t weights, double* loss) {    \
    return halogen::detail::coded(model, "step", [&](auto& m) {                                                     \
      const double value = m.step(in, inputs, label, labels, weight, weights);                                      \
      if (loss != nullptr) *loss = value;                                                                           \
    });                                                                                                             \
  }                                                                                                                 \
  HALOGEN_EXPORTED std::int64_t prefix##_memory(prefix##_model* model) {                                            \
    std::int64_t bytes = 0;                                                                                         \
    halogen::detail::coded(model, "memory", [&](auto& m) { bytes = m.memory(); });                                  \
    return bytes;                                                                                                   \
  }                                                                                                                 \
  HALOGEN_EXPORTED const char* prefix##_explain(prefix##_model* model) {                                            \
    const char* text = "";                                                                                          \
    halogen::detail::coded(model, "explain", [&](auto& m) { text = m.explain(); });                                 \
    return text;                                                                                                    \
  }                                                                                                                 \
  HALOGEN_EXPORTED const char* prefix##_error(void) { return halogen::detail::hosts_error.c_str(); }                \
  HALOGEN_EXPORTED void prefix##_destroy(prefix##_model* model) {                                                   \
    halogen::detail::coded([&] { delete model; });                                                                  \
  }                                                                                                                 \
  }                                                                                                                 \
  static_assert(true, "")

/// Visible outside of a library that hides all else.
#if defined(_WIN32)
#define HALOGEN_EXPORTED __declspec(dllexport)
#else
#define HALOGEN_EXPORTED __attribute__((visibility("default")))
#endif
