"""Scripts with one fault each, and what their jobs must do once the fault is gone: the cases of `test_cures.py`."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from pasting import cured
from slurmdoctor.model import JobRecord, ScriptMistake
from slurmdoctor.slurm.script.linter import lint
from slurmdoctor.slurm.script.parser import parse

from .programs import Call

NODES = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=8\n"
TASKS = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2 --gpus-per-node=2\n"
MOST_ROUNDS = 4
"""Findings that are mended one after another."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a job did."""

    record: JobRecord
    calls: list[Call]
    output: str
    folder: Path

    def of(self, *names: str) -> list[Call]:
        return [call for call in self.calls if call.program in names]


# ── which rank each process takes itself for ──

RANK_OF = {
    "node_rank": "SLURM_NODEID",
    "machine_rank": "SLURM_NODEID",
    "rank": "SLURM_PROCID",
    "local_rank": "SLURM_LOCALID",
}


def is_told_its_rank(one: Outcome) -> bool:
    """Every process has the rank of its task, by option and by variable."""
    told = [
        (value, call.env[variable])
        for call in one.of("torchrun", "python")
        for name, variable in RANK_OF.items()
        if (value := call.option(name) or call.env.get(name.upper())) is not None
    ]
    tasks = {call.task for call in one.of("torchrun", "python")}
    return len(tasks) == one.record.num_tasks and len(told) >= len(tasks) and all(a == b for a, b in told)


EARLY = {
    "in-bash-c": 'srun bash -c "torchrun --nnodes=2 --node_rank=$SLURM_NODEID --nproc_per_node=8 train.py"',
    "command-in-a-variable": 'CMD="torchrun --nnodes=2 --node_rank=${SLURM_NODEID} --nproc_per_node=8 train.py"\nsrun bash -c "$CMD"',
    "here-document": "srun bash <<EOF\ntorchrun --nnodes=2 --node_rank=$SLURM_NODEID --nproc_per_node=8 train.py\nEOF",
}
EARLY_TASKS = {
    "in-bash-c": 'srun bash -c "python train.py --rank $SLURM_PROCID --local_rank=$SLURM_LOCALID"',
    "here-document": "srun bash <<EOF\nexport RANK=$SLURM_PROCID\npython train.py --rank $SLURM_PROCID\nEOF",
}


@dataclass(frozen=True, slots=True)
class Case:
    """A script, and what its job must do once the fix is applied, and does not do before."""

    name: str
    script: str
    sound: Callable[[Outcome], bool]
    check: str | None = None
    """The check whose fix alone is applied; without one all are, one after another."""
    training: str = ""
    """What each training does."""
    seconds: int = 300
    """The job's time limit. Where it is short, `--signal` comes at once."""
    lives_on: bool = False
    """Its fault is that the job does not end."""
    same_words: bool = False
    """The fix changes nothing else in the program's words."""

    @property
    def mended(self) -> str:
        return list(self.rounds())[-1]

    def rounds(self) -> Iterator[str]:
        """The script with one fix, with two, ..."""
        text = self.script
        for _ in range(MOST_ROUNDS):
            found = [m for m in lint(parse(text)) if m.check == self.check or (not self.check and is_of_ranks(m))]
            if not found:
                return
            after = cured(text, found[0])
            assert after is not None, f"nothing in this fix can be pasted: {found[0].fix}"
            yield (text := after)


def is_of_ranks(finding: ScriptMistake) -> bool:
    return finding.check in ("expanded-too-early", "exported-too-early", "never-filled-in")


# ── what else a job must do ──


def has_a_process_for_each_gpu(one: Outcome) -> bool:
    """On each node, what runs there: a launcher's processes, or the tasks themselves."""
    count: Counter[str] = Counter()
    for call in one.of("torchrun", "python"):
        count[call.env["SLURMD_NODENAME"]] += int(call.option("nproc_per_node") or 1)
    wanted = {int(call.env.get("SLURM_GPUS_ON_NODE", 0)) for call in one.calls}
    return len(count) == one.record.num_nodes and set(count.values()) == wanted


def sees_gpus(one: Outcome) -> bool:
    return bool(one.calls) and all("SLURM_GPUS_ON_NODE" in call.env for call in one.calls)


def has_its_own_port(one: Outcome) -> bool:
    """One port for all tasks, and another one for the next job."""
    own = 20000 + int(one.record.id) % 20000
    ports = {
        port.rpartition(":")[2]
        for call in one.of("torchrun", "python")
        for port in (call.option("master_port"), call.option("rdzv_endpoint"), call.env.get("MASTER_PORT"))
        if port
    }
    return ports == {str(own)}


def fails_with_the_training(one: Outcome) -> bool:
    return one.record.exit is not None and one.record.exit.code == 3


def ends_well(one: Outcome) -> bool:
    return one.record.state == "COMPLETED" and bool(one.of("python"))


