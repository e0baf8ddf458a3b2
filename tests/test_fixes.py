"""The fixes that a log gets: each stands on what the log shows, and says nothing that the job or its script rules out."""

from pathlib import Path

import pytest

from builders import raised
from slurmdoctor import Diagnosis
from slurmdoctor.pipeline import diagnose
from slurmdoctor.slurm.script.parser import parse
from tables import table

CASES = table("fix_cases")
LOGS = {name: "".join(case["log"]) for name, case in CASES.items()}
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/shared/data/train.jsonl'"
DMESG = "[19277.975569] amdgpu 0000:3d:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:160 vmid:3 pasid:32790)\n[19277.975611] amdgpu 0000:3d:00.0: amdgpu:  for process python3.12 pid 6071 thread python3.12 pid 6071)\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.02 GiB is free.\n"


def advice(found: Diagnosis) -> str:
    return "\n".join(f"{fix.do} {fix.why or ''}" for fix in found.fixes)


@pytest.mark.parametrize("name", CASES)
def test_the_fixes_of_a_log(name: str) -> None:
    case, found = CASES[name], diagnose(LOGS[name])
    assert found.cause.id == case.get("cause", found.cause.id)
    text = advice(found)
    assert [words for words in case.get("said", ()) if words not in text] == [], text
    assert [words for words in case.get("never", ()) if words in text] == [], text


@pytest.mark.parametrize(("home", "cause"), [("/lustre/demo/nemo", "python-error"), ("/root/.cache/nemo", "nemo-home")])
def test_the_script_tells_whether_nemo_home_is_shared(home: str, cause: str) -> None:
    text = f"#!/bin/bash\n#SBATCH --nodes=2\nexport NEMO_HOME={home}\nsrun --container-image=/x.sqsh python run.py\n"
    assert diagnose(LOGS["lacked-on-one-node"], script=parse(text, "job.sbatch")).cause.id == cause


def test_what_the_verdict_says_of_them_besides() -> None:
    assert "2026-10-02T11:49:01" in diagnose(LOGS["limit-with-steps"]).to_text(width=400)
    assert "6071" in diagnose(LOGS["hsa"] + DMESG).to_text(width=400)
    assert diagnose(LOGS["hsa"]).first_failure.node is None  # an agent of HSA is no node
    assert "--gpus" not in diagnose(LOGS["shape-of-a-step"]).fixes[0].do
    for name in ("unlike-weights", "unlike-of-bf16"):
        assert diagnose(LOGS[name]).to_dict()["retry"]["advice"] == "after-fix"


@pytest.mark.parametrize("name", ["rank_{r}_dgx-0{n}.log", "dgx-0{n}_rank{r}.err"])
def test_nodes_of_file_names_are_those_to_look_at(tmp_path: Path, name: str) -> None:
    for rank in range(8):
        node = 1 + rank // 4
        text = raised(MISSING, f"{rank}: [rank{rank}]: ") if node == 2 else "loading\nwaiting\n"
        (tmp_path / name.format(r=rank, n=node)).write_text(text)
    found = diagnose(tmp_path)
    assert found.extent.nodes == ("dgx-02",)
    assert "`srun -w dgx-02 --ntasks-per-node=1 ls -ld /shared/data/train.jsonl`" in advice(found)


def test_a_run_in_the_file_names_is_no_node(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"run1_rank{rank}.log").write_text(raised(MISSING, f"{rank}: [rank{rank}]: "))
    assert diagnose(tmp_path).extent.nodes == ()


@pytest.mark.parametrize("label", ["3: ", "[rank3]: ", "[Rank 3/32] ", "<stderr:3> "])
def test_few_labelled_lines_under_many_unlabelled_ones_name_their_rank(label: str) -> None:
    shell = "".join(f"+ export A{number}=1\n" for number in range(60))
    found = diagnose(shell + raised("ValueError: bad shard", label))
    assert (found.cause.id, found.first_failure.rank) == ("python-error", 3)


PIECES = OOM.replace("1.02 GiB is free", "1.02 GiB is free. Of the allocated memory 20.0 GiB is allocated by PyTorch, and 15.9 GiB is reserved by PyTorch but unallocated")  # fmt: skip
PORT = "RuntimeError: The server socket has failed to bind to [::]:29500 (errno: 98 - Address already in use).\n"


@pytest.mark.parametrize(
    ("log", "script", "said", "never"),
    [
        ("srun: error: n1: task 2: Out Of Memory\n", "#SBATCH --mem=0 --exclusive", "more nodes", "--mem=0` takes"),
        (PIECES, "export PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "smaller micro batch", "expandable_segments"),
        (OOM, "srun python pretrain_gpt.py --micro-batch-size 1 --recompute-granularity full", "recomputed already", "activation checkpointing"),
        (LOGS["limit-with-steps"], "#SBATCH --time=UNLIMITED --signal=TERM@300 --requeue", "on the signal of --signal=TERM@300", "longer --time"),
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
    proven = diagnose(LOGS["port-of-labelled-tasks"], script=parse(script, "job.sbatch"))
    assert proven.fixes[0].do.startswith("job.sbatch:")
    assert "SLURM_JOB_ID % 20000" not in advice(proven)
