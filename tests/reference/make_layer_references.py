#!/usr/bin/env python3
"""make_layer_references.py [--to FOLDER] [NAME...]: layers.safetensors, resampled.safetensors, edges_of_pools.safetensors, signals.safetensors,
globe.safetensors, circular.safetensors, largest.safetensors, map_activations.safetensors, optimizers.safetensors, side_padding.safetensors, neighborhood_attention.safetensors, window_attention.safetensors,
multihead_attention.safetensors, attention_terms.safetensors, shared_weights.safetensors, grouped_conv3d.safetensors and conv_transpose3d.safetensors, as PyTorch computes them in float64. As make_references.py
beside it: NAME.{input, grad_output} are multiples of 1/64, F32; NAME.{output, grad_input} are F64. the last two
are exact in F32, as make_references.py says of convolutions.
"""
import functools

import numpy as np
import torch
from safetensors.torch import save_file
from torch.nn import functional as F

from chosen import chosen

PLANE, VOLUME = (2, 2, 10, 12), (2, 1, 6, 7, 8)
CASES = {
    "avg3d": (VOLUME, lambda x: F.avg_pool3d(x, 2)),
    "avg3d_mixed": (VOLUME, lambda x: F.avg_pool3d(x, (1, 3, 2), (1, 2, 2), (0, 1, 1))),
    "avg3d_exclude": (VOLUME, lambda x: F.avg_pool3d(x, 3, 2, 1, count_include_pad=False)),
    "avg_exclude": (PLANE, lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False)),
    "avg_ceil": (PLANE, lambda x: F.avg_pool2d(x, 2, 2, ceil_mode=True)),
    "avg_ceil_padded": (PLANE, lambda x: F.avg_pool2d(x, (4, 3), (3, 2), 1, ceil_mode=True)),
    "avg_ceil_exclude": (PLANE, lambda x: F.avg_pool2d(x, (4, 3), (3, 2), 1, True, False)),
    "max_ceil": (PLANE, lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True)),
    "max_ceil_reflected": (PLANE, lambda x: F.max_pool2d(F.pad(x, (0, 0, 2, 1), "reflect"), (3, 2), (2, 3), 1, (1, 2), True)),
    "max_ceil_padded": (PLANE, lambda x: F.max_pool2d(x, (4, 3), (3, 2), 1, ceil_mode=True)),
    "max3d_ceil": (VOLUME, lambda x: F.max_pool3d(x, 2, 2, ceil_mode=True)),
    "lp2": (PLANE, lambda x: F.lp_pool2d(x, 2, 3, 2)),
    "lp3": (PLANE, lambda x: F.lp_pool2d(x + 2, 3, 2)),
    "shuffle": ((2, 8, 7, 9), lambda x: F.pixel_shuffle(x, 2)),
    "shuffle3": ((2, 9, 6, 7), lambda x: F.pixel_shuffle(x, 3)),
    "unshuffle": ((2, 2, 12, 14), lambda x: F.pixel_unshuffle(x, 2)),
    "unshuffle3": ((2, 1, 12, 15), lambda x: F.pixel_unshuffle(x, 3)),
}


SMALL, BLOCK = (2, 1, 9, 11), (1, 1, 5, 6, 7)


def to(size, mode, **options):
    return lambda x: F.interpolate(x, size=size, mode=mode, **options)


def by(factor, mode, **options):
    return lambda x: F.interpolate(x, scale_factor=factor, mode=mode, **options)


RESAMPLED = {
    "nearest_up": (SMALL, to((14, 23), "nearest")),
    "nearest_down": (SMALL, to((6, 8), "nearest")),
    "exact_up": (SMALL, to((14, 23), "nearest-exact")),
    "exact_down": (SMALL, to((6, 7), "nearest-exact")),
    "exact_volume": (BLOCK, to((7, 8, 5), "nearest-exact")),
    "bilinear_up": (SMALL, to((13, 20), "bilinear")),
    "bilinear_down": (SMALL, to((6, 7), "bilinear")),
    "bilinear_corners": (SMALL, to((13, 20), "bilinear", align_corners=True)),
    "bilinear_antialias": (SMALL, to((6, 7), "bilinear", antialias=True)),
    "bilinear_factor": (SMALL, by(2, "bilinear", align_corners=True)),
    "trilinear": (BLOCK, to((7, 9, 10), "trilinear")),
    "trilinear_corners": (BLOCK, to((6, 7, 9), "trilinear", align_corners=True)),
    "bicubic_up": (SMALL, to((13, 20), "bicubic")),
    "bicubic_down": (SMALL, to((6, 7), "bicubic")),
    "bicubic_corners": (SMALL, to((13, 20), "bicubic", align_corners=True)),
    "bicubic_antialias": (SMALL, to((6, 7), "bicubic", antialias=True)),
    "bicubic_factor": (SMALL, by(3, "bicubic")),
    "adaptive": (SMALL, lambda x: F.adaptive_avg_pool2d(x, (6, 7))),
    "adaptive_up": (SMALL, lambda x: F.adaptive_avg_pool2d(x, (13, 16))),
    "adaptive_volume": (BLOCK, lambda x: F.adaptive_avg_pool3d(x, (4, 4, 5))),
}


SCALED = {
    "half": (SMALL, by(0.5, "bilinear")),
    "half_nearest": (SMALL, by(0.5, "nearest")),
    "nearest_exact": (SMALL, by(0.7, "nearest-exact")),
    "cubic_up": (SMALL, by(1.5, "bicubic")),
    "corners": (SMALL, by(1.5, "bilinear", align_corners=True)),
    "antialias": (SMALL, by(0.4, "bilinear", antialias=True)),
    "sides": (SMALL, by((1.25, 0.75), "bilinear")),
    "volume": (BLOCK, by(0.5, "trilinear")),
    "area": (SMALL, by(0.5, "area")),
    "area_size": (BLOCK, to((4, 4, 5), "area")),
    "signal": ((2, 2, 11), by(2.5, "linear")),
}

