"""`survey report`, `diff` and `export`: what the terminal, a file and Prometheus are told of a dataset."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from syrupy.assertion import SnapshotAssertion

from answers_examples import BIG, EMPTY, SMALL, hostile, many
from slurmdoctor.report.terminal import Look, cells
from slurmdoctor.survey.answers import Answers
from slurmdoctor.survey.dataset import Progress, write_progress
from slurmdoctor.survey.rows import Row
from slurmdoctor.survey.sections import describe
from slurmdoctor.survey.views import show
from surveyed import dataset, row, survey
from tables import table

EVIL = '\x1b[31mroot\u202e\n# HELP x"\\ token=hf_' + "Ab1" * 12 + "<b>" + "y" * 5000

CALLS = table("survey_calls")
EXAMPLES = {"big": BIG, "small": SMALL, "empty": EMPTY, "many": many(200)}


def a_month() -> list[Row]:
    """A small cluster: a node with a faulty GPU, a user who starts the same mistake again, and healthy jobs."""
    nodes = [f"node{n:02}" for n in range(1, 9)]
    rows = [row(nodes=(name,), hours=20, after=24 * n + 2, user="bob") for name in nodes for n in range(12)]
    eve: dict[str, Any] = {"node": "node03", "nodes": ("node03",), "job_name": "pretrain", "user": "eve"}
    rows += [row("gpu-fault", after=24 * n, ran_on_s=1800.0, **eve) for n in range(6)]
    rows += [row("nan", after=n, job_name="tune", ran_on_s=30.0, partition="debug") for n in range(4)]
    rows += [
        row("python-error", hours=0.2, after=60 * n, last_line=f"solver diverged at step {n}", job_name=f"solve-{n}")
        for n in range(5)
    ]
    rows += [row("time-limit", hours=24, gpus=64, read="no-log"), row(None, read="not-asked", gpus=None)]
    return [replace(one, cluster="lab") for one in (*rows, row(None, verdict="unknown", read="error"))]


@pytest.fixture(scope="module")
def month(tmp_path_factory: pytest.TempPathFactory) -> str:
    return dataset(tmp_path_factory.mktemp("found") / "month", a_month())


def test_the_report_of_a_month(month: str, snapshot: SnapshotAssertion) -> None:
    assert survey("report", month).stdout == snapshot


@pytest.mark.parametrize("name", EXAMPLES)  # by name: pytest would show all of them where one fails
@pytest.mark.parametrize("width", [40, 80, 100, 250])
def test_a_report_fits_the_terminal_and_about_a_page(name: str, width: int) -> None:
    lines = shown(EXAMPLES[name], width).splitlines()
    assert len(lines) <= (84 if width >= 100 else 92 if width >= 80 else 127)
    assert sum(cells(line) > width for line in lines) <= 3  # what is copied


def shown(answers: Answers, width: int = 100) -> str:
    return show(describe(answers), Look(width, False))


@pytest.mark.parametrize("name", ["\x1b[31mred", "a\nb", "\u202egnp", "x" * 5000])
def test_names_of_jobs_and_users_are_harmless(name: str) -> None:
    text = shown(hostile(name))
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f\u202a-\u202e]", text)
    assert len(text) < 17_000
    assert "a\nb" not in text


def test_a_secret_in_a_job_name_is_masked_and_a_tie_has_no_first_cause(tmp_path: Path) -> None:
    name = "run --token hf_" + "Ab1" * 12
    rows = [row(cause, gpus=None, job_name=name, after=n) for cause in ("nan", "hang") for n in (0, 2)]
    folder = dataset(tmp_path, rows)
    for form in ("text", "html"):
        said = survey("report", folder, "--format", form).stdout
        assert ("hf_" in said, "most common cause is" in said) == (False, False)


@pytest.mark.parametrize(("ending", "form"), [("txt", "text"), ("html", "html"), ("json", "json")])
def test_a_report_goes_to_a_file_whose_ending_tells_its_form(
    month: str, tmp_path: Path, ending: str, form: str
) -> None:
    file = tmp_path / f"report.{ending}"
    written, printed = survey("report", month, "-o", file), survey("report", month, "--format", form, COLUMNS="")
    assert (written.code, written.stdout, printed.code) == (0, "", 0)
    assert file.read_text() == printed.stdout


def as_json(*arguments: str) -> dict[str, Any]:
    return dict(json.loads(survey(*arguments, "--format", "json").stdout))


def test_json_is_all_answers_with_a_version(month: str) -> None:
    found = as_json("report", month)
    assert found["schema_version"] == 1
    assert set(found) == {"schema_version", "slurmdoctor", *Answers.__struct_fields__}
    assert found["nodes"]["exclude"] == "#SBATCH --exclude=node03"
    assert found["unknown"]["kinds"][0]["jobs"] == 5


@pytest.mark.parametrize(("options", "said"), CALLS["chosen"])
def test_a_report_is_about_the_jobs_that_are_asked_for(month: str, options: list[str], said: str) -> None:
    found = survey("report", month, *options)
    assert (found.code, said in found.stdout) == (0, True)


@pytest.mark.parametrize(("arguments", "said"), CALLS["wrong-reports"])
def test_a_bad_call_is_one_line_and_status_2(month: str, arguments: list[str], said: str) -> None:
    found = survey(*(one.format(month=month) for one in arguments))
    assert (found.code, found.stderr.count("\n"), found.stdout, said in found.stderr) == (2, 1, "", True)


def test_a_report_of_a_run_that_was_stopped_says_so(tmp_path: Path) -> None:
    folder = dataset(tmp_path, [row("nan")])
    journal = tmp_path / ".run/journal"
    journal.mkdir(parents=True)
    (journal / "1.rows").write_bytes(b"")
    for form, listed, finished, said in (
        ("text", True, False, "was stopped after 114 of 900 jobs, or"),
        ("html", True, False, "was stopped after 114 of 900 jobs, or"),
        ("json", False, False, "was stopped after 114 of 900 jobs found so far, or"),
        ("text", True, True, "without the newest rows"),
    ):
        write_progress(journal.parent, Progress(900, 114, listed, finished))
        found = " ".join(survey("report", folder, "--format", form).stdout.split())
        assert (said in found, "was stopped after" in found) == (True, not finished)


def before_and_after(tmp_path: Path, more: int) -> tuple[str, str]:
    was = [row("nan" if n < 10 else None, hours=2, after=n) for n in range(400)]
    now = [row("nan" if n < 10 + more else None, hours=2, after=n) for n in range(400)]
    for side, share in ((was, 0), (now, 30)):
        for n in range(share):
            side[-1 - n] = row("gpu-fault", hours=2, after=24 * n)
    return dataset(tmp_path / "was", lettered(was)), dataset(tmp_path / "now", lettered(now))


def lettered(rows: list[Row]) -> list[Row]:
    """Jobs of many users: each is its own trouble."""
    return [replace(one, user=f"user{n}") for n, one in enumerate(rows)]


@pytest.mark.parametrize(("more", "word"), [(0, "chance"), (2, "chance"), (40, "worse")])
def test_diff_says_which_changes_exceed_chance(tmp_path: Path, more: int, word: str) -> None:
    found = as_json("diff", *before_and_after(tmp_path, more))
    trends = {one["what"]: (one["trend"], one["before"], one["before_of"], one["after"]) for one in found["causes"]}
    assert trends["nan"] == (word, 10, 400, 10 + more)
    assert trends["gpu-fault"][0] == "new"
    assert found["all"]["trend"] == "worse"
    assert [one["trend"] for one in found["sizes"]] == ["worse"]


def test_diff_at_the_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, snapshot: SnapshotAssertion) -> None:
    before_and_after(tmp_path, 40)
    monkeypatch.chdir(tmp_path)
    assert survey("diff", "was", "now").stdout == snapshot


def test_other_rules_are_said_to_be_a_reason(tmp_path: Path) -> None:
    first, second = (dataset(tmp_path / one, [row("nan", rules_version=one)]) for one in ("r1", "r2"))
    for other in (first, second):
        assert ("read with different rules" in survey("diff", first, other).stdout) is (other == second)


def test_one_users_sweep_is_no_trend(tmp_path: Path) -> None:
    was = dataset(tmp_path / "was", lettered([row() for _ in range(200)]))
    sweep = [row("nan", job_name=f"sweep-{n}", after=n / 100) for n in range(100)]
    now = dataset(tmp_path / "now", lettered([row() for _ in range(200)]) + sweep)
    nan = as_json("diff", was, now)["causes"][0]
    assert (nan["after"], nan["trend"]) == (100, "chance")


def test_the_same_rows_differ_in_nothing_and_a_day_divides_a_dataset(month: str) -> None:
    found = as_json("diff", month, month)
    assert {one["trend"] for one in (*found["causes"], *found["sizes"], found["all"])} == {"chance"}
    assert (found["nodes_new"], found["nodes_gone"]) == ([], [])
    divided = as_json("diff", month, "--at", "2026-10-08", "--user", "eve")
    assert (divided["before"]["jobs"], divided["after"]["jobs"]) == (3, 3)


def test_a_node_that_the_other_side_does_not_test_is_not_gone(month: str, tmp_path: Path) -> None:
    other = dataset(tmp_path / "other", [row(nodes=(f"node{n:02}",)) for n in range(4, 9)])
    found = survey("diff", month, other)
    assert "before, not tested after: node03" in found.stdout
    assert "no longer" not in found.stdout
    assert "after, not tested before: node03" in survey("diff", other, month).stdout


SAMPLE = re.compile(
    r'slurmdoctor_survey_[a-z_]+(\{[a-z]+="(?:[^"\\\n]|\\[\\"n])*"(?:,[a-z]+="(?:[^"\\\n]|\\[\\"n])*")*\})? [0-9.e+-]+'
)


def test_metrics_are_in_the_form_of_a_textfile(tmp_path: Path) -> None:
    folder = dataset(tmp_path / "d", [*a_month(), row("nan", partition=EVIL, cluster=EVIL), row('site/a"b\\c\nd')])
    file = tmp_path / "slurmdoctor.prom"
    found = survey("export", folder, "--prometheus", "-o", str(file))
    assert (found.code, found.stdout, list(tmp_path.glob("*part*"))) == (0, "", [])
    text = file.read_text()
    names = re.findall(r"^# TYPE (\S+) (?:gauge|counter)$", text, re.M)
    assert len(names) == len(set(names)) == len(re.findall("^# HELP ", text, re.M))
    for line in text.splitlines():
        assert line.startswith(("# HELP ", "# TYPE ")) or SAMPLE.fullmatch(line), line
    assert 'slurmdoctor_survey_jobs{outcome="failed"} 18' in text
    assert 'slurmdoctor_survey_failures_total{cluster="lab",partition="gpu",cause="gpu-fault"} 6' in text
    assert 'slurmdoctor_survey_gpu_seconds_lost{cluster="lab",partition="gpu",cause="gpu-fault"} 172800' in text
    assert not re.search("hours|minutes", text.replace("metrics", ""))
    assert r'cause="site/a\"b\\c\nd"' in text


def test_metrics_name_no_job_and_users_only_where_asked(month: str) -> None:
    plain, by_user = (survey("export", month, "--prometheus", *more).stdout for more in ([], ["--by-user"]))
    assert not re.search(r"eve|bob|job_id|pretrain|node03", plain)
    assert 'slurmdoctor_survey_user_failures{user="eve"} 6' in by_user


def test_what_is_not_known_is_neither_zero_nor_a_sample(tmp_path: Path) -> None:
    folder = dataset(tmp_path, [row("nan", gpus=None, after=30 * n, job_name="t") for n in range(3)])
    text, metrics = survey("report", folder).stdout, survey("export", folder, "--prometheus").stdout
    assert re.search(r"^2026-10-07 .* not known +1 nan$", text, re.M)
    assert re.search(r"^t +ada +nan +3 +not known", text, re.M)
    assert "How many GPU hours they lost is not known" in text
    assert not re.search("gpu_seconds_lost|survey_gpu_seconds ", metrics)
