"""conv2d_{8,16,32}_forward: the twin of bench/conv2d.cpp in PyTorch; options in protocol.py."""

from torch import nn

import protocol

sizes = {"conv2d_8_forward": (8, 1024), "conv2d_16_forward": (16, 1024), "conv2d_32_forward": (32, 512)}

chosen = protocol.options()
if chosen.name not in sizes:
    raise SystemExit(f"peer: there is no '{chosen.name}' here")
channels, size = sizes[chosen.name]
protocol.measure_model(chosen, nn.Conv2d(channels, channels, 3, padding=1), channels, channels, size, False)
