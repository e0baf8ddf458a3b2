"""Checks of a script's commands: exit statuses that are lost, processes that are left, files that tasks share, and variables of a
task that the batch shell fills in too early, or no shell ever. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from slurmdoctor.slurm.script.bash_reader import strings
from slurmdoctor.slurm.script.model import Command, Early, EarlyUse, Word
from slurmdoctor.slurm.script.parser import number
from slurmdoctor.slurm.script.plan import Occurrence, Plan, Step, arguments, argv, is_srun, is_work

_TASK = "SLURM_ARRAY_TASK_ID"
_TEST = re.compile(r"^[^#]*(?:\[\s|\(\(|\b(?:case|test)\s)")
_COPY = frozenset({"cp", "rsync", "tar", "git", "sbcast", "unzip", "scp", "dcp", "bcast"})
_QUICK = frozenset({"echo", "date", "printf", "true", ":", "hostname", "export"})
_KILLS = frozenset({"kill", "pkill", "killall"})
_NO_WORK = frozenset({"exit", "wait", "kill", "true", ":", "tee"})
_STARTS = frozenset({"srun", "mpirun", "mpiexec", "exec", "sbatch"})
_GUARDED = re.compile(r"^(?:#!|[^#\n]).*(?:pipefail|PIPESTATUS)", re.M)
_HANDLED = re.compile(r"^(?:#!|\s*set\b).*\s-(?:\w*e|\w*o\s+errexit)|\$\?|PIPESTATUS|\|\|", re.M)


# ── where the exit status of the training is lost, or another one takes its place ──


def hidden_by_pipe(plan: Plan) -> Iterator[Occurrence]:
    """`srun ... | tee log` without pipefail: the script's exit status is tee's. Also in `srun bash -c '...'`."""
    command = _last_step(plan)
    if command is None or "xargs" in command.piped_to or _GUARDED.search(plan.script.text):
        return
    if command.piped_to:
        sh = plan.script.interpreter if plan.script.of_sh else None
        yield Occurrence(command.line, {"program": command.piped_to[-1], "sh": sh})
    elif plan.main and "bash" in command.args:
        for inner in plan.main.runs:
            if inner.parent is command and inner.depth > command.depth and inner.piped_to and is_work(inner):
                yield Occurrence(inner.line, {"program": inner.piped_to[-1], "inside": command.name})


def after_exec(plan: Plan) -> Iterator[Occurrence]:
    """`exec srun ...` with commands or traps behind it."""
    for command in plan.own:
        if command.name == "exec" and len(command.words) > 1 and command.function is None:
            behind = [c.line for c in _after(plan, command) if c.name != "exec"]
            skipped = behind or [trap.line for trap in plan.script.traps]
            if skipped:
                yield Occurrence(command.line, {"last": skipped[0]})
            return


def hidden_by_last(plan: Plan) -> Iterator[Occurrence]:
    """`srun ...` and then `echo done`: the script's exit status is echo's."""
    command = _last_step(plan)
    if command is None or command.name == "exec" or command.piped_to or command.background or command.function:
        return
    behind = [c for c in _after(plan, command) if c.name not in _NO_WORK]
    if behind and not is_work(behind[-1]) and not _HANDLED.search(plan.script.text):
        yield Occurrence(command.line, {"name": behind[-1].name, "last": behind[-1].line})


def last_test(plan: Plan) -> Iterator[Occurrence]:
    """`[ -n "$PID" ] && kill $PID` as the last statement: where the test is false, the exit status is 1."""
    for one in plan.script.last_tests:
        of_task = one.parent is None or is_srun(one.parent)
        if of_task and one.program.rpartition("/")[2] not in _STARTS and "python" not in one.program:
            yield Occurrence(one.line, {"program": one.program})


def _last_step(plan: Plan) -> Command | None:
    """The command of the step whose exit status matters."""
    step = plan.main or (plan.steps[-1] if plan.steps else None)
    mpi = (command for command in plan.own if command.name in ("mpirun", "mpiexec"))
    return step.command if step else max(mpi, key=lambda command: command.line, default=None)


def _after(plan: Plan, command: Command) -> list[Command]:
    return [c for c in plan.own if c.line > command.line and c.function is None]


# ── processes that the script leaves running ──


def left_in_background(plan: Plan) -> Iterator[Occurrence]:
    """`nvidia-smi dmon &`, and a `wait` that waits for it too: what else may run in the background is work, and ends."""
    script, own = plan.script, list(plan.own)
    if any("EXIT" in trap.signals for trap in script.traps):
        return
    kills = [(c.line, c.variables) for c in own if c.name in _KILLS and c.function is None]
    kept = {one.pid for one in script.background if one.pid}
    waits = [(c.line, c.variables if c.args else None) for c in own if c.name == "wait"]
    works = any(is_srun(c) or is_work(c) for c in own)
    in_front = [c.line for c in own if not c.background and c.name not in {*_QUICK, "sleep"}]
    replaced = any(c.name == "exec" and len(c.words) > 1 for c in own)
    left = [one for one in script.background if plan.programs.monitors.search(one.text)]
    work = {one.line for one in script.background} - {one.line for one in left}
    for one in left:
        wait = next((at for at, names in waits if at > one.line and (names is None or one.pid in names)), None)
        # a kill of another one's PID does not end this one
        killed = any(at > one.line and (not names & kept or one.pid in names) for at, names in kills)
        served = wait is not None and not works and not any(one.line < at < wait for at in in_front)
        if served or not (replaced or (wait and not killed)) or any(map(is_srun, one.commands)):
            continue
        inside, mixed = "( ... )" if one.subshell else None, wait if work else None
        bash = {"wait_of_sh": wait} if script.of_sh else {"wait": wait, "ended": one.name}
        yield Occurrence(one.line, {"name": one.name, "inside": inside, "mixed": mixed, **bash})


def unawaited(plan: Plan) -> Iterator[Occurrence]:
    """`mpirun ... &`, and then the script ends."""
    last = max((c.line for c in plan.own if not c.background and c.name not in _QUICK), default=0)
    for one in plan.script.background:
        if one.line > last and one.commands[0].function is None and one.name:
            yield Occurrence(one.line, {"name": one.name})


def lost_pid(plan: Plan) -> Iterator[Occurrence]:
    """`( monitor & PID=$! ); kill $PID`: the variable is gone behind the subshell, and the kill ends nothing."""
    kept = {a.name for a in plan.script.assignments if not a.subshell}
    lost = {a.name: a for a in plan.script.assignments if a.pid and a.name not in kept}
    kills = ((c, name) for c in plan.own if c.name in _KILLS and not c.subshell for name in c.variables)
    for command, name in kills:
        if name in lost:
            yield Occurrence(lost[name].line, {"name": name, "kill": command.line})
            return


# ── what tasks that run at once write to one file ──


def _is_array(plan: Plan) -> bool:
    given = plan.script.directive("array")
    return given is not None and not re.fullmatch(r"\d+", given.value or "")


def array_logs(plan: Plan) -> Iterator[Occurrence]:
    """`--array=0-99 --output=result.log`."""
    mode = plan.script.directive("open-mode")
    if not _is_array(plan) or (mode and mode.value == "append"):
        return
    for given in plan.script.directives:
        value = given.value or ""
        if given.name in ("output", "error") and value and not re.search(r"%\d*[ajJ]|[$\\]|^/dev/", value):
            names = {"option": f"--{given.name}", "value": value, "better": _numbered(value, "-%A_%a")}
            yield Occurrence(given.line, names)


def shared_outputs(plan: Plan) -> Iterator[Occurrence]:
    """`python sweep.py > out.csv` in an array, and `srun -n 8 bash -c 'python sweep.py > out.csv'`."""
    if any(c.name in ("cd", "pushd") and not all(w.known for w in c.words) for c in plan.script.commands):
        return
    if _is_array(plan) and not _chooses(plan):
        for command in plan.own:
            if is_work(command) or is_srun(command) or command.words[0].text.startswith("./"):
                yield from _fixed(command, "the tasks of the array", _TASK)
    for step in plan.steps:
        tasks, shell = plan.tasks(step) or 1, " ".join(step.command.args)
        if tasks > 1 and not any(name in shell for name in plan.programs.per_task):
            for command in step.runs:
                if command.parent is step.command and command.depth and is_work(command):
                    yield from _fixed(command, f"{tasks} tasks", "SLURM_PROCID")


def _chooses(plan: Plan) -> bool:
    """Whether one task of the array does what the others don't."""
    names = {_TASK, *(one.name for one in plan.script.assignments if _TASK in one.likely)}
    lines = filter(_TEST.match, plan.script.text.splitlines())
    return any(names & set(re.findall(r"\w+", line)) for line in lines)


