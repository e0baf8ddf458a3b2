"""What may be wrong in a script several times: each function is named in an `each:` of `rules/lint/checks.yaml`. Pure.

It yields the line of each place, and the names that the check's sentences use.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from slurmdoctor.slurm.script.bash_reader import strings
from slurmdoctor.slurm.script.model import Command, Premature, Word, argv, base, is_comment, is_srun
from slurmdoctor.slurm.script.plan import Plan, Step, arguments, is_work, with_patterns
from slurmdoctor.slurm.script.tables import programs

Found = Iterator[tuple[int, Mapping[str, int | str | None]]]

_BLANKS = re.compile(r"^#SBATCH\s[^\"'#]*?(?<![\w-])(--[\w-]+)(?:\s+=\s*|=\s+)([^\s#-][^\s#]*)")
_COMMENTED = re.compile(r"^(#[ \t]*SBATCH)((?:\s+-{1,2}[A-Za-z][^\s#=]*(?:[ =][^\s#-][^\s#]*)?)+)\s*(?:#.*)?$", re.I)
_PLACEHOLDER = re.compile(r"<(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?:your|YOUR|Your)[-_ ][\w -]{2,40})>")
_UNDASHED = re.compile(r"\$\{(\w+):(\d+|[A-Za-z][\w.]*)\}")
_INDEXED = re.compile(r"\$\{([A-Za-z]\w*)\[([^\]@*]{2,60}|[1-9])\]")
_OF_BASH = re.compile(r"BASH_\w+|PIPESTATUS|FUNCNAME|DIRSTACK|GROUPS|MAPFILE|COPROC")
_COMMENT = re.compile(r"#\s*slurmdoctor:\s*ignore(?:\[([^\]]*)\])?", re.I)
_MOST_COMMENTS = 50
"""Comments above one command."""
ALL = "*"
"""What a comment without ids asks to ignore."""

_LOGS = frozenset({"output", "error"})
_GUARDED = re.compile(r"^(?:#!|[^#\n]).*(?:pipefail|PIPESTATUS)", re.M)
_TEST = re.compile(r"^[^#\n]*(?:\[\s|\(\(|\b(?:case|test)\s)", re.M)
_HANDLED = re.compile(
    r"^(?:#!|\s*set\b).*\s-(?:\w*e|\w*o\s+errexit)|^(?!\s*(?:echo|printf)\b).*\$\?|PIPESTATUS|\|\|", re.M
)

_OF_NODE = frozenset({"SLURM_NODEID", "SLURMD_NODENAME"})
_PLACES = frozenset({"nodelist", "relative", "exclude", "jobid", "job-name"})
"""Options of srun that the batch script may well fill in."""
_FILES = frozenset({*_LOGS, "input"})


# ── directives ──


def srun_only(plan: Plan) -> Found:
    """`#SBATCH --no-container-mount-home`."""
    for given in plan.script.directives:
        if given.name in programs().srun_only:
            yield given.line, {"option": f"--{given.name}"}


def unexpanded(plan: Plan) -> Found:
    """`#SBATCH --output=$HOME/log`."""
    for given in plan.script.directives:
        if "$" in (value := given.value or ""):
            better = with_patterns(value) if given.name in _FILES else "$"
            yield (
                given.line,
                {
                    "option": f"--{given.name}",
                    "value": value,
                    "better": better if "$" not in better else None,
                },
            )


def ignored(plan: Plan) -> Found:
    """An #SBATCH line below the first command."""
    for given in plan.script.ignored:
        yield given.line, {"option": f"--{given.name}"}


def blanks(plan: Plan) -> Found:
    """`#SBATCH --job-name = x`."""
    for line, text in enumerate(plan.lines, 1):
        if found := _BLANKS.match(text):
            yield line, {"option": found[1], "better": f"{found[1]}={found[2]}"}


def commented(plan: Plan) -> Found:
    """`# SBATCH --gres=gpu:8` above the first command."""
    for line, text in enumerate(plan.lines, 1):
        if text.strip() and not is_comment(text):
            return
        if not text.startswith("#SBATCH") and (found := _COMMENTED.match(text)):
            yield line, {"mark": found[1], "option": found[2].strip()}


def late_folders(plan: Plan) -> Found:
    """`--output=logs/%j.out`, and `mkdir -p logs` in the script."""
    made = {_folder(f"{arg}/"): c.line for c in plan.own if c.name == "mkdir" for arg in c.args}
    for given in plan.script.directives:
        folder = _folder(re.split("[%$]", given.value or "")[0]) if given.name in _LOGS else ""
        if folder and folder in made:
            yield given.line, {"option": f"--{given.name}", "folder": folder, "made": made[folder]}


