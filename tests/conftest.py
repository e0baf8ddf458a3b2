"""What all tests need: signals as a terminal gives them, and verdicts that are held whole."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from cases import decisions


def pytest_configure() -> None:
    """Hear signals that a shell in the background (SIGINT) or nohup (SIGHUP) ignores for us and all our children; read no config of who runs the tests."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    os.environ["SLURMDOCTOR_CONFIG"] = os.devnull


@pytest.fixture
def golden_verdicts(request: pytest.FixtureRequest, snapshot: SnapshotAssertion, tmp_path: Path) -> Iterator[None]:
    """What each verdict decides that the test asks for is held, beside what the test itself promises. `make bless` writes them anew."""
    if request.node.get_closest_marker("slow"):
        yield
        return
    with decisions() as found:
        yield
    assert [one.replace(f"{tmp_path}/", "") for one in dict.fromkeys(found)] == snapshot
