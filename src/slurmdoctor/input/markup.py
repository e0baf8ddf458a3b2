"""Undoes markup in a paste: Markdown fences and quotes, HTML entities, indentation, curled quotes and odd blanks."""

from __future__ import annotations

import re
from collections.abc import Sequence

from slurmdoctor.input.rows import Row, each, share
from slurmdoctor.matching import lazy

_INVISIBLE = lazy("[\u200b\u200c\u200d\u2060\ufeff]")
_BLANKS = lazy("[\u00a0\u2007\u202f]")
_ODD = "\u200b\u200c\u200d\u2060\ufeff\u00a0\u2007\u202f“„‘"
_CURLY = str.maketrans("“”„‘’‚", "\"\"\"'''")


def odd(text: str) -> bool:
    """Whether there is any of these characters."""
    return not text.isascii() and ("File ”" in text or any(one in text for one in _ODD))


def characters(rows: Sequence[Row]) -> list[Row] | None:
    """Blanks that do not break, characters of no width, and the quotes that a word processor curls."""
    whole = "\n".join(line for _, line in rows)
    curled = bool(re.search("File [“”„]", whole)) or (bool(re.search("[“‘]", whole)) and not re.search("[\"']", whole))

    def plain(line: str) -> str:
        line = _BLANKS.sub(" ", _INVISIBLE.sub("", line))
        return line.translate(_CURLY) if curled else line

    return each(rows, plain)


_FENCE = lazy(r"^(\s{0,3})(`{3,}|~{3,})[ \t]*+([\w+.-]{0,20}+)[ \t]*+$")
_FENCED = lazy(r"\n\s{0,3}~~~")
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


def fenced(text: str) -> bool:
    """Whether backticks or tildes stand where a fence has them."""
    return "```" in text or _FENCED.search(text) is not None or text.strip()[:1] == "`"


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

        return each(rows, bare)
    filled = [number for number, (_, line) in enumerate(rows) if line.strip()]
    if filled and rows[filled[0]][1].startswith("`") and rows[filled[-1]][1].rstrip().endswith("`"):
        # one backtick before the first line and one after the last, which no renderer takes for a block
        changed = list(rows)
        changed[filled[0]] = (rows[filled[0]][0], rows[filled[0]][1][1:])
        changed[filled[-1]] = (rows[filled[-1]][0], changed[filled[-1]][1].rstrip()[:-1])
        return changed
    return None


_QUOTED = lazy(r"^\s{0,3}>(?: |$|(?=>))")
_QUOTE = lazy(r"\n\s{0,3}>")
_ABOUT_A_LOG = lazy(
    r"^\s{0,3}>\s?(?:.{0,40}Traceback \(most recent|.{0,12}\s{2}File \"|\[rank\d|\d+: |srun: |slurmstepd)"
)
_QUOTED_ERROR = lazy(r"^\s{0,3}> ?(?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception): \S")


def quoted(text: str) -> bool:
    """Whether any line begins with this mark."""
    return _QUOTE.search(text) is not None


def quotes(rows: Sequence[Row]) -> list[Row] | None:
    """`> ` before each line. Megatron prints lines of its own so: a few of them in a log are no quotation."""
    whole = share(rows, _QUOTED) >= 0.8
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


def encoded(text: str) -> bool:
    """Whether there are links of Slack, or entities, or tags that may part an entity."""
    if any(link in text for link in ("<http", "<mailto:", "<tel:")):
        return True
    return "&" in text and (_ENTITY.search(text) is not None or _BREAK.search(text) is not None)


def entities(rows: Sequence[Row]) -> list[Row] | None:
    """`&gt;` and other entities, where there are hardly any bare brackets; Slack's links, `<address|words>`."""
    whole = "\n".join(line for _, line in rows)
    if "&" not in whole and "|" not in whole:
        return None
    links = any(found[1] is not None for found in _LINK.finditer(whole))
    bare = _BREAK.sub("", _LINK.sub("", whole))
    escaped = len(_ENTITY.findall(bare)) > 2 * len(re.findall("[<>]", bare))
    if not links and not escaped:
        return None

    from html import unescape  # here: most pastes hold none, and it is slow to import

    def plain(line: str) -> str:
        line = _LINK.sub(lambda found: found[1] or found[2] or "", line)
        return unescape(_BREAK.sub("", line)).replace("\u00a0", " ") if escaped else line

    return each(rows, plain)


def indents(rows: Sequence[Row]) -> list[Row] | None:
    """The four blanks that make a block of code, before every line."""
    filled = [line for _, line in rows if line.strip()]
    deep = min((len(line) - len(line.lstrip(" ")) for line in filled), default=0)
    return each(rows, lambda line: line[deep:]) if deep >= 4 and (len(filled) >= 3 or deep == 4) else None
