"""unet_train, unet_forward: the twin of bench/unet.cpp in PyTorch; options in protocol.py."""

import torch
from torch import nn
from torch.nn import functional as F

import protocol


def block(channels_in, channels_out):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.GroupNorm(8, channels_out), nn.ReLU(inplace=True),
        nn.Conv2d(channels_out, channels_out, 3, padding=1), nn.GroupNorm(8, channels_out), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, channels_in=3, channels_out=3, base=16):
        super().__init__()
        self.enc1, self.enc2 = block(channels_in, base), block(base, 2 * base)
        self.enc3, self.dec2 = block(2 * base, 4 * base), block(6 * base, 2 * base)
        self.dec1, self.head = block(3 * base, base), nn.Conv2d(base, channels_out, 1)

    def forward(self, x):
        skip1 = self.enc1(x)
        skip2 = self.enc2(F.max_pool2d(skip1, 2))
        deep = self.enc3(F.max_pool2d(skip2, 2))
        deep = self.dec2(torch.cat([skip2, F.interpolate(deep, scale_factor=2, mode="nearest")], 1))
        return self.head(self.dec1(torch.cat([skip1, F.interpolate(deep, scale_factor=2, mode="nearest")], 1)))


chosen = protocol.options()
if chosen.name not in ("unet_train", "unet_forward"):
    raise SystemExit(f"peer: there is no '{chosen.name}' here")
protocol.measure_model(chosen, UNet(), 3, 3, 512, chosen.name == "unet_train")
