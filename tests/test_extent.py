"""How far a failure reached: counted without a cap, of a number only where the log tells it, and on which nodes."""

import pytest

from builders import raised
from slurmdoctor import diagnose
from slurmdoctor.report.result import Diagnosis
from slurmdoctor.report.wording import headline


def extent(verdict: Diagnosis) -> object:
    return verdict.to_dict()["extent"]


ERRORS = {
    "a cause with rules": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
    "an exception that no rule knows": "KeyError: 'x'",
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_six_hundred_ranks_are_six_hundred(error: str) -> None:
    verdict = diagnose("world_size=640\n" + "".join(raised(error, f"[rank{r}]: ") for r in range(600)))
    assert headline(verdict).startswith("600 of 640 ranks (0-599)")
    assert extent(verdict) == {"failed": 600, "of": 640, "ranks": "0-599", "nodes": []}
    assert [(g.standing, len(g.ranks)) for g in verdict.ranks] == [("first", 1), ("first", 599), ("silent", 40)]


def test_without_a_size_there_is_neither_all_nor_of() -> None:
    verdict = diagnose("".join(raised("KeyError: 'x'", f"[rank{r}]: ") for r in range(4)))
    assert headline(verdict).startswith("ranks 0-3 raised")
    assert extent(verdict) == {"failed": 4, "of": None, "ranks": "0-3", "nodes": []}
    assert "all 4" not in "; ".join(verdict.reasons)


def test_all_of_a_known_number_are_all() -> None:
    verdict = diagnose("world_size=4\n" + "".join(raised("KeyError: 'x'", f"[rank{r}]: ") for r in range(4)))
    assert headline(verdict).startswith("all 4 ranks raised")


def started(ranks: int, a_node: int) -> str:
    return "".join(f"start on node{r // a_node}: rank {r} of {ranks}, local rank {r % a_node}\n" for r in range(ranks))


def test_one_node_is_told_and_to_be_looked_at() -> None:
    verdict = diagnose(started(16, 4) + "".join(raised("KeyError: 'x'", f"[rank{r}]: ") for r in range(8, 12)))
    assert headline(verdict).startswith("4 of 16 ranks (8-11), all on node2, raised")
    assert extent(verdict) == {"failed": 4, "of": 16, "ranks": "8-11", "nodes": ["node2"]}
    assert verdict.fixes[1].do == "Check node2: all its ranks (8-11) failed the same way, none of the other 12 did."


def test_a_node_is_not_suspected_where_others_ended_with_the_same_exit_code() -> None:
    """Their lines are lost: that they ended so is all the log has of them."""
    log = started(16, 4) + "".join(raised("KeyError: 'x'", f"[rank{r}]: ") for r in range(8, 12))
    log += "srun: error: node2: tasks 8-11: Exited with exit code 1\nsrun: error: node3: tasks 12-15: Exited with exit code {}\n"
    assert not any("node2" in fix.do for fix in diagnose(log.format(1)).fixes)
    assert any("node2" in fix.do for fix in diagnose(log.format(6)).fixes)


@pytest.mark.parametrize("ranks", [(8, 9), (8, 9, 10, 11, 12), tuple(range(16))])
def test_ranks_that_are_not_just_one_node_do_not_speak_against_a_node(ranks: tuple[int, ...]) -> None:
    verdict = diagnose(started(16, 4) + "".join(raised("KeyError: 'x'", f"[rank{r}]: ") for r in ranks))
    assert not any("node2" in fix.do for fix in verdict.fixes)


def test_those_who_only_waited_do_not_speak_against_their_node() -> None:
    timeout = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
    verdict = diagnose(started(16, 4) + "".join(raised(timeout, f"[rank{r}]: ") for r in range(8, 12)))
    assert not any(fix.do.startswith("Check node2") for fix in verdict.fixes)


def test_one_line_without_a_label_is_one_process_whatever_ended_with_it() -> None:
    oom = (
        "OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 2 has a total capacity of 15.78 GiB\n"
    )
    ends = (
        "srun: error: n2: tasks 4,6-7: Exited with exit code 1\nsrun: error: n1: tasks 0-2: Exited with exit code 1\n"
    )
    verdict = diagnose(oom + ends)
    assert not any(word in headline(verdict) for word in ("ranks", "all"))
    assert "no end of tasks 3,5" in "; ".join(verdict.reasons)
    each = diagnose(oom * 6 + "srun: error: n1: tasks 0-5: Exited with exit code 1\n")
    assert headline(each).startswith("all 6 ranks")


def test_one_is_no_ranks() -> None:
    waits = (
        "[rank118]:[E603 17:48:01.005 ProcessGroupNCCL.cpp:632] [Rank 118] Watchdog caught collective operation timeout: WorkNCCL("
        "SeqNum=2398459, OpType=ALLREDUCE, NumelIn=8, NumelOut=8, Timeout(ms)=1800000) ran for 1800068 milliseconds before timing out."
    )
    verdict = diagnose(waits + "\n" + waits.replace("118", "119").replace("2398459", "2398458"))
    assert "1 ranks" not in verdict.to_markdown()
    assert "1 ranks" not in str(verdict.to_dict())
