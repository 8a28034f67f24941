#!/usr/bin/env python3
"""layering.py ROOT: the rooms of include/halogen (docs/layering.md) include upward only, inside rooms too, and stay small.

A room may include itself and the rooms before it in ROOMS, less what FORBIDDEN takes away. Inside a room a subroom may
include itself, the subrooms before it in SUBROOMS, and headers that lie flat in the room, unless these lead back to it or
to a later one. Tests of the array language reach no layer either, so that a layer's change compiles none of them.
"""
import pathlib
import re
import statistics
import sys

ROOMS = ["core", "mesh", "placement", "stencil",  # type floor
         "comm", "tensor", "halo",  # motion floor
         "kernels", "attention", "array", "autograd", "graph", "plan", "run", "layers", "models", "train", "io",  # meaning floor
         "hosts",
         "compiled"]  # what halogen::compiled holds of all rooms; only umbrellas include it
SUBROOMS = {
    "comm": ["self", "mpi", "rendezvous", "nccl"],
    "kernels": ["vector", "rows", "tiles", "sums", "convolution", "winograd", "attention", "neighborhood", "pointwise",
                "training"],
    "array": ["expression", "evaluate", "stages", "attention"],
    "run": ["parameters"],
    "layers": ["convolution", "functions", "activations", "attention"],
    "train": ["parameters"],
    "io": ["checkpoint", "fit", "data", "zarr", "libraries"],
}
UMBRELLAS = ("halogen.hpp", "array_language.hpp", "network.hpp", "files.hpp", "export.hpp")
C_HEADER = "model.h"  # of hosts, for C: it includes nothing of Halogen
DEPRECATED = ("array.hpp", "io.hpp")  # former names of umbrellas, for one release
TYPE_FLOOR = ROOMS[:4]
MOTION_FLOOR = ROOMS[4:7]
PLANNER = ("graph", "plan", "run")
OPERATION = re.compile(r"conv(?!e[rn]|er)|pool|norm(?!al\b)|softmax|winograd|attention|bilateral", re.IGNORECASE)
LAYER = re.compile(r"upsampl|interpolat(?!ion)|dropout|embedding|token|concat\b", re.IGNORECASE)  # graph's sentences name some
NO_KOKKOS = TYPE_FLOOR + ["graph", "plan", "layers"]
MERGED_ON_A_RANK, MERGED_OVER_RANKS = "kernels/sums/merge.hpp", "tensor/rank_sums.hpp"
POINTS_OF_A_TILE = "kernels/rows/row_sums.hpp"
MERGES_ON_A_RANK = re.compile(r"\bdevice::reduce\(|\+= [^;]*\bpartials?\w*\[|\bmerge_moments\(")
MERGES_OVER_RANKS = re.compile(r"\ball_reduce(_async)?\(|\breduce_scatter_v(_async)?\(")
SUMS_POINTS = ("graph", "plan", "run", "layers", "train")
KOKKOS = re.compile(r"^Kokkos_|^KokkosExp")
TRANSPORT = re.compile(r"^(mpi|nccl)\.h$")
THIRD_PARTY = re.compile(r"^((CLI|nlohmann|stb|fmt|doctest|gtest)/|(zlib|zstd|blosc|netcdf|hdf5)\.h)")

CONFIG = "halogen/core/config.hpp"
CONFIGURED = re.compile(r"^#if.*\bHALOGEN_(BODIES|COMPILED)\b", re.MULTILINE)

NOT_OF_ARRAYS = ("halogen.hpp", "network.hpp", "layers", "models")  # for tests of the array language
ALSO_OF_ARRAYS = ("support/main_random.cpp", "device_kernels/attention.cpp", "cuda/instantiate_arrays.cpp")  # in no such folder

EVERY_LAYER = ("halogen.hpp", "network.hpp")  # which no test with the line `// reads: convolutions` reaches

LONGEST_MODEL = 150
LONGEST_EXAMPLE = 80
MEDIAN_HEADER = 120

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', re.MULTILINE)


