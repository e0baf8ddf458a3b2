"""Some twenty reports, whole: the terminal's of telling cases, and the other formats of a few. `make bless` writes them anew."""

import pytest
from syrupy.assertion import SnapshotAssertion
from syrupy.extensions.single_file import SingleFileSnapshotExtension, WriteMode

from cases import Case, cases, printed
from slurmdoctor import __version__

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


FORMS = {"json": ("cuda-oom-r11", "demo-cascade", "node-failed-d6"), "markdown": ("cuda-oom-r11", "demo-cascade", "ok-restarted-once"), "slack": ("demo-cascade", "typo-launcher-127")}  # fmt: skip


class TextFile(SingleFileSnapshotExtension):
    _write_mode = WriteMode.TEXT
    file_extension = "txt"


def case_of(name: str) -> Case:
    return next(case for case in cases() if case.name == name)


@pytest.mark.parametrize("name", TELLING)
def test_report(name: str, snapshot: SnapshotAssertion) -> None:
    case = case_of(name)
    assert printed(case.folder, [*case.arguments, "--ranks"], "text") == snapshot(extension_class=TextFile)


@pytest.mark.parametrize(("form", "name"), [(form, name) for form, names in FORMS.items() for name in names])
def test_other_form(form: str, name: str, snapshot: SnapshotAssertion) -> None:
    case = case_of(name)
    text = printed(case.folder, case.arguments, form).replace(__version__, "VERSION")
    assert text == snapshot(extension_class=TextFile)
