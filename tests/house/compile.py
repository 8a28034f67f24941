#!/usr/bin/env python3
"""Compiles sources without linking them: that they compile, that they are refused, that headers stand alone.

compile.py --compiler CXX --flags FILE [--ccache PROGRAM] accept SOURCE...   each compiles
compile.py ...                                            refuse SOURCE...   each compiles, but with -DREFUSE it fails
                                                                             and says every `// expect: TEXT` literally
compile.py ...                                            alone DIRECTORY    each header below it compiles alone, those
                                                                             that include Kokkos behind a precompiled one
compile.py ...                                            precompile FOLDER  FOLDER holds halogen.hpp, compiled once:
                                                                             with --precompiled FOLDER sources that
                                                                             include it are read in a fraction of time
compile.py --compiler nvcc ...                            stacks SOURCE...   no kernel takes more stack than a few spilled
                                                                             registers: one that copies its arguments
                                                                             there (an address taken is enough) does;
                                                                             and nvcc keeps to its memory: each look into a
                                                                             constexpr plan would cost it a copy
"""
import argparse
import concurrent.futures
import functools
import hashlib
import os
import pathlib
import re
import resource
import subprocess
import sys
import tempfile

LONGEST_REFUSAL = 40  # lines of compiler output
LARGEST_STACK = 400  # bytes of a thread of a device
LARGEST_NVCC = 2.0  # GB for one small network
WHOLE = "#include <halogen/halogen.hpp>\n"
KOKKOS = "Kokkos_Core.hpp"


class Compiler:
    def __init__(self, program, flags, ccache, precompiled="", passed=""):
        self.passed = passed
        self.is_nvcc = pathlib.Path(program).name.startswith("nvcc")
        self.is_clang = not self.is_nvcc and "clang" in pathlib.Path(program).name
        self.ccache = [ccache] if ccache and not ccache.endswith("NOTFOUND") else []
        self.command = [program, "-std=c++20"]
        if flags:
            lines = pathlib.Path(flags).read_text().split("\n")
            self.command += [line for line in lines if self.is_wanted(line)]
        if self.is_nvcc:
            self.command += ["-x", "cu", "--expt-relaxed-constexpr", "-extended-lambda", "-arch=sm_90"]
            self.command += ["-Xcompiler=-fopenmp"]
        else:
            self.command += ["-fopenmp"]
        if self.is_clang:
            self.command += ["-Wno-unused-command-line-argument"]
        self.precompiled = pathlib.Path(precompiled) / "everything.hpp" if precompiled else None

    def first(self, header):
        """Options that read a precompiled header before the source."""
        return ["-include-pch", str(self.object_of(header))] if self.is_clang else ["-include", str(header)]

    def object_of(self, header):
        return header.with_suffix(".pch") if self.is_clang else header.with_suffix(".hpp.gch")

    @staticmethod
    def is_wanted(flag):
        return flag not in ("", "-I", "-D", "-I/usr/include")

    def run(self, source, *extra, cached=False):
        """(exit status, output). With cached, ccache answers for an unchanged source: it needs a real object."""
        if self.precompiled and WHOLE in pathlib.Path(source).read_text():
            return self.call(self.command + ["-fsyntax-only", *self.first(self.precompiled)], source, extra, False)
        if not cached:
            return self.call(self.command + ["-fsyntax-only"] * (not self.is_nvcc), source, extra, self.is_nvcc)
        return self.call(self.ccache + self.command + ["-O0"], source, extra, True)

    @staticmethod
    def call(command, source, extra, makes_object):
        source = pathlib.Path(source)  # named without its folder: ccache then knows it in another one too
        with tempfile.TemporaryDirectory() as folder:
            tail = ["-c", source.name] + (["-o", os.path.join(folder, "object.o")] if makes_object else [])
            done = subprocess.run(command + list(extra) + tail, cwd=source.parent, stdout=subprocess.PIPE,
                                  stderr=subprocess.STDOUT, text=True, errors="replace")
        return done.returncode, done.stdout


def accept(compiler, source):
    status, output = compiler.run(source, cached=True)
    return [] if status == 0 else [f"{source}: does not compile\n{output}"]