def forbidden_rooms(room):
    later = ROOMS[ROOMS.index(room) + 1:]
    if room == "kernels":  # pointers and strides, nothing of ranks
        return later + MOTION_FLOOR
    if room in PLANNER:  # what joins the two languages lies above both, or in layers and train
        later = later + ["attention", "array", "autograd"]
    if room in ("graph", "plan"):  # values only
        return later + MOTION_FLOOR + ["kernels"]
    if room == "layers":
        return later + ["comm"]
    return later


def included(header, include_root):
    """(name as written, room or None): what a header includes; quoted names may be relative to it."""
    for kind, name in INCLUDE.findall(header.read_text()):
        path = include_root / name
        if kind == '"' and not path.exists():
            path = (header.parent / name).resolve()
        try:
            parts = path.relative_to(include_root / "halogen").parts
        except ValueError:
            yield name, None
            continue
        yield name, parts[0] if len(parts) > 1 else "umbrella"


def header_faults(header, include_root):
    parts = header.relative_to(include_root / "halogen").parts
    name = "/".join(parts)
    lines = len(header.read_text().splitlines())
    if len(parts) == 1:
        if name not in UMBRELLAS + DEPRECATED:
            yield f"{name}: only the umbrellas {', '.join(UMBRELLAS)} lie outside the rooms"
        return
    if CONFIGURED.search(header.read_text()) and CONFIG not in [target for target, _ in included(header, include_root)] + [
            "halogen/" + name]:
        yield f"{name}: uses a macro of {CONFIG} and does not include it: undefined it would hide functions"
    room = parts[0]
    if room not in ROOMS:
        yield f"{name}: there is no room '{room}'"
        return
    if len(parts) > 2 and parts[1] not in SUBROOMS.get(room, []):
        yield f"{name}: room '{room}' has no subroom '{parts[1]}'"
    if room == "models" and lines > LONGEST_MODEL:
        yield f"{name}: {lines} lines, more than {LONGEST_MODEL}"
    if room in PLANNER:  # one operation, one file: in layers, or outside
        for number, line in enumerate(header.read_text().splitlines(), 1):
            if OPERATION.search(line) or (room != "graph" and LAYER.search(line)):
                yield f"{name}:{number}: room '{room}' names an operation: {line.strip()}"
    for number, line in enumerate(header.read_text().splitlines(), 1):  # one machinery for all sums over points
        code = line.split("//")[0]
        if room in SUMS_POINTS + ("kernels",) and name not in (MERGED_ON_A_RANK, POINTS_OF_A_TILE) and MERGES_ON_A_RANK.search(code):
            yield f"{name}:{number}: joins partial sums, which only {MERGED_ON_A_RANK} does: {line.strip()}"
        if room in SUMS_POINTS and MERGES_OVER_RANKS.search(code):
            yield f"{name}:{number}: joins sums of ranks, which only {MERGED_OVER_RANKS} does: {line.strip()}"
    for target, target_room in included(header, include_root):
        if target.endswith(C_HEADER):
            continue
        if target_room == "umbrella":
            yield f"{name}: includes the umbrella"
        elif target_room is not None and target_room not in ROOMS:
            yield f"{name}: includes {target} of no known room"
        elif target_room in forbidden_rooms(room):
            yield f"{name}: room '{room}' must not include '{target_room}' ({target})"
        elif target_room is None:
            if KOKKOS.match(target) and room in NO_KOKKOS:
                yield f"{name}: room '{room}' must not include Kokkos ({target})"
            if TRANSPORT.match(target) and not (room == "comm" and parts[1] in ("mpi", "nccl")):
                yield f"{name}: only comm/mpi and comm/nccl include {target}"
            if THIRD_PARTY.match(target) and not (room == "io" and target.startswith(("nlohmann/", "zlib.h", "zstd.h", "blosc.h", "netcdf.h", "hdf5.h"))):
                yield f"{name}: library headers do not include {target}"


