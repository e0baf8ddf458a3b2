"""The library: what it takes and gives, silently, from many threads, with its rules loaded once."""

import inspect
import io
import json
import pickle
import re
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest

import slurmdoctor
from slurmdoctor import Diagnosis, LogNotFoundError, LogText, UserError, diagnose, diagnose_job, diagnose_text
from slurmdoctor.knowledge import folders, load

OOM = "step 1\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
TEXTS = (
    OOM,
    "[rank5]: KeyError: 'weight'\nsrun: error: n1: task 5: Exited with exit code 1\n",
    "bash: line 1: torchrun: command not found\n",
    "step 1 loss 2.0\nstep 2 loss 1.9\n",
    "```\n" + OOM + "```\n",
    "\0\x1b[31m" * 50 + "\n",
)


def test_what_is_public() -> None:
    functions = ["diagnose", "diagnose_job", "diagnose_jobs", "diagnose_text"]
    public = dir(slurmdoctor)
    assert public == ["Diagnosis", "LogNotFoundError", "LogText", "UserError", "__version__", *functions]
    assert all(inspect.getdoc(getattr(slurmdoctor, name)) for name in public)
    with pytest.raises(AttributeError):
        getattr(slurmdoctor, "nothing")  # noqa: B009


def test_typed_and_documented() -> None:
    assert (Path(slurmdoctor.__file__).parent / "py.typed").exists()
    signature = inspect.signature(diagnose)
    assert signature.return_annotation == "Diagnosis"
    assert not any(p.annotation is inspect.Parameter.empty for p in signature.parameters.values())
    assert {"rules", "exit_status", "redact"} <= set(signature.parameters)
    assert all(inspect.getdoc(thing) for thing in (slurmdoctor, Diagnosis.to_dict, Diagnosis.to_markdown))
    assert all(name in (diagnose.__doc__ or "") for name in ("rules", "exit_status", "redact", "UserError"))


