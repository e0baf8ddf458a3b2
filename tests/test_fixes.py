"""The fixes that a log gets: each stands on what the log shows, and says nothing that the job or its script rules out."""

from __future__ import annotations

from pathlib import Path

import pytest

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


def raised(error: str, *files: str) -> str:
    """An error of a program that imports one file after the other."""
    frames = "".join(f'  File "{file}", line 9, in <module>\n    import x\n' for file in files or (TRAIN,))
    return f"Traceback (most recent call last):\n{frames}{error}\n"


def advice(found: Diagnosis) -> str:
    return "\n".join(f"{fix.do} {fix.why or ''}" for fix in found.fixes)


NODE_2 = ended("node02: 8-15", "node01: 0-7")

# ── next(None): data that one node alone lacks, or anything else ─────────────────────────────

NONE = "TypeError: 'NoneType' object is not an iterator"
PACKED = "Packed sequence is prepared and saved to {}/cache/nemo/datasets/squad/packed/m/training_4096.npy\n"
LACKED = failing(range(8, 16), NONE, BRIDGE) + NODE_2


@pytest.mark.parametrize(
    "log",
    [LACKED, PACKED.format("/root") + LACKED, "NEMO_HOME=/tmp/nemo\n" + LACKED],
    ids=["bridge", "packed-in-root", "home-in-tmp"],
)
def test_data_that_the_ranks_of_one_node_lack_is_in_a_local_nemo_home(log: str) -> None:
    found = diagnose(log)
    assert found.cause.id == "nemo-home"
    assert "export NEMO_HOME=" in advice(found)


@pytest.mark.parametrize(
    "log",
    [
        failing(range(3, 4), NONE) + ended("node01: 3", "node01: 0-2"),
        failing(range(8, 16), NONE) + NODE_2,
        "SLURM_NNODES=1\n" + failing(range(4, 8), NONE, BRIDGE) + ended("node01: 4-7", "node01: 0-3"),
        "NEMO_HOME=/lustre/demo/cache/nemo\n" + LACKED,
        PACKED.format("/lustre/demo") + LACKED,
        "model.pipeline_model_parallel_size=2\n" + LACKED,
        failing(range(1), NONE, label=False),
    ],
    ids=["plain", "plain-two-nodes", "one-node", "shared-home", "shared-file", "pipeline", "paste"],
)
def test_a_missing_iterator_is_a_python_error_else(log: str) -> None:
    found = diagnose(log)
    assert found.cause.id == "python-error"
    assert "NEMO_HOME" not in advice(found)
    assert ("with PP 2, some pipeline stages have none" in advice(found)) == ("pipeline" in log)


@pytest.mark.parametrize(("home", "cause"), [("/lustre/demo/nemo", "python-error"), ("/root/.cache/nemo", "nemo-home")])
def test_the_script_tells_whether_nemo_home_is_shared(home: str, cause: str) -> None:
    text = f"#!/bin/bash\n#SBATCH --nodes=2\nexport NEMO_HOME={home}\nsrun --container-image=/x.sqsh python run.py\n"
    assert diagnose(LACKED, script=parse(text, "job.sbatch")).cause.id == cause


# ── one log, its cause, and what its fixes say and do not say ────────────────────────────────

