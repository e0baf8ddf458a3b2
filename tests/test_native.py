"""The compiled loop does what its Python twin does, to the last count, and refuses what it cannot do without harm."""

import importlib
import sys
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, strategies as st

from cases import COMPILES
from slurmdoctor.matching import engine
from slurmdoctor.matching.engine import DIGITS, Portable
from slurmdoctor.search.shapes import marked_shape
from slurmdoctor.search.tally import BY_DIGITS, Tally, new_walk

native: Any = engine.native
compiled = pytest.mark.skipif(native is None, reason="the loop was not compiled here")
WORDS = [b"Error", b"Error: ", b"errno 12", b"rror\n", b"out of memory", b"rank 0 died", b"aaaa", b"aaaab"]
TEXTS = st.lists(
    st.one_of(
        st.sampled_from([*WORDS, b"\n", b"\n3: ", b"\n12: ", b"\r", b" 17 ", b"aaaaa", b"\0", b"\1"]),
        st.from_regex(rb"[ .](0x)?[0-9a-f]{4,7}[ g_]", fullmatch=True),
        st.binary(max_size=9),
    ),
    max_size=60,
).map(b"".join)


def test_it_is_compiled_where_it_can_be_and_elsewhere_the_version_says_how(monkeypatch: pytest.MonkeyPatch) -> None:
    assert not COMPILES or engine.description() == "compiled C"
    monkeypatch.setattr(engine, "native", None)
    assert "with a C compiler" in engine.description()


def test_a_module_from_another_versions_source_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "slurmdoctor.search._native", SimpleNamespace(INTERFACE=0))
    monkeypatch.setattr("slurmdoctor.search._native", SimpleNamespace(INTERFACE=0), raising=False)
    try:
        assert importlib.reload(engine).native is None
    finally:
        monkeypatch.undo()
        importlib.reload(engine)


@compiled
@given(TEXTS)
def test_it_counts_line_ends(text: bytes) -> None:
    for data in (text, text * 50):
        assert native.line_ends(data) == data.count(b"\n")


@compiled
@given(TEXTS, st.sets(st.sampled_from(WORDS), min_size=1))
def test_it_finds_the_words_that_plain_python_finds(text: bytes, words: set[bytes]) -> None:
    chosen = sorted(words)
    plain, fast = Portable(chosen), engine.engine_of(chosen)
    assert isinstance(fast, native.Search)
    for data in (text, text * 9):
        assert fast.ends(data) == list(plain.ends(data))
        assert set(fast.which(data)) == set(plain.which(data))


@compiled
@given(
    st.lists(st.tuples(st.sampled_from([b"", *(b"%d: " % k for k in range(7))]), st.integers(0, 9)), max_size=120),
    st.integers(1, 4),
    st.integers(0, 4),
    st.integers(1, 6),
    st.integers(0, 4),
)
def test_it_tallies_as_python_does(said: list[tuple[bytes, int]], keep: int, crowd: int, more: int, shift: int) -> None:
    slow, fast = Tally(keep, crowd, crowd + more, shift), native.Tally(keep, crowd, crowd + more, shift)
    place = 0
    for label, distance in said:
        place += distance
        slow.add(label, place)
        fast.add(label, place)
    assert fast.packed() == slow.packed()
    assert list(fast.packed()[0]) == list(slow.labels)  # in the order in which they spoke


def _gone_through(text: bytes, size: int, is_native: bool) -> tuple[list[tuple[int, int, Any]], Any]:
    """What a walk hands out and counts, whose user learns each shape as it comes: silent, counted or to be handed out."""
    search = engine.engine_of(WORDS) if is_native else Portable(WORDS)
    way, new_tally = new_walk(search)
    tally, handed = new_tally(3), []
    for start, stop, rest in way.lines(text, size, 1000, search):
        line = text[start:stop]
        handed.append((start, stop, rest))
        if rest is None and len(line) < 40:
            kind = len(line) % 3
            counted = tally if kind == 1 else None
            shape = marked_shape(line)
            if shape is None:
                continue
            if kind == 2 and shape != line.translate(DIGITS) and way.known(shape) is None:
                way.learn(shape, 0, 0, None, BY_DIGITS, -2)
            if way.known(shape) is not None:
                shape = line.translate(DIGITS)
            way.learn(shape, 0, min(3, len(line)), counted, "look" if kind == 2 else None, -1)
            assert way.known(shape) == (0, min(3, len(line)), counted, "look" if kind == 2 else None)
    return handed, tally.packed()


