"""What `slurmdoctor lint` says to do, done, on a real Slurm: the script shows its fault, and with the fix it does not."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from slurmdoctor.slurm.script.linter import lint
from slurmdoctor.slurm.script.parser import parse

from . import programs
from .cluster import PATH, Cluster
from .conftest import started
from .faults import CASES, Case, Outcome, is_of_ranks
from .programs import Call

pytestmark = pytest.mark.slow


@dataclass(slots=True)
class Pair:
    """A case's two jobs."""

    case: Case
    cluster: Cluster
    root: Path
    jobs: dict[str, str]

    def outcome(self, which: str) -> Outcome:
        folder = self.root / which
        if self.case.lives_on and which == "bad":
            self.cluster.wait(self.jobs["cured"], 240)
            record = self.cluster.record(self.jobs["bad"])
        else:
            record = self.cluster.wait(self.jobs[which], 240)
        return Outcome(record, programs.calls(folder / "seen"), self.cluster.output(self.jobs[which]), folder)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    yield from started(Cluster(tmp_path_factory.mktemp("cures", numbered=True), gpus=64))


@pytest.fixture(scope="module")
def pairs(
    cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, Pair]:
    """All jobs are sent at once: most of the time is waiting."""
    own = [item for item in request.session.items if isinstance(item, pytest.Function)]
    wanted = cast(list[Case], [item.callspec.params["case"] for item in own if "pairs" in item.fixturenames])
    tools = tmp_path_factory.mktemp("tools") / "bin"
    programs.write(tools)
    return {case.name: _send(case, cluster, tools, tmp_path_factory.mktemp("job")) for case in wanted}


def _send(case: Case, cluster: Cluster, tools: Path, root: Path) -> Pair:
    jobs = {}
    for which, text in (("bad", case.script), ("cured", case.mended)):
        (root / which / "seen").mkdir(parents=True)
        env = {"PATH": f"{tools}:{PATH}", "SEEN": f"{root}/{which}/seen", "TRAINING": case.training, "HOME": str(tools)}
        jobs[which] = cluster.submit(text, f"--chdir={root / which}", f"--time=0:{case.seconds}", env=env)
    return Pair(case, cluster, root, jobs)


def without_ranks(call: Call) -> tuple[str, ...]:
    """A call's words but for what differs from task to task."""
    words = re.sub(
        r"((?:node|machine|local|[^-\w])[-_]?rank[= \0]|--rank[= \0])\S*?(?=\0|$)", r"\1R", "\0".join(call.args)
    )
    return (call.program, *words.split("\0"))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_fix_works(case: Case, pairs: dict[str, Pair]) -> None:
    bad, good = pairs[case.name].outcome("bad"), pairs[case.name].outcome("cured")
    told = f"\n{case.mended}\n{good.output}\n{[(c.program, c.args) for c in good.calls]}"
    assert not case.sound(bad), f"the script shows no fault: {[(c.program, c.args) for c in bad.calls]}"
    assert case.sound(good), told
    if case.same_words:
        assert set(map(without_ranks, good.calls)) == set(map(without_ranks, bad.calls)), told


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_finding_is_left(case: Case) -> None:
    left = lint(parse(case.mended))
    assert [m.check for m in left if m.check == case.check or is_of_ranks(m)] == []
