"""The kinds of secrets that training logs hold: what each looks like, and what only looks like one.

Written for this package rather than taken from a scanner's rule set: detect-secrets and gitleaks hunt in
source code, where a false find costs a review; here it would blank a line of evidence. Both also cost more
start-up time than a whole diagnosis. The shapes of the tokens are public facts.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

# A token begins where no word goes on: also after an escaped newline in a dumped string, or a percent escape.
_B = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_E = r"(?![A-Za-z0-9_-])"


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of secret. The group `secret` is masked, or the whole match where there is none."""

    name: str
    gates: tuple[str, ...]
    """Lower-case literals, of which one must occur before the pattern is even compiled."""
    pattern: str
    check: Callable[[re.Match[str]], bool] | None = None


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern)


def _is_basic(match: re.Match[str]) -> bool:
    """`Basic` is a word of prose too: only user:password in base64 is a credential."""
    value = match["secret"]
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _has_digit(match: re.Match[str]) -> bool:
    return any(char.isdigit() for char in match["secret"])


# ── `NAME=value` ─────────────────────────────────────────────────────────────────────────────

_PASSWORD = r"password|passwd|passphrase|pwd|(?<=_)pass"
_KEY = (
    r"api[_-]?key|secret[_-]?access[_-]?key|secret[_-]?key|client[_-]?secret|private[_-]?key|account[_-]?key|"
    r"access[_-]?key|auth[_-]?key|encryption[_-]?key|signing[_-]?key|subscription[_-]?key|license[_-]?key|"
    r"(?:wandb|ngc|hf|openai|comet|kaggle)[_-]?key|secret|token"
)
_WORDS = f"{_PASSWORD}|{_KEY}"
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
        len(value) >= 8
        and mixed
        and not compiled(r"[A-Z][a-z]+\d?(?:[A-Z][a-z]+)+|[a-z]+\.[a-z]+\d*").fullmatch(value)
    )


_VALUE = r"(?:\\?[\"'](?P<quoted>[^\"'\\\n]{1,2048})|(?P<bare>[^\s\"'`,;&]{0,2047}[^\s\"'`,;&)\]}>]))"

# ── all of them, the most telling first ──────────────────────────────────────────────────────

