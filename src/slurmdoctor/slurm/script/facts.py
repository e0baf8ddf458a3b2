"""What a script is going to do, in names and numbers: nodes, tasks, the launcher, sizes of the model's parallelism. Pure."""

from __future__ import annotations

import math
import re

from msgspec import Struct, field

from slurmdoctor.knowledge import layouts
from slurmdoctor.slurm.script.directives import gpus, number, signal_request, whole
from slurmdoctor.slurm.script.model import Command, Directive, Script
from slurmdoctor.slurm.script.programs import Programs
from slurmdoctor.slurm.script.steps import Step, arguments, argv, line_of
from slurmdoctor.slurm.values import seconds, size

Fact = int | float | str
_COUNTS = {"nodes": "nodes", "ntasks-per-node": "tasks_per_node", "ntasks": "tasks"}
"""Option of sbatch and srun -> fact."""
_REMARK = re.compile(r"^[ \t]*#(?!SBATCH|!).*$", re.M)
_OF_ARRAY = re.compile(r"^[^#]*\$\{?SLURM_ARRAY_TASK_ID\b(?!:?-)")
_SIZES = ("tp", "pp", "cp", "ep")
_PORTS = frozenset({"master-port", "main-process-port"})


class Facts(Struct):
    """Facts by name, each with the line that gives it. Of several values the first one counts."""

    values: dict[str, Fact] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)

    def add(self, name: str, value: Fact | None, line: int | None = None) -> None:
        if value is not None and name not in self.values:
            self.values[name] = value
            if line is not None:
                self.lines[name] = line

    def add_mark(self, name: str, holds: bool, line: int) -> None:
        """A fact that is true or absent."""
        self.add(name, holds or None, line)

    def whole(self, name: str) -> int | None:
        """A fact that is a whole number."""
        value = self.values.get(name)
        return value if isinstance(value, int) else None


def read_facts(script: Script, main: Step | None, programs: Programs) -> Facts:
    """The facts of a script, of which `main` is the step that trains."""
    facts = Facts()
    facts.add("cut", script.cut, script.cut)
    if main is not None and not script.mixed:
        _srun_counts(facts, script, main)
    _directives(facts, script)
    _environment(facts, script, programs)
    _settings(facts, script, programs)
    if main is not None:
        _step(facts, script, main, programs)
    _script_marks(facts, script, programs)
    _port(facts, script)
    _world(facts)
    _model_ranks(facts)
    sizes_that_fit(facts)
    return facts


def _srun_counts(facts: Facts, script: Script, main: Step) -> None:
    """srun's own options win over those of sbatch; but it ignores its tasks per node where sbatch tells the tasks."""
    shape = [given for given in script.directives if given.name in ("nodes", "ntasks-per-node")]
    _gpus_per_node(facts, (*shape, *main.options))
    if any("$" in (option.value or "") for option in main.options if option.name in ("nodelist", "relative")):
        return  # one step of several, each on a node of its own
    told = script.directive("ntasks") or script.directive("ntasks-per-node")
    for name, fact in _COUNTS.items():
        ignored = name == "ntasks-per-node" and told and not main.option("ntasks")
        if (found := main.option(name)) and not ignored:
            facts.add(fact, number(found.value), found.line)


def _port(facts: Facts, script: Script) -> None:
    """`MASTER_PORT=29500` is fixed; `${MASTER_PORT:-29500}` only where the job's environment sets no other."""
    defaults = {a.likely: a.line for a in script.assignments if a.value is None and whole(a.likely)}
    port = str(facts.values.get("fixed_port"))
    if port in defaults:
        facts.values.pop("fixed_port", None)
    for one in script.assignments:
        if one.value is None and (one.name == "MASTER_PORT" or one.likely == port):
            facts.add("default_port", whole(one.likely), one.line)


