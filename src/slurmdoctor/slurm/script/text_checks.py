"""Checks of a script's text and #SBATCH lines: what Slurm, or bash, takes for something else than it looks like. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmdoctor.slurm.script.model import Directive
from slurmdoctor.slurm.script.parser import SECTION
from slurmdoctor.slurm.script.plan import Occurrence, Plan

_BLANKS = re.compile(r"^#SBATCH\s[^\"'#]*?(?<![\w-])(--[\w-]+)(?:\s+=\s*|=\s+)([^\s#-][^\s#]*)")
_COMMENTED = re.compile(r"^(#[ \t]*SBATCH)((?:\s+-{1,2}[A-Za-z][^\s#=]*(?:[ =][^\s#-][^\s#]*)?)+)\s*(?:#.*)?$", re.I)
_PLACEHOLDER = re.compile(r"<(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?:your|YOUR|Your)[-_ ][\w -]{2,40})>")
_TEMPLATE = re.compile(r"\{\{\s*[\w.-]+\s*\}\}")
_UNDASHED = re.compile(r"\$\{(\w+):(\d+|[A-Za-z][\w.]*)\}")
_INDEXED = re.compile(r"\$\{([A-Za-z]\w*)\[([^\]@*]{2,60}|[1-9])\]")
_OF_BASH = re.compile(r"BASH_\w+|PIPESTATUS|FUNCNAME|DIRSTACK|GROUPS|MAPFILE|COPROC")


def _lines(plan: Plan) -> Iterator[tuple[int, str]]:
    """The lines of a script that a shell reads, without comments."""
    for line, text in enumerate(plan.script.text.splitlines(), 1):
        if not plan.script.unread and not text.lstrip().startswith("#"):
            yield line, text


# ── directives ──


def srun_only(plan: Plan) -> Iterator[Occurrence]:
    """`#SBATCH --no-container-mount-home`."""
    for given in plan.script.directives:
        if given.name in plan.programs.srun_only:
            yield Occurrence(given.line, {"option": f"--{given.name}"})


def unexpanded(plan: Plan) -> Iterator[Occurrence]:
    """`#SBATCH --output=$HOME/log`."""
    for given in plan.script.directives:
        if given.value and "$" in given.value:
            file = plan.script.name.rpartition("/")[2]
            names = {"option": f"--{given.name}", "value": given.value, "better": _known(plan, given), "file": file}
            yield Occurrence(given.line, names)


def _known(plan: Plan, given: Directive) -> str | None:
    """The value with sbatch's patterns, and the values that the script gives its variables; None where one is unknown."""
    patterns = {**plan.programs.file_patterns, "USER": "%u"} if given.name in ("output", "error", "input") else {}
    held = {one.name: one.value for one in reversed(plan.script.assignments)}
    found = re.sub(r"\$\{?(\w+)\}?", lambda m: patterns.get(m[1]) or held.get(m[1]) or m[0], given.value or "")
    return None if "$" in found else found


def ignored(plan: Plan) -> Iterator[Occurrence]:
    """An #SBATCH line below the first command."""
    for given in plan.script.ignored:
        yield Occurrence(given.line, {"option": f"--{given.name}"})


def blanks(plan: Plan) -> Iterator[Occurrence]:
    """`#SBATCH --job-name = x`."""
    for line, text in enumerate(plan.script.text.splitlines(), 1):
        if found := _BLANKS.match(text):
            yield Occurrence(line, {"option": found[1], "better": f"{found[1]}={found[2]}"})


def commented(plan: Plan) -> Iterator[Occurrence]:
    """`# SBATCH --gres=gpu:8` above the first command."""
    for line, text in enumerate(plan.script.text.splitlines(), 1):
        if text.strip() and not text.lstrip().startswith("#"):
            return
        if not text.startswith("#SBATCH") and (found := _COMMENTED.match(text)):
            yield Occurrence(line, {"mark": found[1], "option": found[2].strip()})


def late_folders(plan: Plan) -> Iterator[Occurrence]:
    """`--output=logs/%j.out`, and `mkdir -p logs` in the script."""
    made = {_folder(f"{arg}/"): c.line for c in plan.own if c.name == "mkdir" for arg in c.args}
    for given in plan.script.directives:
        folder = _folder(re.split("[%$]", given.value or "")[0]) if given.name in ("output", "error") else ""
        if folder and folder in made:
            yield Occurrence(given.line, {"option": f"--{given.name}", "folder": folder, "made": made[folder]})


def _folder(file: str) -> str:
    return re.sub(r"^(?:\./|\$\{?SLURM_SUBMIT_DIR\}?/)", "", file).rpartition("/")[0].rstrip("/")


# ── text ──


