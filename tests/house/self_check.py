#!/usr/bin/env python3
"""self_check.py CXX: the checks themselves see the faults that they are there for, and accept what is right."""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).parent
TWIN = """namespace why { template <int Needed, int Have> struct channels_differ; }
template <int Have> requires (Have == 3) void take() {}
template <int Have, class Why = why::channels_differ<3, Have>> requires (Have != 3) void take() = delete;
#ifdef REFUSE
int main() { take<2>(); }
#else
int main() { take<3>(); }
#endif
"""
EXPECT = "// expect: why::channels_differ<3, 2>\n"
OTHERS_FIRST = "#ifdef REFUSE\nint one = ;\nint other = ;\n#endif\n"
TOO_LONG = "#ifdef REFUSE\n" + "#warning a line\n" * 30 + "#endif\n"

# headers of a small tree -> text that layering.py must say, or None where it must be content
TREES = [
    ({"core/a.hpp": "", "mesh/b.hpp": "#include <halogen/core/a.hpp>\n"}, None),
    ({"core/a.hpp": '#include "halogen/mesh/b.hpp"\n', "mesh/b.hpp": ""}, "'core' must not include 'mesh'"),
    ({"core/a.hpp": '#include "../mesh/b.hpp"\n', "mesh/b.hpp": ""}, "'core' must not include 'mesh'"),
    ({"core/a.hpp": "# include <Kokkos_Core.hpp>\n"}, "must not include Kokkos"),
    ({"stencil/a.hpp": "#include <mpi.h>\n"}, "only comm/mpi"),
    ({"comm/mpi/a.hpp": "#include <mpi.h>\n"}, None),
    ({"kernels/a.hpp": "#include <halogen/tensor/b.hpp>\n", "tensor/b.hpp": ""}, "must not include 'tensor'"),
    ({"layers/a.hpp": "#include <halogen/comm/b.hpp>\n", "comm/b.hpp": ""}, "must not include 'comm'"),
    ({"run/a.hpp": "#include <halogen/array/b.hpp>\n", "array/b.hpp": ""}, "'run' must not include 'array'"),
    ({"plan/a.hpp": "#include <halogen/kernels/b.hpp>\n", "kernels/b.hpp": ""}, "'plan' must not include 'kernels'"),
    ({"plan/a.hpp": "#include <Kokkos_Core.hpp>\n"}, "must not include Kokkos"),
    ({"plan/a.hpp": "if (kind == kind_of<MaxPoolForward>()) return;\n"}, "names an operation"),
    ({"plan/a.hpp": "NormId norm;\n"}, "names an operation"),
    ({"run/a.hpp": "/// The row is normalised.\n"}, "names an operation"),
    ({"run/a.hpp": "/// Draws for Dropout.\n"}, "names an operation"),
    ({"graph/a.hpp": "/// A token.\n"}, None),
    ({"graph/a.hpp": "enum class Start { uniform, normal };\n"}, None),
    ({"layers/a.hpp": "struct MaxPoolForward;  // as a convolution, before a norm\n"}, None),
    ({"kernels/a.hpp": "for (int b = 0; b < blocks; ++b) sum += partial[b];\n"}, "joins partial sums"),
    ({"kernels/a.hpp": "const RowSums sums = device::reduce(team, scratch, count, add, merge);\n"}, "joins partial sums"),
    ({"run/a.hpp": "sums.merge_moments(other);\n"}, "joins partial sums"),
    ({"train/a.hpp": "ranks.all_reduce(sums, 2);\n"}, "joins sums of ranks"),
    ({"layers/a.hpp": "request_ = ranks.all_reduce_async(sums, 2);\n"}, "joins sums of ranks"),
    ({"run/a.hpp": 'return "; all_reduce of its sums";  // ranks.all_reduce(sums)\n',
      "kernels/sums/merge.hpp": "sum += partial[b];\n", "tensor/rank_sums.hpp": "ranks.all_reduce(a, n);\n"}, None),
    ({"array/a.hpp": "#include <nlohmann/json.hpp>\n"}, "do not include nlohmann"),
    ({"io/a.hpp": "#include <nlohmann/json.hpp>\n#include <zlib.h>\n"}, None),
    ({"array/a.hpp": "#include <zlib.h>\n"}, "do not include zlib"),
    ({"array/a.hpp": "#include <halogen/halogen.hpp>\n", "halogen.hpp": ""}, "includes the umbrella"),
    ({"io/a.hpp": "#include <halogen/compiled/b.hpp>\n", "compiled/b.hpp": ""}, "must not include 'compiled'"),
    ({"network.hpp": "#include <halogen/compiled/b.hpp>\n", "compiled/b.hpp": ""}, None),
    ({"other.hpp": ""}, "only the umbrellas"),
    ({"misc/a.hpp": ""}, "no room 'misc'"),
    ({"kernels/vector/a.hpp": "#include <halogen/kernels/sums/b.hpp>\n", "kernels/sums/b.hpp": ""},
     "kernels/vector/a.hpp: subroom 'vector' must not include 'sums' (kernels/sums/b.hpp)"),
    ({"kernels/sums/a.hpp": "#include <halogen/kernels/vector/b.hpp>\n", "kernels/vector/b.hpp": ""}, None),
    ({"io/fit/a.hpp": "#include <halogen/io/b.hpp>\n", "io/b.hpp": "#include <halogen/io/zarr/c.hpp>\n",
      "io/zarr/c.hpp": ""}, "must not include 'zarr' (io/zarr/c.hpp through io/b.hpp)"),
    ({"run/parameters/a.hpp": "#include <halogen/run/b.hpp>\n", "run/b.hpp": "#include <halogen/run/parameters/c.hpp>\n",
      "run/parameters/c.hpp": ""}, "leaves its subroom and comes back to it"),
    ({"run/drawer/a.hpp": ""}, "room 'run' has no subroom 'drawer'"),
    ({"core/a.hpp": "//\n" * 121}, "the median header has 121 lines"),
    ({"mesh/a.hpp": "#if HALOGEN_BODIES\n#endif\n"}, "does not include it"),
    ({"mesh/a.hpp": '#include "halogen/core/config.hpp"\n#if HALOGEN_BODIES\n#endif\n', "core/config.hpp": ""}, None),
]

