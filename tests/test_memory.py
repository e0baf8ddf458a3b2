"""GPU and host memory: what a message's sizes, the phase, the layout and the memory lines of a log make of the advice."""

import re
from typing import Any

import pytest
from msgspec.structs import replace

from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.infer.facts import _of_memory
from slurmdoctor.knowledge import layouts
from slurmdoctor.knowledge.expressions import fill, holds
from slurmdoctor.model import MemoryReading, gib
from tables import table

TRAIN = "/opt/demo/train.py main loss = model(batch)"
"""A frame: file, function and source."""
LOADS = "/v/transformers/modeling_utils.py from_pretrained x"


def message(requested: str, free: str, unallocated: str) -> str:
    return (
        f"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate {requested}. GPU 3 has a total capacity of 79.11 GiB "
        f"of which {free} is free. Including non-PyTorch memory, this process has 77.92 GiB memory in use. Of the allocated "
        f"memory 75.61 GiB is allocated by PyTorch, and {unallocated} is reserved by PyTorch but unallocated. If reserved but "
        "unallocated memory is large try setting PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation."
    )


def oom(*frames: str, text: str = message("1.00 GiB", "182.00 MiB", "204.10 MiB"), above: str = "") -> str:
    """Rank 3's traceback below what the log holds `above`."""
    rows = ""
    for frame in frames or (TRAIN,):
        file, name, code = frame.split(" ", 2)
        rows += f'[rank3]:   File "{file}", line 12, in {name}\n[rank3]:     {code}\n'
    return f"{above}[rank3]: Traceback (most recent call last):\n{rows}[rank3]: {text}\n"


def fixes(found: Diagnosis) -> list[str]:
    return [f"{fix.do} {fix.why or ''}" for fix in found.fixes]


# ── sizes ──


def test_a_size_is_its_number_of_gib() -> None:
    sizes = {"30.00 GiB": 30.0, "512.00 MiB": 0.5, "15.75GiB": 15.75, "18.5GB": 18.5, "1048576kB": 1.0}
    sizes |= {"1.5 TiB": 1536.0, "1073741824 bytes": 1.0, "745. GiB": 745.0}
    assert {text: gib(text) for text in sizes} == sizes
    assert [gib(text) for text in ("30", "GiB", "3 Gb")] == [None] * 3


def test_sizes_compare_and_add_up_in_conditions_and_texts() -> None:
    facts = {"asked": "1.96 GiB", "pieces": "1.41 GiB", "free": "1208.00 MiB"}
    assert holds("pieces + free >= asked", facts)
    assert not holds("pieces >= asked", facts)
    assert holds({"asked": "> pieces"}, facts)
    assert fill("{asked}: {pieces + free} GiB", facts) == "1.96 GiB: 2.59 GiB"
    assert fill("{divisor(256, 11.2)} {divisor(60, 7)} {gcd(48, 16)}", {}) == "16 10 16"
    assert fill("{divisor(8, 9)}", {}) is None
    assert fill("{divisor(ep, 2)}", {}) is None


# ── fragmentation, where the pieces hold what was asked for ──


PIECES_OFFERED = {
    ("30.00 GiB", "1.18 GiB", "1.41 GiB"): False,
    ("1.96 GiB", "1.18 GiB", "1.41 GiB"): True,
    ("2.60 GiB", "1.18 GiB", "1.41 GiB"): False,
    ("522.00 MiB", "6.31 MiB", "4.19 GiB"): True,
    ("1.00 GiB", "512.00 MiB", "312.10 MiB"): False,
    ("100.00 MiB", "90.00 MiB", "312.10 MiB"): False,
}


@pytest.mark.parametrize("sizes", PIECES_OFFERED)
def test_fragmentation_only_where_the_pieces_cover_the_request(sizes: tuple[str, str, str]) -> None:
    advice, (requested, free, unallocated) = "\n".join(fixes(diagnose(oom(text=message(*sizes))))), sizes
    covered = f"{unallocated} reserved but unallocated + {free} free cover the {requested}" in advice
    assert ("expandable_segments" in advice, covered) == (PIECES_OFFERED[sizes],) * 2


# ── the phase ──

VLLM_CACHE = ("/v/vllm/v1/gpu_worker.py determine_available_memory x", "/x/m.py forward x")
MICRO, STATE = "smaller micro batch", "Shard the optimizer state"


