"""What the field's own documents know: each of their items is recognised from a log, and answered with this log's numbers.

An item has its log in tests/seed_logs. The programs' wordings and the cures carry over from five public documents on multi-node
training under Slurm (MB: Megatron Bridge, ML: Megatron-LM, KF: KempnerForge, NA: NeMo AutoModel, EN: Enroot and lit-gpt); the logs
and the sentences are our own. Items that only a batch script tells (MB20, 21, 23, 25, ML9, 10) are `slurmdoctor lint`'s.
"""

import re
from functools import lru_cache
from pathlib import Path

import pytest

from slurmdoctor import Diagnosis, diagnose

LOGS = Path(__file__).parent / "seed_logs"
ITEMS = {"mb": [*range(1, 20), 22, 24], "ml": range(1, 9), "kf": range(1, 10), "na": range(1, 6), "en": range(1, 6)}

FIRST_FIX: dict[str, tuple[str, ...]] = {
    "mb1": ("slurm-request/gpu-specification", "`--gpus-per-node=8`"),
    "mb2": ("slurm-request/partition", "pool0", "`sinfo --summarize`"),
    "mb3": ("slurm-request", "`sacctmgr -nP show assoc where user=$USER format=account,partition"),
    "mb4": ("slurm-request/step-shape", "Drop `-w`"),
    "mb5": ("command-not-found", "`pip install uv`"),
    "mb6": ("disk-full", "UV_CACHE_DIR=/shared/", "/root/.cache"),
    "mb6_pip": ("disk-full", "UV_CACHE_DIR=/shared/", "/root/.cache"),
    "mb7": ("module-not-found/megatron", "`pip install -e 3rdparty/Megatron-LM --no-deps", "--no-build-isolation"),
    "mb8": ("module-not-found/megatron", "`uv sync`", "local rank 0", "`uv run --no-sync`"),
    "mb9": ("nccl-id-timeout/wait", "from 10 min", "timedelta(minutes=60)", "fetched 6 of 9 remote-code files"),
    "mb10": ("module-not-found/name", "flash_lin_attn.ops"),
    "mb11": ("cuda-oom/torch", "from 8 to 16", "256 experts / EP 8 = 32 experts", "60 GB"),
    "mb12": ("nccl-id-timeout/wait", "`sinfo -N -l`", "ranks 8-15 on gpu-44 could not reach rank 0 on gpu-41"),
    "mb13": ("cuda-oom/torch", "2 nodes and EP 16", "256 experts / EP 4 = 64 per GPU", "112.3 GB in bf16", "28.1 GB", "TP does not split experts", "inference", "40 GB"),
    "mb13_ep_only": ("cuda-oom/torch", "from 8 to 16", "128 experts / EP 8 = 16 experts", "x 2 / 1e9", "about 40 GB"),
    "mb14": ("fp8-mismatch", "--atol", "nothing was exported yet"),
    "mb15": ("launcher-env", "SLURM_NTASKS", "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT"),
    "mb16": ("address-in-use", "`--ntasks-per-node=1`", "port 29500"),
    "mb17": ("nemo-home", "NEMO_HOME"),
    "mb18_1": ("exit-code", "Exit code 1 is what Python returns after an uncaught exception", "stderr"),
    "mb18_9": ("killed", "MaxRSS"),
    "mb18_143": ("sigterm",),
    "mb19": ("python-error", "rank 0 first"),
    "mb22": ("checkpoint-mismatch", "/opt/Megatron-Bridge/nemo_experiments/default/checkpoints"),
    "mb24": ("parallelism/world-size", "PP 2 or PP 1", "TP 4 x PP 3 x CP 1 = 12", "use 6 nodes"),
    "ml1": ("python-error",),
    "ml2": ("cuda-oom/torch", "from 4 to 2", "backward pass, after step 3, TP 4, PP 2, CP 1, DP 2, micro batch 4, sequence 8192"),
    "ml4": ("module-not-found/megatron", "PYTHONPATH", "megatron.core.transformer.moe.router_replay"),
    "ml4_other": ("module-not-found/no-module", "`uv sync`"),
    "ml6": ("cuda-max-connections/must-be-1", "CUDA_DEVICE_MAX_CONNECTIONS=1", "TP 4"),
    "ml7": ("cuda-max-connections/fsdp", "`unset CUDA_DEVICE_MAX_CONNECTIONS`", "above 1"),
    "ml8": ("cuda-max-connections/expert-overlap", "CUDA_DEVICE_MAX_CONNECTIONS=32", "overlap_moe_expert_parallel_comm"),
    "kf1": ("gpu-visibility/invalid-ordinal", "8 processes per node", "`--ntasks-per-node=4`", "`--gpus-per-node=4`"),
    "kf1_duplicate": ("nccl-init/duplicate-gpu", "device 1b000"),
    "kf2": ("gloo-connect", "GLOO_SOCKET_IFNAME", "ib0"),
    "kf2_recv": ("collective-timeout/gloo", "GLOO_SOCKET_IFNAME"),
    "kf3": ("collective-timeout/watchdog", "NET/Socket", "eno1", "NCCL_IB_DISABLE=0", "NET/IB"),
    "kf4": ("nccl-init/verbs", "NCCL_IB_GID_INDEX", "ibv_devinfo"),
    "kf6": ("time-limit", "cut off after 120 s", "B:TERM@360"),
    "kf7": ("preempted", "3 restarts gained no step", "step 4032", "--signal"),
    "kf8": ("offline", "HF_HUB_OFFLINE=1"),
    "kf9": ("address-in-use", "29500", "SLURM_JOB_ID % 20000"),
    "na1": ("cuda-oom/torch", "38.7GB/40GB were in use on the GPUs that print it at step 200"),
    "na2": ("hang", "leave --time as it is", "3 h 46 min before the end", "2026-11-20T08:14:00", "step 350"),
    "na3_mount": ("container/enroot-mount", "/shared/datasets", "`srun -N1", "--container-mounts=/shared/datasets"),
    "na4": ("file-not-found", "/shared/datasets/nova/manifest.json", "on dgx-02", "`srun -w dgx-02 --ntasks-per-node=1 ls -ld /shared/datasets/nova/manifest.json`"),
    "na5": ("nccl-init/network-missing", "`ibstatus`", "NCCL_DEBUG_SUBSYS=NET,INIT", "dgx-02", "IB"),
    "na5_down": ("nccl-transport/ib-event", "mlx5_1", "dgx-02"),
    "en1": ("time-limit", "job 90820", "MONITOR_PID"),
    "en2": ("segfault/faulthandler", "_read_index", "packed_dataset.py:189"),
    "en3": ("container", "/scratch/demo/containers/pytorch-23.10.sqsh"),
    "en3_permission": ("container/enroot-mount", "/scratch/demo/data"),
    "en4": ("python-error",),
    "en5": ("address-in-use", "54321", "SLURM_JOB_ID % 20000"),
}  # fmt: skip
"""Log -> its cause or rule, and what the first fix says."""