def _folder(file: str) -> str:
    return re.sub(r"^(?:\./|\$\{?SLURM_SUBMIT_DIR\}?/)", "", file).rpartition("/")[0].rstrip("/")


# ── text ──


def _lines(plan: Plan) -> Iterator[tuple[int, str]]:
    """The lines of a script that Slurm or a shell reads, without comments."""
    for line, text in enumerate(plan.lines, 1):
        if text.startswith("#SBATCH") or not (plan.script.unread or is_comment(text)):
            yield line, text


def placeholders(plan: Plan) -> Found:
    """`<YOUR_ACCOUNT>`: what a template leaves to be filled in."""
    for line, text in _lines(plan):
        if found := _PLACEHOLDER.search(text):
            yield line, {"name": found[0]}


def broken(plan: Plan) -> Found:
    """A line that is no bash, and no template's either."""
    empty = {line for line, _ in placeholders(plan)}
    read = plan.script.interpreter not in ("zsh", "ksh")
    return ((line, {}) for line in plan.script.broken if read and line not in empty)


def undashed(plan: Plan) -> Found:
    """`${NAME:0}`, where `${NAME:-0}` was meant: bash takes the number for a place in the text, and gives no default."""
    for line, text in _lines(plan):
        for found in _UNDASHED.finditer(text):
            name, given = found.groups()
            itself = re.search(rf"(?:^|\W){name}=[\"']?$", text[max(0, found.start() - len(name) - 3) : found.start()])
            if itself:
                yield line, {"written": found[0], "better": f"${{{name}:-{given}}}", "name": name}


def unset_arrays(plan: Plan) -> Found:
    """`${LRS[$SLURM_ARRAY_TASK_ID]}` where nothing sets LRS."""
    if plan.script.settings:
        return
    named = {name for _, text in _lines(plan) for name in re.findall(r"(?<![\w{#!$])[A-Za-z]\w*", text)}
    for line, text in _lines(plan):
        for found in _INDEXED.finditer(text):
            if found[1] not in named and not _OF_BASH.fullmatch(found[1]):
                yield line, {"name": found[1], "written": f"{found[0]}}}"}
                named.add(found[1])


def documents(plan: Plan) -> Found:
    """`sbatch <<EOF`: a batch script within this one."""
    for first, last in plan.script.documents:
        if any(line.startswith("#SBATCH") for line in plan.lines[first - 1 : last]):
            yield first, {}


def sourced(plan: Plan) -> Found:
    """`source settings.sh`: what it sets is not known here."""
    for name, line in plan.script.settings:
        yield line, {"file": name}


def ignored_checks(lines: Sequence[str]) -> dict[int, list[str]]:
    """Line -> the ids that comments ask to ignore there: on the line itself, or on lines of their own above the command.

    `# slurmdoctor: ignore[port-fixed]`
    """
    found: dict[int, list[str]] = {}
    above: list[str] = []
    for at, line in enumerate(lines, 1):
        if comment := _COMMENT.search(line):
            above = [*above, *map(str.strip, (comment[1] or ALL).split(","))][-_MOST_COMMENTS:]
        found[at] = above
        alone = is_comment(line) and not line.startswith("#SBATCH")
        if not alone and not line.rstrip().endswith("\\"):  # the command goes on in the next line
            above = []
    return found


# ── where the exit status of the training is lost, or another one takes its place ──


def hidden_by_pipe(plan: Plan) -> Found:
    """`srun ... | tee log` without pipefail: the script's exit status is tee's. Also in `srun bash -c '...'`."""
    command = _last_step(plan)
    if command is None or _GUARDED.search(plan.script.text):
        return
    if command.piped_to:
        sh = plan.script.interpreter if plan.script.of_sh else None
        yield command.line, {"program": command.piped_to[-1], "sh": sh}
    elif plan.main and "bash" in command.args:
        for inner in plan.main.runs:
            if inner.piped_to and is_work(inner):
                yield inner.line, {"program": inner.piped_to[-1], "inside": command.name}


def after_exec(plan: Plan) -> Found:
    """`exec srun ...` with commands or traps behind it."""
    for command in [c for c in plan.script.execs if c.function is None][:1]:
        skipped = [c.line for c in _after(plan, command) if c.name != "exec"] or [*plan.script.traps.values()]
        if skipped:
            yield command.line, {"last": skipped[0]}


