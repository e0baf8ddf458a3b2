"""Answers of surveys, made by hand: a big cluster, a group's twelve jobs, none, and the worst that a dataset can hold."""

from datetime import date, datetime, timedelta

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

_CAUSES = (
    ("collective-timeout", "waited for a collective that never came", 412, 61, 18_204.5, 401),
    ("cuda-oom", "ran out of GPU memory", 655, 118, 9_120.25, 640),
    ("gpu-ecc", "hit an uncorrectable memory error of its GPU", 96, 44, 6_881.0, 96),
    ("time-limit", "reached its time limit", 310, 90, 5_410.0, 310),
    ("node-failure", "was lost with its node", 48, 31, 4_377.0, 48),
    ("exception", "raised an exception", 702, 170, 2_950.75, 655),
    ("unknown", None, 166, 80, 1_480.0, 121),
    ("host-oom", "was killed for its memory use", 121, 52, 903.5, 121),
    ("disk-full", "found no space left on a file system", 66, 20, 410.0, 60),
    ("module-not-found", "did not find a Python module", 144, 66, 21.75, 140),
)


def _causes(failed: int) -> tuple[Cost, ...]:
    return tuple(Cost(name, jobs, failed, users, hours, known, title=title) for name, title, jobs, users, hours, known in _CAUSES)  # fmt: skip


def _periods() -> tuple[Period, ...]:
    """Twenty-six weeks; in the nineteenth the network was bad, and memory errors end with the twelfth."""
    found = []
    for week in range(26):
        causes = []
        for at, (name, title, jobs, users, hours, known) in enumerate(_CAUSES):
            part = (1.0 + ((week * 7 + at * 5) % 11 - 5) / 12) / 26
            part *= 4.0 if (week, name) == (18, "collective-timeout") else 1.0
            part *= (1.8 if week < 12 else 0.25) if name == "gpu-ecc" else 1.0
            if count := round(jobs * part):
                causes.append(
                    Cost(name, count, 0, min(count, users), hours * part, min(count, round(known * part)), title=title)
                )
        failed = sum(cost.jobs for cost in causes)
        costs = tuple(
            Cost(c.what, c.jobs, failed, c.users, c.gpu_hours_lost, c.with_hours, title=c.title) for c in causes
        )
        found.append(Period(date(2026, 5, 25) + timedelta(weeks=week), 680 + week * 9 % 140, costs))
    return tuple(found)


