#!/usr/bin/env python3
"""What the library instantiates for bench/compile's chains and U-Net stays what it was, and grows at most linearly.

    instantiations.py [--write] CXX FLAGS CCACHE     --write: the present counts become those expected

Counted are Halogen's functions in an object compiled with -O0, since every function that was instantiated and used is
in it. instantiations.json holds them by compiler and its major version; by another compiler only growth and the length
of symbols are checked.
"""
import concurrent.futures
import json
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent.parent / "bench" / "compile"))
import measure

NAMES = ("compile_chain_1", "compile_chain_4", "compile_chain_8", "compile_unet")
EXPECTED = HERE / "instantiations.json"
TOLERANCE = 0.1
LONGEST_SYMBOL = 1000  # characters


def faults_of(counts, longest, expected):
    """counts, longest: by name; expected: counts by name, or nothing."""
    for name, count in expected.items():
        if abs(counts[name] - count) > TOLERANCE * count:
            yield (f"{name}: {counts[name]} functions, {count} expected; if that is right, write it down: "
                   "tests/house/instantiations.py --write")
    if expected:
        grown, due = (c["compile_chain_8"] - c["compile_chain_1"] for c in (counts, expected))
        if abs(grown - due) > max(TOLERANCE * due, 8):
            yield f"seven layers more cost {grown} functions, {due} expected (--write, if that is right)"
    first = (counts["compile_chain_4"] - counts["compile_chain_1"]) / 3
    then = (counts["compile_chain_8"] - counts["compile_chain_4"]) / 4
    if then > (1 + TOLERANCE) * max(first, 1):
        yield f"a layer costs {first:.0f} functions up to depth 4, and {then:.0f} from there to 8: more than linear"
    for name, length in longest.items():
        if length > LONGEST_SYMBOL:
            yield f"{name}: a symbol of {length} characters, more than {LONGEST_SYMBOL}"


def count(compiler, flags, ccache):
    """({name: functions}, {name: characters of the longest symbol})."""
    prefix = [ccache] if ccache and not ccache.endswith("NOTFOUND") else []
    used = [line for line in pathlib.Path(flags).read_text().split("\n")
            if line not in ("", "-I", "-D", "-I/usr/include")]
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(max_workers=2) as pool:
        targets = {name: pathlib.Path(folder, name + ".o") for name in NAMES}
        commands = [measure.command([*prefix, compiler, "-fopenmp"], name, used, target, "-O0")
                    for name, target in targets.items()]
        list(pool.map(measure.run, commands))
        found = {name: measure.functions(target) for name, target in targets.items()}
    return {name: pair[0] for name, pair in found.items()}, {name: pair[1] for name, pair in found.items()}


def main():
    arguments = [word for word in sys.argv[1:] if word != "--write"]
    compiler, flags, ccache = arguments
    version = subprocess.run([compiler, "-dumpversion"], capture_output=True, text=True).stdout.split(".")[0].strip()
    clang = "clang" in subprocess.run([compiler, "--version"], capture_output=True, text=True).stdout
    key = f"{'clang' if clang else 'gcc'} {version}"
    pinned = json.loads(EXPECTED.read_text()) if EXPECTED.exists() else {}
    counts, longest = count(compiler, flags, ccache)
    print(key, counts, "longest symbols", longest)
    if "--write" in sys.argv:
        EXPECTED.write_text(json.dumps({**pinned, key: counts}, indent=1) + "\n")
        return 0
    faults = list(faults_of(counts, longest, pinned.get(key, {})))
    print("\n".join(faults))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
