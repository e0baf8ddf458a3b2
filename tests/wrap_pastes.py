"""What chats, viewers and terminals do to a log: each way as a function from the log's text to the paste."""

import html
from collections.abc import Callable, Iterator, Sequence

from cases import cases
from slurmdoctor import diagnose

Way = Callable[[str], str]


def _lines(change: Callable[[int, str], str]) -> Way:
    return lambda text: "\n".join(change(n, line) for n, line in enumerate(text.split("\n"), 1))


def _cut(width: int, strip: bool = False) -> Way:
    def cut(_: int, line: str) -> str:
        line = line.expandtabs(8)
        pieces = [line[at : at + width] for at in range(0, len(line), width)] or [""]
        return "\n".join(piece.rstrip() if strip else piece for piece in pieces)

    return _lines(cut)


def _fragments(text: str) -> str:
    lines = text.split("\n")
    third = max(1, len(lines) // 3)
    parts = [lines[:third], lines[third : 2 * third], lines[2 * third :]]
    blocks = ["```\n" + "\n".join(part) + "\n```" for part in parts]
    return f"this is how it starts\n{blocks[0]}\nthen\n{blocks[1]}\nand at the end\n{blocks[2]}\nany idea?"


def tail(text: str, evidence: Sequence[str]) -> str:
    """The end of the log, from the middle of a line a little before the decisive one."""
    lines = text.split("\n")
    holding = (n for n, line in enumerate(lines) if any(e.strip() in line for e in evidence))
    decisive = min(holding, default=len(lines) // 5)
    # a traceback is left whole, for its error's line is the decisive one, and its frames tell whose it is
    start = max(0, decisive - 25)
    if start == decisive:  # nothing stands before it
        return text
    return "\n".join([lines[start][len(lines[start]) // 2 :], *lines[start + 1 :]])


WAYS: dict[str, Way] = {
    "fence": lambda text: f"```\n{text}\n```",
    "fence-unclosed": lambda text: f"My job died again:\n```\n{text}",
    "fence-tilde": lambda text: f"~~~\n{text}\n~~~",
    "quote": _lines(lambda _, line: f"> {line}".rstrip()),
    "quote-fence": lambda text: "> ```\n" + WAYS["quote"](text) + "\n> ```",
    "html": lambda text: html.escape(text),
    "html-slack": lambda text: text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;"),
    "nbsp": lambda text: text.replace("  ", "\u00a0 "),
    "indent": _lines(lambda _, line: f"    {line}"),
    "cat-n": _lines(lambda n, line: f"{n:6d}\t{line}"),
    "less-N": _lines(lambda n, line: f"{n + 480:7d} {line}"),
    "grep-n": _lines(lambda n, line: f"{n + 1200}:{line}"),
    "bat": _lines(lambda n, line: f"{n:4d} │ {line}"),
    "wrap-80": _cut(80),
    "wrap-100": _cut(100),
    "wrap-97-stripped": _cut(97, strip=True),
    "one-line-escaped": lambda text: text.replace("\n", "\\n"),
    "fragments": _fragments,
    "quote-wrap": lambda text: WAYS["quote"](WAYS["wrap-100"](text)),
    "fence-numbers": lambda text: WAYS["fence"](WAYS["cat-n"](text)),
}


def logs() -> Iterator[tuple[str, str, list[str]]]:
    """(name, text, decisive words) of each labelled case; the files of a job stand one after another."""
    for case in cases():
        data = [path.read_bytes() for path in case.logs]
        texts = [d.decode("utf-16" if d[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-8", "replace") for d in data]
        text = "\n".join(texts).replace("\r\n", "\n").replace("\0", "").strip("\n")
        if text and len(text) < 512 * 1024:
            yield case.name, text, list(case.truth.get("evidence") or [])


def cause(text: str) -> str | None:
    found = diagnose(text + "\n", redact="off")
    return found.cause.id or found.verdict
