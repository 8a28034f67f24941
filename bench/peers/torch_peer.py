"""One bench name in PyTorch.

    torch_peer.py --name NAME --steps N --parameters FILE [--warm-up N] [--size 512]
                  [--setting contiguous|channels_last|compile] [--device cpu|cuda] [--precision float|bf16]

bf16 is autocast, entered anew for each forward pass, since it keeps the rounded weights as long as it lasts: parameters,
their gradients and the loss stay float. growth_mib of a training step: the peak of what
PyTorch allocated on the device above what it held before the first. compile is torch.compile of the contiguous net; its
first steps, in the warm-up, take as long as its compiler does.
"""

import argparse

import torch
from torch.nn import functional as F

import models
import protocol


def autocast(chosen):
    return torch.autocast(chosen.device, torch.bfloat16, enabled=chosen.precision == "bf16")


def forward(chosen, net, image):
    net.eval()

    def step():
        with autocast(chosen):
            return net(image)

    with torch.no_grad():
        times = protocol.milliseconds(chosen, step, protocol.barrier_of(chosen.device))
        protocol.print_line(chosen, milliseconds=times, result=[protocol.root_mean_square([step()])])


def backward(chosen, net, image, layout):
    """Output, and the gradients of input and parameters, from a given gradient of the output."""
    image.requires_grad_()
    with torch.no_grad(), autocast(chosen):
        shape = net(image).shape
    gradient = protocol.numbers(shape, image.numel()).to(chosen.device).contiguous(memory_format=layout)
    if chosen.precision == "bf16":
        gradient = gradient.bfloat16()
    kept = []

    def step():
        image.grad = None
        net.zero_grad(set_to_none=True)
        with autocast(chosen):
            output = net(image)
        output.backward(gradient)
        kept[:] = [output]

    times = protocol.milliseconds(chosen, step, protocol.barrier_of(chosen.device))
    found = [kept, [image.grad], [p.grad for p in net.parameters()]]
    protocol.print_line(chosen, milliseconds=times, result=[protocol.root_mean_square(g) for g in found if g])


def train(chosen, net, image, layout):
    """MSE and AdamW (the fused one, the fastest), as bench/unet.cpp."""
    with torch.no_grad():
        shape = net.eval()(image).shape
    label = protocol.numbers(shape, image.numel()).to(chosen.device)
    if label.dim() == image.dim():
        label = label.contiguous(memory_format=layout)
    net.train()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    losses = []
    on_device = chosen.device == "cuda"
    if on_device:
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()

    def step():
        optimizer.zero_grad(set_to_none=True)
        with autocast(chosen):
            output = net(image)
        loss = F.mse_loss(output.float(), label)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    times = protocol.milliseconds(chosen, step, protocol.barrier_of(chosen.device))
    growth = {"growth_mib": (torch.cuda.max_memory_allocated() - before) / 2**20} if on_device else {}
    protocol.print_line(chosen, milliseconds=times, result=[losses[1]], **growth)


def update(chosen, net):
    """The optimiser's step alone, from a gradient that is given."""
    first = 0
    for parameter in net.parameters():
        parameter.grad = protocol.numbers(parameter.shape, first).to(chosen.device)
        first += parameter.numel()
    optimizer = torch.optim.AdamW(net.parameters(), lr=1e-3, fused=True)
    times = protocol.milliseconds(chosen, optimizer.step, protocol.barrier_of(chosen.device))
    protocol.print_line(chosen, milliseconds=times, result=[protocol.root_mean_square(list(net.parameters()))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--name", required=True)
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--warm-up", type=int, default=2)
    parser.add_argument("--parameters", required=True, help="raw floats that the Halogen program wrote")
    parser.add_argument("--size", type=int, help="in place of the name's own, in every direction")
    parser.add_argument("--setting", choices=["contiguous", "channels_last", "compile"], default="contiguous")
    parser.add_argument("--device", choices=["cpu", "cuda"], default="cpu")
    parser.add_argument("--precision", choices=["float", "bf16"], default="float")
    chosen = parser.parse_args()
    protocol.set_threads()
    net, shape, mode = models.model_of(chosen.name)
    if chosen.size:
        shape = models.resized(chosen.name, shape, chosen.size)
    layout = torch.contiguous_format
    if chosen.setting == "channels_last":
        layout = torch.channels_last if len(shape) == 4 else torch.channels_last_3d
    protocol.load_parameters(net, chosen.parameters)
    net = net.to(chosen.device, memory_format=layout)
    if chosen.setting == "compile":
        net = torch.compile(net)
    image = protocol.numbers(shape).to(chosen.device).contiguous(memory_format=layout)
    if chosen.name == "adamw":
        update(chosen, net)
    elif mode == "forward":
        forward(chosen, net, image)
    else:
        {"backward": backward, "train": train}[mode](chosen, net, image, layout)


main()
