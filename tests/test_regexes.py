"""No pattern of ours takes more than linear time on any line: each is tried on lines made of its own loops.

Those of rule files are proven by `rules check` (tests/test_catalogue.py), as a site's are; here are those of the Python code.
"""

from __future__ import annotations

import ast
import importlib
import re
import signal
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType, ModuleType
from typing import Any

import pytest
import regex

import slurmdoctor
from slurmdoctor.knowledge import builtin, load, text
from slurmdoctor.knowledge.workshop.proof import slowest
from slurmdoctor.matching import patterns
from slurmdoctor.matching.patterns import LAZY, apart, captures
from slurmdoctor.model import LineFormat, Text

PACKAGE = Path(slurmdoctor.__file__).parent
MAKERS, ASKS = (
    {"lazy", "later", "compiled", "captures"},
    {"search", "sub", "subn", "split", "findall", "finditer"},
)
BOUNDED = {
    "input/files.py": "a file's name",
    "input/job_names.py": "a path: 4,096 bytes, of which a name has 255",
    "knowledge/workshop/proof.py": "a pattern of a rule file",
}
"""What is asked of short texts alone, and why they are short: on these it takes milliseconds."""
OLD_STAMP = (
    r"(?m)^(?:[^\w\n]*|\d+:\s*|[A-Z]+\s+|\[[^\]\n]{1,40}\]\s*|\S{1,40}[:|]\s+){0,4}"
    r"(20\d\d[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d)"
)
Key = tuple[str | bytes, str, int]


class Collector:
    """The patterns of the package: of each the library, the flags and how it is asked."""

    def __init__(self) -> None:
        self.asked: dict[Key, set[str]] = defaultdict(set)
        self.where: dict[Key, str] = {}
        names = [path for path in sorted(PACKAGE.rglob("*.py")) if path.stem != "__main__"]
        self.modules = {path: importlib.import_module(_dotted(path)) for path in names}
        self.trees = {path: ast.parse(path.read_text()) for path in names}
        self.above = {
            child: node for t in self.trees.values() for node in ast.walk(t) for child in ast.iter_child_nodes(node)
        }
        self.uses: dict[int, set[str]] = defaultdict(set)
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load):
                    above = self.above[node]
                    way = above.attr if isinstance(above, ast.Attribute) else "?"
                    self.uses[id(vars(self.modules[path]).get(node.id))] |= {way} - {"pattern"}
        for path, tree in self.trees.items():
            for node in ast.walk(tree):
                if isinstance(node, ast.Call) and node.args:
                    self._call(path, node)
        for pattern in LAZY:
            if (pattern, "regex", 0) not in self.asked:
                self._add((pattern, "regex", 0), {"search"}, "made when a module is imported")

    def _add(self, key: Key, ways: set[str], where: str) -> None:
        self.asked[key] |= {way if way in ("match", "fullmatch") else "search" for way in ways or {"?"}}
        self.where.setdefault(key, where)

    def _call(self, path: Path, node: ast.Call) -> None:
        """A pattern that a call is given, where it is one that the module alone tells."""
        made, module, above = node.func, self.modules[path], self.above[node]
        library, way = "regex", "compile"
        if isinstance(made, ast.Attribute) and isinstance(made.value, ast.Name) and made.value.id in ("re", "regex"):
            library, way = made.value.id, made.attr
        elif not isinstance(made, ast.Name) or made.id not in MAKERS:
            return
        given = _value(node.args[0], module)
        if not isinstance(given, (str, bytes)) or (
            library == "re" and way not in ASKS | {"compile", "match", "fullmatch"}
        ):
            return
        options = [
            _value(part, module) for part in (*node.args[1:], *(k.value for k in node.keywords if k.arg == "flags"))
        ]
        flags = sum(int(option) for option in options if isinstance(option, re.RegexFlag))
        if way != "compile":
            ways = {way}
        elif isinstance(above, ast.Attribute):
            ways = {above.attr}
        elif isinstance(above, ast.Assign) and isinstance(above.targets[0], ast.Name):
            ways = self.uses[id(vars(module).get(above.targets[0].id))]
        else:
            ways = {"search"}
        self._add((given, library, flags), ways, str(path.relative_to(PACKAGE)))


def _dotted(path: Path) -> str:
    return ".".join(["slurmdoctor", *path.relative_to(PACKAGE).with_suffix("").parts]).removesuffix(".__init__")


def _value(node: ast.expr, module: ModuleType) -> Any:
    try:
        return eval(compile(ast.Expression(node), "module", "eval"), vars(module))
    except Exception:
        return None  # made of what a log or a rule file says: the table's own patterns are tried


def _asker(pattern: str | bytes, library: str, flags: int, way: str) -> Callable[[str, float], object]:
    made: Any = (re if library == "re" else regex).compile(pattern, flags)

    def ask(line: str, seconds: float) -> object:
        signal.setitimer(signal.ITIMER_VIRTUAL, seconds)  # processor time: a busy machine makes no pattern slow
        try:
            return getattr(made, way)(line.encode("latin-1", "replace") if isinstance(pattern, bytes) else line)
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    return ask


