"""Fixes that fit the log: which are offered, in which order, with which numbers."""

import shlex
from typing import Any

import pytest
from hypothesis import given, strategies as st
from msgspec.structs import replace

from slurmdoctor.knowledge.expressions import fill, holds, names_of, placeholders
from slurmdoctor.model import Cause, Derived, Fix, Remedy
from slurmdoctor.report.fixes import best, derive, derived_facts, of_the_exception, verify
from tables import table

TABLES = table("remedies")


def cause(*fixes: Fix, verify: tuple[str, ...] = ()) -> Cause:
    return Cause("a", "f", "t", "root", (), frozenset(), "after-fix", "s", (), fixes, verify)


def chosen(facts: dict[str, Any], *fixes: Fix) -> list[str]:
    return [remedy.do for _, remedy in best(cause(*fixes), facts)]


@pytest.mark.parametrize(("when", "facts", "offered"), TABLES["conditions"])
def test_a_fix_is_offered_where_all_its_conditions_hold(when: Any, facts: dict[str, Any], offered: bool) -> None:
    assert holds(when, facts) is offered
    assert bool(chosen(facts, Fix("Mend it.", when={when: True} if isinstance(when, str) else when))) is offered


@pytest.mark.parametrize("text", [*TABLES["no-conditions"], "-" * 9999])
def test_conditions_are_no_python(text: str) -> None:
    with pytest.raises(ValueError, match="expression"):
        names_of(text)


@pytest.mark.parametrize("promise", TABLES["order"])
def test_which_fixes_are_offered_and_in_which_order(promise: str) -> None:
    fixes = [Fix(**one) for one in TABLES["order"][promise]["fixes"]]
    for shown, facts in TABLES["order"][promise]["shown"].items():
        assert " ".join(chosen(facts, *fixes)) == shown


def test_why_and_reference_come_along_and_what_cannot_be_filled_is_left_out() -> None:
    fix = Fix("Raise EP above {ep}.", "{ep} is too few", {}, "https://example.org")
    assert best(cause(fix), {"ep": 4}) == [(fix, Remedy("Raise EP above 4.", "4 is too few", "https://example.org"))]
    fix = Fix("Raise EP.", "{ep} is too few")
    assert best(cause(fix), {}) == [(fix, Remedy("Raise EP.", None, None))]
    assert verify(cause(verify=("Look at {node}.", "Ask {nobody}.")), {"node": "gpu-7"}) == ("Look at gpu-7.",)


@pytest.mark.parametrize(("template", "text"), TABLES["filled"].items())
def test_placeholders_are_printed_as_a_person_would(template: str, text: str) -> None:
    facts = {"num_experts": "256", "ep": 4, "timeout_ms": "600000", "requested": "2.00 GiB", "memory": "64.0"}
    facts |= {"ranks": (7, 3, 2, 1, 0), "hosts": ("a", "b"), "rank": 0, "node": "gpu-7", "big": 1234567}
    assert fill(template, facts) == text


@pytest.mark.parametrize(("let", "facts", "known"), TABLES["derived"])
def test_the_names_that_others_make_known(let: Any, facts: dict[str, Any], known: dict[str, Any]) -> None:
    made = replace(cause(), let=tuple(Derived(**one) for one in let))
    assert derive(made, facts) == known
    assert derived_facts(made, known) == {name: fact for name, fact in known.items() if name == "shown"}


@pytest.mark.parametrize(("given", "names"), TABLES["of-an-exception"])
def test_what_an_exception_tells(given: Any, names: dict[str, Any]) -> None:
    assert {name: told for name, told in of_the_exception(*given).items() if told is not None} == names


def test_what_the_log_does_not_tell_cannot_be_filled() -> None:
    facts = {"none": None, "empty": "", "flag": True, "word": "gpu", "ep": 4, "nothing": (), "many": (1, 2)}
    templates = (
        "{x} {none} {empty} {flag} {word*2} {ep/0} {ep%0} {nothing} {many*many} {huge/ep} {ceil()} {'x'*9} {True}"
    )
    assert {fill(template, {**facts, "huge": 10**400}) for template in templates.split()} == {None}


@pytest.mark.parametrize(("template", "wrong"), TABLES["refused"].items())
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
