"""halogen.compile: a C++ model becomes a library by the user's compiler, once; afterwards it comes from a cache."""
import hashlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import time

from ._model import Exported

LOSSES = {name: f"hg::{name}" for name in ("mse", "l1", "huber", "smooth_l1", "bce_with_logits", "cross_entropy",
                                           "binary_cross_entropy", "kl_div", "poisson_nll", "gaussian_nll", "dice", "crps")}
OPTIMIZERS = {"adamw": "hg::AdamW", "adam": "hg::Adam", "sgd": "hg::SGD", "rmsprop": "hg::RMSprop",
              "adagrad": "hg::Adagrad", "lion": "hg::Lion", "lamb": "hg::LAMB"}
TYPES = {"float32": "float", "float64": "double"}


class CompileError(RuntimeError):
    """The compiler's words are on standard error, and in .log."""

    def __init__(self, sentence, log):
        super().__init__(sentence)
        self.log = log


def say(text):
    print(f"halogen: {text}", file=sys.stderr, flush=True)


def root_of():
    """Where Halogen is: a prefix in which it was installed, or its sources; and where Kokkos is."""
    try:
        from . import _where
    except ImportError:  # a source tree that was not installed
        _where = None
    paths = os.environ.get("CMAKE_PREFIX_PATH", _where.PREFIX_PATH if _where else "")
    root = pathlib.Path(os.environ.get("HALOGEN_ROOT") or (_where.ROOT if _where else pathlib.Path(__file__).parents[2]))
    if not (root / "include" / "halogen" / "export.hpp").exists():
        raise FileNotFoundError(f"Halogen is not in '{root}': set HALOGEN_ROOT to the prefix of its cmake --install")
    return root, paths


def cache_of():
    base = os.environ.get("HALOGEN_CACHE") or pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "halogen"
    return pathlib.Path(base) / "models"


def hash_of(*parts):
    total = hashlib.sha256()
    for part in parts:
        total.update(str(part).encode() + b"\0")
    return total.hexdigest()[:20]


def hash_of_files(files):
    return hash_of(*[hashlib.sha256(pathlib.Path(f).read_bytes()).hexdigest() for f in files])


def source_of(header, model, dtype, loss, optimizer):
    def named(table, name):
        return table.get(str(name).lower(), name)  # or C++: "hg::HuberLoss{{.delta = 2}}"

    if dtype not in TYPES:
        raise ValueError(f"dtype is {dtype!r}: give 'float32' or 'float64'")
    training = f", {named(LOSSES, loss)}, {named(OPTIMIZERS, optimizer)}" if loss else ""
    include = f'#include "{header}"\n' if header else ""
    return (f"#include <halogen/export.hpp>\n{include}using namespace halogen;  // UNet as hg::UNet\n"
            f"HALOGEN_EXPORT(model, {model}, {TYPES[dtype]}{training});\n")


