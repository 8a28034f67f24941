"""The one table of layers. LAYERS has each public layer, by the header that declares it: tests/house/layers.py looks for
each of them in the docs and in the lists of tests, and scripts/status writes docs/status.md from it. table() has layers
with their windows, one at a time, as draw_layers.py's models: what ./dev bench breadth asks of Halogen and its peers."""
import draw_layers as draw

# header below include/halogen/layers, by its name alone: its layers, and its functions of values
LAYERS = {
    "adaptive_max_pool": "AdaptiveMaxPool1d AdaptiveMaxPool2d AdaptiveMaxPool3d GlobalMaxPool",
    "avg_pool2d": "AvgPool2d AvgPool3d",
    "batch_norm": "BatchNorm BatchNorm2d BatchNorm3d",
    "checkpoint": "Checkpoint",
    "chunk": "Chunk chunk GLU",
    "class_token": "ClassToken",
    "constant_pad": "ConstantPad1d ConstantPad2d ConstantPad3d ZeroPad1d ZeroPad2d ZeroPad3d",
    "conv2d": "Conv2d",
    "conv3d": "Conv3d",
    "conv_transpose2d": "ConvTranspose2d ConvTranspose3d",
    "crop": "Crop1d Crop2d Crop3d Roll1d Roll2d Roll3d",
    "dropout": "Dropout Dropout1d Dropout2d Dropout3d DropPath",
    "elu": "ELU",
    "embedding": "Embedding",
    "expand": "expand",
    "flip": "Flip",
    "frozen": "Frozen",
    "function": "Function",
    "gelu": "GELU",
    "global_avg_pool": "GlobalAvgPool",
    "group_norm": "GroupNorm InstanceNorm InstanceNorm2d InstanceNorm3d",
    "in_evaluation": "InEvaluation",
    "interpolate": "Interpolate Interpolate1d interpolate_to AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d",
    "layer_norm": "LayerNorm RMSNorm LayerNormOfHeads RMSNormOfHeads",
    "layer_norm_over": "LayerNormOver",
    "leaky_relu": "LeakyReLU",
    "linear": "Linear",
    "local_response_norm": "LocalResponseNorm",
    "lp_pool2d": "LpPool2d LpPool3d",
    "map": "Map",
    "map_activations": "Softplus LogSigmoid Softsign Mish Hardtanh ReLU6 Hardsigmoid Hardswish CELU SELU GELUTanh Hardshrink "
                       "Softshrink Tanhshrink Threshold PReLU",
    "max_pool2d": "MaxPool2d",
    "max_pool3d": "MaxPool3d",
    "module": "Sequential Named SameExtents output_to SkipConcat concat",
    "multihead_attention": "Attend MultiheadAttention CrossAttention",
    "neighborhood_attention": "NeighborhoodAttend1d NeighborhoodAttend2d NeighborhoodAttend3d NeighborhoodAttention1d "
                              "NeighborhoodAttention2d NeighborhoodAttention3d",
    "pad": "ReflectionPad2d ReplicationPad2d ReflectionPad3d ReplicationPad3d CircularPad2d CircularPad3d",
    "patch_merging": "PatchMerging",
    "pixel_shuffle": "PixelShuffle PixelUnshuffle",
    "position_embedding": "PositionEmbedding1d PositionEmbedding2d PositionEmbedding3d",
    "relu": "ReLU",
    "residual": "Residual add",
    "rotary_embedding": "RotaryEmbedding1d RotaryEmbedding2d RotaryEmbedding3d",
    "sigmoid": "Sigmoid",
    "signals": "Conv1d ConvTranspose1d MaxPool1d AvgPool1d LpPool1d ReflectionPad1d ReplicationPad1d CircularPad1d "
               "BatchNorm1d InstanceNorm1d",
    "silu": "SiLU",
    "sinusoidal_embedding": "SinusoidalEmbedding1d SinusoidalEmbedding2d SinusoidalEmbedding3d",
    "softmax": "Softmax",
    "stencil": "Stencil",
    "tanh": "Tanh",
    "time_embedding": "TimeEmbedding",
    "upsample": "Upsample UpsampleToSkip upsample_to",
    "window_attention": "WindowAttend1d WindowAttend2d WindowAttend3d WindowAttention1d WindowAttention2d WindowAttention3d",
}
# public types of these headers that are no layers
OPTIONS = {
    "of windows": "Kernel Stride Padding Dilation Groups OutputPadding Channels PaddingAfter Same OutputToSkip Bias "
                  "CountIncludePad CeilMode",
    "of norms": "Affine",
    "of resampling": "Size ScaleFactor ScaleRatio Nearest NearestExact Linear1d Bilinear Trilinear Bicubic Area AlignCorners "
                     "Antialias",
    "of attention": "IsCausal Causal Rotary QueryKeyNorm ParallelBy KeyValueHeads RelativeBias DistanceBias AttentionDropout "
                    "KeyMask KeyBias Shifted PadToWindows",
    "of functions": "TakesVectors TakesAnyResolution ToVector Draws FunctionPlace",
    "a choice of parameters": "AnyName",
    "the base of all layers": "Module",
}


