"""What a job's start-up errors come to: the same line is another cause, or has another cure, where the job is another one."""

from __future__ import annotations

from pathlib import Path

import pytest

from slurmdoctor.pipeline import diagnose
from slurmdoctor.report.result import Diagnosis
from slurmdoctor.slurm.script.parse import parse

_BRIDGE = "/opt/Megatron-Bridge/src/megatron/bridge/training/gpt_step.py"


def failing(ranks: range, error: str, frame: str, label: bool = True) -> str:
    lines = []
    for rank in ranks:
        head = f"{rank}: [rank{rank}]: " if label else ""
        lines += [f"{head}Traceback (most recent call last):", f'{head}  File "{frame}", line 61, in get_batch']
        lines += [f"{head}    batch = next(data_iterator)", f"{head}{error}"]
    return "\n".join(lines) + "\n"


def ended(failed: str, others: str = "", code: int = 1) -> str:
    """srun's reports: `node: tasks`."""
    killed = [f"srun: error: {one.replace(': ', ': tasks ')}: Terminated" for one in filter(None, others.split(";"))]
    first = [f"srun: error: {one.replace(': ', ': tasks ')}: Exited with exit code {code}" for one in failed.split(";")]
    return "\n".join([*first, *killed]) + "\n"


def advice(found: Diagnosis) -> str:
    return "\n".join(f"{fix.do} {fix.why or ''}" for fix in found.fixes)


def cause(found: Diagnosis) -> str | None:
    return found.cause.id if found.cause else None


# ── S7, MB17: next(None) alone does not prove that the other nodes miss the packed data ──────

_NONE = "TypeError: 'NoneType' object is not an iterator"
_TWO_NODES = ended("node02: 8-15", "node01: 0-7")
_PACKED = "Packed sequence is prepared and saved to {}/cache/nemo/datasets/squad/packed/m/training_4096.npy\n"


@pytest.mark.parametrize(
    "log",
    [
        failing(range(8, 16), _NONE, _BRIDGE) + _TWO_NODES,
        _PACKED.format("/root") + failing(range(8, 16), _NONE, _BRIDGE) + _TWO_NODES,
        "NEMO_HOME=/tmp/nemo\n" + failing(range(8, 16), _NONE, _BRIDGE) + _TWO_NODES,
        "[NeMo I 2026-05-12 10:00:00 model:118] start\n"
        + failing(range(8, 16), _NONE, "/home/demo/train.py")
        + _TWO_NODES,
    ],
    ids=["bridge", "packed-in-root", "home-in-tmp", "nemo-logger"],
)
def test_s7_mb17_ranks_of_another_node_miss_the_data(log: str) -> None:
    found = diagnose(log)
    assert cause(found) == "nemo-home"
    assert "export NEMO_HOME=" in advice(found)


@pytest.mark.parametrize(
    "log",
    [
        failing(range(3, 4), _NONE, "/home/demo/train.py") + ended("node01: 3", "node01: 0-2"),
        failing(range(8, 16), _NONE, "/home/demo/train.py") + _TWO_NODES,
        failing(range(4, 8), _NONE, _BRIDGE) + ended("node01: 4-7", "node01: 0-3"),
        failing(range(16), _NONE, _BRIDGE) + ended("node01: 0-7;node02: 8-15"),
        "NEMO_HOME=/lustre/demo/cache/nemo\n" + failing(range(8, 16), _NONE, _BRIDGE) + _TWO_NODES,
        _PACKED.format("/lustre/demo") + failing(range(8, 16), _NONE, _BRIDGE) + _TWO_NODES,
        "model.pipeline_model_parallel_size=2\n" + failing(range(8, 16), _NONE, _BRIDGE) + _TWO_NODES,
        failing(range(1), _NONE, "/home/demo/train.py", label=False),
    ],
    ids=["plain", "plain-two-nodes", "one-node", "all-ranks", "shared-home", "shared-file", "pipeline", "paste"],
)
def test_s7_mb17_twins_are_python_errors(log: str) -> None:
    found = diagnose(log)
    assert cause(found) == "python-error"
    assert "NEMO_HOME" not in advice(found)


