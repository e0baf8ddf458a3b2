"""A Slurm of four nodes on one host, on loopback, for the length of a test session: its own folder and ports."""

import contextlib
import getpass
import os
import resource
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from slurmdoctor.model import JobRecord
from slurmdoctor.slurm import jobinfo

PROGRAMS = ("slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "sinfo", "scancel")
PACKAGES = "slurmctld slurmd slurm-client slurm-wlm-basic-plugins"
"""Debian's."""
PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin"])
NODES = 4


def missing() -> list[str]:
    """The programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@dataclass(slots=True)
class Cluster:
    """Start it with `start`, and stop it whatever happens."""

    folder: Path
    memory: bool = False
    """Confine the memory of jobs by cgroups."""
    epilog: Path | None = None
    """An EpilogSlurmctld."""
    gpus: int = 0
    """GPUs of each node: files that no driver stands behind."""
    storage: str = "AccountingStorageType=accounting_storage/none"
    """Lines of slurm.conf that say where its accounts are kept."""
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)
    trouble: str = ""

    @property
    def env(self) -> dict[str, str]:
        keep = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "SRUN"))}
        return {**keep, "PATH": PATH, "SLURM_CONF": str(self.folder / "slurm.conf"), "LANG": "C.UTF-8"}

    def start(self, patience: float = 30.0) -> bool:
        """Whether all nodes came up; `trouble` says why not."""
        for name in ("state", "log", "jobs", *(f"spool/n{k}" for k in range(1, NODES + 1))):
            (self.folder / name).mkdir(parents=True)
        (self.folder / "slurm.conf").write_text(self._configuration())
        if self.memory:
            kind = "cgroup/v1" if Path("/sys/fs/cgroup/memory").is_dir() else "cgroup/v2\nIgnoreSystemd=yes"
            (self.folder / "cgroup.conf").write_text(
                f"CgroupPlugin={kind}\nCgroupMountpoint=/sys/fs/cgroup\nConstrainRAMSpace=yes\nConstrainSwapSpace=no\n"
            )
        if self.gpus:
            self._fake_gpus()
        self._daemon("slurmctld", "-D")
        for k in range(1, NODES + 1):
            self._daemon("slurmd", "-D", "-N", f"n{k}")
        end = time.monotonic() + patience
        while time.monotonic() < end:
            if any(d.poll() is not None for d in self.daemons):
                break
            try:
                if self.run("sinfo", "-h", "-N", "-o", "%t").split().count("idle") == NODES:
                    return True
            except subprocess.SubprocessError:
                pass
            time.sleep(0.2)
        self.trouble = complaints(self.folder / "log")
        return False

    def stop(self) -> None:
        """Cancel the jobs, and end every daemon by its own pid."""
        with contextlib.suppress(subprocess.SubprocessError):
            jobs = self.run("squeue", "-h", "-o", "%A").split()
            if jobs:
                self.run("scancel", "-s", "KILL", *jobs)
                self.run("scancel", "-f", "-b", "-s", "KILL", *jobs)
                time.sleep(0.5)
        end_all(self.daemons)

    # ── jobs ──

    def run(
        self, *command: str, timeout: float = 20.0, cwd: Path | None = None, env: Mapping[str, str] | None = None
    ) -> str:
        cwd, env = cwd or self.folder / "jobs", {**self.env, **(env or {})}
        done = subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=True)
        return done.stdout

    def submit(self, text: str, *options: str, env: Mapping[str, str] | None = None) -> str:
        """The job's id."""
        number = len(list((self.folder / "jobs").glob("*.sbatch")))
        script = self.folder / "jobs" / f"job{number}.sbatch"
        script.write_text(text)
        return self.run("sbatch", "--parsable", *options, str(script), env=env).strip().partition(";")[0]

    def wait(self, job: str, patience: float = 60.0) -> JobRecord:
        """The job's record once it has ended."""
        end = time.monotonic() + patience
        while True:
            record = self.record(job)
            if record.ended:
                return record
            assert time.monotonic() < end, (
                f"job {job} is still {record.state}: {self.output(job)}\n{complaints(self.folder / 'log')}"
            )
            time.sleep(0.3)

    def record(self, job: str) -> JobRecord:
        found = jobinfo.read([("scontrol", self.run("scontrol", "show", "job", "-d", job))], job)
        assert found is not None
        return found

    def output(self, job: str) -> str:
        path = self.record(job).std_out
        assert path is not None
        return Path(path).read_text(errors="replace") if Path(path).exists() else ""

    # ── the cluster ──

    def _daemon(self, program: str, *options: str) -> None:
        log = self.folder / "log" / f"{program}{options[-1] if program == 'slurmd' else ''}.out"
        self.daemons.append(daemon([program, *options, "-f", str(self.folder / "slurm.conf")], log, self.env))

    def _fake_gpus(self) -> None:
        for k in range(self.gpus):
            (self.folder / f"gpu{k}").touch()
        (self.folder / "gres.conf").write_text(f"Name=gpu File={self.folder}/gpu[0-{self.gpus - 1}]\n")

    def _configuration(self) -> str:
        host, user, d = socket.gethostname().partition(".")[0], getpass.getuser(), self.folder
        ports = free_ports(NODES + 1)
        gpus = f" Gres=gpu:{self.gpus}" if self.gpus else ""
        nodes = "\n".join(
            f"NodeName=n{k} NodeAddr=127.0.0.1 NodeHostname={host} Port={ports[k]} CPUs=64 RealMemory=4000{gpus}"
            for k in range(1, NODES + 1)
        )
        confined = (
            "ProctrackType=proctrack/cgroup\nTaskPlugin=task/cgroup\nSelectTypeParameters=CR_Core_Memory\nDefMemPerNode=100"
            if self.memory
            else "ProctrackType=proctrack/pgid\nTaskPlugin=task/none\nSelectTypeParameters=CR_Core"
        )
        epilog = f"EpilogSlurmctld={self.epilog}" if self.epilog else ""
        return f"""ClusterName=tests
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={ports[0]}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/none
CredType=cred/none
StateSaveLocation={d}/state
SlurmdSpoolDir={d}/spool/%n
SlurmctldPidFile={d}/slurmctld.pid
SlurmdPidFile={d}/slurmd-%n.pid
SlurmdParameters=config_overrides
JobAcctGatherType=jobacct_gather/none
{self.storage}
MpiDefault=none
ReturnToService=2
KillWait=20
MinJobAge=3600
SelectType=select/cons_tres
{confined}
{epilog}
{"GresTypes=gpu" if self.gpus else ""}
SchedulerParameters=sched_min_interval=100000,batch_sched_delay=0,bf_interval=1
{nodes}
PartitionName=all Nodes=ALL Default=YES MaxTime=60 OverSubscribe=NO State=UP
"""


def daemon(command: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A program that runs on; what it says goes to the log."""
    path = shutil.which(command[0], path=PATH)
    assert path is not None
    with log.open("wb") as out:
        streams: Any = {"stdin": subprocess.DEVNULL, "stdout": out, "stderr": subprocess.STDOUT}
        return subprocess.Popen([path, *command[1:]], env=env, start_new_session=True, preexec_fn=_few_files, **streams)


def _few_files() -> None:
    # with millions of descriptors allowed, Slurm's programs close them one by one
    limit = 4096
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (limit if hard < 0 else min(limit, hard), hard))


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [int(one.getsockname()[1]) for one in sockets]
    finally:
        for one in sockets:
            one.close()


def end_all(daemons: Sequence[subprocess.Popen[bytes]]) -> None:
    """End each by its own pid, the last one first."""
    for one in reversed(daemons):
        if one.poll() is None:
            one.send_signal(signal.SIGTERM)
    end = time.monotonic() + 8
    for one in reversed(daemons):
        try:
            one.wait(max(0.1, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
            one.wait()


def complaints(logs: Path) -> str:
    """What daemons that did not come up have said."""
    lines: list[str] = []
    for file in sorted(logs.glob("*")):
        text = file.read_text(errors="replace").splitlines()
        lines += [f"{file.name}: {line}" for line in text if "error" in line.lower() or "fatal" in line][-4:]
    return "\n".join(lines) or "they did not answer in time"
