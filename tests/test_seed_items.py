"""What the field's own documents know: each of their items is recognised from a log, and answered with this log's numbers.

An item has its name (MB1, ML2, ...) and its log in tests/seed_logs. The programs' wordings and the cures carry over from
five public documents on multi-node training under Slurm; the logs and the sentences are our own.
"""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path

import pytest

from slurmdoctor import Diagnosis, diagnose

LOGS = Path(__file__).parent / "seed_logs"
ITEMS = {
    "MB": [*range(1, 20), 22, 24],
    "ML": range(1, 9),
    "KF": range(1, 10),
    "NA": range(1, 6),
    "EN": range(1, 6),
}
"""All items that a log tells. Those that only a batch script tells (MB20, 21, 23, 25, ML9, 10) are `slurmdoctor lint`'s."""


@lru_cache(maxsize=128)
def verdict(name: str) -> Diagnosis:
    return diagnose(LOGS / f"{name}.log")


def answered(name: str, rule: str, *facts: str, first: bool = True) -> Diagnosis:
    """The verdict on a log: its cause and rule are these, and its first fix (or all that are shown) tells these facts."""
    found = verdict(name)
    assert found.verdict == "failed"
    assert found.cause is not None
    assert found.cause.id == rule.partition("/")[0]
    assert found.cause.rule == (rule if "/" in rule else found.cause.rule)
    most = 4 if found.extent.whole_node else 3  # where one node alone failed, that is said besides
    assert 1 <= len(found.fixes) <= most
    text = shown(found, 1 if first else most)
    missing = [fact for fact in facts if fact not in text]
    assert not missing, f"{missing} not in: {text}"
    return found


def shown(found: Diagnosis, most: int = 3) -> str:
    return "\n".join(f"{fix.do} {fix.why or ''}" for fix in found.fixes[:most])


def advice(found: Diagnosis) -> str:
    assert found.retry is not None
    return found.retry.advice


def first_rank(found: Diagnosis) -> int | None:
    assert found.first_failure is not None
    return found.first_failure.rank


def cascade(found: Diagnosis) -> set[str]:
    return {one.cause for one in found.cascade}


def test_every_item_has_its_test_and_its_log() -> None:
    wanted = {f"{document.lower()}{number}" for document, numbers in ITEMS.items() for number in numbers}
    assert len(wanted) == 48
    tests = {match[1] for name in globals() if (match := re.match(r"test_((?:mb|ml|kf|na|en)\d+)_", name))}
    logs = {path.stem.partition("_")[0] for path in LOGS.glob("*.log")}
    assert tests == wanted
    assert logs == wanted


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda log: log.stem)
def test_no_answer_is_wrong_advice(log: Path) -> None:
    """A longer time-out cures no crash, more time no hang, and no sentence is left with a hole."""
    found = verdict(log.stem)
    assert found.cause is not None
    if found.cause.id not in ("nccl-id-timeout", "collective-timeout", "rendezvous-timeout", "hang"):
        assert "timedelta(" not in shown(found)
    for text in (*(fix.do for fix in found.fixes), *found.verify):
        assert "None" not in text.split()
        assert not re.search(r"(?<!\$)\{\w+\}", text), text


# ── MB: Megatron Bridge ──────────────────────────────────────────────────────────────────────


def test_mb1_gpu_specification() -> None:
    answered("mb1", "slurm-request/gpu-specification", "`--gpus-per-node=8`")


def test_mb2_partition_name() -> None:
    answered("mb2", "slurm-request/partition", "pool0", "`sinfo --summarize`")


def test_mb3_account_and_partition() -> None:
    answered("mb3", "slurm-request", "`sacctmgr -nP show assoc where user=$USER format=account,partition")


def test_mb4_node_named_in_the_step() -> None:
    answered("mb4", "slurm-request/step-shape", "Drop `-w`")


def test_mb5_no_uv_in_the_container() -> None:
    answered("mb5", "command-not-found", "`pip install uv`")


