#!/usr/bin/env python3
"""bad_input_test.py WHAT PROGRAM WRITER --launcher 'mpiexec -n': earth_unet as its users start it.

refusals: wrong input ends every rank within seconds, non-zero, with one sentence: the value, the limit, what to do.
meshes: any mesh that fits comes to its result line.    parity: in double precision the mesh does not show in the loss.
WRITER --write-data FOLDER makes a small data set; `parity` takes the real one where it has been fetched.
"""
import argparse
import math
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time

FILES = IMAGE, RELIEF, LAND = "bmng.jpg", "etopo1.jpg", "globe_combined_mask_compressed.npz"
SENTENCE = re.compile(r"^(error|earth_unet)\b.*: ", re.MULTILINE)  # how everything that the program refuses begins
CRASH = re.compile(r"terminate called|MPI_ABORT|Segmentation|AddressSanitizer|runtime error:|Assertion")
RESULT = ["held_out_ratio", "held_out_rmse", "bilinear_rmse", "loss", "seconds_per_step", "activation_mib_per_rank",
          "activation_mib_single", "messages_per_step", "bytes_per_step"]


class Program:
    def __init__(self, path, launcher, seconds):
        self.path, self.launcher, self.seconds = path, launcher, seconds

    def run(self, ranks, *words, seconds=None):
        """(status, or None where it did not end in time; what it printed)"""
        process = subprocess.Popen([*self.launcher, str(ranks), self.path, *map(str, words)], start_new_session=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
        try:
            output, _ = process.communicate(timeout=seconds or self.seconds)
            return process.returncode, output
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGTERM)
            return None, process.communicate()[0]


def damaged(folder, data, name, change):
    """A copy of the data set in which one file is changed: bytes -> bytes, or None for no file."""
    folder.mkdir()
    for other in FILES:
        if other != name:
            (folder / other).symlink_to(data / other)
    content = change((data / name).read_bytes())
    if content is not None:
        (folder / name).write_bytes(content)
    return folder