EDGES = {
    "max_circular": (PLANE, lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1), "circular"), 3, 2)),
    "max_circular_rows": (PLANE, lambda x: F.max_pool2d(F.pad(x, (0, 0, 1, 1), "circular"), (3, 2), (1, 2))),
    "max_reflect": (PLANE, lambda x: F.max_pool2d(F.pad(x, (1, 1, 1, 1), "reflect"), 3, 2)),
    "avg_circular": (PLANE, lambda x: F.avg_pool2d(F.pad(x, (1, 1, 1, 1), "circular"), 3, 1)),
    "avg_mixed": (PLANE, lambda x: F.avg_pool2d(F.pad(F.pad(x, (0, 0, 1, 1), "replicate"), (1, 1, 0, 0), "circular"), 3, 2)),
    "max3d_circular": (VOLUME, lambda x: F.max_pool3d(F.pad(x, (1, 1, 0, 0, 1, 1), "circular"), (3, 2, 3), (1, 2, 1))),
    "crop": (PLANE, lambda x: x[:, :, 1:-2, :-3]),
    "crop3d": (VOLUME, lambda x: x[:, :, 1:, :-2, 1:-1]),
    "roll": (PLANE, lambda x: torch.roll(x, (2, -3), (2, 3))),
    "roll3d": (VOLUME, lambda x: torch.roll(x, (1, -2), (2, 4))),
    "avg3d_circular": (VOLUME, lambda x: F.avg_pool3d(F.pad(x, (1, 1, 0, 0, 1, 1), "circular"), (3, 2, 3), (2, 2, 1))),
    "zero_pad": (PLANE, lambda x: F.pad(x, (1, 3, 2, 0))),
    "constant_pad": (PLANE, lambda x: F.pad(x, (2, 2, 1, 1), value=0.5)),
    "constant_pad3d": (VOLUME, lambda x: F.pad(x, (0, 3, 2, 1, 1, 0), value=0.5)),
}

ODD = (2, 2, 9, 11)


def ring(x, *points):
    return F.pad(x, points, "circular")


CIRCULAR = {
    "max": (ODD, lambda x: F.max_pool2d(ring(x, 1, 1, 1, 1), 3, 2)),
    "max_ceil": (ODD, lambda x: F.max_pool2d(ring(x, 1, 1, 1, 1), (2, 4), (3, 2), ceil_mode=True)),
    "max_ceil_unpadded": (ODD, lambda x: F.max_pool2d(x, 2, 2, ceil_mode=True)),
    "avg": (ODD, lambda x: F.avg_pool2d(ring(x, 1, 1, 2, 2), 4, 3)),
    "lp2": (ODD, lambda x: F.lp_pool2d(ring(x, 2, 2, 1, 1), 2, 4, 3)),
    "pad": (ODD, lambda x: ring(x, 1, 3, 0, 2)),
    "pad_whole": ((1, 1, 4, 6), lambda x: ring(x, 6, 6, 4, 3)),
    "pad3d": ((1, 1, 6, 7, 8), lambda x: ring(x, 2, 2, 1, 1, 3, 3)),
    "pad1d": ((2, 2, 15), lambda x: ring(x, 4, 2)),
    "avg3d": ((1, 1, 6, 7, 8), lambda x: F.avg_pool3d(ring(x, 1, 1, 0, 0, 1, 1), 3, 3)),
}


def around(x, factor, ends, mode, **options):
    """Interpolated by a factor where `ends` dimensions, of the last, go on at their other end."""
    for d, on in enumerate(ends):
        amounts = [0, 0] * (len(ends) - 1 - d) + [4 * on, 4 * on] + [0, 0] * d
        x = F.pad(x, amounts, "circular") if on else x
    y = F.interpolate(x, scale_factor=factor, mode=mode, **options)
    n = [4 * on * f for on, f in zip(ends, factor)]
    return y[(slice(None),) * 2 + tuple(slice(int(a), int(s - a)) for a, s in zip(n, y.shape[2:]))]


def padded(x, factor, ends, mode, **options):
    """Interpolated by a factor where beyond the ends, of the last dimensions, stands what F.pad puts there; in corners the first's."""
    for d, end in reversed(list(enumerate(ends))):
        amounts = [0, 0] * (len(ends) - 1 - d) + [4, 4] + [0, 0] * d
        x = F.pad(x, amounts, value=end) if isinstance(end, float) else F.pad(x, amounts, end)
    y = F.interpolate(x, scale_factor=factor, mode=mode, **options)
    n = [4 * f for f in factor]
    return y[(slice(None),) * 2 + tuple(slice(int(a), int(s - a)) for a, s in zip(n, y.shape[2:]))]


ENDS = {
    "ends_bilinear": (SMALL, lambda x: padded(x, (2, 3), (0.0, "reflect"), "bilinear")),
    "ends_bicubic": (SMALL, lambda x: padded(x, (3, 2), ("reflect", 0.75), "bicubic")),
    "ends_both": (SMALL, lambda x: padded(x, (2, 2), (-0.5, 0.75), "bicubic")),
    "ends_antialias": ((2, 1, 10, 12), lambda x: padded(x, (0.5, 0.5), ("reflect", -1.5), "bicubic", antialias=True)),
    "ends_volume": (BLOCK, lambda x: padded(x, (2, 2, 3), (0.25, "reflect", 0.0), "trilinear")),
    "ends_signal": ((2, 2, 8), lambda x: padded(x, (3,), (1.5,), "linear")),
}
GLOBE = {
    "globe_bilinear": (SMALL, lambda x: around(x, (2, 3), (0, 1), "bilinear")),
    "globe_bicubic": (SMALL, lambda x: around(x, (3, 2), (1, 1), "bicubic")),
    "globe_down": ((2, 1, 9, 12), lambda x: around(x, (1 / 3, 0.5), (0, 1), "bilinear")),
    "globe_antialias": ((2, 1, 10, 12), lambda x: around(x, (0.5, 0.5), (0, 1), "bicubic", antialias=True)),
    "globe_volume": (BLOCK, lambda x: around(x, (2, 2, 3), (1, 0, 1), "trilinear")),
    "ring": ((2, 2, 8), lambda x: around(x, (3,), (1,), "linear")),
}

LARGEST = {
    "adaptive_max": (SMALL, lambda x: F.adaptive_max_pool2d(x, (6, 7))),
    "adaptive_max_up": (SMALL, lambda x: F.adaptive_max_pool2d(x, (13, 16))),
    "adaptive_max_volume": (BLOCK, lambda x: F.adaptive_max_pool3d(x, (4, 4, 5))),
    "global_max": ((2, 3, 9, 11), lambda x: F.adaptive_max_pool2d(x, 1)),
    "global_max_volume": ((2, 1, 5, 6, 7), lambda x: F.adaptive_max_pool3d(x, 1)),
}

SIDES = {  # input channels, output channels, kernel, stride, dilation, padding (torch.nn.functional.pad) or "same"
    "same_even": (2, 3, (4, 2), 1, 1, "same"),
    "same_dilated": (2, 3, (2, 4), 1, (3, 1), "same"),
    "pad_circular": (2, 3, (3, 3), 1, 1, "reflect, circular"),
    "constant": (2, 3, (3, 4), 1, 1, "constant"),
    "constant_circular": (2, 3, (3, 3), 2, 1, "constant, circular"),
    "reflect_sides": (2, 3, (3, 4), 1, 1, "reflect, replicate"),
    "reflect_strided": (2, 2, (4, 3), 2, 1, "replicate, reflect"),
    "sides": (2, 3, (3, 3), 1, 1, (2, 1, 0, 2)),
    "sides_strided": (3, 2, (3, 2), 2, 1, (0, 1, 1, 0)),
}


