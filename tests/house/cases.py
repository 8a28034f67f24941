#!/usr/bin/env python3
"""cases.py ROOT: no test case is empty on every number of ranks on which CTest starts it.

Reads ONLY_ON_RANKS and FROM_RANKS (tests/support/ran.hpp) of the sources in ROOT/tests/mpi, and the numbers of ranks on
which CTest starts them: their line `// ranks:`, or those of halogen_doctest(mpi ...). A case that leaves by the number of
ranks says so by these macros, in its first line, and lists of meshes are support::Meshes, which fails an empty loop.
"""
import pathlib
import re
import sys

CASE = re.compile(r'^TEST_CASE\(("(?:(?!^TEST_CASE).)*?")(?:(?!^TEST_CASE).)*?\) \{\n(.*?)^\}', re.M | re.S)
MACRO = re.compile(r"^  (ONLY_ON_RANKS|FROM_RANKS)\(([^)]*)\);", re.M)
LEAVES = re.compile(r"^  if \([^;{}]*\b(?:size\(\)|size|ranks) *(?:[!=<>]=|<|>|% \d+ [!=]=) *\d+\) return;", re.M)
OTHER_LISTS = re.compile(r"std::vector<(?:hg|halogen)::DeviceMesh<")


def usual_ranks(root):
    found = re.search(r'halogen_doctest\(mpi "([\d;]+)"\)', (root / "tests/CMakeLists.txt").read_text())
    return [int(n) for n in found[1].split(";")]


def faults_of_case(name, body, started):
    macros = list(MACRO.finditer(body))
    if macros and macros[0].start() > 0:
        yield f"{macros[0][1]} is not the first line of {name}: what stands before it has run, and is called skipped"
    if len(macros) > 1:
        yield f"{name} names its ranks twice: give one ONLY_ON_RANKS or FROM_RANKS"
    if LEAVES.match(body):
        yield f"{name} leaves by the number of ranks: say so by ONLY_ON_RANKS or FROM_RANKS, which is counted"
    for macro in macros[:1]:
        numbers = [int(n) for n in re.findall(r"\b\d+\b", macro[2])]
        runs = [n for n in started if (n in numbers if macro[1] == "ONLY_ON_RANKS" else n >= numbers[0])]
        if not runs:
            yield (f"{name} runs on none of the {', '.join(map(str, started))} ranks on which CTest starts its file: "
                   "change its ranks, or the line `// ranks:`")


def faults(root):
    usual = usual_ranks(root)
    for path in sorted((root / "tests").rglob("*.[ch]pp")):
        text = path.read_text()
        where = path.relative_to(root)
        if OTHER_LISTS.search(text) and where.name != "ran.hpp":
            yield f"{where}: a std::vector of meshes may be looped over in vain: give support::Meshes"
        if path.suffix == ".cpp" and where.parts[1] == "mpi":
            line = re.search(r"^// ranks:([\d ,]+)$", text, re.M)
            started = [int(n) for n in re.findall(r"\d+", line[1])] if line else usual
            for case in CASE.finditer(text):
                for fault in faults_of_case(case[1], case[2], started):
                    yield f"{where}: {fault}"


def main():
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found) or "every test case runs on some number of ranks")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
