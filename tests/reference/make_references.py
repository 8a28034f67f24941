#!/usr/bin/env python3
"""make_references.py [--to FOLDER] [NAME...]: what PyTorch computes for small inputs, as the safetensors files beside this script.

    python3 -m venv /tmp/torchenv
    /tmp/torchenv/bin/pip install torch==2.15.0 numpy safetensors
    /tmp/torchenv/bin/python tests/reference/make_references.py

The files are committed; tests read them and need no PyTorch. A second run on the same kind of machine gives the same
bytes, for one file as for all: `make_references.py conv2d`. FOLDER is where the files go, by default the script's own.

Rules that hold in all files:
  - Everything is computed in float64 and seeded. What is given (inputs, weights, gradients of outputs, targets) is
    rounded to float32 first, so that F32 holds it exactly and a test in float starts from the same numbers.
  - conv2d, grouped_conv2d, conv_transpose2d, conv3d, maxpool, maxpool3d, upsample: given values are multiples of 1/64, so that all results, too, are exact in float32, in
    any order of summation: every direct implementation, float or double, must agree to the last bit. All F32.
  - groupnorm, adamw, mse, unet, unet3d: given F32, computed F64.
  - PyTorch's own dimension order: fields NCHW or NCDHW, weights OIHW or OIDHW. grad_* are the gradients of sum(output * grad_output).
  - Each case is checked here against a second formula in NumPy or against finite differences before it is written.

The tensors, K = 0, 1, ... counting cases; `parameters` is I64:
  conv2d     caseK.{input, weight, bias, grad_output, output, grad_input, grad_weight, grad_bias}
             caseK.parameters = [kernel_h, kernel_w, stride_h, stride_w, padding_h, padding_w, dilation_h, dilation_w,
                                 periodic_h, periodic_w]; beyond the field are zeros where it is not periodic
  grouped_conv2d    as conv2d; weight (out, in / groups, kernel_h, kernel_w); parameters end with groups
  conv_transpose2d  as conv2d; weight (in, out / groups, kernel_h, kernel_w); parameters end with groups and
             [output_padding_h, output_padding_w] instead of [periodic_h, periodic_w]
  conv3d     the same with depth before height; parameters has three numbers where conv2d's has two
  padded_conv2d     as conv2d; parameters end with the edge of each dimension: 0 zero, 1 periodic, 2 reflect, 3 replicate
  pads       caseK.{input, grad_output, output, grad_input}; parameters = [edge, points, for each dimension of space]
  maxpool    caseK.{input, grad_output, output, grad_input}; of equal maxima the first, row by row, has the gradient
             caseK.parameters = [kernel, stride, padding, dilation], each for height and width; a last partial window
             is dropped, what padding adds is never the largest
  maxpool3d  the same with depth before height
  groupnorm  relu(group_norm(input)), eps 1e-5: caseK.{input, gamma, beta, grad_output} and
             caseK.{output, grad_input, grad_gamma, grad_beta}; caseK.parameters = [groups]
  bilinear   align_corners=False: caseK.{input, grad_output} and, F64, caseK.{output, grad_input}
  softmax    over the channels: caseK.{input, grad_output} and, F64, caseK.{output, grad_input}
  attention  scaled_dot_product_attention of (N, H, L, E): caseK.{query, key, value, grad_output} and, F64,
             caseK.{output, grad_query, grad_key, grad_value}; caseK.parameters = [is_causal, scale * 1000, 0 for the
             default]; causal: query i sees keys 0..i, whatever the lengths
  functions  the array language's functions of values, F64, in float64 at signed zeros, ties, ends of domains, infinities
             and NaN: points (n), NAME.value, NAME.derivative (n) of functions of one value; firsts, seconds (m), all
             pairs of some points, NAME.value, NAME.first, NAME.second (m) of functions of two; clamp.value,
             clamp.derivative (n): between the numbers -1 and 1.5
  activations        relu, leaky_relu (0.2), elu (0.5), silu, gelu, tanh, sigmoid: caseK.{input, grad_output} and, F64,
             caseK.{output, grad_input}
  avgpool    caseK.{input, grad_output} and, F64, caseK.{output, grad_input};
             caseK.parameters = [kernel, stride, padding], each for height and width; zeros of the padding count
  upsample   nearest, input index floor(o n / m): caseK.{input, grad_output, output, grad_input}
  adamw      parameters (24), gradients (5, 24), parameters_after (5, 24): after each step; clipped_gradients,
             clipped_after: from the same parameters, clip_grad_norm_ to 1 before each step, weight_decay 0.1; first_moment, second_moment
             (24): after the last; hyperparameters (F64) = [lr, beta1, beta2, eps, weight_decay]
  mse        prediction, target, weight; loss = sum(w d^2) / sum(w), w expanded to d's shape; grad_prediction;
             unweighted_loss = mean(d^2); unweighted_grad_prediction
  losses     the same of l1, huber (delta 1) and bce_with_logits: prediction, target, weight; NAME.loss,
             NAME.grad_prediction, NAME.unweighted_loss, NAME.unweighted_grad_prediction
  unet       the parameters of `earth_unet` below in forward order, named as its state_dict, which are the names of the
             same Halogen model, then input, target, weight (0 in columns 13 to 17), output, loss
  unet_training  gradient.NAME for each parameter, after_2_steps.NAME (AdamW, lr 5e-3, the same batch twice),
             losses = [before the first step, before the second, after it]
  unet_autocast  the first step of the same in float32 under torch.autocast to bfloat16, all F32 though PyTorch has
             rounded: output, gradient.NAME, loss
  unet3d     the same model of volumes, from `earth_unet` with three dimensions: parameters, input, target, output, loss
             and gradient.NAME
"""
import copy
import json
import math

import numpy as np
import safetensors.numpy
import torch
import torch.nn.functional as F
from torch import nn

from chosen import chosen

FIELDS = ("input", "grad_output", "output", "grad_input")
CONV_FIELDS = ("input", "weight", "bias", "grad_output", "output", "grad_input", "grad_weight", "grad_bias")
LARGEST_FILE, LARGEST_TOTAL = 80_000, 1_000_000
DTYPES = {np.dtype("float32"): "F32", np.dtype("float64"): "F64", np.dtype("int64"): "I64"}


def write(path, tensors):
    """As halogen::write_safetensors: names in the order given, the data of the widest elements first. (The writer of
    Python's safetensors sorts by name.)"""
    arrays = {name: np.ascontiguousarray(value).reshape(np.shape(value)) for name, value in tensors.items()}
    header, data = {name: None for name in arrays}, b""
    for name, array in sorted(arrays.items(), key=lambda item: -item[1].itemsize):
        header[name] = {"dtype": DTYPES[array.dtype], "shape": list(array.shape),
                        "data_offsets": [len(data), len(data) + array.nbytes]}
        data += array.tobytes()
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    path.write_bytes(len(text).to_bytes(8, "little") + text + data)
    read = safetensors.numpy.load_file(path)
    assert all(read[name].tobytes() == array.tobytes() and read[name].dtype == array.dtype
               for name, array in arrays.items())
    assert path.stat().st_size < LARGEST_FILE, (path.name, path.stat().st_size)


def exact(value):
    """As float32, which must hold it exactly."""
    value = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
    rounded = value.astype(np.float32)
    assert np.array_equal(rounded.astype(np.float64), value), "not exact in float32"
    return rounded