def cleans_up(one: Outcome) -> bool:
    return (one.folder / "seen" / "cleaned").exists()


def is_called_in_the_environment(one: Outcome) -> bool:
    return [call.args[:2] for call in one.of("python")] == [("-m", "torch.distributed.run")] and bool(one.of("uv"))


def has_its_log(one: Outcome) -> bool:
    return [path.name.endswith(f"-{one.record.id}.out") for path in one.folder.glob("log-*")] == [True]


def knows_the_nodes(one: Outcome) -> bool:
    """Each launcher knows how many nodes there are and which one it is on, and all name one master."""
    launched = one.of("torchrun")
    told = [(c.option("nnodes"), c.option("node_rank")) for c in launched]
    masters = {(c.option("master_addr"), c.option("master_port")) for c in launched}
    return (
        told == [(str(one.record.num_nodes), c.env["SLURM_NODEID"]) for c in launched]
        and len(launched) == one.record.num_nodes
        and len(masters) == 1
    )


def saves_on_every_task(one: Outcome) -> bool:
    """And Slurm sees how the training ended."""
    saved = len(list((one.folder / "seen").glob("saved-*")))
    return saved == one.record.num_tasks and one.record.exit is not None and one.record.exit.code == 5


# ── the scripts ──

FAILS = "exit 3"
SAVES_SLOWLY = "trap 'sleep 25; touch \"$SEEN/saved-$SLURM_PROCID\"; exit 5' TERM; sleep 200 & wait"
"""Longer than the cluster's KillWait."""
ONE = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=2 --gpus-per-node=2\n"
RUN = "torchrun --nnodes=2 --nproc_per_node=8"
OTHERS: tuple[tuple[str, str, Callable[[Outcome], bool], str], ...] = (
    ("launcher-per-task", f'{TASKS}srun bash -c "{RUN[:-1]}2 --node_rank=\\$SLURM_NODEID train.py"', has_a_process_for_each_gpu, ""),
    ("tasks-unlike-gpus", f"{TASKS.replace('gpus-per-node=2', 'gpus-per-node=4')}srun python train.py", has_a_process_for_each_gpu, ""),
    ("tasks-not-given", "#!/bin/bash\n#SBATCH -N2\n#SBATCH --gres=gpu:2\nsrun python train.py", has_a_process_for_each_gpu, ""),
    ("gpus-not-requested", "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2\nexport NCCL_DEBUG=WARN\nsrun python train.py", sees_gpus, ""),
    ("processes-unlike-gpus", f"{NODES}srun torchrun --standalone --nproc-per-node=4 train.py", has_a_process_for_each_gpu, ""),
    ("nodes-unlike", f"{NODES}srun bash -c '{RUN.replace('2', '4', 1)} --node_rank=$SLURM_NODEID train.py'", knows_the_nodes, ""),
    ("port-fixed", f"{TASKS}export MASTER_PORT=54321\nsrun python train.py", has_its_own_port, ""),
    ("port-fixed", f"{NODES}srun {RUN} --rdzv-backend=c10d --rdzv-endpoint=$SLURMD_NODENAME:29400 train.py", has_its_own_port, ""),
    ("port-default", f"{TASKS}export MASTER_PORT=${{MASTER_PORT:-29500}}\nsrun python train.py", has_its_own_port, ""),
    ("variable-in-directive", f"{ONE}#SBATCH --output=log-$SLURM_JOB_NAME-$SLURM_JOB_ID.out\nsrun python train.py", has_its_log, ""),
    ("signal-window", f"{TASKS}#SBATCH --signal=B:TERM@120\nsrun python train.py", saves_on_every_task, SAVES_SLOWLY),
    ("background-left", f"{ONE}while true; do date; sleep 120; done &\nsrun python train.py\nwait", ends_well, ""),
    ("exit-status-in-pipe", f"{ONE}srun python train.py 2>&1 | tee train.log", fails_with_the_training, FAILS),
    ("exit-status-lost", f"{ONE}srun python train.py\necho done", fails_with_the_training, FAILS),
    ("after-exec", f"{ONE}trap 'touch \"$SEEN/cleaned\"' EXIT\nexec srun python train.py", cleans_up, ""),
    (
        "bare-torchrun",
        "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=2\nuv sync\nsrun torchrun --standalone --nproc-per-node=2 train.py",
        is_called_in_the_environment, "",
    ),
)  # fmt: skip
CASES = [
    *(Case(f"node-{name}", f"{NODES}{body}\n", is_told_its_rank, same_words=True) for name, body in EARLY.items()),
    *(Case(f"task-{name}", f"{TASKS}{body}\n", is_told_its_rank, same_words=True) for name, body in EARLY_TASKS.items()),
    *(
        Case(f"{check}-{number}", f"{script}\n", sound, check, training,
             seconds=120 if "signal=" in script else 300, lives_on=check == "background-left")
        for number, (check, script, sound, training) in enumerate(OTHERS)
    ),
]  # fmt: skip
