"""Reads the signal that a crash handler caught before it printed its stack: `Caught signal 11 (`, `Fatal Python error: Aborted`."""

from __future__ import annotations

from slurmdoctor.knowledge.texts import text
from slurmdoctor.model.exits import ProcessExit, from_signal, from_words, signal_name

_HANDLER = text("crash-handler")


def from_handler(line: str) -> ProcessExit | None:
    """How the process ends: its handler hands the signal on when it has printed the stack."""
    found = _HANDLER.search(line)
    if found is None:
        return None
    if found["words"]:
        return from_words(found["words"])
    signal = found["signal"]
    return from_signal(signal_name(int(signal)) if signal.isdecimal() else signal)
