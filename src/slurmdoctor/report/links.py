"""Names for the fixes of what failed between processes: how many, who waited for rank 0, which end of a link is broken."""

from __future__ import annotations

from typing import Any

from slurmdoctor.knowledge import text
from slurmdoctor.model import ID_TIMEOUT, Finding, Incident
from slurmdoctor.report.frames import frames

_SAVING = text("saving-function")


def names_of_links(finding: Finding) -> dict[str, Any]:
    """Names and their values."""
    root = finding.root
    if root is None:
        return {}
    names: dict[str, Any] = {"failed": _how_many(finding, root), **finding.node_names}
    alike = (root, *finding.same) if finding.cause == ID_TIMEOUT else (root,)
    stack = frames(next((i.main.traceback for i in alike if i.main.traceback), ()))
    if stack:
        names["frames"] = tuple(frame.function for frame in stack)
    if saving := next((frame.function for frame in reversed(stack) if _SAVING.search(frame.function)), None):
        names["saves_in"] = saving
    return names


def _how_many(finding: Finding, root: Incident) -> int:
    """The ranks that failed alike; without labels so many processes as raised the same."""
    if finding.extent.ranks or not root.main.traceback:
        return max(len(finding.extent.ranks), 1)
    alike = [e.count for i in (root, *finding.same) for e in i.events if e.rule == root.main.rule]
    return max(sum(alike), 1)
