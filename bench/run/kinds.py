"""How each kind of name is measured: functions of (name, a Run) that yield records."""

import json
import os
import pathlib
import subprocess
import sys

import names
import peers
import turns

SETTINGS = ("contiguous", "channels_last", "compile")
COMPILE = pathlib.Path(__file__).resolve().parent.parent / "compile" / "measure.py"


class Run:
    """What a call of bench.py is about: where the programs are, how often, what the machine can do."""

    def __init__(self, build, pairs, threads, settings):
        self.build, self.pairs, self.threads, self.settings = build, pairs, threads, settings
        self.machines, self.best = {}, {}

    def machine(self, threads):
        if threads not in self.machines:
            command = [str(self.build / "bench" / "bench_machine")]
            self.machines[threads] = turns.turn(turns.Meter(), command, threads)[-1]
            print("bench: machine " + " ".join(f"{k}={v}" for k, v in self.machines[threads].items()), flush=True)
        return self.machines[threads]

    def program(self, name, *arguments, ranks=1, steps=None, alone=False):
        """The command that measures `name`; (executable, its own name for it) come from the table. alone: as many
        programs of one rank instead."""
        executable, own = names.program_of(name)
        launcher = ["mpirun", "-n", str(ranks)] if ranks > 1 else []
        launcher += ["env", "HALOGEN_TRANSPORT=self"] if alone else []
        steps = steps or names.find(name).steps
        return [*launcher, str(self.build / "bench" / executable), "--name", own, "--steps", str(steps), *arguments]

    def parameters(self, name):
        """The file of the initial parameters, written by Halogen's program."""
        executable, own = names.program_of(name)
        file = self.build / "bench" / f"{own}.parameters"
        subprocess.run([str(self.build / "bench" / executable), "--name", own, "--parameters", str(file)],
                       env=turns.environment(1), check=True)
        return str(file)

    def shares(self, name, threads, ms):
        """Of the peak of multiply-adds and of the bandwidth of a copy, both measured in this run."""
        bench, machine = names.find(name), self.machine(threads)
        flops, moved = bench.flops / ms / 1e6, bench.bytes / ms / 1e6
        return {"fma_share": flops / machine["fma_gflops"] if flops else None,
                "copy_share": moved / machine["copy_gbs"] if moved else None, "machine": machine}


def side_of_torch(name, setting, parameters, *arguments, own=None):
    bench = names.find(name)
    return [peers.torch(), str(peers.FOLDER / "torch_peer.py"), "--name", own or name, "--steps", str(bench.steps),
            "--parameters", parameters, "--setting", setting, *arguments]


def compared(record, sides, ours, theirs, peer, setting=None):
    """Adds the peer's part to a record: median, ratio, and the ratio of each pair of turns."""
    record["peer"] = peer
    if theirs in sides:
        mine, other = turns.median_of(sides[ours]), turns.median_of(sides[theirs])
        record.update(peer_ms=other, ratio=other / mine, setting=setting,
                      pair_ratios=turns.ratios(sides[ours], sides[theirs]))
    return record


def best_settings(name, run, parameters):
    """The two fastest of PyTorch's settings, from one short turn each with all threads."""
    if len(run.settings) <= 2:
        return run.settings
    if name not in run.best:
        trial = {s: (side_of_torch(name, s, parameters), max(run.threads)) for s in run.settings}
        found = turns.interleave(trial, 1, turns.Meter())
        run.best[name] = sorted(found, key=lambda s: turns.median_of(found[s]))[:2]
        peers.say(f"{name}: " + ", ".join(f"{s} {turns.median_of(found[s]):.1f} ms" for s in found))
    return run.best[name]


def beside_torch(name, run):
    bench, parameters = names.BENCHES[name], run.parameters(name)
    settings = best_settings(name, run, parameters) if peers.torch() else []
    for threads in run.threads:
        sides = {"halogen": (run.program(name), threads)}
        if bench.beside:
            sides["halogen beside"] = (run.program(bench.beside), threads)
        sides.update({s: (side_of_torch(name, s, parameters), threads) for s in settings})
        meter = turns.Meter()
        lines = turns.interleave(sides, run.pairs, meter)
        found = [s for s in settings if s in lines]
        turns.check_results(name, lines, ["halogen", *found])
        ms = turns.median_of(lines["halogen"])
        best = min(found, key=lambda s: turns.median_of(lines[s]), default=None)
        record = {"name": name, "threads": threads, "ranks": 1, "halogen_ms": ms}
        compared(record, lines, "halogen", best, "torch" if best else "none", best)
        record.update(run.shares(name, threads, ms), **meter.members(), turns=lines)
        if bench.beside:
            other = turns.median_of(lines["halogen beside"]) / names.BENCHES[bench.beside].flops
            record.update(beside=bench.beside, per_flop=ms / bench.flops / other)
        yield record