# sources of tests beside headers -> text that layering.py must say, or None
ROOMS_OF_TESTS = "set(array_rooms array halo)\n"
TESTS = [
    ({"mpi/array/a.cpp": "#include <halogen/halogen.hpp>\n"},
     "tests/mpi/array/a.cpp: reaches halogen/halogen.hpp, which tests/mpi/array/a.cpp includes"),
    ({"mpi/array/a.cpp": '#include "support/b.hpp"\n', "support/b.hpp": "#include <halogen/layers/c.hpp>\n"},
     "reaches halogen/layers/c.hpp, which tests/support/b.hpp includes"),
    ({"mpi/array/a.cpp": "// program: two\n#include <halogen/halogen.hpp>\n", "mpi/layers/b.cpp": "// program: two\n"}, None),
    ({"mpi/layers/b.cpp": "#include <halogen/halogen.hpp>\n"}, None),
    ({"support/main_random.cpp": "#include <halogen/halogen.hpp>\n"}, "tests/support/main_random.cpp: reaches halogen/halogen.hpp"),
    ({"CMakeLists.txt": ""}, "no line `set(array_rooms ...)`"),
    ({"mpi/layers/a.cpp": '// reads: convolutions\n#include "support/b.hpp"\n', "support/b.hpp": "#include <halogen/halogen.hpp>\n"},
     "tests/mpi/layers/a.cpp: reads convolutions and reaches halogen/halogen.hpp, which tests/support/b.hpp includes"),
    ({"mpi/layers/a.cpp": "// reads: convolutions\n#include <halogen/layers/c.hpp>\n"}, None),
]