def computed(value):
    value = np.asarray(value.detach() if isinstance(value, torch.Tensor) else value)
    assert value.dtype == np.float64
    return value.copy()


def dyadic(random, *shape):
    """Multiples of 1/64 from -2 to 2."""
    return torch.from_numpy(random.integers(-128, 129, shape) / 64)


def uniform(random, low, high, *shape):
    """float64 tensor of values that float32 holds."""
    return torch.from_numpy(random.uniform(low, high, shape).astype(np.float32).astype(np.float64))


def close(a, b, tolerance=1e-12):
    a, b = np.asarray(a), np.asarray(b)
    assert a.shape == b.shape
    assert np.abs(a - b).max() <= tolerance * np.abs(b).max(), np.abs(a - b).max() / np.abs(b).max()


def grads(output, grad_output, *inputs):
    return torch.autograd.grad(output, inputs, grad_output)


# ---- conv2d ----------------------------------------------------------------------------------------------------------

CONV_CASES = [  # channels in, out; height, width; kernel; stride; padding; dilation; periodic (height, width)
    (3, 4, 5, 7, (3, 3), (1, 1), (1, 1), (1, 1), (0, 0)),
    (2, 2, 7, 9, (3, 3), (1, 1), (1, 1), (1, 1), (0, 1)),
    (5, 3, 5, 7, (1, 1), (1, 1), (0, 0), (1, 1), (0, 0)),
    (2, 3, 9, 11, (3, 3), (2, 2), (1, 1), (1, 1), (0, 0)),
    (1, 2, 9, 13, (3, 3), (2, 2), (1, 1), (1, 1), (0, 1)),
    (1, 2, 9, 13, (2, 2), (2, 2), (0, 0), (1, 1), (0, 0)),
    (2, 1, 7, 11, (2, 2), (1, 1), (1, 1), (1, 1), (0, 1)),
    (2, 2, 7, 10, (5, 5), (3, 3), (2, 2), (1, 1), (0, 0)),
    (1, 2, 9, 13, (5, 5), (2, 2), (2, 2), (2, 2), (0, 1)),
    (2, 1, 7, 11, (3, 5), (1, 1), (1, 2), (1, 1), (0, 1)),
    (1, 2, 7, 11, (3, 3), (1, 1), (2, 2), (2, 2), (0, 0)),
    (1, 2, 9, 13, (3, 5), (3, 2), (2, 1), (1, 2), (0, 1)),
    (1, 2, 4, 3, (5, 5), (1, 1), (2, 2), (1, 1), (0, 1)),  # the kernel is wider than the field
]


EDGES = ("constant", "circular", "reflect", "replicate")


def padded_by_torch(x, padding, edges):
    for d, (points, edge) in enumerate(zip(padding, edges)):
        pads = [0] * (2 * len(padding))
        pads[2 * (len(padding) - 1 - d)] = pads[2 * (len(padding) - 1 - d) + 1] = points
        x = F.pad(x, pads, mode=EDGES[edge])
    return x


def conv_by_index(x, w, b, g, stride, padding, dilation, periodic):
    """y[o] = b + sum_k w[k] x[o * stride - padding + k * dilation], index by index, with its gradients."""
    batch, _, *extents = x.shape
    dimensions, every = len(extents), (slice(None), slice(None))
    y, gx, gw = np.zeros(g.shape), np.zeros(x.shape), np.zeros(w.shape)
    for index in np.ndindex(*g.shape[2:], *w.shape[2:]):
        out, tap = index[:dimensions], index[dimensions:]
        at = [o * s - p + k * d for o, s, p, k, d in zip(out, stride, padding, tap, dilation)]
        at = [i % n if wrap else i for i, n, wrap in zip(at, extents, periodic)]
        if not all(0 <= i < n for i, n in zip(at, extents)):
            continue
        point, out, tap = (*every, *at), (*every, *out), (*every, *tap)
        y[out] += x[point] @ w[tap].T
        gx[point] += g[out] @ w[tap]
        gw[tap] += g[out].T @ x[point]
    return y + b.reshape(-1, *[1] * dimensions), gx, gw, g.sum((0, *range(2, g.ndim)))


def conv2d():
    random, tensors = np.random.default_rng(1), {}
    for i, (c_in, c_out, height, width, kernel, stride, padding, dilation, periodic) in enumerate(CONV_CASES):
        x = dyadic(random, 2, c_in, height, width).requires_grad_()
        w = dyadic(random, c_out, c_in, *kernel).requires_grad_()
        b = dyadic(random, c_out).requires_grad_()
        padded = padded_by_torch(x, padding, periodic)
        y = F.conv2d(padded, w, b, stride=stride, dilation=dilation)
        g = dyadic(random, *y.shape)
        results = grads(y, g, x, w, b)
        given = (x, w, b, g)
        expected = conv_by_index(*(t.detach().numpy() for t in given), stride, padding, dilation, periodic)
        for a, c in zip((y, *results), expected):
            assert np.array_equal(a.detach().numpy(), c)
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(CONV_FIELDS, (*given, y, *results))}
        tensors[f"case{i}.parameters"] = np.array([*kernel, *stride, *padding, *dilation, *periodic], np.int64)
    return tensors


# ---- edges ------------------------------------------------------------------------------------------------------------

PADDED_CASES = [  # channels in, out; height, width; kernel; stride; padding; dilation; edges
    (2, 3, 7, 9, (3, 3), (1, 1), (1, 1), (1, 1), (2, 3)),
    (1, 2, 9, 8, (5, 5), (1, 1), (2, 2), (1, 1), (3, 2)),
    (2, 2, 8, 8, (3, 3), (2, 2), (1, 1), (1, 1), (2, 1)),
    (1, 2, 9, 7, (3, 5), (1, 1), (2, 2), (2, 1), (2, 0)),
    (8, 8, 7, 6, (3, 3), (1, 1), (1, 1), (1, 1), (2, 2)),
    (1, 2, 8, 4, (7, 3), (1, 1), (3, 1), (1, 1), (3, 2)),
    (1, 2, 8, 4, (7, 3), (1, 1), (3, 1), (1, 1), (2, 3)),
    (2, 1, 10, 9, (4, 3), (3, 2), (3, 2), (1, 1), (2, 3)),
]
PAD_CASES = [(2, (5, 7), 2, (1, 2)), (1, (4, 6), 3, (2, 3)), (1, (4, 5, 4), 2, (1, 2, 1)), (2, (3, 4, 5), 3, (1, 2, 3))]


def padded_by_index(x, padding, edges):
    modes = ("constant", "wrap", "reflect", "edge")
    for d, (points, edge) in enumerate(zip(padding, edges)):
        width = [(0, 0)] * x.ndim
        width[2 + d] = (points, points)
        x = np.pad(x, width, mode=modes[edge])
    return x


def padded_adjoint(gradient, shape, padding, edges):
    """Each point's gradient added where its padded index came from; -1 came from nowhere."""
    indices = padded_by_index(np.arange(1.0, 1 + math.prod(shape)).reshape(shape), padding, edges).astype(int) - 1
    result = np.zeros(math.prod(shape))
    np.add.at(result, indices[indices >= 0], gradient[indices >= 0])
    return result.reshape(shape)


