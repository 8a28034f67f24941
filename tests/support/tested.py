"""What the C++ tests name: a source as blocks of its outermost declarations, and for each test case what it reaches.

Statement by statement where one statement holds both what is looked for and the name, since a case may hold several
layers of which one alone is compared with PyTorch; else by the whole case.
"""
import functools
import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
WORD = re.compile(r"[A-Za-z_]\w*")
NAMED = re.compile(r"\b(?:struct|class|using|concept|enum class)\s+(\w+)")
MACRO = re.compile(r"#define (\w+)")
CALLED = re.compile(r"([A-Za-z_]\w*)\s*(?:\(|=|\{|;)")
MODEL = re.compile(r"\bhg::(\w+)")
OF_A_NAME = re.compile(r"^#define (\w+)\((\w+)\) (.*)$", re.MULTILINE)
CASE = re.compile(r"TEST_CASE\w*\(")
INCLUDED = re.compile(r'#include "(support/\w+\.hpp|instantiate\.hpp)"')
NO_CODE = re.compile(r'//[^\n]*|/\*.*?\*/', re.DOTALL)
QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)+\'')


def path_of(name, *folders):
    """The file of this name, wherever it lies below the folders."""
    found = [p for folder in folders for p in sorted((ROOT / folder).rglob(name))]
    if len(found) != 1:
        raise SystemExit(f"{name}: {len(found)} files of this name below {', '.join(folders)}, one is wanted")
    return found[0]


def blocks(text):
    """(name, text) of each declaration that begins a line; the name of a test case is None."""
    text = NO_CODE.sub("", text)
    block, depth, macro = [], 0, False
    for line in text.split("\n"):
        if not block and (not line.strip() or line.startswith(("namespace", "}", "#include", "#if", "#e", "#pragma", "#undef"))):
            continue
        macro = macro or (not block and line.startswith("#define"))
        block.append(line)
        code = QUOTED.sub('""', line)
        depth += sum(code.count(c) for c in "({[") - sum(code.count(c) for c in ")}]")
        ends = not line.endswith("\\") if macro else depth <= 0 and code.rstrip().endswith((";", "}"))
        if ends:
            yield name_of("\n".join(block)), "\n".join(block)
            block, depth, macro = [], 0, False


def name_of(block):
    if CASE.match(block):
        return None
    head = block
    while head.startswith("template"):  # <..., which may hold others>
        depth = 0
        for at, c in enumerate(head):
            depth += (c == "<") - (c == ">" and head[at - 1] != "-")
            if c == ">" and depth == 0:
                break
        head = head[at + 1:].lstrip()
        if head.startswith("requires"):
            head = head.split("\n", 1)[-1].lstrip()
    for pattern in (MACRO, NAMED):
        if (found := pattern.match(head)) or (pattern is NAMED and (found := pattern.search(head.split("{")[0].split("=")[0]))):
            return found[1]
    found = CALLED.search(head)
    return found[1] if found else ""


def declared(path):
    names = {}
    for name, text in blocks(path.read_text()):
        if name:
            names[name] = names.get(name, "") + "\n" + text
    return names


@functools.cache
def shared(path):
    """Declarations of a header of the tests and of those that it includes."""
    names = {}
    for included in INCLUDED.findall(path.read_text()):
        for folder in (ROOT / "tests", path.parent):
            if (folder / included).exists():
                names |= shared(folder / included)
                break
    return names | declared(path)


@functools.cache
def models():
    names = {}
    for path in sorted((ROOT / "include/halogen/models").rglob("*.hpp")):
        names |= declared(path)
    return names


def expanded(text):
    """The text with the macros of one name written out that call hg:: by it."""
    for macro, parameter, body in OF_A_NAME.findall(text):
        if f"hg::{parameter}" in body:
            text = re.sub(rf"^(\s*){macro}\((\w+)\)$", lambda m: m[1] + re.sub(rf"#?\b{parameter}\b", m[2], body), text,
                          flags=re.MULTILINE)
    return text


class Source:
    """cases: the texts of the test cases (all of the text where there is none)."""

    def __init__(self, path):
        text = expanded(path.read_text())
        self.local = declared(path)
        self.outer = {}
        for included in INCLUDED.findall(text):
            for folder in (ROOT / "tests", path.parent):
                if (folder / included).exists():
                    self.outer |= shared(folder / included)
                    break
        self.cases = [block for name, block in blocks(text) if name is None] or [NO_CODE.sub("", text)]

    def reached(self, text, local_alone=False):
        """The text, and all declarations that it names, and that those name; models where they stand as hg::NAME."""
        seen, todo, texts = set(), [(text, False)], []
        while todo:
            at, of_model = todo.pop()
            texts.append(at)
            code = QUOTED.sub('""', at)
            for name in MODEL.findall(code) if not of_model else WORD.findall(code):
                if name not in seen and name in models() and not local_alone and name[0].isupper():
                    seen.add(name)
                    todo.append((models()[name], True))
            for word in () if of_model else WORD.findall(code):
                if word not in seen and (word in self.local or not local_alone and word in self.outer):
                    seen.add(word)
                    todo.append((self.local.get(word) or self.outer[word], False))
        return "\n".join(texts)


