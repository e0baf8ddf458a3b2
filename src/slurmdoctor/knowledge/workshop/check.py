"""Proves rule files: every example, literal, pattern, name and placeholder, and that no rule takes another cause's examples.

A trial measures rules on labelled logs: precision and recall of each cause. A case is a folder with a `truth.yaml` (`failed`, `cause`,
`also`, `rank`, `rank_certain`) beside the files that a job left.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml

from slurmdoctor.knowledge.document import Node, at, is_list, is_text, pairs, place
from slurmdoctor.knowledge.expressions import names_of, placeholders
from slurmdoctor.knowledge.paths import APath, builtin, data_of, names
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
from slurmdoctor.model import NOT_STOPPED, Diagnosis, Frozen, Knowledge, Rule, UserError, admits
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
    return check(loaded, {shown(file) for path in paths for file in names(path)})


def check(loaded: LoadedRules, wanted: Collection[str]) -> Checked:
    """The wanted files (as `shown` shows them), and what is wrong with them."""
    problems = Problems(loaded.problems)
    checked = [file for file in loaded.files if file.name in wanted]
    with suppress(TooManyProblemsError):
        labels = LabelReader(loaded.knowledge.formats)
        for file in checked:
            _prove(file, loaded.knowledge, labels, problems)
        _crosstalk(loaded, wanted, labels, problems)
    of_these = [one for one in sorted(set(problems)) if one.place.file in wanted]
    notes = [note for file in checked for rule, node in file.rules if (note := proof.without_lookalike(rule, node))]
    return Checked(checked, of_these, sorted(notes))


def _prove(file: RuleFile, knowledge: Knowledge, labels: LabelReader, problems: Problems) -> None:
    for name, entries in (("rules", file.rules), *file.tables().items()):
        for entry, node in entries:
            before = len(problems)
            if name != "fragments":  # what uses them is tried
                proof.prove_patterns(node, problems, name)
            if len(problems) == before:  # else its examples are not worth the wait
                _PROOFS.get(name, proof.prove_samples)(entry, node, labels, problems)
    _todos(file.node, "it", problems)
    for number, name in enumerate(file.values.get("explains", ())):
        if name not in knowledge.causes:
            mend = did_you_mean(name, knowledge.causes, "`slurmdoctor rules list` names all causes")
            problems.add(at(file.node, "explains", number), f"`explains` names the unknown cause `{name}`", mend)
    if file.cause and file.whole:
        _Names(file, knowledge, problems).check()
        if Path(file.name).resolve().is_relative_to(builtin()):
            _prove_ours(file, problems)


def _prove_ours(file: RuleFile, problems: Problems) -> None:
    """Reports what a site's cause may leave out."""
    for key in ("falsepositives", "references"):
        if not file.values.get(key):
            problems.add(at(file.node, key), f"a cause of ours lacks `{key}`", f"write {HINTS[key]}")
    fixes = file.values["fixes"]
    for fix, node in fixes:
        if not fix.why:
            problems.add(place(node), "a fix of ours lacks `why`", f"write {HINTS['why']}")
    if all(fix.when for fix, _ in fixes):
        problems.add(at(file.node, "fixes"), "some logs get no fix", "add one without `when`")


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


def _facts(knowledge: Knowledge) -> set[str]:
    """The facts that slurmdoctor finds without a cause's rules."""
    listed: dict[str, list[str]] = yaml.safe_load((Path(__file__).parents[1] / "facts.yaml").read_bytes())
    lines = [signal for signal in knowledge.signals if signal.kind == "fact"]
    names = {name for part in listed.values() for name in part} | {line.name for line in lines}
    return names.union(*(bounded(line.regex).groupindex for line in lines)) - {"value"}


def _constants(fact: str, knowledge: Knowledge) -> set[str | None]:
    return {one.value for one in knowledge.signals if one.id.startswith(f"{fact}/")}


