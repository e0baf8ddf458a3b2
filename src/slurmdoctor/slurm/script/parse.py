"""bash → Script, with tree-sitter-bash. Strings that another shell will run are parsed too."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.model.exits import signal_name
from slurmdoctor.slurm.script.directives import read as read_directives
from slurmdoctor.slurm.script.directives import slurm_variables
from slurmdoctor.slurm.script.model import Assignment, Command, Script, Trap, Word
from slurmdoctor.slurm.script.words import Value, Words

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEEPEST = 4
"""Strings within strings: deeper ones are not parsed."""
LONGEST = 1024 * 1024
"""Characters; no script is longer, and the rest is not read."""
LONGEST_VALUE = 64 * 1024
"""Characters; a variable that outgrows them is not known any longer."""
MOST_COMMANDS = 10_000
"""Behind so many commands no string is parsed any more."""
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_SET_OPTIONS = {"e": "errexit", "u": "nounset", "x": "xtrace"}
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_GROUPS = frozenset({"subshell", "compound_statement"})
_HOOK = re.compile(r"^# --- slurmdoctor: .*?^# --- end of slurmdoctor -+$", re.M | re.S)
"""The footer in a script, by its first and last line: its traps and commands are not the script's."""


def parse(text: str, name: str = "script") -> Script:
    """The parsed script. Lines that are no bash stand in `broken`; the others are read all the same."""
    text = text[:LONGEST]
    directives, ignored = read_directives(text)
    walk = _Walk({k: Value(v, True) for k, v in slurm_variables(directives).items()})
    broken = walk.source(_HOOK.sub(lambda hook: "\n" * hook[0].count("\n"), text), 1, 0)
    return Script(
        name,
        text,
        tuple(directives),
        tuple(ignored),
        tuple(walk.commands),
        tuple(walk.assignments),
        tuple(walk.traps),
        frozenset(walk.options),
        tuple(dict.fromkeys(broken)),
        tuple(walk.early),
    )


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # here: hardly any diagnosis has a script
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


class _Around(Struct, frozen=True):
    """What surrounds a statement."""

    background: bool = False
    piped_to: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


_TOP = _Around()
"""A statement of the script itself."""


