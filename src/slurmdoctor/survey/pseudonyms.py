"""`--anonymize`: a row without the names of users, accounts, jobs, nodes and paths, which get stable pseudonyms instead.

A pseudonym is an HMAC of the name with the user's own key: the same name has the same one in every row and every run, and without
the key nobody can tell by hashing a list of names whose it is. Partitions and clusters get pseudonyms, too: many a partition is named
after the group that bought it, and a cluster's name says whose it all is. Ids of jobs stay: they are numbers, and who may ask
Slurm for the names behind them needs no dataset. Sizes, times, states, causes and exits stay as they are. Texts (evidence, fixes,
last lines, errors, notes) pass `--redact strict`, and lose besides what the row's own columns call by name, and all paths.
"""

from __future__ import annotations

import hmac
import os
import re
import secrets
import stat
from collections.abc import Iterable, Iterator, Sequence
from hashlib import sha256
from pathlib import Path

from msgspec.structs import replace

from slurmdoctor.model import UserError
from slurmdoctor.report import Pseudonyms, Redactor, one_line
from slurmdoctor.survey.dataset import replacing
from slurmdoctor.survey.rows import Row

NAMES = {
    "cluster": "cluster",
    "account": "account",
    "partition": "partition",
    "job_name": "job",
    "user": "user",
    "node": "node",
}
"""Column -> what its pseudonyms are called."""
LISTS = {"nodes": "node", "exclude_nodes": "node", "logs": "log"}
TEXTS = ("title", "evidence", "fix", "last_line", "error", "notes")
_SIZE = 12
"""Hexadecimal digits: among a million names two are equal by chance once in 500 datasets."""
_ID = re.compile(r"\d+(?:[_+.]\d+)*(?:_\[[\d,%-]+\])?")
"""A job's id as Slurm writes it; others may hold the name of a host."""
_HIDDEN = re.compile("[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\ufeff\ufffd]")
"""What divides a word, and cannot be seen."""
_TOKENS = re.compile(r"[\w.+@=%,:~/-]+")
"""Words as files are called."""
_SHORT = 4
"""A name of fewer letters is one only where a word ends on both sides."""
_NO_WORD_BEFORE = (
    r"(?:(?<![A-Za-z0-9])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2})|(?<=\\u[0-9A-Fa-f]{4})|(?<=\\x[0-9A-Fa-f]{2}))"
)
_PLACES = re.compile(
    r"(?P<url>\b[A-Za-z][A-Za-z0-9+.-]{1,20}://[^\s'\"<>()\[\]{},;]+)"
    r"|(?P<user>(?<![\w.+-])[\w.+-]{1,64}@[A-Za-z0-9][\w.-]{0,200}\w)"
    r"|(?P<path>(?<![\w/])(?:[A-Za-z]:\\\\?|\\\\\\\\|~[\w.-]*/|\.{0,2}/)[^\s'\"`<>(){}\[\]|;,:*?]*[^\s'\"`<>(){}\[\]|;,:*?.]"
    r"|(?<![\w/.+@=-])[\w.+@=-]+(?:/[\w.+@=-]+)+/?)"
    r"|(?P<option>(?:--(?:partition|account|reservation|qos|job-name|nodelist|exclude|mail-user|wckey)[= ]|\bpartition specified: )"
    r"(?:\[[^\]]*\]|[^\s'\"\[])+)"
    r"|(?P<uid>(?i:\buid[ =:]{1,3})\d+)"
    r"|(?P<host>(?<![\w.@-])(?:[a-z0-9][a-z0-9-]{0,62}\.){1,6}"
    r"(?:edu|gov|mil|org|net|com|int|eu|ac\.[a-z]{2}|uk|de|fr|ch|at|it|es|nl|be|se|no|fi|dk|pl|cz|pt|gr|ie|jp|cn|kr|in|au|nz|ca|us|br|il)"
    r"(?![\w.-]))"
)
"""What names a place or a person without being in a column."""
_RATIO = re.compile(r"[\d.]+(?:/[\d.]+)+|[A-Za-z]{1,8}/[A-Za-z]{1,2}")
"""Has a stroke and is no path: 3/8, it/s, I/O."""
_GIVEN = (
    r"(?:bucket|folder|group|mac|user|host|ip|node|log|path|url|job|account|partition|cluster|uid|option)-[0-9a-f]{12}"
)
_KEY_SIZE = 32
"""Bytes."""
_KEY_NAME = "pseudonyms.key"


