"""What all tests need: signals as a terminal gives them, and verdicts that are held whole."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from syrupy.assertion import SnapshotAssertion

from slurmdoctor.report.compose import compose
from slurmdoctor.report.json import to_dict


def pytest_configure() -> None:
    """Hear signals that a shell in the background (SIGINT) or nohup (SIGHUP) ignores for us and all our children; read no config of who runs the tests."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ["SLURMDOCTOR_CONFIG"] = os.devnull


@pytest.fixture
def golden_verdicts(request: pytest.FixtureRequest, snapshot: SnapshotAssertion, tmp_path: Path) -> Iterator[None]:
    """Each verdict that the test asks for is held whole, beside what the test itself promises. `make bless` writes them anew."""
    if request.node.get_closest_marker("slow"):
        yield
        return
    found: list[str] = []

    def composed(*stages: Any) -> Any:
        diagnosis = compose(*stages)
        verdict = {**to_dict(diagnosis), "slurmdoctor": None}
        found.append(json.dumps(verdict, indent=1, ensure_ascii=False).replace(f"{tmp_path}/", ""))
        return diagnosis

    with patch("slurmdoctor.pipeline.compose", composed):
        yield
    assert list(dict.fromkeys(found)) == snapshot
