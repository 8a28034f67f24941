"""What every PyTorch peer does alike; the counterpart of bench/protocol.hpp. Needs torch and numpy.

    X_torch.py --name NAME --steps N --parameters FILE [--warm-up N] [--layout contiguous|channels_last]

Threads are OMP_NUM_THREADS. THP_MEM_ALLOC_ENABLE=1 (huge pages) is PyTorch's better setting and is expected.
"""

import argparse
import json
import os
import sys
import time

import numpy as np
import torch
from torch.nn import functional as F


def numbers(shape, first=0):
    """As bench::field."""
    index = np.arange(first, first + int(np.prod(shape)), dtype=np.uint64)
    values = (index * np.uint64(2654435761) % np.uint64(2**32)).astype(np.float64) / 2.0**32 - 0.5
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def options():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--parameters", required=True, help="raw floats that the Halogen program wrote")
    parser.add_argument("--layout", choices=["contiguous", "channels_last"], default="contiguous")
    chosen = parser.parse_args()
    if os.environ.get("THP_MEM_ALLOC_ENABLE") != "1":
        print("peer: THP_MEM_ALLOC_ENABLE is not 1: PyTorch is slower than it could be", file=sys.stderr)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
    return chosen


def load_parameters(net, path):
    values = torch.from_numpy(np.fromfile(path, dtype=np.float32))
    if values.numel() != sum(p.numel() for p in net.parameters()):
        raise SystemExit("peer: Halogen's model has another number of parameters")
    with torch.no_grad():
        for p, part in zip(net.parameters(), values.split([p.numel() for p in net.parameters()])):
            p.copy_(part.view_as(p))


def measure(chosen, step, result):
    milliseconds = []
    for i in range(-chosen.warm_up, chosen.steps):
        begin = time.perf_counter()
        step()
        if i >= 0:
            milliseconds.append(1e3 * (time.perf_counter() - begin))
    print(json.dumps({"name": chosen.name, "threads": torch.get_num_threads(), "torch": torch.__version__,
                      "milliseconds": milliseconds, "result": result()}))


def measure_model(chosen, net, channels_in, channels_out, size, training):
    """MSE and AdamW (the fused one, the fastest), or prediction; as bench::measure_model."""
    layout = torch.channels_last if chosen.layout == "channels_last" else torch.contiguous_format
    load_parameters(net, chosen.parameters)
    net = net.to(memory_format=layout)
    shape = (1, channels_in, size, size)
    image = numbers(shape).contiguous(memory_format=layout)
    if not training:
        net.eval()
        with torch.no_grad():
            measure(chosen, lambda: net(image), lambda: net(image).double().square().mean().sqrt().item())
        return
    label = numbers((1, channels_out, size, size), int(np.prod(shape))).contiguous(memory_format=layout)
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    first_two = []

    def step():
        optimizer.zero_grad(set_to_none=True)
        loss = F.mse_loss(net(image), label)
        loss.backward()
        optimizer.step()
        value = loss.item()
        if len(first_two) < 2:
            first_two.append(value)

    measure(chosen, step, lambda: first_two[-1])
