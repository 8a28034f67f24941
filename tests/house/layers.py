#!/usr/bin/env python3
"""layers.py ROOT: each public layer of include/halogen/layers is in the one table (tests/support/layer_table.py) and in each
list that a layer owes (docs/contributing.md), and counts of layers in prose are the table's.

A header owes a list one of its layers; the docs' index and docs/status.md it owes them all. OWES_NOT says which do not, and why.
"""
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import layer_table  # noqa: E402
import tested  # noqa: E402

WRAPS = "wraps a layer and computes nothing"
OF_USERS = "computes what a user's functor says, for which nobody else has a layer"
VECTORS = "takes or makes vectors or indices, and the models there begin with one field"
COMPOSED = "is made of layers that are there"
OWES_NOT = {
    "random models": {
        "embedding": VECTORS, "time_embedding": VECTORS,
        "dropout": "PyTorch draws other numbers",
        "checkpoint": WRAPS, "frozen": WRAPS, "in_evaluation": WRAPS, "stencil": OF_USERS,
        "layer_norm_over": "has parameters for each point, and the extents there are drawn",
        "position_embedding": "has parameters for each point, and the extents there are drawn",
        "patch_merging": COMPOSED, "sinusoidal_embedding": "has neither parameters nor a gradient of its own",
        "rotary_embedding": "stands in attention, which PyTorch has no layer of that turns its heads",
        "window_attention": "PyTorch has no layer of it; tests/mpi/layers/window_attention.cpp has torchvision's numbers",
    },
    "breadth": {
        "class_token": VECTORS, "embedding": VECTORS, "time_embedding": VECTORS, "expand": VECTORS,
        "dropout": "PyTorch draws other numbers",
        "checkpoint": WRAPS, "frozen": WRAPS, "in_evaluation": WRAPS, "stencil": OF_USERS, "map": OF_USERS, "function": OF_USERS,
        "chunk": "a slice of the channels, which no peer cuts",
        "constant_pad": "the peers pad as they do in reflection_pad, and refuse it",
        "flip": "the peers have no rule for it, as for roll",
        "layer_norm_over": "has parameters for each point, which the peers do not cut",
        "position_embedding": "has parameters for each point, which the peers do not cut",
        "map_activations": "a function of each point, as the seven activations there",
        "patch_merging": COMPOSED, "residual": COMPOSED, "upsample": "Interpolate's windows are its own, and are there",
        "multihead_attention": "the peers cut sequences, not fields; docs/benchmarks.md compares it with theirs",
        "neighborhood_attention": "PyTorch has no layer of it", "window_attention": "PyTorch has no layer of it",
        "rotary_embedding": "PyTorch has no layer of it", "sinusoidal_embedding": "PyTorch has no layer of it",
    },
    "CUDA": {"in_evaluation": WRAPS, "function": "Flip is one, and stands there"},
    "device kernels": {},
    "network.hpp": {"flip": "is a Function of the array language: halogen.hpp includes it"},
}


def headers(root):
    return sorted((root / "include/halogen/layers").rglob("*.hpp"))


def included_by(root, umbrella):
    """Names of the headers that a header includes, over any number of steps."""
    found, todo = set(), [root / "include/halogen" / umbrella]
    while todo:
        for name in re.findall(r'^#include "(halogen/[^"]+)"', todo.pop().read_text(), re.MULTILINE):
            if name not in found:
                found.add(name)
                todo.append(root / "include" / name)
    return {pathlib.PurePath(name).stem for name in found if name.startswith("halogen/layers/")}


def of_the_table(root):
    """Every public type is a layer or an option, every row has its header."""
    layers = {name: header for header, names in layer_table.LAYERS.items() for name in names.split()}
    options = {name for names in layer_table.OPTIONS.values() for name in names.split()}
    seen = set()
    for header in headers(root):
        for name in tested.public_types(header):
            seen.add(name)
            if name not in options and layers.get(name) != header.stem:
                yield (f"{header.relative_to(root)}: '{name}' is a public type that tests/support/layer_table.py does not have for "
                       f"this header: add it to LAYERS[\"{header.stem}\"], or to OPTIONS if it is no layer")
        text = header.read_text()
        seen |= {name for name, of in layers.items() if of == header.stem and name[0].islower() and re.search(rf"\b{name}\(", text)}
    for name in sorted((layers.keys() | options) - seen):
        yield f"tests/support/layer_table.py: no header of include/halogen/layers declares '{name}'; take it off the table"


