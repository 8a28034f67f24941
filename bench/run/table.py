#!/usr/bin/env python3
"""Table and picture of bench.json.

    table.py [--docs]      writes bench.md and bench.png beside bench.json; with --docs the table goes into
                           docs/benchmarks.md, between its two marks, and the picture to docs/images/bench.png

HALOGEN_BUILD_DIRECTORY: where bench.json is. Without matplotlib (installed on first use) there is no picture.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys

import names
import peers

root = pathlib.Path(__file__).resolve().parent.parent.parent
MARKS = "<!-- table of bench/run/table.py -->\n", "<!-- end of the table -->\n"
LARGEST_PICTURE = 100_000
NO_TIMES = ("scaling", "exchange", "memory", "memory_on_device")
PLOT = """
import json, sys
import matplotlib
matplotlib.use("Agg")
from matplotlib import pyplot
from PIL import Image
rows, file = json.load(sys.stdin), sys.argv[1]
labels = [label for label, _ in rows]
figure, axes = pyplot.subplots(figsize=(7, 0.9 + 0.2 * len(rows)))
colours = ["#2a7f62" if ratio >= 1 else "#b5533c" for _, ratio in rows]
axes.barh(range(len(rows)), [ratio - 1 for _, ratio in rows], left=1, color=colours, height=0.7)
axes.axvline(1, color="black", linewidth=0.8)
axes.set_xscale("log")
axes.set_yticks(range(len(rows)), labels, fontsize=7)
for i, (_, ratio) in enumerate(rows):
    axes.text(ratio, i, f" {ratio:.2f} ", va="center", ha="left" if ratio >= 1 else "right", fontsize=6)
axes.set_ylim(len(rows) - 0.4, -0.6)
axes.margins(x=0.12)
axes.set_xlabel("time of the peer / time of Halogen", fontsize=8)
axes.tick_params(axis="x", labelsize=7)
for side in ("top", "right"):
    axes.spines[side].set_visible(False)
