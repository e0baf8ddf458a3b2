"""An error of AMD's, Intel's or Huawei's GPU is told in its vendor's words: its tools and its variables, no other's."""

from __future__ import annotations

import json

import pytest

import slurmdoctor

FRAMES = 'Traceback (most recent call last):\n  File "/scratch/demo/train.py", line 12, in main\n    loss.backward()\n'
FAULT = "Memory access fault by GPU node-3 (Agent handle: 0x5a5c587a51c0) on address 0x709843600000. Reason: Page not present.\n"
DMESG = (
    "[19277.975569] amdgpu 0000:3d:00.0: amdgpu: [mmhub0] no-retry page fault (src_id:0 ring:160 vmid:3 pasid:32790)\n"
    "[19277.975611] amdgpu 0000:3d:00.0: amdgpu:  for process python3.12 pid 6071 thread python3.12 pid 6071)\n"
)
NVIDIA = ("dcgmi", "TORCH_CUDA_ARCH_LIST", "nvidia-smi", "a CUDA error")
ERRORS = {
    "HSA": (FAULT, "ROCm"),
    "HSA in a bar": (" 33%|█████" + FAULT, "ROCm"),
    "HSA and the kernel's log": (FAULT + DMESG, "6071"),
    "HIP": (
        FRAMES + "torch.AcceleratorError: HIP error: an illegal memory access was encountered\n",
        "AMD_SERIALIZE_KERNEL",
    ),
    "Intel": (
        FRAMES + "RuntimeError: level_zero backend failed with error: 20 (UR_RESULT_ERROR_DEVICE_LOST)\n",
        "xpu-smi",
    ),
    "Ascend": (FRAMES + "RuntimeError: npuSynchronizeDevice, error code is 507011\n", "npu-smi"),
}


@pytest.mark.parametrize(("log", "word"), ERRORS.values(), ids=ERRORS)
def test_the_advice_is_the_vendor_s(log: str, word: str) -> None:
    found = slurmdoctor.diagnose(log)
    told = json.dumps(found.to_dict())
    assert found.to_dict()["cause"]["id"] == "cuda-error"
    assert word in told
    assert not [one for one in NVIDIA if one in json.dumps(found.to_dict()["fixes"])]
    assert "a CUDA error" not in told


def test_an_agent_of_hsa_is_no_node() -> None:
    assert slurmdoctor.diagnose(FAULT).to_dict()["first_failure"]["node"] is None


def test_a_reset_of_an_amd_gpu_is_told_with_amd_s_tools() -> None:
    log = "[ 4021.118201] amdgpu 0000:c1:00.0: amdgpu: GPU reset begin!\nsrun: error: node07: task 3: Aborted\n"
    found = slurmdoctor.diagnose(log).to_dict()
    assert found["cause"]["id"] == "gpu-fault"
    assert "dcgmi" not in json.dumps(found["fixes"])


def test_cuda_s_own_advice_stays() -> None:
    told = json.dumps(slurmdoctor.diagnose(FRAMES + "RuntimeError: CUDA error: unspecified launch failure\n").to_dict())
    assert "dcgmi diag" in told
    assert "AMD_LOG_LEVEL" not in told
