"""Models of Halogen in Python: compiled once by the C++ compiler, called on numpy, torch and xarray.

    unet = halogen.compile("model.hpp", "UNet<7, 3, 16>")
    net = unet(extents=(721, 1440), weights="unet.safetensors")     # or comm=MPI.COMM_WORLD
    y = net(x)

docs/hosts.md of Halogen tells the whole.
"""
from ._build import CompileError, compile
from ._model import Error, Exported, Model, Trainer

__all__ = ["CompileError", "Error", "Exported", "Model", "Trainer", "compile", "load"]


def load(library, prefix):
    """The model that HALOGEN_EXPORT(prefix, ...) named, of a library that halogen_export of CMake has built."""
    return Exported(library, prefix)
