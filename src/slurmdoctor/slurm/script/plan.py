"""What a script is going to do: its steps, and its facts in names and numbers, such as nodes, launcher, sizes of parallelism."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from itertools import chain, pairwise, zip_longest
from typing import NamedTuple

from msgspec import Struct, field

from slurmdoctor.knowledge import layouts
from slurmdoctor.model import Frozen
from slurmdoctor.slurm.jobinfo import seconds, size
from slurmdoctor.slurm.script.model import Command, Directive, Script, argv, base, is_srun, last_of
from slurmdoctor.slurm.script.parser import gpus, number, options, signal_request, whole
from slurmdoctor.slurm.script.tables import programs

Fact = int | float | str
_PYTHON = re.compile(r"python[\d.]*$|\.py$")
_COUNTS = {"nodes": "nodes", "ntasks-per-node": "tasks_per_node", "ntasks": "tasks"}
"""Option of sbatch and srun -> fact."""
_REMARK = re.compile(r"^[ \t]*#(?!SBATCH|!).*$", re.M)
_SIZES = ("tp", "pp", "cp", "ep")


class Argument(NamedTuple):
    """`--tp 8`, `--tp=8`, `-tp 8` or Hydra's `model.tp=8`."""

    name: str
    """Without dashes in front, and with `-` for `_`."""
    value: str | None
    line: int
    known: bool
    """Whether the value depends on the script alone."""


class Step(Frozen):
    """One srun, or a launcher without one, with all commands that it runs."""

    command: Command
    options: tuple[Directive, ...]
    """srun's own."""
    runs: tuple[Command, ...]
    program: int | None = None
    """Which of srun's words is its program."""

    def option(self, name: str) -> Directive | None:
        """The one that counts."""
        return last_of(self.options, name)

    @property
    def launchers(self) -> list[tuple[str, int]]:
        return [found for command in self.runs if (found := launcher(command))]


class Plan(Frozen):
    """A script with its steps."""

    script: Script
    steps: Sequence[Step]
    main: Step | None
    """The step that trains: the last one that starts a launcher, or else Python."""
    lines: Sequence[str]
    """The script's."""
    own: Sequence[Command]
    """The commands that the script itself runs, outside of strings."""

    def count(self, step: Step | None, name: str) -> int | None:
        """A number that srun is given, or else the script: `nodes`, `ntasks`."""
        given = (step.option(name) if step else None) or self.script.directive(name)
        return number(given.value) if given else None

    def tasks(self, step: Step | None) -> int | None:
        """How many tasks a step has."""
        nodes, tasks = self.count(step, "nodes"), self.count(step, "ntasks")
        if nodes is None or (tasks is not None and step and (step.option("ntasks") or not step.option("nodes"))):
            return tasks
        return nodes * (self.count(step, "ntasks-per-node") or 1)


def plan_of(script: Script) -> Plan:
    """The plan of a script."""
    found = steps(script)
    launching = [step for step in found if step.launchers] or [step for step in found if any(map(is_work, step.runs))]
    own = [command for command in script.commands if command.depth == 0]
    return Plan(script, found, launching[-1] if launching else None, script.text.splitlines(), own)


def steps(script: Script) -> list[Step]:
    """All steps of a script, in order; those of a function where the script calls it."""
    found: list[Step] = []
    called = {None, *(command.name for command in script.commands)}
    for at, command in enumerate(script.commands, 1):
        words = argv(command)
        if is_srun(command) and command.function in called:
            rest = range(at, len(script.commands))
            end = next((k for k in rest if script.commands[k].depth <= command.depth), rest.stop)
            own_options, behind = options(words[1:], command.line)
            program = len(command.words) - len(words) + 1 + behind
            own = Command(command.words[program:], command.line, depth=command.depth, parent=command)
            runs = (own, *script.commands[at:end])
            found.append(Step(command, tuple(own_options), runs, program if own.words else None))
        elif command.depth == 0 and launcher(command) and "srun" not in map(base, words):
            found.append(Step(command, (), (command,)))
    return found


