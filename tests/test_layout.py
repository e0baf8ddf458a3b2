"""What the terminal report promises of its lines, whatever the log and the width."""

import re

import pytest
from msgspec.structs import replace

from cases import cases, verdict_of
from report_examples import CUDA_OOM, EXIT_CODE, OOM_LINE, SILENT
from slurmdoctor import diagnose
from slurmdoctor.model import Diagnosis, Evidence, FirstFailure, Remedy, Retry
from slurmdoctor.report import text_report as text
from slurmdoctor.report.terminal import cells, wrap_words
from slurmdoctor.report.wording import ONLY_ERROR

COMMAND = "`srun --overlap -w node07 -n1 df -h /scratch/demo`"
FIXES = tuple(
    Remedy(f"{verb} what node07 wrote to /scratch/demo/run_{verb.lower()}.bin; see {COMMAND}.", f"{verb} helps here.")
    for verb in ("Move", "Pack", "Drop", "Hide")
)
FIRST = FirstFailure(
    13, file="job.log", line=8, text="KeyError: 'x'", traceback=('  File "experts.py", line 213, in f',)
)
BARE = replace(CUDA_OOM, first_failure=FIRST, cascade=(), evidence=(), reasons=("first error by time",), fixes=FIXES)


def shown(diagnosis: Diagnosis, width: int = 100) -> list[str]:
    return text.render_text(diagnosis, width=width, colour=False).splitlines()


def fixes(lines: list[str]) -> list[str]:
    """The labels of the fixes: `fix`, or `fix 1`, `2`, `3`."""
    return [line[2:9].strip() for line in lines if re.match(r"  (?:fix  |fix 1|    [2-9]) ", line)]


@pytest.mark.parametrize("width", [40, 60, 80, 100, 140])
@pytest.mark.parametrize("diagnosis", [BARE, CUDA_OOM, SILENT, EXIT_CODE], ids=["bare", "oom", "silent", "exit"])
def test_the_first_fix_is_always_whole(diagnosis: Diagnosis, width: int) -> None:
    reasons = tuple(f"long reason {n}, told in many words" for n in range(40))
    lines = shown(replace(diagnosis, fixes=FIXES, reasons=reasons), width)
    said = " ".join(" ".join(lines).split())
    assert len(lines) <= text.LIMIT
    assert f"{FIXES[0].do} {FIXES[0].why}" in said
    for fix in FIXES[1:3]:  # and the others are whole or not there
        assert fix.do.split()[0] not in said or fix.do in said
    assert fixes(lines) in (["fix"], ["fix 1", "2"], ["fix 1", "2", "3"])


def test_what_gives_way_first_is_said_last() -> None:
    """Frames, then the second line of evidence, the reasons of fixes 2 and 3, fix 3, fix 2."""
    parts = {
        "frames": "experts.py:213", "second": "job 7 is over", "why 3": "Drop helps", "why 2": "Pack helps",
        "fix 3": "run_drop", "fix 2": "run_pack", "then": "timed out", "why 1": "Move helps", "fix 1": "run_move",
    }  # fmt: skip
    second = Evidence("job.log", 9, "job 7 is over", None, None, None, "r", "c", "confirmation")
    gone: list[str] = []
    for length in range(12):
        cascade = tuple(replace(item, title="timed out") for item in CUDA_OOM.cascade[:1])
        reasons = tuple(f"{n} {'w' * 60}" for n in range(length))
        said = "\n".join(shown(replace(BARE, evidence=(second,), cascade=cascade, reasons=reasons), 100))
        gone += [part for part, words in parts.items() if words not in said and part not in gone]
    assert len(gone) > 4
    assert gone == [part for part in parts if part in gone]
    assert not {"fix 1", "why 1", "then"} & {*gone}


def test_a_request_is_left_out_before_its_command_is_cut() -> None:
    row = "sacct -j 77 -o JobID,State,ExitCode,NodeList"
    assert any(line.endswith(f"how each step ended: {row}") for line in shown(EXIT_CODE, 80))
    assert any(line.strip().endswith(row) for line in shown(EXIT_CODE, 58)), "the command alone where both do not fit"
    assert not any("sacct" in line for line in shown(EXIT_CODE, 48))


@pytest.mark.parametrize("width", [20, 33, 47, 51, 52, 53, 54, 80, 119])
def test_a_command_stands_on_one_line_where_it_fits(width: int) -> None:
    said = f"Look at the disk with {COMMAND}, then at `dmesg -T`, then go on."
    lines = wrap_words(said, width)
    assert max(map(cells, lines)) <= width
    for command in (COMMAND, "`dmesg -T`"):
        assert any(command in line for line in lines) or cells(command) > width
    assert "".join("".join(lines).split()) == "".join(said.split())


def test_no_row_says_what_another_says() -> None:
    disk = Remedy("Free space: `srun -w n7 df -h /data`.")
    asks = replace(BARE, fixes=(disk,), retry=Retry("after-fix", ""), reasons=(ONLY_ERROR,))
    asks = replace(asks, verify=('Look: `srun -w n7 bash -c "df -h /data; df -i"`.',))
    assert not {"retry", "why", "check"} & {line.split()[0] for line in shown(asks) if line.strip()}