def _compiled_by(pattern: str | bytes, library: str) -> str:
    """The library that compiles it in `search/compiled`."""
    try:
        re.compile(pattern)
    except re.error:
        return library
    return "re"


def _late(_number: int, _frame: FrameType | None) -> None:
    raise TimeoutError


@pytest.fixture
def interrupted() -> Iterator[None]:
    before = signal.signal(signal.SIGVTALRM, _late)
    yield
    signal.signal(signal.SIGVTALRM, before)


@pytest.mark.usefixtures("interrupted")
def test_no_pattern_of_ours_is_worse_than_linear() -> None:
    ours = Collector()
    assert len(ours.asked) > 250, "patterns are no longer found"
    slow = []
    for key, ways in ours.asked.items():
        pattern, library, flags = key
        text = pattern.decode("latin-1") if isinstance(pattern, bytes) else pattern
        for way in ways if ours.where[key] not in BOUNDED else ():
            if line := slowest(text, _asker(pattern, _compiled_by(pattern, library), flags, way)):
                slow.append(f"{ours.where[key]}: {text[:200]!r} on {line!r}")
    assert not slow, "\n".join(slow)


@pytest.mark.usefixtures("interrupted")
@pytest.mark.parametrize("pattern", [r"(a+)+b", r"^(?:a|a)*$"])
def test_a_pattern_of_the_standard_library_that_is_worse_is_found(pattern: str) -> None:
    assert slowest(pattern, _asker(pattern, "re", 0, "search")) is not None


WORSE = [
    # loops within a loop over the same characters
    r"(a+)+$",
    r"(?:\w+\.?)+Error",
    r"(\w+\w)*:",
    r"(?:.*,)+x",
    r"(x+x+)+y",
    r"(\d+,?)+ tasks",
    r"(?:a*)*b",
    r"^(?:(?:ab)+)+c",
    r"^(\w+\s?)*$",
    r"^(\d+\s*,?\s*)*$",
    r"^(?:[ab]+|[bc]+)*d",
    r"^(?:\w+[ x]?)+y",
    r"(?i)[a-z]+(?:-[a-z]+)*fail",
    # alternatives that begin alike
    r"^(a|aa)+$",
    r"^(?:\d+|\w+)+!",
    r"(?:a|b|ab)*c",
    r'"(?:[^"\\]|\\.)*" is gone',
    # one loop after another
    r"a*a*a*a*a*a*b",
    r"^\w+[ x]\w+[ x]\w+[ x]\w+y",
    r"^(.*?,){11}P",
    r"error(?: .*)? after .* s",
    r"=\s*.*\s*=",
    # one loop, begun at each character
    r"\w+Error",
    r"\s+$",
    r"\d+(?:\.\d+)* GiB",
    r"\S+@\S+\.com",
    r"(?:\w+/)+\w+\.py",
    r"[\w.]+\.[\w.]+\(",
    r"(?P<a>\S+) \S+ failed",
    r"x(?=\w+y)",
    r"(?:\S+,)*x",
    r"(?m)^(?:[^\w\n]*|\d+:\s*|[A-Z]+\s+|\[[^\]\n]{1,40}\]\s*|\S{1,40}[:|]\s+){0,4}(20\d\d[-/]\d\d[-/]\d\d[T _]\d\d:\d\d:\d\d)",
]
LINEAR = [
    r"^(?:\w+\.)*\w+Error: ",
    r"^(?:\s+\S+)*x",
    r"^\s*\w+(?:\.\w+)*Error: (.*?) at (.*)$",
    r"^(?>a+)+b",
    r"^(?:a++)+b",
    r"^\w+x",
    r"(?i)^(?:[a-z]+ )+timeout",
    r"CUDA out of memory\.(?: Tried to allocate (?P<size>[\d.]+ [KMG]iB))?",
    r"foo.{0,300}bar",
    r"^\[(?:[^\]]*)\] (?=x+)y{2,3}[]a]+(?#why)b",
    r"(?<!\w)\w+Error",
    r"(?<!\d)\d+ of x",
]


@pytest.mark.parametrize("pattern", WORSE)
def test_a_pattern_that_is_worse_than_linear_is_found(pattern: str) -> None:
    assert slowest(pattern) is not None


@pytest.mark.parametrize("pattern", LINEAR)
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


def test_groups_of_one_name_are_read_as_one() -> None:
    assert apart(r"(?P<a>x)|(?P<a>y)") == r"(?P<a>x)|(?P<a__1>y)"
    assert captures(r"(?P<a>x)|(?P<a>y)(?P<b>z)?", "y") == {"a": "y"}
    assert apart(again := r"(?P<a>x)(?P<a>y)(?P=a)") == again