def step_outputs(script: Script) -> list[str]:
    """File name patterns that the script gives its steps (`srun --output=log-%t`), and files it redirects them to."""
    found: list[str] = []
    for step in steps(script):
        given = [one.value or "" for name in ("output", "error") if (one := step.option(name))]
        found += [file for file in given if file not in ("", "none", "all") and not file.isdigit()]
        found += [file for file in step.command.outputs if not file.startswith("/dev/")]
    filled = (with_patterns(file, "%t") for file in found)
    return list(dict.fromkeys(file for file in filled if "$" not in file))


def with_patterns(file: str, other: str = "$") -> str:
    """A file's name with Slurm's patterns in place of variables, and `other` for those that it has none for."""
    return re.sub(r"\$\{?(\w+)\}?", lambda found: programs().file_patterns.get(found[1], other), file)


# ── commands ──


def launcher(command: Command) -> tuple[str, int] | None:
    """The launcher that a command calls, and its line: `torchrun`, or `python -m torch.distributed.run`."""
    known = programs().launchers
    for word, after in pairwise([*argv(command), ""]):
        if word == "-c":
            return None
        if name := known.get(base(word)) or known.get(f"{base(word)} {after}"):
            return name, line_of(command, word)
    return None


def is_work(command: Command) -> bool:
    """Whether a command starts a launcher or Python."""
    return launcher(command) is not None or any(_PYTHON.search(word) for word in argv(command)[:6])


def arguments(command: Command) -> Iterator[Argument]:
    """The named arguments of a command of any program."""
    for word, after in zip_longest(command.words, command.words[1:]):
        found = re.match(r"(?:(--?)|\+{0,2})([A-Za-z][\w.-]*)(?:=(.*))?$", word.text, re.S)
        if not found or (not found[1] and found[3] is None):
            continue
        value, known = found[3], word.known
        if value is None and after and not after.text.startswith("-"):
            value, known = after.text, after.known
        value = value.strip("\"'") if value is not None else None
        yield Argument(found[2].replace("_", "-"), value, word.line or command.line, known)


def line_of(command: Command, text: str) -> int:
    """The line on which a word of the command is."""
    return next((w.line for w in command.words if w.text == text and w.line), command.line)


# ── facts ──


class Facts(Struct):
    """Facts by name, each with the line that gives it. Of several values the first one counts."""

    values: dict[str, Fact] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, value: Fact | None, line: int | None = None) -> None:
        """What is not known, and what is not so, is no fact."""
        if value is not None and value is not False and name not in self.values:
            self.values[name] = value
            if line is not None:
                self.lines[name] = line

    def whole(self, name: str) -> int | None:
        """A fact that is a whole number."""
        value = self.values.get(name)
        return value if isinstance(value, int) else None


def facts_of(plan: Plan) -> Facts:
    """The facts of a script."""
    facts, script = Facts(), plan.script
    facts.add("file", base(script.name))
    facts.add("cut", script.cut, script.cut)
    facts.add("language", script.unread or None, 1)
    _directives(facts, script)
    _signal(facts, script)
    _environment(facts, script)
    if plan.main is not None:
        _step(facts, plan, plan.main)
    _script_marks(facts, script)
    if "mixed" not in facts.values:
        _counts(facts, plan)
    _ports(facts, plan)
    _world(facts)
    return facts


def _counts(facts: Facts, plan: Plan) -> None:
    """srun's own options win over those of sbatch; but it ignores its tasks per node where sbatch gives the tasks."""
    script, main = plan.script, plan.main
    own = main.options if main else ()
    asked = script.directive("ntasks") or script.directive("ntasks-per-node")
    # one step of several, each on a node of its own
    alone = any("$" in (one.value or "") for one in own if one.name in ("nodelist", "relative"))
    for name, fact in _COUNTS.items():
        ignored = alone or (name == "ntasks-per-node" and asked and not last_of(own, "ntasks"))
        of_job = script.directive(name)
        for found in filter(None, (None if ignored else last_of(own, name), of_job)):
            facts.add(fact, number(found.value), found.line)
        if of_job:
            facts.add("sized", True, of_job.line)
    shape = [given for given in script.directives if given.name in ("nodes", "ntasks-per-node")]
    for given in ((*shape, *own), script.directives):
        facts.add("gpus_per_node", *gpus(given))


