#!/usr/bin/env python3
"""dev_refusals.py ROOT: where no GPU can be used, ./dev says why in one line and fails, before it builds anything.

Machines are played by an nvidia-smi, nvcc and libnccl that this script makes, or does not.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(sys.argv[1])
# (what nvidia-smi prints, None: there is none; is there an nvcc; further variables; arguments; the line)
CASES = [
    (None, True, {}, ["test", "--device"], "no GPU: nvidia-smi finds none; run this where an NVIDIA GPU"),
    (None, True, {}, ["bench", "--device", "device_unet_train"], "no GPU: nvidia-smi finds none"),
    ("8.9", True, {}, ["test", "--device"], "capability 8.9, the build is for 90: set HALOGEN_CUDA_ARCHITECTURE=89"),
    ("9.0\n10.0", True, {}, ["test", "--device"], "capability 10.0, the build is for 90"),
    ("9.0", False, {}, ["test", "--device"], "no nvcc: install the CUDA toolkit 13"),
    ("9.0", True, {}, ["test", "--device", "--sanitize"], "no compute-sanitizer: install"),
    ("9.0", True, {}, ["test", "--device", "--fast"], "knows --sanitize and names of tests, but not --fast"),
    ("9.0", True, {"HALOGEN_TRANSPORT": "nccl", "HALOGEN_NCCL_LIBRARY": "/none.so"}, ["test", "--device"],
     "NCCL 2.30 was not found (version code 0): install"),
]
KEPT = ["bash", "env", "nproc", "python3", "dirname", "grep", "sed", "g++", "cmake", "ninja", "ccache", "pkg-config",
        "mpicxx", "mpirun", "printf"]


def program(folder, name, prints=""):
    file = folder / name
    file.write_text(f"#!/bin/bash\necho '{prints}'\n")
    file.chmod(0o755)


def main():
    faults = 0
    for capabilities, nvcc, variables, arguments, expected in CASES:
        with tempfile.TemporaryDirectory() as made:
            folder = pathlib.Path(made)
            for name in KEPT:
                for place in os.environ["PATH"].split(":"):
                    if (found := pathlib.Path(place) / name).exists():
                        (folder / name).symlink_to(found)
                        break
            if capabilities is not None:
                program(folder, "nvidia-smi", capabilities)
            if nvcc:
                program(folder, "nvcc")
            left_out = ("CUDACXX", "HALOGEN_TRANSPORT", "HALOGEN_CUDA_ARCHITECTURE")
            environment = {k: v for k, v in os.environ.items() if k not in left_out}
            environment.update(variables, PATH=str(folder), HALOGEN_BUILD=str(folder / "build"))
            done = subprocess.run([str(ROOT / "dev"), *arguments], env=environment, capture_output=True, text=True)
            lines = done.stderr.strip().splitlines()
            if done.returncode == 0 or len(lines) != 1 or expected not in lines[0] or (folder / "build").exists():
                print(f"./dev {' '.join(arguments)} with {capabilities}: expected one line with '{expected}', it ended "
                      f"with {done.returncode} and: {done.stdout}{done.stderr}")
                faults += 1
    print(f"{len(CASES) - faults} of {len(CASES)} refusals are as they should be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
