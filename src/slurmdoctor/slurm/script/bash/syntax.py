"""Shapes of bash statements, as tree-sitter names them. Pure."""

from __future__ import annotations

import faulthandler
import os
import re
import resource
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from slurmdoctor.model import signal_name
from slurmdoctor.slurm.script.model import Command

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

GROUPS = frozenset({"subshell", "compound_statement"})
LOOPS = {"while_statement": "while", "for_statement": "for", "c_style_for_statement": "for"}
CAN_BE_LEFT = frozenset(
    {"command", "pipeline", "redirected_statement", "list", "if_statement", "case_statement", *GROUPS, *LOOPS}
)
"""Statements that `&` can leave running."""
REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_HARMLESS = 2_000
"""Bytes that are parsed at once, however broken."""
_SECONDS, _MEMORY = 1, 300 << 20
"""What the parser may take for a script."""
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})


class TestShape(NamedTuple):
    """`test && then`."""

    test: str
    then: str
    right: Node


@cache
def parser() -> Parser:
    """bash's grammar."""
    import tree_sitter_bash  # here: hardly any diagnosis has a script
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def parsed(data: bytes) -> Tree | None:
    """The tree of a text; None where it takes too much: of some broken texts the grammar's recovery takes gigabytes for 10 kB.

    A child tries it first, within limits: what happens there, the memory of this process does not.
    """
    return parser().parse(data) if len(data) < _HARMLESS or _can_be_parsed(data) else None


def _can_be_parsed(data: bytes) -> bool:
    grammar, child = parser(), os.fork()
    if child:
        return os.waitpid(child, 0)[1] == 0
    try:
        faulthandler.disable()  # it may well die, and nobody shall hear of it
        now = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[0]) * resource.getpagesize()
        for limit, most in (
            (resource.RLIMIT_CPU, _SECONDS),
            (resource.RLIMIT_AS, now + _MEMORY),
            (resource.RLIMIT_CORE, 0),
        ):
            hard = resource.getrlimit(limit)[1]
            resource.setrlimit(limit, (most if hard < 0 else min(most, hard), hard))
        grammar.parse(data)
        os._exit(0)
    finally:
        os._exit(1)


def in_background(node: Node) -> bool:
    after = node.next_sibling
    return after is not None and after.type == "&"


def errors(root: Node) -> Iterator[Node]:
    """The nodes that the parser could not make sense of."""
    cursor = root.walk()
    while node := cursor.node:
        wrong = node.type == "ERROR" or node.is_missing
        if wrong:
            yield node
        if not wrong and node.has_error and cursor.goto_first_child():
            continue
        while not cursor.goto_next_sibling():
            if not cursor.goto_parent():
                return


def strings(command: Command) -> Iterator[tuple[int, str, int]]:
    """The strings that a command hands to another shell: `bash -c "..."`, `--wrap`, `eval`. (word, text, first line)."""
    words = command.words
    shell = False
    for at in range(1, len(words)):
        option = words[at - 1].text
        shell = shell or option.rpartition("/")[2] in _SHELLS
        if (shell and re.fullmatch(r"-\w*c", option)) or option == "--wrap":
            yield at, words[at].text, words[at].line
    if command.name == "eval" and words[0].line:
        yield 1, " ".join(command.args), words[0].line


def signal(word: str) -> str:
    """`TERM` for `TERM`, `SIGTERM` and `15`; `EXIT` for `0`."""
    name = (signal_name(int(word)) if re.fullmatch("[0-9]{1,2}", word) else None) or word
    return "EXIT" if name == "0" else name.upper().removeprefix("SIG")


def last_test(root: Node, text: Callable[[Node], str]) -> TestShape | None:
    """The last statement of a text, where it is a test with a command behind it: false, it is the text's exit status."""
    statements = [child for child in root.named_children if child.type != "comment"]
    last = statements[-1] if statements else None
    if last is None or last.type != "list" or in_background(last) or last.has_error:
        return None
    left, right = last.named_children[0], last.named_children[-1]
    joined = text(last)[: right.start_byte - last.start_byte].rstrip()
    if not joined.endswith("&&") or not _is_test(left) or len(joined.encode()) != len(joined):
        return None
    return TestShape(joined.removesuffix("&&").rstrip(), text(right), right)


def _is_test(node: Node) -> bool:
    if node.type == "list":
        ands = all(child.type == "&&" for child in node.children if not child.is_named)
        return ands and all(map(_is_test, node.named_children))
    return node.type == "test_command"
