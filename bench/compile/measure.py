#!/usr/bin/env python3
"""What compiling one file takes, by each compiler there is, with halogen::compiled and header-only.

    measure.py --build build/host [NAME...]   compile_hello, compile_chain_1, 2, 4, 8, 16, compile_unet, compile_block,
                                              compile_change;
                                              all of them without a name
    measure.py --build build/host --plot FILE.svg   seconds over the depth of the chain, by the first compiler

A line of JSON for each name, compiler and library (compiled, headers): seconds, cpu_seconds, peak_mib of the compiler,
object_kib, functions (of Halogen in the object), longest_symbol (characters), and by clang++ instantiations (of
functions and classes, by -ftime-trace). compile_change compiles and links a project of two files in which one layer has
changed. Optimised by -O2, compile_block by -O1; nvcc, where there is one and scripts/kokkos cuda has been built,
compiles the U-Net alone.
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
NAMES = {"compile_hello": ("hello.cpp", []),
         **{f"compile_chain_{depth}": ("chain.cpp", [f"-DDEPTH={depth}"]) for depth in DEPTHS},
         "compile_unet": ("unet.cpp", []), "compile_block": ("block.cpp", ["-O1"]),
         "compile_change": ("project_model.cpp", ["-DWIDTH=24"])}
LIBRARIES = {"compiled": ["-DHALOGEN_COMPILED=1"], "headers": []}


def flags(build, language="CXX"):
    """Of a target that links halogen::halogen, as tests/house writes them when CMake configures."""
    lines = pathlib.Path(build, "tests", "house", f"flags.{language}.txt").read_text().split("\n")
    return [line for line in lines if line not in ("", "-I", "-D", "-I/usr/include")]


def command(compiler, name, flags_of_build, target, *options):
    source, definitions = NAMES[name]
    return [*compiler, "-std=c++20", *options, *flags_of_build, *definitions, "-c", str(HERE / source), "-o", str(target)]


def run(words):
    """(seconds, CPU seconds, MiB of the largest process) of a compiler that must succeed."""
    begin = time.perf_counter()
    with tempfile.TemporaryFile("w+") as output:
        process = subprocess.Popen(words, stdout=output, stderr=subprocess.STDOUT)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = status
        if status != 0:
            output.seek(0)
            raise SystemExit(f"{' '.join(words)}\n{output.read()[-2000:]}")
    return time.perf_counter() - begin, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def functions(target):
    """(functions of Halogen defined in the object, characters of the longest symbol)."""
    lines = subprocess.run(["nm", "--defined-only", str(target)], capture_output=True, text=True, check=True).stdout
    symbols = re.findall(r"^[0-9a-f]+ ([A-Za-z]) (\S+)", lines, re.MULTILINE)
    own = [symbol for kind, symbol in symbols if kind in "tTwW" and "7halogen" in symbol]
    return len(own), max(len(symbol) for _, symbol in symbols)


def instantiations(trace):
    events = json.loads(pathlib.Path(trace).read_text())["traceEvents"]
    return sum(event["name"] in ("InstantiateFunction", "InstantiateClass") for event in events)


def record(name, compiler, library, taken, target):
    count, longest = functions(target)
    seconds, cpu_seconds, peak = taken
    return {"name": name, "compiler": compiler, "library": library, "seconds": seconds, "cpu_seconds": cpu_seconds,
            "peak_mib": peak, "object_kib": target.stat().st_size / 1024, "functions": count, "longest_symbol": longest}


def own_compiler():
    return next(c for c in (os.environ.get("CXX"), "g++", "c++") if c and shutil.which(c))


def architecture(build):
    """The options that Kokkos gives to whoever links it, such as -march=native. Without them no program links the library."""
    commands = pathlib.Path(build, "compile_commands.json").read_text()
    return sorted(set(re.findall(r"(?<= )-m(?:arch|tune)=[^ \"]+", commands)))


def linked(build, library, target, other):
    """What linking two objects takes: (seconds, CPU seconds, MiB)."""
    cache = pathlib.Path(build, "CMakeCache.txt").read_text()
    kokkos = pathlib.Path(re.search(r"^Kokkos_DIR:\w+=(.*)$", cache, re.MULTILINE)[1]).parent.parent
    halogen = [str(pathlib.Path(build, "libhalogen_compiled.a"))] if library == "compiled" else []
    mpi = subprocess.run(["mpicxx", "--showme:link"], capture_output=True, text=True).stdout.split()
    return run([own_compiler(), "-fopenmp", str(target), str(other), *halogen, str(kokkos / "libkokkoscore.a"), *mpi,
                "-ldl", "-lpthread", "-o", str(target.with_suffix(".program"))])


def by_host_compilers(name, build, folder):
    own = own_compiler()
    target, used = folder / "object.o", flags(build) + architecture(build)
    for library, definitions in LIBRARIES.items():
        taken = run(command([own, "-fopenmp"], name, used, target, "-O2", *definitions))
        if name == "compile_change":
            other = folder / "main.o"
            run([own, "-c", str(HERE / "project_main.cpp"), "-o", str(other)])
            more = linked(build, library, target, other)
            taken = taken[0] + more[0], taken[1] + more[1], max(taken[2], more[2])
        yield record(name, pathlib.Path(own).name, library, taken, target)
        if shutil.which("clang++") and own != "clang++" and name != "compile_change":
            quiet = ["-fopenmp", "-Wno-everything", *definitions]
            line = record(name, "clang++", library, run(command(["clang++", *quiet], name, used, target, "-O2")), target)
            run(command(["clang++", *quiet], name, used, target, "-O0", "-ftime-trace", "-ftime-trace-granularity=0"))
            yield {**line, "instantiations": instantiations(target.with_suffix(".json"))}


def by_nvcc(name, build, folder):
    used = pathlib.Path(build).parent / "cuda"
    nvcc = os.environ.get("CUDACXX") or shutil.which("nvcc")
    if not nvcc or not (used / "tests/house/flags.CUDA.txt").exists():
        return
    options = ["-O2", "-x", "cu", "--expt-relaxed-constexpr", "-extended-lambda", "-arch=sm_90", "-Xcompiler=-fopenmp"]
    target = folder / "object.o"
    for library, definitions in LIBRARIES.items():
        taken = run(command([nvcc], name, flags(used, "CUDA"), target, *options, *definitions))
        yield record(name, "nvcc", library, taken, target)


def plot(build, file):
    """An SVG of CPU seconds over the depth of the chain, a line for each library."""
    own, used, width, height = own_compiler(), flags(build), 480, 320
    lines = {}
    with tempfile.TemporaryDirectory() as folder:
        for library, definitions in LIBRARIES.items():
            for depth in DEPTHS:
                words = command([own, "-fopenmp"], f"compile_chain_{depth}", used, pathlib.Path(folder, "o.o"), "-O2",
                                *definitions)
                lines.setdefault(library, []).append((depth, run(words)[1]))
    most = max(seconds for points in lines.values() for _, seconds in points) * 1.1
    place = lambda depth, seconds: (50 + depth / DEPTHS[-1] * (width - 90), height - 40 - seconds / most * (height - 70))
    text = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="12">',
            f'<rect width="{width}" height="{height}" fill="white"/>',
            f'<text x="{width / 2}" y="16" text-anchor="middle">Compiling a chain: CPU seconds, {own} -O2</text>',
            f'<text x="{width / 2}" y="{height - 6}" text-anchor="middle">layers of convolution, norm and ReLU</text>']
    for mark in range(0, int(most) + 1, max(1, int(most / 5))):
        x, y = place(0, mark)
        text.append(f'<path d="M{x} {y}H{width - 40}" stroke="#ddd"/><text x="{x - 8}" y="{y + 4}" text-anchor="end">{mark}</text>')
    for depth in DEPTHS:
        text.append(f'<text x="{place(depth, 0)[0]}" y="{height - 24}" text-anchor="middle">{depth}</text>')
    for (library, points), colour in zip(lines.items(), ("#0072b2", "#d55e00")):
        where = [place(*point) for point in points]
        text.append(f'<polyline points="{" ".join(f"{x:.1f},{y:.1f}" for x, y in where)}" fill="none" stroke="{colour}" stroke-width="2"/>')
        text.append(f'<text x="{where[-1][0]}" y="{where[-1][1] - 8:.1f}" text-anchor="end" fill="{colour}">{library}</text>')
    pathlib.Path(file).write_text("\n".join([*text, "</svg>", ""]))
    print(json.dumps({library: dict(points) for library, points in lines.items()}))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", required=True)
    parser.add_argument("--plot")
    parser.add_argument("names", nargs="*")
    options = parser.parse_args()
    if options.plot:
        return plot(options.build, options.plot)
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
