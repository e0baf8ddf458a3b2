"""The kinds of secrets that training logs hold: the pattern of each, and a check that keeps harmless text.

Written for this package rather than taken from a scanner's rule set: detect-secrets and gitleaks search
source code, where a false match costs a review; here it would mask a line of evidence. Both also take longer
to import than a whole diagnosis takes. The shapes of the tokens are public facts.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from msgspec import Struct

from slurmdoctor.report.redaction.assigned import PATTERN as ASSIGNED
from slurmdoctor.report.redaction.assigned import VALUE, WORDS, is_assigned

# A token begins where no word goes on: also after an escaped newline in a dumped string, or a percent escape.
_B = r"(?:(?<![A-Za-z0-9_-])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_E = r"(?![A-Za-z0-9_-])"


class Kind(Struct, frozen=True):
    """One kind of secret. The group `secret` is masked, or the whole match where there is none."""

    name: str
    gates: tuple[str, ...]
    """Lower-case literals, of which one must occur before the pattern is even compiled."""
    pattern: str
    check: Callable[[re.Match[str]], bool] | None = None


def _is_basic(match: re.Match[str]) -> bool:
    """`Basic` is a word of prose too: only user:password in base64 is a credential."""
    import base64  # here: it is slow to import, and hardly ever needed
    import binascii

    value = match["secret"]
    try:
        decoded = base64.b64decode(value + "=" * (-len(value) % 4), validate=True).decode()
    except (binascii.Error, ValueError):
        return False
    return ":" in decoded and decoded.isprintable()


def _has_digit(match: re.Match[str]) -> bool:
    return any(char.isdigit() for char in match["secret"])


def _is_wandb(match: re.Match[str]) -> bool:
    """Forty hex digits are a commit's name too: only what stands behind both words is a key."""
    before = match.string[max(0, match.start() - 240) : match.start()].rpartition("\n")[2].lower()
    return ("wandb" in before or "w&b" in before) and any(
        word in before for word in ("key", "login", "password", "authorize")
    )


# ── all of them, the most telling first ──────────────────────────────────────────────────────

KINDS: tuple[Kind, ...] = (
    Kind(
        "private key",
        ("private key",),
        # the body ends where the next dashes begin; of one that was cut off, what looks like base64 goes
        r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"(?:(?:(?!-----)[\sA-Za-z0-9+/=:,\-\\\"|>.]){0,16384}"
        r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----"
        r"|(?:\\n|\s|[A-Za-z0-9+/=]{16,16384})*)",
    ),
    Kind("hf token", ("hf_", "api_org_"), _B + r"(?:hf|api_org)_(?=[a-z0-9]{0,40}[A-Z])[A-Za-z0-9]{30,80}" + _E),
    Kind("github token", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), _B + r"gh[pousr]_[A-Za-z0-9]{30,255}" + _E),
    Kind("github token", ("github_pat_",), r"github_pat_[A-Za-z0-9_]{22,255}"),
    Kind(
        "gitlab token",
        ("glpat-", "gldt-", "glrt-", "glcbt-", "glptt-"),
        r"gl(?:pat|dt|rt|cbt|ptt)-[\w.-]{20,300}",
    ),
    Kind("wandb key", ("wandb_v1_",), r"wandb_v1_[\w-]{20,200}"),
    Kind(
        "wandb key",
        ("wandb", "w&b"),
        r"(?<![0-9A-Za-z])(?P<secret>(?:local-)?[0-9a-f]{40})(?![0-9A-Za-z])",
        _is_wandb,
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
        _B + r"(?P<secret>sk-(?:(?:proj|svcacct|admin|None|or|lf|or-v1)-[\w-]{20,300}|[A-Za-z0-9]{20,200}))" + _E,
        _has_digit,
    ),
    Kind("pypi token", ("pypi-",), _B + r"pypi-[\w-]{50,400}"),
    Kind("npm token", ("npm_",), _B + r"npm_[A-Za-z0-9]{36}" + _E),
    Kind("docker token", ("dckr_",), _B + r"dckr_(?:pat|oat)_[\w-]{20,100}"),
    Kind("api key", ("gsk_", "r8_", "xai-", "pplx-"), _B + r"(?:gsk_|r8_|xai-|pplx-)[A-Za-z0-9]{32,200}" + _E),
    Kind("databricks token", ("dapi",), _B + r"dapi[0-9a-f]{32}(?:-\d)?" + _E),
    Kind("vault token", ("hvs.", "hvb."), _B + r"hv[sb]\.[\w-]{20,300}"),
    Kind("neptune token", ("eyjhcglf",), _B + r"eyJhcGlf[\w+/-]{40,1000}={0,2}"),
    Kind("jwt", ("eyj",), _B + r"eyJ[\w-]{8,4096}\.[\w-]{8,8192}(?:\.[\w-]{0,4096}){1,3}"),
    Kind(
        "credential",
        ("authorization", "x-api-key", "private-token", "x-auth-token", "cookie"),
        r"(?i:authorization|x-api-key|private-token|x-auth-token|(?:set-)?cookie)\\?[\"']?\s{0,3}[:=]\s{0,3}\\?b?[\"']?"
        r"(?:(?i:bearer|basic|token|apikey|negotiate)\s{1,3})?"
        r"(?P<secret>(?!(?i:bearer|basic|token|apikey|negotiate)\s)[^\s\"',\\<>{}$*(\[]{6,4096})",
    ),
    Kind("credential", ("bearer ",), r"(?i:\bbearer)[ \t]{1,3}(?P<secret>[\w.~+/-]{16,4096}={0,2})", _has_digit),
    Kind("credential", ("basic ",), r"(?i:\bbasic)[ \t]{1,3}(?P<secret>[A-Za-z0-9+/]{8,1024}={0,2})", _is_basic),
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
        ASSIGNED,
        is_assigned,
    ),
    Kind(
        "secret",
        ("--",),
        rf"--(?:[A-Za-z0-9]{{1,30}}[_-]){{0,4}}(?i:(?P<word>{WORDS}))(?P<sep>[ \t]{{1,3}}){VALUE}",
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
    """Begin and end of the secret in a match."""
    for group in ("secret", "quoted", "bare"):
        if group in match.re.groupindex and match[group] is not None:
            return match.span(group)
    return match.span()
