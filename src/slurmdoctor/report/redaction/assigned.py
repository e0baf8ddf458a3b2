"""Recognises secrets by the name in front of them: `X_TOKEN=...`, `"api_key": ...`, `--password ...`."""

from __future__ import annotations

import re
from functools import cache


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """A pattern, compiled when it is first needed: most diagnoses need none."""
    return re.compile(pattern)


_PASSWORD = r"password|passwd|passphrase|pwd|(?<=_)pass"
_KEY = (
    r"api[_-]?key|secret[_-]?access[_-]?key|secret[_-]?key|client[_-]?secret|private[_-]?key|account[_-]?key|"
    r"access[_-]?key|auth[_-]?key|encryption[_-]?key|signing[_-]?key|subscription[_-]?key|license[_-]?key|"
    r"(?:wandb|ngc|hf|openai|comet|kaggle)[_-]?key|secret|token"
)
WORDS = f"{_PASSWORD}|{_KEY}"
_NUMBER = r"[-+]?(?:0x[0-9a-f]+|[\d.,_/:x]+(?:e[-+]?\d+)?[a-z%]{0,3})"
_SPECIAL_TOKEN = (
    r"(?:^|[_.-])(?:pad|eos|bos|unk|cls|sep|mask|eod|eot|eom|fim|img|image|audio|video|vision|speech|special|stop|start|"
    r"end|next|first|last|prev|per|new|max|min|think|tool|begin|bad|extra|additional|decoder|sampled|draft)[_-]?token\d*$"
)
# Values that are words of prose, types or masks.
_EMPTY = frozenset(
    {"none", "null", "nil", "true", "false", "yes", "no", "on", "off", "unset", "undefined", "missing",
     "required", "optional", "invalid", "expired", "empty", "default", "str", "string", "bytes", "int",
     "bool", "any", "self", "secret", "token", "password", "redacted", "hidden", "masked", "removed",
     "changeme"}
)  # fmt: skip


def is_assigned(match: re.Match[str]) -> bool:
    """Whether the value of `X_TOKEN=value` is a secret, not a placeholder, a special token, code or prose."""
    value: str = match["quoted"] or match["bare"]
    lower, word = value.lower(), match["word"].lower()
    before = match.string[max(0, match.start() - 48) : match.start()]
    name = (
        before[len(before.rstrip("_.-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789")) :]
        + match["word"]
    )
    if len(value) < 4 or lower in _EMPTY or len(set(value)) < 3 or value[0] in "$<[{*%./~(|\\":
        return False
    if word == "token" and compiled(_SPECIAL_TOKEN).search(name.lower()):
        return False
    if lower.endswith(word) or compiled(r"[A-Za-z_][\w.]*[\[(]").match(value):
        return False  # `token=args.token`, `token=os.environ[...]`: code, seen in a traceback
    secret_word = compiled(_PASSWORD).fullmatch(word) is not None or name.lower().endswith("_pass")
    prose = ":" in match["sep"] and match["quoted"] is None
    mixed = any(char.isdigit() for char in value) and any(char.isalpha() for char in value)
    if secret_word:
        return not (prose and value.isalpha() and (value.islower() or value.istitle()))
    if compiled(_NUMBER).fullmatch(lower):
        return False
    if name.isupper() and ("_" in name or "=" in match["sep"]) and not prose:
        return len(value) >= 6 and not compiled(r"torch\.|cuda:").match(value)
    if not mixed and not prose and word != "token":
        return len(value) >= 12 and not compiled(r"[a-z_.]+|[A-Z_]+").fullmatch(value)
    return (
        len(value) >= 8 and mixed and not compiled(r"[A-Z][a-z]+\d?(?:[A-Z][a-z]+)+|[a-z]+\.[a-z]+\d*").fullmatch(value)
    )


VALUE = r"(?:\\?[\"'](?P<quoted>[^\"'\\\n]{1,2048})|(?P<bare>[^\s\"'`,;&]{0,2047}[^\s\"'`,;&)\]}>]))"
PATTERN = (
    rf"(?i:(?P<word>{WORDS}))(?:_?\d{{1,2}})?\\?[\"']?"
    rf"(?P<sep>[ \t]{{0,3}}(?::=|=>|=|:)[ \t]{{0,3}}){VALUE}"
)
