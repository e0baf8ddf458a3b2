"""Fixes that fit the log: which are offered, in which order, with which numbers."""

import shlex
from typing import Any

import pytest
from hypothesis import given, strategies as st

from slurmdoctor.knowledge.expressions import fill, holds, names_of, placeholders
from slurmdoctor.model import Cause, Fix, Remedy
from slurmdoctor.report.fixes import best, verify


def cause(*fixes: Fix, verify: tuple[str, ...] = ()) -> Cause:
    return Cause("a", "f", "t", "root", (), frozenset(), "after-fix", "s", (), fixes, verify)


def chosen(facts: dict[str, Any], *fixes: Fix) -> list[str]:
    return [remedy.do for _, remedy in best(cause(*fixes), facts)]


@pytest.mark.parametrize(
    ("when", "facts", "offered"),
    [
        ({}, {}, True),
        ({"ep": True}, {"ep": 4}, True),
        ({"ep": True}, {}, False),
        ({"ep": True}, {"ep": None}, False),
        ({"rank": True}, {"rank": 0}, True),
        ({"ep": False}, {}, True),
        ({"ep": False}, {"ep": 4}, False),
        ({"rank": 0}, {}, False),
        ({"ep": 4}, {"ep": "4"}, True),
        ({"ep": 4}, {"ep": 8}, False),
        ({"ep": "> 1"}, {"ep": "8"}, True),
        ({"ep": "< 10"}, {"ep": "many"}, False),
        ({"experts": "> ep"}, {"experts": 64, "ep": "8"}, True),
        ({"framework": ("nemo", "megatron")}, {"framework": "megatron"}, True),
        ({"framework": ("nemo", False)}, {}, True),
        ({"seen": "nccl-id-timeout"}, {"seen": frozenset({"sigterm", "nccl-id-timeout"})}, True),
        ({"seen": "nccl-id-timeout"}, {"seen": ["sigterm"]}, False),
        ({"ep": True, "tp": 8}, {"ep": 4, "tp": 4}, False),
        ({"num_experts % ep": 0, "world // 8": "> 1"}, {"num_experts": 64, "ep": 8, "world": 16}, True),
        ({"num_experts % ep": (1, 2)}, {"num_experts": 64, "ep": 8}, False),
        ("a > 1", {}, False),
        ("not a and b % 3 == 1", {"b": 7}, True),
        ("b % a == 0", {"b": 7, "a": 0}, False),
        ("num_experts % ep != 0", {"num_experts": "64", "ep": "6"}, True),
        ("tp * pp * max(cp, 1) > world", {"tp": 8, "pp": 4, "cp": 1, "world": "16"}, True),
        ("launcher not in ('srun', 'mpi')", {"launcher": "torchrun"}, True),
        ("launcher not in ('srun', 'mpi')", {}, False),
        ("'hang' in seen", {"seen": frozenset({"hang", "sigterm"})}, True),
        ("seen == 'hang'", {"seen": ["sigterm"]}, False),
        ("1 < ep <= 8", {"ep": 8}, True),
        ("rank or node", {"node": ""}, False),
        ("a and (b or not c)", {"a": 1, "c": True}, False),
    ],
)
def test_a_fix_is_offered_where_all_its_conditions_hold(when: Any, facts: dict[str, Any], offered: bool) -> None:
    assert holds(when, facts) is offered
    assert bool(chosen(facts, Fix("Mend it.", when={when: True} if isinstance(when, str) else when))) is offered


@pytest.mark.parametrize(
    "text", ["", "a.b", "a[0]", "import os", "f(a)", "a if b else c", "a is b", "a := 1", "-" * 9999]
)
def test_conditions_are_no_python(text: str) -> None:
    with pytest.raises(ValueError, match="expression"):
        names_of(text)


PINNED: dict[str, Any] = {"rule": "a/b", "package": True, "name": True}
ORDER: dict[str, tuple[list[Fix], dict[str, dict[str, Any]]]] = {
    "the most specific comes first, then the order of the file": (
        [Fix("a"), Fix("b", when={"x": True}), Fix("c", when={"x": True, "y": True}), Fix("d", when={"x": 1, "z": False})],
        {"c b d": {"x": 1, "y": 2}, "a": {}},
    ),
    "a site's fix comes before ours, whatever ours ask for": (
        [Fix("ours", when={"ep": 4}), Fix("site's", of_site=True)],
        {"site's ours": {"ep": 4}},
    ),
    "one that cannot be filled makes room for the next": (
        [Fix("{missing}", when={"x": True}), Fix("a"), Fix("b {x / 0}"), Fix("c"), Fix("d"), Fix("e")],
        {"a c d": {"x": 1}},
    ),
    "none is shown twice in other words": (
        [Fix("Free-quota, or-write {path} to scratch", when={"path": True}), Fix("Free-quota, or-write to scratch"), Fix("Wait")],
        {"Free-quota, or-write /a to scratch Wait": {"path": "/a"}},
    ),
    "one for a value makes the one for any value needless": (
        [Fix("Install", when={**PINNED, "package": "torch._C"}), Fix("Pin-{package}", when=PINNED), Fix("Read")],
        {
            "Install Read": {"rule": "a/b", "package": "torch._C", "name": "x"},
            "Pin-einops Read": {"rule": "a/b", "package": "einops", "name": "x"},
        },
    ),
    "of one topic only the best is offered": (
        [
            Fix("Look", when={"x": True}, one_of="who-waits"), Fix("Raise", when={"x": True, "y": True}, one_of="who-waits"),
            Fix("Free", one_of="port"), Fix("Read"),
        ],
        {"Raise Free Read": {"x": 1, "y": 2}, "Look Free Read": {"x": 1}},
    ),
    "one that cannot be filled does not speak for its topic": (
        [Fix("Set {missing}.", when={"x": True}, one_of="port"), Fix("Free", one_of="port")],
        {"Free": {"x": 1}},
    ),
}  # fmt: skip