class _Names:
    """Checks that the placeholders and conditions of a cause's file name captures or facts that exist."""

    def __init__(self, file: RuleFile, knowledge: Knowledge, problems: Problems) -> None:
        self._file, self._problems = file, problems
        cause = knowledge.causes.get(file.cause)
        # also the rules of a file that could not be put among the causes
        rules = (*(cause.rules if cause else ()), *(rule for rule, _ in file.rules))
        self._values: dict[str, Collection[object]] = {
            # no line satisfies NOT_STOPPED: inference names it
            "rule": {rule.id for rule in rules} | {NOT_STOPPED},
            "seen": knowledge.causes.keys(),
            "launcher": {one.launcher for one in knowledge.exit_reports} | _constants("launcher", knowledge),
            "framework": _constants("framework", knowledge),
        }
        captured = {name for rule in rules for name in bounded(rule.regex).groupindex}
        derived = {one.id for one in (cause.let if cause else ())}
        self._known = captured | derived | knowledge.once(_facts) | self._values.keys()

    def check(self) -> None:
        values = self._file.values
        for one, node in values.get("let", ()):
            for number, part in enumerate(one.parts):
                self._template(part, at(node, "parts", number))
            for text in (one.value, *one.when):
                self._unknown(names_of(text) if text else (), at(node))
        for number, text in enumerate(values.get("verify", ())):
            self._template(text, at(self._file.node, "verify", number))
        for fix, node in values.get("fixes", ()):
            self._template(fix.do, at(node, "do"))
            self._template(fix.why or "", at(node, "why"))
            self._when(fix.when, node)

    def _unknown(self, names: Collection[str], where: Place) -> bool:
        unknown = sorted(set(names) - self._known)
        for name in unknown:
            mend = did_you_mean(name, self._known, "name a group of this cause's regexes, or a fact of docs/rules.md")
            self._problems.add(where, f"no rule or fact gives `{name}`", mend)
        return bool(unknown)

    def _template(self, text: str, where: Place) -> None:
        try:
            self._unknown(placeholders(text), where)
        except ValueError as error:
            mend = "write {name} or {name / other}; {{ and }} stand for single braces"
            self._problems.add(where, str(error), mend)

    def _when(self, when: Mapping[str, Any], node: Node) -> None:
        for name, want in when.items():
            where, known = at(node, "when", name), self._values.get(name)
            if self._unknown(names_of(name), where) or known is None:
                continue
            for one in want if isinstance(want, tuple) else (want,):
                if not isinstance(one, bool) and one not in known:
                    words = sorted(map(str, known))
                    mend = did_you_mean(str(one), words, f"known: {', '.join(words[:12])}")
                    self._problems.add(where, f"`{name}` is never `{one}`: the fix is never offered", mend)


# ── cross-talk: an example line of one cause that a rule of another cause also matches ───────


def _crosstalk(loaded: LoadedRules, wanted: Collection[str], labels: LabelReader, problems: Problems) -> None:
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
            rivals = [pair for pair in (rules if here else checked) if admits(pair[0], line)]
            rivals = [(rule, where) for rule, where in rivals if not _may_share(rule, owner, loaded.knowledge)]
            texts = proof.peeled(line, labels) if rivals else ()
            for rule, where in rivals:
                if proof.takes(rule, line, texts):
                    what = f"`{rule.id}` also takes an example of `{owner.id}`: `{redact(line)[:90].strip()}`"
                    problems.add(example if here else where, what, mend)


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


class Tried(NamedTuple):
    """A case, and what the diagnosis named."""

    case: Case
    cause: str
    rank: int | None

    @property
    def right(self) -> bool:
        """To leave a healthy log in peace is enough."""
        healthy = self.case.cause == HEALTHY and self.cause == UNKNOWN
        return healthy or self.cause in {self.case.cause, *self.case.also}

    @property
    def right_rank(self) -> bool | None:
        """None where the truth is not certain of it."""
        return None if self.case.rank is None else self.rank == self.case.rank


def recall(trial: Sequence[Tried], cause: str) -> float | None:
    return _share([one.right for one in trial if one.case.cause == cause])


def precision(trial: Sequence[Tried], cause: str) -> float | None:
    return _share([one.right for one in trial if cause == (one.case.cause if one.right else one.cause)])


def _share(right: Sequence[bool]) -> float | None:
    return sum(right) / len(right) if right else None


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


def run(labelled: Sequence[Case], diagnose: Diagnose) -> list[Tried]:
    trial = []
    for case in labelled:
        found = diagnose(case.logs())
        cause = HEALTHY if found.verdict == "no-failure" else found.cause.id or UNKNOWN
        trial.append(Tried(case, cause, found.first_failure.rank))
    return trial
