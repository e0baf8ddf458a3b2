"""A text of bash → its commands and assignments, by tree-sitter's syntax tree.

Words have their text with the variables filled in that the script itself sets: `NODES=4`, `$((NODES * 8))` and
`TRAIN_CMD="..."` are known; so is what Slurm sets from the directives. `$(hostname)` and `$HOME` are not: they stay as
they are written. Strings that another shell will run are read too.
"""

from __future__ import annotations

import faulthandler
import os
import re
import resource
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec.structs import replace

from slurmdoctor.knowledge import fill
from slurmdoctor.slurm.script.model import (
    Assignment,
    Background,
    Code,
    Command,
    LastTest,
    Premature,
    Word,
    base,
    is_srun,
)
from slurmdoctor.slurm.script.tables import programs

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

_GROUPS = frozenset({"subshell", "compound_statement"})
_EXPANSIONS = frozenset({"simple_expansion", "expansion"})
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_EXPANSION = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\[[@*]\]|:?([-=?+])(.*))?\})", re.S)
_UNSPLIT = re.compile(r"(?:\$\{[^{}]*\}|\$\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|\S)+")
"""A word of a value that is partly unknown: what is computed in it stays whole."""

DEEPEST = 4
"""Strings within strings: deeper ones are not parsed."""
_NESTED = 50
"""Words and statements within each other."""
_MOST = 2_000_000
"""Characters of all words, with their variables filled in. A statement counts as `_STATEMENT` of them."""
_STATEMENT = 500
_MOST_PIPED = 20
"""Programs behind a command in its pipe, the last ones, that are kept."""
_HARMLESS = 2_000
"""Bytes that are parsed at once, however broken."""
_SECONDS, _MEMORY = 1, 300 << 20
"""What the parser may take for a script."""


class TooMuchError(Exception):
    """The script needs more than any script should."""