@pytest.mark.parametrize("name", ["mb6", "mb6_pip"])
def test_mb6_package_cache_full(name: str) -> None:
    answered(name, "disk-full", "UV_CACHE_DIR=/shared/", "/root/.cache")


def test_mb7_image_shadows_megatron_core() -> None:
    found = answered("mb7", "module-not-found/megatron", "`pip install -e 3rdparty/Megatron-LM --no-deps")
    assert "--no-build-isolation" in shown(found, 1)


def test_mb8_environment_not_synced() -> None:
    answered("mb8", "module-not-found/megatron", "`uv sync`", "local rank 0", "`uv run --no-sync`")


def test_mb9_rank_0_slow_in_saving() -> None:
    found = answered(
        "mb9", "nccl-id-timeout/wait", "from 10 min", "timedelta(minutes=60)", "fetched 6 of 9 remote-code files"
    )
    assert first_rank(found) == 0
    assert advice(found) == "after-fix"


def test_mb10_import_error_on_rank_0() -> None:
    found = answered("mb10", "module-not-found/name", "flash_lin_attn.ops")
    assert first_rank(found) == 0
    assert "nccl-id-timeout" in cascade(found)


def test_mb11_out_of_memory_on_rank_0() -> None:
    found = answered("mb11", "cuda-oom/torch", "from 8 to 16", "256 experts / EP 8 = 32 experts", "60 GB")
    assert first_rank(found) == 0
    assert not re.search(r"raise (?:TP|tensor)|micro batch", shown(found))
    assert "nccl-id-timeout" in cascade(found)


def test_mb12_network_between_the_nodes() -> None:
    found = answered(
        "mb12", "nccl-id-timeout/wait", "`sinfo -N -l`", "ranks 8-15 on gpu-44 could not reach rank 0 on gpu-41"
    )
    assert first_rank(found) is None
    assert "timedelta" not in shown(found)
    assert found.retry is not None
    assert (advice(found), found.retry.exclude_nodes) == ("elsewhere", ("gpu-41", "gpu-44"))


def test_mb9_to_mb12_are_told_apart() -> None:
    answers = [shown(verdict(name), 1) for name in ("mb9", "mb10", "mb11", "mb12")]
    assert len(set(answers)) == 4


def test_mb13_moe_is_answered_with_arithmetic() -> None:
    answered(
        "mb13",
        "cuda-oom/torch",
        "2 nodes and EP 16",
        "256 experts / EP 4 = 64 per GPU",
        "112.3 GB in bf16",
        "28.1 GB",
        "TP does not split experts",
        "inference",
        "40 GB",
    )
    answered(
        "mb13_ep_only", "cuda-oom/torch", "from 8 to 16", "128 experts / EP 8 = 16 experts", "x 2 / 1e9", "about 40 GB"
    )


def test_mb14_fp8_round_trip() -> None:
    found = answered("mb14", "fp8-mismatch", "--atol", "nothing was exported yet")
    assert advice(found) == "after-fix"


def test_mb15_must_be_launched_with_torchrun() -> None:
    answered("mb15", "launcher-env", "SLURM_NTASKS", "RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT")


def test_mb16_torchrun_in_every_task() -> None:
    answered("mb16", "address-in-use", "`--ntasks-per-node=1`", "port 29500")


def test_mb17_packed_sequences_of_another_node() -> None:
    found = answered("mb17", "nemo-home", "NEMO_HOME")
    assert found.first_failure is not None
    assert found.first_failure.node == "gpu-42"


def test_mb18_exit_codes() -> None:
    error = answered("mb18_1", "exit-code", "Exit code 1 is what Python returns after an uncaught exception", "stderr")
    assert "no traceback is in" not in " ".join(fix.why or "" for fix in error.fixes), "nothing shows a Python program"
    assert (error.exit.code, error.exit.exit_class, first_rank(error)) == (1, "other", 2)
    killed = answered("mb18_9", "killed", "MaxRSS")
    assert (killed.exit.signal, first_rank(killed)) == ("SIGKILL", 2)
    ended = answered("mb18_143", "sigterm")
    assert (ended.exit.signal, ended.exit.exit_class) == ("SIGTERM", "terminated")


