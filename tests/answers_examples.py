"""Answers of surveys, made by hand: a big cluster, a group's twelve jobs, none, and the worst that a dataset can hold."""

from datetime import date, timedelta

import msgspec
from msgspec.structs import replace

from slurmdoctor.survey.answers import (
    Answers,
    Cost,
    Delays,
    Nodes,
    Period,
    Repeat,
    SizeClass,
    Suspect,
    Unknown,
    UnknownKind,
)
from tables import table

_TOLD = table("answers_examples")


def _periods(whole: tuple[Cost, ...]) -> tuple[Period, ...]:
    """Twenty-six weeks; in the nineteenth the network was bad, and memory errors end with the twelfth."""
    found = []
    for week in range(26):
        causes = []
        for at, cost in enumerate(whole):
            part = (1.0 + ((week * 7 + at * 5) % 11 - 5) / 12) / 26
            part *= 4.0 if (week, cost.what) == (18, "collective-timeout") else 1.0
            part *= (1.8 if week < 12 else 0.25) if cost.what == "gpu-ecc" else 1.0
            if count := round(cost.jobs * part):
                hours, known = cost.gpu_hours_lost * part, min(count, round(cost.with_hours * part))
                causes.append(Cost(cost.what, count, 0, min(count, cost.users), hours, known, title=cost.title))
        failed = sum(cost.jobs for cost in causes)
        begins, costs = date(2026, 5, 25) + timedelta(weeks=week), tuple(replace(cost, of=failed) for cost in causes)
        found.append(Period(begins, 680 + week * 9 % 140, costs))
    return tuple(found)


_BIG, SMALL = (msgspec.convert(told, Answers) for told in _TOLD.values())
_USERS = (Cost(f"user{n - 1:02}", 400 // n, 1_900 // n, 1, 14_000 / n, 390 // n, 90_000 / n) for n in range(1, 41))
BIG = replace(_BIG, periods=_periods(_BIG.causes), users=tuple(_USERS))
EMPTY = Answers()


def hostile(said: str) -> Answers:
    """Answers in which every text is this one."""
    cost = Cost(said, 3, 9, 1, 4.5, 2, 20.0, said)
    suspect = Suspect(said, 9, 3, 0.5, 10, 20.0, 2, ((said, 9),), 1e-9)
    kind = UnknownKind(said, 2, 1, 1.5, said, said)
    return Answers(
        jobs=9, read=9, failed=3, gpu_hours=20.0, gpu_hours_lost=9.0, with_hours=9, failed_with_hours=3, lost_counted=((said, 3),),
        causes=(cost,), periods=(Period(date(2026, 11, 16), 9, (cost,)),), period="day", partitions=(cost,), users=(cost,),
        nodes=Nodes(3, 9, 60.0, said, 1, suspects=(suspect,), exclude=said), delays=Delays(1, 3, 5.0, 9.0, 1.0, 1, ((said, 5.0, 1.0),)),
        repeats=(Repeat(said, said, said, 3, None, None, 2.0, (said,) * 3),), unknown=Unknown(2, 3, 2, (kind,)), clusters=(said,),
    )  # fmt: skip


def many(count: int, name: str = "n" * 5_000) -> Answers:
    """So many of everything, with long names."""
    one = hostile(name)
    costs = tuple(Cost(f"{name}{at}", 3, 9, 1, 4.5, 2, 20.0, name) for at in range(count))
    days = tuple(date(1990, 1, 1) + timedelta(days=at) for at in range(min(count, 36)))
    suspects = tuple(Suspect(f"{name}{at}", 9, 3, 0.5, 10, 20.0, 2, ((name, 1),) * count, 1e-9) for at in range(count))
    return Answers(
        jobs=9 * count, read=9 * count, failed=3 * count, gpu_hours=1e9, gpu_hours_lost=4.5 * count, with_hours=9 * count, failed_with_hours=3 * count,
        causes=costs, partitions=costs, users=costs, periods=tuple(Period(day, 9, costs[:50]) for day in days),
        nodes=Nodes(count, 9 * count, 1e6, name, suspects=suspects, exclude=f"#SBATCH --exclude=node[{','.join(map(str, range(0, 2 * count, 2)))}]"),
        delays=Delays(count, count, 5.0, 9.0, 1.0, count, ((name, 5.0, 1.0),) * count), repeats=one.repeats * count,
        sizes=tuple(SizeClass(at, at, 9, 3, 9.0, 3.0, 1.0, 9.0) for at in range(min(count, 6))),
        unknown=Unknown(count, 3 * count, count, one.unknown.kinds * count), clusters=(name,) * count,
    )  # fmt: skip
