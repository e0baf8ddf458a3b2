"""The terminal report of telling cases, whole. `make bless` writes them anew."""

from __future__ import annotations

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from cases import Case, cases, printed

TELLING = (
    "agents-cgroup-oom-2n",
    "cuda-oom-r11",
    "default3-nobody-tells",
    "demo-cascade",
    "exit-3-silent-torchrun-r2",
    "node-failed-d6",
    "ok-restarted-once",
    "restarts-then-other-error-r0",
    "table-blames-rank0-for-r1",
    "typo-launcher-127",
    "watchdog-no-progress-r1",
)


class TextFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


@pytest.mark.parametrize("case", [c for c in cases() if c.name in TELLING], ids=lambda case: case.name)
def test_report(case: Case, snapshot: SnapshotAssertion) -> None:
    assert printed(case.folder, [*case.arguments, "--ranks"], "text") == snapshot(extension_class=TextFile)
