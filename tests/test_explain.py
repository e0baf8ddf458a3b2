"""`slurmdoctor explain`: the page of a cause, also on the site, and which cause people mean by words, codes, signals, lines of a log."""

from functools import cache
from pathlib import Path

import pytest
from click.testing import CliRunner
from syrupy.assertion import SnapshotAssertion
from website import causes

from cases import one_line, run
from rule_files import cause_file
from slurmdoctor.cli.rules import explain
from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import Cause, Fix, Knowledge, Rule, UserError
from slurmdoctor.report import paint
from slurmdoctor.report.explain import explained, meanings, rows
from tables import table
from test_report_goldens import TextFile

TAPE = Cause(
    id="tape",
    family="storage",
    title="lost the tape library",
    role="root",
    exit_classes=("python-error",),
    explains=frozenset({"sigterm", "peer-lost"}),
    retry="elsewhere",
    summary="The tape library stopped,\nand the loader gave up.\n\nIt happens on Mondays.",
    rules=(
        Rule(
            "tape/loader",
            "tape",
            "root",
            "our loader >= 3",
            ("tape",),
            "tape",
            match=("3: tape\tis gone " + "x" * 200,),
        ),
        Rule("tape/note", "tape", "hint", "our loader", ("tape",), "tape", match=("tape?",)),
    ),
    fixes=(
        Fix(
            "Move {tapes / 2} tapes; write {{0}}.",
            "It has {slots}.",
            {"tapes": True, "ep": False, "tp": "> 1"},
            "https://example.org",
        ),
        Fix("Restart it.", when={"framework": ("nemo", "jax"), "rule": "tape/loader", "seen": "nan"}),
    ),
    verify=("Look at {node}.",),
    falsepositives=("A cleaning day.",),
    references=("https://example.org/tape",),
)
KNOWN = Knowledge(
    {"tape": TAPE, "fire": Cause("fire", "f", "t", "root", (), frozenset({"tape"}), "as-is", "s", (), ())}, (), ()
)


def test_the_page(snapshot: SnapshotAssertion) -> None:
    assert paint(explained("tape", KNOWN, 60)) == snapshot(extension_class=TextFile)


@pytest.mark.parametrize("width", [1, 80, 1000])
def test_every_page_keeps_to_the_width(width: int) -> None:
    known = load((builtin(),))
    for cause in known.causes.values():
        for style, line in rows(cause, known, width):
            longest = max(map(len, line.split()), default=0)  # a path or an address is not cut
            assert style == "bold" or len(line) <= max(40, min(width, 100), longest + 10), line


@pytest.mark.parametrize(
    ("name", "mend"),
    [
        ("segmentaton fault", "did you mean `segmentation fault`?"),
        ("cuda-om", "did you mean `cuda-oom`?"),
        ("zzzzqq", "`slurmdoctor rules list` shows them all"),
    ],
)
def test_an_unknown_name_is_answered_with_the_nearest(name: str, mend: str) -> None:
    with pytest.raises(UserError, match=f"there is no cause `{name}`") as error:
        meanings(name, known())
    assert error.value.mend == mend


def test_the_command_knows_a_sites_causes(tmp_path: Path) -> None:
    (tmp_path / "lost-tape.yaml").write_text(cause_file("site/lost-tape"))
    result = CliRunner().invoke(explain, ["site/lost-tape", "--rules", str(tmp_path)])
    assert "A rank lost the tape library" in result.output


def test_the_site_has_a_page_of_each_cause() -> None:
    assert "| storage | [tape](tape.md) | lost the tape library | 2 |" in causes.index(KNOWN)
    made = causes.page(TAPE, KNOWN)
    assert made.startswith("# tape\n")
    assert "Move &lt;N> tapes" in made
    assert "May be caused by: [fire](fire.md)" in made


MEANT = table("explain_names")


@cache
def known() -> Knowledge:
    return load((builtin(),))


@pytest.mark.parametrize("name", MEANT)
def test_people_mean(name: str) -> None:
    assert {cause.id for cause in meanings(name, known())} == set(MEANT[name])


def test_several_are_a_short_list_that_tells_them_apart() -> None:
    ran = run("explain", "out", "of", "memory")
    first, *rest = ran.stdout.decode().splitlines()
    assert ran.returncode == 0
    assert first == "`out of memory` may mean 2 causes. `slurmdoctor explain cuda-oom` shows the first."
    assert "cuda-oom  ran out of GPU memory" in rest
    assert "host-oom  ran out of host memory" in rest
    assert len(rest) < 12


def test_one_is_its_page() -> None:
    assert run("explain", "address", "in", "use").stdout == run("explain", "address-in-use").stdout


@pytest.mark.parametrize("name", ["zzzzqq", "", "--", "\x1b[2J", "x" * 9999])
def test_nonsense_is_one_line(name: str) -> None:
    one_line(run("explain", "--", name), "there is no cause")