class _Walk:
    """Walks the syntax tree and collects commands, assignments, traps and shell options."""

    def __init__(self, values: dict[str, Value]) -> None:
        self.values = values
        self.commands: list[Command] = []
        self.assignments: list[Assignment] = []
        self.traps: list[Trap] = []
        self.options: set[str] = set()
        self.early: list[tuple[str, int]] = []
        self.words = Words(values, self.statement)
        self.depth = 0
        self.function: str | None = None
        self.parent: Command | None = None

    def source(self, text: str, first: int, depth: int) -> list[int]:
        """Walk shell text whose first line is line `first` of the script. Returns the lines that are no bash."""
        before = self.words, self.depth
        self.words = Words(self.values, self.statement, text.encode("utf-8", "replace"), first)
        self.depth = depth
        root = _parser().parse(self.words.data).root_node
        broken = [self.words.line(node) for node in _errors(root)]
        for child in root.named_children:
            self.statement(child)
        self.words, self.depth = before
        return broken

    # ── statements ──

    def statement(self, node: Node, around: _Around = _TOP) -> None:
        if node.type in ("command", "pipeline", "redirected_statement", *_GROUPS) and _in_background(node):
            around = replace(around, background=True)
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
        else:
            inner = around if node.type in _GROUPS else replace(around, piped_to=())
            for child in node.named_children:
                self.statement(child, inner)

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
            self.statement(part, replace(around, piped_to=(*programs[at + 1 :], *around.piped_to)))

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
            if child.type not in _REDIRECTS:
                self.statement(child, around)
            elif child.type == "heredoc_redirect":
                # `sbatch <<EOF | tee log`: the pipeline inside a redirect is the command's own
                for inner in child.named_children:
                    if inner.type in ("pipeline", "command"):
                        self.statement(inner)

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
        words: list[Value] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name, value = child.child_by_field_name("name"), child.child_by_field_name("value")
                if name is not None:
                    env[self.words.text(name)] = self.words.word(value).text if value is not None else ""
            elif child.type not in _REDIRECTS and child.type != "comment":
                words += self.words.split(child)
        if not words:
            return
        command = Command(
            tuple(Word(w.text, w.known, w.line) for w in words),
            self.words.line(node),
            around.background,
            around.piped_to,
            around.outputs,
            env,
            self.depth,
            self.function,
            self.parent,
        )
        self._builtin(command)
        self.commands.append(command)
        if "srun" in (w.text.rpartition("/")[2] for w in words[:2]):
            self.early += [pair for w in words for pair in w.early]
        if self.depth < DEEPEST and len(self.commands) < MOST_COMMANDS:
            before, self.parent = self.parent, command
            for text, line in _strings(command):
                self.source(text, line, self.depth + 1)
            self.parent = before

    def _builtin(self, command: Command) -> None:
        args = command.args
        if command.name == "trap" and len(args) > 1 and args[0] != "-":
            self.traps.append(Trap(frozenset(map(_signal, args[1:])), command.line))
        elif command.name == "set" and self.depth == 0:
            for arg, value in zip(args, (*args[1:], ""), strict=True):
                if arg[:1] in ("+", "-") and not arg.startswith("--"):
                    named = {value} if arg.endswith("o") and value else set()
                    chosen = named | {_SET_OPTIONS[letter] for letter in arg[1:] if letter in _SET_OPTIONS}
                    self.options = self.options | chosen if arg[0] == "-" else self.options - chosen

    # ── variables ──

    def _assign(self, node: Node, exported: bool) -> None:
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return
        name, line = self.words.text(name_node), self.words.line(node)
        value = self.words.word(value_node) if value_node is not None else Value("", True, line)
        old = self.values.get(name)
        if old and self.words.text(node).startswith(f"{name}+="):
            value = Value(old.text + value.text, old.known and value.known, old.line, old.early + value.early)
        if len(value.text) > LONGEST_VALUE:
            written = self.words.text(value_node) if value_node is not None else ""
            value = Value(written[:LONGEST_VALUE], False, line)
        if self.depth == 0:
            self.values[name] = value
        self.assignments.append(_assignment(name, value, line, exported))

    def _export(self, name: str, line: int) -> None:
        self.assignments.append(_assignment(name, self.values.get(name) or Value("", False), line, True))


def _assignment(name: str, value: Value, line: int, exported: bool) -> Assignment:
    return Assignment(name, value.text if value.known else None, line, exported, value.text)


def _strings(command: Command) -> Iterator[tuple[str, int]]:
    """The strings that a command hands to another shell, each with its first line: `bash -c "..."`, `--wrap`, `eval`."""
    words = command.words
    for at in range(1, len(words)):
        option = words[at - 1].text
        shell = re.fullmatch(r"-\w*c", option) and any(w.text.rpartition("/")[2] in _SHELLS for w in words[:at])
        if shell or option == "--wrap":
            yield words[at].text, words[at].line
    if command.name == "eval" and words[0].line:
        yield " ".join(command.args), words[0].line


def _signal(word: str) -> str:
    """`TERM` for `TERM`, `SIGTERM` and `15`; `EXIT` for `0`."""
    name = (signal_name(int(word)) if re.fullmatch("[0-9]{1,2}", word) else None) or word
    return "EXIT" if name == "0" else name.upper().removeprefix("SIG")


def _in_background(node: Node) -> bool:
    after = node.next_sibling
    return after is not None and after.type == "&"


def _errors(node: Node) -> Iterator[Node]:
    """The nodes that the parser could not make sense of."""
    if node.type == "ERROR" or node.is_missing:
        yield node
    elif node.has_error:
        for child in node.children:
            yield from _errors(child)
