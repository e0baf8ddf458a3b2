"""A cluster of made-up jobs, for the test of nodes: users with favorite nodes, broken programs, unlike partitions, and lemons."""

import random
from collections import defaultdict
from collections.abc import Collection, Sequence

import duckdb

from slurmdoctor.survey.questions import suspects

Use = tuple[str, str, float, int, int]
"""Partition, node, hours, starts, jobs."""
Accusation = tuple[str, str, str, str, bool, str, str]
"""Partition, node, user, cause, whether it is certain, job name, day."""

NODES = {"a": 40, "h": 24}
"""Nodes of each partition; those of the second fail five times as often."""
_FAULTS = {"a": 1 / 2000, "h": 1 / 400}
"""Hardware faults an hour of a node."""


def named(
    seed: int, *, jobs: int = 1500, users: int = 20, faulty: Collection[str] = (), hanging: Collection[str] = ()
) -> list[str]:
    """The nodes that the test names. On `faulty` ones hardware breaks 40 times as often; on `hanging` ones a third of the jobs hangs."""
    chance = random.Random(seed)
    hours: dict[tuple[str, str], float] = defaultdict(float)
    works: dict[tuple[str, str], set[tuple[object, ...]]] = defaultdict(set)
    ran: dict[tuple[str, str], int] = defaultdict(int)
    events: list[Accusation] = []
    favorites = {user: {p: chance.sample(range(n), 4) for p, n in NODES.items()} for user in range(users)}
    for _ in range(jobs):
        user = min(int(chance.paretovariate(0.7)) - 1, users - 1)
        part = chance.choice("aah")
        wide = chance.choice((1, 1, 1, 2, 4, 8))
        pool = favorites[user][part] if wide <= 4 and chance.random() < 0.5 else range(NODES[part])
        nodes = [f"{part}{number:02}" for number in chance.sample(pool, wide)]
        day, name = str(chance.randrange(28)), f"train{chance.randrange(3)}"
        wanted = chance.choice((0.1, 1, 4, 24))
        end = wanted
        rates = {node: _FAULTS[part] * (40 if node in faulty else 1) for node in nodes}
        if chance.random() < 1 - 2.718281828 ** -(sum(rates.values()) * wanted):
            struck = chance.choices(nodes, list(rates.values()))[0]
            end = wanted * chance.random()
            events.append((part, struck, str(user), "gpu-fault", True, name, day))
        elif any(node in hanging for node in nodes) and chance.random() < 0.33:
            events.append((part, next(n for n in nodes if n in hanging), str(user), "hang", False, name, day))
        elif chance.random() < (0.5 if user == 0 and name == "train0" else 0.03):  # a broken program, and bad luck
            events.append((part, chance.choice(nodes), str(user), "collective-timeout", False, name, day))
        for node in nodes:
            hours[part, node] += end
            works[part, node].add((user, name, day))
            ran[part, node] += 1
    uses = [(part, node, hours[part, node], len(works[part, node]), ran[part, node]) for part, node in hours]
    return outcome(uses, events)[1]


def outcome(uses: Sequence[Use], accusations: Sequence[Accusation]) -> tuple[int, list[str]]:
    """How many nodes are tested, and those that are named."""

    def values(rows: Sequence[tuple[object, ...]]) -> str:
        return ", ".join(map(repr, rows))

    with duckdb.connect() as connection:
        connection.execute(
            f"CREATE TABLE uses AS SELECT *, node AS called FROM (VALUES {values(uses)}) t(part, node, hours, starts, jobs)"
        )
        connection.execute(
            'CREATE TABLE accusations (part TEXT, node TEXT, "user" TEXT, cause TEXT, certain BOOL, name TEXT, day TEXT, place INT)'
        )
        if accusations:
            connection.execute(
                f"INSERT INTO accusations VALUES {values([(*one, at) for at, one in enumerate(accusations)])}"
            )
        found = suspects(connection)
        [(tested,)] = connection.execute("SELECT count(*) FROM tested").fetchall()
        return tested, [one.node for one in found]