def test_mb19_saving_breaks_on_rank_0() -> None:
    found = answered("mb19", "python-error", "rank 0 first")
    assert first_rank(found) == 0


def test_mb22_old_run_is_resumed() -> None:
    answered("mb22", "checkpoint-mismatch", "/opt/Megatron-Bridge/nemo_experiments/default/checkpoints")


def test_mb24_sizes_do_not_fit_the_nodes() -> None:
    answered("mb24", "parallelism/world-size", "PP 2 or PP 1", "TP 4 x PP 3 x CP 1 = 12", "use 6 nodes")


# ── ML: Megatron-LM ──────────────────────────────────────────────────────────────────────────


def test_ml1_earliest_traceback_is_the_root() -> None:
    found = answered("ml1", "python-error")
    assert first_rank(found) == 13
    assert "collective-timeout" in cascade(found)


def test_ml2_what_an_out_of_memory_needs() -> None:
    record = "backward pass, after step 3, TP 4, PP 2, CP 1, DP 2, micro batch 4, sequence 8192"
    found = answered("ml2", "cuda-oom/torch", "from 4 to 2", record)
    assert (first_rank(found), found.facts["record"], found.facts["phase"]) == (5, record, "backward pass")
    assert "max_memory_allocated" in "\n".join(found.verify)
    told = {name: found.facts.get(name) for name in ("tp", "pp", "cp", "dp", "micro_batch", "seq_length")}
    assert told == {"tp": 4, "pp": 2, "cp": 1, "dp": 2, "micro_batch": 4, "seq_length": 8192}


def test_ml3_heads_do_not_divide() -> None:
    answered(
        "ml3",
        "parallelism/heads",
        "Use TP 4 or TP 2: TP 8 does not divide the 36 heads",
        "WORLD_SIZE = TP x PP x CP x DP",
        "heads % TP = 0",
        first=False,
    )


def test_ml4_import_error() -> None:
    answered("ml4", "module-not-found/megatron", "PYTHONPATH", "megatron.core.transformer.moe.router_replay")
    answered("ml4_other", "module-not-found/no-module", "`uv sync`")


def test_ml5_nccl_without_a_traceback() -> None:
    answered("ml5", "nccl-init/connect-refused", "172.17.0.1", "port 41333", "MASTER_ADDR", first=False)


def test_ml6_max_connections_must_be_1() -> None:
    answered("ml6", "cuda-max-connections/must-be-1", "CUDA_DEVICE_MAX_CONNECTIONS=1", "TP 4")


def test_ml7_max_connections_must_not_be_1() -> None:
    answered("ml7", "cuda-max-connections/fsdp", "`unset CUDA_DEVICE_MAX_CONNECTIONS`", "above 1")


def test_ml8_max_connections_32() -> None:
    answered(
        "ml8",
        "cuda-max-connections/expert-overlap",
        "CUDA_DEVICE_MAX_CONNECTIONS=32",
        "overlap_moe_expert_parallel_comm",
    )


# ── KF: KempnerForge ─────────────────────────────────────────────────────────────────────────


def test_kf1_more_tasks_than_gpus() -> None:
    answered(
        "kf1", "gpu-visibility/invalid-ordinal", "8 processes per node", "`--ntasks-per-node=4`", "`--gpus-per-node=4`"
    )
    answered("kf1_duplicate", "nccl-init/duplicate-gpu", "device 1b000")


def test_kf2_gloo_on_the_wrong_network() -> None:
    answered("kf2", "gloo-connect", "GLOO_SOCKET_IFNAME", "ib0")
    answered("kf2_recv", "collective-timeout/gloo", "GLOO_SOCKET_IFNAME")
    answered("kf2_recv", "collective-timeout/gloo", "1800 s", first=False)


def test_kf3_sockets_instead_of_infiniband() -> None:
    answered("kf3", "collective-timeout/watchdog", "NET/Socket", "eno1", "NCCL_IB_DISABLE=0", "NET/IB")


