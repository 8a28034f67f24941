#!/usr/bin/env python3
"""Halogen beside PyTorch on this machine's CPU: both sides in turn, in the same minutes, at the same thread counts.

    compare.py [--pairs N] [--threads 1,2] [filter...]      a filter is a name, a part of one, or a glob

Prints a line per name and thread count, with medians over all steps; ratio = peer / Halogen, so that above 1 Halogen is
the faster. The peer stands in its best layout, contiguous or channels_last, with huge pages. Both sides start from the
same parameters on the same data, and their results must agree. pairs: least, median and greatest ratio of one pair of
turns. others: cores that other processes kept busy meanwhile; more than a few hundredths, and the times are not to be
trusted, those with as many threads as cores least of all. Each turn is a new process.

Environment: HALOGEN_BUILD_DIRECTORY (programs; bench.json is written there), HALOGEN_CACHE (peers are installed
there), HALOGEN_PEERS (a virtual environment with torch and numpy, in place of that one).
"""

import argparse
import datetime
import fnmatch
import json
import os
import pathlib
import platform
import resource
import statistics
import subprocess
import sys

LAYOUTS = ("contiguous", "channels_last")
REQUIREMENTS = ("torch==2.15.0", "numpy")
# name: (program bench_X and peer X_torch.py, steps a turn)
BENCHES = {
    "unet_train": ("unet", 3),
    "unet_forward": ("unet", 5),
    "conv2d_8_forward": ("conv2d", 20),
    "conv2d_16_forward": ("conv2d", 10),
    "conv2d_32_forward": ("conv2d", 20),
}
here = pathlib.Path(__file__).resolve().parent


def say(text):
    print(f"compare: {text}", file=sys.stderr, flush=True)


def chosen_names(filters):
    """Names that match any filter, all of them without one."""
    names = []
    for text in filters or ["*"]:
        found = [text] if text in BENCHES else fnmatch.filter(BENCHES, text) or [n for n in BENCHES if text in n]
        if not found:
            raise SystemExit(f"bench: no name matches '{text}'; there are: {' '.join(BENCHES)}")
        names += found
    return [name for name in BENCHES if name in names]


def can_import_torch(python):
    return subprocess.run([python, "-c", "import numpy, torch"], capture_output=True).returncode == 0


def peer_python():
    """The interpreter with PyTorch, installed where need be, or None."""
    given = os.environ.get("HALOGEN_PEERS")
    cache = os.environ.get("HALOGEN_CACHE") or pathlib.Path.home() / ".cache" / "halogen"
    folder = pathlib.Path(given) if given else pathlib.Path(cache) / "peers"
    python = folder / "bin" / "python"
    if python.exists() and can_import_torch(python):
        return str(python)
    if given:
        say(f"{folder} has no Python with torch and numpy: no peer")
        return None
    say(f"installing {' '.join(REQUIREMENTS)} into {folder} (some GB, some minutes)")
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, text=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *REQUIREMENTS],
                       check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"that failed: no peer. {error} {(getattr(error, 'stderr', '') or '')[-500:]}")
        return None
    return str(python) if can_import_torch(python) else None


def busy_and_stolen():
    """Seconds of all cores together since boot; None where there is no /proc."""
    try:
        user, nice, system, _, _, irq, softirq, steal = map(int, pathlib.Path("/proc/stat").read_text().split()[1:9])
    except OSError:
        return None
    tick = os.sysconf("SC_CLK_TCK")
    return (user + nice + system + irq + softirq) / tick, steal / tick


class Meter:
    """CPU seconds that processes other than our children took, over wall seconds."""

    def __init__(self):
        self.others = self.stolen = self.wall = 0.0

    def run(self, command, environment):
        before, own, begin = busy_and_stolen(), self.children(), datetime.datetime.now()
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        if before is not None:
            after = busy_and_stolen()
            self.others += after[0] - before[0] - (self.children() - own)
            self.stolen += after[1] - before[1]
            self.wall += (datetime.datetime.now() - begin).total_seconds()
        return done

    def cores(self):
        return None if not self.wall else max(0.0, self.others / self.wall)

    @staticmethod
    def children():
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime


def environment(threads):
    result = dict(os.environ, OMP_NUM_THREADS=str(threads), THP_MEM_ALLOC_ENABLE="1")
    for name in ("KOKKOS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_PROC_BIND", "OMP_PLACES", "OMP_WAIT_POLICY"):
        result.pop(name, None)
    return result


