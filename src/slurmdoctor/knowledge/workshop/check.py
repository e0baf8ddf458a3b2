"""Proves rule files: every example, literal, pattern, name and placeholder, and that no rule takes another cause's examples.

A trial measures rules on labelled logs: precision and recall of each cause. A case is a folder with a `truth.yaml` (`failed`, `cause`,
`also`, `rank`, `rank_certain`) beside the files that a job left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from msgspec import Struct, field

from slurmdoctor.knowledge.document import Node, at, is_list, is_text, pairs, place
from slurmdoctor.knowledge.expressions import names_of, placeholders
from slurmdoctor.knowledge.paths import APath, builtin, data_of, files
from slurmdoctor.knowledge.problems import (
    Place,
    Problem,
    Problems,
    TooManyProblemsError,
    did_you_mean,
    shown,
)
from slurmdoctor.knowledge.rule_reader import LoadedRules, RuleFile, read
from slurmdoctor.knowledge.schema import HINTS
from slurmdoctor.knowledge.workshop import proof
from slurmdoctor.matching import bounded
from slurmdoctor.model import NOT_STOPPED, Diagnosis, Frozen, Knowledge, Rule, UserError
from slurmdoctor.ranks import LabelReader
from slurmdoctor.report import one_line, redact

_PROOFS: Mapping[str, Callable[[Any, Node, LabelReader, Problems], None]] = {
    "rules": proof.prove_matcher,
    "formats": proof.prove_label,
    "signals": proof.prove_matcher,
    "facts": proof.prove_matcher,
    "exit_reports": proof.prove_exit_report,
    "fragments": proof.prove_fragment,
    "secrets": proof.prove_secret,
}
"""How the entries of a table are proven; those of other tables by their `samples`."""


class Checked(NamedTuple):
    files: list[RuleFile]
    problems: list[Problem]
    notes: list[Problem]
    """What works and should still be changed."""


def check_paths(paths: Sequence[Path], folders: Sequence[APath]) -> Checked:
    """These files, and what is wrong with them, read beside the folders that are in use."""
    ours = builtin()
    beside = [path for path in paths if not path.resolve().is_relative_to(ours)]
    loaded = read(tuple(dict.fromkeys([*folders, *beside])))
    return check(loaded, {shown(file) for path in paths for file in files(path)})


def check(loaded: LoadedRules, named: Iterable[str] | None = None) -> Checked:
    """The named files (as `shown` shows them), or all files, and what is wrong with them."""
    wanted = {file.name for file in loaded.files} if named is None else set(named)
    problems = Problems(loaded.problems)
    checked = [file for file in loaded.files if file.name in wanted]
    with suppress(TooManyProblemsError):
        labels = LabelReader(loaded.knowledge.formats)
        for file in checked:
            _prove(file, loaded.knowledge, labels, problems)
        _crosstalk(loaded, wanted, labels, problems)
    of_these = [one for one in sorted(set(problems)) if named is None or one.place.file in wanted]
    notes = [note for file in checked for rule, node in file.rules if (note := proof.without_lookalike(rule, node))]
    return Checked(checked, of_these, sorted(notes))


def _prove(file: RuleFile, knowledge: Knowledge, labels: LabelReader, problems: Problems) -> None:
    for name, entries in (("rules", file.rules), *file.tables().items()):
        for entry, node in entries:
            before = len(problems)
            if name != "fragments":  # what uses them is tried
                proof.prove_speed(node, problems, name)
            if len(problems) == before:  # else its examples are not worth the wait
                _PROOFS.get(name, proof.prove_samples)(entry, node, labels, problems)
    _todos(file.node, "it", problems)
    for number, name in enumerate(file.values.get("explains", ())):
        if name not in knowledge.causes:
            mend = did_you_mean(name, knowledge.causes, "`slurmdoctor rules list` names all causes")
            problems.add(at(file.node, "explains", number), f"`explains` names the unknown cause `{name}`", mend)
    if file.cause is not None and file.whole:
        _Names(file, knowledge, problems).check()


def _todos(node: Node, name: str, problems: Problems) -> None:
    """Reports what a draft left open."""
    if is_text(node):
        if node.value.startswith("TODO"):
            problems.add(place(node), f"`{name}` is empty", f"write {HINTS.get(name, 'it')}")
        return
    for row in node.value if is_list(node) else ():
        _todos(row, name, problems)
    for key, _, value in pairs(node):
        _todos(value, key, problems)


# ── names in conditions and placeholders ─────────────────────────────────────────────────────

_SPECIAL = {"rule", "seen"}


class _Facts:
    """The facts that slurmdoctor finds without a cause's rules, and the values of those that have no others."""

    def __init__(self, knowledge: Knowledge) -> None:
        parts: dict[str, list[str]] = yaml.safe_load((Path(__file__).parents[1] / "facts.yaml").read_bytes())
        self.names = {name for part in parts.values() for name in part}
        self.values: dict[str, set[str]] = {
            "launcher": {one.launcher for one in knowledge.exit_reports if one.launcher}
        }
        for signal in knowledge.signals:
            if signal.kind == "fact":
                name, groups = signal.id.partition("/")[0], set(bounded(signal.regex).groupindex)
                self.names |= groups - {"value"}
                if signal.value is not None:
                    self.values.setdefault(name, set()).add(signal.value)
                if signal.value is not None or "value" in groups:
                    self.names.add(name)