class Reader:
    """Reads a script. After TooMuchError, `code` holds what was read up to `line`."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.code = Code()
        self.line = 1
        self._values = {name: Word(text) for name, text in values.items()}
        """What each variable holds at this place of the script."""
        self._data, self._first = b"", 1
        """The text that is read, and which line of the script is its first."""
        self._within = Command()
        """What surrounds the statement that is read: where its commands run."""
        self._nested = self._spent = 0

    def read(self, text: str, first: int = 1, parent: Command | None = None) -> None:
        """Read shell text whose first line is line `first` of the script; of a string, `parent` is its command."""
        outer = self._data, self._first, self._within
        self._spend(_STATEMENT)
        self._data, self._first = text.encode("utf-8", "replace"), first
        began, tree = time.thread_time(), _parsed(self._data)
        root = tree.root_node
        if parent is not None:
            self._within = replace(self._plain(), depth=parent.depth + 1, parent=parent)
            self._spend(int(_MOST / 2 * (time.thread_time() - began)))  # strings are parsed for two seconds at most
        else:
            self.code.broken.extend(dict.fromkeys(map(self._line_of, _errors(root))))
        self._statements(root, self._within)
        self._last_test(root)
        self._data, self._first, self._within = outer

    def _spend(self, characters: int) -> None:
        self._spent += characters
        if self._spent > _MOST:
            raise TooMuchError

    def _enter(self) -> None:
        """One word or statement deeper."""
        self._nested += 1
        if self._nested > _NESTED:
            raise TooMuchError

    def _line_of(self, node: Node) -> int:
        return self._first + int(node.start_point[0])

    def _text(self, node: Node) -> str:
        """The node as it is written."""
        return self._data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # ── statements ──

    def _statements(self, parent: Node, within: Command) -> None:
        """All statements of a node; `&` behind one leaves it running."""
        children = parent.children
        for child, after in zip_longest(children, children[1:]):
            if child.is_named:
                self._statement(child, within, after is not None and after.type == "&")

    def _statement(self, node: Node, within: Command, left: bool = False) -> None:
        if within.depth == 0:
            self.line = self._line_of(node)
        self._enter()
        outer, begun = self._within, len(self.code.commands)
        left = left and not within.background
        self._within = replace(within, background=True) if left else within
        _VISITS.get(node.type, Reader._visit_group)(self, node)
        self._within = outer
        self._nested -= 1
        commands = tuple(self.code.commands[begun:]) if left and within.depth == 0 else ()
        if commands:
            text = self._text(node)[:400]
            loop = re.match(r"(?:while|until|for)\b", text)
            name = f"this `{loop[0]}` loop" if loop else self._program(node) or commands[0].name
            self.code.background.append(Background(name, self._line_of(node), commands, text, None, within.subshell))

    def _visit_group(self, node: Node) -> None:
        self._statements(node, self._within if node.type in _GROUPS else replace(self._within, piped_to=()))

    def _visit_subshell(self, node: Node) -> None:
        """`( ... )`: what it sets is gone behind it."""
        self._spend(len(self._values))
        held = dict(self._values)
        self._within = replace(self._within, subshell=True)
        self._visit_group(node)
        self._values = held

    def _visit_function(self, node: Node) -> None:
        name = node.child_by_field_name("name")
        self._statements(node, replace(self._plain(), function=self._text(name) if name else ""))

    def _visit_pipeline(self, node: Node) -> None:
        parts = [child for child in node.named_children if child.type != "comment"]
        names = [self._program(part) for part in parts]
        within = self._within
        for at, part in enumerate(parts):
            behind = (*names[max(at + 1, len(parts) - _MOST_PIPED) :], *within.piped_to)
            self._statement(part, replace(within, piped_to=behind[-_MOST_PIPED:]))

    def _program(self, node: Node) -> str:
        """The name of the program that a statement runs first."""
        if node.type == "command":
            name = node.child_by_field_name("name")
            return base(self._word(name).text) if name else ""
        inner = (child for child in node.named_children if child.type in ("command", "redirected_statement"))
        return next(map(self._program, inner), "")

    def _visit_redirected(self, node: Node) -> None:
        files, appends = [], False
        for child in node.named_children:
            target = child.child_by_field_name("destination")
            if target and re.match(r"\d*&?>", self._text(child)) and not self._text(target).isdigit():
                files.append(self._word(target).text)
                appends = appends or ">>" in self._text(child)
        within = replace(self._within, outputs=tuple(files), appends=appends) if files else self._within
        for child in node.named_children:
            if child.type not in _REDIRECTS:
                self._statement(child, within)
            elif child.type == "heredoc_redirect":
                self._document(child)

    def _document(self, node: Node) -> None:
        """`<<EOF ...`: the variables in it are filled in here and now, but for those of `<<'EOF'`."""
        commands = self.code.commands
        at = len(commands) - 1
        for inner in node.named_children:
            if inner.type in ("pipeline", "command"):
                # `sbatch <<EOF | tee log`: the pipeline inside a redirect is the command's own
                self._statement(inner, self._plain())
            elif inner.type == "heredoc_body":
                self.code.documents.append((self._line_of(inner), self._first + int(inner.end_point[0])))
                if commands:
                    found = (one for part in inner.named_children for one in self._word(part).premature)
                    commands[at] = replace(commands[at], document=tuple(found))

    def _plain(self) -> Command:
        """The surroundings without what is true of one command only."""
        return replace(self._within, background=False, piped_to=(), outputs=(), appends=False)

    def _visit_command(self, node: Node) -> None:
        env: list[tuple[Node, str, Word]] = []
        words: list[Word] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                env.append((child, *self._assigned(child)))
            elif child.type not in _REDIRECTS and child.type != "comment":
                words += [replace(word, items=None, written=self._text(child)) for word in self._split(child)]
        if not words:
            return
        self._spend(_STATEMENT)
        command = replace(
            self._within,
            words=tuple(words),
            line=self._line_of(node),
            env={name: value.text for _, name, value in env},
        )
        self.code.commands.append(command)
        if command.name in ("read", "printf", "mapfile", "readarray"):
            for name in command.args:
                self._values.pop(name, None)
        if is_srun(command):
            for child, name, value in env:
                self._keep(child, name, value, exported=True)
        if command.depth < DEEPEST:
            for _, text, line in strings(command):
                self.read(text, line, command)

    def _last_test(self, root: Node) -> None:
        """The command behind a test that is a text's last statement: where it is false, it is the text's exit status."""
        last = next((child for child in reversed(root.named_children) if child.type != "comment"), None)
        if last is None or last.type != "list" or last.has_error or root.children[-1].type == "&":
            return
        left, joint, right = last.children[0], last.children[1], last.children[-1]
        if joint.type == "&&" and _is_test(left):
            program = self._program(right) or self._text(right)
            self.code.last_tests.append(LastTest(self._line_of(right), program, self._within.parent))

    # ── variables ──

    def _visit_declaration(self, node: Node) -> None:
        """`export A=1 B`, `declare -x A=1`, `local A=1`."""
        exported = self._text(node).startswith(("export", "declare -x", "typeset -x"))
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._visit_assignment(child, exported)
            elif child.type == "variable_name" and exported:
                name = self._text(child)
                self._keep(child, name, self._values.get(name) or Word("", False), exported)

    def _assigned(self, node: Node) -> tuple[str, Word]:
        """The name and the value of `NAME=value`."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        return self._text(name or node), self._word(value) if value else Word("", line=self._line_of(node))

    def _visit_assignment(self, node: Node, exported: bool = False) -> None:
        name, value = self._assigned(node)
        written, old = self._text(node), self._values.get(name)
        if old and written.startswith(f"{name}+="):
            items = None if old.items is None or value.items is None else (*old.items, *value.items)
            text = old.text + ("" if items is None else " ") + value.text
            value = Word(text, old.known and value.known, old.line, old.premature + value.premature, items)
        if self._within.depth == 0:
            self._values[name] = value
        self._keep(node, name, value, exported)
        if "$!" in written and self.code.background:
            self.code.background[-1] = replace(self.code.background[-1], pid=name)

    def _keep(self, node: Node, name: str, value: Word, exported: bool) -> None:
        self._spend(_STATEMENT + value.cost)
        if self._within.depth:
            value = replace(value, premature=())  # the task's own shell fills them in
        self.code.assignments.append(
            Assignment(name, value, self._line_of(node), exported, self._within.subshell, self._text(node))
        )

    # ── words ──

    def _word(self, node: Node) -> Word:
        """The node's value."""
        self._enter()
        value = self._value(node)
        self._nested -= 1
        self._spend(value.cost)
        return value

    def _value(self, node: Node) -> Word:
        line, kind = self._line_of(node), node.type
        if kind in ("raw_string", "ansi_c_string"):
            return Word(self._text(node).removeprefix("$")[1:-1], line=line)
        if kind in ("string", "translated_string"):
            return self._joined(node, node.start_byte + 1, node.end_byte - 1, _unescape_quoted)
        if kind in _EXPANSIONS:
            return self._variable(node)
        if kind == "arithmetic_expansion":
            return self._arithmetic(node)
        if kind in ("command_substitution", "process_substitution"):
            self._statements(node, self._plain())
            return Word(self._text(node), False, line)
        if kind == "array":
            items = [item for child in node.named_children for item in self._split(child)]
            text, known = " ".join(item.text for item in items), all(item.known for item in items)
            return Word(text, known, line, tuple(one for item in items for one in item.premature), tuple(items))
        return self._joined(node, node.start_byte, node.end_byte, _unescape)

    def _split(self, node: Node) -> Iterable[Word]:
        """The words that a node makes: an array's, or those of an unquoted variable, split at its blanks."""
        value = self._word(node)
        if value.items is not None:
            return value.items
        if node.type in _EXPANSIONS and " " in value.text:
            pieces = value.text.split() if value.known else _UNSPLIT.findall(value.text)
            self._spend(len(pieces) * replace(value, text="").cost)
            return [replace(value, text=piece) for piece in pieces]
        return [value]

    def _joined(self, node: Node, start: int, end: int, literal: Callable[[str], str]) -> Word:
        """A word of several pieces: `"logs/$NAME.log"`."""
        text, known, premature, at = "", True, list[Premature](), start
        for child in node.children:
            if child.type in ('"', "string_content") or not child.is_named:
                continue
            text += literal(self._data[at : max(at, child.start_byte)].decode("utf-8", "replace"))
            value = self._word(child)
            if child.start_byte == start and child.end_byte == end:
                return value  # "$TRAIN_CMD": its lines are those of its assignment
            text, known, at = text + value.text, known and value.known, child.end_byte
            premature += value.premature
        text += literal(self._data[at : max(at, end)].decode("utf-8", "replace"))
        return Word(text, known, self._line_of(node), tuple(premature))

    def _variable(self, node: Node) -> Word:
        line, written = self._line_of(node), self._text(node).strip()
        found = _EXPANSION.fullmatch(written)
        name = (found[1] or found[2]) if found else re.sub(r"\W.*", "", written.lstrip("${#!"), flags=re.S)
        held, operator = (self._values.get(name), found[3]) if found else (None, None)
        if held:
            self._spend(sum(item.cost for item in held.items or ()))
            return held if held.line and not operator else replace(held, line=line)
        if found and operator in ("-", "="):
            # the job's environment may set another: a likely value, not a known one
            written = _VARIABLE.sub(self._likely, found[4].strip("\"'"))
        return Word(written, False, line, _premature([name], line, self._text(node)))

    def _likely(self, variable: re.Match[str]) -> str:
        value = self._values.get(variable[1])
        self._spend(value.cost if value else 0)
        return value.text if value else variable[0]

    def _arithmetic(self, node: Node) -> Word:
        """`$((NODES * 8))`."""
        line, written = self._line_of(node), self._text(node)
        inner = written.removeprefix("$((").removesuffix("))")
        names = dict.fromkeys(re.findall(r"\w+", inner))
        held = {name: one for name in names if (one := self._values.get(name)) and one.known}
        numbers = {name: one.text for name, one in held.items() if re.fullmatch(r"\d{1,18}", one.text)}
        plain = _VARIABLE.sub(r"\1", inner).replace("/", "//")
        result = fill("{" + plain + "}", numbers) if re.fullmatch(r"[\w\s+*/%()-]{1,200}", plain) else None
        return Word(result or written, result is not None, line, _premature(names, line, written))


