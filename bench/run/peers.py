"""Virtual environments of the peers, installed outside the source tree on first use.

HALOGEN_CACHE (where they are installed), HALOGEN_PEERS (an environment with torch and numpy, in place of that one).
"""

import functools
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "peers"


def say(text):
    print(f"bench: {text}", file=sys.stderr, flush=True)


def can_import(python, modules):
    return subprocess.run([str(python), "-c", f"import {modules}"], capture_output=True).returncode == 0


def environment(name, requirements, modules, above=None):
    """Its interpreter, or None where it cannot be had. `above`: an interpreter whose packages it sees as well."""
    folder = pathlib.Path(os.environ.get("HALOGEN_CACHE") or pathlib.Path.home() / ".cache" / "halogen") / name
    python = folder / "bin" / "python"
    if python.exists() and can_import(python, modules):
        return str(python)
    say(f"installing {' '.join(requirements)} into {folder} (some minutes)")
    try:
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True, capture_output=True, text=True)
        if above:
            paths = "import sysconfig; print(sysconfig.get_path('purelib'))"
            find = lambda p: subprocess.run([str(p), "-c", paths], check=True, capture_output=True, text=True).stdout
            pathlib.Path(find(python).strip(), "packages_above.pth").write_text(find(above))
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements],
                       check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        say(f"that failed: {error} {(getattr(error, 'stderr', '') or '')[-500:]}")
        return None
    return str(python) if can_import(python, modules) else None


@functools.cache
def torch():
    given = os.environ.get("HALOGEN_PEERS")
    if not given:
        return environment("peers", ["torch==2.15.0", "numpy", "xarray==2026.9.0"], "numpy, torch, xarray")
    python = pathlib.Path(given) / "bin" / "python"
    if python.exists() and can_import(python, "numpy, torch"):
        return str(python)
    say(f"{given} has no Python with torch and numpy: no peer")
    return None


@functools.cache
def torch_with_files():
    """PyTorch and safetensors: what ./dev fuzz layers compares with."""
    if torch() is None or can_import(torch(), "safetensors.torch"):
        return torch()
    return environment("peers-files", ["safetensors==0.8.0"], "safetensors.torch", torch())


@functools.cache
def physicsnemo():
    if torch() is None:
        return None
    return environment("peers-physicsnemo", ["nvidia-physicsnemo==2.2.2"], "physicsnemo.domain_parallel", torch())


@functools.cache
def matplotlib():
    return environment("peers-plot", ["matplotlib"], "matplotlib")