def placeholders(plan: Plan) -> Iterator[Occurrence]:
    """`<YOUR_ACCOUNT>`, and `nodes: "{{ node_count }}"` in a recipe: what a template leaves to be filled in."""
    script = plan.script
    for value, line in script.settings.values():
        if found := _TEMPLATE.search(value):
            yield Occurrence(line, {"name": found[0]})
    for line, text in enumerate(script.text.splitlines(), 1):
        comment = text.lstrip().startswith("#") or (script.unread and not script.settings)
        if (text.startswith("#SBATCH") or not comment) and (found := _PLACEHOLDER.search(text)):
            yield Occurrence(line, {"name": found[0]})


def broken(plan: Plan) -> Iterator[Occurrence]:
    """A line that is no bash, and no template's either."""
    empty = {one.line for one in placeholders(plan)}
    read = plan.script.interpreter not in ("zsh", "ksh")
    return (Occurrence(line) for line in plan.script.broken if read and line not in empty)


def undashed(plan: Plan) -> Iterator[Occurrence]:
    """`${NAME:0}`, where `${NAME:-0}` was meant: bash takes the number for a place in the text, and gives no default."""
    for line, text in _lines(plan):
        for found in _UNDASHED.finditer(text):
            name, given, start = found[1], found[2], found.start()
            itself = re.search(rf"(?:^|\W){name}=[\"']?$", text[max(0, start - len(name) - 3) : start])
            if itself or given == "0" or (not given.isdigit() and given.lower() != given):
                yield Occurrence(line, {"written": found[0], "better": f"${{{name}:-{given}}}", "name": name})


def unset_arrays(plan: Plan) -> Iterator[Occurrence]:
    """`${LRS[$SLURM_ARRAY_TASK_ID]}` where nothing sets LRS."""
    if [*settings_not_read(plan)]:
        return
    named = {name for _, text in _lines(plan) for name in re.findall(r"(?<![\w{#!$])[A-Za-z]\w*", text)}
    for line, text in _lines(plan):
        for found in _INDEXED.finditer(text):
            if found[1] not in named and not _OF_BASH.fullmatch(found[1]):
                yield Occurrence(line, {"name": found[1], "written": f"{found[0]}}}"})
                named.add(found[1])


def other_language(plan: Plan) -> Iterator[Occurrence]:
    """A file whose commands are in another language than a shell's."""
    script = plan.script
    if script.unread:
        marks = "#SBATCH" if script.directives or script.ignored else None
        section = SECTION if script.settings else None
        yield Occurrence(1, {"language": script.unread, "marks": marks, "section": section})


def documents(plan: Plan) -> Iterator[Occurrence]:
    """`sbatch <<EOF`: a batch script within this one."""
    lines = plan.script.text.splitlines()
    for first, last in plan.script.documents:
        if any(line.startswith("#SBATCH") for line in lines[first - 1 : last]):
            yield Occurrence(first)


def bash_only(plan: Plan) -> Iterator[Occurrence]:
    """`set -o pipefail`, `source` and arrays under `#!/bin/sh`."""
    script = plan.script
    found = {
        "NAME=(...)": (a.line for a in script.assignments if "=(" in a.written),
        "pipefail": (c.line for c in plan.own if c.name == "set" and "pipefail" in c.args),
        "source": (c.line for c in plan.own if c.name == "source"),
    }
    for what, lines in found.items():
        if script.of_sh and (line := next(lines, None)):
            yield Occurrence(line, {"what": what, "sh": script.interpreter})


def line_ends(plan: Plan) -> Iterator[Occurrence]:
    """Lines that end as Windows ends them."""
    if "\r\n" in plan.script.text:
        yield Occurrence(1, {"file": plan.script.name.rpartition("/")[2]})


def no_interpreter(plan: Plan) -> Iterator[Occurrence]:
    """A batch script without `#!` in its first line: sbatch refuses it."""
    script = plan.script
    if (script.directives or script.ignored) and not script.text.startswith("#!"):
        yield Occurrence(1)


def settings_not_read(plan: Plan) -> Iterator[Occurrence]:
    """`source settings.sh`: what it sets is not known here."""
    for name, line in plan.script.read:
        if not plan.programs.environments.search(name):
            yield Occurrence(line, {"file": name})


def mounts(plan: Plan) -> Iterator[Occurrence]:
    """`extra_mounts: ["shared/data:/data"]`: a mount is `source:target`, both from the root."""
    for name, (value, line) in plan.script.settings.items():
        if re.fullmatch(rf"{SECTION}\.extra_mounts(?:\.\d+)?", name) and not _TEMPLATE.search(value):
            parts = value.split(":")
            if len(parts) != 2 or not all(part.startswith(("/", "$", "~")) for part in parts):
                yield Occurrence(line, {"mount": value})