def run(command, folder, log, what):
    """Runs it, with a line of progress on standard error; throws with the end of its words."""
    words = []
    process = subprocess.Popen(command, cwd=folder, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    for line in process.stdout:
        words.append(line)
        if sys.stderr.isatty() and re.match(r"\[\d+/\d+\]|--", line):
            print(f"\rhalogen: {what}: {line.rstrip()[:100]:<100}", end="", file=sys.stderr, flush=True)
    if sys.stderr.isatty():
        print("\r" + " " * 120 + "\r", end="", file=sys.stderr, flush=True)
    text = "".join(words)
    with open(log, "a") as file:
        file.write(text)
    if process.wait() != 0:
        errors = [line for line in words if "error:" in line or "Error" in line]
        print("".join(errors[:3] or words[-20:]), file=sys.stderr)
        raise CompileError(f"{what} failed: {(errors or words or ['no word'])[0].strip()} (the whole log: {log})", text)


def build(folder, source, root, paths):
    if shutil.which("cmake") is None:
        raise FileNotFoundError("there is no cmake: install CMake 3.23 or newer, which asks the compiler")
    (folder / "model.cpp").write_text(source)
    installed = next(root.glob("lib*/cmake/halogen/halogenConfig.cmake"), None)
    found = f'find_package(halogen REQUIRED PATHS "{installed.parent}" NO_DEFAULT_PATH)' if installed else \
        f'add_subdirectory("{root}" halogen EXCLUDE_FROM_ALL)'
    (folder / "CMakeLists.txt").write_text(f"cmake_minimum_required(VERSION 3.23)\nproject(model CXX)\n{found}\n"
                                           "halogen_export(model model.cpp)\n")
    log = folder / "log"
    generator = ["-G", "Ninja"] if shutil.which("ninja") else []
    run(["cmake", "-S", ".", "-B", "build", *generator, "-DCMAKE_BUILD_TYPE=Release", "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
         f"-DCMAKE_PREFIX_PATH={paths}"], folder, log, "configuring")
    run(["cmake", "--build", "build", "--target", "model"], folder, log, "compiling")
    return next((folder / "build").glob("libmodel.*"))


def included_by(folder, header, root):
    """The user's own files that the header includes, itself too, as the compiler tells."""
    commands = json.loads((folder / "build" / "compile_commands.json").read_text())
    command = next(c for c in commands if c["file"].endswith("model.cpp"))["command"]
    command = re.sub(r" -o \S+| -c ", " ", command)
    told = subprocess.run(command + " -MM", shell=True, text=True, capture_output=True, cwd=folder / "build")
    home = pathlib.Path(header).parent
    files = [pathlib.Path(f) for f in told.stdout.replace("\\\n", " ").split()[1:]]
    def is_own(file):
        return home in file.parents and folder.resolve() not in file.parents and root.resolve() not in file.parents

    return sorted({str(f.resolve()) for f in files if is_own(f.resolve())} | {str(header)})


def compile(header, model, dtype="float32", loss=None, optimizer=None):
    """The model of this C++ type, whose header is the user's (or None, for a model of Halogen's own). A name without ::
    is looked up in halogen too. loss and optimizer ("mse", "adamw", or C++): with them it trains; Model.trainer asks for
    them by itself. The first call takes as long as the compiler does, which says its progress on standard error; then
    the library comes from a cache, by the hash of the sources, of Halogen, of the compiler and its flags.

    Throws CompileError with the compiler's first error, FileNotFoundError where Halogen, CMake or the header is not."""
    if loss and not optimizer or optimizer and not loss:
        raise ValueError("give both a loss and an optimizer, or none")
    if header is not None:
        header = pathlib.Path(header).resolve(strict=True)
    root, paths = root_of()
    source = source_of(header, model, dtype, loss, optimizer)
    own = [f for f in sorted((root / "include" / "halogen").rglob("*")) if f.suffix in (".hpp", ".h", ".inc")]
    compiler = os.environ.get("CXX", "c++")
    told = subprocess.run([*compiler.split(), "--version"], text=True, capture_output=True)
    try:
        flags = [line for line in open("/proc/cpuinfo") if line.startswith(("flags", "Features"))][:1]
    except OSError:
        flags = []
    key = hash_of(source, hash_of_files(own), told.stdout, os.environ.get("CXXFLAGS", ""), root, paths, flags)
    folder = cache_of() / key

    def retrain(loss, optimizer):
        return compile(header, model, dtype, loss, optimizer)

    kept = folder / "kept.json"
    if kept.exists():
        told = json.loads(kept.read_text())
        if all(pathlib.Path(f).exists() for f in told["files"]) and hash_of_files(told["files"]) == told["hash"]:
            return Exported(folder / told["library"], "model", retrain)
    say(f"compiling {model}, once")
    work = folder.parent / f"{key}.{os.getpid()}"
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    try:
        library = build(work, source, root, paths)
        files = included_by(work, header, root) if header else []
        folder.mkdir(exist_ok=True)
        name = f"libmodel-{hash_of(os.getpid(), time.time_ns())}{library.suffix}"  # one that is loaded is not written over
        shutil.copy(library, folder / name)
        work_kept = work / "kept.json"
        work_kept.write_text(json.dumps({"library": name, "files": files, "hash": hash_of_files(files)}))
        work_kept.replace(kept)
    except CompileError:
        say(f"what was compiled is in {work}")
        raise
    shutil.rmtree(work, ignore_errors=True)
    return Exported(folder / name, "model", retrain)