@pytest.mark.parametrize(
    ("phase", "says", "never", "frames"),
    [
        ("forward pass", MICRO, "optimizer", ["/x/m.py forward return self.mlp(x)"]),
        ("backward pass", MICRO, "optimizer", ["/x/t.py main loss.backward()"]),
        ("backward pass", MICRO, "optimizer", ["/v/torch/utils/checkpoint.py backward x", "/x/m.py forward x"]),
        ("optimizer step", STATE, "Lower the", ["/x/t.py main opt.step()", "/v/torch/optim/adamw.py _init_group z("]),
        ("forward pass", MICRO, "optimizer", ["/v/torch/optim/adamw.py step loss = closure()", "/x/m.py forward x"]),
        ("model setup", "Shard the model", "micro batch", [LOADS]),
        ("checkpoint load", 'map_location="cpu"', "micro batch", ["/v/torch/serialization.py load x"]),
        ("checkpoint save", "cpu_offload=True", "micro batch", ["/x/t.py save_checkpoint x"]),
        ("evaluation", "evaluation batch", "micro batch", ["/x/t.py evaluate x", "/x/m.py forward x"]),
        ("generation", "new tokens", "micro batch", ["/v/utils.py generate x", "/x/m.py forward x"]),
        ("export", "over more GPUs or nodes for the export", "micro batch", ["/x/b.py save_hf_weights x"]),
        ("KV cache setup", "--max-model-len", "micro batch", VLLM_CACHE),
    ],
)
def test_the_frames_tell_the_phase_and_the_phase_the_advice(
    phase: str, says: str, never: str, frames: list[str]
) -> None:
    found = diagnose(oom(*frames))
    assert found.facts["phase"] == phase
    assert says in fixes(found)[0]
    assert never not in "\n".join(fixes(found))


# ── the record ──

MEMORY = "[Rank {}] (after {} iterations) memory (MB) | allocated: 1.5 | max allocated: {} | reserved: 2.0 | max reserved: 2.0\n"


def test_what_the_log_has_of_the_failure_stands_in_the_advice_and_in_the_facts() -> None:
    above = "".join(
        f"  {name} ...... {n}\n" for name, n in (("tensor_model_parallel_size", 4), ("micro_batch_size", 4))
    )
    above += "  seq_length ...................................... 8192\n" + MEMORY.format(3, 1, 74321.9)
    found = diagnose(oom("/x/megatron/core/pipeline_parallel/schedules.py backward_step x", above=above))
    record = "backward pass, TP 4, micro batch 4, sequence 8192, peak 72.6 of 79.1 GiB"
    assert record in fixes(found)[0]
    told = {"record": record, "phase": "backward pass", "peak_gib": 72.6, "requested_gib": 1.0, "capacity_gib": 79.11}
    assert {name: found.facts[name] for name in told} == told
    assert "peak 70 GiB on rank 0" in diagnose(oom(above=MEMORY.format(0, 10, 71680.0))).facts["record"]


def test_a_line_that_names_node_and_gpu_is_of_that_rank() -> None:
    lines = (
        MemoryReading(None, 200, "38.9GB/40GB", 1, 38.9, 40.0, gpu=(2, 3)),
        MemoryReading(None, 200, "18GB/40GB", 2, 18, 40.0, gpu=(3, 0)),
    )
    assert _of_memory(19, lines, {"gpus_per_node": 8})["memory"] == "38.9GB/40GB"
    assert _of_memory(19, lines, {"world_size": 32, "nodes": 4})["memory"] == "38.9GB/40GB"
    assert _of_memory(19, lines, {}) == {}
    assert _of_memory(None, lines, {}) == {}


def test_a_reading_without_a_rank_is_the_only_process_s_or_shows_how_full_all_were() -> None:
    one, low = (MemoryReading(None, at, f"{used}GB/40GB", 1, used, 40.0) for at, used in ((1, 38.0), (2, 18.0)))
    alone = [_of_memory(None, (one,), {"world_size": size}) for size in (None, 1, 8)]
    assert ["memory_elsewhere" in found for found in alone] == [False, False, True]
    assert _of_memory(None, (replace(one, gpu=(0, 1)),), {})["memory_elsewhere"]
    assert _of_memory(3, (one, low), {}) == _of_memory(3, (one, replace(one, rank=5)), {}) == {}


