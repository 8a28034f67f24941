"""python_test.py LIBRARY: a host in Python calls the model `small`, alone and, under mpirun, on uneven pieces; with torch and
xarray where they are installed. python_test.py --compile BUILD KOKKOS: halogen.compile, from a new prefix.
Exit code 77: numpy is not installed."""
import os
import pathlib
import subprocess
import sys
import tempfile

try:
    import numpy
except ImportError:
    print("skipped: this Python has no numpy")
    sys.exit(77)

here = pathlib.Path(__file__).resolve()
sys.path.insert(0, str(here.parents[2] / "python"))
import halogen  # noqa: E402


def field(height, width, channels=3):
    c, y, x = numpy.ogrid[:channels, :height, :width]
    return (((c * 37 + y * 11 + x * 5) % 23) / 11 - 1).astype(numpy.float32)


def refused(words, call, kind=halogen.Error):
    try:
        call()
    except kind as error:
        assert words in str(error), f"'{words}' is not in: {error}"
        return
    raise AssertionError(f"nothing was refused with '{words}'")


def check_alone(exported):
    small = exported
    net = small(extents=(18, 14), seed=7)
    x = field(18, 14)
    y = net(x)
    assert y.shape == (2, 18, 14) and y.dtype == numpy.float32
    assert numpy.array_equal(net(x[None])[0], y)
    assert numpy.array_equal(net(x.astype(numpy.float64)), y)
    turned = numpy.ascontiguousarray(x.transpose(2, 1, 0)).transpose(2, 1, 0)[:, ::-1]  # another order, rows reversed
    assert numpy.array_equal(net(turned[:, ::-1]), y)
    frozen = x.copy()
    frozen.flags.writeable = False
    assert numpy.array_equal(net(frozen), y)
    refused("input 0 has extents (3, 18, 13)", lambda: net(x[:, :, :13]))
    refused("float16", lambda: net(x.astype(numpy.float16)), TypeError)
    refused("read-only", lambda: net.infer(x, out=[frozen[:2]]), ValueError)
    refused("no multiple", lambda: net(numpy.zeros((3, 18, 14), [("v", "f4"), ("flag", "i1")])["v"]), ValueError)
    refused("no.safetensors", lambda: net.load("no.safetensors"))
    refused("2 dimensions", lambda: small(extents=(18,)), ValueError)
    refused("memory_limit", lambda: small(extents=(18, 14), memory_limit="1 KiB"))
    refused("give bytes", lambda: small(extents=(18, 14), memory_limit="much"), ValueError)

    # gradients: <J d, g> = <d, vjp(g)>, by central differences
    random = numpy.random.default_rng(0)
    x, d, g = (random.standard_normal((n, 18, 14)).astype(numpy.float32) for n in (3, 3, 2))
    net.infer(x, keep=True)
    owed = net.vjp(g)[0]
    slopes = {name: v.copy() for name, v in net.gradients().items()}
    step = 3e-4  # values of float, and kinks of ReLU: a rough check; host.c has one in double
    change = (net(x + step * d).astype(float) - net(x - step * d)) / (2 * step)
    left, right = float((change * g).sum()), float((d.astype(float) * owed).sum())
    assert abs(left - right) < 2e-2 * abs(right), (left, right)
    name = "head.bias"
    kept = net.parameters()[name]
    kept += step
    more = net(x).astype(float)
    kept -= 2 * step
    less = net(x).astype(float)
    kept += step
    change = float(((more - less) / (2 * step) * g).sum())
    assert abs(change - slopes[name].sum()) < 2e-2 * abs(change), (change, slopes[name])
    refused("nothing is kept", lambda: net.vjp(g))

    with tempfile.TemporaryDirectory() as folder:  # files, and two models at once
        path = os.path.join(folder, "small.safetensors")
        net.save(path)
        other = small(extents=(18, 14), seed=1, weights=path)
        assert numpy.array_equal(other(x), net(x))
    trainer = net.trainer(lr=0.02)
    label = field(18, 14, 2)
    losses = [trainer.step(x, label) for _ in range(20)]
    assert losses[-1] < losses[0], losses
    assert not numpy.array_equal(other(x), net(x)) and net.memory > 0 and "launch" in net.explain()
    refused("before the first step", lambda: trainer.set(weight_decay=0.1))
    refused("no option 'speed'", lambda: small(extents=(18, 14)).trainer(speed=1))
    net.close()
    refused("closed", lambda: net(x))
    with small(extents=(18, 14)) as third:
        assert len(list(third.parameters())) == third.about.parameters


def check_symbols(library):
    """Only the prefix's functions are visible."""
    told = subprocess.run(["nm", "-D", "--defined-only", library], capture_output=True, text=True, check=True).stdout
    names = [line.split()[-1] for line in told.splitlines()]
    assert len(names) == 15 and all(name.startswith("small_") for name in names), names


