#!/usr/bin/env python3
"""The same U-Net in plain PyTorch, on one process: where the figures in the README come from.

    dump_sample DATA 0.5 sample.raw
    reference_torch.py sample.raw --height 360 --width 720

Needs torch and numpy. Prints, every ten steps, the loss of that step and the held-out ratio after it: the weighted RMSE
of the prediction over that of bilinear interpolation, from 60 E to 150 E, where the loss has weight 0.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F


class Conv3x3(nn.Conv2d):
    """Padding 1: periodic in longitude, zeros beyond the poles."""

    def __init__(self, channels_in, channels_out):
        super().__init__(channels_in, channels_out, 3)

    def forward(self, x):
        return super().forward(F.pad(F.pad(x, (1, 1, 0, 0), mode="circular"), (0, 0, 1, 1)))


def block(channels_in, channels_out):
    return nn.Sequential(
        Conv3x3(channels_in, channels_out), nn.GroupNorm(8, channels_out), nn.ReLU(),
        Conv3x3(channels_out, channels_out), nn.GroupNorm(8, channels_out), nn.ReLU(),
    )


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.enc1, self.enc2, self.enc3 = block(7, 16), block(16, 32), block(32, 64)
        self.dec2, self.dec1, self.head = block(96, 32), block(48, 16), nn.Conv2d(16, 3, 1)

    def forward(self, x):
        skip1 = self.enc1(x)
        skip2 = self.enc2(F.max_pool2d(skip1, 2))
        deep = self.enc3(F.max_pool2d(skip2, 2))
        up2 = F.interpolate(deep, size=skip2.shape[-2:], mode="nearest")
        deep = self.dec2(torch.cat([skip2, up2], 1))
        up1 = F.interpolate(deep, size=skip1.shape[-2:], mode="nearest")
        return self.head(self.dec1(torch.cat([skip1, up1], 1)))


def read_sample(path, height, width):
    raw = torch.from_numpy(np.fromfile(path, dtype=np.float32))
    counts = [7, 3, 1, 3, 3]
    parts = raw[:-3].reshape(1, sum(counts), height, width).split(counts, 1)
    return (*parts, raw[-3:].reshape(1, 3, 1, 1))


def held_out_weight(height, width):
    latitude = 90 - (np.arange(height) + 0.5) * 180 / height
    longitude = -180 + (np.arange(width) + 0.5) * 360 / width
    inside = (longitude >= 60) & (longitude < 150)
    return torch.from_numpy(np.cos(np.radians(latitude))[:, None] * inside[None, :])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sample")
    parser.add_argument("--height", type=int, default=360)
    parser.add_argument("--width", type=int, default=720)
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--learning-rate", type=float, default=5e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)

    image, label, weight, truth, baseline, sigma = read_sample(options.sample, options.height, options.width)
    sector = held_out_weight(options.height, options.width)

    def rmse(field):
        squares = (field.double() - truth.double()).square()
        return ((sector * squares).sum() / (3 * sector.sum())).sqrt().item()

    net = UNet()
    optimizer = torch.optim.AdamW(net.parameters(), lr=options.learning_rate)
    bilinear = rmse(baseline)
    print(f"{sum(p.numel() for p in net.parameters())} parameters, bilinear RMSE {bilinear:.6f}", flush=True)
    begin = time.perf_counter()
    for step in range(1, options.steps + 1):
        loss = F.mse_loss(net(image), label, weight=weight.expand_as(label))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0 or step == options.steps:
            seconds = (time.perf_counter() - begin) / step
            with torch.no_grad():
                ratio = rmse(baseline + sigma * net(image)) / bilinear
            print(f"step {step}: loss {loss.item():.6f} held_out_ratio {ratio:.4f}, {seconds:.2f} s a step", flush=True)


if __name__ == "__main__":
    main()