class Entry:
    """name; cpp and build(torch) as of draw_layers.Model; extents of the one field, channels second."""

    def __init__(self, name, layer, extents, out=None):
        self.name, (cpp, self.module_of), self.extents = name, layer, extents
        self.inputs, self.channels, self.dims = extents[1], out or extents[1], len(extents) - 2
        self.cpp = f"hg::Sequential<support::Takes<{self.inputs}>, {cpp}>"
        self.exact = False

    def module(self, torch):
        return torch.nn.Sequential(self.module_of(torch)).double()


EXTENTS = {1: (2, 4, 24), 2: (2, 4, 24, 20), 3: (2, 4, 12, 8, 8)}


def fill(dims, value):
    return [value] * dims if isinstance(value, int) else list(value)


def conv(dims, kernel, stride=1, padding=0, dilation=1, groups=1, edge="Zero", after=None, out=8):
    k, s, p, d = (fill(dims, v) for v in (kernel, stride, padding, dilation))
    a = fill(dims, after) if after is not None else p
    options = [draw.Model.option(name, v) for name, v in (("Kernel", k), ("Stride", s), ("Dilation", d), ("Padding", p))]
    options += [draw.Model.option("PaddingAfter", a)] * (a != p) + [f"hg::Groups<{groups}>"] * (groups > 1)
    if edge != "Zero":
        options.append(f"hg::Boundary<{', '.join(['hg::' + edge] * dims)}>")
    pads = [(low, high, draw.SAME[edge]) for low, high in zip(p, a)]

    def build(torch):
        layer = getattr(torch.nn, f"Conv{dims}d")
        if edge == "Zero" and a == p:
            return layer(4, out, k, s, p, d, groups)
        return torch.nn.Sequential(draw.Padded(torch, pads), layer(4, out, k, s, 0, d, groups))

    name = f"Conv{dims}d kernel {kernel}" + f" stride {stride}" * (stride != 1) + f" padding {padding}" * (padding != 0)
    name += f" after {after}" * (after is not None) + f" dilation {dilation}" * (dilation != 1)
    name += f" groups {groups}" * (groups > 1) + f" {draw.SAME[edge]}" * (edge != "Zero")
    return Entry(name, (f"hg::Conv{dims}d<4, {out}, {', '.join(options)}>", build), EXTENTS[dims], out)


def transposed(dims, kernel, stride=1, padding=0, more=0, groups=1):
    k, s, p, m = (fill(dims, v) for v in (kernel, stride, padding, more))
    options = [draw.Model.option(name, v) for name, v in (("Kernel", k), ("Stride", s), ("Padding", p), ("OutputPadding", m))]
    options.append(f"hg::Groups<{groups}>")
    name = f"ConvTranspose{dims}d kernel {kernel} stride {stride}" + f" padding {padding}" * (padding != 0)
    name += f" output_padding {more}" * (more != 0) + f" groups {groups}" * (groups > 1)
    return Entry(name, (f"hg::ConvTranspose{dims}d<4, 4, {', '.join(options)}>", lambda torch: getattr(
        torch.nn, f"ConvTranspose{dims}d")(4, 4, k, s, p, m, groups)), EXTENTS[dims], 4)


def pool(kind, dims, kernel, stride, padding=0, ceil=False, dilation=1, counts=True):
    options = [f"{kernel}", f"hg::Stride<{stride}>", f"hg::Padding<{padding}>"] + ["hg::CeilMode<>"] * ceil
    options += [f"hg::Dilation<{dilation}>"] * (dilation > 1) + ["hg::CountIncludePad<false>"] * (not counts)
    arguments = {"ceil_mode": ceil} | ({"dilation": dilation} if kind == "Max" else {"count_include_pad": counts})
    name = f"{kind}Pool{dims}d kernel {kernel} stride {stride}" + f" padding {padding}" * (padding > 0)
    name += " ceil_mode" * ceil + f" dilation {dilation}" * (dilation > 1) + " count_include_pad=False" * (not counts)
    return Entry(name, (f"hg::{kind}Pool{dims}d<{', '.join(options)}>", lambda torch: getattr(
        torch.nn, f"{kind}Pool{dims}d")(kernel, stride, padding, **arguments)), EXTENTS[dims])