def test_kf4_gid_index() -> None:
    answered("kf4", "nccl-init/verbs", "NCCL_IB_GID_INDEX", "ibv_devinfo")


def test_kf5_first_step_hangs() -> None:
    found = answered("kf5", "collective-timeout", "NCCL_DEBUG=INFO", "TORCH_DISTRIBUTED_DEBUG=DETAIL", first=False)
    assert all(word in shown(found) for word in ("GLOO_SOCKET_IFNAME", "NCCL_IB_GID_INDEX", "ALLREDUCE"))


def test_kf6_emergency_checkpoint_cut_off() -> None:
    answered("kf6", "time-limit", "cut off after 120 s", "B:TERM@360")


def test_kf7_restarts_without_progress() -> None:
    found = answered("kf7", "preempted", "3 restarts gained no step", "step 4032", "--signal")
    assert advice(found) == "after-fix"


def test_kf8_tokenizer_out_of_reach() -> None:
    answered("kf8", "offline", "HF_HUB_OFFLINE=1")


def test_kf9_two_jobs_one_port() -> None:
    answered("kf9", "address-in-use", "29500", "SLURM_JOB_ID % 20000")


# ── NA: NeMo AutoModel ───────────────────────────────────────────────────────────────────────


def test_na1_labels_steps_and_memory() -> None:
    found = answered("na1", "cuda-oom/torch", "38.7GB/40GB were in use on the GPUs that print it at step 200")
    assert found.first_failure is not None
    assert (first_rank(found), found.first_failure.node, found.facts["last_step"]) == (19, "dgx-03", 200)


def test_na2_stalled_for_hours() -> None:
    found = answered(
        "na2", "hang", "leave --time as it is", "3 h 46 min before the end", "2026-11-20T08:14:00", "step 350"
    )
    assert (found.facts["ended"], found.facts["idle_min"]) == ("hung", 226)


def test_na3_image_or_mount_not_found() -> None:
    answered("na3", "container/registry", first=False)
    found = answered("na3_mount", "container/enroot-mount", "/shared/datasets")
    assert "`srun -N1" in shown(found, 1)
    assert "--container-mounts=/shared/datasets" in shown(found, 1)


def test_na4_shared_storage_missing_on_one_node() -> None:
    found = answered("na4", "file-not-found", "/shared/datasets/nova/manifest.json", "on dgx-02")
    assert "`srun -w dgx-02 --ntasks-per-node=1 ls -ld /shared/datasets/nova/manifest.json`" in shown(found, 1)


def test_na5_infiniband_absent_or_down() -> None:
    found = answered("na5", "nccl-init/network-missing", "`ibstatus`", "NCCL_DEBUG_SUBSYS=NET,INIT", "dgx-02")
    assert "IB" in shown(found, 1)
    down = answered("na5_down", "nccl-transport/ib-event", "mlx5_1", "dgx-02")
    assert down.retry is not None
    assert down.retry.exclude_nodes == ("dgx-02",)


# ── EN: Enroot and lit-gpt ───────────────────────────────────────────────────────────────────


def test_en1_job_outlives_its_training() -> None:
    found = answered("en1", "time-limit", "job 90820", "MONITOR_PID")
    assert found.facts["ended"] == "finished"
    assert "--time" not in shown(found)


def test_en2_faulthandler_dump_is_read() -> None:
    found = answered("en2", "segfault/faulthandler", "_read_index", "packed_dataset.py:189")
    assert first_rank(found) == 2


def test_en3_image_mount_or_permission() -> None:
    answered("en3", "container", "/scratch/demo/containers/pytorch-23.10.sqsh")
    answered("en3_permission", "container/enroot-mount", "/scratch/demo/data")


def test_en4_date_lines_are_the_clock() -> None:
    found = answered("en4", "python-error")
    assert found.first_failure is not None
    assert (found.first_failure.time, first_rank(found)) == ("2026-11-20T08:04:00+00:00", 3)


def test_en5_fixed_port() -> None:
    answered("en5", "address-in-use", "54321", "SLURM_JOB_ID % 20000")