UNLIKE = '0: [rank0]: Traceback (most recent call last):\n0: [rank0]:   File "/opt/Megatron-Bridge/x.py", line 9, in main\n0: [rank0]: ValueError: Weight mismatch detected\n'
NO_NAME = "ImportError: cannot import name '{}' from '{}' ({}/{}/__init__.py)"
RECORDER = NO_NAME.format(
    "Recorder", "transformers.utils", "/opt/venv/lib/python3.12/site-packages", "transformers/utils"
)
OLD_COPY = ("Take /home/old/Megatron-LM out of PYTHONPATH", "`cd /lustre/demo/Megatron-LM && uv sync`")
NEW_PRETRAIN = "/lustre/demo/Megatron-LM/pretrain_gpt.py"
VENVS = "Creating virtual environment at: .venv\n" * 8
ONE_SYNC = ("Run `uv sync` on one process first (`srun --ntasks=1 uv sync`)", "`uv run --no-sync`")
UV_ENDED = "srun: error: node01: task 3: Exited with exit code 2\n"
MISSING = "FileNotFoundError: [Errno 2] No such file or directory: '/shared/data/train.jsonl'"
NO_FOLDER = "slurmstepd: error: couldn't chdir to `/shared/demo': No such file or directory: going to /tmp instead\n"
FOLDER = ("working folder /shared/demo on node03: `srun -w node03 -n1 ls -ld /shared/demo`",)
REFUSED = "{0}: error: Cannot find GPU specification, you may not submit a job not requesting GPUs\n{0}: error: Job submit/allocate failed: Unspecified error\n"
PYXIS = "slurmstepd: error: pyxis: container start failed with error code: 1\nslurmstepd: error: pyxis:     enroot-mount: failed to mount: /shared/data at /run/enroot/data: {}\nsrun: error: node02: task 8: Exited with exit code 1\n"
ONE_MOUNT = "`srun -N1 -w node02 --container-image=<image> --container-mounts=/shared/data:/shared/data true`"
HUB = "huggingface_hub.errors.LocalEntryNotFoundError: An error happened while trying to locate the file on the Hub and we cannot find the requested files in the local cache."
HEADS = (
    "  tensor_model_parallel_size ...................... 8\n  num_attention_heads ............................. {}\n"
    + failing(
        range(8),
        "RuntimeError: shape '[4096, 1, 4, 384]' is invalid for input of size 7077888",
        "/opt/Megatron-LM/megatron/core/transformer/attention.py",
    )
)
FLASH = "  × Failed to build `flash-attn==2.7`\n  ╰─▶ Call to `setuptools.build_meta.build_wheel` failed (exit status: 1)\nsrun: error: node01: task 3: Exited with exit code 1\n"
TOOL = "{}: No such file or directory\nsrun: error: node07: task 3: Exited with exit code 1\n"
GPU = 'Traceback (most recent call last):\n  File "/scratch/demo/train.py", line 12, in main\n    loss.backward()\n'
FAULT = "Memory access fault by GPU node-3 (Agent handle: 0x5a5c587a51c0) on address 0x709843600000. Reason: Page not present.\n"
DMESG = "[19277.975569] amdgpu 0000:3d:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:160 vmid:3 pasid:32790)\n[19277.975611] amdgpu 0000:3d:00.0: amdgpu:  for process python3.12 pid 6071 thread python3.12 pid 6071)\n"
NVIDIA = ("dcgmi", "TORCH_CUDA_ARCH_LIST", "nvidia-smi", "a CUDA error")
LIMIT = "slurmstepd: error: *** JOB 7 ON n1 CANCELLED AT 2026-10-02T13:49:40 DUE TO TIME LIMIT ***\n"
STEPS = "".join(f"[2026-10-02 11:{m:02d}:01] iteration {m}/ 5000 | lm loss: 2.1E+00 |\n" for m in range(1, 50))
SAVE = "[step 300] loss=9.5 | step_time=4.40s\nINFO Async checkpoint save started: /n/ck/step_300\n"
OOM = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.10 GiB. GPU 0 has a total capacity of 39.39 GiB of which 1.02 GiB is free.\n"
MOE = '0: Traceback (most recent call last):\n0:   File "/opt/moe/experts.py", line 9, in __init__\n0: ' + OOM
HELD = "".join(f"[Step {s}] Node 0/GPU 0: Loss=1.2 | Mem=37.9GB/40GB\n" for s in range(100, 700, 100))
BUILD = "  × Failed to build `demo==1.0`\n      ModuleNotFoundError: No module named 'torch'\n      hint: This error likely indicates that `demo@1.0` depends on `torch`, but doesn't declare it as a build dependency.\n"
CRASH = "Program received signal SIGSEGV: Segmentation fault - invalid memory reference.\n\nBacktrace for this error:\n"
WAIT = "".join(
    f"{r}: [rank{r}]: torch.distributed.DistBackendError: [{r}] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via c10d key-value store by key '0', but store->get('0') got error: wait timeout after 600000ms\n"
    for r in (8, 9)
)

