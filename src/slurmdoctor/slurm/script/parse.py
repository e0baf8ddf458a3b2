"""bash → Script, with tree-sitter-bash. Strings that another shell will run are taken apart too.

Values are followed where the script itself tells them: `NODES=4`, `$((NODES * 8))`, `TRAIN_CMD="..."`, and what Slurm
sets from the directives. What only the job can know stays as it is written.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING

from slurmdoctor.report.remedies import fill
from slurmdoctor.slurm.script.directives import read as read_directives
from slurmdoctor.slurm.script.directives import slurm_variables
from slurmdoctor.slurm.script.model import Assignment, Command, Script, Word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

DEEPEST = 4
"""Strings within strings: deeper ones are left as they are."""
LONGEST = 1024 * 1024
"""Characters; no script is longer, and what is left of it is not read."""
LONGEST_VALUE = 64 * 1024
"""Characters; a variable that outgrows them is not known any longer."""
MOST_COMMANDS = 10_000
"""So many, and no string is taken apart any more."""
_SHELLS = frozenset({"bash", "sh", "zsh", "dash", "ksh"})
PER_TASK = frozenset(
    {
        "SLURM_PROCID",
        "SLURM_LOCALID",
        "SLURM_NODEID",
        "SLURM_STEP_ID",
        "SLURM_STEPID",
        "SLURM_TASK_PID",
        "SLURMD_NODENAME",
        "SLURM_GTIDS",
    }
)
"""What every task sees another value of, and the batch shell only its own."""
_SET = {"e": "errexit", "u": "nounset", "x": "xtrace"}


def parse(text: str, name: str = "script") -> Script:
    """The script, taken apart. Lines that are no bash stand in `broken`; everything else is read all the same."""
    text = text[:LONGEST]
    directives, ignored, shell = read_directives(text)
    walk = _Walk(values={k: _Value(v, True) for k, v in slurm_variables(directives).items()})
    walk.broken += walk.source(text, 1, 0)
    exports = {a.name: a for a in walk.assignments if a.exported}
    return Script(
        name,
        text,
        shell,
        tuple(directives),
        tuple(ignored),
        tuple(walk.commands),
        tuple(walk.assignments),
        exports,
        tuple(walk.traps),
        frozenset(walk.options),
        tuple(dict.fromkeys(walk.broken)),
        tuple(walk.early),
    )


@dataclass(frozen=True, slots=True)
class _Value:
    """A word's text as far as it is known."""

    text: str
    known: bool
    line: int = 0
    early: tuple[tuple[str, int], ...] = ()
    """Per-task variables that the batch shell fills in: (name, line)."""
    quoted: bool = False


@cache
def _parser() -> Parser:
    import tree_sitter_bash
    from tree_sitter import Language, Parser

    return Parser(Language(tree_sitter_bash.language()))