def test_s7_pipeline_stages_get_advice_of_their_own() -> None:
    log = "model.pipeline_model_parallel_size=2\n" + failing(range(8, 16), _NONE, _BRIDGE) + _TWO_NODES
    assert "with PP 2, some pipeline stages have none" in advice(diagnose(log))


def test_s7_mb17_the_script_may_share_nemo_home() -> None:
    log = failing(range(8, 16), _NONE, _BRIDGE) + _TWO_NODES
    text = "#!/bin/bash\n#SBATCH --nodes=2\nexport NEMO_HOME={}\nsrun --container-image=/x.sqsh python run_recipe.py\n"
    shared, local = (parse(text.format(at), "job.sbatch") for at in ("/lustre/demo/nemo", "/root/.cache/nemo"))
    assert cause(diagnose(log, script=shared)) == "python-error"
    assert cause(diagnose(log, script=local)) == "nemo-home"


# ── S8, MB14: unlike weights are expected of FP8 originals only ──────────────────────────────

_UNLIKE = '0: [rank0]: Traceback (most recent call last):\n0: [rank0]:   File "/opt/Megatron-Bridge/x.py", line 9, in main\n0: [rank0]: ValueError: Weight mismatch detected\n'


@pytest.mark.parametrize("told", ["", "w1: original torch.float8_e4m3fn, exported torch.bfloat16\n"])
def test_s8_mb14_fp8_is_expected(told: str) -> None:
    found = diagnose(told + _UNLIKE)
    assert (cause(found), found.retry and found.retry.advice) == ("fp8-mismatch", "after-fix")
    assert "--atol" in advice(found)
    assert "exported checkpoint" not in advice(found)


@pytest.mark.parametrize(
    ("told", "named"),
    [
        ("original torch.bfloat16, exported torch.bfloat16, Qwen/Qwen3-0.6B\n", "checkpoint-mismatch"),
        ("0: WARNING: 12 FP8 params skipped allclose (dequantisation is lossy):\n", "checkpoint-mismatch"),
        (
            "0: Weight verification: 1003/1004 compared weights matched\n0: 1 weight mismatches (showing up to 20):\n",
            "fp8-mismatch",
        ),
    ],
    ids=["bf16", "fp8-skipped", "new-format"],
)
def test_s8_mb14_others_are_a_wrong_conversion(told: str, named: str) -> None:
    found = diagnose(told + _UNLIKE)
    assert (cause(found), found.retry and found.retry.advice) == (named, "after-fix")
    assert "real mismatch" in advice(found)
    assert "expected" not in advice(found)
    assert "nemo_experiments" not in advice(found)


# ── S11, MB10, ML4: who lacks which name, and which copy of the code is imported ─────────────


def imports(error: str, *files: str) -> str:
    frames = "".join(f'  File "{file}", line 9, in <module>\n    import x\n' for file in files)
    return f"Traceback (most recent call last):\n{frames}{error}\n"


_NO_NAME = "ImportError: cannot import name '{}' from '{}' ({}/{}/__init__.py)"
_SITE = "/opt/venv/lib/python3.12/site-packages"


def test_s11_mb10_the_package_is_named_not_the_module() -> None:
    log = imports(_NO_NAME.format("Recorder", "transformers.utils", _SITE, "transformers/utils"), "/home/demo/train.py")
    text = advice(diagnose(log))
    assert "Pin transformers to a version that has `Recorder`" in text
    assert "nstall transformers" not in text


def test_s11_mb10_in_the_models_own_code() -> None:
    error = _NO_NAME.format("Recorder", "transformers.utils", _SITE, "transformers/utils")
    log = imports(error, "/home/demo/convert.py").replace("in <module>", "in save_artifacts")
    text = advice(diagnose(log))
    assert "catch ImportError beside OSError in save_artifacts" in text
    assert "version of transformers that has `Recorder`" in text


def test_ml4_circular_import_is_no_matter_of_versions() -> None:
    error = "ImportError: cannot import name 'build' from partially initialized module 'demo.model' (most likely due to a circular import) (/home/demo/demo/model.py)"
    text = advice(diagnose(imports(error, "/home/demo/train.py")))
    assert "Break the import cycle around demo.model" in text
    assert "Pin" not in text


