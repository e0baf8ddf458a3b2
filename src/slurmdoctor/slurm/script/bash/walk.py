"""The syntax tree of a text of bash → its commands, assignments, traps and shell options."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.slurm.script.bash.syntax import (
    CAN_BE_LEFT,
    GROUPS,
    LOOPS,
    REDIRECTS,
    errors,
    in_background,
    last_test,
    parsed,
    signal,
    strings,
)
from slurmdoctor.slurm.script.bash.words import TooMuchError, Value, Words, cost
from slurmdoctor.slurm.script.model import (
    Assignment,
    Background,
    Command,
    Early,
    EarlyUse,
    LastTest,
    Trap,
    Word,
)

if TYPE_CHECKING:
    from tree_sitter import Node

DEEPEST = 4
"""Strings within strings: deeper ones are not parsed."""
MOST = 2_000_000
"""Characters of all words, with their variables filled in. A statement counts as `_STATEMENT` of them."""
_STATEMENT = 500
_MOST_PIPED = 20
"""Programs behind a command in its pipe, the last ones, that are kept."""


class _Around(Struct, frozen=True):
    """What surrounds a statement."""

    background: bool = False
    piped_to: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


_TOP = _Around()
"""A statement of the script itself."""


class Walk:
    """Walks the syntax tree and collects commands, assignments, traps and shell options."""

    def __init__(self, values: dict[str, Value]) -> None:
        self.values = values
        self.commands: list[Command] = []
        self.assignments: list[Assignment] = []
        self.traps: list[Trap] = []
        self.early: list[EarlyUse] = []
        self.exported_early: list[Early] = []
        self.background: list[Background] = []
        self.last_tests: list[LastTest] = []
        self.read: list[tuple[str, int]] = []
        self.documents: list[tuple[int, int]] = []
        self.broken: list[int] = []
        self.in_subshell = False
        self.words = Words(values, self.statement, self.spend)
        self.depth = self.spent = 0
        self.line = 1
        self.function: str | None = None
        self.parent: Command | None = None

    def spend(self, characters: int) -> None:
        self.spent += characters
        if self.spent > MOST:
            raise TooMuchError

    def source(self, text: str, first: int, depth: int) -> None:
        """Walk shell text whose first line is line `first` of the script."""
        before = self.words, self.depth
        self.spend(_STATEMENT)
        self.words = Words(
            self.values, self.statement, self.spend, text.encode("utf-8", "replace"), first, self.words.nested
        )
        self.depth = depth
        began, tree = time.thread_time(), parsed(self.words.data)
        if tree is None:
            raise TooMuchError
        if depth:
            self.spend(int(MOST / 2 * (time.thread_time() - began)))  # strings are parsed for two seconds at most
        root = tree.root_node
        if depth == 0:
            self.broken = [self.words.line(node) for node in errors(root)]
        for child in root.named_children:
            self.statement(child)
        if test := last_test(root, self.words.text):
            line, program = self.words.line(test.right), self._program(test.right)
            self.last_tests.append(LastTest(line, test.test, test.then, program or test.then, self.parent))
        self.words, self.depth = before

    # ── statements ──

    def statement(self, node: Node, around: _Around = _TOP) -> None:
        if self.depth == 0:
            self.line = self.words.line(node)
        self.words.enter()
        if node.type in CAN_BE_LEFT and in_background(node) and not around.background:
            start = len(self.commands)
            self._statement(node, replace(around, background=True))
            if self.depth == 0 and start < len(self.commands):
                self._leave(node, tuple(self.commands[start:]))
        else:
            self._statement(node, around)
        self.words.nested -= 1

    def _statement(self, node: Node, around: _Around) -> None:
        if node.type == "command":
            self._command(node, around)
        elif node.type == "variable_assignment":
            self._assign(node, exported=False)
        elif node.type in ("declaration_command", "unset_command"):
            self._declare(node)
        elif node.type == "pipeline":
            self._pipeline(node, around)
        elif node.type == "redirected_statement":
            self._redirected(node, around)
        elif node.type == "function_definition":
            self._function(node)
        elif node.type == "subshell":
            self._subshell(node, around)
        else:
            inner = around if node.type in GROUPS else replace(around, piped_to=())
            for child in node.named_children:
                self.statement(child, inner)

    def _subshell(self, node: Node, around: _Around) -> None:
        """`( ... )`: what it sets is gone behind it."""
        self.spend(len(self.values))
        outer, held = self.in_subshell, dict(self.values)
        self.in_subshell = True
        for child in node.named_children:
            self.statement(child, around)
        self.in_subshell = outer
        self.values.clear()
        self.values.update(held)

    def _leave(self, node: Node, commands: tuple[Command, ...]) -> None:
        """`monitor.sh &`, and `while ...; done &`."""
        name = f"this `{LOOPS[node.type]}` loop" if node.type in LOOPS else self._program(node) or commands[0].name
        self.background.append(
            Background(name, self.words.line(node), commands, self.words.text(node)[:400], None, self.in_subshell)
        )

    def _declare(self, node: Node) -> None:
        """`export A=1 B`, `declare -x A=1`, `local A=1`."""
        exported = self.words.text(node).startswith(("export", "declare -x", "typeset -x"))
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._assign(child, exported)
            elif child.type == "variable_name" and exported:
                self._export(self.words.text(child), self.words.line(child))

    def _pipeline(self, node: Node, around: _Around) -> None:
        parts = [child for child in node.named_children if child.type != "comment"]
        programs = [self._program(part) for part in parts]
        for at, part in enumerate(parts):
            behind = (*programs[max(at + 1, len(parts) - _MOST_PIPED) :], *around.piped_to)
            self.statement(part, replace(around, piped_to=behind[-_MOST_PIPED:]))

    def _program(self, node: Node) -> str:
        """The name of the program that a part of a pipe runs."""
        if node.type == "command":
            first = next(
                (c for c in node.named_children if c.type not in ("variable_assignment", "file_redirect")), None
            )
            return self.words.word(first).text.rpartition("/")[2] if first is not None else ""
        inner = (child for child in node.named_children if child.type in ("command", "redirected_statement"))
        return next(map(self._program, inner), "")

    def _redirected(self, node: Node, around: _Around) -> None:
        around = replace(around, outputs=tuple(self._outputs(node)) or around.outputs)
        for child in node.named_children:
            if child.type not in REDIRECTS:
                self.statement(child, around)
            elif child.type == "heredoc_redirect":
                self._document(child)

    def _document(self, node: Node) -> None:
        """`<<EOF ...`: the variables in it are filled in here and now, but for those of `<<'EOF'`."""
        start = next((self.words.text(child) for child in node.children if child.type == "heredoc_start"), "")
        command = self.commands[-1] if self.commands else None
        for inner in node.named_children:
            if inner.type in ("pipeline", "command"):
                # `sbatch <<EOF | tee log`: the pipeline inside a redirect is the command's own
                self.statement(inner)
            elif inner.type == "heredoc_body":
                first = self.words.line(inner)
                self.documents.append((first, self.words.first + int(inner.end_point[0])))
                if command is not None and not re.search(r"[\"'\\]", start):
                    brought = (one for part in inner.named_children for one in self.words.word(part).early)
                    self.early += [EarlyUse(one, command) for one in brought]

    def _outputs(self, node: Node) -> Iterator[str]:
        for child in node.named_children:
            if child.type != "file_redirect" or "<" in self.words.text(child).split("&")[0][:3]:
                continue
            target = child.child_by_field_name("destination")
            if target is not None and not self.words.text(target).isdigit():
                yield self.words.word(target).text

    def _function(self, node: Node) -> None:
        before = self.function
        self.function = next((self.words.text(c) for c in node.named_children if c.type == "word"), "")
        for child in node.named_children:
            if child.type != "word":
                self.statement(child)
        self.function = before

    # ── commands ──

    def _command(self, node: Node, around: _Around) -> None:
        env: dict[str, str] = {}
        given: list[tuple[Node, str, Value]] = []
        words: list[Word] = []
        early: list[tuple[int, Early]] = []
        begin, pieces = node, 0
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                if name is not None:
                    held = self.words.word(value) if value is not None else Value("", True)
                    env[self.words.text(name)] = held.text
                    given.append((child, self.words.text(name), held))
            elif child.type not in REDIRECTS and child.type != "comment":
                written = self.words.text(child)
                begin = begin if words else child
                for piece in self.words.split(child):
                    early += [(len(words), one) for one in piece.early]
                    words.append(Word(piece.text, piece.known, piece.line, written, pieces))
                pieces += 1
        if not words:
            return
        self.spend(_STATEMENT)
        command = Command(
            tuple(words),
            self.words.line(node),
            around.background,
            around.piped_to,
            around.outputs,
            env,
            self.depth,
            self.function,
            self.parent,
            self.in_subshell,
            self.words.data if self.depth == 0 else b"",
            (begin.start_byte, node.end_byte),
        )
        self._builtin(command)
        self.commands.append(command)
        if "srun" in (w.text.rpartition("/")[2] for w in words[:2]):
            self.early += [EarlyUse(one, command, at) for at, one in early]
            for child, variable, held in given:
                self._keep(variable, held, command.line, True, False, self.words.text(child))
        if self.depth < DEEPEST:
            outer, self.parent = self.parent, command
            for _, text, line in strings(command):
                self.source(text, line, self.depth + 1)
            self.parent = outer

    def _builtin(self, command: Command) -> None:
        args = command.args
        if command.name == "trap" and len(args) > 1 and args[0] != "-":
            self.traps.append(Trap(frozenset(map(signal, args[1:])), command.line))
        elif command.name in ("source", ".") and args:
            self.read.append((args[0], command.line))
        elif command.name in ("read", "printf", "mapfile", "readarray"):
            for name in args:
                self.values.pop(name, None)

    # ── variables ──

    def _assign(self, node: Node, exported: bool) -> None:
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return
        name, line = self.words.text(name_node), self.words.line(node)
        value = self.words.word(value_node) if value_node is not None else Value("", True, line)
        old, written = self.values.get(name), self.words.text(node)
        if old and written.startswith(f"{name}+="):
            items = None if old.items is None or value.items is None else (*old.items, *value.items)
            between = "" if items is None else " "
            known, early = old.known and value.known, old.early + value.early
            value = Value(old.text + between + value.text, known, old.line, early, items)
        if self.depth == 0:
            self.values[name] = value
        pid = value_node is not None and "$!" in self.words.text(value_node)
        if pid and self.background:
            self.background[-1] = replace(self.background[-1], pid=name)
        self._keep(name, value, line, exported, pid, written)

    def _export(self, name: str, line: int) -> None:
        self._keep(name, self.values.get(name) or Value("", False), line, True, False, "")

    def _keep(self, name: str, value: Value, line: int, exported: bool, pid: bool, written: str) -> None:
        self.spend(_STATEMENT + cost(value))
        if exported and self.depth == 0:
            self.exported_early += value.early
        known = value.text if value.known else None
        self.assignments.append(Assignment(name, known, line, exported, value.text, self.in_subshell, pid, written))
