"""The peak of a device's tensor cores, as its vendor's library reaches it: one large matrix product in bfloat16.

    matmul_torch.py [--device cuda] [--size 8192]        {"tensor_gflops": ...}
"""

import argparse
import json

import torch

import protocol

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--device", default="cuda")
parser.add_argument("--size", type=int, default=8192)
chosen = parser.parse_args()
chosen.warm_up, chosen.steps = 3, 10
a, b = (torch.full((chosen.size, chosen.size), 0.5, dtype=torch.bfloat16, device=chosen.device) for _ in range(2))
times = protocol.milliseconds(chosen, lambda: a @ b, protocol.barrier_of(chosen.device))
print(json.dumps({"tensor_gflops": round(2 * chosen.size**3 / min(times) / 1e6, 1)}), flush=True)
