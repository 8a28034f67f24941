"""The structures of halogen/model.h."""
import ctypes

ABI = 1
TYPES = {"float32": 0, "float64": 1, "int32": 2, "int64": 3}
NAMES = {number: name for name, number in TYPES.items()}
FIELD, INDICES, VECTORS, VECTOR_INDICES = range(4)


class Array(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("type", ctypes.c_int32), ("rank", ctypes.c_int32),
                ("extent", ctypes.c_int64 * 6), ("stride", ctypes.c_int64 * 6)]


class Setup(ctypes.Structure):
    _fields_ = [("size", ctypes.c_int32), ("abi", ctypes.c_int32), ("has_communicator", ctypes.c_int32),
                ("communicator", ctypes.c_int32), ("extent", ctypes.c_int64 * 4), ("begin", ctypes.c_int64 * 4),
                ("end", ctypes.c_int64 * 4), ("mesh", ctypes.c_int32 * 4), ("threads", ctypes.c_int32),
                ("reserved", ctypes.c_int32), ("memory_limit", ctypes.c_int64), ("seed", ctypes.c_int64)]


class About(ctypes.Structure):
    _fields_ = [(name, ctypes.c_int32) for name in ("abi", "type", "dimensions", "inputs", "outputs", "parameters")]
    _fields_ += [(name, ctypes.c_int32 * 4) for name in ("input_kind", "input_channels", "output_kind",
                                                         "output_channels", "label_kind", "label_channels")]
    _fields_ += [("trains", ctypes.c_int32), ("threads", ctypes.c_int32), ("exported", ctypes.c_char_p),
                 ("optimizer", ctypes.c_char_p), ("mpi", ctypes.c_char_p)]


def declare(library, prefix):
    """The functions of a library by their names without prefix, with their types."""
    model, array, code = ctypes.c_void_p, ctypes.POINTER(Array), ctypes.c_int32
    number, text, numbers = ctypes.c_int32, ctypes.c_char_p, ctypes.POINTER(ctypes.c_int64)
    types = {
        "about": (ctypes.POINTER(About), []),
        "create": (code, [ctypes.POINTER(model), ctypes.POINTER(Setup)]),
        "load": (code, [model, text]),
        "save": (code, [model, text]),
        "output": (code, [model, number, array, numbers]),
        "infer": (code, [model, array, number, array, number, number]),
        "vjp": (code, [model, array, number, array, number]),
        "parameter": (code, [model, number, ctypes.POINTER(text), array]),
        "gradient": (code, [model, number, ctypes.POINTER(text), array]),
        "set": (code, [model, text, ctypes.c_double]),
        "step": (code, [model, array, number, array, number, array, number, ctypes.POINTER(ctypes.c_double)]),
        "memory": (ctypes.c_int64, [model]),
        "explain": (text, [model]),
        "error": (text, []),
        "destroy": (None, [model]),
    }
    functions = {}
    for name, (result, arguments) in types.items():
        function = getattr(library, f"{prefix}_{name}")
        function.restype, function.argtypes = result, arguments
        functions[name] = function
    return functions
