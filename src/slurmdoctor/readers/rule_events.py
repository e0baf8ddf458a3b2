"""Turns lines that satisfy a rule into events.

What a line only shows of Slurm or a launcher (a script, a trace, a diff, a test's name, a chat) is not its own: they print at a line's
beginning, or right behind what another writer left without a line end.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Any

from msgspec.structs import replace

from slurmdoctor.knowledge import holds, text
from slurmdoctor.matching import captures, lazy
from slurmdoctor.model import Event, Line, Role, Rule, is_rank, number
from slurmdoctor.ranks import Place

HEADER = "Traceback (most recent call last)"
_EXCEPTION = lazy(
    r"^[ `>|]{0,8}(?P<class>(?:[A-Za-z_]\w*\.)*(?P<name>[A-Za-z_]\w*))(?:\([\w.]+\))?(?::\s?(?P<text>.*)|\s*)$"
)
_NAMED_LIKE_ONE = lazy(
    r"(?:Error|Exception|Interrupt|Exit|Iteration|Failure|Timeout|Warning|Unavailable|Refused|Group|NotFound|(?:Invalid|Corrupt)\w{0,64}+)$"
)
TREE = lazy(r"^[ ]*(?:[|+](?:-[-+]*)?[ ]?)+")
"""What an exception group draws before its lines."""


def undecorated(text: str) -> str:
    """The line without an exception group's tree, a quote mark or a paste's backtick before it."""
    return TREE.sub("", text).lstrip(" `>")


def begins_frame(text: str) -> bool:
    """Whether a line begins as a traceback's frame does: `File "train.py", line 3, in main`."""
    return text.lstrip(" |").startswith("File ")


def exception_of(text: str, strict: bool = True) -> tuple[str, str] | None:
    """(class name, message) where a line begins as an exception's own line does.

    With `strict`, the class must be named like an exception, or be a class of a module; without, any name will do.
    """
    found = _EXCEPTION.match(TREE.sub("", text))
    if found is None:
        return None
    named = _NAMED_LIKE_ONE.search(found["name"]) or (
        "." in found["class"] and (found["name"][0].isupper() or found["name"].endswith("error"))
    )
    if not named and (strict or (found["text"] is None and "." not in found["class"])):
        return None
    return found["name"], found["text"] or ""


_LAUNCHER = text("launcher-line")
_QUOTATION = text("quotation")
_LEFT_OPEN = text("left-open-line")
_WHOLE = text("launcher-ending")
_QUOTES = text("quotes-behind")
_RANK = text("rank-label")


def is_quotation(line: Line) -> bool:
    """Whether all of the line shows another one."""
    return _QUOTATION.match(line.text) is not None


def own_words(line: Line) -> str:
    """The line's text up to what it quotes of a launcher; all of it where it quotes nothing."""
    shown = line.text
    found = _LAUNCHER.search(shown)
    if found is None:
        return shown
    above = shown[: found.start()]
    if above:
        whole = _WHOLE.match(shown[found.start() :]) is not None
        own = _LEFT_OPEN.match(above) is not None or (whole and _QUOTES.search(above) is None)
    else:  # no launcher speaks through a rank
        own = _RANK.match(line.label.decode("utf-8", "replace")) is None
    return shown if own and not is_quotation(line) else above


_GROUP_RANK = text("default-group-rank")
"""ProcessGroupNCCL's rank within the default group: the global rank, where nothing shows another group."""


def captures_of(rule: Rule, text: str) -> Mapping[str, str] | None:
    """The rule's captures where it matches this line, else None."""
    if rule.applies_to == "exception":
        for message in _exceptions(text):
            found = captures(rule.regex, message, rule.of_site)
            if found is not None:
                return found
        return None
    if rule.applies_to == "frame" and not begins_frame(text):
        return None
    return captures(rule.regex, text, rule.of_site)


