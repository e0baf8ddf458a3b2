"""A text of bash → its commands, assignments and traps, by tree-sitter's syntax tree.

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
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from slurmdoctor.knowledge import fill
from slurmdoctor.model import signal_name
from slurmdoctor.slurm.script.model import (
    Assignment,
    Background,
    Code,
    Command,
    Early,
    EarlyUse,
    LastTest,
    Trap,
    Word,
)
from slurmdoctor.slurm.script.tables import programs

if TYPE_CHECKING:
    from tree_sitter import Node, Parser, Tree

_GROUPS = frozenset({"subshell", "compound_statement"})
_LOOPS = {"while_statement": "while", "for_statement": "for", "c_style_for_statement": "for"}
_CAN_BE_LEFT = frozenset(
    {"command", "pipeline", "redirected_statement", "list", "if_statement", "case_statement", *_GROUPS, *_LOOPS}
)
"""Statements that `&` can leave running."""
_REDIRECTS = frozenset({"file_redirect", "heredoc_redirect", "herestring_redirect"})
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
_VARIABLE = re.compile(r"\$\{?(\w+)\}?")
_WITH_DEFAULT = re.compile(r"\$\{(\w+):?([-=?+])(.*)\}", re.S)
_WHOLE_ARRAY = re.compile(r'"?\$\{(\w+)\[[@*]\]\}"?')
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


class Value(Struct, frozen=True):
    """The text of a word, and whether all of it is known."""

    text: str
    known: bool
    line: int = 0
    early: tuple[Early, ...] = ()
    """Per-task variables in it."""
    items: tuple[Value, ...] | None = None
    """The words of an array."""

    @property
    def cost(self) -> int:
        """What it takes, in characters."""
        return 1 + len(self.text) + 10 * len(self.early)


class Reader:
    """Reads a script. After TooMuchError, `code` holds what was read up to `line`."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.code = Code()
        self.line = 1
        self._values = {name: Value(text, True) for name, text in values.items()}
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
        if parent is not None:
            self._within = Command(
                depth=parent.depth + 1, function=parent.function, parent=parent, subshell=parent.subshell
            )
        began, tree = time.thread_time(), _parsed(self._data)
        if tree is None:
            raise TooMuchError
        root = tree.root_node
        if parent is not None:
            self._spend(int(_MOST / 2 * (time.thread_time() - began)))  # strings are parsed for two seconds at most
        else:
            self.code.broken.extend(dict.fromkeys(map(self._line_of, _errors(root))))
        for child in root.named_children:
            self._statement(child, self._within)
        if then := self._behind_last_test(root):
            program = self._program(then) or self._text(then)
            self.code.last_tests.append(LastTest(self._line_of(then), program, parent))
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

    def _statement(self, node: Node, within: Command) -> None:
        if within.depth == 0:
            self.line = self._line_of(node)
        self._enter()
        outer, begun = self._within, len(self.code.commands)
        left = node.type in _CAN_BE_LEFT and _in_background(node) and not within.background
        self._within = replace(within, background=True) if left else within
        _VISITS.get(node.type, Reader._visit_group)(self, node)
        self._within = outer
        self._nested -= 1
        if left and within.depth == 0 and begun < len(self.code.commands):
            commands = tuple(self.code.commands[begun:])
            loop = _LOOPS.get(node.type)
            name = f"this `{loop}` loop" if loop else self._program(node) or commands[0].name
            text = self._text(node)[:400]
            left_running = Background(name, self._line_of(node), commands, text, None, within.subshell)
            self.code.background.append(left_running)

    def _visit_group(self, node: Node) -> None:
        inner = self._within if node.type in _GROUPS else replace(self._within, piped_to=())
        for child in node.named_children:
            self._statement(child, inner)

    def _visit_subshell(self, node: Node) -> None:
        """`( ... )`: what it sets is gone behind it."""
        self._spend(len(self._values))
        held = dict(self._values)
        self._within = replace(self._within, subshell=True)
        self._visit_group(node)
        self._values = held

    def _visit_function(self, node: Node) -> None:
        name = next((self._text(c) for c in node.named_children if c.type == "word"), "")
        within = Command(depth=self._within.depth, function=name, parent=self._within.parent)
        for child in node.named_children:
            if child.type != "word":
                self._statement(child, within)

    def _visit_pipeline(self, node: Node) -> None:
        parts = [child for child in node.named_children if child.type != "comment"]
        programs = [self._program(part) for part in parts]
        within = self._within
        for at, part in enumerate(parts):
            behind = (*programs[max(at + 1, len(parts) - _MOST_PIPED) :], *within.piped_to)
            self._statement(part, replace(within, piped_to=behind[-_MOST_PIPED:]))

    def _program(self, node: Node) -> str:
        """The name of the program that a part of a pipe runs."""
        if node.type == "command":
            first = next(
                (c for c in node.named_children if c.type not in ("variable_assignment", "file_redirect")), None
            )
            return self._word(first).text.rpartition("/")[2] if first is not None else ""
        inner = (child for child in node.named_children if child.type in ("command", "redirected_statement"))
        return next(map(self._program, inner), "")

    def _visit_redirected(self, node: Node) -> None:
        files, appends = [], False
        for child in node.named_children:
            before = self._text(child).split("&")[0][:3] if child.type == "file_redirect" else "<"
            target = child.child_by_field_name("destination")
            if "<" not in before and target is not None and not self._text(target).isdigit():
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
        start = next((self._text(child) for child in node.children if child.type == "heredoc_start"), "")
        command = self.code.commands[-1] if self.code.commands else None
        for inner in node.named_children:
            if inner.type in ("pipeline", "command"):
                # `sbatch <<EOF | tee log`: the pipeline inside a redirect is the command's own
                self._statement(inner, self._plain())
            elif inner.type == "heredoc_body":
                self.code.documents.append((self._line_of(inner), self._first + int(inner.end_point[0])))
                if command is not None and not re.search(r"[\"'\\]", start):
                    brought = (one for part in inner.named_children for one in self._word(part).early)
                    self.code.early.extend(EarlyUse(one, command) for one in brought)

    def _plain(self) -> Command:
        """The surroundings without what is true of one command only."""
        return replace(self._within, background=False, piped_to=(), outputs=(), appends=False)

    def _visit_command(self, node: Node) -> None:
        env: list[tuple[Node, str, Value]] = []
        words: list[Word] = []
        early: list[tuple[int, Early]] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                if (given := self._assigned(child)) is not None:
                    env.append((child, *given))
            elif child.type not in _REDIRECTS and child.type != "comment":
                for piece in self._split(child):
                    early += [(len(words), one) for one in piece.early]
                    words.append(Word(piece.text, piece.known, piece.line, self._text(child)))
        if not words:
            return
        self._spend(_STATEMENT)
        texts = {name: value.text for _, name, value in env}
        command = replace(self._within, words=tuple(words), line=self._line_of(node), env=texts)
        self._builtin(command)
        self.code.commands.append(command)
        if "srun" in (w.text.rpartition("/")[2] for w in words[:2]):
            self.code.early.extend(EarlyUse(one, command, at) for at, one in early)
            for child, name, value in env:
                self._keep(name, replace(value, line=command.line), exported=True, written=self._text(child))
        if command.depth < DEEPEST:
            for _, text, line in strings(command):
                self.read(text, line, command)

    def _builtin(self, command: Command) -> None:
        args = command.args
        if command.name == "trap" and len(args) > 1 and args[0] != "-":
            self.code.traps.append(Trap(frozenset(map(_signal, args[1:])), command.line))
        elif command.name in ("source", ".") and args:
            self.code.read.append((args[0], command.line))
        elif command.name in ("read", "printf", "mapfile", "readarray"):
            for name in args:
                self._values.pop(name, None)

    # ── variables ──

    def _visit_declaration(self, node: Node) -> None:
        """`export A=1 B`, `declare -x A=1`, `local A=1`."""
        exported = self._text(node).startswith(("export", "declare -x", "typeset -x"))
        for child in node.named_children:
            if child.type == "variable_assignment":
                self._visit_assignment(child, exported)
            elif child.type == "variable_name" and exported:
                name = self._text(child)
                value = self._values.get(name) or Value("", False)
                self._keep(name, replace(value, line=self._line_of(child)), exported=True)

    def _assigned(self, node: Node) -> tuple[str, Value] | None:
        """The name and the value of `NAME=value`."""
        name, value = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name is None:
            return None
        return self._text(name), self._word(value) if value is not None else Value("", True, self._line_of(node))

    def _visit_assignment(self, node: Node, exported: bool = False) -> None:
        given = self._assigned(node)
        if given is None:
            return
        name, value = given
        written, old = self._text(node), self._values.get(name)
        if old and written.startswith(f"{name}+="):
            items = None if old.items is None or value.items is None else (*old.items, *value.items)
            text = old.text + ("" if items is None else " ") + value.text
            value = Value(text, old.known and value.known, old.line, old.early + value.early, items)
        if self._within.depth == 0:
            self._values[name] = value
        pid = "$!" in written
        if pid and self.code.background:
            self.code.background[-1] = replace(self.code.background[-1], pid=name)
        self._keep(name, replace(value, line=self._line_of(node)), exported, pid, written)

    def _keep(self, name: str, value: Value, exported: bool, pid: bool = False, written: str = "") -> None:
        self._spend(_STATEMENT + value.cost)
        if exported and self._within.depth == 0:
            self.code.exported_early.extend(value.early)
        known = value.text if value.known else None
        self.code.assignments.append(
            Assignment(name, known, value.line, exported, value.text, self._within.subshell, pid, written)
        )

    # ── words ──

    def _word(self, node: Node) -> Value:
        """The node's value."""
        self._enter()
        value = self._value(node)
        self._nested -= 1
        self._spend(value.cost)
        return value

    def _value(self, node: Node) -> Value:
        line, kind = self._line_of(node), node.type
        if kind in ("raw_string", "ansi_c_string"):
            return Value(self._text(node).removeprefix("$")[1:-1], True, line)
        if kind in ("string", "translated_string"):
            return self._joined(node, node.start_byte + 1, node.end_byte - 1, _unescape_quoted)
        if kind in ("simple_expansion", "expansion"):
            return self._variable(node)
        if kind == "arithmetic_expansion":
            return self._arithmetic(node)
        if kind in ("command_substitution", "process_substitution"):
            for child in node.named_children:
                self._statement(child, self._plain())
            return Value(self._text(node), False, line)
        if kind == "array":
            return _array([item for child in node.named_children for item in self._split(child)], line)
        plain = kind in ("word", "number", "test_operator")
        if kind in ("concatenation", "command_name") or (node.named_child_count and not plain):
            return self._joined(node, node.start_byte, node.end_byte, _unescape)
        return Value(_unescape(self._text(node)), True, line)

    def _split(self, node: Node) -> list[Value]:
        """The words that a node makes: an array's, or those of an unquoted variable, split at its blanks."""
        found = _WHOLE_ARRAY.fullmatch(self._text(node))
        if found and (held := self._values.get(found[1])) and held.items is not None:
            self._spend(sum(item.cost for item in held.items))
            return list(held.items)
        value = self._word(node)
        if node.type in ("simple_expansion", "expansion") and " " in value.text:
            pieces = value.text.split() if value.known else _UNSPLIT.findall(value.text)
            self._spend(len(pieces) * replace(value, text="").cost)
            return [replace(value, text=piece) for piece in pieces]
        return [value]

    def _joined(self, node: Node, start: int, end: int, literal: Callable[[str], str]) -> Value:
        """A word of several pieces: `"logs/$NAME.log"`."""
        text, known, early, at = "", True, list[Early](), start
        for child in node.children:
            if child.type in ('"', "string_content") or not child.is_named:
                continue
            text += literal(self._data[at : max(at, child.start_byte)].decode("utf-8", "replace"))
            value = self._word(child)
            if child.start_byte == start and child.end_byte == end:
                return value  # "$TRAIN_CMD": its lines are those of its assignment
            text, known, at = text + value.text, known and value.known, child.end_byte
            early += value.early
        text += literal(self._data[at : max(at, end)].decode("utf-8", "replace"))
        return Value(text, known, self._line_of(node), tuple(early))

    def _variable(self, node: Node) -> Value:
        line, written = self._line_of(node), self._text(node).strip()
        array, default = _WHOLE_ARRAY.fullmatch(written), _WITH_DEFAULT.fullmatch(written)
        plain = _VARIABLE.fullmatch(written) or array
        if plain:
            early, value = _early(plain[1], line, written), self._values.get(plain[1])
            if value is None or (array and value.items is None):
                return Value(written, False, line, early)
            brought = tuple(replace(one, through=one.through or plain[1]) for one in value.early)
            return Value(value.text, value.known, value.line or line, (*brought, *early))
        if default and default[1] in self._values:
            return replace(self._values[default[1]], line=line)
        if default and default[2] in "-=":
            # the job's environment may set another: a likely value, not a known one
            text = _VARIABLE.sub(self._likely, default[3].strip("\"'"))
            return Value(text, False, line, _early(default[1], line, written))
        name = re.match(r"\$\{[#!]?(\w+)", written)
        return Value(written, False, line, _early(name[1], line, written) if name else ())

    def _likely(self, variable: re.Match[str]) -> str:
        value = self._values.get(variable[1])
        self._spend(value.cost if value else 0)
        return value.text if value else variable[0]

    def _arithmetic(self, node: Node) -> Value:
        """`$((NODES * 8))`."""
        line, written = self._line_of(node), self._text(node)
        inner = written.removeprefix("$((").removesuffix("))")
        names = dict.fromkeys(re.findall(r"\w+", inner))
        held = ((name, self._values[name]) for name in names if name in self._values)
        numbers = {name: one.text for name, one in held if one.known and re.fullmatch(r"\d{1,18}", one.text)}
        plain = _VARIABLE.sub(r"\1", inner).replace("/", "//")
        result = fill("{" + plain + "}", numbers) if re.fullmatch(r"[\w\s+*/%()-]{1,200}", plain) else None
        early = tuple(one for name in names for one in _early(name, line, written))
        return Value(result or written, result is not None, line, early)

    def _behind_last_test(self, root: Node) -> Node | None:
        """The command behind a test that is a text's last statement: where it is false, it is the text's exit status."""
        statements = [child for child in root.named_children if child.type != "comment"]
        last = statements[-1] if statements else None
        if last is None or last.type != "list" or _in_background(last) or last.has_error:
            return None
        left, joint, right = last.children[0], last.children[1], last.children[-1]
        return right if joint.type == "&&" and _is_test(left) else None


