"""Undoes what a chat, a mail, a viewer or a terminal did to a log before somebody pasted it.

Pure functions over numbered rows. Each step looks for one thing and returns the rows without it, or None where the
text does not show it evidently: an ordinary log must pass through untouched. The outermost damage is undone first, and
the steps are tried again until none applies, for pastes are quoted, fenced and numbered at once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from slurmdoctor.input.rewrap import joined, opened
from slurmdoctor.input.sources import Source, Text
from slurmdoctor.records import dataclass
from slurmdoctor.search.compiled import lazy

if TYPE_CHECKING:
    import regex

LIMIT = 1024 * 1024
"""Characters; nobody pastes more, and what is longer is taken for a log."""
_MOST_LINES = 20_000
_ROUNDS = 4

Row = tuple[int, str]
"""A line, and its number in what was pasted."""
Step = Callable[[Sequence[Row]], "list[Row] | None"]


@dataclass(frozen=True, slots=True)
class Undone:
    """A paste, as the log that it was."""

    text: str
    done: tuple[str, ...] = ()
    """What was undone, in words; empty where nothing was."""
    numbers: tuple[int, ...] = ()
    """For each line of `text`, its number in what was pasted."""

    @property
    def note(self) -> str:
        """For the coverage: what was undone, in a sentence."""
        return f"read as a paste: {', '.join(self.done)}" if self.done else ""


def undo(text: str) -> Undone:
    """The log behind a paste. Text that shows no sign of pasting comes back as it is."""
    if not text or len(text) > LIMIT or "\0" in text or text.count("\n") > _MOST_LINES:
        return Undone(text)
    rows: list[Row] = list(enumerate(text.replace("\r\n", "\n").split("\n"), 1))
    done: list[str] = []
    for _ in range(_ROUNDS):
        before = len(done)
        for words, step in STEPS:
            if (better := step(rows)) is not None and better != rows:
                rows = better
                done.append(words)
        if len(done) == before:
            break
    done += [] if not done else _fragments(rows)
    if not done:
        return Undone(text)
    return Undone("\n".join(line for _, line in rows), tuple(dict.fromkeys(done)), tuple(n for n, _ in rows))


def unwrap(sources: Sequence[Source]) -> tuple[list[Source], str]:
    """The sources as they are; or, where there is but one and it is a paste, the log behind it, and a note about it."""
    if len(sources) != 1 or (sources[0].size is not None and sources[0].size > LIMIT):
        return list(sources), ""
    source = sources[0]
    data = source.peek(LIMIT + 1)
    undone = undo(data.decode("utf-8", "replace")) if len(data) <= LIMIT else Undone("")
    if not undone.done:
        return [source], ""
    source.close()
    unwrapped = Text.source(undone.text, source.name)
    unwrapped.path, unwrapped.numbers = source.path, undone.numbers
    return [unwrapped], undone.note


def _share(rows: Sequence[Row], pattern: regex.Pattern[str]) -> float:
    """How many of the rows that say anything begin as the pattern wants."""
    told = [line for _, line in rows if line.strip()]
    return sum(pattern.match(line) is not None for line in told) / len(told) if told else 0.0


def _each(rows: Sequence[Row], change: Callable[[str], str]) -> list[Row] | None:
    changed = [(number, change(line)) for number, line in rows]
    return changed if changed != list(rows) else None


# ── characters ───────────────────────────────────────────────────────────────────────────────

_INVISIBLE = lazy("[\u200b\u200c\u200d\u2060\ufeff]")
_BLANKS = lazy("[\u00a0\u2007\u202f]")
_CURLY = str.maketrans("“”„‘’‚", "\"\"\"'''")


def characters(rows: Sequence[Row]) -> list[Row] | None:
    """Blanks that do not break, characters of no width, and the quotes that a word processor curls."""
    whole = "\n".join(line for _, line in rows)
    curled = bool(re.search("File [“”„]", whole)) or (bool(re.search("[“‘]", whole)) and not re.search("[\"']", whole))

    def plain(line: str) -> str:
        line = _BLANKS.sub(" ", _INVISIBLE.sub("", line))
        return line.translate(_CURLY) if curled else line

    return _each(rows, plain) if not whole.isascii() else None


# ── markup ───────────────────────────────────────────────────────────────────────────────────

_FENCE = lazy(r"^(\s{0,3})(`{3,}|~{3,})[ \t]*([\w+.-]{0,20})[ \t]*$")
_OPENS = lazy(r"^\s{0,3}`{3}(?=[^`\s])")
_CLOSES = lazy(r"(?<=[^`\s])`{3,}\s*$")  # tildes stand below a traceback's code
_PROSE = lazy(
    r"^(?!.*(?i:error|kill|fault|abort|dump|fail|signal|cancel))[A-Za-z][\w',-]* [\w '’,;!?()/-]*[\w?!)][:.?!…]{0,3}$"
)
_LANGUAGES = frozenset(
    {"bash", "c", "console", "cpp", "diff", "html", "js", "json", "log", "logs", "makefile", "markdown", "md", "none",
     "output", "plain", "plaintext", "py", "py3", "pycon", "python", "python3", "pytb", "python-traceback", "sh",
     "shell", "shell-session", "sql", "stderr", "stdout", "text", "toml", "traceback", "txt", "xml", "yaml", "yml",
     "zsh"}
)  # fmt: skip
_GAP = lazy(r"(?i)^\s*(?:\[?(?:\.{3,}|…)\]?|<snip>|\[snip\]|\(snip\)|-{2,} ?(?:snip|8<) ?-{2,})\s*$")


def fences(rows: Sequence[Row]) -> list[Row] | None:
    """Lines of three backticks or tildes, closed or not, and those that stick to the first and the last line."""
    found = [line for _, line in rows if (f := _FENCE.match(line)) and (not f[3] or f[3].lower() in _LANGUAGES)]
    stuck = [line for _, line in rows if not _FENCE.match(line) and (_OPENS.match(line) or _CLOSES.search(line))]
    if found or stuck:
        inside = False

        def bare(line: str) -> str:
            nonlocal inside
            if (f := _FENCE.match(line)) and (not f[3] or f[3].lower() in _LANGUAGES):
                inside = not inside
                return ""
            if not inside and len(found) >= 2 and _PROSE.match(line):
                return ""  # what the person wrote about it
            return _CLOSES.sub("", _OPENS.sub("", line))

        return _each(rows, bare)
    told = [number for number, (_, line) in enumerate(rows) if line.strip()]
    if told and rows[told[0]][1].startswith("`") and rows[told[-1]][1].rstrip().endswith("`"):
        # one backtick before the first line and one after the last, which no renderer takes for a block
        changed = list(rows)
        changed[told[0]] = (rows[told[0]][0], rows[told[0]][1][1:])
        changed[told[-1]] = (rows[told[-1]][0], changed[told[-1]][1].rstrip()[:-1])
        return changed
    return None


_QUOTED = lazy(r"^\s{0,3}>(?: |$|(?=>))")
_ABOUT_A_LOG = lazy(
    r"^\s{0,3}>\s?(?:.{0,40}Traceback \(most recent|.{0,12}\s{2}File \"|\[rank\d|\d+: |srun: |slurmstepd)"
)
_QUOTED_ERROR = lazy(r"^\s{0,3}> ?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S")


def quotes(rows: Sequence[Row]) -> list[Row] | None:
    """`> ` before each line. Megatron prints lines of its own so: a few of them in a log are no quotation."""
    whole = _share(rows, _QUOTED) >= 0.8
    changed = list(rows)
    start = 0
    while start < len(rows):
        end = start
        while end < len(rows) and _QUOTED.match(rows[end][1]):
            end += 1
        block = rows[start:end]
        if block and (
            whole
            or (len(block) >= 3 and any(_ABOUT_A_LOG.match(line) for _, line in block))
            or _QUOTED_ERROR.match(block[-1][1])
        ):
            changed[start:end] = [(number, _QUOTED.sub("", line)) for number, line in block]
        start = max(end, start + 1)
    return changed if changed != list(rows) else None


_ENTITY = lazy(r"(?i)&(?:lt|gt|amp|quot|apos|nbsp|#0?39|#x27|#34|#x2F);")
_LINK = lazy(r"<(?:(?:https?://|mailto:|tel:)[^|<>\s]+\|([^<>\n]*)|(https?://[^|<>\s]+))>")
_BREAK = lazy(r"(?i)<br ?/?>\n?|</?(?:pre|code|p|div|span)(?: [^<>]{0,80})?>")


def entities(rows: Sequence[Row]) -> list[Row] | None:
    """`&gt;` and its kin, where no bare bracket shows that nothing was encoded; Slack's links, `<address|words>`."""
    whole = "\n".join(line for _, line in rows)
    if "&" not in whole and "|" not in whole:
        return None
    links = any(found[1] is not None for found in _LINK.finditer(whole))
    bare = _BREAK.sub("", _LINK.sub("", whole))
    encoded = len(_ENTITY.findall(bare)) > 2 * len(re.findall("[<>]", bare))
    if not links and not encoded:
        return None

    from html import unescape  # here: most pastes hold none, and it is slow to import

    def plain(line: str) -> str:
        line = _LINK.sub(lambda found: found[1] or found[2] or "", line)
        return unescape(_BREAK.sub("", line)).replace("\u00a0", " ") if encoded else line

    return _each(rows, plain)