class _Names:
    """Checks that the placeholders and conditions of a cause's file name captures or facts that exist."""

    def __init__(self, file: RuleFile, knowledge: Knowledge, problems: Problems) -> None:
        self._file, self._problems = file, problems
        cause = knowledge.causes.get(file.cause or "")
        # also the rules of a file that could not be put among the causes
        rules = (*(cause.rules if cause else ()), *(rule for rule, _ in file.rules))
        facts = knowledge.once(_Facts)
        self._known = {name for rule in rules for name in bounded(rule.regex).groupindex}
        self._known |= facts.names | {one.id for one in (cause.let if cause else ())}
        # no line satisfies NOT_STOPPED: inference names it
        ids = {rule.id for rule in rules} | {NOT_STOPPED}
        self._values = {"rule": ids, "seen": knowledge.causes.keys()} | {
            name: facts.values[name] for name in ("launcher", "framework") if name in facts.values
        }

    def check(self) -> None:
        values = self._file.values
        for one, node in values.get("let", ()):
            for number, part in enumerate(one.parts):
                self._template(part, at(node, "parts", number))
            for text in (one.value, *one.when):
                self._unknown(names_of(text) if text else (), at(node), "")
        for number, text in enumerate(values.get("verify", ())):
            self._template(text, at(self._file.node, "verify", number))
        for fix, node in values.get("fixes", ()):
            self._template(fix.do, at(node, "do"))
            self._template(fix.why or "", at(node, "why"))
            self._when(fix.when, node)

    def _unknown(self, names: Collection[str], where: Place, so: str, form: str = "`{}`") -> bool:
        unknown = sorted(set(names) - self._known - _SPECIAL)
        for name in unknown:
            mend = did_you_mean(name, self._known, "name a group of this cause's regexes, or a fact of docs/rules.md")
            self._problems.add(where, f"no rule or fact gives {form.format(name)}{so}", mend)
        return bool(unknown)

    def _template(self, text: str, where: Place) -> None:
        try:
            self._unknown(placeholders(text), where, "", "`{{{}}}`")
        except ValueError as error:
            mend = "write {name} or {name / other}; {{ and }} stand for single braces"
            self._problems.add(where, str(error), mend)

    def _when(self, when: Mapping[str, Any], node: Node) -> None:
        so = ": the fix is never offered"
        for name, want in when.items():
            where, known = at(node, "when", name), self._values.get(name)
            if self._unknown(names_of(name), where, so) or known is None:
                continue
            for one in want if isinstance(want, tuple) else (want,):
                if not isinstance(one, bool) and one not in known:
                    mend = did_you_mean(str(one), known, f"known: {', '.join(sorted(known)[:12])}")
                    self._problems.add(where, f"`{name}` is never `{one}`{so}", mend)


# ── cross-talk: an example line of one cause that a rule of another cause also matches ───────


def _crosstalk(loaded: LoadedRules, wanted: set[str], labels: LabelReader, problems: Problems) -> None:
    """Reports each at the example, or at the rule that also matches it where the example's file is not checked."""
    in_use = {rule.id for rule in loaded.knowledge.rules}
    every = [(rule, node) for file in loaded.files for rule, node in file.rules]
    rules = [(rule, at(node, "regex")) for rule, node in every if rule.id in in_use]
    checked = [(rule, where) for rule, where in rules if where.file in wanted]
    mend = "narrow one of the two, or let the cause that brings the other about name it in `explains`"
    for owner, node in every:
        for number, line in enumerate(owner.match):
            example = at(node, "examples", "match", number)
            here = example.file in wanted
            rivals = [pair for pair in (rules if here else checked) if proof.admits(pair[0], line)]
            rivals = [(rule, where) for rule, where in rivals if not _may_share(rule, owner, loaded.knowledge)]
            texts = proof.peeled(line, labels) if rivals else ()
            for rule, where in rivals:
                if not proof.takes(rule, line, texts):
                    continue
                if here:
                    what = f"this example of `{owner.cause}` is also taken by the rule `{rule.id}`"
                    problems.add(example, what, mend)
                else:
                    quote = redact(line)[:90].strip()
                    problems.add(where, f"`{rule.id}` also takes an example of `{owner.id}`: `{quote}`", mend)