def padded_conv2d():
    random, tensors = np.random.default_rng(31), {}
    for i, (c_in, c_out, height, width, kernel, stride, padding, dilation, edges) in enumerate(PADDED_CASES):
        x = dyadic(random, 2, c_in, height, width).requires_grad_()
        w = dyadic(random, c_out, c_in, *kernel).requires_grad_()
        b = dyadic(random, c_out).requires_grad_()
        y = F.conv2d(padded_by_torch(x, padding, edges), w, b, stride=stride, dilation=dilation)
        g = dyadic(random, *y.shape)
        results, given = grads(y, g, x, w, b), (x, w, b, g)
        xs, ws, bs, gs = (t.detach().numpy() for t in given)
        ys, gx, gw, gb = conv_by_index(padded_by_index(xs, padding, edges), ws, bs, gs, stride, (0, 0), dilation, (0, 0))
        for a, c in zip((y, *results), (ys, padded_adjoint(gx, xs.shape, padding, edges), gw, gb)):
            assert np.array_equal(a.detach().numpy(), c)
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(CONV_FIELDS, (*given, y, *results))}
        tensors[f"case{i}.parameters"] = np.array([*kernel, *stride, *padding, *dilation, *edges], np.int64)
    return tensors


def pads():
    random, tensors = np.random.default_rng(32), {}
    for i, (channels, extents, edge, padding) in enumerate(PAD_CASES):
        edges = [edge] * len(extents)
        x = dyadic(random, 2, channels, *extents).requires_grad_()
        layer = {(2, 2): nn.ReflectionPad2d, (3, 2): nn.ReplicationPad2d, (2, 3): nn.ReflectionPad3d,
                 (3, 3): nn.ReplicationPad3d}[edge, len(extents)]
        y = layer(tuple(points for points in reversed(padding) for _ in range(2)))(x)
        g = dyadic(random, *y.shape)
        gx, = grads(y, g, x)
        assert np.array_equal(y.detach().numpy(), padded_by_index(x.detach().numpy(), padding, edges))
        assert np.array_equal(gx.numpy(), padded_adjoint(g.numpy(), x.shape, padding, edges))
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(FIELDS, (x, g, y, gx))}
        tensors[f"case{i}.parameters"] = np.array([edge, *padding], np.int64)
    return tensors


GROUPED_CASES = [  # channels in, out; groups; height, width; kernel; stride; padding; dilation; periodic
    (3, 3, 3, 7, 9, (3, 3), (1, 1), (1, 1), (1, 1), (0, 1)),  # depthwise
    (2, 4, 2, 7, 10, (3, 3), (2, 2), (1, 1), (1, 1), (0, 0)),  # two outputs for each input
    (4, 6, 2, 7, 9, (3, 3), (1, 1), (1, 1), (1, 1), (0, 0)),
    (10, 10, 2, 4, 6, (1, 1), (1, 1), (0, 0), (1, 1), (0, 0)),  # more outputs than one block holds
    (4, 2, 2, 9, 11, (5, 3), (3, 2), (2, 1), (1, 2), (0, 0)),
    (2, 2, 2, 8, 12, (4, 4), (2, 2), (1, 1), (1, 1), (0, 1)),
    (2, 2, 2, 7, 9, (5, 5), (1, 1), (4, 4), (2, 2), (0, 1)),
]


def grouped_conv2d():
    random, tensors = np.random.default_rng(11), {}
    for i, (c_in, c_out, groups, height, width, kernel, *window, periodic) in enumerate(GROUPED_CASES):
        stride, padding, dilation = window
        x = dyadic(random, 2, c_in, height, width).requires_grad_()
        w = dyadic(random, c_out, c_in // groups, *kernel).requires_grad_()
        b = dyadic(random, c_out).requires_grad_()
        padded = padded_by_torch(x, padding, periodic)
        y = F.conv2d(padded, w, b, stride=stride, dilation=dilation, groups=groups)
        g = dyadic(random, *y.shape)
        results, given = grads(y, g, x, w, b), (x, w, b, g)
        of_groups = [conv_by_index(xs, ws, bs, gs, stride, padding, dilation, periodic) for xs, ws, bs, gs in zip(
            *(np.split(t.detach().numpy(), groups, axis) for t, axis in zip(given, (1, 0, 0, 1))))]
        for a, axis, *parts in zip((y, *results), (1, 1, 0, 0), *of_groups):
            assert np.array_equal(a.detach().numpy(), np.concatenate(parts, axis))
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(CONV_FIELDS, (*given, y, *results))}
        tensors[f"case{i}.parameters"] = np.array([*kernel, *stride, *padding, *dilation, *periodic, groups], np.int64)
    return tensors


TRANSPOSED_CASES = [  # channels in, out; groups; height, width; kernel; stride; padding; dilation; output padding
    (3, 2, 1, 5, 6, (2, 2), (2, 2), (0, 0), (1, 1), (0, 0)),
    (1, 2, 1, 5, 6, (4, 4), (2, 2), (1, 1), (1, 1), (0, 0)),
    (1, 5, 1, 4, 5, (3, 3), (2, 2), (1, 1), (1, 1), (1, 1)),
    (3, 2, 1, 6, 7, (3, 3), (1, 1), (1, 1), (1, 1), (0, 0)),
    (2, 2, 1, 4, 4, (2, 1), (3, 2), (0, 0), (1, 1), (2, 0)),  # gaps between the windows
    (3, 3, 3, 4, 6, (4, 4), (2, 2), (1, 1), (1, 1), (0, 0)),  # depthwise
    (4, 6, 2, 3, 4, (3, 2), (2, 3), (0, 1), (2, 1), (0, 2)),
    (2, 2, 2, 5, 5, (5, 5), (1, 1), (0, 0), (1, 1), (0, 0)),  # grows by 4
]


def conv_transpose2d():
    random, tensors = np.random.default_rng(12), {}
    for i, (c_in, c_out, groups, height, width, kernel, *window) in enumerate(TRANSPOSED_CASES):
        stride, padding, dilation, output_padding = window
        x = dyadic(random, 2, c_in, height, width).requires_grad_()
        w = dyadic(random, c_in, c_out // groups, *kernel).requires_grad_()
        b = dyadic(random, c_out).requires_grad_()
        y = F.conv_transpose2d(x, w, b, stride, padding, output_padding, groups, dilation)
        g = dyadic(random, *y.shape)
        results, given = grads(y, g, x, w, b), (x, w, b, g)
        ys, gxs, gws = [], [], []  # as the adjoint of conv2d
        for xs, ws, bs, gs in zip(*(np.split(t.detach().numpy(), groups, a) for t, a in zip(given, (1, 0, 0, 1)))):
            gx, spread, gw, _ = conv_by_index(gs, ws, np.zeros(len(ws)), xs, stride, padding, dilation, (0, 0))
            ys.append(spread + bs[:, None, None]), gxs.append(gx), gws.append(gw)
        expected = (np.concatenate(ys, 1), np.concatenate(gxs, 1), np.concatenate(gws, 0), g.numpy().sum((0, 2, 3)))
        for a, c in zip((y, *results), expected):
            assert np.array_equal(a.detach().numpy(), c)
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(CONV_FIELDS, (*given, y, *results))}
        tensors[f"case{i}.parameters"] = np.array([*kernel, *stride, *padding, *dilation, *output_padding, groups],
                                                  np.int64)
    return tensors