def lp(dims, power, kernel, stride):
    return Entry(f"LPPool{dims}d norm {power} kernel {kernel} stride {stride}", (
        f"hg::LpPool{dims}d<{power}, {kernel}, hg::Stride<{stride}>>",
        lambda torch: getattr(torch.nn, f"LPPool{dims}d")(power, kernel, stride)), EXTENTS[dims])


def adaptive(kind, dims, size):
    return Entry(f"Adaptive{kind}Pool{dims}d {size}", (f"hg::Adaptive{kind}Pool{dims}d<{', '.join(map(str, size))}>",
                 lambda torch: getattr(torch.nn, f"Adaptive{kind}Pool{dims}d")(size)), EXTENTS[dims])


def sampled(dims, ours, mode, size=None, factor=None, corners=False, antialias=False):
    to = draw.Model.option("Size", size) if size else draw.Model.option("ScaleFactor", [factor] * (dims if dims > 1 else 1))
    options = [to, f"hg::{ours}"] + ["hg::AlignCorners<>"] * corners + ["hg::Antialias<>"] * antialias
    arguments = ({"size": size} if size else {"scale_factor": float(factor)}) | ({"antialias": True} if antialias else {})
    arguments |= {"align_corners": corners} if ours not in ("Nearest", "NearestExact") else {}
    name = f"interpolate {mode} {dims}-D to {size or f'factor {factor}'}" + " align_corners" * corners + " antialias" * antialias
    return Entry(name, (f"hg::Interpolate{'1d' * (dims == 1)}<{', '.join(options)}>", lambda torch: draw.Function(
        torch, lambda x: torch.nn.functional.interpolate(x, mode=mode, **arguments))), EXTENTS[dims])


def plain(name, cpp, build, dims=2, out=None, channels=4):
    extents = EXTENTS[dims][:1] + (channels,) + EXTENTS[dims][2:]
    return Entry(name, (cpp, build), extents, out)