def first_part(bytes_):
    return bytes_[:len(bytes_) * 6 // 10]


def late_bit(bytes_):  # of the compressed mask: only the rank in the far south comes that far
    at = len(bytes_) * 9 // 10
    return bytes_[:at] + bytes([bytes_[at] ^ 0xFF]) + bytes_[at + 1:]


def refusal_cases(work, data):
    """(name, ranks, arguments, what the sentence must hold)"""
    def spoilt(name, file, change, *words):
        folder = damaged(work / name.replace(" ", "_"), data, file, change)
        # cut along latitude, so that the ranks in the north can find nothing wrong
        return (name, 4, ["--mesh", "4x1", "--data", folder], [str(folder / file), *words, "scripts/data", "--data"])

    def blocked(name, file, make, *words):  # found only when the training has ended
        folder = work / name.replace(" ", "_")
        folder.mkdir()
        make(folder / file)
        return (name, 4, ["--output", folder], ["cannot write", str(folder / file), *words])

    plain_file = work / "plain_file"
    plain_file.write_text("x")
    here = ["--data", data]
    return [
        ("too few ranks", 4, ["--mesh", "2x3"], ["--mesh 2x3", "6 ranks", "4 are running", "-np 6", "--mesh 2x2"]),
        ("too many ranks", 4, ["--mesh", "1x1"], ["--mesh 1x1", "1 rank ", "4 are running", "--mesh 2x2"]),
        ("mesh with a zero", 4, ["--mesh", "0x4"], ["--mesh 0x4", "2x2"]),
        ("mesh of letters", 4, ["--mesh", "abc"], ["--mesh abc", "2x2"]),
        ("level without rows", 30, ["--mesh", "30x1", *here],
         ["30 x 1", "without any row", "level 2 of 22 x 45", "use fewer ranks in height"]),
        ("grid", 4, ["--grid", "3"], ["'3'", "0.25", "full"]),
        ("negative steps", 4, ["--steps", "-1"], ["--steps -1", "from 1"]),
        ("no steps", 4, ["--steps", "0"], ["--steps 0", "from 1"]),
        ("precision", 4, ["--precision", "half"], ["half", "float or double"]),
        ("rate of nan", 4, ["--learning-rate", "nan"], ["nan", "above 0"]),
        ("unknown flag", 4, ["--nonsense"], ["'--nonsense' is no argument", "--help"]),
        ("flag twice", 4, ["--steps", "2", "--steps", "3"], ["--steps", "give it once", "--help"]),
        ("flag without value", 4, ["--mesh"], ["--mesh", "needs one value", "--help"]),
        ("no data", 4, ["--data", work / "nowhere"], [str(work / "nowhere" / IMAGE), "scripts/data", "--data"]),
        spoilt("absent relief", RELIEF, lambda _: None, "it is not there"),
        spoilt("absent mask", LAND, lambda _: None, "it is not there"),
        spoilt("truncated image", IMAGE, first_part, "not a whole JPEG"),
        spoilt("truncated relief", RELIEF, first_part, "not a whole JPEG"),
        spoilt("empty image", IMAGE, lambda _: b"", "not a whole JPEG"),
        spoilt("image of text", IMAGE, lambda _: b"<html>404</html>", "not a whole JPEG"),
        spoilt("truncated mask", LAND, first_part, "zip"),
        spoilt("empty mask", LAND, lambda _: b"", "zip"),
        spoilt("damaged mask", LAND, late_bit, "damaged"),
        ("output below a file", 4, ["--output", plain_file / "there", *here], [str(plain_file), "--output"]),
        ("output is a file", 4, ["--output", plain_file, *here], [str(plain_file), "--output"]),
        ("output in proc", 4, ["--output", "/proc/there", *here], ["/proc/there", "--output"]),
        blocked("weights are a folder", "weights.safetensors", lambda path: path.mkdir()),
        blocked("picture on a full disk", "held_out.png", lambda path: path.symlink_to("/dev/full"), "--output"),
        ("huge learning rate", 4, ["--learning-rate", "1e30", "--steps", "5", *here],
         ["the loss at step 2", "not finite", "--learning-rate", "1e+30"]),
        ("huge learning rate at the last step", 4,
         ["--learning-rate", "1e300", "--precision", "double", "--steps", "1", *here],
         ["the prediction", "not finite", "--learning-rate", "1e+300"]),
    ]


def faults_of_refusal(program, ranks, words, needed):
    status, output = program.run(ranks, *words)
    sentences = [line for line in output.splitlines() if SENTENCE.match(line)]
    if status is None:
        yield f"did not end within {program.seconds} s"
    elif status == 0:
        yield "ended with status 0"
    if len(sentences) != 1:
        yield f"{len(sentences)} sentences in place of one"
    for word in needed:
        if sentences and word not in sentences[0]:
            yield f"the sentence lacks '{word}'"
    if CRASH.search(output) or "result:" in output:
        yield "looks like a crash, or came to a result"
    if sentences:
        print("   ", sentences[0])
    else:
        print(output)


def refusals(program, work, data):
    out = work / "output"
    for name, ranks, words, needed in refusal_cases(work, data):
        defaults = {"--grid": "2", "--steps": "1", "--output": out, "--data": data}
        more = [word for flag, value in defaults.items() if flag not in words for word in (flag, value)]
        start = time.monotonic()
        faults = list(faults_of_refusal(program, ranks, [*more, *words], needed))
        yield f"{name} ({time.monotonic() - start:.1f} s)", faults
    status, output = program.run(4, "--help")  # and nothing but ours: Kokkos has a --help of its own
    lines = output.strip().splitlines()
    faults = [] if status == 0 and lines[0].startswith("Trains") and output.count("--learning-rate") == 1 else [output]
    yield f"help ({len(lines)} lines)", faults + (["longer than a page"] if len(lines) > 40 else [])


def result_of(output, mesh):
    """The last line's fields as numbers; ValueError where it is none."""
    line = output.strip().splitlines()[-1]
    fields = dict(word.partition("=")[::2] for word in line.removeprefix("result: ").split(" "))
    if not line.startswith("result: ") or fields.pop("mesh", None) != mesh or list(fields) != RESULT:
        raise ValueError(f"no result line of mesh {mesh}: {output}")
    numbers = {name: float(value) for name, value in fields.items()}
    if not all(math.isfinite(number) and number >= 0 for number in numbers.values()):
        raise ValueError(f"not all finite: {line}")
    return numbers


def train(program, mesh, *words):
    height, width = map(int, mesh.split("x"))
    status, output = program.run(height * width, "--grid", "2", "--mesh", mesh, *words, seconds=600)
    if status != 0:
        raise ValueError(f"status {status}: {output}")
    return result_of(output, mesh)


def meshes(program, work, data):
    for mesh in ["1x1", "2x2", "1x3", "5x1", "2x3"]:
        output = work / mesh
        faults = []
        try:
            result = train(program, mesh, "--steps", "2", "--data", data, "--output", output)
            print("   ", result)
            for name in ["held_out.png", "earth_mesh.png", "loss.png"]:
                if (output / name).read_bytes()[:8] != b"\x89PNG\r\n\x1a\n":
                    faults.append(f"{name} is no PNG")
            if (output / "weights.safetensors").stat().st_size < 100_000:
                faults.append("the weights are missing")
        except (ValueError, OSError) as error:
            faults.append(str(error))
        yield mesh, faults


def parity(program, work, data):
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "halogen"
    real = pathlib.Path(os.environ.get("HALOGEN_CACHE") or cache) / "data"
    data = real if all((real / name).is_file() for name in FILES) else data
    print("data:", data)
    losses = {}
    for mesh in ["1x1", "2x2", "3x1"]:
        try:
            losses[mesh] = train(program, mesh, "--steps", "20", "--precision", "double", "--data", data, "--output",
                                 work / "output")["loss"]
            off = abs(losses[mesh] / losses.get("1x1", math.nan) - 1)
            yield f"{mesh}: loss {losses[mesh]!r}, off by {off:.1e}", [] if off <= 1e-10 else ["more than 1e-10"]
        except ValueError as error:
            yield mesh, [str(error)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["refusals", "meshes", "parity"])
    parser.add_argument("program")
    parser.add_argument("writer")
    parser.add_argument("--launcher", type=shlex.split, default=["mpirun", "-n"], help="before the number of ranks")
    parser.add_argument("--seconds", type=float, default=20, help="in which a refusal must have ended")
    arguments = parser.parse_args()
    work = pathlib.Path(tempfile.mkdtemp(prefix="earth_unet_"))
    try:
        data = work / "data"
        subprocess.run([arguments.writer, "--write-data", data], check=True)
        program = Program(arguments.program, arguments.launcher, arguments.seconds)
        failed = 0
        for name, faults in globals()[arguments.what](program, work, data):
            print(f"{'FAILED' if faults else 'ok'}: {name}", *faults, sep="\n    " if faults else " ", flush=True)
            failed += bool(faults)
        return 1 if failed else 0
    finally:
        shutil.rmtree(work)


if __name__ == "__main__":
    sys.exit(main())
