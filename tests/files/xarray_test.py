#!/usr/bin/env python3
"""xarray_test.py PROGRAM LAUNCHER: what hg::save_zarr, hg::save_netcdf and hg::save_hdf5 write on 4 ranks opens in xarray:
numbers, names, coordinates and attributes. xarray, zarr and netCDF4 live in an environment of their own in the cache, made the first time.
"""
import os
import pathlib
import subprocess
import sys
import tempfile

PACKAGES = ["zarr==3.1.6", "xarray==2026.9.0", "numpy==2.4.6", "numcodecs==0.16.6",
            "netCDF4==1.7.5.1.post1"]
SKIPPED = 77  # as tests/CMakeLists.txt says
CHECK = """
import sys, numpy as np, xarray
expected = np.fromfile(sys.argv[1] + ".raw", "<f4").reshape(3, 2, 9, 7)
for data, names in ((xarray.open_zarr(sys.argv[1], consolidated=True), ("plain", "gzip", "zstd", "blosc", "shards")),
                    (xarray.open_dataset(sys.argv[1] + ".nc", engine="netcdf4"), ("plain", "deflate", "chunks"))):
    for name in names:
        array = data[name]
        assert array.dims == ("time", "channel", "lat", "lon"), (name, array.dims)
        assert array.dtype == np.float32 and np.array_equal(array.values, expected), name
        assert array.attrs["units"] == "K" and array.attrs["long_name"] == name, array.attrs
        assert array.sel(lat=2.0).shape == (3, 2, 7), name
    assert data["lat"].attrs["units"] == "degrees_north"
density = xarray.open_zarr(sys.argv[1], group="fields")["density"]
for array in (density, xarray.open_datatree(sys.argv[1], engine="zarr", consolidated=True)["fields/density"]):
    kept = expected != expected[0, 0, 0, 0]  # its first number is the _FillValue, its second a missing_value
    kept &= expected != expected[0, 0, 0, 1]
    assert not kept.all() and np.array_equal(array.values, np.where(kept, expected, np.nan), equal_nan=True)
    assert np.isnan(array.attrs["valid_max"])
raw = xarray.open_zarr(sys.argv[1], group="fields", mask_and_scale=False)["density"]
assert raw.attrs["_FillValue"] == expected[0, 0, 0, 0], raw.attrs
array = xarray.open_dataset(sys.argv[1] + ".h5", engine="netcdf4", group="fields")["plain"]
assert array.dtype == np.float32 and np.array_equal(array.values, expected) and array.attrs["units"] == "K"
print("10 arrays as xarray reads them")
"""


def environment(cache):
    folder = pathlib.Path(cache) / ("xarray-" + "-".join(package.split("==")[1] for package in PACKAGES))
    python = folder / "bin" / "python"
    if not (folder / ".complete").exists():
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES], check=True)
        (folder / ".complete").touch()
    return python


def main():
    program, launcher = sys.argv[1:]
    cache = os.environ.get("XDG_CACHE_HOME", os.path.expanduser("~/.cache"))
    try:
        python = environment(os.environ.get("HALOGEN_CACHE", os.path.join(cache, "halogen")))
    except subprocess.CalledProcessError as error:
        print(f"skipped: pip cannot install {' '.join(PACKAGES)} here: {error}")
        return SKIPPED
    with tempfile.TemporaryDirectory() as folder:
        store = os.path.join(folder, "written.zarr")
        subprocess.run([*launcher.split(), "4", program, "--test-case=for xarray*"], check=True,
                       env=dict(os.environ, HALOGEN_XARRAY_STORE=store))
        return subprocess.run([str(python), "-c", CHECK, store]).returncode


if __name__ == "__main__":
    sys.exit(main())