CONV3D_CASES = [  # channels in, out; depth, height, width; kernel; stride; padding; dilation; periodic
    (2, 3, (4, 5, 6), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (0, 0, 0)),
    (1, 2, (5, 4, 6), (3, 3, 3), (1, 1, 1), (1, 1, 1), (1, 1, 1), (1, 0, 1)),
    (3, 2, (3, 4, 5), (1, 1, 1), (1, 1, 1), (0, 0, 0), (1, 1, 1), (0, 0, 0)),
    (2, 1, (4, 4, 5), (2, 1, 3), (1, 1, 1), (0, 0, 1), (1, 1, 1), (0, 0, 0)),
    (1, 2, (7, 6, 8), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), (0, 0, 0)),
    (1, 1, (6, 5, 7), (3, 3, 3), (1, 1, 1), (2, 1, 1), (2, 1, 1), (1, 1, 0)),
    (2, 2, (6, 7, 9), (5, 3, 3), (3, 2, 1), (2, 1, 1), (1, 1, 1), (0, 0, 1)),
    (1, 1, (6, 8, 6), (3, 3, 3), (2, 2, 2), (1, 1, 1), (1, 1, 1), (1, 1, 1)),
    (1, 2, (3, 5, 4), (5, 3, 3), (1, 1, 1), (2, 1, 1), (1, 1, 1), (1, 0, 0)),  # deeper than the field
]


def conv3d():
    random, tensors = np.random.default_rng(7), {}
    for i, (c_in, c_out, extents, kernel, stride, padding, dilation, periodic) in enumerate(CONV3D_CASES):
        x = dyadic(random, 2, c_in, *extents).requires_grad_()
        w = dyadic(random, c_out, c_in, *kernel).requires_grad_()
        b = dyadic(random, c_out).requires_grad_()
        padded = padded_by_torch(x, padding, periodic)
        y = F.conv3d(padded, w, b, stride=stride, dilation=dilation)
        g = dyadic(random, *y.shape)
        results = grads(y, g, x, w, b)
        given = (x, w, b, g)
        expected = conv_by_index(*(t.detach().numpy() for t in given), stride, padding, dilation, periodic)
        for a, c in zip((y, *results), expected):
            assert np.array_equal(a.detach().numpy(), c)
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(CONV_FIELDS, (*given, y, *results))}
        tensors[f"case{i}.parameters"] = np.array([*kernel, *stride, *padding, *dilation, *periodic], np.int64)
    return tensors


# ---- maxpool ---------------------------------------------------------------------------------------------------------

POOL_CASES = [  # kernel, stride, channels, height, width, what the input is, padding, dilation
    (2, 2, 2, 7, 9, "any", 0, 1), (3, 2, 1, 7, 10, "any", 0, 1), (3, 1, 1, 5, 7, "any", 0, 1),
    (2, 3, 1, 8, 11, "any", 0, 1), (2, 2, 1, 7, 9, "ties", 0, 1), (3, 1, 1, 5, 7, "ties", 0, 1),
    (3, 2, 1, 7, 9, "negative", 0, 1), (3, 2, 2, 9, 12, "negative", 1, 1), (2, 2, 1, 8, 10, "ties", 1, 1),
    (3, 2, 1, 12, 13, "any", 0, 2), (3, 1, 1, 9, 11, "ties", 1, 2), (3, 2, 1, 9, 12, "lowest", 1, 1),
]


def pool_by_index(x, g, kernel, stride, padding, dilation):
    """The first of equal maxima inside the field, row by row, wins."""
    y, gx = np.zeros(g.shape), np.zeros(x.shape)
    for n, c, *out in np.ndindex(*g.shape):
        taps = [[i for i in range(o * s - p, o * s - p + k * d, d) if 0 <= i < size]
                for o, s, p, k, d, size in zip(out, stride, padding, kernel, dilation, x.shape[2:])]
        window = x[n, c][np.ix_(*taps)]
        at = np.unravel_index(np.argmax(window), window.shape)
        y[n, c, *out] = window[at]
        gx[n, c, *(t[a] for t, a in zip(taps, at))] += g[n, c, *out]
    return y, gx


def maxpool():
    random, tensors = np.random.default_rng(2), {}
    for i, (kernel, stride, channels, height, width, kind, padding, dilation) in enumerate(POOL_CASES):
        x = dyadic(random, 2, channels, height, width)
        if kind == "ties":
            x = torch.floor(x).clamp(min=0)  # 0 or 1 (seldom 2), as after a ReLU
        if kind == "negative":
            x = -3 - x.abs()  # nothing outside of the field may ever win
        if kind == "lowest":
            x = torch.where(x > -1, x - torch.inf, x)  # windows of nothing else: the first inside the field wins
        x.requires_grad_()
        y = F.max_pool2d(x, kernel, stride, padding, dilation)
        g = dyadic(random, *y.shape)
        gx, = grads(y, g, x)
        window = [(size,) * 2 for size in (kernel, stride, padding, dilation)]
        for a, c in zip((y, gx), pool_by_index(x.detach().numpy(), g.numpy(), *window)):
            assert np.array_equal(a.detach().numpy(), c)
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(FIELDS, (x, g, y, gx))}
        tensors[f"case{i}.parameters"] = np.array(window, np.int64).reshape(-1)
    return tensors


POOL3D_CASES = [  # kernel, stride, channels, (depth, height, width), whether there are ties, padding, dilation
    ((2, 2, 2), (2, 2, 2), 2, (5, 6, 7), False, 0, 1), ((3, 3, 3), (2, 2, 2), 1, (7, 7, 8), True, 0, 1),
    ((3, 2, 3), (1, 1, 1), 1, (4, 5, 6), True, 0, 1), ((1, 2, 2), (1, 2, 3), 1, (3, 6, 8), False, 0, 1),
    ((2, 2, 2), (3, 2, 2), 1, (8, 4, 6), True, 0, 1), ((3, 3, 3), (2, 2, 2), 1, (7, 8, 9), False, 1, 1),
    ((3, 2, 3), (1, 2, 1), 1, (6, 7, 8), True, (1, 0, 1), (2, 3, 1)),
]


def maxpool3d():
    random, tensors = np.random.default_rng(8), {}
    for i, (kernel, stride, channels, extents, ties, *more) in enumerate(POOL3D_CASES):
        padding, dilation = ((m,) * 3 if isinstance(m, int) else m for m in more)
        x = dyadic(random, 2, channels, *extents)
        x = (torch.floor(x).clamp(min=0) if ties else x).requires_grad_()
        y = F.max_pool3d(x, kernel, stride, padding, dilation)
        g = dyadic(random, *y.shape)
        gx, = grads(y, g, x)
        for a, c in zip((y, gx), pool_by_index(x.detach().numpy(), g.numpy(), kernel, stride, padding, dilation)):
            assert np.array_equal(a.detach().numpy(), c)
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(FIELDS, (x, g, y, gx))}
        tensors[f"case{i}.parameters"] = np.array([*kernel, *stride, *padding, *dilation], np.int64)
    return tensors


# ---- groupnorm + relu ------------------------------------------------------------------------------------------------