def indents(rows: Sequence[Row]) -> list[Row] | None:
    """The four blanks that make a block of code, before every line."""
    told = [line for _, line in rows if line.strip()]
    deep = min((len(line) - len(line.lstrip(" ")) for line in told), default=0)
    return _each(rows, lambda line: line[deep:]) if deep >= 4 and (len(told) >= 3 or deep == 4) else None


# ── people ───────────────────────────────────────────────────────────────────────────────────

_AMPM = r"\d{1,2}:\d\d ?[AaPp]\.?[Mm]\.?"
_HOUR = r"\d{1,2}:\d\d"
_DAY = (
    r"(?:(?:[Tt]oday|[Yy]esterday)|\d{1,2}[./-]\d{1,2}(?:[./-]\d{2,4})?\.?|\d{4}-\d\d-\d\d"
    r"|(?:Mon|Tues?|Wed|Thu|Thurs|Fri|Sat|Sun|Wednes|Satur)(?:day)?"
    r"|[A-Z][a-z]{2,8} \d{1,2}(?:st|nd|rd|th)?(?:, \d{4})?)"
)
_ON = rf"(?:{_DAY},?(?: at)? )"
_NAME = r"(?![^\n:]{0,40}(?:Error|Exception|Warning|Interrupt)\b)[^\W\d_][\w.'’()/-]*(?:,? [\w.'’()/-]+){0,4}"
_HEADERS = tuple(
    lazy(rf"^\s*(?:{pattern})\s*$")
    for pattern in (
        rf"{_NAME}(?: APP)?[ ]{{1,3}}(?:[—–-] ?)?{_ON}?{_AMPM}",  # Slack, Teams, Discord
        rf"{_NAME} [—–] {_ON}?{_HOUR}",  # Discord
        rf"{_NAME} \[{_ON}?{_AMPM}\]",  # older Slack
        rf"\[?{_ON}?{_AMPM}\]?",  # Slack: the time below the name
        rf"\[{_ON}?{_AMPM}\] ?{_NAME}",  # Teams
        rf"\[{_ON}{_HOUR}\] ?{_NAME}",
        rf"{_NAME}, \[{_ON}{_HOUR}(?::\d\d)?\]",  # Telegram
        rf"{_ON}{_AMPM} {_NAME}",
    )
)
_PREFIXES = tuple(
    lazy(rf"^{pattern}")
    for pattern in (
        rf"\[{_ON}?{_AMPM}\] ?(?:{_NAME}: ?)?",  # Discord's compact view, Teams
        rf"\[{_DAY}, {_HOUR}(?::\d\d)?(?: ?[AaPp][Mm])?\] {_NAME}: ",  # WhatsApp
        rf"{_DAY}, {_HOUR}(?: ?[AaPp][Mm])? - {_NAME}: ",
        rf"{_NAME}  ?{_AMPM}  ?(?=\S)",
        rf"\[?{_HOUR}\]? <[@+ ]?[\w|\[\]-]{{1,24}}> ",  # IRC, Matrix bridges
    )
)
_ALL_ALONG = (
    lazy(r"^<[@+ ]?(?!stdin|string|frozen|module|std(?:out|err))[\w|\[\]-]{1,24}> "),
    lazy(rf"^\[{_HOUR}\] (?!(?:INFO|DEBUG|WARN|WARNING|ERROR|CRITICAL|FATAL|[\w.]+:\d+)\b)(?P<who>{_NAME}): ?"),
)
"""Prefixes that a log might have too: believed where most lines begin so, and where few people speak."""
_EDITED = lazy(r" ?\((?:edited|bearbeitet|modifié|editado)\)\s*$")


