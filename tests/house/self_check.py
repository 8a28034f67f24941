#!/usr/bin/env python3
"""self_check.py CXX: the checks themselves see the faults that they are there for, and accept what is right."""
import pathlib
import subprocess
import sys
import tempfile

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
    ({"expr/a.hpp": "#include <nlohmann/json.hpp>\n"}, "do not include nlohmann"),
    ({"io/a.hpp": "#include <nlohmann/json.hpp>\n"}, None),
    ({"expr/a.hpp": "#include <halogen/halogen.hpp>\n", "halogen.hpp": ""}, "includes the umbrella"),
    ({"misc/a.hpp": ""}, "no room 'misc'"),
    ({"core/a.hpp": "//\n" * 401}, "401 lines"),
]

# source -> text that `compile.py refuse` must say, or None
REFUSALS = [
    (EXPECT + TWIN, None),
    (TWIN, "has no line"),
    ("// expect: why::channels_differ<3, 4>\n" + TWIN, "does not say"),
    (EXPECT + TWIN.replace("take<2>", "take<3>"), "compiles with -DREFUSE"),
    (EXPECT + TWIN.replace("take<3>", "take<5>"), "the control"),
    (EXPECT + TOO_LONG + TWIN, "lines long"),
]


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
            for name, text in tree.items():
                path = pathlib.Path(root, "include/halogen", name)
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text)
            right &= check([str(HERE / "layering.py"), root], expected, tree)
    for source, expected in REFUSALS:
        with tempfile.TemporaryDirectory() as root:
            path = pathlib.Path(root, "source.cpp")
            path.write_text(source)
            right &= check([str(HERE / "compile.py"), "--compiler", sys.argv[1], "refuse", str(path)], expected, source)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
