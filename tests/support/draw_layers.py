#!/usr/bin/env python3
"""Models of 2 to 6 layers drawn from the whole table, as C++ types, and what PyTorch computes of them.

    draw_layers.py sources --seed S --models M --files F --out FOLDER     layers_0.cpp ... and seed.hpp; needs no PyTorch
    draw_layers.py references --seed S --models M --cases C --out FOLDER  model0.safetensors ...

With --table the models are the layers of layer_table.py, one at a time, on the fields named there.

A model is drawn by (seed, number) alone, and its numbers by (seed, number, case). model0.safetensors has for each
case K: K.parameters, K.input, K.grad_output, K.output, K.grad_input, K.grad_parameters, all F64.
"""
import argparse
import math
import random
from pathlib import Path

SAME = {"Zero": "constant", "Periodic": "circular", "Reflect": "reflect", "ReplicateEdge": "replicate"}


class Model:
    """cpp: the type; build(torch): the module; channels in and out; dims; exact: bits do not depend on the mesh."""

    def __init__(self, seed, number):
        self.r = random.Random(seed * 1000003 + number)
        self.dims = self.r.choice([2, 2, 2, 2, 1, 3])
        self.inputs = self.channels = self.r.randint(1, 3)
        self.exact, self.vector, self.strides, self.blocks = True, False, 0, []
        count = self.r.randint(2, 6)
        layers = [self.conv() if self.r.random() < 0.7 else self.draw()]
        while len(layers) < count:
            layers.append(self.vector_layer() if self.vector else self.draw())
        self.layers = layers

    # each layer: (C++ type, function of torch that makes a module)
    def draw(self):
        kinds = [self.conv] * 4 + [self.transposed, self.max_pool, self.avg_pool, self.lp_pool, self.adaptive, self.sampled,
                 self.activation, self.activation, self.norm, self.norm, self.pad, self.crop, self.roll, self.linear,
                 self.residual, self.residual, self.shuffle, self.softmax, self.skip, self.global_pool, self.flip, self.glu,
                 self.attention, self.shared, self.local_response]
        while True:
            layer = self.r.choice(kinds)()
            if layer is not None:
                return layer

    def numbers(self, low, high):
        return [self.r.randint(low, high) for _ in range(self.dims)]

    @staticmethod
    def option(name, values):
        return f"hg::{name}<{', '.join(map(str, values))}>"

    def windows(self, same=False):
        """Options, pads of each dimension as (low, high, mode), and torch's kernel, stride, dilation."""
        kernel, dilation = self.numbers(1, 4 if not same else 5), self.numbers(1, 1 if self.r.random() < 0.7 else 2)
        stride = [1] * self.dims if same or self.strides > 1 or self.r.random() < 0.6 else self.numbers(1, 2)
        self.strides += max(stride) > 1
        edges = [self.r.choice(["Zero", "Zero", "Periodic", "Reflect", "ReplicateEdge"]) for _ in range(self.dims)]
        pads, options = [], [self.option("Kernel", kernel), self.option("Stride", stride), self.option("Dilation", dilation)]
        whole = same or self.r.random() < 0.3 and max(stride) == 1
        for d in range(self.dims):
            span = dilation[d] * (kernel[d] - 1)
            if whole:
                low, high = span // 2, span - span // 2
            else:
                low = high = self.r.randint(0, span)
                if self.r.random() < 0.3:
                    high = self.r.randint(0, span)
            pads.append((low, high, SAME[edges[d]]))
        if whole:
            options.append("hg::Same")
        else:
            options.append(self.option("Padding", [p[0] for p in pads]))
            if any(p[0] != p[1] for p in pads):
                options.append(self.option("PaddingAfter", [p[1] for p in pads]))
        if any(edge != "Zero" for edge in edges):
            options.append(f"hg::Boundary<{', '.join('hg::' + edge for edge in edges)}>")
        return options, pads, kernel, stride, dilation

    def conv(self, out=None, same=False):
        same = same or bool(self.blocks)  # what is joined keeps its extents
        options, pads, kernel, stride, dilation = self.windows(same)
        into, out = self.channels, out or self.r.choice([1, 2, 3, 4, 6, self.channels, 2 * self.channels])
        groups = self.r.choice([g for g in range(1, into + 1) if into % g == 0])
        if out % groups:
            groups = 1
        bias = self.r.random() < 0.8 or into == 1  # else a norm of channels leaves no gradient of the one
        options += [f"hg::Groups<{groups}>"] * (groups > 1) + ["hg::Bias<false>"] * (not bias)
        self.channels = out

        def build(torch):
            conv = getattr(torch.nn, f"Conv{self.dims}d")(into, out, kernel, stride, 0, dilation, groups, bias)
            return torch.nn.Sequential(Padded(torch, pads), conv)

        return f"hg::Conv{self.dims}d<{into}, {out}, {', '.join(options)}>", build

    def transposed(self):
        if self.blocks:
            return None
        kernel, stride, dilation = self.numbers(1, 4), self.numbers(1, 3), self.numbers(1, 2)
        padding = [self.r.randint(0, k // 2) for k in kernel]
        more = [self.r.randint(0, max(s, d) - 1) for s, d in zip(stride, dilation)]
        into, out = self.channels, self.r.randint(1, 4)
        groups = self.r.choice([g for g in range(1, into + 1) if into % g == 0])
        out = -(-out // groups) * groups
        self.channels = out
        options = [self.option("Kernel", kernel), self.option("Stride", stride), self.option("Dilation", dilation),
                   self.option("Padding", padding), self.option("OutputPadding", more), f"hg::Groups<{groups}>"]
        return (f"hg::ConvTranspose{self.dims}d<{into}, {out}, {', '.join(options)}>",
                lambda torch: getattr(torch.nn, f"ConvTranspose{self.dims}d")(
                    into, out, kernel, stride, padding, more, groups, True, dilation))

    def pool_windows(self, dilates):
        kernel = self.numbers(1, 3)
        stride = self.numbers(1, 3) if self.strides < 2 else [1] * self.dims
        self.strides += max(stride) > 1
        padding = [self.r.randint(0, k // 2) for k in kernel]
        dilation = self.numbers(1, 2) if dilates and self.r.random() < 0.3 else [1] * self.dims
        ceil = self.r.random() < 0.3
        options = [f"{kernel[0]}", self.option("Kernel", kernel), self.option("Stride", stride),
                   self.option("Padding", padding)] + ["hg::CeilMode<>"] * ceil
        # a date line where a whole field is a whole number of steps: PyTorch's pool of what is padded by itself
        wraps = [not ceil and s == 1 and self.r.random() < 0.3 for s in stride]
        if any(wraps):
            options.append(f"hg::Boundary<{', '.join('hg::Periodic' if w else 'hg::Zero' for w in wraps)}>")
        pads = [(p, p, SAME["Periodic"]) if w else (0, 0, SAME["Zero"]) for p, w in zip(padding, wraps)]
        inner = [0 if w else p for p, w in zip(padding, wraps)]

        def build(torch, pool):
            return torch.nn.Sequential(Padded(torch, pads), pool(inner)) if any(wraps) else pool(padding)

        return options, kernel, stride, build, dilation, ceil

    def max_pool(self):
        if self.blocks:
            return None
        options, kernel, stride, build, dilation, ceil = self.pool_windows(True)
        options.append(self.option("Dilation", dilation))
        return (f"hg::MaxPool{self.dims}d<{', '.join(options)}>",
                lambda torch: build(torch, lambda padding: getattr(torch.nn, f"MaxPool{self.dims}d")(
                    kernel, stride, padding, dilation, ceil_mode=ceil)))

    def avg_pool(self):
        if self.blocks:
            return None
        options, kernel, stride, build, _, ceil = self.pool_windows(False)
        counts = self.r.random() < 0.5
        options += [] if counts else ["hg::CountIncludePad<false>"]
        return (f"hg::AvgPool{self.dims}d<{', '.join(options)}>",
                lambda torch: build(torch, lambda padding: getattr(torch.nn, f"AvgPool{self.dims}d")(
                    kernel, stride, padding, ceil, counts)))

    def lp_pool(self):
        if self.blocks:
            return None
        size, stride = self.r.randint(2, 3), self.r.randint(1, 2)
        self.strides += stride > 1
        return (f"hg::LpPool{self.dims}d<2, {size}, hg::Stride<{stride}>>",
                lambda torch: getattr(torch.nn, f"LPPool{self.dims}d")(2, size, stride))

    def adaptive(self):
        if self.blocks:
            return None
        size, kind = self.numbers(5, 9), self.r.choice(["Max", "Avg"])
        return (f"hg::Adaptive{kind}Pool{self.dims}d<{', '.join(map(str, size))}>",
                lambda torch: getattr(torch.nn, f"Adaptive{kind}Pool{self.dims}d")(size))

    def sampled(self):
        if self.blocks:
            return None
        linear = {1: ("Linear1d", "linear"), 2: ("Bilinear", "bilinear"), 3: ("Trilinear", "trilinear")}[self.dims]
        modes = [("Nearest", "nearest"), ("NearestExact", "nearest-exact"), linear]
        if self.dims == 2:
            modes.append(("Bicubic", "bicubic"))
        ours, mode = self.r.choice(modes)
        factor, size = self.r.randint(2, 3), self.numbers(6, 15)
        by_size = self.r.random() < 0.6 or self.dims == 3
        smooth = mode in ("linear", "bilinear", "trilinear", "bicubic")
        corners = smooth and self.r.random() < 0.3
        antialias = mode in ("bilinear", "bicubic") and not corners and self.r.random() < 0.3
        to = self.option("Size", size) if by_size else f"hg::ScaleFactor<{factor}>"
        wraps = smooth and not corners and not by_size and self.r.random() < 0.5 and [self.r.random() < 0.6 for _ in range(self.dims)]
        options = [to, f"hg::{ours}"] + ["hg::AlignCorners<>"] * corners + ["hg::Antialias<>"] * antialias
        if wraps:
            options.append(f"hg::Boundary<{', '.join('hg::Periodic' if w else 'hg::ReplicateEdge' for w in wraps)}>")
        arguments = {"size": size} if by_size else {"scale_factor": factor}
        arguments |= {"align_corners": corners} if smooth else {}
        arguments |= {"antialias": True} if antialias else {}
        def sample(torch, x):
            ends = [3 if wraps and wrap else 0 for wrap in wraps or [0] * self.dims]
            around = padded(torch, x, [(n, n, "circular") for n in ends])
            y = torch.nn.functional.interpolate(around, mode=mode, **arguments)
            return y[(slice(None),) * 2 + tuple(slice(n * factor, size - n * factor) for n, size in zip(ends, y.shape[2:]))]

        return (f"hg::Interpolate{'1d' * (self.dims == 1)}<{', '.join(options)}>",
                lambda torch: Function(torch, lambda x: sample(torch, x)))

    def activation(self):
        name = self.r.choice(["ReLU", "SiLU", "GELU", "Tanh", "Sigmoid", "ELU", "LeakyReLU", "Softplus", "LogSigmoid", "Softsign",
                              "Mish", "Hardtanh", "ReLU6", "Hardsigmoid", "Hardswish", "CELU", "SELU", "Tanhshrink", "PReLU"])
        if name == "PReLU":
            channels = self.channels
            return f"hg::PReLU<{channels}>", lambda torch: torch.nn.PReLU(channels)
        if name == "Hardsigmoid":  # torch.nn's backward takes 1/6 in single precision, of doubles too
            return "hg::Hardsigmoid", lambda torch: Function(torch, lambda x: torch.clamp(x / 6 + 0.5, 0, 1))
        with_options = name in ("ELU", "LeakyReLU", "Softplus", "Hardtanh", "CELU")
        return f"hg::{name}" + "<>" * with_options, lambda torch: getattr(torch.nn, name)()

    def softmax(self):
        return "hg::Softmax", lambda torch: torch.nn.Softmax(1)

    def norm(self):
        self.exact, c = False, self.channels
        # over one or two channels alone their gradients are differences of what is nearly equal
        kind = self.r.choice(["group", "instance", "batch"] + ["layer", "rms"] * (c > 2))
        if kind == "group":
            groups = self.r.choice([g for g in range(1, c + 1) if c % g == 0])
            affine = self.r.random() < 0.7
            return (f"hg::GroupNorm<{groups}, {c}" + ", hg::Affine<false>" * (not affine) + ">",
                    lambda torch: torch.nn.GroupNorm(groups, c, affine=affine))
        if kind == "instance":
            return f"hg::InstanceNorm<{c}>", lambda torch: getattr(torch.nn, f"InstanceNorm{self.dims}d")(c)
        if kind == "batch":
            affine = self.r.random() < 0.7
            options = "" if affine else ", std::ratio<1, 100000>, std::ratio<1, 10>, hg::Affine<false>"
            return (f"hg::BatchNorm<{c}{options}>",
                    lambda torch: getattr(torch.nn, f"BatchNorm{self.dims}d")(c, affine=affine))
        make = (lambda torch: torch.nn.LayerNorm(c)) if kind == "layer" else (lambda torch: torch.nn.RMSNorm(c))
        return f"hg::{'LayerNorm' if kind == 'layer' else 'RMSNorm'}<{c}>", lambda torch: Last(torch, make(torch))

    def local_response(self):
        size, alpha = self.r.randint(1, 5), self.r.choice([1, 2])
        if self.vector:
            return None  # PyTorch's takes fields alone
        return (f"hg::LocalResponseNorm<{size}, std::ratio<{alpha}, 4>>",
                lambda torch: torch.nn.LocalResponseNorm(size, alpha / 4))

    def pad(self):
        if self.blocks:
            return None
        kind, mode = self.r.choice([("Reflection", "reflect"), ("Replication", "replicate"), ("Circular", "circular"), ("Zero", "constant")])
        ends = [(self.r.randint(0, 2), self.r.randint(0, 2)) for _ in range(self.dims)]
        return (f"hg::{kind}Pad{self.dims}d<{', '.join(str(n) for end in ends for n in end)}>",
                lambda torch: Padded(torch, [(*end, mode) for end in ends]))

    def flip(self):
        along = [d for d in range(2, 2 + self.dims) if self.r.random() < 0.5] or [2]
        return f"hg::Flip<{', '.join(map(str, along))}>", lambda torch: Function(torch, lambda x: x.flip(along))

    def glu(self):
        if self.channels % 2 or self.blocks:
            return None
        self.channels //= 2
        return "hg::GLU", lambda torch: torch.nn.GLU(1)

    def attention(self):
        if self.channels > 8:
            return None
        self.exact, channels = False, self.channels
        heads = self.r.choice([h for h in range(1, channels + 1) if channels % h == 0])
        groups = self.r.choice([g for g in range(1, heads + 1) if heads % g == 0])
        term = self.r.choice(["plain", "KeyMask", "KeyBias", "RelativeBias"])
        extents = [{1: 128, 2: 64}.get(self.dims)] * self.dims
        if term == "RelativeBias" and self.dims == 3:
            return None
        options = [self.option("KeyValueHeads", [groups])] if groups < heads else []
        if term == "RelativeBias":
            options.append(self.option(term, extents))
        attention = f"hg::MultiheadAttention<{', '.join([str(channels), str(heads)] + options)}>"
        if term.startswith("Key"):
            attention = f"support::TellsOfItsKeys<{channels}, hg::{term}, {attention}>"
        return attention, lambda torch: Attention(torch, channels, heads, groups, term, extents)

    def shared(self):
        """A convolution that is called twice."""
        if self.channels > 4:
            return None
        cpp, build = self.conv(self.channels, True)
        twice = f'hg::Named<"again", {cpp}>'

        def module(torch):
            layer = build(torch)
            return torch.nn.Sequential(layer, torch.nn.Tanh(), layer)

        return f"hg::Sequential<{twice}, hg::Tanh, {twice}>", module

    def crop(self):
        if self.blocks:
            return None
        ends = [(self.r.randint(0, 2), self.r.randint(0, 2)) for _ in range(self.dims)]
        return (f"hg::Crop{self.dims}d<{', '.join(str(n) for end in ends for n in end)}>",
                lambda torch: Function(torch, lambda x: x[(slice(None),) * 2 + tuple(
                    slice(low, size - high) for (low, high), size in zip(ends, x.shape[2:]))].contiguous()))

    def roll(self):
        shifts = self.numbers(-2, 2)
        return (f"hg::Roll{self.dims}d<{', '.join(map(str, shifts))}>",
                lambda torch: Function(torch, lambda x: torch.roll(x, shifts, tuple(range(2, 2 + self.dims)))))

    def linear(self):
        into, self.channels = self.channels, self.r.randint(1, 5)
        out = self.channels
        return f"hg::Linear<{into}, {out}>", lambda torch: Last(torch, torch.nn.Linear(into, out))

    def nested(self, layers):
        return (f"hg::Sequential<{', '.join(cpp for cpp, _ in layers)}>",
                lambda torch: torch.nn.Sequential(*(build(torch) for _, build in layers)))

    def inner(self, out):
        self.blocks.append(True)
        layers = [self.conv(same=True)] + [self.draw() for _ in range(self.r.randint(0, 2))] + [self.conv(out, same=True)]
        self.blocks.pop()
        return self.nested(layers)

    def residual(self):
        if len(self.blocks) > 1:
            return None
        cpp, build = self.inner(self.channels)
        return f"hg::Residual<{cpp}>", lambda torch: Joined(torch, build(torch), lambda a, b: a + b)

    def skip(self):
        if len(self.blocks) > 1 or self.channels > 8:
            return None
        before, out = self.channels, self.r.randint(1, 3)
        cpp, build = self.inner(out)
        self.channels = before + out
        return f"hg::SkipConcat<{cpp}>", lambda torch: Joined(torch, build(torch), lambda a, b: torch.cat((a, b), 1))

    def shuffle(self):
        if self.blocks or self.dims != 2:
            return None
        if self.channels % 4 == 0:
            self.channels //= 4
            return "hg::PixelShuffle<2>", lambda torch: torch.nn.PixelShuffle(2)
        if self.channels > 2:
            return None
        self.channels *= 4
        return "hg::PixelUnshuffle<2>", lambda torch: torch.nn.PixelUnshuffle(2)

    def global_pool(self):
        if self.blocks or self.r.random() < 0.5:
            return None
        self.vector = True
        kind = self.r.choice(["Max", "Avg"])
        self.exact = self.exact and kind == "Max"
        return (f"hg::Global{kind}Pool",
                lambda torch: Function(torch, lambda x: pooled(torch, x, kind)))

    def vector_layer(self):
        return self.r.choice([self.linear, self.activation])()

    def module(self, torch):
        return torch.nn.Sequential(*(build(torch) for _, build in self.layers)).double()

    @property
    def cpp(self):
        return f"hg::Sequential<support::Takes<{self.inputs}>, {', '.join(cpp for cpp, _ in self.layers)}>"


def pooled(torch, x, kind):
    pool = getattr(torch.nn.functional, f"adaptive_{kind.lower()}_pool{x.dim() - 2}d")
    return pool(x, 1).flatten(1)


def Function(torch, f):
    class Of(torch.nn.Module):
        def forward(self, x):
            return f(x)

    return Of()


def padded(torch, x, pads):
    for d, (low, high, mode) in enumerate(pads):
        amounts = [0, 0] * (len(pads) - 1 - d) + [low, high] + [0, 0] * d
        if low or high:
            x = torch.nn.functional.pad(x, amounts, mode)
    return x


def Padded(torch, pads):
    return Function(torch, lambda x: padded(torch, x, pads))


def Last(torch, layer):
    """The layer of the channels, which it takes last."""
    class Of(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x.movedim(1, -1)).movedim(-1, 1).contiguous()

    return Of()


def Attention(torch, channels, heads, groups, term, extents):
    """Of all points to all, the channels first; the first channel tells of the keys."""
    class Of(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = torch.nn.Linear(channels, channels // heads * (heads + 2 * groups))
            if term == "RelativeBias":
                distances = math.prod(2 * e - 1 for e in extents)
                self.table = torch.nn.ParameterList([torch.randn(distances, heads)])  # after qkv
            self.proj = torch.nn.Linear(channels, channels)

        def told(self, x):
            first = x[:, :1].flatten(2)[:, :, None]
            if term == "KeyMask":
                return first > 0
            if term == "KeyBias":
                return first
            if term == "RelativeBias":
                if any(have > most for have, most in zip(x.shape[2:], extents)):
                    raise ValueError("larger than the table")
                points = torch.stack(torch.meshgrid(*(torch.arange(e) for e in x.shape[2:]), indexing="ij")).flatten(1)
                index = 0
                for apart, extent in zip(points[:, :, None] - points[:, None, :], extents):
                    index = index * (2 * extent - 1) + apart + extent - 1
                return self.table[0][index].movedim(2, 0)[None]
            return None

        def forward(self, x):
            parts = self.qkv(x.flatten(2).transpose(1, 2)).unflatten(2, (heads + 2 * groups, -1)).transpose(1, 2)
            q, k, v = parts.split((heads, groups, groups), 1)
            seen = torch.nn.functional.scaled_dot_product_attention(q, k, v, self.told(x), enable_gqa=groups < heads)
            return self.proj(seen.transpose(1, 2).flatten(2)).transpose(1, 2).reshape(x.shape)

    return Of()


def Joined(torch, body, join):
    class Of(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.body = body

        def forward(self, x):
            return join(x, self.body(x))

    return Of()


def models_of(chosen):
    if chosen.table:
        import layer_table  # it reads this file as a module
        return layer_table.table()
    return [Model(chosen.seed, number) for number in range(chosen.models)]


def sources(chosen):
    models = models_of(chosen)
    folder = Path(chosen.out)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "seed.hpp").write_text(f"inline constexpr int models_drawn = {len(models)}, files_drawn = {chosen.files};\n")
    for file in range(chosen.files):
        lines = ['#include "support/layer_cases.hpp"\n']
        for number in range(file, len(models), chosen.files):
            m = models[number]
            quoted = m.cpp.replace('"', '\\"')
            lines.append(f"using Model{number} = {m.cpp};\n"
                         f"static const support::DrawnModel model{number}"
                         f'({number}, "{quoted}", support::run_cases<Model{number}, {m.inputs}, {m.channels}, {m.dims}, '
                         f"{str(m.exact).lower()}>);\n")
        (folder / f"layers_{file}.cpp").write_text("".join(lines))


def references(chosen):
    import torch
    from safetensors.torch import save_file

    folder = Path(chosen.out)
    folder.mkdir(parents=True, exist_ok=True)
    sizes = [5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 16, 17, 19, 20, 23, 24]
    for number, m in enumerate(models_of(chosen)):
        tensors = {}
        for case in range(chosen.cases):
            r = random.Random((chosen.seed * 1000003 + number) * 4096 + case)
            torch.manual_seed(r.getrandbits(60))
            module = m.module(torch)
            start = list(module.parameters()) + [b.clone() for b in module.buffers() if b.is_floating_point()]
            for _ in range(40):  # extents that the model fits
                shape = [r.randint(1, 3), m.inputs] + [r.choice(sizes) for _ in range(m.dims)]
                if chosen.table:
                    shape = list(m.extents)
                x = torch.randn(shape, dtype=torch.float64, requires_grad=True)
                try:
                    y = module(x)
                except (RuntimeError, ValueError):
                    continue
                if y.numel() == 0 or not bool(torch.isfinite(y).all()):  # a dilated maximum of nothing but padding
                    continue
                if y.abs().max() < 1e-9:  # a norm of points that are equal: rounding alone, which is each one's own
                    continue
                g = torch.randn_like(y)
                (y * g).sum().backward()
                flat = lambda all_of: torch.cat([t.reshape(-1) for t in all_of] or [torch.zeros(0, dtype=torch.float64)])
                tensors |= {f"{case}.{name}": t.detach().contiguous() for name, t in {
                    "parameters": flat(start), "input": x, "grad_output": g, "output": y, "grad_input": x.grad,
                    "grad_parameters": flat(p.grad if p.grad is not None else torch.zeros_like(p)
                                            for p in module.parameters())}.items()}
                break
        save_file(tensors, folder / f"model{number}.safetensors")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["sources", "references"])
    for name, default in (("seed", 1), ("models", 48), ("files", 6), ("cases", 8)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--out", required=True)
    chosen = parser.parse_args()
    {"sources": sources, "references": references}[chosen.what](chosen)


if __name__ == "__main__":
    main()