_VISITS: Mapping[str, Callable[[Reader, Node], None]] = {
    "command": Reader._visit_command,
    "variable_assignment": Reader._visit_assignment,
    "declaration_command": Reader._visit_declaration,
    "pipeline": Reader._visit_pipeline,
    "redirected_statement": Reader._visit_redirected,
    "function_definition": Reader._visit_function,
    "subshell": Reader._visit_subshell,
}


def strings(command: Command) -> Iterator[tuple[int, str, int]]:
    """The strings that a command hands to another shell: `bash -c "..."`, `--wrap`, `eval`. (word, text, first line)."""
    shell = False
    for at, (before, word) in enumerate(zip(command.words, command.words[1:], strict=False), 1):
        shell = shell or base(before.text) in programs().shells
        if (shell and re.fullmatch(r"-\w*c", before.text)) or before.text == "--wrap":
            yield at, word.text, word.line
    if command.name == "eval" and command.words[0].line:
        yield 1, " ".join(command.args), command.words[0].line


def _premature(names: Iterable[str], line: int, written: str) -> tuple[Premature, ...]:
    return tuple(Premature(name, line, written) for name in names if name in programs().per_task)


def _unescape(text: str) -> str:
    """Outside of quotes a backslash goes, and so does a line end behind it."""
    return re.sub(r"\\(\n|.)", lambda m: "" if m[1] == "\n" else m[1], text)