def subroom_faults(room, subrooms, include_root):
    """Arrows of a room's subrooms that lead back up, directly or through its flat headers, or in a circle."""
    folder = include_root / "halogen"
    headers = {header.relative_to(folder).as_posix(): header for header in (folder / room).rglob("*.hpp")}
    arrows = {name: [target.removeprefix("halogen/") for target, target_room in included(header, include_root)
                     if target_room == room] for name, header in headers.items()}
    subroom = {name: subrooms.index(name.split("/")[1]) if name.count("/") > 1 and name.split("/")[1] in subrooms else None
               for name in headers}
    for name in sorted(headers):
        if subroom[name] is None:
            continue
        seen, todo = set(), [(target, target) for target in arrows[name]]
        while todo:
            at, first = todo.pop()
            if at in seen or at not in headers:
                continue
            seen.add(at)
            way = "" if at == first else f" through {first}"
            if subroom[at] is None:
                todo += [(target, first) for target in arrows[at]]
            elif subroom[at] > subroom[name]:
                yield f"{name}: subroom '{subrooms[subroom[name]]}' must not include '{subrooms[subroom[at]]}' ({at}{way})"
            elif subroom[at] == subroom[name] and way:
                yield f"{name}: leaves its subroom and comes back to it ({at}{way})"


def reached(source, roots):
    """{file: the file that includes it}: what a source includes in the end, as far as it lies under the roots."""
    by, todo = {source: None}, [source]
    while todo:
        at = todo.pop()
        for _, name in INCLUDE.findall(at.read_text()):
            for folder in (at.parent, *roots):
                path = (folder / name).resolve()
                if path.is_file():
                    if path not in by:
                        by[path] = at
                        todo.append(path)
                    break
    return by


def test_faults(root):
    """Sources of tests/mpi whose programs are for the array language alone, and which reach a layer all the same."""
    lists, folder = root / "tests" / "CMakeLists.txt", root / "tests" / "mpi"
    rooms = re.search(r"^set\(array_rooms (.*)\)$", lists.read_text(), re.MULTILINE) if lists.exists() else None
    if rooms is None:
        yield f"{lists}: no line `set(array_rooms ...)`"
        return
    programs = {}
    for source in sorted(folder.rglob("*.cpp")):
        program = re.search(r"^// program: *(\w+)", source.read_text(), re.MULTILINE)
        programs.setdefault(program[1] if program else source.stem, []).append(source)
    of_arrays = [source for sources in programs.values() if all(s.parent.name in rooms[1].split() for s in sources)
                 for source in sources]
    for source in of_arrays + [path for path in (root / "tests" / name for name in ALSO_OF_ARRAYS) if path.exists()]:
        by = reached(source, [root / "include", root / "tests"])
        for header in by:
            parts = header.relative_to(root).parts
            if parts[:2] == ("include", "halogen") and parts[2] in NOT_OF_ARRAYS:
                yield (f"{source.relative_to(root)}: reaches {'/'.join(parts[1:])}, which {by[header].relative_to(root)} includes. Its "
                       "program is for the array language (docs/testing.md): include halogen/array_language.hpp, or share the "
                       "program of a test of layers, models or train")
                break
    for source in [source for sources in programs.values() for source in sources]:
        if re.search("^// reads: convolutions$", source.read_text(), re.MULTILINE):
            by = reached(source, [root / "include", root / "tests"])
            for header in by:
                parts = header.relative_to(root).parts
                if parts[:2] == ("include", "halogen") and parts[2] in EVERY_LAYER:
                    yield (f"{source.relative_to(root)}: reads convolutions and reaches {'/'.join(parts[1:])}, which "
                           f"{by[header].relative_to(root)} includes: include support/convolutions.hpp and the other layers' own headers")


def faults(root):
    include_root = (root / "include").resolve()
    headers = sorted((include_root / "halogen").rglob("*.hpp"))
    if not headers:
        yield f"{include_root}: no headers"
        return
    for header in headers:
        yield from header_faults(header, include_root)
    for room, subrooms in SUBROOMS.items():
        yield from subroom_faults(room, subrooms, include_root)
    median = statistics.median(len(header.read_text().splitlines()) for header in headers)
    print(f"{len(headers)} headers, median {median:g} lines")
    if median > MEDIAN_HEADER:
        yield f"the median header has {median:g} lines, more than {MEDIAN_HEADER}"
    for example in sorted((root / "examples").glob("[0-9][0-9]_*.cpp")):
        lines = len(example.read_text().splitlines())
        if lines > LONGEST_EXAMPLE:
            yield f"{example.name}: {lines} lines, more than {LONGEST_EXAMPLE}"
    yield from test_faults(root.resolve())


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1])))
    print("\n".join(found))
    sys.exit(1 if found else 0)
