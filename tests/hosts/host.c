/* A host in C99 with MPI of its own, a decomposition of its own and ghost cells: what a library of HALOGEN_EXPORT gives it,
 * on any number of ranks, against a run of the whole field by each rank alone. */
#define _POSIX_C_SOURCE 200809L
#include <dirent.h>
#include <mpi.h>
#include <several.h>
#include <small.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef _OPENMP
#include <omp.h>
#endif

enum { HEIGHT = 18, WIDTH = 14, IN = 3, OUT = 2, GHOSTS = 2 };

static int faults = 0, rank_of_world = 0;

static void expect(int holds, const char* what, const char* sentence) {
  if (holds) return;
  ++faults;
  fprintf(stderr, "rank %d: %s (%s)\n", rank_of_world, what, sentence);
}
#define OK(call)                                   \
  do {                                               \
    const int32_t code = (call);                     \
    expect(code == HALOGEN_OK, #call, small_error()); \
  } while (0)
#define DONE(call)                                   \
  do {                                                 \
    const int32_t code = (call);                       \
    expect(code == HALOGEN_OK, #call, several_error()); \
  } while (0)
/* A refusal: code 1, and a sentence that has `words`. */
#define REFUSED(call, words)                                                                    \
  do {                                                                                          \
    const int32_t code = (call);                                                                \
    expect(code == HALOGEN_REFUSED && strstr(small_error(), words) != NULL, #call, small_error()); \
  } while (0)

static int threads_of_process(void) {
  int count = 0;
  DIR* folder = opendir("/proc/self/task");
  if (folder == NULL) return 1;
  for (struct dirent* entry; (entry = readdir(folder)) != NULL;) count += entry->d_name[0] != '.';
  closedir(folder);
  return count;
}
static long resident_kib(void) {
  long size = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL) return 0;
  if (fscanf(file, "%ld %ld", &size, &resident) != 2) resident = 0;
  fclose(file);
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

static double value_at(int c, int y, int x) { return (double)((c * 37 + y * 11 + x * 5) % 23) / 11 - 1; }

static halogen_array array_of(void* data, int type, int channels, int height, int width, int64_t channel, int64_t row,
                              int64_t column) {
  halogen_array array;
  memset(&array, 0, sizeof array);
  array.data = data, array.type = type, array.rank = 3;
  array.extent[0] = channels, array.extent[1] = height, array.extent[2] = width;
  array.stride[0] = channel, array.stride[1] = row, array.stride[2] = column;
  return array;
}

static halogen_setup setup_of(int height, int width) {
  halogen_setup setup;
  memset(&setup, 0, sizeof setup);
  setup.size = (int32_t)sizeof setup, setup.abi = HALOGEN_MODEL_ABI;
  setup.extent[1] = setup.end[1] = height, setup.extent[2] = setup.end[2] = width;
  setup.seed = 7;
  return setup;
}

/* The whole field by this process alone. */
static void compute_alone(float* out) {
  static float in[IN][HEIGHT][WIDTH];
  for (int c = 0; c < IN; ++c)
    for (int y = 0; y < HEIGHT; ++y)
      for (int x = 0; x < WIDTH; ++x) in[c][y][x] = (float)value_at(c, y, x);
  small_model* model = NULL;
  const halogen_setup setup = setup_of(HEIGHT, WIDTH);
  OK(small_create(&model, &setup));
  const halogen_array x = array_of(in, HALOGEN_FLOAT32, IN, HEIGHT, WIDTH, HEIGHT * WIDTH, WIDTH, 1);
  const halogen_array y = array_of(out, HALOGEN_FLOAT32, OUT, HEIGHT, WIDTH, HEIGHT * WIDTH, WIDTH, 1);
  OK(small_infer(model, &x, 1, &y, 1, 0));
  small_destroy(model);
}

typedef struct {
  MPI_Comm comm;
  int rank, size, y0, y1, x0, x1;
} piece_of_host;

/* Ranks of the host: columns first, in an order that is no mesh's, with uneven bounds. */
static piece_of_host decompose(MPI_Comm comm) {
  piece_of_host piece = {comm, 0, 1, 0, HEIGHT, 0, WIDTH};
  MPI_Comm_rank(comm, &piece.rank), MPI_Comm_size(comm, &piece.size);
  const int down = piece.size % 2 == 0 ? 2 : 1, across = piece.size / down;
  const int place = piece.size - 1 - piece.rank, i = place % down, j = place / down;
  if (down == 2) piece.y0 = i == 0 ? 0 : 7, piece.y1 = i == 0 ? 7 : HEIGHT;
  piece.x0 = j == 0 ? 0 : 3 + j * (WIDTH - 3) / across, piece.x1 = j + 1 == across ? WIDTH : 3 + (j + 1) * (WIDTH - 3) / across;
  return piece;
}

static halogen_setup setup_of_piece(const piece_of_host* piece) {
  halogen_setup setup = setup_of(HEIGHT, WIDTH);
  setup.has_communicator = 1, setup.communicator = MPI_Comm_c2f(piece->comm);
  setup.begin[1] = piece->y0, setup.end[1] = piece->y1, setup.begin[2] = piece->x0, setup.end[2] = piece->x1;
  return setup;
}

/* Inference in the host's decomposition: double values, rows from south to north, ghost cells, channels last. */
static void check_inference(const piece_of_host* piece, const float* alone) {
  const int h = piece->y1 - piece->y0, w = piece->x1 - piece->x0, line = w + 2 * GHOSTS;
  double* in = malloc(sizeof(double) * (size_t)(IN * (h + 2 * GHOSTS) * line));
  float* out = malloc(sizeof(float) * (size_t)(OUT * (h + 2 * GHOSTS) * line));
  for (int i = 0; i < IN * (h + 2 * GHOSTS) * line; ++i) in[i] = 1e30;
  for (int i = 0; i < OUT * (h + 2 * GHOSTS) * line; ++i) out[i] = 5;
  double* const last_row = in + ((h - 1 + GHOSTS) * line + GHOSTS) * IN;
  float* const first = out + GHOSTS * line + GHOSTS;
  for (int c = 0; c < IN; ++c)
    for (int y = 0; y < h; ++y)
      for (int x = 0; x < w; ++x) last_row[(x - y * line) * IN + c] = value_at(c, piece->y0 + y, piece->x0 + x);
  small_model* model = NULL;
  const halogen_setup setup = setup_of_piece(piece);
  OK(small_create(&model, &setup));
  const halogen_array x = array_of(last_row, HALOGEN_FLOAT64, IN, h, w, 1, -IN * line, IN);
  const halogen_array y = array_of(first, HALOGEN_FLOAT32, OUT, h, w, (h + 2 * GHOSTS) * line, line, 1);
  for (int time = 0; time < 2; ++time) OK(small_infer(model, &x, 1, &y, 1, 0));
  int wrong = 0, spoiled = 0;
  for (int c = 0; c < OUT; ++c)
    for (int i = -GHOSTS; i < h + GHOSTS; ++i)
      for (int j = -GHOSTS; j < w + GHOSTS; ++j) {
        const float value = first[c * (h + 2 * GHOSTS) * line + i * line + j];
        if (i < 0 || i >= h || j < 0 || j >= w)
          spoiled += value != 5;
        else
          wrong += value != alone[(c * HEIGHT + piece->y0 + i) * WIDTH + piece->x0 + j];
      }
  expect(wrong == 0, "inference has the bits of one process", "values differ");
  expect(spoiled == 0, "ghost cells of the output are the host's", "they were written");
  halogen_array shape;
  int64_t begin[6];
  OK(small_output(model, 0, &shape, begin));
  expect(shape.rank == 4 && shape.extent[1] == OUT && shape.extent[2] == h && begin[3] == piece->x0, "output", "shape");

  /* mistakes of one rank alone are refused on all */
  halogen_array other = x;
  if (piece->rank == piece->size - 1) other.extent[1] += 1;
  REFUSED(small_infer(model, &other, 1, &y, 1, 0), "input 0 has extents (3, ");
  other = x;
  if (piece->rank == 0) other.type = 9;
  REFUSED(small_infer(model, &other, 1, &y, 1, 0), "has type 9");
  other = x;
  if (piece->rank == 0) other.data = NULL;
  REFUSED(small_infer(model, &other, 1, &y, 1, 0), "no data (null)");
  REFUSED(small_infer(model, &x, 2, &y, 1, 0), "this model takes 1");
  REFUSED(small_vjp(model, &y, 1, &x, 1), "nothing is kept");
  REFUSED(small_load(model, "there/is/no.file"), "there/is/no.file");
  REFUSED(small_set(model, "speed", 1), "no option 'speed'");
  OK(small_infer(model, &x, 1, &y, 1, 0));
  small_destroy(model);
  free(in), free(out);
}

/* A vjp against the inner product: <f(x + e d) - f(x - e d), g> / 2e = <d, vjp(g)>, in double by `several`. */
static void check_vjp(MPI_Comm comm) {
  enum { SAMPLES = 2, POINTS = 24, CHANNELS = 2, MADE = 3, POOLED = 6 };
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &size);
  const int x0 = rank * POINTS / size, x1 = (rank + 1) * POINTS / size, w = x1 - x0;
  halogen_setup setup = setup_of(POINTS, 0);
  setup.extent[0] = setup.end[0] = SAMPLES, setup.extent[1] = POINTS, setup.begin[1] = x0, setup.end[1] = x1;
  setup.extent[2] = setup.end[2] = 0;
  setup.has_communicator = 1, setup.communicator = MPI_Comm_c2f(comm);
  several_model* model = NULL;
  DONE(several_create(&model, &setup));
  const halogen_about* about = several_about();
  expect(about->inputs == 3 && about->outputs == 2 && about->dimensions == 1 && about->type == HALOGEN_FLOAT64 &&
             about->input_kind[1] == 2 && about->input_kind[2] == 1 && about->output_kind[1] == 2 && about->trains == 1,
         "about", "kinds");
  double x[SAMPLES][CHANNELS][POINTS], d[SAMPLES][CHANNELS][POINTS], g[SAMPLES][MADE][POINTS], gv[SAMPLES][POOLED];
  double y[SAMPLES][MADE][POINTS], v[SAMPLES][POOLED], back[SAMPLES][CHANNELS][POINTS], t[SAMPLES] = {0.3, 1.7};
  int32_t kind[SAMPLES][POINTS];
  for (int n = 0; n < SAMPLES; ++n) {
    for (int c = 0; c < CHANNELS; ++c)
      for (int i = 0; i < w; ++i) x[n][c][i] = value_at(c, n, x0 + i), d[n][c][i] = value_at(n, x0 + i, c + 3);
    for (int c = 0; c < MADE; ++c)
      for (int i = 0; i < w; ++i) g[n][c][i] = value_at(c + 1, x0 + i, n);
    for (int i = 0; i < w; ++i) kind[n][i] = (x0 + i + n) % 5;
    for (int c = 0; c < POOLED; ++c) gv[n][c] = value_at(c, n, 2);
  }
#define SIGNAL(data, channels) \
  { data, HALOGEN_FLOAT64, 3, {SAMPLES, channels, w, 0, 0, 0}, {(channels) * POINTS, POINTS, 1, 0, 0, 0} }
  const halogen_array in[3] = {SIGNAL(x, CHANNELS),
                               {t, HALOGEN_FLOAT64, 2, {SAMPLES, 1, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}},
                               {kind, HALOGEN_INT32, 3, {SAMPLES, 1, w, 0, 0, 0}, {POINTS, 0, 1, 0, 0, 0}}};
  const halogen_array out[2] = {SIGNAL(y, MADE), {v, HALOGEN_FLOAT64, 2, {SAMPLES, POOLED, 0, 0, 0, 0}, {POOLED, 1, 0, 0, 0, 0}}};
  const halogen_array cotangent[2] = {SIGNAL(g, MADE), {gv, HALOGEN_FLOAT64, 2, {SAMPLES, POOLED, 0, 0, 0, 0}, {POOLED, 1, 0, 0, 0, 0}}};
  halogen_array gradient[3] = {SIGNAL(back, CHANNELS), {0}, {0}};
  DONE(several_infer(model, in, 3, out, 2, 1));
  DONE(several_vjp(model, cotangent, 2, gradient, 3));
  double sums[2] = {0, 0};
  for (int n = 0; n < SAMPLES; ++n)
    for (int c = 0; c < CHANNELS; ++c)
      for (int i = 0; i < w; ++i) sums[1] += d[n][c][i] * back[n][c][i];
  const double step = 1e-4;
  for (int sign = -1; sign <= 1; sign += 2) {
    for (int n = 0; n < SAMPLES; ++n)
      for (int c = 0; c < CHANNELS; ++c)
        for (int i = 0; i < w; ++i) x[n][c][i] += (sign < 0 ? -1 : 2) * step * d[n][c][i];
    DONE(several_infer(model, in, 3, out, 2, 0));
    for (int n = 0; n < SAMPLES; ++n) {
      for (int c = 0; c < MADE; ++c)
        for (int i = 0; i < w; ++i) sums[0] += sign * y[n][c][i] * g[n][c][i] / (2 * step);
      if (rank == 0)
        for (int c = 0; c < POOLED; ++c) sums[0] += sign * v[n][c] * gv[n][c] / (2 * step);
    }
  }
  MPI_Allreduce(MPI_IN_PLACE, sums, 2, MPI_DOUBLE, MPI_SUM, comm);
  const double error = sums[0] - sums[1], least = 1e-6 * (sums[1] < 0 ? -sums[1] : sums[1]);
  expect(error < least && -error < least, "vjp is the derivative of infer", "differs");

  /* parameters by name, of the model and of its gradient; a step by hand is what step() does with SGD */
  const char* name = NULL;
  halogen_array values, slope;
  DONE(several_parameter(model, 0, &name, &values) == 0 && strcmp(name, "0.weight"));
  expect(values.rank == 3 && values.extent[0] == 6 && values.extent[1] == CHANNELS && values.extent[2] == 3, "shape", name);
  DONE(several_gradient(model, 0, &name, &slope));
  DONE(several_set(model, "lr", 0.05));
  double loss = 0, second = 0;
  for (int i = 0; i < 20; ++i) {
    DONE(several_step(model, in, 3, cotangent, 2, NULL, 0, i == 0 ? &loss : &second));
  }
  expect(second < loss, "20 steps make the loss smaller", "it grew");
  several_destroy(model);
}

/* Columns: a decomposition that is no product of cuts, each rank with samples of its own; nothing is sent between them. */
static void check_columns(MPI_Comm comm) {
  enum { COLUMNS = 11, LEVELS = 8 };
  int rank = 0, size = 1;
  MPI_Comm_rank(comm, &rank), MPI_Comm_size(comm, &size);
  double all_x[COLUMNS][2][LEVELS], all_y[COLUMNS][3][LEVELS], y[COLUMNS][3][LEVELS], t[COLUMNS];
  int64_t kind[COLUMNS][LEVELS];
  for (int n = 0; n < COLUMNS; ++n) {
    t[n] = 0.1 * n;
    for (int c = 0; c < 2; ++c)
      for (int k = 0; k < LEVELS; ++k) all_x[n][c][k] = value_at(c, n, k);
    for (int k = 0; k < LEVELS; ++k) kind[n][k] = (n + k) % 5;
  }
  for (int cut = 0; cut < 2; ++cut) {
    const int begin = cut ? rank + rank * rank * (COLUMNS - size) / (size * size) : 0;
    const int end = cut ? (rank + 1) + (rank + 1) * (rank + 1) * (COLUMNS - size) / (size * size) : COLUMNS, n = end - begin;
    halogen_setup setup = setup_of(LEVELS, 0);
    setup.extent[2] = setup.end[2] = 0;
    setup.extent[0] = COLUMNS, setup.begin[0] = begin, setup.end[0] = end;
    if (cut) setup.has_communicator = 1, setup.communicator = MPI_Comm_c2f(comm);
    several_model* model = NULL;
    DONE(several_create(&model, &setup));
    const halogen_array in[3] = {{all_x[begin], HALOGEN_FLOAT64, 3, {n, 2, LEVELS, 0, 0, 0}, {2 * LEVELS, LEVELS, 1, 0, 0, 0}},
                                 {t + begin, HALOGEN_FLOAT64, 2, {n, 1, 0, 0, 0, 0}, {1, 1, 0, 0, 0, 0}},
                                 {kind[begin], HALOGEN_INT64, 3, {n, 1, LEVELS, 0, 0, 0}, {LEVELS, 0, 1, 0, 0, 0}}};
    const halogen_array out[2] = {{cut ? y : all_y, HALOGEN_FLOAT64, 3, {n, 3, LEVELS, 0, 0, 0}, {3 * LEVELS, LEVELS, 1, 0, 0, 0}},
                                  {NULL, 0, 0, {0}, {0}}};
    DONE(several_infer(model, in, 3, out, 2, 0));
    if (cut) expect(memcmp(y, all_y[begin], (size_t)n * sizeof y[0]) == 0, "columns have the bits of one process", "differ");
    several_destroy(model);
  }
}

/* 1,000 models, one after the other: no thread, no memory, no communicator stays. */
static void check_growth(const piece_of_host* piece, int times) {
  const halogen_setup setup = setup_of_piece(piece);
  long before = 0;
  for (int i = 0; i < times; ++i) {
    small_model *model = NULL, *beside = NULL;
    OK(small_create(&model, &setup));
    if (i % 100 == 0) OK(small_create(&beside, &setup));
    small_destroy(beside), small_destroy(model);
    if (i == times / 5) before = resident_kib();
  }
  const long grown = resident_kib() - before;
  char text[64];
  snprintf(text, sizeof text, "it grew by %ld KiB", grown);
  expect(grown < 2048, "creates and destroys leave nothing", text);
}

static void check_refused_setups(const piece_of_host* piece) {
  small_model* model = NULL;
  halogen_setup setup = setup_of_piece(piece);
  REFUSED(small_create(NULL, &setup), "null");
  REFUSED(small_infer(NULL, NULL, 0, NULL, 0, 0), "the model is null");
  setup.abi = HALOGEN_MODEL_ABI + 1;
  REFUSED(small_create(&model, &setup), "halogen/model.h");
  setup = setup_of_piece(piece), setup.extent[2] += 1;
  REFUSED(small_create(&model, &setup), "let the ranks own all of them");
  setup = setup_of_piece(piece), setup.memory_limit = 1000;
  REFUSED(small_create(&model, &setup), "memory_limit is 1000");
  if (piece->size > 1) {
    setup = setup_of_piece(piece), setup.begin[2] += piece->rank == 0;
    REFUSED(small_create(&model, &setup), "product of cuts");
    setup = setup_of_piece(piece), setup.extent[1] += piece->rank == 0;
    REFUSED(small_create(&model, &setup), "differ between ranks");
  }
  setup = setup_of_piece(piece), setup.mesh[0] = 1, setup.mesh[1] = piece->size, setup.mesh[2] = 2;
  REFUSED(small_create(&model, &setup), "one place to each rank");
  expect(model == NULL, "a model that was refused is null", "");
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank_of_world);
  const int threads = threads_of_process();
#ifdef _OPENMP
  const int before = omp_get_max_threads();
#endif
  static float alone[OUT * HEIGHT * WIDTH];
  compute_alone(alone);
  MPI_Comm comm; /* not the world, and in another order */
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_split(MPI_COMM_WORLD, 0, size - rank_of_world, &comm);
  const piece_of_host piece = decompose(comm);
  check_inference(&piece, alone);
  check_vjp(comm);
  check_columns(comm);
  check_refused_setups(&piece);
  check_growth(&piece, 1000);
  expect(threads_of_process() == threads, "no thread was started", "there are more");
#ifdef _OPENMP
  expect(omp_get_max_threads() == before, "omp_get_max_threads is as before", "it changed");
#endif
  MPI_Comm_free(&comm);
  MPI_Allreduce(MPI_IN_PLACE, &faults, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  if (rank_of_world == 0 && faults == 0) puts("a host in C: all holds");
  return faults == 0 ? 0 : 1;
}