@compiled
@given(TEXTS)
def test_it_walks_as_python_does(text: bytes) -> None:
    data = text * 3
    for size in (len(data), data.rfind(b"\n", 0, len(data) * 2 // 3) + 1):
        assert _gone_through(data, size, True) == _gone_through(data, size, False)


@given(TEXTS)
def test_what_begins_behind_the_size_is_not_read(text: bytes) -> None:
    size = text.rfind(b"\n", 0, len(text) // 2) + 1
    for is_native in (False, native is not None):
        assert _gone_through(text, size, is_native) == _gone_through(text[:size], size, is_native)


@compiled
def test_lines_whose_digits_matter_are_told_apart_behind_their_shape() -> None:
    search = engine.engine_of(WORDS)
    way, tally = native.Walk(), native.Tally(3, 64, 100, 18)
    way.learn(b"0: Error 00", 0, 3, None, "look", 3)
    way.learn(b"0: Error 00\nError 12", 0, 3, tally, None, -1)
    text = b"1: Error 12\n2: Error 13\n3: Error 12\n"
    assert list(way.lines(text, len(text), 0, search)) == [(12, 23, "look")]
    assert sorted(tally.packed()[0]) == [b"1: ", b"3: "]
    way.forget()
    assert way.known(b"0: Error 00") is None
    assert len(list(way.lines(text, len(text), 0, search))) == 3


@compiled
def test_nobody_can_write_lines_that_share_a_slot() -> None:
    """These did, under every key: the flipped bits cancelled out, and each line was compared with all before it."""
    line = bytearray(b"RuntimeError: " + b"a" * 242)
    lines = []
    for number in range(4096):
        flipped = bytearray(line)
        for pair in range(12):
            if number >> pair & 1:
                # bit 63 of a word, bits 63 and 32 of the next, wherever the words' bytes begin
                flipped[16 * pair + 7 + 16] ^= 0x80
                flipped[16 * pair + 15 + 16] ^= 0x80
                flipped[16 * pair + 12 + 16] ^= 0x01
        lines.append(bytes(flipped))
    assert len(set(lines)) == 4096
    assert native.steps_to_find(lines) < 3 * len(lines)  # at most half of the slots are taken: half a step for each


@compiled
@pytest.mark.parametrize(
    "call",
    [
        lambda: native.line_ends("text"),
        lambda: native.steps_to_find((b"a",)),
        lambda: native.steps_to_find([b"a", "a"]),
        lambda: native.Search([b"abc"], [0], 1),
        lambda: native.Search([b"abcd"], [1], 1),
        lambda: native.Search([b"abcd"], [-1], 1),
        lambda: native.Search([b"abcd"], [0, 0], 1),
        lambda: native.Search(["abcd"], [0], 1),
        lambda: native.Search([b"abcd"], ["0"], 1),
        lambda: native.Search([b"abcd"], [0], 0),
        lambda: native.Search([b"abcd"], [0], 1).ends("abcd"),
        lambda: native.Tally(0, 1, 2, 1),
        lambda: native.Tally(1, 2, 2, 1),
        lambda: native.Tally(1, 1, 2, 99),
        lambda: native.Tally(1, 1, 2, 1).add("label", 1),
        lambda: native.Tally(1, 1, 2, 1).add(b"label"),
        lambda: native.Tally(1, 1, 2, 1).add(b"label", "1"),
        lambda: native.Walk().learn(b"shape", 0, 99, None, None, -1),
        lambda: native.Walk().learn(b"shape", 3, 2, None, None, -1),
        lambda: native.Walk().learn(b"shape", 0, 2, "tally", None, -1),
        lambda: native.Walk().known("shape"),
        lambda: native.Walk().lines(b"data", 4, 0, None),
        lambda: native.Walk().lines(b"data", 5, 0, native.Search([b"abcd"], [0], 1)),
        lambda: native.Walk().lines(b"data", -1, 0, native.Search([b"abcd"], [0], 1)),
    ],
)
def test_what_it_cannot_take_is_refused(call: Any) -> None:
    with pytest.raises((TypeError, ValueError, IndexError)):
        call()
    assert list(native.Walk()) == []  # and what was not told what to read hands out nothing
