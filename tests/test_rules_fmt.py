"""`slurmdoctor rules fmt`: keys come into one order, and nothing else changes."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given, strategies as st

from slurmdoctor.cli.rules import rules
from slurmdoctor.knowledge import builtin
from slurmdoctor.knowledge.paths import files
from slurmdoctor.knowledge.problems import shown
from slurmdoctor.knowledge.workshop.layout import arrange

ORDERED = """\
# The tape library, by the storage team.
cause: site/tape
title: lost the tape library
role: root
exit_classes: [python-error]
explains: [peer-lost]    # and what follows from it
retry: after-fix
summary: |
  The tape library stopped.

  # no comment, but text
rules:
  # what the loader prints
  - id: site/tape/loader
    source: our loader >= 3
    applies_to: exception
    literals: ['tape library is gone',
      'tape robot is gone']
    # two messages, one for each version
    regex:
      - 'tape library is gone'     # 3.0
      - 'tape robot is gone'
    examples: {match: [tape library is gone, tape robot is gone], no_match: []}
  - id: site/tape/kernel
    source: our driver
    literals: ['tape: lost']
    regex: 'tape: lost'
    examples:
      match: ['tape: lost']

      # harmless
      no_match: ['tape: lost and found']
fixes:
  - when: {ep: true}
    do: Restart it.
    why: It sleeps.
# the end
"""
SHUFFLED = """\
# The tape library, by the storage team.
role: root
fixes:
  - why: It sleeps.
    do: Restart it.
    when: {ep: true}
explains: [peer-lost]    # and what follows from it
exit_classes: [python-error]
summary: |
  The tape library stopped.

  # no comment, but text
rules:
  # what the loader prints
  - id: site/tape/loader
    examples: {match: [tape library is gone, tape robot is gone], no_match: []}
    # two messages, one for each version
    regex:
      - 'tape library is gone'     # 3.0
      - 'tape robot is gone'
    applies_to: exception
    source: our loader >= 3
    literals: ['tape library is gone',
      'tape robot is gone']
  - regex: 'tape: lost'
    literals: ['tape: lost']
    examples:
      match: ['tape: lost']

      # harmless
      no_match: ['tape: lost and found']
    id: site/tape/kernel
    source: our driver
title: lost the tape library
cause: site/tape
retry: after-fix
# the end
"""


def arranged(text: str) -> str:
    layout = arrange(text.encode(), "tape.yaml")
    assert layout.problems == []
    return layout.text


def test_keys_come_into_order_and_comments_move_with_them() -> None:
    assert arranged(SHUFFLED) == ORDERED


def test_what_is_in_order_stays() -> None:
    assert arranged(ORDERED) == ORDERED


@given(st.data())
def test_any_order_leads_to_the_same_file(data: st.DataObject) -> None:
    blocks = [f"{key}: {key}\n" if key != "summary" else "# why\nsummary: >\n  a\n\n   b\n" for key in KEYS]
    mixed = data.draw(st.permutations(blocks))
    assert arranged("# head\ncause: a\n" + "".join(mixed)) == "# head\ncause: a\n" + "".join(blocks)


KEYS = ["extends", "title", "role", "explains", "retry", "summary", "rules", "fixes", "references"]


def test_a_pattern_that_is_too_wide_is_told_with_its_line() -> None:
    text = f"rules:\n  - regex:\n      - 'short'\n      - - '{'x' * 170}'\nformats:\n  - pattern: '{'y' * 170}'\n"
    problems = arrange(f"cause: a\n{text}summary: '{'z' * 170}'\n".encode(), "a.yaml").problems
    assert [(problem.place.line, problem.place.column) for problem in problems] == [(6, 11), (8, 14)]


@pytest.mark.parametrize("text", ["cause: [a\n", "cause: a\ncause: b\n", "\xff", "- a\n- b\n", ""])
def test_what_is_no_rule_file_is_left_alone(text: str) -> None:
    data = text.encode("latin-1")
    layout = arrange(data, "a.yaml")
    assert layout.text == data.decode("utf-8", "replace")
    assert layout.problems or text.startswith("-")


@pytest.mark.parametrize("file", files(builtin()), ids=lambda file: file.stem)
def test_our_own_rules_are_in_order(file: Path) -> None:
    """`slurmdoctor rules fmt rules` mends most of what this finds."""
    data = file.read_bytes()
    layout = arrange(data, shown(file))
    assert [str(problem) for problem in layout.problems] == []
    assert layout.text.encode() == data


def test_the_command_writes_or_only_checks(tmp_path: Path) -> None:
    file = tmp_path / "tape.yaml"
    file.write_text(SHUFFLED)
    run = CliRunner().invoke
    assert run(rules, ["fmt", "--check", str(tmp_path)]).exit_code == 1
    assert file.read_text() == SHUFFLED
    assert run(rules, ["fmt", str(tmp_path)]).exit_code == 0
    assert file.read_text() == ORDERED
    assert run(rules, ["fmt", "--check", str(tmp_path)]).exit_code == 0


def test_what_is_left_to_do_by_hand_fails(tmp_path: Path) -> None:
    file = tmp_path / "tape.yaml"
    file.write_text(ORDERED.replace("'tape: lost'\n    examples", f"'tape: lost{'x' * 170}'\n    examples"))
    assert CliRunner().invoke(rules, ["fmt", str(file)]).exit_code == 1
