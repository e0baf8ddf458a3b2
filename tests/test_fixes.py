"""The fixes that a log gets: each stands on what the log shows, and says nothing that the job or its script rules out."""

from pathlib import Path

import pytest
import yaml

from slurmdoctor import Diagnosis
from slurmdoctor.pipeline import diagnose
from slurmdoctor.slurm.script.parser import parse

BRIDGE = "/opt/Megatron-Bridge/src/megatron/bridge/training/gpt_step.py"
TRAIN = "/home/demo/train.py"


def failing(ranks: range, error: str, file: str = TRAIN, label: bool = True) -> str:
    """Ranks that raise the same."""
    lines = []
    for rank in ranks:
        head = f"{rank}: [rank{rank}]: " if label else ""
        lines += [f"{head}Traceback (most recent call last):", f'{head}  File "{file}", line 61, in get_batch']
        lines += [f"{head}    batch = next(data_iterator)", f"{head}{error}"]
    return "\n".join(lines) + "\n"


def ended(failed: str, others: str = "", code: int = 1) -> str:
    """srun's reports: `node: tasks`."""
    reports = [(one, f"Exited with exit code {code}") for one in failed.split(";")]
    reports += [(one, "Terminated") for one in filter(None, others.split(";"))]
    return "".join(f"srun: error: {one.replace(': ', ': tasks ')}: {how}\n" for one, how in reports)


def raised(error: str, *files: str, code: str = "import x", label: str = "") -> str:
    """An error of a program that imports one file after the other."""
    frames = [row for file in files or (TRAIN,) for row in (f'  File "{file}", line 9, in <module>', f"    {code}")]
    return "".join(f"{label}{row}\n" for row in ("Traceback (most recent call last):", *frames, error))


def advice(found: Diagnosis) -> str:
    return "\n".join(f"{fix.do} {fix.why or ''}" for fix in found.fixes)


NODE_2 = ended("node02: 8-15", "node01: 0-7")

# ── next(None): data that one node alone lacks, or anything else ─────────────────────────────

NONE = "TypeError: 'NoneType' object is not an iterator"
PACKED = "Packed sequence is prepared and saved to {}/cache/nemo/datasets/squad/packed/m/training_4096.npy\n"
LACKED = failing(range(8, 16), NONE, BRIDGE) + NODE_2


@pytest.mark.parametrize(("home", "cause"), [("/lustre/demo/nemo", "python-error"), ("/root/.cache/nemo", "nemo-home")])
def test_the_script_tells_whether_nemo_home_is_shared(home: str, cause: str) -> None:
    text = f"#!/bin/bash\n#SBATCH --nodes=2\nexport NEMO_HOME={home}\nsrun --container-image=/x.sqsh python run.py\n"
    assert diagnose(LACKED, script=parse(text, "job.sbatch")).cause.id == cause


UNLIKE = '0: [rank0]: Traceback (most recent call last):\n0: [rank0]:   File "/opt/Megatron-Bridge/x.py", line 9, in main\n0: [rank0]: ValueError: Weight mismatch detected\n'
VENVS = "Creating virtual environment at: .venv\n" * 8
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/shared/data/train.jsonl'"
HEADS = (
    "  tensor_model_parallel_size ...................... 8\n  num_attention_heads ............................. {}\n"
    + failing(
        range(8),
        "RuntimeError: shape '[4096, 1, 4, 384]' is invalid for input of size 7077888",
        "/opt/Megatron-LM/megatron/core/transformer/attention.py",
    )
)
GPU = 'Traceback (most recent call last):\n  File "/scratch/demo/train.py", line 12, in main\n    loss.backward()\n'
FAULT = "Memory access fault by GPU node-3 (Agent handle: 0x5a5c587a51c0) on address 0x709843600000. Reason: Page not present.\n"
DMESG = "[19277.975569] amdgpu 0000:3d:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:160 vmid:3 pasid:32790)\n[19277.975611] amdgpu 0000:3d:00.0: amdgpu:  for process python3.12 pid 6071 thread python3.12 pid 6071)\n"
LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-10-02T13:49:40 DUE TO TIME LIMIT ***\n"
STEPS = "".join(f"[2026-10-02 11:{m:02d}:01] iteration {m}/ 5000 | lm loss: 2.1E+00 |\n" for m in range(1, 50))
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.02 GiB is free.\n"