# a header -> text that lengths.py must say, or None
LINES = "  x();\n" * 49  # with the lines of its two braces a function of these has one line too many
LENGTHS = [
    ("void turn() {\n" + LINES[7:] + "}\n", None),
    ("void turn() {\n" + LINES + "}\n", "a.hpp:1: turn has 51 lines, more than 50"),
    ("namespace halogen {\nclass A {\n" + "  void x();\n" * 60 + "};\nenum class B {\n" + "  c,\n" * 60 + "};\n}\n",
     None),
    ("class A {\n public:\n  A() : a_{1}, b_(2) {\n" + LINES + "  }\n};\n", "a.hpp:3: A has 51 lines"),
    ("struct A {\n  template <class T = int>\n  bool operator()(T t = {}) const\n  {\n" + LINES + "  }\n};\n",
     "a.hpp:4: operator() has 51 lines"),
    ("template <class T>\n  requires requires(T t) { t.x(); }\nvoid turn(T t) {\n" + LINES + "}\n",
     "a.hpp:3: turn has"),
    ("void turn() {\n  each([&] {\n" + LINES[14:] + "  });\n}\n", "turn has 51 lines"),
    ("inline constexpr auto turn = [](int) {\n" + LINES + "};\n", "turn has 51 lines"),
    ("inline constexpr int table[] = {\n" + "  1,\n" * 60 + "};\n", None),
    ("void turn() try {\n" + LINES[7:] + "} catch (...) {\n}\n", "turn has 51 lines"),
    ("#define OPEN {\n// }\n/* } */\nvoid turn(char c = '}', int n = 1'000) {\n" + '  say("}");\n' * 49 + "}\n",
     "51 lines"),
    ("void turn() {\n" + "// {\n" * 48 + "}\n", None),
    ("void turn() {\n", "do not pair"),
]

# source -> text that `compile.py refuse` must say, or None
REFUSALS = [
    (EXPECT + TWIN, None),
    (TWIN, "has no line"),
    ("// expect: why::channels_differ<3, 4>\n" + TWIN, "does not say"),
    (EXPECT + TWIN.replace("take<2>", "take<3>"), "compiles with -DREFUSE"),
    (EXPECT + TOO_LONG + TWIN, "lines long"),
    (EXPECT + OTHERS_FIRST + TWIN, "stands in message"),
    ("// expect: source.cp\n" + TWIN, "does not say"),
]

# the control of a second source beside a right one -> text that `compile.py controls` must say, or None
CONTROLS = [("take<3>", None), ("take<5>", "a control")]

# a header that the refused source includes, as it becomes -> text that `compile.py --passed` must say after a first pass
CHANGES = [("#define MARK 2\n", "unchanged since it passed"), ("#define MARK 3\n", "compiles with -DREFUSE")]

# a header, a source of tests/static beside it -> text that public_names.py must say, or None
PUBLIC = [
    ("namespace halogen {\nstruct Leaf {};\n}  // namespace halogen\n", "hg::Leaf", None),
    ("namespace halogen {\nstruct Leaf {};\n}  // namespace halogen\n", "// hg::Leaf", "tries hg::Leaf"),
    ("namespace halogen {\nnamespace detail {\nstruct Leaf {};\n}\n}\n", "", None),
    ("namespace halogen {\nnamespace detail {\nclass A;\n}\ntemplate <class X>\nauto turn(X x) {\n", "", "braces"),
    ("namespace halogen {\ntemplate <class X>\nauto turn(X x) {\n}\n}\n", "", "tries hg::turn"),
    ("namespace halogen {\nHALOGEN_UNARY(Sine, sin, Kokkos::sin(a), cos(a))\n}\n", "", "tries hg::sin"),
]