def people(rows: Sequence[Row]) -> list[Row] | None:
    """Who wrote and when, as Slack, Discord, Teams, WhatsApp, Telegram and IRC copy it."""
    chosen = [p for p in _ALL_ALONG if _share(rows, p) >= 0.6 and _few(rows, p)]
    prefixes = (*_PREFIXES, *chosen)
    hit = False

    def bare(line: str) -> str:
        nonlocal hit
        if len(line) < 90 and any(header.match(line) for header in _HEADERS):
            hit = True
            return ""
        for prefix in prefixes:
            if (found := prefix.match(line)) and found.end():
                hit = True
                return line[found.end() :]
        return line

    changed = [(number, bare(line)) for number, line in rows]
    return [(number, _EDITED.sub("", line)) for number, line in changed] if hit else None


def _few(rows: Sequence[Row], pattern: regex.Pattern[str]) -> bool:
    return len({found[0].partition(" ")[2] for _, line in rows if (found := pattern.match(line))}) <= 8


# ── terminals and viewers ────────────────────────────────────────────────────────────────────

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
"""Commands that show: their words, the log's own words among them, are no part of the log."""


def prompts(rows: Sequence[Row]) -> list[Row] | None:
    """Shell and Python prompts, and the commands that only show a file."""

    def bare(line: str) -> str:
        found = _PROMPT.match(line)
        if found is None:
            return line
        command = (found["command"] or "").strip()
        words = command.removeprefix("sudo ").split()
        return "" if not words or words[0].rpartition("/")[2] in _LOOKS else command

    return _each(rows, bare)


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