@functools.cache
def source(path):
    return Source(path)


def parts(case):
    """The statements of a case."""
    return [s for s in case.split(";\n") if s.strip()]


@functools.cache
def reached(path, text, local_alone=False):
    return source(path).reached(text, local_alone)


@functools.cache
def words(path, text, local_alone=False):
    """Types, and functions where they stand as hg::NAME: sin(x) may be the standard library's."""
    found = reached(path, text, local_alone)
    return frozenset(w for w in WORD.findall(found) if w[0].isupper()) | frozenset(MODEL.findall(found))


def places(path, name, marker, others=frozenset()):
    """Texts of this source that reach both the name and the marker, a pattern: statements, and the whole case only
    where the marker stands in a statement without any of `others`, as what a file of references is opened by."""
    found = []
    for case in source(path).cases:
        if name not in words(path, case) or not marker.search(reached(path, case)):
            continue
        marked = [s for s in parts(case) if marker.search(reached(path, s))]
        statements = [s for s in marked if name in words(path, s)]
        if statements:
            found += statements
        elif any(not others & words(path, s) for s in marked):
            found.append(case)
    return found


OPENED = re.compile(r"^(?:inline )?namespace ([\w:]+) \{")
TYPE = re.compile(r"^(?:struct|class|using) (\w+)\b(?!::| namespace)")
COMMENT_OR_QUOTED = re.compile(r"//.*|'(?:[^'\\]|\\.)'|\"(?:[^\"\\]|\\.)*\"")
FUNCTION = re.compile(r"^(?:(?:constexpr|inline|static|KOKKOS_\w+|\[\[nodiscard\]\]) )*(?:auto|decltype\(auto\)|[\w:<>, ]+?) (\w+)\("
                      r"|^HALOGEN_\w+\((?:\w+, )?(\w+)")


def outer_lines(path):
    """Lines of a header that stand in namespace halogen itself. Raises where its braces cannot be followed."""
    spaces, depth = [], 0  # (name, depth of its braces) of the namespaces that are open
    for line in path.read_text().splitlines():
        opened = OPENED.match(line)
        if [name for name, _ in spaces] == ["halogen"] and depth == 1:
            yield line
        code = COMMENT_OR_QUOTED.sub("", line)
        depth += code.count("{") - code.count("}")
        if opened:
            spaces.append((opened[1], depth))
        while spaces and depth < spaces[-1][1]:
            spaces.pop()
    if depth != 0:
        raise ValueError(f"{path}: its braces do not pair")


def public_types(path):
    return list(dict.fromkeys(m[1] for line in outer_lines(path) if (m := TYPE.match(line))))


def public_functions(path):
    return list(dict.fromkeys(m[1] or m[2] for line in outer_lines(path) if (m := FUNCTION.match(line))))


def _imported(name):
    import importlib
    import sys
    if str(ROOT / "tests/support") not in sys.path:
        sys.path.insert(0, str(ROOT / "tests/support"))
    return importlib.import_module(name)


@functools.cache
def breadth():
    """name of a layer -> the dimensions in which ./dev bench breadth runs it."""
    return _layers_of(_imported("layer_table").table())


@functools.cache
def drawn():
    """The same of ./dev fuzz layers, by what 2000 of its models hold."""
    draw = _imported("draw_layers")
    return _layers_of(draw.Model(2026, number) for number in range(2000))


def _layers_of(models_):
    found = {}
    for model in models_:
        for name in MODEL.findall(model.cpp):
            found.setdefault(name, set()).add(model.dims)
    return found


def all_words(*paths):
    """Every word that these sources reach."""
    return set().union(*(words(path, path.read_text()) for path in paths))


def random_plans():
    return all_words(path_of("random_plans.cpp", "tests"))


def cuda():
    """What the program holds that is compiled for CUDA, and run where there is a GPU."""
    return all_words(*sorted((ROOT / "tests/cuda").rglob("instantiate*.cpp")))


def device_kernels():
    """What is run by the device parts of kernels on host threads (halogen_device_kernels in tests/CMakeLists.txt)."""
    listed = re.findall(r"^  halogen_device_kernels\(\w+ \w+([^)]*)\)", (ROOT / "tests/CMakeLists.txt").read_text(), re.MULTILINE)
    names = sorted({name for group in listed for name in group.split()} - {"unit/plan_fingerprints.cpp"})  # that runs no kernel
    if not names or any("$" in name for name in names):
        raise SystemExit("tests/CMakeLists.txt: halogen_device_kernels takes paths that are written out, which scripts read")
    return all_words(*(ROOT / "tests" / name for name in names))