def _directives(facts: Facts, script: Script) -> None:
    for name, fact in _COUNTS.items():
        if (found := script.directive(name)) and not script.mixed:
            facts.add(fact, number(found.value), found.line)
            facts.add("told", True, found.line)
    if not script.mixed:
        _gpus_per_node(facts, script.directives)
    facts.add("mixed", script.mixed or None)
    facts.add("gpus_asked", any(map(asks_gpus, script.directives)) or script.mixed or None)
    if used := next(
        (number for number, text in enumerate(script.text.splitlines(), 1) if _OF_ARRAY.search(text)), None
    ):
        facts.add("array_used", script.directive("array") is None or None, used)
    for name in ("exclusive", "requeue"):
        if found := script.directive(name):
            facts.add(name, True, found.line)
    if found := script.directive("open-mode"):
        facts.add("open_mode", found.value, found.line)
    if found := script.directive("time"):
        limit = seconds(found.value)
        facts.add("time_min", round(limit / 60) if limit else None, found.line)
        minutes = re.fullmatch(r"(\d{2,3}):00", found.value or "")
        facts.add("time_mmss", whole(minutes[1]) if minutes else None, found.line)
    if found := script.directive("cpus-per-task"):
        facts.add("cpus_per_task", number(found.value), found.line)
    for name in ("mem", "mem-per-gpu"):
        if (found := script.directive(name)) and (amount := whole(found.value)):
            facts.add("mem_mb", amount, found.line)
            facts.add("mem_option", f"--{name}")
    if found := script.directive("mem"):
        amount = size(found.value)
        facts.add("mem_gib", round(amount / 2**30, 1) if amount else None, found.line)
    if asked := signal_request(script.directives):
        facts.add("signal", asked.signal, asked.line)
        facts.add("signal_seconds", asked.seconds, asked.line)
        facts.add("signal_batch", asked.batch_shell, asked.line)
        handled = handles_signal(script, asked.signal)
        facts.add("signal_handled", handled)
        # what lint and diagnose propose: without a trap, B: keeps the signal from the tasks
        facts.add("signal_to", f"B:{asked.signal}" if asked.batch_shell and handled else asked.signal)
        facts.add("signal_wide", asked.seconds if (asked.seconds or 0) >= 60 else 300)


def _gpus_per_node(facts: Facts, options: tuple[Directive, ...]) -> None:
    count, found = gpus(options)
    facts.add("gpus_per_node", count, found.line if found else None)


def handles_signal(script: Script, name: str) -> bool:
    """Whether the script handles a signal, or hands its process over to one that may."""
    handled = any(name in trap.signals for trap in script.traps)
    return handled or any(c.name == "exec" and c.depth == 0 and len(c.words) > 1 for c in script.commands)


def _environment(facts: Facts, script: Script, programs: Programs) -> None:
    for command in script.commands:
        for name, value in (*command.env.items(), *_handed(command)):
            facts.add(f"set_{name}", value, command.line)
    facts.add("reads_settings", any(not programs.environments.search(name) for name, _ in script.read) or None)
    for name, one in {a.name: a for a in script.assignments if a.exported}.items():
        facts.add(f"set_{name}", one.likely, one.line)
        if name in programs.caches and programs.is_local(one.likely):
            facts.add(f"local_{name}", one.likely, one.line)
    for one in script.assignments:
        if one.name == "MASTER_PORT":
            facts.add("fixed_port", whole(one.value), one.line)
    connections = facts.values.get("set_CUDA_DEVICE_MAX_CONNECTIONS")
    if isinstance(connections, str):
        facts.add("max_connections", whole(connections), facts.lines["set_CUDA_DEVICE_MAX_CONNECTIONS"])
    uv = next((c for c in script.commands if c.words and "uv" in (c.words[0].text, *c.args[:6])), None)
    if uv is not None:
        facts.add("uses_uv", True, uv.line)


def _settings(facts: Facts, script: Script, programs: Programs) -> None:
    """What a recipe's `slurm:` section and its sizes say."""
    for name, (value, line) in script.settings.items():
        if fact := programs.settings.get(name):
            facts.add(fact, value if fact.startswith("local_") and programs.is_local(value) else whole(value), line)
    if script.settings and "tasks_per_node" in facts.values:
        facts.add("gpus_per_node", facts.values["tasks_per_node"])  # a task is a rank there


def _handed(command: Command) -> list[tuple[str, str]]:
    """`env A=1 python ...`, `srun --export=ALL,A=1 ...`."""
    texts = [w.text for w in command.words] if any(w.text == "env" for w in command.words) else []
    exports = (w.text.partition("=")[2].split(",") for w in command.words if w.text.startswith("--export="))
    texts += [text for export in exports for text in export]
    return [(text.partition("=")[0], text.partition("=")[2]) for text in texts if re.match(r"[A-Za-z_]\w*=", text)]


def _step(facts: Facts, script: Script, main: Step, programs: Programs) -> None:
    """Facts of the step that trains."""
    line = main.command.line
    facts.add("main", True, line)
    facts.add_mark("by_srun", argv(main.command)[0].endswith("srun"), line)
    facts.add("gpus_asked", any(map(asks_gpus, main.options)) or None)
    for command in main.runs:
        _arguments(facts, command, programs)
    for launcher in main.launchers:
        facts.add("launcher", launcher.name, launcher.line)
        facts.add_mark("bare_torchrun", launcher.bare and launcher.name == "torchrun", launcher.line)
    if main.command.name != "python":
        facts.add("launcher", "srun" if argv(main.command)[0].endswith("srun") else None, line)
    image = main.option("container-image") or script.directive("container-image")
    if image:
        facts.add("container", True, image.line)
    text = "\n".join(" ".join(argv(command)) for command in main.runs)
    for name, pattern in programs.step_marks.items():
        if found := pattern.search(text):
            holder = next((c for c in main.runs if found[0] in argv(c)), None)
            facts.add(name, found[0], line_of(holder, found[0]) if holder else line)


