"""Compiles the C with sanitizers, and holds it to its Python twin: the properties of test_native.py on many inputs.

`python tests/fuzz_native.py --inputs 2000 --seed 1`; with `-p fuzz_native` pytest uses the module that SLURMDOCTOR_NATIVE names.
"""

import argparse
import importlib.util
import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

from hypothesis import settings

HERE = Path(__file__).parent
SOURCE = HERE.parent / "src" / "slurmdoctor" / "search" / "native" / "module.c"
STRICT = ("-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror", "-D_GNU_SOURCE", "-DPy_LIMITED_API=0x030A0000")
"""How the sources have to compile, by any compiler."""
_SANITIZERS = (
    "-fsanitize=address,undefined",
    "-fno-sanitize-recover=all",
    "-fno-omit-frame-pointer",
    "-O1",
    "-g",
    "-DPORTABLE",
)


def compile_with(compiler: str, *options: str, to: Path | None = None) -> str:
    """What the compiler has to say against the sources, or against the machine that it compiles for; empty where nothing."""
    include = [f"-I{sysconfig.get_paths()['include']}"]
    made = ["-shared", "-fPIC", "-o", str(to)] if to else ["-fsyntax-only"]
    done = subprocess.run(
        [compiler, *STRICT, *options, *include, *made, str(SOURCE)], capture_output=True, text=True, check=False
    )
    return done.stderr if done.returncode else ""


def pytest_configure() -> None:
    """Use the sanitized module, and try as many inputs as are asked for."""
    name = "slurmdoctor.search._native"
    spec = importlib.util.spec_from_file_location(name, os.environ["SLURMDOCTOR_NATIVE"])
    assert spec is not None
    assert spec.loader is not None
    made = sys.modules[name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    import slurmdoctor.search

    vars(slurmdoctor.search)["_native"] = made
    settings.register_profile("many", max_examples=int(os.environ["SLURMDOCTOR_INPUTS"]), deadline=None, database=None)
    settings.load_profile("many")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--inputs", type=int, default=2000, help="of each property")
    parser.add_argument("--seed", type=int, default=1)
    given = parser.parse_args()
    for compiler in ("gcc", "clang", "aarch64-linux-gnu-gcc"):
        wrong = compile_with(compiler) if shutil.which(compiler) else ""
        print(f"{compiler}: {'not here' if not shutil.which(compiler) else wrong or 'no warning'}", flush=True)
        if wrong:
            return 1
    with tempfile.TemporaryDirectory() as folder:
        module = Path(folder) / "_native.so"
        compiler = os.environ.get("CC", "gcc")
        if wrong := compile_with(compiler, *_SANITIZERS, to=module):
            print(wrong)
            return 1
        runtime = [
            subprocess.run(
                [compiler, f"-print-file-name={name}"], capture_output=True, text=True, check=True
            ).stdout.strip()
            for name in ("libasan.so", "libubsan.so")
        ]
        env = {
            **os.environ,
            "LD_PRELOAD": " ".join(runtime),
            "ASAN_OPTIONS": "detect_leaks=0",  # the interpreter's own are many
            "PYTHONMALLOC": "malloc",
            "PYTHONPATH": str(HERE),
            "SLURMDOCTOR_NATIVE": str(module),
            "SLURMDOCTOR_INPUTS": str(given.inputs),
        }
        tests = [str(HERE / "test_native.py"), "-qs", "-pfuzz_native", "-pno:cacheprovider", "-pno:xdist"]
        done = subprocess.run(
            [sys.executable, "-m", "pytest", *tests, f"--hypothesis-seed={given.seed}", "-k", "not another_version"],
            env=env, check=False,
        )  # fmt: skip
        return done.returncode


if __name__ == "__main__":
    sys.exit(main())