def of_the_lists(root):
    index, status = (root / "docs/index.md").read_text(), (root / "docs/status.md").read_text()
    reached = included_by(root, "network.hpp")
    lists = {"network.hpp": {name for header in reached for name in layer_table.LAYERS.get(header, "").split()},
             "random models": tested.drawn().keys() | tested.random_plans(), "breadth": tested.breadth().keys(), "CUDA": tested.cuda(),
             "device kernels": tested.device_kernels()}
    where = {"network.hpp": "include/halogen/network.hpp, or what it includes", "random models": "tests/support/draw_layers.py or tests/unit/random_plans.cpp", "breadth": "table() of tests/support/layer_table.py",
             "CUDA": "tests/cuda/instantiate*.cpp", "device kernels": "a source of halogen_device_kernels in tests/CMakeLists.txt"}
    for header, names in layer_table.LAYERS.items():
        names = names.split()
        for name in names:
            family = re.sub(r"[123]d$", "", name)
            for page, text in (("docs/index.md", index), ("docs/status.md", status)):
                if not re.search(rf"`{name}\b", text) and not re.search(rf"`{family}([123]d)?`, .*?`{name[-2:]}`", text):
                    yield f"{header}.hpp: {page} has no `{name}`"
        for which, listed in lists.items():
            owes_not = OWES_NOT[which].get(header)
            has = any(name in listed for name in names)
            if not has and not owes_not and (which != "device kernels" or has_device_kernel(root, header)):
                yield f"{header}.hpp: none of its layers stands in {where[which]} ({which}); add one, or a reason to OWES_NOT of layers.py"
            elif has and owes_not:
                yield f"layers.py: {header} stands among {which}: take its reason off OWES_NOT"
    for which, reasons in OWES_NOT.items():
        for header in sorted(reasons.keys() - layer_table.LAYERS.keys()):
            yield f"layers.py: OWES_NOT[\"{which}\"] has '{header}', which LAYERS has not"


def has_device_kernel(root, header):
    """Its code, or a kernel that it includes by itself, has a part for devices alone."""
    path = next(p for p in headers(root) if p.stem == header)
    for name in re.findall(r'^#include "(halogen/(?:kernels|layers/convolution)/[^"]+)"', path.read_text(), re.MULTILINE):
        text = (root / "include" / name).read_text()
        if "device::" in text or "/device/" in text:
            return True
    return False


COUNTED = re.compile(r"\b(\d+) layers and windows|[Oo]f (\d+) layers and windows|\| Halogen \| (\d+) \|")


def of_the_counts(root):
    """Prose that says how many layers and windows ./dev bench breadth runs. CHANGELOG.md says what was."""
    count = len(layer_table.table())
    for path in [root / "README.md", root / "dev", *sorted((root / "docs").rglob("*.md"))]:
        for found in COUNTED.finditer(path.read_text()):
            said = next(number for number in found.groups() if number)
            if int(said) != count:
                yield f"{path.relative_to(root)}: says {said} layers and windows, and layer_table.table() has {count}"
    rows = re.findall(r"^\| (?!layer|Halogen|DTensor|ShardTensor|-)[^|]+ \| (?:right|wrong|refused)", (root / "docs/breadth.md").read_text(), re.M)
    if len(rows) != count:
        yield f"docs/breadth.md: has {len(rows)} rows of layers, and layer_table.table() has {count}: run ./dev bench breadth"
    totals = re.findall(r"^\| (Halogen|DTensor|ShardTensor) \| (\d+) \| (\d+) \| (\d+) \|", (root / "docs/breadth.md").read_text(), re.M)
    for who, *numbers in totals:
        if sum(map(int, numbers)) != count:
            yield f"docs/breadth.md: the numbers of {who} sum to {sum(map(int, numbers))}, and layer_table.table() has {count}"


def faults(root):
    table = list(of_the_table(root))
    yield from table
    if not table:
        yield from of_the_lists(root)
    yield from of_the_counts(root)


if __name__ == "__main__":
    found = list(faults(pathlib.Path(sys.argv[1]).resolve()))
    names = " ".join(layer_table.LAYERS.values()).split()
    print("\n".join(found) or f"{len(names)} layers of {len(layer_table.LAYERS)} headers are in all of their lists")
    sys.exit(1 if found else 0)
