#!/usr/bin/env python3
"""make_netcdf_references.py FOLDER: netcdf.json, files that netCDF4 and h5py have written, for tests/mpi/io/netcdf_files.cpp.

pip install netCDF4==1.7.5.1.post1 h5py==3.16.0 numpy==2.4.6
Numbers: value(t, i, j) = 35 t + 7 i + j - 20 on 2 x 5 x 7 points. 'missing': the point (1, 2, 3) is missing.
"""
import base64
import json
import pathlib
import sys
import tempfile

import h5py
import netCDF4
import numpy as np

t, i, j = np.meshgrid(np.arange(2), np.arange(5), np.arange(7), indexing="ij")
VALUE = (35 * t + 7 * i + j - 20).astype(np.float64)


def dimensions(file):
    file.createDimension("time", None)
    file.createDimension("y", 5)
    file.createDimension("x", 7)
    time = file.createVariable("time", "f8", ("time",))
    time.units = "hours since 2020-01-01 00:00:00"
    time.calendar = "standard"
    time[:] = [0, 6]


def variable(file, name, kind, **how):
    attributes = how.pop("attributes", {})
    made = file.createVariable(name, kind, ("time", "y", "x"), **how)
    made.set_auto_maskandscale(False)
    for key, value in attributes.items():
        made.setncattr(key, value)
    return made


def packed(file, name, **how):
    """stored = (value - 5) / 0.5 as int16, the point (1, 2, 3) missing."""
    made = variable(file, name, "i2", fill_value=np.int16(-999),
                    attributes={"scale_factor": 0.5, "add_offset": 5.0, "units": "K"}, **how)
    stored = ((VALUE - 5) / 0.5).astype("i2")
    stored[1, 2, 3] = -999
    made[:] = stored


def classic(path, form):
    with netCDF4.Dataset(path, "w", format=form) as file:
        dimensions(file)
        variable(file, "f4", "f4")[:] = VALUE
        variable(file, "f8", "f8")[:] = VALUE
        variable(file, "i4", "i4")[:] = VALUE
        packed(file, "packed")
        # bytes that mean 0 to 255: value + 156
        stored = (VALUE + 156).astype("u1").view("i1")
        variable(file, "unsigned", "i1", attributes={"_Unsigned": "true", "add_offset": -156.0})[:] = stored


def four(path):
    with netCDF4.Dataset(path, "w", format="NETCDF4") as file:
        dimensions(file)
        file.createDimension("two", 2)
        whole = file.createVariable("contiguous", "f4", ("two", "y", "x"), contiguous=True)
        whole[:] = VALUE
        variable(file, "deflate", "f4", zlib=True, shuffle=True, chunksizes=(1, 2, 3))[:] = VALUE
        variable(file, "big", "f8", endian="big", chunksizes=(2, 5, 7))[:] = VALUE
        variable(file, "i8", "i8")[:] = VALUE
        packed(file, "packed", zlib=True, chunksizes=(1, 3, 4))
        two = variable(file, "two_missing", "f4", fill_value=np.float32(1e20), attributes={"missing_value": np.float32(-99)})
        stored = VALUE.copy()
        stored[1, 2, 3], stored[0, 0, 0] = 1e20, -99
        two[:] = stored
        variable(file.createGroup("forecast"), "f4", "f4")[:] = VALUE
        names = file.createVariable("names", str, ("y",))
        for k in range(5):
            names[k] = "station"


def five(path):
    with h5py.File(path, "w") as file:
        file.create_dataset("f4", data=VALUE.astype("f4"))
        file.create_dataset("fields/f8", data=VALUE, chunks=(1, 2, 4), compression="gzip", shuffle=True, fletcher32=True)
        file.create_dataset("big", data=VALUE.astype(">f4"))
        file.create_dataset("half", data=VALUE.astype("f2"))
        file.create_dataset("i1", data=VALUE.astype("i1"))
        file.create_dataset("i4", data=VALUE.astype("i4"))
        packed_set = file.create_dataset("packed", data=((VALUE - 5) / 0.5).astype("i2"))
        packed_set[1, 2, 3] = -999
        packed_set.attrs["scale_factor"] = 0.5
        packed_set.attrs["add_offset"] = 5.0
        packed_set.attrs["_FillValue"] = np.array([-999], "i2")
        packed_set.attrs["units"] = "K"
        file.create_dataset("text", data=np.array([b"a", b"b"]))
        scaled = file.create_dataset("scaled", data=VALUE.astype("f4"))
        for d, name in enumerate(("time", "y", "x")):
            file.create_dataset(name, data=np.arange(VALUE.shape[d], dtype="f8")).make_scale(name)
            scaled.dims[d].attach_scale(file[name])


def main():
    files = {}
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        for name, form in (("classic.nc", "NETCDF3_CLASSIC"), ("offset64.nc", "NETCDF3_64BIT_OFFSET"),
                           ("data64.nc", "NETCDF3_64BIT_DATA")):
            classic(root / name, form)
        four(root / "four.nc")
        five(root / "five.h5")
        for path in sorted(root.iterdir()):
            files[path.name] = base64.b64encode(path.read_bytes()).decode()
    out = pathlib.Path(sys.argv[1]) / "netcdf.json"
    out.write_text(json.dumps(files, indent=0) + "\n")
    print(out, out.stat().st_size, "bytes", {name: len(text) for name, text in files.items()})


if __name__ == "__main__":
    main()
