"""What may be wrong in a script several times: each list has its function, and its name in `each:` of `checks.yaml`. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice

from slurmdoctor.slurm.script.directives import number
from slurmdoctor.slurm.script.finds import early, environment, header, processes, recipe, shared, status
from slurmdoctor.slurm.script.finds.subject import Occurrence, Subject
from slurmdoctor.slurm.script.model import Directive
from slurmdoctor.slurm.script.steps import arguments

MOST = 5
"""Findings of one check that are shown."""
_PLACEHOLDER = re.compile(r"<(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?:your|YOUR|Your)[-_ ][\w -]{2,40})>")
_COPY = frozenset({"cp", "rsync", "tar", "git", "sbcast", "unzip", "scp", "dcp", "bcast"})
_UNDASHED = re.compile(r"\$\{(\w+):(\d+|[A-Za-z][\w.]*)\}")


def read_occurrences(subject: Subject) -> dict[str, list[Occurrence]]:
    """Every list with what it holds."""
    return {name: list(islice(find(subject), MOST)) for name, find in LISTS.items()}


# ── directives ──


def _srun_only(subject: Subject) -> Iterator[Occurrence]:
    """`#SBATCH --no-container-mount-home`."""
    for given in subject.script.directives:
        if given.name in subject.programs.srun_only:
            yield Occurrence(given.line, {"option": f"--{given.name}"})


def _unexpanded(subject: Subject) -> Iterator[Occurrence]:
    """`#SBATCH --output=$HOME/log`."""
    for given in subject.script.directives:
        if given.value and "$" in given.value:
            file = subject.script.name.rpartition("/")[2]
            names = {"option": f"--{given.name}", "value": given.value, "better": _known(subject, given), "file": file}
            yield Occurrence(given.line, names)


def _known(subject: Subject, given: Directive) -> str | None:
    """The value with sbatch's patterns, and the values that the script gives its variables; None where one is unknown."""
    patterns = {**subject.programs.file_patterns, "USER": "%u"} if given.name in ("output", "error", "input") else {}
    held = {one.name: one.value for one in reversed(subject.script.assignments)}
    found = re.sub(r"\$\{?(\w+)\}?", lambda m: patterns.get(m[1]) or held.get(m[1]) or m[0], given.value or "")
    return None if "$" in found else found


def _ignored(subject: Subject) -> Iterator[Occurrence]:
    """An #SBATCH line below the first command."""
    for given in subject.script.ignored:
        yield Occurrence(given.line, {"option": f"--{given.name}"})


def _pinned(subject: Subject) -> Iterator[Occurrence]:
    """`srun --nodelist=node7` in a job that may get other nodes."""
    if subject.script.directive("nodelist"):
        return
    for step in subject.steps:
        pinned = step.option("nodelist")
        if pinned and "$" not in (pinned.value or ""):
            words = " ".join(word.written for word in step.command.words)
            written = re.search(r"(?:--nodelist(?:=|\s+)|-w\s*=?)\S+", words)
            yield Occurrence(pinned.line, {"node": pinned.value, "written": written[0] if written else None})


# ── text ──


def _placeholders(subject: Subject) -> Iterator[Occurrence]:
    """`<YOUR_ACCOUNT>`: what a template leaves to be filled in."""
    yield from recipe.templates(subject)
    for line, text in enumerate(subject.script.text.splitlines(), 1):
        comment = text.lstrip().startswith("#") or (subject.script.unread and not subject.script.settings)
        if (text.startswith("#SBATCH") or not comment) and (found := _PLACEHOLDER.search(text)):
            yield Occurrence(line, {"name": found[0]})


def _broken(subject: Subject) -> Iterator[Occurrence]:
    """A line that is no bash, and no template's either."""
    empty = {one.line for one in _placeholders(subject)}
    read = subject.script.interpreter not in ("zsh", "ksh")
    return (Occurrence(line) for line in subject.script.broken if read and line not in empty)


def _undashed(subject: Subject) -> Iterator[Occurrence]:
    """`${NAME:0}`, where `${NAME:-0}` was meant: bash takes the number for a place in the text, and gives no default."""
    for line, text in enumerate(subject.script.text.splitlines(), 1):
        for found in () if text.lstrip().startswith("#") or subject.script.unread else _UNDASHED.finditer(text):
            name, given = found[1], found[2]
            start = found.start()
            itself = re.search(rf"(?:^|\W){name}=[\"']?$", text[max(0, start - len(name) - 3) : start])
            if itself or given == "0" or (not given.isdigit() and given.lower() != given):
                yield Occurrence(line, {"written": found[0], "better": f"${{{name}:-{given}}}", "name": name})


def _kind(subject: Subject) -> Iterator[Occurrence]:
    """A file whose commands are in another language than a shell's."""
    script = subject.script
    if script.unread:
        marks = "#SBATCH" if script.directives or script.ignored else None
        yield Occurrence(
            1, {"language": script.unread, "marks": marks, "section": recipe.SECTION if script.settings else None}
        )


def _documents(subject: Subject) -> Iterator[Occurrence]:
    """`sbatch <<EOF`: a batch script within this one."""
    lines = subject.script.text.splitlines()
    for first, last in subject.script.documents:
        if any(line.startswith("#SBATCH") for line in lines[first - 1 : last]):
            yield Occurrence(first)


