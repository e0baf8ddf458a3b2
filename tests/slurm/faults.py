"""Scripts with one fault each, and what their jobs must do once the fault is gone: the cases of `test_cures.py`."""

from __future__ import annotations

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
    "in-bash-lc": 'srun -N 2 bash -lc "cd . && torchrun --nnodes=2 --node_rank=${SLURM_NODEID} --nproc_per_node=8 train.py"',
    "in-sh-c": 'srun sh -c "torchrun --nnodes=2 --node_rank=$SLURM_NODEID --nproc_per_node=8 train.py"',
    "command-in-a-variable": 'CMD="torchrun --nnodes=2 --node_rank=${SLURM_NODEID} --nproc_per_node=8 train.py"\nsrun bash -c "$CMD"',
    "here-document": "srun bash <<EOF\ntorchrun --nnodes=2 --node_rank=$SLURM_NODEID --nproc_per_node=8 train.py\nEOF",
    "here-document-written": "cat > run.sh <<EOF\ntorchrun --nnodes=2 --node_rank=$SLURM_NODEID --nproc_per_node=8 train.py\nEOF\nsrun bash run.sh",
}
EARLY_TASKS = {
    "in-bash-c": 'srun bash -c "python train.py --rank $SLURM_PROCID --local_rank=$SLURM_LOCALID"',
    "bash-c-exports": 'srun bash -c "export RANK=$SLURM_PROCID LOCAL_RANK=$SLURM_LOCALID; python train.py"',
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


def sets(name: str, value: str) -> Callable[[Outcome], bool]:
    """Every process has this variable."""
    return lambda one: {call.env.get(name) for call in one.of("python", "torchrun")} == {value}


def is_called_in_the_environment(one: Outcome) -> bool:
    return [call.args[:2] for call in one.of("python")] == [("-m", "torch.distributed.run")] and bool(one.of("uv"))


def writes_a_file_per_task(one: Outcome) -> bool:
    return len(list(one.folder.glob("log-*"))) == one.record.num_tasks


def has_its_log(one: Outcome) -> bool:
    return [path.name.endswith(f"-{one.record.id}.out") for path in one.folder.glob("log-*")] == [True]


def is_named(one: Outcome) -> bool:
    return one.record.name == "late"


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
OTHERS: dict[str, dict[str, tuple[str, Callable[[Outcome], bool], str]]] = {
    "launcher-per-task": {
        "": (f'{TASKS}srun bash -c "{RUN[:-1]}2 --node_rank=\\$SLURM_NODEID train.py"', has_a_process_for_each_gpu, ""),
    },
    "tasks-unlike-gpus": {
        "more": (
            "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=4 --gpus-per-node=2\nsrun python train.py",
            has_a_process_for_each_gpu,
            "",
        ),
        "fewer": (
            "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=2\n#SBATCH --gres=gpu:4\nsrun python train.py",
            has_a_process_for_each_gpu,
            "",
        ),
        "short": (
            "#!/bin/bash\n#SBATCH -N 2\n#SBATCH -n 4\n#SBATCH --gpus-per-node=4\nsrun python train.py",
            has_a_process_for_each_gpu,
            "",
        ),
        "of-srun": (
            "#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=4 --exclusive\nsrun --ntasks-per-node=2 python train.py",
            has_a_process_for_each_gpu,
            "",
        ),
    },
    "one-task-many-gpus": {
        "": (
            "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=4\nsrun python train.py",
            has_a_process_for_each_gpu,
            "",
        )
    },
    "tasks-not-given": {
        "": ("#!/bin/bash\n#SBATCH --nodes=2 --gpus-per-node=4\nsrun python train.py", has_a_process_for_each_gpu, ""),
        "by-short-option": (
            "#!/bin/bash\n#SBATCH -N2\n#SBATCH --gres=gpu:2\nsrun python train.py",
            has_a_process_for_each_gpu,
            "",
        ),
    },
    "gpus-not-requested": {
        "": (
            "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=2\nexport NCCL_DEBUG=WARN\nsrun python train.py",
            sees_gpus,
            "",
        )
    },
    "processes-unlike-gpus": {
        "": (f"{NODES}srun torchrun --standalone --nproc-per-node=4 train.py", has_a_process_for_each_gpu, ""),
        "in-bash-c": (
            f"{NODES}srun bash -c 'torchrun --standalone --nproc_per_node 4 train.py'",
            has_a_process_for_each_gpu,
            "",
        ),
    },
    "nodes-unlike": {
        "": (
            f'{NODES}srun bash -c "{RUN.replace("2", "4", 1)} --node_rank=\\$SLURM_NODEID train.py"',
            knows_the_nodes,
            "",
        ),
        "in-single-quotes": (
            f"{NODES}srun bash -c '{RUN.replace('2', '4', 1)} --node_rank=$SLURM_NODEID train.py'",
            knows_the_nodes,
            "",
        ),
    },
    "port-fixed": {
        "": (f"{TASKS}export MASTER_PORT=54321\nsrun python train.py", has_its_own_port, ""),
        "unexported": (
            f"{TASKS}MASTER_PORT=54321\nsrun python train.py --master_port=$MASTER_PORT",
            has_its_own_port,
            "",
        ),
        "by-option": (f"{ONE}srun python train.py --master_port=29500", has_its_own_port, ""),
        "of-torchrun": (
            f"{NODES}srun bash -c '{RUN} --node_rank=$SLURM_NODEID --master_port 29500 train.py'",
            has_its_own_port,
            "",
        ),
        "between-double-quotes": (
            f'{NODES}srun bash -c "{RUN} --node_rank=\\$SLURM_NODEID --master_port=29500 train.py"',
            has_its_own_port,
            "",
        ),
        "of-the-rendezvous": (
            f"{NODES}srun {RUN} --rdzv-backend=c10d --rdzv-endpoint=$SLURMD_NODENAME:29400 train.py",
            has_its_own_port,
            "",
        ),
        "of-sh": (f"{TASKS.replace('bash', 'sh')}export MASTER_PORT=29500\nsrun python train.py", has_its_own_port, ""),
    },
    "port-default": {
        "": (f"{TASKS}export MASTER_PORT=${{MASTER_PORT:-29500}}\nsrun python train.py", has_its_own_port, ""),
        "of-sh": (
            f"{TASKS.replace('bash', 'sh')}MASTER_PORT=${{MASTER_PORT:-29500}}\nexport MASTER_PORT\nsrun python train.py",
            has_its_own_port,
            "",
        ),
    },
    "variable-in-directive": {
        "": (f"{ONE}#SBATCH --output=log-$SLURM_JOB_NAME-$SLURM_JOB_ID.out\nsrun python train.py", has_its_log, ""),
    },
    "expanded-too-early": {
        "file-of-srun": (f"{TASKS}srun --output=log-$SLURM_PROCID.txt python train.py", writes_a_file_per_task, ""),
    },
    "max-connections-overlap": {
        "": (
            f"{ONE}srun python pretrain_gpt.py --overlap-moe-expert-parallel-comm",
            sets("CUDA_DEVICE_MAX_CONNECTIONS", "32"),
            "",
        ),
        "other": (
            f"{ONE}export CUDA_DEVICE_MAX_CONNECTIONS=1\nsrun python pretrain_gpt.py --overlap-moe-expert-parallel-comm",
            sets("CUDA_DEVICE_MAX_CONNECTIONS", "32"),
            "",
        ),
    },
    "max-connections-missing": {
        "": (
            f"{ONE}srun python pretrain_gpt.py --tensor-model-parallel-size 2",
            sets("CUDA_DEVICE_MAX_CONNECTIONS", "1"),
            "",
        )
    },
    "default-without-dash": {
        "": (
            f"{ONE}export NCCL_NVLS_ENABLE=${{NCCL_NVLS_ENABLE:0}}\nsrun python train.py",
            sets("NCCL_NVLS_ENABLE", "0"),
            "",
        )
    },
    "gloo-interface-missing": {
        "": (f"{TASKS}export NCCL_SOCKET_IFNAME=ib0\nsrun python train.py", sets("GLOO_SOCKET_IFNAME", "ib0"), "")
    },
    "directive-ignored": {
        "": (f"{ONE}cd .\n#SBATCH --job-name=late\nsrun python train.py", is_named, ""),
    },
    "signal-window": {
        "": (f"{TASKS}#SBATCH --signal=B:TERM@120\nsrun python train.py", saves_on_every_task, SAVES_SLOWLY),
    },
    "background-left": {
        "waited-for": (f"{ONE}while true; do date; sleep 120; done &\nsrun python train.py\nwait", ends_well, ""),
        "exec": (f"{ONE}monitor.sh &\nsrun python train.py || exit\nwait", ends_well, ""),
        "two": (f"{ONE}monitor.sh &\ndate_loop.sh &\nsrun python train.py\nwait", ends_well, ""),
        "of-sh": (f"{ONE.replace('bash', 'sh')}monitor.sh &\nsrun python train.py\nwait", ends_well, ""),
        "loop": (f"{ONE}while sleep 1; do date; done > clock.log &\nsrun python train.py\nwait", ends_well, ""),
    },
    "exit-status-in-pipe": {
        "": (f"{ONE}srun python train.py 2>&1 | tee train.log", fails_with_the_training, FAILS),
        "continued": (f"{ONE}srun \\\n  python train.py 2>&1 \\\n  | tee train.log", fails_with_the_training, FAILS),
        "of-sh": (
            f"{ONE.replace('bash', 'sh')}srun python train.py 2>&1 | tee train.log",
            fails_with_the_training,
            FAILS,
        ),
    },
    "exit-status-lost": {
        "": (f"{ONE}srun python train.py\necho done", fails_with_the_training, FAILS),
        "continued": (f"{ONE}srun \\\n  python train.py\ndate", fails_with_the_training, FAILS),
    },
    "after-exec": {
        "": (f"{ONE}trap 'touch \"$SEEN/cleaned\"' EXIT\nexec srun python train.py", cleans_up, ""),
        "status": (f'{ONE}exec srun python train.py\ntouch "$SEEN/cleaned"', cleans_up, ""),
    },
    "bare-torchrun": {
        "": (
            "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=1 --gpus-per-node=2\nuv sync\nsrun torchrun --standalone --nproc-per-node=2 train.py",
            is_called_in_the_environment,
            "",
        )
    },
}
CASES = [
    *(Case(f"node-{name}", f"{NODES}{body}\n", is_told_its_rank, same_words=True) for name, body in EARLY.items()),
    *(
        Case(f"task-{name}", f"{TASKS}{body}\n", is_told_its_rank, same_words=True)
        for name, body in EARLY_TASKS.items()
    ),
    *(
        Case(
            f"{check}-{name}".rstrip("-"),
            f"{script}\n",
            sound,
            check,
            training,
            seconds=120 if "signal=" in script and "240" not in script else 300,
            lives_on=check == "background-left",
        )
        for check, forms in OTHERS.items()
        for name, (script, sound, training) in forms.items()
    ),
]