def _fixed(command: Command, many: str, variable: str) -> Iterator[Occurrence]:
    for file in command.outputs:
        if "$" not in file and not file.startswith("/dev/") and not command.appends:
            yield Occurrence(command.line, {"many": many, "file": file, "better": _numbered(file, f".${variable}")})


def _numbered(file: str, mark: str) -> str:
    """`out.csv` → `out.$SLURM_PROCID.csv`."""
    return re.sub(r"(?<=[^/])(\.\w+)?$", lambda end: mark + end[0], file, count=1)


# ── what only one node has ──


def pinned(plan: Plan) -> Iterator[Occurrence]:
    """`srun --nodelist=node7` in a job that may get other nodes."""
    if plan.script.directive("nodelist"):
        return
    for step in plan.steps:
        option = step.option("nodelist")
        if option and "$" not in (option.value or ""):
            yield Occurrence(option.line, {"node": option.value})


def kept_locally(plan: Plan) -> Iterator[Occurrence]:
    """`--save /tmp/checkpoints`: what must outlive the job on a path that only one node sees."""
    given = plan.script.settings.get("slurm.nodes")
    nodes = number(given[0]) if given else plan.count(plan.main, "nodes")
    kept = [*_kept(plan), *(_working_folders(plan) if (nodes or 0) > 1 else ())]
    # what the script itself puts where it uses it: `srun tar -xf data.tar -C /tmp/data`, `sbcast`
    copying = (c for c in plan.script.commands if _COPY & {word.text.rpartition("/")[2] for word in c.words})
    copied = [(command.line, word) for command in copying for word in command.args]
    for line, what, path in kept:
        staged = path and any(
            at < line and (path == word.rstrip("/") or word.startswith(f"{path}/")) for at, word in copied
        )
        if path and plan.programs.is_local(path) and not staged:
            yield Occurrence(line, {"what": what, "path": path, "alone": what if nodes == 1 else None})


