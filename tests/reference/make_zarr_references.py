#!/usr/bin/env python3
"""make_zarr_references.py FOLDER: writes FOLDER/zarr.json, stores made by zarr-python and xarray, file by file in base64. Their
numbers are those of value(): tests/mpi/io/zarr_files.cpp computes them again.

Needs zarr 3.1.6, xarray 2026.9.0, numcodecs 0.16.6, numpy 2.4.6.
"""
import base64
import json
import pathlib
import sys
import tempfile

import numcodecs
import numpy as np
import xarray
import zarr
from zarr.codecs import BloscCodec, BytesCodec, Crc32cCodec, GzipCodec, ShardingCodec, ZstdCodec

SHAPE, CHUNKS = (2, 5, 7), (1, 3, 4)


def value():
    t, i, j = np.meshgrid(*(np.arange(n) for n in SHAPE), indexing="ij")
    return 35 * t + 7 * i + j - 20


def main():
    with tempfile.TemporaryDirectory() as folder:
        root = pathlib.Path(folder)
        numbers = value()

        def make(name, version, dtype, where="plain", chunks=CHUNKS, fill=0, **more):
            array = zarr.create_array(store=str(root / where), name=name, shape=SHAPE, chunks=chunks, dtype=dtype,
                                      zarr_format=version, fill_value=fill, **more)
            array[...] = numbers.astype(dtype)

        for version in (2, 3):
            where = f"v{version}"
            zarr.create_group(store=str(root / where), zarr_format=version)
            for dtype in ("float32", "float64", "int16", "int8", "int64", "uint8"):
                make(dtype, version, dtype, where, compressors=None, fill=None if version == 2 else 0)
            make("big", version, ">f4" if version == 2 else "float32", where, compressors=None, fill=None if version == 2 else 0,
                 **({} if version == 2 else {"serializer": BytesCodec(endian="big")}))
        v2 = {"zlib": numcodecs.Zlib(), "gzip": numcodecs.GZip(), "zstd": numcodecs.Zstd()}
        for cname in ("lz4", "zstd", "zlib", "blosclz"):
            for shuffle in (0, 1, 2):
                v2[f"blosc_{cname}_{shuffle}"] = numcodecs.Blosc(cname=cname, shuffle=shuffle)
        for name, codec in v2.items():
            make(name, 2, "float32", "v2", compressors=codec, fill=None)
        make("slash", 2, "float32", "v2", compressors=None, fill=None, chunk_key_encoding={"name": "v2", "separator": "/"})
        v3 = {"gzip": [GzipCodec()], "zstd": [ZstdCodec()], "blosc": [BloscCodec(cname="lz4", shuffle="bitshuffle")],
              "crc32c": [Crc32cCodec()], "zstd_crc32c": [ZstdCodec(), Crc32cCodec()]}
        for name, codecs in v3.items():
            make(name, 3, "float32", "v3", compressors=codecs)
        for name, inner, location in (("shards", [ZstdCodec()], "end"), ("shards_start", [], "start")):
            make(name, 3, "float32", "v3", chunks=(2, 6, 8), compressors=None,
                 serializer=ShardingCodec(chunk_shape=CHUNKS, codecs=[BytesCodec(), *inner], index_location=location))
        # chunks and shards that nobody has written, or only in part
        hole = zarr.create_array(store=str(root / "v3"), name="hole", shape=SHAPE, chunks=CHUNKS, dtype="float32",
                                 fill_value=float("nan"))
        hole[0] = numbers[0]
        part = zarr.create_array(store=str(root / "v3"), name="shards_in_part", shape=SHAPE, chunks=(2, 6, 8), dtype="float32",
                                 fill_value=-7, compressors=None,
                                 serializer=ShardingCodec(chunk_shape=CHUNKS, codecs=[BytesCodec(), ZstdCodec()]))
        part[1, :3] = numbers[1, :3]
        # CF, as xarray writes it; a number is missing
        data = 0.5 * numbers + 3.0
        data[1, 2, 3] = np.nan
        fields = xarray.Dataset({"t2m": (("time", "lat", "lon"), data, {"units": "K"})},
                                coords={"lat": np.linspace(-2, 2, 5), "lon": np.arange(7.0), "time": [0, 6]})
        for version in (2, 3):
            for dtype, fill in (("int16", -999), ("float32", np.nan)):
                cf = {"t2m": {"dtype": dtype, "_FillValue": fill, "chunks": CHUNKS}}
                if dtype == "int16":
                    cf["t2m"].update(scale_factor=0.5, add_offset=3.0)
                fields.to_zarr(root / f"cf{version}_{dtype}", zarr_format=version, consolidated=True, encoding=cf)
        # what is not read
        zarr.create_array(store=str(root / "other"), name="complex", shape=SHAPE, chunks=CHUNKS, dtype="complex64")
        zarr.create_array(store=str(root / "other"), name="fortran", shape=SHAPE, chunks=CHUNKS, dtype="float32", zarr_format=2,
                          order="F")
        zarr.create_array(store=str(root / "other"), name="filtered", shape=SHAPE, chunks=CHUNKS, dtype="float32",
                          zarr_format=2, filters=[numcodecs.Delta("<f4")])
        files = {str(path.relative_to(root)): base64.b64encode(path.read_bytes()).decode()
                 for path in sorted(root.rglob("*")) if path.is_file()}
        target = pathlib.Path(sys.argv[1]) / "zarr.json"
        target.write_text(json.dumps(files, indent=0) + "\n")
        print(f"{len(files)} files, {target.stat().st_size} bytes")


if __name__ == "__main__":
    main()
