"""What a process did while the others waited: work as long as their timeout is told, with advice that follows; shorter work is not."""

from __future__ import annotations

import pytest

import slurmdoctor
from slurmdoctor import Diagnosis

_WAITED = "[E ProcessGroupNCCL.cpp:475] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=2, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1800000) ran for {ran} milliseconds before timing out.\n"
_STAMPED = "[rank{r}]:[E218 10:48:25.033625188 ProcessGroupNCCL.cpp:632] [Rank {r}] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=1200000) ran for 1200027 milliseconds before timing out.\n"
_ABORTED = "srun: error: gpu01: tasks 0-1: Aborted (core dumped)\n"
_BAR = "{what}:   9%|9         | 2800/29695 [{elapsed}<4:48:08, 1.55 examples/s]"


def _all_that_is_said(found: Diagnosis) -> str:
    retry = found.retry.advice if found.retry else None
    return " ".join([*found.reasons, *(f"{fix.do} {fix.why}" for fix in found.fixes), str(retry)])


def _waits(*ranks: int, ran: int = 1800328) -> str:
    return "".join(_WAITED.format(r=rank, ran=ran) for rank in ranks)


@pytest.mark.parametrize("end", ["", "\r", "\n", " "])
@pytest.mark.parametrize(
    "what", ["Running tokenizer on dataset", "Map (num_proc=8)", "Generating train split", "Fetching 9 files"]
)
def test_data_that_was_prepared_as_long_as_the_others_wait_is_told(what: str, end: str) -> None:
    found = slurmdoctor.diagnose(_BAR.format(what=what, elapsed="29:55") + end + _waits(2, 1, 3))
    said = _all_that_is_said(found)
    assert found.facts["busy"] in ("preparing", "fetching")
    assert "2800 of 29695 after 29:55" in said
    assert "try the network" not in said.lower()


@pytest.mark.parametrize(
    "log",
    [
        _BAR.format(what="Running tokenizer on dataset", elapsed="02:10") + "\n" + _waits(2, 1, 3),
        _BAR.format(what="Epoch 3", elapsed="29:55") + _waits(2, 1, 3),
        _BAR.format(what="Map", elapsed="29:55")
        + "\nstep 1/9 loss 3.1 9 ms\nstep 2/9 loss 3.0 9 ms\n"
        + _waits(2, 1, 3),
        "2026-02-18 10:45:25,496 - root - INFO - Saving latest checkpoint model\n" + _STAMPED.format(r=7),
        "saving the checkpoint\n" + _waits(0, 1),
    ],
    ids=["short", "training", "steps followed", "just begun", "no time"],
)
def test_work_that_explains_no_wait_is_not_told(log: str) -> None:
    assert "busy" not in slurmdoctor.diagnose(log).facts


def test_a_save_as_long_as_the_timeout_is_told() -> None:
    log = "2026-02-18 10:28:25,496 - root - INFO - Saving latest checkpoint model of epoch 3\n" + _STAMPED.format(r=7)
    found = slurmdoctor.diagnose(log)
    assert found.facts["busy"] == "saving"
    assert "one process was saving" in " ".join(found.reasons)


def test_a_wait_for_rank_0_whose_bar_ran_on_names_rank_0() -> None:
    log = _BAR.format(what="Tokenizing Prompts (num_proc=64)", elapsed="29:58") + (
        "[rank1]: torch.distributed.DistBackendError: [1] is setting up NCCL communicator and retrieving ncclUniqueId from [0] via "
        "c10d key-value store by key '0', but store->get('0') got error: wait timeout after 1800000ms, keys: /default_pg/0//cuda//0\n"
    )
    found = slurmdoctor.diagnose(log)
    assert found.first_failure is not None
    assert (found.first_failure.rank, found.extent.ranks if found.extent else None) == (0, (0,))
    assert "Tokenizing Prompts" in _all_that_is_said(found)


def test_a_training_that_was_complete_before_its_end_hung_is_told_so() -> None:
    found = slurmdoctor.diagnose("`Trainer.fit` stopped: `max_epochs=40` reached.\n" + _waits(0, 1) + _ABORTED)
    said = _all_that_is_said(found)
    assert "training is complete" in said
    assert "fabric" not in " ".join(found.reasons)
    later = slurmdoctor.diagnose(
        "`Trainer.fit` stopped: `max_epochs=40` reached.\nstep 1/90 loss 3.1 9 ms\nstep 2/90 loss 3.0 9 ms\n"
        + _waits(0, 1)
    )
    assert "busy" not in later.facts


@pytest.mark.parametrize(("ran", "told"), [(25624887, True), (1800328, False), (3500000, False)])
def test_a_watchdog_that_tells_hours_later_was_blocked_itself(ran: int, told: bool) -> None:
    reasons = " ".join(slurmdoctor.diagnose(_waits(0, ran=ran)).reasons)
    assert ("7.1 h" in reasons and "14 times the limit of 30 m" in reasons) == told
