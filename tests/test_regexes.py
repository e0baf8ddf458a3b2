"""No pattern of ours takes more than linear time on any line: each is tried on lines made of its own loops.

Those of rule files are proven by `rules check` (tests/test_catalogue.py) as `regex` searches them, as a site's are; here are those
of the Python code, and those of our rule files as `re` searches them.
"""

import ast
import importlib
import re
import signal
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
import regex

import slurmdoctor
from slurmdoctor.knowledge import builtin, load, text
from slurmdoctor.knowledge.workshop.precompile import patterns_in
from slurmdoctor.knowledge.workshop.proof import Pattern, slowest
from slurmdoctor.matching import patterns
from slurmdoctor.matching.patterns import LAZY, apart, captures
from slurmdoctor.model import LineFormat, Text
from slurmdoctor.search.shapes import Shaped, relaxed
from tables import table

PACKAGE = Path(slurmdoctor.__file__).parent
MADE = re.compile(
    r"(?P<library>re|regex)\.(?P<way>compile|search|match|fullmatch|sub|subn|split|findall|finditer)"
    r"|lazy|later|compiled|captures"
)
"""The calls that are given a pattern."""
BOUNDED = {
    "input/files.py": "a file's name",
    "input/job_names.py": "a path: 4,096 bytes, of which a name has 255",
    "knowledge/workshop/proof.py": "a pattern of a rule file",
}
"""What is asked of short texts alone, and why they are short: on these it takes milliseconds."""