def _kept(plan: Plan) -> Iterator[tuple[int, str, str | None]]:
    """(line, what is kept there, path)."""
    script, main = plan.script, plan.main
    for command in main.runs if main else ():
        for name, value, line, _ in arguments(command):
            if name in plan.programs.kept:
                yield line, name if "." in name else f"--{name}", value
    if script.settings.get("checkpoint.enabled", ("true", 0))[0].lower() != "false":
        for name, (value, line) in script.settings.items():
            if name.rpartition(".")[2].replace("_", "-") in plan.programs.kept:
                yield line, name, value
    for given in script.directives:
        if given.name in ("output", "error"):
            yield given.line, f"--{given.name}", given.value
    for one in script.assignments:
        if plan.programs.kept_variables.search(one.name):
            yield one.line, one.name, one.likely
    for command in plan.own:
        if command.name == "tee":
            for file in command.args:
                yield command.line, "tee", file
    if main:
        yield from ((main.command.line, ">", file) for file in main.command.outputs)


def _working_folders(plan: Plan) -> Iterator[tuple[int, str, str | None]]:
    """`cd /tmp/project` before the step, or in it."""
    runs = plan.main.runs if plan.main else ()
    last = plan.main.command.line if plan.main else 0
    for command in (*(c for c in plan.own if c.line < last and not c.subshell and c.function is None), *runs):
        if command.name in ("cd", "pushd") and command.args:
            yield command.words[1].line or command.line, command.name, command.args[0]
    for name, line in plan.script.read:
        yield line, "source", name


# ── how the tasks come to their Python packages ──


