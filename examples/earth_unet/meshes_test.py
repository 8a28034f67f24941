#!/usr/bin/env python3
"""meshes_test.py PROGRAM WRITER --launcher 'mpiexec -n': earth_diffusion, earth_transformer or forecast as its users start it, on a
small data set.

The result does not depend on the mesh but for rounding; wrong input ends all ranks with one sentence.
"""
import argparse
import pathlib
import shlex
import subprocess
import sys
import tempfile

from bad_input_test import CRASH, Program

PLOT = pathlib.Path(__file__).parents[2] / "scripts" / "plot_losses"
MESHES = {"earth_diffusion": ["1x1", "2x2", "1x3"], "earth_transformer": ["1x1", "2x2", "1x3"],
          "forecast": ["2x2", "3x1"]}
WORDS = {"earth_diffusion": ["--members", "4"], "earth_transformer": [], "forecast": []}
FILES = {"earth_diffusion": ["members.png", "unet_loss.jsonl", "diffusion_loss.jsonl", "weights.safetensors"],
         "earth_transformer": ["held_out.png", "unet_loss.jsonl", "transformer_loss.jsonl", "transformer.safetensors"],
         "forecast": ["forecast.png", "forecast.zarr/state/zarr.json", "ocean.zarr/eta/zarr.json", "forecast_loss.jsonl"]}
MESH_REFUSED = (["--mesh", "3x1"], "--mesh 3x1 needs 3 ranks and 4 are running")
REFUSALS = {"earth_diffusion": [MESH_REFUSED, (["--members", "1"], "--members 1 is no ensemble: give 2 or more"),
                                (["--grid", "7"], "there is no grid '7'")],
            "earth_transformer": [MESH_REFUSED], "forecast": [MESH_REFUSED]}


def draws(losses):
    """Whether scripts/plot_losses makes a picture of them."""
    picture = losses.with_suffix(".svg")
    done = subprocess.run([PLOT, losses, picture], check=False)
    return done.returncode == 0 and '<polyline fill="none" stroke="#1f77b4"' in picture.read_text()


def results_of(program, name, data, folder):
    """(faults, scores) of each mesh"""
    for mesh in MESHES[name]:
        height, width = map(int, mesh.split("x"))
        output = folder / mesh
        status, text = program.run(height * width, "--mesh", mesh, "--grid", "2", "--steps", "2", *WORDS[name], "--data",
                                   data, "--output", output, seconds=300)
        line = text.strip().splitlines()[-1]
        if status != 0 or not line.startswith(f"result: mesh={mesh} "):
            yield [f"{mesh}: status {status}: {text}"], {}
            continue
        missing = [file for file in FILES[name] if not (output / file).is_file()]
        losses = [file for file in FILES[name] if file.endswith(".jsonl") and file not in missing]
        missing += [f"picture of {file}" for file in losses if not draws(output / file)]
        yield [f"{mesh}: no {file}" for file in missing], dict(word.split("=") for word in line.split()[2:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("writer")
    parser.add_argument("--launcher", type=shlex.split, default=["mpirun", "-n"], help="before the number of ranks")
    arguments = parser.parse_args()
    name = pathlib.Path(arguments.program).name
    faults = []
    with tempfile.TemporaryDirectory(prefix=name + "_") as work:
        folder = pathlib.Path(work)
        data = folder / "data"
        if name == "forecast":  # WRITER is shallow_water's
            data.mkdir()
            subprocess.run([arguments.writer, data / "etopo1.jpg"], check=True)
        else:
            subprocess.run([arguments.writer, "--write-data", data], check=True)
        program = Program(arguments.program, arguments.launcher, 60)
        first = None
        for found, scores in results_of(program, name, data, folder):
            faults += found
            first = first or scores
            print(scores)
            for key, value in scores.items():
                if not abs(float(value) / float(first[key]) - 1) < 1e-3:
                    faults.append(f"{key} is {value}, on the first mesh {first[key]}")
        for words, sentence in REFUSALS[name]:
            status, text = program.run(4, "--data", data, *words)
            if status in (0, None) or text.count(sentence) != 1 or CRASH.search(text):
                faults.append(f"{words}: status {status}: {text}")
    print(*faults, sep="\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