# rows of the table of layers, reasons, how many windows there are -> what layers.py must say
LAYERS = [
    ({"relu": ""}, {}, None, "'ReLU' is a public type that"),
    ({"relu": "ReLU ReLU7"}, {}, None, "no header of include/halogen/layers declares 'ReLU7'"),
    ({}, {"CUDA": {"in_evaluation": ""}}, None, "in_evaluation.hpp: none of its layers stands in tests/cuda"),
    ({}, {"breadth": {"relu": "seldom"}}, None, "relu stands among breadth"),
    ({}, {"network.hpp": {"flip": ""}}, None, "flip.hpp: none of its layers stands in include/halogen/network.hpp"),
    ({}, {}, -1, "layers and windows, and layer_table.table() has"),
]

# README.md beside docs/a.md with a heading "One, two" -> what links.py must say, or None
LINKS = [
    ("[a](docs/a.md), [b](docs/a.md#one-two), [c](https://halogen.org)\n```\n[d](no.md)\n```\n", None),
    ("[a](docs/b.md)\n", "(docs/b.md) leads to no file"),
    ("[a](docs/a.md#three)\n", "(docs/a.md#three) leads to no heading"),
    ("nothing\n", "no page has a link"),
]

# a header with `return a + b;` some times, of a table whose mistake is `becomes` -> text that scripts/mutate must say
MUTATIONS = [
    (1, "«a + b»", "the table has 1 mistakes: plant 100 or more"),
    (0, "«a + b»", "has its text 0 times, not once"),
    (2, "«a + b»", "has its text 2 times, not once"),
    (1, "a + b", "put what is replaced between « and », once"),
]

# counts of functions (chains of 1, 4 and 8 layers, U-Net) beside 100, 130, 170, 200 -> what instantiations.py must say
COUNTS = [
    ((100, 130, 170, 200), None),
    ((109, 139, 179, 219), None),
    ((100, 130, 170, 221), "compile_unet: 221 functions, 200 expected"),
    ((100, 130, 186, 200), "seven layers more cost 86 functions"),
    ((100, 115, 170, 200), "more than linear"),
]

# a source of tests/mpi, which CTest starts on 1 and 3 ranks -> text that cases.py must say, or None
CASE = 'TEST_CASE("a law") {\n%s  CHECK(1 == 1);\n}\n'
OF_RANKS = [
    (CASE % "", None),
    (CASE % "  ONLY_ON_RANKS(2, 3);\n", None),
    (CASE % "  FROM_RANKS(2);\n", None),
    (CASE % "  ONLY_ON_RANKS(2, 4);  // 3 rows\n", '"a law" runs on none of the 1, 3 ranks'),
    ("// ranks: 1 4\n" + CASE % "  ONLY_ON_RANKS(2, 4);\n", None),
    ("// ranks: 1 2\n" + CASE % "  FROM_RANKS(3);\n", "runs on none of the 1, 2 ranks"),
    (CASE % "" + 'TEST_CASE("one line") { check(1); }\n' + CASE % "  FROM_RANKS(4);\n", '"a law" runs on none'),
    (CASE % "  CHECK(2 == 2);\n  FROM_RANKS(2);\n", "is not the first line"),
    (CASE % "  FROM_RANKS(2);\n  ONLY_ON_RANKS(3);\n", "names its ranks twice"),
    (CASE % "  if (support::world().size() != 3) return;\n", "leaves by the number of ranks"),
    (CASE % "  if (size % 2 == 1) return;\n", "leaves by the number of ranks"),
    ("std::vector<hg::DeviceMesh<Plane>> meshes();\n", "give support::Meshes"),
]

