"""Several runs in one file: what a run prints as it begins stands there again, and the verdict is about the last one."""

import pytest

from builders import cause_of
from slurmdoctor import diagnose

BEGIN = "Starting run on node{node}\nreading /scratch/demo/data\n"
OOM = (
    "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity of 79.11 GiB\n"
)
KEY = "Traceback (most recent call last):\n  File \"/scratch/demo/a.py\", line 3, in <module>\n    f()\nKeyError: 'x'\n"
REQUEUED = "slurmstepd: error: *** JOB 881 ON node07 CANCELLED AT 2026-11-02T10:00:00 DUE TO JOB REQUEUE ***\n"
BANNER = (
    "Setting OMP_NUM_THREADS environment variable for each process to be 1 in default, to avoid your system being overloaded, please "
    "further tune the variable for optimal performance in your application as needed.\n"
)


@pytest.mark.parametrize(
    "begin",
    [
        BEGIN,
        "nohup: ignoring input\n",
        "Loaded module: python3/3.7.5\nLoaded module: cuda/10.0\n",
        "Namespace(lr=0.{node}, seed=1)\n",
        "[demo@node07 proj]$ python train.py --lr 0.{node}\n",
        "demo@node07:~/proj$ torchrun --nproc_per_node=2 train.py\n",
        "wandb: Tracking run with wandb version 0.24.{node}\n",
        BANNER,
    ],
)
@pytest.mark.parametrize("end", [OOM, OOM + REQUEUED])
def test_the_last_run_is_the_verdicts(begin: str, end: str) -> None:
    one, two = begin.replace("{node}", "07"), begin.replace("{node}", "09")
    assert cause_of(one + end + two + KEY) == "python-error"
    earlier = diagnose(one + end + two + KEY).facts["earlier"]
    assert "cuda-oom" in {before["cause"] for before in earlier}


def test_a_later_run_that_works_has_survived_the_failure_of_the_one_before() -> None:
    work = "".join(f"graph {n} of 90 was read, it has {n * 12} nodes\n" for n in range(90))
    assert diagnose(BEGIN + OOM + BEGIN + work).verdict == "unknown"


@pytest.mark.parametrize(
    "begin",
    [
        # ranks print it, in any order; one line alone
        "INFO [rank 0] starting on node07\nINFO [rank 0] reading data\n",
        "Starting run on node07\nStarting run on node07\n",
        "data\n",
    ],
)
def test_what_any_rank_may_print_is_no_start(begin: str) -> None:
    assert cause_of(begin + OOM + begin + KEY) == "cuda-oom"
