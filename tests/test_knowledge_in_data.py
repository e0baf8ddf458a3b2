"""What programs print, and what causes are called, stands in YAML: Python quotes neither."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import get_args

from slurmdoctor.knowledge import builtin, load
from slurmdoctor.model import ExitClass, Knowledge

SOURCE = Path(__file__).parents[1] / "src" / "slurmdoctor"
SHORTEST = 12
"""Characters from which on a literal of a rule is a program's message rather than a word."""
MAY_NAME_CAUSES = {
    "model/words.py": "the few causes that the reasoning itself names, each with its reason",
}
MAY_QUOTE = {
    "input/regular_files.py": "its own message, in the system's words",
    "readers/flight_recorder.py": "the beginning of its own lines, which rules read",
    "slurm/query.py": "what scontrol prints where Slurm does not answer: no log's line",
    "slurm/script/plan.py": "a variable's name, as scripts set it",
}


@cache
def knowledge() -> Knowledge:
    return load((builtin(),))


def strings(file: Path) -> Iterator[tuple[int, str]]:
    """The string literals of a file but for its docstrings and the text that attributes are explained with."""
    tree = ast.parse(file.read_text())
    explained = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str | bytes) and id(node) not in explained:
            text = node.value if isinstance(node.value, str) else node.value.decode("utf-8", "replace")
            yield node.lineno, text


def quoted(texts: set[str], whole: bool = False) -> dict[str, list[str]]:
    """The files that quote one of these texts, and where; `whole`: as a string of its own."""
    found: dict[str, list[str]] = {}
    for file in sorted(SOURCE.rglob("*.py")):
        name = str(file.relative_to(SOURCE))
        for line, text in strings(file):
            hits = {text} & texts if whole else {one for one in texts if one in text}
            if hits:
                found.setdefault(name, []).append(f"{name}:{line}: {', '.join(sorted(hits))}")
    return found


def test_python_names_no_cause_and_no_rule() -> None:
    names = {*knowledge().causes, *(rule.id for rule in knowledge().rules)}
    # words of other things, too: exit classes, and a label of docker's
    others = {*get_args(ExitClass), "container"}
    assert quoted(names - others, whole=True).keys() == MAY_NAME_CAUSES.keys()


def test_python_quotes_no_message_of_a_program() -> None:
    messages = {text for rule in knowledge().rules for text in rule.literals if len(text) >= SHORTEST}
    found = quoted(messages)
    wrong = [place for name, places in found.items() if name not in MAY_QUOTE for place in places]
    assert not wrong, "\n".join(wrong)
    assert found.keys() == MAY_QUOTE.keys()