# programs of a bench without a peer: what they print
STUB = """#!/bin/sh
echo '{"threads": '$OMP_NUM_THREADS', "milliseconds": [2.0], "result": [1.0], "fma_gflops": 50, "copy_gbs": 20}'
"""
# arguments of bench.py -> exit status, text
BENCHES = [
    (["--pairs", "1", "--threads", "1", "conv2d_8_forward"], 0, "bench: name=conv2d_8_forward threads=1 ranks=1 "
     "halogen_ms=2 peer=none fma_share="),
    (["--pairs", "1", "--threads", "1", "unet_train_2ranks_32"], 0, "halogen_ms=2 peer=none"),
    (["no_such_name"], 1, "no name matches 'no_such_name'"),
    (["--programs", "no_such_name"], 1, "no name matches"),
    (["--programs", "conv2d_17_1023_forward"], 0, "bench_conv2d bench_machine bench_shapes"),
    (["--pairs", "0", "maxpool"], 1, "--pairs is 0: give 1 or more"),
    (["--settings", "fastest", "maxpool"], 1, "--settings is 'fastest': give some of"),
]


def check_passed():
    """What has passed is compiled again as soon as something that it includes is another."""
    right = True
    for text, expected in CHANGES:
        with tempfile.TemporaryDirectory() as folder:
            source, header = pathlib.Path(folder, "source.cpp"), pathlib.Path(folder, "mark.hpp")
            source.write_text(EXPECT + '#include "mark.hpp"\n' + TWIN.replace("take<2>", "take<MARK>"))
            command = [sys.executable, str(HERE / "compile.py"), "--compiler", sys.argv[1], "--passed",
                       str(pathlib.Path(folder, "passed")), "refuse", str(source)]
            header.write_text("#define MARK 2\n")
            right &= check(command[1:], None, "a first pass")
            header.write_text(text)
            found = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True).stdout
            if expected not in found:
                print(f"expected {expected!r} with {text!r}, but got\n{found}")
                right = False
    return right


def check_public():
    sys.path.insert(0, str(HERE))
    import public_names
    public_names.MADE_BY, public_names.WITHOUT = {}, {}
    right = True
    for header, source, expected in PUBLIC:
        with tempfile.TemporaryDirectory() as root:
            for name, text in (("include/halogen/a.hpp", header), ("tests/static/names_of_a.cpp", source)):
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True)
                path.write_text(text)
            try:
                found = "\n".join(public_names.faults(pathlib.Path(root)))
            except ValueError as error:
                found = str(error)
        if (expected is None and found) or (expected is not None and expected not in found):
            print(f"expected {expected!r} of\n{header}but got {found!r}")
            right = False
    return right


def check_layers():
    """layers.py over this tree, with a table, a list or a count that is not as it should be."""
    sys.path.insert(0, str(HERE))
    import layers
    root, table = HERE.parents[1], layers.layer_table
    whole, owes_not, rows = dict(table.LAYERS), layers.OWES_NOT, table.table
    right = True
    for changed, reasons, count, expected in LAYERS:
        table.LAYERS = {header: names for header, names in (whole | changed).items() if names}
        layers.OWES_NOT = {which: owes_not[which] | reasons.get(which, {}) for which in owes_not}
        table.table = lambda: rows()[:count]
        found = "\n".join(layers.faults(root))
        if expected not in found:
            print(f"expected {expected!r} of {changed}, {reasons}, {count}, but got {found!r}")
            right = False
    table.LAYERS, layers.OWES_NOT, table.table = whole, owes_not, rows
    return right


def check_links():
    sys.path.insert(0, str(HERE))
    import links
    right = True
    for text, expected in LINKS:
        with tempfile.TemporaryDirectory() as root:
            pathlib.Path(root, "docs").mkdir()
            pathlib.Path(root, "docs/a.md").write_text("# One, two\n")
            pathlib.Path(root, "README.md").write_text(text)
            found = "\n".join(links.faults(pathlib.Path(root).resolve()))
        if (expected is None and found) or (expected is not None and expected not in found):
            print(f"expected {expected!r} of {text!r}, but got {found!r}")
            right = False
    return right


def check_counts():
    sys.path.insert(0, str(HERE))
    import instantiations
    right = True
    for counts, expected in COUNTS:
        found = " ".join(instantiations.faults_of(dict(zip(instantiations.NAMES, counts)), {},
                                                  dict(zip(instantiations.NAMES, (100, 130, 170, 200)))))
        if (expected is None and found) or (expected is not None and expected not in found):
            print(f"expected {expected!r} of {counts}, but got {found!r}")
            right = False
    return right


