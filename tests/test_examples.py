"""examples/: helpers for submitit and Lightning that put the verdict into the exception, run with the real packages."""

import ast
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

EXAMPLES = Path(__file__).parents[1] / "examples"


def load(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(EXAMPLES))
    return importlib.import_module(name)


def package(name: str) -> Any:
    """A package that is large: absent is fine, but where CI has installed it."""
    return (
        importlib.import_module(name) if os.environ.get("SLURMDOCTOR_REQUIRE_EXAMPLES") else pytest.importorskip(name)
    )


def verdict_of(error: BaseException) -> str:
    """What was put into an exception."""
    return "\n".join(error.__notes__) if sys.version_info >= (3, 11) else str(error)


@pytest.mark.parametrize("name", ["lightning_callback", "submitit_helper", "slack_bot"])
def test_an_example_imports_nothing_internal(name: str) -> None:
    imports = [
        node for node in ast.walk(ast.parse((EXAMPLES / f"{name}.py").read_text())) if isinstance(node, ast.ImportFrom)
    ]
    ours = [node for node in imports if (node.module or "").startswith("slurmdoctor")]
    assert [node.module for node in ours] == ["slurmdoctor"]
    public = importlib.import_module("slurmdoctor").__all__
    assert {alias.name for node in ours for alias in node.names} <= set(public)


def fails() -> None:
    print("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB", flush=True)
    raise RuntimeError("stopped")


def dies() -> None:
    print("loading a batch", flush=True)
    os.kill(os.getpid(), 11)


@pytest.mark.parametrize(
    ("job", "said"), [(fails, "✗ rank 3 ran out of GPU memory"), (dies, "? the log does not show whether or why")]
)
def test_submitit_s_error_says_why(job: Any, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit, cloudpickle = map(importlib.import_module, ("submitit", "cloudpickle"))
    helper = load("submitit_helper", monkeypatch)
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # the job cannot import these tests
    executor = submitit.AutoExecutor(folder=tmp_path, cluster="local")
    executor.update_parameters(timeout_min=2)
    sent = executor.submit(job)
    with pytest.raises(submitit.core.utils.UncompletedJobError) as error:
        helper.result(sent)
    assert verdict_of(error.value).startswith(said)
    assert str(tmp_path) in str(error.value)


def test_submitit_s_results_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    submitit = importlib.import_module("submitit")
    helper = load("submitit_helper", monkeypatch)
    executor = submitit.AutoExecutor(folder=tmp_path, cluster="local")
    executor.update_parameters(timeout_min=2, tasks_per_node=2)
    assert helper.result(executor.submit(len, "four")) == [4, 4]


def test_an_error_s_own_words_are_never_lost(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever slurmdoctor meets, the job's error comes through."""
    helper = load("submitit_helper", monkeypatch)
    error = RuntimeError("the job's own words")
    helper.explain(error, object())
    assert "the job's own words" in str(error)
    assert "slurmdoctor: " in verdict_of(error)


@pytest.mark.slow
def test_lightning_s_exception_says_which_rank_failed_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package("torch")
    lightning = package("lightning.pytorch")
    demos = importlib.import_module("lightning.pytorch.demos.boring_classes")
    helper = load("lightning_callback", monkeypatch)
    monkeypatch.setenv("PATH", str(tmp_path))  # no Slurm

    def step(self: Any, batch: Any, batch_idx: int) -> Any:
        return {"loss": {"batch": batch}["input_ids"]}

    model = type("Fails", (demos.BoringModel,), {"training_step": step})

    def trained(*logs: str) -> str:
        trainer = lightning.Trainer(
            callbacks=[helper.Verdict(*logs)], max_steps=1, accelerator="cpu", logger=False,
            enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False,
        )  # fmt: skip
        with pytest.raises(KeyError, match="input_ids") as error:
            trainer.fit(model())
        return verdict_of(error.value)

    alone = trained()
    assert alone.startswith("✗ rank 0 raised a Python exception")
    assert "input_ids" in alone
    log = tmp_path / "slurm-4711.out"
    log.write_text("[rank3]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB\n")
    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    assert "input_ids" in trained()
    assert "rank 3 ran out of GPU memory" in trained(str(log))
