"""The tests behind a survey's answers: exact tails, intervals, and nodes that are named only where chance does not explain them."""

import random
from fractions import Fraction
from math import comb

import duckdb
import pytest

from simulated_cluster import Accusation, Use, named, outcome
from slurmdoctor.survey.compare import Change, changes
from slurmdoctor.survey.statistics import binomial_tail, holm, poisson_interval, poisson_tail, rates_differ


@pytest.mark.parametrize(("trials", "share"), [(1, Fraction(1, 2)), (20, Fraction(1, 7)), (40, Fraction(9, 10))])
def test_the_binomial_tail_is_exact(trials: int, share: Fraction) -> None:
    for count in range(trials + 2):
        exact = sum(comb(trials, k) * share**k * (1 - share) ** (trials - k) for k in range(count, trials + 1))
        assert binomial_tail(count, trials, float(share)) == pytest.approx(float(exact), rel=1e-9, abs=1e-15)


def test_the_tails_hold_for_a_million() -> None:
    assert binomial_tail(500_000, 1_000_000, 0.5) == pytest.approx(0.5004, abs=1e-4)
    assert binomial_tail(10_330, 1_000_000, 0.01) == pytest.approx(0.00048, abs=2e-5)
    assert poisson_tail(1_000_000, 1_000_000.0) == pytest.approx(0.5003, abs=1e-3)


TABLE = {
    0: (0.0, 3.6889),
    1: (0.0253, 5.5716),
    10: (4.7954, 18.3904),
    100: (81.3640, 121.6272),
    100_000: (99381.2, 100621.7),
}


def test_the_poisson_interval_is_that_of_the_tables_and_holm_corrects_the_smallest_most() -> None:
    for count, interval in TABLE.items():
        assert poisson_interval(count) == pytest.approx(interval, rel=2e-5, abs=1e-4)
    assert holm([0.04, 0.01, 0.03]) == pytest.approx([0.06, 0.03, 0.06])


def test_rates_differ_by_what_is_counted_and_not_by_what_was_run() -> None:
    assert rates_differ(10, 1000.0, 20, 2000.0) == 1.0
    assert rates_differ(10, 1000.0, 40, 1000.0) < 0.001
    assert rates_differ(0, 0.0, 4, 10.0) == 1.0


Blocks = list[tuple[int, float, int, float]]
"""(failures, jobs, failures and jobs after)"""


def changed(kinds: dict[tuple[str, str], Blocks]) -> dict[str, list[Change]]:
    """What a comparison says of blocks of jobs, by the kind of failures."""
    with duckdb.connect() as connection:
        for name, at in (("rates", 0), ("others", 2)):
            connection.execute(
                f'CREATE TABLE {name} (kind TEXT, what TEXT, block TEXT, failures BIGINT, "of" DOUBLE, lost DOUBLE, title TEXT)'
            )
            rows = [
                (*kind, n, *one[at : at + 2], 0, "") for kind, blocks in kinds.items() for n, one in enumerate(blocks)
            ]
            connection.execute(f"INSERT INTO {name} VALUES {', '.join(map(repr, rows))}")
        return changes(connection)


@pytest.mark.parametrize(
    ("blocks", "factor"),
    [
        ([(1, 10, 0, 10)] * 20 + [(0, 10, 0, 10)] * 380, 1.0),  # each failure of another user
        ([(10, 10, 0, 10)] * 2 + [(0, 10, 0, 10)] * 398, 10.0),  # two users whose ten jobs all fail
        ([(5, 10, 20, 40)] * 20 + [(0, 10, 0, 40)] * 20, 1.0),  # who always fails does so on both sides
        ([(5, 10, 5, 10)], float("inf")),
    ],
)
def test_failures_of_one_user_that_come_together_are_fewer(blocks: Blocks, factor: float) -> None:
    [whole] = changed({("all", "all"): blocks})["all"]
    assert whole.chance == rates_differ(whole.before, whole.before_of, whole.after, whole.after_of, factor)


