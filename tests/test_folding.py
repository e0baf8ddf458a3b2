"""Lists of ranks and nodes fold in every sentence; the JSON keeps them whole."""

import pytest
from hypothesis import given, strategies as st

from slurmdoctor import diagnose
from slurmdoctor.model import expand_nodes, fold_nodes, ranges
from slurmdoctor.report import text_report as text


@pytest.mark.parametrize(
    ("names", "folded"),
    [
        ("cn01 cn02 cn03 gpu7", "cn[01-03],gpu7"),
        ("cn9 cn10 cn11", "cn[9-11]"),
        ("cn09 cn10 cn12", "cn[09-10,12]"),
        ("gpu01.demo.org gpu02.demo.org", "gpu[01-02].demo.org"),
        ("n1-g1 n1-g2 n1-g4", "n1-g[1-2,4]"),
        ("10.0.0.1 10.0.0.2", "10.0.0.1,10.0.0.2"),
        ("login cn01", "login,cn01"),
        ("", ""),
    ],
)
def test_nodes_fold_as_slurm_writes_them(names: str, folded: str) -> None:
    assert fold_nodes(names.split()) == folded
    assert expand_nodes(folded) == names.split()


@given(st.lists(st.from_regex(r"[a-z]{1,3}-?[0-9]{1,4}", fullmatch=True), max_size=20, unique=True))
def test_no_node_is_lost_by_folding(names: list[str]) -> None:
    assert sorted(expand_nodes(fold_nodes(names))) == sorted(names)


def test_a_long_list_of_ranks_says_how_many_more() -> None:
    assert ranges(range(0, 160, 2), 3) == "0,2,4 and 77 more"
    assert ranges((0, 1, 2, 7, 9), 3) == "0-2,7,9"
    assert ranges((0, 1, 2, 7, 9), 2) == "0-2,7 and 1 more"


def shown(log: str, width: int = 80) -> str:
    return text.render_text(diagnose(log), width=width, colour=False, ranks=True)


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
    watchdog = (
        "[E1120 12:11:03.400000000 ProcessGroupNCCL.cpp:607] [Rank {0}] Watchdog caught collective operation timeout: "
        "WorkNCCL(SeqNum=62, OpType=ALLREDUCE, NumelIn=1, NumelOut=1, Timeout(ms)=600000) ran for 600012 milliseconds before "
        "timing out."
    )
    log = "".join(f"{r}: rank {r} of 160 on cn{r // 8:04}\n" for r in range(160))
    log += "".join(f"{r}: [rank{r}]:{watchdog.format(r)}\n" for r in range(160) if r not in silent)
    said = shown(log)
    assert "more" in said
    assert max(len(word) for word in said.split()) < 60
    assert sum(len(group.ranks) for group in diagnose(log).ranks) == 160 - len(silent)
