"""Runs first in slurmdoctor.pyz (`make zipapp`): a Python whose compiled parts the file does not hold gets one line, not a traceback."""

import pathlib
import re
import sys

held = [file.name for file in pathlib.Path(globals()["site_packages"], "msgspec").glob("_core.cpython-*")]
if held and not any(f"cpython-{sys.version_info[0]}{sys.version_info[1]}-" in name for name in held):
    built = re.sub(r".*cpython-(\d)(\d+)-.*", r"python\1.\2", held[0])
    sys.exit(f"slurmdoctor.pyz holds parts compiled for {built}: run it as `{built} slurmdoctor.pyz`")