@dataclass(slots=True)
class _Walk:
    values: dict[str, _Value]
    commands: list[Command] = field(default_factory=list)
    assignments: list[Assignment] = field(default_factory=list)
    traps: list[tuple[str, frozenset[str], int]] = field(default_factory=list)
    options: set[str] = field(default_factory=set)
    broken: list[int] = field(default_factory=list)
    early: list[tuple[str, int]] = field(default_factory=list)
    data: bytes = b""
    first: int = 1
    depth: int = 0
    function: str | None = None
    parent: Command | None = None

    def source(self, text: str, first: int, depth: int) -> list[int]:
        """Walk one piece of shell text, whose first line is line `first` of the script."""
        before = (self.data, self.first, self.depth)
        self.data, self.first, self.depth = text.encode("utf-8", "replace"), first, depth
        root = _parser().parse(self.data).root_node
        broken = [self._line(node) for node in _errors(root)]
        for child in root.named_children:
            self.statement(child)
        self.data, self.first, self.depth = before
        return broken if depth == 0 else []

    def _line(self, node: Node) -> int:
        return self.first + int(node.start_point[0])

    def _text(self, node: Node) -> str:
        return self.data[node.start_byte : node.end_byte].decode("utf-8", "replace")

    # ── statements ──

    def statement(
        self, node: Node, background: bool = False, piped: tuple[str, ...] = (), out: tuple[str, ...] = ()
    ) -> None:
        kind = node.type
        if kind == "command":
            self._command(node, background or _in_background(node), piped, out)
        elif kind == "variable_assignment":
            self._assign(node, exported=False)
        elif kind in ("declaration_command", "unset_command"):
            exported = self._text(node).startswith(("export", "declare -x", "typeset -x"))
            for child in node.named_children:
                if child.type == "variable_assignment":
                    self._assign(child, exported)
                elif child.type == "variable_name" and exported:
                    self._export(self._text(child), self._line(child))
        elif kind == "pipeline":
            parts = [child for child in node.named_children if child.type != "comment"]
            names = [self._program(part) for part in parts]
            for at, part in enumerate(parts):
                self.statement(part, background or _in_background(node), tuple(names[at + 1 :]) + piped, out)
        elif kind == "redirected_statement":
            files = tuple(self._redirects(node)) or out
            for child in node.named_children:
                if child.type not in ("file_redirect", "heredoc_redirect", "herestring_redirect"):
                    self.statement(child, background or _in_background(node), piped, files)
                elif child.type == "heredoc_redirect":
                    self._heredoc(child)
        elif kind == "function_definition":
            before, self.function = (
                self.function,
                next((self._text(c) for c in node.named_children if c.type == "word"), ""),
            )
            for child in node.named_children:
                if child.type != "word":
                    self.statement(child)
            self.function = before
        else:
            spread = background or (kind in ("subshell", "compound_statement") and _in_background(node))
            for child in node.named_children:
                self.statement(child, spread, piped if kind in ("subshell", "compound_statement") else (), out)

    def _program(self, node: Node) -> str:
        if node.type == "command":
            words = [
                self.word(c) for c in node.named_children if c.type not in ("variable_assignment", "file_redirect")
            ]
            return words[0].text.rpartition("/")[2] if words else ""
        return next(
            (self._program(c) for c in node.named_children if c.type in ("command", "redirected_statement")), ""
        )

    def _redirects(self, node: Node) -> Iterator[str]:
        for child in node.named_children:
            if child.type != "file_redirect" or "<" in self._text(child).split("&")[0][:3]:
                continue
            target = child.child_by_field_name("destination")
            if target is not None and not self._text(target).isdigit():
                yield self.word(target).text

    def _heredoc(self, node: Node) -> None:
        # `sbatch <<EOF` and `bash <<EOF`: the pipeline inside a redirect is the command's own
        for child in node.named_children:
            if child.type in ("pipeline", "command"):
                self.statement(child)

    def _command(self, node: Node, background: bool, piped: tuple[str, ...], out: tuple[str, ...]) -> None:
        env: dict[str, str] = {}
        words: list[_Value] = []
        for child in node.named_children:
            if child.type == "variable_assignment":
                name = child.child_by_field_name("name")
                value = child.child_by_field_name("value")
                if name is not None:
                    env[self._text(name)] = self.word(value).text if value is not None else ""
            elif child.type not in ("file_redirect", "herestring_redirect", "heredoc_redirect", "comment"):
                words += self._split(self.word(child), child)
        if not words:
            return
        command = Command(
            tuple(Word(w.text, w.known, "", w.line) for w in words),
            self._line(node),
            background,
            piped,
            out,
            env,
            self.depth,
            self.function,
            self.parent,
        )
        self._builtin(command)
        self.commands.append(command)
        in_step = any(Command((Word(w.text),), 0).name == "srun" for w in words[:2])
        if in_step:
            self.early += [pair for w in words for pair in w.early]
        if self.depth < DEEPEST and len(self.commands) < MOST_COMMANDS:
            before, self.parent = self.parent, command
            for at in range(1, len(words)):
                option = words[at - 1].text
                runs = re.fullmatch(r"-\w*c", option) and any(w.text.rpartition("/")[2] in _SHELLS for w in words[:at])
                if runs or option == "--wrap":
                    self.source(words[at].text, words[at].line, self.depth + 1)
            if command.name == "eval" and words[0].line:
                self.source(" ".join(w.text for w in words[1:]), words[0].line, self.depth + 1)
            self.parent = before

    def _split(self, value: _Value, node: Node) -> list[_Value]:
        """An unquoted variable's value falls apart into words."""
        if node.type in ("simple_expansion", "expansion") and value.known and " " in value.text:
            return [replace(value, text=piece) for piece in value.text.split()]
        return [value]

    def _builtin(self, command: Command) -> None:
        args = command.args
        if command.name == "trap" and len(args) > 1:
            signals = frozenset(a.upper().removeprefix("SIG") for a in args[1:])
            self.traps.append((args[0], frozenset("EXIT" if s == "0" else s for s in signals), command.line))
        elif command.name == "set" and self.depth == 0:
            for at, arg in enumerate(args):
                if arg[:1] in "+-" and not arg.startswith("--"):
                    change = self.options.add if arg[0] == "-" else self.options.discard
                    for letter in arg[1:]:
                        if letter in _SET:
                            change(_SET[letter])
                    if arg.endswith("o") and at + 1 < len(args):
                        change(args[at + 1])

    def _assign(self, node: Node, exported: bool) -> None:
        name_node, value_node = node.child_by_field_name("name"), node.child_by_field_name("value")
        if name_node is None:
            return
        name, line = self._text(name_node), self._line(node)
        value = self.word(value_node) if value_node is not None else _Value("", True, line)
        raw = self._text(value_node) if value_node is not None else ""
        if self._text(node).startswith(f"{name}+="):
            old = self.values.get(name)
            if old:
                value = replace(
                    value,
                    text=old.text + value.text,
                    known=old.known and value.known,
                    early=old.early + value.early,
                    line=old.line,
                )
        if len(value.text) > LONGEST_VALUE:
            value = _Value(raw[:LONGEST_VALUE], False, line)
        if self.depth == 0:
            self.values[name] = value
        quoted = value_node is not None and value_node.type == "string"
        self.assignments.append(
            Assignment(name, value.text if value.known else None, raw, line, exported, self.depth, quoted, value.text)
        )

    def _export(self, name: str, line: int) -> None:
        value = self.values.get(name)
        known = value.text if value and value.known else None
        self.assignments.append(Assignment(name, known, "", line, True, self.depth, False, value.text if value else ""))

    # ── words ──

    def word(self, node: Node) -> _Value:
        """The text of a word, with the variables that the script tells filled in."""
        line = self._line(node)
        kind = node.type
        if kind == "raw_string":
            return _Value(self._text(node)[1:-1], True, line, quoted=True)
        if kind == "ansi_c_string":
            return _Value(self._text(node)[2:-1], True, line, quoted=True)
        if kind in ("string", "translated_string"):
            return self._pieces(node, inside=True)
        if kind in ("concatenation", "command_name"):
            return self._pieces(node, inside=False)
        if kind in ("simple_expansion", "expansion"):
            return self._variable(node)
        if kind == "arithmetic_expansion":
            return self._arithmetic(node)
        if kind in ("command_substitution", "process_substitution"):
            for child in node.named_children:
                self.statement(child)
            return _Value(self._text(node), False, line)
        if node.named_child_count and kind not in ("word", "number", "array", "test_operator"):
            return self._pieces(node, inside=False)
        return _Value(re.sub(r"\\(\n|.)", lambda m: "" if m[1] == "\n" else m[1], self._text(node)), True, line)

    def _pieces(self, node: Node, inside: bool) -> _Value:
        start, end = (node.start_byte + 1, node.end_byte - 1) if inside else (node.start_byte, node.end_byte)
        text, known, early, at = "", True, list[tuple[str, int]](), start
        literal = _unescape if inside else (lambda t: re.sub(r"\\(\n|.)", lambda m: "" if m[1] == "\n" else m[1], t))
        for child in node.children:
            if child.type in ('"', "string_content") or not child.is_named:
                continue
            if child.start_byte > at:
                text += literal(self.data[at : child.start_byte].decode("utf-8", "replace"))
            value = self.word(child)
            if child.start_byte == start and child.end_byte == end:
                return replace(value, quoted=True)  # "$TRAIN_CMD": its lines are those of its assignment
            text, known, at = text + value.text, known and value.known, child.end_byte
            early += value.early
        if end > at:
            text += literal(self.data[at:end].decode("utf-8", "replace"))
        return _Value(text, known, self._line(node), tuple(early), inside)

    def _variable(self, node: Node) -> _Value:
        line, written = self._line(node), self._text(node).strip()
        found = re.fullmatch(r"\$\{?(\w+)\}?", written)
        if found:
            name = found[1]
            early = ((name, line),) if name in PER_TASK else ()
            value = self.values.get(name)
            if value is None:
                return _Value(written, False, line, early)
            return _Value(value.text, value.known, value.line or line, (*value.early, *early), value.quoted)
        default = re.fullmatch(r"\$\{(\w+):?([-=?+])(.*)\}", written, re.S)
        if default and default[1] in self.values:
            value = self.values[default[1]]
            return _Value(value.text, value.known, line, value.early)
        if default and default[2] in "-=":
            # the job's environment may say otherwise: a likely value, not a known one
            text = re.sub(
                r"\$\{?(\w+)\}?",
                lambda m: self.values[m[1]].text if m[1] in self.values else m[0],
                default[3].strip("\"'"),
            )
            return _Value(text, False, line)
        name = re.match(r"\$\{[#!]?(\w+)", written)
        return _Value(written, False, line, ((name[1], line),) if name and name[1] in PER_TASK else ())

    def _arithmetic(self, node: Node) -> _Value:
        line, written = self._line(node), self._text(node)
        inner = written.removeprefix("$((").removesuffix("))")
        names = {k: v.text for k, v in self.values.items() if v.known and re.fullmatch(r"\d+", v.text)}
        plain = re.sub(r"\$\{?(\w+)\}?", r"\1", inner).replace("/", "//")
        filled = fill("{" + plain + "}", names) if re.fullmatch(r"[\w\s+*/%()-]+", plain) else None
        early = tuple((n, line) for n in re.findall(r"\w+", inner) if n in PER_TASK)
        return _Value(filled, True, line, early) if filled is not None else _Value(written, False, line, early)


def _unescape(text: str) -> str:
    """Double quotes: a backslash before $ ` " and itself goes; before a line end it stays, for the lines' numbers."""
    return re.sub(r'\\([$`"\\])', r"\1", text)


def _in_background(node: Node) -> bool:
    after = node.next_sibling
    return after is not None and after.type == "&"


def _errors(node: Node) -> Iterator[Node]:
    if node.type == "ERROR" or node.is_missing:
        yield node
    elif node.has_error:
        for child in node.children:
            yield from _errors(child)