def _may_share(one: Rule, other: Rule, knowledge: Knowledge) -> bool:
    """Whether `one` may take an example of `other`."""
    if one.cause == other.cause or "hint" in (one.role, other.role) or "message" in (one.applies_to, other.applies_to):
        return True
    if one.general != other.general:  # a general rule gives way
        return True
    if {one.cause, other.cause} & knowledge.traits["catch-all"]:
        return True
    first, second = knowledge.causes.get(one.cause), knowledge.causes.get(other.cause)
    return bool((first and other.cause in first.explains) or (second and one.cause in second.explains))


# ── a problem as a person reads it ───────────────────────────────────────────────────────────

_WIDTH = 100


def render(problem: Problem, label: str = "") -> str:
    """The place, what is wrong, the line with a caret, and the mend."""
    line = _line(problem.place.file, problem.place.line)
    rows = [one_line(f"{problem.place}: {label}{problem.what}")]
    if line is not None:
        gutter = f"{problem.place.line:>5} | "
        column = problem.place.column - 1
        masked = redact(line)
        # a long line is shown around the place; where something is masked, no column is where it was
        start = 0 if column < _WIDTH - 20 or masked != line else column - 20
        rows.append(gutter + masked[start : start + _WIDTH].rstrip())
        if masked == line:
            rows.append(f"{'|':>7} " + "".join("\t" if char == "\t" else " " for char in line[start:column]) + "^")
    return "\n".join([*rows, f"  fix: {one_line(problem.mend)}"])


def _line(file: str, number: int) -> str | None:
    try:
        lines = data_of(file).decode("utf-8", "replace").splitlines()
    except OSError:
        return None
    line = lines[number - 1] if 0 < number <= len(lines) else None
    # what is no printable text is not sent to a terminal
    return None if line is None else "".join(char if char.isprintable() or char == "\t" else "?" for char in line)


TRUTH = "truth.yaml"
BESIDE = frozenset({TRUTH, "job.sbatch", "scontrol.txt", "sacct.txt", "README.md", "notes.md"})
HEALTHY = "(healthy)"
UNKNOWN = "(unknown)"

Diagnose = Callable[[Sequence[Path]], Diagnosis]


class Case(Frozen):
    folder: Path
    cause: str
    """HEALTHY where nothing failed."""
    also: frozenset[str]
    rank: int | None
    """Only where the truth is certain of it."""

    def logs(self) -> list[Path]:
        return sorted(file for file in self.folder.rglob("*") if file.is_file() and file.name not in BESIDE)


class Miss(Frozen):
    case: Case
    named: str
    """The cause that the diagnosis named."""
    rank: int | None


class Trial(Struct):
    right: Counter[str] = field(default_factory=Counter)
    wanted: Counter[str] = field(default_factory=Counter)
    wrongly: Counter[str] = field(default_factory=Counter)
    """How often a cause was named where it is none of the accepted ones."""
    ranks: int = 0
    ranks_right: int = 0
    misses: list[Miss] = field(default_factory=list)

    def recall(self, cause: str) -> float | None:
        return self.right[cause] / self.wanted[cause] if self.wanted[cause] else None

    def precision(self, cause: str) -> float | None:
        named = self.right[cause] + self.wrongly[cause]
        return self.right[cause] / named if named else None


def cases(folder: Path) -> Iterator[Case]:
    for file in sorted(folder.rglob(TRUTH)):
        try:
            truth: Any = yaml.safe_load(file.read_bytes())
            failed = bool(truth["failed"])
            certain = failed and truth.get("rank_certain", True)
            yield Case(
                folder=file.parent,
                cause=str(truth["cause"]) if failed else HEALTHY,
                also=frozenset(truth.get("also") or ()),
                rank=truth.get("rank") if certain else None,
            )
        except (yaml.YAMLError, KeyError, TypeError, AttributeError, ValueError):
            keys = "write failed: true, cause: cuda-oom, rank: 13, or failed: false"
            raise UserError(f"{shown(file)} is no truth of a case", keys) from None


def run(labelled: Sequence[Case], diagnose: Diagnose) -> Trial:
    trial = Trial()
    for case in labelled:
        found = diagnose(case.logs())
        named = HEALTHY if found.verdict == "no-failure" else found.cause.id or UNKNOWN
        rank = found.first_failure.rank
        trial.wanted[case.cause] += 1
        # to leave a healthy log in peace is enough
        good = named in {case.cause, *case.also} or (case.cause == HEALTHY and found.verdict != "failed")
        trial.right[case.cause] += good
        trial.wrongly[named] += not good
        if case.rank is not None:
            trial.ranks += 1
            trial.ranks_right += rank == case.rank
        if not good or case.rank not in (None, rank):
            trial.misses.append(Miss(case, named, rank))
    return trial
