"""A slurmdbd on a MariaDB of its own, for the length of a test session: own folder, ports and socket, on loopback."""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from getpass import getuser
from pathlib import Path

from .cluster import PATH, complaints, daemon, end_all, free_ports

PROGRAMS = ("slurmdbd", "sacct", "sacctmgr", "mariadbd", "mariadb", "mariadb-install-db")
PACKAGES = "slurmdbd mariadb-server"
"""Debian's."""
_SETTINGS = """
--skip-log-bin --skip-name-resolve --innodb-buffer-pool-size=64M --innodb-log-file-size=16M
--innodb-flush-log-at-trx-commit=0 --innodb-lock-wait-timeout=900 --aria-pagecache-buffer-size=8M --key-buffer-size=1M
--performance-schema=off --max-allowed-packet=64M
"""


def missing() -> list[str]:
    """The programs that are not installed."""
    return [name for name in PROGRAMS if shutil.which(name, path=PATH) is None]


@dataclass(slots=True)
class Accounts:
    """Start it before the cluster that writes to it, and stop it after that one."""

    folder: Path
    daemons: list[subprocess.Popen[bytes]] = field(default_factory=list)
    port: int = 0
    trouble: str = ""
    _sql_port: int = 0

    @property
    def settings(self) -> str:
        """What the cluster's slurm.conf says of it."""
        return (
            "AccountingStorageType=accounting_storage/slurmdbd\nAccountingStorageHost=127.0.0.1\n"
            f"AccountingStoragePort={self.port}\nAccountingStorageTRES=gres/gpu\nAccountingStoreFlags=job_comment"
        )

    def start(self, patience: float = 40.0) -> bool:
        """Whether both answer; `trouble` says why not."""
        (self.folder / "log").mkdir(parents=True)
        self.port, self._sql_port = free_ports(2)
        self._run(
            "mariadb-install-db", "--no-defaults", f"--datadir={self._data}", f"--user={getuser()}",
            "--auth-root-authentication-method=normal", "--skip-test-db", *_SETTINGS.split(),
        )  # fmt: skip
        self._daemon(
            "mariadbd", "--no-defaults", f"--datadir={self._data}", f"--user={getuser()}", f"--socket={self._socket}",
            f"--port={self._sql_port}", "--bind-address=127.0.0.1", f"--pid-file={self.folder}/mariadbd.pid", *_SETTINGS.split(),
        )  # fmt: skip
        end = time.monotonic() + patience
        ready = self._answers(end, "sql", "CREATE DATABASE IF NOT EXISTS accounts")
        if ready:
            password = os.urandom(8).hex()
            self.sql(
                f"CREATE USER slurm@'127.0.0.1' IDENTIFIED BY '{password}'; GRANT ALL ON accounts.* TO slurm@'127.0.0.1'"
            )
            conf = self.folder / "slurmdbd.conf"
            conf.touch(mode=0o600)
            conf.write_text(self._configuration(password))
            (self.folder / "slurm.conf").write_text(
                f"ClusterName=tests\nSlurmctldHost=localhost\nAuthType=auth/none\nSlurmUser={getuser()}\n{self.settings}\n"
            )
            self._daemon("slurmdbd", "-D", env={"SLURM_CONF": str(conf.with_name("slurm.conf"))})
            ready = self._answers(end, "account", "add", "cluster", "tests")
        if not ready:
            self.trouble = complaints(self.folder / "log")
        return ready

    def stop(self) -> None:
        end_all(self.daemons)

    def sql(self, text: str) -> str:
        """What the database answers, a line a row, with tabs."""
        return self._run("mariadb", "--no-defaults", f"--socket={self._socket}", "--user=root", "-N", "-B", "-e", text)

    def account(self, *words: str) -> str:
        """What `sacctmgr` answers."""
        return self._run("sacctmgr", "-i", *words, env={"SLURM_CONF": str(self.folder / "slurm.conf")})

    # ── the daemons ──

    @property
    def _data(self) -> Path:
        return self.folder / "data"

    @property
    def _socket(self) -> Path:
        return self.folder / "sql"

    def _answers(self, end: float, way: str, *words: str) -> bool:
        while time.monotonic() < end and all(one.poll() is None for one in self.daemons):
            try:
                getattr(self, way)(*words)
            except subprocess.SubprocessError:
                time.sleep(0.1)
            else:
                return True
        return False

    def _run(self, *command: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            command, env={**_clean(), **(env or {})}, capture_output=True, text=True, timeout=60, check=True
        )
        return done.stdout

    def _daemon(self, program: str, *options: str, env: dict[str, str] | None = None) -> None:
        log = self.folder / "log" / f"{program}.out"
        self.daemons.append(daemon([program, *options], log, {**_clean(), **(env or {})}))

    def _configuration(self, password: str) -> str:
        return f"""AuthType=auth/none
DbdHost=localhost
DbdAddr=127.0.0.1
DbdPort={self.port}
SlurmUser={getuser()}
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={self._sql_port}
StorageUser=slurm
StoragePass={password}
StorageLoc=accounts
PidFile={self.folder}/slurmdbd.pid
"""


def _clean() -> dict[str, str]:
    keep = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SACCT", "MYSQL", "MARIADB"))}
    return {**keep, "PATH": PATH, "LANG": "C.UTF-8"}