figure.tight_layout()
figure.savefig(file, dpi=100)
Image.open(file).convert("RGB").quantize(24).save(file, optimize=True)
"""


def number(value):
    return "" if value is None else f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def percent(value):
    return "" if value is None else f"{100 * value:.0f} %"


def rows_of(records, columns):
    """A Markdown table: columns are (heading, function of a record)."""
    lines = ["| " + " | ".join(heading for heading, _ in columns) + " |", "|" + "---|" * len(columns)]
    lines += ["| " + " | ".join(str(cell(record)) for _, cell in columns) + " |" for record in records]
    return "\n".join(lines) + "\n"


def name(record):
    return f"`{record['name']}`"


def peer(record):
    setting = record.get("setting")
    return record["peer"] + (f", {setting}" if setting else "")


def time_columns(*more):
    return [("name", name), ("ranks x threads", lambda r: f"{r['ranks']} x {r['threads']}"),
            ("Halogen, ms", lambda r: number(r["halogen_ms"])), ("peer", peer),
            ("peer, ms", lambda r: number(r.get("peer_ms"))), ("ratio", lambda r: number(r.get("ratio"))), *more]


def spread(record):
    pairs = record.get("pair_ratios")
    return f"{min(pairs):.2f}-{max(pairs):.2f}" if pairs else ""


def markdown(records):
    """One table for each kind of name."""
    kinds = {}
    for record in records:
        kinds.setdefault(names.find(record["name"]).kind, []).append(record)
    ratio_columns = time_columns(
        ("of pairs", spread), ("of FMA peak", lambda r: percent(r.get("fma_share"))),
        ("of copy bandwidth", lambda r: percent(r.get("copy_share"))),
        ("time per FLOP", lambda r: f"{r['per_flop']:.2f} x `{r['beside']}`" if "per_flop" in r else ""))
    part = lambda p: (f"{p}: waited / by themselves, ms", lambda r: f"{number(r[p + '_wait_ms'])} / "
                      f"{number(r[p + '_by_itself_ms'])}, {percent(r[p + '_hidden'])} hidden")
    tables = [
        ("Beside PyTorch", ["beside_torch"], ratio_columns),
        ("On a GPU, beside PyTorch in bfloat16", ["on_device"], [
            *ratio_columns[:8], ("of tensor cores", lambda r: percent(r.get("tensor_share"))), ratio_columns[8]]),
        ("Beside ShardTensor, and ranks beside threads", ["beside_ranks", "threads_beside_ranks"], ratio_columns[:7]),
        ("Over ranks", ["scaling"], time_columns(("efficiency", lambda r: percent(r["efficiency"])),
                                                 ("pieces alone, ms", lambda r: number(r.get("alone_ms"))),
                                                 ("cores", lambda r: r["cores"]))),
        ("Communication of a step on 2 ranks", ["exchange"], [
            ("name", name), ("step, ms", lambda r: number(r["halogen_ms"])),
            ("pieces alone, ms", lambda r: number(r["peer_ms"])), part("halos"), part("sums")]),
        ("Memory of a step", ["memory", "memory_on_device"], [
            ("name", name), ("Halogen, MiB", lambda r: number(r["halogen_growth_mib"])),
            ("kept for backward", lambda r: number(r["halogen_kept_mib"])), ("peer", peer),
            ("peer, MiB", lambda r: number(r.get("peer_growth_mib"))),
            ("kept for backward", lambda r: number(r.get("peer_kept_mib")))]),
        ("Beside hand-written MPI", ["beside_mpi"], time_columns(("of pairs", spread))),
        ("Beside the sum of its parts", ["beside_parts"], time_columns(("of pairs", spread))),
        ("Compiling", ["compile_time"], [
            ("name", name), ("compiler", lambda r: r["compiler"]), ("with", lambda r: r["library"]),
            ("CPU s", lambda r: number(r["cpu_seconds"])), ("s", lambda r: number(r["seconds"])),
            ("MiB", lambda r: number(r["peak_mib"])), ("object, KiB", lambda r: number(r.get("object_kib"))),
            ("functions", lambda r: r.get("functions", "")), ("instantiations", lambda r: r.get("instantiations", "")),
            ("longest symbol", lambda r: r.get("longest_symbol", ""))]),
    ]
    text = ""
    for heading, kinds_of_table, columns in tables:
        chosen = [record for kind in kinds_of_table for record in kinds.get(kind, [])]
        if chosen:
            text += f"\n### {heading}\n\n{rows_of(chosen, columns)}"
    return text


def picture(records, file):
    bars = []
    for record in records:
        if record.get("ratio") is None or names.find(record["name"]).kind in NO_TIMES:
            continue
        detail = f"{record['ranks']} ranks" if record["ranks"] > 1 else f"{record['threads']} thr."
        bars.append((f"{record['name']}, {detail}, {record['peer']}", record["ratio"]))
    python = peers.matplotlib()
    if not bars or python is None:
        return peers.say("no picture")
    done = subprocess.run([python, "-c", PLOT, str(file)], input=json.dumps(bars), text=True, capture_output=True)
    if done.returncode != 0:
        return peers.say(f"no picture: {done.stderr[-500:]}")
    if file.stat().st_size > LARGEST_PICTURE:
        peers.say(f"{file} has {file.stat().st_size} bytes, more than {LARGEST_PICTURE}")
    print(f"bench: wrote {file}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", action="store_true")
    options = parser.parse_args()
    build = pathlib.Path(os.environ.get("HALOGEN_BUILD_DIRECTORY", root / "build" / "host"))
    found = json.loads((build / "bench.json").read_text())["records"]
    order = [*names.BENCHES, *names.DEVICE_BENCHES]
    records = sorted((r for r in found if r["name"] in order), key=lambda r: order.index(r["name"]))
    text = markdown(records)
    if options.docs:
        page = root / "docs" / "benchmarks.md"
        before, rest = page.read_text().split(MARKS[0])
        page.write_text(before + MARKS[0] + text + "\n" + MARKS[1] + rest.split(MARKS[1])[1])
        picture(records, root / "docs" / "images" / "bench.png")
    else:
        page = build / "bench.md"
        page.write_text(text)
        picture(records, build / "bench.png")
    print(f"bench: wrote {page}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
