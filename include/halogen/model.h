/* The C interface of a model that HALOGEN_EXPORT made a library of: one library for each model, its functions named by a
 * prefix. C99 or C++; no header of MPI. docs/hosts.md has a whole program.
 *
 *   #include <halogen/model.h>
 *   HALOGEN_MODEL(unet)                                  declares unet_create, unet_infer, ...
 *
 * Each function that returns int32_t returns a code of halogen_code; unet_error() has the sentence. All calls but
 * about, memory, error and explain are collective over the ranks of the model's communicator. What is wrong with one
 * rank's arguments is refused on all ranks, with the same sentence, before anything is moved. No exception leaves a
 * function, and none ends the process.
 */
#ifndef HALOGEN_MODEL_H
#define HALOGEN_MODEL_H

#include <stdint.h>

/* Of the structures below; unet_create refuses another one. */
#define HALOGEN_MODEL_ABI 1

#ifdef __cplusplus
#define HALOGEN_C_BEGIN extern "C" {
#define HALOGEN_C_END }
#else
#define HALOGEN_C_BEGIN
#define HALOGEN_C_END
#endif

enum halogen_code {
  HALOGEN_OK = 0,
  HALOGEN_REFUSED = 1, /* what was given does not fit; nothing has changed */
  HALOGEN_FAILED = 2   /* memory, MPI or a file failed during the work */
};

enum halogen_type { HALOGEN_FLOAT32 = 0, HALOGEN_FLOAT64 = 1, HALOGEN_INT32 = 2, HALOGEN_INT64 = 3 };

/* An array of the host's in its own memory, by its first owned value. Dimensions are in C's order (sample, channel,
 * depth, height, width), as far as the model has them; the first may be left out if its extent is 1, and the channel's
 * if both are. Strides count values and may be negative; ghost cells are skipped by strides. So an array (lon, lat,
 * channel) of Fortran is given as (channel, lat, lon), and nothing is transposed. Values are converted as they are
 * copied. */
typedef struct halogen_array {
  void* data;
  int32_t type; /* halogen_type */
  int32_t rank; /* dimensions */
  int64_t extent[6];
  int64_t stride[6];
} halogen_array;

/* How a model lies in a host. Set all to 0 first. Dimensions are (sample, then depth, height, width as far as the model
 * has them); indices count from 0 over the whole field.
 *
 * A rank says what it owns: [begin, end) of each dimension. From what all ranks say follow the mesh, its cuts, which may
 * be uneven, and the order of the ranks. If all mesh extents are positive instead, begin and end are ignored: the
 * pieces are as equal as can be, and the last dimension of the mesh varies fastest over the ranks. */
typedef struct halogen_setup {
  int32_t size;             /* sizeof(halogen_setup) */
  int32_t abi;              /* HALOGEN_MODEL_ABI */
  int32_t has_communicator; /* 0: this process alone, without MPI */
  int32_t communicator;     /* Fortran's handle: MPI_Comm_c2f(comm). It is duplicated and stays the host's. */
  int64_t extent[4];        /* of the whole field; 0 samples: 1 */
  int64_t begin[4], end[4];
  int32_t mesh[4];
  int32_t threads;      /* 0: one, no thread is started. It counts for the first model of a library. */
  int32_t reserved;     /* 0 */
  int64_t memory_limit; /* bytes that inference may take on a rank; 0: any */
  int64_t seed;         /* of the parameters' first values, and of dropout */
} halogen_setup;

/* What a library holds. Kinds: 0 a field of numbers, 1 of indices, 2 a vector of numbers for each sample, 3 of indices. */
typedef struct halogen_about {
  int32_t abi, type, dimensions; /* type: of the parameters and fields; dimensions: of space */
  int32_t inputs, outputs, parameters;
  int32_t input_kind[4], input_channels[4];
  int32_t output_kind[4], output_channels[4];
  int32_t label_kind[4], label_channels[4]; /* of a library that trains */
  int32_t trains;                           /* 1: unet_step works */
  int32_t threads;                          /* of this process for kernels, once a model was created */
  const char* exported;  /* the arguments of HALOGEN_EXPORT after the name, as they were written */
  const char* optimizer; /* its name, or "" */
  const char* mpi;       /* version of the MPI that it was linked with, or "" */
} halogen_about;

/* Declares the functions of the model that was exported as `prefix`.
 *
 * create        makes a model. Its parameters are PyTorch's first values, drawn by `seed`.
 * load, save    parameters, from and to a safetensors file with PyTorch's names. save of a model that was trained also
 *               writes the optimiser's state, and load reads it where it is there.
 * output        what this rank owns of output i: its extents and begins. `shape` gets no data and no strides.
 * infer         in: one array for each input, out: one for each output (data may be null: not wanted). keep 1: as in
 *               training (a batch norm takes the batch's moments, dropout draws), and what vjp needs is kept.
 * vjp           after infer with keep, before any other call that computes: gradients of the inputs from those of the
 *               outputs. data null: not wanted. Then gradient() has those of the parameters, summed over the ranks.
 * parameter     the i-th tensor and its name. The array is the model's own memory, which the host may write, on all
 * gradient      ranks alike; valid until the next load, or the first step. gradient: the same of the last vjp.
 * set           an option of training, before the first step: "lr", "weight_decay", "beta1", "beta2", "eps",
 *               "momentum", "max_norm". "lr" at any time.
 * step          forward, backward, update. weight: none (0), or one for each output. loss: before the update.
 * memory        bytes that the model holds on this rank.
 * explain       the plan in words, for this rank. Valid until the next call.
 * error         the sentence of the last call of this thread that did not return HALOGEN_OK.
 */
#define HALOGEN_MODEL(prefix)                                                                                          \
  HALOGEN_C_BEGIN                                                                                                      \
  typedef struct prefix##_model prefix##_model;                                                                        \
  const halogen_about* prefix##_about(void);                                                                           \
  int32_t prefix##_create(prefix##_model** model, const halogen_setup* setup);                                         \
  int32_t prefix##_load(prefix##_model* model, const char* path);                                                      \
  int32_t prefix##_save(prefix##_model* model, const char* path);                                                      \
  int32_t prefix##_output(prefix##_model* model, int32_t i, halogen_array* shape, int64_t* begin);                     \
  int32_t prefix##_infer(prefix##_model* model, const halogen_array* in, int32_t inputs, const halogen_array* out,     \
                         int32_t outputs, int32_t keep);                                                               \
  int32_t prefix##_vjp(prefix##_model* model, const halogen_array* cotangents, int32_t outputs,                        \
                       const halogen_array* gradients, int32_t inputs);                                                \
  int32_t prefix##_parameter(prefix##_model* model, int32_t i, const char** name, halogen_array* values);              \
  int32_t prefix##_gradient(prefix##_model* model, int32_t i, const char** name, halogen_array* values);               \
  int32_t prefix##_set(prefix##_model* model, const char* option, double value);                                       \
  int32_t prefix##_step(prefix##_model* model, const halogen_array* in, int32_t inputs, const halogen_array* label,    \
                        int32_t labels, const halogen_array* weight, int32_t weights, double* loss);                   \
  int64_t prefix##_memory(prefix##_model* model);                                                                      \
  const char* prefix##_explain(prefix##_model* model);                                                                 \
  const char* prefix##_error(void);                                                                                    \
  void prefix##_destroy(prefix##_model* model);                                                                        \
  HALOGEN_C_END

#endif
