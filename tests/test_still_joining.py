"""A log that ends while ranks join tells who is absent, and accuses nobody."""

import pytest

from slurmdoctor import diagnose

JOINED = "initializing ddp: GLOBAL_RANK: {r}, MEMBER: {m}/{of}\n"


def joined(*ranks: int, of: int = 8) -> str:
    return "GPU available: True, used: True\n" + "".join(JOINED.format(r=r, m=r + 1, of=of) for r in ranks)


@pytest.mark.parametrize(("ranks", "told"), [((1, 2, 0, 3), "4 of 8 ranks"), ((0, 1, 2, 4, 5, 6, 7), "7 of 8 ranks")])
def test_complaint_24_the_absent_ranks_are_told(ranks: tuple[int, ...], told: str) -> None:
    found = diagnose(joined(*ranks))
    assert found.verdict == "unknown"
    assert told in found.reasons[0]
    assert ("ranks 4-7" if len(ranks) == 4 else "ranks 3") in found.reasons[0]


@pytest.mark.parametrize(
    "log",
    [
        joined(*range(8)),
        joined(0, 1, 2, 3) + "All distributed processes registered. Starting with 8 processes\n",
        joined(0, 1, 2, 3) + "step 1/9 loss 3.1 9 ms\nstep 2/9 loss 3.0 9 ms\n",
    ],
    ids=["all came", "registered", "steps were made"],
)
def test_where_all_came_nobody_is_absent(log: str) -> None:
    assert "joined" not in " ".join(diagnose(log).reasons)