def sync_everywhere(plan: Plan) -> Iterator[Occurrence]:
    """`srun bash -c "uv sync && ..."` on many tasks at once, with no single process before them."""
    if any(c.name == "uv" and "sync" in c.args for c in plan.own):
        return
    for step in plan.steps:
        syncing = [c for c in step.runs if argv(c)[:2] == ["uv", "sync"]]
        if not syncing:
            continue
        count = step.option("ntasks")
        alone = count is not None and number(count.value) == 1
        guarded = any(one in w.text for w in step.command.words for one in ("SLURM_LOCALID", "SLURM_PROCID"))
        if not alone and not guarded and plan.tasks(step) != 1:
            yield Occurrence(syncing[0].line, {"tasks": plan.tasks(step)})
        return


def implicit_sync(plan: Plan) -> Iterator[Occurrence]:
    """`uv run python` in the container of every task, with no `uv sync` before: each builds the environment first."""
    main, script = plan.main, plan.script
    if main is None or "UV_NO_SYNC" in script.text or plan.tasks(main) == 1:
        return
    if any(c.name == "uv" and ("sync" in c.args or "pip" in c.args) for c in script.commands):
        return
    image = main.option("container-image") or script.directive("container-image")
    for command in main.runs if image else ():
        words = argv(command)
        if words[:2] == ["uv", "run"] and not {"--no-sync", "--frozen", "--isolated", "--no-project"} & set(words):
            yield Occurrence(command.line, {"tasks": plan.tasks(main)})
            return


_OF_NODE = frozenset({"SLURM_NODEID", "SLURMD_NODENAME"})
_PLACES = frozenset({"nodelist", "relative", "exclude", "jobid", "job-name"})
"""Options of srun that the batch script may well fill in."""
_FILES = frozenset({"output", "error", "input"})
_READ_VARIABLES = frozenset({"bash", "sh", "zsh", "env", "ssh", "xargs", "parallel", "awk", "perl"})
"""Programs that fill in variables themselves."""
_OTHER_LANGUAGE = re.compile(r"\b(?:(?:ba|da|z)?sh -\w*c|ssh|eval|awk|python3? -c)\b|<<")


def expanded_early(plan: Plan) -> Iterator[Occurrence]:
    """`srun train.py --rank $SLURM_PROCID`: the batch shell fills it in, once for all tasks."""
    seen: set[tuple[int, str]] = set()
    for use in plan.script.early:
        one, step = use.early, plan.step_of(use.command)
        if not _differs(plan, one.name, step) or (one.line, one.name) in seen:
            continue
        names = _fix(plan, use, step)
        if names is None:
            continue
        seen.add((one.line, one.name))
        if not names:  # one command, one finding
            others = (other.early for other in plan.script.early if other.command is use.command)
            seen.update((other.line, other.name) for other in others)
        yield Occurrence(one.line, {"shown": f"${one.name}", **names})


def _differs(plan: Plan, name: str, step: Step | None) -> bool:
    """Whether the tasks of a step can have different values: one node has one node id."""
    if name in _OF_NODE:
        return plan.count(step, "nodes") != 1
    if name == "SLURM_LOCALID" and plan.count(step, "ntasks-per-node") == 1:
        return False
    return plan.tasks(step) != 1


def _fix(plan: Plan, use: EarlyUse, step: Step | None) -> dict[str, str] | None:
    """What to write instead, where one line says it; None where it is no mistake."""
    one, at, words = use.early, use.at, use.command.words
    escaped = {"escaped": _escaped(plan, one)}
    if at is None:
        return escaped if _reaches_tasks(plan, use) else None
    if step is None:
        return escaped
    if at == step.program and _is_command_line(words[at]):
        return None
    written = " ".join(word.written for word in words)
    if one.name == "SLURMD_NODENAME" and any(map(plan.programs.address.search, written.split(one.written)[:-1])):
        return None
    if any(at == string for string, _, _ in strings(use.command)):
        return escaped
    if step.program is not None and at >= step.program:
        return {}
    held = (o for o in step.options if f"${one.name}" in (o.value or "") or one.written in (o.value or ""))
    option = next(held, None)
    if option is None or option.name in _PLACES:
        return None
    pattern = plan.programs.file_patterns.get(one.name)
    return {"pattern": pattern, "option": f"--{option.name}"} if option.name in _FILES and pattern else None