# ── what the first fix says, and no fix ──

CASES = table("memory_cases")


@pytest.mark.parametrize("name", CASES)
def test_the_advice_follows_what_the_log_shows(name: str) -> None:
    case = CASES[name]
    found = diagnose(case["log"])
    assert found.cause.id == case["cause"]
    assert re.search(case.get("first", ""), fixes(found)[0])
    assert "never" not in case or not re.search(case["never"], "\n".join(fixes(found)))


# ── hardware: the node that is excluded is the one that the evidence is against ──


def test_a_lost_node_is_excluded_also_where_a_later_line_names_it() -> None:
    found = diagnose(
        "srun: error: Aborting, io error and missing step on node 10\nsrun: error: Node failure on node07\n"
    )
    assert found.retry is not None
    assert found.retry.exclude_nodes == ("node07",)
    assert "`--exclude=node07`" in found.fixes[0].do


@pytest.mark.parametrize("where", ["node07 kernel: ", ""])
def test_an_xid_names_its_node_or_says_how_to_find_it(where: str) -> None:
    found = diagnose(
        f"Jun  1 10:00:00 {where}NVRM: Xid (PCI:0000:b3:00): 79, pid=4211, name=python, GPU has fallen off the bus.\n"
    )
    assert found.retry is not None
    assert found.cause.id == "gpu-fault"
    excluded = found.retry.exclude_nodes
    assert ("--exclude=node07" in found.fixes[0].do) is ("node07" in excluded)
    assert excluded or "dmesg -T" in found.fixes[0].do


def test_nan_goes_back_before_its_step() -> None:
    found = diagnose("step 350 | loss 2.1\nFloatingPointError: Loss became infinite or NaN at iteration=351!\n")
    assert "before step 351" in found.fixes[0].do
    early = diagnose("FloatingPointError: Loss became infinite or NaN at iteration=1!\n")
    assert "Check the inputs first: the run stopped at step 1" in early.fixes[0].do


# ── sizes of a parallel layout satisfy all that is known, and what is unknown is said ──

NODE = {"gpus_per_node": 8}


@pytest.mark.parametrize(
    ("facts", "fits"),
    [
        ({"heads": 28, "tp": 8, **NODE}, "TP 4 or TP 2"),
        ({"heads": 12, "tp": 8, "world_size": 16, **NODE}, "TP 4 or TP 2"),
        ({"heads": 40, "tp": 16, "gpus_per_node": 4}, "TP 4 or TP 2"),
        ({"heads": 6, "num_heads": 48, "tp": 4, **NODE}, "TP 2 or TP 1"),
        ({"num_heads": 32, "kv_heads": 2, "tp": 12, **NODE}, "TP 4 or TP 2"),  # as many ranks share a KV head
        ({"world_size": 24, "tp": 4, "pp": 4}, "PP 2 or TP 2"),
        ({"processes": 16, "tp": 4, "pp": 3, "num_layers": 24}, "PP 4 or PP 2"),
        ({"layers": 33, "pp": 4, "world_size": 32}, "PP 1"),
        ({"experts": 60, "ep": 8, "world_size": 16}, "EP 4 or EP 2"),
        ({"tp": 2, "pp": 1, "ep": 6, "num_experts": 48, "processes": 16, "framework": "megatron"}, "EP 2 or EP 8"),
        ({"tp": 8, "heads": 32, "world_size": 12, "micro_batch": 1, "global_batch": 64}, None),
        ({"tp": 8, "heads": 32, "world_size": 12, "micro_batch": 1, "global_batch": 60}, "TP 4 or TP 2"),
        ({"tp": 8}, None),
        ({"heads": 28, "world_size": 16}, None),
    ],
)
def test_the_nearest_sizes_fit_every_known_constraint(facts: dict[str, Any], fits: str | None) -> None:
    assert layouts(facts).get("layouts") == fits


def test_a_constraint_that_is_unknown_is_named() -> None:
    assert layouts({"heads": 25, "tp": 8})["layout_lacks"] == "GPUs of a node, processes"
    assert not layouts({"heads": 28, "tp": 8})["layout_lacks"]  # what divides 8 fits wherever 8 did
