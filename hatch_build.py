"""Makes for the wheel: the search in C, where there is a C compiler, and the parsed rules, which each user's first start would read from YAML.

Without the one Python does its work, without the other the first start. SLURMDOCTOR_COMPILE=no leaves the loop out; =require fails
where either cannot be made, as the wheels that we publish must.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path
from typing import Any

from hatchling.builders.hooks.plugin.interface import BuildHookInterface

SOURCE = "src/slurmdoctor/search/native/module.c"
MODULE = "slurmdoctor.search._native"
READY = "slurmdoctor/matching/ready"
SAMPLE = """\
 0: [rank0]: Traceback (most recent call last):
 0: [rank0]:   File "/path/to/train.py", line 1, in <module>
 0: [rank0]:     loss = forward_pass(batch)
 0: [rank0]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.
"""
"""A log whose diagnosis compiles also what is made of several patterns: of the labels that may stand behind one another."""
STABLE = 0x030A0000
"""The oldest Python whose stable interface it uses: one file serves that one and all later ones."""


class Compile(BuildHookInterface):  # type: ignore[type-arg]
    """Adds the compiled module, and the tag that says for which machines the wheel is."""

    PLUGIN_NAME = "custom"

    def initialize(self, version: str, build_data: dict[str, Any]) -> None:
        if self.target_name != "wheel":
            return
        self._compile(version, build_data)
        ready = Path(self.root) / ("src" if version == "editable" else "build") / READY
        if not _made_ready(Path(self.root), ready, clone=version == "editable", native=_built(build_data)):
            if os.environ.get("SLURMDOCTOR_COMPILE") == "require":
                raise SystemExit("the rules could not be compiled; why stands above")
            print("slurmdoctor: the rules were not compiled: the first start takes two seconds more", file=sys.stderr)
        elif version != "editable":
            build_data["force_include"][str(ready)] = READY

    def _compile(self, version: str, build_data: dict[str, Any]) -> None:
        wanted = os.environ.get("SLURMDOCTOR_COMPILE", "yes")
        # a Python without the lock that it relies on has no stable interface either
        if wanted == "no" or sysconfig.get_config_var("Py_GIL_DISABLED"):
            return
        built = _compiled(Path(self.root))
        if built is None:
            if wanted == "require":
                raise SystemExit(f"{SOURCE} could not be compiled; the compiler's words stand above")
            print(f"slurmdoctor: {SOURCE} was not compiled: slow on gigabytes", file=sys.stderr)
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


def _built(build_data: dict[str, Any]) -> Path | None:
    """The compiled module that the wheel gets."""
    return next((Path(file) for file in build_data["force_include"] if Path(file).suffix == ".so"), None)


def _made_ready(root: Path, ready: Path, clone: bool, native: Path | None) -> bool:
    """Whether the files of a first start were made: by the program itself, in a copy that lies as the installed one will."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder, "src") if clone else Path(folder)
        # a wheel's compiled search is the one given, not what an editable install left in the clone
        left = ("__pycache__", "ready", *(() if clone else ("*.so",)))
        shutil.copytree(root / "src", base, ignore=shutil.ignore_patterns(*left), dirs_exist_ok=True)
        shutil.copytree(root / "rules", Path(folder, "rules") if clone else base / "slurmdoctor" / "rules")
        if native is not None:
            shutil.copy(native, base / "slurmdoctor" / "search")
        cache = Path(folder, "cache")
        env = {
            "PATH": os.defpath,
            "PYTHONPATH": os.pathsep.join([str(base), *sys.path]),
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        env |= {"HOME": folder, "XDG_CACHE_HOME": str(cache)}
        made_by = "import slurmdoctor; slurmdoctor.diagnose_text({!r}); from slurmdoctor.knowledge.workshop.precompile import precompile; precompile()"
        make = made_by.format(SAMPLE)
        program = [sys.executable, "-c", make]
        done = subprocess.run(program, env=env, cwd=folder, capture_output=True, text=True, check=False)
        shutil.rmtree(ready, ignore_errors=True)
        if done.returncode:
            print(done.stderr, file=sys.stderr)
            return False
        ready.mkdir(parents=True)
        for file in (cache / "slurmdoctor").iterdir():
            (ready / file.name).write_bytes(file.read_bytes())  # for all to read, as the cache's are not
    return True


def _compiled(root: Path) -> Path | None:
    """The compiled module; None where it could not be compiled."""
    from setuptools import Distribution, Extension
    from setuptools.command.build_ext import build_ext

    extension = Extension(
        MODULE,
        [str(root / SOURCE)],
        define_macros=[("Py_LIMITED_API", hex(STABLE)), ("_GNU_SOURCE", None)],
        # without what a debugger reads, which holds the path of the clone: one source makes one file, wherever it is compiled
        extra_compile_args=["-O3", "-g0"],
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