def _reaches_tasks(plan: Plan, use: EarlyUse) -> bool:
    """Whether a here-document is read by tasks: `srun bash <<EOF`, or a file that is written here and started by srun."""
    words = argv(use.command)
    if is_srun(use.command):
        return True
    written = {*use.command.outputs, *(words[1:] if words[:1] == ["tee"] else ())}
    started = {word.text.rpartition("/")[2] for step in plan.steps for word in step.command.words}
    return any(file.rpartition("/")[2] in started for file in written)


def _escaped(plan: Plan, one: Early) -> str:
    r"""`--node_rank=\${SLURM_NODEID}`: the variable with what is before it in its word, and a backslash."""
    lines = plan.script.text.splitlines()
    line = lines[one.line - 1] if 0 < one.line <= len(lines) else ""
    found = re.search(r"[\w.-]*=?\"?" + re.escape(one.written), line)
    return (found[0] if found else one.written).replace('"', "").replace(one.written, "\\" + one.written)


def exported_early(plan: Plan) -> Iterator[Occurrence]:
    """`export RANK=$SLURM_PROCID` in the batch script: every task inherits the one value."""
    main = plan.main
    if main is None or not is_srun(main.command):
        return
    written = " ".join(word.written for word in main.command.words)
    handled = {(use.early.line, use.early.name) for use in plan.script.early}
    for one in plan.script.exported_early:
        exports = (a for a in plan.script.assignments if a.exported and a.line == one.line)
        given = next((a for a in exports if re.search(rf"\$\{{?{one.name}\b", a.written)), None)
        if given is None or (one.line, one.name) in handled or re.search(rf"\b{re.escape(given.name)}=", written):
            continue
        used = re.search(rf"\$\{{?{re.escape(given.name)}\b", written)
        if _differs(plan, one.name, main) and one.through is None and (used or not main.launchers):
            names = {"shown": f"${one.name}", "variable": given.name, "assignment": f"export {given.written}"}
            yield Occurrence(one.line, names)


def never_filled_in(plan: Plan) -> Iterator[Occurrence]:
    r"""`srun torchrun --node_rank=\$SLURM_NODEID`: srun starts no shell that could fill it in."""
    for step in plan.steps:
        words, program = step.command.words, step.program
        if program is None or not is_srun(step.command):
            continue
        if list(strings(step.command)):
            yield from _escaped_twice(plan, step)
        elif _is_command_line(words[program]):
            yield Occurrence(words[program].line, {"program": words[program].text.split()[0]})
        elif not _reads_variables(words[program]):
            waiting = ((word, _waiting(word, plan.programs.per_task)) for word in words[program:])
            found = ((word, name) for word, name in waiting if name)
            for word, name in [*found][:1]:
                yield Occurrence(word.line, {"shown": f"${name}"})


def _escaped_twice(plan: Plan, step: Step) -> Iterator[Occurrence]:
    r"""`bash -c '... \$SLURM_NODEID'`: between single quotes the backslash is left to the task's shell, which takes the $ as text."""
    waiting = re.compile(r"[\w.-]*=?\\\$\{?(" + "|".join(plan.programs.per_task) + r")\b\}?")
    for at, text, first in strings(step.command):
        if step.command.words[at].written.startswith("'") and not _OTHER_LANGUAGE.search(text):
            for line, one in enumerate(text.split("\n"), first):
                if found := waiting.search(one):
                    yield Occurrence(line, {"shown": f"${found[1]}", "plain": found[0].replace("\\$", "$")})


def _is_command_line(word: Word) -> bool:
    """A whole command between quotes: srun takes it for the name of a program."""
    return " " in word.text and word.written[:1] in ("'", '"') and not word.written.startswith('"$')


def _waiting(word: Word, per_task: frozenset[str]) -> str | None:
    """The variable of a task that a word keeps for a shell to fill in."""
    if not re.search(r"\\\$|'[^']*\$", word.written):
        return None
    return next((name for name in re.findall(r"\$\{?(\w+)", word.text) if name in per_task), None)


def _reads_variables(program: Word) -> bool:
    """A program that fills in variables itself: a shell, `env -S`, `ssh`, awk, or an unknown script of the user's."""
    name = program.text.rpartition("/")[2]
    return name in _READ_VARIABLES or name.endswith(".sh") or program.text.startswith("./")
