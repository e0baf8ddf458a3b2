"""Lay the corpus out in a folder: `python -m corpus.fetch FOLDER [--batch b1]...`.

Each log is taken with git from its public repository, at the commit that MANIFEST.tsv names, and only that file; its checksum is
compared. What is there already is not fetched again. Exit status 1 where a log could not be had: it is named, and the others are laid out all the same.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from corpus import manifest
from corpus.manifest import LogFile

HOST = "https://github.com"
_PATIENCE = 300
"""Seconds that one call of git may take."""


class FetchError(Exception):
    """A log that could not be had, or is another one than it was."""


def lay_out(folder: Path, logs: Sequence[LogFile], corpus: Path = manifest.FOLDER, host: str = HOST) -> list[str]:
    """Write `logs`, and the truths of their cases, under `folder`; what could not be had, a line each."""
    missing: list[str] = []
    for (repository, commit), wanted in manifest.by_commit(logs).items():
        lacking = [log for log in wanted if not _is_there(folder, log)]
        missing += _fetched(folder, f"{host}/{repository}", commit, lacking) if lacking else []
    for log in logs:
        case = folder / log.batch / log.case
        if case.is_dir():
            shutil.copyfile(manifest.truth(log, corpus), case / "truth.yaml")
    return missing


def _is_there(folder: Path, log: LogFile) -> bool:
    file = folder / log.batch / log.case / log.file
    return file.is_file() and hashlib.sha256(file.read_bytes()).hexdigest() == log.sha256


def _fetched(folder: Path, url: str, commit: str, logs: Sequence[LogFile]) -> list[str]:
    """Fetch `logs` of one commit; those that could not be had, a line each."""
    missing = []
    with tempfile.TemporaryDirectory() as bare:
        try:
            _git(bare, "init", "--quiet", "--bare")
            _git(bare, "remote", "add", "origin", url)
            _git(bare, "fetch", "--quiet", "--depth=1", "--filter=blob:none", "origin", commit)
        except FetchError as error:
            return [f"{log.batch}/{log.case}: {url}: {error}" for log in logs]
        for log in logs:
            try:
                _write(
                    folder / log.batch / log.case / log.file,
                    _checked(_git(bare, "cat-file", "blob", f"{commit}:{log.path}"), log),
                )
            except FetchError as error:
                missing.append(f"{log.batch}/{log.case}: {url}: {log.path}: {error}")
    return missing


def _git(folder: str, *arguments: str) -> bytes:
    # no prompt for a password: a repository that has gone private is a missing one
    environment = {**os.environ, "GIT_TERMINAL_PROMPT": "0", "GIT_LFS_SKIP_SMUDGE": "1"}
    try:
        done = subprocess.run(
            ["git", "-C", folder, *arguments], capture_output=True, env=environment, timeout=_PATIENCE
        )
    except subprocess.TimeoutExpired:
        raise FetchError(f"git did not answer within {_PATIENCE} s") from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip().splitlines()
        raise FetchError(said[-1] if said else f"git ended with status {done.returncode}")
    return done.stdout


def _checked(content: bytes, log: LogFile) -> bytes:
    if hashlib.sha256(content).hexdigest() != log.sha256:
        raise FetchError(f"its {len(content):,} bytes are not the {log.size:,} that were labelled")
    return content


def _write(file: Path, content: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(content)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m corpus.fetch", description="Lay the public corpus of labelled job logs out in a folder."
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--batch", action="append", help="only this batch (may be given again)")
    parser.add_argument("--host", default=HOST, help="where the repositories are (default: %(default)s)")
    given = parser.parse_args(arguments)
    logs = [log for log in manifest.read() if not given.batch or log.batch in given.batch]
    if not logs:
        parser.error("the corpus has no such batch")
    missing = lay_out(given.folder, logs, host=given.host)
    print(f"{len(logs) - len(missing)} of {len(logs)} files in {given.folder}")
    for line in missing:
        print(line, file=sys.stderr)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
