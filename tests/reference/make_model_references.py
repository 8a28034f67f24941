#!/usr/bin/env python3
"""make_model_references.py [--to FOLDER] [NAME...]: narrow models of torchvision's structure with random weights, as PyTorch computes
them. As make_references.py beside it; no torchvision is needed.

  NAME.safetensors       the state_dict, F32: what load_parameters reads
  NAME_run.safetensors   F64: grad_output (2, classes), training.output, evaluation.output (both with the weights as
                         they are), gradient.NAME (F32) of sum(training.output * grad_output), and after.NAME of buffers
The input is a formula (values() below), for it would be too large. All is computed in float64.
"""
from collections import OrderedDict

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F

from chosen import chosen
from make_layer_references import attend, rolled_window_attend

CLASSES = 5


def values(shape):
    i = np.arange(int(np.prod(shape)), dtype=np.uint64)
    hashed = (i * np.uint64(2654435761) + np.uint64(12345)) % np.uint64(2**32)
    return torch.tensor(hashed.astype(np.float64) / 2.0**31 - 1).reshape(shape)


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Bottleneck(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        inner = outputs // 4
        self.conv1, self.bn1 = nn.Conv2d(inputs, inner, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv2, self.bn2 = nn.Conv2d(inner, inner, 3, stride, 1, bias=False), nn.BatchNorm2d(inner)
        self.conv3, self.bn3 = nn.Conv2d(inner, outputs, 1, bias=False), nn.BatchNorm2d(outputs)
        self.downsample = None
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        y = self.bn3(self.conv3(y))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class ResNet(nn.Module):
    def __init__(self, block, blocks, width, expansion):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        channels = width
        for i in range(4):
            wide = (width << i) * expansion
            rest = [block(wide, wide, 1) for _ in range(blocks[i] - 1)]
            stage = nn.Sequential(block(channels, wide, 1 if i == 0 else 2), *rest)
            setattr(self, f"layer{i + 1}", stage)
            channels = wide
        self.fc = nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class ChannelNorm(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class PointLinear(nn.Linear):
    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.block = nn.Sequential(
            nn.Conv2d(channels, channels, 7, padding=3, groups=channels), nn.Identity(),
            ChannelNorm(channels, eps=1e-6), PointLinear(channels, 4 * channels), nn.GELU(),
            PointLinear(4 * channels, channels))
        self.layer_scale = nn.Parameter(torch.ones(channels, 1, 1))

    def forward(self, x):
        return x + self.layer_scale * self.block(x)


class ConvNeXt(nn.Module):
    def __init__(self, channels, blocks):
        super().__init__()
        stages = [nn.Sequential(nn.Conv2d(3, channels[0], 4, 4), ChannelNorm(channels[0], eps=1e-6))]
        for i in range(4):
            stages.append(nn.Sequential(*[ConvNeXtBlock(channels[i]) for _ in range(blocks[i])]))
            if i < 3:
                stages.append(nn.Sequential(ChannelNorm(channels[i], eps=1e-6),
                                            nn.Conv2d(channels[i], channels[i + 1], 2, 2)))
        self.features = nn.Sequential(*stages)
        self.classifier = nn.Sequential(nn.LayerNorm(channels[3], eps=1e-6), nn.Identity(),
                                        nn.Linear(channels[3], CLASSES))

    def forward(self, x):
        return self.classifier(F.adaptive_avg_pool2d(self.features(x), 1).flatten(1))


class DoubleConvolution(nn.Sequential):
    def __init__(self, inputs, outputs):
        super().__init__(nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(),
                         nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU())


class BilinearUNet(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down1, self.down2 = DoubleConvolution(3, width), DoubleConvolution(width, 2 * width)
        self.bottom = DoubleConvolution(2 * width, 4 * width)
        self.up2, self.up1 = DoubleConvolution(6 * width, 2 * width), DoubleConvolution(3 * width, width)
        self.head = nn.Conv2d(width, CLASSES, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.bottom(F.max_pool2d(b, 2))
        up = lambda x, like: F.interpolate(x, size=like.shape[2:], mode="bilinear", align_corners=False)
        b = self.up2(torch.cat([b, up(c, b)], 1))
        return self.head(self.up1(torch.cat([a, up(b, a)], 1)))


class DiffusionBlock(nn.Module):
    def __init__(self, inputs, outputs, embedding, groups):
        super().__init__()
        self.norm1, self.norm2 = nn.GroupNorm(groups, inputs), nn.GroupNorm(groups, outputs)
        self.conv1, self.conv2 = nn.Conv2d(inputs, outputs, 3, padding=1), nn.Conv2d(outputs, outputs, 3, padding=1)
        self.scale, self.shift = nn.Linear(embedding, outputs), nn.Linear(embedding, outputs)
        self.skip = nn.Conv2d(inputs, outputs, 1) if inputs != outputs else nn.Identity()

    def forward(self, x, e):
        h = self.norm2(self.conv1(F.silu(self.norm1(x))))
        h = F.silu((1 + self.scale(e)[..., None, None]) * h + self.shift(e)[..., None, None])
        return self.conv2(h) + self.skip(x)


class DiffusionLevel(nn.Module):
    def __init__(self, inputs, width, embedding, groups, levels):
        super().__init__()
        self.down = DiffusionBlock(inputs, width, embedding, groups)
        if levels == 1:
            self.middle = DiffusionBlock(width, width, embedding, groups)
        else:
            self.inner = DiffusionLevel(width, 2 * width, embedding, groups, levels - 1)
            self.up = DiffusionBlock(3 * width, width, embedding, groups)

    def forward(self, x, e):
        h = self.down(x, e)
        if hasattr(self, "middle"):
            return self.middle(h, e)
        below = F.interpolate(self.inner(F.avg_pool2d(h, 2), e), size=h.shape[2:], mode="nearest")
        return self.up(torch.cat([h, below], 1), e)


class DiffusionUNet(nn.Module):
    def __init__(self, inputs, outputs, base, conditions, groups, levels):
        super().__init__()
        self.base = base
        self.time = nn.Sequential(nn.Identity(), nn.Linear(base, 4 * base), nn.SiLU(), nn.Linear(4 * base, 4 * base),
                                  nn.SiLU())
        self.input = nn.Conv2d(inputs + conditions, base, 3, padding=1)
        self.levels = DiffusionLevel(base, base, 4 * base, groups, levels)
        self.norm = nn.GroupNorm(groups, base)
        self.output = nn.Conv2d(base, outputs, 3, padding=1)

    def forward(self, x, conditions, noise):
        half = self.base // 2
        w = torch.exp(-np.log(10000.0) * torch.arange(half, dtype=torch.float64) / half)
        e = self.time(torch.cat([torch.cos(w * noise), torch.sin(w * noise)], 1))
        return self.output(F.silu(self.norm(self.levels(self.input(torch.cat([x, conditions], 1)), e))))


class NeighborhoodAttention(nn.Module):
    def __init__(self, channels, heads, kernel):
        super().__init__()
        self.heads, self.kernel = heads, kernel
        self.qkv, self.proj = PointLinear(channels, 3 * channels), PointLinear(channels, channels)

    def forward(self, x):
        return self.proj(attend(self.qkv(x), self.heads, self.kernel, periodic=(1,)))


class TransformerBlock(nn.Module):
    def __init__(self, channels, attention, eps=1e-5):
        super().__init__()
        self.norm1, self.attn = ChannelNorm(channels, eps), attention
        self.norm2 = ChannelNorm(channels, eps)
        self.mlp = nn.Sequential(OrderedDict(fc1=PointLinear(channels, 4 * channels), act=nn.GELU(),
                                             fc2=PointLinear(4 * channels, channels)))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class MultiheadAttention(nn.Module):
    def __init__(self, channels, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = PointLinear(channels, 3 * channels), PointLinear(channels, channels)

    def forward(self, x):
        q, k, v = self.qkv(x).flatten(2).unflatten(1, (3, self.heads, -1)).transpose(3, 4).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(2, 3).flatten(1, 2).unflatten(2, x.shape[2:]))


class FieldTransformer(nn.Module):
    def __init__(self, inputs, outputs, channels, depth, patch, attention):
        super().__init__()
        self.patch_embed = nn.Conv2d(inputs, channels, patch, patch)
        self.blocks = nn.Sequential(*[TransformerBlock(channels, attention()) for _ in range(depth)])
        self.norm = ChannelNorm(channels)
        self.recover = nn.ConvTranspose2d(channels, outputs, patch, patch)

    def forward(self, x):
        return self.recover(self.norm(self.blocks(self.patch_embed(x))), output_size=x.shape[2:])


class VisionTransformer(nn.Module):
    """timm's with class_token=False, global_pool="avg"."""

    def __init__(self, inputs, extents, patch, channels, depth, heads):
        super().__init__()
        self.patch_embed = nn.ModuleDict({"proj": nn.Conv2d(inputs, channels, patch, patch)})
        self.pos_embed = nn.Parameter(torch.empty(1, extents[0] // patch * (extents[1] // patch), channels))
        self.blocks = nn.Sequential(
            *[TransformerBlock(channels, MultiheadAttention(channels, heads), 1e-6) for _ in range(depth)])
        self.fc_norm, self.head = nn.LayerNorm(channels, 1e-6), nn.Linear(channels, CLASSES)

    def forward(self, x):
        x = self.patch_embed["proj"](x)
        x = x + self.pos_embed.transpose(1, 2).unflatten(2, x.shape[2:])
        return self.head(self.fc_norm(self.blocks(x).mean((2, 3))))


class EncoderLayer(nn.Module):
    """torchvision.models.vision_transformer's EncoderBlock."""

    def __init__(self, channels, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(channels, 1e-6), nn.LayerNorm(channels, 1e-6)
        self.self_attention = nn.MultiheadAttention(channels, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(channels, 4 * channels), nn.GELU(), nn.Dropout(0.0),
                                 nn.Linear(4 * channels, channels), nn.Dropout(0.0))

    def forward(self, x):
        normed = self.ln_1(x)
        x = x + self.self_attention(normed, normed, normed, need_weights=False)[0]
        return x + self.mlp(self.ln_2(x))


class ClassTokenTransformer(nn.Module):
    """torchvision.models.VisionTransformer."""

    def __init__(self, inputs, extents, patch, channels, depth, heads):
        super().__init__()
        self.conv_proj = nn.Conv2d(inputs, channels, patch, patch)
        self.class_token = nn.Parameter(torch.empty(1, 1, channels))
        self.encoder = nn.Module()
        self.encoder.pos_embedding = nn.Parameter(
            torch.empty(1, 1 + extents[0] // patch * (extents[1] // patch), channels))
        self.encoder.layers = nn.Sequential()
        for i in range(depth):
            self.encoder.layers.add_module(f"encoder_layer_{i}", EncoderLayer(channels, heads))
        self.encoder.ln = nn.LayerNorm(channels, 1e-6)
        self.heads = nn.ModuleDict({"head": nn.Linear(channels, CLASSES)})

    def forward(self, x):
        x = self.conv_proj(x).flatten(2).transpose(1, 2)
        x = torch.cat([self.class_token.expand(len(x), -1, -1), x], 1) + self.encoder.pos_embedding
        return self.heads["head"](self.encoder.ln(self.encoder.layers(x))[:, 0])


class WindowAttention(nn.Module):
    def __init__(self, channels, heads, window, shift):
        super().__init__()
        self.heads, self.window, self.shift = heads, window, shift
        self.relative_position_bias_table = nn.Parameter(torch.empty((2 * window - 1) ** 2, heads))
        self.qkv, self.proj = PointLinear(channels, 3 * channels), PointLinear(channels, channels)

    def forward(self, x):
        window, shift, (height, width) = 2 * (self.window,), 2 * (self.shift,), x.shape[2:]
        padded = F.pad(x, (0, -width % self.window, 0, -height % self.window))  # as timm pads
        y = rolled_window_attend(self.qkv(padded), self.relative_position_bias_table, self.heads, window, shift)
        return self.proj(y[:, :, :height, :width])


class PatchMerging(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm, self.reduction = nn.LayerNorm(4 * channels), nn.Linear(4 * channels, 2 * channels, bias=False)

    def forward(self, x):
        x = x.movedim(1, 3)
        points = [x[:, i::2, j::2] for j in (0, 1) for i in (0, 1)]
        return self.reduction(self.norm(torch.cat(points, 3))).movedim(3, 1)


class SwinTransformer(nn.Module):
    """timm's: half as many points before each level but the first."""

    def __init__(self, inputs, channels, heads, window, patch, depths):
        super().__init__()
        self.patch_embed = nn.ModuleDict(
            {"proj": nn.Conv2d(inputs, channels, patch, patch), "norm": ChannelNorm(channels)})
        self.layers = nn.Sequential()
        for level, depth in enumerate(depths):
            wide = channels << level
            blocks = [TransformerBlock(wide, WindowAttention(wide, heads << level, window, i % 2 * (window // 2)))
                      for i in range(depth)]
            parts = OrderedDict(downsample=PatchMerging(wide // 2)) if level > 0 else OrderedDict()
            self.layers.append(nn.Sequential(OrderedDict(**parts, blocks=nn.Sequential(*blocks))))
        self.norm = ChannelNorm(wide)
        self.head = nn.ModuleDict({"fc": nn.Linear(wide, CLASSES)})

    def forward(self, x):
        x = self.layers(self.patch_embed["norm"](self.patch_embed["proj"](x)))
        return self.head["fc"](self.norm(x).mean((2, 3)))


def randomise(model):
    for name, tensor in model.state_dict().items():
        if tensor.dtype != torch.float64:
            continue
        uniform = torch.rand(tensor.shape, dtype=torch.float64)
        if name.endswith("running_var") or (tensor.dim() == 1 and name.endswith("weight")):
            tensor.copy_(0.5 + uniform)
        elif tensor.dim() < 2 or name.endswith("layer_scale"):
            tensor.copy_(uniform - 0.5)
        else:
            tensor.copy_((2 * uniform - 1) * (3.0 / np.prod(tensor.shape[1:])) ** 0.5)
        tensor.copy_(tensor.float().double())


def write(folder, name, model, extents):
    torch.manual_seed(len(name))
    model = model.double()
    randomise(model)
    state = {k: v.float() if v.dtype == torch.float64 else v for k, v in model.state_dict().items()}
    save_file({k: v.contiguous() for k, v in state.items()}, folder / f"{name}.safetensors")
    x = values(extents).requires_grad_()
    run = {"evaluation.output": model.eval()(x)}
    y = model.train()(x)
    sums = torch.rand(y.shape, dtype=torch.float64) - 0.5 if y.dim() == 2 else values(y.shape)
    if y.dim() == 2:
        run["grad_output"] = sums
    (y * sums).sum().backward()
    run["training.output"], run["input_gradient"] = y, x.grad.flatten()[::371]
    for k, v in model.named_parameters():
        run["gradient." + k] = v.grad.float()
    for k, v in model.named_buffers():
        if v.dtype == torch.float64:
            run["after." + k] = v
    if y.dim() != 2:  # a large output: every 37th value
        for k in ("evaluation.output", "training.output"):
            run[k] = run[k].flatten()[::37]
    save_file({k: v.detach().contiguous().clone() for k, v in run.items()}, folder / f"{name}_run.safetensors")


def write_diffusion(folder, name, model):
    torch.manual_seed(len(name))
    model = model.double()
    randomise(model)
    save_file({k: v.float().contiguous() for k, v in model.state_dict().items()}, folder / f"{name}.safetensors")
    x, conditions = values((2, 2, 19, 23)).requires_grad_(), values((2, 3, 19, 23))
    y = model(x, conditions, torch.tensor([[-1.25], [0.75]], dtype=torch.float64))
    (y * values(y.shape)).sum().backward()
    run = {"output": y.flatten()[::37], "grad_input": x.grad.flatten()[::37]}
    for k, v in model.named_parameters():
        run["gradient." + k] = v.grad.float()
    save_file({k: v.detach().contiguous().clone() for k, v in run.items()}, folder / f"{name}_run.safetensors")


def with_windows():
    shifts = iter((0, 2))
    return FieldTransformer(3, CLASSES, 12, 2, 2, lambda: WindowAttention(12, 3, 4, next(shifts)))


MODELS = {  # the model, and the extents of its input
    "resnet18": (lambda: ResNet(BasicBlock, (2, 2, 2, 2), 2, 1), (2, 3, 197, 229)),
    "resnet50": (lambda: ResNet(Bottleneck, (3, 4, 6, 3), 1, 4), (2, 3, 197, 229)),
    "convnext": (lambda: ConvNeXt((4, 6, 8, 10), (3, 3, 9, 3)), (2, 3, 197, 229)),
    "unet_bilinear": (lambda: BilinearUNet(4), (2, 3, 29, 37)),
    "field_transformer": (lambda: FieldTransformer(3, CLASSES, 12, 2, 2, lambda: NeighborhoodAttention(12, 3, 5)),
                          (2, 3, 25, 36)),
    "full_transformer": (lambda: FieldTransformer(3, CLASSES, 12, 2, 2, lambda: MultiheadAttention(12, 3)), (2, 3, 25, 36)),
    "window_transformer": (with_windows, (2, 3, 25, 40)),
    "vision_transformer": (lambda: VisionTransformer(3, (20, 28), 4, 12, 2, 3), (2, 3, 20, 28)),
    "class_token_transformer": (lambda: ClassTokenTransformer(3, (20, 28), 4, 12, 2, 3), (2, 3, 20, 28)),
    "swin_transformer": (lambda: SwinTransformer(3, 8, 2, 4, 2, (2, 2)), (2, 3, 48, 32)),
    "padded_swin_transformer": (lambda: SwinTransformer(3, 8, 2, 4, 2, (2, 2)), (2, 3, 44, 28)),
}


def main():
    folder, names = chosen([*MODELS, "diffusion_unet"], __file__, __doc__)
    torch.use_deterministic_algorithms(True)
    for name in names:
        if name == "diffusion_unet":
            write_diffusion(folder, name, DiffusionUNet(2, 2, 8, 3, 4, 2))
        else:
            make, extents = MODELS[name]
            write(folder, name, make(), extents)


if __name__ == "__main__":
    main()
