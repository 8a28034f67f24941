"""The names of the bench: what runs them, and what they compute and move at the least."""

import dataclasses
import fnmatch


@dataclasses.dataclass(frozen=True)
class Bench:
    kind: str  # a function of kinds.py
    program: str = ""  # bench_<program>, and its --name where that is another
    steps: int = 10  # a turn
    flops: float = 0  # of a step; a multiply-add is two
    bytes: float = 0  # each input, output and gradient once
    beside: str = ""  # the tuned shape whose time per FLOP this one's is compared with
    ranks: tuple = (1,)
    size: int = 0


def windows(kernel, channels_in, channels_out, size, dimensions=2):
    """(FLOPs, bytes) of a convolution; three times and twice that with all gradients."""
    points = size**dimensions
    return 2 * kernel**dimensions * channels_in * channels_out * points, 4 * (channels_in + channels_out) * points


def both(base, program, steps, cost, kind="beside_torch", beside=""):
    flops, moved = cost
    return {f"{base}_forward": Bench(kind, program, steps, flops, moved, beside and beside + "_forward"),
            f"{base}_backward": Bench(kind, program, max(3, steps // 2), 3 * flops, 2 * moved,
                                      beside and beside + "_backward")}


def attention(queries, keys, channels):
    """(FLOPs, bytes) of attention's forward, each query to so many keys: two products of every pair; backward adds
    five."""
    return 4 * queries * keys * channels, 4 * 4 * queries * channels


def both_of_attention(base, program, steps, cost, kind="beside_torch", prefix="", size=0):
    flops, moved = cost
    return {f"{prefix}{base}_forward": Bench(kind, f"{program} {base}_forward", steps, flops, moved, size=size),
            f"{prefix}{base}_backward": Bench(kind, f"{program} {base}_backward", max(3, steps // 2), 3.5 * flops,
                                              2 * moved, size=size)}


def vit_block_training_flops(channels, size):
    """qkv, proj and the two layers of the MLP three times; attention 3.5 times."""
    points = size**2
    return 3 * 2 * 12 * channels**2 * points + 3.5 * 4 * points**2 * channels


def unet_flops(size):
    """Forward: (channels in, channels out, level, kernel) of each convolution of UNet<3, 3, 16>."""
    layers = [(3, 16, 0), (16, 16, 0), (16, 32, 1), (32, 32, 1), (32, 64, 2), (64, 64, 2), (96, 32, 1), (32, 32, 1),
              (48, 16, 0), (16, 16, 0)]
    head = windows(1, 16, 3, size)[0]
    return sum(windows(3, a, b, size / 2**level)[0] for a, b, level in layers) + head


def unet_training_flops(size):
    """All three passes, less the gradient of the image, which nobody asks for."""
    return 3 * unet_flops(size) - windows(3, 3, 16, size)[0]


def diffusion_unet_flops(size):
    """The same of DiffusionUNet<3, 3, 32>, with the 1 x 1 convolutions that take a block's input along."""
    layers = [(3, 32, 0), (32, 32, 0), (32, 32, 0), (32, 64, 1), (64, 64, 1), (64, 128, 2), (128, 128, 2), (128, 128, 2),
              (128, 128, 2), (192, 64, 1), (64, 64, 1), (96, 32, 0), (32, 32, 0), (32, 3, 0)]
    along = [(32, 64, 1), (64, 128, 2), (192, 64, 1), (96, 32, 0)]
    return (sum(windows(3, a, b, size / 2**level)[0] for a, b, level in layers) +
            sum(windows(1, a, b, size / 2**level)[0] for a, b, level in along))


plane16 = 4 * 16 * 1024**2
unet = unet_training_flops(512)
diffusion_unet = 3 * diffusion_unet_flops(256) - windows(3, 3, 32, 256)[0]
in_process = ("op_overhead_pointwise", "op_overhead_stencil", "op_overhead_sum", "redistribute_4K", "redistribute_64K",
              "redistribute_1M", "redistribute_16M", "redistribute_64M")
files = ("read_netcdf", "read_hdf5", "read_zarr", "save_checkpoint", "save_while_training")
halos = ("halo_rows", "halo_columns", "halo_rows_deep", "halo_rows_small")

BENCHES = {
    **both("conv2d_8", "conv2d", 20, windows(3, 8, 8, 1024)),
    **both("conv2d_16", "conv2d", 10, windows(3, 16, 16, 1024)),
    **both("conv2d_32", "conv2d", 20, windows(3, 32, 32, 512)),
    **both("conv2d_64", "conv2d", 20, windows(3, 64, 64, 256)),
    **both("conv2d_128", "conv2d", 20, windows(3, 128, 128, 128)),
    **both("conv2d_17_1023", "shapes", 10, windows(3, 17, 17, 1023), beside="conv2d_16"),
    **both("conv2d_24to40", "shapes", 20, windows(3, 24, 40, 512), beside="conv2d_32"),
    **both("conv2d_5x5", "shapes", 10, windows(5, 16, 16, 1024), beside="conv2d_16"),
    **both("conv3d_8", "volume", 10, windows(3, 8, 8, 128, dimensions=3)),
    **both("conv_norm_relu_16", "layers", 10, windows(3, 16, 16, 1024)),
    "maxpool": Bench("beside_torch", "layers", 20, bytes=plane16 * 1.25),
    "upsample_bilinear": Bench("beside_torch", "layers", 20, bytes=plane16 * 1.25),
    "groupnorm": Bench("beside_torch", "layers", 20, bytes=plane16 * 3),  # read for the moments, and again beyond caches
    **both("depthwise_7x7", "parts", 20, (windows(7, 1, 64, 512)[0], 4 * 2 * 64 * 512**2)),
    **both("batchnorm", "parts", 20, (0, 2 * plane16)),  # forward by its buffers
    **both("layernorm", "parts", 20, (0, 4 * 2 * 64 * 512**2)),
    "adaptive_avg_pool": Bench("beside_torch", "parts", 20, bytes=plane16),
    "upsample_bicubic": Bench("beside_torch", "parts", 20, bytes=plane16 * 1.25),
    "adamw": Bench("beside_torch", "parts", 20, bytes=7 * 4 * 2**24),  # reads four arrays, writes three
    **both_of_attention("attention", "attention", 5, attention(4096, 4096, 512)),
    **both_of_attention("attention_heads32", "attention", 5, attention(4096, 4096, 512)),
    **both_of_attention("attention_heads128", "attention", 5, attention(4096, 4096, 512)),
    **both_of_attention("attention_1024", "attention", 20, attention(1024, 1024, 512)),
    **both_of_attention("attention_16384", "attention", 1, attention(16384, 16384, 512)),
    **{f"attention_exchange_{way}": Bench("exchange", "attention", 5, ranks=(2,)) for way in ("forward", "backward")},
    **both_of_attention("neighborhood_attention", "tokens", 10, attention(64**2, 7**2, 256)),
    "vit_block_train": Bench("beside_torch", "tokens", 5, vit_block_training_flops(384, 32)),
    "unet_forward": Bench("beside_torch", "unet", 5, unet_flops(512)),
    "unet_train": Bench("beside_torch", "unet", 3, unet),
    "resnet18_train": Bench("beside_torch", "classifiers", 3, 57e9),  # as torchvision counts at 224, times (512 / 224)^2
    "convnext_train": Bench("beside_torch", "classifiers", 3, 140e9),
    "diffusion_unet_train": Bench("beside_torch", "diffusion", 5, diffusion_unet),
    "unet_memory": Bench("memory", "unet", 3),
    "unet_train_2ranks": Bench("beside_ranks", "unet unet_train", 3, unet, ranks=(2,), size=512),
    "unet_train_2ranks_32": Bench("beside_ranks", "unet unet_train", 20, unet_training_flops(32), ranks=(2,), size=32),
    "unet_threads_ranks": Bench("threads_beside_ranks", "unet unet_train", 3, unet, ranks=(2,), size=512),
    "unet_strong_scaling": Bench("scaling", "unet unet_train", 3, unet, ranks=(1, 2, 4), size=512),
    "unet_weak_scaling": Bench("scaling", "unet unet_train", 3, unet_training_flops(256), ranks=(1, 2, 4), size=256),
    "unet_exchange": Bench("exchange", "unet", 9, ranks=(2,), size=512),
    **{name: Bench("beside_mpi", "array", ranks=(2,)) for name in in_process},
    **{name: Bench("beside_mpi", "halo", ranks=(2,)) for name in halos},
    **{name: Bench("beside_plain_files", "files", ranks=(4,)) for name in files},
    "stencil_small_32": Bench("beside_mpi", "steps", ranks=(1, 2)),
    "stencil_small_31_3": Bench("beside_mpi", "steps"),
    "stencil_small_128_3": Bench("beside_mpi", "steps"),
    "hosts_call": Bench("beside_cpp", "hosts", ranks=(1, 2)),
    "transformer_expression": Bench("beside_parts", "transformer", ranks=(1, 4)),
    **{f"compile_chain_{depth}": Bench("compile_time") for depth in (1, 2, 4, 8, 16)},
    **{name: Bench("compile_time") for name in ("compile_hello", "compile_unet", "compile_block", "compile_change")},
}


def on_device(program, size, benches):
    """The same programs, built for CUDA, at a size that keeps a GPU busy; NAME_bf16: of fields of two bytes."""
    found = {}
    for name, bench in benches.items():
        for suffix, share in (("", 1), ("_bf16", 0.5)):
            found[f"device_{name}{suffix}"] = dataclasses.replace(
                bench, kind="on_device", program=f"{program} {name}{suffix}", bytes=share * bench.bytes, size=size)
    return found


def windows_on_device(base, program, channels, size):
    return on_device(program, size, both(base, program, 20, windows(3, channels, channels, size)))


def rows_on_device(name, size, passes):
    """What moves 16 x 2048 x 2048 values so often, and computes little."""
    return on_device("layers", size, {name: Bench("on_device", "layers", 20, bytes=4 * 16 * 2048**2 * passes)})


# only with bench.py --device
DEVICE_BENCHES = {
    **windows_on_device("conv2d_8", "conv2d", 8, 2048),
    **windows_on_device("conv2d_16", "conv2d", 16, 2048),
    **windows_on_device("conv2d_32", "conv2d", 32, 2048),
    **windows_on_device("conv2d_64", "conv2d", 64, 1024),
    **windows_on_device("conv2d_128", "conv2d", 128, 1024),
    **windows_on_device("conv2d_256", "conv2d", 256, 512),
    **windows_on_device("conv_norm_relu_16", "layers", 16, 2048),
    **rows_on_device("maxpool", 2048, 1.25),
    **rows_on_device("upsample_bilinear", 1024, 1.25),
    **rows_on_device("groupnorm", 2048, 3),
    **both_of_attention("attention", "attention", 10, attention(16384, 16384, 512), "on_device", "device_", 16384),
    "device_unet_train": Bench("on_device", "unet unet_train", 10, unet_training_flops(2048), size=2048),
    "device_unet_train_bf16": Bench("on_device", "unet unet_train_bf16", 10, unet_training_flops(2048), size=2048),
    "device_unet_memory": Bench("memory_on_device", "unet unet_memory", 3, size=2048),
    "device_unet_memory_bf16": Bench("memory_on_device", "unet unet_memory_bf16", 3, size=2048),
}


def program_of(name):
    """(executable, what it calls this)."""
    words = find(name).program.split()
    return f"bench_{words[0]}", words[-1] if len(words) > 1 else name


def find(name):
    return BENCHES.get(name) or DEVICE_BENCHES[name]


def chosen_names(filters, benches=None):
    """Names that are a filter, match it as a glob or contain it; all of them without one."""
    benches = BENCHES if benches is None else benches
    names = set()
    for text in filters or ["*"]:
        found = [text] if text in benches else fnmatch.filter(benches, text) or [n for n in benches if text in n]
        if not found:
            raise SystemExit(f"bench: no name matches '{text}'; there are: {' '.join(benches)}")
        names.update(found)
    return [name for name in benches if name in names]


def programs(names):
    """Targets to build for these names."""
    wanted = {program_of(name)[0] for name in names if find(name).program}
    wanted |= {program_of(find(name).beside)[0] for name in names if find(name).beside}
    return sorted(wanted | {"bench_machine"}) if wanted else []