NORM_CASES = [  # groups, channels, height, width, mean of the input, which is mean +- 1
    (1, 4, 4, 5, 0), (2, 4, 4, 5, 0), (4, 8, 3, 5, 0), (2, 4, 4, 5, 1000),
]


def groupnorm():
    random, tensors = np.random.default_rng(3), {}
    for i, (groups, channels, height, width, mean) in enumerate(NORM_CASES):
        x = (mean + uniform(random, -1, 1, 2, channels, height, width)).float().double().requires_grad_()
        gamma = uniform(random, 0.5, 1.5, channels).requires_grad_()
        beta = uniform(random, -0.5, 0.5, channels).requires_grad_()
        y = F.relu(F.group_norm(x, groups, gamma, beta, eps=1e-5))
        g = uniform(random, -1, 1, *y.shape)
        results = grads(y, g, x, gamma, beta)

        value = x.detach().numpy().reshape(2, groups, -1)
        centred = value - value.mean(2, keepdims=True)
        deviation = np.sqrt((centred**2).mean(2, keepdims=True) + 1e-5)
        hat = centred / deviation
        gamma_, beta_ = (t.detach().numpy()[:, None, None] for t in (gamma, beta))
        raw = hat.reshape(x.shape) * gamma_ + beta_
        g_raw = g.numpy() * (raw > 0)
        g_hat = (g_raw * gamma_).reshape(value.shape)
        g_value = (g_hat - g_hat.mean(2, keepdims=True) - hat * (g_hat * hat).mean(2, keepdims=True)) / deviation
        close(y.detach(), np.maximum(raw, 0))
        close(results[0], g_value.reshape(x.shape))
        close(results[1], (g_raw * hat.reshape(x.shape)).sum((0, 2, 3)))
        close(results[2], g_raw.sum((0, 2, 3)))

        given, names = (x, gamma, beta, g), ("input", "gamma", "beta", "grad_output")
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(names, given)}
        names = ("output", "grad_input", "grad_gamma", "grad_beta")
        tensors |= {f"case{i}.{name}": computed(t) for name, t in zip(names, (y, *results))}
        tensors[f"case{i}.parameters"] = np.array([groups], np.int64)
    return tensors


# ---- upsample --------------------------------------------------------------------------------------------------------

UPSAMPLE_CASES = [(2, 2, (5, 7), (11, 15)), (1, 1, (4, 6), (8, 12)), (1, 1, (22, 3), (45, 7))]


