"""Diagnoses made by hand, one for each shape of answer that the reports must tell well."""

from __future__ import annotations

from slurmdoctor import Diagnosis
from slurmdoctor.model import (
    Cascade,
    Coverage,
    Evidence,
    Exit,
    FirstFailure,
    NamedCause,
    Place,
    RankGroup,
    Remedy,
    Retry,
    Rival,
)

OOM_LINE = (
    "[rank13]: torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 5 has a total "
    "capacity of 79.11 GiB of which 1.03 GiB is free. Including non-PyTorch memory, 78.07 GiB is in use."
)

CUDA_OOM = Diagnosis(
    verdict="failed",
    cause=NamedCause("cuda-oom", "memory", "ran out of GPU memory", "cuda-oom/torch", "high"),
    first_failure=FirstFailure(
        rank=13,
        local_rank=5,
        node="gpu-02",
        time="2026-11-20T12:01:03",
        file="job.log",
        line=48211,
        text=OOM_LINE,
        traceback=(
            '  File "/opt/app/pretrain_gpt.py", line 88, in <module>',
            "    pretrain(train_valid_test_datasets_provider, model_provider)",
            '  File "/opt/app/megatron/core/transformer/moe/experts.py", line 213, in forward',
            "    hidden = self.activation_func(fc1_output)",
            '  File "/usr/lib/python3.12/site-packages/torch/nn/modules/module.py", line 1751, in _call_impl',
            "    return forward_call(*args, **kwargs)",
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        ),
        how="the earliest error of all ranks by time",
    ),
    exit=Exit(1, None, "python-error", 143, "torchelastic table"),
    evidence=(
        Evidence("job.log", 48211, OOM_LINE, 13, "gpu-02", "2026-11-20T12:01:03", "cuda-oom/torch", "cuda-oom", "root"),
    ),
    cascade=(
        Cascade(
            "collective-timeout", "waited for a collective that never came", 63, 1890, 600.4, Place("job.log", 48300)
        ),
        Cascade("sigterm", "was stopped by SIGTERM", 63, 63, 603.0, Place("job.log", 51200)),
    ),
    reasons=("first error by time", "torchrun's own table agrees", "all else follows within 10 m 3 s"),
    fixes=(
        Remedy(
            "Raise expert parallelism from 4 to 8: 256 experts / EP 4 = 64 experts a GPU.",
            "Tensor parallelism does not shrink experts.",
            "https://docs.pytorch.org/docs/stable/notes/cuda.html",
        ),
        Remedy("Lower the micro batch size", "Activations grow with the micro batch."),
    ),
    retry=Retry("after-fix", "the node is not to blame"),
    facts={"world_size": 64, "nodes": 8, "launcher": "torchrun", "framework": "megatron", "job_id": "4242"},
    coverage=Coverage(8_400_000, 51_300, 1, 64, (), "timestamps"),
    ranks=(
        RankGroup("first", (13,), "ran out of GPU memory", "job.log", 48211),
        RankGroup("collateral", tuple(r for r in range(64) if r != 13), "waited for rank 13", "job.log", 48300),
    ),
)

ALL_ALIKE = Diagnosis(
    verdict="failed",
    cause=NamedCause("file-not-found", "storage", "could not find a file", "file-not-found/python", "high"),
    first_failure=FirstFailure(
        rank=3,
        file="logs/rank_3.log",
        line=17,
        text="FileNotFoundError: [Errno 2] No such file or directory: '/data/train/shard-00000.bin'",
        traceback=('  File "train.py", line 41, in main\n    data = open(args.data, "rb")',),
        how="all 8 ranks fail alike; rank 3 is only the one seen first",
        ranks=tuple(range(8)),
    ),
    exit=Exit(1, None, "python-error", 1, "srun"),
    evidence=(Evidence("logs/rank_3.log", 17, "FileNotFoundError: ...", 3, None, None, "f", "file-not-found", "root"),),
    reasons=("all 8 ranks fail alike; rank 3 is only the one seen first",),
    fixes=(Remedy("Check that /data/train/shard-00000.bin exists on every node."),),
    retry=Retry("after-fix", ""),
    facts={"world_size": 8},
    coverage=Coverage(90_000, 800, 8, 8, (), "file"),
)

