"""The library: what it takes and gives, silently, from many threads, with its rules loaded once."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import pytest

import slurmdoctor
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.knowledge import folders, load
from slurmdoctor.model import UserError

OOM = "step 1\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n"
TEXTS = (
    OOM,
    "[rank5]: KeyError: 'weight'\nsrun: error: n1: task 5: Exited with exit code 1\n",
    "bash: line 1: torchrun: command not found\n",
    "step 1 loss 2.0\nstep 2 loss 1.9\n",
    "```\n" + OOM + "```\n",
    "\0\x1b[31m" * 50 + "\n",
)


def cause(found: Diagnosis) -> str | None:
    return found.cause.id if found.cause else None


def test_what_is_public() -> None:
    assert slurmdoctor.__all__ == ["Diagnosis", "UserError", "__version__", "diagnose"]
    for name in slurmdoctor.__all__:
        assert getattr(slurmdoctor, name) is not None
    with pytest.raises(AttributeError):
        slurmdoctor.nothing  # noqa: B018
    assert (Path(slurmdoctor.__file__).parent / "py.typed").exists()


def test_typed_and_documented() -> None:
    signature = inspect.signature(diagnose)
    assert signature.return_annotation == "Diagnosis"
    assert not any(p.annotation is inspect.Parameter.empty for p in signature.parameters.values())
    assert {"rules", "exit_status", "redact"} <= set(signature.parameters)
    for thing in (slurmdoctor, diagnose, Diagnosis, Diagnosis.to_dict, Diagnosis.to_markdown, UserError):
        assert inspect.getdoc(thing)
    for name in ("rules", "exit_status", "redact", "UserError"):
        assert name in (diagnose.__doc__ or "")


def test_text_bytes_paths_and_folders_are_one(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    log.write_text(OOM)
    for job in (OOM, OOM.encode(), str(log), log, [log], [str(log)], (log,), tmp_path, str(tmp_path / "*.log")):
        found = diagnose(job)
        assert cause(found) == "cuda-oom"
        assert found.first_failure is not None
        assert found.first_failure.rank == 3


def test_text_of_one_line_is_text_where_it_names_no_file() -> None:
    assert (
        cause(diagnose("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")) == "cuda-oom"
    )
    assert cause(diagnose("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB")) == "cuda-oom"


@pytest.mark.parametrize("job", ["", "\n", b"", "\0", "\ud800", " " * 10_000])
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


def test_silent(capfd: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for text in TEXTS:
        diagnose(text).to_markdown()
    with pytest.raises(UserError):
        diagnose([tmp_path / "none"])
    assert capfd.readouterr() == ("", "")


def test_no_logging_and_no_signals_of_its_own() -> None:
    program = (
        "import logging, signal, slurmdoctor\n"
        "before = [signal.getsignal(s) for s in signal.valid_signals()]\n"
        f"slurmdoctor.diagnose({OOM!r})\n"
        "assert [signal.getsignal(s) for s in signal.valid_signals()] == before\n"
        "assert not logging.getLogger().handlers\n"
    )
    done = subprocess.run([sys.executable, "-W", "error", "-c", program], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_many_threads_say_the_same() -> None:
    want = [diagnose(text).to_dict() for text in TEXTS]
    with ThreadPoolExecutor(8) as pool:
        got = list(pool.map(lambda n: diagnose(TEXTS[n % len(TEXTS)]).to_dict(), range(8 * len(TEXTS))))
    assert got == want * 8


def test_the_first_call_may_come_from_many_threads() -> None:
    """Nothing is loaded yet, and all want it at once."""
    program = (
        "from concurrent.futures import ThreadPoolExecutor\n"
        "import slurmdoctor\n"
        f"text = {OOM!r}\n"
        "with ThreadPoolExecutor(8) as pool:\n"
        "    said = set(pool.map(lambda _: slurmdoctor.diagnose(text).cause.id, range(8)))\n"
        "assert said == {'cuda-oom'}, said\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_rules_are_loaded_once() -> None:
    diagnose(OOM)
    assert load(folders([])) is load(folders([]))


def test_strict_and_off() -> None:
    text = OOM + "srun: error: tucana17: task 3: Exited with exit code 1\n# /home/kim/x hf_" + "aB3dE" * 7 + "\n"
    assert "tucana17" in str(diagnose(text).to_dict())
    assert "tucana17" not in str(diagnose(text, redact="strict").to_dict())


@pytest.mark.parametrize("page", ["README.md", "docs/chat.md"])
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