def _directives(facts: Facts, script: Script) -> None:
    given = {one.name: one for one in script.directives}
    facts.add("gpus_asked", any(map(_asks_gpus, script.directives)))
    for name in given.keys() & {"array", "exclusive", "requeue", "open-mode"}:
        facts.add(name.replace("-", "_"), True, given[name].line)
    if time := given.get("time"):
        limit = seconds(time.value)
        facts.add("time_min", round(limit / 60) if limit else None)
        minutes = re.fullmatch(r"(\d{2,3}):00", time.value or "")
        facts.add("time_mmss", int(minutes[1]) if minutes else None, time.line)
    if cpus := given.get("cpus-per-task"):
        facts.add("cpus_per_task", number(cpus.value), cpus.line)
    if memory := given.get("mem"):
        amount = size(memory.value)
        facts.add("mem_gib", round(amount / 2**30, 1) if amount else None)
    if memory := memory or given.get("mem-per-gpu"):
        facts.add("mem_mb", whole(memory.value) or None, memory.line)
        facts.add("mem_option", f"--{memory.name}")


def _signal(facts: Facts, script: Script) -> None:
    """The signal before the time limit, and whether the script handles it, or hands its process over to one that may."""
    asked = signal_request(script.directives)
    if asked is None:
        return
    handled = asked.signal in script.traps or bool(script.execs)
    facts.add("signal", asked.signal, asked.line)
    facts.add("signal_seconds", asked.seconds)
    facts.add("signal_batch", asked.batch_shell)
    facts.add("signal_handled", handled)
    # what lint and diagnose propose: without a trap, B: keeps the signal from the tasks
    facts.add("signal_to", f"B:{asked.signal}" if asked.batch_shell and handled else asked.signal)
    facts.add("signal_wide", asked.seconds if asked.seconds >= 60 else 300)


def _environment(facts: Facts, script: Script) -> None:
    known = programs()
    for command in script.commands:
        for name, value in (*command.env.items(), *_handed(command)):
            facts.add(f"set_{name}", value, command.line)

    facts.add("reads_settings", bool(script.settings))
    for name, one in {a.name: a for a in script.assignments if a.exported}.items():
        facts.add(f"set_{name}", one.word.text, one.line)
        if known.node_local.search(one.word.text):
            facts.add(f"local_{name}", one.word.text, one.line)
    connections = facts.values.get("set_CUDA_DEVICE_MAX_CONNECTIONS")
    facts.add("max_connections", whole(str(connections)), facts.lines.get("set_CUDA_DEVICE_MAX_CONNECTIONS"))


def _handed(command: Command) -> list[tuple[str, str]]:
    """`env A=1 python ...`, `srun --export=ALL,A=1 ...`."""
    words = [w.text for w in command.words]
    exports = (word.partition("=")[2].split(",") for word in words if word.startswith("--export="))
    texts = [*(words if "env" in words else ()), *chain.from_iterable(exports)]
    return [(found[1], found[2]) for text in texts if (found := re.match(r"([A-Za-z_]\w*)=(.*)", text, re.S))]


def _step(facts: Facts, plan: Plan, main: Step) -> None:
    """Facts of the step that trains."""
    line, by_srun = main.command.line, is_srun(main.command)
    facts.add("main", True, line)
    facts.add("by_srun", by_srun)
    facts.add("gpus_asked", any(map(_asks_gpus, main.options)))
    for command in main.runs:
        _arguments(facts, command)
    for launcher in main.launchers:
        facts.add("launcher", *launcher)

    facts.add("launcher", "srun" if by_srun else None, line)
    image = main.option("container-image") or plan.script.directive("container-image")
    facts.add("container", image is not None)
    text = "\n".join(" ".join(argv(command)) for command in main.runs)
    for name, pattern in programs().step_marks.items():
        if found := pattern.search(text):
            holder = next((c for c in main.runs if found[0] in argv(c)), main.command)
            facts.add(name, found[0], line_of(holder, found[0]))


