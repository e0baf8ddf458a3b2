"""Reads the lines above and below those that a report quotes, whoever wrote them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from slurmdoctor.model import Event, Surroundings
from slurmdoctor.ranks import Lines

_MOST = 4
"""Lines of which the surroundings are read."""
_LINES = 4
"""Above, and below."""
_REACH = 16 * 1024
"""Bytes that are read on each side: of a log with longer lines fewer are shown."""
_LONGEST = 2000
"""Characters of a line."""
_KEY_ENDS = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY")
_KEY_BEGINS = "-----BEGIN "
_BLOB = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{60,}={0,2}$")


def surroundings(
    evidence: Iterable[Event], lines: Lines, numbers: Mapping[tuple[int, int], int | None]
) -> tuple[Surroundings, ...]:
    """What stands around the first lines of the evidence, but for those that only followed."""
    proofs = [event.hit.place for number, event in enumerate(evidence) if number == 0 or event.role != "cascade"]
    return tuple(_around(*place, lines, numbers[place]) for place in list(dict.fromkeys(proofs))[:_MOST])


def _around(source: int, offset: int, lines: Lines, number: int | None) -> Surroundings:
    low = max(0, offset - _REACH)
    above = lines.text(source, low, offset - low)
    pieces = above.split(b"\n")
    # what stands before the quoted text in its own line, and a line of which the beginning was not read
    kept = pieces[bool(low) : -1]
    after = lines.text(source, offset, _REACH).split(b"\n")
    ends = offset + _REACH >= lines.sources[source].length
    below = after[1:] if ends and after[-1] else after[1:-1]
    origin = lines.sources[source]
    return Surroundings(origin.name, number, _shown(kept[-_LINES:]), _shown(below[:_LINES]), not origin.numbers)


def _shown(raw: list[bytes]) -> tuple[str, ...]:
    """The lines as a terminal leaves them: of a progress bar its last state."""
    texts = (line.rstrip(b"\r").rpartition(b"\r")[2].decode("utf-8", "replace") for line in raw)
    return _without_key([_BLOB.sub("…", text.rstrip()[:_LONGEST]) for text in texts])


def _without_key(texts: list[str]) -> tuple[str, ...]:
    """Nothing of a private key whose beginning stands too far above to be known as one."""
    for at, text in enumerate(texts):
        if _KEY_BEGINS in text:
            break
        if found := _KEY_ENDS.search(text):
            return (*("…" for _ in range(at)), text[found.start() :], *texts[at + 1 :])
    return tuple(texts)
