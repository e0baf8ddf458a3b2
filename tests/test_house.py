"""The house of the program: which room may import which, and how large a module and a function may be."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "slurmdoctor"
LONGEST_MODULE = 700
LONGEST_FUNCTION = 60
MOST_ENTRIES = 17
PYTHONS_OWN = {"__init__.py", "__main__.py", "py.typed", "__pycache__"}
"""Marks of a package: `import slurmdoctor`, `python -m slurmdoctor`, types for its users."""

ROOMS: dict[str, str] = {
    "doors": "",
    "processes": "",
    "model": "",
    "matching": "doors",
    "input": "doors model matching",
    "search": "doors processes model matching input",
    "knowledge": "doors model matching search",
    "ranks": "model matching input search knowledge",
    "classifier": "doors model",
    "readers": "doors model matching input search knowledge ranks classifier",
    "timeline": "model",
    "infer": "model timeline",
    "slurm": "doors processes model input knowledge",
    "report": "doors model matching knowledge slurm",
    "pipeline": "model input search knowledge ranks readers timeline infer slurm report",
    "knowledge.workshop": "doors model matching search knowledge ranks readers report",
    "survey": "doors processes model matching input knowledge ranks slurm report pipeline",
    "cli": "processes model matching input search knowledge slurm report pipeline knowledge.workshop survey",
}
"""Room -> the rooms that it may import. Rooms stand in the order of the data: a room imports only those above it.

A room is a folder, a module, or (`knowledge.workshop`) a part of a folder that few need.
"""


@cache
def _modules() -> dict[str, Path]:
    """Dotted name below the package -> file: `report.text` -> src/slurmdoctor/report/text.py."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = ".".join(file.relative_to(PACKAGE).with_suffix("").parts)
        found[name.removesuffix("__init__").removesuffix(".")] = file
    return found


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def _room(module: str) -> str | None:
    """The room that a module stands in: the longest name in the table that begins the module's."""
    inside = [room for room in ROOMS if module == room or module.startswith(f"{room}.")]
    return max(inside, key=len, default=None)


def _imports(file: Path) -> Iterator[tuple[int, str]]:
    """(line, imported module of ours), at the top, inside functions, and for types alone."""
    for node in ast.walk(_tree(file)):
        if isinstance(node, ast.ImportFrom):
            base = "slurmdoctor" if node.level else node.module or ""
            # the C module imports nothing
            names = [f"{base}.{alias.name}" for alias in node.names if alias.name != "_native"]
            found = [name if name.removeprefix("slurmdoctor.") in _modules() else base for name in names]
        elif isinstance(node, ast.Import):
            found = [alias.name for alias in node.names]
        else:
            continue
        yield from (
            (node.lineno, name.removeprefix("slurmdoctor.")) for name in found if name.startswith("slurmdoctor.")
        )


def test_every_module_stands_in_a_room() -> None:
    assert [name for name in _modules() if name not in ("", "__main__") and _room(name) is None] == []


def test_the_table_goes_one_way() -> None:
    above: list[str] = []
    for room, imports in ROOMS.items():
        assert set(imports.split()) <= set(above), room
        above.append(room)


@pytest.mark.parametrize("room", ROOMS)
def test_a_room_imports_only_what_the_table_allows(room: str) -> None:
    allowed = {room, *ROOMS[room].split()}
    wrong = [
        f"{name}:{line} imports {target}"
        for name, file in _modules().items()
        if _room(name) == room
        for line, target in _imports(file)
        if _room(target) not in allowed
    ]
    assert wrong == []


def test_a_room_is_entered_by_its_door() -> None:
    """No room imports past another's `__init__`, which names what others may use."""
    doors = {*ROOMS, "slurm.script"}
    past = [
        f"{name}:{line} imports {target}"
        for name, file in _modules().items()
        for line, target in _imports(file)
        if target.partition(".")[0] != name.partition(".")[0] and target not in doors
    ]
    assert past == []


def test_no_circle_of_modules() -> None:
    """Not even within a room, and not by an import inside a function."""
    imports = {name: {target for _, target in _imports(file)} for name, file in _modules().items() if name}
    while True:
        used = set().union(*imports.values())
        kept = {n: t & imports.keys() - {n} for n, t in imports.items() if n in used and t & imports.keys() - {n}}
        if kept == imports:
            break
        imports = kept
    assert imports == {}


def test_no_module_is_long() -> None:
    lengths = {name: len(file.read_text(encoding="utf-8").splitlines()) for name, file in _modules().items()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_MODULE} == {}


def test_no_function_is_long() -> None:
    lengths = {
        f"{name}.{node.name}": (node.end_lineno or 0) - node.lineno + 1
        for name, file in _modules().items()
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    assert {name: length for name, length in lengths.items() if length > LONGEST_FUNCTION} == {}


def test_only_one_module_prints() -> None:
    """All that is printed passes `cli.output`, which disarms it; the others write to files and pipes."""
    printing = ("print", "click.echo", "click.secho", "sys.stderr.write", "sys.stdout.write")
    calls = [
        f"{name}:{node.lineno}"
        for name, file in _modules().items()
        if name != "cli.output"
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in printing
    ]
    assert calls == []


def test_the_top_shows_at_a_glance() -> None:
    entries = {entry.name for entry in PACKAGE.iterdir() if not entry.name.startswith(".")} - PYTHONS_OWN
    assert len(entries) <= MOST_ENTRIES
    assert {entry.partition(".")[0] for entry in entries} == {room.partition(".")[0] for room in ROOMS}


def test_the_table_for_newcomers_is_this_one() -> None:
    text = (PACKAGE.parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")
    listed = re.findall(r"^\| `([\w.]+)` \| [^|]+ \| ([^|]*)\|$", text, re.M)
    assert {room: imports.replace("`", "").strip() for room, imports in listed} == ROOMS


DECIDED = {"verdict", "cause", "first_failure", "retry"}
"""What infer concludes; `report` words it once, in compose, and `survey` copies it."""


def test_nothing_decides_after_infer() -> None:
    """No room after infer gives a verdict, a cause, a first failure or a retry another value."""
    found = []
    for name, file in _modules().items():
        for node in ast.walk(_tree(file)) if _room(name) in ("report", "survey") else ():
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") in ("replace", "Diagnosis", "Finding"):
                values = [word.value for word in node.keywords if word.arg in DECIDED]
                parts = [part for value in values for part in ast.walk(value) if isinstance(part, ast.Constant)]
                found += [f"{name}:{part.lineno}: {part.value!r}" for part in parts if part.value is not None]
    assert found == []


def test_no_two_modules_have_one_name() -> None:
    names = [name.rpartition(".")[2] for name in _modules() if _modules()[name].name not in PYTHONS_OWN]
    # a command's module is called as the command
    assert sorted({name for name in names if names.count(name) > 1} - {"explain"}) == []
