"""The U-Net's training step with PhysicsNeMo's ShardTensor, rows over the ranks, on CPU over gloo.

    python -m torch.distributed.run --nproc-per-node 2 shardtensor_peer.py
        --name unet_train --steps N --parameters FILE [--warm-up N] [--size 512]

Parameters are plain tensors, the same on all ranks, as ShardTensor promotes them; the gradients it sums itself.
Contiguous: its GroupNorm refuses channels_last.
"""

import argparse
import functools
import os

import torch
import torch.distributed as dist
from physicsnemo.distributed import DistributedManager
from physicsnemo.domain_parallel import register_custom_ops, scatter_tensor
from torch.distributed.tensor.placement_types import Shard
from torch.nn import functional as F

import models
import protocol

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--name", required=True)
parser.add_argument("--steps", type=int, default=5)
parser.add_argument("--warm-up", type=int, default=2)
parser.add_argument("--parameters", required=True)
parser.add_argument("--size", type=int, default=512)
chosen = parser.parse_args()
protocol.set_threads()
begin = dist.init_process_group  # it is given the device "cpu", which torch 2.15 refuses for its missing index


@functools.wraps(begin)
def without_device(*positions, device_id=None, **names):
    return begin(*positions, **names)


dist.init_process_group = without_device
register_custom_ops()  # imported by itself only where there is a GPU
DistributedManager.initialize()
ranks = dist.get_world_size()
mesh = DistributedManager().initialize_mesh((ranks,), ("rows",))

net, _, mode = models.model_of(chosen.name)
if mode != "train":
    raise SystemExit("peer: ShardTensor is here for training alone")
protocol.load_parameters(net, chosen.parameters)
shape = (1, 3, chosen.size, chosen.size)


def cut(tensor):
    return scatter_tensor(tensor, 0, mesh, (Shard(2),), tensor.shape, tensor.dtype)


image = cut(protocol.numbers(shape))
label = cut(protocol.numbers(shape, int(torch.Size(shape).numel())))
optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
losses = []


def step():
    optimizer.zero_grad(set_to_none=True)
    loss = F.mse_loss(net(image), label)
    loss.backward()
    optimizer.step()
    losses.append((loss.full_tensor() if hasattr(loss, "full_tensor") else loss).item())


times = protocol.milliseconds(chosen, step, dist.barrier)
if dist.get_rank() == 0:
    protocol.print_line(chosen, ranks=ranks, milliseconds=times, result=[losses[1]])
dist.barrier()
dist.destroy_process_group()
os._exit(0)