def hidden_by_last(plan: Plan) -> Found:
    """`srun ...` and then `echo done`: the script's exit status is echo's."""
    command = _last_step(plan)
    if command is None or command.name == "exec" or command.piped_to or command.background or command.function:
        return
    behind = [c for c in _after(plan, command) if c.name not in programs().no_work]
    if behind and not is_work(behind[-1]) and not _HANDLED.search(plan.script.text):
        yield command.line, {"name": behind[-1].name, "last": behind[-1].line}


def last_test(plan: Plan) -> Found:
    """`[ -n "$PID" ] && kill $PID` as the last statement: where the test is false, the exit status is 1."""
    for one in plan.script.last_tests:
        of_task = one.parent is None or is_srun(one.parent)
        if of_task and one.program not in programs().starts and "python" not in one.program:
            yield one.line, {"program": one.program}


def _last_step(plan: Plan) -> Command | None:
    """The command of the step whose exit status matters."""
    step = plan.main or (plan.steps[-1] if plan.steps else None)
    mpi = (command for command in plan.own if command.name in ("mpirun", "mpiexec"))
    return step.command if step else max(mpi, key=lambda command: command.line, default=None)


def _after(plan: Plan, command: Command) -> list[Command]:
    return [c for c in plan.own if c.line > command.line and c.function is None]


# ── processes that the script leaves running ──


def left_in_background(plan: Plan) -> Found:
    """`nvidia-smi dmon &`, and a `wait` that waits for it too: what else may run in the background is work, and ends."""
    script, own = plan.script, list(plan.own)
    if "EXIT" in script.traps:
        return
    left = [one for one in script.background if programs().monitors.search(one.text)]
    kept = {one.pid for one in script.background if one.pid}
    kills = [(c.line, c.variables) for c in own if c.name in programs().kills]
    waits = [(c.line, c.variables if c.args else None) for c in own if c.name == "wait"]
    passing = {*programs().quick, *programs().kills, "sleep", "wait"}
    watching = {c.line for one in left for c in one.commands}
    last = max((c.line for c in own if c.line not in watching and c.name not in passing), default=0)
    others = any(one.line not in watching for one in script.background)
    for one in left:
        wait = next((at for at, names in waits if at > one.line and (names is None or one.pid in names)), None)
        # a kill of another one's PID does not end this one
        killed = any(at > one.line and (not names & kept or one.pid in names) for at, names in kills)
        if last < one.line or not (script.execs or (wait and not killed)) or any(map(is_srun, one.commands)):
            continue
        inside, mixed = "( ... )" if one.subshell else None, wait if others else None
        bash = {"wait_of_sh": wait} if script.of_sh else {"wait": wait, "ended": one.name}
        yield one.line, {"name": one.name, "inside": inside, "mixed": mixed, **bash}


def unawaited(plan: Plan) -> Found:
    """`mpirun ... &`, and then the script ends."""
    last = max((c.line for c in plan.own if not c.background and c.name not in programs().quick), default=0)
    for one in plan.script.background:
        if one.line > last and one.commands[0].function is None and one.name:
            yield one.line, {"name": one.name}


def lost_pid(plan: Plan) -> Found:
    """`( monitor & PID=$! ); kill $PID`: the variable is gone behind the subshell, and the kill ends nothing."""
    kept = {a.name for a in plan.script.assignments if not a.subshell}
    lost = {a.name: a.line for a in plan.script.assignments if a.name not in kept}
    kills = [c for c in plan.own if c.name in programs().kills and not c.subshell]
    for line, name in [(c.line, name) for c in kills for name in c.variables & lost.keys()][:1]:
        yield lost[name], {"name": name, "kill": line}


# ── what the tasks of an array write to one file ──


def array_logs(plan: Plan) -> Found:
    """`--array=0-99 --output=result.log`."""
    if plan.script.directive("open-mode") or not _is_array(plan):
        return
    for given in plan.script.directives:
        value = given.value or ""
        if given.name in _LOGS and value and not re.search(r"%\d*[ajJ]|[$\\]|^/dev/", value):
            yield given.line, {"option": f"--{given.name}", "value": value, "better": _numbered(value, "-%A_%a")}


def shared_outputs(plan: Plan) -> Found:
    """`python sweep.py > out.csv`, where no test lets one task do what the others do not."""
    moving = any(c.name in ("cd", "pushd") and not all(w.known for w in c.words) for c in plan.own)
    if not _is_array(plan) or moving or _TEST.search(plan.script.text):
        return
    for command in plan.own:
        works = is_work(command) or is_srun(command) or command.words[0].text.startswith("./")
        for file in command.outputs if works and not command.appends else ():
            if "$" not in file and not file.startswith("/dev/"):
                yield command.line, {"file": file, "better": _numbered(file, ".$SLURM_ARRAY_TASK_ID")}


