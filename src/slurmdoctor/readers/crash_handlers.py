"""Reads the signal that a crash handler caught before it printed its stack."""

from __future__ import annotations

from slurmdoctor.model.exits import ProcessExit, from_signal, from_words, signal_name
from slurmdoctor.search.compiled import lazy

_HANDLER = lazy(
    r"Caught signal (?P<number>\d+) \(|Caught error: [A-Z][\w ]+ \(signal (?P<number>\d+)\)|Signal: [A-Z][\w ]+ \((?P<number>\d+)\)|^\*\*\* (?P<name>SIG[A-Z]+) (?:\(@0x[0-9a-f]+\) )?received "
    r"|^Fatal Python error: (?P<words>Segmentation fault|Bus error|Aborted|Floating point exception|Illegal instruction)"
)


def from_handler(text: str) -> ProcessExit | None:
    """The signal that a crash handler caught, which it hands on when it has printed its stack: CPython's, abseil's, glog's, UCX's, Open MPI's."""
    found = _HANDLER.search(text)
    if found is None:
        return None
    if found["words"]:
        return from_words(found["words"])
    return from_signal(found["name"] or signal_name(int(found["number"])))
