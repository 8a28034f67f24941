"""breadth.py BUILD: every layer of tests/support/layer_table.py on 2 ranks, its width cut, by Halogen, DTensor and
ShardTensor: right, wrong or refused beside PyTorch whole. Prints the table and writes docs/breadth.md."""
import collections
import os
import pathlib
import re
import select
import signal
import subprocess
import sys

import peers

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "support"))
import layer_table  # noqa: E402

MOST_SECONDS = 60  # of an entry that hangs


def of_halogen(build, python):
    program = pathlib.Path(build, "tests", "table_layers")
    folder = pathlib.Path(build, "tests", "drawn", "table_layers")
    subprocess.run([python, str(ROOT / "tests/support/draw_layers.py"), "references", "--table", "--cases", "1", "--out",
                    str(folder)], check=True)
    done = subprocess.run(["mpirun", "-n", "2", str(program), "--data", str(folder), "--each", "1"],
                          stdout=subprocess.PIPE, text=True)
    found = {}
    counts = re.findall(r"^(\d+): (\d+) right, (\d+) wrong, (\d+) refused", done.stdout, re.MULTILINE)
    for number, right, wrong, refused in counts:
        found[int(number)] = "wrong" if int(wrong) else "refused" if int(refused) or not int(right) else "right"
    return found


def of_peer(peer, python, count):
    """Started again behind an entry that hangs or ends the program."""
    found, begin = {}, 0
    while begin < count:
        command = [python, "-m", "torch.distributed.run", "--nproc-per-node", "2", str(ROOT / "bench/peers/breadth.py"),
                   "--peer", peer, "--from", str(begin)]
        run = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                               env=os.environ | {"OMP_NUM_THREADS": "1"}, start_new_session=True)
        lines = read_lines(run)
        for number, text in (line.split(" ", 1) for line in lines):
            found[int(number)] = text
        done = max((int(line.split(" ", 1)[0]) for line in lines), default=begin - 1)
        if done < count - 1:
            found[done + 1] = "refused: it hangs or ends the program"
        begin = done + 2 if done < count - 1 else count
    return found


def read_lines(run):
    """What it prints until it ends or says nothing for MOST_SECONDS."""
    text = ""
    while True:
        ready, _, _ = select.select([run.stdout], [], [], MOST_SECONDS)
        more = os.read(run.stdout.fileno(), 65536).decode() if ready else ""
        if not more:
            break
        text += more
    lines = [line for line in text.splitlines() if re.match(r"\d+ (right|wrong|refused)", line)]
    if run.poll() is None:
        os.killpg(run.pid, signal.SIGKILL)
    run.wait()
    return lines


def main():
    if len(sys.argv) != 2:
        raise SystemExit("breadth: give the build's folder, as build/host, or run ./dev bench breadth")
    build = sys.argv[1]
    if not pathlib.Path(build, "tests", "table_layers").exists():
        raise SystemExit(f"breadth: '{build}' has no tests/table_layers: run ./dev bench breadth, which builds it")
    python = peers.torch_with_files()
    if python is None:
        raise SystemExit("breadth: no PyTorch to compare with")
    table = layer_table.table()
    columns = {"Halogen": of_halogen(build, python), "DTensor": of_peer("dtensor", python, len(table))}
    if peers.physicsnemo() is not None:
        columns["ShardTensor"] = of_peer("shardtensor", peers.physicsnemo(), len(table))
    versions = subprocess.run([python, "-c", "import torch; print(torch.__version__)"], stdout=subprocess.PIPE,
                              text=True).stdout.strip()
    lines = ["# Breadth: layers on two ranks", "",
             f"`./dev bench breadth` runs each layer of `tests/support/layer_table.py`, {len(table)} layers and windows, alone on 2",
             "ranks that share its width, and compares the output, the gradient of the input and those of all parameters with PyTorch's",
             f"of the whole field, in double. PyTorch {versions} over gloo, on a CPU. *Wrong* is another number or another shape",
             "without a word; *refused* is an error, or no end. Halogen ran every mesh of 2 ranks, those that cut the height or the batch too,",
             "and a row is right only where all are.", "",
             "DTensor of this PyTorch calls the output of most convolutions `Replicate` while each rank has a piece of it, so that",
             "`full_tensor()` is a piece. ShardTensor, PhysicsNeMo 2.2.2, ends with this PyTorch in an assertion of DTensor's in norms,",
             "rolls and slices; with the version that it was made for it may do better.", "",
             "| | right | wrong | refused |", "|---|---|---|---|"]
    for name, found in columns.items():
        counts = collections.Counter(found.get(k, "refused").split()[0].rstrip(":") for k in range(len(table)))
        lines.append(f"| {name} | {counts['right']} | {counts['wrong']} | {counts['refused']} |")
    lines += ["", f"| layer | {' | '.join(columns)} |", "|---" * (1 + len(columns)) + "|"]
    for number, entry in enumerate(table):
        cells = [found.get(number, "refused") for found in columns.values()]
        lines.append(f"| {entry.name} | " + " | ".join(short(cell) for cell in cells) + " |")
    text = "\n".join(lines) + "\n"
    print(text)
    (ROOT / "docs" / "breadth.md").write_text(text)


def short(text):
    return text if not text.startswith("refused") else "refused"


main()