def sides(file):
    tensors = {}
    for name, (inputs, outputs, kernel, stride, dilation, padding) in SIDES.items():
        random = np.random.default_rng(len(name))
        given = {"input": dyadic(random, (2, inputs, 9, 10)), "weight": dyadic(random, (outputs, inputs, *kernel)),
                 "bias": dyadic(random, (outputs,))}
        if padding == "same":
            f = lambda x, w, b: F.conv2d(x, w, b, stride, "same", dilation)
        elif padding == "reflect, circular":
            f = lambda x, w, b: F.conv2d(F.pad(F.pad(x, (1, 1, 2, 2), "reflect"), (1, 1, 1, 1), "circular"), w, b)
        elif padding == "reflect, replicate":  # 1 and 4 rows, 3 and 0 columns
            f = lambda x, w, b: F.conv2d(F.pad(F.pad(x, (0, 0, 1, 4), "reflect"), (3, 0, 0, 0), "replicate"), w, b)
        elif padding == "replicate, reflect":
            f = lambda x, w, b: F.conv2d(F.pad(F.pad(x, (0, 0, 0, 2), "replicate"), (2, 1, 0, 0), "reflect"), w, b, stride)
        elif padding == "constant":  # as many as keep the extents, of another number in each dimension
            f = lambda x, w, b: F.conv2d(F.pad(F.pad(x, (0, 0, 1, 1), value=5), (1, 2, 0, 0), value=-0.5), w, b)
        elif padding == "constant, circular":
            f = lambda x, w, b: F.conv2d(F.pad(F.pad(x, (0, 0, 1, 1), value=0.5), (1, 1, 0, 0), "circular"), w, b, stride)
        else:
            f = lambda x, w, b: F.conv2d(F.pad(x, padding), w, b, stride, 0, dilation)
        write_convolution(tensors, name, given, random, f)
    save_file(tensors, file)


SIGNAL = (2, 2, 17)
SIGNALS = {
    "max1d": (SIGNAL, lambda x: F.max_pool1d(x, 3, 2, 1)),
    "avg1d": (SIGNAL, lambda x: F.avg_pool1d(x, 4, 3, 1, True, False)),
    "reflect1d": (SIGNAL, lambda x: F.max_pool1d(F.pad(x, (2, 2), "reflect"), 2, 2)),
    "lp1d": (SIGNAL, lambda x: F.lp_pool1d(x, 2, 3, 2)),
    "linear1d": (SIGNAL, lambda x: F.interpolate(x, size=29, mode="linear")),
    "linear1d_corners": (SIGNAL, lambda x: F.interpolate(x, size=12, mode="linear", align_corners=True)),
    "linear1d_factor": (SIGNAL, lambda x: F.interpolate(x, scale_factor=3, mode="linear")),
    "nearest1d": (SIGNAL, lambda x: F.interpolate(x, size=11, mode="nearest")),
    "adaptive1d": (SIGNAL, lambda x: F.adaptive_avg_pool1d(x, 7)),
    "adaptive_max1d": (SIGNAL, lambda x: F.adaptive_max_pool1d(x, 7)),
    "reflect_sides1d": (SIGNAL, lambda x: F.pad(x, (1, 4), "reflect")),
    "circular1d": ((2, 2, 18), lambda x: F.avg_pool1d(F.pad(x, (1, 1), "circular"), 3, 2)),
}
CONVOLUTIONS_1D = {
    "conv1d": (3, 4, 1, lambda x, w, b: F.conv1d(x, w, b, 2, 2, 1), (4, 3, 5)),
    "conv1d_depthwise": (4, 4, 4, lambda x, w, b: F.conv1d(x, w, b, 1, 2, 2, 4), (4, 1, 3)),
    "conv1d_same": (2, 3, 1, lambda x, w, b: F.conv1d(x, w, b, 1, "same"), (3, 2, 4)),
    "conv_transpose1d": (3, 2, 1, lambda x, w, b: F.conv_transpose1d(x, w, b, 3, 1, 1), (3, 2, 4)),
}


def signals(file):
    tensors = {}
    for name, (inputs, outputs, groups, f, weight) in CONVOLUTIONS_1D.items():
        random = np.random.default_rng(len(name))
        given = {"input": dyadic(random, (2, inputs, 17)), "weight": dyadic(random, weight),
                 "bias": dyadic(random, (outputs,))}
        write_convolution(tensors, name, given, random, f)
    write(file, SIGNALS, tensors)


