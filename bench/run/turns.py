"""Processes in turn: the sides of one comparison, again and again, and what else the machine did meanwhile."""

import datetime
import json
import os
import pathlib
import resource
import statistics
import subprocess

from peers import say


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

    def members(self):
        """What a record tells of it: cores that others kept busy, seconds that a hypervisor took."""
        return {"others": max(0.0, self.others / self.wall) if self.wall else None, "stolen_s": self.stolen}

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
    """One process; the JSON lines that it printed, or None where it failed."""
    done = meter.run(command, environment(threads))
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        say(f"{' '.join(command)} failed ({done.returncode}): {done.stderr.strip()[-500:]}")
        return None
    for line in lines:
        if line.get("threads", threads) != threads:
            raise SystemExit(f"bench: {command[0]} ran {line['threads']} threads, not {threads}")
    return lines


def interleave(sides, pairs, meter):
    """{side: a line of each turn} of {side: (command, threads)}. A peer that fails is left out; Halogen must not. Of
    processes that each print a line the slowest counts."""
    sides, turns = dict(sides), {side: [] for side in sides}
    for _ in range(pairs):
        for side, (command, threads) in list(sides.items()):
            lines = turn(meter, command, threads)
            if lines is None and str(side).startswith("halogen"):
                raise SystemExit(1)
            if lines is None:
                del sides[side], turns[side]
            else:
                turns[side].append(max(lines, key=lambda line: median_of([line])))
    return turns


def median_of(lines):
    """Over all steps of all turns."""
    return statistics.median([ms for line in lines for ms in line["milliseconds"]])


def ratios(ours, theirs):
    """Of each pair of turns by itself: how far to trust the ratio of the medians."""
    return [median_of([b]) / median_of([a]) for a, b in zip(ours, theirs)]


def check_results(name, turns, sides, tolerance=1e-3):
    """All sides computed the same."""
    first = turns[sides[0]][0]["result"]
    for side in sides:
        other = turns[side][0]["result"]
        if len(first) != len(other) or any(not abs(a - b) <= tolerance * abs(a) for a, b in zip(first, other)):
            raise SystemExit(f"bench: {name}: {side} gives {other}, {sides[0]} {first}: other work")
