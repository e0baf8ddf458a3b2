"""Made-up secrets of 76 kinds, 34 forms in which logs show them, and tables of lines: what secret_lines.yaml holds."""

import json
import random
import string
from collections.abc import Callable
from typing import Any

from slurmdoctor.knowledge.workshop.proof import planted
from tables import table

Form = Callable[[str, str], str]
"""(name of the key, secret) -> the line."""
TABLES: dict[str, Any] = table("secret_lines")
_IN_URLS = string.ascii_letters + string.digits + "-_.~!"


def lines(table: str) -> list[str]:
    """The rows of a table, in which ⏎ ends a line of the log."""
    return [row.replace("⏎", "\n") for row in TABLES[table].splitlines()]


def _kind(form: str) -> tuple[str, Callable[[random.Random], str]]:
    name, _, template = form.partition("=")
    return name, lambda rng: planted(template, rng)[0]


KINDS = {kind: _kind(form) for kind, form in TABLES["kinds"].items()}
"""Kind -> (name of the key, what makes such a secret)."""


def _camel(name: str) -> str:
    first, *rest = name.lower().split("_")
    return first + "".join(word.title() for word in rest)


def _flag(name: str) -> str:
    return "--" + name.lower().replace("_", "-")


def _wrapped(name: str, secret: str) -> str:
    line = f"{'training on node07 with ' + name + '=':>64}{secret}"
    return line[:80] + ("\n" + line[80:] if len(line) > 88 else line[80:])


def _form(template: str) -> Form:
    """A line in which NAME, name and --name stand for the key's name, and § for the secret."""
    return lambda n, s: (
        template.replace("NAME", n).replace("--name", _flag(n)).replace("name", n.lower()).replace("§", s)
    )


FORMS: dict[str, Form] = {
    **{form: _form(template) for form, template in TABLES["forms"].items()},
    "json": lambda n, s: json.dumps({"a": 1, n.lower(): s, "b": "c"}),
    "camel case": lambda n, s: json.dumps({_camel(n): s}),
    "escaped json": lambda n, s: json.dumps({"msg": json.dumps({n.lower(): s})}),
    "triple json": lambda n, s: json.dumps({"m": json.dumps({"msg": json.dumps({n.lower(): s, "x": 1})})}),
    "repr": lambda n, s: repr({n.lower(): s, "lr": 0.1}),
    "bytes": lambda n, s: repr({n.lower().encode(): s.encode()}),
    "argv": lambda n, s: f"CalledProcessError: Command '{['torchrun', 't.py', _flag(n), s, '--lr', '0.1']}' returned non-zero exit status 1.",
    "argv with =": lambda n, s: f"Command '{['torchrun', f'{_flag(n)}={s}']}' returned non-zero exit status 1.",
    "argv as json": lambda n, s: json.dumps(["torchrun", "t.py", "--" + n.lower(), s]),
    "aligned": lambda n, s: f"{n.lower():<30} = {s}",
    "dots": lambda n, s: f"  {n.lower()} {'.' * (40 - len(n))} {s}",
    "soft hyphen": lambda n, s: f"{n}={s[:7]}\u00ad{s[7:]}",
    "zero width": lambda n, s: f"{n}={s[:7]}\u200b{s[7:]}",
    "backspace": lambda n, s: f"{n}={s[:7]}\b{s[7:]}",
    "colour": lambda n, s: f"{n}=\x1b[1m{s[:6]}\x1b[0m{s[6:]}",
    "wrapped": _wrapped,
    "user in a url": lambda n, s: f"https://kim:{_in_url(s)}@example.org/a.git",
}  # fmt: skip


def _in_url(secret: str) -> str:
    return "".join(char if char in _IN_URLS else "/" for char in secret)


def shown_parts(form: str, secret: str) -> list[str]:
    """What of a secret must not be shown: all of it, and more than a third of it in one piece."""
    secret = _in_url(secret) if form == "user in a url" else secret
    third = len(secret) // 3
    return [secret] if len(secret) < 12 else [secret[: 2 * third], secret[third:], secret[-2 * third :]]


def readable(shown: str) -> str:
    """A report's text as a reader puts it together again: without what divides a word."""
    return "".join(char for char in shown if char not in "\u00ad\u200b\ufffd\n")
