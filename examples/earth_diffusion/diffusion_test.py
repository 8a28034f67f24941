#!/usr/bin/env python3
"""diffusion_test.py PROGRAM WRITER --launcher 'mpiexec -n': earth_diffusion as its users start it, on a small data set.

The ensemble does not depend on the mesh but for rounding; wrong input ends all ranks with one sentence.
"""
import argparse
import pathlib
import shlex
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "earth_unet"))
from bad_input_test import CRASH, Program  # noqa: E402

MESHES = ["1x1", "2x2", "1x3"]  # ranks along the members x along the rows
REFUSALS = [(["--members", "1"], "--members 1 is no ensemble: give 2 or more"),
            (["--mesh", "3x1"], "--mesh 3x1 needs 3 ranks and 4 are running"),
            (["--grid", "7"], "--grid 7")]


def results_of(program, data, folder):
    """(faults, scores) of each mesh"""
    for mesh in MESHES:
        members, rows = map(int, mesh.split("x"))
        output = folder / mesh
        status, text = program.run(members * rows, "--mesh", mesh, "--grid", "2", "--steps", "2", "--members", "4",
                                   "--data", data, "--output", output, seconds=300)
        line = text.strip().splitlines()[-1]
        if status != 0 or not line.startswith(f"result: mesh={mesh} members=4 "):
            yield [f"{mesh}: status {status}: {text}"], {}
            continue
        missing = [name for name in ("members.png", "unet_loss.svg", "diffusion_loss.svg", "weights.safetensors")
                   if not (output / name).is_file()]
        yield [f"{mesh}: no {name}" for name in missing], dict(word.split("=") for word in line.split()[3:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("writer")
    parser.add_argument("--launcher", type=shlex.split, default=["mpirun", "-n"], help="before the number of ranks")
    arguments = parser.parse_args()
    faults = []
    with tempfile.TemporaryDirectory(prefix="earth_diffusion_") as work:
        folder = pathlib.Path(work)
        data = folder / "data"
        subprocess.run([arguments.writer, "--write-data", data], check=True)
        program = Program(arguments.program, arguments.launcher, 60)
        first = None
        for found, scores in results_of(program, data, folder):
            faults += found
            first = first or scores
            print(scores)
            for name, value in scores.items():
                if not abs(float(value) / float(first[name]) - 1) < 1e-3:
                    faults.append(f"{name} is {value}, on the first mesh {first[name]}")
        for words, sentence in REFUSALS:
            status, text = program.run(4, "--data", data, *words)
            if status in (0, None) or text.count(sentence) != 1 or CRASH.search(text):
                faults.append(f"{words}: status {status}: {text}")
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
