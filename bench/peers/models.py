"""The models of the bench programs in PyTorch: MODELS[base] = (how to make it, shape of its input).

A name is a base, or a base and _forward, _backward or _train.
"""

import torch
from torch import nn
from torch.nn import functional as F


def block(channels_in, channels_out):
    return nn.Sequential(
        nn.Conv2d(channels_in, channels_out, 3, padding=1), nn.GroupNorm(8, channels_out), nn.ReLU(inplace=True),
        nn.Conv2d(channels_out, channels_out, 3, padding=1), nn.GroupNorm(8, channels_out), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    """hg::UNet<3, 3, 16>."""

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


def convolution_norm(channels_in, channels_out, kernel, stride):
    return nn.Sequential(nn.Conv2d(channels_in, channels_out, kernel, stride, kernel // 2, bias=False),
                         nn.BatchNorm2d(channels_out))


class BasicBlock(nn.Module):
    def __init__(self, channels_in, channels_out, stride):
        super().__init__()
        self.first = convolution_norm(channels_in, channels_out, 3, stride)
        self.second = convolution_norm(channels_out, channels_out, 3, 1)
        changes = stride != 1 or channels_in != channels_out
        self.downsample = convolution_norm(channels_in, channels_out, 1, stride) if changes else nn.Identity()

    def forward(self, x):
        return F.relu(self.second(F.relu(self.first(x))) + self.downsample(x))


def resnet18():
    """hg::ResNet<18>."""
    blocks = [BasicBlock(64 << max(0, i - (j == 0)), 64 << i, 2 if i > 0 and j == 0 else 1)
              for i in range(4) for j in range(2)]
    return nn.Sequential(convolution_norm(3, 64, 7, 2), nn.ReLU(inplace=True), nn.MaxPool2d(3, 2, 1), *blocks,
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.Linear(512, 1000))


class ChannelsLast(nn.Sequential):
    def forward(self, x):
        return super().forward(x.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)


class Scale(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.weight = nn.Parameter(torch.full((channels, 1, 1), 1e-6))

    def forward(self, x):
        return self.weight * x


class ConvNeXtBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.spread = nn.Conv2d(channels, channels, 7, padding=3, groups=channels)
        self.mix = ChannelsLast(nn.LayerNorm(channels, eps=1e-6), nn.Linear(channels, 4 * channels), nn.GELU(),
                                nn.Linear(4 * channels, channels))
        self.scale = Scale(channels)

    def forward(self, x):
        return x + self.scale(self.mix(self.spread(x)))


def convnext():
    """hg::ConvNeXt<>."""
    channels, layers = (96, 192, 384, 768), [nn.Conv2d(3, 96, 4, 4), ChannelsLast(nn.LayerNorm(96, eps=1e-6))]
    for i, blocks in enumerate((3, 3, 9, 3)):
        layers += [ConvNeXtBlock(channels[i]) for _ in range(blocks)]
        if i < 3:
            layers += [ChannelsLast(nn.LayerNorm(channels[i], eps=1e-6)), nn.Conv2d(channels[i], channels[i + 1], 2, 2)]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(1), nn.LayerNorm(768, eps=1e-6),
                         nn.Linear(768, 1000))


class DiffusionBlock(nn.Module):
    def __init__(self, channels_in, channels_out, embedding):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, channels_in), nn.Conv2d(channels_in, channels_out, 3, padding=1)
        self.norm2 = nn.GroupNorm(8, channels_out)
        self.scale, self.shift = nn.Linear(embedding, channels_out), nn.Linear(embedding, channels_out)
        self.conv2 = nn.Conv2d(channels_out, channels_out, 3, padding=1)
        self.skip = nn.Conv2d(channels_in, channels_out, 1) if channels_in != channels_out else nn.Identity()

    def forward(self, x, embedding):
        h = self.norm2(self.conv1(F.silu(self.norm1(x))))
        h = F.silu((1 + self.scale(embedding)[..., None, None]) * h + self.shift(embedding)[..., None, None])
        return self.conv2(h) + self.skip(x)


class DiffusionUNet(nn.Module):
    """hg::DiffusionUNet<3, 3, 32>, told a noise level of 0.25."""

    def __init__(self, base=32):
        super().__init__()
        embedding = 4 * base
        self.base, block = base, lambda *channels: DiffusionBlock(*channels, embedding)
        self.time = nn.Sequential(nn.Linear(base, embedding), nn.SiLU(), nn.Linear(embedding, embedding), nn.SiLU())
        self.input = nn.Conv2d(3, base, 3, padding=1)
        self.down1, self.down2 = block(base, base), block(base, 2 * base)
        self.down3, self.middle = block(2 * base, 4 * base), block(4 * base, 4 * base)
        self.up2, self.up1 = block(6 * base, 2 * base), block(3 * base, base)
        self.norm, self.output = nn.GroupNorm(8, base), nn.Conv2d(base, 3, 3, padding=1)

    def forward(self, x):
        half = self.base // 2
        angle = 0.25 * torch.exp(-torch.arange(half, device=x.device) * (9.210340371976184 / half))
        e = self.time(torch.cat([torch.cos(angle), torch.sin(angle)])[None])
        skip1 = self.down1(self.input(x), e)
        skip2 = self.down2(F.avg_pool2d(skip1, 2), e)
        deep = self.middle(self.down3(F.avg_pool2d(skip2, 2), e), e)
        deep = self.up2(torch.cat([skip2, F.interpolate(deep, scale_factor=2, mode="nearest")], 1), e)
        deep = self.up1(torch.cat([skip1, F.interpolate(deep, scale_factor=2, mode="nearest")], 1), e)
        return self.output(F.silu(self.norm(deep)))


class Attention(nn.Module):
    """Of query, key and value one after the other in the first dimension."""

    def forward(self, x):
        query, key, value = x.unsqueeze(1).unbind(0)
        return F.scaled_dot_product_attention(query, key, value)


class NeighborhoodAttention(nn.Module):
    """Of query, key and value one after the other in the channels: each point and the kernel x kernel points around it,
    the window moved until it is inside the field (NATTEN). Keys and values are unfolded."""

    def __init__(self, heads=8, kernel=7):
        super().__init__()
        self.heads, self.kernel = heads, kernel

    def windows(self, x):
        """(N, heads, H, W, kernel^2, features) of (N, C, H, W)."""
        kernel = self.kernel
        x = x.unfold(2, kernel, 1).unfold(3, kernel, 1)
        for d in (2, 3):
            extent = x.shape[d] + kernel - 1
            first = (torch.arange(extent, device=x.device) - kernel // 2).clamp(0, extent - kernel)
            x = x.index_select(d, first)
        n, c, height, width = x.shape[:4]
        return x.reshape(n, self.heads, c // self.heads, height, width, kernel**2).permute(0, 1, 3, 4, 5, 2)

    def forward(self, x):
        query, key, value = x.chunk(3, 1)
        n, c, height, width = query.shape
        query = query.reshape(n, self.heads, 1, c // self.heads, height, width).permute(0, 1, 4, 5, 2, 3)
        seen = F.scaled_dot_product_attention(query, self.windows(key), self.windows(value))
        return seen.squeeze(4).permute(0, 1, 4, 2, 3).reshape(n, c, height, width)


class FlexNeighborhoodAttention(nn.Module):
    """NeighborhoodAttention by flex_attention, whose blocks of keys that no query sees are left out. Forward alone: on CPUs it has no
    gradient."""

    def __init__(self, size=64, heads=8, kernel=7):
        super().__init__()
        from torch.nn.attention import flex_attention

        def sees(_batch, _head, query, key):
            first = lambda i: (i - kernel // 2).clamp(0, size - kernel)
            y, x = key // size - first(query // size), key % size - first(query % size)
            return (y >= 0) & (y < kernel) & (x >= 0) & (x < kernel)

        self.heads = heads
        self.mask = flex_attention.create_block_mask(sees, None, None, size**2, size**2, device="cpu")
        self.attend = torch.compile(flex_attention.flex_attention)

    def forward(self, x):
        heads = lambda z: z.reshape(z.shape[0], self.heads, -1, z[0, 0].numel()).transpose(2, 3).contiguous()
        query, key, value = (heads(z) for z in x.chunk(3, 1))
        seen = self.attend(query, key, value, block_mask=self.mask)
        return seen.transpose(2, 3).reshape(x.shape[0], -1, *x.shape[2:])


class TransformerBlock(nn.Module):
    """hg::TransformerBlock of all points, parameters in its order."""

    def __init__(self, channels=384, heads=6):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(channels)
        self.qkv, self.proj = nn.Linear(channels, 3 * channels), nn.Linear(channels, channels)
        self.norm2 = nn.LayerNorm(channels)
        self.fc1, self.fc2 = nn.Linear(channels, 4 * channels), nn.Linear(4 * channels, channels)

    def forward(self, image):
        x = image.flatten(2).transpose(1, 2)
        n, length, channels = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, length, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        seen = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, length, channels)
        x = x + self.proj(seen)
        x = x + self.fc2(F.gelu(self.fc1(self.norm2(x))))
        return x.transpose(1, 2).reshape(image.shape)


def conv2d(channels_in, channels_out, kernel=3):
    return lambda: nn.Conv2d(channels_in, channels_out, kernel, padding=kernel // 2)


MODELS = {
    "conv2d_8": (conv2d(8, 8), (1, 8, 1024, 1024)),
    "conv2d_16": (conv2d(16, 16), (1, 16, 1024, 1024)),
    "conv2d_32": (conv2d(32, 32), (1, 32, 512, 512)),
    "conv2d_64": (conv2d(64, 64), (1, 64, 256, 256)),
    "conv2d_128": (conv2d(128, 128), (1, 128, 128, 128)),
    "conv2d_256": (conv2d(256, 256), (1, 256, 64, 64)),
    "conv2d_17_1023": (conv2d(17, 17), (1, 17, 1023, 1023)),
    "conv2d_24to40": (conv2d(24, 40), (1, 24, 512, 512)),
    "conv2d_5x5": (conv2d(16, 16, 5), (1, 16, 1024, 1024)),
    "conv3d_8": (lambda: nn.Conv3d(8, 8, 3, padding=1), (1, 8, 128, 128, 128)),
    "conv_norm_relu_16": (lambda: nn.Sequential(nn.Conv2d(16, 16, 3, padding=1), nn.GroupNorm(8, 16),
                                                nn.ReLU(inplace=True)), (1, 16, 1024, 1024)),
    "maxpool": (lambda: nn.MaxPool2d(2), (1, 16, 1024, 1024)),
    "upsample_bilinear": (lambda: nn.Upsample(scale_factor=2, mode="bilinear"), (1, 16, 512, 512)),
    "groupnorm": (lambda: nn.GroupNorm(8, 16), (1, 16, 1024, 1024)),
    "depthwise_7x7": (lambda: nn.Conv2d(64, 64, 7, padding=3, groups=64), (1, 64, 512, 512)),
    "batchnorm": (lambda: nn.BatchNorm2d(16), (1, 16, 1024, 1024)),
    "layernorm": (lambda: ChannelsLast(nn.LayerNorm(64)), (1, 64, 512, 512)),
    "adaptive_avg_pool": (lambda: nn.AdaptiveAvgPool2d(7), (1, 16, 1024, 1024)),
    "upsample_bicubic": (lambda: nn.Upsample(scale_factor=2, mode="bicubic"), (1, 16, 512, 512)),
    "adamw": (lambda: nn.Sequential(*[nn.Linear(2048, 2048, bias=False) for _ in range(4)]), (1, 2048)),
    "attention": (Attention, (3, 8, 4096, 64)),
    "attention_heads32": (Attention, (3, 16, 4096, 32)),
    "attention_heads128": (Attention, (3, 4, 4096, 128)),
    "attention_1024": (Attention, (3, 8, 1024, 64)),
    "attention_16384": (Attention, (3, 8, 16384, 64)),
    "neighborhood_attention": (NeighborhoodAttention, (1, 768, 64, 64)),
    "flex_neighborhood_attention": (FlexNeighborhoodAttention, (1, 768, 64, 64)),
    "vit_block": (TransformerBlock, (1, 384, 32, 32)),
    "unet": (UNet, (1, 3, 512, 512)),
    "resnet18": (resnet18, (1, 3, 512, 512)),
    "convnext": (convnext, (1, 3, 512, 512)),
    "diffusion_unet": (DiffusionUNet, (1, 3, 256, 256)),
}


def resized(name, shape, size):
    """In every direction, or as long a sequence."""
    if name.startswith("attention"):
        return (*shape[:2], size, shape[3])
    return (*shape[:2], *([size] * (len(shape) - 2)))


def model_of(name):
    """(net, shape, mode), mode forward, backward or train."""
    for mode in ("forward", "backward", "train"):
        if name.removesuffix("_" + mode) in MODELS:
            break
    base = name.removesuffix("_" + mode)
    if base not in MODELS:
        raise SystemExit(f"peer: there is no '{name}' here")
    make, shape = MODELS[base]
    return make(), shape, mode if base != name else "forward"
