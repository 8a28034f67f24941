#!/usr/bin/env python3
"""Halogen beside its peers on this machine's CPU: both sides in turn, in the same minutes, at the same thread counts.

    bench.py [--pairs N] [--threads 1,2] [--settings contiguous,channels_last,compile] [filter...]
    bench.py --device [--pairs N] [filter...]                the names device_*, on a GPU beside PyTorch there
    bench.py [--device] --programs [filter...]               prints the targets to build for these names

A filter is a name, a part of one, or a glob; one that matches no name is an error. A line per name and thread count,
with medians over all steps; ratio = peer / Halogen, so that above 1 Halogen is the faster. PyTorch has huge pages; of
its settings all are tried once for each name, and the two fastest then run in turn with Halogen. Both sides start from
the same parameters on the same data, and their results must agree. peer=none: the peer could not be installed.

pairs: least, median and greatest ratio of one pair of turns. fma_share, copy_share: of the peak of multiply-adds and of
a copy's bandwidth, measured in the same run, counting the FLOPs of the direct method and each input and output once.
per_flop: time per FLOP beside that of the shape named. others: cores that other processes kept busy meanwhile; more
than a few hundredths, and the times are not to be trusted, those with as many threads as cores least of all.

Writes bench.json: the latest record of each name. table.py makes docs/benchmarks.md and its picture of it. Environment:
HALOGEN_BUILD_DIRECTORY (programs and bench.json), HALOGEN_CACHE, HALOGEN_PEERS (see peers.py).
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import statistics

import device
import kinds
import names
from peers import say

here = pathlib.Path(__file__).resolve().parent
QUIET = {"pair_ratios", "turns", "machine", "stolen_s", "beside_peer", "when", "load_average"}


def text(record):
    words = []
    for key, value in record.items():
        if key in QUIET or value is None:
            continue
        if isinstance(value, float):
            value = f"{value:.2f}" if abs(value) >= 10 or key in ("ratio", "others") else f"{value:.3g}"
        words.append(f"{key}={value}")
    if record.get("pair_ratios"):
        pairs = record["pair_ratios"]
        words.append(f"pairs={min(pairs):.2f}/{statistics.median(pairs):.2f}/{max(pairs):.2f}")
    return "bench: " + " ".join(words)


def key(record):
    return [record.get(part) for part in ("name", "threads", "ranks", "beside_peer", "compiler", "library")]


def write(file, records):
    """The new records, and of the old ones those that were not measured again."""
    try:
        old = json.loads(file.read_text())["records"]
    except (OSError, ValueError, KeyError):
        old = []
    new = [key(record) for record in records]
    kept = [record for record in old if key(record) not in new]
    machine = {"cores": os.cpu_count(), "processor": platform.processor() or platform.machine()}
    file.write_text(json.dumps({"machine": machine, "records": kept + records}, indent=1) + "\n")


class Parser(argparse.ArgumentParser):
    def error(self, message):
        raise SystemExit(f"bench: {message}; see ./dev bench --help")


def main():
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("filters", nargs="*")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--threads", default="1,2")
    parser.add_argument("--settings", default=",".join(kinds.SETTINGS))
    parser.add_argument("--programs", action="store_true")
    parser.add_argument("--device", action="store_true")
    options = parser.parse_args()
    chosen = names.chosen_names(options.filters, names.DEVICE_BENCHES if options.device else names.BENCHES)
    settings, threads = options.settings.split(","), options.threads.split(",")
    if options.pairs < 1:
        raise SystemExit(f"bench: --pairs is {options.pairs}: give 1 or more")
    if not all(count.isascii() and count.isdigit() and int(count) > 0 for count in threads):
        raise SystemExit(f"bench: --threads is '{options.threads}': give numbers of 1 or more with commas between, as 1,2")
    if not set(settings) <= set(kinds.SETTINGS):
        raise SystemExit(f"bench: --settings is '{options.settings}': give some of {','.join(kinds.SETTINGS)}")
    if options.programs:  # before anything is built
        return print(" ".join(names.programs(chosen)))
    build = pathlib.Path(os.environ.get("HALOGEN_BUILD_DIRECTORY", here.parent.parent / "build" / "host")).resolve()
    run = kinds.Run(build, options.pairs, [int(count) for count in threads], settings)
    records = []
    for name in chosen:
        for record in getattr(device if options.device else kinds, names.find(name).kind)(name, run):
            record["when"] = datetime.datetime.now().isoformat(timespec="minutes")
            records.append(record)
            print(text(record), flush=True)
            if (record.get("others") or 0) > 0.1:
                say("the machine was busy with other things: repeat this when it is quiet")
        write(build / "bench.json", records)


if __name__ == "__main__":
    main()