@pytest.mark.parametrize(
    ("error", "files"),
    [
        (_NO_NAME.format("inprocess", "megatron.training", "/home/old/Megatron-LM", "megatron/training"), ["/lustre/demo/Megatron-LM/pretrain_gpt.py"]),
        ("ModuleNotFoundError: No module named 'megatron.core.foo'", ["/lustre/demo/Megatron-LM/pretrain_gpt.py", "/home/old/Megatron-LM/megatron/training/__init__.py"]),
    ],
)  # fmt: skip
def test_ml4_the_stale_copy_is_named(error: str, files: list[str]) -> None:
    text = advice(diagnose(imports(error, *files)))
    assert "Take /home/old/Megatron-LM out of PYTHONPATH" in text
    assert "`cd /lustre/demo/Megatron-LM && uv sync`" in text


def test_ml4_one_checkout_is_not_taken_for_two() -> None:
    files = ["/opt/Megatron-Bridge/scripts/train.py", "/opt/Megatron-Bridge/src/megatron/bridge/x.py"]
    assert "out of PYTHONPATH" not in advice(
        diagnose(imports("ModuleNotFoundError: No module named 'megatron.core.foo'", *files))
    )


# ── Overlooked 3, MB25: several tasks build one environment ──────────────────────────────────


@pytest.mark.parametrize(
    "error",
    [
        "  × Failed to build `demo @ git+https://...`\n  ╰─▶ Could not remove directory /shared/uv/builds-v0/.tmpXYZ: Directory not empty (os error 39)\n",
        "error: Failed to install: nvidia_nccl-2.9-none-any.whl (nvidia-nccl==2.9)\n  Caused by: failed to hardlink file from /shared/uv/archive-v0/x/nvidia/__init__.py to /shared/demo/.venv/lib/python3.12/site-packages/nvidia/__init__.py: File exists (os error 17)\n",
        "error: Failed to install: scipy-1.9-none-any.whl (scipy==1.9)\n  Caused by: failed to rename file from /shared/demo/.venv/lib/python3.12/site-packages/.tmpA to /shared/demo/.venv/lib/python3.12/site-packages/a.py: No such file or directory (os error 2)\n",
        "error: failed to remove directory `/shared/demo/.venv/lib`: Device or resource busy (os error 16)\n",
    ],
)
def test_mb25_uv_sync_of_several_tasks(error: str) -> None:
    log = "Creating virtual environment at: .venv\n" * 8 + error + ended("node01: 3", code=2).replace("tasks", "task")
    found = diagnose(log)
    assert cause(found) == ("build-failed" if "Failed to build" in error else "storage-io")
    assert found.fixes[0].do.startswith("Run `uv sync` on one process first (`srun --ntasks=1 uv sync`)")
    assert "`uv run --no-sync`" in found.fixes[0].do


# ── S14, S22, NA4: on one node, or on all ────────────────────────────────────────────────────

_MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/shared/data/train.jsonl'"


def test_s14_missing_on_all_nodes_names_none() -> None:
    log = failing(range(8), _MISSING, "/home/demo/train.py") + ended("node01: 0-3;node02: 4-7")
    text = advice(diagnose(log))
    assert "no node of this job has it" in text
    assert "node01" not in text
    assert "node02" not in text


def test_s14_na4_missing_on_one_node() -> None:
    log = failing(range(4, 8), _MISSING, "/home/demo/train.py") + ended("node02: 4-7", "node01: 0-3")
    text = advice(diagnose(log))
    assert "exists on node02: `srun -w node02 --ntasks-per-node=1 ls -ld /shared/data/train.jsonl`" in text


@pytest.mark.parametrize(
    "error",
    [
        "/usr/bin/python3: can't open file '/tmp/train.py': [Errno 2] No such file or directory\n",
        imports("FileNotFoundError: [Errno 2] No such file or directory: 'configs/base.yaml'", "/opt/demo/train.py"),
    ],
    ids=["script", "relative-path"],
)
def test_s22_the_working_folder_is_missing(error: str) -> None:
    told = "slurmstepd: error: couldn't chdir to `/shared/demo': No such file or directory: going to /tmp instead\n"
    log = told + error + ended("node03: 16-23", "node01: 0-7")
    found = diagnose(log)
    assert cause(found) == "file-not-found"
    assert "working folder /shared/demo on node03: `srun -w node03 -n1 ls -ld /shared/demo`" in advice(found)