def numbers(rows: Sequence[Row]) -> list[Row] | None:
    """Line numbers, as cat -n, less -N, vim, bat and grep -n print them: they count up, mostly by one."""
    told = [line for _, line in rows if line.strip()]
    for name, pattern in _NUMBERS.items():
        found = [pattern.match(line) for line in told]
        hits = [int(f[1]) for f in found if f]
        if not hits or len(hits) < 0.9 * len(told):
            continue
        steps = [b - a for a, b in pairwise(hits)]
        by_one = sum(step == 1 for step in steps) / max(len(steps), 1)
        up = sum(step > 0 for step in steps) / max(len(steps), 1)
        if len(told) < 3:
            # cat -n, bat and less -N have forms of their own, which no log begins its only lines with
            believed = name in ("tab", "bar", "padded") and by_one == len(steps)
        elif name == "colon":  # `6: ` is srun's label too
            believed = len(told) >= 20 and up >= 0.97 and by_one >= 0.97
        elif name == "grep":  # all lines or those that matched; after srun's labels a blank comes first
            bare = sum(
                f is not None and not line[f.end() : f.end() + 1].isspace() for f, line in zip(found, told, strict=True)
            )
            believed = up >= 0.97 and bare >= 0.2 * len(told)
        else:
            believed = up >= 0.97 and by_one >= 0.9
        if believed:
            return _each(rows, lambda line: pattern.sub("", line, count=1))  # noqa: B023 - called at once
    return None


# ── the whole ────────────────────────────────────────────────────────────────────────────────

STEPS: tuple[tuple[str, Step], ...] = (
    ("odd blanks and quotes made plain", characters),
    ("chat names and times taken off", people),
    ("quotation marks taken off", quotes),
    ("Markdown fences taken off", fences),
    ("HTML entities decoded", entities),
    ("line numbers taken off", numbers),  # before the indentation, which may be theirs
    ("indentation taken off", indents),
    ("lost line ends put back", opened),
    ("hard-wrapped lines joined", joined),  # before the prompts, which had their room in the line
    ("shell prompts taken off", prompts),
)


def _fragments(rows: Sequence[Row]) -> list[str]:
    gaps = sum(_GAP.match(line) is not None for _, line in rows)
    return [f"{gaps} gap{'s' * (gaps > 1)} where text was left out"] if gaps else []
