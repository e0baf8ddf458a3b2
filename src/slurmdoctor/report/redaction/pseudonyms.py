"""`--redact strict`: replaces the names that rules/names.yaml describes, and addresses, by `user-1`, `ip-2`, the same ones throughout."""

from __future__ import annotations

import ipaddress
import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from slurmdoctor.matching import compiled
from slurmdoctor.report.redaction.spans import Span, replaced

if TYPE_CHECKING:
    import regex

_EVERYWHERE = ("user", "host")
"""Names that are replaced wherever they stand, once they are known."""
_SHORT = 4
"""A name of fewer letters is one only where nothing is joined to it."""
_V4 = r"(?<![\w.=-])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])"
_V6 = r"(?<![\w:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\w:.])"
_NO_HOST = frozenset(
    {"localhost", "none", "null", "unknown", "error", "auto", "gpu", "node", "host", "master", "worker"}
)


class Pseudonyms:
    """Gives every name its number in order of appearance."""

    given = r"(?:bucket|folder|group|host|ip|mac|uid|user)-\d+"
    """What a pseudonym looks like: it gets no other one."""

    def __init__(self) -> None:
        self._given: dict[str, dict[str, str]] = defaultdict(dict)

    def new(self, kind: str, name: str) -> str:
        """The pseudonym of a name that has none."""
        return f"{kind}-{len(self._given[kind]) + 1}"

    def know(self, hosts: Iterable[str]) -> None:
        """Names that are hosts for certain."""
        for host in hosts:
            self._name("host", host)

    def learn(self, text: str, found: Sequence[Span]) -> None:
        """Note the users and hosts that were found in this text."""
        for start, end, kind in found:
            if kind.shown in _EVERYWHERE:
                self._name(kind.shown, text[start:end])

    def mask(self, text: str, found: Sequence[Span]) -> str:
        """The text with every name at its place, every learnt name and every address replaced."""
        text = replaced(text, found, lambda start, end, kind: self._name(kind.shown, text[start:end]))
        text = compiled(
            rf"(?<![\w:/])(?:/[\w.+-]{{1,64}}){{1,4}}?(?=/(?:home|[Uu]sers|scratch)/{self.given}(?!\w))"
        ).sub("", text)
        text = compiled(_V4).sub(self._address, text)
        text = compiled(_V6).sub(self._address, text)
        for kind in _EVERYWHERE:
            for name in sorted(self._given[kind], key=len, reverse=True):
                if name in text:
                    joined = r"[\w-]" if kind == "host" or len(name) < _SHORT else "[A-Za-z0-9]"
                    alone = rf"(?:(?<!{joined})|(?<=slurmstepd-)){re.escape(name)}(?!{joined})"
                    text = re.sub(alone, self._given[kind][name], text)
        return text

    def _address(self, match: regex.Match[str]) -> str:
        try:
            address = ipaddress.ip_address(match[0])
        except ValueError:
            return match[0]
        if address.is_loopback or address.is_unspecified or (address.version == 6 and match[0].count(":") < 3):
            return match[0]
        return self._name("ip", match[0])

    def _name(self, kind: str, name: str) -> str:
        if len(name) < 2 or name.lower() in _NO_HOST or compiled(self.given).fullmatch(name):
            return name
        for known in self._given.values():
            if name in known:
                return known[name]
        new = self.new(kind, name)
        self._given[kind][name] = new
        return new
