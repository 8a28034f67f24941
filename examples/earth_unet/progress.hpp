// Tells on standard output how the training goes: a bar on a terminal, now and then a line elsewhere.
#pragma once

namespace earth {

enum class ProgressStyle { automatic, bar, lines };

// For one rank only; the others construct none.
class Progress {
 public:
  // `automatic` is a bar if standard output is a terminal of known width, else lines. MPI launchers hide the terminal
  // (Open MPI puts a pseudo-terminal of width 0 before a pipe or a file alike), so whoever starts one has to say.
  Progress(int steps, ProgressStyle style);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // After step `step` (1 is the first). A held-out ratio that is NaN was not measured: the last one known is shown.
  // Lines are printed for every tenth step, the first and the last.
  void show(int step, double loss, double held_out_ratio, double seconds_per_step);

 private:
  int steps_;
  bool bar_;
  double ratio_;
  bool behind_bar_ = false;  // where the cursor stands
};

}  // namespace earth
