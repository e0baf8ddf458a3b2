"""Sizes of a parallel layout that a fix proposes satisfy all that is known, and what is unknown is said."""

from typing import Any

import pytest

from slurmdoctor.knowledge import layouts

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
