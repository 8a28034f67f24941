"""A model of a library, on one process or on the ranks of a communicator."""
import ctypes
import re
import threading
import weakref

import numpy

from . import _abi

BYTES = {"": 1, "b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40, "kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12}


class Error(RuntimeError):
    """What a library refuses, in its own sentence; .code is HALOGEN_REFUSED (1) or HALOGEN_FAILED (2)."""

    def __init__(self, sentence, code):
        super().__init__(sentence)
        self.code = code


def bytes_of(limit):
    """A number, or a text such as "6 GiB"."""
    if limit is None:
        return 0
    found = re.fullmatch(r"\s*([\d.]+)\s*([a-zA-Z]*)\s*", str(limit))
    if not found or found[2].lower() not in BYTES:
        raise ValueError(f"memory_limit is {limit!r}: give bytes, or a text such as '6 GiB'")
    return int(float(found[1]) * BYTES[found[2].lower()])


def is_tensor(x):
    return type(x).__module__.split(".")[0] == "torch"


def host_array(x, writes=False):
    """The structure of a numpy array, which it does not keep alive."""
    if x.dtype.name not in _abi.TYPES:
        raise TypeError(f"an array of {x.dtype} is given: give float32, float64, int32 or int64")
    if writes and not x.flags.writeable:
        raise ValueError("the array for a result is read-only: give one that can be written")
    if x.ndim > 6:
        raise ValueError(f"an array of {x.ndim} dimensions is given: a field has at most 5")
    if any(stride % x.itemsize for stride in x.strides):
        raise ValueError("the array's strides are no multiples of its values' size: give a copy")
    array = _abi.Array(x.ctypes.data, _abi.TYPES[x.dtype.name], x.ndim)
    array.extent[: x.ndim] = x.shape
    array.stride[: x.ndim] = [stride // x.itemsize for stride in x.strides]
    return array


def arrays_of(arrays, writes=False):
    result = (_abi.Array * max(1, len(arrays)))()
    for i, x in enumerate(arrays):
        if x is not None:
            result[i] = host_array(x, writes)
    return result


class Exported:
    """A model of a library: call it to make one."""

    def __init__(self, library, prefix, retrain=None):
        self.path = str(library)
        self.functions = _abi.declare(ctypes.CDLL(self.path), prefix)
        self.about = self.functions["about"]().contents
        self.retrain = retrain  # (loss, optimizer) -> the same model, exported with these
        if self.about.abi != _abi.ABI:
            raise Error(f"{library} has ABI {self.about.abi}, but this package has {_abi.ABI}: compile it again", 1)

    def __call__(self, extents, weights=None, **how):
        """extents: of the whole field, (height, width) or as many as the model has. weights: a safetensors file.
        comm: a communicator of mpi4py; this process alone without it. mesh: ranks along each dimension, or begin and end:
        what this rank owns; samples: of a batch. threads, seed, memory_limit ("6 GiB") as in halogen/model.h."""
        net = Model(self, extents, **how)
        if weights is not None:
            net.load(weights)
        return net

    def check_mpi(self, comm):
        import mpi4py.MPI

        own, other = self.about.mpi.decode(), mpi4py.MPI.Get_library_version().rstrip("\0\n ")
        if not own:
            raise Error("a communicator is given, but the library was built without MPI: compile it where MPI is found", 1)
        if own.split(",")[0].rstrip("\0\n ") != other.split(",")[0]:
            raise Error(f"mpi4py uses '{other.split(',')[0]}', but the library '{own.split(',')[0]}': let both use one MPI", 1)
        return comm.py2f()


class Model:
    """A network on a field of these extents. Call it on arrays of this rank's piece: numpy, torch (with gradients)."""

    def __init__(self, exported, extents, comm=None, mesh=None, begin=None, end=None, samples=1, threads=0, seed=0,
                 memory_limit=None):
        dimensions = exported.about.dimensions
        extents = tuple(int(n) for n in extents)
        if len(extents) != dimensions:
            raise ValueError(f"extents are {extents}: this model has {dimensions} dimensions of space")
        setup = _abi.Setup(ctypes.sizeof(_abi.Setup), _abi.ABI)
        setup.extent[: dimensions + 1] = (samples, *extents)
        setup.end[: dimensions + 1] = (samples, *extents)
        if begin is not None or end is not None:
            setup.begin[1 : dimensions + 1] = begin
            setup.end[1 : dimensions + 1] = end
        if comm is not None:
            setup.has_communicator, setup.communicator = 1, exported.check_mpi(comm)
            if mesh is None and begin is None:
                mesh = (comm.Get_size(), *[1] * (dimensions - 1))
        if mesh is not None:
            setup.mesh[: dimensions + 1] = (1, *mesh)
        setup.threads, setup.seed, setup.memory_limit = threads, seed, bytes_of(memory_limit)
        self.extents, self.samples, self._setup, self._comm = extents, samples, setup, comm
        self._lock = threading.RLock()  # a library's model takes one call at a time
        self._calls = 0
        self._adopt(exported)

    def _adopt(self, exported):
        handle = ctypes.c_void_p()
        self.exported, self.about = exported, exported.about
        self._check(exported.functions["create"](ctypes.byref(handle), ctypes.byref(self._setup)))
        self._handle = handle
        self._end = weakref.finalize(self, exported.functions["destroy"], handle)
        self.dtype = numpy.dtype(_abi.NAMES[self.about.type])
        self._outputs, self.begins = [], []
        for i in range(self.about.outputs):
            shape, begin = _abi.Array(), (ctypes.c_int64 * 6)()
            self._call("output", i, ctypes.byref(shape), begin)
            self._outputs.append(tuple(shape.extent[: shape.rank]))
            self.begins.append(tuple(begin[: shape.rank]))

    def _check(self, code):
        if code:
            raise Error(self.exported.functions["error"]().decode(), code)

    def _call(self, name, *arguments):
        if not self._end.alive:
            raise Error(f"{name}: this model is closed", 1)
        with self._lock:
            self._check(self.exported.functions[name](self._handle, *arguments))

    # what it holds

    def load(self, path):
        self._call("load", str(path).encode())
        return self

    def save(self, path):
        self._call("save", str(path).encode())

    def close(self):
        """Gives its memory back, before Python would. With MPI: before MPI ends, on all ranks."""
        self._end()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    @property
    def memory(self):
        """Bytes that it holds on this rank."""
        return self.exported.functions["memory"](self._handle)

    def explain(self):
        return self.exported.functions["explain"](self._handle).decode()

    def _tensor(self, which, i):
        name, array = ctypes.c_char_p(), _abi.Array()
        self._call(which, i, ctypes.byref(name), ctypes.byref(array))
        if not array.data:
            return name.value.decode(), None
        shape = tuple(array.extent[: array.rank])
        kind = ctypes.c_float if self.dtype == numpy.float32 else ctypes.c_double
        count = int(numpy.prod(shape, dtype=int))
        flat = numpy.ctypeslib.as_array(ctypes.cast(array.data, ctypes.POINTER(kind)), (max(count, 1),))[:count]
        return name.value.decode(), flat.reshape(shape)

    def parameters(self):
        """{name: array}: the model's own memory, under PyTorch's names. Write alike on all ranks."""
        return dict(self._tensor("parameter", i) for i in range(self.about.parameters))

    def gradients(self):
        """{name: array} of the last vjp, summed over ranks; None for buffers. Valid until the next one."""
        return dict(self._tensor("gradient", i) for i in range(self.about.parameters))

    # what it computes

    def infer(self, *inputs, keep=False, out=None):
        """numpy in and out. A leading sample of extent 1 may be left out. keep: as in training, and vjp() may follow."""
        inputs = [numpy.asarray(x) for x in inputs]
        results = [numpy.empty(shape, self.dtype) for shape in self._outputs] if out is None else list(out)
        given, made = arrays_of(inputs), arrays_of(results, writes=True)
        with self._lock:
            self._calls += 1
            self._call("infer", given, len(inputs), made, len(results), int(keep))
        if out is None and inputs and self.about.input_kind[0] == _abi.FIELD and inputs[0].ndim == self.about.dimensions + 1:
            results = [x[0] if x.shape[0] == 1 else x for x in results]
        return results[0] if len(results) == 1 else tuple(results)

    def vjp(self, *cotangents, wanted=None):
        """After infer(keep=True): gradients of the inputs (None where not wanted); gradients() has the parameters'."""
        kinds = self.about.input_kind[: self.about.inputs]
        shapes = [self._input_shape(i) for i in range(self.about.inputs)]
        results = [
            numpy.zeros(shape, self.dtype) if kind in (_abi.FIELD, _abi.VECTORS) and (wanted is None or wanted[i]) else None
            for i, (kind, shape) in enumerate(zip(kinds, shapes))
        ]
        given = [numpy.asarray(g, self.dtype) for g in cotangents]
        self._call("vjp", arrays_of(given), len(given), arrays_of(results, writes=True), len(results))
        return results[0] if len(results) == 1 else tuple(results)

    def _input_shape(self, i):
        channels = self.about.input_channels[i]
        if self.about.input_kind[i] in (_abi.VECTORS, _abi.VECTOR_INDICES):
            return (self._outputs[0][0], channels)
        return (self._outputs[0][0], channels, *self._owned())

    def _owned(self):
        """This rank's points of the input."""
        n = self.about.dimensions
        if not any(self._setup.mesh):
            return tuple(self._setup.end[d + 1] - self._setup.begin[d + 1] for d in range(n))
        rank, sizes = (self._comm.Get_rank() if self._comm else 0), []
        for d in reversed(range(n)):
            parts = self._setup.mesh[d + 1]
            rank, part = divmod(rank, parts)
            extent = self.extents[d]
            sizes.append(extent // parts + (part < extent % parts))
        return tuple(reversed(sizes))

    def __call__(self, *inputs):
        if any(is_tensor(x) for x in inputs):
            from ._torch import call

            return call(self, inputs)
        return self.infer(*inputs)

    def rollout(self, x, steps):
        """Yields net(x), net(net(x)), ...: each step is an array of its own, and nothing of a step stays."""
        for _ in range(steps):
            x = self(x)
            yield x

    def on(self, dataset, channels, out=None):
        """xarray: see _xarray.on."""
        from ._xarray import on

        return on(self, dataset, channels, out)

    def torch(self):
        """A torch.nn.Module whose parameters are this model's memory: optimisers of torch train it."""
        from ._torch import module

        return module(self)

    def trainer(self, loss=None, optimizer=None, **options):
        """Trains this model: net.trainer("mse", "adamw", lr=1e-3).step(x, label). A model of halogen.compile is compiled
        once more for a loss and an optimiser. Further options: weight_decay, beta1, beta2, eps, momentum, max_norm."""
        return Trainer(self, loss, optimizer, options)


class Trainer:
    def __init__(self, model, loss, optimizer, options):
        if loss is not None or optimizer is not None or not model.about.trains:
            if model.exported.retrain is None:
                if not model.about.trains:
                    raise Error("this library was exported without a loss and an optimiser: export it with them", 1)
            else:
                self._replace(model, model.exported.retrain(loss or "mse", optimizer or "adamw"))
        self.model = model
        for name, value in options.items():
            model._call("set", name.encode(), float(value))

    @staticmethod
    def _replace(model, exported):
        values = {name: array.copy() for name, array in model.parameters().items()}
        model.close()
        model._adopt(exported)
        for name, array in model.parameters().items():
            array[...] = values[name]

    def set(self, **options):
        """lr at any time, others before the first step."""
        for name, value in options.items():
            self.model._call("set", name.encode(), float(value))

    def step(self, inputs, labels, weights=None):
        """Forward, backward, update; returns the loss before it. Several inputs, labels or weights are given in tuples."""
        def listed(x):
            given = x if isinstance(x, (tuple, list)) else (x,)
            return [numpy.asarray(v.detach().cpu().numpy() if is_tensor(v) else v) for v in given]

        inputs, labels, weights = listed(inputs), listed(labels), [] if weights is None else listed(weights)
        loss = ctypes.c_double()
        with self.model._lock:
            self.model._calls += 1
            self.model._call("step", arrays_of(inputs), len(inputs), arrays_of(labels), len(labels), arrays_of(weights),
                             len(weights), ctypes.byref(loss))
        return loss.value
