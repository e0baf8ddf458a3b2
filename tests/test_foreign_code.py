"""No command, and nothing that it starts, imports from the folder that it works in, or from one of logs."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from slurmdoctor.cli import hook as footer
from slurmdoctor.processes import python

SHADOWS = (
    "random struct signal types contextlib json pickle subprocess threading queue socket tempfile runpy "
    "encodings sitecustomize multiprocessing logging pwd zlib msgspec regex click yaml rich pyarrow distributed tornado anyio slurmdoctor"
)
PROGRAM = str(Path(sys.executable).with_name("slurmdoctor"))
CAUSE = "cause: site/x\ntitle: ran into x\n"


def planted(folder: Path) -> Path:
    """A folder with a job's logs, and with modules that tell when they are imported."""
    folder.mkdir(exist_ok=True)
    for name in SHADOWS.split():
        (folder / f"{name}.py").write_text(f"open({str(folder.parent / 'imported')!r}, 'a').write(__name__ + '\\n')\n")
    (folder / "job.sbatch").write_text("#!/bin/bash\n#SBATCH -n4\nsrun python train.py\n")
    (folder / "site.yaml").write_text(CAUSE)
    for number in range(3):
        (folder / f"slurm-{number}.out").write_text("step 1\n" * 3000 + "RuntimeError: x\n")
    return folder


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield planted(tmp_path / "planted")
    assert not (tmp_path / "imported").exists()


def run(folder: Path, *arguments: str, program: Sequence[str] = (PROGRAM,), said: str = "", **more: str) -> str:
    env = {**os.environ, **more}
    command = [*program, *arguments]
    return subprocess.run(command, cwd=folder, input=said, env=env, capture_output=True, text=True, timeout=120).stdout


@pytest.mark.parametrize(
    ("command", "told"),
    [
        ("diagnose slurm-1.out --jobs 2", "Python exception"),
        ("diagnose .", "3 jobs"),
        ("lint job.sbatch", "no problems found"),
        ("rules check site.yaml", "site.yaml"),
        ("survey run . --out ../found --jobs 2", "3 jobs, 3 of them failed; 3 read"),
    ],
)
def test_no_command_does(folder: Path, command: str, told: str) -> None:
    assert told in run(folder, *command.split())


def test_neither_do_the_processes_that_share_a_large_log(folder: Path) -> None:
    with (folder / "slurm-1.out").open("a") as log:
        log.write("step\n" * 15_000_000)
    assert "75.0 MB" in run(folder, "diagnose", "slurm-1.out", "--jobs", "2")


def test_nor_the_server_for_agents(folder: Path) -> None:
    hello = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    call = {"name": "diagnose_text", "arguments": {"log": "RuntimeError: x\n"}}
    asked = [("initialize", hello), ("tools/call", call)]
    lines = [json.dumps({"jsonrpc": "2.0", "id": n, "method": m, "params": p}) for n, (m, p) in enumerate(asked)]
    lines.insert(1, json.dumps({"jsonrpc": "2.0", "method": "notifications/initialized"}))
    server = subprocess.Popen([PROGRAM, "mcp"], cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with server:
        assert server.stdin is not None
        assert server.stdout is not None
        server.stdin.write("\n".join(lines) + "\n")
        server.stdin.flush()
        answers = [server.stdout.readline() for _ in asked]
        server.stdin.close()
    assert "RuntimeError" in answers[1]


def test_nor_a_footer(folder: Path) -> None:
    script = footer.script("footer", command=PROGRAM) + "\necho 'RuntimeError: x' >&2; exit 1\n"
    (folder / "job.sh").write_text(script)
    with (folder / "slurm-42.out").open("w") as log:
        env = {**os.environ, "SLURM_JOB_ID": "42"}
        subprocess.run(["bash", "job.sh"], cwd=folder, stdout=log, stderr=log, env=env, timeout=60, check=False)
    assert "--- end of slurmdoctor ---" in (folder / "slurm-42.out").read_text()


@pytest.mark.slow
def test_nor_a_worker_of_dask_and_its_nanny(folder: Path, tmp_path: Path) -> None:
    from distributed import LocalCluster

    with LocalCluster(n_workers=0, dashboard_address=None, host="127.0.0.1") as cluster:  # type: ignore[no-untyped-call]
        command = [*python(), "-m", "distributed.cli.dask_worker", cluster.scheduler_address, "--nthreads", "1"]
        with subprocess.Popen(command, cwd=folder, stderr=subprocess.DEVNULL) as worker:
            out = run(folder, "survey", "run", ".", "--out", "../found", "--dask", cluster.scheduler_address)
            worker.terminate()
    assert "3 jobs, 3 of them failed; 3 read" in out


def test_a_child_has_the_path_of_its_parent_but_for_the_working_folder(tmp_path: Path) -> None:
    (tmp_path / "colorsys.py").write_text("raise SystemExit('planted')")
    (tmp_path / "handed").mkdir()
    (tmp_path / "handed/given.py").write_text("import colorsys, sys; print(sys.argv[1:], __name__)")
    code = "import subprocess; from slurmdoctor.processes import python\n"
    code += "subprocess.run([*python(), '-m', 'given', 'a b', '-c'])"
    path = f":{tmp_path / 'handed'}"  # what is empty in it is the working folder
    assert run(tmp_path, "-c", code, program=[sys.executable], PYTHONPATH=path) == "['a b', '-c'] __main__\n"