@pytest.mark.parametrize("promise", ORDER)
def test_which_fixes_are_offered_and_in_which_order(promise: str) -> None:
    fixes, cases = ORDER[promise]
    for shown, facts in cases.items():
        assert " ".join(chosen(facts, *fixes)) == shown


def test_why_and_reference_come_along_and_what_cannot_be_filled_is_left_out() -> None:
    fix = Fix("Raise EP above {ep}.", "{ep} is too few", {}, "https://example.org")
    assert best(cause(fix), {"ep": 4}) == [(fix, Remedy("Raise EP above 4.", "4 is too few", "https://example.org"))]
    fix = Fix("Raise EP.", "{ep} is too few")
    assert best(cause(fix), {}) == [(fix, Remedy("Raise EP.", None, None))]
    assert verify(cause(verify=("Look at {node}.", "Ask {nobody}.")), {"node": "gpu-7"}) == ("Look at gpu-7.",)


@pytest.mark.parametrize(
    ("template", "text"),
    [
        ("{num_experts / ep} experts", "64 experts"),
        ("{num_experts / 3}", "85.3"),
        ("{1 / 3}", "0.33"),
        ("{1 / 300}", "0.00333"),
        ("{timeout_ms / 60000} min", "10 min"),
        ("{timeout_ms // 7 % 10} {-ep} {(ep + 1) * 2 - 1}", "4 -4 9"),
        ("{ceil(num_experts / 7)} {floor(7.9)} {min(ep, 2)} {max(ep, 9)} {max(ep)}", "37 7 2 9 4"),
        ("{requested}", "2.00 GiB"),
        ("{memory}", "64.0"),
        ("{memory * 2}", "128"),
        ("{ranks}", "0-3, 7"),
        ("{hosts}", "a, b"),
        ("{rank}", "0"),
        ("{big * 2}", "2469134"),
        ("{{literally}} ${SLURM_JOB_ID} {node}", "{literally} ${SLURM_JOB_ID} gpu-7"),
        ("no braces", "no braces"),
    ],
)
def test_placeholders_are_printed_as_a_person_would(template: str, text: str) -> None:
    facts = {"num_experts": "256", "ep": 4, "timeout_ms": "600000", "requested": "2.00 GiB", "memory": "64.0"}
    facts |= {"ranks": (7, 3, 2, 1, 0), "hosts": ("a", "b"), "rank": 0, "node": "gpu-7", "big": 1234567}
    assert fill(template, facts) == text


def test_what_the_log_does_not_tell_cannot_be_filled() -> None:
    facts = {"none": None, "empty": "", "flag": True, "word": "gpu", "ep": 4, "nothing": (), "many": (1, 2)}
    templates = (
        "{x} {none} {empty} {flag} {word*2} {ep/0} {ep%0} {nothing} {many*many} {huge/ep} {ceil()} {'x'*9} {True}"
    )
    assert {fill(template, {**facts, "huge": 10**400}) for template in templates.split()} == {None}


@pytest.mark.parametrize(
    ("template", "wrong"),
    [
        ("{a.b}", "no part of"),
        ("{a[0]}", "expression"),
        ("{__import__('os')}", "no part of"),
        ("{a ** 9}", "expression"),
        ("{}", "expression"),
        ("{a", "expected '}'"),
        ("a}", "Single '}'"),
        ("{a:3}", "more than a name"),
        ("{a!r}", "more than a name"),
        ("{a if b else c}", "expression"),
        ("{min(a, key=b)}", "expression"),
    ],
)
def test_anything_but_names_and_arithmetic_is_refused(template: str, wrong: str) -> None:
    with pytest.raises(ValueError, match=wrong):
        placeholders(template)
    assert fill(template, {"a": 3, "b": 1, "c": 1}) is None


def test_the_names_that_a_template_needs() -> None:
    assert placeholders("{num_experts / max(ep, 2)} on {node}, ${HOME}") == {"num_experts", "ep", "node"}


@given(st.text(alphabet="{}$abc+-*/% 0123456789.()'\"", max_size=40))
def test_no_template_breaks_the_filling(template: str) -> None:
    text = fill(template, {"a": 3, "b": "2.5", "c": "x"})
    assert text is None or isinstance(text, str)


@pytest.mark.parametrize(
    "path", ["/data/x-1.json", "/data/a b.json", "/data/$(reboot);id", "/data/it's", "/data/`reboot`"]
)
def test_what_a_log_says_is_one_argument_of_a_command(path: str) -> None:
    shown = [] if "`" in path else [f"Look: `ls -ld {shlex.quote(path)}`."]
    assert chosen({"path": path}, Fix("Look: `ls -ld {path}`.")) == shown


def test_within_quotes_a_command_takes_only_what_is_plain_and_a_quote_is_left_as_it_is() -> None:
    quoted = Fix('Look: `bash -c "df {path}"`.')
    assert chosen({"path": "/data"}, quoted) == ['Look: `bash -c "df /data"`.']
    assert chosen({"path": "/data/$(id)"}, quoted) == []
    assert chosen({"at": "train.py:8 in main"}, Fix("Fix `{at}`: `a b` is {at}.")) == [
        "Fix `train.py:8 in main`: `a b` is train.py:8 in main."
    ]
