"""What a script is going to do, in names and numbers: nodes, tasks, launchers, sizes of the model's parallelism. Pure.

Each fact has the line that tells it; lists hold what may occur several times. The checks of `rules/lint` ask for both.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from slurmdoctor.slurm.script.directives import gpus, number, options, program_at, whole
from slurmdoctor.slurm.script.model import Command, Directive, Script
from slurmdoctor.slurm.values import seconds, size

_LAUNCHERS = {"torchrun": "torchrun", "deepspeed": "deepspeed", "accelerate": "accelerate"}
_MODULES = {
    "torch.distributed.run": "torchrun",
    "torch.distributed.launch": "torchrun",
    "torchrun": "torchrun",
    "accelerate.commands.launch": "accelerate",
    "deepspeed.launcher.runner": "deepspeed",
}
_PYTHON = re.compile(r"python[\d.]*$|\.py$")
_ONLY_SRUN = ("no-container-mount-home", "no-container-remap-root", "container-writable", "no-container-entrypoint")
_CACHES = ("NEMO_HOME", "HF_HOME", "UV_CACHE_DIR")
_QUIET = frozenset({"tee", "cat", "sed", "awk", "grep", "ts", "head", "tail", "tr", "stdbuf"})


@dataclass(frozen=True, slots=True)
class Item:
    """One occurrence of something: its line, and what the check's words may use."""

    line: int
    names: Mapping[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class Plan:
    facts: dict[str, Any] = field(default_factory=dict)
    lines: dict[str, int] = field(default_factory=dict)
    lists: dict[str, list[Item]] = field(default_factory=dict)

    def put(self, name: str, value: Any, line: int | None) -> None:
        if value is not None and name not in self.facts:
            self.facts[name] = value
            if line is not None:
                self.lines[name] = line

    def add(self, name: str, line: int, /, **names: Any) -> None:
        self.lists.setdefault(name, []).append(Item(line, names))


@dataclass(frozen=True, slots=True)
class _Step:
    """One srun, or a launcher without one, with all commands that it runs."""

    command: Command
    given: tuple[Directive, ...]
    runs: tuple[Command, ...]

    def option(self, name: str) -> Directive | None:
        return next((d for d in reversed(self.given) if d.name == name), None)


def plan(script: Script, known: Mapping[str, Any]) -> Plan:
    """Everything that the checks may ask for. `known` is the table of `arguments.yaml`."""
    result = Plan()
    steps = list(_steps(script))
    main = _main(steps)
    _from_directives(result, script)
    _from_exports(result, script, known)
    if main is not None:
        _from_main(result, script, main, known)
    if str(result.facts.get("fixed_port")) in {a.likely for a in script.assignments if a.value is None}:
        del result.facts["fixed_port"]  # only a default: the job's environment may say otherwise
    _sizes(result)
    _lists(result, script, steps, main, known)
    return result


def step_outputs(script: Script) -> list[str]:
    """File name patterns that the script gives its steps (`srun --output=log-%t`), and files it redirects them to."""
    found: list[str] = []
    for step in _steps(script):
        for name in ("output", "error"):
            given = step.option(name)
            if given and given.value and given.value not in ("none", "all") and not given.value.isdigit():
                found.append(given.value)
        found += [o for o in step.command.outputs if not o.startswith("/dev/")]
    known = {
        "SLURM_JOB_ID": "%j",
        "SLURM_JOBID": "%j",
        "SLURM_ARRAY_JOB_ID": "%A",
        "SLURM_ARRAY_TASK_ID": "%a",
        "SLURM_PROCID": "%t",
        "SLURM_JOB_NAME": "%x",
        "SLURMD_NODENAME": "%N",
        "SLURM_NODEID": "%n",
    }
    filled = [re.sub(r"\$\{?(\w+)\}?", lambda m: known.get(m[1], "%t"), f) for f in found]
    return list(dict.fromkeys(f for f in filled if "$" not in f))


# ── steps ────────────────────────────────────────────────────────────────────────────────────


def _steps(script: Script) -> Iterator[_Step]:
    nested: dict[int, list[Command]] = {}
    for command in script.commands:
        outer = command.parent
        while outer is not None:
            nested.setdefault(id(outer), []).append(command)
            outer = outer.parent
    for command in script.commands:
        words = _argv(command)
        if words and words[0].rpartition("/")[2] == "srun" and command.function is None:
            inside = nested.get(id(command), ())
            at = program_at(words[1:])
            own = _behind(command, words, at + 1)
            yield _Step(command, tuple(options(words[1:], command.line)), (own, *inside))
        elif command.depth == 0 and _launcher(words)[0] and "srun" not in [w.rpartition("/")[2] for w in words]:
            yield _Step(command, (), (command,))


def _argv(command: Command) -> list[str]:
    """The words without what only stands before a program: exec, time, env and its settings."""
    words = [w.text for w in command.words]
    while len(words) > 1 and (
        words[0] in ("exec", "time", "env", "nohup", "command", "stdbuf") or re.match(r"\w+=", words[0])
    ):
        words = words[1:]
        while words and words[0].startswith("-"):
            words = words[1:]
    return words


def _behind(command: Command, words: Sequence[str], at: int) -> Command:
    skipped = len(command.words) - len(words) + at
    return Command(command.words[skipped:], command.line, depth=command.depth, parent=command)


def _launcher(words: Sequence[str]) -> tuple[str | None, int]:
    """The launcher that these words call, and where it stands."""
    for at, word in enumerate(words):
        name = word.rpartition("/")[2]
        if name in _LAUNCHERS and (name != "accelerate" or "launch" in words[at + 1 : at + 2]):
            return _LAUNCHERS[name], at
        if word == "-m" and at + 1 < len(words) and words[at + 1] in _MODULES:
            return _MODULES[words[at + 1]], at + 1
        if word in ("-c",):
            break
    return None, -1


def _trains(step: _Step) -> bool:
    return any(_is_work(_argv(c)) for c in step.runs)


def _main(steps: Sequence[_Step]) -> _Step | None:
    """The step that trains: the last one that starts a launcher, or else Python."""
    launched = [s for s in steps if any(_launcher(_argv(c))[0] for c in s.runs)]
    running = [s for s in steps if _trains(s)]
    return launched[-1] if launched else running[-1] if running else None


# ── facts ────────────────────────────────────────────────────────────────────────────────────


def _from_directives(result: Plan, script: Script) -> None:
    for name, fact in (
        ("nodes", "nodes"),
        ("ntasks-per-node", "tasks_per_node"),
        ("ntasks", "tasks"),
        ("cpus-per-task", "cpus_per_task"),
    ):
        if found := script.directive(name):
            result.put(fact, number(found.value), found.line)
    per_node, told = gpus(script.directives)
    result.put("gpus_per_node", per_node, told.line if told else None)
    for name in ("exclusive", "requeue"):
        if found := script.directive(name):
            result.put(name, True, found.line)
    for name in ("partition", "account", "output", "open-mode"):
        if found := script.directive(name):
            result.put(name.replace("-", "_"), found.value, found.line)
    if found := script.directive("time"):
        limit = seconds(found.value)
        result.put("time_min", round(limit / 60) if limit else None, found.line)
        result.put("time", found.value, found.line)
    if found := script.directive("mem"):
        amount = size(found.value)
        result.put("mem_gib", round(amount / 2**30, 1) if amount else None, found.line)
        result.put("mem", found.value, found.line)
    if (found := script.directive("signal")) and found.value:
        parts = re.fullmatch(r"(?:([BR]+):)?(?:SIG)?([A-Za-z]+\d?|\d+)(?:@(\d+))?", found.value)
        if parts:
            result.put("signal", parts[2].upper(), found.line)
            result.put("signal_seconds", whole(parts[3] or "60"), found.line)
            result.put("signal_batch", "B" in (parts[1] or ""), found.line)
    if script.directives:
        result.put("batch", True, script.directives[0].line)


def _from_exports(result: Plan, script: Script, known: Mapping[str, Any]) -> None:
    local = re.compile(known.get("node_local", r"^/tmp"))
    given = {a.name: a for a in script.assignments if a.exported}
    for command in script.commands:
        for name, value in command.env.items():
            result.put(f"set_{name}", value, command.line)
    for name, one in given.items():
        result.put(f"set_{name}", one.likely, one.line)
        if name in _CACHES and local.search(one.likely):
            result.put(f"local_{name}", one.likely, one.line)
    for one in script.assignments:
        if one.name == "MASTER_PORT":
            result.put("fixed_port", whole(one.value), one.line)
    connections = result.facts.get("set_CUDA_DEVICE_MAX_CONNECTIONS")
    if isinstance(connections, str):
        result.put("max_connections", whole(connections), result.lines["set_CUDA_DEVICE_MAX_CONNECTIONS"])


def _from_main(result: Plan, script: Script, main: _Step, known: Mapping[str, Any]) -> None:
    result.put("main", True, main.command.line)
    for name, fact in (("nodes", "nodes"), ("ntasks-per-node", "tasks_per_node"), ("ntasks", "tasks")):
        found = main.option(name)
        if found and (value := number(found.value)) is not None:
            result.facts[fact], result.lines[fact] = value, found.line
    per_node, told = gpus(main.given)
    result.put("gpus_per_node", per_node, told.line if told else None)
    for command in main.runs:
        words = _argv(command)
        launcher, at = _launcher(words)
        if launcher:
            result.put("launcher", launcher, _line_of(command, words[at]))
            result.put(
                "bare_torchrun",
                (words[at].rpartition("/")[2] == "torchrun" and words[at - 1] != "-m") or None,
                _line_of(command, words[at]),
            )
        _from_arguments(result, command, known)
    if "launcher" not in result.facts and main.given is not None and main.command.name != "python":
        result.put("launcher", "srun" if _argv(main.command)[0].endswith("srun") else None, main.command.line)
    image = main.option("container-image") or script.directive("container-image")
    result.put("container", bool(image) or None, image.line if image else None)
    result.put("piped", bool(set(main.command.piped_to) & _QUIET) or None, main.command.line)
    text = " ".join(" ".join(_argv(c)) for c in main.runs)
    result.put("megatron", bool(re.search(r"\bpretrain_\w+\.py|Megatron-LM", text)) or None, main.command.line)
    result.put(
        "bridge",
        bool(
            re.search(r"Megatron-Bridge|run_recipe\.py|nemo[._](?:run|collections|rl)\b|scripts/training/", script.text)
        )
        or None,
        main.command.line,
    )
    result.put(
        "hub",
        bool(
            re.search(
                r"hf[_-]model|hf[_-]path|huggingface|HF_TOKEN|hf://|from_pretrained|--model[ =][\w-]+/[\w.-]+",
                script.text,
            )
        )
        or None,
        main.command.line,
    )
    vendored = re.search(r"\S*3rdparty/Megatron-LM/pretrain\w*\.py", text)
    if vendored:
        result.put(
            "vendored_megatron",
            vendored[0],
            next((_line_of(c, vendored[0]) for c in main.runs if vendored[0] in _argv(c)), main.command.line),
        )
    recipe = re.search(r"\S*run_recipe\.py", text)
    if recipe:
        result.put(
            "recipe",
            recipe[0],
            next((_line_of(c, recipe[0]) for c in main.runs if recipe[0] in _argv(c)), main.command.line),
        )


def _line_of(command: Command, text: str) -> int:
    return next((w.line for w in command.words if w.text == text and w.line), command.line)


def _from_arguments(result: Plan, command: Command, known: Mapping[str, Any]) -> None:
    """Sizes and switches on the command line of a program, whatever it calls them."""
    names = {alias: fact for fact, aliases in known.get("sizes", {}).items() for alias in aliases}
    switches = {alias: fact for fact, aliases in known.get("switches", {}).items() for alias in aliases}
    local = re.compile(known.get("node_local", r"^/tmp"))
    for name, value, line, sure in _arguments(command):
        if name in names and value is not None:
            told = whole(value)
            result.put(names[name], value if told is None else told, line)
        if name in switches and (value or "true").lower() not in ("false", "0", "none"):
            result.put(switches[name], True, line)
        if name in known.get("kept", ()) and value and local.search(value):
            result.add("kept_locally", line, what=f"--{name}" if "." not in name else name, path=value)
        if name in ("master-port", "main-process-port") and sure:
            result.put("fixed_port", whole(value), line)
        if name == "rdzv-endpoint" and value:
            result.put("fixed_port", whole(value.rpartition(":")[2]) or None, line)


def _arguments(command: Command) -> Iterator[tuple[str, str | None, int, bool]]:
    """(name, value, line, whether the script alone tells the value)."""
    words = command.words
    for at, word in enumerate(words):
        text = word.text
        found = re.match(r"(?:--?|\+{0,2})([A-Za-z][\w.-]*)(?:=(.*))?$", text, re.S)
        if not found or (not text.startswith("-") and found[2] is None):
            continue
        value, sure = found[2], word.known
        if value is None and at + 1 < len(words) and not words[at + 1].text.startswith("-"):
            value, sure = words[at + 1].text, words[at + 1].known
        value = value.strip("\"'") if value is not None else None
        yield found[1].replace("_", "-"), value, word.line or command.line, sure


def _sizes(result: Plan) -> None:
    facts = result.facts
    nodes = facts.get("nodes")
    if nodes is None and isinstance(facts.get("tasks"), int) and facts.get("tasks_per_node"):
        nodes = max(1, facts["tasks"] // facts["tasks_per_node"])
        result.put("nodes", nodes, result.lines.get("tasks"))
    if "tasks_per_node" not in facts and isinstance(facts.get("tasks"), int) and nodes:
        result.put("tasks_per_node", -(-facts["tasks"] // nodes), result.lines.get("tasks"))
        facts["tasks_told"] = True
    elif "tasks_per_node" in facts:
        facts["tasks_told"] = True
    if "gpus_per_node" not in facts and facts.get("launcher") == "torchrun" and isinstance(facts.get("nproc"), int):
        gpus_per_node = facts["nproc"]
    else:
        gpus_per_node = facts.get("gpus_per_node")
    if isinstance(nodes, int) and isinstance(gpus_per_node, int):
        facts["world"] = nodes * gpus_per_node
        facts["world_gpus"] = gpus_per_node


# ── lists ────────────────────────────────────────────────────────────────────────────────────


def _lists(result: Plan, script: Script, steps: Sequence[_Step], main: _Step | None, known: Mapping[str, Any]) -> None:
    local = re.compile(known.get("node_local", r"^/tmp"))
    for given in script.directives:
        if given.name in _ONLY_SRUN:
            result.add("srun_only", given.line, option=f"--{given.name}")
        if given.value and "$" in given.value:
            result.add("unexpanded", given.line, option=f"--{given.name}", value=given.value)
        if given.name in ("output", "error") and given.value and local.search(given.value):
            result.add("kept_locally", given.line, what=f"--{given.name}", path=given.value)
    for given in script.ignored:
        result.add("ignored", given.line, option=f"--{given.name}")
    for name, line in dict.fromkeys(script.early):
        result.add("early", line, name=name)
    empty = _placeholders(script)
    for line, name in empty.items():
        result.add("placeholders", line, name=name)
    for line in script.broken:
        if line not in empty:
            result.add("broken", line)
    for one in script.assignments:
        if re.fullmatch(
            r"(?:LOG|CKPT|CHECKPOINT|OUT|OUTPUT|SAVE|RESULTS?)_?(?:DIR|PATH|FOLDER)|VIRTUAL_ENV|UV_PROJECT_ENVIRONMENT",
            one.name,
        ) and local.search(one.likely):
            result.add("kept_locally", one.line, what=one.name, path=one.likely)
    for command in script.commands:
        if command.name == "tee" and command.depth == 0:
            for file in command.args:
                if local.search(file):
                    result.add("kept_locally", command.line, what="tee", path=file)
    _background(result, script)
    _syncs(result, steps, script)
    _endings(result, script, main or (steps[-1] if steps else None))
    for step in steps:
        pinned = step.option("nodelist")
        if pinned and "nodelist" not in {d.name for d in script.directives} and "$" not in (pinned.value or ""):
            result.add("pinned", pinned.line, node=pinned.value)


def _placeholders(script: Script) -> dict[int, str]:
    """`<YOUR_ACCOUNT>`: what a template leaves to be filled in, by line."""
    found: dict[int, str] = {}
    for number_, line in enumerate(script.text.splitlines(), 1):
        if line.startswith("#SBATCH") or not line.lstrip().startswith("#"):
            told = re.search(r"<(?:[A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+|(?:your|YOUR|Your)[-_ ][\w -]{2,40})>", line)
            if told:
                found[number_] = told[0]
    return found


def _is_work(words: Sequence[str]) -> bool:
    return bool(_launcher(words)[0]) or any(_PYTHON.search(w) for w in words[:6])


def _background(result: Plan, script: Script) -> None:
    """Processes that the script leaves behind: not steps that it waits for."""
    cleaned = any("EXIT" in signals for _, signals, _ in script.traps)
    waits = [c.line for c in script.commands if c.depth == 0 and c.name == "wait"]
    left = next((c for c in script.commands if c.depth == 0 and c.name == "exec" and len(c.words) > 1), None)
    stops = [
        c.line
        for c in script.commands
        if c.depth == 0 and c.name in ("kill", "pkill", "killall") and c.function is None
    ]
    for command in script.commands:
        words = _argv(command)
        if not command.background or command.depth > 0 or cleaned or not words or words[0].rpartition("/")[2] == "srun":
            continue
        killed = any(line > command.line for line in stops) and left is None and "errexit" not in script.options
        # runs side by side that the script waits for are its work, not its helpers
        works = _is_work(words) and any(line >= command.line for line in waits)
        if not killed and not works:
            result.add(
                "background", command.line, name=command.name, never="yes" if left is not None and stops else None
            )


def _syncs(result: Plan, steps: Sequence[_Step], script: Script) -> None:
    """`uv sync` on many tasks at once, with no single process before them."""
    warmed = any(c.depth == 0 and c.words[0].text == "uv" and "sync" in c.args for c in script.commands if c.words)
    for step in steps:
        syncing = [c for c in step.runs if _argv(c)[:2] == ["uv", "sync"]]
        if not syncing:
            continue
        count = step.option("ntasks")
        alone = count is not None and number(count.value) == 1
        guarded = "SLURM_LOCALID" in " ".join(w.text for w in step.command.words)
        if alone or guarded:
            warmed = True
        elif not warmed:
            result.add("sync_everywhere", syncing[0].line)
            warmed = True


def _endings(result: Plan, script: Script, main: _Step | None) -> None:
    """Whether the step's own exit status reaches Slurm."""
    if main is None:
        return
    command = main.command
    behind = set(command.piped_to)
    if behind and not behind & {"xargs"} and "pipefail" not in script.options:
        result.add("hidden_by_pipe", command.line, program=command.piped_to[-1])
    replaced = command.name == "exec"
    later = [c for c in script.commands if c.line > command.line and c.depth == 0 and c.function is None]
    if replaced and (later or script.traps):
        result.add("after_exec", command.line, last=later[0].line if later else script.traps[0][2])
    told = any(d in script.text for d in ("$?", "PIPESTATUS"))
    real = [c for c in later if c.name not in ("exit", "wait", "kill", "true", ":", "tee")]
    if (
        not replaced
        and not behind
        and real
        and not command.background
        and not _is_work(_argv(real[-1]))
        and "errexit" not in script.options
        and not told
        and "||" not in script.text
    ):
        result.add("hidden_by_last", command.line, name=real[-1].name, last=real[-1].line)


def traps_signal(script: Script, name: str) -> bool:
    """Whether the script handles a signal, or hands its process over to one that may."""
    handled = any(name in signals for _, signals, _ in script.traps)
    return handled or any(c.name == "exec" and c.depth == 0 and len(c.words) > 1 for c in script.commands)
