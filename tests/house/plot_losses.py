#!/usr/bin/env python3
"""plot_losses_test.py ROOT: scripts/plot_losses draws each loss of a run where it belongs; what is not finite is left out."""
import pathlib
import subprocess
import sys
import tempfile

SCRIPT = pathlib.Path(sys.argv[1]) / "scripts" / "plot_losses"
METRICS = """{"epoch": 1, "loss": 0.75, "held_out": 1.5}
{"epoch": 2, "loss": 0.0625, "held_out": 0.5}
{"epoch": 3, "loss": 0.5, "held_out": Infinity}
{"epoch": 4, "loss": NaN}
"""
EXPECTED = ['stroke="#1f77b4" stroke-width="2" points="70.0,107.2 390.0,420.0 710.0,158.3"/>',
            'stroke="#d62728" stroke-width="2" points="70.0,20.0 390.0,158.3"/>', ">1.5</text>", ">0.0625</text>"]

with tempfile.TemporaryDirectory() as made:
    metrics, picture = pathlib.Path(made) / "run.jsonl", pathlib.Path(made) / "loss.svg"
    metrics.write_text(METRICS)
    subprocess.run([sys.executable, SCRIPT, metrics, picture], check=True)
    missing = [text for text in EXPECTED if text not in picture.read_text()]
    metrics.write_text("")  # of a run that has just begun
    subprocess.run([sys.executable, SCRIPT, metrics, picture], check=True)
print("missing:", missing)
sys.exit(1 if missing else 0)