@lru_cache(maxsize=8)  # many rules ask about the same line, one after another
def _exceptions(text: str) -> tuple[str, ...]:
    """The exception that a line tells, and the child's where it is an executor's: `InductorError: FileNotFoundError: ...`."""
    found = exception_of(text)
    if found is None:
        return ()
    inner = found[1]
    return (undecorated(text),) if exception_of(inner) is None else (undecorated(text), inner)


def rule_event(rule: Rule, line: Line, count: int = 1) -> Event | None:
    """The event that a rule makes of a line, or None where the rule does not match it."""
    found = captures_of(rule, own_words(line))
    if found is None:
        return None
    if group := _GROUP_RANK.search(line.text):
        found = {"group_rank": group["group_rank"], **found}
    named: dict[str, Any] = {
        name: number(found[name]) for name in ("local_rank", "pid") if found.get(name, "").isdecimal()
    }
    if is_rank(found.get("rank", "")):
        named["rank"] = number(found["rank"])
    if found.get("node"):
        named["node"] = found["node"]
    origin = replace(line.origin, **named) if named else line.origin
    return event_at(line, rule.cause, rule.role, rule.id, origin=origin, captures=found, count=count)


def event_at(line: Line, cause: str, role: Role, rule: str, **more: Any) -> Event:
    """An event on this line, of its writer where no other origin is given."""
    more.setdefault("origin", line.origin)
    return Event(cause, role, rule, hit=line, order=line.order, label=line.label, **more)


class RuleEvents:
    """The events that rules made, by the line that they stand on."""

    def __init__(self, facts: Mapping[str, Any]) -> None:
        self.at: dict[Place, list[Event]] = {}
        self.general: set[Place] = set()
        """The lines that general rules alone take."""
        self._in_order: list[Place] = []
        self._facts = facts
        """What the conditions of rules are about."""

    def add(self, rule: Rule, line: Line, count: int) -> None:
        """Add the event that the rule makes of this line, if it makes one.

        Of the rules of one cause that match a line the first in the cause's file counts, and a hint only where no other matches;
        a general rule only where no other rule of any cause matches.
        """
        if not holds(rule.when, self._facts):
            return
        event = rule_event(rule, line, count)
        if event is None:
            return
        where = line.place
        if rule.role != "hint" and not self._ranks(rule, where):
            return
        if where not in self.at:
            insort(self._in_order, where)
        here = self.at.setdefault(where, [])
        earlier = next((at for at, other in enumerate(here) if other.cause == event.cause), None)
        if earlier is None:
            here.append(event)
        elif here[earlier].role == "hint" and event.role != "hint":
            here[earlier] = event

    def _ranks(self, rule: Rule, where: Place) -> bool:
        """Whether the rule's event counts beside those of the line; those of general rules give way to others."""
        others = [event for event in self.at.get(where, ()) if event.role != "hint"]
        if rule.general:
            if others:
                return False
            self.general.add(where)
        elif where in self.general:
            self.general.remove(where)
            self.at[where] = [event for event in self.at[where] if event.role == "hint"]
        return True

    def add_uncounted(self, rules: Iterable[Rule], line: Line) -> None:
        """Try the rules on a line that was kept for its traceback or its class alone. The search has counted it already."""
        if line.place not in self.at:
            for rule in rules:
                self.add(rule, line, 0)

    def drop(self, where: Place) -> None:
        """Forget the events of a line."""
        if self.at.pop(where, None) is not None:
            self._in_order.remove(where)

    def doubt(self, where: Place) -> None:
        """Take the events of a line, which may only speak of an error, for hints."""
        if events := self.at.get(where):
            self.at[where] = [replace(event, role="hint") for event in events]

    def between(self, source: int, start: int, end: int) -> list[Place]:
        """The lines with events that stand between two offsets of a source."""
        first = bisect_right(self._in_order, (source, start))
        return self._in_order[first : bisect_left(self._in_order, (source, end))]
