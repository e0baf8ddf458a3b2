"""Sizes of a parallel layout that satisfy every constraint that the log or the script tells. Pure.

What is unknown constrains nothing, and is named: it is neither 1 nor none.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from slurmdoctor.model.numbers import MOST_RANKS

_TOLD = {
    "heads": ("heads", "num_heads"),
    "layers": ("layers", "num_layers"),
    "experts": ("experts", "num_experts"),
    "GPUs of a node": ("gpus_per_node", "world_gpus"),
    "processes": ("processes", "world_size", "world"),
}
"""What a size must divide, and the facts and captures that tell it."""
_LIMITS = {
    "tp": ("heads", "GPUs of a node", "processes"),
    "pp": ("layers", "processes"),
    "ep": ("experts", "processes"),
}
_SHOWN = 2


def layouts(facts: Mapping[str, Any]) -> dict[str, str]:
    """`layouts`: the nearest that fit, as `TP 4 or TP 2`; what they fit (`layout_fits`), and what is not known (`layout_lacks`)."""
    known = {name: size for name, size in facts.items() if type(size) is int and 0 < size <= MOST_RANKS}
    told = {limit: {known[name] for name in names if name in known} for limit, names in _TOLD.items()}
    # in Megatron-LM, experts are split as the rest is unless told otherwise
    expert_tp = "tp" if facts.get("framework") == "megatron" and "etp" not in known else "etp"
    models = (("tp", "pp", "cp"), (expert_tp, "pp", "ep"))
    nearest = sorted(
        # a divisor of the size that stood there still divides what that one did; 1 splits nothing
        (known[name] % size > 0 or size == 1, abs(math.log2(size / known[name])), name, size)
        for name in _LIMITS.keys() & known
        for size in _divisors(math.gcd(*(number for limit in _LIMITS[name] for number in told[limit])))
        if size != known[name] and _fits({**known, name: size}, told, models)
    )[:_SHOWN]
    if not nearest:
        return {}
    limits = dict.fromkeys(limit for *_, name, _ in nearest for limit in _LIMITS[name])
    fits = [f"{min(told[limit])} {limit}" for limit in limits if told[limit]]
    lacks = [limit for limit in limits if not told[limit] and any(new for new, *_ in nearest)]
    names = {"layouts": " or ".join(f"{name.upper()} {size}" for *_, name, size in nearest)}
    return names | {"layout_fits": ", ".join(fits), "layout_lacks": ", ".join(lacks)}


def _divisors(number: int) -> list[int]:
    return [size for size in range(1, number + 1) if number % size == 0]


def _fits(sizes: Mapping[str, int], told: Mapping[str, set[int]], models: tuple[tuple[str, ...], ...]) -> bool:
    """Whether each size divides what it must, the ranks of a model's copy and of its experts the processes, and the copies the batch."""
    kv, tp = sizes.get("kv_heads", 1), sizes.get("tp", 1)
    parts: list[tuple[int, tuple[str, ...]]] = [
        (math.prod(sizes.get(name, 1) for name in names), ("processes",)) for names in models
    ]
    parts += [(sizes[name], limits) for name, limits in _LIMITS.items() if name in sizes]
    whole = all(number % size == 0 for size, limits in parts for limit in limits for number in told[limit])
    copies = (number // parts[0][0] for number in told["processes"])
    fed = all(sizes.get("global_batch", 0) % (sizes.get("micro_batch", 1) * count) == 0 for count in copies if count)
    return whole and fed and (kv % tp == 0 or tp % kv == 0)
