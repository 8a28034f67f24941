#!/usr/bin/env python3
"""Compiles sources without linking them: that they compile, that they are refused, that headers stand alone.

compile.py --compiler CXX --flags FILE [--ccache PROGRAM] accept SOURCE...   each compiles
compile.py ...                                            refuse SOURCE...   each compiles, but with -DREFUSE it fails
                                                                             and says every `// expect: TEXT` literally
compile.py ...                                            alone DIRECTORY    each header below it compiles alone
compile.py ...                                            precompile FOLDER  FOLDER holds halogen.hpp, compiled once:
                                                                             with --precompiled FOLDER sources that
                                                                             include it are read in a fraction of time
"""
import argparse
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

LONGEST_REFUSAL = 40  # lines of compiler output
WHOLE = "#include <halogen/halogen.hpp>\n"


class Compiler:
    def __init__(self, program, flags, ccache, precompiled=""):
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

    def object_of(self, header):
        return header.with_suffix(".pch") if self.is_clang else header.with_suffix(".hpp.gch")

    @staticmethod
    def is_wanted(flag):
        return flag not in ("", "-I", "-D", "-I/usr/include")

    def run(self, source, *extra, cached=False):
        """(exit status, output). With cached, ccache answers for an unchanged source: it needs a real object."""
        if self.precompiled and WHOLE in pathlib.Path(source).read_text():
            first = ["-include-pch", self.object_of(self.precompiled)] if self.is_clang else ["-include", self.precompiled]
            return self.call(self.command + ["-fsyntax-only", *map(str, first)], source, extra, False)
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


def alone(compiler, directory):
    """Every header twice over: alone, and a second time in one source (its include guard)."""
    root = pathlib.Path(directory).parent
    with tempfile.TemporaryDirectory() as folder:
        sources = []
        for header in sorted(pathlib.Path(directory).rglob("*.hpp")):
            name = header.relative_to(root).as_posix()
            source = pathlib.Path(folder, name.replace("/", "__") + ".cpp")
            source.write_text(f"#include <{name}>\n#include <{name}>\n")
            sources.append(source)
        return in_parallel(accept, compiler, sources)


def precompile(compiler, folder):
    header = pathlib.Path(folder).absolute() / "everything.hpp"
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(WHOLE)
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
    parser.add_argument("--precompiled", default="", help="folder of a `precompile` with the same compiler")
    parser.add_argument("check", choices=["accept", "refuse", "alone", "precompile"])
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    compiler = Compiler(arguments.compiler, arguments.flags, arguments.ccache, arguments.precompiled)
    if arguments.check in ("alone", "precompile"):
        check = {"alone": alone, "precompile": precompile}[arguments.check]
        faults = [fault for path in arguments.paths for fault in check(compiler, path)]
    else:
        faults = in_parallel({"accept": accept, "refuse": refuse}[arguments.check], compiler, arguments.paths)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