CASES: dict[str, tuple[str, str, tuple[str, ...], tuple[str, ...]]] = {
    # unlike weights are expected of FP8 originals only
    "unlike-weights": (UNLIKE, "fp8-mismatch", ("--atol",), ("exported checkpoint",)),
    "unlike-of-fp8": ("w1: original torch.float8_e4m3fn, exported torch.bfloat16\n" + UNLIKE, "fp8-mismatch", ("--atol",), ("exported checkpoint",)),
    "unlike-of-bf16": ("original torch.bfloat16, exported torch.bfloat16, Qwen/Qwen3-0.6B\n" + UNLIKE, "checkpoint-mismatch", ("real mismatch",), ("expected", "nemo_experiments")),
    "unlike-fp8-skipped": ("0: WARNING: 12 FP8 params skipped allclose (dequantisation is lossy):\n" + UNLIKE, "checkpoint-mismatch", ("real mismatch",), ("expected", "nemo_experiments")),
    "unlike-new-format": ("0: Weight verification: 1003/1004 compared weights matched\n0: 1 weight mismatches (showing up to 20):\n" + UNLIKE, "fp8-mismatch", ("real mismatch",), ("expected", "nemo_experiments")),
    # who lacks which name, and which copy of the code is imported
    "name-missing": (raised(RECORDER), "module-not-found", ("Pin transformers to a version that has `Recorder`",), ("nstall transformers",)),
    "name-missing-in-own-code": (raised(RECORDER, "/home/demo/convert.py").replace("in <module>", "in save_artifacts"), "module-not-found", ("catch ImportError beside OSError in save_artifacts", "version of transformers that has `Recorder`"), ()),
    "circular-import": (raised("ImportError: cannot import name 'build' from partially initialized module 'demo.model' (most likely due to a circular import) (/home/demo/demo/model.py)"), "module-not-found", ("Break the import cycle around demo.model",), ("Pin",)),
    "old-copy-by-name": (raised(NO_NAME.format("inprocess", "megatron.training", "/home/old/Megatron-LM", "megatron/training"), NEW_PRETRAIN), "module-not-found", OLD_COPY, ()),
    "old-copy-by-frame": (raised("ModuleNotFoundError: No module named 'megatron.core.foo'", NEW_PRETRAIN, "/home/old/Megatron-LM/megatron/training/__init__.py"), "module-not-found", OLD_COPY, ()),
    "one-checkout": (raised("ModuleNotFoundError: No module named 'megatron.core.foo'", "/opt/Megatron-Bridge/scripts/train.py", "/opt/Megatron-Bridge/src/megatron/bridge/x.py"), "module-not-found", (), ("out of PYTHONPATH",)),
    # several tasks build one environment
    "uv-builds-at-once": (VENVS + "  × Failed to build `demo @ git+https://...`\n  ╰─▶ Could not remove directory /shared/uv/builds-v0/.tmpXYZ: Directory not empty (os error 39)\n" + UV_ENDED, "build-failed", ONE_SYNC, ()),
    "uv-links-at-once": (VENVS + "error: Failed to install: nvidia_nccl-2.9-none-any.whl (nvidia-nccl==2.9)\n  Caused by: failed to hardlink file from /shared/uv/archive-v0/x/nvidia/__init__.py to /shared/demo/.venv/lib/python3.12/site-packages/nvidia/__init__.py: File exists (os error 17)\n" + UV_ENDED, "storage-io", ONE_SYNC, ()),
    "uv-renames-at-once": (VENVS + "error: Failed to install: scipy-1.9-none-any.whl (scipy==1.9)\n  Caused by: failed to rename file from /shared/demo/.venv/lib/python3.12/site-packages/.tmpA to /shared/demo/.venv/lib/python3.12/site-packages/a.py: No such file or directory (os error 2)\n" + UV_ENDED, "storage-io", ONE_SYNC, ()),
    "uv-removes-at-once": (VENVS + "error: failed to remove directory `/shared/demo/.venv/lib`: Device or resource busy (os error 16)\n" + UV_ENDED, "storage-io", ONE_SYNC, ()),
    "build-of-several": (VENVS + FLASH, "build-failed", ("Run `uv sync` on one process first",), ()),
    "build-of-one": (FLASH, "build-failed", ("Build flash-attn before the job",), ()),
    "build-dependency": (BUILD, "build-failed", ('no-build-isolation-package = ["demo"]',), ("Install torch",)),
    # a file that one node lacks, or all
    "missing-everywhere": (failing(range(8), MISSING) + ended("node01: 0-3;node02: 4-7"), "file-not-found", ("no node of this job has it",), ("node01", "node02")),
    "missing-on-one-node": (failing(range(4, 8), MISSING) + ended("node02: 4-7", "node01: 0-3"), "file-not-found", ("exists on node02: `srun -w node02 --ntasks-per-node=1 ls -ld /shared/data/train.jsonl`",), ()),
    "folder-of-the-script": (NO_FOLDER + "/usr/bin/python3: can't open file '/tmp/train.py': [Errno 2] No such file or directory\n" + ended("node03: 16-23", "node01: 0-7"), "file-not-found", FOLDER, ()),
    "folder-of-a-relative-path": (NO_FOLDER + raised("FileNotFoundError: [Errno 2] No such file or directory: 'configs/base.yaml'") + ended("node03: 16-23"), "file-not-found", FOLDER, ()),
    "folder-of-the-shell": (NO_FOLDER + "/var/spool/slurmd/job00042/slurm_script: line 9: ./run.sh: No such file or directory\n" + ended("node03: 16-23", code=2), "", FOLDER, ()),
    "folder-of-srun": (NO_FOLDER + "slurmstepd: error: execve(): ./run.sh: No such file or directory\n" + ended("node03: 16-23", code=2), "", FOLDER, ()),
    "folder-alone": (NO_FOLDER + ended("node03: 16-23", code=2), "", FOLDER, ()),
    "absolute-path": (NO_FOLDER + raised(MISSING) + ended("node03: 16-23"), "file-not-found", (), ("working folder",)),
    **{f"path-of-{n}": (TOOL.format(error), "", ("ls -ld /shared/x/y`",), ("ls -ld cannot",)) for n, error in enumerate(("ls: cannot access /shared/x/y", "cp: cannot stat `/shared/x/y'", "cp: cannot stat '/shared/x/y'", "mv: cannot stat ‘/shared/x/y’"))},
    "path-in-tmp": ("FileNotFoundError: [Errno 2] No such file or directory: '/tmp/ckpt/a.pt'\n", "", ("on shared storage",), ("in a container, mount",)),
    "mount-unreadable": (PYXIS.format("Permission denied"), "", ("Make /shared/data and its parent folders readable", ONE_MOUNT), ()),
    "mount-missing": (PYXIS.format("No such file or directory"), "", ("Correct the mount source /shared/data", ONE_MOUNT), ()),
    # arithmetic with this job's numbers
    "heads": (raised("AssertionError: num_attention_heads (30) must be divisible by tensor parallel size (4)"), "", ("Use TP 2 or TP 5: TP 4 does not divide the 30 heads",), ()),
    "numbers": (raised("AssertionError: 30 is not divisible by 4"), "", ("Find what 30 and 4 are",), ()),
    "layers": (raised("AssertionError: num_layers=33 should be divisible by config.pipeline_model_parallel_size=4"), "", ("Use PP 3 or PP 11: PP 4 does not divide 33 layers",), ()),
    "experts": (raised("AssertionError: Number of experts (60) should be divisible by expert parallel size (8)"), "", ("Use EP 4 or EP 2: EP 8 does not divide 60 experts",), ()),
    "batch": (raised("AssertionError: global batch size (130) is not divisible by micro batch size (4) times data parallel size (8)"), "", ("Set the global batch to 128 or 160",), ()),
    "world-larger": (raised("RuntimeError: world_size (24) is not divisible by 16"), "", ("so that it divides the 24 processes",), ()),
    "world-smaller": (raised("RuntimeError: world_size (8) is not divisible by 16"), "", ("whole nodes as make a multiple of 16 GPUs",), ()),
    "heads-of-a-view": (HEADS.format(36), "", ("Use TP 4 or TP 2: TP 8 does not divide the 36 attention heads",), ()),
    "even-heads-of-a-view": (HEADS.format(32), "", (), ("heads",)),
    "experts-without-ep": ("0: num_moe_experts=64\n" + MOE, "cuda-oom", ("EP of this job is not known",), ("holds all",)),
    "experts-with-ep": ("0: Expert parallel size: 4\n0: num_moe_experts=64\n" + MOE, "cuda-oom", ("from 4 to 8",), ("without it",)),
    "memory-was-level": (HELD + OOM, "cuda-oom", ("37.9GB/40GB",), ("Look for what grew",)),
    # requests that Slurm refused
    "gpus-of-sbatch": (REFUSED.format("sbatch"), "slurm-request", ("`#SBATCH --gpus-per-node=8`",), ()),
    "gpus-of-salloc": (REFUSED.format("salloc"), "slurm-request", ("both salloc and srun",), ()),
    "gpus-of-srun": (REFUSED.format("srun"), "slurm-request", ("both salloc and srun",), ()),
    "shape-of-a-step": ("srun: error: Unable to create step for job 4711: Requested node configuration is not available\n", "slurm-request", ("Drop `-w`",), ()),
    # the repository, the package, the program that is named
    "repository-of-a-url": ("HTTPSConnectionPool(host='huggingface.co', port=443): Max retries exceeded with url: /org/model-7b/resolve/main/config.json (Caused by x)\n" + raised(HUB), "", ("`hf download org/model-7b`",), ()),
    "repository-of-a-name": ("it looks like gpt2 is not the path to a directory containing a file named config.json.\n" + raised(HUB), "", ("`hf download gpt2`",), ()),
    "checkpoint-on-a-full-disk": (raised('safetensors_rust.SafetensorError: Error while serializing: IoError(Os { code: 28, kind: StorageFull, message: "No space left on device" })'), "", (), ("UV_CACHE_DIR",)),
    "cache-on-a-full-disk": ("OSError: [Errno 28] No space left on device: '/root/.cache/huggingface/hub/a'\n", "", ("HF_HOME",), ("delete",)),
    "no-modules": ("t.sh: line 5: module: command not found\nt.sh: line 6: mpirun: command not found\n", "", ("bash -l",), ("module or activate",)),
    "not-executable": ("bash: /proj/demo/train.py: Permission denied\n", "", ("chmod +x",), ("does not show",)),
    "fortran-crash": (CRASH, "", ("PROGRAM core",), ("Rebuild it against this PyTorch",)),
    "site-quota": ("This job has exceeded its memory quota and will be terminated\n", "", ("mem",), ("does not show",)),
    # the time limit
    "limit-with-steps": (STEPS + LIMIT, "time-limit", (), ("was found",)),
    "limit-in-a-save": (SAVE + LIMIT, "time-limit", ("why the save did not end",), ("longer --time",)),
    "limit-in-uv": (VENVS * 2 + LIMIT, "time-limit", ("`srun --ntasks=1 uv sync`",), ("longer --time",)),
    "wait-for-rank-0": (WAIT + "srun: error: n202: tasks 8-9: Exited with exit code 1\n", "", ("`ibstatus` on n202",), ("data set",)),
    # GPUs of other vendors: their tools and variables
    "hsa": (FAULT, "cuda-error", ("ROCm",), NVIDIA),
    "hsa-in-a-bar": (" 33%|█████" + FAULT, "cuda-error", ("ROCm",), NVIDIA),
    "hip": (GPU + "torch.AcceleratorError: HIP error: an illegal memory access was encountered\n", "cuda-error", ("AMD_SERIALIZE_KERNEL",), NVIDIA),
    "intel": (GPU + "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)\n", "cuda-error", ("xpu-smi",), NVIDIA),
    "ascend": (GPU + "RuntimeError: npuSynchronizeDevice, error code is 507011\n", "cuda-error", ("npu-smi",), NVIDIA),
    "amd-reset": ("[ 4021.118201] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!\nsrun: error: node07: task 3: Aborted\n", "gpu-fault", (), ("dcgmi",)),
    "nvidia": (GPU + "RuntimeError: CUDA error: unspecified launch failure\n", "cuda-error", ("dcgmi diag",), ("AMD_LOG_LEVEL",)),
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
    assert {advised(UNLIKE), advised("original torch.bfloat16, exported torch.bfloat16\n" + UNLIKE)} == {"after-fix"}


def advised(log: str) -> str:
    retry = diagnose(log).retry
    return retry.advice if retry else ""


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


# ── beside a script ──────────────────────────────────────────────────────────────────────────

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


# ── a port that is taken: by the other launchers of the job's own node, or by another job ────

RUN = 'Traceback (most recent call last):\n  File "/opt/venv/lib/python3.12/site-packages/torch/distributed/run.py", line 892, in run\n    elastic_launch(\n'
INIT = 'Traceback (most recent call last):\n  File "/scratch/demo/train.py", line 12, in main\n    dist.init_process_group("nccl")\n'
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


@pytest.mark.parametrize("error", IN_USE)
@pytest.mark.parametrize(("label", "tasks"), [("{r}: ", range(1, 8)), ("", range(1, 4)), ("[task {r}] ", range(8, 15))])
def test_several_tasks_of_a_node_want_one_launcher_per_node(error: str, label: str, tasks: range) -> None:
    found = diagnose(unbound(tasks, error, label))
    assert found.fixes[0].do.startswith(f"Set {ONE_TASK}: {len(tasks)} tasks each started a launcher")
    assert DERIVED not in advice(found)


@pytest.mark.parametrize("frames", [RUN, INIT], ids=["torchrun", "srun"])
@pytest.mark.parametrize("label", ["0: ", "", "[rank0]: "])
@pytest.mark.parametrize("error", IN_USE[:2])
def test_one_process_that_cannot_bind_meets_another_job(error: str, label: str, frames: str) -> None:
    found = diagnose(unbound(range(1), error, label, frames))
    assert DERIVED in found.fixes[0].do
    assert "29500" in found.fixes[0].do
    assert ONE_TASK not in advice(found)


def test_tasks_are_counted_over_nodes_and_without_reports_and_a_script_knows_better() -> None:
    two = unbound(range(1, 8), IN_USE[0]) + unbound(range(9, 16), IN_USE[0], node="gpu08")
    assert diagnose(two).fixes[0].do.startswith(f"Set {ONE_TASK}: 14 tasks")
    bare = unbound(range(1, 8), IN_USE[0], label="").rpartition("srun: error")[0]
    assert ONE_TASK in diagnose(bare).fixes[0].do
    script = "#!/bin/bash\n#SBATCH --nodes=1 --ntasks-per-node=8 --gpus-per-node=8\nsrun torchrun --nproc_per_node=8 train.py\n"
    proven = diagnose(unbound(range(1, 8), IN_USE[0]), script=parse(script, "job.sbatch"))
    assert proven.fixes[0].do.startswith("job.sbatch:")
    assert not [found for found in (diagnose(two), diagnose(bare), proven) if DERIVED in advice(found)]
