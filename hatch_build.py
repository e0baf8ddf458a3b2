"""Compiles the scan's innermost loop for the wheel, where there is a C compiler. Without one, Python does its work.

SLURMDOCTOR_COMPILE=no leaves it out; =require fails where it cannot be compiled, as the wheels that we publish must.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/slurmdoctor/search/native/module.c"
MODULE = "slurmdoctor.search._native"
STABLE = 0x030A0000
"""The oldest Python whose stable interface it uses: one file serves that one and all later ones."""


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled module, and the tag that says for which machines the wheel is."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get("SLURMDOCTOR_COMPILE", "yes")
        # a Python without the lock that it relies on has no stable interface either
        if wanted == "no" or self.target_name != "wheel" or sysconfig.get_config_var("Py_GIL_DISABLED"):
            return
        built = _compiled(Path(self.root))
        if built is None:
            if wanted == "require":
                raise SystemExit(f"{SOURCE} could not be compiled; the compiler's words stand above")
            print(f"slurmdoctor: {SOURCE} was not compiled: slow on gigabytes without [hyperscan]", file=sys.stderr)
            return
        build_data["pure_python"] = False
        platform = sysconfig.get_platform().replace("-", "_").replace(".", "_")
        build_data["tag"] = f"cp310-abi3-{platform}"
        target = f"slurmdoctor/search/{built.name}"
        if version == "editable":
            # an editable install reads the clone itself
            (Path(self.root) / "src" / target).unlink(missing_ok=True)
            (Path(self.root) / "src" / target).write_bytes(built.read_bytes())
        else:
            build_data["force_include"][str(built)] = target


def _compiled(root: Path) -> Path | None:
    """The compiled module; None where it could not be compiled."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    extension = Extension(
        MODULE,
        [str(root / SOURCE)],
        define_macros=[("Py_LIMITED_API", hex(STABLE)), ("_GNU_SOURCE", None)],
        extra_compile_args=["-O3"],
        py_limited_api=True,
    )
    command = build_ext(Distribution({"name": "slurmdoctor", "ext_modules": [extension]}))
    command.build_lib = command.build_temp = str(root / "build")
    command.force = True
    try:
        command.ensure_finalized()
        command.run()
    except Exception as error:  # whatever is wrong with the compiler: without one it works, too
        print(error, file=sys.stderr)
        return None
    return Path(command.get_ext_fullpath(MODULE))