def compared(seed: int, jobs: tuple[int, int], *, bursts: bool, more: float = 1.0) -> bool:
    """Whether two sides of the same forty users are said to differ: in all, or in one of three causes."""
    draw = random.Random(seed)
    rates = [draw.betavariate(1, 9) for _ in range(40)]
    blocks = [[[0, 0, 0, 0], [0, 0, 0, 0]] for _ in rates]
    for side, count in enumerate(jobs):
        left = count
        while left > 0:
            user = min(int(draw.expovariate(0.1)), 39)
            together = draw.randint(5, 40) if bursts and draw.random() < 0.05 else 1
            left -= together
            blocks[user][side][3] += together
            if draw.random() < rates[user] * (more if side else 1.0):
                blocks[user][side][draw.randrange(3)] += together
    kinds = {("cause", str(c)): [(a[c], 0.0, b[c], 0.0) for a, b in blocks] for c in range(3)}
    kinds["all", "all"] = [(sum(a[:3]), float(a[3]), sum(b[:3]), float(b[3])) for a, b in blocks]
    return any(one.trend != "chance" for table in changed(kinds).values() for one in table)


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [(800, 800), (400, 1600)])
@pytest.mark.parametrize("bursts", [False, True])
def test_chance_alone_is_rarely_a_change(jobs: tuple[int, int], bursts: bool) -> None:
    """Of equal and of unequal size, jobs alone and in bursts of one user."""
    assert sum(compared(seed, jobs, bursts=bursts) for seed in range(60)) <= 6  # 5 % is 3, and chance


@pytest.mark.slow
@pytest.mark.parametrize("jobs", [(1500, 1500), (800, 3200)])
def test_twice_the_failures_are_a_change(jobs: tuple[int, int]) -> None:
    assert sum(compared(seed, jobs, bursts=False, more=2.0) for seed in range(30)) >= 24


@pytest.mark.slow
def test_chance_names_a_node_in_less_than_a_twentieth_of_clusters() -> None:
    """With a broken program, favorite nodes, and partitions of which one fails five times as often."""
    assert sum(bool(named(seed, jobs=800)) for seed in range(30)) <= 3


@pytest.mark.parametrize(("faulty", "hanging"), [({"a07"}, set()), (set(), {"a07"})])
def test_a_lemon_is_mostly_found_and_no_other_node(faulty: set[str], hanging: set[str]) -> None:
    found = [named(seed, faulty=faulty, hanging=hanging) for seed in range(8)]
    assert sum(set(names) == faulty | hanging for names in found) >= 4
    assert sum(bool(set(names) - faulty - hanging) for names in found) <= 1


USES: list[Use] = [("gpu", f"node{number:02}", 100.0, 20, 20) for number in range(1, 33)]


def blamed(count: int, *, certain: bool, users: int, node: str = "node07") -> list[Accusation]:
    cause = "gpu-fault" if certain else "hang"
    return [("gpu", node, f"u{n % users}", cause, certain, "train", f"2026-10-{n + 1:02}") for n in range(count)]


@pytest.mark.parametrize(
    ("events", "suspected"),
    [
        (blamed(6, certain=True, users=1), True),  # a faulty GPU eats one user's job day after day
        (blamed(20, certain=False, users=1), False),  # a broken program on its user's favorite node
        (blamed(6, certain=False, users=6), True),
        (blamed(1, certain=True, users=1), False),
        ([e for use in USES for e in blamed(6, certain=True, users=1, node=use[1])], False),  # all nodes alike
    ],
)
def test_one_user_is_evidence_only_where_nothing_but_the_node_can_be_it(
    events: list[Accusation], suspected: bool
) -> None:
    assert outcome(USES, events) == (32, ["node07"] if suspected else [])


def test_a_partition_of_one_node_accuses_nobody() -> None:
    assert outcome(USES[:1], blamed(9, certain=True, users=3, node="node01")) == (0, [])


@pytest.mark.parametrize(("failures", "suspected"), [(1, []), (2, ["node02"])])
def test_one_failure_accuses_no_node_that_is_hardly_used(failures: int, suspected: list[str]) -> None:
    uses: list[Use] = [("gpu", "node01", 1000.0, 1000, 1000), ("gpu", "node02", 1.0, 2, 2)]
    assert outcome(uses, blamed(failures, certain=True, users=2, node="node02")) == (2, suspected)