def _unescape_quoted(text: str) -> str:
    """In double quotes a backslash before $ ` " and itself goes; before a line end it stays, for the lines' numbers."""
    return re.sub(r'\\([$`"\\])', r"\1", text)


# ── the syntax tree ──


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # here: hardly any diagnosis has a script
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _parsed(data: bytes) -> Tree:
    """The tree of a text. Raises TooMuchError: of some broken texts the grammar's recovery takes gigabytes for 10 kB.

    A child tries it first, within limits: what happens there, the memory of this process does not.
    """
    if len(data) >= _HARMLESS and not _can_be_parsed(data):
        raise TooMuchError
    return _parser().parse(data)


def _can_be_parsed(data: bytes) -> bool:
    grammar, child = _parser(), os.fork()
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


def _errors(root: Node) -> Iterator[Node]:
    """The nodes that the parser could not make sense of."""
    left = [root]
    while left:
        node = left.pop()
        if node.type == "ERROR" or node.is_missing:
            yield node
        elif node.has_error:
            left += reversed(node.children)


def _is_test(node: Node) -> bool:
    """`[ a ]`, or several that must all hold."""
    while node.type == "list" and node.children[1].type == "&&" and node.children[-1].type == "test_command":
        node = node.children[0]
    return node.type == "test_command"
