#!/usr/bin/env python3
"""Compiles sources without linking them: that they compile, that they are refused, that headers stand alone.

compile.py --compiler CXX --flags FILE [--ccache PROGRAM] accept SOURCE...   each compiles
compile.py ...                                            refuse SOURCE...   with -DREFUSE each fails, and says every
                                                                             `// expect: TEXT` literally, the first in
                                                                             the first error (clang: or note)
compile.py ...                                            controls SOURCE... without it all compile: as one source, each in
                                                                             a namespace of its own
compile.py ...                                            alone DIRECTORY    each header below it compiles alone, or behind
                                                                             others that it includes
compile.py ...                                            precompile FOLDER  FOLDER holds two umbrellas, compiled once:
                                                                             with --precompiled FOLDER sources that
                                                                             include one are read in a fraction of time
compile.py --compiler nvcc ...                            stacks SOURCE...   no kernel takes more stack than a few spilled
                                                                             registers: one that copies its arguments
                                                                             there (an address taken is enough) does;
                                                                             and nvcc keeps to its memory: each look into a
                                                                             constexpr plan would cost it a copy
With --passed FOLDER what passed there is not compiled again: the same text, of ours that it includes too, with the same
compiler and flags.
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
FIRST_TAG = {"g++": 1, "clang": 2}  # its message, of errors and notes: clang's error names the call, its first note the tag
LARGEST_STACK = 400  # bytes of a thread of a device
LARGEST_NVCC = 2.6  # GB for one small network; it took 2.4 on 2026-11-28
UMBRELLAS = ("halogen/halogen.hpp", "halogen/array_language.hpp")  # those that are precompiled
KOKKOS = "Kokkos_Core.hpp"
INCLUDE = pathlib.Path(__file__).resolve().parent.parent.parent / "include"


@functools.cache
def reached(path):
    """What a file includes, in the end: names, and of what is ours the paths, itself too."""
    names = re.findall(r'^#include [<"](.*)[>"]', path.read_text(), re.MULTILINE)
    found = {folder / name for name in names for folder in (path.parent, INCLUDE) if (folder / name).exists()}
    return {path}.union(names, *(reached(file) for file in found))


def ours(path):
    return sorted(file for file in reached(path) if isinstance(file, pathlib.Path))


class Compiler:
    def __init__(self, program, flags, ccache, precompiled="", passed=""):
        self.passed = pathlib.Path(passed) if passed else None
        self.is_nvcc = pathlib.Path(program).name.startswith("nvcc")
        self.is_clang = not self.is_nvcc and "clang" in pathlib.Path(program).name
        self.kind = "nvcc" if self.is_nvcc else "clang" if self.is_clang else "g++"
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
        if self.kind == "g++":
            self.command += ["-Wno-psabi"]  # as the library's target asks
        self.precompiled = pathlib.Path(precompiled) if precompiled else None

    @functools.cached_property
    def version(self):
        return subprocess.run([self.command[0], "--version"], stdout=subprocess.PIPE, text=True).stdout

    def key(self, check, path, *more):
        """Of all that the outcome of a check depends on."""
        files = [pathlib.Path(__file__), *ours(path)]
        texts = [check, path.name, self.version, *self.command, *(file.read_text() for file in files), *more]
        return hashlib.sha256("\0".join(texts).encode()).hexdigest()

    @functools.cache
    def mark(self, check, path):
        """The file that stands where this check has passed."""
        return self.passed / self.key(check.__name__, pathlib.Path(path).absolute()) if self.passed else None

    def has_passed(self, check, path):
        return self.passed is not None and self.mark(check, path).exists()

    def once(self, check, path):
        """check(self, path), unless it has passed before."""
        if self.has_passed(check, path):
            print(f"{path}: unchanged since it passed")
            return []
        faults = check(self, path)
        if not faults:
            self.note(check, path)
        return faults

    def note(self, check, path):
        """That it has passed."""
        if self.passed:
            self.passed.mkdir(parents=True, exist_ok=True)
            self.mark(check, path).touch()

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
        for umbrella in UMBRELLAS if self.precompiled else ():
            if f"#include <{umbrella}>\n" in pathlib.Path(source).read_text():
                first = self.first(self.precompiled / pathlib.Path(umbrella).name)
                return self.call(self.command + ["-fsyntax-only", *first], source, extra, False)
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


def position(text, output):
    """Which error or note is the first to say it, from 1. What only tells the way there does not count."""
    messages = re.findall(r": (?:fatal )?(?:error|note): (?!in instantiation of |while ).*", output)
    return next((number for number, message in enumerate(messages, 1) if text in message), len(messages) + 1)


def refuse(compiler, source):
    expected = re.findall(r"^// expect: *(.*?) *$", pathlib.Path(source).read_text(), re.MULTILINE)
    if not expected:
        return [f"{source}: has no line `// expect: why::...`"]
    status, output = compiler.run(source, "-DREFUSE")
    if status == 0:
        return [f"{source}: compiles with -DREFUSE"]
    output = output.replace(pathlib.Path(source).name, "FILE")  # some are named as the tag
    faults = []
    for text in expected:
        if text not in output:
            faults.append(f"{source}: the refusal does not say `{text}`")
    found, latest = position(expected[0], output), FIRST_TAG.get(compiler.kind)
    if not faults and latest and found > latest:
        faults.append(f"{source}: `{expected[0]}` stands in message {found} of the refusal, later than in {latest}")
    lines = len(output.splitlines())
    if lines > LONGEST_REFUSAL:
        faults.append(f"{source}: the refusal is {lines} lines long, more than {LONGEST_REFUSAL}")
    return faults + ([output] if faults else [])


def controls(compiler, sources):
    """The sources of refuse without -DREFUSE. Together they take a sixth of the time that they take one by one."""
    changed = [source for source in map(pathlib.Path, sources) if not compiler.has_passed(controls, source)]
    print(f"{len(changed)} of {len(sources)} controls have changed")
    if not changed:
        return []
    include = re.compile("^#include .*$", re.MULTILINE)
    lines = {line: None for source in changed for line in include.findall(source.read_text())}
    for source in changed:
        lines[f'namespace control_{source.stem} {{\n#line 1 "{source}"\n{include.sub("", source.read_text())}\n}}'] = None
    with tempfile.TemporaryDirectory() as folder:
        together = pathlib.Path(folder, "controls.cpp")
        together.write_text("\n".join(lines) + "\n")
        status, output = compiler.run(together, *{f"-I{source.absolute().parent}" for source in changed})
    if status != 0:
        return [f"a control (without -DREFUSE) does not compile\n{output}"]
    for source in changed:
        compiler.note(controls, source)
    return []


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


def chains(headers):
    """As few rows of headers as can be, in each of which a header includes all before it: a matching of each with one that
    includes it."""
    follower, leader = {}, {}

    def match(header, tried):
        for next_one in headers:
            if next_one in tried or next_one == header or header not in reached(next_one):
                continue
            tried.add(next_one)
            if next_one not in leader or match(leader[next_one], tried):
                follower[header], leader[next_one] = next_one, header
                return True
        return False

    for header in headers:
        match(header, set())
    rows = [[header] for header in headers if header not in leader]
    for row in rows:
        while row[-1] in follower:
            row.append(follower[row[-1]])
    return rows


def alone(compiler, directory):
    """Every header alone, twice over (its include guard). A source takes a row of them: what stands before a header is what
    it includes, and so shows it nothing new. So it is with Kokkos, precompiled, before those that include it."""
    headers = sorted(pathlib.Path(directory).absolute().rglob("*.hpp"))
    changed = [header for header in headers if not compiler.has_passed(alone, header)]
    rows = [row for with_kokkos in (True, False)
            for row in chains([header for header in changed if (KOKKOS in reached(header)) == with_kokkos])]
    print(f"{len(changed)} of {len(headers)} headers have changed, {len(rows)} sources")
    with tempfile.TemporaryDirectory() as folder:
        kokkos = pathlib.Path(folder, "kokkos.hpp")

        def row_alone(row):
            names = [header.relative_to(INCLUDE).as_posix() for header in row]
            source = pathlib.Path(folder, names[-1].replace("/", "__") + ".cpp")
            source.write_text("".join(2 * f"#include <{name}>\n" for name in names))
            first = compiler.first(kokkos) if KOKKOS in reached(row[0]) else []
            status, output = compiler.call(compiler.command + ["-fsyntax-only", *first], source, (), False)
            if status == 0:
                for header in row:
                    compiler.note(alone, header)
            return [] if status == 0 else [f"{', '.join(names)}: one of them does not compile alone\n{output}"]

        faults = precompiled(compiler, kokkos, f"#include <{KOKKOS}>\n") if changed else []
        with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
            return sum(pool.map(row_alone, rows), faults)


def precompile(compiler, folder):
    return [fault for umbrella in UMBRELLAS for fault in precompile_umbrella(compiler, folder, umbrella)]


def precompile_umbrella(compiler, folder, umbrella):
    whole = INCLUDE / umbrella
    header = pathlib.Path(folder).absolute() / whole.name
    times = [str(file.stat().st_mtime_ns) for file in ours(whole)]  # clang++ looks at them too
    key, mark = compiler.key("precompile", whole, *times), header.with_suffix(".key")
    if mark.exists() and mark.read_text() == key:
        return []
    mark.unlink(missing_ok=True)
    faults = precompiled(compiler, header, f"#include <{umbrella}>\n")
    if not faults:
        mark.write_text(key)
    return faults


def precompiled(compiler, header, text):
    header.parent.mkdir(parents=True, exist_ok=True)
    header.write_text(text)
    status, output = compiler.call(compiler.command + ["-x", "c++-header", "-o", str(compiler.object_of(header))], header,
                                   (), False)
    return [output] if status != 0 else []


def in_parallel(check, compiler, sources):
    with concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        return [fault for faults in pool.map(functools.partial(compiler.once, check), sources) for fault in faults]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--compiler", required=True)
    parser.add_argument("--flags", default="")
    parser.add_argument("--ccache", default="")
    parser.add_argument("--passed", default="", help="folder of marks of what passed, which is not compiled again")
    parser.add_argument("--define", default="", help="a macro, as NAME=1")
    parser.add_argument("--precompiled", default="", help="folder of a `precompile` with the same compiler")
    parser.add_argument("check", choices=["accept", "refuse", "controls", "alone", "precompile", "stacks"])
    parser.add_argument("paths", nargs="+")
    arguments = parser.parse_args()
    compiler = Compiler(arguments.compiler, arguments.flags, arguments.ccache, arguments.precompiled, arguments.passed)
    if arguments.define:
        compiler.command.append("-D" + arguments.define)
    if arguments.check in ("alone", "precompile"):
        check = {"alone": alone, "precompile": precompile}[arguments.check]
        faults = [fault for path in arguments.paths for fault in check(compiler, path)]
    elif arguments.check == "controls":
        faults = controls(compiler, arguments.paths)
    else:
        faults = in_parallel({"accept": accept, "refuse": refuse, "stacks": stacks}[arguments.check], compiler, arguments.paths)
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
