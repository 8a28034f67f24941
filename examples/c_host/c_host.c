/* A C program with MPI, a ghost-celled array and uneven bands of its own calls a network.   mpirun -n 4 c_host */
#include <correction.h>
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

enum { HEIGHT = 40, WIDTH = 60, CHANNELS = 3, LINE = WIDTH + 2 };

static void stop(const char* sentence) {
  fprintf(stderr, "%s\n", sentence);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  const int begin = rank * rank * HEIGHT / (ranks * ranks), end = (rank + 1) * (rank + 1) * HEIGHT / (ranks * ranks);
  const int rows = end - begin;

  halogen_setup setup = {.size = sizeof setup, .abi = HALOGEN_MODEL_ABI, .has_communicator = 1, .seed = 1};
  setup.communicator = MPI_Comm_c2f(MPI_COMM_WORLD);
  setup.extent[1] = HEIGHT, setup.begin[1] = begin, setup.end[1] = end; /* [0] is the samples: one */
  setup.extent[2] = WIDTH, setup.begin[2] = 0, setup.end[2] = WIDTH;
  correction_model* model = NULL;
  if (correction_create(&model, &setup) != HALOGEN_OK) stop(correction_error());
  /* correction_load(model, "weights.safetensors"); */

  /* (channel, row, column) with one ghost cell around each plane */
  const long plane = (rows + 2L) * LINE;
  double* state = calloc((size_t)(CHANNELS * plane), sizeof(double));
  double* change = calloc((size_t)(CHANNELS * rows * WIDTH), sizeof(double));
  for (int c = 0; c < CHANNELS; ++c)
    for (int y = 0; y < rows; ++y)
      for (int x = 0; x < WIDTH; ++x)
        state[c * plane + (y + 1) * LINE + x + 1] = (c + begin + y + x) % 7;
  const halogen_array in = {state + LINE + 1, HALOGEN_FLOAT64, 3, {CHANNELS, rows, WIDTH}, {plane, LINE, 1}};
  const halogen_array out = {change, HALOGEN_FLOAT64, 3, {CHANNELS, rows, WIDTH}, {rows * WIDTH, WIDTH, 1}};
  if (correction_infer(model, &in, 1, &out, 1, 0) != HALOGEN_OK) stop(correction_error());

  double sum = 0, total = 0;
  for (long i = 0; i < (long)CHANNELS * rows * WIDTH; ++i) sum += change[i] * change[i];
  MPI_Reduce(&sum, &total, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) printf("%d ranks: the sum of squares of the correction is %.9f\n", ranks, total);
  correction_destroy(model);
  free(state), free(change);
  return MPI_Finalize();
}
