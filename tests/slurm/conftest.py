"""One cluster for all tests of this folder. Without Slurm they are skipped by name, or fail where it is required."""

import os
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from slurmdoctor.cli import hook

from . import accounts, endings
from .accounts import Accounts
from .cluster import PACKAGES, Cluster, missing
from .endings import Run

REQUIRED = os.environ.get("SLURMDOCTOR_REQUIRE_SLURM") == "1"


def absent(reason: str) -> None:
    if REQUIRED:
        pytest.fail(f"SLURMDOCTOR_REQUIRE_SLURM=1, but {reason}", pytrace=False)
    pytest.skip(reason)


def started(made: Cluster, lacks: Callable[[str], object] = absent) -> Iterator[Cluster]:
    """The cluster while it runs; it is stopped whatever happens."""
    if gone := missing():
        absent(f"Slurm is not installed here (no {', '.join(gone)}; on Debian: apt-get install {PACKAGES})")
    try:
        if not made.start():
            lacks(f"no Slurm could be started here: {made.trouble}")
        yield made
    finally:
        made.stop()


@pytest.fixture(scope="session")
def stub() -> Iterator[Path]:
    """A program in slurmdoctor's place that any user may run: it writes down who called it, and how."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own are closed to others
        Path(folder).chmod(0o777)
        program = Path(folder) / "stub"
        program.write_text(
            f"#!/bin/sh\necho $(id -un) $* $SLURM_CONF $SLURM_JOB_STDOUT > {folder}/called.new && mv {folder}/called.new {folder}/called\n"
        )
        program.chmod(0o755)
        yield program


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory, stub: Path) -> Iterator[Cluster]:
    made = Cluster(tmp_path_factory.mktemp("slurm", numbered=True))
    if os.geteuid() == 0:
        made.epilog = made.folder / "epilog.sh"
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("SLURM_CONF", made.env["SLURM_CONF"])
            made.epilog.write_text(hook.script("epilog", command=str(stub)))
        made.epilog.chmod(0o755)
    yield from started(made)


@pytest.fixture(scope="session")
def runs(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> dict[str, Run]:
    """Every ending, sent twice: with the footer and without. All at once, since most of the time is waiting."""
    selected = [item for item in request.session.items if "runs" in getattr(item, "fixturenames", ())]
    kinds = {item.get_closest_marker("slow") is not None for item in selected}
    wanted = [ending for ending in endings.ENDINGS if ending.slow in kinds]
    return endings.submit_all(cluster, tmp_path_factory.mktemp("tools"), wanted)


@pytest.fixture(scope="session")
def failed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Run]:
    """Two of the endings, for the tests of `--job`, which may run in another worker than those of the footer."""
    wanted = [ending for ending in endings.ENDINGS if ending.name in ("python-error", "tee-hides-it")]
    return endings.submit_all(cluster, tmp_path_factory.mktemp("tools"), wanted)


@pytest.fixture(scope="session")
def confined(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """A second cluster that confines memory: only where this machine lets us make cgroups."""
    memory = Path("/sys/fs/cgroup/memory") if Path("/sys/fs/cgroup/memory").is_dir() else Path("/sys/fs/cgroup")
    if os.geteuid() != 0 or not os.access(memory, os.W_OK):
        pytest.skip("cgroups cannot be made here: no memory can be confined")
    yield from started(Cluster(tmp_path_factory.mktemp("confined", numbered=True), memory=True), lacks=pytest.skip)


@pytest.fixture(scope="session")
def accounted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Cluster, Accounts]]:
    """A cluster whose jobs are kept by a real slurmdbd on a real MariaDB."""
    if gone := accounts.missing():
        absent(f"slurmdbd is not installed here (no {', '.join(gone)}; on Debian: apt-get install {accounts.PACKAGES})")
    kept = Accounts(tmp_path_factory.mktemp("accounts", numbered=True))
    try:
        if not kept.start():
            absent(f"no slurmdbd could be started here: {kept.trouble}")
        made = Cluster(tmp_path_factory.mktemp("accounted", numbered=True), gpus=4, storage=kept.settings)
        for cluster in started(made):
            yield cluster, kept
    finally:
        kept.stop()