_VISITS: Mapping[str, Callable[[Reader, Node], None]] = {
    "command": Reader._visit_command,
    "variable_assignment": Reader._visit_assignment,
    "declaration_command": Reader._visit_declaration,
    "unset_command": Reader._visit_declaration,
    "pipeline": Reader._visit_pipeline,
    "redirected_statement": Reader._visit_redirected,
    "function_definition": Reader._visit_function,
    "subshell": Reader._visit_subshell,
}


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


def _array(items: list[Value], line: int) -> Value:
    early = tuple(one for item in items for one in item.early)
    text = " ".join(item.text for item in items)
    return Value(text, all(item.known for item in items), line, early, tuple(items))


def _early(name: str, line: int, written: str) -> tuple[Early, ...]:
    return (Early(name, line, written),) if name in programs().per_task else ()


def _unescape(text: str) -> str:
    """Outside of quotes a backslash goes, and so does a line end behind it."""
    return re.sub(r"\\(\n|.)", lambda m: "" if m[1] == "\n" else m[1], text)


def _unescape_quoted(text: str) -> str:
    """In double quotes a backslash before $ ` " and itself goes; before a line end it stays, for the lines' numbers."""
    return re.sub(r'\\([$`"\\])', r"\1", text)


def _signal(word: str) -> str:
    """`TERM` for `TERM`, `SIGTERM` and `15`; `EXIT` for `0`."""
    name = (signal_name(int(word)) if re.fullmatch("[0-9]{1,2}", word) else None) or word
    return "EXIT" if name == "0" else name.upper().removeprefix("SIG")


# ── the syntax tree ──


@cache
def _parser() -> Parser:
    import tree_sitter_bash  # here: hardly any diagnosis has a script
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


def _parsed(data: bytes) -> Tree | None:
    """The tree of a text; None where it takes too much: of some broken texts the grammar's recovery takes gigabytes for 10 kB.

    A child tries it first, within limits: what happens there, the memory of this process does not.
    """
    return _parser().parse(data) if len(data) < _HARMLESS or _can_be_parsed(data) else None


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


def _in_background(node: Node) -> bool:
    after = node.next_sibling
    return after is not None and after.type == "&"


def _errors(root: Node) -> Iterator[Node]:
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


def _is_test(node: Node) -> bool:
    if node.type == "list":
        ands = all(child.type == "&&" for child in node.children if not child.is_named)
        return ands and all(map(_is_test, node.named_children))
    return node.type == "test_command"
