"""How far a failure reached: counted without a cap, of a number only where the log shows it; lists of ranks and nodes fold."""

from collections.abc import Iterable

import pytest
from hypothesis import given, strategies as st

from builders import left_out, raised, watchdog
from slurmdoctor import Diagnosis, diagnose
from slurmdoctor.model import expand_nodes, fold_nodes, ranges
from slurmdoctor.report.text_report import render_text
from slurmdoctor.report.wording import headline


def extent(verdict: Diagnosis) -> object:
    return verdict.to_dict()["extent"]


def errors(ranks: Iterable[int], error: str = "KeyError: 'x'") -> str:
    return "".join(raised(error, f"[rank{rank}]: ") for rank in ranks)


def started(ranks: int = 16, a_node: int = 4) -> str:
    return "".join(f"start on node{r // a_node}: rank {r} of {ranks}, local rank {r % a_node}\n" for r in range(ranks))


ERRORS = {
    "a cause with rules": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
    "an exception that no rule knows": "KeyError: 'x'",
}


@pytest.mark.parametrize("error", ERRORS.values(), ids=ERRORS)
def test_six_hundred_ranks_are_six_hundred(error: str) -> None:
    verdict = diagnose("world_size=640\n" + errors(range(600), error))
    assert headline(verdict).startswith("600 of 640 ranks (0-599)")
    assert extent(verdict) == {"failed": 600, "of": 640, "ranks": "0-599", "nodes": []}
    assert [(g.standing, len(g.ranks)) for g in verdict.ranks] == [("first", 600), ("silent", 40)]


def test_only_of_a_known_number_there_is_all_and_of() -> None:
    verdict = diagnose(errors(range(4)))
    assert headline(verdict).startswith("ranks 0-3 raised")
    assert extent(verdict) == {"failed": 4, "of": None, "ranks": "0-3", "nodes": []}
    assert "all 4" not in "; ".join(verdict.reasons)
    verdict = diagnose("world_size=4\n" + errors(range(4)))
    assert headline(verdict).startswith("all 4 ranks raised")


def test_one_node_is_told_and_to_be_looked_at() -> None:
    verdict = diagnose(started() + errors(range(8, 12)))
    assert headline(verdict).startswith("4 of 16 ranks (8-11), all on node2, raised")
    assert extent(verdict) == {"failed": 4, "of": 16, "ranks": "8-11", "nodes": ["node2"]}
    assert verdict.fixes[1].do == "Check node2: all its ranks (8-11) failed the same way, none of the other 12 did."


def test_a_node_is_not_suspected_where_others_ended_with_the_same_exit_code() -> None:
    """Their lines are lost: that they ended so is all the log has of them."""
    log = started() + errors(range(8, 12))
    log += "srun: error: node2: tasks 8-11: Exited with exit code 1\nsrun: error: node3: tasks 12-15: Exited with exit code {}\n"
    assert not any("node2" in fix.do for fix in diagnose(log.format(1)).fixes)
    assert any("node2" in fix.do for fix in diagnose(log.format(6)).fixes)


def test_of_one_rank_a_node_those_that_failed_speak_against_theirs() -> None:
    fault = "RuntimeError: CUDA error: uncorrectable ECC error encountered"
    assert left_out(diagnose(started(4, a_node=1) + errors((1, 2), fault))) == ("node1", "node2")


@pytest.mark.parametrize("ranks", [(8, 9), (8, 9, 10, 11, 12), tuple(range(16))])
def test_ranks_that_are_not_just_one_node_do_not_speak_against_a_node(ranks: tuple[int, ...]) -> None:
    verdict = diagnose(started() + errors(ranks))
    assert not any("node2" in fix.do for fix in verdict.fixes)


def test_those_who_only_waited_do_not_speak_against_their_node() -> None:
    timeout = "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete"
    verdict = diagnose(started() + errors(range(8, 12), timeout))
    assert not any(fix.do.startswith("Check node2") for fix in verdict.fixes)


def test_one_line_without_a_label_is_one_process_whatever_ended_with_it() -> None:
    oom = "OutOfMemoryError: CUDA out of memory. Tried to allocate 112.00 MiB. GPU 2 has a total capacity of 15 GiB\n"
    ends = "srun: error: {}: tasks {}: Exited with exit code 1\n"
    verdict = diagnose(oom + ends.format("n2", "4,6-7") + ends.format("n1", "0-2"))
    assert not any(word in headline(verdict) for word in ("ranks", "all"))
    assert "no end of tasks 3,5" in "; ".join(verdict.reasons)
    each = diagnose(oom * 6 + ends.format("n1", "0-5"))
    assert headline(each).startswith("all 6 ranks")


def test_one_is_no_ranks() -> None:
    waits = (watchdog(r, f"[rank{r}]:[E603 17:48:01.005 ProcessGroupNCCL.cpp:632] ", 71 - r // 119) for r in (118, 119))
    verdict = diagnose("".join(waits))
    assert "1 ranks" not in verdict.to_markdown()
    assert "1 ranks" not in str(verdict.to_dict())


@given(st.lists(st.from_regex(r"[a-z]{1,3}-?[0-9]{1,4}", fullmatch=True), max_size=20, unique=True))
def test_no_node_is_lost_by_folding(names: list[str]) -> None:
    assert sorted(expand_nodes(fold_nodes(names))) == sorted(names)


def test_a_long_list_of_ranks_says_how_many_more() -> None:
    assert ranges(range(0, 160, 2), 3) == "0,2,4 and 77 more"
    assert ranges((0, 1, 2, 7, 9), 3) == "0-2,7,9"
    assert ranges((0, 1, 2, 7, 9), 2) == "0-2,7 and 1 more"


def shown(log: str) -> str:
    return render_text(diagnose(log), width=80, colour=False, ranks=True)


def test_a_node_failure_on_forty_nodes_folds_them() -> None:
    names = [f"cn{n:04}" for n in range(1, 41)]
    log = "0: iteration 3/ 5000, lm loss: 2.31\n" * 30 + f"srun: error: Node failure on {','.join(names)}\n"
    said = shown(log)
    assert "cn[0001-0040]" in said
    assert said.count("cn0039") <= 1  # in the quote alone
    found = diagnose(log)
    assert found.to_dict()["retry"]["exclude_nodes"] == names
    assert "--exclude=cn[0001-0040]" in found.to_markdown()


def test_eighty_scattered_ranks_are_not_listed_one_by_one() -> None:
    silent = {rank for rank in range(160) if rank * 7 % 13 < 6}
    log = "".join(f"{r}: rank {r} of 160 on cn{r // 8:04}\n" for r in range(160))
    label = "{0}: [rank{0}]:[E1120 12:11:03.400000000 ProcessGroupNCCL.cpp:607] "
    log += "".join(watchdog(r, label.format(r)) for r in range(160) if r not in silent)
    said = shown(log)
    assert "more" in said
    assert max(len(word) for word in said.split()) < 60
    assert sum(len(group.ranks) for group in diagnose(log).ranks) == 160 - len(silent)
