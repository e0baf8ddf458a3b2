"""What all tests need: signals as a terminal gives them."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Hear SIGINT also where a shell started us in the background, which ignores it for us and all our children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
