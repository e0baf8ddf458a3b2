"""What all tests need: signals as a terminal gives them, and verdicts that are held whole."""

import os
import signal
from collections.abc import Iterator
from copy import copy
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from syrupy.assertion import SnapshotAssertion

from cases import decisions
from slurmdoctor.knowledge.loading import cache_key
from slurmdoctor.knowledge.rule_reader import LoadedRules

LACKING = [name for name in ("pyarrow", "duckdb", "distributed") if find_spec(name) is None]
"""Packages of the extra `survey` that are not installed: the tests that need them are left out, but for the one of that case."""


class _Lacks(pytest.Module):
    """A file of tests that needs what is not installed."""

    def collect(self) -> list[pytest.Item | pytest.Collector]:
        pytest.skip(f"needs {', '.join(LACKING)}: the extra `survey`", allow_module_level=True)


def pytest_pycollect_makemodule(module_path: Path, parent: pytest.Collector) -> pytest.Module | None:
    """Skip, instead of failing, where an extra lacks."""
    name = module_path.name
    needs = name in ("test_foreign_code.py", "test_browser.py") or name.startswith("test_survey")
    needs = needs and name != "test_survey_extra.py"
    return _Lacks.from_parent(parent, path=module_path) if LACKING and needs else None


def pytest_configure() -> None:
    """Hear signals that a shell in the background (SIGINT) or nohup (SIGHUP) ignores for us and all our children; read no config of who runs the tests."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ["SLURMDOCTOR_CONFIG"] = os.devnull
    setattr(LoadedRules, "add", _add)  # noqa: B010 -- mypy forbids to assign it


_REALLY_ADD = LoadedRules.add
_OURS: dict[str, dict[str, Any]] = {}


def _add(rules: LoadedRules, folder: str | os.PathLike[str], site: bool) -> None:
    """Read our rule files once a process, not again for each folder that a test adds to them: it takes a second."""
    key = "" if site else cache_key((folder,)) or ""
    if key not in _OURS:
        _REALLY_ADD(rules, folder, site)
        if not key or rules.problems:
            return
        _OURS[key] = {name: _branch(value) for name, value in vars(rules).items()}
    vars(rules).update({name: _branch(value) for name, value in _OURS[key].items()})


def _branch(value: Any) -> Any:
    """A container of the same things, to which others can be added."""
    made = copy(value)
    inner = made if isinstance(made, dict) else vars(made) if hasattr(made, "__dict__") else {}
    inner.update({name: copy(one) for name, one in inner.items() if isinstance(one, dict)})
    return made


@pytest.fixture
def golden_verdicts(request: pytest.FixtureRequest, snapshot: SnapshotAssertion, tmp_path: Path) -> Iterator[None]:
    """What each verdict decides that the test asks for is held, beside what the test itself promises. `make bless` writes them anew."""
    if request.node.get_closest_marker("slow"):
        yield
        return
    with decisions() as found:
        yield
    assert [one.replace(f"{tmp_path}/", "") for one in dict.fromkeys(found)] == snapshot