ANY_FIX: dict[str, tuple[str, ...]] = {
    "ml3": ("parallelism/heads", "Use TP 4 or TP 2: TP 8 does not divide the 36 heads", "WORLD_SIZE = TP x PP x CP x DP", "heads % TP = 0"),
    "ml5": ("nccl-init/connect-refused", "172.17.0.1", "port 41333", "MASTER_ADDR"),
    "kf2_recv": ("collective-timeout/gloo", "1800 s"),
    "kf5": ("collective-timeout", "NCCL_DEBUG=INFO", "TORCH_DISTRIBUTED_DEBUG=DETAIL", "GLOO_SOCKET_IFNAME", "NCCL_IB_GID_INDEX", "ALLREDUCE"),
    "na3": ("container/registry",),
}  # fmt: skip
"""The same of all fixes that are shown. What else is decided, tests/test_goldens.py holds."""

NEVER = {
    "mb11": r"raise (?:TP|tensor)|micro batch",
    "mb12": r"timedelta",
    "mb18_1": r"no traceback is in",  # nothing shows a Python program
    "en1": r"--time",
}
"""What no fix of the log says."""


@lru_cache(maxsize=128)
def verdict(name: str) -> Diagnosis:
    return diagnose(LOGS / f"{name}.log")


def shown(found: Diagnosis, most: int = 4) -> str:
    return "\n".join(f"{fix.do} {fix.why or ''}" for fix in found.fixes[:most])


def test_every_item_has_its_answer_and_its_log() -> None:
    wanted = {f"{document}{number}" for document, numbers in ITEMS.items() for number in numbers}
    assert len(wanted) == 48
    assert {name.partition("_")[0] for name in {*FIRST_FIX, *ANY_FIX}} == wanted
    assert {path.stem for path in LOGS.glob("*.log")} == {*FIRST_FIX, *ANY_FIX}


@pytest.mark.parametrize(
    ("name", "rule", "most", "said"),
    [(name, rule, most, said) for table, most in ((FIRST_FIX, 1), (ANY_FIX, 4)) for name, (rule, *said) in table.items()],
)  # fmt: skip
def test_a_known_failure_is_answered_with_its_own_numbers(name: str, rule: str, most: int, said: list[str]) -> None:
    found = verdict(name)
    assert (found.verdict, found.cause.id) == ("failed", rule.partition("/")[0])
    assert found.cause.rule == (rule if "/" in rule else found.cause.rule)
    assert 1 <= len(found.fixes) <= 3 + found.extent.whole_node  # where one node alone failed, that is said besides
    assert [words for words in said if words not in shown(found, most)] == [], shown(found, most)


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda log: log.stem)
def test_no_answer_is_wrong_advice(log: Path) -> None:
    """A longer time-out cures no crash, more time no hang, and no sentence is left with a hole."""
    found = verdict(log.stem)
    assert not re.search(NEVER.get(log.stem, "(?!)"), shown(found))
    if found.cause.id not in ("nccl-id-timeout", "collective-timeout", "rendezvous-timeout", "hang"):
        assert "timedelta(" not in shown(found)
    for text in (*(fix.do for fix in found.fixes), *found.verify):
        assert "None" not in text.split()
        assert not re.search(r"(?<!\$)\{\w+\}", text), text


def test_four_failures_of_one_wait_are_told_apart() -> None:
    assert len({shown(verdict(name), 1) for name in ("mb9", "mb10", "mb11", "mb12")}) == 4


def test_what_an_out_of_memory_needs_to_be_verified() -> None:
    assert "max_memory_allocated" in "\n".join(verdict("ml2").verify)
