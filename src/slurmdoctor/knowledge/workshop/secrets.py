"""Proves the kinds of secrets by their own examples, and fills in their made-up secrets: `hf_<alnum 34>`."""

from __future__ import annotations

import base64
import random
import re
import string

from slurmdoctor.knowledge.problems import Problems
from slurmdoctor.knowledge.tree import Table
from slurmdoctor.knowledge.workshop.patterns import parse
from slurmdoctor.model import SecretKind
from slurmdoctor.ranks.labels import LabelReader
from slurmdoctor.report.redact import Redactor

_PLACE = re.compile(r"<(?P<chars>\w+)(?: (?P<count>\d+))?>")
_CHARS = {
    "alnum": string.ascii_letters + string.digits,
    "letters": string.ascii_letters,
    "lower": string.ascii_lowercase,
    "upper": string.ascii_uppercase + string.digits,
    "digits": string.digits,
    "hex": string.hexdigits[:16],
    "base64": string.ascii_letters + string.digits + "+/",
    "url": string.ascii_letters + string.digits + "-_",
}


def planted(line: str, rng: random.Random) -> tuple[str, list[str]]:
    """The line with random characters in its places, and those that must not be shown."""
    secrets: list[str] = []

    def fill(place: re.Match[str]) -> str:
        made = _made(place["chars"], int(place["count"] or 0), rng)
        if made is None:
            return place[0]
        secrets.append(made)
        return made

    return _PLACE.sub(fill, line), secrets


def _made(chars: str, count: int, rng: random.Random) -> str | None:
    if chars in _CHARS and count:
        # neither an end that might be a sign of prose nor, by chance, a word
        inner = "".join(rng.choice(_CHARS[chars]) for _ in range(count))
        plain = chars if chars not in ("base64", "url") else "alnum"
        inner = rng.choice(_CHARS[plain]) + inner[1:-1] + rng.choice(_CHARS[plain])
        return inner if chars in ("letters", "lower", "digits") else _with_digit(inner, rng)
    if chars == "private_key":
        return "PRIVATE KEY"  # written out, a scanner takes the example for one
    if chars == "pair":
        return base64.b64encode(f"kim:{_made('alnum', 12, rng)}".encode()).decode()
    if chars == "jwt":
        head = base64.urlsafe_b64encode(b'{"alg":"HS256","typ":"JWT"}').decode().rstrip("=")
        body = base64.urlsafe_b64encode(b'{"sun":"kim","n":%d}' % rng.randrange(10**9)).decode().rstrip("=")
        return f"{head}.{body}.{_made('url', 43, rng)}"
    return None


def _with_digit(made: str, rng: random.Random) -> str:
    at = rng.randrange(1, len(made) - 1) if len(made) > 2 else 0
    return made[:at] + rng.choice(string.digits) + made[at + 1 :]


def check_secret(kind: SecretKind, tree: Table, labels: LabelReader, problems: Problems) -> None:
    """Each example is masked by this kind alone; of the look-alikes nothing is."""
    if bool(kind.regex) == bool(kind.names):
        problems.add(tree.place, "a kind of secret has either `regex` or `names`", "keep one of the two")
        return
    _speed(kind, tree, problems)
    redactor = Redactor("strict" if kind.strict else "default", (kind,))
    for at, line in enumerate(kind.match):
        text, secrets = planted(line, random.Random(line))
        shown = redactor.text(text)
        if not secrets or shown == text or any(secret in shown for secret in secrets):
            mend = "correct the pattern, the literals or the example"
            problems.add(tree.at("examples", "match", at), f"the secret is not masked: `{shown}`", mend)
    for at, line in enumerate(kind.no_match):
        if (shown := redactor.text(line)) != line:
            problems.add(
                tree.at("examples", "no_match", at), f"this is no secret, and is shown as `{shown}`", "narrow it"
            )


def _speed(kind: SecretKind, tree: Table, problems: Problems) -> None:
    for key, written in (("regex", kind.regex), ("behind", kind.behind), ("unlike", kind.unlike)):
        for part, char in parse(written).shared_loops() if written else ():
            what = f"`{part.source}` repeats within a repeated group, and `{char}` may belong to either"
            problems.add(tree.at(key), what, "repeat once, or separate the repeats by another sign")
