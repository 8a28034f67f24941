#!/usr/bin/env python3
"""What compiling one file takes, by each compiler there is: chains of 1 to 16 layers, and the U-Net.

    measure.py --build build/host [NAME...]      compile_chain_1, 2, 4, 8, 16, compile_unet; all of them without one

A line of JSON for each name and compiler: seconds, peak_mib of the compiler, object_kib, functions (of Halogen in the
object), longest_symbol (characters), and by clang++ instantiations (of functions and classes, by -ftime-trace).
Optimised by -O2; nvcc, where there is one and scripts/kokkos cuda has been built, compiles the U-Net alone.
"""

import argparse
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
DEPTHS = (1, 2, 4, 8, 16)
NAMES = {**{f"compile_chain_{depth}": ("chain.cpp", depth) for depth in DEPTHS}, "compile_unet": ("unet.cpp", 0)}


def flags(build, language="CXX"):
    """Of a target that links halogen::halogen, as tests/house writes them when CMake configures."""
    lines = pathlib.Path(build, "tests", "house", f"flags.{language}.txt").read_text().split("\n")
    return [line for line in lines if line not in ("", "-I", "-D", "-I/usr/include")]


def command(compiler, name, flags_of_build, target, *options):
    source, depth = NAMES[name]
    depths = [f"-DDEPTH={depth}"] if depth else []
    return [*compiler, "-std=c++20", *options, *flags_of_build, *depths, "-c", str(HERE / source), "-o", str(target)]


def run(words):
    """(seconds, MiB of the largest process) of a compiler that must succeed."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status != 0:
            output.seek(0)
            raise SystemExit(f"{' '.join(words)}\n{output.read()[-2000:]}")
    return time.perf_counter() - begin, usage.ru_maxrss / 1024


def functions(target):
    """(functions of Halogen defined in the object, characters of the longest symbol)."""
    lines = subprocess.run(["nm", "--defined-only", str(target)], capture_output=True, text=True, check=True).stdout
    symbols = re.findall(r"^[0-9a-f]+ ([A-Za-z]) (\S+)", lines, re.MULTILINE)
    own = [symbol for kind, symbol in symbols if kind in "tTwW" and "7halogen" in symbol]
    return len(own), max(len(symbol) for _, symbol in symbols)


def instantiations(trace):
    events = json.loads(pathlib.Path(trace).read_text())["traceEvents"]
    return sum(event["name"] in ("InstantiateFunction", "InstantiateClass") for event in events)


def record(name, compiler, seconds, peak, target):
    count, longest = functions(target)
    return {"name": name, "compiler": compiler, "seconds": seconds, "peak_mib": peak,
            "object_kib": target.stat().st_size / 1024, "functions": count, "longest_symbol": longest}


def by_host_compilers(name, build, folder):
    own = next(c for c in (os.environ.get("CXX"), "g++", "c++") if c and shutil.which(c))
    target = folder / "object.o"
    used = flags(build)
    seconds, peak = run(command([own, "-fopenmp"], name, used, target, "-O2"))
    yield record(name, pathlib.Path(own).name, seconds, peak, target)
    if shutil.which("clang++") and own != "clang++":
        quiet = ["-fopenmp", "-Wno-everything"]
        seconds, peak = run(command(["clang++", *quiet], name, used, target, "-O2"))
        line = record(name, "clang++", seconds, peak, target)
        run(command(["clang++", *quiet], name, used, target, "-O0", "-ftime-trace", "-ftime-trace-granularity=0"))
        yield {**line, "instantiations": instantiations(target.with_suffix(".json"))}


def by_nvcc(name, build, folder):
    used = pathlib.Path(build).parent / "cuda"
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc")
    if not nvcc or not (used / "tests/house/flags.CUDA.txt").exists():
        return
    options = ["-O2", "-x", "cu", "--expt-relaxed-constexpr", "-extended-lambda", "-arch=sm_90", "-Xcompiler=-fopenmp"]
    target = folder / "object.o"
    seconds, peak = run(command([nvcc], name, flags(used, "CUDA"), target, *options))
    yield record(name, "nvcc", seconds, peak, target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    for name in options.names or NAMES:
        if name not in NAMES:
            raise SystemExit(f"measure: there is no '{name}', but {' '.join(NAMES)}")
        with tempfile.TemporaryDirectory() as folder:
            lines = list(by_host_compilers(name, options.build, pathlib.Path(folder)))
            if name == "compile_unet":
                lines += by_nvcc(name, options.build, pathlib.Path(folder))
        for line in lines:
            print(json.dumps(line), flush=True)


if __name__ == "__main__":
    sys.exit(main())