def our_patterns() -> Iterator[tuple[str, str, Any]]:
    """Each pattern that a module alone tells: (where, how it is asked, compiled)."""
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py")) if path.stem != "__main__"}
    package, found = "\n".join(texts.values()), set[str | bytes]()
    for path, source in texts.items():
        name = ".".join(["slurmdoctor", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")
        module = importlib.import_module(name)
        nodes = list(ast.walk(ast.parse(source)))
        called = {one.value: ast.unparse(one.targets[0]) for one in nodes if isinstance(one, ast.Assign)}
        chained = {one.value: one.attr for one in nodes if isinstance(one, ast.Attribute)}
        for node in nodes:
            made = MADE.fullmatch(ast.unparse(node.func)) if isinstance(node, ast.Call) and node.args else None
            if made is None or not isinstance(node, ast.Call):
                continue
            pattern, *options = [_value(part, module) for part in (*node.args, *(word.value for word in node.keywords))]
            if isinstance(pattern, (str, bytes)):
                asked = {chained.get(node, made["way"])}
                if node in called and made["way"] in (None, "compile"):
                    users = source if called[node].startswith("_") else package
                    asked = set(re.findall(rf"\b{called[node]}\.(\w+)", users)) - {"pattern"}
                way = asked.pop() if asked in ({"match"}, {"fullmatch"}) else "search"
                flags = sum(int(option) for option in options if isinstance(option, re.RegexFlag))
                yield str(path.relative_to(PACKAGE)), way, _compiled(pattern, flags, made["library"])
                found.add(pattern)
    yield from (("made at import", "search", _compiled(pattern)) for pattern in set(LAZY) - found)


def patterns_of_rules() -> Iterator[tuple[str, str, Any]]:
    """Each pattern of our rules that `re` takes: (type that has it, how it is asked, compiled)."""
    for owner, pattern in patterns_in(KNOWN):
        for asked in filter(None, (pattern, relaxed(pattern))):
            made = _compiled(apart(asked))
            if isinstance(made, re.Pattern):
                yield owner, "match" if owner == "LineFormat" else "search", made


def _value(node: ast.expr, module: ModuleType) -> Any:
    try:
        return eval(compile(ast.Expression(node), "module", "eval"), vars(module))
    except Exception:
        return None  # made of what a log or a rule file says: the table's own patterns are tried


def _compiled(pattern: str | bytes, flags: int = 0, library: str | None = None) -> Any:
    """As its module compiles it; where that is left to `matching`, by `re` where it can."""
    if library != "regex":
        with suppress(re.error):
            return re.compile(pattern, flags)
    return regex.compile(pattern, flags)


def _asker(made: Any, way: str) -> Callable[[str, float], object]:
    def ask(line: str, timeout: float) -> object:
        signal.setitimer(signal.ITIMER_VIRTUAL, timeout)  # processor time: a busy machine makes no pattern slow
        try:
            return getattr(made, way)(line.encode("latin-1", "replace") if isinstance(made.pattern, bytes) else line)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    return ask


def _late(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError


@pytest.fixture
def interrupted() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, _late)
    yield
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.slow
@pytest.mark.usefixtures("interrupted")
def test_no_pattern_of_ours_is_worse_than_linear() -> None:
    ours = {(made.pattern, made.flags, way): (where, made, way) for where, way, made in our_patterns()}
    assert len(ours) > 250, "patterns are no longer found"
    slow = []
    for where, made, way in ours.values():
        text = made.pattern.decode("latin-1") if isinstance(made.pattern, bytes) else made.pattern
        if where not in BOUNDED and (line := slowest(text, _asker(made, way))):
            slow.append(f"{where}: {text[:200]!r} on {line!r}")
    assert not slow, "\n".join(slow)


@pytest.mark.slow
@pytest.mark.usefixtures("interrupted")
def test_re_searches_a_line_of_usual_length_for_any_pattern_of_the_rules_in_a_tenth_of_a_second() -> None:
    slow, known = [], {(made.pattern, way): (owner, made) for owner, way, made in patterns_of_rules()}
    assert len(known) > 700, "patterns are no longer found"
    for (pattern, way), (owner, made) in known.items():
        ask = _asker(made, way)
        for line in {make(patterns.SHORT) for make in Pattern(pattern).hostile()}:
            try:
                ask(line, 0.1)
            except TimeoutError:
                slow.append(f"{owner}: {pattern[:200]!r} on {line[:60]!r}")
    assert not slow, "\n".join(slow)


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("pattern", [r"(a+)+b", r"^(?:a|a)*$"])
def test_a_pattern_of_the_standard_library_that_is_worse_is_found(pattern: str) -> None:
    assert slowest(pattern, _asker(re.compile(pattern), "search")) is not None


REGEXES = table("regexes")


@pytest.mark.slow
@pytest.mark.parametrize("pattern", REGEXES["worse"])
def test_a_pattern_that_is_worse_than_linear_is_found(pattern: str) -> None:
    assert slowest(pattern) is not None


@pytest.mark.parametrize("pattern", REGEXES["linear"])
def test_a_linear_pattern_is_left_alone(pattern: str) -> None:
    assert slowest(pattern) is None


KNOWN = load((builtin(),))
ENTRIES: tuple[Text | LineFormat, ...] = (*KNOWN.texts, *KNOWN.formats, *KNOWN.paths)


@pytest.mark.parametrize("entry", [one for one in ENTRIES if one.literals], ids=lambda one: one.id)
def test_a_text_or_label_needs_one_of_its_literals(entry: Text | LineFormat) -> None:
    """Its pattern is not even compiled for a text without them."""
    for sample in entry.samples:
        line = str(sample["line"])
        spoilt = line
        for literal in entry.literals:
            spoilt = spoilt.replace(literal, literal[:-1] + "\x7f")
        assert spoilt != line
        assert regex.search(entry.pattern, spoilt) is None
        if isinstance(entry, Text):
            assert text(entry.id).search(spoilt) is None
            assert text(entry.id).search(line) is not None


def test_a_sites_pattern_and_a_long_line_are_searched_within_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(patterns, "SECONDS", 0.05)
    assert captures(r"(?:x+x+)+y", "x" * 60, of_site=True) is None
    assert captures(r"(?:x+x+)+y", "x" * 4096) is None
    assert Shaped(r"(?:x+x+)+y", of_site=True).groups("x" * 60, b"x") is None


def test_groups_of_one_name_are_read_as_one() -> None:
    assert apart(r"(?P<a>x)|(?P<a>y)") == r"(?P<a>x)|(?P<a__1>y)"
    assert captures(r"(?P<a>x)|(?P<a>y)(?P<b>z)?", "y") == {"a": "y"}
    assert apart(again := r"(?P<a>x)(?P<a>y)(?P=a)") == again
