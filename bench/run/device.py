"""How names are measured on a GPU: Halogen's programs built for CUDA beside PyTorch on the same device, in turn.

PyTorch computes under autocast to bfloat16, channels_last eagerly and by torch.compile; the faster counts. Halogen's side
is in float, and its fields in bfloat16 where the name ends in _bf16. Results agree to 3 %, since one side or both round to
8 bits.
"""

import functools

import kinds
import names
import peers
import turns

SETTINGS = ("channels_last", "compile")
THREADS = 1  # of the host


@functools.cache
def tensor_gflops():
    """The peak of tensor cores, measured in this run; None without PyTorch."""
    if not peers.torch():
        return None
    found = turns.turn(turns.Meter(), [peers.torch(), str(peers.FOLDER / "matmul_torch.py")], THREADS)
    return found[-1]["tensor_gflops"] if found else None


def sides(name, run):
    bench, parameters = names.find(name), run.parameters(name)
    own = names.program_of(name)[1].replace("unet_memory", "unet_train").removesuffix("_bf16")
    size = ["--size", str(bench.size)]
    result = {"halogen": (run.program(name, *size), THREADS)}
    for setting in SETTINGS if peers.torch() else ():
        on_it = [*size, "--device", "cuda", "--precision", "bf16"]
        command = kinds.side_of_torch(name, setting, parameters, *on_it, own=own)
        result[setting] = command, THREADS
    return result


def on_device(name, run):
    bench, meter = names.find(name), turns.Meter()
    lines = turns.interleave(sides(name, run), run.pairs, meter)
    found = [side for side in lines if side != "halogen"]
    turns.check_results(name, lines, ["halogen", *found], tolerance=3e-2)
    ms = turns.median_of(lines["halogen"])
    best = min(found, key=lambda side: turns.median_of(lines[side]), default=None)
    record = {"name": name, "threads": THREADS, "ranks": 1, "halogen_ms": ms}
    kinds.compared(record, lines, "halogen", best, "torch" if best else "none", best)
    record.update(run.shares(name, THREADS, ms))
    if bench.flops and tensor_gflops():
        record["tensor_share"] = bench.flops / ms / 1e6 / tensor_gflops()
    yield {**record, **meter.members(), "turns": lines}


def memory_on_device(name, run):
    """MiB of a training step above its start: what the device holds more, and the peak that PyTorch allocated."""
    meter = turns.Meter()
    found = {side: turns.turn(meter, *how) for side, how in sides(name, run).items()}
    ours = found.pop("halogen")
    if ours is None:
        raise SystemExit(1)
    record = {"name": name, "threads": THREADS, "ranks": 1, "halogen_growth_mib": ours[-1]["growth_mib"],
              "halogen_planned_mib": ours[-1]["planned_mib"], "halogen_kept_mib": ours[-1]["kept_mib"], "peer": "none"}
    theirs = {side: lines[-1]["growth_mib"] for side, lines in found.items() if lines}
    if theirs:
        best = min(theirs, key=theirs.get)
        record.update(peer="torch", setting=best, peer_growth_mib=theirs[best],
                      ratio=theirs[best] / record["halogen_growth_mib"])
    yield {**record, **meter.members()}