class Anonymizer:
    """Gives pseudonyms by one key: the user's own."""

    def __init__(self, key: bytes | None = None) -> None:
        self._key = key or own_key()

    @property
    def id(self) -> str:
        """Which key it is: it tells nothing of the key itself."""
        return self._digest("", "key")

    def name(self, kind: str, name: str) -> str:
        """The pseudonym of a name. Nodes and hosts are one kind, as texts do not tell them apart."""
        kind = "node" if kind == "host" else kind
        return f"{kind}-{self._digest(kind, name)}"

    def identity(self, key: str, fingerprint: str) -> tuple[str, str]:
        """What a dataset calls a job, and what it knows it by: both are made of paths and ids."""
        return f"run-{self._digest('run', key)}", self._digest("fingerprint", fingerprint, 32)

    def row(self, row: Row) -> Row:
        """The row without names."""
        key, fingerprint = self.identity(row.key, row.fingerprint)
        own = _Own(self, row)
        *texts, last = TEXTS
        plain = own.texts([*(getattr(row, column) for column in texts), *getattr(row, last)])
        return replace(
            row,
            key=key,
            fingerprint=fingerprint,
            job_id=row.job_id if row.job_id is None or _ID.fullmatch(row.job_id) else self.name("job", row.job_id),
            state=row.state and row.state.split()[0],
            evidence_file=row.evidence_file and own.file(row.evidence_file),
            notes=tuple(note or "" for note in plain[len(texts) :]),
            **dict(zip(texts, plain, strict=False)),
            **{column: (name := getattr(row, column)) and self.name(kind, name) for column, kind in NAMES.items()},
            **{column: tuple(self.name(kind, one) for one in getattr(row, column)) for column, kind in LISTS.items()},
        )

    def _digest(self, kind: str, name: str, size: int = _SIZE) -> str:
        word = f"{kind}\0{name}".encode("utf-8", "surrogatepass")
        return hmac.new(self._key, word, sha256).hexdigest()[:size]


class _Keyed(Pseudonyms):
    """The strict redaction's pseudonyms, by the key."""

    given = _GIVEN

    def __init__(self, names: Anonymizer) -> None:
        super().__init__()
        self._names = names

    def new(self, kind: str, name: str) -> str:
        return self._names.name(kind, name)


class _Own:
    """The names of one row, and its texts without them."""

    def __init__(self, names: Anonymizer, row: Row) -> None:
        self._names = names
        self._logs = row.logs
        self._new: dict[str, str] = {}
        """Name in small letters -> pseudonym."""
        for name, kind, whole in _named(row):
            self._new.setdefault(name.casefold(), names.name(kind, whole))
        self._pattern = _pattern(row)

    def file(self, name: str) -> str:
        """The pseudonym of a file that the evidence calls by the end of its path."""
        whole = next((log for log in self._logs if log == name or log.endswith(f"/{name.lstrip('./')}")), name)
        return self._names.name("log", whole)

    def texts(self, texts: Sequence[str | None]) -> list[str | None]:
        """The texts without names."""
        plain = tuple("" if text is None else self._without_own(_HIDDEN.sub("", one_line(text))) for text in texts)
        masked = Redactor("strict", names=_Keyed(self._names)).values(plain)
        return [
            None if text is None else _PLACES.sub(self._place, new) for text, new in zip(texts, masked, strict=True)
        ]

    def _without_own(self, text: str) -> str:
        text = self._pattern.sub(self._own, text) if self._pattern else text
        return _TOKENS.sub(lambda found: self._new.get(found[0].casefold(), found[0]), text)

    def _own(self, found: re.Match[str]) -> str:
        word = found[0].casefold()
        return self._new.get(word) or self._new.get(word.partition(".")[0]) or self._names.name("node", found[0])

    def _place(self, found: re.Match[str]) -> str:
        kind, word = found.lastgroup or "path", found[0]
        if kind == "option":
            at = max(word.rfind("="), word.rfind(" ")) + 1
            sign, value = word[:at], word[at:]
            return word if re.fullmatch(rf"{_GIVEN}(?:,{_GIVEN})*", value) else f"{sign}{self._names.name(kind, value)}"
        if re.fullmatch(_GIVEN, word) or (kind == "path" and _RATIO.fullmatch(word)):
            return word
        return self._new.get(word.casefold()) or self._names.name(kind, word)


