#!/usr/bin/env python3
"""The array language beside hand-written MPI: host time of one operation on tiny pieces, and redistributions.

    array.py [--ranks N] [filter...]      a filter is a part of a name: op_overhead, redistribute_64K

Both sides run in one program, in turn, on the same ranks (one thread each). ratio = hand-written / Halogen, so that
above 1 Halogen is the faster; pairs: least and greatest ratio of one turn; allocations: by Kokkos, after the first turn.
"""

import argparse
import os
import pathlib
import subprocess
import sys

NAMES = ("op_overhead_pointwise", "op_overhead_stencil", "op_overhead_sum", "redistribute_4K", "redistribute_64K",
         "redistribute_1M", "redistribute_16M", "redistribute_64M")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--ranks", type=int, default=2)
    parser.add_argument("filters", nargs="*")
    options, _ = parser.parse_known_args()
    if options.filters and not any(text in name for text in options.filters for name in NAMES):
        return 0  # another program's names
    program = pathlib.Path(os.environ.get("HALOGEN_BUILD_DIRECTORY", ".")) / "bench" / "bench_array"
    if not program.exists():
        print("bench: array was not built (no MPI)", file=sys.stderr)
        return 0
    environment = dict(os.environ, OMP_NUM_THREADS="1")
    return subprocess.run(["mpirun", "-n", str(options.ranks), str(program), *options.filters],
                          env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
