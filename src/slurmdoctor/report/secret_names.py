"""Finds what is assigned to a key that names a secret: `name separator value`, with any separator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import TYPE_CHECKING

from slurmdoctor.matching import compiled, lazy
from slurmdoctor.model import Frozen, SecretKind

if TYPE_CHECKING:
    import regex


WORDS_APART = "\x1f"
"""What is between the words of a command in its view: no text holds it once it is disarmed."""
_LONGEST_NAME = 64
_ENOUGH = 128
"""So much of a value tells whether it is a secret."""
_IN_NAMES = "_.-ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
# Chinese and Japanese set no blank between a name and what is said of it. In ASCII, which `re` suffices for, `\w` is as much.
_REST_OF_ANY_NAME = lazy(r"[^\W\p{Lo}]{0,48}(?:[-.][^\W\p{Lo}]{1,48}){0,4}")
_REST_OF_NAME = lazy(r"\w{0,48}(?:[-.]\w{1,48}){0,4}")
_WORD_BEFORE_KEY = lazy(
    r"(?i)\b(?:api|access|secret|private|encryption|signing|license|account|auth|storage|service|master)[ ]$"
)
_CODED = lazy(r"(?i:[_-]?(?:b64|base64|hex|enc|encoded|raw|plain|value))?[_-]?\d{0,2}$")
"""The end of a name that says how its value is written, or which of several it is."""
_PARTS = lazy(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[A-Z]|\d+")
_PARTS_OF_ANY = lazy(r"\p{Lu}?\p{Ll}+|\p{Lu}+(?!\p{Ll})|\p{Lu}|[\p{Lo}\p{Lm}\p{M}]+|\d+")
_MOST_PARTS = 4

_SEPARATOR = lazy(
    r"(?P<close>[\"'`*]{0,3}[\])]{0,2})(?:"
    r"[ ]?:[ ]?(?:str|bytes|(?:Optional|Final)\[str\]|SecretStr)(?:[ ]\|[ ]None)?[ ]?=[ ]?"  # a field of a class, in code
    r"|(?P<word>[ \t]{0,8}:[ \t]{0,8}(?:[|>][-+\d]{0,2}[ \t]{0,8})?\n[ \t]{1,64})"  # a value of lines, in YAML
    r"|[ \t]{0,64}(?::=|=>|[-=]>|={1,3}(?:[ \t]{0,64}\n)?|(?P<colon>:{1,2})|[→⇒])[ \t]{0,64}"
    r"|[ \t]{0,8}(?:\.{2,120}|(?:[ ]\.){2,60}|…+)[ \t]{0,8}[:=]?[ \t]{0,8}"
    r"|(?P<weak>,?[ \t]{1,4}[\"']?value[\"']?[ ]?[=:][ ]?|</name>\s{0,20}<value>|</t[dh]>\s{0,20}<td[^<>\n]{0,60}>"
    r"|(?<=[\"'`]),\s{0,64}(?=[bru]{0,2}[\"'`])|(?P<row>,)(?=[^\s,])"
    r"|[ \t]{0,64}[|│┃¦][ \t]{0,64}|\t[ \t]{0,64}|[ ]{2,64})"
    r"|(?P<tag>(?:[ ][ \w=\"':/#.-]{0,120})?>\s{0,64})"
    r"|(?P<word>(?:[ ](?:for|of|to|für|von|pour|de|du|per|di|para|do|da|voor|van|för|til|dla|pro|для|пользователя)"
    r"(?:[ ][\w@.'\"-]{1,64}){1,3}?|[ ][(\[][\w@. -]{1,64}[)\]])?(?:[ ]?[:=]|[ ](?i:is|was|used|given|provided|value|ist|war|lautet|est|es|é|è|är|er|on|to|je|это)"
    r"[ ]?[:=]?)[ ]|[ ]?[是为為は은는][ ]?:?[ ]?|[ ]|\x1f|\n[ \t|│┃]{0,64}))"
    r"(?:(?:SecretStr|Secret|Password|str|bytes|repr|quote)\((?=[\"'bru]))?(?:!!str[ ])?"
)
# A comma, semicolon or ampersand belongs to a value where what follows it is no other key and no other word.
_BARE_SIGN = (
    rf"(?:[^\s\"'`,;&<{WORDS_APART}]|<(?!/)|(?<=\w)[\"'](?=\w)"
    r"|[,;&](?=[^\s\"'`,;&=:(){}\[\]]{1,64}(?:[\s\"'`]|$)))"
)
_VALUE = lazy(
    r"[bBrRuUfF]{0,2}(?P<q>\"\"\"|'''|[\"'`])"
    rf"(?P<quoted>(?:\\[^\n]|(?!(?P=q))[^\\\n{WORDS_APART}]){{1,{_ENOUGH}}})"
    rf"|(?P<bare>{_BARE_SIGN}{{1,{_ENOUGH}}})"
)
_REST_OF_BARE = lazy(rf"{_BARE_SIGN}{{1,65536}}")
_REST_OF_QUOTED = {q: lazy(rf"(?:\\[^\n]|[^\\\n{q}]){{1,65536}}") for q in "\"'`"}
_REST_OF_WORD = lazy(rf"[^{WORDS_APART}\"'\n]{{1,65536}}")

_PLACE = lazy(
    r"\$|<[^<>]*>?$|\[|\{|\*{3}|%[(s{]|\.{2,3}$|\.{3}|\\[nrt\"']|\(|(?:\.{1,2}|~)/|/(?:[a-z_][a-z0-9_.@-]*|Users|Volumes|[\w.-]*\.[a-z]{1,5})(?:/|$)|[A-Z]:\\|(?i:x{3,}|your[-_ ])"
)
"""A variable, a template, a mask or a path, where a value begins so."""
_NUMBER = lazy(r"[-+]?(?:0x[0-9a-fA-F]+|[\d.,_/:x]+(?:[eE][-+]?\d+)?[A-Za-z%]{0,3})")
_CODE = lazy(
    r"(?:[A-Za-z_]\w*\.)+\w*[\[(]|[A-Za-z_]+[\[(]|(?:self|args|cfg|config|settings|os|params|opts)\.\w|torch\.|cuda:|\w+::\w"
)
_WORDS = lazy(
    r"[A-Z]{0,4}[a-z]{2,18}\d?(?:[A-Z]{1,4}[a-z]{2,14}\d?){0,4}[A-Z]{0,5}[a-z]?\d{0,4}|[A-Z]{1,18}\d{0,4}|[a-z]?\d{0,4}"
    r"|\d{1,8}[A-Za-z]{0,3}"
)
_APART = lazy(r"[^A-Za-z0-9]+")
_PROSE_GOES_ON = lazy(r"[ \t]+(?![\w.-]{1,40}[\"']?[ ]?[=:])[A-Za-z(]")
_OPENS_TAG = lazy(r"<(?:[\w.-]{1,30}:)?$")
_UNSPOKEN = lazy(r"[b-df-hj-np-tv-xz]{5}|^[b-df-hj-np-tv-xz]+$")
"""No word of English: five consonants in a row, or nothing else."""
_SIGNED = lazy(r"\d|[#$%^&*+?@~!=](?=\w)")
_PAIRED = lazy(r"(?=.*\d)[A-Za-z0-9#$%^&*+?@~!:]+")
"""Letters and digits with signs that neither paths nor names of files and classes have."""
_LAST_CELL = lazy(r"[\s|│┃¦]*$")
_METAVAR = lazy(r"[A-Z][A-Z_]*")


class Named(Frozen):
    """A key whose name says that its value is a secret."""

    kind: SecretKind
    name: str

    @property
    def is_flag(self) -> bool:
        return self.name.startswith("-")


def assigned(
    text: str, among: Sequence[SecretKind], *, flags_only: bool = False
) -> Iterator[tuple[int, int, SecretKind]]:
    """(begin, end, kind) of each value that is assigned to a name of these kinds; `flags_only`: to an option alone."""
    kinds = [kind for kind in among if kind.names]
    if not kinds:
        return
    stems = compiled("(?i:" + "|".join(sorted({one for kind in kinds for one in kind.literals}, reverse=True)) + ")")
    done = 0
    for hit in stems.finditer(text):
        if hit.start() < done:
            continue
        named, end = _named(text, hit, kinds)
        done = max(end, hit.end())
        if named is None or (flags_only and not named.is_flag):
            continue
        found = _value(text, end, named)
        if found is not None:
            done = found[1]
            yield (*found, named.kind)


def _named(text: str, hit: regex.Match[str], kinds: Sequence[SecretKind]) -> tuple[Named | None, int]:
    before = text[max(0, hit.start() - _LONGEST_NAME) : hit.start()]
    start = hit.start() - len(before) + len(before.rstrip(_IN_NAMES))
    rest = (_REST_OF_NAME if text.isascii() else _REST_OF_ANY_NAME).match(text, hit.end())
    end = rest.end() if rest else hit.end()
    if text[start:end].lower() == "key" and (word := _WORD_BEFORE_KEY.search(text, max(0, start - 12), start)):
        start = word.start()
    name = text[start:end]
    kind = _kind_of(name, kinds)
    return (Named(kind, name) if kind is not None else None), end


def _kind_of(name: str, kinds: Sequence[SecretKind]) -> SecretKind | None:
    """The kind whose names this one is or ends in: `OPENAI_API_KEY`, `apiKey` and `api-key-2` are an `api_key`."""
    parts_of = _PARTS if name.isascii() else _PARTS_OF_ANY
    parts = [part.lower() for part in parts_of.findall(_CODED.sub("", name))]
    ends = {"".join(parts[-count:]) for count in range(1, min(len(parts), _MOST_PARTS) + 1)}
    whole = "".join(parts)
    for kind in kinds:
        words = _Words.of(kind)
        if not words.never.isdisjoint(ends):
            continue
        if not words.names.isdisjoint(ends) or (words.glued and whole.endswith(words.glued)):
            return kind
    return None


class _Words(Frozen):
    """The names of a kind as they are compared: in small letters, without signs."""

    names: frozenset[str]
    glued: tuple[str, ...]
    """Names that another word may stand before without a sign: `PGPASSWORD`."""
    never: frozenset[str]

    @staticmethod
    @cache
    def of(kind: SecretKind) -> _Words:
        plain = [name.replace("_", "") for name in kind.names]
        glued = tuple(name[1:] for name in plain if name[0] == "*")
        return _Words(frozenset(plain), glued, frozenset(name.replace("_", "") for name in kind.but_not))


def _value(text: str, at: int, named: Named) -> tuple[int, int] | None:
    between = _SEPARATOR.match(text, at) if at < len(text) else None
    if between is None:
        return None
    value = _VALUE.match(text, between.end())
    if value is None or not _is_secret(value, between, named, text):
        return None
    start, end = value.span("bare" if value["quoted"] is None else "quoted")
    if between["word"] == WORDS_APART:
        rest = _REST_OF_WORD.match(text, start)
        end = rest.end() if rest else end
    elif end - start == _ENOUGH:
        more = _REST_OF_BARE if value["quoted"] is None else _REST_OF_QUOTED[value["q"][0]]
        rest = more.match(text, end)
        end = rest.end() if rest else end
    if value["quoted"] is None:
        end = start + len(text[start:end].rstrip(")]}>:"))
    return start, end


def _is_secret(value: regex.Match[str], between: regex.Match[str], named: Named, text: str) -> bool:
    """Whether the value is a secret, not a placeholder, code or prose."""
    secret = value["quoted"] or value["bare"]
    quoted = value["quoted"] is not None
    bare = secret if quoted else secret.rstrip(")]}>:.")
    if len(bare) < 4 or len(set(bare)) < 3 or is_none(bare, named.kind) or _PLACE.match(bare):
        return False
    if not quoted and _CODE.match(bare):
        return False
    if named.is_flag and _METAVAR.fullmatch(bare):
        return False
    if bare.lower().replace("-", "_") == named.name.lower().lstrip("-").replace("-", "_"):
        return False
    if named.kind.value == "any":
        return _is_password(bare, value, between, named, text)
    if between["word"] and not named.is_flag and not (len(bare) >= 16 and has_digit(bare)):
        return False
    if (between["tag"] is not None and not _in_tag(text, between.start(), named)) or not bare.isascii():
        return False
    prose = between["colon"] is not None and not quoted
    return _is_key(bare, named, plain=between["weak"] is None and between["word"] is None and not prose)


def _is_password(secret: str, value: regex.Match[str], between: regex.Match[str], named: Named, text: str) -> bool:
    """A password may be any word; but where a word may as well be prose or another cell of a table it is none."""
    quoted = value["quoted"] is not None
    lower = secret.lower()
    if not quoted and compiled(r"(?:[a-z]+[_.])+(?:" + "|".join(named.kind.literals) + r")\w*").fullmatch(lower):
        return False  # password=db_password: a variable of the code that is shown
    if between["tag"] is not None:
        return _in_tag(text, between.start(), named)
    if between["row"] is not None:
        return is_random(secret)
    if between["word"] and not named.is_flag:
        return (named.name.isupper() or quoted or between["word"] != " ") and not (
            _SIGNED.search(secret) is None or _NUMBER.fullmatch(secret)
        )
    if between["weak"] is not None:
        varied = has_digit(secret) or not secret.replace("_", "").replace("-", "").replace(".", "").isalnum()
        return varied or _is_row(text, between, value, named)
    wordy = secret.rstrip(",.!").isalpha() and (secret.islower() or secret.istitle()) and not _UNSPOKEN.search(lower)
    return quoted or between["colon"] is None or not wordy or _PROSE_GOES_ON.match(text, value.end()) is None


def _is_row(text: str, between: regex.Match[str], value: regex.Match[str], named: Named) -> bool:
    """Whether name and value are all of a row: `| password | abc |`, `password<TAB>abc`."""
    if _LAST_CELL.match(text, value.end()) is None:
        return False
    start = text.rfind("\n", 0, between.start()) + 1
    before = text[start : between.start() - len(named.name)].rstrip(" \t\"'`")
    return not before.strip("|│┃¦") or before.endswith((":", ": |"))


def _in_tag(text: str, end: int, named: Named) -> bool:
    """Whether the name is in a tag: `<password>`, `<wsse:Password>`."""
    start = end - len(named.name)
    return _OPENS_TAG.search(text, max(0, start - 32), start) is not None


def _is_key(secret: str, named: Named, plain: bool) -> bool:
    if _NUMBER.fullmatch(secret) or len(secret) < 6:
        return False
    if plain and named.name.isupper() and "_" in named.name and named.kind.value != "dense":
        return True
    if is_random(secret) or (named.kind.value == "mixed" and not secret.isalnum() and _PAIRED.fullmatch(secret)):
        mixed = secret != secret.lower() and secret != secret.upper()
        return named.kind.value != "dense" or (len(secret) >= 16 and has_digit(secret) and mixed)
    if named.kind.value != "mixed" or not plain or not secret.isalnum():
        return False
    return len(secret) >= 10 or (has_digit(secret) and not secret.isdigit())


def is_none(secret: str, kind: SecretKind) -> bool:
    """Whether it is what no value of this kind is: a word of prose, a type, nobody's folder."""
    return bool(kind.unlike) and compiled(kind.unlike).fullmatch(secret.lower().strip("-_!.")) is not None


def has_digit(secret: str) -> bool:
    return any(char.isdigit() for char in secret)


def is_random(secret: str, least: int = 8) -> bool:
    """Whether a text is none of words and numbers: `tok_unk7` and `Qwen2ForCausalLM` are."""
    if len(secret) < least or " " in secret.strip() or _NUMBER.fullmatch(secret):
        return False
    return not all(_WORDS.fullmatch(part) for part in _APART.split(secret[:_ENOUGH]) if part)