def _is_array(plan: Plan) -> bool:
    given = plan.script.directive("array")
    return given is not None and not (given.value or "").isdigit()


def _numbered(file: str, mark: str) -> str:
    """`out.csv` → `out.$SLURM_PROCID.csv`."""
    return re.sub(r"(?<=[^/])(\.\w+)?$", lambda end: mark + end[0], file, count=1)


# ── what only one node has ──


def pinned(plan: Plan) -> Found:
    """`srun --nodelist=node7` in a job that may get other nodes."""
    for step in plan.steps if not plan.script.directive("nodelist") else ():
        option = step.option("nodelist")
        if option and "$" not in (option.value or ""):
            yield option.line, {"node": option.value}


def kept_locally(plan: Plan) -> Found:
    """`--save /tmp/checkpoints`: what must outlive the job on a path that only one node sees."""
    nodes = plan.count(plan.main, "nodes")
    # what the script itself puts where it uses it: `srun tar -xf data.tar -C /tmp/data`, `sbcast`
    copying = (c for c in plan.script.commands if programs().copying & {base(word.text) for word in c.words})
    copied = [(command.line, f"{word}/") for command in copying for word in command.args]
    for line, what, path in (*_kept(plan), *(_working_folders(plan) if (nodes or 0) > 1 else ())):
        if programs().node_local.search(path or "") and not any(
            at <= line and word.startswith(f"{path}/") for at, word in copied
        ):
            yield line, {"what": what, "path": path, "alone": what if nodes == 1 else None}


def _kept(plan: Plan) -> Iterator[tuple[int, str, str | None]]:
    """(line, what is kept there, path)."""
    script, known = plan.script, programs()
    for command in plan.main.runs if plan.main else ():
        for name, value, line, _ in arguments(command):
            if name in known.kept:
                yield line, name if "." in name else f"--{name}", value
    yield from ((given.line, f"--{given.name}", given.value) for given in script.directives if given.name in _LOGS)
    yield from ((a.line, a.name, a.word.text) for a in script.assignments if known.kept_variables.search(a.name))


def _working_folders(plan: Plan) -> Iterator[tuple[int, str, str | None]]:
    """`cd /tmp/project` before the step, or in it."""
    runs, last = (plan.main.runs, plan.main.command.line) if plan.main else ((), 0)
    for command in (*(c for c in plan.own if c.line < last and not c.subshell and c.function is None), *runs):
        if command.name in ("cd", "pushd") and command.args:
            yield command.words[1].line or command.line, command.name, command.args[0]
    yield from ((line, "source", name) for name, line in plan.script.sourced)


# ── how the tasks come to their Python packages ──


def sync_everywhere(plan: Plan) -> Found:
    """`srun bash -c "uv sync && ..."` on many tasks at once, with no single process before them."""
    if any(c.name == "uv" and "sync" in c.args for c in plan.own):
        return
    syncing = [(step, c) for step in plan.steps for c in step.runs if argv(c)[:2] == ["uv", "sync"]]
    for step, command in syncing[:1]:
        guarded = re.search("SLURM_(?:LOCALID|PROCID)", " ".join(step.command.args))
        if not guarded and plan.tasks(step) != 1:
            yield command.line, {"tasks": plan.tasks(step)}


def implicit_sync(plan: Plan) -> Found:
    """`uv run python` in the container of every task, with no `uv sync` before: each builds the environment first."""
    main, script = plan.main, plan.script
    if main is None or "UV_NO_SYNC" in script.text or plan.tasks(main) == 1:
        return
    if any(c.name == "uv" and {"sync", "pip"} & {*c.args} for c in script.commands):
        return
    image = main.option("container-image") or script.directive("container-image")
    running = ((c.line, argv(c)) for c in main.runs if image)
    unsynced = {"--no-sync", "--frozen", "--isolated", "--no-project"}
    for line in [line for line, words in running if words[:2] == ["uv", "run"] and not unsynced & {*words}][:1]:
        yield line, {"tasks": plan.tasks(main)}


# ── variables of a task that the batch shell fills in too early, or no shell ever ──


def premature_expansions(plan: Plan) -> Found:
    """`srun train.py --rank $SLURM_PROCID`: the batch shell fills it in, once for all tasks."""
    for command, at, one in _uses(plan):
        step = next((step for step in plan.steps if step.command is command), None)
        names = _fix(plan, step, command, at, one) if _differs(plan, one.name, step) else None
        if names is not None:
            yield one.line, {"shown": f"${one.name}", **names}


