#!/usr/bin/env python3
"""dev_refusals.py ROOT: where no GPU can be used, or an argument or a variable has no sense, ./dev says why in one line
and fails, before it builds anything.

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
    *[(None, False, {}, arguments, line) for arguments, line in [
        (["fuzz", "--cases", "abc"], "--cases is 'abc': give a whole number of 1 or more"),
        (["fuzz", "--cases", "0"], "--cases is '0': give a whole number of 1 or more"),
        (["fuzz", "--seed", "-1"], "--seed is '-1': give a whole number"),
        (["fuzz", "--ranks", "1 x"], "--ranks is 'x': give a whole number of 1 or more"),
        (["fuzz", "--ranks", ""], "--ranks is '': give numbers of ranks, as '1 2 4'"),
        (["fuzz", "--extents", "3y1"], "--extents is '3y1': give numbers of points, as 3x1"),
        (["fuzz", "--program", "p"], "--program is 'p': give a whole number"),
        (["fuzz", "layers", "--models", "many"], "--models is 'many': give a whole number"),
        (["fuzz", "files", "--library", "yes"], "--library is 'yes': give a whole number"),
        (["fuzz", "files", "--case"], "--case needs a value"),
        (["format", "--chekc"], "format takes no such argument: '--chekc'"),
        (["test", "--devise"], "test takes --device, --emulated or --cuda first, and the arguments of CTest ('ctest --help'), but "),
        (["test", "-R", "mpi.windows", "--device"], "there is no --device"),
        (["clean", "cache"], "clean takes no such argument: 'cache'"),
        (["mutate", "unit.nothing"], "there is no mistake, room or test 'unit.nothing' in tests/mutations/table.py"),
        (["mutate", "--all"], "mutate takes names of mistakes, rooms and tests, but not --all"),
        (["docs", "html"], "docs takes no such argument: 'html'"),
        (["demo", "earth"], "there is no example 'earth', but there are: 00_first_page"),
        (["bench", "nothing_of_that_name"], "nothing_of_that_name"),
        (["bench", "--threads", "1,two"], "--threads is '1,two': give numbers of 1 or more"),
        (["bench", "--pairs", "0"], "--pairs is 0: give 1 or more"),
        (["bench", "--pairs", "few"], "argument --pairs: invalid int value: 'few'; see ./dev bench --help"),
        (["bench", "--settings", "fast"], "--settings is 'fast': give some of contiguous,"),
    ]],
    *[(None, False, {name: value}, ["test"], line) for name, value, line in [
        ("HALOGEN_PRESET", "hots", "HALOGEN_PRESET is 'hots': give host, header-only or host-debug"),
        ("HALOGEN_JOBS", "all", "HALOGEN_JOBS is 'all': give a whole number of 1 or more"),
        ("HALOGEN_CUDA_BEFORE", "soon", "HALOGEN_CUDA_BEFORE is 'soon': give a whole number"),
        ("HALOGEN_CUDA_ARCHITECTURE", "sm_90", "HALOGEN_CUDA_ARCHITECTURE is 'sm_90': give the compute capability"),
        ("HALOGEN_CACHE", "/dev/null/x", "HALOGEN_CACHE is '/dev/null/x', but '/dev/null' is no folder"),
        ("HALOGEN_BUILD", "/dev/null/x", "HALOGEN_BUILD is '/dev/null/x', but '/dev/null' is no folder"),
        ("TMPDIR", "/no/such/folder", "TMPDIR is '/no/such/folder', which is no folder that can be written"),
    ]],
]
# What its scripts say when they are called alone: (further variables, arguments, the line).
SCRIPTS = [
    ({}, ["scripts/kokkos", "hots"], "there is no kind 'hots' of Kokkos: give host or cuda"),
    ({"CXX": "/no/compiler"}, ["scripts/kokkos", "host"], "CXX is '/no/compiler', which cannot be run: name a C++20"),
    ({"CUDACXX": "/no/nvcc"}, ["scripts/kokkos", "cuda"], "CUDACXX is '/no/nvcc', which cannot be run: name the nvcc"),
    ({}, ["scripts/kokkos", "cuda", "91"], "has no architecture 91: give 80,"),
    ({"HALOGEN_CACHE": "/dev/null/x"}, ["scripts/kokkos", "host"], "'/dev/null/x' cannot be made or written: name"),
    ({"HALOGEN_CACHE": "/dev/null/x"}, ["scripts/data"], "'/dev/null/x/data' cannot be made or written: name another"),
    ({}, ["scripts/plot_losses", "run.jsonl"], "give the file of metrics and that of the picture"),
    ({}, ["scripts/plot_losses", "/none.jsonl", "loss.svg"], "'/none.jsonl' cannot be read: give the file that hg::fit"),
    ({}, ["scripts/plot_losses", "dev", "loss.svg"], "'dev' has a line that is no report of an epoch: give the file"),
    ({}, ["scripts/mutate"], "give the repository's folder and the build's, as in ./dev mutate"),
    ({}, ["bench/run/breadth.py"], "give the build's folder, as build/host"),
    ({}, ["bench/run/breadth.py", "/none"], "'/none' has no tests/table_layers: run ./dev bench breadth"),
]
KEPT = ["bash", "env", "nproc", "python3", "dirname", "grep", "sed", "tr", "mkdir", "g++", "cmake", "ctest", "ninja", "ccache", "pkg-config",
        "mpicxx", "mpirun", "printf"]


def program(folder, name, prints=""):
    file = folder / name
    file.write_text(f"#!/bin/bash\necho '{prints}'\n")
    file.chmod(0o755)


def own_environment():
    left_out = ("CUDACXX", "HALOGEN_TRANSPORT", "HALOGEN_CUDA_ARCHITECTURE", "HALOGEN_PRESET", "HALOGEN_JOBS")
    return {k: v for k, v in os.environ.items() if k not in left_out}


def refused(command, environment, expected):
    """Nothing where the command fails with one line that has these words, else what it did."""
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    lines = done.stderr.strip().splitlines()
    if done.returncode != 0 and len(lines) == 1 and expected in lines[0]:
        return ""
    return (f"{' '.join(command)}: expected one line with '{expected}', it ended with {done.returncode} and: "
            f"{done.stdout}{done.stderr}")


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
            environment = own_environment() | {"PATH": str(folder), "HALOGEN_BUILD": str(folder / "build")} | variables
            fault = refused(["./dev", *arguments], environment, expected)
            if fault or (folder / "build").exists():
                print(f"with GPUs {capabilities}: {fault or 'it built something'}")
                faults += 1
    for variables, arguments, expected in SCRIPTS:
        if arguments[0].endswith(".py"):
            arguments = [sys.executable, *arguments]
        if fault := refused(arguments, own_environment() | variables, expected):
            print(fault)
            faults += 1
    count = len(CASES) + len(SCRIPTS)
    print(f"{count - faults} of {count} refusals are as they should be")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