def upsample():
    random, tensors = np.random.default_rng(4), {}
    for i, (batch, channels, small, large) in enumerate(UPSAMPLE_CASES):
        x = dyadic(random, batch, channels, *small).requires_grad_()
        y = F.interpolate(x, size=large, mode="nearest")
        g = dyadic(random, *y.shape)
        gx, = grads(y, g, x)
        rows, columns = (np.arange(m) * n // m for n, m in zip(small, large))  # index floor(o n / m)
        assert np.array_equal(y.detach().numpy(), x.detach().numpy()[:, :, rows][:, :, :, columns])
        expected = np.zeros(x.shape)
        for o, p in np.ndindex(*large):
            expected[:, :, rows[o], columns[p]] += g.numpy()[:, :, o, p]
        assert np.array_equal(gx.numpy(), expected)
        tensors |= {f"case{i}.{name}": exact(t) for name, t in zip(FIELDS, (x, g, y, gx))}
    return tensors


BILINEAR_CASES = [  # batch, channels, from, to
    (2, 2, (5, 6), (10, 12)), (2, 1, (6, 7), (13, 15)), (1, 1, (7, 9), (14, 19)), (2, 1, (5, 4), (15, 12)),
]


def bilinear_matrix(small, large):
    """Output o stands at (o + 1/2) n / m - 1/2, clamped."""
    matrix = np.zeros((large, small))
    for o in range(large):
        at = max((o + 0.5) * small / large - 0.5, 0.0)
        first = int(at)
        matrix[o, first] += 1 - (at - first)
        matrix[o, min(first + 1, small - 1)] += at - first
    return matrix


def bilinear():
    random, tensors = np.random.default_rng(13), {}
    for i, (batch, channels, small, large) in enumerate(BILINEAR_CASES):
        x = dyadic(random, batch, channels, *small).requires_grad_()
        y = F.interpolate(x, size=large, mode="bilinear", align_corners=False)
        g = dyadic(random, *y.shape)
        gx, = grads(y, g, x)
        down, across = (bilinear_matrix(n, m) for n, m in zip(small, large))
        close(y.detach(), np.einsum("yh,xw,nchw->ncyx", down, across, x.detach().numpy()), 1e-14)
        close(gx, np.einsum("yh,xw,ncyx->nchw", down, across, g.numpy()), 1e-14)
        tensors |= {f"case{i}.{name}": f(t) for name, f, t in
                    zip(FIELDS, (exact, exact, computed, computed), (x, g, y, gx))}
    return tensors


# ---- softmax ---------------------------------------------------------------------------------------------------------

def softmax():
    random, tensors = np.random.default_rng(14), {}
    for i, (channels, height, width, scale) in enumerate([(3, 7, 9, 2), (5, 6, 7, 40), (1, 6, 6, 2), (19, 6, 6, 8)]):
        x = uniform(random, -scale, scale, 2, channels, height, width).requires_grad_()
        y = F.softmax(x, dim=1)
        g = uniform(random, -1, 1, *y.shape)
        gx, = grads(y, g, x)
        e = np.exp(x.detach().numpy() - x.detach().numpy().max(1, keepdims=True))
        expected = e / e.sum(1, keepdims=True)
        close(y.detach(), expected, 1e-14)
        assert np.abs(gx.numpy() - expected * (g.numpy() - (g.numpy() * expected).sum(1, keepdims=True))).max() < 1e-14
        tensors |= {f"case{i}.{name}": f(t) for name, f, t in
                    zip(FIELDS, (exact, exact, computed, computed), (x, g, y, gx))}
    return tensors


# ---- activations -----------------------------------------------------------------------------------------------------

def activations():
    random, tensors = np.random.default_rng(23), {}
    erf = np.vectorize(math.erf)
    cases = [(F.relu, lambda x: np.maximum(x, 0)),
             (lambda x: F.leaky_relu(x, 0.2), lambda x: np.where(x > 0, x, 0.2 * x)),
             (lambda x: F.elu(x, 0.5), lambda x: np.where(x > 0, x, 0.5 * np.expm1(x))),
             (F.silu, lambda x: x / (1 + np.exp(-x))), (F.gelu, lambda x: x / 2 * (1 + erf(x / math.sqrt(2)))),
             (torch.tanh, np.tanh), (torch.sigmoid, lambda x: 1 / (1 + np.exp(-x)))]
    for i, (function, by_numpy) in enumerate(cases):
        x = uniform(random, -6, 6, 2, 3, 7, 11).requires_grad_()
        y = function(x)
        g = uniform(random, -1, 1, *y.shape)
        gx, = grads(y, g, x)
        at, step = x.detach().numpy(), 1e-6
        close(y.detach(), by_numpy(at), 1e-14)
        away = np.abs(at) > 2 * step
        slope = (by_numpy(at + step) - by_numpy(at - step)) / (2 * step) * g.numpy()
        assert np.abs(gx.numpy() - slope)[away].max() < 1e-8
        tensors |= {f"case{i}.{name}": f(t) for name, f, t in
                    zip(FIELDS, (exact, exact, computed, computed), (x, g, y, gx))}
    return tensors


# ---- avgpool ---------------------------------------------------------------------------------------------------------

def avgpool():
    random, tensors = np.random.default_rng(15), {}
    cases = [((2, 2), (2, 2), 2, 7, 9, (0, 0)), ((3, 3), (2, 2), 1, 7, 10, (0, 0)), ((3, 2), (1, 1), 1, 6, 7, (0, 0)),
             ((2, 2), (3, 3), 1, 8, 11, (0, 0)), ((3, 3), (2, 2), 1, 8, 11, (1, 1)), ((3, 2), (1, 2), 1, 9, 10, (1, 0))]
    for i, (kernel, stride, channels, height, width, padding) in enumerate(cases):
        x = dyadic(random, 2, channels, height, width).requires_grad_()
        y = F.avg_pool2d(x, kernel, stride, padding)
        g = dyadic(random, *y.shape)
        gx, = grads(y, g, x)
        ones = np.ones((1, 1, *kernel)) / np.prod(kernel)
        for c in range(channels):
            at = slice(c, c + 1)
            by_index = conv_by_index(x.detach().numpy()[:, at], ones, np.zeros(1), g.numpy()[:, at], stride, padding,
                                     (1, 1), (0, 0))
            close(y.detach()[:, at], by_index[0]), close(gx[:, at], by_index[1])
        tensors |= {f"case{i}.{name}": f(t) for name, f, t in
                    zip(FIELDS, (exact, exact, computed, computed), (x, g, y, gx))}
        tensors[f"case{i}.parameters"] = np.array([*kernel, *stride, *padding], np.int64)
    return tensors


# ---- adamw -----------------------------------------------------------------------------------------------------------

def adamw():
    random, steps, count = np.random.default_rng(5), 5, 24
    start, gradients = uniform(random, -1, 1, count), uniform(random, -1, 1, steps, count)
    gradients[:, 0] = 0  # only decay
    gradients[:, 1] *= 2.0**-40  # far below eps
    gradients[:, 2] *= 2.0**40
    gradients[1:, 3] = 0  # a first step only
    p = nn.Parameter(start.clone())
    optimizer = torch.optim.AdamW([p], lr=5e-3)
    options = optimizer.defaults
    assert options["betas"] == (0.9, 0.999) and options["eps"] == 1e-8 and options["weight_decay"] == 0.01
    value, m, v, after = start.numpy().copy(), np.zeros(count), np.zeros(count), []
    for t in range(1, steps + 1):
        p.grad = gradients[t - 1].clone()
        optimizer.step()
        g = gradients[t - 1].numpy()
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        value = value * (1 - 5e-3 * 0.01)
        value = value - 5e-3 * (m / (1 - 0.9**t)) / (np.sqrt(v / (1 - 0.999**t)) + 1e-8)
        close(p.detach(), value, 1e-14)
        after.append(p.detach().numpy().copy())
    clipped = nn.Parameter(start.clone())
    optimizer_of_clipped, clipped_after, norms = torch.optim.AdamW([clipped], lr=5e-3, weight_decay=0.1), [], []
    smaller = uniform(random, -1, 1, steps, count) * torch.tensor([0.125, 1.0, 4.0, 0.0, 0.5]).double()[:, None]
    for t in range(steps):
        clipped.grad = smaller[t].clone()
        norms.append(float(nn.utils.clip_grad_norm_([clipped], 1.0)))
        assert abs(norms[-1] - np.sqrt((smaller[t].numpy() ** 2).sum())) < 1e-14
        optimizer_of_clipped.step()
        clipped_after.append(clipped.detach().numpy().copy())
    assert min(norms) < 1 < max(norms)
    state = optimizer.state[p]
    np.testing.assert_allclose(state["exp_avg"].numpy(), m, rtol=1e-12)
    np.testing.assert_allclose(state["exp_avg_sq"].numpy(), v, rtol=1e-12)
    return {"parameters": exact(start), "gradients": exact(gradients), "parameters_after": np.stack(after),
            "clipped_gradients": exact(smaller), "clipped_after": np.stack(clipped_after),
            "first_moment": computed(state["exp_avg"]), "second_moment": computed(state["exp_avg_sq"]),
            "hyperparameters": np.array([5e-3, 0.9, 0.999, 1e-8, 0.01])}  # lr, beta1, beta2, eps, weight_decay


# ---- mse -------------------------------------------------------------------------------------------------------------

def mse_loss(prediction, target, weight=None):
    """sum(w d^2) / sum(w), w expanded to the prediction's shape; the mean of d^2 without weights."""
    if weight is None:
        return F.mse_loss(prediction, target)
    weight = weight.expand_as(prediction)
    return (weight * (prediction - target) ** 2).sum() / weight.sum()


def mse():
    random = np.random.default_rng(6)
    prediction = uniform(random, -1, 1, 2, 3, 5, 7).requires_grad_()
    target, weight = uniform(random, -1, 1, 2, 3, 5, 7), uniform(random, 0, 1, 2, 1, 5, 7)
    weight[:, :, :, 2:4] = 0  # a sector that is held out
    weighted, plain = mse_loss(prediction, target, weight), mse_loss(prediction, target)
    grad_weighted, = torch.autograd.grad(weighted, prediction)
    grad_plain, = torch.autograd.grad(plain, prediction)
    d = (prediction - target).detach().numpy()
    close(weighted.detach(), (weight.numpy() * d**2).sum() / (3 * weight.numpy().sum()))
    close(grad_weighted, 2 * weight.numpy() * d / (3 * weight.numpy().sum()))
    close(plain.detach(), (d**2).mean())
    close(grad_plain, 2 * d / d.size)
    return {"prediction": exact(prediction), "target": exact(target), "weight": exact(weight),
            "loss": computed(weighted), "grad_prediction": computed(grad_weighted),
            "unweighted_loss": computed(plain), "unweighted_grad_prediction": computed(grad_plain)}


# ---- losses ----------------------------------------------------------------------------------------------------------

def losses():
    random, tensors = np.random.default_rng(24), {}
    logistic = lambda p: 1 / (1 + np.exp(-p))
    kinds = {"l1": (F.l1_loss, lambda p, y: np.abs(p - y)),
             "huber": (F.huber_loss, lambda p, y: np.where(np.abs(p - y) < 1, (p - y)**2 / 2, np.abs(p - y) - 0.5)),
             "bce_with_logits": (F.binary_cross_entropy_with_logits,
                                 lambda p, y: -y * np.log(logistic(p)) - (1 - y) * np.log(1 - logistic(p)))}
    prediction = uniform(random, -3, 3, 2, 3, 5, 7).requires_grad_()
    target, weight = uniform(random, 0, 1, 2, 3, 5, 7), uniform(random, 0, 1, 2, 1, 5, 7)
    with torch.no_grad():
        prediction[0, 0, 0, 0] = target[0, 0, 0, 0]  # no error at all
    for name, (function, by_numpy) in kinds.items():
        wide = weight.expand_as(prediction)
        weighted = (wide * function(prediction, target, reduction="none")).sum() / wide.sum()
        plain = function(prediction, target)
        p, y, w = prediction.detach().numpy(), target.numpy(), wide.numpy()
        close(weighted.detach(), (w * by_numpy(p, y)).sum() / w.sum(), 1e-13)
        close(plain.detach(), by_numpy(p, y).mean(), 1e-13)
        tensors |= {f"{name}.loss": computed(weighted), f"{name}.unweighted_loss": computed(plain),
                    f"{name}.grad_prediction": computed(torch.autograd.grad(weighted, prediction)[0]),
                    f"{name}.unweighted_grad_prediction": computed(torch.autograd.grad(plain, prediction)[0])}
    return {"prediction": exact(prediction), "target": exact(target), "weight": exact(weight)} | tensors


# ---- unet ------------------------------------------------------------------------------------------------------------

class GlobeConv(nn.Conv2d):
    """3 x 3, padding 1: zeros beyond the poles, periodic in longitude."""

    def forward(self, x):
        return F.conv2d(F.pad(F.pad(x, (1, 1, 0, 0), mode="circular"), (0, 0, 1, 1)), self.weight, self.bias)


class GlobeConv3d(nn.Conv3d):
    """3 x 3 x 3, padding 1: zeros below, above and beyond the poles, periodic in longitude."""

    def forward(self, x):
        around = F.pad(x, (1, 1, 0, 0, 0, 0), mode="circular")
        return F.conv3d(F.pad(around, (0, 0, 1, 1, 1, 1)), self.weight, self.bias)


class UpsampleToSkip(nn.Module):
    pass  # SkipConcat knows the size


class SkipConcat(nn.Module):
    """x beside up(inner(down(x)))."""

    def __init__(self, body):
        super().__init__()
        self.body = body

    def forward(self, x):
        y = x
        for layer in self.body:
            y = F.interpolate(y, size=x.shape[2:], mode="nearest") if isinstance(layer, UpsampleToSkip) else layer(y)
        return torch.cat([x, y], 1)


def earth_unet(c_in, c_out, base, groups, dimensions=2):
    """DESIGN's program (b): unnamed children are called by their index."""
    globe, conv, pool = ((GlobeConv, nn.Conv2d, nn.MaxPool2d), (GlobeConv3d, nn.Conv3d, nn.MaxPool3d))[dimensions - 2]

    def block(c_in, c_out):
        return nn.Sequential(globe(c_in, c_out, 3), nn.GroupNorm(groups, c_out), nn.ReLU(),
                             globe(c_out, c_out, 3), nn.GroupNorm(groups, c_out), nn.ReLU())

    def level(inner):
        return SkipConcat(nn.Sequential(pool(2), inner, UpsampleToSkip()))

    b, net = base, nn.Sequential()
    net.add_module("enc1", block(c_in, b))
    net.add_module("1", level(nn.Sequential(block(b, 2 * b), level(block(2 * b, 4 * b)), block(6 * b, 2 * b))))
    net.add_module("dec1", block(3 * b, b))
    net.add_module("head", conv(b, c_out, 1))
    return net.double()


def start_unet(net, random):
    """Starts every parameter away from 0, and returns them by name."""
    with torch.no_grad():
        for name, p in net.named_parameters():
            if p.dim() > 1:
                limit = (6 / p[0].numel()) ** 0.5  # variance 2 / fan in
                p.copy_(uniform(random, -limit, limit, *p.shape))
            else:  # gamma around 1, beta and bias around 0
                is_gamma = name.endswith(".weight")
                p.copy_(uniform(random, 0.75, 1.25, *p.shape) if is_gamma else uniform(random, -0.25, 0.25, *p.shape))
    return {name: exact(p) for name, p in net.named_parameters()}


def unet():
    random, net = np.random.default_rng(38), earth_unet(c_in=2, c_out=2, base=2, groups=1)
    names = [name for name, _ in net.named_parameters()]
    assert names == list(net.state_dict()) and names[0] == "enc1.0.weight" and names[-1] == "head.bias"
    start = start_unet(net, random)
    x, target = uniform(random, -1, 1, 2, 2, 18, 22), uniform(random, -1, 1, 2, 2, 18, 22)
    latitude = torch.cos(torch.deg2rad(90 - 10 * (torch.arange(18, dtype=torch.float64) + 0.5)))[:, None]
    weight = (latitude * uniform(random, 0.5, 1, 2, 1, 18, 22)).float().double()
    weight[:, :, :, 13:18] = 0  # a sector that is held out

    optimizer, losses = torch.optim.AdamW(net.parameters(), lr=5e-3), []
    for step in range(2):
        optimizer.zero_grad()
        prediction = net(x)
        loss = mse_loss(prediction, target, weight)
        loss.backward()
        losses.append(loss.item())
        if step == 0:
            output = computed(prediction)
            gradients = {name: computed(p.grad) for name, p in net.named_parameters()}
            assert all((g != 0).all() for g in gradients.values())  # so was the seed chosen: no channel is dead
            check_slope(net, lambda: mse_loss(net(x), target, weight).item(), gradients, random)
            autocast = under_autocast(net, x, target, weight, prediction)
        optimizer.step()
    after = {name: computed(p) for name, p in net.named_parameters()}
    losses.append(mse_loss(net(x), target, weight).item())
    forward = start | {"input": exact(x), "target": exact(target), "weight": exact(weight), "output": output,
                       "loss": np.float64(losses[0])}
    training = {f"gradient.{name}": value for name, value in gradients.items()}
    training |= {f"after_2_steps.{name}": value for name, value in after.items()}
    training["losses"] = np.array(losses)  # before step 1, before step 2, after it
    return forward, training, autocast


def under_autocast(net, x, target, weight, output):
    """One step with parameters in float32 and activations in bfloat16, near what float64 computes."""
    half = copy.deepcopy(net).float()
    half.zero_grad()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        prediction = half(x.float())
    loss = mse_loss(prediction.float(), target.float(), weight.float())
    loss.backward()
    result = {"output": exact(prediction.detach().double()), "loss": exact(loss.double())}
    result |= {f"gradient.{name}": exact(p.grad.double()) for name, p in half.named_parameters()}
    error = (prediction.double() - output).norm() / output.norm()
    assert prediction.dtype == torch.bfloat16 and 2.0**-10 < error < 2.0**-5, error
    return result


def unet3d():
    random, net = np.random.default_rng(54), earth_unet(c_in=2, c_out=1, base=1, groups=1, dimensions=3)
    start = start_unet(net, random)
    x, target = uniform(random, -1, 1, 2, 2, 8, 9, 12), uniform(random, -1, 1, 2, 1, 8, 9, 12)
    prediction = net(x)
    loss = mse_loss(prediction, target)
    loss.backward()
    gradients = {name: computed(p.grad) for name, p in net.named_parameters()}
    assert all((g != 0).any() for g in gradients.values())  # so was the seed chosen
    check_slope(net, lambda: mse_loss(net(x), target).item(), gradients, random)
    return start | {"input": exact(x), "target": exact(target), "output": computed(prediction),
                    "loss": np.float64(loss.item())} | {f"gradient.{name}": g for name, g in gradients.items()}


def check_slope(net, loss, gradients, random):
    """Central differences along random directions, each tensor for itself: loss'(p + t d) = <gradient, d>."""
    for name, p in net.named_parameters():
        start = p.detach().clone()
        direction = torch.from_numpy(random.standard_normal(tuple(p.shape)))
        slope = (gradients[name] * direction.numpy()).sum()
        steps = []
        for t in (1e-6, -1e-6):
            with torch.no_grad():
                p.copy_(start + t * direction)
            steps.append(loss())
        with torch.no_grad():
            p.copy_(start)
        difference = (steps[0] - steps[1]) / 2e-6
        assert abs(difference - slope) < 1e-6 * max(abs(slope), 1e-2), (name, difference, slope)


# ---- attention -------------------------------------------------------------------------------------------------------

ATTENTION_CASES = [  # samples, heads, queries, keys, embedding, value embedding, causal, 1000 scale, largest query
    (2, 3, 9, 9, 8, 8, 0, 0, 2),
    (2, 1, 10, 7, 5, 6, 0, 300, 2),
    (1, 2, 7, 12, 4, 8, 1, 0, 2),
    (2, 2, 12, 7, 8, 3, 1, 0, 2),
    (1, 1, 66, 69, 4, 3, 0, 0, 3),
    (1, 1, 69, 66, 3, 4, 1, 500, 3),
    (1, 2, 9, 11, 8, 8, 0, 0, 120),  # exponentials of logits overflow float
]


def attention():
    random, tensors = np.random.default_rng(29), {}
    for k, (n, h, l, s, e, v, causal, scale, largest) in enumerate(ATTENTION_CASES):
        query = uniform(random, -largest, largest, n, h, l, e).requires_grad_()
        key = uniform(random, -2, 2, n, h, s, e).requires_grad_()
        value = uniform(random, -2, 2, n, h, s, v).requires_grad_()
        g = uniform(random, -1, 1, n, h, l, v)
        factor = scale / 1000 if scale else None
        y = F.scaled_dot_product_attention(query, key, value, is_causal=bool(causal), scale=factor)
        gradients = grads(y, g, query, key, value)
        # second formula, in NumPy
        q_, k_, v_, g_ = (x.detach().numpy() for x in (query, key, value, g))
        factor = factor or 1 / np.sqrt(e)
        logits = factor * np.einsum("nhle,nhse->nhls", q_, k_)
        if causal:
            logits = np.where(np.arange(s)[None, :] <= np.arange(l)[:, None], logits, -np.inf)
        p = np.exp(logits - logits.max(-1, keepdims=True))
        p /= p.sum(-1, keepdims=True)
        close(y.detach().numpy(), p @ v_)
        dp = g_ @ v_.swapaxes(-1, -2)
        ds = p * (dp - (dp * p).sum(-1, keepdims=True))
        for mine, other in zip((factor * ds @ k_, factor * ds.swapaxes(-1, -2) @ q_, p.swapaxes(-1, -2) @ g_), gradients):
            close(mine, other.numpy(), 1e-11)
        given = {"query": query, "key": key, "value": value, "grad_output": g}
        tensors |= {f"case{k}.{name}": exact(x) for name, x in given.items()}
        found = {"output": y} | dict(zip(("grad_query", "grad_key", "grad_value"), gradients))
        tensors |= {f"case{k}.{name}": computed(x) for name, x in found.items()}
        tensors[f"case{k}.parameters"] = np.array([causal, scale])
    return tensors


ONE_VALUE = {
    "square": torch.square, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "exp": torch.exp, "expm1": torch.expm1,
    "log": torch.log, "log1p": torch.log1p, "log10": torch.log10, "erf": torch.erf, "abs": torch.abs,
    "sign": torch.sign, "sin": torch.sin, "cos": torch.cos, "tan": torch.tan, "asin": torch.asin, "acos": torch.acos,
    "atan": torch.atan, "sinh": torch.sinh, "cosh": torch.cosh, "tanh": torch.tanh, "sigmoid": torch.sigmoid,
    "reciprocal": torch.reciprocal, "exp2": torch.exp2, "log2": torch.log2, "erfc": torch.erfc, "asinh": torch.asinh,
    "acosh": torch.acosh, "atanh": torch.atanh, "relu": torch.relu, "floor": torch.floor, "ceil": torch.ceil, "trunc": torch.trunc, "round": torch.round,
    "clamp": lambda x: torch.clamp(x, -1.0, 1.5)}
TWO_VALUES = {
    "pow": torch.pow, "hypot": torch.hypot, "atan2": torch.atan2, "maximum": torch.maximum, "minimum": torch.minimum,
    "fmax": torch.fmax, "fmin": torch.fmin, "remainder": torch.remainder, "fmod": torch.fmod, "multiply": torch.multiply, "divide": torch.divide,
    "where": lambda a, b: torch.where(a > b, a, b)}


def functions():
    """Values and derivatives; each derivative is checked by central differences where those are sound."""
    inf, nan = math.inf, math.nan
    points = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0, 2.5, -2.5, 30.0, -30.0, 800.0, -800.0, inf, -inf, nan]
    some = [0.0, -0.0, 0.5, 1.0, -1.0, -1.5, 2.0, -2.0, 3.0, inf, -inf, nan]

    def derived(f, *values):
        given = [torch.tensor(v, dtype=torch.float64, requires_grad=True) for v in values]
        y = f(*given)
        slopes = torch.autograd.grad(y.sum(), given) if y.requires_grad else [torch.zeros_like(v) for v in given]
        step = 1e-6
        for k, slope in enumerate(slopes):
            moved = [[v.detach() + (step * sign if i == k else 0) for i, v in enumerate(given)] for sign in (1, -1)]
            up, down = f(*moved[0]), f(*moved[1])
            left, right = (y.detach() - down) / step, (up - y.detach()) / step
            sound = (torch.abs(left) < 1e4) & (torch.abs(left - right) < 1e-3) & (torch.abs(y.detach()) < 1e3)
            for v in given:
                sound &= torch.isfinite(v.detach())
            assert torch.all(torch.abs((left + right) / 2 - slope)[sound] < 1e-4), (f, slope)
        return [computed(x) for x in (y, *slopes)]

    tensors = {"points": np.array(points)}
    for name, f in ONE_VALUE.items():
        tensors[f"{name}.value"], tensors[f"{name}.derivative"] = derived(f, points)
    firsts, seconds = [a for a in some for _ in some], [b for _ in some for b in some]
    tensors |= {"firsts": np.array(firsts), "seconds": np.array(seconds)}
    for name, f in TWO_VALUES.items():
        tensors |= dict(zip((f"{name}.value", f"{name}.first", f"{name}.second"), derived(f, firsts, seconds)))
    return tensors


FILES = {f.__name__: f for f in (
    conv2d, conv3d, grouped_conv2d, padded_conv2d, pads, conv_transpose2d, maxpool, maxpool3d, avgpool, groupnorm, upsample,
    bilinear, softmax, functions, activations, attention, adamw, mse, losses, unet3d)}
FILES |= {name: lambda part=part: unet()[part] for part, name in enumerate(("unet", "unet_training", "unet_autocast"))}


def main():
    folder, names = chosen(FILES, __file__, __doc__)
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    total = 0
    for name in names:
        path, tensors = folder / f"{name}.safetensors", FILES[name]()
        write(path, tensors)
        total += path.stat().st_size
        print(f"{path.stat().st_size:6d} bytes, {len(tensors):3d} tensors: {path.name}")
    print(f"{total:6d} bytes in all")
    assert total < LARGEST_TOTAL


if __name__ == "__main__":
    main()