RUN = 'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/run.py", line 892, in run\n    elastic_launch(\n'
IN_USE = (
    "torch.distributed.DistNetworkError: The server socket has failed to listen on any local network address. port: 29500, useIpv6: false, code: -98, name: EADDRINUSE, message: address already in use",
    "RuntimeError: The server socket has failed to listen on any local network address. The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).",
    "RuntimeError: Address already in use",
)
DERIVED, ONE_TASK = "SLURM_JOB_ID % 20000", "`--ntasks-per-node=1`"


def unbound(tasks: range, error: str, label: str = "{r}: ", frames: str = RUN, node: str = "gpu07") -> str:
    """Tasks of one node that could not bind, as srun shows them."""
    text = "".join(label.format(r=r) + line for r in tasks for line in f"{frames}{error}\n".splitlines(keepends=True))
    named = f"tasks {tasks[0]}-{tasks[-1]}" if len(tasks) > 1 else f"task {tasks[0]}"
    return text + f"srun: error: {node}: {named}: Exited with exit code 1\n"


WORLD_4 = "".join(f"{r}: world_size=4\n" for r in range(4))

FIX_CASES = yaml.safe_load((Path(__file__).parent / "fix_cases.yaml").read_text(encoding="utf-8"))
CASES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    **{name: (row["log"], row.get("cause", ""), row.get("said", ()), row.get("never", ())) for name, row in FIX_CASES.items()},
    # next(None): data that one node alone lacks, or anything else
    "lacked-on-one-node": (LACKED, "nemo-home", ("export NEMO_HOME=",), ()),
    "packed-in-root": (PACKED.format("/root") + LACKED, "nemo-home", ("export NEMO_HOME=",), ()),
    "nemo-home-in-tmp": ("NEMO_HOME=/tmp/nemo\n" + LACKED, "nemo-home", ("export NEMO_HOME=",), ()),
    "none-on-one-node": (failing(range(8, 16), NONE) + NODE_2, "python-error", (), ("NEMO_HOME",)),
    "none-of-a-job-of-one-node": ("SLURM_NNODES=1\n" + failing(range(4, 8), NONE, BRIDGE) + ended("node01: 4-7", "node01: 0-3"), "python-error", (), ("NEMO_HOME",)),
    "nemo-home-shared": ("NEMO_HOME=/lustre/demo/cache/nemo\n" + LACKED, "python-error", (), ("NEMO_HOME",)),
    "packed-in-a-shared-file": (PACKED.format("/lustre/demo") + LACKED, "python-error", (), ("NEMO_HOME",)),
    "none-of-a-pipeline": ("model.pipeline_model_parallel_size=2\n" + LACKED, "python-error", ("with PP 2, some pipeline stages have none",), ("NEMO_HOME",)),
    # a file that one node lacks, or all
    "missing-everywhere": (failing(range(8), MISSING) + ended("node01: 0-3;node02: 4-7"), "file-not-found", ("no node of this job has it",), ("node01", "node02")),
    "missing-on-one-node": (failing(range(4, 8), MISSING) + ended("node02: 4-7", "node01: 0-3"), "file-not-found", ("exists on node02: `srun -w node02 --ntasks-per-node=1 ls -ld /shared/data/train.jsonl`",), ()),
    "heads-of-a-view": (HEADS.format(36), "", ("Use TP 4 or TP 2: TP 8 does not divide the 36 attention heads",), ()),
    "even-heads-of-a-view": (HEADS.format(32), "", (), ("heads",)),
    "raised-on-all-ranks": (WORLD_4 + "".join(raised("KeyError: 'x'", label=f"{r}: ") for r in range(4)), "python-error", ("All ranks fail the same way, so it is the code or the configuration",), ()),
    # the time limit
    "limit-with-steps": (STEPS + LIMIT, "time-limit", (), ("was found",)),
    "limit-in-uv": (VENVS * 2 + LIMIT, "time-limit", ("`srun --ntasks=1 uv sync`",), ("longer --time",)),
    # a port that is taken: by the other launchers of the job's own node, or by another job
    "port-of-labelled-tasks": (unbound(range(1, 8), IN_USE[0]), "", (f"Set {ONE_TASK}: 7 tasks each started a launcher",), (DERIVED,)),
    "port-of-srun's-tasks": (unbound(range(8, 15), IN_USE[2], "[task {r}] "), "", (f"Set {ONE_TASK}: 7 tasks each started a launcher",), (DERIVED,)),
    "port-on-two-nodes": (unbound(range(1, 8), IN_USE[0]) + unbound(range(9, 16), IN_USE[0], node="gpu08"), "", (f"Set {ONE_TASK}: 14 tasks",), (DERIVED,)),
    "port-without-reports": (unbound(range(1, 8), IN_USE[0], label="").rpartition("srun: error")[0], "", (ONE_TASK,), (DERIVED,)),
}  # fmt: skip


