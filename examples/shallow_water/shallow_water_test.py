#!/usr/bin/env python3
"""shallow_water_test.py WHAT PROGRAM WRITER --launcher 'mpiexec -n': shallow_water as its users start it.

refusals: wrong input ends every rank within seconds, non-zero, with one sentence: the value, and what to do.
meshes: any mesh comes to the same surface, to the bit, and to the same picture.    WRITER FILE makes a small sea floor.
"""
import argparse
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "earth_unet"))
from bad_input_test import CRASH, Program  # noqa: E402

SENTENCE = re.compile(r"^error: ", re.MULTILINE)


def refusals(program, work, data):
    plain, truncated = work / "plain", work / "truncated"
    plain.write_text("x")
    truncated.mkdir()
    picture = (data / "etopo1.jpg").read_bytes()
    (truncated / "etopo1.jpg").write_bytes(picture[:len(picture) // 2])
    cases = [
        ("mesh of too many ranks", ["--mesh", "2x3"], ["2 x 3", "6 ranks", "4 were started", "mpirun -n 6"]),
        ("mesh with a zero", ["--mesh", "0x4"], ["0 x 4", "positive"]),
        ("mesh of letters", ["--mesh", "abc"], ["--mesh abc", "2x2"]),
        ("negative steps", ["--steps", "-5"], ["'-5' is no value of --steps", "1 to 100000000", "--help"]),
        ("negative frames", ["--frames", "-1"], ["'-1' is no value of --frames", "0 to 100000", "--help"]),
        ("grid too coarse", ["--grid", "10"], ["'10'", "choose 2, 1"]),
        ("unknown flag", ["--nonsense"], ["'--nonsense' is no argument", "--help"]),
        ("no data", ["--data", work / "nowhere"], [str(work / "nowhere" / "etopo1.jpg"), "scripts/data", "--data"]),
        ("truncated data", ["--data", truncated], [str(truncated), "not a whole JPEG", "scripts/data"]),
        ("output below a file", ["--output", plain / "there"], [str(plain), "--output"]),
    ]
    for name, words, needed in cases:
        defaults = {"--grid": "2", "--steps": "1", "--frames": "0", "--data": data, "--output": work / "output"}
        more = [word for flag, value in defaults.items() if flag not in words for word in (flag, value)]
        status, output = program.run(4, *more, *words)
        sentences = [line for line in output.splitlines() if SENTENCE.match(line)]
        print("   ", *sentences)
        faults = [] if len(sentences) == 1 else [f"{len(sentences)} sentences in place of one: {output}"]
        faults += ["did not end, or with status 0"] if not status else []
        faults += [f"the sentence lacks '{word}'" for word in needed if sentences and word not in sentences[0]]
        faults += ["looks like a crash, or came to a result"] if CRASH.search(output) or "result:" in output else []
        yield name, faults


def meshes(program, work, data):
    expected = {}
    for mesh in ["1x1", "2x2", "1x3", "5x1", "2x3", "7x1"]:
        height, width = map(int, mesh.split("x"))
        status, output = program.run(height * width, "--mesh", mesh, "--grid", "2", "--steps", "400", "--frames", "3",
                                     "--data", data, "--output", work / mesh, seconds=600)
        surface = re.search(r"highest=\S+ lowest=\S+", output)
        if status != 0 or not surface:
            yield mesh, [f"status {status}: {output}"]
            continue
        print("   ", output.strip().splitlines()[-1])
        found = {"surface": surface.group(), "picture": (work / mesh / "frame_003.png").read_bytes()}
        expected = expected or found
        yield mesh, [f"another {what} than on one rank" for what in found if found[what] != expected[what]]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["refusals", "meshes"])
    parser.add_argument("program")
    parser.add_argument("writer")
    parser.add_argument("--launcher", type=shlex.split, default=["mpirun", "-n"], help="before the number of ranks")
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="shallow_water_"))
    try:
        data = work / "data"
        data.mkdir()
        subprocess.run([arguments.writer, data / "etopo1.jpg"], check=True)
        failed = 0
        program = Program(arguments.program, arguments.launcher, 60)
        for name, faults in globals()[arguments.what](program, work, data):
            print(f"{'FAILED' if faults else 'ok'}: {name}", *faults, sep="\n    " if faults else " ", flush=True)
            failed += bool(faults)
        return 1 if failed else 0
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