def _arguments(facts: Facts, command: Command) -> None:
    """Sizes and switches on the command line of a program, whichever names it has for them."""
    known_names = programs()
    for name, value, line, _ in arguments(command):
        if name in known_names.sizes and value is not None:
            count = whole(value)
            facts.add(known_names.sizes[name], value if count is None else count, line)
        if name in known_names.switches and (value or "true").lower() not in ("false", "0", "none"):
            facts.add(known_names.switches[name], True, line)


def _asks_gpus(option: Directive) -> bool:
    """Whether an option of sbatch or srun asks for GPUs, in whichever way."""
    return option.name.startswith("gpus") or (
        "gpu" in (option.value or "") and option.name.startswith(("gres", "tres"))
    )


def _script_marks(facts: Facts, script: Script) -> None:
    text = _REMARK.sub("", script.text)
    for name, pattern in programs().script_marks.items():
        if found := pattern.search(text):
            line = text.count("\n", 0, found.start()) + 1
            if name != "clears_experiments" or line <= facts.lines.get("recipe", line):  # cleared before the run
                facts.add(name, found[0], line)


def _ports(facts: Facts, plan: Plan) -> None:
    """`MASTER_PORT=29500` is fixed; `${MASTER_PORT:-29500}` only where the job's environment sets no other."""
    defaults: dict[str, int] = {}
    for one in plan.script.assignments:
        if not one.word.known:
            defaults.setdefault(one.word.text, one.line)
        if one.name == "MASTER_PORT":
            facts.add("fixed_port" if one.word.known else "default_port", whole(one.word.text), one.line)
    for name, value, line, known in chain.from_iterable(map(arguments, plan.main.runs if plan.main else ())):
        meaning = programs().sizes.get(name)
        if meaning == "rdzv_endpoint" or (meaning == "master_port" and known):
            port = (value or "").rpartition(":")[2]
            if port in defaults:
                facts.add("default_port", whole(port), defaults[port])
            elif "fixed_port" not in facts.values:
                facts.add("fixed_port", whole(port), line)
                facts.add("port_of_option", whole(port))


def _world(facts: Facts) -> None:
    """Nodes, tasks and GPUs from each other; the world is the GPUs of all nodes."""
    tasks, per_node, line = facts.whole("tasks"), facts.whole("tasks_per_node"), facts.lines.get("tasks")
    if tasks is not None and per_node:
        facts.add("nodes", max(1, tasks // per_node), line)
    nodes = facts.whole("nodes")
    if tasks is not None and nodes:
        facts.add("tasks_per_node", -(-tasks // nodes), line)
    if not per_node:
        facts.add("tasks_alone", tasks)
    launcher, nproc = facts.values.get("launcher"), facts.whole("nproc")
    facts.add("gpus_wanted", (facts.whole("tasks_per_node") if launcher == "srun" else nproc) or None)
    gpus_of_node = facts.whole("gpus_per_node") or (nproc if launcher == "torchrun" else None)
    sized = [facts.lines[name] for name in _SIZES if facts.whole(name)]
    for name in _SIZES if sized else ():
        facts.add(name, 1, sized[0])
    if nodes and gpus_of_node:
        facts.add("world", nodes * gpus_of_node)
        facts.add("world_gpus", gpus_of_node)
        if sized:
            _model(facts, nodes, gpus_of_node)
    for name, text in layouts(facts.values).items():
        facts.add(name, text or None)


def _model(facts: Facts, nodes: int, gpus_of_node: int) -> None:
    """How many ranks one copy of the model takes, how many copies the job holds, and on how many nodes it would fit."""
    tensor, pipeline, context, expert = (facts.whole(name) or 1 for name in _SIZES)
    facts.add("etp", tensor if "etp_is_tp" in facts.values else 1)
    ranks, experts = tensor * pipeline * context, (facts.whole("etp") or 1) * expert * pipeline
    copies, rest = divmod(nodes * gpus_of_node, ranks)
    facts.add("data_parallel", None if rest else copies)
    for part, count in (("model", ranks), ("experts", experts)):
        facts.add(f"{part}_ranks", count)
        step = count // math.gcd(count, gpus_of_node)
        facts.add(f"nodes_for_{part}", -(-nodes // step) * step)