def test_s22_an_absolute_path_is_not_the_working_folders_fault() -> None:
    told = "slurmstepd: error: couldn't chdir to `/shared/demo': No such file or directory: going to /tmp instead\n"
    assert "working folder" not in advice(
        diagnose(told + imports(_MISSING, "/opt/demo/train.py") + ended("node03: 16-23"))
    )


# ── MB24, ML3, KF1, MB1: the arithmetic with this job's numbers ──────────────────────────────


@pytest.mark.parametrize(
    ("log", "told"),
    [
        ("AssertionError: num_attention_heads (30) must be divisible by tensor parallel size (4)", "Use TP 2 or TP 5: TP 4 does not divide the 30 heads"),
        ("AssertionError: 30 is not divisible by 4", "Find what 30 and 4 are"),
        ("AssertionError: num_layers=33 should be divisible by config.pipeline_model_parallel_size=4", "Use PP 3 or PP 11: PP 4 does not divide 33 layers"),
        ("AssertionError: Number of experts (60) should be divisible by expert parallel size (8)", "Use EP 4 or EP 2: EP 8 does not divide 60 experts"),
        ("AssertionError: global batch size (130) is not divisible by micro batch size (4) times data parallel size (8)", "Set the global batch to 128 or 160"),
        ("RuntimeError: world_size (24) is not divisible by 16", "so that it divides the 24 processes"),
        ("RuntimeError: world_size (8) is not divisible by 16", "whole nodes as make a multiple of 16 GPUs"),
    ],
)  # fmt: skip
def test_mb24_ml3_what_would_fit(log: str, told: str) -> None:
    text = advice(diagnose(imports(log, "/home/demo/train.py")))
    assert told in text


@pytest.mark.parametrize(
    ("client", "told"),
    [("sbatch", "`#SBATCH --gpus-per-node=8`"), ("salloc", "both salloc and srun"), ("srun", "both salloc and srun")],
)
def test_mb1_the_command_that_was_refused(client: str, told: str) -> None:
    log = f"{client}: error: Cannot find GPU specification, you may not submit a job not requesting GPUs\n{client}: error: Job submit/allocate failed: Unspecified error\n"
    assert told in diagnose(log).fixes[0].do


def test_mb4_does_not_say_to_drop_the_gpus() -> None:
    log = "srun: error: Unable to create step for job 4711: Requested node configuration is not available\n"
    text = advice(diagnose(log))
    assert "Drop `-w`" in text
    assert "--gpus" not in text.splitlines()[0]


# ── users.md d and aa, NA3, EN3 ──────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "error",
    [
        "ls: cannot access /shared/x/y",
        "cp: cannot stat `/shared/x/y'",
        "cp: cannot stat '/shared/x/y'",
        "mv: cannot stat ‘/shared/x/y’",
    ],
)
def test_aa_the_path_is_the_tools_path(error: str) -> None:
    text = advice(
        diagnose(f"{error}: No such file or directory\nsrun: error: node07: task 3: Exited with exit code 1\n")
    )
    assert "ls -ld /shared/x/y`" in text
    assert "ls -ld cannot" not in text


@pytest.mark.parametrize(
    ("reason", "told"),
    [
        ("Permission denied", "Make /shared/data and its parent folders readable"),
        ("No such file or directory", "Correct the mount source /shared/data"),
    ],
)
def test_na3_en3_the_mount_is_tested_with_one_line(reason: str, told: str) -> None:
    log = f"slurmstepd: error: pyxis: container start failed with error code: 1\nslurmstepd: error: pyxis:     enroot-mount: failed to mount: /shared/data at /run/enroot/data: {reason}\nsrun: error: node02: task 8: Exited with exit code 1\n"
    text = advice(diagnose(log))
    assert told in text
    assert "`srun -N1 -w node02 --container-image=<image> --container-mounts=/shared/data:/shared/data true`" in text


# ── NA4, MB17: the files' names tell the nodes ───────────────────────────────────────────────