def turn(meter, command, threads):
    """One process; what it printed, or None where it failed."""
    done = meter.run(command, environment(threads))
    if done.returncode != 0:
        say(f"{' '.join(command)} failed ({done.returncode}): {done.stderr.strip()[-500:]}")
        return None
    line = json.loads(done.stdout.strip().splitlines()[-1])
    if line["threads"] != threads:
        raise SystemExit(f"bench: {command[0]} ran {line['threads']} threads, not {threads}")
    return line


def compare(name, threads, pairs, build, python):
    """All turns of one name: Halogen, then the peer in each layout, and again."""
    kind, steps = BENCHES[name]
    program = str(build / "bench" / f"bench_{kind}")
    parameters = build / "bench" / f"{name}.parameters"
    subprocess.run([program, "--name", name, "--parameters", str(parameters)], env=environment(threads), check=True)
    ours = [program, "--name", name, "--steps", str(steps)]
    theirs = [python, str(here.parent / "peers" / f"{kind}_torch.py"), "--name", name, "--steps", str(steps),
              "--parameters", str(parameters)]
    sides = {"halogen": ours}
    if python:
        sides.update({layout: [*theirs, "--layout", layout] for layout in LAYOUTS})
    meter, turns = Meter(), {side: [] for side in sides}
    for _ in range(pairs):
        for side, command in list(sides.items()):
            line = turn(meter, command, threads)
            if line is None and side == "halogen":
                raise SystemExit(1)
            if line is None:
                del sides[side], turns[side]
            else:
                turns[side].append(line)
    medians = {side: statistics.median([ms for line in lines for ms in line["milliseconds"]])
               for side, lines in turns.items()}
    record = {"name": name, "threads": threads, "halogen_ms": medians["halogen"], "peer": "none", "medians": medians,
              "others": meter.cores(), "stolen_s": meter.stolen, "load_average": os.getloadavg(), "turns": turns}
    ours_result = turns["halogen"][0]["result"]
    for side, lines in turns.items():
        if abs(lines[0]["result"] - ours_result) > 1e-3 * abs(ours_result):
            raise SystemExit(f"bench: {name}: {side} gives {lines[0]['result']}, Halogen {ours_result}: other work")
    settings = [side for side in medians if side != "halogen"]
    if settings:
        best = min(settings, key=medians.get)
        record.update(peer="torch", peer_ms=medians[best], setting=best, ratio=medians[best] / medians["halogen"])
        # each pair's own ratio: how far to trust the one above
        halves = zip(turns["halogen"], turns[best])
        record["pair_ratios"] = [statistics.median(b["milliseconds"]) / statistics.median(a["milliseconds"])
                                 for a, b in halves]
    return record


def text(record):
    line = f"bench: name={record['name']} threads={record['threads']} halogen_ms={record['halogen_ms']:.2f} "
    line += f"peer={record['peer']}"
    if record["peer"] != "none":
        pairs = record["pair_ratios"]
        line += (f" peer_ms={record['peer_ms']:.2f} ratio={record['ratio']:.2f} setting={record['setting']}"
                 f" pairs={min(pairs):.2f}/{statistics.median(pairs):.2f}/{max(pairs):.2f}")
    if record["others"] is not None:
        line += f" others={record['others']:.2f}"
    return line


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    options = parser.parse_args()
    names = chosen_names(options.filters)
    if options.pairs < 1:
        raise SystemExit("bench: --pairs wants at least 1")
    build = pathlib.Path(os.environ.get("HALOGEN_BUILD_DIRECTORY", here.parent.parent / "build" / "host"))
    python = peer_python()
    records = []
    for name in names:
        for threads in map(int, options.threads.split(",")):
            records.append(compare(name, threads, options.pairs, build, python))
            print(text(records[-1]), flush=True)
            if (records[-1]["others"] or 0) > 0.1:
                say("the machine was busy with other things: repeat this when it is quiet")
            machine = {"when": datetime.datetime.now().isoformat(timespec="seconds"), "cores": os.cpu_count(),
                       "processor": platform.processor() or platform.machine()}
            (build / "bench.json").write_text(json.dumps({"machine": machine, "records": records}, indent=1) + "\n")


if __name__ == "__main__":
    main()