def refuse(compiler, source):
    expected = re.findall(r"^// expect: *(.*?) *$", pathlib.Path(source).read_text(), re.MULTILINE)
    if not expected:
        return [f"{source}: has no line `// expect: why::...`"]
    status, output = compiler.run(source, cached=True)
    if status != 0:
        return [f"{source}: the control (without -DREFUSE) does not compile\n{output}"]
    status, output = compiler.run(source, "-DREFUSE")
    if status == 0:
        return [f"{source}: compiles with -DREFUSE"]
    faults = []
    for text in expected:
        if text not in output:
            faults.append(f"{source}: the refusal does not say `{text}`")
    lines = len(output.splitlines())
    if lines > LONGEST_REFUSAL:
        faults.append(f"{source}: the refusal is {lines} lines long, more than {LONGEST_REFUSAL}")
    return faults + ([output] if faults else [])


def stacks(compiler, source):
    status, output = compiler.call(compiler.command + ["-O1", "-Xptxas=-v"], source, (), True)
    if status != 0:
        return [f"{source}: does not compile\n{output}"]
    found = re.findall(r"Function properties for (\S+)\s+(\d+) bytes stack frame", output)
    if not any("Convolution" in name for name, _ in found):
        return [f"{source}: ptxas says nothing of a convolution's stack\n{output}"]
    faults = [f"{name} has a stack of {size} bytes, more than {LARGEST_STACK}" for name, size in found
              if int(size) > LARGEST_STACK]
    gigabytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1e6
    if gigabytes > LARGEST_NVCC:
        faults.append(f"{source}: nvcc took {gigabytes:.1f} GB, more than {LARGEST_NVCC}")
    return faults


def alone(compiler, directory):
    """Every header twice over: alone, and a second time in one source (its include guard)."""
    root = pathlib.Path(directory).parent
    passed = pathlib.Path(compiler.passed) if compiler.passed else None
    known = set(passed.read_text().split()) if passed and passed.exists() else set()

    @functools.cache
    def reached(name):
        """What a header includes, in the end: ours, and others by name."""
        found = re.findall(r'^#include [<"](.*)[>"]', (root / name).read_text(), re.MULTILINE)
        return {name}.union(*(reached(other) if (root / other).exists() else {other} for other in found))

    def key(name):
        texts = [(root / other).read_text() for other in sorted(reached(name)) if (root / other).exists()]
        return hashlib.sha256("\0".join([name, *compiler.command, *texts]).encode()).hexdigest()

    names = [header.relative_to(root).as_posix() for header in sorted(pathlib.Path(directory).rglob("*.hpp"))]
    names = [name for name in names if key(name) not in known]
    with tempfile.TemporaryDirectory() as folder:
        kokkos = pathlib.Path(folder, "kokkos.hpp")
        faults = precompiled(compiler, kokkos, f"#include <{KOKKOS}>\n") if names else []

        def check(name):
            source = pathlib.Path(folder, name.replace("/", "__") + ".cpp")
            source.write_text(f"#include <{name}>\n#include <{name}>\n")
            first = compiler.first(kokkos) if KOKKOS in reached(name) else []
            status, output = compiler.call(compiler.command + ["-fsyntax-only", *first], source, (), False)
            if status != 0:
                return [f"{name}: does not compile\n{output}"]
            known.add(key(name))
            return []

        faults += in_parallel(lambda _, name: check(name), compiler, names)
    if passed:
        passed.write_text("\n".join(sorted(known)))
    return faults


def precompile(compiler, folder):
    return precompiled(compiler, pathlib.Path(folder).absolute() / "everything.hpp", WHOLE)


def precompiled(compiler, header, text):
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(text)
    status, output = compiler.call(compiler.command + ["-x", "c++-header", "-o", str(compiler.object_of(header))], header,
                                   (), False)
    return [output] if status != 0 else []


def in_parallel(check, compiler, sources):
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return [fault for faults in pool.map(lambda source: check(compiler, source), sources) for fault in faults]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", default="")
    parser.add_argument("--ccache", default="")
    parser.add_argument("--passed", default="", help="alone: file of what passed, which is not compiled again")
    parser.add_argument("--precompiled", default="", help="folder of a `precompile` with the same compiler")
    parser.add_argument("check", choices=["accept", "refuse", "alone", "precompile", "stacks"])
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    compiler = Compiler(arguments.compiler, arguments.flags, arguments.ccache, arguments.precompiled, arguments.passed)
    if arguments.check in ("alone", "precompile"):
        check = {"alone": alone, "precompile": precompile}[arguments.check]
        faults = [fault for path in arguments.paths for fault in check(compiler, path)]
    else:
        faults = in_parallel({"accept": accept, "refuse": refuse, "stacks": stacks}[arguments.check], compiler, arguments.paths)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