BIG = Answers(
    jobs=20_312, read=6_192, failed=2_720, healthy=3_402, undecided=331, errors=12, no_log=261, not_asked=13_847,
    completed_but_failed=37, first=datetime(2026, 5, 25, 0, 4), last=datetime(2026, 11, 22, 23, 51),
    gpu_hours=1_204_118.0, gpu_hours_lost=49_758.75, with_hours=19_877, failed_with_hours=2_592,
    lost_counted=(("since-checkpoint", 1_204), ("whole-run", 1_388)),
    causes=_causes(2_720), periods=_periods(), period="week",
    partitions=(
        Cost("h100", 1_511, 8_207, 140, 39_804.0, 1_502, 804_661.0), Cost("a100", 808, 7_190, 166, 9_310.5, 802, 355_000.0),
        Cost("debug", 351, 4_611, 203, 611.25, 240, 42_007.0), Cost("interactive", 50, 304, 31, 33.0, 48, 2_450.0),
    ),
    users=tuple(Cost(f"user{at:02}", 400 // (at + 1), 1_900 // (at + 1), 1, 14_000 / (at + 1), 390 // (at + 1), 90_000 / (at + 1)) for at in range(40)),
    nodes=Nodes(
        tested=412, failures=231, hours=604_331.0, of_programs=1_922, without_node=61, counted_already=5, jobs_left_out=44,
        test="A node is a suspect where more failures fell on it than its share of all node hours explains (binomial, Holm, 5 %).",
        suspects=(
            Suspect("gpu-0217", 19, 16, 0.58, 311, 1_504.0, 11, (("gpu-ecc", 16), ("node-failure", 3)), 3.1e-20),
            Suspect("gpu-0031", 9, 2, 0.61, 290, 1_611.5, 6, (("infiniband-error", 7), ("gpu-fell-off-bus", 2)), 8.8e-6),
            Suspect("gpu-0388", 6, 6, 0.55, 301, 1_420.0, 1, (("gpu-ecc", 6),), 0.021),
        ),
        exclude="#SBATCH --exclude=gpu-[0031,0217,0388]",
    ),
    sizes=(
        SizeClass(1, 1, 9_204, 802, 88_120.0, 109.9, 102.5, 117.8, 40, 2_203.0, 1_574.0, 3_083.0), SizeClass(2, 8, 7_411, 1_004, 71_003.0, 70.7, 66.5, 75.2, 96, 739.6, 605.5, 911.8),
        SizeClass(9, 32, 1_880, 420, 12_208.0, 29.1, 26.4, 32.0, 71, 171.9, 136.3, 220.2), SizeClass(33, 128, 904, 310, 4_402.0, 14.2, 12.7, 15.9, 66, 66.7, 52.4, 86.2),
        SizeClass(129, 512, 300, 144, 1_211.0, 8.4, 7.1, 9.9, 51, 23.7, 18.1, 31.9), SizeClass(513, None, 6, 0, 21.5, None, 5.8, None, 0, None, 5.8, None),
    ),
    delays=Delays(
        1_977, 2_720, 214.0, 1_830.0, 3_118.5, 1_961,
        (("481223", 86_400.0, 1_536.0), ("490117_3", 21_600.0, 192.0), ("475001", 5_400.0, 96.5)),
    ),
    repeats=(
        Repeat("user00", "pretrain-7b", "cuda-oom", 14, datetime(2026, 9, 1, 3, 12), datetime(2026, 9, 4, 18, 0), 820.5,
               tuple(str(470_000 + at) for at in range(14))),
        Repeat("user03", None, "module-not-found", 6, datetime(2026, 10, 2, 9, 0), datetime(2026, 10, 2, 9, 44), 0.75, ("488001", "488004")),
    ),
    unknown=Unknown(166, 2_720, 151, (
        UnknownKind("solver diverged at step <NUM>", 41, 3, 611.0, "solver diverged at step 1288, residual nan",
                    "slurmdoctor rules new site/solver-diverged --line 'solver diverged at step 1288, residual nan'"),
        UnknownKind("licence server <*> refused", 17, 9, 12.5, "licence server lic02 refused: no seats",
                    "slurmdoctor rules new site/licence-server --line 'licence server lic02 refused: no seats'"),
    )),
    partitions_in_all=4, users_in_all=812, sizes_left_out=435, undated=9, repeats_in_all=88, repeated_jobs=311, repeated_gpu_hours=4_870.25,
    rules_versions=2, clusters=("alps", "demo"),
)  # fmt: skip
"""Half a year of a cluster of 412 nodes."""

SMALL = Answers(
    jobs=12, read=12, failed=5, healthy=6, undecided=1, first=datetime(2026, 11, 16, 9, 0), last=datetime(2026, 11, 19, 17, 30),
    causes=(
        Cost("cuda-oom", 3, 5, 1, title="ran out of GPU memory"), Cost("key-error", 1, 5, 1, title="raised a KeyError"),
        Cost("unknown", 1, 5, 1),
    ),
    periods=(
        Period(date(2026, 11, 16), 5, (Cost("cuda-oom", 3, 3, 1),)), Period(date(2026, 11, 17), 1, ()),
        Period(date(2026, 11, 19), 6, (Cost("key-error", 1, 2, 1), Cost("unknown", 1, 2, 1))),
    ),
    users=(Cost("ada", 5, 12, 1),), delays=Delays(0, 5), unknown=Unknown(1, 5, 0),
)  # fmt: skip
"""Twelve logs of a folder, without Slurm: no GPU hours, no partitions, no nodes."""

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
