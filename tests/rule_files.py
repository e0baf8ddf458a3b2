"""Rule files of a made-up site: what a cause of its own needs, and no more."""

from pathlib import Path

CAUSE = """\
cause: {cause}
title: lost the tape library
role: root
exit_classes: [python-error]
explains: [sigterm]
retry: after-fix
summary: The tape library stopped, and the loader gave up.
rules:
  - id: {cause}/loader
    source: our loader >= 3
    literals: ['tape library is gone']
    regex: 'tape library is gone(?: after (?P<seconds>\\d+) s)?'
    examples: {{match: ['tape library is gone after 30 s'], no_match: ['tape library is back']}}
fixes:
  - do: Restart it.
"""
SITE_LABEL = r"""
formats:
  - id: site-label
    source: the launcher of a site
    pattern: '#w(?P<rank>\d+)# '
    samples: [{line: '#w3# hello', rank: 3, text: hello}]
"""


def cause_file(name: str, **changed: str) -> str:
    """The file of a cause, with other values of keys: `role="hint"`."""
    text = CAUSE.format(cause=name)
    for key, value in changed.items():
        before = next(line for line in text.splitlines() if line.lstrip(" -").startswith(f"{key}:"))
        text = text.replace(before, before[: before.index(f"{key}:")] + f"{key}: {value}")
    return text


def put(file: Path, text: str) -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file