@pytest.mark.parametrize(("log", "cause", "said", "never"), CASES.values(), ids=CASES)
def test_the_fixes_of_a_log(log: str, cause: str, said: tuple[str, ...], never: tuple[str, ...]) -> None:
    found = diagnose(log)
    assert found.cause.id == (cause or found.cause.id)
    text = advice(found)
    assert [words for words in said if words not in text] == [], text
    assert [words for words in never if words in text] == [], text


def test_what_the_verdict_says_of_them_besides() -> None:
    assert "2026-10-02T11:49:01" in diagnose(STEPS + LIMIT).to_text(width=400)
    assert "6071" in diagnose(FAULT + DMESG).to_text(width=400)
    assert diagnose(FAULT).first_failure.node is None  # an agent of HSA is no node
    shape = diagnose(CASES["shape-of-a-step"][0])
    assert "--gpus" not in shape.fixes[0].do
    for log in (UNLIKE, "original torch.bfloat16, exported torch.bfloat16\n" + UNLIKE):
        assert diagnose(log).to_dict()["retry"]["advice"] == "after-fix"


@pytest.mark.parametrize("name", ["rank_{r}_dgx-0{n}.log", "dgx-0{n}_rank{r}.err"])
def test_nodes_of_file_names_are_those_to_look_at(tmp_path: Path, name: str) -> None:
    for rank in range(8):
        node = 1 + rank // 4
        text = failing(range(rank, rank + 1), MISSING) if node == 2 else "loading\nwaiting\n"
        (tmp_path / name.format(r=rank, n=node)).write_text(text)
    found = diagnose(tmp_path)
    assert found.extent.nodes == ("dgx-02",)
    assert "`srun -w dgx-02 --ntasks-per-node=1 ls -ld /shared/data/train.jsonl`" in advice(found)


def test_a_run_in_the_file_names_is_no_node(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"run1_rank{rank}.log").write_text(failing(range(rank, rank + 1), MISSING))
    assert diagnose(tmp_path).extent.nodes == ()


@pytest.mark.parametrize("label", ["3: ", "[rank3]: ", "[Rank 3/32] ", "<stderr:3> "])
def test_few_labelled_lines_under_many_unlabelled_ones_name_their_rank(label: str) -> None:
    shell = "".join(f"+ export A{number}=1\n" for number in range(60))
    found = diagnose(shell + "".join(f"{label}{line}\n" for line in raised("ValueError: bad shard").splitlines()))
    assert (found.cause.id, found.first_failure.rank) == ("python-error", 3)


PIECES = OOM.replace("1.02 GiB is free", "1.02 GiB is free. Of the allocated memory 20.0 GiB is allocated by PyTorch, and 15.9 GiB is reserved by PyTorch but unallocated")  # fmt: skip
PORT = "RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n"


@pytest.mark.parametrize(
    ("log", "script", "said", "never"),
    [
        ("srun: error: n1: task 2: Out Of Memory\n", "#SBATCH --mem=0 --exclusive", "more nodes", "--mem=0` takes"),
        (PIECES, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "smaller micro batch", "expandable_segments"),
        (OOM, "srun python pretrain_gpt.py --micro-batch-size 1 --recompute-granularity full", "recomputed already", "activation checkpointing"),
        (STEPS[:60] + LIMIT, "#SBATCH --time=UNLIMITED --signal=TERM@300 --requeue", "on the signal of --signal=TERM@300", "longer --time"),
        (PORT, "export MASTER_PORT=$((20000 + SLURM_JOB_ID % 20000))", "who holds the port", "Derive the port"),
    ],
)  # fmt: skip
def test_no_fix_asks_for_what_the_script_does(log: str, script: str, said: str, never: str) -> None:
    head = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=4 --gpus-per-node=4\n"
    text = " ".join(diagnose(log, script=parse(f"{head}{script}\n")).to_text(width=400).split())
    assert said in text
    assert never not in text.partition(" fix ")[2]


def test_a_script_tells_better_how_many_launchers_there_are() -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\nsrun torchrun --nproc_per_node=8 train.py\n"
    proven = diagnose(CASES["port-of-labelled-tasks"][0], script=parse(script, "job.sbatch"))
    assert proven.fixes[0].do.startswith("job.sbatch:")
    assert "SLURM_JOB_ID % 20000" not in advice(proven)
