"""What the field's own documents know: each of their items is recognised from a log, and answered with this log's numbers.

An item has its log in tests/seed_logs. The programs' wordings and the cures carry over from five public documents on multi-node
training under Slurm (MB: Megatron Bridge, ML: Megatron-LM, KF: KempnerForge, NA: NeMo AutoModel, EN: Enroot and lit-gpt); the logs
and the sentences are our own. Items that only a batch script tells (MB20, 21, 23, 25, ML9, 10) are `slurmdoctor lint`'s.
"""

import re
from functools import lru_cache
from pathlib import Path
from typing import Any

import pytest

from slurmdoctor import Diagnosis, diagnose
from tables import table

LOGS = Path(__file__).parent / "seed_logs"
ITEMS = {"mb": [*range(1, 20), 22, 24], "ml": range(1, 9), "kf": range(1, 10), "na": range(1, 6), "en": range(1, 6)}

ANSWERS: dict[str, Any] = table("seed_items")
FIRST_FIX, ANY_FIX = ANSWERS["first"], ANSWERS["any"]


@lru_cache(maxsize=128)
def verdict(name: str) -> Diagnosis:
    return diagnose(LOGS / f"{name}.log")


def shown(found: Diagnosis, most: int = 4) -> str:
    return "\n".join(f"{fix.do} {fix.why or ''}" for fix in found.fixes[:most])


def test_every_item_has_its_answer_and_its_log() -> None:
    wanted = {f"{document}{number}" for document, numbers in ITEMS.items() for number in numbers}
    assert len(wanted) == 48
    assert {name.partition("_")[0] for name in {*FIRST_FIX, *ANY_FIX}} == wanted
    assert {path.stem for path in LOGS.glob("*.log")} == {*FIRST_FIX, *ANY_FIX}


@pytest.mark.parametrize(
    ("name", "rule", "most", "said"),
    [(name, rule, most, said) for table, most in ((FIRST_FIX, 1), (ANY_FIX, 4)) for name, (rule, *said) in table.items()],
)  # fmt: skip
def test_a_known_failure_is_answered_with_its_own_numbers(name: str, rule: str, most: int, said: list[str]) -> None:
    found = verdict(name)
    assert (found.verdict, found.cause.id) == ("failed", rule.partition("/")[0])
    assert found.cause.rule == (rule if "/" in rule else found.cause.rule)
    assert 1 <= len(found.fixes) <= 3 + found.extent.whole_node  # where one node alone failed, that is said besides
    assert [words for words in said if words not in shown(found, most)] == [], shown(found, most)


@pytest.mark.parametrize("log", sorted(LOGS.glob("*.log")), ids=lambda log: log.stem)
def test_no_answer_is_wrong_advice(log: Path) -> None:
    """A longer time-out cures no crash, more time no hang, and no sentence is left with a hole."""
    found = verdict(log.stem)
    assert not re.search(ANSWERS["never"].get(log.stem, "(?!)"), shown(found))
    if found.cause.id not in ("nccl-id-timeout", "collective-timeout", "rendezvous-timeout", "hang"):
        assert "timedelta(" not in shown(found)
    for text in (*(fix.do for fix in found.fixes), *found.verify):
        assert "None" not in text.split()
        assert not re.search(r"(?<!\$)\{\w+\}", text), text


def test_four_failures_of_one_wait_are_told_apart() -> None:
    assert len({shown(verdict(name), 1) for name in ("mb9", "mb10", "mb11", "mb12")}) == 4


def test_what_an_out_of_memory_needs_to_be_verified() -> None:
    assert "max_memory_allocated" in "\n".join(verdict("ml2").verify)