def ranks_side(name, run, ranks, height, width, alone=False):
    return run.program(name, "--size", f"{height}x{width}", ranks=ranks, alone=alone), 1


def beside_ranks(name, run):
    """2 ranks beside ShardTensor on 2 ranks and beside PyTorch with 2 threads in its better layout."""
    bench, parameters = names.BENCHES[name], run.parameters(name)
    size, ranks = bench.size, bench.ranks[0]
    sides = {"halogen": ranks_side(name, run, ranks, size, size)}
    layouts = [s for s in run.settings if s != "compile"]
    for setting in layouts if peers.torch() else ():
        command = side_of_torch(name, setting, parameters, "--size", str(size), own="unet_train")
        sides["torch_2threads", setting] = command, 2
    if peers.physicsnemo():
        command = [peers.physicsnemo(), "-m", "torch.distributed.run", "--nproc-per-node", str(ranks),
                   str(peers.FOLDER / "shardtensor_peer.py"), "--name", "unet_train", "--steps", str(bench.steps),
                   "--parameters", parameters, "--size", str(size)]
        sides["shardtensor", "contiguous"] = command, 1
    meter = turns.Meter()
    lines = turns.interleave(sides, run.pairs, meter)
    turns.check_results(name, lines, list(lines))
    ms = turns.median_of(lines["halogen"])
    kept = {side if isinstance(side, str) else " ".join(side): found for side, found in lines.items()}
    for peer in ("shardtensor", "torch_2threads"):
        own = [side for side in lines if side[0] == peer]
        best = min(own, key=lambda side: turns.median_of(lines[side]), default=None)
        record = {"name": name, "threads": 1, "ranks": ranks, "halogen_ms": ms, "beside_peer": peer}
        compared(record, lines, "halogen", best, peer if best else "none", best and best[1])
        yield {**record, **run.shares(name, ranks, ms), **meter.members(), "turns": kept}


def threads_beside_ranks(name, run):
    """1 rank of 2 threads beside 2 ranks of 1 thread, at least 9 turns each."""
    size = names.BENCHES[name].size
    sides = {"halogen": ranks_side(name, run, 2, size, size),
             "halogen_2threads": (ranks_side(name, run, 1, size, size)[0], 2)}
    meter = turns.Meter()
    lines = turns.interleave(sides, max(9, run.pairs) if run.pairs > 1 else 1, meter)
    turns.check_results(name, lines, list(lines))
    ms = turns.median_of(lines["halogen"])
    record = {"name": name, "threads": 1, "ranks": 2, "halogen_ms": ms}
    compared(record, lines, "halogen", "halogen_2threads", "halogen_2threads")
    yield {**record, **run.shares(name, 2, ms), **meter.members(), "turns": lines}