def check_torch(small):
    try:
        import torch
    except ImportError:
        return print("skipped: torch is not installed")
    net = small(extents=(18, 14), seed=7)
    x = torch.from_numpy(field(18, 14)[None]).requires_grad_()
    assert torch.equal(net(x), torch.from_numpy(net(x.detach().numpy())))
    g = torch.from_numpy(field(18, 14, 2)[None])
    (net(x) * g).sum().backward()
    net.infer(x.detach().numpy(), keep=True)
    assert numpy.array_equal(x.grad.numpy(), net.vjp(g.numpy()))
    module = net.torch()
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01)
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = ((module(x.detach()) - g) ** 2).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0], losses


def check_xarray(small):
    try:
        import xarray
    except ImportError:
        return print("skipped: xarray is not installed")
    net = small(extents=(18, 14), seed=7)
    data = numpy.stack([field(18, 14), 2 * field(18, 14)])
    day = xarray.Dataset({name: (("time", "lat", "lon"), data[:, c], {"units": name}) for c, name in enumerate("uvt")},
                         {"time": [3, 6], "lat": numpy.arange(18.0), "lon": numpy.arange(14.0)}, {"title": "a day"})
    made = net.on(day, channels=["u", "v", "t"], out=["v", "q"])
    assert list(made.data_vars) == ["v", "q"] and made.attrs == day.attrs and made["v"].attrs == {"units": "v"}
    assert made["lat"].equals(day["lat"]) and numpy.array_equal(made["q"].values[1], net(data[1])[1])
    refused("no variables", lambda: net.on(day, ["u", "v", "w"]), KeyError)
    refused("takes 3", lambda: net.on(day, ["u", "v"]), ValueError)


def check_pieces(small, comm):
    rank, size = comm.Get_rank(), comm.Get_size()
    rows = [0, *range(5, 18 - 12 // size + 1, max(1, 12 // size))][:size] + [18]
    begin, end = (rows[rank], 0), (rows[rank + 1], 14)
    x = field(18, 14)
    alone, cut = small(extents=(18, 14), seed=7), small(extents=(18, 14), seed=7, comm=comm, begin=begin, end=end)
    assert numpy.array_equal(cut(x[:, begin[0] : end[0]]), alone(x)[:, begin[0] : end[0]])
    equal = small(extents=(18, 14), seed=7, comm=comm, mesh=(size, 1))
    own = equal.begins[0][2]
    piece = x[:, own : own + equal._outputs[0][2]]
    assert numpy.array_equal(equal(piece), alone(x)[:, own : own + piece.shape[1]])
    refused("input 0 has extents", lambda: cut(x[:, : end[0] - begin[0] + (rank == 0)]))  # one rank's fault, on all ranks
    own_mpi, small.about.mpi = small.about.mpi, b"MPICH Version: 4.0"
    refused("let both use one MPI", lambda: small(extents=(18, 14), comm=comm))
    small.about.mpi = own_mpi
    for net in (cut, equal):
        net.close()


def check_compile(build, kokkos):
    with tempfile.TemporaryDirectory() as folder:
        prefix = os.path.join(folder, "prefix")
        subprocess.run(["cmake", "--install", build, "--prefix", prefix], check=True, stdout=subprocess.DEVNULL)
        os.environ.update(HALOGEN_ROOT=prefix, CMAKE_PREFIX_PATH=kokkos, HALOGEN_CACHE=os.path.join(folder, "cache"))
        header = os.path.join(folder, "model.hpp")
        pathlib.Path(header).write_text("#include <halogen/layers/conv2d.hpp>\n"
                                        "using Blur = hg::Conv2d<1, 1, hg::Kernel<3>, hg::Padding<1>, hg::Bias<false>>;\n"
                                        .replace("hg::", "halogen::"))
        blur = halogen.compile(header, "Blur")
        net = blur(extents=(5, 6))
        net.parameters()["weight"][...] = numpy.ones((1, 1, 3, 3)) / 9
        x = numpy.arange(30.0).reshape(1, 5, 6)
        assert abs(net(x)[0, 2, 3] - x[0, 1:4, 2:5].mean()) < 1e-5
        steps = list(net.rollout(x, 3))
        assert len(steps) == 3 and numpy.array_equal(steps[1], net(steps[0]))
        again = halogen.compile(header, "Blur")
        assert again.path == blur.path, "the second call is the cache's"
        refused("exported without a loss", lambda: halogen.Exported(blur.path, "model")(extents=(5, 6)).trainer())
        refused("error", lambda: halogen.compile(header, "Sharp"), halogen.CompileError)
        refused("HALOGEN_ROOT", lambda: os.environ.update(HALOGEN_ROOT=folder) or halogen.compile(header, "Blur"),
                FileNotFoundError)


def main():
    if sys.argv[1] == "--compile":
        check_compile(*sys.argv[2:])
    else:
        small = halogen.load(sys.argv[1], "small")
        if "OMPI_COMM_WORLD_SIZE" in os.environ or "PMI_SIZE" in os.environ:
            try:
                from mpi4py import MPI
            except ImportError:
                print("skipped: this Python has no mpi4py")
                sys.exit(77)
            check_pieces(small, MPI.COMM_WORLD)
        else:
            check_symbols(sys.argv[1])
            check_alone(small)
            check_torch(small)
            check_xarray(small)
    print("a host in Python: all holds")


main()
