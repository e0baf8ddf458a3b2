"""Jobs that leave a file for each rank and one for Slurm: no clock tells what came first."""

from pathlib import Path

import pytest

import slurmdoctor

pytestmark = pytest.mark.usefixtures("golden_verdicts")

STEPS = "".join(f"step {n} loss 2.{n} lr 1e-4\n" for n in range(5))
LOST = (
    "Traceback (most recent call last):\n"
    '  File "/code/train.py", line 7, in <module>\n    dist.all_reduce(x)\n'
    "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.0.0.4]:4242\n"
)


def _write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).write_text(text)


def test_slurms_word_in_the_first_ranks_file_is_not_that_ranks(tmp_path: Path) -> None:
    oom = "slurmstepd: error: Detected 1 oom_kill event in StepId=77.0. Some of the step tasks have been OOM Killed.\n"
    _write(
        tmp_path,
        {
            **{f"rank_{rank}.log": STEPS + LOST for rank in (0, 1, 3)},
            "rank_2.log": STEPS,
            "slurm-77.out": "srun: error: gn1: task 2: Out Of Memory\n",
        },
    )
    (tmp_path / "rank_0.log").write_text(STEPS + LOST + oom)
    found = slurmdoctor.diagnose(tmp_path).to_dict()
    assert (found["cause"]["id"], found["first_failure"]["rank"]) == ("host-oom", 2)


@pytest.mark.parametrize("name", ["rank", "r", "gpu"])
def test_what_a_files_name_counts_is_no_node(tmp_path: Path, name: str) -> None:
    _write(tmp_path, {f"train_4711_{name}{n}.log": STEPS + (LOST if n == 2 else "") for n in range(4)})
    found = slurmdoctor.diagnose(tmp_path)
    assert f"{name}2" not in str(found).replace(f"_{name}2", "")
    assert (found.first_failure.node) is None