def _arguments(facts: Facts, command: Command, programs: Programs) -> None:
    """Sizes and switches on the command line of a program, whatever it calls them."""
    for name, value, line, known in arguments(command):
        if name in programs.sizes and value is not None:
            count = whole(value)
            facts.add(programs.sizes[name], value if count is None else count, line)
        if name in programs.switches and (value or "true").lower() not in ("false", "0", "none"):
            facts.add(programs.switches[name], True, line)
        ported = value is not None and (name == "rdzv-endpoint" or (name in _PORTS and known))
        port = whole(value.rpartition(":")[2]) if value and ported else None
        if port and "fixed_port" not in facts.values:
            facts.add("fixed_port", port, line)
            facts.add("port_of_option", port)


def asks_gpus(option: Directive) -> bool:
    """Whether an option of sbatch or srun asks for GPUs, in whichever way."""
    return option.name.startswith("gpus") or (
        "gpu" in (option.value or "") and option.name.startswith(("gres", "tres"))
    )


def _script_marks(facts: Facts, script: Script, programs: Programs) -> None:
    text = _REMARK.sub("", script.text)
    for name, pattern in programs.script_marks.items():
        if found := pattern.search(text):
            line = text.count("\n", 0, found.start()) + 1
            if name != "clears_experiments" or line <= facts.lines.get("recipe", line):  # cleared before the run
                facts.add(name, found[0], line)


# ── what follows ──


def _world(facts: Facts) -> None:
    """Nodes, tasks and GPUs from each other; the world is the GPUs of all nodes."""
    tasks, per_node, line = facts.whole("tasks"), facts.whole("tasks_per_node"), facts.lines.get("tasks")
    if tasks is not None and per_node:
        facts.add("nodes", max(1, tasks // per_node), line)
    nodes = facts.whole("nodes")
    if tasks is not None and nodes:
        facts.add("tasks_per_node", -(-tasks // nodes), line)
    if tasks is not None and not per_node:
        facts.add("tasks_alone", tasks)
    facts.add("tasks_told", "tasks_per_node" in facts.values or None)
    gpus_per_node = facts.whole("gpus_per_node")
    if gpus_per_node is None and facts.values.get("launcher") == "torchrun":
        gpus_per_node = facts.whole("nproc")
    if nodes is not None and gpus_per_node is not None:
        facts.add("world", nodes * gpus_per_node)
        facts.add("world_gpus", gpus_per_node)
    told = facts.values.get("launcher") == "srun"
    facts.add("gpus_wanted", per_task if (per_task := facts.whole("tasks_per_node" if told else "nproc")) else None)


def _model_ranks(facts: Facts) -> None:
    """How many ranks one copy of the model takes, and how many copies the job holds."""
    if all(facts.whole(name) is None for name in _SIZES):
        return
    line = next((facts.lines[name] for name in _SIZES if name in facts.lines), None)
    if line is not None:
        facts.lines.setdefault("tp", line)
    for name in _SIZES:
        facts.add(name, 1)
    tensor, pipeline, context, expert = (max(facts.whole(name) or 1, 1) for name in _SIZES)
    facts.add("etp", tensor if "etp_is_tp" in facts.values else 1)
    ranks = tensor * pipeline * context
    facts.add("model_ranks", ranks)
    expert_tensor = facts.whole("etp")
    if expert_tensor is not None and expert_tensor > 0:
        facts.add("expert_ranks", expert_tensor * expert * pipeline)
    world = facts.whole("world")
    if world is not None and world % ranks == 0:
        facts.add("data_parallel", world // ranks)


def sizes_that_fit(facts: Facts) -> None:
    """What the sizes could be instead: the next numbers that divide evenly."""
    per_node, nodes = facts.whole("world_gpus"), facts.whole("nodes")
    for fact, ranks in (
        ("nodes_for_model", facts.whole("model_ranks")),
        ("nodes_for_experts", facts.whole("expert_ranks")),
    ):
        if per_node and nodes and ranks:
            step = ranks // math.gcd(ranks, per_node)
            facts.add(fact, -(-nodes // step) * step)
    for name, text in layouts(facts.values).items():
        facts.add(name, text or None)
