"""What every PyTorch peer does alike; the counterpart of bench/protocol.hpp. Needs torch and numpy.

Threads are OMP_NUM_THREADS. THP_MEM_ALLOC_ENABLE=1 (huge pages) is PyTorch's better setting and is expected.
"""

import json
import os
import sys
import time

import numpy as np
import torch


def numbers(shape, first=0):
    """As bench::numbers."""
    index = np.arange(first, first + int(np.prod(shape)), dtype=np.uint64)
    values = (index * np.uint64(2654435761) % np.uint64(2**32)).astype(np.float64) / 2.0**32 - 0.5
    return torch.from_numpy(values.astype(np.float32).reshape(shape))


def set_threads():
    if os.environ.get("THP_MEM_ALLOC_ENABLE") != "1":
        print("peer: THP_MEM_ALLOC_ENABLE is not 1: PyTorch is slower than it could be", file=sys.stderr)
    torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def load_parameters(net, path):
    values = torch.from_numpy(np.fromfile(path, dtype=np.float32))
    trained = sum(p.numel() for p in net.parameters())  # behind them stand the buffers, which start alike
    if values.numel() != trained + sum(b.numel() for b in net.buffers() if b.is_floating_point()):
        raise SystemExit("peer: Halogen's model has another number of parameters")
    values = values[:trained]
    with torch.no_grad():
        for p, part in zip(net.parameters(), values.split([p.numel() for p in net.parameters()])):
            p.copy_(part.view_as(p))


def root_mean_square(tensors):
    """Of all values of all tensors together."""
    values = [t.detach().double() for t in tensors]
    return (sum(v.square().sum().item() for v in values) / sum(v.numel() for v in values)) ** 0.5


def barrier_of(device):
    """What ends a step on that device."""
    return torch.cuda.synchronize if device == "cuda" else lambda: None


def milliseconds(chosen, step, barrier=lambda: None):
    """Of each step after the warm-up, all ranks starting together, until the last has ended."""
    result = []
    for i in range(-chosen.warm_up, chosen.steps):
        barrier()
        begin = time.perf_counter()
        step()
        barrier()
        if i >= 0:
            result.append(1e3 * (time.perf_counter() - begin))
    return result


def print_line(chosen, ranks=1, **members):
    print(json.dumps({"name": chosen.name, "threads": torch.get_num_threads(), "ranks": ranks,
                      "torch": torch.__version__, **members}), flush=True)
