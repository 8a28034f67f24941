"""Writes down where Halogen is: HALOGEN_ROOT (an installed prefix, or the sources), else the folder above this one."""
import os
import pathlib

from setuptools import setup
from setuptools.command.build_py import build_py


class Build(build_py):
    def run(self):
        super().run()
        root = os.environ.get("HALOGEN_ROOT") or str(pathlib.Path(__file__).resolve().parent.parent)
        paths = os.environ.get("CMAKE_PREFIX_PATH", "")
        where = pathlib.Path(self.build_lib) / "halogen" / "_where.py"
        where.write_text(f"ROOT = {root!r}\nPREFIX_PATH = {paths!r}\n")


setup(cmdclass={"build_py": Build})