def _named(row: Row) -> Iterator[tuple[str, str, str]]:
    """(name, kind, whole name) of all that the row's columns name, and of their parts that texts use alone."""
    for column, kind in (*NAMES.items(), *LISTS.items()):
        value = getattr(row, column)
        for whole in value if isinstance(value, tuple) else (value,):
            if whole and len(whole) > 1:
                yield whole, kind, whole
                yield (
                    (
                        whole.rpartition("/")[2]
                        if kind == "log"
                        else whole.partition(".")[0]
                        if kind == "node"
                        else whole
                    ),
                    kind,
                    whole,
                )
    if row.evidence_file:
        yield row.evidence_file, "log", row.evidence_file


def _pattern(row: Row) -> re.Pattern[str] | None:
    """What finds the row's names in a text, also within words; files are found as words, for a job may have thousands."""
    names: set[str] = set()
    stems: set[str] = set()
    domains: set[str] = set()
    for name, kind, _ in _named(row):
        short, _, domain = name.partition(".")
        stem = short.rstrip("0123456789") if kind == "node" else ""
        if stem and stem != short:
            stems.add(stem)
            domains |= {domain} - {""}
        elif len(name) > 1 and (kind != "log" or not _TOKENS.fullmatch(name)):
            names.add(name)
    parts = [_within(name, re.escape(name)) for name in _longest_first(names)]
    tail = r"(?:\d+|\[[\d,-]+\])"
    tail += rf"(?:\.(?:{'|'.join(map(re.escape, _longest_first(domains)))}))?" if domains else ""
    parts += [_within(stem, re.escape(stem) + tail) for stem in _longest_first(stems)]
    return re.compile("|".join(parts), re.IGNORECASE) if parts else None


def _longest_first(names: Iterable[str]) -> list[str]:
    return sorted(names, key=lambda name: (-len(name), name))


def _within(name: str, pattern: str) -> str:
    """The pattern of a name: a long one is found also within a word."""
    return pattern if len(name) >= _SHORT else rf"{_NO_WORD_BEFORE}{pattern}(?![A-Za-z0-9])"


# ── the user's own key: made at first use, in the config folder, for nobody else's eyes, and never inside a dataset ──


def own_key() -> bytes:
    """The key. Raises UserError where it cannot be read or made, or where others can read it."""
    path = key_place()
    try:
        if not os.path.lexists(path):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(path, path.parent, first=True) as file:  # of two runs at the same time both use one key
                file.write(secrets.token_hex(_KEY_SIZE).encode() + b"\n")
        handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, "rb") as file:
            status = os.fstat(handle)
            _prove(path, status)
            text = file.read(2 * _KEY_SIZE + 2).decode("ascii", "replace").strip()
    except OSError as error:
        mend = "make it readable and writable for you, or set XDG_CONFIG_HOME to another folder"
        raise UserError(f"the key of the pseudonyms, {path}, cannot be used: {error.strerror}", mend) from None
    try:
        found = bytes.fromhex(text)
    except ValueError:
        found = b""
    if len(found) != _KEY_SIZE:
        raise UserError(
            f"{path} is no key of slurmdoctor's", "remove it for a new one, with which all pseudonyms are others"
        )
    return found


def key_place() -> Path:
    """Where the key lies."""
    configured = os.environ.get("XDG_CONFIG_HOME", "")
    base = configured if configured.startswith("/") else os.path.expanduser("~/.config")  # noqa: PTH111 - never raises
    return Path(base, "slurmdoctor", _KEY_NAME)


def _prove(path: Path, status: os.stat_result) -> None:
    if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
        raise UserError(f"{path} is not a file of yours", "remove it, or set XDG_CONFIG_HOME to a folder of yours")
    if stat.S_IMODE(status.st_mode) & 0o077:
        raise UserError(
            f"others may read {path}, and tell names from pseudonyms with it",
            f"if nobody did, run chmod 600 {path}; else remove it for a new one",
        )
