"""Masks secrets and removes control characters in everything that is printed.

Redaction works on the finished `Diagnosis`, not on the log: a few kilobytes, whatever the log's size.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, cast

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model import Diagnosis
from slurmdoctor.report.redaction.assigned import compiled
from slurmdoctor.report.redaction.secret_kinds import KINDS, Kind, value_span
from slurmdoctor.search.compiled import compiled as kept

Mode = Literal["off", "default", "strict"]

# Fields that hold ids and words of slurmdoctor, never a log's text.
_OWN = frozenset(
    {"id", "family", "rule", "cause", "role", "confidence", "verdict", "exit_class", "advice", "standing", "order"}
)
# Colour, cursor and title sequences: removed.
_SEQUENCE = (
    r"(?:\x1b\[|\x9b)[0-?]{0,64}[ -/]{0,8}[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]{0,4096}(?:\x07|\x1b\\|\x9c)"  # OSC, DCS
    r"|\x1b[ -/]{0,4}[0-~]"
)
# C0 but tab and line feed, DEL, C1, bidi marks and overrides, line separators, interlinear and tag
# characters, the byte order mark, lone surrogates: each run becomes one replacement character.
_CONTROL = (
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff\U000e0000-\U000e007f]+"
)


def disarm(text: str) -> str:
    """The text without anything that could control a terminal, or reorder or hide what is read."""
    if text.isprintable():  # at the speed of C, and true of nearly every line
        return text
    text = compiled(_SEQUENCE).sub("", text.replace("\r\n", "\n"))
    return compiled(_CONTROL).sub("\ufffd", text)


def one_line(text: str) -> str:
    """A text of any origin as one harmless line."""
    return re.sub(r"[\s\ufffd]+", lambda gap: "\ufffd" if "\ufffd" in gap[0] else " ", disarm(text)).strip()


def redact(text: str, mode: Mode = "default") -> str:
    """One text, disarmed and (by default) with its secrets masked."""
    return Redactor(mode).text(text)


class Redactor:
    """Masks a name in the same way wherever it appears in one diagnosis."""

    def __init__(self, mode: Mode = "default") -> None:
        self.mode = mode
        if mode == "strict":
            from slurmdoctor.report.redaction.pseudonyms import Pseudonyms

            self._names = Pseudonyms()

    def text(self, text: str) -> str:
        """One text of any kind."""
        return self._mask(text, _kinds_for(text)) if self.mode != "strict" else self._strict([text])[0]

    def apply(self, diagnosis: Diagnosis) -> Diagnosis:
        """The same diagnosis, safe to print and to post. Nothing is rebuilt where nothing is to be masked."""
        strings: list[str] = []

        def collect(text: str) -> str:
            strings.append(text)
            return text

        _rebuilt(diagnosis, collect)
        kinds = _kinds_for("\n".join(strings)) if self.mode != "off" else ()
        if self.mode == "strict":
            self._names.know(_hosts_of(diagnosis))
            changed = dict(zip(strings, self._strict(strings), strict=True))
        else:
            changed = {text: new for text in strings if (new := self._mask(text, kinds)) != text}
        if not changed:
            return diagnosis
        return cast(Diagnosis, _rebuilt(diagnosis, lambda text: changed.get(text, text)))

    def _mask(self, text: str, kinds: tuple[Kind, ...]) -> str:
        text = disarm(text)
        return _masked(text, kinds) if self.mode != "off" and kinds else text

    def _strict(self, texts: list[str]) -> list[str]:
        masked = [_masked(disarm(text), _kinds_for(text)) for text in texts]
        for text in masked:  # learn from all first, so that a name is masked also where nothing marks it as one
            self._names.learn(text)
        return [self._names.mask(text) for text in masked]


def _kinds_for(text: str) -> tuple[Kind, ...]:
    """The kinds whose literals occur at all: for ordinary text few, and the rest need not be compiled."""
    lower = text.lower()
    return tuple(kind for kind in KINDS if any(gate in lower for gate in kind.gates))


def _masked(text: str, kinds: tuple[Kind, ...]) -> str:
    lower = text.lower()
    for kind in kinds:
        if any(gate in lower for gate in kind.gates):
            text = kept(kind.pattern).sub(partial(_mask_one, kind), text)
    return text


def _mask_one(kind: Kind, match: re.Match[str]) -> str:
    whole = match[0]
    start, end = value_span(match)
    if match.string.startswith("[redacted", start) or (kind.check is not None and not kind.check(match)):
        return whole
    return f"{match.string[match.start() : start]}[redacted {kind.name}]{match.string[end : match.end()]}"


# ── every string of a diagnosis ───────────────────────────────────────────────────────────────────────


def _rebuilt(value: Any, change: Callable[[str], str]) -> Any:
    """The value with every string changed that holds a log's text."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Struct):
        new = {
            name: _rebuilt(old, change)
            for name in value.__struct_fields__
            if not (isinstance(old := getattr(value, name), str) and name in _OWN)
        }
        if isinstance(new.get("traceback"), tuple):
            new["traceback"] = _key_blocks(new["traceback"])
        return replace(value, **new)
    if isinstance(value, Mapping):
        return {_rebuilt(key, change): _rebuilt(item, change) for key, item in value.items()}
    if isinstance(value, tuple | list | set | frozenset):
        return type(value)(_rebuilt(item, change) for item in value)
    return value


def _key_blocks(lines: tuple[str, ...]) -> tuple[str, ...]:
    """Removes the base64 lines of a private key below its masked first line."""
    if not any("[redacted private key]" in line for line in lines):
        return lines
    kept: list[str] = []
    inside = False
    for line in lines:
        if inside and re.fullmatch(r"[\s|>]*(?:[A-Za-z0-9+/=]+|-----END .*)\s*", line):
            inside = "-----END" not in line
            continue
        inside = line.rstrip().endswith("[redacted private key]")
        kept.append(line)
    return tuple(kept)


def _hosts_of(diagnosis: Diagnosis) -> Iterator[str]:
    if diagnosis.first_failure and diagnosis.first_failure.node:
        yield diagnosis.first_failure.node
    yield from (item.node for item in diagnosis.evidence if item.node)
    if diagnosis.retry:
        yield from diagnosis.retry.exclude_nodes
    for name in ("node", "master_addr", "host"):
        if isinstance(value := diagnosis.facts.get(name), str):
            yield value