def check_bench():
    """bench.py with stubs for programs and no peer."""
    right = True
    with tempfile.TemporaryDirectory() as folder:
        bench = pathlib.Path(folder, "bench")
        bench.mkdir()
        for name in ("bench/bench_conv2d", "bench/bench_unet", "bench/bench_machine", "mpirun"):
            pathlib.Path(folder, name).write_text(STUB)
            pathlib.Path(folder, name).chmod(0o755)
        environment = dict(os.environ, HALOGEN_BUILD_DIRECTORY=folder, HALOGEN_PEERS=str(bench / "none"),
                           PATH=f"{folder}:{os.environ['PATH']}")
        for arguments, status, text in BENCHES:
            command = [sys.executable, str(HERE.parent.parent / "bench" / "run" / "bench.py"), *arguments]
            done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            if done.returncode != status or text not in done.stdout:
                print(f"expected {status} and {text!r} of {arguments}, but got {done.returncode} and\n{done.stdout}")
                right = False
    return right


def check_mutations():
    """scripts/mutate finds each text once, whatever its white space, and the copy of a header makes a mistake if it is told to."""
    right = True
    for times, marked, expected in MUTATIONS:
        with tempfile.TemporaryDirectory() as root:
            for name, text in (("include/halogen/core/a.hpp", "int f() {\n  return a +\n      b;\n}\n" * times),
                               ("tests/unit/a.cpp", ""),
                               ("tests/mutations/table.py", (HERE.parent / "mutations/table.py").read_text().split("TABLE")[0] +
                                f'TABLE = [Mistake("m", "core/a.hpp", "return {marked};", "a - b", "unit.a")]\n')):
                path = pathlib.Path(root, name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            right &= check([str(HERE.parent.parent / "scripts/mutate"), root, "--check"], expected, (times, marked))
    loader = importlib.machinery.SourceFileLoader("mutate", str(HERE.parent.parent / "scripts/mutate"))
    mutate = importlib.util.module_from_spec(importlib.util.spec_from_loader("mutate", loader))
    loader.exec_module(mutate)
    with tempfile.TemporaryDirectory() as folder:
        one, two = (type("Mistake", (), dict(name=name, becomes=becomes, compiled=compiled))
                    for name, becomes, compiled in (("one", "2", False), ("two", "", False)))
        source = pathlib.Path(folder, "main.cpp")
        pathlib.Path(folder, "mutation.hpp").write_text(mutate.SWITCH)
        source.write_text('#include "mutation.hpp"\nint main() {\n  static_assert(' + mutate.planted(one, "1") + " == 1);\n  int r = " +
                          mutate.planted(one, "1") + ";\n  " + mutate.planted(two, "r -= 1;") + "\n  return r;\n}\n")
        program = pathlib.Path(folder, "main")
        subprocess.run([sys.argv[1], "-std=c++20", str(source), "-o", str(program)], check=True)
        found = [subprocess.run([program], env={"HALOGEN_MUTATION": str(number)}).returncode
                 for number in (0, mutate.number_of(one), mutate.number_of(two))]
    if found != [0, 1, 1]:
        print(f"scripts/mutate: expected [0, 1, 1] of a program without, with one and with the other mistake, but got {found}")
    return right and found == [0, 1, 1]


def check_once():
    """A program of tests/ runs again unless its bytes have passed, under the same variables and with the same files, and
    HALOGEN_ONCE is 1."""
    with tempfile.TemporaryDirectory() as root:
        program, mark, log, reads = (pathlib.Path(root, name) for name in ("program", "marks/mark", "log", "reads"))
        reads.touch()

        def runs(text=None, **variables):
            """Whether the program runs, which has this text from now on, and its exit status."""
            if text is not None:
                program.write_text(f"#!/bin/sh\necho >>{log}\n{text}\n")
                program.chmod(0o755)
                time.sleep(0.02)
            before = log.stat().st_size if log.exists() else 0
            done = subprocess.run([HERE.parent / "support/once", mark, program, reads, "--", program], stdout=subprocess.PIPE,
                                  env={**os.environ, "HALOGEN_ONCE": "1", **variables})
            return log.stat().st_size > before, done.returncode

        expected = [(True, 3), (True, 3), (True, 0), (False, 0), (True, 0), (True, 0), (False, 0), (False, 0), (True, 0),
                    (True, 0), (False, 0), (False, 127)]
        seven = {"OMP_NUM_THREADS": "7"}
        found = [runs("exit 3"), runs(), runs("exit 0"), runs(), runs(HALOGEN_ONCE="0"), runs(**seven), runs(**seven),
                 runs("exit 0", **seven), runs("exit 0 #", **seven)]
        time.sleep(0.02)
        reads.touch()
        found += [runs(**seven), runs(**seven)]
        program.unlink()  # that a program is missing is no pass
        found.append(runs(**seven))
    if found != expected:
        print(f"tests/support/once: expected {expected} but got {found}")
    return found == expected


def write(root, *trees):
    """Files below root, by name."""
    for name, text in (item for tree in trees for item in tree.items()):
        path = pathlib.Path(root, name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def check(command, expected, subject):
    done = subprocess.run([sys.executable] + command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    right = done.returncode == 0 if expected is None else done.returncode == 1 and expected in done.stdout
    if not right:
        print(f"expected {expected!r} of\n{subject}\nbut got exit status {done.returncode} and\n{done.stdout}")
    return right


def main():
    right = True
    for tree, expected in TREES:
        with tempfile.TemporaryDirectory() as root:
            write(root, {"tests/CMakeLists.txt": ROOMS_OF_TESTS},
                  {f"include/halogen/{name}": text for name, text in tree.items()})
            right &= check([str(HERE / "layering.py"), root], expected, tree)
    for tree, expected in TESTS:
        with tempfile.TemporaryDirectory() as root:
            write(root, {"include/halogen/halogen.hpp": "", "include/halogen/layers/c.hpp": "", "tests/CMakeLists.txt": ROOMS_OF_TESTS},
                  {f"tests/{name}": text for name, text in tree.items()})
            right &= check([str(HERE / "layering.py"), root], expected, tree)
    for header, expected in LENGTHS:
        with tempfile.TemporaryDirectory() as root:
            path = pathlib.Path(root, "include/halogen/a.hpp")
            path.parent.mkdir(parents=True)
            path.write_text(header)
            right &= check([str(HERE / "lengths.py"), root], expected, header)
    for source, expected in REFUSALS:
        with tempfile.TemporaryDirectory() as root:
            path = pathlib.Path(root, "source.cpp")
            path.write_text(source)
            right &= check([str(HERE / "compile.py"), "--compiler", sys.argv[1], "refuse", str(path)], expected, source)
    for control, expected in CONTROLS:
        with tempfile.TemporaryDirectory() as root:
            paths = [pathlib.Path(root, name) for name in ("one.cpp", "other.cpp")]
            for path, call in zip(paths, ("take<3>", control)):
                path.write_text("#include <cstddef>\n" + EXPECT + TWIN.replace("take<3>", call))
            right &= check([str(HERE / "compile.py"), "--compiler", sys.argv[1], "controls", *map(str, paths)], expected,
                           control)
    for source, expected in OF_RANKS:
        with tempfile.TemporaryDirectory() as root:
            write(root, {"tests/CMakeLists.txt": 'halogen_doctest(mpi "1;3")\n', "tests/mpi/a.cpp": source})
            right &= check([str(HERE / "cases.py"), root], expected, source)
    right &= check_passed()
    right &= check_public()
    right &= check_layers()
    right &= check_links()
    right &= check_counts()
    right &= check_bench()
    right &= check_once()
    right &= check_mutations()
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
