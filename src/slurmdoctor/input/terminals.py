"""Takes off shell prompts and the line numbers that viewers print: `cat -n`, `less -N`, `grep -n`, vim, bat."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import ceil
from typing import TYPE_CHECKING

from slurmdoctor.input.rows import Row, each
from slurmdoctor.matching import lazy

if TYPE_CHECKING:
    import regex

_PROMPT = lazy(
    r"^(?:\([\w.-]{1,40}\) ?){0,2}"
    r"(?:[\w.-]{1,40}@[\w.-]{1,60}(?:[: ][~/\w.+-]{0,120})? ?[$#%>]|\[[\w.-]{1,40}@[\w.-]{1,60} [^\]\n]{1,80}\] ?[$#%]"
    r"|(?:ba|z|)sh-\d\.\d+[$#]|(?:~|/[\w./-]{1,80}) ?[$❯➜]|[$❯➜]|>>>(?= (?:import |from |[\w.]+(?:\(| ?=))))"
    r"(?: (?P<command>.*)|\s*)$"
)
_LOOKS = frozenset(
    {"ack", "awk", "bat", "cat", "cd", "cut", "egrep", "fgrep", "find", "git", "grep", "head", "jq", "journalctl",
     "kubectl", "less", "ll", "ls", "more", "nl", "nano", "sacct", "scontrol", "sed", "sort", "squeue", "tac", "tail",
     "vi", "view", "vim", "wc", "zcat", "zgrep", "zless"}
)  # fmt: skip
"""Commands that show a file: what was typed is no part of the log."""
_RUNS = frozenset(
    {"accelerate", "bash", "deepspeed", "horovodrun", "julia", "mpiexec", "mpirun", "python", "python3", "Rscript", "sh",
     "srun", "torchrun"}
)  # fmt: skip
"""Commands that start a program: with their prompt they show where one run ends and the next one begins."""


def prompts(rows: Sequence[Row]) -> list[Row] | None:
    """Shell and Python prompts, and the commands that only show a file."""

    def bare(line: str) -> str:
        found = _PROMPT.match(line)
        if found is None:
            return line
        command = (found["command"] or "").strip()
        words = command.removeprefix("sudo ").split()
        name = words[0].rpartition("/")[2] if words else ""
        if name in _RUNS or words[:1] == ["./" + name]:
            return line
        return "" if not words or name in _LOOKS else command

    return each(rows, bare)


_NUMBERS = {
    name: lazy(rf"^{before}(\d{{1,8}})(?:{after}|[ \t]*$)")
    for name, before, after in (
        ("tab", "[ ]{0,8}", r"\t"),
        ("bar", "[ ]{0,8}", r" ?│ ?"),
        ("pipe", "[ ]{0,8}", r" ?\| ?"),
        ("padded", r"(?=[ ]{2,6}\d{1,5} |[ ]?\d{6,7} )[ ]{0,6}", " "),  # less -N: seven wide
        ("grep", "", ":"),
        ("colon", "[ ]{0,8}", ": ?"),
        ("dot", "[ ]{0,8}", r"[.)] "),
        ("blanks", "[ ]{0,8}", "  ?"),
        ("dash", "", "-"),
    )
}


def _mostly(pattern: regex.Pattern[str], lines: Sequence[str]) -> list[regex.Match[str] | None]:
    """What the pattern finds in each line, where nine of ten lines begin so; else nothing, as soon as too many do not."""
    missing = len(lines) - ceil(0.9 * len(lines))
    found = []
    for line in lines:
        found.append(match := pattern.match(line))
        missing -= match is None
        if missing < 0:
            return []
    return found


def numbers(rows: Sequence[Row]) -> list[Row] | None:
    """Line numbers, as cat -n, less -N, vim, bat and grep -n print them: they count up, mostly by one."""
    filled = [line for _, line in rows if line.strip()]
    if sum(line.lstrip(" ")[:1].isdigit() for line in filled) < 0.9 * len(filled):
        return None
    for name, pattern in _NUMBERS.items():
        found = _mostly(pattern, filled)
        hits = [int(f[1]) for f in found if f]
        if not hits:
            continue
        steps = [b - a for a, b in pairwise(hits)]
        by_one = sum(step == 1 for step in steps) / max(len(steps), 1)
        up = sum(step > 0 for step in steps) / max(len(steps), 1)
        if len(filled) < 3:
            # cat -n, bat and less -N have forms of their own, which no log begins its only lines with
            believed = name in ("tab", "bar", "padded") and by_one == len(steps)
        elif name == "colon":  # `6: ` is srun's label too
            believed = len(filled) >= 20 and up >= 0.97 and by_one >= 0.97
        elif name == "grep":  # all lines or those that matched; after srun's labels a blank comes first
            bare = sum(
                f is not None and not line[f.end() : f.end() + 1].isspace()
                for f, line in zip(found, filled, strict=True)
            )
            believed = up >= 0.97 and bare >= 0.2 * len(filled)
        else:
            believed = up >= 0.97 and by_one >= 0.9
        if believed:
            return each(rows, lambda line: pattern.sub("", line, count=1))  # noqa: B023 - called at once
    return None
