"""Flight recorder dumps as PyTorch writes them, composed: simulated hangs whose culprits are known."""

from __future__ import annotations

import struct
from typing import Any


def torch_pickle(value: Any) -> bytes:
    """A value as PyTorch's own pickler (torch/csrc/jit/serialization/pickler.cpp) writes it: protocol 2, each string once."""
    memo: dict[str | int, int] = {}
    return b"\x80\x02" + b"".join(_steps(value, memo)) + b"."


def _steps(value: Any, memo: dict[str | int, int]) -> list[bytes]:
    if isinstance(value, str):
        return [_string(value, memo)]
    if isinstance(value, bool) or value is None:
        return [{True: b"\x88", False: b"\x89", None: b"N"}[value]]
    if isinstance(value, float):
        return [b"G" + struct.pack(">d", value)]
    if isinstance(value, int):
        return [_whole(value)]
    if isinstance(value, tuple):
        return [*_steps(value[0], memo), *_steps(value[1], memo), b"\x86"]
    if isinstance(value, list):
        return [b"](", *(step for one in value for step in _steps(one, memo)), b"e"]
    if id(value) in memo:
        return [_get(memo[id(value)])]
    pairs = [step for pair in value.items() for one in pair for step in _steps(one, memo)]
    return [
        b"}(",
        *pairs,
        b"u",
        *([_put(memo, id(value))] if "filename" in value else []),
    ]  # entries share their frames


def _string(text: str, memo: dict[str | int, int]) -> bytes:
    if text in memo:
        return _get(memo[text])
    data = text.encode()
    return b"X" + struct.pack("<I", len(data)) + data + _put(memo, text)


def _get(at: int) -> bytes:
    return b"h" + bytes([at]) if at < 256 else b"j" + struct.pack("<I", at)


def _put(memo: dict[str | int, int], what: str | int) -> bytes:
    at = memo[what] = len(memo)
    return b"q" + bytes([at]) if at < 256 else b"r" + struct.pack("<I", at)


def _whole(number: int) -> bytes:
    if 0 <= number < 256:
        return b"K" + bytes([number])
    if 0 <= number < 65_536:
        return b"M" + struct.pack("<H", number)
    if -(1 << 31) <= number < 1 << 31:
        return b"J" + struct.pack("<i", number)
    return b"\x8a\x08" + struct.pack("<q", number)
