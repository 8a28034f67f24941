"""What DTensor or ShardTensor does with each layer of tests/support/layer_table.py, its width cut over the ranks, over gloo: the
dimension that DTensor's convolution exchanges halos of.

    python -m torch.distributed.run --nproc-per-node 2 breadth.py --peer dtensor|shardtensor --from K

A line for each entry from the K-th on: "K right", "K wrong output", "K wrong gradient" or "K refused WHY". Compared with the same layer whole, in
double, to 1e-9: the output, the gradient of the input and those of all parameters. bench/run/breadth.py starts it
again behind an entry that hangs.
"""
import argparse
import functools
import os
import pathlib
import sys

import torch
import torch.distributed as dist
from torch.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "support"))
import layer_table

parser = argparse.ArgumentParser()
parser.add_argument("--peer", choices=["dtensor", "shardtensor"], required=True)
parser.add_argument("--from", dest="begin", type=int, default=0)
chosen = parser.parse_args()


def start_dtensor():
    dist.init_process_group("gloo")
    mesh = dist.device_mesh.init_device_mesh("cpu", (dist.get_world_size(),))

    def module_of(module):
        return distribute_module(module, mesh)

    return module_of, lambda t: distribute_tensor(t, mesh, [Shard(t.dim() - 1)])


def start_shardtensor():
    begin = dist.init_process_group  # it is given the device "cpu", which torch 2.15 refuses for its missing index

    @functools.wraps(begin)
    def without_device(*positions, device_id=None, **names):
        return begin(*positions, **names)

    dist.init_process_group = without_device
    from physicsnemo.distributed import DistributedManager
    from physicsnemo.domain_parallel import register_custom_ops, scatter_tensor

    register_custom_ops()
    DistributedManager.initialize()
    mesh = DistributedManager().initialize_mesh((dist.get_world_size(),), ("width",))
    return lambda module: module, lambda t: scatter_tensor(t, 0, mesh, (Shard(t.dim() - 1),), t.shape, t.dtype)


def whole(t):
    return t.full_tensor() if hasattr(t, "full_tensor") else t


def same(a, b):
    return a.shape == b.shape and bool(((a - b).abs().max() <= 1e-9 * (1 + b.abs().max())).item())


def verdict(entry, module_of, cut):
    torch.manual_seed(1)
    alone, x = entry.module(torch), torch.randn(entry.extents, dtype=torch.float64)
    both = entry.module(torch)
    both.load_state_dict(alone.state_dict())
    one = x.clone().requires_grad_()
    y = alone(one)
    g = torch.randn_like(y)
    (y * g).sum().backward()
    net, many = module_of(both), cut(x).detach().requires_grad_()
    z = net(many)
    if not same(whole(z).detach(), y.detach()):
        return "wrong output"
    placed = cut(g) if z.dim() > 2 and any(isinstance(p, Shard) for p in z.placements) else g
    if placed is g and isinstance(z, DTensor):
        placed = DTensor.from_local(g, z.device_mesh, [Replicate()], run_check=False)
    z.backward(placed)
    pairs = [(whole(many.grad), one.grad)]
    pairs += [(whole(p.grad), q.grad) for p, q in zip(net.parameters(), alone.parameters())]
    return "right" if all(same(a, b) for a, b in pairs) else "wrong gradient"


def main():
    module_of, cut = {"dtensor": start_dtensor, "shardtensor": start_shardtensor}[chosen.peer]()
    for number, entry in enumerate(layer_table.table()):
        if number < chosen.begin:
            continue
        try:
            text = verdict(entry, module_of, cut)
        except Exception as error:  # what it says is the result
            text = "refused " + " ".join(str(error).split())[:160]
        texts = [None] * dist.get_world_size()
        dist.all_gather_object(texts, text)
        worst = max(texts, key=lambda text: (text != "right", text.startswith("refused")))
        if dist.get_rank() == 0:
            print(number, worst, flush=True)
    dist.barrier()
    os._exit(0)


main()