def _uses(plan: Plan) -> Iterator[tuple[Command, int | None, Premature]]:
    """The commands in which such variables take effect: each variable with its word, or None in the here-document."""
    for command in plan.script.commands:
        words = command.words if is_srun(command) else ()
        yield from ((command, at, one) for at, word in enumerate(words) for one in word.premature)
        yield from ((command, None, one) for one in command.document)


def _differs(plan: Plan, name: str, step: Step | None) -> bool:
    """Whether the tasks of a step can have different values: one node has one node id."""
    if name in _OF_NODE:
        return plan.count(step, "nodes") != 1
    return plan.tasks(step) != 1 and not (name == "SLURM_LOCALID" and plan.count(step, "ntasks-per-node") == 1)


def _fix(plan: Plan, step: Step | None, command: Command, at: int | None, one: Premature) -> Mapping[str, str] | None:
    """What to write instead, where one line says it; None where it is no mistake."""
    words = command.words
    escaped = {"escaped": _escaped(plan, one)}
    if at is None:
        return escaped if _reaches_tasks(plan, command) else None
    if step is None:
        return None
    if at == step.program and _is_command_line(words[at]):
        return None
    written = " ".join(word.written for word in words)
    if any(map(programs().address.search, written.split(one.written)[:-1])):
        return None
    if any(at == string for string, _, _ in strings(command)):
        return escaped
    if step.program is not None and at >= step.program:
        return {}
    option = next((given for given in step.options if one.written in (given.value or "")), None)
    if option is None or option.name in _PLACES:
        return None
    pattern = programs().file_patterns.get(one.name)
    return {"pattern": pattern, "option": f"--{option.name}"} if option.name in _FILES and pattern else None


def _reaches_tasks(plan: Plan, command: Command) -> bool:
    """Whether a here-document is read by tasks: `srun bash <<EOF`, or a file that is written here and started by srun."""
    written = {*command.outputs, *(command.args if command.name == "tee" else ())}
    started = {base(word.text) for step in plan.steps for word in step.command.words}
    return is_srun(command) or any(base(file) in started for file in written)


def _escaped(plan: Plan, one: Premature) -> str:
    r"""`--node_rank=\${SLURM_NODEID}`: the variable with what is before it in its word, and a backslash."""
    found = re.search(r"[\w.-]*=?\"?" + re.escape(one.written), "".join(plan.lines[one.line - 1 : one.line]))
    return (found[0] if found else one.written).replace('"', "").replace(one.written, "\\" + one.written)


def premature_exports(plan: Plan) -> Found:
    """`export RANK=$SLURM_PROCID` in the batch script: every task inherits the one value."""
    main = plan.main
    if main is None or not is_srun(main.command):
        return
    written = " ".join(word.written for word in main.command.words)
    handled = {(one.line, one.name) for _, _, one in _uses(plan)}
    for given in (a for a in plan.script.assignments if a.exported and a.word.premature):
        set_by_task = re.search(rf"\b{re.escape(given.name)}=", written)
        used = re.search(rf"\$\{{?{re.escape(given.name)}\b", written)
        for one in given.word.premature if not set_by_task and (used or not main.launchers) else ():
            if (one.line, one.name) not in handled and one.line == given.line and _differs(plan, one.name, main):
                names = {"variable": given.name, "assignment": f"export {given.written}"}
                yield one.line, {"shown": f"${one.name}", **names}


def never_expanded(plan: Plan) -> Found:
    r"""`srun torchrun --node_rank=\$SLURM_NODEID`: srun starts no shell that could fill it in."""
    for step in plan.steps:
        words, program = step.command.words, step.program
        if program is None or not is_srun(step.command) or any(strings(step.command)):
            continue
        if _is_command_line(words[program]):
            yield words[program].line, {"program": words[program].text.split()[0]}
        elif not _reads_variables(words[program].text):
            for line, name in [(word.line, name) for word in words[program:] for name in _waiting(word)][:1]:
                yield line, {"shown": f"${name}"}


def _is_command_line(word: Word) -> bool:
    """A whole command between quotes: srun takes it for the name of a program."""
    return " " in word.text and word.written[:1] in ("'", '"') and not word.written.startswith('"$')


def _waiting(word: Word) -> list[str]:
    """The variables of a task that a word keeps for a shell to fill in."""
    kept = re.search(r"\\\$|'[^']*\$", word.written)
    return [name for name in re.findall(r"\$\{?(\w+)", word.text) if kept and name in programs().per_task]


def _reads_variables(program: str) -> bool:
    """A program that fills in variables itself: a shell, `env -S`, `ssh`, awk, or an unknown script of the user's."""
    return base(program) in programs().read_variables or program.endswith(".sh") or program.startswith("./")