@pytest.mark.parametrize("name", ["rank_{r}_dgx-0{n}.log", "dgx-0{n}_rank{r}.err"])
def test_na4_nodes_of_file_names(tmp_path: Path, name: str) -> None:
    for rank in range(8):
        node = 1 + rank // 4
        text = failing(range(rank, rank + 1), _MISSING, "/home/demo/train.py") if node == 2 else "loading\nwaiting\n"
        (tmp_path / name.format(r=rank, n=node)).write_text(text)
    found = diagnose(tmp_path)
    assert found.extent.nodes == ("dgx-02",)
    assert "`srun -w dgx-02 --ntasks-per-node=1 ls -ld /shared/data/train.jsonl`" in advice(found)


def test_na4_a_run_in_the_file_names_is_no_node(tmp_path: Path) -> None:
    for rank in range(2):
        (tmp_path / f"run1_rank{rank}.log").write_text(failing(range(rank, rank + 1), _MISSING, "/home/demo/train.py"))
    assert diagnose(tmp_path).extent.nodes == ()


# ── KF8, MB6: the repository and the file that are named ─────────────────────────────────────


@pytest.mark.parametrize(
    ("line", "repo"),
    [
        ("HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /org/model-7b/resolve/main/config.json (Caused by x)", "org/model-7b"),
        ("it looks like gpt2 is not the path to a directory containing a file named config.json.", "gpt2"),
    ],
)  # fmt: skip
def test_kf8_the_repository_to_download(line: str, repo: str) -> None:
    error = "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub and we cannot find the requested files in the local cache."
    assert f"`hf download {repo}`" in advice(diagnose(f"{line}\n" + imports(error, "/home/demo/train.py")))


def test_mb6_a_checkpoint_is_no_package_cache() -> None:
    error = 'safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })'
    assert "UV_CACHE_DIR" not in advice(diagnose(imports(error, "/home/demo/train.py")))


# ── S25: few labelled lines under many unlabelled ones ───────────────────────────────────────


@pytest.mark.parametrize("label", ["3: ", "[rank3]: ", "[Rank 3/32] ", "<stderr:3> "])
def test_s25_few_labelled_lines(label: str) -> None:
    shell = "".join(f"+ export A{number}=1\n" for number in range(60))
    raised = imports("ValueError: bad shard", "/home/demo/train.py")
    found = diagnose(shell + "".join(f"{label}{line}\n" for line in raised.splitlines()))
    assert cause(found) == "python-error"
    assert found.first_failure is not None
    assert found.first_failure.rank == 3


@pytest.mark.parametrize(
    "error",
    [
        "/var/spool/slurmd/job00042/slurm_script: line 9: ./run.sh: No such file or directory\n",
        "slurmstepd: error: execve(): ./run.sh: No such file or directory\n",
        "",
    ],
    ids=["shell", "srun", "alone"],
)
def test_s22_the_working_folder_is_missing_for_programs_too(error: str) -> None:
    told = "slurmstepd: error: couldn't chdir to `/shared/demo': No such file or directory: going to /tmp instead\n"
    text = advice(diagnose(told + error + ended("node03: 16-23", code=2)))
    assert "working folder /shared/demo on node03: `srun -w node03 -n1 ls -ld /shared/demo`" in text


@pytest.mark.parametrize(
    ("venvs", "told"), [(8, "Run `uv sync` on one process first"), (0, "Build flash-attn before the job")]
)
def test_mb25_a_build_error_on_one_rank(venvs: int, told: str) -> None:
    error = "  × Failed to build `flash-attn==2.7`\n  ╰─▶ Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)\n"
    found = diagnose(
        "Creating virtual environment at: .venv\n" * venvs
        + error
        + "srun: error: node01: task 3: Exited with exit code 1\n"
    )
    assert cause(found) == "build-failed"
    assert told in found.fixes[0].do


def test_ml3_attention_views_lead_to_the_heads() -> None:
    sizes = "  tensor_model_parallel_size ...................... 8\n  num_attention_heads ............................. 36\n"
    error = "RuntimeError: shape '[4096, 1, 4, 384]' is invalid for input of size 7077888"
    log = sizes + failing(range(8), error, "/opt/Megatron-LM/megatron/core/transformer/attention.py")
    assert "Use TP 4 or TP 2: TP 8 does not divide the 36 attention heads" in advice(diagnose(log))
    even = log.replace(" 36\n", " 32\n")
    assert "heads" not in advice(diagnose(even))