SILENT = Diagnosis(
    verdict="failed",
    cause=NamedCause("collective-timeout", "communication", "held up a collective", "collective-timeout/torch", "low"),
    first_failure=FirstFailure(rank=5, node=None, how="the only rank with no work enqueued after 61"),
    exit=Exit(None, "SIGABRT", "abort", 134, "srun"),
    evidence=(
        Evidence(
            "slurm-991.out",
            2210,
            "[rank2]:[E321 02:07:08.41 ProcessGroupNCCL.cpp:607] [Rank 2] Watchdog caught collective "
            "operation timeout: WorkNCCL(SeqNum=62, OpType=ALLREDUCE, NumelIn=1, Timeout(ms)=600000) ran for "
            "600012 milliseconds before timing out.",
            2,
            "node-a",
            "2026-03-21T02:07:08",
            "collective-timeout/torch",
            "collective-timeout",
            "either",
        ),
        Evidence(
            "slurm-991.out",
            2300,
            "srun: error: node-a: tasks 0-3: Aborted (core dumped)",
            None,
            "node-a",
            None,
            "abort/srun",
            "abort",
            "confirmation",
        ),
    ),
    cascade=(Cascade("abort", None, 7, 7, None, Place("slurm-991.out", 2300)),),
    others=(Rival("data-worker", "low", "a slow DataLoader looks the same"),),
    reasons=("rank 5 reported nothing while 7 others timed out at sequence 62",),
    fixes=(Remedy("Look at what rank 5 did last: py-spy dump, or TORCH_NCCL_TRACE_BUFFER_SIZE=2000 for next time."),),
    verify=("Set TORCH_NCCL_DUMP_ON_TIMEOUT=1 and read rank 5's flight record.",),
    retry=Retry("elsewhere", "a node may be slow", ("node-b",)),
    facts={"world_size": 8, "job_id": 991},
    coverage=Coverage(700_000, 2400, 1, 7, (5,), "timestamps", ("sacct",), ("the log begins in the middle",)),
    ranks=(
        RankGroup("suspect", (5,), "never entered the collective"),
        RankGroup("waiting", (0, 1, 2, 3, 4, 6, 7), "timed out at sequence 62", "slurm-991.out", 2210),
    ),
)

EXIT_CODE = Diagnosis(
    verdict="failed",
    cause=NamedCause("exit-code", "process", "ended with an exit code", "exit-code/srun", "low"),
    first_failure=FirstFailure(
        rank=3, node="n7", file="job.err", line=9, text="srun: error: n7: task 3: Exited with exit code 17"
    ),
    exit=Exit(17, None, "other", 17, "srun"),
    reasons=("nothing in the log says why",),
    retry=Retry("unknown", ""),
    facts={"job_id": "77"},
    coverage=Coverage(400, 9, 1, 1, (), "file", ("sacct", "the standard output of rank 3")),
)

NO_FAILURE = Diagnosis(
    verdict="no-failure",
    exit=Exit(0, None, "ok"),
    reasons=("the program says that it finished",),
    facts={"last_step": 12000, "world_size": 8},
    coverage=Coverage(1_234_567, 20_312, 2, 8, (), "timestamps"),
)

UNKNOWN = Diagnosis(
    verdict="unknown",
    reasons=("the log ends in the middle of training",),
    facts={"last_step": 330},
    coverage=Coverage(52_000, 640, 1, 1, (), "file", ("sacct", "scontrol")),
)

EXAMPLES = {
    "cuda-oom": CUDA_OOM,
    "all-alike": ALL_ALIKE,
    "silent-culprit": SILENT,
    "exit-code": EXIT_CODE,
    "no-failure": NO_FAILURE,
    "unknown": UNKNOWN,
}
