"""Where rule files lie: ours, the site's, the user's, and those named on the command line.

Paths are texts here: a start does not wait for `pathlib`, which takes a fortieth of it.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterable
from typing import TypeAlias

from slurmdoctor.model import UserError

APath: TypeAlias = "str | os.PathLike[str]"
SITE = "/etc/slurmdoctor/rules.d"
VARIABLE = "SLURMDOCTOR_RULES"
LINT = "lint"
"""The folder of checks of batch scripts: another format (`slurmdoctor.slurm.script.checks`)."""

LARGEST = 1024 * 1024
"""Bytes of a rule file."""
_TRUTH = "truth.yaml"
"""The label of a case, which may lie beside rules."""
_MOST = 50_000
"""Entries of a folder of rules: the root of a file system may be named by mistake."""
_DEEPEST = 20


def builtin() -> str:
    """Our own rules: inside the wheel, or beside `src` in a clone (an editable install has no copy)."""
    package = os.path.realpath(__file__).rsplit("/", 2)[0]
    for folder in (f"{package}/rules", f"{package.rsplit('/', 2)[0]}/rules"):
        if os.path.isfile(f"{folder}/formats.yaml"):  # noqa: PTH113
            return folder
    raise UserError("slurmdoctor's own rules are missing", "install slurmdoctor again, as you did the first time")


def folders(extra: Iterable[APath] = ()) -> tuple[str, ...]:
    """All rule folders in the order of reading: what comes later overrides what came before."""
    found = [builtin(), *(folder for folder in (SITE, _user()) if os.path.isdir(folder))]  # noqa: PTH112 - never raises
    for name in os.environ.get(VARIABLE, "").split(os.pathsep):
        if name:
            found.append(_named(os.path.expanduser(name), f"{VARIABLE} names"))  # noqa: PTH111
    for path in [os.fspath(one) for one in extra]:
        found.append(_named(path, "--rules names"))
        if not names(path):
            raise UserError(f"--rules names {path}, which holds no rule file", "name a .yaml file, or their folder")
    return tuple(dict.fromkeys(found))


def named_by() -> tuple[str, ...]:
    """What decides which folders the usual ones are, besides what is there."""
    try:
        here = os.getcwd()  # noqa: PTH109 - a path may be relative
    except OSError:
        here = ""
    return (SITE, here, *(os.environ.get(name, "") for name in (VARIABLE, "XDG_CONFIG_HOME", "HOME")))


def names(folder: APath) -> list[str]:
    """The rule files of a folder, in a fixed order. A path to a file gives that file."""
    top = os.fspath(folder)
    if os.path.isfile(top):  # noqa: PTH113
        return [top]
    found = []
    left = _MOST
    for where, inner, here in os.walk(top):
        left -= len(inner) + len(here)
        if left < 0:
            raise UserError(f"{folder} holds more than {_MOST:,} files", "name the folder of the rule files")
        found += [
            f"{where}/{name}"
            for name in here
            if name.endswith((".yaml", ".yml")) and not name.startswith((".", _TRUTH))
        ]
        inner[:] = sorted(name for name in inner if not name.startswith(".") and name != LINT)
        if where.count("/", len(top)) >= _DEEPEST:
            inner.clear()
    return sorted(found, key=lambda name: name.split("/"))


def data_of(path: APath) -> bytes:
    """A rule file's bytes. Raises OSError, also for what is no regular file or larger than one."""
    # a pipe would be waited for, a device read without end
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY)
    try:
        seen = os.fstat(handle)
        if not stat.S_ISREG(seen.st_mode):
            raise OSError(errno.EINVAL, "it is no regular file", str(path))
        if seen.st_size > LARGEST:
            raise OSError(errno.EFBIG, f"it is larger than {LARGEST:,} bytes", str(path))
        data = b""
        while more := os.read(handle, seen.st_size + 1):
            data += more
        return data
    finally:
        os.close(handle)


def doubts(folders: Iterable[APath]) -> list[str]:
    """Sentences on rule files that another user could have written, or could change."""
    found = []
    for folder in folders:
        if folder == builtin():
            continue
        try:
            owners = {0, os.geteuid(), os.stat(folder).st_uid}  # noqa: PTH116
            for path in dict.fromkeys([os.fspath(folder), *names(folder)]):
                seen = os.stat(path)  # noqa: PTH116
                if not stat.S_ISDIR(seen.st_mode) and not stat.S_ISREG(seen.st_mode):
                    continue  # it is not read
                if seen.st_mode & stat.S_IWOTH:
                    found.append(f"every user may write rules into {path}: chmod o-w, or name a folder of your own")
                elif seen.st_uid not in owners:
                    found.append(f"the rules in {path} are another user's than those around them: look into the file")
        except OSError:  # who reads the rules will say so
            continue
    return found


def _user() -> str:
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = configured if configured.startswith("/") else os.path.expanduser("~/.config")  # noqa: PTH111
    return f"{base}/slurmdoctor/rules.d"


def _named(path: str, who: str) -> str:
    if not os.access(path, os.R_OK):
        state = "cannot be read" if os.path.lexists(path) else "is not there"
        raise UserError(f"{who} {path}, which {state}", "name a folder of rule files, or one file")
    return path.rstrip("/") or path