def scaling(name, run):
    """Strong: one field on more ranks. Weak: a field as much larger as there are ranks more. One thread a rank. Beside
    them each rank's piece as a field of its own, as many programs at once: what the cores give."""
    bench = names.BENCHES[name]
    weak = "weak" in name
    sides = {}
    for r in bench.ranks:
        height = bench.size * (r if weak else 1)
        sides[f"halogen {r}"] = ranks_side(name, run, r, height, bench.size)
        if r > 1:
            sides[f"halogen {r} alone"] = ranks_side(name, run, r, height // r, bench.size, alone=True)
    meter = turns.Meter()
    lines = turns.interleave(sides, run.pairs, meter)
    if not weak:
        turns.check_results(name, lines, [f"halogen {r}" for r in bench.ranks])
    for ranks in bench.ranks:
        alone = lines.get(f"halogen {ranks} alone", lines[f"halogen {ranks}"])
        record = {"name": name, "threads": 1, "ranks": ranks,
                  "halogen_ms": turns.median_of(lines[f"halogen {ranks}"])}
        compared(record, lines, f"halogen {ranks}", "halogen 1", "halogen_1rank")
        record.update(efficiency=record["ratio"] / (1 if weak else ranks), cores=os.cpu_count(),
                      alone_ms=turns.median_of(alone))
        yield {**record, **meter.members(), "turns": lines}


def memory(name, run):
    """MiB of a training step: peak above the start, and kept for backward alone; PyTorch in its leaner setting."""
    threads, meter = max(run.threads), turns.Meter()
    ours = turns.turn(meter, run.program(name), threads)
    if ours is None:
        raise SystemExit(1)
    record = {"name": name, "threads": threads, "ranks": 1, "halogen_growth_mib": ours[-1]["growth_mib"],
              "halogen_planned_mib": ours[-1]["planned_mib"], "halogen_kept_mib": ours[-1]["kept_mib"], "peer": "none"}
    found = {}
    for setting in run.settings if peers.torch() else ():
        if setting != "compile":
            command = [peers.torch(), str(peers.FOLDER / "memory_torch.py"), "--setting", setting]
            found[setting] = turns.turn(meter, command, threads)
    found = {setting: lines[-1] for setting, lines in found.items() if lines}
    if found:
        best = min(found, key=lambda s: found[s]["growth_mib"])
        record.update(peer="torch", peer_growth_mib=found[best]["growth_mib"], peer_kept_mib=found[best]["kept_mib"],
                      ratio=found[best]["growth_mib"] / record["halogen_growth_mib"], setting=best)
    yield {**record, **meter.members()}


def exchange(name, run):
    """How much of the communication of a step is hidden; the numbers are explained in bench/exchange.hpp."""
    meter = turns.Meter()
    found = turns.turn(meter, run.program(name, ranks=2, steps=None if run.pairs > 1 else 2), 1)
    if found is None:
        raise SystemExit(1)
    line = found[-1]
    record = {"name": name, "threads": 1, "ranks": 2, "halogen_ms": line["step_ms"], "peer": "halogen_alone",
              "peer_ms": line["alone_ms"], "ratio": line["alone_ms"] / line["step_ms"]}
    for part in ("halos", "sums"):
        record.update({f"{part}_{key}": value for key, value in line[part].items()})
    yield {**record, **meter.members()}


def beside_mpi(name, run):
    for ranks in names.BENCHES[name].ranks:
        yield from in_process(name, run, "mpi", ranks)


def beside_plain_files(name, run):
    """Reading and writing by piece beside plain reads and synchronised writes of as many bytes."""
    for ranks in names.BENCHES[name].ranks:
        yield from in_process(name, run, "plain files", ranks)


def beside_parts(name, run):
    """An expression beside the sum of its parts."""
    for ranks in names.BENCHES[name].ranks:
        yield from in_process(name, run, "parts", ranks)


def beside_cpp(name, run):
    """A call of a model's library beside the call in C++ and the copies of input and output."""
    for ranks in names.BENCHES[name].ranks:
        yield from in_process(name, run, "C++ and copies", ranks)


def in_process(name, run, peer, ranks):
    """Both sides in one program, in turn, on the same ranks."""
    meter = turns.Meter()
    executable, own = names.program_of(name)
    if not (run.build / "bench" / executable).exists():
        return peers.say(f"{executable} was not built (no MPI)")
    command = ["mpirun", "-n", str(ranks), str(run.build / "bench" / executable), own]
    found = turns.turn(meter, command, 1)
    if found is None:
        raise SystemExit(1)
    for line in found:
        lines = {"halogen": [line], peer: [{**line, "milliseconds": line["peer_milliseconds"]}]}
        record = {"name": name, "threads": 1, "ranks": line["ranks"], "halogen_ms": turns.median_of(lines["halogen"]),
                  "allocations": line["allocations"]}
        compared(record, lines, "halogen", peer, peer)
        record["pair_ratios"] = [b / a for a, b in zip(line["milliseconds"], line["peer_milliseconds"])]
        yield {**record, **meter.members()}


def compile_time(name, run):
    """Seconds, memory, sizes and instantiations of compiling one file, by each compiler there is."""
    command = [sys.executable, str(COMPILE), "--build", str(run.build), name]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise SystemExit(f"bench: {' '.join(command)} failed: {done.stderr[-800:]}")
    for line in done.stdout.splitlines():
        yield json.loads(line)