@pytest.mark.parametrize("width", [60, 80, 100])
def test_the_first_reason_is_never_cut(width: int) -> None:
    proof = "at SeqNum 76009 rank 4 waits in a barrier while 7 other ranks wait in an allreduce " * 3
    report = " ".join(line.strip() for line in shown(replace(BARE, reasons=(proof, "more " * 99)), width))
    assert " ".join(proof.split()) in report.replace("\n", " ")


def test_a_second_line_shows_what_it_needs_of_its_place() -> None:
    second = Evidence("job.log", 9, "srun: error: node07: task 3: Killed", None, None, None, "r", "c", "confirmation")
    same = replace(BARE, fixes=(), evidence=(second,))
    assert "  :9 │ srun: error: node07: task 3: Killed" in shown(same)
    other = replace(BARE, fixes=(), evidence=(replace(second, file="logs/of/many/ranks/job.err"),))
    assert "  logs/of/many/ranks/job.err:9 │ srun: error: node07: task 3: Killed" in shown(other)
    long = replace(second, file="logs/of/many/ranks/job.err", text="said " * 16 + "in the end")
    lines = shown(replace(BARE, fixes=(), evidence=(long,)))
    assert lines[lines.index("  logs/of/many/ranks/job.err:9") + 1] == f"  │ {long.text}"


def test_a_second_line_is_not_the_first_one_again() -> None:
    again = Evidence("job.log", 9, f"7: {FIRST.text}", None, None, None, "r", "c", "root")
    assert not any(":9" in line for line in shown(replace(BARE, fixes=(), evidence=(again,))))


@pytest.mark.parametrize(
    ("said", "kept", "gone"),
    [
        ("['python', '-u', 'main.py', " + "'--flag', 'value', " * 20 + "] exits with return code = -9", "return code = -9", ""),
        ("[proxy:0:0] HYDU_create_process (launch.c:825): " + "x/" * 40 + ": execvp error on file " + "/scratch" * 11
         + " (Permission denied)", "… execvp error on file", "HYDU_create"),
        (OOM_LINE + " Of the allocated memory 76 GiB is allocated by PyTorch." * 4, "Tried to allocate 2.00 GiB", ""),
    ],
)  # fmt: skip
def test_a_long_quote_keeps_what_tells(said: str, kept: str, gone: str) -> None:
    found = diagnose(
        f'Traceback (most recent call last):\n  File "a.py", line 3, in f\n{said}\n' if "OutOf" in said else said
    )
    quoted = " ".join(line[4:] for line in shown(found, 80) if line.startswith("  │ "))
    assert kept in quoted
    assert not gone or gone not in quoted
    assert "telling" not in found.to_dict()["first_failure"]


@pytest.mark.parametrize("name", [case.name for case in cases()][::4])
def test_every_case_keeps_the_promises_at_every_width(name: str) -> None:
    """No line over the width, no more than 15, numbers without gaps; a fix, a command and a request whole or not there."""
    found = verdict_of(name)
    for width in (40, 60, 80, 140):
        lines = shown(found, width)
        assert len(lines) <= text.LIMIT
        assert max(map(cells, lines)) <= width
        assert fixes(lines) in ([], ["fix"], ["fix 1", "2"], ["fix 1", "2", "3"])
        said = "".join("".join(lines).split()).replace("`.", "`")  # a full stop is left out before a command is broken
        whole = ["".join(fix.do.split()).replace("`.", "`").rstrip(".") in said for fix in found.fixes[:3]]
        assert whole[:1] in ([], [True])
        assert len(fixes(lines)) == sum(whole)
        label = ""
        for line in lines:
            label = line[2:9].strip() or label if line[:3] != "  │" else "quote"
            if label[:3] in {"fix", "1", "2", "3", "nex", "che"}:
                assert not line.endswith("…")
        for command in (c for fix in found.fixes[:3] for c in re.findall(r"`[^`]+`", fix.do)):
            shown_at_all = "".join(command.split()) in said
            assert cells(command) > width - 9 or not shown_at_all or any(command in line for line in lines)


def test_a_path_is_shortened_by_whole_folders() -> None:
    path = "/scratch/demo/runs/a-rather-long-name-of-a-run-that-failed-at-night/logs/rank_3.log"
    placed = replace(BARE, first_failure=replace(FIRST, file=path))
    name = "a-rather-long-name-of-a-run-that-failed-at-night"
    assert shown(placed, 100)[1] == f"  {path}:8"
    assert shown(placed, 80)[1] == f"  …/demo/runs/{name}/logs/rank_3.log:8"
    assert shown(placed, 60)[1] == "  …/logs/rank_3.log:8"
    timed = replace(BARE, first_failure=replace(FIRST, file=path, time="2026-11-20T12:01:03+08:00"))
    assert shown(timed, 90)[1] == f"  …/{name}/logs/rank_3.log:8  12:01:03+08:00"
