"""What the U-Net's training step takes of memory in PyTorch: what it keeps for backward, and what the process grows.

    memory_torch.py --name unet_memory --steps N [--setting contiguous|channels_last]

kept_mib: unique storages given to saved_tensors_hooks, parameters excluded. growth_mib: peak of the steps above what the
process held before the first (parameters, image and label were there); the moments and gradients of AdamW excluded.
"""

import argparse
import pathlib
import re

import torch
from torch.nn import functional as F

import models
import protocol

MIB = 2**20


def status_mib(key):
    return int(re.search(rf"^{key}:\s*(\d+)", pathlib.Path("/proc/self/status").read_text(), re.MULTILINE)[1]) / 1024


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--name", default="unet_memory")
parser.add_argument("--steps", type=int, default=3)
parser.add_argument("--setting", choices=["contiguous", "channels_last"], default="contiguous")
chosen = parser.parse_args()
protocol.set_threads()
layout = torch.channels_last if chosen.setting == "channels_last" else torch.contiguous_format
net, shape, _ = models.model_of("unet_train")
net = net.to(memory_format=layout)
image = protocol.numbers(shape).contiguous(memory_format=layout)
label = protocol.numbers(shape, image.numel()).contiguous(memory_format=layout)
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)

# what libraries set up on first use is not the step's
F.conv2d(torch.zeros(1, 3, 8, 8), torch.zeros(3, 3, 3, 3)).sum().item()

before = status_mib("VmRSS")
pathlib.Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
for _ in range(chosen.steps):
    optimizer.zero_grad(set_to_none=True)
    F.mse_loss(net(image), label).backward()
    optimizer.step()
parameters = sum(p.numel() * p.element_size() for p in net.parameters()) / MIB
growth = status_mib("VmHWM") - before - 3 * parameters

own = {p.untyped_storage().data_ptr() for p in net.parameters()}
saved = {}


def pack(tensor):
    storage = tensor.untyped_storage()
    if storage.data_ptr() not in own:
        saved[storage.data_ptr()] = (storage.nbytes(), tensor)  # held, so that no address comes twice
    return tensor


with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
    loss = F.mse_loss(net(image), label)
kept = sum(size for size, _ in saved.values()) / MIB
protocol.print_line(chosen, kept_mib=kept, growth_mib=growth, result=[loss.item()])