def test_text_bytes_paths_and_folders_are_one(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(OOM)
    data = OOM.encode()
    texts = (OOM, data, bytearray(data), memoryview(data))
    for job in (*texts, str(log), log, [log], [str(log)], (log,), tmp_path, str(tmp_path / "*.log")):
        found = diagnose(job)  # type: ignore[arg-type]
        assert (found.cause.id, found.first_failure.rank) == ("cuda-oom", 3)


LINES = {
    "[rank3]: KeyError: 'x'": "python-error",
    "[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB": "cuda-oom",
    "RuntimeError: CUDA out of memory": "cuda-oom",
    "/usr/bin/python: No module named train": "module-not-found",
    "srun: error: n1: task 5: Exited with exit code 1": "exit-code",
}


@pytest.mark.parametrize("line", LINES)
def test_a_line_of_a_log_is_text(line: str) -> None:
    for text in (line, line + "\n", line.encode(), [LogText(line)]):
        assert diagnose(text).cause.id == LINES[line]
    assert diagnose_text(line) == diagnose(line)


@pytest.mark.parametrize(
    "name", ["missing.log", "4711", "logs/", "~/job.out", "/scratch/my jobs/slurm-1.out", "my job.log", "slurm-*.out"]
)
def test_a_path_that_is_not_there_raises(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for kind in (LogNotFoundError, UserError, FileNotFoundError):  # whichever of them somebody expects
        with pytest.raises(kind, match=re.escape(name)):
            diagnose(name)
    with pytest.raises(LogNotFoundError, match="diagnose_text") as error:
        diagnose(name)
    assert ("diagnose_job" in str(error.value)) is (name == "4711")
    for paths in (Path(name), [name]):
        with pytest.raises(LogNotFoundError) as error:
            diagnose(paths)
        assert "diagnose_text" not in str(error.value)
    assert diagnose_text(name).verdict == "unknown"


def test_a_file_s_name_goes_before_its_look_as_text(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a b", "rank: 3", "Killed"):
        Path(name).write_text(OOM)
        assert diagnose(name).first_failure.file == name


def test_an_open_file_is_read(tmp_path: Path) -> None:
    (tmp_path / "job.log").write_text(OOM)
    with (tmp_path / "job.log").open() as text, (tmp_path / "job.log").open("rb") as data:
        for file in (text, data, io.StringIO(OOM), io.BytesIO(OOM.encode())):
            assert diagnose(file).cause.id == "cuda-oom"


def test_logs_that_are_in_no_file_have_names_and_may_be_cut() -> None:
    end = "\n" + OOM.replace("step 1", "step 9")
    found = diagnose([LogText("step 1\n", "a.out"), LogText(b"step 1\n", "b.out", end=end.encode(), left_out=10**9)])
    assert (found.cause.id, found.first_failure.file, found.first_failure.line) == ("cuda-oom", "b.out", None)
    assert any("left out" in note or "not read" in note for note in found.coverage.notes)


def test_paths_and_texts_are_one_job(tmp_path: Path) -> None:
    (tmp_path / "job.out").write_text("step 1\nstep 2\n")
    found = diagnose([tmp_path / "job.out", LogText(OOM, "this rank")])
    assert (found.cause.id, found.first_failure.file, found.coverage.files) == ("cuda-oom", "this rank", 2)


@pytest.mark.parametrize("job", ["", "\n", b"", "\0", "\ud800", " " * 10_000, "x" * 5000])
def test_nothing_to_read_is_no_error(job: str | bytes) -> None:
    assert diagnose(job).verdict == "unknown"


def test_bad_input_is_a_user_error(tmp_path: Path) -> None:
    for job in ([tmp_path / "none.log"], [tmp_path], str(tmp_path / "*.log")):
        with pytest.raises(UserError) as error:
            diagnose(job)
        assert "\n" not in str(error.value)
        assert error.value.mend
    with pytest.raises(UserError):
        diagnose(OOM, rules=[tmp_path / "none"])


def test_what_comes_back_is_frozen_and_goes_out_as_json_and_markdown() -> None:
    schema = json.loads((Path(slurmdoctor.__file__).parent / "report" / "schema.json").read_text())
    for text in TEXTS:
        found = diagnose(text)
        with pytest.raises(AttributeError):
            found.verdict = "failed"  # type: ignore[misc]
        jsonschema.validate(json.loads(json.dumps(found.to_dict())), schema)
        assert 0 < len(found.to_markdown()) <= 1500


def test_a_healthy_log_needs_no_checks() -> None:
    found, failed = diagnose("step 1 loss 2.0\nTraining completed successfully.\n"), diagnose(OOM)
    assert (found.verdict, found.failed, bool(found.cause)) == ("no-failure", False, False)
    assert (found.cause.id, found.cause.confidence, found.first_failure.rank) == (None, None, None)
    assert set(found.to_dict()["cause"].values()) == {None}
    assert (failed.failed, bool(failed.cause)) == (True, True)


def test_every_report_is_a_method() -> None:
    found = diagnose(OOM)
    assert str(found) == found.to_text(width=100).rstrip("\n")
    assert str(found).startswith("✗ rank 3 ran out of GPU memory")
    assert max(map(len, found.to_text(width=60).splitlines())) <= 60
    assert "\x1b[" in found.to_text(colour=True)
    assert "\x1b[" not in found.to_text()
    assert json.loads(found.to_json()) == found.to_dict()
    assert found.to_html().startswith("<!DOCTYPE html>")
    assert found.to_slack()["text"].startswith("✗ rank 3")
    assert "channel" not in found.to_slack()
    assert repr(found) == "Diagnosis('failed', cause='cuda-oom', rank=3, confidence='high')"
    assert repr(diagnose("")) == "Diagnosis('unknown')"
    assert "&lt;script&gt;" in (shown := diagnose("[rank3]: KeyError: '<script>'")._repr_html_())
    assert "<script>" not in shown


def test_verdicts_and_errors_pass_between_processes() -> None:
    found = diagnose(OOM)
    assert pickle.loads(pickle.dumps(found)) == found
    for job, rules in (("none.log", []), ("/dev/zero", []), (OOM, ["none"])):
        with pytest.raises(UserError) as error:
            diagnose(job, rules=rules)
        again = pickle.loads(pickle.dumps(error.value))
        assert (type(again), str(again)) == (type(error.value), str(error.value))


def test_a_job_is_found_by_its_number(tmp_path: Path) -> None:
    """Where Slurm's commands are missing, the named logs are read anyway."""
    (tmp_path / "slurm-4711.out").write_text(OOM)
    for number in (4711, "4711"):
        found = diagnose_job(number, tmp_path / "slurm-4711.out")
        assert (found.cause.id, found.first_failure.rank) == ("cuda-oom", 3)
    with pytest.raises(UserError, match="job id"):
        diagnose_job("../etc", tmp_path)


def test_silent(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for text in TEXTS:
        diagnose(text).to_markdown()
    with pytest.raises(UserError):
        diagnose([tmp_path / "none"])
    assert capfd.readouterr() == ("", "")


def test_many_threads_say_the_same() -> None:
    want = [diagnose(text).to_dict() for text in TEXTS]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda n: diagnose(TEXTS[n % len(TEXTS)]).to_dict(), range(8 * len(TEXTS))))
    assert got == want * 8
    assert load(folders([])) is load(folders([]))  # rules are loaded once


def test_the_first_call_may_come_from_many_threads_and_leaves_no_logging_and_no_signals() -> None:
    """Nothing is loaded yet, and all want it at once."""
    program = (
        "import logging, signal, slurmdoctor\n"
        "from concurrent.futures import ThreadPoolExecutor\n"
        "before = [signal.getsignal(s) for s in signal.valid_signals()]\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        f"    said = set(pool.map(lambda _: slurmdoctor.diagnose({OOM!r}).cause.id, range(8)))\n"
        "assert said == {'cuda-oom'}, said\n"
        "assert [signal.getsignal(s) for s in signal.valid_signals()] == before\n"
        "assert not logging.getLogger().handlers\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("page", ["README.md", "docs/chat.md", "docs/python.md"])
def test_the_python_shown_in_the_docs_runs(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "job.log").write_text(OOM)
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", (Path(__file__).parents[1] / page).read_text(), re.S)
    assert blocks
    for block in blocks:
        exec(compile(block, page, "exec"), {})
        assert "cuda-oom" in capsys.readouterr().out


WRONG: list[tuple[Callable[[], object], type[Exception], str]] = [
    (lambda: diagnose(OOM, redact="secret"), UserError, "'secret'"),
    (lambda: diagnose(OOM, rules="nowhere"), UserError, "nowhere, which is not there"),
    (lambda: diagnose(OOM, exit_status="1"), TypeError, "exit_status is the job's own number"),  # type: ignore[arg-type]
    (lambda: diagnose_text(None), TypeError, "None is no text"),  # type: ignore[arg-type]
    (lambda: diagnose_text(7), TypeError, "7 is no text"),  # type: ignore[arg-type]
    *((lambda job=job: diagnose(job), TypeError, "diagnose_job") for job in (4711, None, [4711], object())),
]


@pytest.mark.parametrize(("call", "error", "says"), WRONG)
def test_a_wrong_argument_is_named(call: Callable[[], object], error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        call()