KINDS: tuple[Kind, ...] = (
    Kind(
        "private key",
        ("private key",),
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:\\n|\\r|[\sA-Za-z0-9+/=:,\-\\\"|>])*?-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:\\n|\s|[A-Za-z0-9+/=]{16,})*)",
    ),
    Kind(
        "hf token", ("hf_", "api_org_"), _B + r"(?:hf|api_org)_(?=[a-z0-9]{0,40}[A-Z])[A-Za-z0-9]{30,80}" + _E
    ),
    Kind(
        "github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _B + r"gh[pousr]_[A-Za-z0-9]{30,255}" + _E
    ),
    Kind("github token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,255}"),
    Kind(
        "gitlab token",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-"),
        r"gl(?:pat|dt|rt|cbt|ptt)-[\w.-]{20,300}",
    ),
    Kind("wandb key", ("wandb_v1_",), r"wandb_v1_[\w-]{20,200}"),
    Kind(
        "wandb key",
        ("wandb", "wand b", "w&b"),
        r"(?i:w(?:and|&)b)[^\n]{0,160}?(?i:api[_ -]?key|login|key|password|authorize)[^\n]{0,80}?"
        r"(?<![0-9A-Za-z])(?P<secret>(?:local-)?[0-9a-f]{40})(?![0-9A-Za-z])",
    ),
    Kind(
        "aws key",
        ("akia", "asia", "abia", "acca"),
        _B + r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])",
    ),
    Kind(
        "aws secret",
        ("secret",),
        r"(?i:secret[_-]?access[_-]?key|aws[_-]?secret(?:[_-]?key)?)[\"']?\s{0,3}[:=]?\s{0,3}\\?[\"']?"
        r"(?P<secret>[A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])",
    ),
    Kind("google key", ("aiza",), _B + r"AIza[\w-]{35}" + _E),
    Kind("google token", ("ya29.",), _B + r"ya29\.[\w.-]{20,2000}"),
    Kind("google secret", ("gocspx-",), _B + r"GOCSPX-[\w-]{20,60}"),
    Kind(
        "slack token",
        ("xox", "xapp-"),
        _B + r"(?:xox[a-z](?:\.xox[a-z])?-[A-Za-z0-9-]{10,300}|xapp-\d-[A-Za-z0-9-]{10,300})",
    ),
    Kind(
        "slack webhook",
        ("hooks.slack.com",),
        r"hooks\.slack\.com/(?:services|workflows|triggers)/(?P<secret>[\w/-]{8,200})",
    ),
    Kind(
        "webhook",
        ("/api/webhooks/",),
        r"discord(?:app)?\.com/api/webhooks/(?P<secret>\d{5,30}/[\w-]{20,200})",
    ),
    Kind("webhook", ("webhook.office.com",), r"webhook\.office\.com/(?P<secret>webhookb2/[\w@/-]{20,300})"),
    Kind("telegram token", ("api.telegram.org",), r"api\.telegram\.org/bot(?P<secret>\d{5,15}:[\w-]{30,60})"),
    Kind("ngc key", ("nvapi-",), _B + r"nvapi-[\w-]{20,200}"),
    Kind("anthropic key", ("sk-ant-",), _B + r"sk-ant-[\w-]{20,300}"),
    Kind(
        "sk- key",
        ("sk-",),
        _B
        + r"(?P<secret>sk-(?:(?:proj|svcacct|admin|None|or|lf|or-v1)-[\w-]{20,300}|[A-Za-z0-9]{20,200}))"
        + _E,
        _has_digit,
    ),
    Kind("pypi token", ("pypi-",), _B + r"pypi-[\w-]{50,400}"),
    Kind("npm token", ("npm_",), _B + r"npm_[A-Za-z0-9]{36}" + _E),
    Kind("docker token", ("dckr_",), _B + r"dckr_(?:pat|oat)_[\w-]{20,100}"),
    Kind(
        "api key", ("gsk_", "r8_", "xai-", "pplx-"), _B + r"(?:gsk_|r8_|xai-|pplx-)[A-Za-z0-9]{32,200}" + _E
    ),
    Kind("databricks token", ("dapi",), _B + r"dapi[0-9a-f]{32}(?:-\d)?" + _E),
    Kind("vault token", ("hvs.", "hvb."), _B + r"hv[sb]\.[\w-]{20,300}"),
    Kind("neptune token", ("eyjhcglf",), _B + r"eyJhcGlf[\w+/-]{40,1000}={0,2}"),
    Kind("jwt", ("eyj",), _B + r"eyJ[\w-]{8,4096}\.[\w-]{8,8192}(?:\.[\w-]{0,4096}){1,3}"),
    Kind(
        "credential",
        ("authorization", "x-api-key", "private-token", "x-auth-token", "cookie"),
        r"(?i:authorization|x-api-key|private-token|x-auth-token|(?:set-)?cookie)\\?[\"']?\s{0,3}[:=]\s{0,3}\\?b?[\"']?"
        r"(?:(?i:bearer|basic|token|apikey|negotiate)\s{1,3})?(?P<secret>(?!\[redacted)[^\s\"',\\<>{}$*(\[]{6,4096})",
    ),
    Kind(
        "credential", ("bearer ",), r"(?i:\bbearer)[ \t]{1,3}(?P<secret>[\w.~+/-]{16,4096}={0,2})", _has_digit
    ),
    Kind(
        "credential", ("basic ",), r"(?i:\bbasic)[ \t]{1,3}(?P<secret>[A-Za-z0-9+/]{8,1024}={0,2})", _is_basic
    ),
    Kind(
        "url password",
        ("://",),
        r"(?<=://)(?P<user>[^\s/:@'\"<>]{0,80}):(?P<secret>[^\s/'\"<>\[\]$*{}]{1,200})(?=@)",
    ),
    Kind("url token", ("://",), r"(?<=://)(?P<secret>[\w-]{20,200})(?=@)", _has_digit),
    Kind(
        "url signature",
        ("sig=", "signature=", "token=", "x-amz-", "x-goog-"),
        r"(?i:[?&;](?:sig|signature|x-(?:amz|goog)-(?:signature|credential|security-token)|access_token|auth_token)=)"
        r"(?P<secret>(?!\[redacted)[^\s&\"'<>;,]{8,4096})",
    ),
    Kind(
        "azure key",
        ("accountkey=", "accesskey="),
        r"(?i:account|shared ?access)(?i:key)=(?P<secret>[A-Za-z0-9+/]{20,120}={0,2})",
    ),
    Kind(
        "password",
        ("password",),
        r"\blogin[ \t]{1,3}\S{1,100}[ \t]{1,3}password[ \t]{1,3}(?P<secret>\S{1,200})",
    ),
    Kind(
        "password",
        ("docker login", "podman login"),
        r"(?:docker|podman) login[^\n]{0,120}?\s(?:-p|--password)[ =](?P<secret>[^\s$]{3,200})",
    ),
    Kind(
        "secret",
        ("token", "key", "secret", "pass", "pwd"),
        rf"(?i:(?P<word>{_WORDS}))(?:_?\d{{1,2}})?\\?[\"']?"
        rf"(?P<sep>[ \t]{{0,3}}(?::=|=>|=|:)[ \t]{{0,3}}){_VALUE}",
        is_assigned,
    ),
    Kind(
        "secret",
        ("--",),
        rf"--(?:[A-Za-z0-9]{{1,30}}[_-]){{0,4}}(?i:(?P<word>{_WORDS}))(?P<sep>[ \t]{{1,3}}){_VALUE}",
        is_assigned,
    ),
    Kind(
        "e-mail",
        ("@",),
        r"(?<![\w.%+/@-])(?!git@)[A-Za-z0-9][\w.%+-]{0,63}@(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?\.){1,6}"
        r"(?!(?:py|so|sh|log|out|err|txt|json|yaml|yml|cpp|cuh|mT)\b)"
        r"(?:[a-z]{2}|[A-Z]{2}|com|org|net|edu|gov|mil|int|info|biz|dev|cloud|tech|science|academy|institute|systems|"
        r"email|app|xyz|online|site|research|university|engineering|local|internal|COM|ORG|NET|EDU)(?![\w(\[-]|\.\w)",
    ),
)


def value_span(match: re.Match[str]) -> tuple[int, int]:
    """Where the secret itself stands in a match."""
    for group in ("secret", "quoted", "bare"):
        if group in match.re.groupindex and match[group] is not None:
            return match.span(group)
    return match.span()