GROUPED = {  # input channels, output channels, groups, kernel, stride, padding, dilation
    "depthwise": (4, 4, 4, (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    "multiplied": (3, 6, 3, (2, 3, 3), (2, 1, 2), (0, 1, 1), (1, 1, 1)),
    "grouped": (6, 4, 2, (3, 2, 3), (2, 2, 1), (1, 0, 2), (1, 1, 2)),
    "dilated": (4, 6, 2, (2, 3, 1), (1, 2, 1), (1, 1, 0), (2, 1, 1)),
}


TRANSPOSED = {  # input channels, output channels, groups, kernel, stride, padding, output padding, dilation
    "up2": (3, 2, 1, (2, 2, 2), (2, 2, 2), (0, 0, 0), (0, 0, 0), (1, 1, 1)),
    "overlapping": (2, 2, 1, (3, 4, 3), (2, 3, 1), (1, 1, 2), (1, 0, 0), (1, 1, 1)),
    "transposed_grouped": (4, 2, 2, (3, 2, 3), (1, 2, 2), (1, 0, 1), (0, 1, 1), (2, 1, 1)),
}


def transposed(file):
    tensors = {}
    for name, (inputs, outputs, groups, kernel, stride, padding, more, dilation) in TRANSPOSED.items():
        random = np.random.default_rng(len(name))
        given = {"input": dyadic(random, (2, inputs, 4, 5, 6)), "weight": dyadic(random, (inputs, outputs // groups, *kernel)),
                 "bias": dyadic(random, (outputs,))}
        write_convolution(tensors, name, given, random,
                          lambda x, w, b: F.conv_transpose3d(x, w, b, stride, padding, more, groups, dilation))
    save_file(tensors, file)


def write_convolution(tensors, name, given, random, f):
    for t in given.values():
        t.requires_grad_()
    y = f(*given.values())
    g = dyadic(random, y.shape)
    (y * g).sum().backward()
    all_of = {"grad_output": g, "output": y.detach()}
    all_of |= {k: t.detach() for k, t in given.items()} | {f"grad_{k}": t.grad for k, t in given.items()}
    tensors |= {f"{name}.{k}": t.float().contiguous().clone() for k, t in all_of.items()}


def grouped(file):
    tensors = {}
    for name, (inputs, outputs, groups, kernel, *options) in GROUPED.items():
        random = np.random.default_rng(len(name))
        given = {"input": dyadic(random, (2, inputs, 6, 7, 8)), "weight": dyadic(random, (outputs, inputs // groups, *kernel)),
                 "bias": dyadic(random, (outputs,))}
        write_convolution(tensors, name, given, random, lambda x, w, b: F.conv3d(x, w, b, *options, groups))
    save_file(tensors, file)


def dyadic(random, shape):
    return torch.tensor(random.integers(-64, 65, shape) / 64.0)


def main():
    tables = {"layers": CASES, "resampled": RESAMPLED, "scaled": SCALED, "edges_of_pools": EDGES, "globe": GLOBE | ENDS,
              "circular": CIRCULAR, "largest": LARGEST}
    files = {name: functools.partial(write, cases=cases) for name, cases in tables.items()}
    files |= {"map_activations": functools.partial(write, cases=ACTIVATIONS, kinks=(0, 0.5, 1, 3, 6)), "side_padding": sides,
              "signals": signals, "grouped_conv3d": grouped, "conv_transpose3d": transposed,
              "neighborhood_attention": neighborhoods, "window_attention": windows, "multihead_attention": attentions,
              "attention_terms": attention_terms, "shared_weights": shared_weights, "optimizers": optimizers}
    folder, names = chosen(files, __file__, __doc__)
    for name in names:
        files[name](folder / f"{name}.safetensors")


def sees(extent, kernel, dilation, causal, periodic):
    """(extent, extent): whether query i sees key j in one dimension, as natten 0.20 moves its windows."""
    seen = torch.zeros(extent, extent, dtype=torch.bool)
    for i in range(extent):
        if periodic:
            seen[i, [(i + (t - kernel // 2) * dilation) % extent for t in range(kernel)]] = True
            continue
        alike = list(range(i % dilation, extent, dilation))  # the points that a dilated window of i may hold
        if causal:
            window = [j for j in alike if j <= i][-kernel:]
        else:
            begin = alike.index(i) - kernel // 2
            begin = min(max(begin, 0), len(alike) - kernel)
            window = alike[begin:begin + kernel]
            assert len(window) == kernel
        seen[i, window] = True
    return seen


def attend(x, heads, kernel, dilation=1, causal=(), periodic=()):
    """Attention of all points to all, with a mask; x: query, key and value."""
    extents = x.shape[2:]
    each = lambda option: option if isinstance(option, tuple) else (option,) * len(extents)
    mask = torch.ones(1, 1, dtype=torch.bool)
    for d, (extent, k, step) in enumerate(zip(extents, each(kernel), each(dilation))):
        mask = torch.kron(mask, sees(extent, k, step, d in causal, d in periodic))
    q, k, v = x.flatten(2).unflatten(1, (3, heads, -1)).transpose(3, 4).unbind(1)  # (N, heads, points, features)
    scores = (q @ k.transpose(2, 3)) * q.shape[-1] ** -0.5
    y = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v
    return y.transpose(2, 3).flatten(1, 2).unflatten(2, extents)


def neighborhoods(file):
    of = lambda *options, **named: lambda x: attend(x, *options, **named)
    write(file, {
        "three": ((2, 6, 9, 10), of(1, 3)),
        "rectangle": ((1, 12, 9, 7), of(2, (5, 3))),
        "even": ((1, 6, 11, 9), of(2, 4)),
        "dilated": ((1, 6, 13, 10), of(1, 3, (2, 3))),
        "causal": ((1, 6, 9, 8), of(1, (3, 5), causal=(0,))),
        "causal_dilated": ((1, 6, 7, 10), of(2, (2, 3), (3, 2), causal=(1,))),
        "globe": ((2, 6, 7, 11), of(1, 5, periodic=(1,))),
        "globe_dilated": ((1, 6, 9, 11), of(1, (3, 4), (2, 2), causal=(0,), periodic=(1,))),
        "signal": ((2, 6, 17), of(1, 5, 2)),
        "signal_even": ((2, 6, 13), of(2, 4, 1, causal=(0,))),
        "ring": ((2, 6, 13), of(1, 6, 2, periodic=(0,))),
        "volume": ((1, 6, 5, 6, 7), of(1, (3, 2, 5))),
        "volume_causal": ((1, 6, 4, 5, 6), of(1, (2, 3, 3), (2, 1, 1), causal=(0,), periodic=(2,))),
    }, tensors=whole_attention())


def whole_attention():
    """With its projections: layer.{qkv, proj}.{weight, bias} and their gradients."""
    random = np.random.default_rng(12)
    qkv, proj = (torch.nn.Conv2d(4, channels, 1).double() for channels in (12, 4))
    tensors = {}
    for name, one in (("qkv", qkv), ("proj", proj)):
        for role, parameter in one.named_parameters():
            parameter.data = dyadic(random, parameter.shape)
            tensors[f"layer.{name}.{role}"] = parameter.detach().clone().float()
    x = (2 * dyadic(random, (2, 4, 8, 7))).requires_grad_()
    y = proj(attend(qkv(x), 2, (5, 3), periodic=(1,)))
    g = dyadic(random, y.shape)
    (y * g).sum().backward()
    for name, one in (("qkv", qkv), ("proj", proj)):
        for role, parameter in one.named_parameters():
            tensors[f"layer.grad.{name}.{role}"] = parameter.grad
    return tensors | {"layer.input": x.detach().float(), "layer.grad_output": g.float(), "layer.output": y.detach(),
                      "layer.grad_input": x.grad}


def window_attend(x, table, heads, kernel, shift=0, periodic=()):
    """Attention of all points to all, with a mask and a bias by distance; x: query, key and value."""
    extents = x.shape[2:]
    each = lambda option: option if isinstance(option, tuple) else (option,) * len(extents)
    mask, index = torch.ones(1, 1, dtype=torch.bool), torch.zeros(1, 1, dtype=torch.long)
    for d, (extent, k, s) in enumerate(zip(extents, each(kernel), each(shift))):
        s = s if extent > k else 0
        at = torch.arange(extent) - s
        at = at % extent if d in periodic else at
        window, place = torch.div(at, k, rounding_mode="floor"), at % k
        one = lambda f: torch.ones_like(f)
        distance = place[:, None] - place[None] + k - 1
        index = torch.kron(index * (2 * k - 1), one(distance)) + torch.kron(one(index), distance)
        mask = torch.kron(mask, window[:, None] == window[None])
    q, k, v = x.flatten(2).unflatten(1, (3, heads, -1)).transpose(3, 4).unbind(1)  # (N, heads, points, features)
    scores = (q @ k.transpose(2, 3)) * q.shape[-1] ** -0.5 + table[index].permute(2, 0, 1)
    y = scores.masked_fill(~mask, -torch.inf).softmax(-1) @ v
    return y.transpose(2, 3).flatten(1, 2).unflatten(2, extents)


def rolled_window_attend(x, table, heads, kernel, shift):
    """As torchvision 0.20 computes it in shifted_window_attention, where windows divide the extents."""
    (_, _, height, width), (h, w) = x.shape, kernel
    shift = [0 if k >= extent else s for s, k, extent in zip(shift, kernel, (height, width))]
    windows = lambda t: t.unflatten(3, (-1, w)).unflatten(2, (-1, h)).permute(0, 2, 4, 3, 5, 1).flatten(3, 4).flatten(1, 2)
    qkv = windows(torch.roll(x, (-shift[0], -shift[1]), (2, 3)))  # (N, windows, points, 3 C)
    q, k, v = qkv.unflatten(3, (3, heads, -1)).permute(3, 0, 1, 4, 2, 5)
    coordinates = torch.stack(torch.meshgrid(torch.arange(h), torch.arange(w), indexing="ij")).flatten(1)
    relative = coordinates[:, :, None] - coordinates[:, None]
    index = (relative[0] + h - 1) * (2 * w - 1) + relative[1] + w - 1
    scores = q * q.shape[-1] ** -0.5 @ k.transpose(3, 4) + table[index].permute(2, 0, 1)
    regions = torch.zeros(1, 1, height, width)
    cuts = [((0, -k), (-k, -s or None), (-s or extent, None)) for k, s, extent in zip(kernel, shift, (height, width))]
    for count, (rows, columns) in enumerate((r, c) for r in cuts[0] for c in cuts[1]):
        regions[:, :, slice(*rows), slice(*columns)] = count
    region = windows(regions)[..., 0]
    apart = region[:, :, None] != region[..., None]
    y = (scores - 100 * apart[:, :, None]).softmax(-1) @ v  # (N, windows, heads, points, features)
    y = y.transpose(2, 3).flatten(3).unflatten(2, (h, w)).unflatten(1, (height // h, -1))  # (N, down, across, h, w, C)
    return torch.roll(y.permute(0, 5, 1, 3, 2, 4).flatten(4, 5).flatten(2, 3), shift, (2, 3))


WINDOWS = {  # input, heads, window, shift, periodic dimensions
    "plain": ((2, 6, 6, 8), 1, (3, 4), (0, 0), ()),
    "shifted": ((1, 12, 6, 12), 2, (3, 4), (1, 2), ()),
    "ragged": ((1, 6, 9, 11), 2, (4, 3), (0, 0), ()),
    "ragged_shifted": ((2, 6, 9, 10), 1, (4, 3), (1, 2), ()),
    "globe": ((1, 12, 7, 8), 2, (3, 4), (1, 2), (1,)),
    "small": ((1, 6, 4, 9), 1, (5, 4), (2, 1), ()),
    "one_globe": ((1, 6, 7, 6), 1, (3, 6), (1, 2), (1,)),
    "signal": ((1, 6, 17), 1, (5,), (2,), ()),
    "volume": ((1, 6, 4, 5, 6), 1, (2, 3, 3), (1, 1, 2), (2,)),
}


def windows(file):
    """NAME.{table, grad_table} too."""
    tensors = {}
    for name, (shape, heads, kernel, shift, periodic) in WINDOWS.items():
        random = np.random.default_rng(sum(map(ord, name)))
        x, table = dyadic(random, shape), dyadic(random, (int(np.prod([2 * k - 1 for k in kernel])), heads))
        g = dyadic(random, (shape[0], shape[1] // 3) + shape[2:])
        if not periodic and len(kernel) == 2 and all(e % k == 0 for e, k in zip(shape[2:], kernel)):
            torch.testing.assert_close(rolled_window_attend(x, table, heads, kernel, shift),
                                       window_attend(x, table, heads, kernel, shift), rtol=1e-13, atol=1e-13)
        x.requires_grad_(), table.requires_grad_()
        y = window_attend(x, table, heads, kernel, shift, periodic)
        (y * g).sum().backward()
        tensors |= {f"{name}.input": x.detach().float(), f"{name}.table": table.detach().float(),
                    f"{name}.grad_output": g.float(), f"{name}.output": y.detach(), f"{name}.grad_input": x.grad,
                    f"{name}.grad_table": table.grad}
    tensors |= whole_window_attention() | padded_window_attention()
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, file)


def window_layer(name, seed, extents, attend):
    """With its projections: NAME.PARAMETER, NAME.grad.PARAMETER and so on. attend(x, qkv, table) is what proj reads."""
    random = np.random.default_rng(seed)
    parameters = {"qkv.weight": (12, 4, 1, 1), "qkv.bias": (12,), "relative_position_bias_table": (35, 2),
                  "proj.weight": (4, 4, 1, 1), "proj.bias": (4,)}
    parameters = {key: dyadic(random, shape).requires_grad_() for key, shape in parameters.items()}
    at = list(parameters.values())
    x = (2 * dyadic(random, (1, 4, *extents))).requires_grad_()
    y = F.conv2d(attend(x, lambda of: F.conv2d(of, at[0], at[1]), at[2]), at[3], at[4])
    g = dyadic(random, y.shape)
    (y * g).sum().backward()
    tensors = {f"{name}.{key}": p.detach().float() for key, p in parameters.items()}
    tensors |= {f"{name}.grad.{key}": p.grad for key, p in parameters.items()}
    return tensors | {f"{name}.input": x.detach().float(), f"{name}.grad_output": g.float(),
                      f"{name}.output": y.detach(), f"{name}.grad_input": x.grad}


def whole_window_attention():
    return window_layer("layer", 13, (8, 7), lambda x, qkv, table: window_attend(qkv(x), table, 2, (4, 3), (2, 1)))


def padded_window_attention():
    """Of extents that the window does not divide, as torchvision pads them."""
    return window_layer("padded", 29, (9, 11), lambda x, qkv, table: rolled_window_attend(
        qkv(F.pad(x, (0, 1, 0, 3))), table, 2, (4, 3), (2, 1))[:, :, :9, :11])


def rotary(x, heads, base=10000.0):
    """Pairs of channels as complex numbers, turned by the index along the dimension that they belong to."""
    extents = x.shape[2:]
    parts = x.unflatten(1, (heads, len(extents), -1))  # (N, heads, dimension, width, space)
    width = parts.shape[3]
    speeds = base ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    turned = []
    for d, extent in enumerate(extents):
        pairs = torch.view_as_complex(parts[:, :, d].unflatten(2, (-1, 2)).movedim(3, -1).contiguous())
        angles = torch.outer(speeds, torch.arange(extent, dtype=torch.float64))
        angles = angles.reshape(len(speeds), *(extent if e == d else 1 for e in range(len(extents))))
        turned.append(torch.view_as_real(pairs * torch.polar(torch.ones_like(angles), angles)).movedim(-1, 3).flatten(2, 3))
    return torch.stack(turned, 2).flatten(1, 3)


def attend_to_all(x, heads, causal=False, turned=False, norms=None, base=10000.0, key_heads=None, mask=None):
    """By torch's scaled_dot_product_attention; norms: of the queries and of the keys of a head; mask: as its attn_mask."""
    extents = x.shape[2:]
    key_heads = key_heads or heads
    q, k, v = (z.flatten(1, 2) for z in x.unflatten(1, (heads + 2 * key_heads, -1)).split((heads, key_heads, key_heads), 1))
    if norms:
        normed = lambda norm, z, count: norm(z.unflatten(1, (count, -1)).movedim(2, -1)).movedim(-1, 2).flatten(1, 2)
        q, k = normed(norms[0], q, heads), normed(norms[1], k, key_heads)
    if turned:
        q, k = rotary(q, heads, base), rotary(k, key_heads, base)
    q, k, v = (z.flatten(2).unflatten(1, (count, -1)).transpose(2, 3)
               for z, count in ((q, heads), (k, key_heads), (v, key_heads)))
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, enable_gqa=heads != key_heads)
    return y.transpose(2, 3).flatten(1, 2).unflatten(2, extents)


def parts_of(name, parts, inputs, run, random):
    """NAME.{part}.{role} and NAME.grad.{part}.{role}, the inputs side by side, output and gradients."""
    tensors = {}
    for part, one in parts.items():
        for role, parameter in one.named_parameters():
            parameter.data = dyadic(random, parameter.shape)
            tensors[f"{name}.{part}.{role}"] = parameter.detach().clone().float()
    x = (2 * dyadic(random, inputs)).requires_grad_()
    y = run(x)
    g = dyadic(random, y.shape)
    (y * g).sum().backward()
    for part, one in parts.items():
        for role, parameter in one.named_parameters():
            tensors[f"{name}.grad.{part}.{role}"] = parameter.grad
    return tensors | {f"{name}.input": x.detach().float(), f"{name}.grad_output": g.float(), f"{name}.output": y.detach(),
                      f"{name}.grad_input": x.grad}


def attentions(file):
    random = np.random.default_rng(13)
    conv = lambda i, o: torch.nn.Conv2d(i, o, 1).double()
    head = lambda: torch.nn.LayerNorm(4).double()
    own = {"qkv": conv(8, 24), "q_norm": head(), "k_norm": head(), "proj": conv(8, 8)}
    tensors = parts_of("layer", own, (2, 8, 8, 7), lambda x: own["proj"](
        attend_to_all(own["qkv"](x), 2, turned=True, norms=(own["q_norm"], own["k_norm"]))), random)
    rms = lambda: torch.nn.RMSNorm(2).double()
    grouped = {"qkv": conv(6, 10), "q_norm": torch.nn.LayerNorm(2).double(), "k_norm": torch.nn.LayerNorm(2).double(),
               "proj": conv(6, 6)}
    tensors |= parts_of("grouped_layer", grouped, (1, 6, 8, 7), lambda x: grouped["proj"](attend_to_all(
        grouped["qkv"](x), 3, norms=(grouped["q_norm"], grouped["k_norm"]), key_heads=1)), random)
    cross = {"q": conv(4, 4), "kv": conv(8, 8), "q_norm": rms(), "k_norm": rms(), "proj": conv(4, 4)}
    tensors |= parts_of("cross", {"attn." + part: one for part, one in cross.items()}, (1, 12, 8, 9), lambda x: cross["proj"](attend_to_all(torch.cat(
        [cross["q"](x[:, :4]), cross["kv"](x[:, 4:])], 1), 2, norms=(cross["q_norm"], cross["k_norm"]))), random)
    write(file, {
        "turned_signal": ((2, 8, 13), lambda x: rotary(x, 2)),
        "turned_plane": ((2, 8, 9, 7), lambda x: rotary(x, 1, 100.0)),
        "turned_volume": ((1, 12, 4, 5, 7), lambda x: rotary(x, 2)),
        "causal": ((2, 12, 17), lambda x: attend_to_all(x, 2, causal=True)),
        "causal_turned": ((1, 12, 13), lambda x: attend_to_all(x, 1, causal=True, turned=True)),
        "attend_turned": ((1, 24, 8, 7), lambda x: attend_to_all(x, 2, turned=True, base=50.0)),
        "grouped": ((2, 8, 17), lambda x: attend_to_all(x, 4, causal=True, key_heads=2)),
        "flip": ((2, 2, 9, 11), lambda x: x.flip(2, 3)),
        "flip_columns": ((2, 2, 9, 11), lambda x: x.flip(3)),
        "flip_signal": ((2, 2, 13), lambda x: x.flip(2)),
        "flip_volume": ((1, 1, 6, 7, 8), lambda x: x.flip(2, 4)),
    }, tensors=tensors)


class RelativeTable(torch.nn.Module):
    """Bias of two points by their distance, as timm's gen_relative_position_index and torchvision's Swin number it; with
    a class token before the points, as BEiT's."""

    def __init__(self, extents, heads, token=False):
        super().__init__()
        self.extents, self.token, spans = extents, token, [2 * e - 1 for e in extents]
        entries = int(np.prod(spans)) + 3 * token
        self.relative_position_bias_table = torch.nn.Parameter(torch.zeros(entries, heads, dtype=torch.float64))

    def forward(self):
        points = torch.stack(torch.meshgrid(*(torch.arange(e) for e in self.extents), indexing="ij")).flatten(1)
        index = 0
        for apart, extent in zip(points[:, :, None] - points[:, None, :], self.extents):
            index = index * (2 * extent - 1) + apart + extent - 1
        if self.token:
            entries, index = len(self.relative_position_bias_table), F.pad(index, (1, 0, 1, 0))
            index[0, :], index[:, 0], index[0, 0] = entries - 3, entries - 2, entries - 1
        return self.relative_position_bias_table[index].movedim(2, 0)[None]


def attention_terms(file):
    """Attention with a bias of distances, a mask and a bias of keys."""
    random = np.random.default_rng(19)
    conv = lambda i, o: torch.nn.Conv2d(i, o, 1).double()
    tensors = {}
    for name, extents, layer in (("relative", (8, 7), conv), ("relative_signal", (17,), lambda i, o: torch.nn.Conv1d(i, o, 1).double())):
        parts = {"attn": RelativeTable(extents, 2), "attn.qkv": layer(4, 12), "attn.proj": layer(4, 4)}
        tensors |= parts_of(name, parts, (2, 4, *extents), lambda x: parts["attn.proj"](
            attend_to_all(parts["attn.qkv"](x), 2, mask=parts["attn"]())), random)
    for name, mask in (("masked", lambda x: (x[:, 4:5] > 0).flatten(2)[:, :, None]), ("biased", lambda x: x[:, 4:6].flatten(2)[:, :, None])):
        own = {"attn.qkv": conv(4, 12), "attn.proj": conv(4, 4)}
        tensors |= parts_of(name, own, (2, 8, 9, 7), lambda x: own["attn.proj"](
            attend_to_all(own["attn.qkv"](x[:, :4]), 2, mask=mask(x))), random)
    cross = {"attn.q": conv(4, 4), "attn.kv": conv(3, 8), "attn.proj": conv(4, 4)}
    tensors |= parts_of("cross_masked", cross, (2, 8, 9, 7), lambda x: cross["attn.proj"](attend_to_all(torch.cat(
        [cross["attn.q"](x[:, :4]), cross["attn.kv"](x[:, 4:7])], 1), 2, mask=(x[:, 7:] > 0).flatten(2)[:, :, None])), random)
    two = {"attn.q": conv(4, 4), "attn.kv": conv(3, 4), "attn.proj": conv(4, 4)}
    tensors |= parts_of("cross_coarse", two, (2, 8, 8, 12), lambda x: two["attn.proj"](attend_across(
        two["attn.q"](x[:, :4]), two["attn.kv"](F.avg_pool2d(x[:, 4:7], 2)), 4, 2,
        (F.avg_pool2d(x[:, 7:], 2) > 0).flatten(2)[:, :, None])), random)
    token, other_token = torch.nn.Module(), torch.nn.Module()
    for each in (token, other_token):
        each.cls_token = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))
    beit = {"token": token, "attn": RelativeTable((8, 7), 2, True), "attn.qkv": conv(4, 12), "attn.proj": conv(4, 4)}

    def seen(x):
        both = torch.cat([token.cls_token[None, :, None].expand(2, -1, -1), x.flatten(2)], 2)[..., None]
        y = beit["attn.proj"](attend_to_all(beit["attn.qkv"](both).flatten(2), 2, mask=beit["attn"]())[..., None])
        return y[:, :, 1:].reshape(x.shape) + y[:, :, :1]
    of_token = parts_of("relative_token", beit, (2, 4, 8, 7), seen, random)
    tensors |= {key.replace(".token.", "."): value for key, value in of_token.items()}
    points = torch.stack(torch.meshgrid(torch.arange(8), torch.arange(7), indexing="ij")).flatten(1)
    down, across = points[:, :, None] - points[:, None, :]
    slope = torch.tensor([0.5, 0.25], dtype=torch.float64)[:, None, None]
    fixed = (-slope * (down.abs() + 2 * across.clamp(min=0))).masked_fill(down.abs() > 4, -torch.inf)[None]
    by_distance = {"attn.qkv": conv(4, 12), "attn.proj": conv(4, 4)}
    tensors |= parts_of("by_distance", by_distance, (2, 4, 8, 7), lambda x: by_distance["attn.proj"](
        attend_to_all(by_distance["attn.qkv"](x), 2, mask=fixed)), random)
    near = {"attn": RelativeTable((8, 7), 2), "attn.qkv": conv(4, 12), "attn.proj": conv(4, 4)}
    tensors |= parts_of("relative_masked", near, (2, 8, 8, 7), lambda x: near["attn.proj"](attend_to_all(
        near["attn.qkv"](x[:, :4]), 2, mask=near["attn"]().masked_fill((x[:, 4:5] <= 0).flatten(2)[:, :, None], -torch.inf))), random)
    small = {"token": other_token, "attn": RelativeTable((6, 5), 2, True), "attn.qkv": conv(4, 12), "attn.proj": conv(4, 4)}

    def seen_masked(x):
        both = torch.cat([other_token.cls_token[None, :, None].expand(2, -1, -1), x[:, :4].flatten(2)], 2)[..., None]
        hidden = F.pad((x[:, 4:5] <= 0).flatten(2), (1, 0), value=False)[:, :, None]
        y = small["attn.proj"](attend_to_all(small["attn.qkv"](both).flatten(2), 2,
                                             mask=small["attn"]().masked_fill(hidden, -torch.inf))[..., None])
        return y[:, :, 1:].reshape(x[:, :4].shape) + y[:, :, :1]
    of_masked = parts_of("relative_token_masked", small, (2, 8, 6, 5), seen_masked, random)
    tensors |= {key.replace(".token.", "."): value for key, value in of_masked.items()}
    write(file, {}, tensors=tensors)


def attend_across(q, kv, heads, key_heads, mask):
    rows = lambda x, count: x.flatten(2).unflatten(1, (count, -1)).transpose(2, 3)
    k, v = kv.chunk(2, 1)
    y = F.scaled_dot_product_attention(rows(q, heads), rows(k, key_heads), rows(v, key_heads), mask, enable_gqa=True)
    return y.transpose(2, 3).flatten(1, 2).unflatten(2, q.shape[2:])


def sines(x, base=10000.0):
    """SinusoidalEmbedding: a part of the channels for each dimension, sines, then cosines."""
    width = x.shape[1] // (x.dim() - 2)
    parts = []
    for d, extent in enumerate(x.shape[2:]):
        speeds = base ** (-2 * torch.arange(width // 2, dtype=torch.float64) / width)
        angles = torch.arange(extent, dtype=torch.float64)[None] * speeds[:, None]
        shape = (width,) + (1,) * d + (extent,) + (1,) * (x.dim() - 3 - d)
        parts.append(torch.cat([angles.sin(), angles.cos()]).reshape(shape).expand(width, *x.shape[2:]))
    return x + torch.cat(parts)


def shared_weights(file):
    """Layers that are called twice: a block of the field with itself, one of the points and of their mean."""
    random = np.random.default_rng(17)
    block = {"block.conv": torch.nn.Conv2d(3, 3, 3, padding=1).double(), "block.norm": torch.nn.GroupNorm(1, 3).double()}
    of_points = {"norm": torch.nn.LayerNorm(3, eps=1e-5).double(), "fc": torch.nn.Linear(3, 3).double()}

    def run(x):
        inner = lambda x: F.silu(block["block.norm"](block["block.conv"](x)))
        rows = lambda x: of_points["fc"](of_points["norm"](x))  # channels last
        y = inner(inner(x) + x)
        mean = rows(y.mean((2, 3)))
        return rows(y.movedim(1, 3)).movedim(3, 1) + mean[:, :, None, None]

    gated = {"fc1_g": torch.nn.Linear(3, 5), "fc1_x": torch.nn.Linear(3, 5), "fc2": torch.nn.Linear(5, 3)}
    gated = {name: layer.double() for name, layer in gated.items()}

    def swiglu(x):
        x = x.movedim(1, 3)
        return gated["fc2"](F.silu(gated["fc1_g"](x)) * gated["fc1_x"](x)).movedim(3, 1)

    tensors = parts_of("twice", block | of_points, (2, 3, 9, 11), run, random)
    tensors |= parts_of("swiglu", gated, (2, 3, 9, 11), swiglu, random)
    write(file, {"sines1d": ((2, 6, 13), sines), "sines2d": ((2, 8, 9, 7), lambda x: sines(x, 100.0)),
                 "sines3d": ((1, 6, 4, 5, 7), sines)}, tensors=tensors)


def points(f):
    """Where the formula has kinks too: multiples of 1/64 in [-4, 4], and 0, 1/2, 1, 3, 6 with both signs."""
    return (2, 3, 6, 9), f


ACTIVATIONS = {
    "softplus": points(F.softplus), "softplus_sharp": points(lambda x: F.softplus(x, 3, 6)),
    "logsigmoid": points(F.logsigmoid), "softsign": points(F.softsign), "mish": points(F.mish),
    "hardtanh": points(F.hardtanh), "hardtanh_wide": points(lambda x: F.hardtanh(x, -0.5, 3)), "relu6": points(F.relu6),
    # PyTorch's derivative in double is 1 / 6 rounded to float
    "hardsigmoid": points(lambda x: torch.where((x > -3) & (x < 3), x / 6 + 0.5, (x >= 3).double())), "hardswish": points(F.hardswish), "celu": points(F.celu),
    "celu_steep": points(lambda x: F.celu(x, 0.25)), "selu": points(F.selu),
    "gelu_tanh": points(lambda x: F.gelu(x, approximate="tanh")), "hardshrink": points(F.hardshrink),
    "softshrink": points(F.softshrink), "tanhshrink": points(F.tanhshrink),
    "threshold": points(lambda x: F.threshold(x, 0.5, -3)),
    "prelu": points(lambda x: F.prelu(x, torch.full((3,), 0.25, dtype=torch.float64))),
}


def lion(p, g, state, lr, betas, decay):
    m = state.setdefault("m", torch.zeros_like(p))
    p = p * (1 - lr * decay) - lr * torch.sign(betas[0] * m + (1 - betas[0]) * g)
    state["m"] = betas[1] * m + (1 - betas[1]) * g
    return p


def lamb(p, g, state, lr, betas, eps, decay):
    """One tensor, as You et al., algorithm 2."""
    t = state["t"] = state.get("t", 0) + 1
    m = state["m"] = betas[0] * state.get("m", 0) + (1 - betas[0]) * g
    v = state["v"] = betas[1] * state.get("v", 0) + (1 - betas[1]) * g * g
    r = m / (1 - betas[0]**t) / (torch.sqrt(v / (1 - betas[1]**t)) + eps) + decay * p
    norms = p.norm(), r.norm()
    return p - lr * (norms[0] / norms[1] if min(norms) > 0 else 1) * r


def optimizers(file):
    """Five steps of a convolution (3, 2, 2, 2) with bias and a norm's weight and bias: NAME.after [step][33]. And the rates of
    schedulers, NAME.rates, of 20 steps with lr = 0.5."""
    random = np.random.default_rng(5)
    shapes = [(3, 2, 2, 2), (3,), (3,), (3,)]
    start = [dyadic(random, s) for s in shapes]
    start[3] = torch.zeros(3, dtype=torch.float64)  # a norm of 0
    gradients = [[dyadic(random, s) for s in shapes] for _ in range(5)]
    flat = lambda values: torch.cat([v.detach().reshape(-1) for v in values])
    tensors = {"start": flat(start), "gradients": torch.stack([flat(g) for g in gradients])}

    def run(name, make, after_backward=lambda p: None):
        parameters = [s.clone().requires_grad_() for s in start]
        optimizer, after = make(parameters), []
        for gradient in gradients:
            for p, g in zip(parameters, gradient):
                p.grad = g.clone()
            after_backward(parameters)
            optimizer.step()
            after.append(flat(parameters))
        tensors[f"{name}.after"] = torch.stack(after)

    def run_rule(name, rule):
        values, states, after = [s.clone() for s in start], [{} for _ in start], []
        for gradient in gradients:
            values = [rule(p, g, s) for p, g, s in zip(values, gradient, states)]
            after.append(flat(values))
        tensors[f"{name}.after"] = torch.stack(after)

    sgd, adam, adamw = torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW
    run("sgd", lambda p: sgd(p, lr=0.1))
    run("sgd_momentum", lambda p: sgd(p, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1))
    run("sgd_nesterov", lambda p: sgd(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1))
    run("adam", lambda p: adam(p, lr=0.1, weight_decay=0.1))
    run("clipped_value", lambda p: adamw(p, lr=0.1), lambda p: torch.nn.utils.clip_grad_value_(p, 0.25))
    run("groups", lambda p: adamw([{"params": p[:1], "lr": 0.02}, {"params": p[1:], "weight_decay": 0}], lr=0.1, weight_decay=0.2))
    run("rmsprop", lambda p: torch.optim.RMSprop(p, lr=0.1, alpha=0.9, weight_decay=0.1))
    run("rmsprop_momentum", lambda p: torch.optim.RMSprop(p, lr=0.02, momentum=0.9))
    run("adagrad", lambda p: torch.optim.Adagrad(p, lr=0.1, lr_decay=0.2, weight_decay=0.1))
    run_rule("lion", lambda p, g, s: lion(p, g, s, 0.1, (0.9, 0.99), 0.1))
    run_rule("lamb", lambda p, g, s: lamb(p, g, s, 0.1, (0.9, 0.999), 1e-6, 0.1))
    average, ema = None, []
    for p in tensors["sgd_momentum.after"]:
        average = p if average is None else 0.8 * average + 0.2 * p
        ema.append(average)
    tensors["average"] = torch.stack(ema)

    schedulers = torch.optim.lr_scheduler
    for name, make in {
            "step": lambda o: schedulers.StepLR(o, 4, 0.5),
            "cosine": lambda o: schedulers.CosineAnnealingLR(o, 12, 0.05),
            "warm_cosine": lambda o: schedulers.SequentialLR(o, [
                schedulers.LinearLR(o, 1 / 5, 1, 4), schedulers.CosineAnnealingLR(o, 10, 0)], [5]),
            "linear": lambda o: schedulers.LinearLR(o, 1, 0.1, 12),
            "one_cycle": lambda o: schedulers.OneCycleLR(o, 0.5, 20)}.items():
        optimizer = sgd([torch.zeros(1, requires_grad=True)], lr=0.5)
        scheduler, rates = make(optimizer), []
        for _ in range(20):
            rates.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            if len(rates) < 20:
                scheduler.step()
        tensors[f"{name}.rates"] = torch.tensor(rates, dtype=torch.float64)
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, file)


def write(file, cases, tensors=None, kinks=()):
    tensors = tensors or {}
    for name, (shape, f) in cases.items():
        random = np.random.default_rng(sum(map(ord, name)))
        x = dyadic(random, shape)
        if kinks:
            x = 4 * x
            x.view(-1)[:2 * len(kinks)] = torch.tensor([s * k for k in kinks for s in (1, -1)], dtype=torch.float64)
        x.requires_grad_()
        y = f(x)
        g = dyadic(random, y.shape)
        (y * g).sum().backward()
        tensors |= {f"{name}.input": x.detach().float(), f"{name}.grad_output": g.float(),
                    f"{name}.output": y.detach(), f"{name}.grad_input": x.grad}
    save_file({k: v.contiguous().clone() for k, v in tensors.items()}, file)


if __name__ == "__main__":
    main()
