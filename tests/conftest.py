"""What all tests need: signals as a terminal gives them."""

from __future__ import annotations

import signal


def pytest_configure() -> None:
    """Hear signals that a shell in the background (SIGINT) or nohup (SIGHUP) ignores for us and all our children."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