def convolutions():
    for kernel in (1, 2, 3, 4, 5, 7):
        for stride in (1, 2, 3):
            for padding in sorted({0, kernel // 2}):
                yield conv(2, kernel, stride, padding)
    for kernel, stride, padding, dilation in ((3, 1, 2, 2), (3, 1, 0, 2), (5, 1, 4, 2), (3, 2, 3, 3), (2, 1, 1, 3)):
        yield conv(2, kernel, stride, padding, dilation)
    for kernel, stride, padding in (((3, 5), 1, (1, 2)), ((1, 7), 1, (0, 3)), ((7, 1), 1, (3, 0)), ((3, 2), (2, 1), (1, 0))):
        yield conv(2, kernel, stride, padding)
    for groups in (2, 4):
        for kernel in (1, 3, 7):
            yield conv(2, kernel, 1, kernel // 2, groups=groups)
    for edge in ("Periodic", "Reflect", "ReplicateEdge"):
        for kernel in (3, 5):
            yield conv(2, kernel, 1, kernel // 2, edge=edge)
    yield conv(2, 4, 1, 1, after=2)
    yield conv(2, 3, 2, 0, after=1)
    for dims in (1, 3):
        for kernel, stride, padding in ((1, 1, 0), (3, 1, 1), (3, 2, 1), (2, 2, 0), (5, 1, 2)):
            yield conv(dims, kernel, stride, padding)
        yield conv(dims, 3, 1, 1, groups=4)
        yield conv(dims, 3, 1, 2, dilation=2)
        yield conv(dims, 3, 1, 1, edge="Periodic")
        yield transposed(dims, 2, 2)
        yield transposed(dims, 3, 2, 1, 1)
    for kernel, stride, padding, more in ((2, 2, 0, 0), (3, 1, 1, 0), (3, 2, 1, 1), (4, 2, 1, 0), (5, 3, 1, 2)):
        yield transposed(2, kernel, stride, padding, more)
    yield transposed(2, 4, 2, 1, groups=2)


def pools():
    for dims in (2, 1, 3):
        for kernel, stride, padding in ((2, 2, 0), (3, 2, 1), (3, 1, 1), (2, 1, 0), (3, 3, 0)):
            for kind in ("Max", "Avg"):
                yield pool(kind, dims, kernel, stride, padding)
        yield pool("Max", dims, 2, 3, ceil=True)
        yield pool("Max", dims, 2, 1, dilation=2)
        yield pool("Avg", dims, 3, 2, 1, counts=False)
        yield lp(dims, 2, 2, 2)
    yield lp(2, 4, 3, 1)  # an odd power of what is negative has no root
    for kind in ("Avg", "Max"):
        for size in ((6, 5), (7, 9), (24, 20), (30, 25)):
            yield adaptive(kind, 2, size)
        yield adaptive(kind, 1, (7,))
        yield adaptive(kind, 3, (5, 4, 4))
        yield plain(f"global {kind.lower()} pool", f"hg::Global{kind}Pool",
                    lambda torch, kind=kind: draw.Function(torch, lambda x: draw.pooled(torch, x, kind)))


def resampling():
    for ours, mode in (("Nearest", "nearest"), ("NearestExact", "nearest-exact"), ("Bilinear", "bilinear"), ("Bicubic", "bicubic")):
        yield sampled(2, ours, mode, factor=2)
        yield sampled(2, ours, mode, size=(31, 27))
        yield sampled(2, ours, mode, size=(14, 11))
        if mode.startswith("bi"):
            yield sampled(2, ours, mode, size=(31, 27), corners=True)
            yield sampled(2, ours, mode, size=(14, 11), antialias=True)
    yield sampled(1, "Linear1d", "linear", factor=2)
    yield sampled(1, "Linear1d", "linear", size=(31,), corners=True)
    yield sampled(3, "Trilinear", "trilinear", factor=2)
    yield sampled(3, "Trilinear", "trilinear", size=(9, 7, 5))
    yield plain("PixelShuffle 2", "hg::PixelShuffle<2>", lambda torch: torch.nn.PixelShuffle(2), out=1)
    yield plain("PixelUnshuffle 2", "hg::PixelUnshuffle<2>", lambda torch: torch.nn.PixelUnshuffle(2), out=16)
    for mode, kind in (("reflect", "Reflection"), ("replicate", "Replication")):
        yield plain(f"{kind}Pad2d 2", f"hg::{kind}Pad2d<2>", lambda torch, mode=mode: draw.Padded(torch, [(2, 2, mode)] * 2))
    yield plain("x[:, :, 3:-2, 1:]", "hg::Crop2d<3, 2, 1, 0>",
                lambda torch: draw.Function(torch, lambda x: x[:, :, 3:-2, 1:].contiguous()))
    for down, right in ((3, 0), (0, 2), (-2, 1)):
        yield plain(f"roll ({down}, {right})", f"hg::Roll2d<{down}, {right}>",
                    lambda torch, s=(down, right): draw.Function(torch, lambda x: torch.roll(x, s, (2, 3))))


def others():
    for groups in (1, 2, 4):
        yield plain(f"GroupNorm({groups}, 4)", f"hg::GroupNorm<{groups}, 4>", lambda torch, g=groups: torch.nn.GroupNorm(g, 4))
    for dims in (2, 1, 3):
        yield plain(f"BatchNorm{dims}d", "hg::BatchNorm<4>", lambda torch, d=dims: getattr(torch.nn, f"BatchNorm{d}d")(4), dims)
        yield plain(f"InstanceNorm{dims}d", "hg::InstanceNorm<4>",
                    lambda torch, d=dims: getattr(torch.nn, f"InstanceNorm{d}d")(4), dims)
    yield plain("LayerNorm over channels", "hg::LayerNorm<4>", lambda torch: draw.Last(torch, torch.nn.LayerNorm(4)))
    yield plain("RMSNorm over channels", "hg::RMSNorm<4>", lambda torch: draw.Last(torch, torch.nn.RMSNorm(4)))
    for size in (2, 3):
        yield plain(f"LocalResponseNorm({size}, 0.5)", f"hg::LocalResponseNorm<{size}, std::ratio<1, 2>>",
                    lambda torch, size=size: torch.nn.LocalResponseNorm(size, 0.5))
    for name in ("ReLU", "SiLU", "GELU", "Tanh", "Sigmoid", "ELU", "LeakyReLU"):
        yield plain(name, f"hg::{name}" + "<>" * (name in ("ELU", "LeakyReLU")), lambda torch, n=name: getattr(torch.nn, n)())
    yield plain("Softmax over channels", "hg::Softmax", lambda torch: torch.nn.Softmax(1))
    yield plain("Linear over channels", "hg::Linear<4, 6>", lambda torch: draw.Last(torch, torch.nn.Linear(4, 6)), out=6)


def table():
    return [*convolutions(), *pools(), *resampling(), *others()]


if __name__ == "__main__":  # how many, for tests/CMakeLists.txt
    print(len(table()))