def _bash_only(subject: Subject) -> Iterator[Occurrence]:
    """`set -o pipefail`, `source` and arrays under `#!/bin/sh`."""
    script = subject.script
    if not script.of_sh:
        return
    arrays = (a.line for a in script.assignments if "=(" in a.written)
    pipefail = (c.line for c in subject.own if c.name == "set" and "pipefail" in c.args)
    found = {"NAME=(...)": arrays, "pipefail": pipefail, "source": (c.line for c in subject.own if c.name == "source")}
    for what, at in found.items():
        if line := next(at, None):
            yield Occurrence(line, {"what": what, "sh": script.interpreter})


def _line_ends(subject: Subject) -> Iterator[Occurrence]:
    """Lines that end as Windows ends them."""
    if "\r\n" in subject.script.text:
        yield Occurrence(1, {"file": subject.script.name.rpartition("/")[2]})


def _no_interpreter(subject: Subject) -> Iterator[Occurrence]:
    """A batch script without `#!` in its first line: sbatch refuses it."""
    script = subject.script
    if (script.directives or script.ignored) and not script.text.startswith("#!"):
        yield Occurrence(1)


def _read(subject: Subject) -> Iterator[Occurrence]:
    """`source settings.sh`: what it sets is not known here."""
    for name, line in subject.script.read:
        if not subject.programs.environments.search(name):
            yield Occurrence(line, {"file": name})


# ── places ──


def _kept_locally(subject: Subject) -> Iterator[Occurrence]:
    """`--save /tmp/checkpoints`: what must outlive the job on a path that only one node sees."""
    kept = list(_kept(subject))
    kept += _working_folders(subject) if (_nodes(subject) or 0) > 1 else []
    copied = list(_copied(subject))
    for line, what, path in kept:
        staged = path and any(
            at < line and (path == word.rstrip("/") or word.startswith(f"{path}/")) for at, word in copied
        )
        if path and subject.programs.is_local(path) and not staged:
            yield Occurrence(line, {"what": what, "path": path, "alone": what if _nodes(subject) == 1 else None})


def _nodes(subject: Subject) -> int | None:
    told = subject.script.settings.get("slurm.nodes")
    return number(told[0]) if told else subject.count(subject.main, "nodes")


def _copied(subject: Subject) -> Iterator[tuple[int, str]]:
    """What the script itself puts where it uses it: `srun tar -xf data.tar -C /tmp/data`, `sbcast`."""
    for command in subject.script.commands:
        if _COPY & {word.text.rpartition("/")[2] for word in command.words}:
            yield from ((command.line, word) for word in command.args)


def _kept(subject: Subject) -> Iterator[tuple[int, str, str | None]]:
    """(line, what is kept there, path)."""
    for command in subject.main.runs if subject.main else ():
        for name, value, line, _ in arguments(command):
            if name in subject.programs.kept:
                yield line, name if "." in name else f"--{name}", value
    if subject.script.settings.get("checkpoint.enabled", ("true", 0))[0].lower() != "false":
        for name, (value, line) in subject.script.settings.items():
            if name.rpartition(".")[2].replace("_", "-") in subject.programs.kept:
                yield line, name, value
    for given in subject.script.directives:
        if given.name in ("output", "error"):
            yield given.line, f"--{given.name}", given.value
    for one in subject.script.assignments:
        if subject.programs.kept_variables.search(one.name):
            yield one.line, one.name, one.likely
    for command in subject.own:
        if command.name == "tee":
            for file in command.args:
                yield command.line, "tee", file
    if subject.main:
        yield from ((subject.main.command.line, ">", file) for file in subject.main.command.outputs)


def _working_folders(subject: Subject) -> Iterator[tuple[int, str, str | None]]:
    """`cd /tmp/project` before the step, or in it."""
    runs = list(subject.main.runs) if subject.main else []
    last = subject.main.command.line if subject.main else 0
    for command in (*(c for c in subject.own if c.line < last and not c.subshell and c.function is None), *runs):
        if command.name in ("cd", "pushd") and command.args:
            yield command.words[1].line or command.line, command.name, command.args[0]
    for name, line in subject.script.read:
        yield line, "source", name


LISTS: Mapping[str, Callable[[Subject], Iterator[Occurrence]]] = {
    "srun_only": _srun_only,
    "unexpanded": _unexpanded,
    "ignored": _ignored,
    "pinned": _pinned,
    "placeholders": _placeholders,
    "broken": _broken,
    "undashed": _undashed,
    "other_language": _kind,
    "documents": _documents,
    "bash_only": _bash_only,
    "line_ends": _line_ends,
    "no_interpreter": _no_interpreter,
    "read": _read,
    "mounts": recipe.mounts,
    "early": early.early,
    "exported_early": early.exported,
    "never_filled": early.never,
    "kept_locally": _kept_locally,
    "sync_everywhere": environment.sync_everywhere,
    "implicit_sync": environment.implicit_sync,
    "array_logs": shared.array_logs,
    "shared_outputs": shared.outputs,
    "unset_arrays": shared.unset_arrays,
    "blanks": header.blanks,
    "commented": header.commented,
    "late_folders": header.late_folders,
    "unawaited": processes.unawaited,
    "background": processes.background,
    "lost_pid": processes.lost_pid,
    "after_exec": status.after_exec,
    "hidden_by_pipe": status.hidden_by_pipe,
    "hidden_by_last": status.hidden_by_last,
    "last_test": status.last_test,
}
